"""A writer with a ledger: what was acknowledged is written down outside the cluster before the next write begins.

    ledger.py write CEPH_CONF POOL LEDGER     until the file LEDGER.stop is there
    ledger.py check CEPH_CONF POOL LEDGER [BYTES]     everything that the ledger names is there, once, and nothing else; with BYTES the
                                              cluster is a copy that was begun when the ledger was that long

Several threads write, each to objects of its own: a process that is killed has some writes on the disk whose answers nobody got. Their
clients send them again, and an append or an addition that is applied twice shows.
"""

import os
import struct
import sys
import threading

import rados

THREADS = 8
OBJECTS = 5
APPEND, ADD, FULL, OMAP = range(4)
KINDS = (APPEND, ADD, APPEND, FULL, ADD, OMAP)
COUNTER = "count"


def connect(conf, pool):
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    return cluster, cluster.open_ioctx(pool)


def text(word):
    return struct.pack("<I", len(word)) + word.encode()


def amount(seq):
    """What an addition adds: numops keeps ten digits."""
    return 1 + seq % 999


def writer(ioctx, ledger, out, thread):
    seq = 0
    while not os.path.exists(ledger + ".stop"):
        seq += 1
        kind = KINDS[seq % len(KINDS)]
        name = "%d.%d" % (thread, seq * 7 % OBJECTS)
        record = struct.pack("<Q", seq)
        # What is about to be done stands in the ledger too: it may have happened although nobody heard of it.
        line = b" %d %d %s %d\n" % (thread, kind, name.encode(), seq)
        os.write(out, b"?" + line)
        if kind == APPEND:
            ioctx.append("append." + name, record)
        elif kind == ADD:
            ioctx.execute("add." + name, "numops", "add", text(COUNTER) + text("%d" % amount(seq)))
        elif kind == FULL:
            ioctx.write_full("full." + name, record * (1 + seq % 2000))
        else:
            with rados.WriteOpCtx() as op:
                ioctx.set_omap(op, ("%016d" % seq,), (record,))
                ioctx.operate_write_op(op, "omap." + name)
        os.write(out, b"!" + line)


def write(conf, pool, ledger):
    cluster, ioctx = connect(conf, pool)
    failed = []

    def run(out, thread):
        try:
            writer(ioctx, ledger, out, thread)
        except BaseException as e:
            failed.append(e)
            raise

    out = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    threads = [threading.Thread(target=run, args=(out, n)) for n in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    ioctx.close()
    cluster.shutdown()


def check(conf, pool, ledger, length=None):
    cluster, ioctx = connect(conf, pool)
    # By kind and object, in order: writes that must be there, and those that may be there or not. Each object is one thread's.
    must, may, open_ops, count = {}, {}, {}, 0
    data = open(ledger, "rb").read()
    length = len(data) if length is None else int(length)
    assert data[:length].endswith(b"\n") or not length, "half a line"
    for line in data[:length].decode().splitlines():
        state, thread, kind, name, seq = line.split()
        kind, seq = int(kind), int(seq)
        if state == "?":
            open_ops[thread] = (kind, name, seq)
            continue
        assert open_ops.pop(thread) == (kind, name, seq), line
        must.setdefault((kind, name), []).append(seq)
        count += 1
    for kind, name, seq in open_ops.values():
        may.setdefault((kind, name), []).append(seq)
    for line in data[length:].decode().splitlines():
        state, _, kind, name, seq = line.split()
        if state == "?":
            may.setdefault((int(kind), name), []).append(int(seq))

    sums = 0
    for (kind, name), wanted in must.items():
        more = may.get((kind, name), [])
        choices = [wanted + more[:n] for n in range(len(more) + 1)]
        if kind == APPEND:
            found = [n for (n,) in struct.iter_unpack("<Q", ioctx.read("append." + name, 1 << 24))]
            assert found in choices, "append.%s: %s, ledger %s" % (name, found[-5:], wanted[-5:])
        elif kind == FULL:
            found = ioctx.read("full." + name, 1 << 24)
            choices = [struct.pack("<Q", seqs[-1]) * (1 + seqs[-1] % 2000) for seqs in choices]
            assert found in choices, "full.%s is not of %s" % (name, wanted[-1:] + more)
        elif kind == ADD:
            number = int(float(omap(ioctx, "add." + name)[0][1]))
            choices = [sum(map(amount, seqs)) for seqs in choices]
            assert number in choices, "add.%s: %d, ledger %s" % (name, number, choices)
            sums += len(wanted)
        else:
            found = omap(ioctx, "omap." + name)
            assert all(struct.pack("<Q", int(k)) == v for k, v in found), "omap.%s has a wrong value" % name
            keys = [int(k) for k, _ in found]
            assert keys in choices, "omap.%s: %d keys, ledger %d" % (name, len(keys), len(wanted))
    print("ledger: %d acknowledged writes are there, %d additions and every append once" % (count, sums))
    ioctx.close()
    cluster.shutdown()


def omap(ioctx, obj):
    # Page by page: one request is given 1,024 keys at most (osd_max_omap_entries_per_request).
    found = []
    while True:
        with rados.ReadOpCtx() as op:
            pairs, _ = ioctx.get_omap_vals(op, found[-1][0] if found else "", "", 1024)
            ioctx.operate_read_op(op, obj)
            page = list(pairs)
        if not page:
            return found
        found += page


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
