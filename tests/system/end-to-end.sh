#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: end-to-end.sh [--kernel 6.1|6.12] [--cuts N] [--snapshots N]
#
# Three LVM volumes in a guest, two of them thin, with file systems that are written to
# while revdedupctl takes snapshots, maps, restores, rolls back, deletes, prunes and
# moves blocks to the pool and back at random, and is killed at random steps. The power
# is cut --cuts times (default 20), together with the write caches of the disks. After
# each cut every version must be the volume as it was when it was suspended, and every
# file that was stable must be there. After the last cut the run goes on until each
# volume has had --snapshots (default 30).
# See end-to-end-guest.sh. Run 'scripts/check.sh all modules' before.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
top=$(realpath "${BASH_SOURCE[0]%/*}/../..")

kernel=6.12 cuts=${E2E_CUTS:-20} snapshots=${E2E_SNAPSHOTS:-30}
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--kernel) kernel=${2:?which kernel?}; shift 2 ;;
	--cuts) cuts=${2:?how many?}; shift 2 ;;
	--snapshots) snapshots=${2:?how many?}; shift 2 ;;
	*) usage_error "no such argument: '$1'" ;;
	esac
done
module=$top/build/modules/$kernel ctl=$top/build/guest-ctl
[ -f "$module/dm-revdedup.ko" ] ||
	die "no module in '$module': run 'scripts/check.sh all modules' first"
[ -f "$ctl/revdedupctl" ] ||
	die "no revdedupctl in '$ctl': run 'scripts/check.sh all modules' first"

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
truncate -s 512M "$dir/volumes"
truncate -s 2G "$dir/pool"
truncate -s 4G "$dir/copies"

# boot PHASE [OPTION...]
boot() {
	local phase=$1
	shift
	"$top/scripts/vm-run.sh" --kernel "$kernel" --payload "$module:modules" \
		--payload "$top/tests/guest:tests/guest" \
		--payload "$top/tests/system:tests/system" --payload "$ctl:ctl" \
		--nbd-disk "$dir/volumes" --nbd-disk "$dir/pool" \
		--disk "$dir/copies" --timeout 7200 "$@" -- \
		env E2E_SNAPSHOTS="$snapshots" ${E2E_SEED:+"E2E_SEED=$((E2E_SEED + cut))"} \
		bash /revdedup/tests/system/end-to-end-guest.sh "$phase"
}

cut=1
boot first --power-cut
for ((cut = 2; cut <= cuts; cut++)); do
	boot again --power-cut
done
boot last
echo "$cuts passed, 0 failed"
