#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: hostile.py CTL ROUNDS SEED DIR [PLUGIN]

Let revdedupctl (CTL) use pools in DIR that a stranger has changed at random: some files are
links, fifos, devices, directories or cut off; pages and rows of the catalog have other values,
with the right checks; there are triggers, journals and logs. Each command must end, by itself and
with little memory; nothing outside of the pool may change; a version that is restored with exit 0
is the right one. With PLUGIN, nbdkit serves the pool as well.

The same SEED repeats a run; "SEED:ROUND" repeats one round, and leaves its pool.
"""
import contextlib
import importlib.machinery
import importlib.util
import os
import random
import re
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
CLI = os.path.join(HERE, "../cli")
sys.path.insert(0, CLI)
loader = importlib.machinery.SourceFileLoader("edit_catalog", CLI + "/edit-catalog.py")
catalog = importlib.util.module_from_spec(importlib.util.spec_from_loader("edit_catalog", loader))
loader.exec_module(catalog)

BLOCK = 4096
SANITIZED = "SANITIZED" in os.environ
# Of one command: seconds of CPU, of waiting without an end in sight, and bytes.
MAX_CPU = 60 if SANITIZED else 15
MAX_WAIT = 300
MAX_MEMORY = 256 << 20
FILES = ["data", "reserve", "pool.json", "catalog.db", "catalog.db-pages", "catalog.db-wal",
         "catalog.db-shm", "catalog.db-journal", "catalog.new", "catalog.new-pages",
         "catalog.new-wal", "catalog.old", "catalog.spare-wal", "catalog.spare-shm", "copies",
         "index", "index/lock", "index/lookups", "index/lookups.old", "index/whole", "index/1",
         "index/2", "index/3.new", "last-scrub", "last-check"]
NUMBERS = [0, 1, -1, 2, 3, 511, 512, 4096, 1 << 20, 1 << 31, 1 << 32, 1 << 36, 1 << 40, 1 << 52,
           1 << 53, 1 << 60, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 62), 68719476736,
           68719476736 + 5]
# Those that a restore proves nothing about: which content is whose.
UNPROVEN = {("volume", "next_number"), ("volume", "name"), ("volume", "id")}
SCHEMA = [
    "CREATE TRIGGER t{n} AFTER UPDATE ON state BEGIN DELETE FROM version; END",
    "CREATE TRIGGER t{n} AFTER INSERT ON session BEGIN UPDATE version SET number = number + 9; END",
    "CREATE VIEW v{n} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "CREATE TABLE more{n}(x, y AS (x + 1))",
    "CREATE INDEX more{n} ON segment(recipe, born)",
    "CREATE UNIQUE INDEX more{n} ON version(id, abs(time))",
    "ALTER TABLE tag RENAME TO tag{n}",
    "ALTER TABLE version ADD COLUMN more{n} INTEGER",
    "DROP TABLE tag", "DROP TABLE uses", "DROP TABLE pack", "DROP INDEX segment_recipe",
    "PRAGMA user_version = 5", "PRAGMA user_version = 7", "PRAGMA application_id = 1",
    "ANALYZE",
]


class Failure(Exception):
    pass


def run(command, **more):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **more)


# --- the pool as it was made

def make_images(rng):
    first = bytearray(rng.randbytes(700 * BLOCK))
    first[200 * BLOCK:300 * BLOCK] = bytes(100 * BLOCK)
    images = [("vm1", 1, bytes(first))]
    for nr in 2, 3:
        at = 100 * nr * BLOCK
        first[at:at + 9 * BLOCK] = rng.randbytes(9 * BLOCK)
        images.append(("vm1", nr, bytes(first)))
    text = b"".join(b"%x\n" % rng.getrandbits(64) for _ in range(60000))
    images.append(("vm2", 1, text))
    images.append(("vm2", 2, bytes(first[:512 * BLOCK]) + text[:BLOCK * 50]))
    return images


def make_pool(ctl, images):
    run([ctl, "init", "-q", "was", "--size", "100M", "--reserve", "64K", "--compression", "zstd"])
    for volume, nr, content in images:
        name = f"{volume}.{nr}.img"
        with open(name, "wb") as file:
            file.write(content)
        run([ctl, "-p", "was", "-q", "snapshot", volume, "--from", name, "--dedup", "inline"])
    run([ctl, "-p", "was", "-q", "tag", "vm1@2", "+good"])


# --- what must not change

def make_outside():
    shutil.rmtree("outside", ignore_errors=True)
    os.makedirs("outside/folder")
    for name in "file", "folder/lookups", "folder/catalog.db":
        with open("outside/" + name, "wb") as file:
            file.write(b"canary " * 3000)


def look_outside():
    found = {}
    for folder, folders, files in os.walk("outside"):
        for name in folders + files:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            found[path] = mode, open(path, "rb").read() if stat.S_ISREG(mode) else None
    return found


# --- changes

def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def change_file(rng, told):
    name = rng.choice(FILES)
    path = "pool/" + name
    outside = os.path.abspath("outside")
    how = rng.choice(["link", "nowhere", "folder", "fifo", "empty", "hard", "device", "socket",
                      "garbage", "sparse", "cut", "missing", "swap", "loop", "flip"])
    told.append(f"{name}: {how}")
    if not os.path.isdir(os.path.dirname(path)) or os.path.islink(os.path.dirname(path)):
        return
    if how in ("cut", "flip", "swap"):
        if not os.path.isfile(path) or os.path.islink(path):
            return
        size = os.path.getsize(path)
        if how == "cut":
            os.truncate(path, rng.randrange(size + 1))
        elif how == "swap":
            other = "pool/" + rng.choice(FILES)
            if os.path.isfile(other) and not os.path.islink(other):
                os.rename(path, "swap")
                if os.path.lexists(other):
                    os.rename(other, path)
                    os.rename("swap", other)
        else:
            with open(path, "r+b") as file:
                for _ in range(rng.randrange(1, 9)):
                    file.seek(rng.randrange(min(size, rng.choice([100, 9000, 9 << 20])) or 1))
                    file.write(bytes([rng.randrange(256)]))
        return
    remove(path)
    if how == "link":
        os.symlink(outside + "/file", path)
    elif how == "nowhere":
        os.symlink(outside + "/new", path)
    elif how == "folder":
        os.symlink(outside + "/folder", path) if rng.randrange(2) else os.mkdir(path)
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "empty":
        open(path, "w").close()
    elif how == "hard":
        os.link("outside/file", path)
    elif how == "device":
        if os.geteuid() == 0:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, rng.choice([3, 5, 7])))
    elif how == "socket":
        # Its path must be short.
        with socket.socket(socket.AF_UNIX) as unix:
            here = os.open(os.path.dirname(path), os.O_RDONLY)
            unix.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
            os.close(here)
    elif how == "garbage":
        with open(path, "wb") as file:
            file.write(rng.randbytes(rng.choice([1, 32, 64, 4096, 50000])))
    elif how == "sparse":
        with open(path, "wb") as file:
            file.truncate(1 << rng.choice([13, 32, 40]))
    elif how == "loop":
        os.symlink(os.path.basename(path), path)


def change_journal(rng, told):
    told.append("journal")
    name = (os.path.abspath("outside") + "/file").encode()
    magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    def number(n): return (n & 0xffffffff).to_bytes(4, "big")
    page = rng.randbytes(BLOCK)
    check = 7 + sum(page[i] for i in range(BLOCK - 200, 0, -200))
    with open("pool/catalog.db-journal", "wb") as file:
        head = magic + number(1) + number(7) + number(10) + number(512) + number(BLOCK)
        file.write(head.ljust(512, b"\0") + number(rng.randrange(1, 9)) + page + number(check))
        if rng.randrange(2):
            file.write(number((1 << 30) // BLOCK + 1) + name + number(len(name)) +
                       number(sum(name)) + magic)


def change_page(rng, told):
    told.append("page")
    path = "pool/catalog.db"
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        page = rng.randrange(size // BLOCK) * BLOCK
        for _ in range(rng.randrange(1, 5)):
            # The head of the page, or what it has.
            file.seek(page + rng.randrange(rng.choice([8, 100, BLOCK - 8])))
            file.write(bytes([rng.choice([0, 1, 2, 5, 10, 13, 127, 128, 255, rng.randrange(256)])]))
    catalog.seal(path)


def value_of(rng, old):
    if isinstance(old, bytes):
        how = rng.randrange(5)
        if how == 0:
            return b""
        if how == 1:
            return rng.randbytes(rng.choice([1, 16, 32, 64, 5000]))
        if how == 2:
            return old[:rng.randrange(len(old) + 1)]
        if how == 3 and old:
            at = rng.randrange(len(old))
            return old[:at] + bytes([rng.randrange(256)]) + old[at + 1:]
        return old + old
    how = rng.randrange(12)
    if how == 0:
        return rng.choice(["", "x" * 100, "a\nb", "../../x", "%s%n", "\x1b[2J", "vm2"])
    if how == 1:
        return rng.randbytes(rng.choice([1, 16, 100000]))
    if how == 2:
        return rng.choice([0.5, 1e300, -1e300])
    if how < 6 and isinstance(old, int):
        return max(-(1 << 63), min((1 << 63) - 1, old + rng.choice([-1, 1, 2, 1 << 20])))
    return rng.choice(NUMBERS)


def change_row(rng, told, ret_unproven):
    # A connection that stays would have its locks.
    with contextlib.closing(sqlite3.connect("pool/catalog.db")) as db:
        change_row_of(db, rng, told, ret_unproven)
    catalog.seal("pool/catalog.db")


def change_row_of(db, rng, told, ret_unproven):
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"
                                           " ORDER BY name")]
    table = rng.choice(tables)
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    rows = list(db.execute(f"SELECT * FROM {table}"))
    how = rng.randrange(8)
    column = rng.choice(columns)
    if (table, column) in UNPROVEN:
        ret_unproven.append(table)
    if not rows:
        values = [rng.choice(NUMBERS) for _ in columns]
        told.append(f"insert {table} {values}")
        db.execute(f"INSERT OR IGNORE INTO {table} VALUES({','.join('?' * len(columns))})", values)
    elif how == 0:
        told.append(f"delete {table}")
        row = rng.choice(rows)
        db.execute(f"DELETE FROM {table} WHERE {columns[0]} IS ?", [row[0]])
    elif how == 1:
        told.append(f"empty {table}")
        db.execute(f"DELETE FROM {table}")
    elif how == 2:
        value = value_of(rng, rows[0][columns.index(column)])
        told.append(f"all {table}.{column} = {value!r:.60}")
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", [value])
    elif how == 3:
        a, b = rng.choice(rows), rng.choice(rows)
        told.append(f"swap {table}.{column}")
        i = columns.index(column)
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {columns[0]} IS ?", [b[i], a[0]])
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {columns[0]} IS ?", [a[i], b[0]])
    else:
        row = rng.choice(rows)
        value = value_of(rng, row[columns.index(column)])
        told.append(f"{table}.{column} of {row[0]!r:.20} = {value!r:.60}")
        where = " AND ".join(f"{name} IS ?" for name in columns)
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}", [value, *row])
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def varint(n):
    text = b""
    while n > 127:
        text += bytes([n & 127 | 128])
        n >>= 7
    return text + bytes([n])


# Recipes in a ring, and one that refers to itself.
def change_map(rng, told):
    with contextlib.closing(sqlite3.connect("pool/catalog.db")) as db:
        ids = [row[0] for row in db.execute("SELECT id FROM recipe ORDER BY id")]
        ring = rng.sample(ids, min(len(ids), rng.randrange(1, 5)))
        told.append(f"ring {ring}")
        for i, one in enumerate(ring):
            step = ring[(i + 1) % len(ring)] - one
            text = b"\xff" + varint(512 - 64) + varint(step * 2 if step >= 0 else -step * 2 - 1)
            db.execute("UPDATE recipe SET map = ? WHERE id = ?", [text + b"\0", one])
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    catalog.seal("pool/catalog.db")


def change_schema(rng, told):
    statement = rng.choice(SCHEMA).format(n=rng.randrange(100))
    told.append(statement)
    catalog.edit("pool/catalog.db", statement)


def change_data(rng, told):
    told.append("data")
    size = 2 << 20
    with open("pool/data", "r+b") as file:
        for _ in range(rng.randrange(1, 20)):
            file.seek(rng.choice([0, 1 << 20, 2 << 20, 514 << 12, 4 << 20, 6 << 20]) +
                      rng.randrange(rng.choice([64, BLOCK, size])))
            file.write(bytes([rng.choice([0, 1, 255, rng.randrange(256)])]))


def change(rng, told, unproven):
    try:
        how = rng.randrange(20)
        if how < 5:
            change_file(rng, told)
        elif how < 6:
            change_journal(rng, told)
        elif how < 8:
            change_page(rng, told)
        elif how < 9:
            change_map(rng, told)
        elif how < 11:
            change_schema(rng, told)
        elif how < 12:
            change_data(rng, told)
        else:
            change_row(rng, told, unproven)
    except (sqlite3.Error, OSError, ValueError) as error:
        # After another change it may not be possible.
        told.append(f"({error})")


# --- commands

COMMANDS = [
    ["list"], ["list", "--json"], ["show", "vm1@2"], ["stats"], ["stats", "--isolation"],
    ["metrics"], ["check"], ["scrub"], ["scrub", "--json"], ["restore", "vm1@1"],
    ["restore", "vm1@2"], ["restore", "vm1@3"], ["restore", "vm2@1"], ["restore", "vm2@2"],
    ["restore", "vm1@3"], ["diff", "vm1@1", "vm1@3"],
    ["snapshot", "vm1", "--from", "vm1.3.img"],
    ["snapshot", "vm2", "--from", "vm2.1.img", "--dedup", "inline"],
    ["snapshot", "vm3", "--from", "vm1.1.img"], ["tag", "vm1@1", "+x"],
    ["delete", "vm1@1"], ["delete", "vm2@2"], ["prune", "--keep-last", "1"],
    ["prune", "-n", "--keep-daily", "3"], ["dedup"], ["dedup", "-n"], ["recompress", "zstd"],
    ["grow", "--size", "120M"], ["repair"], ["repair", "-n"],
    ["repair", "--rebuild-catalog"], ["repair", "--rebuild-catalog", "--force"],
    ["restore", "vm1@2"], ["dump", "vm1@3"], ["list"],
]


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU, MAX_CPU))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # No file outgrows the disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 41, 1 << 41))


def wait(process, command):
    """A command that waits for nothing is killed by an alarm."""
    def too_long(*_):
        process.kill()
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(MAX_WAIT)
    _, status, usage = os.wait4(process.pid, 0)
    signal.alarm(0)
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if SANITIZED and re.search(rb"Sanitizer|runtime error", open("errors", "rb").read()):
        raise Failure(f"{' '.join(command)}: a sanitizer")
    if code < 0 or code > 100:
        raise Failure(f"{' '.join(command)}: ended with {code}")
    if not SANITIZED and usage.ru_maxrss * 1024 > MAX_MEMORY:
        raise Failure(f"{' '.join(command)}: {usage.ru_maxrss} KiB of memory")
    return code


def use(ctl, command, images, unproven):
    args = [ctl, "-p", "pool", *command]
    if command[0] == "restore":
        remove("back")
        args += ["--to", "back", "--yes"]
    with open("out", "wb") as out, open("errors", "wb") as errors:
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                   preexec_fn=limit)
    code = wait(process, command)
    if code == 0 and command[0] in ("restore", "dump") and not unproven:
        if open("out" if command[0] == "dump" else "back", "rb").read() != images[command[1]]:
            raise Failure(f"{' '.join(command)}: wrong bytes, exit 0")
    return code


def serve(plugin, version, images, unproven):
    """By nbdkit. Where it does not start, nbdcopy waits for it."""
    remove("back")
    command = ["nbdkit", "-U", "-", plugin, "pool=pool", f"version={version}", "--run",
               'timeout 60 nbdcopy "$uri" back || exit 1']
    with open("errors", "wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors,
                                   stderr=errors, preexec_fn=limit)
    code = wait(process, command)
    # Of rows that are valid and not of the version, restore says so alone.
    if code == 0 and not unproven and len(open("back", "rb").read()) < len(images[version]):
        raise Failure(f"{version} over NBD is too short, exit 0")


def one_round(ctl, plugin, seed, images):
    rng = random.Random(seed)
    told, unproven, used = [], [], []
    remove("pool")
    run(["cp", "-r", "--sparse=always", "was", "pool"])
    make_outside()
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        change(rng, told, unproven)
    # SQLite itself, which changes rows, believes a journal that an earlier change has made.
    before = look_outside()
    try:
        if plugin and not rng.randrange(4):
            serve(plugin, rng.choice(sorted(images)), images, unproven)
        for command in rng.sample(COMMANDS, rng.randrange(4, 9)):
            code = use(ctl, command, images, unproven)
            used.append(f"{' '.join(command)} {code}")
            if look_outside() != before:
                raise Failure(f"{' '.join(command)}: changed something outside")
            if command[0] in ("snapshot", "delete", "prune") or "--rebuild-catalog" in command:
                after = use(ctl, ["restore", "vm1@3"], images, unproven)
                used.append(f"restore {after}")
    except Failure as failure:
        text = re.sub(rb"[^\n -~]", b"?", open("errors", "rb").read()[-3000:]).decode()
        print(f"not ok: seed {seed}: {failure}\n# changes: {'; '.join(told)}\n"
              f"# commands: {', '.join(used)}\n# its errors:\n{text}", flush=True)
        return False
    if "TELL" in os.environ:
        print(f"{seed}: {'; '.join(told)}: {', '.join(used)}", flush=True)
    return True


def main():
    ctl, rounds, seed, directory, *plugin = sys.argv[1:]
    ctl, plugin = os.path.abspath(ctl), [os.path.abspath(path) for path in plugin]
    os.chdir(directory)
    seed, _, one = seed.partition(":")
    images = make_images(random.Random(1))
    if not os.path.isdir("was"):
        make_pool(ctl, images)
    by_name = {f"{volume}@{nr}": content for volume, nr, content in images}
    numbers = [int(one)] if one else range(int(rounds))
    failed = sum(not one_round(ctl, plugin[0] if plugin else None, f"{seed}:{nr}", by_name)
                 for nr in numbers)
    print(f"{len(numbers)} rounds, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
