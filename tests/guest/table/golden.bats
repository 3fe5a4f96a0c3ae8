#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Metadata devices that the targets of releases have written, in tests/golden: this one loads
# them, knows what is dirty and where each block is, and goes on. metadata-guest.sh, which made
# them, says what they are.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

setup_file() { need_targets delay flakey zero; }

golden=/revdedup/tests/golden

# with NAME [OPTION...]: rdt-v, with the metadata of that name.
with() {
	tar -xf "$release/metadata.tar" -C "$BATS_TEST_TMPDIR"
	dd if="$BATS_TEST_TMPDIR/$1.img" of=$meta bs=64k oflag=direct status=none
	table $vol_sectors volume_uuid $some_uuid pool_uuid $some_uuid
	make rdt-v "$table"
}

# known NAME WHAT: what the release knew.
known() { sed -n "s/^$1 $2 //p" "$release/metadata"; }

# dirty_is SET RANGES
dirty_is() {
	msg dirty "$1" 0 32
	is "dirty, $1" "${reply% *}" "$2"
}

# each COMMAND: with the files of each release, in $release.
each() {
	local nr=0
	for release in "$golden"/*.*.*; do
		echo "files of ${release##*/}"
		"$1"
		nr=$((nr + 1))
	done
	[ $nr -gt 0 ]
}

track() {
	with track
	dirty_is current "$(known track dirty)"
	dirty_is frozen "$(known track frozen)"
	msg commit 2 2
	dirty_is current "$(known track dirty)"
	dm suspend rdt-v
	msg checkpoint 3
	dm resume rdt-v
	dirty_is frozen "$(known track dirty)"
	dm remove rdt-v
}

@test "golden metadata that track" { each track; }

remapped() {
	with table
	dirty_is current "$(known table dirty)"
	places_are 0 $((0x4000)) "$(known table places)"
	reads 0 8 "p800,8"
	reads 6144 8 "p38,8"
	reads 4096 128 "z,80"
	msg remap "0,1,p100,p180"
	places_are 0 2 "0,1,p180;1,1,p101"
	dm remove rdt-v
}

@test "golden metadata with a remap table" { each remapped; }

packed() {
	local pack
	for pack in 256 "300 even" "400 raw letter=r"; do
		/revdedup/bin/mkpack $pool $pack uuid=${some_uuid//-/} >"$BATS_TEST_TMPDIR/mkpack"
	done
	with packs
	places_are 0 $((0x4000)) "$(known packs places)"
	reads 0 8 "k0,8"
	reads 24 104 "k18,68"
	dm remove rdt-v
}

@test "golden metadata with packs" { each packed; }
