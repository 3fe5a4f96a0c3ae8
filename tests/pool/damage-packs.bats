#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Damage in packs: what damage.bats does, of a pool that compresses, and what only packs have.
# A damaged group costs its blocks, a damaged head all of the pack, and 'repair' writes what it
# finds to a pack elsewhere.
#
# SEED repeats a run; ROUNDS is how often the random tests run; CTL is the program.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

export COMPRESSION=zstd

load damage

# sql QUERY: to the catalog.
sql() {
	python3 -c 'import sqlite3, sys
for row in sqlite3.connect("pool/catalog.db").execute(sys.argv[1]): print(*row)' "$1"
}

# nr_bad: the most blocks that scrub has found to be damaged in a segment of a version.
nr_bad() {
	python3 -c 'import collections, json
nr = collections.Counter()
for line in map(json.loads, open("scrub.json")):
    for bad in line.get("damaged", ()):
        for at in range(bad["offset"], bad["offset"] + bad["length"], 4096):
            nr[line["version"], at >> 21] += 1
print(max(nr.values()))'
}

# heals: from the images, to what the pool was.
heals() {
	local before
	before=$(md5sum pool/data pool/catalog.db)
	# shellcheck disable=SC2046 # words
	is 0 repair --dry-run $(from_all)
	[[ $output != *" 0 would be healed"* ]]
	[ "$(md5sum pool/data pool/catalog.db)" = "$before" ]
	# shellcheck disable=SC2046 # words
	is 0 repair $(from_all)
	is_whole
}

@test "packs: a pool has them, and raw groups" {
	[ "$(sql "SELECT count(*) > 2 FROM pack")" -eq 1 ]
	damage flip pool "$SEED" 1 raw
	is 4 scrub
}

@test "packs: a bit of a group" {
	for ((round = 0; round < ROUNDS; round++)); do
		for kind in data first middle last raw; do
			fresh
			damage flip pool $((SEED + round)) 1 $kind
			scrub_finds
			[ "$(nr_bad)" -le 16 ]
			restore_all
			rm scrub.json
		done
		heals
	done
}

@test "packs: a bit of a head" {
	for ((round = 0; round < ROUNDS; round++)); do
		for kind in head present; do
			fresh
			damage flip pool $((SEED + round)) 1 $kind
			scrub_finds
			[ "$(nr_bad)" -gt 0 ]
			restore_all
			rm scrub.json
			heals
		done
	done
}

# head_of PLACE: its offset.
head_of() {
	echo $((($1 / 512 + 2) * (2 << 20) + $1 % 512 * 4096))
}

@test "packs: all heads" {
	for place in $(sql "SELECT place FROM pack"); do
		dd if=/dev/zero of=pool/data bs=512 count=1 seek=$(($(head_of "$place") / 512)) \
			conv=notrunc status=none
	done
	"$CTL" scrub --json >scrub.json || [ $? -eq 4 ]
	restore_all 5
	rm scrub.json
	heals
}

@test "packs: bits everywhere, and one image that has some of it" {
	for ((round = 0; round < ROUNDS; round++)); do
		fresh
		damage flip pool $((SEED + round)) 10 data
		scrub_finds
		restore_all
		rm scrub.json
		"$CTL" repair --from vm1.1.img || [ $? -eq 4 ]
		is 0 check
		# What is left is what vm1.1.img has not, if anything.
		"$CTL" scrub --json >scrub.json || [ $? -eq 4 ]
		restore_all
		is 0 restore vm1@1 --to out --yes
		cmp out vm1.1.img
		rm scrub.json
		# shellcheck disable=SC2046 # words
		is 0 repair $(from_all)
		is_whole
	done
}

@test "packs: a bit of a fingerprint" {
	damage flip pool "$SEED" 60 fps
	scrub_finds
	rm scrub.json
	restore_all
	nr=$(python3 -c 'import json; print(json.load(open("wanted.json"))["fps"])')
	is 0 repair
	[[ $output == *"$nr fingerprints damaged, $nr made again"* ]]
	is_whole
}

