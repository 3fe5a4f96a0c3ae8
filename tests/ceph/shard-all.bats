#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# A pool in RADOS in all that a pool can do, by two hosts in turn. What each version must be is in
# the file that is called like it.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell, and knows it; by pool.bash
export OSDS=3
load ceph
bats_require_minimum_version 1.5.0

setup() {
	build=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build/nbd}")
	cd "$BATS_TEST_TMPDIR" || return
	# Debian's Python has libnbd.
	export PATH=/usr/bin:$PATH
	unset REVDEDUP_POOL
	shard=p/test$BATS_TEST_NUMBER
	cluster pool p 3 2>/dev/null || true
	truncate -s 8M disk
	join b
}

teardown() {
	local host
	for host in a b; do
		on "$host" unexport --all -q || :
	done
	[ -n "${holder:-}" ] || return 0
	kill -KILL "$holder" 2>/dev/null || :
	wait "$holder" || :
}

# make [OPTION...]: the pool, by the host a.
make() { on a init "$PWD/a" --data "ceph:$shard" --size 2G --quiet "$@"; }

# texts FIRST NR: fill these blocks of the disk with what compresses.
texts() {
	basenc --base16 /dev/urandom | head -c $(($2 * 4096)) |
		dd of=disk bs=4096 seek="$1" iflag=fullblock conv=notrunc status=none
}

# shifted FROM FIRST NR TO: make the disk of these blocks of an image, elsewhere.
shifted() {
	rm -f disk
	truncate -s 8M disk
	dd if="$1" skip="$2" count="$3" of=disk seek="$4" bs=4096 conv=notrunc status=none
}

# take HOST VOLUME [OPTION...]: a version of the disk; `of` has what its report says.
take() {
	run -0 on "$1" snapshot "$2" --from disk --json "${@:3}"
	cp --sparse=always disk "$(of version)"
}

# of NAME: what the last line of the output has for it.
of() { output=$(grep '^{' <<<"$output") field -1 "[\"$1\"]"; }

# versions: their names.
versions() { find . -maxdepth 1 -name '*@*' -printf '%f\n' | sort -V; }

# sound HOST...: there all versions are right, and so is all else.
sound() {
	local host version
	for host; do
		for version in $(versions); do
			on "$host" dump "$version" | cmp - "$version"
		done
		run -0 on "$host" check
		[[ $output == *"($(versions | wc -l) version"* ]]
	done
}

# gone VERSION...: they are deleted by now.
gone() { rm -- "$@"; }

