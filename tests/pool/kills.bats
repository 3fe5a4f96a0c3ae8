#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl is killed, at each of its steps (see userspace/base/inject.h) and at random
# moments; or system calls fail, or do only a part. Then the next command must just work,
# the interrupted one is done or not begun, the counts are right, and all other versions
# are as before.
#
# KILLS=N kills at random; ROUNDS=N rounds of errors; EVERY=N: each Nth step only.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
	export blocks=1300
}

# settle COMMAND...: that one may or may not have done what it was to do: want/ is
# what must be there in either case.
settle() {
	local version
	must list || return
	awk 'NR > 1 { print $1 }' out/must | sort >out/are
	[ "$(comm -13 <(ls want) out/are | wc -l)" -le 1 ] ||
		fail_test "'$*' has made more than one: $(comm -13 <(ls want) out/are)" || return
	for version in $(comm -13 <(ls want) out/are); do
		[ "$1" = snapshot ] && [ "${version%@*}" = "$2" ] ||
			fail_test "'$*' has made $version" || return
		cp --sparse=always "${@: -1}" "want/$version"
	done
	for version in $(comm -23 <(ls want) out/are); do
		case $1,$2 in
		delete,"$version" | prune,"${version%@*}") rm "want/$version" ;;
		*) fail_test "'$*' has lost $version" || return ;;
		esac
	done
}

# works COMMAND...: it does, and has nothing to ask for.
works() {
	must "$@" || return
	! grep -i "repair" out/must || fail_test "'$*' wants a repair" || return
}

# kill_everywhere COMMAND...: at each step that comes after other two than before.
kill_everywhere() {
	local number name kills=0 status
	rm -rf pool want
	mkdir want
	some_versions
	keep_base
	log_steps "$@"
	some_steps 2 "${EVERY:-1}" >steps
	while read -r number name <&4; do
		from_base
		status=0
		REVDEDUP_FAIL=any:$number=kill "${ctl[@]}" "$@" >out/killed 2>&1 || status=$?
		[ "$status" -eq 137 ] || [ "$status" -eq 0 ] || fail_test "status $status"
		[ "$status" -eq 0 ] || kills=$((kills + 1))
		{
			works tag vm2@1 +gold && settle "$@" &&
				works snapshot vm2 --from img/vm2 &&
				took vm2 out/must && all_right
		} || fail_test "'$*' killed at step $number, $name: see above"
	done 4<steps
	say "$1: $kills kills"
}

# put SOURCE BLOCK: a block of that file, or device, into the image of v.
put() {
	dd if="$1" of=img/v bs=4096 count=1 seek="$2" conv=notrunc status=none
}

# many_point_there: twelve segments of v@1 have a block that they gave up to one segment of
# v@2, where it is the last one. Nothing else has it.
many_point_there() {
	local i
	must init --compression none pool --size 162M --reserve 1M
	# What else a snapshot reads makes it look for blocks anywhere (see reverse.c).
	dd if=/dev/urandom of=img/v bs=2M seek=13 count=14 iflag=fullblock status=none
	head -c 4096 /dev/urandom >common
	for i in {1..12}; do
		put /dev/urandom $((i * 512))
		put common $((i * 512 + 1))
	done
	must snapshot v --from img/v
	took v out/must
	for i in {1..12}; do
		put /dev/urandom $((i * 512 + 1))
	done
	put common 511
	must snapshot v --from img/v
	took v out/must
	put /dev/urandom 511
	must snapshot v --from img/v
	took v out/must
	keep_base
}

# A build for tests writes the map of one other recipe a transaction.
@test "a recipe that many point at goes in several transactions" {
	local step number nr every
	many_point_there
	every=$(part_of_every 1 12)
	log_steps delete v@2
	mv log steps
	number=$(grep -c '^hand-over$' steps)
	[ "$number" -ge 10 ] || fail_test "all of it went in $number transactions"
	for step in hand-over delete-rows; do
		nr=$(grep -c "^$step\$" steps)
		for ((number = 1; number <= nr; number += every)); do
			from_base
			rm want/v@2
			REVDEDUP_FAIL=$step:$number=kill run -137 "${ctl[@]}" delete v@2
			# As it is, and when it has been gone on with.
			all_right && works tag v@1 +gold && all_right ||
				fail_test "killed at $step, $number: see above"
		done
	done
}

