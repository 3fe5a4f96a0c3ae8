#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: boot-sector.py KIND FILE

Write a disk of 1 MiB that boots by BIOS within a second, and whose guest does one thing:

  login    writes "hello", and "vm login: " without an end of the line, to the serial console
  none     does nothing
  reboot   boots again
  off      powers off, by APM or else by the port of q35
  screen   draws half of a screen white
  write    writes to its disk, and says "vm login: " if it reads the same there
  escape   writes to the serial console what would change a terminal, and powers off
  flood    writes to the serial console without an end
"""

import struct
import sys

HALT = bytes.fromhex("f4 eb fd")                        # hlt; jmp back
ORIGIN = 0x7c00


def say(text, tail=HALT, at=0):
    """Code at ORIGIN + at that writes text to the first serial port, and goes on with tail."""
    code = bytearray.fromhex("31 c0 8e d8 be 00 00"     # xor ax, ax; mov ds, ax; mov si, text
                             "ac 84 c0 74 06"           # lodsb; test al, al; jz tail
                             "ba f8 03 ee eb f5")       # mov dx, 0x3f8; out dx, al; jmp lodsb
    code += tail
    struct.pack_into("<H", code, 5, ORIGIN + at + len(code))
    return bytes(code) + text + b"\0"


def write():
    """Write the sector at ORIGIN to the disk's second one, read it to 0x8000, compare."""
    code = bytes.fromhex("31 c0 8e d8 8e c0"            # xor ax, ax; mov ds, ax; mov es, ax
                         "be 00 7d b8 00 43 cd 13"      # mov si, 0x7d00; mov ax, 0x4300; int 0x13
                         "c7 06 04 7d 00 80"            # mov word [0x7d04], 0x8000
                         "b4 42 cd 13"                  # mov ah, 0x42; int 0x13
                         "be 00 7c bf 00 80 b9 00 01"   # mov si, 0x7c00; mov di, 0x8000; mov cx, 256
                         "f3 a7 74 03")                 # repe cmpsw; je over HALT
    # The two differ where this has changed the request since.
    code = code.replace(bytes.fromhex("b9 00 01"), bytes.fromhex("b9 80 00"))
    code += HALT
    code += say(b"vm login: ", at=len(code))
    request = struct.pack("<BBHHHQ", 16, 0, 1, ORIGIN, 0, 1)
    return code.ljust(0x100, b"\0") + request


# By APM: connect, version, power off; by the port of q35.
OFF = bytes.fromhex("b8 01 53 31 db cd 15 b8 0e 53 31 db b9 02 01 cd 15"
                    "b8 07 53 bb 01 00 b9 03 00 cd 15 ba 04 06 b8 00 20 ef") + HALT

KINDS = {
    "login": say(b"hello\r\nvm login: "),
    "none": HALT,
    "reboot": bytes.fromhex("ea f0 ff 00 f0"),          # jmp 0xf000:0xfff0
    "off": OFF,
    "screen": bytes.fromhex("b8 12 00 cd 10"            # 640 x 480
                            "68 00 a0 07 31 ff b9 00 40 b8 ff ff f3 ab") + HALT,
    "write": write(),
    "escape": say(b"\x1b]0;gone\x07\x1b[2J\xc2\x9b31m\r\nfine\r\n", OFF),
    "flood": bytes.fromhex("ba f8 03 b0 61 ee eb fd"),  # out dx, 'a' for ever
}

if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
    sys.exit(__doc__.strip())
with open(sys.argv[2], "wb") as disk:
    disk.write(KINDS[sys.argv[1]].ljust(510, b"\0") + b"\x55\xaa")
    disk.truncate(1 << 20)
