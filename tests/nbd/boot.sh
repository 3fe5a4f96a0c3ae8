#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: boot.sh [DIR]
#
# Boot a guest in QEMU from vm1@2 over NBD, with an overlay that is thrown away, while the
# pool takes versions 5, 6, 7, prunes and compacts. The guest compares all of its files with
# their checksums, writes, and compares again; then fsck looks at the same version.
#
# BUILD is where the Makefile built the programs (build/nbd). DIR, /var/tmp, is where to work.
# The guest has Debian's kernel 6.12, without KVM, and takes half a minute or more.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
case ${1:-} in
-h | --help) show_help; exit ;;
esac
kernel=$("${BASH_SOURCE[0]%/*}/../../scripts/kernels.sh" 6.12)
build=$(realpath "${BUILD:-${BASH_SOURCE[0]%/*}/../../build/nbd}")
dir=$(mktemp -d "${1:-/var/tmp}/revdedup-boot-XXXXXX")
cd "$dir"
export REVDEDUP_POOL=$dir/pool REVDEDUP_RUN=$dir/run
ctl() { "$build/bin/revdedupctl" -q "$@"; }
trap 'ctl unexport --all; rm -rf "$dir"' EXIT

# An initramfs that mounts the disk and runs what is there.
make_initramfs() {
	local module file name
	mkdir -p initramfs/{bin,dev,proc,sys,root,modules}
	cp "$(command -v busybox)" initramfs/bin
	: >initramfs/modules/order
	for module in virtio_pci virtio_blk ext4; do
		modprobe -d "$kernel/modules" -S "$(<"$kernel/release")" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
		name=$(basename "${file%.xz}")
		case $file in
		*.xz) xz -dc "$file" ;;
		*) cat "$file" ;;
		esac >"initramfs/modules/$name"
		echo "$name" >>initramfs/modules/order
	done
	cat >initramfs/init <<-'END'
		#!/bin/busybox sh
		/bin/busybox mount -t devtmpfs dev /dev
		for module in $(/bin/busybox cat /modules/order); do
			/bin/busybox insmod /modules/$module
		done
		/bin/busybox mount -t ext4 /dev/vda /root && /bin/busybox chroot /root /verify
		/bin/busybox sync
		/bin/busybox poweroff -f
	END
	chmod +x initramfs/init
	(cd initramfs && find . | cpio -o -H newc --quiet) | gzip -1 >initramfs.gz
}

# change NR: a tree in which some of the files are new.
change() {
	for _ in 1 2 3 4 5 6; do
		head -c $((RANDOM * 20)) /dev/urandom >"tree/data/file$((RANDOM % 40))"
	done
	(cd tree && sha256sum data/* >sums)
	rm -f vm.img
	truncate -s 64M vm.img
	mkfs.ext4 -q -d tree vm.img
	ctl snapshot vm1 --from vm.img
}

make_tree() {
	mkdir -p tree/{bin,data,dev}
	cp "$(command -v busybox)" tree/bin
	cat >tree/verify <<-'END'
		#!/bin/busybox sh
		busybox=/bin/busybox
		$busybox mount -t devtmpfs dev /dev
		exec >/dev/ttyS0 2>&1
		echo began
		# The second disk says when the pool has changed; all is read once more after that.
		last=no
		while :; do
			$busybox blockdev --flushbufs /dev/vdb
			$busybox dd if=/dev/vdb of=/flag bs=512 count=1
			! $busybox grep -q stop /flag || last=yes
			if ! $busybox sha256sum -c /sums >/found; then
				$busybox cat /found
				exit 1
			fi
			$busybox dd if=/dev/zero of=/data/own bs=64k count=40 || exit 1
			$busybox sync
			# So that all is read from the disk again.
			$busybox mount -t ext4 -o remount,ro /dev/vda /
			$busybox blockdev --flushbufs /dev/vda
			$busybox mount -t ext4 -o remount,rw /dev/vda /
			[ $last = no ] || break
		done
		echo "all files are right"
	END
	chmod +x tree/verify
}

make_initramfs
make_tree
ctl init --compression none --pieces 1 pool --size 2G
for _ in 1 2 3 4; do change; done
ctl export vm1@2 --background
uri="nbd+unix:///vm1@2?socket=$dir/run/vm1@2.sock"
truncate -s 4096 flag
timeout 3000 qemu-system-x86_64 -accel tcg -m 512 -nodefaults -display none -no-reboot \
	-serial file:console -kernel "$kernel/vmlinux" -initrd initramfs.gz \
	-append "console=ttyS0 quiet panic=-1" \
	-drive "file=$uri,format=raw,if=virtio,snapshot=on" \
	-drive file=flag,format=raw,if=virtio,cache=none,file.locking=off &
qemu=$!
until grep -q began console 2>/dev/null; do
	kill -0 $qemu 2>/dev/null || die "the guest did not boot: $(cat console)"
	sleep 0.5
done
for _ in 5 6 7; do change; done
ctl prune vm1 --keep-last 1
change
ctl delete vm1@7
printf stop | dd of=flag conv=notrunc,fsync status=none
wait $qemu || die "QEMU has failed"
grep "all files are right" console || die "the guest says: $(cat console)"
# What the guest has written is in no version; its disk is as it was.
nbdcopy "$uri" after.img
fsck.ext4 -fn after.img >fsck 2>&1 || die "$(cat fsck)"
ctl unexport --all
ctl check
echo "ok - a guest boots from an old version over NBD while the pool changes"
