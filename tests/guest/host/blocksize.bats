#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Disks of 512 and of 4096 bytes a block: base, metadata and pool in each combination. A
# volume keeps the block size of its base all its life, whatever the pool is on: otherwise
# the file systems and partition tables on it could not be read any more.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() {
	dmr_setup
	load_module
	modprobe loop
	# Loop devices on these make zeros; those on a tmpfs only say that they do.
	ramdisk 200 2
	mkdir -p "$REVDEDUP_CONFIG" /tmp/rdt-pool /tmp/rdt-mnt
}
teardown() { lvm_teardown; }

# disk_on FILE BLOCK: the loop device that it is, in $disk. Not from the beginning, or LVM
# would find the same twice.
disk_on() { disk=$(losetup --show --find --offset 4096 --sector-size "$2" "$1"); }

# disk NAME BLOCK MIB: the same of a new file.
disk() {
	truncate -s $(($3 * 1048576 + 4096)) "$BATS_TEST_TMPDIR/$1"
	disk_on "$BATS_TEST_TMPDIR/$1" "$2"
}

# block_is SIZE [DEVICE]
block_is() {
	local size
	size=$(blockdev --getss "${2:-$vol}")
	[ "$size" = "$1" ] || {
		echo "'${2:-$vol}' has blocks of $size bytes, wanted: $1"
		return 1
	}
}

# --- the target

# combination BASE META POOL: $base, $meta and $pool.
combination() {
	disk base "$1" 64
	base=$disk
	disk meta "$2" 4
	meta=$disk
	disk pool "$3" 16
	pool=$disk
	tr '\0' p </dev/zero | dd of="$pool" bs=1M count=16 iflag=fullblock status=none
	sync "$pool"
}

nr_refused=0
# refused TEXT COMMAND...: it fails, and the kernel's log says why.
refused() {
	local text=$1
	shift
	nr_refused=$((nr_refused + 1))
	dmesg_mark "refusal $nr_refused"
	run "$@"
	echo "$output"
	[ "$status" -ne 0 ]
	dmesg | dmesg_since "refusal $nr_refused" | grep -F "$text"
}

@test "block size: base and metadata with more than 4096 bytes a block are refused" {
	local large small what
	truncate -s 64M "$BATS_TEST_TMPDIR/large"
	large=$(losetup --show --find --sector-size 8192 "$BATS_TEST_TMPDIR/large") || {
		# There are no such disks before 6.15.
		! printf '6.15\n%s\n' "$(uname -r)" | sort -V -C
		return
	}
	block_is 8192 "$large"
	disk small 512 64
	small=$disk
	dd if="$large" of="$BATS_TEST_TMPDIR/before" bs=1M status=none
	for what in base metadata; do
		base=$large meta=$small
		[ $what = base ] || base=$small meta=$large
		refused "the $what device has logical blocks of more than 4096 bytes" \
			dmsetup create rdt-v --table "0 65536 revdedup $base $meta -"
	done
	cmp "$large" "$BATS_TEST_TMPDIR/before"
	losetup -d "$large" "$small"
}

@test "block size: the target, in each combination" {
	local vol=/dev/mapper/rdt-v table a b c
	for a in 512 4096; do
		for b in 512 4096; do
			for c in 512 4096; do
				echo "base $a, metadata $b, pool $c"
				combination $a $b $c
				table="0 131072 revdedup $base $meta $pool"
				if [ $c -gt $a ]; then
					refused "the pool device has larger logical blocks" \
						dmsetup create rdt-v --table "$table"
					losetup -d "$base" "$meta" "$pool"
					continue
				fi
				dm_create rdt-v "$table"
				block_is $a
				dmsetup suspend rdt-v
				dmsetup message rdt-v 0 begin
				dmsetup message rdt-v 0 set "0,400,p0"
				dmsetup message rdt-v 0 end
				dmsetup resume rdt-v
				cmp -n 4194304 $vol "$pool"
				# A block of the disk, and a part of one where it has small ones.
				dd if=/dev/zero of=$vol bs=$a seek=9 count=1 oflag=direct \
					conv=notrunc status=none
				dd if=$vol bs=$a skip=9 count=1 iflag=direct status=none |
					cmp -n $a - /dev/zero
				cmp -n $a -i $((10 * a)):0 $vol "$pool"
				dmsetup message rdt-v 0 hydrate start
				retry 100 0.1 eval "dmsetup status rdt-v | grep -q ' off '"
				dm_remove rdt-v
				/revdedup/tools/revdedup-meta check "$meta"
				# Without the pool, it is on the base.
				dm_create rdt-v "0 131072 revdedup $base $meta -"
				block_is $a
				cmp -n $a -i $((9 * a)):0 $vol /dev/zero
				cmp -n 2097152 -i 2097152:0 $vol "$pool"
				dm_remove rdt-v
				losetup -d "$base" "$meta" "$pool"
			done
		done
	done
}

