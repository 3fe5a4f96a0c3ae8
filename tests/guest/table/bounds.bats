#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Tables for 1 TiB in a guest of 512 MiB: mapping a version takes less than a
# second, however fragmented it is, a table takes no more memory than the formula
# says, with all of its pages in use, and looking at all of them holds up no suspend.
#
# Wants three disks: metadata of 1 TiB that is mapped by whole segments, the same
# by pages only (see pattern.c), and a base.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by the files loaded
load ../lib/guest
load ../lib/volume

tib_sectors=$((1 << 31))
tib_segs=$((1 << 19))
tib_blocks=$((1 << 28))
pool=/dev/ram0
pool_mib=16
pool_blocks=$((pool_mib << 8))
cache_mib=4
ios=10000

f_mode=11 f_waiting=13	# more words of the status line

setup_file() {
	[ -b /dev/disk/disk2 ] || return 0
	ramdisk $pool_mib
	/revdedup/bin/pattern fill /dev/ram0
}

setup() {
	trace_test_only
	dmr_setup
	[ -b /dev/disk/disk2 ] || skip "no disks with tables"
	load_module
	dm_begin
}

# The ram disk stays for the next test.
teardown() {
	! [ -e $vol ] || dm remove rdt-v
	! [ -e $meta ] || dm remove rdt-m
	exec {dm_to}>&- {dm_from}<&-
}

teardown_file() { clean_up_devices; }

# --- mapping

# map_version DISK: in $took milliseconds.
map_version() {
	local start
	now_ms
	start=$now
	make rdt-v "0 $tib_sectors revdedup - $1 $pool" ro
	now_ms
	took=$((now - start))
}

version_is_there() {
	status
	is "mode" "${field[f_mode]}" ro
	is "base blocks" "${field[6]}" 0
	is "all blocks" "$((field[7] + field[8]))" $tib_blocks
	is "pages that were read" "${field[f_page_reads]}" 0
	/revdedup/bin/pattern check $1 $tib_blocks $pool_blocks $vol \
		0 $((tib_blocks - 1)) 200
}

@test "a version of 1 TiB is mapped in a second, however fragmented" {
	local kind disk took best
	for kind in whole pages; do
		disk=/dev/disk/disk0
		[ $kind = whole ] || disk=/dev/disk/disk1
		best=''
		# This is not the only guest here, so it may try some times.
		for _ in 1 2 3 4 5; do
			echo 3 >/proc/sys/vm/drop_caches
			map_version $disk
			[ -n "$best" ] && [ "$best" -le $took ] || best=$took
			version_is_there $kind
			dm remove rdt-v
			[ "$best" -ge 1000 ] || break
		done
		echo "# mapped by $kind: create and resume took $best ms" >&3
		[ "$best" -lt 1000 ]
	done
}

# --- memory

# look: the greatest of what is to be bounded, so far.
look() {
	status
	[ "${field[f_waiting]}" -le $most_waiting ] || most_waiting=${field[f_waiting]}
}

# Random I/O all over the volume; the writes in its first half.
random_io() {
	fio --name=tib --filename=$vol --ioengine=libaio --direct=1 --iodepth=16 \
		--bs=4k --random_generator=lfsr --number_ios=$ios "$@" \
		>"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- || {
		cat "$BATS_TEST_TMPDIR/fio"
		return 1
	}
}

@test "a table of 1 TiB, all of it pages, takes the memory that the formula says" {
	local before after formula most_waiting=0 fio
	[ "$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)" -lt 520 ]
	make rdt-v "0 $tib_sectors revdedup /dev/disk/disk2 /dev/disk/disk1 $pool 2 cache_mib $cache_mib"
	/revdedup/bin/pattern check pages $tib_blocks $pool_blocks $vol \
		0 $((tib_blocks - 1)) 3000
	random_io --rw=randread --size=1T
	random_io --rw=randwrite --size=512G --fsync=1000 --verify=crc32c \
		--verify_fatal=1 --do_verify=1 &
	fio=$!
	while kill -0 $fio 2>/dev/null; do
		look
		sleep 0.1
	done
	wait $fio
	/revdedup/bin/pattern check pages $tib_blocks $pool_blocks $vol \
		$((tib_blocks / 2)) $((tib_blocks - 1)) 3000
	status
	before=$(memory_free)
	dm remove rdt-v
	after=$(memory_free)
	# Words, three bits a segment, and the cache.
	formula=$(((tib_segs * 8 + tib_segs * 3 / 8) / 1024 + cache_mib * 1024))
	echo "# $((after - before)) KiB, by the formula $formula. Pages read ${field[f_page_reads]}," \
		"at most $most_waiting segments waited" >&3
	# Twice as many pages as there is room for, or it was no test.
	[ "${field[f_page_reads]}" -gt $((2 * cache_mib * 256)) ]
	is "blocks at home" "${field[6]}" $ios
	[ $((after - before)) -ge $((formula / 2)) ]
	[ $((after - before)) -le $((formula * 5 / 4 + 1024)) ]
	[ "$most_waiting" -gt 0 ]
	[ "$most_waiting" -le $((cache_mib * 256 / 2)) ]
}

# --- a message that looks at all of it

@test "a suspend waits for one read of the metadata, and not for all of a table of 1 TiB" {
	local disk=/dev/disk/disk1 sectors asker before answer
	sectors=$(blockdev --getsz $disk)
	make rdt-m "0 $sectors linear $disk 0"
	make rdt-v "0 $tib_sectors revdedup /dev/disk/disk2 $meta $pool 2 cache_mib $cache_mib"
	# Three days for all of them.
	reload rdt-m "0 $sectors delay $disk 0 500 $disk 0 0"
	dmsetup message rdt-v 0 "table 0 $tib_blocks" 3>&- >"$BATS_TEST_TMPDIR/answer" &
	asker=$!
	within 60 reads_more 2
	before=$reply
	dm suspend rdt-v
	wait $asker
	page_reads
	answer=$(<"$BATS_TEST_TMPDIR/answer")
	echo "# $((reply - before)) pages were read until it was suspended" >&3
	[ $((reply - before)) -le 2 ]
	[ "${answer##* }" -lt $tib_blocks ]
}
