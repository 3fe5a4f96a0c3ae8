#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Volumes that begin as a version: at once, plain and thin, after a boot, killed at each
# step, and with obstacles.

# Each test is a subshell; no name here has blanks; lvs_are takes words.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() { lvm_setup 400; }
teardown() { lvm_teardown; }

new=$(device_of new)

# one: a volume with a version, which is /tmp/rdt-pool/one, and a newer one.
one() {
	some_volume vm1 "${1:-32}"
	cp "$vol" /tmp/rdt-pool/one
	dd if=/dev/urandom of="$vol" bs=1M seek=3 count=9 oflag=direct conv=notrunc status=none
	revdedupctl -q snapshot $vg/vm1
}

@test "clone: a version is a volume of its own, at once, and home after a while" {
	one
	cp "$vol" /tmp/rdt-pool/now
	revdedupctl clone $vg/vm1@1 $vg/new --json | tee /tmp/said
	[ "$(json device </tmp/said)" = "$new" ]
	[ "$(json volume </tmp/said)" = $vg/new ]
	[ "$(json version </tmp/said)" = $vg/vm1@1 ]
	grep -q '"comes_home": true' /tmp/said
	cmp "$new" /tmp/rdt-pool/one
	# What is written to it is on nobody else; what it began as may go.
	dd if=/dev/urandom of="$new" bs=1k seek=5001 count=3000 conv=notrunc,fsync status=none
	dd if=/dev/urandom of=/tmp/rdt-pool/one bs=1k seek=5001 count=1 conv=notrunc status=none
	cp "$new" /tmp/rdt-pool/one
	revdedupctl delete $vg/vm1@1
	revdedupctl -q prune $vg/vm1 --keep-last 1
	cmp "$new" /tmp/rdt-pool/one
	cmp "$vol" /tmp/rdt-pool/now
	revdedupctl status
	# Its versions are its own.
	revdedupctl -q snapshot $vg/new
	is_version $vg/new@1 /tmp/rdt-pool/one
	retry 100 0.3 is_home new
	cmp "$new" /tmp/rdt-pool/one
	cmp /dev/$vg/new /tmp/rdt-pool/one
	revdedupctl snapshot $vg/new --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	revdedupctl -q check
	revdedupctl detach $vg/new
	lvs_are new vm1 vm1_rdmeta
	nothing_held
	[ -z "$(losetup -a)" ]
	revdedupctl -q check
}

# bats test_tags=soak
@test "clone: of an image whose size is none of LVM's, the rest is zeros" {
	# What lay in the group before is nobody's business.
	make_lv old 200
	dd if=/dev/urandom of=/dev/$vg/old bs=1M count=200 oflag=direct status=none
	lvremove -qq --yes $vg/old
	dd if=/dev/urandom of=/tmp/rdt-pool/img bs=777 count=7000 status=none
	revdedupctl -q snapshot img --from /tmp/rdt-pool/img
	size=$(stat -c %s /tmp/rdt-pool/img)
	for hydrate in --no-hydrate ""; do
		revdedupctl clone img $vg/new $hydrate
		cmp -n "$size" "$new" /tmp/rdt-pool/img
		[ "$(blockdev --getsize64 "$new")" = $((8 << 20)) ]
		cmp -i "$size:0" -n $(((8 << 20) - size)) "$new" /dev/zero
		[ -z "$hydrate" ] || {
			revdedupctl detach $vg/new --force --yes
			lvremove -qq --yes $vg/new
		}
	done
	retry 100 0.3 is_home new
	cmp -n "$size" /dev/$vg/new /tmp/rdt-pool/img
	cmp -i "$size:0" -n $(((8 << 20) - size)) /dev/$vg/new /dev/zero
}

@test "clone: a thin one takes no space for zeros, and stays in the pool if it is to" {
	lvcreate -qq --yes --type thin-pool --size 64M --name thin $vg
	make_lv vm1 64
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	dd if=/dev/urandom of="$vol" bs=1M seek=20 count=8 oflag=direct status=none
	revdedupctl -q snapshot $vg/vm1
	cp --sparse=always "$vol" /tmp/rdt-pool/one
	revdedupctl clone $vg/vm1 $vg/new --thinpool $vg/thin --no-hydrate --json | tee /tmp/said
	grep -q '"comes_home": false' /tmp/said
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl status $vg/new --json | tee /tmp/said
	[ "$(json blocks_away </tmp/said)" = 2048 ]
	[ "$(json blocks_coming_home </tmp/said)" = 0 ]
	percent=$(lvs --noheadings -o data_percent $vg/new)
	[ "${percent%.*}" -le 2 ]
	dd if=/dev/urandom of="$new" bs=64k seek=100 count=9 oflag=direct conv=notrunc status=none
	dd if="$new" of=/tmp/rdt-pool/one bs=64k skip=100 seek=100 count=9 conv=notrunc status=none
	cmp "$new" /tmp/rdt-pool/one
	# What is in the pool would be lost.
	run revdedupctl detach $vg/new
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *--force* ]]
	run revdedupctl detach $vg/new --force
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *--yes* ]]
	# The same where the devices are not there, as after a boot.
	dmsetup remove "${new##*/}"
	dmsetup remove "${new##*/}:meta"
	run revdedupctl detach $vg/new
	echo "$output"
	[ "$status" -eq 11 ]
	run revdedupctl detach $vg/new --force
	[ "$status" -eq 1 ]
	revdedupctl attach $vg/new
	cmp "$new" /tmp/rdt-pool/one
	dmsetup message "${new##*/}" 0 hydrate start
	retry 100 0.3 is_home new
	cmp /dev/$vg/new /tmp/rdt-pool/one
	percent=$(lvs --noheadings -o data_percent $vg/new)
	[ "${percent%.*}" -le 20 ]
	revdedupctl detach $vg/new
	nothing_held
	# Given up.
	revdedupctl clone $vg/vm1 $vg/two --thinpool thin --no-hydrate
	revdedupctl detach $vg/two --force --yes
	lvs_are new thin two vm1 vm1_rdmeta
	nothing_held
	revdedupctl -q check
}

