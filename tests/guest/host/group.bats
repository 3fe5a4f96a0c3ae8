#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl snapshot --group: versions of several volumes at one moment, all of them or
# none, and what takes such a moment as a whole.

# Each test is a subshell; who sleeps holds a device open.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() { lvm_setup; }
teardown() {
	! mountpoint -q /tmp/rdt-mnt || umount /tmp/rdt-mnt
	lvm_teardown
}

# pair [MIB]: attach vm1 and vm2, with content; their devices are $one and $two. Overwritten data
# go to files in the pool, which are made faster than logical volumes.
pair() {
	local name
	for name in vm1 vm2; do
		make_lv $name "${1:-4}"
		revdedupctl -q attach $vg/$name
		dd if=/dev/urandom of="$(device_of $name)" bs=1M count="${1:-4}" oflag=direct \
			status=none
		dd if=/dev/zero of="$(device_of $name)" bs=4k count=1 oflag=direct conv=notrunc \
			status=none
	done
	lvcreate -qq --yes -Wn -Zn -l 100%FREE --name rest $vg
	one=$(device_of vm1)
	two=$(device_of vm2)
}

# change BLOCK: write it on both volumes.
change() {
	local device
	for device in $one $two; do
		dd if=/dev/urandom of=$device bs=4k seek="$1" count=1 oflag=direct conv=notrunc \
			status=none
	done
}

# Write numbers to the first block of both in turn, each stable before the next, until the
# file /tmp/go is gone: at each moment vm1 has the number of vm2, or the next one.
counter() {
	touch /tmp/go
	/revdedup/bin/counter "$one" "$two" /tmp/go 3>&- &
	counter=$!
}

end_counter() {
	rm -f /tmp/go
	wait $counter
}

# number_in FILE: that it has.
number_in() { od -An -tu8 -N8 "$1" | tr -d ' '; }

# is_one_moment NAME: are both versions of it of one moment?
is_one_moment() {
	local first second
	revdedupctl -q dump "$vg/vm1@$1" >/tmp/rdt-pool/a
	revdedupctl -q dump "$vg/vm2@$1" >/tmp/rdt-pool/b
	first=$(number_in /tmp/rdt-pool/a)
	second=$(number_in /tmp/rdt-pool/b)
	echo "# $1: $first $second"
	((first == second || first == second + 1))
}

# versions_of NAME: how many versions have this tag?
versions_of() { revdedupctl list --json | grep -c "\"tags\": \[.*\"$1\"" || :; }

# Nobody is held up for good, and the counter goes on.
both_go_on() {
	local device before
	for device in $one $two; do
		timeout 30 dd if=$device of=/dev/null bs=4k count=1 iflag=direct status=none
	done
	kill -0 $counter
	before=$(number_in $two)
	retry 100 0.1 has_more $before
}

has_more() { [ "$(number_in $two)" -gt "$1" ]; }

# are_latest: do the newest versions have what the volumes have, and are they of one moment?
are_latest() {
	is_version $vg/vm1@latest $one && is_version $vg/vm2@latest $two
}

in_order() {
	[ "$(dm_devices | grep -c '^revdedup')" -eq 4 ]
	lvs_are rest vm1 vm1_rdmeta vm2 vm2_rdmeta
	[ -z "$(losetup -a)" ]
	revdedupctl -q check
}

@test "group: no moment is torn, whatever is written meanwhile" {
	local nr
	pair
	counter
	for ((nr = 1; nr <= 10; nr++)); do
		revdedupctl -q snapshot --group g$nr $vg/vm2 $vg/vm1
	done
	both_go_on
	end_counter
	for ((nr = 1; nr <= 10; nr++)); do
		is_one_moment g$nr
	done
	in_order
}

# bats test_tags=soak
@test "group: no moment of many is torn" {
	local nr
	pair
	counter
	for ((nr = 1; nr <= 200; nr++)); do
		revdedupctl -q snapshot --group g$nr --all
		is_one_moment g$nr
		((nr % 20)) || revdedupctl -q prune --keep-last 2
	done
	end_counter
	in_order
}

