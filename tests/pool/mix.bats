#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Files of a pool from different moments, also of twins, and of moments after a command was
# killed: the catalog has then changes that the journal in the data area has not. No command
# writes to what is not of one life, check finds it, and the way out that is named loses
# nothing.
#
# MIXES=N puts together at random, see mix.py.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
	export blocks=1300
}

teardown() {
	live_teardown
}

# killed STEP COMMAND...: the command dies there.
killed() {
	local status=0
	REVDEDUP_FAIL=$1=kill "${ctl[@]}" "${@:2}" >out/killed 2>&1 || status=$?
	[ "$status" -eq 137 ] || fail_test "'${*:2}' was not killed at $1: $status"
}

# refused WORDS: each command that writes says that, and changes nothing; check says it.
refused() {
	local verb status
	cp --sparse=always pool/data out/data
	for verb in "tag vm1@1 +x" "snapshot vm1 --from img/vm1" "delete vm1@1" repair dedup \
		"prune --keep-last 1"; do
		status=0
		# shellcheck disable=SC2086 # words
		"${ctl[@]}" $verb >out/refused 2>&1 || status=$?
		if [ "$status" -ne 1 ]; then
			fail_test "$verb: $status: $(cat out/refused)" || return
		fi
		grep -q "$1" out/refused && grep -q "nothing was changed" out/refused &&
			grep -q -e "--rebuild-catalog" out/refused ||
			fail_test "$verb: $(cat out/refused)" || return
	done
	cmp pool/data out/data || fail_test "the data area was changed" || return
	! "${ctl[@]}" check >out/check 2>&1 || fail_test "check finds nothing" || return
}

# has_all: each version of want is there and right, and nothing is wrong.
has_all() {
	local version
	must check && must scrub || return
	for version in want/*; do
		rm -f out/back
		must restore "${version##*/}" --to out/back &&
			cmp "$version" out/back || return
	done
}

# few: the pool of these tests.
few() {
	must init pool --size 256M --reserve 1M "${made_with[@]}"
	take vm1 vm2 vm1 vm2
	scribble vm1
	rm -rf mirror
	cp -r --sparse=always pool mirror
}

put() {
	rm -f pool/data
	cp --sparse=always "$1/data" pool/data
}

put_catalog() {
	rm -f pool/catalog.db*
	cp "$1"/catalog.db{,-pages} pool
	[ ! -e "$1/catalog.db-wal" ] || cp "$1/catalog.db-wal" pool
}

@test "a data area from before a command that was killed" {
	for at in snapshot-finish reverse-change hand-over free-commit; do
		rm -rf pool want img/* && mkdir want
		few
		rm -f log
		REVDEDUP_FAIL_LOG=$PWD/log "${ctl[@]}" -p mirror snapshot vm1 --from img/vm1 -q
		grep -q "^$at$" log || continue
		rm -rf mirror
		cp -r --sparse=always pool mirror
		killed "$at" snapshot vm1 --from img/vm1
		put mirror
		refused "the data area is older"
		must repair --rebuild-catalog
		has_all
	done
}

@test "a data area that went on, and a catalog of a command that was killed" {
	few
	must -p mirror tag vm1@1 +there
	killed snapshot-batch snapshot vm1 --from img/vm1
	put mirror
	refused "each have changes"
	must repair --rebuild-catalog
	must show vm1@there
	has_all
}

@test "a data area that was written to by a command that was killed in a twin" {
	few
	killed snapshot-finish -p mirror snapshot vm1 --from img/vm1
	put mirror
	refused "the catalog is older"
	must repair --rebuild-catalog
	has_all
}

@test "a data area that a twin has only marked" {
	few
	killed snapshot-finish snapshot vm1 --from img/vm1
	rm -rf mirror
	cp -r --sparse=always pool mirror
	killed journal-appended -p mirror tag vm1@1 +x
	put mirror
	refused "each have changes"
	must repair --rebuild-catalog
	has_all
}

@test "twins of which the last change is the same" {
	few
	must tag vm1@1 +here
	must tag vm2@1 +same
	must -p mirror tag vm1@1 +then
	must -p mirror tag vm2@1 +same
	put mirror
	refused "each have changes"
	must repair --rebuild-catalog
	must show vm1@then
	has_all
}

@test "a catalog of a command that died as it began a new journal, which went on" {
	local i status=0
	few
	for ((i = 0; i < 200 && !status; i++)); do
		REVDEDUP_FAIL=journal-switched=kill "${ctl[@]}" -q tag vm1@1 "+t$i" || status=$?
	done
	[ "$status" -eq 137 ]
	rm -rf mirror
	cp -r --sparse=always pool mirror
	must check
	must tag vm1@1 +more
	take vm1
	put_catalog mirror
	refused "the catalog is older"
	must repair --rebuild-catalog
	must show vm1@more
	has_all
}

@test "a command that was killed leaves one life, at each step" {
	local number name
	few
	rm -f log
	REVDEDUP_FAIL_LOG=$PWD/log "${ctl[@]}" -p mirror snapshot vm1 --from img/vm1 -q
	rm -rf mirror
	mv pool mirror
	some_steps 1 "$(part_of_every 1 6)" 'catalog|pages' >steps
	while read -r number name <&4; do
		rm -rf pool
		cp -r --sparse=always mirror pool
		killed "any:$number" snapshot vm1 --from img/vm1
		must check || fail_test "killed at $number, $name" || return
		must tag vm2@1 +x
		rm -f out/back
		must restore vm1@2 --to out/back && cmp want/vm1@2 out/back
	done 4<steps
}

@test "files of two moments, and of twins, put together at random" {
	"$BATS_TEST_DIRNAME/mix.py" "${ctl[0]}" "$PWD/mixes" "${MIX_SEED:-1}" "${MIXES:-12}"
}
