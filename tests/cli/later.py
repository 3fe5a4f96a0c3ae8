#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: later.py KIND FILE NUMBER
#
# Have a file say that it is of another format, or has these features, as a later program would
# write it, with sums that are right. KIND is stream or stream-features; pages, the page map of a
# catalog; copies, on another disk; run, of the index; catalog-log, where the log of the catalog FILE says so
# and the catalog does not yet; or of a metadata device meta, meta-ro or meta-incompat.
# (edit-super.py is for pools.)
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


def sum_of_log(data, sums, order):
    """Go on with the checksum of SQLite's log."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2]):
        first = (first + one + second) & 0xffffffff
        second = (second + other + first) & 0xffffffff
    return first, second


def change_log(catalog):
    """Append a transaction that changes the first page alone."""
    first = catalog.read(4096)
    with open(path + "-wal", "r+b") as file:
        log = file.read()
        order = ">" if struct.unpack_from(">I", log)[0] & 1 else "<"
        salts = log[16:24]
        sums = last = struct.unpack_from(">2I", log, 24)
        end, nr_pages = 32, 0
        for at in range(32, len(log) - 4119, 4120):
            number, pages = struct.unpack_from(">2I", log, at)
            last = sum_of_log(log[at:at + 8] + log[at + 24:at + 4120], last, order)
            if log[at + 8:at + 16] != salts or last != struct.unpack_from(">2I", log, at + 16):
                break
            if number == 1:
                first = log[at + 24:at + 4120]
            if pages:
                end, nr_pages, sums = at + 4120, pages, last
        # What is behind the last transaction would be no part of it.
        page = bytearray(first)
        struct.pack_into(">I", page, 60, value)
        struct.pack_into("<I4s", page, 4088,
                         crc32c(struct.pack("<I", 1) + page[:-8]), b"RVPC")
        head = struct.pack(">2I", 1, nr_pages)
        sums = sum_of_log(head + page, sums, order)
        file.seek(end)
        file.write(head + salts + struct.pack(">2I", *sums) + page)
        file.truncate()


kind, path, value = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path, "r+b") as changed:
    if kind in META:
        change_meta(changed, META[kind])
    elif kind == "catalog-log":
        change_log(changed)
    else:
        change_head(changed)
