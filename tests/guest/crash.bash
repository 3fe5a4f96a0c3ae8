# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Crashes by the judge (tests/judge), for bats files that `load lib` and then
# this. What a run does is told in crash.c.
#
#   CRASH_SEED      to repeat a run, as far as its threads go along

crash_setup() {
	rdd_setup
	# What is refused on purpose would fill a slow console.
	dmesg -n 3
	# They take memory only for what is written.
	ramdisk 7300 2
	modprobe dm-mod
	insmod /rdd/modules/dm-judge.ko
}

crash_teardown() {
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
	# shellcheck disable=SC2154 # run sets it
	printf '# %s\n' "${lines[@]}" >&3
}