# killed_group STEP VERSIONS: a group that is killed there has so many versions, 0 or 2, and the
# next one has all that was written.
killed_group() {
	counter
	change $((RANDOM % 1000 + 10))
	killed $1 snapshot --group killed $vg/vm1 $vg/vm2
	both_go_on
	end_counter
	[ "$(versions_of killed)" -eq $2 ]
	revdedupctl -q snapshot --group next $vg/vm1 $vg/vm2
	are_latest
	[ "$(versions_of killed)" -eq $2 ]
	[ $2 -eq 0 ] || is_one_moment killed
	[ $2 -eq 0 ] || revdedupctl -q delete @killed
	revdedupctl -q delete @next
}

@test "group: killed while it is made, it has no version or all of them" {
	pair
	revdedupctl -q snapshot --group first --all
	killed_group freeze-one:2 0
	killed_group group-born 2
	in_order
}

# bats test_tags=soak
@test "group: killed at each step" {
	local name nr
	pair
	touch /tmp/log
	REVDEDUP_FAIL_LOG=/tmp/log revdedupctl -q snapshot --group first --all
	change 77
	: >/tmp/log
	REVDEDUP_FAIL_LOG=/tmp/log revdedupctl -q snapshot --group second --all
	awk '/^(quiesce|pause|freeze|live|group|snapshot|reverse)-/ { print $1 ":" ++nr[$1],
		born + 0 }
		$1 == "group-born" { born = 2 }' /tmp/log >/tmp/steps
	sed -i 's/^group-born:1 0/group-born:1 2/' /tmp/steps
	cat /tmp/steps
	while read -r name nr <&4; do
		killed_group $name $nr
	done 4</tmp/steps
	in_order
}

@test "group: where one volume fails there is no version, and all go on" {
	local step
	pair
	revdedupctl -q snapshot --group first --all
	counter
	for step in freeze-one:2 group-copied:2; do
		REVDEDUP_FAIL=$step=EIO run revdedupctl snapshot --group failed --all
		echo "$step: $status: $output"
		[ "$status" -eq 1 ]
		[[ $output == *"no version was made of any of the volumes"* ]]
		[ "$(versions_of failed)" -eq 0 ]
		both_go_on
	done
	end_counter
	in_order
	revdedupctl snapshot --group second --all --json | tee /tmp/said
	[ "$(grep -c '"mode": "changed"' /tmp/said)" -eq 2 ]
	[ "$(grep -c '"segments_changed": 1,' /tmp/said)" -eq 2 ]
	[ "$(grep -c usec_pause /tmp/said)" -eq 1 ]
	[ "$(tail -n 1 /tmp/said | json versions)" -eq 2 ]
	are_latest
	# After all exist.
	change 99
	REVDEDUP_FAIL=live-commit=EIO run revdedupctl snapshot --group third --all
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"the versions of @third were made"* ]]
	are_latest
	# A name that is taken, by another group or one version.
	for step in second third; do
		run revdedupctl snapshot --group $step --all
		echo "$output"
		[ "$status" -eq 1 ]
		[[ $output == *"already has the tag '$step'"*"no version was made"* ]]
	done
	in_order
}

# Commands that write finish and undo what others have left: not what waits for its group.
@test "group: another command meanwhile finds no version, and undoes none" {
	local pid
	pair
	stopped group-bear -q snapshot --group gold --all
	run revdedupctl prune --keep-last 9
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(versions_of gold)" -eq 0 ]
	revdedupctl -q check
	kill -CONT $pid
	wait $pid
	are_latest
	in_order
}

