#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Blocks in packs: read, written over, copied home, moved; and packs that are damaged.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

setup_file() { need_targets delay flakey zero; }

# pack BLOCK [WORD]...: of the pool; see mkpack.c.
pack() { /revdedup/bin/mkpack $pool "$@" >"$BATS_TEST_TMPDIR/mkpack"; }

# groups_are MIB READ: what status says of packs.
groups_are() { status && is "MiB for packs, groups read" "${field[*]:15:2}" "$*"; }

# features: that the superblock says an older target must know (incompat).
features() { dd if=$meta bs=4096 count=1 iflag=direct status=none | od -An -tu4 -j80 -N4 | tr -d ' '; }

# errors FIRST SECTORS WHAT TEXT: reads, and the kernel says TEXT.
errors() {
	log_begin
	reads $1 $2 "$3"
	said "$4"
}

# Before others: the kernel says ten of these in 5 s.
@test "what the log says of packs that cannot be read" {
	vol_create $vol_sectors pool_uuid $some_uuid
	pack 256 flip uuid=11111111222233334444555555555555
	pack 300 later uuid=11111111222233334444555555555555
	pack 400 uuid=21111111222233334444555555555555
	batch "0,200,k100.0;200,200,k12c.0;400,1,k190.0"
	errors 128 8 "e,8" "cannot read slot 10 of the pack at block 256 of the pool: it is damaged, or none is there"
	errors 4296 8 "e,8" "cannot read slot 10 of the pack at block 300 of the pool: a later program made it"
	errors 8192 8 "e,8" "cannot read slot 0 of the pack at block 400 of the pool: it is damaged, or none is there"
	reload rdt-p "0 $pool_sectors error"
	errors 800 8 "e,8" "cannot read slot 60 of the pack at block 256 of the pool: an I/O error"
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	pack 256 even uuid=11111111222233334444555555555555
	msg remap "0,200,k100.0,k100.0"
	errors 24 8 "e,8" "cannot read slot 3 of the pack at block 256 of the pool: the pack has no such block"
}

@test "packed blocks: whole segments, and blocks here and there" {
	vol_create
	pack 256
	pack 300 even
	pack 400 raw letter=r
	groups_are 0 0
	batch "0,200,k100.0;200,10,k100.30;210,1,k12c.4;211,1,k12c.6;212,2,p0;214,100,k190.7f"
	places_are 0 1044 "0,200,k100.0;200,10,k100.30;210,1,k12c.4;211,1,k12c.6;212,2,p0;214,100,k190.7f;314,100,b"
	counts 15596 0 788
	groups_are 8 0
	reads 0 8 "k0,8"
	groups_are 8 1
	# What is there already is not read again.
	reads 24 104 "k18,68"
	groups_are 8 1
	reads 0 4096 "k0,1000"
	groups_are 8 32
	reads 4096 176 "k180,80;k20,8;k30,8;p0,10;r3f8,10"
	# What does not begin at a block, and what ends in another group.
	reads 125 6 "k7d,6"
	reads 4099 3 "k183,3"
	reads 4256 2048 "r3f8,800"
	vol_remove
	vol_create
	places_are 0 1044 "0,200,k100.0;200,10,k100.30;210,1,k12c.4;211,1,k12c.6;212,2,p0;214,100,k190.7f;314,100,b"
	reads 0 4096 "k0,1000"
	reads 4096 176 "k180,80;k20,8;k30,8;p0,10;r3f8,10"
	# A part of a segment that was whole.
	writes 808 8
	places_are 0 512 "0,65,k100.0;65,1,b;66,19a,k100.66"
	sync $vol
	disk_places_are 0 512 "0,65,k100.0;65,1,b;66,19a,k100.66"
	reads 800 24 "k320,8;w328,8;k330,8"
	# The offline tool knows them, too.
	vol_remove
	/revdedup/tools/revdedup-meta check $meta
	[[ $(/revdedup/tools/revdedup-meta table $meta) == *k100.66* ]]
}

@test "a slot that the pack has no block for is an error" {
	vol_create
	pack 256 even
	batch "0,1,k100.0;1,1,k100.1;2,1,k100.2"
	reads 0 24 "k0,8;e,8;k10,8"
	reads 8 8 "e,8"
}

@test "parts of packed blocks are written, and discarded" {
	vol_create
	pack 256
	batch "0,40,k100.0"
	writes 3 2
	reads 0 24 "k0,3;w3,2;k5,13"
	writes 14 4
	reads 0 24 "k0,3;w3,2;k5,9;we,4;k12,6"
	places_are 0 4 "0,3,b;3,1,k100.3"
	# All of a block: nothing is read.
	writes 160 16
	reads 152 32 "k98,8;wa0,10;kb0,8"
	dm read $base 0 24
	is "base" "$reply" "k0,3;w3,2;k5,9;we,4;k12,6"
	blkdiscard -o $((40 * 4096)) -l $((4 * 4096)) $vol
	places_are 40 8 "28,4,z;2c,4,k100.2c"
	reads 320 40 "z,20;k160,8"
	sync $vol
	disk_places_are 0 48 "0,3,b;3,11,k100.3;14,2,b;16,12,k100.16;28,4,z;2c,4,k100.2c"
}

