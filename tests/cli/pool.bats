#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl through its command line, on small images: what it does, prints and refuses,
# and its exit codes. BUILD is where tests/unit/Makefile built it with sanitizers.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it

# shellcheck disable=SC2154 # by lib.bash
load lib

setup() {
	cli_setup
	export TZ=UTC
	unset REVDEDUP_POOL
}

teardown() { cli_teardown "${holder:-}"; }

ctl() {
	run "$build/bin/revdedupctl" "$@"
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

# field LINE EXPRESSION: of that line of the output, which is JSON; from 0 on.
field() {
	python3 -c 'import json, sys
lines = [json.loads(line) for line in sys.stdin]
print(lines[int(sys.argv[1])]'"$2"')' "$1" <<<"$output"
}

# blocks FILE FIRST NR: fill these blocks of 4 KiB with what is nowhere else.
blocks() {
	dd if=/dev/urandom of="$1" bs=4096 seek="$2" count="$3" iflag=fullblock \
		conv=notrunc status=none
}

# make_pool SIZE: and REVDEDUP_POOL. Its data area is sparse.
make_pool() {
	must init pool --size "$1"
	export REVDEDUP_POOL=$PWD/pool
}

# 1.img to 3.img of 6 MiB, vm1@1 to vm1@3: two blocks change, then two others.
make_versions() {
	make_pool 1G
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
time.sleep(60)' "$@" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.1; done
}

# hold_image FILE: have a lock of it as QEMU has, until drop.
hold_image() {
	python3 -c 'import fcntl, struct, sys, time
file = open(sys.argv[1], "r+b")
lock = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 100, 1, 0)
fcntl.fcntl(file, 37, lock) # F_OFD_SETLK
open("held", "w").close()
time.sleep(60)' "$1" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.1; done
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
	until [ -e held ]; do sleep 0.1; done
}

drop() {
	kill "$holder"
	wait "$holder" || :
	holder=
	rm held
}

@test "init: a pool, and what is in the way of one" {
	ctl init pool --size 100M
	expect 0 <<<"made pool 'pool'"
	[ "$(stat -c %s pool/data)" -eq $((100 << 20)) ]
	ctl init pool
	[ "$status" -eq 1 ]
	[[ $output == *"'pool' is a pool already"* ]]

	ctl create-pool other --size 64M --reserve 1M --json
	expect 0 <<<'{"type": "init", "pool": "other"}'
	[ "$(stat -c %s other/reserve)" -eq $((1 << 20)) ]
	must init quiet -q --size 64M
	[ -z "$output" ]

	ctl init small --size 63M
	[ "$status" -eq 2 ]
	ctl init small --size 64M --reserve 0
	[ "$status" -eq 2 ]
	ctl init bad --size 1.5G
	expect 2 <<<"revdedupctl: --size needs a size such as 500M or 10G, not '1.5G' (try 'revdedupctl help init')"
	for file in no-such-file "$PWD/no-such-file"; do
		ctl init pool2 --data "$file" --size 1G
		[ "$status" -eq 1 ]
		[[ $output == *"cannot find '$file'"* ]]
		[ ! -e "$file" ]
	done
	ctl -p pool init pool3
	expect 2 <<<"revdedupctl: 'init' does not take --pool (try 'revdedupctl help init')"
}

@test "init: data elsewhere" {
	truncate -s 100M area
	must init pool --data area
	[ "$(readlink pool/data)" = "$PWD/area" ]
	ctl init again --data area
	[ "$status" -eq 1 ]
	[[ $output == *"'area' is the data area of a pool already"*--force* ]]
	[ ! -e again ]
	# Its first superblock is lost.
	dd if=/dev/zero of=area bs=4k count=1 conv=notrunc status=none
	ctl init again --data area
	[ "$status" -eq 1 ]
	[[ $output == *"'area' is the data area of a pool already"* ]]
	must -p pool repair
	truncate -s 100M used
	# Wherever there is something.
	blocks used 500 501
	ctl init pool2 --data used
	[ "$status" -eq 1 ]
	[[ $output == *"'used' is not empty"* ]]
	# Nothing is left that a second try would use.
	[ ! -e pool2 ]
	must init pool2 --data used --force
	: >nothing
	ctl init pool4 --data nothing
	[ "$status" -eq 1 ]
	[[ $output == *"'nothing' is too small"*--size* ]]
	ctl init pool3 --data used --size 1G
	expect 2 <<<"revdedupctl: --size is for a new file, but 'used' has a size already (try 'revdedupctl help init')"
}

@test "init: what is not its own stays" {
	mkdir mine
	echo mine | tee mine/pool.json mine/reserve >mine/disk
	cp -r mine before
	ctl init mine --size 64M
	[ "$status" -eq 1 ]
	[[ $output == *"'mine' is not empty: it has '"*"nothing was changed"*"a directory of its own"* ]]
	diff -r before mine
	# With --force what fails removes only what it made.
	rm mine/pool.json mine/reserve
	ctl init mine --force --data no-such-file
	[ "$status" -eq 1 ]
	[ "$(ls mine)" = disk ]
	ctl init mine/disk
	[ "$status" -eq 1 ]
	[[ $output == *"Not a directory"* ]]
	mkdir -p disk/lost+found
	must init disk --size 64M

	# A link that was left leads to what nobody has named.
	truncate -s 64M other
	mkdir left
	ln -s "$PWD/other" left/data
	for force in "" --force; do
		ctl init left --size 64M $force
		expect 1 <<-END
			revdedupctl: 'left/data' is a link to '$PWD/other'
			revdedupctl: nothing was changed; remove the link first; --data names the file or device to use
		END
	done

	# Without its catalog it is a pool that can be mended.
	must init pool --size 64M
	blocks a.img 0 10
	must -p pool snapshot vm1 --from a.img
	rm pool/catalog.db*
	ctl init pool
	[ "$status" -eq 1 ]
	[[ $output == *"without a catalog"*"repair --rebuild-catalog --pool pool"* ]]
	must -p pool repair --rebuild-catalog
	must -p pool restore vm1@1 --to b.img
	cmp a.img b.img
}

@test "a catalog that is put aside stays" {
	make_versions
	for old in catalog.old catalog.old.2; do
		must repair --rebuild-catalog
		[[ $output == *"the old catalog is kept as $old: "* ]]
		must list
	done
	: >"$REVDEDUP_POOL/catalog.db"
	rm -f "$REVDEDUP_POOL"/catalog.db-{wal,shm}
	ctl list
	[ "$status" -eq 4 ]
	[[ $output == *"is not a catalog"*--rebuild-catalog* ]]
	must repair --rebuild-catalog
	must check
	# Superblocks with a catalog are another matter than none at all.
	for at in 0 256; do
		dd if=/dev/urandom of="$REVDEDUP_POOL/data" bs=4k seek=$at count=1 conv=notrunc status=none
	done
	ctl list
	[ "$status" -eq 4 ]
	[[ $output == *"repair --force"* ]]
}

@test "restore: to a file that is something to somebody" {
	make_versions
	must init two --size 64M
	must -p two snapshot x --from 1.img
	for file in data catalog.db pool.json; do
		ctl restore vm1@1 --to two/$file --yes
		[ "$status" -eq 1 ]
		[[ ${lines[0]} == *"'two/$file' is "*" of a pool" ]]
		[ "${lines[1]}" = "revdedupctl: nothing was changed; --force writes to it anyway" ]
	done
	must -p two check
	# A guest runs from it.
	cp 1.img guest.img
	hold_image guest.img
	ctl restore vm1@2 --to guest.img --yes
	[ "$status" -eq 11 ]
	[[ $output == *"a program holds a lock on 'guest.img'"*"nothing was changed"* ]]
	cmp 1.img guest.img
	must restore vm1@2 --to guest.img --yes --force
	drop
	must restore vm1@3 --to guest.img --yes
	cmp 3.img guest.img
}

@test "restore: what is in use or of the pool under another name" {
	local file
	make_versions
	# Each file of it by another name, and one of its own through a loop device.
	for file in data catalog.db pool.json; do
		ln "pool/$file" hard
		cp --sparse=always "pool/$file" was
		ctl restore vm1@1 --to hard --yes --force
		expect 1 <<-END
			revdedupctl: 'hard' is part of the pool
			revdedupctl: nothing was changed; restore to a place outside of '$PWD/pool'
		END
		cmp was "pool/$file"
		rm hard
	done
	loop=$(losetup --find --show pool/data)
	ctl restore vm1@1 --to "$loop" --yes --force
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: '$loop' is part of the pool" ]
	must check
	losetup --detach "$loop"
	# A file system that is mounted from a file.
	truncate -s 100M disk
	mkfs.ext4 -q disk
	loop=$(losetup --find --show disk)
	mkdir mnt
	mount "$loop" mnt
	cp disk was
	ctl restore vm1@1 --to disk --yes
	expect 11 <<-END
		revdedupctl: 'disk' is in use: the loop device '$loop' is made of it
		revdedupctl: nothing was changed; unmount the loop device and 'losetup --detach' it first; --force writes to it anyway
	END
	cmp was disk
	# And the pool is in there.
	must init mnt/pool --size 64M --reserve 1M
	must -p mnt/pool snapshot small --from pool/pool.json
	for file in disk "$loop"; do
		ctl -p mnt/pool restore small@1 --to "$file" --yes --force
		expect 1 <<-END
			revdedupctl: the pool 'mnt/pool' lies on '$file'
			revdedupctl: nothing was changed; restore to another place
		END
	done
	umount mnt
	losetup --detach "$loop"
	loop=
	must restore vm1@1 --to disk --yes
	must check
}

