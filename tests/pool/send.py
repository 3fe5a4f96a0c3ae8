#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: send.py CTL DIR SEED STEPS

Let pools send their versions to each other at random, while snapshots are taken and deleted and
commands of all kinds run, and cut most of it off: the connection after so many bytes, in one
direction; either end by kill -9 at a named step (userspace/base/inject.h: CTL has them); a file
that is cut or has a bit flipped. DIR is a directory to work in, which is emptied.

After each step every version that any pool has must have the content of the snapshot with its
uid, byte by byte, and check must find nothing wrong. What was cut goes on later: in the end all
is sent once more, undisturbed, and all pools have what the first one has.

It prints a line for each failure, and what it has seen, and exits with 1 for failures.
"""
import collections
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys

BLOCK = 4096
SIZE = 3 * (2 << 20) + 3 * BLOCK
VOLUMES = ("a", "b")

# As ssh: HOST COMMAND. HOST is "pass", "up-N" or "down-N": cut after N bytes from or to the client;
# or "kill-N": the other end dies at its Nth step.
RSH = r"""#!/usr/bin/python3
import os, subprocess, sys, threading
what, _, nr = sys.argv[1].partition("-")
env = dict(os.environ)
env.pop("REVDEDUP_FAIL", None)
if what == "kill":
    env["REVDEDUP_FAIL"] = f"any:{nr}=kill"
