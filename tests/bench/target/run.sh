#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: run.sh [OPTION]...
#
# Measure in guests the cost of the target beside its peers, and print tables: speed as a
# ratio to that of dm-linear, and for first writes to dm-era's. Each number is a median of
# rounds; in a round all devices take turns. One table is about volumes that lie on their
# base, the other about blocks in a pool.
#
# The first guest counts instructions. That is exact, whatever else this machine does, but
# shows neither locks nor two CPUs at work. So a second guest with two virtual CPUs
# measures time, which shows only large differences: the difference of the same device
# measured twice (A/A) says how large.
#
#   --kernel 6.1|6.12      Debian's kernel of that series (default 6.12)
#   --rounds N             default 3
#   --only counted|time    only one of the two guests
#   --table steady|mapped  only one of the two tables
#   --reads WORKLOAD       only this one of the reads of mapped-guest.sh, for more rounds
#                          of what varies much
#   --check                exit with 1 if a target is missed by more than the noise
#   --raw FILE             write the measurements to FILE, too
#
# Takes three quarters of an hour without KVM.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 rounds=3 only='' table='' reads='' check=0 raw=''
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
	--table) table=$2 ;;
	--reads) table=mapped reads=$2 ;;
	--raw) raw=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of rounds: '$rounds'"
[[ $only =~ ^(|counted|time)$ ]] || usage_error "no such guest: '$only'"
[[ $table =~ ^(|steady|mapped)$ ]] || usage_error "no such table: '$table'"

bench_begin "$kernel"

# measure NAME SCRIPT VM-OPTION...: leaves the lines in the file of that name.
measure() {
	local name=$1 script=$2
	shift 2
	note "measuring ($name, Linux $kernel)"
	in_guest "$dir/$name" "$@" -- "$script" "$rounds" ${reads:+"$reads"}
	[ -z "$raw" ] || sed "s/^/$kernel $name /" "$dir/$name" >>"$raw"
}

missed=false
# report NAME TITLE AWK-FILE
report() {
	printf '\n=== Linux %s, %s ===\n' "$kernel" "$2"
	awk -v check="$check" -v timed="$([[ $1 != *time ]] || echo 1)" \
		-f "$here/lib.awk" -f "$here/$3" "$dir/$1" ||
		missed=true
}

# guests TABLE SCRIPT AWK-FILE MIB: of memory.
guests() {
	[ -z "$table" ] || [ "$table" = "$1" ] || return 0
	if [ "$only" != time ]; then
		measure "$1-counted" "$2" --icount --mem "$4"
		report "$1-counted" "$1, counted instructions" "$3"
	fi
	if [ "$only" != counted ]; then
		measure "$1-time" "$2" --smp 2 --mem "$4"
		report "$1-time" "$1, time with two virtual CPUs" "$3"
	fi
}

[ -z "$raw" ] || : >"$raw"
guests steady steady-guest.sh steady.awk 1536
guests mapped mapped-guest.sh mapped.awk 3072
! $missed
