#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# What 'files' and 'find' do with what a guest says, which here is what the test wants: the library
# of guestfs.c is in the place of libguestfs.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; by files.bash
load files

prepare() {
	mkdir "$world/lib"
	gcc -Wall -shared -fPIC -I"$BATS_TEST_DIRNAME/../../userspace" \
		-I"$BATS_TEST_DIRNAME/../../userspace/shim" -o "$world/lib/libguestfs.so.0" \
		"$BATS_TEST_DIRNAME/guestfs.c"
	export LD_LIBRARY_PATH=$world/lib
}

# guest NR: that many versions of vm, of which none has the content of another. Their files are
# in $fake/vm@N.
guest() {
	local nr
	fake=$world/$BATS_TEST_NUMBER
	export LIBGUESTFS_FAKE=$fake
	make_pool 64M
	truncate -s 1M disk.img
	for ((nr = 1; nr <= $1; nr++)); do
		mkdir -p "$fake/vm@$nr"
		blocks disk.img 3 1
		must snapshot vm --from disk.img
	done
}

# pack FILE: a tar, which the script of Python on stdin makes, by add(NAME, TYPE, CONTENT, LINK).
pack() {
	python3 -c 'import io, sys, tarfile
tar = tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT)
def add(name, kind=tarfile.REGTYPE, content=b"", link="", **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(content), 0o644
    if kind == tarfile.DIRTYPE:
        info.mode = 0o755
    info.pax_headers = more
    tar.addfile(info, io.BytesIO(content))
DIR, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
exec(sys.stdin.read())
tar.close()
if not sys.argv[1].endswith("bad.tar"):
    # As tar of GNU names the directory that it is told.
    data = bytearray(open(sys.argv[1], "rb").read())
    open(sys.argv[1], "wb").write(data.replace(b".\0DOT", b"./\0\0\0"))' "$1"
	chmod 644 "$1"
}

