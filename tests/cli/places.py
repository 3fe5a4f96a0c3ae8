#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# places.py random SEED BLOCKS POOL      ranges of a volume, some left out
# places.py whole BLOCKS FILE            the same as long as they can be, none left out
# places.py apply SECTORS FILE BASE POOL what is the volume then: to BASE
# places.py away SECTORS FILE BASE       something else where BASE means nothing
#
# A second opinion on tables: an array with one place for each block.
import random
import sys

BLOCK = 4096


def read_places(name, nr):
    places = [("b", 0)] * nr
    with open(name, encoding="ascii") as text:
        for item in text.read().replace("\n", ";").split(";"):
            if not item:
                continue
            first, length, place = item.split(",")
            number = int(place[1:], 16) if place[0] == "p" else 0
            for i in range(int(length, 16)):
                places[int(first, 16) + i] = (place[0], number + i * (place[0] == "p"))
    return places


def make_random(seed, nr, pool):
    rng = random.Random(seed)
    items = []
    block = 0
    while block < nr:
        length = rng.choice([1, 1, 1, 2, 7, 100, 512, 1000])
        if rng.random() < 0.1:
            block = (block + 511) // 512 * 512
            length = 512 * rng.choice([1, 2])
        length = min(length, nr - block)
        if length <= 0:
            break
        place = rng.choice("bzppp-")
        if place == "p":
            place = "p%x" % rng.randrange(pool - length)
        if place != "-":
            items.append("%x,%x,%s" % (block, length, place))
        block += length
    # Several on a line, sometimes; the last of a line has no separator behind it.
    while items:
        nr = rng.choice([1, 1, 1, 5])
        print(";".join(items[:nr]))
        del items[:nr]


def print_whole(nr, name):
    places = read_places(name, nr)
    first = 0
    for i in range(1, nr + 1):
        kind, number = places[i - 1]
        if i < nr and places[i] == (kind, number + (kind == "p")):
            continue
        start = places[first][1]
        print("%x,%x,%s" % (first, i - first, kind + ("%x" % start if kind == "p" else "")))
        first = i


def apply(sectors, name, base, pool):
    size = sectors * 512
    places = read_places(name, (size + BLOCK - 1) // BLOCK)
    with open(base, "r+b") as out, open(pool, "rb") as source:
        for block, (kind, number) in enumerate(places):
            if kind == "b":
                continue
            source.seek(number * BLOCK)
            data = source.read(BLOCK) if kind == "p" else bytes(BLOCK)
            out.seek(block * BLOCK)
            out.write(data[: size - block * BLOCK])


def away(sectors, name, base):
    places = read_places(name, (sectors * 512 + BLOCK - 1) // BLOCK)
    with open(base, "r+b") as out:
        for block, (kind, _) in enumerate(places):
            if kind != "b":
                out.seek(block * BLOCK)
                out.write(b"x" * min(BLOCK, sectors * 512 - block * BLOCK))


def main():
    verb, args = sys.argv[1], sys.argv[2:]
    if verb == "random":
        make_random(int(args[0]), int(args[1]), int(args[2]))
    elif verb == "whole":
        print_whole(int(args[0]), args[1])
    elif verb == "apply":
        apply(int(args[0]), *args[1:])
    elif verb == "away":
        away(int(args[0]), *args[1:])


main()
