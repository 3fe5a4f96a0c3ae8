#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A pool in RADOS that the kernel reads by its rbd: versions as devices, volumes that begin as one
# or go back to one, commands that are killed, and another host. The guest has a network card, and
# a cluster is behind it: tests/ceph/network.sh.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm
load dedup

export CEPH_CONF=/revdedup/ceph/ceph.conf

setup_file() {
	modprobe virtio_net
	busybox ip link set lo up
	busybox ip link set eth0 up
	busybox ip address add 10.0.2.15/24 dev eth0
	busybox ip route add default via 10.0.2.2
}

setup() {
	lvm_setup 320
	echo 11111111111111111111111111111111 >/etc/machine-id
	shard=ceph:p/t$BATS_TEST_NUMBER:id=guest
	export REVDEDUP_POOL=/tmp/rdt-pool/shard
	revdedupctl -q init --compression zstd --size 4G --data "$shard" "$REVDEDUP_POOL"
}

teardown() {
	[ ! -e /tmp/rdt-pool/shard ] || revdedupctl -q unmap rdt-x 2>/dev/null || :
	lvm_teardown
	tidy
}

# rbds: the devices of the kernel's rbd.
rbds() {
	local dir
	for dir in /sys/bus/rbd/devices/*; do
		[ ! -e "$dir" ] || echo "/dev/rbd${dir##*/}"
	done
}

tidy() {
	local dir
	for dir in /sys/bus/rbd/devices/*; do
		[ ! -e "$dir" ] || echo "${dir##*/}" >/sys/bus/rbd/remove_single_major
	done
}

# pool_of NAME: the number of the pool device in its table.
pool_of() { dmsetup table "$1" | awk '$3 == "revdedup" { print $6 }'; }

# has DEVICE FILE: the kernel reads it anew.
has() {
	blockdev --flushbufs "$1"
	cmp "$1" "$2"
}

# versions: vm1@1 and vm1@2 of a volume that compresses, which are /tmp/rdt-pool/1 and 2.
versions() {
	make_lv vm1 24
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	head -c 9000000 /dev/urandom | xxd -p | head -c 16M |
		dd of="$vol" bs=1M iflag=fullblock oflag=direct status=none
	cp "$vol" /tmp/rdt-pool/1
	revdedupctl -q snapshot $vg/vm1
	dd if=/dev/urandom of="$vol" bs=64k seek=33 count=70 oflag=direct conv=notrunc status=none
	cp "$vol" /tmp/rdt-pool/2
	revdedupctl -q snapshot $vg/vm1
}

@test "krbd: versions are devices that read the shard, all by one of the kernel" {
	versions
	[ -z "$(rbds)" ]
	revdedupctl map $vg/vm1@1 rdt-one
	revdedupctl map $vg/vm1@2 rdt-two
	revdedupctl map $vg/vm1@1 rdt-rw --writable
	[ "$(rbds | wc -l)" -eq 1 ]
	[ "$(cat /sys/bus/rbd/devices/*/name)" = revdedup ]
	[ "$(cat /sys/block/rbd*/ro)" = 1 ]
	# Nobody can read the key there.
	grep -q key=client.revdedup /sys/bus/rbd/devices/*/config_info
	[[ $(cat /sys/bus/rbd/devices/*/config_info) != *"$(sed -n 's/.*key = //p' /revdedup/ceph/keyring)"* ]]
	[ "$(pool_of rdt-one)" = "$(cat /sys/block/rbd*/dev)" ]
	has /dev/mapper/rdt-one /tmp/rdt-pool/1
	has /dev/mapper/rdt-two /tmp/rdt-pool/2
	dd if=/dev/urandom of=/dev/mapper/rdt-rw bs=1M count=2 oflag=direct status=none
	has /dev/mapper/rdt-one /tmp/rdt-pool/1
	revdedupctl status
	# What a device reads stays, wherever it goes.
	revdedupctl -q delete $vg/vm1@1
	revdedupctl -q recompress none
	dd if=/dev/urandom of="$vol" bs=1M seek=2 count=9 oflag=direct conv=notrunc status=none
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q prune $vg/vm1 --keep-last 1
	has /dev/mapper/rdt-one /tmp/rdt-pool/1
	has /dev/mapper/rdt-two /tmp/rdt-pool/2
	revdedupctl unmap rdt-one
	revdedupctl unmap rdt-rw
	has /dev/mapper/rdt-two /tmp/rdt-pool/2
	[ "$(rbds | wc -l)" -eq 1 ]
	revdedupctl unmap rdt-two
	[ -z "$(rbds)" ]
	nothing_held
	revdedupctl -q check
}

