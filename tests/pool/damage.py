#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
What damage.bats knows of images and of the data area.

    images SEED           make vm1.1.img and so on here, and a list of them
    flip POOL SEED NR WHAT...
                          flip NR bits of each kind; "wanted.json" says what that is
                          to be found as, together with all flips before
    found SCRUB.json      is what scrub has found what is in wanted.json?
    restore CTL [SCRUB.json]
                          restore each version: is all but what is listed right, and
                          that zeros, and is it what scrub has listed? Prints how
                          many have damage
    flip1 FILE SEED       flip a bit anywhere, and print of which byte
    rename POOL NAME      flip a bit of that name in a dump of the journal
    misplace POOL WHAT    "unused": write to a slot of a frame in use that is nobody's;
                          "lost": punch a block in use; "free": write to a free frame
    same-ranges SCRUB.json
                          has the restore whose JSON is read left out what scrub has
                          found of its version?

    overwrite POOL        write a pack over another one; "wanted.json" as for flip

Blocks of the images are random, so that a block of the data area tells by itself
whose it is. With COMPRESSION=zstd most can be compressed. Kinds: data (of packs:
anywhere in a group), fps, super0, super1, journal, payload (a part of it
without its head), padding (behind a part of
the journal, where nothing means anything), pair (a block and its fingerprint),
dead (data and fingerprints that are nobody's). Of packs: head, present (the slots that
it has, in the head), first, middle, last (a byte of a group), raw (a group that is stored
as it is).
"""
import ctypes
import json
import os
import random
import sqlite3
import struct
import subprocess
import sys

BLOCK = 4096
SEGMENT = 2 << 20
GROUP = 256


def frame_offset(frame):
    return SEGMENT + frame // GROUP * (GROUP + 1) * SEGMENT + (frame % GROUP + 1) * SEGMENT


def fps_offset(frame):
    return SEGMENT + frame // GROUP * (GROUP + 1) * SEGMENT + frame % GROUP * 8192


# --- images


def make_images(seed):
    rnd = random.Random(int(seed))

    def blocks(nr):
        if os.environ.get("COMPRESSION", "none") == "none":
            return [rnd.randbytes(BLOCK) for _ in range(nr)]
        # One group or more cannot be compressed.
        return [rnd.randbytes(BLOCK) if nr > 100 and 30 <= at < 70 else
                rnd.randbytes(BLOCK // 4) * 4 for at in range(nr)]

    def write(name, image):
        with open(name, "wb") as out:
            for at, block in image.items():
                out.seek(at * BLOCK)
                out.write(block)
            # The end is not one of a block.
            out.seek(3 * SEGMENT - 1500)
            out.write(b"end" * 500)
        names.append(name)

    names = []
    a, b, c, d = blocks(150), blocks(150), blocks(150), blocks(100)
    vm1 = {at: block for at, block in enumerate(a)}
    vm1.update({512 + 100 + at: block for at, block in enumerate(b)})
    vm1.update({1024 + 300 + at: block for at, block in enumerate(c)})
    write("vm1.1.img", vm1)
    # A segment that is shared, blocks that vm1 has elsewhere, and some of its own.
    vm2 = {at: block for at, block in enumerate(a)}
    vm2.update({512 + 7 + at: block for at, block in enumerate(c)})
    vm2.update({1024 + 50 + at: block for at, block in enumerate(d)})
    write("vm2.1.img", vm2)
    vm1.update({10 + at: block for at, block in enumerate(blocks(10))})
    vm1.update({512 + 400 + at: block for at, block in enumerate(a[:20])})
    write("vm1.2.img", vm1)
    vm2.update({1024 + 70 + at: block for at, block in enumerate(blocks(15))})
    vm2.update({30 + at: block for at, block in enumerate(b[40:70])})
    write("vm2.2.img", vm2)
    vm1.update({512 + 101 + at: block for at, block in enumerate(b)})
    vm1.update({1024 + 310 + at: block for at, block in enumerate(blocks(20))})
    write("vm1.3.img", vm1)
    with open("order", "w") as out:
        for name in names:
            out.write(f"{name.split('.')[0]} {name}\n")


def read_images():
    """Block to the (version, offset) that have it."""
    owners = {}
    for name in os.listdir("."):
        if not name.endswith(".img"):
            continue
        volume, number, _ = name.split(".")
        with open(name, "rb") as image:
            at = 0
            while block := image.read(BLOCK):
                if any(block):
                    block = block.ljust(BLOCK, b"\0")
                    owners.setdefault(block, set()).add((f"{volume}@{number}", at))
                at += BLOCK
    return owners


# --- the data area


class Area:
    def __init__(self, pool):
        self.file = open(pool + "/data", "r+b")
        self.size = os.stat(pool + "/data").st_size

    def read(self, offset, size=BLOCK):
        self.file.seek(offset)
        return self.file.read(size)

    def flip(self, offset, bit):
        byte = self.read(offset, 1)[0]
        self.file.seek(offset)
        self.file.write(bytes([byte ^ 1 << bit]))

    def blocks(self):
        """(offset, block): those that are not holes"""
        at = 0
        while True:
            try:
                at = os.lseek(self.file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(self.file.fileno(), at, os.SEEK_HOLE)
            for at in range(at // BLOCK * BLOCK, end, BLOCK):
                yield at, self.read(at)
            at += BLOCK

    def slots(self):
        """(offset of the block, of its fingerprint, the block): those that are not zeros"""
        for at, block in self.blocks():
            number = at // SEGMENT - 1
            frame = number // (GROUP + 1) * GROUP + number % (GROUP + 1) - 1
            if number >= 0 and number % (GROUP + 1) and any(block):
                yield at, fps_offset(frame) + at % SEGMENT // BLOCK * 16, block

    def packs(self):
        """Those that any place has, as they tell by themselves."""
        for at, block in self.blocks():
            if block[:8] == b"RDPACK1\0":
                yield Pack(self, at, block)

    def close(self):
        self.file.close()


def decompress(data, size):
    lib = ctypes.CDLL("libzstd.so.1")
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    got = lib.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    assert got == size, "a group of a pack cannot be read"
    return out.raw


class Pack:
    """groups: (offset, length, codec, {slot: block}), those that have blocks"""

    def __init__(self, area, at, head):
        self.at = at
        number, = struct.unpack_from("<Q", head, 32)
        number -= 1 << 36
        self.fps = frame_offset(number // GROUP) + number % GROUP * 8192
        present = int.from_bytes(head[64:128], "little")
        self.groups = []
        self.length = 512
        for group in range(32):
            word, = struct.unpack_from("<I", head, 128 + 12 * group)
            slots = [slot for slot in range(16 * group, 16 * group + 16)
                     if present >> slot & 1]
            length, codec = word & 0xffffff, word >> 24
            if not length:
                continue
            data = area.read(at + self.length, length)
            if codec:
                data = decompress(data, BLOCK * len(slots))
            self.groups.append((at + self.length, length, codec, {
                slot: data[i * BLOCK:(i + 1) * BLOCK] for i, slot in enumerate(slots)}))
            self.length += length

    def blocks(self):
        return [block for group in self.groups for block in group[3].values()]


def add_packs(area, targets, copies):
    """What packs have; returns the bytes that are theirs."""
    inside = set()
    live = []
    for pack in area.packs():
        inside.update(range(pack.at, pack.at + pack.length, BLOCK))
        inside.update((pack.fps, pack.fps + BLOCK))
        targets["head"].append((pack.at, 512, pack.blocks()))
        targets["present"].append((pack.at + 64, 64, pack.blocks()))
        for at, length, codec, blocks in pack.groups:
            its = list(blocks.values())
            targets["data"].append((at, length, its))
            targets["first"].append((at, 1, its))
            targets["middle"].append((at + length // 2, 1, its))
            targets["last"].append((at + length - 1, 1, its))
            if not codec:
                targets["raw"].append((at, length, its))
            for slot, block in blocks.items():
                copies[block] = copies.get(block, 0) + 1
                live.append((pack.fps + 16 * slot, block, at, length, its))
    # Of others it may be that nobody has them here.
    for fp, block, at, length, its in live:
        if copies[block] == 1:
            targets["fps"].append((fp, 16, [block]))
            targets["pair"].append((at, length, its, fp))
    return inside


def find_targets(area, owners):
    """For each kind a list of (offset, length, the blocks): bytes to flip."""
    targets = {kind: [] for kind in ("data", "fps", "pair", "journal", "payload", "padding",
                                    "dead", "head", "present", "first", "middle", "last",
                                    "raw")}
    slots = list(area.slots())
    parts = {at: block for at, _, block in slots if block[:4] == b"RDJ1"}
    copies = {}
    inside = add_packs(area, targets, copies)
    for at, block in parts.items():
        length = 64 + struct.unpack_from("<I", block, 32)[0]
        targets["journal"].append((at, length, None))
        if length > 64:
            targets["payload"].append((at + 64, length - 64, None))
        inside.update(range(at, at + length, BLOCK))
        if length % BLOCK:
            targets["padding"].append((at + length, BLOCK - length % BLOCK, None))
    for at, fp, block in slots:
        if at in inside:
            continue
        if block not in owners:
            targets["dead"].append((at, BLOCK, None))
            continue
        copies[block] = copies.get(block, 0) + 1
        targets["data"].append((at, BLOCK, [block]))
        targets["fps"].append((fp, 16, [block]))
        targets["pair"].append((at, BLOCK, [block], fp))
    targets["super0"] = [(0, BLOCK, None)]
    targets["super1"] = [(1 << 20, BLOCK, None)]
    return targets, copies


def flip(pool, seed, nr, kinds):
    rnd = random.Random(int(seed))
    owners = read_images()
    area = Area(pool)
    targets, copies = find_targets(area, owners)
    wanted = {"sure": [], "maybe": [], "fps": 0}
    if os.path.exists("wanted.json"):
        with open("wanted.json") as file:
            wanted = json.load(file)
    used = set()
    for kind in kinds:
        # One bit a place, so that none comes back.
        choice = targets[kind] if kind.startswith("super") or kind in ("journal", "padding") \
            else rnd.sample(targets[kind], min(int(nr), len(targets[kind])))
        for i in range(min(int(nr), len(choice)) if kind != "journal" else int(nr)):
            target = choice[i % len(choice)]
            blocks = target[2] or []
            if used.intersection(blocks):
                continue
            used.update(blocks)
            area.flip(target[0] + rnd.randrange(target[1]), rnd.randrange(8))
            if kind == "pair":
                area.flip(target[3] + rnd.randrange(16), rnd.randrange(8))
            if kind == "fps":
                wanted["fps"] += 1
            if kind != "fps":
                want(wanted, blocks, copies, owners)
    area.close()
    with open("wanted.json", "w") as file:
        json.dump(wanted, file)


def want(wanted, blocks, copies, owners):
    for block in blocks:
        where = "sure" if copies[block] == 1 else "maybe"
        wanted[where] += [list(owner) for owner in owners.get(block, ())]


def overwrite(pool):
    owners = read_images()
    area = Area(pool)
    _, copies = find_targets(area, owners)
    packs = sorted(area.packs(), key=lambda pack: pack.length)
    assert len(packs) > 1, "there are no two packs"
    short, long = packs[0], packs[-1]
    data = area.read(short.at, short.length)
    area.file.seek(long.at)
    area.file.write(data)
    area.close()
    wanted = {"sure": [], "maybe": [], "fps": 0}
    want(wanted, long.blocks(), copies, owners)
    with open("wanted.json", "w") as file:
        json.dump(wanted, file)


# --- what was found


def read_json(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def blocks_of(damaged):
    return {offset for damage in damaged
            for offset in range(damage["offset"], damage["offset"] + damage["length"], BLOCK)}


def check_found(path):
    with open("wanted.json") as file:
        wanted = json.load(file)
    lines = read_json(path)
    found = {(line["version"], offset) for line in lines if line["type"] == "version"
             for offset in blocks_of(line["damaged"])}
    sure = {tuple(owner) for owner in wanted["sure"]}
    maybe = {tuple(owner) for owner in wanted["maybe"]}
    assert sure <= found, f"not found: {sorted(sure - found)}"
    assert found <= sure | maybe, f"found what is not damaged: {sorted(found - sure - maybe)}"
    assert bool(maybe) <= bool(found), "nothing was found"
    assert lines[-1]["fingerprints_damaged"] == wanted["fps"], \
        f"{lines[-1]['fingerprints_damaged']} fingerprints, not {wanted['fps']}"


def check_same(image, restored, bad):
    with open(image, "rb") as file:
        wanted = file.read()
    with open(restored, "rb") as file:
        got = file.read()
    assert len(got) == len(wanted), f"{len(got)} bytes, not {len(wanted)}"
    for at in range(0, len(wanted), BLOCK):
        if at in bad:
            assert not any(got[at:at + BLOCK]), f"damaged, and something is at {at}"
        else:
            assert got[at:at + BLOCK] == wanted[at:at + BLOCK], f"other content at {at}"


def restore(ctl, scrub=None):
    damaged = 0
    for image in sorted(name for name in os.listdir(".") if name.endswith(".img")):
        volume, number, _ = image.split(".")
        version = f"{volume}@{number}"
        if os.path.exists("back"):
            os.remove("back")
        run = subprocess.run([ctl, "restore", version, "--to", "back", "--json",
                              "--progress=never"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, check=False)
        assert run.returncode in (0, 4), f"status {run.returncode}: {run.stderr}"
        # The last line is the error, if there is one.
        ranges = json.loads(run.stdout.splitlines()[0])["damaged"]
        assert bool(ranges) == (run.returncode == 4), f"{ranges}, status {run.returncode}"
        check_same(image, "back", blocks_of(ranges))
        damaged += bool(ranges)
        if scrub:
            scrubbed = [line["damaged"] for line in read_json(scrub)
                        if line["type"] == "version" and line["version"] == version]
            assert scrubbed == [ranges], f"{version}: scrub has {scrubbed}, restore {ranges}"
    print(damaged)


def flip_one(path, seed):
    rnd = random.Random(int(seed))
    with open(path, "r+b") as file:
        at = rnd.randrange(os.stat(path).st_size)
        file.seek(at)
        byte = file.read(1)[0] ^ 1 << rnd.randrange(8)
        file.seek(at)
        file.write(bytes([byte]))
    print(at)


# Of a part of the journal.
KIND_DUMP = 3


def rename(pool, name):
    area = Area(pool)
    for at, _, block in area.slots():
        if block[:4] != b"RDJ1" or struct.unpack_from("<I", block, 36)[0] != KIND_DUMP:
            continue
        length = 64 + struct.unpack_from("<I", block, 32)[0]
        found = area.read(at, length).find(name.encode(), 64)
        if found >= 0:
            area.flip(at + found + len(name) - 1, 0)
            area.close()
            return
    raise AssertionError("no dump has the name")


def misplace(pool, what):
    catalog = sqlite3.connect(pool + "/catalog.db")
    frame, = catalog.execute(
        "SELECT max(start) FROM extent" if what == "free" else
        "SELECT min(frame) FROM slot_owner WHERE frame NOT IN (SELECT frame FROM packing)"
        " AND frame NOT IN (SELECT frame FROM queue)").fetchone()
    at = frame_offset(frame)
    with open(pool + "/data", "r+b") as file:
        if what == "unused":
            at = os.lseek(file.fileno(), at, os.SEEK_HOLE)
        if what == "lost":
            at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            subprocess.run(["fallocate", "--punch-hole", "--offset", str(at), "--length",
                            str(BLOCK), file.name], check=True)
        else:
            file.seek(at)
            file.write(b"x" * BLOCK)
    assert at < frame_offset(frame) + SEGMENT, f"frame {frame} has no such slot"


def same_ranges(path):
    restored = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    got = [line for line in restored if "damaged" in line][0]
    scrubbed = [line["damaged"] for line in read_json(path)
                if line["type"] == "version" and line["version"] == got["version"]]
    assert scrubbed == [got["damaged"]], f"scrub has {scrubbed}, restore {got['damaged']}"


def main():
    verb, args = sys.argv[1], sys.argv[2:]
    if verb == "images":
        make_images(*args)
    elif verb == "flip":
        flip(args[0], args[1], args[2], args[3:])
    elif verb == "found":
        check_found(*args)
    elif verb == "restore":
        restore(*args)
    elif verb == "overwrite":
        overwrite(*args)
    elif verb == "flip1":
        flip_one(*args)
    elif verb == "rename":
        rename(*args)
    elif verb == "misplace":
        misplace(*args)
    elif verb == "same-ranges":
        same_ranges(*args)


main()
