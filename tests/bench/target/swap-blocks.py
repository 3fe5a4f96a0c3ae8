#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""swap-blocks.py FILE SHARE [SEED]...: for each seed, let that share of FILE's blocks of 4 KiB
change places in pairs."""
import os
import random
import sys

BLOCK = 4096


def main():
    with open(sys.argv[1], "r+b") as file:
        blocks = os.stat(file.fileno()).st_size // BLOCK
        for seed in sys.argv[3:]:
            chosen = random.Random(int(seed)).sample(range(blocks),
                                                     int(blocks * float(sys.argv[2])) // 2 * 2)
            for one, two in zip(chosen[::2], chosen[1::2]):
                first = os.pread(file.fileno(), BLOCK, one * BLOCK)
                second = os.pread(file.fileno(), BLOCK, two * BLOCK)
                os.pwrite(file.fileno(), second, one * BLOCK)
                os.pwrite(file.fileno(), first, two * BLOCK)


main()