@test "a new catalog has what only the old one had" {
	must init --compression none pool --size 512M --reserve 1M
	take vm1
	# It is committed, and not in the journal.
	! REVDEDUP_FAIL=area-write=kill "${ctl[@]}" tag vm1@1 +mine || return
	must repair --rebuild-catalog
	must show vm1@mine
	all_right
}

# The second version gives the first one a long map: in a build for tests that transaction has
# many parts of the journal, and goes on in another frame.
@test "a transaction is killed between its parts, and the catalog is lost" {
	local number again first link last
	must init --compression none --pieces 1 pool --size 512M --reserve 1M
	head -c 24M /dev/urandom >img/v
	must snapshot v --from img/v
	took v out/must
	lengthen_journal
	fill_journal 60
	"$BATS_TEST_DIRNAME/../cli/shuffle.py" img/v "$seed"
	keep_base
	log_steps snapshot v --from img/v
	# The catalog takes a frame before the link.
	read -r first link last < <(awk '$1 == "journal-part" { nr++; link = takes ? nr : link; takes = 0 }
		$1 == "catalog-begin" { takes = nr > before }
		$1 == "journal-appended" && nr - before > last - first { first = before + 1; last = nr; at = link }
		$1 == "journal-appended" { before = nr; takes = 0 }
		END { print first, at, last }' log)
	[ $((link - first)) -ge 3 ] && [ $((last - link)) -ge 3 ] ||
		fail_test "parts $first to $last, with the link $link"
	# Killed again while it is written once more.
	for again in journal-part:3 journal-switch journal-switched journal-appended; do
		from_base
		REVDEDUP_FAIL=journal-part:$((link + 3))=kill run -137 "${ctl[@]}" snapshot v --from img/v
		REVDEDUP_FAIL=$again=kill run -137 "${ctl[@]}" tag v@1 +after
		rm pool/catalog.db*
		must repair --rebuild-catalog
		! "${ctl[@]}" show v@2 >/dev/null 2>&1 || cp --sparse=always img/v want/v@2
		all_right || fail_test "killed again at $again: see above"
	done
	for number in $((first + 3)) $((link + 1)) $((link + 3)) "$last"; do
		from_base
		REVDEDUP_FAIL=journal-part:$number=kill run -137 "${ctl[@]}" snapshot v --from img/v
		rm pool/catalog.db*
		must repair --rebuild-catalog
		# Something is written where its parts were, and what it began is not done again yet.
		REVDEDUP_FAIL=journal-appended=kill run -137 "${ctl[@]}" tag v@1 +after
		rm pool/catalog.db*
		must repair --rebuild-catalog
		must tag v@1 +after
		! "${ctl[@]}" show v@2 >/dev/null 2>&1 || cp --sparse=always img/v want/v@2
		all_right || fail_test "part $number of $first to $last: see above"
	done
}

# As it would be in a full pool.
@test "a rebuild past a damaged part finds no room for a new journal" {
	must init --compression none pool --size 512M --reserve 1M
	head -c 4M /dev/urandom >img/v
	must snapshot v --from img/v
	took v out/must
	must tag v@1 +first
	must tag v@1 +second
	# The last part but one.
	python3 - pool/data <<-'END'
		import sys
		with open(sys.argv[1], "r+b") as file:
		    data = file.read(64 << 20)
		    parts = [at for at in range(0, len(data), 4096) if data[at : at + 4] == b"RDJ1"]
		    file.seek(parts[-2] + 4)
		    file.write(b"rotten")
	END
	rm pool/catalog.db*
	run -4 "${ctl[@]}" repair --rebuild-catalog
	REVDEDUP_FAIL=journal-part=ENOSPC must repair --rebuild-catalog --force
	grep "the next rebuild finds it again" out/must
	all_right
}

@test "kills at each step" {
	kill_everywhere snapshot vm1 --from img/vm1
	kill_everywhere snapshot vm9 --from img/vm9
	kill_everywhere delete vm1@2
	kill_everywhere delete vm1@4
	kill_everywhere prune vm1 --keep-last 1
	kill_everywhere protect vm1@1
	kill_everywhere tag vm1@1 +x
	kill_everywhere recompress zstd
	kill_everywhere recompress none
}

# All of a transaction is in the log when its flush fails, and a crash makes it hold: what it uses
# is there. A recipe that moves is lost otherwise.
@test "the flush of a commit fails, and what follows is killed" {
	local step number nr codec
	must init --compression none pool --size 64M --reserve 1M
	basenc --base16 /dev/urandom | head -c 5M >img/vm1
	must snapshot vm1 --from img/vm1
	took vm1 out/must
	for codec in zstd none; do
		keep_base
		log_steps recompress "$codec"
		nr=$(grep -c '^catalog-sync$' log)
		[ "$nr" -gt 5 ]
		for ((number = 1; number <= nr; number++)); do
			from_base
			REVDEDUP_FAIL=catalog-sync:$number=EIO,catalog-begin=kill \
				"${ctl[@]}" recompress "$codec" >out/killed 2>&1 || :
			works tag vm1@1 +gold && all_right ||
				fail_test "$codec, flush $number: see above; $(cat out/killed)"
		done
	done
}

# What has arrived waits for the rest: the same stream completes it, under the same numbers.
@test "receive is killed at each step" {
	local number name status kills=0 nr
	some_versions
	must init --compression none other --size 1G --reserve 1M
	for nr in 1 2; do
		scribble vm8
		must --pool other snapshot vm8 --from img/vm8
		cp --sparse=always img/vm8 "vm8@$nr"
	done
	"${ctl[@]}" --pool other send vm8 >stream
	keep_base
	log_steps receive <stream
	some_steps 2 "$(part_of_every 1 4)" >steps
	while read -r number name <&4; do
		from_base
		status=0
		REVDEDUP_FAIL=any:$number=kill "${ctl[@]}" receive <stream >out/killed 2>&1 || status=$?
		[ "$status" -eq 137 ] || [ "$status" -eq 0 ] || fail_test "status $status"
		kills=$((kills + (status == 137)))
		works tag vm2@1 +gold
		for nr in 1 2; do
			! "${ctl[@]}" show "vm8@$nr" >out/show 2>&1 || cp --sparse=always "vm8@$nr" want
		done
		{
			all_right && works receive <stream && cp --sparse=always vm8@{1,2} want &&
				all_right
		} || fail_test "killed at step $number, $name: see above"
	done 4<steps
	say "receive: $kills kills"
	[ "$kills" -gt 3 ]
}

# frames: how many the pool has.
frames() {
	"${ctl[@]}" stats --json | sed -n 's/.*"frames": \([0-9]*\).*/\1/p'
}

# A pool has its old size or the new one, for commands that only read as well, and what died
# can be repeated.
@test "grow is killed, or fails, at each step" {
	local number name action olds=0 news=0 now before
	some_versions
	keep_base
	before=$(frames)
	log_steps grow --size 1200M
	# It has few steps. At the last one it has its new size.
	some_steps 1 "$(part_of_every 1 6)" >steps
	awk 'END { print NR, $1 }' log >>steps
	while read -r number name <&4; do
		for action in kill EIO; do
			from_base
			! REVDEDUP_FAIL=any:$number=$action "${ctl[@]}" grow --size 1200M >out/grow 2>&1 ||
				continue
			now=$(frames)
			case $now in
			"$before") olds=$((olds + 1)) ;;
			596) news=$((news + 1)) ;;
			*) fail_test "$now frames after $action at step $number, $name" ;;
			esac
			{
				works check && works tag vm2@1 +gold && [ "$(frames)" -eq "$now" ] &&
					works grow --size 1200M && [ "$(frames)" -eq 596 ] && all_right
			} || fail_test "$action at step $number, $name: see above"
		done
	done 4<steps
	say "grow: $olds times the old size, $news times the new one"
	[ "$olds" -gt 0 ] && [ "$news" -gt 0 ]
}

