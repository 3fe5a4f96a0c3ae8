#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl copies: what most depends on, a second time elsewhere. copies.py reads the
# copies by their format, and needs.py says on which frames how much depends.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

here=$BATS_TEST_DIRNAME

# noise N NR: an image of 4 MiB with so many blocks that nothing else has.
noise() {
	truncate -s 4M "$1.img"
	blocks "$1.img" 0 "$2"
}

# copies SHARE OPTION...: have so much a second time, though it is on the same disk.
copies() {
	must copies "$1" --force "${@:2}"
}

# Three volumes: 1.img is of a and of b, 2.img of c, 3.img of d.
make_fleet() { made_once fill_fleet; }

fill_fleet() {
	make_pool 128M
	noise 1 900
	noise 2 700
	noise 3 512
	must snapshot a --from 1.img
	must snapshot b --from 1.img
	must snapshot c --from 2.img
	must snapshot d --from 3.img
}

# are_right: each copy is what its fingerprint says, and none is of a frame that has none.
are_right() {
	[ "$("$here/copies.py" check copies)" = 0 ]
}

# copied: the frames of the pool that have copies, and their blocks, by number.
copied() { "$here/copies.py" list copies | sort -n; }

# restores N VERSION...: each is N.img.
restores() {
	local nr=$1 version
	shift
	for version; do
		rm -f back
		must restore "$version" --to back
		cmp "$nr.img" back
	done
}

@test "copies: none by default" {
	make_fleet
	must dedup
	[ ! -e pool/copies ]
	must scrub
	ctl copies 5%
	[ "$status" -eq 2 ]
	[[ $output == *"the pool has no copies yet: name a file or device on another disk with --to"* ]]
}

@test "copies: refused on the disk of the data area" {
	make_fleet
	ctl copies 5% --to copies
	[ "$status" -eq 1 ]
	[[ $output == *"'copies' is on a disk on which the data of the pool is"* ]]
	[ ! -e copies ] && [ ! -L pool/copies ]
	ctl copies 5% --to pool/copies --force
	[ "$status" -eq 1 ]
	[[ $output == *"'pool/copies' is part of the pool"* ]]
	# Something else is there.
	echo mine >other
	ctl copies 5% --to other --force
	[ "$status" -eq 1 ]
	[[ $output == *"'other' is not empty"* ]]
	[ "$(cat other)" = mine ]
	[ ! -L pool/copies ]
	# On another one, where there is any.
	for dir in /dev/shm /var/tmp none; do
		[ "$dir" != none ] || skip "everything is on one disk"
		[ "$(stat -c %d $dir)" = "$(stat -c %d .)" ] || break
	done
	there=$(mktemp -u "$dir/copies-XXXXXX")
	must copies 5% --to "$there"
	rm "$there"
}

@test "copies: the frames that most volumes need come first, then those of most versions" {
	make_fleet
	must snapshot c --from 2.img
	# 900 blocks that two volumes need, 512 that two versions need, 512 of one; no room for 188.
	copies 8M --to copies
	[ "$(copied)" = "$("$here/needs.py" --frames | awk '{ print $1, $2, $3 * $4, $4 }' |
		sort -k2,2nr -k3,3nr -k1,1n |
		awk '{ sum += $4 } sum <= 2048 { print $1, $4 }' | sort -n)" ]
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 1924 ]
	are_right
	# A share of what is stored.
	copies 45%
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 900 ]
	are_right
	copies 100%
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = $((900 + 700 + 512)) ]
	are_right
	must stats
	[[ $output == *"copies:   8.2 MiB, on a disk of the pool itself"* ]]
	must status --json
	[ "$(field 0 '["bytes_copies"]')" = $(((900 + 700 + 512) * 4096)) ]
	# Nothing is copied twice.
	copies 100% --json
	[ "$(field -1 '["bytes_copied"]')" = 0 ]
	[ "$(field -1 '["bytes"]')" = $(((900 + 700 + 512) * 4096)) ]
}

