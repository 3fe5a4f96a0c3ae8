# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of programs through their command lines, which `load lib`.
# shellcheck disable=SC2034,SC2154 # its users have some of the variables, and bats

load "${BASH_SOURCE[0]%/*}/../guest/lib/trace"

# $build: where tests/unit/Makefile put the programs.
cli_setup() {
	build=${BUILD:-$BATS_TEST_DIRNAME/../../build/unit}
	cd "$BATS_TEST_TMPDIR" || return
	[ -z "${SEED:-}" ] || RANDOM=$SEED
}

# detach LOOP: the kernel leaves it for the last one who has it open, and others look at all loop
# devices now and then, as our commands do.
detach() {
	local file i
	file=$(losetup --noheadings --output BACK-FILE "$1")
	losetup --detach "$1"
	for ((i = 0; i < 6000; i++)); do
		[ "$(losetup --noheadings --output BACK-FILE "$1" 2>/dev/null)" = "$file" ] || return 0
		sleep 0.02
	done
	echo "'$1' is still made of '$file'"
	return 1
}

# cli_teardown PID: end that process, if there is one, unmount mnt, and detach $loop.
cli_teardown() {
	if [ -n "$1" ]; then
		kill "$1" 2>/dev/null || :
		wait "$1" || :
	fi
	! mountpoint -q mnt || umount mnt
	[ ! -b "${loop:-}" ] || losetup --detach "$loop"
}

# expect STATUS: the status, and all of the output from standard input.
expect() {
	local wanted
	wanted=$(cat)
	if [ "$status" -ne "$1" ] || [ "$output" != "$wanted" ]; then
		echo "status $status, wanted $1; < is wanted, > is what came"
		diff <(echo "$wanted") <(echo "$output")
		return 1
	fi
}

# damage FILE BLOCK: the copy that the pool has of a block of an image.
damage() {
	python3 -c 'import os, sys
block = open(sys.argv[1], "rb").read()[int(sys.argv[2]) * 4096:][:4096]
with open("pool/data", "r+b") as data:
    fd, end, at = data.fileno(), 0, -1
    # Most of it is a hole, which takes as long to read as content.
    while at < 0:
        start = os.lseek(fd, end, os.SEEK_DATA)
        end = os.lseek(fd, start, os.SEEK_HOLE)
        at = os.pread(fd, end - start, start).find(block)
    data.seek(start + at + 1234)
    data.write(b"damaged")' "$@"
}
