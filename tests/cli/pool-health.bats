#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl check, scrub, repair, and locks.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

@test "check: a catalog that is not in order" {
	make_versions
	ctl check
	expect 0 <<<"pool '$PWD/pool': catalog OK (3 versions, 2.4 MiB)"
	must check --json
	[ "$(field 0 '["versions"]')" = 3 ]
	[ "$(field 0 '["wrong"]')" = 0 ]
	[ "$(field 0 '["bytes_live"]')" = $((606 * 4096)) ]
	edit "UPDATE uses SET refs = refs + 1"
	ctl check
	[ "$status" -eq 4 ]
	[[ ${lines[0]} == "wrong: count of segments that name a recipe"* ]]
	[[ $output == *"pool '$PWD/pool': the catalog has 5 errors"* ]]
	ctl check --json
	[ "$status" -eq 4 ]
	[ "$(field 0 '["type"]')" = wrong ]
	[ "$(field -1 '["wrong"]')" = 5 ]
}

@test "scrub: damage is named, and everything else restored" {
	make_versions
	# Each block once.
	ctl scrub
	expect 0 <<<"scrub OK: 3 versions, 2.4 MiB read, no version damaged"
	must scrub vm1
	expect 0 <<<"scrub OK: 3 versions, 7.0 MiB read, no version damaged"
	must scrub vm1@2 --json --progress=never
	[ "$(field 0 '["damaged"]')" = "[]" ]
	[ "$(field 1 '["versions"]')" = 1 ]

	# Block 3 is all versions', block 510 was in the first two.
	damage 1.img 3
	damage 1.img 510
	ctl scrub
	expect 4 <<-'END'
		revdedupctl: damaged: offset 12288, length 4096 in vm1@1, 2, 3
		revdedupctl: damaged: offset 2088960, length 4096 in vm1@1, 2
		scrub found damage: 3 versions, 2.4 MiB read, 3 damaged
		revdedupctl: nothing was changed; 'revdedupctl repair' heals whatever it finds another copy of; 'restore' writes everything that is not damaged
	END
	all=$output
	ctl scrub vm1
	expect 4 <<<"${all/2.4 MiB/7.0 MiB}"
	ctl scrub --json --progress=never
	[ "$status" -eq 4 ]
	[ "$(field 0 '["damaged"][1]["offset"]')" = 2088960 ]
	[ "$(field 3 '["versions_damaged"]')" = 3 ]
	ctl scrub vm1@3 --json --progress=never
	[ "$status" -eq 4 ]
	[ "$(field 0 '["damaged"][0]["offset"]')" = 12288 ]
	[ "$(field 1 '["versions_damaged"]')" = 1 ]
	# The pool's copy of what the image has is not read again to find that out.
	must snapshot vm3 --from 3.img
	[[ $output == *"the last scrub found damage"*"repair --from PATH"* ]]
	must delete vm3@1

	ctl restore vm1@1 --to r.img
	[ "$status" -eq 4 ]
	[ "${lines[0]}" = "restored vm1@1 to 'r.img', except 2 damaged ranges (8.0 KiB): wrote 2.3 MiB of 6.0 MiB" ]
	[ "${lines[1]}" = "revdedupctl: vm1@1: damaged: offset 12288, length 4096, not written" ]
	cp 1.img wanted.img
	dd if=/dev/zero of=wanted.img bs=4096 seek=3 count=1 conv=notrunc status=none
	dd if=/dev/zero of=wanted.img bs=4096 seek=510 count=1 conv=notrunc status=none
	cmp wanted.img r.img
	code=0
	"$build/bin/revdedupctl" dump vm1@1 >o.img 2>err || code=$?
	[ "$code" -eq 4 ]
	cmp wanted.img o.img
	grep -q "offset 12288, length 4096, zeros in its place" err
	# A target that has the block needs none.
	cp 1.img r.img
	must restore vm1@1 --to r.img --yes --json
	cp 3.img r.img
	ctl restore vm1@1 --to r.img --yes --json
	[ "$status" -eq 4 ]
	output=${lines[0]}
	[ "$(field 0 '["damaged"]')" = '[{"offset":2088960,"length":4096}]' ]
}

@test "scrub: --rate is kept, also where all is read" {
	local began
	make_versions
	began=${EPOCHREALTIME/./}
	must scrub --rate 2M
	# 2.4 MiB are stored.
	[ $((${EPOCHREALTIME/./} - began)) -ge 1100000 ]
}

