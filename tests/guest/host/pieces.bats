#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Volumes in use whose versions are in pieces, with inline deduplication: what devices of these
# versions read while blocks go from recipe to recipe, move, are healed, and are given back.

# Each test is a subshell; no name here has blanks; who sleeps holds a device open.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154,SC2217
load ../lib/guest
load ../lib/lvm

data=/tmp/rdt-pool/pool/data
keep=/tmp/rdt-pool
mnt=/tmp/rdt-mnt
new=$(device_of new)

setup() {
	lvm_setup 400
	mkdir -p $mnt
}

teardown() {
	# If a test has failed.
	rm -f /tmp/go
	[ -z "${reader:-}" ] || wait "$reader" || :
	for name in rdt-other rdt-newest; do
		dmsetup remove --retry $name 2>/dev/null || :
	done
	lvm_teardown
}

# must COMMAND...: run it, with its output in $output, and see that it succeeds.
must() {
	run revdedupctl "$@"
	echo "$* ($status): $output"
	[ "$status" -eq 0 ]
}

# said KEY: print its value, of what must() got.
said() { json "$1" <<<"$output"; }

# is NAME EXPECTED: of what must() got.
is() {
	[ "$(said "$1")" = "$2" ] || {
		echo "'$1' is not $2"
		return 1
	}
}

# volume PIECES: vm1 of 8 MiB, with version 1.
volume() {
	must tune --pieces "$1" --dedup inline
	some_volume vm1 8
	cp "$vol" $keep/1
}

# random FIRST BLOCKS: give these blocks of $vol new content.
random() {
	dd if=/dev/urandom of="$vol" bs=4k seek="$1" count="$2" iflag=fullblock oflag=direct \
		conv=notrunc status=none
}

# change SEED: six blocks, in all four segments.
change() {
	local i
	for i in {0..5}; do
		random $((($1 * 37 + i * 341) % 2048)) 1
	done
}

# scatter SEED BLOCKS: so many blocks, anywhere.
scatter() {
	fio --name=change --filename="$vol" --ioengine=psync --direct=1 --rw=randwrite --bs=4k \
		--io_size=$(($2 * 4))k --randseed="$1" --refill_buffers >/tmp/fio || {
		cat /tmp/fio
		return 1
	}
}

# version NUMBER BLOCKS: so much has changed of vm1, which becomes this version; a copy is a file
# of that name.
version() {
	cp "$vol" "$keep/$1"
	must snapshot $vg/vm1 --json
	is number "$1"
	is mode changed
	is blocks_changed "$2"
}

# night NUMBER: the same after change().
night() {
	change "$1"
	version "$1" 6
	is_small 6
	is segments_in_part 4
}

# is_small BLOCKS: what the snapshot stored is what changed, and no more.
is_small() {
	is bytes_stored $(($1 * 4096))
	is segments_in_part "$(said segments_changed)"
}

# are NUMBER...: the devices of these versions of vm1 read as the copies.
are() {
	local nr
	echo 3 >/proc/sys/vm/drop_caches
	for nr in "$@"; do
		cmp "$vol@$nr" "$keep/$nr"
	done
}

# restores NUMBER...: so do the versions of vm1.
restores() {
	local nr
	for nr in "$@"; do
		is_version "$vg/vm1@$nr" "$keep/$nr"
	done
}

# reader DEVICE FILE: compare them, past the page cache, until end_reader.
reader() {
	touch /tmp/go
	while [ -e /tmp/go ]; do
		dd if="$1" bs=1M iflag=direct status=none | cmp - "$2" || exit
	done >/tmp/reader 2>&1 3>&- &
	reader=$!
}

end_reader() {
	rm -f /tmp/go
	wait "$reader" || {
		cat /tmp/reader
		return 1
	}
}

# is_clean: no device reads a version, nothing is kept for one, and the pool is sound.
is_clean() {
	nothing_held
	[ -z "$(losetup -a)" ]
	must check
}

