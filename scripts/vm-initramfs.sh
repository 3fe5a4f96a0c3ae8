#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: vm-initramfs.sh [KERNEL-DIR]
#
# Make the initramfs that takes a guest to its file system, and print its path:
# busybox, tests/guest/init, and from KERNEL-DIR (made by kernels.sh) the
# modules needed to mount a disk. Without KERNEL-DIR it has no modules, for a
# kernel that has them built in.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

init=${BASH_SOURCE[0]%/*}/../tests/guest/init

# The first process says which applets it uses.
applets() { sed -n 's/^# applets: //p' "$init"; }

# The files of the modules, each once, and after those that it depends on. (What
# is built into the one kernel is a module in the other.)
modules() {
	local kernel=$1 name
	[ -n "$kernel" ] || return 0
	for name in virtio_pci virtio_blk virtio_console ext4 overlay; do
		modprobe -d "$kernel/modules" -S "$(<"$kernel/release")" \
			--show-depends "$name"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

make_initramfs() {
	local kernel=$1 dir=$2
	local root=$dir/root nr=10 name module
	mkdir -p "$root"/{bin,dev,proc,sbin,sys,modules}
	cp "$(command -v busybox)" "$root/bin/busybox"
	for name in $(applets); do
		ln -s busybox "$root/bin/$name"
	done
	cp "$init" "$root/init"
	# The kernel calls this to load a module by itself, and it looks here, as
	# the first process stays in the initramfs.
	printf '%s\n' '#!/bin/sh' 'exec chroot /new /sbin/modprobe "$@"' \
		>"$root/sbin/modprobe"
	chmod 755 "$root/init" "$root/sbin/modprobe"
	# By number: the guest inserts them in this order.
	while read -r module; do
		cp "$module" "$root/modules/$nr-${module##*/}"
		nr=$((nr + 1))
	done < <(modules "$kernel")
	(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$dir/initramfs"
	rm -rf "$root"
}

case ${1:-} in
-h | --help)
	show_help
	exit
	;;
esac

key=$(cat "$0" "$init" <(echo "${1:-}") | sha256sum | head -c 16)
dir=$(cached "initramfs/$key" make_initramfs "${1:-}")
echo "$dir/initramfs"
