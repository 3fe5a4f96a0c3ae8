#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl snapshot --pieces: changed segments that are stored in part.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# snap N [OPTION]...: N.img becomes vm1@N; the report is the output.
snap() { must snapshot vm1 --from "$1.img" --json "${@:2}"; }

# next_image N: N.img is as the one before.
next_image() { cp --sparse=always $(($1 - 1)).img "$1.img"; }

# every FILE FIRST STEP NR: give one block in each STEP from FIRST on new content.
every() {
	local i
	for ((i = 0; i < $4; i++)); do
		blocks "$1" $(($2 + i * $3)) 1
	done
}

# restores NR...: these versions of vm1 are these images.
restores() {
	local nr
	for nr in "$@"; do
		rm -f back
		must restore "vm1@$nr" --to back
		cmp "$nr.img" back
	done
}

# whole VERSION: how many of its segments are in one piece.
whole() {
	must show "$1" --json
	field 0 '["segments_whole"]'
}

# most: the most pieces that a newest version is in.
most() { ask "SELECT max(pieces) FROM uses WHERE latest_refs > 0"; }

# room: the frames that are not free.
room() {
	must stats --json
	echo $(($(field -1 '["frames"]') - $(field -1 '["frames_free"]')))
}

# first_image: 1.img of 8 MiB of noise is vm1@1.
first_image() {
	make_pool 128M
	truncate -s 8M 1.img
	blocks 1.img 0 2048
	snap 1
}

# bats test_tags=slow
@test "pieces: what changed is what is stored" {
	local nr
	first_image
	must tune --pieces 64
	for nr in {2..8}; do
		next_image "$nr"
		every "$nr.img" $((nr * 3)) 131 15
		snap "$nr"
		[ "$(field 0 '["bytes_stored"]')" = $((15 * 4096)) ]
		[ "$(field 0 '["blocks_changed"]')" = 15 ]
		[ "$(field 0 '["segments_in_part"]')" = 4 ]
		[ "$(field 0 '["segments_changed"]')" = 4 ]
		[[ $output != *lookups* ]]
		must check
	done
	[ "$(most)" -gt 1 ] && [ "$(most)" -le 64 ]
	restores {1..8}
	must scrub
	# All that is stored is what is in them, once.
	must stats --json
	[ "$(field -1 '["bytes_unique"]')" = $(((2048 + 7 * 15) * 4096)) ]
	must repair --rebuild-catalog
	must check
	restores 1 8
}

# bats test_tags=slow
@test "pieces: older versions lose nothing, whatever is deleted" {
	local order nr left
	first_image
	must tune --pieces 64
	for nr in {2..6}; do
		next_image "$nr"
		# Some go from one to the other, some come back.
		every "$nr.img" $((nr * 40)) 97 9
		dd if="$((nr / 2)).img" of="$nr.img" bs=4096 skip=60 seek=$((700 + nr)) count=50 \
			conv=notrunc status=none
		[ "$nr" -ne 5 ] || dd if=/dev/zero of=5.img bs=4096 seek=1100 count=30 \
			conv=notrunc status=none
		snap "$nr"
	done
	must check
	cp -r --sparse=always pool base
	for order in "6 5 4 3 2 1" "1 2 3 4 5 6" "6 1 5 2 4 3" "3 6 2 5 1 4"; do
		rm -rf pool && cp -r --sparse=always base pool
		left=" 1 2 3 4 5 6 "
		for nr in $order; do
			must delete "vm1@$nr"
			left=${left/ $nr / }
			must check
			# shellcheck disable=SC2086 # numbers
			restores $left
		done
		must stats --json
		[ "$(field -1 '["bytes_data"]')" = 0 ]
		[ "$(field -1 '["bytes_queued"]')" = 0 ]
	done
}

@test "pieces: a newest version owns what it has" {
	local nr
	first_image
	must tune --pieces 512
	for nr in 2 3 4; do
		next_image "$nr"
		every "$nr.img" "$nr" 64 32
		snap "$nr"
		# The older ones refer to it, and not the other way round.
		[ "$(ask "SELECT count(*) FROM recipe_ref JOIN uses ON source = recipe WHERE latest_refs > 0")" = 0 ]
		[ "$(ask "SELECT count(*) FROM superseded")" = 0 ]
	done
	# What an old one alone has is all that goes with it.
	must delete -n vm1@1 --json
	[ "$(field 1 '["bytes"]')" = $((32 * 4096)) ]
	must delete vm1@1
	must check
	restores 2 3 4
}

