#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl snapshot: of images and devices, with a list of changes, refused.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

@test "a fifo is no image" {
	make_versions
	mkfifo fifo
	for command in "snapshot vm2 --from fifo" "repair --from fifo"; do
		# shellcheck disable=SC2086
		run timeout 600 "$build/bin/revdedupctl" $command
		[ "$status" -eq 1 ]
	done
}

@test "snapshot: the three numbers" {
	make_pool 128M
	truncate -s 6M 1.img
	blocks 1.img 0 600
	ctl snapshot vm1 --from 1.img
	output="${output% in * s} in N s"
	expect 0 <<-'END'
		vm1@1: full read: it is the first version
		2 segments, read 2.3 MiB, changed 2.3 MiB, wrote 2.3 MiB to the pool in N s
	END
	blocks 1.img 511 2
	# What the second ends with is a hole, and not read.
	ctl backup vm1 --from 1.img --json
	[ "$status" -eq 0 ]
	[ "$(field 0 '["type"]')" = snapshot ]
	[ "$(field 0 '["version"]')" = vm1@2 ]
	[ "$(field 0 '["mode"]')" = full ]
	[ "$(field 0 '["reason"]')" = "image files are not tracked, see --changed" ]
	[ "$(field 0 '["segments_read"]')" = 2 ]
	[ "$(field 0 '["bytes_read"]')" = $((600 * 4096)) ]
	[ "$(field 0 '["blocks_changed"]')" = 2 ]
	[ "$(field 0 '["bytes_stored"]')" = $((600 * 4096)) ]
	ctl snapshot vm1 --from 1.img --full-scan -v
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "vm1@3: full read: as requested" ]
	[[ ${lines[1]} == "2 segments, read 2.3 MiB, changed 0 B, wrote 0 B to the pool in "*" s" ]]
	# What another volume has is not stored again.
	ctl snapshot vm2 --from 1.img --json
	[ "$(field 0 '["segments_shared"]')" = 2 ]
	[ "$(field 0 '["bytes_stored"]')" = 0 ]
	must snapshot vm1 --from 1.img -q
	[ -z "$output" ]
}

@test "snapshot: with a list of changes" {
	make_pool 128M
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
	# An image that is another's: without a list, too, its size says so.
	truncate -s 60M 1.img
	ctl snapshot vm1 --from 1.img
	[[ ${lines[0]} == "vm1@5: full read: the size has changed" ]]
	ctl snapshot vm1 --from 1.img --changed no-such-list --full-scan
	[ "$status" -eq 0 ]
}

@test "snapshot: a range of changes over several segments" {
	make_pool 128M
	truncate -s 64M 1.img
	blocks 1.img 0 10
	must snapshot vm1 --from 1.img
	blocks 1.img 1000 1100
	printf 'version vm1@1\n%d %d\n' $((1000 * 4096)) $((1100 * 4096)) >list
	ctl snapshot vm1 --from 1.img --changed list --json
	[ "$status" -eq 0 ]
	[ "$(field 0 '["mode"]')" = changed ]
	"$build/bin/revdedupctl" dump vm1@2 | cmp - 1.img
	# What is read to be sure has not changed.
	echo "version 2" >list
	must snapshot vm1 --from 1.img --changed list
	[[ $output == "vm1@3: 0 changed segments, "*" audited, read "*", changed 0 B, "* ]]
}

@test "snapshot: a list of changes for an image of nothing" {
	make_pool 128M
	: >1.img
	ctl snapshot vm1 --from 1.img
	echo "version 1" >list
	ctl snapshot vm1 --from 1.img --changed list
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "vm1@2: full read: there is nothing to read" ]
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
	local number=1 nr
	make_pool 128M
	truncate -s 128M 1.img
	blocks 1.img $((3 * 512)) 512
	blocks 1.img $((7 * 512)) 512
	must snapshot vm1 --from 1.img
	unchanged_since 1
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
	# Those that lack it rest on a list, and are marked now; those that were read are right.
	number=$(ask "SELECT max(number) FROM version")
	for ((nr = 1; nr <= number; nr++)); do
		ctl show "vm1@$nr" --json
		if [ "$nr" -eq 1 ] || [ "$nr" -eq "$number" ]; then
			[[ $output == *'"consistent": true, "by_list": false'* ]]
		else
			[[ $output == *'"consistent": false, "by_list": true'* ]]
		fi
	done
	ctl restore vm1@2 --to out
	[[ $output == *"vm1@2 is not consistent: a list of changes lacked one"* ]]
	"$build/bin/revdedupctl" repair --rebuild-catalog --yes --force -q
	ctl show vm1@2
	[[ $output == *"consistent:     no: a list of changes lacked one"* ]]
}

@test "snapshot: a version that rests on a list of changes says so" {
	make_pool 128M
	block_in_each 1.img 8
	must snapshot vm1 --from 1.img
	unchanged_since 1
	must list vm1
	[[ $output == *"vm1@2 "*"by a list"* ]]
	[[ ${output%vm1@2*} != *"by a list"* ]]
	must show vm1@2
	[[ $output == *"consistent:     yes, if the list of changes lacked none"* ]]
}

