#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Space of the base that is given back: what is discarded, what is not, and what waits.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

unit=16			# blocks, which are 128 sectors

# chunked_base: the base discards units of 16 blocks, and only whole ones.
chunked_base() {
	has_target judge || insmod /revdedup/modules/dm-judge.ko
	make rdt-b "0 $vol_sectors judge /dev/ram0 base 2 discard_blocks $unit"
	base=/dev/mapper/rdt-b
	dm fill $base 0 $filled b
}

# base_has FIRST SECTORS WHAT: on the base, past the volume.
base_has() { dm read $base $1 $2 && is "base, sectors $1 to $(($1 + $2))" "$reply" "$3"; }

drop_base() {
	dm remove rdt-v
	dm remove rdt-b
}

# slow_base READ_MS WRITE_MS: the base takes so long, for discards as for writes.
slow_base() {
	chunked_base
	make rdt-s "0 $vol_sectors delay $base 0 $1 $base 0 $2 $base 0 0"
	base=/dev/mapper/rdt-s
}

drop_slow_base() {
	dm remove rdt-v
	dm remove rdt-s
	dm remove rdt-b
}

# discards FIRST BLOCKS: of the volume.
discards() { blkdiscard -o $(($1 * 4096)) -l $(($2 * 4096)) $vol; }

@test "shed discards whole units of which nothing is home" {
	chunked_base
	vol_create
	# Units 0 and 1 are away, 2 in part, 3 to 5 not; then a segment in the pool, one of zeros.
	batch "0,20,p100;20,f,z;200,200,p200;400,200,z"
	snapshot
	msg shed 0,800
	base_has 0 256 "z,100"
	base_has 256 128 "b100,80"
	base_has 4096 8192 "z,2000"
	base_has 12288 128 "b3000,80"
	# The volume is what it was, places are, and nothing is dirty by it.
	reads 0 384 "p800,100;z,78;b178,8"
	reads 4096 4096 "p1000,1000"
	places_are 0 2048 "0,20,p100;20,f,z;2f,1d1,b;200,200,p200;400,200,z;600,200,b"
	dirty_is "-"
	drop_base
}

@test "shed: what a range covers in part stays" {
	chunked_base
	vol_create
	batch "0,100,p100"
	msg shed "1,2f;41,f;51,1e;80,10"
	base_has 0 128 "b0,80"
	base_has 128 256 "z,100"
	base_has 384 256 "b180,100"
	base_has 640 128 "b280,80"
	base_has 768 256 "b300,100"
	base_has 1024 128 "z,80"
	base_has 1152 128 "b480,80"
	drop_base
}

@test "shed: units of several segments" {
	unit=1024 chunked_base
	vol_create
	# The last block of the first one is home.
	batch "0,200,p0;200,1ff,z;400,400,p0"
	msg shed 0,800
	base_has 0 $filled "b0,2000;z,2000"
	drop_base
}

@test "shed leaves alone a unit that the volume ends within, and so does a discard" {
	chunked_base
	vol_create $((4096 + 125))
	batch "200,10,p100"
	msg shed 200,10
	base_has 4096 128 "b1000,80"
	# All of it but the last block, which is not whole, and in the pool.
	batch "208,7,b"
	discards $((0x208)) 7
	base_has 4096 128 "b1000,80"
	drop_base
}

@test "shed leaves alone what is damaged or cannot be read" {
	chunked_base
	vol_create
	batch "0,20,p100;200,20,p200"
	vol_remove
	/revdedup/bin/metaedit $meta entry 3
	vol_create
	page_at 1
	meta_set dead $page_at 8
	msg shed "0,20;200,20"
	base_has 0 256 "b0,80;z,80"
	base_has 4096 256 "b1000,100"
	meta_set ok
	msg shed 200,20
	base_has 4096 256 "z,100"
	drop_base
}

@test "shed and table keep no page that they have read" {
	local reader
	chunked_base
	vol_create
	for reader in "shed 0,20" "table 0 32"; do
		batch "0,20,p100"
		vol_remove
		vol_create
		msg "$reader"
		writes 0 256
		dm suspend rdt-v
		dm resume rdt-v
		# What has become linear needs no pool.
		env_pool_none vol_reload
		vol_reload
	done
	drop_base
}

