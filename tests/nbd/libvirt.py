#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: libvirt.py --ctl PROGRAM [--seed N] [--rounds N] [NAME...]

Take versions of the disks of a domain of a real libvirtd by 'snapshot --libvirt', and compare each
with what was written. The guest is a firmware without a disk to boot from; the monitor of QEMU
writes in its place. Without NAME:

  random    writes, of all disks and of one, power off and on, QEMU is killed, checkpoints are
            lost, another program has some of its own, a disk is replaced
  kills     a snapshot is killed at its steps; the next one finds all that was written
  freezes   an agent that freezes, one that is slow and one that says nothing, and a kill while
            the guest is frozen: it is thawed; the agent is a program in the place of virsh
  refusals  no domain, no disk, no guest that runs, a backup of another program

Needs root, and a mount namespace of its own: it changes nothing of the libvirt of this machine.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import time

MIB = 1 << 20
SIZE = 16 * MIB
DISKS = {"vda": "qcow2", "vdb": "qcow2", "vdc": "raw"}

if "--apart" not in sys.argv:
    os.execvp("unshare", ["unshare", "--mount", sys.argv[0], "--apart", *sys.argv[1:]])

parser = argparse.ArgumentParser()
parser.add_argument("names", nargs="*")
parser.add_argument("--apart", action="store_true")
parser.add_argument("--ctl", required=True)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--rounds", type=int, default=20)
args = parser.parse_args()
rng = random.Random(args.seed)


class Wrong(Exception):
    pass


def check(is_so, text):
    if not is_so:
        raise Wrong(text)


