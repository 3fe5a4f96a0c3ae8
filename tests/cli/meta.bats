#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedup-meta through its command line: its exact output, and its exit codes. BUILD is
# where tests/unit/Makefile built it with sanitizers.

# shellcheck disable=SC2154 # by lib.bash
load lib

setup() { cli_setup; }
teardown() {
	local disk
	[ ! -d mnt ] || umount mnt 2>/dev/null || :
	for disk in "${loops[@]}"; do
		[ "$disk" = "$loop" ] || losetup --detach "$disk"
	done
	cli_teardown "${claimer:-}"
}
loops=()

meta() {
	run "$build/bin/revdedup-meta" "$@"
}

make_image() {
	"$build/mkmeta" make "$@"
}

# tail_is STATUS: the same for the last lines only, as many as are given.
tail_is() {
	local wanted
	wanted=$(cat)
	output=$(tail -n "$(wc -l <<<"$wanted")" <<<"$output")
	expect "$1" <<<"$wanted"
}

field() {
	python3 -c 'import json, sys; print(json.load(sys.stdin)'"$1"')' \
		<<<"$output"
}

@test "dump: a device with a waiting checkpoint" {
	make_image a.img flags=5 committed=6 seq=42 dirty=0,2 "dirty=3c,a;3e7,1" \
		frozen=1f4,1
	meta dump a.img
	expect 0 <<-'END'
		'a.img': 16 blocks of 4 KiB

		superblock copy A, block 0: good
		  format_version  1
		  meta_uuid       10111213-1415-1617-1819-1a1b1c1d1e1f
		  volume_uuid     20212223-2425-2627-2829-2a2b2c2d2e2f
		  pool_uuid       -
		  compat          0x00000000
		  compat_ro       0x00000000
		  incompat        0x00000000
		  flags           0x00000005 frozen linear_ok
		  seq             42
		  volume_sectors  4096000
		  meta_blocks     16
		  epoch           7
		  committed       6
		  version_nr      3
		  lost_epoch      0
		  hydrate_mib     0
		  csum            0x3e312adb

		superblock copy B, block 15: good
		  format_version  1
		  meta_uuid       10111213-1415-1617-1819-1a1b1c1d1e1f
		  volume_uuid     20212223-2425-2627-2829-2a2b2c2d2e2f
		  pool_uuid       -
		  compat          0x00000000
		  compat_ro       0x00000000
		  incompat        0x00000000
		  flags           0x00000005 frozen linear_ok
		  seq             42
		  volume_sectors  4096000
		  meta_blocks     16
		  epoch           7
		  committed       6
		  version_nr      3
		  lost_epoch      0
		  hydrate_mib     0
		  csum            0xd0349835

		group 0, segments 0 to 999
		  block 2, epoch 7: current, 13 dirty
		  block 1, epoch 6: frozen, 1 dirty

		state: copy A, epoch 7, version 3, tracking ok, 13 of 1000 segments dirty
		checkpoint 7 is neither committed nor aborted: 1 segments frozen
		a target would load it
	END
}

@test "dump: two groups, a damaged bitmap, a stale one" {
	make_image a.img volume_sectors=$((40000 * 4096)) dirty=0,1 dirty=9c3f,1
	"$build/mkmeta" flip a.img $((4 * 4096 + 77)) 3
	meta dump a.img
	tail_is 0 <<-'END'
		group 0, segments 0 to 32255
		  block 2, epoch 7: current, 1 dirty
		  block 1, epoch 6: not in use
		group 1, segments 32256 to 39999
		  block 4, damaged: current, 7744 dirty
		  block 3, epoch 6: not in use

		state: copy A, epoch 7, version 3, tracking ok, 7745 of 40000 segments dirty
		a target would load it
	END

	# A checkpoint that found nothing written since the one before.
	"$build/mkmeta" super a.img 0 epoch=8 seq=43
	meta dump a.img
	tail_is 0 <<-'END'
		group 0, segments 0 to 32255
		  block 1, epoch 6: current, 0 dirty
		  block 2, epoch 7: not in use
		group 1, segments 32256 to 39999
		  block 3, epoch 6: current, 0 dirty
		  block 4, damaged: not in use

		state: copy A, epoch 8, version 3, tracking ok, 0 of 40000 segments dirty
		a target would load it
	END
}

