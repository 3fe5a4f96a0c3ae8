#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: needs.py [CATALOG]
#
# A second opinion on 'stats --isolation': take each version by itself, find for each of its blocks
# the frame that it is in, and count. Prints frames, the sum of volumes, the most volumes, the sum
# of versions, the most versions. With --frames, a line for each frame: its number, volumes,
# versions, and blocks that live in it.
import collections
import functools
import sqlite3
import sys

PACKED = 1 << 36

args = [arg for arg in sys.argv[1:] if arg != "--frames"]
db = sqlite3.connect(args[0] if args else "pool/catalog.db")


def ask(sql, *values):
    return db.execute(sql, values)


def varint(numbers):
    value = shift = 0
    for byte in numbers:
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            break
    return value


def zigzag(numbers):
    value = varint(numbers)
    return value >> 1 ^ -(value & 1)


@functools.lru_cache(None)
def read_map(recipe):
    frame, blob = ask("SELECT frame, map FROM recipe WHERE id = ?", recipe).fetchone()
    numbers, places, last = iter(blob), [], {2: frame, 3: recipe}
    for byte in numbers:
        kind, length, block = byte >> 6, (byte & 63) + 1, len(places)
        length += varint(numbers) if length == 64 else 0
        slot, name, number = block, (None, "own", "own", "ref")[kind], frame
        if kind >= 2:
            number = last[kind] = last[kind] + zigzag(numbers)
            slot = varint(numbers) if kind == 2 else block + zigzag(numbers)
        places += [(name, number, slot + i) for i in range(length)]
    return places


def frames_of_pack(packed):
    place, blocks = ask("SELECT place, blocks FROM pack WHERE frame = ?", packed).fetchone()
    return range(place // 512, (place + blocks - 1) // 512 + 1)


@functools.lru_cache(None)
def frames_of(recipe):
    frames = set()
    for kind, number, slot in read_map(recipe):
        while kind == "ref":
            kind, number, slot = read_map(number)[slot]
        if kind:
            frames.update(frames_of_pack(number) if number >= PACKED else [number])
    return frames


versions, volumes = collections.Counter(), collections.defaultdict(set)
for volume, number, size in ask("SELECT volume, number, size FROM version WHERE state IN (1, 2)"):
    needs = set()
    for segment in range((size + (2 << 20) - 1) >> 21):
        row = ask("SELECT recipe FROM segment WHERE volume = ? AND segment = ? AND born <= ?"
                  " ORDER BY born DESC", volume, segment, number).fetchone()
        if row and row[0]:
            needs |= frames_of(row[0])
    versions.update(needs)
    for frame in needs:
        volumes[frame].add(volume)
if "--frames" in sys.argv:
    for frame in sorted(versions):
        live, = ask("SELECT coalesce(sum(n), 0) FROM slot_owner WHERE frame = ? AND recipe > 0",
                    frame).fetchone()
        print(frame, len(volumes[frame]), versions[frame], live)
else:
    hurt = [len(some) for some in volumes.values()]
    print(len(versions), sum(hurt), max(hurt, default=0), sum(versions.values()),
          max(versions.values(), default=0))
