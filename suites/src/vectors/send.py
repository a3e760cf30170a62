"""Sends vectors of operations to several clusters by one librados, and says what each answered and what it holds then.

A line of JSON in, a line of JSON out. Takes the clusters' ceph.conf files as arguments. Bytes are hexadecimal.
"""

import ctypes as c
import json
import sys

import cxx

lib = cxx.lib
for name in ("rados_create_write_op", "rados_create_read_op"):
    getattr(lib, name).restype = c.c_void_p
lib.rados_get_last_version.restype = c.c_uint64
TIMEOUT_S = b"15"
# LIBRADOS_SNAP_HEAD, LIBRADOS_SNAP_DIR
HEAD, DIR = 2**64 - 2, 2**64 - 1


def P(value):
    return c.c_void_p(value)


class Cluster:
    def __init__(self, conf, pool):
        self.rados = c.c_void_p()
        self.ok(lib.rados_create(c.byref(self.rados), b"admin"))
        self.ok(lib.rados_conf_read_file(self.rados, conf.encode()))
        # Stock never answers some vectors.
        self.ok(lib.rados_conf_set(self.rados, b"rados_osd_op_timeout", TIMEOUT_S))
        self.ok(lib.rados_connect(self.rados))
        # One group: it has a version by which all objects are beyond their first.
        self.command({"prefix": "osd pool create", "pool": pool, "pg_num": 1})
        self.io = c.c_void_p()
        self.ok(lib.rados_ioctx_create(self.rados, pool.encode(), c.byref(self.io)))
        # Snapshots are the monitors' and take their time: each is made once, and taken by any object that never knew it.
        self.made, self.snaps = [], []

    def command(self, command):
        text, out, status = (c.c_char_p * 1)(json.dumps(command).encode()), c.c_void_p(), c.c_void_p()
        lengths = c.c_size_t(), c.c_size_t()
        self.ok(lib.rados_mon_command(self.rados, text, c.c_size_t(1), b"", c.c_size_t(0), c.byref(out), c.byref(lengths[0]), c.byref(status),
                                      c.byref(lengths[1])))

    @staticmethod
    def ok(code):
        if code < 0:
            raise SystemExit(f"librados: {code}")

    def sources(self):
        """Objects that COPY_FROM copies: one with everything, one that is empty; the third is not there."""
        self.copied = [b"source-full", b"source-empty", b"source-none"]
        # Copies have the versions of what they were copied from, and no version is the first: there is one before each.
        for name, ops in ((self.copied[0], FULL), (self.copied[1], [{"op": "setxattr", "name": "61", "data": ""}, {"op": "rmxattr", "name": "61"}])):
            for _ in range(3):
                self.vector(name, ops, True, 0)

    def begin(self):
        self.snaps = []
        self.context()

    def context(self):
        ids = (c.c_uint64 * max(1, len(self.snaps)))(*reversed(self.snaps))
        seq = self.snaps[-1] if self.snaps else 0
        self.ok(lib.rados_ioctx_selfmanaged_snap_set_write_ctx(self.io, c.c_uint64(seq), ids, len(self.snaps)))

    def step(self, oid, step):
        if step["kind"] == "snapshot":
            if len(self.snaps) == len(self.made):
                snap = c.c_uint64()
                self.ok(lib.rados_ioctx_selfmanaged_snap_create(self.io, c.byref(snap)))
                self.made.append(snap.value)
            self.snaps.append(self.made[len(self.snaps)])
            self.context()
            return {}
        if step["kind"] == "rollback":
            if not self.snaps:
                return {}
            snap = self.snaps[step["back"] % len(self.snaps)]
            return {"result": lib.rados_ioctx_selfmanaged_snap_rollback(self.io, oid, c.c_uint64(snap))}
        if step["kind"] == "write":
            return self.vector(oid, step["ops"], True, step["flags"])
        # Clones are listed of the folder of snapshots.
        lists = any(o["op"] == "list_snaps" for o in step["ops"])
        at = self.snap(step["at"]) if step.get("at") is not None else HEAD
        at = DIR if lists else at
        lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(at))
        answer = self.vector(oid, step["ops"], False, 0, at)
        lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(HEAD))
        return answer

    def snap(self, back):
        return self.snaps[back % len(self.snaps)] if self.snaps else HEAD

    def named(self, snaps):
        """Snapshots by their order: their numbers are each cluster's own."""
        return [self.snaps.index(snap) if snap in self.snaps else "gone" for snap in snaps]

    def vector(self, oid, ops, writes, flags, at=HEAD):
        kind = "write" if writes else "read"
        op = P(getattr(lib, f"rados_create_{kind}_op")())
        kept, codes, outs = [], [], []

        def add(name, *args):
            getattr(lib, f"rados_{kind}_op_{name}")(op, *args)

        for o in ops:
            code = c.c_int(0)
            codes.append(code)
            data = bytes.fromhex(o.get("data", ""))
            name = bytes.fromhex(o.get("name", ""))
            size, offset, length = c.c_size_t(len(data)), c.c_uint64(o.get("offset", 0)), o.get("length", 0)
            what = o["op"]
            out = None
            if what in ("setxattr",):
                add(what, name, data, size)
            elif what == "rmxattr":
                add(what, name)
            elif what == "cmpxattr":
                add(what, name, c.c_uint8(o["compare"]), data, size)
            elif what == "omap_cmp":
                add(what, name, c.c_uint8(o["compare"]), data, size, c.byref(code))
            elif what == "cmpext":
                add(what, data, size, offset, c.byref(code))
            elif what in ("assert_exists", "remove", "omap_clear"):
                add(what)
            elif what == "assert_version":
                # Of the head: versions are each cluster's own.
                lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(HEAD))
                there = lib.rados_stat(self.io, oid, c.byref(c.c_uint64()), None) == 0
                lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(at))
                add(what, c.c_uint64(max(1, lib.rados_get_last_version(self.io) + o["ahead"]) if there else 1))
            elif what == "create":
                add(what, 1 if o.get("exclusive") else 0, None)
            elif what == "write":
                add(what, data, size, offset)
            elif what in ("write_full", "append"):
                add(what, data, size)
            elif what == "writesame":
                add(what, data, size, c.c_size_t(len(data) * length), offset)
            elif what == "truncate":
                add(what, offset)
            elif what == "zero":
                add(what, offset, c.c_uint64(length))
            elif what == "set_alloc_hint":
                add(what, offset, c.c_uint64(length))
            elif what in ("omap_set", "omap_rm_keys"):
                keys, values, sizes, count = arrays(o)
                kept.append((keys, values, sizes))
                add(what, keys, *((values, sizes) if what == "omap_set" else ()), c.c_size_t(count))
            elif what == "set_alloc_hint2":
                add(what, offset, c.c_uint64(length), c.c_uint(o["hint"]))
            elif what == "omap_set_header":
                bytes_in = cxx.Buffer(data)
                kept.append(bytes_in)
                cxx.call("write", op, what, cxx.LIST, c.byref(bytes_in))
            elif what == "copy_from":
                source = cxx.String(self.copied[o["source"]])
                cxx.call("write", op, what, f"{cxx.STRING}RKNS0_5IoCtxEmj", c.byref(source), c.byref(self.io), c.c_uint64(0), c.c_uint(0))
            elif what == "rollback":
                # Without snapshots, to one that never was.
                snap = self.snap(o["back"]) if self.snaps else 1 << 40
                cxx.call("write", op, "selfmanaged_snap_rollback", "m", c.c_uint64(snap))
            elif what in CALLED_BARE:
                cxx.call(kind, op, what, "v")
            elif what == "omap_rm_range2":
                add(what, name, c.c_size_t(len(name)), data, size)
            elif what == "exec":
                bytes_in, out = cxx.Buffer(data), Bytes()
                kept.append((bytes_in, out))
                cxx.call("both", op, what, f"PKcS3_RN4{cxx.BUFFER}EPS7_Pi", o["class"].encode(), o["method"].encode(), c.byref(bytes_in),
                         c.byref(out.buffer), c.byref(code))
            elif what == "getxattr":
                out = Bytes()
                cxx.call("read", op, what, f"PKcPN4{cxx.BUFFER}EPi", name, c.byref(out.buffer), c.byref(code))
            elif what == "omap_get_header":
                out = Bytes()
                cxx.call("read", op, what, f"PN4{cxx.BUFFER}EPi", c.byref(out.buffer), c.byref(code))
            elif what == "sparse_read":
                out = Sparse()
                cxx.call("read", op, what, f"mmPSt3mapImmSt4lessImESaISt4pairIKmmEEEPN4{cxx.BUFFER}EPi", offset, c.c_uint64(length),
                         c.byref(out.extents), c.byref(out.buffer), c.byref(code))
            elif what == "list_snaps":
                out = Clones(self)
                cxx.call("read", op, what, "PNS_10snap_set_tEPi", c.byref(out.snaps), c.byref(code))
            elif what == "list_watchers":
                cxx.call("read", op, what, "PNSt7__cxx114listI11obj_watch_tSaIS4_EEEPi", None, c.byref(code))
            elif what == "is_dirty":
                out = Out(c.c_bool)
                cxx.call("read", op, what, "PbPi", c.byref(out.buffer), c.byref(code))
            elif what == "checksum":
                out = Out(c.c_char * 64)
                out.used = c.c_size_t(64)
                add(what, c.c_int(o["kind"]), data, size, offset, c.c_size_t(length), c.c_size_t(o["chunk"]), out.buffer, c.c_size_t(64),
                    c.byref(code))
            elif what == "read":
                out = Out(c.c_char * max(1, length))
                kept.append(out)
                add(what, offset, c.c_size_t(length), out.buffer, c.byref(out.used), c.byref(code))
            elif what == "stat":
                out = Out(c.c_uint64)
                kept.append(out)
                add(what, c.byref(out.buffer), None, c.byref(code))
            elif what == "getxattrs":
                out = Pairs(attrs=True)
                add(what, c.byref(out.iterator), c.byref(code))
            elif what in ("omap_get_vals2", "omap_get_keys2"):
                out = Pairs()
                more = c.c_ubyte()
                kept.append(more)
                prefix = (data,) if what == "omap_get_vals2" else ()
                add(what, name, *prefix, c.c_uint64(length), c.byref(out.iterator), c.byref(more), c.byref(code))
            elif what == "omap_get_vals_by_keys":
                out = Pairs()
                keys, _, _, count = arrays(o)
                kept.append(keys)
                add(what, keys, c.c_size_t(count), c.byref(out.iterator), c.byref(code))
            else:
                raise SystemExit(f"no operation {what} in a {kind}")
            outs.append(out)
            if o.get("flags"):
                getattr(lib, f"rados_{kind}_op_set_flags")(op, o["flags"])
        if writes:
            result = lib.rados_write_op_operate(op, self.io, oid, None, flags)
        else:
            result = lib.rados_read_op_operate(op, self.io, oid, flags)
        getattr(lib, f"rados_release_{kind}_op")(op)
        answer = {"result": result, "codes": [code.value for code in codes]}
        answer["outs"] = [None if out is None else out.taken(result >= 0) for out in outs]
        return answer

    def state(self, oid):
        """Of the head and of each snapshot, each in one vector."""
        return [self.held(oid, HEAD if snap is None else snap) for snap in [None, *self.snaps]]

    def forget(self, oid):
        """Removes an object, and waits for nothing: no case has that name again."""
        done = c.c_void_p()
        self.ok(lib.rados_aio_create_completion2(None, None, c.byref(done)))
        self.ok(lib.rados_aio_remove(self.io, oid, done))
        lib.rados_aio_release(done)

    def held(self, oid, at):
        lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(at))
        got = self.vector(oid, WHOLE, False, 0, at)
        lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(HEAD))
        if got["result"] < 0:
            return {"stat": got["result"]}
        size, data, *more = got["outs"]
        if size > MOST:
            raise SystemExit(f"an object of {size} bytes: more than {MOST}, which are looked at")
        return {"size": size, "data": data, "more": more, "codes": got["codes"]}


