#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedup-meta make, table and finish, and the program itself.
# shellcheck disable=SC2154 # by lib.bash
load meta

@test "make: what goes in comes out" {
	meta make a.img --sectors 100001 --volume-uuid 00112233-4455-6677-8899-aabbccddeeFF \
		--pool-uuid a0112233-4455-6677-8899-aabbccddee00 - <<-'END'
		0,200,p1000
		200,5,z;205,1,p9
		300,10,p9

		400,200,z
	END
	expect 0 <<<"'a.img': made a table of 12501 blocks: 517 of zeros, 529 in the pool; 1 pages"
	[ "$(stat -c %s a.img)" -eq $((92 * 4096)) ]
	meta table a.img
	expect 0 <<-'END'
		0,200,p1000
		200,5,z
		205,1,p9
		206,fa,b
		300,10,p9
		310,f0,b
		400,200,z
		600,2ad5,b
	END
	meta table a.img 508 300
	expect 0 <<-'END'
		1fc,4,p11fc
		200,5,z
		205,1,p9
		206,fa,b
		300,10,p9
		310,18,b
	END
	meta table a.img 12500 5
	expect 0 <<<'30d4,1,b'
	meta --json table a.img 508 300
	expect 0 <<<'{"device": "a.img", "blocks": 92, "in_use": false, "volume_blocks": 12501, "incomplete": false, "ranges": [[508, 4, "p11fc"], [512, 5, "z"], [517, 1, "p9"], [518, 250, "b"], [768, 16, "p9"], [784, 24, "b"]], "base": 274, "zero": 5, "pool": 21, "damaged": 0, "unreadable": 0}'
	meta check a.img
	expect 0 <<-'END'
		checked: 2 superblocks, 2 bitmap blocks, 25 words, 1 pages
		'a.img' is fine
	END
	meta --json dump a.img
	[ "$(field '["superblocks"][0]["flags"]')" = "0x00000010 table" ]
	[ "$(field '["superblocks"][1]["volume_uuid"]')" = 00112233-4455-6677-8899-aabbccddeeff ]
	[ "$(field '["superblocks"][1]["pool_uuid"]')" = a0112233-4455-6677-8899-aabbccddee00 ]
	[ "$(field '["target"]["epoch"]')" = 0 ]
	[ "$(field '["target"]["dirty"]')" = 25 ]
}

@test "make: nothing is elsewhere" {
	meta --json make a.img --sectors 4096 /dev/null
	expect 0 <<<'{"device": "a.img", "blocks": 68, "in_use": false, "volume_blocks": 512, "zero": 0, "pool": 0, "pages": 0, "linear_ok": true}'
	meta table a.img
	expect 0 <<<'0,200,b'
	meta --json dump a.img
	[ "$(field '["superblocks"][0]["flags"]')" = "0x00000014 linear_ok table" ]
	# A file that has more room, and a line without an end.
	truncate -s 1M b.img
	printf '0,200,b' >text
	meta make b.img --sectors 4096 text
	[ "$status" -eq 0 ]
	meta check b.img
	[ "$status" -eq 0 ]
	[[ $("$build/bin/revdedup-meta" dump b.img) == *"copy B, block 255: good"* ]]
}

@test "make: random tables" {
	local seed sectors
	for seed in {1..6}; do
		sectors=$((RANDOM % 30000 + 1))
		echo "seed $seed, $sectors sectors"
		python3 "$BATS_TEST_DIRNAME/places.py" random "$seed" $(((sectors + 7) / 8)) \
			1000000 >text
		python3 "$BATS_TEST_DIRNAME/places.py" whole $(((sectors + 7) / 8)) text >wanted
		rm -f a.img
		"$build/bin/revdedup-meta" make a.img --sectors "$sectors" text
		"$build/bin/revdedup-meta" table a.img >found
		diff wanted found
		"$build/bin/revdedup-meta" check a.img
	done
}

