#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A file system at work on a volume whose base and metadata are parts of one
# dm-log-writes device, with checkpoints and commits; then the log is replayed,
# and at each of its writes what the metadata says must cover what has changed.
# See logcheck.c.
#
#   LOG_EPOCHS    how many checkpoints (default 12)

# shellcheck disable=SC2154 # by logwrites.bash
load lib
load logwrites

setup() { log_setup; }
teardown() { log_teardown; }

@test "log-writes: no write is forgotten at any point of the log" {
	load_module
	write_log
	check_log
	[ "$status" -eq 0 ]
	[[ $output =~ ([0-9]+)\ points ]]
	[ "${BASH_REMATCH[1]}" -ge 1000 ]
}
