#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: edit-super.py FILE FORMAT [COMPATIBLE FOR-READING INCOMPATIBLE]
#
# Give both superblocks of a data area, which userspace/pool/data/area.h describes, that
# format and those features, or none; then print the features that they had.
import struct
import sys

from crc32c import crc32c

path, number = sys.argv[1], int(sys.argv[2])
features = [int(word) for word in sys.argv[3:]] or [0, 0, 0]
with open(path, "r+b") as data:
    for offset in 0, 1 << 20:
        data.seek(offset)
        block = bytearray(data.read(4096))
        print(*struct.unpack_from("<3Q", block, 64))
        struct.pack_into("<II", block, 8, 0, number)
        struct.pack_into("<3Q", block, 64, *features)
        struct.pack_into("<I", block, 8, crc32c(block))
        data.seek(offset)
        data.write(block)
