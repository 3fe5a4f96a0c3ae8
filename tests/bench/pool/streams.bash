# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Snapshots of 1, 2, 4 and 8 volumes side by side, from cold caches: first versions, and versions
# in which 0.5 % of the blocks have changed; and restores of these. The sum of their speeds, beside
# one alone.

declare -A streams_mib=([full]=512 [demo]=128)

# side_by_side NUMBER FUNCTION: FUNCTION 1 to NUMBER at once; fails if one fails.
side_by_side() {
	local i pid pids=()
	for ((i = 1; i <= $1; i++)); do
		"$2" "$i" &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
}

take_stream() { revdedupctl -q snapshot "v$1" --from "$dir/stream-$1"; }
restore_stream() { revdedupctl -q restore "v$1@latest" --to "$dir/back-$1"; }

change_streams() {
	local i
	for i in {1..8}; do
		seed=$((seed + 1))
		image some "$dir/stream-$i" $((streams_blocks / 200)) "$seed" >/dev/null
	done
}

# Sets first, next and back, arrays of the times of each round, by the number of volumes.
time_streams() {
	local nr round
	for ((round = 0; round < rounds; round++)); do
		for nr in 1 2 4 8; do
			new_pool "$@"
			turn side_by_side "$nr" take_stream
			first[nr]+=" $usec"
			change_streams
			turn side_by_side "$nr" take_stream
			next[nr]+=" $usec"
			turn side_by_side "$nr" restore_stream
			back[nr]+=" $usec"
			rm "$dir"/back-*
		done
	done
}

# stream_row WHAT TIMES...: of 1, 2, 4 and 8.
stream_row() {
	local nr=1 one least times ratio ratios=()
	# shellcheck disable=SC2086 # they are lists of numbers
	one=$(median $2)
	for times in "${@:3}"; do
		nr=$((2 * nr))
		# shellcheck disable=SC2086
		ratio=$(calc "$nr * $one / $(median $times)" %.2f)
		ratios+=("$ratio")
	done
	least=$(printf '%s\n' "${ratios[@]}" | sort -n | head -n 1)
	row "$1" "${ratios[*]}" ">= 1" "$least >= 1"
}

# stream_rows WHAT OPTION...
stream_rows() {
	local -a first=() next=() back=()
	time_streams "${@:2}"
	stream_row "$1: 2, 4, 8 first versions at once / one" "${first[@]}"
	stream_row "$1: 2, 4, 8 later versions at once / one" "${next[@]}"
	stream_row "$1: 2, 4, 8 restores at once / one" "${back[@]}"
}

part_streams() {
	local i seed=100
	find_pieces
	streams_blocks=$((${streams_mib[$size]} * 256))
	title "streams: volumes of ${streams_mib[$size]} MiB, $compression"
	for i in {1..8}; do
		image halves "$dir/stream-$i" $((streams_blocks * 4096)) "$i"
	done
	header
	stream_rows "one piece" --pieces 1
	stream_rows "P = $pieces" --pieces "$pieces"
	stream_rows "P = $pieces, inline" --pieces "$pieces" --dedup inline
	rm -f "$dir"/stream-*
}
