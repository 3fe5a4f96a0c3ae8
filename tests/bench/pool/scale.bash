# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# The cost of commands for n and for 4 n: of segments that a version has, of versions, of
# volumes, of recipes that point at one that goes. A command whose cost follows its change
# takes as much longer as the change is larger, and no longer for the same change. Images
# have a block in each segment, as only the catalog and the fingerprints matter.

scale_limit=4.4
# What takes less is lost in what any command takes.
scale_least=0.15

# cost ARGUMENT...: of revdedupctl. Sets seconds, cpu and kib, of which the greatest
# goes to peak_kib.
cost() {
	local TIMEFORMAT='%R %U %S' user system
	{ time /usr/bin/time -q -o "$dir/peak" -f %M revdedupctl -q "$@" >/dev/null 2>&1; } \
		2>"$dir/time" || note "$1: exit status $?"
	read -r seconds user system <"$dir/time"
	cpu=$(calc "$user + $system")
	kib=$(tail -n 1 "$dir/peak")
}

declare -A cost_of kib_of

# at SIZE WHAT ARGUMENT...: note what the command takes at size n or 4n.
at() {
	cost "${@:3}"
	cost_of[$1,$2]="$seconds $cpu"
	[ "$kib" -le "${kib_of[$2]:-0}" ] || kib_of[$2]=$kib
}

# scale_row WHAT N CHANGE: of what at() has noted. By the processor's time, which the
# rest of the machine changes less.
scale_row() {
	local s s4 cpu cpu4 ratio verdict=ok
	read -r s cpu <<<"${cost_of[n,$1]}"
	read -r s4 cpu4 <<<"${cost_of[4n,$1]}"
	ratio=$(calc "$cpu4 / ($cpu + 0.001)" %.2f)
	if [ "$(calc "($cpu4 <= $scale_least || $ratio <= $scale_limit) ? 1 : 0" %d)" != 1 ] ||
		[ "$((${kib_of[$1]}))" -gt $((128 * 1024)) ]; then
		verdict=short
		short=$((short + 1))
	fi
	printf '%-30s %8s %-22s %8s %8s %8s %8s %6s %7s  %s\n' "$1" "$2" "$3" "$s" "$s4" \
		"$cpu" "$cpu4" "$ratio" $((kib_of[$1] / 1024)) "$verdict"
}

scale_header() {
	printf '\n%-30s %8s %-22s %8s %8s %8s %8s %6s %7s\n' "$1" n "change" "s of n" \
		"of 4 n" "CPU of n" "of 4 n" ratio MiB
}

# --- segments

# GiB of the volume; of n. --sparse sets that of 4 n.
scale_volume() {
	local size gibs image=$dir/scale.img n=$((sparse_gib / 4))
	for size in n 4n; do
		gibs=$n
		[ $size = n ] || gibs=$((4 * n))
		rm -f "$image"
		new_pool --size 8T
		image sparse "$image" $((gibs * gib)) 1
		at $size "first snapshot" snapshot v --from "$image"
		printf 'version 1\n' >"$dir/changed"
		at $size "snapshot, no changes" snapshot v --from "$image" --changed "$dir/changed"
		printf 'version 2\n' >"$dir/changed"
		image every "$image" $((gibs * gib / 4096 / 64)) 2 >>"$dir/changed"
		at $size "snapshot, 64 segments" snapshot v --from "$image" \
			--changed "$dir/changed"
		at $size list list
		at $size "delete, 64 segments" delete v@2
		image sparse "$image" $((gibs * gib)) 3
		at $size "snapshot, all segments" snapshot v --from "$image"
		at $size check check
		at $size "delete, all segments" delete v@1
		at $size prune prune v --keep-last 1
	done
	rm "$image"
	scale_header "GiB of a volume"
	scale_row "first snapshot" $n "each segment"
	scale_row "snapshot, no changes" $n "1/64 is audited"
	scale_row "snapshot, 64 segments" $n "64, and the audit"
	scale_row "list" $n "none"
	scale_row "delete, 64 segments" $n "64 segments"
	scale_row "snapshot, all segments" $n "each segment"
	scale_row "check" $n "(the pool)"
	scale_row "delete, all segments" $n "each segment"
	scale_row "prune" $n "64 segments"
}

# --- segments in pieces: the newest version has gone