# init takes no pool that is there for a new one, and says how to go on with what there is. Four of
# five steps are writes of the catalog that follow each other: soak takes all of these.
@test "init is killed, or fails, at each step" {
	local number name status kills=0
	export REVDEDUP_POOL=$PWD/new
	scribble vm1
	log_steps init new --size 64M
	some_steps 2 >steps
	[ -z "${SOAK:-}" ] || awk '{ print NR, $1 }' log >steps
	while read -r number name <&4; do
		rm -rf new
		status=0
		REVDEDUP_FAIL=any:$number=EIO "${ctl[@]}" init new --size 64M >out/init 2>&1 || status=$?
		[ "$status" -eq 0 ] || [ ! -e new ] || grep -q 'the pool was made' out/init ||
			fail_test "step $number, $name: $(cat out/init; ls new)"
		rm -rf new
		status=0
		REVDEDUP_FAIL=any:$number=kill "${ctl[@]}" init new --size 64M >out/init 2>&1 || status=$?
		[ "$status" -eq 137 ] || fail_test "step $number, $name: status $status: $(cat out/init)"
		kills=$((kills + 1))
		if ! "${ctl[@]}" init new --size 64M >out/init 2>&1; then
			if grep -q 'repair --rebuild-catalog' out/init; then
				"${ctl[@]}" repair --rebuild-catalog >out/init 2>&1
			elif grep -q 'is a pool already' out/init; then
				# All of it was made, but for the rule by which its disk is used.
				"${ctl[@]}" tune --pieces 1 >out/init 2>&1
			else
				"${ctl[@]}" init new --size 64M --force >out/init 2>&1
			fi || fail_test "step $number, $name: $(cat out/init)"
		fi
		{
			"${ctl[@]}" snapshot vm1 --from img/vm1 && "${ctl[@]}" check &&
				"${ctl[@]}" restore vm1@1 --to restored --yes && cmp restored img/vm1
		} >out/init 2>&1 || fail_test "step $number, $name: $(cat out/init)"
	done 4<steps
	[ "$kills" -gt 9 ] || fail_test "only $kills kills"
	say "init: $kills kills"
}

