# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# fio in the background, verifying what it wrote to rdt-v, for bats files that
# `load ../lib/volume`. Each writer has a part of the volume's first $fio_mib.

# shellcheck disable=SC2154 # by its users and volume.bash

# How long they write, unless a test sets it: 5 things must happen meanwhile, and some 100 do.
seconds=8

declare -A pids=()

# writer NAME ENGINE OFFSET_MIB OPTION...: write for a while, and verify. (At the end of a
# pass over its part fio begins another while writes are in flight. It must not send two
# of them to one block, hence serialize_overlap.)
writer() {
	local name=$1 engine=$2 offset=$3
	shift 3
	fio --name="$name" --ioengine="$engine" --filename="$vol" --offset="${offset}m" \
		--size=$((fio_mib / 4))m --rw=randwrite --iodepth=8 \
		--verify=crc32c --verify_fatal=1 --verify_backlog=128 \
		--serialize_overlap=1 \
		--time_based --runtime="$seconds" "$@" \
		>"$BATS_TEST_TMPDIR/$name" 2>&1 3>&- &
	pids[$name]=$!
}

# Four that are not alike.
writers_start() {
	pids=()
	writer direct libaio 0 --bsrange=512-64k --blockalign=512 --direct=1
	writer uring io_uring $((fio_mib / 4)) --bs=4k --direct=1
	writer large libaio $((fio_mib / 2)) --bs=1m --direct=1
	writer cached psync $((3 * fio_mib / 4)) --bs=4k --fdatasync=32
}

# more_writers ROUNDS: have fewer than 5 things happened beside them? On a busy machine they
# write for the time of one. They are started 20 times at most.
more_writers() {
	started=$((${started:-0} + 1))
	[ "$1" -lt 5 ] && [ "$started" -le 20 ]
}

writers_run() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# Wait for them: have they found nothing wrong?
writers_are_content() {
	local name good=true
	for name in "${!pids[@]}"; do
		wait "${pids[$name]}" || {
			echo "fio '$name' failed:"
			cat "$BATS_TEST_TMPDIR/$name"
			good=false
		}
	done
	$good
}
