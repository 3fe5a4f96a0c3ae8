#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl list, show, diff, tag, protect, delete and prune.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# bats test_tags=slow
@test "list, show, stats" {
	make_versions
	set_time 1 "2026-11-18 02:00:13"
	set_time 2 "2026-11-19 02:00:13"
	set_time 3 "2026-11-20 02:00:13"
	must tag vm1@2 +b +a
	must protect vm1@1
	must snapshot vg/another-volume --from 1.img --comment $'tab\there'
	set_time 1 "2026-11-18 02:00:13"
	ctl list
	expect 0 <<-'END'
		VERSION              TIME                       SIZE     CHANGED      UNIQUE  STATE      TAGS  COMMENT
		vg/another-volume@1  2026-11-18 02:00:13     6.0 MiB     2.3 MiB         0 B  -          -     tab?here
		vm1@1                2026-11-18 02:00:13     6.0 MiB     2.3 MiB         0 B  protected  -     -
		vm1@2                2026-11-19 02:00:13     6.0 MiB     8.0 KiB     8.0 KiB  -          a,b   -
		vm1@3                2026-11-20 02:00:13     6.0 MiB    16.0 KiB   360.0 KiB  -          -     -
	END
	must list -v
	[[ ${lines[0]} == *" CHANGED        READ     WRITTEN      UNIQUE "* ]]
	[[ ${lines[3]} == *" 8.0 KiB     2.3 MiB     2.0 MiB     8.0 KiB "* ]]
	must ls vm1
	[ "${#lines[@]}" -eq 4 ]
	must list --json
	[ "$(field 0 '["comment"]')" = $'tab\there' ]
	[ "$(field 1 '["protected"]')" = True ]
	[ "$(field 2 '["tags"]')" = '["a","b"]' ]
	[ "$(field 3 '["time"]')" = "$(date -d "2026-11-20 02:00:13" +%s)" ]
	[ "$(field 3 '["blocks_changed"]')" = 4 ]

	must show vm1@a
	[ "${lines[0]}" = "version:        vm1@2" ]
	[ "${lines[7]}" = "tags:           a,b" ]
	[ "${lines[9]}" = "unique:         8192 (8.0 KiB), which deleting this version frees" ]
	[ "${lines[14]}" = "segments:       3: 1 zeros, 1 in one piece, 1 in several" ]
	must show vm1 --json
	[ "$(field 0 '["version"]')" = vm1@3 ]
	[ "$(field 0 '["segments"]')" = 3 ]
	[ "$(field 0 '["segments_zero"]')" = 1 ]
	[ "$(field 0 '["segments_whole"]')" = 2 ]

	must stats --json
	[ "$(field 1 '["volume"]')" = vm1 ]
	[ "$(field 1 '["versions"]')" = 3 ]
	[ "$(field 1 '["bytes_logical"]')" = $((18 << 20)) ]
	[ "$(field 2 '["type"]')" = pool ]
	[ "$(field 2 '["versions"]')" = 4 ]
	# Both newest versions are whole, and vm1@2 has two blocks of its own.
	[ "$(field 2 '["bytes_data"]')" = $((1202 * 4096)) ]
	must stats
	[[ $output == *"stored:   4.7 MiB (ratio 5.1:1)"* ]]

	ctl list vm2
	expect 1 <<-'END'
		revdedupctl: there is no volume 'vm2' in the pool
		revdedupctl: 'revdedupctl list' lists volumes and versions
	END
	ctl list vm1@2
	[ "$status" -eq 2 ]
}

# unique_of VERSION: what the list says that only this version has, in bytes.
unique_of() {
	must list --json
	sed -n 's/.*"version": "'"$1"'".*"bytes_unique": \([0-9]*\),.*/\1/p' <<<"$output"
}

