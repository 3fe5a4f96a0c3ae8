#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Usage: ask-disk.py TEXTS
#
# Print what asks 'revdedupctl serve' for a disk by NBD (Documentation/stream.rst), with these
# texts, in which \0 ends one.
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(sys.argv[0]), "../cli"))
from crc32c import crc32c  # pylint: disable=wrong-import-position

preamble = b"RDSTRM1\nN" + bytes(7)
payload = bytes(8) + sys.argv[1].replace("\\0", "\0").encode()
head = struct.pack("<c3xI", b"Q", len(payload))
sys.stdout.buffer.write(preamble + struct.pack("<I", crc32c(preamble)) + head +
                        struct.pack("<I", crc32c(head + payload)) + payload)
