"""Large reads by two clients at once. Told a line, two new clients each read all objects with every read in flight, and the answer says how long it took.

    reads.py POOL OBJECTS LENGTH

Which cluster: CEPH_CONF.
"""

import json
import os
import sys
import threading
import time

import rados


def client():
    return rados.Rados(conffile=os.environ["CEPH_CONF"], name="client.admin")


def say(**what):
    print(json.dumps(what), flush=True)


def content(n, length):
    return bytes([n % 251 + 1]) * length


def read(pool, count, length, errors):
    try:
        with client() as cluster, cluster.open_ioctx(pool) as pool:
            wrong = []

            def done(n):
                return lambda _, data: None if data == content(n, length) else wrong.append(n)

            for completion in [pool.aio_read(f"o{n}", length, 0, done(n)) for n in range(count)]:
                completion.wait_for_complete_and_cb()
            if wrong:
                raise ValueError(f"other data in {wrong}")
    except Exception as e:
        errors.append(repr(e))


def main(pool, count, length):
    count, length = int(count), int(length)
    with client() as cluster, cluster.open_ioctx(pool) as io:
        for n in range(count):
            io.write_full(f"o{n}", content(n, length))
    say(ready=count)
    for _ in sys.stdin:
        began, errors = time.monotonic(), []
        threads = [threading.Thread(target=read, args=(pool, count, length, errors)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(ms=round((time.monotonic() - began) * 1000), errors=errors)


if __name__ == "__main__":
    main(*sys.argv[1:])
