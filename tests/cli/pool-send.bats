#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl send, receive and serve: versions go from the pool "pool" to the pool "there".
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# make_there [OPTION...]: the other pool. `rsh` reaches it as ssh does: the program is in PATH.
make_there() {
	must init there --size 256M "$@"
	PATH=$(realpath "$build/bin"):$PATH
	make_rsh
}

# make_rsh [OPTION...]: rsh gives these to serve.
make_rsh() {
	# shellcheck disable=SC2016 # it is another shell that expands it
	printf '#!/bin/sh\nshift\nexec sh -c "$1 %s"\n' "$*" >rsh
	chmod +x rsh
}

# by_relay ARG...: set relay to a command for --rsh, which stands between the ends.
by_relay() { relay="$BATS_TEST_DIRNAME/stream-relay.py $*"; }

# make_ends: vm1@1 to vm1@3, and a pool to send them to.
make_ends() {
	make_versions
	make_there
}

# make_large: vm1@1 of 1.img, 10 MiB that cannot be compressed.
make_large() {
	make_pool 128M
	blocks 1.img 0 2560
	must snapshot vm1 --from 1.img
	make_there
}

# has POOL VERSION IMAGE
has() { "$build/bin/revdedupctl" --pool "$1" dump "$2" | cmp - "$3"; }

# has_all [POOL]: the three versions of make_versions are there, and right.
has_all() {
	local nr
	for nr in 1 2 3; do
		has "${1:-there}" "vm1@$nr" "$nr.img" || return
	done
	must check --pool "${1:-there}"
	[[ $output == *"(3 versions, "* ]]
}

# list_there: print the names of the versions in one line.
list_there() {
	"$build/bin/revdedupctl" list --json --pool "${1:-there}" |
		sed -n 's/.*"type": "version", "version": "\([^"]*\)".*/\1/p' | paste -sd ' '
}

# ask_there SQL: as ask.
ask_there() {
	python3 -c 'import sqlite3, sys
for row in sqlite3.connect("there/catalog.db").execute(sys.argv[1]):
    print(*row)' "$1"
}

# arrived: print how many segments of a version that does not exist yet have arrived.
arrived() { ask_there "SELECT cursor FROM version WHERE state = 5"; }

# make_long NR: vm1@1 of 1.img, so many segments with 100 blocks each.
make_long() {
	local segment
	make_pool 128M
	make_there
	for ((segment = 0; segment < $1; segment++)); do
		blocks 1.img $((segment * 512)) 100
	done
	must snapshot vm1 --from 1.img
}

# cut_off N: of the 10 MiB of make_large N bytes arrive.
cut_off() {
	by_relay cut "$1"
	ctl send vm1 --to "x:$PWD/there" --rsh "$relay"
	[ "$status" -eq 1 ]
	[ "$(arrived)" -ge 1 ]
	[ -z "$(list_there)" ]
}

# send_held VOL: send it, until the relay has seen 700 kB and waits for the file "go". The file
# "held" has the id of the other end.
send_held() {
	by_relay hold 700000
	"$build/bin/revdedupctl" send "$1" --to "x:$PWD/there" --rsh "$relay" >sent 2>&1 3>&- &
	holder=$!
	until [ -s held ]; do sleep 0.01; done
}

@test "send: a gap of zeros before content, and content that became zeros" {
	make_pool 128M
	make_there
	blocks 1.img 512 100
	blocks 1.img 2048 100
	must snapshot vm1 --from 1.img
	cp 1.img 2.img
	fallocate -p -o 2M -l 2M 2.img
	must snapshot vm1 --from 2.img
	# What is larger than the next one ends in zeros.
	cp 2.img 3.img
	truncate -s 5M 3.img
	must snapshot vm1 --from 3.img
	must send vm1 --to there
	has_all
	must init third --size 128M
	"$build/bin/revdedupctl" send vm1 | "$build/bin/revdedupctl" --pool third receive
	has_all third
	must restore vm1@1 --from there --to back
	cmp back 1.img
}

@test "send: all that is newer arrives, with all that is known of it" {
	make_ends
	must tag vm1@1 +gold +b
	must tag vm1@2 +a
	edit "UPDATE version SET comment = 'before the upgrade', consistent = 0 WHERE number = 2"
	set_time 1 "2026-11-18 02:00:13"
	must send vm1 --to there
	[[ ${lines[0]} == "sent vm1@1 to there: "* && ${lines[2]} == "sent vm1@3 to there: "* ]]
	[[ ${lines[3]} == "3 versions: 2.4 MiB over the wire, for 2.4 MiB that was not there" ]]
	has_all
	must check
	must scrub --pool there
	for field in comment tags time consistent size number; do
		must list --json
		for nr in 0 1 2; do
			field "$nr" "[\"$field\"]"
		done >here
		must list --json --pool there
		for nr in 0 1 2; do
			field "$nr" "[\"$field\"]"
		done | diff here -
	done
	[ "$(sort -u here | wc -l)" -eq 3 ]
	must send vm1 --to there
	[ "$output" = "nothing new to send to there" ]
	must send vm1 --to there --json
	[ "$(field 0 '["versions"]')" = 0 ]
	[ "$(field 0 '["volumes_unchanged"]')" = 1 ]
	[ "$(field 0 '["bytes_sent"]')" -lt 1000 ]
	# What follows costs what changed.
	blocks 3.img 20 2
	must snapshot vm1 --from 3.img
	must send vm1 --to there --json
	[ "$(field 0 '["version"]')" = vm1@4 ]
	[ "$(field 0 '["to"]')" = there ]
	[ "$(field 0 '["as"]')" = vm1 ]
	[ "$(field 0 '["type"]')" = send ]
	[ "$(field 0 '["bytes_sent"]')" -lt 10000 ]
	[ "$(field 1 '["type"]')" = sent ]
	[ "$(field 1 '["segments_changed"]')" = 1 ]
	[ "$(field 1 '["blocks_sent"]')" = 2 ]
	[ "$(field 1 '["blocks_there"]')" = 0 ]
	has there vm1@4 3.img
	# It goes on from there like any other.
	must snapshot vm1 --from 1.img --pool there
	has there vm1@5 1.img
	has there vm1@4 3.img
	must check --pool there
}

