#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: later.py KIND FILE NUMBER
#
# Have a file say that it is of another format, or has these features, as a later program would
# write it, with sums that are right. KIND is stream or stream-features; pages, the page map of a
# catalog; copies, on another disk; run, of the index; or of a metadata device meta, meta-ro or
# meta-incompat. (edit-super.py is for pools.)
import struct
import sys

from crc32c import crc32c

# Where the number is, where the sum is, and of how many bytes.
PLACES = {
    "stream-features": (12, 16, 16),
    "pages": (12, 8, 64),
    "copies": (12, 8, 4096),
    "run": (12, 8, 4096),
}
# Where it is in both superblocks of a metadata device.
META = {"meta": 4, "meta-ro": 76, "meta-incompat": 80}


def change_meta(file, at):
    """Give both copies that word, and sums that depend on where they are."""
    last = struct.unpack_from("<Q", file.read(512), 104)[0] - 1
    for number in 0, last:
        file.seek(number * 4096)
        block = bytearray(file.read(512))
        struct.pack_into("<I", block, at, value)
        crc = crc32c(struct.pack("<Q", number) + block[4:]) ^ 0xffffffff
        struct.pack_into("<I", block, 0, crc)
        file.seek(number * 4096)
        file.write(block)


def change_head(file):
    """Change the one head at the beginning."""
    head = bytearray(file.read(4096))
    if kind == "stream":
        head[6:7] = b"%d" % value
        at, length = 16, 16
    else:
        where, at, length = PLACES[kind]
        struct.pack_into("<I", head, where, value)
    struct.pack_into("<I", head, at, 0)
    struct.pack_into("<I", head, at, crc32c(head[:length]))
    file.seek(0)
    file.write(head)


kind, path, value = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path, "r+b") as changed:
    if kind in META:
        change_meta(changed, META[kind])
    else:
        change_head(changed)
