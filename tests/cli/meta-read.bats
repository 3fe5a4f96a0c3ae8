#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedup-meta dump, dirty and check: what they say of devices, sound and damaged.
# shellcheck disable=SC2154 # by lib.bash
load meta

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

@test "blocks that are remapped, but none into a pool" {
	make_image a.img flags=0x50 meta_blocks=80 volume_sectors=8192 word=1,zero,0
	meta dump a.img
	[ "$status" -eq 0 ]
	[[ $output == *"flags           0x00000050 table no_pool"* ]]
	[[ $output == *"a target would load it" ]]
	meta --json dump a.img
	[ "$(field '["target"]["needs_pool"]')" = False ]
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
	# One copy is damaged: the other still says what wrote it.
	for number in 0 15; do
		make_image a.img
		"$build/mkmeta" super a.img 15 format_version=2
		"$build/mkmeta" super a.img 0 format_version=2
		printf '\xff' | dd of=a.img bs=1 seek=$((number * 4096 + 200)) conv=notrunc status=none
		meta check a.img
		expect 1 <<-'END'
			revdedup-meta: 'a.img': the metadata's format version is not supported
			revdedup-meta: use a later version of dm-revdedup and of this program; do not format the device
		END
	done
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

# bats test_tags=slow
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
time.sleep(3600)' "$loop" 3>&- &
	claimer=$!
	until [ -e claimed ]; do sleep 0.01; done
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