@test "send: a volume that grows, shrinks, becomes zeros and comes back" {
	local nr
	make_pool 128M
	make_there
	truncate -s 5000000 1.img
	blocks 1.img 0 300
	blocks 1.img 900 100
	cp --sparse=always 1.img 2.img
	truncate -s 9M 2.img
	blocks 2.img 2200 5
	cp --sparse=always 2.img 3.img
	truncate -s 700000 3.img
	truncate -s 8M 4.img
	cp --sparse=always 2.img 5.img
	truncate -s 0 6.img
	cp --sparse=always 1.img 7.img
	for nr in 1 2 3 4 5 6 7; do
		[ "$nr" = 6 ] || must snapshot vm1 --from "$nr.img"
		[ $((nr % 2)) -eq 0 ] || must send vm1 --to there
	done
	for nr in 1 2 3 4 5; do
		has there "vm1@$nr" "$nr.img"
	done
	has there vm1@6 7.img
	must check --pool there
	must init other --size 128M
	must send vm1 --to other
	has other vm1@4 4.img
	has other vm1@6 7.img
	"$build/bin/revdedupctl" send vm1 >file
	must init third --size 128M
	ctl --pool third receive <file
	[ "$status" -eq 0 ]
	for nr in 1 2 3 4 5; do
		has third "vm1@$nr" "$nr.img"
	done
	has third vm1@6 7.img
	must check --pool third
}

@test "send: several volumes, and some of their versions" {
	make_ends
	must snapshot vg/other --from 2.img
	must snapshot vm2 --from 3.img
	must send vm1 vm2 --newest 2 --to there
	[ "$(list_there)" = "vm1@2 vm1@3 vm2@1" ]
	has there vm1@2 2.img
	has there vm1@3 3.img
	must send --all --to there --json
	[ "$(list_there)" = "vg/other@1 vm1@2 vm1@3 vm2@1" ]
	[ "$(field -1 '["volumes_unchanged"]')" = 2 ]
	# Of the other segment most is where the index does not say.
	[ "$(field -1 '["bytes_sent"]')" -lt 400000 ]
	has there vg/other@1 2.img
	must check --pool there
	must init more --size 128M
	must send vm1@2 --to more
	must send vm1 --since 2 --as vm9 --to more
	must send vm1@3 --as vg/third --to more
	[ "$(list_there more)" = "vg/third@3 vm1@2 vm9@3" ]
	has more vm1@2 2.img
	has more vm9@3 3.img
	must send vm1 --to more
	[ "$(list_there more)" = "vg/third@3 vm1@2 vm1@3 vm9@3" ]
	has more vm1@3 3.img
	must check --pool more
}

@test "send: --dry-run tells what would go, and changes nothing" {
	local to
	make_ends
	must snapshot vm2 --from 2.img
	for to in there "x:$PWD/there"; do
		ctl send --all --dry-run --to "$to" --rsh ./rsh
		expect 0 <<-END
			would send vm1@1 to $to: all of 6.0 MiB
			would send vm1@2 to $to: 8.0 KiB changed since vm1@1
			would send vm1@3 to $to: 16.0 KiB changed since vm1@2
			would send vm2@1 to $to: all of 6.0 MiB
		END
	done
	[ -z "$(list_there)" ]
	[ -z "$(ask_there "SELECT name FROM volume")" ]
	[ ! -e pool/last-sent ]
	must send vm1@2 --to there
	must list --pool there
	before=$(md5sum <<<"$output")
	ctl send vm1 vm2 -n --newest 2 --to there
	expect 0 <<-'END'
		there has vm1@2
		would send vm1@3 to there: 16.0 KiB changed since vm1@2
		would send vm2@1 to there: all of 6.0 MiB
	END
	must send vm1 -nq --to there --json
	[ "$(field 0 '["type"]')" = there ]
	[ "$(field 0 '["version"]')" = vm1@2 ]
	[ "$(field 0 '["as"]')" = vm1 ]
	[ "$(field 1 '["type"]')" = send ]
	[ "$(field 1 '["version"]')" = vm1@3 ]
	[ "$(field 1 '["since"]')" = vm1@2 ]
	[ "$(field 1 '["bytes_changed"]')" = 16384 ]
	[ "$(field 1 '["dry_run"]')" = True ]
	[ "$(field 2 '["versions"]')" = 1 ]
	[ "$(field 2 '["dry_run"]')" = True ]
	must list --pool there
	[ "$(md5sum <<<"$output")" = "$before" ]
	# What it tells is what is done.
	must send vm1 --to there
	[[ ${lines[0]} == "sent vm1@3 to there: "* ]]
	ctl send vm1 -n --to there
	expect 0 <<-'END'
		there has vm1@3
		there has vm1@2
		nothing new to send to there
	END
	must snapshot other --from 1.img --pool there
	ctl send vm2 -n --as other --to there
	[ "$status" -eq 1 ]
	[[ $output == *"there has a volume 'other', and no version of it that this pool has"* ]]
}