# bats test_tags=slow
@test "snapshot: an audit whose quick sums are wrong, or not known" {
	local found
	make_pool 128M
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

@test "snapshot: a list of changes that is none" {
	make_pool 128M
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
	make_pool 128M
	truncate -s 4M 1.img
	ctl snapshot vm1
	expect 2 <<<"revdedupctl: 'vm1' is not attached: name an image or device with --from (try 'revdedupctl help snapshot')"
	ctl snapshot vm1@2 --from 1.img
	expect 2 <<<"revdedupctl: 'snapshot' takes a volume, and 'vm1@2' is a version: name 'vm1' (try 'revdedupctl help snapshot')"
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
	ln -s pool/data link
	ctl snapshot vm1 --from link
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: 'link' is part of the pool" ]
	ctl list vm1
	[ "${#lines[@]}" -eq 0 ] || [ "$status" -eq 1 ]
}

@test "snapshot: a stream with its size" {
	local size=$((5 * 1048576 + 77))
	make_pool 128M
	head -c "$size" /dev/urandom >1.img
	must snapshot vm1 --from - --size "$size" < <(cat 1.img)
	"$build/bin/revdedupctl" dump vm1@1 | cmp - 1.img
	blocks 1.img 700 3
	must snapshot vm1 --from - --size "$size" --json < <(cat 1.img)
	[ "$(field 0 '["blocks_changed"]')" = 3 ]
	[ "$(field 0 '["reason"]')" = "a stream is read as a whole" ]
	"$build/bin/revdedupctl" dump vm1@2 | cmp - 1.img
	refused() {
		ctl snapshot vm1 --from - "${@:2}" < <(cat 1.img)
		echo "$output"
		[ "$status" -ne 0 ]
		[[ $output == *"$1"* ]]
		ctl list vm1
		[[ $output != *vm1@3* ]]
	}
	refused "goes on behind its $((size - 1)) bytes" --size $((size - 1))
	refused "ended after $size of $((size + 1)) bytes" --size $((size + 1))
	refused "needs --size" --comment none
	refused "read as a whole" --size "$size" --bitmap b
	ctl snapshot vm1 --from 1.img --size 1M
	[[ $output == *"--size is for --from -"* ]]
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
	[[ ${lines[2]} == *"'revdedupctl grow' gives the pool more room"* ]]
	[ "${lines[3]}" = "revdedupctl: no version was made; existing versions are unchanged" ]
	must check
	must list
	[ "${#lines[@]}" -eq 2 ]
	must delete vm1@1
	must snapshot vm2 --from 2.img
	must check
}

@test "snapshot: a file that has a disk in it is refused, with what makes the disk of it" {
	local format magic at
	make_pool 128M
	while read -r format at magic; do
		truncate -s 1M "x.$format"
		# shellcheck disable=SC2059 # bytes
		printf "$magic" | dd of="x.$format" bs=1 seek="$at" conv=notrunc status=none
		ctl snapshot vm1 --from "x.$format"
		expect 1 <<-END
			revdedupctl: 'x.$format' is not a disk: it is a file of format $format, with a disk in it
			revdedupctl: '--from $format:x.$format' reads the disk in it
			revdedupctl: no version was made; --force reads the file as it is, byte by byte
		END
	done <<-'END'
		qcow2 0 QFI\xfb\0\0\0\x03
		qcow 0 QFI\xfb\0\0\0\x01
		qed 0 QED\0
		vmdk 0 KDMV
		vdi 64 \x7f\x10\xda\xbe
		vhdx 0 vhdxfile
		vpc 0 conectix
		parallels 0 WithouFreSpacExt
	END
	# A raw disk may begin with anything.
	must snapshot vm1 --from x.qcow2 --force --json
	[ "$(field 0 '["consistent"]')" = True ]
	must restore vm1@1 --to back
	cmp x.qcow2 back
	# What is refused first must not look like more than it is.
	printf 'QFI' >short
	truncate -s 1M short
	must snapshot vm2 --from short
	must list --json
	[ "${#lines[@]}" -eq 2 ]
}

@test "snapshot: formats as qemu-img writes them, and the line that reads the disk" {
	local format line
	command -v qemu-img || skip "no qemu-img"
	make_pool 128M
	truncate -s 4M disk
	blocks disk 0 100
	for format in qcow2 qcow qed vmdk vdi vhdx vpc parallels; do
		qemu-img convert -q -O "$format" disk "x.$format" 2>error || continue
		ctl snapshot vm1 --from "x.$format"
		[ "$status" -eq 1 ]
		line=$(sed -n "s/^revdedupctl: '--from \([^']*\)' reads.*/\1/p" <<<"$output")
		[ "$line" = "$format:x.$format" ]
		must snapshot "$format" --from "$line"
		must restore "$format@1" --to raw --yes
		cmp -n $((4 << 20)) disk raw
	done
	must list
	[[ $output == *qcow2@1* ]]
}

# bats test_tags=slow
@test "snapshot: an image that is in use or is written is refused, or marked" {
	local hint="stop the program that writes to it first; --force reads it anyway, and marks the version as not consistent"
	local none="no version was made; existing versions are unchanged" file writer
	make_pool 128M
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
	make_pool 128M
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

@test "snapshot: of a block device, and a pool on one" {
	truncate -s 6M 1.img
	blocks 1.img 0 600
	truncate -s 200M disk.img
	loop=$(losetup --find --show disk.img 2>&1) || skip "no loop device: $loop"
	ctl init --compression none pool --data "$loop" --size 1G
	[ "$status" -eq 2 ]
	must init --compression none pool --data "$loop"
	export REVDEDUP_POOL=pool
	must snapshot vm1 --from 1.img
	must restore vm1@1 --to r.img
	cmp 1.img r.img
	ctl restore vm1@1 --to "$loop" --yes --force
	[ "$status" -eq 1 ]
	[[ $output == *"is part of the pool"* ]]
	must delete vm1@1
	must check
	detach "$loop"

	must init --compression none other --size 100M
	export REVDEDUP_POOL=other
	loop=$(losetup --find --show --read-only 1.img)
	must snapshot vm1 --from "$loop"
	must restore vm1@1 --to r.img --yes
	[[ $output == *": wrote 0 B"* ]]
	cmp 1.img r.img
}
