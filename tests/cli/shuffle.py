#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Usage: shuffle.py FILE SEED

Put the blocks of FILE into another order, so that a version before it gets a long map.
"""
import random
import sys

with open(sys.argv[1], "r+b") as file:
    data = file.read()
    blocks = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    random.Random(int(sys.argv[2])).shuffle(blocks)
    file.seek(0)
    file.write(b"".join(blocks))