def arrays(o):
    """Keys, values and their sizes as the C interface takes them."""
    pairs = [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in o["pairs"]]
    count = len(pairs)
    keys, values = ((c.c_char_p * count)(*part) for part in zip(*pairs))
    return keys, values, (c.c_size_t * count)(*(len(value) for _, value in pairs)), count


# No case makes an object as large.
MOST = 4096
WHOLE = [{"op": "stat"}, {"op": "read", "offset": 0, "length": MOST}, {"op": "getxattrs"}, {"op": "omap_get_vals2", "length": 1000},
         {"op": "omap_get_header"}]
CALLED_BARE = ("undirty", "cache_pin", "cache_unpin", "unset_manifest", "tier_promote")
FULL = [{"op": "write_full", "data": "636f70696564"}, {"op": "setxattr", "name": "61", "data": "39"},
        {"op": "omap_set", "pairs": [["62", "38"]]}, {"op": "omap_set_header", "data": "37"}]


class Bytes:
    def __init__(self):
        self.buffer = cxx.Buffer()

    def taken(self, _):
        return self.buffer.bytes().hex()


class Sparse(Bytes):
    def __init__(self):
        super().__init__()
        self.extents = cxx.Map()

    def taken(self, ok):
        return [self.extents.pairs(), super().taken(ok)]


