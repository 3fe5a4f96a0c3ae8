#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The format of 'revdedupctl send' into a file: stream.py reads it by the text of
# Documentation/stream.rst, and has what 'dump' has.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

here=$BATS_TEST_DIRNAME

# make_disks [OPTION...]: of the pool. Four versions: noise and text; blocks that change, come back and become zeros; a longer disk,
# whose end is within a block; a shorter one, without its second segment.
make_disks() {
	must init pool --size 256M "$@"
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 6M 1.img
	blocks 1.img 0 600
	seq 200000 | dd of=1.img bs=4096 seek=1100 conv=notrunc status=none
	cp --sparse=always 1.img 2.img
	blocks 2.img 10 2
	dd if=/dev/zero of=2.img bs=4096 seek=20 count=3 conv=notrunc status=none
	dd if=/dev/zero of=2.img bs=4096 seek=1100 count=512 conv=notrunc status=none
	cp --sparse=always 2.img 3.img
	truncate -s $(((9 << 20) + 1536)) 3.img
	blocks 3.img 2300 2
	truncate -s $(((9 << 20) + 1536)) 3.img
	cp --sparse=always 3.img 4.img
	truncate -s 5M 4.img
	fallocate --punch-hole --offset 2M --length 2M 4.img
	for nr in 1 2 3 4; do
		must snapshot vg/vm1 --from "$nr.img"
	done
	mkdir out
}

# into FILE OPERAND...: what 'send' writes. Its report is on stderr.
into() {
	"$build/bin/revdedupctl" -q send "${@:2}" >"$1"
}

# are_the_same NUMBER...: the images that were made are those that the pool has.
are_the_same() {
	local nr
	for nr; do
		"$build/bin/revdedupctl" dump "vg/vm1@$nr" | cmp - "out/vg_vm1@$nr"
	done
}

@test "stream: a reader that was written by the page has what 'dump' has" {
	make_disks
	into all vg/vm1
	run "$here/stream.py" out <all
	expect 0 <<-'END'
		vg_vm1@1
		vg_vm1@2
		vg_vm1@3
		vg_vm1@4
	END
	are_the_same 1 2 3 4

	# Alone it has a gap: no segment is named between its first and its third.
	rm out/*
	into all vg/vm1@4
	run "$here/stream.py" out <all
	expect 0 <<<vg_vm1@4
	are_the_same 4
}

@test "stream: packs are in it as they lie" {
	make_disks --compression zstd:9
	into all vg/vm1
	"$here/stream.py" out <all
	are_the_same 1 2 3 4
	# Third byte from the end of the head of DATA: some are of groups, and some are not.
	run "$here/stream-relay.py" codecs <all
	[[ $output == *2* && $output == *[01]* ]]
}

@test "stream: a delta needs the image of its base, and knows it" {
	make_disks
	into base vg/vm1@2
	into part vg/vm1 --since 2
	"$here/stream.py" out <base
	"$here/stream.py" out <part
	are_the_same 2 3 4
	cp 1.img out/vg_vm1@2
	run "$here/stream.py" out <part
	expect 1 <<<"stream.py: vg_vm1@2 is another base"
}

@test "stream: another format, or a feature, is refused, and nothing changes" {
	local newer="nothing was changed; a newer revdedup reads it"
	make_disks
	must init there --size 256M
	"$build/bin/revdedupctl" send --all >whole 2>/dev/null
	cp whole later
	"$here/later.py" stream later 2
	sha256sum there/data >before
	ctl receive --pool there <later
	expect 1 <<-END
		revdedupctl: the stream uses a format that this program does not know
		revdedupctl: $newer
	END
	cp whole later
	"$here/later.py" stream-features later 8
	ctl receive --pool there <later
	expect 1 <<-END
		revdedupctl: the stream uses features that this program does not know
		revdedupctl: $newer
	END
	sha256sum --status -c before
	ctl list --pool there
	[ -z "$output" ]
}

@test "stream: a flipped bit, and a cut, are found by both readers" {
	make_disks
	into all vg/vm1
	size=$(stat -c %s all)
	for at in 6 9 30 $((size / 2)) $((size - 3)); do
		python3 -c 'import sys
data = bytearray(open("all", "rb").read())
data[int(sys.argv[1])] ^= 4
open("bad", "wb").write(data)' "$at"
		run "$here/stream.py" out <bad
		[ "$status" -eq 1 ]
		[[ $output == *"stream.py: "* ]]
		# Damage is not a format to come.
		[ "$at" != 6 ] || mv bad digit
	done
	head -c $((size - 1)) all >short
	run "$here/stream.py" out <short
	[ "$status" -eq 1 ]
	must init other --size 128M
	ctl receive --pool other <bad
	[ "$status" -eq 1 ]
	ctl receive --pool other <digit
	echo "$output"
	[[ $status -eq 1 && $output != *"newer"* ]]
	must receive --pool other <all
	must list --pool other
	[ "${#lines[@]}" -eq 5 ]
}