@test "send, receive: one version that is older than what is there is refused, not passed by" {
	local refused="vm1@1 is not sent: there has a newer version, and takes only newer ones"
	make_ends
	must tag vm1@1 +old
	must send vm1@2 --to there
	for name in vm1@1 @old; do
		ctl send "$name" --to there
		[ "$status" -eq 3 ]
		[ "${lines[0]}" = "revdedupctl: $refused" ]
		[[ $output != *"nothing new"* ]]
	done
	ctl receive vm1@old --pool there --from pool
	expect 1 <<<"revdedupctl: pool: ${refused/there has/the other end has}"
	status=0
	output=$("$build/bin/revdedupctl" send vm1@1 --dry-run --to there --json 2>/dev/null) ||
		status=$?
	[ "$status" -eq 3 ]
	[ "$(field 0 '["versions_refused"]')" = 1 ]
	[ "$(field 0 '["volumes_unchanged"]')" = 0 ]
	# Others go, and what is there is no error, though older.
	must snapshot vm2 --from 2.img
	ctl send vm1@1 vm2 --to there
	[ "$status" -eq 3 ]
	[ "$(list_there)" = "vm1@2 vm2@1" ]
	must send vm1 --to there
	must send vm1@2 --to there
	[ "$output" = "nothing new to send to there" ]
	must receive vm1@2 --pool there --from pool
	[ "$output" = "nothing new to receive from pool" ]
}

@test "send: a volume there that is another one" {
	make_ends
	blocks other.img 0 100
	must snapshot vm1 --from other.img --pool there
	ctl send vm1 --to there
	expect 1 <<-'END'
		revdedupctl: there has a volume 'vm1', and no version of it that this pool has
		revdedupctl: nothing was sent of it; --as NAME gives it another name there, and --force sends it although the disk may be another
	END
	[ "$(list_there)" = "vm1@1" ]
	# Others are sent nevertheless.
	must snapshot vm2 --from 2.img
	ctl send vm1 vm2 --to there
	[ "$status" -eq 1 ]
	[ "$(list_there)" = "vm1@1 vm2@1" ]
	must send vm1 --to there --force
	[ "$(list_there)" = "vm1@1 vm1@2 vm1@3 vm1@4 vm2@1" ]
	has there vm1@1 other.img
	has there vm1@2 1.img
	has there vm1@3 2.img
	has there vm1@4 3.img
	must check --pool there
}

@test "send: no version is left here that both have" {
	make_ends
	must send vm1 --to there
	cp --sparse=always 3.img 4.img
	blocks 4.img 1200 7
	must snapshot vm1 --from 4.img
	# An older one that both have is one: what is newer there is no matter.
	must delete vm1@3
	must send vm1 --to there --json
	[ "$(field 0 '["bytes_sent"]')" -lt 40000 ]
	has there vm1@4 4.img
	must delete vm1@1 vm1@2 vm1@4
	blocks 4.img 1200 1
	must snapshot vm1 --from 4.img
	ctl send vm1 --to there
	[ "$status" -eq 1 ]
	must send vm1 --to there --force --json
	[ "$(field 0 '["bytes_sent"]')" -lt 40000 ]
	[ "$(list_there)" = "vm1@1 vm1@2 vm1@3 vm1@4 vm1@5" ]
	has there vm1@5 4.img
	has there vm1@4 <("$build/bin/revdedupctl" --pool there dump vm1@4)
	has there vm1@3 3.img
	must check --pool there
}

@test "receive: from files, a full one and what follows" {
	local nr
	make_ends
	"$build/bin/revdedupctl" send vm1@1 >full
	for nr in 2 3; do
		"$build/bin/revdedupctl" send "vm1@$nr" --since $((nr - 1)) -v >"inc$nr" 2>said
		[[ $(<said) == *"sent vm1@$nr: "* ]]
		[ "$(stat -c %s "inc$nr")" -lt 40000 ]
	done
	"$build/bin/revdedupctl" send vm1 --since 1 >both
	# What an increment builds on is lacking, and then is another version.
	ctl receive --pool there <inc2
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == "revdedupctl: 'the stream' holds what changed since version 1 (uid "*"), and there is no version here" ]]
	[ "${lines[1]}" = "revdedupctl: nothing was changed; receive first what holds version 1" ]
	[ -z "$(list_there)" ]
	ctl receive --pool there <full
	[ "$status" -eq 0 ]
	[[ $output == "received vm1@1: "*" MiB" ]]
	cp there/catalog.db before
	ctl receive --pool there <inc3
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == "revdedupctl: 'the stream' holds what changed since version 2 (uid "*"), and the newest version here is another" ]]
	[[ ${lines[1]} == "revdedupctl: nothing was changed; here is 'vm1@1' (uid "* ]]
	[ "$(list_there)" = "vm1@1" ]
	ctl receive --pool there --json <inc2
	[ "$status" -eq 0 ]
	[ "$(field 0 '["type"]')" = receive ]
	[ "$(field 0 '["version"]')" = vm1@2 ]
	ctl receive --pool there <inc2
	expect 0 <<<"nothing new to receive from the stream"
	ctl receive --pool there <full
	[ "$status" -eq 0 ]
	ctl receive --pool there <both
	[ "$status" -eq 0 ]
	has_all
	ctl receive --pool there <both
	expect 0 <<<"nothing new to receive from the stream"
	# Of two ways one may follow the other.
	blocks 3.img 700 1
	must snapshot vm1 --from 3.img
	must send vm1 --to there
	has there vm1@4 3.img
	ctl receive --pool there --as copy <full
	[ "$status" -eq 0 ]
	has there copy@1 1.img
	must check --pool there
}

