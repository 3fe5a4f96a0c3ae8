#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: vm-probe.sh
#
# Print how QEMU shall run guests here: kvm or tcg. That /dev/kvm opens does not
# mean that a guest gets anywhere with it, so one is booted for trial, and the
# answer kept until this machine boots again.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

probe() {
	local accel=tcg
	if [ -w /dev/kvm ] && "${BASH_SOURCE[0]%/*}/vm-run.sh" --accel kvm \
		--timeout 10 -- true 2>/dev/null; then
		accel=kvm
	fi
	note "guests will run with $accel"
	echo "$accel" >"$1/accel"
}

case ${1:-} in
-h | --help)
	show_help
	exit
	;;
esac

cat "$(cached "probe/$(</proc/sys/kernel/random/boot_id)" probe)/accel"
