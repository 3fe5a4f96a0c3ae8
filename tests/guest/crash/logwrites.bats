#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A file system at work on a volume whose base and metadata are parts of one
# dm-log-writes device, with checkpoints and commits. Then the log is replayed, and at each
# of its writes the metadata must cover everything that has changed. See logcheck.c.
#
# The same with a remap table: at each point table, base and pool together must give
# sectors that the volume may hold. See tablelog.c.
#
#   LOG_EPOCHS           how many checkpoints (default 12)
#   TABLE_LOG_WRITES     how many writes to the volume with a table (default 1500; the log has
#                        room for 5000)

# shellcheck disable=SC2154 # by logwrites.bash
load ../lib/guest
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

@test "log-writes: at any point of the log the table finds what was flushed" {
	load_module
	write_table_log
	check_table_log
	[ "$status" -eq 0 ]
	[[ $output =~ ([0-9]+)\ points ]]
	[ "${BASH_REMATCH[1]}" -ge 200 ]
}
