# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Snapshots and restores beside a raw copy of the same image.

# Versions of vm1 after which the newest is restored.
points=" 1 4 7 10 13 "
seed=1

# --- what has its turn. In $image is the image, in $version what is restored.

take_first() { revdedupctl -q snapshot vm1 --from "$image"; }
copy_raw() { rawcopy "$image" "$dir/out"; }
read_raw() { rawcopy "$image"; }
copy_huge() { rawcopy --huge "$image" "$dir/out"; }
read_huge() { rawcopy --huge "$image"; }
restore_version() { revdedupctl -q restore "$version" --to "$dir/out"; }

fresh_pool() {
	rm -f "$dir/out"
	new_pool
}

no_output() { rm -f "$dir/out"; }

# take_counted: a snapshot; sets usec, and cpu_usec, what all processors had of it.
take_counted() {
	local TIMEFORMAT='%U %S' user system
	cold
	{ time timed take_first; } 2>"$dir/cpu"
	read -r user system <"$dir/cpu"
	cpu_usec=$(calc "($user + $system) * 1e6" %d)
}

# What a snapshot of what did not change waits for: that the disk reads it, that it is
# hashed (and all else that the processors do), or neither: then the pipeline lets both
# wait.
limit_of_unchanged() {
	local i ours=() raw=() cpu=() disk hash all limit
	for ((i = 0; i < rounds; i++)); do
		turn read_raw
		raw+=("$usec")
		take_counted
		ours+=("$usec")
		cpu+=("$cpu_usec")
	done
	all=$(median "${ours[@]}")
	disk=$(median "${raw[@]}")
	hash=$(($(median "${cpu[@]}") / $(nproc)))
	limit=disk
	[ "$disk" -ge "$hash" ] || limit='hash'
	[ "$(calc "$all > 1.1 * (($disk > $hash) ? $disk : $hash) ? 1 : 0" %d)" = 0 ] ||
		limit=pipeline
	row "  it took, the disk alone, the processors alone, ms" \
		"$((all / 1000)) $((disk / 1000)) $((hash / 1000))"
	row "  so the limit is" "$limit"
}

# A block in each of some segments.
change_little() {
	image every "$image" 65536 "$((seed++))" >/dev/null
}

# --- one after the other

snapshots_full() {
	image=$series/vm1-13.img
	compare fresh_pool take_first copy_raw
	ratio_row "first snapshot / raw copy" 0.85
	compare fresh_pool take_first copy_huge
	row "first snapshot / raw copy in huge pages" "$(spread)"
	no_output
	compare true take_first read_raw
	ratio_row "snapshot, nothing changed / raw read" 0.95
	limit_of_unchanged
	compare true take_first read_huge
	row "snapshot, nothing changed / raw read in huge pages" "$(spread)"
	image=$dir/little.img
	cp --sparse=always "$series/vm1-13.img" "$image"
	compare change_little take_first read_raw
	ratio_row "snapshot, 16 segments changed / raw read" 0.85
	rm "$image"
}

# The report goes to $dir/reports.
take_changed() {
	revdedupctl snapshot vm1 --from "$image" --changed "$dir/changed" --json \
		>"$dir/reports"
}

# list_changes SEGMENTS: make them, and the list of them.
list_changes() {
	local blocks=$(($(stat -c %s "$image") / 4096))
	printf 'version %s\n' "$(revdedupctl list vm1 --json | field number | tail -n 1)" \
		>"$dir/changed"
	[ "$1" -eq 0 ] ||
		image every "$image" $((blocks / $1)) $((seed++)) >>"$dir/changed"
}

# time_changes SEGMENTS: sets usec and copy_usec, medians of three.
time_changes() {
	local all=() copies=()
	for _ in 1 2 3; do
		list_changes "$1"
		turn take_changed
		all+=("$usec")
		copies+=("$(sum_of usec_copy)")
	done
	usec=$(median "${all[@]}")
	copy_usec=$(median "${copies[@]}")
}

# Time against the number of segments that changed, a block in each.
snapshots_changed() {
	local nr none none_copy each=()
	new_pool
	image=$dir/changing.img
	image random "$image" $((2 * gib)) 1
	take_first
	printf '\n%-36s %12s %16s %18s\n' "snapshot --changed of 2 GiB" ms "ms a segment" \
		"without freeing"
	for nr in 0 32 128 512 1024; do
		time_changes "$nr"
		if [ "$nr" -eq 0 ]; then
			none=$usec none_copy=$copy_usec
			printf '%-36s %12s\n' "0 segments" $((usec / 1000))
			continue
		fi
		each+=("$(calc "($usec - $none) / 1000 / $nr")")
		printf '%-36s %12s %16s %18s\n' "$nr segments" $((usec / 1000)) "${each[-1]}" \
			"$(calc "($copy_usec - $none_copy) / 1000 / $nr")"
	done
	rm "$image"
	header
	row "ms a changed segment, of 1024 / of 32" "$(calc "${each[-1]} / ${each[0]}" %.2f)" \
		"<= 1.2" "${each[-1]} / ${each[0]} <= 1.2"
}

# One segment of a hundred, of 4,096 that all have data: what a snapshot of that takes
# until what it can give up is free, beside the first. (Some 27 of 1,000 are read: a 64th
# of what is not said to have changed is read to see that it has not.)
snapshots_of_few() {
	local first all=()
	new_pool
	image=$dir/changing.img
	image random "$image" $((8 * gib)) 1
	turn take_first
	first=$usec
	for _ in 1 2 3 4 5; do
		list_changes 41
		turn take_changed
		all+=($(($(sum_of usec_copy) + $(sum_of usec_reverse) + $(sum_of usec_free))))
	done
	rm "$image"
	usec=$(median "${all[@]}")
	header
	row "1 % of 4096 segments changed / first snapshot" "$(calc "$usec / $first" %.4f)" \
		"<= 0.03" "$usec / $first <= 0.03"
}

restore_newest() {
	[[ $1 = vm1 ]] || return 0
	local number=${2#vm1-}
	number=${number%.img}
	[[ $points == *" $number "* ]] || return 0
	image=$series/$2 version=vm1@latest
	compare no_output restore_version copy_raw
	ratio_row "restore of the newest, after vm1@$number / raw copy" 0.95
	no_output
}

along_the_series() {
	local reverse free share
	take_series restore_newest
	reverse=$(sum_of usec_reverse)
	free=$(sum_of usec_free)
	row "backup of the whole series, s" "$(calc "$series_usec / 1e6" %.1f)"
	share=$(calc "$reverse / $series_usec" %.4f)
	row "  of it reverse deduplication" "$(calc "100 * $share" '%.1f %%')" "<= 15 %" \
		"$share <= 0.15"
	row "  and giving space back" "$(calc "100 * $free / $series_usec" '%.1f %%')"
}

restores_of_old() {
	local number
	for number in 1 {2..13}; do
		image=$series/vm1-$number.img version=vm1@$number
		if [ "$number" -eq 1 ]; then
			compare no_output restore_version copy_raw
			ratio_row "restore of the oldest, vm1@1 / raw copy" 0.85
			compare no_output restore_version copy_huge
			row "restore of the oldest / raw copy in huge pages" "$(spread)"
		else
			compare no_output restore_version copy_raw 1
			row "restore of vm1@$number / raw copy (once)" "${ratios[0]}"
		fi
	done
	no_output
}

part_speed() {
	find_series
	title "speed: shares of that of a raw copy (median, least-greatest)"
	header
	snapshots_full
	along_the_series
	restores_of_old
	snapshots_changed
	snapshots_of_few
}