@test "dump --json says the same" {
	make_image a.img flags=0x15 meta_blocks=1100 committed=6 dirty=0,2 frozen=5,3
	meta --json dump a.img
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 1 ]
	[ "$(field '["blocks"]')" = 1100 ]
	[ "$(field '["in_use"]')" = False ]
	[ "$(field '["superblocks"][1]["block"]')" = 1099 ]
	[ "$(field '["superblocks"][1]["state"]')" = good ]
	[ "$(field '["superblocks"][0]["flags"]')" = \
		"0x00000015 frozen linear_ok table" ]
	[ "$(field '["groups"][0]["bitmaps"][1]["set"]')" = frozen ]
	[ "$(field '["groups"][0]["bitmaps"][1]["dirty"]')" = 3 ]
	[ "$(field '["target"]["action"]')" = load ]
	[ "$(field '["target"]["dirty"]')" = 2 ]
	[ "$(field '["target"]["frozen"]')" = 3 ]
	[ "$(field '["target"]["waits"]')" = True ]
}

@test "dirty: ranges as the messages have them" {
	make_image a.img flags=5 committed=6 dirty=0,2 "dirty=3c,a;3e7,1" \
		frozen=1f4,1
	meta dirty a.img
	expect 0 <<<$'0,2\n3c,a\n3e7,1'
	meta dirty --frozen a.img
	expect 0 <<<'1f4,1'
	meta --json dirty a.img
	expect 0 <<<'{"device": "a.img", "blocks": 16, "in_use": false, "set": "current", "epoch": 7, "tracking": "ok", "segments": 1000, "ranges": [[0, 2], [60, 10], [999, 1]], "dirty": 13}'
	meta --json --frozen dirty a.img
	expect 0 <<<'{"device": "a.img", "blocks": 16, "in_use": false, "set": "frozen", "epoch": 6, "tracking": "ok", "segments": 1000, "ranges": [[500, 1]], "dirty": 1}'
}

@test "dirty: nothing, and no frozen set" {
	make_image a.img
	meta dirty a.img
	expect 0 </dev/null
	meta --json dirty a.img
	[ "$(field '["ranges"]')" = "[]" ]
	meta dirty --frozen a.img
	expect 1 <<<"revdedup-meta: 'a.img': no checkpoint is pending, so there is no frozen set"
}

@test "dirty: everything, with the lost mark or one copy" {
	make_image a.img flags=6 lost_epoch=7 dirty=0,2
	meta dirty a.img
	expect 0 <<-'END'
		revdedup-meta: tracking was lost in epoch 7: every segment counts as dirty
		0,3e8
	END
	make_image a.img dirty=0,2
	"$build/mkmeta" flip a.img $((15 * 4096 + 200)) 0
	meta dirty a.img
	expect 0 <<-'END'
		revdedup-meta: tracking was lost in epoch 7: every segment counts as dirty
		0,3e8
	END
}

@test "check: fine" {
	make_image a.img dirty=0,2
	meta check a.img
	expect 0 <<-'END'
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is fine
	END
	meta check --json a.img
	expect 0 <<<'{"device": "a.img", "blocks": 16, "in_use": false, "findings": [], "checked": {"superblocks": 2, "bitmap_blocks": 2, "words": 0, "pages": 0}, "damaged": 0, "unreadable": 0, "fine": true}'
}

@test "check: notes are not damage" {
	make_image a.img flags=7 committed=6 lost_epoch=5 compat=2 compat_ro=1
	"$build/mkmeta" super a.img 0 seq=44
	truncate -s 81920 a.img
	meta check a.img
	expect 0 <<-'END'
		note: block 15: superblock copy B is 2 behind copy A: a crash came between their writes, or one failed
		    a target loads copy A and rewrites copy B
		note: block 0: unknown features, which do no harm (compat 0x2)
		    a target ignores them
		note: block 0: unknown features that allow reading only (compat_ro 0x1)
		    a target accepts only a read-only table
		note: block 0: the device has grown from 16 to 20 blocks
		    a target uses the new space after its next resume
		note: block 0: tracking was lost in epoch 5
		    a target treats every segment as dirty until a later checkpoint is committed
		note: block 0: checkpoint 7 is neither committed nor aborted
		    a target keeps the frozen set until commit or abort
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is fine
	END
}

@test "check: one damaged superblock" {
	make_image a.img
	"$build/mkmeta" flip a.img 120 7
	meta check a.img
	expect 4 <<-'END'
		damage: block 0: superblock copy A: the superblock is damaged (checksum)
		    a target uses copy B, treats every segment as dirty (tracking lost), and rewrites this copy
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is not fine: 1 damaged, 0 unreadable
	END
	meta check --json a.img
	[ "$status" -eq 4 ]
	[ "$(field '["fine"]')" = False ]
	[ "$(field '["findings"][0]["severity"]')" = damage ]
}

