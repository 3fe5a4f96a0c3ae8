#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The metadata device fails: the volume must go on, no write may be forgotten, and the
# target must call lost what it cannot remember for sure.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

setup_file() { need_targets delay flakey; }

setup() {
	volume_setup
	vol_create
	snapshot
	poke 3
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
}

teardown() { volume_teardown; }

# first_write SEGMENT: begin one in the background: $writer, since $start.
first_write() {
	now_ms
	start=$now
	slow_poke "$1" &
	writer=$!
}

# too_late: the machine was so slow that the wait may be over. bats then begins the test anew.
too_late() {
	# shellcheck disable=SC2034 # bats reads it
	BATS_TEST_RETRIES=20
	return 1
}

# passed_early, passed_late: $writer ends well, before or after the 10 s that it may have to wait.
passed_early() {
	passed
	[ "$ms" -le 9000 ] || is "ms that the write took" "$ms" "less than 9000" || too_late
}
passed_late() {
	passed
	[ "$ms" -ge 10000 ] || is "ms that the write took" "$ms" "10000 or more"
}
passed() {
	wait "$writer"
	now_ms
	ms=$((now - start))
}

still_waits() {
	kill -0 "$writer" 2>/dev/null && return
	echo "the first write did not wait"
	too_late
}

event_nr() {
	events
	event_nr=$reply
}

# heal: the device can be written again, and soon all is well.
heal() {
	meta_set ok
	within 10 tracking_is ok
	meta_is_fine
}

# on_flushed_meta: the same volume with metadata on a device that has a cache. A
# ram disk has none, so that nobody flushes it.
on_flushed_meta() {
	vol_remove
	dm remove rdt-m
	meta_ground=$(loop_of 2048 meta-ground)
	make rdt-m "0 $meta_sectors linear $meta_ground 0"
	vol_create
	snapshot
	poke 3
}

@test "a first write waits 10 s, and everything else goes on" {
	event_nr
	before=$event_nr
	log_begin
	meta_set nowrite
	first_write 5
	within 5 tracking_is lost
	said "failed: error -5; tracking counts as lost"
	event_nr
	[ "$event_nr" -gt "$before" ]
	poke 3
	dirty_is "3,1;5,1"
	still_waits
	dm hash $vol $((vol_sectors * 512))
	passed_late
	# The next one comes 10 s after, so it need not wait.
	first_write 6
	passed_early
	dirty_is "3,1;5,2"
	disk_dirty_is "3,1"

	before=$event_nr
	heal
	said "can be written again, nothing was lost"
	event_nr
	[ "$event_nr" -gt "$before" ]
	disk_dirty_is "3,1;5,2"
	vol_remove
	vol_create
	status_is "1 1 - 1 3/32 16384 0 0 0 ok rw"
}

@test "an event wakes those who wait for it" {
	event_nr
	dmsetup wait rdt-v "$event_nr" &
	waiter=$!
	meta_set dead
	first_write 5
	wait $waiter
	tracking_is lost
	still_waits
	meta_set ok
	passed_early
	disk_dirty_is "3,1;5,1"
}

@test "a first write waits no longer than for the controller's note" {
	meta_set dead
	first_write 5
	within 5 tracking_is lost
	still_waits
	msg lost-noted
	passed_early
	# Nor do others, from now on.
	poke 6
	dirty_is "3,1;5,2"
	tracking_is lost
	heal
	disk_dirty_is "3,1;5,2"
	# A note is for one outage only.
	meta_set dead
	first_write 9
	within 5 tracking_is lost
	still_waits
	meta_set ok
	passed_early
}

@test "a first write waits no longer than for the lost mark" {
	meta_set dead $bitmap_sectors
	first_write 5
	passed_early
	tracking_is lost
	dirty_is "3,1;5,1"
	heal
	disk_dirty_is "3,1;5,1"
}

@test "one copy of the superblock is enough for the lost mark" {
	meta_set dead 0 24
	first_write 5
	passed_early
	tracking_is lost
	heal
	disk_dirty_is "3,1;5,1"
}

@test "a crash in an outage: with the mark, all is dirty" {
	meta_set dead $bitmap_sectors
	poke 5
	log_begin
	vol_remove
	said "take a full snapshot next"
	meta_set ok
	vol_create
	status_is "1 1 - 1 32/32 16384 0 0 0 lost rw"
	dirty_is "$all"
	snapshot
	status_is "1 2 - 2 0/32 16384 0 0 0 ok rw"
	vol_remove
	meta_is_fine
}

@test "a removal after an outage has the last word" {
	meta_set dead
	first_write 5
	within 5 tracking_is lost
	msg lost-noted
	wait "$writer"
	dm suspend rdt-v
	meta_set ok
	# Maybe before the worker tries again; then the removal does it.
	vol_remove
	vol_create
	status_is "1 1 - 1 2/32 16384 0 0 0 ok rw"
	dirty_is "3,1;5,1"
}

