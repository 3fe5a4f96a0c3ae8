#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions as devices on a host without our module: map, mount, unmap and umount by the kernel's
# nbd; servers that die or do not answer; commands that are killed at each step.

# Each test is a subshell.
# shellcheck disable=SC2030,SC2031,SC2154
load ../lib/guest

export REVDEDUP_CONFIG=/tmp/rdt-etc REVDEDUP_POOL=/tmp/rdt-dir/pool REVDEDUP_RUN=/tmp/rdt-dir/run
PATH=/revdedup/ctl:$PATH
mnt=/tmp/rdt-mnt

# vm1@1 has one file, vm1@2 has two; the disk ends in the middle of a sector.
setup() {
	dmr_setup
	! [ -d /sys/module/dm_revdedup ]
	mkdir -p "$REVDEDUP_CONFIG" /tmp/rdt-dir/tree $mnt
	cd /tmp/rdt-dir || return
	revdedupctl -q init --compression none --size 1G "$REVDEDUP_POOL"
	head -c 5000000 /dev/urandom >tree/file
	truncate -s 16M vm.img
	mkfs.ext4 -q -d tree vm.img
	truncate -s $(((16 << 20) + 100)) vm.img
	revdedupctl -q snapshot vm1 --from vm.img
	cp vm.img 1.img
	truncate -s $(((16 << 20) + 512)) 1.img
	echo two >tree/two
	debugfs -w -R "write tree/two two" vm.img 2>/dev/null
	revdedupctl -q snapshot vm1 --from vm.img
}

teardown() {
	local dev
	pkill -CONT nbdkit || :
	pkill -x sleep || :
	umount $mnt 2>/dev/null || :
	for dev in $(of_nbd); do
		revdedupctl -q unmap "$dev" || :
	done
	pkill nbdkit || :
	cd /
	rm -rf /tmp/rdt-dir "$REVDEDUP_CONFIG"
	dmr_teardown
}

# of_nbd: the devices that are connected.
of_nbd() {
	local file
	for file in /sys/block/nbd*/pid; do
		[ ! -e "$file" ] || echo "/dev/$(basename "${file%/pid}")"
	done
}

# must COMMAND...: run it, with its output in $output, and see that it succeeds.
must() {
	run revdedupctl "$@"
	echo "$output"
	[ "$status" -eq 0 ]
}

# fresh DEVICE: forget what was read of it.
fresh() { blockdev --flushbufs "$1"; }

# is_open_in PID DEVICE: as its standard input, in the program that is to have it open.
is_open_in() { [[ $(readlink "/proc/$1/fd/0") == "$2" && $(<"/proc/$1/comm") == sleep ]]; }