# bats test_tags=slow
@test "copies: they follow what becomes of the pool" {
	local nr
	make_fleet
	copies 100% --to copies
	for nr in 4 5 6; do
		noise "$nr" $((nr * 100))
		must snapshot a --from "$nr.img"
		copies 40%
		are_right
	done
	must delete b@1 a@1 a@2
	copies 100%
	are_right
	[ "$(copied)" = "$("$here/needs.py" --frames | awk '{ print $1, $4 }')" ]
	# What went gave its room back.
	must delete c@1 d@1
	copies 100%
	are_right
	[ "$(du -k copies | cut -f1)" -le $((1100 * 4 + 200)) ]
	copies 0
	[ ! -e copies ] && [ ! -L pool/copies ]
	must scrub
	copies 0
}

# bats test_tags=slow
@test "copies: repair heals from them what the pool has nowhere else" {
	local block
	make_fleet
	copies 100% --to copies
	for block in 0 100 511 600; do
		damage 1.img "$block"
	done
	damage 3.img 7
	ctl scrub
	[ "$status" -eq 4 ]
	must repair -n
	[[ $output == *"5 blocks damaged, 5 would be healed"* ]]
	must repair
	[[ $output == *"5 blocks damaged, 5 healed"* ]]
	must scrub
	restores 1 a@1 b@1
	restores 3 d@1
}

@test "copies: restore and dump take from them what is damaged, and say so" {
	make_fleet
	copies 100% --to copies
	damage 1.img 5
	damage 1.img 700
	must restore a@1 --to back
	cmp 1.img back
	[[ $output == *"warning: a@1: 2 damaged blocks were taken from the copies"* ]]
	[[ $output == *"'revdedupctl repair' heals the pool"* ]]
	"$build/bin/revdedupctl" dump b@1 2>said | cmp - 1.img
	grep -q "b@1: 2 damaged blocks were taken from the copies" said
	# A target that has something of it.
	cp 1.img other.img
	blocks other.img 0 20
	must restore a@1 --to other.img --yes
	cmp 1.img other.img
	rm -f back
	output=$("$build/bin/revdedupctl" restore a@1 --to back --json --progress=never 2>/dev/null)
	[ "$(field -1 '["blocks_from_copies"]')" = 2 ]
	# The damage is there all the same.
	ctl scrub a@1
	[ "$status" -eq 4 ]
	[[ $output == *"damaged: offset 20480, length 4096 in a@1"* ]]
	# One that is damaged as well gives nothing.
	"$here/copies.py" flip copies 1.img 700
	rm -f back
	ctl restore a@1 --to back
	[ "$status" -eq 4 ]
	[[ $output == *"offset $((700 * 4096)), length 4096"* ]]
	cmp -n $((700 * 4096)) 1.img back
	cmp -n 4096 -i $((700 * 4096)) back /dev/zero
	# Two segments are damaged.
	rm copies back
	ctl restore a@1 --to back
	[ "$status" -eq 4 ]
	[ "$(grep -c "cannot open the copies" <<<"$output")" = 1 ]
	ctl restore c@1 --to back2
	[ "$status" -eq 0 ]
	cmp 2.img back2
}

@test "copies: one that is not what it should be heals nothing, and spoils nothing" {
	make_fleet
	copies 100% --to copies
	damage 1.img 5
	"$here/copies.py" flip copies 1.img 5
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"1 blocks damaged, 0 healed"* ]]
	[[ $output == *"0 damaged copies were made again, 1 were dropped"* ]]
	ctl scrub
	[[ $output != *"copies are damaged"* ]]
	cp --sparse=always 1.img two.img
	# A twin in the pool does, whatever the copy is.
	must repair --from 1.img
	copies 100%
	are_right
	take=$(mktemp -u XXXXXX.img)
	truncate -s 4M "$take"
	dd if=1.img of="$take" bs=4096 skip=20 count=30 seek=300 conv=notrunc status=none
	must snapshot e --from "$take"
	damage 1.img 25
	"$here/copies.py" flip copies 1.img 25
	must repair
	[[ $output == *"1 blocks damaged, 1 healed"* ]]
	restores 1 a@1
}

