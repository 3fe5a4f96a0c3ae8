# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154,SC2119,SC2120 # others use it
# What all parts use to measure and to print.

gib=$((1 << 30))
mib=$((1 << 20))

# calc EXPRESSION [FORMAT]: what bash has no numbers for.
calc() { awk "BEGIN { printf \"${2:-%.3f}\", ($1) }"; }

# --- tables

title() {
	printf '\n=== %s ===\n' "$1"
	[ $# -eq 1 ] || printf '%s\n' "${@:2}"
}

header() {
	printf '\n%-56s %22s %10s\n' what measured wanted
}

# row WHAT MEASURED [WANTED CONDITION]: an awk condition says whether it is ok.
row() {
	local verdict=''
	if [ $# -ge 4 ]; then
		verdict=ok
		# Not 1 also where what was to be measured failed.
		if [ "$(calc "($4) ? 1 : 0" %d)" != 1 ]; then
			verdict=short
			short=$((short + 1))
		fi
	fi
	printf '%-56s %22s %10s  %s\n' "$1" "$2" "${3:-}" "$verdict"
}

# --- time

cold() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# timed COMMAND...: sets usec.
timed() {
	local begin=${EPOCHREALTIME/[.,]/}
	"$@" >/dev/null
	usec=$((${EPOCHREALTIME/[.,]/} - begin))
}

# turn COMMAND...: the same from cold caches.
turn() {
	cold
	timed "$@"
}

# compare PREPARE OURS RAW [ROUNDS]: three functions. Sets ratios: in order, how
# fast OURS is as a share of RAW, in each round.
compare() {
	local i ours raw n=${4:-$rounds}
	ratios=()
	for ((i = 0; i < n; i++)); do
		# Neither is always the one that comes after the other.
		if ((i % 2)); then
			"$1"; turn "$3"; raw=$usec
			"$1"; turn "$2"; ours=$usec
		else
			"$1"; turn "$2"; ours=$usec
			"$1"; turn "$3"; raw=$usec
		fi
		ratios+=("$(calc "$raw / $ours")")
	done
	mapfile -t ratios < <(printf '%s\n' "${ratios[@]}" | sort -n)
}

# median NUMBER...
median() {
	printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

spread() { printf '%s (%s-%s)' "$(median "${ratios[@]}")" "${ratios[0]}" "${ratios[-1]}"; }

# ratio_row WHAT LEAST: of what compare() has found.
ratio_row() {
	row "$1" "$(spread)" ">= $2" "$(median "${ratios[@]}") >= $2"
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

# --- space

# What files take on the disk.
bytes_of() { du -cB1 "$@" | awk 'END { print $1 }'; }

data_file_bytes() { bytes_of "$REVDEDUP_POOL/data"; }

# The index is there only where something was looked up in it.
pool_bytes() {
	local index=()
	[ ! -d "$REVDEDUP_POOL/index" ] || index=("$REVDEDUP_POOL/index")
	bytes_of "$REVDEDUP_POOL/data" "$REVDEDUP_POOL"/catalog.db* "${index[@]}"
}

# field NAME: of the JSON objects on standard input, a number a line.
field() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"; }

# extents_of FILE: prints how many its map has, and at how many places on the disk, of which each
# but the first is a seek. A hole in what lies in one place is only in the map.
extents_of() {
	filefrag -v "$1" | awk '/^ *[0-9]+:/ { map++ } / extents? found$/ { places = $(NF - 2) }
		END { print map + 0, places + 0 }'
}

# --- pools

# new_pool [OPTION...]: in one piece, unless these say more, or --default was given.
new_pool() {
	rm -rf "$REVDEDUP_POOL"
	revdedupctl init --compression "$compression" "${pool_options[@]}" "$@" "$REVDEDUP_POOL" >/dev/null
}

# on_memory NAME BYTES: mount an ext4 that lies in memory. Sets mounted.
on_memory() {
	local bytes=$2
	mounted=$dir/$1
	: "${shm:=$(mktemp -d /dev/shm/revdedup-bench.XXXXXX)}"
	truncate -s "$bytes" "$shm/$1"
	on_file "$shm/$1" "$mounted"
}

# on_file FILE DIRECTORY: an ext4 in a file, which never discards anything.
on_file() {
	mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$1"
	mkdir "$2"
	mount -o loop,nodiscard "$1" "$2"
	mounts+=("$2")
}

# find_pieces: "auto" becomes the number of pieces that suits this disk.
find_pieces() {
	[ "$pieces" = auto ] || return 0
	new_pool --pieces auto
	pieces=$(revdedupctl stats --json | field pieces)
	note "$pieces pieces suit this disk"
}

# --- the series

# is_wanted SERIES
is_wanted() { [ -z "$only_series" ] || [[ " $only_series " == *" $1 "* ]]; }

# The directory of the images, made if the cache has them not.
find_series() {
	series=${series:-$("$here/series.sh" --size "${size/demo/small}")}
}

# Set fleet to the directory that has the series of a fleet.
find_fleet() {
	local file
	fleet=$dir/fleet
	[ ! -d "$fleet" ] || return 0
	file=$("$here/fleet.sh" --size "$size")
	mkdir "$fleet"
	mount -o loop,ro "$file" "$fleet"
	mounts+=("$fleet")
}

# sqlite_instead MILLIONS ROW SQL...: put so many million rows into the table e of SQLite, in one
# transaction, with a cache of 32 MiB, and neither a journal nor flushes: ROW of each number i. Sets
# usec, and kib, its memory. The rest of SQL is run before and after that.
sqlite_instead() {
	local numbers="WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1e6)"
	rm -f "$dir/sqlite"
	timed env SQLITE_TMPDIR="$dir" /usr/bin/time -q -o "$dir/peak" -f %M sqlite3 "$dir/sqlite" \
		"PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -32768" \
		"$3; BEGIN; $numbers INSERT INTO e SELECT $2 FROM n; COMMIT" "${@:4}"
	kib=$(tail -n 1 "$dir/peak")
	rm "$dir/sqlite"
}

# take_series [HOOK [OPTION...]]: all snapshots in a new pool, each from cold caches. Their
# reports go to $dir/reports, the microseconds of all to series_usec. HOOK VOLUME
# FILE is called after each.
take_series() {
	local volume file
	find_series
	new_pool "${@:2}"
	: >"$dir/reports"
	series_usec=0
	while read -r volume file; do
		cold
		timed snapshot_to_reports "$volume" "$series/$file"
		series_usec=$((series_usec + usec))
		[ $# -eq 0 ] || "$1" "$volume" "$file"
	done <"$series/order"
}

# note_staying VOLUME FILE: a hook. Adds the segments of the newest version of which all blocks lie
# in others, to $dir/staying, as tests/pool/rule.c wants them.
note_staying() {
	sqlite3 -readonly -separator ' ' "$REVDEDUP_POOL/catalog.db" "SELECT '$2', s.segment
		FROM segment s JOIN volume v ON v.id = s.volume
		WHERE v.name = '$1' AND s.born = (SELECT max(born) FROM segment
			WHERE volume = s.volume AND segment = s.segment)
		AND s.recipe IN (SELECT source FROM recipe_ref)
		AND s.recipe NOT IN (SELECT recipe FROM slot_owner)" >>"$dir/staying"
}

# take_for_rule [OPTION...]: the series, and to $dir/rules what the rule leaves of it.
take_for_rule() {
	: >"$dir/staying"
	take_series note_staying "$@"
	rule "$series/order" "$dir/staying" >"$dir/rules"
}

snapshot_to_reports() {
	revdedupctl snapshot "$1" --from "$2" --json >>"$dir/reports"
}

# sum_of NAME: of all reports.
sum_of() { field "$1" <"$dir/reports" | awk '{ n += $1 } END { printf "%d", n }'; }
