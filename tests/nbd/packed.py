#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: packed.py flip PACK GROUP   flip a bit of a pack, in the middle of the group or, with
                                   "head" for it, of the head
       packed.py bad URI IMAGE     read an export block by block; print the blocks that are
                                   errors; exit with 1 if another differs

Packs are numbered from 0 on, those with the most blocks first. The pool is "pool".
"""

import sqlite3
import struct
import sys

HEAD = 512


def packs():
    catalog = sqlite3.connect("pool/catalog.db")
    return catalog.execute("SELECT frame, place FROM pack ORDER BY slots DESC").fetchall()


def offset_of(place):
    frame, slot = divmod(place, 512)
    group, rest = divmod(frame, 256)
    return (2 << 20) + group * (514 << 20) + (2 << 20) + rest * (2 << 20) + slot * 4096


def flip(number, group):
    frame, place = packs()[int(number)]
    with open("pool/data", "r+b") as data:
        at = offset_of(place)
        data.seek(at)
        head = data.read(HEAD)
        assert head.startswith(b"RDPACK1")
        assert struct.unpack_from("<Q", head, 32)[0] == frame
        lens = [struct.unpack_from("<I", head, 128 + 12 * i)[0] & 0xffffff for i in range(32)]
        if group == "head":
            at += 70
        else:
            at += HEAD + sum(lens[:int(group)]) + lens[int(group)] // 2
        data.seek(at)
        byte = data.read(1)[0]
        data.seek(at)
        data.write(bytes([byte ^ 16]))


def find_bad(uri, image):
    import nbd
    with open(image, "rb") as file:
        want = file.read()
    client = nbd.NBD()
    client.connect_uri(uri)
    bad = []
    for at in range(0, len(want), 4096):
        try:
            found = client.pread(min(4096, len(want) - at), at)
        except nbd.Error:
            bad.append(at // 4096)
            continue
        if found != want[at:at + 4096]:
            sys.exit(f"block {at // 4096} differs")
    print(*bad)


if sys.argv[1] == "flip":
    flip(*sys.argv[2:])
else:
    find_bad(*sys.argv[2:])
