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
	! mountpoint -q "$BATS_TEST_TMPDIR/mnt" || umount "$BATS_TEST_TMPDIR/mnt"
	live_teardown
}

# segment LETTER: one that compresses, to a pack of one length whatever the letter.
segment() {
	python3 -c 'import sys
for nr in range(512):
    print(f"{sys.argv[1]}{nr:07}" * 512, end="")' "$1"
}

@test "versions are sent between pools at random, cut off and killed" {
	"$BATS_TEST_DIRNAME/send.py" "${ctl[0]}" "$PWD/sends" "${SEND_SEED:-1}" "${SENDS:-40}"
}

# Else what is left of it would be taken for all that had arrived.
@test "a partial version that was being dropped is received from its beginning" {
	local nr
	must init --compression none other --size 256M --reserve 1M
	must init --compression none pool --size 256M --reserve 1M
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

# make_ends: of "pool", which receives, and "other", which has v@1; a side that hears nothing for
# $patience seconds gives up, and commands wait for each other.
make_ends() {
	must init --compression none other --size 256M --reserve 1M
	must init --compression none pool --size 256M --reserve 1M
	head -c 4M /dev/urandom >img/v
	must --pool other snapshot v --from img/v
	mkdir etc
	printf '[general]\nlock-wait = 600\n' >etc/revdedup.conf
	export REVDEDUP_CONFIG=$PWD/etc REVDEDUP_PATIENCE=${patience}000
}

# meanwhile COMMAND...: run it while the command that stop_at has stopped goes on after twice that.
meanwhile() {
	local waker
	(sleep $((2 * patience)) && kill -CONT "$pid") 3>&- &
	waker=$!
	must "$@"
	wait "$waker"
	go_on
}

@test "an end that waits for another command, or for an answer, is not given up" {
	# Where the machine is busy for so long, an end is given up that did not wait: once more.
	# shellcheck disable=SC2034 # bats reads it
	BATS_TEST_RETRIES=1
	patience=3
	[ "$BATS_TEST_TRY_NUMBER" -eq 1 ] || patience=30
	make_ends
	# The pool that sends, and the one that receives.
	stop_at grow-extended --pool other grow --size 512M
	meanwhile receive v --from other
	grep -q '^received v@1: ' out/must
	stop_at grow-extended grow --size 512M
	meanwhile --pool other send v --as w --to pool
	stop_at snapshot-finish snapshot x --from img/v
	meanwhile --pool other send v --as x --force --to pool
	echo old >back
	(sleep $((2 * patience)) && echo y) |
		script -qec "${ctl[*]} restore v@1 --from other --to back" /dev/null >said
	cmp back img/v
	must check
}

# given_up RSH: an end that is started by that, and says nothing any more, costs the patience only.
given_up() {
	local status=0
	timeout 200 "${ctl[@]}" --pool other send v --to "x:$PWD/pool" --rsh "$1" >said 2>&1 \
		</dev/null 3>&- || status=$?
	[ "$status" -eq 1 ] || fail_test "'$1': status $status: $(<said)"
	[ "$(<said)" = "revdedupctl: nothing was heard from x for 1 seconds" ] ||
		fail_test "'$1': $(<said)"
}

@test "an end that is silent and does not end is ended" {
	patience=1
	make_ends
	given_up 'sleep 600 #'
	# As if it waited for a disk: SIGTERM does not end it.
	# shellcheck disable=SC2016 # it is another shell that expands it
	given_up 'sh -c '\''trap "" TERM; echo $$ >pid; while :; do sleep 0.1; done'\'' #'
	! kill -0 "$(<pid)" 2>/dev/null || fail_test "it still runs"
	# Here the pipe to it is full.
	PATH=$(dirname "${ctl[-1]}"):$PATH given_up "$BATS_TEST_DIRNAME/../cli/stream-relay.py hold 700000"
}

# Else a program that knows no such version takes it for damage, instead of refusing the pool.
@test "a version that arrives is announced before it is there" {
	local nr copy
	must init --compression none other --size 256M --reserve 1M
	must init empty --size 256M --reserve 1M --compression none
	head -c 4M /dev/urandom >img/v
	must --pool other snapshot v --from img/v
	"${ctl[@]}" --pool other send v >stream
	for ((nr = 1; nr < 1000; nr++)); do
		rm -rf pool
		cp -r --sparse=always empty pool
		! REVDEDUP_FAIL=any:$nr=kill "${ctl[@]}" receive <stream || return
		[ "$(ask "SELECT count(*) FROM version WHERE state = 5")" -eq 0 ] || break
	done
	for copy in 0 256; do
		# Incompatible features, bit 2.
		[ "$(od -An -t u1 -N 1 -j $((copy * 4096 + 80)) pool/data)" -eq 4 ] ||
			fail_test "copy $copy of the superblock does not say it"
		[ "$(od -An -t u1 -N 1 -j $((copy * 4096 + 80)) empty/data)" -eq 0 ]
	done
	must receive <stream
	must check
}

# A sender that cannot write holds nothing.
@test "a pack whose number and place are another's by now does not go over the wire" {
	local relay=$BATS_TEST_DIRNAME/../cli/stream-relay.py i pid
	must init pool --size 256M --reserve 1M --compression zstd
	must init other --size 256M --reserve 1M --compression zstd
	segment a >img/v
	segment b >img/w
	must snapshot v --from img/v
	mkdir mnt
	mount --bind pool mnt
	mount -o remount,bind,ro mnt
	PATH=$(dirname "${ctl[-1]}"):$PATH REVDEDUP_FAIL=random-pack=stop "${ctl[@]}" --pool mnt \
		send v --to "x:$PWD/other" --rsh "$relay keep wire" >said 2>&1 3>&- &
	pid=$!
	for ((i = 0; i < 6000; i++)); do
		[ -e "/proc/$pid" ] || fail_test "it has not stopped: $(<said)"
		[ "$(cut -d ' ' -f 3 "/proc/$pid/stat")" != T ] || break
		sleep 0.01
	done
	must delete v@1 --yes
	must snapshot w --from img/w
	kill -CONT "$pid"
	! wait "$pid" || return
	grep deleted said
	# What it sent are not the bytes of w.
	[ -z "$("$relay" codecs <wire)" ]
}
