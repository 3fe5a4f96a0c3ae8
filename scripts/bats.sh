#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: bats.sh [OPTION]... FILE.bats...
#
# Run tests by bats, with these options of bats, and print TAP: as many files at a time as
# there are processors, each by a process of its own. ("bats --jobs" looks once a second
# whether a test has ended.) With FILTER in the environment, only the tests whose names match
# it run, see "bats -f"; JOBS says how many files at a time. Tests with the tag "soak" run only
# with SOAK in the environment, or where names are asked for; with FAST there, those with the tag
# "slow" do not.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

options=() tags='' named=${FILTER:+yes}
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	-f | --filter) options+=("$1" "${2:?}") named=yes; shift ;;
	--filter-tags) tags=${2:?}; shift ;;
	-*) options+=("$1") ;;
	*) break ;;
	esac
	shift
done
[ $# -gt 0 ] || usage_error "no file given"
[ -z "${FILTER:-}" ] || options+=(-f "$FILTER")
[ -n "${SOAK:-}$named" ] || tags+="${tags:+,}!soak"
[ -z "${FAST:-}" ] || [ -n "$named" ] || tags+=",!slow"
[ -z "$tags" ] || options+=(--filter-tags "$tags")

# Only for a test that hangs, as one does that waits for a process which has died.
[ -n "${SOAK:-}" ] || export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-1800}

# For each test the disk seeks, so that a pool of which it says no more has one piece.
export REVDEDUP_MEASURED=4000,4000,4000,5000,10000

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-bats.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# Lines of two files must not mix, so they are printed when their file has ended.
run_file() {
	local file=$1 begin=$SECONDS status=0 lock out
	out=$(mktemp "$dir/XXXXXX")
	bats --tap "${options[@]}" "$file" >"$out" 2>&1 || status=1
	exec {lock}>>"$dir/lock"
	flock "$lock"
	echo "# $file: $((SECONDS - begin)) s"
	cat "$out"
	exec {lock}>&-
	return "$status"
}

running=0 status=0
for file; do
	[ -e "$file" ] || die "no such file: '$file'"
	if [ "$running" -ge "${JOBS:-$(nproc)}" ]; then
		wait -n || status=1
		running=$((running - 1))
	fi
	run_file "$file" &
	running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
	wait -n || status=1
	running=$((running - 1))
done
exit "$status"
