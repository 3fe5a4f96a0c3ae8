#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs-two-guest.sh ROUNDS MIB
#
# The guest's part of packs.sh --part two: what a second processor adds. The guest has two, of
# which one is taken away and given back, so that both numbers are of one boot and in turns.
# Prints a line for each measurement:
#
#   time NR WORKLOAD WHAT ROUND SECONDS
#
# NR is of processors, SECONDS are for a GiB. WHAT "sum" is the control: two processes that only
# compute, each from memory of its own. What they gain is what the machine has to give.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/bench/target/packs.bash
. "$here/packs.bash"

rounds=$1 mib=$2
half=$((mib / 2))
cpu=/sys/devices/system/cpu/cpu1/online

[ "$(nproc)" -eq 2 ] || { echo "one processor only" >&2; exit 1; }
mount_files 0
map_forms
for nr in 1 2; do
	dd if=/dev/mapper/rdt-none of=/tmp/half$nr bs=1M count=$half status=none
done

sum() {
	local from pids=() nr
	from=$(now_us)
	for nr in 1 2; do
		sha256sum /tmp/half$nr >/tmp/sum$nr &
		pids+=($!)
	done
	wait "${pids[@]}"
	echo "time $1 $2 sum $3 $((($(now_us) - from) * 1024 / mib))e-6"
}

# all NR ROUND: each workload, with that many processors.
all() {
	local nr=$1 round=$2 name
	echo $((nr - 1)) >$cpu
	[ "$(nproc)" -eq "$nr" ]
	for name in none zstd squash; do
		read_some "$nr" one "$round" "$name" --rw=read --bs=1m --size="${mib}m"
		read_some "$nr" two "$round" "$name" --rw=read --bs=1m --size="${half}m" \
			--numjobs=2 --offset_increment="${half}m"
		# squashfs has no other way than one after the other.
		[ "$name" = squash ] ||
			read_some "$nr" ahead "$round" "$name" --rw=read --bs=1m \
				--size="${mib}m" --ioengine=libaio --iodepth=4
	done
	sum "$nr" control "$round"
}

for ((round = 0; round < rounds; round++)); do
	all $((1 + round % 2)) "$round"
	all $((2 - round % 2)) "$round"
done