@test "shed fails where the base fails a discard" {
	chunked_base
	vol_create
	batch "0,20,p100"
	dm message rdt-b "fail-writes on 0 128"
	refused "Input/output error" "" msg shed 0,20
	dm message rdt-b "fail-writes off"
	msg shed 0,20
	base_has 0 256 "z,100"
	drop_base
}

@test "nothing is given back while a copy of the superblock is old" {
	chunked_base
	vol_create
	batch "0,10,p100;18,8,z"
	meta_set dead $((meta_sectors - 8)) 8
	snapshot
	refused "Input/output error" "one copy of the superblock cannot be written" msg shed 0,10
	discards 16 8
	base_has 0 256 "b0,100"
	meta_set ok
	msg shed 0,10
	discards 16 8
	base_has 0 256 "z,100"
	drop_base
}

@test "shed zeroed: zeros are home again, and the table is linear" {
	chunked_base
	vol_create
	batch "0,20,z;200,200,z;400,20,z;410,1,p7"
	snapshot
	msg shed "0,4000 zeroed"
	places_are 0 2048 "0,410,b;410,1,p7;411,3ef,b"
	base_has 0 512 "z,100;b100,100"
	base_has 4096 4096 "z,1000"
	reads 0 512 "z,100;b100,100"
	reads 8192 256 "z,80;p38,8;z,78"
	disk_places_are 0 1536 "0,410,b;410,1,p7;411,1ef,b"
	dirty_is "-"
	# The unit with a block in the pool was given back, too: the rest of it is zeros at home.
	base_has 8192 256 "z,100"
	refused "No such device" "give the pool device" env_pool_none vol_reload
	dm clear rdt-v
	writes $((0x410 * 8)) 8
	within 10 counts 16384 0 0
	# Without a block anywhere else it is linear when the message returns.
	msg watch 1 0,20
	msg alias 1 0,20,z
	counts 16352 32 0
	msg shed 0,20 zeroed
	counts 16384 0 0
	env_pool_none vol_reload
	reads 0 256 "z,100"
	drop_base
}

@test "shed zeroed: zeros among others come home" {
	chunked_base
	vol_create
	batch "0,1,z;1,e,p20;f,1,z;10,10,p40;200,f,p60;20f,1,z"
	msg shed "0,20;200,10 zeroed"
	places_are 0 32 "0,1,b;1,e,p20;f,1,b;10,10,p40"
	places_are 512 16 "200,f,p60;20f,1,b"
	reads 0 256 "z,8;p100,70;z,8;p200,80"
	reads 4096 128 "p300,78;z,8"
	drop_base
}

@test "shed zeroed: a base that takes discards and does nothing has its zeros where they were" {
	chunked_base
	vol_create
	batch "0,20,z;20,20,p100"
	dm message rdt-b "ignore-discards on"
	refused "Input/output error" "does not read zeros where it was discarded" \
		msg shed 0,40 zeroed
	places_are 0 64 "0,20,z;20,20,p100"
	reads 0 512 "z,100;p800,100"
	# It reads all of it.
	dm zero $base 0 65536
	refused "Input/output error" "where it was discarded (sector 128)" msg shed 0,40 zeroed
	places_are 0 64 "0,20,z;20,20,p100"
	# It need not read what is not zeros.
	msg shed 20,20 zeroed
	dm message rdt-b "ignore-discards off"
	msg shed 0,40 zeroed
	places_are 0 64 "0,20,b;20,20,p100"
	reads 0 512 "z,100;p800,100"
	drop_base
}

