#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The cost of a command follows what it changes. Each test has a reason why the command could
# cost far more, and measures it against a bound that it would then miss by a wide margin:
# in bytes read, or in instructions beside another command of the same run.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ctl=${CTL:?revdedupctl}
	export REVDEDUP_POOL=$PWD/pool
	"$ctl" init --compression none -q --size 1T "$REVDEDUP_POOL"
}

# scatter FILE SEGMENTS FIRST STEP BLOCK SEED: random content in that block of each STEPth
# segment from FIRST on. Prints the ranges, for --changed.
scatter() {
	python3 - "$@" <<-'END'
		import os, random, sys
		nr, first, step, block, seed = map(int, sys.argv[2:])
		random.seed(seed)
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		os.truncate(fd, nr << 21)
		for segment in range(first, nr, step):
		    offset = (segment << 21) + block * 4096
		    os.pwrite(fd, random.randbytes(4096), offset)
		    print(offset, 4096)
	END
}

# instructions POOL COMMAND...: prints how many the command takes. In all runs they are the same,
# but for some thousand. valgrind does not get on with io_uring.
instructions() {
	REVDEDUP_NO_URING=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$ctl" --pool "$@" >log 2>&1 || { cat log >&2; return 1; }
	sed -n 's/^.*Collected : //p' log
}

# bytes_read COMMAND...: sets bytes.
bytes_read() {
	local before after
	read -r _ before </proc/$BASHPID/io
	"$@"
	read -r _ after </proc/$BASHPID/io
	bytes=$((after - before))
}

@test "a newest version in pieces: the next snapshot follows their number" {
	local first pieces
	scatter img 2048 0 1 0 1 >/dev/null
	scatter img 2048 0 1 1 2 >/dev/null
	cp --sparse=always img old
	first=$(instructions pool -q snapshot v --from img)
	scatter img 2048 0 1 0 3 >/dev/null
	"$ctl" -q snapshot v --from img
	"$ctl" -q delete v@2
	echo "version 1" >changed
	pieces=$(instructions pool snapshot v --from old --changed changed --json)
	echo "first: $first, of pieces: $pieces"
	grep -q '"segments_pieces": 2048' log
	[ "$pieces" -le $((2 * first)) ]
}

# snapshot_reads NUMBER: sets bytes, of a snapshot after that version, with a list of changes.
snapshot_reads() {
	printf 'version %s\n0 4096\n' "$1" >changed
	head -c 4096 /dev/urandom | dd of=img bs=4096 conv=notrunc status=none
	bytes_read "$ctl" -q snapshot v --from img --changed changed
}

@test "a list of changes: recipes that are not in pieces cost nothing" {
	local few
	head -c $((2 << 20)) /dev/urandom >img
	"$ctl" -q snapshot v --from img
	snapshot_reads 1
	snapshot_reads 2
	few=$bytes
	# As if there were some hundred thousand.
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db "WITH RECURSIVE
		id(n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM id WHERE n < 200000)
		INSERT INTO uses SELECT n, 1, 1, 1, NULL FROM id"
	snapshot_reads 3
	echo "few: $few bytes, many: $bytes bytes"
	[ "$bytes" -le $((few + (1 << 20))) ]
}

@test "a volume that was changed here and there: fingerprints are read once" {
	local i
	scatter img 2048 0 1 0 1 >/dev/null
	"$ctl" -q snapshot v --from img
	for i in {1..16}; do
		echo "version $i" >changed
		scatter img 2048 $((i - 1)) 16 0 $((i + 1)) >>changed
		"$ctl" -q snapshot v --from img --changed changed
	done
	# What it takes the place of is nowhere in the newest version, which is all looked at.
	echo "version 17" >changed
	scatter img 2048 2 2048 0 99 >>changed
	bytes_read "$ctl" -q snapshot v --from img --changed changed
	echo "$bytes bytes"
	# There are 16 MiB of them, in chunks of which a part is of older versions.
	[ "$bytes" -le $((96 << 20)) ]
}

@test "restore over a file that is mostly a hole" {
	truncate -s 4T img
	for i in 0 1000000 4000000; do
		dd if=/dev/urandom of=img bs=1M seek="$i" count=1 conv=notrunc status=none
	done
	"$ctl" -q snapshot v --from img
	truncate -s 4T over
	# There are data and zeros, zeros and data, and both.
	for i in 0 7 4000000; do
		dd if=/dev/urandom of=over bs=1M seek="$i" count=2 conv=notrunc status=none
	done
	timeout 600 "$ctl" restore v@1 --to over --yes --json | tee out
	grep -q '"bytes_written": 3145728' out
	# Of the rest nothing needed to be read, nor to be written.
	grep -q "\"bytes_same\": $(((4 << 40) - (7 << 20)))," out
	for i in 0 6 1000000 3999998 4000000; do
		cmp -n $((8 << 20)) -i "$((i << 20))" img over
	done
	[ "$(stat -c %s over)" -eq $((4 << 40)) ]
	# A new file takes no longer.
	timeout 600 "$ctl" -q restore v@1 --to new
	cmp -n $((8 << 20)) -i $((999998 << 20)) img new
}

@test "restore over a file that is a hole costs what a new one costs" {
	local new over
	scatter img 524288 5 2100 9 1 >changed
	"$ctl" -q snapshot v --from img
	new=$(instructions pool restore v@1 --to new)
	truncate -s 1T over
	over=$(instructions pool restore v@1 --to over --yes)
	echo "$new, and over a hole $over"
	[ "$over" -le $((2 * new)) ]
	while read -r offset len; do
		cmp -n "$len" -i "$offset" img over
	done <changed
}

# is_linear COMMAND...: what four times as many versions cost, beside what the first ones do: up
# to 4.4 times as much for up to 3.1 times as many more.
is_linear() {
	local one few many
	one=$(instructions one "$@")
	few=$(instructions few "$@")
	many=$(instructions pool "$@")
	echo "$*: $one with 1 version, $few with $((versions / 4)), $many with $versions"
	[ $((10 * (many - few))) -le $((44 * (few - one))) ]
}

@test "commands follow the number of versions" {
	local i versions=120
	[ -z "${SOAK:-}" ] || versions=480
	head -c $((2 << 20)) /dev/urandom >img
	"$ctl" -q snapshot v --from img
	for ((i = 1; i < versions; i++)); do
		# Each in another place, so that old versions need the block of each later one.
		printf 'version %s\n%s 4096\n' $i $((i * 4096)) >changed
		head -c 4096 /dev/urandom | dd of=img bs=4096 seek=$i conv=notrunc status=none
		"$ctl" -q snapshot v --from img --changed changed
		[ $i -ne 1 ] || cp -r --sparse=always pool one
		[ $i -ne $((versions / 4)) ] || cp -r --sparse=always pool few
	done
	is_linear check
	# The recipe of a version refers to that of the next one, and so on.
	is_linear stats --isolation
	is_linear scrub
	is_linear prune -n --keep-last 1
}
