#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Files of a pool that are whole, but from different moments: a page or a log of the catalog
# from before, a catalog or a data area that was put back alone, rows of another version.
# revdedupctl restores a version right, or not at all; it overwrites nothing that can still
# be had; and it names a way out.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

load damage

# right_or_refused: each version that a restore ends well for is the one it is called.
right_or_refused() {
	local volume image nr status
	for image in vm?.?.img; do
		volume=${image%%.*} nr=${image#*.} nr=${nr%.img}
		status=0
		"$CTL" -q restore "$volume@$nr" --to back --yes 2>errors || status=$?
		if [ "$status" -eq 0 ]; then
			cmp "$image" back
		fi
		rm -f back
	done
}

# refuses_all WORDS: no command that reads a version or writes ends well, for that reason.
refuses_all() {
	local verb
	for verb in "restore vm1@2 --to back" "snapshot vm1 --from vm1.1.img" \
		"delete vm2@1" prune\ --keep-last\ 1 scrub repair; do
		# shellcheck disable=SC2086 # words
		run "$CTL" $verb
		[ "$status" -ne 0 ] || { echo "status 0: $verb"; return 1; }
		[[ $output == *"$1"* ]] || { echo "$verb: $output"; return 1; }
	done
	[ ! -e back ]
}

# next_version: vm1@4, of vm1.4.img.
next_version() {
	cp vm1.3.img vm1.4.img
	dd if=/dev/urandom of=vm1.4.img bs=4096 seek=33 count=7 conv=notrunc status=none
	is 0 snapshot vm1 --from vm1.4.img
}

edit() { "$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db "$@"; }

# --- the catalog's files

@test "a pool that is put back beside the log of what was there" {
	cp -r --sparse=always pool mirror
	cp vm2.2.img gone.img
	leave_log
	cp mirror/catalog.db{,-pages} mirror/data pool
	before=$(cat pool/data pool/catalog.db | md5sum)
	refuses_all "catalog.db-wal' is the log of another catalog"
	[ "$(cat pool/data pool/catalog.db | md5sum)" = "$before" ]
	# As the message says.
	mv pool/catalog.db-wal moved
	mv gone.img vm2.2.img
	rm vm2.3.img
	is_whole
}

@test "a catalog that is put back without its page map" {
	keep_catalog
	is 0 tag vm1@1 +x
	is 0 delete vm2@1
	rm vm2.1.img
	cp kept/catalog.db pool
	refuses_all "is not the one that was last written there"
	is 0 repair --rebuild-catalog
	[[ $output == *"is kept as catalog.old"* ]]
	is 0 check
	right_or_refused
	rm pool/catalog.db-pages
	run "$CTL" list
	[ "$status" -ne 0 ]
	[[ $output == *"catalog.db-pages"*"--rebuild-catalog"* ]]
	is 0 repair --rebuild-catalog
	[[ $output == *"kept for 'catalog.old'"*"are given back"* ]]
	is 0 check
}

# The disk said that it had written, and had not: each page that the last version changed, or,
# but in soak, some of them.
@test "a page of the catalog that was not written" {
	keep_catalog
	next_version
	rm -rf whole
	cp -r --sparse=always pool whole
	pages=$(($(stat -c %s kept/catalog.db) / 4096)) tried=0
	for ((page = 0; page < pages; page++)); do
		cmp -s -n 4096 -i $((page * 4096)) kept/catalog.db whole/catalog.db && continue
		tried=$((tried + 1))
		[ -n "${SOAK:-}" ] || [ $((tried % 3)) -eq 1 ] || continue
		rm -rf pool
		cp -r --sparse=always whole pool
		dd if=kept/catalog.db of=pool/catalog.db bs=4096 skip=$page seek=$page count=1 \
			conv=notrunc status=none
		is 4 check
		[[ $output == *"page $((page + 1)) of the catalog"* ]]
		run "$CTL" scrub
		[ "$status" -eq 4 ]
		run "$CTL" repair
		[ "$status" -eq 4 ]
		right_or_refused
		# A version more, or none: nothing is written over.
		run "$CTL" snapshot vm3 --from vm2.1.img
		is 0 repair --rebuild-catalog
		is 0 check
		right_or_refused
		is 0 restore vm1@4 --to back
		cmp vm1.4.img back
		rm back
	done
	[ "$tried" -gt 3 ]
}

@test "a bit of the page map" {
	for ((round = 0; round < 4 * ROUNDS; round++)); do
		fresh
		# Of its head, or of an entry.
		python3 -c 'import os, random, sys
path, seed, of_head = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
pages = bytearray(open(path, "rb").read())
random.seed(seed)
pages[random.randrange(64) if of_head else random.randrange(4096, len(pages))] ^= 16
open(path, "wb").write(pages)' pool/catalog.db-pages $((SEED + round)) $((round % 2))
		is 4 check
		run "$CTL" snapshot vm3 --from vm2.1.img
		right_or_refused
		is 0 repair --rebuild-catalog
		is 0 check
	done
}

# --- rows that are whole, and another version's

@test "a version that the catalog names other segments for" {
	before=$(md5sum <vm1.3.img)
	# The newest version sees what the first one had.
	edit "DELETE FROM segment WHERE born = 3 AND volume = (SELECT id FROM volume WHERE name = 'vm1')"
	cp vm1.3.img target
	for verb in "restore vm1@3 --to target --yes" "restore vm1@3 --to back" "dump vm1@3" \
		"diff vm1@2 vm1@3" "diff vm1@3 vm1@1" "scrub vm1@3" "scrub vm1" scrub repair check; do
		# shellcheck disable=SC2086 # words
		run bash -c '"$CTL" "$@" >said 2>&1' - $verb
		[ "$status" -eq 4 ] || { echo "$verb: $status"; cat said; false; }
		grep -q "vm1@3" said || { echo "$verb"; cat said; false; }
	done
	[ "$(md5sum <target)" = "$before" ]
	[ ! -e back ]
	is 0 restore vm1@1 --to back
	cmp vm1.1.img back
	is 0 repair --rebuild-catalog
	is_whole
}

@test "a version that has its segments in another order" {
	sum=$(python3 -c 'import sqlite3
print(*sqlite3.connect("pool/catalog.db").execute("""
    SELECT sum(recipe), count(DISTINCT recipe) FROM segment JOIN volume ON id = volume
    WHERE name = ? AND born = 1 AND segment < 2 AND recipe > 0""", ("vm1",)).fetchone())')
	[ "${sum#* }" = 2 ]
	edit "UPDATE segment SET recipe = ? - recipe WHERE born = 1 AND segment < 2
		AND volume = (SELECT id FROM volume WHERE name = 'vm1')" "${sum% *}"
	is 4 restore vm1@1 --to back
	[ ! -e back ]
	is 4 check
	is 4 scrub
	right_or_refused
	is 0 repair --rebuild-catalog
	is_whole
}

@test "a version of which the catalog has lost a recipe" {
	edit "DELETE FROM recipe WHERE id = (SELECT recipe FROM segment JOIN volume ON id = volume
		WHERE name = 'vm1' AND born = 1 AND recipe > 0 LIMIT 1)"
	is 4 restore vm1@1 --to back
	[[ $output == *"it is not proven that all others belong to this version"* ]]
	rm back
	is 4 check
	right_or_refused
	is 0 repair --rebuild-catalog
	is_whole
}

# upon_nothing SQL [late]: upon a catalog that was changed so nothing is written, and all that was
# there can be had by the way out. late: it shows when a frame is filled, and by then the journal
# has the version that was begun.
upon_nothing() {
	edit "$1"
	cp vm1.3.img new
	cp --sparse=always pool/data data.before
	dd if=/dev/urandom of=new bs=4096 seek=33 count=7 conv=notrunc status=none
	is 4 snapshot vm1 --from new
	[[ $output == *"nothing was"*"--rebuild-catalog"*"no version was made"* ]]
	[ -n "${2:-}" ] || cmp pool/data data.before
	is 0 repair --rebuild-catalog
	is 0 check
	is 0 scrub
	right_or_refused
}

@test "no version is made upon rows that are not the version's" {
	upon_nothing "DELETE FROM segment WHERE born = 3 AND volume = 1"
	fresh
	upon_nothing "UPDATE segment SET recipe = (SELECT min(id) FROM recipe) WHERE born = 3 AND volume = 1"
	fresh
	upon_nothing "DELETE FROM recipe WHERE id = (SELECT max(recipe) FROM segment WHERE volume = 1)"
}

@test "no version is made upon packs of which rows are lost, or old" {
	local rows nr
	rm -rf pool ./*.img
	is 0 init pool --size 100M --reserve 4K --compression zstd -q
	for nr in 1 2 3; do
		python3 -c 'import random, sys
rnd = random.Random(sys.argv[1])
sys.stdout.buffer.write(b"".join(rnd.randbytes(1024) * 4 for _ in range(1100)))' $nr >vm$nr.1.img
		is 0 snapshot vm$nr --from vm$nr.1.img -q
	done
	cp vm1.1.img vm1.3.img
	rm -rf packed
	cp -r --sparse=always pool packed
	for rows in "DELETE FROM pack" "DELETE FROM pack WHERE rowid % 2" \
		"DELETE FROM pack WHERE frame = (SELECT min(frame) FROM pack)" \
		"UPDATE pack SET place = (SELECT min(place) FROM pack) WHERE frame = (SELECT max(frame) FROM pack)"; do
		rm -rf pool
		cp -r --sparse=always packed pool
		upon_nothing "$rows"
	done
	# In the same frame, where as many slots are counted.
	rm -rf pool
	cp -r --sparse=always packed pool
	upon_nothing "UPDATE pack SET place = (SELECT max(place + blocks) FROM pack)
		WHERE frame = (SELECT max(frame) FROM pack)" late
}

@test "what is free and in use is not written to" {
	frame=$(python3 -c 'import sqlite3
print(sqlite3.connect("pool/catalog.db").execute("SELECT min(frame) FROM slot_owner").fetchone()[0])')
	edit "DELETE FROM extent"
	edit "INSERT INTO extent VALUES(?, 20)" "$frame"
	dd if=/dev/urandom of=new bs=1M count=1 status=none
	is 4 snapshot vm3 --from new
	[[ $output == *"frame $frame as free and as in use"*--rebuild-catalog* ]]
	restore_all 0
	is 0 repair --rebuild-catalog
	is_whole
	is 0 snapshot vm3 --from new
}

@test "a frame that is filled slot by slot is not filled where it has something" {
	cp vm1.3.img new
	for block in 33 36 39 42; do
		dd if=/dev/urandom of=new bs=4096 seek=$block count=1 conv=notrunc status=none
	done
	cp -r --sparse=always pool whole
	for slot in 512 4096 0; do
		rm -rf pool
		cp -r --sparse=always whole pool
		edit "UPDATE packing SET next = $slot"
		is 4 snapshot vm1 --from new
		[[ $output == *"cannot be filled from slot $slot on: it has blocks there already"* ]]
		restore_all 0
	done
	is 0 repair --rebuild-catalog
	restore_all 0
	is 0 restore vm1@4 --to back --yes
	cmp new back
	is 0 scrub
}

# --- data areas from before

# An old data area, as in a copy that was cut off, or an LV that was rolled back.
old_data() {
	cp -r --sparse=always pool whole
	next_version
	is 0 delete vm1@1
	cp --sparse=always pool/data newer
	cp --sparse=always whole/data pool/data
}

@test "a data area that is older than the catalog" {
	old_data
	before=$(md5sum <pool/data)
	for verb in "snapshot vm1 --from vm1.1.img" "delete vm2@1" "prune --keep-last 1" repair \
		"tag vm2@1 +x"; do
		# shellcheck disable=SC2086 # words
		is 1 $verb
		[[ $output == *"the data area is older than the catalog"*"nothing was changed"* ]]
	done
	is 4 check
	is 4 scrub
	[ "$(md5sum <pool/data)" = "$before" ]
	# What is there can be read.
	is 0 restore vm2@2 --to back
	cmp vm2.2.img back
	right_or_refused
	# The newer one is found.
	cp -r --sparse=always pool aside
	cp --sparse=always newer pool/data
	is 0 check
	is 0 restore vm1@4 --to back --yes
	cmp vm1.4.img back
	# It is not: go on from what the data area says.
	rm -rf pool
	mv aside pool
	is 0 repair --rebuild-catalog
	[[ $output == *"kept as catalog.old"* ]]
	rm vm1.4.img
	is_whole
}

@test "a data area that is older, and a catalog that is to hold" {
	old_data
	# Nothing of the older state is lost by it: that is a catalog of its own.
	rm vm1.1.img
	# shellcheck disable=SC2046 # words
	is 0 repair --force $(from_all)
	[[ $output == *"kept as catalog.old"* ]]
	is 0 scrub
	restore_all 0
	is 2 repair --force
	is 0 snapshot vm1 --from vm1.2.img
	is 0 scrub
}

@test "an older catalog that is to hold" {
	keep_catalog
	next_version
	put_kept
	is 1 list
	# shellcheck disable=SC2046 # words
	is 0 repair --force $(from_all)
	[[ $output == *"kept as catalog.old"* ]]
	rm vm1.4.img
	is_whole
	# What it did not know is in the other, with which it can be looked at.
	[ -s pool/catalog.old ]
	[ -s pool/catalog.old-pages ]
}

@test "an older catalog that is to hold, and a damaged copy of the newer one" {
	keep_catalog
	next_version
	put_kept
	damage flip pool "$SEED" 1 journal
	# shellcheck disable=SC2046 # words
	is 0 repair --force $(from_all)
	# Nothing is lost of the catalog that holds.
	[[ $output == *"what is kept of it ends with generation"* && $output != *"are lost"* ]]
	rm vm1.4.img
	is_whole
}

@test "the state that was given up can be gone on with while the other one is not whole" {
	keep_catalog
	cp vm1.3.img vm1.4.img
	dd if=/dev/urandom of=vm1.4.img bs=4096 count=1200 conv=notrunc status=none
	is 0 snapshot vm1 --from vm1.4.img
	is 0 delete vm1@1
	is 0 delete vm1@2
	cp pool/catalog.db{,-pages} .
	put_kept
	# What is lost cannot be healed, so nothing of the other state is given back.
	for verb in "repair --force" repair "repair --rebuild-catalog" scrub; do
		# shellcheck disable=SC2086 # words
		is 4 $verb
		[[ $output != *--rebuild-catalog* ]]
	done
	[[ $output != *"take space"* ]]
	is 0 snapshot vm3 --from vm2.1.img
	is 0 delete vm3@1
	take_other_state
	is 1 list
	is 0 repair --force
	[[ $output == *"kept as catalog.old"* ]]
	rm vm1.1.img vm1.2.img
	rm -f scrub.json
	is 0 scrub
	restore_all 0
	is 0 repair
}

# fill_halfway: a pool of versions of 2 MiB, of which each second one is deleted.
fill_halfway() {
	local nr last
	rm -rf pool
	is 0 init --compression none pool --size 64M -q
	for ((nr = 1; nr < 32; nr++)); do
		head -c 2M /dev/urandom >small
		run "$CTL" -q snapshot "a$nr" --from small
		[ "$status" -eq 0 ] || break
		last=$nr
	done
	is 12 -q snapshot a99 --from small
	for ((nr = 2; nr <= last; nr += 2)); do
		is 0 -q delete "a$nr@1"
	done
}

# hold_damaged: the kept catalog, of a pool in which its version a1 is damaged. As long as that is
# so, nothing of the other state is given back.
hold_damaged() {
	put_kept
	dd if=/dev/urandom of=pool/data bs=2M seek=3 count=1 conv=notrunc status=none
	is 4 repair --force
	[[ $output == *"kept as catalog.old"* ]]
	is 0 check
}

# other_has_big: the state that was given up can be gone on with, and has that version.
other_has_big() {
	take_other_state
	is 4 repair --force
	is 0 restore big@1 --to back
	cmp big back
}

@test "frames at the end of the pool that only the state that was given up has are not free" {
	fill_halfway
	keep_catalog
	head -c 22M /dev/urandom >big
	is 0 snapshot big --from big
	hold_damaged
	head -c 16M /dev/urandom >small
	is 12 snapshot small --from small
	other_has_big
}

# A new journal had freed them, and the catalog that holds names the one before it.
@test "frames of the former journal that the state that was given up has are kept" {
	fill_halfway
	keep_catalog
	damage flip pool "$SEED" 1 journal
	is 0 repair
	head -c 22M /dev/urandom >big
	is 0 snapshot big --from big
	[ "$(python3 -c 'import sqlite3
db = sqlite3.connect("pool/catalog.db")
db.execute("ATTACH ? AS old", ("kept/catalog.db",))
print(db.execute("SELECT count(*) FROM slot_owner NATURAL JOIN old.journal_frame").fetchone()[0])')" -gt 0 ]
	hold_damaged
	other_has_big
}

# The newer state has all that was free before, and some of what is new.
@test "an older catalog of before the pool grew is to hold" {
	local nr
	fill_halfway
	keep_catalog
	is 0 grow --size 128M -q
	for ((nr = 1; nr < 36; nr++)); do
		head -c 2M /dev/urandom >small
		is 0 -q snapshot "b$nr" --from small
	done
	is 0 -q delete b33@1
	put_kept
	cp -r --sparse=always pool other
	# All of the frames are known, as long as the other state is kept, too.
	hold_damaged
	rm -r pool
	mv other pool
	is 0 repair --force
	head -c 64M /dev/urandom >big
	is 0 -q snapshot big --from big
	is 0 check
}

# random SEED SIZE: as many MiB, the same in each run.
random() {
	python3 -c 'import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2]) << 20))' "$@"
}

@test "repair writes to no frame that the state that was given up has" {
	local nr
	rm -rf pool
	is 0 init pool --size 64M --compression zstd -q
	for ((nr = 1; nr < 19; nr++)); do
		random $nr 2 >a$nr.img
		is 0 -q snapshot "a$nr" --from a$nr.img
	done
	keep_catalog
	for ((nr = 2; nr < 16; nr++)); do
		is 0 -q delete "a$nr@1"
	done
	# It compresses: a frame of fingerprints, and packs.
	random 99 8 >half
	python3 -c 'import sys
data = open("half", "rb").read()
sys.stdout.buffer.write(b"".join(data[at:at + 2048] * 2 for at in range(0, len(data), 2048)))' >big
	is 0 snapshot big --from big
	# And a fingerprint of what both have.
	cmp -n 2M -i $((6 << 20)):0 pool/data a1.img
	dd if=/dev/zero of=pool/data bs=16 seek=$(((2 << 20) / 16 + 512 + 5)) count=1 \
		conv=notrunc status=none
	put_kept
	# There is no more than this of what was overwritten, so the other state is kept.
	is 4 repair --force --from a2.img --from a3.img --from a4.img
	[[ $output == *"kept as catalog.old"* ]]
	for nr in 2 3 4; do
		is 0 restore a$nr@1 --to back --yes
		cmp a$nr.img back
	done
	is 0 scrub a1@1
	is 4 scrub a6@1
	take_other_state
	is 0 repair --force
	[[ $output == *" 0 blocks damaged"*$'\n'"1 fingerprints damaged, 1 made again"* ]]
	is 0 scrub
	is 0 restore big@1 --to back --yes
	cmp big back
}

@test "a catalog and a data area that both went on, apart" {
	cp -r --sparse=always pool other
	is 0 tag vm1@1 +here
	is 0 -p other tag vm1@1 +there
	cp other/data pool/data
	is 1 tag vm1@2 +more
	[[ $output == *"each have changes that the other lacks"*"nothing was changed"* ]]
	is 4 check
	is 0 repair --rebuild-catalog
	is_whole
	is 0 show vm1@there
}
