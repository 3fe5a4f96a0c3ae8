#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Disks that a server has, or QEMU: snapshots of them, by bitmaps, and restores to them.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; build is by nbd.bash
load nbd

# disk FILE SIZE: content here and there, and in the last block.
disk() {
	truncate -s "$2" "$1"
	blocks "$1" 3 5
	blocks "$1" 700 300
	blocks "$1" 2100 1
	dd if=/dev/urandom of="$1" bs=1 seek=$(($2 - 700)) count=700 conv=notrunc status=none
}

# server ARG...: one that ends with the test; its socket is s.
server() {
	rm -f s
	"$@" >server.log 2>&1 3>&- &
	clients+=($!)
	wait_for s
}

# One may have ended by itself: nbdkit aborts now and then when a client goes.
stop() {
	kill "${clients[-1]}" 2>/dev/null || :
	wait "${clients[-1]}" || :
	unset 'clients[-1]'
}

nbd() { echo "nbd+unix:///?socket=$PWD/s"; }

# is VOL@N FILE: it has the content of this disk.
is() {
	"$build/bin/revdedupctl" dump "$1" | cmp - "$2"
}

@test "a disk over NBD: its content, and no hole is read" {
	make_pool 256M
	for size in 9441280 9441792; do
		rm -f raw
		disk raw "$size"
		server qemu-nbd --read-only --format=raw --socket="$PWD/s" raw
		must snapshot vm --from "$(nbd)" --json
		[ "$(field 0 '["size"]')" -eq "$size" ]
		[ "$(field 0 '["bytes_read"]')" -lt 4000000 ]
		is "vm@$(field 0 '["number"]')" raw
		# The same without io_uring.
		server qemu-nbd --read-only --format=raw --socket="$PWD/s" raw
		REVDEDUP_NO_URING=1 must snapshot "vm$size" --from "$(nbd)"
		is "vm$size@1" raw
	done
	must check
}

@test "a disk of a size that no sector divides, with a server that tells no holes" {
	make_pool 256M
	disk raw 9000001
	server nbdkit --foreground --unix "$PWD/s" --filter=noextents file raw
	must snapshot vm --from "$(nbd)"
	is vm@1 raw
}

@test "a disk in qcow2: its bitmap is found, another one is not believed" {
	make_pool 256M
	disk raw $((40 << 20))
	qemu-img convert -O qcow2 raw 'a,b.qcow2'
	qemu-img bitmap --add 'a,b.qcow2' b1
	must snapshot vm --from 'qcow2:a,b.qcow2' --bitmap b1 --json
	[ "$(field 0 '["mode"]')" = full ]
	qemu-io -f qcow2 -c 'write -q -P 7 9M 64k' -c 'write -q -P 8 30M 512' 'a,b.qcow2'
	qemu-img convert -O raw 'a,b.qcow2' raw
	# The version knows which bitmap follows on.
	must snapshot vm --from 'qcow2:a,b.qcow2' --json
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(field 0 '["segments_changed"]')" -eq 2 ]
	is vm@2 raw
	must show vm@2
	[[ $output == *'consistent:     yes, if the list of changes lacked none'* ]]
	qemu-img bitmap --add 'a,b.qcow2' b2
	qemu-io -f qcow2 -c 'write -q -P 9 20M 64k' 'a,b.qcow2'
	qemu-img convert -O raw 'a,b.qcow2' raw
	must snapshot vm --from 'qcow2:a,b.qcow2' --bitmap b2 --json
	[ "$(field 0 '["reason"]')" = "the bitmap does not follow on from the newest version" ]
	is vm@3 raw
	must snapshot vm --from 'qcow2:a,b.qcow2' --bitmap b3 --json
	[ "$(field 0 '["reason"]')" = "the file has no such bitmap, or one that was not closed well" ]
	must snapshot vm --from raw --json
	# After a version by other means no bitmap follows on.
	must snapshot vm --from 'qcow2:a,b.qcow2' --bitmap b2 --json
	[ "$(field 0 '["mode"]')" = full ]
	# A disk of another size.
	qemu-img resize -q 'a,b.qcow2' 42M
	must snapshot vm --from 'qcow2:a,b.qcow2' --json
	[ "$(field 0 '["reason"]')" = "the size has changed" ]
	must check
}

