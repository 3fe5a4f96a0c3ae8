#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Devices of versions that are compressed: read through nbd, or stored raw before a table names
# them; killed at each step, damaged, and without room.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

export REVDEDUP_RUN=/tmp/rdt-run
data=/tmp/rdt-pool/pool/data
mnt=/tmp/rdt-mnt
new=$(device_of new)

setup() {
	lvm_setup 400
	mkdir -p $mnt $REVDEDUP_RUN
}

teardown() {
	umount $mnt 2>/dev/null || :
	[ ! -e /sys/block/nbd0/pid ] || revdedupctl -q unmap /dev/nbd0 || :
	pkill nbdkit || :
	lvm_teardown
	rm -rf $REVDEDUP_RUN
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

# is_clean: no device and no process is left of a version.
is_clean() {
	! pgrep -x nbdkit
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

@test "packed: map and mount read it through nbd, with the module loaded" {
	two_versions
	for nr in 1:one 2:two; do
		must map $vg/vm1@${nr%:*}
		[ "$output" = "mapped $vg/vm1@${nr%:*} as /dev/nbd0" ]
		cmp /dev/nbd0 /tmp/rdt-pool/${nr#*:}
		must unmap $vg/vm1@${nr%:*}
	done
	is_clean
	must map $vg/vm1@1 rdt-one --writable
	dd if=/dev/zero of=/dev/nbd0 bs=1M count=1 oflag=direct status=none
	cmp -n 1048576 /dev/nbd0 /dev/zero
	must unmap rdt-one
	# A server that dies.
	must map $vg/vm1@1
	kill -9 "$(cat $REVDEDUP_RUN/*.pid)"
	blockdev --flushbufs /dev/nbd0
	run timeout 20 cmp /dev/nbd0 /tmp/rdt-pool/one
	echo "$output"
	[[ $status -eq 2 && $output == *"Input/output error"* ]]
	must status
	[[ $output == *"has lost its server"* ]]
	must map $vg/vm1@1
	cmp /dev/nbd0 /tmp/rdt-pool/one
	refused 1 "exists already" map $vg/vm1@1
	# Once it is raw the module reads it, and names are those of one device.
	must clone $vg/vm1@1 $vg/new --no-hydrate
	refused 1 "exists already: '/dev/nbd0'" map $vg/vm1@1
	must unmap $vg/vm1@1
	must map $vg/vm1@1
	[[ $output == *"/dev/mapper/"* ]]
	cmp "$vol@1" /tmp/rdt-pool/one
	must unmap $vg/vm1@1
	must detach $vg/new --force --yes
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
	grep -q "^/dev/nbd0 $mnt ext4 ro," /proc/mounts
	must umount $mnt
	is_clean
}

# bats test_tags=soak
@test "packed: a clone is raw first, killed at each step" {
	two_versions
	for step in inflate inflate:2 rewrite-write rewrite-commit; do
		run env REVDEDUP_FAIL=$step=kill revdedupctl clone $vg/vm1@1 $vg/new
		echo "$output"
		[ "$status" -eq 137 ]
		is_clean
		lvs_are vm1 vm1_rdmeta
	done
	must -v clone $vg/vm1@1 $vg/new
	[[ $output == *"MiB are compressed"* ]]
	cmp "$new" /tmp/rdt-pool/one
	revdedupctl delete $vg/vm1@1
	retry 100 0.3 is_home new
	cmp /dev/$vg/new /tmp/rdt-pool/one
	is_version $vg/vm1@2 /tmp/rdt-pool/two
	revdedupctl detach $vg/new
	nothing_held
	is_clean
}

@test "packed: rolled back at once, with what differs alone stored raw" {
	two_versions
	must -v rollback $vg/vm1@1 --yes
	[[ $output == *"MiB are compressed"* ]]
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
	# Killed before the table changes, and while the volume is suspended.
	must snapshot $vg/vm1 --compression zstd --full-scan
	change 0 4000 9000000
	cp "$vol" /tmp/rdt-pool/three
	must snapshot $vg/vm1 --compression zstd
	number=$(revdedupctl list $vg/vm1 --json | sed -n 's/.*"number": \([0-9]*\).*/\1/p' |
		sort -n | tail -n 2 | head -n 1)
	for step in inflate rewrite-commit rollback-begun; do
		run env REVDEDUP_FAIL=$step=kill revdedupctl rollback $vg/vm1@$number --yes
		echo "$output"
		[ "$status" -eq 137 ]
		retry 100 0.1 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct
		case $step in
		rollback-begun) cmp "$vol" /tmp/rdt-pool/now ;;
		*) cmp "$vol" /tmp/rdt-pool/three ;;
		esac
	done
	retry 100 0.3 is_home
	cmp "$vol" /tmp/rdt-pool/now
}

# bats test_tags=soak
@test "packed: a device that reads raw blocks follows them out of new packs" {
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

@test "packed: damage, or no room, is found before anything is suspended or made" {
	two_versions
	cp "$vol" /tmp/rdt-pool/now
	at=$(head -c 64M $data | grep -abo RDPACK1 | head -n 1 | cut -d : -f 1)
	dd if=$data of=/tmp/rdt-pool/saved bs=1 skip=$((at + 600)) count=64 status=none
	dd if=/dev/zero of=$data bs=1 seek=$((at + 600)) count=64 conv=notrunc status=none
	refused 4 "damaged" rollback $vg/vm1@1 --yes --no-snapshot
	cmp "$vol" /tmp/rdt-pool/now
	refused 4 "damaged" clone $vg/vm1@1 $vg/new
	lvs_are vm1 vm1_rdmeta
	dd if=/tmp/rdt-pool/saved of=$data bs=1 seek=$((at + 600)) conv=notrunc status=none
	is_clean
	must clone $vg/vm1@1 $vg/new
	cmp "$new" /tmp/rdt-pool/one
	retry 100 0.3 is_home new
	revdedupctl detach $vg/new
	lvremove -qq --yes $vg/new
	is_clean
	# Raw it needs ten frames, and there are seven.
	export REVDEDUP_POOL=/tmp/rdt-pool/small
	revdedupctl -q init --size 64M $REVDEDUP_POOL
	head -c 40M /dev/urandom >/tmp/rdt-pool/random
	revdedupctl -q snapshot random --from /tmp/rdt-pool/random
	lines 1 1310720 >/tmp/rdt-pool/img
	revdedupctl -q snapshot img --from /tmp/rdt-pool/img --compression zstd
	refused 12 "takes more room" clone img $vg/new
	lvs_are vm1 vm1_rdmeta
	must delete random@1
	must clone img $vg/new
	cmp "$new" /tmp/rdt-pool/img
	must check
}
