# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
# What the index of inline deduplication costs: its size, the time to make it anew, how often
# its vector is wrong, and how many lookups need no read, in series and in a large pool. Table 4 of
# the paper on the Data Domain file system, of each series; and how much more is written than if
# each block that the pool has were found: the index has one of 16, and runs of less do not count.

# GiB of the large pool, in volumes of 1 GiB that compress to nearly nothing: only fingerprints
# matter.
declare -A index_gib=([full]=64 [demo]=2)

inline_pool() { new_pool --pieces 512 --dedup inline "$@"; }

# --- series

# Prints "VERSION ASKED READS" of each report that has lookups.
lookups_of_reports() {
	local number='\([0-9]*\),.*'
	sed -n "s/.*\"version\": \"\([^\"]*\)\".*\"asked\": $number\"index_asked\": $number\"pages_read\": $number/\1 \2 \3 \4/p" \
		"$dir/reports" | awk '{ print $1, $2, $3 + $4 }'
}

# size_rows WHAT: of the index beside the content, as it was before it was compressed.
size_rows() {
	local unique bytes share
	unique=$(revdedupctl stats --json | field bytes_unique)
	bytes=$(bytes_of "$REVDEDUP_POOL/index")
	share=$(calc "100 * $bytes / $unique" %.4f)
	row "$1: index / content, %" "$share" "<= 0.05" "$share <= 0.05"
}

# of_lookups NAME: the sum of all reports; of a name that comes twice, as one of the reads.
of_lookups() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$dir/reports" | awk '{ n += $1 } END { print n + 0 }'; }

# table_row NAME: what reads a page of the index or fingerprints of frames, as a share of what would
# read a page with neither the vector nor the cache. These fingerprints are what the cache has.
table_row() {
	local neither pages vector cache both
	neither=$(of_lookups neither)
	pages=$(of_lookups pages_read)
	vector=$(calc "100 * $(of_lookups vector) / $neither" %.2f)
	cache=$(calc "100 * ($(of_lookups cache) + $pages) / $neither" %.2f)
	both=$(calc "100 * ($(of_lookups both) + $pages) / $neither" %.2f)
	row "$1: vector, cache, both, % of $neither reads" "$vector $cache $both"
}

# loss_rows NAME DIR: beside exact inline deduplication, which writes each content once.
loss_rows() {
	local exact written
	exact=$(rule "$2/order" | sed -n 's/^distinct //p')
	written=$(sum_of bytes_stored)
	row "$1: blocks written / each content once" "$(calc "$written / $exact")" "<= 1.2" \
		"$written / $exact <= 1.2"
	row "  and what is there after reverse" \
		"$(calc "$(revdedupctl stats --json | field bytes_data) / $exact")"
}

# index_of_series NAME DIR: the least share of the blocks that were asked for, of segments that
# the pool did not have, for which nothing was read; of all, and of each snapshot.
index_of_series() {
	local series=$2 all least version
	take_series true --pieces 512 --dedup inline
	lookups_of_reports >"$dir/lookups"
	all=$(awk '{ asked += $2; reads += $3 } END { printf "%.4f", 1 - reads / asked }' \
		"$dir/lookups")
	read -r least version < <(awk '{ printf "%.4f %s\n", 1 - $3 / $2, $1 }' "$dir/lookups" |
		sort -n)
	row "$1: lookups without a read, of all" "$all" ">= 0.99" "$all >= 0.99"
	row "$1: the same, least of a snapshot: $version" "$least" ">= 0.99" "$least >= 0.99"
	size_rows "$1"
	table_row "$1"
	loss_rows "$1" "$2"
}

# --- a large pool

# take_faint NUMBER: a volume whose content is nowhere else, from cold caches. Sets inputs, in
# blocks, and kib.
take_faint() {
	image faint "$dir/faint" "$gib" "$1"
	cold
	/usr/bin/time -q -o "$dir/peak" -f "%I %M" \
		revdedupctl snapshot "v$1" --from "$dir/faint" --json >"$dir/reports"
	read -r inputs kib < <(tail -n 1 "$dir/peak")
	inputs=$((inputs / 8))
	rm "$dir/faint"
}

false_positives() {
	local asked wrong share
	asked=$(($(sum_of vector_no) + $(sum_of index_asked)))
	wrong=$(sum_of false_positive)
	share=$(calc "100 * $wrong / $asked" %.3f)
	row "$1: the vector is wrong, % of $asked" "$share" "<= 0.2" "$share <= 0.2"
}

