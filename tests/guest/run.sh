#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: run.sh [--allow-skip] FILE.bats...
#        run.sh -- COMMAND [ARG]...
#
# Run tests in the guest, or one command as if it were a test. Exit code 0 is not
# enough for a pass. A test also must not
#
#   skip a test (except with --allow-skip)
#   leave a dm device behind
#   leave our module in a state in which it cannot be unloaded
#   make the kernel print what a healthy kernel never prints, or leak memory
#
# FILTER in the environment chooses the tests whose names match it (bats -f). Without it, and
# without SOAK, tests with the tag "soak" are left out.
#
# No option allows a kernel warning: a test that needs one is wrong. The last line
# counts the tests that passed and failed. A broken rule counts as a failed test.
set -euo pipefail
# shellcheck source=tests/guest/lib/guest.bash
. "${BASH_SOURCE[0]%/*}/lib/guest.bash"

# As scripts/bats.sh has it.
export REVDEDUP_MEASURED=4000,4000,4000,5000,10000

passed=0 failed=0 skipped=0
allow_skip=false
kmemleak=/sys/kernel/debug/kmemleak
output=$(mktemp)

# broken TEST RULE: report what the test did wrong, with details from stdin.
broken() {
	printf 'not ok - %s: %s\n' "$1" "$2"
	sed 's/^/# /'
	failed=$((failed + 1))
}

# check_exit TEST STATUS: count what bats printed, or else use the exit status.
check_exit() {
	local name=$1 status=$2 line old_failed=$failed
	if [[ $name != *.bats ]]; then
		[ "$status" -ne 0 ] || passed=$((passed + 1))
	else
		while read -r line; do
			case $line in
			ok\ *\ \#\ skip*)
				skipped=$((skipped + 1))
				$allow_skip || broken "$name" "a test was skipped" <<<"$line"
				;;
			ok\ *) passed=$((passed + 1)) ;;
			not\ ok\ *) failed=$((failed + 1)) ;;
			esac
		done <"$output"
	fi
	[ "$status" -eq 0 ] || [ "$failed" -gt "$old_failed" ] ||
		broken "$name" "exit status $status" </dev/null
}

check_dm_devices() {
	[ -n "$(dm_devices)" ] || return 0
	broken "$1" "dm devices were left behind" < <(dmsetup table)
	# Otherwise every later test would fail as well.
	clean_up_devices
	dmsetup remove_all --force
}

check_module() {
	[ -e /sys/module/dm_revdedup/refcnt ] || return 0
	retry 20 0.1 rmmod dm_revdedup 2>/dev/null ||
		broken "$1" "the module does not unload" < <(rmmod dm_revdedup 2>&1)
}

# kmemleak reports an object only when it is 5 s old, hence the wait, and when its
# content is the same in two scans.
check_leaks() {
	[ -e "$kmemleak" ] || return 0
	sleep 6
	echo scan >"$kmemleak"
	echo scan >"$kmemleak"
	cat "$kmemleak" >"$output"
	[ ! -s "$output" ] || broken "$1" "memory leaked" <"$output"
	echo clear >"$kmemleak"
}

# check_dmesg TEST MARK
check_dmesg() {
	dmesg >"$output"
	if ! grep -qF "$2" "$output"; then
		broken "$1" "the kernel's log has overflowed" </dev/null
	elif dmesg_since "$2" <"$output" | dmesg_bad >/dev/null; then
		broken "$1" "the kernel complained" < <(
			dmesg_since "$2" <"$output" |
				grep -E -B 5 -A 40 "$dmesg_bad_pattern" | head -n 200
		)
	fi
}

# A warning (512) or an oops (128) taints the kernel even if the log lost it.
check_taint() {
	[ $(($(</proc/sys/kernel/tainted) & ~$2 & (512 | 128))) -eq 0 ] ||
		broken "$1" "the kernel warned" </dev/null
}

# run_test NAME COMMAND...
run_test() {
	local name=$1 mark taint status=0
	shift
	echo "# $name"
	mark=$(dmesg_mark "begin $name $RANDOM$RANDOM")
	taint=$(</proc/sys/kernel/tainted)
	"$@" 2>&1 | tee "$output" || status=${PIPESTATUS[0]}
	check_exit "$name" "$status"
	check_dm_devices "$name"
	check_module "$name"
	check_leaks "$name"
	check_dmesg "$name" "$mark"
	check_taint "$name" "$taint"
}

case ${1:-} in
-h | --help)
	sed -n '1,3d; /^#/!q; s/^# \{0,1\}//p' "$0"
	exit
	;;
--allow-skip)
	allow_skip=true
	shift
	;;
esac
[ $# -gt 0 ] || {
	echo "run.sh: no test given (try --help)" >&2
	exit 2
}

# Otherwise the kernel drops our marks when there are many.
echo on >/proc/sys/kernel/printk_devkmsg
modprobe dm-mod
if [ "$1" = -- ]; then
	shift
	run_test "$*" "$@"
else
	chosen=(--filter-tags '!soak')
	[ -z "${SOAK:-}" ] || chosen=()
	[ -z "${FILTER:-}" ] || chosen=(-f "$FILTER")
	for file; do
		run_test "$file" bats --tap --timing "${chosen[@]}" "$file"
	done
fi
rm -f "$output"

summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary+=", $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
