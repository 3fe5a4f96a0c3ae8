#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Hundreds of thousands of random operations on a volume with a remap table, each of which
# must do what a model says. model.c lists them.

# shellcheck disable=SC2154 # by model.bash
load ../lib/guest
load model

ops=${TABLE_OPS:-500000}

setup() {
	model_setup
	load_module
}
teardown() { model_teardown; }

# The pool on a loop device, which answers from a thread.
@test "model: a volume of 64 MiB less an odd piece" {
	model_disks 64
	pool_ground=$(loop_of "$model_pool_sectors" pool)
	dm_create rdt-b "0 $((131072 - 1003)) linear /dev/ram0 0"
	dm_create rdt-p "0 $model_pool_sectors linear $pool_ground 0"
	model $((ops * 30 / 100))
	[ "$status" -eq 0 ]
}

# A thin volume frees whole chunks; the judge of crashes can do as it does.
@test "model: a base that discards units of 16 blocks" {
	model_disks 64
	has_target judge || insmod /revdedup/modules/dm-judge.ko
	dm_create rdt-b "0 131072 judge /dev/ram0 base 2 discard_blocks 16"
	dm_create rdt-p "0 $model_pool_sectors linear /dev/ram2 0"
	model $((ops * 20 / 100)) --sheds
	[ "$status" -eq 0 ]
}

# bats test_tags=soak
@test "model: more pages than the cache holds" {
	model_disks 800
	dm_create rdt-b "0 $((800 * 2048)) linear /dev/ram0 0"
	dm_create rdt-p "0 $model_pool_sectors linear /dev/ram2 0"
	model $((ops * 35 / 100))
	[ "$status" -eq 0 ]
}

@test "model: devices that take their time" {
	model_slow_devices
	model $((ops * 15 / 100))
	[ "$status" -eq 0 ]
}
