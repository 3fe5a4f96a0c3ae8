#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Pools that send their versions to each other at random, cut off, killed and disturbed:
# SENDS=N steps, see send.py.

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
}

teardown() {
	live_teardown
}

@test "versions are sent between pools at random, cut off and killed" {
	"$BATS_TEST_DIRNAME/send.py" "${ctl[0]}" "$PWD/sends" "${SEND_SEED:-1}" "${SENDS:-40}"
}

# Else what is left of it would be taken for all that had arrived.
@test "a partial version that was being dropped is received from its beginning" {
	local nr
	must init other --size 256M --reserve 1M
	must init pool --size 256M --reserve 1M
	truncate -s 16M img/v
	for ((nr = 0; nr < 8; nr++)); do
		head -c 1M /dev/urandom | dd of=img/v bs=1M seek=$((2 * nr)) conv=notrunc status=none
	done
	must --pool other snapshot v --from img/v
	"${ctl[@]}" --pool other send v >stream
	head -c 7M stream >part
	! "${ctl[@]}" receive <part || return
	must list --json
	grep -q '"arriving"' out/must
	! REVDEDUP_FAIL=recover-undo:2=kill "${ctl[@]}" delete v@1 || return
	"${ctl[@]}" receive <stream
	"${ctl[@]}" dump v@latest | cmp - img/v
	must check
	must scrub
}
