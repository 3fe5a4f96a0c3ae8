#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: setup.sh GROUP...
#
# Install the Debian packages that GROUP needs and that are missing:
#
#   build   the module for both kernels, programs and tools
#   vm      the test harness: QEMU, guest kernels, guest file system
#   lint    checkpatch, sparse, shellcheck, mandoc
#   test    what the tests on this machine want
#   fuzz    libFuzzer, for the parsers of the tools
#   pool    a series of real disk images
#   bench   what the pool is measured with, and beside
#   deb     the Debian packages, and a machine that they are tried on
#   kunit   a kernel of our own from Debian's source (user-mode Linux)
#
# A fresh Debian 12 has none of them, not even make, so the other scripts call
# this first. It returns at once where nothing is missing.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

declare -A packages=(
	[build]="gcc libc6-dev make pkg-config kmod libdevmapper-dev
		libsqlite3-dev liburing-dev libssl-dev libxxhash-dev
		linux-headers-cloud-amd64 linux-headers-6.12-cloud-amd64"
	[vm]="qemu-system-x86 seabios busybox-static kmod cpio xz-utils zstd lz4
		e2fsprogs mmdebstrap nbdkit binutils
		linux-headers-cloud-amd64 linux-headers-6.12-cloud-amd64"
	[test]="bats libcmocka-dev mandoc python3 e2fsprogs btrfs-progs valgrind"
	[fuzz]="clang libclang-rt-14-dev"
	[pool]="mmdebstrap e2fsprogs"
	[bench]="borgbackup restic sqlite3 time e2fsprogs"
	[deb]="debhelper dh-dkms dpkg-dev lintian mmdebstrap e2fsprogs"
	[lint]="mandoc shellcheck sparse perl git python3 python3-git python3-ply xz-utils
		systemd linux-source-6.12"
	[kunit]="gcc libc6-dev make flex bison bc libelf-dev python3 xz-utils
		linux-source-6.12"
)

# Prints those of its arguments that are not installed.
missing() {
	comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort -u)
}

wanted=()
for group; do
	case $group in
	-h | --help)
		show_help
		exit
		;;
	esac
	[ -n "${packages[$group]:-}" ] || usage_error "no such group: '$group'"
	read -r -d '' -a list <<<"${packages[$group]}" || :
	wanted+=("${list[@]}")
done
[ "${#wanted[@]}" -gt 0 ] || usage_error "which group?"

mapfile -t need < <(missing "${wanted[@]}")
[ "${#need[@]}" -gt 0 ] || exit 0

note "installing ${need[*]}"
apt_get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
as_root "${apt_get[@]}" update >&2 ||
	die "apt-get update failed: see its message above, then run this again"
as_root "${apt_get[@]}" install -y --no-install-recommends -o Dpkg::Use-Pty=0 \
	"${need[@]}" >&2 ||
	die "apt-get could not install ${need[*]}: see its message above"