@test "check: copy B of another life of the device, with a greater number" {
	make_image a.img
	"$build/mkmeta" super a.img 15 meta_uuid=0x99 seq=1000 epoch=500 committed=500
	meta check a.img
	expect 4 <<-'END'
		damage: block 15: superblock copy B was left by an earlier format of the device (other metadata UUID)
		    a target uses copy A, treats every segment as dirty (tracking lost), and rewrites this copy
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is not fine: 1 damaged, 0 unreadable
	END
	meta dump a.img
	tail_is 0 <<-'END'
		state: copy A, epoch 7, version 3, tracking lost, 1000 of 1000 segments dirty
		a target would load it
	END
}

@test "check: swapped copies" {
	make_image a.img
	dd if=a.img of=b.img bs=4096 count=1 seek=15 status=none
	dd if=a.img of=b.img bs=4096 count=1 skip=15 conv=notrunc status=none
	meta check b.img
	expect 4 <<-'END'
		damage: block 0: superblock copy A: the superblock is damaged (checksum)
		    see below
		damage: block 15: superblock copy B: the superblock is damaged (checksum)
		    see below
		damage: block 0: a target refuses the device: the superblock is damaged (checksum)
		    restore it from a backup; if no block of the volume is remapped, zero the first and the last 4 KiB to start afresh, with every segment dirty
		checked: 2 superblocks, 0 bitmap blocks, 0 words, 0 pages
		'b.img' is not fine: 3 damaged, 0 unreadable
	END
	meta dirty b.img
	expect 4 <<-'END'
		revdedup-meta: 'b.img': the superblock is damaged (checksum)
		revdedup-meta: restore it from a backup; if no block of the volume is remapped, zero the first and the last 4 KiB to start afresh, with every segment dirty
	END
}

@test "check: bitmaps damaged, and of an epoch that has not come" {
	make_image a.img flags=5 committed=6
	"$build/mkmeta" flip a.img $((1 * 4096 + 999)) 1
	"$build/mkmeta" flip a.img $((2 * 4096 + 8)) 1
	meta check a.img
	expect 4 <<-'END'
		note: block 0: checkpoint 7 is neither committed nor aborted
		    a target keeps the frozen set until commit or abort
		damage: block 2: current bitmap of group 0 is damaged (checksum)
		    a target treats the segments of the group as dirty
		damage: block 1: frozen bitmap of group 0 is damaged (checksum)
		    a target treats the segments of the group as dirty in the frozen set
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is not fine: 2 damaged, 0 unreadable
	END

	# Superblocks put back that are older than the bitmaps.
	make_image a.img epoch=9 committed=9
	"$build/mkmeta" super a.img 15 epoch=7 committed=7
	"$build/mkmeta" super a.img 0 epoch=7 committed=7
	meta check a.img
	expect 4 <<-'END'
		damage: block 2: current bitmap of group 0 is of epoch 9, which has not begun
		    a target treats the segments of the group as dirty
		damage: block 1: spare bitmap of group 0 is of epoch 8, which has not begun
		    no effect now; a target treats the segments of the group as dirty if it loads after the next checkpoint
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is not fine: 2 damaged, 0 unreadable
	END
}

@test "check: words and pages, once they mean something" {
	make_image a.img flags=0x10 meta_blocks=1100 word=3,pool,512 word=4,page,0 \
		word=5,zero,0
	meta check a.img
	# The page that word 4 names was never written: all zeros.
	expect 4 <<-'END'
		damage: block 70: the page of segment 4: 512 of 512 entries are invalid, the first is that of block 2048 of the volume
		    the location of these blocks is unknown
		checked: 2 superblocks, 2 bitmap blocks, 1000 words, 1 pages
		'a.img' is not fine: 1 damaged, 0 unreadable
	END
	"$build/mkmeta" flip a.img $((3 * 4096 + 8 * 9)) 5
	"$build/mkmeta" flip a.img $((3 * 4096 + 8 * 8)) 5
	meta check a.img
	[ "$status" -eq 4 ]
	[[ $output == *"damage: block 3: the words of segments 0 to 511: 2 are invalid, the first is that of segment 8"* ]]

	# The same with LINEAR_OK: nobody looks.
	"$build/mkmeta" super a.img 1099 flags=0x14
	"$build/mkmeta" super a.img 0 flags=0x14
	meta check a.img
	expect 0 <<-'END'
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is fine
	END
}

@test "check: an incomplete table" {
	make_image a.img flags=0x1c meta_blocks=1100
	meta check a.img
	expect 4 <<-'END'
		damage: block 0: a batch of changes to the remap table was cut off
		    a target refuses the device until the batch is repeated
		checked: 2 superblocks, 2 bitmap blocks, 0 words, 0 pages
		'a.img' is not fine: 1 damaged, 0 unreadable
	END
}

