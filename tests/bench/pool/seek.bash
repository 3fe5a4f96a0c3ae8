# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# What seeks cost: in a guest whose disk takes 4 ms for each request, init chooses how many
# pieces a segment may be in; then the newest version is restored beside a raw copy, with that
# many, with one, and with the most. seek-guest.sh says what the disk is like.

# P WRITTEN READS KIB-A-READ RATIO LEAST GREATEST
seek_line() {
	local ratio="$5 ($6-$7)" what
	what="P = $1: $2 written / changed, $3 reads of $4 KiB"
	case $1 in
	"$chosen") row "$what" "$ratio" ">= 0.80" "$5 >= 0.8" ;;
	*) row "$what" "$ratio" ;;
	esac
}

part_seek() {
	local slow=32 mib=64 seek_nights=12 turns=$rounds chosen line
	# In counted instructions rounds are almost the same.
	[ "$turns" -le 3 ] || turns=3
	"$tree/scripts/setup.sh" vm
	[ "$size" = full ] || mib=32 seek_nights=6
	mkdir "$dir/here"
	cp "$here"/{seek-guest.sh,measure.bash} "$dir"/bin/{revdedupctl,rawcopy,image} "$dir/here"
	"$tree/scripts/vm-run.sh" --timeout 3600 --mem 3072 --icount --payload "$dir/here:here" \
		-- here/seek-guest.sh "$slow" "$mib" "$seek_nights" "$turns" >"$dir/seek" || {
		cat "$dir/seek" >&2
		die "the guest has failed"
	}
	line=$(grep '^disk ' "$dir/seek")
	chosen=$(sed -n 's/^chosen //p' "$dir/seek")
	title "seek: a disk with 4 ms for each request, and a processor, $slow times as slow" \
		"$seek_nights nights in which 1 % of $mib MiB changes, block by block" \
		"$(sed -n 's/^measured //p' "$dir/seek")" \
		"raw copy: ${line#disk } MB/s; restore of the newest / raw copy:"
	header
	while read -r _ line; do
		# shellcheck disable=SC2086 # words
		seek_line $line
	done < <(grep '^restore ' "$dir/seek")
}
