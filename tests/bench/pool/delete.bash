# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Deleting a version, beside the file system's own time for as many plain holes of that
# size. On the disk to be measured, and on an ext4 in memory, which discards nothing, so
# that only the share of revdedupctl remains. And beside a mark-and-sweep, which reads what all
# versions have.

remove_version() { revdedupctl delete "$1" --json >"$dir/deleted"; }

# Sets usec, freed (as it says) and back (what the file has less).
time_delete() {
	local before
	before=$(data_file_bytes)
	turn remove_version "$1"
	back=$((before - $(data_file_bytes)))
	freed=$(field bytes <"$dir/deleted")
}

# plain_holes NR LENGTH STEP: sets plain.
plain_holes() {
	plain=$(punch "$work/holes" "$@")
	rm "$work/holes"
}

# print_delete WHAT LIMIT-SECONDS-A-GIB
print_delete() {
	local limit
	limit=$(calc "0.3 + $2 * $freed / $gib")
	row "$1: s, of $((freed / 1024)) KiB" "$(calc "$usec / 1e6")" "<= $limit" \
		"$usec / 1e6 <= $limit"
	[ -z "${plain:-}" ] || row "  plain holes of that size: s, and our share of it" \
		"$(calc "$plain / 1e6") $(calc "$usec / $plain" %.2f)"
	# The map of a file with many holes, and the journal, are of the same file.
	row "  space back, KiB" $((back / 1024)) ">= $((freed * 99 / 102400 - 64))" \
		"$back >= 0.99 * $freed - 65536"
}

# take IMAGE-VERB NUMBER SEED: change the image, and a snapshot.
take_of() {
	image "$1" "$work/image" "$2" "$3" >/dev/null
	revdedupctl -q snapshot v --from "$work/image"
}

# Three versions that have nothing in common: the second in whole frames.
delete_whole() {
	new_pool
	take_of random $(($1 * mib)) 1
	take_of random $(($1 * mib)) 2
	take_of random $(($1 * mib)) 3
	time_delete v@2
	plain_holes $(($1 / 2)) $((2 * mib)) $((2 * mib))
	print_delete "$2, whole segments" 0.3
	rm "$work/image"
}

# The second version has every STEPth block alone; the others are the first's, too.
delete_scattered() {
	local step=$2
	new_pool
	take_of random $(($1 * mib)) 1
	take_of every "$step" 2
	take_of random $(($1 * mib)) 3
	time_delete v@2
	plain_holes $(($1 * 256 / step)) 4096 $((4096 * step))
	print_delete "$3, single blocks, one of $step" 2
	rm "$work/image"
}

# in_directory DIRECTORY NAME
in_directory() {
	local size
	work=$1
	REVDEDUP_POOL=$work/pool
	for size in 256 1024; do
		delete_whole "$size" "$2"
	done
	delete_scattered 128 2 "$2"
	delete_scattered 512 16 "$2"
	rm -rf "$REVDEDUP_POOL"
	REVDEDUP_POOL=$dir/pool
}

# What there really is: versions of the series, from the middle outwards.
of_the_series() {
	local number
	plain=
	take_series
	for number in 7 4 10 2 12 13 1; do
		time_delete "vm1@$number"
		print_delete "the series, vm1@$number" 0.3
	done
	rm -rf "$REVDEDUP_POOL"
}

# --- beside a mark-and-sweep

# bytes_read: by read() and the like, of this shell and all that it has waited for.
bytes_read() { awk '/^rchar/ { print $2 }' /proc/$$/io; }

# reading NAME COMMAND...: from cold caches. Adds to usecs and kibs of that name.
reading() {
	local before
	cold
	before=$(bytes_read)
	timed "${@:2}"
	usecs[$1]+=" $usec"
	kibs[$1]+=" $((($(bytes_read) - before) / 1024))"
}

# "check" marks as a mark-and-sweep does: it goes through the recipes of all versions, and counts
# the references to each block. It frees nothing, so there is less that it does.
marked_rows() {
	local number
	local -A usecs=() kibs=()
	new_pool
	image random "$dir/image" $((128 * mib)) 1
	for ((number = 1; number <= $1; number++)); do
		revdedupctl -q snapshot v --from "$dir/image"
		image some "$dir/image" 328 "$number" >/dev/null
	done
	for ((number = 0; number < rounds; number++)); do
		reading check revdedupctl check
		reading delete revdedupctl delete "v@$(($1 / 2 + number))" --json
	done
	# shellcheck disable=SC2086 # they are lists of numbers
	{
		marked_row "one of $1 versions: delete, check, ms, and their ratio" \
			$(($(median ${usecs[delete]}) / 1000)) $(($(median ${usecs[check]}) / 1000))
		marked_row "  KiB that they read, the same" \
			"$(median ${kibs[delete]})" "$(median ${kibs[check]})"
	}
	rm "$dir/image"
}

marked_row() { row "$1" "$2 $3 $(calc "$2 / $3")"; }

part_delete() {
	title "delete"
	header
	marked_rows 25
	marked_rows 100
	in_directory "$dir" disk
	on_memory small $((6 * gib))
	in_directory "$mounted" "ext4 in memory"
	of_the_series
}
