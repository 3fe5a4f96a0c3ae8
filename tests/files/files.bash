# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of files in guests, which `load files`. BUILD is as for tests/nbd.
# shellcheck disable=SC2034,SC2154 # its users have some of the variables; by pool.bash
load "${BASH_SOURCE[0]%/*}/../nbd/nbd"

# What another user reads, the one that root becomes, is in $world.
setup_file() {
	world=$(mktemp -d /tmp/revdedup-files.XXXXXX)
	chmod 755 "$world"
	mkdir -m 1777 "$world/tmp"
	export world
	[ "$(type -t prepare)" != function ] || prepare
}

teardown_file() { rm -rf "$world"; }

# rest VARIABLE...: what nbd.bash does, with a place for sockets that the other user reaches.
eval "nbd_$(declare -f setup)"
setup() {
	nbd_setup
	export REVDEDUP_RUN=$world/run TMPDIR=$world/tmp
}

# real_libguestfs: to prepare the real one, whose QEMU runs as everywhere without KVM. A command takes
# some 10 seconds, so what can be tested without it is in reader.bats.
real_libguestfs() {
	local kernel
	kernel=$("$BATS_TEST_DIRNAME/../../scripts/kernels.sh" 6.12)
	cp -a "$kernel/modules" "$kernel/vmlinux" "$world"
	mkdir -m 1777 "$world/cache"
	SUPERMIN_KERNEL_VERSION=$(<"$kernel/release")
	export SUPERMIN_KERNEL_VERSION SUPERMIN_KERNEL=$world/vmlinux
	export SUPERMIN_MODULES=$world/modules/lib/modules/$SUPERMIN_KERNEL_VERSION
	export LIBGUESTFS_CACHEDIR=$world/cache LIBGUESTFS_BACKEND_SETTINGS=force_tcg
	export LIBGUESTFS_BACKEND=direct
}

# make_tree DIR: what is on a disk, etc with all that is hard to keep.
make_tree() {
	mkdir -p "$1"/{etc/d,bin,usr/bin,dev,proc,sys,var,lib,root,home,tmp}
	printf 'ID=debian\nVERSION_ID="12"\n' >"$1/etc/os-release"
	echo 12.5 >"$1/etc/debian_version"
	echo '/dev/sda / ext4 defaults 0 1' >"$1/etc/fstab"
	cd "$1/etc" || return
	echo hello >secret
	[ "$EUID" -ne 0 ] || chown 1234:4321 secret
	chmod 4751 secret
	ln secret again
	ln -s ../../../etc up
	ln -s /etc/d whole
	echo 1 >$'new\nline \\'
	echo 2 >'a "b" ]^!*?'
	echo 3 >secrets
	echo 4 >s
	echo 5 >-rf
	truncate -s 5M d/sparse
	echo end >>d/sparse
	python3 -c 'import os, struct
os.setxattr("secret", "user.color", b"blue\0")
# rw for the owner, r for the user 77, and a mask.
acl = struct.pack("<I", 2)
for tag, perm, who in ((1, 7, -1), (2, 4, 77), (4, 5, -1), (16, 5, -1), (32, 1, -1)):
    acl += struct.pack("<HHi", tag, perm, who)
os.setxattr("secret", "system.posix_acl_access", acl)
os.utime("secret", ns=(0, 1577934245 * 10**9))
# mke2fs knows no more of a time.
for path, dirs, files in os.walk("."):
    for name in dirs + files:
        st = os.lstat(f"{path}/{name}")
        os.utime(f"{path}/{name}", (1e9, int(st.st_mtime)), follow_symlinks=False)'
	cd - >/dev/null || return
}

# left: print the processes of a command that are there.
left() {
	local pid
	for pid in $(pgrep 'revdedupctl|nbdkit|qemu|bsdtar'); do
		! grep -qzF "$world/run" "/proc/$pid/environ" 2>/dev/null || echo "$pid"
	done
}

# ended: nothing of a command is left, nor of what it has started.
ended() {
	local i
	for ((i = 0; i < 2400; i++)); do
		[ -n "$(left)" ] || break
		sleep 0.05
	done
	[ -z "$(left)" ] || {
		echo "still there:"
		ps -o pid,ppid,stat,args -p "$(left | paste -sd,)"
		return 1
	}
	# The next command removes the files of one that was killed.
	must status
	[ -z "$(ls -A "$world/run" 2>/dev/null)" ]
	[ -z "$(ls -d "$world/tmp/revdedup-files-"* 2>/dev/null)" ]
}
