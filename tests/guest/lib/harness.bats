#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The harness itself: this guest can do what later tests rely on. Needs no module of ours.

load guest

@test "a ram disk is new and empty each time" {
	ramdisk 8 2
	[ "$(sectors /dev/ram0)" -eq 16384 ]
	[ -b /dev/ram1 ]
	echo something >/dev/ram0
	ramdisk 8
	cmp -n $((8 << 20)) /dev/ram0 /dev/zero
}

@test "dm-linear shows what its device holds" {
	ramdisk 8
	dm_create rdt-linear "0 8192 linear /dev/ram0 8192"
	head -c 4M /dev/urandom >"$BATS_TEST_TMPDIR/data"
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/rdt-linear bs=1M oflag=direct
	dd if=/dev/ram0 bs=1M skip=4 iflag=direct |
		cmp - "$BATS_TEST_TMPDIR/data"
	dm_remove rdt-linear
	[ -z "$(dm_devices)" ]
}

@test "all that a test made is gone after it" {
	ramdisk 32
	dm_create rdt-bottom "0 $(sectors /dev/ram0) linear /dev/ram0 0"
	dm_create rdt-top "0 $(sectors /dev/ram0) linear /dev/mapper/rdt-bottom 0"
	mkfs.ext4 -q /dev/mapper/rdt-top
	mkdir "$BATS_TEST_TMPDIR/mnt"
	mount /dev/mapper/rdt-top "$BATS_TEST_TMPDIR/mnt"
	clean_up_devices
	[ -z "$(dm_devices)" ]
	[ ! -e /dev/ram0 ]
}

@test "a file can be a loop device" {
	truncate -s 4M "$BATS_TEST_TMPDIR/file"
	loop=$(loopdev "$BATS_TEST_TMPDIR/file")
	[ "$(sectors "$loop")" -eq 8192 ]
}

@test "fio verifies with libaio and io_uring" {
	ramdisk 16
	for engine in libaio io_uring; do
		fio --name="$engine" --ioengine="$engine" --filename=/dev/ram0 \
			--direct=1 --rw=randwrite --bs=4k --iodepth=16 --size=2M \
			--verify=crc32c --do_verify=1
	done
}

@test "LVM works without udev" {
	ramdisk 64
	vgcreate rdt-vg /dev/ram0
	lvcreate --yes -n lv -L 32M rdt-vg
	mkfs.xfs -q /dev/rdt-vg/lv || mkfs.ext4 -q /dev/rdt-vg/lv
	vgremove --yes rdt-vg
}

@test "the targets to test with and to compare with are there" {
	for target in linear error zero striped flakey delay log-writes snapshot \
		snapshot-origin era thin-pool; do
		modprobe -q "dm-$target" || :
		dmsetup targets | grep "^$target "
	done
}

@test "the log's reader knows a sick kernel" {
	while read -r line; do
		dmesg_bad <<<"$line"
	done <<-'END'
		WARNING: CPU: 1 PID: 77 at drivers/md/dm.c:2 dm_put+0x1/0x2
		BUG: kernel NULL pointer dereference, address: 0000000000000008
		BUG: KASAN: slab-use-after-free in dm_put+0x1/0x2
		WARNING: possible circular locking dependency detected
		INFO: task fio:77 blocked for more than 120 seconds.
		rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
		UBSAN: shift-out-of-bounds in drivers/md/dm.c:2:3
		kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
	END
	while read -r line; do
		run ! dmesg_bad <<<"$line"
	done <<-'END'
		device-mapper: ioctl: 4.48.0-ioctl (2023-03-01) initialised: dm-devel@lists.linux.dev
		dm_revdedup: loading out-of-tree module taints kernel.
		EXT4-fs (dm-0): mounted filesystem without journal. Quota mode: none.
		Buffer I/O error on dev dm-0, logical block 0, lost async page write
	END
}

@test "retry gives up in the end" {
	tries=0
	again() {
		tries=$((tries + 1))
		[ "$tries" -eq "$1" ]
	}
	retry 5 0 again 3
	[ "$tries" -eq 3 ]
	patience=0 run ! retry 2 0 false
}
