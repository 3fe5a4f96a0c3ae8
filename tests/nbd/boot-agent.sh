#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: boot-agent.sh [DIR]
#
# Boot a Linux for trial by 'revdedupctl verify --boot', from its own boot loader: it has no network
# but lo, and its agent answers; one whose agent is silent does not pass. KVM is
# used where it gets anywhere; where it gives up, the guest is emulated.
#
# BUILD is where the Makefile built the programs (build/nbd). DIR, /var/tmp, is where to work.
# The guest has Debian's kernel 6.12.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
case ${1:-} in
-h | --help) show_help; exit ;;
esac
kernel=$("${BASH_SOURCE[0]%/*}/../../scripts/kernels.sh" 6.12)
build=$(realpath "${BUILD:-${BASH_SOURCE[0]%/*}/../../build/nbd}")
dir=$(mktemp -d "${1:-/var/tmp}/revdedup-agent-XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export REVDEDUP_POOL=$dir/pool REVDEDUP_RUN=$dir/run
ctl() { "$build/bin/revdedupctl" "$@"; }

# An initramfs in which an agent of a few lines answers.
mkdir -p initramfs/{bin,dev,proc,sys}
cp "$(command -v busybox)" initramfs/bin
cat >initramfs/init <<'END'
#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t devtmpfs dev /dev
$busybox mount -t sysfs sys /sys
$busybox mount -t proc proc /proc
exec >/dev/ttyS0 2>&1
echo "networks: $($busybox ls /sys/class/net)."
$busybox grep -q silent /proc/cmdline && $busybox sleep 100000
for port in /sys/class/virtio-ports/*; do
	[ "$($busybox cat "$port/name")" = org.qemu.guest_agent.0 ] || continue
	exec 3<>"/dev/${port##*/}"
	while read -r line <&3; do
		case $line in
		*guest-sync*)
			id=${line##*\"id\": }
			echo "{\"return\": ${id%%\}*}}" ;;
		*guest-ping*) echo '{"return": {}}' ;;
		esac >&3
	done
done
echo "there is no port for an agent"
END
chmod +x initramfs/init
(cd initramfs && find . | cpio -o -H newc --quiet) | gzip -1 >initrd

# make_disk WORD: with SYSLINUX, and that word on the command line of the kernel.
make_disk() {
	rm -f disk
	truncate -s 32M disk
	mformat -i disk -T 65536 -h 64 -s 32 ::
	syslinux --install disk
	cat >syslinux.cfg <<-END
		DEFAULT linux
		LABEL linux
		KERNEL vmlinuz
		INITRD initrd
		APPEND console=ttyS0 quiet $1
	END
	mcopy -i disk "$kernel/vmlinuz" initrd syslinux.cfg ::
	ctl -q snapshot vm1 --from disk
}

# log VERSION: what that guest wrote.
log() { cat "pool/boot/$(ctl show "$1" | awk '$1 == "uid:" { print $2 }').log"; }

ctl -q init pool --size 1G
make_disk agent
ctl verify vm1 --boot --rule agent || die "the agent did not answer: $(log vm1)"
log vm1@1 | grep "networks: lo\."
echo "ok - a guest boots for trial, without a network, and its agent answers"

make_disk silent
ctl verify vm1 --boot --rule 'serial:networks: lo' || die "it wrote: $(log vm1)"
! ctl verify vm1 --boot --rule agent --time 15s 2>failed || die "a silent guest has passed"
grep "vm1@2 does not boot: 15 s: no agent" failed
echo "ok - a guest whose agent is silent does not pass by it"
ctl -q check
[ -z "$(ls run)" ] || die "this was left: $(ls run)"
