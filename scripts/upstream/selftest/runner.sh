# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# run FILE.bats...: run these tests, which print TAP, on the target of this kernel. They make
# ram disks and dm devices whose names begin with rdt-, so they are for a machine that has
# nothing else on brd. Sourced by the programs of this directory.

readonly ksft_fail=1 ksft_skip=4

skip_all() {
	echo "1..0 # SKIP $*"
	exit "$ksft_skip"
}

run() {
	local word taint status=0
	echo "TAP version 13"
	[ "$(id -u)" -eq 0 ] || skip_all "must be run as root"
	for word in bats dmsetup blockdev losetup modprobe; do
		command -v "$word" >/dev/null || skip_all "there is no $word"
	done
	modprobe dm-mod 2>/dev/null
	dmsetup targets | grep -q '^revdedup ' || modprobe dm-revdedup 2>/dev/null ||
		skip_all "this kernel has no target revdedup"
	[ -d /sys/module/brd ] || modprobe -n brd 2>/dev/null ||
		skip_all "this kernel has no module brd"

	taint=$(cat /proc/sys/kernel/tainted)
	bats --tap "$@" || status=$ksft_fail
	# A warning (512) or an oops (128).
	if [ $(($(cat /proc/sys/kernel/tainted) & ~taint & (512 | 128))) -ne 0 ]; then
		echo "# the kernel warned: see its log"
		status=$ksft_fail
	fi
	exit "$status"
}
