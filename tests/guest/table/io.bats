#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The remap table: where reads go, what writes and flushes do.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

@test "a new volume: all is on the base" {
	vol_create
	places_are 0 16384 "0,4000,b"
	counts 16384 0 0
	reads 0 64 "b0,40"
	status_is "1 0 - 0 32/32 16384 0 0 0 ok rw off 0 0"
}

@test "set: blocks read from the pool, as zeros, and from the base" {
	vol_create
	batch "0,10,p100;10,10,z;20,1,p7ff;21,1,b" "3fff,1,p0"
	places_are 0 64 "0,10,p100;10,10,z;20,1,p7ff;21,1f,b"
	reads 0 280 "p800,80;z,80;p3ff8,8;b108,10"
	reads $((vol_sectors - 8)) 8 "p0,8"
	counts $((16384 - 34)) 16 18
	# What does not begin at a block.
	reads 123 10 "p87b,5;z,5"
	vol_remove
	vol_create
	places_are 0 64 "0,10,p100;10,10,z;20,1,p7ff;21,1f,b"
	reads 0 280 "p800,80;z,80;p3ff8,8;b108,10"
	counts $((16384 - 34)) 16 18
}

@test "whole segments need no page, and are split where a part differs" {
	vol_create
	batch "0,400,p200;400,200,z;600,200,p5"
	places_are 0 2048 "0,400,p200;400,200,z;600,200,p5"
	reads 4090 10 "p1ffa,a"
	status
	is "page reads" "${field[14]}" 0
	vol_reload
	writes 4096 8
	places_are 0 2048 "0,200,p200;200,1,b;201,1ff,p401;400,200,z;600,200,p5"
	reads 4090 22 "p1ffa,6;w1000,8;p2008,8"
	# One of zeros, and back to a whole one.
	batch "200,200,p600"
	places_are 0 2048 "0,200,p200;200,200,p600;400,200,z;600,200,p5"
	vol_remove
	vol_create
	places_are 0 2048 "0,200,p200;200,200,p600;400,200,z;600,200,p5"
	reads 4096 8 "p3000,8"
}

# reads_now WHAT: of block 0, which is in the pool, and of block 32, which is at home.
reads_now() { is "reads that may not wait" "$(/revdedup/bin/nowait $vol read 0 32)" "$1"; }

# dm-delay takes no REQ_NOWAIT; like dm-thin.
@test "only where a read goes to a device that may wait, it is refused if it must not" {
	make rdt-b "0 $vol_sectors delay $base 0 0"
	local home=$base base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100"
	case $(uname -r) in
	# There device-mapper asks the base alone.
	6.1.*) reads_now "Operation not supported Operation not supported" ;;
	*) reads_now "done EAGAIN" ;;
	esac
	reads 0 8 "p800,8"
	reads 256 8 "b100,8"
	vol_remove
	reload rdt-p "0 $pool_sectors delay /dev/ram2 0 0"
	base=$home
	vol_create
	# A read whose page is not in memory waits in the worker, and not in its submitter.
	reads 0 8 "p800,8"
	reads 256 8 "b100,8"
	reads_now "EAGAIN done"
}

# As with reads: the EAGAIN of the second part would come when the first one ends.
@test "a write that must not wait and lies in two segments is refused before any of it is written" {
	vol_create
	batch "0,10,p100"
	writes 0 8
	writes 4096 8
	is "writes that may not wait" "$(/revdedup/bin/nowait $vol write 511 512)" "EAGAIN done"
	reads 4088 8 "bff8,8"
	dd if=/dev/zero of=$vol bs=1M count=4 oflag=direct conv=notrunc status=none
	is "of one that may" "$(cmp -n 4194304 $vol /dev/zero && echo same)" same
}

# spans ENGINE: read what lies in the pool and at home, half and half, at once.
spans() {
	fio --name=spans --filename=$vol --ioengine="$1" --direct=1 --rw=read --bs=64k \
		--offset=32k --size=64k --loops=20 >"$BATS_TEST_TMPDIR/fio" || {
		cat "$BATS_TEST_TMPDIR/fio"
		return 1
	}
}

