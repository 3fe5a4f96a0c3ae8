#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: power-cuts-guest.sh first|again|last
#
# The guest's part of power-cuts.sh. Check what the last power cut left (except the first
# time); then write and take snapshots until the next one (except the last time).
#
# While the device is suspended for a checkpoint, the script copies the content of the
# volume to the one of two slots that the committed version does not use. The version
# number that is committed tells the slot: 2 * epoch + slot.
# shellcheck source=tests/guest/lib/guest.bash
. "${BASH_SOURCE[0]%/*}/../guest/lib/guest.bash"
set -euo pipefail

base=/dev/disk/disk0 meta=/dev/disk/disk1 copies=/dev/disk/disk2
vol=/dev/mapper/rdt-v
segs=64 seg_bytes=$((2 << 20))
seed=${SEED:-$RANDOM}
RANDOM=$seed

# The fields of the status line.
read_status() {
	read -r _ _ _ _ epoch frozen version _ _ _ _ _ tracking mode \
		< <(dmsetup status rdt-v)
}

# dirty current|frozen: the numbers of the dirty segments, one a line.
dirty() {
	local ranges range
	read -r ranges _ < <(dmsetup message rdt-v 0 dirty "$1" 0 "$segs")
	[ "$ranges" != - ] || return 0
	for range in ${ranges//;/ }; do
		seq $((16#${range%,*})) $((16#${range%,*} + 16#${range#*,} - 1))
	done
}

check() {
	local -A is_dirty=()
	local seg slot clean=0
	read_status
	echo "after the cut: epoch $epoch, frozen $frozen, version $version," \
		"tracking $tracking, mode $mode"
	[ "$tracking" = ok ] || {
		echo "tracking is $tracking, but no write failed"
		return 1
	}
	for seg in $(dirty current); do is_dirty[$seg]=1; done
	if [ "$frozen" != - ]; then
		for seg in $(dirty frozen); do is_dirty[$seg]=1; done
	fi
	slot=$((version % 2))
	for ((seg = 0; seg < segs; seg++)); do
		[ -z "${is_dirty[$seg]:-}" ] || continue
		clean=$((clean + 1))
		cmp -n "$seg_bytes" -i "$((seg * seg_bytes)):$(((slot * segs + seg) * seg_bytes))" \
			"$base" "$copies" || {
			echo "segment $seg is not what it was at version $version," \
				"and is not dirty"
			return 1
		}
	done
	echo "$clean of $segs segments are clean, and all are what they were"
	# Version 0 is before the first commit: all is dirty then.
	[ "$clean" -gt 0 ] || [ "$version" -eq 0 ]
}

# Writes of all sizes into a window that moves with the epochs, some of them
# flushed, some discards.
writer() {
	local at len flag
	# A subshell does not go on with the numbers of its shell.
	RANDOM=$((seed + $1))
	while :; do
		len=$(((RANDOM % 64 + 1) * 512 * (RANDOM % 16 + 1)))
		at=$((($(<"$window") * seg_bytes + RANDOM * 512 +
			RANDOM % 16 * seg_bytes) % (segs * seg_bytes - len)))
		flag=$((RANDOM % 4))
		if [ "$flag" -eq 0 ]; then
			blkdiscard --force -o $((at / 4096 * 4096)) -l 65536 "$vol"
		fi
		head -c "$len" /dev/urandom | dd of="$vol" bs="$len" iflag=fullblock \
			oflag="direct,seek_bytes$([ "$flag" -ne 1 ] || echo ,dsync)" \
			seek="$((at / 512 * 512))" status=none
	done
}

# One snapshot: committed, aborted, or left for the next checkpoint to abort.
snapshot() {
	local slot
	read_status
	slot=$((1 - version % 2)) epoch=$((epoch + 1))
	dmsetup suspend rdt-v
	dd if="$base" of="$copies" bs=1M iflag=direct oflag=direct \
		seek=$((slot * segs * 2)) conv=notrunc status=none
	dmsetup message rdt-v 0 checkpoint "$epoch"
	echo $((RANDOM % segs)) >"$window"
	dmsetup resume rdt-v
	sleep "0.$((RANDOM % 9))"
	case $((RANDOM % 8)) in
	0) dmsetup message rdt-v 0 abort "$epoch" ;;
	1) ;;
	*) dmsetup message rdt-v 0 commit "$epoch" $((2 * epoch + slot)) ;;
	esac
}

work() {
	window=/run/window
	echo 0 >"$window"
	writer 1 & writer 2 &
	snapshot
	local after=$((RANDOM % 6)).$((RANDOM % 10))
	(sleep "$after"; power_cut) &
	while :; do snapshot; done
}

# shellcheck disable=SC2119 # no parameters
load_module
dmsetup create rdt-v --table "0 $((segs * 4096)) revdedup $base $meta -"
mknodes rdt-v
[ "$1" = first ] || check
[ "$1" = last ] || work
dmsetup remove rdt-v
