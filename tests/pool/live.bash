# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests that run revdedupctl on a pool and know what each version must be, which
# `load live`. SEED=N repeats a run as far as possible: the order in which processes meet is
# up to the machine. COMPRESSION=none|zstd: what is new is stored in that way. PIECES=1|64: how
# many pieces a newest version may have; with more than one, snapshots are inline.
#
#   img/VOL		the image of a volume, as it is now
#   want/VOL@N		what that version must be
# shellcheck disable=SC2034,SC2154 # its users have some of the variables, and bats

bats_require_minimum_version 1.5.0

load "${BASH_SOURCE[0]%/*}/../guest/lib/trace"

# live_setup: an empty directory, and no pool.
live_setup() {
	build=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build/pool}")
	# With sanitizers, or what else there is to run it in.
	read -r -a ctl <<<"${CTL:-$build/ctl/revdedupctl}"
	cd "$BATS_TEST_TMPDIR" || return
	export REVDEDUP_POOL=$PWD/pool TZ=UTC
	mkdir img want out
	seed=${SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
	RANDOM=$seed
	# Half of the tests compress, with another seed the other half.
	compression=$([ $(((seed + BATS_TEST_NUMBER) % 2)) -eq 0 ] && echo none || echo zstd)
	compression=${COMPRESSION:-$compression}
	pieces=$([ $(((seed / 2 + BATS_TEST_NUMBER) % 2)) -eq 0 ] && echo 1 || echo 64)
	pieces=${PIECES:-$pieces}
	made_with=(--compression "$compression" --pieces "$pieces")
	[ "$pieces" = 1 ] || made_with+=(--dedup inline)
	echo "SEED=$seed COMPRESSION=$compression PIECES=$pieces"
}

# fail_test TEXT: say it, and end the test.
fail_test() {
	echo "SEED=$seed: $*"
	return 1
}

# must COMMAND...: it ends with 0. Its output is in out/must.
must() {
	"${ctl[@]}" "$@" >out/must 2>&1 ||
		fail_test "status $?: revdedupctl $*"$'\n'"$(cat out/must)" || return
	# Who takes longer than a second says so.
	[[ $* != *--json* ]] || sed -i '/^{"type": "progress"/d' out/must
}

# ask QUERY: prints what the catalog says, a row a line. It is a copy that is asked: SQLite
# writes a log home that a command has left, and knows nothing of the page map.
ask() {
	rm -rf asked
	mkdir asked
	cp pool/catalog.db* asked
	sqlite3 -separator ' ' asked/catalog.db "$1"
}

# fill_journal BLOCK: until its end is in that block. In a build for tests 79 is the last of a frame.
fill_journal() {
	local at nr
	for nr in {1..300}; do
		at=$(ask "SELECT journal_block FROM state") || return
		[ "$at" -ne "$1" ] || return 0
		must tag v@1 "+t$nr" || return
	done
	fail_test "the end of the journal never was in block $1, but in $at"
}

# lengthen_journal: a new one will come when it is longer than a frame, in a build for tests.
lengthen_journal() {
	# shellcheck disable=SC2046 # words
	must tag v@1 $(printf "+t%050d " {1..1000})
}

# scribble VOL: change the image of a volume, or make it.
scribble() {
	"$build/scribble" "$RANDOM" "img/$1" "${blocks:-3000}"
}

# made FILE: prints the version that the snapshot with this output has made.
made() {
	sed -n 's/^\([^: ]*@[0-9]*\): \(full read\|[0-9]* changed\).*/\1/p' "$1"
}

# took VOL FILE: the snapshot with that output has taken the image as it is.
took() {
	local version
	version=$(made "$2")
	[ -n "$version" ] || fail_test "no version was made: $(cat "$2")"
	cp --sparse=always "img/$1" "want/$version"
}

# take VOL...: change each, and take a version.
take() {
	local vol
	for vol; do
		scribble "$vol"
		must snapshot "$vol" --from "img/$vol"
		took "$vol" out/must
	done
}

# some_versions VOL...: of three volumes, and then of these; and what comes next is
# in their images.
some_versions() {
	local vol
	must init pool --size 1G --reserve 1M "${made_with[@]}"
	take vm1 vm2 vm1 vm3 vm1 vm2 vm3 vm1 "$@"
	for vol in vm1 vm2; do
		scribble "$vol"
	done
	cp img/vm1 img/vm9
}

# keep_base: what there is now is what from_base brings back.
keep_base() {
	rm -rf base
	mkdir base
	cp -r --sparse=always pool base
	cp -rl want base
}

from_base() {
	rm -rf pool want
	cp -r --sparse=always base/pool .
	cp -rl base/want .
}

# log_steps COMMAND...: run it; the steps it comes through are in log.
log_steps() {
	rm -f log
	REVDEDUP_FAIL_LOG=$PWD/log must "$@"
}

# some_steps BEFORE [EVERY [SKIP]]: prints number and name of one for each step in log
# and those one or two that it comes after; each EVERYth only, and none like SKIP.
some_steps() {
	awk -v two="$(($1 - 1))" -v every="${2:-1}" -v skip="${3:-^$}" '
		$1 ~ skip { next }
		!seen[two ? before : "", last, $1]++ && nr++ % every == 0 { print NR, $1 }
		{ before = last; last = $1 }' log
}

# part_of_every N PARTS: print so many PARTS of EVERY, rounded up, for commands of fewer steps.
part_of_every() { echo $(((${EVERY:-1} + $2 - 1) * $1 / $2)); }

# stop_at STEP COMMAND...: $pid is stopped there, or has ended: what comes before
# the step is not always the same.
stop_at() {
	local state
	REVDEDUP_FAIL=$1=stop "${ctl[@]}" "${@:2}" <&0 >out/stopped 2>&1 3>&- &
	pid=$!
	while :; do
		read -r _ _ state _ 2>/dev/null <"/proc/$pid/stat" || return 0
		[[ $state != [TZ] ]] || return 0
		sleep 0.005
	done
}

# go_on: and it ends as it should.
go_on() {
	local status=0
	kill -CONT "$pid" 2>/dev/null || :
	wait "$pid" || status=$?
	pid=
	[ "$status" -eq 0 ] || fail_test "$stopped: status $status: $(cat out/stopped)"
}

# live_teardown: end what is stopped.
live_teardown() {
	[ -z "${pid:-}" ] || kill -KILL "$pid" 2>/dev/null || :
}

# is_right VERSION: it can be read, and is what it must be.
is_right() {
	timeout 600 "${ctl[@]}" dump "$1" 2>out/dump-errors | cmp - "want/$1" ||
		fail_test "$1 is not what it was: $(cat out/dump-errors)"
}

# all_right: there are the versions that there must be, and they are what they
# must be, and what the catalog counts is what there is.
all_right() {
	local version
	must list || return
	diff <(ls want) <(awk 'NR > 1 && !/ is arriving: / { print $1 }' out/must | sort) ||
		fail_test "< must be there, > are there" || return
	for version in want/*; do
		[ ! -e "$version" ] || is_right "${version#want/}" || return
	done
	must check
}

# say TEXT: it is printed with the test.
say() {
	echo "# $*" >&3
}
