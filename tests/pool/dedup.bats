#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The pass over the whole pool, killed at each of its steps, and stopped while other commands
# change what it has found.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
}

teardown() {
	live_teardown
}

# text NR: blocks of 4 KiB that are nowhere else, and that can be compressed.
text() { basenc --base16 /dev/urandom | head -c $(($1 * 4096)); }

# blocks FILE FIRST NR: fill these blocks.
blocks() {
	truncate -s 4M "img/$1"
	text "$3" | dd of="img/$1" bs=4096 seek="$2" iflag=fullblock conv=notrunc status=none
}

# shift_of FROM TO [BLOCKS SIZE]: an image with the same blocks, 40 later.
shift_of() {
	truncate -s "${4:-4M}" "img/$2"
	dd if="img/$1" of="img/$2" bs=4096 count="${3:-900}" seek=40 conv=notrunc status=none
}

# snapshot VOLUME IMAGE N: it becomes VOLUME@N.
snapshot() {
	must snapshot "$1" --from "img/$2"
	cp --sparse=always "img/$2" "want/$1@$3"
}

# remove VERSION
remove() {
	must delete "$1"
	rm "want/$1"
}

# unique: the blocks that recipes own.
unique() { ask "SELECT sum(n) FROM slot_owner WHERE recipe > 0"; }

all_of_it=(dedup --older 0 --least-run 1)

# make_twins: 600 blocks are old in a, and newest in b; 300 are old in c and in d.
make_twins() {
	must init pool --size 512M --reserve 1M --compression "$compression"
	blocks one 0 600
	shift_of one one-later
	blocks two 0 300
	shift_of two two-later
	blocks three 0 10
	snapshot a one 1
	snapshot b one-later 1
	snapshot c two 1
	snapshot d two-later 1
	snapshot a three 2
	snapshot c three 2
	snapshot d three 2
}

# field NAME: what the output of the last pass, with --json, says for it.
field() { sed -n "s/.*\"$1\": \([a-z0-9]*\).*/\1/p" out/must; }

# make_news: a pass has seen all but f, which has what is old in c and d.
make_news() {
	make_twins
	must "${all_of_it[@]}" --json
	[ "$(field all)" = true ]
	shift_of two-later two-again
	snapshot f two-again 1
	[ "$(unique)" = 1210 ]
}

# stop_in STEP: the pass is stopped there.
stop_in() {
	stopped="the pass stopped at $1"
	stop_at "$1" "${all_of_it[@]}" --json
	grep -q "State:.*stopped" "/proc/$pid/status" ||
		fail_test "not $stopped: $(cat out/stopped)"
}

# kill_at_each: from what there is, until there are 910 blocks.
kill_at_each() {
	local number name status kills=0
	keep_base
	log_steps "${all_of_it[@]}"
	[ "$(unique)" = 910 ]
	for name in twins-stream twins-read twins-join spill pass-read pass-change pass-slice \
		pass-clear free-vacate; do
		grep -q "^$name\$" log || fail_test "the pass does not come to $name"
	done
	# It has few steps, beside other commands.
	some_steps 2 "$(part_of_every 1 6)" >steps
	while read -r number name <&4; do
		from_base
		status=0
		REVDEDUP_FAIL=any:$number=kill "${ctl[@]}" "${all_of_it[@]}" >out/killed 2>&1 ||
			status=$?
		[ "$status" -eq 137 ] || [ "$status" -eq 0 ] || fail_test "status $status"
		[ "$status" -eq 0 ] || kills=$((kills + 1))
		all_right || fail_test "killed at step $number, $name: see above"
		must "${all_of_it[@]}"
		all_right || fail_test "after a kill at step $number, $name: see above"
		[ "$(ask "SELECT count(*) FROM queue")" = 0 ] ||
			fail_test "after a kill at step $number, $name: space is not given back"
		[ "$(unique)" = 910 ] ||
			fail_test "after a kill at step $number, $name: $(unique) blocks"
	done 4<steps
	[ "$kills" -gt $((${EVERY:-1} > 24 ? 5 : 10)) ]
	say "$kills kills"
}

@test "a pass is killed at each step" {
	make_twins
	[ "$(unique)" = 1810 ]
	kill_at_each
}