@test "make: text that is none" {
	local text
	for text in x 0 0,1 '0,1,' 0,1,p 0,1,q 0,1,b,b 0,0,b '0,1,b;' ';' ' 0,1,b' '0,1,b ' \
		'0x0,1,b' '-1,1,b' '0,1,z2' '0,1,pG' '0,1,b\\r' '0,1,b\\0;x' '\\0' \
		'11111111111111111,1,b' 'ffffffffffffffff,ffffffffffffffff,b'; do
		echo "text: $text"
		refused "$text\\n" "1: not <first>,<len>,<place>"
	done
	refused '0,1,z\n\n5,1,p' '3: not <first>,<len>,<place>'
	refused '0,201,b' '1: 0,201: the range ends beyond the end of the volume'
	refused '200,1,b' '1: 200,1: the range ends beyond the end of the volume'
	refused '0,1,p400000000000' '1: 0,1: the number of the pool block is too large'
	refused '0,2,p3fffffffffff' '1: 0,2: the number of the pool block is too large'
	refused '0,2,z\n1,1,z' '2: 1,1: ranges must ascend and not overlap'
	refused '5,2,z;4,1,z' '1: 4,1: ranges must ascend and not overlap'
	meta make a.img --sectors 4096 .
	expect 1 <<<"revdedup-meta: cannot read '.': Is a directory"
	[ ! -e a.img ]
	meta make a.img --sectors 4096 no-such-file
	expect 1 <<<"revdedup-meta: cannot open 'no-such-file': No such file or directory"
	[ ! -e a.img ]
}

@test "make: what is there stays, unless it is forced" {
	meta make a.img --sectors 4096 - <<<'0,1,z'
	cp a.img b.img
	meta make a.img --sectors 4096 - <<<'0,2,z'
	expect 1 <<-'END'
		revdedup-meta: 'a.img': it holds metadata already
		revdedup-meta: nothing was changed; --force overwrites it
	END
	cmp a.img b.img
	meta make a.img --sectors 40960000 - <<<'0,2,z'
	expect 1 <<<"revdedup-meta: 'a.img' is too small: it has 68 blocks of 4 KiB, the table of this volume needs 10067"
	cmp a.img b.img
	meta --force make a.img --sectors 4096 - <<<'0,2,z'
	[ "$status" -eq 0 ]
	meta table a.img
	expect 0 <<<$'0,2,z\n2,1fe,b'
	mke2fs -q -F -t ext4 c.img 2M
	meta make c.img --sectors 4096 - <<<'0,2,z'
	expect 1 <<-'END'
		revdedup-meta: 'c.img': not a revdedup metadata device (no magic), and not zeroed for one
		revdedup-meta: nothing was changed; --force overwrites it
	END
	# A text that is refused has taken the old metadata along.
	meta --force make a.img --sectors 4096 - <<<'0,2'
	[ "$status" -eq 1 ]
	meta check a.img
	[ "$status" -eq 1 ]
	[[ $output == *"the superblock is all zeros"* ]]
	mkfifo fifo
	meta make fifo --sectors 4096 /dev/null
	expect 1 <<<"revdedup-meta: cannot open 'fifo': neither a block device nor a file"
	flock --no-fork a.img sleep 3600 3>&- &
	claimer=$!
	until ! flock -n a.img true; do sleep 0.01; done
	meta make a.img --sectors 4096 /dev/null
	expect 1 <<<"revdedup-meta: cannot open 'a.img': Device or resource busy"
}

@test "make: no room" {
	mkdir mnt
	mount -t tmpfs -o size=256k none mnt 2>mount.err || skip "no tmpfs: $(cat mount.err)"
	# Each second block, so that each segment has a page.
	seq 0 2 20000 | awk '{ printf "%x,1,z\n", $1 }' >text
	meta make mnt/a.img --sectors 160008 text
	umount mnt
	expect 1 <<<"revdedup-meta: cannot write 'mnt/a.img': No space left on device"
}