@test "check: a page that its word counts wrongly, and what lies beyond the end" {
	"$build/bin/revdedup-meta" make b.img --sectors 8200 - <<<'0,1,z;2,3,p9;400,1,p9'
	meta check b.img
	expect 0 <<-'END'
		checked: 2 superblocks, 2 bitmap blocks, 3 words, 2 pages
		'b.img' is fine
	END
	local entries
	mapfile -t entries < <(printf 'entry=%d,base,0\n' {0..511})
	make_image a.img flags=0x10 meta_blocks=80 volume_sectors=8200 word=0,page,0 \
		"${entries[@]}"
	meta check a.img
	expect 0 <<-'END'
		note: block 3: the word of segment 0 counts 0 blocks on the base and 0 of zeros, its page has 512 and 0: a crash came between their writes
		    the counts of a target are wrong until it reads the page
		checked: 2 superblocks, 2 bitmap blocks, 3 words, 1 pages
		'a.img' is fine
	END
	make_image a.img flags=0x30 hydrate_mib=20 meta_blocks=80 volume_sectors=8200 word=2,page,0 \
		entry=1024,pool,7 entry=1025,zero,0
	meta check a.img
	expect 0 <<-'END'
		note: block 0: blocks were being copied back to the base
		    a target continues to copy them
		note: block 68: the page of segment 2: 511 entries beyond the end of the volume are not BASE
		    no effect unless the volume grows
		checked: 2 superblocks, 2 bitmap blocks, 3 words, 1 pages
		'a.img' is fine
	END
	meta dump a.img
	[[ $output == *"flags           0x00000030 table hydrate"* ]]
	[[ $output == *"hydrate_mib     20"* ]]
	[[ $output == *"a target would load it, with the pool device" ]]
	meta --json dump a.img
	[ "$(field '["target"]["needs_pool"]')" = True ]
	[ "$(field '["target"]["why"]')" = None ]
}

@test "all zeros: not formatted yet" {
	truncate -s 1M a.img
	for verb in check dirty; do
		meta "$verb" a.img
		expect 1 <<-'END'
			revdedup-meta: 'a.img': the superblock is all zeros
			revdedup-meta: nothing to do: a target formats the device at its first resume, with every segment dirty
		END
	done
	meta dump a.img
	expect 1 <<-'END'
		'a.img': 256 blocks of 4 KiB

		superblock copy A, block 0: zero: the superblock is all zeros

		superblock copy B, block 255: zero: the superblock is all zeros

		a target would format it: the superblock is all zeros
		nothing to do: a target formats the device at its first resume, with every segment dirty
	END
}

@test "zeroed in front only" {
	make_image a.img
	dd if=/dev/zero of=a.img bs=4096 count=1 conv=notrunc status=none
	meta dirty a.img
	expect 4 <<-'END'
		revdedup-meta: 'a.img': the first block is zero, but the last one is a superblock or unreadable
		revdedup-meta: zero the first and the last 4 KiB to start afresh, with every segment dirty
	END
	# Never, where it would take the remap table along.
	make_image a.img flags=0x10 meta_blocks=1100
	dd if=/dev/zero of=a.img bs=4096 count=1 conv=notrunc status=none
	meta dirty a.img
	expect 4 <<-'END'
		revdedup-meta: 'a.img': the first block is zero, but the last one is a superblock or unreadable
		revdedup-meta: restore the device from a backup: its remap table says where blocks of the volume are
	END
}

@test "something else on the device" {
	mke2fs -q -F -t ext4 a.img 2M
	meta check a.img
	expect 1 <<-'END'
		revdedup-meta: 'a.img': not a revdedup metadata device (no magic), and not zeroed for one
		revdedup-meta: check that this is the right device; to have it formatted, zero its first 4 KiB
	END
	# And over what was ours.
	make_image b.img
	dd if=/dev/urandom of=b.img bs=512 count=1 conv=notrunc status=none
	meta check b.img
	tail_is 4 <<-'END'
		damage: block 0: a target refuses the device: not a revdedup metadata device (no magic), and not zeroed for one
		    copy B at the end is good, something overwrote the beginning; zero the first and the last 4 KiB to start afresh, with every segment dirty
		checked: 2 superblocks, 0 bitmap blocks, 0 words, 0 pages
		'b.img' is not fine: 2 damaged, 0 unreadable
	END
}

