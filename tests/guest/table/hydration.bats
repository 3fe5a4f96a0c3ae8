#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The remap table: hydration, versions and clones, sizes, and its cache.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

@test "hydration copies all home, says so, and the pool is not needed any more" {
	vol_create
	batch "0,10,p100;10,10,z;200,400,p0;3ff0,10,p7"
	writes 11 1
	snapshot
	events
	before=$reply
	msg hydrate start
	within 30 hydrate_is off
	places_are 0 16384 "0,4000,b"
	counts 16384 0 0
	left_is 0
	events
	[ "$reply" -gt "$before" ]
	# What was moved is not dirty.
	dirty_is "-"
	reads 0 256 "p800,b;wb,1;p80c,74;z,80"
	reads 4096 8192 "p0,2000"
	reads $((vol_sectors - 128)) 128 "p38,80"
	# A linear table is the same device, and nothing is left to do.
	dm read $base 0 256
	is "base" "$reply" "p800,b;wb,1;p80c,74;z,80"
	msg hydrate start
	hydrate_is off
	vol_remove
	env_pool_none vol_create
	reads 0 16 "p800,b;wb,1;p80c,4"
}

@test "hydration: a limit, a checkpoint, stop, reload and a new device" {
	local left
	vol_create
	# It takes half a minute.
	batch "0,800,p0;800,800,p0;1000,800,p0;1800,800,p0"
	snapshot
	msg hydrate start 1
	hydrate_is on
	vol_reload
	hydrate_is on
	within 10 left_is_less 8192
	# It waits from a checkpoint to its commit or abort.
	for how in commit abort; do
		checkpoint
		hydrate_is paused
		left=${field[9]}
		sleep 1
		left_is $left
		[ "$left" -gt 0 ]
		status
		if [ $how = commit ]; then
			msg commit "${field[2]}" 7
		else
			msg abort "${field[2]}"
		fi
		hydrate_is on
		within 10 left_is_less $left
	done
	dm suspend rdt-v
	dm resume rdt-v
	status
	left=${field[9]}
	within 10 left_is_less $left
	vol_remove
	vol_create
	hydrate_is on
	status
	left=${field[9]}
	[ "$left" -gt 0 ] && [ "$left" -lt 8192 ]
	within 10 left_is_less $left
	msg hydrate stop
	hydrate_is off
	vol_remove
	vol_create
	hydrate_is off
	left_is 0
	[ "${field[8]}" -gt 0 ]
	reads 0 65536 "p0,4000;p0,4000;p0,4000;p0,4000"
	msg hydrate start
	within 30 hydrate_is off
	reads 0 65536 "p0,4000;p0,4000;p0,4000;p0,4000"
	places_are 0 16384 "0,4000,b"
}

@test "hydration: a table that is behind what was copied" {
	vol_create
	batch "0,800,p0"
	msg hydrate start 1
	within 10 left_is_less 2048
	dm suspend rdt-v
	save_meta
	dm resume rdt-v
	within 10 left_is_less 1700
	vol_remove
	restore_meta
	vol_create
	hydrate_is on
	left_is_less 2048
	reads 0 16384 "p0,4000"
	msg hydrate start
	within 30 hydrate_is off
	reads 0 16384 "p0,4000"
}

@test "hydration under writes, discards and reads" {
	vol_create
	batch "0,800,p0;800,800,p0"
	msg hydrate start 4
	fio --name=w --filename=$vol --rw=randrw --bsrange=512-16k --direct=1 \
		--iodepth=8 --ioengine=libaio --size=16M --io_size=6M \
		--verify=crc32c --do_verify=1 >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- || {
		cat "$BATS_TEST_TMPDIR/fio"
		return 1
	}
	msg hydrate start
	within 60 hydrate_is off
	places_are 0 16384 "0,4000,b"
}

@test "a version: no base, read-only" {
	vol_create
	batch "0,10,p100;10,10,z;200,200,p0"
	vol_remove
	save_meta
	loop=$(loopdev "$BATS_TEST_TMPDIR/meta")
	make rdt-v "0 $vol_sectors revdedup - $loop $pool" ro
	reads 0 264 "p800,80;z,80;e,8"
	reads 4096 16 "p0,10"
	places_are 0 33 "0,10,p100;10,10,z;20,1,b"
	is "read-only" "$(blockdev --getro $vol)" 1
	run ! slow_poke 0
	mode_is ro
	sync $vol
	for message in "remap 0,1,p100,p200" "hydrate start" "mark 0,1"; do
		refused "Read-only file system" "" msg "$message"
	done
	dm suspend rdt-v
	dm resume rdt-v
	reads 0 8 "p800,8"
	# Another table line, with a base, and not for writing.
	reload rdt-v "0 $vol_sectors revdedup $base $loop $pool" ro
	reads 248 16 "z,8;b100,8"
	vol_remove
	cmp "$BATS_TEST_TMPDIR/meta" <(dd if=$loop bs=64K status=none)
}

