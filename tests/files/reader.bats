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
def add(name, kind=tarfile.REGTYPE, content=b"", link="", mode=0, **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    info.mode = mode or (0o755 if kind == tarfile.DIRTYPE else 0o644)
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
	[[ $output != *$'\xc2\x9b'* ]]
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
	[[ $output == *"nothing of it is in '$PWD/out'"* ]]
	[ -z "$(ls -A out)$(ls -A outside)" ]
	[ ! -e by-dots ]
	# Of what unpacks well only what was asked for is kept.
	pack "$fake/vm@1.tar" <<-END
		add(".\0DOT", DIR)
		add("./etc", DIR, mode=0o555)
		add("./etc/good", content=b"good")
		add("./.bashrc", content=b"bad")
	END
	must files vm /etc --to out
	[ "$(ls -A out)" = etc ]
	[ "$(<out/etc/good)" = good ]
	[ "$(stat -c %a out/etc)" = 555 ]
	chmod 755 out/etc
	ctl files vm /lib --to out
	[ "$status" -eq 1 ]
	[[ $output == *"cannot read '/lib'"* ]]
	mkdir "$fake/vm@1/lib"
	ctl files vm /lib --to out
	[ "$status" -eq 1 ]
	[[ $output == *"'lib' is not in what the guest has sent"* ]]
	[ "$(ls -A out)" = etc ]
	ended
}

