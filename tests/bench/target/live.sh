#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: live.sh [--kernel 6.1|6.12] [--segments N]
#
# Measure in a guest the cost of a snapshot of a volume on LVM whose segments (default:
# 4096, of 2 MiB) are all written and of which one percent changes, how long writes pause,
# and the effect on a program that writes; and print tables. The disks take two times the
# volume in TMPDIR. Without KVM it takes half an hour.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../../scripts/lib.sh"
top=$(realpath "${BASH_SOURCE[0]%/*}/../../..")

kernel=6.12 segments=4096
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--kernel) kernel=${2:?which kernel?}; shift 2 ;;
	--segments) segments=${2:?how many?}; shift 2 ;;
	*) usage_error "no such argument: '$1'" ;;
	esac
done

"$top/scripts/setup.sh" build vm
dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-live.XXXXXX")
trap 'rm -rf "$dir"' EXIT
module=$top/build/modules/$kernel
kdir=$("$top/scripts/headers.sh" "$kernel")
"$top/scripts/module-build.sh" --kdir "$kdir" --out "$module" JUDGE=1
make -s -C "$top/tests/guest" OUT="$top/build/guest-bin"
make -s -C "$top/userspace"
truncate -s $((segments * 2 + 8192))M "$dir/volumes" "$dir/pool"

"$top/scripts/vm-run.sh" --kernel "$kernel" --timeout 7200 \
	--payload "$module:modules" --payload "$top/build/guest-bin:bin" \
	--payload "$top/build/bin:ctl" --payload "$top/tests/guest:tests/guest" \
	--payload "$top/tests/bench/target:tests/bench/target" \
	--disk "$dir/volumes" --disk "$dir/pool" \
	-- tests/bench/target/live-guest.sh "$segments" >"$dir/lines" || {
	cat "$dir/lines" >&2
	exit 1
}
printf '\n=== Linux %s\n\n' "$kernel"
awk -f "$top/tests/bench/target/live.awk" "$dir/lines"
