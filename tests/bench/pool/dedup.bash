# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
# What a pass over the whole pool gains and costs: beside the size that an independent program
# computes from the images, and beside what VM-centric deduplication would store of them;
# restores and deletions before and after it, and its own time, memory and transactions. Time beside
# that of finding the same inline, and with more partitions than the pass takes.

data_bytes() { revdedupctl stats --json | field bytes_data; }

# watched COMMAND...: its longest transaction is added to $dir/held.
watched() { held "$dir/held" "$REVDEDUP_POOL" "$@"; }

# longest: of all since $dir/held was made empty, in seconds.
longest() { sort -n "$dir/held" | awk 'END { printf "%.3f", $1 / 1e6 }'; }

pass_to_report() {
	: >"$dir/held"
	watched /usr/bin/time -q -o "$dir/peak" -f '%M %I %O' revdedupctl dedup "$@" --json \
		--temp "$dir" >"$dir/report"
}

# pass OPTION...: from cold caches. Its report is in $dir/report; sets usec, kib, and the sectors
# that it read and wrote.
pass() {
	local in out
	cold
	timed pass_to_report "$@"
	read -r kib in out < <(tail -n 1 "$dir/peak")
	sectors=$((in + out))
}

# Of the newest version and the oldest: add to speeds.
add_speeds() {
	restore_ratio vm1@latest "$series/vm1-$newest.img"
	speeds+=("$ratio")
	restore_ratio vm1@1 "$series/vm1-1.img"
	speeds+=("$ratio")
}

delete_watched() { watched revdedupctl delete "$1" --json >"$dir/deleted"; }

# delete_once: one version of each VM, and not of all the same, in a copy of the pool. Sets
# delete_usec and freed, of all.
delete_once() {
	local pool=$REVDEDUP_POOL vm nr=0
	local REVDEDUP_POOL=$dir/copy
	cp -a --sparse=always "$pool" "$REVDEDUP_POOL"
	delete_usec=0 freed=0
	while read -r vm; do
		turn delete_watched "$vm@$((nr % newest + 1))"
		nr=$((nr + 2))
		delete_usec=$((delete_usec + usec))
		freed=$((freed + $(field bytes <"$dir/deleted")))
	done < <(cut -d ' ' -f 1 "$series/order" | sort -u)
	rm -r "$REVDEDUP_POOL"
}

# delete_some: adds the least time of some rounds to delete_usecs, and what was freed to freed_mib.
# What a version has for itself is less after a pass, so the time is not for a byte of it.
delete_some() {
	local i all=()
	: >"$dir/held"
	for ((i = 0; i < rounds && i < 3; i++)); do
		delete_once
		all+=("$delete_usec")
	done
	delete_usecs+=("$(printf '%s\n' "${all[@]}" | sort -n | head -n 1)")
	freed_mib+=("$((freed / mib))")
}

pass_rows() {
	pass --older 0 --least-run 1
	first=$usec
	after=$(data_bytes)
	row "$name: a pass, s" "$(calc "$first / 1e6" %.2f)"
	row "  data before and after, MiB" "$((before / mib)) $((after / mib))"
	row "  data after / what is closed" "$(calc "$after / $closed" %.5f)" "<= 1.002" \
		"$after / $closed <= 1.002"
	if [ -n "$peer_limit" ]; then
		row "  / what VM-centric deduplication stores" "$(calc "$after / $peer")" \
			"<= $peer_limit" "$after / $peer <= $peer_limit"
	else
		row "  / what VM-centric deduplication stores" "$(calc "$after / $peer")"
	fi
	row "  MiB of memory" "$(calc "$kib / 1024" %.1f)" "<= 128" "$kib <= 128 * 1024"
	row "  its longest transaction, s" "$(longest)" "<= 0.1" "$(longest) <= 0.1"
	pass --older 0 --least-run 1
	row "  blocks that a second pass changes" "$(field bytes_given_up <"$dir/report")" "0" \
		"$(field bytes_given_up <"$dir/report") == 0"
	row "  time of the second / the first" "$(calc "$usec / $first")"
}

