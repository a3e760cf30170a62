"""A stock client for the cases among stock daemons: many requests by one process. Processes by the dozen cost more than what they ask.

    stay.py ask                             answers command lines of `ceph` from its input, each with a line of JSON, until that ends
    stay.py write|verify POOL TAG COUNT     so many objects, each with its own content

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


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask()
    else:
        objects(*sys.argv[1:])
