#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# scripts/check.sh itself, with jobs that do nothing: which run, in what order, and how a run ends.
# shellcheck disable=SC2154 # by bats
bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p scripts tests/pool kernel
	cp "$BATS_TEST_DIRNAME"/../../scripts/{lib,check}.sh scripts
	printf '#!/bin/sh\n' >scripts/setup.sh
	chmod 755 scripts/setup.sh
	unset FILTER SEED
	# Each job notes that it ran.
	cat >stubs <<-'END'
		for f in $(compgen -A function job_); do
			eval "$f() { echo $f >>ran; echo ok 1 some; echo ok 2 more; }"
		done
	END
	git init -q
	git config user.name x
	git config user.email x@x
}

# stub LINE...: jobs that do something else.
stub() {
	printf '%s\n' "$@" >>stubs
	sed -i '/^# --- tiers/r stubs' scripts/check.sh
	: >ran
	git add .
	git commit -qm x
}

check() { run scripts/check.sh "$@"; }

last() { [ "${lines[-1]}" = "$1" ] || { echo "$output"; return 1; }; }

@test "check.sh: a run ends with a table and the number of tests" {
	stub 'job_unit() { echo "7 passed, 0 failed"; }'
	check fast
	[ "$status" -eq 0 ]
	last "13 passed, 0 failed"
	[[ $output == *"job "*seconds*cpu*tests*budget* ]]
	[ "$(sort -u ran | wc -l)" -eq "$(wc -l <ran)" ]
}

@test "check.sh: a failed test comes last, with the command that runs it alone" {
	stub 'job_cli() { cat failed; return 1; }'
	cat >failed <<-'END'
		# tests/cli/pool-cli.bats: 3 s
		1..3
		ok 1 good
		not ok 2 pool: what it's (not) in 34ms
		# (in test file tests/cli/pool-cli.bats, line 4)
		#   `[ a = b ]' failed
		# SEED=1 COMPRESSION=zstd PIECES=64
		# expected: b
		ok 3 fine
	END
	check fast
	[ "$status" -eq 1 ]
	last "8 passed, 1 failed"
	[[ ${lines[-2]} == *"SEED=1 COMPRESSION=zstd PIECES=64 FILTER='pool: what it.s \\(not\\)' scripts/check.sh fast cli" ]]
	[[ ${lines[-3]} == *"# expected: b" ]]
	[[ $output == *"line 4)"* ]]
	# It is not tried again.
	[ "$(grep -c FAILED <<<"$output")" -eq 1 ]
}

@test "check.sh: a job that ends without a word, or with a status, has failed" {
	stub 'job_unit() { return 3; }' 'job_pool() { echo "3 passed, 0 failed"; return 1; }'
	check fast unit pool
	[ "$status" -eq 1 ]
	last "3 passed, 2 failed"
}

@test "check.sh: what a job needs runs before it, and where that fails it does not run" {
	stub
	check all kunit guest-6.12
	[ "$status" -eq 0 ]
	[ "$(grep -n job_modules ran | cut -d : -f 1)" -lt "$(grep -n job_guest_6.12 ran | cut -d : -f 1)" ]
	[ "$(grep -n job_debug_kernel ran | cut -d : -f 1)" -lt "$(grep -n job_kunit ran | cut -d : -f 1)" ]
	[ "$(wc -l <ran)" -eq 4 ]
	: >ran
	sed -i 's/^# --- running them/job_modules() { return 1; }\n&/' scripts/check.sh
	check all guest-6.12
	[ "$status" -eq 1 ]
	[[ $output == *"'guest_6.12' was not run, as 'modules' failed"* ]]
	[ ! -s ran ]
}

@test "check.sh: changed runs what the changed paths can break" {
	stub
	check changed HEAD
	[ "$status" -eq 0 ]
	[ ! -s ran ]
	echo >tests/pool/new.bats
	check changed HEAD
	[ "$status" -eq 0 ]
	grep -qx job_pool ran
	grep -qx job_pool_live ran
	run ! grep -q job_guest ran
	# What no line knows can break all.
	: >ran
	echo >unknown
	check changed HEAD
	grep -qx job_host_clone_6.12 ran
}

@test "check.sh: soak goes on where it was interrupted, with the same tree" {
	stub 'job_cli() { [ -e ../fine ] && echo ok; }'
	rm -f ../fine
	check soak
	[ "$status" -eq 1 ]
	all=$(wc -l <ran)
	: >ran
	touch ../fine
	check soak
	rm ../fine
	[ "$status" -eq 0 ]
	last "$((2 * all + 1)) passed, 0 failed"
	# What was to be built is built again.
	[ "$(sort ran | xargs)" = "job_debug_kernel job_modules" ]
	# That one has ended, and who names a job gets it.
	: >ran
	check soak lint
	check soak lint
	[ "$(xargs <ran)" = "job_lint job_lint" ]
}

@test "check.sh: lint finds a test that no job runs" {
	stub
	echo >tests/pool/Makefile
	echo >tests/pool/new.bats
	git add .
	check lint-jobs
	[ "$status" -ne 0 ]
	[[ $output == *"no job runs tests/pool/new.bats"* ]]
}