@test "copies: an entry that says that there are none" {
	make_pool 128M
	noise 1 100
	must snapshot a --from 1.img
	copies 100% --to copies
	dd if=/dev/zero of=copies bs=1 seek=$((4096 + 5)) count=3 conv=notrunc status=none
	damage 1.img 5
	"$here/copies.py" flip copies 1.img 5
	ctl repair
	[ "$status" -eq 4 ]
	[ "$("$here/copies.py" list copies | cut -d' ' -f2)" = 0 ]
	must repair --from 1.img
	copies 100%
	are_right
}

@test "copies: an entry of more blocks than a frame has is none" {
	make_pool 128M
	noise 1 100
	must snapshot a --from 1.img
	copies 100% --to copies
	printf '\377\377' | dd of=copies bs=1 seek=$((4096 + 5)) conv=notrunc status=none
	must scrub
	[[ $output != *"copies are damaged"* ]]
	copies 100%
	[ "$(copied | cut -d' ' -f2)" = 100 ]
	are_right
}

@test "copies: scrub names those that are damaged, and repair makes them again" {
	make_fleet
	copies 100% --to copies
	must scrub
	[[ $output != *"copies"* ]]
	"$here/copies.py" flip copies 1.img 3
	"$here/copies.py" flip copies 2.img 3
	must scrub
	[[ $output == *"2 of 2112 copies are damaged"* ]]
	output=$("$build/bin/revdedupctl" scrub --json --progress=never 2>/dev/null)
	[ "$(field -2 '["blocks_damaged"]')" = 2 ]
	must repair -n
	[ "$("$here/copies.py" check copies)" = 2 ]
	must repair
	[[ $output == *"2 damaged copies were made again, 0 were dropped"* ]]
	are_right
	must scrub
	[[ $output != *"copies are damaged"* ]]
}

# bats test_tags=slow
@test "copies: what has no damage is copied, and no good copy goes because of damage" {
	local old
	make_pool 128M
	noise 1 512
	cp 1.img 2.img
	blocks 2.img 0 400
	must snapshot vm --from 1.img
	old=$(ask "SELECT frame FROM slot_owner")
	copies 100% --to copies
	must snapshot vm --from 2.img
	# The old version has 400 blocks there, of which one is damaged.
	[ "$(ask "SELECT n FROM slot_owner WHERE frame = $old")" = 400 ]
	damage 1.img 40
	ctl copies 100% --force
	[ "$status" -eq 3 ]
	[[ $output == *"1 block was not copied, because of damage"* ]]
	are_right
	[ "$(copied)" = "$old 512"$'\n'"$((old + 1)) 512" ]
	must repair
	copies 100%
	[ "$(copied)" = "$old 400"$'\n'"$((old + 1)) 512" ]
	restores 1 vm@1
	# The first half of its fingerprints is lost.
	dd if=/dev/zero of=pool/data bs=4096 seek=$((512 + 2 * old)) count=1 conv=notrunc status=none
	ctl copies 100% --force
	[ "$status" -eq 3 ]
	[ "$(copied)" = "$old 400"$'\n'"$((old + 1)) 512" ]
	must repair
	must scrub
	# What has no copy yet is copied but for the damage.
	copies 0
	damage 1.img 41
	ctl copies 100% --force --to copies
	[ "$status" -eq 3 ]
	are_right
	[ "$(copied)" = "$old 399"$'\n'"$((old + 1)) 512" ]
}

@test "copies: one that has what the pool has lost does not go for a more popular frame" {
	local vol
	make_pool 128M
	noise 1 512
	noise 2 512
	must snapshot a --from 1.img
	copies 2M --to copies
	damage 1.img 5
	for vol in b c d; do
		must snapshot "$vol" --from 2.img
	done
	ctl copies 2M --force
	[ "$status" -eq 3 ]
	[[ $output == *"the copies of 1 frame were kept, because they have what is damaged"* ]]
	[ "$(copied | wc -l)" = 2 ]
	must repair
	[[ $output == *"1 blocks damaged, 1 healed"* ]]
	restores 1 a@1
	# What has nothing that is lost goes, even of a frame with damage.
	"$here/copies.py" flip copies 1.img 6
	copies 2M
	[ "$(copied)" = "$("$here/needs.py" --frames | awk '$2 == 3 { print $1, $4 }')" ]
}