@test "an outage over a reload" {
	meta_set dead
	first_write 5
	within 5 tracking_is lost
	msg lost-noted
	wait "$writer"
	vol_reload
	dm suspend rdt-v
	dm resume rdt-v
	dirty_is "3,1;5,1"
	vol_reload_ro
	status_is "1 1 - 1 2/32 16384 0 0 0 lost ro"
	vol_reload
	dirty_is "3,1;5,1"
	heal
	disk_dirty_is "3,1;5,1"
}

@test "an outage that ends under a read-only table" {
	meta_set dead
	first_write 5
	within 5 tracking_is lost
	msg lost-noted
	wait "$writer"
	vol_reload_ro
	meta_set ok
	within 10 tracking_is ok
	disk_dirty_is "3,1;5,1"
}

@test "suspend in an outage: noflush does not wait for first writes" {
	meta_set dead
	first_write 5
	within 5 tracking_is lost
	dm suspend rdt-v noflush
	still_waits
	dm resume rdt-v
	still_waits
	dm suspend rdt-v noflush
	meta_set ok
	dm resume rdt-v
	passed_early
	within 10 tracking_is ok
	dirty_is "3,1;5,1"
	disk_dirty_is "3,1;5,1"
}

@test "suspend in an outage: without noflush, first writes pass before" {
	meta_set dead
	first_write 5
	within 5 tracking_is lost
	dm suspend rdt-v
	passed_late
	dirty_is "3,1;5,1"
	dm resume rdt-v
	heal
	disk_dirty_is "3,1;5,1"
}

@test "messages in an outage: refused, and true when it is over" {
	checkpoint
	poke 4
	meta_set dead
	refused "Input/output error" "" msg mark 8,2
	# What was said to be dirty is, at least.
	dirty_is "4,1;8,2"
	tracking_is lost
	refused "Input/output error" "" msg commit 2 2
	refused "Input/output error" "" msg abort 2
	frozen_is "3,1"
	dm suspend rdt-v
	refused "Input/output error" "" msg checkpoint 3
	dm resume rdt-v
	status
	is "epoch" "${field[f_epoch]}" 2
	heal
	msg commit 2 2
	# The abort and the checkpoint got as far as the union in memory.
	status_is "1 2 - 2 4/32 16384 0 0 0 ok rw"
	dirty_is "3,2;8,2"
	disk_dirty_is "3,2;8,2"
}

@test "a commit in an outage: nothing was lost after all" {
	checkpoint
	meta_set dead $bitmap_sectors
	poke 5
	tracking_is lost
	msg commit 2 2
	tracking_is lost
	heal
	status_is "1 2 - 2 1/32 16384 0 0 0 ok rw"
	disk_dirty_is "5,1"
}

@test "a loss from before stays one, whatever outage comes and goes" {
	checkpoint
	vol_remove
	edit b damage
	vol_create
	tracking_is lost
	meta_set dead
	refused "Input/output error" "" msg mark 8,2
	log_begin
	meta_set ok
	within 10 said "can be written again"
	msg commit 2 2
	tracking_is lost
	snapshot
	tracking_is ok
}

@test "a loss from before ends with a commit in an outage, too" {
	vol_remove
	edit b damage
	vol_create
	tracking_is lost
	checkpoint
	meta_set dead $bitmap_sectors
	poke 5
	msg commit 2 2
	tracking_is lost
	heal
	status_is "1 2 - 2 1/32 16384 0 0 0 ok rw"
}

@test "one copy of the superblock that cannot be written is no outage" {
	local copy
	for copy in "A 0" "B $((meta_sectors - 8))"; do
		meta_set dead "${copy#* }" 8
		log_begin
		snapshot
		said "cannot write superblock copy ${copy% *}"
		tracking_is ok
		poke 4
		dirty_is "4,1"
		status
		before=$reply
		meta_set ok
		# Either it was written again by now, or the newer one counts.
		vol_remove
		vol_create
		status_is "$before"
		meta_is_fine
	done
}

@test "flushes that fail are outages, too" {
	on_flushed_meta
	# The bitmap's block is written, but nobody knows whether it stays.
	meta_set nowrite $((meta_sectors - 64)) 8
	first_write 5
	within 5 tracking_is lost
	still_waits
	dirty_is "3,1;5,1"
	meta_set ok
	passed_early
	within 10 tracking_is ok
	disk_dirty_is "3,1;5,1"
}