@test "group: it is rolled back as a whole, and what failed is said" {
	pair
	revdedupctl -q snapshot --group gold --all
	cp $one /tmp/rdt-pool/one
	cp $two /tmp/rdt-pool/two
	change 55
	run revdedupctl rollback @gold
	[ "$status" -eq 1 ]
	[[ $output == *"2 volumes"*"replaced by '@gold'"* ]]
	revdedupctl rollback @gold --yes
	cmp $one /tmp/rdt-pool/one
	cmp $two /tmp/rdt-pool/two
	retry 100 0.3 is_home vm1
	retry 100 0.3 is_home vm2
	# Where one cannot be, none is.
	revdedupctl -q detach $vg/vm2
	run revdedupctl rollback @gold --yes --no-snapshot
	[ "$status" -eq 1 ]
	[[ $output == *"'$vg/vm2' is not attached"* && $output != *"rolled back"* ]]
	run revdedupctl snapshot --group next $vg/vm1 $vg/vm2
	[ "$status" -eq 2 ]
	[[ $output == *"'$vg/vm2' is not attached"* ]]
	revdedupctl -q attach $vg/vm2
	change 56
	REVDEDUP_FAIL=rollback-begun:2=EIO run revdedupctl rollback @gold --yes --no-snapshot
	echo "$output"
	[ "$status" -eq 3 ]
	[[ $output == *"'$vg/vm1' was rolled back to $vg/vm1@1"*"'$vg/vm2' was not rolled back"* ]]
	[[ $output == *"half rolled back"*"'revdedupctl attach $vg/vm2' finishes it"* ]]
	revdedupctl attach $vg/vm2
	cmp $two /tmp/rdt-pool/two
	retry 100 0.3 is_home vm1
}

# A hook that writes to one volume while the other one is frozen would wait for itself, and so
# would a file system that is frozen when its journal is suspended already.
@test "group: hooks come before any freeze, and a journal may be on the other volume" {
	pair 16
	mkdir -p /tmp/rdt-mnt "$REVDEDUP_CONFIG/hooks.d"
	mke2fs -q -O journal_dev -b 4096 $one
	mkfs.ext4 -q -b 4096 -J device=$one $two
	mount $two /tmp/rdt-mnt
	printf '%s\n' '#!/bin/bash' 'echo "$*" >>/tmp/rdt-mnt/said; sync -f /tmp/rdt-mnt/said' \
		>"$REVDEDUP_CONFIG/hooks.d/10-note"
	chmod 755 "$REVDEDUP_CONFIG/hooks.d/10-note"
	timeout 600 revdedupctl -v snapshot --group gold --all | tee /tmp/said
	grep -q "2 versions of one moment" /tmp/said
	diff /tmp/rdt-mnt/said - <<-END
		pre $vg/vm1 $one
		pre $vg/vm2 $two
		post $vg/vm2 $two
		post $vg/vm1 $one
	END
	umount /tmp/rdt-mnt
	revdedupctl -q rollback @gold --yes --no-snapshot
	# It was frozen: its journal has nothing to replay.
	run ! grep -q needs_recovery < <(dumpe2fs -h $two 2>/dev/null)
	mount $two /tmp/rdt-mnt
	[ "$(grep -c pre /tmp/rdt-mnt/said)" -eq 2 ]
}

@test "group: blocks of its volumes may lie in the pool, and in no other" {
	local nr
	pair
	revdedupctl -q snapshot --group gold --all
	lvremove -qq --yes $vg/rest
	for nr in 1 2; do
		revdedupctl -q clone $vg/vm$nr@gold $vg/new$nr --no-hydrate
	done
	one=$(device_of new1)
	two=$(device_of new2)
	change 70
	revdedupctl -q snapshot --group next $vg/new1 $vg/new2
	is_version $vg/new1@latest $one
	is_version $vg/new2@latest $two
	revdedupctl -q prune --keep-last 1
	is_version $vg/new1@latest $one
	revdedupctl -q check
	revdedupctl -q init --compression none --size 64M /tmp/rdt-pool/other
	run revdedupctl -p /tmp/rdt-pool/other snapshot --group elsewhere --all
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"blocks of '$vg/new1' lie in another pool"*"no version was made"* ]]
	run revdedupctl -p /tmp/rdt-pool/other list
	[[ $output != *@* ]]
	timeout 30 dd if=$two of=/dev/null bs=4k count=1 iflag=direct status=none
}
