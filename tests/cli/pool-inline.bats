#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl with --dedup inline: what the pool has anywhere, and an index that is wrong.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# make_shared: vm1@1 is 1.img; 2.img has most of it, shifted by 77 blocks.
make_shared() {
	must init pool --size 1G --pieces 64 --dedup inline "$@"
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
	must check
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

@test "inline: an index that is lost, damaged, of another pool or old" {
	local what size
	make_shared
	must init other --size 1G --pieces 64 --dedup inline
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
	od -An -v -tx1 /dev/urandom | head -c 4000000 | dd of=1.img conv=notrunc status=none
	take 1.img 0 2.img 77 900
	must snapshot vm1 --from 1.img
	must snapshot vm2 --from 2.img --json
	[ "$(field 0 '["lookups"]["found"]')" -gt 800 ]
	must delete vm1@{1,2}
	must check
	is vm2@1 2.img
	must scrub
}
