#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Two commands that meet at one step, where it takes a certain disk for them to get into
# each other's way: one is stopped there (SIGSTOP), the other runs to its end, and the first
# one goes on. stops.bats stops commands at all steps, with disks that are made at random.

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
}

teardown() {
	live_teardown
	[ -z "${disk:-}" ] || losetup --detach "$disk"
}

# blocks FILE FIRST NR: fill these blocks of 4 KiB with what is nowhere else.
blocks() {
	dd if=/dev/urandom of="img/$1" bs=4096 seek="$2" count="$3" iflag=fullblock \
		conv=notrunc status=none
}

# texts FILE FIRST NR: the same with what compresses by about 3.
texts() {
	od -An -v -tx1 /dev/urandom | head -c $((4096 * $3)) |
		dd of="img/$1" bs=4096 seek="$2" iflag=fullblock conv=notrunc status=none
}

# next_of FROM TO: an image that begins as another one.
next_of() { cp --sparse=always "img/$1" "img/$2"; }

# snapshot VOLUME IMAGE N: it becomes VOLUME@N.
snapshot() {
	must snapshot "$1" --from "img/$2"
	cp --sparse=always "img/$2" "want/$1@$3"
}

# stop_in STEP COMMAND...: which comes there.
stop_in() {
	stopped="'${*:2}' stopped at $1"
	stop_at "$@"
	grep -q "State:.*stopped" "/proc/$pid/status" ||
		fail_test "was not $stopped: $(cat out/stopped)"
}

@test "slots that are queued while others of their frame are given back" {
	must init pool --size 512M --reserve 1M
	blocks 1 0 512
	next_of 1 2
	blocks 2 0 400
	snapshot vm1 1 1
	stop_in free-commit snapshot vm1 --from img/2
	must delete vm1@1
	rm want/vm1@1
	cp img/2 want/vm1@2
	go_on
	all_right
}

@test "blocks that die while they are moved" {
	local at
	must init pool --size 512M --reserve 1M
	blocks 1 0 512
	next_of 1 2
	# What is left of the first is less than its holes.
	for ((at = 0; at < 512; at += 8)); do
		blocks 2 "$at" 1
	done
	snapshot vm1 1 1
	stop_in compact-commit snapshot vm1 --from img/2
	must delete vm1@1
	rm want/vm1@1
	cp img/2 want/vm1@2
	go_on
	all_right
}

@test "a snapshot that lost what it had found writes it, also on a device" {
	[ "$(id -u)" -eq 0 ] || skip "needs root, for loop devices"
	truncate -s 512M disk.bin
	disk=$(losetup --find --show disk.bin)
	must init pool --data "$disk" --reserve 1M
	blocks 1 100 300
	next_of 1 2
	blocks 2 150 5
	snapshot vm1 1 1
	stop_in snapshot-hit snapshot vm2 --from img/1
	snapshot vm1 2 2
	cp --sparse=always img/1 want/vm2@1
	go_on
	all_right
	must scrub
}

@test "a place that the index gave has other content when it is looked at again" {
	must init pool --size 512M --reserve 1M --pieces 64 --dedup inline
	blocks 1 0 512
	blocks 3 0 512
	dd if=img/1 of=img/2 bs=4096 skip=100 seek=50 count=300 conv=notrunc status=none
	truncate -s 2M img/2
	snapshot vm1 1 1
	stop_in snapshot-batch snapshot vm2 --from img/2
	must delete vm1@1
	rm want/vm1@1
	snapshot vm3 3 1
	cp --sparse=always img/2 want/vm2@1
	go_on
	all_right
	must scrub
}

@test "a frame whose last pack goes while the next one is written behind it" {
	must init pool --size 512M --reserve 1M --compression zstd
	texts 1 0 512
	texts 2 0 512
	snapshot vm1 1 1
	stop_in snapshot-batch snapshot vm2 --from img/2
	must delete vm1@1
	rm want/vm1@1
	cp img/2 want/vm2@1
	go_on
	all_right
	must scrub
}

@test "pages of fingerprints that are queued are not those of another pack" {
	local nr
	must init pool --size 512M --reserve 1M --compression zstd
	for nr in 1 2 3; do
		texts "$nr" 0 512
	done
	snapshot vm1 1 1
	snapshot vm2 2 1
	stop_in free-punch delete vm1@1
	rm want/vm1@1
	snapshot vm3 3 1
	go_on
	all_right
	must scrub
}

@test "a snapshot that fails leaves alone what was in the frames that it filled" {
	must init pool --size 512M --reserve 1M --compression zstd
	texts 1 0 512
	texts 2 0 512
	snapshot vm1 1 1
	REVDEDUP_FAIL=snapshot-batch=EIO run -1 "${ctl[@]}" snapshot vm2 --from img/2
	all_right
	must scrub
	snapshot vm2 2 2
	all_right
}

@test "a change that is made while others go into the copy of the catalog" {
	local second
	must init pool --size 512M --reserve 1M
	blocks 1 0 10
	snapshot vm1 1 1
	stop_in journal-appended tag vm1@1 +first
	"${ctl[@]}" tag vm1@1 +second >out/second 2>&1 3>&- &
	second=$!
	# For the copy: the catalog has it.
	until grep -qs "waiting for another command" out/second; do
		sleep 0.01
	done
	go_on
	wait "$second"
	rm pool/catalog.db*
	must repair --rebuild-catalog
	must show vm1@first
	must show vm1@second
	all_right
}

# prepare_repair: a@1 has a block that is damaged, of which b@1 has a copy.
prepare_repair() {
	local seg
	must init pool --size 512M --reserve 1M
	# So many that what comes next goes into the same frames.
	for ((seg = 0; seg < 70; seg++)); do
		blocks a $((seg * 512 + 7)) 1
	done
	blocks b 0 512
	dd if=img/a of=img/b bs=4096 skip=7 count=1 conv=notrunc status=none
	must snapshot a --from img/a
	snapshot b b 1
	python3 -c 'import os
wanted = open("img/a", "rb").read()[7 * 4096:8 * 4096]
data = open("pool/data", "r+b")
at = 0
while True:
    at = os.lseek(data.fileno(), at, os.SEEK_DATA) // 4096 * 4096
    data.seek(at)
    if data.read(4096) == wanted:
        break
    at += 4096
data.seek(at)
data.write(bytes([wanted[0] ^ 1]))'
}

@test "repair of a block whose place has become that of another" {
	local step
	prepare_repair
	cp -r --sparse=always pool damaged
	log_steps repair
	# It has read the copy, and is about to write.
	step=$(awk '$1 == "heal-write" { print at } $1 == "area-read" { at = NR }' log)
	rm -r pool
	mv damaged pool
	blocks c 0 512
	stop_in "any:$step" repair
	must delete a@1
	snapshot c c 1
	go_on
	all_right
	must scrub
}