# bats test_tags=slow
@test "receive: a file that is cut off, or damaged anywhere" {
	local size at nr=0
	make_ends
	"$build/bin/revdedupctl" send vm1 >file
	size=$(stat -c %s file)
	must init empty --size 128M
	for ((at = 0; at < 44; at++)); do
		# Heads and names are at the begin and in the end, content is between.
		case $((at % 4)) in
		0) nr=$((RANDOM % 600)) ;;
		1) nr=$((size - 1 - RANDOM % 12000)) ;;
		*) nr=$(((RANDOM << 15 | RANDOM) % size)) ;;
		esac
		cp file bad
		if [ $((at % 2)) -eq 0 ]; then
			truncate -s "$nr" bad
		else
			python3 -c 'import sys
with open("bad", "r+b") as file:
    file.seek(int(sys.argv[1]))
    byte = file.read(1)[0] ^ 1 << int(sys.argv[2])
    file.seek(-1, 1)
    file.write(bytes([byte]))' "$nr" $((RANDOM % 8))
		fi
		[ $((at % 10)) -ne 0 ] || {
			rm -rf there
			cp -r --sparse=always empty there
			: >were
		}
		ctl receive --pool there <bad
		[ "$status" -eq 1 ] || {
			echo "damaged at $nr: status $status: $output"
			return 1
		}
		list_there | tr ' ' '\n' >are
		# A version that is there is right, and stays so.
		for nr in $(comm -13 were are); do
			has there "$nr" "${nr#vm1@}.img"
		done
		mv are were
		# What has arrived is of use.
		[ $((at % 10)) -ne 9 ] || {
			must check --pool there
			ctl receive --pool there <file
			[ "$status" -eq 0 ]
			has_all
		}
	done
	# No stream at all, and the half of a conversation.
	ctl receive --pool empty </dev/null
	expect 1 <<<"revdedupctl: the stream ended early"
	ctl receive --pool empty <1.img
	expect 1 <<<"revdedupctl: what comes from the stream is no stream of versions"
}

@test "receive: content that is not what was announced" {
	make_long 4
	"$build/bin/revdedupctl" send vm1 >file
	# It is noticed where it comes: nothing of it is left that the right one would go on behind.
	"$BATS_TEST_DIRNAME/stream-relay.py" flip D 100 2 <file >bad
	truncate -s 1300000 bad
	ctl receive --pool there <bad
	expect 1 <<-'END'
		revdedupctl: the stream ended early
		revdedupctl: 'vm1': what has arrived is not the version that was announced
	END
	[ "$(arrived)" -le 1 ]
	ctl receive --pool there <file
	[ "$status" -eq 0 ]
	has there "$(list_there)" 1.img
	# A version of which each segment is right, and that is another one.
	rm -rf there
	must init there --size 128M
	"$BATS_TEST_DIRNAME/stream-relay.py" flip O 16 0 <file >bad
	ctl receive --pool there <bad
	expect 1 <<<"revdedupctl: 'vm1': what has arrived is not the version that was announced"
	[ -z "$(list_there)" ]
	[ -z "$(arrived)" ]
	must check --pool there
	# One that ends 64 KiB before its content.
	truncate -s $(((2 << 20) + (192 << 10))) end.img
	blocks end.img 500 60
	must snapshot end --from end.img
	"$build/bin/revdedupctl" send end |
		"$BATS_TEST_DIRNAME/stream-relay.py" flip O 34 0 >bad
	ctl receive --pool there <bad
	expect 1 <<<"revdedupctl: 'end': what has arrived is not the version that was announced"
	[ -z "$(list_there)" ]
	# The same of a sender that is asked again, and sends it again.
	by_relay flip D 100 0
	ctl send vm1 --to "x:$PWD/there" --rsh "$relay"
	[ "$status" -eq 1 ]
	[[ $output == *"what has arrived is not the version that was announced"* ]]
	[ -z "$(list_there)" ]
	# Once is as good as never.
	by_relay flip D 100 3
	must send vm1 --to "x:$PWD/there" --rsh "$relay"
	has there "$(list_there)" 1.img
	must check --pool there
}

# make_packs: vm1@1 of 1.img, in packs that are smaller than those that the pool there makes.
make_packs() {
	must init pool --size 256M --compression zstd:9
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 6M 1.img
	seq 600000 | dd of=1.img bs=4096 count=900 iflag=fullblock conv=notrunc status=none
	must snapshot vm1 --from 1.img
	make_there --compression zstd:1
}

# segment LETTER >FILE: one whose packs are of one length, whatever the letter.
segment() {
	python3 -c 'import sys
for nr in range(512):
    print(f"{sys.argv[1]}{nr:07}" * 512, end="")' "$1"
}

# stored_in POOL: the bytes that the content of vm1@1 took.
stored_in() {
	"$build/bin/revdedupctl" --pool "$1" show vm1@1 --json |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["bytes_stored"])'
}

