#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A command is stopped (SIGSTOP) at a step, all others run to their end, then it goes on;
# in the end everything is compared. This happens at each step that a command passes, in
# each surrounding; see userspace/base/inject.h.
#
# Readers never wait. A writer waits for a command that was stopped within a transaction of
# the catalog, or while it appended to the journal (its change is half done), says so, and
# then goes on. All other commands do not wait either. EVERY=N tries each Nth step only.
#
# SQLite's own writes are left out: they come between those steps, except when the last
# command that had the catalog open copies SQLite's log home. SQLite lets no other command
# open the catalog then.

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
	export blocks=1300
}

teardown() { live_teardown; }

# make_base: a pool in base/, and images for what comes next.
make_base() {
	some_versions vm2 vm3
	keep_base
}

new_pool() {
	from_base
	"${prepare:-:}"
}

# steps COMMAND...: prints the numbers of the steps to stop at: one for each step
# and those two that it comes after.
steps() {
	new_pool
	log_steps "$@"
	some_steps 2 "${EVERY:-1}" '^(catalog|pages)-(write|sync)$'
}

# holds PID LOCK...: has it one of these? A byte of the data area, as in
# userspace/base/lock.h, or the lock of SQLite for writing.
holds() {
	local process=$1 lock
	shift
	for lock; do
		case $lock in
		pool) lock=$((1 << 48)) ;;
		journal) lock=$((3 << 48)) ;;
		volume) lock=$(((5 << 48) + 1)) ;;
		catalog) lock=120 ;;
		esac
		! grep -qs "WRITE.* $lock $lock\$" "/proc/$process/fdinfo/"* || return 0
	done
	return 1
}

# reads COMMAND...: must end now, and well.
reads() {
	commands=$((commands + 1))
	timeout 600 "${ctl[@]}" "$@" >out/reads 2>&1 ||
		fail_test "$stopped: status $? of '$*': $(cat out/reads)"
}

# Those that read, beside what is stopped. vm2@1 and vm1@3 exist all the time.
all_that_read() {
	reads list
	reads show vm2@1
	reads stats
	reads diff vm1@3 vm2@1
	reads scrub vm2
	reads check
	is_right vm2@1
	is_right vm1@3
	rm -f out/restored
	reads restore vm1@3 --to out/restored
	cmp out/restored want/vm1@3 || fail_test "$stopped: restored"
	commands=$((commands + 2))
}

# The output of what writes is in files of their own, because they may have to
# wait side by side.
writers=(
	"snapshot vm2 --from img/vm2"
	"snapshot vm1 --from img/vm2"
	"delete vm3@2"
	"prune vm3 --keep-last 1"
	"protect vm2@2"
	"tag vm2@2 +gold"
)

# ended NUMBER STATUS: of writers.
ended() {
	local out=out/writer$1 status=$2
	case $1,$status in
	0,0) version=$(made "$out"); cp --sparse=always img/vm2 "want/$version" ;;
	1,0) version=$(made "$out"); cp --sparse=always img/vm2 "want/$version" ;;
	1,11)
		# The volume is the stopped one's, which it says.
		grep -q "another command is using the volume" "$out" || return
		grep -q "running: .* pid $stopped_pid" "$out" || return
		;;
	2,0 | 3,0) ;;
	# Side by side they may get into each other's way, and say so.
	[23],11 | 3,3) [ "$together" = 1 ] || return ;;
	[23],1) grep -q "no version 2\|deleted meanwhile" "$out" || return ;;
	4,0 | 5,0) ;;
	*) return 1 ;;
	esac
	forget_deleted "$out"
}

# forget_deleted FILE: the versions that a command with that output has deleted.
forget_deleted() {
	sed -n 's|^deleted |want/|p' "$1" | xargs -r rm
}