@test "a clone: a map, an empty base, and the pool stays as it is" {
	dm zero $base 0 $((8 << 20))
	dm hash $pool $((pool_sectors * 512))
	before=$reply
	vol_create
	batch "0,800,p0;800,3800,z"
	counts 0 14336 2048
	mkfs.ext4 -q -F $vol
	e2fsck -fn $vol
	vol_remove
	vol_create
	e2fsck -fn $vol
	dm hash $pool $((pool_sectors * 512))
	is "pool" "$reply" "$before"
}

@test "versions, clones and a live volume on one pool, side by side" {
	local i
	vol_create
	batch "0,10,p100"
	vol_remove
	save_meta
	for i in 1 2 3; do
		cp "$BATS_TEST_TMPDIR/meta" "$BATS_TEST_TMPDIR/meta$i"
		make "rdt-v$i" "0 $vol_sectors revdedup - $(loopdev "$BATS_TEST_TMPDIR/meta$i") $pool" ro
	done
	vol_create
	writes 0 8
	reads 0 16 "w0,8;p808,8"
	for i in 1 2 3; do
		dm read "/dev/mapper/rdt-v$i" 0 16
		is "version" "$reply" "p800,10"
	done
}

@test "a volume grows: new blocks are on the base; what is cut off is forgotten" {
	local disk_sectors=$vol_sectors
	vol_create $((4 * seg_sectors))
	batch "0,800,p0"
	snapshot
	# The words of new segments are on disk before these count.
	meta_set dead $words_at 8
	refused "Input/output error" "" vol_reload $((6 * seg_sectors))
	meta_set ok
	vol_reload $((6 * seg_sectors))
	places_are 0 3072 "0,800,p0;800,400,b"
	dirty_is "4,2"
	vol_reload $((2 * seg_sectors + 24))
	places_are 0 1027 "0,403,p0"
	counts 0 0 1027
	vol_reload $((3 * seg_sectors))
	places_are 0 1536 "0,403,p0;403,1fd,b"
	vol_remove
	# While it is away.
	vol_create $((4 * seg_sectors))
	places_are 0 2048 "0,403,p0;403,3fd,b"
	vol_remove
	vol_create $((seg_sectors - 8))
	places_are 0 511 "0,1ff,p0"
	vol_reload $((4 * seg_sectors))
	places_are 0 2048 "0,1ff,p0;1ff,601,b"
	vol_sectors=$((4 * seg_sectors))
	disk_places_are 0 2048 "0,1ff,p0;1ff,601,b"
	vol_sectors=$disk_sectors
}

@test "a volume changes its size while it hydrates, and while a checkpoint waits" {
	vol_create $((4 * seg_sectors))
	batch "0,800,p0"
	msg hydrate start 1
	vol_reload $((8 * seg_sectors))
	hydrate_is on
	snapshot
	checkpoint
	vol_reload $((3 * seg_sectors + 8))
	hydrate_is paused
	reads 8192 4104 "p2000,1008"
	status
	msg abort "${field[2]}"
	msg hydrate start
	within 30 hydrate_is off
	places_are 0 1537 "0,601,b"
	reads 8192 4104 "p2000,1008"
}

@test "more pages than the cache holds" {
	local segs=400
	many_segs $segs
	vol_create $((segs * seg_sectors)) cache_mib 1
	many_ranges $segs 512 2048 p7
	batch "$ranges"
	vol_reload $((segs * seg_sectors)) cache_mib 1
	every_read 0 7 'p%x,8;z,8'
	counts $((segs * 511)) 0 $segs
	msg remap "$moves"
	every_read 3 31 'p38,8;z,8'
	status
	[ "${field[14]}" -gt 100 ] || is "page reads" "${field[14]}" "> 100"
	counts $((segs * 511)) 0 $segs
	vol_remove
	vol_create $((segs * seg_sectors))
	counts $((segs * 511)) 0 $segs
	# Each page is read once where there is room.
	dd if=$vol of=/dev/null bs=4k count=8 iflag=direct status=none
	status
	is "page reads" "${field[14]}" 1
}

# map looks into a page without a lock, so none may be used again before all that could look
# are done, whatever waits for one.
@test "a page is not used again while a reader may still look into it" {
	local segs=400
	# The debug kernel has one CPU only.
	[ "$(nproc)" -gt 1 ] || return 0
	many_segs $segs
	vol_create $((segs * seg_sectors)) cache_mib 1
	many_ranges $segs 512 2048
	batch "$ranges"
	vol_remove
	vol_create $((segs * seg_sectors)) cache_mib 1
	hold_rcu 8000
	# There are 256 pages.
	taskset -c 0 fio --name=pages --filename=$vol --readonly --rw=read:2044k --bs=4k \
		--direct=1 --ioengine=psync --number_ios=$segs \
		>"$BATS_TEST_TMPDIR/fio" 2>&1 3>&-
	status
	[ "${field[14]}" -ge $segs ] || is "page reads" "${field[14]}" "$segs"
	# It says so before it does.
	said "releases RCU"
	wait $holder
	dm remove rdt-j
}