@test "pieces: over the bound the shortest runs are written, and at last all" {
	first_image
	# 4 written blocks far from each other make 9 pieces: 4 runs of 1, 5 of what is left.
	cp --sparse=always 1.img 2.img
	for at in 100 200 300 400; do
		blocks 2.img "$at" 1
	done
	cp -r --sparse=always pool base
	snap 2 --pieces 9
	[ "$(field 0 '["bytes_stored"]')" = $((4 * 4096)) ]
	[ "$(most)" = 9 ]
	restores 1 2
	for pieces in 8 7 5 3; do
		rm -r pool && cp -r --sparse=always base pool
		snap 2 --pieces "$pieces"
		[ "$(field 0 '["bytes_stored"]')" -gt $((4 * 4096)) ]
		[ "$(field 0 '["bytes_stored"]')" -lt $((2 << 20)) ]
		[ "$(field 0 '["segments_in_part"]')" = 1 ]
		[ "$(most)" -le "$pieces" ]
		must check
		restores 1 2
	done
	for pieces in 1 2; do
		rm -r pool && cp -r --sparse=always base pool
		snap 2 --pieces "$pieces"
		[ "$(most)" -le "$pieces" ]
		must check
		restores 1 2
	done
	rm -r pool && cp -r --sparse=always base pool
	snap 2 --pieces 1
	[ "$(field 0 '["bytes_stored"]')" = $((2 << 20)) ]
	[ "$(field 0 '["segments_in_part"]')" = 0 ]
	[ "$(whole vm1@2)" = 4 ]
	[ "$(whole vm1@1)" = 3 ]
	# Most of it changed: all of it is written.
	rm -r pool && cp -r --sparse=always base pool
	blocks 2.img 0 400
	snap 2 --pieces 512
	[ "$(field 0 '["bytes_stored"]')" = $((2 << 20)) ]
	[ "$(whole vm1@2)" = 4 ]
	must check
	restores 1 2
}

@test "pieces: zeros do not make pieces" {
	make_pool 128M
	truncate -s 2M 1.img
	every 1.img 0 4 128
	snap 1
	[ "$(most)" = 1 ]
	cp --sparse=always 1.img 2.img
	blocks 2.img 508 1
	snap 2 --pieces 2
	[ "$(field 0 '["bytes_stored"]')" = 4096 ]
	[ "$(most)" = 2 ]
	must check
	restores 1 2
}

@test "pieces: fewer are allowed from now on" {
	local nr
	first_image
	must tune vm1 --pieces 64
	for nr in 2 3; do
		next_image "$nr"
		every "$nr.img" $((nr * 7)) 60 30
		snap "$nr"
	done
	[ "$(whole vm1@3)" = 0 ]
	must tune vm1 --pieces 1
	# Nothing changed, and it is written all the same.
	next_image 4
	snap 4
	[ "$(field 0 '["segments_pieces"]')" = 4 ]
	[ "$(field 0 '["bytes_stored"]')" = $((8 << 20)) ]
	[ "$(whole vm1@4)" = 4 ]
	[ "$(most)" = 1 ]
	must check
	restores {1..4}
	next_image 5
	blocks 5.img 3 1
	snap 5
	[ "$(field 0 '["bytes_stored"]')" = $((2 << 20)) ]
	must check
	restores {1..5}
}

@test "pieces: another snapshot goes on where a frame has room" {
	local nr before after
	first_image
	must tune --pieces 512
	before=$(room)
	for nr in {2..21}; do
		next_image "$nr"
		every "$nr.img" "$nr" 300 6
		snap "$nr"
	done
	must check
	after=$(room)
	echo "$before frames, then $after"
	# 120 blocks fit into one; the journal may have grown.
	[ $((after - before)) -le 3 ]
	restores 1 11 21
	must scrub
}

# listed_image: 1.img of 64 segments of noise is vm1@1, with --pieces $1; 2.img is as it.
listed_image() {
	make_pool 512M
	truncate -s 128M 1.img
	blocks 1.img 0 $((64 * 512))
	snap 1 --pieces "$1"
	must tune --pieces "$1"
	next_image 2
}

