#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Volumes and metadata devices that grow and shrink.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

setup_file() { need_targets flakey zero; }
setup() { volume_setup; }
teardown() { volume_teardown; }

# sized DIRTY/SEGMENTS RANGES: these are dirty, on disk as well.
sized() {
	status && is "dirty/segments" "${field[f_dirty]}" "$1" &&
		dirty_is "$2" && disk_dirty_is "$2"
}

@test "a volume grows: new segments are dirty" {
	vol_create $((8 * seg_sectors))
	snapshot
	poke 1
	vol_reload $((12 * seg_sectors))
	sized 5/12 "1,1;8,4"
	is "size" "$(sectors $vol)" $((12 * seg_sectors))
	snapshot
	# A last segment that grows is another one than it was.
	vol_reload $((12 * seg_sectors + 8))
	sized 1/13 "c,1"
	snapshot
	vol_reload $((12 * seg_sectors + 16))
	sized 1/13 "c,1"
	vol_remove
	# While it is away, too.
	vol_create $((16 * seg_sectors))
	sized 4/16 "c,4"
}

@test "a volume shrinks: segments beyond the end are gone, and come back dirty" {
	vol_create $((16 * seg_sectors))
	snapshot
	poke 1
	poke 9
	poke 12
	vol_reload $((10 * seg_sectors))
	sized 2/10 "1,1;9,1"
	vol_reload $((9 * seg_sectors + 1))
	sized 2/10 "1,1;9,1"
	vol_reload $((9 * seg_sectors))
	sized 1/9 "1,1"
	vol_remove
	vol_create $((9 * seg_sectors))
	sized 1/9 "1,1"
	vol_reload $((16 * seg_sectors))
	sized 8/16 "1,1;9,7"
	vol_remove
	vol_create $((8 * seg_sectors))
	sized 1/8 "1,1"
}

@test "a volume changes its size while a checkpoint waits" {
	vol_create $((8 * seg_sectors))
	snapshot
	poke 1
	poke 7
	checkpoint
	poke 2
	vol_reload $((10 * seg_sectors))
	frozen_is "1,1;7,1"
	sized 3/10 "2,1;8,2"
	vol_reload $((4 * seg_sectors))
	frozen_is "1,1"
	disk_frozen_is "1,1"
	sized 1/4 "2,1"
	vol_reload $((8 * seg_sectors))
	frozen_is "1,1"
	disk_frozen_is "1,1"
	sized 5/8 "2,1;4,4"
	msg abort 2
	sized 6/8 "1,2;4,4"
}

@test "a size in epoch 0" {
	vol_create $((4 * seg_sectors))
	vol_reload $((8 * seg_sectors))
	sized 8/8 "0,8"
	snapshot
	vol_reload $((4 * seg_sectors))
	vol_remove
	vol_create $((8 * seg_sectors))
	sized 4/8 "4,4"
}

@test "sizes across groups of segments" {
	local group=32256
	make rdt-base "0 $((3 * group * seg_sectors)) zero"
	base=/dev/mapper/rdt-base
	meta_resize 64
	vol_create $((group * seg_sectors))
	snapshot
	poke $((group - 1))
	vol_reload $(((group + 1) * seg_sectors))
	sized "2/32257" "7dff,2"
	vol_reload $((3 * group * seg_sectors))
	sized "64513/96768" "7dff,fc01"
	snapshot
	poke $((2 * group))
	poke $group
	checkpoint
	poke $((2 * group + 1))
	vol_reload $(((group + 1) * seg_sectors))
	frozen_is "7e00,1"
	sized "0/32257" "-"
	vol_remove
	vol_create $((3 * group * seg_sectors))
	sized "64511/96768" "7e01,fbff"
	frozen_is "7e00,1"
	# The metadata device has no room for one group more.
	make rdt-base2 "0 $((4 * group * seg_sectors)) zero"
	# shellcheck disable=SC2034 # volume.bash does
	base=/dev/mapper/rdt-base2
	vol_load $((3 * group * seg_sectors))
	refused "No space left on device" "too small for the volume" \
		vol_load $(((3 * group + 1) * seg_sectors))
}

@test "a new size that cannot be recorded: the old one holds, and forgets nothing" {
	vol_create $((16 * seg_sectors))
	for size in 8 20; do
		snapshot
		poke 1
		poke 12
		# Bitmaps can be written, superblocks cannot.
		meta_set dead 0 8 $((meta_sectors - 8)) 8
		refused "Input/output error" "cannot record the new size" \
			vol_reload $((size * seg_sectors))
		# After a crash now, whoever comes back with the old size must
		# not miss anything.
		disk=$BATS_TEST_TMPDIR/disk
		dd if=$meta_ground iflag=direct bs=512 count=$meta_sectors \
			of="$disk" status=none
		disk_dirty_is "1,1;c,1"
		disk=''
		meta_set ok
		vol_reload $((16 * seg_sectors))
		within 10 tracking_is ok
		dirty_is "1,1;c,1"
		poke 2
		sized 3/16 "1,2;c,1"
		vol_remove
		vol_create $((16 * seg_sectors))
		sized 3/16 "1,2;c,1"
	done
}

@test "a metadata device grows: copy B of the superblock moves" {
	local how
	vol_create
	snapshot
	poke 3
	for how in suspend reload; do
		meta_resize $((meta_sectors + 1024))
		if [ $how = suspend ]; then
			dm suspend rdt-v
			dm resume rdt-v
		else
			vol_reload
		fi
		meta_is_fine
		vol_remove
		# The copy at the new end is good for a start.
		save_meta
		edit a damage
		vol_create
		tracking_is lost
		vol_remove
		restore_meta
		vol_create
		status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
		dirty_is "3,1"
	done
	# While it is away.
	vol_remove
	meta_resize $((meta_sectors + 1024))
	vol_create
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
	meta_is_fine
	vol_remove
	meta_resize $((meta_sectors - 8))
	refused "No space left on device" "smaller than when it was formatted" vol_create
}

@test "a metadata device shrinks under a live volume: it runs on, and recovers" {
	vol_create
	snapshot
	poke 3
	meta_resize $((meta_sectors - 1024))
	dm suspend rdt-v
	log_begin
	dm resume rdt-v
	said "smaller than when it was formatted"
	poke 4
	dirty_is "3,2"
	meta_resize $((meta_sectors + 1024))
	dm suspend rdt-v
	dm resume rdt-v
	meta_is_fine
	disk_dirty_is "3,2"
	vol_remove
	vol_create
	status_is "1 1 - 1 2/32 16384 0 0 0 ok rw"
}
