#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A pool's directory that a stranger has filled: links, fifos, a journal of SQLite, a catalog
# with triggers, or with numbers that no command writes. Nothing outside of the directory is
# read, made, changed or removed, and each command ends, with an error or with what is right.
# hostile.py does the same at random.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

load damage

edit() { "$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db "$@"; }

# ends COMMAND...: not by a signal, and soon; sets $status and $output.
ends() {
	run timeout -s KILL 60 "$CTL" "$@"
	[ "$status" -lt 124 ] || { echo "status $status: revdedupctl $*: $output"; return 1; }
}

# use_all: each kind of command.
use_all() {
	local verb
	for verb in list "show vm1@1" stats metrics check scrub "restore vm1@1 --to back --yes" \
		"snapshot vm1 --from vm1.1.img" "delete vm1@1" "prune --keep-last 1" \
		"dedup" "repair --yes" "repair --rebuild-catalog --force --yes" list; do
		rm -f back
		# shellcheck disable=SC2086 # words
		ends $verb || return
	done
}

# canary: what must stay, outside of the pool; "aim" is not there.
canary() {
	rm -rf outside
	mkdir -p outside/folder
	head -c 100000 /dev/urandom >outside/file
	echo text >outside/folder/lookups
	listing=$(find outside | sort; cat outside/file outside/folder/lookups | md5sum)
}

is_untouched() {
	[ "$(find outside | sort; cat outside/file outside/folder/lookups | md5sum)" = "$listing" ] ||
		{ echo "after $1:"; find outside -ls; return 1; }
}

# Old content behind "reserve" would be freed by a delete, and "catalog.new-pages" overwritten.
@test "links in the place of a pool's files lead nowhere" {
	local name aim aims nr=0
	for name in reserve catalog.db catalog.db-pages catalog.db-wal catalog.db-shm \
		catalog.db-journal catalog.new catalog.new-pages catalog.new-wal \
		catalog.new-journal index/lookups index/lookups.old index/lock index/whole \
		index/1 pool.json catalog.old; do
		# All but some lead to what is there only, but in soak.
		aims=(file)
		[ -z "${SOAK:-}" ] && [ $((nr++ % 4)) -ne 0 ] || aims+=(aim)
		for aim in "${aims[@]}"; do
			fresh
			canary
			mkdir -p pool/index
			rm -rf "pool/$name"
			ln -s "$PWD/outside/$aim" "pool/$name"
			use_all
			is_untouched "$name -> $aim"
		done
	done
}

@test "a link in the place of the index's folder leads nowhere" {
	canary
	rm -rf pool/index
	ln -s "$PWD/outside/folder" pool/index
	use_all
	is_untouched index
}

@test "a file that has another name outside is not written to" {
	local name
	for name in reserve catalog.db-pages catalog.new-pages catalog.db-wal index/lookups; do
		fresh
		canary
		mkdir -p pool/index
		rm -f "pool/$name"
		ln outside/file "pool/$name"
		use_all
		is_untouched "$name"
	done
}

@test "fifos in the place of a pool's files hold no command up" {
	local name
	for name in $(each_of 2 data reserve catalog.db-wal catalog.db catalog.db-pages \
		catalog.db-shm catalog.db-journal catalog.new catalog.new-pages index \
		index/lookups index/lock copies index/1 last-scrub scrub-part last-check); do
		fresh
		[ "$name" = index ] || mkdir -p pool/index
		rm -rf "pool/$name"
		mkfifo "pool/$name"
		use_all
	done
}

# SQLite would remove the file whose name the journal ends with, or put its page back.
@test "a journal beside the catalog is not used" {
	canary
	python3 - "$PWD/outside/file" <<-'END'
	import sys
	name = sys.argv[1].encode()
	magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
	number = lambda n: n.to_bytes(4, "big")
	with open("pool/catalog.db-journal", "wb") as file:
	    head = magic + number(1) + number(7) + number(10) + number(512) + number(4096)
	    file.write(head.ljust(512, b"\0"))
	    page = b"\xee" * 4096
	    check = 7 + sum(page[i] for i in range(4096 - 200, 0, -200))
	    file.write(number(2) + page + number(check & 0xffffffff))
	    check = sum(x - 256 if x > 127 else x for x in name) & 0xffffffff
	    file.write(number(0x40000000 // 4096 + 1) + name + number(len(name)) + number(check) + magic)
	END
	cp pool/catalog.db before
	is 0 list
	is 0 check
	cmp pool/catalog.db before
	is 0 delete vm1@1
	is 0 check
	is_untouched journal
}

@test "a catalog with a view, a trigger, or another table is refused" {
	local statement
	for statement in \
		"CREATE TRIGGER t AFTER UPDATE ON state BEGIN DELETE FROM version; END" \
		"CREATE VIEW v AS SELECT 1" \
		"CREATE TABLE more(x)" \
		"CREATE INDEX more ON version(time)" \
		"ALTER TABLE version ADD COLUMN more AS (abs(-9223372036854775808))"; do
		fresh
		edit "$statement"
		cp pool/catalog.db before
		for verb in list check "tag vm1@1 +x" "delete vm1@1"; do
			# shellcheck disable=SC2086 # words
			ends $verb
			[ "$status" -ne 0 ]
			[[ $output == *"that no revdedup makes"* ]] || { echo "$output"; false; }
		done
		cmp pool/catalog.db before
		is 0 repair --rebuild-catalog
		is_whole
	done
}

# As a table that a command reads it would never end.
@test "a view without an end in the place of a table is refused" {
	edit "ALTER TABLE tag RENAME TO gone"
	edit "CREATE VIEW tag AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
		SELECT 1 AS volume, 'x' AS tag, i AS number FROM n"
	use_all
}

@test "recipes that refer to each other are an error" {
	# Both have REF of the other in all blocks: 3 << 6 | 63, the rest of 512, the recipe.
	edit "UPDATE recipe SET map = x'ffc0030200'
		WHERE id = (SELECT min(id) FROM recipe)"
	edit "UPDATE recipe SET map = x'ffc0030100'
		WHERE id = (SELECT min(id) + 1 FROM recipe)"
	use_all
}

@test "recipes that refer to themselves are an error" {
	local which
	for which in "= (SELECT min(id) FROM recipe)" "= (SELECT max(id) FROM recipe)" "> 0"; do
		fresh
		edit "UPDATE recipe SET map = x'ffc0030000' WHERE id $which"
		use_all
	done
}

@test "numbers that no command writes are an error" {
	local set sets=("version SET size = 1 << 62" "version SET size = -4096" "version SET size = 4097"
		"version SET time = 9223372036854775807" "version SET time = 1 << 63"
		"version SET number = -1 WHERE number = 1" "version SET number = 1 << 62 WHERE number = 2"
		"version SET cursor = 1 << 62" "version SET state = 77" "version SET volume = -1 WHERE id = 1"
		"volume SET next_number = 9223372036854775807"
		"volume SET name = '' WHERE id = 1" "volume SET name = x'00' WHERE id = 1"
		"segment SET recipe = -recipe" "segment SET recipe = 1 << 62"
		"segment SET segment = 1 << 62 WHERE segment = 1"
		"recipe SET frame = 1 << 62" "recipe SET frame = -1" "recipe SET map = zeroblob(600)"
		"recipe SET map = x''" "recipe SET fp = x''"
		"extent SET len = 1 << 62" "extent SET start = -5"
		"state SET journal_frame = 1 << 62" "state SET journal_block = -1"
		"state SET generation = 9223372036854775807" "state SET last_frame = -1"
		"uses SET refs = 1 << 62" "slot_owner SET n = 1 << 62")
	mapfile -t sets < <(each_of 3 "${sets[@]}")
	for set in "${sets[@]}"; do
		fresh
		edit "UPDATE OR IGNORE $set"
		use_all || { echo "$set"; false; }
	done
}

# In the journal they would be newer than what the catalog has from then on.
@test "changes of a generation that is still to come are an error" {
	local before verb
	edit "INSERT INTO outbox VALUES(512, x'00')"
	before=$(md5sum pool/data)
	for verb in list check "tag vm1@1 +x" "delete vm1@1" "snapshot vm1 --from vm1.1.img" repair; do
		# shellcheck disable=SC2086 # words
		ends $verb
		[ "$status" -ne 0 ]
		[[ $output == *"of a generation that is still to come"*"repair --rebuild-catalog"* ]] ||
			{ echo "$verb: $output"; false; }
	done
	[ "$(md5sum pool/data)" = "$before" ]
	is 0 repair --rebuild-catalog --force
	is_whole
}

# One who may write to the directory could change any file while root reads it.
@test "root uses no pool that others may write to" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	local mode
	for mode in 777 775,nogroup; do
		chgrp "${mode#*,}" pool 2>/dev/null || :
		chmod "${mode%,*}" pool
		for verb in list "restore vm1@1 --to back --yes" "delete vm1@1" repair; do
			# shellcheck disable=SC2086 # words
			ends $verb
			[ "$status" -ne 0 ]
			[[ $output == *"others may write to"* ]] || { echo "$output"; false; }
		done
	done
	chmod 755 pool
	is_whole
	chown nobody pool
	ends list
	[[ $output == *"belongs to another user"* ]]
	chown -R nobody pool
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
	setpriv --reuid=nobody --clear-groups "$CTL" check
	chown root pool
	ends list
	[ "$status" -ne 0 ]
}

# in_run SETUP COMMAND...: with a /run of its own, that the shell commands SETUP fill.
in_run() {
	local setup=$1
	shift
	run unshare --mount bash -ec 'mount -t tmpfs none /run; '"$setup"'; "$@"' - "$CTL" -q "$@"
}

# Any user may make a folder in /run/lock, with files that root would make elsewhere or lock.
@test "the locks of a pool on a device are where only root makes files" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	local number
	canary
	truncate -s 100M disk.img
	disk=$(losetup --find --show disk.img)
	number=$(stat -c %Hr:%Lr "$disk")
	is 0 init --compression none device --data "$disk" -q
	in_run "mkdir -p /run/lock/revdedup; chown nobody /run/lock/revdedup
		ln -s $PWD/outside/aim /run/lock/revdedup/$number" \
		-p device snapshot vm1 --from vm1.1.img
	[ "$status" -eq 0 ]
	is_untouched "a link in /run/lock"
	for setup in "mkdir /run/revdedup; chown nobody /run/revdedup" \
		"mkdir -m 777 /run/revdedup" \
		"mkdir /run/revdedup; ln -s $PWD/outside/aim /run/revdedup/$number.lock" \
		"mkdir /run/revdedup; mkfifo /run/revdedup/$number.lock"; do
		in_run "$setup" -p device snapshot vm1 --from vm1.2.img
		[ "$status" -ne 0 ] || { echo "$setup: $output"; false; }
		[[ $output == *"/run/revdedup"* ]]
		is_untouched "$setup"
	done
	# And they are locks.
	in_run "mkdir /run/revdedup; python3 -c 'import fcntl, struct, sys, time
file = open(\"/run/revdedup/$number.lock\", \"w+b\")
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(\"hhqqi4x\", fcntl.F_WRLCK, 0, 1 << 48, 1, 0))
open(\"held\", \"w\").close()
time.sleep(60)' & until [ -e held ]; do sleep 0.1; done
		trap 'kill %1' EXIT" -p device snapshot vm1 --from vm1.2.img
	[ "$status" -ne 0 ]
	[[ $output == *"another command is using the pool"* ]]
}