@test "send: packs arrive as they lie, and are raw where a pool is" {
	make_packs
	must send vm1 --to there
	has there vm1@1 1.img
	[ "$(stored_in there)" -eq "$(stored_in pool)" ]
	must scrub --pool there
	must check --pool there
	# It is another form than the receiver would make.
	must init own --size 256M --compression zstd:1
	must snapshot vm1 --from 1.img --pool own
	[ "$(stored_in own)" -gt "$(stored_in pool)" ]
	must init raw --size 256M --compression none
	must send vm1 --to raw
	has raw vm1@1 1.img
	[ "$(stored_in raw)" -gt "$(stored_in own)" ]
	must check --pool raw
	# Of a pack that is damaged nothing is sent.
	python3 -c 'data = open("pool/data", "r+b")
at = data.read(64 << 20).index(b"RDPACK1\0") + 5000
data.seek(at)
byte = data.read(1)[0]
data.seek(at)
data.write(bytes((byte ^ 1,)))'
	must init new --size 256M
	ctl send vm1 --to new
	[ "$status" -eq 1 ]
	[[ $output == *"damaged"* ]]
	[ -z "$(list_there new)" ]
}

@test "send: a pack whose blocks are not what their fingerprints are of" {
	must init pool --size 256M --compression zstd:1
	export REVDEDUP_POOL=$PWD/pool
	{ segment a; segment b; } >1.img
	must snapshot vm1 --from 1.img
	make_there --compression zstd:1
	"$BATS_TEST_DIRNAME/swap-packs.py" pool/data
	# The receiver asks again, and what comes then is read as ever.
	ctl send vm1 --to there
	[ "$status" -eq 1 ]
	[[ $output == *"damaged"* ]]
	[ -z "$(list_there)" ]
	must check --pool there
	# A file asks nothing.
	! "$build/bin/revdedupctl" send vm1 >file 2>said || return
	grep damaged said
	ctl receive --pool there <file
	[[ $output == *"ended early"* ]]
}

@test "receive: groups of a pack that are not what they say" {
	make_packs
	# Their length; how they are stored; a block that they lack; the magic of zstd; its content.
	for at in 80 83 8 208 400; do
		by_relay flip D $at 0
		ctl send vm1 --to "x:$PWD/there" --rsh "$relay"
		[ "$status" -eq 1 ]
		[ -z "$(list_there)" ]
		must check --pool there
	done
	# Once, where the content is wrong: it comes in another form then.
	for at in 208 400; do
		by_relay flip D $at 1
		must send vm1 --to "x:$PWD/there" --rsh "$relay"
		has there "$(list_there)" 1.img
		must check --pool there
		must delete --pool there vm1@latest --yes
	done
}

@test "send: what was cut off goes on where it was" {
	make_large
	cut_off 5000000
	[ "$(arrived)" -eq 2 ]
	must check --pool there
	must send vm1 --to "x:$PWD/there" --rsh ./rsh --json
	[ "$(field 0 '["bytes_sent"]')" -lt $((6 << 20 | 1 << 16)) ]
	has there vm1@1 1.img
	must check --pool there
	# From a file that has all of it.
	rm -rf there
	must init there --size 128M
	cut_off 3000000
	ctl receive --pool there < <("$build/bin/revdedupctl" send vm1)
	[ "$status" -eq 0 ]
	has there vm1@1 1.img
	must check --pool there
	# Often, and of one version that follows another.
	blocks 1.img 0 2560
	must snapshot vm1 --from 1.img
	for cut in 2500000 2700000 900000; do
		by_relay cut $cut
		ctl send vm1 --to "x:$PWD/there" --rsh "$relay"
		[ "$status" -eq 1 ]
	done
	must send vm1 --to "x:$PWD/there" --rsh ./rsh --json
	[ "$(field 0 '["bytes_sent"]')" -lt $((6 << 20 | 1 << 16)) ]
	has there vm1@2 1.img
	must check --pool there
}

@test "send: what has arrived goes with the version that it builds on" {
	make_large
	must send vm1 --to there
	cp 1.img 2.img
	blocks 2.img 0 2560
	must snapshot vm1 --from 2.img
	by_relay cut 5000000
	ctl send vm1 --to "x:$PWD/there" --rsh "$relay"
	[ "$(arrived)" -ge 1 ]
	must snapshot other --from 1.img --pool there
	[ "$(arrived)" -ge 1 ]
	must delete vm1@1 --pool there
	[ -z "$(arrived)" ]
	must check --pool there
	must send vm1 --to there
	# A number is never used again.
	[ "$(list_there)" = "other@1 vm1@3 vm1@4" ]
	has there vm1@3 1.img
	has there vm1@4 2.img
	must check --pool there
}

@test "send: what has arrived goes when the volume gets another version, or loses all" {
	local name
	make_large
	cut_off 5000000
	# The volume has no version yet.
	must list --pool there
	must snapshot vm1 --from 1.img --pool there
	[ -z "$(arrived)" ]
	name=$(list_there)
	has there "$name" 1.img
	must check --pool there
	rm -rf there
	must init there --size 128M
	must send vm1 --to there
	blocks 1.img 0 2560
	must snapshot vm1 --from 1.img
	by_relay cut 5000000
	ctl send vm1 --to "x:$PWD/there" --rsh "$relay"
	[ "$(arrived)" -ge 1 ]
	must prune vm1 --keep-last 1 --pool there
	[ "$(arrived)" -ge 1 ]
	must scrub --pool there
	must dedup --pool there --older 0
	must recompress none --pool there
	must prune vm1 --keep-tag none --unsafe-allow-remove-all --pool there
	[ -z "$(arrived)" ]
	must check --pool there
}