@test "hydration decodes a group once, and leaves nothing that an older target refuses" {
	local i ranges=''
	vol_create
	pack 256
	pack 300 even
	# In the order of the pack, and in none.
	for i in {0..15}; do
		printf -v ranges '%s;%x,1,k12c.%x' "$ranges" $((1024 + i)) $((i * 6 % 32))
	done
	batch "0,200,k100.0$ranges"
	msg hydrate start
	within 30 hydrate_is off
	status
	is "groups read" "${field[16]}" 34
	reads 0 4096 "k0,1000"
	reads 8192 24 "k0,8;k30,8;k60,8"
	within 30 counts 16384 0 0
	vol_remove
	is "features of the superblock" "$(features)" 0
}

@test "a volume with packed blocks is marked as one" {
	vol_create
	pack 256
	is "features of the superblock" "$(features)" 0
	batch "0,1,k100.0"
	is "features of the superblock" "$(features)" 1
}

# Such a segment is shorter than a word can say, so its word has no slot.
@test "a last segment that is not whole, in the middle of a pack" {
	vol_create $((4096 + 400))
	pack 256
	batch "200,32,k100.40"
	reads 4096 400 "k200,190"
	batch "1f0,42,k100.0"
	reads 3968 528 "k0,210"
	msg watch 1 200,32
	msg remap "200,32,k100.10,k100.1c0"
	reads 4096 16 "ke00,10"
	batch "200,32,b"
	msg watch 1 200,32
	msg alias 1 200,32,k100.20
	reads 4096 400 "k100,190"
	batch "200,32,k100.0"
	vol_remove
	vol_create $((4096 + 400))
	reads 4096 400 "k0,190"
	msg remap "200,32,k100.0,z"
	reads 4096 400 "z,190"
	msg remap "200,32,z,k100.1"
	vol_remove
	vol_create $((4096 + 400))
	reads 4096 400 "k8,190"
}

@test "remap and alias: from and to packs" {
	vol_create
	pack 256
	pack 300 letter=m
	batch "0,200,k100.0;200,4,k100.10"
	msg remap "0,200,k100.0,k12c.0"
	reads 0 16 "m0,10"
	# Blocks that are elsewhere by now stay where they are.
	writes 4104 8
	msg remap "200,4,k100.10,p10"
	reads 4096 32 "p80,8;w1008,8;p90,10"
	msg remap "200,1,k100.10,p20;202,1,p12,k12c.1ff"
	reads 4096 32 "p80,8;w1008,8;mff8,8;p98,8"
	msg remap "1ff,1,k12c.1ff,k100.1fe"
	reads 4080 16 "mff0,8;kff0,8"
	msg watch 1 400,200
	msg alias 1 400,200,k12c.0
	reads 8192 16 "m0,10"
	msg watch 2 600,3
	writes 12296 8
	msg alias 2 600,3,k12c.20
	reads 12288 24 "m100,8;w3008,8;m110,8"
	places_are 1024 515 "400,200,k12c.0;600,1,k12c.20;601,1,b;602,1,k12c.22"
}

@test "table: what is in a part of the pool" {
	vol_create
	pack 256
	pack 300
	batch "0,200,k100.0;200,4,p100;204,2,k12c.8;206,200,k100.0"
	msg table 0 16384 256 1
	is "block 100" "$reply" "0,200,k100.0;200,1,p100;206,200,k100.0 16384"
	# A pack may reach 511 blocks beyond its head.
	msg table 0 16384 257 44
	is "up to the next head" "$reply" "0,200,k100.0;201,3,p101;204,2,k12c.8;206,200,k100.0 16384"
	msg table 0 16384 257 43
	is "up to it" "$reply" "0,200,k100.0;201,3,p101;206,200,k100.0 16384"
	msg table 0 16384 768 100
	is "where only one may be" "$reply" "204,2,k12c.8 16384"
	msg table 0 16384 812 100
	is "behind both" "$reply" "- 16384"
	# What is behind the last slot is in no run, also where the next block is a head.
	batch "300,1,k100.1ff;301,1,k101.0"
	places_are 768 2 "300,1,k100.1ff;301,1,k101.0"
}

@test "a place that has another pack by now" {
	vol_create
	pack 256
	batch "0,200,k100.0;200,1,k100.0"
	reads 0 128 "k0,80"
	msg remap "0,200,k100.0,p0;200,1,k100.0,z"
	pack 256 letter=m
	msg remap "0,200,p0,k100.0"
	reads 0 128 "m0,80"
	# On a suspended device.
	dm suspend rdt-v
	pack 256 letter=n
	msg begin
	msg set "0,1,k100.0"
	msg end
	dm resume rdt-v
	reads 0 128 "n0,80"
	# In another pool.
	make rdt-q "0 $pool_sectors linear /dev/ram2 $pool_sectors"
	pool=/dev/mapper/rdt-q
	pack 256 letter=o
	vol_reload
	reads 0 128 "o0,80"
}

