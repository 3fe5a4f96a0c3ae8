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
teardown() { lvm_teardown; }

# pair [MIB]: attach vm1 and vm2, with content; their devices are $one and $two.
pair() {
	local name
	for name in vm1 vm2; do
		make_lv $name "${1:-16}"
		revdedupctl -q attach $vg/$name
		dd if=/dev/urandom of="$(device_of $name)" bs=1M count="${1:-16}" oflag=direct \
			status=none
		dd if=/dev/zero of="$(device_of $name)" bs=4k count=1 oflag=direct conv=notrunc \
			status=none
	done
	one=$(device_of vm1)
	two=$(device_of vm2)
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
	revdedupctl -q restore "$vg/vm1@$1" --yes --to /tmp/rdt-pool/a
	revdedupctl -q restore "$vg/vm2@$1" --yes --to /tmp/rdt-pool/b
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

in_order() {
	[ "$(dm_devices | grep -c '^revdedup')" -eq 4 ]
	lvs_are vm1 vm1_rdmeta vm2 vm2_rdmeta
	revdedupctl -q check
}

@test "group: no moment is torn, whatever is written meanwhile" {
	local nr
	pair
	counter
	for ((nr = 1; nr <= ${ROUNDS:-10}; nr++)); do
		revdedupctl -q snapshot --group g$nr $vg/vm2 $vg/vm1
		[ "$(versions_of g$nr)" -eq 2 ]
		is_one_moment g$nr
		both_go_on
	done
	end_counter
	in_order
}

# bats test_tags=soak
@test "group: no moment of many is torn" {
	local nr
	pair 8
	counter
	for ((nr = 1; nr <= 200; nr++)); do
		revdedupctl -q snapshot --group g$nr --all
		is_one_moment g$nr
		((nr % 20)) || revdedupctl -q prune --keep-last 2
	done
	end_counter
	in_order
}
