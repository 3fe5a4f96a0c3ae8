#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Programs above a volume prepare for its suspension, and undo that after it: hooks, and
# file systems that device-mapper does not know of. snapshot --all; status and metrics of
# volumes that need attention.

# Each test is a subshell; who sleeps holds a device open; words are given to printf.
# shellcheck disable=SC2016,SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

setup() {
	lvm_setup
	said=/tmp/rdt-said
	rm -f $said
	hooks=$REVDEDUP_CONFIG/hooks.d
	mkdir -p "$hooks"
}

teardown() {
	umount "/tmp/rdt-mnt two" 2>/dev/null || :
	umount /tmp/rdt-mnt 2>/dev/null || :
	! [ -e /dev/mapper/rdt-part ] || dmsetup remove --retry rdt-part
	lvm_teardown
}

# hook NAME LINE...: it notes that it was called, and runs these with $1 to $3.
hook() {
	printf '%s\n' '#!/bin/bash' "echo \"$1 \$*\" >>$said" "${@:2}" >"$hooks/$1"
	chmod 755 "$hooks/$1"
}

# said LINE...: that is what the hooks have noted, and nothing else.
said() {
	diff <(printf '%s\n' "$@") $said && : >$said
}

# A guard that outlives its command has the locks of that until it has ended.
ctl() { revdedupctl "$1" --lock-wait 60 "${@:2}"; }

volume() {
	make_lv "$1" "${2:-16}"
	revdedupctl -q attach "$vg/$1"
	vol=$(device_of "$1")
	dd if=/dev/urandom of="$vol" bs=1M count=3 oflag=direct status=none
}

versions() { revdedupctl list "$vg/$1" --json | grep -c '"version"' || :; }

# Writes to it are not held up.
is_free() {
	timeout 60 dd if=/dev/zero of="$vol" bs=4k count=1 oflag=direct conv=notrunc status=none
}

@test "quiesce: hooks run before and after, in order, with the volume's name" {
	volume vm1
	# Both can write to the volume; what the first one writes is in the version.
	hook 10-db 'dd if=/dev/zero of=$3 bs=4k count=1 oflag=direct status=none'
	hook 20-app 'echo "to stdout"'
	# Not hooks.
	echo >"$hooks/notes"
	hook 30.bak
	run revdedupctl snapshot $vg/vm1 --json
	echo "$output"
	[ "$status" -eq 0 ]
	said "10-db pre $vg/vm1 $vol" "20-app pre $vg/vm1 $vol" "20-app post $vg/vm1 $vol" \
		"10-db post $vg/vm1 $vol"
	# Nothing of it is in what the command prints.
	revdedupctl snapshot $vg/vm1 --json --progress=never 2>/dev/null | tee /tmp/json
	[ "$(wc -l </tmp/json)" -eq 1 ]
	[ "$(json usec_pause </tmp/json)" -gt 0 ]
	is_version $vg/vm1@latest "$vol"
}

# bats test_tags=soak
@test "quiesce: a hook that others could have written is not run" {
	local wrong
	volume vm1
	hook 10-one
	mkdir /tmp/rdt-hooks
	cp "$hooks/10-one" /tmp/rdt-hooks/two
	for wrong in "chmod 775 $hooks/10-one" "chown 7 $hooks/10-one" "chmod 757 $hooks" \
		"ln -s /tmp/rdt-hooks/two $hooks/20-two"; do
		chmod 777 /tmp/rdt-hooks
		$wrong
		run revdedupctl snapshot $vg/vm1
		echo "$wrong: $output"
		[ "$status" -eq 1 ]
		[[ $output == *"no hook was run"*"nothing was changed"* ]]
		[ ! -e $said ]
		[ "$(versions vm1)" -eq 0 ]
		chown 0 "$hooks/10-one"
		chmod 755 "$hooks" "$hooks/10-one"
	done
	chmod 755 /tmp/rdt-hooks
	# One that is switched off is nobody's matter.
	hook 30-off
	chmod 666 "$hooks/30-off"
	revdedupctl -q snapshot $vg/vm1
	[ "$(grep -c . $said)" -eq 4 ]
	rm -r /tmp/rdt-hooks
}