@test "bsdtar reads a tar and nothing else, by names as they are" {
	guest 1
	mkdir -p bin out to "$fake/vm@1/etc"
	# A name of which bsdtar would read all as uuencoded, and then guess again.
	pack "$fake/vm@1.tar" <<-'END'
		add(".\0DOT", DIR)
		add("./\nbegin 644 x\n#04%!\n`\nend\n", content=b"uu")
		add("./etc/gr\u00f6\u00dfe", content=b"big")
		add("./etc/\udcff", content=b"no UTF-8")
	END
	printf '#!/bin/sh\nenv >%q\nexec %q "$@"\n' "$world/env" "$(type -p bsdtar)" >bin/bsdtar
	chmod +x bin/bsdtar
	PATH=$PWD/bin:$PATH LC_ALL=C TAR_READER_OPTIONS=hdrcharset=KOI8-R must files vm /etc --to out
	[ -e out/etc/größe ] && [ -e out/etc/$'\xff' ]
	# A shell adds these.
	diff <(grep -v '^\(PWD\|OLDPWD\|_\|SHLVL\)=' "$world/env" | sed 's/^PATH=.*/PATH/' | sort) \
		<(printf '%s\n' LC_ALL=C.UTF-8 PATH)
	must files vm / --tar x.tar
	bsdtar -tf x.tar | grep begin
	must files vm / --to to
	[ -e to/etc ]
	# LHA, behind the directory.
	truncate -s 512 "$fake/vm@1.tar"
	printf '\x20\x00-lh0-%0500d' 0 >>"$fake/vm@1.tar"
	for how in '--tar y.tar' '--to to'; do
		rm -rf to/*
		# shellcheck disable=SC2086 # two words
		ctl files vm / $how
		[ "$status" -eq 1 ]
		[[ $output == *'do not come as a tar'* ]]
	done
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
	for path in /etc/.. /../x . etc /dev/sda:; do
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
	# What is no file is not replaced.
	mkfifo fifo
	cat fifo >read.tar 3>&- &
	pid=$!
	must files vm /etc --tar fifo
	wait "$pid"
	[ -p fifo ]
	cmp x.tar read.tar
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
	[[ $output == *'nothing of it is in'* ]]
	[ -z "$(ls -A out)" ]
	run "$build/bin/revdedupctl" files vm /etc --tar -
	[ "$status" -eq 1 ]
	rm "$fake/vm@1.cut"
	# Without an end, with less than a block of it, and with no member.
	cp "$fake/vm@1.tar" whole.tar
	for size in 250000 $(($(stat -c %s whole.tar) - 1)) 10240; do
		cp whole.tar "$fake/vm@1.tar"
		[ "$size" != 10240 ] || truncate -s 512 "$fake/vm@1.tar"
		truncate -s "$size" "$fake/vm@1.tar"
		ctl files vm /etc --tar x.tar
		[ "$status" -eq 1 ]
		[[ $output == *'has no end'* || $output == *'do not come as a tar'* ]]
		[ -z "$(ls x.tar* 2>/dev/null)" ]
	done
	# It does not begin with the directory.
	pack "$fake/vm@1.bad.tar" <<<'add("./etc", DIR)'
	mv "$fake/vm@1.bad.tar" "$fake/vm@1.tar"
	ctl files vm /etc --tar x.tar
	[ "$status" -eq 1 ]
	[[ $output == *'do not come as a tar'* ]]
	head -c 3000 /dev/urandom >"$fake/vm@1.tar"
	ctl files vm /etc --tar x.tar
	[ "$status" -eq 1 ]
	# What reads it goes, and nothing is left.
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
	# A tar comes by its own pipe.
	ctl files vm / --tar x.tar
	[ "$status" -eq 1 ]
	[[ $output == *'makes no sense'* ]]
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

@test "what of a version cannot be read is told, and is not taken for deleted" {
	guest 2
	mkdir "$fake/vm@"{1,2}/d
	touch "$fake/vm@1/d/a"
	ln "$fake/vm@1/d/a" "$fake/vm@2/d/a"
	# Another disk, or a CD.
	printf '%s\n' '/ /dev/sda' '/cd /dev/bad0' >"$fake/vm@2.mounts"
	must files vm /d
	[[ $output == *"cannot mount '/dev/bad0' at '/cd': it is bad"* ]]
	must find a vm --json
	[ "$(ranges)" = '/d/a vm@1 vm@2' ]
	printf '%s\n' '/ /dev/sda' '/home /dev/bad' >"$fake/vm@2.mounts"
	ctl files vm /d
	[ "$status" -eq 3 ]
	[[ $output == *"cannot mount '/dev/bad' at '/home'"* && $output == *' a'* ]]
	mkdir out
	pack "$fake/vm@2.tar" <<<'add(".\0DOT", DIR); add("./d", DIR)'
	ctl files vm /d --to out
	[ "$status" -eq 3 ]
	[ -d out/d ]
	ctl find a vm
	[ "$status" -eq 3 ]
	[[ $output == *'vm@2 is left out'* && $output == *' vm@1'* ]]
	rm "$fake/vm@2.mounts"
	for name in unread short; do
		mkdir -p "$fake/vm@2/"{d,z}
		touch "$fake/vm@2/z/$name" "$fake/vm@2/z/a"
		ctl files vm /z
		[ "$status" -eq 1 ]
		[[ $output == *"cannot read all of '/z'"* ]]
		# What was found in another directory before is not said.
		ctl find '[abs-z]*' vm --json
		[ "$status" -eq 3 ]
		[[ $output == *'vm@2 is left out'* && $output == *'"vm@1"'* ]]
		[[ $output != *'"vm@2"'* ]]
		rm -r "$fake/vm@2/z"
	done
	ctl find a vm@2 --newest 1
	[ "$status" -eq 2 ]
	ended
}

@test "a part of btrfs has one name, whatever the appliance calls the disk" {
	guest 1
	mkdir "$fake/vm@1/etc"
	touch "$fake/vm@1/etc/x"
	for disk in sda sdb; do
		printf '%s btrfs\n' /dev/sda1 btrfsvol:/dev/${disk}1/data /dev/vg/home \
			btrfsvol:/dev/vg/home/sdb >"$fake/vm@1.systems"
		must files vm -q
		expect 0 <<-'END'
			/dev/sda1 btrfs 1.0 MiB a\x1b[31mb
			btrfsvol:/dev/sda1/data btrfs a\x1b[31mb
			/dev/vg/home btrfs 1.0 MiB a\x1b[31mb
			btrfsvol:/dev/vg/home/sdb btrfs a\x1b[31mb
		END
		must files vm btrfsvol:/dev/sda1/data:/etc
		[[ $output == *' x' ]]
		# A part of this disk that the guest mounts is missed in what is found.
		printf '%s %s\n' / /dev/sda1 /home "btrfsvol:/dev/${disk}1/bad" >"$fake/vm@1.mounts"
		printf '%s btrfs\n' /dev/sda1 btrfsvol:/dev/${disk}1/bad >"$fake/vm@1.systems"
		ctl files vm /etc
		[ "$status" -eq 3 ]
		[[ $output == *"cannot mount 'btrfsvol:/dev/sda1/bad' at '/home'"* ]]
		rm "$fake/vm@1.mounts"
	done
	ended
}

@test "a file system that is not there is told, with those that are" {
	guest 1
	printf '%s ext4\n' /dev/sda1 /dev/sda2 >"$fake/vm@1.systems"
	for path in /dev/sdb1:/etc btrfsvol:/dev/sda1/x:/etc sda1:/etc; do
		ctl files vm "$path"
		[ "$status" -eq 1 ]
		[[ $output == *"the disk has no file system that '$path' begins with; it has /dev/sda1, /dev/sda2" ]]
	done
	ctl files vm /etc
	[ "$status" -eq 1 ]
	[[ $output == *"no operating system, or several, and no lone file system; it has /dev/sda1, /dev/sda2" ]]
	# Of the guest, not of a device.
	mkdir -p "$fake/vm@1/dev/a"
	rm "$fake/vm@1.systems"
	must files vm /dev/a
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
