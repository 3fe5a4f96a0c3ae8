#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Modules whose order of writes is broken on purpose (kernel/break.h): the tests that find
# no fault in the real module must find each of these.

# shellcheck disable=SC2034,SC2154 # by guest.bash, crash.bash, logwrites.bash
load ../lib/guest
load crash
load logwrites

setup() { :; }
teardown() { "${kind}_teardown"; }

# broken KIND HOW: what crashes (crash), or is logged (log), has that module.
broken() {
	kind=$1
	"${kind}_setup"
	load_broken "$2"
}

is_found() {
	[ "$status" -eq 1 ]
	[[ $output == *MISS:* ]]
}

# crash_finds HOW
crash_finds() {
	broken crash "$1"
	crash --cycles 1000
	is_found
}

# tablecrash_finds HOW OPTION...
tablecrash_finds() {
	broken crash "$1"
	tablecrash --cycles 1000 "${@:2}"
	is_found
}

# log_finds HOW
log_finds() {
	broken log "$1"
	write_log
	check_log
	is_found
}

# table_log_finds HOW
table_log_finds() {
	table_seconds=3
	broken log "$1"
	write_table_log
	check_table_log
	is_found
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
	log_finds flush
}

@test "tablecrash: flushes that the target does not see are found" {
	tablecrash_finds noflush --no-cache
}

@test "tablecrash: a failed commit that is forgotten is found" {
	tablecrash_finds forget --outages
}

@test "log-writes: entries that are ahead of the base are found" {
	table_log_finds home
}

@test "log-writes: words that are ahead of their pages are found" {
	table_log_finds word
}
