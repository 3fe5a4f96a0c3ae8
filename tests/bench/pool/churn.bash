# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# The last versions of a disk that changes all the time: their size, and the speed at which
# the oldest comes back, must not depend on how many versions there have been. What deletions leave
# of the data's file, full of holes, beside that of a pool that has had no more versions than those
# which are kept.

churn_versions=300
churn_keep=20
churn_mib=256

# Prints "SEGMENT RECIPE REF OWN".
count_rows() {
	sqlite3 -readonly -separator ' ' "$REVDEDUP_POOL/catalog.db" "SELECT
		(SELECT count(*) FROM segment), (SELECT count(*) FROM recipe),
		(SELECT count(*) FROM recipe_ref), (SELECT count(*) FROM slot_owner)"
}

no_out() { rm -f "$dir/out"; }
restore_oldest() { revdedupctl -q restore "v@$oldest" --to "$dir/out"; }
copy_newest() { rawcopy "$dir/image" "$dir/out"; }

# Prints a line, and adds to $dir/churned: the share of a raw copy's speed, which is
# not that of whatever else this machine does, rows, bytes.
look_at() {
	local oldest=$(($1 - churn_keep + 1)) rows bytes
	compare no_out restore_oldest copy_newest
	read -r -a rows <<<"$(count_rows)"
	bytes=$(bytes_of "$REVDEDUP_POOL/data" "$REVDEDUP_POOL"/catalog.db*)
	printf '%-10s %21s %9s %9s %9s %9s %20s\n' "$1" "$(spread)" "${rows[@]}" \
		"$(calc "$bytes / $churn_keep / $mib" %.2f)"
	echo "$(median "${ratios[@]}") $((rows[0] + rows[1] + rows[2] + rows[3])) $bytes" >>"$dir/churned"
}

# flat_row WHAT COLUMN GREATEST
flat_row() {
	local ratio
	ratio=$(awk -v n="$2" 'NR == 1 { min = max = $n } $n < min { min = $n }
		$n > max { max = $n } END { printf "%.3f", max / min }' "$dir/churned")
	row "$1, greatest / least" "$ratio" "<= $3" "$ratio <= $3"
}

# take_churned NUMBER: changes the image, and a snapshot.
take_churned() {
	[ "$1" -eq 1 ] || image churn "$dir/image" $((churn_mib * 256 / 100)) "$1" >/dev/null
	revdedupctl -q snapshot v --from "$dir/image"
}

# extent_rows: of the pool, and of a fresh one that has the versions which are kept.
extent_rows() {
	local aged fresh bytes each number
	sync
	bytes=$(data_file_bytes)
	read -r -a aged <<<"$(extents_of "$REVDEDUP_POOL/data")"
	mv "$dir/image-kept" "$dir/image"
	new_pool
	revdedupctl -q snapshot v --from "$dir/image"
	for ((number = churn_versions - churn_keep + 2; number <= churn_versions; number++)); do
		take_churned "$number"
	done
	sync
	read -r -a fresh <<<"$(extents_of "$REVDEDUP_POOL/data")"
	row "extents of the data's file, and that of a fresh pool" "${aged[0]}, ${fresh[0]}"
	row "  places on the disk, the same" "${aged[1]}, ${fresh[1]}"
	# As large as a frame, in which a segment is read at once.
	each=$(calc "$bytes / ${aged[0]} / $mib" %.1f)
	row "  MiB of an extent, the same" \
		"$each, $(calc "$(data_file_bytes) / ${fresh[0]} / $mib" %.1f)" ">= 2" "$each >= 2"
}

part_churn() {
	local number begin=$SECONDS
	: >"$dir/churned"
	new_pool
	# First as often as it takes until it has as many blocks twice as ever.
	image random "$dir/image" $((churn_mib * mib)) 1
	image churn "$dir/image" $((churn_mib * 256 * 5)) 0 >/dev/null
	title "churn: $churn_versions versions of $churn_mib MiB, the last $churn_keep kept" \
		"1 % of the blocks change each time, half of them to what others have"
	printf '\n%-10s %21s %9s %9s %9s %9s %20s\n' versions "oldest / raw copy" \
		segments recipes at here "MiB a kept version"
	for ((number = 1; number <= churn_versions; number++)); do
		take_churned "$number"
		[ "$number" -ne $((churn_versions - churn_keep + 1)) ] ||
			cp "$dir/image" "$dir/image-kept"
		[ "$number" -le "$churn_keep" ] ||
			revdedupctl -q prune v --keep-last "$churn_keep"
		((number % 50)) || look_at "$number"
	done
	header
	flat_row "restore of the oldest kept" 1 1.25
	flat_row "rows in the catalog" 2 1.1
	flat_row "bytes in the pool" 3 1.1
	extent_rows
	note "churn took $((SECONDS - begin)) s"
	rm -f "$dir/image" "$dir/out"
}