# A frame with a copy, of which all but a block is in another frame by now: it keeps that one, and
# gets no others.
make_moved() {
	make_pool 1G
	noise 1 512
	must snapshot a --from 1.img
	copies 100% --to copies
	cp --sparse=always 1.img 2.img
	blocks 2.img 100 1
	must snapshot a --from 2.img
}

@test "copies: one that has what the pool has lost elsewhere does not go" {
	make_moved
	must delete a@1
	damage 2.img 5
	ctl copies 100% --force
	[ "$status" -eq 3 ]
	[[ $output == *"the copies of 1 frame were kept, because they have what is damaged"* ]]
	restores 2 a@2
	must repair
	[[ $output == *"1 blocks damaged, 1 healed"* ]]
	copies 100%
	[ "$(copied | wc -l)" = 1 ]
	are_right
}

# Only a block of the newer copy is another one, and what it was before is elsewhere now.
@test "copies: one that another one replaces has what the pool has lost elsewhere" {
	make_moved
	damage 2.img 5
	ctl copies 100% --force
	[ "$status" -eq 3 ]
	restores 2 a@2
	must repair
	restores 1 a@1
	restores 2 a@2
	copies 100%
	[ "$(copied | cut -d' ' -f1 | uniq -d)" = "" ]
	are_right
}

@test "copies: one that lacks what the pool has lost goes for a more popular frame" {
	local vol
	make_pool 128M
	noise 1 512
	noise 2 512
	must snapshot a --from 1.img
	copies 2M --to copies
	damage 1.img 5
	"$here/copies.py" flip copies 1.img 5
	ctl repair
	[ "$status" -eq 4 ]
	for vol in b c d; do
		must snapshot "$vol" --from 2.img
	done
	copies 2M
	[ "$(copied)" = "$("$here/needs.py" --frames | awk '$2 == 3 { print $1, $4 }')" ]
}

@test "copies: a frame that they have hurts nobody, though some of it has died since" {
	make_pool 128M
	noise 1 512
	must snapshot vm --from 1.img
	copies 100% --to copies
	cp 1.img 2.img
	blocks 2.img 0 400
	must snapshot vm --from 2.img
	# The old version has 400 blocks there, and the new one a frame without a copy.
	must stats --isolation --json
	[ "$(field 0 '["volumes_sum"]')" = 2 ]
	[ "$(field 0 '["with_copies"]["volumes_sum"]')" = 1 ]
	copies 100%
	must stats --isolation --json
	[ "$(field 0 '["with_copies"]["volumes_sum"]')" = 0 ]
}

# bats test_tags=slow
@test "copies: gone, of another pool, cut off, or something else" {
	make_fleet
	copies 100% --to copies
	cp --sparse=always copies good
	damage 1.img 5
	cp -r --sparse=always pool broken
	# Gone: a warning, and the pool does without.
	rm copies
	ctl scrub
	[ "$status" -eq 4 ]
	[[ $output == *"cannot open the copies '$PWD/pool/copies': No such file or directory"* ]]
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"1 blocks damaged, 0 healed"* ]]
	ctl copies 100% --force
	[ "$status" -eq 1 ]
	[[ $output == *"cannot find the copies '$PWD/pool/copies'"* ]]
	# Cut off: what is left is used.
	head -c 3M good >copies
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"1 blocks damaged, 0 healed"* ]]
	# No superblock, and random bytes.
	head -c 8M /dev/urandom >copies
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"'$PWD/pool/copies' has no copies, or its superblock is damaged"* ]]
	# A table of random entries.
	cp --sparse=always good copies
	dd if=/dev/urandom of=copies bs=4096 seek=1 count=511 conv=notrunc status=none
	ctl repair
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ]
	restores 2 c@1
	# Of another pool.
	cp -r --sparse=always broken/. pool
	must init pool2 --size 128M
	must -p pool2 copies 1% --force --to copies2
	rm copies
	mv copies2 copies
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"'$PWD/pool/copies' has the copies of another pool"* ]]
	ctl copies 1% --force
	[ "$status" -eq 1 ]
	[[ $output == *"the copies were not brought up to date"* ]]
	# The right ones again.
	rm copies
	cp --sparse=always good copies
	must repair
	restores 1 a@1 b@1
}