@test "a snapshot that was killed is finished without giving up sound blocks" {
	local step damage='block = open("img/one", "rb").read()[7 * 4096:][:4096]
with open("pool/data", "r+b") as data:
    content = data.read()
    assert content.count(block) == 2
    data.seek(content.rfind(block) + 1234)
    data.write(b"damaged")'
	must init --compression none pool --size 256M --reserve 1M
	blocks one 0 60
	blocks other 100 60
	shift_of one other 60
	snapshot a one 1
	snapshot b other 1
	keep_base
	# The damage is there before the snapshot, or comes after it.
	for step in snapshot-finish reverse-vacate swap reverse-stream reverse-prove reverse-change; do
		for when in before after; do
			from_base
			[ "$when" = after ] || python3 -c "$damage"
			! REVDEDUP_FAIL=$step=kill "${ctl[@]}" snapshot a --from img/other \
				>out/killed 2>&1 || fail_test "not killed at $step"
			[ "$when" = before ] || python3 -c "$damage"
			if [ "$step" != snapshot-finish ]; then
				cp img/other want/a@2
			fi
			case $when in
			before) must tag a@1 +x ;;
			*) must list ;;
			esac
			must repair
			must scrub
			all_right || fail_test "killed at $step, damaged $when"
		done
	done
}

# bats test_tags=soak
@test "a pass over what is fresh is killed at each step" {
	make_news
	kill_at_each
}

@test "a second pass compares what is fresh, and no more" {
	make_news
	must "${all_of_it[@]}" --json
	[ "$(field all)" = false ]
	# Blocks of f, and the others with their content.
	[ "$(field bytes_newest)" = $((300 * 4096)) ]
	[ "$(field bytes_old)" = $((300 * 4096)) ]
	[ "$(field bytes_given_up)" = $((300 * 4096)) ]
	[ "$(unique)" = 910 ]
	all_right
	must "${all_of_it[@]}" --json
	[ "$(field all)" = false ]
	[ "$(field bytes_newest)" = 0 ]
	[ "$(field bytes_old)" = 0 ]
}

@test "what becomes old, and what comes to an heir, is fresh" {
	make_twins
	blocks four 0 200
	shift_of four four-later
	shift_of four-later four-again
	snapshot e four 1
	snapshot f four-later 1
	snapshot g four-again 1
	must "${all_of_it[@]}"
	[ "$(unique)" = $((910 + 3 * 200)) ]
	# It is old now, and two newest versions have the same blocks.
	snapshot e three 2
	must "${all_of_it[@]}" --json
	[ "$(field all)" = false ]
	[ "$(unique)" = $((910 + 2 * 200)) ]
	# The one that it refers to goes, and it has the blocks again. There is the other one.
	remove f@1
	[ "$(unique)" = $((910 + 2 * 200)) ]
	must "${all_of_it[@]}" --json
	[ "$(field all)" = false ]
	[ "$(unique)" = $((910 + 200)) ]
	all_right
}

@test "what --older leaves is fresh until it is old enough" {
	make_twins
	must dedup --least-run 1 --json
	[ "$(field all)" = true ]
	[ "$(field bytes_too_new)" = $((900 * 4096)) ]
	blocks four 0 1
	snapshot a four 3
	snapshot c four 3
	must dedup --least-run 1 --json
	[ "$(field all)" = false ]
	# That of a, and that of c, if this is not the one that stays.
	[ "$(unique)" -le 1211 ]
	snapshot d four 3
	must dedup --least-run 1 --json
	[ "$(field all)" = false ]
	[ "$(unique)" = 911 ]
	# Runs that were too short are not fresh: a pass that wants them compares all.
	must dedup --least-run 2 --json
	[ "$(field all)" = false ]
	must dedup --least-run 1 --json
	[ "$(field all)" = true ]
	all_right
}

@test "what moves behind the back of a pass is fresh" {
	must init pool --size 512M --reserve 1M --compression none
	blocks three 0 10
	snapshot x three 1
	blocks one 0 600
	shift_of one one-later
	must snapshot a --from img/one --compression zstd
	cp --sparse=always img/one want/a@1
	must snapshot b --from img/one-later --compression zstd
	cp --sparse=always img/one-later want/b@1
	snapshot a three 2
	# What is raw was read, and packs come next: what they had is raw now.
	stop_in twins-read:2
	must recompress none
	go_on
	all_right
	must "${all_of_it[@]}" --json
	[ "$(field all)" = false ]
	must dedup -n --older 0 --least-run 1 --json
	[ "$(field bytes_given_up)" = 0 ]
	all_right
}