@test "block size: a volume in use keeps its own" {
	local vol=/dev/mapper/rdt-v
	combination 512 512 4096
	dm_create rdt-v "0 131072 revdedup $base $meta -"
	mkfs.ext4 -q -b 1024 $vol
	mount $vol /tmp/rdt-mnt
	refused "the pool device has larger logical blocks" \
		dmsetup load rdt-v --table "0 131072 revdedup $base $meta $pool"
	dmsetup suspend rdt-v
	dmsetup resume rdt-v
	block_is 512
	dd if=/dev/urandom of=/tmp/rdt-mnt/file bs=1k count=99 conv=fsync status=none
	# With blocks that are no larger it has the pool.
	losetup -d "$pool"
	disk_on "$BATS_TEST_TMPDIR/pool" 512
	pool=$disk
	dmsetup load rdt-v --table "0 131072 revdedup $base $meta $pool"
	dmsetup suspend rdt-v
	dmsetup resume rdt-v
	block_is 512
	dd if=/dev/urandom of=/tmp/rdt-mnt/file bs=1k count=99 conv=fsync status=none
	umount /tmp/rdt-mnt
	e2fsck -fn $vol
	dm_remove rdt-v
}

@test "block size: a version without a base is one of small blocks" {
	combination 512 512 4096
	/revdedup/tools/revdedup-meta --sectors 131072 make "$meta" - <<<"0,1000,p0"
	refused "a pool without a base must have logical blocks of 512 bytes" dmsetup create rdt-v --readonly \
		--table "0 131072 revdedup - $meta $pool"
}

# --- revdedupctl

# The volume: a GPT, in blocks of 512 bytes; an XFS, an ext4.
sectors=65536
xfs_at=2048 xfs_sectors=40960
ext4_at=43008 ext4_sectors=16384

# parts_of DEVICE: rdt-xfs and rdt-ext4 on it; parts_gone.
parts_of() {
	dm_create rdt-xfs "0 $xfs_sectors linear $1 $xfs_at"
	dm_create rdt-ext4 "0 $ext4_sectors linear $1 $ext4_at"
}
parts_gone() {
	dm_remove rdt-xfs
	dm_remove rdt-ext4
}

# on_parts DEVICE COMMAND...: with its file systems mounted in /tmp/rdt-mnt, one by one.
on_parts() {
	local type
	parts_of "$1"
	shift
	for type in xfs ext4; do
		mount -t $type /dev/mapper/rdt-$type /tmp/rdt-mnt
		"$@"
		umount /tmp/rdt-mnt
	done
	parts_gone
}

write_file() {
	dd if="$1" of=/tmp/rdt-mnt/file bs=1k conv=fsync status=none
}
has_file() { cmp "$1" /tmp/rdt-mnt/file; }

# make_volume BLOCK: vm1 on a disk like that, with file systems for it; $vol
make_volume() {
	local block=$1 ext4_block=1024
	[ "$block" -eq 512 ] || ext4_block=4096
	disk_on /dev/ram0 "$block"
	vgcreate -qq $vg "$disk"
	lvcreate -qq --yes -Wy -Zy --size "${sectors}s" --name vm1 $vg
	disk meta "$2" 8
	revdedupctl -q attach $vg/vm1 --meta "$disk"
	vol=$(device_of vm1)
	block_is "$block"
	truncate -s $((sectors * 512)) "$BATS_TEST_TMPDIR/image"
	sfdisk -q "$BATS_TEST_TMPDIR/image" <<-END
		label: gpt
		start=$xfs_at, size=$xfs_sectors
		start=$ext4_at, size=$ext4_sectors
	END
	dd if="$BATS_TEST_TMPDIR/image" of="$vol" bs=1M count=1 conv=fsync status=none
	dd if="$BATS_TEST_TMPDIR/image" of="$vol" bs=1M skip=$((sectors / 2048 - 1)) \
		seek=$((sectors / 2048 - 1)) conv=fsync status=none
	parts_of "$vol"
	mkfs.xfs --unsupported -q -s size="$block" /dev/mapper/rdt-xfs
	mkfs.ext4 -q -b $ext4_block /dev/mapper/rdt-ext4
	parts_gone
}

# make_pool BLOCK: in a file system on such a disk.
make_pool() {
	disk_on /dev/ram1 "$1"
	mkfs.ext4 -q -b 4096 "$disk"
	mount "$disk" /tmp/rdt-pool
	revdedupctl -q init --compression none --size 1G "$REVDEDUP_POOL"
}

# pool_of: in the table of the volume.
pool_of() {
	dmsetup table "$vol" | awk '{ print $6 }'
}

# two_versions: vm1@1 has /tmp/one, the volume /tmp/two.
two_versions() {
	head -c 400k /dev/urandom >/tmp/one
	head -c 400k /dev/urandom >/tmp/two
	on_parts "$vol" write_file /tmp/one
	revdedupctl -q snapshot $vg/vm1
	on_parts "$vol" write_file /tmp/two
}