@test "table: what is not known is named, and left out" {
	meta make a.img --sectors 12288 - <<<'0,1,z;200,200,p200;400,1,p9'
	# Entries of pages 0 and 2, and the word of segment 1.
	"$build/mkmeta" flip a.img $(((66 + 0) * 4096 + 8 * 7)) 5
	"$build/mkmeta" flip a.img $(((66 + 0) * 4096 + 8 * 8)) 5
	"$build/mkmeta" flip a.img $((3 * 4096 + 8)) 1
	meta table a.img
	expect 4 <<-'END'
		revdedup-meta: the location of blocks 7,2 is unknown: block 66 of the metadata is damaged
		revdedup-meta: the location of blocks 200,200 is unknown: block 3 of the metadata is damaged
		0,1,z
		1,6,b
		9,1f7,b
		400,1,p9
		401,1ff,b
	END
	meta --json table a.img 0 600
	[ "$status" -eq 4 ]
	[ "$(field '["ranges"]')" = "[[0, 1, 'z'], [1, 6, 'b'], [7, 2, None], [9, 503, 'b'], [512, 88, None]]" ]
	[ "$(field '["damaged"]')" = 90 ]
	meta table a.img 10 5
	expect 0 <<<'a,5,b'
	meta table a.img 1536
	expect 1 <<<"revdedup-meta: block 1536 does not exist: the volume has 1536 blocks"
	for bad in x -- 0x1 1k; do
		meta table a.img -- "$bad"
		expect 2 <<<"revdedup-meta: not a block number: '$bad' (try --help)"
	done
	meta table a.img 1 1k
	expect 2 <<<"revdedup-meta: not a number of blocks: '1k' (try --help)"
}

@test "table: an incomplete one, and one that nobody reads" {
	make_image a.img flags=0x18 meta_blocks=1100 word=3,pool,512
	meta table a.img
	expect 0 <<-'END'
		revdedup-meta: warning: 'a.img': the remap table is incomplete
		0,600,b
		600,200,p200
		800,7c800,b
	END
	make_image a.img flags=0x14 meta_blocks=1100 word=3,pool,512
	meta table a.img
	expect 0 <<<'0,7d000,b'
	make_image a.img flags=4
	meta table a.img
	expect 0 <<<'0,7d000,b'
}

# bats test_tags=slow
@test "finish: byte for byte what the table says" {
	local seed sectors
	for seed in {1..5}; do
		sectors=$((RANDOM % 60000 + 1))
		echo "seed $seed, $sectors sectors"
		half_home "$seed" "$sectors"
		cp a.img before.img
		cp base before
		meta finish --dry-run a.img base pool
		[ "$status" -eq 0 ]
		cmp a.img before.img
		cmp base before
		meta finish --yes a.img base pool
		[ "$status" -eq 0 ]
		cmp base right
		meta table a.img
		expect 0 <<<"0,$(printf %x $(((sectors + 7) / 8))),b"
		meta check a.img
		[ "$status" -eq 0 ]
	done
	[[ $("$build/bin/revdedup-meta" dump a.img) == *"linear_ok table"*"linear_ok table"* ]]
	meta finish --yes a.img base pool
	expect 0 <<<"'base': nothing to do, every block is on it already"
}

# packed_pool: pool/data has one pack, with each block of the image of 2 MiB in its slot; $head.
packed_pool() {
	local ctl=$build/bin/revdedupctl
	seq 100000000000000 100000000131071 >image
	"$ctl" -q init --size 64M --compression zstd pool
	"$ctl" -q --pool pool snapshot vm1 --from image
	at=$(grep -abo RDPACK1 pool/data | head -n 1 | cut -d : -f 1)
	head=$(printf %x $((at / 4096)))
}