@test "damaged packs: an error for these blocks, and no others" {
	local wrong at=256
	vol_create
	batch "0,1,z"
	for wrong in flip sum junk bomb short later; do
		pack $at $wrong
		batch "0,200,k$(printf %x $at).0"
		# Groups beside it, and again.
		reads 120 144 "k78,8;e,80;k100,8"
		at=$((at + 16))
	done
	for wrong in magic crc long uuid=ff000000000000000000000000000000; do
		pack $at $wrong
		[ "$wrong" != uuid=ff000000000000000000000000000000 ] || {
			# Without a UUID of the pool any will do.
			batch "0,200,k$(printf %x $at).0"
			reads 0 16 "k0,10"
			continue
		}
		batch "0,200,k$(printf %x $at).0"
		reads 0 16 "e,10"
		at=$((at + 16))
	done
	pack $at checksum
	batch "0,200,k$(printf %x $at).0"
	reads 128 8 "k80,8"
	# A write of a part fails, one of all the block heals it.
	pack $at flip
	batch "0,200,k$(printf %x $at).0"
	run ! writes 130 2
	reads 120 16 "k78,8;e,8"
	writes 128 8
	reads 120 24 "k78,8;w80,8;e,8"
	# Hydration goes on with the others.
	msg hydrate start
	within 30 left_is 15
	reads 0 8 "k0,8"
}

@test "a pack of another pool" {
	vol_create $vol_sectors pool_uuid $some_uuid
	pack 256 uuid=11111111222233334444555555555555
	pack 300 uuid=21111111222233334444555555555555
	batch "0,10,k100.0;10,10,k12c.0"
	reads 0 16 "k0,10"
	reads 128 16 "e,10"
}

@test "the pool fails, and comes back" {
	vol_create
	pack 256
	batch "0,200,k100.0"
	reload rdt-p "0 $pool_sectors error"
	reads 0 8 "e,8"
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	reads 0 8 "k0,8"
	reload rdt-p "0 $pool_sectors error"
	reads 0 16 "k0,10"
	reads 128 8 "e,8"
	reload rdt-p "0 $pool_sectors linear /dev/ram2 0"
	reads 128 8 "k80,8"
	# One that ends within the pack.
	vol_remove
	reload rdt-p "0 2048 linear /dev/ram2 0"
	vol_create
	reads 0 8 "e,8"
}

@test "places that no pack has" {
	vol_create
	pack 256
	batch "0,1,z"
	for place in k800.0 k1fffffffff.0; do
		refused "Numerical result out of range" "not within the 2048 blocks" msg remap "0,1,z,$place"
	done
	for place in k2000000000.0 k100.200 k100 k100. k.0 k100.0.0 K100.0 k100,0; do
		refused "Invalid argument" "not ranges" msg remap "0,1,z,$place"
	done
	refused "Invalid argument" "not ranges" msg remap "0,2,z,k100.1ff"
	msg remap "0,1,z,k7ff.1ff"
	reads 0 8 "e,8"
	groups_are 8 0
}

@test "pack_mib: many readers of many groups in a small cache" {
	local i letters=ghijklmn pids=()
	vol_create $vol_sectors pack_mib 1
	for i in {0..7}; do
		pack $((256 + 8 * i)) letter=${letters:i:1}
		batch "$(printf '%x,200,k%x.0' $((512 * i)) $((256 + 8 * i)))"
	done
	groups_are 1 0
	for i in {0..7}; do
		dd if=$vol of=/dev/null bs=4k skip=$((512 * i)) count=512 iflag=direct status=none 3>&- &
		pids+=($!)
		fio --name=r$i --filename=$vol --rw=randread --bs=4k --size=16m --direct=1 --iodepth=64 \
			--ioengine=libaio --number_ios=1000 >/dev/null 2>&1 3>&- &
		pids+=($!)
	done
	wait "${pids[@]}"
	for i in {0..7}; do
		reads $((4096 * i)) 4096 "${letters:i:1}0,1000"
	done
	# As many writes of parts, which pin groups.
	fio --name=w --filename=$vol --rw=randwrite --bs=1k --size=16m --direct=1 --iodepth=64 \
		--ioengine=libaio --number_ios=500 >/dev/null 2>&1 3>&-
	msg hydrate start
	within 60 hydrate_is off
	counts 16384 0 0
}

@test "suspend, remove and unload with readers that wait for a slow pool" {
	local reader
	vol_create
	pack 256
	batch "0,200,k100.0"
	reload rdt-p "0 $pool_sectors delay /dev/ram2 0 300"
	fio --name=r --filename=$vol --rw=randread --bs=4k --size=2m --direct=1 --iodepth=256 \
		--ioengine=libaio --number_ios=1000 >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- &
	reader=$!
	within 10 in_flight $vol
	dm suspend rdt-v noflush
	dm resume rdt-v
	dm suspend rdt-v
	vol_reload
	wait $reader
	reads 0 4096 "k0,1000"
	vol_remove
	dm remove rdt-p
	dm remove rdt-m
	rmmod dm_revdedup
}
