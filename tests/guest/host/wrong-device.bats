#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Devices, pools and names that could be taken for others: two commands at a time, two
# pools, and devices that are not what they were.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() { lvm_setup; }
teardown() { lvm_teardown; }

# file_of LV: of its attachment.
file_of() { echo "$REVDEDUP_CONFIG/volumes/revdedup-${vg//-/--}-$1"; }

# put MIB: new content of $vol.
put() {
	dd if=/dev/urandom of="$vol" bs=1M seek=$1 count=1 oflag=direct conv=notrunc status=none
}

@test "wrong-device: two commands that write down at the same time what they did" {
	local pid
	some_volume vm2 16
	some_volume vm1 16
	put 3
	stopped attachment-rename snapshot $vg/vm1
	revdedupctl snapshot $vg/vm2
	kill -CONT $pid
	wait $pid
	grep -x volume=$vg/vm1 "$(file_of vm1)"
	grep -x volume=$vg/vm2 "$(file_of vm2)"
	for vol in vm1 vm2; do
		revdedupctl snapshot $vg/$vol --json | tee /tmp/said
		[ "$(json mode </tmp/said)" = changed ]
		is_version $vg/$vol@latest "$(device_of $vol)"
	done
}

# bats test_tags=soak
@test "wrong-device: a snapshot was killed, and the volume is larger then" {
	some_volume vm1 16
	put 3
	run env REVDEDUP_FAIL=freeze-resumed=kill revdedupctl snapshot $vg/vm1
	[ "$status" -eq 137 ]
	lvextend -qq --size 24M $vg/vm1
	# A guest goes on, whatever command comes next.
	revdedupctl attach $vg/vm1
	timeout 10 dd if=/dev/urandom of="$vol" bs=1M seek=5 count=1 oflag=direct \
		conv=notrunc status=none
	timeout 10 dd if=/dev/urandom of="$vol" bs=1M seek=23 count=1 oflag=direct \
		conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json size </tmp/said)" = $((24 << 20)) ]
	is_version $vg/vm1@latest "$vol"
}

@test "wrong-device: what is kept before a roll-back is not deleted meanwhile" {
	local pid
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	put 3
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=4 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	stopped rollback-suspended,free-vacate=EIO rollback $vg/vm1@1 --yes >/tmp/said 2>&1
	# It says which segments differ from what is wanted.
	run timeout 60 revdedupctl delete $vg/vm1@2
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"another command is using"*"running: rollback"* ]]
	# This leaves something to free, and to free it fails: the volume is rolled back all the same.
	revdedupctl -q delete other@1
	kill -CONT $pid
	wait $pid
	grep 'rolled back: ' /tmp/said
	grep "cannot free space in '$REVDEDUP_POOL' now" /tmp/said
	cmp "$vol" /tmp/rdt-pool/one
	revdedupctl delete $vg/vm1@2
	revdedupctl -q check
}

