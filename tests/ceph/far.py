#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: far.py PORT...
#
# Make a network that has no way out but to these ports of this host, which goes through here. Prints
# the path of that network, for nsenter. Stopped, it holds up all that was sent, and lets it arrive
# when it is continued.
import ctypes
import os
import socket
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result:
        raise OSError(ctypes.get_errno(), "no network of its own")


def relay(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for end in source, target:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(listener, port):
    while True:
        near = listener.accept()[0]
        try:
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            near.close()
            continue
        for pair in (near, far), (far, near):
            threading.Thread(target=relay, args=pair, daemon=True).start()


def main():
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    must(libc.unshare(CLONE_NEWNET))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    # Sockets stay in the network that they were made in.
    listeners = [(socket.create_server(("127.0.0.1", int(port))), int(port)) for port in sys.argv[1:]]
    must(libc.setns(home, CLONE_NEWNET))
    threads = [threading.Thread(target=serve, args=pair) for pair in listeners]
    for thread in threads:
        thread.start()
    print(f"/proc/{os.getpid()}/fd/{network}", flush=True)


main()
