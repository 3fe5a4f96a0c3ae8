# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What scripts share that measure revdedupctl in a guest: what is built for it, and how it runs.
# Sourced on the host, by scripts beside this one.

# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../../scripts/lib.sh"
top=$(realpath "${BASH_SOURCE[0]%/*}/../../..")

# begin NAME KERNEL: build what the guest gets, and set $dir, which is removed in the end.
begin() {
	local kdir
	kernel=$2
	"$top/scripts/setup.sh" build vm
	dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-$1.XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	kdir=$("$top/scripts/headers.sh" "$kernel")
	"$top/scripts/module-build.sh" --kdir "$kdir" --out "$top/build/modules/$kernel" JUDGE=1
	make -s -C "$top/tests/guest" OUT="$top/build/guest-bin"
	make -s -C "$top/userspace"
}

# in_guest [VM-OPTION...] -- SCRIPT [ARG...]: run this script of this folder there, and leave
# what it prints in $dir/lines, behind what is there.
in_guest() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	"$top/scripts/vm-run.sh" --kernel "$kernel" --timeout 7200 "${options[@]}" \
		--payload "$top/build/modules/$kernel:modules" \
		--payload "$top/build/guest-bin:bin" --payload "$top/build/bin:ctl" \
		--payload "$top/tests/guest:tests/guest" \
		--payload "$top/tests/bench/target:tests/bench/target" \
		-- "tests/bench/target/$2" "${@:3}" >>"$dir/lines" || {
		cat "$dir/lines" >&2
		return 1
	}
}
