#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl grow: a pool gets more room.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# frames: how many the pool has.
frames() {
	must stats --json
	field -1 '["frames"]'
}

# all_well: each version is its image, and the pool is in order.
all_well() {
	local image
	for image in *.img; do
		must restore "${image%.img}@1" --to back --yes
		cmp "$image" back
		rm back
	done
	must check
	must scrub
}

@test "grow: a full pool takes what it had no room for" {
	make_pool 64M
	blocks a.img 0 9000
	blocks b.img 0 9000
	must snapshot a --from a.img
	ctl snapshot c --from b.img
	[ "$status" -eq 12 ]
	must grow --size 1200M
	[ "$output" = "the pool '$REVDEDUP_POOL' has room for 1.2 GiB now, it was 60.0 MiB" ]
	[ "$(stat -c %s pool/data)" -eq $((1200 << 20)) ]
	# They are in three groups.
	[ "$(frames)" -eq 596 ]
	must snapshot b --from b.img
	all_well
	# It is the same number wherever it is known.
	must repair --rebuild-catalog
	[ "$(frames)" -eq 596 ]
	dd if=/dev/zero of=pool/data bs=1M count=2 conv=notrunc status=none
	must repair --force
	[ "$(frames)" -eq 596 ]
	all_well
}

@test "grow: what is refused, and what there is nothing to do for" {
	make_pool 200M
	cp -r --sparse=always pool before
	ctl grow --size 100M
	expect 1 <<-END
		revdedupctl: the pool '$REVDEDUP_POOL' does not shrink: its last frame ends at 209715200 bytes, and the file would have only 104857600
		revdedupctl: nothing was changed
	END
	cmp before/data pool/data
	must grow --size 200M
	[ "$output" = "the pool '$REVDEDUP_POOL' has room for 196.0 MiB already" ]
	for size in 0 many; do
		ctl grow --size "$size"
		[ "$status" -eq 2 ]
	done
	# More than a file can have, or a superblock can say.
	ctl grow --size 8000000T
	[ "$status" -eq 1 ]
	[ "$(frames)" -eq 98 ]
	must grow --size 300M --json
	[ "$(field 0 '["frames_before"]')" -eq 98 ]
	[ "$(field 0 '["frames"]')" -eq 148 ]
	must grow --size 400M -q
	[ -z "$output" ]
	# Without a size a file gets as long as its file system is large.
	must grow
	[ "$(frames)" -gt 198 ]
	must check
}

@test "grow: alone" {
	make_pool 100M
	hold 0 0 shared
	ctl grow --size 200M
	[ "$status" -eq 11 ]
	[[ $output == *"another command is using the pool"* ]]
	[ "$(frames)" -eq 48 ]
	kill "$holder"
	wait "$holder" || :
	holder=
	must grow --size 200M --lock-wait 600
}

@test "grow: a data area of before is told from the present one" {
	make_pool 100M
	blocks a.img 0 10
	must snapshot a --from a.img
	cp --sparse=always pool/data old
	must grow --size 200M
	cp --sparse=always old pool/data
	ctl snapshot b --from a.img
	[ "$status" -eq 1 ]
	[[ $output == *"the data area is older than the catalog"* ]]
}

@test "grow: a device that has grown, whatever the new part holds" {
	truncate -s 100M disk
	loop=$(losetup --find --show disk 2>&1) || skip "no loop device: $loop"
	export REVDEDUP_POOL=$PWD/pool
	must init pool --data "$loop"
	blocks a.img 0 2000
	must snapshot a --from a.img
	must grow
	[ "$output" = "the pool '$REVDEDUP_POOL' has room for 96.0 MiB already" ]
	ctl grow --size 200M
	[ "$status" -eq 2 ]
	[[ $output == *"--size is for a pool in a file"* ]]
	dd if=/dev/urandom of=disk bs=1M seek=100 count=100 conv=notrunc status=none
	losetup --set-capacity "$loop"
	must grow
	[ "$output" = "the pool '$REVDEDUP_POOL' has room for 196.0 MiB now, it was 96.0 MiB" ]
	blocks b.img 0 20000
	must snapshot b --from b.img
	all_well
	# One that is smaller than it was is no size at all.
	truncate -s 80M disk
	losetup --set-capacity "$loop"
	ctl grow
	[ "$status" -ne 0 ]
	[[ $output == *"does not shrink"* ]]
}
