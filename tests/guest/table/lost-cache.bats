#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The remap table where the base, or a flush of it, loses its cache.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load table

@test "a flush of ours that the base fails is told to who flushes next" {
	local ground block
	# A RAM disk has no cache, and so no flush comes to it.
	ground=$(loop_of $vol_sectors disk)
	make rdt-b "0 $vol_sectors linear $ground 0"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100"
	snapshot
	writes 0 8
	# Its commit comes in a second, or with a message, and what that flushes is lost.
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	refused "Input/output error" "" msg remap 1,1,p101,p201
	mode_is fail
	reload rdt-b "0 $vol_sectors linear $ground 0"
	is_told
	# One that failed with the commit itself has told nobody else.
	for block in {1..15}; do
		writes $((block * 8)) 8
		reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
		run ! sync $vol
		# Else the one of each second was quicker.
		! mode_is fail || break
		reload rdt-b "0 $vol_sectors linear $ground 0"
	done
	mode_is fail
	reload rdt-b "0 $vol_sectors linear $ground 0"
	is_told
	# At a checkpoint as well, where nothing else waits.
	dm suspend rdt-v
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	status
	refused "Input/output error" "" msg checkpoint $((field[f_epoch] + 1))
	reload rdt-b "0 $vol_sectors linear $ground 0"
	dm resume rdt-v
	is_told
	# A file system's flush comes with the end of a commit of its journal.
	mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $vol
	mkdir -p "$BATS_TEST_TMPDIR/mnt"
	mount $vol "$BATS_TEST_TMPDIR/mnt"
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/mnt/one" bs=4096 count=1 conv=fsync status=none
	sync
	reload rdt-b "0 $vol_sectors flakey $ground 0 0 3600 1 error_writes"
	refused "Input/output error" "" msg remap 1,1,p101,p201
	reload rdt-b "0 $vol_sectors linear $ground 0"
	within 10 mode_is rw
	run ! dd if=/dev/urandom of="$BATS_TEST_TMPDIR/mnt/two" bs=4096 count=1 conv=fsync \
		status=none
	umount "$BATS_TEST_TMPDIR/mnt"
	dm remove rdt-v
	dm remove rdt-b
}

# copied NR: all is home; or it was for the NRth time, and was taken back at once.
copied() {
	dm log
	said+=$reply$'\n'
	[ "$(grep -c "will be copied again" <<<"$said")" -ge $1 ] || left_is 0
}

# taken_back ZEROS POOL: no copy is at home any more. Hydration, which would copy again, is off.
taken_back() { msg hydrate stop && within 60 away_are "$*"; }

@test "what was copied home is not relied on where the base has lost its cache" {
	local ground block
	ground=$(loop_of $vol_sectors disk)
	make rdt-b "$(base_table)"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100;200,300,p300;800,10,z"
	snapshot
	reload rdt-b "$(base_table "flakey /dev/ram0 0 0 3600 1 error_writes")"
	log_begin
	msg hydrate start
	# It is copied, the commit behind that fails, and 10 s later it is tried again.
	within 60 copied 1
	within 60 mode_is fail
	taken_back 16 784
	msg hydrate start
	within 60 copied 2
	# Among what was copied, if the commit has not been quicker.
	writes 8 8
	taken_back 16 783
	# A part of a block cannot come home while the rest cannot be made stable there.
	refused "Input/output error" "" writes 18 3
	# Messages cannot rely on what they saw.
	refused "Input/output error" "" msg remap 2,1,p102,p202
	refused "Input/output error" "" msg table 0 16
	away_are "16 783"
	# This is what may have been lost.
	for block in 0 3 4 512 1000 2050; do
		dd if=/dev/urandom of="$ground" bs=4096 count=1 seek=$block oflag=direct \
			conv=notrunc status=none
	done
	# The remap that failed has moved block 2.
	reads 0 128 "p800,8;w8,8;p1010,8;p818,68"
	reads 4096 8 "p1800,8"
	reload rdt-b "$(base_table)"
	within 10 mode_is rw
	writes 18 3
	msg hydrate start
	within 40 hydrate_is off
	reads 0 128 "p800,8;w8,8;p1010,2;w12,3;p1015,3;p818,68"
	reads 4096 8 "p1800,8"
	dm remove rdt-v
	dm remove rdt-b
}

