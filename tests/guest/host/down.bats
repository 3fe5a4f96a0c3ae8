#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Devices that read the pool and are down, as after a boot, while other commands free space:
# they keep what they name, and no more.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() { lvm_setup 400; }
teardown() { lvm_teardown; }

new=$(device_of new)
img=/tmp/rdt-pool/img

queued() { revdedupctl stats --json >/tmp/stats && json bytes_queued </tmp/stats; }

# queued_is BYTES
queued_is() {
	local bytes
	bytes=$(queued)
	[ "$bytes" -eq "$1" ] || {
		echo "$bytes bytes are in the queue, not $1"
		return 1
	}
}

# two_images: versions of another volume that have nothing in common.
two_images() {
	for _ in 1 2; do
		dd if=/dev/urandom of=$img bs=1M count=8 status=none
		revdedupctl -q snapshot img --from $img
	done
}

# clone_down: vg/new reads vm1@1 in the pool, and is down.
clone_down() {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/new
	down "$new"
}

# change FIRST COUNT: so many blocks of each segment of vm1, in a new version. What it has
# unlike the first goes to other places, and the rest of the first is freed.
change() {
	local seg
	for seg in {0..7}; do
		dd if=/dev/urandom of="$vol" bs=4k seek=$((seg * 512 + $1)) count=$2 oflag=direct \
			conv=notrunc status=none
	done
	revdedupctl -q snapshot $vg/vm1
}

@test "down: what a device names waits for it, and nothing else" {
	clone_down
	two_images
	# Nothing of that volume is in its table.
	run revdedupctl delete img@1 --json
	echo "$output"
	[ "$status" -eq 0 ]
	queued_is 0
	# The old version gives up what the new one has as well.
	change 7 100
	[ "$(queued)" -gt 0 ]
	run revdedupctl -v delete img@2
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"'$vg/new' is down: "*"frames with blocks that it reads"* ]]
	kept=$(queued)
	[ "$kept" -gt 0 ]
	# No more than what it names.
	[ "$kept" -le $((16 << 20)) ]
	revdedupctl -q check
	# Others come and go meanwhile.
	two_images
	revdedupctl -q delete img@3
	change 300 100
	[ "$(queued)" -ge "$kept" ]
	[ "$(queued)" -le $((16 << 20)) ]
	revdedupctl -q attach $vg/new
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl -q delete img@4
	queued_is 0
	cmp "$new" /tmp/rdt-pool/one
	is_version $vg/vm1@1 /tmp/rdt-pool/one
	revdedupctl -q check
}

@test "down: a volume that was given up is not brought up again" {
	clone_down
	revdedupctl -q attach $vg/new
	# Not while it is in use.
	exec 7<"$new"
	run revdedupctl detach --force --yes $vg/new
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"is in use"* ]]
	revdedupctl status $vg/new
	exec 7<&-
	# It is, also if its pool cannot be told.
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/other
	REVDEDUP_FAIL=lease-drop=EIO run revdedupctl detach --force --yes $vg/other
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"does not know that the device"* ]]
	lvs --noheadings -o lv_name $vg >/tmp/lvs
	grep -qw other /tmp/lvs
	grep -qw other_rdmeta /tmp/lvs && false
	killed detach-told detach --force --yes $vg/new
	# Its blocks are free to be written.
	revdedupctl attach --all
	[ ! -e "$new" ]
	[ -e "$vol" ]
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
}

@test "down: with metadata that cannot be read, all waits, and it is said for what" {
	clone_down
	two_images
	lvchange -qq -an $vg/new_rdmeta
	run revdedupctl delete img@1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"'$vg/new' is down, and '/dev/$vg/new_rdmeta' does not say"* ]]
	[[ $output == *"lvchange -ay"* ]]
	[[ $output == *"no space is freed"* ]]
	[ "$(queued)" -gt 0 ]
	# The base is not needed.
	lvchange -qq -ay $vg/new_rdmeta
	lvchange -qq -an $vg/new
	run revdedupctl delete img@2
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output != *"no space is freed"* ]]
	queued_is 0
	lvchange -qq -ay $vg/new
	# Metadata of another volume, and none, say nothing.
	dd if=/dev/$vg/new_rdmeta of=/tmp/rdt-pool/meta bs=64k iflag=direct status=none
	dd if=/dev/$vg/vm1_rdmeta of=/dev/$vg/new_rdmeta bs=4k count=1 iflag=direct oflag=direct \
		status=none
	two_images
	run revdedupctl delete img@3
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"'$vg/new' is down, and '/dev/$vg/new_rdmeta' does not say"* ]]
	[ "$(queued)" -gt 0 ]
	# Blank ones are not those of a new volume: its base lacks what the pool has.
	blkdiscard -z /dev/$vg/new_rdmeta
	run revdedupctl attach $vg/new
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"metadata of '$vg/new' are lost"*"nothing was changed"* ]]
	dd if=/tmp/rdt-pool/meta of=/dev/$vg/new_rdmeta bs=64k oflag=direct status=none
	revdedupctl -q attach $vg/new
	revdedupctl -q delete img@4
	queued_is 0
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl -q check
}

