#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: client.py URI IMAGE [--random N] [--seed S] [--blind] [--again FILE] [--until FILE]

Compare an export with an image: its size, its holes, all of it in order, then N ranges of any
length at any offset, with several requests in flight.

  --blind       do not ask for holes
  --again FILE  then make FILE, wait until FILE.go is there, and compare all once more,
                with the same connection
  --until FILE  compare random ranges until FILE is there, and print how many

Exit with 1, after a line for each range that differs or cannot be read, of the first ten.
"""

import argparse
import os
import random
import sys
import time

import nbd

DEPTH = 16
parser = argparse.ArgumentParser()
parser.add_argument("uri")
parser.add_argument("image")
parser.add_argument("--random", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--blind", action="store_true")
parser.add_argument("--again")
parser.add_argument("--until")
args = parser.parse_args()
rng = random.Random(args.seed)
bad = 0


def complain(text):
    global bad
    bad += 1
    if bad <= 10:
        print(text)


# libnbd 1.14 never frees a buffer that it has read into: use each again.
spare = {}


def take_buffer(length):
    buffers = spare.setdefault(length, [])
    return buffers.pop() if buffers else nbd.Buffer(length)


def compare(handle, image, ranges):
    """Read all @ranges, DEPTH at a time."""
    flying = []
    for offset, length in ranges:
        if len(flying) == DEPTH:
            finish(handle, image, flying.pop(0))
        buf = take_buffer(length)
        flying.append((handle.aio_pread(buf, offset), buf, offset, length))
    for one in flying:
        finish(handle, image, one)


def finish(handle, image, one):
    cookie, buf, offset, length = one
    try:
        while not handle.aio_command_completed(cookie):
            handle.poll(-1)
    except nbd.Error as error:
        complain(f"offset {offset}, length {length}: {error.string}")
        return
    if buf.to_bytearray() != image[offset:offset + length]:
        complain(f"offset {offset}, length {length}: differs")
    spare[length].append(buf)


def in_order(size, step):
    return [(at, min(step, size - at)) for at in range(0, size, step)]


def at_random(size, nr):
    for _ in range(nr):
        length = min(size, rng.choice((1, 511, 4096, 5000, 65536, 300000, 1 << 20)))
        yield rng.randrange(size - length + 1), length


def compare_holes(handle, image):
    if args.blind:
        return
    at = 0
    while at < len(image):
        found = []
        handle.block_status(len(image) - at, at,
                            lambda meta, offset, entries, error: found.extend(entries))
        for length, flags in zip(found[::2], found[1::2]):
            if flags & nbd.STATE_ZERO and any(image[at:at + length]):
                complain(f"offset {at}, length {length}: is not zeros")
            at += length


with open(args.image, "rb") as file:
    data = file.read()
client = nbd.NBD()
client.add_meta_context("base:allocation")
client.set_request_block_size(False)
client.connect_uri(args.uri)
if client.get_size() != len(data):
    complain(f"has {client.get_size()} bytes, wanted {len(data)}")
    sys.exit(1)
compare_holes(client, data)
compare(client, data, in_order(len(data), 1 << 20))
compare(client, data, at_random(len(data), args.random))
if args.again:
    open(args.again, "w").close()
    while not os.path.exists(args.again + ".go"):
        time.sleep(0.05)
    compare(client, data, in_order(len(data), 1 << 20))
    compare_holes(client, data)
if args.until:
    count = 0
    while not os.path.exists(args.until):
        compare(client, data, at_random(len(data), 20))
        count += 20
    print(f"{count} reads")
client.shutdown()
sys.exit(bad > 0)
