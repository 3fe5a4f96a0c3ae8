#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# A pool in RADOS, on two hosts: each has a directory and a name of its own.
export OSDS=3
load ceph
bats_require_minimum_version 1.5.0

ctl() { timeout -k 10 120 "$build/bin/revdedupctl" "$@"; }

# Change some blocks of the disk.
change() { dd if=/dev/urandom of=disk bs=4k count=8 seek="$((RANDOM % 2000))" conv=notrunc status=none; }

# take HOST: make a version there, and keep what it is.
take() {
	local name
	change
	name=$(on "$1" snapshot vm --from disk --json | sed -n 's/.*"version": "\([^"]*\)".*/\1/p')
	[ "$name" ]
	cp --sparse=always disk "is.$name"
}

# sound HOST: all versions that a snapshot has reported are there, and right.
sound() {
	local file
	for file in is.*; do
		rm -f out
		on "$1" restore "${file#is.}" --to out
		cmp out "$file"
	done
	on "$1" check
}

setup() {
	build=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build/nbd}")
	cd "$BATS_TEST_TMPDIR" || return
	unset REVDEDUP_POOL
	shard=p/test$BATS_TEST_NUMBER
	RANDOM=${SEED:-1}
	cluster pool p 3 2>/dev/null || true
	truncate -s 16M disk
	dd if=/dev/urandom of=disk bs=1M count=8 conv=notrunc status=none
	on a init "$PWD/a" --data "ceph:$shard" --size 4G --pieces 1 --quiet
	join b
}

# stop_at HOST STEP COMMAND...: stop it there; $pid is that. Fails if it has ended before, and its status
# is in ended.HOST.
stop_at() {
	local host=$1 step=$2 state
	shift 2
	rm -f "ended.$host"
	(
		status=0
		REVDEDUP_RADOS_WATCH=600 REVDEDUP_FAIL=$step=stop on "$host" "$@" >"out.$host" 2>&1 3>&- || status=$?
		echo "$status" >"ended.$host"
	) 3>&- &
	while [ ! -e "ended.$host" ]; do
		sleep 0.02
		pid=$(pgrep -nf "^$build/bin/revdedupctl $*\$") || continue
		state=$(sed 's/.*) //;s/ .*//' "/proc/$pid/stat" 2>/dev/null) || continue
		[ "$state" != T ] || return 0
	done
	return 1
}

# ended HOST: wait until its command has.
ended() {
	while [ ! -e "ended.$1" ]; do
		sleep 0.02
	done
}

# A snapshot that had all in the journal when it was stopped has a version, of what the disk was.
keep_was() { mv was "is.$(sed -n 's/^\(vm@[0-9]*\):.*/\1/p' out.a)"; }

# Continue the snapshot of host a.
go_on() {
	kill -CONT "$pid"
	ended a
	# Why it ends is said once.
	[[ $(<out.a) != *"Stale file handle"* ]]
	[ "$(cat ended.a)" -ne 0 ] || keep_was
}

@test "another host reads what one writes, and goes on where that has ended" {
	take a
	take a
	sound b
	run -0 on b status
	[[ $output == *"owner:       a, since"* ]]
	take a
	sound b
	run -0 on b snapshot vm --from disk
	[[ $output == *"belonged to the host 'a', and was taken over"* ]]
	take b
	sound a
	run -0 on a status
	[[ $output == *"owner:       b, since"* ]]
	take a
	on a delete vm@1 --yes
	rm is.vm@1
	sound a
	sound b
	on b scrub
}

@test "the owner is stopped at each step of a snapshot, taken over from, and continued" {
	local nr=0
	take a
	change
	while stop_at a "any:$((nr += 61))" snapshot vm --from disk; do
		run -11 on b snapshot vm --from disk
		[[ $output == *"'revdedupctl take-over'"* ]]
		cp --sparse=always disk was
		on b take-over --quiet
		take b
		go_on
		on b check
		on a take-over --quiet
		on a check
		change
	done
	[ "$nr" -gt 200 ]
	sound a
	on a scrub
}

# What a sender is told is told before reverse deduplication, which may take long.
@test "a version that is reported is there for the host that takes over" {
	take a
	change
	stop_at a reverse-change snapshot vm --from disk
	cp --sparse=always disk is.vm@2
	on b take-over --quiet
	sound b
	kill -CONT "$pid"
	ended a
	[ "$(cat ended.a)" -ne 0 ]
	[[ $(<out.a) == *"'revdedupctl list' says whether vm@2 was made"* ]]
}

# One of them finds that the other one has ended, and that the note in the directory is current.
@test "commands that were stopped all the while do not own what a later one took back" {
	local first second one
	take a
	change
	stop_at a snapshot-batch snapshot vm2 --from disk
	first=$pid
	stop_at a snapshot-batch snapshot vm3 --from disk
	second=$pid
	on b take-over --quiet
	take b
	on a take-over --quiet
	take a
	for one in "$second" "$first"; do
		rm -f ended.a
		kill -CONT "$one"
		ended a
		[ "$(cat ended.a)" -ne 0 ]
	done
	sound a
	on b take-over --quiet
	sound b
}

