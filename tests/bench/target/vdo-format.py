#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: vdo-format.py PHYSICAL LOGICAL FILE

Write the first two blocks of a new dm-vdo volume to FILE: its geometry and its super block. It
has PHYSICAL blocks of 4 KiB, of which all others must be zeros, and shows LOGICAL ones. Debian
has no vdoformat. The layout is that of drivers/md/dm-vdo/encodings.[ch]: geometry 5.0, volume
67.0. There is no index, so the volume must be used without deduplication.
"""

import os
import struct
import sys
import zlib

BLOCK = 4096
ROOTS = 60
JOURNAL = 32768
SUMMARY = 64
SLAB = 8192
SLAB_JOURNAL = 224
REFERENCES = 4032           # that a block counts
SUPER, LAYOUT, RECOVERY, DEPOT, MAP, GEOMETRY = range(6)


def header(component, version, data, size=None):
    """The component, behind its header."""
    size = len(data) if size is None else size
    return struct.pack("<IIIQ", component, version, 0, size) + data


def block(data):
    """With its sum, and zeros up to a block."""
    data += struct.pack("<I", zlib.crc32(data, 0xFFFFFFFF))
    return data.ljust(BLOCK, b"\0")


def geometry(nonce, uuid):
    """The index has no blocks, so that the data begin where it would."""
    data = struct.pack("<IQ16sQ", 0, nonce, uuid, 0)
    data += struct.pack("<IQIQ", 0, 1, 1, 1)
    data += struct.pack("<IIB", 0, 0, 0)
    # Here the size is that of all, with the magic and the sum.
    return block(b"dmvdo001" + header(GEOMETRY, 5, data, 8 + 20 + len(data) + 4))


def slab():
    """The numbers of a slab: blocks, data, reference counts, and three marks of its journal."""
    counts = -(-(SLAB - SLAB_JOURNAL) // REFERENCES)
    flush = (SLAB_JOURNAL * 3 + 3) // 4
    blocking = flush + (SLAB_JOURNAL - flush) * 5 // 7
    return struct.pack("<7Q", SLAB, SLAB - SLAB_JOURNAL - counts, counts, SLAB_JOURNAL, flush,
                       blocking, SLAB_JOURNAL - 2)


def super_block(nonce, physical, logical):
    """The map's roots, slabs, journal and summary, one behind the other."""
    first = 2 + ROOTS
    summary = physical - SUMMARY
    journal = summary - JOURNAL
    nr_slabs = (journal - first) // SLAB
    if nr_slabs < 1:
        sys.exit("vdo-format.py: too few blocks")
    data = struct.pack("<III", 0, 67, 0)
    data += struct.pack("<II", 41, 0)
    new = 1
    data += struct.pack("<IQQ5QQ", new, 0, 0, logical, physical, SLAB, JOURNAL, SLAB_JOURNAL,
                        nonce)
    parts = ((1, first, journal - first), (2, journal, JOURNAL), (3, summary, SUMMARY),
             (0, 2, ROOTS))
    layout = struct.pack("<QQB", journal, journal, len(parts))
    for number, offset, count in parts:
        layout += struct.pack("<BQQQ", number, offset, 0, count)
    data += header(LAYOUT, 3, layout)
    data += header(RECOVERY, 7, struct.pack("<QQQ", 1, 0, 0))
    data += header(DEPOT, 2, slab() + struct.pack("<QQB", first, first + nr_slabs * SLAB, 0))
    data += header(MAP, 2, struct.pack("<QQQQ", 1, 0, 2, ROOTS))
    # Here with the sum.
    return block(header(SUPER, 12, data, len(data) + 4))


def main():
    """Write both."""
    physical, logical = int(sys.argv[1]), int(sys.argv[2])
    nonce = int.from_bytes(os.urandom(8), "little")
    with open(sys.argv[3], "wb") as file:
        file.write(geometry(nonce, os.urandom(16)) + super_block(nonce, physical, logical))


main()