scale_pieces() {
	local size nr image=$dir/scale.img n=4096
	for size in n 4n; do
		nr=$n
		[ $size = n ] || nr=$((4 * n))
		rm -f "$image"
		new_pool --size 1T
		image pairs "$image" $((nr * 2 * mib)) 1
		revdedupctl -q snapshot v --from "$image"
		cp --sparse=always "$image" "$dir/scale.old"
		image every "$image" 512 2 >/dev/null
		revdedupctl -q snapshot v --from "$image"
		at $size "delete, the newest" delete v@2
		printf 'version 1\n' >"$dir/changed"
		at $size "snapshot, all in pieces" snapshot v --from "$dir/scale.old" \
			--changed "$dir/changed"
	done
	rm "$image" "$dir/scale.old"
	scale_header "segments"
	scale_row "delete, the newest" $n "each segment"
	scale_row "snapshot, all in pieces" $n "each is made whole"
}

# --- versions

# more_versions FROM TO: each of a block; of four the first and the last have the same one, which
# only a pass finds.
more_versions() {
	local i from
	for ((i = $1; i <= $2; i++)); do
		printf 'version %s\n0 4096\n' $((i - 1)) >"$dir/changed"
		from=/dev/urandom
		((i % 4 != 3 || i < 4)) || from=$dir/again
		dd if="$from" of="$image" bs=4096 count=1 conv=notrunc status=none
		((i % 4 != 0)) || head -c 4096 "$image" >"$dir/again"
		revdedupctl -q snapshot v --from "$image" --changed "$dir/changed"
	done
}

scale_versions() {
	local size nr=1 to image=$dir/scale.img n=2500
	image random "$image" $((2 * mib)) 1
	new_pool
	revdedupctl -q snapshot v --from "$image"
	for size in n 4n; do
		to=$n
		[ $size = n ] || to=$((4 * n))
		more_versions $((nr + 1)) "$to"
		nr=$to
		cp -r --sparse=always "$REVDEDUP_POOL" "$dir/copy"
		at $size check check
		at $size list list v
		at $size "restore of the oldest" restore v@1 --to "$dir/out"
		rm "$dir/out"
		at $size "snapshot, nothing changed" snapshot v --from "$image"
		at $size "delete, the oldest" delete v@1
		at $size "delete, one in the middle" delete v@1000
		at $size "dedup --older 0" dedup --older 0 --least-run 1
		at $size "scrub" scrub
		at $size "repair" repair
		at $size "stats --isolation" stats --isolation
		at $size "prune -n" prune -n v --keep-last 20
		at $size "prune" prune v --keep-last 20
		rm -rf "$REVDEDUP_POOL"
		mv "$dir/copy" "$REVDEDUP_POOL"
	done
	rm "$image"
	scale_header "versions of a volume"
	scale_row "snapshot, nothing changed" $n "none"
	scale_row "list" $n "(a line for each)"
	scale_row "restore of the oldest" $n "(follows each)"
	scale_row "delete, the oldest" $n "a block"
	scale_row "delete, one in the middle" $n "a block"
	scale_row "dedup --older 0" $n "half of the versions"
	scale_row "scrub" $n "(the pool)"
	scale_row "repair" $n "(the pool)"
	scale_row "stats --isolation" $n "(the pool)"
	scale_row "prune -n" $n "none"
	scale_row "prune" $n "all but 20"
	scale_row "check" $n "(the pool)"
}

# --- volumes

scale_volumes() {
	local size i nr=0 image=$dir/scale.img n=500 volume
	new_pool
	for size in n 4n; do
		volume=$n
		[ $size = n ] || volume=$((4 * n))
		for ((i = nr + 1; i <= volume; i++)); do
			rm -f "$image"
			image sparse "$image" $((8 * mib)) "$i"
			revdedupctl -q snapshot "v$i" --from "$image"
		done
		nr=$volume
		image every "$image" 512 $((volume * 2)) >/dev/null
		at $size "snapshot of one" snapshot "v$volume" --from "$image"
		at $size "list" list
		at $size "delete of one" delete "v$volume@1"
		at $size "prune of all" prune --keep-last 1
		at $size "check" check
	done
	rm "$image"
	scale_header "volumes"
	scale_row "snapshot of one" $n "4 segments"
	scale_row "list" $n "(a line for each)"
	scale_row "delete of one" $n "4 segments"
	scale_row "prune of all" $n "none"
	scale_row "check" $n "(the pool)"
}

# --- recipes that point at one that goes

# What another command that writes takes, again and again until the file $dir/stop is
# there: the longest goes to $dir/longest.
neighbour() {
	local longest=0
	while [ ! -e "$dir/stop" ]; do
		timed revdedupctl -q tag w@1 +x
		[ "$usec" -le "$longest" ] || longest=$usec
		timed revdedupctl -q tag w@1 -x
		[ "$usec" -le "$longest" ] || longest=$usec
	done
	echo "$longest" >"$dir/longest"
}

