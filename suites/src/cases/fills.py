"""Fills a pool with one kind of thing until a write is refused, or removes most of it again. Prints a line of JSON: how many, and the states of
health in the order in which they came."""

import json
import os
import sys
import time

import rados

FULL_TRY, FULL_FORCE = 64, 128
STATES = ["OSD_NEARFULL", "OSD_BACKFILLFULL", "OSD_FULL"]
DEPTH = 32
# Seconds of a step: an OSD looks at its store once a second, and is to see each state.
PACE = {"omap": 0.004, "attrs": 0.012, "tiny": 0.0005, "clones": 0.06, "large": 0.12}
# Objects that are overwritten in turns, a snapshot between two rounds.
HEADS = 40


class Health:
    """Looks at the cluster's health twice a second at most."""

    def __init__(self, cluster):
        self.cluster, self.seen, self.next = cluster, [], 0.0

    def state(self):
        code, out, _ = self.cluster.mon_command(json.dumps({"prefix": "health", "format": "json"}), b"")
        assert code == 0, out
        checks = json.loads(out)["checks"]
        return ([s for s in STATES if s in checks] or [""])[-1]

    def look(self, now=False):
        if not now and time.monotonic() < self.next:
            return
        self.next = time.monotonic() + 0.5
        state = self.state()
        if not self.seen or self.seen[-1] != state:
            self.seen.append(state)


def change(io, op, kind, n):
    """The object that step `n` changes, and what it adds."""
    if kind == "omap":
        keys = tuple("%08d-%03d" % (n * 7919 % 99991, i) for i in range(100))
        io.set_omap(op, keys, tuple(os.urandom(150) for _ in keys))
        return "object%d" % (n % 50)
    if kind == "attrs":
        op.set_xattr("a%d" % (n % 15), os.urandom(60000))
        return "object%d" % (n // 15)
    if kind == "clones":
        op.write_full(os.urandom(1 << 19))
        return "object%d" % (n % HEADS)
    op.write_full(os.urandom(500 if kind == "tiny" else 1 << 20))
    return "object%d" % n


def fill(cluster, io, kind):
    health = Health(cluster)
    waiting, refused, n = [], 0, 0
    while refused == 0 and n < 400000:
        if kind == "clones" and n % HEADS == 0 and n > 0:
            io.create_snap("snap%d" % n)
        with rados.WriteOpCtx() as op:
            name = change(io, op, kind, n)
            waiting.append(io.operate_aio_write_op(op, name, flags=FULL_TRY))
        n += 1
        time.sleep(PACE[kind])
        while len(waiting) > DEPTH:
            done = waiting.pop(0)
            done.wait_for_complete()
            code = done.get_return_value()
            assert code in (0, -28, -122), "step %d: %d" % (n, code)
            refused += code != 0
        health.look()
    for done in waiting:
        done.wait_for_complete()
    deadline = time.monotonic() + 15
    while health.state() != "OSD_FULL" and time.monotonic() < deadline:
        time.sleep(0.2)
    for _ in range(20):
        # It stays full, though clients go on asking.
        health.look(now=True)
        with rados.WriteOpCtx() as op:
            op.write_full(b"more")
            try:
                io.operate_write_op(op, "more", flags=FULL_TRY)
            except rados.Error:
                pass
        time.sleep(0.5)
    print(json.dumps({"steps": n, "refused": refused, "states": health.seen}))


def remove(io, kind, name):
    if kind == "clones":
        return io.remove_snap(name)
    with rados.WriteOpCtx() as op:
        op.remove()
        io.operate_write_op(op, name, flags=FULL_FORCE)


def empty(cluster, io, kind):
    health = Health(cluster)
    names = [s.name for s in io.list_snaps()] if kind == "clones" else [o.key for o in io.list_objects()]
    for name in names[: len(names) * 4 // 5]:
        remove(io, kind, name)
        health.look()
    deadline = time.monotonic() + 60
    while health.state() != "" and time.monotonic() < deadline:
        time.sleep(0.2)
        health.look()
    health.look(now=True)
    io.write_full("service", b"is back")
    print(json.dumps({"removed": len(names) * 4 // 5, "states": health.seen}))


def main():
    conf, verb, kind = sys.argv[1:4]
    cluster = rados.Rados(conffile=conf)
    cluster.connect(timeout=20)
    io = cluster.open_ioctx("fill")
    if verb == "fill":
        fill(cluster, io, kind)
    else:
        empty(cluster, io, kind)


main()
