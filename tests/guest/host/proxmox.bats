#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The plugin for Proxmox VE: what its buttons do with a disk in use, by LVM, the module and
# revdedupctl. /revdedup/perl is what tests/proxmox/payload.sh has made.

# Each test is a subshell; no name here has blanks; lvs_are takes words.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() {
	lvm_setup 400
	mkdir -p /var/lock/pve-manager
}
teardown() {
	# What a guest would have open.
	exec 9<&-
	lvm_teardown
}

# pve FUNCTION ARG...: of PVE::Storage, see tests/proxmox/call.pl.
pve() { perl -T -I /revdedup/perl/lib /revdedup/perl/call.pl "$@"; }

# fill DEVICE MIB [SKIP]
fill() { dd if=/dev/urandom of="$1" bs=1M count="$2" seek="${3:-0}" oflag=direct status=none; }

@test "proxmox: a disk is made, written, snapshotted, rolled back, made larger and removed" {
	disk=$(pve vdisk_alloc fast 100 raw undef 32768 | tr -d '"')
	[ "$disk" = fast:vm-100-disk-0 ]
	vol=$(pve path $disk | tr -d '"')
	[ "$vol" = /dev/mapper/revdedup-rdt--vg-vm--100--disk--0 ]
	[ -b "$vol" ]
	lvs_are vm-100-disk-0 vm-100-disk-0_rdmeta
	[[ $(lvs --noheadings -o tags $vg/vm-100-disk-0) == *pve-vm-100* ]]

	# A guest has it: snapshots of a disk in use.
	fill "$vol" 32
	exec 9<"$vol"
	cp "$vol" /tmp/rdt-pool/one
	pve volume_snapshot $disk one
	fill "$vol" 5 7
	cp "$vol" /tmp/rdt-pool/two
	pve volume_snapshot $disk two
	revdedupctl show $vg/vm-100-disk-0@2 --json | tee /tmp/said
	# Tracking has gone on: of 16 segments those that changed were read, and a few in turn.
	[ "$(json segments_read </tmp/said)" -lt 10 ]
	[ "$(pve volume_has_feature snapshot $disk)" = 1 ]
	fill "$vol" 3 20
	cp "$vol" /tmp/rdt-pool/now

	# A snapshot is a device, while the guest runs; it is deleted afterwards.
	pve activate_volumes "[\"$disk\"]" one
	mapped=$(pve path $disk one | tr -d '"')
	cmp "$mapped" /tmp/rdt-pool/one
	pve activate_volumes "[\"$disk\"]" one
	pve deactivate_volumes "[\"$disk\"]" one
	[ ! -e "$mapped" ]
	# A device of that name may be of another version.
	revdedupctl -q map $vg/vm-100-disk-0@2 "${mapped##*/}"
	pve activate_volumes "[\"$disk\"]" one
	cmp "$mapped" /tmp/rdt-pool/one

	# The guest is off.
	exec 9<&-
	pve deactivate_volumes "[\"$disk\"]"
	[ -b "$vol" ]
	pve volume_snapshot_rollback $disk one
	cmp "$vol" /tmp/rdt-pool/one
	is_version $vg/vm-100-disk-0@3 /tmp/rdt-pool/now
	retry 100 0.3 is_home vm-100-disk-0
	# A newer one than that is still there.
	pve volume_snapshot_rollback $disk two
	cmp "$vol" /tmp/rdt-pool/two

	# Larger, while the guest runs.
	exec 9<"$vol"
	pve volume_resize $disk $((48 << 20)) 1
	[ "$(blockdev --getsize64 "$vol")" = $((48 << 20)) ]
	[ "$(pve volume_size_info $disk)" = $((48 << 20)) ]
	exec 9<&-
	pve volume_snapshot_delete $disk one
	[ ! -e "$mapped" ]
	run revdedupctl show $vg/vm-100-disk-0@pve-one
	[ "$status" -eq 1 ]
	is_version $vg/vm-100-disk-0@pve-two /tmp/rdt-pool/two
	run revdedupctl prune --keep-last 1
	echo "$output"
	is_version $vg/vm-100-disk-0@pve-two /tmp/rdt-pool/two

	# A disk in use is not removed.
	exec 9<"$vol"
	run pve vdisk_free $disk
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"in use"* ]]
	exec 9<&-
	fill "$vol" 1
	pve activate_volumes "[\"$disk\"]" two
	pve vdisk_free $disk
	[ -z "$(lvs --noheadings -o lv_name $vg)" ]
	is_version $vg/vm-100-disk-0@2 /tmp/rdt-pool/two
	[ "$(revdedupctl list --json | grep -c pve-two)" = 0 ]
	revdedupctl -q check
}

@test "proxmox: a clone of a snapshot, memory, and a boot" {
	disk=$(pve vdisk_alloc fast 100 raw undef 32768 | tr -d '"')
	vol=$(pve path $disk | tr -d '"')
	fill "$vol" 32
	cp "$vol" /tmp/rdt-pool/one
	pve volume_snapshot $disk one
	clone=$(pve vdisk_clone $disk 101 one | tr -d '"')
	[ "$clone" = fast:vm-101-disk-0 ]
	pve activate_volumes "[\"$clone\"]"
	cmp "$(pve path $clone | tr -d '"')" /tmp/rdt-pool/one
	[[ $(lvs --noheadings -o tags $vg/vm-101-disk-0) == *pve-vm-101* ]]
	pve vdisk_free $clone

	# One that has blocks in the pool, by which alone it is its content.
	revdedupctl -q clone --no-hydrate $vg/vm-100-disk-0@pve-one $vg/vm-102-disk-0
	clone=fast:vm-102-disk-0
	pve volume_snapshot $clone one
	run pve volume_snapshot_rollback $clone one
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"has 8192 blocks in the pool, and cannot be rolled back"* ]]
	exec 9<"$(pve path $clone | tr -d '"')"
	run pve vdisk_free $clone
	echo "$output"
	[ "$status" -ne 0 ]
	exec 9<&-
	cmp "$(pve path $clone | tr -d '"')" /tmp/rdt-pool/one
	pve vdisk_free $clone

	state=$(pve vdisk_alloc fast 100 raw vm-100-state-one 4096 | tr -d '"')
	pve activate_volumes "[\"$state\"]"
	[ "$(pve path $state | tr -d '"')" = /dev/$vg/vm-100-state-one ]
	fill /dev/$vg/vm-100-state-one 4
	pve deactivate_volumes "[\"$state\"]"
	run pve volume_snapshot $state one
	[ "$status" -ne 0 ]
	[[ $output == *"plain logical volume"* ]]
	pve vdisk_list fast 100 | tee /tmp/said
	[ "$(grep -o volid /tmp/said | wc -l)" = 2 ]

	# After a boot, before revdedup-attach.service.
	down "$vol"
	lvchange -an $vg/vm-100-disk-0 $vg/vm-100-disk-0_rdmeta
	pve activate_volumes "[\"$disk\"]"
	cmp "$vol" /tmp/rdt-pool/one
	fill "$vol" 1 3
	pve volume_snapshot $disk two
	revdedupctl show $vg/vm-100-disk-0@latest --json | tee /tmp/said
	[ "$(json segments_read </tmp/said)" -lt 10 ]
	pve vdisk_free $state
	pve vdisk_free $disk
	[ -z "$(lvs --noheadings -o lv_name $vg)" ]
}
