"""A writer with a ledger: what was acknowledged is written down outside the cluster before the next write begins.

    ledger.py write CEPH_CONF POOL LEDGER     until the file LEDGER.stop is there
    ledger.py check CEPH_CONF POOL LEDGER     everything that the ledger names is there, once, and nothing else
"""

import os
import struct
import sys

import rados

OBJECTS = 40


def connect(conf, pool):
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    return cluster, cluster.open_ioctx(pool)


def write(conf, pool, ledger):
    _, ioctx = connect(conf, pool)
    with open(ledger, "a", buffering=1) as out:
        seq = 0
        while not os.path.exists(ledger + ".stop"):
            seq += 1
            kind = seq % 4
            name = "%d" % (seq * 7 % OBJECTS)
            record = struct.pack("<Q", seq)
            # What is about to be done stands in the ledger too: it may have happened although nobody heard of it.
            print("?", kind, name, seq, file=out)
            if kind < 2:
                # Applied twice, an append shows.
                ioctx.append("append." + name, record)
            elif kind == 2:
                ioctx.write_full("full." + name, record * (1 + seq % 2000))
            else:
                with rados.WriteOpCtx() as op:
                    ioctx.set_omap(op, ("%016d" % seq,), (record,))
                    ioctx.operate_write_op(op, "omap." + name)
            print("!", kind, name, seq, file=out)


def check(conf, pool, ledger):
    _, ioctx = connect(conf, pool)
    appended, full, omap, open_op, acked = {}, {}, {}, None, 0
    for line in open(ledger):
        state, kind, name, seq = line.split()
        kind, seq = int(kind), int(seq)
        if state == "?":
            open_op = (kind, name, seq)
            continue
        open_op = None
        acked += 1
        if kind < 2:
            appended.setdefault(name, []).append(seq)
        elif kind == 2:
            full[name] = seq
        else:
            omap.setdefault(name, []).append(seq)

    def maybe(kinds, name):
        return [open_op[2]] if open_op and open_op[0] in kinds and open_op[1] == name else []

    for name, wanted in appended.items():
        data = ioctx.read("append." + name, 1 << 24)
        found = [n for (n,) in struct.iter_unpack("<Q", data)]
        assert found in (wanted, wanted + maybe((0, 1), name)), "append.%s: %s, ledger %s" % (name, found[-5:], wanted[-5:])
    for name, wanted in full.items():
        data = ioctx.read("full." + name, 1 << 24)
        choices = [wanted] + maybe((2,), name)
        assert data in [struct.pack("<Q", n) * (1 + n % 2000) for n in choices], "full.%s is not %s" % (name, choices)
    for name, wanted in omap.items():
        with rados.ReadOpCtx() as op:
            pairs, _ = ioctx.get_omap_vals(op, "", "", 1 << 20)
            ioctx.operate_read_op(op, "omap." + name)
            found = [(k, struct.unpack("<Q", v)[0]) for k, v in pairs]
        keys = [n for _, n in found]
        assert all(k == "%016d" % n for k, n in found), "omap.%s has a wrong value" % name
        assert keys in (wanted, sorted(wanted + maybe((3,), name))), "omap.%s: %d keys, ledger %d" % (name, len(keys), len(wanted))
    print("ledger: %d acknowledged writes are there" % acked)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:5])
