# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Snapshots of 1, 2 and 4 volumes side by side, from cold caches: first versions, and versions
# in which 0.5 % of the blocks have changed. The sum of their speeds, beside one alone.

declare -A streams_mib=([full]=1024 [demo]=128)

# take_streams NUMBER: of as many volumes at once; fails if one fails.
take_streams() {
	local i pid pids=()
	for ((i = 1; i <= $1; i++)); do
		revdedupctl -q snapshot "v$i" --from "$dir/stream-$i" &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
}

change_streams() {
	local i
	for i in 1 2 3 4; do
		seed=$((seed + 1))
		image some "$dir/stream-$i" $((streams_blocks / 200)) "$seed" >/dev/null
	done
}

# Sets first and next, arrays of the times of each round, by the number of volumes.
time_streams() {
	local nr round
	for ((round = 0; round < rounds; round++)); do
		for nr in 1 2 4; do
			new_pool "$@"
			turn take_streams "$nr"
			first[nr]+=" $usec"
			change_streams
			turn take_streams "$nr"
			next[nr]+=" $usec"
		done
	done
}

# stream_rows WHAT OPTION...
stream_rows() {
	local nr one ratio
	local -a first=() next=()
	time_streams "${@:2}"
	for nr in 2 4; do
		# shellcheck disable=SC2086 # they are lists of numbers
		{
			one=$(median ${first[1]})
			ratio=$(calc "$nr * $one / $(median ${first[nr]})")
			row "$1: $nr first versions at once / one" "$ratio" ">= 1" "$ratio >= 1"
			one=$(median ${next[1]})
			ratio=$(calc "$nr * $one / $(median ${next[nr]})")
			row "$1: $nr later versions at once / one" "$ratio" ">= 1" "$ratio >= 1"
		}
	done
}

part_streams() {
	local i seed=100
	find_pieces
	streams_blocks=$((${streams_mib[$size]} * 256))
	title "streams: volumes of ${streams_mib[$size]} MiB, $compression"
	for i in 1 2 3 4; do
		image halves "$dir/stream-$i" $((streams_blocks * 4096)) "$i"
	done
	header
	stream_rows "one piece" --pieces 1
	stream_rows "P = $pieces" --pieces "$pieces"
	stream_rows "P = $pieces, inline" --pieces "$pieces" --dedup inline
	rm -f "$dir"/stream-*
}