@test "send: either end is killed" {
	make_large
	send_held vm1
	kill -KILL "$holder"
	wait "$holder" || :
	holder=
	touch go
	# The other end notices it, and lets go.
	must send vm1 --to there --lock-wait 60
	has there "$(list_there)" 1.img
	must check --pool there
	must check
	rm -rf there held go
	must init there --size 128M
	send_held vm1
	kill -KILL "$(<held)"
	touch go
	! wait "$holder" || return
	holder=
	[[ $(<sent) == *"revdedupctl: x ended early"* ]]
	must check --pool there
	must send vm1 --to there
	has there "$(list_there)" 1.img
	must check --pool there
}

# It has more segments than are read ahead.
@test "send: a version that is deleted while it is sent" {
	make_long 20
	send_held vm1
	must delete vm1@1
	blocks other.img 0 2560
	must snapshot vm2 --from other.img
	touch go
	wait "$holder" || {
		cat sent
		return 1
	}
	holder=
	has there vm1@1 1.img
	must check --pool there
	must snapshot vm2 --from other.img
	must check
	[ "$(ask "SELECT count(*) FROM lease")" -eq 0 ]
	must stats --json
	[ "$(field -1 '["versions_held"]')" = 0 ]
}

# The pool that receives is the one that `damage` knows.
@test "send: a block is damaged where it would have been shared" {
	# With three frames that are free beside those kept for journals: a try takes two at once,
	# and needs two.
	make_pool 64M
	blocks 1.img 0 2560
	blocks full.img 0 $((14 * 512))
	must snapshot vm1 --from 1.img
	must snapshot full --from full.img
	make_there
	cp 1.img 2.img
	blocks 2.img 0 512
	blocks 2.img 601 1
	must snapshot --pool there vm1 --from 1.img
	must snapshot --pool there vm2 --from 2.img
	# Of the second segment, so that frames were taken before it is seen.
	damage 1.img 600
	must send --pool there vm2 --to pool
	has pool vm2@1 2.img
	# One that has changed a bit since then.
	damage 2.img 2000
	blocks 2.img 2001 1
	must snapshot --pool there vm2 --from 2.img
	must send --pool there vm2 --to "x:$PWD/pool" --rsh ./rsh
	has pool vm2@2 2.img
	must check
}

@test "send, receive: the last line says what was saved" {
	make_pool 128M
	make_there
	truncate -s 6M 1.img
	blocks 1.img 0 600
	cp 1.img 2.img
	blocks 2.img 600 20
	must snapshot vm1 --from 1.img
	must snapshot vm2 --from 2.img
	cp 1.img 3.img
	blocks 3.img 3 2
	must snapshot vm1 --from 3.img
	# Only where it builds on the version before does the whole segment say how much changed.
	cp 2.img 4.img
	dd if=3.img of=4.img bs=1M count=2 conv=notrunc status=none
	must snapshot vm2 --from 4.img
	must send vm1 --to there
	[[ ${lines[2]} == "2 versions: 2.4 MiB over the wire, for 2.4 MiB that was not there" ]]
	# The first segment is there, and of the second one most of 88 blocks.
	must send vm2@1 --to there
	[[ ${lines[1]} == "1 version: "*" KiB over the wire, for "*" KiB that was not there, and 2.3 MiB that was" ]]
	must send vm2 --to there --json
	[ "$(field 1 '["segments_there"]')" = 1 ]
	[ "$(field 1 '["blocks_there"]')" = 2 ]
	must init more --size 128M
	must receive vm1 --pool more --from pool
	[[ ${lines[2]} == "2 versions: 2.4 MiB over the wire, for 2.4 MiB that changed" ]]
	must receive vm2@1 --pool more --from pool --json
	[ "$(field 1 '["type"]')" = received ]
	[ "$(field 1 '["versions"]')" = 1 ]
	[ "$(field 1 '["versions_refused"]')" = 0 ]
	[ "$(field 1 '["blocks_changed"]')" = 620 ]
	[ "$(field 1 '["bytes_received"]')" -lt 200000 ]
}

@test "receive: from another pool" {
	make_ends
	must receive vm1@1 --pool there --from pool
	[[ $output == "received vm1@1: "* ]]
	must receive vm1 --pool there --from "x:$PWD/pool" --rsh ./rsh --newest 1 --json
	[ "$(field 0 '["version"]')" = vm1@3 ]
	[ "$(list_there)" = "vm1@1 vm1@3" ]
	has there vm1@3 3.img
	must receive vm1 --pool there --from pool
	[ "$output" = "nothing new to receive from pool" ]
	must receive vm1 --as vg/copy --pool there --from pool
	has there vg/copy@2 2.img
	must check --pool there
	must snapshot vm2 --from 2.img
	must init more --size 128M
	must receive --all --pool more --from pool
	[ "$(list_there more)" = "vm1@1 vm1@2 vm1@3 vm2@1" ]
	has_all more || [[ $output == *"(4 versions"* ]]
	ctl receive vm7 --pool there --from pool
	[ "$status" -eq 1 ]
	[[ $output == *"there is no volume 'vm7' in the pool"* ]]
	# A pool that may only be read.
	chmod a-w pool
	must receive vm2 --pool there --from pool
	chmod u+w pool
	has there vm2@1 2.img
}

