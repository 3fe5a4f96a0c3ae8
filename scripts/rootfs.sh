#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: rootfs.sh
#
# Make the guest's file system, a small Debian 12 with what the tests call, and
# print the path of its image (ext4, which every kernel here can mount without
# a module). It holds nothing of a kernel and nothing of ours, so every guest
# shares the one image, read-only.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

packages=(bash bats busybox coreutils diffutils dmsetup e2fsprogs fdisk findutils fio gawk grep
	kmod libdevmapper1.02.1 librados2 libsqlite3-0 libssl3 liburing2 libxxhash0 lvm2 mount
	nbdkit procps sed tar thin-provisioning-tools util-linux xfsprogs xxd)

# Never read in a guest, and together a third of the whole.
useless=(usr/share/{doc,man,info,locale,lintian,bash-completion,common-licenses,i18n}
	usr/{lib,share}/python3* usr/share/perl* var/cache/apt var/lib/apt)

# Packages are only unpacked: their scripts would start services, and make what
# no test looks at, for most of the time that this takes. What they leave out
# and a test needs is made by hand.
finish_root() {
	cd "$1"
	shift
	rm -rf "$@"
	mkdir -p lib/modules revdedup
	ln -s gawk usr/bin/awk
	echo "root:x:0:0:root:/root:/bin/bash" >etc/passwd
	echo "root:x:0:" >etc/group
	: >etc/fstab
	ln -sf /proc/self/mounts etc/mtab
	# There is no udev to wait for, and each test looks for its own devices.
	cat >etc/lvm/lvm.conf <<-'END'
		devices { obtain_device_list_from_udev = 0 use_devicesfile = 0 }
		activation { udev_sync = 0 udev_rules = 0 monitoring = 0 }
		global { event_activation = 0 }
		backup { backup = 0 archive = 0 }
	END
	ldconfig -r .
}

make_rootfs() {
	local dir=$1
	local root=$dir/root
	note "making the guest's file system (half a minute)"
	as_root mmdebstrap --quiet --variant=extract \
		--include="$(IFS=, && echo "${packages[*]}")" bookworm "$root"
	as_root bash -euc "$(declare -f finish_root); finish_root \"\$@\"" - \
		"$root" "${useless[@]}"
	truncate -s "$(as_root du -s --apparent-size -m "$root" |
		awk '{ print int($1 * 1.2) + 16 "M" }')" "$dir/rootfs.ext4"
	as_root mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$root" "$dir/rootfs.ext4"
	as_root rm -rf "$root"
}

case ${1:-} in
-h | --help)
	show_help
	exit
	;;
'') ;;
*) usage_error "'$1' is one argument too many" ;;
esac

"${BASH_SOURCE[0]%/*}/setup.sh" vm
dir=$(cached "rootfs/$(sha256sum <"$0" | head -c 16)" make_rootfs)
echo "$dir/rootfs.ext4"