@test "places in packs: make, table, check, dump" {
	printf '0,200,k1fffffffff.0\n200,1ff,k8.1\n3ff,1,k9.0;400,2,k9.1fe\n' >text
	meta make a.img --sectors 16384 text
	expect 0 <<<"'a.img': made a table of 2048 blocks: 0 of zeros, 1026 in the pool; 2 pages"
	meta table a.img
	expect 0 <<-EOF
		0,200,k1fffffffff.0
		200,1ff,k8.1
		3ff,1,k9.0
		400,2,k9.1fe
		402,3fe,b
	EOF
	meta --json table a.img
	[ "$(field '["pool"]')" = 1026 ]
	meta check a.img
	[ "$status" -eq 0 ]
	meta dump a.img
	[[ $output == *"incompat        0x00000001 pack"* ]]
	# The superblock does not say so.
	"$build/mkmeta" super a.img 0 incompat=0 seq=9
	"$build/mkmeta" super a.img "$(($(stat -c %s a.img) / 4096 - 1))" incompat=0 seq=9
	meta check a.img
	[ "$status" -eq 4 ]
	[[ $output == *"1026 blocks are in packs, and the superblock does not say so (incompat)"* ]]
	rm a.img
	refused '0,2,k5.1ff\n' "1: not <first>,<len>,<place>"
	refused '0,1,k2000000000.0\n' "1: not <first>,<len>,<place>"
	refused '0,1,k5\n' "1: not <first>,<len>,<place>"
	refused '0,1,k5.200\n' "1: not <first>,<len>,<place>"
}

@test "finish: blocks come home out of packs, and what is damaged is said" {
	packed_pool
	printf '0,200,k%s.0\n300,10,k%s.a5\n' "$head" "$head" >text
	"$build/bin/revdedup-meta" make a.img --sectors 8192 text >/dev/null
	head -c 4M /dev/zero >base
	cp a.img before.img
	cp base before
	# In its last group.
	cp pool/data saved
	printf '\377' | dd of=pool/data bs=1 seek=$((at + 40000)) conv=notrunc status=none
	meta finish --yes a.img base pool/data
	[ "$status" -eq 1 ]
	[[ $output == "revdedup-meta: the pack at block $head of the pool is damaged in its group "*"nothing is lost; repeat the command once the cause is fixed" ]]
	cmp a.img before.img
	cp saved pool/data
	printf '\377' | dd of=pool/data bs=1 seek=$((at + 9)) conv=notrunc status=none
	meta finish --yes a.img base pool/data
	expect 1 <<-EOF
		revdedup-meta: the pack at block $head of the pool has no head, or a damaged one
		revdedup-meta: nothing is lost; repeat the command once the cause is fixed
	EOF
	cmp base before
	cp saved pool/data
	meta finish --yes a.img base pool/data
	expect 0 <<<"'base': copied 528 blocks from 'pool/data', and zeroed 0 blocks"
	cmp -n 2097152 base image
	cmp -n 65536 -i 3145728:675840 base image
	meta dump a.img
	[[ $output == *"incompat        0x00000000"*"linear_ok table"* ]]
}

@test "finish: what it says" {
	meta make a.img --sectors 4096 - <<<'0,5,p3;6,20,z'
	truncate -s 2M base
	truncate -s 32K pool
	meta finish a.img base pool --dry-run
	expect 0 <<<"'base': would copy 5 blocks from 'pool', and zero 32 blocks"
	meta --json finish a.img base pool --dry-run
	expect 0 <<<'{"device": "a.img", "blocks": 68, "in_use": false, "base": "base", "pool_device": "pool", "pool": 5, "zero": 32, "dry_run": true, "linear_ok": false}'
	meta finish a.img base pool --yes
	expect 0 <<<"'base': copied 5 blocks from 'pool', and zeroed 32 blocks"
	meta --json finish a.img base pool --yes
	expect 0 <<<'{"device": "a.img", "blocks": 68, "in_use": false, "base": "base", "pool_device": "pool", "pool": 0, "zero": 0, "dry_run": false, "linear_ok": true}'
}

@test "finish: zeros need no pool" {
	meta make a.img --sectors 4096 - <<<'6,20,z'
	head -c 2M /dev/urandom >base
	cp base right
	dd if=/dev/zero of=right bs=4k seek=6 count=32 conv=notrunc status=none
	meta finish a.img base - --yes
	expect 0 <<<"'base': copied 0 blocks from '-', and zeroed 32 blocks"
	cmp base right
	# But for a block that is in one.
	meta make b.img --sectors 4096 - <<<'0,1,p0;6,20,z'
	cp right base
	meta finish b.img base - --yes
	[ "$status" -ne 0 ]
	[[ $output == *"beyond the end of the pool"* ]]
	cmp right base
}

