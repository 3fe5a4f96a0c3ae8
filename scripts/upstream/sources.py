#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: sources.py --linux DIR --parts NAME... --to DIR

Write what the first parts of the series (see kernel/Kbuild for their names) have in
drivers/md/dm-revdedup, for the kernel whose source is in --linux, into the directory --to.
Prints nothing; run by upstream.sh.

  - Files of later parts are left out, and so are lines that include them. The preprocessor's
    symbol DMR_NO_<PART> marks lines that go with a later part; unifdef takes them out, and the
    marks as well.
  - compat.h is decided for that kernel. Its macros, and functions of one expression, are replaced
    by what they stand for; another function goes into the one file that uses it.
  - Allocations name types, where that kernel has kzalloc_obj().
  - No blank lines remain where lines were taken out.
  - Comments name files as they are called there.
"""

import argparse
import os
import re
import subprocess
import sys

PAGE = "Documentation/admin-guide/device-mapper/dm-revdedup.rst"
# What comments say of this tree, and what they say in the kernel's. Each must be there.
WORDS = {
    "target.c": [("Documentation/dm-revdedup.rst", PAGE),
                 ("; kernels from 6.15 on have such", "")],
    "remap.c": [(' The command\n * "tests/bench/target/run.sh --only counted --table steady"'
                 " prints both ratios.", "")],
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(command, **options):
    return subprocess.run(command, text=True, capture_output=True, check=True, **options).stdout


def unifdef(text, defined, undefined):
    command = ["unifdef", *(f"-D{s}" for s in defined), *(f"-U{s}" for s in undefined)]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    if done.returncode > 1 or done.stderr:
        sys.exit(f"sources.py: unifdef: {done.stderr}")
    return done.stdout


def kbuild(variable, tree, linux):
    """Have make read kernel/Kbuild, for the kernel in @linux."""
    makefile = f"include {tree}/kernel/Kbuild\nall:\n\t@echo $({variable})\n"
    return run(["make", "-s", "-f", "-", f"srctree={linux}", "all"], input=makefile).split()


def version_of(linux):
    numbers = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)", read(f"{linux}/Makefile"),
                              re.M))
    return (int(numbers["VERSION"]) << 16 | int(numbers["PATCHLEVEL"]) << 8 |
            min(int(numbers["SUBLEVEL"]), 255))


# --- compat.h

def arguments(text, start):
    """The arguments of the call whose parenthesis is at @start, and where it ends."""
    depth, found, last = 0, [], start + 1
    for i in range(start, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        if (text[i] == "," and depth == 1) or not depth:
            found.append(text[last:i].strip())
            last = i + 1
        if not depth:
            return found, i + 1
    sys.exit("sources.py: a call has no end")


class Compat:
    """What compat.h says for one kernel."""

    def __init__(self, tree, linux):
        text = read(f"{tree}/kernel/compat.h")
        text = re.sub(r"KERNEL_VERSION\((\d+), (\d+), (\d+)\)",
                      lambda m: str(int(m[1]) << 16 | int(m[2]) << 8 | int(m[3])), text)
        known = set(re.findall(r"-D(DMR_\w+)", read(f"{tree}/kernel/Kbuild")))
        has = {flag[2:] for flag in kbuild("ccflags-y", tree, linux)}
        text = unifdef(text, [f"LINUX_VERSION_CODE={version_of(linux)}", "BITS_PER_LONG=64", *has],
                       known - has)
        if re.search(r"^#\s*if(?!ndef DMR_COMPAT_H)", text, re.M):
            sys.exit("sources.py: compat.h asks for what this script does not know")
        self.includes = [i for i in re.findall(r"^#include <(.*)>", text, re.M)
                         if i != "linux/version.h"]
        self.macros = dict(re.findall(r"^#define (\w+)[ \t]+(.+)", text, re.M))
        self.calls, self.functions = {}, {}
        for comment, head, name, args, body in re.findall(
                r"^(/\*(?:(?!\*/).)*\*/\n)?((?:static inline )[\w ]+?\*?(\w+)\(([^)]*)\))\n"
                r"(\{\n.*?^\})", text, re.M | re.S):
            only = re.fullmatch(r"\{\n\treturn ([^;]*);\n\}", body)
            if only:
                self.calls[name] = (re.findall(r"(\w+)(?:,|$)", args), only[1])
            else:
                head = re.sub(r"\s+", " ", head.replace("inline ", ""))
                self.functions[name] = f"{comment}{head}\n{body}\n"

    def resolve(self, text):
        for name, value in self.macros.items():
            # Parentheses that the place has anyway are not needed.
            if value.startswith("(") and value.endswith(")"):
                text = re.sub(rf"(?<=[(,])(\s*)\b{name}\b(?=[,)])",
                              lambda m, v=value: m[1] + v[1:-1], text)
            text = re.sub(rf"\b{name}\b", value, text)
        for name, (names, value) in self.calls.items():
            while match := re.search(rf"\b{name}\(", text):
                given, end = arguments(text, match.end() - 1)
                values = dict(zip(names, given, strict=True))
                value_here = re.sub(r"\w+", lambda m, v=values: v.get(m[0], m[0]), value)
                if not re.fullmatch(r"\w+\([^()]*\)", value_here):
                    value_here = f"({value_here})"
                text = text[:match.start()] + value_here + text[end:]
        used = "".join(body + "\n" for name, body in self.functions.items()
                       if re.search(rf"\b{name}\(", text))
        if used:
            at = text.index("/* ---")
            text = text[:at] + used + text[at:]
        return text

    def include(self, text):
        """Include what compat.h does, where it was included."""
        if '#include "compat.h"\n' not in text:
            return text
        text = text.replace('#include "compat.h"\n', "")
        old = re.findall(r"^#include <.*>\n", text, re.M)
        new = sorted({*old, *(f"#include <{i}>\n" for i in self.includes)})
        at = text.index(old[0])
        for line in old:
            text = text.replace(line, "", 1)
        return text[:at] + "".join(new) + text[at:]


def with_obj(text):
    """Allocate as newer kernels do, with a type instead of a size."""
    def call(match):
        flags = "" if match["flags"] == "GFP_KERNEL" else f", {match['flags']}"
        if match["count"]:
            return f"k{match['v']}zalloc_objs({match['what']}, {match['count']}{flags})"
        return f"k{match['v']}{match['kind'][0]}alloc_obj({match['what']}{flags})"
    return re.sub(r"\bk(?P<v>v?)(?P<kind>[mzc])alloc\((?:(?P<count>[^,;\n]+), )?"
                  r"sizeof\((?P<what>\*[\w>.-]+)\), (?P<flags>[\w| ]+)\)", call, text)


# --- files

def files_of(tree, parts, every_part, linux):
    """{part: its files}. A header without a .c file goes with the first header that needs it."""
    objects = {p: kbuild(p, tree, linux) for p in every_part}
    if set(sum(objects.values(), [])) != set(kbuild("dm-revdedup-y", tree, linux)):
        sys.exit("sources.py: the parts of kernel/Kbuild are not all of the module")
    present, rest = {}, {n for n in os.listdir(f"{tree}/kernel") if n.endswith(".h")} - {"compat.h"}
    for part in every_part:
        names = [o[:-2] for o in objects[part]]
        own = {f"{n}.c" for n in names} | ({f"{n}.h" for n in names} & rest)
        waiting = [n for n in own if n.endswith(".h")]
        while waiting:
            for name in re.findall(r'^#include "(.*)"', read(f"{tree}/kernel/{waiting.pop()}"), re.M):
                if name in rest and name not in own and not os.path.exists(
                        f"{tree}/kernel/{name[:-2]}.c"):
                    own.add(name)
                    waiting.append(name)
        rest -= own
        present[part] = own
    if rest:
        sys.exit(f"sources.py: no part has {', '.join(sorted(rest))}")
    return {p: present[p] for p in parts}, objects


def makefile_of(objects, parts):
    lines = ["# SPDX-License-Identifier: GPL-2.0", "",
             "obj-$(CONFIG_DM_REVDEDUP) += dm-revdedup.o", ""]
    for part in parts:
        line = "dm-revdedup-y :=" if part == parts[0] else "dm-revdedup-y +="
        for name in objects[part]:
            if len(line) + len(name) > 78:
                lines.append(line)
                line = "dm-revdedup-y +="
            line += " " + name
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--linux", required=True)
    parser.add_argument("--parts", nargs="+", required=True)
    parser.add_argument("--to", required=True)
    args = parser.parse_args()
    here = os.path.dirname(os.path.realpath(__file__))
    tree = os.path.realpath(f"{here}/../..")
    every_part = re.findall(r"^(\w+) := .*\.o", read(f"{tree}/kernel/Kbuild"), re.M)
    symbols = {p: f"DMR_NO_{p.upper()}" for p in every_part[1:]}
    later = [s for p, s in symbols.items() if p not in args.parts]
    now = [s for p, s in symbols.items() if p in args.parts]
    compat = Compat(tree, args.linux)
    files, objects = files_of(tree, args.parts, every_part, args.linux)
    present = set().union(*files.values())

    has_obj = "define kzalloc_obj(" in read(f"{args.linux}/include/linux/slab.h")
    os.makedirs(args.to, exist_ok=True)
    for name in sorted(present):
        text = unifdef(read(f"{tree}/kernel/{name}"), later, now)
        text = re.sub(r'^#include "(.*)"\n',
                      lambda m: m[0] if m[1] in present or m[1] == "compat.h" else "", text,
                      flags=re.M)
        for old, new in WORDS.get(name, ()):
            if old not in text:
                sys.exit(f"sources.py: kernel/{name} does not have '{old}' any more")
            text = text.replace(old, new)
        text = compat.include(compat.resolve(text))
        if has_obj:
            text = with_obj(text)
        # What was between is gone.
        text = re.sub(r"\n{3,}", "\n\n", text)
        text = re.sub(r"\n\n(?=[ \t]*\})|(?<=\{\n)\n", lambda m: m[0][1:], text)
        with open(f"{args.to}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    for name, text in (("Makefile", makefile_of(objects, args.parts)),
                       ("Kconfig", unifdef(read(f"{here}/Kconfig"), later, now))):
        with open(f"{args.to}/{name}", "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
