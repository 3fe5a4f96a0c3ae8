#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Damage: any bit of a pool flips, any file is cut off or replaced by an older one.
# revdedupctl finds and names the damage, restores everything else, and 'repair' brings back
# what another place still holds. damage.py does the damage.
#
# SEED repeats a run; ROUNDS is how often the random tests run; CTL is the program.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

load damage

@test "a bit of data" {
	for ((round = 0; round < ROUNDS; round++)); do
		fresh
		damage flip pool $((SEED + round)) 40 data
		scrub_finds
		restore_all
		rm scrub.json
	done
	is 0 check
	# Some of it vm2 has as well; the images have the rest.
	run "$CTL" repair --json --progress=never
	[ "$status" -eq 4 ]
	[[ $output =~ \"blocks_healed\":\ [1-9] ]]
	# shellcheck disable=SC2046 # words
	is 0 repair $(from_all)
	is_whole
}

@test "a bit of a fingerprint" {
	damage flip pool "$SEED" 60 fps
	scrub_finds
	rm scrub.json
	restore_all
	nr=$(python3 -c 'import json; print(json.load(open("wanted.json"))["fps"])')
	is 0 repair
	[[ $output == *"$nr fingerprints damaged, $nr made again"* ]]
	is_whole
}

@test "bits of blocks and of fingerprints" {
	damage flip pool "$SEED" 10 data fps
	scrub_finds
	restore_all
	# A block and its own fingerprint.
	fresh
	damage flip pool "$SEED" 6 pair
	scrub_finds
	restore_all
	is 4 repair
	# Nothing tells what it was but the whole segment.
	# shellcheck disable=SC2046 # words
	is 0 repair $(from_all)
	is_whole
}

@test "a block of fingerprints" {
	# All of the first frames': whichever are used.
	for at in 1 2 3 4; do
		fresh
		dd if=/dev/urandom of=pool/data bs=4096 seek=$((512 + at)) count=1 \
			conv=notrunc status=none
		rm -f scrub.json
		restore_all
		is 0 repair
		is_whole
	done
}

@test "fingerprints that are zeros are not the same" {
	dd if=/dev/zero of=pool/data bs=4096 seek=512 count=512 conv=notrunc status=none
	# A segment is superseded, and the newest version still has such as well.
	cp vm1.3.img vm1.4.img
	dd if=/dev/urandom of=vm1.4.img bs=4096 count=512 conv=notrunc status=none
	is 0 snapshot vm1 --from vm1.4.img
	is 0 repair
	is 0 check
	is 0 scrub
	restore_all 0
}

@test "fingerprints that are those of another frame" {
	rm -r pool ./*.img
	head -c 2M /dev/urandom >a.1.img
	head -c 2M /dev/urandom >b.1.img
	"$CTL" init --compression none pool --size 100M --reserve 4K -q
	is 0 snapshot a --from a.1.img
	is 0 snapshot b --from b.1.img
	cmp -n 4096 -i $((6 << 20)):0 pool/data a.1.img
	# A write that went astray.
	dd if=pool/data of=pool/data bs=8192 skip=$((256 + 2)) seek=$((256 + 1)) count=1 \
		conv=notrunc status=none
	cp b.1.img over
	is 0 restore a@1 --to over --yes
	cmp a.1.img over
	is 0 repair
	is 0 scrub
}

# packing: the frame that compaction fills.
packing() {
	python3 -c 'import sqlite3
print(*sqlite3.connect("pool/catalog.db").execute("SELECT frame FROM packing").fetchone())'
}

# A pool of its own with the first of two images: what is left to it once the second is
# there is less than its holes, and moves.
less_than_its_holes() {
	local at
	rm -r pool ./*.img
	"$CTL" init --compression none pool --size 100M --reserve 4K -q
	head -c 2M /dev/urandom >vm1.1.img
	cp vm1.1.img vm1.2.img
	for ((at = 0; at < 512; at += 8)); do
		dd if=/dev/urandom of=vm1.2.img bs=4096 seek=$at count=1 conv=notrunc \
			status=none
	done
	is 0 snapshot vm1 --from vm1.1.img
}

@test "what is lost does not move" {
	less_than_its_holes
	cmp -n 4096 -i $((6 << 20)):0 pool/data vm1.1.img
	dd if=/dev/zero of=pool/data bs=4096 seek=1536 count=1 conv=notrunc status=none
	is 0 snapshot vm1 --from vm1.2.img
	[[ $output == *"is damaged and stays there"* ]]
	"$CTL" scrub --json >scrub.json || [ $? -eq 4 ]
	restore_all 1
	rm scrub.json
	is 0 repair --from vm1.1.img
	is 0 scrub
	restore_all 0
}

@test "a sector that cannot be read keeps nobody from the pool" {
	local bad build=${CTL%/bin/*}
	less_than_its_holes
	cp -r pool pool.1
	# The first block, which would move; and what says what is in the frame.
	for bad in $((6 << 20)) $(((2 << 20) + 8192)); do
		rm -r pool
		cp -r pool.1 pool
		export LD_PRELOAD=$build/io-faults.so IO_FAULTS=$bad:512:bad REVDEDUP_NO_URING=1
		is 0 snapshot vm1 --from vm1.2.img
		is 0 snapshot vm2 --from vm1.2.img
		is 0 delete vm1@2
		# Where writing does not help either, repair says so.
		is 4 scrub
		is 4 repair --from vm1.1.img
		unset LD_PRELOAD
		is 0 repair --from vm1.1.img
		is 0 scrub
		is 0 restore vm1@1 --to out.img --yes
		cmp out.img vm1.1.img
	done
}

@test "a sector that cannot be read, of the second of two segments in a row" {
	local at build=${CTL%/bin/*} range="{\"offset\": $((515 * 4096)), \"length\": 4096}" verb
	rm -r pool ./*.img
	"$CTL" init --compression none pool --size 100M --reserve 4K -q
	truncate -s 4M a.1.img
	dd if=/dev/urandom of=a.1.img bs=4096 seek=500 count=33 conv=notrunc status=none
	is 0 snapshot a --from a.1.img
	# Block 515 is in the second frame.
	at=$(((8 << 20) + 3 * 4096))
	cmp -n 4096 -i $at:$((515 * 4096)) pool/data a.1.img
	export LD_PRELOAD=$build/io-faults.so IO_FAULTS=$at:512:bad REVDEDUP_NO_URING=1
	head -c 4M /dev/urandom >full.bin
	for verb in "restore --to new.bin" "restore --yes --full --to full.bin" scrub; do
		# shellcheck disable=SC2086 # words
		is 4 $verb a@1 --json --progress=never
		[[ $output == *"\"damaged\": [$range]"* ]] || { echo "$verb: $output"; false; }
	done
	unset LD_PRELOAD
	dd if=/dev/zero of=a.1.img bs=4096 seek=515 count=1 conv=notrunc status=none
	cmp new.bin a.1.img
}

# random SEED NR: as many blocks, the same in each run.
random() {
	python3 -c 'import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2]) << 12))' "$@"
}

@test "a sector of fingerprints that cannot be read hides no others" {
	local at=$(((6 << 20) + 5 * 4096)) build=${CTL%/bin/*}
	rm -r pool ./*.img
	"$CTL" init --compression none --dedup reverse pool --size 100M --reserve 4K -q
	random 1 512 >a.1.img
	random 2 512 >b.1.img
	dd if=a.1.img of=b.1.img bs=4096 skip=5 seek=100 count=1 conv=notrunc status=none
	is 0 snapshot a --from a.1.img
	is 0 snapshot b --from b.1.img
	cmp -n 4096 -i $at:$((5 * 4096)) pool/data a.1.img
	dd if=/dev/zero of=pool/data bs=4096 seek=$((at / 4096)) count=1 conv=notrunc status=none
	# The fingerprint of the block is in the other half.
	export LD_PRELOAD=$build/io-faults.so REVDEDUP_NO_URING=1
	export IO_FAULTS=$(((2 << 20) + 8192 + 4096)):512:bad
	is 4 restore a@1 --to new.bin --json --progress=never
	[[ $output == *"\"damaged\": [{\"offset\": $((5 * 4096)), \"length\": 4096}]"* ]]
	# The other block has it, and what cannot be written is not said to be.
	is 4 repair --json --progress=never
	[[ $output == *'"blocks_damaged": 1, "blocks_healed": 1,'* ]]
	unset LD_PRELOAD
	is 0 scrub
	is 0 restore a@1 --to back
	cmp a.1.img back
}

@test "repair leaves fingerprints alone that it cannot read" {
	local frame volume build=${CTL%/bin/*}
	rm -r pool ./*.img
	"$CTL" init --compression none --dedup reverse pool --size 100M --reserve 4K -q
	for volume in 1 2; do
		random $volume 512 >$volume.1.img
		is 0 snapshot $volume --from $volume.1.img
	done
	# Half of a frame has blocks of the one, and the other half of the other.
	for volume in 1 2; do
		cp $volume.1.img $volume.2.img
		random $((volume + 2)) 256 | dd of=$volume.2.img bs=4096 seek=50 iflag=fullblock \
			conv=notrunc status=none
		is 0 snapshot $volume --from $volume.2.img --pieces 512
	done
	frame=$(python3 -c 'import sqlite3
print(*sqlite3.connect("pool/catalog.db").execute("SELECT max(frame) FROM slot_owner").fetchone())')
	for volume in 1 2; do
		dd if=/dev/zero of=pool/data bs=4096 count=1 conv=notrunc status=none \
			seek=$((1024 + frame * 512 + (volume - 1) * 256 + 3))
	done
	export LD_PRELOAD=$build/io-faults.so REVDEDUP_NO_URING=1
	export IO_FAULTS=$(((2 << 20) + frame * 8192 + 4096)):512:bad
	is 4 repair --from 1.2.img
	unset LD_PRELOAD
	is 0 scrub 1
	is 4 restore 2@2 --to back --json --progress=never
	[[ $output == *"\"damaged\": [{\"offset\": $((53 * 4096)), \"length\": 4096}]"* ]]
}

@test "a frame of which the fingerprints cannot be read is not filled" {
	local frame volume build=${CTL%/bin/*}
	rm -r pool ./*.img
	"$CTL" init --compression none pool --size 100M --reserve 4K -q
	for volume in a b; do
		truncate -s 2M $volume.1.img
		dd if=/dev/urandom of=$volume.1.img bs=4096 count=512 iflag=fullblock conv=notrunc \
			status=none
		is 0 snapshot $volume --from $volume.1.img
		cp $volume.1.img $volume.2.img
		dd if=/dev/urandom of=$volume.2.img bs=4096 seek=50 count=100 iflag=fullblock \
			conv=notrunc status=none
	done
	is 0 snapshot a --from a.2.img --pieces 512
	frame=$(python3 -c 'import sqlite3
print(*sqlite3.connect("pool/catalog.db").execute("SELECT frame FROM tail").fetchone())')
	export LD_PRELOAD=$build/io-faults.so REVDEDUP_NO_URING=1
	export IO_FAULTS=$(((2 << 20) + frame * 8192)):512:bad
	is 0 snapshot b --from b.2.img --pieces 512 --json
	unset LD_PRELOAD
	[[ $output == *'"segments_in_part": 1'* ]]
	is 0 scrub
	is 0 check
	for volume in a b; do
		for nr in 1 2; do
			is 0 restore $volume@$nr --to back --yes
			cmp $volume.$nr.img back
		done
	done
}

@test "compaction goes on elsewhere where it cannot read the fingerprints" {
	local at frame build=${CTL%/bin/*}
	less_than_its_holes
	is 0 snapshot vm1 --from vm1.2.img
	frame=$(packing)
	cp vm1.2.img vm1.3.img
	for ((at = 4; at < 512; at += 8)); do
		random $at 1 | dd of=vm1.3.img bs=4096 seek=$at conv=notrunc status=none
	done
	export LD_PRELOAD=$build/io-faults.so REVDEDUP_NO_URING=1
	export IO_FAULTS=$(((2 << 20) + frame * 8192)):512:bad
	is 0 snapshot vm1 --from vm1.3.img
	unset LD_PRELOAD
	[ "$(packing)" -ne "$frame" ]
	is 0 check
	is 0 scrub
	restore_all 0
}

@test "where nothing means anything" {
	damage flip pool "$SEED" 20 dead padding
	is_whole
}

@test "a superblock" {
	for copy in super0 super1; do
		for ((round = 0; round < ROUNDS; round++)); do
			fresh
			damage flip pool $((SEED + round)) 1 $copy
			is 4 check
			[[ $output == *"a superblock of the data area is damaged"* ]]
			is 4 scrub
			[[ $output == *"a superblock of the data area is damaged"* ]]
			is 0 repair
			is 0 check
		done
		restore_all
	done
	fresh
	damage flip pool "$SEED" 1 super0 super1
	before=$(md5sum pool/data)
	for verb in list check scrub repair "repair --rebuild-catalog" \
		"snapshot vm1 --from vm1.1.img"; do
		# shellcheck disable=SC2086 # words
		is 4 $verb
		[[ $output == *superblocks* ]]
	done
	[ "$(md5sum pool/data)" = "$before" ]
}

@test "a superblock that was not written" {
	local at
	cp -r --sparse=always pool before
	damage flip pool "$SEED" 1 journal
	is 0 repair
	# There is another journal now.
	cp -r --sparse=always pool after
	for at in 0 256; do
		rm -r pool
		cp -r --sparse=always after pool
		dd if=before/data of=pool/data bs=4096 skip=$at seek=$at count=1 conv=notrunc \
			status=none
		is 0 tag vm1@1 +x
		is 0 check
		restore_all 0
	done
}

# lose_supers: and say what the data area is then.
lose_supers() {
	local at
	for at in 0 256; do
		dd if="${1:-/dev/zero}" of=pool/data bs=4096 seek=$at count=1 conv=notrunc \
			status=none
	done
	before=$(md5sum pool/data)
}

@test "both superblocks, and the catalog is there" {
	for with in /dev/zero /dev/urandom; do
		fresh
		lose_supers $with
		run "$CTL" list
		[ "$status" -ne 0 ]
		[[ $output == *"repair --force"* ]]
		is 2 repair --force --dry-run
		[ "$(md5sum pool/data)" = "$before" ]
		is 0 repair --force
		[[ $output == *"new ones are made from the catalog"* ]]
		[[ $output == *"'revdedupctl tune' sets it, before the next snapshot"* ]]
		is_whole
		is 2 repair --force
	done
	# A new journal was begun since, and other data is damaged as well. (Not the head of
	# a part: with another generation it looks newer than the catalog, and then nothing
	# may be written.)
	fresh
	damage flip pool "$SEED" 1 payload
	is 0 repair
	damage flip pool "$SEED" 5 fps
	lose_supers
	is 0 repair --force
	is_whole
	is 0 snapshot vm1 --from vm1.1.img
	is 0 delete vm1@latest
	is_whole
}

# refuses PATTERN: to make superblocks, because of that, and leaves all as it is.
refuses() {
	lose_supers
	is 4 repair --force
	[[ $output == *$1*"nothing was changed"* ]]
	[ "$(md5sum pool/data)" = "$before" ]
}

@test "both superblocks, and the catalog does not agree" {
	(cd "$BATS_FILE_TMPDIR" && make_pool "$BATS_TEST_TMPDIR/other")
	cp other/catalog.db{,-pages} pool
	refuses "is not where the catalog says"
	# An older one, of the same journal, and of the one before.
	fresh
	keep_catalog
	is 0 tag vm1@1 +x
	cp kept/* pool
	refuses "older than the data area"
	fresh
	damage flip pool "$SEED" 1 journal
	is 0 repair
	cp kept/* pool
	refuses "not where the catalog says"
	# Even where the one before can still be read.
	fresh
	cp --sparse=always pool/data old
	is 0 tag vm1@1 +x
	damage flip pool "$SEED" 1 journal
	is 0 repair
	cp kept/* pool
	dd if=old of=pool/data bs=2M skip=2 seek=2 count=1 conv=notrunc status=none
	refuses "older than the data area"
	# One that is damaged, or none.
	fresh
	damage flip1 pool/catalog.db "$SEED"
	lose_supers
	is 4 repair --force
	[ "$(md5sum pool/data)" = "$before" ]
	rm pool/catalog.db
	is 4 repair --force
	[[ $output == *"there is no catalog"* ]]
	# Most of the data is gone.
	fresh
	dd if=/dev/zero of=pool/data bs=2M seek=3 count=44 conv=notrunc status=none
	lose_supers
	is 4 repair --force
}

@test "a bit of the journal" {
	for ((round = 0; round < 2 * ROUNDS; round++)); do
		fresh
		damage flip pool $((SEED + round)) 1 journal
		is 4 check
		[[ $output == *"the copy of the catalog is damaged"* ]]
		is 4 scrub
		[[ $output == *"the copy of the catalog is damaged"* ]]
		# The catalog is lost as well: no version goes without a word.
		mv pool/catalog.db lost
		is 4 repair --rebuild-catalog
		[[ $output == *"--force"* ]]
		[ ! -e pool/catalog.db ]
		mv lost pool/catalog.db
		is 0 repair
		is 0 check
		rm pool/catalog.db*
		is 0 repair --rebuild-catalog
		is 0 check
		[[ $output == *"5 versions"* ]]
	done
	is_whole
}

@test "a journal of which only the beginning can be read" {
	damage flip pool "$SEED" 1 journal
	rm pool/catalog.db*
	is 0 repair --rebuild-catalog --force
	is 0 check
	is 0 scrub
	# It is not found again.
	rm pool/catalog.db*
	is 0 repair --rebuild-catalog
}

@test "a name in the copy of the catalog" {
	# A new copy begins with all that there is.
	damage flip pool "$SEED" 1 journal
	is 0 repair
	is 0 check
	damage rename pool vm1
	is 4 check
	[[ $output == *"the copy of the catalog is damaged"* ]]
	is 0 repair
	is_whole
}

@test "each block in each segment" {
	rm -r pool ./*.img
	# With the journal, more frames than a group has; the last one is full.
	python3 -c 'import os
with open("big.1.img", "wb") as image:
    image.truncate(520 << 20)
    for segment in range(259):
        image.seek(segment * 513 * 4096)
        image.write(os.urandom(4096))
    image.seek(259 << 21)
    image.write(os.urandom(2 << 20))'
	"$CTL" init --compression none pool --size 800M --reserve 4K -q
	is 0 snapshot big --from big.1.img
	is 0 scrub
	restore_all 0
	damage flip pool "$SEED" 1000 data
	scrub_finds
	restore_all 1
	# Over an image, block by block.
	truncate -s 520M over
	is 4 restore big@1 --to over --yes --json
	damage same-ranges scrub.json <<<"$output"
}

@test "what the data area has allocated" {
	damage misplace pool unused
	is 4 check
	[[ $output == *": 1 unused blocks take space"* ]]
	fresh
	damage misplace pool lost
	is 4 check
	[[ $output == *": 1 blocks that are in use are holes"* ]]
	fresh
	damage misplace pool free
	is 4 check
	[[ $output == *"free frames "*" take space"* ]]
}

@test "data that is cut off" {
	size=$(stat -c %s pool/data)
	# In a superblock, in fingerprints, in frames, and at last a byte.
	for length in $(each_of 2 4095 4096 $(((2 << 20) + 5000)) 1048577 $(((7 << 20) + 1)) \
		$(((10 << 20) + 123456)) $((17 << 20)) $((size - 1))); do
		fresh
		truncate -s "$length" pool/data
		status=0
		"$CTL" scrub --json >scrub.json 2>errors || status=$?
		if [ "$length" -lt 4096 ]; then
			[ "$status" -eq 4 ] || [ "$status" -eq 1 ]
			continue
		fi
		grep -q "is cut off" errors
		restore_all
		is 4 check || [ "$length" -ge $((17 << 20)) ]
		# Where the end of the journal is gone as well, it may as well be an old one.
		force=
		if ! "$CTL" repair --quiet 2>errors && grep -q "older than the catalog" errors; then
			force=--force
			[ "$length" -lt $((17 << 20)) ]
		fi
		# shellcheck disable=SC2046,SC2086 # words
		is 0 repair $force $(from_all)
		is_whole
	done
}

@test "catalogs of two pools" {
	(cd "$BATS_FILE_TMPDIR" && make_pool "$BATS_TEST_TMPDIR/other")
	keep_catalog
	cp other/catalog.db{,-pages} pool
	cp kept/* other
	for pool in pool other; do
		is 1 -p $pool list
		[[ $output == *"belong to different pools"*"nothing was changed"* ]]
		is 1 -p $pool snapshot vm1 --from vm1.1.img
		is 0 -p $pool repair --rebuild-catalog
		REVDEDUP_POOL=$pool is_whole
	done
}

@test "an older catalog" {
	keep_catalog
	cp vm1.3.img vm1.4.img
	dd if=/dev/urandom of=vm1.4.img bs=4096 seek=33 count=7 conv=notrunc status=none
	is 0 snapshot vm1 --from vm1.4.img
	is 0 delete vm1@2
	rm vm1.2.img pool/catalog.db*
	cp kept/* pool
	before=$(md5sum pool/data)
	for verb in list check scrub "delete vm1@1" repair; do
		# shellcheck disable=SC2086 # words
		is 1 $verb
		[[ $output == *"the catalog is older than the data area"* ]]
	done
	[ "$(md5sum pool/data)" = "$before" ]
	is 0 repair --rebuild-catalog
	is_whole
}

@test "a catalog that is gone" {
	rm pool/catalog.db
	is 4 list
	is 4 repair
	is 0 repair --rebuild-catalog
	is_whole
}

# on_disk NR: a pool on the disk, with so many versions.
on_disk() {
	local volume image
	rm -rf pool
	"$CTL" init --compression none pool --data "$disk" --force --reserve 4K -q
	head -n "$1" order | while read -r volume image; do
		"$CTL" snapshot "$volume" --from "$image" -q
	done
}

@test "a block device that had a pool before" {
	[ "$(id -u)" -eq 0 ] || skip "needs root, for loop devices"
	truncate -s 100M disk.bin
	disk=$(losetup --find --show disk.bin)
	for ((nr = 0; nr < 5; nr++)); do
		on_disk 5
		# Its journal is longer, and much of it is where this one ends.
		on_disk $nr
		rm pool/catalog.db*
		is 0 repair --rebuild-catalog
		is 0 check
		[[ $output == *"$nr versions"* ]] || [ $nr -lt 2 ]
	done
	is 0 snapshot vm1 --from vm1.3.img
	is_whole
}

@test "a catalog without its log" {
	leave_log
	rm pool/catalog.db-wal
	is 4 list
	[[ $output == *"catalog.db-wal', the log of the catalog, is missing"* ]]
	is 0 repair --rebuild-catalog
	is_whole
}

@test "a log of the catalog that is damaged" {
	leave_log
	size=$(stat -c %s pool/catalog.db-wal)
	for length in 1 32 5000 $((size - 1)); do
		rm -rf pool
		cp -r --sparse=always whole pool
		truncate -s "$length" pool/catalog.db-wal
		refused_or_whole || :
	done
	for ((round = 0; round < ROUNDS; round++)); do
		rm -rf pool
		cp -r --sparse=always whole pool
		damage flip1 pool/catalog.db-wal $((SEED + round))
		refused_or_whole || :
	done
}

@test "a catalog that is cut off" {
	size=$(stat -c %s pool/catalog.db)
	for length in 0 100 4096 $((size / 2)) $((size / 2 / 4096 * 4096)) $((size - 4096)); do
		fresh
		truncate -s "$length" pool/catalog.db
		run "$CTL" check
		[ "$status" -ne 0 ] || { echo "at $length of $size bytes"; false; }
		is 0 repair --rebuild-catalog
		is_whole
	done
}

@test "a bit of the catalog" {
	missed=()
	for ((round = 0; round < 8 * ROUNDS; round++)); do
		fresh
		at=$(damage flip1 pool/catalog.db $((SEED + round)))
		run "$CTL" check
		[ "$status" -ne 0 ] || missed+=("$at")
		is 0 repair --rebuild-catalog
		is 0 check
		[[ $output == *"5 versions"* ]]
	done
	is_whole
	[ "${#missed[@]}" -eq 0 ] || { echo "not found: bytes ${missed[*]}"; false; }
}
