#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Crash the base and the metadata device of a volume with a remap table at any moment, both
# losing what was not flushed (tests/judge), and check that no sector holds what it must
# not. See tablecrash.c for how.
#
#   TABLE_CYCLES    how many crashes (default 450)

# shellcheck disable=SC2154 # by crash.bash
load ../lib/guest
load crash

cycles=${TABLE_CYCLES:-450}

setup() { crash_setup; }
teardown() { crash_teardown; }

@test "tablecrash: every sector holds what was flushed, or what came later" {
	load_module
	tablecrash --cycles $((cycles - cycles / 10))
	[ "$status" -eq 0 ]
}

@test "tablecrash: the same when the metadata device fails, too" {
	load_module
	tablecrash --cycles $((cycles / 10)) --outages
	[ "$status" -eq 0 ]
}

@test "tablecrash: the same where the base has no cache" {
	load_module
	tablecrash --cycles $((cycles / 10)) --no-cache
	[ "$status" -eq 0 ]
}
