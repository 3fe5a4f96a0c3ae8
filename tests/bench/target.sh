#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: target.sh ROUNDS
#
# In the guest: measure what a dm-revdedup device costs beside its peers, in
# ROUNDS rounds. Prints a line for each measurement, for table.awk:
#
#   time ENGINE WORKLOAD DEVICE ROUND SECONDS
#   count ENGINE WORKLOAD DEVICE ROUND FIRST-WRITES METADATA-WRITES FLUSHES
#
# What makes the numbers comparable:
#
# - The devices share one ramdisk and the same part of it, which is all there
#   before the first round. (A snapshot-origin with a snapshot has one of its
#   own, because device-mapper knows it by its ramdisk.)
# - In a round, a workload goes over all devices in one fio, and each round
#   begins with another device.
# - The number of I/Os is fixed. In a guest that counts instructions, time is
#   then a number of instructions.
# - fio's buffers are huge pages, or else the number of pieces that 1 MiB is made
#   of depends on what is free where in the guest's memory.
# - The store of the snapshot is larger than the origin, the snapshot is there
#   before the origin runs, and all chunks that we write to are copied before.
# - First writes: one write of 4 KiB to each segment of the volume, in random
#   order, the same for all, replayed from an I/O log. Not "time_based".
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib.bash
. "$here/../guest/lib.bash"

rounds=$1
engines=(libaio io_uring)
ios_4k=20480
ios_1m=512

nr_segs=4096		# of the volume, which is sparse
seg_sectors=4096	# 2 MiB
volume=$((nr_segs * seg_sectors))
region_mib=128		# of it that I/O other than first writes goes to
judge_sectors=131072	# metadata, where it is on a judge

tmp=$(mktemp -d)
trap 'cd /; clean_up_devices; rm -rf "$tmp"' EXIT

# --- devices

# Metadata of the first kind is on a bare ramdisk; of the second on something
# that counts, and takes as long for a flush as it is told.
make_devices() {
	# base, base of origin-snap, its store, and metadata: ours and dm-era's
	# in both kinds.
	ramdisk $((volume / 2048 + 64)) 7
	# udev would load the last one; all metadata here has checksums.
	modprobe -a dm-era dm-snapshot crc32c-intel
	# shellcheck disable=SC2119 # no parameters
	load_module
	insmod "${module_file%/*}/dm-judge.ko"

	dm_create rdt-linear-a "0 $volume linear /dev/ram0 0"
	dm_create rdt-linear-b "0 $volume linear /dev/ram0 0"
	dm_create rdt-era "0 $volume era /dev/ram3 /dev/ram0 $seg_sectors"
	dm_create rdt-revdedup "0 $volume revdedup /dev/ram0 /dev/ram4 -"
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

# device NAME: where it is.
device() {
	case $1 in
	raw) echo /dev/ram0 ;;
	*) echo "/dev/mapper/rdt-$1" ;;
	esac
}

# Write to all that steady I/O will go to, on all devices.
fill() {
	local name
	for name; do
		dd if=/dev/zero of="$(device "$name")" bs=1M count="$region_mib" \
			oflag=direct status=none
	done
}

# --- fio

# run ENGINE WORKLOAD ROUND DEVICE...: measure. The I/O is described on stdin, in
# fio's words.
run() {
	local engine=$1 workload=$2 round=$3 io name i
	io=$(cat)
	shift 3
	{
		printf '%s\n' '[global]' direct=1 iodepth=16 thread iomem=mmaphuge \
			stonewall "ioengine=$engine"
		for ((i = 0; i < $#; i++)); do
			name=${*:1 + (i + round) % $#:1}
			printf '%s\n' "[$name]" "filename=$(device "$name")" "$io"
		done
		# fio takes some ms longer to see that its last job has ended.
		printf '%s\n' '[last]' filename=/dev/ram0 rw=read size=4k
	} >"$tmp/job"
	fio --output-format=terse --terse-version=3 --output="$tmp/out" "$tmp/job"
	# Of the two directions one has a run time, in ms.
	awk -F ';' -v what="$engine $workload" -v round="$round" '
		$5 { print "fio: error " $5 " on " $3 >"/dev/stderr"; exit 1 }
		$3 != "last" { print "time", what, $3, round, ($9 + $50) / 1000 }' \
		"$tmp/out"
}

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

# Each segment once, somewhere in it.
make_log() {
	{
		echo "fio version 2 iolog"
		echo "volume add"
		echo "volume open"
		awk -v nr="$nr_segs" 'BEGIN {
			srand(1)
			for (i = 0; i < nr; i++)
				seg[i] = i
			for (i = nr - 1; i > 0; i--) {
				j = int(rand() * (i + 1))
				t = seg[i]; seg[i] = seg[j]; seg[j] = t
			}
			for (i = 0; i < nr; i++)
				print "volume write", seg[i] * 2097152 + \
					4096 * int(rand() * 512), 4096
		}'
		echo "volume close"
	} >"$tmp/log"
}

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
		run "$engine" "$workload" "$round" "$name" <<-END
		rw=write
		read_iolog=$tmp/log
		replay_redirect=$(device "$name")
		replay_no_stall=1
		END
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

echo 16 >/proc/sys/vm/nr_hugepages
make_devices
make_log
peers=(raw linear-a linear-b era origin origin-snap revdedup)
fill "${peers[@]}"
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
