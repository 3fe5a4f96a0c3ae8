#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Crash the base and the metadata device at any moment, both losing what was not flushed
# (tests/judge), and check that the target knows every segment that changed since the last
# committed checkpoint. See crash.c for how.
#
#   CRASH_CYCLES    how many crashes (default 420)

# shellcheck disable=SC2154 # by crash.bash
load ../lib/guest
load crash

cycles=${CRASH_CYCLES:-420}

setup() { crash_setup; }
teardown() { crash_teardown; }

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