# As with dm-thin below, and the pool in a file. The half in the pool is in flight when the other
# one is refused: in which context it ends is then a matter of luck, and so is the error.
@test "a read that must not wait and lies in two devices is refused before any of it is read" {
	make rdt-b "0 $vol_sectors delay $base 0 0"
	local base=/dev/mapper/rdt-b
	on_loop_pool
	vol_create
	batch "0,10,p100"
	spans libaio
	spans io_uring
	reads 64 128 "p840,40;b80,40"
}

@test "a volume that ends within a block and within a segment" {
	local sectors=$((4096 + 21))
	vol_create $sectors
	batch "0,203,p0"
	places_are 0 515 "0,203,p0"
	counts 0 0 515
	reads 4110 7 "p100e,7"
	writes 4112 2
	reads 4110 7 "p100e,2;w1010,2;p1012,3"
	batch "202,1,p202"
	writes 4114 2
	reads 4110 7 "p100e,4;w1012,2;p1014,1"
	places_are 512 3 "200,2,p200;202,1,b"
	# The rest of the base's block is nobody's business.
	dm read $base 4117 3
	is "behind the end" "$reply" "b1015,3"
	msg hydrate start
	within 20 hydrate_is off
	places_are 0 515 "0,203,b"
	reads 4090 27 "pffa,18;w1012,2;p1014,1"
	dm read $base 4117 3
	is "behind the end" "$reply" "b1015,3"
	# A discard of all of it has the last block, too.
	batch "0,203,p0"
	blkdiscard $vol
	places_are 0 515 "0,203,z"
	reads 4090 27 "z,1b"
	dm read $base 4117 3
	is "behind the end" "$reply" "b1015,3"
}

@test "writes go home: whole blocks, and parts after a copy of the rest" {
	vol_create
	batch "0,10,p100;10,10,z;200,2,p7"
	writes 0 8
	writes 19 2
	writes 39 2 x
	writes 131 1
	places_are 0 32 "0,1,b;1,1,p101;2,1,b;3,1,p103;4,2,b;6,a,p106;10,1,b;11,f,z"
	reads 0 56 "w0,8;p808,b;w13,2;p815,12;x27,2;p829,f"
	reads 128 16 "z,3;w83,1;z,c"
	# From one segment into the next.
	writes 4090 10
	reads 4088 16 "bff8,2;wffa,a;p3c,4"
	places_are 511 3 "1ff,2,b;201,1,p8"
	counts $((16384 - 15 - 13)) 15 13
	vol_remove
	vol_create
	reads 0 56 "w0,8;p808,b;w13,2;p815,12;x27,2;p829,f"
	reads 4088 16 "bff8,2;wffa,a;p3c,4"
	# And the pool is what it was.
	dm read $pool 0 $pool_sectors
	is "pool" "$reply" "p0,4000"
}

@test "write zeroes go home, too" {
	vol_create
	batch "0,20,p100"
	blkdiscard -z -o 4096 -l 8192 $vol
	reads 0 32 "p800,8;z,10;p818,8"
	blkdiscard -z -o $((5 * 4096 + 512)) -l 1024 $vol
	reads 40 8 "p828,1;z,2;p82b,5"
	places_are 5 1 "5,1,b"
	vol_remove
	vol_create
	reads 0 48 "p800,8;z,10;p818,11;z,2;p82b,5"
}

@test "discards: whole blocks of the pool become zeros" {
	vol_create
	batch "0,10,p100;10,10,z;200,200,p0;400,200,p200"
	snapshot
	# From within a block to within another.
	blkdiscard -o 512 -l $((3 * 4096)) $vol
	places_are 0 17 "0,1,p100;1,2,z;3,d,p103;10,1,z"
	reads 0 40 "p800,8;z,10;p818,10"
	dirty_is "0,1"
	# A whole segment, and one of which it takes a part.
	blkdiscard -o 2M -l 2M $vol
	places_are 512 512 "200,200,z"
	# The end of one that is mapped whole.
	blkdiscard -o $((5 << 20)) -l 1M $vol
	places_are 1024 512 "400,100,p200;500,100,z"
	# What reads as zeros already stays.
	blkdiscard -o $((16 * 4096)) -l $((16 * 4096)) $vol
	places_are 16 16 "10,10,z"
	vol_remove
	vol_create
	places_are 0 17 "0,1,p100;1,2,z;3,d,p103;10,1,z"
	places_are 512 512 "200,200,z"
	reads 0 40 "p800,8;z,10;p818,10"
}

