#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: swap-packs.py DATA
#
# Give the first pack of a data area the content of the second one: its head has the right number
# and all checksums are right, but the blocks are not those that the fingerprints are of.
import sys

from crc32c import crc32c

BLOCK, HEAD = 4096, 512

with open(sys.argv[1], "r+b") as area:
    data = area.read(64 << 20)
    first, second = [at for at in range(0, len(data), BLOCK)
                     if data[at:at + 8] == b"RDPACK1\0"][:2]
    head = bytearray(data[second:second + HEAD])
    head[32:40] = data[first + 32:first + 40]
    head[8:12] = bytes(4)
    head[8:12] = crc32c(head).to_bytes(4, "little")
    area.seek(first)
    area.write(head + data[second + HEAD:2 * second - first])
