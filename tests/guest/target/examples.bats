#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The examples of the target's page do what the page says. The test reads the section
# "Examples" as a session: a line that begins with "# " is a command, and the lines up to
# the next one are its output.

load ../lib/guest

page=/revdedup/doc/dm-revdedup.rst

# The indented lines of the section, without their indent.
session() {
	awk '/^Examples$/ { on = 1 } /^Known issues$/ { on = 0 }
		on && sub(/^  /, "")' "$page"
}

# Run what stands in $command and compare its output with $expected.
check_command() {
	local printed
	[ -n "$command" ] || return 0
	printed=$(eval "$command") || {
		echo "failed: $command"
		return 1
	}
	dmsetup mknodes
	ran=$((ran + 1))
	[ "$printed" = "$expected" ] || {
		printf 'command:  %s\nexpected: %s\nprinted:  %s\n' \
			"$command" "$expected" "$printed"
		return 1
	}
}

@test "the examples of the page are true" {
	load_module
	ramdisk 256
	vgcreate vg /dev/ram0
	command='' expected='' ran=0
	while read -r line; do
		if [[ $line == "# "* ]]; then
			check_command
			command=${line#\# } expected=''
		else
			expected+=${expected:+$'\n'}$line
		fi
	done < <(session)
	check_command
	[ "$ran" -ge 20 ]
}

teardown() {
	local vm
	for vm in vm1 vm2; do
		! [ -e "/dev/mapper/$vm" ] || dmsetup remove "$vm"
	done
	vgremove -qq --force --yes vg
	dmr_teardown
}
