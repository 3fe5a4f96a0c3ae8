# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the measuring scripts share on this machine: they build what a guest gets, and run a
# script of this folder there. Sourced, not run, after scripts/lib.sh.

tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")

# bench_begin KERNEL: build the module, and the guest's programs; make $dir.
bench_begin() {
	local kdir
	kernel=$1
	"$tree/scripts/setup.sh" build vm
	dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-bench.XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	kdir=$("$tree/scripts/headers.sh" "$kernel")
	"$tree/scripts/module-build.sh" --kdir "$kdir" --out "$tree/build/modules/$kernel" JUDGE=1
	# Copies, as somebody may build there meanwhile.
	mkdir "$dir/modules"
	cp "$tree/build/modules/$kernel"/*.ko "$dir/modules"
	make -s -C "$tree/tests/guest" OUT="$tree/build/guest-bin"
	cp -r "$tree/build/guest-bin" "$dir/bin"
	payload=(--payload "$dir/modules:modules" --payload "$dir/bin:bin"
		--payload "$tree/tests/guest:tests/guest"
		--payload "$tree/tests/bench/target:tests/bench/target")
}

# For scripts that need revdedupctl in the guest.
bench_add_ctl() {
	make -s -C "$tree/userspace"
	install -D -t "$dir/ctl" "$tree/build/bin/revdedupctl"
	payload+=(--payload "$dir/ctl:ctl")
}

# in_guest LINES [VM-OPTION]... -- SCRIPT [ARGUMENT]...: run a script of this folder; what it
# prints goes to the file LINES, and is shown if it fails.
in_guest() {
	local lines=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	"$tree/scripts/vm-run.sh" --kernel "$kernel" --timeout 7200 "${options[@]}" \
		"${payload[@]}" -- "tests/bench/target/$2" "${@:3}" >"$lines" || {
		cat "$lines" >&2
		exit 1
	}
}