child = subprocess.Popen(sys.argv[2], shell=True, env=env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
def carry(source, target, left):
    while left:
        data = os.read(source, min(left, 65536))
        if not data:
            break
        left -= len(data)
        try:
            os.write(target, data)
        except OSError:
            break
    if not left:
        child.kill()
        os._exit(1)
up = threading.Thread(target=carry, args=(0, child.stdin.fileno(),
                                          int(nr) if what == "up" else 1 << 60), daemon=True)
up.start()
def end():
    up.join()
    child.stdin.close()
threading.Thread(target=end, daemon=True).start()
carry(child.stdout.fileno(), 1, int(nr) if what == "down" else 1 << 60)
sys.exit(child.wait())
"""


class World:
    def __init__(self, ctl, root, seed):
        self.ctl, self.root = ctl, root
        self.rnd = random.Random(seed)
        self.images = {name: bytearray(SIZE) for name in VOLUMES}
        self.truth = {}		# uid: (sha256, volume)
        self.seen = collections.Counter()
        self.failures = 0
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(root)
        with open(self.path("rsh"), "w", encoding="utf-8") as out:
            out.write(RSH)
        os.chmod(self.path("rsh"), 0o755)
        # The third one receives from the second.
        self.pools = [self.path(name) for name in ("one", "two", "three")]
        for pool in self.pools:
            made = ("--compression", self.rnd.choice(("none", "zstd"))) + \
                self.rnd.choice(((), ("--pieces", "64", "--dedup", "inline")))
            self.run(pool, "init", pool, "--size", "256M", "--reserve", "4K", "-q", *made)

    def path(self, name):
        return os.path.join(self.root, name)

    def run(self, pool, *words, fail=None, stdin=None, stdout=subprocess.PIPE):
        env = dict(os.environ, REVDEDUP_POOL=pool, TZ="UTC",
                   PATH=os.path.dirname(self.ctl) + ":" + os.environ["PATH"])
        env.pop("REVDEDUP_FAIL", None)
        if fail:
            env["REVDEDUP_FAIL"] = fail
        done = subprocess.run((self.ctl,) + words, env=env, stdin=stdin or subprocess.DEVNULL,
                              stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=300)
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")

    def wrong(self, text):
        print(text, flush=True)
        self.failures += 1

    # --- what is there

    def versions(self, pool):
        """{name: uid}"""
        found = {}
        for line in self.run(pool, "list", "--json")[1].splitlines():
            one = json.loads(line)
            if one["type"] == "version":
                found[one["version"]] = one["uid"]
            else:
                self.seen["arriving"] += 1
        return found

    def look(self, pool, number, what):
        for name, uid in self.versions(pool).items():
            status, out, errors = self.run(pool, "dump", name)
            if status or hashlib.sha256(out).hexdigest() != self.truth[uid]:
                self.wrong(f"step {number}, {what}: {name} in {pool} is wrong: {errors.strip()}")
        status, out, errors = self.run(pool, "check")
        if status:
            self.wrong(f"step {number}, {what}: check of {pool}: {errors.strip()}")

    # --- steps

    def change(self, image):
        for _ in range(self.rnd.randrange(1, 4)):
            nr = self.rnd.choice((1, 3, 20, 150, 400))
            to = self.rnd.randrange(len(image) // BLOCK - nr)
            if self.rnd.random() < 0.3:
                other = self.images[self.rnd.choice(VOLUMES)]
                at = self.rnd.randrange(len(other) // BLOCK - nr)
                new = bytes(other[at * BLOCK:(at + nr) * BLOCK])
            elif self.rnd.random() < 0.2:
                new = bytes(nr * BLOCK)
            else:
                new = b"".join(self.rnd.randbytes(BLOCK // 4) * 4 for _ in range(nr))
            image[to * BLOCK:(to + nr) * BLOCK] = new
        if self.rnd.random() < 0.1:
            size = SIZE + self.rnd.randrange(-300, 300) * BLOCK + self.rnd.choice((0, 512))
            image[:] = image[:size] + bytes(max(0, size - len(image)))

    def snapshot(self, pool=None):
        pool = pool or self.pools[0]
        volume = self.rnd.choice(VOLUMES)
        image = self.images[volume]
        self.change(image)
        with open(self.path("image"), "wb") as out:
            out.write(image)
        before = set(self.versions(pool))
        self.run(pool, "snapshot", volume, "--from", self.path("image"), "-q")
        sha = hashlib.sha256(image).hexdigest()
        for name, uid in self.versions(pool).items():
            if name not in before:
                self.truth[uid] = sha

    def disturb(self, pool):
        volume = self.rnd.choice(VOLUMES)
        words = self.rnd.choice((
            ("delete", f"{volume}@{self.rnd.choice(('latest', '-1', 1, 2))}"),
            ("prune", volume, "--keep-last", "3"),
            ("dedup",),
            ("recompress", self.rnd.choice(("none", "zstd"))),
            ("repair",),
            ("repair", "--rebuild-catalog"),
            ("tag", f"{volume}@latest", "+" + self.rnd.choice("xy")),
        ))
        self.run(pool, *words, "-q", fail=self.rnd.choice((None, self.kill())))

    def kill(self):
        return f"any:{int(2 ** (self.rnd.random() * 8))}=kill"

    def cut(self):
        nr = int(2 ** (self.rnd.random() * 24))
        return self.rnd.choice((f"up-{nr}", f"down-{nr}", f"kill-{int(nr ** 0.4) + 1}", "pass"))

    def send(self, one, two, host, fail=None):
        """Push or pull what is new."""
        words = ["--rsh", self.path("rsh"), "--all", "-q"]
        if self.rnd.random() < 0.2:
            words += ["--newest", "1"]
        if self.rnd.random() < 0.5:
            status, _, errors = self.run(one, "send", *words, "--force", "--to",
                                         f"{host}:{two}", fail=fail)
        else:
            status, _, errors = self.run(two, "receive", *words, "--from", f"{host}:{one}",
                                         fail=fail)
        self.seen[f"{host.split('-')[0]}{' killed' if fail else ''} {status}"] += 1
        return status, errors

    def send_file(self, one, two):
        volume = self.rnd.choice(VOLUMES)
        words = ["send", volume]
        names = [name for name in self.versions(two) if name.startswith(volume)]
        if names and self.rnd.random() < 0.8:
            words += ["--since", names[-1].split("@")[1]]
        with open(self.path("stream"), "w+b") as stream:
            self.run(one, *words, "-q", stdout=stream)
            size = stream.seek(0, 2)
            if size and self.rnd.random() < 0.6:
                at = self.rnd.randrange(size)
                if self.rnd.random() < 0.5:
                    stream.truncate(at)
                else:
                    stream.seek(at)
                    byte = stream.read(1)[0]
                    stream.seek(at)
                    stream.write(bytes((byte ^ 1 << self.rnd.randrange(8),)))
                    stream.flush()
            stream.seek(0)
            status, _, _ = self.run(two, "receive", "-q", stdin=stream)
        self.seen[f"file {status}"] += 1

    def step(self, number):
        at = self.rnd.randrange(2)
        one, two = self.pools[at], self.pools[at + 1]
        kind = self.rnd.choices(("snapshot", "disturb", "send", "killed", "file", "stray"),
                                (6, 3, 8, 4, 3, 0.3))[0]
        if kind == "snapshot":
            self.snapshot()
        elif kind == "stray":
            # The receiver takes one of its own: the next one is compared with that.
            self.snapshot(two)
        elif kind == "disturb":
            self.disturb(self.rnd.choice((one, two)))
        elif kind == "send":
            self.send(one, two, self.cut())
        elif kind == "killed":
            self.send(one, two, "pass", self.kill())
        else:
            self.send_file(one, two)
        self.seen[kind] += 1
        for pool in (one, two):
            self.look(pool, number, kind)


def main():
    ctl, root, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    world = World(ctl, root, seed)
    for number in range(steps):
        world.step(number)
    # A snapshot makes sure that the last version is new to all.
    for _ in range(4):
        world.snapshot()
    for at in range(2):
        status, _, errors = world.run(world.pools[at], "send", "--all", "--force", "-q",
                                      "--to", world.pools[at + 1])
        if status not in (0, 3):
            world.wrong(f"the last send from {world.pools[at]}: {status}: {errors.strip()}")
    last = [{v: uid for v, uid in ((name.split("@")[0], uid)
                                   for name, uid in world.versions(pool).items())}
            for pool in world.pools]
    for pool, has in zip(world.pools, last):
        world.look(pool, steps, "end")
        if has != last[0]:
            world.wrong(f"{pool} has not the newest versions")
    print(", ".join(f"{key}: {nr}" for key, nr in sorted(world.seen.items())))
    print(f"{world.failures} failures")
    return 1 if world.failures else 0


sys.exit(main())
