#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The remap table: damage of it, and errors of the devices below.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

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

# A device reports once that it has lost its cache, and whoever hears of it cannot know whose
# writes were in it.
@test "a flush of the metadata that fails for another thread may have lost the table, too" {
	local writer asker slow
	dm remove rdt-m
	# A RAM disk has no cache, and so no flush comes to it.
	meta_ground=$(loop_of $meta_sectors meta-ground)
	make rdt-d "0 $meta_sectors linear $meta_ground 0"
	make rdt-m "0 $meta_sectors linear /dev/mapper/rdt-d 0"
	vol_create
	batch "0,10,p100"
	snapshot
	writes 0 8
	sync $vol
	# The page's write waits until the next reload, and flushes fail until then.
	page_at 0
	slow="$meta_ground $page_at"
	reload rdt-d "0 $page_at linear $meta_ground 0
$page_at 8 delay $slow 0 $slow 90000 $slow 0
$((page_at + 8)) $((meta_sectors - page_at - 8)) \
flakey $meta_ground $((page_at + 8)) 0 3600 1 error_writes"
	log_begin
	dmsetup message rdt-v 0 "remap 1,1,p101,p201" 3>&- &
	asker=$!
	within 20 in_flight $meta
	slow_poke 5 3>&- &
	writer=$!
	within 20 tracking_is lost
	reload rdt-d "0 $meta_sectors linear $meta_ground 0"
	if wait $asker; then
		echo "the remap has succeeded"
		return 1
	fi
	said "cannot write the remap table: error -5"
	wait $writer
	within 20 mode_is rw
	within 20 tracking_is ok
	disk_places_are 0 3 "0,1,b;1,1,p201;2,1,p102"
	dm remove rdt-v
	dm remove rdt-m
	dm remove rdt-d
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

@test "more I/O at a time than there are pages gets on" {
	local segs=700 disk=$BATS_TEST_TMPDIR/disk
	truncate -s 16M "$disk"
	/revdedup/bin/pattern print pages $((segs * 512)) $((pool_sectors / 8)) |
		/revdedup/tools/revdedup-meta --sectors $((segs * seg_sectors)) make "$disk" -
	make rdt-v "0 $((segs * seg_sectors)) revdedup - $(loopdev "$disk") $pool 2 cache_mib 1" ro
	timeout 1000 fio --name=many --filename=$vol --readonly --rw=randread --bs=4k --direct=1 \
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
	msg watch 1 0,1
	msg alias 1 0,1,p7
	dm suspend rdt-v
	refused "No such device" "give the pool device" dm resume rdt-v
	dm remove rdt-p
	refused "Operation not supported" "there is no remap table" msg shed 0,1
	make rdt-p "0 $pool_sectors linear /dev/ram2 0"
	vol_reload
	reads 0 8 "p38,8"
}

# --- between the load of a table line and its use

# new_base NAME: the next table line has this base, which holds what the last one does.
new_base() {
	base=/dev/mapper/rdt-$1
	make rdt-$1 "0 $vol_sectors linear /dev/ram0 0"
}

# let_go NAME: nothing has the device any more, and the target does not flush it either, as
# it does at once for a checkpoint (which is refused where metadata cannot be written).
let_go() {
	dm remove rdt-$1 && status || return
	! msg checkpoint $((field[f_epoch] + 1)) || msg abort $((field[f_epoch] + 1))
}

# Ways for a resume to be refused. Each has a volume with table line of base a, and loads one
# with base c; the pool and the metadata can be changed meanwhile.
refuse_blocks() {
	local large
	vol_load
	modprobe loop
	truncate -s $((pool_sectors * 512)) "$BATS_TEST_TMPDIR/large"
	large=$(losetup --show --find --sector-size 4096 "$BATS_TEST_TMPDIR/large")
	reload rdt-p "0 $pool_sectors linear $large 0"
	refused "Invalid argument" "larger logical blocks than the base" dm resume rdt-v
}

refuse_pool_gone() {
	env_pool_none vol_load
	msg watch 1 0,1
	msg alias 1 0,1,p7
	refused "No such device" "give the pool device" dm resume rdt-v
}

refuse_linear() {
	base=/dev/mapper/rdt-a env_pool_none vol_reload $vol_sectors zeros
	env_pool_none vol_load
	msg watch 1 0,1
	msg alias 1 0,1,z
	refused "No such device" "load the table line again" dm resume rdt-v
}

refuse_batch() {
	dm suspend rdt-v
	msg begin
	vol_load
	refused "Structure needs cleaning" "repeat the batch" dm resume rdt-v
}

refuse_read_only() {
	base=/dev/mapper/rdt-a vol_reload $((vol_sectors - 8))
	table
	load_table rdt-v ro "$table"
	refused "Read-only file system" "cannot make the volume larger" dm resume rdt-v
}

refuse_size() {
	vol_load $((vol_sectors - 8))
	meta_set nowrite
	refused "Input/output error" "cannot record the new size" dm resume rdt-v
}

# What lets it be resumed again.
mend() {
	meta_set ok
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	[ $1 != batch ] || msg end
}

@test "a refused resume: the target lets go of the devices of the old table line" {
	local why
	for why in blocks pool_gone linear batch read_only size; do
		new_base a
		vol_create
		writes 0 8
		new_base c
		refuse_$why
		let_go a
		# The same line again, another one, none at all, or the end.
		! dm resume rdt-v
		mend $why
		new_base a
		vol_load
		dm clear rdt-v
		vol_reload
		dm remove rdt-c
		writes 8 8
		reads 8 8 "w8,8"
		vol_remove
		dm remove rdt-a
		dm zero $meta 0 $((meta_sectors * 512))
	done
}

@test "a refused resume, and then the end" {
	local why
	for why in blocks pool_gone linear batch read_only size; do
		new_base a
		vol_create
		writes 0 8
		new_base c
		refuse_$why
		dm remove rdt-a
		vol_remove
		dm remove rdt-c
		mend none
		dm zero $meta 0 $((meta_sectors * 512))
	done
}

@test "a table line that is refused, cleared or replaced is not touched any more" {
	new_base a
	vol_create
	batch "0,10,p100"
	new_base c
	# What the constructor has opened by then.
	refused "Invalid argument" "cache_mib and pack_mib must be" vol_load $vol_sectors cache_mib 0
	refused "Invalid argument" "two devices" load_table rdt-v rw \
		"0 $vol_sectors revdedup $base $meta $base"
	refused "Invalid argument" "must not lie on" load_table rdt-v rw \
		"0 $vol_sectors revdedup $base $base $pool"
	refused "No such device" "give the pool device" env_pool_none vol_load
	refused "File too large" "2^32 segments" vol_load $((1 << 45))
	dm remove rdt-c
	writes 0 8
	# Loaded, and then something else comes.
	new_base c
	vol_load
	dm suspend rdt-v
	dm clear rdt-v
	dm remove rdt-c
	msg checkpoint 1
	dm resume rdt-v
	msg abort 1
	writes 8 8
	new_base c
	vol_load
	new_base d
	vol_load
	dm remove rdt-c
	dm suspend rdt-v
	msg checkpoint 2
	dm resume rdt-v
	msg abort 2
	dm remove rdt-a
	reads 0 24 "w0,10;p810,8"
	# And the end with one that was loaded.
	new_base c
	vol_load
	vol_remove
	dm remove rdt-c
	dm remove rdt-d
}

@test "the pool becomes one of larger blocks under a live volume: it goes on" {
	local large
	vol_create
	batch "0,10,p100"
	modprobe loop
	truncate -s $((pool_sectors * 512)) "$BATS_TEST_TMPDIR/large"
	large=$(losetup --show --find --sector-size 4096 "$BATS_TEST_TMPDIR/large")
	dm fill $large 0 $pool_sectors p
	reload rdt-p "0 $pool_sectors linear $large 0"
	log_begin
	dm suspend rdt-v
	dm resume rdt-v
	said "the pool device has larger logical blocks than the base device"
	reads 0 8 "p800,8"
	reads 128 8 "b80,8"
	writes 8 8
	reads 8 16 "w8,8;p810,8"
	checkpoint
	# A line that has not been live is refused, and the same for ever.
	refused "Invalid argument" "larger logical blocks than the base" vol_load
	dm remove rdt-v
}
