#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl with --dedup inline: what the pool has anywhere, and an index that is wrong.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# make_shared: vm1@1 is 1.img; 2.img has most of it, shifted by 77 blocks.
make_shared() {
	must init pool --size 128M --pieces 64 --dedup inline "$@"
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 8M 1.img 2.img
	blocks 1.img 0 1024
	take 1.img 0 2.img 77 1000
	must snapshot vm1 --from 1.img
}

# take FROM FIRST TO BLOCK NR: copy blocks.
take() {
	dd if="$1" skip="$2" of="$3" seek="$4" count="$5" bs=4096 conv=notrunc status=none
}

# is VERSION FILE
is() {
	rm -f back
	must restore "$1" --to back
	cmp "$2" back
}

@test "inline: shifted content of another volume" {
	make_shared
	must snapshot vm2 --from 2.img --json
	[ "$(field 0 '["bytes_stored"]')" = 0 ]
	[ "$(field 0 '["segments_in_part"]')" = 3 ]
	[ "$(field 0 '["lookups"]["found"]')" = 1000 ]
	[ "$(field 0 '["lookups"]["refused"]')" = 0 ]
	must check
	# Who has a newest version keeps all of it.
	must show vm1@1 --json
	[ "$(field 0 '["segments_whole"]')" = 2 ]
	is vm1@1 1.img
	is vm2@1 2.img
	# Who gave it goes, with all versions.
	must delete vm1@1
	must check
	is vm2@1 2.img
	must stats --json
	[ "$(field -1 '["bytes_unique"]')" = $((1000 * 4096)) ]
	must repair --rebuild-catalog
	must check
	must scrub
	is vm2@1 2.img
	must delete vm2@1
	must stats --json
	[ "$(field -1 '["bytes_data"]')" = 0 ]
}

@test "inline: what only old versions have is adopted" {
	make_shared
	cp --sparse=always 1.img 3.img
	blocks 3.img 0 1024
	must snapshot vm1 --from 3.img
	must snapshot vm2 --from 2.img --json
	[ "$(field 0 '["bytes_stored"]')" = 0 ]
	[ "$(ask "SELECT count(*) FROM recipe_ref JOIN uses ON source = recipe WHERE latest_refs > 0")" = 0 ]
	must check
	is vm1@1 1.img
	is vm1@2 3.img
	is vm2@1 2.img
	must delete vm1@1
	must check
	is vm2@1 2.img
}

@test "inline: a newest version inherits, and not a younger old one" {
	make_shared
	must snapshot vm2 --from 2.img
	truncate -s 4M 3.img
	take 1.img 20 3.img 400 600
	must snapshot vm3 --from 3.img
	blocks 3.img 0 1024
	must snapshot vm3 --from 3.img --pieces 1
	must delete vm1@1
	[ "$(ask "SELECT count(*) FROM recipe_ref JOIN uses ON source = recipe WHERE latest_refs > 0")" = 0 ]
	must check
	is vm2@1 2.img
	is vm3@2 3.img
	# The old one has nothing alone.
	must delete -n vm3@1 --json
	[ "$(field 1 '["bytes"]')" = 0 ]
}

# bats test_tags=slow
@test "inline: runs of 16 blocks, and no shorter ones" {
	local nr try found
	make_shared
	for nr in 15 16 17; do
		found=0
		# One of 16 blocks is in the index.
		for try in {0..13}; do
			rm -f 3.img
			truncate -s 2M 3.img
			take 1.img $((try * 60 + nr - 15)) 3.img 300 "$nr"
			must snapshot "r$nr-$try" --from 3.img --json
			[ $(($(field 0 '["bytes_stored"]') + 4096 * $(field 0 '["lookups"]["found"]'))) = $((nr * 4096)) ]
			[ "$(field 0 '["lookups"]["found"]')" = 0 ] || found=$((found + 1))
			is "r$nr-$try@1" 3.img
			must delete "r$nr-$try@1"
		done
		echo "$nr: found $found times"
		[ $((found > 0)) = $((nr >= 16)) ]
	done
	must check
}