@test "pieces: each version is a device, and files, with 64 and with 512 pieces" {
	volume 64
	for nr in 2 3 4; do
		night $nr
		must map $vg/vm1@$nr
	done
	must map $vg/vm1@1
	are {1..4}
	# What was the newest when it became a device is in pieces that others own now.
	must show $vg/vm1@latest --json
	is segments_whole 0
	# What lies near each other is one read: of four segments, and of what changed in them.
	REVDEDUP_FAIL_LOG=/tmp/log revdedupctl -q restore $vg/vm1@4 --to $keep/read
	cmp $keep/read $keep/4
	grep -cx read /tmp/log
	[ "$(grep -cx read /tmp/log)" -le 24 ]
	# More pieces than 64 are written as one after all; 512 are not.
	scatter 5 400
	version 5 400
	[ "$(said bytes_stored)" -gt $((450 * 4096)) ]
	must tune --pieces 512
	for nr in 6 7; do
		scatter $nr 400
		version $nr 400
		is_small 400
		must map $vg/vm1@$nr
	done
	are {1..4} 6 7
	for nr in {1..4} 6 7; do
		must unmap $vg/vm1@$nr
	done
	restores {1..7}
	is_clean
	# A file system, of which little changes.
	mkfs.ext4 -q "$vol"
	for nr in one two three; do
		mount "$vol" $mnt
		echo $nr >$mnt/file
		head -c 20000 /dev/urandom >$mnt/$nr
		cp $mnt/$nr $keep/$nr
		umount $mnt
		must snapshot $vg/vm1 --tag $nr --json
	done
	[ "$(said bytes_stored)" -lt $((1 << 20)) ]
	for nr in one two three; do
		must mount $vg/vm1@$nr $mnt
		[ "$(<$mnt/file)" = $nr ]
		cmp $mnt/$nr $keep/$nr
		must umount $mnt
	done
	is_clean
}

# bats test_tags=soak
@test "pieces: devices follow blocks that are swapped, adopted, handed over" {
	volume 64
	night 2
	night 3
	# The oldest, one of the middle, and the newest.
	for nr in 1 2 3; do
		must map $vg/vm1@$nr
	done
	reader "$vol@2" $keep/2
	# The newest takes the blocks over.
	night 4
	night 5
	are 1 2 3
	# Only old versions have this half from now on, until another volume has it as well,
	# which adopts it from them.
	random 0 1024
	version 6 1024
	are 1 2 3
	make_lv vm2 8
	revdedupctl -q attach $vg/vm2
	dd if=$keep/2 of="$(device_of vm2)" bs=4k seek=77 count=1024 oflag=direct status=none
	cp "$(device_of vm2)" $keep/other
	must snapshot $vg/vm2 --json
	[ "$(said bytes_stored)" -lt $((256 << 10)) ]
	are 1 2 3
	# It is superseded there, and handed back.
	dd if=/dev/urandom of="$(device_of vm2)" bs=1M count=6 oflag=direct status=none
	must snapshot $vg/vm2
	are 1 2 3
	is_version $vg/vm2@1 $keep/other
	must delete $vg/vm2@1
	are 1 2 3
	must delete $vg/vm1@1 $vg/vm1@4 $vg/vm1@5
	[[ $output == *"no longer"* ]]
	are 1 2 3
	night 7
	must prune $vg/vm1 --keep-last 1
	are 1 2 3
	end_reader
	must check
	must repair --rebuild-catalog
	are 1 2 3
	for nr in 1 2 3; do
		must unmap $vg/vm1@$nr
	done
	restores 7
	is_clean
}

# killed_below STEP COMMAND...: the device of version 3 does not notice.
killed_below() {
	killed "$@"
	are 3
}

