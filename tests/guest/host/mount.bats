#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# File systems in versions: mounted and unmounted, with a journal that was in use, in
# partitions, writable, and with obstacles.

# Each test is a subshell; no name here has blanks; who sleeps is in the way.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() {
	lvm_setup 400
	mkdir -p /tmp/rdt-mnt /tmp/rdt-mnt2
}
teardown() { lvm_teardown; }

# in_use TYPE [MIB]: a file system on vm1, mounted and not clean, and a version of it.
in_use() {
	make_lv vm1 "${2:-32}"
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	case $1 in
	xfs) mkfs.xfs --unsupported -q "$vol" ;;
	*) "mkfs.$1" -q "$vol" ;;
	esac
	mount "$vol" /tmp/rdt-mnt
	dd if=/dev/urandom of=/tmp/rdt-mnt/file bs=1M count=5 status=none
	sync
	revdedupctl -q snapshot $vg/vm1
	echo later >/tmp/rdt-mnt/later
}

# as_before: no device, no loop device and no lease is left of a mount.
as_before() {
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
	[ -z "$(losetup -a)" ]
}

# is_in DIR PID
is_in() { [ "$(readlink "/proc/$2/cwd")" = "$1" ]; }

@test "mount: an ext4 that is in use, read-only, and what is in the way of its end" {
	in_use ext4
	revdedupctl mount $vg/vm1@1 /tmp/rdt-mnt2 --json | tee /tmp/said
	[ "$(json file_system </tmp/said)" = ext4 ]
	[ "$(json directory </tmp/said)" = /tmp/rdt-mnt2 ]
	cmp /tmp/rdt-mnt/file /tmp/rdt-mnt2/file
	[ ! -e /tmp/rdt-mnt2/later ]
	run touch /tmp/rdt-mnt2/new
	[ "$status" -ne 0 ]
	grep ' /tmp/rdt-mnt2 ' /proc/mounts | grep -q 'ro,nosuid,nodev.*\(noload\|norecovery\)'
	# Again, elsewhere.
	run revdedupctl mount $vg/vm1@1 /tmp/rdt-mnt
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"is mounted at '/tmp/rdt-mnt2'"* ]]
	run revdedupctl unmap "$(device_of vm1)@1:mount"
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"is mounted at '/tmp/rdt-mnt2'"* ]]
	# Somebody is in it.
	(cd /tmp/rdt-mnt2 && exec sleep 1000) 3>&- &
	retry 50 0.1 is_in /tmp/rdt-mnt2 $!
	run revdedupctl umount /tmp/rdt-mnt2
	echo "$output"
	[ "$status" -eq 11 ]
	kill $!
	wait || :
	run revdedupctl delete $vg/vm1@1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"vm1@1:mount (mounted at /tmp/rdt-mnt2)"* ]]
	echo 3 >/proc/sys/vm/drop_caches
	cmp /tmp/rdt-mnt/file /tmp/rdt-mnt2/file
	revdedupctl umount /tmp/rdt-mnt2
	as_before
	run revdedupctl umount /tmp/rdt-mnt2
	[ "$status" -eq 1 ]
	run revdedupctl umount /tmp/rdt-mnt
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no version is mounted"* ]]
	mountpoint -q /tmp/rdt-mnt
	revdedupctl -q check
}

@test "mount: to be written to, with the journal replayed; all of that is thrown away" {
	in_use ext4
	for _ in 1 2; do
		revdedupctl mount $vg/vm1@1 /tmp/rdt-mnt2 --writable
		cmp /tmp/rdt-mnt/file /tmp/rdt-mnt2/file
		[ ! -e /tmp/rdt-mnt2/new ]
		echo new >/tmp/rdt-mnt2/new
		sync -f /tmp/rdt-mnt2
		revdedupctl umount /tmp/rdt-mnt2
		as_before
	done
	# A device is found by its version as well, unless one has that for its name.
	revdedupctl map $vg/vm1@1
	revdedupctl map $vg/vm1@1 vm1@1
	revdedupctl unmap vm1@1
	[ "$(dm_devices | grep -c '^revdedup.*@1$')" -eq 1 ]
	revdedupctl unmap $vg/vm1@1
	as_before
	revdedupctl -q check
}

# bats test_tags=soak
@test "mount: an xfs, beside the one that it was" {
	in_use xfs 64
	for how in "" --writable; do
		revdedupctl mount $vg/vm1@1 /tmp/rdt-mnt2 $how
		cmp /tmp/rdt-mnt/file /tmp/rdt-mnt2/file
		[ ! -e /tmp/rdt-mnt2/later ]
		revdedupctl umount /tmp/rdt-mnt2
		as_before
	done
}

