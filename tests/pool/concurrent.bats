#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Commands side by side: four volumes get versions while other commands delete, restore,
# scrub and check. ROUNDS=N versions of each volume.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by live.bash
load live

setup() {
	live_setup
	export blocks=1300
	rounds=${ROUNDS:-8}
	must init pool --size 2G --reserve 1M "${made_with[@]}"
}

# Each of these runs by itself, until "done" is there, and leaves "failed". Those beside the
# snapshots do so much and no more: else, on a slow machine, they do most of the work.
goes_on() { [ ! -e "done" ] && [ $((turns++)) -lt $((2 * rounds)) ]; }

# not_yet: there is nothing to do now, and that does not count.
not_yet() {
	turns=$((turns - 1))
	sleep 0.1
}

# run NAME FUNCTION...: in the background.
run_beside() {
	local name=$1
	shift
	(
		turns=0
		RANDOM=$((seed + $(cksum <<<"$name" | cut -d ' ' -f 1) % 10000))
		"$@" || touch failed
	) >"out/$name" 2>&1 3>&- &
	pids+=($!)
}

# must_in FILE COMMAND...
must_in() {
	timeout 600 "${ctl[@]}" "${@:2}" >"$1" 2>&1 ||
		fail_test "status $?: ${*:2}: $(cat "$1")"
}

# Lock-wait: deleting takes the volume, too.
snapshots() {
	local vol=$1 nr
	for ((nr = 0; nr < rounds; nr++)); do
		scribble "$vol"
		must_in "out/take-$vol" snapshot "$vol" --from "img/$vol" --lock-wait 600 || return
		cp --sparse=always "img/$vol" "new-$vol"
		# At once, for the others to see.
		mv "new-$vol" "want/$(made "out/take-$vol")"
	done
}

# any_version: prints one, of those that there are now; the newest is not deleted.
any_version() {
	local versions=(want/*)
	local version=${versions[RANDOM % ${#versions[@]}]#want/}
	[ "$version" = "*" ] || echo "$version"
}

# What was deleted meanwhile is not there: that it says.
is_gone() {
	[ ! -e "want/$1" ] && grep -q "no version\|deleted meanwhile\|is using" "$2"
}

restores() {
	local version target=out/restored-$1 status=0
	while goes_on; do
		version=$(any_version)
		# It may have gone since.
		ln -f "want/${version:-none}" "keep-$1" 2>/dev/null || { not_yet; continue; }
		[ $((RANDOM % 2)) -eq 0 ] || rm -f "$target"
		timeout 600 "${ctl[@]}" restore --yes "$version" --to "$target" \
			>"out/restore-$1" 2>&1 || status=$?
		if [ "$status" -eq 0 ]; then
			cmp "$target" "keep-$1" || fail_test "restore of $version" || return
			echo "$version"
		else
			is_gone "$version" "out/restore-$1" ||
				fail_test "restore of $version: status $status: $(cat "out/restore-$1")" ||
				return
		fi
		status=0
	done
}

# Few rounds make few versions.
deletes() {
	local version status many=$((2 * rounds < 12 ? 2 * rounds : 12))
	while goes_on; do
		[ "$(find want -name 'vm*' | wc -l)" -gt "$many" ] || { not_yet; continue; }
		version=$(any_version)
		mv "want/$version" doomed
		status=0
		timeout 600 "${ctl[@]}" delete "$version" --lock-wait 600 >out/delete-1 2>&1 ||
			status=$?
		[ "$status" -eq 0 ] ||
			fail_test "delete of $version: status $status: $(cat out/delete-1)" || return
		echo "$version"
	done
}

prunes() {
	while goes_on; do
		must_in out/prune-1 prune vm5 --keep-last 2 --lock-wait 600 || return
		must_in out/prune-1 snapshot vm5 --from img/vm5 || return
		must_in out/prune-1 tag vm5@latest +x || return
		echo pruned
	done
}

# Another volume's newest version mostly has what one of these changed.
passes() {
	while goes_on; do
		must_in out/pass-1 dedup --older $((RANDOM % 2)) --least-run 1 || return
		echo passed
	done
}

looks() {
	while goes_on; do
		must_in "out/look-$1" "$@" || return
		echo "$*"
	done
}

# Status 3: it left out what was being deleted.
scrubs() {
	local status
	while goes_on; do
		status=0
		timeout 600 "${ctl[@]}" scrub >out/scrub-1 2>&1 || status=$?
		case $status in
		0 | 3) ;;
		*) fail_test "scrub: status $status: $(cat out/scrub-1)" || return ;;
		esac
		echo scrubbed
	done
}

@test "four volumes at once, and all else beside them" {
	local vol pids=() others
	scribble vm5
	must snapshot vm5 --from img/vm5
	for vol in vm1 vm2 vm3 vm4; do
		# Much is the same in all.
		cp --sparse=always img/vm5 "img/$vol"
		run_beside "$vol" snapshots "$vol"
	done
	others=("${pids[@]}")
	run_beside restore1 restores 1
	run_beside restore2 restores 2
	run_beside delete deletes
	run_beside prune prunes
	run_beside pass passes
	run_beside scrub scrubs
	run_beside check looks check
	run_beside list looks list
	run_beside stats looks stats
	wait "${others[@]}"
	touch "done"
	wait "${pids[@]}"
	if [ -e failed ]; then
		grep -h -A 5 "SEED\|differ" out/*[a-z0-9]
		fail_test "see above"
	fi
	must prune vm5 --keep-tag none --unsafe-allow-remove-all
	all_right
	must scrub
	[ -s out/pass ]
	say "$((4 * rounds)) snapshots, $(cat out/restore? | grep -c '^vm') restores," \
		"$(grep -c '^vm' out/delete) deletes, $(grep -c . out/prune) prunes," \
		"$(grep -c . out/pass) passes," \
		"$(grep -c . out/scrub) scrubs, $(grep -c . out/check) checks"
}
