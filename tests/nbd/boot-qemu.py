#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Stand in for QEMU, first in PATH as qemu-system-x86_64, as one that a guest has taken over or broken.
BOOT_QEMU says what it does once the guest is to run:

  flood     tells of events without end
  drip      sends a line without end, a byte now and then, and answers nothing
  ends      ends
  stops     says that the guest was stopped by an internal error
  picture   shows a picture that stays
  shell     the same, and firmware says that nothing boots
  blind     shows two pictures, and then none any more

Each start adds a line to the file "starts" beside it; "runs" is there once the guest is to run.
"""

import json
import os
import sys
import time

here = os.path.dirname(os.path.abspath(sys.argv[0]))
does = os.environ.get("BOOT_QEMU", "")
words = [dict(part.partition("=")[::2] for part in arg.split(",")) for arg in sys.argv[1:]]
# By their names: of the channels, and of the set of the screen.
fds = {word.get("id", word.get("set")): int(word["fd"]) for word in words if "fd" in word}
looks = 0


def send(what):
    os.write(fds["qmp"], json.dumps(what).encode() + b"\n")


def dump_screen():
    """Black first, and half white then."""
    global looks
    looks += 1
    if does == "blind" and looks > 2:
        return {"error": {"class": "GenericError", "desc": "no screen"}}
    white = 0 if looks == 1 else 5000
    os.write(fds["1"], b"P6\n100 100\n255\n" + b"\xff\xff\xff" * white + bytes(3) * (10000 - white))
    return {"return": {}}


def run_guest():
    open(here + "/runs", "w", encoding="ascii").close()
    if does == "ends":
        sys.exit(1)
    if does == "drip":
        while True:
            os.write(fds["qmp"], b" ")
            time.sleep(0.1)
    if does == "shell":
        os.write(fds["serial"], b"BdsDxe: starting Boot0002 \"EFI Internal Shell\"\r\n"
                 b"UEFI Interactive Shell v2.2\r\n")


if "-version" in sys.argv:
    sys.exit()
with open(here + "/starts", "a", encoding="ascii") as starts:
    starts.write("start\n")
if "qmp" not in fds:
    # The trial of KVM.
    os.write(fds["serial"], b"SeaBIOS\n")
    sys.exit()
send({"QMP": {"version": {"qemu": {"major": 9}}}})
for line in os.fdopen(os.dup(fds["qmp"])):
    asked = json.loads(line)
    answer = {"return": {}}
    if asked["execute"] == "cont":
        run_guest()
    if asked["execute"] == "query-status":
        answer = {"return": {"status": "internal-error"}}
    if asked["execute"] == "screendump":
        answer = dump_screen()
    send(answer | {"id": asked["id"]})
    if asked["execute"] == "cont" and does == "stops":
        send({"event": "STOP"})
    while asked["execute"] == "cont" and does == "flood":
        send({"event": "NONE"})