def virsh(*words, fine=True):
    done = subprocess.run(["virsh", "-q", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0 or not fine, f"virsh {' '.join(words)}: {done.stdout}")
    return done.stdout


def start_libvirtd():
    """One with its own state; it is ended by its pid."""
    shutil.copytree("/etc/libvirt", "etc")
    with open("etc/qemu.conf", "a") as conf:
        conf.write('stdio_handler = "file"\nsecurity_driver = "none"\n')
    with open("libvirtd.conf", "w") as conf:
        conf.write('unix_sock_group = "root"\nauth_unix_ro = "none"\nauth_unix_rw = "none"\n')
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", "etc", "/etc/libvirt"], check=True)
    os.makedirs("/run/libvirt", exist_ok=True)
    for path in "/var/lib/libvirt", "/run/libvirt":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path], check=True)
    with open("libvirtd.log", "w") as log:
        process = subprocess.Popen(["libvirtd", "-f", os.path.abspath("libvirtd.conf")],
                                   stdout=log, stderr=log)
    for _ in range(600):
        if not subprocess.run(["virsh", "-q", "uri"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode:
            return process
        time.sleep(0.1)
    raise Wrong("libvirtd does not start")


class Domain:
    def __init__(self, name):
        self.name = name
        self.content = {disk: bytearray(SIZE) for disk in DISKS}
        disks = ""
        for disk, kind in DISKS.items():
            self.make(disk)
            disks += (f"<disk type='file' device='disk'><driver name='qemu' type='{kind}'/>"
                      f"<source file='{self.path(disk)}'/><target dev='{disk}' bus='virtio'/>"
                      "</disk>")
        with open("domain.xml", "w") as xml:
            xml.write(f"<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory>"
                      "<os><type arch='x86_64' machine='pc'>hvm</type></os>"
                      f"<devices>{disks}</devices></domain>")
        virsh("define", "domain.xml")
        virsh("start", name)

    def path(self, disk):
        return os.path.abspath(f"{self.name}-{disk}.img")

    def make(self, disk):
        subprocess.run(["qemu-img", "create", "-q", "-f", DISKS[disk], self.path(disk),
                        str(SIZE)], check=True)
        self.content[disk] = bytearray(SIZE)

    def io(self, disk, line):
        number = list(DISKS).index(disk)
        said = virsh("qemu-monitor-command", self.name, "--hmp",
                     f"qemu-io -d /machine/peripheral/virtio-disk{number}/virtio-backend "
                     f'"{line}"')
        check("rror" not in said and "ailed" not in said, said)

    def write_some(self, most=6):
        for _ in range(rng.randrange(0, most)):
            disk = rng.choice(list(DISKS))
            length = rng.choice((512, 4096, 65536, MIB))
            offset = rng.randrange(0, (SIZE - length) // 512) * 512
            byte = rng.randrange(1, 256)
            self.io(disk, f"write -q -P {byte} {offset} {length}")
            self.content[disk][offset:offset + length] = bytes([byte]) * length

    def flush(self):
        for disk in DISKS:
            self.io(disk, "flush")

    def checkpoints(self):
        return virsh("checkpoint-list", self.name, "--name").split()

    def check_clean(self):
        ours = [name for name in self.checkpoints() if name.startswith("rd-")]
        check(0 < len(ours) <= 2, f"checkpoints: {ours}")
        check(not virsh("backup-dumpxml", self.name, fine=False).startswith("<"),
              "a backup is left")
        check(not os.listdir("temp"), f"files are left: {os.listdir('temp')}")


def ctl(*words, fail=None):
    env = dict(os.environ, REVDEDUP_POOL=os.path.abspath("pool"))
    if fail:
        env["REVDEDUP_FAIL"] = fail
    done = subprocess.run([args.ctl, *words], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def snapshot(name, *words, **how):
    return ctl("snapshot", name, "--libvirt", "--temp", "temp", *words, **how)


def must(result):
    check(result[0] == 0, f"status {result[0]}: {result[1]}")
    return result[1]


def compare(domain, disk):
    must(ctl("restore", f"{domain.name}/{disk}@latest", "--to", "restored", "--full", "--quiet",
             "--yes"))
    with open("restored", "rb") as restored:
        got = restored.read()
    want = domain.content[disk]
    check(len(got) == len(want), f"{disk}: {len(got)} bytes")
    for at in range(0, len(want), 4096):
        check(got[at:at + 4096] == want[at:at + 4096], f"{disk} differs at {at}")


def compare_definition(domain, disk):
    version = f"{domain.name}/xml@latest"
    must(ctl("restore", version, "--to", "definition", "--full", "--quiet", "--yes"))
    with open("definition", encoding="utf-8") as definition:
        got = definition.read()
    want = virsh("dumpxml", domain.name)
    check(got.strip() == want.strip(), f"{version} is\n{got}\nand not\n{want}")
    shown = must(ctl("show", f"{domain.name}/{disk}@latest"))
    check(f"definition:     {domain.name}/xml@" in shown, shown)


def test_random():
    """See above."""
    seen = collections.Counter()
    domain = Domain("random")
    for round_ in range(args.rounds):
        domain.write_some()
        event = rng.choice(("none", "none", "one", "off", "killed", "lost", "foreign",
                            "replaced"))
        disks = list(DISKS)
        if event == "one":
            disks = [rng.choice(disks)]
        elif event == "off":
            domain.flush()
            virsh("destroy", domain.name, "--graceful")
            virsh("start", domain.name)
        elif event == "killed":
            domain.flush()
            with open(f"/run/libvirt/qemu/{domain.name}.pid") as pid:
                os.kill(int(pid.read()), signal.SIGKILL)
            while "running" in virsh("domstate", domain.name):
                time.sleep(0.05)
            virsh("start", domain.name)
        elif event == "lost":
            for name in domain.checkpoints():
                if name.startswith("rd-"):
                    virsh("checkpoint-delete", domain.name, name)
        elif event == "foreign":
            virsh("checkpoint-create-as", domain.name, f"other{round_}", "--diskspec",
                  "vdc,checkpoint=no")
        elif event == "replaced":
            virsh("destroy", domain.name)
            for name in domain.checkpoints():
                virsh("checkpoint-delete", domain.name, name, "--metadata")
            for disk in DISKS:
                os.unlink(domain.path(disk))
                domain.make(disk)
            virsh("start", domain.name)
            domain.write_some()
        output = must(snapshot(domain.name if len(disks) > 1 else f"{domain.name}/{disks[0]}"))
        seen[event] += 1
        compare_definition(domain, disks[0])
        for disk in disks:
            compare(domain, disk)
            full = f"{disk}@" in output and any(
                f"/{disk}@" in line and "full read" in line for line in output.splitlines())
            seen["full" if full else "changed"] += 1
            check(not full or event not in ("none", "one", "off", "foreign") or disk == "vdc" or
                  not round_ or seen["lax"], f"{event}: {disk} was read in full: {output}")
        # A kill may cost the bitmaps of each disk, and then those of which no version was taken.
        seen["lax"] = event in ("killed", "lost", "replaced", "one") and 1
        domain.check_clean()
    virsh("destroy", domain.name)
    check(seen["changed"] > 3, f"hardly a bitmap was used: {dict(seen)}")
    print("# " + ", ".join(f"{name} {nr}" for name, nr in sorted(seen.items()) if name != "lax"))


def test_kills():
    """See above."""
    domain = Domain("kills")
    must(snapshot(domain.name))
    kills = full = 0
    for fail in ("domain-ready", "domain-begun", "any:20", "group-copied", "group-bear",
                 "group-born", "any:60"):
        domain.write_some()
        status, output = snapshot(domain.name, fail=f"{fail}=kill")
        check(status in (0, -signal.SIGKILL), f"status {status}: {output}")
        kills += status != 0
        check("running" in virsh("domstate", domain.name), "the guest does not run")
        domain.write_some()
        output = must(snapshot(domain.name))
        full += output.count("full read") - 1
        compare_definition(domain, "vda")
        for disk in DISKS:
            compare(domain, disk)
        domain.check_clean()
    check(kills > 4, f"only {kills} kills")
    check(not full, f"{full} disks were read in full after {kills} kills")
    virsh("destroy", domain.name)


AGENT = '''#!/bin/bash
# virsh -q VERB DOMAIN ..., of which these are the agent's.
echo "$2" >>virsh.log
case $2 in
qemu-agent-command) echo "{\\"return\\":\\"$(<agent)\\"}"; [ "$(<agent)" != none ] ;;
domfsfreeze) sleep "$(<slow)"; echo frozen >agent ;;
domfsthaw) [ "$(<agent)" != frozen ] || echo thawed >agent ;;
*) exec /usr/bin/virsh "$@" ;;
esac
'''


def set_agent(state, slow="0"):
    for name, text in ("agent", state), ("slow", slow), ("virsh.log", ""):
        with open(name, "w") as file:
            file.write(text)


def agent():
    with open("agent") as file:
        return file.read().strip()


def test_freezes():
    """See above."""
    domain = Domain("freezes")
    os.makedirs("bin", exist_ok=True)
    with open("bin/virsh", "w") as program:
        program.write(AGENT)
    os.chmod("bin/virsh", 0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{os.getcwd()}/bin:{path}"
    try:
        set_agent("thawed")
        must(snapshot(domain.name))
        with open("virsh.log") as log:
            order = [line for line in log.read().split()
                     if line in ("domfsfreeze", "backup-begin", "domfsthaw")]
        check(order == ["domfsfreeze", "backup-begin", "domfsthaw"], f"{order}")
        check(agent() == "thawed", agent())
        # What another program has frozen stays so.
        set_agent("frozen")
        must(snapshot(domain.name))
        check(agent() == "frozen", agent())
        set_agent("none")
        must(snapshot(domain.name))
        # One that is given up, and freezes nevertheless.
        set_agent("thawed", "22")
        output = must(snapshot(domain.name))
        check("as after a loss of power" in output, output)
        time.sleep(3)
        check(agent() == "thawed", f"it was given up, and is {agent()}")
        for fail, slow in ("domain-frozen", "0"), (None, "3"):
            set_agent("thawed", slow)
            if fail:
                snapshot(domain.name, fail=f"{fail}=kill")
            else:
                process = subprocess.Popen([args.ctl, "snapshot", domain.name, "--libvirt",
                                            "--temp", "temp"],
                                           env=dict(os.environ, REVDEDUP_POOL="pool"))
                while agent() == "thawed" and not process.poll():
                    with open("virsh.log") as log:
                        if "domfsfreeze" in log.read():
                            break
                    time.sleep(0.05)
                process.kill()
                process.wait()
            time.sleep(8)
            check(agent() == "thawed", f"after a kill it is {agent()}")
            must(snapshot(domain.name))
    finally:
        os.environ["PATH"] = path
    virsh("destroy", domain.name)


def test_refusals():
    """See above."""
    domain = Domain("refusals")

    def refused(text, result):
        check(result[0] != 0, f"it was made: {result[1]}")
        check(text in result[1], f"no '{text}' in: {result[1]}")

    refused("failed to get domain", snapshot("nowhere"))
    refused("has no disk 'vdx'", snapshot("refusals/vdx"))
    refused("is not the name of a domain", snapshot(virsh("domid", domain.name).strip()))
    with open("other.xml", "w") as xml:
        xml.write("<domainbackup mode='pull'><server transport='tcp' name='127.0.0.1' "
                  "port='10909'/><disks><disk name='vda' backup='yes' type='file'>"
                  f"<scratch file='{os.path.abspath('scratch')}'/></disk></disks></domainbackup>")
    must(snapshot("refusals"))
    virsh("backup-begin", domain.name, "other.xml")
    refused("another program has begun a backup", snapshot("refusals"))
    check(virsh("backup-dumpxml", domain.name).startswith("<"), "the other backup has ended")
    virsh("domjobabort", domain.name)
    # Nothing was lost.
    output = must(snapshot("refusals", "--group", "first"))
    check(output.count("full read") == 1, output)
    refused("already has the tag", snapshot("refusals", "--group", "first"))
    domain.check_clean()
    virsh("destroy", domain.name)
    refused("is shut off", snapshot("refusals"))


tests = {"random": test_random, "kills": test_kills, "freezes": test_freezes,
         "refusals": test_refusals}
os.makedirs("temp", exist_ok=True)
os.chmod(".", 0o755)
failed = 0
libvirtd = start_libvirtd()
must(ctl("init", "pool", "--size", "1G", "--quiet", "--pieces", "1"))
for test_name in args.names or tests:
    try:
        tests[test_name]()
        print(f"ok {test_name}")
    except Wrong as wrong:
        failed += 1
        print(f"not ok {test_name} (seed {args.seed}): {wrong}")
    finally:
        for running in virsh("list", "--name").split():
            virsh("destroy", running, fine=False)
must(ctl("check"))
libvirtd.terminate()
libvirtd.wait()
sys.exit(failed > 0)