# bats test_tags=slow
@test "copies: older ones, after the pool has changed" {
	make_fleet
	copies 100% --to copies
	cp --sparse=always copies old
	must delete d@1 c@1
	noise 4 1000
	noise 5 600
	must snapshot e --from 4.img
	must snapshot f --from 5.img
	copies 100%
	are_right
	cp --sparse=always old copies
	must scrub
	damage 4.img 10
	ctl repair
	[ "$status" -eq 4 ]
	damage 1.img 10
	ctl repair
	[ "$status" -eq 4 ]
	[[ $output == *"2 blocks damaged, 1 healed"* ]]
	restores 1 a@1
	must repair --from 4.img
	copies 100%
	are_right
	[ "$(copied)" = "$("$here/needs.py" --frames | awk '{ print $1, $4 }')" ]
}

@test "copies: of packs" {
	local nr
	make_pool 128M
	# Four packs of a half, so that one lies in two frames.
	for nr in 1 2; do
		truncate -s 8M "$nr.img"
		basenc --base16 /dev/urandom | head -c 7M |
			dd of="$nr.img" bs=4096 conv=notrunc iflag=fullblock status=none
		must snapshot "vm$nr" --from "$nr.img" --compression zstd
	done
	copies 4G --to copies
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 3584 ]
	are_right
	# A whole pack.
	python3 -c 'import sqlite3
db = sqlite3.connect("pool/catalog.db")
place, blocks = db.execute("SELECT place, blocks FROM pack").fetchone()
with open("pool/data", "r+b") as data:
    frame, slot = divmod(place, 512)
    data.seek((2 << 20) + frame // 256 * 257 * (2 << 20) + (frame % 256 + 1 << 21) + slot * 4096)
    data.write(bytes(blocks * 4096))'
	ctl scrub
	[ "$status" -eq 4 ]
	must repair
	must scrub
	restores 1 vm1@1
	restores 2 vm2@1
	# Packs that moved are other frames, or the same.
	must recompress none
	copies 4G
	are_right
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 3584 ]
}

@test "copies: as the settings have it" {
	mkdir -p etc
	make_fleet
	ctl copies
	[ "$status" -eq 2 ]
	[[ $output == *"say how much to have a second time: a share such as 1%"* ]]
	printf '[dedup]\ncopies = 100%%\n' >etc/revdedup.conf
	ctl copies
	[ "$status" -eq 2 ]
	[[ $output == *"the pool has no copies yet: name a file"* ]]
	must copies --force --to copies
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 2112 ]
	# A pass has nothing to do with them.
	must delete a@1 b@1
	must dedup
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 2112 ]
	# The settings force nothing.
	ctl copies
	[ "$status" -eq 1 ]
	[[ $output == *"'$PWD/copies' is on a disk on which the data of the pool is"* ]]
	# The disk is gone, or has something else.
	mv copies away
	ctl copies --force
	[ "$status" -eq 1 ]
	[[ $output == *"or remove them by 'revdedupctl copies 0'"* ]]
	truncate -s 1M copies
	ctl copies --force
	[ "$status" -eq 1 ]
	[[ $output == *"has no copies, or its superblock is damaged"* ]]
	mv away copies
	must copies --force
	[ "$(copied | awk '{ sum += $2 } END { print sum }')" = 1212 ]
	# An operand counts before them.
	must copies 0
	[ ! -e copies ]
	printf '[dedup]\ncopies = 200%%\n' >etc/revdedup.conf
	ctl stats
	[ "$status" -eq 2 ]
	[[ $output == *"'copies' needs a share such as 1% or a size such as 10G, not '200%'"* ]]
}

