#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: vm-selftest.sh
#
# Show that the harness cannot be fooled: scripts/vm-run.sh and tests/guest/run.sh must
# fail a guest that hangs, panics, lies about its verdict, makes its kernel complain or
# leaves things behind. A power cut must lose what was not flushed, and nothing else. Boots
# a dozen guests, two at a time.

# What is in single quotes is for the guest's shell.
# shellcheck disable=SC2016

set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/../.."
case ${1:-} in
-h | --help)
	sed -n '1,3d; /^#/!q; s/^# \{0,1\}//p' "$0"
	exit
	;;
esac

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-selftest.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# vm TEST STATUS [OPTION...] -- COMMAND...: the guest must end with STATUS.
vm() {
	local name=$1 want=$2 r=0
	shift 2
	scripts/vm-run.sh --smp 1 --payload tests/guest:guest "$@" \
		>"$dir/$name" 2>&1 || r=$?
	[ "$r" -eq "$want" ] || {
		cat "$dir/$name"
		echo "exit status $r, expected $want"
		return 1
	}
}

# said TEST TEXT
said() {
	grep -qF -e "$2" "$dir/$1" || {
		cat "$dir/$1"
		echo "expected to read '$2'"
		return 1
	}
}

under_runner=(-- guest/run.sh -- bash -c)

test_verdict_is_that_of_the_command() {
	vm "$1" 7 -- bash -c 'echo "it prints"; exit 7'
	said "$1" 'it prints'
}

test_hang_fails() {
	vm "$1" 124 --timeout 40 -- sleep 1000
	said "$1" 'the time is over'
}

test_panic_fails() {
	vm "$1" 125 -- bash -c 'echo c >/proc/sysrq-trigger; sleep 1000'
	said "$1" 'Kernel panic'
}

# It ends without a verdict, having printed one everywhere.
test_lie_fails() {
	vm "$1" 125 -- bash -c '
		for word in "" x 0; do
			echo "$word exit 0" | tee /dev/console >"$DMR_CONTROL"
		done
		echo b >/proc/sysrq-trigger
		sleep 1000'
}

test_healthy_command_passes() {
	vm "$1" 0 "${under_runner[@]}" true
	said "$1" '1 passed, 0 failed'
}

test_kernel_warning_fails() {
	vm "$1" 1 "${under_runner[@]}" 'echo "WARNING: CPU: 0" >/dev/kmsg'
	said "$1" 'the kernel complained'
}

test_left_device_fails() {
	vm "$1" 1 "${under_runner[@]}" 'dmsetup create left --table "0 8 error"'
	said "$1" 'dm devices were left behind'
}

test_skipped_test_fails() {
	cat >"$dir/skip.bats" <<-'END'
		@test "skipped" { skip; }
		@test "not skipped" { true; }
	END
	vm "$1" 1 --payload "$dir/skip.bats" -- guest/run.sh skip.bats
	said "$1" '1 passed, 1 failed'
	vm "$1" 0 --payload "$dir/skip.bats" -- guest/run.sh --allow-skip skip.bats
}

test_unwanted_power_cut_fails() {
	vm "$1" 1 -- bash -c '. guest/lib/guest.bash; power_cut'
	vm "$1" 1 --cut-after 1000 -- true
}

# The disk behind the cache forgets, the other one does not.
test_power_cut_loses_what_was_not_flushed() {
	local disks=(--nbd-disk "$dir/lossy" --disk "$dir/safe")
	truncate -s 16M "$dir/lossy" "$dir/safe"
	vm "$1" 0 "${disks[@]}" --power-cut -- bash -euc '
		. guest/lib/guest.bash
		put() { yes "$1" | dd of="/dev/disk/$2" bs=64k count=1 "${@:3}"; }
		put old disk0 iflag=fullblock oflag=direct conv=fsync,nocreat
		put new disk0 iflag=fullblock oflag=direct conv=nocreat
		put new disk1 iflag=fullblock oflag=direct conv=nocreat
		[ "$(head -c 3 /dev/disk/disk0)" = new ]
		power_cut'
	[ "$(head -c 3 "$dir/lossy")" = old ]
	[ "$(head -c 3 "$dir/safe")" = new ]
	vm "$1" 0 "${disks[@]}" -- bash -euc '
		[ "$(head -c 3 /dev/disk/disk0)" = old ]
		[ "$(head -c 3 /dev/disk/disk1)" = new ]'
}

test_cut_after_a_time() {
	vm "$1" 0 --cut-after 30 -- bash -c 'echo "it runs"; sleep 1000'
	said "$1" 'it runs'
}

mapfile -t tests < <(compgen -A function test_)
declare -A names=()
failed=0

# Print how one of the running tests ended.
reap() {
	local pid status=0
	wait -n -p pid || status=$?
	if [ "$status" -eq 0 ]; then
		echo "ok - ${names[$pid]}"
	else
		cat "$dir/${names[$pid]}.log"
		echo "not ok - ${names[$pid]}"
		failed=$((failed + 1))
	fi
	unset "names[$pid]"
}

for test in "${tests[@]}"; do
	[ "${#names[@]}" -lt 2 ] || reap
	name=${test#test_}
	"$test" "$name" >"$dir/$name.log" 2>&1 &
	names[$!]=$name
done
while [ "${#names[@]}" -gt 0 ]; do
	reap
done
echo "$((${#tests[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
