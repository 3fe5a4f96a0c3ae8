# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# What the number of pieces, and inline deduplication, gain and cost: what is written for what
# changed, how much room that needs, how fast the newest version and the oldest are then.

all_pieces=(1 8 64 512)
nights=20
# Blocks of an image, and those that change in a night.
declare -A night_blocks=([full]=$((2 << 18)) [demo]=$((1 << 16)))

# save VOLUME FILE OPTION...: from cold caches; adds to what was written, changed and needed.
# Room is what the data took at the worst moment, of what a snapshot frees in the end, too.
save() {
	local report written changed
	cold
	rm -f "$dir/room"
	timed room "$dir/room" "$REVDEDUP_POOL/data" \
		revdedupctl -q snapshot "$1" --from "$2" "${@:3}"
	total=$((total + usec))
	[ "$(<"$dir/room")" -le "$most" ] || most=$(<"$dir/room")
	report=$(revdedupctl show "$1@latest" --json)
	written=$(field bytes_stored <<<"$report")
	changed=$(field blocks_changed <<<"$report")
	# The first version of a volume is all new.
	[ "$(field number <<<"$report")" -eq 1 ] && return
	all_written=$((all_written + written))
	all_changed=$((all_changed + changed * 4096))
}

# --- series: each is a function NAME OPTION..., which takes all snapshots

nights_series() {
	local night blocks=${night_blocks[$size]}
	image halves "$dir/night" $((blocks * 4096)) 1
	cp "$dir/night" "$dir/night-1"
	save v "$dir/night" "$@"
	for ((night = 1; night <= nights; night++)); do
		image some "$dir/night" $((blocks / 200)) $((night + 1)) >/dev/null
		save v "$dir/night" "$@"
	done
}

ordered_series() {
	local volume file
	while read -r volume file; do
		save "$volume" "$from/$file" "${@:2}"
	done < <(grep "^$1" "$from/order")
}

# --- restore beside a raw copy

restore_one() { revdedupctl -q restore "$one" --to "$dir/out"; }
copy_one() { rawcopy "$one_image" "$dir/out"; }
no_one() { rm -f "$dir/out"; }

# restore_ratio VERSION IMAGE: sets ratio.
restore_ratio() {
	one=$1 one_image=$2
	compare no_one restore_one copy_one 3
	ratio=$(median "${ratios[@]}")
	rm -f "$dir/out"
}

# pieces_row SERIES NEWEST IMAGE OLDEST IMAGE P DEDUP COMMAND...; adds to verdicts.
pieces_row() {
	local newest_ratio
	total=0 most=0 all_written=0 all_changed=0
	new_pool --pieces "$6" --dedup "$7"
	"${@:8}"
	restore_ratio "$2" "$3"
	newest_ratio=$ratio
	restore_ratio "$4" "$5"
	printf '%-10s %4s %-8s %9s %8d %8d %8.1f %7s %7s\n' "$1" "$6" "$7" \
		"$(calc "$all_written / $all_changed" %.2f)" $((most / mib)) \
		$(($(pool_bytes) / mib)) "$(calc "$total / 1e6")" "$newest_ratio" "$ratio"
	verdicts+=("$1 $6 $7 $(calc "$all_written / $all_changed")")
}

# rows_of_pieces P DEDUP: of each series
rows_of_pieces() {
	local newest
	pieces_row nights v@latest "$dir/night" v@1 "$dir/night-1" "$1" "$2" nights_series
	newest=$(grep -c '^vm1 ' "$series/order")
	from=$series
	pieces_row disk vm1@latest "$from/vm1-$newest.img" vm1@1 "$from/vm1-1.img" "$1" "$2" \
		ordered_series vm1
	[ "$size" = full ] || return 0
	pieces_row disks vm1@latest "$from/vm1-$newest.img" vm1@1 "$from/vm1-1.img" "$1" "$2" \
		ordered_series vm
	from=$database
	pieces_row database db@latest "$from/db-8.img" db@1 "$from/db-1.img" "$1" "$2" \
		ordered_series db
}

verdict_rows() {
	local verdict series p dedup ratio most
	header
	for verdict in "${verdicts[@]}"; do
		read -r series p dedup ratio <<<"$verdict"
		most=
		[ "$series" != nights ] || most="1.5 + 1024 / $p"
		[ "$series $p" != "database 512" ] || most=2
		# What is written is smaller where it is compressed, so that says less.
		[ -z "$most" ] || row "$series, P = $p, $dedup: written / changed" "$ratio" \
			"<= $(calc "$most" %.1f)" "$ratio <= $most"
	done
}

part_pieces() {
	local p dedup
	verdicts=()
	find_series
	[ "$size" = demo ] || database=$("$here/database.sh")
	title "pieces: $compression" \
		"nights: $nights versions in which 0.5 % of the blocks change, anywhere" \
		"written: bytes written / bytes changed; room, stored: MiB; newest, oldest: restore / raw copy"
	printf '\n%-10s %4s %-8s %9s %8s %8s %8s %7s %7s\n' series P dedup written room stored \
		"time, s" newest oldest
	for dedup in reverse inline; do
		for p in "${all_pieces[@]}"; do
			# To refer to what is elsewhere takes more than one piece.
			[ "$p$dedup" = 1inline ] || rows_of_pieces "$p" "$dedup"
		done
	done
	verdict_rows
	rm -f "$dir/night" "$dir/night-1"
}
