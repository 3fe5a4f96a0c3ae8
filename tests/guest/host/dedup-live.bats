#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Deduplication of volumes in use: chunks of zeros are given back, cold blocks are read from
# the pool and given back, and copied home again; beside a writer, killed at each step, after
# a boot.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2154
load ../lib/guest
load ../lib/lvm

setup() {
	lvm_setup 400
	lvcreate -qq --yes --type thin-pool --size 160M --chunksize 64k --name thin $vg
}
teardown() { lvm_teardown; }

thin_name=${vg//-/--}-vm1

# thin_volume MIB [LV]: attach a thin volume; set $vol to its device.
thin_volume() {
	lvcreate -qq --yes --type thin --virtualsize "$1M" --thinpool thin --name "${2:-vm1}" $vg
	revdedupctl -q attach "$vg/${2:-vm1}"
	vol=$(device_of "${2:-vm1}")
}

# mapped: print how many KiB of the thin pool the volume has.
mapped() { dmsetup status "$thin_name" | awk '{ print $4 / 2 }'; }

# mapped_is MIN MAX
mapped_is() {
	local kib
	kib=$(mapped)
	[ "$kib" -ge "$1" ] && [ "$kib" -le "$2" ] || {
		echo "mapped: $kib KiB; wanted: $1 to $2"
		return 1
	}
}

# has_table: has the device a table for blocks that are not home?
has_table() { ! dmsetup table "${vol##*/}" | grep -q ' - [0-9]* [^z]*$'; }

is_linear() { revdedup-meta print "/dev/$vg/vm1_rdmeta" --force 2>/dev/null | grep -q linear; }

random() { dd if=/dev/urandom of="$vol" bs=64k seek="$1" count="$2" oflag=direct conv=notrunc status=none; }
zeros() { dd if=/dev/zero of="$vol" bs=64k seek="$1" count="$2" oflag=direct conv=notrunc status=none; }

# same: is the volume what /tmp/rdt-pool/is says?
same() { cmp "$vol" /tmp/rdt-pool/is; }
note() { cp --sparse=always "$vol" /tmp/rdt-pool/is; }

leases() { revdedupctl status --json | json held_versions; }

tags() { lvs --noheadings -o lv_tags "$vg/vm1" | xargs; }

# --- mode pool

# pool_volume: 64 MiB, of which 40 are random, with a version.
pool_volume() {
	thin_volume 64
	random 0 320
	random 512 320
	revdedupctl -q snapshot "$vg/vm1"
	note
	mapped_is 40960 41984
}

@test "dedup: a volume reads its cold blocks from the pool, and gives their space back" {
	pool_volume
	run revdedupctl dedup "$vg/vm1" --mode pool --cold 0 </dev/null
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"--force"* ]]
	run revdedupctl dedup "$vg/vm1" --mode pool --cold 0 --force </dev/null
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no backup of it any more"*"--yes"* ]]
	mapped_is 40960 41984
	revdedupctl dedup "$vg/vm1" --mode pool --cold 0 -n --json | tee /tmp/said
	[ "$(json bytes_estimate </tmp/said)" = 41943040 ]
	revdedupctl dedup "$vg/vm1" --mode pool --cold 0 --force --yes --json | tee /tmp/said
	[ "$(json bytes_found </tmp/said)" = 41943040 ]
	[ "$(json bytes_in_pool </tmp/said)" = 41943040 ]
	mapped_is 0 1024
	[ "$(tags)" = revdedup_partial ]
	same
	# Again: nothing is left to do, and nothing is asked.
	revdedupctl dedup "$vg/vm1" --cold 0 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = pool ]
	[ "$(json bytes_found </tmp/said)" = 0 ]
	# What is written comes home.
	random 100 33
	dd if=/dev/urandom of="$vol" bs=1k seek=40001 count=3 conv=notrunc,fsync status=none
	note
	mapped_is 2048 4096
	down "$vol"
	revdedupctl -q attach "$vg/vm1"
	same
	# The next version is whole, and holds what the volume reads; the first one can go.
	revdedupctl -q snapshot "$vg/vm1"
	is_version "$vg/vm1@2" /tmp/rdt-pool/is
	revdedupctl -q delete "$vg/vm1@1"
	nothing_held
	same
	revdedupctl -q check
	revdedupctl dedup "$vg/vm1" --cold 0 --json | tee /tmp/said
	mapped_is 0 1024
	same
	# Back.
	revdedupctl dedup --undo "$vg/vm1"
	same
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	[ -z "$(tags)" ]
	mapped_is 40960 45056
	revdedupctl -q delete "$vg/vm1@2"
	nothing_held
	revdedupctl -q detach "$vg/vm1"
	revdedupctl -q check
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
}