all_that_write() {
	local i status
	together=0
	for ((i = 0; i < ${#writers[@]}; i++)); do
		status=0
		# shellcheck disable=SC2086 # words
		timeout 600 "${ctl[@]}" ${writers[i]} >"out/writer$i" 2>&1 || status=$?
		commands=$((commands + 1))
		ended "$i" "$status" ||
			fail_test "$stopped: status $status of '${writers[i]}': $(cat "out/writer$i")"
	done
}

# They wait, and say so; and when the stopped one goes on, so do they.
all_that_wait() {
	local i pids=() status tries=0
	together=1
	for ((i = 0; i < ${#writers[@]}; i++)); do
		# shellcheck disable=SC2086 # words
		timeout 600 "${ctl[@]}" ${writers[i]} >"out/writer$i" 2>&1 3>&- &
		pids+=($!)
		commands=$((commands + 1))
	done
	for ((i = 0; i < ${#writers[@]}; i++)); do
		until grep -qs "waiting for another command\|is using the volume" "out/writer$i"; do
			[ $((tries += 1)) -lt 60000 ] ||
				fail_test "$stopped: does not say that it waits: '${writers[i]}': $(cat "out/writer$i")"
			sleep 0.01
		done
	done
	waited=$((waited + 1))
	all_that_read
	go_on
	for ((i = 0; i < ${#writers[@]}; i++)); do
		status=0
		wait "${pids[i]}" || status=$?
		ended "$i" "$status" ||
			fail_test "$stopped: status $status of '${writers[i]}': $(cat "out/writer$i")"
	done
}

# after VERB...: what it did, to want/.
after() {
	case "$*" in
	snapshot*) cp --sparse=always "${@: -1}" "want/$(made out/stopped)" ;;
	restore*) cmp out/slowly want/vm1@1 || fail_test "$stopped: restored" ;;
	delete* | prune*) forget_deleted out/stopped ;;
	esac
}

# stop_everywhere COMMAND...
stop_everywhere() {
	local number name stops=0 commands=0 waited=0
	steps "$@" >out/steps
	[ -s out/steps ]
	while read -r number name <&4; do
		stopped="'$*' stopped at step $number, $name"
		new_pool
		stop_at "any:$number" "$@"
		stopped_pid=$pid
		stops=$((stops + 1))
		if holds "$pid" journal catalog; then
			all_that_wait
		else
			all_that_read
			all_that_write
			go_on
		fi
		after "$@" || return
		all_right || fail_test "$stopped: see above"
	done 4<out/steps
	say "$1: $stops stops, $commands other commands; at $waited those that write waited"
}

@test "a snapshot is stopped" {
	make_base
	stop_everywhere snapshot vm1 --from img/vm1
}

# bats test_tags=soak
@test "a first snapshot of what the pool has is stopped" {
	make_base
	stop_everywhere snapshot vm9 --from img/vm9
}

@test "a delete is stopped" {
	make_base
	stop_everywhere delete vm1@2
}

# bats test_tags=soak
@test "a delete of the newest is stopped" {
	make_base
	stop_everywhere delete vm1@4
}

# bats test_tags=soak
@test "a prune is stopped" {
	make_base
	stop_everywhere prune vm1 --keep-last 2
}

# bats test_tags=soak
@test "protect and tag are stopped" {
	make_base
	stop_everywhere protect vm1@2
	stop_everywhere tag vm1@2 +gold
}

# broken_base STEP: as a snapshot leaves it that was killed there.
broken_base() {
	rm -rf pool want
	mkdir want
	some_versions vm2 vm3
	! REVDEDUP_FAIL=$1=kill "${ctl[@]}" snapshot vm1 --from img/vm1 || return
	if [ "$1" != snapshot-finish ]; then
		cp --sparse=always img/vm1 want/vm1@5
	fi
	keep_base
}

@test "one that finishes what another has left is stopped" {
	local step steps=(reverse-change)
	[ -z "${SOAK:-}" ] || steps+=(snapshot-finish reverse-vacate free-commit)
	for step in "${steps[@]}"; do
		broken_base "$step"
		stop_everywhere tag vm1@2 +gold
	done
}

# fail_tags STEP: go on with tags until one is killed there.
fail_tags() {
	local n=2
	while REVDEDUP_FAIL=$1=kill "${ctl[@]}" tag -q "vm1@$n" +x 2>/dev/null; do
		n=$((5 - n))
	done
	keep_base
}

@test "one that begins a new journal is stopped, or takes over from it" {
	make_base
	fail_tags journal-switch
	stop_everywhere tag vm1@2 +gold
	new_pool
	fail_tags journal-switched
	stop_everywhere tag vm1@2 +gold
}

# segment NAME: one that nobody else has.
segment() { head -c $((2 << 20)) /dev/urandom >"img/$1"; }

# blocks_of FROM TO FIRST NR
blocks_of() {
	dd if="img/$1" of="img/$2" bs=4k skip="$3" seek="$3" count="$4" conv=notrunc status=none
}

# In one chunk of fingerprints: what is read of it before it is somebody else's says
# nothing of him.
@test "a frame is freed and used again while fingerprints are compared" {
	local name
	must init --compression none pool --size 162M --reserve 1M
	for name in alone new pieces last d; do
		segment $name
	done
	head -c $((80 << 20)) /dev/urandom >img/b
	# Of d@1 all but the last block is b's, and so is what a ends with.
	blocks_of b d 0 511
	blocks_of new pieces 0 10
	cat img/new img/alone >img/a1
	cat img/pieces img/d >img/a2
	must snapshot b --from img/b
	must snapshot d --from img/d
	cp img/d want/d@1
	must snapshot a --from img/a1
	cp img/a1 want/a@1
	must snapshot a --from img/a2
	must snapshot d --from img/last
	cp img/last want/d@2
	stopped="delete stopped before fingerprints are compared"
	stop_at reverse-stream delete a@2
	grep -q "State:.*stopped" "/proc/$pid/status" || fail_test "it was not stopped"
	must delete b@1
	# It gets the first frame that was b's.
	must snapshot c --from img/new
	cp img/new want/c@1
	go_on
	all_right
	must scrub
}

no_target() { rm -f out/slowly; }

# Of which a part will do.
old_target() { cp want/vm1@2 out/slowly; }

@test "those that read are stopped" {
	make_base
	stop_everywhere dump vm1@3
	prepare=no_target
	stop_everywhere restore vm1@1 --to out/slowly
	prepare=old_target
	stop_everywhere restore vm1@1 --to out/slowly --yes
	prepare=
	stop_everywhere diff vm1@2 vm1@3
	stop_everywhere scrub
	stop_everywhere check
	stop_everywhere list
}

@test "repair is stopped: it is alone" {
	local number name
	make_base
	steps repair --rebuild-catalog >out/steps
	while read -r number name <&4; do
		stopped="repair stopped at step $number, $name"
		new_pool
		stop_at "any:$number" repair --rebuild-catalog
		# Before that it has only looked what the data area is.
		if ! holds "$pid" pool; then
			go_on
			continue
		fi
		for command in list "dump vm1@2" "tag vm1@2 +x" "repair --rebuild-catalog"; do
			# shellcheck disable=SC2086 # words
			run timeout 600 "${ctl[@]}" $command
			[ "$status" -eq 11 ]
			[[ $output == *"another command is using the pool"* ]]
		done
		go_on
		all_right || fail_test "$stopped: see above"
	done 4<out/steps
}

# The ten minutes are less than a second here.
@test "nobody waits for ever" {
	make_base
	stopped="tag stopped in its transaction"
	stop_at catalog-commit tag vm1@2 +gold
	holds "$pid" catalog
	REVDEDUP_PATIENCE=300 run timeout 600 "${ctl[@]}" snapshot vm2 --from img/vm2
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"waiting for another command that is writing to the catalog"* ]]
	[[ $output == *"another command still holds the write lock on the catalog"* ]]
	go_on
	all_right

	stopped="tag stopped with the journal"
	stop_at journal-appended tag vm1@2 -gold
	holds "$pid" journal
	REVDEDUP_PATIENCE=300 run timeout 600 "${ctl[@]}" tag vm1@3 +gold
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"another command is using the journal"*"running: tag, pid $pid"* ]]
	go_on
	all_right
}
