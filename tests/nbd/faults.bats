#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions over NBD: damage, users who may only read, pools that are full, locked or taken
# away, clients that send nonsense, and pools that change all the time.
# shellcheck disable=SC2030,SC2031,SC2154,SC2016 # each test is a subshell; by pool.bash
load nbd

# blame PLACE: damage the fingerprint, rather than the content, of a block of 1.img.
damage_fp() {
	python3 -c 'import hashlib, sys
block = open(sys.argv[1], "rb").read()[int(sys.argv[2]) * 4096:][:4096]
with open("pool/data", "r+b") as data:
    at = data.read().find(hashlib.sha256(block).digest()[:16])
    assert at >= 0
    data.seek(at)
    data.write(b"damaged")' "$@"
}

# read_at VOL@N OFFSET LENGTH: with the status of the read.
read_at() {
	run nbdsh -u "$(uri "$1")" -c "h.pread($3, $2)"
}

@test "damage is an error, with a line that says where, and spoils nothing else" {
	make_versions
	damage 1.img 100
	damage 1.img 101
	serve_logged
	read_at vm1@1 $((100 * 4096 + 5)) 10
	[ "$status" -ne 0 ]
	[[ $output == *"Input/output error"* ]]
	read_at vm1@1 $((90 * 4096)) $((20 * 4096))
	[ "$status" -ne 0 ]
	client vm1@1 1.img --random 100
	[ "$status" -eq 1 ]
	[[ $output != *differs* ]]
	for block in 99 102 600 0; do
		run nbdsh -u "$(uri vm1@1)" -c "
data = open('1.img', 'rb').read()
assert h.pread(4096, $block * 4096) == data[$block * 4096:($block + 1) * 4096]"
		[ "$status" -eq 0 ]
	done
	grep -F "vm1@1: damaged: offset 409600, length 8192" log
	grep -F "'revdedupctl scrub --pool $PWD/pool' lists what is damaged, 'revdedupctl repair --from' heals it" log
	# Once a place, and not each time.
	[ "$(grep -cF "vm1@1: damaged: offset 409600, length 8192" log)" -eq 1 ]
	# repair heals it, and the same server reads it.
	must repair --from 1.img
	same vm1@1 1.img --random 100
}

@test "what is damaged is read from the copies on another disk" {
	make_versions
	must copies 4G --to copies --force
	damage_fp 1.img 90
	damage 1.img 100
	damage 1.img 101
	serve_logged
	same vm1@1 1.img --random 100
	same vm1@2 2.img --random 100
	grep -F "vm1@1: damaged at offset " log
	# A copy that is not what it should be is no copy.
	python3 -c 'import sys
block = open("1.img", "rb").read()[101 * 4096:][:4096]
with open("copies", "r+b") as copies:
    at = copies.read().find(block)
    assert at >= 0
    copies.seek(at)
    copies.write(b"damaged")'
	read_at vm1@1 $((101 * 4096)) 4096
	[ "$status" -ne 0 ]
	client vm1@1 1.img --random 100
	[[ $output != *differs* ]]
	read_at vm1@1 $((100 * 4096)) 4096
	[ "$status" -eq 0 ]
}

@test "an error is told though the copies have a part" {
	make_versions
	must copies 4G --to copies --force
	damage 1.img 0
	damage 1.img 1
	"$BATS_TEST_DIRNAME/../cli/copies.py" flip copies 1.img 0
	serve_logged
	read_at vm1@1 0 8192
	[ "$status" -ne 0 ]
	grep -F "vm1@1: damaged: offset 0, length 4096" log
}

@test "copies that do not answer keep no command from freeing" {
	local state i
	make_versions
	must copies 4G --to copies --force
	damage 1.img 100
	# The first two are those of the start.
	serve_logged env REVDEDUP_FAIL=copies-read:3=stop
	nbdsh -u "$(uri vm1@1)" -c 'h.pread(4096, 409600)' 3>&- &
	clients+=($!)
	for ((i = 0; i < 2400; i++)); do
		read -r _ _ state _ <"/proc/$server/stat"
		[ "$state" != T ] || break
		sleep 0.05
	done
	[ "$state" = T ]
	# RD_LOCK_FREE, as in hold.
	python3 -c 'import fcntl, struct
lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 << 48, 1, 0)
fcntl.fcntl(open("pool/data", "r+b"), fcntl.F_OFD_SETLK, lock)'
	kill -CONT "$server"
	wait "${clients[-1]}"
	unset 'clients[-1]'
}

