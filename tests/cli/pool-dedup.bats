#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl dedup: the pass over the whole pool. Old versions give up what any other one has.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# snap VOLUME N: N.img becomes the next version of VOLUME.
snap() { must snapshot "$1" --from "$2.img"; }

# is VERSION N...: each VERSION, of the pairs, is N.img.
is() {
	while [ $# -gt 0 ]; do
		rm -f back
		must restore "$1" --to back
		cmp "$2.img" back
		shift 2
	done
}

# of NAME: what the last line of the output, which is JSON, has for it.
of() { field -1 "[\"$1\"]"; }

# unique: the blocks that the pool has.
unique() {
	must stats --json
	echo $(($(of bytes_unique) / 4096))
}

# noise N FIRST NR: an image of 4 MiB with so many blocks that nothing else has.
noise() {
	truncate -s 4M "$1.img"
	blocks "$1.img" "$2" "$3"
}

# take FROM FIRST NR TO BLOCK: copy blocks from one image to another.
take() {
	truncate -s 4M "$4.img"
	dd if="$1.img" skip="$2" count="$3" of="$4.img" seek="$5" bs=4096 conv=notrunc status=none
}

# Four volumes: 1.img is old in a, and at another offset the newest of b (N-twins); 2.img is old
# in c, and at another offset old in d (C-twins).
make_twins() { made_once fill_twins; }

fill_twins() {
	make_pool 128M
	noise 1 0 600
	take 1 0 600 10 40
	noise 2 0 300
	take 2 0 300 20 90
	noise 3 0 10
	snap a 1
	snap b 10
	snap c 2
	snap d 20
	snap a 3
	snap c 3
	snap d 3
	[ "$(unique)" = $((600 + 600 + 300 + 300 + 10)) ]
}

all_are() { is a@1 1 a@2 3 b@1 10 c@1 2 c@2 3 d@1 20 d@2 3; }

# bats test_tags=slow
@test "dedup: a dry run counts, and changes nothing" {
	local before
	make_twins
	before=$(sha256sum pool/catalog.db pool/data)
	must dedup -n --older 0 --json
	[ "$(of bytes_newest)" = $((610 * 4096)) ]
	[ "$(of bytes_old)" = $((1200 * 4096)) ]
	[ "$(of bytes_in_newest)" = $((600 * 4096)) ]
	[ "$(of bytes_twice_old)" = $((300 * 4096)) ]
	[ "$(of bytes_given_up)" = $((900 * 4096)) ]
	must dedup -n --older 0
	[[ $output == *"a pass would free: "*" 3.5 MiB"* ]]
	[ "$before" = "$(sha256sum pool/catalog.db pool/data)" ]
}

# bats test_tags=slow
@test "dedup: old versions give up what a newest one has, and what an old one has" {
	make_twins
	must dedup --older 0
	[[ $output == "old versions gave up 3.5 MiB, in 3 segments" ]]
	[ "$(unique)" = 910 ]
	# What newest versions have did not change.
	[ "$(ask "SELECT count(*) FROM recipe_ref JOIN uses ON source = recipe WHERE latest_refs > 0")" = 0 ]
	must check
	all_are
	must scrub
	# Nothing is left for another one.
	must dedup --older 0 --json
	[ "$(of recipes_changed)" = 0 ]
	[ "$(of bytes_given_up)" = 0 ]
	must repair --rebuild-catalog
	must check
	all_are
}

# bats test_tags=slow
@test "dedup: whatever is deleted afterwards, the rest stays, and all goes in the end" {
	local order version left other
	declare -A image=([a@1]=1 [a@2]=3 [b@1]=10 [c@1]=2 [c@2]=3 [d@1]=20 [d@2]=3)
	make_twins
	must dedup --older 0
	cp -r --sparse=always pool base
	for order in "a@1 b@1 c@1 d@1 a@2 c@2 d@2" "d@2 c@2 a@2 d@1 c@1 b@1 a@1" \
		"b@1 d@1 a@2 c@1 d@2 a@1 c@2" "c@1 a@2 b@1 d@2 c@2 a@1 d@1"; do
		rm -rf pool && cp -r --sparse=always base pool
		left=" $order "
		for version in $order; do
			must delete "$version"
			left=${left/ $version / }
			must check
			for other in $left; do
				is "$other" "${image[$other]}"
			done
		done
		must stats --json
		[ "$(of bytes_data)" = 0 ]
		[ "$(of bytes_queued)" = 0 ]
	done
}

@test "dedup: content that came back" {
	make_pool 128M
	noise 1 0 400
	noise 2 0 400
	# It comes back at another offset, so it is another segment.
	take 1 0 400 3 100
	snap vm 1
	snap vm 2
	snap vm 3
	[ "$(unique)" = 1200 ]
	must dedup --older 0
	[ "$(unique)" = 800 ]
	is vm@1 1 vm@2 2 vm@3 3
	must check
}

@test "dedup: the same content more than once in one old segment" {
	make_pool 128M
	noise 1 0 50
	take 1 0 50 1 200
	take 1 0 50 1 400
	noise 2 0 10
	snap vm 1
	snap vm 2
	[ "$(unique)" = 160 ]
	must dedup --older 0
	[ "$(unique)" = 60 ]
	is vm@1 1 vm@2 2
	must check
	must delete vm@2
	must check
	is vm@1 1
	must delete vm@1
	must stats --json
	[ "$(of bytes_data)" = 0 ]
}

@test "dedup: what an older one has in the second of two places goes on to the first" {
	make_pool 128M
	noise 9 0 50
	noise 1 0 20
	take 9 0 50 1 300
	noise 2 0 20
	take 9 0 50 2 100
	take 9 0 50 2 300
	noise 3 0 10
	snap vm 1
	snap vm 2
	# By now vm@1 has these blocks where vm@2 has them, at the same offset.
	[ "$(ask "SELECT n FROM recipe_ref")" = 50 ]
	snap vm 3
	must dedup --older 0
	[ "$(ask "SELECT n FROM recipe_ref WHERE source = target")" = 50 ]
	must delete vm@2
	must check
	is vm@1 1 vm@3 3
	must scrub
}

@test "dedup: --older and --least-run leave what they say" {
	make_pool 128M
	noise 1 0 40
	# Runs of 3, 4 and 5 blocks.
	take 1 0 3 2 20
	take 1 10 4 2 30
	take 1 20 5 2 40
	noise 3 0 1
	snap a 1
	snap b 2
	snap b 3
	must dedup --json
	[ "$(of bytes_given_up)" = 0 ]
	[ "$(of bytes_too_new)" = $((12 * 4096)) ]
	noise 4 0 1
	snap b 4
	must dedup --json
	[ "$(of bytes_given_up)" = $((9 * 4096)) ]
	[ "$(of bytes_short_runs)" = $((3 * 4096)) ]
	must dedup --least-run 3 --json
	[ "$(of bytes_given_up)" = $((3 * 4096)) ]
	is a@1 1 b@1 2 b@2 3 b@3 4
	must check
}

@test "dedup: a block that is damaged takes no sound one with it" {
	make_pool 128M
	noise 1 0 600
	take 1 0 600 10 40
	noise 3 0 10
	snap b 10
	snap a 1
	snap a 3
	# In the newest version of b; that of the old version of a is sound.
	damage 10.img 100
	ctl dedup --older 0
	[ "$status" -eq 3 ]
	[[ $output == *"1 block was kept, because what has the same content is damaged"* ]]
	[ "$(unique)" = 611 ]
	is a@1 1
	ctl scrub
	[ "$status" -eq 4 ]
	# So the damage can be healed.
	must repair
	must scrub
	is a@1 1 a@2 3 b@1 10
	must dedup --older 0 --least-run 1
	[ "$(unique)" = 610 ]
	is a@1 1 a@2 3 b@1 10
}

# rotten_twins COMPRESSION: 64 blocks are in 1.img, the newest of a, and elsewhere in 10.img, the
# newest of b. The pool has them twice, and one of those of b is damaged. Where the rest is packed,
# they are as they are, in groups of their own.
rotten_twins() {
	rm -rf pool
	must init pool --size 256M --compression "$1"
	basenc --base16 /dev/urandom | head -c 2M >1.img
	basenc --base16 /dev/urandom | head -c 2M >10.img
	blocks 1.img 96 64
	take 1 96 64 10 320
	truncate -s 2M 10.img
	snap a 1
	snap b 10
	[ "$(ask "SELECT count(*) FROM pack")" = "$([ "$1" = none ] && echo 0 || echo 2)" ]
	python3 -c 'block = open("1.img", "rb").read()[100 * 4096:][:4096]
with open("pool/data", "r+b") as data:
    content = data.read()
    assert content.count(block) == 2
    data.seek(content.rfind(block) + 1234)
    data.write(b"damaged")'
}

# bats test_tags=slow
@test "dedup: a snapshot gives no sound block up for one that is damaged" {
	local compression
	export REVDEDUP_POOL=$PWD/pool
	for compression in none zstd; do
		rotten_twins "$compression"
		must snapshot a --from 10.img
		[[ $output == *"the newest version has "*" blocks that are damaged: older versions keep theirs"* ]]
		[[ $output == *"'revdedupctl scrub' lists"* ]]
		is a@1 1
		# All that could be healed before can be.
		must repair
		must scrub
		is a@1 1 a@2 10 b@1 10
		# What was kept is given up now.
		must dedup --older 0 --least-run 1
		[ "$(unique)" = $((512 + 448)) ]
		is a@1 1 a@2 10 b@1 10
		# Of what a snapshot has just written nothing is read to be proven.
		rotten_twins "$compression"
		take 1 96 64 10 200
		must snapshot a --from 10.img
		[[ $output != *damaged* ]]
		[ "$(unique)" = $((512 + 512 + 448)) ]
		must repair
		is a@1 1 a@2 10
	done
}

@test "dedup: a snapshot believes no fingerprint that the segment does not have" {
	make_pool 256M
	noise 1 0 512
	truncate -s 2M 1.img
	noise 10 0 512
	truncate -s 2M 10.img
	snap a 1
	snap b 10
	# Frame 2 is that of a@1, and frame 3 that of b@1; a's block 7 seems to be b's block 9.
	python3 -c 'with open("pool/data", "r+b") as data:
    content = data.read()
    frame = [(content.find(open(name, "rb").read()[:4096]) >> 21) - 2 for name in ("1.img", "10.img")]
    page = lambda nr, slot: (1 << 21) + nr * 8192 + slot * 16
    data.seek(page(frame[0], 7))
    data.write(content[page(frame[1], 9):][:16])'
	snap a 10
	is a@1 1
	must repair
	must scrub
	is a@1 1 a@2 10 b@1 10
}

@test "dedup: a block that is damaged in a pack takes no sound one with it" {
	make_pool 128M
	truncate -s 4M 1.img
	python3 -c 'import os
for _ in range(600):
    print(end=os.urandom(2048).hex())' | dd of=1.img bs=4096 conv=notrunc iflag=fullblock status=none
	take 1 0 600 10 40
	noise 3 0 10
	must snapshot b --from 10.img --compression zstd
	snap a 1
	snap a 3
	# Slots 80 to 95 of the first pack.
	"$BATS_TEST_DIRNAME/../nbd/packed.py" flip 0 5
	ctl dedup --older 0
	[ "$status" -eq 3 ]
	[[ $output == *"16 blocks were kept, because what has the same content is damaged"* ]]
	[ "$(unique)" = 626 ]
	is a@1 1
	must repair
	is a@1 1 a@2 3 b@1 10
}

@test "dedup: a fingerprint that is that of another block gives nothing up" {
	make_pool 128M
	noise 1 0 600
	noise 2 0 600
	noise 3 0 10
	snap b 2
	snap a 1
	snap a 3
	# Of block 100 in the old version of a: b has a block with that fingerprint, and another one.
	python3 -c 'import hashlib
def fp_of(image):
    return hashlib.sha256(open(image, "rb").read()[100 * 4096:101 * 4096]).digest()[:16]
with open("pool/data", "r+b") as data:
    at = data.read().find(fp_of("1.img"))
    assert at >= 0
    data.seek(at)
    data.write(fp_of("2.img"))'
	ctl dedup --older 0 --least-run 1 --json
	[ "$(field -1 '["bytes_given_up"]')" = 0 ]
	is a@1 1 b@1 2
	must repair
	is a@1 1 a@2 3 b@1 2
}

# bats test_tags=slow
@test "dedup: what is fresh lies over the end of a group of frames" {
	local nr
	make_pool 2G
	block_in_each filler.img 245
	must snapshot filler --from filler.img
	must dedup --older 0
	truncate -s 24M 1.img 2.img
	for nr in {0..11}; do
		blocks 1.img $((nr * 512)) 60
	done
	take 1 0 5700 2 40
	noise 3 0 10
	snap a 1
	snap b 2
	snap a 3
	[ "$(ask "SELECT sum(frame < 256) > 4 AND sum(frame >= 256) > 4 FROM slot_owner WHERE n = 60")" = 1 ]
	must dedup --older 0 --json
	[ "$(of all)" = False ]
	[ "$(of bytes_given_up)" = $((720 * 4096)) ]
	is a@1 1 b@1 2 a@2 3
}

@test "dedup: lost fingerprints are those of no block" {
	make_pool 128M
	noise 1 0 600
	take 1 0 600 10 40
	noise 3 0 10
	snap b 10
	snap a 1
	snap a 3
	# Of all frames.
	dd if=/dev/zero of=pool/data bs=2M seek=1 count=1 conv=notrunc status=none
	must dedup --older 0 --least-run 1 --json
	[ "$(of bytes_given_up)" = 0 ]
	[ "$(of bytes_unreadable)" = $((1210 * 4096)) ]
	is a@1 1 a@2 3 b@1 10
	must repair
	must dedup --older 0 --least-run 1
	[ "$(unique)" = 610 ]
	is a@1 1 a@2 3 b@1 10
}

@test "dedup: with packs" {
	make_pool 128M
	truncate -s 4M 1.img
	basenc --base16 /dev/urandom | head -c $((600 * 4096)) |
		dd of=1.img bs=4096 conv=notrunc iflag=fullblock status=none
	take 1 0 600 2 70
	noise 3 0 5
	must snapshot a --from 1.img --compression zstd
	must snapshot b --from 2.img --compression zstd
	snap a 3
	must dedup --older 0 --json
	[ "$(of bytes_given_up)" = $((600 * 4096)) ]
	must check
	is a@1 1 b@1 2 a@2 3
	# Packs of which nothing lives are gone.
	snap b 3
	must delete b@1 a@1
	must stats --json
	[ "$(of bytes_packed)" = 0 ]
}

# fresh: how many segments stats says that the next pass compares with all, of how many.
fresh() {
	must stats --json
	echo "$(of segments_fresh) of $(of segments)"
}

# bats test_tags=slow
@test "dedup: what is compared again, and when all is" {
	local all
	make_twins
	must stats --json
	all=$(of segments)
	[ "$(fresh)" = "$all of $all" ]
	must dedup --older 0 --json
	[ "$(of all)" = True ]
	[ "$(fresh)" = "0 of $all" ]
	take 20 90 300 30 200
	snap e 30
	[ "$(fresh)" = "1 of $((all + 1))" ]
	must metrics
	grep -q "^revdedup_pool_fresh_segments{.*} 1\$" <<<"$output"
	must dedup --older 0 --json
	[ "$(of all)" = False ]
	[ "$(of bytes_given_up)" = $((300 * 4096)) ]
	all_are
	is e@1 30
	# A dry run counts all that there is.
	must dedup -n --older 0 --json
	[ "$(of all)" = True ]
	[ "$(of bytes_newest)" = $((910 * 4096)) ]
	must repair
	must dedup --older 0 --json
	[ "$(of all)" = False ]
	# What was healed may have had fingerprints that were wrong.
	damage 3.img 2
	ctl repair --from 3.img
	must dedup --older 0 --json
	[ "$(of all)" = True ]
	must repair --rebuild-catalog
	must dedup --older 0 --json
	[ "$(of all)" = True ]
	must check
	all_are
}

@test "dedup: a pool of a program that does not know what is fresh" {
	local tables="SELECT count(*) FROM sqlite_master WHERE name IN ('fresh', 'pass')"
	make_twins
	must dedup --older 0
	take 20 90 300 30 200
	snap e 30
	edit "DROP TABLE fresh"
	edit "DROP TABLE pass"
	must dedup -n --older 0 --json
	[ "$(of bytes_given_up)" = $((300 * 4096)) ]
	[ "$(ask "$tables")" = 0 ]
	must dedup --older 0 --json
	[ "$(of all)" = True ]
	[ "$(of bytes_given_up)" = $((300 * 4096)) ]
	[ "$(ask "$tables")" = 2 ]
	must dedup --older 0 --json
	[ "$(of all)" = False ]
	must check
	all_are
}

# bats test_tags=slow
@test "dedup: behind prune" {
	make_twins
	must dedup --older 0 -n
	[[ $output == *"a pass would free: "*" 3.5 MiB"* ]]
	[ "$(unique)" = 1810 ]
	must prune a --keep-last 1
	[[ $output == "deleted a@1"*"freed "* ]]
	must dedup --older 0
	[ "$output" = "old versions gave up 1.2 MiB, in 1 segment" ]
	[ "$(unique)" = 910 ]
	must dedup --older 0 --json
	[ "$(of type)" = dedup ]
	[ "$(of all)" = False ]
	take 20 90 300 30 200
	snap e 30
	must prune --keep-last 9
	must dedup --older 0 --json
	[ "$(of bytes_given_up)" = $((300 * 4096)) ]
	is a@2 3 b@1 10 c@1 2 c@2 3 d@1 20 d@2 3 e@1 30
	must check
}

@test "dedup: wrong options, and no room for temporary files" {
	local option
	make_pool 128M
	for option in "--time 5" "--time 0s" "--time 1d" "--rate 5" "--rate x" "--older -1" \
		"--least-run 0" "--least-run 513"; do
		# shellcheck disable=SC2086 # an option and its value
		ctl dedup $option
		[ "$status" -eq 2 ]
	done
	ctl dedup --temp missing
	[ "$status" -eq 1 ]
	[[ $output == *"cannot use a temporary file in 'missing': No such file or directory"* ]]
	must dedup --temp . --rate 100M --time 1h
	[ "$output" = "old versions gave up 0 B, in 0 segments" ]
	ctl -p missing dedup
	[ "$status" -ne 0 ]
}