@test "packs: bits of groups and of fingerprints" {
	damage flip pool "$SEED" 5 pair
	scrub_finds
	restore_all
	rm scrub.json
	# Nothing tells what it was but the whole segment.
	heals
	fresh
	# All fingerprints of packs.
	for frame in $(sql "SELECT frame - (1 << 36) FROM pack"); do
		dd if=/dev/urandom of=pool/data bs=8192 conv=notrunc status=none count=1 \
			seek=$((256 * (frame / 256 + 2) + frame % 256))
	done
	restore_all 0
	is 0 repair
	is_whole
}

@test "packs: one that is overwritten by another" {
	damage overwrite pool
	scrub_finds
	restore_all
	rm scrub.json
	heals
}

@test "packs: where nothing means anything" {
	damage flip pool "$SEED" 20 dead padding
	is_whole
}

@test "packs: a sector that cannot be read" {
	local place blocks at build=${CTL%/bin/*}
	# The one that takes most.
	read -r place blocks <<<"$(sql "SELECT place, blocks FROM pack ORDER BY blocks DESC")"
	at=$(head_of "$place")
	# The last block, the first one, which has the head, and one in between.
	for at in $((at + 4096 * (blocks - 1))) $at $((at + 4096 * 20)); do
		fresh
		export LD_PRELOAD=$build/io-faults.so IO_FAULTS=$at:512:bad REVDEDUP_NO_URING=1
		is 4 scrub
		"$CTL" scrub --json >scrub.json || [ $? -eq 4 ]
		restore_all
		rm scrub.json
		# It is written elsewhere: the sector may stay as it is.
		# shellcheck disable=SC2046 # words
		is 0 repair $(from_all)
		is 0 scrub
		restore_all 0
		unset LD_PRELOAD
		is_whole
	done
}

@test "packs: a repair that is killed" {
	local failed=0 at
	damage flip pool "$SEED" 5 data
	cp -r --sparse=always pool damaged
	CTL=${CTL%/bin/*}/ctl/revdedupctl
	for step in heal-write rewrite-write rewrite-commit; do
		for at in 1 2; do
			rm -r pool
			cp -r --sparse=always damaged pool
			# shellcheck disable=SC2046 # words
			REVDEDUP_FAIL=$step:$at=kill run "$CTL" repair $(from_all)
			[ "$status" -ne 0 ] || continue
			failed=$((failed + 1))
			is 0 check
			"$CTL" scrub --json >scrub.json || [ $? -eq 4 ]
			restore_all
			rm scrub.json
			# shellcheck disable=SC2046 # words
			is 0 repair $(from_all)
			is_whole
		done
	done
	[ "$failed" -ge 3 ]
}

@test "packs: more than there is room for at once" {
	local nr
	rm -r pool ./*.img
	python3 -c 'import random
rnd = random.Random(int(input()))
for at in range(512 * 60): open(1, "wb", closefd=False).write(rnd.randbytes(1024) * 4)' \
		<<<"$SEED" >a.1.img
	"$CTL" init pool --size 70M --compression zstd --reserve 4K -q
	is 0 snapshot a --from a.1.img
	# Until no more goes in.
	for nr in 16 8 4 2 2 2 2; do
		head -c "${nr}M" /dev/urandom >other
		"$CTL" snapshot "b$nr" --from other -q || break
	done
	for place in $(sql "SELECT place FROM pack"); do
		dd if=/dev/urandom of=pool/data bs=512 count=1 conv=notrunc status=none \
			seek=$((($(head_of "$place") + 8192) / 512))
	done
	is 0 repair --from a.1.img
	is 0 check
	is 0 scrub
	is 0 restore a@1 --to out --yes
	cmp out a.1.img
}
