#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Modules in which the order of writes is broken on purpose (kernel/break.h): the
# tests that find no fault in the real one must find each of these.

# shellcheck disable=SC2034,SC2154 # by lib.bash, crash.bash, logwrites.bash
load lib
load crash
load logwrites

setup() { :; }
teardown() {
	if [ -d /sys/module/dm_judge ]; then
		crash_teardown
	else
		log_teardown
	fi
}

# load_broken HOW
load_broken() {
	module_file=/rdd/modules/broken/$1/dm-revdedup.ko
	load_module
}

# crash_finds HOW
crash_finds() {
	crash_setup
	load_broken "$1"
	crash --cycles 1000
	[ "$status" -eq 1 ]
	[[ $output == *MISS:* ]]
}

@test "crash: a missing flush of the bits is found" {
	crash_finds flush
}

@test "crash: a bit that map sees before it is stable is found" {
	crash_finds early
}

@test "crash: a commit of another epoch is found" {
	crash_finds epoch
}

@test "crash: a checkpoint without a flush of the base is found" {
	crash_finds base
}

@test "crash: an abort that drops the frozen set first is found" {
	crash_finds union
}

@test "log-writes: a missing flush of the bits is found" {
	log_setup
	load_broken flush
	write_log
	check_log
	[ "$status" -eq 1 ]
	[[ $output == *MISS:* ]]
}
