#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
What a pool on a cluster of storage nodes would be worth and cost: Documentation/cluster.rst.

    cluster.py placement [OPTION]...    VMs that lose nothing when nodes fail, by placement
    cluster.py copies [OPTION]...       VMs that one lost frame hurts, with and without copies
    cluster.py exchange [OPTION]...     what a pass costs each of many hosts

Nothing here is measured: it is arithmetic and dice, with a fixed seed, and --help of each says
what can be set.
"""

import argparse
import itertools
import math
import random

# "VM-Centric Snapshot Deduplication" (Zhang et al., 2014) says what came out, in its table 7, and
# not for how many blocks of 64 MB a VM. These were fitted to that table, so what they give of it
# confirms nothing.
PAPER_OWN, PAPER_POPULAR, PAPER_SHARED_BY = 550, 18000, 106.77


def availability(replicas, nodes, failed):
    """Return how likely an object survives: its nodes are not all among those that failed."""
    return 1 - math.comb(failed, replicas) / math.comb(nodes, replicas)


class Objects:
    """Objects that are placed as one, by a draw of nodes for each.

    of_vm is how many of them a VM needs. Each is needed by so many VMs, drawn at random, as
    that makes; if a VM needs all, by all.
    """

    def __init__(self, total, replicas, of_vm):
        self.total, self.replicas, self.of_vm = total, replicas, of_vm

    def place(self, nodes, dice):
        """Note for each set of nodes what is there."""
        self.places = {}
        for number in range(self.total):
            place = tuple(sorted(dice.sample(range(nodes), self.replicas)))
            self.places.setdefault(place, []).append(number)

    def needed_by(self, number, vms):
        """Return the VMs that need an object, the same ones each time."""
        if self.of_vm >= self.total:
            return range(vms)
        exact = vms * self.of_vm / self.total
        dice = random.Random(number * 1000003 + self.total)
        return dice.sample(range(vms), int(exact) + (dice.random() < exact % 1))

    def lost(self, failed, vms):
        """Return the VMs that lose something if these nodes fail."""
        hurt = set()
        for place in itertools.combinations(sorted(failed), self.replicas):
            for number in self.places.get(place, ()):
                hurt.update(self.needed_by(number, vms))
        return hurt


def schemes(arg):
    """Yield a name, and the objects of it."""
    own = arg.vms * PAPER_OWN
    yield "VM-oblivious, r=3", [Objects(own, 3, PAPER_OWN * PAPER_SHARED_BY)]
    for replicas in (6, 9):
        yield f"VM-centric, PDS r={replicas}", [
            Objects(own, 3, PAPER_OWN), Objects(PAPER_POPULAR, replicas, PAPER_POPULAR)]
    # Without its catalog a frame is of no version. Its objects are in all PGs of its RADOS pool.
    catalog = Objects(arg.catalog, arg.catalog_replicas, arg.catalog)
    yield "frames, hashed over all PGs", [Objects(arg.pgs, 3, arg.pgs), catalog]
    refers = arg.keys * (1 + arg.refers)
    yield f"{arg.keys} keys a volume, refer to {arg.refers} others", [
        Objects(arg.pgs, 3, refers), catalog]
    yield f"{arg.keys} keys a volume, commons r=6", [
        Objects(arg.pgs, 3, arg.keys), Objects(arg.commons, 6, arg.commons), catalog]


def by_formula(objects, nodes, failed):
    """Return the share of VMs that lose nothing."""
    return math.prod(availability(o.replicas, nodes, failed) ** o.of_vm for o in objects)


def by_dice(objects, arg, failed, dice):
    """Return the share of VMs that lose nothing, and the share of draws in which none does."""
    hurt = whole = 0
    for _ in range(arg.draws):
        down = dice.sample(range(arg.nodes), failed)
        lost = set().union(*(o.lost(down, arg.vms) for o in objects))
        hurt += len(lost)
        whole += not lost
    return 1 - hurt / arg.vms / arg.draws, whole / arg.draws


def fullest(arg, keys):
    """Return what the fullest node has beside the mean, if each volume has so many keys.

    With as many keys as there are PGs, all PGs have the same.
    """
    dice = random.Random(arg.seed)
    groups, nodes = [float(keys == arg.pgs)] * arg.pgs, [0.0] * arg.nodes
    for _ in range(arg.vms if keys < arg.pgs else 0):
        # The largest is some 40 times the mean, as in the paper.
        size = dice.paretovariate(1.5)
        for group in dice.sample(range(arg.pgs), keys):
            groups[group] += size / keys
    for size in groups:
        for node in dice.sample(range(arg.nodes), 3):
            nodes[node] += size
    return max(nodes) / sum(nodes) * arg.nodes


def placement(arg):
    """Print a line for each scheme and number of nodes that fail, and how even they are."""
    print(f"{arg.vms} VMs, {arg.nodes} nodes, {arg.pgs} PGs, {arg.draws} draws, seed {arg.seed}")
    print(f"{'scheme':34} {'failed':>6} {'VMs whole, %':>12} {'by dice':>9} {'none hurt':>9}")
    for name, objects in schemes(arg):
        dice = random.Random(arg.seed)
        for some in objects:
            if arg.draws:
                some.place(arg.nodes, dice)
        for failed in arg.failed:
            line = f"{name:34} {failed:6} {100 * by_formula(objects, arg.nodes, failed):12.4f}"
            if arg.draws:
                share, whole = by_dice(objects, arg, failed, dice)
                line += f" {100 * share:9.3f} {100 * whole:9.1f}"
            print(line)
    print(f"the fullest node / the mean: hashed over all PGs {fullest(arg, arg.pgs):.2f}, "
          f"{arg.keys} keys a volume {fullest(arg, arg.keys):.2f}")


def zipf(total, kinds):
    """Share out a total, the nth kind a share of 1/n: whole numbers, at least 1 each."""
    scale = total / sum(1 / n for n in range(1, kinds + 1))
    return [max(1, round(scale / n)) for n in range(1, kinds + 1)]


def copies(arg):
    """Print how many VMs one lost frame hurts, on average and at worst."""
    # (frames, VMs that need each)
    images = [(arg.image, vms) for vms in zipf(arg.vms, arg.images)]
    own = [(arg.own * arg.vms, 1)]
    # An upgrade replaces the same content in all VMs of an image. What it replaced is cold: each
    # VM has its own, until a pass leaves one.
    before = images + own + [(arg.old * vms, 1) for _, vms in images]
    after = images + own + [(arg.old, vms) for _, vms in images]
    print(f"{arg.vms} VMs of {arg.images} images, {arg.copies:g} % copies")
    print(f"{'':22} {'frames':>8} {'VMs hurt, mean':>14} {'worst':>6}")
    for name, frames, percent in (
            ("before a pass", before, 0), ("after it", after, 0),
            ("after it, with copies", after, arg.copies)):
        total = sum(nr for nr, _ in frames)
        room = total * percent / 100
        hurt = worst = 0
        # A frame of which there is a copy hurts none.
        for nr, vms in sorted(frames, key=lambda frame: -frame[1]):
            copied = min(nr, room)
            room -= copied
            hurt += (nr - copied) * vms
            worst = max(worst, vms if nr > copied else 0)
        print(f"{name:22} {total:8} {hurt / total:14.3f} {worst:6}")


def exchange(arg):
    """Print what one host of many reads, sends, writes and holds in a pass over all.

    Each host streams the fingerprints of its frames, and sends each to the host of its
    partition, which appends it to a file; then it joins partition by partition, and sends what
    was found back to the host that has the duplicate.
    """
    blocks = arg.raw * 10**12 * arg.stored / 100 / 4096
    partitions = math.ceil(blocks / arg.table)
    fingerprints, entries = 16 * blocks, 24 * blocks
    found = entries * arg.found / 100
    remote = (arg.hosts - 1) / arg.hosts
    # Each entry is written once and read once, as is each answer.
    disk = fingerprints + arg.replicas * (entries + found) + entries + found
    network = arg.replicas * (entries + found) * remote
    # A buffer for each other host while it sends, and one for each partition while it receives.
    memory = (arg.hosts + partitions) * 65536 + arg.table * 24
    seconds = max(disk / arg.disk, network / arg.network) / 10**6
    for what, value in (
            ("blocks a host", f"{blocks / 1e6:.0f} million"),
            ("partitions a host", f"{partitions}"),
            ("fingerprints read", f"{fingerprints / 1e9:.2f} GB"),
            ("sent", f"{network / 1e9:.2f} GB"),
            ("read and written", f"{disk / 1e9:.2f} GB"),
            ("buffers", f"{(arg.hosts + partitions) * 65536 / 2**20:.1f} MiB"),
            ("memory", f"{memory / 2**20:.1f} MiB"),
            ("time", f"{seconds / 60:.1f} min")):
        print(f"{what:20} {value}")


def options():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0].strip())
    verbs = parser.add_subparsers(required=True)

    def verb(function, *rows):
        sub = verbs.add_parser(function.__name__, description=function.__doc__,
                               formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        sub.set_defaults(run=function)
        for name, default, text in rows:
            sub.add_argument(f"--{name}", type=type(default), default=default, help=text)
        return sub

    sub = verb(placement,
               ("vms", 1000, "VMs"), ("nodes", 100, "nodes"), ("pgs", 4096, "placement groups"),
               ("commons", 512, "placement groups of the commons"),
               ("catalog", 64, "placement groups of the catalogs; 0: they are not counted"),
               ("catalog-replicas", 6, "replicas of the catalogs"),
               ("keys", 8, "locator keys of a volume"),
               ("refers", 2, "other volumes that one refers to, without commons"),
               ("draws", 200, "draws of nodes that fail; 0: only the formula"),
               ("seed", 1, "of the dice"))
    sub.add_argument("--failed", type=int, nargs="+", default=[3, 5, 10], help="nodes that fail")
    verb(copies,
         ("vms", 1000, "VMs"), ("images", 20, "images that VMs are clones of"),
         ("image", 500, "frames that the clones of an image share"),
         ("own", 200, "frames that only one VM has"),
         ("old", 20, "frames of content that upgrades replaced, of each VM"),
         ("copies", 1.0, "percent of all frames, of those that most VMs need"))
    verb(exchange,
         ("hosts", 100, "hosts"), ("raw", 10.0, "TB of versions a host"),
         ("stored", 9.0, "percent of them that are stored"),
         ("table", 1000000, "entries that are joined at a time"),
         ("found", 5.0, "percent of all blocks that are duplicates"),
         ("replicas", 1, "of what is exchanged"),
         ("disk", 50.0, "MB/s of a host's disk"), ("network", 100.0, "MB/s of a host's network"))
    return parser.parse_args()


if __name__ == "__main__":
    args = options()
    args.run(args)
