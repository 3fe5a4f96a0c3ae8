#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: dkms-install.sh VERSION [DIR]
#
# Have DKMS build and install the module, whose source "make install" has put in
# place, for each kernel that has its headers here. A kernel without headers is
# named and left out: DKMS builds for it when they come. So is one for which it
# cannot be built, such as one that is too old. DIR is for tests: the kernels are
# there, not in /lib/modules.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

case ${1:-} in
-h | --help) show_help; exit ;;
'') usage_error "which version?" ;;
esac
name=revdedup/$1
dir=${2:-/lib/modules}

command -v dkms >/dev/null ||
	die "dkms is missing: apt-get install dkms, then run this again"

# A second install of the same version takes the new source.
[ -z "$(dkms status "$name")" ] || dkms remove "$name" --all >/dev/null
dkms add "$name" >/dev/null
built=0 failed=0
for modules in "$dir"/*/; do
	kernel=$(basename "$modules")
	if [ -f "$modules/build/Makefile" ]; then
		if dkms install "$name" -k "$kernel"; then
			built=$((built + 1))
		else
			failed=$((failed + 1))
			note "no module for kernel $kernel: DKMS says why above"
		fi
	elif [ -d "$modules/kernel" ]; then
		note "no headers of kernel $kernel: install them for the module"
	fi
done
[ "$built" -gt 0 ] || [ "$failed" -eq 0 ] ||
	die "no kernel here has a module: mend what DKMS said, then run this again"
[ "$built" -gt 0 ] ||
	die "no kernel headers here: apt-get install linux-headers-$(dpkg --print-architecture), then run this again"