# map_and_clone BASE: the version, which is served in small blocks, whatever it is of.
map_and_clone() {
	local nr
	revdedupctl -q map $vg/vm1@1 rdt-map
	block_is 512 /dev/mapper/rdt-map
	revdedupctl -q unmap rdt-map
	for nr in 1 2; do
		revdedupctl -q mount $vg/vm1@1 /tmp/rdt-mnt --partition $nr
		has_file /tmp/one
		revdedupctl -q umount /tmp/rdt-mnt
	done
	revdedupctl -q mount $vg/vm1@1 /tmp/rdt-mnt --partition 1 --writable
	write_file /tmp/two
	revdedupctl -q umount /tmp/rdt-mnt
	revdedupctl -q clone $vg/vm1@1 $vg/new --no-hydrate
	block_is $1 "$(device_of new)"
	on_parts "$(device_of new)" has_file /tmp/one
	revdedupctl -q detach --force --yes $vg/new
}

# roll_back BASE: it is read from the pool, comes home, and is reloaded without the pool.
roll_back() {
	local loops
	loops=$(losetup -a | wc -l)
	revdedupctl -q rollback $vg/vm1@1 --yes
	block_is $1
	on_parts "$vol" has_file /tmp/one
	on_parts "$vol" write_file /tmp/two
	retry 200 0.1 is_home
	block_is $1
	[ "$(pool_of)" != - ]
	revdedupctl -q attach $vg/vm1
	[ "$(pool_of)" = - ]
	block_is $1
	[ "$(losetup -a | wc -l)" -eq "$loops" ]
	on_parts "$vol" has_file /tmp/two
	revdedupctl -q check
}

# What the metadata are on is nothing to versions and clones: half of these leave them out.
# bats test_tags=soak
@test "block size: base 512, metadata 512, pool 512" {
	make_pool 512
	make_volume 512 512
	two_versions
	map_and_clone 512
	roll_back 512
}

@test "block size: base 512, metadata 4096, pool 512" {
	make_pool 512
	make_volume 512 4096
	two_versions
	roll_back 512
}

# bats test_tags=soak
@test "block size: base 512, metadata 512, pool 4096" {
	make_pool 4096
	make_volume 512 512
	two_versions
	map_and_clone 512
	roll_back 512
}

# bats test_tags=soak
@test "block size: base 512, metadata 4096, pool 4096" {
	make_pool 4096
	make_volume 512 4096
	two_versions
	roll_back 512
}

# bats test_tags=soak
@test "block size: base 4096, metadata 512, pool 512" {
	make_pool 512
	make_volume 4096 512
	two_versions
	map_and_clone 4096
	roll_back 4096
}

# bats test_tags=soak
@test "block size: base 4096, metadata 4096, pool 512" {
	make_pool 512
	make_volume 4096 4096
	two_versions
	roll_back 4096
}

@test "block size: base 4096, metadata 512, pool 4096" {
	make_pool 4096
	make_volume 4096 512
	two_versions
	map_and_clone 4096
	roll_back 4096
}

# bats test_tags=soak
@test "block size: base 4096, metadata 4096, pool 4096" {
	make_pool 4096
	make_volume 4096 4096
	two_versions
	roll_back 4096
}

# bats test_tags=soak
@test "block size: base 512, and a pool on a disk of 4096 itself" {
	disk data 4096 200
	# What the pool has beside its data is in a file system.
	mkfs.ext4 -q /dev/ram1
	mount /dev/ram1 /tmp/rdt-pool
	mkdir "$REVDEDUP_POOL"
	revdedupctl -q init --compression none --data "$disk" "$REVDEDUP_POOL"
	make_volume 512 512
	two_versions
	map_and_clone 512
	roll_back 512
}

@test "block size: a partition table in blocks of 4096" {
	make_pool 512
	disk_on /dev/ram0 4096
	vgcreate -qq $vg "$disk"
	lvcreate -qq --yes -Wy -Zy --size "${sectors}s" --name vm1 $vg
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	sfdisk -q "$vol" <<-END
		label: gpt
		start=$((xfs_at / 8)), size=$((xfs_sectors / 8))
		start=$((ext4_at / 8)), size=$((ext4_sectors / 8))
	END
	parts_of "$vol"
	mkfs.xfs --unsupported -q /dev/mapper/rdt-xfs
	mkfs.ext4 -q /dev/mapper/rdt-ext4
	parts_gone
	head -c 400k /dev/urandom >/tmp/one
	on_parts "$vol" write_file /tmp/one
	revdedupctl -q snapshot $vg/vm1
	for nr in 1 2; do
		revdedupctl -q mount $vg/vm1@1 /tmp/rdt-mnt --partition $nr
		has_file /tmp/one
		revdedupctl -q umount /tmp/rdt-mnt
	done
}
