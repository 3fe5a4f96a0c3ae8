# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# What the number of pieces, and inline deduplication, gain and cost: what is written for what
# changed, how much room that needs, how fast the newest version and the oldest are then.
# Inline deduplication is measured with its index, and without: then it finds only what is at
# the same offset, and what the same snapshot has written.

all_pieces=(1 8 64 512)
nights=20
# Blocks of an image, and those that change in a night.
declare -A night_blocks=([full]=$((2 << 18)) [demo]=$((1 << 16)))

save_to_report() {
	room "$dir/room" "$REVDEDUP_POOL/data" revdedupctl snapshot "$@" --json >"$dir/report"
}

# save VOLUME FILE OPTION...: from cold caches; adds to what was written, changed and needed.
# Room is what the data took at the worst moment, of what a snapshot frees in the end, too.
save() {
	local room disk
	# What earlier snapshots noted in the index; that it had all once is noted elsewhere.
	[ "$dedup" != no-index ] || rm -f "$REVDEDUP_POOL"/index/[0-9]*
	cold
	rm -f "$dir/room"
	timed save_to_report "$1" --from "$2" "${@:3}"
	total=$((total + usec))
	read -r room disk <"$dir/room"
	[ "$room" -le "$most" ] || most=$room
	# The first version of a volume is all new.
	[ "$(field number <"$dir/report")" -ne 1 ] || return 0
	all_written=$((all_written + $(field bytes_stored <"$dir/report")))
	all_disk=$((all_disk + disk))
	all_changed=$((all_changed + $(field blocks_changed <"$dir/report") * 4096))
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

# pieces_row SERIES NEWEST IMAGE OLDEST IMAGE COMMAND...: with $p and $dedup. Adds to verdicts
# and stored_of.
pieces_row() {
	local newest_ratio written=- stored rule=$dedup
	total=0 most=0 all_written=0 all_disk=0 all_changed=0
	[ "$dedup" != no-index ] || rule=inline
	new_pool --pieces "$p" --dedup "$rule"
	"${@:6}"
	restore_ratio "$2" "$3"
	newest_ratio=$ratio
	restore_ratio "$4" "$5"
	stored=$(pool_bytes)
	# What is written is compressed, and what has changed is not: that would say nothing.
	[ "$compression" != none ] || written=$(calc "$all_written / $all_changed" %.2f)
	printf '%-10s %4s %-8s %8s %8s %7d %7d %7.1f %7s %7s\n' "$1" "$p" "$dedup" "$written" \
		"$(calc "$all_disk / $all_changed" %.2f)" $((most / mib)) $((stored / mib)) \
		"$(calc "$total / 1e6")" "$newest_ratio" "$ratio"
	verdicts+=("$1 $p $dedup $written")
	stored_of[$1,$p,$dedup]=$stored
}

# vm_rows SERIES VOLUME: of a directory that series.sh made, $from. The newest and the oldest
# are those of vm1.
vm_rows() {
	local newest
	newest=$(grep -c '^vm1 ' "$from/order")
	pieces_row "$1" vm1@latest "$from/vm1-$newest.img" vm1@1 "$from/vm1-1.img" \
		ordered_series "$2"
}

# rows_of_pieces: of each series, with $p and $dedup
rows_of_pieces() {
	local one
	for one in "${wanted_series[@]}"; do
		from=$series
		case $one in
		disk) vm_rows disk vm1 ;;
		disks) vm_rows disks vm ;;
		layouts)
			from=$layouts
			vm_rows layouts vm
			;;
		database)
			from=$database
			pieces_row database db@latest "$from/db-8.img" db@1 "$from/db-1.img" \
				ordered_series db
			;;
		nights) pieces_row nights v@latest "$dir/night" v@1 "$dir/night-1" nights_series ;;
		esac
	done
}

# --- what is wanted, and what the index gains

verdict_rows() {
	local verdict series p dedup ratio most
	header
	for verdict in "${verdicts[@]}"; do
		read -r series p dedup ratio <<<"$verdict"
		most=
		[ "$series" != nights ] || most="1.5 + 1024 / $p"
		[ "$series $p" != "database 512" ] || most=2
		[ -z "$most" ] || [ "$ratio" = - ] ||
			row "$series, P = $p, $dedup: written / changed" "$ratio" \
				"<= $(calc "$most" %.1f)" "$ratio <= $most"
	done
}

# gain SERIES P LESS MORE: how much less is stored, in percent of what reverse stores.
gain() {
	calc "100 * (${stored_of[$1,$2,$3]} - ${stored_of[$1,$2,$4]}) / ${stored_of[$1,$2,reverse]}" \
		%.1f
}

gain_rows() {
	local series p
	printf '\n%-10s %4s %20s %20s\n' series P "same snapshot, %" "the index, %"
	for series in "$@"; do
		for p in "${all_pieces[@]:1}"; do
			printf '%-10s %4s %20s %20s\n' "$series" "$p" \
				"$(gain "$series" "$p" reverse no-index)" \
				"$(gain "$series" "$p" no-index inline)"
		done
	done
}

part_pieces() {
	local p dedup
	local -a verdicts=()
	local -A stored_of=()
	local -a wanted_series
	read -r -a wanted_series <<<"${only_series:-disk disks layouts database nights}"
	[ "$size" = full ] || wanted_series=(disk nights)
	find_series
	if [ "$size" = full ]; then
		database=$("$here/database.sh")
		layouts=$("$here/series.sh" --size layouts)
	fi
	title "pieces: $compression" \
		"nights: $nights versions in which 0.5 % of the blocks change, anywhere" \
		"no-index: inline, but of other snapshots only what is at the same offset is found" \
		"written: bytes of content written / bytes changed; disk: all bytes written / bytes changed" \
		"room, stored: MiB; newest, oldest: restore / raw copy"
	printf '\n%-10s %4s %-8s %8s %8s %7s %7s %7s %7s %7s\n' series P dedup written disk room \
		stored "time, s" newest oldest
	for dedup in reverse no-index inline; do
		for p in "${all_pieces[@]}"; do
			# To refer to what is elsewhere takes more than one piece.
			[[ $p$dedup =~ ^1(no-index|inline)$ ]] || rows_of_pieces
		done
	done
	verdict_rows
	gain_rows "${wanted_series[@]}"
	rm -f "$dir/night" "$dir/night-1"
}
