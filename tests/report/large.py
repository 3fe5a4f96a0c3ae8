#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Make a catalog large, as years of snapshots would.

Usage: large.py VOLUMES VERSIONS SEGMENTS CHANGES

Give the pool in REVDEDUP_POOL so many volumes with so many versions, an hour apart, of so many
segments. All segments have content in the first version; CHANGES others come with each, most of
them near each other. The content is not there: who only counts reads the catalog alone.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from importlib import import_module  # noqa: E402

SEG = 2 << 20
# A run of OWN in the recipe's own frame, 512 blocks long: see map.h.
MAP = bytes([1 << 6 | 63, 512 - 64 & 127 | 128, 512 - 64 >> 7])
BEGIN = 1700000000


def fill(db, volumes, versions, segments, changes):
    recipe = 10
    for volume in range(1, volumes + 1):
        db.execute("INSERT INTO volume VALUES (?, ?, ?, ?)",
                   (volume, f"fleet{volume:03}", versions + 1, BEGIN))
        last = {}
        for number in range(1, versions + 1):
            if number == 1:
                born = range(segments)
            else:
                at = random.randrange(segments)
                born = {(at + random.randrange(4 * changes)) % segments for _ in range(changes)}
            db.execute("INSERT INTO version VALUES (NULL, ?, ?, ?, 2, ?, ?, NULL, 0, 0, ?, ?, 0,"
                       " NULL, 0, NULL, 0, 1)",
                       (volume, number, random.getrandbits(62), segments * SEG,
                        BEGIN + number * 3600 + volume, len(born) * 512, len(born) * SEG))
            for segment in born:
                recipe += 1
                last[segment] = recipe
                db.execute("INSERT INTO segment VALUES (?, ?, ?, ?)",
                           (volume, segment, number, recipe))
                db.execute("INSERT INTO recipe VALUES (?, ?, ?, ?)",
                           (recipe, random.randbytes(32), recipe, MAP))
                db.execute("INSERT INTO uses VALUES (?, 1, 0, 1, NULL)", (recipe,))


def main():
    random.seed(1)
    edit = import_module("edit-catalog")
    path = os.path.join(os.environ["REVDEDUP_POOL"], "catalog.db")
    db = edit.sqlite3.connect(path)
    fill(db, *map(int, sys.argv[1:5]))
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    edit.seal(path)


main()