# What was cut off is zeros, and no bitmap has them, but for what is written into them again.
@test "a disk in qcow2 is cut off, grows again, and is written to in a segment of that" {
	must init pool --size 256M --pieces 64 --dedup inline
	export REVDEDUP_POOL=$PWD/pool
	qemu-img create -q -f qcow2 disk.qcow2 256M
	qemu-io -f qcow2 -c 'write -q -P 5 250M 6M' disk.qcow2
	qemu-img bitmap --add disk.qcow2 b1
	must snapshot vm --from qcow2:disk.qcow2 --bitmap b1
	qemu-img resize -q --shrink disk.qcow2 255M
	qemu-img resize -q disk.qcow2 256M
	qemu-io -f qcow2 -c "write -q -P 7 $((256 * 1024 - 64))k 64k" disk.qcow2
	qemu-img convert -O raw disk.qcow2 raw
	must snapshot vm --from qcow2:disk.qcow2 --json
	[ "$(field 0 '["mode"]')" = changed ]
	is vm@2 raw
}

@test "a bitmap that is made after the version of that name is not believed" {
	make_pool 256M
	disk raw $((40 << 20))
	qemu-img convert -O qcow2 raw disk.qcow2
	server qemu-nbd --read-only --persistent --socket="$PWD/s" disk.qcow2
	must snapshot vm --from qcow2:disk.qcow2 --bitmap b1
	must snapshot vm2 --from "$(nbd)" --bitmap b1
	stop
	qemu-io -f qcow2 -c 'write -q -P 7 9M 64k' disk.qcow2
	qemu-img bitmap --add disk.qcow2 b1
	qemu-img convert -O raw disk.qcow2 raw
	for vol in vm vm2; do
		must snapshot "$vol" --from qcow2:disk.qcow2 --bitmap b1 --json
		[ "$(field 0 '["mode"]')" = full ]
		is "$vol@2" raw
	done
	# One that does not record is not either, unless another goes on.
	qemu-img bitmap --disable disk.qcow2 b1
	must snapshot vm --from qcow2:disk.qcow2 --json
	[ "$(field 0 '["mode"]')" = full ]
}

@test "a bitmap over NBD, and the one that comes next" {
	make_pool 256M
	disk raw $((40 << 20))
	qemu-img convert -O qcow2 raw disk.qcow2
	qemu-img bitmap --add disk.qcow2 b1
	server qemu-nbd --read-only --persistent --bitmap=b1 --socket="$PWD/s" disk.qcow2
	must snapshot vm --from "$(nbd)" --next-bitmap b1
	stop
	qemu-io -f qcow2 -c 'write -q -P 7 9M 64k' disk.qcow2
	qemu-img convert -O raw disk.qcow2 raw
	qemu-img bitmap --add disk.qcow2 b2
	server qemu-nbd --read-only --persistent --bitmap=b1 --socket="$PWD/s" disk.qcow2
	must snapshot vm --from "$(nbd)" --bitmap b1 --next-bitmap b2 --json
	[ "$(field 0 '["mode"]')" = changed ]
	is vm@2 raw
	# b1 ended there, as far as anyone knows.
	must snapshot vm --from "$(nbd)" --bitmap b1 --next-bitmap b2 --json
	[ "$(field 0 '["reason"]')" = "the bitmap does not follow on from the newest version" ]
	must snapshot vm --from "$(nbd)" --bitmap b2 --json
	[ "$(field 0 '["reason"]')" = "the server has no such bitmap" ]
	is vm@4 raw
	stop
	must snapshot vm --from qcow2:disk.qcow2 --full-scan --json
	[ "$(field 0 '["reason"]')" = "as requested" ]
}

@test "a change that a bitmap lacks is found by the audit, and what may lack it is marked" {
	make_pool 256M
	truncate -s 24M raw
	blocks raw 0 6144
	qemu-img convert -O qcow2 raw disk.qcow2
	qemu-img bitmap --add disk.qcow2 b1
	must snapshot vm --from qcow2:disk.qcow2 --next-bitmap b1
	for nr in 2 3; do
		qemu-io -f qcow2 -c "write -q -P $nr 9M 64k" disk.qcow2
		must snapshot vm --from qcow2:disk.qcow2 --json
		[ "$(field 0 '["mode"]')" = changed ]
	done
	# Each segment changes, and the bitmap is cleared.
	for ((nr = 0; nr < 12; nr++)); do
		qemu-io -f qcow2 -c "write -q -P 9 $((nr * 2))M 512" disk.qcow2
	done
	qemu-img bitmap --clear disk.qcow2 b1
	qemu-img convert -O raw disk.qcow2 raw
	must snapshot vm --from qcow2:disk.qcow2 --json
	output=$(grep '^{' <<<"$output")
	[ "$(field 0 '["reason"]')" = "a segment outside the list of changes had changed" ]
	is vm@4 raw
	must list vm
	[ "$(grep -c 'not consistent' <<<"$output")" -eq 2 ]
}

