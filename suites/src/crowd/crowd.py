"""Both sides of `cargo xtask crowd`. Told a line, each does its work and answers with a line of JSON.

    crowd.py ops POOL               `SECONDS`: writes and reads 4 KiB, one at a time; microseconds of each
    crowd.py comes                  `SECONDS`: logs in anew, again and again; microseconds of each
    crowd.py attack RATE HOST:PORT…   `SECONDS`: so many connections a second to these in turn, which say nothing, half a banner or half a HELLO,
                                      and stay

Which cluster: CEPH_CONF.
"""

import json
import os
import resource
import socket
import sys
import time
from collections import deque

BANNER = b"ceph v2\n\x10\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
# A whole banner and the first bytes of a frame.
SAID = [b"", BANNER[:11], BANNER + b"\x01\x01\x20\x00"]
# The other side has given up by then: 2 s without a banner, 10 s with one.
HELD_S = [3.0, 3.0, 11.0]
STEP_S = 0.01


def say(**what):
    print(json.dumps(what), flush=True)


def client():
    import rados

    return rados.Rados(conffile=os.environ["CEPH_CONF"], name="client.admin")


def spans(seconds, work):
    """Microseconds of each time that the work was done."""
    end, took, errors = time.monotonic() + seconds, [], []
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            work()
        except Exception as e:
            errors.append(repr(e))
        took.append(round((time.monotonic() - began) * 1e6))
    say(took=took, errors=errors)


def ops(pool):
    with client() as cluster, cluster.open_ioctx(pool) as pool:
        data, n = b"x" * 4096, 0

        def one():
            nonlocal n
            n += 1
            if n % 2:
                pool.write_full(f"o{n % 64}", data)
            elif pool.read(f"o{(n - 1) % 64}", 4096) != data:
                raise ValueError("other data")

        say(ready=1)
        for line in sys.stdin:
            spans(float(line), one)


def comes():
    def one():
        client().__enter__().shutdown()
        time.sleep(0.02)

    say(ready=1)
    for line in sys.stdin:
        spans(float(line), one)


def attack(rate, *targets):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    targets = [(host, int(port)) for host, _, port in (t.rpartition(":") for t in targets)]
    say(ready=len(targets))
    for line in sys.stdin:
        held, opened, refused = [deque() for _ in SAID], 0, 0
        began = now = time.monotonic()
        end = began + float(line)
        while now < end:
            # As many as are due by now: a slow machine opens no fewer.
            due = (now - began) * float(rate)
            while opened + refused < due:
                n = opened + refused
                kind = n // len(targets) % len(SAID)
                try:
                    one = socket.create_connection(targets[n % len(targets)], timeout=5)
                    one.sendall(SAID[kind])
                    held[kind].append((now, one))
                    opened += 1
                except OSError:
                    refused += 1
            for some, held_s in zip(held, HELD_S):
                while some and some[0][0] < now - held_s:
                    some.popleft()[1].close()
            time.sleep(STEP_S)
            now = time.monotonic()
        left = [one for some in held for _, one in some]
        for one in left:
            one.close()
        say(opened=opened, refused=refused, held=len(left))


if __name__ == "__main__":
    {"ops": ops, "comes": comes, "attack": attack}[sys.argv[1]](*sys.argv[2:])