# What a killed snapshot has made is in the catalog, and not yet in the copy of it
# that repair reads. It is there in the end, unless the catalog could not be read.
@test "a repair is killed, or fails, at each step" {
	local step steps=(reverse-change) number name action
	[ -z "${SOAK:-}" ] || steps+=(reverse-vacate journal-appended free-commit)
	for step in "${steps[@]}"; do
		rm -rf pool want
		mkdir want
		some_versions
		! REVDEDUP_FAIL=$step=kill "${ctl[@]}" snapshot vm1 --from img/vm1 || return
		cp --sparse=always img/vm1 want/vm1@5
		keep_base
		log_steps repair --rebuild-catalog
		all_right || fail_test "after $step: see above"
		some_steps 1 "$(part_of_every 1 6)" >steps
		while read -r number name <&4; do
			for action in kill EIO; do
				from_base
				# One of the superblocks alone would do.
				REVDEDUP_FAIL=any:$number=$action \
					"${ctl[@]}" repair --rebuild-catalog >out/repair 2>&1 || :
				"${ctl[@]}" list >out/list 2>&1 || must repair --rebuild-catalog
				[ "$action" = kill ] || "${ctl[@]}" show vm1@5 >/dev/null 2>&1 ||
					rm want/vm1@5
				{ all_right && works tag vm2@1 +x && all_right; } ||
					fail_test "after $step, $action at $number, $name: see above"
			done
		done 4<steps
	done
}

# The data area is one from before; what the catalog says is there all the same.
@test "going on from the catalog is killed, or fails, at each step" {
	local number name action
	some_versions
	cp --sparse=always pool/data old-data
	must tag vm2@1 +x
	mv old-data pool/data
	keep_base
	log_steps repair --force
	all_right
	some_steps 1 "$(part_of_every 4 6)" >steps
	while read -r number name <&4; do
		for action in kill EIO; do
			from_base
			REVDEDUP_FAIL=any:$number=$action \
				"${ctl[@]}" repair --force >out/repair 2>&1 || :
			# It is as before, or the catalog holds, and what is kept may still be.
			"${ctl[@]}" tag vm2@1 +y >out/tag 2>&1 || must repair --force
			[ -s pool/catalog.old ] || fail_test "$action at $number, $name: none is kept"
			must repair
			all_right || fail_test "$action at $number, $name: see above"
		done
	done 4<steps
}