# bats test_tags=slow
@test "list: what only a version has is what its deletion frees" {
	local before after version said some=0
	make_versions
	# What a neighbour has as well, what another volume has, and what came back.
	cp 3.img 4.img
	blocks 4.img 12 3
	must snapshot vm1 --from 4.img
	must snapshot vm2 --from 2.img
	must snapshot vm1 --from 1.img
	blocks 4.img 12 9
	must snapshot vm2 --from 4.img
	blocks 4.img 100 5
	must snapshot vm1 --from 4.img
	# Two versions have the same, and no third one.
	blocks 4.img 1030 4
	must snapshot vm1 --from 4.img
	blocks 4.img 20 1
	must snapshot vm1 --from 4.img
	blocks 4.img 1030 4
	must snapshot vm1 --from 4.img
	for version in vm1@{1..9} vm2@{1,2}; do
		said=$(unique_of "$version")
		some=$((some + (said > 0)))
		must delete -n "$version" --json
		[ "$(field 1 '["bytes"]')" = "$said" ]
		must show "$version" --json
		[ "$(field 0 '["bytes_unique"]')" = "$said" ]
		rm -rf was && cp -r --sparse=always pool was
		must stats --json
		before=$(field -1 '["bytes_data"]')
		must delete "$version"
		must stats --json
		after=$(field -1 '["bytes_data"]')
		echo "$version: said $said, freed $((before - after))"
		# Where the newest goes, older ones may give up more.
		case $version in
		vm1@9 | vm2@2) [ $((before - after)) -ge "$said" ] ;;
		*) [ $((before - after)) -eq "$said" ] ;;
		esac
		rm -rf pool && mv was pool
	done
	[ "$some" -ge 3 ]
	# A device holds what it reads: nothing comes back.
	[ "$(unique_of vm1@4)" -gt 0 ]
	edit "INSERT INTO lease VALUES(1, 'REVDEDUP-a', 1, 4, 0)"
	[ "$(unique_of vm1@4)" = 0 ]
	must list vm1
	[ "$(grep -c ' in use$' <<<"$output")" = 1 ]
	[[ ${lines[4]} == "vm1@4 "*" in use" ]]
}

# move FILE FROM TO: a block has the content of another one there, which becomes zeros.
move() {
	dd if="$1" of="$1" bs=4096 skip="$2" seek="$3" count=1 conv=notrunc status=none
	fallocate --punch-hole --offset $(($2 * 4096)) --length 4096 "$1"
}

# vm1@1 has the content once, vm1@2 twice, vm1@3 at another place. When that goes, one of the two
# blocks of vm1@2 is its heir, and the other one, to which vm1@1 refers, refers to that.
@test "list, delete -n: what a version refers to by way of the same one twice" {
	make_pool 256M
	truncate -s 2M 1.img
	blocks 1.img 10 1
	cp --sparse=always 1.img 2.img
	dd if=1.img of=2.img bs=4096 skip=10 seek=5 count=1 conv=notrunc status=none
	blocks 2.img 100 1
	cp --sparse=always 2.img 3.img
	move 3.img 5 20
	move 3.img 10 20
	for nr in 1 2 3; do
		must snapshot vm1 --from "$nr.img"
	done
	must delete vm1@3
	[ "$(unique_of vm1@2)" = 4096 ]
	must show vm1@2 --json
	[ "$(field 0 '["bytes_unique"]')" = 4096 ]
	must delete -n vm1@2 --json
	[ "$(field 1 '["bytes"]')" = 4096 ]
	must delete vm1@2 --json
	[ "$(field 1 '["bytes"]')" = 4096 ]
	must restore vm1@1 --to back
	cmp back 1.img
}

@test "list, show: a comment does not change the terminal" {
	must init --compression none pool --size 100M
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 1M 1.img
	# CSI as one character and as one byte, bidi controls, and what is to be left as it is.
	must snapshot vm1 --from 1.img --comment \
		$'\u009b31m \x9b1m \u202ea\u2066b\u200fc\u061cd \u00e9 \u2030 \u2065 \U1f600 \\'
	for verb in "list vm1" "show vm1@1"; do
		# shellcheck disable=SC2086 # words
		must $verb
		[[ $output == *$'??31m ?1m ???a???b???c??d \u00e9 \u2030 \u2065 \U1f600 \\'* ]]
	done
}

@test "list, show: JSON and metrics are UTF-8, whatever a comment or a path is" {
	local bad=$'caf\xe9 \xff \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 cut \xe2\x82'
	local name=$'p\xffl'
	must init --compression none "$name" --size 100M
	export REVDEDUP_POOL=$PWD/$name
	truncate -s 1M 1.img
	must snapshot vm1 --from 1.img --comment "$bad" --json
	must snapshot vm1 --from 1.img --comment $'good: \u00e9 \u20ac \U1f600 \x7f "\\'
	for verb in "list --json" "show vm1@1 --json" metrics; do
		# shellcheck disable=SC2086 # words
		"$build/bin/revdedupctl" $verb >out
		python3 -c 'open("out", encoding="utf-8", errors="strict").read()' || {
			echo "not UTF-8: $verb"
			return 1
		}
	done
	must list --json
	[ "$(field 0 '["comment"]')" = $'caf\ufffd \ufffd \ufffd\ufffd \ufffd\ufffd\ufffd \ufffd\ufffd\ufffd\ufffd cut \ufffd\ufffd' ]
	[ "$(field 1 '["comment"]')" = $'good: \u00e9 \u20ac \U1f600 \x7f "\\' ]
}

