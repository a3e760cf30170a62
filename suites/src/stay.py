"""A stock client for the cases among stock daemons: many requests by one process. Processes by the dozen cost more than what they ask.

    stay.py ask                             answers command lines of `ceph` from its input, each with a line of JSON, until that ends
    stay.py write|verify POOL TAG COUNT     so many objects, each with its own content
    stay.py large|changed|whole POOL        makes objects that are large in each way, changes them beside a snapshot, says whether all is there

Which cluster: CEPH_CONF. Commands are checked and sent by what the `ceph` tool itself uses for that.
"""

import json
import os
import shlex
import sys

import rados
from ceph_argparse import json_command, parse_json_funcsigs, validate_command


def client():
    """Connects where `with` begins, and says farewell where it ends."""
    return rados.Rados(conffile=os.environ["CEPH_CONF"], name="client.admin")


class Commands:
    """What the monitors know of commands: more of them when a manager is there."""

    def __init__(self, cluster):
        self.cluster, self.known = cluster, {}

    def answer(self, line):
        args, form = shlex.split(line)[1:], {}
        if "-f" in args:
            at = args.index("-f")
            form = {"format": args[at + 1]}
            del args[at : at + 2]
        valid = self.known and validate_command(self.known, args)
        if not valid:
            ret, out, err = json_command(self.cluster, prefix="get_command_descriptions")
            if ret:
                return ret, out, err
            self.known = parse_json_funcsigs(out.decode(), "cli")
            valid = validate_command(self.known, args)
        if not valid:
            return -22, b"", "no such command"
        return json_command(self.cluster, argdict={**valid, **form})


def ask():
    with client() as cluster:
        commands = Commands(cluster)
        for line in sys.stdin:
            try:
                ret, out, err = commands.answer(line)
            except Exception as e:
                ret, out, err = -1, b"", repr(e)
            print(json.dumps({"ret": ret, "out": out.decode(errors="replace"), "err": err}), flush=True)


def content(tag, i):
    return f"{tag} {i} ".encode() * (500 + i * 37)


def objects(verb, pool, tag, count):
    with client() as cluster, cluster.open_ioctx(pool) as pool:
        for i in range(int(count)):
            name, due = f"{tag}-{i}", content(tag, i)
            if verb == "write":
                pool.write_full(name, due)
            elif pool.read(name, len(due) + 1) != due:
                sys.exit(f"{name} is not what was written")


# Of omap 30 MiB, of attributes as large as a BlueStore takes, and of data as much as `osd_max_write_size` lets through at once.
KEYS, VALUE, ATTR, ATTRS, DATA = 200_000, 130, 65536, 4, 90 << 20
SNAPSHOT = "before"


def key(n):
    return f"{n:020}"


def value(n, age):
    return f"{age} {n} ".encode().ljust(VALUE, b".")


def attr(n, age):
    return bytes([65 + n + age]) * ATTR


def data(age):
    return f"{age} of what is large. ".encode() * (DATA // 20)


def set_keys(pool, numbers, age):
    for first in range(0, len(numbers), 20_000):
        some = numbers[first : first + 20_000]
        with rados.WriteOpCtx() as op:
            pool.set_omap(op, tuple(key(n) for n in some), tuple(value(n, age) for n in some))
            pool.operate_write_op(op, "omap")


def large(pool):
    set_keys(pool, range(KEYS), 0)
    for n in range(ATTRS):
        pool.set_xattr("attrs", f"a{n}", attr(n, 0))
    pool.write_full("data", data(0))


def changed(pool):
    pool.create_snap(SNAPSHOT)
    set_keys(pool, range(0, KEYS, 10), 1)
    pool.set_xattr("attrs", "a1", attr(1, 1))
    pool.write_full("data", data(1))


def is_whole(pool, age):
    """Everything as it was before the change, or after it."""
    found, after = 0, ""
    while True:
        with rados.ReadOpCtx() as op:
            rows, _ = pool.get_omap_vals(op, after, "", 10_000)
            pool.operate_read_op(op, "omap")
            some = list(rows)
        for name, got in some:
            if name != key(found) or got != value(found, age if found % 10 == 0 else 0):
                sys.exit(f"omap {name} is {got[:20]}")
            found, after = found + 1, name
        if not some:
            break
    if found != KEYS:
        sys.exit(f"{found} keys")
    for n in range(ATTRS):
        if pool.get_xattr("attrs", f"a{n}") != attr(n, age if n == 1 else 0):
            sys.exit(f"attribute a{n}")
    due = data(age)
    if pool.read("data", len(due) + 1) != due:
        sys.exit("data")


def whole(pool):
    is_whole(pool, 1)
    pool.set_read(pool.lookup_snap(SNAPSHOT).snap_id)
    is_whole(pool, 0)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask()
    elif len(sys.argv) == 3:
        with client() as cluster, cluster.open_ioctx(sys.argv[2]) as pool:
            {"large": large, "changed": changed, "whole": whole}[sys.argv[1]](pool)
    else:
        objects(*sys.argv[1:])