@test "restore: over the disk that the pool lies on, on a partition or a btrfs of it" {
	local kind part major minor
	make_versions
	for kind in ext4 btrfs; do
		truncate -s 300M disk
		loop=$(losetup --partscan --find --show disk)
		part=$loop
		if [ $kind = ext4 ]; then
			addpart "$loop" 1 2048 600000
			part=${loop}p1
			IFS=: read -r major minor <"/sys/class/block/${part#/dev/}/dev"
			[ -b "$part" ] || mknod "$part" b "$major" "$minor"
		fi
		mkfs.$kind -q "$part"
		mkdir -p mnt
		mount "$part" mnt
		must init mnt/pool --size 64M --reserve 1M
		must -p mnt/pool snapshot small --from pool/pool.json
		ctl -p mnt/pool restore small@1 --to "$loop" --yes --force
		expect 1 <<-END
			revdedupctl: the pool 'mnt/pool' lies on '$loop'
			revdedupctl: nothing was changed; restore to another place
		END
		umount mnt
		losetup --detach "$loop"
		loop=
		rm disk
	done
}

@test "what is printed goes nowhere else" {
	make_versions
	local program=$build/bin/revdedupctl
	# The next file that it opens would be one of these.
	for closed in 1 2 "0 1" "0 2" "1 2" "0 1 2"; do
		for command in "tag vm1@1 +gold" "snapshot vm1 --from no-such-file" list; do
			(
				for fd in $closed; do
					exec {fd}>&-
				done
				# shellcheck disable=SC2086
				exec "$program" $command
			) || status=$?
			# Who wanted to know does not.
			[[ $command != list || $closed != *1* ]] || [ "$status" -eq 1 ]
			must check
		done
	done
	must scrub
}

@test "who reads what is said is gone, and all is done" {
	make_versions
	"$build/bin/revdedupctl" delete vm1@1 vm1@2 vm1@3 | head -n 0
	must list
	[[ $output != *vm1@[123]* ]]
}

@test "names that are too long for a device are not attached" {
	make_pool 64M
	truncate -s 1M a.img
	name=$(printf 'a%.0s' {1..128})
	must snapshot "$name" --from a.img
	must show "$name"
	ctl snapshot "$name"a --from a.img
	[ "$status" -eq 2 ]
}

@test "a fifo is no image" {
	make_versions
	mkfifo fifo
	for command in "snapshot vm2 --from fifo" "repair --from fifo"; do
		# shellcheck disable=SC2086
		run timeout 20 "$build/bin/revdedupctl" $command
		[ "$status" -eq 1 ]
	done
}

@test "which pool" {
	ctl list
	expect 2 <<<"revdedupctl: no pool given: name one with --pool, or set REVDEDUP_POOL (try 'revdedupctl help list')"
	ctl list --pool nowhere
	[ "$status" -eq 10 ]
	[ "${lines[0]}" = "revdedupctl: 'nowhere' is not a pool" ]
	[[ ${lines[1]} == *"its file system may not be mounted"* ]]
	mkdir empty
	ctl -p empty check
	[ "$status" -eq 10 ]
	# What it leads to may come back.
	ln -s no-such-device empty/data
	ctl -p empty check
	[ "$status" -eq 1 ]
	[[ $output == *"the target of the link 'empty/data' does not exist"*vgchange* ]]

	must init pool --size 64M
	must init other --size 64M
	truncate -s 1M a.img
	must -p pool snapshot vm1 --from a.img
	must list -p pool
	[[ $output == *vm1@1* ]]
	# The option wins.
	REVDEDUP_POOL=nowhere must --pool=pool list
	REVDEDUP_POOL=pool must list
	[[ $output == *vm1@1* ]]
	must list -p other
	[ -z "$output" ]
}

@test "snapshot: the three numbers" {
	make_pool 1G
	truncate -s 6M 1.img
	blocks 1.img 0 600
	ctl snapshot vm1 --from 1.img
	expect 0 <<-'END'
		vm1@1: full read: it is the first version
		2 segments, 2.3 MiB read, 600 blocks of 4 KiB changed, 2.3 MiB stored
	END
	blocks 1.img 511 2
	# What the second ends with is a hole, and not read.
	ctl backup vm1 --from 1.img --json
	[ "$status" -eq 0 ]
	[ "$(field 0 '["type"]')" = snapshot ]
	[ "$(field 0 '["version"]')" = vm1@2 ]
	[ "$(field 0 '["mode"]')" = full ]
	[ "$(field 0 '["reason"]')" = "no change list" ]
	[ "$(field 0 '["segments_read"]')" = 2 ]
	[ "$(field 0 '["bytes_read"]')" = $((600 * 4096)) ]
	[ "$(field 0 '["blocks_changed"]')" = 2 ]
	[ "$(field 0 '["bytes_stored"]')" = $((600 * 4096)) ]
	ctl create vm1 --from 1.img --full-scan -v
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "vm1@3: full read: as requested" ]
	[ "${lines[1]}" = "2 segments, 2.3 MiB read, 0 blocks of 4 KiB changed, 0 B stored" ]
	# What another volume has is not stored again.
	ctl snapshot vm2 --from 1.img --json
	[ "$(field 0 '["segments_shared"]')" = 2 ]
	[ "$(field 0 '["bytes_stored"]')" = 0 ]
	must snapshot vm1 --from 1.img -q
	[ -z "$output" ]
}

@test "snapshot: with a list of changes" {
	make_pool 1G
	truncate -s 64M 1.img
	blocks 1.img 0 10
	must snapshot vm1 --from 1.img
	blocks 1.img 512 1
	blocks 1.img 5000 2
	# The second range was written with what was there.
	cat >list <<-'END'
		# from nowhere
		version vm1@1

		20480000 0x2000
		0 4096
		0x200000 4096
	END
	ctl snapshot vm1 --from 1.img --changed list --json
	[ "$status" -eq 0 ]
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(field 0 '["reason"]')" = None ]
	[ "$(field 0 '["blocks_changed"]')" = 3 ]
	# These three, and some of what did not change, to be sure.
	(($(field 0 '["segments_read"]') < 9))
	[ "$(field 0 '["segments_read"]')" = $((3 + $(field 0 '["segments_audited"]'))) ]
	must dump vm1@2 >/dev/null
	"$build/bin/revdedupctl" dump vm1@2 | cmp - 1.img

	# The list is of version 1, and there is another one.
	ctl snapshot vm1 --from 1.img --changed list
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "vm1@3: full read: the list of changes is not based on the newest version" ]]
	sed -i 's/^version.*/version 3/' list
	truncate -s 66M 1.img
	ctl snapshot vm1 --from 1.img --changed list
	[[ ${lines[0]} == "vm1@4: full read: the size has changed" ]]
	ctl snapshot vm1 --from 1.img --changed no-such-list --full-scan
	[ "$status" -eq 0 ]
}

@test "snapshot: a list of changes for an image of nothing" {
	make_pool 1G
	: >1.img
	ctl snapshot vm1 --from 1.img
	echo "version 1" >list
	ctl snapshot vm1 --from 1.img --changed list
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "vm1@2: full read: there is nothing to read" ]
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

@test "snapshot: what changed and is in no list is found within 64 versions" {
	local victim number=0 found=0
	make_pool 1G
	block_in_each 1.img 128
	must snapshot vm1 --from 1.img
	victim=$((RANDOM % 128))
	blocks 1.img $((victim * 512 + victim)) 1
	while [ "$found" = 0 ]; do
		number=$((number + 1))
		[ "$number" -le 64 ]
		unchanged_since "$number"
		[[ $output != *"had changed"* ]] || found=$number
	done
	# By then all was read.
	"$build/bin/revdedupctl" dump "vm1@$((found + 1))" | cmp - 1.img
}

@test "snapshot: an audit that finds a change in the last segment reads all" {
	local number=0
	make_pool 1G
	truncate -s 128M 1.img
	blocks 1.img $((3 * 512)) 512
	blocks 1.img $((7 * 512)) 512
	must snapshot vm1 --from 1.img
	# One of them is audited, and nothing else with it.
	blocks 1.img $((3 * 512)) 1
	blocks 1.img $((7 * 512)) 1
	output=
	while [[ $output != *"had changed"* ]]; do
		number=$((number + 1))
		[ "$number" -le 64 ]
		unchanged_since "$number"
	done
	"$build/bin/revdedupctl" dump vm1@latest | cmp - 1.img
}

# audit_all: take 64 versions of 1.img of which nobody says that something changed, so
# that each segment is audited. Sets found to how many found something.
audit_all() {
	local newest nr
	newest=$(ask "SELECT max(number) FROM version")
	found=0
	for nr in {0..63}; do
		unchanged_since "$((newest + nr))"
		[[ $output != *"had changed"* ]] || found=$((found + 1))
	done
}

@test "snapshot: an audit whose quick sums are wrong, or not known" {
	local found
	make_pool 1G
	block_in_each 1.img 16
	must snapshot vm1 --from 1.img
	edit "UPDATE uses SET quick = recipe"
	audit_all
	[ "$found" = 0 ]
	[ "$(ask "SELECT count(*) FROM uses WHERE quick = recipe")" = 0 ]
	edit "UPDATE uses SET quick = NULL"
	audit_all
	[ "$found" = 0 ]
	[ "$(ask "SELECT count(*) FROM uses WHERE quick IS NULL")" = 0 ]
	must check
	# These are right: they tell what did change, and that one time.
	blocks 1.img $((3 * 512 + 3)) 1
	audit_all
	[ "$found" = 1 ]
	"$build/bin/revdedupctl" dump vm1@latest | cmp - 1.img
}

# super_format NUMBER FEATURES: what both superblocks say.
super_format() {
	"$BATS_TEST_DIRNAME/edit-super.py" pool/data "$@"
}