# waits PID: for I/O that it has sent.
waits() { [[ $(<"/proc/$1/stat") == *"(sync) D "* ]]; }

# It comes to the base where nothing waits for a commit. Then something is copied home,
# and the base says that its cache is lost.
@test "what was copied home is not relied on where a flush from above fails" {
	local ground behind flusher asker delay
	ground=$(loop_of $vol_sectors disk)
	behind=$(loop_of 8 behind)
	make rdt-x "0 8 linear $behind 0"
	make rdt-b "$(base_table "linear /dev/mapper/rdt-x 0")"
	base=/dev/mapper/rdt-b
	vol_create
	batch "0,10,p100;200,300,p300;800,10,z"
	snapshot
	reload rdt-x "0 8 flakey $behind 0 0 3600 1 error_writes"
	slow="/dev/mapper/rdt-x 0"
	# Each flush takes so long, and the copies less, however slow the machine.
	for delay in 6000 20000 60000; do
		reload rdt-b "$(base_table "delay $slow 0 $slow 0 $slow $delay")"
		sync $vol 3>&- &
		flusher=$!
		within 60 waits $flusher
		msg hydrate start
		! within 60 left_is 0 || ! kill -0 $flusher || break
		wait $flusher || :
		taken_back 16 784
	done
	log_begin
	# It finds them at home, while a commit runs that is to lose them.
	dmsetup message rdt-v 0 "table 0 16" >"$BATS_TEST_TMPDIR/table" 2>&1 3>&- &
	asker=$!
	if wait $flusher; then
		echo "the flush did not fail"
		return 1
	fi
	# What comes to it after that is well again: the commit's own flush, if it is not late.
	reload rdt-x "0 8 linear $behind 0"
	within 60 said "will be copied again"
	if wait $asker && grep ',b' "$BATS_TEST_TMPDIR/table"; then
		echo "table said 'b' of blocks that are in the pool again"
		return 1
	fi
	within 60 hydrate_is off
	reads 0 128 "p800,80"
	reads 4096 8 "p1800,8"
	dm remove rdt-v
	dm remove rdt-b
	dm remove rdt-x
}

@test "a part of a block is written, and the base loses its cache: the rest is as it was" {
	local at
	judge_base
	vol_create
	batch "0,200,p0;200,40,z"
	snapshot
	for at in 0 512 1536 2048 2560 3072; do
		parts $at w
		parts $at x
		lose_cache
		nothing_of_base $at
		# Else the commit of each second has made all stable.
		[[ $reply != *w* ]] || break
	done
	[[ $reply == *w* ]] || is "what was not flushed" "$reply" "lost"
	parts 4096 w
	parts 4096 x
	lose_cache
	nothing_of_base 4096
	# Where hydration has copied them.
	msg hydrate start
	within 20 left_is 0
	parts 1024 w
	parts 1024 x
	lose_cache
	nothing_of_base 1024
	within 40 hydrate_is off
	nothing_of_base 1024
	dm remove rdt-v
	dm remove rdt-b
}

# It refuses a flush for want of room then, and loses nothing.
@test "a suspend does not wait for a base that has no room" {
	local writer
	judge_base
	vol_create
	batch "0,10,p100"
	snapshot
	dm message rdt-b "fail-flushes full"
	msg hydrate start
	within 120 left_is 0
	within 120 mode_is fail
	# The rest of its block has to be stable first.
	dd if=/dev/zero of=$vol bs=512 seek=18 count=3 oflag=direct conv=notrunc 3>&- &
	writer=$!
	within 120 in_flight $vol
	timeout 120 dmsetup suspend rdt-v
	run ! wait $writer
	dm message rdt-b "fail-flushes off"
	dm resume rdt-v
	within 120 hydrate_is off
	reads 0 128 "p800,80"
	dm remove rdt-v
	dm remove rdt-b
}

