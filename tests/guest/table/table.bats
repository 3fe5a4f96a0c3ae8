#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The remap table: what each message does, which messages are refused, and failures of the
# devices below. (model.bats does all of it at random.)
#
# Each sector of base and pool holds its own address, so a read from the volume shows where
# its data comes from: "p800,8" is block 100 of the pool.

# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

pool=/dev/mapper/rdt-p
pool_sectors=16384	# 0x800 blocks
filled=16384		# sectors of the base that say where they are

setup_file() { need_targets delay flakey zero snapshot-origin; }

setup() {
	volume_setup
	dm fill $base 0 $filled b
	dm fill /dev/ram2 0 $pool_sectors p
	make rdt-p "0 $pool_sectors linear /dev/ram2 0"
}

teardown() {
	volume_teardown
	! compgen -G '/sys/block/loop*/loop' >/dev/null || losetup -D
}

# As in volume.bash, and with a pool.
table() {
	local sectors=${1:-$vol_sectors}
	[ $# -eq 0 ] || shift
	table="0 $sectors revdedup $base $meta $pool${1:+ $# $*}"
}

# batch RANGES...: set these.
batch() {
	local ranges
	dm suspend rdt-v && msg begin || return
	for ranges; do
		msg set "$ranges" || return
	done
	msg end && dm resume rdt-v
}

# places FIRST COUNT: of these blocks, in $reply.
places() {
	local first=$1 end=$(($1 + $2)) all=''
	while [ "$first" -lt "$end" ]; do
		msg table "$first" $((end - first)) || return
		[[ $reply == -* ]] || all+=${all:+;}${reply% *}
		first=${reply##* }
	done
	reply=${all:--}
}

places_are() { places $1 $2 && is "places of blocks $1 to $(($1 + $2))" "$reply" "$3"; }

# reads FIRST SECTORS WHAT: from the volume.
reads() { dm read $vol $1 $2 && is "sectors $1 to $(($1 + $2))" "$reply" "$3"; }

# writes FIRST SECTORS [LETTER]: to the volume.
writes() { dm fill $vol $1 $2 ${3:-w}; }

# counts BASE ZERO POOL, of the status line.
counts() { status && is "base zero pool" "${field[*]:6:3}" "$*"; }

# Words of the status line.
mode_is() { status && is "mode" "${field[11]}" "$1"; }
hydrate_is() { status && is "hydrate" "${field[12]}" "$1"; }
left_is() { status && is "hydration left" "${field[9]}" "$1"; }

# disk_places FIRST COUNT: what a crash now would leave: a copy of the metadata
# makes a version.
disk_places() {
	local copy=$BATS_TEST_TMPDIR/copy loop
	dd if=$meta of="$copy" iflag=direct bs=256K status=none
	loop=$(loopdev "$copy")
	make rdt-w "0 $vol_sectors revdedup - $loop $pool" ro || return
	dm message rdt-w "table $1 $2" || return
	copy=${reply% *}
	dm remove rdt-w
	losetup -d "$loop"
	reply=$copy
}

disk_places_are() { disk_places $1 $2 && is "on disk" "$reply" "$3"; }

# Sectors of the metadata device: the block of words, the page of a segment.
words_at=24
page_at() { page_at=$(((66 + $1) * 8)); }

# many_segs COUNT: a base of zeros with room for them, and metadata.
many_segs() {
	make rdt-base "0 $(($1 * seg_sectors)) zero"
	base=/dev/mapper/rdt-base
	meta_resize $(((66 + $1 + 1) * 8))
	dm zero $meta 0 $((meta_sectors * 512))
}

# on_loop_pool: the pool is on a device that takes discards, whatever the kernel.
on_loop_pool() {
	pool_ground=$(loop_of $pool_sectors pool)
	dm fill $pool_ground 0 $pool_sectors p
	reload rdt-p "0 $pool_sectors linear $pool_ground 0"
}

# --- where blocks are read from

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

@test "a volume that ends within a block and within a segment" {
	local sectors=$((4096 + 21))
	vol_create $sectors
	batch "0,203,p0"
	places_are 0 515 "0,203,p0"
	counts 0 0 515
	reads 4110 7 "p100e,7"
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
}

# --- writes

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
	batch "0,10,p100;10,10,z;200,200,p0"
	snapshot
	# From within a block to within another.
	blkdiscard -o 512 -l $((3 * 4096)) $vol
	places_are 0 17 "0,1,p100;1,2,z;3,d,p103;10,1,z"
	reads 0 40 "p800,8;z,10;p818,10"
	dirty_is "0,1"
	# A whole segment, and one of which it takes a part.
	blkdiscard -o 2M -l 2M $vol
	places_are 512 512 "200,200,z"
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

# --- when it is stable

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

# fua BLOCK: write it. What sync I/O of a block device calls FUA ends with a FLUSH, which
# would wait by itself.
fua() {
	fio --name=fua --filename=$vol --rw=write --bs=4k --offset=$(($1 * 4))k --size=4k \
		--direct=1 --ioengine=libaio --sync=dsync >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&-
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
	meta_set ok
	vol_remove
	vol_create
	reads 0 16 "w0,8;p808,8"
	places_are 0 2 "0,1,b;1,1,p101"
}

# --- messages

@test "remap moves what is there, and nothing else" {
	vol_create
	batch "0,10,p100;10,10,z;200,400,p0"
	msg remap 0,4,p100,p200
	places_are 0 16 "0,4,p200;4,c,p104"
	# Only those that are where it says.
	writes 40 8
	msg remap "2,6,p202,p302;10,2,p0,p1;12,2,z,p40"
	places_are 0 32 "0,2,p200;2,2,p302;4,1,p104;5,1,b;6,a,p106;10,2,z;12,2,p40;14,c,z"
	msg remap "2,6,p102,p302;12,1,p40,z"
	places_are 0 20 "0,2,p200;2,3,p302;5,1,b;6,2,p306;8,8,p108;10,3,z;13,1,p41"
	reads 0 64 "p1000,10;p1810,18;w28,8;p1830,10"
	# Of segments that are mapped whole: all, a part, and with another place.
	msg remap "200,200,p0,p300;400,200,p300,p0;440,1,p240,p7"
	places_are 512 1024 "200,200,p300;400,40,p200;440,1,p7;441,1bf,p241"
	# The base is never named.
	msg remap "40,4,p0,p1"
	places_are 64 4 "40,4,b"
	# It is stable, and nothing is dirty by it.
	disk_places_are 0 4 "0,2,p200;2,2,p302"
	snapshot
	msg remap 0,1,p200,p201
	dirty_is "-"
	# On a suspended device as well.
	dm suspend rdt-v
	msg remap 0,1,p201,p200
	dm resume rdt-v
	places_are 0 1 "0,1,p200"
}

# many_ranges COUNT STEP POOL: of a block each, STEP apart, in $ranges, to so many blocks
# of the pool in turn; in $moves the same, with TO ("z") as new place. (Not in a test
# itself, as bats looks at each line of that.)
many_ranges() {
	local i range to=${4:-z}
	ranges='' moves=''
	for ((i = 0; i < $1; i++)); do
		printf -v range '%x,1,p%x' $((i * $2)) $((i % $3))
		ranges+=\;$range moves+=\;$range,$to
	done
	ranges=${ranges#;} moves=${moves#;}
}

# all_pages SIZE: of the table, asked for with a buffer of that size: in $found, and
# their number in $pages.
all_pages() {
	local next=0
	found='' pages=0
	while [ "$next" -lt 16384 ]; do
		dm message rdt-v "table $next $((16384 - next))" $1
		[ "${reply##* }" -gt "$next" ] || return
		next=${reply##* }
		found+=${found:+;}${reply% *}
		pages=$((pages + 1))
	done
}

# every_read FIRST BY WHAT: the first two blocks of these segments.
every_read() {
	local i want
	for ((i = $1; i < segs; i += $2)); do
		# shellcheck disable=SC2059 # it is one
		printf -v want "$3" $((i * 8))
		reads $((i * 4096)) 16 "$want" || return
	done
}

@test "thousands of ranges in a message" {
	vol_create
	many_ranges 4000 4 2000
	batch "$ranges"
	counts 12384 0 4000
	places 0 16384
	[ "$(grep -o 'p' <<<"$reply" | wc -l)" -eq 4000 ]
	reads $((3999 * 32)) 8 "p3e78,8"
	msg remap "$moves"
	counts 12384 4000 0
}

@test "the table in pages" {
	local size next found pages
	vol_create
	many_ranges 950 2 77
	batch "$ranges"
	places 0 16384
	want=$reply
	for size in 100000 4096 1400; do
		all_pages $size
		[ "$found" = "$want" ] || is "ranges" "${found:0:200}..." "${want:0:200}..."
		[ $size != 1400 ] || [ $pages -gt 10 ]
	done
	# The edges of what can be asked.
	msg table 0 0
	is "none" "$reply" "- 0"
	msg table 16384 7
	is "behind the end" "$reply" "- 16384"
	msg table 99 3
	is "three" "$reply" "63,1,b;64,1,p32;65,1,b 102"
	msg table 16383 18446744073709551615
	is "the last" "$reply" "3fff,1,b 16384"
	refused "Invalid argument" "16384 blocks only" msg table 16385 0
}

@test "set: nothing but in a batch on the suspended device" {
	vol_create
	refused "Device or resource busy" "suspend the device first" msg begin
	refused "Device or resource busy" "suspend the device first" msg set 0,1,z
	refused "Device or resource busy" "suspend the device first" msg end
	dm suspend rdt-v
	refused "Invalid argument" "send begin first" msg set 0,1,z
	refused "Invalid argument" "send begin first" msg end
	msg begin
	msg set 0,1,p100
	# Again is no error, and what was set stays.
	msg begin
	msg set 1,1,p101
	refused "Structure needs cleaning" "incomplete" dm resume rdt-v
	msg set 2,1,p102
	msg end
	refused "Invalid argument" "send begin first" msg set 0,1,z
	dm resume rdt-v
	refused "Device or resource busy" "suspend the device first" msg set 0,1,z
	places_are 0 4 "0,3,p100;3,1,b"
	reads 0 32 "p800,18;b18,8"
}

@test "set is a write: its segments are dirty, and before the entries are" {
	vol_create
	snapshot
	batch "0,1,p100;400,400,z" "7ff,2,p7"
	dirty_is "0,1;2,3"
	disk_dirty_is "0,1;2,3"
	snapshot
	# Where the bit cannot be written, the entry is not changed.
	dm suspend rdt-v
	msg begin
	meta_set dead $bitmap_sectors
	refused "Input/output error" "" msg set 0,1,z
	meta_set ok
	msg end
	dm resume rdt-v
	places_are 0 1 "0,1,p100"
}

@test "a batch that was cut off: refused until it is repeated" {
	vol_create
	batch "0,10,p100"
	dm suspend rdt-v
	msg begin
	msg set 0,10,p200
	vol_remove
	# The table line is taken: the batch needs a device.
	dm create rdt-v
	vol_load
	refused "Structure needs cleaning" "incomplete" dm resume rdt-v
	refused "Structure needs cleaning" "incomplete" dm resume rdt-v
	refused "Structure needs cleaning" "incomplete" vol_reload
	msg begin
	msg set 0,8,p200
	msg set 8,8,p300
	msg end
	dm resume rdt-v
	places_are 0 16 "0,8,p200;8,8,p300"
	reads 0 128 "p1000,40;p1800,40"
	vol_remove
	vol_create
	places_are 0 16 "0,8,p200;8,8,p300"
	# Not even to be read.
	dm suspend rdt-v
	msg begin
	vol_remove
	refused "Structure needs cleaning" "incomplete" vol_create_ro
}

@test "alias takes what nobody wrote to since watch" {
	vol_create
	batch "8,2,p100"
	msg watch "0,8"
	writes 8 1
	blkdiscard -z -o $((2 * 4096)) -l 4096 $vol
	msg alias "0,8,p200"
	places_are 0 10 "0,1,p200;1,2,b;3,5,p203;8,2,p100"
	disk_places_are 0 4 "0,1,p200;1,2,b;3,1,p203"
	# Marks are used up.
	writes 24 8
	msg alias "0,8,p300"
	places_are 0 8 "0,1,p200;1,3,b;4,4,p204"
	# Neither what is not on the base, nor what is not marked, nor without all.
	msg watch "0,8"
	msg alias "4,8,z"
	places_are 4 8 "4,4,p204;8,2,p100;a,2,b"
	msg alias "1,1,z"
	places_are 0 3 "0,1,p200;1,1,z;2,1,b"
	msg watch -
	msg alias "2,2,p700"
	places_are 2 2 "2,2,b"
	# Several, also across segments.
	msg watch "200,2;3ff,3;20,1"
	writes $((512 * 8)) 8
	msg alias "200,1,p1;201,1,p2;3ff,3,p700"
	places_are 512 2 "200,1,b;201,1,p2"
	places_are 1023 3 "3ff,3,p700"
}

@test "watch: a discard is a write, a read is none, a reload forgets nothing it must know" {
	vol_create
	writes 0 64
	msg watch 0,8
	reads 0 64 "w0,40"
	blkdiscard -o 8192 -l 4096 $vol
	msg alias 0,8,p100
	if [ "$(cat /sys/block/ram0/queue/discard_max_bytes)" -gt 0 ]; then
		places_are 0 8 "0,2,p100;2,1,b;3,5,p103"
	else
		# What the base does not take changes nothing.
		places_are 0 8 "0,8,p100"
	fi
	batch 0,8,b
	msg watch 0,8
	vol_reload
	writes 24 8
	dm suspend rdt-v
	dm resume rdt-v
	msg alias 0,8,p100
	places 0 8
	[[ ";$reply;" == *";3,1,b;"* ]] || is "block 3" "$reply" "b"
}

@test "watch: the marks are in so many segments" {
	local segs=4100 last
	printf -v last %x $((4096 * 512))
	many_segs $segs
	vol_create $((segs * seg_sectors))
	msg watch 0,$last
	refused "No space left on device" "no more than 4096 segments" \
		msg watch $last,1
	msg watch 0,200
	msg watch -
	msg watch $last,1
	msg alias $last,1,p7
	places_are $((4096 * 512)) 1 "200000,1,p7"
}

@test "punch" {
	on_loop_pool
	vol_create
	batch "0,10,p100"
	msg remap "0,8,p100,p200"
	msg punch "100,8;300,1"
	dm read $pool $((255 * 8)) 80
	is "pool" "$reply" "p7f8,8;z,40;p840,8"
	dm read $pool $((767 * 8)) 24
	is "pool" "$reply" "p17f8,8;z,8;p1808,8"
	reads 0 128 "p1000,40;p840,40"
	msg punch 7ff,1
	refused "Invalid argument" "" msg punch 7ff,2
	dm read $pool $((pool_sectors - 16)) 16
	is "pool" "$reply" "p3ff0,8;z,8"
	# A device that takes none.
	reload rdt-p "0 $pool_sectors snapshot-origin /dev/ram2"
	refused "Operation not supported" "takes no discards" msg punch 0,1
}

# --- what is refused

@test "wrong messages of the table are refused and change nothing" {
	local error message text
	vol_create
	batch "0,10,p100;10,10,z;200,200,p0"
	snapshot
	places 0 16384
	before=$reply
	state
	before+=" / $state"
	while IFS='|' read -r error message text; do
		refused "$error" "$text" msg "$message"
	done <<-END
		Invalid argument|remap|remap takes 1 arguments, not 0
		Invalid argument|remap 0,1,z,p1 1,1,z,p1|remap takes 1 arguments, not 2
		Invalid argument|remap 0,1|not ranges
		Invalid argument|remap 0,1,p100|not ranges
		Invalid argument|remap 0,1,p100,|not ranges
		Invalid argument|remap 0,1,p100,p|not ranges
		Invalid argument|remap 0,1,p100,q|not ranges
		Invalid argument|remap 0,1,p100,p1,p2|not ranges
		Invalid argument|remap 0,1,p100,p1;|not ranges
		Invalid argument|remap ;0,1,p100,p1|not ranges
		Invalid argument|remap 0,1,p100,p0x1|not ranges
		Invalid argument|remap 0,1,p100,P1|not ranges
		Invalid argument|remap 0,1,p100,p-1|not ranges
		Invalid argument|remap 0,0,p100,p1|not ranges
		Invalid argument|remap 4000,1,p100,p1|not ranges
		Invalid argument|remap 3fff,2,p100,p1|not ranges
		Invalid argument|remap 0,ffffffffffffffff,z,p1|not ranges
		Invalid argument|remap 1,ffffffffffffffff,z,p1|not ranges
		Invalid argument|remap 0,4,p100,p200;4,4,p104,p204;x|not ranges
		Invalid argument|remap 0,4,p100,p200;4,4,p104,p204;4000,1,z,p0|not ranges
		Invalid argument|remap 0,1,b,p1|old and new place must not be the base
		Invalid argument|remap 0,1,p100,b|old and new place must not be the base
		Invalid argument|remap 0,4,p100,p200;5,1,p105,b|old and new place must not be the base
		Numerical result out of range|remap 0,1,p100,p800|not within the 2048 blocks of the pool
		Numerical result out of range|remap 0,2,p100,p7ff|not within the 2048 blocks of the pool
		Numerical result out of range|remap 0,1,p800,p100|not within the 2048 blocks of the pool
		Numerical result out of range|remap 0,4,p100,p200;5,1,p105,p3fffffffffff|not within
		Invalid argument|begin 1|begin takes 0 arguments, not 1
		Invalid argument|end 1|end takes 0 arguments, not 1
		Invalid argument|set|set takes 1 arguments, not 0
		Invalid argument|set 0,1|not ranges
		Invalid argument|set 0,1,p1,p2|not ranges
		Invalid argument|set 0,1,c|not ranges
		Numerical result out of range|set 0,1,p800|not within the 2048 blocks of the pool
		Device or resource busy|set 0,1,b|suspend the device first
		Invalid argument|table|table takes 2 arguments, not 0
		Invalid argument|table 0|table takes 2 arguments, not 1
		Invalid argument|table 0 1 2|table takes 2 arguments, not 3
		Invalid argument|table x 1|'x' is not a decimal number
		Invalid argument|table 0 -1|'-1' is not a decimal number
		Invalid argument|table 0x0 1|'0x0' is not a decimal number
		Invalid argument|table 16385 1|the volume has 16384 blocks only
		Invalid argument|watch|watch takes 1 arguments, not 0
		Invalid argument|watch 0|not ranges
		Invalid argument|watch 0,1,b|not ranges
		Invalid argument|watch 0,1;4000,1|not ranges
		Invalid argument|watch -,|not ranges
		Invalid argument|alias|alias takes 1 arguments, not 0
		Invalid argument|alias 0,1|not ranges
		Invalid argument|alias 0,1,b|the new place is z or in the pool
		Invalid argument|alias 30,1,z;31,1,b|the new place is z or in the pool
		Invalid argument|alias -|not ranges
		Numerical result out of range|alias 30,1,p800|not within the 2048 blocks of the pool
		Invalid argument|punch|punch takes 1 arguments, not 0
		Invalid argument|punch 0,1,p1|not ranges
		Invalid argument|punch 0,0|not ranges
		Invalid argument|hydrate|hydrate takes 1 arguments, not 0
		Invalid argument|hydrate now|use start, start <MiB/s> or stop
		Invalid argument|hydrate stop 1|use start, start <MiB/s> or stop
		Invalid argument|hydrate start 0|the limit is 1 to
		Invalid argument|hydrate start -1|'-1' is not a decimal number
		Invalid argument|hydrate start x|'x' is not a decimal number
		Invalid argument|hydrate start 4294967296|the limit is 1 to
		Invalid argument|hydrate start 1 2|hydrate takes 2 arguments, not 3
	END
	places 0 16384
	after=$reply
	state
	is "table and state" "$after / $state" "$before"
	# The same of a batch, in which half of a message is right.
	dm suspend rdt-v
	msg begin
	refused "Numerical result out of range" "not within" msg set "0,10,z;10,1,p800"
	refused "Invalid argument" "not ranges" msg set "0,10,z;10,1,p7ff;4000,1,z"
	refused "Invalid argument" "not ranges" msg set "0,10,z;;10,1,p7ff"
	msg end
	dm resume rdt-v
	places 0 16384
	is "table" "$reply" "${before%% / *}"
}

@test "ranges that overlap are taken one after the other" {
	vol_create
	batch "0,10,p100;4,2,z;0,1,b"
	places_are 0 16 "0,1,b;1,3,p101;4,2,z;6,a,p106"
	msg remap "1,2,p101,p201;2,2,p202,p302;3,1,p303,z;3,1,p103,z"
	places_are 0 4 "0,1,b;1,1,p201;2,1,p302;3,1,z"
}

@test "a read-only table line changes nothing of the table" {
	vol_create
	batch "0,10,p100;10,10,z"
	vol_remove
	meta_hash
	before=$reply
	vol_create_ro
	mode_is ro
	for message in "remap 0,1,p100,p200" "remap 0,1,p300,p200" "watch 20,1" \
		"alias 20,1,z" "punch 0,1" "hydrate start" "hydrate stop"; do
		refused "Read-only file system" "" msg "$message"
	done
	dm suspend rdt-v
	for message in begin "set 0,1,z" end; do
		refused "Read-only file system" "the device is read-only" msg "$message"
	done
	dm resume rdt-v
	places_are 0 33 "0,10,p100;10,10,z;20,1,b"
	reads 0 272 "p800,80;z,80;b100,10"
	run ! slow_poke 0
	vol_remove
	meta_is "$before"
}

# The messages of the table, all right but for that.
all_messages_are_unsupported() {
	local message
	for message in "remap 0,1,p100,p200" "watch 20,1" "watch -" "alias 20,1,z" \
		"punch 0,1" "hydrate start" "hydrate stop" "table 0 1" begin \
		"set 0,1,z" end; do
		refused "Operation not supported" "there is no remap table" msg "$message"
	done
}

@test "no pool, no table" {
	env_pool_none vol_create
	all_messages_are_unsupported
	poke 3
	snapshot
	poke 4
	dirty_is "4,1"
	# It comes with a pool, and stays while nobody needs one.
	vol_reload
	places_are 0 1 "0,1,b"
	batch 0,1,p7
	refused "No such device" "give the pool device" env_pool_none vol_reload
	reads 0 8 "p38,8"
	dm clear rdt-v
	vol_remove
	refused "No such device" "give the pool device" env_pool_none vol_create
	vol_create
	msg hydrate start
	within 20 hydrate_is off
	vol_remove
	env_pool_none vol_create
	reads 0 8 "p38,8"
}

# With no pool in the table line.
env_pool_none() {
	local pool=-
	"$@"
}

@test "metadata that has no room for a table: tracks, with a pool or without" {
	meta_resize 32
	vol_create
	all_messages_are_unsupported
	snapshot
	writes 0 8
	dirty_is "0,1"
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw off 0 0"
	reads 0 16 "w0,8;b8,8"
	dm suspend rdt-v
	refused "Operation not supported" "there is no remap table" msg begin
	dm resume rdt-v
}

@test "table lines with a pool" {
	local error args text
	dm create rdt-v
	while IFS='|' read -r error args text; do
		args=${args//META/$meta}
		args=${args//POOL/$pool}
		refused "$error" "$text" load_table rdt-v rw "0 $vol_sectors revdedup $args"
	done <<-END
		Invalid argument|- META POOL|needs no base device
		Invalid argument|/dev/ram0 META /dev/ram0|base and pool must be two devices
		Invalid argument|/dev/ram0 META META|metadata must not lie on the base or pool device
		Invalid argument|/dev/ram0 META POOL 2 cache_mib 0|cache_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 cache_mib -1|cache_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 cache_mib 1M|cache_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 cache_mib 18446744073709551616|cache_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 4 cache_mib 1 cache_mib 1|an option is given twice
		Invalid argument|/dev/ram0 META POOL 1 cache_mib|options are
	END
	refused "Invalid argument" "needs no base device" \
		load_table rdt-v ro "0 $vol_sectors revdedup - $meta -"
}

@test "the table line is what was given, with all that can be" {
	local line want
	dm devno $base
	want=$reply
	dm devno $meta
	want+=" $reply"
	dm devno $pool
	want+=" $reply 6 volume_uuid $some_uuid pool_uuid $other_uuid cache_mib 3"
	vol_create $vol_sectors cache_mib 3 pool_uuid $other_uuid volume_uuid $some_uuid
	batch 0,1,p7
	dm table rdt-v
	line=$reply
	is "table" "$line" "$want"
	reload rdt-v "0 $vol_sectors revdedup $line"
	dm table rdt-v
	is "table" "$reply" "$want"
	reads 0 8 "p38,8"
	dmsetup table rdt-v >"$BATS_TEST_TMPDIR/line"
	vol_remove
	dmsetup create rdt-v <"$BATS_TEST_TMPDIR/line"
	mknodes rdt-v
	dm table rdt-v
	is "table" "$reply" "$want"
	reads 0 8 "p38,8"
	refused "Invalid cross-device link" "belongs to another pool" \
		vol_reload $vol_sectors pool_uuid $some_uuid
	dm clear rdt-v
	# As a version it has a line, too.
	vol_remove
	make rdt-v "0 $vol_sectors revdedup - $meta $pool" ro
	dm table rdt-v
	line=$reply
	[[ $line == "- "* ]]
	vol_remove
	make rdt-v "0 $vol_sectors revdedup $line" ro
	reads 0 8 "p38,8"
}

# limit NAME: of the volume, in $reply; as /sys/block/dm-N/queue has it.
limit() { reply=$(<"/sys/dev/block/$(stat -c %Hr:%Lr $vol)/queue/$1"); }

@test "limits are those of the base, whatever the pool can do" {
	local name wanted=() names
	# The base takes write zeroes and discards, the pool takes neither.
	base=$(loop_of $vol_sectors base)
	dm fill $base 0 $filled b
	make rdt-q "0 $pool_sectors snapshot-origin /dev/ram2"
	names=(logical_block_size physical_block_size minimum_io_size optimal_io_size
		discard_granularity discard_max_bytes write_zeroes_max_bytes)
	make rdt-v "0 $vol_sectors revdedup $base $meta -"
	for name in "${names[@]}"; do
		limit $name
		wanted+=("$name $reply")
	done
	pool=/dev/mapper/rdt-q
	vol_reload
	for name in "${names[@]}"; do
		limit $name
		is "$name" "$name $reply" "${wanted[0]}"
		wanted=("${wanted[@]:1}")
	done
	batch 0,10,p100
	fallocate -p -o 1M -l 64K $vol
	reads 0 128 "p800,80"
	writes 8 8
	reads 0 24 "p800,8;w8,8;p810,8"
	dm remove rdt-v
	dm remove rdt-q
}

# --- damage and errors

@test "a damaged entry: I/O errors for its block, and no others" {
	vol_create
	batch "0,10,p100;10,10,z;20,4,b"
	vol_remove
	/revdedup/bin/metaedit $meta entry 3
	/revdedup/bin/metaedit $meta entry 17
	/revdedup/bin/metaedit $meta entry 33
	vol_create
	reads 0 288 "p800,18;e,8;p820,60;z,8;e,8;z,70;b100,8;e,8;b110,10"
	places_are 0 36 "0,3,p100;4,c,p104;10,1,z;12,e,z;20,1,b;22,2,b"
	refused "Input/output error" "" writes 25 2
	refused "Input/output error" "" writes 265 2
	writes 0 8
	writes 40 3
	reads 0 64 "w0,8;p808,10;e,8;p820,8;w28,3;p82b,15"
	# A remap passes over it, whatever it says.
	msg remap "0,10,p100,p200;11,1,z,p0"
	places_are 0 18 "0,1,b;1,2,p201;4,1,p204;5,1,b;6,a,p206;10,1,z"
	log_begin
	msg hydrate start
	within 20 left_is 3
	reads 0 32 "w0,8;p1008,10;e,8"
	# Who knows better says so.
	msg hydrate stop
	batch "3,1,p103;11,1,z;21,1,b"
	places_are 0 36 "0,3,b;3,1,p103;4,d,b;11,1,z;12,12,b"
	reads 0 40 "w0,8;p1008,10;p818,8;p1020,8"
}

@test "a damaged word: I/O errors for its segment, and no others" {
	vol_create
	batch "0,200,p100;200,200,z;400,10,p0;600,10,p7"
	vol_remove
	/revdedup/bin/metaedit $meta word 0
	/revdedup/bin/metaedit $meta word 2
	vol_create
	reads 0 8 "e,8"
	reads 4080 24 "e,10;z,8"
	reads 8192 4096 "e,1000"
	reads 12288 8 "p38,8"
	places_are 510 1028 "200,200,z;600,2,p7"
	refused "Input/output error" "" writes 0 8
	# Changes of others do not mend it, and do not harm it.
	writes 4096 8
	msg remap "600,1,p7,p8"
	vol_remove
	vol_create
	reads 4080 24 "e,10;w1000,8"
	reads 12288 8 "p40,8"
	batch "0,200,p200;400,200,b"
	reads 0 8 "p1000,8"
	places_are 0 1540 "0,200,p200;200,1,b;201,1ff,z;400,200,b;600,1,p8;601,3,p8"
}

@test "pages of every count of blocks on the base are found again" {
	local nr
	vol_create
	for nr in 1 2 3 4 511; do
		batch "0,200,p0;$(printf '0,%x,b' $nr)"
		vol_remove
		vol_create
		places_are 0 512 "$(printf '0,%x,b;%x,%x,p%x' $nr $nr $((512 - nr)) $nr)"
		batch "0,200,z;$(printf '0,%x,p0' $nr)"
		vol_remove
		vol_create
		places_are 0 512 "$(printf '0,%x,p0;%x,%x,z' $nr $nr $((512 - nr)))"
	done
}

@test "a page that cannot be read: errors as long as that lasts" {
	vol_create
	batch "0,10,p100;200,10,p0"
	vol_remove
	page_at 1
	meta_set dead $page_at 8
	vol_create
	reads 0 8 "p800,8"
	reads 4096 8 "e,8"
	refused "Input/output error" "" writes 4096 8
	refused "Input/output error" "" msg remap 200,1,p0,p1
	refused "Input/output error" "" msg table 512 1
	places_are 0 2 "0,2,p100"
	writes 0 8
	msg remap 1,1,p101,p201
	sync $vol
	meta_set ok
	reads 4096 16 "p0,10"
	writes 4096 8
	places_are 512 2 "200,1,b;201,1,p1"
}

@test "words that cannot be read: no volume" {
	vol_create
	batch "0,10,p100"
	vol_remove
	meta_set dead $words_at 8
	refused "Input/output error" "cannot read the remap table" vol_create
	meta_set ok
	vol_create
	reads 0 8 "p800,8"
}

@test "a pool that has become smaller, and grows again" {
	vol_create
	batch "0,2,p3ff;2,2,p7fe;200,200,p300"
	pool_sectors=8192
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	vol_reload
	reads 0 40 "p1ff8,8;e,18;b20,8"
	reads $((4096 + 255 * 8)) 24 "p1ff8,8;e,10"
	refused "Input/output error" "" writes 17 1
	writes 24 8
	refused "Numerical result out of range" "" msg remap 0,1,p3ff,p400
	msg remap 0,1,p3ff,p0
	msg hydrate start
	within 20 left_is $((2 + 256))
	msg hydrate stop
	places_are 0 5 "0,1,b;1,1,p400;2,1,p7fe;3,2,b"
	reload rdt-p "0 16384 linear /dev/ram2 0"
	vol_reload
	reads 0 32 "p0,8;p2000,8;p3ff0,8;w18,8"
}

@test "a pool that fails: errors where it is needed, and nothing is lost" {
	vol_create
	batch "0,10,p100;10,1,z"
	reload rdt-p "0 $pool_sectors error"
	reads 0 144 "e,80;z,8;b88,8"
	refused "Input/output error" "" writes 3 1
	writes 8 8
	msg hydrate start
	within 20 left_is 15
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	within 40 hydrate_is off
	reads 0 144 "p800,8;w8,8;p810,70;z,8;b88,8"
	places_are 0 32 "0,20,b"
}

@test "a base that fails a write home leaves the old place" {
	make rdt-b "0 $vol_sectors linear /dev/ram0 0"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100"
	snapshot
	writes 0 8
	reload rdt-b "0 $vol_sectors flakey /dev/ram0 0 0 3600 1 error_writes"
	refused "Input/output error" "" writes 8 8
	refused "Input/output error" "" writes 18 3
	reads 0 32 "w0,8;p808,18"
	reload rdt-b "0 $vol_sectors linear /dev/ram0 0"
	places_are 1 3 "1,3,p101"
	writes 18 3
	reads 0 32 "w0,8;p808,a;w12,3;p815,b"
}

# is_told: of a flush that failed, to two who flush, once the base can again.
is_told() {
	within 10 mode_is rw
	run ! sync $vol
	run ! sync $vol
	within 10 sync $vol
}

@test "a flush of ours that the base fails is told to who flushes next" {
	local ground
	# A RAM disk has no cache, and so no flush comes to it.
	ground=$(loop_of $vol_sectors disk)
	make rdt-b "0 $vol_sectors linear $ground 0"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100"
	snapshot
	writes 0 8
	# Its commit comes in a second, or with a message, and what that flushes is lost.
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	refused "Input/output error" "" msg remap 1,1,p101,p201
	mode_is fail
	reload rdt-b "0 $vol_sectors linear $ground 0"
	is_told
	# One that failed with the commit itself has told nobody else.
	writes 8 8
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	run ! sync $vol
	mode_is fail
	reload rdt-b "0 $vol_sectors linear $ground 0"
	is_told
	# At a checkpoint as well, where nothing else waits.
	dm suspend rdt-v
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	status
	refused "Input/output error" "" msg checkpoint $((field[f_epoch] + 1))
	reload rdt-b "0 $vol_sectors linear $ground 0"
	dm resume rdt-v
	is_told
	# A file system's flush comes with the end of a commit of its journal.
	mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $vol
	mkdir -p "$BATS_TEST_TMPDIR/mnt"
	mount $vol "$BATS_TEST_TMPDIR/mnt"
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/mnt/one" bs=4096 count=1 conv=fsync status=none
	sync
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	refused "Input/output error" "" msg remap 1,1,p101,p201
	reload rdt-b "0 $vol_sectors linear $ground 0"
	within 10 mode_is rw
	run ! dd if=/dev/urandom of="$BATS_TEST_TMPDIR/mnt/two" bs=4096 count=1 conv=fsync \
		status=none
	umount "$BATS_TEST_TMPDIR/mnt"
	dm remove rdt-v
	dm remove rdt-b
}

# away_are "ZEROS POOL": numbers of blocks.
away_are() { status && is "blocks that are zeros and in the pool" "${field[7]} ${field[8]}" "$1"; }

# base_table [TARGET]: of a base with something behind the volume, to which flushes go, too.
base_table() {
	printf '%s\n' "0 $vol_sectors linear $ground 0" \
		"$vol_sectors 8 ${1:-linear /dev/ram0 0}"
}

@test "what was copied home is not relied on where the base has lost its cache" {
	local ground block
	ground=$(loop_of $vol_sectors disk)
	make rdt-b "$(base_table)"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100;200,300,p300;800,10,z"
	snapshot
	reload rdt-b "$(base_table "flakey /dev/ram0 0 0 3600 1 error_writes")"
	msg hydrate start
	# It is copied, the commit behind that fails, and 10 s later it is tried again.
	within 60 left_is 0
	within 10 mode_is fail
	within 10 left_is $((0x320))
	within 60 left_is 0
	# Among what was copied, if the commit has not been quicker.
	writes 8 8
	within 10 left_is $((0x31f))
	# A part of a block cannot come home while the rest cannot be made stable there.
	refused "Input/output error" "" writes 18 3
	within 10 left_is $((0x31f))
	# Messages cannot rely on what they saw.
	refused "Input/output error" "" msg remap 2,1,p102,p202
	refused "Input/output error" "" msg table 0 16
	msg hydrate stop
	within 10 away_are "16 783"
	# This is what may have been lost.
	for block in 0 3 4 512 1000 2050; do
		dd if=/dev/urandom of="$ground" bs=4096 count=1 seek=$block oflag=direct \
			conv=notrunc status=none
	done
	# The remap that failed has moved block 2.
	reads 0 128 "p800,8;w8,8;p1010,8;p818,68"
	reads 4096 8 "p1800,8"
	reload rdt-b "$(base_table)"
	within 10 mode_is rw
	writes 18 3
	msg hydrate start
	within 40 hydrate_is off
	reads 0 128 "p800,8;w8,8;p1010,2;w12,3;p1015,3;p818,68"
	reads 4096 8 "p1800,8"
	dm remove rdt-v
	dm remove rdt-b
}

# It comes to the base where nothing waits for a commit. Then something is copied home,
# and the base says that its cache is lost.
@test "what was copied home is not relied on where a flush from above fails" {
	local ground behind flusher
	ground=$(loop_of $vol_sectors disk)
	behind=$(loop_of 8 behind)
	make rdt-x "0 8 linear $behind 0"
	make rdt-b "$(base_table "linear /dev/mapper/rdt-x 0")"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100;200,300,p300;800,10,z"
	snapshot
	reload rdt-x "0 8 flakey $behind 0 0 3600 1 error_writes"
	# Each flush takes 6 s.
	slow="/dev/mapper/rdt-x 0"
	reload rdt-b "$(base_table "delay $slow 0 $slow 0 $slow 6000")"
	sync $vol &
	flusher=$!
	sleep 3
	msg hydrate start
	within 20 left_is 0
	if wait $flusher; then
		echo "the flush did not fail"
		return 1
	fi
	# What comes to it after that is well again: the commit's own flush, if it is not late.
	reload rdt-x "0 8 linear $behind 0"
	within 10 left_is $((0x320))
	within 60 hydrate_is off
	reads 0 128 "p800,80"
	reads 4096 8 "p1800,8"
	dm remove rdt-v
	dm remove rdt-b
	dm remove rdt-x
}

# lose_cache: the base, a judge, fails a flush, forgets some of what was not flushed, and
# goes on.
lose_cache() {
	dm message rdt-b "fail-writes on"
	! sync $vol 2>/dev/null || is "a flush" "has succeeded" "fails"
	dm message rdt-b "fail-writes off"
	within 10 mode_is rw
}

# parts FIRST LETTER: 3 sectors of every other block, of 32 from sector FIRST on.
parts() {
	local at
	for ((at = $1; at < $1 + 512; at += 16)); do
		writes $((at + 2)) 3 $2 || return
	done
}

# nothing_of_base FIRST: what they leave is not what the base held before.
nothing_of_base() {
	dm read $vol $1 512
	[[ \;$reply != *\;b* ]] || is "sectors from $1 on" "$reply" "none of the base's own"
}

@test "a part of a block is written, and the base loses its cache: the rest is as it was" {
	has_target judge || insmod /revdedup/modules/dm-judge.ko
	make rdt-b "0 $vol_sectors judge /dev/ram0 base"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,200,p0;200,40,z"
	snapshot
	parts 0 w
	parts 0 x
	lose_cache
	nothing_of_base 0
	# Else there was nothing to lose.
	[[ $reply == *w* ]] || is "what was not flushed" "$reply" "lost"
	parts 4096 w
	parts 4096 x
	lose_cache
	nothing_of_base 4096
	# Where hydration has copied them.
	msg hydrate start
	within 20 left_is 0
	parts 1024 w
	parts 1024 x
	lose_cache
	nothing_of_base 1024
	within 40 hydrate_is off
	nothing_of_base 1024
	dm remove rdt-v
	dm remove rdt-b
}

@test "more I/O at a time than there are pages gets on" {
	local segs=700 disk=$BATS_TEST_TMPDIR/disk
	truncate -s 16M "$disk"
	/revdedup/bin/pattern print pages $((segs * 512)) $((pool_sectors / 8)) |
		/revdedup/tools/revdedup-meta --sectors $((segs * seg_sectors)) make "$disk" -
	make rdt-v "0 $((segs * seg_sectors)) revdedup - $(loopdev "$disk") $pool 2 cache_mib 1" ro
	timeout 100 fio --name=many --filename=$vol --readonly --rw=randread --bs=4k --direct=1 \
		--ioengine=libaio --iodepth=700 --number_ios=4000 >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- || {
		cat "$BATS_TEST_TMPDIR/fio"
		return 1
	}
	dm remove rdt-v
}

@test "a part of a block of zeros is written while a snapshot comes to the base" {
	local ground writer
	ground=$(loop_of $vol_sectors disk)
	make rdt-real "0 $vol_sectors linear $ground 0"
	make rdt-b "0 $vol_sectors linear $ground 0"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,z"
	snapshot
	writes 80 8
	dm suspend rdt-b
	# What it leaves of its block is made zeros by a request that waits there, and
	# then nobody takes it.
	dd if=/dev/zero bs=512 count=1 status=none | tr '\0' x |
		dd of=$vol bs=512 seek=3 oflag=direct status=none 3>&- &
	writer=$!
	sleep 1
	load_table rdt-b rw "0 $vol_sectors snapshot-origin /dev/mapper/rdt-real"
	dm resume rdt-b
	wait $writer
	places_are 0 2 "0,1,b;1,1,z"
	[ "$(dd if=$vol bs=512 count=8 iflag=direct status=none | tr -d '\0')" = "$(printf 'x%.0s' {1..512})" ]
	dm remove rdt-v
	dm remove rdt-b
	dm remove rdt-real
}

@test "a table line that cannot be resumed is no danger to messages" {
	vol_create
	batch "0,10,p100"
	writes 0 64
	writes 64 64
	within 10 counts 16384 0 0
	vol_remove
	vol_create
	# All is home, and so it need not have the pool.
	load_table rdt-v rw "0 $vol_sectors revdedup $base $meta -"
	msg watch 0,1
	msg alias 0,1,p7
	dm suspend rdt-v
	refused "No such device" "give the pool device" dm resume rdt-v
	dm remove rdt-p
	refused "Operation not supported" "there is no remap table" msg punch 0,1
	make rdt-p "0 $pool_sectors linear /dev/ram2 0"
	vol_reload
	reads 0 8 "p38,8"
}

# --- hydration

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
	batch "0,800,p0;800,800,p0"
	snapshot
	msg hydrate start 1
	hydrate_is on
	vol_reload
	hydrate_is on
	within 10 left_is_less 4096
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
	[ "$left" -gt 0 ] && [ "$left" -lt 4096 ]
	within 10 left_is_less $left
	msg hydrate stop
	hydrate_is off
	vol_remove
	vol_create
	hydrate_is off
	left_is 0
	[ "${field[8]}" -gt 0 ]
	reads 0 32768 "p0,4000;p0,4000"
	msg hydrate start
	within 30 hydrate_is off
	reads 0 32768 "p0,4000;p0,4000"
	places_are 0 16384 "0,4000,b"
}

left_is_less() {
	status
	[ "${field[9]}" -lt $1 ] && return
	is "hydration left" "${field[9]}" "< $1"
}

@test "hydration: a table that is behind what was copied" {
	vol_create
	batch "0,400,p0"
	msg hydrate start 1
	within 10 left_is_less 1024
	dm suspend rdt-v
	save_meta
	dm resume rdt-v
	within 10 left_is_less 700
	vol_remove
	restore_meta
	vol_create
	hydrate_is on
	left_is_less 1024
	reads 0 8192 "p0,2000"
	msg hydrate start
	within 30 hydrate_is off
	reads 0 8192 "p0,2000"
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

# --- uses

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

# --- sizes

@test "a volume grows: new blocks are on the base; what is cut off is forgotten" {
	vol_create $((4 * seg_sectors))
	batch "0,800,p0"
	snapshot
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
	disk_sectors=$vol_sectors
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

# --- the cache

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