@test "a pool of another format is refused, and left alone" {
	local older="nothing was changed; restore the versions with the program that made the pool; then make a new pool with 'revdedupctl init'"
	local newer="nothing was changed; install a newer revdedup" verb
	make_versions
	edit "PRAGMA user_version = 4"
	ctl list
	expect 1 <<-END
		revdedupctl: '$PWD/pool/catalog.db' has format 4, and this program knows only 5
		revdedupctl: $older
	END
	edit "PRAGMA user_version = 6"
	ctl list
	expect 1 <<-END
		revdedupctl: '$PWD/pool/catalog.db' has format 6, and this program knows only 5
		revdedupctl: $newer
	END
	edit "PRAGMA user_version = 5"
	super_format 1 0
	cp pool/data data
	for verb in list "snapshot vm1 --from 1.img" "repair --force" "repair --rebuild-catalog"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		expect 1 <<-END
			revdedupctl: '$PWD/pool/data' has format 1, and this program knows only 2
			revdedupctl: $older
		END
	done
	cmp pool/data data
	super_format 3 0
	ctl list
	[ "$status" -eq 1 ]
	[ "${lines[1]}" = "revdedupctl: $newer" ]
	super_format 2 1
	ctl list
	expect 1 <<-END
		revdedupctl: '$PWD/pool/data' has a feature that this program does not know
		revdedupctl: $newer
	END
	super_format 2 0
	must check
}

@test "snapshot: a list of changes that is none" {
	make_pool 1G
	truncate -s 4M 1.img
	must snapshot vm1 --from 1.img
	printf 'version vm1@1\n0 4096\nrubbish\n' >list
	ctl snapshot vm1 --from 1.img --changed list
	expect 1 <<-'END'
		revdedupctl: 'list', line 3: a range is 'OFFSET LENGTH'
		revdedupctl: no version was made; --full-scan ignores the list
	END
	printf 'version vm1@1\n0 4096\n8192 40' >list
	ctl snapshot vm1 --from 1.img --changed list
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: 'list', line 3: the last line has no end: the list is cut off" ]
	printf 'version vm2@1\n' >list
	ctl snapshot vm1 --from 1.img --changed list
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: 'list' lists changes of 'vm2', not of 'vm1'" ]
	ctl snapshot vm1 --from 1.img --changed no-such-list
	[ "$status" -eq 1 ]
	[[ $output == *"cannot open 'no-such-list': No such file"* ]]
	must list
	[ "${#lines[@]}" -eq 2 ]
}

@test "snapshot: what it refuses" {
	make_pool 1G
	truncate -s 4M 1.img
	ctl snapshot vm1
	expect 2 <<<"revdedupctl: 'vm1' is not attached: name an image or device with --from (try 'revdedupctl help snapshot')"
	ctl snapshot vm1@2 --from 1.img
	expect 2 <<<"revdedupctl: 'vm1@2' is a version, but 'snapshot' takes a volume: 'vm1' (try 'revdedupctl help snapshot')"
	ctl snapshot "a b" --from 1.img
	[ "$status" -eq 2 ]
	ctl snapshot vm1 --from 1.img --tag latest
	[ "$status" -eq 2 ]
	ctl snapshot vm1 --from 1.img --comment "$(printf %256s x)"
	expect 2 <<<"revdedupctl: the comment is longer than 255 bytes (try 'revdedupctl help snapshot')"
	must snapshot vm2 --from 1.img --comment "$(printf %255s x)"

	ctl snapshot vm1 --from no-such-image
	expect 1 <<-'END'
		revdedupctl: cannot open 'no-such-image': No such file or directory
		revdedupctl: no version was made; existing versions are unchanged
	END
	ctl snapshot vm1 --from .
	[ "$status" -eq 1 ]
	ctl snapshot vm1 --from pool/data
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: 'pool/data' is part of the pool" ]
	ln pool/data link
	ctl snapshot vm1 --from link
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: 'link' is part of the pool" ]
	ctl list vm1
	[ "${#lines[@]}" -eq 0 ] || [ "$status" -eq 1 ]
}

@test "snapshot: a full pool is as it was" {
	make_pool 64M
	truncate -s 40M 1.img
	blocks 1.img 0 10000
	must snapshot vm1 --from 1.img
	truncate -s 40M 2.img
	blocks 2.img 0 10000
	ctl snapshot vm2 --from 2.img
	[ "$status" -eq 12 ]
	[ "${lines[0]}" = "revdedupctl: the pool is full" ]
	[ "${lines[2]}" = "revdedupctl: no version was made; existing versions are unchanged" ]
	must check
	must list
	[ "${#lines[@]}" -eq 2 ]
	must delete vm1@1
	must snapshot vm2 --from 2.img
	must check
}

# is_marked VERSION True|False: is it consistent, as all tell it that can?
is_marked() {
	must show "$1" --json
	[ "$(field 0 '["consistent"]')" = "$2" ]
	must show "$1"
	[ "${lines[13]}" = "consistent:     $([ "$2" = True ] && echo yes || echo "no: it may have been written while it was read")" ]
	must list
	[ "$(grep -c "^$1 .*(not consistent)" <<<"$output")" = "$([ "$2" = True ] && echo 0 || echo 1)" ]
	must restore "$1" --to r.img --yes
	[[ $2 == True || $output == *"warning: $1 is not consistent: it may have been written while it was read"* ]]
	[[ $2 == False || $output != *"consistent"* ]]
}

@test "snapshot: an image that is in use or is written is refused, or marked" {
	local hint="stop the program that writes to it first; --force reads it anyway, and marks the version as not consistent"
	local none="no version was made; existing versions are unchanged" file writer
	make_pool 1G
	truncate -s 64M 1.img
	blocks 1.img 0 4096
	must snapshot vm1 --from 1.img --json
	[ "$(field 0 '["consistent"]')" = True ]
	hold_image 1.img
	ctl snapshot vm1 --from 1.img
	expect 11 <<-'END'
		revdedupctl: a program holds a lock on '1.img', as QEMU does on the disk of a running guest
		revdedupctl: no version was made; stop or unmount it first; --force reads it anyway, and marks the version as not consistent
	END
	must snapshot vm1 --from 1.img --force
	[[ ${lines[0]} == "revdedupctl: warning: a program holds a lock on '1.img'"* ]]
	drop
	is_marked vm1@1 True
	is_marked vm1@2 False
	# By the times of the file, also where they are set back.
	file=$PWD/1.img
	for writer in "os.utime('$file', (1, 1))" "open('$file', 'r+b').write(b'%d' % i)"; do
		keep_on "$writer"
		ctl snapshot vm1 --from 1.img
		expect 11 <<-END
			revdedupctl: '1.img' was written while it was read
			revdedupctl: $hint
			revdedupctl: $none
		END
		ctl snapshot vm1 --from 1.img --force
		drop
		[ "$status" -eq 0 ]
		[[ ${lines[0]} == "revdedupctl: warning: '1.img' was written while it was read: vm1@"*" is not consistent" ]]
	done
	must list --json
	[ "${#lines[@]}" -eq 4 ]
	is_marked "$(field 3 '["version"]')" False
	must metrics
	[[ $output == *'revdedup_volume_latest_consistent{volume="vm1"} 0'* ]]
	[[ $output == *'revdedup_volume_inconsistent_versions{volume="vm1"} 3'* ]]
	# What is cut off is lost, and no --force makes it a version.
	keep_on "os.truncate('$file', (60 << 20) - i)"
	truncate -s 64M 1.img
	ctl snapshot vm1 --from 1.img --force
	drop
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: '1.img' was cut off while it was read" ]
	[ "${lines[1]}" = "revdedupctl: $none" ]
	must list
	[ "${#lines[@]}" -eq 5 ]
	must snapshot vm1 --from 1.img --json
	[ "$(field 0 '["consistent"]')" = True ]
	must check
	# It is kept in the copy of the catalog, too.
	rm pool/catalog.db
	must repair --rebuild-catalog
	is_marked vm1@2 False
	must check
}

@test "snapshot: a device that is mounted or is written is refused, or marked" {
	make_pool 1G
	truncate -s 64M 1.img
	mkfs.ext4 -q 1.img
	loop=$(losetup --find --show 1.img)
	mkdir mnt
	mount "$loop" mnt
	ctl snapshot vm1 --from "$loop"
	expect 11 <<-END
		revdedupctl: '$loop' is mounted at '$PWD/mnt'
		revdedupctl: no version was made; stop or unmount it first; --force reads it anyway, and marks the version as not consistent
	END
	ctl snapshot vm1 --from "$loop" --force
	umount mnt
	[ "$status" -eq 0 ]
	mount -o ro "$loop" mnt
	ctl snapshot vm1 --from "$loop"
	umount mnt
	[ "$status" -eq 0 ]
	# What is still in the page cache was written before.
	dd if=/dev/urandom of="$loop" bs=1M count=20 status=none
	must snapshot vm1 --from "$loop"
	cmp <("$build/bin/revdedupctl" dump vm1@latest) 1.img
	exec 8<>"$loop"
	keep_on "os.write(8, b'x' * 4096) and os.lseek(8, 0, 0) or os.fsync(8)"
	ctl snapshot vm1 --from "$loop"
	drop
	exec 8>&-
	[ "$status" -eq 11 ]
	[ "${lines[0]}" = "revdedupctl: '$loop' was written while it was read" ]
	is_marked vm1@1 False
	is_marked vm1@2 True
	is_marked vm1@3 True
}

