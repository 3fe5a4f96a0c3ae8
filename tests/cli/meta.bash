# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the tests of revdedup-meta share.
# shellcheck disable=SC2154 # by lib.bash
load lib

setup() { cli_setup; }

teardown() {
	local disk
	[ ! -d mnt ] || umount mnt 2>/dev/null || :
	for disk in "${loops[@]}"; do
		[ "$disk" = "$loop" ] || losetup --detach "$disk"
	done
	cli_teardown "${claimer:-}"
}

loops=()

meta() {
	run "$build/bin/revdedup-meta" "$@"
}

make_image() {
	"$build/mkmeta" make "$@"
}

# tail_is STATUS: the same for the last lines only, as many as are given.
tail_is() {
	local wanted
	wanted=$(cat)
	output=$(tail -n "$(wc -l <<<"$wanted")" <<<"$output")
	expect "$1" <<<"$wanted"
}

field() {
	python3 -c 'import json, sys; print(json.load(sys.stdin)'"$1"')' \
		<<<"$output"
}

# refused TEXT WHAT: no file is left of it.
refused() {
	printf '%b' "$1" >text
	meta make a.img --sectors 4096 text
	expect 1 <<<"revdedup-meta: 'text', line $2"
	[ ! -e a.img ]
}

# half_home SEED SECTORS: a table, a base and a pool; what is right, in `right`.
half_home() {
	python3 "$BATS_TEST_DIRNAME/places.py" random "$1" $((($2 + 7) / 8)) 8192 >text
	rm -f a.img
	"$build/bin/revdedup-meta" make a.img --sectors "$2" text >/dev/null
	[ -e pool ] || head -c 32M /dev/urandom >pool
	head -c $(($2 * 512 + 5000)) /dev/urandom >base
	cp base right
	python3 "$BATS_TEST_DIRNAME/places.py" apply "$2" text right pool
}

# unchanged STATUS: it was refused, with the text from standard input.
unchanged() {
	expect "$1"
	cmp a.img before.img
	cmp base before
}