@test "copies: on a block device" {
	[ -w /dev/loop-control ] || skip "no loop devices"
	make_fleet
	truncate -s 14M disk
	loop=$(losetup --find --show disk) || skip "no loop devices"
	# There is room for four frames and their fingerprints, and half of them are for copies.
	copies 100% --to "$loop"
	[ "$(readlink pool/copies)" = "$loop" ]
	[ "$("$here/copies.py" list "$loop" | awk '{ sum += $2 } END { print NR, sum }')" = "2 900" ]
	damage 1.img 3
	must repair
	restores 1 a@1
	# Frames of others come in the place of those.
	must delete a@1 b@1
	copies 100%
	[ "$("$here/copies.py" list "$loop" | awk '{ sum += $2 } END { print NR, sum }')" = "2 1024" ]
	[ "$("$here/copies.py" check "$loop")" = 0 ]
	copies 0
	[ ! -L pool/copies ]
	cmp -n 4096 "$loop" /dev/zero
	copies 100% --to "$loop"
	[ "$("$here/copies.py" check "$loop")" = 0 ]
	copies 0
	# A file system is in the way.
	mkfs.ext4 -q -F "$loop"
	ctl copies 1% --force --to "$loop"
	[ "$status" -eq 1 ]
	[ ! -L pool/copies ]
}

@test "copies: a device that something else holds by now is not written" {
	[ -w /dev/loop-control ] || skip "no loop devices"
	make_fleet
	truncate -s 14M disk
	loop=$(losetup --find --show disk) || skip "no loop devices"
	copies 100% --to "$loop"
	"$here/copies.py" flip "$loop" 1.img 3
	cp disk before
	# As md or device-mapper does.
	python3 -c 'import os, sys, time
device = os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)
open("held", "w").close()
time.sleep(3600)' "$loop" 3>&- &
	# shellcheck disable=SC2034 # drop ends it
	holder=$!
	until [ -e held ]; do sleep 0.01; done
	must repair
	[[ $output == *"cannot open the copies '$PWD/pool/copies': Device or resource busy"* ]]
	must delete a@1 b@1
	ctl copies 100% --force
	[ "$status" -eq 11 ]
	must copies 0
	[ ! -L pool/copies ]
	drop
	cmp disk before
}

@test "copies: a link that leads nowhere is no new file" {
	make_fleet
	ln -s "$PWD/pool/data2" link
	ctl copies 1% --force --to link
	[ "$status" -eq 1 ]
	[[ $output == *"cannot open 'link': No such file or directory"* ]]
	[ ! -e pool/data2 ] && [ ! -L pool/copies ]
}

@test "copies: refused on a device that lies on the disk of the data area" {
	local second
	[ -w /dev/loop-control ] || skip "no loop devices"
	truncate -s 200M disk
	loop=$(losetup --find --show disk) || skip "no loop devices"
	mkfs.ext4 -q "$loop"
	mkdir mnt
	mount "$loop" mnt || skip "no mounts"
	must init mnt/pool --size 100M
	truncate -s 20M mnt/other
	second=$(losetup --find --show mnt/other)
	ctl -p mnt/pool copies 1% --to "$second"
	detach "$second"
	[ "$status" -eq 1 ]
	[[ $output == *"'$second' is on a disk on which the data of the pool is"* ]]
	ctl -p mnt/pool copies 1% --to mnt/more
	[ "$status" -eq 1 ]
	[ ! -e mnt/more ]
}

@test "copies: wrong options" {
	local value
	make_pool 128M
	for value in x -1 0% 101% % 5%% 5x ""; do
		ctl copies "$value" --to copies
		[ "$status" -eq 2 ] || { echo "'$value': $status"; return 1; }
	done
	ctl copies 1% --to copies -n
	[ "$status" -eq 2 ]
	[ ! -e copies ]
	copies 1% --to copies
	[[ $output == *"copies: 0 B, 0 B of it copied now" ]]
	ctl copies 1% --to elsewhere --force
	[ "$status" -eq 1 ]
	[[ $output == *"the copies of the pool are '$PWD/copies' already"* ]]
	ctl cop 0
	[ "$status" -eq 2 ]
	[[ $output == *"'cop' is short for 'copies', which removes or replaces data"* ]]
	[ -e copies ]
}