@test "list, show, stats" {
	make_versions
	set_time 1 "2026-11-18 02:00:13"
	set_time 2 "2026-11-19 02:00:13"
	set_time 3 "2026-11-20 02:00:13"
	must tag vm1@2 +b +a
	must protect vm1@1
	must snapshot vg/another-volume --from 1.img --comment $'tab\there'
	set_time 1 "2026-11-18 02:00:13"
	ctl list
	expect 0 <<-'END'
		VERSION              TIME                       SIZE     CHANGED      STORED  STATE       TAGS
		vg/another-volume@1  2026-11-18 02:00:13     6.0 MiB     2.3 MiB     2.3 MiB  done        -  tab?here
		vm1@1                2026-11-18 02:00:13     6.0 MiB     2.3 MiB     2.3 MiB  protected   -
		vm1@2                2026-11-19 02:00:13     6.0 MiB     8.0 KiB     2.0 MiB  done        a,b
		vm1@3                2026-11-20 02:00:13     6.0 MiB    16.0 KiB     2.3 MiB  done        -
	END
	for alias in ls versions snapshots; do
		must "$alias" vm1
		[ "${#lines[@]}" -eq 4 ]
	done
	must list --json
	[ "$(field 0 '["comment"]')" = $'tab\there' ]
	[ "$(field 1 '["protected"]')" = True ]
	[ "$(field 2 '["tags"]')" = "['a', 'b']" ]
	[ "$(field 3 '["time"]')" = "$(date -d "2026-11-20 02:00:13" +%s)" ]
	[ "$(field 3 '["blocks_changed"]')" = 4 ]

	must show vm1@a
	[ "${lines[0]}" = "version:        vm1@2" ]
	[ "${lines[6]}" = "tags:           a,b" ]
	[ "${lines[12]}" = "segments:       3: 1 zeros, 1 in one piece, 1 in several" ]
	must info vm1 --json
	[ "$(field 0 '["version"]')" = vm1@3 ]
	[ "$(field 0 '["segments"]')" = 3 ]
	[ "$(field 0 '["segments_zero"]')" = 1 ]
	[ "$(field 0 '["segments_whole"]')" = 2 ]

	must stats --json
	[ "$(field 1 '["volume"]')" = vm1 ]
	[ "$(field 1 '["versions"]')" = 3 ]
	[ "$(field 1 '["bytes_logical"]')" = $((18 << 20)) ]
	[ "$(field 2 '["type"]')" = pool ]
	[ "$(field 2 '["versions"]')" = 4 ]
	# Both newest versions are whole, and vm1@2 has two blocks of its own.
	[ "$(field 2 '["bytes_data"]')" = $((1202 * 4096)) ]
	must du
	[[ $output == *"data:     4.7 MiB, ratio 5.1 to 1"* ]]

	ctl list vm2
	expect 1 <<-'END'
		revdedupctl: there is no volume 'vm2' in the pool
		revdedupctl: 'revdedupctl list' lists volumes and versions
	END
	ctl list vm1@2
	[ "$status" -eq 2 ]
}

@test "list, show: JSON and metrics are UTF-8, whatever a comment or a path is" {
	local bad=$'caf\xe9 \xff \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 cut \xe2\x82'
	local name=$'p\xffl'
	must init "$name" --size 100M
	export REVDEDUP_POOL=$PWD/$name
	truncate -s 1M 1.img
	must snapshot vm1 --from 1.img --comment "$bad" --json
	must snapshot vm1 --from 1.img --comment $'good: \u00e9 \u20ac \U1f600 \x7f "\\'
	for verb in "list --json" "show vm1@1 --json" metrics; do
		# shellcheck disable=SC2086 # words
		"$build/bin/revdedupctl" $verb >out
		python3 -c 'open("out", encoding="utf-8", errors="strict").read()' || {
			echo "not UTF-8: $verb"
			return 1
		}
	done
	must list --json
	[ "$(field 0 '["comment"]')" = $'caf\ufffd \ufffd \ufffd\ufffd \ufffd\ufffd\ufffd \ufffd\ufffd\ufffd\ufffd cut \ufffd\ufffd' ]
	[ "$(field 1 '["comment"]')" = $'good: \u00e9 \u20ac \U1f600 \x7f "\\' ]
}

@test "names of versions" {
	make_versions
	set_time 1 "2026-11-18 02:00:13"
	set_time 2 "2026-11-20 02:00:13"
	set_time 3 "2026-11-20 14:00:00"
	must tag vm1@1 +gold
	while read -r name nr; do
		must show "vm1@$name"
		[ "${lines[0]}" = "version:        vm1@$nr" ]
	done <<-'END'
		2 2
		latest 3
		-0 3
		-1 2
		-2 1
		gold 1
		2026-11-18 1
		2026-11-19 1
		2026-11-20 3
		2027-01-01 3
		2026-11-20T02:00 2
		2026-11-20T02:00:13 2
		2026-11-20T02:00:12 1
		2026-11-20T13:59 2
		2026-11-20T14:00 3
	END
	while read -r name why; do
		ctl show "vm1@$name"
		expect 1 <<-END
			revdedupctl: $why
			revdedupctl: 'revdedupctl list vm1' lists its versions
		END
	done <<-'END'
		4 there is no version 4 of 'vm1'
		-3 'vm1' has fewer than 3 versions before the newest
		silver no version of 'vm1' has the tag 'silver'
		2026-11-17 there is no version of 'vm1' from 2026-11-17 23:59:59 or earlier
		2026-11-18T02:00:12 there is no version of 'vm1' from 2026-11-18 02:00:12 or earlier
	END
	for name in 0 "" - 1x 2026-02-30 "a b"; do
		ctl show "vm1@$name"
		[ "$status" -eq 2 ]
	done
	ctl restore vm1 --to r.img
	expect 2 <<<"revdedupctl: name a version of 'vm1': vm1@latest, or vm1@N (try 'revdedupctl help restore')"
	# A day ends when it does here.
	TZ=UTC-12 must show vm1@2026-11-19
	[ "${lines[0]}" = "version:        vm1@1" ]
	TZ=UTC+4 must show vm1@2026-11-19
	[ "${lines[0]}" = "version:        vm1@2" ]
}

@test "restore: a new file" {
	make_versions
	for nr in 1 2 3; do
		must restore "vm1@$nr" --to "r$nr.img"
		cmp "$nr.img" "r$nr.img"
	done
	[ "$output" = "restored vm1@3 to 'r3.img': wrote 2.3 MiB of 6.0 MiB" ]
	# What is zeros takes no space.
	(($(stat -c %b r3.img) * 512 < 3 << 20))
	[ "$(stat -c %a r3.img)" = 600 ]
	must extract vm1@-1 --to r.img -q
	[ -z "$output" ]
	cmp 2.img r.img
	ctl restore vm1@1 --to no-such-directory/r.img
	[ "$status" -eq 1 ]
	ctl restore vm1@1
	[ "$status" -eq 2 ]
}

@test "restore: over a file, what differs" {
	make_versions
	cp 3.img r.img
	ctl restore vm1@1 --to r.img </dev/null
	expect 1 <<-'END'
		revdedupctl: file 'r.img' (6.0 MiB) exists, and vm1@1 would overwrite it
		revdedupctl: nothing was changed; to do it, use --yes
	END
	cmp 3.img r.img
	must restore vm1@1 --to r.img --yes --json
	[ "$(field 0 '["bytes_written"]')" = $((6 * 4096)) ]
	[ "$(field 0 '["bytes_same"]')" = $(((1536 - 6) * 4096)) ]
	[ "$(field 0 '["damaged"]')" = "[]" ]
	cmp 1.img r.img
	must restore vm1@1 --to r.img --yes
	[ "$output" = "restored vm1@1 to 'r.img': wrote 0 B of 6.0 MiB" ]
	must restore vm1@2 --to r.img --yes --full
	[ "$output" = "restored vm1@2 to 'r.img': wrote 6.0 MiB of 6.0 MiB" ]
	cmp 2.img r.img
	# Longer, shorter, empty: the size is that of the version.
	truncate -s 20M r.img
	must restore vm1@2 --to r.img --yes
	cmp 2.img r.img
	truncate -s 1234567 r.img
	must restore vm1@3 --to r.img -y
	cmp 3.img r.img
	: >r.img
	must restore vm1@3 --to r.img </dev/null
	cmp 3.img r.img
}

@test "restore: somebody is asked" {
	make_versions
	cp 3.img r.img
	script -qec "'$build/bin/revdedupctl' restore vm1@1 --to r.img" /dev/null <<<n >out || code=$?
	[ "$code" -eq 1 ]
	grep -q "file 'r.img' (6.0 MiB) exists, and vm1@1 would overwrite it. Continue? \[y/n\]" out
	cmp 3.img r.img
	script -qec "'$build/bin/revdedupctl' restore vm1@1 --to r.img" /dev/null <<<y >out
	cmp 1.img r.img
}

@test "restore: sizes that are not those of blocks" {
	make_pool 1G
	local nr=0
	for size in 0 1 511 4095 4097 2097151 2097153 5000001; do
		nr=$((nr + 1))
		head -c "$size" /dev/urandom >"$nr.img"
		must snapshot vm1 --from "$nr.img"
	done
	for nr in 1 2 3 4 5 6 7 8; do
		must restore "vm1@$nr" --to r.img --yes
		cmp "$nr.img" r.img
		must restore "vm1@$nr" --to "new$nr.img"
		cmp "$nr.img" "new$nr.img"
		"$build/bin/revdedupctl" dump "vm1@$nr" | cmp "$nr.img"
	done
	must check
}

@test "restore: what it refuses" {
	make_versions
	ctl restore vm1@1 --to pool/r.img
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: 'pool/r.img' is part of the pool" ]
	[ ! -e pool/r.img ]
	ln pool/data link
	for target in pool/data pool/catalog.db link; do
		ctl restore vm1@1 --to "$target" --yes --force
		[ "$status" -eq 1 ]
		[[ $output == *"is part of the pool"* ]]
	done
	must check
	mkfifo fifo
	for target in . fifo /dev/null; do
		ctl restore vm1@1 --to "$target" --yes
		[ "$status" -eq 1 ]
		[[ $output == *"is neither a file nor a block device"* ]]
	done
}

