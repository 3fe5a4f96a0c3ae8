#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Which table lines and which metadata devices the target takes, and its messages about
# the others. It never writes to a device that it refuses.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

setup_file() { need_targets flakey zero; }
setup() { volume_setup; }
teardown() { volume_teardown; }

# --- table lines

@test "a wrong table line is refused, and the kernel says what is wrong with it" {
	local error args text absent='No such file or directory' \
		other='Block device required'
	[[ $(uname -r) != 6.1.* ]] || absent='No such device' other=$absent
	dm create rdt-v
	while IFS='|' read -r error args text; do
		args=${args//META/$meta}
		refused "$error" "$text" \
			load_table rdt-v rw "0 $vol_sectors revdedup $args"
	done <<-END
		Invalid argument||arguments are <base dev|-> <meta dev> <pool dev|->
		Invalid argument|/dev/ram0|arguments are <base dev|-> <meta dev> <pool dev|->
		Invalid argument|/dev/ram0 META|arguments are <base dev|-> <meta dev> <pool dev|->
		Invalid argument|- META -|only a read-only table with a pool device needs no base device
		Invalid argument|- META /dev/ram2|only a read-only table with a pool device needs no base device
		$absent|/dev/nothing META -|cannot open the base device
		$absent|/dev/ram0 /dev/nothing -|cannot open the metadata device
		$other|/dev/null META -|cannot open the base device
		$absent|/dev/ram0 META /dev/nothing|cannot open the pool device
		Invalid argument|/dev/ram0 /dev/ram0 -|metadata must not lie on the base device
		Invalid argument|META META -|metadata must not lie on the base device
		Invalid argument|/dev/ram0 META META|metadata must not lie on the pool device
		Invalid argument|/dev/ram0 META /dev/ram0|base and pool must be two devices
		Invalid argument|/dev/ram0 META - x|the number of option words must be 0 to 9
		Invalid argument|/dev/ram0 META - -1|the number of option words must be 0 to 9
		Invalid argument|/dev/ram0 META - 10 a b c d e f g h i j|the number of option words must be 0 to 9
		Invalid argument|/dev/ram0 META - 0 volume_uuid|the number of option words does not match the words that follow
		Invalid argument|/dev/ram0 META - 2 volume_uuid|the number of option words must be 0 to 9, and so many must follow
		Invalid argument|/dev/ram0 META - 2 volume_uuid $some_uuid more|the number of option words does not match the words that follow
		Invalid argument|/dev/ram0 META - 1 volume_uuid|options are volume_uuid
		Invalid argument|/dev/ram0 META - 3 volume_uuid $some_uuid pool_uuid|options are volume_uuid
		Invalid argument|/dev/ram0 META - 2 colour blue|options are volume_uuid
		Invalid argument|/dev/ram0 META - 2 volume_uuid 1234|a uuid must be 36 characters
		Invalid argument|/dev/ram0 META - 2 volume_uuid ${some_uuid}0|a uuid must be 36 characters
		Invalid argument|/dev/ram0 META - 2 volume_uuid ${some_uuid/1/g}|a uuid must be 36 characters
		Invalid argument|/dev/ram0 META - 2 pool_uuid 00000000-0000-0000-0000-000000000000|a uuid must be 36 characters, and not all zeros
		Invalid argument|/dev/ram0 META - 4 pool_uuid $some_uuid pool_uuid $some_uuid|an option is given twice
		Invalid argument|/dev/ram0 META - 4 cache_mib 1 cache_mib 1|an option is given twice
		Invalid argument|/dev/ram0 META - 2 cache_mib 0|cache_mib and pack_mib must be 1 to 65536
		Invalid argument|/dev/ram0 META - 2 cache_mib 65537|cache_mib and pack_mib must be 1 to 65536
		Invalid argument|/dev/ram0 META - 2 cache_mib 1x|cache_mib and pack_mib must be 1 to 65536
		Invalid argument|/dev/ram0 META - 1 cache_mib|options are volume_uuid
	END
	# Our target is alone in its table.
	refused "Invalid argument" "must appear alone in table" load_table rdt-v rw \
		"0 4096 revdedup $base $meta -|4096 4096 linear /dev/ram2 0"
	meta_is_zero
}

@test "the table line is what was given, and it makes the same device again" {
	local line devs
	dm devno $base
	devs=$reply
	dm devno $meta
	devs+=" $reply -"
	vol_create "$vol_sectors" POOL_UUID ${other_uuid^^} volume_uuid $some_uuid
	dm table rdt-v
	line=$reply
	is "table" "$line" "$devs 4 volume_uuid $some_uuid pool_uuid $other_uuid"
	vol_remove
	make rdt-v "0 $vol_sectors revdedup $line"
	dm table rdt-v
	is "table" "$reply" "$line"
	# No option is no option.
	reload rdt-v "0 $vol_sectors revdedup $base $meta - 0"
	dm table rdt-v
	is "table" "$reply" "$devs"
	is "dmsetup's" "$(dmsetup table rdt-v)" "0 $vol_sectors revdedup $devs"
}

@test "a base that is smaller than the table is refused" {
	refused "Invalid argument" "too small for target" \
		vol_create $((vol_sectors + 1))
	meta_is_zero
	vol_create
	refused "Invalid argument" "too small for target" \
		vol_reload $((vol_sectors + seg_sectors))
	dm clear rdt-v
	dm resume rdt-v
	status_is "1 0 - 0 32/32 16384 0 0 0 ok rw"
}

@test "a metadata device that is too small is refused, by one block" {
	make rdt-base "0 $((32257 * seg_sectors)) zero"
	base=/dev/mapper/rdt-base
	dm create rdt-v

	meta_resize 24
	refused "No space left on device" "it needs 4 blocks of 4 KiB at least" \
		vol_load 4096
	# 32256 segments are one group: two superblocks, two bitmaps.
	meta_resize 32
	vol_load $((32256 * seg_sectors))
	dm clear rdt-v
	refused "No space left on device" "too small for the volume" \
		vol_load $((32256 * seg_sectors + 1))
	meta_resize 47
	refused "No space left on device" "too small for the volume" \
		vol_load $((32257 * seg_sectors))
	meta_is_zero
	meta_resize 48
	vol_reload $((32257 * seg_sectors))
	status_is "1 0 - 0 32257/32257 16515584 0 0 0 ok rw"
	dirty_is "0,7e01"
}

@test "one metadata device serves one device only" {
	vol_create
	table
	refused "Device or resource busy" "in use by another revdedup device" \
		make rdt-w "$table"
	# It also does while neither has a live table.
	vol_remove
	dm create rdt-v
	vol_load
	table
	refused "Device or resource busy" "in use by another revdedup device" \
		make rdt-w "$table"
	dm clear rdt-v
	make rdt-w "$table"
}

# --- formatting

@test "metadata is formatted at the first resume, where the first block is zero" {
	head -c 4096 /dev/urandom | meta_block 1
	head -c 4096 /dev/urandom | meta_block 255
	meta_hash
	before=$reply
	dm create rdt-v
	vol_load
	meta_is "$before"
	dm status rdt-v inactive
	is "status of the table that is not live" "$reply" "-"
	dm resume rdt-v
	status_is "1 0 - 0 32/32 16384 0 0 0 ok rw"
	dirty_is "$all"
	disk_dirty_is "$all"
	meta_is_fine
	refused "No data available" "no checkpoint waits" msg dirty frozen 0 1
}

@test "what is not ours is not overwritten" {
	echo something | meta_block 0
	meta_hash
	before=$reply
	refused "Wrong medium type" "and not zeroed for one" vol_create
	meta_is "$before"
	# One bit is enough, the last one of the block.
	{
		head -c 4095 /dev/zero
		printf '\x80'
	} >"$BATS_TEST_TMPDIR/block"
	meta_block 0 <"$BATS_TEST_TMPDIR/block"
	refused "Wrong medium type" "and not zeroed for one" vol_create
	mkfs.ext4 -q $meta
	blockdev --flushbufs $meta
	refused "Wrong medium type" "not a revdedup metadata device" vol_create
	e2fsck -fn $meta
	# And no base is taken for metadata.
	echo something | dd of=$base bs=4096 conv=sync oflag=direct status=none
	refused "Wrong medium type" "not a revdedup metadata device" \
		make rdt-v "0 8 revdedup $meta $base -"
}

@test "a zero first block does not hide a volume" {
	vol_create
	vol_remove
	dm zero $meta 0 4096
	meta_hash
	before=$reply
	refused "File exists" "the first block is zero, but the last one" vol_create
	meta_is "$before"
	meta_set dead $((meta_sectors - 8)) 8
	refused "File exists" "or unreadable" vol_create
}

@test "metadata that cannot be formatted: the device does not run, and can later" {
	dm create rdt-v
	vol_load
	for part in "0 $meta_sectors" "$bitmap_sectors" "0 8 $((meta_sectors - 8)) 8" "0 8"; do
		meta_set nowrite $part
		refused "Input/output error" "cannot format the metadata device" \
			dm resume rdt-v
		refused "No such device or address" "" msg mark 0,1
		dm status rdt-v
		is "status" "$reply" "-"
	done
	meta_set ok
	dm resume rdt-v
	status_is "1 0 - 0 32/32 16384 0 0 0 ok rw"
	snapshot
	poke 3
	meta_is_fine
	disk_dirty_is "3,1"
}

# --- metadata that is refused

@test "metadata of the future, or that makes no sense, is refused" {
	local error edits text
	vol_create
	vol_remove
	save_meta
	while IFS='|' read -r error edits text; do
		restore_meta
		edit a $edits
		edit b $edits
		meta_hash
		before=$reply
		refused "$error" "$text" vol_create
		meta_is "$before"
	done <<-END
		Operation not supported|version=2|the metadata's format version is not supported
		Operation not supported|version=0|the metadata's format version is not supported
		Operation not supported|incompat=0x80000000|a feature that is not supported (incompat)
		Read-only file system|compat_ro=1|a feature that this version can only read (compat_ro)
		Structure needs cleaning|flags=0x1c|the remap table is incomplete
		No such device|flags=0x10|blocks of the volume lie in a pool
		Bad message|flags=0x114|values that contradict each other
		Bad message|flags=0x00|values that contradict each other
		Bad message|committed=1|values that contradict each other
		Bad message|lost_epoch=9|values that contradict each other
		Bad message|volume_sectors=0|values that contradict each other
		Bad message|volume_sectors=0xffffffffffffffff|values that contradict each other
		Bad message|meta_blocks=3|values that contradict each other
		Bad message|epoch=0xffffffffffffffff|values that contradict each other
		Bad message|seq=0|values that contradict each other
		Bad message|damage|damaged (checksum)
	END
	# Neither copy can be read.
	restore_meta
	meta_set dead
	refused "Input/output error" "cannot read the superblock" vol_create
	meta_set ok

	# Never go back behind a newer version that wrote one copy.
	edit b version=2
	refused "Operation not supported" "format version is not supported" vol_create

	# What may be ignored is, and what may be read is.
	restore_meta
	edit a compat=0xffffffff
	edit b compat=0xffffffff
	vol_create
	vol_remove
	edit a compat_ro=1
	edit b compat_ro=1
	vol_create_ro
	status_is "1 0 - 0 32/32 16384 0 0 0 ok ro"
}

@test "metadata of another volume or pool is refused" {
	vol_create "$vol_sectors" volume_uuid $some_uuid
	vol_remove
	meta_hash
	before=$reply
	refused "Invalid cross-device link" "belongs to another volume" \
		vol_create "$vol_sectors" volume_uuid $other_uuid
	meta_is "$before"
	# Nobody asked: nobody minds.
	vol_create
	meta_is "$before"
	# It is learned when it is told, by a reload, too.
	vol_reload "$vol_sectors" pool_uuid $other_uuid
	refused "Invalid cross-device link" "belongs to another pool" \
		vol_load "$vol_sectors" pool_uuid $some_uuid
	vol_remove
	refused "Invalid cross-device link" "belongs to another pool" \
		vol_create "$vol_sectors" volume_uuid $some_uuid pool_uuid $some_uuid
	vol_create "$vol_sectors" volume_uuid $some_uuid pool_uuid $other_uuid
}

@test "metadata that has shrunk is refused" {
	vol_create
	vol_remove
	meta_resize 2040
	refused "No space left on device" "smaller than when it was formatted" \
		vol_create
	meta_resize 2048
	vol_create
}

# --- one copy of the superblock, and bitmap blocks

# lost_and_cured: the volume was loaded with one copy only.
lost_and_cured() {
	status_is "1 2 2 1 32/32 16384 0 0 0 lost rw"
	dirty_is "$all"
	disk_dirty_is "$all"
	# This checkpoint was taken before the loss; its frozen set may lack
	# something.
	msg commit 2 2
	tracking_is lost
	snapshot
	status_is "1 3 - 3 0/32 16384 0 0 0 ok rw"
	poke 5
	vol_remove
	vol_create
	status_is "1 3 - 3 1/32 16384 0 0 0 ok rw"
	dirty_is "5,1"
	meta_is_fine
}

@test "a damaged copy of the superblock: all is dirty until a new snapshot" {
	make_some_volume
	save_meta
	for copy in a b; do
		restore_meta
		edit $copy damage
		log_begin
		vol_create
		said "superblock copy ${copy^}: the superblock is damaged"
		lost_and_cured
		vol_remove
	done
}

@test "a copy of the superblock that cannot be read: all is dirty until a new snapshot" {
	make_some_volume
	save_meta
	for copy in "A 0" "B $((meta_sectors - 8))"; do
		restore_meta
		meta_set dead "${copy#* }" 8
		log_begin
		vol_create
		said "superblock copy ${copy% *}: cannot read the superblock"
		tracking_is lost
		dirty_is "$all"
		meta_set ok
		lost_and_cured
		vol_remove
	done
}

@test "copy B of an earlier life of the device is no copy" {
	vol_create
	vol_remove
	save_meta
	dm zero $meta 0 $((meta_sectors * 512))
	make_some_volume
	dd if="$BATS_TEST_TMPDIR/meta" of=$meta oflag=direct bs=4096 status=none \
		skip=$((meta_sectors / 8 - 1)) seek=$((meta_sectors / 8 - 1))
	vol_create
	lost_and_cured
}

@test "the copy that was written last is believed, and the other made the same" {
	make_some_volume
	for copy in a b; do
		edit $copy seq=1 epoch=1 flags=0x14
		vol_create
		status_is "1 2 2 1 1/32 16384 0 0 0 ok rw"
		vol_remove
		meta_is_fine
	done
}

@test "a damaged bitmap block: its segments are dirty" {
	make_some_volume
	# Epoch 2 is even, its bits are in the first slot.
	head -c 4096 /dev/urandom | meta_block 1
	vol_create
	status_is "1 2 2 1 32/32 16384 0 0 0 ok rw"
	dirty_is "$all"
	frozen_is "7,1"
	vol_remove
	disk_dirty_is "$all"
	head -c 4096 /dev/urandom | meta_block 2
	vol_create
	frozen_is "$all"
	# Its slot is that of epoch 3 next, whose first write cures it.
	snapshot
	dirty_is "-"
	poke 1
	meta_is_fine
	disk_dirty_is "1,1"
}

@test "a bitmap block that cannot be read: its segments are dirty" {
	make_some_volume
	meta_set dead 8 8
	vol_create
	dirty_is "$all"
	frozen_is "7,1"
	meta_set ok
	within 10 tracking_is ok
	msg commit 2 2
	snapshot
	dirty_is "-"
	vol_remove
	meta_is_fine
}
