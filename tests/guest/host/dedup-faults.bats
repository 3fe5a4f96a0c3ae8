#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Deduplication of volumes in use, when something else goes wrong: locks, leases, a table that
# cannot be written, full and damaged and absent pools, suspends and signals at each step.
#
#   UNPLUGGED   for how many seconds the pool is away (default 3)

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2154
load ../lib/guest
load ../lib/lvm
load dedup

pid=
dev=/dev/mapper/rdt-data
steps=(dedup-leased dedup-marked dedup-aliased dedup-shed)

setup() {
	lvm_setup 400
	lvcreate -qq --yes --type thin-pool --size 48M --chunksize 64k --name thin "$vg"
}

teardown() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || :
	lvm_teardown
}

# pool_on_device: the pool's data on a device that can be made to fail.
pool_on_device() {
	rm -r "$REVDEDUP_POOL"
	lvcreate -qq --yes -Wy -Zy --size 96M --name data "$vg"
	dm_create rdt-data "0 $((96 << 11)) linear /dev/$vg/data 0"
	revdedupctl -q init --compression none --data $dev "$REVDEDUP_POOL"
}

# small_volume: 24 MiB, of which 12 are random, with a version.
small_volume() {
	thin_volume 24
	random 0 96
	random 128 96
	revdedupctl -q snapshot "$vg/vm1"
	note
	mapped_is 12288 12416
}

to_pool=(offload "$vg/vm1" --cold 0 --force --yes)

give_to_pool() { revdedupctl -q "${to_pool[@]}"; }

come_home() {
	revdedupctl -q recall "$vg/vm1"
	same
	base_same
}

# base_same: the same of the volume below, past a page cache that may be older.
base_same() { dd if="/dev/$vg/vm1" bs=1M iflag=direct status=none | cmp - /tmp/rdt-pool/is; }