@test "names of versions" {
	make_versions
	set_time 1 "2026-11-18 02:00:13"
	set_time 2 "2026-11-20 02:00:13"
	set_time 3 "2026-11-20 14:00:00"
	must tag vm1@1 +gold
	while read -r name nr; do
		must show "vm1@$name"
		[ "${lines[0]}" = "version:        vm1@$nr" ]
	done <<-'END'
		2 2
		latest 3
		-0 3
		-1 2
		-2 1
		gold 1
		2026-11-18 1
		2026-11-19 1
		2026-11-20 3
		2027-01-01 3
		2026-11-20T02:00 2
		2026-11-20T02:00:13 2
		2026-11-20T02:00:12 1
		2026-11-20T13:59 2
		2026-11-20T14:00 3
	END
	while read -r name why; do
		ctl show "vm1@$name"
		expect 1 <<-END
			revdedupctl: $why
			revdedupctl: 'revdedupctl list vm1' lists its versions
		END
	done <<-'END'
		4 there is no version 4 of 'vm1'
		-3 vm1@-3 does not exist: vm1 has 2 versions before the newest
		silver no version of 'vm1' has the tag 'silver'
		2026-11-17 there is no version of 'vm1' from 2026-11-17 23:59:59 or earlier
		2026-11-18T02:00:12 there is no version of 'vm1' from 2026-11-18 02:00:12 or earlier
	END
	for name in 0 "" - 1x 2026-02-30 "a b"; do
		ctl show "vm1@$name"
		[ "$status" -eq 2 ]
	done
	ctl restore vm1 --to r.img
	expect 2 <<<"revdedupctl: name a version of 'vm1': vm1@latest, or vm1@N (try 'revdedupctl help restore')"
	# A day ends when it does here.
	TZ=UTC-12 must show vm1@2026-11-19
	[ "${lines[0]}" = "version:        vm1@1" ]
	TZ=UTC+4 must show vm1@2026-11-19
	[ "${lines[0]}" = "version:        vm1@2" ]
}

@test "diff" {
	make_versions
	ctl diff vm1@1 vm1@2
	expect 0 <<<"$((10 * 4096)) 8192"
	ctl diff vm1@3 vm1@1
	expect 0 <<-END
		$((10 * 4096)) 8192
		$((510 * 4096)) 16384
	END
	ctl diff vm1@2 vm1@2
	expect 0 </dev/null
	ctl diff vm1@2 vm1@3 --json
	expect 0 <<-END
		{"type": "range", "offset": $((510 * 4096)), "length": 16384}
		{"type": "diff", "from": "vm1@2", "to": "vm1@3", "ranges": 1, "bytes": 16384, "segments_damaged": 0}
	END
	# Of two volumes and two sizes; a block that is not whole.
	truncate -s $(((8 << 20) + 100)) 4.img
	dd if=3.img of=4.img conv=notrunc status=none
	printf x | dd of=4.img bs=1 seek=$((8 << 20)) conv=notrunc status=none
	must snapshot vm2 --from 4.img
	ctl diff vm1@3 vm2@1
	expect 0 <<<"$((8 << 20)) 100"
	# It is what a snapshot wants to have.
	{
		echo "version vm1@3"
		"$build/bin/revdedupctl" diff vm1@3 vm1@1
	} >list
	must snapshot vm1 --from 1.img --changed list --json
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(field 0 '["blocks_changed"]')" = 6 ]
	ctl diff vm1@4 vm1@1
	expect 0 </dev/null
}

# on_terminal COLUMNS COMMAND...: what it prints on one.
on_terminal() {
	script -qec "stty cols $1; '$build/bin/revdedupctl' ${*:2}" /dev/null </dev/null | tr -d '\r'
}

@test "pictures of a line: on a terminal, as wide as there is room" {
	make_versions
	fallocate -p -o 0 -l 2M 3.img
	must snapshot vm1 --from 3.img
	truncate -s 40M big.img
	blocks big.img $((9 * 512)) 1
	must snapshot big --from big.img
	export TERM=xterm LC_ALL=C.UTF-8
	on_terminal 150 list vm1 | tee said
	grep -q '^VERSION .* UNIQUE  WHERE  *$' said
	grep -q '^vm1@1 .*  ████████████████ *$' said
	grep -q '^vm1@2 .*  ████████ *$' said
	grep -q '^vm1@4 .*  00000000 *$' said
	# The last segment of twenty, and of 24 columns the last ones.
	on_terminal 150 list big | grep -q '^big@1 .*B             █ *$'
	LC_ALL=C on_terminal 150 list vm1 | grep -q '^vm1@2 .*  ######## *$'
	# No line is longer than the terminal.
	for columns in 79 74 73 60; do
		on_terminal "$columns" list vm1 >said
		[ "$columns" -le 70 ] || [ "$(wc -L <said)" -le "$columns" ]
		[ "$columns" -lt 74 ] || grep -q '█' said
		[ "$columns" -ge 74 ] || [ "$(grep -c '█' said)" -eq 0 ]
	done
	on_terminal 80 show vm1@3 | grep -q '^where changed:  *████████████████ *$'
	on_terminal 80 stats | grep -q '^big .*  ████████████████████████$'
	on_terminal 80 stats | grep -q '^vm1 .*  █*$'
	# Elsewhere there is none.
	for run in "TERM=dumb on_terminal 150" "ctl"; do
		for command in "list vm1" "show vm1@3" stats; do
			run eval "$run $command"
			[[ $output != *█* && $output != *WHERE* && $output != *'where changed'* ]]
		done
	done
}

