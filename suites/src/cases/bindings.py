#!/usr/bin/python3
"""What Python's rados and rbd bindings see: bindings.py CEPH_CONF POOL"""
import errno
import sys
import threading

import rados
import rbd

conf, pool = sys.argv[1:]
cluster = rados.Rados(conffile=conf, name="client.admin")
cluster.connect()
io = cluster.open_ioctx(pool)


def fails(code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as e:  # the bindings' classes differ by errno; the number is what counts
        assert getattr(e, "errno", None) in (code, -code), f"{call}: {e!r}, {code} was due"
        return
    raise AssertionError(f"{call}{args} did not fail")


# Data at odd offsets.
io.write_full("o", b"x" * 10000)
io.write("o", b"abc", 4095)
assert io.read("o", 10, 4090) == b"xxxxxabcxx"
assert io.read("o", 100, 9990) == b"x" * 10
assert io.read("o", 100, 20000) == b""
io.write("o", b"end", 70001)
assert io.read("o", 6, 69998) == b"\0\0\0end"
assert io.stat("o")[0] == 70004
io.trunc("o", 5)
assert io.read("o") == b"xxxxx"
io.append("o", b"yy")
assert io.read("o") == b"xxxxxyy"
io.remove_object("o")
fails(errno.ENOENT, io.read, "o")
fails(errno.ENOENT, io.remove_object, "o")
fails(errno.ENOENT, io.stat, "o")

# Attributes.
io.write_full("a", b"")
io.set_xattr("a", "k", b"\0\1")
assert io.get_xattr("a", "k") == b"\0\1"
fails(errno.ENODATA, io.get_xattr, "a", "nosuch")
assert dict(io.get_xattrs("a")) == {"k": b"\0\1"}
io.rm_xattr("a", "k")

# 100,000 omap keys, written and read in parts.
count, step = 100000, 5000
for start in range(0, count, step):
    keys = [f"key{i:06}" for i in range(start, start + step)]
    with rados.WriteOpCtx() as op:
        io.set_omap(op, tuple(keys), tuple(k.encode() * 2 for k in keys))
        io.operate_write_op(op, "omap")
seen, after = 0, ""
while True:
    with rados.ReadOpCtx() as op:
        it, ret = io.get_omap_vals(op, after, "", 3000)
        io.operate_read_op(op, "omap")
        page = list(it)
    if not page:
        break
    for key, value in page:
        assert key == f"key{seen:06}" and value == key.encode() * 2, key
        seen += 1
    after = page[-1][0]
assert seen == count, seen
with rados.ReadOpCtx() as op:
    it, ret = io.get_omap_vals_by_keys(op, ("key000007", "nosuch", "key099999"))
    io.operate_read_op(op, "omap")
    assert [k for k, _ in it] == ["key000007", "key099999"]
with rados.WriteOpCtx() as op:
    io.remove_omap_keys(op, ("key000000",))
    io.operate_write_op(op, "omap")
with rados.ReadOpCtx() as op:
    it, ret = io.get_omap_vals(op, "", "key00000", 100)
    io.operate_read_op(op, "omap")
    assert [k for k, _ in it] == [f"key00000{i}" for i in range(1, 10)]
with rados.WriteOpCtx() as op:
    io.clear_omap(op)
    io.operate_write_op(op, "omap")

# One op vector is all or nothing.
with rados.WriteOpCtx() as op:
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
    op.write_full(b"never")
    fails(errno.EEXIST, io.operate_write_op, op, "a")
assert io.read("a") == b""

# Completions in order on one object.
done = []
for i in range(200):
    io.aio_append("seq", bytes([i]), oncomplete=lambda c, i=i: done.append(i))
io.aio_flush()
assert io.read("seq") == bytes(range(200))

# Watch and notify.
got, event = [], threading.Event()


def on_notify(notify_id, notifier, watch_id, data):
    got.append(data)
    event.set()
    return b"seen"


watch = io.watch("a", on_notify)
assert watch.get_id()
assert io.notify("a", "ping", 5000)
assert event.wait(10) and got[0] == b"ping", got
watch.close()

# Locks.
io.lock_exclusive("a", "l", "c1")
fails(errno.EBUSY, io.lock_exclusive, "a", "l", "c2")
io.unlock("a", "l", "c1")
fails(errno.ENOENT, io.unlock, "a", "l", "c1")

# Object classes that are not there, methods that are not there.
fails(errno.EOPNOTSUPP, io.execute, "a", "nosuchclass", "m", b"")

# Pool snapshots.
io.write_full("s", b"before")
io.create_snap("snap1")
io.write_full("s", b"after!")
assert [s.name for s in io.list_snaps()] == ["snap1"]
io.set_read(io.lookup_snap("snap1").snap_id)
assert io.read("s") == b"before"
io.set_read(rados.LIBRADOS_SNAP_HEAD)
io.remove_snap("snap1")

# Images. An image and its pool's snapshots don't mix, so another pool.
cluster.create_pool(pool + "-rbd")
rio = cluster.open_ioctx(pool + "-rbd")
rbd.RBD().pool_init(rio, False)
rbd.RBD().create(rio, "img", 32 << 20, old_format=False)
with rbd.Image(rio, "img") as image:
    assert image.size() == 32 << 20
    image.write(b"first" * 1000, 12345)
    assert image.read(12345, 5000) == b"first" * 1000
    image.create_snap("s")
    image.write(b"other" * 1000, 12345)
    image.set_snap("s")
    assert image.read(12345, 5000) == b"first" * 1000
    image.set_snap(None)
    assert image.read(12345, 5000) == b"other" * 1000
    # Whole objects: librbd leaves what is smaller than its discard granularity as it is.
    image.discard(0, 4 << 20)
    assert image.read(12345, 5000) == b"\0" * 5000
    extents = []
    image.diff_iterate(0, image.size(), None, lambda off, length, exists: extents.append((off, length, exists)))
    image.remove_snap("s")
    image.resize(8 << 20)
    assert image.stat()["size"] == 8 << 20
assert rbd.RBD().list(rio) == ["img"]
rbd.RBD().remove(rio, "img")
rio.close()
io.close()
cluster.shutdown()
print("bindings: all checks passed")
