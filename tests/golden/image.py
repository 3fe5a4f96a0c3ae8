#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: image.py FILE BYTES [LETTER:FIRST:COUNT[:AT]]...
#
# Make a disk of that size whose blocks of 4 KiB from AT on (FIRST, if it is not given) are the
# blocks LETTER FIRST, LETTER FIRST + 1 and so on: each is unlike all others. Those of small letters
# are texts, and small when they are compressed; those of capitals cannot be compressed.
import hashlib
import sys

BLOCK = 4096


def content(letter, number):
    name = f"{letter}{number}\n".encode()
    if letter.islower():
        return (name * (BLOCK // len(name) + 1))[:BLOCK]
    return b"".join(hashlib.sha256(name + bytes([i])).digest() for i in range(BLOCK // 32))


with open(sys.argv[1], "wb") as disk:
    disk.truncate(int(sys.argv[2]))
    for run in sys.argv[3:]:
        letter, first, count, *at = run.split(":")
        disk.seek(int(at[0] if at else first) * BLOCK)
        for i in range(int(count)):
            disk.write(content(letter, int(first) + i))
    disk.truncate(int(sys.argv[2]))
