#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: live.sh [--kernel 6.1|6.12] [--segments N]
#
# Measure in a guest the cost of a snapshot of a volume on LVM whose segments (default:
# 4096, of 2 MiB) are all written and of which one percent changes, how long writes pause,
# and the effect on a program that writes; and print tables. The disks take two times the
# volume in TMPDIR. Without KVM it takes half an hour.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
. "$here/../../../scripts/lib.sh"
# shellcheck source=tests/bench/target/lib-host.bash
. "$here/lib-host.bash"

kernel=6.12 segments=4096
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--kernel) kernel=${2:?which kernel?}; shift 2 ;;
	--segments) segments=${2:?how many?}; shift 2 ;;
	*) usage_error "no such argument: '$1'" ;;
	esac
done

bench_begin "$kernel"
bench_add_ctl
truncate -s $((segments * 2 + 8192))M "$dir/volumes" "$dir/pool"
in_guest "$dir/lines" --disk "$dir/volumes" --disk "$dir/pool" -- live-guest.sh "$segments"
printf '\n=== Linux %s\n\n' "$kernel"
awk -f "$here/live.awk" "$dir/lines"
