#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: demo-target.sh
#
# Show the kernel target at work: a guest with LVM puts it over a volume, writes
# to a file system on it and asks which segments are dirty; then its power is
# cut, and after the next boot they are still known. Nothing of this machine but
# build/ and the cache is touched. Installs the Debian packages that it lacks.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=${BASH_SOURCE[0]%/*}

case ${1:-} in
-h | --help) show_help; exit ;;
?*) usage_error "no such argument: '$1'" ;;
esac

"$scripts/setup.sh" build vm
note "building the module"
module=$scripts/../build/modules/6.12
"$scripts/module-build.sh" --kdir "$("$scripts/headers.sh" 6.12)" --out "$module"

disks=$(mktemp -d "${TMPDIR:-/tmp}/rdd-demo.XXXXXX")
trap 'rm -rf "$disks"' EXIT
truncate -s 320M "$disks/vg"

# boot PHASE [OPTION...]
boot() {
	local phase=$1
	shift
	"$scripts/vm-run.sh" --payload "$module:modules" \
		--payload "$scripts/../tests/guest:tests/guest" \
		--payload "$scripts/demo-guest.sh:demo.sh" \
		--nbd-disk "$disks/vg" "$@" -- bash /rdd/demo.sh "$phase"
}

note "booting a guest with Debian's 6.12 kernel (the first time takes some minutes)"
boot before --power-cut
note "the power is cut, caches and all; booting again"
boot after
