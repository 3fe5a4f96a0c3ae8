#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: stream-relay.py MODE ARG... HOST COMMAND       (as --rsh does it)
#        stream-relay.py MODE ARG... <FILE >FILE
#
# Stand between the ends of a stream (see userspace/pool/stream/record.h), or change a file:
#
#   cut N               end after N bytes of the sender
#   hold N              after N bytes of the sender make the file "held", and wait for "go"
#   flip TYPE AT NR     change the byte AT of the payload of the NRth record of that type, all
#                       of them where it is 0; its checksum is right again
#   keep FILE           copy what the sender says to FILE
#   codecs              print how each DATA is compressed, and pass nothing on
import os
import select
import subprocess
import sys
import time

from crc32c import crc32c

PREAMBLE, HEAD = 20, 12


class Flip:
    def __init__(self, kind, at, number):
        self.kind, self.at, self.number = ord(kind), int(at), int(number)
        self.data, self.seen, self.begun = b"", 0, False

    def change(self, record):
        self.seen += 1
        if self.number not in (0, self.seen):
            return record
        payload = bytearray(record[HEAD:])
        payload[self.at] ^= 1
        crc = crc32c(record[:8] + payload)
        return record[:8] + crc.to_bytes(4, "little") + payload

    def __call__(self, data):
        self.data += data
        out = b""
        if not self.begun:
            if len(self.data) < PREAMBLE:
                return b""
            out, self.data, self.begun = self.data[:PREAMBLE], self.data[PREAMBLE:], True
        while len(self.data) >= HEAD:
            end = HEAD + int.from_bytes(self.data[4:8], "little")
            if len(self.data) < end:
                break
            record, self.data = self.data[:end], self.data[end:]
            out += self.change(record) if record[0] == self.kind else record
        return out


class Codecs(Flip):
    def __init__(self):
        super().__init__("D", 0, 0)

    def change(self, record):
        print(record[HEAD + 72])
        return record

    def __call__(self, data):
        super().__call__(data)
        return b""


class Keep:
    def __init__(self, name):
        self.file = open(name, "wb", buffering=0)

    def __call__(self, data):
        self.file.write(data)
        return data


class Count:
    def __init__(self, left):
        self.left = int(left)

    def __call__(self, data):
        data = data[:self.left]
        self.left -= len(data)
        return data


class Cut(Count):
    def is_over(self):
        return not self.left


class Hold(Count):
    def __call__(self, data):
        if self.left and len(data) >= self.left:
            self.left = 0
            with open("held", "w") as file:
                print(self.child, file=file)
            while not os.path.exists("go"):
                time.sleep(0.01)
        self.left -= min(len(data), self.left)
        return data


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def relay(change, command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    change.child = child.pid
    to, back = os.dup(child.stdin.fileno()), os.dup(child.stdout.fileno())
    child.stdin.close()
    child.stdout.close()
    ways = {0: to, back: 1}
    try:
        while back in ways:
            for fd in select.select(list(ways), [], [])[0]:
                data = os.read(fd, 65536)
                if not data:
                    os.close(ways.pop(fd))
                    continue
                write_all(ways[fd], data if fd else change(data))
            if getattr(change, "is_over", bool)():
                break
    except BrokenPipeError:
        pass
    # It has ended before the sender sees that.
    if 0 in ways:
        os.close(to)
    while back in ways and os.read(back, 65536):
        pass
    return child.wait()


def main():
    mode, args = sys.argv[1], sys.argv[2:]
    makers = {"cut": (Cut, 1), "hold": (Hold, 1), "flip": (Flip, 3), "keep": (Keep, 1),
              "codecs": (Codecs, 0)}
    make, nr = makers[mode]
    change = make(*args[:nr])
    if args[nr:]:
        sys.exit(relay(change, ["sh", "-c", "exec " + args[nr + 1]]))
    write_all(1, change(sys.stdin.buffer.read()))


main()
