#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Files of a guest that is installed on its disk, by the real libguestfs.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; by files.bash
load files

prepare() { real_libguestfs; }

teardown() { [ -z "${out:-}" ] || rm -rf "$out"; }

# facts FILE: all that is to be kept of it.
facts() {
	python3 -c 'import os, sys
st = os.lstat(sys.argv[1])
print(oct(st.st_mode), st.st_uid, st.st_gid, st.st_size, st.st_mtime, st.st_nlink)
print([(name, os.getxattr(sys.argv[1], name)) for name in sorted(os.listxattr(sys.argv[1]))
       if not name.startswith("security.")])' "$1"
}

@test "a system on a disk: its files are listed, got out with all they have, and found" {
	# A place for what tmpfs does not keep.
	out=$(mktemp -d "$build/files.XXXXXX")
	make_tree "$out/tree"
	mkdir "$out/to"
	truncate -s 48M vm.img
	mke2fs -q -t ext4 -d "$out/tree" vm.img
	make_pool 1G
	must snapshot vm --from vm.img
	must snapshot vm --from vm.img

	must files vm@1 /etc
	[[ $output == *' a "b" ]^!*?'* ]]
	[[ $output == *' new\x0aline \x5c'* ]]
	[[ $output == *' up -> ../../../etc'* ]]
	[[ $output == *'-rwsr-x--x '*' secret'* ]]

	must files vm /etc/ --to "$out/to"
	diff -r --no-dereference "$out/tree/etc" "$out/to/etc"
	for name in secret again d d/sparse up; do
		diff <(facts "$out/tree/etc/$name") <(facts "$out/to/etc/$name")
	done
	[ "$out/to/etc/secret" -ef "$out/to/etc/again" ]
	[ "$(stat -c %b "$out/to/etc/d/sparse")" -lt 100 ]

	# Version 1 is the same, and is not read.
	must find 's*t' vm --json
	[ "${#lines[@]}" -eq 1 ]
	[ "$(field 0 '["path"]')" = /etc/secret ]
	[ "$(field 0 '["first"]') $(field 0 '["last"]')" = 'vm@1 vm@2' ]
	ended
}

@test "a command that is killed leaves nothing behind" {
	truncate -s 32M vm.img
	mke2fs -q -t ext4 vm.img
	make_pool 1G
	must snapshot vm --from vm.img
	for signal in KILL TERM; do
		"$build/bin/revdedupctl" files vm / >log 2>&1 3>&- &
		pid=$!
		# Before that there is a qemu-img, for a moment.
		for ((i = 0; i < 2400; i++)); do
			found=$(ps -o comm= -p "$(left | paste -sd,)")
			[[ $found != *qemu-system* ]] || break
			sleep 0.05
		done
		[[ $found == *qemu-system* ]]
		kill -s "$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		[ "$signal" = KILL ] || [ "$status" -eq 130 ]
		ended
	done
}
