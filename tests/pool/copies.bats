#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Copies on another disk, while their writer is killed or fails at each of its steps, and beside
# other commands. tests/cli/copies.py reads them by their format: no fingerprint is there without
# its content.

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
	cli=$BATS_TEST_DIRNAME/../cli
}

teardown() {
	live_teardown
	[ ! -b "${loop:-}" ] || losetup --detach "$loop"
}

# noise VOL NR: an image of 8 MiB with so many blocks that nothing else has becomes a version.
noise() {
	local nr=${3:-1}
	truncate -s 0 "img/$1"
	truncate -s 8M "img/$1"
	dd if=/dev/urandom of="img/$1" bs=4096 count="$2" iflag=fullblock conv=notrunc status=none
	must snapshot "$1" --from "img/$1"
	cp --sparse=always "img/$1" "want/$1@$nr"
}

copying=(copies 100% --force)

# make_copies: of four volumes, and then what they are of has become something else.
make_copies() {
	must init pool --size 512M --reserve 1M --compression "$compression"
	noise a 900
	noise b 700
	noise c 512
	noise d 300
	must "${copying[@]}" --to copies
	must delete b@1 c@1
	rm want/b@1 want/c@1
	noise e 1100
	noise f 600
	noise a 800 2
}

# are_right: each copy is what its fingerprint says.
are_right() {
	local differ
	differ=$("$cli/copies.py" check copies) || fail_test "copies.py: $differ"
	[ "$differ" = 0 ] || fail_test "$differ copies have other content than their fingerprints say"
}

# are_complete: there is a copy of each block that a recipe owns.
are_complete() {
	local copied
	copied=$("$cli/copies.py" list copies | awk '{ sum += $2 } END { print sum }')
	[ "$copied" = "$(ask "SELECT sum(n) FROM slot_owner WHERE recipe > 0")" ]
}

# damage_all_of_it: no frame of the pool has any of its blocks. What is free stays a hole.
damage_all_of_it() {
	python3 -c 'import sqlite3
asked = sqlite3.connect("asked/catalog.db")
with open("pool/data", "r+b") as data:
    for frame, in asked.execute("SELECT DISTINCT frame FROM slot_owner WHERE frame < 1 << 36"):
        at = (2 << 20) + frame // 256 * 257 * (2 << 20) + (frame % 256 + 1 << 21)
        for block in range(at, at + (2 << 20), 4096):
            data.seek(block)
            if any(data.read(4096)):
                data.seek(block)
                data.write(b"lost" * 1024)'
}

@test "all frames are lost, and the copies have them" {
	compression=none
	make_copies
	must "${copying[@]}"
	are_complete
	damage_all_of_it
	run -4 "${ctl[@]}" scrub
	# A restore needs no repair.
	must restore a@1 --to back
	cmp back want/a@1
	must repair
	must scrub
	all_right
}

@test "a block is looked for in the copy of its frame, and then in the others" {
	compression=none
	make_copies
	must "${copying[@]}"
	are_complete
	damage_all_of_it
	log_steps restore d@1 --to back
	cmp back want/d@1
	# Superblock and table once, then blocks, and fingerprints of the one or two frames of these.
	[ "$(grep -c '^copies-read' log)" -le $((2 + 300 + 2)) ]
}

@test "a writer of copies is killed at each step" {
	local number name status kills=0
	make_copies
	keep_base
	cp --sparse=always copies copies.base
	log_steps "${copying[@]}"
	are_right
	are_complete
	for name in copies-write copies-sync copies-enter copies-drop; do
		grep -q "^$name\$" log || fail_test "it does not come to $name"
	done
	grep -n '^copies-' log | awk -F: -v every="$(part_of_every 1 6)" \
		'$2 != "copies-read" && nr++ % every == 0 { print $1, $2 }' >steps
	while read -r number name <&4; do
		from_base
		cp --sparse=always copies.base copies
		status=0
		REVDEDUP_FAIL=any:$number=kill "${ctl[@]}" "${copying[@]}" >out/killed 2>&1 ||
			status=$?
		[ "$status" -eq 137 ] || [ "$status" -eq 0 ] || fail_test "status $status"
		[ "$status" -eq 0 ] || kills=$((kills + 1))
		are_right || fail_test "killed at step $number, $name: see above"
		must scrub
		! grep -q "copies are damaged" out/must ||
			fail_test "killed at step $number, $name: $(cat out/must)"
		must "${copying[@]}"
		are_right
		are_complete || fail_test "after a kill at step $number, $name"
	done 4<steps
	all_right
	[ "$kills" -gt $((${EVERY:-1} > 24 ? 2 : 5)) ]
	say "$kills kills"
}

@test "a crash before the link is there keeps no copies from being made" {
	must init pool --size 512M --compression none
	noise a 600
	run -137 env REVDEDUP_FAIL=copies-sync:2=kill "${ctl[@]}" "${copying[@]}" --to copies
	[ -s copies ] && [ ! -L pool/copies ]
	must "${copying[@]}" --to copies
	are_complete
}

