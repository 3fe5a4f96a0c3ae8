#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Two commands that meet at one step, where it takes a certain disk for them to get into
# each other's way: one is stopped there (SIGSTOP), the other runs to its end, and the first
# one goes on. stops.bats stops commands at all steps, with disks that are made at random.

# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
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
	basenc --base16 /dev/urandom | head -c $((4096 * $3)) |
		dd of="img/$1" bs=4096 seek="$2" iflag=fullblock conv=notrunc status=none
}

# next_of FROM TO: an image that begins as another one.
next_of() { cp --sparse=always "img/$1" "img/$2"; }

# snapshot VOLUME IMAGE N [OPTION]...: it becomes VOLUME@N.
snapshot() {
	must snapshot "$1" --from "img/$2" "${@:4}"
	cp --sparse=always "img/$2" "want/$1@$3"
}

# stop_in STEP COMMAND...: which comes there.
stop_in() {
	stopped="'${*:2}' stopped at $1"
	stop_at "$@"
	grep -q "State:.*stopped" "/proc/$pid/status" ||
		fail_test "was not $stopped: $(cat out/stopped)"
}

# three: vm1@1 to vm1@3, each of another block.
three() {
	local nr
	must init --compression none pool --size 512M --reserve 1M
	for nr in 1 2 3; do
		blocks "$nr" "$nr" 1
		snapshot vm1 "$nr" "$nr"
	done
}

# went_on STATUS LINE: what was stopped goes on, and ends with that, and this line of output.
went_on() {
	local status=0
	kill -CONT "$pid"
	wait "$pid" || status=$?
	pid=
	[ "$status" -eq "$1" ] || fail_test "$stopped: status $status: $(cat out/stopped)"
	grep -qFx "$2" out/stopped || fail_test "$stopped: $(cat out/stopped)"
}

@test "a version that is protected just before it is deleted stays" {
	three
	# The last step before the version is ended.
	stop_in catalog-begin:2 delete vm1@3
	must protect vm1@3
	went_on 1 "revdedupctl: vm1@3 is protected"
	grep -q "to allow it: 'revdedupctl unprotect vm1@3'" out/stopped
	all_right
	stop_in catalog-begin:2 prune --keep-last 1
	must protect vm1@1
	went_on 0 "revdedupctl: warning: vm1@1 was skipped: it was protected meanwhile"
	rm want/vm1@2
	all_right
}

@test "prune leaves what was tagged since it began" {
	three
	stop_in delete-rows prune --keep-last 1 --keep-tag gold --json
	must tag vm1@2 +gold
	went_on 0 '{"type": "skipped", "version": "vm1@2"}'
	rm want/vm1@1
	all_right
	must tag vm1@2 +silver -gold
	# Also just before it is ended.
	stop_in catalog-begin:2 prune --keep-last 1 --keep-tag gold
	must tag vm1@2 +gold
	went_on 0 "revdedupctl: warning: vm1@2 was skipped: it was tagged meanwhile"
	all_right
	must tag vm1@2 -gold
	must prune --keep-last 1 --keep-tag gold
	rm want/vm1@2
	all_right
}

