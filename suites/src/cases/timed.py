"""A good client beside others: writes and reads an object again and again, and prints how long each took, in seconds.

    timed.py CONF POOL
"""

import sys
import time

import rados


def main():
    conf, pool = sys.argv[1:]
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect(timeout=20)
    io = cluster.open_ioctx(pool)
    data = b"good" * 1024
    while True:
        for ask in (lambda: io.write_full("good", data), lambda: io.read("good", len(data))):
            begun = time.monotonic()
            ask()
            print("%.6f" % (time.monotonic() - begun), flush=True)
        time.sleep(0.01)


main()
