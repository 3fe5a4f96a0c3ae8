#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs.sh [OPTION]...
#
# Measure in guests what it costs to read a version from packs, with its own blocks stored raw
# as 1: the same content in squashfs (zstd, blocks of 64 KiB), and served over NBD by a
# process; and the same version in up to 8, 64 and 512 pieces, so that a read in sequence needs
# blocks of many groups. Then what a volume costs that is made of it: clone, roll-back, and
# bringing it home. All pools lie in memory. Each number is a median of rounds, in which all take
# turns.
#
# The first guest counts instructions, which shows neither locks nor two processors at work.
# The others have one and two virtual CPUs, and measure time.
#
#   --kernel 6.1|6.12   Debian's kernel of that series (default 6.12)
#   --mib N             of content: files of this machine's /usr (default 128)
#   --nights N          that many, before the version in pieces (default 24)
#   --rounds N          default 5
#   --raw FILE          write the measurements to FILE, too
#   --check             exit with 1 if a target is missed
#
# Takes twenty minutes without KVM.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 mib=128 nights=24 rounds=5 raw='' check=0
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=1; shift; continue ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kernel) kernel=$2 ;;
	--mib) mib=$2 ;;
	--nights) nights=$2 ;;
	--rounds) rounds=$2 ;;
	--raw) raw=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done

bench_begin "$kernel"
bench_add_ctl
install -t "$dir/ctl" "$tree/build/bin/nbdkit-revdedup-plugin.so"
"$tree/scripts/setup.sh" bench

# Files as they come, so that some of it does not compress.
tar -C / -cf - usr/bin usr/lib usr/share 2>/dev/null | head -c "${mib}M" >"$dir/content" || :
mkdir "$dir/files"
for form in zstd none; do
	export REVDEDUP_POOL=$dir/files/$form
	"$dir/ctl/revdedupctl" -q init --compression "$form" --pieces 1 --size $((mib * 2 + 64))M
	"$dir/ctl/revdedupctl" -q snapshot vm1 --from "$dir/content"
done
# The content at the end of some nights, in each of which 2 % of the blocks were written anywhere:
# from the last night back, blocks change places.
export REVDEDUP_POOL
for pieces in 8 64 512; do
	REVDEDUP_POOL=$dir/files/$pieces
	"$dir/ctl/revdedupctl" -q init --pieces $pieces --dedup reverse --size $((mib * 3 + 64))M
done
cp "$dir/content" "$dir/night"
for ((night = nights; night >= 0; night--)); do
	seq 1 "$night" | xargs "$here/swap-blocks.py" "$dir/night" 0.02
	for pieces in 8 64 512; do
		REVDEDUP_POOL=$dir/files/$pieces
		"$dir/ctl/revdedupctl" -q snapshot vm1 --from "$dir/night"
	done
	cp "$dir/content" "$dir/night"
done
mkdir "$dir/squash"
ln "$dir/content" "$dir/squash/content"
mksquashfs "$dir/squash" "$dir/files/squash" -comp zstd -b 64k -no-xattrs -quiet -no-progress
disk=$dir/disk
mke2fs -q -t ext4 -O ^has_journal -d "$dir/files" "$disk" $((mib * 8 + 64))M

# measure NAME VM-OPTION...
measure() {
	note "measuring ($1, Linux $kernel)"
	in_guest "$dir/$1" "${@:2}" --mem $((mib * 20 + 1024)) --disk "$disk" \
		-- packs-guest.sh "$rounds" "$mib"
	[ -z "$raw" ] || sed "s/^/$kernel $1 /" "$dir/$1" >>"$raw"
	sed "s/^time/time $1/" "$dir/$1" >>"$dir/lines"
}

[ -z "$raw" ] || : >"$raw"
measure counted --icount
measure one --smp 1
measure two --smp 2
printf '\n=== Linux %s, %s MiB in packs\n\n' "$kernel" "$mib"
awk -v check="$check" -f "$here/lib.awk" -f "$here/packs.awk" "$dir/lines"