# What is written to the journal here goes there before the new owner has written.
@test "the owner goes on between the steps of a take-over" {
	local nr=0 step owner
	take a
	change
	for step in fence-taken fence-super fence-seal fence-catalog fence-made; do
		nr=0
		# Each second write of a plain call is to the journal, or a superblock.
		while stop_at a "area-write:$((nr += 3))" snapshot vm --from disk; do
			owner=$pid
			cp --sparse=always disk was
			stop_at b "$step" take-over --quiet
			kill -CONT "$owner"
			ended a
			kill -CONT "$pid"
			ended b
			[ "$(cat ended.a)" -ne 0 ] || keep_was
			sound b
			on a take-over --quiet
			change
		done
	done
}

@test "a host is killed at each step, and another takes over" {
	local nr=0 to=b from=a name step
	take a
	change
	while ! REVDEDUP_FAIL=any:$((nr += 71))=kill on "$from" snapshot vm --from disk >killed.out 2>&1; do
		# The take-over is killed as well, until it has no more steps.
		for ((step = 1; ; step += 13)); do
			! REVDEDUP_FAIL=any:$step=kill on "$to" take-over --quiet || break
		done
		on "$to" check
		take "$to"
		name=$(printf '%s\n' is.* | sort -V | tail -1)
		REVDEDUP_FAIL=any:$nr=kill on "$to" delete "${name#is.}" --yes --quiet || true
		rm "$name"
		on "$from" take-over --quiet
		sound "$from"
		change
	done
	[ "$nr" -gt 200 ]
}

# In a build for tests the map that the version before gets takes many parts of the journal. Who
# joins has no catalog of its own.
@test "a host is killed between the parts of a transaction, and another takes over" {
	local nr version=1
	head -c 16M /dev/urandom >disk
	on a snapshot vm --from disk
	cp --sparse=always disk is.vm@1
	for nr in 12 18; do
		"$BATS_TEST_DIRNAME/../cli/shuffle.py" disk "$nr"
		REVDEDUP_FAIL=journal-part:$nr=kill run -137 on a snapshot vm --from disk
		# The other time while it is written once more.
		[ "$nr" = 12 ] || REVDEDUP_FAIL=journal-part:3=kill run -137 on a tag vm@1 "+and-$nr"
		on b take-over --quiet
		# Something is written where its parts were, and what it began is not done again yet.
		REVDEDUP_FAIL=journal-appended=kill run -137 on b tag vm@1 "+of-$nr"
		join "c$nr"
		on "c$nr" list
		on b tag vm@1 "+of-$nr"
		! on b show "vm@$((version + 1))" 2>/dev/null ||
			cp --sparse=always disk "is.vm@$((++version))"
		sound "c$nr"
		on a take-over --quiet
		on a show "vm@of-$nr"
		sound a
	done
}

@test "of two commands of a host one is killed, and the other goes on" {
	local step nr
	take a
	change
	for step in snapshot-batch snapshot-finish; do
		for nr in 30 75 120 165; do
			stop_at a "$step" snapshot vm --from disk
			cp --sparse=always disk was
			REVDEDUP_FAIL=any:$nr=kill on a snapshot other --from disk >killed.out 2>&1 || true
			REVDEDUP_FAIL=any:$nr=kill on a delete other@1 --yes >killed.out 2>&1 || true
			go_on
			[ "$(cat ended.a)" -eq 0 ]
			on a check
			change
		done
	done
	sound a
	on a scrub
	sound b
}

@test "a catalog that is gone is not made anew beside a command that uses it" {
	take a
	change
	stop_at a snapshot-batch snapshot vm --from disk
	cp --sparse=always disk was
	mv a/catalog.db away
	run -11 on a snapshot other --from disk
	[[ $output == *"cannot be used, and other commands run that use it"* ]]
	run ! on a list
	mv away a/catalog.db
	go_on
	[ "$(cat ended.a)" -eq 0 ]
	mv a/catalog.db away
	on a snapshot other --from disk
	sound a
	on a scrub
}

# journal: the object that the journal is in.
journal() {
	local object
	for object in $(in_shard ls | grep rbd_data); do
		in_shard get "$object" object
		! grep -q ^RDJ1 <(head -c 4 object) || echo "$object"
	done
}

# until_seen NR: so many commands are seen by others.
until_seen() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(in_shard listwatchers head | grep -c watcher)" -ne "$1" ] ||
			return 0
		sleep 0.2
	done
	return 1
}