@test "krbd: clone and roll back" {
	versions
	revdedupctl clone $vg/vm1@1 $vg/new
	new=$(device_of new)
	has "$new" /tmp/rdt-pool/1
	retry 100 0.3 is_home new
	has "$new" /tmp/rdt-pool/1
	revdedupctl rollback $vg/vm1@1 --yes
	has "$vol" /tmp/rdt-pool/1
	retry 100 0.3 is_home vm1
	has "$vol" /tmp/rdt-pool/1
	# The third one is what was there before.
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@4 /tmp/rdt-pool/1
	revdedupctl -q snapshot $vg/new
	is_version $vg/new@1 /tmp/rdt-pool/1
	# After a boot a clone that is not home needs the shard.
	revdedupctl clone $vg/vm1@2 $vg/far --no-hydrate
	far=$(device_of far)
	down "$far"
	tidy
	revdedupctl -q attach --all
	[ "$(rbds | wc -l)" -eq 1 ]
	has "$far" /tmp/rdt-pool/2
	revdedupctl -q snapshot $vg/far
	is_version $vg/far@1 /tmp/rdt-pool/2
	revdedupctl detach $vg/far --force --yes
	revdedupctl detach $vg/new
	revdedupctl detach $vg/vm1
	[ -z "$(rbds)" ]
	nothing_held
	revdedupctl -q check
}

@test "krbd: a volume reads its cold blocks from the shard" {
	lvcreate -qq --yes --type thin-pool --size 64M --chunksize 64k --name thin $vg
	thin_volume 32
	random 0 100
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q offload $vg/vm1 --cold 0 --force --yes
	mapped_is 0 1024
	[ "$(rbds | wc -l)" -eq 1 ]
	random 30 20
	note
	same
	# After a boot the shard is found anew.
	down "$vol"
	tidy
	[ -z "$(rbds)" ]
	revdedupctl -q attach --all
	same
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@2 /tmp/rdt-pool/is
	revdedupctl -q delete $vg/vm1@1
	same
	revdedupctl -q recall $vg/vm1
	same
	revdedupctl -q detach $vg/vm1
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	[ -z "$(rbds)" ]
	nothing_held
	revdedupctl -q check
}

@test "krbd: a command that is killed leaves a device that the next one uses, or removes" {
	versions
	local step
	for step in poolblocks-rbd map-leased; do
		killed $step map $vg/vm1@1 rdt-one
		revdedupctl -q map $vg/vm1@2 rdt-two
		[ "$(rbds | wc -l)" -eq 1 ]
		has /dev/mapper/rdt-two /tmp/rdt-pool/2
		revdedupctl -q unmap rdt-two
		[ -z "$(rbds)" ]
		revdedupctl -q unmap rdt-one
	done
	killed poolblocks-rbd clone $vg/vm1@1 $vg/new
	revdedupctl -q clone $vg/vm1@1 $vg/new
	has "$(device_of new)" /tmp/rdt-pool/1
	retry 100 0.3 is_home new
	revdedupctl -q detach $vg/new
	[ -z "$(rbds)" ]
	revdedupctl -q check
	nothing_held
}

