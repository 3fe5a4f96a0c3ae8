#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: steady-guest.sh ROUNDS
#
# The guest's part of run.sh --table steady: measure in ROUNDS rounds the cost of a
# dm-revdedup device beside its peers. Prints a line for each measurement, for steady.awk:
#
#   time ENGINE WORKLOAD DEVICE ROUND SECONDS
#   count ENGINE WORKLOAD DEVICE ROUND FIRST-WRITES METADATA-WRITES FLUSHES
#
# SECONDS are for a GiB. lib.bash says what makes the numbers comparable; and here
#
# - a snapshot-origin with a snapshot has a ramdisk of its own, because device-mapper
#   knows it by that
# - the store of the snapshot is larger than the origin, the snapshot is there before the
#   origin runs, and all chunks that the test writes to are copied before
# - first writes: one write of 4 KiB to each segment of the volume, in a random order that
#   is the same for all, replayed from an I/O log. Not "time_based"
# - device "all-base" is a dm-revdedup device with a pool and a table in which all words
#   are BASE, as in a new one; "revdedup" is one without a table
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/bench/target/lib.bash
. "$here/lib.bash"

rounds=$1
nr_segs=4096		# of the volume, which is sparse
seg_sectors=4096	# 2 MiB
volume=$((nr_segs * seg_sectors))
region_mib=128		# of it that I/O other than first writes goes to
judge_sectors=131072	# metadata, where it is on a judge

# --- devices

# Metadata of the first kind is on a bare ramdisk; of the second on something
# that counts, and takes as long for a flush as it is told.
make_devices() {
	# base, base of origin-snap, its store, and metadata: ours and dm-era's
	# in both kinds; metadata and pool of the device that has a table.
	ramdisk $((volume / 2048 + 64)) 9
	# udev would load the last one; all metadata here has checksums.
	modprobe -a dm-era dm-snapshot crc32c-intel
	# shellcheck disable=SC2119 # no parameters
	load_module
	insmod "${module_file%/*}/dm-judge.ko"

	dm_create rdt-linear-a "0 $volume linear /dev/ram0 0"
	dm_create rdt-linear-b "0 $volume linear /dev/ram0 0"
	dm_create rdt-era "0 $volume era /dev/ram3 /dev/ram0 $seg_sectors"
	dm_create rdt-revdedup "0 $volume revdedup /dev/ram0 /dev/ram4 -"
	dm_create rdt-all-base "0 $volume revdedup /dev/ram0 /dev/ram7 /dev/ram8"
	dm_create rdt-origin "0 $volume snapshot-origin /dev/ram0"

	dmsetup create rdt-origin-snap --notable
	dm_create rdt-snap "0 $volume snapshot /dev/ram1 /dev/ram2 N 8"
	dmsetup load rdt-origin-snap --table "0 $volume snapshot-origin /dev/ram1"
	dmsetup resume rdt-origin-snap
	mknodes rdt-origin-snap

	# Small, because the judge looks at all of it at each flush.
	dm_create rdt-meta-era "0 $judge_sectors judge /dev/ram5 era"
	dm_create rdt-meta-revdedup "0 $judge_sectors judge /dev/ram6 revdedup"
	dm_create rdt-era-flush \
		"0 $volume era /dev/mapper/rdt-meta-era /dev/ram0 $seg_sectors"
	dm_create rdt-revdedup-flush \
		"0 $volume revdedup /dev/ram0 /dev/mapper/rdt-meta-revdedup -"
}

# --- steady I/O

steady() {
	local engine=$1 round=$2
	shift 2
	run "$engine" randread-4k "$round" "$@" <<-END
	rw=randread
	bs=4k
	norandommap
	size=${region_mib}m
	io_size=$((ios_4k * 4))k
	END
	run "$engine" randwrite-4k "$round" "$@" <<-END
	rw=randwrite
	bs=4k
	norandommap
	size=${region_mib}m
	io_size=$((ios_4k * 4))k
	END
	run "$engine" read-1m "$round" "$@" <<-END
	rw=read
	bs=1m
	iodepth=4
	size=${region_mib}m
	io_size=${ios_1m}m
	END
	run "$engine" write-1m "$round" "$@" <<-END
	rw=write
	bs=1m
	iodepth=4
	size=${region_mib}m
	io_size=${ios_1m}m
	END
}

# --- first writes

# A new epoch or era for device NAME: all segments are clean.
begin_epoch() {
	local name=$1 epoch
	case $name in
	era*) dmsetup message "rdt-$name" 0 checkpoint ;;
	revdedup*)
		epoch=$(dmsetup status "rdt-$name" | awk '{ print $5 + 1 }')
		dmsetup suspend --nolockfs "rdt-$name"
		dmsetup message "rdt-$name" 0 "checkpoint $epoch"
		dmsetup resume "rdt-$name"
		dmsetup message "rdt-$name" 0 "commit $epoch 1"
		;;
	esac
}

# counters NAME: metadata writes and flushes so far.
counters() { dmsetup status "rdt-meta-${1%-flush}" | awk '{ print $5, $7 }'; }

# first ENGINE WORKLOAD ROUND DEVICE...
first() {
	local engine=$1 workload=$2 round=$3 name before after
	shift 3
	for name; do
		begin_epoch "$name"
		before='' after=''
		[[ $name != *-flush ]] || before=$(counters "$name")
		replay "$engine" "$workload" "$round" "$name"
		[ -n "$before" ] || continue
		after=$(counters "$name")
		echo "$before $after" | awk -v what="$engine $workload $name $round" \
			-v n="$nr_segs" '{ print "count", what, n, $3 - $1, $4 - $2 }'
	done
}

set_flush_delay() {
	dmsetup message rdt-meta-era 0 flush-delay "$1"
	dmsetup message rdt-meta-revdedup 0 flush-delay "$1"
}

# --- main

huge_pages 1
make_devices
make_log "$nr_segs" $((seg_sectors * 512))
peers=(raw linear-a linear-b era origin origin-snap revdedup all-base)
fill "$region_mib" "${peers[@]}"
first libaio warm-up 0 linear-a >/dev/null

for ((round = 0; round < rounds; round++)); do
	for engine in "${engines[@]}"; do
		steady "$engine" "$round" "${peers[@]}"
		first "$engine" first-4k "$round" linear-a linear-b era revdedup
		set_flush_delay 0
		first "$engine" first-4k "$round" era-flush revdedup-flush
		set_flush_delay 1000
		first "$engine" first-4k-1ms "$round" era-flush revdedup-flush
	done
done