@test "an object of the journal is lost: no host takes what is left for all of it" {
	take a
	on b list
	take a
	in_shard rm "$(journal)"
	# With a catalog that it had, without one, and to write.
	run ! on b list
	[[ $output == *"the host 'a' may have the rest"* ]]
	join c
	run ! on c list
	[[ $output == *"it can be read up to generation 0"* ]]
	run ! on c snapshot vm --from disk
	[[ $output == *"the host 'a' may have what it lacks"*"'revdedupctl repair' there"* ]]
	run ! on c repair --rebuild-catalog --force
	[[ $output == *"the host 'a' may have what it lacks"* ]]
	run ! on a snapshot vm --from disk
	[[ $output == *"has lost the end of the copy"* ]]
	mv a/catalog.db away
	run ! on a list
	run ! on a snapshot vm --from disk
	[[ $output == *"it can be read up to generation 0"* ]]
	# The owner's catalog has all of it.
	mv away a/catalog.db
	on a repair --force
	take a
	sound a
	sound b
	on b scrub
	# Without that host what is left counts.
	in_shard rm "$(journal)"
	run ! on c take-over
	[[ $output == *"the host 'a' may have what it lacks"*"'revdedupctl take-over --force'"* ]]
	run ! on c take-over --force
	[[ $output == *"it can be read up to generation 0"* ]]
	on c repair --rebuild-catalog --force
	on c check
	on c snapshot vm --from disk
	rm out
	on c restore vm@1 --to out
	cmp out disk
	# Of a catalog that does not count any more nothing goes away unseen.
	run -0 on a repair --rebuild-catalog
	[[ $output == *"is kept as 'catalog.old"* ]]
	on a check
}

@test "a command that the cluster has forgotten is seen again" {
	mkfifo disks
	take a
	REVDEDUP_POOL=$PWD/a "$build/bin/revdedupctl" snapshot other --from - --size 16M \
		<disks 3>&- &
	exec 4>disks
	head -c 4M disk >&4
	until_seen 1
	kill -STOP "$!"
	until_seen 0
	kill -CONT "$!"
	until_seen 1
	run -11 on b snapshot vm --from disk
	[[ $output == *"'revdedupctl take-over'"* ]]
	tail -c +$(((4 << 20) + 1)) disk >&4
	exec 4>&-
	wait "$!"
	take b
	sound b
}

# writes: how many operations of clients that write the OSDs have done.
writes() {
	local nr
	for nr in 0 1 2; do
		ceph --admin-daemon "$CLUSTER/run/osd.$nr.asok" perf dump osd
	done | awk -F '[ ,]+' '/"op_r?w":/ { all += $3 } END { print all }'
}

# The OSDs do one at a time of those that compare: each has to be on all copies before the next.
@test "fingerprints that wait for a write to their object go in one operation" {
	local nr before
	dd if=/dev/urandom of=disk bs=2M count=20 status=none
	mkfifo disks
	REVDEDUP_POOL=$PWD/a "$build/bin/revdedupctl" snapshot vm --from - --size 40M <disks 3>&- &
	exec 4>disks
	# It reads, when all but what a pipe holds is gone, and has written what comes before.
	head -c 4M disk >&4
	before=$(writes)
	for nr in 0 1 2; do
		cluster pause "osd.$nr"
	done
	tail -c +$(((4 << 20) + 1)) disk >&4
	exec 4>&-
	sleep 1
	for nr in 0 1 2; do
		cluster resume "osd.$nr"
	done
	wait "$!"
	# 20 of frames and some of the journal; alone they would be 20 more.
	[ $(($(writes) - before)) -lt 40 ]
	on a restore vm@1 --to out
	cmp out disk
	on a scrub
}

@test "of two hosts that begin at once one is refused, and the other goes on" {
	take a
	stop_at b fence-taken snapshot other --from disk
	run -11 on a snapshot vm --from disk
	[[ $output == *"'revdedupctl take-over'"* ]]
	kill -CONT "$pid"
	ended b
	[ "$(cat ended.b)" -eq 0 ]
	sound b
}

@test "a network that falls into two: what was under way arrives too late" {
	local relay network ports
	ports=$(ceph osd dump | grep -o '127\.0\.0\.1:[0-9]*' | cut -d : -f 2 | sort -u)
	# shellcheck disable=SC2086 # a word each
	"$BATS_TEST_DIRNAME/far.py" $ports "$(grep -o '127.0.0.1:[0-9]*' "$CEPH_CONF" | cut -d : -f 2)" \
		>network 3>&- &
	relay=$!
	until [ -s network ]; do kill -0 "$relay" && sleep 0.05; done
	network=$(<network)
	take a
	mkfifo disks
	REVDEDUP_POOL=$PWD/a nsenter --net="$network" "$build/bin/revdedupctl" snapshot vm --from - \
		--size 16M <disks >out.a 2>&1 3>&- &
	exec 4>disks
	head -c 4M disk >&4
	until_seen 1
	kill -STOP "$relay"
	tail -c +$(((4 << 20) + 1)) disk >&4
	exec 4>&-
	on b take-over --quiet
	take b
	sound b
	kill -CONT "$relay"
	status=0
	wait "$!" || status=$?
	[ "$status" -ne 0 ]
	kill "$relay"
	grep "was taken over by the host 'b'" out.a
	sound b
	take a
	sound a
	on b scrub
}
