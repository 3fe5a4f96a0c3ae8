#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: run.sh [OPTION]...
#
# Measure in guests what the target costs beside its peers, and print tables:
# speed as a ratio to that of dm-linear, and for first writes to dm-era's.
# Each number is a median of rounds; in a round all devices have their turn.
#
# The first guest counts instructions. That is exact, whatever else this machine
# does, and sees no locks and no two CPUs at work. So a second guest with two
# virtual CPUs measures time, which tells only much slower from as fast: see by
# how much the same device measured twice (A/A) differs.
#
#   --kernel 6.1|6.12    Debian's kernel of that series (default 6.12)
#   --rounds N           default 3
#   --only counted|time  only one of the two guests
#   --check              exit with 1 where a target was missed by more than
#                        the noise
#   --raw FILE           keep what was measured there
#
# Takes a quarter of an hour without KVM.
tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
scripts=$tree/scripts
# shellcheck source=scripts/lib.sh
. "$scripts/lib.sh"

kernel=6.12 rounds=3 only='' check=0 raw=''
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
	--raw) raw=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of rounds: '$rounds'"
[[ $only =~ ^(|counted|time)$ ]] || usage_error "no such guest: '$only'"

"$scripts/setup.sh" build vm
dir=$(mktemp -d "${TMPDIR:-/tmp}/rdd-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
modules=$tree/build/modules/$kernel
"$scripts/module-build.sh" --kdir "$("$scripts/headers.sh" "$kernel")" \
	--out "$modules" JUDGE=1
# Not what somebody builds there next.
mkdir "$dir/modules"
cp "$modules"/*.ko "$dir/modules"

# measure NAME VM-OPTION...: prints the name of the file with the lines.
measure() {
	local name=$1
	shift
	note "measuring ($name, Linux $kernel)"
	"$scripts/vm-run.sh" --kernel "$kernel" --mem 1536 --timeout 3600 "$@" \
		--payload "$dir/modules:modules" \
		--payload "$tree/tests/guest:tests/guest" \
		--payload "$tree/tests/bench:tests/bench" \
		-- tests/bench/target.sh "$rounds" >"$dir/$name"
}

missed=false
# report NAME TITLE
report() {
	[ -z "$raw" ] || sed "s/^/$kernel $1 /" "$dir/$1" >>"$raw"
	printf '\n=== Linux %s, %s ===\n' "$kernel" "$2"
	awk -v check="$check" -f "$tree/tests/bench/table.awk" "$dir/$1" || missed=true
}

[ -z "$raw" ] || : >"$raw"
if [ "$only" != time ]; then
	measure counted --icount
	report counted "counted instructions"
fi
if [ "$only" != counted ]; then
	measure time --smp 2
	report time "time with two virtual CPUs"
fi
! $missed
