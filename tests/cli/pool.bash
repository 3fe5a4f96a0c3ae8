# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the tests of revdedupctl on small images share: BUILD is where tests/unit/Makefile
# built it with sanitizers.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load "${BASH_SOURCE[0]%/*}/lib"

setup() {
	cli_setup
	export TZ=UTC
	unset REVDEDUP_POOL
	export REVDEDUP_CONFIG=$PWD/etc
}

teardown() { cli_teardown "${holder:-}"; }

# A command that takes more than a second says how far it is: that depends on the machine.
ctl() {
	run "$build/bin/revdedupctl" "$@"
	if [[ $output == *'{"type": "progress"'* && $* != *--progress* ]]; then
		output=$(sed '/^{"type": "progress"/d' <<<"$output")
		mapfile -t lines <<<"$output"
	fi
}

# must COMMAND...: it ends with 0; its output is there.
must() {
	ctl "$@"
	[ "$status" -eq 0 ] || {
		echo "status $status: revdedupctl $*"
		echo "$output"
		return 1
	}
}

# field LINE PATH: of that line of the output, which is JSON; from 0 on, or -1. PATH is as in Python,
# and so is what is printed, but Python takes ten times as long to start.
field() {
	local all=${output//$'\n'/,} path=${2//'["'/'."'} line=$1
	path=\$[${line/#-/#-}]${path//'"]'/'"'}
	sqlite3 <<-END
		WITH found(json, path) AS (VALUES ('[${all//"'"/"''"}]', '$path'))
		SELECT CASE json_type(json, path) WHEN 'true' THEN 'True' WHEN 'false' THEN 'False'
			WHEN 'null' THEN 'None' ELSE coalesce(json_extract(json, path), json('-')) END
		FROM found;
	END
}

# blocks FILE FIRST NR: fill these blocks of 4 KiB with what is nowhere else.
blocks() {
	dd if=/dev/urandom of="$1" bs=4096 seek="$2" count="$3" iflag=fullblock \
		conv=notrunc status=none
}

# plainly COMMAND...: run it by the programs in PLAIN, if that is set. They have no sanitizers, and
# start in a quarter of the time. It is for what a test begins with, or does very often.
plainly() {
	local build=${PLAIN:-$build}
	"$@"
}

# make_pool SIZE: and REVDEDUP_POOL. Its data area is sparse.
make_pool() {
	plainly must init --compression none pool --size "$1"
	export REVDEDUP_POOL=$PWD/pool
}

# made_once COMMAND: have what it makes here, and its pool. It runs once a file: each test has a copy.
made_once() {
	local made=$BATS_FILE_TMPDIR/$1
	if [ ! -d "$made" ]; then
		mkdir "$made.new"
		(cd "$made.new" && plainly "$1")
		mv "$made.new" "$made"
	fi
	cp -a "$made/." .
	export REVDEDUP_POOL=$PWD/pool
}

# 1.img to 3.img of 6 MiB, vm1@1 to vm1@3: two blocks change, then two others.
make_versions() { made_once fill_versions; }

fill_versions() {
	make_pool 128M
	truncate -s 6M 1.img
	blocks 1.img 0 600
	cp --sparse=always 1.img 2.img
	blocks 2.img 10 2
	cp --sparse=always 2.img 3.img
	blocks 3.img 510 4
	for nr in 1 2 3; do
		must snapshot vm1 --from "$nr.img"
	done
}

# Set the time of a version, which no command does.
set_time() {
	"$BATS_TEST_DIRNAME/edit-catalog.py" pool/catalog.db \
		"UPDATE version SET time = ? WHERE number = ?" "$(date -d "$2" +%s)" "$1"
}

# hold CLASS ID [shared]: have a lock of the pool, as in userspace/base/lock.h,
# until the test ends. POOL is 0, VOLUME 4, VERSION 5.
hold() {
	python3 -c 'import fcntl, struct, sys, time
data = open("pool/data", "r+b")
kind = fcntl.F_RDLCK if len(sys.argv) > 3 else fcntl.F_WRLCK
lock = (int(sys.argv[1]) + 1 << 48) + int(sys.argv[2])
fcntl.fcntl(data, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, 0, lock, 1, 0))
open("held", "w").close()
time.sleep(3600)' "$@" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.01; done
}

# hold_image FILE: have a lock of it as QEMU has, until drop.
hold_image() {
	python3 -c 'import fcntl, struct, sys, time
file = open(sys.argv[1], "r+b")
lock = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 100, 1, 0)
fcntl.fcntl(file, 37, lock) # F_OFD_SETLK
open("held", "w").close()
time.sleep(3600)' "$1" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.01; done
}

# keep_on EXPRESSION: evaluate it again and again, with i counting and os, until drop.
keep_on() {
	python3 -c 'import os, sys, time
for i in range(1000000):
    eval(sys.argv[1])
    if not i:
        open("held", "w").close()
    time.sleep(0.001)' "$1" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.01; done
}

drop() {
	kill "$holder"
	wait "$holder" || :
	holder=
	rm held
}

# block_in_each FILE NR: an image of so many segments, with a block of data in each.
block_in_each() {
	local seg
	truncate -s $(($2 * 2))M "$1"
	for ((seg = 0; seg < $2; seg++)); do
		blocks "$1" $((seg * 512 + seg)) 1
	done
}

# unchanged_since N: a version of 1.img; nobody says that something changed since vm1@N.
unchanged_since() {
	echo "version vm1@$1" >list
	must snapshot vm1 --from 1.img --changed list
}

# audit_all: take 64 versions of 1.img of which nobody says that something changed, so
# that each segment is audited. Sets found to how many found something.
audit_all() {
	local newest nr
	newest=$(ask "SELECT max(number) FROM version")
	found=0
	for nr in {0..63}; do
		plainly unchanged_since "$((newest + nr))"
		[[ $output != *"had changed"* ]] || found=$((found + 1))
	done
}

# super_format NUMBER [COMPATIBLE FOR-READING INCOMPATIBLE]: make both superblocks say this,
# and print the features that they had.
super_format() {
	"$BATS_TEST_DIRNAME/edit-super.py" pool/data "$@"
}

# is_marked VERSION True|False: is it consistent, as all tell it that can?
is_marked() {
	must show "$1" --json
	[ "$(field 0 '["consistent"]')" = "$2" ]
	must show "$1"
	[ "${lines[15]}" = "consistent:     $([ "$2" = True ] && echo yes || echo "no: it may have been written while it was read")" ]
	must list
	[ "$(grep -c "^$1 .*not consistent" <<<"$output")" = "$([ "$2" = True ] && echo 0 || echo 1)" ]
	must restore "$1" --to r.img --yes
	[[ $2 == True || $output == *"warning: $1 is not consistent: it may have been written while it was read"* ]]
	[[ $2 == False || $output != *"consistent"* ]]
}

# edit SQL: change the catalog as no command does.
edit() {
	"$BATS_TEST_DIRNAME/edit-catalog.py" pool/catalog.db "$@"
}

# ask SQL: the one value that it gives, also while a command has the catalog locked.
ask() { sqlite3 -cmd '.timeout 60000' -separator ' ' pool/catalog.db "$1"; }
