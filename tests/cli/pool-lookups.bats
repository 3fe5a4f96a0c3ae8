#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# What inline snapshots look up, and what they read for it.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

make_inline() {
	must init pool --size 512M --pieces 64 --dedup inline
	export REVDEDUP_POOL=$PWD/pool
}

# image FILE MIB: of what is nowhere else.
image() {
	truncate -s "$2M" "$1"
	blocks "$1" 0 $(($2 * 256))
}

# shift_image FROM TO BLOCKS: the same, as many blocks behind, and what is new before it.
shift_image() {
	blocks "$2" 0 "$3"
	dd if="$1" of="$2" bs=4096 seek="$3" conv=notrunc status=none
	truncate -s %2M "$2"
}

# adds_up: does what the last snapshot looked up add up?
adds_up() {
	python3 -c 'import json, sys
c = json.load(sys.stdin)["lookups"]
assert c["asked"] == c["cache"] + c["unsampled"] + c["vector_no"] + c["index_asked"], c
sampled = c["cache_sampled"] + c["vector_no"] + c["index_asked"]
assert c["index_reads"] == {"neither": sampled, "vector": sampled - c["vector_no"],
    "cache": sampled - c["cache_sampled"], "both": c["index_asked"]}, c
' <<<"$output"
}

# cheap: the last snapshot asked for 16384 blocks or more, and read for 1 of 100 at most.
cheap() {
	local asked read
	asked=$(field 0 '["lookups"]["asked"]')
	read=$(($(field 0 '["lookups"]["index_asked"]') + $(field 0 '["lookups"]["pages_read"]')))
	echo "read $read times for $asked blocks"
	[ "$asked" -ge 16384 ] && [ $((read * 100)) -le "$asked" ]
	adds_up
}

reads() { field 0 "[\"lookups\"][\"index_reads\"][\"$1\"]"; }

@test "lookups: 99 of 100 blocks cost no read" {
	make_inline
	image 1.img 64
	shift_image 1.img 2.img 77
	# The vector is of use for what is new: 1 block of 16 is sampled.
	must snapshot vm1 --from 1.img --json
	cheap
	[ "$(reads vector)" -le 10 ]
	[ "$(reads cache)" -ge 900 ]
	# And the cache for what is there.
	must snapshot vm2 --from 2.img --json
	cheap
	[ "$(field 0 '["lookups"]["found"]')" -ge 16000 ]
	[ "$(reads vector)" -ge 900 ]
	[ "$(reads cache)" -le 100 ]
}

@test "lookups: what a snapshot looks up, and what it need not" {
	make_inline
	image 1.img 4
	shift_image 1.img 2.img 100
	cp 2.img 3.img
	blocks 3.img 30 5
	must snapshot vm1 --from 1.img --json
	adds_up
	# A shared image: the pool has its segments, so nothing is looked up.
	must snapshot twin --from 1.img --json
	[[ $output != *lookups* ]]
	must snapshot vm2 --from 2.img --json
	adds_up
	must snapshot vm2 --from 3.img --json
	adds_up
	[ "$(field 0 '["lookups"]["same_offset"]')" = 507 ]
	blocks 3.img 600 5
	must snapshot vm2 --from 3.img --dedup reverse --json
	[[ $output != *lookups* ]]
	# An index that is damaged is made anew.
	: >pool/index/1
	shift_image 2.img 4.img 3
	must snapshot vm4 --from 4.img
	[[ $output == *"part 1 of the index"*"is dropped"* ]]
	must restore vm4@1 --to back
	cmp back 4.img
	must check
}