class Clones:
    def __init__(self, cluster):
        self.snaps, self.cluster = cxx.Snaps(), cluster

    def taken(self, _):
        # HEAD is a clone in the answer, too.
        named = lambda number: "head" if number == HEAD else self.cluster.named([number])
        return [[named(number), self.cluster.named(snaps), overlaps, size] for number, snaps, overlaps, size in self.snaps.clones()]


class Out:
    def __init__(self, kind):
        self.buffer, self.used = kind(), c.c_size_t()

    def taken(self, ok):
        if not ok:
            return None
        if isinstance(self.buffer, (c.c_uint64, c.c_bool)):
            return self.buffer.value
        return bytes(self.buffer[:self.used.value]).hex()


class Pairs:
    def __init__(self, attrs=False):
        self.iterator, self.attrs = c.c_void_p(), attrs

    def taken(self, _):
        found = {}
        if not self.iterator:
            return None
        key, value, size, klen = c.c_void_p(), c.c_void_p(), c.c_size_t(), c.c_size_t()
        while True:
            if self.attrs:
                lib.rados_getxattrs_next(self.iterator, c.byref(key), c.byref(value), c.byref(size))
                name = c.string_at(key.value) if key.value else b""
            else:
                lib.rados_omap_get_next2(self.iterator, c.byref(key), c.byref(value), c.byref(klen), c.byref(size))
                name = c.string_at(key.value, klen.value) if key.value else b""
            if not key.value:
                break
            found[name.hex()] = c.string_at(value.value, size.value).hex() if value.value else ""
        (lib.rados_getxattrs_end if self.attrs else lib.rados_omap_get_end)(self.iterator)
        return found


def main():
    pool, *confs = sys.argv[1:]
    clusters = [Cluster(conf, pool) for conf in confs]
    for cluster in clusters:
        cluster.sources()
    print(json.dumps({"ready": len(clusters)}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        oid = case["object"].encode()
        answers = []
        for cluster in clusters:
            cluster.begin()
            steps = [cluster.step(oid, step) for step in case["steps"]]
            answers.append({"steps": steps, "state": cluster.state(oid)})
            cluster.forget(oid)
        print(json.dumps(answers), flush=True)


main()
