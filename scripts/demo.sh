#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: demo.sh
#
# Show the pool at work on this machine: the disk of a Debian 12 VM, into which
# packages are installed and from which they are purged again, goes into a pool
# four times. Then old versions come back, and are compared byte for byte; one is
# deleted, and its space is back. Half a minute more the first time, to make the
# disk. Needs root and loop devices for that; nothing is left but the cache.
# Installs the Debian packages that it lacks.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")

case ${1:-} in
-h | --help) show_help; exit ;;
?*) usage_error "no such argument: '$1'" ;;
esac

"$scripts/setup.sh" build pool
note "building revdedupctl"
make -s -C "$scripts/../userspace"
ctl=$scripts/../build/bin/revdedupctl
note "making the disks of a VM, where the cache has none"
series=$("$scripts/../tests/bench/pool/series.sh" --size small)

dir=$(mktemp -d "${TMPDIR:-/var/tmp}/revdedup-demo.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export REVDEDUP_POOL=$dir/pool

# Say what the user would type, and do it.
show() {
	local text=$*
	text=${text//"$dir/"/}
	printf '\n# revdedupctl %s\n' "${text//"$series/"/}"
	"$ctl" "$@"
}

"$ctl" init "$REVDEDUP_POOL"
nr=0
while read -r vm file; do
	nr=$((nr + 1))
	show snapshot "$vm" --from "$series/$file" --comment "version $nr"
done <"$series/order"
show list
show stats
for version in 1 3; do
	show restore "vm1@$version" --to "$dir/back.img"
	cmp "$series/vm1-$version.img" "$dir/back.img"
	echo "back.img and the disk of then are the same, byte for byte"
	rm "$dir/back.img"
done
show diff vm1@1 vm1@2 | sed -n 1,6p
show delete vm1@2
show check
show scrub
