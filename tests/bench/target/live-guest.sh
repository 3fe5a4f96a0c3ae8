#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: live-guest.sh SEGMENTS
#
# The guest's part of live.sh: measure the cost of a snapshot of a volume on LVM, and its
# effect on a program that writes. Prints lines for live.awk:
#
#   snapshot WHAT SEGMENTS AUDITED BYTES-READ COPY REVERSE FREE ALL     (times in microseconds)
#   pause MICROSECONDS
#   fio BESIDE-WHAT I/OS MEAN P99 WORST                         (microseconds)
#   command WHAT MICROSECONDS
#   group-pause VOLUMES MICROSECONDS
#
# Disk 0 is for volumes, disk 1 for the pool.
# shellcheck source=tests/guest/lib/guest.bash
. "${BASH_SOURCE[0]%/*}/../../guest/lib/guest.bash"
# shellcheck source=tests/guest/lib/lvm.bash
. "${BASH_SOURCE[0]%/*}/../../guest/lib/lvm.bash"
set -euo pipefail

segments=$1
load_seconds=60

# now: microseconds
now() { echo "${EPOCHREALTIME/./}"; }

# measure WHAT VOLUME: take a snapshot.
measure() {
	local began ended
	began=$(now)
	revdedupctl snapshot "$vg/$2" --json >/tmp/said
	ended=$(now)
	echo "snapshot $1 $(json segments_read </tmp/said)" \
		"$(json segments_audited </tmp/said) $(json bytes_read </tmp/said)" \
		"$(json usec_copy </tmp/said) $(json usec_reverse </tmp/said)" \
		"$(json usec_free </tmp/said) $((ended - began))"
}

# load BESIDE DEVICE: what a program sees that writes to 64 MiB of it.
load() {
	fio --name="$1" --filename="$2" --size=64m --rw=randwrite --bs=4k --direct=1 \
		--ioengine=libaio --iodepth=1 --rate_iops=200 --time_based --runtime=$load_seconds \
		--output-format=terse --terse-version=3 --percentile_list=99 >/tmp/fio
	awk -F';' -v name="$1" '{
		p99 = $0
		sub(/.*;99\.000000%=/, "", p99)
		sub(/;.*/, "", p99)
		print "fio", name, $49 * $50 / 1000, $81, p99, $80
	}' /tmp/fio
}

# Until the load has ended: each of them as soon as the one before has.
snapshots() {
	while [ -e /tmp/go ]; do
		revdedupctl snapshot $vg/small --json >/tmp/said
		echo "pause $(json usec_pause </tmp/said)"
	done
}

incremental() {
	local i
	make_lv large $((segments * 2))
	revdedupctl -q attach $vg/large
	/revdedup/bin/pattern fill "$(device_of large)"
	measure first large
	measure nothing large
	# A block in each hundredth segment.
	for ((i = 7; i < segments; i += 100)); do
		dd if=/dev/urandom of="$(device_of large)" bs=4k count=1 \
			seek=$((i * 512 + i % 512)) oflag=direct conv=notrunc status=none
	done
	measure changed large
	# The first is not the newest any more.
	revdedupctl -q delete $vg/large@1
	measure nothing large
	revdedupctl -q detach $vg/large
	lvremove -qq --yes $vg/large
}

latency() {
	local i
	make_lv small 1024
	make_lv plain 1024
	revdedupctl -q attach $vg/small
	/revdedup/bin/pattern fill "$(device_of small)"
	/revdedup/bin/pattern fill /dev/$vg/plain
	revdedupctl -q snapshot $vg/small
	load nothing "$(device_of small)"
	lvcreate -qq --yes --snapshot --size 1100M --name copy $vg/plain
	load "lvm" /dev/$vg/plain
	lvremove -qq --yes $vg/copy
	touch /tmp/go
	snapshots &
	load snapshots "$(device_of small)"
	rm /tmp/go
	wait
	for ((i = 0; i < 30; i++)); do
		dd if=/dev/urandom of="$(device_of small)" bs=4k count=1 seek=$((RANDOM * 8)) \
			oflag=direct conv=notrunc status=none
		revdedupctl snapshot $vg/small --json >/tmp/said
		echo "quiet-pause $(json usec_pause </tmp/said)"
	done
}

# How long writes to a volume pause, and to four at one moment, in turn.
groups() {
	local i j
	for i in 1 2 3 4; do
		make_lv disk$i 64
		revdedupctl -q attach $vg/disk$i
		/revdedup/bin/pattern fill "$(device_of disk$i)"
		revdedupctl -q snapshot $vg/disk$i
	done
	for ((i = 0; i < 20; i++)); do
		for j in 1 2 3 4; do
			dd if=/dev/urandom of="$(device_of disk$j)" bs=4k count=1 \
				seek=$((RANDOM % 16384)) oflag=direct conv=notrunc status=none
		done
		revdedupctl snapshot $vg/disk1 --json >/tmp/said
		echo "group-pause 1 $(json usec_pause </tmp/said)"
		revdedupctl snapshot --group g$i $vg/disk{1,2,3,4} --json | tail -n 1 >/tmp/said
		echo "group-pause 4 $(json usec_pause </tmp/said)"
	done
	for i in 1 2 3 4; do
		revdedupctl -q detach $vg/disk$i
		lvremove -qq --yes $vg/disk$i
	done
}

# timed COMMAND ARGUMENT...
timed() {
	local began ended
	began=$(now)
	revdedupctl -q "$@" >/dev/null
	ended=$(now)
	echo "command $1 $((ended - began))"
}

# What is to be there at once: a version as a device, as files, and as the volume.
at_once() {
	local i
	make_lv files 1024
	revdedupctl -q attach $vg/files
	mkfs.ext4 -q "$(device_of files)"
	revdedupctl -q snapshot $vg/files
	mkdir /tmp/files
	for ((i = 0; i < 10; i++)); do
		dd if=/dev/urandom of="$(device_of files)" bs=1M count=16 seek=$((i * 64 + 32)) \
			oflag=direct conv=notrunc status=none
		timed map $vg/files@1 version
		timed unmap version
		timed mount $vg/files@1 /tmp/files
		timed umount /tmp/files
		timed rollback $vg/files@1 --yes --no-snapshot
		until is_home files; do
			sleep 1
		done
	done
}

# shellcheck disable=SC2119 # no parameters
load_module
vgcreate -qq $vg /dev/disk/disk0
mkdir -p /tmp/rdt-pool "$REVDEDUP_CONFIG"
mkfs.ext4 -q /dev/disk/disk1
mount /dev/disk/disk1 /tmp/rdt-pool
revdedupctl -q init --compression none --pieces 1 "$REVDEDUP_POOL"
incremental
latency
groups
at_once
