#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Devices of versions that are compressed: their tables name places in packs. Killed, moved to
# other places, and damaged.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

data=/tmp/rdt-pool/pool/data
mnt=/tmp/rdt-mnt
new=$(device_of new)

setup() {
	lvm_setup 400
	mkdir -p $mnt
}

teardown() {
	revdedupctl -q unexport --all || :
	umount $mnt 2>/dev/null || :
	lvm_teardown
}

# lines FIRST LAST: blocks that compress, and of which no two are the same. A line has 16 bytes,
# and no format, by which seq would compute with long double: in TCG a hundred times as slow.
lines() { seq $((10 ** 14 + $1)) $((10 ** 14 + $2)); }

# change OFFSET COUNT FIRST: write COUNT blocks from block OFFSET on to $vol.
change() {
	lines "$3" $(($3 + 256 * $2 - 1)) |
		dd of="$vol" bs=4k seek="$1" count="$2" iflag=fullblock oflag=direct \
			conv=notrunc status=none
}

# volume COMPRESSION: vm1, of which a part does not compress, with version 1, which is
# /tmp/rdt-pool/one.
volume() {
	make_lv vm1 20
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	change 0 5120 1000000
	dd if=/dev/urandom of="$vol" bs=1M seek=12 count=2 oflag=direct status=none
	revdedupctl -q snapshot $vg/vm1 --compression "$1"
	cp "$vol" /tmp/rdt-pool/one
}

# two_versions: the same, and version 2, which is /tmp/rdt-pool/two; of some blocks of version 1
# its packs are the only place.
two_versions() {
	volume zstd
	change 700 900 5000000
	revdedupctl -q snapshot $vg/vm1 --compression zstd
	cp "$vol" /tmp/rdt-pool/two
}

# is_clean: no device is left of a version.
is_clean() {
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
	[ -z "$(losetup -a)" ]
	revdedupctl -q check
}

# must COMMAND...: run it, with its output in $output, and see that it succeeds.
must() {
	run revdedupctl "$@"
	echo "$output"
	[ "$status" -eq 0 ]
}

# refused CODE TEXT COMMAND...: it fails, and says TEXT.
refused() {
	local code=$1 text=$2
	shift 2
	run revdedupctl "$@"
	echo "$output"
	[ "$status" -eq "$code" ]
	[[ $output == *"$text"* ]]
}

