#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: sbom.py [--out FILE]

Write what the programs consist of and need, as CycloneDX 1.5: the project, its programs and its
module; each library that they are linked with, directly or by another one; and those that they
load when they are there. Versions are those of the Debian packages on this machine, with which
"make" has built what lies in build/bin. A library whose licence is not in the table here is an
error.

  --out FILE   instead of build/sbom.json
"""

import argparse
import datetime
import glob
import json
import os
import re
import subprocess
import sys
import urllib.parse
import uuid

# SPDX's names. Of those with several licences it is the one that fits.
LICENCES = {
    "libblkid": "LGPL-2.1-or-later",
    "libc": "LGPL-2.1-or-later",
    "libcrypto": "Apache-2.0",
    "libdevmapper": "LGPL-2.1-only",
    "libguestfs": "LGPL-2.1-or-later",
    "libm": "LGPL-2.1-or-later",
    "libmount": "LGPL-2.1-or-later",
    "libnbd": "LGPL-2.1-or-later",
    "libpcre2-8": "BSD-3-Clause",
    "librados": "LGPL-2.1-only",
    "librbd": "LGPL-2.1-only",
    # In the public domain, for which SPDX has no name of its own.
    "libselinux": "LicenseRef-public-domain",
    "libsqlite3": "blessing",
    "libudev": "LGPL-2.1-or-later",
    "liburing": "MIT",
    "libuuid": "BSD-3-Clause",
    "libxxhash": "BSD-2-Clause",
    "libzstd": "BSD-3-Clause",
}
OWN = "GPL-2.0-only"
top = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def read(path):
    with open(os.path.join(top, path), encoding="utf-8") as file:
        return file.read()


def linked(program):
    """{soname: path} of the libraries that the loader gives it, but for itself."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", program), re.M)
    return {name: path for name, path in found if not name.startswith("ld-")}


def loaded():
    """Sonames of the libraries that a program loads, by the tables of base/library.h."""
    names = set()
    for path in glob.glob(os.path.join(top, "userspace/*/*/lib*.c")):
        names |= set(re.findall(r'\.file = "(lib[^"]+)"', read(path)))
    return names


def package_of(path):
    """(package, version, source package) of Debian."""
    for name in (path, os.path.realpath(path), "/usr" + os.path.realpath(path)):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True,
                               check=False).stdout
        if found:
            package = found.split(": ")[0].split(",")[0]
            shown = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package}", package)
            return shown.split()
    sys.exit(f"sbom.py: no package of Debian has '{path}', so that its version is not known")


def licence(soname):
    name = re.sub(r"\.so.*", "", soname)
    if name not in LICENCES:
        sys.exit(f"sbom.py: the licence of '{name}' is not known: look it up, see whether it fits "
                 "to GPL-2.0 (debian/copyright), and add it to the table in scripts/sbom.py")
    found = LICENCES[name]
    return [{"license": {"name": found}} if found.startswith("LicenseRef") else
            {"license": {"id": found}}]


def library(soname, path, is_optional):
    component = {
        "type": "library",
        "bom-ref": soname,
        "name": re.sub(r"\.so.*", "", soname),
        "scope": "optional" if is_optional else "required",
        "licenses": licence(soname),
        "properties": [{"name": "revdedup:soname", "value": soname}],
    }
    if path:
        package, version, source = package_of(path)
        component["version"] = version
        quoted = urllib.parse.quote(version, safe="")
        component["purl"] = f"pkg:deb/debian/{package}@{quoted}?upstream={source}"
    return component


def own(kind, name, version):
    return {"type": kind, "bom-ref": name, "name": name, "version": version,
            "licenses": [{"license": {"id": OWN}}]}


def find_optional(soname):
    found = re.findall(rf"^\s*{re.escape(soname)} .*=> (/\S+)", run("/sbin/ldconfig", "-p"), re.M)
    return found[0] if found else None


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0][8:])
    parser.add_argument("--out", default=os.path.join(top, "build/sbom.json"))
    args = parser.parse_args()
    version = re.search(r"^VERSION := (.*)", read("Makefile"), re.M).group(1)
    programs = ["revdedupctl", "revdedup-meta", "nbdkit-revdedup-plugin.so"]
    components = [own("application", name, version) for name in programs]
    components.append(own("device-driver", "dm-revdedup", version))
    needs, paths = {"revdedup": programs + ["dm-revdedup"], "dm-revdedup": []}, {}
    for name in programs:
        path = os.path.join(top, "build/bin", name)
        if not os.path.exists(path):
            sys.exit(f"sbom.py: there is no '{path}': run 'make userspace' first")
        found = linked(path)
        paths.update(found)
        needs[name] = sorted(found)
    optional = loaded() - set(paths)
    components += [library(name, paths[name], False) for name in sorted(paths)]
    components += [library(name, find_optional(name), True) for name in sorted(optional)]
    needs["revdedupctl"] = sorted(needs["revdedupctl"] + list(optional))
    when = datetime.datetime.fromtimestamp(int(run("git", "-C", top, "log", "-1", "--format=%ct")),
                                           datetime.timezone.utc)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "component": own("application", "revdedup", version)},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": needs[name]} for name in sorted(needs)],
    }
    # The same of the same: its number is that of its content.
    bom["serialNumber"] = "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom)))
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump(bom, file, indent=2)
        file.write("\n")
    print(args.out if args.out.startswith("/dev/") else os.path.relpath(args.out))


main()
