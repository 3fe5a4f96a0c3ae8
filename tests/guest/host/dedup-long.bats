#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Deduplication of volumes in use: what takes too long for every change.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2154
load ../lib/guest
load ../lib/lvm
load dedup

setup() {
	lvm_setup 400
	lvcreate -qq --yes --type thin-pool --size 48M --chunksize 64k --name thin "$vg"
	lvchange -qq --errorwhenfull y "$vg/thin"
}
teardown() { lvm_teardown; }

@test "dedup-long: others fill the thin pool while blocks come home" {
	local status=0 pid
	thin_volume 24
	random 0 256
	revdedupctl -q snapshot "$vg/vm1"
	note
	revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
	lvcreate -qq --yes --type thin --virtualsize 60M --thinpool thin --name full "$vg"
	revdedupctl recall --rate 1M "$vg/vm1" >/tmp/said 2>&1 3>&- &
	pid=$!
	sleep 2
	! dd if=/dev/urandom of="/dev/$vg/full" bs=64k count=960 oflag=direct status=none || return
	wait $pid || status=$?
	cat /tmp/said
	[ "$status" -eq 1 ]
	grep -q "is not being copied back any more.*MiB are left" /tmp/said
	same
	lvremove -qq --yes "$vg/full"
	revdedupctl -q recall "$vg/vm1"
	same
	dd if="/dev/$vg/vm1" bs=1M iflag=direct status=none | cmp - /tmp/rdt-pool/is
	revdedupctl -q check
}