@test "of two copies of a frame, which a crash leaves, the newer one stays" {
	must init pool --size 512M --compression none
	noise a 512
	must "${copying[@]}" --to copies
	# The older version keeps 400 blocks.
	dd if=/dev/urandom of=img/a bs=4096 count=400 conv=notrunc iflag=fullblock status=none
	must snapshot a --from img/a
	run -137 env REVDEDUP_FAIL=copies-drop=kill "${ctl[@]}" "${copying[@]}"
	"$cli/copies.py" list copies | cut -d' ' -f1 | sort | uniq -d | grep -q .
	must "${copying[@]}" --json
	grep -q '"bytes_copied": 0,' out/must || fail_test "$(cat out/must)"
	are_right
	are_complete
}

# changed FIRST NR N: these blocks of a change, and it becomes version N.
changed() {
	dd if=/dev/urandom of=img/a bs=4096 seek="$1" count="$2" iflag=fullblock conv=notrunc \
		status=none
	must snapshot a --from img/a --pieces 512
	cp --sparse=always img/a "want/a@$3"
}

@test "of two copies of a frame the one stays that has most of what lives, whatever has died" {
	local frame
	must init pool --size 512M --reserve 1M --compression none
	noise a 512
	changed 0 100 2
	must "${copying[@]}" --to copies
	# The same frame gets 300 blocks more; of these 250 die.
	changed 100 300 3
	frame=$(ask "SELECT frame FROM slot_owner WHERE n = 400")
	run -137 env REVDEDUP_FAIL=copies-drop=kill "${ctl[@]}" "${copying[@]}"
	[ "$("$cli/copies.py" list copies | grep -c "^$frame ")" = 2 ]
	fallocate --punch-hole --offset $((100 * 4096)) --length $((250 * 4096)) img/a
	changed 511 1 4
	must delete a@3
	rm want/a@3
	[ "$(ask "SELECT sum(n) FROM slot_owner WHERE frame = $frame AND n < 400")" -ge 150 ]
	# One of those that only the newer copy has.
	python3 -c 'with open("img/a", "rb") as image, open("pool/data", "r+b") as data:
    image.seek(360 * 4096)
    at = data.read().find(image.read(4096))
    assert at >= 0
    data.seek(at)
    data.write(b"damaged")'
	run "${ctl[@]}" "${copying[@]}"
	must repair
	all_right
}

@test "what is deleted while it is copied is no damage" {
	must init pool --size 512M --compression none
	noise a 600
	noise b 600
	stop_at copies-content "${copying[@]}" --to copies
	must delete a@1
	rm want/a@1
	go_on
	are_right
	must "${copying[@]}"
	are_complete
	all_right
}

@test "a writer of copies fails at each step, and has no room" {
	local number name status error
	make_copies
	keep_base
	cp --sparse=always copies copies.base
	log_steps "${copying[@]}"
	grep -n '^copies-' log | awk -F: -v every="$(part_of_every 1 6)" \
		'nr++ % every == 0 { print $1, $2 }' >steps
	while read -r number name <&4; do
		error=$([ $((number % 2)) -eq 0 ] && echo EIO || echo ENOSPC)
		from_base
		cp --sparse=always copies.base copies
		status=0
		REVDEDUP_FAIL=any:$number=$error "${ctl[@]}" "${copying[@]}" >out/failed 2>&1 ||
			status=$?
		[ "$status" -lt 128 ] || fail_test "$error at step $number, $name: status $status"
		are_right || fail_test "$error at step $number, $name: see above"
		must "${copying[@]}"
		are_right
		are_complete || fail_test "after $error at step $number, $name"
	done 4<steps
	all_right
}

@test "copies that cannot be read are none, and each read of them may fail" {
	local number name status command
	compression=none
	make_copies
	must "${copying[@]}"
	ask "SELECT 1" >/dev/null
	damage_all_of_it
	keep_base
	cp --sparse=always copies copies.base
	for command in "restore a@1 --to back" repair scrub; do
		from_base
		cp --sparse=always copies.base copies
		rm -f log back
		# shellcheck disable=SC2086 # words
		REVDEDUP_FAIL_LOG=$PWD/log "${ctl[@]}" $command >out/log 2>&1 || :
		grep -n '^copies-read' log | awk -F: 'nr++ < 4 || nr % 500 == 0 { print $1, $2 }' >steps
		[ "$(wc -l <steps)" -gt 3 ]
		while read -r number name <&4; do
			from_base
			cp --sparse=always copies.base copies
			rm -f back
			status=0
			# shellcheck disable=SC2086 # words
			REVDEDUP_FAIL=any:$number=EIO "${ctl[@]}" $command >out/failed 2>&1 ||
				status=$?
			[ "$status" -eq 0 ] || [ "$status" -eq 4 ] ||
				fail_test "$command, EIO at $number: $status: $(cat out/failed)"
			# What is in the target is right, or zeros that were told.
			[ ! -e back ] || python3 - back want/a@1 "$status" <<-'END'
				import sys
				back, want = (open(name, "rb").read() for name in sys.argv[1:3])
				blocks = [i for i in range(0, len(want), 4096)
				          if back[i:i + 4096] != want[i:i + 4096]]
				assert all(not any(back[i:i + 4096]) for i in blocks)
				assert bool(blocks) == (sys.argv[3] == "4")
			END
			must repair
			must scrub
			all_right
		done 4<steps
	done
}