@test "init: on a device that holds something, or is in use" {
	truncate -s 200M disk.img
	loop=$(losetup --find --show disk.img 2>&1) || skip "no loop device: $loop"
	# Its first block is empty.
	printf _BHRfS_M | dd of="$loop" bs=1 seek=65600 conv=notrunc status=none
	sync
	export REVDEDUP_POOL=$PWD/of-device
	ctl init "$REVDEDUP_POOL" --data "$loop"
	expect 1 <<-END
		revdedupctl: '$loop' is not empty, it holds btrfs
		revdedupctl: nothing was changed; --force uses it anyway, and what it holds is lost
	END
	[ ! -e "$REVDEDUP_POOL" ]
	mke2fs -q -F "$loop"
	mkdir mounted
	mount "$loop" mounted
	ctl init "$REVDEDUP_POOL" --data "$loop" --force
	umount mounted
	[ "$status" -eq 11 ]
	[[ $output == *"is mounted, or a program has opened it exclusively"* ]]
	e2fsck -fn "$loop"
	must init "$REVDEDUP_POOL" --data "$loop" --force
	[ "$(readlink "$REVDEDUP_POOL/data")" = "$loop" ]
}

@test "restore: to a block device" {
	make_versions
	truncate -s 8M disk.img
	loop=$(losetup --find --show disk.img 2>&1) || skip "no loop device: $loop"
	ctl restore vm1@1 --to "$loop" </dev/null
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: device '$loop' (8.0 MiB) exists, and vm1@1 would overwrite it" ]
	must restore vm1@1 --to "$loop" --yes
	cmp -n $((6 << 20)) 1.img "$loop"
	must restore vm1@3 --to "$loop" --yes
	[ "$output" = "restored vm1@3 to '$loop': wrote 24.0 KiB of 6.0 MiB" ]
	cmp -n $((6 << 20)) 3.img "$loop"
	must restore vm1@2 --to "$loop" --yes --full
	cmp -n $((6 << 20)) 2.img "$loop"

	# An end that is not one of a sector, and what is behind it stays.
	truncate -s $(((2 << 20) + 777)) odd.img
	blocks odd.img 0 4
	printf end | dd of=odd.img bs=1 seek=$(((2 << 20) + 774)) conv=notrunc status=none
	must snapshot odd --from odd.img
	must restore odd@1 --to "$loop" --yes
	cmp -n $(((2 << 20) + 777)) odd.img "$loop"
	cmp -i $(((2 << 20) + 777)) -n 100000 2.img "$loop"

	# In use, as a mounted one is.
	python3 -c 'import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)
open("held", "w").close()
time.sleep(60)' "$loop" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.1; done
	ctl restore vm1@1 --to "$loop" --yes
	expect 1 <<-END
		revdedupctl: '$loop' is in use: it is mounted, or part of another device
		revdedupctl: nothing was changed; unmount it first, or use --force
	END
	must restore vm1@1 --to "$loop" --yes --force
	cmp -n $((6 << 20)) 1.img "$loop"
	drop

	truncate -s 10M 4.img
	must snapshot vm1 --from 4.img
	for force in "" --force; do
		ctl restore vm1@4 --to "$loop" --yes $force
		expect 1 <<-END
			revdedupctl: '$loop' has 8388608 bytes, but vm1@4 has 10485760
			revdedupctl: nothing was changed; restore it to a larger device
		END
	done
	cmp -n $((6 << 20)) 1.img "$loop"
}

@test "restore: to a device that is something to somebody" {
	make_versions
	export REVDEDUP_CONFIG=$PWD/etc
	truncate -s 8M base.img
	truncate -s 200M disk.img
	mkdir -p etc/volumes
	loop=$(losetup --find --show base.img 2>&1) || skip "no loop device: $loop"
	for what in base meta; do
		printf '%s\n' volume=vm9 uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427 \
			base=/dev/null meta=/dev/null >etc/volumes/revdedup-vm9
		sed -i "s|^$what=.*|$what=$loop|" etc/volumes/revdedup-vm9
		for force in "" --force; do
			ctl restore vm1@1 --to "$loop" --yes $force
			[ "$status" -eq 1 ]
			[[ $output == *"attached volume 'vm9'"* || $output == *"metadata device of 'vm9'"* ]]
			[[ ${lines[1]} == "revdedupctl: nothing was changed; "* ]]
		done
		cmp -n $((8 << 20)) "$loop" /dev/zero
	done
	rm -r etc
	# What is there is named.
	mkfs.ext4 -q "$loop"
	ctl restore vm1@1 --to "$loop" </dev/null
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: device '$loop' (8.0 MiB, holds ext4) exists, and vm1@1 would overwrite it" ]
	losetup --detach "$loop"
	# The data area of another pool.
	loop=$(losetup --find --show disk.img)
	must init two --data "$loop"
	ctl restore vm1@1 --to "$loop" --yes
	expect 1 <<-END
		revdedupctl: '$loop' is the data area of a pool
		revdedupctl: nothing was changed; --force writes to it anyway
	END
	must --pool two check
	must restore vm1@1 --to "$loop" --yes --force
	cmp -n $((6 << 20)) 1.img "$loop"
}

@test "mount, umount, clone: what they want" {
	make_versions
	ctl mount vm1@1 no-such-directory
	expect 1 <<-'END'
		revdedupctl: 'no-such-directory' is not a directory
		revdedupctl: nothing was mounted; 'mkdir no-such-directory' makes one
	END
	for number in 0 x -1; do
		ctl mount vm1@1 . --partition "$number"
		[ "$status" -eq 2 ]
		[[ $output == *"--partition needs a number"* ]]
	done
	ctl umount .
	expect 1 <<-'END'
		revdedupctl: no version is mounted at '.'
		revdedupctl: nothing was changed; /proc/mounts lists what is mounted where
	END
	ctl clone vm1@1 new
	[ "$status" -eq 2 ]
	[[ $output == *"'new' is not a logical volume: name it as GROUP/NAME"* ]]
	ctl clone vm1@1 vg/new@3
	[ "$status" -eq 2 ]
	for words in "mount vm1@1" "clone vm1@1" umount "clone vm1 vg/new --writable"; do
		# shellcheck disable=SC2086 # words
		ctl $words
		[ "$status" -eq 2 ]
	done
}

@test "snapshot: of a block device, and a pool on one" {
	truncate -s 6M 1.img
	blocks 1.img 0 600
	truncate -s 200M disk.img
	loop=$(losetup --find --show disk.img 2>&1) || skip "no loop device: $loop"
	ctl init pool --data "$loop" --size 1G
	[ "$status" -eq 2 ]
	must init pool --data "$loop"
	export REVDEDUP_POOL=pool
	must snapshot vm1 --from 1.img
	must restore vm1@1 --to r.img
	cmp 1.img r.img
	ctl restore vm1@1 --to "$loop" --yes --force
	[ "$status" -eq 1 ]
	[[ $output == *"is part of the pool"* ]]
	must delete vm1@1
	must check
	losetup --detach "$loop"

	must init other --size 100M
	export REVDEDUP_POOL=other
	loop=$(losetup --find --show --read-only 1.img)
	must snapshot vm1 --from "$loop"
	must restore vm1@1 --to r.img --yes
	[[ $output == *": wrote 0 B"* ]]
	cmp 1.img r.img
}

@test "dump: an image on stdout" {
	make_versions
	"$build/bin/revdedupctl" dump vm1@1 | cmp 1.img
	"$build/bin/revdedupctl" cat vm1@2 >o.img
	cmp 2.img o.img
	"$build/bin/revdedupctl" restore vm1@latest --to - | cmp 3.img
	ctl dump --json vm1@1
	[ "$status" -eq 2 ]
	ctl restore vm1@1 --to - --json
	[ "$status" -eq 2 ]
	[[ $output == *"leave out --json"* ]]
	script -qec "'$build/bin/revdedupctl' dump vm1@1" /dev/null >out </dev/null || code=$?
	[ "$code" -eq 2 ]
	grep -q "will not write an image to a terminal" out
}

@test "diff" {
	make_versions
	ctl diff vm1@1 vm1@2
	expect 0 <<<"$((10 * 4096)) 8192"
	ctl diff vm1@3 vm1@1
	expect 0 <<-END
		$((10 * 4096)) 8192
		$((510 * 4096)) 16384
	END
	ctl diff vm1@2 vm1@2
	expect 0 </dev/null
	ctl diff vm1@2 vm1@3 --json
	expect 0 <<-END
		{"type": "range", "offset": $((510 * 4096)), "length": 16384}
		{"type": "diff", "from": "vm1@2", "to": "vm1@3", "ranges": 1, "bytes": 16384, "segments_damaged": 0}
	END
	# Of two volumes and two sizes; a block that is not whole.
	truncate -s $(((8 << 20) + 100)) 4.img
	dd if=3.img of=4.img conv=notrunc status=none
	printf x | dd of=4.img bs=1 seek=$((8 << 20)) conv=notrunc status=none
	must snapshot vm2 --from 4.img
	ctl diff vm1@3 vm2@1
	expect 0 <<<"$((8 << 20)) 100"
	# It is what a snapshot wants to have.
	{
		echo "version vm1@3"
		"$build/bin/revdedupctl" diff vm1@3 vm1@1
	} >list
	must snapshot vm1 --from 1.img --changed list --json
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(field 0 '["blocks_changed"]')" = 6 ]
	ctl diff vm1@4 vm1@1
	expect 0 </dev/null
	ctl diff vm1@1
	[ "$status" -eq 2 ]
}

