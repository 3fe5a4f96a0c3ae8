#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Pools that are full: nothing is lost, delete and prune work, and so does the next
# snapshot. Needs root, for loop devices.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by live.bash
load live
load ../cli/old-catalog

setup() {
	[ "$(id -u)" -eq 0 ] || skip "needs root, for loop devices"
	live_setup
	loops=()
	mounts=()
}

teardown() {
	local it
	for it in "${mounts[@]}"; do
		umount "$it"
	done
	for it in "${loops[@]}"; do
		losetup --detach "$it"
	done
}

# loop_device NAME MIB: sets $loop.
loop_device() {
	truncate -s "$2M" "out/$1"
	loop=$(losetup --find --show "out/$1")
	loops+=("$loop")
}

# small_fs MIB [BLOCK]: a file system in fs/.
small_fs() {
	loop_device fs.img "$1"
	mkfs.ext4 -q -F -m 0 -b "${2:-4096}" "$loop"
	mkdir fs
	mount "$loop" fs
	mounts=("$PWD/fs")
	export REVDEDUP_POOL=$PWD/fs/pool
}

# leave KIB: all but so much of the file system is taken.
leave() {
	local free
	rm -f fs/ballast
	sync -f fs
	free=$(df --output=avail -k fs | tail -n 1)
	head -c $(((free - $1) * 1024)) /dev/zero 2>/dev/null >fs/ballast || :
}

# fill_image VOL MIB: with what is nowhere else. With texts=true it compresses by about 3.
fill_image() {
	if "${texts:-false}"; then
		basenc --base16 /dev/urandom | head -c "$2M" >"img/$1"
	else
		head -c "$2M" /dev/urandom >"img/$1"
	fi
}

# try_snapshot VOL: $status is 0 or 12. With that it may have been made as well, if
# it is what comes after that there was no room for.
try_snapshot() {
	local version
	run "${ctl[@]}" snapshot "$1" --from "img/$1"
	echo "$output" >out/try
	case $status in
	0) took "$1" out/try ;;
	12)
		grep -q "No space left\|is full" out/try || fail_test "no reason: $output"
		version=$(sed -n 's/.*: \(.*\) was made and can be used.*/\1/p' out/try)
		[ -z "$version" ] || cp "img/$1" "want/$version"
		;;
	*) fail_test "status $status: $output" ;;
	esac
}

# fill_up MIB: with versions of so much, until there is no room for one more.
fill_up() {
	local nr
	for ((nr = 0; nr < 100; nr++)); do
		fill_image "vol$((nr % 3))" "$1"
		try_snapshot "vol$((nr % 3))"
		[ "$status" -eq 0 ] || return 0
	done
	fail_test "it never is full"
}

# lose VERSION COMMAND...: the command deletes that one.
lose() {
	local version=$1
	shift
	must "$@"
	grep -qx "deleted $version" out/must || fail_test "$*: $(cat out/must)"
	rm "want/$version"
}

# oldest: prints it.
oldest() {
	"${ctl[@]}" list | awk 'NR == 2 { print $1 }'
}

