#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: mapped-guest.sh ROUNDS [WORKLOAD]
#
# The guest's part of run.sh --table mapped: measure in ROUNDS rounds the cost of a
# dm-revdedup device whose blocks lie in a pool, beside its peers. With WORKLOAD only that
# one of the reads. Prints a line for each measurement, for mapped.awk:
#
#   time ENGINE WORKLOAD DEVICE ROUND SECONDS
#   reads ENGINE WORKLOAD DEVICE ROUND I/Os PAGES
#   waiting ENGINE WORKLOAD DEVICE ROUND SEGMENTS
#
# SECONDS are for a GiB. PAGES of the table were read from the metadata device during so
# many I/Os. SEGMENTS is the greatest number of segments whose changes waited for a commit.
# lib.bash says what makes the numbers comparable; and here
#
# - each I/O is as large for all devices, but they need not do as many of them
# - a device that is read from has a dm-linear of its own, over the pool; one that is
#   written to has one over the base
# - entries may name the same pool block, so that a table can be larger than the memory
#   of the guest
# - first writes to mapped blocks change the table, so it is made anew before each of
#   them, and so are a snapshot and a thin volume
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/bench/target/lib.bash
. "$here/lib.bash"

rounds=$1 only=${2:-}
bin=/revdedup/bin
mib=2048		# sectors
block_mib=256		# blocks

pool_mib=128
large_mib=2048		# its table has four times as many pages as the cache
home_mib=1024		# so much is written home
peer_mib=256		# of a snapshot-origin, and of a thin volume
fsync_mib=64		# so much is written with fsyncs

f_waiting=13 f_page_reads=14	# words of the status line

base=/dev/ram0
pool=/dev/ram1

# --- devices

# revdedup NAME META MIB KIND [OPTION...]: has the table that pattern.c calls so.
# That is not measured, and in a guest that counts instructions a process on a
# CPU of its own does not help, so it is read from a file.
revdedup() {
	local name=$1 meta=$2 size=$3 kind=$4
	shift 4
	dm_create "rdt-$name" \
		"0 $((size * mib)) revdedup $base $meta $pool${1:+ $# $*}"
	"$bin/pattern" print "$kind" $((size * block_mib)) $((pool_mib * block_mib)) \
		>"$tmp/$name.ranges"
	set_table "$name"
}

set_table() { "$bin/settable" "rdt-$1" <"$tmp/$1.ranges"; }

make_devices() {
	# base and pool; metadata of whole, random, large and home; data and
	# metadata of a thin pool; the origin of a snapshot, and its store.
	ramdisk $((home_mib + 64)) 10
	modprobe -a dm-thin-pool dm-snapshot dm-zero crc32c-intel
	# shellcheck disable=SC2119 # no parameters
	load_module

	dd if=/dev/zero of=$base bs=1M count=$home_mib oflag=direct status=none
	dm_create rdt-pool-a "0 $((pool_mib * mib)) linear $pool 0"
	dm_create rdt-pool-b "0 $((pool_mib * mib)) linear $pool 0"
	"$bin/pattern" fill /dev/mapper/rdt-pool-a
	dm_create rdt-base-a "0 $((home_mib * mib)) linear $base 0"
	dm_create rdt-base-b "0 $((home_mib * mib)) linear $base 0"

	revdedup whole /dev/ram2 $pool_mib whole
	revdedup random /dev/ram3 $pool_mib random
	# Nothing of it lies on the base, and reads are all that it gets.
	base=/dev/mapper/rdt-nothing
	dm_create rdt-nothing "0 $((large_mib * mib)) zero"
	revdedup large /dev/ram4 $large_mib random cache_mib 1
	base=/dev/ram0
	revdedup home /dev/ram5 $home_mib random

	dm_create rdt-thin-pool \
		"0 $((2 * peer_mib * mib)) thin-pool /dev/ram7 /dev/ram6 128 0 1 skip_block_zeroing"
	new_thin 0 thin $pool_mib
	fill $pool_mib thin
	dd if=/dev/zero of=/dev/ram8 bs=1M count=$peer_mib oflag=direct status=none
	dd if=/dev/zero of=/dev/ram9 bs=1M count=$((peer_mib + 16)) oflag=direct status=none
}

