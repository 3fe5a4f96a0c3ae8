#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions over NBD: what clients read, while the pool changes beneath them and in spite of
# what goes wrong.
# shellcheck disable=SC2030,SC2031,SC2154,SC2016 # each test is a subshell; by pool.bash
load nbd

# make_churned: 1.img to 4.img, of a size that is no multiple of anything. Old versions are
# in pieces, with holes.
make_churned() {
	local nr
	make_pool 1G
	truncate -s 9437377 1.img
	blocks 1.img 0 600
	blocks 1.img 1100 1000
	for nr in 2 3 4; do
		cp --sparse=always $((nr - 1)).img $nr.img
		blocks $nr.img $((nr * 50)) 30
		blocks $nr.img $((1200 + nr)) 1
		fallocate --punch-hole --offset $((nr << 20)) --length 40960 $nr.img
		printf 'end %d' $nr | dd of=$nr.img bs=1 seek=9437370 conv=notrunc status=none
	done
	for nr in 1 2 3 4; do
		must snapshot vm1 --from $nr.img
	done
}

# free_port: print one that nobody is given who asks for any.
free_port() {
	python3 -c 'import random, socket
with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
    low = int(file.read().split()[0])
while True:
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", random.randrange(10000, low)))
        except OSError:
            continue
        print(s.getsockname()[1])
        break'
}

