#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The costs of the target that are counts: I/Os that io_uring hands to a thread, metadata
# writes and flushes, bytes of memory. tests/bench/target measures times.
#
# Needs a kernel with trace events.

load ../lib/guest

tracing=/sys/kernel/tracing

setup() {
	dmr_setup
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing
	# Names of tasks come from a probe in the scheduler, and to patch that in
	# while it runs is more than an emulated CPU can always take.
	echo 0 >$tracing/options/record-cmd
	load_module
}

teardown() {
	echo 0 >$tracing/events/enable
	dmr_teardown
}

# table COLUMN...: a row for whoever reads the output.
row() { printf '# %-34s %14s %14s %14s\n' "$@" >&3; }

# --- trace events

# traced EVENT FILTER COMMAND...: run it, and leave what the kernel did meanwhile
# in $trace, a line an event.
traced() {
	local event=$tracing/events/$1
	trace=$BATS_TEST_TMPDIR/trace
	echo "$2" >"$event/filter"
	echo >$tracing/trace
	echo 1 >"$event/enable"
	"${@:3}"
	echo 0 >"$event/enable"
	grep -v '^#' $tracing/trace >"$trace" || :
	# A buffer that overflowed has forgotten some.
	! grep -hv ': 0$' <(grep -h '^overrun' $tracing/per_cpu/cpu*/stats)
}

# io DEVICE RW ENGINE [OPTION...]
io() {
	fio --name=io --filename="$1" --rw="$2" --ioengine="$3" --direct=1 \
		--bs=4k --iodepth=16 "${@:4}" >"$BATS_TEST_TMPDIR/fio"
}

# begin_epoch NAME: all its segments are clean then.
begin_epoch() {
	local epoch
	epoch=$(dmsetup status "$1" | awk '{ print $5 + 1 }')
	dmsetup suspend --nolockfs "$1"
	dmsetup message "$1" 0 "checkpoint $epoch"
	dmsetup resume "$1"
	dmsetup message "$1" 0 "commit $epoch 1"
}

# --- io_uring's threads

# punts DEVICE RW: how many of 2000 I/Os were handed to a thread.
punts() {
	traced io_uring/io_uring_queue_async_work 0 \
		io "/dev/mapper/$1" "$2" io_uring --number_ios=2000 --size=32M
	punts=$(wc -l <"$trace")
	row "$1" "$2" "" "$punts"
}

@test "io_uring hands no I/O to a thread" {
	local punts
	modprobe dm-era
	ramdisk 32 3
	dm_create rdt-linear "0 65536 linear /dev/ram0 0"
	dm_create rdt-era "0 65536 era /dev/ram1 /dev/ram0 4096"
	dm_create rdt-v "0 65536 revdedup /dev/ram0 /dev/ram2 -"
	row device "2000 I/Os" "" "to a thread"
	# These two show that the count counts.
	punts rdt-linear randread
	[ "$punts" -eq 0 ]
	punts rdt-era randread
	[ "$punts" -eq 2000 ]
	punts rdt-v randread
	[ "$punts" -eq 0 ]
	punts rdt-v randwrite
	[ "$punts" -eq 0 ]
	# Not even first writes: they wait, but nobody with them.
	begin_epoch rdt-v
	punts rdt-v randwrite
	[ "$punts" -eq 0 ]
	dmsetup status rdt-v | grep ' 16/16 '
}

# --- metadata writes

# On the judge, as it has a cache: else flushes would not get that far.
counters() { dmsetup status rdt-meta | awk '{ print $5, $7 }'; }

# first_writes ENGINE DELAY: to 512 segments, counted by the judge and by the
# block layer: in $writes and $flushes.
first_writes() {
	local before=() after=() dev
	begin_epoch rdt-v
	dmsetup message rdt-meta 0 flush-delay "$2"
	read -ra before < <(counters)
	# The kernel's own form of a device number.
	dev=$((($(stat -L -c '0x%t' /dev/mapper/rdt-meta) << 20) |
		$(stat -L -c '0x%T' /dev/mapper/rdt-meta)))
	traced block/block_bio_queue "dev == $dev" \
		io /dev/mapper/rdt-v write:2044k "$1" --size=1G --io_size=2M
	read -ra after < <(counters)
	writes=$((after[0] - before[0]))
	flushes=$((after[1] - before[1]))
	row "$1, flush $2 us" 512 "$writes" "$flushes"
	grep -q 'total=0,512,' "$BATS_TEST_TMPDIR/fio"
	dmsetup status rdt-v | grep ' 512/512 '
	[ "$writes" -ge $((512 / 16)) ]
	[ "$writes" -eq "$(grep -c ' W[A-Z]* [0-9]* + 8 ' "$trace")" ]
	[ "$flushes" -eq "$(grep -c ' F[A-Z]* ' "$trace")" ]
}

@test "8 first writes share a metadata write and a flush" {
	local engine delay writes flushes
	ramdisk 1024 2
	need_judge
	dm_create rdt-meta "0 131072 judge /dev/ram1 meta"
	dm_create rdt-v "0 2097152 revdedup /dev/ram0 /dev/mapper/rdt-meta -"
	row "first writes, 16 deep" number "metadata writes" flushes
	for engine in libaio io_uring; do
		for delay in 0 1000; do
			# How many meet depends on when the host lets each CPU run.
			for _ in {1..20}; do
				first_writes $engine $delay
				[ $((writes > flushes ? writes : flushes)) -gt $((512 / 8)) ] || break
			done
			[ "$writes" -le $((512 / 8)) ]
			[ "$flushes" -le $((512 / 8)) ]
		done
	done
	clean_up_devices
	rmmod dm-judge
}

# --- memory

bufio=/sys/module/dm_bufio/parameters

# bitmap_bytes: what our module has in whole pages, which are its bitmaps.
bitmap_bytes() {
	awk '/\[dm_revdedup\]/ { for (i = 1; i <= NF; i++)
			if (sub(/^pages=/, "", $i)) pages += $i }
		END { print pages * 4096 }' /proc/vmallocinfo
}

# A bit a segment in each of three bitmaps: dirty, dirty and stable, frozen.
# They are allocated in groups of 32256 segments, and in whole pages. Beside that
# there is only what dm-bufio caches, which it limits for the whole machine.
@test "a segment costs three bits of memory" {
	local tib segs groups bytes formula code
	modprobe dm-zero
	row "sparse volume" segments "bits, in bytes" "cache, in bytes"
	code=$(bitmap_bytes)
	for tib in 1 16 256; do
		segs=$((tib << 19))
		ramdisk 48
		dm_create rdt-zero "0 $((tib << 31)) zero"
		dm_create rdt-v "0 $((tib << 31)) revdedup /dev/mapper/rdt-zero /dev/ram0 -"
		bytes=$(($(bitmap_bytes) - code))
		row "$tib TiB" $segs $bytes "$(<$bufio/current_allocated_bytes)"
		groups=$(((segs + 32255) / 32256))
		formula=$((groups * 4032 * 3))
		[ $bytes -ge $formula ]
		# The last page of each, and the kernel's list of them.
		[ $bytes -le $((formula + formula / 256 + 4 * 4096)) ]
		[ "$(<$bufio/current_allocated_bytes)" -le "$(<$bufio/max_cache_size_bytes)" ]
		dm_remove rdt-v
		dm_remove rdt-zero
	done
}
