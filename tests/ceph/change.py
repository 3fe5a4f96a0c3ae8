#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: change.py POOL/IMAGE SEED [--hold FILE]

Write to an image of RBD at random: blocks, long runs, a few bytes; zero and discard some. The seed
decides what. With --hold, have it open with its lock, make FILE, and end when FILE goes.
"""

import os
import random
import sys
import time

import rados
import rbd


def change(image, rng):
    size = image.size()
    for _ in range(12):
        offset = rng.randrange(size)
        length = min(rng.choice((100, 4096, 65536, 5 << 20)), size - offset)
        kind = rng.randrange(6)
        if kind == 0:
            image.discard(offset, length)
        elif kind == 1:
            image.write(bytes(length), offset)
        else:
            image.write(rng.randbytes(length), offset)


def main():
    pool, name = sys.argv[1].split("/", 1)
    with rados.Rados(conffile=os.environ["CEPH_CONF"]) as cluster:
        with cluster.open_ioctx(pool) as io, rbd.Image(io, name) as image:
            change(image, random.Random(int(sys.argv[2])))
            image.flush()
            if "--hold" in sys.argv:
                held = sys.argv[sys.argv.index("--hold") + 1]
                with open(held, "w", encoding="ascii"):
                    pass
                while os.path.exists(held):
                    time.sleep(0.05)


main()
