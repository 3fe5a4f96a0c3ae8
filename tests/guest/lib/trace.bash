# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # bats reads them
#
# Where a test fails, bats prints the line. To know it, it takes down the whole stack before each
# command: 0.3 ms, and 4 ms in a guest, which was a sixth of what tests there took. Bash 5.1 has
# the right line when a command fails, so that only then the stack is asked for. What fails in
# another way (exit, "! true" in the end, teardown) has the line of the last command that began,
# and not who called it.

# With "bats --trace" each command is printed.
[ "${BATS_TRACE_LEVEL:-0}" -eq 0 ] || return 0

bats_debug_trap() {
	# Behind the last command of a test the line is 1.
	[[ $1 == "$BATS_ROOT"/* || ${FUNCNAME[1]} == bats_* || ${BASH_LINENO[0]} -eq 1 ]] || {
		BATS_DEBUG_LAST_STACK_TRACE=("${BASH_LINENO[0]} ${FUNCNAME[1]} $1")
		BATS_DEBUG_LASTLAST_STACK_TRACE=("${BATS_DEBUG_LAST_STACK_TRACE[@]}")
	}
}

bats_error_trap() {
	bats_check_status_from_trap
	[[ -z $BATS_DEBUG_LAST_STACK_TRACE_IS_VALID && ${FUNCNAME[1]} != bats_* ]] || return 0
	bats_capture_stack_trace
	BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
}
