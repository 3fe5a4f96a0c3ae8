#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The rule of reverse deduplication on images small enough to count by hand, as
# images.bash has them.

bats_require_minimum_version 1.5.0

load images

setup_file() {
	build_sanitized "$BATS_FILE_TMPDIR/rule" "$BATS_TEST_DIRNAME/rule.c" -lcrypto -lzstd
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# expect: the program prints what standard input says, there with blocks for
# bytes and without the logical size, which has a test of its own.
expect() {
	"$BATS_FILE_TMPDIR/rule" order >output
	diff - <(awk '$1 == "after" { $4 /= 4096; print; next }
		$1 != "logical" { print $1, $2 / 4096 }' output)
}

@test "bytes, and an end that is not one of a block" {
	snapshot vm1 1.img A
	truncate -s 2100001 1.img
	block B 1 | dd of=1.img bs=1 seek=2100000 conv=notrunc status=none
	# The same block, with its zeros written.
	snapshot vm1 2.img A ...
	block B 1 | dd of=2.img bs=1 seek=2100000 conv=notrunc status=none
	"$BATS_FILE_TMPDIR/rule" order >output
	diff - output <<-'END'
		after vm1 1.img 8192 2
		after vm1 2.img 8192 0
		logical 6294305
		nonzero 16384
		distinct 8192
		distinct-segments 8192
		rule 8192
		closed 8192
	END
}

@test "an order file in another directory" {
	mkdir sub
	image "sub/1 1.img" A
	echo "vm1 1 1.img" >sub/order
	"$BATS_FILE_TMPDIR/rule" sub/order >output
	[ "$(head -n 1 output)" = "after vm1 1 1.img 4096 1" ]
}

@test "zeros cost nothing, written or not" {
	snapshot vm1 1.img "" .. "" .
	snapshot vm1 2.img "" "" .A
	snapshot vm1 3.img "" "" .
	expect <<-'END'
		after vm1 1.img 0 0
		after vm1 2.img 1 1
		after vm1 3.img 1 1
		nonzero 1
		distinct 1
		distinct-segments 1
		rule 1
		closed 1
	END
}

@test "an empty image, and no snapshot at all" {
	touch order
	expect <<-'END'
		nonzero 0
		distinct 0
		distinct-segments 0
		rule 0
		closed 0
	END
	snapshot vm1 1.img
	touch 1.img
	snapshot vm1 2.img A
	expect <<-'END'
		after vm1 1.img 0 0
		after vm1 2.img 1 1
		nonzero 1
		distinct 1
		distinct-segments 1
		rule 1
		closed 1
	END
}

@test "what did not change costs nothing" {
	snapshot vm1 1.img ABC DEF
	snapshot vm1 2.img ABC DEF
	expect <<-'END'
		after vm1 1.img 6 2
		after vm1 2.img 6 0
		nonzero 12
		distinct 6
		distinct-segments 6
		rule 6
		closed 6
	END
}

@test "the old segment keeps only what the new version has not" {
	snapshot vm1 1.img ABC DEF
	snapshot vm1 2.img ABX DEF
	expect <<-'END'
		after vm1 1.img 6 2
		after vm1 2.img 7 1
		nonzero 12
		distinct 7
		distinct-segments 9
		rule 7
		closed 7
	END
}

@test "content twice in a version: stored twice, given up twice" {
	# In one segment, in two segments, and a segment twice.
	snapshot vm1 1.img AAB AC DE DE
	expect <<-'END'
		after vm1 1.img 7 4
		nonzero 9
		distinct 5
		distinct-segments 7
		rule 7
		closed 7
	END
	# AAB keeps B, AC keeps C.
	snapshot vm1 2.img X A DE DE
	expect <<-'END'
		after vm1 1.img 7 4
		after vm1 2.img 6 2
		nonzero 15
		distinct 6
		distinct-segments 9
		rule 6
		closed 6
	END
}

@test "content that only old segments have twice stays twice" {
	snapshot vm1 1.img AB AC
	snapshot vm1 2.img X Y
	expect <<-'END'
		after vm1 1.img 4 2
		after vm1 2.img 6 2
		nonzero 6
		distinct 5
		distinct-segments 6
		rule 6
		closed 5
	END
}

@test "a segment that is in two places is superseded with the second" {
	snapshot vm1 1.img AB AB
	snapshot vm1 2.img AB XA
	snapshot vm1 3.img YA XA
	expect <<-'END'
		after vm1 1.img 2 2
		after vm1 2.img 4 1
		after vm1 3.img 5 1
		nonzero 12
		distinct 4
		distinct-segments 6
		rule 5
		closed 5
	END
}

@test "content that moved to another offset is given up" {
	snapshot vm1 1.img ABC D
	snapshot vm1 2.img ..A DC
	expect <<-'END'
		after vm1 1.img 4 2
		after vm1 2.img 4 2
		nonzero 7
		distinct 4
		distinct-segments 7
		rule 4
		closed 4
	END
}

@test "whole segments that moved are the same segments" {
	snapshot vm1 1.img AB CD
	snapshot vm1 2.img CD AB
	expect <<-'END'
		after vm1 1.img 4 2
		after vm1 2.img 4 2
		nonzero 8
		distinct 4
		distinct-segments 4
		rule 4
		closed 4
	END
}

@test "order within a segment counts" {
	snapshot vm1 1.img AB
	snapshot vm1 2.img BA
	expect <<-'END'
		after vm1 1.img 2 1
		after vm1 2.img 2 1
		nonzero 4
		distinct 2
		distinct-segments 4
		rule 2
		closed 2
	END
}

@test "a segment of two volumes: the last to leave it says what it gives up" {
	snapshot vm1 1.img ABC
	snapshot vm2 1.img
	snapshot vm1 2.img ABX
	snapshot vm2 3.img AYZ
	expect <<-'END'
		after vm1 1.img 3 1
		after vm2 1.img 3 1
		after vm1 2.img 6 1
		after vm2 3.img 8 1
		nonzero 12
		distinct 6
		distinct-segments 9
		rule 8
		closed 7
	END
}

@test "the same in the other order" {
	snapshot vm1 1.img ABC
	snapshot vm2 1.img
	snapshot vm2 3.img AYZ
	snapshot vm1 2.img ABX
	expect <<-'END'
		after vm1 1.img 3 1
		after vm2 1.img 3 1
		after vm2 3.img 6 1
		after vm1 2.img 7 1
		nonzero 12
		distinct 6
		distinct-segments 9
		rule 7
		closed 7
	END
}

@test "what another volume has does not count" {
	snapshot vm1 1.img AB
	snapshot vm2 2.img AX
	snapshot vm1 3.img Y
	expect <<-'END'
		after vm1 1.img 2 1
		after vm2 2.img 4 1
		after vm1 3.img 5 1
		nonzero 5
		distinct 4
		distinct-segments 5
		rule 5
		closed 4
	END
}

@test "a version that returns to old content makes it whole again" {
	snapshot vm1 1.img ABC
	snapshot vm1 2.img ABX
	snapshot vm1 1.img
	expect <<-'END'
		after vm1 1.img 3 1
		after vm1 2.img 4 1
		after vm1 1.img 4 1
		nonzero 9
		distinct 4
		distinct-segments 6
		rule 4
		closed 4
	END
}

@test "one that returns stays as it is, if that is said" {
	snapshot vm1 1.img A
	snapshot vm1 2.img AB
	snapshot vm2 2.img
	snapshot vm1 1.img
	echo "1.img 0" >staying
	"$BATS_FILE_TMPDIR/rule" order staying >output
	cat output
	[ "$(awk '$1 == "rule" { print $2 / 4096 }' output)" = 2 ]
	[ "$("$BATS_FILE_TMPDIR/rule" order | awk '$1 == "rule" { print $2 / 4096 }')" = 3 ]
}

@test "another volume takes a segment that had given up blocks" {
	snapshot vm1 1.img ABC
	snapshot vm1 2.img ABX
	snapshot vm2 1.img
	# Superseded again, it gives up less than the first time.
	snapshot vm2 3.img AY
	expect <<-'END'
		after vm1 1.img 3 1
		after vm1 2.img 4 1
		after vm2 1.img 6 1
		after vm2 3.img 7 1
		nonzero 11
		distinct 5
		distinct-segments 8
		rule 7
		closed 6
	END
}

@test "what was superseded once gives up nothing to later versions" {
	snapshot vm1 1.img ABC
	snapshot vm1 2.img X
	snapshot vm1 3.img ABY
	expect <<-'END'
		after vm1 1.img 3 1
		after vm1 2.img 4 1
		after vm1 3.img 7 1
		nonzero 7
		distinct 5
		distinct-segments 7
		rule 7
		closed 5
	END
}

@test "a volume that grows and shrinks" {
	snapshot vm1 1.img AB
	snapshot vm1 2.img AB CD
	snapshot vm1 3.img D
	snapshot vm1 2.img
	expect <<-'END'
		after vm1 1.img 2 1
		after vm1 2.img 4 1
		after vm1 3.img 4 2
		after vm1 2.img 4 2
		nonzero 11
		distinct 4
		distinct-segments 5
		rule 4
		closed 4
	END
}

@test "a wrong command line, file or order is an error" {
	run -2 "$BATS_FILE_TMPDIR/rule"
	run -2 "$BATS_FILE_TMPDIR/rule" a b c
	run -1 "$BATS_FILE_TMPDIR/rule" missing
	echo "vm1 missing.img" >order
	run -1 "$BATS_FILE_TMPDIR/rule" order
	[[ $output == *"'missing.img'"* ]]
	for line in vm1 "vm1 " " 1.img" ""; do
		echo "$line" >order
		run -1 "$BATS_FILE_TMPDIR/rule" order
		[[ $output == *"line 1"* ]]
	done
	snapshot vm1 1.img A
	echo "vm1 1.img" >order
	run -1 "$BATS_FILE_TMPDIR/rule" order missing
	echo "1.img" >staying
	run -1 "$BATS_FILE_TMPDIR/rule" order staying
	[[ $output == *"line 1"* ]]
}
