# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Random operations on the remap table, beside a model of it (model.c), for bats files that
# `load ../lib/guest` first.
#
#   TABLE_OPS, TABLE_SEED     operations in all, and to repeat a run

model_base=/dev/mapper/rdt-b
model_pool=/dev/mapper/rdt-p
model_pool_sectors=65536

model_setup() {
	dmr_setup
	modprobe dm-mod
	# What is refused on purpose would fill a slow console.
	dmesg -n 3
}

model_teardown() {
	dmr_teardown
	# Or the next test would get this one, whichever it asks for.
	! [ -d /sys/module/dm_revdedup ] || retry 50 0.1 rmmod dm_revdedup
	! compgen -G '/sys/block/loop*/loop' >/dev/null || losetup -D
	dmesg -n 8
}

# model_disks BASE_MIB: new ram disks, and the metadata device on one of them. They
# take memory only for what is written to them.
model_disks() {
	ramdisk "$1" 3
	dm_create rdt-m "0 8192 linear /dev/ram1 0"
}

# Devices that take some ms, so that what else goes on comes between.
model_slow_devices() {
	[ -d /sys/module/dm_delay ] || has_target delay || modprobe dm-delay
	model_disks 64
	dm_create rdt-b "0 131072 delay /dev/ram0 0 0 /dev/ram0 0 4"
	dm_create rdt-p "0 $model_pool_sectors delay /dev/ram2 0 12 /dev/ram2 0 0"
}

# model OPS [OPTION...]: sets $status and $output. Shows at once what it prints, as a kernel that is
# wrong may let no process end.
# shellcheck disable=SC2034 # its users look at them
model() {
	local seed=${TABLE_SEED:-$RANDOM$RANDOM} out=$BATS_TEST_TMPDIR/model
	echo "# table-model --ops $1 --seed $seed ${*:2}" >&3
	timeout 7200 /revdedup/bin/table-model --ops "$1" --seed "$seed" "${@:2}" $model_base \
		/dev/mapper/rdt-m $model_pool 2>&1 | tee "$out" |
		sed -u 's/^/# /' >&3
	status=${PIPESTATUS[0]}
	output=$(<"$out")
}