# stop_at STEP[:N] [COMMAND...]: start it, by default dedup of vm1, and wait until it has stopped
# there.
stop_at() {
	local step=$1
	shift
	[ $# -gt 0 ] || set -- "${to_pool[@]}"
	rm -f /tmp/steps
	REVDEDUP_FAIL_LOG=/tmp/steps stopped "$step" "$@" >/tmp/said 2>&1
}

# goes_on STATUS [TEXT]: what has stopped ends with that exit code, and says that.
goes_on() {
	local status=0
	kill -CONT "$pid"
	wait "$pid" || status=$?
	pid=
	echo "exit code $status:"
	cat /tmp/said
	[ "$status" -eq "$1" ]
	[ -z "${2:-}" ] || grep -q "$2" /tmp/said
}

# overwrite_pool: what was freed in the pool gets another content.
overwrite_pool() {
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=16 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
}

# table_of NAME LINES: the device has that table from now on.
table_of() {
	dmsetup load "$1" <<<"$2"
	dmsetup suspend --noflush "$1"
	dmsetup resume "$1"
}

# place_of BLOCK: print which block of the pool the volume has there.
place_of() {
	local answer
	answer=$(dmsetup message "${vol##*/}" 0 table "$1" 1)
	answer=${answer%%[; ]*}
	[[ $answer == *,p* ]] || {
		echo "no block of the pool: $answer" >&2
		return 1
	}
	echo $((16#${answer##*,p}))
}

# break_block PLACE: that block of the pool cannot be read from now on.
break_block() {
	local at=$(($1 * 8))
	table_of rdt-data "0 $at linear /dev/$vg/data 0
$at 8 error
$((at + 8)) $(((96 << 11) - at - 8)) linear /dev/$vg/data $((at + 8))"
}

# reads BLOCK, writes BLOCK [BYTES]: of the volume.
reads() { dd if="$vol" of=/tmp/read bs=4k skip="$1" count=1 iflag=direct status=none; }
writes() {
	dd if=/dev/urandom of="$vol" bs="${2:-4096}" seek=$(($1 << 12)) count=1 \
		oflag=direct,seek_bytes conv=notrunc status=none
}

fails() {
	! "$@" 2>/tmp/err || {
		echo "has not failed: $*"
		return 1
	}
}

# --- others at work

# bats test_tags=soak
@test "dedup-faults: two commands at once, without the lock between them" {
	small_volume
	stop_at dedup-marked
	random 3 1
	note
	rm "$REVDEDUP_CONFIG"/volumes/.*.lock
	give_to_pool
	same
	random 130 1
	note
	goes_on 0
	same
	# Not that of the two segments that were written.
	mapped_is 64 4160
	come_home
}

# bats test_tags=soak
@test "dedup-faults: a lease that another command has forgotten is taken again" {
	thin_volume 72
	random 1040 64
	revdedupctl -q snapshot "$vg/vm1"
	note
	overwrite_pool
	# Before the second window; the first one has nothing for the pool.
	stop_at attachment-rename:3
	grep -qx dedup-leased /tmp/steps
	revdedupctl -q delete other@1
	overwrite_pool
	goes_on 0
	[ "$(grep -cx dedup-leased /tmp/steps)" -eq 2 ]
	mapped_is 0 64
	revdedupctl -q delete "$vg/vm1@1"
	overwrite_pool
	same
	revdedupctl -q check
}

# bats test_tags=soak
@test "dedup-faults: the version is deleted between two windows" {
	thin_volume 72
	random 1040 64
	revdedupctl -q snapshot "$vg/vm1"
	note
	stop_at attachment-rename:3
	revdedupctl -q delete "$vg/vm1@1"
	overwrite_pool
	# It is kept for the lease of the first window.
	goes_on 0
	mapped_is 0 64
	overwrite_pool
	same
	revdedupctl -q check
}

# bats test_tags=soak
@test "dedup-faults: the version is deleted between reading and swapping" {
	local at
	small_volume
	for at in {0..11}; do
		random $((at * 8)) 3
	done
	revdedupctl -q snapshot "$vg/vm1"
	note
	overwrite_pool
	stop_at dedup-marked
	# Nothing is named yet: who frees would forget the lease, and then the version would go.
	revdedupctl -q delete other@1
	revdedupctl -q delete "$vg/vm1@2"
	overwrite_pool
	run revdedupctl recompress zstd
	[ "$status" -eq 11 ]
	overwrite_pool
	goes_on 0
	same
	mapped_is 0 64
	revdedupctl -q delete "$vg/vm1@1"
	overwrite_pool
	same
	come_home
	revdedupctl -q check
}

# bats test_tags=soak
@test "dedup-faults: the lease cannot be made stable, and the version goes" {
	small_volume
	run env REVDEDUP_FAIL=lease-add=EIO revdedupctl -q "${to_pool[@]}"
	[ "$status" -eq 1 ]
	revdedupctl -q delete "$vg/vm1@1"
	overwrite_pool
	overwrite_pool
	same
	mapped_is 12288 12416
}

# bats test_tags=soak
@test "dedup-faults: somebody copies blocks home by hand" {
	small_volume
	stop_at dedup-aliased
	dmsetup message "${vol##*/}" 0 hydrate start
	goes_on 11 "copies it back from the pool"
	same
	come_home
	give_to_pool
	same
	mapped_is 0 64
}

# bats test_tags=soak
@test "dedup-faults: suspended, reloaded and resized at each step" {
	local step size=24 name
	small_volume
	name=${vol##*/}
	for step in "${steps[@]}"; do
		echo "at $step"
		stop_at "$step"
		dmsetup suspend --noflush "$name"
		dmsetup table "$name" | dmsetup load "$name"
		dmsetup resume "$name"
		fails dmsetup remove "$name"
		lvextend -qq --yes --size $((size += 4))M "$vg/vm1"
		run revdedupctl --lock-wait 0 attach "$vg/vm1"
		echo "$output"
		[ "$status" -eq 11 ]
		goes_on 0
		cmp -n $((24 << 20)) "$vol" /tmp/rdt-pool/is
		revdedupctl -q attach "$vg/vm1"
		note
		mapped_is 0 64
		come_home
		# What is larger than its version is dirty.
		revdedupctl -q snapshot "$vg/vm1"
	done
	revdedupctl -q check
}

# bats test_tags=soak
@test "dedup-faults: interrupted at each step" {
	local step
	local -A ends=([dedup-leased]=130 [dedup-marked]=130 [dedup-aliased]=0 [dedup-shed]=0)
	small_volume
	for step in "${steps[@]}"; do
		echo "at $step"
		[ "$step" = dedup-leased ] || random 40 4
		note
		revdedupctl -q snapshot "$vg/vm1"
		stop_at "$step"
		kill -INT "$pid"
		# What is swapped is given back, and there was no more to do then.
		goes_on "${ends[$step]}"
		same
	done
	give_to_pool
	same
	mapped_is 0 64
	come_home
	revdedupctl -q check
}

# --- what fails below

# bats test_tags=soak
@test "dedup-faults: the metadata cannot be written while blocks are swapped" {
	local good
	modprobe dm-flakey
	small_volume
	good=$(dmsetup table "${vol##*/}:meta")
	stop_at dedup-marked
	table_of "${vol##*/}:meta" "${good/linear/flakey} 0 3600 1 error_writes"
	goes_on 1
	same
	mapped_is 12288 12416
	base_same
	table_of "${vol##*/}:meta" "$good"
	same
	writes 3
	note
	revdedupctl -q snapshot "$vg/vm1"
	give_to_pool
	same
	mapped_is 0 64
	come_home
}

@test "dedup-faults: a write that comes home finds the thin pool full" {
	lvchange -qq --errorwhenfull y "$vg/thin"
	small_volume
	give_to_pool
	lvcreate -qq --yes --type thin --virtualsize 60M --thinpool thin --name full "$vg"
	fails dd if=/dev/urandom of="/dev/$vg/full" bs=64k count=960 oflag=direct status=none
	fails random 5 2
	fails writes 2100
	fails writes 2105 512
	same
	run revdedupctl status
	[ "$status" -ne 0 ]
	echo "$output"
	[[ $output == *"lies in a thin pool that is full: writes wait, or fail"* ]]
	lvextend -qq --yes --size +16M "$vg/thin"
	random 5 2
	writes 2105 512
	cmp -n $((5 << 16)) "$vol" /tmp/rdt-pool/is
	cmp -i $((2106 << 12)) "$vol" /tmp/rdt-pool/is
	note
	revdedupctl -q snapshot "$vg/vm1"
	is_version "$vg/vm1@2" /tmp/rdt-pool/is
	same
}

@test "dedup-faults: a block of the pool cannot be read" {
	local data
	pool_on_device
	small_volume
	give_to_pool
	revdedupctl -q map "$vg/vm1@1" rdt-map
	data=$(dmsetup table rdt-data)
	break_block "$(place_of 2070)"
	fails reads 2070
	reads 2069
	reads 2071
	fails dd if=/dev/mapper/rdt-map of=/dev/null bs=4k skip=2070 count=1 iflag=direct status=none
	writes 2071
	# A part needs the rest, and all of it nothing.
	fails writes 2070 512
	run revdedupctl snapshot "$vg/vm1"
	echo "$output"
	[ "$status" -ne 0 ]
	# The segment that it is in.
	[[ $output == *":view' at $((2070 / 512 << 21))"*"no version was made"* ]]
	writes 2070
	reads 2070
	table_of rdt-data "$data"
	cmp -n $((2070 << 12)) "$vol" /tmp/rdt-pool/is
	cmp -i $((2072 << 12)) "$vol" /tmp/rdt-pool/is
	cmp /dev/mapper/rdt-map /tmp/rdt-pool/is
	note
	revdedupctl -q unmap rdt-map
	revdedupctl -q snapshot "$vg/vm1"
	is_version "$vg/vm1@latest" /tmp/rdt-pool/is
	come_home
	revdedupctl -q check
}

# bats test_tags=soak
@test "dedup-faults: the pool is unplugged for a while" {
	local data end block
	pool_on_device
	small_volume
	give_to_pool
	writes 7
	note
	data=$(dmsetup table rdt-data)
	table_of rdt-data "0 $((96 << 11)) error"
	end=$((SECONDS + ${UNPLUGGED:-3}))
	while [ $SECONDS -lt $end ]; do
		block=$((RANDOM % 1400 + 8))
		fails reads "$block"
		fails writes "$block" 512
		reads 7
		head -c 4096 /dev/urandom >/tmp/piece
		dd if=/tmp/piece of="$vol" bs=4k seek=2100 oflag=direct conv=notrunc status=none
		dd if=/tmp/piece of=/tmp/rdt-pool/is bs=4k seek=2100 conv=notrunc status=none
		reads 2100
		cmp /tmp/read /tmp/piece
	done
	fails revdedupctl offload "$vg/vm1" --cold 0
	fails timeout 60 revdedupctl -q snapshot "$vg/vm1"
	revdedupctl status "$vg/vm1" || :
	table_of rdt-data "$data"
	same
	revdedupctl -q snapshot "$vg/vm1"
	is_version "$vg/vm1@latest" /tmp/rdt-pool/is
	give_to_pool
	same
	come_home
	revdedupctl -q check
}

@test "dedup-faults: wrong bytes in the pool are found, and not healed from who reads them" {
	local at file
	pool_on_device
	small_volume
	give_to_pool
	dd if=/dev/urandom of=$dev bs=4k seek="$(place_of 2070)" count=1 oflag=direct status=none
	run revdedupctl scrub
	echo "$output"
	[ "$status" -eq 4 ]
	[[ $output == *"$vg/vm1@1"* ]]
	run revdedupctl repair --from "$vol"
	echo "$output"
	[ "$status" -ne 0 ]
	run revdedupctl scrub
	[ "$status" -eq 4 ]
	revdedupctl repair --from /tmp/rdt-pool/is
	revdedupctl scrub
	same
	# Where the volume has it still, it is not given away, whatever the page cache has.
	at=$(place_of 2070)
	come_home
	exec {file}<$dev
	cat <&"$file" >/dev/null
	dd if=/dev/urandom of="/dev/$vg/data" bs=4k seek="$at" count=1 oflag=direct status=none
	run revdedupctl "${to_pool[@]}"
	echo "$output"
	[ "$status" -eq 4 ]
	[[ $output == *"differ at offset $((2070 << 12))"* ]]
	same
	exec {file}<&-
	revdedupctl repair --from "$vol"
	give_to_pool
	same
	come_home
}

# --- after a boot

# bats test_tags=soak
@test "dedup-faults: at boot the pool is not there" {
	small_volume
	make_lv vm2 16
	revdedupctl -q attach "$vg/vm2"
	give_to_pool
	down "$vol" "$(device_of vm2)"
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/away
	run revdedupctl attach --all
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"$REVDEDUP_POOL"* ]]
	! dm_devices | grep -qx "${vol##*/}" || return
	[ -b "$(device_of vm2)" ]
	mv /tmp/rdt-pool/away "$REVDEDUP_POOL"
	revdedupctl attach --all
	same
	come_home
}

# bats test_tags=soak
@test "dedup-faults: a copy of the pool lies where the pool was" {
	small_volume
	give_to_pool
	random 20 4
	revdedupctl -q snapshot "$vg/vm1"
	note
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/mine
	cp -r --sparse=always /tmp/rdt-pool/mine "$REVDEDUP_POOL"
	run revdedupctl "${to_pool[@]}"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"lie in another pool than"* ]]
	same
	rm -r "$REVDEDUP_POOL"
	mv /tmp/rdt-pool/mine "$REVDEDUP_POOL"
	give_to_pool
	mapped_is 0 64
	come_home
}