@test "servers that fail: an error, and no version" {
	make_pool 256M
	disk raw $((9 << 20))
	failed() {
		ctl snapshot vm --from "$(nbd)"
		echo "$output"
		[ "$status" -ne 0 ]
		[[ $output == *"$1"* ]]
		[[ $output == *'no version was made'* ]]
		ctl list vm
		[[ $output != *vm@* ]]
	}
	server nbdkit --foreground --unix "$PWD/s" --filter=error file raw error-pread-rate=100% \
		error=EIO
	failed 'Input/output error'
	stop
	# One that hangs is given up soon.
	server nbdkit --foreground --unix "$PWD/s" --filter=delay file raw rdelay=30
	REVDEDUP_NBD_SECONDS=4 failed 'has not answered for 4 seconds'
	stop
	server nbdkit --foreground --unix "$PWD/s" --filter=delay file raw delay-open=30
	REVDEDUP_NBD_SECONDS=4 failed 'has not answered for 4 seconds'
	stop
	# It closes at the second read.
	server nbdkit --foreground --unix "$PWD/s" eval get_size='echo 8388608' \
		pread="[ \$4 = 0 ] && dd if=/dev/zero bs=\$3 count=1 status=none || kill \$PPID"
	failed 'cannot read'
	server nbdkit --foreground --unix "$PWD/s" eval get_size='echo 8388608' can_extents='exit 0' \
		pread="dd if=/dev/zero bs=\$3 count=1 status=none" extents='echo EIO no >&2; exit 1'
	# Then holes are not known, and all is read.
	must snapshot other --from "$(nbd)"
	stop
	server nbdkit --foreground --unix "$PWD/s" eval get_size='echo 9000000000000000000' \
		pread="dd if=/dev/zero bs=\$3 count=1 status=none"
	failed 'has 9000000000000000000 bytes'
	stop
	failed 'cannot connect'
	python3 -c 'import socket
s = socket.socket(socket.AF_UNIX)
s.bind("s2")
s.listen()
open("s2.ready", "w").close()
s.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")' 3>&- &
	clients+=($!)
	wait_for s2.ready
	mv s2 s
	failed 'cannot connect'
	# Interrupted while it waits.
	server nbdkit --foreground --unix "$PWD/s" --filter=delay file raw rdelay=30
	REVDEDUP_NBD_SECONDS=60 "$build/bin/revdedupctl" snapshot vm --from "$(nbd)" 3>&- &
	# Not before it has a handler for that, bit 1.
	until grep -q '^SigCgt:.*[2367abef]$' /proc/$!/status; do sleep 0.05; done
	sleep 1
	kill -INT $!
	status=0
	wait $! || status=$?
	[ "$status" -eq 130 ]
	ctl list vm
	[[ $output != *vm@* ]]
	must check
}

@test "what does not go together is refused" {
	make_pool 256M
	disk raw $((9 << 20))
	refused() {
		ctl snapshot vm "${@:2}"
		[ "$status" -ne 0 ]
		[[ $output == *"$1"* ]] || {
			echo "$output"
			return 1
		}
	}
	refused '--bitmap and --next-bitmap are for' --from raw --bitmap b
	refused '--force is for an image' --from "$(nbd)" --force
	refused '--qmp needs --from DISK' --qmp s
	refused 'leave out --bitmap' --qmp s --from d --bitmap b
	refused 'give one' --from "$(nbd)" --bitmap b --changed list
	refused "cannot open 'nowhere'" --from qcow2:nowhere
	refused 'Image is not in qcow2 format' --from qcow2:raw
	refused 'no version was made' --from qcow2:raw
	qemu-img create -q -f qcow2 disk.qcow2 8M
	refused "'--from qcow2:disk.qcow2' reads the disk in it" --from disk.qcow2
}