@test "delete: in any order, and space comes back" {
	make_versions
	ctl delete vm1@2 --dry-run
	expect 0 <<-'END'
		would delete vm1@2
		would free 0 B
	END
	ctl delete vm1@latest -n --json
	expect 0 <<-'END'
		{"type": "delete", "version": "vm1@3", "dry_run": true}
		{"type": "freed", "bytes": 16384, "dry_run": true}
	END
	ctl delete vm1@2 vm1@3 -n
	expect 0 <<-'END'
		would delete vm1@2
		would delete vm1@3
		would free 24.0 KiB
	END
	ctl delete vm1@{1,2,3} -n
	[ "${lines[3]}" = "would free 2.4 MiB" ]
	ctl delete vm1@2
	expect 0 <<-'END'
		deleted vm1@2
		freed 0 B
	END
	must check
	ctl delete vm1@2
	[ "$status" -eq 1 ]
	must restore vm1@1 --to r1.img
	cmp 1.img r1.img
	ctl rm vm1@latest --json
	expect 0 <<-'END'
		{"type": "delete", "version": "vm1@3"}
		{"type": "freed", "bytes": 24576}
	END
	must check
	must restore vm1@1 --to r2.img
	cmp 1.img r2.img
	must forget vm1@1 -q
	[ -z "$output" ]
	must check
	must stats --json
	[ "$(field 0 '["bytes_data"]')" = 0 ]
	must list vm1
	[ -z "$output" ]
	# A number is never used again.
	must snapshot vm1 --from 1.img
	[ "${lines[0]}" = "vm1@4: full read: it is the first version" ]
}

@test "delete: several, all or none of them" {
	make_versions
	must protect vm1@2
	ctl delete vm1@1 vm1@2
	expect 1 <<-'END'
		revdedupctl: vm1@2 is protected
		revdedupctl: it was not deleted; to allow deletion: 'revdedupctl unprotect vm1@2'
		revdedupctl: no version was deleted
	END
	ctl delete vm1@1 vm1@9
	[ "$status" -eq 1 ]
	ctl delete vm1@1 vm1
	[ "$status" -eq 2 ]
	must list
	[ "${#lines[@]}" -eq 4 ]
	must unprotect vm1@2
	# Names mean what they did before any was deleted; one may come twice.
	must tag vm1@2 +twin
	ctl delete vm1@-1 vm1@latest vm1@twin
	expect 0 <<-'END'
		deleted vm1@2
		deleted vm1@3
		freed 24.0 KiB
	END
	must restore vm1@1 --to r.img
	cmp 1.img r.img
	must check
}

@test "protect, unprotect" {
	make_versions
	ctl protect vm1@1 vm1@3
	expect 0 <<-'END'
		vm1@1 is protected
		vm1@3 is protected
	END
	must hold vm1@1 -q
	[ -z "$output" ]
	must show vm1@3
	[ "${lines[5]}" = "protected:      yes" ]
	ctl delete vm1@1
	[ "$status" -eq 1 ]
	ctl release vm1@1 --json
	expect 0 <<<'{"type": "unprotect", "version": "vm1@1"}'
	must delete vm1@1
	must check
	ctl protect vm1@2 vm1@1
	[ "$status" -eq 3 ]
	[[ $output == *"the versions before 'vm1@1' were changed"* ]]
}

@test "tag" {
	make_versions
	ctl tag vm1@2 +gold +before-upgrade
	expect 0 <<<"vm1@2: before-upgrade gold"
	ctl tag vm1@3 +gold
	expect 0 <<-'END'
		revdedupctl: warning: moving the tag 'gold' here from vm1@2
		vm1@3: gold
	END
	ctl tag --json vm1@gold -gold +x
	expect 0 <<<'{"type": "tag", "version": "vm1@3", "tags": ["x"]}'
	ctl label vm1@3 +y -gold
	expect 1 <<-'END'
		revdedupctl: vm1@3 has no tag 'gold'
		revdedupctl: nothing was changed; 'revdedupctl show vm1@3' lists its tags
	END
	ctl tag vm1@3 -x
	expect 0 <<<"vm1@3: no tags"
	for tag in x +latest +1 + - --json; do
		ctl tag vm1@3 "$tag"
		[ "$status" -eq 2 ]
	done
	must snapshot vm1 --from 1.img --tag nightly
	must show vm1@nightly
	[ "${lines[0]}" = "version:        vm1@4" ]
	# It goes with its version.
	must delete vm1@nightly
	ctl show vm1@nightly
	[ "$status" -eq 1 ]
	must check
}

@test "a clock that was wrong once" {
	local nr now
	make_pool 1G
	truncate -s 1M 1.img
	for nr in 1 2 3 4; do
		must snapshot vm1 --from 1.img
		[[ $output != *"the clock"* ]]
	done
	set_time 1 "2026-11-18 10:00"
	set_time 2 "2026-11-19 10:00"
	set_time 3 "1970-01-02 00:00"
	set_time 4 "2026-11-20 10:00"
	# Of the same second the last one counts.
	must snapshot vm1 --from 1.img
	set_time 5 "2026-11-20 10:00"
	must snapshot vm1 --from 1.img
	set_time 6 "2037-01-01 00:00"
	ctl snapshot vm1 --from 1.img
	[[ ${lines[0]} == "revdedupctl: warning: the clock went back: vm1@6 is of 2037-01-01 00:00:00, and vm1@7 of 20"* ]]
	must snapshot vm1 --from 1.img
	[[ $output != *"the clock"* ]]
	while read -r name nr; do
		must show "vm1@$name"
		[ "${lines[0]}" = "version:        vm1@$nr" ] || {
			echo "vm1@$name: $output"
			return 1
		}
	done <<-'END'
		2026-11-18 1
		2026-11-19 2
		2026-11-19T10:00 2
		2026-11-20 5
		1970-01-02 3
		2000-01-01 3
		2037-01-01 6
		latest 8
		-1 7
	END
	must list
	now=$(grep -n "(clock set back)" <<<"$output" | cut -d : -f 1 | paste -s)
	[ "$now" = $'4\t8' ]
	must list --json
	now=$(grep -n '"clock_went_back": true' <<<"$output" | cut -d : -f 1 | paste -s)
	[ "$now" = $'3\t7' ]
	must show vm1@3
	[ "${lines[2]}" = "time:           1970-01-02 00:00:00, earlier than the version before it: the clock was set back" ]
	must show vm1@3 --json
	[ "$(field 0 '["clock_went_back"]')" = True ]
	must show vm1@4 --json
	[ "$(field 0 '["clock_went_back"]')" = False ]
	must delete vm1@2026-11-18
	[[ $output == *"deleted vm1@1"* ]]
	# Today and three days; the one of 1970 goes, the one of 2037 costs none of these.
	must prune vm1 --keep-daily 3
	must list --json
	[ "$(field 0 '["number"]')" = 2 ]
	[ "$(field 1 '["number"]')" = 5 ]
	[ "$(field 2 '["number"]')" = 6 ]
	[ "$(field 3 '["number"]')" = 8 ]
	[ "${#lines[@]}" = 4 ]
	# The last one stays, though its time is that of the oldest.
	set_time 8 "1970-01-02 00:00"
	must prune vm1 --keep-daily 1
	must list --json
	[ "$(field 0 '["number"]')" = 5 ]
	[ "$(field 1 '["number"]')" = 6 ]
	[ "$(field 2 '["number"]')" = 8 ]
	[ "${#lines[@]}" = 3 ]
	must check
}

@test "prune: what and why" {
	make_versions
	set_time 1 "2026-11-18 02:00:13"
	set_time 2 "2026-11-20 02:00:13"
	set_time 3 "2026-11-20 14:00:00"
	must tag vm1@1 +gold
	ctl prune vm1 --keep-daily 1 --keep-last 1 -n
	expect 0 <<-'END'
		would delete  vm1@1                 2026-11-18 02:00:13
		would delete  vm1@2                 2026-11-20 02:00:13
		keep          vm1@3                 2026-11-20 14:00:00  last, daily
		would free 24.0 KiB
	END
	ctl expire --keep-within 12h --keep-tag silver --keep-tag gold --dry-run --json
	expect 0 <<-'END'
		{"type": "plan", "version": "vm1@1", "time": 1794967213, "keep": true, "reasons": ["tag"], "dry_run": true}
		{"type": "plan", "version": "vm1@2", "time": 1795140013, "keep": true, "reasons": ["within"], "dry_run": true}
		{"type": "plan", "version": "vm1@3", "time": 1795183200, "keep": true, "reasons": ["within"], "dry_run": true}
		{"type": "freed", "bytes": 0, "dry_run": true}
	END
	must list
	[ "${#lines[@]}" -eq 4 ]
	ctl prune --keep-last 3
	expect 0 <<<"freed 0 B"
	must protect vm1@2
	ctl prune --keep-last 1
	expect 0 <<-'END'
		deleted vm1@1
		freed 8.0 KiB
	END
	must check
	must restore vm1@2 --to r.img
	cmp 2.img r.img
}

@test "prune: what it refuses" {
	make_versions
	must snapshot vm2 --from 1.img --tag gold
	ctl prune
	expect 2 <<<"revdedupctl: no rule says what to keep: use --keep-last N, --keep-daily N or another (try 'revdedupctl help prune')"
	ctl prune --keep-tag gold
	expect 1 <<-'END'
		revdedupctl: this would delete all versions of 'vm1'
		revdedupctl: nothing was deleted; keep more, or use --unsafe-allow-remove-all
	END
	for option in --keep-last=0 --keep-daily=x --keep-last=-1 --keep-last= --keep-within=30 \
		--keep-within=0d --keep-tag=1; do
		ctl prune "$option"
		[ "$status" -eq 2 ]
	done
	ctl prune --unsafe-allow-remove-all
	[ "$status" -eq 2 ]
	ctl prune vm3 --keep-last 1
	[ "$status" -eq 1 ]
	must list
	[ "${#lines[@]}" -eq 5 ]
	must prune --keep-tag gold --unsafe-allow-remove-all
	must list
	[ "${#lines[@]}" -eq 2 ]
	must prune vm2 --unsafe-allow-remove-all
	must list
	[ -z "$output" ]
	must check
}

