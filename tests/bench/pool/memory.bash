# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# The greatest memory of each command: on an image of 1 TiB that has one block in each
# segment (--sparse), and on a rewrite of a large disk. On an ext4 that discards nothing, as
# only memory is measured. With many pieces and inline, the index is as large as if the pool
# had a disk more of --sparse GiB of content.

memory_limit=128

# peak WHAT ARGUMENT...: of revdedupctl.
peak() {
	local what=$1 begin=$SECONDS kib
	shift
	/usr/bin/time -q -o "$dir/peak" -f %M revdedupctl -q "$@" >/dev/null ||
		note "$what: exit status $?"
	kib=$(tail -n 1 "$dir/peak")
	row "$what: MiB ($((SECONDS - begin)) s)" "$(calc "$kib / 1024" %.1f)" \
		"<= $memory_limit" "$kib <= $memory_limit * 1024"
}

# peak_of_all NAME KIND BYTES: of a pool with two versions of v, the newest that of
# the image of this kind.
peak_of_all() {
	peak "$1, list" list
	peak "$1, show" show v
	peak "$1, stats" stats
	peak "$1, diff" diff v@1 v@2
	peak "$1, check" check
	peak "$1, scrub" scrub
	# The disk need not have room for both.
	rm "$work/image"
	peak "$1, restore" restore v@1 --to "$work/out"
	peak "$1, restore over it" restore v@2 --to "$work/out" --yes
	rm "$work/out"
	revdedupctl -q init --compression none --pieces 1 "$work/there" --size 4T
	peak "$1, send, either end" send v@2 --to "$work/there"
	rm -rf "$work/there"
	image "$2" "$work/image" "$3" 2
	peak "$1, dump" dump v@2
	peak "$1, repair" repair --rebuild-catalog
	peak "$1, snapshot again" snapshot v --from "$work/image"
	peak "$1, delete" delete v@1
	peak "$1, prune" prune v --keep-last 1
}

# peak_on NAME KIND BYTES: on an image of this kind that is rewritten as a whole.
peak_on() {
	local nr
	for nr in 1 2; do
		image "$2" "$work/image" "$3" $nr
		peak "$1, snapshot $nr" snapshot v --from "$work/image"
	done
	peak_of_all "$@"
	rm "$work/image"
}

# peak_clone NAME KIND BYTES: of another volume that is as v, with a tenth of it changed: all other
# blocks are found.
peak_clone() {
	local first
	image "$2" "$work/image" "$3" 2
	for first in 0 1; do
		image every "$work/image" 20 $((first + 3)) $first >/dev/null
	done
	peak "$1, snapshot of a clone" snapshot clone --from "$work/image"
	rm "$work/image"
}

# inline_on NAME KIND BYTES OPTION...: the same, in many pieces and inline.
inline_on() {
	local small=$dir/small
	new_pool --size 4T --pieces 512 --dedup inline "${@:4}"
	truncate -s 4096 "$small"
	revdedupctl -q snapshot small --from "$small"
	hints "$REVDEDUP_POOL" $((sparse_gib * gib / 4096)) 1
	peak_on "${@:1:3}"
	[ "$2" = sparse ] || peak_clone "${@:1:3}"
	rm -r "$REVDEDUP_POOL/index"
	peak "$1, snapshot and a new index" snapshot small --from "$small"
}

part_memory() {
	local free gibs=16
	[ "$size" = full ] || gibs=1
	free=$(($(df --output=avail -B1 "$dir" | tail -n 1) / gib))
	# Two versions, and the image or one that is restored.
	while [ $((gibs * 3 + 2)) -gt "$free" ]; do
		gibs=$((gibs / 2))
	done
	title "memory: the most that a command has" \
		"sparse: $sparse_gib GiB with a block in each segment" \
		"full: $gibs GiB, all of it rewritten, as $free GiB are free here"
	work=$dir/work
	truncate -s $((free - 1))G "$dir/filesystem"
	on_file "$dir/filesystem" "$work"
	REVDEDUP_POOL=$work/pool
	header
	new_pool
	peak_on full random $((gibs * gib))
	new_pool --size 4T
	peak_on sparse sparse $((sparse_gib * gib))
	inline_on "inline, full" random $((gibs * gib))
	inline_on "inline, sparse" sparse $((sparse_gib * gib))
	inline_on "inline, zstd:1, full" halves $((gibs * gib)) --compression zstd:1
	inline_on "inline, zstd:1, sparse" sparse $((sparse_gib * gib)) --compression zstd:1
	rm -rf "$REVDEDUP_POOL"
	REVDEDUP_POOL=$dir/pool
}
