# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
# What a pass over the whole pool gains and costs: beside the size that an independent program
# computes from the images, restores before and after it, and its own time and memory.

restore_one() { revdedupctl -q restore "$one" --to "$dir/out"; }
copy_one() { rawcopy "$one_image" "$dir/out"; }
no_one() { rm -f "$dir/out"; }

# restore_speed VERSION IMAGE: prints it, as a share of that of a raw copy.
restore_speed() {
	one=$1 one_image=$2
	compare no_one restore_one copy_one 3
	median "${ratios[@]}"
	rm -f "$dir/out"
}

data_bytes() { revdedupctl stats --json | field bytes_data; }

pass_to_report() {
	/usr/bin/time -q -o "$dir/peak" -f %M revdedupctl dedup "$@" --json --temp "$dir" \
		>"$dir/report"
}

# pass OPTION...: from cold caches. Its report is in $dir/report; sets usec and kib.
pass() {
	cold
	timed pass_to_report "$@"
	kib=$(tail -n 1 "$dir/peak")
}

# dedup_rows NAME DIR
dedup_rows() {
	local name=$1 series=$2 newest before after closed speeds first kib
	take_series true --pieces 1
	rule "$series/order" >"$dir/rules"
	closed=$(sed -n 's/^closed //p' "$dir/rules")
	newest=$(grep -c '^vm1 ' "$series/order")
	before=$(data_bytes)
	speeds=("$(restore_speed vm1@latest "$series/vm1-$newest.img")"
		"$(restore_speed vm1@1 "$series/vm1-1.img")")
	revdedupctl dedup --older 0 --least-run 1 --dry-run
	header
	pass --older 0 --least-run 1
	first=$usec
	after=$(data_bytes)
	row "$name: a pass, s" "$(calc "$first / 1e6" %.2f)"
	row "  data before and after, MiB" "$((before / mib)) $((after / mib))"
	row "  data after / what is closed" "$(calc "$after / $closed" %.5f)" "<= 1.002" \
		"$after / $closed <= 1.002"
	row "  MiB of memory" "$(calc "$kib / 1024" %.1f)" "<= 128" "$kib <= 128 * 1024"
	pass --older 0 --least-run 1
	row "  blocks that a second pass changes" "$(field bytes_given_up <"$dir/report")" "0" \
		"$(field bytes_given_up <"$dir/report") == 0"
	row "  time of the second / the first" "$(calc "$usec / $first")"
	speeds+=("$(restore_speed vm1@latest "$series/vm1-$newest.img")"
		"$(restore_speed vm1@1 "$series/vm1-1.img")")
	row "  restore of the newest: after / before" "$(calc "${speeds[2]} / ${speeds[0]}")" \
		">= 0.98" "${speeds[2]} / ${speeds[0]} >= 0.98"
	row "  restore of the oldest: after / before" "$(calc "${speeds[3]} / ${speeds[1]}")" \
		">= 0.8" "${speeds[3]} / ${speeds[1]} >= 0.8"
}

part_dedup() {
	title "dedup: a pass over the whole pool"
	find_series
	dedup_rows "three disks" "$series"
	[ "$size" = demo ] || dedup_rows layouts "$("$here/series.sh" --size layouts)"
}