@test "clone: it goes on after a boot" {
	one 48
	revdedupctl clone $vg/vm1@1 $vg/new --no-hydrate
	dmsetup message "${new##*/}" 0 hydrate start 1
	for name in "$new" "$vol"; do
		dmsetup remove --retry "${name##*/}"
		dmsetup remove --retry "${name##*/}:meta"
	done
	rmmod dm_revdedup
	# Without the module what lies in the pool cannot be had.
	run revdedupctl attach --all
	echo "$output"
	[ "$status" -eq 3 ]
	load_module
	revdedupctl attach --all
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl status $vg/new
	dmsetup message "${new##*/}" 0 hydrate start
	retry 100 0.3 is_home new
	cmp /dev/$vg/new /tmp/rdt-pool/one
}

steps="clone-noted clone-base clone-meta lease-add clone-leased clone-table clone-up"

# is_as_before: nothing is left of a clone, on LVM, in files, or in device-mapper.
is_as_before() {
	lvs_are vm1 vm1_rdmeta
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
	[ "$(ls $REVDEDUP_CONFIG/volumes)" = "${vol##*/}" ]
}

# bats test_tags=soak
@test "clone: killed at each step it leaves nothing, or is made by the next" {
	one 16
	REVDEDUP_FAIL_LOG=/tmp/log revdedupctl -q clone $vg/vm1@1 $vg/new
	for name in $steps; do
		grep -qx "$name" /tmp/log
	done
	[ "$(grep -c '^clone-' /tmp/log)" -eq 6 ]
	revdedupctl detach $vg/new --force --yes
	lvremove -qq --yes $vg/new
	for name in $steps; do
		echo "# $name"
		status=0
		REVDEDUP_FAIL=$name=kill revdedupctl -q clone $vg/vm1@1 $vg/new 3>&- || status=$?
		[ "$status" -eq 137 ]
		run revdedupctl status
		[ "$status" -eq 1 ]
		[[ $output == *"unfinished clone"* ]]
		revdedupctl attach --all
		is_as_before
	done
	# The same, and made anew.
	for name in clone-meta clone-up; do
		echo "# $name"
		run env REVDEDUP_FAIL=$name=kill revdedupctl -q clone $vg/vm1@1 $vg/new
		[ "$status" -eq 137 ]
		run revdedupctl snapshot $vg/new
		[ "$status" -eq 1 ]
		revdedupctl clone $vg/vm1@1 $vg/new
		cmp "$new" /tmp/rdt-pool/one
		revdedupctl detach $vg/new --force --yes
		lvremove -qq --yes $vg/new
		is_as_before
	done
	is_version $vg/vm1@1 /tmp/rdt-pool/one
	nothing_held
	revdedupctl -q check
}

@test "clone: cut short, and its pool is gone" {
	one 16
	run env REVDEDUP_FAIL=clone-leased=kill revdedupctl -q clone $vg/vm1@1 $vg/new
	[ "$status" -eq 137 ]
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/away
	# Not that '/dev/vg/new' is in use, or is not there.
	run revdedupctl attach $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"nothing was changed"* ]]
	[[ $output != *"/dev/$vg/new"* ]]
	run revdedupctl detach $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"nothing was changed"*"detach --force $vg/new"* ]]
	[ -e "$REVDEDUP_CONFIG/volumes/${new##*/}" ]
	run revdedupctl detach $vg/new --force
	echo "$output"
	[ "$status" -eq 0 ]
	is_as_before
	# It was not gone for good, and is told what it could not be told then.
	[[ $output =~ unmap\ --force\ (REVDEDUP-[-0-9a-f]+) ]]
	device=${BASH_REMATCH[1]}
	mv /tmp/rdt-pool/away "$REVDEDUP_POOL"
	is_version $vg/vm1@1 /tmp/rdt-pool/one
	revdedupctl delete $vg/vm1@1
	revdedupctl stats --json | grep -q '"versions_held": 1'
	run revdedupctl unmap --force "$device"
	[ "$status" -eq 1 ]
	[[ $output == *--yes* ]]
	revdedupctl unmap --force "$device" --yes
	revdedupctl stats --json | grep -q '"versions_held": 0'
	nothing_held
	run revdedupctl unmap --force "$device" --yes
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"the pool keeps nothing for a device"* ]]
	revdedupctl -q check
}