@test "check: a catalog that is not in order" {
	make_versions
	ctl check
	expect 0 <<<"pool '$PWD/pool': the catalog is in order (3 versions, 5 recipes, 2.4 MiB of data)"
	must fsck --json
	[ "$(field 0 '["versions"]')" = 3 ]
	[ "$(field 0 '["wrong"]')" = 0 ]
	[ "$(field 0 '["bytes_live"]')" = $((606 * 4096)) ]
	edit "UPDATE uses SET refs = refs + 1"
	ctl check
	[ "$status" -eq 4 ]
	[[ ${lines[0]} == "wrong: count of segments that name a recipe"* ]]
	[[ $output == *"pool '$PWD/pool': the catalog has 5 errors"* ]]
	ctl check --json
	[ "$status" -eq 4 ]
	[ "$(field 0 '["type"]')" = wrong ]
	[ "$(field -1 '["wrong"]')" = 5 ]
}

# edit SQL: change the catalog as no command does.
edit() {
	"$BATS_TEST_DIRNAME/edit-catalog.py" pool/catalog.db "$@"
}

# ask SQL: the one value that it gives.
ask() {
	python3 -c 'import sqlite3, sys
print(*sqlite3.connect("pool/catalog.db").execute(sys.argv[1]).fetchone())' "$1"
}

@test "delete: what a device reads" {
	make_versions
	must tag vm1@3 +gold
	edit "INSERT INTO lease VALUES(1, 'REVDEDUP-a', (SELECT id FROM volume), 3, 0)"
	edit "INSERT INTO lease VALUES(2, 'REVDEDUP-b', (SELECT id FROM volume), 3, 0)"
	edit "INSERT INTO lease VALUES(3, 'REVDEDUP-c', (SELECT id FROM volume), 1, 0)"
	must delete -n vm1@3
	[ "${lines[1]}" = "would free 0 B" ]
	ctl delete vm1@3
	expect 0 <<-'END'
		deleted vm1@3: its space comes back when REVDEDUP-a, REVDEDUP-b no longer read it
		freed 0 B
	END
	ctl delete vm1@1 --json --progress=never
	[ "$status" -eq 0 ]
	[ "$(field 0 '["held_by"]')" = "['REVDEDUP-c']" ]
	# For users they are gone.
	must list
	[[ $output != *vm1@1* && $output != *vm1@3* ]]
	ctl show vm1@3
	[ "$status" -eq 1 ]
	ctl show vm1@gold
	[ "$status" -eq 1 ]
	must show vm1@latest
	[ "${lines[0]}" = "version:        vm1@2" ]
	must stats --json
	[ "$(field 1 '["versions"]')" = 1 ]
	[ "$(field 1 '["bytes_logical"]')" = $((6 << 20)) ]
	[ "$(field 1 '["versions_held"]')" = 2 ]
	[ "$(field 1 '["bytes_held"]')" = $((12 << 20)) ]
	must stats
	[[ $output == *"held:     12.0 MiB, by 2 deleted versions that devices still read"* ]]
	must check
	must snapshot vm1 --from 1.img
	must dump vm1@2 >o.img
	# Nothing is given back, and it is said which device is in the way.
	ctl delete vm1@2 -v
	[ "$status" -eq 0 ]
	[[ $output == *"device 'REVDEDUP-a' reads the pool and cannot be reached"* ]]
	must check
	# The last one lets go; the next command deletes the rest.
	edit "DELETE FROM lease"
	must tag vm1@4 +now
	must check
	must delete vm1@4
	must stats --json
	[ "$(field 0 '["bytes_data"]')" = 0 ]
	[ "$(field 0 '["versions_held"]')" = 0 ]
	must stats
	[[ $output != *held:* ]]

	edit "INSERT INTO lease VALUES(4, 'REVDEDUP-d', 1, 4, 0)"
	ctl check
	[ "$status" -ne 0 ]
	[[ $output == *"a lease of a version that is missing"* ]]
}

@test "show: what told the changes" {
	make_versions
	must show vm1@3
	[[ $output != *tracker* ]]
	edit "UPDATE version SET tracker = x'000102030405060708090a0b0c0d0e0f', epoch = 7 WHERE number = 3"
	must show vm1@3
	[[ $output == *"tracker:        00010203-0405-0607-0809-0a0b0c0d0e0f"* ]]
	[[ $output == *"epoch:          7"* ]]
	must show vm1@3 --json
	[ "$(field 0 '["tracker"]')" = 00010203-0405-0607-0809-0a0b0c0d0e0f ]
	[ "$(field 0 '["epoch"]')" = 7 ]
}

@test "scrub: damage is named, and everything else restored" {
	make_versions
	# Each block once.
	ctl scrub
	expect 0 <<<"read 3 versions, 2.4 MiB: 0 damaged"
	must scrub vm1
	expect 0 <<<"read 3 versions, 7.0 MiB: 0 damaged"
	must verify vm1@2 --json --progress=never
	[ "$(field 0 '["damaged"]')" = "[]" ]
	[ "$(field 1 '["versions"]')" = 1 ]

	# Block 3 is all versions', block 510 was in the first two.
	damage 1.img 3
	damage 1.img 510
	ctl scrub
	expect 4 <<-'END'
		revdedupctl: vm1@1: damaged: offset 12288, length 4096
		revdedupctl: vm1@1: damaged: offset 2088960, length 4096
		revdedupctl: vm1@2: damaged: offset 12288, length 4096
		revdedupctl: vm1@2: damaged: offset 2088960, length 4096
		revdedupctl: vm1@3: damaged: offset 12288, length 4096
		read 3 versions, 2.4 MiB: 3 damaged
		revdedupctl: nothing was changed; 'revdedupctl repair' heals whatever it finds another copy of; 'restore' writes everything that is not damaged
	END
	all=$output
	ctl scrub vm1
	expect 4 <<<"${all/2.4 MiB/7.0 MiB}"
	ctl scrub --json --progress=never
	[ "$status" -eq 4 ]
	[ "$(field 0 '["damaged"][1]["offset"]')" = 2088960 ]
	[ "$(field 3 '["versions_damaged"]')" = 3 ]
	ctl scrub vm1@3 --json --progress=never
	[ "$status" -eq 4 ]
	[ "$(field 0 '["damaged"][0]["offset"]')" = 12288 ]
	[ "$(field 1 '["versions_damaged"]')" = 1 ]

	ctl restore vm1@1 --to r.img
	[ "$status" -eq 4 ]
	[ "${lines[0]}" = "restored vm1@1 to 'r.img' except for damaged blocks: wrote 2.3 MiB of 6.0 MiB" ]
	[ "${lines[1]}" = "revdedupctl: vm1@1: damaged: offset 12288, length 4096, not written" ]
	cp 1.img wanted.img
	dd if=/dev/zero of=wanted.img bs=4096 seek=3 count=1 conv=notrunc status=none
	dd if=/dev/zero of=wanted.img bs=4096 seek=510 count=1 conv=notrunc status=none
	cmp wanted.img r.img
	code=0
	"$build/bin/revdedupctl" dump vm1@1 >o.img 2>err || code=$?
	[ "$code" -eq 4 ]
	cmp wanted.img o.img
	grep -q "offset 12288, length 4096, zeros in its place" err
	# A target that has the block needs none.
	cp 1.img r.img
	must restore vm1@1 --to r.img --yes --json
	cp 3.img r.img
	ctl restore vm1@1 --to r.img --yes --json
	[ "$status" -eq 4 ]
	output=${lines[0]}
	[ "$(field 0 '["damaged"]')" = "[{'offset': 2088960, 'length': 4096}]" ]
}

@test "repair: heals from another copy" {
	make_versions
	ctl repair
	expect 0 <<<"read 2.4 MiB: 0 blocks damaged, 0 healed"
	# Of blocks 3 and 4 vm2 has a copy elsewhere, of block 510 nobody does.
	truncate -s 4M b.img
	dd if=1.img of=b.img bs=4096 skip=3 seek=77 count=2 conv=notrunc status=none
	must snapshot vm2 --from b.img
	damage 1.img 3
	damage 1.img 4
	damage 1.img 510
	before=$(md5sum pool/data)
	ctl repair --dry-run
	expect 4 <<-'END'
		revdedupctl: vm1@1: damaged: offset 2088960, length 4096
		revdedupctl: vm1@2: damaged: offset 2088960, length 4096
		read 2.4 MiB: 3 blocks damaged, 2 would be healed
		revdedupctl: 2 of 4 versions are still damaged
		revdedupctl: an image or device with the same content, such as the disk itself, can heal more: 'revdedupctl repair --from PATH'
	END
	[ "$(md5sum pool/data)" = "$before" ]
	code=0
	output=$("$build/bin/revdedupctl" repair --json --progress=never 2>/dev/null) || code=$?
	[ "$code" -eq 4 ]
	[ "$(field 0 '["damaged"][0]["offset"]')" = 2088960 ]
	[ "$(field -1 '["blocks_damaged"]')" = 3 ]
	[ "$(field -1 '["blocks_healed"]')" = 2 ]
	ctl repair --from nowhere
	[ "$status" -eq 1 ]
	ctl repair --from pool/data
	expect 1 <<-'END'
		revdedupctl: 'pool/data' is part of the pool
		revdedupctl: the pool itself is searched anyway
	END
	ctl repair --from 3.img --from 2.img --progress=always
	[ "$status" -eq 0 ]
	[[ $output == *"1 blocks damaged, 1 healed"* ]]
	must scrub
	must check
	for nr in 1 2 3; do
		must restore "vm1@$nr" --to "r$nr.img"
		cmp "$nr.img" "r$nr.img"
	done

	ctl repair --force
	expect 2 <<<"revdedupctl: --force is for --rebuild-catalog, and for a pool that has lost both superblocks or whose catalog and data area do not belong together (try 'revdedupctl help repair')"
	ctl repair --rebuild-catalog -n
	[ "$status" -eq 2 ]
	ctl repair --rebuild-catalog --from 1.img
	[ "$status" -eq 2 ]
}