@test "a checkpoint that failed may be on disk: dirty segments are not known there" {
	on_flushed_meta
	dm suspend rdt-v
	# Copy A is written, but nobody knows whether it stays; copy B is not.
	meta_set nowrite $((meta_sectors - 8)) 8
	refused "Input/output error" "" msg checkpoint 2
	dm resume rdt-v
	status_is "1 1 - 1 1/32 16384 0 0 0 lost rw"
	first_write 3
	sleep 2
	still_waits
	meta_set ok
	passed_early
	within 10 tracking_is ok
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
	disk_dirty_is "3,1"
	vol_remove
	vol_create
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
}

# A checkpoint that failed may have brought the disk into its epoch, where the bits of this one
# are its frozen set. What changes now must not get into that.
@test "no bit is written while the epoch on disk is not known" {
	local end asker slow="/dev/mapper/rdt-x 0"
	on_flushed_meta
	end=$((meta_sectors - 16))
	make rdt-x "0 8 error"
	make rdt-a "0 8 linear $meta_ground 0"
	dm suspend rdt-v
	# Copy A is written, its flush fails, and copy B waits and then fails.
	reload rdt-m "0 8 linear /dev/mapper/rdt-a 0
8 $((end - 8)) linear $meta_ground 8
$end 8 flakey $meta_ground $end 0 3600 1 error_writes
$((end + 8)) 8 delay $slow 0 $slow 90000 $slow 0"
	dmsetup message rdt-v 0 "checkpoint 2" 3>&- &
	asker=$!
	disk=$meta_ground within 20 disk_frozen_is "3,1"
	# From now on bits can be written, and no superblock: copy A first, because what waits
	# for copy B fails before the new table is there, and copy A is written again then.
	reload rdt-a "0 8 error"
	meta_set dead 0 8 $((end + 8)) 8
	! wait "$asker" || is "the checkpoint" "done" "failed"
	dm resume rdt-v
	first_write 5
	sleep 3
	disk=$meta_ground disk_frozen_is "3,1"
	meta_set ok
	wait "$writer"
	within 10 tracking_is ok
	status_is "1 1 - 1 2/32 16384 0 0 0 ok rw"
	disk_dirty_is "3,1;5,1"
	dm remove rdt-a
	dm remove rdt-x
}

@test "a removal right after an outage leaves no lost mark" {
	meta_set dead $bitmap_sectors
	first_write 5
	within 5 tracking_is lost
	# It passes because of the mark.
	passed_early
	meta_set ok
	vol_remove
	vol_create
	status_is "1 1 - 1 2/32 16384 0 0 0 ok rw"
}

@test "an event when a commit ends a loss from before" {
	vol_remove
	edit b damage
	vol_create
	tracking_is lost
	checkpoint
	event_nr
	before=$event_nr
	msg commit 2 2
	tracking_is ok
	event_nr
	[ "$event_nr" -gt "$before" ]
}

# is_in_flight: a write to the volume has come, and has not ended.
is_in_flight() {
	local writes
	read -r _ writes <"/sys/dev/block/$(stat -Lc %Hr:%Lr $vol)/inflight"
	[ "$writes" -gt 0 ]
}

# other_volume_while_hanging SEGMENT: make and remove another volume while the
# metadata of this one hangs, for 30 s at most. In $took: how many that has taken.
other_volume_while_hanging() {
	local loader waker began
	dm suspend rdt-m
	first_write "$1"
	within 30 is_in_flight
	# In a moment the worker waits for the device, and who loads a table for the worker.
	sleep 1
	table
	dmsetup load rdt-v --table "$table" &
	loader=$!
	began=$SECONDS
	(sleep 30 && dmsetup resume rdt-m) 3>&- &
	waker=$!
	sleep 1
	kill -0 $loader
	make rdt-w "0 4096 revdedup /dev/ram2 $other_meta -"
	dm remove rdt-w
	took=$((SECONDS - began))
	kill $waker 2>/dev/null || :
	wait $waker || :
	dmsetup resume rdt-m
	wait $loader
	wait "$writer"
	tracking_is ok
}

# Every 30 s dm-bufio looks through all its clients, and waits for the one whose
# write hangs, with the lock that a new client needs. Once that is bad luck.
@test "metadata that hangs is no other volume's business" {
	other_meta=$(loop_of 2048 meta2)
	other_volume_while_hanging 5
	[ "$took" -lt 25 ] || other_volume_while_hanging 6
	[ "$took" -lt 25 ]
}

@test "a metadata device that grows while copy A of the superblock takes no writes" {
	dm suspend rdt-v
	meta_sectors=4096
	meta_set nowrite 0 8
	dm resume rdt-v
	poke 5
	checkpoint
	msg abort 2
	status_is "1 2 - 1 2/32 16384 0 0 0 ok rw"
	# What copy B has is what a crash leaves, until A can be written.
	disk_dirty_is "3,1;5,1"
	meta_set ok
	vol_reload
	vol_remove
	meta_is_fine
	vol_create
	status_is "1 2 - 1 2/32 16384 0 0 0 ok rw"
}
