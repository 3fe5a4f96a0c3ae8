# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
# What a pass over the whole pool gains and costs: beside the size that an independent program
# computes from the images, restores before and after it, and its own time and memory.

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

# Of the newest version and the oldest: add to speeds.
add_speeds() {
	restore_ratio vm1@latest "$series/vm1-$newest.img"
	speeds+=("$ratio")
	restore_ratio vm1@1 "$series/vm1-1.img"
	speeds+=("$ratio")
}

# dedup_rows NAME DIR
dedup_rows() {
	local name=$1 series=$2 newest before after closed peer first kib
	local -a speeds=()
	take_series true --pieces 1
	rule "$series/order" >"$dir/rules"
	closed=$(sed -n 's/^closed //p' "$dir/rules")
	newest=$(grep -c '^vm1 ' "$series/order")
	before=$(data_bytes)
	add_speeds
	revdedupctl dedup --older 0 --least-run 1 --dry-run
	header
	pass --older 0 --least-run 1
	first=$usec
	after=$(data_bytes)
	row "$name: a pass, s" "$(calc "$first / 1e6" %.2f)"
	row "  data before and after, MiB" "$((before / mib)) $((after / mib))"
	row "  data after / what is closed" "$(calc "$after / $closed" %.5f)" "<= 1.002" \
		"$after / $closed <= 1.002"
	peer=$(vmcentric "$series/order" | awk '$1 == "pds" && $2 == 2 { print $4 }')
	row "  / what VM-centric deduplication stores" "$(calc "$after / $peer")"
	row "  MiB of memory" "$(calc "$kib / 1024" %.1f)" "<= 128" "$kib <= 128 * 1024"
	pass --older 0 --least-run 1
	row "  blocks that a second pass changes" "$(field bytes_given_up <"$dir/report")" "0" \
		"$(field bytes_given_up <"$dir/report") == 0"
	row "  time of the second / the first" "$(calc "$usec / $first")"
	add_speeds
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
