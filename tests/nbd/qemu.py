#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: qemu.py [OPTION]... [NAME...]

Take versions of a disk of a running QEMU by 'snapshot --qmp', in POOL, and compare each with what
was written. The QEMU has no processor; its monitor writes in the place of a guest. Without NAME:

  random    writes, discards, holes in what was written, QEMU ends or is killed, the disk grows,
            or is cut off and grows again, its bitmap is lost, another program has a bitmap of its own, the disk is replaced
  moment    a write after the moment, while the snapshot waits: it is not in the version, and it
            is in the next one
  waits     another command has the volume: there is no moment before it ends
  kills     a snapshot is killed at each of its steps, the next one finds all that was written,
            and nothing is left in QEMU
  silence   a snapshot is killed while QEMU does not answer: its volume is free at once, and nothing
            is left in QEMU when that answers again
  home      a guest has an old version as its disk at once, by an export, writes to it, and QEMU
            copies it to a file meanwhile
  refusals  no such disk, no such socket, a socket that another program has, an NBD server that is
            in use, no space for what is overwritten

  --ctl PROGRAM   revdedupctl, with named steps
  --pool DIR      a pool
  --format FORMAT of the disk: qcow2, where bitmaps outlive QEMU, or raw
  --seed N, --rounds N

Print a line for each test, and for random how often each case came up. Exit with 1 if one failed.
"""

import argparse
import collections
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

MIB = 1 << 20
SIZE = 24 * MIB

parser = argparse.ArgumentParser()
parser.add_argument("names", nargs="*")
parser.add_argument("--ctl", required=True)
parser.add_argument("--pool", required=True)
parser.add_argument("--format", default="qcow2")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--rounds", type=int, default=20)
args = parser.parse_args()
rng = random.Random(args.seed)
running = []


class Wrong(Exception):
    pass


def check(is_so, text):
    if not is_so:
        raise Wrong(text)


class Monitor:
    """A connection that speaks QMP."""

    def __init__(self, path):
        for _ in range(1200):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                time.sleep(0.05)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.run("qmp_capabilities")

    def run(self, verb, **arguments):
        self.file.write(json.dumps({"execute": verb, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "error" in answer:
                raise Wrong(f"{verb}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def close(self):
        self.file.close()
        self.socket.close()


class Qemu:
    """One that has the disk 'disk0', and what is on it."""

    def __init__(self, name):
        self.path = os.path.abspath(f"{name}.{args.format}")
        self.sockets = [os.path.abspath(f"{name}.qmp{i}") for i in (0, 1)]
        self.content = bytearray(SIZE)
        self.process = None
        self.more = []
        self.below = ""
        subprocess.run(["qemu-img", "create", "-q", "-f", args.format, self.path, str(SIZE)],
                       check=True)

    def start(self):
        command = ["qemu-system-x86_64", "-machine", "none", "-nodefaults", "-display", "none",
                   "-drive", f"if=none,id=drive0,driver={args.format},node-name=disk0,"
                   f"discard=unmap,file.driver=file,file.discard=unmap,"
                   f"file.filename={self.path}{self.below}", *self.more]
        for path in self.sockets:
            command += ["-qmp", f"unix:{path},server=on,wait=off"]
        # What qemu-io says goes there, and not to the monitor.
        with open("qemu.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        running.append(self.process)
        self.monitor = Monitor(self.sockets[1])

    def end(self, kill=False):
        if kill:
            # What was not flushed may be lost with it.
            self.io("flush")
            self.process.kill()
        else:
            self.monitor.run("quit")
        self.process.wait()
        self.monitor.close()

    def io(self, line):
        # As a device's, its writes go through what QEMU puts above the node.
        self.monitor.run("human-monitor-command", **{"command-line": f'qemu-io drive0 "{line}"'})
        with open("qemu.log") as log:
            said = log.read()
        check("failed" not in said, f"qemu-io {line}: {said}")

    def write(self, offset, length, byte):
        self.io(f"write -P {byte} {offset} {length}")
        self.content[offset:offset + length] = bytes([byte]) * length

    def discard(self, offset, length):
        self.io(f"write -z -u {offset} {length}")
        self.content[offset:offset + length] = bytes(length)

    def grow(self, size):
        self.monitor.run("block_resize", **{"node-name": "disk0", "size": size})
        self.content += bytes(size - len(self.content))

    def bitmaps(self):
        for node in self.monitor.run("query-named-block-nodes"):
            if node["node-name"] == "disk0":
                return [b["name"] for b in node.get("dirty-bitmaps", [])]
        return []

    def check_let_go(self):
        """Soon after a kill nothing is left in the way of the guest."""
        for _ in range(600):
            nodes = [n["node-name"] for n in self.monitor.run("query-named-block-nodes")]
            if not [n for n in nodes if n.startswith("rd-")]:
                return
            time.sleep(0.05)
        raise Wrong(f"nodes are left: {nodes}")

    def check_clean(self, bitmaps=1):
        """Nothing of a snapshot is left but the bitmap for the next one."""
        nodes = [n["node-name"] for n in self.monitor.run("query-named-block-nodes")]
        check(not [n for n in nodes if n.startswith("rd-")], f"nodes are left: {nodes}")
        check(not self.monitor.run("query-jobs"), "a job is left")
        check(not self.monitor.run("query-block-exports"), "an export is left")
        ours = [b for b in self.bitmaps() if b.startswith("rd-")]
        check(len(ours) == bitmaps, f"bitmaps: {ours}")
        check(not os.listdir("temp"), f"files are left: {os.listdir('temp')}")


def ctl(*words, fail=None, wait=True):
    env = dict(os.environ, REVDEDUP_POOL=args.pool)
    if fail:
        env["REVDEDUP_FAIL"] = fail
    process = subprocess.Popen([args.ctl, *words], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    if not wait:
        return process
    output = process.communicate()[0]
    return process.returncode, output


def snapshot(qemu, volume, *words, **how):
    return ctl("snapshot", volume, "--qmp", qemu.sockets[0], "--from", "disk0", "--temp", "temp",
               "--json", *words, **how)


def must(result):
    check(result[0] == 0, f"status {result[0]}: {result[1]}")
    return json.loads(result[1].splitlines()[-1])


def compare(volume, number, content):
    status, output = ctl("restore", f"{volume}@{number}", "--to", "restored", "--full", "--quiet",
                         "--yes")
    check(status == 0, f"restore: {output}")
    with open("restored", "rb") as restored:
        got = restored.read()
    check(len(got) == len(content), f"{volume}@{number} has {len(got)} bytes")
    for at in range(0, len(content), 4096):
        check(got[at:at + 4096] == content[at:at + 4096],
              f"{volume}@{number} differs at {at}")


def write_some(qemu, nr):
    for _ in range(nr):
        length = rng.choice((512, 4096, 65536, 3 * MIB // 2))
        offset = rng.randrange(0, (len(qemu.content) - length) // 512) * 512
        if rng.random() < 0.2:
            qemu.discard(offset, length)
        else:
            qemu.write(offset, length, rng.randrange(1, 256))


def test_random():
    """See above."""
    seen = collections.Counter()
    qemu = Qemu("random")
    qemu.start()
    foreign = None
    for round_ in range(args.rounds):
        write_some(qemu, rng.randrange(0, 6))
        event = rng.choice(("none", "none", "none", "ended", "killed", "grown", "cut",
                            "lost", "foreign", "replaced"))
        full = not round_
        if event == "ended":
            qemu.end()
            qemu.start()
            full |= args.format == "raw"
        elif event == "killed":
            qemu.end(kill=True)
            qemu.start()
            full = True
        elif event == "grown":
            qemu.grow(len(qemu.content) + rng.randrange(1, 2048) * 512)
            write_some(qemu, 1)
            full = True
        elif event == "cut":
            # No bitmap notes it.
            size = len(qemu.content)
            qemu.monitor.run("block_resize", **{"node-name": "disk0", "size": MIB * 5})
            qemu.monitor.run("block_resize", **{"node-name": "disk0", "size": size})
            qemu.content[5 * MIB:] = bytes(size - 5 * MIB)
            write_some(qemu, rng.randrange(0, 2))
        elif event == "lost":
            for name in qemu.bitmaps():
                if name.startswith("rd-"):
                    qemu.monitor.run("block-dirty-bitmap-remove", node="disk0", name=name)
            full = True
        elif event == "foreign" and foreign not in qemu.bitmaps():
            foreign = f"other{round_}"
            qemu.monitor.run("block-dirty-bitmap-add", node="disk0", name=foreign)
        elif event == "foreign":
            qemu.monitor.run("block-dirty-bitmap-clear", node="disk0", name=foreign)
        elif event == "replaced":
            qemu.end()
            os.unlink(qemu.path)
            qemu = Qemu("random")
            qemu.start()
            write_some(qemu, 3)
            full = True
        made = must(snapshot(qemu, "vm"))
        seen[event] += 1
        seen[made["mode"]] += 1
        check((made["mode"] == "full") == full, f"{event}: mode {made['mode']}, not full={full}")
        compare("vm", made["number"], qemu.content)
        qemu.check_clean()
    qemu.end()
    print("# " + ", ".join(f"{name} {nr}" for name, nr in sorted(seen.items())))


def wait_stopped(process):
    """Wait until it has reached the step at which it stops."""
    for _ in range(2400):
        with open(f"/proc/{process.pid}/stat") as stat:
            if stat.read().rsplit(")", 1)[1].split()[0] == "T":
                return
        if process.poll() is not None:
            raise Wrong(f"it ended: {process.stdout.read()}")
        time.sleep(0.05)
    raise Wrong("it does not stop")


def test_moment():
    """See above."""
    qemu = Qemu("moment")
    qemu.start()
    for round_ in range(3):
        write_some(qemu, 4)
        then = bytes(qemu.content)
        process = snapshot(qemu, "moment", fail="fleece-begun=stop", wait=False)
        wait_stopped(process)
        write_some(qemu, 6)
        process.send_signal(signal.SIGCONT)
        output = process.communicate()[0]
        made = must((process.returncode, output))
        check((made["mode"] == "full") == (not round_), f"mode {made['mode']}")
        compare("moment", made["number"], then)
    qemu.check_clean()
    qemu.end()


def test_waits():
    """See above."""
    qemu = Qemu("waits")
    qemu.start()
    write_some(qemu, 3)
    holder = ctl("snapshot", "waits", "--from", __file__, fail="snapshot-finish=stop", wait=False)
    wait_stopped(holder)
    process = snapshot(qemu, "waits", "--lock-wait", "600", wait=False)
    line = process.stdout.readline()
    check("waiting for another command" in line, line)
    check(not qemu.monitor.run("query-jobs"), "the moment was taken")
    write_some(qemu, 3)
    holder.send_signal(signal.SIGCONT)
    output = holder.communicate()[0]
    check(not holder.returncode, output)
    output = process.communicate()[0]
    made = must((process.returncode, output))
    compare("waits", made["number"], qemu.content)
    qemu.check_clean()
    qemu.end()


def test_home():
    """See above."""
    qemu = Qemu("home")
    qemu.start()
    write_some(qemu, 8)
    version = f"home@{must(snapshot(qemu, 'home'))['number']}"
    then = bytearray(qemu.content)
    qemu.write(0, MIB, 99)
    qemu.end()
    status, output = ctl("export", version, "--background")
    check(status == 0, output)
    path = re.search(r"socket=(\S+)", output)[1]
    back = Qemu("back")
    back.content = then
    back.below = ",backing=old"
    back.more = ["-blockdev", f"nbd,node-name=old,read-only=on,export={version},server.type=unix,"
                 f"server.path={path}"]
    back.start()
    # So slow that the guest writes before it is there.
    back.monitor.run("block-stream", **{"job-id": "home", "device": "disk0", "speed": MIB // 4})
    write_some(back, 6)
    check(back.monitor.run("query-block-jobs"), "it was copied before the guest wrote")
    back.monitor.run("block-job-set-speed", device="home", speed=0)
    for _ in range(2400):
        if not back.monitor.run("query-block-jobs"):
            break
        time.sleep(0.05)
    back.end()
    status, output = ctl("unexport", version)
    check(status == 0, output)
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", back.path, "back.raw"],
                   check=True)
    with open("back.raw", "rb") as raw:
        check(raw.read() == back.content, "what was copied is not what the guest had")


def test_kills():
    """See above."""
    qemu = Qemu("kills")
    qemu.start()
    write_some(qemu, 3)
    must(snapshot(qemu, "kills"))
    step = kills = full = 0
    named = ["fleece-ready=kill", "fleece-begun=kill", "fleece-exported=kill"]
    while True:
        # Where QEMU is asked, and some of all steps.
        step += 5
        fail = named.pop() if named else f"any:{step}=kill"
        write_some(qemu, 1)
        status, output = snapshot(qemu, "kills", fail=fail)
        if status == 0:
            break
        qemu.check_let_go()
        check(status == -signal.SIGKILL, f"status {status}: {output}")
        kills += 1
        write_some(qemu, 1)
        made = must(snapshot(qemu, "kills"))
        full += made["mode"] == "full"
        compare("kills", made["number"], qemu.content)
        qemu.check_clean()
    check(kills > 10, f"only {kills} kills")
    check(not full, f"{full} of {kills} snapshots after a kill were full")
    print(f"# {kills} kills")
    qemu.end()


def test_silence():
    """See above."""
    qemu = Qemu("silence")
    qemu.start()
    write_some(qemu, 3)
    os.environ["REVDEDUP_PATIENCE"] = "1000"
    process = snapshot(qemu, "silence", fail="fleece-exported=stop", wait=False)
    del os.environ["REVDEDUP_PATIENCE"]
    wait_stopped(process)
    qemu.process.send_signal(signal.SIGSTOP)
    process.kill()
    process.wait()
    # Longer than its guard waits for one answer.
    time.sleep(4)
    status, output = ctl("snapshot", "silence", "--from", __file__)
    check(not status, output)
    qemu.process.send_signal(signal.SIGCONT)
    qemu.check_let_go()
    made = must(snapshot(qemu, "silence"))
    compare("silence", made["number"], qemu.content)
    qemu.check_clean()
    qemu.end()


def test_refusals():
    """See above."""
    qemu = Qemu("refusals")
    qemu.start()
    write_some(qemu, 3)

    def refused(text, result):
        check(result[0] != 0, f"it was made: {result[1]}")
        check(text in result[1], f"no '{text}' in: {result[1]}")
        check("no version was made" in result[1], f"it does not say that none was made: {result[1]}")

    def again(*words, source="disk0", path=qemu.sockets[0], fail=None):
        return ctl("snapshot", "no", "--qmp", path, "--from", source, "--temp", "temp", *words,
                   fail=fail)

    # A directory without room.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "small", "temp"], check=True)
    refused("has no room for what the guest overwrites", again())
    subprocess.run(["umount", "temp"], check=True)
    refused("has no disk 'other'", again(source="other"))
    refused("cannot speak QMP", again(path="nowhere"))
    refused("cannot use the directory", ctl("snapshot", "no", "--qmp", qemu.sockets[0], "--from", "disk0",
                               "--temp", "nowhere"))
    qemu.check_clean(0)
    qemu.monitor.run("nbd-server-start",
                     addr={"type": "unix", "data": {"path": os.path.abspath("own.nbd")}})
    refused("NBD server already running", again())
    qemu.check_clean(0)
    qemu.monitor.run("nbd-server-stop")
    must(snapshot(qemu, "no"))
    qemu.check_clean()
    # What was overwritten is lost: a job that has ended tells.
    write_some(qemu, 3)
    process = snapshot(qemu, "no", fail="fleece-begun=stop", wait=False)
    wait_stopped(process)
    for job in qemu.monitor.run("query-jobs"):
        qemu.monitor.run("block-job-cancel", device=job["id"], force=True)
    write_some(qemu, 3)
    process.send_signal(signal.SIGCONT)
    output = process.communicate()[0]
    refused("could not keep what the guest has overwritten", (process.returncode, output))
    qemu.check_clean()
    made = must(snapshot(qemu, "no"))
    check(made["mode"] == "changed", f"mode {made['mode']}")
    compare("no", made["number"], qemu.content)
    # By the name of its device, and after a kill, when the device has a node above the disk.
    made = must(again("--json", source="drive0"))
    check(made["mode"] == "changed", f"mode {made['mode']}")
    again(source="drive0", fail="fleece-begun=kill")
    made = must(again("--json", source="drive0"))
    check(made["mode"] == "changed", f"mode {made['mode']}")
    qemu.end()
    qemu.more = ["-object", "iothread,id=thread0"]
    qemu.start()
    refused("has I/O threads", again())
    must(again("--force", "--json"))
    qemu.end()


tests = {"random": test_random, "moment": test_moment, "waits": test_waits,
         "kills": test_kills, "silence": test_silence, "home": test_home, "refusals": test_refusals}
os.makedirs("temp", exist_ok=True)
failed = 0
for test_name in args.names or tests:
    try:
        tests[test_name]()
        print(f"ok {test_name}")
    except Wrong as wrong:
        failed += 1
        print(f"not ok {test_name} (seed {args.seed}, {args.format}): {wrong}")
    finally:
        for qemu_process in running:
            qemu_process.kill()
            qemu_process.wait()
        running.clear()
sys.exit(failed > 0)
