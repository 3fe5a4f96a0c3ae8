#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Each allocation and each metadata I/O of each operation fails once (failnth.c).
# Needs a kernel with fault injection; leaks are the runner's to find.
#
#   FAULT_STEP      only one in so many (failnth.c)

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load lib
load volume

setup() {
	[ -e /proc/self/fail-nth ] || skip "no fault injection in this kernel"
	volume_setup
	local fault
	for fault in failslab fail_page_alloc fail_make_request; do
		# A stack dump for each would hide the ones that matter.
		echo 0 >"/sys/kernel/debug/$fault/verbose"
	done
	# Those that may sleep are the ones that fail in real life.
	echo N >/sys/kernel/debug/failslab/ignore-gfp-wait
	echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait
	echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
	echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
	dm devno $meta
	fail_io=/sys/dev/block/$reply/make-it-fail
}

teardown() { volume_teardown; }

@test "every allocation and every metadata I/O fails once" {
	echo 1 >"$fail_io"
	/rdd/bin/failnth "${FAULT_STEP:-1}" > >(sed -u "s/^/# /" >&3)
}