# server: the process of the only export.
server() { cat run/*.pid; }

# is_clean: no device, no process, no file and no lease is left.
is_clean() {
	[ -z "$(of_nbd)" ]
	! pgrep -x nbdkit
	[ "$(ls run)" = map.lock ]
	must status
	[[ $output != *"in use:"* && $output != *nbd* ]]
	must check
}

@test "nbd: map makes a device that reads as the version, and unmap removes it" {
	must map vm1@1
	[ "$output" = "mapped vm1@1 as /dev/nbd0" ]
	cmp 1.img /dev/nbd0
	[ "$(blockdev --getro /dev/nbd0)" -eq 1 ]
	[ "$(blockdev --getss /dev/nbd0)" -eq 512 ]
	run ! dd if=/dev/zero of=/dev/nbd0 bs=4096 count=1
	must status
	[[ $output == *"mapped vm1@1 as /dev/nbd0 (revdedup-vm1@1)"* ]]
	[[ $output == *"in use:      vm1@1, read by revdedup-vm1@1"* ]]
	[[ $output != *"exported"* ]]
	# It is no export of the user's.
	must unexport --all
	# Others of the same version, also two at a time.
	run revdedupctl map vm1
	[[ $output == "mapped vm1@2 as /dev/nbd1" ]]
	run revdedupctl map vm1@1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"exists already: '/dev/nbd0'"*"revdedupctl unmap revdedup-vm1@1"* ]]
	revdedupctl -q map vm1@1 a &
	revdedupctl -q map vm1@1 b
	wait $!
	[ "$(of_nbd | wc -l)" -eq 4 ]
	# Deleted versions stay as long as they are read.
	must delete vm1@1
	[[ $output == *"revdedup-vm1@1"* ]]
	for dev in $(of_nbd); do fresh "$dev"; done
	cmp 1.img /dev/nbd0
	must unmap vm1@1
	must unmap /dev/nbd1
	must unmap a
	[ "$(of_nbd | wc -l)" -eq 1 ]
	# It is in use.
	dev=$(of_nbd)
	# shellcheck disable=SC2217 # it only has it open
	sleep 1000 <"$dev" 3>&- &
	retry 50 0.1 is_open_in $! "$dev"
	run revdedupctl unmap b
	echo "$output"
	[ "$status" -eq 11 ]
	kill $!
	wait || :
	must unmap b
	run revdedupctl unmap b
	[ "$status" -eq 1 ]
	is_clean
}

@test "nbd: a version of another host's pool is mapped, read there, and held" {
	local far=far:$REVDEDUP_POOL
	# A host has one, and this guest has not.
	[ -e /bin/sh ] || ln -s bash /bin/sh
	# shellcheck disable=SC2016 # it is another shell that expands it
	printf '#!/bin/sh\nshift\nexec sh -c "$1"\n' >rsh
	chmod +x rsh
	unset REVDEDUP_POOL
	must map vm1@1 --from "$far" --rsh "$PWD/rsh"
	[ "$output" = "mapped vm1@1 as /dev/nbd0" ]
	must map vm1 new --writable --from "$far" --rsh "$PWD/rsh"
	cmp 1.img /dev/nbd0
	mount /dev/nbd1 $mnt
	[ "$(<$mnt/two)" = two ]
	echo three >$mnt/three
	umount $mnt
	must status --pool pool
	[[ $output == *"mapped vm1@1 as /dev/nbd0 (revdedup-vm1@1)"* ]]
	must delete vm1@1 --yes --pool pool
	fresh /dev/nbd0
	cmp 1.img /dev/nbd0
	must unmap vm1@1
	must unmap new
	export REVDEDUP_POOL=/tmp/rdt-dir/pool
	# What served them there ends when it hears that nobody listens.
	retry 100 0.1 eval '! pgrep -x nbdkit'
	is_clean
}

@test "nbd: mount, read-only and to be written to, and in a partition" {
	must mount vm1@1 $mnt
	[ "$output" = "mounted vm1@1 at $mnt: ext4, read-only" ]
	cmp tree/file $mnt/file
	[ ! -e $mnt/two ]
	run revdedupctl mount vm1@1 $mnt
	[ "$status" -eq 11 ]
	run revdedupctl unmap revdedup-vm1@1:mount
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"is mounted at '$mnt'"* ]]
	run revdedupctl restore vm1@1 --yes --to /dev/nbd0
	echo "$output"
	[[ $status -ne 0 && $output == *"revdedup's own"* ]]
	must umount $mnt
	is_clean
	must mount vm1@2 $mnt --writable
	echo new >$mnt/new
	must umount $mnt
	must mount vm1@2 $mnt
	[ "$(<$mnt/two)" = two ]
	[ ! -e $mnt/new ]
	must umount $mnt
	is_clean
	# The second of a table of DOS: type 83, from sector 2048, of 16 MiB.
	truncate -s 20M disk.img
	dd if=vm.img of=disk.img bs=1M seek=1 conv=notrunc status=none
	printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\x80\0\0' |
		dd of=disk.img bs=1 seek=$((446 + 16)) conv=notrunc status=none
	printf '\x55\xaa' | dd of=disk.img bs=1 seek=510 conv=notrunc status=none
	revdedupctl -q snapshot vm2 --from disk.img
	run revdedupctl mount vm2@1 $mnt
	[ "$status" -ne 0 ]
	is_clean
	must mount vm2@1 $mnt --partition 2
	cmp tree/file $mnt/file
	must umount $mnt
	[ -z "$(dm_devices)" ]
	is_clean
}

@test "nbd: a server that is killed below a mount gives EIO, and all of it can be removed" {
	must mount vm1@1 $mnt
	kill -9 "$(server)"
	echo 3 >/proc/sys/vm/drop_caches
	run timeout 120 cat $mnt/file
	echo "$output" | head -c 300
	[[ $status -eq 1 && $output == *"Input/output error"* ]]
	must status
	[[ $output == *"/dev/nbd0 (revdedup-vm1@1:mount) has lost its server"*", mounted at $mnt"* ]]
	must umount $mnt
	is_clean
	# Both processes, and a version that only they have kept.
	must map vm1@1
	must delete vm1@1
	kill -9 "$(awk '{ print $4 }' "/proc/$(server)/stat")" "$(server)"
	run ! timeout 120 cat /dev/nbd0
	must unmap revdedup-vm1@1
	is_clean
}

# bats test_tags=soak
@test "nbd: a server that is stopped makes readers wait, for some time" {
	must map vm1@1
	[ "$(cat /sys/block/nbd0/queue/io_timeout)" -eq 60000 ]
	# The first to open it looks for partitions.
	fresh /dev/nbd0
	kill -STOP "$(server)"
	cmp 1.img /dev/nbd0 3>&- &
	sleep 4
	kill -0 $!
	kill -CONT "$(server)"
	wait $!
	# Not for the whole minute here.
	echo 1000 >/sys/block/nbd0/queue/io_timeout
	fresh /dev/nbd0
	kill -STOP "$(server)"
	run timeout 120 cmp 1.img /dev/nbd0
	echo "$output"
	[[ $status -eq 2 && $output == *"Input/output error"* ]]
	must unmap vm1@1
	is_clean
}

# bats test_tags=soak
@test "nbd: a command that is killed at any step leaves what the next one clears" {
	for step in nbd-exported nbd-connected; do
		run env REVDEDUP_FAIL=$step=kill revdedupctl map vm1@1
		[ "$status" -eq 137 ]
		pgrep -x nbdkit
		case $step in
		nbd-exported)
			# Each of these clears it.
			must status
			is_clean
			env REVDEDUP_FAIL=$step=kill revdedupctl map vm1@1 || :
			must unmap vm1@1
			is_clean
			env REVDEDUP_FAIL=$step=kill revdedupctl map vm1@1 || :
			must map vm1@1
			;;
		esac
		cmp 1.img /dev/nbd0
		run env REVDEDUP_FAIL=nbd-disconnected=kill revdedupctl unmap vm1@1
		[ "$status" -eq 137 ]
		[ -z "$(of_nbd)" ]
		must unmap vm1@1
		is_clean
		env REVDEDUP_FAIL=$step=EIO revdedupctl map vm1@1 || :
		is_clean
	done
	# At any moment.
	for delay in 0.02 0.06 0.1 0.15 0.2 0.3 0.5; do
		revdedupctl -q map vm1@1 3>&- &
		sleep $delay
		kill -9 $! 2>/dev/null || :
		wait $! || :
		run revdedupctl -q map vm1@1
		cmp 1.img /dev/nbd0
		must unmap vm1@1
		is_clean
	done
	# A mount takes what a mount that was killed has left.
	env REVDEDUP_FAIL=nbd-connected=kill revdedupctl mount vm1@1 $mnt || :
	must mount vm1@1 $mnt
	must umount $mnt
	is_clean
}

@test "nbd: with neither, map prints the lines that do without, and makes nothing" {
	rmmod nbd
	echo "install nbd /bin/false" >/etc/modprobe.d/rdt.conf
	run revdedupctl map vm1
	rm /etc/modprobe.d/rdt.conf
	echo "$output"
	[ "$status" -eq 13 ]
	diff - <(echo "$output" | tail -n 4) <<-END
		revdedupctl: 'revdedupctl export vm1@2' serves the version as a disk over NBD, for these and others:
		  qemu-img convert 'nbd+unix:///vm1@2?socket=$REVDEDUP_RUN/vm1@2.sock' -O qcow2 disk.qcow2
		  guestfish --ro --format=raw -a 'nbd:///vm1@2?socket=$REVDEDUP_RUN/vm1@2.sock'
		  nbd-client -unix '$REVDEDUP_RUN/vm1@2.sock' /dev/nbd0 -N 'vm1@2' -readonly
	END
	must map vm1
	must unmap vm1@2
	is_clean
}