@test "dedup-faults: without the module, the blocks come home off-line" {
	local meta at data
	pool_on_device
	small_volume
	give_to_pool
	writes 2
	note
	meta=/dev/$vg/vm1_rdmeta at=$(place_of 2070) data=$(dmsetup table rdt-data)
	down "$vol"
	rmmod dm_revdedup
	mv "$module_file" /tmp/module.ko
	run revdedupctl attach "$vg/vm1"
	echo "$output"
	mv /tmp/module.ko "$module_file"
	[ "$status" -eq 13 ]
	! dm_devices | grep -qx "${vol##*/}" || return
	# It ends half-way, and is repeated.
	break_block "$at"
	fails /revdedup/tools/revdedup-meta finish --yes "$meta" "/dev/$vg/vm1" $dev
	cat /tmp/err
	table_of rdt-data "$data"
	/revdedup/tools/revdedup-meta finish --yes "$meta" "/dev/$vg/vm1" $dev
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	load_module
	revdedupctl -q attach "$vg/vm1"
	same
}

# --- sizes

# bats test_tags=soak
@test "dedup-faults: a volume that ends within a block, and a pool that has grown" {
	vgremove -qq --force --yes "$vg"
	vgcreate -qq -s 1k "$vg" /dev/ram0
	lvcreate -qq --yes --type thin-pool --size 48M --chunksize 64k --name thin "$vg"
	rm -r "$REVDEDUP_POOL"
	revdedupctl -q init --compression none --size 64M "$REVDEDUP_POOL"
	overwrite_pool
	lvcreate -qq --yes --type thin --virtualsize 22533K --thinpool thin --name vm1 "$vg"
	revdedupctl -q attach "$vg/vm1"
	vol=$(device_of vm1)
	random 0 32
	dd if=/dev/urandom of="$vol" bs=1k seek=$((22533 - 140)) count=140 oflag=direct status=none
	revdedupctl -q snapshot "$vg/vm1"
	note
	give_to_pool
	same
	# What has no whole chunk stays.
	mapped_is 0 128
	revdedupctl -q grow --size 160M
	overwrite_pool
	overwrite_pool
	random 32 320
	revdedupctl -q snapshot "$vg/vm1"
	note
	give_to_pool
	same
	mapped_is 0 128
	[ "$(place_of 2000)" -ge $((64 << 8)) ]
	down "$vol"
	revdedupctl -q attach "$vg/vm1"
	same
	come_home
}