@test "diff: a version and an image" {
	make_versions
	ctl diff vm1@3 --from 1.img
	expect 0 <<-END
		$((10 * 4096)) 8192
		$((510 * 4096)) 16384
	END
	ctl diff vm1@3 --from 3.img
	expect 0 </dev/null
	# Longer, with a block that is not whole; shorter, with a hole.
	cp --sparse=always 3.img 4.img
	printf x | dd of=4.img bs=1 seek=$(((8 << 20) + 99)) conv=notrunc status=none
	ctl diff vm1@3 --from 4.img --json
	expect 0 <<-END
		{"type": "range", "offset": $((8 << 20)), "length": 100}
		{"type": "diff", "from": "vm1@3", "to": "4.img", "ranges": 1, "bytes": 100, "segments_damaged": 0}
	END
	truncate -s 4096 4.img
	ctl diff vm1@3 --from 4.img
	expect 0 <<<"4096 $((599 * 4096))"
	ctl diff vm1@1
	[ "$status" -eq 2 ]
	[[ ${lines[0]} == *"'vm1' is not attached: name another version, or an image or device with --from"* ]]
	ctl diff vm1@1 vm1@2 --from 1.img
	[ "$status" -eq 2 ]
	ctl diff vm1@1 --from none.img
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == *"cannot open 'none.img'"* ]]
	keep_on "os.pwrite(os.open('3.img', os.O_RDWR), bytes([i % 256]), 5000)"
	# Who writes may not get the processor before the command has ended.
	for _ in $(seq 100); do
		ctl diff vm1@3 --from 3.img
		[ "$status" -eq 0 ]
		[[ $output != *"'3.img' was written to while it was read"* ]] || break
	done
	drop
	[[ $output == *"'3.img' was written to while it was read"* ]]
}

@test "delete: in any order, and space comes back" {
	make_versions
	ctl delete vm1@2 --dry-run
	expect 0 <<-'END'
		would delete vm1@2
		would free 0 B
	END
	ctl delete vm1@latest -n --json
	expect 0 <<-'END'
		{"type": "delete", "version": "vm1@3", "dry_run": true}
		{"type": "freed", "bytes": 16384, "dry_run": true}
	END
	ctl delete vm1@2 vm1@3 -n
	expect 0 <<-'END'
		would delete vm1@2
		would delete vm1@3
		would free 24.0 KiB
	END
	ctl delete vm1@{1,2,3} -n
	[ "${lines[3]}" = "would free 2.4 MiB" ]
	ctl delete vm1@2
	expect 0 <<-'END'
		deleted vm1@2
		freed 0 B
	END
	must check
	ctl delete vm1@2
	[ "$status" -eq 1 ]
	must restore vm1@1 --to r1.img
	cmp 1.img r1.img
	ctl rm vm1@latest --json
	expect 0 <<-'END'
		{"type": "delete", "version": "vm1@3"}
		{"type": "freed", "bytes": 24576}
	END
	must check
	must restore vm1@1 --to r2.img
	cmp 1.img r2.img
	must delete vm1@1 -q
	[ -z "$output" ]
	must check
	must stats --json
	[ "$(field 0 '["bytes_data"]')" = 0 ]
	must list vm1
	[ -z "$output" ]
	# A number is never used again.
	must snapshot vm1 --from 1.img
	[ "${lines[0]}" = "vm1@4: full read: it is the first version" ]
}

@test "delete: several, all or none of them" {
	make_versions
	must protect vm1@2
	ctl delete vm1@1 vm1@2
	expect 1 <<-'END'
		revdedupctl: vm1@2 is protected
		revdedupctl: not deleted; to allow it: 'revdedupctl unprotect vm1@2'
		revdedupctl: no version was deleted
	END
	ctl delete vm1@1 vm1@9
	[ "$status" -eq 1 ]
	ctl delete vm1@1 vm1
	[ "$status" -eq 2 ]
	must list
	[ "${#lines[@]}" -eq 4 ]
	must unprotect vm1@2
	# Names mean what they did before any was deleted; one may come twice.
	must tag vm1@2 +twin
	ctl delete vm1@-1 vm1@latest vm1@twin
	expect 0 <<-'END'
		deleted vm1@2
		deleted vm1@3
		freed 24.0 KiB
	END
	must restore vm1@1 --to r.img
	cmp 1.img r.img
	must check
}

