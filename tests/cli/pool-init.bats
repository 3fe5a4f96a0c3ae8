#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl init, the pool that a command finds, formats, and a catalog that is lost.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

@test "init: a pool, and what is in the way of one" {
	ctl init pool --size 100M --pieces 1
	expect 0 <<<"made pool 'pool'"
	[ "$(stat -c %s pool/data)" -eq $((100 << 20)) ]
	ctl init pool
	[ "$status" -eq 1 ]
	[[ $output == *"'pool' is a pool already"* ]]

	ctl init other --size 64M --reserve 1M --pieces 1 --json
	expect 0 <<<'{"type": "init", "pool": "other", "pieces": 1, "dedup": "reverse", "measured": false}'
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
	expect 1 <<-'END'
		revdedupctl: 'area' is the data area of a pool already
		revdedupctl: nothing was changed; --force uses it anyway, and what it holds is lost
		revdedupctl: no pool was made
	END
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
	ctl init pool2 --data nowhere
	expect 1 <<-'END'
		revdedupctl: cannot find 'nowhere': No such file or directory
		revdedupctl: no pool was made
	END
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

@test "which pool" {
	ctl list
	expect 2 <<<"revdedupctl: no pool given: name one with --pool, in REVDEDUP_POOL, or in '$PWD/etc/revdedup.conf' (try 'revdedupctl help list')"
	ctl list --pool nowhere
	[ "$status" -eq 10 ]
	[ "${lines[0]}" = "revdedupctl: 'nowhere' is not a pool" ]
	[[ ${lines[1]} == *"its file system may not be mounted"* ]]
	mkdir empty
	ctl -p empty check
	[ "$status" -eq 10 ]
	# Never tell the user of a pool to make one in its place.
	touch empty/catalog.db
	ctl -p empty check
	expect 10 <<-'END'
		revdedupctl: 'empty/data' is missing, and with it the data of the pool
		revdedupctl: nothing was changed; bring it back, from a copy of the pool if need be
	END
	rm empty/catalog.db
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

@test "a pool of another format is refused, and left alone" {
	local older="nothing was changed; restore the versions with the program that made the pool; then make a new pool with 'revdedupctl init'"
	local newer="nothing was changed; install a newer revdedup" verb
	make_versions
	edit "PRAGMA user_version = 4"
	ctl list
	expect 1 <<-END
		revdedupctl: '$PWD/pool/catalog.db' has format 4, and this program knows only 6
		revdedupctl: $older
	END
	edit "PRAGMA user_version = 7"
	ctl list
	expect 1 <<-END
		revdedupctl: '$PWD/pool/catalog.db' has format 7, and this program knows only 6
		revdedupctl: $newer
	END
	# It does not put aside what it does not know.
	cp pool/catalog.db catalog
	for verb in "repair --rebuild-catalog" "repair --rebuild-catalog --force" "repair --force"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		expect 1 <<-END
			revdedupctl: '$PWD/pool/catalog.db' has format 7, and this program knows only 6
			revdedupctl: $newer
		END
	done
	cmp pool/catalog.db catalog
	[ ! -e pool/catalog.old ]
	edit "PRAGMA user_version = 6"
	"$BATS_TEST_DIRNAME/later.py" pages pool/catalog.db-pages 2
	for verb in list "snapshot vm1 --from 1.img" "repair --rebuild-catalog"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		expect 1 <<-END
			revdedupctl: '$PWD/pool/catalog.db-pages' has format 2, and this program knows only 1
			revdedupctl: $newer
		END
	done
	"$BATS_TEST_DIRNAME/later.py" pages pool/catalog.db-pages 1
	super_format 1
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
	super_format 3
	ctl list
	[ "$status" -eq 1 ]
	[ "${lines[1]}" = "revdedupctl: $newer" ]
	super_format 2
	must check
}

@test "a pool with features that are not known" {
	local newer="nothing was changed; install a newer revdedup" verb
	make_versions
	# Whatever else of it is not known, either.
	edit "PRAGMA user_version = 7"
	super_format 2 0 0 $((1 << 5))
	cp pool/data data
	for verb in list "snapshot vm1 --from 1.img" "repair --force" "repair --rebuild-catalog"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		expect 1 <<-END
			revdedupctl: '$PWD/pool/data' has features that this program does not know (incompatible: 0x20)
			revdedupctl: $newer
		END
	done
	cmp pool/data data
	edit "PRAGMA user_version = 6"
	# Reading is allowed, and no more.
	super_format 2 0 $((1 << 40)) 0
	cp pool/data data
	must list
	must check
	must restore vm1@1 --to again.img
	cmp 1.img again.img
	for verb in "snapshot vm1 --from 1.img" "delete vm1@1" "prune --keep-last 1"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		expect 1 <<-END
			revdedupctl: '$PWD/pool/data' has features that this program does not know (compatible for reading: 0x10000000000)
			revdedupctl: $newer
		END
	done
	cmp pool/data data
	# The others are kept, also when the superblock is written.
	super_format 2 $((1 << 7)) 0 0
	must grow --size 2G
	must check
	run super_format 2
	[ "$output" = "128 0 0"$'\n'"128 0 0" ]
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