# bats test_tags=slow
@test "pieces: of a segment in a list of changes only what is listed is read" {
	local nr
	listed_image 64
	echo "version vm1@1" >list
	for ((nr = 1; nr < 64; nr += 2)); do
		blocks 2.img $((nr * 512 + 100)) 3
		echo $((nr * 512 * 4096 + 100 * 4096 + 1000)) 10000
	done >>list
	snap 2 --changed list
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(field 0 '["segments_changed"]')" = 32 ]
	[ "$(field 0 '["blocks_changed"]')" = 96 ]
	# 3 blocks each; and whole the one segment whose turn it is, and four others.
	[ "$(field 0 '["bytes_read"]')" -le $((32 * 3 * 4096 + 5 * 2097152)) ]
	restores 1 2
	must scrub
	# Their quick sum is not known: the next audits read them.
	next_image 3
	echo "version vm1@2" >list
	snap 3 --changed list
	[ "$(field 0 '["segments_changed"]')" = 0 ]
	restores 3
}

# bats test_tags=slow
@test "pieces: what is listed behind the end, and what is listed as a whole" {
	local nr base=$((64 * 2097152))
	make_pool 512M
	must tune --pieces 64
	head -c $((base + 1000000)) /dev/urandom >1.img
	snap 1
	next_image 2
	blocks 2.img $((64 * 512 + 3)) 1
	# Each is read once.
	{
		echo "version vm1@1"
		for nr in 3 30 50; do
			blocks 2.img $((nr * 512)) 512
			echo $((nr * 2097152)) 2097152
		done
		echo $((base + 12288)) 4096
		echo $((base + 1572864)) 4096
	} >list
	snap 2 --changed list
	[ "$(field 0 '["segments_changed"]')" = 4 ]
	[ "$(field 0 '["bytes_read"]')" -le $(((3 + 1 + 1 + 4) * 2097152)) ]
	restores 1 2
	next_image 3
	printf 'version vm1@2\n%d 4096\n' $((base + 1572864)) >list
	snap 3 --changed list
	[ "$(field 0 '["segments_changed"]')" = 0 ]
	restores 3
}

# bats test_tags=slow
@test "pieces: a segment that was read in part is read as a whole where it must be written" {
	listed_image 2
	# Two pieces: what comes before the block, or what comes after it, is written as well.
	blocks 2.img $((5 * 512 + 300)) 1
	printf 'version vm1@1\n%d 4096\n' $(((5 * 512 + 300) * 4096)) >list
	snap 2 --changed list
	[ "$(field 0 '["segments_in_part"]')" = 1 ]
	[ "$(most)" = 2 ]
	restores 1 2
	must scrub
}

# bats test_tags=slow
@test "pieces: what is in no list, but beside what is, is found, and all read once more" {
	local nr
	listed_image 64
	echo "version vm1@1" >list
	for nr in 2 10 11 12 13 14 15 16 17 18; do
		blocks 2.img $((nr * 512)) 1
		blocks 2.img $((nr * 512 + 256)) 1
		echo $((nr * 2097152)) 4096
	done >>list
	# Version 2 audits segment 2.
	snap 2 --changed list
	output=$(grep '^{' <<<"$output")
	[ "$(field 0 '["reason"]')" = "a segment outside the list of changes had changed" ]
	[ "$(field 0 '["segments_changed"]')" = 10 ]
	[ "$(field 0 '["blocks_changed"]')" = 20 ]
	restores 1 2
	must scrub
}

@test "pieces: with packs, what changed of many segments is one pack" {
	local nr
	must init pool --size 128M --compression zstd --pieces 512 --dedup reverse
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 8M 1.img
	basenc --base16 /dev/urandom | head -c $((8 << 20)) | dd of=1.img bs=1M conv=notrunc \
		iflag=fullblock status=none
	snap 1
	for nr in 2 3 4; do
		next_image "$nr"
		for at in 10 600 1200 1900; do
			basenc --base16 /dev/urandom | head -c 32768 |
				dd of="$nr.img" bs=4096 seek=$((at + nr * 9)) conv=notrunc \
					iflag=fullblock status=none
		done
		before=$(ask "SELECT count(*) FROM pack")
		snap "$nr"
		[ "$(field 0 '["segments_in_part"]')" = 4 ]
		[ "$(field 0 '["bytes_stored"]')" -lt $((4 * 32768)) ]
		[ "$(ask "SELECT count(*) FROM pack")" = $((before + 1)) ]
		must check
	done
	restores {1..4}
	must scrub
	must recompress none
	must check
	restores {1..4}
	must delete vm1@4
	must delete vm1@1
	must check
	restores 2 3
}

