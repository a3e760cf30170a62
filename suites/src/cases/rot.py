"""Objects of the rot matrix: written once, then read again and again. Says how many are whole, can't be read, are not there, are wrong; and names those
that are not whole."""

import errno
import sys

import rados

COUNT = 400


def data(n):
    return (b"%08d" % n) * (64 + n * 37 % 1500)


def main():
    conf, verb = sys.argv[1:3]
    cluster = rados.Rados(conffile=conf)
    cluster.conf_set("rados_osd_op_timeout", "5")
    cluster.connect(timeout=20)
    io = cluster.open_ioctx("rot")
    if verb == "write":
        for n in range(COUNT):
            io.write_full("object%d" % n, data(n))
            if n % 4 == 0:
                io.set_xattr("object%d" % n, "a", b"%d" % n)
        return
    # All at once: those of a group that is not served wait for their time limit.
    got = {}
    asked = [
        io.aio_read("object%d" % n, len(data(n)) + 1, 0, lambda done, have, n=n: got.update({n: (done.get_return_value(), have)}))
        for n in range(COUNT)
    ]
    for one in asked:
        one.wait_for_complete_and_cb()
    whole = unread = absent = wrong = 0
    others = []
    for n, (code, have) in sorted(got.items()):
        try:
            if code == -errno.ENOENT:
                absent += 1
            elif code < 0:
                unread += 1
            else:
                right = have == data(n) and (n % 4 != 0 or io.get_xattr("object%d" % n, "a") == b"%d" % n)
                whole, wrong = whole + right, wrong + (not right)
                if right:
                    continue
        except rados.ObjectNotFound:
            absent += 1
        except (rados.Error, OSError):
            unread += 1
        others.append("object%d" % n)
    assert len(got) == COUNT
    print("whole %d unread %d absent %d wrong %d" % (whole, unread, absent, wrong))
    print("others", *others)


main()