@test "wrong-device: a program has the volume itself open, as a guest that was not told" {
	local pid
	make_lv vm1 16
	exec 8<>/dev/$vg/vm1
	run revdedupctl attach $vg/vm1
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"a program has '/dev/$vg/vm1' open"*"nothing was changed"* ]]
	lvs_are vm1
	exec 8>&-
	revdedupctl attach $vg/vm1
	vol=$(device_of vm1)
	put 3
	revdedupctl -q snapshot $vg/vm1
	revdedupctl status $vg/vm1
	# Its domain still names the old path.
	exec 8<>/dev/$vg/vm1
	run revdedupctl status $vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"is bypassed"* ]]
	# That was seen, also if no version came of it.
	dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=7 count=1 oflag=direct conv=notrunc status=none
	REVDEDUP_FAIL=freeze-prepared=EIO run revdedupctl snapshot $vg/vm1
	[ "$status" -eq 1 ]
	exec 8>&-
	revdedupctl snapshot $vg/vm1 | grep "full read: writes may have bypassed the target"
	exec 8<>/dev/$vg/vm1
	dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=9 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 2>&1 | tee /tmp/said
	grep "a program has '/dev/$vg/vm1' open" /tmp/said
	grep "full read: another program has the device below it open" /tmp/said
	is_version $vg/vm1@latest /dev/$vg/vm1
	[ "$(revdedupctl list $vg/vm1 | grep -c 'not consistent')" = 1 ]
	revdedupctl show $vg/vm1 | grep 'consistent: *no'
	# What it writes after that is in the next one, even if it is gone by then.
	dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=5 count=1 oflag=direct conv=notrunc status=none
	exec 8>&-
	revdedupctl status $vg/vm1
	revdedupctl snapshot $vg/vm1 | grep "full read: writes may have bypassed the target"
	revdedupctl show $vg/vm1 | grep 'consistent: *yes'
	is_version $vg/vm1@latest /dev/$vg/vm1
	revdedupctl snapshot $vg/vm1 | grep ' changed segments'
	# It comes while a version is copied.
	stopped live-frozen -q snapshot $vg/vm1
	exec 8<>/dev/$vg/vm1
	kill -CONT $pid
	wait $pid
	exec 8>&-
	revdedupctl show $vg/vm1 | grep 'consistent: *no'
	revdedupctl snapshot $vg/vm1 | grep "full read: writes may have bypassed the target"
	# And no version comes of that.
	stopped live-frozen,live-read=EIO -q snapshot $vg/vm1
	exec 8<>/dev/$vg/vm1
	dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=5 count=1 oflag=direct conv=notrunc status=none
	kill -CONT $pid
	wait $pid && false
	exec 8>&-
	revdedupctl snapshot $vg/vm1 | grep "full read: writes may have bypassed the target"
	# What it writes while the volume is rolled back is gone like all else.
	cp "$vol" /tmp/rdt-pool/four
	exec 8<>/dev/$vg/vm1
	stopped rollback-suspended -q rollback $vg/vm1@latest --yes
	dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=7 count=1 oflag=direct conv=notrunc status=none
	exec 8>&-
	kill -CONT $pid
	wait $pid
	dd if="$vol" bs=1M iflag=direct status=none | cmp - /tmp/rdt-pool/four
	retry 100 0.3 is_home
	# Nor is it an image.
	run revdedupctl snapshot other --from /dev/$vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"lies below the attached volume '$vg/vm1'"*"no version was made"* ]]
}

@test "wrong-device: what is written past the target is rolled back, too" {
	local late pid
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	# By a program that is there while the present content is kept, or comes after that.
	for late in false true; do
		stopped live-frozen,live-committed=stop -q rollback $vg/vm1@1 --yes
		"$late" || exec 8<>/dev/$vg/vm1
		kill -CONT $pid
		retry 300 0.1 is_stopped $pid
		! "$late" || exec 8<>/dev/$vg/vm1
		dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=9 count=1 oflag=direct conv=notrunc status=none
		"$late" || exec 8>&-
		kill -CONT $pid
		wait $pid
		exec 8>&-
		dd if="$vol" bs=1M iflag=direct status=none | cmp - /tmp/rdt-pool/one
		retry 300 0.1 is_home
	done
}

# bats test_tags=soak
@test "wrong-device: rolled back from one pool, and then from another" {
	local other=/tmp/rdt-pool/other
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	put 3
	revdedupctl -q rollback $vg/vm1@1 --yes
	# While it is on its way home another pool can have a version of it.
	revdedupctl -q init --compression none --size 256M $other
	revdedupctl -q -p $other snapshot $vg/vm1
	retry 300 0.1 is_home
	put 5
	run revdedupctl -p $other rollback $vg/vm1@1 --yes
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"were copied from another pool"* ]]
	# What the first one has is still to be had, at another place, too.
	revdedupctl -q snapshot $vg/vm1
	cp -r --sparse=always "$REVDEDUP_POOL" /tmp/rdt-pool/copy
	rm -r "$REVDEDUP_POOL"
	revdedupctl -q -p /tmp/rdt-pool/copy rollback $vg/vm1@1 --yes
	cmp "$vol" /tmp/rdt-pool/one
	retry 300 0.1 is_home
	# And who starts anew can change to the other one.
	revdedupctl -q detach $vg/vm1
	revdedupctl -q attach $vg/vm1
	revdedupctl -q -p $other rollback $vg/vm1@1 --yes
	cmp "$vol" /tmp/rdt-pool/one
}