# bats test_tags=slow
@test "inline: an index that is lost, damaged, of another pool or old" {
	local what size
	make_shared
	must init --compression none other --size 128M --pieces 64 --dedup inline
	truncate -s 4M x.img
	blocks x.img 0 1000
	must -p other snapshot v --from x.img
	cp -r pool/index old-index
	cp -r --sparse=always pool base
	for what in removed empty short head vector page other; do
		rm -rf pool && cp -r --sparse=always base pool
		size=$(stat -c %s pool/index/1)
		case $what in
		removed) rm -r pool/index ;;
		empty) : >pool/index/1 ;;
		short) truncate -s $((size - 4096)) pool/index/1 ;;
		head) printf 'abc' | dd of=pool/index/1 bs=1 seek=60 conv=notrunc status=none ;;
		vector) printf 'abc' | dd of=pool/index/1 bs=1 seek=4200 conv=notrunc status=none ;;
		page) printf 'abc' | dd of=pool/index/1 bs=1 seek=$((size - 4000)) conv=notrunc status=none ;;
		other) cp other/index/1 pool/index/1 ;;
		esac
		must snapshot vm2 --from 2.img
		echo "$what: $output"
		[ "$(grep -c 'of the index' <<<"$output")" -le 1 ]
		is vm1@1 1.img
		is vm2@1 2.img
		must check
		[[ $output != *index* ]]
		# And from then on nothing is said.
		must snapshot vm3 --from 2.img
		[[ $output != *"of the index"* ]]
		is vm3@1 2.img
		must check
	done
	# An index from before other content came where it points.
	rm -rf pool && cp -r --sparse=always base pool
	must delete vm1@1
	must snapshot v --from x.img
	rm -r pool/index && cp -r old-index pool/index
	must snapshot vm2 --from 2.img --json
	[ "$(field 0 '["lookups"]["found"]')" = 0 ]
	is vm2@1 2.img
	is v@1 x.img
	must check
}

@test "inline: --verify-hits reads what it finds" {
	make_shared
	# Damaged, and its fingerprint is as it was.
	damage 1.img 500
	cp -r --sparse=always pool base
	must snapshot vm2 --from 2.img --verify-hits --json
	[ "$(field 0 '["bytes_stored"]')" -gt 0 ]
	[ "$(field 0 '["bytes_stored"]')" -lt $((2 << 20)) ]
	is vm2@1 2.img
	must check
}

@test "inline: with packs" {
	make_shared --compression zstd
	basenc --base16 /dev/urandom | head -c 4000000 | dd of=1.img conv=notrunc status=none
	take 1.img 0 2.img 77 900
	must snapshot vm1 --from 1.img
	must snapshot vm2 --from 2.img --json
	[ "$(field 0 '["lookups"]["found"]')" -gt 800 ]
	must delete vm1@{1,2}
	must check
	is vm2@1 2.img
	must scrub
}

# fill_frames NR: with one block in each, and nothing that is looked for.
fill_frames() {
	block_in_each filler.img "$1"
	must snapshot filler --from filler.img --pieces 1
}

# make_scattered: vm1@2 has new blocks in 4 segments, 1000 in all, which lie one behind the
# other, and are what 2.img begins with at block 300.
make_scattered() {
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 8M 1.img 2.img
	blocks 1.img 0 2048
	must snapshot vm1 --from 1.img
	cp --sparse=always 1.img 3.img
	python3 -c 'import os
with open("3.img", "r+b") as new, open("2.img", "r+b") as shifted:
    shifted.seek(300 * 4096)
    for segment in range(4):
        for block in range(250):
            text = os.urandom(2048).hex().encode()
            new.seek((segment * 512 + 2 * block) * 4096)
            new.write(text)
            shifted.write(text)'
	must snapshot vm1 --from 3.img
}

