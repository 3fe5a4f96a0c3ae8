#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: free-space.py ext4|xfs PARTITION IMAGE OFFSET
#
# Print how many bytes the file system in the file PARTITION has free, and how many of them are in
# blocks of 4 KiB of IMAGE, where it begins at OFFSET, that are free as a whole and not zeros. What
# is free is said by dumpe2fs or xfs_db.
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ext4(path):
    text = run("dumpe2fs", path)
    size = int(re.search(r"^Block size: +(\d+)", text, re.M)[1])
    for line in re.findall(r"^  Free blocks: (.+)$", text, re.M):
        for part in line.split(", "):
            first, _, last = part.partition("-")
            yield int(first) * size, (int(last or first) + 1) * size


def xfs(path):
    def ask(*commands):
        return run("xfs_db", "-r", *(word for text in commands for word in ("-c", text)), path)

    size, blocks, groups = (int(ask("sb 0", f"p {name}").split()[-1])
                            for name in ("blocksize", "agblocks", "agcount"))
    for group in range(groups):
        is_leaf = False
        for line in ask(f"agf {group}", "addr bnoroot", "btdump").split("\n"):
            is_leaf = line.startswith("recs[") or (is_leaf and line[:1].isdigit())
            for first, length in re.findall(r"\d+:\[(\d+),(\d+)\]", line) if is_leaf else ():
                start = group * blocks + int(first)
                yield start * size, (start + int(length)) * size


kind, partition, image, offset = sys.argv[1:]
offset = int(offset)
ranges = []
for start, end in sorted({"ext4": ext4, "xfs": xfs}[kind](partition)):
    if ranges and ranges[-1][1] == start:
        start = ranges.pop()[0]
    ranges.append((start, end))
leftover = 0
with open(image, "rb") as disk:
    for start, end in ranges:
        for block in range(-(-(start + offset) // 4096), (end + offset) // 4096):
            disk.seek(block * 4096)
            leftover += any(disk.read(4096))
print(sum(end - start for start, end in ranges), leftover * 4096)