@test "pieces: no place is given back under a device, killed at each step of a move" {
	# On a device only whole frames are given back, so what is left of one moves.
	make_lv pool 128
	export REVDEDUP_POOL=$keep/device
	must init --data /dev/$vg/pool $REVDEDUP_POOL
	volume 512
	# Of two frames version 3 alone needs a few blocks in the end, and owns them.
	random 0 250
	random 512 250
	version 2 500
	is_small 500
	random 250 250
	random 762 250
	version 3 500
	is_small 500
	must map $vg/vm1@3
	reader "$vol@3" $keep/3
	killed_below compact-write delete $vg/vm1@1 $vg/vm1@2
	killed_below compact-commit prune $vg/vm1 --keep-last 1
	killed_below free-vacate prune $vg/vm1 --keep-last 1
	killed_below free-punch prune $vg/vm1 --keep-last 1
	killed_below free-commit prune $vg/vm1 --keep-last 1
	must prune $vg/vm1 --keep-last 1
	must stats --json
	is bytes_queued 0
	# Others write to these places now.
	random 0 2048
	version 4 2048
	are 3
	end_reader
	must unmap $vg/vm1@3
	restores 3 4
	is_clean
}

# --- the pass over the pool

# bats test_tags=soak
@test "pieces: devices read what a pass gives up, killed at its steps" {
	local step
	must tune --pieces 1 --dedup reverse
	some_volume vm1 8
	cp "$vol" $keep/1
	# vm2 has the same, elsewhere, and vm1 nothing of it any more.
	make_lv vm2 8
	revdedupctl -q attach $vg/vm2
	dd if=$keep/1 of="$(device_of vm2)" bs=4k seek=77 count=1900 oflag=direct status=none
	must snapshot $vg/vm2
	random 0 2048
	version 2 2048
	for nr in 1 2; do
		must map $vg/vm1@$nr
	done
	reader "$vol@1" $keep/1
	for step in pass-change free-vacate free-punch; do
		run env REVDEDUP_FAIL="$step=kill" revdedupctl dedup --older 0 --least-run 1
		echo "$step: $status: $output"
		[ "$status" -eq 137 ]
		are 1 2
	done
	must dedup --older 0 --least-run 1
	are 1 2
	must check
	# What the old version refers to comes to it, and goes again.
	must delete $vg/vm2@1
	are 1 2
	end_reader
	for nr in 1 2; do
		must unmap $vg/vm1@$nr
	done
	restores 1 2
	is_clean
}

@test "pieces: a clone of such a version, and rolled back to it" {
	volume 64
	night 2
	night 3
	night 4
	# It stays in the pool while the pool changes.
	must clone $vg/vm1@2 $vg/new --no-hydrate
	night 5
	must delete $vg/vm1@2
	cmp "$new" $keep/2
	# All but what is written to it the pool has.
	dd if=/dev/urandom of="$new" bs=4k seek=700 count=3 oflag=direct conv=notrunc status=none
	cp "$new" $keep/new
	must snapshot $vg/new --json
	[ "$(said bytes_stored)" -lt $((256 << 10)) ]
	night 6
	cmp "$new" $keep/new
	is_version $vg/new@1 $keep/new
	dmsetup message "${new##*/}" 0 hydrate start
	retry 100 0.3 is_home new
	cmp /dev/$vg/new $keep/new
	must detach $vg/new
	# In use, as by a guest; what is on its way home is superseded, and deleted.
	sleep 1000 <"$vol" 3>&- &
	must rollback $vg/vm1@3 --yes --no-snapshot
	cmp "$vol" $keep/3
	change 7
	cp "$vol" $keep/7
	must snapshot $vg/vm1 --json
	[ "$(said bytes_stored)" -lt $((256 << 10)) ]
	must delete $vg/vm1@3
	must prune $vg/vm1 --keep-last 1
	cmp "$vol" $keep/7
	retry 100 0.3 is_home
	cmp "$vol" $keep/7
	cmp /dev/$vg/vm1 $keep/7
	night 8
	restores 7 8
	is_version $vg/new@1 $keep/new
	kill %%
	wait || :
	is_clean
}