@test "down: a device whose resume is refused is not taken for home" {
	clone_down
	revdedupctl -q attach $vg/new
	uuid=$(dmsetup info -c --noheadings -o uuid "$new")
	table=$(dmsetup table "$new")
	# Its loop device would go with it.
	read -r _ _ _ _ _ pool _ <<<"$table"
	exec 8<"/dev/$(basename "$(readlink "/sys/dev/block/$pool")")"
	dmsetup remove "$new"
	# Of the metadata only the superblocks can be read, the first and the last block.
	meta=${vg//-/--}-new_rdmeta
	line=$(dmsetup table $meta)
	read -r _ len _ disk start <<<"$line"
	dmsetup suspend $meta
	dmsetup load $meta <<-END
		0 8 linear $disk $start
		8 $((len - 16)) error
		$((len - 8)) 8 linear $disk $((start + len - 8))
	END
	dmsetup resume $meta
	dmsetup create "${new##*/}" --notable --uuid "$uuid"
	dmsetup load "$new" --table "$table"
	exec 8<&-
	run dmsetup resume "$new"
	echo "$output"
	[ "$status" -ne 0 ]
	[ "$(dmsetup info -c --noheadings -o suspended "${new##*/}")" = Suspended ]
	run revdedupctl detach $vg/new
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"blocks of '$vg/new' lie in the pool"*"nothing was changed"* ]]
	dmsetup suspend $meta
	dmsetup load $meta --table "$line"
	dmsetup resume $meta
	revdedupctl -q attach $vg/new
	cmp "$new" /tmp/rdt-pool/one
}

@test "down: a roll-back that has only begun is repeated, though space was freed meanwhile" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	dd if=/dev/urandom of="$vol" bs=1M count=9 oflag=direct conv=notrunc status=none
	revdedupctl -q rollback $vg/vm1@1 --yes
	retry 100 0.3 is_home
	dmsetup suspend "${vol##*/}"
	dmsetup message "${vol##*/}" 0 begin
	two_images
	revdedupctl -q delete img@1
	run dmsetup resume "${vol##*/}"
	[ "$status" -ne 0 ]
	revdedupctl attach $vg/vm1
	cmp "$vol" /tmp/rdt-pool/one
	revdedupctl -q check
}

# The status line says first that all is home, and the table confirms it.
# bats test_tags=soak
@test "down: the lease of a volume that came home goes, and of none before" {
	clone_down
	revdedupctl -q attach $vg/new
	change 7 100
	revdedupctl -q delete $vg/vm1@1
	revdedupctl stats --json | grep -q '"versions_held": 1,'
	two_images
	revdedupctl -q delete img@1
	revdedupctl stats --json | grep -q '"versions_held": 1,'
	cmp "$new" /tmp/rdt-pool/one
	dmsetup message "${new##*/}" 0 hydrate start
	retry 100 0.3 is_home new
	revdedupctl -q delete img@2
	revdedupctl stats --json | grep -q '"versions_held": 0,'
	queued_is 0
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl -q check
}

# bats test_tags=soak
@test "down: more than one, and one that is up" {
	clone_down
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/other
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/third
	revdedupctl -q map $vg/vm1@1 rdt-map
	down "$(device_of other)"
	change 7 100
	two_images
	revdedupctl -q delete img@1
	change 100 50
	cmp "$(device_of third)" /tmp/rdt-pool/one
	cmp /dev/mapper/rdt-map /tmp/rdt-pool/one
	[ "$(queued)" -gt 0 ]
	# Each keeps the places until it is up.
	revdedupctl -q attach $vg/new
	revdedupctl -q delete img@2
	[ "$(queued)" -gt 0 ]
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl -q attach $vg/other
	two_images
	revdedupctl -q delete img@3
	queued_is 0
	for name in new other third; do
		cmp "$(device_of $name)" /tmp/rdt-pool/one
	done
	cmp /dev/mapper/rdt-map /tmp/rdt-pool/one
	revdedupctl unmap rdt-map
	revdedupctl -q check
}