# finds_scattered NR: so many blocks of these are found, and all is right.
finds_scattered() {
	must snapshot vm2 --from 2.img --json
	echo "$output"
	[ "$(field 0 '["lookups"]["found"]')" -ge "$1" ]
	must check
	is vm2@1 2.img
	must delete vm1@{1,2}
	must check
	is vm2@1 2.img
	must scrub
}

@test "inline: runs over the ends of segments and of dense frames" {
	must init --compression none pool --size 2G --pieces 512 --dedup inline
	make_scattered
	# Of two frames.
	[ "$(ask "SELECT count(DISTINCT frame) FROM slot_owner JOIN uses USING(recipe)
		WHERE latest_refs > 0 AND pieces > 1 AND n BETWEEN 200 AND 250")" -ge 2 ]
	finds_scattered 960
}

@test "inline: runs over the ends of packed frames" {
	must init pool --size 2G --pieces 512 --dedup inline --compression zstd
	make_scattered
	[ "$(ask "SELECT count(*) FROM pack WHERE slots BETWEEN 400 AND 512")" -ge 2 ]
	finds_scattered 960
}

@test "inline: runs over the end of a group of frames" {
	local nr all
	must init --compression none pool --size 2G --pieces 512 --dedup inline
	cp -r pool empty
	export REVDEDUP_POOL=$PWD/pool
	for nr in {248..252}; do
		rm -rf pool ./*.img
		cp -r --sparse=always empty pool
		fill_frames "$nr"
		make_scattered
		all=$(ask "SELECT min(frame) < 256 AND max(frame) >= 256 FROM slot_owner
			JOIN uses USING(recipe) WHERE latest_refs > 0 AND pieces > 1
			AND n BETWEEN 200 AND 250")
		[ "$all" != 1 ] || break
	done
	echo "$nr frames before"
	[ "$all" = 1 ]
	finds_scattered 960
}

@test "inline: blocks that an item before has put into the same frame" {
	local seg
	must init --compression none pool --size 128M --pieces 512 --dedup inline
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 2M 1.img
	blocks 1.img 0 512
	must snapshot vm1 --from 1.img
	# These leave a frame that is filled further.
	blocks 1.img 0 100
	must snapshot vm1 --from 1.img
	truncate -s 8M 2.img
	for seg in 0 512 1024 1536; do
		take 1.img 0 2.img "$seg" 100
	done
	blocks 2.img 100 300
	blocks 2.img 612 400
	blocks 2.img 1124 400
	# By now the first 300 are on the disk, with the 100, and not committed.
	take 2.img 100 2.img 1656 300
	must snapshot vm2 --from 2.img --json
	echo "$output"
	[ "$(field 0 '["lookups"]["found"]')" = 700 ]
	[ "$(field 0 '["lookups"]["refused"]')" = 0 ]
	[ "$(field 0 '["bytes_stored"]')" = $((1100 * 4096)) ]
	must check
	is vm2@1 2.img
	must scrub
}

@test "inline: a block that is everywhere" {
	local compression
	for compression in none zstd; do
		rm -rf pool ./*.img
		must init pool --size 128M --pieces 64 --dedup inline --compression "$compression"
		export REVDEDUP_POOL=$PWD/pool
		truncate -s 8M 1.img
		python3 -c 'import os
same = os.urandom(4096)
with open("1.img", "r+b") as new:
    new.write(512 * same)
    new.seek(512 * 4096)
    new.write(os.urandom(4096 * 40) + 300 * same + os.urandom(4096 * 100))'
		must snapshot vm1 --from 1.img
		must check
		cp --sparse=always 1.img 2.img
		take 1.img 0 2.img 1200 600
		blocks 2.img 1300 1
		must snapshot vm1 --from 2.img
		must snapshot vm2 --from 2.img --pieces 512
		is vm1@1 1.img
		is vm1@2 2.img
		is vm2@1 2.img
		must check
		must delete vm1@{1,2}
		must check
		is vm2@1 2.img
		must scrub
	done
}
