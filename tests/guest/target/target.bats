#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A live volume: which segments become dirty, messages, discards, suspend, resume and
# reload, read-only tables.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

setup_file() { need_targets flakey zero snapshot-origin; }
setup() { volume_setup; }
teardown() { volume_teardown; }

# --- what a write does

@test "a write makes exactly the segments dirty that it touches" {
	local first len want
	vol_create
	snapshot
	dm hash $vol $((vol_sectors * 512))
	dirty_is "-"
	while read -r first len want; do
		snapshot
		dm poke $vol $((first * 512)) $((len * 512))
		dirty_is "$want"
		disk_dirty_is "$want"
	done <<-END
		0 1 0,1
		4095 1 0,1
		4096 1 1,1
		4095 2 0,2
		8192 4096 2,1
		8191 4098 1,3
		131071 1 1f,1
		126976 4096 1f,1
		0 65536 0,10
	END
	# A flush without data is no write.
	snapshot
	sync $vol
	dirty_is "-"
	# Dirty is dirty: no metadata write comes of it any more.
	poke 3
	unchanged poke 3
}

@test "data goes to the base, and comes from it" {
	head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/data"
	vol_create
	snapshot
	dd if="$BATS_TEST_TMPDIR/data" of=$vol bs=4096 conv=sync,fsync seek=700 \
		oflag=direct status=none
	dd if=$base bs=4096 skip=700 count=800 iflag=direct status=none |
		cmp -n 3000000 "$BATS_TEST_TMPDIR/data" -
	dd if=$vol bs=4096 skip=700 count=800 iflag=direct status=none |
		cmp -n 3000000 "$BATS_TEST_TMPDIR/data" -
}

@test "sizes that are no multiple of a segment or a block" {
	local sectors segs
	for sectors in 1 7 8 4095 4096 4097 $((vol_sectors - 1)); do
		segs=$(((sectors + 4095) / 4096))
		vol_create "$sectors"
		status_is "1 0 - 0 $segs/$segs $(((sectors + 7) / 8)) 0 0 0 ok rw"
		snapshot
		dm poke $vol $(((sectors - 1) * 512)) 512
		printf -v want '%x,1' $((segs - 1))
		dirty_is "$want"
		vol_remove
		disk_dirty_is "$want"
		dm zero $meta 0 $((meta_sectors * 512))
	done
}

@test "a volume of 16 TiB" {
	local sectors=$((16 << 31))
	make rdt-base "0 $sectors zero"
	base=/dev/mapper/rdt-base
	meta_resize $((1024 * 8))
	vol_create "$sectors"
	status_is "1 0 - 0 8388608/8388608 4294967296 0 0 0 ok rw"
	snapshot
	dirty_is "-"
	msg mark "0,1;7e00,1;7fffff,1"
	poke 8388606
	poke 4194304
	dirty_is "0,1;7e00,1;400000,1;7ffffe,2"
	vol_remove
	disk_dirty_is "0,1;7e00,1;400000,1;7ffffe,2"
	vol_create "$sectors"
	status_is "1 1 - 1 5/8388608 4294967296 0 0 0 ok rw"
}

@test "LVM lives on it" {
	local lvm=(--config 'devices { filter = [ "a|/dev/mapper/rdt-v|", "r|.*|" ] }')
	vol_create
	snapshot
	# LVM does not like to inherit files.
	vgcreate "${lvm[@]}" -q rdt-vg $vol 3>&-
	lvcreate "${lvm[@]}" -q --yes -n lv -L 20M rdt-vg 3>&-
	mkfs.ext4 -q /dev/rdt-vg/lv
	e2fsck -fn /dev/rdt-vg/lv
	dirty
	[ "$reply" != - ]
	vgremove "${lvm[@]}" -q --yes rdt-vg 3>&-
}

