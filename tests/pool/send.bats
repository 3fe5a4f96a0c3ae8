#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Pools that send their versions to each other at random, cut off, killed and disturbed:
# SENDS=N steps, see send.py.

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
}

teardown() {
	live_teardown
}

@test "versions are sent between pools at random, cut off and killed" {
	"$BATS_TEST_DIRNAME/send.py" "${ctl[0]}" "$PWD/sends" "${SEND_SEED:-1}" "${SENDS:-40}"
}