# bats test_tags=soak
@test "pieces: blocks that two volumes share: healed, and left by the one that gave them" {
	volume 64
	# A segment, and in it a block that can be found in the pool.
	random 512 512
	seq 100000001000000 100000001000255 | dd of="$vol" bs=4k seek=1000 count=1 oflag=direct \
		conv=notrunc iflag=fullblock status=none
	cp "$vol" $keep/2
	must snapshot $vg/vm1
	make_lv vm2 12
	revdedupctl -q attach $vg/vm2
	dd if=$keep/2 of="$(device_of vm2)" bs=4k seek=77 oflag=direct status=none
	cp "$(device_of vm2)" $keep/other
	must snapshot $vg/vm2 --json
	[ "$(said bytes_stored)" -lt $((256 << 10)) ]
	must map $vg/vm2@1 rdt-other
	cmp /dev/mapper/rdt-other $keep/other
	at=$(head -c 64M $data | grep -abo 000000001000000 | cut -d : -f 1)
	[ "$(wc -w <<<"$at")" = 1 ]
	dd if=/dev/urandom of=$data bs=4k seek=$((at / 4096)) count=1 conv=notrunc status=none
	run revdedupctl scrub
	echo "$output"
	[ "$status" -eq 4 ]
	[[ $output == *"$vg/vm1@2"* && $output == *"$vg/vm2@1"* ]]
	echo 3 >/proc/sys/vm/drop_caches
	run cmp /dev/mapper/rdt-other $keep/other
	[ "$status" -eq 1 ]
	must repair --from $keep/2
	echo 3 >/proc/sys/vm/drop_caches
	cmp /dev/mapper/rdt-other $keep/other
	must scrub
	is_version $vg/vm1@2 $keep/2
	# Each takes what the other does not need.
	reader /dev/mapper/rdt-other $keep/other
	must delete $vg/vm1@1
	random 0 2048
	must snapshot $vg/vm1
	must delete $vg/vm1@2
	must delete $vg/vm1@3
	vol=$(device_of vm2)
	change 9
	cp "$vol" $keep/9
	must snapshot $vg/vm2 --json
	is_small 6
	must delete $vg/vm2@1
	end_reader
	is_version $vg/vm2@2 $keep/9
	echo 3 >/proc/sys/vm/drop_caches
	cmp /dev/mapper/rdt-other $keep/other
	must repair --rebuild-catalog
	must map $vg/vm2@2 rdt-newest
	cmp /dev/mapper/rdt-newest $keep/9
	cmp /dev/mapper/rdt-other $keep/other
	must unmap rdt-newest
	must unmap rdt-other
	must scrub
	is_clean
}

# bats test_tags=soak
@test "pieces: a snapshot that is killed as blocks change hands is finished by the next" {
	volume 64
	night 2
	must map $vg/vm1@1
	must map $vg/vm1@2
	reader "$vol@2" $keep/2
	nr=2
	for step in snapshot-part:3 snapshot-batch swap swap:2 reverse-change; do
		change $nr
		cp "$vol" $keep/killed
		run env REVDEDUP_FAIL=$step=kill revdedupctl -q snapshot $vg/vm1
		echo "$step: $status: $output"
		[ "$status" -eq 137 ]
		are 1 2
		# The version exists, or its blocks are in the next one.
		case $step in
		swap* | reverse-*) is_version $vg/vm1@latest $keep/killed ;;
		esac
		random 99 5
		must snapshot $vg/vm1 --json
		[ "$(said bytes_stored)" -le $((11 * 4096)) ]
		nr=$(said number)
		cp "$vol" "$keep/$nr"
		restores $nr
		must check
	done
	are 1 2
	end_reader
	must unmap $vg/vm1@1
	must unmap $vg/vm1@2
	is_clean
}
