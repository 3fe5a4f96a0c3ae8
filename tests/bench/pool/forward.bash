# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034 # what others here set or use
# What the paper on RevDedup argues against: conventional deduplication, which lets the new refer
# to the old, in units of 128 KiB (forward.c). The same versions go to both, and the newest and
# the oldest are read back: figures 6 and 7 of the paper, on a disk where each request takes the
# same time, however large (up to what a loop device takes, 1280 KiB) or near to the last one. So
# what counts is the number of requests that come to the device, and a speed is that of a raw
# copy, of the image as it is, divided by it.
#
# The first series are the versions of one VM of series.sh. In the other ones 0.1 % of the blocks,
# anywhere, change each night. In the end some of all ages are read back, of which
# tests/bench/figures.awk draws where both cross.

declare -A forward_points=([full]="12 48 96" [demo]="3 6")
declare -A forward_mib=([full]=512 [demo]=64)

# device NAME MIB: a file, and a loop device that is it. Sets made.
device() {
	truncate -s "$2M" "$dir/$1"
	made=$(losetup --show --find --direct-io=on "$dir/$1")
	loops+=("$made")
}

# requests DEVICE COMMAND...: prints how many of its reads come to the device.
requests() {
	local stat=/sys/block/${1#/dev/}/stat before
	cold
	before=$(awk '{ print $1 }' "$stat")
	"${@:2}" >/dev/null
	echo $(($(awk '{ print $1 }' "$stat") - before))
}

begin_forward() {
	device forward "$1"
	forward=$made
	device reverse "$1"
	reverse=$made
	new_pool --data "$reverse" --pieces 1
}

end_forward() {
	losetup -d "${loops[@]}"
	loops=()
	rm -rf "$dir"/{forward,reverse,raw,forward-*} "$REVDEDUP_POOL"
}

# take_both IMAGE NUMBER
take_both() {
	revdedupctl -q snapshot v --from "$1"
	forward_bytes=$(forward add "$forward" "$dir/forward-index" "$1" "$dir/forward-$2")
}

# raw_requests IMAGE: of a copy of it, in its place on such a device.
raw_requests() {
	local bytes
	bytes=$(du --dereference --block-size=1 "$1" | cut -f 1)
	echo $((bytes / mib + 1))
}

# back_both NAME NUMBER IMAGE RAW: restores both, and prints a row.
back_both() {
	local ours theirs
	ours=$(requests "$reverse" revdedupctl -q restore "v@$2" --to "$dir/back")
	cmp "$dir/back" "$3" || die "not what it was: v@$2"
	rm -f "$dir/back"
	theirs=$(requests "$forward" forward read "$forward" "$dir/forward-$2" "$dir/back")
	cmp -n "$(stat -c %s "$3")" "$dir/back" "$3" || die "not what it was: forward, $2"
	rm -f "$dir/back"
	row "$1: reverse, forward; raw copy = 1" "$(calc "$4 / $ours"), $(calc "$4 / $theirs")"
}

# look_forward NUMBER IMAGE: when so many versions are there.
look_forward() {
	local raw
	raw=$(raw_requests "$2")
	back_both "newest of $1" "$1" "$2" "$raw"
	back_both "oldest of $1" 1 "$dir/forward-first" "$(raw_requests "$dir/forward-first")"
	row "stored of $1, MiB: reverse, forward" \
		"$(($(revdedupctl stats --json | field bytes_data) / mib)), $((forward_bytes / mib))"
}

# forward_ages NUMBER IMAGES STEP: each STEPth one of so many versions and the newest, the images
# IMAGES%s.
forward_ages() {
	local number image
	for number in $(seq 1 "$3" $(($1 - 1))) "$1"; do
		# shellcheck disable=SC2059 # it is a format
		image=$(printf "$2" "$number")
		back_both "version $number of $1" "$number" "$image" "$(raw_requests "$image")"
	done
}

forward_of_series() {
	local volume file number=0 last=''
	find_series
	title "forward: versions of a Debian VM, beside conventional deduplication (128 KiB)"
	header
	begin_forward 16384
	while read -r volume file; do
		[ "$volume" = vm1 ] || continue
		number=$((number + 1)) last=$series/$file
		[ "$number" -gt 1 ] || ln -s "$last" "$dir/forward-first"
		take_both "$last" "$number"
	done <"$series/order"
	look_forward "$number" "$last"
	forward_ages "$number" "$series/vm1-%s.img" 2
	end_forward
}

forward_of_nights() {
	local number step points=" ${forward_points[$size]} " blocks=$((${forward_mib[$size]} * 256))
	local last=${forward_points[$size]##* }
	step=$((last / 4))
	title "forward: ${forward_mib[$size]} MiB, 0.1 % of the blocks change each night"
	header
	begin_forward $((forward_mib[$size] * 64))
	image random "$dir/raw" $((blocks * 4096)) 1
	cp "$dir/raw" "$dir/forward-first"
	for ((number = 1; number <= last; number++)); do
		[ "$number" -eq 1 ] || image some "$dir/raw" $((blocks / 1000)) "$number" >/dev/null
		take_both "$dir/raw" "$number"
		if [ $(((number - 1) % step)) -eq 0 ] || [ "$number" -eq "$last" ]; then
			cp "$dir/raw" "$dir/forward-image-$number"
		fi
		[[ $points != *" $number "* ]] || look_forward "$number" "$dir/raw"
	done
	forward_ages "$last" "$dir/forward-image-%s" "$step"
	end_forward
}

part_forward() {
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -o "$dir/bin/forward" "$here/forward.c" -lcrypto
	forward_of_series
	forward_of_nights
}