@test "a version and a feature to come" {
	make_image a.img
	"$build/mkmeta" super a.img 15 format_version=2
	"$build/mkmeta" super a.img 0 format_version=2
	meta check a.img
	expect 1 <<-'END'
		revdedup-meta: 'a.img': the metadata's format version is not supported
		revdedup-meta: use a later version of dm-revdedup and of this program; do not format the device
	END
	make_image a.img
	"$build/mkmeta" super a.img 0 incompat=0x80
	meta check a.img
	expect 1 <<-'END'
		revdedup-meta: 'a.img': the metadata uses a feature that is not supported (incompat)
		revdedup-meta: use a later version of dm-revdedup and of this program; do not format the device
	END
}

@test "cut off" {
	make_image a.img
	for size in 61440 4096 4097 65535; do
		cp a.img b.img
		truncate -s "$size" b.img
		meta check b.img
		tail_is 4 <<-'END'
			damage: block 0: a target refuses the device: the metadata device is smaller than when it was formatted
			    extend it to its former size (lvextend), or copy the whole metadata image again
			checked: 2 superblocks, 0 bitmap blocks, 0 words, 0 pages
			'b.img' is not fine: 2 damaged, 0 unreadable
		END
	done
	truncate -s 4095 b.img
	meta check b.img
	expect 1 <<-'END'
		revdedup-meta: 'b.img': the metadata device is too small: it needs 4 blocks of 4 KiB at least
		revdedup-meta: use a larger device
	END
}

@test "every flipped bit of a superblock is found" {
	make_image a.img
	for ((bit = 0; bit < 4096; bit += 41)); do
		"$build/mkmeta" flip a.img $((15 * 4096 + bit / 8)) $((bit % 8))
		meta check a.img
		[ "$status" -eq 4 ]
		[[ $output == *"superblock copy B"* ]]
		"$build/mkmeta" flip a.img $((15 * 4096 + bit / 8)) $((bit % 8))
	done
}

@test "nothing is written" {
	make_image a.img dirty=0,2
	"$build/mkmeta" flip a.img 120 7
	chmod 400 a.img
	cp -p a.img b.img
	for verb in dump check dirty; do
		meta "$verb" a.img
	done
	cmp a.img b.img
	[ "$(stat -c %Y a.img)" = "$(stat -c %Y b.img)" ]
}

@test "a block device, and one in use" {
	make_image a.img dirty=0,2
	loop=$(losetup --find --show a.img 2>&1) || skip "no loop device: $loop"
	meta dirty "$loop"
	expect 0 <<<'0,2'
	# Claimed as device-mapper claims what it uses.
	python3 -c 'import os, sys, time
os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)
open("claimed", "w").close()
time.sleep(60)' "$loop" 3>&- &
	claimer=$!
	until [ -e claimed ]; do sleep 0.1; done
	meta dirty "$loop"
	kill "$claimer"
	expect 0 <<-END
		revdedup-meta: warning: '$loop' is in use, and its content may be changing; ask the target instead (dmsetup message)
		0,2
	END
}

@test "what cannot be opened" {
	meta check no-such-file
	expect 1 <<<"revdedup-meta: cannot open 'no-such-file': No such file or directory"
	meta check .
	expect 1 <<<"revdedup-meta: cannot open '.': neither a block device nor a file"
	mkfifo fifo
	meta check fifo
	expect 1 <<<"revdedup-meta: cannot open 'fifo': neither a block device nor a file"
}

# --- make and table

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

# refused TEXT WHAT: no file is left of it.
refused() {
	printf '%b' "$1" >text
	meta make a.img --sectors 4096 text
	expect 1 <<<"revdedup-meta: 'text', line $2"
	[ ! -e a.img ]
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
	flock a.img sleep 60 3>&- &
	claimer=$!
	until ! flock -n a.img true; do sleep 0.1; done
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

# --- finish

# half_home SEED SECTORS: a table, a base and a pool; what is right, in `right`.
half_home() {
	python3 "$BATS_TEST_DIRNAME/places.py" random "$1" $((($2 + 7) / 8)) 8192 >text
	rm -f a.img
	"$build/bin/revdedup-meta" make a.img --sectors "$2" text >/dev/null
	[ -e pool ] || head -c 32M /dev/urandom >pool
	head -c $(($2 * 512 + 5000)) /dev/urandom >base
	cp base right
	python3 "$BATS_TEST_DIRNAME/places.py" apply "$2" text right pool
}

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

# unchanged STATUS: it was refused, with the text from standard input.
unchanged() {
	expect "$1"
	cmp a.img before.img
	cmp base before
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
time.sleep(60)' "$used" 3>&- &
		claimer=$!
		until [ -e claimed ]; do sleep 0.1; done
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
