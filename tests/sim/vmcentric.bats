#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The emulator of VM-centric deduplication on images small enough to count by hand, as
# images.bash has them. The fingerprints of blocks of one letter each are, from the least:
# M U H F D P L T I K G Y A W B R N V O S E C J Q X Z. So the signature of "AXZ" is A.

bats_require_minimum_version 1.5.0
load ../pool/images

setup_file() {
	build_sanitized "$BATS_FILE_TMPDIR/vmcentric" "$BATS_TEST_DIRNAME/vmcentric.c" -lcrypto
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# expect: the program prints what standard input says, there with blocks for bytes.
expect() {
	"$BATS_FILE_TMPDIR/vmcentric" order >output
	diff - <(awk '$1 == "pds" { print $1, $2, $3 / 4096, $4 / 4096, $5; next }
		{ print $1, $2 / 4096 }' output)
}

# expect_found NONZERO DISTINCT CLEAN OFFSET SIMILAR ITSELF [OPTION...]: blocks; and that the
# rest is stored.
expect_found() {
	local stored=$(($1 - $3 - $4 - $5 - $6))
	"$BATS_FILE_TMPDIR/vmcentric" "${@:7}" order >output
	diff - <(sed -n '1,6p; /^pds 0 /p' output |
		awk '$1 == "pds" { print $1, $3, $4 / 4096; next } { print $1, $2 / 4096 }') <<-END
		nonzero $1
		distinct $2
		clean $3
		offset $4
		similar $5
		itself $6
		pds 0 $stored
	END
}

@test "no snapshot at all, and only zeros" {
	touch order
	for _ in 1 2; do
		expect <<-'END'
			nonzero 0
			distinct 0
			clean 0
			offset 0
			similar 0
			itself 0
			pds 0 0 0 100.00
			pds 2 0 0 100.00
			pds 4 0 0 100.00
			pds 25 0 0 100.00
			pds 100 0 0 100.00
		END
		snapshot vm1 1.img "" . ...
	done
}

@test "a segment that did not change is clean, one with a change is not" {
	snapshot vm1 1.img ABC DE
	snapshot vm1 2.img ABC DEF
	# ABC; then D and E at the same offset, and F.
	expect_found 11 6 3 2 0 0
}

@test "the same offset is asked before segments that are alike" {
	# The signature of both is A.
	snapshot vm1 1.img AB AC
	snapshot vm1 2.img ABX AC
	expect_found 9 4 2 2 0 0
}

@test "content that moved is found by the signature, and not without it" {
	# F is the least of the segment that moves, and is still there.
	snapshot vm1 1.img FAB "" ""
	snapshot vm1 2.img "" FAX ""
	expect_found 6 4 0 0 2 0
	expect_found 6 4 0 0 0 0 --similar 0
	# H is less than F: another signature.
	snapshot vm1 3.img "" "" FAXH
	expect_found 10 5 0 0 2 0
}

@test "zeros are no part of a signature" {
	snapshot vm1 1.img .A.B "" C
	snapshot vm1 2.img "" AB. C
	expect_found 6 3 1 0 2 0
}

@test "of segments that are alike, the first ones are asked, up to the limit" {
	# Each has F for a signature; A is in the fourth, that is the third other one.
	snapshot vm1 1.img F FB FC FA
	snapshot vm1 2.img FAX FB FC FA
	# F at the same offset.
	expect_found 16 5 6 1 1 0 --similar 3
	expect_found 16 5 6 1 0 0 --similar 2
}

@test "ten of them without an option" {
	local others=(F{B,D,E,G,I,J,K,L,N,O})
	snapshot vm1 1.img F "${others[@]}" FA
	snapshot vm1 2.img FA "${others[@]}" FA
	expect_found 47 12 22 1 0 0
	# One less between them.
	snapshot vm2 3.img F "${others[@]:1}" FA
	snapshot vm2 4.img FA "${others[@]:1}" FA
	expect_found 90 12 42 2 1 0
}

@test "content twice in a segment, in two segments, in two VMs" {
	snapshot vm1 1.img AAB
	expect_found 3 2 0 0 0 1
	snapshot vm1 2.img AAB A
	# A segment of its own, with A for a signature as the first has.
	expect_found 7 2 3 0 1 1
	# Nothing is known of other VMs, nor of a first version's other segments.
	snapshot vm2 3.img AB AB
	expect_found 11 2 3 0 1 1
}

@test "only the parent is asked, not the versions before" {
	snapshot vm1 1.img AB
	snapshot vm1 2.img X
	snapshot vm1 1.img
	expect_found 5 3 0 0 0 0
}

@test "a volume that grows and shrinks" {
	snapshot vm1 1.img A
	snapshot vm1 2.img A B
	snapshot vm1 3.img A
	snapshot vm1 2.img
	expect_found 6 2 3 0 0 0
}

@test "popular content is stored once, the most popular first" {
	# In VMs' stores: A four times, B three times, C twice, D to S once.
	snapshot vm1 1.img ABCDEFG
	snapshot vm2 2.img ABCHIJK
	snapshot vm3 3.img ABLMNO
	snapshot vm4 4.img APQRS
	# Of 19 contents, 4 are 25 %.
	expect <<-'END'
		nonzero 25
		distinct 19
		clean 0
		offset 0
		similar 0
		itself 0
		pds 0 0 25 0.00
		pds 2 0 25 0.00
		pds 4 0 25 0.00
		pds 25 6 19 100.00
		pds 100 6 19 100.00
	END
	# 25 contents: 4 % of them is one, A.
	snapshot vm5 5.img TUVWXY
	expect <<-'END'
		nonzero 31
		distinct 25
		clean 0
		offset 0
		similar 0
		itself 0
		pds 0 0 31 0.00
		pds 2 0 31 0.00
		pds 4 3 28 50.00
		pds 25 6 25 100.00
		pds 100 6 25 100.00
	END
}

@test "a wrong command line is an error" {
	touch order
	run -2 "$BATS_FILE_TMPDIR/vmcentric"
	run -2 "$BATS_FILE_TMPDIR/vmcentric" a b
	run -2 "$BATS_FILE_TMPDIR/vmcentric" --similar x order
	run -2 "$BATS_FILE_TMPDIR/vmcentric" --similar 1x order
	run -1 "$BATS_FILE_TMPDIR/vmcentric" missing
}
