#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: mix.py CTL DIR SEED MIXES [ONLY]

Put together files of two moments of a pool, or of twins, which are copies of a pool that
went on separately, and look at what revdedupctl makes of it. DIR is a directory to work in,
which is emptied. CTL has named steps (userspace/base/inject.h): behind the first versions, half of
the commands before a moment are killed at one of them. ONLY is the number of a single mix to try.

Each world, of MIXES_A_WORLD mixes, is a pool, a twin of it, and the moments of both, of which
the content of each version is known. A mix is one moment with some files, or frames of the
data area, of another one, or with frames that are lost. Two of three worlds have copies of frames
on another disk, the directory "elsewhere", for each moment as they were. A mix has these, those
of any other moment, or none. Then

  - list, restore, dump and scrub give no wrong byte, and what check finds whole can be restored
  - a command that writes (snapshot, tag, repair, prune, delete, copies) leaves all that
    could be had before, from the mix as it was or by `repair --rebuild-catalog`
  - what a snapshot makes can be restored
  - a command that is refused because the parts are not of one life changes nothing

It prints a line for each failure, and what it has seen, and exits with 1 for failures.
"""
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys

BLOCK = 4096
SEGMENT = 2 << 20
SIZE = 2 * SEGMENT + 3 * BLOCK
MIXES_A_WORLD = 25
CATALOG = ("catalog.db", "catalog.db-wal", "catalog.db-pages")
LIFE = ("older than", "each have changes")


class World:
    def __init__(self, ctl, root, seed):
        self.ctl, self.root = ctl, root
        self.rnd = random.Random(seed)
        self.moments = []	# (directory, {version: contents})
        self.has_copies = self.rnd.random() < 2 / 3
        self.used_copies = 0
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(self.path("elsewhere"))

    def path(self, name):
        return os.path.join(self.root, name)

    def run(self, pool, *words, fail=None):
        env = dict(os.environ, REVDEDUP_POOL=pool, TZ="UTC")
        env.pop("REVDEDUP_FAIL", None)
        if fail:
            env["REVDEDUP_FAIL"] = fail
        done = subprocess.run((self.ctl,) + words, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        errors = done.stderr.decode(errors="replace")
        self.used_copies += "from the copies" in errors
        return done.returncode, done.stdout, errors

    # --- copies

    def copies_of(self, pool):
        return os.path.join(self.path("elsewhere"), os.path.basename(pool))

    def update_copies(self, pool, share, fail=None):
        words = ("copies", share, "--force", "-q")
        if not os.path.lexists(os.path.join(pool, "copies")):
            words += ("--to", self.copies_of(pool))
        return self.run(pool, *words, fail=fail)

    # --- images

    def blocks(self, nr):
        if self.rnd.random() < 0.5:
            return self.rnd.randbytes(nr * BLOCK)
        return b"".join(self.rnd.randbytes(BLOCK // 4) * 4 for _ in range(nr))

    def change(self, image):
        for _ in range(self.rnd.randrange(1, 4)):
            nr = self.rnd.choice((1, 3, 20, 150))
            to = self.rnd.randrange(SIZE // BLOCK - nr)
            if self.rnd.random() < 0.3:
                at = self.rnd.randrange(SIZE // BLOCK - nr)
                new = image[at * BLOCK:(at + nr) * BLOCK]
            elif self.rnd.random() < 0.2:
                new = bytes(nr * BLOCK)
            else:
                new = self.blocks(nr)
            image[to * BLOCK:(to + nr) * BLOCK] = new
        return image

    def write_image(self, image):
        with open(self.path("image"), "wb") as out:
            out.write(image)
        return self.path("image")

    # --- histories

    def copy(self, source, target):
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(("cp", "-r", "--sparse=always", source, target), check=True)
        self.put(self.copies_of(source), self.copies_of(target))
        link = os.path.join(target, "copies")
        if os.path.lexists(link):
            os.unlink(link)
            os.symlink(self.copies_of(target), link)

    def keep(self, pool, versions):
        name = self.path(f"moment{len(self.moments)}")
        self.copy(pool, name)
        shutil.rmtree(os.path.join(name, "catalog.db-shm"), ignore_errors=True)
        self.moments.append((name, {key: set(value) for key, value in versions.items()}))

    def step(self, pool, life, kind=None):
        """A command, killed or not; life: images, contents by version. kind: it, not killed."""
        volume = self.rnd.choice(("a", "b"))
        fail = None
        if not kind and self.rnd.random() < 0.5:
            fail = f"any:{int(2 ** (self.rnd.random() * 7.5))}=kill"
        kind = kind or self.rnd.choices(
            ("snapshot", "delete", "tag", "prune", "dedup", "recompress", "copies"),
            (10, 3, 3, 1, 1, 1, 6 * self.has_copies))[0]
        words = None
        if kind == "snapshot":
            image = life["images"].setdefault(volume, bytearray(SIZE))
            self.change(image)
            words = ("snapshot", volume, "--from", self.write_image(image), "-q")
        elif kind == "delete":
            words = ("delete", f"{volume}@{self.rnd.choice(('latest', '-1', '-2', 1, 2))}", "-q")
        elif kind == "tag":
            words = ("tag", f"{volume}@latest", "+" + self.rnd.choice("xyz"), "-q")
        elif kind == "prune":
            words = ("prune", volume, "--keep-last", "3", "-q")
        elif kind == "dedup":
            words = ("dedup", "-q")
        elif kind == "recompress":
            words = ("recompress", self.rnd.choice(("none", "zstd")), "-q")
        if words:
            self.run(pool, *words, fail=fail)
        else:
            self.update_copies(pool, self.rnd.choice(("100%", "40%")), fail)
        if kind == "snapshot":
            # One that was killed may have made the version.
            sha = hashlib.sha256(image).hexdigest()
            for name in set(self.names(pool) or ()) - set(life["versions"]):
                life["versions"][name] = {sha}
        self.keep(pool, life["versions"])

    def names(self, pool):
        status, out, _ = self.run(pool, "list", "--json")
        if status:
            return None
        return [json.loads(line)["version"] for line in out.splitlines()]

    def live(self):
        pool, twin = self.path("pool"), self.path("twin")
        made = ("--compression", self.rnd.choice(("none", "zstd"))) + \
            self.rnd.choice(((), ("--pieces", "64", "--dedup", "inline")))
        self.run(pool, "init", pool, "--size", "96M", "--reserve", "4K", "-q", *made)
        life = {"images": {}, "versions": {}}
        for _ in range(3):
            self.step(pool, life, "snapshot")
        if self.has_copies:
            self.step(pool, life, "copies")
        for _ in range(2):
            self.step(pool, life)
        self.copy(pool, twin)
        other = {"images": {k: bytearray(v) for k, v in life["images"].items()},
                 "versions": dict(life["versions"])}
        for _ in range(4):
            self.step(pool, life)
            self.step(twin, other)

    # --- mixes

    def choose(self):
        """Two moments; most often with little between them: there the difference is small."""
        at = self.rnd.randrange(len(self.moments))
        near = [i for i in range(len(self.moments)) if i != at and abs(i - at) < 3]
        if self.rnd.random() < 0.3:
            near = [i for i in range(len(self.moments)) if i != at]
        return self.moments[at], self.moments[self.rnd.choice(near)]

    def mix(self, target):
        one, two = self.choose()
        self.copy(one[0], target)
        what = self.rnd.choices(("catalog", "data", "file", "frames", "hints", "lost"),
                                (8, 4, 2, 3, 1, 16 * self.has_copies))[0]
        if what == "catalog":
            names = CATALOG
        elif what == "data":
            names = ("data", "index")
        elif what == "file":
            names = self.rnd.sample(CATALOG, self.rnd.randrange(1, 3))
        elif what == "hints":
            names = ("index",)
        else:
            names = ()
            self.put_frames(two[0] if what == "frames" else None, target)
        for name in names:
            self.put(os.path.join(two[0], name), os.path.join(target, name))
        text = f"{what} of {os.path.basename(two[0])} in {os.path.basename(one[0])}"
        if self.has_copies and self.rnd.random() < 0.5:
            three = self.rnd.choice([two[0], self.rnd.choice(self.moments)[0], "none"])
            self.put(self.copies_of(three), self.copies_of(target))
            text += f", copies of {os.path.basename(three)}"
        allowed = {}
        for _, versions in (one, two):
            for version, contents in versions.items():
                allowed.setdefault(version, set()).update(contents)
        return text, what, allowed

    def put(self, source, target):
        if os.path.isdir(target):
            shutil.rmtree(target)
        elif os.path.exists(target):
            os.unlink(target)
        if os.path.exists(source):
            subprocess.run(("cp", "-r", "--sparse=always", source, target), check=True)

    def put_frames(self, source, target):
        """source: None, they are lost."""
        with open(os.path.join(source or target, "data"), "rb") as old, \
                open(os.path.join(target, "data"), "r+b") as new:
            size = os.path.getsize(os.path.join(target, "data"))
            frames = list(range(1, size // SEGMENT))
            used = [at for at in frames[1:] if self.has_data(old, at) or self.has_data(new, at)]
            for at in self.rnd.sample(used, min(len(used), self.rnd.randrange(1, 4))):
                self.put_blocks(old, new, at * SEGMENT, not source)

    def put_blocks(self, old, new, frame, lost):
        """Some of a frame or all are lost, or it is put there; a hole stays one."""
        share = self.rnd.choice((0.02, 0.2, 1))
        for at in range(frame, frame + SEGMENT, BLOCK):
            old.seek(at)
            new.seek(at)
            block, before = old.read(BLOCK), new.read(BLOCK)
            if lost and any(block) and self.rnd.random() < share:
                block = b"lost" * (BLOCK // 4)
            if block != before:
                new.seek(at)
                new.write(block)

    @staticmethod
    def has_data(file, at):
        try:
            return os.lseek(file.fileno(), at * SEGMENT, os.SEEK_DATA) < (at + 1) * SEGMENT
        except OSError:
            return False

    # --- what can be had

    def read(self, pool, name, verb):
        if verb == "dump":
            status, out, _ = self.run(pool, "dump", name)
            return None if status else hashlib.sha256(out).hexdigest()
        back = self.path("back")
        if os.path.exists(back):
            os.unlink(back)
        status, _, _ = self.run(pool, "restore", name, "--to", back, "-q")
        if status:
            return None
        with open(back, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def had(self, pool, verb="dump"):
        """{(version, content)} that can be had, and the names that cannot."""
        got, lost = set(), set()
        for name in self.names(pool) or ():
            sha = self.read(pool, name, verb)
            if sha:
                got.add((name, sha))
            else:
                lost.add(name)
        return got, lost

    def had_by_rebuild(self, pool):
        trial = self.path("trial")
        self.copy(pool, trial)
        self.run(trial, "repair", "--rebuild-catalog", "-q")
        return self.had(trial)[0]

    def sums(self, pool):
        sums = []
        for name in os.path.join(pool, "data"), self.copies_of(pool):
            if os.path.exists(name):
                with open(name, "rb") as file:
                    sums.append(hashlib.sha256(file.read()).hexdigest())
        return sums


def judge(world, number, seen):
    """Yields what is wrong of one mix."""
    pool, after = world.path("mix"), world.path("after")
    text, what, allowed = world.mix(pool)
    check, _, _ = world.run(pool, "check")
    scrub, _, _ = world.run(pool, "scrub")
    got, lost = world.had(pool, "restore")
    for name, sha in got:
        if sha not in allowed.get(name, ()):
            yield text, f"restore {name} gave a wrong byte"
    if not check and lost and what not in ("frames", "lost"):
        yield text, f"check found nothing, and {sorted(lost)} cannot be restored"
    if not check and not scrub and lost:
        yield text, f"scrub found nothing, and {sorted(lost)} cannot be restored"
    before = got | world.had_by_rebuild(pool)
    for name, sha in before - got:
        if sha not in allowed.get(name, ()):
            yield text, f"after a rebuild {name} is wrong"
    seen["one life" if not check else "refused"] += 1

    world.copy(pool, after)
    verb = world.rnd.choice(("snapshot", "snapshot", "tag", "repair", "prune", "delete") +
                            ("copies",) * 2 * world.has_copies)
    volume = world.rnd.choice(("a", "b"))
    gone, image = set(), None
    if verb == "snapshot":
        image = world.change(bytearray(SIZE))
        words = ("snapshot", volume, "--from", world.write_image(image))
    elif verb == "tag":
        words = ("tag", f"{volume}@latest", "+mix")
    elif verb == "prune":
        words = ("prune", volume, "--keep-last", "2")
    elif verb == "delete":
        words = ("delete", f"{volume}@1")
    else:
        words = (verb,)
    sum_before = world.sums(after)
    names = set(world.names(after) or ())
    # With less, what has moved to a frame that is not chosen has no copy any more.
    status, _, errors = world.update_copies(after, "100%") if verb == "copies" else \
        world.run(after, *words)
    seen[f"{verb} {status}"] += 1
    if verb in ("prune", "delete"):
        gone = names - set(world.names(after) or ())
    if status == 1 and any(words in errors for words in LIFE) and world.sums(after) != sum_before:
        yield text, f"{verb} was refused, and changed the data area or the copies"
    left, broken = world.had(after)
    for name, sha in left:
        if name in names and sha not in allowed.get(name, ()):
            yield text, f"{verb}: {name} is wrong"
        if name not in names and image and name.startswith(volume) and \
                sha != hashlib.sha256(image).hexdigest() and sha not in allowed.get(name, ()):
            yield text, f"{verb}: the new {name} is wrong"
    if verb == "snapshot":
        new = set(world.names(after) or ()) - names
        if new & broken and names:
            yield text, f"{verb} {status}: {sorted(new & broken)} cannot be restored: {errors}"
    missing = {(n, s) for n, s in before - left if n not in gone}
    if missing:
        missing -= world.had_by_rebuild(after)
    if missing:
        yield text, f"{verb} {status}: lost {sorted(n for n, _ in missing)}: {errors}"
    seen["used copies"] += world.used_copies > 0
    world.used_copies = 0


def main():
    ctl, root, seed, mixes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    only = int(sys.argv[5]) if len(sys.argv) > 5 else None
    failures, world = 0, None
    seen = __import__("collections").Counter()
    for number in range(mixes):
        if only is not None and number // MIXES_A_WORLD != only // MIXES_A_WORLD:
            continue
        if number % MIXES_A_WORLD == 0:
            world = World(ctl, root, seed * 1000003 + number)
            world.live()
        world.rnd = random.Random(seed * 1000003 + number + (1 << 40))
        if only is not None and number != only:
            continue
        for text, wrong in judge(world, number, seen):
            print(f"mix {number}, {text}: {wrong.strip()}", flush=True)
            failures += 1
    print(", ".join(f"{key}: {nr}" for key, nr in sorted(seen.items())))
    print(f"{failures} failures")
    return 1 if failures else 0


sys.exit(main())
