# SPDX-License-Identifier: GPL-2.0
"""Take C files apart, for the tools beside this file."""

import re
import subprocess
import sys

TOKEN = re.compile(r"""
    (?P<comment> /\*.*?\*/ | //[^\n]* )
  | (?P<string>  "(?:\\.|[^"\\\n])*" )
  | (?P<char>    '(?:\\.|[^'\\\n])*' )
  | (?P<space>   \s+ )
  | (?P<word>    [A-Za-z_]\w* )
  | (?P<other>   . )
""", re.X | re.S)


def arguments(doc):
    """Print @doc for --help; fail on any other argument than an option in the set returned."""
    given = set(sys.argv[1:])
    if given & {"-h", "--help"}:
        print(doc.strip())
        sys.exit()
    return given


def usage_error(text):
    print(f"{sys.argv[0].rsplit('/', 1)[-1]}: {text} (try --help)", file=sys.stderr)
    sys.exit(2)


def tracked(*patterns):
    """The files of the tree that match @patterns of git ls-files, new ones among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--"]
    out = subprocess.run(command + list(patterns), check=True, capture_output=True, text=True)
    names = sorted(set(out.stdout.split("\0")) - {""})
    deleted = subprocess.run(["git", "ls-files", "--deleted", "-z"], check=True,
                             capture_output=True, text=True)
    gone = set(deleted.stdout.split("\0"))
    return [name for name in names if name not in gone]


def read(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read()


def tokens(text):
    """Yield (kind, text, line) for each token of a C file; spaces are left out."""
    line = 1
    for match in TOKEN.finditer(text):
        if match.lastgroup != "space":
            yield match.lastgroup, match.group(), line
        line += match.group().count("\n")


def comments(text):
    """Yield (comment, line)."""
    return ((text, line) for kind, text, line in tokens(text) if kind == "comment")
