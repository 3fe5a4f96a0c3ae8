#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: leases.sh [--kernel 6.1|6.12] [--devices N] [--gib N] [--rounds N] [--check]
#
# Measure in a guest what devices that read a pool cost a command that frees space of it: the
# median time of a delete of 8 MiB with N of them (default: 100, of 1024 GiB), as a ratio to
# that without, in counted instructions (see run.sh). With --check exit with 1 if it is more
# than 2.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 devices=100 gib=1024 rounds=5 check=0
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=1; shift; continue ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kernel) kernel=$2 ;;
	--devices) devices=$2 ;;
	--gib) gib=$2 ;;
	--rounds) rounds=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done

bench_begin "$kernel"
bench_add_ctl
in_guest "$dir/lines" --mem 6144 --icount -- leases-guest.sh "$devices" "$gib" "$rounds"
printf '\n=== Linux %s\n\n' "$kernel"
sort -k2,2 -k4,4n "$dir/lines" | awk -v check="$check" '
	$1 == "devices" { devices = $2; gib = $3 }
	$1 == "time" { us[$2, nr[$2]++] = $4 }
	END {
		none = us["none", int(nr["none"] / 2)]
		leases = us["leases", int(nr["leases"] / 2)]
		if (!none || !leases)
			exit 2
		printf "a delete of 8 MiB without leases: %.1f ms\n", none / 1000
		printf "with %d devices of %d GiB: %.1f ms, %.2f times that (target <= 2)\n",
			devices, gib, leases / 1000, leases / none
		exit check && leases > 2 * none
	}'