@test "shed: refused while others use the base, and where it takes no discards" {
	chunked_base
	vol_create
	batch "0,20,p100"
	dm suspend rdt-v
	refused "Device or resource busy" "resume the device first" msg shed 0,20
	dm resume rdt-v
	checkpoint
	refused "Device or resource busy" "a checkpoint waits" msg shed 0,20
	status
	msg commit "${field[f_epoch]}" 1
	# Hydration is on, and cannot get on.
	reload rdt-p "0 $pool_sectors error"
	msg hydrate start
	refused "Device or resource busy" "stop hydration first" msg shed 0,20
	msg hydrate stop
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	base_has 0 256 "b0,100"
	dm message rdt-b "fail-discards on"
	# -EOPNOTSUPP from a device is for the kernel no error of a discard.
	msg shed 0,20 || is "error" "$dm_error" "Operation not supported"
	dm message rdt-b "fail-discards off"
	base_has 0 256 "b0,100"
	drop_base
	make rdt-b "0 $vol_sectors snapshot-origin /dev/ram0"
	vol_create
	refused "Operation not supported" "takes no discards" msg shed 0,20
	drop_base
	# Units that do not begin with the device: parts of them would stay.
	make rdt-j "0 $((vol_sectors - 128)) judge /dev/ram0 base 2 discard_blocks $unit"
	make rdt-b "0 $((vol_sectors - 192)) linear /dev/mapper/rdt-j 64"
	dm zero $meta 0 $((meta_sectors * 512))
	vol_create $((vol_sectors - 192))
	if [ "$(cat "/sys/block/dm-$(dmsetup info -c --noheadings -o minor rdt-b)/discard_alignment")" -gt 0 ]; then
		refused "Operation not supported" "do not begin at its first sector" \
			msg shed 0,20 zeroed
	fi
	drop_base
	dm remove rdt-j
}

# hold_discards, let_go_discards: of the base. (Where dmserve waits, this does not.)
hold_discards() { dm message rdt-b "discard-delay 90000000"; }
let_go_discards() { dmsetup message rdt-b 0 "discard-delay 0"; }

# discard_is_held: one has come to the base.
discard_is_held() { within 30 base_delays; }
base_delays() { dm status rdt-b && is "a delay" "${reply##* }" 1; }

# has_come PID: its write has, or was so quick that it has ended.
has_come() { in_flight $vol || ! kill -0 $1; }

@test "a write that comes home during the discard waits for it, and its data survive" {
	local shedder last
	chunked_base
	vol_create
	batch "0,200,p0;200,200,p200"
	hold_discards
	dmsetup message rdt-v 0 "shed 0,200" 3>&- &
	shedder=$!
	discard_is_held
	# Of another segment they do not wait, and reads do not.
	writes 4096 8
	reads 0 8 "p0,8"
	writes 0 8 &
	writer=$!
	within 30 has_come $writer
	sleep 0.5
	kill -0 $writer || is "the write" "has ended" "waits for the discard"
	let_go_discards
	wait $shedder
	wait $writer
	reads 0 16 "w0,8;p8,8"
	base_has 0 16 "w0,8;z,8"
	# A part of a block as well, for which the rest comes from the pool.
	hold_discards
	dmsetup message rdt-v 0 "shed 10,10" 3>&- &
	shedder=$!
	discard_is_held
	writes 130 2 &
	writer=$!
	# The last block that is discarded. dmserve is with the other write.
	dd if=$pool bs=4096 skip=5 count=1 iflag=direct status=none |
		dd of=$vol bs=4096 seek=31 iflag=fullblock oflag=direct status=none &
	last=$!
	within 30 in_flight $vol 2
	let_go_discards
	wait $shedder
	wait $writer
	wait $last
	reads 128 8 "p80,2;w82,2;p84,4"
	reads 240 16 "pf0,8;p28,8"
	drop_base
}

@test "a suspend does not wait for all of a shed" {
	local shedder
	chunked_base
	vol_create
	batch "0,800,p0;800,800,p0;1000,1000,z"
	# Each of 16.
	dm message rdt-b "discard-delay 3000000"
	dmsetup message rdt-v 0 "shed 0,2000" 3>&- >"$BATS_TEST_TMPDIR/out" 2>&1 &
	shedder=$!
	discard_is_held
	dm suspend rdt-v
	# A checkpoint can come at once.
	status
	msg checkpoint $((field[f_epoch] + 1))
	dm resume rdt-v
	if wait $shedder; then
		echo "the shed was not refused"
		return 1
	fi
	grep "busy" "$BATS_TEST_TMPDIR/out"
	status
	msg commit "${field[f_epoch]}" 1
	dm message rdt-b "discard-delay 0"
	msg shed 0,2000
	base_has 0 $filled "z,4000"
	drop_base
}