@test "protect, unprotect" {
	make_versions
	ctl protect vm1@1 vm1@3
	expect 0 <<-'END'
		vm1@1 is protected
		vm1@3 is protected
	END
	must protect vm1@1 -q
	[ -z "$output" ]
	must show vm1@3
	[ "${lines[6]}" = "protected:      yes" ]
	ctl delete vm1@1
	[ "$status" -eq 1 ]
	ctl unprotect vm1@1 --json
	expect 0 <<<'{"type": "unprotect", "version": "vm1@1"}'
	must delete vm1@1
	must check
	ctl protect vm1@2 vm1@1
	[ "$status" -eq 3 ]
	[[ $output == *"the versions before 'vm1@1' were changed"* ]]
}

@test "tag" {
	make_versions
	ctl tag vm1@2 +gold +before-upgrade
	expect 0 <<<"vm1@2: before-upgrade gold"
	ctl tag vm1@3 +gold
	expect 0 <<-'END'
		revdedupctl: warning: moving the tag 'gold' here from vm1@2
		vm1@3: gold
	END
	ctl tag --json vm1@gold -gold +x
	expect 0 <<<'{"type": "tag", "version": "vm1@3", "tags": ["x"]}'
	ctl tag vm1@3 +y -gold
	expect 1 <<-'END'
		revdedupctl: vm1@3 has no tag 'gold'
		revdedupctl: nothing was changed; 'revdedupctl show vm1@3' lists its tags
	END
	ctl tag vm1@3 -x
	expect 0 <<<"vm1@3: no tags"
	for tag in x +latest +1 + - --json; do
		ctl tag vm1@3 "$tag"
		[ "$status" -eq 2 ]
	done
	must snapshot vm1 --from 1.img --tag nightly
	must show vm1@nightly
	[ "${lines[0]}" = "version:        vm1@4" ]
	# It goes with its version.
	must delete vm1@nightly
	ctl show vm1@nightly
	[ "$status" -eq 1 ]
	must check
}

@test "tag: -h and -V ask, as everywhere, but behind --" {
	make_versions
	must tag vm1@1 +h +V
	must tag vm1@1 -h
	[[ ${lines[0]} == "Usage: revdedupctl tag "* ]]
	must tag vm1@1 +x -V
	[[ $output == "revdedupctl "*", pool format "* ]]
	must tag -- vm1@1 -h
	[ "$output" = "vm1@1: V" ]
	must tag -- vm1@1 -V
	[ "$output" = "vm1@1: no tags" ]
}

# bats test_tags=slow
@test "tag: each volume has its own" {
	make_versions
	must snapshot vm2 --from 1.img
	must snapshot vm2 --from 2.img
	must tag vm2@1 +gold
	must tag vm1@2 +gold
	must dump vm1@gold >/dev/null
	"$build/bin/revdedupctl" dump vm1@gold | cmp - 2.img
	"$build/bin/revdedupctl" dump vm2@gold | cmp - 1.img
}