@test "finish: bits, epoch and version stay, hydration ends" {
	make_image a.img flags=0x31 hydrate_mib=9 committed=6 meta_blocks=70 volume_sectors=12288 \
		dirty=1,1 frozen=0,2 word=1,zero,0
	"$build/mkmeta" super a.img 0 flags=0x31 seq=50
	head -c 6M /dev/urandom >base
	cp base right
	dd if=/dev/zero of=right bs=2M count=1 seek=1 conv=notrunc status=none
	truncate -s 32K pool
	meta finish a.img base pool --yes
	[ "$status" -eq 0 ]
	cmp base right
	meta dirty a.img
	expect 0 <<<'1,1'
	meta dirty a.img --frozen
	expect 0 <<<'0,2'
	meta --json dump a.img
	for copy in 0 1; do
		[ "$(field "['superblocks'][$copy]['flags']")" = \
			"0x00000015 frozen linear_ok table" ]
		[ "$(field "['superblocks'][$copy]['seq']")" = 51 ]
		[ "$(field "['superblocks'][$copy]['hydrate_mib']")" = 0 ]
		[ "$(field "['superblocks'][$copy]['version_nr']")" = 3 ]
	done
}

@test "finish: one copy of the superblock is damaged" {
	half_home 3 20000
	"$build/mkmeta" flip a.img 120 1
	meta finish a.img base pool --yes
	[ "$status" -eq 0 ]
	cmp base right
	meta --json dump a.img
	[ "$(field '["superblocks"][0]["flags"]')" = "0x00000016 lost linear_ok table" ]
	[ "$(field '["superblocks"][0]["seq"]')" = $((2 ** 32 + 2)) ]
	[ "$(field '["superblocks"][1]["seq"]')" = $((2 ** 32 + 2)) ]
}

# bats test_tags=slow
@test "finish: killed at any moment, and begun again" {
	local sectors=200000 killed=0 round
	half_home 7 "$sectors"
	cp a.img before.img
	for round in {1..8}; do
		"$build/bin/revdedup-meta" finish --yes a.img base pool >/dev/null 3>&- &
		claimer=$!
		sleep "0.$((RANDOM % 5))$((RANDOM % 9))"
		kill -9 "$claimer" 2>/dev/null || :
		wait "$claimer" || killed=$((killed + 1))
		claimer=''
		if cmp -s a.img before.img; then
			continue
		fi
		# The table stands until everything is home; then off with it again.
		cmp base right
		cp before.img a.img
		python3 "$BATS_TEST_DIRNAME/places.py" away "$sectors" text base
	done
	echo "killed $killed times in $round rounds"
	"$build/bin/revdedup-meta" finish --yes a.img base pool
	cmp base right
	[[ $("$build/bin/revdedup-meta" dump a.img) == *"linear_ok table"*"linear_ok table"* ]]
}