@test "a first write to a segment that is remapped makes it dirty" {
	vol_create
	batch "0,10,p100;200,200,p0;400,1,z"
	snapshot
	writes 3 2
	writes 4100 1
	writes 8192 8
	dirty_is "0,3"
	disk_dirty_is "0,3"
}

@test "FLUSH, FUA and suspend wait for a commit; a timer starts one, too" {
	local how
	vol_create
	batch "0,10,p100"
	for how in flush fua suspend timer; do
		batch "0,1,p100"
		case $how in
		flush) writes 0 8 && sync $vol ;;
		fua) dd if=/dev/zero of=$vol bs=4096 count=1 oflag=direct,dsync status=none ;;
		suspend) writes 0 8 && dm suspend rdt-v ;;
		timer) writes 0 8 && within 10 disk_places_are 0 16 "0,1,b;1,f,p101" ;;
		esac
		disk_places_are 0 16 "0,1,b;1,f,p101"
		dm resume rdt-v
	done
	# Nothing waits when a message has settled.
	writes 8 8
	places_are 0 3 "0,2,b;2,1,p102"
	status
	is "waiting" "${field[13]}" 0
	disk_places_are 0 3 "0,2,b;2,1,p102"
}

@test "flushes fail while the table cannot be written, and all is there when it can" {
	local before
	vol_create
	batch "0,10,p100;200,200,p0"
	snapshot
	writes 0 8
	writes 8192 8
	sync $vol
	events
	before=$reply
	page_at 0
	meta_set dead $page_at 8
	writes 16 8
	run ! sync $vol
	mode_is fail
	events
	[ "$reply" -gt "$before" ]
	tracking_is ok
	# All goes on but flushes, and they fail each time.
	reads 0 32 "w0,8;p808,8;w10,8;p818,8"
	writes 24 8
	writes 4096 8
	run ! sync $vol
	run ! dd if=/dev/zero of=$vol bs=4096 seek=5 count=1 oflag=direct,dsync status=none
	refused "Input/output error" "" msg remap 6,1,p106,p206
	run ! dd if=/dev/zero of=$vol bs=4096 count=1 conv=fsync oflag=direct seek=2048 status=none
	meta_set ok
	within 10 mode_is rw
	sync $vol
	places_are 0 6 "0,1,b;1,1,p101;2,2,b;4,1,p104;5,1,b"
	disk_places_are 0 6 "0,1,b;1,1,p101;2,2,b;4,1,p104;5,1,b"
	disk_places_are 512 2 "200,1,b;201,1,p1"
	vol_remove
	vol_create
	reads 0 40 "w0,8;p808,8;w10,10;p820,8"
}

@test "a FUA write waits for a commit, with no FLUSH behind it" {
	vol_create
	batch "0,10,p100"
	snapshot
	writes 0 8
	sync $vol
	fua 1
	disk_places_are 0 4 "0,2,b;2,2,p102"
	page_at 0
	meta_set dead $page_at 8
	run ! fua 2
	# Home already, but the table does not say so yet.
	run ! fua 2
	meta_set ok
	within 10 mode_is rw
	fua 3
	disk_places_are 0 5 "0,4,b;4,1,p104"
}

@test "what a commit that failed was to write, the next one does" {
	vol_create
	batch "0,10,p100;200,10,z"
	snapshot
	page_at 0
	meta_set dead $page_at 8
	refused "Input/output error" "" msg remap 0,10,p100,p200
	mode_is fail
	meta_set ok
	within 10 mode_is rw
	# It settles, so nobody names the old places any more.
	places_are 0 16 "0,10,p200"
	disk_places_are 0 16 "0,10,p200"
}

@test "a suspend and a removal while the table cannot be written" {
	vol_create
	batch "0,10,p100"
	page_at 0
	meta_set dead $page_at 8
	writes 0 8
	dm suspend rdt-v noflush
	dm resume rdt-v
	dm suspend rdt-v
	dm resume rdt-v
	vol_reload
	reads 0 16 "w0,8;p808,8"
	dm suspend rdt-v
	# What the version has of block 0 is in memory only.
	status
	refused "Input/output error" "" msg checkpoint $((field[f_epoch] + 1))
	meta_set ok
	vol_remove
	vol_create
	reads 0 16 "w0,8;p808,8"
	places_are 0 2 "0,1,b;1,1,p101"
}