# new_thin ID NAME MIB
new_thin() {
	dmsetup message rdt-thin-pool 0 "create_thin $1"
	dm_create "rdt-$2" "0 $(($3 * mib)) thin /dev/mapper/rdt-thin-pool $1"
}

# Thin volume "thin-new" has no block yet.
renew_thin() {
	if [ -b /dev/mapper/rdt-thin-new ]; then
		dm_remove rdt-thin-new
		dmsetup message rdt-thin-pool 0 "delete 1"
	fi
	new_thin 1 thin-new $peer_mib
}

# A snapshot of all that "origin" is. The store is larger than the origin.
renew_snapshot() {
	local table="0 $((peer_mib * mib)) snapshot-origin /dev/ram8"
	if [ -b /dev/mapper/rdt-origin ]; then
		dm_remove rdt-origin
		dm_remove rdt-snapshot
	fi
	dmsetup create rdt-origin --notable
	dm_create rdt-snapshot "0 $((peer_mib * mib)) snapshot /dev/ram8 /dev/ram9 N 8"
	dmsetup load rdt-origin --table "$table"
	dmsetup resume rdt-origin
	mknodes rdt-origin
}

# status_word NAME N
status_word() { dmsetup status "rdt-$1" | awk -v n=$((3 + $2)) '{ print $n }'; }

# --- reads

reads() {
	local engine=$1 round=$2 random before after
	at=([linear-a]=pool-a [linear-b]=pool-b)
	run "$engine" read-1m "$round" linear-a linear-b whole <<-END
	rw=read
	bs=1m
	iodepth=4
	size=${pool_mib}m
	io_size=${ios_1m}m
	END
	random="rw=randread
		bs=4k
		norandommap
		io_size=$((ios_4k * 4))k"
	extra=([large]="size=${large_mib}m")
	run "$engine" randread-4k "$round" linear-a linear-b random thin <<-END
	$random
	size=${pool_mib}m
	END
	# One CPU is not shared.
	[ "$(nproc)" -eq 1 ] ||
		run "$engine" randread-x2 "$round" linear-a linear-b random thin <<-END
		$random
		size=${pool_mib}m
		numjobs=2
		END
	[[ $only =~ ^(|randread-large)$ ]] || return 0
	before=$(status_word large $f_page_reads)
	run "$engine" randread-large "$round" linear-a linear-b large <<-END
	$random
	size=${pool_mib}m
	END
	after=$(status_word large $f_page_reads)
	echo "reads $engine randread-large large $round $ios_4k $((after - before))"
	extra=()
}

# --- writes

# watched ENGINE WORKLOAD ROUND DEVICE...: run, and look at how much waits.
watched() {
	local peak
	"$bin/peak" rdt-home $f_waiting >"$tmp/peak" &
	peak=$!
	run "$@"
	kill -TERM $peak
	wait $peak
	echo "waiting $1 $2 home $3 $(<"$tmp/peak")"
}

writes() {
	local engine=$1 round=$2
	at=([linear-a]=base-a [linear-b]=base-b)
	extra=([origin]="size=${peer_mib}m")
	set_table home
	renew_snapshot
	watched "$engine" overwrite-4k "$round" linear-a linear-b home origin <<-END
	rw=randwrite
	bs=4k
	size=${home_mib}m
	end_fsync=1
	END
	extra=()
	# That was all of it, or these were not later ones.
	[ "$(status_word home 8)" -eq 0 ]
	watched "$engine" later-4k "$round" linear-a linear-b home <<-END
	rw=randwrite
	bs=4k
	norandommap
	size=${home_mib}m
	io_size=$((ios_4k * 4))k
	END
	set_table home
	renew_thin
	watched "$engine" fsync-16 "$round" linear-a linear-b home thin-new <<-END
	rw=randwrite
	bs=4k
	size=${peer_mib}m
	io_size=${fsync_mib}m
	fsync=16
	END
}

# --- main

huge_pages 2
make_devices
for ((round = 0; round < rounds; round++)); do
	for engine in "${engines[@]}"; do
		reads "$engine" "$round"
		[ -n "$only" ] || writes "$engine" "$round"
	done
done