@test "32 volumes at once" {
	local i pids=()
	for ((i = 0; i < 32; i++)); do
		make "rdt-m$i" "0 512 linear /dev/ram1 $((4096 + i * 512))"
		# The node is no more than a name to the target.
		make "rdt-v$i" "0 $((i * 8 + 4096)) revdedup $base /dev/mapper/rdt-m$i -"
	done
	for ((i = 0; i < 32; i++)); do
		dm suspend "rdt-v$i"
		dm message "rdt-v$i" "checkpoint 1"
	done
	for ((i = 0; i < 32; i++)); do
		dm resume "rdt-v$i"
		dm message "rdt-v$i" "commit 1 $((100 + i))"
	done
	for ((i = 0; i < 32; i += 3)); do
		dd if=/dev/zero of="/dev/mapper/rdt-v$i" bs=4096 count=1 \
			oflag=direct status=none &
		pids+=($!)
	done
	wait "${pids[@]}"
	for ((i = 0; i < 32; i++)); do
		dm status "rdt-v$i"
		is "status of rdt-v$i" "$reply" \
			"1 1 - $((100 + i)) $((i % 3 ? 0 : 1))/$((i ? 2 : 1)) $((512 + i)) 0 0 0 ok rw off 0 0 0 0"
	done
	pids=()
	for ((i = 0; i < 32; i++)); do
		dmsetup remove "rdt-v$((i * 13 % 32))" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# --- messages

@test "wrong messages are refused and change nothing" {
	local error message text
	vol_create
	snapshot
	poke 3
	checkpoint
	poke 4
	status_is "1 2 2 1 1/32 16384 0 0 0 ok rw"
	state
	before=$state
	while IFS='|' read -r error message text; do
		refused "$error" "$text" msg "$message"
	done <<-END
		Invalid argument|hello|unknown message 'hello'
		Invalid argument|checkpoints 3|unknown message 'checkpoints'
		Invalid argument|checkpoint|checkpoint takes 1 arguments, not 0
		Invalid argument|checkpoint 3 4|checkpoint takes 1 arguments, not 2
		Invalid argument|checkpoint x|'x' is not a decimal number
		Invalid argument|checkpoint 0x3|'0x3' is not a decimal number
		Invalid argument|checkpoint -1|'-1' is not a decimal number
		Invalid argument|checkpoint +3|'+3' is not a decimal number
		Invalid argument|checkpoint 18446744073709551616|is not a decimal number
		Device or resource busy|checkpoint 3|suspend the device first
		Device or resource busy|checkpoint 2|suspend the device first
		Invalid argument|commit 2|commit takes 2 arguments, not 1
		Invalid argument|commit 2 2 2|commit takes 2 arguments, not 3
		Invalid argument|commit 2 x|'x' is not a decimal number
		Invalid argument|commit 1 1|no such checkpoint waits
		Invalid argument|commit 1 2|no such checkpoint waits
		Invalid argument|commit 3 2|no such checkpoint waits
		Invalid argument|commit 0 0|no such checkpoint waits
		Invalid argument|commit 18446744073709551615 2|no such checkpoint waits
		Invalid argument|abort|abort takes 1 arguments, not 0
		Invalid argument|abort 1|no such checkpoint waits
		Invalid argument|abort 3|no such checkpoint waits
		Invalid argument|abort 0|no such checkpoint waits
		Invalid argument|mark|mark takes 1 arguments, not 0
		Invalid argument|mark 0,1 1,1|mark takes 1 arguments, not 2
		Invalid argument|mark 0|not ranges
		Invalid argument|mark 0,0|not ranges
		Invalid argument|mark 0,21|not ranges
		Invalid argument|mark 20,1|not ranges
		Invalid argument|mark 1,ffffffffffffffff|not ranges
		Invalid argument|mark ffffffffffffffff,1|not ranges
		Invalid argument|mark 0,1;|not ranges
		Invalid argument|mark ;0,1|not ranges
		Invalid argument|mark 0,1;;1,1|not ranges
		Invalid argument|mark 0,1;1f,2|not ranges
		Invalid argument|mark 0x1,1|not ranges
		Invalid argument|mark -1,1|not ranges
		Invalid argument|mark 0,1;1,1;z,1|not ranges
		Invalid argument|dirty|dirty takes 3 arguments, not 0
		Invalid argument|dirty current 0|dirty takes 3 arguments, not 2
		Invalid argument|dirty current 0 1 2|dirty takes 3 arguments, not 4
		Invalid argument|dirty future 0 1|use current or frozen, not 'future'
		Invalid argument|dirty current x 1|'x' is not a decimal number
		Invalid argument|dirty current 0 -1|'-1' is not a decimal number
		Invalid argument|dirty current 33 0|the volume has 32 segments only
		Invalid argument|lost-noted 1|lost-noted takes 0 arguments, not 1
	END
	# The device is suspended, but the number is wrong.
	dm suspend rdt-v
	for epoch in 0 1 2 4 18446744073709551615; do
		refused "Invalid argument" "the next one is 3" msg checkpoint $epoch
	done
	dm resume rdt-v
	# Nothing was lost, so there is nothing to note.
	msg lost-noted
	state
	is "state" "$state" "$before"
}

@test "checkpoint, commit and abort, also sent twice" {
	vol_create
	dm suspend rdt-v
	msg checkpoint 1
	status_is "1 1 1 0 0/32 16384 0 0 0 ok rw"
	frozen_is "$all"
	dirty_is "-"
	unchanged msg checkpoint 1
	dm resume rdt-v
	unchanged refused "Device or resource busy" "suspend the device first" \
		msg checkpoint 1
	poke 1
	msg commit 1 41
	status_is "1 1 - 41 1/32 16384 0 0 0 ok rw"
	dirty_is "1,1"
	unchanged msg commit 1 41
	unchanged refused "Invalid argument" "no such checkpoint waits" msg commit 1 42
	unchanged refused "Invalid argument" "no such checkpoint waits" msg abort 1

	poke 2
	checkpoint
	poke 2
	poke 3
	dirty_is "2,2"
	frozen_is "1,2"
	msg abort 2
	status_is "1 2 - 41 3/32 16384 0 0 0 ok rw"
	dirty_is "1,3"
	disk_dirty_is "1,3"
	unchanged msg abort 2
	unchanged refused "Invalid argument" "no such checkpoint waits" msg commit 2 42

	# What was aborted or committed is so after a restart, too.
	vol_remove
	vol_create
	unchanged msg abort 2
	checkpoint
	frozen_is "1,3"
	vol_remove
	vol_create
	status_is "1 3 3 41 0/32 16384 0 0 0 ok rw"
	msg commit 3 42
	vol_remove
	vol_create
	unchanged msg commit 3 42
	# After a resume it is another moment of the volume.
	dm suspend rdt-v
	unchanged refused "Invalid argument" "the next one is 4" msg checkpoint 3
	dm resume rdt-v
}

@test "a checkpoint over one that was not committed takes its set along" {
	vol_create
	snapshot
	poke 1
	checkpoint
	poke 2
	checkpoint
	status_is "1 3 3 1 0/32 16384 0 0 0 ok rw"
	frozen_is "1,2"
	disk_frozen_is "1,2"
	poke 4
	unchanged refused "Invalid argument" "no such checkpoint waits" msg commit 2 2
	unchanged refused "Invalid argument" "no such checkpoint waits" msg abort 2
	msg commit 3 2
	dirty_is "4,1"
}

@test "checkpoints, abort and commit within one suspend" {
	vol_create
	snapshot
	poke 1
	dm suspend rdt-v
	msg checkpoint 2
	msg abort 2
	dirty_is "1,1"
	# The first one is over and done with: this is not the same again.
	unchanged refused "Invalid argument" "the next one is 3" msg checkpoint 2
	msg checkpoint 3
	unchanged msg checkpoint 3
	msg commit 3 2
	unchanged refused "Invalid argument" "the next one is 4" msg checkpoint 3
	msg checkpoint 4
	frozen_is "-"
	dm resume rdt-v
	status_is "1 4 4 2 0/32 16384 0 0 0 ok rw"
	disk_dirty_is "-"
}

# all_pages SIZE: ask with a buffer of SIZE bytes, from the first segment to the
# last. Sets $found and $pages.
all_pages() {
	local next=0
	found='' pages=0
	while [ "$next" -lt $segs ]; do
		dm message rdt-v "dirty current $next $((segs - next))" "$1"
		[ "${reply##* }" -gt "$next" ] || is "next" "${reply##* }" "> $next"
		next=${reply##* }
		[ "${reply% *}" = - ] || found+=${found:+;}${reply% *}
		pages=$((pages + 1))
	done
	is "next" "$next" $segs
}

@test "the dirty set in pages" {
	local segs=3000 i sent=() found pages
	make rdt-base "0 $((segs * seg_sectors)) zero"
	base=/dev/mapper/rdt-base
	vol_create $((segs * seg_sectors))
	snapshot
	# Every second segment of 1000 to 2999, in a reply of about 6 KiB.
	for ((i = 1000; i < segs; i += 2)); do
		printf -v 'sent[i]' '%x,1' "$i"
	done
	ranges=$(IFS=';' && echo "${sent[*]}")
	msg mark "$ranges"
	status
	is "dirty" "${field[f_dirty]}" "1000/3000"
	for size in 1000000 4096 1400; do
		all_pages $size
		[ "$found" = "$ranges" ] || is "ranges" "${found:0:200}..." "${ranges:0:200}..."
		is "pages of $size bytes" "$pages" \
			$(((${#ranges} + size - 1) / size + (size == 1400)))
	done
	# The smallest that anybody can use: the header, and two ranges.
	first=$(dm message rdt-v "dirty current 0 $segs" 400 && echo "$reply")
	is "first page of 400 bytes" "${first%%;*} ${first##* }" "3e8,1 $((1000 + 2 * $(tr -cd , <<<"$first" | wc -c)))"
	is "pages of libdevmapper" "$(dmsetup message rdt-v 0 dirty current 0 $segs | wc -w)" 2
	checkpoint
	msg dirty frozen $((segs - 10)) 100
	is "page of the frozen set" "$reply" "bae,1;bb0,1;bb2,1;bb4,1;bb6,1 3000"
}

@test "part of the dirty set" {
	local first count want
	vol_create
	snapshot
	msg mark "0,2;4,8;1e,2"
	while IFS='|' read -r first count want; do
		msg dirty current "$first" "$count"
		is "dirty current $first $count" "$reply" "$want"
	done <<-END
		0|0|- 0
		0|1|0,1 1
		1|1|1,1 2
		2|2|- 4
		2|3|4,1 5
		5|3|5,3 8
		0|32|0,2;4,8;1e,2 32
		0|18446744073709551615|0,2;4,8;1e,2 32
		31|1|1f,1 32
		31|2|1f,1 32
		32|0|- 32
		32|7|- 32
		12|18|- 30
		12|19|1e,1 31
	END
	# A verb is a word in any case, as device-mapper's users expect.
	msg DIRTY Current 0 1
	is "DIRTY" "$reply" "0,1 1"
}

@test "marks are stable when the message returns" {
	vol_create
	snapshot
	msg mark "1f,1;0,2;1,1;8,4"
	disk_dirty_is "0,2;8,4;1f,1"
	dm suspend rdt-v
	msg mark 5,1
	disk_dirty_is "0,2;5,1;8,4;1f,1"
	dm resume rdt-v
	checkpoint
	frozen_is "0,2;5,1;8,4;1f,1"
	msg mark "$all"
	status_is "1 2 2 1 32/32 16384 0 0 0 ok rw"
}

# --- discards and their like

# The volume on a loop device that can discard; rdt-b between them.
volume_with_discards() {
	loop=$(loop_of $vol_sectors base)
	make rdt-b "0 $vol_sectors linear $loop 0"
	base=/dev/mapper/rdt-b
	vol_create
	dd if=/dev/urandom of=$vol bs=1M count=16 oflag=direct status=none
	snapshot
}

# zeros FIRST COUNT: those MiB of the base are.
zeros() {
	dd if=$base iflag=direct bs=1M skip="$1" count="$2" status=none |
		cmp -n $(($2 << 20)) - /dev/zero
}

base_hash() { dm hash $base $((vol_sectors * 512)); }

@test "a discard is a write, and goes down" {
	volume_with_discards
	blkdiscard -o 4M -l 3M $vol
	dirty_is "2,2"
	disk_dirty_is "2,2"
	zeros 4 3
	run ! zeros 7 1
	snapshot
	# As a whole; to a dirty segment nothing new is written.
	blkdiscard $vol
	dirty_is "$all"
	zeros 0 64
	unchanged blkdiscard -o 1M -l 1M $vol
}

@test "write zeroes is a write, and goes down" {
	volume_with_discards
	blkdiscard -z -o 5M -l 2M $vol
	dirty_is "2,2"
	disk_dirty_is "2,2"
	zeros 5 2
	run ! zeros 4 1
	run ! zeros 7 1
}

@test "what the base refuses at the moment" {
	volume_with_discards
	# As lvcreate --snapshot does it: a snapshot-origin comes between.
	reload rdt-b "0 $vol_sectors snapshot-origin $loop"
	base_hash
	before=$reply
	unchanged blkdiscard -o 4M -l 4M $vol
	dirty_is "-"
	base_hash
	is "base after discard" "$reply" "$before"
	blkdiscard -z -o 8M -l 3M $vol
	dirty_is "4,2"
	zeros 8 3
	# Only that: the segment's rest is still there.
	run ! zeros 11 1

	# And again, when it has gone.
	reload rdt-b "0 $vol_sectors linear $loop 0"
	blkdiscard -o 12M -l 2M $vol
	dirty_is "4,3"
	zeros 12 2
}

# raid: base is an array of rdt-b alone, which begins 1 MiB into it.
raid() {
	local md=/sys/block/md77/md
	echo md77 >/sys/module/md_mod/parameters/new_array
	echo none >$md/metadata_version
	echo raid0 >$md/level
	echo 1048576 >$md/chunk_size
	echo 1 >$md/raid_disks
	dm devno /dev/mapper/rdt-b
	echo "$reply" >$md/new_dev
	echo 2048 >$md/dev-dm-*/offset
	echo $((vol_sectors / 2)) >$md/dev-dm-*/size
	echo 0 >$md/dev-dm-*/slot
	echo active >$md/array_state
	# It does not count, so older kernels lead on the bio itself, and no clone.
	echo 0 >/sys/block/md77/queue/iostats
	base=/dev/md77
	[ -b $base ]
}

@test "zeros that the base refuses go there, wherever it led them" {
	modprobe raid0 || skip "this kernel has no RAID"
	loop=$(loop_of $((vol_sectors + 2048)) base)
	make rdt-b "0 $((vol_sectors + 2048)) linear $loop 0"
	raid
	vol_create
	dd if=/dev/urandom of=$vol bs=1M count=16 oflag=direct status=none
	snapshot
	reload rdt-b "0 $((vol_sectors + 2048)) snapshot-origin $loop"
	blkdiscard -z -o 8M -l 3M $vol
	dirty_is "4,2"
	zeros 8 3
	run ! zeros 7 1
	run ! zeros 11 1
	vol_remove
	echo clear >/sys/block/md77/md/array_state
}

@test "a volume over a base that never takes discards" {
	# What the base says when the table is loaded is not for ever.
	make rdt-b "0 $vol_sectors snapshot-origin /dev/ram0"
	base=/dev/mapper/rdt-b
	vol_create
	poke 1
	snapshot
	base_hash
	before=$reply
	unchanged blkdiscard $vol
	base_hash
	is "base after discard" "$reply" "$before"
	blkdiscard -z -o 2M -l 2M $vol
	dirty_is "1,1"
	zeros 2 2
}

@test "a flush goes down to the base" {
	local flushes
	judge_base
	vol_create
	poke 1
	snapshot
	flushes() {
		local words
		dm status rdt-b
		read -ra words <<<"$reply"
		flushes=${words[3]}
	}
	flushes
	before=$flushes
	poke 1
	flushes
	is "flushes after a write" "$flushes" "$before"
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/data" bs=64K count=1 status=none
	dd if="$BATS_TEST_TMPDIR/data" of=$vol bs=4096 oflag=direct conv=fsync status=none
	flushes
	[ "$flushes" -gt "$before" ] || is "flushes after fsync" "$flushes" "> $before"
	# What was flushed is there after a crash.
	dm message rdt-b "crash $RANDOM"
	vol_remove
	dm remove rdt-b
	dd if=/dev/ram0 bs=64K count=1 iflag=direct status=none |
		cmp - "$BATS_TEST_TMPDIR/data"
}

@test "a checkpoint is refused where the base cannot be flushed" {
	# A ram disk has no cache, so that nobody flushes it.
	base_ground=$(loop_of $vol_sectors base)
	make rdt-b "0 $vol_sectors linear $base_ground 0"
	base=/dev/mapper/rdt-b
	vol_create
	snapshot
	poke 1
	checkpoint
	poke 2
	dm suspend rdt-v
	reload rdt-b "0 $vol_sectors flakey $base_ground 0 0 3600 1 error_writes"
	# Not even the set of the checkpoint before has moved.
	unchanged refused "Input/output error" "cannot flush the base device" \
		msg checkpoint 3
	reload rdt-b "0 $vol_sectors linear $base_ground 0"
	msg checkpoint 3
	dm resume rdt-v
	frozen_is "1,2"
	msg commit 3 2
	dirty_is "-"
}

# --- suspend, resume, reload

# waits PID: it does, for as long as we look.
waits() {
	local tries
	for tries in 1 2 3 4 5; do
		: "$tries"
		kill -0 "$1" 2>/dev/null || {
			echo "the write did not wait"
			return 1
		}
		sleep 0.1
	done
}

@test "a suspended volume waits with writes, and knows them after" {
	vol_create
	for option in "" noflush; do
		snapshot
		dm suspend rdt-v $option
		slow_poke 2 &
		waits "$!"
		dirty_is "-"
		dm resume rdt-v
		wait "$!"
		dirty_is "2,1"
	done
}

@test "suspend and resume under I/O" {
	vol_create
	snapshot
	fio --name=w --filename=$vol --rw=randwrite --bs=4k --direct=1 \
		--iodepth=8 --ioengine=libaio --size=64M --io_size=16M \
		--verify=crc32c --do_verify=1 >"$BATS_TEST_TMPDIR/fio" 2>&1 &
	fio=$!
	rounds=0
	while kill -0 $fio 2>/dev/null; do
		dm suspend rdt-v noflush
		dm resume rdt-v
		dm suspend rdt-v
		dm resume rdt-v
		rounds=$((rounds + 1))
	done
	wait $fio || {
		cat "$BATS_TEST_TMPDIR/fio"
		return 1
	}
	[ "$rounds" -gt 3 ]
	dirty_is "$all"
}

@test "reload of the same table keeps what is known, and reads nothing" {
	vol_create
	snapshot
	poke 3
	checkpoint
	poke 4
	state
	before=$state
	# No read and no write of the metadata can succeed.
	meta_set dead
	vol_reload
	vol_reload
	dm suspend rdt-v
	dm resume rdt-v
	meta_set ok
	state
	is "state" "$state" "$before"
}

@test "other tables in the inactive slot come and go" {
	vol_create
	snapshot
	poke 3
	state
	before=$state
	vol_load
	vol_load $((vol_sectors / 2))
	dm clear rdt-v
	vol_load "$vol_sectors" volume_uuid $some_uuid
	dm suspend rdt-v
	dm clear rdt-v
	dm resume rdt-v
	state
	is "state" "$state" "$before"
	# Another target for a while: it all comes back from the disk.
	reload rdt-v "0 $vol_sectors linear $base 0"
	vol_reload
	state
	is "state" "$state" "$before"
}

@test "a reload onto other metadata and back" {
	vol_create
	snapshot
	poke 3
	dm zero /dev/ram2 0 $((4 << 20))
	make rdt-m2 "0 2048 linear /dev/ram2 0"
	reload rdt-v "0 $vol_sectors revdedup $base /dev/mapper/rdt-m2 -"
	status_is "1 0 - 0 32/32 16384 0 0 0 ok rw"
	# The first one is free again.
	table
	make rdt-w "$table"
	dm remove rdt-w
	vol_reload
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
	dirty_is "3,1"
}

# --- read-only

@test "a read-only table writes nothing" {
	refused "Read-only file system" "not formatted, and the table is read-only" \
		vol_create_ro
	meta_is_zero
	make_some_volume
	meta_hash
	before=$reply
	vol_create_ro "$vol_sectors" volume_uuid $some_uuid
	status_is "1 2 2 1 1/32 16384 0 0 0 ok ro"
	dirty_is "9,1"
	frozen_is "7,1"
	for message in "commit 2 2" "abort 2" "mark 0,1"; do
		refused "Read-only file system" "the device is read-only" msg "$message"
	done
	run ! slow_poke 1
	dm suspend rdt-v
	refused "Read-only file system" "the device is read-only" msg checkpoint 3
	dm resume rdt-v
	# A size of another day is not recorded.
	vol_reload_ro 4096
	is "size" "$(sectors $vol)" 4096
	vol_remove
	meta_is "$before"

	# Not even what is damaged is mended.
	edit a damage
	head -c 4096 /dev/urandom | meta_block 1
	meta_hash
	before=$reply
	vol_create_ro
	status_is "1 2 2 1 32/32 16384 0 0 0 lost ro"
	dm suspend rdt-v
	dm resume rdt-v
	dm suspend rdt-v noflush
	dm resume rdt-v
	vol_remove
	meta_is "$before"
}

@test "a read-only table lets no write in, from whoever could write before" {
	vol_create
	snapshot
	make rdt-top "0 $vol_sectors linear $vol 0"
	vol_reload_ro
	refused "Input/output error" "" dm poke /dev/mapper/rdt-top 0 4096
	dm hash /dev/mapper/rdt-top 4096
	vol_reload
	dirty_is "-"
	dm poke /dev/mapper/rdt-top 0 4096
	dirty_is "0,1"
}

@test "read-only and back by reload" {
	vol_create
	snapshot
	poke 3
	vol_reload_ro
	status_is "1 1 - 1 1/32 16384 0 0 0 ok ro"
	dd if=$vol of=/dev/null bs=1M count=1 iflag=direct status=none
	unchanged refused "Read-only file system" "read-only" msg mark 0,1
	vol_reload
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
	poke 4
	dirty_is "3,2"
}