@test "receive: what the other end refuses to send is an error, and others arrive" {
	make_ends
	must snapshot vm2 --from 2.img
	must snapshot vm1 --from 1.img --pool there
	for option in "" --json; do
		# shellcheck disable=SC2086 # none, or one
		ctl receive --all --pool there --from "x:$PWD/pool" --rsh ./rsh $option
		[ "$status" -eq 1 ]
		[[ $output != *"nothing new"* ]]
		[[ $output == *"x: the other end has a volume 'vm1', and no version of it that this pool has"* ]]
		[[ $output == *"x: nothing was sent of it; --as NAME receives it under another name"* ]]
		[ "$(list_there)" = "vm1@1 vm2@1" ]
	done
	must receive vm1 --as mine --pool there --from pool
	has there mine@3 3.img
	must check --pool there
}

@test "serve: what it allows" {
	local to="x:$PWD/there"
	make_ends
	must snapshot web1 --from 2.img
	must snapshot db --from 3.img
	make_rsh --append-only --volumes "'web*'" --volumes vm1
	must send vm1 web1 --to "$to" --rsh ./rsh
	[ "$(list_there)" = "vm1@1 vm1@2 vm1@3 web1@1" ]
	ctl send db --to "$to" --rsh ./rsh
	[ "$status" -eq 3 ]
	[[ $output == *"db@1: not taken by x: it may not write to that volume"* ]]
	[[ $output != *"sent db@1"* ]]
	ctl receive vm1 --as new --from "$to" --rsh ./rsh
	expect 1 <<-'END'
		revdedupctl: x: this end may only be added to
	END
	[ "$(list_there)" = "vm1@1 vm1@2 vm1@3 web1@1" ]
	# No tag is taken from a version that has it.
	must --pool there tag vm1@3 +gold
	blocks 3.img 3 1
	must snapshot vm1 --from 3.img --tag gold
	must send vm1 --to "$to" --rsh ./rsh
	must show vm1@gold --pool there
	[ "${lines[0]}" = "version:        vm1@3" ]

	make_rsh --read-only --volumes "'web*'"
	ctl send db --to "$to" --rsh ./rsh
	expect 1 <<-'END'
		revdedupctl: x: this end may only be read
	END
	ctl receive vm1 --as new --from "$to" --rsh ./rsh
	[ "$status" -eq 1 ]
	[[ $output == *"revdedupctl: x: there is no volume 'vm1' in the pool"* ]]
	must receive --all --pool pool --from "$to" --rsh ./rsh
	must init more --size 128M
	must receive --all --pool more --from "$to" --rsh ./rsh
	[ "$(list_there more)" = "web1@1" ]
	has more web1@1 2.img

	must snapshot late --from 1.img
	for limit in 0 1M; do
		make_rsh --limit $limit
		ctl send late --to "$to" --rsh ./rsh
		[ "$status" -eq 3 ]
		[[ $output == *"late@1: not taken by x: the limit of the pool is reached"* ]]
	done
	make_rsh --limit 100M
	must send late --to "$to" --rsh ./rsh
	must check --pool there
}

# make_liar: the command "liar" is rsh with the relay between.
make_liar() {
	# shellcheck disable=SC2016 # it is another shell that expands it
	printf '#!/bin/sh\nexec %s "$1" "$2 --volumes %s --share proven"\n' \
		"$relay" "'vm*'" >liar
	chmod +x liar
}

# sent_with SHARE: print how many bytes of 2.img go over the wire, that another volume has.
sent_with() {
	rm -rf there
	cp -r --sparse=always was there
	make_rsh --volumes "'vm*'" --share "$1"
	must send vm2 --to "x:$PWD/there" --rsh "${2:-./rsh}" --json >&2 || return
	field -1 '["bytes_sent"]'
	has there vm2@1 2.img >&2 || return
	must check --pool there >&2
}

@test "serve: what others have is not sent, if the sender proves that it has it" {
	local own proven all
	make_pool 128M
	make_there
	blocks 1.img 0 1500
	cp 1.img 2.img
	# A segment is the same, one has blocks that are, and one has moved.
	blocks 2.img 600 100
	must snapshot vm2 --from 2.img
	must snapshot secret --from 1.img --pool there
	mv there was
	own=$(sent_with own)
	proven=$(sent_with proven)
	all=$(sent_with all)
	echo "own $own, proven $proven, all $all"
	[ "$own" -gt $((1500 * 4096)) ]
	[ "$proven" -gt $((100 * 4096)) ]
	[ "$proven" -lt $((100 * 4096 + 20000)) ]
	[ "$all" -gt $((100 * 4096)) ]
	[ "$all" -lt "$proven" ]
	# Who proves it wrongly has to send it.
	by_relay flip P 8 0
	make_liar
	[ "$(sent_with proven ./liar)" -gt $((1500 * 4096)) ]
	by_relay flip P 8 2
	make_liar
	[ "$(sent_with proven ./liar)" -gt $((400 * 4096)) ]
	# What is its own needs no proof.
	make_rsh --share own --volumes vm2 --volumes other
	must send vm2 --as other --to "x:$PWD/there" --rsh ./rsh --json
	[ "$(field -1 '["bytes_sent"]')" -lt 20000 ]
}