# hook_hangs SECONDS: 20-bad is given up after them. One second can be too few for the others.
hook_hangs() {
	: >$said
	run revdedupctl snapshot $vg/vm1 --hook-timeout "$1"
	echo "$output"
	[ "$status" -eq 1 ] && [[ $output == *"20-bad pre $vg/vm1' took longer than $1 s"* ]] &&
		said "10-one pre $vg/vm1 $vol" "20-bad pre $vg/vm1 $vol" \
			"20-bad post $vg/vm1 $vol" "10-one post $vg/vm1 $vol"
}

@test "quiesce: a hook that fails, or takes too long, is said and undone" {
	volume vm1
	revdedupctl -q snapshot $vg/vm1
	hook 10-one
	hook 20-bad '[ "$1" != pre ] || exit 7'
	hook 30-never
	run revdedupctl snapshot $vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"20-bad pre $vg/vm1' failed with exit status 7"* ]]
	[[ $output == *"no version was made"* ]]
	said "10-one pre $vg/vm1 $vol" "20-bad pre $vg/vm1 $vol" \
		"20-bad post $vg/vm1 $vol" "10-one post $vg/vm1 $vol"
	[ "$(versions vm1)" -eq 1 ]
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
	# With all that it has started.
	hook 20-bad '[ "$1" != pre ] || { sleep 1000; exit 0; }'
	hook_hangs 1 || hook_hangs 60
	run ! pgrep -x sleep
	# One that cannot undo: the version is there, and somebody is told.
	hook 20-bad '[ "$1" = pre ] || exit 9'
	run revdedupctl snapshot $vg/vm1
	echo "$output"
	[ "$status" -eq 3 ]
	[[ $output == *"20-bad post $vg/vm1' failed with exit status 9"* ]]
	[[ $output == *"@2 was made"* ]]
	said "10-one pre $vg/vm1 $vol" "20-bad pre $vg/vm1 $vol" "30-never pre $vg/vm1 $vol" \
		"30-never post $vg/vm1 $vol" "20-bad post $vg/vm1 $vol" "10-one post $vg/vm1 $vol"
	[ "$(versions vm1)" -eq 2 ]
	run revdedupctl snapshot $vg/vm1 --hook-timeout 0
	[ "$status" -eq 2 ]
	rm "$hooks"/*
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@latest "$vol"
}

# command_hangs SECONDS: with all frozen, which is let go after them. As above, one can be too few.
command_hangs() {
	local pid status=0
	: >$said
	REVDEDUP_FAIL=quiesce-frozen=stop revdedupctl snapshot $vg/vm1 --lock-wait 60 \
		--hook-timeout "$1" >/tmp/said 2>&1 3>&- &
	pid=$!
	retry 100 0.2 grep -q "^10-one post" $said
	kill -CONT $pid
	wait $pid || status=$?
	cat /tmp/said
	[ "$status" -eq 1 ] && grep -q "were released after" /tmp/said
}

@test "quiesce: what was begun is undone once, whatever the command dies of" {
	volume vm1
	hook 10-one
	hook 20-two
	for step in quiesce-hooks=kill quiesce-frozen=EIO freeze-suspended=kill freeze-suspended=EIO \
		freeze-resumed=kill; do
		: >$said
		echo "# $step"
		REVDEDUP_FAIL=$step run ctl snapshot $vg/vm1
		[ "$status" -ne 0 ]
		retry 100 0.1 grep -q "^10-one post" $said
		said "10-one pre $vg/vm1 $vol" "20-two pre $vg/vm1 $vol" \
			"20-two post $vg/vm1 $vol" "10-one post $vg/vm1 $vol"
		is_free
	done
	# While a hook runs: the next one is not begun, and this one does not go on.
	: >$said
	hook 20-two '[ "$1" = post ] || { sleep 60; echo late >>'$said'; }'
	hook 30-three
	revdedupctl snapshot $vg/vm1 --lock-wait 60 3>&- &
	pid=$!
	retry 100 0.1 grep -q "^20-two pre" $said
	# Its shell sleeps: it is known to the guard.
	retry 100 0.1 pgrep -x sleep
	kill -KILL $pid
	wait $pid || :
	retry 100 0.1 grep -q "^10-one post" $said
	said "10-one pre $vg/vm1 $vol" "20-two pre $vg/vm1 $vol" "20-two post $vg/vm1 $vol" \
		"10-one post $vg/vm1 $vol"
	run ! pgrep -x sleep
	# The guard itself: the command sees that, and does it.
	: >$said
	hook 20-two
	stopped quiesce-frozen snapshot $vg/vm1 --lock-wait 60
	kill -KILL "$(pgrep -P $pid)"
	kill -CONT $pid
	wait $pid
	said "10-one pre $vg/vm1 $vol" "20-two pre $vg/vm1 $vol" "30-three pre $vg/vm1 $vol" \
		"30-three post $vg/vm1 $vol" "20-two post $vg/vm1 $vol" "10-one post $vg/vm1 $vol"
	# One that hangs in between: they are let go, and there is no version.
	before=$(versions vm1)
	command_hangs 1 || command_hangs 60
	[ "$(versions vm1)" -eq "$before" ]
	rm "$hooks"/*
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@latest "$vol"
}

# A partition of the volume, as a guest's disk has them, with a file system that is
# mounted on this host.
partition() {
	volume vm1 48
	dm_create rdt-part "0 $((40 * 2048)) linear $vol 2048"
	mkfs.ext4 -q /dev/mapper/rdt-part
	mkdir -p "/tmp/rdt-mnt two"
	mount /dev/mapper/rdt-part "/tmp/rdt-mnt two"
}

# page_set_clean VERSION: the file system in it was frozen: there is nothing to recover.
page_set_clean() {
	revdedupctl -q restore "$1" --yes --to /tmp/rdt-pool/out
	dd if=/tmp/rdt-pool/out of=/tmp/rdt-pool/part bs=1M skip=1 status=none
	dumpe2fs -h /tmp/rdt-pool/part 2>/dev/null >/tmp/header
	grep "^Filesystem features" /tmp/header
	[ "$(grep -c needs_recovery /tmp/header)" -eq 0 ]
	e2fsck -fn /tmp/rdt-pool/part
}

@test "quiesce: a file system on a partition is frozen, and thawed whatever happens" {
	partition
	mnt="/tmp/rdt-mnt two"
	date >"$mnt/one"
	run revdedupctl -v snapshot $vg/vm1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"froze '$mnt'"* ]]
	page_set_clean $vg/vm1@1
	debugfs -R "cat one" /tmp/rdt-pool/part | cmp - "$mnt/one"
	for step in quiesce-frozen=kill quiesce-frozen=EIO freeze-suspended=kill; do
		echo "# $step"
		REVDEDUP_FAIL=$step run ctl snapshot $vg/vm1
		[ "$status" -ne 0 ]
		# Its guard may still be at it.
		timeout 60 dd if=/dev/zero of="$mnt/x" bs=4k count=1 conv=fsync status=none
	done
	# Of one that is frozen by somebody else it takes no notice.
	fsfreeze --freeze "$mnt"
	ctl snapshot -q $vg/vm1
	run ! fsfreeze --freeze "$mnt"
	fsfreeze --unfreeze "$mnt"
	page_set_clean $vg/vm1@latest
	umount "$mnt"
	# Nothing is mounted, and nothing is frozen.
	run revdedupctl -v snapshot $vg/vm1
	[ "$status" -eq 0 ]
	[[ $output != *froze* ]]
}

# bats test_tags=soak
@test "quiesce: mounted from the volume itself, device-mapper freezes it" {
	make_lv vm1 32
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	mkfs.ext4 -q "$vol"
	mkdir -p /tmp/rdt-mnt
	mount "$vol" /tmp/rdt-mnt
	date >/tmp/rdt-mnt/one
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q restore $vg/vm1@1 --yes --to /tmp/rdt-pool/out
	dumpe2fs -h /tmp/rdt-pool/out 2>/dev/null >/tmp/header
	grep "^Filesystem features" /tmp/header
	[ "$(grep -c needs_recovery /tmp/header)" -eq 0 ]
	debugfs -R "cat one" /tmp/rdt-pool/out | cmp - /tmp/rdt-mnt/one
}

# bats test_tags=soak
@test "quiesce: all volumes, one after the other, and one that fails stops no other" {
	run revdedupctl snapshot --all
	[ "$status" -eq 0 ]
	[[ $output == *"no volume is attached"* ]]
	for nr in 1 2 3; do
		volume vm$nr
	done
	revdedupctl snapshot --all --json --tag first >/tmp/json
	cat /tmp/json
	[ "$(grep -c '"type": "snapshot"' /tmp/json)" -eq 3 ]
	hook one '[ "$2" != '$vg'/vm2 ]'
	run revdedupctl snapshot --all
	echo "$output"
	[ "$status" -eq 3 ]
	[[ $output == *"'$vg/vm2' failed"* ]]
	[ "$(versions vm1) $(versions vm2) $(versions vm3)" = "2 1 2" ]
	# Each is free when its turn is over, not only in the end.
	rm "$hooks/one"
	hook one '[ "$1 $2" != "pre '$vg'/vm2" ] || revdedupctl -q snapshot '$vg/vm1
	revdedupctl -q snapshot --all
	[ "$(versions vm1) $(versions vm2) $(versions vm3)" = "4 2 3" ]
	hook one 'exit 1'
	run revdedupctl snapshot --all
	echo "$output"
	[ "$status" -eq 1 ]
	run revdedupctl snapshot --all --from /dev/ram1
	[ "$status" -eq 2 ]
	run revdedupctl snapshot --all $vg/vm1
	[ "$status" -eq 2 ]
	run revdedupctl snapshot
	[ "$status" -eq 2 ]
	run revdedupctl -p /tmp/nothing snapshot --all
	[ "$status" -eq 10 ]
}

# is_number METRIC VOLUME NUMBER: in what metrics has printed.
is_number() {
	grep -xF "revdedup_$1{volume=\"$vg/$2\"} $3" /tmp/metrics
}

metrics() {
	revdedupctl metrics >/tmp/metrics
	cat /tmp/metrics
	awk -f "$BATS_TEST_DIRNAME/prometheus.awk" /tmp/metrics
}

@test "quiesce: metrics and status say what somebody has to look at" {
	volume vm1
	volume vm2
	revdedupctl -q snapshot --all
	dd if=/dev/urandom of="$vol" bs=4k seek=700 count=1 oflag=direct status=none
	metrics
	is_number device_tracked vm1 1
	is_number device_dirty_segments vm1 0
	is_number device_dirty_segments vm2 1
	is_number device_segments vm2 8
	is_number device_needs_attention vm2 0
	is_number volume_versions vm2 1
	revdedupctl status
	# One that is left suspended.
	dmsetup suspend "${vol##*/}"
	run revdedupctl status
	echo "$output"
	dmsetup resume "${vol##*/}"
	[ "$status" -eq 1 ]
	[[ $output == *vm2*"is suspended"* ]]
	# And one that is at work is not.
	hook one 'revdedupctl status >/tmp/status; echo $? >>/tmp/status'
	stopped freeze-suspended -q snapshot $vg/vm1
	revdedupctl status
	kill -CONT $pid
	wait $pid
	[ "$(tail -n 1 /tmp/status)" = 0 ]
	rm "$hooks/one"
	# Rolled back, and on its way home.
	revdedupctl -q rollback $vg/vm2@1 --yes
	metrics
	is_number device_tracked vm2 1
	retry 100 0.3 eval 'revdedupctl metrics | grep "away_bytes.*vm2.* 0$"'
	# One that is gone, and a file that nobody can read; the others are shown.
	dmsetup remove "$(basename "$vol")"
	echo nonsense >"$REVDEDUP_CONFIG/volumes/revdedup-aaa"
	run revdedupctl status
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *vm1*tracked*vm2*"has no device"* ]]
	rm "$REVDEDUP_CONFIG/volumes/revdedup-aaa"
	metrics
	is_number device_needs_attention vm2 1
	is_number device_tracked vm2 0
	run ! grep 'device_dirty.*vm2' /tmp/metrics
	# Without the pool: what is known is there all the same.
	run revdedupctl -p /tmp/nothing metrics --output /tmp/rdt-pool/x.prom
	[ "$status" -eq 10 ]
	grep -xF 'revdedup_pool_up{pool="/tmp/nothing"} 0' /tmp/rdt-pool/x.prom
	grep -q 'device_tracked.*vm1.* 1' /tmp/rdt-pool/x.prom
	awk -f "$BATS_TEST_DIRNAME/prometheus.awk" /tmp/rdt-pool/x.prom
	revdedupctl -q attach --all
	revdedupctl status
}
