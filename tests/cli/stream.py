#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: stream.py DIR <STREAM
#
# Read what 'revdedupctl send' writes into a file, by the text of Documentation/stream.rst and
# without code of revdedup: make the image DIR/VOLUME@NUMBER of each version, with _ for / in the
# name, and print that name. A version that builds on another one needs the image of that in DIR.
# All that the page says of checks is checked. Needs the program zstd.
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import sys

from crc32c import crc32c

BLOCK, SEGMENT = 4096, 2 << 20


def check(fine, what):
    if not fine:
        sys.exit(f"stream.py: {what}")


def records():
    preamble = sys.stdin.buffer.read(20)
    check(preamble[:16] == b"RDSTRM1\nF" + bytes(7), "no one-way stream, or unknown features")
    check(preamble[16:] == struct.pack("<I", crc32c(preamble[:16])), "the preamble is damaged")
    kind = None
    while kind != b"y":
        head = sys.stdin.buffer.read(12)
        check(len(head) == 12, "the stream ends early")
        kind, length, crc = struct.unpack("<c3xII", head)
        check(length <= SEGMENT + 4096, "a record is too long")
        payload = sys.stdin.buffer.read(length)
        check(crc == crc32c(head[:8] + payload), "a record is damaged, or cut off")
        yield kind, payload


def sha256(data):
    return hashlib.sha256(data).digest()


def fps_of(segment):
    blocks = [segment[at:at + BLOCK] for at in range(0, SEGMENT, BLOCK)]
    return [sha256(block)[:16] if any(block) else bytes(16) for block in blocks]


def pin_of(disk):
    total = 0
    for at in range(0, len(disk), SEGMENT):
        fps = b"".join(fps_of(disk[at:at + SEGMENT]))
        if any(fps):
            part = sha256(struct.pack("<Q", at // SEGMENT) + sha256(fps))
            total += int.from_bytes(part[:16], "little")
    return (total % 2**128).to_bytes(16, "little")


def unzstd(data):
    return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout


def ungroup(data):
    blocks, end = b"", 128
    for word, in struct.iter_unpack("<I", data[:128]):
        group = data[end:end + (word & 0xffffff)]
        blocks += unzstd(group) if word >> 24 else group
        end += len(group)
    return blocks


os.chdir(sys.argv[1])
named, told = {}, {}    # of a segment: its fingerprint; (segment, block): the one of that block
for kind, data in records():
    if kind == b"O":
        number, pin, size = struct.unpack_from("<8xQ16sQ", data)
        volume = data[56:].split(b"\0")[0].decode().replace("/", "_")
        name = f"{volume}@{number}"
    elif kind == b"W":
        is_delta, base, base_pin = struct.unpack("<Q16xQ16s", data)
        shutil.copyfile(f"{volume}@{base}" if is_delta else os.devnull, name)
        space = max(size, os.path.getsize(name), 1)
        os.truncate(name, -(-space // SEGMENT) * SEGMENT)
        with open(name, "r+b") as image:
            disk = mmap.mmap(image.fileno(), 0)
        check(not is_delta or pin_of(disk) == base_pin, f"{volume}@{base} is another base")
    elif kind == b"S":
        for segment, fp in struct.iter_unpack("<Q32s", data):
            named[segment] = fp
            if not any(fp):
                disk[segment * SEGMENT:(segment + 1) * SEGMENT] = bytes(SEGMENT)
    elif kind in (b"B", b"D"):
        at = struct.unpack_from("<Q", data)[0] * SEGMENT
        blocks = [nr for nr in range(512) if data[8 + nr // 8] >> nr % 8 & 1]
        if kind == b"B":
            fps = fps_of(disk[at:at + SEGMENT])
            for nr, (fp,) in zip(blocks, struct.iter_unpack("16s", data[72:])):
                fps[nr] = told[at, nr] = fp
                if not any(fp):     # it has no content in DATA
                    disk[at + nr * BLOCK:at + (nr + 1) * BLOCK] = bytes(BLOCK)
            check(sha256(b"".join(fps)) == named[at // SEGMENT], "blocks of another segment")
            continue
        content = (bytes, unzstd, ungroup)[data[72]](data[80:])
        check(len(content) == len(blocks) * BLOCK, "content of another length")
        for i, nr in enumerate(blocks):
            block = content[i * BLOCK:(i + 1) * BLOCK]
            check(sha256(block)[:16] == told[at, nr], "a block is another one")
            disk[at + nr * BLOCK:at + (nr + 1) * BLOCK] = block
    elif kind == b"E":
        check(pin_of(disk) == pin, f"{name} is not what was announced")
        disk.close()
        os.truncate(name, size)
        print(name)