@test "finish: what it refuses" {
	meta make a.img --sectors 12288 - <<<'0,1,z;200,200,p200;400,1,p9'
	head -c 6M /dev/urandom >base
	head -c 4M /dev/urandom >pool
	cp a.img before.img
	cp base before

	meta finish a.img base pool </dev/null
	unchanged 2 <<<"revdedup-meta: 'finish' writes to 'base' and cannot ask here: add --yes or --dry-run (try --help)"
	truncate -s 6291455 base before
	meta finish --yes a.img base pool
	unchanged 1 <<<"revdedup-meta: 'base' is too small: it has 12287 sectors, the volume has 12288"
	truncate -s 6M base before
	truncate -s 4194303 pool
	meta finish --yes a.img base pool
	unchanged 1 <<-'END'
		revdedup-meta: blocks 200,200,p200 lie beyond the end of the pool, which has 3ff blocks
		revdedup-meta: nothing was changed
		revdedup-meta: check that 'pool' is the right pool
	END
	truncate -s 4M pool
	meta finish --yes a.img base base
	unchanged 1 <<<"revdedup-meta: 'base' is given twice: as the pool, and as the base or the metadata"
	meta finish --yes a.img base a.img
	unchanged 1 <<<"revdedup-meta: 'a.img' is given twice: as the pool, and as the base or the metadata"
	meta finish --yes a.img a.img pool
	unchanged 1 <<<"revdedup-meta: cannot open 'a.img': Device or resource busy"
	meta finish --yes a.img no-such-file pool
	unchanged 1 <<<"revdedup-meta: cannot open 'no-such-file': No such file or directory"
	meta finish --yes a.img base no-such-file
	unchanged 1 <<<"revdedup-meta: cannot open 'no-such-file': No such file or directory"
	meta finish --yes a.img base .
	unchanged 1 <<<"revdedup-meta: cannot open '.': neither a block device nor a file"

	# The pool of somebody else.
	"$build/mkmeta" super a.img 67 pool_uuid=0x41
	"$build/mkmeta" super a.img 0 pool_uuid=0x41
	cp a.img before.img
	printf 'RVDPOOL\n%-8sBBBBBBBBBBBBBBBB' '' | dd of=pool conv=notrunc status=none
	meta finish --yes a.img base pool
	unchanged 1 <<<"revdedup-meta: 'pool' is not the pool of 'a.img'"
	printf 'RVDPOOL\n%-8sAAAAAAAAAAAAAAAA' '' | dd of=pool conv=notrunc status=none
	meta finish --dry-run a.img base pool
	[ "$status" -eq 0 ]

	"$build/mkmeta" super a.img 0 flags=0x18
	cp a.img before.img
	meta finish --yes a.img base pool
	unchanged 4 <<<"revdedup-meta: 'a.img': the remap table is incomplete, so the location of some blocks is unknown"
	"$build/mkmeta" super a.img 0 flags=0x10 compat_ro=2
	cp a.img before.img
	meta finish --yes a.img base pool
	unchanged 1 <<<"revdedup-meta: 'a.img' has unknown features that allow reading only (compat_ro 0x2)"
}

@test "finish: damage is listed, and nothing changed" {
	meta make a.img --sectors 12288 - <<<'0,1,z;200,200,p200;400,1,p9'
	head -c 6M /dev/urandom >base
	head -c 4M /dev/urandom >pool
	"$build/mkmeta" flip a.img $(((66 + 2) * 4096 + 8 * 7)) 5
	"$build/mkmeta" flip a.img $((3 * 4096 + 8)) 1
	cp a.img before.img
	cp base before
	for how in --yes --dry-run; do
		meta finish "$how" a.img base pool
		unchanged 4 <<-'END'
			revdedup-meta: the location of blocks 200,200 is unknown: block 3 of the metadata is damaged
			revdedup-meta: the location of blocks 407,1 is unknown: block 68 of the metadata is damaged
			revdedup-meta: nothing was changed
		END
	done
	dd if=/dev/zero of=a.img bs=4096 count=1 conv=notrunc status=none
	meta finish --yes a.img base pool
	[ "$status" -eq 4 ]
	[[ $output == *"restore the device from a backup"* ]]
	cmp base before
}

