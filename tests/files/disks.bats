#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Files on disks without a system, in partitions and volumes, by the real libguestfs.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; by files.bash
load files

prepare() { real_libguestfs; }

@test "file systems without a system, in partitions and volumes of LVM" {
	make_tree "$world/tree"
	tar -C "$world/tree" -cf "$world/tree.tar" etc
	truncate -s 700M "$world/disk.img"
	guestfish --format=raw -a "$world/disk.img" <<-END
		run
		part-init /dev/sda gpt
		part-add /dev/sda p 2048 67583
		part-add /dev/sda p 67584 1120255
		part-add /dev/sda p 1120256 1366015
		mkfs ext4 /dev/sda1 label:boot
		pvcreate /dev/sda2
		vgcreate vg0 /dev/sda2
		lvcreate-free home vg0 100
		mkfs xfs /dev/vg0/home
		mkfs btrfs /dev/sda3
		mount /dev/vg0/home /
		tar-in $world/tree.tar /
		umount /
		mount /dev/sda3 /
		btrfs-subvolume-create /data
		tar-in $world/tree.tar /data
	END
	make_pool 1G
	must snapshot vm --from "$world/disk.img"
	must files vm -q
	expect 0 <<-'END'
		/dev/sda1 ext4 32.0 MiB boot
		/dev/sda3 btrfs 120.0 MiB
		btrfsvol:/dev/sda3/data btrfs
		/dev/vg0/home xfs 512.0 MiB
	END
	# One of several whose names begin so, and one with all that can be in a name.
	must files vm /dev/vg0/home:/etc/secret --tar secret.tar
	[ "$(bsdtar -tf secret.tar)" = ./secret ]
	[ "$(bsdtar -xOf secret.tar)" = hello ]
	"$build/bin/revdedupctl" files vm $'btrfsvol:/dev/sda3/data:/etc/new\nline \\' --tar - >one.tar
	[ "$(bsdtar -xOf one.tar)" = 1 ]
	[ "$(bsdtar -tf one.tar | wc -l)" -eq 1 ]
}
