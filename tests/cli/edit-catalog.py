#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: edit-catalog.py FILE SQL [VALUE...]
#
# Change a catalog as no command does, and give the pages that changed the checks
# that userspace/pool/catalog/vfs.h describes, and their entries of pages.h.
import hashlib
import sqlite3
import struct
import sys

from crc32c import crc32c

PAGE = 4096


def check_of(number, page):
    return struct.pack("<I4s", crc32c(struct.pack("<I", number) + page[:-8]), b"RVPC")


def seal(path):
    """Give all pages their checks and entries."""
    with open(path, "r+b") as file, open(path + "-pages", "r+b") as entries:
        pages = file.read()
        entries.seek(PAGE)
        for start in range(0, len(pages), PAGE):
            page = pages[start:start + PAGE]
            entry = bytes(8)
            if any(page):
                file.seek(start + PAGE - 8)
                file.write(check_of(start // PAGE + 1, page))
                entry = hashlib.sha256(page[:-8]).digest()[:8]
            entries.write(entry)
        entries.truncate()


def edit(path, statement, values=()):
    db = sqlite3.connect(path)
    try:
        db.execute(statement, values)
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    seal(path)


if __name__ == "__main__":
    edit(sys.argv[1], sys.argv[2], sys.argv[3:])
