#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Devices that are in use, or hold something, which revdedupctl must neither overwrite nor
# attach; and a roll-back that keeps no version of what it replaces.

# Each test is a subshell; no name here has blanks; to() makes words.
# shellcheck disable=SC2030,SC2031,SC2046,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() { lvm_setup; }
teardown() { lvm_teardown; }

# refused STATUS WORDS COMMAND...
refused() {
	local want=$1 words=$2
	shift 2
	run revdedupctl "$@"
	echo "$output"
	[ "$status" -eq "$want" ]
	[[ $output == *"$words"* ]]
	[[ $output == *"nothing was changed"* ]]
}

@test "overwrite: restore refuses what is something to somebody" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	make_lv vm2 16
	to() { echo restore $vg/vm1@1 --yes --to "$@"; }
	# Below an attached volume nobody is forced, whether its device is there or not.
	for force in "" --force; do
		refused 1 "lies below the attached volume '$vg/vm1'" $(to /dev/$vg/vm1 $force)
		refused 1 "is the metadata device of '$vg/vm1'" $(to /dev/$vg/vm1_rdmeta $force)
		refused 1 "is the metadata device of" $(to "$vol:meta" $force)
	done
	dmsetup remove "${vol##*/}"
	dmsetup remove "${vol##*/}:meta"
	refused 1 "lies below the attached volume" $(to /dev/mapper/${vg//-/--}-vm1 --force)
	revdedupctl attach --all
	# On top of it: rolling back is quicker, and this is tracked.
	refused 1 "rollback" $(to "$vol")
	dd if=/dev/urandom of="$vol" bs=64k seek=9 count=3 oflag=direct conv=notrunc status=none
	revdedupctl -q snapshot $vg/vm1
	revdedupctl $(to "$vol" --force)
	cmp "$vol" /tmp/rdt-pool/one
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@3 /tmp/rdt-pool/one
	# Another volume, attached or not.
	revdedupctl -q attach $vg/vm2
	refused 1 "attached volume '$vg/vm2'" $(to "$(device_of vm2)")
	revdedupctl -q snapshot $vg/vm2
	revdedupctl -q detach $vg/vm2
	refused 1 "is the volume '$vg/vm2'" $(to /dev/$vg/vm2)
	refused 1 "is the volume '$vg/vm2'" $(to "$(readlink -f /dev/$vg/vm2)")
	revdedupctl $(to /dev/$vg/vm2 --force)
	cmp /dev/$vg/vm2 /tmp/rdt-pool/one
	# A mapped version, and one that is mounted.
	revdedupctl map $vg/vm1@1 rdt-map
	refused 1 "revdedup's own" $(to /dev/mapper/rdt-map)
	revdedupctl unmap rdt-map
	make_lv other 16
	mkfs.ext4 -q /dev/$vg/other
	mkdir -p /tmp/rdt-mnt
	mount /dev/$vg/other /tmp/rdt-mnt
	refused 1 "is in use" $(to /dev/$vg/other)
	umount /tmp/rdt-mnt
	# What is there is named; written is what differs.
	run revdedupctl restore $vg/vm1@1 --to /dev/$vg/other
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"${vg//-/--}-other, 16.0 MiB, holds ext4"*--yes* ]]
	revdedupctl $(to /dev/$vg/other)
	dd if=/dev/urandom of=/dev/$vg/other bs=4k seek=99 count=2 oflag=direct conv=notrunc status=none
	revdedupctl $(to /dev/$vg/other --json) | tee /tmp/said
	[ "$(json bytes_written </tmp/said)" = 8192 ]
	cmp /dev/$vg/other /tmp/rdt-pool/one
	# Another pool.
	make_lv data 100
	revdedupctl -q init --compression none --data /dev/$vg/data /tmp/rdt-pool/two
	refused 1 "data area of a pool" $(to /dev/$vg/data)
	run revdedupctl -p /tmp/rdt-pool/two check
	[ "$status" -eq 0 ]
}