@test "make and finish: block devices, alone" {
	half_home 5 40000
	truncate -s 24M meta-disk base right
	loop=$(losetup --find --show meta-disk 2>&1) || skip "no loop device: $loop"
	loops+=("$loop")
	local disk pool
	disk=$(losetup --find --show base)
	loops+=("$disk")
	pool=$(losetup --find --show --read-only pool)
	loops+=("$pool")
	meta make "$loop" --sectors 40000 text
	[ "$status" -eq 0 ]
	for used in "$loop" "$disk"; do
		rm -f claimed
		python3 -c 'import os, sys, time
os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)
open("claimed", "w").close()
time.sleep(3600)' "$used" 3>&- &
		claimer=$!
		until [ -e claimed ]; do sleep 0.01; done
		for how in --yes --dry-run; do
			meta finish "$how" "$loop" "$disk" "$pool"
			expect 1 <<<"revdedup-meta: cannot open '$used': Device or resource busy"
		done
		if [ "$used" = "$loop" ]; then
			meta make "$loop" --force --sectors 40000 text
			expect 1 <<<"revdedup-meta: cannot open '$used': Device or resource busy"
		fi
		kill "$claimer"
		wait "$claimer" || :
		claimer=''
	done
	meta finish --yes "$loop" "$disk" "$pool"
	[ "$status" -eq 0 ]
	cmp "$disk" right
	meta table "$loop"
	expect 0 <<<'0,1388,b'
}

@test "output that does not arrive is a failure" {
	[ -w /dev/full ] || skip "no /dev/full"
	make_image a.img
	for verb in dump check; do
		run sh -c "'$build/bin/revdedup-meta' $verb a.img >/dev/full"
		expect 1 <<<"revdedup-meta: cannot write to 'stdout': No space left on device"
	done
}

@test "names in JSON" {
	make_image $'a"\\\n.img'
	meta --json check $'a"\\\n.img'
	[ "$status" -eq 0 ]
	[ "$(field '["device"]')" = $'a"\\\n.img' ]
}

@test "help and version" {
	meta --help
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "Usage: revdedup-meta [--json] dump DEVICE" ]
	meta --version
	[ "$status" -eq 0 ]
	[[ $output =~ ^revdedup-meta\ [0-9.]+,\ metadata\ format\ 1$ ]]
}

@test "wrong usage" {
	meta
	expect 2 <<<"revdedup-meta: no command given (try --help)"
	meta dump
	expect 2 <<<"revdedup-meta: 'dump' needs a device (try --help)"
	meta repair a.img
	expect 2 <<<"revdedup-meta: there is no command 'repair' (try --help)"
	meta dump a.img b.img
	expect 2 <<<"revdedup-meta: unexpected argument 'b.img' (try --help)"
	meta dump --frozen a.img
	expect 2 <<<"revdedup-meta: 'dump' does not take --frozen (try --help)"
	meta dump --yes --force a.img
	expect 2 <<<"revdedup-meta: 'dump' does not take --force (try --help)"
	meta make a.img
	expect 2 <<<"revdedup-meta: 'make' needs a device and a file of places (try --help)"
	meta make a.img /dev/null
	expect 2 <<<"revdedup-meta: 'make' needs --sectors (try --help)"
	meta make a.img /dev/null b.img --sectors 1
	expect 2 <<<"revdedup-meta: unexpected argument 'b.img' (try --help)"
	for sectors in 0 -1 1k 18446744073709551615 17592186044417 18446744073709551616; do
		meta make a.img /dev/null --sectors "$sectors"
		[ "$status" -eq 2 ]
		[ ! -e a.img ]
	done
	for uuid in 0 00112233-4455-6677-8899-aabbccddee0 00112233-4455-6677-8899-aabbccddee001 \
		00112233445566778899aabbccddee00 g0112233-4455-6677-8899-aabbccddee00; do
		meta make a.img /dev/null --sectors 1 --pool-uuid "$uuid"
		expect 2 <<<"revdedup-meta: not a UUID: '$uuid' (try --help)"
		meta make a.img /dev/null --sectors 1 --volume-uuid "$uuid"
		expect 2 <<<"revdedup-meta: not a UUID: '$uuid' (try --help)"
	done
	meta make a.img /dev/null --sectors
	expect 2 <<<"revdedup-meta: '--sectors' needs a value (try --help)"
	meta finish a.img b.img
	expect 2 <<<"revdedup-meta: 'finish' needs a device, the base and the pool (try --help)"
	meta dump --fix a.img
	expect 2 <<<"revdedup-meta: there is no option '--fix' (try --help)"
}
