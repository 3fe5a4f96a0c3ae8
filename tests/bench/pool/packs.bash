# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# What packs gain and cost: five series, stored by this pool and by others that compress;
# speed beside what the processors and the disk allow; what cannot be compressed; what the
# churn of many versions leaves behind.

# --- size and time of a series

# all_in ORDER DIR OPTION...: all snapshots in a new pool. Sets total.
all_in() {
	local volume file order=$1 from=$2
	new_pool "${@:3}"
	total=0
	while read -r volume file; do
		cold
		timed revdedupctl -q snapshot "$volume" --from "$from/$file"
		total=$((total + usec))
	done <"$order"
}

# all_of_peer PEER OPTIONS ORDER DIR: sets total and bytes.
all_of_peer() {
	local file
	repo=$dir/repo options=$2 total=0
	rm -rf "$repo"
	"$1_init" >/dev/null
	while read -r _ file; do
		cold
		timed "$1_save" "${file%.img}" "$4/$file"
		total=$((total + usec))
	done <"$3"
	bytes=$(bytes_of "$repo")
	print_series "$1 $2" "$total" "$bytes"
	rm -rf "$repo"
}

print_series() { printf '%-44s %10s %12s\n' "$1" "$(calc "$2 / 1e6" %.1f)" $(($3 / mib)); }

# on_btrfs: a file system that compresses what is written to it. (Direct writes it does not
# compress, so the pool's do not gain.)
pool_on_btrfs() {
	local order=$1 from=$2 pool=$REVDEDUP_POOL
	mkfs.btrfs -q "$dir/btrfs" &>/dev/null
	mkdir -p "$dir/on-btrfs"
	mount -o loop,compress=zstd:1 "$dir/btrfs" "$dir/on-btrfs"
	REVDEDUP_POOL=$dir/on-btrfs/pool
	all_in "$order" "$from" --compression none
	sync
	print_series "revdedupctl none, on btrfs with zstd:1" "$total" \
		$(($(df --output=used -B1 "$dir/on-btrfs" | tail -n 1)))
	REVDEDUP_POOL=$pool
	umount "$dir/on-btrfs"
	rm -f "$dir/btrfs"
}

# series_rows NAME DIR [VOLUME]: all volumes, or one. With 64 pieces and inline it is what init
# makes on a disk that does not seek.
series_rows() {
	local order=$dir/order from=$2 stored p restic_total restic_bytes
	local -a inline=() ours=()
	grep "^${3:-}" "$2/order" >"$order"
	printf '\n%-44s %10s %12s\n' "$1: $(wc -l <"$order") versions" "backup, s" MiB
	all_in "$order" "$from" --compression none
	print_series "revdedupctl none" "$total" "$(pool_bytes)"
	all_in "$order" "$from" --compression "$compression"
	ours[1]=$total stored=$(pool_bytes)
	print_series "revdedupctl $compression" "$total" "$stored"
	for p in "${inline_pieces[@]}"; do
		all_in "$order" "$from" --compression "$compression" --pieces "$p" --dedup inline
		ours[p]=$total inline[p]=$(pool_bytes)
		print_series "revdedupctl $compression, P = $p, inline" "$total" "${inline[p]}"
	done
	truncate -s 40G "$dir/btrfs"
	pool_on_btrfs "$order" "$from"
	all_of_peer restic "" "$order" "$from"
	restic_total=$total restic_bytes=$bytes
	all_of_peer borg "--compression zstd,1 --sparse --chunker-params fixed,4194304" \
		"$order" "$from"
	header
	row "$1: stored / restic" "$(calc "$stored / $restic_bytes")" "<= 0.95" \
		"$stored / $restic_bytes <= 0.95"
	for p in "${inline_pieces[@]}"; do
		row "$1: stored in $p pieces, inline / restic, / borg" \
			"$(calc "${inline[p]} / $restic_bytes") $(calc "${inline[p]} / $bytes")" \
			"<= 0.80" "${inline[p]} / $restic_bytes <= 0.80"
	done
	for p in "${!ours[@]}"; do
		row "$1: all backups, P = $p / restic" "$(calc "${ours[p]} / $restic_total")" \
			"<= 0.25" "${ours[p]} / $restic_total <= 0.25"
		row "$1: all backups, P = $p / borg" "$(calc "${ours[p]} / $total")" "<= 0.8" \
			"${ours[p]} / $total <= 0.8"
	done
}

# --- speed

take_packed() { revdedupctl -q snapshot v --from "$image"; }
take_none() { revdedupctl -q snapshot v --from "$image" --compression none; }
in_memory() { sleep "$(calc "$limit / 1e6")"; }
fresh_packed() { new_pool --compression "$compression"; rm -f "$dir/out"; }
copy_out() { rawcopy "$image" "$dir/out"; }