# bats test_tags=slow
@test "a clock that was wrong once" {
	local nr now
	make_pool 128M
	truncate -s 1M 1.img
	for nr in 1 2 3 4; do
		must snapshot vm1 --from 1.img
		[[ $output != *"the clock"* ]]
	done
	set_time 1 "2026-11-18 10:00"
	set_time 2 "2026-11-19 10:00"
	set_time 3 "1970-01-02 00:00"
	set_time 4 "2026-11-20 10:00"
	# Of the same second the last one counts.
	must snapshot vm1 --from 1.img
	set_time 5 "2026-11-20 10:00"
	must snapshot vm1 --from 1.img
	set_time 6 "2037-01-01 00:00"
	ctl snapshot vm1 --from 1.img
	[[ ${lines[0]} == "revdedupctl: warning: the clock went back: vm1@6 is of 2037-01-01 00:00:00, and vm1@7 of 20"* ]]
	must snapshot vm1 --from 1.img
	[[ $output != *"the clock"* ]]
	while read -r name nr; do
		must show "vm1@$name"
		[ "${lines[0]}" = "version:        vm1@$nr" ] || {
			echo "vm1@$name: $output"
			return 1
		}
	done <<-'END'
		2026-11-18 1
		2026-11-19 2
		2026-11-19T10:00 2
		2026-11-20 5
		1970-01-02 3
		2000-01-01 3
		2037-01-01 6
		latest 8
		-1 7
	END
	must list
	now=$(grep -n "clock set back" <<<"$output" | cut -d : -f 1 | paste -s)
	[ "$now" = $'4\t8' ]
	must list --json
	now=$(grep -n '"clock_went_back": true' <<<"$output" | cut -d : -f 1 | paste -s)
	[ "$now" = $'3\t7' ]
	must show vm1@3
	[ "${lines[2]}" = "time:           1970-01-02 00:00:00, earlier than the version before it: the clock was set back" ]
	must show vm1@3 --json
	[ "$(field 0 '["clock_went_back"]')" = True ]
	must show vm1@4 --json
	[ "$(field 0 '["clock_went_back"]')" = False ]
	must delete vm1@2026-11-18
	[[ $output == *"deleted vm1@1"* ]]
	# Today and three days; the one of 1970 goes, the one of 2037 costs none of these.
	must prune vm1 --keep-daily 3
	must list --json
	[ "$(field 0 '["number"]')" = 2 ]
	[ "$(field 1 '["number"]')" = 5 ]
	[ "$(field 2 '["number"]')" = 6 ]
	[ "$(field 3 '["number"]')" = 8 ]
	[ "${#lines[@]}" = 4 ]
	# The last one stays, though its time is that of the oldest.
	set_time 8 "1970-01-02 00:00"
	must prune vm1 --keep-daily 1
	must list --json
	[ "$(field 0 '["number"]')" = 5 ]
	[ "$(field 1 '["number"]')" = 6 ]
	[ "$(field 2 '["number"]')" = 8 ]
	[ "${#lines[@]}" = 3 ]
	must check
}

@test "prune: what and why" {
	make_versions
	set_time 1 "2026-11-18 02:00:13"
	set_time 2 "2026-11-20 02:00:13"
	set_time 3 "2026-11-20 14:00:00"
	must tag vm1@1 +gold
	ctl prune vm1 --keep-daily 1 --keep-last 1 -n
	expect 0 <<-'END'
		would delete  vm1@1                 2026-11-18 02:00:13
		would delete  vm1@2                 2026-11-20 02:00:13
		keep          vm1@3                 2026-11-20 14:00:00  last, daily
		would free 24.0 KiB
	END
	ctl prune --keep-within 12h --keep-tag silver --keep-tag gold --dry-run --json
	expect 0 <<-'END'
		{"type": "plan", "version": "vm1@1", "time": 1794967213, "keep": true, "reasons": ["tag"], "dry_run": true}
		{"type": "plan", "version": "vm1@2", "time": 1795140013, "keep": true, "reasons": ["within"], "dry_run": true}
		{"type": "plan", "version": "vm1@3", "time": 1795183200, "keep": true, "reasons": ["within"], "dry_run": true}
		{"type": "freed", "bytes": 0, "dry_run": true}
	END
	must list
	[ "${#lines[@]}" -eq 4 ]
	ctl prune --keep-last 3
	expect 0 <<<"freed 0 B"
	must protect vm1@2
	ctl prune --keep-last 1
	expect 0 <<-'END'
		deleted vm1@1
		freed 8.0 KiB
	END
	must check
	must restore vm1@2 --to r.img
	cmp 2.img r.img
}

@test "prune: what it refuses" {
	make_versions
	must snapshot vm2 --from 1.img --tag gold
	ctl prune
	[ "$status" -eq 2 ]
	[[ $output == *"no rule says what to keep: use --keep-last N, --keep-daily N or another, or write rules into '"*"/revdedup.conf'"* ]]
	ctl prune --keep-tag gold
	expect 1 <<-'END'
		revdedupctl: this would delete all versions of 'vm1'
		revdedupctl: nothing was deleted; keep more, or use --unsafe-allow-remove-all
	END
	for option in --keep-last=0 --keep-daily=x --keep-last=-1 --keep-last= --keep-within=30 \
		--keep-within=0d --keep-tag=1; do
		ctl prune "$option"
		[ "$status" -eq 2 ]
	done
	ctl prune --unsafe-allow-remove-all
	[ "$status" -eq 2 ]
	ctl prune vm3 --keep-last 1
	[ "$status" -eq 1 ]
	must list
	[ "${#lines[@]}" -eq 5 ]
	must prune --keep-tag gold --unsafe-allow-remove-all
	must list
	[ "${#lines[@]}" -eq 2 ]
	must prune vm2 --unsafe-allow-remove-all
	must list
	[ -z "$output" ]
	must check
}