@test "slots that are queued while others of their frame are given back" {
	must init --compression none pool --size 512M --reserve 1M
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
	must init --compression none pool --size 512M --reserve 1M
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
	must init --compression none pool --data "$disk" --reserve 1M
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

# A pack goes out of a frame that lives, so that no device was asked whether it reads the pack; and
# the next command goes on in that frame.
@test "a command that fails discards nothing of a device that it has not written" {
	local at
	[ "$(id -u)" -eq 0 ] || skip "needs root, for loop devices"
	truncate -s 256M disk.bin
	disk=$(losetup --find --show disk.bin)
	must init --compression zstd --pieces 1 --dedup reverse pool --data "$disk" --reserve 1M
	# So many that compaction leaves the frame alone.
	for at in {0..13}; do
		texts 1 $((at * 512)) 60
	done
	snapshot vm1 1 1
	texts 1 0 1
	snapshot vm1 1 2
	[ "$(ask 'SELECT COUNT(*) FROM tail')" -gt 0 ]
	texts 3 0 60
	dd if="$disk" of=before bs=1M iflag=direct status=none
	run env REVDEDUP_FAIL=snapshot-finish=EIO "${ctl[@]}" snapshot vm2 --from img/3
	[ "$status" -ne 0 ] || fail_test "it did not fail"
	dd if="$disk" of=after bs=1M iflag=direct status=none
	python3 -c 'before, after = (open(name, "rb").read() for name in ("before", "after"))
gone = [at for at in range(0, len(before), 4096)
        if any(before[at:at + 4096]) and not any(after[at:at + 4096])]
if gone:
    raise SystemExit(f"{len(gone)} blocks are zeros now, the first at {gone[0]}")' ||
		fail_test "$output"
	all_right
	must scrub
}

@test "a snapshot of a stream that lost what it had found ends, for it cannot read it again" {
	must init --compression none pool --size 512M --reserve 1M
	blocks 1 100 300
	blocks 2 100 300
	snapshot vm1 1 1
	snapshot vm1 2 2
	truncate -s 2M img/1
	stop_in snapshot-hit snapshot vm2 --from - --size 2M < <(cat img/1)
	must delete vm1@1
	rm want/vm1@1
	kill -CONT "$pid"
	wait "$pid" && fail_test "$stopped: it went on"
	pid=
	grep -q "cannot be read twice" out/stopped || fail_test "$(cat out/stopped)"
	all_right
}

@test "a place that the index gave has other content when it is looked at again" {
	must init --compression none pool --size 512M --reserve 1M --pieces 64 --dedup inline
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
	must init --compression none pool --size 512M --reserve 1M
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

# spoil: a bit of the block 7 of img/a, in the pool.
spoil() {
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

# prepare_repair: a@1 has a block that is damaged, of which b@1 has a copy. Of each segment of a
# NR blocks from FIRST on are written.
prepare_repair() {
	local seg first=${1:-7} nr=${2:-1}
	must init --compression none pool --size 512M --reserve 1M
	# So many that what comes next goes into the same frames.
	for ((seg = 0; seg < 70; seg++)); do
		blocks a $((seg * 512 + first)) "$nr"
	done
	blocks b 0 512
	dd if=img/a of=img/b bs=4096 skip=7 count=1 conv=notrunc status=none
	must snapshot a --from img/a
	snapshot b b 1
	spoil
}

# stop_repair: it has read the copy, and is about to write.
stop_repair() {
	local step
	cp -r --sparse=always pool damaged
	log_steps repair
	step=$(awk '$1 == "heal-write" { print at } $1 == "area-read" { at = NR }' log)
	rm -r pool
	mv damaged pool
	stop_in "any:$step" repair
}

@test "repair of a block whose place has become that of another" {
	prepare_repair
	blocks c 0 512
	stop_repair
	must delete a@1
	snapshot c c 1
	go_on
	all_right
	must scrub
}

# What it had found was of the version that is deleted meanwhile; an older one has the block, too.
@test "repair of a block whose place another recipe has got" {
	must init --compression none pool --size 512M --reserve 1M
	blocks a 0 512
	snapshot a a 1
	# Of the older version one block is REF.
	blocks a 9 503
	snapshot a a 2
	blocks b 0 512
	dd if=img/a of=img/b bs=4096 skip=7 count=1 conv=notrunc status=none
	snapshot b b 1
	spoil
	stop_repair
	must delete a@2
	rm want/a@2
	kill -CONT "$pid"
	wait "$pid" && fail_test "it says that all is well: $(cat out/stopped)"
	pid=
	must repair
	must scrub
	all_right
}

@test "a damaged version that is deleted while a repair looks for it is not lost" {
	prepare_repair
	stop_in damage-examine repair
	must delete a@1
	go_on
	! grep "is damaged" out/stopped || false
	must scrub
	all_right
}

@test "repair beside fingerprints that cannot be read for a moment" {
	local step
	prepare_repair 5 9
	cp -r --sparse=always pool damaged
	log_steps repair
	step=$(awk '$1 == "heal-write" { at = NR } at && $1 == "area-read" { print NR; exit }' log)
	[ -n "$step" ] || fail_test "repair reads no fingerprints"
	rm -r pool
	mv damaged pool
	REVDEDUP_FAIL=any:$step=EIO must repair
	must scrub
	must restore a@1 --to back
	cmp img/a back
}

@test "repair of a frame that a snapshot fills" {
	local frame step
	must init pool --size 512M --reserve 1M --pieces 64 --dedup reverse --compression none
	blocks a 0 512
	blocks b 0 512
	snapshot a a 1
	snapshot b b 1
	blocks a 3 40
	snapshot a a 2
	# The frame has room, and a fingerprint that is wrong.
	frame=$(ask "SELECT frame FROM tail")
	[ -n "$frame" ] || fail_test "no frame has room"
	[ "$frame" -lt 255 ]
	printf wrong | dd of=pool/data bs=1 seek=$(((2 << 20) + frame * 8192 + 5 * 16)) \
		conv=notrunc status=none
	blocks b 100 40
	cp -r --sparse=always pool damaged
	log_steps snapshot b --from img/b
	# It has read the fingerprints, and is about to write them.
	step=$(awk '$1 == "write" { print NR; exit }' log)
	rm -r pool
	mv damaged pool
	stop_in "any:$step" snapshot b --from img/b
	run "${ctl[@]}" repair
	[ "$status" -eq 4 ] || fail_test "repair: $status, $output"
	[[ $output == *"where another command writes beside them"* ]] || fail_test "$output"
	go_on
	took b out/stopped
	# Nor may one begin to while repair writes them.
	[ "$(ask "SELECT count(*) FROM tail WHERE frame = $frame")" = 1 ]
	must repair
	[ "$(ask "SELECT count(*) FROM tail WHERE frame = $frame")" = 0 ]
	must scrub
	all_right
}

# --- pieces and inline deduplication

# inline_pool: one that looks for blocks everywhere.
inline_pool() { must init --compression none pool --size 512M --reserve 1M --pieces 64 --dedup inline; }

# parts FROM FIRST TO AT NR: put these blocks of an image into another one.
parts() {
	dd if="img/$1" of="img/$3" bs=4096 skip="$2" seek="$4" count="$5" conv=notrunc status=none
}

# has_blocks NR: so many are stored, each once.
has_blocks() {
	local nr
	nr=$(ask "SELECT sum(n) FROM slot_owner WHERE recipe > 0")
	[ "$nr" = "$1" ] || fail_test "$nr blocks are stored, and not $1"
}

# newest_own: newest versions have all that is theirs themselves, or in one another.
newest_own() {
	local nr
	nr=$(ask "SELECT count(*) FROM recipe_ref JOIN uses AS s ON s.recipe = source
		JOIN uses AS t ON t.recipe = target WHERE s.latest_refs > 0 AND t.latest_refs = 0")
	[ "$nr" = 0 ] || fail_test "newest versions refer $nr times to old ones"
}

# maps: prints all recipes as they are, and where each of their blocks is.
maps() {
	ask "SELECT id, hex(fp), frame, hex(map), refs, latest_refs, pieces FROM recipe
		JOIN uses ON recipe = id ORDER BY id"
}

@test "what was found is superseded before it is committed: it is adopted" {
	inline_pool
	blocks 1 0 512
	blocks 3 0 512
	truncate -s 2M img/2
	parts 1 100 2 50 300
	snapshot vm1 1 1
	stop_in snapshot-batch snapshot vm2 --from img/2
	snapshot vm1 3 2
	cp --sparse=always img/2 want/vm2@1
	go_on
	has_blocks 1024
	newest_own
	[ "$(ask "SELECT sum(n) FROM recipe_ref")" = 300 ]
	all_right
	must delete vm1@1
	rm want/vm1@1
	has_blocks 812
	all_right
	must scrub
}

# What is new of vm1 has it as well: the old recipe gives the blocks up, and the place is free.
@test "what was found has moved to another place before it is committed" {
	inline_pool
	blocks 1 0 512
	blocks 3 0 512
	truncate -s 2M img/2
	parts 1 100 2 50 300
	parts 1 100 3 7 300
	snapshot vm1 1 1
	stop_in snapshot-batch snapshot vm2 --from img/2
	snapshot vm1 3 2 --pieces 1
	cp --sparse=always img/2 want/vm2@1
	go_on
	has_blocks $((512 + 212 + 300))
	newest_own
	all_right
	must scrub
}

@test "two volumes adopt what only an old version has, at once" {
	local reverse
	inline_pool
	blocks 1 0 512
	blocks 2 0 512
	for reverse in 3 4; do
		truncate -s 2M "img/$reverse"
		parts 1 100 "$reverse" $((reverse * 20)) 300
	done
	snapshot vm1 1 1
	snapshot vm1 2 2
	stop_in snapshot-batch snapshot vm2 --from img/3
	snapshot vm3 4 1
	cp --sparse=always img/3 want/vm2@1
	go_on
	# One has the place, and the two others refer to it.
	has_blocks 1024
	[ "$(ask "SELECT sum(n) FROM recipe_ref")" = 600 ]
	[ "$(ask "SELECT count(DISTINCT target) FROM recipe_ref")" = 1 ]
	newest_own
	all_right
	must delete vm3@1
	rm want/vm3@1
	has_blocks 1024
	newest_own
	all_right
	must delete vm1@1
	must delete vm2@1
	rm want/vm1@1 want/vm2@1
	has_blocks 512
	all_right
}

# The first version of vm1 has 64 blocks alone then, in a frame that is else empty.
@test "blocks that are adopted, and whose swap is interrupted, while they are moved" {
	local at
	inline_pool
	blocks 1 0 512
	next_of 1 2
	truncate -s 2M img/3
	# Zeros between them do not end a run.
	for ((at = 0; at < 512; at += 8)); do
		blocks 2 "$at" 1
		parts 1 "$at" 3 $((at + 5)) 1
	done
	next_of 3 4
	blocks 4 300 2
	snapshot vm1 1 1
	stop_in compact-commit snapshot vm1 --from img/2 --pieces 1
	snapshot vm2 3 1
	has_blocks 576
	REVDEDUP_FAIL=swap=kill run -137 "${ctl[@]}" snapshot vm2 --from img/4
	cp --sparse=always img/2 want/vm1@2
	cp --sparse=always img/4 want/vm2@2
	all_right
	[ "$(ask "SELECT count(*) FROM superseded")" = 1 ]
	go_on
	must tag vm2@2 +done
	[ "$(ask "SELECT count(*) FROM superseded")" = 0 ]
	has_blocks 578
	newest_own
	all_right
	must scrub
	for at in 1 2; do
		must delete "vm$at@1"
		rm "want/vm$at@1"
		all_right
	done
}

@test "a version in pieces is announced before it is committed" {
	local copy
	must init --compression none pool --size 512M --reserve 1M
	blocks 1 0 512
	next_of 1 2
	blocks 2 100 3
	snapshot vm1 1 1
	stop_in snapshot-batch snapshot vm1 --from img/2 --pieces 8
	for copy in 0 256; do
		# Incompatible features, bit 1.
		[ $(($(od -An -t u1 -N 1 -j $((copy * 4096 + 80)) pool/data) & 2)) = 2 ] ||
			fail_test "copy $copy of the superblock does not say it"
	done
	cp --sparse=always img/2 want/vm1@2
	go_on
	[ "$(ask "SELECT max(pieces) > 1 FROM uses WHERE latest_refs > 0")" = 1 ]
	all_right
}

# in_two_batches: vm1@3 is to be img/3, which takes two batches: blocks of vm1@2, some that
# only vm1@1 has, and some in each of more segments than a batch has in part.
in_two_batches() {
	must init --compression none pool --size 16G --reserve 1M --pieces 64 --dedup inline
	blocks 1 0 1024
	next_of 1 2
	blocks 2 0 512
	next_of 2 3
	blocks 3 700 2
	parts 1 100 3 50 200
	python3 -c 'import os
with open("img/3", "r+b") as image:
    image.truncate(300 << 21)
    for segment in range(2, 300):
        image.seek((segment << 21) + 4096 * (segment % 512))
        image.write(os.urandom(4096))'
	snapshot vm1 1 1
	snapshot vm1 2 2
}

@test "a snapshot that fails has adopted, and refers to the version before" {
	local before action
	in_two_batches
	before=$(maps)
	keep_base
	for action in kill ENOSPC EIO; do
		from_base
		REVDEDUP_FAIL=snapshot-batch:2=$action run "${ctl[@]}" snapshot vm1 --from img/3
		[ "$status" -ne 0 ]
		if [ "$action" = kill ]; then
			# The first batch is there.
			[ "$(ask "SELECT count(*) BETWEEN 250 AND 290 FROM recipe")" = 1 ]
			[ "$(ask "SELECT sum(n) FROM recipe_ref WHERE source = 1")" = 200 ]
			all_right
		fi
		must tag vm1@2 +done
		diff <(maps) <(echo "$before") || fail_test "$action: > were there"
		has_blocks 1536
		all_right
	done
	must scrub
	# There is room for a part of it, no more.
	from_base
	snapshot vm1 3 3
	all_right
	newest_own
}

@test "the same blocks on both sides of the end of a batch" {
	local stored
	must init --compression none pool --size 16G --reserve 1M --pieces 64 --dedup inline
	# 600 equal blocks, 30 in each of 20 segments. A batch has 256 segments in part, and 8 of
	# these go into the same one as the last 248 before them.
	python3 -c 'import os
same = os.urandom(4096)
with open("img/1", "wb") as image:
    image.truncate(2060 << 21)
    for segment in range(2060):
        image.seek((segment << 21) + 4096 * (segment % 400))
        image.write(os.urandom(4096) + (30 * same if segment >= 2040 else b""))'
	snapshot vm1 1 1
	all_right
	snapshot vm2 1 1
	# Whole segments are those of vm1.
	has_blocks "$(ask "SELECT sum(n) FROM slot_owner")"
	stored=$(ask "SELECT sum(n) FROM slot_owner")
	[ "$stored" -le $((2060 + 600)) ]
	newest_own
	all_right
	must delete vm1@1
	rm want/vm1@1
	[ "$(ask "SELECT sum(n) FROM slot_owner")" = "$stored" ]
	all_right
	must scrub
}

# --- the index

@test "a command that is killed while it writes the index" {
	local step nr steps kills=0
	inline_pool
	blocks 1 0 512
	# Four runs of a size are merged.
	for nr in 1 2 3; do
		snapshot "vm$nr" 1 1
		blocks 1 0 512
	done
	keep_base
	log_steps snapshot vm4 --from img/1
	steps=$(grep -n '^index-' log | cut -d : -f 1)
	# It is written, and merged with the others.
	for step in index-begin index-write index-flush index-rename index-merge; do
		grep -qx "$step" log || fail_test "does not come to $step"
	done
	truncate -s 2M img/2
	parts 1 30 2 77 400
	for step in $steps; do
		from_base
		REVDEDUP_FAIL=any:$step=kill run -137 "${ctl[@]}" snapshot vm4 --from img/1
		kills=$((kills + 1))
		# Where the version is there, the index may lack it.
		[ "$(ask "SELECT count(*) FROM version WHERE state > 0")" = 3 ] ||
			cp --sparse=always img/1 want/vm4@1
		all_right
		snapshot vm5 2 1
		! grep "the index" out/must || fail_test "killed at step $step: says so"
		! compgen -G "pool/index/*.new" || fail_test "killed at step $step: a file is left"
		newest_own
		all_right
	done
	[ "$kills" -ge 5 ]
	must scrub
}

@test "a command that is killed while it makes the index" {
	local step steps
	must init --compression none pool --size 512M --reserve 1M --pieces 64 --dedup reverse
	blocks 1 0 512
	snapshot vm1 1 1
	truncate -s 2M img/2
	parts 1 30 2 77 400
	keep_base
	log_steps snapshot vm2 --from img/2 --dedup inline
	steps=$(grep -n '^index-' log | cut -d : -f 1)
	for step in $steps; do
		from_base
		REVDEDUP_FAIL=any:$step=kill run -137 "${ctl[@]}" snapshot vm2 --from img/2 \
			--dedup inline
		must tag vm1@1 +done
		[ "$(ask "SELECT count(*) FROM version")" = 1 ] || cp --sparse=always img/2 want/vm2@1
		must snapshot vm3 --from img/2 --dedup inline
		cp --sparse=always img/2 want/vm3@1
		# Whatever became of it, all is found.
		has_blocks 512
		all_right
	done
	[ -n "$steps" ]
}

@test "fingerprints that cannot be read at once are read frame by frame for the index" {
	must init --compression none pool --size 512M --reserve 1M --pieces 64 --dedup reverse
	blocks 1 0 512
	snapshot vm1 1 1
	truncate -s 2M img/2
	parts 1 30 2 77 400
	# The first read is that of fingerprints.
	REVDEDUP_FAIL=read:1=EIO must snapshot vm2 --from img/2 --dedup inline
	cp --sparse=always img/2 want/vm2@1
	has_blocks 512
	all_right
}

@test "an index that knows what the pool does not have yet" {
	inline_pool
	blocks 1 0 512
	blocks 3 0 512
	truncate -s 2M img/2
	parts 1 30 2 77 400
	snapshot vm1 3 1
	keep_base
	snapshot vm2 1 1
	mv pool/index later
	from_base
	rm -r pool/index
	mv later pool/index
	# In the place of what the index knows comes something else.
	blocks 4 0 512
	snapshot vm3 4 1
	snapshot vm4 2 1
	has_blocks $((512 + 512 + 400))
	all_right
	must scrub
}

@test "there is no room for the index" {
	local step nr
	inline_pool
	blocks 1 0 512
	for nr in 1 2 3; do
		snapshot "vm$nr" 1 1
		blocks 1 0 512
	done
	truncate -s 2M img/2
	parts 1 30 2 77 400
	keep_base
	for step in index-begin index-write index-flush index-rename index-merge; do
		from_base
		REVDEDUP_FAIL=$step=ENOSPC must snapshot vm4 --from img/1
		cp --sparse=always img/1 want/vm4@1
		[ "$step" = index-merge ] ||
			[ "$(grep -c "write the index.*No space left on device" out/must)" = 1 ] ||
			fail_test "$step: $(cat out/must)"
		all_right
		must snapshot vm5 --from img/2
		cp --sparse=always img/2 want/vm5@1
		! grep -q "the index" out/must || fail_test "$step: $(cat out/must)"
		all_right
	done
	# While it is made anew: then the next one makes it.
	rm -r pool/index
	REVDEDUP_FAIL=index-begin=ENOSPC must snapshot vm6 --from img/2
	cp --sparse=always img/2 want/vm6@1
	all_right
	must delete vm4@1
	rm want/vm4@1
	must snapshot vm7 --from img/1
	cp --sparse=always img/1 want/vm7@1
	all_right
	must scrub
}