# --- the kernel dies, the disk lives on with what is in its cache, and then its power fails

# judge_meta: the metadata device is a judge, which tells what it was told to flush from the rest.
judge_meta() {
	need_judge
	dm remove rdt-m
	make rdt-m "0 $meta_sectors judge $meta_ground dying"
}

# is_cached: something is, and its flush does not end.
is_cached() {
	dm status rdt-m
	read -ra field <<<"$reply"
	[ "${field[4]}" -gt 0 ] || is "sectors in the cache" "${field[4]}" "some"
}

# Until the kernel dies.
slow_flushes() { dm message rdt-m "flush-delay 90000000"; }

# is_over PID: tell the target that tracking is lost, so that nobody waits for that.
is_over() {
	msg lost-noted
	! kill -0 $1 2>/dev/null
}

# kernel_dies PID: while this program waits for the flush.
kernel_dies() {
	within 20 is_cached
	dm message rdt-m "halt on"
	within 20 is_over $1
	wait $1 || :
	vol_remove
	dm message rdt-m "flush-delay 0"
	dm message rdt-m "halt off"
	is_cached
	vol_create
}

# power_fails: nothing is left of what was not flushed.
power_fails() {
	dm message rdt-m "crash 0"
	vol_remove
	reload rdt-m "0 $meta_sectors judge $meta_ground dying"
	vol_create
}

@test "the kernel dies, and later the disk: bits" {
	judge_meta
	vol_create
	snapshot
	slow_flushes
	slow_poke 5 3>&- &
	kernel_dies $!
	dirty_is 5,1
	poke 5
	sync $vol
	power_fails
	dirty_is 5,1
	status_is "1 1 - 1 1/32 16384 0 0 0 ok rw"
}

@test "the kernel dies, and later the disk: places that were given up" {
	base=$(loop_of $vol_sectors disk)
	dm fill $base 0 $filled b
	judge_meta
	vol_create
	batch "20,1,p20"
	msg watch 1 0,10
	slow_flushes
	dmsetup message rdt-v 0 "alias 1 0,10,p0" 3>&- &
	kernel_dies $!
	# Whoever is told so may free what was there.
	places_are 0 16 "0,10,p0"
	msg shed 0,10
	power_fails
	places_are 0 16 "0,10,p0"
	reads 0 136 "p0,80;b80,8"
}

@test "the kernel dies, and later the disk: blocks that are written where they came home" {
	judge_meta
	vol_create
	batch "0,10,p100"
	snapshot
	writes 0 8
	slow_flushes
	sync $vol 3>&- 2>/dev/null &
	kernel_dies $!
	places_are 0 16 "0,1,b;1,f,p101"
	writes 0 8 x
	sync $vol
	power_fails
	reads 0 16 "x0,8;p808,8"
}

@test "a metadata device that cannot flush when it is loaded" {
	judge_meta
	vol_create
	batch "0,10,p100"
	snapshot
	vol_remove
	dm message rdt-m "fail-flushes on"
	vol_create
	tracking_is lost
	reads 0 8 "p800,8"
	# No change of the table waits, and yet a flush would promise what is not so.
	run ! sync $vol
	refused "Input/output error" "" msg table 0 1
	refused "Input/output error" "" msg shed 0,1
	mode_is fail
	dm message rdt-m "fail-flushes off"
	within 10 tracking_is ok
	within 10 mode_is rw
	sync $vol
	places_are 0 16 "0,10,p100"
	dirty_is -
	# A version that nobody writes to is read, too.
	vol_remove
	dm message rdt-m "fail-flushes on"
	vol_create_ro
	reads 0 8 "p800,8"
	refused "Read-only file system" "" msg table 0 1
	dm message rdt-m "fail-flushes off"
}
