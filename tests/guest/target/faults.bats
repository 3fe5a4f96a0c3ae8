#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Each allocation and each metadata I/O of each operation fails once (failnth.c). Needs a
# kernel with fault injection. The runner finds leaks.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

setup() {
	[ -e /proc/self/fail-nth ] || skip "no fault injection in this kernel"
	volume_setup
	local fault cache
	for fault in failslab fail_page_alloc fail_make_request; do
		# A stack dump for each would hide the ones that matter.
		echo 0 >"/sys/kernel/debug/$fault/verbose"
	done
	# Those that may sleep are the ones that fail in real life.
	echo N >/sys/kernel/debug/failslab/ignore-gfp-wait
	echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait
	echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
	# dm-bufio makes a slab cache for each client, and where one cannot be made
	# the kernel itself complains and leaks: in the 700 allocations of sysfs
	# entries for it, all smaller than what we and dm-bufio allocate, and in
	# single pages. For a vmalloc that fails, with its 96 bytes, it complains,
	# too.
	echo Y >/sys/kernel/debug/failslab/cache-filter
	for cache in /sys/kernel/slab/kmalloc-{64,128,192,256,512,1k,2k,4k,8k}; do
		echo 1 >"$cache/failslab"
	done
	echo 1 >/sys/kernel/debug/fail_page_alloc/min-order
	dm devno $meta
	fail_io=/sys/dev/block/$reply/make-it-fail
}

teardown() { volume_teardown; }

@test "every allocation and every metadata I/O fails once" {
	echo 1 >"$fail_io"
	/revdedup/bin/failnth > >(sed -u "s/^/# /" >&3)
}
