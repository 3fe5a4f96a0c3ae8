#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: deb.sh [--list]
#
# Make the Debian packages of what git knows of this tree, in build/deb, and have
# lintian look at them. Prints their names. In a tree without git, from the tarball, all is
# taken but build/. --list only prints the files that are taken, each with a zero at its end.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")

# The repository around an unpacked tarball is another's.
list_files() {
	if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ]; then
		git ls-files -z
	else
		find . \( -path ./build -o -path ./.git \) -prune -o ! -type d -printf '%P\0'
	fi
}

cd "$(realpath "$scripts/..")"
case ${1:-} in
-h | --help) show_help; exit ;;
--list) list_files; exit ;;
?*) usage_error "'$1' is one argument too many" ;;
esac

"$scripts/setup.sh" build deb

# In a copy: the build leaves files all over its tree.
tree=build/deb/tree
rm -rf build/deb
mkdir -p "$tree"
list_files | tar -c --null -T - | tar -x -C "$tree"
export DEB_BUILD_OPTIONS="noautodbgsym parallel=2"
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign) >build/deb/log 2>&1 || {
	tail -n 30 build/deb/log >&2
	die "no packages were made; all of the log is in build/deb/log"
}
# The project has no mail address of its own.
lintian --fail-on error,warning --tag-display-limit 0 --allow-root \
	--suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
	build/deb/*.deb >&2 ||
	die "lintian finds fault with the packages"
ls build/deb/*.deb