@test "locks: who waits for whom" {
	make_versions
	# Somebody works on the volume: readers do not mind.
	hold 4 1
	for command in "snapshot vm1 --from 1.img" "delete vm1@1" \
		"prune --keep-last 1"; do
		# shellcheck disable=SC2086 # words
		ctl $command
		[ "$status" -eq 11 ]
		[[ $output == *"another command is using"*"--lock-wait SECONDS"* ]]
	done
	must list
	must restore vm1@1 --to r.img
	must scrub
	must check
	must snapshot vm2 --from 1.img
	# Of more than one volume prune does what it can.
	must snapshot vm2 --from 2.img
	ctl prune --keep-last 1
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"using the volume 'vm1'"*"vm1@1 was skipped"*"vm1@2 was skipped"* ]]
	[[ $output == *"deleted vm2@1"*"1 of 3 versions were deleted"*"freed"* ]]
	[ "$(grep -c "is using" <<<"$output")" -eq 1 ]
	must check
	(sleep 1; kill "$holder") 3>&- &
	must delete vm1@1 --lock-wait 60
	rm held

	# Somebody reads the version: it is not deleted, and can be read.
	id=$(ask "SELECT id FROM version WHERE number = 2 AND volume = 1")
	hold 5 "$id" shared
	ctl delete vm1@2
	[ "$status" -eq 11 ]
	[ "${lines[0]}" = "revdedupctl: another command is using vm1@2" ]
	must restore vm1@2 --to r2.img
	must snapshot vm1 --from 1.img
	ctl prune vm1 --keep-last 1 --json 2>/dev/null
	[ "$status" -eq 11 ]
	[[ $output == *'{"type": "skipped", "version": "vm1@2"}'* ]]
	[[ $output == *'{"type": "delete", "version": "vm1@3"}'* ]]
	drop
	# Somebody deletes it: nobody begins to read it, and the others are read.
	hold 5 "$id"
	ctl restore vm1@2 --to r3.img
	[ "$status" -eq 11 ]
	[ ! -e r3.img ]
	must scrub
	ctl scrub vm1
	[ "$status" -eq 3 ]
	[[ $output == *"read 1 versions"* ]]
	drop
	# Somebody repairs the pool.
	hold 0 0
	ctl list
	[ "$status" -eq 11 ]
	ctl list --retry-lock 1
	[ "$status" -eq 11 ]
	drop
	must check
}

@test "a pool that one cannot write to" {
	make_versions
	chmod -R a-w pool
	# Nothing is forbidden to root, but for what it gives up.
	weak=()
	[ ! -w pool/catalog.db ] ||
		weak=(setpriv "--bounding-set=-dac_override,-dac_read_search" --)
	weakly() {
		run "${weak[@]}" "$build/bin/revdedupctl" "$@"
	}
	weakly restore vm1@1 --to r.img
	[ "$status" -eq 0 ]
	cmp 1.img r.img
	for command in list "show vm1" stats check scrub "diff vm1@1 vm1@2"; do
		# shellcheck disable=SC2086 # words
		weakly $command
		[ "$status" -eq 0 ]
	done
	weakly snapshot vm1 --from 1.img
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == *"Permission denied"* ]]
	chmod -R u+w pool
	must check
}

@test "interrupted: at once, and nothing is lost" {
	make_versions
	mkfifo fifo
	code=0
	"$build/bin/revdedupctl" dump vm1@1 >fifo 2>err 3>&- &
	exec 4<fifo
	# It has begun, and has to wait for us.
	head -c 1 <&4 >/dev/null
	kill -INT $!
	cat <&4 >/dev/null
	exec 4<&-
	wait $! || code=$?
	[ "$code" -eq 130 ]
	[ "$(cat err)" = "revdedupctl: interrupted" ]
	must check
}

@test "progress" {
	make_versions
	must restore vm1@1 --to r.img --json --progress=always
	[ "$(field 0 '["type"]')" = progress ]
	[ "$(field 0 '["version"]')" = vm1@1 ]
	[ "$(field 0 '["done"]')" = $((6 << 20)) ]
	[ "$(field 0 '["total"]')" = $((6 << 20)) ]
	[ "$(field 1 '["type"]')" = restore ]
	must snapshot vm1 --from 1.img --progress=always
	[[ $output == *"snapshot: 6.0 MiB of 6.0 MiB, 100 %"* ]]
	must snapshot vm1 --from 2.img
	[[ $output != *%* ]]
	must snapshot vm1 --from 2.img --json --progress never
	[ "${#lines[@]}" -eq 1 ]
	ctl scrub --progress=sometimes
	[ "$status" -eq 2 ]
	ctl list --progress=always
	[ "$status" -eq 2 ]
}

@test "output that does not arrive is a failure" {
	[ -w /dev/full ] || skip "no /dev/full"
	make_versions
	for command in list "show vm1" stats check scrub "diff vm1@1 vm1@2" help; do
		run sh -c "'$build/bin/revdedupctl' $command >/dev/full"
		expect 1 <<<"revdedupctl: cannot write to stdout: the output is incomplete"
	done
	run sh -c "'$build/bin/revdedupctl' dump vm1@1 >/dev/full"
	[ "$status" -eq 12 ]
}

@test "wrong usage" {
	ctl
	expect 2 <<<"revdedupctl: no command given (try 'revdedupctl help')"
	ctl frobnicate
	expect 2 <<<"revdedupctl: there is no command 'frobnicate' (try 'revdedupctl help')"
	ctl list --frobnicate
	expect 2 <<<"revdedupctl: there is no option '--frobnicate' (try 'revdedupctl help list')"
	ctl list -qz
	expect 2 <<<"revdedupctl: there is no option '-z' (try 'revdedupctl help list')"
	ctl list -p
	expect 2 <<<"revdedupctl: '-p' needs a value (try 'revdedupctl help list')"
	ctl list --pool
	expect 2 <<<"revdedupctl: '--pool' needs a value (try 'revdedupctl help list')"
	ctl list --dry-run
	expect 2 <<<"revdedupctl: 'list' does not take --dry-run (try 'revdedupctl help list')"
	ctl ls -n
	expect 2 <<<"revdedupctl: 'list' does not take --dry-run (try 'revdedupctl help list')"
	ctl list a b
	expect 2 <<<"revdedupctl: unexpected argument 'b' (try 'revdedupctl help list')"
	ctl diff vm1@1
	expect 2 <<<"revdedupctl: 'diff' needs VOL@A VOL@B (try 'revdedupctl help diff')"
	ctl list -p x --lock-wait forever
	expect 2 <<<"revdedupctl: --lock-wait needs a number from 0 to 2592000, not 'forever' (try 'revdedupctl help list')"
	ctl completion zsh
	[ "$status" -eq 2 ]
}

@test "a catalog that is lost or too old is made anew" {
	make_versions
	mkdir old
	cp pool/catalog.db{,-pages} old
	blocks 3.img 30 5
	must snapshot vm1 --from 3.img

	rm -f pool/catalog.db*
	cp old/* pool
	for verb in list "snapshot vm1 --from 3.img"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		[ "$status" -eq 1 ]
		[[ $output == *"the catalog is older than the data area"* ]]
	done

	rm pool/catalog.db
	ctl list
	[ "$status" -eq 4 ]
	[[ $output == *"repair --rebuild-catalog"* ]]
	ctl repair
	[ "$status" -eq 4 ]
	must repair --rebuild-catalog
	must check
	must scrub
	for nr in 1 2; do
		must restore "vm1@$nr" --to back
		cmp "$nr.img" back
		rm back
	done
	must restore vm1@4 --to back
	cmp 3.img back
	must snapshot vm1 --from 1.img
	must check
}

@test "help, version, completion" {
	for help in --help help "help list" "list --help" "ls --help --nothing-else"; do
		# shellcheck disable=SC2086 # words
		ctl $help
		case $help in
		*else*) [ "$status" -eq 2 ] ;;
		*) [ "$status" -eq 0 ] && [[ ${lines[0]} == "Usage: revdedupctl "* ]] ;;
		esac
	done
	ctl help frobnicate
	expect 2 <<<"revdedupctl: there is no command 'frobnicate' (try 'revdedupctl help')"
	for version in --version version; do
		must "$version"
		[[ $output =~ ^revdedupctl\ [0-9.]+,\ pool\ format\ 2$ ]]
	done
	# Each command that there is has help, and its aliases are there.
	must help
	for verb in init snapshot list show stats diff restore dump delete prune protect \
		unprotect tag check scrub repair completion help version attach detach status \
		map unmap mount umount clone rollback; do
		[[ $output == *"  $verb "* ]]
	done
	for alias in create-pool backup create ls versions snapshots info du df extract receive \
		cat rm remove forget expire hold release pin label fsck verify \
		unmount; do
		must help "$alias"
	done

	must completion bash
	echo "$output" >script
	shellcheck -s bash script || [ $? -eq 127 ]
	complete_line() {
		bash -c '. ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _revdedupctl
			echo "${COMPREPLY[*]}"' bash "$@"
	}
	[ "$(complete_line revdedupctl snaps)" = "snapshot snapshots" ]
	[ "$(complete_line revdedupctl -p x restore --f)" = "--force --full" ]
	[ "$(complete_line revdedupctl clone vm1 vg/new --th)" = "--thinpool" ]
	[ -z "$(complete_line revdedupctl restore vm)" ]
}