# boot_result UID TIME PASSED [VERSION]: as verify --boot writes it; older programs have no version.
boot_result() {
	printf 'time %d\npassed %d\nwhy a test\n' "$2" "$3" >"pool/boot/$1.result"
	[ $# -eq 3 ] || echo "of $4" >>"pool/boot/$1.result"
	touch "pool/boot/$1".{log,png}
}

@test "prune: the last result of a boot for trial stays, as long as its volume has versions" {
	local nr uid=()
	make_versions
	must snapshot other --from 1.img
	mkdir -m 700 pool/boot
	for nr in 1 2 3; do
		must show "vm1@$nr" --json
		uid[nr]=$(field 0 '["uid"]')
	done
	must show other --json
	uid[4]=$(field 0 '["uid"]')
	boot_result "${uid[1]}" 1700000001 1 vm1@1
	boot_result "${uid[2]}" 1700000002 0 vm1@2
	boot_result "${uid[4]}" 1700000004 0 other@1
	must prune vm1 --keep-last 1
	[ ! -e "pool/boot/${uid[1]}.result" ]
	[ -e "pool/boot/${uid[2]}.result" ]
	[ ! -e "pool/boot/${uid[2]}.log" ]
	[ ! -e "pool/boot/${uid[2]}.png" ]
	must metrics
	[[ $output == *'revdedup_volume_boot_test_passed{volume="vm1"} 0'* ]]
	[[ $output == *'revdedup_volume_boot_test_timestamp_seconds{volume="vm1"} 1700000002'* ]]
	must status
	[[ $output == *"last boot:   2023-11-14 "*", 2 of 2 volumes do not boot: other@1 and others"* ]]
	# It is of no version that is there.
	must list vm1
	[[ ${lines[1]} != *boot* ]]
	# A later test counts, also in the file of an older program, which does not name the version.
	boot_result "${uid[3]}" 1700000003 1
	must metrics
	[[ $output == *'revdedup_volume_boot_test_passed{volume="vm1"} 1'* ]]
	must prune vm1 --keep-last 1
	[ ! -e "pool/boot/${uid[2]}.result" ]
	[ -e "pool/boot/${uid[3]}.log" ]
	# Of a volume without versions, and of one that cannot be, there is none.
	boot_result 00000000000000aa 1700000009 0 "vm1@latest"
	boot_result 00000000000000bb 1700000009 0 "gone@1"
	must prune other --unsafe-allow-remove-all
	[ "$(echo pool/boot/*.result)" = "pool/boot/${uid[3]}.result" ]
	must status
	[[ $output == *"1 volume boots"* ]]
}

@test "scrub, repair: damage of a deleted version that a device reads" {
	local told
	make_versions
	edit "INSERT INTO lease VALUES(1, 'REVDEDUP-a', (SELECT id FROM volume), 1, 0)"
	edit "INSERT INTO lease VALUES(2, 'REVDEDUP-b', (SELECT id FROM volume), 1, 0)"
	must delete vm1@1
	must scrub
	[[ $output == "scrub OK: 2 versions, "* ]]
	must scrub --json
	[ "${#lines[@]}" -eq 3 ]
	damage 1.img 10
	told="damaged: offset 40960, length 4096 in vm1@1 (deleted, still read by REVDEDUP-a)"
	ctl scrub
	[ "$status" -eq 4 ]
	[[ $output == *"$told"* && $output == *"scrub found damage: 3 versions, "*", 1 damaged"* ]]
	[ "$(grep -c "^revdedupctl: damaged: " <<<"$output")" -eq 1 ]
	must status
	[[ $output == *"last scrub:  "*", 1 damaged versions"* ]]
	ctl scrub --json
	[ "$status" -eq 4 ]
	[ "$(field 0 '["damaged"]')" = "[]" ]
	[ "$(field 2 '["version"]')" = "vm1@1" ]
	[ "$(field 2 '["deleted"]')" = True ]
	[ "$(field 2 '["reader"]')" = REVDEDUP-a ]
	[ "$(field 2 '["damaged"][0]["offset"]')" = 40960 ]
	[ "$(field 3 '["versions_damaged"]')" = 1 ]
	ctl repair --dry-run
	[ "$status" -eq 4 ]
	[[ $output == *"1 of 3 versions would still be damaged"* && $output != *"of no version"* ]]
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"$told"*"1 of 3 versions are still damaged"*"repair --from PATH"* ]]
	# What a process has read that died is read by nothing.
	cp -a pool was
	edit "UPDATE lease SET device = 'session-999'"
	must scrub
	must repair --dry-run
	[[ $output == *"what is damaged is of no version"* ]]
	rm -rf pool && mv was pool
	must repair --from 1.img
	must scrub
	[[ $output == "scrub OK: 2 versions, "* ]]
}