@test "a pass that is interrupted goes on where it was" {
	local left status=0
	must init --compression none pool --size 512M --reserve 1M
	truncate -s 16M img/one img/two
	dd if=/dev/urandom of=img/one bs=1M count=15 conv=notrunc status=none
	dd if=img/one of=img/two bs=4096 seek=40 conv=notrunc status=none count=3840
	blocks three 0 10
	snapshot a one 1
	snapshot b two 1
	snapshot a three 2
	[ "$(unique)" = $((2 * 3840 + 10)) ]
	# There are two slices. The first one has more than a batch.
	stop_in pass-read
	kill -INT "$pid"
	kill -CONT "$pid"
	wait "$pid" || status=$?
	pid=
	[ "$status" = 130 ]
	all_right
	[ "$(ask "SELECT slice, slices FROM pass")" = "1 2" ]
	left=$(ask "SELECT count(*) FROM fresh")
	[ "$left" -gt 0 ]
	must "${all_of_it[@]}" --json
	[ "$(field all)" = true ]
	[ "$(unique)" -gt $((3840 + 10)) ]
	[ "$(ask "SELECT closed FROM pass")" = 1 ]
	[ "$(ask "SELECT count(*) FROM fresh")" = "$left" ]
	# What the first one had found and had no time for.
	must "${all_of_it[@]}" --json
	[ "$(field all)" = false ]
	[ "$(unique)" = $((3840 + 10)) ]
	[ "$(ask "SELECT count(*) FROM fresh")" = 0 ]
	all_right
}

@test "a pass fails at each step, and loses nothing" {
	local number name status
	make_twins
	keep_base
	log_steps "${all_of_it[@]}"
	some_steps 1 "$(part_of_every 4 6)" '^(catalog|pages)-' >steps
	while read -r number name <&4; do
		from_base
		status=0
		REVDEDUP_FAIL=any:$number=EIO "${ctl[@]}" "${all_of_it[@]}" >out/failed 2>&1 ||
			status=$?
		[ "$status" -lt 128 ] || fail_test "EIO at step $number, $name: status $status"
		all_right || fail_test "EIO at step $number, $name: see above"
		must "${all_of_it[@]}"
		all_right
	done 4<steps
}

@test "what is to stay is deleted, superseded or moved before it is read, or after" {
	local step
	make_twins
	keep_base
	for step in pass-read pass-change; do
		# All versions that have it: of b, and of d.
		from_base
		stop_in "$step"
		remove b@1
		remove d@1
		go_on
		all_right
		# b has a newer one: its block is old now, and gave nothing up.
		from_base
		stop_in "$step"
		snapshot b three 2
		go_on
		all_right
		must "${all_of_it[@]}"
		all_right
		[ "$(unique)" = 910 ] || fail_test "$stopped: $(unique) blocks"
		# What is to stay refers to what is to be given up: that would be a circle.
		from_base
		stop_in "$step"
		snapshot b one 2
		snapshot b three 3
		go_on
		all_right
		# The pool is stored in the other way.
		from_base
		stop_in "$step"
		must recompress "$([ "$compression" = none ] && echo zstd || echo none)"
		go_on
		all_right
		# What was refused is done by the next one.
		must "${all_of_it[@]}" --json
		[ "$(field all)" = false ]
		all_right
		[ "$(unique)" = 910 ] || fail_test "$stopped: $(unique) blocks"
	done
}

@test "what is to be given up is deleted, or is in a newest version again" {
	local step
	make_twins
	keep_base
	for step in pass-read pass-change; do
		from_base
		stop_in "$step"
		remove a@1
		remove c@1
		go_on
		all_right
		from_base
		stop_in "$step"
		snapshot a one 3
		snapshot e two 1
		go_on
		all_right
		# A newest version refers to none.
		[ "$(ask "SELECT count(*) FROM recipe_ref JOIN uses ON source = recipe WHERE latest_refs > 0")" = 0 ]
		# The newest goes, and the one before is the newest.
		from_base
		stop_in "$step"
		remove a@2
		remove d@2
		go_on
		all_right
		snapshot a three 3
		all_right
	done
}

@test "the number and the place of what is to stay are those of other content" {
	must init pool --size 512M --reserve 1M --compression "$compression"
	blocks one 0 600
	shift_of one one-later
	blocks three 0 10
	blocks other 40 600
	snapshot a one 1
	snapshot a three 2
	# Its recipes have the greatest numbers, and are the next ones again when they are gone.
	snapshot b one-later 1
	stop_in pass-change
	remove b@1
	snapshot e other 1
	go_on
	all_right
	must scrub
}

