#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs.sh [OPTION]...
#
# Measure in guests what it costs to read a version from packs, with its own blocks stored raw
# as 1. Each number is a median of rounds, in which all take turns; all pools lie in memory. Parts:
#
#   reads     beside the same content in squashfs (zstd, blocks of 64 KiB), in dm-vdo, compressed
#             (kernels from 6.9 on), and served over NBD by a process; and the same version in
#             up to 8, 64 and 512 pieces, so that a read in sequence needs blocks of many groups
#   volumes   what a volume costs that is made of it: clone, roll-back, and bringing it home
#   two       what a second processor adds to reads in sequence, beside what it adds to programs
#             that only compute: by time, in one guest, which has one and two in turns
#   before    devices that name no pack, beside the same with a module that is built without
#             packs, in counted instructions and at most two rounds
#
# For reads and volumes the first guest counts instructions, which shows neither locks nor two
# processors at work. The others have one and two virtual CPUs, and measure time.
#
#   --kernel 6.1|6.12   Debian's kernel of that series (default 6.12)
#   --part NAME         only this part
#   --only counted|time only guests that count, or only those that measure time
#   --mib N             of content (default 128)
#   --from DIRS         of this machine has the content's files (default "/usr/bin /usr/lib
#                       /usr/share"; dm-vdo can compress more of what is below /usr/share)
#   --nights N          that many, before the version in pieces (default 24; 0: no pieces)
#   --rounds N          default 5
#   --raw FILE          write the measurements to FILE, too
#   --check             exit with 1 if a target is missed
#
# Takes half an hour without KVM, "--part two" and "--part before" some minutes.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 part='' only='' mib=128 nights=24 rounds=5 raw='' check=0
from="/usr/bin /usr/lib /usr/share"
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=1; shift; continue ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kernel) kernel=$2 ;;
	--part) part=$2 ;;
	--only) only=$2 ;;
	--mib) mib=$2 ;;
	--from) from=$2 ;;
	--nights) nights=$2 ;;
	--rounds) rounds=$2 ;;
	--raw) raw=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done

[[ $part =~ ^(|reads|volumes|two|before)$ ]] || usage_error "no such part: '$part'"
[[ $only =~ ^(|counted|time)$ ]] || usage_error "no such guests: '$only'"
case $part-$only in
two-counted) usage_error "'--part two' only measures time: leave out '--only counted'" ;;
before-time) usage_error "'--part before' only counts: leave out '--only time'" ;;
esac

# chosen WORD WHICH: is this a part, or a kind of guest, that is wanted?
chosen() { [ -z "$2" ] || [ "$1" = "$2" ]; }

bench_begin "$kernel"
bench_add_ctl
install -t "$dir/ctl" "$tree/build/bin/nbdkit-revdedup-plugin.so"
"$tree/scripts/setup.sh" bench
: >"$dir/lines"
[ -z "$raw" ] || : >"$raw"

# --- what is read

# Files as they come, so that some of it does not compress.
make_content() {
	# shellcheck disable=SC2086 # directories
	tar -cf - $from 2>/dev/null | head -c "${mib}M" >"$dir/content" || :
	[ "$(stat -c %s "$dir/content")" -eq $((mib << 20)) ] ||
		die "there is less than $mib MiB in $from"
}

make_pools() {
	local form
	for form in zstd none; do
		"$dir/ctl/revdedupctl" -q init --compression "$form" --pieces 1 \
			--size $((mib * 2 + 64))M "$dir/files/$form"
		"$dir/ctl/revdedupctl" -q --pool "$dir/files/$form" snapshot vm1 \
			--from "$dir/content"
	done
}

# The content at the end of some nights, in each of which 2 % of the blocks were written anywhere:
# from the last night back, blocks change places.
make_pieces() {
	local pieces night
	for pieces in 8 64 512; do
		"$dir/ctl/revdedupctl" -q init --pieces $pieces --dedup reverse \
			--size $((mib * 3 + 64))M "$dir/files/$pieces"
	done
	cp "$dir/content" "$dir/night"
	for ((night = nights; night >= 0; night--)); do
		seq 1 "$night" | xargs "$here/swap-blocks.py" "$dir/night" 0.02
		for pieces in 8 64 512; do
			"$dir/ctl/revdedupctl" -q --pool "$dir/files/$pieces" snapshot vm1 \
				--from "$dir/night"
		done
		cp "$dir/content" "$dir/night"
	done
}

make_disk() {
	mkdir "$dir/files" "$dir/squash"
	make_content
	make_pools
	! chosen reads "$part" || [ "$nights" -eq 0 ] || make_pieces
	ln "$dir/content" "$dir/squash/content"
	mksquashfs "$dir/squash" "$dir/files/squash" -comp zstd -b 64k -no-xattrs -quiet \
		-no-progress
	# As large as packs-guest.sh makes it.
	"$here/vdo-format.py" $(((mib * 2 + 320) * 256)) $((mib * 256)) "$dir/files/vdo"
	disk=$dir/disk
	mke2fs -q -t ext4 -O ^has_journal -d "$dir/files" "$disk" \
		$(($(du -sm "$dir/files" | cut -f 1) * 5 / 4 + 64))M
}

# --- guests

# guest NAME VM-OPTION... -- SCRIPT ARGUMENT...
guest() {
	note "measuring ($1, Linux $kernel)"
	in_guest "$dir/$1.lines" "${@:2}"
	[ -z "$raw" ] || sed "s/^/$kernel $1 /" "$dir/$1.lines" >>"$raw"
	cat "$dir/$1.lines" >>"$dir/lines"
}

# reads_and_volumes NAME VM-OPTION...
reads_and_volumes() {
	local parts=() name
	for name in reads volumes; do
		! chosen "$name" "$part" || parts+=("$name")
	done
	[ "${#parts[@]}" -gt 0 ] || return 0
	guest "$1" "${@:2}" --mem $((mib * 20 + 2048)) --disk "$disk" \
		-- packs-guest.sh "$1" "$rounds" "$mib" "${parts[@]}"
}

missed=false
# report TITLE AWK-FILE: of all that was measured since the last one.
report() {
	if [ -s "$dir/lines" ]; then
		printf '\n=== Linux %s, %s\n\n' "$kernel" "$1"
		awk -v check="$check" -f "$here/lib.awk" -f "$here/$2" "$dir/lines" || missed=true
	fi
	: >"$dir/lines"
}

[ "$part" = before ] || make_disk
! chosen counted "$only" || reads_and_volumes counted --icount
if chosen time "$only"; then
	reads_and_volumes one --smp 1
	reads_and_volumes two --smp 2
fi
report "$mib MiB in packs" packs.awk
if chosen two "$part" && chosen time "$only"; then
	guest processors --smp 2 --mem $((mib * 10 + 1024)) --disk "$disk" \
		-- packs-two-guest.sh "$rounds" "$mib"
	report "$mib MiB in packs, two processors / one" packs-two.awk
fi
if chosen before "$part" && chosen counted "$only"; then
	"$tree/scripts/module-build.sh" --kdir "$("$tree/scripts/headers.sh" "$kernel")" \
		--out "$tree/build/modules/$kernel-without-packs" WITHOUT_PACKS=1
	mkdir "$dir/without"
	cp "$tree/build/modules/$kernel-without-packs/dm-revdedup.ko" "$dir/without"
	payload+=(--payload "$dir/without:without")
	# Rounds hardly differ, as nothing else runs there.
	guest before --icount --mem 2048 \
		-- packs-before-guest.sh $((rounds < 2 ? rounds : 2))
	report "devices that name no pack" packs-before.awk
fi
! $missed