# damage OBJECT [BLOCK NR]: put noise into these blocks of an object of the shard; else remove it.
damage() {
	if [ $# -eq 1 ]; then
		in_shard rm "$1"
		return
	fi
	in_shard get "$1" object
	dd if=/dev/urandom of=object bs=4096 seek="$2" count="$3" conv=notrunc status=none
	in_shard put "$1" object
}

# with CONTENT|FINGERPRINT VERSION BLOCK: print the object that has it, and in which block.
with() {
	local object
	for object in $(in_shard ls | grep rbd_data); do
		in_shard get "$object" object
		python3 -c 'import hashlib, sys
what, version, block, name = sys.argv[1:]
content = open(version, "rb").read()[int(block) * 4096:][:4096]
if what == "FINGERPRINT":
    content = hashlib.sha256(content).digest()[:16]
at = open("object", "rb").read().find(content)
at < 0 and sys.exit(1)
print(name, at // 4096)' "$@" "$object" && return
	done
	return 1
}

# owner HOST: it is that, as the other ones see it.
owner() {
	run -0 on b status
	[[ $output == *"owner:       $1, since"* ]]
}

@test "inline deduplication and pieces, by two hosts in turn" {
	make --compression zstd --dedup inline --pieces 64
	blocks disk 0 1200
	texts 1200 500
	take a vm
	for nr in 3 140 141 700 1300; do
		blocks disk "$nr" 1
	done
	take a vm
	[ "$(of bytes_stored)" = $((5 * 4096)) ]
	[ "$(of segments_in_part)" -ge 2 ]
	# The index is made of the shard there.
	shifted vm@1 100 1000 177
	take b shifted
	[ "$(of bytes_stored)" -lt $((100 * 4096)) ]
	shifted vm@1 1000 700 33
	blocks disk 40 2
	take b shifted
	blocks disk 41 2
	take a shifted
	sound a b
	on b scrub
	on a delete vm@1 shifted@1 --yes
	gone vm@1 shifted@1
	sound a b
	on a scrub
}

@test "the pass, content that is stored anew, and catalogs" {
	local host
	make --compression none --dedup reverse --pieces 1
	blocks disk 0 600
	take a one
	shifted one@1 0 600 70
	take a two
	texts 0 1400
	take a one
	take a two
	run -0 on b dedup --older 0 --json
	[ "$(of bytes_given_up)" = $((600 * 4096)) ]
	sound a
	run -0 on a recompress zstd:3 --json
	[ "$(of bytes_after)" -lt "$(of bytes_before)" ]
	sound b
	blocks disk 7 3
	take b one
	texts 900 3
	take b two --compression none
	on b recompress none
	sound a
	for host in a b; do
		on "$host" repair --rebuild-catalog
	done
	sound a b
	on a dedup --older 0
	on a recompress zstd
	on b scrub
	on b prune one --keep-last 1 --yes
	on a prune two --keep-last 1 --yes
	gone one@1 one@2 two@1 two@2
	sound a b
	on a delete one@3 two@3 --yes
	run -0 on b stats --json
	[ "$(of bytes_data)" = 0 ]
	[ "$(in_shard ls | wc -l)" -le 6 ]
}

@test "what is damaged or lost is named, and healed from copies and images" {
	local object block
	make --compression none --pieces 1
	blocks disk 0 2048
	take a vm
	blocks disk 5 3
	take a vm
	on a copies 100% --to "$PWD/copies" --force
	read -r object block < <(with CONTENT vm@1 700)
	damage "$object" "$block" 2
	run -4 on b scrub
	[[ $output == *"damaged: offset $((700 * 4096)), length 8192 in vm@1, 2"* ]]
	[[ $output == *"what the host that owns the pool has moved or freed meanwhile looks damaged"* ]]
	run -4 on a scrub
	[[ $output != *"the host that owns the pool"* ]]
	# The host with the copies takes them from there.
	run -0 on a restore vm@2 --to out
	[[ $output == *"2 damaged blocks were taken from the copies"* ]]
	cmp out vm@2
	run -0 on a repair
	[[ $output == *"2 blocks damaged, 2 healed"* ]]
	damage "$object"
	run -4 on b restore vm@2 --to lost
	[[ $output == *"has moved or freed meanwhile looks damaged here: repeat the command"* ]]
	run -0 on a repair
	[[ $output == *"512 blocks damaged, 512 healed"* ]]
	sound a b
	on a copies 0
	[ ! -e copies ]
	damage "$object"
	run -4 on a repair
	run -0 on b repair --from vm@2
	[[ $output == *"512 blocks damaged, 512 healed"* ]]
	sound a b
	on b scrub
}

@test "the copy of the catalog, fingerprints and a superblock are made again" {
	local object block head
	make --compression none --pieces 1
	blocks disk 0 2048
	take a vm
	for object in $(in_shard ls | grep rbd_data | sort); do
		in_shard get "$object" object
		head=$(head -c 4 object | tr -d '\0')
		[ "$head" != RDJ1 ] || damage "$object" 1 1
		# One of two.
		[ "$head" != RVDP ] || damage "$object" 0 1
	done
	run -4 on a check
	run -0 on a repair
	[[ $output == *"the copy of the catalog was damaged, and was made again"* ]]
	sound a b
	read -r object block < <(with FINGERPRINT vm@1 700)
	damage "$object" "$block" 1
	run -4 on b scrub
	[[ $output == *"fingerprints are damaged"* ]]
	run -0 on b repair
	on a scrub
	sound a b
}

@test "a pool that is full grows, and others see it" {
	make --size 64M --compression none --pieces 1
	truncate -s 80M disk
	blocks disk 0 18000
	run -12 on a snapshot vm --from disk
	on a grow --size 200M
	take b vm
	sound a b
	# Without a size it gets that of a new one.
	run -0 on a grow
	[[ $output == *"has room for 1020.0 GiB now"* ]]
	sound b a
}

@test "versions are sent from a shard and received into one" {
	make --compression zstd
	blocks disk 0 900
	texts 900 500
	take a vm
	blocks disk 100 3
	take a vm
	shifted vm@2 50 700 300
	take a other
	mkdir local
	(
		cd local
		"$build/bin/revdedupctl" init pool --size 256M --quiet
	)
	on a send vm --to "$PWD/local/pool"
	on a send --all --to "$PWD/local/pool"
	for version in $(versions); do
		"$build/bin/revdedupctl" --pool local/pool dump "$version" | cmp - "$version"
	done
	# Into another shard, by a program in between; and as a stream.
	# shellcheck disable=SC2016 # it is another shell that expands it
	printf '#!/bin/sh\nshift\nPATH=%s:$PATH exec sh -c "$1"\n' "$build/bin" >rsh
	chmod +x rsh
	on c init "$PWD/c" --data "ceph:$shard-2" --size 2G --quiet --dedup inline \
		--pieces 64
	run -0 on b send --all --to "x:$PWD/c" --rsh "$PWD/rsh"
	mkdir -m 700 d
	ln -s "ceph:$shard-2" d/data
	sound c d
	on d receive vm --from "$PWD/local/pool" --as new
	cp vm@1 new@1
	cp vm@2 new@2
	on a send other | on c receive --as stream
	cp other@1 stream@1
	sound d c
	# What is there already is not stored a second time.
	run -0 on c stats --json
	[ "$(of bytes_unique)" -lt $((1500 * 4096)) ]
	on c scrub
}

# stopped_at STEP COMMAND...: the host a has got there; its process is $holder. Other files of tests
# run beside this one, so that no other command may be like it.
stopped_at() {
	REVDEDUP_FAIL=$1=stop on a "${@:2}" >out.a 2>&1 3>&- &
	running=$!
	until [ -n "${holder:-}" ] && [[ $(ps -o stat= "$holder") == T* ]]; do
		kill -0 "$running"
		sleep 0.02
		holder=$(pgrep -nf "^$build/bin/revdedupctl ${*:2}") || :
	done
}

go_on() {
	kill -CONT "$holder"
	holder=
	wait "$running"
}

@test "another host reads, sends and exports beside the owner's command" {
	make --compression zstd --pieces 64 --dedup inline
	blocks disk 0 1000
	texts 1000 400
	take a vm
	blocks disk 100 3
	take a vm
	# It is not taken over for that, even where it could be.
	mkdir local
	"$build/bin/revdedupctl" init local/pool --size 256M --quiet
	on b send vm@1 --to "$PWD/local/pool"
	on b export vm@1 --background
	owner a
	on b unexport --all
	owner a
	blocks disk 900 20
	stopped_at snapshot-batch snapshot --tag beside vm --from disk
	on b send vm --to "$PWD/local/pool"
	on b export vm@2 --background
	on b export --all --background --unix "$PWD/all"
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@2?socket=$PWD/run-b/vm@2.sock" \
		vm@2 --random 50
	go_on
	cp disk vm@3
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@1?socket=$PWD/all" vm@1 --random 50
	on b unexport vm@2
	# It shows what there was when it began.
	run ! nbdinfo "nbd+unix:///vm@3?socket=$PWD/all"
	on b unexport --all
	on b export vm@3 --background
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@3?socket=$PWD/run-b/vm@3.sock" vm@3
	owner a
	for version in vm@1 vm@2; do
		"$build/bin/revdedupctl" --pool local/pool dump "$version" | cmp - "$version"
	done
	sound a b
}

# serve_all: all versions on b at the socket "all", without a command of ours; log has what it says.
serve_all() {
	REVDEDUP_POOL=$PWD/b nbdkit --foreground --unix "$PWD/all" --pidfile "$PWD/pid" \
		"$build/bin/nbdkit-revdedup-plugin.so" pool="$PWD/b" >log 2>&1 3>&- &
	holder=$!
	until [ -e pid ]; do
		kill -0 "$holder"
		sleep 0.02
	done
}

@test "what the owner moves beneath another host's export is an error, and never a wrong byte" {
	make --compression zstd --pieces 1
	texts 0 1400
	take a vm
	mkdir -p run-b
	serve_all
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@1?socket=$PWD/all" vm@1
	on a recompress none
	blocks disk 0 2048
	take a vm
	run -1 "$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@1?socket=$PWD/all" vm@1
	[[ $output != *differs* ]]
	grep -F "the pool is only read" log
	run ! grep -F "readonly database" log
	grep -F "vm@1: damaged, or moved by the host that owns the pool: offset 0" log
	on b export vm@1 --background
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@1?socket=$PWD/run-b/vm@1.sock" vm@1
	owner a
}

@test "places that have other content in part are an error as a whole" {
	local segment
	make --compression none --pieces 1
	blocks disk 0 2048
	take a vm
	on b list
	serve_all
	# When it answers, it has read the catalog: its pid is there before.
	nbdinfo --size "nbd+unix:///vm@1?socket=$PWD/all"
	on a delete vm@1 --yes
	rm vm@1 disk
	truncate -s 8M disk
	for segment in 0 1 2 3; do
		blocks disk "$((segment * 512))" 100
	done
	take a other
	# These blocks match the fingerprints beside them, which are as new.
	run ! nbdsh -u "nbd+unix:///vm@1?socket=$PWD/all" -c 'h.pread(65536, 0)'
	[[ $output == *"Input/output error"* ]] || {
		echo "$output"
		return 1
	}
}

@test "the owner's export holds its version; another host has a version elsewhere as a disk" {
	make --compression zstd
	texts 0 1400
	take a vm
	blocks disk 0 2048
	take a vm
	on a export vm@1 --background
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@1?socket=$PWD/run-a/vm@1.sock" vm@1
	on a delete vm@1 --yes
	on a recompress none
	"$BATS_TEST_DIRNAME/../nbd/client.py" "nbd+unix:///vm@1?socket=$PWD/run-a/vm@1.sock" vm@1
	on a unexport vm@1
	gone vm@1
	sound a b
	# By serve on the other host, as by ssh.
	# shellcheck disable=SC2016 # it is another shell that expands it
	printf '#!/bin/sh\nshift\nPATH=%s:$PATH exec sh -c "$1"\n' "$build/bin" >rsh
	chmod +x rsh
	nbdcopy -- [ "$build/bin/revdedupctl" serve vm@2 --from "x:$PWD/b" --rsh "$PWD/rsh" ] out
	cmp out vm@2
	owner a
}

@test "what only the kernel could do is refused, and commands in the way are named" {
	local command
	make --compression none --pieces 1
	blocks disk 0 600
	take a vm
	mkdir mnt
	for command in "clone vm@1 vg/new" "rollback vm@1 --yes" "map vm@1" "mount vm@1 mnt"; do
		[[ $command != m* || ! -e /sys/module/nbd ]] || break
		# A guest has it, and does all of this: tests/guest/host/krbd.bats.
		! modprobe -q rbd || break
		# shellcheck disable=SC2086 # words
		run ! on b $command
		[[ $output == *"the pool '$PWD/b' is in RADOS, and the kernel has no rbd, which would read it"* ]]
		[[ $output == *"'revdedupctl restore' writes a version to a disk"* ]]
	done
	owner a
	blocks disk 0 600
	stopped_at snapshot-batch snapshot --tag named vm --from disk
	run ! on a grow --lock-wait 1
	[[ $output == *"another command is using the pool"* ]]
	[[ $output == *"running: $build/bin/revdedupctl snapshot --tag named vm --from disk, pid $holder"* ]]
	run -0 on a status
	[[ $output == *"running:     $build/bin/revdedupctl snapshot --tag named vm --from disk (pid $holder"* ]]
	go_on
	cp disk vm@2
	sound a b
}