@test "packed: map and mount read it by the module" {
	two_versions
	for nr in 1:one 2:two; do
		must map $vg/vm1@${nr%:*}
		[ "$output" = "mapped $vg/vm1@${nr%:*} as $vol@${nr%:*}" ]
		cmp "$vol@${nr%:*}" /tmp/rdt-pool/${nr#*:}
		must unmap $vg/vm1@${nr%:*}
	done
	is_clean
	must map $vg/vm1@1 rdt-one --writable
	dd if=/dev/zero of=/dev/mapper/rdt-one bs=1M count=1 oflag=direct status=none
	cmp -n 1048576 /dev/mapper/rdt-one /dev/zero
	cmp -i 1048576 /dev/mapper/rdt-one /tmp/rdt-pool/one
	must unmap rdt-one
	is_clean
	# A file system.
	mkfs.ext4 -q "$vol"
	mount "$vol" $mnt
	lines 1 100000 >$mnt/file
	cp $mnt/file /tmp/rdt-pool/file
	umount $mnt
	revdedupctl -q snapshot $vg/vm1 --compression zstd
	must mount $vg/vm1 $mnt
	cmp $mnt/file /tmp/rdt-pool/file
	grep -q "^/dev/mapper/[^ ]*:mount $mnt ext4 ro," /proc/mounts
	must umount $mnt
	is_clean
}

@test "packed: a clone reads packs until all of it is home" {
	two_versions
	for step in clone-leased clone-table; do
		run env REVDEDUP_FAIL=$step=kill revdedupctl clone $vg/vm1@1 $vg/new
		echo "$output"
		[ "$status" -eq 137 ]
	done
	before=$(du -k $data | cut -f 1)
	must clone $vg/vm1@1 $vg/new
	# Nothing is stored raw for it.
	[ "$(du -k $data | cut -f 1)" -le $((before + 1024)) ]
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl delete $vg/vm1@1
	retry 100 0.3 is_home new
	cmp /dev/$vg/new /tmp/rdt-pool/one
	is_version $vg/vm1@2 /tmp/rdt-pool/two
	revdedupctl detach $vg/new
	nothing_held
	is_clean
}

@test "packed: rolled back at once" {
	two_versions
	must rollback $vg/vm1@1 --yes
	cmp "$vol" /tmp/rdt-pool/one
	retry 100 0.3 is_home
	cmp "$vol" /tmp/rdt-pool/one
	# What is dirty as well, while another version replaces what it reads.
	change 3000 50 7000000
	must rollback $vg/vm1@2 --yes --no-snapshot
	cmp "$vol" /tmp/rdt-pool/two
	change 0 1 8000000
	cp "$vol" /tmp/rdt-pool/now
	must snapshot $vg/vm1 --compression zstd
	revdedupctl -q prune $vg/vm1 --keep-last 1
	cmp "$vol" /tmp/rdt-pool/now
	retry 100 0.3 is_home
	cmp "$vol" /tmp/rdt-pool/now
	is_version $vg/vm1@latest /tmp/rdt-pool/now
	nothing_held
	revdedupctl -q check
	# Killed while the volume is suspended.
	must snapshot $vg/vm1 --compression zstd --full-scan
	change 0 4000 9000000
	cp "$vol" /tmp/rdt-pool/three
	must snapshot $vg/vm1 --compression zstd
	number=$(revdedupctl list $vg/vm1 --json | sed -n 's/.*"number": \([0-9]*\).*/\1/p' |
		sort -n | tail -n 2 | head -n 1)
	run env REVDEDUP_FAIL=rollback-begun=kill revdedupctl rollback $vg/vm1@$number --yes
	echo "$output"
	[ "$status" -eq 137 ]
	retry 100 0.1 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct
	cmp "$vol" /tmp/rdt-pool/now
	retry 100 0.3 is_home
	cmp "$vol" /tmp/rdt-pool/now
}

# bats test_tags=soak
@test "packed: a device that reads raw blocks follows them into packs" {
	volume none
	must map $vg/vm1@1
	[[ $output == *"/dev/mapper/"* ]]
	must clone $vg/vm1@1 $vg/new --no-hydrate
	for nr in 1 2 3 4 5 6; do
		change $((nr * 512 + 9)) 3 $((nr * 10000000))
	done
	must snapshot $vg/vm1 --compression zstd
	must prune $vg/vm1 --keep-last 1
	[[ $output != *reached* ]]
	echo 3 >/proc/sys/vm/drop_caches
	cmp "$vol@1" /tmp/rdt-pool/one
	cmp "$new" /tmp/rdt-pool/one
	must check
	must unmap $vg/vm1@1
	must detach $vg/new --force --yes
	nothing_held
	is_clean
}

# bats test_tags=soak
@test "packed: a device follows blocks from pack to pack, and out of packs" {
	two_versions
	must map $vg/vm1@1
	must clone $vg/vm1@1 $vg/new --no-hydrate
	# Versions lose blocks, so packs are made anew, and frames that are nearly empty are emptied.
	for nr in 1 2 3 4 5 6; do
		change $((nr * 700)) 400 $((nr * 10000000))
		must snapshot $vg/vm1 --compression zstd
	done
	must prune $vg/vm1 --keep-last 1
	[[ $output != *reached* ]]
	echo 3 >/proc/sys/vm/drop_caches
	cmp "$vol@1" /tmp/rdt-pool/one
	cmp "$new" /tmp/rdt-pool/one
	must recompress none
	echo 3 >/proc/sys/vm/drop_caches
	cmp "$vol@1" /tmp/rdt-pool/one
	cmp "$new" /tmp/rdt-pool/one
	must recompress zstd
	echo 3 >/proc/sys/vm/drop_caches
	cmp "$vol@1" /tmp/rdt-pool/one
	cmp "$new" /tmp/rdt-pool/one
	must unmap $vg/vm1@1
	must detach $vg/new --force --yes
	nothing_held
	is_clean
}

@test "packed: what is damaged cannot be read, and all else can" {
	two_versions
	at=$(head -c 64M $data | grep -abo RDPACK1 | head -n 1 | cut -d : -f 1)
	dd if=$data of=/tmp/rdt-pool/saved bs=1 skip=$((at + 600)) count=64 status=none
	dd if=/dev/zero of=$data bs=1 seek=$((at + 600)) count=64 conv=notrunc status=none
	must map $vg/vm1@1
	run cmp "$vol@1" /tmp/rdt-pool/one
	echo "$output"
	[[ $status -eq 2 && $output == *"Input/output error"* ]]
	must unmap $vg/vm1@1
	dd if=/tmp/rdt-pool/saved of=$data bs=1 seek=$((at + 600)) conv=notrunc status=none
	must map $vg/vm1@1
	cmp "$vol@1" /tmp/rdt-pool/one
	must unmap $vg/vm1@1
	is_clean
}

@test "packed: nothing is stored anew while a device that is down would keep what there is" {
	two_versions
	must clone --no-hydrate $vg/vm1@1 $vg/new
	down "$new"
	before=$(revdedupctl stats --json | json bytes_data)
	refused 11 "a device that reads the pool is down" recompress none
	[ "$(revdedupctl stats --json | json bytes_data)" = "$before" ]
	revdedupctl -q attach $vg/new
	cmp "$new" /tmp/rdt-pool/one
	must recompress none
	cmp "$new" /tmp/rdt-pool/one
	must recompress zstd
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl -q check
}

# old_module: the module says that it is 1.0.0, whose table had no packs. The version is three
# numbers behind the target's features, name and module.
old_module() {
	local ko=/tmp/rdt-pool/old.ko at
	cp /revdedup/modules/dm-revdedup.ko $ko
	at=$(LC_ALL=C grep -obUaP '\x81\x00{23}\x01\x00{3}\x01\x00{7}' $ko | cut -d : -f 1)
	[ "$(wc -w <<<"$at")" -eq 1 ]
	printf '\0' | dd of=$ko bs=1 seek=$((at + 28)) conv=notrunc status=none
	rmmod dm_revdedup
	insmod $ko
	[[ $(dmsetup targets) =~ revdedup\ +v1\.0\.0 ]]
}

@test "packed: an older module is given no packs, and nothing is changed" {
	two_versions
	revdedupctl -q detach $vg/vm1
	old_module
	revdedupctl -q attach $vg/vm1
	cp $data /tmp/rdt-pool/before
	dmsetup table >/tmp/rdt-pool/tables
	for command in "clone $vg/vm1@1 $vg/new" "rollback $vg/vm1@1 --yes"; do
		# shellcheck disable=SC2086 # words
		refused 13 "the loaded module dm-revdedup (1.0.0) cannot read what is compressed" $command
		[[ $output == *"nothing was changed; load the newer one, 1.1.0 or later"* ]]
	done
	dmsetup table | diff /tmp/rdt-pool/tables -
	cmp "$vol" /tmp/rdt-pool/two
	nothing_held
	# What is not compressed goes on as it did.
	change 0 5120 9000000
	revdedupctl -q snapshot $vg/vm1 --compression none
	cp "$vol" /tmp/rdt-pool/now
	must map $vg/vm1 rdt-now
	cmp /dev/mapper/rdt-now /tmp/rdt-pool/now
	must unmap rdt-now
	# Nor is a process that reads a version a device.
	must export $vg/vm1@2 --background
	must recompress zstd
	must unexport $vg/vm1@2
	revdedupctl -q detach $vg/vm1
	rmmod dm_revdedup
	insmod /revdedup/modules/dm-revdedup.ko
}