@test "overwrite: attach refuses what is ours" {
	some_volume vm1 16
	make_lv data 100
	revdedupctl -q init --compression none --data /dev/$vg/data /tmp/rdt-pool/two
	refused 1 "data area of a pool" attach $vg/data
	refused 1 "metadata device of '$vg/vm1'" attach $vg/vm1_rdmeta
	refused 1 "lies below the attached volume '$vg/vm1'" attach twice --from /dev/$vg/vm1
	refused 1 "is the device of the attached volume" attach twice --from "$vol"
	revdedupctl map $vg/vm1@1 rdt-map
	refused 1 "revdedup's own" attach twice --from /dev/mapper/rdt-map
	revdedupctl unmap rdt-map
	# Metadata on what is tracked, on itself, and of another.
	make_lv vm2 16
	dm_create rdt-part "0 8192 linear /dev/$vg/vm2 0"
	refused 1 "lies on '/dev/$vg/vm2' itself" attach $vg/vm2 --meta /dev/mapper/rdt-part
	dmsetup remove rdt-part
	refused 1 "lies on '/dev/$vg/vm2' itself" attach $vg/vm2 --meta /dev/$vg/vm2
	refused 1 "metadata device of '$vg/vm1'" attach $vg/vm2 --meta /dev/$vg/vm1_rdmeta
	refused 1 "data area of a pool" attach $vg/vm2 --meta /dev/$vg/data
	[ "$(ls $REVDEDUP_CONFIG/volumes)" = "${vol##*/}" ]
	lvs_are data vm1 vm1_rdmeta vm2
	# Nor on what holds something behind its first 4 KiB, or at its end.
	make_lv meta 8
	printf '\001CD001\001' | dd of=/dev/$vg/meta bs=1 seek=32768 conv=notrunc,fsync status=none
	dd if=/dev/$vg/meta of=/tmp/rdt-pool/was bs=1M status=none
	refused 1 "is not empty, it holds iso9660" attach $vg/vm2 --meta /dev/$vg/meta
	cmp /dev/$vg/meta /tmp/rdt-pool/was
	blkdiscard -z /dev/$vg/meta
	dd if=/dev/urandom of=/dev/$vg/meta bs=4k seek=2047 oflag=direct status=none count=1
	refused 1 "is not empty" attach $vg/vm2 --meta /dev/$vg/meta
	blkdiscard -z /dev/$vg/meta
	# Metadata that were once a volume's may be its again.
	revdedupctl -q attach $vg/vm2 --meta /dev/$vg/meta
	revdedupctl -q detach $vg/vm2
	refused 1 "holds the metadata" attach $vg/meta
	refused 1 "holds the metadata" restore $vg/vm1@1 --yes --to /dev/$vg/meta
}

@test "overwrite: a roll-back that keeps nothing of the present" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	dd if=/dev/urandom of="$vol" bs=1M count=5 seek=2 oflag=direct conv=notrunc status=none
	# What a killed snapshot has left holds up nothing.
	killed live-frozen snapshot $vg/vm1
	run revdedupctl rollback $vg/vm1@1
	echo "$output"
	[[ $output == *"is kept as a version"* ]]
	run revdedupctl rollback $vg/vm1@1 --no-snapshot
	echo "$output"
	[[ $output == *"will be lost"* ]]
	revdedupctl rollback $vg/vm1@1 --no-snapshot --yes --json | tee /tmp/said
	grep -q '"kept": null' /tmp/said
	cmp "$vol" /tmp/rdt-pool/one
	[ "$(revdedupctl list $vg/vm1 | grep -c @)" -eq 1 ]
	retry 100 0.3 is_home
	cmp /dev/$vg/vm1 /tmp/rdt-pool/one
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@2 /tmp/rdt-pool/one
	revdedupctl -q check
}
