#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: demo-host.sh
#
# Show the whole at work, in a guest that is a host of VMs: a volume on LVM is attached,
# its file system is written to while versions are taken, an old version is mounted, the
# volume is rolled back, and then the power is cut. Nothing of this machine but build/
# and the cache is touched. Installs the Debian packages that it lacks.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")

case ${1:-} in
-h | --help) show_help; exit ;;
?*) usage_error "no such argument: '$1'" ;;
esac

"$scripts/setup.sh" build vm
note "building the module and revdedupctl"
module=$scripts/../build/modules/demo
kdir=$("$scripts/headers.sh" 6.12)
"$scripts/module-build.sh" --kdir "$kdir" --out "$module"
make -s -C "$scripts/../userspace"

disks=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-demo.XXXXXX")
trap 'rm -rf "$disks"' EXIT
truncate -s 400M "$disks/volumes"
truncate -s 1G "$disks/pool"

# boot PHASE [OPTION...]
boot() {
	local phase=$1
	shift
	"$scripts/vm-run.sh" --payload "$module:modules" \
		--payload "$scripts/../tests/guest:tests/guest" \
		--payload "$scripts/../build/bin:tools" \
		--payload "$scripts/demo-guest.sh:demo.sh" \
		--nbd-disk "$disks/volumes" --nbd-disk "$disks/pool" \
		"$@" -- bash /revdedup/demo.sh "$phase"
}

note "booting a guest with Debian's 6.12 kernel (the first time takes some minutes)"
boot before --power-cut
note "the power is cut, caches and all; booting again"
boot after