@test "send, receive, serve: what they refuse" {
	make_ends
	while read -r command; do
		# shellcheck disable=SC2086 # words
		ctl $command </dev/null
		[ "$status" -eq 2 ] || {
			echo "status $status: $command: $output"
			return 1
		}
	done <<-'END'
		send
		send --to there
		send vm1 --all --to there
		send vm1 vm2 --as x --to there
		send vm1 vm2 --since 1 --to there
		send vm1 --as a@b --to there
		send vm1 --newest 0 --to there
		send vm1 --to x:
		send vm1 --to :x
		send vm1 --to -x:y
		send vm1 --to ssh://x
		send vm1 --json
		send vm1 --dry-run
		receive vm1
		receive --from there
		receive --all vm1 --from there
		receive vm1 --as a@b --from there
		serve --read-only --append-only
		serve --share foo
		serve --limit x
		serve vm1
		send vm1 --to there --rate 1K
		receive --all --from there --rate 1023K
		snapshot vm1 --from 1.img --rate 0
		restore vm1@1 --to back --rate 1
		dump vm1@1 --rate 1
	END
	while read -r command; do
		# shellcheck disable=SC2086 # words
		ctl $command </dev/null
		[ "$status" -eq 1 ] || {
			echo "status $status: $command: $output"
			return 1
		}
	done <<-'END'
		send vm7 --to there
		send vm1@9 --to there
		send vm1 --since 9 --to there
		send vm1 --to nowhere
		send vm1 --to x:nowhere --rsh ./rsh
		send vm1 --to x:there --rsh false
		receive vm7 --from there
		receive --pool there vm1 --from nowhere
	END
	ctl send vm1 --to x:there --rsh no-such-program
	[ "$status" -eq 1 ]
	[[ $output == *"revdedupctl: is revdedupctl installed there, and the name of the host right?" ]]
	[ -z "$(list_there)" ]
	# The same pool, by whatever name, is no copy elsewhere.
	ln -s pool link
	for command in "send vm1 --to" "receive vm1 --from"; do
		# shellcheck disable=SC2086 # words
		ctl $command link
		expect 1 <<-'END'
			revdedupctl: 'link' is this pool itself
			revdedupctl: nothing was copied; --as NAME makes a volume of another name in it
		END
	done
	must send vm1 --as twin --to link
	has pool twin@3 3.img
	[ ! -e pool/last-sent ]
	# Two that do the same have nothing to say to each other.
	ctl send vm1 --to "x:there" --rsh "cat; :"
	[ "$status" -eq 1 ]
	must check --pool there
}

@test "send: where revdedup.conf says, and status and metrics tell what is there" {
	make_ends
	must init second --size 128M
	must snapshot web1 --from 1.img
	mkdir etc
	printf '[send]\nto = %s vm*\nto = %s\nrate = 900M\n' "$PWD/there" "$PWD/second" >etc/revdedup.conf
	export REVDEDUP_CONFIG=$PWD/etc
	must send -q
	[ "$(list_there)" = "vm1@1 vm1@2 vm1@3" ]
	[ "$(list_there second)" = "vm1@1 vm1@2 vm1@3 web1@1" ]
	must status
	[[ $output == *"elsewhere:   vm1@3 of "*", in $PWD/there"* ]]
	[[ $output == *"elsewhere:   web1@1 of "*", in $PWD/second"* ]]
	[ "$(grep -c elsewhere: <<<"$output")" -eq 3 ]
	must metrics
	[[ $output == *'revdedup_volume_elsewhere_timestamp_seconds{volume="web1"} '* ]]
	# One that cannot be reached keeps no other from what it gets.
	sed -i "s|there vm\*|gone vm*|" etc/revdedup.conf
	must snapshot web1 --from 2.img
	ctl send
	[ "$status" -eq 1 ]
	[[ $(list_there second) == *" web1@2" ]]
	# What is typed goes where it is typed to, and a relative name means the same afterwards.
	must send web1 --to there
	[[ $(list_there) == *" web1@1 web1@2" ]]
	must status
	[[ $output == *"elsewhere:   web1@2 of "*", in $PWD/there"* && $output != *", in there"* ]]
	rm etc/revdedup.conf
	ctl send
	[ "$status" -eq 2 ]
	[[ $output == *"let [send] in "*" say what goes where"* ]]
}

@test "list and delete: a version of which a part has arrived" {
	make_large
	cut_off 5000000
	must list --pool there
	[[ $output =~ ^"vm1@1 is arriving: "[0-9]+" % of 10.0 MiB is there" ]]
	must list --json --pool there
	[[ $output == *'"type": "arriving", "version": "vm1@1", "volume": "vm1", "size": 10485760, '* ]]
	must delete vm1@1 --pool there
	[[ $output == "deleted vm1@1"* ]]
	must check --pool there
	must list --pool there
	[ -z "$output" ]
	must send vm1 --to there
	has there vm1@1 1.img || has there vm1@2 1.img
}

@test "restore: a version that only another pool has" {
	local from
	make_ends
	from=$PWD/pool
	# No pool is needed here.
	unset REVDEDUP_POOL
	for nr in 1 3; do
		must restore "vm1@$nr" --from "$from" --to back
		cmp back "$nr.img"
		rm back
	done
	must restore vm1@latest --from "x:$from" --rsh ./rsh --to back
	cmp back 3.img
	# All of it is written where there is something else.
	head -c 6M /dev/urandom >back
	ctl restore vm1@2 --from "$from" --to back
	[ "$status" -eq 1 ]
	[[ $output == *"would overwrite it"* ]]
	must restore vm1@2 --from "$from" --to back --yes
	cmp back 2.img
	ctl restore vm1@9 --from "$from" --to other
	[ "$status" -eq 1 ]
	[[ $output == *"there is no version 9 of 'vm1'"* ]]
	[ ! -e other ]
	ctl restore vm1@1 --from "$from" --to "$from/data" --yes --pool "$from"
	[ "$status" -eq 1 ]
	[[ $output == *"is part of the pool"* ]]
}
