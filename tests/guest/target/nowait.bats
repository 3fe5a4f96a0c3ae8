#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The abilities of the base change while a volume lives: "lvcreate -s" puts a
# snapshot-origin below it, which takes no discards, no write zeroes and no REQ_NOWAIT, and
# lvremove takes it away again. Users of the volume see no error but EAGAIN, and that only
# where they asked for it.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks

load ../lib/guest
load ../lib/volume

base=/dev/mapper/rdt-base

setup_file() { need_targets zero snapshot snapshot-origin; }

# The base lies on a loop device: that can do all of these.
setup() {
	volume_setup
	ground=$(loop_of $vol_sectors disk)
	make rdt-real "0 $vol_sectors linear $ground 0"
	make rdt-base "0 $vol_sectors linear $ground 0"
	vol_create
}

# A mapped device goes before what is below it.
teardown() {
	local name
	for name in rdt-v rdt-base rdt-snap rdt-real; do
		dm remove "$name" >/dev/null || :
	done
	volume_teardown
	losetup -D
}

# As lvcreate -s does it: the snapshot is there before the origin resumes.
snapshot_comes() {
	load_table rdt-base rw "0 $vol_sectors snapshot-origin /dev/mapper/rdt-real" &&
		dm suspend rdt-base &&
		make rdt-snap "0 $vol_sectors snapshot /dev/mapper/rdt-real /dev/ram2 N 8" &&
		dm resume rdt-base
}

snapshot_goes() {
	load_table rdt-base rw "0 $vol_sectors linear $ground 0" &&
		dm resume rdt-base && dm remove rdt-snap
}

# limit NAME: of the base's queue.
limit() {
	dm devno $base
	cat "/sys/dev/block/$reply/queue/$1"
}

@test "the base loses what it can do while a snapshot is there" {
	[ "$(limit write_zeroes_max_bytes)" -gt 0 ]
	[ "$(limit discard_max_bytes)" -gt 0 ]
	snapshot_comes
	[ "$(limit write_zeroes_max_bytes)" -eq 0 ]
	[ "$(limit discard_max_bytes)" -eq 0 ]
	snapshot_goes
	[ "$(limit write_zeroes_max_bytes)" -gt 0 ]
	[ "$(limit discard_max_bytes)" -gt 0 ]
}

# has_seen_enough ROUNDS: rounds enough, and EAGAIN. On a slow machine both take their time.
has_seen_enough() {
	[ "$1" -ge 10 ] && grep -qx EAGAIN "$BATS_TEST_TMPDIR/said"
}

# One program that makes all kinds of requests, and one that does with io_uring
# what it does, each on its half of the volume.
@test "nobody sees an error while snapshots come and go" {
	local user fio rounds=0 status=0
	snapshot
	/revdedup/bin/nowait $vol $((32 << 20)) >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
	user=$!
	until [ -e "$BATS_TEST_TMPDIR/enough" ]; do
		fio --name=uring --ioengine=io_uring --direct=1 --filename=$vol \
			--offset=32M --size=32M --rw=randwrite --bs=4k --iodepth=16 \
			--verify=crc32c --verify_backlog=64 --time_based --runtime=4 || exit
	done >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- &
	fio=$!
	while kill -0 $fio 2>/dev/null && kill -0 $user 2>/dev/null &&
		[ "$rounds" -lt 200 ] && ! has_seen_enough "$rounds"; do
		snapshot_comes
		sleep 0.1
		snapshot_goes
		sleep 0.1
		rounds=$((rounds + 1))
	done
	touch "$BATS_TEST_TMPDIR/enough"
	kill -TERM $user 2>/dev/null || echo "nowait ended by itself"
	wait $user || status=$?
	echo "after $rounds rounds:"
	cat "$BATS_TEST_TMPDIR/said"
	[ "$status" -eq 0 ]
	wait $fio || status=$?
	[ "$status" -eq 0 ] || cat "$BATS_TEST_TMPDIR/fio"
	[ "$status" -eq 0 ]
	# RWF_NOWAIT was not just taken for granted.
	has_seen_enough "$rounds"
}