# bats test_tags=packs
@test "what is good is read though its fingerprint is damaged" {
	make_versions
	damage_fp 1.img 100
	damage_fp 1.img 300
	serve vm1@1
	same vm1@1 1.img --random 50
}

# bats test_tags=packs
@test "reads that fail are tried again, and then are errors; the server goes on" {
	make_versions
	serve_logged env REVDEDUP_FAIL=random-read:1=EIO
	same vm1@1 1.img
	same vm1@2 2.img
}

@test "a hold that cannot be written is told, and is no error" {
	make_versions
	serve_logged env REVDEDUP_FAIL=hold-add:1=ENOSPC
	same vm1@1 1.img
	grep -F "warning: vm1@1 is not held: it becomes unreadable if it is deleted" log
	same vm1@2 2.img
}

# bats test_tags=packs
@test "a server that is killed at any step leaves a pool that the next command uses" {
	make_versions
	for step in hold-add:1 hold-drop:1 catalog-begin:3 catalog-commit:3 random-read:2; do
		serve_logged env REVDEDUP_FAIL=$step=kill
		client vm1@1 1.img
		# Those of the process that holds versions end no client.
		[ "$status" -eq 0 ] || [ "$step" = random-read:2 ]
		kill "$server" || :
		wait "$server" || :
		rm run/all.sock run/nbdkit.pid
		must snapshot vm1 --from 3.img
		is_clean
	done
}

@test "a server that is killed below nbdfuse gives errors, and the mount can be undone" {
	[ -c /dev/fuse ] || skip "this machine has no FUSE"
	make_versions
	serve vm1@1
	mkdir mnt
	nbdfuse mnt "$(uri vm1@1)" 3>&- &
	clients+=($!)
	wait_for mnt/nbd
	cmp 1.img mnt/nbd
	must delete vm1@1
	[ "$(held)" -eq 1 ]
	server=$(cat run/vm1@1.pid)
	kill -9 "$(ps -o ppid= -p "$server" | tr -d ' ')" "$server"
	# Nothing that the kernel has kept of the file.
	run timeout 120 dd if=mnt/nbd of=/dev/null bs=4096 iflag=direct
	echo "$output"
	[ "$status" -eq 1 ]
	# nbdfuse of libnbd 1.14 is aborted by that, and the kernel answers for it.
	[[ $output == *"Input/output error"* || $output == *"not connected"* ||
		$output == *"connection abort"* ]]
	timeout 120 fusermount3 -u mnt
	[ ! -e mnt/nbd ]
	# The next command that writes ends the hold, and status the files.
	must snapshot vm1 --from 3.img
	must status
	[[ $output != *"exported"* ]]
	[ -z "$(ls run)" ]
	is_clean
}