# work_when_full MIB: what one does then; in soak some times.
work_when_full() {
	local times=1
	[ -z "${SOAK:-}" ] || times=3
	for ((; times; times--)); do
		fill_up "$1"
		all_right || fail_test "after it was full" || return
		lose "$(oldest)" delete "$(oldest)"
		all_right || return
		fill_image vol9 $(($1 / 2))
		try_snapshot vol9
		[ "$status" -eq 0 ] || fail_test "the next snapshot: $output" || return
		fill_up "$1"
		if [ -e want/vol9@1 ]; then
			must protect vol9@latest
			must prune --keep-last 1 vol0
			sed -n 's|^deleted |want/|p' out/must | xargs -r rm
		fi
		all_right || return
		try_snapshot vol9
	done
	# And all of it comes back.
	while read -r version; do
		must unprotect "$version"
	done < <(cd want && ls -d vol9@*)
	must prune --keep-tag none --unsafe-allow-remove-all
	rm -f want/*
	all_right
	must stats
	cat out/must
}

# bats test_tags=soak
@test "a file system that is full of versions" {
	small_fs 96
	must init --compression none "$REVDEDUP_POOL" --size 1G --reserve 4M
	work_when_full 6
}

@test "a data area on a device that is full" {
	loop_device data.img 100
	must init --compression none pool --data "$loop" --reserve 1M
	work_when_full 6
}

@test "a file system that is full of packs" {
	local texts=true
	small_fs 48
	must init "$REVDEDUP_POOL" --size 1G --reserve 4M --compression zstd
	work_when_full 8
}

# bats test_tags=soak
@test "a device that is full of packs" {
	local texts=true
	loop_device data.img 64
	must init pool --data "$loop" --reserve 1M --compression zstd
	work_when_full 8
}

# Versions that differ in every other block: all frames are in use, and none has
# much that lives.
@test "a device that is full of pieces" {
	local nr
	loop_device data.img 64
	must init --compression none pool --data "$loop" --reserve 1M
	fill_image vol1 16
	for ((nr = 0; nr < 60; nr++)); do
		try_snapshot vol1
		[ "$status" -eq 0 ] || break
		python3 -c 'import os, sys
with open("img/vol1", "r+b") as image:
    for block in range(int(sys.argv[1]) % 9, 4096, 9):
        image.seek(block * 4096)
        image.write(os.urandom(4096))' "$nr"
	done
	[ "$status" -eq 12 ]
	all_right
	for version in $("${ctl[@]}" list | awk 'NR > 1 { print $1 }' | head -n 4); do
		lose "$version" delete "$version"
		all_right
	done
	try_snapshot vol1
	[ "$status" -eq 0 ]
	all_right
}

# edit SQL: change the catalog as no command does.
edit() { "$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db "$@"; }

# change_ninths FIRST: each ninth block of img/v, and a version of it.
change_ninths() {
	python3 -c 'import os, sys
with open("img/v", "r+b") as image:
    for block in range(int(sys.argv[1]), 2048, 9):
        image.seek(block * 4096)
        image.write(os.urandom(4096))' "$1"
	try_snapshot v
	[ "$status" -eq 0 ]
}

# one_free: of the frames, and the others are kept.
one_free() {
	edit "INSERT INTO kept WITH RECURSIVE f(at, last) AS (SELECT start, start + len FROM extent
		UNION ALL SELECT at + 1, last FROM f WHERE at + 1 < last) SELECT at FROM f"
	edit "DELETE FROM extent"
	edit "INSERT INTO extent SELECT min(frame), 1 FROM kept"
	edit "DELETE FROM kept WHERE frame = (SELECT start FROM extent)"
}

# Frames are emptied when a device that kept them is gone; the journal goes on in another frame just
# then. Nothing is freed before it has.
grows_when_compacted() {
	local at
	for at in 77 78; do
		from_base
		fill_journal "$at"
		edit "DELETE FROM lease"
		must tag v@1 +gold && must tag v@1 +silver || fail_test "at block $at" || return
		all_right || return
	done
}

# four_segments: a pool, and a version of so many.
four_segments() {
	must init --compression none pool --pieces 1 --size 64M --reserve 1M
	fill_image v 8
	try_snapshot v
	[ "$status" -eq 0 ]
}

@test "compaction leaves frames for the journal" {
	four_segments
	edit "INSERT INTO lease VALUES(1, 'held', 1, 1, 1)"
	change_ninths 0
	lengthen_journal
	fill_journal 76
	one_free
	keep_base
	grows_when_compacted
}

# There is room in the frame that it has filled before. That many parts ask for a new journal.
@test "a new journal that there is no room for leaves frames for the old one" {
	four_segments
	change_ninths 0
	[ "$(ask "SELECT next < 256 FROM packing")" = 1 ]
	edit "INSERT INTO lease VALUES(1, 'held', 1, 1, 1)"
	change_ninths 1
	one_free
	fill_journal 76
	[ "$(ask "SELECT journal_seq > 64 FROM state")" = 1 ]
	keep_base
	grows_when_compacted
}

# What the journal has of a command that was killed stays known to be ours, while there is no frame
# to go on in.
@test "the last frame is taken by a command that is killed" {
	four_segments
	lengthen_journal
	fill_journal 79
	one_free
	REVDEDUP_FAIL=journal-appended=kill run -137 "${ctl[@]}" tag v@1 +gold
	[ "$(ask "SELECT count(*) FROM journal_frame")" = 2 ]
	for _ in 1 2; do
		run -12 "${ctl[@]}" tag v@1 +silver
		[[ $output == *"no frame is free"* ]]
	done
	all_right
	edit "INSERT INTO extent SELECT min(frame), 1 FROM kept"
	edit "DELETE FROM kept WHERE frame = (SELECT start FROM extent)"
	must tag v@1 +silver
	must show v@gold
	must show v@silver
	all_right
	[ "$(ask "SELECT count(*) FROM session")" = 0 ]
}

# Frames that have slots in use wait for room to move these; whole ones behind them are that room.
@test "a device with no room but in what the queue has" {
	local nr left fail odd=()
	loop_device data.img 160
	must init --compression none pool --data "$loop" --pieces 1 --reserve 1M
	fill_image v 8
	try_snapshot v
	# What each version has alone is packed with that of the next ones.
	for nr in {1..17}; do
		change_ninths $((nr % 9))
		[ $((nr % 2)) = 0 ] || odd+=("v@$nr")
	done
	fill_image w 8
	try_snapshot w
	# No room to move anything.
	fail=$(printf "compact-write=ENOSPC,%.0s" {1..99})
	REVDEDUP_FAIL=${fail%,} must delete "${odd[@]}"
	rm "${odd[@]/#/want/}"
	[ "$(ask "SELECT count(*) FROM queue")" -ge 4 ]
	left=$(ask "SELECT sum(len) FROM extent")
	REVDEDUP_FAIL=${fail%,} lose w@1 delete w@1
	[ "$(ask "SELECT sum(len) FROM extent")" -gt "$left" ]
	all_right
}

# It is full of something else, but for so many KiB. ROOMS="N..." says which.
each_room() {
	local room rooms=(0 96 600)
	[ -z "${SOAK:-}" ] || rooms=(0 40 96 136 600)
	for room in ${ROOMS:-"${rooms[@]}"}; do
		echo "# $room KiB"
		fill_image vol0 6
		leave "$room"
		try_snapshot vol0
		[ "$room" -gt 0 ] || [ "$status" -eq 12 ] || fail_test "there was room" || return
		all_right || return
		lose "$(oldest)" delete "$(oldest)" || return
		all_right || return
		rm -f fs/ballast fs/more
		fill_image vol0 6
		try_snapshot vol0
		[ "$status" -eq 0 ] || fail_test "no room when there is: $output" || return
		all_right || return
	done
}

@test "a file system that is full of something else" {
	local nr
	small_fs 128
	must init --compression none "$REVDEDUP_POOL" --size 1G --reserve 4M
	for nr in 1 2 3 4 5; do
		fill_image "vol$nr" 6
		try_snapshot "vol$nr"
	done
	each_room
}

# What an older program has packed stays to be found, whether there is room for new tables or not.
@test "a pool of an older program, on a file system that is full" {
	local room rooms=(0 160 600) nr texts=true
	[ -z "${SOAK:-}" ] || rooms=(0 96 140 160 200 300 600)
	small_fs 64
	must init "$REVDEDUP_POOL" --size 1G --reserve 4M --compression zstd
	for nr in 1 2; do
		fill_image vol0 4
		try_snapshot vol0
	done
	old_catalog fs/pool
	cp -r --sparse=always fs/pool was
	for room in "${rooms[@]}"; do
		echo "# $room KiB"
		rm -rf fs/pool fs/ballast
		cp -r --sparse=always was fs/pool
		# With its reserve.
		rm fs/pool/reserve
		fallocate -l 4M fs/pool/reserve
		cp "want/vol0@2" img/vol0
		echo more >>img/vol0
		leave "$room"
		must restore vol0@1 --to back --yes
		cmp back want/vol0@1
		try_snapshot vol0
		[ "$room" -gt 0 ] || [ "$status" -eq 12 ] || fail_test "there was room"
		all_right
		cp want/vol0@1 kept
		lose vol0@1 delete vol0@1
		all_right
		mv kept want/vol0@1
		rm -f want/vol0@3
	done
}

# bats test_tags=soak
@test "a file system with small blocks that is full of something else" {
	small_fs 128 1024
	must init --compression none "$REVDEDUP_POOL" --size 1G --reserve 4M
	fill_image vol1 6
	try_snapshot vol1
	each_room
}

@test "the catalog's file system is full, and the device is not" {
	local nr
	small_fs 32
	loop_device data.img 200
	must init --compression none "$REVDEDUP_POOL" --data "$loop" --reserve 4M
	for nr in 1 2 3 4 5; do
		fill_image "vol$nr" 6
		try_snapshot "vol$nr"
	done
	each_room
}

# small_btrfs MIB: in fs/. It writes nothing in place.
small_btrfs() {
	loop_device fs.img "$1"
	mkfs.btrfs -q -f "$loop" 2>out/mkfs
	mkdir fs
	mount "$loop" fs
	mounts=("$PWD/fs")
	export REVDEDUP_POOL=$PWD/fs/pool
}

# fill_btrfs: until there is no room for a byte.
fill_btrfs() {
	cat /dev/zero >fs/ballast 2>/dev/null || :
	sync -f fs
	cat /dev/zero >>fs/ballast 2>/dev/null || :
	sync -f fs
}

# reads_work: all that reads does so.
reads_work() {
	local verb
	for verb in list stats "show vol1@1" "list --json" metrics check scrub; do
		# shellcheck disable=SC2086 # words
		must $verb || return
	done
	must restore vol1@1 --to out/restored --yes
	cmp out/restored want/vol1@1
	all_right
}

@test "a btrfs that is full" {
	local nr pid
	small_btrfs 256
	must init --compression none "$REVDEDUP_POOL"
	fill_image vol1 24
	try_snapshot vol1
	[ "$status" -eq 0 ]
	fill_btrfs
	reads_work || fail_test "without a log"
	# Two that read at the same time, and one of them for long.
	"${ctl[@]}" dump vol1@1 2>out/errors | (
		head -c 1M
		until [ -e listed ]; do sleep 0.1; done
		cat
	) >out/dump &
	pid=$!
	must list
	must check
	touch listed
	wait "$pid"
	cmp out/dump want/vol1@1 || fail_test "$(cat out/errors)"
	# What does not find room says so, and is no harm.
	for nr in 1 2 3; do
		fill_image vol2 6
		try_snapshot vol2
		[ "$status" -eq 12 ] || fail_test "there was room"
		rm -f want/vol2*
	done
	reads_work || fail_test "after a snapshot"
	# A log that was left, by what did not end.
	rm fs/ballast
	sync -f fs
	REVDEDUP_FAIL=snapshot-finish=kill run "${ctl[@]}" snapshot vol3 --from img/vol2
	[ -s fs/pool/catalog.db-wal ]
	fill_btrfs
	reads_work || fail_test "with a log"
	lose vol1@1 delete vol1@1
	rm fs/ballast
	try_snapshot vol2
	[ "$status" -eq 0 ]
	all_right
}

# An XFS that is full has no room for an inode either, when all that it has made are in use.
@test "an XFS that is full" {
	local nr
	loop_device fs.img 320
	mkfs.xfs -q -f "$loop" 2>out/mkfs
	mkdir fs
	mount "$loop" fs
	mounts=("$PWD/fs")
	export REVDEDUP_POOL=$PWD/fs/pool
	must init --compression none "$REVDEDUP_POOL" --size 1G --reserve 4M
	fill_image vol1 24
	try_snapshot vol1
	[ "$status" -eq 0 ]
	mkdir fs/more
	cat /dev/zero >fs/ballast 2>/dev/null || :
	sync -f fs
	for ((nr = 0; nr < 10000; nr++)); do
		{ : >"fs/more/$nr"; } 2>/dev/null || break
	done
	[ "$nr" -lt 10000 ]
	reads_work
	# Again, of what the first command has left.
	reads_work
	fill_image vol2 6
	try_snapshot vol2
	[ "$status" -eq 12 ]
	rm -f want/vol2*
	reads_work || fail_test "after a snapshot"
	lose vol1@1 delete vol1@1
	all_right
	rm -r fs/more fs/ballast
	try_snapshot vol2
	[ "$status" -eq 0 ]
	all_right
}

# The catalog's file system becomes full while commands use it.
@test "a btrfs that becomes full" {
	local nr filler
	small_btrfs 256
	must init --compression none "$REVDEDUP_POOL" --size 1G
	fill_image vol1 8
	try_snapshot vol1
	[ "$status" -eq 0 ]
	# A btrfs that is full refuses to make the file or to delete it, too.
	python3 -c 'import os
while True:
    try:
        with open("fs/ballast", "wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
    except OSError:
        os.sync()
    try:
        os.unlink("fs/ballast")
    except OSError:
        os.sync()' 2>/dev/null 3>&- &
	filler=$!
	for nr in {1..40}; do
		fill_image vol2 1
		run "${ctl[@]}" snapshot vol2 --from img/vol2
		[ "$status" -eq 0 ] || [ "$status" -eq 12 ] || break
		run "${ctl[@]}" list
		[ "$status" -eq 0 ] || break
	done
	kill "$filler"
	wait "$filler" || :
	[ "$status" -eq 0 ] || fail_test "round $nr: $status, $output"
	# A full btrfs can refuse that, too.
	for nr in {1..100}; do
		! rm -f fs/ballast || break
		sync -f fs
	done
	is_right vol1@1
	must check
	must scrub
}

# A log with a header and nothing else, left by what was killed there. On btrfs a reader makes
# its own index of the log.
@test "a log on a btrfs that has only begun" {
	small_btrfs 256
	must init --compression none "$REVDEDUP_POOL" --size 1G
	fill_image vol1 8
	try_snapshot vol1
	[ "$status" -eq 0 ]
	fill_image vol2 1
	REVDEDUP_FAIL=catalog-sync=kill run "${ctl[@]}" snapshot vol2 --from img/vol2
	[ "$(stat -c %s fs/pool/catalog.db-wal)" -eq 32 ]
	reads_work
}

# For the log, the database, and the map of its pages: "full" is what the command ends with,
# also where SQLite only knows that a COMMIT failed. Where the flush is what failed, the
# version may be there all the same, as after a crash.
@test "no room at any step of the catalog" {
	local point nr full
	must init --compression none pool --size 1G --reserve 1M
	fill_image vol1 1
	try_snapshot vol1
	[ "$status" -eq 0 ]
	for point in catalog-sync pages-begun pages-sync pages-write; do
		full=0
		for ((nr = 1; nr < 200; nr++)); do
			rm -f log
			fill_image vol2 1
			REVDEDUP_FAIL=$point:$nr=ENOSPC REVDEDUP_FAIL_LOG=$PWD/log \
				run "${ctl[@]}" snapshot vol2 --from img/vol2
			grep -q "^!" log || break
			[ "$status" -eq 0 ] || [ "$status" -eq 12 ] ||
				fail_test "$point:$nr: $status, $output"
			full=$((full + (status == 12)))
			must check
		done
		[ "$full" -gt 0 ] || fail_test "$point: never full"
		[ "$nr" -lt 200 ] || fail_test "$point: it never ends"
	done
	is_right vol1@1
	must scrub
}