# hurt [copies]: how many volumes a lost frame hurts, on average; what has a copy hurts none.
hurt() {
	local sum
	revdedupctl stats --isolation --json >"$dir/isolation"
	sum=$(field volumes_sum <"$dir/isolation")
	[ $# -eq 0 ] || sum=$(sed 's/.*"with_copies"//' "$dir/isolation" | field volumes_sum)
	calc "$sum / $(field frames <"$dir/isolation")"
}

# hurt_rows BEFORE: after the pass, with copies of a hundredth, and of more until it is as before.
hurt_rows() {
	local now percent
	now=$(hurt)
	row "  volumes that a lost frame hurts, before and after" "$1 $now"
	for percent in 1 2 5 10 20; do
		revdedupctl -q copies "$percent%" --to "$dir/copies" --force
		now=$(hurt copies)
		row "    with copies of $percent %" "$now"
		[ "$(calc "$now <= $1 ? 1 : 0" %d)" = 0 ] || break
	done
	row "  with copies / before" "$(calc "$now / $1")" "<= 1" "$now / $1 <= 1"
	revdedupctl -q copies 0
}

# inline_rows SNAPSHOTS FIRST: in a pool that looks for blocks in all others when it stores them;
# the times of the snapshots that do not, and of the pass that finds them then.
inline_rows() {
	take_series true --pieces 64 --dedup inline
	row "  snapshots and a pass / snapshots with 64 pieces and inline, time" \
		"$(calc "($1 + $2) / $series_usec")"
	[ -n "$peer_limit" ] || return 0
	revdedupctl -q dedup --older 0 --least-run 1
	row "  with 64 pieces and inline: / VM-centric" "$(calc "$(data_bytes) / $peer")" \
		"<= 0.75" "$(data_bytes) / $peer <= 0.75"
}

# dedup_rows NAME DIR [PEER-LIMIT]
dedup_rows() {
	local name=$1 series=$2 peer_limit=${3:-} newest before after closed peer first kib i
	local isolated snapshots_usec
	local -a speeds=() delete_usecs=() freed_mib=()
	take_for_rule --pieces 1
	snapshots_usec=$series_usec
	closed=$(sed -n 's/^closed //p' "$dir/rules")
	peer=$(vmcentric "$series/order" | awk '$1 == "pds" && $2 == 2 { print $4 }')
	newest=$(grep -c '^vm1 ' "$series/order")
	before=$(data_bytes)
	isolated=$(hurt)
	add_speeds
	delete_some
	revdedupctl dedup --older 0 --least-run 1 --dry-run
	header
	pass_rows
	add_speeds
	delete_some
	row "  restore of the newest: after / before" "$(calc "${speeds[2]} / ${speeds[0]}")" \
		">= 0.98" "${speeds[2]} / ${speeds[0]} >= 0.98"
	row "  restore of the oldest: after / before" "$(calc "${speeds[3]} / ${speeds[1]}")" \
		">= 0.8" "${speeds[3]} / ${speeds[1]} >= 0.8"
	row "  a version of each VM deleted: time after / before" \
		"$(calc "${delete_usecs[1]} / ${delete_usecs[0]}")" "<= 1.2" \
		"${delete_usecs[1]} / ${delete_usecs[0]} <= 1.2"
	row "  the longest transaction of these, s" "$(longest)" "<= 0.1" "$(longest) <= 0.1"
	row "  what these freed before and after, MiB" "${freed_mib[*]}"
	hurt_rows "$isolated"
	night_rows "$first"
	inline_rows "$snapshots_usec" "$first"
}

fleet_rows() {
	find_fleet
	! is_wanted fleet || dedup_rows "a fleet" "$fleet/plain" 0.75
	! is_wanted trimmed || dedup_rows "a fleet, trimmed" "$fleet/trimmed" 0.75
}

# --- a night later

# change_segments FILE OLD: of each 100th segment of FILE one half is new, and one half is what OLD
# had elsewhere.
change_segments() {
	local segments=$(($(stat -c %s "$1") / 2 / mib)) at
	for ((at = 50; at < segments; at += 100)); do
		dd if=/dev/urandom of="$1" bs=1M count=1 seek=$((2 * at)) conv=notrunc status=none
		dd if="$2" of="$1" bs=4096 count=256 skip=$(((at * 7 % segments) * 512 + 100)) \
			seek=$((at * 512 + 256)) conv=notrunc status=none
	done
}

# night: each volume gets a version in which a hundredth of the segments has changed.
night() {
	local volume last
	cut -d ' ' -f 1 "$series/order" | sort -u >"$dir/volumes"
	while read -r volume; do
		last=$(grep -c "^$volume " "$series/order")
		cp --sparse=always "$series/$volume-$last.img" "$dir/night"
		change_segments "$dir/night" "$series/$volume-1.img"
		revdedupctl -q snapshot "$volume" --from "$dir/night"
		rm "$dir/night"
	done <"$dir/volumes"
}

open_pool() { revdedupctl list; }

# night_rows FIRST: the microseconds of a pass over all. Opening the pool counts in neither.
night_rows() {
	local open
	night
	turn open_pool
	open=$usec
	pass --older 0 --least-run 1
	grep -q '"all": false' "$dir/report" || die "a pass after a night compared all"
	row "  a pass after 1 % of the segments changed, s" "$(calc "$usec / 1e6" %.2f)"
	row "  time of this / the first" "$(calc "($usec - $open) / ($1 - $open)")" "<= 0.1" \
		"($usec - $open) / ($1 - $open) <= 0.1"
	row "  MiB that it gave up" "$(($(field bytes_given_up <"$dir/report") / mib))"
	revdedupctl dedup --older 0 --least-run 1 --dry-run --json >"$dir/report"
	row "  MiB that one over all would find then" \
		"$(($(field bytes_given_up <"$dir/report") / mib))" "0" \
		"$(field bytes_given_up <"$dir/report") == 0"
}

# --- finding alone, where there is nothing to be found

declare -A find_gib=([full]=32 [demo]=8)

find_twins() { revdedupctl dedup --dry-run --temp "$dir"; }
# What is read of the pool; what is written to buckets, and read. With the same priority.
raw_find() {
	ionice -c 3 rawcopy "$dir/raw-fps"
	ionice -c 3 rawcopy "$dir/raw-spill" "$dir/raw-out"
}

find_rows() {
	local number gibs=${find_gib[$size]} open finds=() raws=() find raw i
	new_pool --compression zstd:1
	for ((number = 1; number <= gibs; number++)); do
		image faint "$dir/faint" "$gib" "$number"
		revdedupctl -q snapshot "v$number" --from "$dir/faint"
	done
	image random "$dir/raw-fps" $((gibs * 4 * mib)) 1
	image random "$dir/raw-spill" $((gibs * 6 * mib)) 2
	for ((i = 0; i < rounds; i++)); do
		turn open_pool
		open=$usec
		turn find_twins
		finds+=($((usec - open)))
		rm -f "$dir/raw-out"
		turn raw_find
		raws+=("$usec")
	done
	rm "$dir"/raw-*
	find=$(median "${finds[@]}") raw=$(median "${raws[@]}")
	row "$gibs GiB: finding, s" "$(calc "$find / 1e6" %.2f)"
	row "  finding / raw input and output" "$(calc "$find / $raw" %.2f)" "<= 1.5" \
		"$find / $raw <= 1.5"
	row "  1 TiB at that speed, s" "$(calc "$find / 1e6 * 1024 / $gibs" %.0f)"
	sqlite_pass_rows
	again_rows
}

# The buckets of what is compared, and the join, in SQLite instead.
sqlite_pass_rows() {
	local millions=$((gibs * gib / 4096 / 1000000)) usec kib
	sqlite_instead "$millions" "random(), i, 1" "CREATE TABLE e(key, block, lives)" \
		"SELECT key, min(block) FROM e GROUP BY key HAVING count(*) > 1"
	row "  buckets and join in SQLite, 1 TiB at that speed, s" \
		"$(calc "$usec / 1e6 * 1024 * $gib / 4096e6 / $millions" %.0f)"
	row "    MiB of memory" $((kib / 1024))
}

# again_rows: a pass over the pool of find_rows, and one after 1 % more. They are short, so each is
# run some times, in copies that are as it finds the pool; to open the pool counts in neither.
again_rows() {
	local i name open
	local -A times=() moved=()
	cp -a --sparse=always "$REVDEDUP_POOL" "$dir/first"
	pass --older 0 --least-run 1
	image faint "$dir/faint" $((gibs * gib / 100 / mib * mib)) "$number"
	revdedupctl -q snapshot "v$number" --from "$dir/faint"
	rm "$dir/faint"
	cp -a --sparse=always "$REVDEDUP_POOL" "$dir/second"
	for ((i = 0; i < rounds; i++)); do
		for name in first second; do
			rm -r "$REVDEDUP_POOL"
			cp -a --sparse=always "$dir/$name" "$REVDEDUP_POOL"
			turn open_pool
			open=$usec
			pass --older 0 --least-run 1
			times[$name]+=" $((usec - open))"
			moved[$name]=$sectors
		done
	done
	rm -r "$dir/first" "$dir/second"
	# shellcheck disable=SC2086 # they are lists of numbers
	usec=$(median ${times[second]}) open=$(median ${times[first]})
	row "  a pass after 1 % more / the first" "$(calc "$usec / $open")" "<= 0.1" \
		"$usec / $open <= 0.1"
	row "  MiB that they read and wrote" \
		"$(calc "${moved[second]} / 2048" %.0f) $(calc "${moved[first]} / 2048" %.0f)"
}

# --- partitions

# A pass takes as many as make 256 Ki blocks each. So one with others is another program.
declare -A many_partitions=([full]="32 128 500" [demo]="8 32 128 500")

# build_with PARTITIONS: make $dir/q-PARTITIONS, which takes so many of the pool of find_rows.
build_with() {
	local per=$((${find_gib[$size]} * gib / 4096 / $1 + 1)) file=pool/engine/dedup/twins.c
	cp -a "$tree/Makefile" "$tree/userspace" "$tree/kernel" "$dir/source"
	cp -a "$dir/bin" "$dir/q-$1"
	sed -i "s/^#define PER_BUCKET.*(256U << 10)/#define PER_BUCKET ${per}U/" \
		"$dir/source/userspace/$file"
	! cmp -s "$dir/source/userspace/$file" "$tree/userspace/$file" ||
		die "'$file' says otherwise how large a partition is"
	make -s -C "$dir/source/userspace" O="$dir/q-$1" "$dir/q-$1/revdedupctl"
}

# Of the pool of find_rows: finding, and the most memory that it takes.
partition_rows() {
	local i q partitions=()
	local -A times=() most=()
	read -r -a partitions <<<"${many_partitions[$size]}"
	mkdir "$dir/source"
	for q in "${partitions[@]}"; do
		build_with "$q"
	done
	for ((i = 0; i < rounds; i++)); do
		for q in "${partitions[@]}"; do
			turn /usr/bin/time -q -o "$dir/peak" -f %M "$dir/q-$q/revdedupctl" \
				dedup --dry-run --temp "$dir"
			times[$q]+=" $usec"
			most[$q]+=" $(tail -n 1 "$dir/peak")"
		done
	done
	for q in "${partitions[@]}"; do
		# shellcheck disable=SC2086 # they are lists of numbers
		row "  $q partitions: MiB, time / ${partitions[0]} partitions" \
			"$(calc "$(median ${most[$q]}) / 1024" %.1f) \
$(calc "$(median ${times[$q]}) / $(median ${times[${partitions[0]}]})")"
		rm -r "$dir/q-$q"
	done
	rm -r "$dir/source"
}

# --- beside others

# find_slowly: again and again until the file $dir/stop is there. How long and with how much of the
# processor goes to $dir/time.
find_slowly() {
	local TIMEFORMAT='%R %U %S'
	{ time while [ ! -e "$dir/stop" ]; do
		revdedupctl -q dedup --dry-run --rate 50M --temp "$dir"
	done >/dev/null; } 2>"$dir/time"
}

percentile() { neighbour "$dir/others" 10; }

# Of the pool of find_rows.
neighbour_rows() {
	local i alone beside all=() cpus=() real user system
	image random "$dir/others" "$gib" 3
	for ((i = 0; i < rounds; i++)); do
		cold
		alone=$(percentile)
		cold
		find_slowly &
		beside=$(percentile)
		touch "$dir/stop"
		wait $!
		rm "$dir/stop"
		read -r real user system <"$dir/time"
		cpus+=("$(calc "($user + $system) / $real")")
		all+=("$(calc "$beside / $alone")")
		note "a neighbour's p99, us: $alone alone, $beside beside"
	done
	rm "$dir/others"
	row "  a neighbour's p99 beside finding at 50M / alone" "$(median "${all[@]}")" "<= 1.1" \
		"$(median "${all[@]}") <= 1.1"
	row "  share of a processor" "$(median "${cpus[@]}")" "<= 0.2" \
		"$(median "${cpus[@]}") <= 0.2"
}

part_dedup() {
	title "dedup: a pass over the whole pool"
	if is_wanted disks; then
		find_series
		dedup_rows "three disks" "$series"
	fi
	if is_wanted layouts && [ "$size" = full ]; then
		dedup_rows layouts "$("$here/series.sh" --size layouts)"
	fi
	if is_wanted fleet || is_wanted trimmed; then
		fleet_rows
	fi
	if is_wanted find; then
		header
		find_rows
		partition_rows
		neighbour_rows
	fi
}
