"""Objects of the rot matrix: written once, then read again and again. Says how many are whole, can't be read, are not there, are wrong."""

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
    whole = unread = absent = wrong = 0
    for n in range(COUNT):
        try:
            have = io.read("object%d" % n, len(data(n)) + 1)
            right = have == data(n) and (n % 4 != 0 or io.get_xattr("object%d" % n, "a") == b"%d" % n)
            whole, wrong = whole + right, wrong + (not right)
        except rados.ObjectNotFound:
            absent += 1
        except (rados.Error, OSError):
            unread += 1
    print("whole %d unread %d absent %d wrong %d" % (whole, unread, absent, wrong))


main()
