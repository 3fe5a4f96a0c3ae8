#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: power-cuts.sh [--kernel 6.1|6.12] [--cuts N]
#
# Cut the power of a guest N times (default 15), at random moments while a volume is
# written and snapshots are taken, together with the write cache of its disks. After each
# cut the same disks are booted again, and every segment that the target calls clean must
# be what it was at the last committed checkpoint. See power-cuts-guest.sh. Run
# 'make modules-all' before. SEED repeats what is drawn; when a write comes is up to the machine.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
top=$(realpath "${BASH_SOURCE[0]%/*}/../..")

kernel=6.12 cuts=${POWER_CUTS:-15} seed=${SEED:-$RANDOM}
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--kernel) kernel=${2:?which kernel?}; shift 2 ;;
	--cuts) cuts=${2:?how many?}; shift 2 ;;
	*) usage_error "no such argument: '$1'" ;;
	esac
done
module=$top/build/modules/$kernel
[ -f "$module/dm-revdedup.ko" ] ||
	die "no module in '$module': run 'make modules-all' first"

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-cuts.XXXXXX")
trap 'rm -rf "$dir"' EXIT
# What the volume was at checkpoints survives a cut, as it is what we compare
# with: its disk has no cache that could be lost.
truncate -s 128M "$dir/base"
truncate -s 1M "$dir/meta"
truncate -s 256M "$dir/copies"

echo "# SEED=$seed"

# boot PHASE [OPTION...]
boot() {
	local phase=$1
	shift
	"$top/scripts/vm-run.sh" --kernel "$kernel" --payload "$module:modules" \
		--payload "$top/tests/guest:tests/guest" \
		--payload "$top/tests/system:tests/system" \
		--nbd-disk "$dir/base" --nbd-disk "$dir/meta" \
		--disk "$dir/copies" "$@" -- \
		env SEED=$((seed + cut)) bash /revdedup/tests/system/power-cuts-guest.sh "$phase"
}

cut=1
boot first --power-cut
for ((cut = 2; cut <= cuts; cut++)); do
	boot again --power-cut
done
boot last
echo "$cuts passed, 0 failed"