@test "what a guest calls its files changes no terminal, and no line" {
	guest 1
	for name in $'red\033[31m' $'a\nb' 'back\slash' $'\xff' $'\xc2\x9bC1' 'größe'; do
		touch "$fake/vm@1/$name"
	done
	ln -s $'to\033' "$fake/vm@1/link"
	must files vm /
	printf '%s\n' "$output" | sed 's/.*[0-9] //' >names
	diff <(LC_ALL=C sort names) - <<-'END'
		\xc2\x9bC1
		\xff
		a\x0ab
		back\x5cslash
		größe
		link -> to\x1b
		red\x1b[31m
	END
	must files vm / --json
	[ "${#lines[@]}" -eq 7 ]
	[ "$(field 0 '["path"]')" = $'/a\nb' ]
	[[ $output != *$'\033'* ]]
	must files vm -q
	[ "$output" = '/dev/sda ext4 1.0 MiB a\x1b[31mb' ]
	# Of what went wrong.
	ctl files vm /none
	[ "$status" -eq 1 ]
	[[ $output == *"cannot read '/none': No such file or directory"* ]]
	rm -r "$fake/vm@1"
	ctl files vm /
	[ "$status" -eq 1 ]
	[[ $output == *'cannot start libguestfs: no such guest'* ]]
	[[ $output == *'what QEMU says [31m'* && $output == *libguestfs-test-tool* ]]
	ended
}


# ranges: of what 'find --json' has printed, each path with the versions that have it unchanged.
ranges() {
	local i
	for ((i = 0; i < ${#lines[@]}; i++)); do
		echo "$(field $i '["path"]') $(field $i '["first"]') $(field $i '["last"]')"
	done
}

@test "find: in which versions a file is, and when it changed" {
	guest 3
	# The same as version 3, which is therefore not read.
	must snapshot vm --from disk.img
	rm -r "$fake/vm@3"
	blocks disk.img 3 1
	must snapshot vm --from disk.img
	mkdir -p "$fake/vm@"{1,2,4,5}/etc/a
	touch "$fake/vm@"{1,2,5}/etc/a/x.conf "$fake/vm@1/etc/a/same.conf"
	for nr in 4 5; do
		ln "$fake/vm@1/etc/a/same.conf" "$fake/vm@$nr/etc/a"
	done
	must find '*.conf' vm --json
	diff <(ranges) - <<-'END'
		/etc/a/same.conf vm@3 vm@5
		/etc/a/same.conf vm@1 vm@1
		/etc/a/x.conf vm@5 vm@5
		/etc/a/x.conf vm@2 vm@2
		/etc/a/x.conf vm@1 vm@1
	END
	must find x.conf --newest 2 --json
	[ "$(ranges)" = '/etc/a/x.conf vm@5 vm@5' ]
	must find '/etc/*' vm@2 --json
	[ "$(ranges)" = '/etc/a vm@2 vm@2' ]
	must find 'a/*.conf'
	[[ $output == *"no file matches 'a/*.conf'"* ]]
	must find same.conf
	[[ ${lines[0]} == 'vm: /etc/a/same.conf' && ${lines[1]} == *' vm@3 to @5' ]]
	# One that cannot be read does not keep the others from it.
	rm -r "$fake/vm@2"
	ctl find x.conf --json
	[ "$status" -eq 3 ]
	[[ $output == *'vm@2 is left out'* && $output == *'"vm@1"'* ]]
	ended
	is_clean
}

@test "a tar that would write elsewhere does not" {
	guest 1
	mkdir -p out outside "$fake/vm@1/etc"
	pack "$fake/vm@1.tar" <<-END
		add(".\0DOT", DIR)
		add("./etc", DIR)
		add("./etc/good", content=b"good")
		add("./etc/link", LINK, link="$PWD/outside")
		add("./etc/up", LINK, link="../../outside")
		add("./etc/link/by-link", content=b"bad")
		add("./etc/up/by-link", content=b"bad")
		add("../by-dots", content=b"bad")
		add("$PWD/outside/absolute", content=b"bad")
		add("./etc/hard", HARD, link="$PWD/disk.img")
	END
	ctl files vm /etc --to out
	[ "$status" -eq 1 ]
	[[ $output == *"'$PWD/out' is not complete"* ]]
	[ "$(<out/etc/good)" = good ]
	[ -z "$(ls -A outside)" ]
	[ ! -e by-dots ]
	[ ! -e out/etc/hard ]
	ended
}

@test "nothing that is there is replaced, and no link that is there is followed" {
	guest 1
	mkdir -p out outside "$fake/vm@1/etc"
	ln -s ../outside out/etc
	pack "$fake/vm@1.tar" <<-END
		add(".\0DOT", DIR)
		add("./etc", DIR)
		add("./etc/new", content=b"new")
	END
	for path in /etc /etc/ /dev/sda:/etc /; do
		ctl files vm "$path" --to out
		[ "$status" -eq 1 ]
		[[ $output == *'nothing was changed'* ]]
	done
	for path in /etc/.. /../x . etc; do
		ctl files vm "$path" --to out
		[ "$status" -eq 2 ]
	done
	[ -z "$(ls -A outside)" ]
	rm out/etc
	chmod 700 out
	# What holds them is not one of them.
	must files vm /etc --to out
	[ "$(<out/etc/new)" = new ]
	[ "$(stat -c %a out)" = 700 ]
	must files vm /etc --tar x.tar --json
	[ "$(field 0 '["to"]')" = x.tar ]
	[ "$(bsdtar -tf x.tar | xargs)" = './etc/ ./etc/new' ]
	[ "$(stat -c %a x.tar)" = 600 ]
	ended
}

@test "a tar that is cut is an error, and so is what is none" {
	guest 1
	mkdir -p out "$fake/vm@1/etc"
	pack "$fake/vm@1.tar" <<-END
		add(".\0DOT", DIR)
		add("./etc", DIR)
		add("./etc/big", content=b"x" * 300000)
	END
	: >"$fake/vm@1.cut"
	ctl files vm /etc --tar x.tar
	[ "$status" -eq 1 ]
	[[ $output == *"cannot read '/etc'"* ]]
	[ -z "$(ls x.tar* 2>/dev/null)" ]
	ctl files vm /etc --to out
	[ "$status" -eq 1 ]
	[[ $output == *'is not complete'* ]]
	run "$build/bin/revdedupctl" files vm /etc --tar -
	[ "$status" -eq 1 ]
	rm "$fake/vm@1.cut"
	# It does not begin with the directory.
	pack "$fake/vm@1.bad.tar" <<<'add("./etc", DIR)'
	mv "$fake/vm@1.bad.tar" "$fake/vm@1.tar"
	ctl files vm /etc --tar x.tar
	[ "$status" -eq 1 ]
	[[ $output == *'do not come as a tar'* ]]
	head -c 3000 /dev/urandom >"$fake/vm@1.tar"
	ctl files vm /etc --tar x.tar
	[ "$status" -eq 1 ]
	# What reads it goes: quietly, and nothing is left.
	pack "$fake/vm@1.tar" <<-END
		add(".\0DOT", DIR)
		add("./etc", DIR)
		add("./etc/big", content=b"x" * 3000000)
	END
	"$build/bin/revdedupctl" files vm /etc --tar - 2>errors | head -c 100 >/dev/null
	ended
}

@test "what the process sends is not believed" {
	guest 1
	send() {
		python3 -c 'import struct, sys
def record(kind, *texts, lens=None):
    texts = (texts + (b"", b"", b""))[:3]
    lens = lens or [len(t) + 1 for t in texts]
    head = struct.pack("<4I 2I 4Q 2q 2I 3Q", *lens, 0, kind, 0, *[0] * 4, *[0] * 2, *[0] * 2, *[7] * 3)
    return head + b"".join(t + b"\0" for t in texts)
sys.stdout.buffer.write(eval(sys.argv[1]))' "$1" >"$fake/vm@1.raw"
		chmod 644 "$fake/vm@1.raw"
	}
	send 'record(0, b"fine")'
	must files vm /
	[[ $output == *' fine' ]]
	for what in 'record(9, b"x")' 'record(0, b"x", lens=[0, 1, 1])' \
		'record(0, b"x", lens=[1 << 31, 1, 1])' 'record(0, b"a\0b", lens=[4, 1, 1])' \
		'record(0, b"x", lens=[3, 1, 1])' 'record(0, b"x") + b"cut"' 'record(0, b"x")[:-1]'; do
		send "$what"
		ctl files vm /
		echo "$what: $output"
		[ "$status" -eq 1 ]
		[[ $output == *'makes no sense'* ]]
	done
	ended
}

@test "the version stays while its files are read, and is no export of the user" {
	guest 1
	mkfifo -m 666 "$fake/vm@1.tar"
	"$build/bin/revdedupctl" files vm@1 / --tar - >got 2>log 3>&- &
	pid=$!
	wait_for "$world/run/files-$pid.tmp"
	exec 5>"$fake/vm@1.tar"
	[ "$(held)" -eq 0 ]
	must status
	[[ $output != *exported* ]]
	must unexport --all
	must delete vm@1 --yes
	[ "$(held)" -eq 1 ]
	pack one.tar <<<'add(".\0DOT", DIR); add("./x", content=b"x")'
	cat one.tar >&5
	exec 5>&-
	wait "$pid"
	[ "$(bsdtar -tf got)" = ./x ]
	ended
	is_clean
}

@test "without libguestfs, or bsdtar: what to install" {
	guest 1
	mkdir lib bin out
	: >lib/libguestfs.so.0
	LD_LIBRARY_PATH=$PWD/lib ctl files vm
	[ "$status" -eq 1 ]
	[[ $output == *"Debian's package is 'libguestfs0'"* ]]
	LD_LIBRARY_PATH=$PWD/lib ctl find x
	[ "$status" -eq 1 ]
	ln -s "$(type -p nbdkit)" bin
	PATH=$PWD/bin run "$build/bin/revdedupctl" files vm / --to out
	[ "$status" -eq 1 ]
	[[ $output == *"'bsdtar'"*libarchive-tools* ]]
}
