#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: dedup.sh [OPTION]...
#
# Measure in guests what deduplication of volumes in use costs, and print a table: each
# number is a ratio of the same run, a median of rounds in which all take turns; its target;
# and how much the same device differed when it was measured twice (A/A).
#
# One guest counts instructions, which is exact, but of one processor. Another one measures
# time, which shows only large differences. See run.sh.
#
#   --kernel 6.1|6.12      Debian's kernel of that series (default 6.12)
#   --rounds N             default 3
#   --only counted|time    only one of the two guests
#   --part NAME            only this part: find, hot, eight, reads, first, cold or memory
#   --rate SIZE            that deduplication reads a second beside writers (default 16M)
#   --check                exit with 1 if a target is missed by more than the noise
#   --raw FILE             write the measurements to FILE, too
#
# With VDOFORMAT=PATH in the environment, the program of that name of dm-vdo's tools, dm-vdo
# is measured as well (on kernels that have it).
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 rounds=3 only='' part='' rate=16M check=0 raw=''
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=1; shift; continue ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kernel) kernel=$2 ;;
	--rounds) rounds=$2 ;;
	--only) only=$2 ;;
	--part) part=$2 ;;
	--rate) rate=$2 ;;
	--raw) raw=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of rounds: '$rounds'"
[[ $only =~ ^(|counted|time)$ ]] || usage_error "no such guest: '$only'"
[[ $part =~ ^(|find|hot|eight|reads|first|cold|memory)$ ]] || usage_error "no such part: '$part'"

bench_begin "$kernel"
bench_add_ctl
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -I"$tree/tests/guest" -o "$dir/bin/dedisgen" \
	"$here/dedisgen.c" "$tree/tests/guest/lib/random.c"
if [ -n "${VDOFORMAT:-}" ]; then
	install "$VDOFORMAT" "$dir/bin/vdoformat"
else
	note "VDOFORMAT is not set: dm-vdo is not measured"
fi

missed=false
# measure NAME TITLE [VM-OPTION]...
measure() {
	local name=$1 title=$2
	shift 2
	[ -z "$only" ] || [ "$only" = "$name" ] || return 0
	note "measuring ($name, Linux $kernel)"
	in_guest "$dir/$name" --mem 6144 "$@" -- dedup-guest.sh "$rounds" "$rate" ${part:+"$part"}
	[ -z "$raw" ] || sed "s/^/$kernel $name /" "$dir/$name" >>"$raw"
	printf '\n=== Linux %s, %s ===\n' "$kernel" "$title"
	awk -v check="$check" -v rate="$rate" -f "$here/lib.awk" -f "$here/dedup.awk" \
		"$dir/$name" || missed=true
}

[ -z "$raw" ] || : >"$raw"
measure counted "counted instructions" --icount
measure time "time with two virtual CPUs" --smp 2
! $missed
