#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The remap table: what each message does, and which are refused.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

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
	disk_places_are 0 4 "0,1,p201;1,1,p201;2,2,p302"
	dirty_is "-"
	# On a suspended device as well.
	dm suspend rdt-v
	msg remap 0,1,p201,p200
	dm resume rdt-v
	places_are 0 1 "0,1,p200"
	# Over the end of a segment.
	batch "7f0,20,p10"
	msg remap 7fe,4,p1e,p600
	places_are 2032 32 "7f0,e,p10;7fe,4,p600;802,e,p22"
}

# Reads that it was to wait for are in the other phase then (see flight.c).
@test "a settle that was interrupted is made up for by the next one" {
	local reader asker old=$BATS_TEST_TMPDIR/old new=$BATS_TEST_TMPDIR/new
	vol_create
	batch "0,10,p100"
	dd if=$pool bs=4096 skip=256 count=1 iflag=direct of="$old" status=none
	# It reads after 8 s.
	reload rdt-p "0 $pool_sectors delay /dev/ram2 0 8000 /dev/ram2 0 0"
	dd if=$vol bs=4096 count=1 iflag=direct of="$new" status=none 3>&- &
	reader=$!
	within 5 in_flight $vol
	dmsetup message rdt-v 0 "remap 0,1,p100,p200" 3>&- &
	asker=$!
	sleep 1
	kill $asker
	wait $asker || :
	msg remap 0,1,p100,p200
	# So the old place is free.
	dm fill /dev/ram2 $((256 * 8)) 8 x
	wait $reader
	cmp "$old" "$new"
}

# As io_uring signals to a task that one of its rings was closed.
@test "a message goes on where the program sees no signal" {
	local reader asker
	vol_create
	batch "0,10,p100"
	# It reads when the pool is another device.
	reload rdt-p "0 $pool_sectors delay /dev/ram2 0 90000 /dev/ram2 0 0"
	dd if=$vol bs=4096 count=1 iflag=direct of=/dev/null status=none 3>&- &
	reader=$!
	within 5 in_flight $vol
	dmsetup message rdt-v 0 "remap 0,1,p100,p200" 3>&- &
	asker=$!
	within 30 sleeps $asker
	kill -STOP $asker
	kill -CONT $asker
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	wait $asker
	wait $reader
	places_are 0 16 "0,1,p200;1,f,p101"
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
	local size next found pages first len end
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
	# What is asked for ends where the room does: next is behind what was printed.
	for ((next = 50; next < 200; next++)); do
		dm message rdt-v "table 0 $next" 1400
		IFS=', ' read -r first len _ end <<<"${reply##*;}"
		is "next" "$end" $((0x$first + 0x$len))
	done
	[ "$end" -lt 199 ]
}

@test "the table of a part of the pool" {
	vol_create
	# A word of the pool, one of zeros, a page, and the base.
	batch "0,200,p200;200,200,z;400,3,p3fe;404,1,z;405,2,p3fe;3fff,1,p7ff"
	asked() { msg table "$1" "$2" "$3" "$4" && is "table $*" "$reply" "$5"; }
	asked 0 16384 0 512 "- 16384"
	asked 0 16384 511 1 "- 16384"
	asked 0 16384 512 1 "0,1,p200 16384"
	asked 0 16384 0 513 "0,1,p200 16384"
	asked 0 16384 768 2 "100,2,p300 16384"
	# The last block of the range, of the word, and of the volume.
	asked 0 16384 1021 2 "1fd,2,p3fd;400,1,p3fe;405,1,p3fe 16384"
	asked 0 16384 1023 1 "1ff,1,p3ff;401,1,p3ff;406,1,p3ff 16384"
	asked 0 16384 1024 1 "402,1,p400 16384"
	asked 0 16384 2047 1 "3fff,1,p7ff 16384"
	asked 0 16384 2048 1 "- 16384"
	asked 0 16384 0 18446744073709551615 \
		"0,200,p200;400,3,p3fe;405,2,p3fe;3fff,1,p7ff 16384"
	asked 0 16384 1025 18446744073709551615 "3fff,1,p7ff 16384"
	asked 0 16384 18446744073709551615 18446744073709551615 "- 16384"
	asked 0 16384 512 0 "- 16384"
	# Blocks of the volume: some, none.
	asked 1 256 512 512 "1,100,p201 257"
	asked 511 515 1022 1 "400,1,p3fe 1026"
	asked 16384 1 0 2048 "- 16384"
	asked 0 0 0 2048 "- 0"
	# A block that has come home is in no part.
	writes 8200 8
	asked 0 16384 1023 1 "1ff,1,p3ff;406,1,p3ff 16384"
	# A device that reads the page anew.
	vol_remove
	vol_create
	asked 0 16384 1022 2 "1fe,2,p3fe;400,1,p3fe;405,2,p3fe 16384"
}

