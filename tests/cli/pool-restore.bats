#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl restore and dump: to files and devices, over what is there, refused.
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

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
	# It has a disk in it, and is none.
	printf 'QFI\xfb\0\0\0\3' >guest.qcow2
	ctl restore vm1@1 --to guest.qcow2 --yes
	expect 1 <<-'END'
		revdedupctl: 'guest.qcow2' is not a disk: it is a file of format qcow2, with a disk in it
		revdedupctl: nothing was changed; --to qcow2:guest.qcow2 writes to the disk in it, and --force a raw disk over it
	END
	ctl restore vm1@1 --to guest.qcow2 --yes --from pool
	expect 1 <<-'END'
		revdedupctl: 'guest.qcow2' is not a disk: it is a file of format qcow2, with a disk in it
		revdedupctl: nothing was changed; --force uses it anyway, and what it holds is lost
	END
	[ "$(stat -c %s guest.qcow2)" = 8 ]
	must restore vm1@1 --to guest.qcow2 --yes --force
	cmp 1.img guest.qcow2
}

# unread COMMAND...: run it with a stdout that nobody reads any more; its stderr is in the file said.
unread() {
	status=0
	mkfifo unread
	# A pipe without a reader.
	exec 8<>unread
	exec 9>unread
	exec 8>&-
	env --default-signal=PIPE "$build/bin/revdedupctl" "$@" >&9 2>said || status=$?
	exec 9>&-
	rm unread
}

@test "what changes something goes on to its end if its output is no longer read" {
	make_versions
	# So slowly that it says how far it is.
	unread restore vm1@1 --to r.img --rate 1M --json
	[ "$status" -eq 1 ]
	[ "$(<said)" = "revdedupctl: cannot write to stdout: the output is incomplete" ]
	cmp 1.img r.img
	unread delete vm1@1 vm1@2
	[ "$status" -eq 1 ]
	must list
	[ "${#lines[@]}" -eq 2 ]
	# What only prints ends as other programs do, and without a word.
	for verb in list check "delete --dry-run vm1@3"; do
		# shellcheck disable=SC2086 # words
		unread $verb
		[ "$status" -eq 141 ]
		[ ! -s said ]
	done
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
	detach "$loop"
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
	detach "$loop"
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
		ctl -p mnt/pool restore vm1@1 --from "$PWD/pool" --to "$loop" --yes --force
		expect 1 <<-END
			revdedupctl: the pool 'mnt/pool' lies on '$loop'
			revdedupctl: nothing was changed; restore to another place
		END
		umount mnt
		detach "$loop"
		loop=
		rm disk
	done
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
	must restore vm1@-1 --to r.img -q
	[ -z "$output" ]
	cmp 2.img r.img
	ctl restore vm1@1 --to no-such-directory/r.img
	[ "$status" -eq 1 ]
	ctl restore vm1@1
	[ "$status" -eq 2 ]
}

# finds_damage BLOCK: alone, in vm1@1, of 4 MiB, whichever way it is read.
finds_damage() {
	local range="{\"offset\": $(($1 * 4096)), \"length\": 4096}" way
	cp --sparse=always 1.img good
	dd if=/dev/zero of=good bs=4096 seek="$1" count=1 conv=notrunc status=none
	rm -f new
	head -c 4M /dev/urandom >full
	for way in "new" "full --full"; do
		# shellcheck disable=SC2086 # words
		ctl restore vm1@1 --yes --json --to $way
		[[ $status == 4 && $output == *"\"damaged\": [$range]"* ]] ||
			fail_damage "restore --to $way" || return
	done
	cmp new good
	# What was there stays.
	dd if=/dev/zero of=full bs=4096 seek="$1" count=1 conv=notrunc status=none
	cmp full good
	status=0
	"$build/bin/revdedupctl" dump vm1@1 >dumped 2>errors || status=$?
	[ "$status" -eq 4 ] || fail_damage "dump: $(cat errors)" || return
	cmp dumped good
	ctl scrub vm1@1 --json
	[[ $status == 4 && $output == *"\"damaged\": [$range]"* ]] || fail_damage scrub
}

fail_damage() {
	echo "$1: status $status, $output"
	return 1
}

@test "restore: two segments that lie in a row are checked each by itself" {
	local block
	make_pool 64M
	truncate -s 4M 1.img
	# The end of one segment, the beginning of the next.
	blocks 1.img 500 33
	must snapshot vm1 --from 1.img
	cp -r --sparse=always pool whole
	for block in 500 511 512 515 532; do
		rm -r pool
		cp -r --sparse=always whole pool
		damage 1.img "$block"
		finds_damage "$block"
	done
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

@test "restore: over a file, what is damaged leaves it alone, also where no map says what it was" {
	make_pool 64M
	head -c 6M /dev/urandom >new
	head -c 6M /dev/urandom >old
	must snapshot vm1 --from new
	edit "DELETE FROM recipe WHERE id = (SELECT recipe FROM segment WHERE segment = 1)"
	cp old target
	ctl restore vm1@1 --to target --yes
	echo "$output"
	[ "$status" -eq 4 ]
	cmp -n 2M new target
	cmp -i 2M -n 2M old target
	cmp -i 4M new target
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
	make_pool 128M
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
time.sleep(3600)' "$loop" 3>&- &
	holder=$!
	until [ -e held ]; do sleep 0.01; done
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
	detach "$loop"
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

@test "dump: an image on stdout" {
	make_versions
	"$build/bin/revdedupctl" dump vm1@1 | cmp 1.img
	"$build/bin/revdedupctl" dump vm1@2 >o.img
	cmp 2.img o.img
	"$build/bin/revdedupctl" dump vm1@latest | cmp 3.img
	# As fast as is allowed.
	head -c 20M /dev/urandom >slow.img
	must snapshot slow --from slow.img
	start=$(date +%s%N)
	"$build/bin/revdedupctl" dump slow@1 --rate 5M | cmp slow.img
	[ $((($(date +%s%N) - start) / 1000000)) -ge 1500 ]
	ctl dump --json vm1@1
	[ "$status" -eq 2 ]
	[[ $output == *"'dump' does not take --json"* ]]
	ctl restore vm1@1 --to -
	[ "$status" -eq 2 ]
	[[ $output == *"'restore --to -' is 'dump' now"* ]]
	script -qec "'$build/bin/revdedupctl' dump vm1@1" /dev/null >out </dev/null || code=$?
	[ "$code" -eq 2 ]
	grep -q "will not write an image to a terminal" out
}