# Keys of one byte: most of what is found has other content.
@test "different blocks with the same key" {
	make_twins
	REVDEDUP_FAIL=twins-key=EIO must "${all_of_it[@]}" --json
	[ "$(jq .blocks_refused out/must)" -gt 500 ] || fail_test "$(cat out/must)"
	all_right
	# What was found and is not so does not count as compared.
	must "${all_of_it[@]}"
	all_right
	[ "$(unique)" = 910 ] || fail_test "$(unique) blocks"
}

# make_runs: 3032 blocks are old in a and in b, in runs of 40 and more; two of them in c, alone.
# A build for tests compares so many in several slices.
make_runs() {
	must init pool --size 512M --reserve 1M --compression "$compression"
	blocks one 0 3072
	truncate -s 12M img/one
	shift_of one one-later 3032 12M
	truncate -s 12M img/few
	dd if=img/one of=img/few bs=4096 count=2 skip=700 seek=99 conv=notrunc status=none
	blocks three 0 10
	# The oldest keeps nothing for others; times are in seconds.
	snapshot c few 1
	sleep 1.1
	snapshot a one 1
	snapshot b one-later 1
	snapshot a three 2
	snapshot b three 2
	snapshot c three 2
	[ "$(unique)" = $((3072 + 3032 + 2 + 10)) ]
}

@test "runs are not shorter because they are in several slices" {
	make_runs
	must dedup --older 0 --least-run 4 --json
	[ "$(unique)" = $((3072 + 2 + 10)) ] || fail_test "$(unique) blocks: $(cat out/must)"
	[ "$(jq .bytes_short_runs out/must)" = 8192 ] || fail_test "$(cat out/must)"
	all_right
	must "${all_of_it[@]}"
	[ "$(unique)" = $((3072 + 10)) ]
	all_right
}

@test "a pass that is asked to stop while space is given back" {
	local status=0
	make_runs
	REVDEDUP_FAIL=free-vacate=EINTR "${ctl[@]}" "${all_of_it[@]}" >out/stopped 2>&1 || status=$?
	[ "$status" -eq 130 ] || fail_test "status $status: $(cat out/stopped)"
	all_right
	# What it had in hand as well.
	must "${all_of_it[@]}"
	must "${all_of_it[@]}"
	[ "$(unique)" = $((3072 + 10)) ] || fail_test "$(unique) blocks"
	all_right
}

# What is fresh is more than the filter has room for: all is compared.
@test "a pass that is killed in its second slice goes on with that" {
	local slice
	must init pool --size 512M --reserve 1M --compression "$compression"
	blocks three 0 10
	snapshot a three 1
	must "${all_of_it[@]}"
	blocks one 0 3072
	truncate -s 12M img/one
	shift_of one one-later 3032 12M
	snapshot a one 2
	snapshot b one-later 1
	snapshot a three 3
	snapshot b three 2
	REVDEDUP_FAIL=twins-stream:2=kill run -137 "${ctl[@]}" "${all_of_it[@]}"
	slice=$(ask "SELECT slice FROM pass")
	[ "$slice" = 1 ] || fail_test "slice $slice"
	must "${all_of_it[@]}"
	[ "$(ask "SELECT slices FROM pass")" = 0 ]
	[ "$(unique)" = $((3072 + 10)) ] || fail_test "$(unique) blocks"
	# The same when it goes on and is killed again.
	snapshot a one 4
	snapshot b one-later 3
	snapshot a three 5
	snapshot b three 4
	REVDEDUP_FAIL=twins-stream:2=kill run -137 "${ctl[@]}" "${all_of_it[@]}"
	REVDEDUP_FAIL=twins-stream:2=kill "${ctl[@]}" "${all_of_it[@]}" || :
	slice=$(ask "SELECT slice FROM pass")
	[ "$slice" != 1 ] || fail_test "the second pass began with the first slice again"
	all_right
}

# A build for tests forgets 1,024 in a transaction.
@test "a pass that is killed while it forgets what is fresh" {
	must init pool --size 12G --reserve 1M --compression "$compression"
	blocks three 0 1
	snapshot a three 1
	must "${all_of_it[@]}"
	truncate -s 2400M img/p img/q
	python3 - img/p img/q <<-'END'
		import os, sys
		with open(sys.argv[1], "r+b") as p, open(sys.argv[2], "r+b") as q:
		    for segment in range(1200):
		        block = os.urandom(4096)
		        p.seek(segment << 21)
		        p.write(block)
		        q.seek((segment << 21) + 4096)
		        q.write(block)
	END
	snapshot p p 1
	snapshot q q 1
	truncate -s 2400M img/none
	snapshot p none 2
	snapshot q none 2
	REVDEDUP_FAIL=pass-clear:3=kill run -137 "${ctl[@]}" dedup --older 0 --least-run 8
	must "${all_of_it[@]}"
	[ "$(unique)" = 1201 ] || fail_test "$(unique) blocks"
}