# beside_neighbour COMMAND...: sets longest.
beside_neighbour() {
	local pid
	rm -f "$dir/stop"
	# Or it would wait for what was written before.
	sync
	neighbour &
	pid=$!
	"$@"
	touch "$dir/stop"
	wait "$pid"
	longest=$(<"$dir/longest")
}

scale_fan_in() {
	local size nr image=$dir/scale.img n=8192 longest
	for size in n 4n; do
		nr=$n
		[ $size = n ] || nr=32766
		rm -f "$image"
		new_pool --size 1T
		image pairs "$image" $(((nr + 1) * 2 * mib)) 1
		# The first segment is another one, without the block that all have.
		dd if=/dev/urandom of="$image" bs=4096 count=2 conv=notrunc status=none
		revdedupctl -q snapshot v --from "$image"
		dd if="$image" of="$dir/one" bs=4096 skip=513 count=1 status=none
		revdedupctl -q snapshot w --from "$dir/one"
		rm "$image"
		image sparse "$image" $(((nr + 1) * 2 * mib)) 2
		dd if="$dir/one" of="$image" bs=4096 seek=1 conv=notrunc status=none
		revdedupctl -q snapshot v --from "$image"
		printf 'version 2\n0 8192\n' >"$dir/changed"
		dd if=/dev/urandom of="$image" bs=4096 count=2 conv=notrunc status=none
		revdedupctl -q snapshot v --from "$image" --changed "$dir/changed"
		cp -r --sparse=always "$REVDEDUP_POOL" "$dir/copy"
		at $size "delete, all point there" delete v@2
		rm -rf "$REVDEDUP_POOL"
		mv "$dir/copy" "$REVDEDUP_POOL"
	done
	beside_neighbour revdedupctl -q delete v@2
	rm "$image"
	scale_header "recipes that point at one"
	scale_row "delete, all point there" $n "a map of each"
	header
	row "the longest that another command takes beside it, s" "$(calc "$longest / 1e6")" \
		"<= 0.25" "$longest / 1e6 <= 0.25"
}

# --- a volume that was changed here and there: its segments lie anywhere

# few_blocks: ten of them change; sets reverse and copy, in us.
few_blocks() {
	local i
	printf 'version %s\n' "$(revdedupctl list v --json | field number | tail -n 1)" \
		>"$dir/changed"
	for i in 0 1 2 3 4 5 6 7 8 9; do
		dd if=/dev/urandom of="$image" bs=4096 seek=$((i * 700)) count=1 \
			conv=notrunc status=none
		printf '%s 4096\n' $((i * 700 * 4096)) >>"$dir/changed"
	done
	cold
	revdedupctl snapshot v --from "$image" --changed "$dir/changed" --json >"$dir/reports"
	reverse=$(sum_of usec_reverse)
	copy=$(sum_of usec_copy)
}

scale_aged() {
	local i image=$dir/scale.img reverse copy fresh number gibs=64
	new_pool --size 1T
	image sparse "$image" $((gibs * gib)) 1
	revdedupctl -q snapshot v --from "$image"
	# What these take the place of is nowhere any more: only the pass could find that.
	few_blocks
	few_blocks
	fresh=$reverse
	for ((i = 0; i < 32; i++)); do
		number=$(revdedupctl list v --json | field number | tail -n 1)
		printf 'version %s\n' "$number" >"$dir/changed"
		image every "$image" $((512 * 32)) $((i + 2)) $((512 * i)) >>"$dir/changed"
		revdedupctl -q snapshot v --from "$image" --changed "$dir/changed"
		revdedupctl -q delete "v@$number"
	done
	few_blocks
	few_blocks
	rm "$image"
	header
	row "reverse of 10 blocks of $gibs GiB: new, aged, ms" \
		"$((fresh / 1000)) $((reverse / 1000))"
	row "  aged: reverse / copy" "$(calc "$reverse / $copy" %.3f)" "<= 1" \
		"$reverse / $copy <= 1"
}

part_scale() {
	local part
	title "scale: the time of commands, of n and of 4 n, against the change" \
		"ratio: of the processor's time, at most $scale_limit where it is over $scale_least s; at most 128 MiB"
	for part in ${only_series:-versions volumes fan_in pieces aged volume}; do
		"scale_$part"
	done
}
