"""Writes images and holds them against a model: a file with all that was acknowledged.

    images.py write POOL IMAGE MODEL SEED COUNT    so many writes; prints a dot for each that was acknowledged
    images.py stream POOL IMAGE MODEL SEED STOP    writes until the file STOP is there
    images.py check POOL IMAGE MODEL [SNAPSHOT]    prints `same`, or where they differ first

Which cluster: CEPH_CONF.

Zeros never reach the end of an object: librbd cuts the object there, and 18.2's rbd-mirror misses that when it copies what changed between two
snapshots, between stock clusters, too.
"""

import os
import random
import sys

import rados
import rbd

LARGEST = 32 << 10
# As the images are made.
OBJECT = 256 << 10


def changes(image, model, seed):
    """One change after the other, each noted in the model when it was acknowledged."""
    draw, size = random.Random(int(seed)), image.size()
    while True:
        length = draw.randrange(512, LARGEST)
        at = draw.randrange(size - length)
        if draw.random() < 0.1 and at // OBJECT == (at + length) // OBJECT:
            data = bytes(length)
            image.write_zeroes(at, length)
        else:
            data = draw.randbytes(length)
            image.write(data, at)
        model.seek(at)
        model.write(data)
        model.flush()
        print(".", end="", flush=True)
        yield


def main(verb, pool, name, path, *more):
    with rados.Rados(conffile=os.environ["CEPH_CONF"], name="client.admin") as cluster, cluster.open_ioctx(pool) as io:
        if verb == "check":
            with rbd.Image(io, name, snapshot=more[0] if more else None, read_only=True) as image, open(path, "rb") as model:
                is_, due = image.read(0, image.size()), model.read()
            if is_ == due:
                print("same")
            else:
                first = next((i for i, (a, b) in enumerate(zip(is_, due)) if a != b), min(len(is_), len(due)))
                print(f"{len(is_)} bytes beside {len(due)}, different from {first} on")
            return
        with rbd.Image(io, name) as image:
            if not os.path.exists(path):
                with open(path, "wb") as model:
                    model.truncate(image.size())
            with open(path, "r+b") as model:
                steps = changes(image, model, more[0])
                if verb == "write":
                    for _ in range(int(more[1])):
                        next(steps)
                else:
                    while not os.path.exists(more[1]):
                        next(steps)


if __name__ == "__main__":
    main(*sys.argv[1:])
