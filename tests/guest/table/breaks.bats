#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Modules whose remap table is broken on purpose (kernel/break.h): the model that finds no
# fault in the real module must find each of these. ../crash/breaks.bats has the faults that
# only a crash shows.

# shellcheck disable=SC2034,SC2154 # by guest.bash, model.bash
load ../lib/guest
load model

setup() { model_setup; }
teardown() { model_teardown; }

# model_finds HOW: at the latest in the fifth run.
model_finds() {
	local tries
	load_broken "$1"
	for tries in 1 2 3 4 5; do
		echo "# try $tries" >&3
		model_slow_devices
		model 60000
		[[ $output != *MISS:* ]] || return 0
		# It must not be for another reason that this fails.
		[ "$status" -eq 0 ]
		clean_up_devices
	done
	return 1
}

@test "model: a remap that does not compare is found" { model_finds compare; }

@test "model: a punch that does not settle is found" { model_finds settle; }

@test "model: a watch that does not wait for writes is found" { model_finds drain; }

@test "model: blocks that are not locked while they are copied are found" {
	model_finds copyup
}

@test "model: a set that does not set dirty bits is found" { model_finds setbits; }