# bats test_tags=slow
@test "delete: what a device reads" {
	make_versions
	must tag vm1@3 +gold
	edit "INSERT INTO lease VALUES(1, 'REVDEDUP-a', (SELECT id FROM volume), 3, 0)"
	edit "INSERT INTO lease VALUES(2, 'REVDEDUP-b', (SELECT id FROM volume), 3, 0)"
	edit "INSERT INTO lease VALUES(3, 'REVDEDUP-c', (SELECT id FROM volume), 1, 0)"
	must delete -n vm1@3
	[ "${lines[1]}" = "would free 0 B" ]
	ctl delete vm1@3
	expect 0 <<-'END'
		deleted vm1@3: its space comes back when REVDEDUP-a, REVDEDUP-b no longer read it
		freed 0 B
	END
	ctl delete vm1@1 --json --progress=never
	[ "$status" -eq 0 ]
	[ "$(field 0 '["held_by"]')" = '["REVDEDUP-c"]' ]
	# For users they are gone.
	must list
	[[ $output != *vm1@1* && $output != *vm1@3* ]]
	ctl show vm1@3
	[ "$status" -eq 1 ]
	ctl show vm1@gold
	[ "$status" -eq 1 ]
	must show vm1@latest
	[ "${lines[0]}" = "version:        vm1@2" ]
	must stats --json
	[ "$(field 1 '["versions"]')" = 1 ]
	[ "$(field 1 '["bytes_logical"]')" = $((6 << 20)) ]
	[ "$(field 1 '["versions_held"]')" = 2 ]
	[ "$(field 1 '["bytes_held"]')" = $((12 << 20)) ]
	must stats
	[[ $output == *"in use:   2 deleted versions still read (12.0 MiB)"* ]]
	must check
	must snapshot vm1 --from 1.img
	must dump vm1@2 >o.img
	# Nothing is given back, and it is said which device is in the way, and what mends that: -q
	# hides both.
	cp -a pool was
	must delete vm1@2 -q
	[ -z "$output" ]
	rm -rf pool && mv was pool
	ctl delete vm1@2 -v
	[ "$status" -eq 0 ]
	[[ $output == *"device 'REVDEDUP-a' reads the pool and cannot be reached"* ]]
	[[ $output == *"'revdedupctl unmap --force REVDEDUP-a'"* ]]
	must check
	# The last one lets go; the next command deletes the rest.
	edit "DELETE FROM lease"
	must tag vm1@4 +now
	must check
	must delete vm1@4
	must stats --json
	[ "$(field 0 '["bytes_data"]')" = 0 ]
	[ "$(field 0 '["versions_held"]')" = 0 ]
	must stats
	[[ $output != *"in use:"* ]]

	edit "INSERT INTO lease VALUES(4, 'REVDEDUP-d', 1, 4, 0)"
	ctl check
	[ "$status" -ne 0 ]
	[[ $output == *"a lease of a version that is missing"* ]]
}

@test "show: what told the changes" {
	make_versions
	must show vm1@3
	[[ $output != *tracker* ]]
	edit "UPDATE version SET tracker = x'000102030405060708090a0b0c0d0e0f', epoch = 7 WHERE number = 3"
	must show vm1@3
	[[ $output == *"tracker:        00010203-0405-0607-0809-0a0b0c0d0e0f"* ]]
	[[ $output == *"epoch:          7"* ]]
	must show vm1@3 --json
	[ "$(field 0 '["tracker"]')" = 00010203-0405-0607-0809-0a0b0c0d0e0f ]
	[ "$(field 0 '["epoch"]')" = 7 ]
}

# rows ARGUMENT...: the versions that list has then, in one line.
rows() {
	must list "$@"
	echo "$output" | awk 'NR > 1 { print $1 }' | paste -sd " "
}

@test "list: no more than so many of each volume, and by a column" {
	local nr
	make_pool 128M
	for nr in 1 2 3; do
		head -c $((7 - 2 * nr))M /dev/urandom >image
		must snapshot a --from image
	done
	head -c 4M /dev/urandom >image
	must snapshot b --from image
	[ "$(rows)" = "a@1 a@2 a@3 b@1" ]
	[ "$(rows --newest 1)" = "a@3 b@1" ]
	[ "$(rows --newest 2 a)" = "a@2 a@3" ]
	[ "$(rows --newest 9)" = "a@1 a@2 a@3 b@1" ]
	[ "$(rows --sort size)" = "a@3 a@2 b@1 a@1" ]
	[ "$(rows --sort time --newest 2)" = "a@2 a@3 b@1" ]
	[ "$(rows --sort changed --newest 1)" = "a@3 b@1" ]
	must list --sort size --json
	[ "$(field 0 '["version"]')" = a@3 ]
	[ "$(field -1 '["version"]')" = a@1 ]
	ctl list --sort name
	expect 2 <<<"revdedupctl: --sort is time, size, changed or unique, not 'name' (try 'revdedupctl help list')"
	ctl list --newest 0
	[ "$status" -eq 2 ]
}