# user_maps: map the image as the tools of RBD do, whose options end with the namespace.
user_maps() {
	local space=t$BATS_TEST_NUMBER info key
	key=$(sed -n 's/.*key = //p' /revdedup/ceph/keyring)
	info=$(cat /sys/bus/rbd/devices/*/config_info)
	info=${info/key=client.revdedup/secret=$key}
	info=${info/,_pool_ns=$space,ro/,ro,_pool_ns=$space}
	[[ $info = *",ro,_pool_ns=$space p revdedup -" ]]
	echo "$info" >/sys/bus/rbd/add_single_major
}

@test "krbd: what a user has mapped is neither used nor removed" {
	versions
	revdedupctl -q map $vg/vm1@1 rdt-one
	user_maps
	[ "$(rbds | wc -l)" -eq 2 ]
	revdedupctl -q unmap rdt-one
	users=$(rbds)
	[ "$(wc -l <<<"$users")" -eq 1 ]
	revdedupctl -q map $vg/vm1@1 rdt-one
	[ "$(rbds | wc -l)" -eq 2 ]
	[ "$(pool_of rdt-one)" != "$(cat "/sys/block/${users#/dev/}/dev")" ]
	has /dev/mapper/rdt-one /tmp/rdt-pool/1
	revdedupctl -q unmap rdt-one
	[ "$(rbds)" = "$users" ]
	nothing_held
}

@test "krbd: the key is where a setting of Ceph says" {
	local key setting
	versions
	key=$(sed -n 's/.*key = //p' /revdedup/ceph/keyring)
	echo "$key" >/tmp/rdt-pool/key
	export CEPH_CONF=/tmp/rdt-pool/ceph.conf
	for setting in "keyfile = /tmp/rdt-pool/key" "key = $key"; do
		sed "s:^keyring.*:keyring = /none\n$setting:" /revdedup/ceph/ceph.conf >"$CEPH_CONF"
		revdedupctl -q map $vg/vm1@1 rdt-one
		has /dev/mapper/rdt-one /tmp/rdt-pool/1
		revdedupctl -q unmap rdt-one
	done
	nothing_held
}

# Two that have none would take the other's devices for their own.
@test "krbd: a host that others could not tell from themselves has no device" {
	rm /etc/machine-id
	REVDEDUP_POOL=/tmp/rdt-pool/nameless
	revdedupctl -q init --size 1G --data ceph:p/tnameless:id=guest "$REVDEDUP_POOL"
	head -c 5M /dev/urandom >/tmp/rdt-pool/1
	revdedupctl -q snapshot x --from /tmp/rdt-pool/1
	run revdedupctl map x@1 rdt-one
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no /etc/machine-id"*"nothing was changed"* ]]
	[ -z "$(rbds)" ]
	nothing_held
}

# other COMMAND...: revdedupctl on another host, which has no device of this one.
other() {
	REVDEDUP_POOL=/tmp/rdt-pool/other REVDEDUP_RUN=/tmp/rdt-pool/run unshare -u -m bash -c '
		echo other >/proc/sys/kernel/hostname
		echo 99999999999999999999999999999999 >/tmp/rdt-pool/id
		mount --bind /tmp/rdt-pool/id /etc/machine-id
		mount -t tmpfs -o ro none /dev/mapper
		exec revdedupctl "$@"' bash "$@"
}

@test "krbd: another host frees nothing that a device here reads" {
	versions
	revdedupctl -q map $vg/vm1@1 rdt-one
	mkdir -m 700 /tmp/rdt-pool/other
	ln -s "$shard" /tmp/rdt-pool/other/data
	# It owns the shard from now on.
	other -q snapshot x --from /tmp/rdt-pool/2
	other -q delete $vg/vm1@1
	other -q prune $vg/vm1 --keep-last 1
	head -c 16M /dev/urandom >/tmp/rdt-pool/y
	other -q snapshot x --from /tmp/rdt-pool/y
	has /dev/mapper/rdt-one /tmp/rdt-pool/1
	# Who only maps does not take it over: the kernel's nbd reads it.
	revdedupctl -q map x@2 rdt-x
	[ "$(blockdev --getsize64 /dev/nbd0)" -eq $((16 << 20)) ]
	has /dev/nbd0 /tmp/rdt-pool/y
	revdedupctl status | grep "owner:.*other"
	revdedupctl -q unmap rdt-x
	revdedupctl -q unmap rdt-one
	[ -z "$(rbds)" ]
	revdedupctl -q check
	nothing_held
}