# bats test_tags=soak
@test "wrong-device: a copy of the pool moves what a device reads" {
	local copy=/tmp/rdt-pool/copy seg
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/new
	revdedupctl -q map $vg/vm1@1 rdt-map
	cp -r --sparse=always "$REVDEDUP_POOL" $copy
	# What is left to the first version in the copy is given back there, or moves.
	for seg in {0..7}; do
		dd if=/dev/urandom of="$vol" bs=4k seek=$((seg * 512 + seg)) count=200 oflag=direct \
			conv=notrunc status=none
	done
	run revdedupctl -v -p $copy snapshot $vg/vm1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"reads another copy of this pool"* ]]
	revdedupctl -q -p $copy snapshot vm2 --from "$vol"
	cmp "$(device_of new)" /tmp/rdt-pool/one
	cmp /dev/mapper/rdt-map /tmp/rdt-pool/one
	# In the one that they read it goes as it should.
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q snapshot vm2 --from "$vol"
	cmp "$(device_of new)" /tmp/rdt-pool/one
	cmp /dev/mapper/rdt-map /tmp/rdt-pool/one
	revdedupctl unmap rdt-map
	revdedupctl -q detach $vg/new --force --yes
	is_version $vg/vm1@1 /tmp/rdt-pool/one
}

@test "wrong-device: who may not ask device-mapper gives nothing back" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	revdedupctl -q map $vg/vm1@1 rdt-map
	chown -R 65534 /tmp/rdt-pool
	dd if=/dev/urandom of=/tmp/rdt-pool/two bs=1M count=16 status=none
	setpriv --reuid=65534 --clear-groups revdedupctl -q delete $vg/vm1@1
	setpriv --reuid=65534 --clear-groups revdedupctl -q snapshot vm2 --from /tmp/rdt-pool/two
	cmp /dev/mapper/rdt-map /tmp/rdt-pool/one
	chown -R root /tmp/rdt-pool
	revdedupctl unmap rdt-map
	revdedupctl stats --json | grep -q '"versions_held": 0'
}

@test "wrong-device: at boot another pool lies where the pool was" {
	some_volume vm1 16
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/new
	down "$(device_of new)"
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/mine
	revdedupctl -q init --compression none --size 256M "$REVDEDUP_POOL"
	run revdedupctl attach $vg/new
	[ "$status" -ne 0 ]
	! dm_devices | grep -x "$(basename "$(device_of new)")" || return
	# Nor is what it is thrown away with its devices.
	lvchange -qq -an $vg/new $vg/new_rdmeta
	run revdedupctl detach $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"nothing was changed"* ]]
	lvchange -qq -ay $vg/new $vg/new_rdmeta
	rm -r "$REVDEDUP_POOL"
	mv /tmp/rdt-pool/mine "$REVDEDUP_POOL"
	revdedupctl attach $vg/new
	is_version $vg/vm1@1 "$(device_of new)"
	revdedupctl -q detach $vg/new --force --yes
}

# bats test_tags=soak
@test "wrong-device: a volume was renamed, and another has its name" {
	some_volume vm1 16
	put 3
	lvrename -qq $vg vm1 old
	make_lv vm1 16
	cp /dev/$vg/vm1 /tmp/rdt-pool/new
	cp "$vol" /tmp/rdt-pool/one
	revdedupctl detach $vg/vm1
	cmp /dev/$vg/vm1 /tmp/rdt-pool/new
	cmp /dev/$vg/old /tmp/rdt-pool/one
	lvs_are old vm1
}