@test "another pool with the same link does not write copies meanwhile" {
	must init pool --size 512M --compression none
	noise a 600
	must "${copying[@]}" --to "$PWD/copies"
	cp -r --sparse=always pool other
	noise b 600
	stop_at copies-enter "${copying[@]}"
	run -11 "${ctl[@]}" -p other "${copying[@]}"
	[[ $output == *"cannot open the copies 'other/copies': Device or resource busy"* ]]
	go_on
	are_complete
}

@test "a copy that cannot be read once stays" {
	local nr before
	must init pool --size 512M --compression none
	noise a 20
	must "${copying[@]}" --to copies
	before=$("$cli/copies.py" list copies)
	log_steps repair
	for ((nr = $(grep -c '^copies-read' log); nr; nr--)); do
		REVDEDUP_FAIL=copies-read:$nr=EIO must repair
		[ "$("$cli/copies.py" list copies)" = "$before" ] || fail_test "EIO at read $nr"
		are_right
	done
}

@test "repair says what it has done to the pool though the copies cannot be written" {
	must init pool --size 512M --compression none
	noise a 20
	must "${copying[@]}" --to copies
	"$cli/copies.py" flip copies img/a 3
	REVDEDUP_FAIL=copies-write=EIO must repair
	grep -q "0 blocks damaged, 0 healed" out/must
	grep -q "warning: not all copies were checked; the pool does without them" out/must
}

@test "copies that go while scrub reads them are not damaged" {
	must init pool --size 512M --compression none
	noise a 600
	must "${copying[@]}" --to copies
	stop_at copies-read:4 scrub
	must delete a@1
	rm want/a@1
	noise b 300
	must "${copying[@]}"
	go_on
	! grep "copies are damaged" out/stopped || fail_test "see above"
}

@test "other commands change the pool, and read the copies, while they are written" {
	local step
	make_copies
	keep_base
	cp --sparse=always copies copies.base
	for step in copies-write:3 copies-enter copies-drop; do
		from_base
		cp --sparse=always copies.base copies
		stop_at "$step" "${copying[@]}"
		must delete a@1 f@1
		rm want/a@1 want/f@1
		must scrub
		! grep -q "copies are damaged" out/must || fail_test "at $step: $(cat out/must)"
		# Nothing else writes them.
		run -11 "${ctl[@]}" "${copying[@]}" --lock-wait 0
		must repair --lock-wait 0
		grep -q "the copies are not checked: another command may write them now" out/must
		noise g 1000
		go_on
		are_right
		must "${copying[@]}"
		are_right
		are_complete
		all_right
	done
}

@test "a repair that waits until the copies are removed writes nothing there" {
	local repair
	[ -w /dev/loop-control ] || skip "no loop devices"
	compression=none
	must init pool --size 512M --compression none
	noise a 600
	truncate -s 14M disk
	loop=$(losetup --find --show disk) || skip "no loop devices"
	must "${copying[@]}" --to "$loop"
	"$cli/copies.py" flip "$loop" img/a 3
	stop_at copies-write copies 0
	"${ctl[@]}" repair --lock-wait 600 >out/repair 2>&1 3>&- &
	repair=$!
	sleep 1
	kill -0 "$repair"
	go_on
	wait "$repair" || fail_test "$(cat out/repair)"
	[ ! -L pool/copies ]
	cmp -n 4096 "$loop" /dev/zero
	# The table is still there, and who looks at it finds what nobody has mended.
	[ "$("$cli/copies.py" check "$loop")" = 1 ]
}

# A build for tests counts in slices of 8 frames.
@test "isolation is counted slice by slice" {
	compression=none
	make_copies
	noise g 2000
	noise h 2000
	[ "$(ask "SELECT count(DISTINCT frame) FROM slot_owner")" -gt 10 ]
	must stats --isolation --json
	ours=$(python3 -c 'import json
all = json.load(open("out/must"))
print(all["frames"], all["volumes_sum"], all["volumes_worst"], all["versions_sum"],
      all["versions_worst"])')
	theirs=$("$cli/needs.py" asked/catalog.db)
	[ "$ours" = "$theirs" ] || fail_test "stats says '$ours', and needs.py '$theirs'"
}