# texts FILE FIRST NR: fill these blocks with what compresses.
texts() {
	basenc --base16 /dev/urandom | head -c $(($3 * 4096)) |
		dd of="$1" bs=4096 seek="$2" iflag=fullblock conv=notrunc status=none
}

@test "pieces: frames with raw blocks that have room get no packs, nor the other way round" {
	local nr tails
	first_image
	must tune --pieces 512
	for nr in {2..7}; do
		next_image "$nr"
		texts "$nr.img" $((nr * 60)) 40
		snap "$nr" --compression "$([ $((nr % 2)) = 0 ] && echo none || echo zstd)"
		[ "$(field 0 '["segments_in_part"]')" = 1 ]
		[ "$(ask "SELECT count(*) FROM slot_owner AS blocks JOIN slot_owner AS packs
			USING(frame) WHERE blocks.recipe > 0 AND packs.recipe < 0")" = 0 ]
		must check
	done
	tails=$(ask "SELECT count(*) FROM tail")
	[ "$tails" = 2 ]
	restores {1..7}
	must scrub
}

@test "pieces: raw frames with room do not keep frames of packs from being filled" {
	local nr before after
	must init pool --size 128M --compression zstd --pieces 512 --dedup reverse
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 8M 1.img
	blocks 1.img 0 2048
	snap 1
	for nr in {2..11}; do
		next_image "$nr"
		blocks "$nr.img" $((nr * 10)) 1
		snap "$nr"
	done
	before=$(room)
	for nr in {12..17}; do
		next_image "$nr"
		texts "$nr.img" $((nr * 10)) 8
		snap "$nr"
	done
	after=$(room)
	echo "$before frames, then $after"
	# All packs fit into one, and another has their fingerprints; the journal may have grown.
	[ $((after - before)) -le 3 ]
	must check
	restores 1 11 17
}

@test "pieces: the pool gets full in the middle" {
	local nr
	must init pool --size 64M --reserve 1M --pieces 512 --dedup reverse
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 40M 1.img
	blocks 1.img 0 $((40 * 256))
	snap 1
	# Some in part, and then more that is new than there is room for.
	cp --sparse=always 1.img 2.img
	every 2.img 3 200 25
	blocks 2.img 5200 5000
	ctl snapshot vm1 --from 2.img
	[ "$status" -eq 12 ]
	[[ $output == *"the pool is full"* ]]
	must list --json
	[ "$(wc -l <<<"$output")" = 1 ]
	must check
	restores 1
	must stats --json
	[ "$(field -1 '["bytes_unique"]')" = $((40 << 20)) ]
	# What fits does.
	cp --sparse=always 1.img 2.img
	every 2.img 3 200 51
	must snapshot vm1 --from 2.img --json
	[ "$(field 0 '["bytes_stored"]')" = $((51 * 4096)) ]
	nr=$(field 0 '["number"]')
	must check
	must restore "vm1@$nr" --to back --yes
	cmp 2.img back
	restores 1
}

@test "pieces: fingerprints of the version before that are wrong are not believed" {
	first_image
	cp --sparse=always 1.img 2.img
	blocks 2.img 100 1
	# The page says something else of block 7.
	python3 -c 'import hashlib
with open("1.img", "rb") as image:
    fp = hashlib.sha256(image.read(4096 * 8)[-4096:]).digest()[:16]
with open("pool/data", "r+b") as data:
    at = data.read().find(fp)
    assert at >= 0
    data.seek(at)
    data.write(bytes(reversed(fp)))'
	must snapshot vm1 --from 2.img --pieces 512 --json
	# A warning that it is damaged comes with it.
	output=$(grep '^{' <<<"$output")
	[ "$(field -1 '["segments_in_part"]')" = 0 ]
	[ "$(field -1 '["bytes_stored"]')" = $((2 << 20)) ]
	restores 2
}
