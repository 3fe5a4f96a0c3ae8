#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# recompress: all that a pool has is stored in the other way, and stays what it is.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by lib.bash
load pool

# text FILE FIRST NR SEED: fill these blocks with what is nowhere else, and compresses.
text() {
	python3 -c 'import random, sys
first, nr, seed = map(int, sys.argv[2:])
r = random.Random(seed)
words = [bytes(r.choices(b"abcdefghij \n", k=r.randint(3, 12))) for _ in range(300)]
with open(sys.argv[1], "r+b") as f:
    f.seek(first * 4096)
    for _ in range(nr):
        f.write(b"".join(r.choices(words, k=700))[:4096].ljust(4096, b"."))' "$@"
}

# make_texts POOL-OPTION...: three versions of a disk of 12 MiB, some of which does not compress.
make_texts() {
	local nr
	must init pool --size 512M "$@"
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 12M 1.img
	text 1.img 0 2000 1
	blocks 1.img 2100 700
	cp --sparse=always 1.img 2.img
	text 2.img 600 30 2
	blocks 2.img 2300 5
	cp --sparse=always 2.img 3.img
	text 3.img 100 700 3
	for nr in 1 2 3; do must snapshot vm1 --from $nr.img; done
}

data_kib() { du -k pool/data | cut -f1; }

# all_is_right: each version, by restore and by scrub; and the counts.
all_is_right() {
	local nr
	for nr in 1 2 3; do
		"$build/bin/revdedupctl" dump vm1@$nr >dumped
		cmp dumped $nr.img
	done
	must check
	must scrub
}

nr_packs() { sqlite3 -readonly pool/catalog.db "SELECT count(*) FROM pack"; }

@test "recompress wants to know what to store content with" {
	must init pool --size 512M
	ctl -p pool recompress
	[ "$status" -eq 2 ]
	[[ $output == *"'recompress' needs none|zstd"* ]]
	for wrong in "" gzip zstd: zstd:0 zstd:10 zstd:-6 zstd:1x; do
		ctl -p pool recompress "$wrong"
		[ "$status" -eq 2 ]
		[[ $output == *"none, zstd, or zstd:LEVEL"* ]]
	done
}

# bats test_tags=slow
@test "a pool that was raw is packed, and raw again" {
	make_texts --compression none
	raw=$(data_kib)
	[ "$(nr_packs)" -eq 0 ]
	must recompress zstd --json
	[ "$(field 0 '["bytes_after"]')" -lt "$(field 0 '["bytes_before"]')" ]
	packed=$(data_kib)
	[ $((packed * 10)) -lt $((raw * 8)) ]
	[ "$(nr_packs)" -gt 0 ]
	all_is_right
	# What is new is packed, too.
	cp --sparse=always 3.img 4.img
	text 4.img 1024 512 4
	must snapshot vm1 --from 4.img --json
	[ "$(field 0 '["bytes_stored"]')" -lt $((1 << 20)) ]
	must delete vm1@4
	must recompress none
	[ "$(nr_packs)" -eq 0 ]
	all_is_right
	now=$(data_kib)
	[ $((now * 100)) -lt $((raw * 102)) ]
	must snapshot vm1 --from 4.img --json
	[ "$(field 0 '["bytes_stored"]')" -eq $((2 << 20)) ]
}

# bats test_tags=slow
@test "converting again changes nothing" {
	make_texts --compression zstd
	before=$(data_kib)
	must recompress zstd:3
	[ "$(data_kib)" -le $((before + 64)) ]
	all_is_right
}

@test "versions that were packed stay in one piece" {
	make_texts --compression none
	must recompress zstd
	[ "$(sqlite3 -readonly pool/catalog.db \
		"SELECT count(*) FROM uses WHERE latest_refs > 0 AND pieces > 1")" -eq 0 ]
	# So an unchanged disk needs nothing.
	must snapshot vm1 --from 3.img --json
	[ "$(field 0 '["bytes_stored"]')" -eq 0 ]
}

# bats test_tags=slow
@test "a pool without room for raw content stays as it is where it is full" {
	must init pool --size 64M --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 120M 1.img
	text 1.img 0 28000 1
	must snapshot vm1 --from 1.img
	ctl recompress none
	[ "$status" -eq 12 ]
	[[ $output == *"the pool is full"* ]]
	"$build/bin/revdedupctl" dump vm1@1 | cmp - 1.img
	must check
	must recompress zstd
	"$build/bin/revdedupctl" dump vm1@1 | cmp - 1.img
	must check
	must delete vm1@1
	must check
}