# One of 512 segments has blocks there, and then others get some.
@test "the table of a part of the pool, of a volume with many segments" {
	many_segs 2000
	vol_create $((1500 * seg_sectors))
	asked() { msg table 0 4294967296 "$1" "$2" && is "table $*" "$reply" "$3"; }
	asked 0 2048 "- 768000"
	# A segment of the second 512 as one word, a block of the third.
	batch "80000,200,p200;ba000,1,p5"
	asked 0 2048 "80000,200,p200;ba000,1,p5 768000"
	vol_remove
	vol_create $((1500 * seg_sectors))
	asked 0 2048 "80000,200,p200;ba000,1,p5 768000"
	asked 5 1 "ba000,1,p5 768000"
	batch "1,1,p6"
	vol_reload $((2000 * seg_sectors))
	asked 0 2048 "1,1,p6;80000,200,p200;ba000,1,p5 1024000"
	batch "f9fff,1,p7"
	asked 0 16 "1,1,p6;ba000,1,p5;f9fff,1,p7 1024000"
	vol_reload $((1030 * seg_sectors))
	asked 0 2048 "1,1,p6;80000,200,p200 527360"
}

@test "the table of a part of the pool, in several answers" {
	local size next all
	vol_create
	many_ranges 950 2 77
	batch "$ranges"
	for size in 16384 1400; do
		next=0 all=''
		while [ "$next" -lt 16384 ]; do
			dm message rdt-v "table $next $((16384 - next)) 5 50" $size
			[ "${reply##* }" -gt "$next" ] || return
			next=${reply##* }
			[ "${reply% *}" = - ] || all+=${all:+;}${reply% *}
		done
		want=$(tr ';' '\n' <<<"$ranges" |
			awk -Fp '{ n = $2 } length(n) == 1 ? n >= "5" : n < "37"' | paste -sd ';')
		[ "$all" = "$want" ] || is "ranges" "${all:0:200}..." "${want:0:200}..."
	done
}

# The guest's pages stay in memory, of which there is a quarter of what the table has.
@test "to ask for a part of the pool leaves pages where I/O needs them" {
	local segs=400 before
	many_segs $segs
	vol_create $((segs * seg_sectors)) cache_mib 1
	many_ranges $segs 512 2048
	batch "$ranges"
	vol_remove
	vol_create $((segs * seg_sectors)) cache_mib 1
	hot() {
		local i
		for ((i = 0; i < 100; i++)); do
			reads $((i * 4096 + 8)) 8 "z,8" || return
		done
	}
	hot
	hot
	status
	is "page reads" "${field[14]}" 100
	msg table 0 $((segs * 512)) 2000 1
	is "none" "$reply" "- $((segs * 512))"
	status
	before=${field[14]}
	[ "$before" -ge $segs ] || is "page reads" "$before" ">= $segs"
	hot
	status
	echo "# $((before - 100)) pages read by the scan, $((field[14] - before)) again" >&3
	[ $((field[14] - before)) -le 10 ] || is "read again" "${field[14]}" "$before"
}

# base_flushes: so many have come to the base, a judge.
base_flushes() { dm status rdt-b && read -r _ _ _ reply _ <<<"$reply"; }

@test "table settles where something has changed, and costs no flush else" {
	local before
	judge_base
	vol_create
	batch "0,10,p100"
	# The batch has queued a write-back for a second later, and a table that is loaded has none.
	vol_remove
	vol_create
	places_are 0 16 "0,10,p100"
	base_flushes
	before=$reply
	places_are 0 16 "0,10,p100"
	msg table 0 16384 0 100
	base_flushes
	is "flushes of the base" "$reply" "$before"
	writes 0 8
	places_are 0 16 "0,1,b;1,f,p101"
	base_flushes
	[ "$reply" -gt "$before" ] || is "flushes of the base" "$reply" "> $before"
	disk_places_are 0 16 "0,1,b;1,f,p101"
	dm remove rdt-v
	dm remove rdt-b
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
	msg watch 1 "0,8"
	writes 8 1
	blkdiscard -z -o $((2 * 4096)) -l 4096 $vol
	msg alias 1 "0,8,p200"
	# It is stable, before anybody asks.
	disk_places_are 0 4 "0,1,p200;1,2,b;3,1,p203"
	places_are 0 10 "0,1,p200;1,2,b;3,5,p203;8,2,p100"
	# Marks are used up.
	writes 24 8
	msg alias 1 "0,8,p300"
	places_are 0 8 "0,1,p200;1,3,b;4,4,p204"
	# Neither what is not on the base, nor what is not marked, nor without all.
	msg watch 1 "0,8"
	msg alias 1 "4,8,z"
	places_are 4 8 "4,4,p204;8,2,p100;a,2,b"
	msg alias 1 "1,1,z"
	places_are 0 3 "0,1,p200;1,1,z;2,1,b"
	msg watch -
	refused "Stale file handle" "no marks have the token 1" msg alias 1 "2,2,p700"
	places_are 2 2 "2,2,b"
	# Several, also across segments.
	msg watch 1 "200,2;3ff,3;20,1"
	writes $((512 * 8)) 8
	msg alias 1 "200,1,p1;201,1,p2;3ff,3,p700"
	places_are 512 2 "200,1,b;201,1,p2"
	places_are 1023 3 "3ff,3,p700"
}

@test "watch: a discard is a write, a read is none" {
	vol_create
	writes 0 64
	msg watch 1 0,8
	reads 0 64 "w0,40"
	blkdiscard -o 8192 -l 4096 $vol
	msg alias 1 0,8,p100
	if [ "$(cat /sys/block/ram0/queue/discard_max_bytes)" -gt 0 ]; then
		places_are 0 8 "0,2,p100;2,1,b;3,5,p103"
	else
		# What the base does not take changes nothing.
		places_are 0 8 "0,8,p100"
	fi
}

@test "watch: a discard of several segments clears the marks in each" {
	judge_base
	vol_create
	msg watch 1 "1fe,2;200,200;400,4"
	blkdiscard -o $((0x1fe * 4096)) -l $((0x204 * 4096)) $vol
	msg alias 1 "1fe,2,p0;200,200,p200;400,4,p400"
	places_are 510 518 "1fe,204,b;402,2,p402"
	# Also where it begins in one that has none.
	msg watch 2 800,4
	blkdiscard -o $((0x7fe * 4096)) -l 16384 $vol
	msg alias 2 800,4,z
	places_are 2046 6 "7fe,4,b;802,2,z"
	dm remove rdt-v
	dm remove rdt-b
}

@test "marks belong to a token, and a resume removes them" {
	vol_create
	writes 0 64
	msg watch 1 0,8
	# It has read what the block was before; the other one has seen the write.
	writes 8 8 x
	msg watch 2 0,8
	refused "Stale file handle" "no marks have the token 1" msg alias 1 0,8,p100
	places_are 0 8 "0,8,b"
	msg alias 2 0,4,p100
	places_are 0 8 "0,4,p100;4,4,b"
	# The same token again adds to what it has.
	msg watch 2 10,2
	msg alias 2 "4,2,p104;10,1,p110"
	places_are 0 17 "0,6,p100;6,a,b;10,1,p110"
	msg watch 3 30,4
	msg alias 3 "6,2,z;10,2,z"
	places_are 0 17 "0,6,p100;6,a,b;10,1,p110"
	msg watch -
	refused "Stale file handle" "no marks have the token 3" msg alias 3 30,1,z
	msg watch 3 6,2
	dm suspend rdt-v
	dm resume rdt-v
	refused "Stale file handle" "no marks have the token 3" msg alias 3 6,2,z
	places_are 6 2 "6,2,b"
}

@test "a segment that is aliased whole is a word: reading it reads no page" {
	local before
	vol_create
	msg watch 1 "0,200;200,200;400,200;600,200"
	# One block less, and one that was written to: the first, the last.
	writes 8192 8
	writes $((0x7ff * 8)) 8
	msg alias 1 "0,200,p0;200,1ff,p200;400,200,p400;600,200,p600"
	places_are 0 2048 "0,3ff,p0;3ff,2,b;401,3fe,p401;7ff,1,b"
	disk_places_are 0 2048 "0,3ff,p0;3ff,2,b;401,3fe,p401;7ff,1,b"
	vol_remove
	vol_create
	page_reads
	before=$reply
	reads 0 4096 "p0,1000"
	page_reads
	is "pages read for the first segment" "$((reply - before))" 0
	reads 4096 8 "p1000,8"
	page_reads
	is "pages read for the second" "$((reply - before))" 1
	# The last segment may be a part of one.
	vol_remove
	dm zero $meta 0 $((meta_sectors * 512))
	vol_create 4100
	msg watch 1 200,1
	msg alias 1 200,1,p7
	places_are 512 1 "200,1,p7"
	reads 4096 4 "p38,4"
}

@test "an alias that takes nothing leaves a linear table" {
	vol_create
	msg watch 1 0,8
	writes 0 64
	msg alias 1 0,8,p100
	places_are 0 8 "0,8,b"
	within 10 env_pool_none vol_reload
	# Nor does one that has failed, once all is home.
	vol_reload
	msg watch 1 0,8
	page_at 0
	meta_set dead $page_at 8
	refused "Input/output error" "" msg alias 1 0,8,p100
	meta_set ok
	within 10 mode_is rw
	writes 0 64
	dm suspend rdt-v
	dm resume rdt-v
	env_pool_none vol_reload
}

# page_each COUNT: every segment has a page, in $ranges a block of each; in $first those
# of the first 30.
page_each() {
	local i range
	ranges='' first=''
	for ((i = 0; i < $1; i++)); do
		printf -v range '%x,1' $((i * 512 + 1))
		ranges+=";$range,p7"
		[ $i -ge 30 ] || first+=";$range"
	done
	ranges=${ranges#;} first=${first#;}
	ranges=${ranges//1,1,p7/0,1,p7}
}

@test "first writes and status do not wait for an alias that reads pages" {
	local segs=400 aliaser i
	many_segs $segs
	vol_create $((segs * seg_sectors)) cache_mib 1
	page_each $segs
	batch "$ranges"
	snapshot
	msg watch 1 "$first"
	# The pages of these segments go, and are slow to come.
	for ((i = 30; i < segs; i++)); do
		reads $((i * seg_sectors)) 8 "p38,8"
	done
	reload rdt-m "0 $meta_sectors delay $meta_ground 0 3000 $meta_ground 0 0"
	page_reads
	dmsetup message rdt-v 0 "alias 1 ${first//,1/,1,z}" 3>&- &
	aliaser=$!
	within 30 reads_more $reply
	poke 35
	status
	is "dirty segments" "${field[f_dirty]}" "1/$segs"
	kill -0 $aliaser || is "alias" "has ended" "reads pages"
	meta_set ok
	wait $aliaser
	places_are 0 3 "0,1,p7;1,1,z;2,1,b"
}

# in_vain COMMAND MESSAGE: COMMAND, for which the guest waits, comes while the message reads pages,
# and ends it. What it said is in $out.
in_vain() {
	local asker
	page_reads
	dmsetup message rdt-v 0 "$2" 3>&- >"$BATS_TEST_TMPDIR/out" 2>&1 &
	asker=$!
	within 60 reads_more $reply
	dm $1 rdt-v
	wait $asker || :
	out=$(<"$BATS_TEST_TMPDIR/out")
}

is_busy() { [[ $out == *busy* ]] || is "what the message said" "$out" "busy"; }

@test "no message that looks at many pages holds up a suspend or a resume" {
	local segs=300 i marks='' zeros='' out
	many_segs $segs
	vol_create $((segs * seg_sectors)) cache_mib 1
	many_ranges $segs 512 2048
	batch "$ranges"
	for ((i = 1; i < segs * 512; i += 512)); do
		printf -v out ';%x,1' $i
		marks+=$out zeros+=$out,z
	done
	msg watch 1 "${marks#;}"
	# Half a minute for all of them.
	reload rdt-m "0 $meta_sectors delay $meta_ground 0 100 $meta_ground 0 0"
	in_vain suspend "table 0 $((segs * 512))"
	[ "${out##* }" -lt $((segs * 512)) ] || is "next" "${out##* }" "less than all"
	[[ $out == 0,1,p0\;1,1ff,b* ]] || is "answer" "$out" "0,1,p0;1,1ff,b..."
	in_vain resume "remap $moves"
	is_busy
	in_vain suspend "remap $moves"
	is_busy
	dm resume rdt-v
	msg watch 1 1,1
	in_vain suspend "watch 1 ${marks#;}"
	is_busy
	dm resume rdt-v
	# What it has marked counts for nothing.
	refused "Stale file handle" "no marks have the token 1" msg alias 1 1,1,z
	meta_set ok
	msg watch 1 "${marks#;}"
	reload rdt-m "0 $meta_sectors delay $meta_ground 0 100 $meta_ground 0 0"
	in_vain suspend "alias 1 ${zeros#;}"
	is_busy
	dm resume rdt-v
	# They do the rest when they are sent again.
	meta_set ok
	msg remap "$moves"
	msg watch 1 "${marks#;}"
	msg alias 1 "${zeros#;}"
	counts $((segs * 510)) $((segs * 2)) 0
}

# sleeps PID: it waits for something that a signal ends.
sleeps() { [[ $(<"/proc/$1/stat") == *"(dmsetup) S "* ]]; }

@test "table looks at something while a suspend waits" {
	local writer suspender answer
	make rdt-b "0 $vol_sectors linear /dev/ram0 0"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,1,p7;200,1,p7;400,1,p7"
	vol_remove
	vol_create
	# A write waits for the next reload, and the suspend for the write.
	reload rdt-b "0 $vol_sectors delay /dev/ram0 0 0 /dev/ram0 0 90000 /dev/ram0 0 0"
	slow_poke 20 3>&- &
	writer=$!
	within 30 in_flight $vol
	dmsetup suspend rdt-v 3>&- &
	suspender=$!
	within 30 sleeps $suspender
	msg table 0 1536
	answer=$reply
	reload rdt-b "0 $vol_sectors linear /dev/ram0 0"
	wait $suspender
	wait $writer
	dm resume rdt-v
	is "answer" "$answer" "0,1,p7;1,1ff,b 512"
	places_are 0 1536 "0,1,p7;1,1ff,b;200,1,p7;201,1ff,b;400,1,p7;401,1ff,b"
	dm remove rdt-v
	dm remove rdt-b
}

@test "an interrupted watch leaves no token: a write that it did not wait for may come" {
	local writer watcher
	make rdt-b "0 $vol_sectors linear /dev/ram0 0"
	base=/dev/mapper/rdt-b
	vol_create
	msg watch 1 10,2
	# Writes wait for the next reload, flushes do not.
	reload rdt-b "0 $vol_sectors delay /dev/ram0 0 0 /dev/ram0 0 90000 /dev/ram0 0 0"
	dd if=/dev/zero bs=4096 count=1 status=none | tr '\0' x |
		dd of=$vol bs=4096 count=1 oflag=direct status=none 3>&- &
	writer=$!
	within 30 in_flight $vol
	dmsetup message rdt-v 0 "watch 1 0,1" 3>&- &
	watcher=$!
	within 30 sleeps $watcher
	kill $watcher
	wait $watcher || :
	refused "Stale file handle" "no marks have the token 1" msg alias 1 0,1,z
	reload rdt-b "0 $vol_sectors linear /dev/ram0 0"
	wait $writer
	[ "$(dd if=$vol bs=4096 count=1 iflag=direct status=none | tr -d x | wc -c)" -eq 0 ]
	# Sent again, as the kernel does by itself, it keeps the marks of those before.
	msg watch 1 20,1
	msg alias 1 "10,2,z;20,1,z"
	places_are 16 17 "10,2,z;12,e,b;20,1,z"
	dm remove rdt-v
	dm remove rdt-b
}

@test "watch: the marks are in so many segments" {
	local segs=4100 last
	printf -v last %x $((4096 * 512))
	many_segs $segs
	vol_create $((segs * seg_sectors))
	msg watch 1 0,$last
	refused "No space left on device" "no more than 4096 segments" \
		msg watch 1 $last,1
	msg watch 1 0,200
	msg watch -
	msg watch 1 $last,1
	msg alias 1 $last,1,p7
	places_are $((4096 * 512)) 1 "200000,1,p7"
	# Not those of which alias has used up all marks.
	msg watch 1 0,$last
	msg alias 1 0,$last,z
	msg watch 1 $last,2
}

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
		Invalid argument|table 0 1 2|table takes 2 or 4 arguments, not 3
		Invalid argument|table 0 1 2 3 4|table takes 4 arguments, not 5
		Invalid argument|table 0 1 x 1|'x' is not a decimal number
		Invalid argument|table 0 1 0 -1|'-1' is not a decimal number
		Invalid argument|table 16385 1 0 1|the volume has 16384 blocks only
		Invalid argument|table x 1|'x' is not a decimal number
		Invalid argument|table 0 -1|'-1' is not a decimal number
		Invalid argument|table 0x0 1|'0x0' is not a decimal number
		Invalid argument|table 16385 1|the volume has 16384 blocks only
		Invalid argument|watch|watch takes 1 arguments, not 0
		Invalid argument|watch 0,1|use <token> <ranges> or -
		Invalid argument|watch 0 0,1|a token cannot be 0
		Invalid argument|watch x 0,1|'x' is not a decimal number
		Invalid argument|watch 1 0|not ranges
		Invalid argument|watch 1 0,1,b|not ranges
		Invalid argument|watch 1 0,1;4000,1|not ranges
		Invalid argument|watch -,|use <token> <ranges> or -
		Invalid argument|watch 1 -|not ranges
		Invalid argument|watch 1 0,1 1,1|watch takes 2 arguments, not 3
		Invalid argument|alias|alias takes 2 arguments, not 0
		Invalid argument|alias 1|alias takes 2 arguments, not 1
		Invalid argument|alias 0 30,1,z|a token cannot be 0
		Invalid argument|alias -1 30,1,z|'-1' is not a decimal number
		Invalid argument|alias 1 0,1|not ranges
		Invalid argument|alias 1 0,1,b|the new place is z or in the pool
		Invalid argument|alias 1 30,1,z;31,1,b|the new place is z or in the pool
		Invalid argument|alias 1 -|not ranges
		Numerical result out of range|alias 1 30,1,p800|not within the 2048 blocks of the pool
		Stale file handle|alias 1 30,1,z|no marks have the token 1
		Invalid argument|shed|shed takes 1 arguments, not 0
		Invalid argument|shed 0|not ranges
		Invalid argument|shed 0,1,z|not ranges
		Invalid argument|shed 4000,1|not ranges
		Invalid argument|shed 0,1 zero|use <ranges> or <ranges> zeroed
		Invalid argument|shed 0,1 zeroed 1|shed takes 2 arguments, not 3
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
	for message in "remap 0,1,p100,p200" "remap 0,1,p300,p200" "watch 1 20,1" \
		"alias 1 20,1,z" "shed 0,20" "shed 0,20 zeroed" "hydrate start" "hydrate stop"; do
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
		Invalid argument|/dev/ram0 META META|metadata must not lie on the pool device
		Invalid argument|/dev/ram0 META POOL 2 cache_mib 0|cache_mib and pack_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 cache_mib -1|cache_mib and pack_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 cache_mib 1M|cache_mib and pack_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 cache_mib 18446744073709551616|cache_mib and pack_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 4 cache_mib 1 cache_mib 1|an option is given twice
		Invalid argument|/dev/ram0 META POOL 2 pack_mib 0|cache_mib and pack_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 2 pack_mib 65537|cache_mib and pack_mib must be 1 to
		Invalid argument|/dev/ram0 META POOL 4 pack_mib 1 pack_mib 1|an option is given twice
		Invalid argument|/dev/ram0 META POOL 1 cache_mib|options are
		Invalid argument|/dev/ram0 META POOL 2 zeros zero|options are
		Invalid argument|/dev/ram0 META POOL 2 zeros zeros|an option is given twice
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
