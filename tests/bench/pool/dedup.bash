# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
# What a pass over the whole pool gains and costs: beside the size that an independent program
# computes from the images, and beside what VM-centric deduplication would store of them;
# restores and deletions before and after it, and its own time, memory and transactions.

data_bytes() { revdedupctl stats --json | field bytes_data; }

# watched COMMAND...: its longest transaction is added to $dir/held.
watched() { held "$dir/held" "$REVDEDUP_POOL" "$@"; }

# longest: of all since $dir/held was made empty, in seconds.
longest() { sort -n "$dir/held" | awk 'END { printf "%.3f", $1 / 1e6 }'; }

pass_to_report() {
	: >"$dir/held"
	watched /usr/bin/time -q -o "$dir/peak" -f %M revdedupctl dedup "$@" --json \
		--temp "$dir" >"$dir/report"
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

delete_watched() { watched revdedupctl delete "$1" --json >"$dir/deleted"; }

# delete_some: one version of each VM, and not of all the same, in a copy of the pool. Adds the
# microseconds for each MiB that became free to delete_costs.
delete_some() {
	local pool=$REVDEDUP_POOL vm nr=0 all=0 freed=0
	local REVDEDUP_POOL=$dir/copy
	export REVDEDUP_POOL
	cp -a --sparse=always "$pool" "$REVDEDUP_POOL"
	: >"$dir/held"
	while read -r vm; do
		turn delete_watched "$vm@$((nr % newest + 1))"
		nr=$((nr + 2))
		all=$((all + usec))
		freed=$((freed + $(field bytes <"$dir/deleted")))
	done < <(cut -d ' ' -f 1 "$series/order" | sort -u)
	rm -r "$REVDEDUP_POOL"
	delete_costs+=("$(calc "$all / ($freed / $mib + 0.001)" %.0f)")
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

# dedup_rows NAME DIR [PEER-LIMIT]
dedup_rows() {
	local name=$1 series=$2 peer_limit=${3:-} newest before after closed peer first kib i
	local -a speeds=() delete_costs=()
	take_series true --pieces 1
	rule "$series/order" >"$dir/rules"
	closed=$(sed -n 's/^closed //p' "$dir/rules")
	peer=$(vmcentric "$series/order" | awk '$1 == "pds" && $2 == 2 { print $4 }')
	newest=$(grep -c '^vm1 ' "$series/order")
	before=$(data_bytes)
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
	row "  time to delete a MiB: after / before" \
		"$(calc "${delete_costs[1]} / ${delete_costs[0]}")" "<= 1.2" \
		"${delete_costs[1]} / ${delete_costs[0]} <= 1.2"
	row "  longest transaction of these, s" "$(longest)" "<= 0.1" "$(longest) <= 0.1"
}

# is_wanted SERIES
is_wanted() { [ -z "$only_series" ] || [[ " $only_series " == *" $1 "* ]]; }

fleet_rows() {
	local file
	file=$("$here/fleet.sh" --size "$size")
	mkdir "$dir/fleet"
	mount -o loop,ro "$file" "$dir/fleet"
	mounts+=("$dir/fleet")
	! is_wanted fleet || dedup_rows "a fleet" "$dir/fleet/plain" 0.75
	! is_wanted trimmed || dedup_rows "a fleet, trimmed" "$dir/fleet/trimmed" 0.75
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
}
