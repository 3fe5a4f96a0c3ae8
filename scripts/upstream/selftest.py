#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: selftest.py DIR

Write into DIR what the kernel's selftest of dm-revdedup is made of: those tests of tests/guest,
and those functions of their libraries, that need no program but dmserve,
or only what selftest/crash.bash has instead. Prints for each file
how many of its tests it has.
"""

import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
GUEST = os.path.realpath(f"{HERE}/../../tests/guest")
LIBRARIES = ["lib/guest.bash", "lib/volume.bash", "table/table.bash"]
TESTS = ["target/target.bats", "target/outage.bats", "target/resize.bats",
         "table/io.bats", "table/messages.bats", "table/hydration.bats", "table/errors.bats"]
PROGRAM = ["lib/dmserve.c", "lib/dmreq.c", "lib/dmreq.h"]
# Programs and modules that only this project has, its document, and what its guests have.
ONLY_HERE = r"/revdedup/(?!bin/dmserve\b|modules/dm-revdedup\.ko)|\bDMR_CONTROL\b|\bfio\b"
# A function, or a test, in lines of its own, with the comment above it.
BLOCK = re.compile(r"(?:^#(?!!| SPDX)[^\n]*\n)*"
                   r"^(?:@test \"[^\n]*\"|(?P<name>\w+)\(\)) \{(?:[^\n]*\}\n|\n.*?^\}\n)\n?", re.M | re.S)


def without(text, names):
    """Remove the blocks that need one of @names, or what is only here; add theirs to @names."""
    while True:
        bad = "|".join([ONLY_HERE, *(rf"\b{n}\b(?!=)" for n in names)])
        gone = [m for m in BLOCK.finditer(text)
                if re.search(bad, re.sub(r"^#[^\n]*\n|^\w+\(\) ", "", m[0], flags=re.M))]
        if not gone:
            return text
        for match in reversed(gone):
            text = text[:match.start()] + text[match.end():]
            if match["name"]:
                names.add(match["name"])


def adapt(text):
    """Have it find its files where they are in the kernel's tree."""
    text = re.sub(r"^load (?:\.\./lib/)?(\w+)$", r"load \1", text, flags=re.M)
    # It is for speed, in our guests.
    text = text.replace("\tload ../lib/trace\n", "")
    text = text.replace("/revdedup/bin/dmserve", '"$BATS_TEST_DIRNAME/dmserve"')
    text = re.sub(r"^module_file=.*\n\n?", "", text, flags=re.M)
    text = re.sub(r"^# load_module \[.*\n(load_module\(\) \{\n\t! has_target.*\n).*?^\}",
                  r"\1\tmodprobe dm-revdedup\n}", text, flags=re.M | re.S)
    return text.rstrip("\n") + "\n"


def read(name):
    with open(f"{GUEST}/{name}", encoding="utf-8") as file:
        return file.read()


def main():
    to = sys.argv[1]
    names = set()
    for name in (*LIBRARIES, *TESTS):
        old = adapt(read(name))
        # What a file of tests defines is its own business.
        text = without(old, names if name in LIBRARIES else set(names))
        if name == "lib/volume.bash":
            # What the offline tool says of the metadata, by the target instead.
            with open(f"{HERE}/selftest/crash.bash", encoding="utf-8") as file:
                crash = file.read()
            names -= set(re.findall(r"^(\w+)\(\)", crash, re.M))
            text += re.sub(r"^# shellcheck [^\n]*\n", "", crash, flags=re.M)
        if "/revdedup" in text:
            sys.exit(f"selftest.py: {name} still names a path of this project")
        with open(f"{to}/{os.path.basename(name)}", "w", encoding="utf-8") as file:
            file.write(text)
        if name in TESTS:
            print(f"{os.path.basename(name)}: {text.count('@test ')} of {old.count('@test ')} tests")
    for name in PROGRAM:
        shutil.copyfile(f"{GUEST}/{name}", f"{to}/{os.path.basename(name)}")
    for name in sorted(set(os.listdir(f"{HERE}/selftest")) - {"crash.bash"}):
        shutil.copy(f"{HERE}/selftest/{name}", to)


if __name__ == "__main__":
    main()
