#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: copies.py list|check FILE       what there is, by the format of copies.h
#        copies.py flip FILE IMAGE BLOCK damage the copy of that block of an image
#
# list prints a line for each frame that is in use: the frame of the pool, and its blocks. check
# compares content with fingerprints, and prints how many blocks differ.
import hashlib
import struct
import sys

BLOCK, FRAME = 4096, 2 << 20


def frame_offset(nr):
    return FRAME + nr // 256 * 257 * FRAME + (nr % 256 + 1) * FRAME


def fps_offset(nr):
    return FRAME + nr // 256 * 257 * FRAME + nr % 256 * 8192


def read(offset, length):
    file.seek(offset)
    data = file.read(length)
    return data + bytes(length - len(data))


def fp_of(block):
    return hashlib.sha256(block).digest()[:16]


what, path, *args = sys.argv[1:]
with open(path, "r+b" if what == "flip" else "rb") as file:
    table = struct.unpack("<%dQ" % ((FRAME - BLOCK) // 8), read(BLOCK, FRAME - BLOCK))
    used = [(nr, (word & (1 << 40) - 1) - 1, word >> 40)
            for nr, word in enumerate(table) if word & (1 << 40) - 1]
    slots = [(nr, slot, fps[16 * slot:16 * slot + 16]) for nr, _, _ in used
             for fps in [read(fps_offset(nr), 8192)] for slot in range(512)]
    slots = [(frame_offset(nr) + slot * BLOCK, fps_offset(nr) + 16 * slot, fp)
             for nr, slot, fp in slots if any(fp)]
    if what == "list":
        for _, frame, blocks in used:
            print(frame, blocks)
    elif what == "check":
        assert sum(blocks for _, _, blocks in used) == len(slots)
        print(sum(fp_of(read(at, BLOCK)) != fp for at, _, fp in slots))
    else:
        with open(args[0], "rb") as image:
            image.seek(int(args[1]) * BLOCK)
            wanted = fp_of(image.read(BLOCK))
        found = [at for at, _, fp in slots if fp == wanted]
        assert found, "there is no copy of it"
        for at in found:
            file.seek(at)
            file.write(b"damaged")