@test "a discard from above gives a unit back where it has all that is home of it" {
	chunked_base
	vol_create
	# Of each of these units half is home.
	batch "8,8,p100;18,8,z;28,8,p100;40,1,p100;42,1,p100;44,2,z;46,a,p200;58,8,p100"
	# Both halves; only the half at home; only the other half.
	discards 0 16
	base_has 0 128 "z,80"
	discards 16 8
	base_has 128 128 "z,80"
	discards 40 8
	base_has 256 128 "b100,80"
	# Two runs at home in a unit.
	discards 64 4
	base_has 512 128 "z,80"
	# A block at home that is not discarded: nothing is.
	discards 80 7
	base_has 640 128 "b280,80"
	# The rest is where it was. Of what was discarded the pool's blocks are zeros.
	reads 64 64 "z,40"
	reads $((0x41 * 8)) 64 "z,28;p1000,18"
	places_are 24 8 "18,8,z"
	drop_base
}

@test "a discard from above of which a part fails does not succeed" {
	has_target judge || insmod /revdedup/modules/dm-judge.ko
	make rdt-j "0 $vol_sectors judge /dev/ram0 base 2 discard_blocks $unit"
	make rdt-b "0 $vol_sectors linear /dev/mapper/rdt-j 0"
	base=/dev/mapper/rdt-b
	dm fill $base 0 $filled b
	vol_create
	batch "c,4,p100;18,8,p100"
	# The first unit fails; of the second, which is discarded with what is beside it, nothing does.
	reload rdt-b "0 128 error
128 $((vol_sectors - 128)) linear /dev/mapper/rdt-j 128"
	# Without a look at what the volume holds.
	if blkdiscard -f -l $((24 * 4096)) $vol; then
		echo "the discard has succeeded"
		return 1
	fi
	base_has 128 128 "z,80"
	blkdiscard -f -o 128K -l 64K $vol
	dm remove rdt-v
	dm remove rdt-b
	dm remove rdt-j
}

@test "shed leaves alone what is being written" {
	local shedder
	slow_base 0 3000
	vol_create
	batch "0,10,p0;200,10,p200"
	dmsetup message rdt-v 0 "shed 0,210" 3>&- &
	shedder=$!
	sleep 1
	# It has not come to this segment yet. Its discard there would come behind the write.
	writes 4096 8 &
	writer=$!
	wait $shedder
	wait $writer
	reads 4096 16 "w1000,8;p1008,8"
	base_has 0 128 "z,80"
	drop_slow_base
}

@test "shed waits for what reads the base, also where an alias did not" {
	local reader asker old=$BATS_TEST_TMPDIR/old new=$BATS_TEST_TMPDIR/new
	slow_base 6000 0
	dd if=/dev/mapper/rdt-b bs=4096 count=1 iflag=direct of="$old" status=none
	vol_create
	msg watch 1 0,10
	dd if=$vol bs=4096 count=1 iflag=direct of="$new" status=none 3>&- &
	reader=$!
	within 5 in_flight $vol
	dmsetup message rdt-v 0 "alias 1 0,10,p100" 3>&- &
	asker=$!
	sleep 1
	kill $asker
	wait $asker || :
	msg shed 0,10
	wait $reader
	cmp "$old" "$new"
	drop_slow_base
}

@test "zeros that came home are zeros again where the base loses its cache" {
	local shedder
	chunked_base
	vol_create
	batch "0,40,z"
	hold_discards
	dmsetup message rdt-v 0 "shed 0,40 zeroed" 3>&- >"$BATS_TEST_TMPDIR/out" 2>&1 &
	shedder=$!
	discard_is_held
	dm message rdt-b "fail-flushes on"
	let_go_discards
	if wait $shedder; then
		echo "the shed has succeeded"
		return 1
	fi
	dm message rdt-b "fail-flushes off"
	reads 0 512 "z,200"
	within 10 mode_is rw
	reads 0 512 "z,200"
	places_are 0 64 "0,40,z"
	msg shed 0,40 zeroed
	places_are 0 64 "0,40,b"
	reads 0 512 "z,200"
	drop_base
}

@test "zeros do not come home where the base loses its cache during the discard" {
	local shedder
	chunked_base
	vol_create
	batch "0,40,z"
	hold_discards
	dmsetup message rdt-v 0 "shed 0,40 zeroed" 3>&- &
	shedder=$!
	discard_is_held
	dm message rdt-b "fail-flushes on"
	run ! sync $vol
	dm message rdt-b "fail-flushes off"
	let_go_discards
	if wait $shedder; then
		echo "the shed has succeeded"
		return 1
	fi
	places_are 0 64 "0,40,z"
	reads 0 512 "z,200"
	drop_base
}