@test "a repair beside a pass makes the next one compare all" {
	# Where the content is found in the data area.
	compression=none
	make_twins
	stop_in twins-join
	# Of an old version, and of what a newest one has as well.
	python3 - img/one <<-'END'
		import sys
		block = open(sys.argv[1], "rb").read(4096)
		with open("pool/data", "r+b") as data:
		    data.seek(data.read().find(block) + 1234)
		    data.write(b"damaged")
	END
	must repair
	grep -q "1 healed" out/must || fail_test "$(cat out/must)"
	shift_of two two-again
	dd if=img/two of=img/two-again bs=4096 count=300 seek=200 conv=notrunc status=none
	snapshot e two-again 1
	snapshot e three 2
	go_on
	must "${all_of_it[@]}" --json
	[ "$(jq .all out/must)" = true ] || fail_test "$(cat out/must)"
	[ "$(unique)" = 910 ] || fail_test "$(unique) blocks"
	all_right
}

@test "a pass does not wait for another one, and says so" {
	local status=0
	make_twins
	stop_in pass-read
	"${ctl[@]}" "${all_of_it[@]}" --lock-wait 0 >out/second 2>&1 || status=$?
	[ "$status" -eq 11 ]
	grep -q "the pass over the pool" out/second
	# A dry run changes nothing, so it may.
	must dedup -n
	go_on
	all_right
	[ "$(unique)" = 910 ]
}

@test "a pass with no room for its temporary files" {
	make_twins
	REVDEDUP_FAIL=spill=ENOSPC run -12 "${ctl[@]}" "${all_of_it[@]}"
	[[ $output == *"cannot use a temporary file in "*": No space left on device"* ]]
	all_right
	[ "$(unique)" = 1810 ]
}

# A build for tests allows 8.
@test "few recipes refer to one" {
	local nr
	must init --compression none pool --size 512M --reserve 1M
	blocks home 0 8
	blocks three 0 1
	snapshot home home 1
	for nr in {1..20}; do
		truncate -s 4M "img/$nr"
		dd if=img/home of="img/$nr" bs=4096 count=8 seek=$((nr * 10)) conv=notrunc status=none
		snapshot "v$nr" "$nr" 1
		snapshot "v$nr" three 2
	done
	[ "$(unique)" = $((21 * 8 + 1)) ]
	must "${all_of_it[@]}" --json
	grep -q '"blocks_capped": [1-9]' out/must
	[ "$(ask "SELECT max(n) FROM (SELECT count(*) AS n FROM recipe_ref WHERE source <> target GROUP BY target)")" = 8 ]
	all_right
	remove home@1
	all_right
	# They share what is left, few by few.
	must "${all_of_it[@]}"
	all_right
}

# moved NR: of six segments the first NR blocks are not zeros; ten of these go from the first
# segment to the last, and others come there.
moved() {
	blocks v 0 "$1"
	truncate -s 12M img/v
	snapshot v v 1
	dd if=img/v of=img/v bs=4096 count=10 seek=2570 conv=notrunc status=none
	dd if=/dev/urandom of=img/v bs=4096 count=10 iflag=fullblock conv=notrunc status=none
	cp --sparse=always img/v want/v@2
}

@test "a snapshot leaves to the pass what would take longer than itself" {
	must init pool --size 512M --reserve 1M --compression "$compression"
	moved 10
	printf '%s\n' "version 1" "0 40960" "$((2570 * 4096)) 40960" >changed
	must snapshot v --from img/v --changed changed --json
	[ "$(jq .blocks_waiting out/must)" = 10 ] || fail_test "$(cat out/must)"
	[ "$(unique)" = 30 ] || fail_test "$(unique) blocks after the snapshot"
	all_right
	must "${all_of_it[@]}"
	[ "$(unique)" = 20 ] || fail_test "$(unique) blocks after the pass"
	all_right
}

@test "a snapshot that reads all looks for all" {
	must init pool --size 512M --reserve 1M --compression "$compression"
	moved 3072
	must snapshot v --from img/v --json
	[ "$(jq .blocks_waiting out/must)" = 0 ] || fail_test "$(cat out/must)"
	# All of the newest version, and of the one before only what is nowhere in it.
	[ "$(unique)" = 3082 ] || fail_test "$(unique) blocks after the snapshot"
	all_right
}
