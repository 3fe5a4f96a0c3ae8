#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs-before-guest.sh ROUNDS
#
# The guest's part of packs.sh --part before: devices that name no pack, with the module as it is
# and with one that is built without packs, in turns. Prints a line for each measurement:
#
#   time BUILD WORKLOAD DEVICE ROUND SECONDS
#
# BUILD is with, without or again; the last is "with" once more, which says how much the same one
# differs. SECONDS are for a GiB. The devices: tracked has no table; home has one in which all is
# at home; all of whole lies in the pool, in segments, and all of random in single blocks.
#
# fio counts ms, so it does enough for these to be a thousandth.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/bench/target/lib.bash
. "$here/lib.bash"

rounds=$1
bin=/revdedup/bin
mib=128
ram_mib=$((mib + 64))
blocks=$((mib * 256))
engine=libaio

# revdedup NAME META POOL: with the table that pattern.c calls so, if there is one. Both copies of
# the superblock go, so that the metadata are new.
revdedup() {
	dd if=/dev/zero of="$2" bs=1M count=8 oflag=direct status=none
	dd if=/dev/zero of="$2" bs=1M seek=$((ram_mib - 1)) count=1 oflag=direct status=none
	dm_create "rdt-$1" "0 $((mib * 2048)) revdedup /dev/ram0 $2 $3"
	[ ! -e "$tmp/$1.ranges" ] || "$bin/settable" "rdt-$1" <"$tmp/$1.ranges"
}

# measured BUILD ROUND WORKLOAD DEVICE...: its lines name the build instead of the engine.
measured() {
	run "$engine" "$3" "$2" "${@:4}" | sed "s/^time $engine /time $1 /"
}

# workloads BUILD ROUND
workloads() {
	local rw
	for rw in read write; do
		# A device that is written to has nothing left in the pool, so that comes last.
		measured "$1" "$2" "rand$rw-4k" "${names[@]}" <<-END
		rw=rand$rw
		bs=4k
		norandommap
		size=${mib}m
		io_size=$((ios_4k * 16))k
		END
		measured "$1" "$2" "$rw-1m" "${names[@]}" <<-END
		rw=$rw
		bs=1m
		iodepth=4
		size=${mib}m
		io_size=$((ios_1m * 4))m
		END
	done
}

# build NAME ROUND
build() {
	local module=/revdedup/modules/dm-revdedup.ko
	[ "$1" != without ] || module=/revdedup/without/dm-revdedup.ko
	insmod "$module"
	revdedup tracked /dev/ram1 -
	revdedup home /dev/ram2 /dev/ram5
	revdedup whole /dev/ram3 /dev/ram5
	revdedup random /dev/ram4 /dev/ram5
	workloads "$1" "$2"
	for name in "${names[@]}"; do
		dm_remove "rdt-$name"
	done
	rmmod dm-revdedup
}

names=(tracked home whole random)
huge_pages 1
ramdisk $ram_mib 6
modprobe -a crc32c-intel dm-bufio
# shellcheck disable=SC2046 # a word a module
modprobe -a $(modinfo -F depends "$module_file" | tr , ' ')
for name in whole random; do
	"$bin/pattern" print $name $blocks $blocks >"$tmp/$name.ranges"
done
dd if=/dev/zero of=/dev/ram0 bs=1M count=$mib oflag=direct status=none
dd if=/dev/zero of=/dev/ram5 bs=1M count=$mib oflag=direct status=none
for ((round = 0; round < rounds; round++)); do
	for name in with without again; do
		build $name "$round"
	done
done
