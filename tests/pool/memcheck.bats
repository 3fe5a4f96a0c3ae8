#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Every command once under valgrind's memcheck. Memcheck does not see what the kernel writes
# for io_uring, so reads and writes are plain calls here. It has no AVX-512 either, and tells
# the program so: fingerprints come from AVX2 or OpenSSL.

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
	export blocks=700
	export REVDEDUP_NO_URING=1
	ctl=(valgrind -q --error-exitcode=99 --leak-check=full
		"--errors-for-leak-kinds=definite,indirect" "${ctl[@]}")
}

@test "a short series under memcheck" {
	local command
	must init --compression none pool --size 1G --reserve 1M
	take vm1 vm1 vm2
	cp --sparse=always img/vm1 img/vm3
	must snapshot vm3 --from img/vm3
	took vm3 out/must
	take vm1
	for command in list "list vm1 --json" "show vm1" stats "diff vm1@1 vm1@2" check scrub \
		"protect vm1@1" "unprotect vm1@1" "tag vm1@1 +gold" \
		"restore vm1@1 --to out/new" "restore vm1@2 --to out/new --yes" \
		"repair --rebuild-catalog" "delete vm1@2" \
		"prune vm1 --keep-last 1" "help" "version"; do
		# shellcheck disable=SC2086 # words
		must $command
	done
	rm want/vm1@[12]
	# What one that was killed has left, and one that fails.
	scribble vm2
	! REVDEDUP_FAIL=reverse-vacate=kill "${ctl[@]}" snapshot vm2 --from img/vm2 || return
	cp --sparse=always img/vm2 want/vm2@2
	scribble vm2
	run -1 env REVDEDUP_FAIL=write:3=EIO "${ctl[@]}" snapshot vm2 --from img/vm2
	all_right
}
