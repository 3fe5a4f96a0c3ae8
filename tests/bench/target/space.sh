#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: space.sh [OPTION]...
#
# Measure in guests the space that volumes in use take up when they read their cold blocks from
# a pool with pieces and inline deduplication, beside what dm-thin takes up without it:
# everything, thin chunks, the pool, and metadata. Three kinds of volumes:
#
#   clones    of one image, which have drifted
#   installs  the same packages in another order and at other offsets, and blocks of their own
#   nurand    one volume, written at random by the NURand function of DEDISbench
#
# The paper on DEDIS had 32 VMs of one image, each with writes of DEDISbench, a quarter of them
# duplicates: 43 GB, about half of what volumes without deduplication took up. It does not say
# how much was written; as 31 GB were saved by 31 images, and 5.9 GB later, it must have been
# about 1 GB of image and 1.6 GB of writes for each VM, which leaves no more to save than that
# half. How far clones drift before they are given to a pool is not said anywhere; here it is 15
# percent of the blocks, in runs of 1 to 256. Studies of images of one distribution find two
# thirds and more of the blocks of an installation in others, so 30 percent are a volume's own.
# Both are options, and the table has the least that any deduplication would take up.
#
#   --kernel 6.1|6.12   Debian's kernel of that series (default 6.12)
#   --volumes N         of clones and of installs (default 32)
#   --mib N             the size of each (default 32); nurand has 8 times that
#   --drift PERCENT     of the blocks of a clone (default 15)
#   --own PERCENT       of the blocks of an installation (default 30)
#   --writes PERCENT    of the blocks of nurand that are written (default 10)
#   --pool file|thin    the pool is a file with holes (default), or a thin volume
#   --pieces N          of the pool's rule (default 64)
#   --only KIND         only one of clone, install and nurand
#   --raw FILE          write the measurements to FILE, too
#   --check             exit with 1 if a target is missed: 0.35, 0.55, and never above 1
#
# The disks are files with holes in TMPDIR. Without KVM it takes a quarter of an hour.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 volumes=32 mib=32 drift=15 own=30 writes=10 pool=file pieces=64 only='' raw='' check=0
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=1; shift; continue ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kernel) kernel=$2 ;;
	--volumes) volumes=$2 ;;
	--mib) mib=$2 ;;
	--drift) drift=$2 ;;
	--own) own=$2 ;;
	--writes) writes=$2 ;;
	--pool) pool=$2 ;;
	--pieces) pieces=$2 ;;
	--only) only=$2 ;;
	--raw) raw=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[[ $pool =~ ^(file|thin)$ ]] || usage_error "no such place of a pool: '$pool'"
[[ $only =~ ^(|clone|install|nurand)$ ]] || usage_error "no such kind: '$only'"

# measure KIND VOLUMES MIB PERCENT
measure() {
	local size=$(($2 * $3 * 4 + 2048))
	[ -z "$only" ] || [ "$only" = "$1" ] || return 0
	note "measuring $1"
	rm -f "$dir/volumes" "$dir/pool"
	truncate -s "${size}M" "$dir/volumes" "$dir/pool"
	in_guest "$dir/some" --disk "$dir/volumes" --disk "$dir/pool" \
		-- space-guest.sh "$@" "$pool" "$pieces"
	cat "$dir/some" >>"$dir/lines"
}

bench_begin "$kernel"
bench_add_ctl
measure clone "$volumes" "$mib" "$drift"
measure install "$volumes" "$mib" "$own"
measure nurand 1 $((mib * 8)) "$writes"

[ -z "$raw" ] || cp "$dir/lines" "$raw"
printf '\n=== Linux %s, %s volumes of %s MiB, pool in a %s, %s pieces\n\n' "$kernel" "$volumes" \
	"$mib" "$pool" "$pieces"
echo "drift $drift %, own blocks of installations $own %, random writes $writes %"
awk -v check="$check" -f "$here/space.awk" "$dir/lines"