@test "repair: heals from another copy" {
	make_versions
	ctl repair
	expect 0 <<<"read 2.4 MiB: 0 blocks damaged, 0 healed"
	# Of blocks 3 and 4 vm2 has a copy elsewhere, of block 510 nobody does.
	truncate -s 4M b.img
	dd if=1.img of=b.img bs=4096 skip=3 seek=77 count=2 conv=notrunc status=none
	must snapshot vm2 --from b.img
	damage 1.img 3
	damage 1.img 4
	damage 1.img 510
	before=$(md5sum pool/data)
	ctl repair --dry-run
	expect 4 <<-'END'
		revdedupctl: damaged: offset 2088960, length 4096 in vm1@1, 2
		read 2.4 MiB: 3 blocks damaged, 2 would be healed
		revdedupctl: 2 of 4 versions would still be damaged
		revdedupctl: an image or device with the same content, such as the disk itself, can heal more: 'revdedupctl repair --from PATH'
	END
	[ "$(md5sum pool/data)" = "$before" ]
	code=0
	output=$("$build/bin/revdedupctl" repair --json --progress=never 2>/dev/null) || code=$?
	[ "$code" -eq 4 ]
	[ "$(field 0 '["damaged"][0]["offset"]')" = 2088960 ]
	[ "$(field -2 '["blocks_damaged"]')" = 3 ]
	[ "$(field -2 '["blocks_healed"]')" = 2 ]
	[ "$(field -1 '["exit"]')" = 4 ]
	ctl repair --from nowhere
	[ "$status" -eq 1 ]
	ctl repair --from pool/data
	expect 1 <<-'END'
		revdedupctl: 'pool/data' is part of the pool
		revdedupctl: the pool itself is searched anyway
	END
	ctl repair --from 3.img --from 2.img --progress=always
	[ "$status" -eq 0 ]
	[[ $output == *"1 blocks damaged, 1 healed"* ]]
	must snapshot vm3 --from 3.img
	[[ $output != *"damage"* ]]
	must scrub
	must check
	for nr in 1 2 3; do
		must restore "vm1@$nr" --to "r$nr.img"
		cmp "$nr.img" "r$nr.img"
	done

	ctl repair --force
	expect 2 <<<"revdedupctl: --force is for --rebuild-catalog, and for a pool that has lost both superblocks or whose catalog and data area do not belong together (try 'revdedupctl help repair')"
	ctl repair --rebuild-catalog -n
	[ "$status" -eq 2 ]
	ctl repair --rebuild-catalog --from 1.img
	[ "$status" -eq 2 ]
}

@test "locks: a command that has the pool alone is named" {
	make_pool 64M
	hold 0 0
	for command in status list "delete vm1@1"; do
		# shellcheck disable=SC2086 # words
		ctl $command
		echo "$output"
		[ "$status" -eq 11 ]
		[[ $output == *"another command is using the pool"*"running: "*"python3 "*", pid $holder"* ]]
	done
	drop
}

@test "locks: who waits for whom" {
	make_versions
	# Somebody works on the volume: readers do not mind.
	hold 4 1
	for command in "snapshot vm1 --from 1.img" "delete vm1@1" \
		"prune --keep-last 1"; do
		# shellcheck disable=SC2086 # words
		ctl $command
		[ "$status" -eq 11 ]
		[[ $output == *"another command is using"*"--lock-wait SECONDS"* ]]
	done
	must list
	must restore vm1@1 --to r.img
	must scrub
	must check
	must snapshot vm2 --from 1.img
	# Of more than one volume prune does what it can.
	must snapshot vm2 --from 2.img
	ctl prune --keep-last 1
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"using the volume 'vm1'"*"vm1@1 was skipped"*"vm1@2 was skipped"* ]]
	[[ $output == *"deleted vm2@1"*"1 of 3 versions were deleted"*"freed"* ]]
	[ "$(grep -c "is using" <<<"$output")" -eq 1 ]
	must check
	(sleep 1; kill "$holder") 3>&- &
	must delete vm1@1 --lock-wait 600
	rm held

	# Somebody reads the version: it is not deleted, and can be read.
	id=$(ask "SELECT id FROM version WHERE number = 2 AND volume = 1")
	hold 5 "$id" shared
	ctl delete vm1@2
	[ "$status" -eq 11 ]
	[ "${lines[0]}" = "revdedupctl: another command is using vm1@2" ]
	must restore vm1@2 --to r2.img
	must snapshot vm1 --from 1.img
	ctl prune vm1 --keep-last 1 --json 2>/dev/null
	[ "$status" -eq 11 ]
	[[ $output == *'{"type": "skipped", "version": "vm1@2"}'* ]]
	[[ $output == *'{"type": "delete", "version": "vm1@3"}'* ]]
	drop
	# Somebody deletes it: nobody begins to read it, and the others are read.
	hold 5 "$id"
	ctl restore vm1@2 --to r3.img
	[ "$status" -eq 11 ]
	[ ! -e r3.img ]
	must scrub
	ctl scrub vm1
	[ "$status" -eq 3 ]
	[[ $output == *"1 version, "*" read, no version damaged, 1 not read: another command deletes"* ]]
	drop
	# Somebody repairs the pool.
	hold 0 0
	ctl list
	[ "$status" -eq 11 ]
	ctl list --lock-wait 1
	[ "$status" -eq 11 ]
	drop
	must check
}

@test "report: what the last scrub and check found, each number under one key" {
	make_versions
	must scrub
	must check
	# What a stranger has put in the place of one leads nowhere.
	echo kept >bait
	ln -sf "$PWD/bait" pool/last-scrub
	must scrub
	[ ! -L pool/last-scrub ]
	[ "$(<bait)" = kept ]
	must report --json
	python3 -c 'import json, sys
def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)
said = json.loads(sys.argv[1], object_pairs_hook=once)
assert said["last_scrub"]["versions"] == said["last_check"]["versions"] == 0, said
assert said["versions"] > 0, said' "$output"
}