# bats test_tags=soak
@test "clone: cut short, and another volume gets its name" {
	one 16
	run env REVDEDUP_FAIL=clone-leased=kill revdedupctl -q clone $vg/vm1@1 $vg/new
	[ "$status" -eq 137 ]
	lvcreate -qq --yes -L 16m -n other $vg
	run revdedupctl attach $vg/new --from /dev/$vg/other
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"was an unfinished clone"* ]]
	[ -b "$new" ]
	revdedupctl -q detach $vg/new
	lvremove -qq --yes $vg/other
	is_as_before
	nothing_held
}

@test "clone: one that fails leaves nothing" {
	one 16
	for name in clone-base lease-add clone-up; do
		echo "# $name"
		REVDEDUP_FAIL=$name=EIO run revdedupctl clone $vg/vm1@1 $vg/new
		echo "$output"
		[ "$status" -eq 1 ]
		is_as_before
	done
	revdedupctl clone $vg/vm1@1 $vg/new
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl -q check
}

# refused STATUS WORDS COMMAND...: it says so, and nothing was made.
refused() {
	local want=$1 words=$2
	shift 2
	run revdedupctl "$@"
	echo "$output"
	[ "$status" -eq "$want" ]
	[[ $output == *"$words"* ]]
	[[ $output == *"nothing was changed"* || $status -eq 2 || $words == "no version"* ]]
	lvs_are $lvs
}

@test "clone: what is in the way is said, and nothing was made" {
	one 16
	make_lv there 8
	make_lv big 280
	lvs="big there vm1 vm1_rdmeta"
	refused 1 "there is a logical volume '$vg/there'" clone $vg/vm1@1 $vg/there
	refused 1 "is attached already" clone $vg/vm1@1 $vg/vm1
	refused 1 "no version 7" clone $vg/vm1@7 $vg/new
	refused 1 "vgs" clone $vg/vm1@1 no-group/new
	refused 1 "no thin pool" clone $vg/vm1@1 $vg/new --thinpool there
	refused 2 "GROUP/NAME" clone $vg/vm1@1 new
	refused 1 "is not the name of a logical volume" clone $vg/vm1@1 $vg/new/er
	dd if=/dev/urandom of=/tmp/rdt-pool/img bs=1M count=9 status=none
	revdedupctl -q snapshot $vg/img --from /tmp/rdt-pool/img
	refused 1 "has versions of a volume" clone $vg/vm1@1 $vg/img
	lvextend -qq -l +100%FREE $vg/big
	refused 12 "--thinpool" clone $vg/vm1@1 $vg/new
	lvremove -qq --yes $vg/big
	make_lv left_rdmeta 4
	lvs="left_rdmeta there vm1 vm1_rdmeta"
	refused 1 "'lvremove $vg/left_rdmeta' removes what" clone $vg/vm1@1 $vg/left
	lvremove -qq --yes $vg/left_rdmeta
	lvs="there vm1 vm1_rdmeta"
	# A volume that is lost is had again, and its versions go on.
	revdedupctl detach $vg/vm1
	lvremove -qq --yes $vg/vm1
	lvs=there
	rmmod dm_revdedup
	refused 13 "no module" clone $vg/vm1@1 $vg/vm1
	load_module
	revdedupctl clone $vg/vm1@1 $vg/vm1
	cmp "$vol" /tmp/rdt-pool/one
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@3 /tmp/rdt-pool/one
}

@test "clone: its metadata are not left suspended, and its pool is told" {
	one 16
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/new
	run env REVDEDUP_FAIL=freeze-meta=EIO revdedupctl snapshot $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	# A first write to a segment is one to the metadata, too.
	timeout 120 dd if=/dev/urandom of="$new" bs=4k count=1 oflag=direct conv=notrunc status=none
	# A command and its guard were killed together.
	dmsetup suspend "${new##*/}:meta"
	revdedupctl attach $vg/new
	timeout 120 dd if=/dev/urandom of="$new" bs=4k count=1 seek=600 oflag=direct \
		conv=notrunc status=none
	revdedupctl -q snapshot $vg/new
	is_version $vg/new@1 "$new"
	# As long as its device is there it is not one that does not come back.
	device=REVDEDUP-$(dmsetup info -c --noheadings -o uuid "${new##*/}" | cut -d- -f2-)
	run revdedupctl unmap --force "$device" --yes
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"nothing was changed"* ]]
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/away
	run revdedupctl detach $vg/new
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"nothing was changed"*--force* ]]
	mv /tmp/rdt-pool/away "$REVDEDUP_POOL"
	is_version $vg/new@1 "$new"
	revdedupctl detach $vg/new --force --yes
	nothing_held
}
