#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions over NBD whose blocks are in packs: damage, and numbers of packs that are used again.
# The Makefile also runs on such pools what has the tag "packs" elsewhere.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; by pool.bash
export PACKED=yes
load nbd

# bad_blocks: those of vm1@1 that are errors; it is 1.img but for them.
bad_blocks() { "$BATS_TEST_DIRNAME/packed.py" bad "$(uri vm1@1)" 1.img; }

flip() { "$BATS_TEST_DIRNAME/packed.py" flip "$@"; }

# One version: block b of it is in slot b % 512 of pack b / 512. Packs have numbers in any order,
# so each has fewer blocks than the one before.
make_one() {
	make_pool 1G
	truncate -s 6M 1.img
	blocks 1.img 0 1012
	blocks 1.img 1024 76
	must snapshot vm1 --from 1.img
	[ "$(ask "SELECT count(*) FROM pack")" -eq 3 ]
}

@test "damage in a pack is an error for the blocks of its group, and spoils nothing else" {
	make_one
	serve_logged
	same vm1@1 1.img
	flip 1 5
	diff <(bad_blocks) <(echo {592..607})
	grep -F "vm1@1: damaged: offset $((592 * 4096)), length 65536" log
	client vm1@1 1.img --random 100
	[ "$status" -eq 1 ]
	[[ $output != *differs* ]]
	# The pool has the first word, and then the server has another look.
	flip 1 5
	same vm1@1 1.img --random 100
}

@test "damage in the head of a pack is an error for all of its blocks, and no others" {
	local bad
	make_one
	serve_logged
	flip 1 head
	diff <(bad_blocks) <(echo {512..1011})
	# What the server has learnt of the others is not lost. It may have one of these groups in
	# memory, by the number that its pack happens to have.
	flip 0 0
	flip 2 0
	bad=$(bad_blocks)
	echo "$bad"
	[ "$bad" = "$(echo {0..15} {512..1011} {1024..1039})" ] ||
		[ "$bad" = "$(echo {0..15} {512..1011})" ] ||
		[ "$bad" = "$(echo {512..1011} {1024..1039})" ]
	flip 0 0
	flip 1 head
	flip 2 0
	same vm1@1 1.img --random 100
}

@test "a pack that the catalog has lost, or has elsewhere, is an error and never a wrong byte" {
	make_one
	serve_logged
	same vm1@1 1.img
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"UPDATE pack SET place = place + 1 WHERE slots = 512"
	# It knows where the blocks are, and they are still there.
	same vm1@1 1.img
	kill "$server"
	wait "$server" || :
	rm run/all.sock run/nbdkit.pid
	serve_logged
	diff <(bad_blocks) <(echo {0..511})
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"DELETE FROM pack WHERE slots = 76"
	kill "$server"
	wait "$server" || :
	rm run/all.sock run/nbdkit.pid
	serve_logged
	diff <(bad_blocks) <(echo {0..511} {1024..1099})
	grep -F "vm1@1: damaged: offset 0, length 2097152" log
}

@test "packs whose numbers are used again are not taken for what they were" {
	make_one
	serve --all
	start_client vm1@1 1.img client
	top=$(ask "SELECT max(frame) FROM pack")
	for i in 1 2 3 4 5 6; do
		blocks 1.img $((i * 100)) 400
		cp 1.img now.img
		must snapshot vm2 --from now.img
		same vm2@$i now.img --random 20
		[ "$i" -lt 2 ] || must delete vm2@$((i - 1))
	done
	[ "$(ask "SELECT max(frame) FROM pack")" -lt $((top + 18)) ]
	end_client client
	must delete vm2@6
	must unexport --all
	is_clean
}