@test "a discard from above leaves what an alias has not made stable" {
	chunked_base
	vol_create
	batch "100,1,p7"
	msg watch 1 0,8
	meta_set nowrite
	if msg alias 1 0,8,p0; then
		echo "the alias has succeeded"
		return 1
	fi
	# A crash now leaves blocks 0 to 7 on the base.
	discards 8 8
	base_has 0 64 "b0,40"
	meta_set ok
	within 10 mode_is rw
	msg table 0 1
	discards 8 8
	base_has 0 128 "z,80"
	drop_base
}

@test "hydration copies nothing that is being discarded with what is beside it" {
	local discarder
	chunked_base
	vol_create
	batch "0,8,p0"
	hold_discards
	discards 8 8 &
	discarder=$!
	discard_is_held
	msg hydrate start
	sleep 0.5
	left_is 8
	let_go_discards
	wait $discarder
	within 20 hydrate_is off
	reads 0 128 "p0,40;z,40"
	base_has 0 128 "p0,40;z,40"
	drop_base
}

# zeros_table: the volume has no pool, and a remap table.
zeros_table() { table="0 $vol_sectors revdedup $base $meta - 1 zeros"; }

@test "zeros need no pool" {
	chunked_base
	zeros_table
	make rdt-v "$table"
	dm table rdt-v
	[[ $reply == *" - 1 zeros" ]] || is "table" "$reply" "- 1 zeros"
	dm zero $base 0 $((64 * 4096))
	msg watch 1 0,40
	refused "Numerical result out of range" "not within the 0 blocks" msg alias 1 0,8,p0
	writes 8 8
	msg alias 1 0,40,z
	places_are 0 64 "0,1,z;1,1,b;2,3e,z"
	refused "Numerical result out of range" "" msg remap 0,1,z,p1
	reads 0 512 "z,8;w8,8;z,1f0"
	msg shed 0,20
	# It lies on no pool, and so can be set up without one, with no word of zeros.
	vol_remove
	env_pool_none vol_create
	places_are 0 64 "0,1,z;1,1,b;2,3e,z"
	writes 16 8
	sync $vol
	vol_remove
	zeros_table
	make rdt-v "$table"
	places_are 0 64 "0,1,z;1,2,b;3,3d,z"
	msg shed 0,40 zeroed
	places_are 0 64 "0,1,z;1,2,b;3,d,z;10,30,b"
	reads 0 512 "z,8;w8,10;z,1e8"
	# With a pool it may have blocks there, once a message came.
	vol_reload
	places_are 0 1 "0,1,z"
	refused "No such device" "give the pool device" env_pool_none vol_reload
	dm clear rdt-v
	drop_base
}

@test "zeros need no pool: a pool that came, and was used, is needed" {
	chunked_base
	zeros_table
	make rdt-v "$table"
	dm zero $base 0 65536
	msg watch 1 0,10
	msg alias 1 0,10,z
	vol_reload
	msg remap 0,1,z,p7
	vol_remove
	refused "No such device" "give the pool device" env_pool_none vol_create
	zeros_table
	refused "No such device" "give the pool device" make rdt-v "$table"
	vol_create
	reads 0 16 "p38,8;z,8"
	drop_base
}

@test "zeros need no pool: a table line from before there were any is refused, and again" {
	chunked_base
	zeros_table
	make rdt-v "$table"
	dm zero $base 0 65536
	# Its device would take no flushes, and zeros wait for one.
	load_table rdt-v rw "0 $vol_sectors revdedup $base $meta -"
	msg watch 1 0,10
	msg alias 1 0,10,z
	refused "No such device" "load the table line again" dm resume rdt-v
	refused "No such device" "load the table line again" dm resume rdt-v
	load_table rdt-v rw "0 $vol_sectors revdedup $base $meta -"
	dm resume rdt-v
	places_are 0 17 "0,10,z;10,1,b"
	msg shed 0,10 zeroed
	counts 16384 0 0
	drop_base
}
