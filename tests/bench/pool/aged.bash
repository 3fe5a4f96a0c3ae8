# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
# Does the newest version still come back as fast when there have been many? Two pools take
# the same versions, one with pieces, one with one piece a segment; of each, 30 are kept.
# (Where one piece suits the disk, that is one pool.)

declare -A aged_points=([full]=" 1 10 100 300 " [demo]=" 1 10 20 ")
declare -A aged_mib=([full]=512 [demo]=128)
aged_keep=30

no_aged() { rm -f "$dir/out"; }
restore_aged() { revdedupctl -q -p "$aged_pool" restore v@latest --to "$dir/out"; }
copy_aged() { rawcopy "$dir/aged" "$dir/out"; }

# look_at_aged NUMBER: a row for each pool.
look_at_aged() {
	local which
	for which in "${aged_pieces[@]}"; do
		aged_pool=$dir/aged-$which
		compare no_aged restore_aged copy_aged
		ratio_row "newest of $1 versions, P = $which / raw copy" 0.9
	done
	no_aged
}

part_aged() {
	local number which points=${aged_points[$size]} blocks=$((${aged_mib[$size]} * 256))
	local -a aged_pieces
	find_pieces
	mapfile -t aged_pieces < <(printf '%s\n' "$pieces" 1 | sort -rnu)
	title "aged: versions of ${aged_mib[$size]} MiB, 1 % of the blocks change each time"
	for which in "${aged_pieces[@]}"; do
		REVDEDUP_POOL=$dir/aged-$which
		new_pool --pieces "$which"
	done
	image halves "$dir/aged" $((blocks * 4096)) 1
	header
	for ((number = 1; ; number++)); do
		[ "$number" -eq 1 ] ||
			image some "$dir/aged" $((blocks / 100)) "$number" >/dev/null
		for which in "${aged_pieces[@]}"; do
			revdedupctl -q -p "$dir/aged-$which" snapshot v --from "$dir/aged"
			[ "$number" -le "$aged_keep" ] ||
				revdedupctl -q -p "$dir/aged-$which" prune v --keep-last "$aged_keep"
		done
		[[ $points != *" $number "* ]] || look_at_aged "$number"
		[[ $points != *" $number " ]] || break
	done
	rm -rf "$dir/aged" "$dir"/aged-*
	REVDEDUP_POOL=$dir/pool
}