# The content does not matter: the index is made anew when it is not there.
take_small() { revdedupctl -q snapshot small --from "$dir/small"; }

# time_builds: sets usec to the median of what the index takes, and speed, in bytes a second.
time_builds() {
	local round all=() speeds=() without
	image random "$dir/raw" "$gib" 1
	for ((round = 0; round < rounds; round++)); do
		turn take_small
		without=$usec
		rm -r "$REVDEDUP_POOL/index"
		turn take_small
		all+=($((usec - without)))
		turn rawcopy "$dir/raw"
		speeds+=("$(calc "$gib * 1e6 / $usec" %d)")
	done
	rm "$dir/raw"
	usec=$(median "${all[@]}")
	speed=$(median "${speeds[@]}")
}

# 1 TiB of content has 4 GiB of fingerprints, which cannot be read faster than the disk reads.
build_rows() {
	local usec speed raw seconds
	truncate -s 4096 "$dir/small"
	take_small
	time_builds
	seconds=$(calc "$usec / 1e6 * 1024 / $1")
	raw=$(calc "4 * $gib / $speed")
	row "$1 GiB: the index is made anew in, s a TiB" "$seconds" "<= 6" \
		"$seconds > 0 && $seconds <= 6"
	row "  beside a raw read of 4 GiB: s, and time / raw" \
		"$raw $(calc "$seconds / $raw" %.2f)" "<= 1.3" \
		"$seconds > 0 && $seconds / $raw <= 1.3"
	rm "$dir/small"
}

# A sorted table of SQLite instead of runs: a quarter of what 1 TiB has.
sqlite_index_rows() {
	local table="CREATE TABLE e(key INTEGER PRIMARY KEY, place) WITHOUT ROWID" usec kib
	sqlite_instead 4 "i << 36, i" "$table"
	row "SQLite instead, keys in order: s a TiB" "$(calc "$usec / 1e6 * 4")"
	sqlite_instead 4 "random(), i" "$table"
	row "  keys in any order: s a TiB" "$(calc "$usec / 1e6 * 4")"
	row "  MiB of memory" $((kib / 1024))
}

# The blocks of all vectors: see userspace/pool/index/run.h.
vector_blocks() {
	local file lines blocks=0
	for file in "$REVDEDUP_POOL"/index/[0-9]*; do
		lines=$(od -An -t u8 -j 64 -N 8 "$file")
		blocks=$((blocks + (lines + 62) / 63))
	done
	echo "$blocks"
}

# What the disk reads for lookups with an index as large as that of 1 TiB, more than with one
# that is in memory: its vectors, in sequence, which the counters leave out, and other blocks.
large_index_rows() {
	local few=$inputs vector share
	hints "$REVDEDUP_POOL" $((1024 * gib / 4096)) 1
	take_faint $(($1 + 1))
	false_positives "an index of 1 TiB"
	vector=$(vector_blocks)
	row "  MiB of its vectors, which are read once" "$(calc "$vector / 256" %.1f)"
	share=$(calc "100 * ($inputs - $few - $vector) / $(sum_of asked)" %.2f)
	row "  other blocks that are read, % of those asked for" "$share" "<= 1" "$share <= 1"
	row "  MiB of memory" $((kib / 1024)) "<= 128" "$kib <= 128 * 1024"
}

large_pool() {
	local number inputs kib gibs=${index_gib[$size]}
	inline_pool --compression zstd:1
	for ((number = 1; number <= gibs; number++)); do
		take_faint "$number"
	done
	false_positives "the last of $gibs GiB"
	size_rows "$gibs GiB"
	build_rows "$gibs"
	# What was made in one pass is one file, and has what the many files had.
	take_faint "$number"
	false_positives "one more"
	size_rows "$((gibs + 1)) GiB"
	large_index_rows "$number"
}

part_index() {
	find_series
	title "index: its size, its time and its mistakes"
	header
	if is_wanted disks; then
		index_of_series "${size/full/three} disks" "$series"
	fi
	if is_wanted layouts && [ "$size" = full ]; then
		index_of_series layouts "$("$here/series.sh" --size layouts)"
	fi
	if is_wanted database && [ "$size" = full ]; then
		index_of_series database "$("$here/database.sh")"
	fi
	! is_wanted large || large_pool
	! is_wanted sqlite || sqlite_index_rows
}
