#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: setup.sh [-n|--dry-run] GROUP...
#
# Install the Debian packages that GROUP needs and that are missing:
#
#   build   the module for both kernels, and the programs
#   vm      guests for the tests: QEMU, kernels, a file system
#   lint    checkpatch, sparse, shellcheck, mandoc
#   test    the tests that run on this machine
#   proxmox what Proxmox VE's modules for storage need, see tests/proxmox
#   libvirt a libvirtd for the tests, which leave that of the machine alone
#   guestfs libguestfs, with a QEMU of its own, and bsdtar
#   ceph    a small cluster for the tests, which starts no service of the machine
#   cephfs  a CephFS on it, by FUSE
#   browser a browser for the tests of pages
#   fuzz    libFuzzer, for the parsers of the programs
#   pool    a series of real disk images
#   bench   the benchmarks of the pool, and borg and restic beside it
#   deb     the Debian packages, and a machine to try them on
#   rpm     the packages for Fedora and RHEL
#   sbom    what checks the bill of materials
#   kunit   a kernel built from Debian's source (user-mode Linux)
#   upstream the series of patches for the kernel, and its checks
#
#   -n, --dry-run   print the missing packages, one a line, and install nothing
#
# It prints the names of the packages before it does anything, and then runs "apt-get
# update" and "apt-get install", with sudo where the user is not root. It runs nothing else
# with root rights, and nothing at all where no package is missing. Services of the packages are
# not started.
#
# A fresh Debian 12 lacks all of them, even make, so the other scripts call this first.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

declare -A packages=(
	[build]="debian-archive-keyring gcc libc6-dev make pkg-config kmod libblkid-dev
		libdevmapper-dev libmount-dev libsqlite3-dev liburing-dev libssl-dev libxxhash-dev
		libzstd-dev libnbd-dev librados-dev librbd-dev
		uuid-dev nbdkit-plugin-dev linux-headers-cloud-amd64
		linux-headers-6.12-cloud-amd64"
	[vm]="qemu-system-x86 seabios busybox-static kmod cpio xz-utils zstd lz4
		e2fsprogs mmdebstrap nbdkit binutils syslinux mtools
		linux-headers-cloud-amd64 linux-headers-6.12-cloud-amd64"
	[test]="bats ccache libcmocka-dev mandoc python3 e2fsprogs xfsprogs fdisk btrfs-progs
		valgrind zsh fish nbdkit libnbd-bin python3-libnbd qemu-utils qemu-system-x86 ovmf
		gnutls-bin fuse3 openssh-client openssh-server age zstd sqlite3 libjson-perl"
	[prometheus]="prometheus"
	[proxmox]="libanyevent-perl libclone-perl libdevel-cycle-perl libencode-locale-perl
		libfile-chdir-perl libfilesys-df-perl libjson-xs-perl liblinux-inotify2-perl
		libnet-ip-perl libnetaddr-ip-perl libposix-strptime-perl
		libstring-shellquote-perl libtimedate-perl libwww-perl"
	[libvirt]="libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils"
	[guestfs]="libguestfs0 libguestfs-xfs guestfish libarchive-tools"
	[ceph]="ceph-mon ceph-mgr ceph-osd ceph-common python3-rbd librados-dev librbd-dev"
	[cephfs]="ceph-mds ceph-fuse"
	[browser]="chromium chromium-driver python3-selenium fonts-dejavu-core"
	[fuzz]="clang libclang-rt-14-dev"
	[pool]="mmdebstrap e2fsprogs"
	[bench]="borgbackup restic rdiff openssh-server openssh-client postgresql btrfs-progs
		squashfs-tools sqlite3 time e2fsprogs nbdkit libnbd-dev libnbd-bin python3-libnbd"
	[deb]="debhelper dh-dkms dpkg-dev lintian mmdebstrap e2fsprogs apt-utils gnupg binutils"
	[rpm]="rpm rpmlint dpkg-dev cpio"
	[sbom]="python3-venv binutils"
	[lint]="mandoc shellcheck sparse perl git python3 python3-git python3-ply xz-utils
		systemd linux-source-6.12"
	[upstream]="unifdef patch perl sparse python3 python3-sphinx python3-yaml make gcc flex
		bison bc libelf-dev libssl-dev xz-utils git"
	[kunit]="gcc libc6-dev make flex bison bc libelf-dev python3 xz-utils
		linux-source-6.12"
)

# Prints those of its arguments that are not installed.
missing() {
	comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort -u)
}

wanted=() dry_run=false
for group; do
	case $group in
	-h | --help) show_help; exit ;;
	-n | --dry-run) dry_run=true; continue ;;
	-*) usage_error "no such option: '$group'" ;;
	esac
	[ -n "${packages[$group]:-}" ] || usage_error "no such group: '$group'"
	read -r -d '' -a list <<<"${packages[$group]}" || :
	wanted+=("${list[@]}")
done
[ "${#wanted[@]}" -gt 0 ] || usage_error "no group given"

mapfile -t need < <(missing "${wanted[@]}")
[ "${#need[@]}" -gt 0 ] || exit 0

if $dry_run; then
	printf '%s\n' "${need[@]}"
	exit
fi
note "these Debian packages are missing and will be installed: ${need[*]}"
apt_get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
as_root "${apt_get[@]}" update >&2 ||
	die "apt-get update failed: see its message above, then run this again"

# Tests start what they need themselves: no daemon of a package is to run on the machine for them.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'as_root rm -f "$policy"' EXIT
	as_root install -m 755 /dev/stdin "$policy" <<<$'#!/bin/sh\nexit 101'
fi
as_root "${apt_get[@]}" install -y --no-install-recommends -o Dpkg::Use-Pty=0 \
	"${need[@]}" >&2 ||
	die "apt-get could not install ${need[*]}: see its message above"
