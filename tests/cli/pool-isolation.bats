#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl stats --isolation: what a lost frame would hurt. needs.py counts it again, version
# by version.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# counts: frames, then sum and most of volumes, and of versions.
counts() {
	must stats --isolation --json
	field 0 '["type"]' | grep -qx isolation
	python3 -c 'import json, sys
all = json.load(sys.stdin)
print(all["frames"], all["volumes_sum"], all["volumes_worst"], all["versions_sum"],
      all["versions_worst"])' <<<"$output"
}

# agrees: both count the same.
agrees() {
	local ours theirs
	ours=$(counts)
	theirs=$("$BATS_TEST_DIRNAME/needs.py")
	[ "$ours" = "$theirs" ] || {
		echo "stats says '$ours', and needs.py '$theirs'"
		return 1
	}
}

# noise N NR [MIB]: an image with so many blocks that nothing else has.
noise() {
	truncate -s "${3:-8}M" "$1.img"
	blocks "$1.img" 0 "$2"
}

# change FROM TO BLOCK...: an image with other content in these.
change() {
	local from=$1 to=$2 block
	shift 2
	cp --sparse=always "$from.img" "$to.img"
	for block; do
		blocks "$to.img" "$block" 1
	done
}

# Three volumes, two with the same origin, and versions that are in pieces.
make_fleet() {
	make_pool 128M
	noise 1 1500
	change 1 2 3 700
	change 2 3 4 701 1200
	noise 4 600
	must snapshot a --from 1.img
	must snapshot b --from 1.img
	must snapshot c --from 4.img
	must snapshot a --from 2.img
	must snapshot a --from 3.img
	must snapshot b --from 3.img
	# Something that all have.
	dd if=1.img of=4.img bs=1M count=1 conv=notrunc status=none
	must snapshot c --from 4.img
}

@test "isolation: an empty pool" {
	make_pool 128M
	[ "$(counts)" = "0 0 0 0 0" ]
	must stats --isolation
	[ "${lines[0]}" = "hurt by a lost frame of 0:" ]
	[ "${lines[1]}" = "  volumes:  mean 0.00 of 0 (0.0%), worst 0 (0.0%)" ]
}

@test "isolation: two volumes with one frame, and one that has another" {
	make_pool 128M
	noise 1 512 2
	noise 2 512 2
	must snapshot a --from 1.img
	must snapshot b --from 1.img
	must snapshot c --from 2.img
	must snapshot c --from 2.img
	must snapshot c --from 2.img
	# Of the first 2 volumes and versions need it, of the other 1 and 3.
	[ "$(counts)" = "2 3 2 5 3" ]
	must stats --isolation
	[ "${lines[1]}" = "  volumes:  mean 1.50 of 3 (50.0%), worst 2 (66.7%)" ]
	[ "${lines[2]}" = "  versions: mean 2.50 of 5 (50.0%), worst 3 (60.0%)" ]
	agrees
}

@test "isolation: versions in pieces, before a pass and after" {
	local version
	make_fleet
	agrees
	must dedup --older 0 --least-run 1
	agrees
	for version in a@2 b@2 c@1; do
		must delete "$version"
		agrees
	done
	must repair --rebuild-catalog
	agrees
}

@test "isolation: a volume that has grown, shrunk and is empty" {
	make_pool 128M
	noise 1 1000 4
	noise 2 3000 16
	must snapshot a --from 1.img
	must snapshot a --from 2.img
	must snapshot a --from 1.img
	truncate -s 4M 3.img
	must snapshot a --from 3.img
	must snapshot b --from 3.img
	agrees
	must delete a@2
	agrees
}

# bats test_tags=slow
@test "isolation: packs, of which one may lie in two frames" {
	local nr
	make_pool 128M
	must tune --pieces 4
	for nr in 1 2 3 4 5; do
		truncate -s 8M "$nr.img"
		basenc --base16 /dev/urandom | head -c 7M |
			dd of="$nr.img" bs=4096 conv=notrunc iflag=fullblock status=none
		must snapshot "vm$((nr % 3))" --from "$nr.img" --compression zstd
	done
	[ "$(ask "SELECT count(*) FROM pack WHERE place / 512 <> (place + blocks - 1) / 512")" -gt 0 ]
	agrees
	must dedup --older 0
	must copies 4G --to copies --force
	agrees
	[ "$(left)" = "0 0 0 0" ]
}

# left: the same counts as counts, but for frames of which there are copies.
left() {
	must stats --isolation --json
	python3 -c 'import json, sys
all = json.load(sys.stdin)["with_copies"]
print(all["volumes_sum"], all["volumes_worst"], all["versions_sum"], all["versions_worst"])' \
		<<<"$output"
}

# left_by FRAMES: what needs.py says of all frames but these, one a line.
left_by() {
	"$BATS_TEST_DIRNAME/needs.py" --frames |
		awk -v no="$1" 'BEGIN { split(no, list, "\n"); for (i in list) is[list[i]] }
			$1 in is { next }
			{ v += $2; w += $3; if ($2 > vw) vw = $2; if ($3 > ww) ww = $3 }
			END { print v + 0, vw + 0, w + 0, ww + 0 }'
}

@test "isolation: a frame of which there is a copy hurts nobody" {
	make_fleet
	must dedup --older 0
	must copies 40% --to copies --force
	copied=$("$BATS_TEST_DIRNAME/copies.py" list copies | cut -d' ' -f1)
	[ "$(left)" = "$(left_by "$copied")" ]
	must stats --isolation
	[ "${lines[3]}" = "the same, with the copies on another disk:" ]
	agrees
	must copies 100% --force
	[ "$(left)" = "0 0 0 0" ]
	# What has changed since has none.
	noise 5 900
	must snapshot d --from 5.img
	copied=$("$BATS_TEST_DIRNAME/copies.py" list copies | cut -d' ' -f1)
	[ "$(left)" = "$(left_by "$copied")" ]
	[ "$(left)" = "2 1 2 1" ]
}

@test "isolation: wrong options" {
	make_pool 128M
	ctl stats a --isolation
	[ "$status" -eq 2 ]
	ctl stats --lookups
	[ "$status" -eq 2 ]
	[[ $output == *"'stats --lookups' is 'lookups' of each 'snapshot --json' now"* ]]
}
