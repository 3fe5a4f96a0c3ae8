#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: seek-guest.sh SLOW MIB NIGHTS ROUNDS
#
# The guest's part of seek.bash: restore the newest version from a disk that takes 4 ms for each
# request. Prints
#
#   chosen P                    by init, on that disk
#   measured TEXT               what init said
#   disk MB/S                   of the raw copy, if nothing were slow
#   restore P WRITTEN READS KIB RATIO LEAST GREATEST
#                               written / changed; requests and their size; restore / raw copy
#
# The disk is dm-delay below a loop device with a queue of one request, so each request, however
# large or near to the last one, waits 4 ms, and they do so one after the other: at most 250 reads
# of a block a second, and some 250 MB/s in large ones, which is like a rotating disk. The limits
# of this model:
#
# - a request in sequence waits as well, so large reads are slower than they would be, by the same
#   for the raw copy: up to 1280 KiB, what the loop device takes, are one request
# - near is as far as anywhere: to skip some blocks costs as much as to cross the disk, where a
#   disk with heads would just wait for them to pass
# - requests are not sorted, as a disk with NCQ sorts them
#
# The guest counts instructions, so its time does not depend on what else the machine does. Its
# processor hashes some 40 MB/s; so that it is not the bottleneck, all of the disk takes SLOW times
# as long: a disk SLOW times as slow beside this processor is one of 4 ms beside a processor that
# is SLOW times as fast. Disks are memory, because the clock of such a guest does not wait for
# others.
#
# Only the data area and the raw copy's source are on that disk, and only reads are delayed, and
# only while they are measured. The rest, also what they are restored to, is on another disk.
# Both are read past the page cache.
set -euo pipefail
here=${BASH_SOURCE[0]%/*}
PATH=$(realpath "$here"):$PATH
# shellcheck source=tests/bench/pool/measure.bash
. "$here/measure.bash"
slow=$1 mib_image=$2 nights=$3 rounds=$4
blocks=$((mib_image * 256))
out=/tmp/quick/out image=/tmp/quick/image
disk=/dev/ram0

# delay MS: of each read, from now on.
delay() {
	local table
	table="0 $(blockdev --getsz $disk) delay $disk 0 $1 $disk 0 0"
	if [ -e /dev/mapper/seek ]; then
		dmsetup suspend seek
		dmsetup load seek --table "$table"
		dmsetup resume seek
	else
		dmsetup create seek --table "$table"
		dmsetup mknodes seek
	fi
}

# part NAME FIRST-MIB MIB: of the slow disk.
part() {
	dmsetup create "$1" --table "0 $(($3 * 2048)) linear $slow_disk $(($2 * 2048))"
	dmsetup mknodes "$1"
}

set_up() {
	mkdir -p /run
	modprobe dm-delay
	modprobe brd rd_size=$((4 << 20)) rd_nr=2 max_part=0
	modprobe loop hw_queue_depth=1
	delay 0
	slow_disk=$(losetup --show --find --direct-io=on /dev/mapper/seek)
	[ "$(cat "/sys/block/${slow_disk#/dev/}/loop/dio")" = 1 ]
	part raw 0 "$mib_image"
	mkfs.ext4 -q /dev/ram1
	mkdir /tmp/quick
	mount /dev/ram1 /tmp/quick
}

# pool PIECES|default NR: a pool of that name on part NR of the slow disk; sets said.
pool() {
	local mib_pool=$((mib_image * 4 + 256)) rule=()
	[ "$1" = default ] || rule=(--pieces "$1" --dedup reverse)
	part "data-$1" $((mib_image + $2 * mib_pool)) $mib_pool
	written[$1]=0 changed[$1]=0
	said=$(revdedupctl init --compression none --data "/dev/mapper/data-$1" "${rule[@]}" \
		"/tmp/quick/pool-$1")
}

save() {
	local pool
	for pool in $pools; do
		revdedupctl -p "/tmp/quick/pool-$pool" snapshot v --from "$image" --json >/tmp/said
		[ "$1" -eq 0 ] || {
			: $((written[$pool] += $(field bytes_stored </tmp/said)))
			: $((changed[$pool] += $(field blocks_changed </tmp/said)))
		}
	done
}

# reads: requests and sectors that the slow disk has read.
reads() { awk '{ print $1, $3 }' "/sys/block/${slow_disk#/dev/}/stat"; }

restore_pool() { revdedupctl -q -p "/tmp/quick/pool-$1" restore v@latest --to $out; }
copy_raw() { rawcopy /dev/mapper/raw $out; }

# once COMMAND...: sets usec, requests and sectors.
once() {
	local before after
	rm -f $out
	before=$(reads)
	timed "$@"
	after=$(reads)
	requests=$((${after% *} - ${before% *}))
	sectors=$((${after#* } - ${before#* }))
}

declare -A written changed ratios_of reads_of
set_up
delay $((4 * slow))
pool default 0
delay 0
chosen=$(revdedupctl -p /tmp/quick/pool-default tune --json | field pieces)
echo "chosen $chosen"
echo "measured $(tail -n 2 <<<"$said" | tr '\n' ' ')"
pools=default
[ "$chosen" = 1 ] || pools="1 $pools"
[ "$chosen" = 8 ] || pools="$pools 8"
[ "$chosen" = 512 ] || pools="$pools 512"
nr=1
for name in $pools; do
	[ "$name" = default ] || {
		pool "$name" $nr
		nr=$((nr + 1))
	}
done

image random $image $((blocks * 4096)) 1
save 0
for ((night = 1; night <= nights; night++)); do
	image some $image $((blocks / 100)) $((night + 1)) >/dev/null
	save $night
done
dd if=$image of=/dev/mapper/raw bs=1M oflag=direct status=none
delay $((4 * slow))
for ((i = 0; i < rounds; i++)); do
	once copy_raw
	raw=$usec
	cmp $out $image
	for name in $pools; do
		once restore_pool "$name"
		ratios_of[$name]+=" $(calc "$raw / $usec")"
		reads_of[$name]="$requests $((sectors / 2 / requests))"
		cmp $out $image
	done
done
echo "disk $(calc "$mib_image * 1.048576 * $slow / ($raw / 1e6)" %.0f)"
for name in $pools; do
	# shellcheck disable=SC2086 # words
	mapfile -t ratios < <(printf '%s\n' ${ratios_of[$name]} | sort -n)
	echo "restore ${name/default/$chosen}" \
		"$(calc "${written[$name]} / 4096 / ${changed[$name]}" %.1f) ${reads_of[$name]}" \
		"$(median "${ratios[@]}") ${ratios[0]} ${ratios[-1]}"
done