# Its queue has frames that newer versions have by now, and the journal lacks changes of it.
@test "what fails to go on from an older catalog takes nothing of the newer state" {
	local number name queued version apart=0
	must init --compression none pool --size 64M --reserve 1M
	head -c 2M /dev/urandom >img/vm1
	head -c 8M /dev/urandom >img/vm2
	head -c 32M /dev/urandom >img/vm3
	must snapshot vm1 --from img/vm1
	took vm1 out/must
	must snapshot vm2 --from img/vm2
	REVDEDUP_FAIL=journal-part=kill run -137 "${ctl[@]}" delete vm2@1
	mkdir older
	cp pool/catalog.db* older
	cp --sparse=always pool/data older-data
	queued=$(ask "SELECT group_concat(frame) FROM queue WHERE EXISTS (SELECT 1 FROM outbox)")
	must snapshot vm3 --from img/vm3
	took vm3 out/must
	[ "$(ask "SELECT count(*) FROM slot_owner WHERE frame IN ($queued)")" -gt 3 ]
	mkdir newer
	cp pool/catalog.db* newer
	rm pool/catalog.db*
	cp older/* pool
	keep_base
	log_steps repair --force
	sed -i '/^journal-switched$/q' log
	some_steps 1 "$(part_of_every 1 24)" >steps
	while read -r number name <&4; do
		from_base
		REVDEDUP_FAIL=any:$number=EIO "${ctl[@]}" repair --force >out/repair 2>&1 || :
		# It has gone on with that catalog, and keeps the other.
		if "${ctl[@]}" tag vm1@1 +x >out/tag 2>&1; then
			[ -s pool/catalog.old ] || fail_test "EIO at $number, $name: none is kept"
			continue
		fi
		apart=$((apart + 1))
		# It can be repeated, and the older data area may be found.
		rm -rf other
		cp -r --sparse=always pool other
		must -p other repair --force || fail_test "EIO at $number, $name: see above"
		rm -r other
		cp -r --sparse=always pool other
		cp --sparse=always older-data other/data
		must -p other repair && must -p other check ||
			fail_test "EIO at $number, $name: see above"
		rm pool/catalog.db*
		cp newer/* pool
		works tag vm1@1 +x || fail_test "EIO at $number, $name: see above"
		for version in want/*; do
			is_right "${version#want/}" || fail_test "EIO at $number, $name: see above"
		done
		# Free frames may have parts of the journal that was begun.
		"${ctl[@]}" check >out/check 2>&1 ||
			! sed '/^wrong: free frames/d' out/check | grep '^wrong: ' ||
			fail_test "EIO at $number, $name: see above"
	done 4<steps
	[ "$apart" -gt 3 ] || fail_test "it failed only $apart times"
	say "going on failed $apart times"
	# The newer journal cannot be read once, and cannot be read.
	from_base
	REVDEDUP_FAIL=catalog-write=short,area-read=EIO run -1 "${ctl[@]}" repair --force
	[[ $output == *"cannot make 'catalog.old' of the copy of the catalog: "* ]]
	[ ! -e pool/catalog.old ]
	REVDEDUP_FAIL=catalog-write=short,area-read=EIO,area-read=EIO \
		run -0 "${ctl[@]}" repair --force
	[[ $output == *"cannot be read, and is not kept"* ]]
}

# What it says it has made is there.
@test "a repair comes upon errors" {
	local nr status faults failed=0
	some_versions
	for ((nr = 0; nr < ${ROUNDS:-40}; nr++)); do
		faults=$RANDOM:$((30 + RANDOM % 150)):error
		status=0
		LD_PRELOAD=$build/io-faults.so IO_FAULTS=$faults \
			"${ctl[@]}" repair --rebuild-catalog >out/repair 2>&1 || status=$?
		[ "$status" -eq 0 ] || failed=$((failed + 1))
		if ! "${ctl[@]}" list >out/list 2>&1; then
			[ "$status" -ne 0 ] || fail_test "IO_FAULTS=$faults: $(cat out/list)"
			must repair --rebuild-catalog
		fi
		all_right || fail_test "IO_FAULTS=$faults: status $status: see above"
	done
	say "$nr repairs, $failed failed"
}

any_of() { echo "${@:RANDOM % $# + 1:1}"; }

# choose_command: sets $command. Volumes are kept from growing without end.
choose_command() {
	local versions=(want/*) vol
	vol=$(any_of vm1 vm2 vm3)
	RANDOM=$((RANDOM + ${#versions[@]} + kills))
	local version=${versions[RANDOM % ${#versions[@]}]#want/}
	case $((RANDOM % 17)) in
	[0-5]) command=(snapshot "$vol" --from "img/$vol") ;;
	[67]) command=(delete "$version") ;;
	8 | 9) command=(prune "$vol" --keep-last $((2 + RANDOM % 3))) ;;
	10) command=(tag "$version" +gold) ;;
	11) command=(protect "$version") ;;
	12) command=(restore "$version" --yes --to out/restored) ;;
	13) command=(scrub) ;;
	14) command=(repair --rebuild-catalog) ;;
	15) command=(check) ;;
	16) command=(dedup --older 0 --least-run 1) ;;
	esac
	[ "${#versions[@]}" -gt 4 ] || command=(snapshot "$vol" --from "img/$vol")
	[ "${#versions[@]}" -lt 20 ] || command=(prune "$vol" --keep-last 2)
	[ "${command[0]}" != snapshot ] || scribble "$vol"
	case ${command[0]} in
	# Where it cannot read the catalog, it only knows what commands have done that
	# came to their end.
	repair) must tag "${versions[0]#want/}" +before ;;
	# They would be refused.
	delete | prune)
		versions=(want/*)
		must unprotect "${versions[@]#want/}"
		;;
	esac
}

# repaired: of repair itself, another one may be needed.
repaired() {
	[ "${command[0]}" = repair ] || return 0
	! "${ctl[@]}" list >out/list 2>&1 || return 0
	grep -q "repair --rebuild-catalog" out/list || fail_test "$(cat out/list)" || return
	must repair --rebuild-catalog || return
	repairs=$((repairs + 1))
}

# next_works: whatever it is.
next_works() {
	local versions=(want/*)
	case $((RANDOM % 3)) in
	0) works tag "${versions[0]#want/}" +next ;;
	1) works check ;;
	2) works list ;;
	esac
}

# all_is_well: after something went wrong with $command.
all_is_well() {
	local versions
	# The first one may be what it deleted.
	repaired && settle "${command[@]}" && next_works && settle "${command[@]}" || return
	versions=(want/*)
	is_right "$(any_of "${versions[@]#want/}")" || return
	must check || return
	[ $((kills % ${OFTEN:-20})) -ne 0 ] || all_right
}

@test "kills at random moments" {
	local kills=0 repairs=0 pid after status verb
	local -A span=() by=()
	some_versions
	while [ "$kills" -lt "${KILLS:-300}" ]; do
		choose_command
		verb=${command[0]}
		after=$((RANDOM % ${span[$verb]:-40} + 1))
		"${ctl[@]}" "${command[@]}" >out/killed 2>&1 3>&- &
		pid=$!
		sleep "$(printf '0.%03d' "$after")"
		kill -KILL "$pid" 2>/dev/null || :
		status=0
		wait "$pid" 2>/dev/null || status=$?
		echo "$after ms, status $status: ${command[*]}" >>out/history
		case $status in
		0)
			# Too late; earlier the next time.
			span[$verb]=$((${span[$verb]:-40} * 9 / 10 + 1))
			settle "${command[@]}" || fail_test "'${command[*]}': see above"
			;;
		137)
			span[$verb]=$((${span[$verb]:-40} + 2))
			kills=$((kills + 1))
			by[$verb]=$((${by[$verb]:-0} + 1))
			all_is_well ||
				fail_test "kill $kills: see above"$'\n'"$(tail -n 20 out/history)"
			;;
		*) fail_test "'${command[*]}': status $status: $(cat out/killed)" ;;
		esac
	done
	all_right
	must scrub
	for verb in "${!by[@]}"; do
		echo "${by[$verb]} $verb"
	done | sort -rn >out/by
	say "$kills kills: $(paste -sd , out/by); repair had to be repeated $repairs times"
}

# with_faults KIND: run $command so that calls fail; sets $status.
with_faults() {
	local uring=() faults=$RANDOM:$((20 + RANDOM % 300)):$1
	[ $((RANDOM % 2)) -eq 0 ] || uring=(REVDEDUP_NO_URING=1)
	rm -f out/faults
	status=0
	# The sanitizers, if any, want to be first.
	env "${uring[@]}" ASAN_OPTIONS=verify_asan_link_order=0 \
		LD_PRELOAD="$build/io-faults.so${LD_PRELOAD:+:$LD_PRELOAD}" \
		IO_FAULTS="$faults" IO_FAULTS_LOG=out/faults \
		"${ctl[@]}" "${command[@]}" >out/killed 2>&1 || status=$?
	what="'${command[*]}' ${uring[*]} IO_FAULTS=$faults: status $status: $(cat out/killed)"
	[ ! -e out/faults ] || hits=$((hits + $(wc -l <out/faults)))
	kills=$((kills + 1))
}

@test "transfers that are short" {
	local round kills=0 repairs=0 what hits=0
	some_versions
	for ((round = 0; round < ${ROUNDS:-60}; round++)); do
		choose_command
		with_faults short
		[ "$status" -eq 0 ] || fail_test "$what"
		all_is_well || fail_test "$what: see above"
	done
	all_right
	say "$round commands, $hits transfers cut"
}

# refused COMMAND...: run it where the kernel does no transfer of io_uring at once.
refused() {
	rm -f out/faults
	ASAN_OPTIONS=verify_asan_link_order=0 \
		LD_PRELOAD="$build/io-faults.so${LD_PRELOAD:+:$LD_PRELOAD}" \
		IO_FAULTS=1:1:again IO_FAULTS_LOG=out/faults \
		timeout 60 "${ctl[@]}" "$@" >out/refused 2>&1 ||
		fail_test "'$*': status $?: $(cat out/refused)" || return
	grep -q "^transfer" out/faults || fail_test "'$*' was not refused anything"
}

@test "a transfer that is refused is given to a thread that may wait" {
	some_versions
	refused snapshot vm2 --from img/vm2
	took vm2 out/refused
	refused scrub
	all_right
}

@test "errors of reads and writes, and no space, at random calls" {
	local round kills=0 repairs=0 what hits=0 failed=0
	some_versions
	for ((round = 0; round < ${ROUNDS:-60} * 3; round++)); do
		choose_command
		with_faults error
		case $status in
		0) ;;
		1 | 3 | 4 | 12) failed=$((failed + 1)) ;;
		*) fail_test "$what" ;;
		esac
		all_is_well || fail_test "$what: see above; $(cat out/faults)"
	done
	all_right
	say "$round commands, $hits errors, $failed commands failed"
}

@test "no space for one commit of the catalog: it is as new as the data area" {
	local nr=0 commits status
	some_versions
	scribble vm3
	keep_base
	REVDEDUP_FAIL_LOG=$PWD/out/steps "${ctl[@]}" snapshot vm3 --from img/vm3 >out/took
	commits=$(grep -c "catalog-commit" out/steps)
	[ "$commits" -gt 5 ]
	while [ $((nr += 1)) -le "$commits" ]; do
		from_base
		status=0
		REVDEDUP_FAIL=catalog-commit:$nr=ENOSPC "${ctl[@]}" snapshot vm3 --from img/vm3 \
			>out/killed 2>&1 || status=$?
		case $status in
		0 | 12) ;;
		*) fail_test "commit $nr: status $status: $(cat out/killed)" ;;
		esac
		settle snapshot vm3 --from img/vm3 ||
			fail_test "commit $nr of $commits, status $status: see above; $(cat out/killed)"
		must scrub
	done
	all_right
	say "each of $commits commits had no room"
}

@test "a dry run of a repair: what a killed snapshot has left is of no version" {
	local status=0
	must init --compression none pool --size 256M --reserve 1M
	head -c 2M /dev/urandom >img/vm1
	must snapshot vm1 --from img/vm1
	head -c 2M /dev/urandom >img/vm1
	REVDEDUP_FAIL=snapshot-finish=kill "${ctl[@]}" snapshot vm1 --from img/vm1 >out/killed 2>&1 ||
		status=$?
	[ "$status" -eq 137 ]
	python3 -c 'block = open("img/vm1", "rb").read(4096)
with open("pool/data", "r+b") as data:
    content = data.read()
    assert content.count(block) == 1
    data.seek(content.find(block))
    data.write(b"damaged")'
	must repair -n
	grep -q "what is damaged is of no version: a command that was killed has left it" out/must
	must repair
	run ! grep -q damaged\ is out/must
	must scrub
}
