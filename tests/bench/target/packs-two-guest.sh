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
#   waits FUNCTION TIMES
#   works FUNCTION TIMES
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

# two NR WORKLOAD ROUND NAME: two readers, of a half each.
two() {
	read_some "$@" --rw=read --bs=1m --size="${half}m" --numjobs=2 \
		--offset_increment="${half}m"
}

# all NR ROUND: each workload, with that many processors.
all() {
	local nr=$1 round=$2 name
	echo $((nr - 1)) >$cpu
	[ "$(nproc)" -eq "$nr" ]
	for name in none zstd squash; do
		read_some "$nr" one "$round" "$name" --rw=read --bs=1m --size="${mib}m"
		two "$nr" two "$round" "$name"
		# squashfs has no other way than one after the other.
		[ "$name" = squash ] ||
			read_some "$nr" ahead "$round" "$name" --rw=read --bs=1m \
				--size="${mib}m" --ioengine=libaio --iodepth=4
	done
	sum "$nr" control "$round"
}

# traced: read once more, by two, and print how often a function of the module waited for a lock
# that was taken, and how often each of its works ran.
traced() {
	local trace=/sys/kernel/tracing
	local events=$trace/events
	echo 1 >$cpu
	mount -t tracefs tracefs $trace
	echo hist:keys=stacktrace:size=2048 >$events/lock/contention_begin/trigger
	echo hist:keys=function.sym >$events/workqueue/workqueue_execute_start/trigger
	two 2 traced 0 zstd >/dev/null
	# The first of its functions in a stack is the one that waits.
	awk '/^{/ { name = "" }
		/\[dm_revdedup\]/ && name == "" { name = $1; sub(/\+.*/, "", name) }
		/hitcount:/ && name != "" { times[name] += $NF }
		END { for (name in times) print "waits", name, times[name] }' \
		$events/lock/contention_begin/hist
	awk '/\[dm_revdedup\]/ { print "works", $4, $NF }' \
		$events/workqueue/workqueue_execute_start/hist
}

for ((round = 0; round < rounds; round++)); do
	all $((1 + round % 2)) "$round"
	all $((2 - round % 2)) "$round"
done
traced