# bats test_tags=packs
@test "a user who may only read exports, and is told what that lacks" {
	[ "$(id -u)" -eq 0 ]
	# The directories of bats are root's alone.
	shared=$(mktemp -d /tmp/revdedup-nbd-XXXXXX)
	chmod 755 "$shared"
	cd "$shared"
	make_versions
	chmod 755 pool
	chmod 644 pool/*
	mkdir own
	chown nobody own
	export REVDEDUP_RUN=$PWD/run
	REVDEDUP_RUN=$PWD/own run setpriv --reuid=nobody --clear-groups \
		"$build/bin/revdedupctl" export vm1@2 --background --unix "$PWD/own/s"
	[ "$status" -eq 0 ]
	[[ $output == *"warning: no version is held, as this user may not write to '$PWD/pool'"* ]]
	[[ $output == *"a version that is deleted while it is read becomes unreadable"* ]]
	mkdir -p run
	ln -s ../own/s run/vm1@2.sock
	same vm1@2 2.img --random 20
	# Others change the pool meanwhile: right bytes while the version is there.
	must snapshot vm1 --from 1.img
	must delete vm1@1
	same vm1@2 2.img --random 20
	start_client vm1@2 2.img client
	must delete vm1@2
	must snapshot vm1 --from 2.img
	! end_client client || false
	[[ $(<client.log) != *differs* ]]
	[[ $(<client.log) != *"not zeros"* ]]
	kill "$(cat own/vm1@2.pid)"
	is_clean
	rm -r "$shared"
}

@test "a pool that is repaired waits for the server, by name" {
	make_versions
	serve --all
	ctl repair --rebuild-catalog
	[ "$status" -eq 11 ]
	[[ $output == *"'all' is exported: 'revdedupctl unexport all' ends that"* ]]
	must unexport --all
	must repair --rebuild-catalog
	hold 0 0
	ctl export vm1@1 --background
	[ "$status" -eq 11 ]
	drop
	[ ! -e run/vm1@1.export ]
}

# bats test_tags=packs
@test "a pool that is damaged or taken away is an error with a sentence" {
	make_versions
	ctl export vm1@9 --background
	expect 1 <<-'END'
		revdedupctl: there is no version 9 of 'vm1'
		revdedupctl: 'revdedupctl list vm1' lists its versions
	END
	REVDEDUP_POOL=$PWD/none ctl export vm1@1
	[ "$status" -eq 10 ]
	serve_logged
	# The server has its files open; a pool that is gone for others is still read.
	mv pool gone
	same vm1@1 1.img
	mv gone pool
	truncate -s 5M pool/data
	client vm1@3 3.img
	[ "$status" -eq 1 ]
	[[ $output != *differs* ]]
	grep -F "vm1@3: damaged: offset " log
}

@test "nonsense, silence and a connection that is cut harm no other client" {
	make_versions
	serve --all
	start_client vm1@1 1.img client
	python3 - "$PWD/run/all.sock" <<-'END'
		import os, random, socket, struct, sys, time
		rng = random.Random(int(os.environ.get("SEED", 1)))
		silent = []
		def connect():
		    s = socket.socket(socket.AF_UNIX)
		    s.connect(sys.argv[1])
		    return s
		def opened():
		    s = connect()
		    s.recv(18)
		    name = b"vm1@1"
		    data = struct.pack(">I", len(name)) + name + b"\0\0"
		    s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, len(data)) + data)
		    s.recv(4096)
		    return s
		def disturb(i):
		    s = connect() if i % 2 else opened()
		    if i % 4 == 0:
		        silent.append(s)
		    if i % 3 == 0:
		        s.sendall(rng.randbytes(rng.randrange(1, 2000)))
		    elif i % 3 == 1:
		        # Requests whose answers are not waited for; beyond the end, too.
		        for offset in (0, 1 << 20, 1 << 60):
		            s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, i, offset, 1 << 20))
		for i in range(60):
		    try:
		        disturb(i)
		    except OSError:
		        time.sleep(0.1)
	END
	same vm1@2 2.img --random 20
	end_client client
	must unexport --all
	is_clean
}

@test "clients that go away with reads in flight end no other client's export" {
	make_versions
	damage 1.img 10
	serve --all
	server=$(cat run/all.pid)
	"$BATS_TEST_DIRNAME/client.py" "$(uri vm1@2)" 2.img --until stop >client.log 2>&1 3>&- &
	clients+=($!)
	# The answers fill the socket, and each thread of the server waits to send one.
	python3 - "$PWD/run/all.sock" <<-'END'
		import socket, struct, sys, time
		gone = []
		for i in range(20):
		    s = socket.socket(socket.AF_UNIX)
		    s.connect(sys.argv[1])
		    s.recv(18)
		    go = struct.pack(">I", 5) + b"vm1@3" + b"\0\0"
		    s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, len(go)) + go)
		    s.recv(4096)
		    for j in range(16):
		        s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, j, 0, 1 << 20))
		    gone.append(s)
		time.sleep(1)
		for s in gone:
		    s.close()
	END
	# It goes away at the first error.
	for _ in 1 2 3 4 5; do
		! nbdcopy "$(uri vm1@1)" copy.img 2>/dev/null || false
	done
	touch stop
	wait "${clients[-1]}" || {
		cat client.log
		return 1
	}
	clients=()
	[ "$(cat run/all.pid)" = "$server" ]
	kill -0 "$server"
	same vm1@3 3.img
	must unexport --all
	is_clean
}

@test "rows that are not the version's are an error for each reader, and for no other version" {
	make_versions
	# All of them are rows of vm1: what they make of vm1@3 is vm1@2.
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"DELETE FROM segment WHERE born = 3"
	ctl restore vm1@3 --to out.img
	[ "$status" -eq 4 ]
	serve_logged
	for _ in 1 2; do
		read_at vm1@3 0 4096
		[ "$status" -ne 0 ]
		[[ $output == *"Input/output error"* ]]
	done
	run nbdinfo --map "$(uri vm1@3)"
	[ "$status" -ne 0 ]
	! nbdcopy "$(uri vm1@latest)" copy.img 2>/dev/null || false
	[ "$(grep -cF "'vm1@3': the catalog does not name the segments that the version was made with" log)" -eq 1 ]
	# A client that connects proves nothing, as it reads nothing.
	run nbdinfo --size "$(uri vm1@3)"
	[ "$output" -eq $((6 << 20)) ]
	same vm1@1 1.img --random 20
	same vm1@2 2.img --random 20
	kill "$server"
	wait "$server" || :
	rm run/all.sock run/nbdkit.pid
	# A version that was named is no exception.
	run nbdkit --unix - "$build/bin/nbdkit-revdedup-plugin.so" pool="$REVDEDUP_POOL" \
		version=vm1@3 --run 'nbdcopy "nbd+unix:///vm1@3?socket=$unixsocket" copy.img'
	[ "$status" -ne 0 ]
	ctl export vm1@3 --background
	[ "$status" -eq 4 ]
}

# lock_catalog: have the write lock of the catalog, until drop.
lock_catalog() {
	python3 -c 'import sqlite3, time
db = sqlite3.connect("pool/catalog.db", isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open("held", "w").close()
time.sleep(300)' 3>&- &
	# shellcheck disable=SC2034 # for teardown()
	holder=$!
	wait_for held
}

@test "clients read while another process keeps the catalog, and are held when it lets go" {
	make_versions
	serve --all
	start_client vm1@1 1.img client
	lock_catalog
	# One that has read goes on, and one that has not begins; what it reads is to be held, and
	# what the one before it has is not any more.
	run timeout 60 "$BATS_TEST_DIRNAME/client.py" "$(uri vm1@2)" 2.img --random 20
	[ "$status" -eq 0 ]
	run timeout 60 "$BATS_TEST_DIRNAME/client.py" "$(uri vm1@3)" 3.img --random 20
	[ "$status" -eq 0 ]
	start_client vm1@2 2.img second
	[ "$(ask "SELECT count(*) FROM lease")" -eq 1 ]
	drop
	until [ "$(ask "SELECT count(*) FROM lease WHERE number = 2")" -eq 1 ]; do sleep 0.05; done
	must delete vm1@1 vm1@2
	[ "$(held)" -eq 2 ]
	end_client second
	touch client.go
	wait "${clients[0]}"
	clients=()
	must unexport --all
	is_clean
}

# bats test_tags=packs
@test "a pool that changes all the time is read right" {
	make_pool 64G
	truncate -s 20M now.img
	blocks now.img 0 3000
	cp now.img kept.img
	must snapshot vm1 --from now.img
	serve vm1@1
	RANDOM=${SEED:-1}
	"$BATS_TEST_DIRNAME/client.py" "$(uri vm1@1)" kept.img --until stop --seed "${SEED:-1}" \
		>client.log 2>&1 3>&- &
	clients+=($!)
	for ((i = 2; i < ${CHURNS:-20}; i++)); do
		for _ in 1 2 3; do
			blocks now.img $((RANDOM % 3000)) $((RANDOM % 300))
		done
		must snapshot vm1 --from now.img
		[ $((RANDOM % 3)) -eq 0 ] || must delete vm1@$i
		[ "$i" -ne 5 ] || must delete vm1@1
	done
	touch stop
	wait "${clients[-1]}" || {
		cat client.log
		return 1
	}
	clients=()
	same vm1@1 kept.img
	must unexport --all
	is_clean
}

# bats test_tags=packs
@test "qemu-img makes a qcow2 of a version, and back" {
	make_pool 64G
	truncate -s 5000192 now.img
	RANDOM=${SEED:-1}
	for ((i = 1; i <= ${CONVERTED:-10}; i++)); do
		blocks now.img $((RANDOM % 1000)) $((RANDOM % 100))
		fallocate --punch-hole --offset $((RANDOM % 1000 * 4096)) --length 65536 now.img
		cp --sparse=always now.img $i.img
		must snapshot vm1 --from now.img
	done
	serve --all
	for ((i = 1; i <= ${CONVERTED:-10}; i++)); do
		# The last one in any case.
		[ $((RANDOM % 4)) -eq 0 ] || [ "$i" -eq "${CONVERTED:-10}" ] || continue
		[ "$i" -eq 1 ] || must delete vm1@$((i - 1)) || :
		qemu-img convert "$(uri vm1@$i)" -O qcow2 q.qcow2
		qemu-img convert q.qcow2 -O raw back.img
		cmp $i.img back.img
	done
}

# bats test_tags=packs
@test "prune and snapshots go on beside 20 exports, which all read on" {
	make_pool 1G
	truncate -s 6M now.img
	for ((i = 1; i <= 20; i++)); do
		blocks now.img $((i * 60)) 40
		cp --sparse=always now.img $i.img
		must snapshot vm1 --from now.img
	done
	for ((i = 1; i <= 20; i++)); do
		serve vm1@$i
	done
	start_client vm1@1 1.img one
	start_client vm1@10 10.img ten
	must prune vm1 --keep-last 1
	[ "$(held)" -eq 19 ]
	blocks now.img 0 1500
	must snapshot vm1 --from now.img
	for ((i = 1; i <= 20; i += 3)); do
		same vm1@$i $i.img
	done
	end_client ten
	touch one.go
	wait "${clients[0]}"
	clients=()
	must unexport --all
	is_clean
}

@test "a full pool is exported, and what is read is not held" {
	truncate -s 64M disk
	mkfs.ext4 -q disk
	mkdir -p mnt
	mount -o loop disk mnt || skip "this machine mounts nothing"
	must init --compression none mnt/pool --size 1G --reserve 64K
	export REVDEDUP_POOL=$PWD/mnt/pool
	truncate -s 6M 1.img
	blocks 1.img 0 600
	must snapshot vm1 --from 1.img
	fallocate -l 1G mnt/filler 2>/dev/null || dd if=/dev/zero of=mnt/filler bs=64K 2>/dev/null || :
	run "$build/bin/revdedupctl" export vm1@1 --background
	[ "$status" -eq 0 ]
	same vm1@1 1.img --random 20
	must unexport vm1@1
	rm mnt/filler
	must check
}

# Errors between the server and the client, as of a network: nbdkit's own filters make them.
@test "a client that gets errors says so, and with another try has the version" {
	make_versions
	# read_through FILTER... -- PARAMETER...
	read_through() {
		local filters=()
		while [ "$1" != -- ]; do
			filters+=("--filter=$1")
			shift
		done
		nbdkit --unix - "${filters[@]}" "$build/bin/nbdkit-revdedup-plugin.so" \
			pool="$REVDEDUP_POOL" version=vm1@2 "${@:2}" \
			--run 'qemu-img convert -f raw -O raw "nbd+unix:///vm1@2?socket=$unixsocket" copy.img'
	}
	run read_through error -- error-pread=EIO error-pread-rate=1
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"nput/output error"* ]]
	run read_through retry error -- retries=20 retry-delay=1 retry-exponential=no \
		error-pread=EIO error-pread-rate=0.3
	[ "$status" -eq 0 ]
	cmp 2.img copy.img
}
