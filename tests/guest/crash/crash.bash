# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Crashes by the judge (tests/judge), for bats files that `load ../lib/guest` first. crash.c
# and tablecrash.c say what a run does.
#
#   CRASH_SEED      to repeat a run, as far as its threads go along

crash_setup() {
	dmr_setup
	# What is refused on purpose would fill a slow console.
	dmesg -n 3
	# They take memory only for what is written.
	ramdisk 7300 3
	modprobe dm-mod
	need_judge
}

crash_teardown() {
	dmr_teardown
	! [ -d /sys/module/dm_revdedup ] || retry 50 0.1 rmmod dm_revdedup
	rmmod dm_judge
	dmesg -n 8
}

# run_crash PROGRAM OPTION... DEVICE...: and show what it prints also when the test
# passes.
run_crash() {
	local program=$1
	shift
	# shellcheck disable=SC2086 # no word without a seed
	run timeout 7200 "/revdedup/bin/$program" ${CRASH_SEED:+--seed $CRASH_SEED} "$@"
	# shellcheck disable=SC2154 # run sets it
	printf '# %s\n' "${lines[@]}" >&3
}

# crash OPTION..., tablecrash OPTION...
crash() { run_crash crash "$@" /dev/ram0 /dev/ram1; }
tablecrash() { run_crash tablecrash "$@" /dev/ram0 /dev/ram1 /dev/ram2; }