# bats test_tags=soak
@test "mount: a partition" {
	make_lv vm1 32
	# The second of a table of DOS: type 83, from sector 2048, of 16 MiB.
	printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\x80\0\0' |
		dd of=/dev/$vg/vm1 bs=1 seek=$((446 + 16)) conv=notrunc status=none
	printf '\x55\xaa' | dd of=/dev/$vg/vm1 bs=1 seek=510 conv=notrunc status=none
	mkfs.ext4 -q -E offset=$((2048 * 512)) /dev/$vg/vm1 16M
	revdedupctl -q attach $vg/vm1
	revdedupctl -q snapshot $vg/vm1
	run revdedupctl mount $vg/vm1 /tmp/rdt-mnt2
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"has partitions (dos)"*--partition* ]]
	as_before
	run revdedupctl mount $vg/vm1 /tmp/rdt-mnt2 --partition 3
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no partition 3"* ]]
	as_before
	for how in "" --writable; do
		revdedupctl mount $vg/vm1 /tmp/rdt-mnt2 --partition 2 $how
		[ -d /tmp/rdt-mnt2/lost+found ]
		run revdedupctl unmap "$(device_of vm1)@1:mount"
		echo "$output"
		[ "$status" -eq 11 ]
		[[ $output == *"mounted at '/tmp/rdt-mnt2'"* ]]
		revdedupctl umount /tmp/rdt-mnt2
		as_before
	done
	# Unmounted by somebody else, its devices are left; unmap takes them, or the next.
	revdedupctl mount $vg/vm1 /tmp/rdt-mnt2 --partition 2
	umount /tmp/rdt-mnt2
	revdedupctl mount $vg/vm1 /tmp/rdt-mnt2 --partition 2
	umount /tmp/rdt-mnt2
	revdedupctl unmap "$(device_of vm1)@1:mount"
	as_before
	revdedupctl -q check
}

@test "mount: what has no file system, or no place" {
	some_volume vm1 16
	run revdedupctl mount $vg/vm1 /tmp/rdt-mnt2
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no file system"* ]]
	as_before
	run revdedupctl mount $vg/vm1 /tmp/rdt-nowhere
	[ "$status" -eq 1 ]
	[[ $output == *"not a directory"* ]]
	# One that begins as one and is none.
	mkfs.ext4 -q "$vol"
	dd if=/dev/urandom of="$vol" bs=4k seek=1 count=500 oflag=direct conv=notrunc status=none
	revdedupctl -q snapshot $vg/vm1
	run revdedupctl mount $vg/vm1 /tmp/rdt-mnt2
	echo "$output"
	[ "$status" -eq 1 ] || [ "$status" -eq 4 ]
	[[ $output == *"cannot mount"* ]]
	as_before
	# A file system that may not have blanks in its way.
	mkfs.ext4 -q "$vol"
	revdedupctl -q snapshot $vg/vm1
	mkdir -p "/tmp/rdt-mnt2/a b"
	revdedupctl mount $vg/vm1 "/tmp/rdt-mnt2/a b"
	revdedupctl umount "/tmp/rdt-mnt2/a b"
	as_before
}

@test "mount: one that was killed between its two devices is in nobody's way" {
	in_use ext4
	umount /tmp/rdt-mnt
	for name in revdedup-rdt--vg-vm1@1 rdt-map; do
		run env REVDEDUP_FAIL=map-overlay=kill revdedupctl map $vg/vm1@1 $name --writable
		[ "$status" -eq 137 ]
		[ -e /dev/mapper/$name:ro ]
	done
	revdedupctl map $vg/vm1@1 rdt-map --writable
	cmp -n 4096 -i 8192 /dev/mapper/rdt-map "$vol@1:ro"
	revdedupctl unmap rdt-map
	revdedupctl unmap "$vol@1"
	run env REVDEDUP_FAIL=map-overlay=kill revdedupctl mount $vg/vm1@1 /tmp/rdt-mnt2 --writable
	[ "$status" -eq 137 ]
	revdedupctl mount $vg/vm1@1 /tmp/rdt-mnt2 --writable
	cmp -n 10 /tmp/rdt-mnt2/file /dev/zero && return 1
	revdedupctl umount /tmp/rdt-mnt2
	as_before
	# One that has no table yet reads nothing, and holds nothing up.
	killed map-leased map $vg/vm1@1 rdt-map
	revdedupctl delete $vg/vm1@1
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=4 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	revdedupctl -q delete other@1
	revdedupctl stats --json | grep -q '"versions_held": 0'
	revdedupctl unmap rdt-map
	# What is removed is gone, though what nothing else has read cannot be freed now.
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	revdedupctl -q map other@2 rdt-map
	revdedupctl -q delete other@2
	REVDEDUP_FAIL=free-vacate=EIO revdedupctl unmap rdt-map >/tmp/said 2>&1
	grep "cannot free space in '$REVDEDUP_POOL' now" /tmp/said
	as_before
}