@test "a restore to a disk over NBD and in qcow2 writes what differs" {
	make_pool 256M
	disk raw 20000256
	must snapshot vm --from raw
	# The command is killed before its server has a client: it must not keep the file locked. The
	# real one has moments while it starts in which it loses the signal.
	mkdir killed
	cat >killed/qemu-nbd <<-'END'
		#!/bin/bash
		echo $$ >killed/pid
		kill -KILL $PPID
		exec sleep 600
	END
	chmod +x killed/qemu-nbd
	status=0
	PATH=$PWD/killed:$PATH "$build/bin/revdedupctl" restore vm@1 --to qcow2:disk.qcow2 \
		>said 2>&1 3>&- || status=$?
	[ "$status" -eq 137 ]
	clients+=("$(<killed/pid)")
	for ((i = 0; i < 600; i++)); do
		kill -0 "${clients[-1]}" || break
		sleep 0.1
	done
	[ "$i" -lt 600 ]
	unset 'clients[-1]'
	rm disk.qcow2
	cp raw other
	blocks other 900 20
	fallocate --punch-hole --offset 12288 --length 8192 other
	must snapshot vm --from other
	# There may be keys and passwords in it.
	(umask 022 && must restore vm@1 --to qcow2:disk.qcow2 --json)
	[ "$(stat -c %a disk.qcow2)" = 600 ]
	must restore vm@1 --to qcow2:two.qcow2 --json
	[ "$(field 0 '["bytes_written"]')" -lt 1300000 ]
	qemu-img convert -O raw disk.qcow2 got
	cmp raw got
	ctl restore vm@2 --to qcow2:disk.qcow2
	[ "$status" -ne 0 ]
	[[ $output == *"disk 'qcow2:disk.qcow2' (19.1 MiB) exists"* ]]
	must restore vm@2 --to qcow2:disk.qcow2 --yes --json
	[ "$(field 0 '["bytes_written"]')" -eq $((22 * 4096)) ]
	qemu-img convert -O raw disk.qcow2 got
	cmp other got
	server qemu-nbd --persistent --socket="$PWD/s" --format=raw got
	must restore vm@1 --to "$(nbd)" --yes --json
	[ "$(field 0 '["bytes_written"]')" -eq $((22 * 4096)) ]
	cmp raw got
	must restore vm@2 --to "$(nbd)" --yes --full
	cmp other got
	stop
	server qemu-nbd --persistent --read-only --socket="$PWD/s" --format=raw got
	ctl restore vm@1 --to "$(nbd)" --yes
	[ "$status" -ne 0 ]
	[[ $output == *'allows no writes'* ]]
	stop
	server nbdkit --foreground --unix "$PWD/s" --filter=error file got error-pwrite-rate=100% \
		error=ENOSPC
	ctl restore vm@1 --to "$(nbd)" --yes
	[ "$status" -ne 0 ]
	[[ $output == *'cannot write to the target: No space left on device'* ]]
	qemu-img create -q -f qcow2 small.qcow2 1M
	ctl restore vm@1 --to qcow2:small.qcow2 --yes
	[ "$status" -ne 0 ]
	[[ $output == *'restore it to a larger'* ]]
}

# model NAME...: tests of qemu.py.
model() {
	make_pool 1G
	run "$BATS_TEST_DIRNAME/qemu.py" --ctl "$build/bin/revdedupctl" --pool "$PWD/pool" \
		--seed "$SEED" "$@"
	echo "$output"
	[ "$status" -eq 0 ]
	must check
}

@test "a disk of a running QEMU: each version is what was written" {
	model random --rounds "${QEMU_ROUNDS:-20}"
}

@test "the same in a raw file, whose bitmaps end with QEMU" {
	model random --rounds "${QEMU_ROUNDS:-10}" --format raw
}

@test "what a guest writes after the moment is not in the version, and in the next one" {
	model moment
}

@test "a snapshot of a running QEMU waits for another command before the moment" {
	model waits
}

@test "a snapshot is killed while QEMU does not answer" {
	model silence
}

@test "a snapshot of a running QEMU is killed at each step" {
	model kills
}

@test "a QEMU that refuses" {
	model refusals
}

@test "a guest has an old version as its disk, while QEMU copies it home" {
	model home
}

@test "a disk over NBD with TLS, for who has the key" {
	local uri="nbds+unix://alice@/?socket=$PWD/s&tls-psk-file="
	make_pool 256M
	disk raw 9441792
	psktool -u alice -p keys >/dev/null
	psktool -u alice -p others >/dev/null
	server nbdkit --foreground --unix "$PWD/s" --tls=require --tls-psk="$PWD/keys" file raw
	must snapshot vm --from "$uri$PWD/keys"
	is vm@1 raw
	for refused in "$uri$PWD/others" "$(nbd)"; do
		ctl snapshot vm --from "$refused"
		echo "$output"
		[ "$status" -eq 1 ]
		[[ $output == *"cannot connect to "*"no version was made"* ]]
	done
}