# bats test_tags=packs
@test "each version is an export, whatever its size and its age" {
	make_churned
	truncate -s 5 tiny.img
	must snapshot group/tiny+1 --from tiny.img
	: >empty.img
	serve --all
	run nbdinfo --list --json "$(uri vm1@1)"
	[ "$status" -eq 0 ]
	names=$(python3 -c 'import json, sys
print(*sorted(e["export-name"] for e in json.load(sys.stdin)["exports"]), sep="\n")' <<<"$output")
	diff <(echo "$names") - <<-'END'
		group/tiny+1@1
		group/tiny+1@latest
		vm1@1
		vm1@2
		vm1@3
		vm1@4
		vm1@latest
	END
	for nr in 1 2 3 4; do
		same vm1@$nr $nr.img --random 200
	done
	same vm1@latest 4.img
	same vm1 4.img
	same group/tiny+1@1 tiny.img --random 3
	must tag vm1@2 +gold
	same vm1@gold 2.img
	must unexport --all
	is_clean
}

# bats test_tags=packs
@test "holes are told, and no data is called a hole" {
	make_churned
	serve vm1@3
	same vm1@3 3.img
	run nbdinfo --map "$(uri vm1@3)"
	# As long as the holes of the file, which are whole blocks.
	told=$(awk '$4 == "hole,zero" { sum += $2 } END { print sum }' <<<"$output")
	zeros=$(python3 -c 'data = open("3.img", "rb").read()
print(sum(len(b) for b in (data[i:i + 4096] for i in range(0, len(data), 4096)) if not any(b)))')
	[ "$told" -eq "$zeros" ]
	run nbdinfo --can multi-conn "$(uri vm1@3)"
	[ "$status" -eq 0 ]
	run nbdinfo --is read-only "$(uri vm1@3)"
	[ "$status" -eq 0 ]
	run nbdsh -u "$(uri vm1@3)" -c 'h.set_strict_mode(0)' -c 'h.pwrite(b"x", 0)'
	[ "$status" -ne 0 ]
}

# bats test_tags=packs
@test "a client that has read goes on reading while all of its blocks move" {
	make_churned
	serve --all
	start_client vm1@2 2.img client
	cp 4.img 5.img
	blocks 5.img 0 2000
	must snapshot vm1 --from 5.img
	must delete vm1@1 vm1@3 vm1@4
	must snapshot vm1 --from 1.img
	must delete vm1@5
	# It is no device, which could not read packs.
	must recompress zstd
	must recompress none
	end_client client
	same vm1@2 2.img --random 50
	must unexport --all
	is_clean
}

# bats test_tags=packs
@test "what a client reads stays after the version is deleted, and goes with it" {
	make_churned
	serve --all
	start_client vm1@1 1.img client
	must delete vm1@1
	[[ $output == *"its space comes back when process "*" no longer reads it"* ]]
	must list vm1
	[[ $output != *vm1@1* ]]
	[ "$(held)" -eq 1 ]
	blocks 4.img 0 300
	must snapshot vm1 --from 4.img
	end_client client
	# The next command that writes finds that it is not held any more.
	must snapshot vm1 --from 4.img
	[ "$(held)" -eq 0 ]
	must unexport --all
	is_clean
}

@test "what is only read stays as well, and what is deleted before it is read does not" {
	make_churned
	serve --all
	start_client vm1@1 1.img client --blind
	nbdsh -u "$(uri vm1@2)" -c 'import os, time
open("opened", "w").close()
while not os.path.exists("opened.go"):
    time.sleep(0.05)
try:
    h.pread(4096, 0)
except nbd.Error:
    os._exit(9)' 3>&- &
	late=$!
	clients+=("$late")
	wait_for opened
	must delete vm1@1 vm1@2
	[ "$(held)" -eq 1 ]
	must snapshot vm1 --from 1.img
	must snapshot vm1 --from 2.img
	touch opened.go
	status=0
	wait "$late" || status=$?
	[ "$status" -eq 9 ]
	[ "$(ask "SELECT count(*) FROM lease")" -eq 1 ]
	must check
	unset 'clients[-1]'
	end_client client
	must unexport --all
	is_clean
}

@test "a version named on the command line stays while it is exported" {
	make_churned
	serve vm1@1
	must delete vm1@1
	same vm1@1 1.img
	# The same server has no other version.
	ln -s vm1@1.sock run/vm1@2.sock
	client vm1@2 2.img
	[ "$status" -ne 0 ]
	[[ $output == *"ENOENT"* || $output == *"No such file"* || $output == *"server replied"* ]]
	rm run/vm1@2.sock
	must unexport vm1@1
	[[ $output == *"ended the export of vm1@1"* ]]
	[ -z "$(ls run)" ]
	is_clean
	ctl unexport vm1@1
	expect 1 <<-'END'
		revdedupctl: 'vm1@1' is not exported on this host by this user
		revdedupctl: nothing was changed; 'revdedupctl status' lists what is exported
	END
}

@test "a version that the catalog names other segments for is not exported" {
	make_versions
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"DELETE FROM segment WHERE born = 3"
	ctl export vm1@3 --background
	[ "$status" -eq 4 ]
	[[ $output == *"'vm1@3': the catalog does not name the segments"* ]]
	serve vm1@2
	same vm1@2 2.img
}

# opened PID: the files of the pool that the process has open for writing.
opened() {
	local fd flags
	for fd in /proc/"$1"/fdinfo/*; do
		flags=$(sed -n 's/^flags:[[:space:]]*//p' "$fd")
		((flags & 3)) && readlink "/proc/$1/fd/${fd##*/}" | sed -n "s|^$PWD/pool/||p"
	done | sort -u
}

@test "clients of root's export speak with a user who may do nothing" {
	[ "$(id -u)" -eq 0 ] || skip "this is not root"
	make_versions
	chmod 700 .
	must copies 4G --to copies --force
	damage 1.img 100
	serve vm1@1
	server=$(cat run/vm1@1.pid)
	grep -E '^(Uid|Groups|CapPrm)' "/proc/$server/status"
	run sed -nE 's/^(Uid|Gid|CapPrm|CapEff):[[:space:]]*//p' "/proc/$server/status"
	[ "$(sort -u <<<"$output" | wc -l)" -eq 2 ]
	[[ $output != 0* ]]
	[[ ${lines[2]} =~ ^0+$ ]]
	[ -z "$(sed -n 's/^Groups:[[:space:]]*//p' "/proc/$server/status")" ]
	# SQLite cannot do without them.
	[ "$(opened "$server")" = "$(printf 'catalog.db-%s\n' pages shm wal)" ]
	# It finds all that it needs, at first and later, and the version is held.
	same vm1@1 1.img --random 20
	must delete vm1@1
	[ "$(held)" -eq 1 ]
	must snapshot vm1 --from 3.img
	same vm1@1 1.img --random 20
	# It ends with who has started it.
	kill -9 "$(ps -o ppid= -p "$server" | tr -d ' ')"
	flock --timeout 120 run/vm1@1.export true
	must snapshot vm1 --from 1.img
	is_clean
	run nbdkit --foreground --unix "$PWD/run/none.sock" \
		"$build/bin/nbdkit-revdedup-plugin.so" pool="$REVDEDUP_POOL" user=no-such-user
	[ "$status" -ne 0 ]
	[[ $output == *"cannot find the user 'no-such-user'"* ]]
}

# kill_server VOL@N: both processes that have it: the one that would start it again, and nbdkit.
# The one that writes holds ends by itself then.
kill_server() {
	server=$(cat "run/$1.pid")
	kill -9 "$(ps -o ppid= -p "$server" | tr -d ' ')" "$server"
	flock --timeout 60 "run/$1.export" true
}

# kill_holder VOL@N: before it can end by itself, and the server with it.
kill_holder() {
	kill -9 "$(pgrep -P "$(cat "run/$1.pid")" -x revdedup-holder)"
	kill_server "$1"
}

@test "a server that is killed leaves nothing locked and nothing kept" {
	make_churned
	serve vm1@1
	must delete vm1@1
	kill_server vm1@1
	must stats
	[[ $output == *"in use:   1 deleted version still read"* ]]
	must snapshot vm1 --from 1.img
	is_clean
	# What has died reads nothing, also before a command that writes forgets it.
	serve vm1@2
	must show vm1@2
	[[ $output == *"in use:         yes"* ]]
	must status
	[[ $output == *"in use:      vm1@2, read by process $(cat run/vm1@2.pid)"* ]]
	kill_server vm1@2
	must status
	[[ $output != *"read by"* ]]
	must show vm1@2
	[[ $output == *"in use:         no"* ]]
	# Several, and nothing has to be given back.
	serve vm1@3
	serve vm1@4
	kill_holder vm1@3
	kill_holder vm1@4
	must tag vm1@4 +now
	is_clean
	# The next look removes its files, and the name is free.
	serve vm1@2
	must unexport --all
	[ -z "$(ls run)" ]
}

@test "an export that runs is not started twice, and its files are not taken for another's" {
	make_churned
	serve vm1@1
	ctl export vm1@1 --background
	expect 1 <<-'END'
		revdedupctl: vm1@1 is exported already
		revdedupctl: nothing was changed; 'revdedupctl unexport vm1@1' ends it
	END
	echo text >file
	ctl export vm1@2 --unix file --background
	[ "$status" -eq 1 ]
	[[ $output == *"there is a file '$PWD/file' already"*"--unix names another path"* ]]
	[ "$(cat file)" = text ]
	same vm1@1 1.img
	# The process that holds the version is a part of it.
	must status
	[ "$(grep -c "  running: .*(pid .*, since " <<<"$output")" -eq 1 ]
	[ "$(grep -c "  running: " <<<"$output")" -eq 1 ]
}

@test "in the foreground it ends with Ctrl-C, and frees what was deleted" {
	make_churned
	"$build/bin/revdedupctl" export vm1@2 >out 2>&1 3>&- &
	pid=$!
	wait_for run/vm1@2.sock
	until grep -q nbd-client out; do sleep 0.05; done
	same vm1@2 2.img
	must delete vm1@2
	kill -INT "$pid"
	wait "$pid"
	diff out - <<-END
		exported vm1@2 as $(uri vm1@2 | sed "s,run/all,run/vm1@2,")
		  qemu-img convert '$(uri vm1@2 | sed "s,run/all,run/vm1@2,")' -O qcow2 disk.qcow2
		  guestfish --ro --format=raw -a 'nbd:///vm1@2?socket=$PWD/run/vm1@2.sock'
		  nbd-client -unix '$PWD/run/vm1@2.sock' /dev/nbd0 -N 'vm1@2' -readonly
	END
	[ -z "$(ls run)" ]
	is_clean
}

@test "an export in the background needs no absolute path, and ends by the name it was given" {
	make_churned
	must tag vm1@2 +gold
	unset REVDEDUP_POOL
	REVDEDUP_RUN=run must export -p pool vm1@gold --background
	[ -S run/vm1@2.sock ]
	export REVDEDUP_POOL=$PWD/pool
	same vm1@2 2.img
	# The name means the export, wherever the tag is by now.
	must tag vm1@2 -gold
	must unexport vm1@gold
	[ "$output" = "ended the export of vm1@2" ]
	serve vm1
	must snapshot vm1 --from 1.img
	must unexport vm1
	[ "$output" = "ended the export of vm1@4" ]
	serve vm1@1 --unix given.sock
	ctl unexport 1.img
	[ "$status" -eq 1 ]
	must unexport ./given.sock
	[ "$output" = "ended the export of vm1@1" ]
	serve vm1@1 --unix given.sock
	must unexport given.sock
	[ -z "$(ls run)" ]
	is_clean
}

@test "a path that is too long for a socket is refused, and what can be shorter is named" {
	make_versions
	long=$PWD/$(printf 'n%.0s' {1..100})
	for line in "export vm1@1 --unix $long/vm1|$long/vm1|--unix names another path" \
		"verify vm1@1 --boot|$long/vm1@1:boot.sock|REVDEDUP_RUN names another directory for it"
	do
		IFS='|' read -r command socket mend <<<"$line"
		# shellcheck disable=SC2086 # words
		REVDEDUP_RUN=$long ctl $command
		expect 1 <<-END
			revdedupctl: '$socket' is too long: the path of a socket has at most 107 bytes
			revdedupctl: nothing was exported; $mend
		END
	done
	[ ! -e "$long" ]
	# The longest one.
	socket=$PWD/$(printf 'n%.0s' {1..107})
	socket=${socket::107}
	must export vm1@1 --background --unix "$socket"
	[ -S "$socket" ]
	must unexport vm1@1
	is_clean
}

@test "a volume with the longest name has a socket, and so has its neighbour" {
	make_versions
	long=$(printf 'n%.0s' {1..127})
	must snapshot "${long}1" --from 1.img
	must snapshot "${long}2" --from 2.img
	for nr in 1 2; do
		must export "${long}$nr" --background --json
		uri=$(field -1 '["uri"]')
		[ -S "$(field -1 '["socket"]')" ]
		run nbdcopy "$uri" $nr.copy
		[ "$status" -eq 0 ]
		cmp $nr.img $nr.copy
	done
	must unexport "${long}2"
	must unexport "${long}1@1"
	[ -z "$(ls run)" ]
	is_clean
}

@test "status lists what is exported, and map says what does without the module" {
	make_versions
	serve vm1@1
	must status
	[ "${lines[-1]}" = "exported vm1@1 of '$PWD/pool': $(uri vm1@1), process $(cat run/vm1@1.pid)" ]
	# It holds the version, and has the pool open.
	[[ $output == *"in use:      vm1@1, read by process "* ]]
	must status --json
	[ "$(field -1 '["name"]')" = vm1@1 ]
	must unexport vm1@1
	must status
	[[ $output != *"exported"* && $output != *"read by"* ]]
	! grep -qE '^(dm_)?(revdedup|nbd) ' /proc/modules 2>/dev/null || skip "a module is there"
	for verb in "map vm1" "map vm1@2 --writable" "mount vm1@1 $PWD"; do
		# shellcheck disable=SC2086 # several words
		ctl $verb
		[ "$status" -eq 13 ]
		[[ $output == *"serves the version as a disk over NBD"*"  qemu-img convert 'nbd+unix:///vm1@"*"  guestfish "*"  nbd-client -unix "* ]]
	done
	[[ $output == *"'revdedupctl export vm1@1' serves"*"/run/vm1@1.sock'"* ]]
}

@test "one file comes back, without root and without the module" {
	[ -c /dev/fuse ] || skip "this machine has no FUSE"
	make_pool 1G
	mkdir tree
	head -c 100000 /dev/urandom >tree/lost
	truncate -s 32M vm.img
	mkfs.ext4 -q -d tree vm.img
	must snapshot vm1 --from vm.img
	debugfs -w -R "rm lost" vm.img 2>/dev/null
	must snapshot vm1 --from vm.img
	serve vm1@1
	mkdir mnt
	nbdfuse mnt "$(uri vm1@1)" 3>&- &
	wait_for mnt/nbd
	debugfs -R "dump /lost found" mnt/nbd 2>/dev/null
	fusermount3 -u mnt
	cmp tree/lost found
}

@test "writes of --writable are seen while it runs, and are thrown away" {
	make_churned
	serve vm1@2 --writable
	nbdsh -u "$(uri vm1@2)" -c 'h.pwrite(b"x" * 70000, 1000)'
	run nbdsh -u "$(uri vm1@2)" -c 'assert h.pread(70000, 1000) == b"x" * 70000'
	[ "$status" -eq 0 ]
	must unexport --all
	serve vm1@2
	same vm1@2 2.img
	ctl export --all --writable
	[ "$status" -eq 2 ]
}

@test "with TLS any address is served, and nothing without the key" {
	make_versions
	psktool --username alice --pskfile keys.psk 2>/dev/null
	port=$(free_port)
	serve vm1@1 --address 0.0.0.0 --port "$port" --tls-psk "$PWD/keys.psk"
	[[ $output == *"nbdcopy 'nbds://0.0.0.0:$port/vm1@1' disk.img"* ]]
	run nbdcopy "nbds://alice@127.0.0.1:$port/vm1@1?tls-psk-file=$PWD/keys.psk" copy.img
	[ "$status" -eq 0 ]
	cmp 1.img copy.img
	run nbdinfo "nbd://127.0.0.1:$port/vm1@1"
	[ "$status" -ne 0 ]
	ctl export vm1@2 --tls-psk "$PWD/keys.psk"
	[ "$status" -eq 2 ]
}

# make_authority NAME: one that signs certificates, and what a client of it needs, in NAME/.
make_authority() {
	mkdir "$1"
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" \
		-out "$1/ca-cert.pem" 2>/dev/null
}

# make_client AUTHORITY DIR: what a client needs to be known.
make_client() {
	openssl req -newkey rsa:2048 -nodes -subj /CN=client -keyout "$2/client-key.pem" \
		-out request 2>/dev/null
	openssl x509 -req -in request -CA "$1/ca-cert.pem" -CAkey "$1.key" -days 2 \
		-out "$2/client-cert.pem" 2>/dev/null
}

@test "with certificates, only a server that the client trusts is read, and only by clients that it knows" {
	make_versions
	make_authority ours
	make_authority theirs
	cp -r ours server
	openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
		-keyout server/server-key.pem -out request 2>/dev/null
	openssl x509 -req -in request -CA ours/ca-cert.pem -CAkey ours.key -days 2 \
		-copy_extensions copy -out server/server-cert.pem 2>/dev/null
	port=$(free_port)
	serve vm1@1 --address 127.0.0.1 --port "$port" --tls-certificates "$PWD/server"
	# The certificate of the authority alone is no secret, and reads nothing.
	run nbdinfo "nbds://localhost:$port/vm1@1?tls-certificates=$PWD/ours"
	[ "$status" -ne 0 ]
	make_client ours ours
	run nbdcopy "nbds://localhost:$port/vm1@1?tls-certificates=$PWD/ours" copy.img
	[ "$status" -eq 0 ]
	cmp 1.img copy.img
	# A client of another authority, which trusts the server.
	mkdir other
	cp ours/ca-cert.pem other
	make_client theirs other
	run nbdinfo "nbds://localhost:$port/vm1@1?tls-certificates=$PWD/other"
	[ "$status" -ne 0 ]
	run nbdinfo "nbds://localhost:$port/vm1@1?tls-certificates=$PWD/theirs"
	[ "$status" -ne 0 ]
	run nbdinfo "nbd://localhost:$port/vm1@1"
	[ "$status" -ne 0 ]
	# A directory without them is found out before the command says that it serves.
	ctl export vm1@2 --address 127.0.0.1 --port "$(free_port)" --tls-certificates theirs \
		--background
	[ "$status" -eq 1 ]
	# From another directory, and to any client.
	port=$(free_port)
	serve vm1@2 --port "$port" --tls-certificates server --insecure
	rm ours/client-*.pem
	run nbdcopy "nbds://localhost:$port/vm1@2?tls-certificates=$PWD/ours" copy.img
	[ "$status" -eq 0 ]
	cmp 2.img copy.img
	run nbdinfo "nbd://localhost:$port/vm1@2"
	[ "$status" -ne 0 ]
}

@test "TCP is served with TLS, or where any client may read" {
	make_churned
	for address in 127.0.0.1 ::1 0.0.0.0 192.0.2.1; do
		ctl export vm1@1 --address "$address" --background
		[ "$status" -eq 1 ]
		[[ $output == *"asks no client who it is"*" that can reach '$address' could read the disk"*"--tls-certificates DIR"*"--insecure"* ]]
	done
	port=$(free_port)
	ctl export vm1@1 --port "$port" --background
	[ "$status" -eq 1 ]
	[ ! -e run ] || [ -z "$(ls run)" ]
	ctl export vm1@1 --insecure
	[ "$status" -eq 2 ]
	serve vm1@1 --port "$port" --insecure
	run "$BATS_TEST_DIRNAME/client.py" "nbd://127.0.0.1:$port/vm1@1" 1.img
	[ "$status" -eq 0 ]
	ctl export vm1@2 --port 70000
	[ "$status" -eq 2 ]
	ctl export vm1@2 --port 1234 --unix x
	[ "$status" -eq 2 ]
	ctl export
	[ "$status" -eq 2 ]
}
