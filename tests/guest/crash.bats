#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Crash base and metadata device at any moment, both losing what was not flushed
# (tests/judge), and see that every segment that changed since the last committed
# checkpoint is known. See crash.c for how.
#
#   CRASH_CYCLES    how many crashes (default 250)
#   CRASH_SEED      to repeat a run, as far as its threads go along

load lib

cycles=${CRASH_CYCLES:-250}
judge_module=/rdd/modules/dm-judge.ko

setup() {
	rdd_setup
	# What is refused on purpose would fill a slow console.
	dmesg -n 3
	# They take memory only for what is written.
	ramdisk 7300 2
	modprobe dm-mod
	insmod "$judge_module"
}

teardown() {
	rdd_teardown
	! [ -d /sys/module/dm_revdedup ] || retry 50 0.1 rmmod dm_revdedup
	rmmod dm_judge
	dmesg -n 8
}

# crash OPTION...: runs it, and shows what it prints also when the test passes.
crash() {
	# shellcheck disable=SC2086 # no word without a seed
	run timeout 7200 /rdd/bin/crash ${CRASH_SEED:+--seed $CRASH_SEED} "$@" \
		/dev/ram0 /dev/ram1
	printf '# %s\n' "${lines[@]}" >&3
}

# finds NAME: the test finds that the order of writes was broken.
finds() {
	# shellcheck disable=SC2034 # of load_module
	module_file=/rdd/modules/broken/$1/dm-revdedup.ko
	load_module
	crash --cycles 1000
	[ "$status" -eq 1 ]
	[[ $output == *MISS:* ]]
}

@test "crash: no write is forgotten" {
	load_module
	crash --cycles "$cycles"
	[ "$status" -eq 0 ]
}

@test "crash: no write is forgotten when the metadata device fails, too" {
	load_module
	crash --cycles $((cycles / 10 + 10)) --outages
	[ "$status" -eq 0 ]
}

@test "crash: a missing flush of the bits is found" {
	finds flush
}

@test "crash: a bit that map sees before it is stable is found" {
	finds early
}

@test "crash: a commit of another epoch is found" {
	finds epoch
}

@test "crash: a checkpoint without a flush of the base is found" {
	finds base
}

@test "crash: an abort that drops the frozen set first is found" {
	finds union
}
