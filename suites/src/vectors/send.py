"""Sends vectors of operations to several clusters by one librados, and says what each answered and what it holds then.

A line of JSON in, a line of JSON out. Takes the clusters' ceph.conf files as arguments. Bytes are hexadecimal.
"""

import ctypes as c
import json
import sys

lib = c.CDLL("librados.so.2")
for name in ("rados_create_write_op", "rados_create_read_op"):
    getattr(lib, name).restype = c.c_void_p
TIMEOUT_S = b"15"
EQ = 1


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
        lib.rados_pool_create(self.rados, pool.encode())
        self.io = c.c_void_p()
        self.ok(lib.rados_ioctx_create(self.rados, pool.encode(), c.byref(self.io)))
        self.snaps = []

    @staticmethod
    def ok(code):
        if code < 0:
            raise SystemExit(f"librados: {code}")

    def begin(self):
        for snap in self.snaps:
            lib.rados_ioctx_selfmanaged_snap_remove(self.io, c.c_uint64(snap))
        self.snaps = []
        self.context()

    def context(self):
        ids = (c.c_uint64 * max(1, len(self.snaps)))(*reversed(self.snaps))
        seq = self.snaps[-1] if self.snaps else 0
        self.ok(lib.rados_ioctx_selfmanaged_snap_set_write_ctx(self.io, c.c_uint64(seq), ids, len(self.snaps)))

    def step(self, oid, step):
        if step["kind"] == "snapshot":
            snap = c.c_uint64()
            self.ok(lib.rados_ioctx_selfmanaged_snap_create(self.io, c.byref(snap)))
            self.snaps.append(snap.value)
            self.context()
            return {}
        if step["kind"] == "rollback":
            if not self.snaps:
                return {}
            snap = self.snaps[step["back"] % len(self.snaps)]
            return {"result": lib.rados_ioctx_selfmanaged_snap_rollback(self.io, oid, c.c_uint64(snap))}
        return self.vector(oid, step["ops"], step["kind"] == "write", step.get("flags", 0))

    def vector(self, oid, ops, writes, flags):
        kind = "write" if writes else "read"
        op = P(getattr(lib, f"rados_create_{kind}_op")())
        kept, codes, outs = [], [], []

        def add(name, *args):
            getattr(lib, f"rados_{kind}_op_{name}")(op, *args)

        for at, o in enumerate(ops):
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
            elif what == "omap_set":
                keys, values, sizes = (c.c_char_p * 1)(name), (c.c_char_p * 1)(data), (c.c_size_t * 1)(len(data))
                kept.append((keys, values, sizes))
                add("omap_set", keys, values, sizes, c.c_size_t(1))
            elif what == "omap_rm_keys":
                keys = (c.c_char_p * 1)(name)
                kept.append(keys)
                add("omap_rm_keys", keys, c.c_size_t(1))
            elif what == "omap_rm_range2":
                add(what, name, c.c_size_t(len(name)), data, size)
            elif what == "exec" and writes:
                add(what, o["class"].encode(), o["method"].encode(), data, size, c.byref(code))
            elif what == "exec":
                out = Out(c.c_char * 65536)
                kept.append(out)
                add("exec_user_buf", o["class"].encode(), o["method"].encode(), data, size, out.buffer, c.c_size_t(65536),
                    c.byref(out.used), c.byref(code))
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
                keys = (c.c_char_p * 1)(name)
                kept.append(keys)
                add(what, keys, c.c_size_t(1), c.byref(out.iterator), c.byref(code))
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
        if not writes:
            answer["outs"] = [None if out is None else out.taken(result >= 0) for out in outs]
        return answer

    def state(self, oid):
        """Of the head and of each snapshot."""
        held = []
        for snap in [None, *self.snaps]:
            # LIBRADOS_SNAP_HEAD
            lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(2**64 - 2 if snap is None else snap))
            size = c.c_uint64()
            code = lib.rados_stat(self.io, oid, c.byref(size), None)
            if code < 0:
                held.append({"stat": code})
                continue
            data = (c.c_char * max(1, size.value))()
            got = lib.rados_read(self.io, oid, data, c.c_size_t(size.value), c.c_uint64(0)) if size.value else 0
            asked = [{"op": "getxattrs"}, {"op": "omap_get_vals2", "length": 1000}]
            held.append({"size": size.value, "data": bytes(data[:max(0, got)]).hex(), "more": self.vector(oid, asked, False, 0)["outs"]})
        lib.rados_ioctx_snap_set_read(self.io, c.c_uint64(2**64 - 2))
        return held


class Out:
    def __init__(self, kind):
        self.buffer, self.used = kind(), c.c_size_t()

    def taken(self, ok):
        if not ok:
            return None
        if isinstance(self.buffer, c.c_uint64):
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
    print(json.dumps({"ready": len(clusters)}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        oid = case["object"].encode()
        answers = []
        for cluster in clusters:
            cluster.begin()
            steps = [cluster.step(oid, step) for step in case["steps"]]
            answers.append({"steps": steps, "state": cluster.state(oid)})
            lib.rados_remove(cluster.io, oid)
        print(json.dumps(answers), flush=True)


main()
