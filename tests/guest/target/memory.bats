#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A guest of 256 MiB that lacks memory, and can get some only by writing to volumes: its
# swap space is on one, a file system with dirty pages on another. If a first write needed
# memory that only another write can free, this would hang.
#
# Needs five disks: base and metadata of the two, and a pool.

# shellcheck disable=SC2030,SC2031,SC2154 # by guest.bash
load ../lib/guest

rounds=3
hog_mib=320
volume_mib=512
mnt=/tmp/mnt

setup() {
	dmr_setup
	[ -b /dev/disk/disk4 ] || skip "no disks to swap to"
	load_module
	make_volume rdt-swap /dev/disk/disk0 /dev/disk/disk1
	make_volume rdt-fs /dev/disk/disk2 /dev/disk/disk3
}

teardown() {
	swapoff -a
	dmr_teardown
}

# make_volume NAME BASE META [POOL]
make_volume() {
	local sectors
	sectors=$(sectors "$2")
	[ "$sectors" -eq $((volume_mib * 2048)) ]
	dm_create "$1" "0 $sectors revdedup $2 $3 ${4:--}"
}

# status_word NAME N: the Nth of its status line, from 1 on.
status_word() {
	local words
	read -ra words < <(dmsetup status "$1")
	echo "${words[$2 + 2]}"
}

# snapshot NAME EPOCH: after it every write is a first one.
snapshot() {
	dmsetup suspend "$1"
	dmsetup message "$1" 0 "checkpoint $2"
	dmsetup resume "$1"
	dmsetup message "$1" 0 "commit $2 $2"
}

@test "memory that is short comes back by writing to volumes" {
	local round fio before after
	[ "$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)" -lt 300 ]
	mkswap -q /dev/mapper/rdt-swap
	mkfs.ext4 -q /dev/mapper/rdt-fs
	mkdir -p $mnt
	mount /dev/mapper/rdt-fs $mnt
	for ((round = 1; round <= rounds; round++)); do
		snapshot rdt-swap $round
		swapon /dev/mapper/rdt-swap
		fio --name=dirty --directory=$mnt --size=48m --rw=randwrite --bs=4k \
			--ioengine=psync --verify=crc32c --do_verify=1 \
			--output="$BATS_TEST_TMPDIR/fio" 3>&- &
		fio=$!
		snapshot rdt-fs $round
		before=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
		timeout 1500 /revdedup/bin/hog $hog_mib 2
		after=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
		wait $fio || {
			cat "$BATS_TEST_TMPDIR/fio"
			return 1
		}
		echo "# $(((after - before) / 256)) MiB swapped out, dirty: swap" \
			"$(status_word rdt-swap 5), file system $(status_word rdt-fs 5)" >&3
		# More than a quarter of all that the hog has, or it was no test.
		[ $((after - before)) -gt $((hog_mib * 256 / 4)) ]
		swapoff /dev/mapper/rdt-swap
	done
	[ "$(status_word rdt-swap 10)" = ok ]
	[ "$(status_word rdt-fs 10)" = ok ]
}

# put_in_packs NAME FIRST MIB POOL: the blocks from FIRST MiB on.
put_in_packs() {
	local i ranges=''
	for ((i = 0; i < $3 / 2; i++)); do
		/revdedup/bin/mkpack "$4" $((16 * i)) >/dev/null
		ranges+=$(printf ';%x,200,k%x.0' $(($2 * 256 + 512 * i)) $((16 * i)))
	done
	dmsetup suspend "$1"
	dmsetup message "$1" 0 begin
	dmsetup message "$1" 0 "set ${ranges#;}"
	dmsetup message "$1" 0 end
	dmsetup resume "$1"
}

# The last eighth of a volume is in packs. It is read, and parts of its blocks are written, which
# has them copied home, while the rest is swapped to. A device for each part, as the kernel lets
# nobody else write to one that is swapped to. In a soak this goes on for an hour, with new packs
# whenever the memory has been let go.
@test "memory that is short, and blocks in packs on the volume that is swapped to" {
	local packed_mib=$((volume_mib / 8)) pool=/dev/disk/disk4 before after reader writer
	local first=$((volume_mib - volume_mib / 8)) end=$((SECONDS + ${SOAK:+3600+}0)) times=0
	dm_remove rdt-swap
	make_volume rdt-packed /dev/disk/disk0 /dev/disk/disk1 $pool
	put_in_packs rdt-packed $first $packed_mib $pool
	dm_create rdt-swap "0 $((first * 2048)) linear /dev/mapper/rdt-packed 0"
	dm_create rdt-tail "0 $((packed_mib * 2048)) linear /dev/mapper/rdt-packed $((first * 2048))"
	mkswap -q /dev/mapper/rdt-swap
	swapon /dev/mapper/rdt-swap
	fio --name=read --filename=/dev/mapper/rdt-tail --size=${packed_mib}m \
		--rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=32 --time_based \
		--runtime=7200 --output=/dev/null 3>&- &
	reader=$!
	fio --name=part --filename=/dev/mapper/rdt-tail --size=${packed_mib}m \
		--rw=randwrite --bs=1k --direct=1 --ioengine=libaio --iodepth=8 --time_based \
		--runtime=7200 --rate_iops=50 --output=/dev/null 3>&- &
	writer=$!
	before=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
	timeout 1500 /revdedup/bin/hog $hog_mib 2
	while [ $SECONDS -lt $end ]; do
		# While it is suspended nothing could be swapped in, not even this script.
		swapoff /dev/mapper/rdt-swap
		put_in_packs rdt-packed $first $packed_mib $pool
		swapon /dev/mapper/rdt-swap
		timeout 1500 /revdedup/bin/hog $hog_mib 2
		times=$((times + 1))
	done
	after=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
	kill $reader $writer
	wait $reader $writer || :
	echo "# $(((after - before) / 256)) MiB swapped out, $(status_word rdt-packed 16) groups read," \
		"$(status_word rdt-packed 8) blocks still in packs, which were made again $times times" >&3
	[ $((after - before)) -gt $((hog_mib * 256 / 4)) ]
	[ "$(status_word rdt-packed 16)" -gt 200 ]
	[ "$(status_word rdt-packed 8)" -lt $((packed_mib * 256)) ]
	swapoff /dev/mapper/rdt-swap
	[ "$(status_word rdt-packed 10)" = ok ]
}