speed_rows() {
	image=$1
	header
	limit=$(limit "$image" "$level")
	compare fresh_packed take_packed in_memory
	ratio_row "$2: first snapshot / hashing and compressing in memory" 0.9
	compare fresh_packed take_packed copy_out
	ratio_row "$2: first snapshot / raw copy" "$3"
	rm -f "$dir/out"
}

rows_of_incompressible() {
	local packed raw ratio
	image random "$dir/noise" $((2 * gib)) 1
	image=$dir/noise
	header
	compare fresh_packed take_packed take_none
	ratio=$(calc "1 / $(median "${ratios[@]}")")
	row "no content to compress: time / none" "$ratio" "<= 1.6" "$ratio <= 1.6"
	fresh_packed
	take_packed
	packed=$(pool_bytes)
	new_pool
	take_none
	raw=$(pool_bytes)
	row "  and bytes / none" "$(calc "$packed / $raw" %.4f)" "<= 1.003" \
		"$packed / $raw <= 1.003"
	rm "$dir/noise"
}

# --- other commands

scrub_all() { revdedupctl -q scrub; }
delete_one() { revdedupctl -q delete vm1@5; }
prune_old() { revdedupctl -q prune vm1 --keep-last 6; }

# time_commands: sets times to what each takes on the pool that there is.
time_commands() {
	local command
	times=()
	for command in scrub_all delete_one prune_old; do
		turn "$command"
		times+=("$usec")
	done
}

rows_of_commands() {
	local what i=0 raw
	grep "^vm1 " "$series/order" >"$dir/order"
	all_in "$dir/order" "$series" --compression none
	time_commands
	raw=("${times[@]}")
	all_in "$dir/order" "$series" --compression "$compression"
	time_commands
	header
	for what in "scrub of 13 versions" "delete of one" "prune of half"; do
		row "$what: s, and time / none" \
			"$(calc "${times[i]} / 1e6" %.2f) $(calc "${times[i]} / ${raw[i]}" %.2f)" \
			"<= 2" "${times[i]} / ${raw[i]} <= 2"
		i=$((i + 1))
	done
}

# --- dead bytes

rows_of_churn() {
	local number dead stored
	new_pool --compression "$compression"
	image=$dir/churn
	cp --sparse=always "$1" "$image"
	for ((number = 1; number <= 300; number++)); do
		[ "$number" -eq 1 ] || image every "$image" 64 "$number" >/dev/null
		revdedupctl -q snapshot v --from "$image"
		[ "$number" -le 20 ] || revdedupctl -q prune v --keep-last 20
	done
	dead=$(revdedupctl stats --json | field bytes_dead)
	stored=$(pool_bytes)
	header
	row "dead bytes of packs after 300 versions / stored" "$(calc "$dead / $stored" %.4f)" \
		"<= 0.03" "$dead / $stored <= 0.03"
	# Each must still be what it was.
	for number in 281 290 300; do
		revdedupctl -q dump "v@$number" >/dev/null
	done
	rm "$image"
}

# packs_of SERIES: the rows of one.
packs_of() {
	case $1 in
	demo) series_rows demo "$("$here/series.sh" --size small)" ;;
	disk) series_rows "one disk" "$series" "vm1 " ;;
	disks) series_rows "three disks" "$series" ;;
	layouts) series_rows layouts "$("$here/series.sh" --size layouts)" ;;
	database) series_rows database "$("$here/database.sh")" ;;
	esac
}

part_packs() {
	local one
	local -a inline_pieces=(64 512) wanted_series
	[ "$compression" != none ] || compression=zstd:1
	level=${compression#zstd}
	level=${level#:}
	level=${level:-1}
	# shellcheck source=tests/bench/pool/peers.bash
	. "$here/peers.bash"
	read -r -a wanted_series <<<"${only_series:-demo disk disks layouts database}"
	[ "$size" = full ] || wanted_series=(demo)
	[ "${wanted_series[*]}" = demo ] || find_series
	title "packs: $compression"
	for one in "${wanted_series[@]}"; do
		packs_of "$one"
	done
	[ "$size$only_series" = full ] || return 0
	title "packs: speed"
	speed_rows "$series/vm1-13.img" "vm1@13" 0.5
	speed_rows "$("$here/database.sh")/db-8.img" "db@8" 0.5
	rows_of_incompressible
	rows_of_commands
	rows_of_churn "$("$here/series.sh" --size small)/vm1-4.img"
}
