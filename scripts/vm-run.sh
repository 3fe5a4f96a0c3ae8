#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: vm-run.sh [OPTION]... -- COMMAND [ARG]...
#
# Boot a guest in QEMU, run COMMAND in its directory /revdedup as root, print what it
# prints, and exit with its exit code. Options:
#
#   --kernel 6.1|6.12|newest
#                           Debian's kernel of that series (default 6.12); kernels.sh
#                           says what the newest is
#   --rootfs IMAGE          the guest's file system (ext4), which has the kernel's
#                           modules, instead of that of rootfs.sh
#   --payload SRC[:PATH]    put the file or directory SRC at /revdedup/PATH
#   --disk FILE             a raw disk; the guest sees /dev/disk/disk0, disk1, ...
#                           in the order of --disk and --nbd-disk
#   --nbd-disk FILE         the same behind a write-back cache, which loses at a
#                           power cut what the guest has not flushed
#   --net                   a network card; who it reaches sees connections of QEMU, as
#                           another program of the host
#   --power-cut             COMMAND ends by asking for a power cut (power_cut in
#                           tests/guest/lib/guest.bash)
#   --cut-after SEC         cut the power SEC seconds after COMMAND has started
#   --mem MIB               memory of the guest (default 1024)
#   --smp N                 virtual CPUs (default 2)
#   --icount                count instructions: guest time is then the same in
#                           every run (one CPU, no KVM)
#   --append WORDS          for the kernel command line
#   --timeout SEC           kill the guest after this time (default 600)
#   --console FILE          keep the console's log there
#   --accel kvm|tcg         do not find out which one works
#   --verbose               say how long the boot took
#
# Exit code: 0 also after a power cut that was asked for; 124 when the time is
# over, 125 when the guest ended without a verdict (a panic, for one), else that
# of COMMAND.
# The verdict comes on a port of its own, in a line that begins with a random
# word, so nothing that the guest prints, and no hang or panic, can pass for it.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=${BASH_SOURCE[0]%/*}

kernel=6.12 mem=1024 smp=2 timeout=600 append='' console='' accel='' rootfs=''
icount=false net=false power_cut=false cut_after='' verbose=false
payloads=() disks=()

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--icount) icount=true; shift; continue ;;
	--net) net=true; shift; continue ;;
	--power-cut) power_cut=true; shift; continue ;;
	--verbose) verbose=true; shift; continue ;;
	--) shift; break ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kernel) kernel=$2 ;;
	--rootfs) rootfs=$2 ;;
	--payload) payloads+=("$2") ;;
	--disk) disks+=("file:$2") ;;
	--nbd-disk) disks+=("nbd:$2") ;;
	--cut-after) cut_after=$2 ;;
	--mem) mem=$2 ;;
	--smp) smp=$2 ;;
	--append) append=$2 ;;
	--timeout) timeout=$2 ;;
	--console) console=$2 ;;
	--accel) accel=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[ $# -gt 0 ] || usage_error "no command for the guest"

"$scripts/setup.sh" vm
kernel_dir=$("$scripts/kernels.sh" "$kernel")
modules=
if [ -z "$rootfs" ]; then
	rootfs=$("$scripts/rootfs.sh")
	modules=$kernel_dir/modules.ext4
fi
initramfs=$("$scripts/vm-initramfs.sh" "$kernel_dir")
[ -n "$accel" ] || accel=$("$scripts/vm-probe.sh")

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-vm.XXXXXX")
console=${console:-$dir/console}
nbd_pids=()
# shellcheck source=scripts/guest-lib.sh
. "$scripts/guest-lib.sh"

# The power goes for the machine and for the caches of its disks at once. The
# guest is stopped first, so that it cannot see a disk fail before it dies.
cut_power() {
	[ -z "$guest_pid" ] || kill -STOP "$guest_pid" 2>/dev/null || :
	[ "${#nbd_pids[@]}" -eq 0 ] || kill -KILL "${nbd_pids[@]}" 2>/dev/null || :
	[ -z "$guest_pid" ] || kill -KILL "$guest_pid" 2>/dev/null || :
}

clean_up() {
	cut_power
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# add_disk NAME BLOCKDEV-OPTIONS
add_disk() {
	qemu+=(-blockdev "node-name=$1,$2"
		-device "virtio-blk-pci,drive=$1,serial=$1")
}

add_file() {
	add_disk "$1" "driver=file,filename=${2//,/,,},$3"
}

# add_nbd NAME FILE: the cache is nbdkit's; it forgets itself when killed. A
# discard does nothing: the cache would let it through to the file at once and go
# on showing what it holds of the blocks, also after a flush.
add_nbd() {
	local socket=$dir/$1.sock
	setpriv --pdeathsig KILL nbdkit --foreground --unix "$socket" \
		--filter=cache file "$2" cache=writeback >>"$dir/log" 2>&1 &
	nbd_pids+=("$!")
	# Or else bash reports that it was killed.
	disown "$!"
	until [ -S "$socket" ]; do
		kill -0 "$!" 2>/dev/null || fail 1 "nbdkit does not start"
		sleep 0.01
	done
	add_disk "$1" "driver=nbd,server.type=unix,server.path=$socket,discard=ignore"
}

# A virtio port, and the file that what the guest writes there goes to.
add_port() {
	qemu+=(-chardev "file,id=$2,append=on,path=$3"
		-device "virtserialport,chardev=$2,nr=$1")
}

pack_payload "cd /revdedup" "$@"
: >"$console"

# For speed under TCG, where boot and tests are twice as quick with all this:
# norandmaps as code is translated anew for each address that it is mapped at;
# no tests of ciphers and of a random source, nor certificates, at boot; no
# zeroing, checks and records on the way of each system call; no CPU feature that
# makes the kernel copy byte by byte (erms, fsrm), or that ends a translated block at each access
# to user memory (smap); no waits of some ticks for each grace period of RCU. Nor is a CPU stalled
# that the host has no time for, nor does TCG bear that the kernel changes its code where the TSC
# seems to run wrong: a CPU can still meet the int3. (avx2 is worth it: three quarters of what
# revdedupctl takes are SHA-256, and that is twice as fast in lanes, also when emulated.)
# shellcheck disable=SC2054 # the commas are the kernel's
cmdline=(console=ttyS0 quiet loglevel=5 panic=-1 oops=panic log_buf_len=4M
	mitigations=off no_timer_check tsc=nowatchdog norandmaps cryptomgr.notests
	init_on_alloc=0 hardened_usercopy=off audit=0 lsm=none
	randomize_kstack_offset=off nowatchdog
	rcupdate.rcu_expedited=1 rcupdate.rcu_cpu_stall_timeout=150
	initcall_blacklist=jent_mod_init,load_system_certificate_list,bpf_tcp_ca_kfunc_init
	revdedup.root=/dev/vda revdedup.payload=/dev/vdb ${modules:+revdedup.modules=/dev/vdc}
	revdedup.control=/dev/vport0p1 revdedup.out=/dev/vport0p2 "revdedup.token=$token" "$append")
cpu=max,-erms,-fsrm,-smap,-smep,-pku,-la57
qemu=(qemu-system-x86_64 -M "q35,sata=off,smbus=off,usb=off,vmport=off"
	-nodefaults -display none -no-reboot -cpu "$cpu" -m "$mem"
	-kernel "$kernel_dir/vmlinux" -initrd "$initramfs" -append "${cmdline[*]}"
	-serial "file:$console" -device virtio-serial-pci)
if $icount; then
	qemu+=(-smp 1 -accel "tcg,thread=single" -icount "shift=1,sleep=off")
elif [ "$accel" = kvm ]; then
	qemu+=(-smp "$smp" -accel kvm)
else
	qemu+=(-smp "$smp" -accel "tcg,thread=multi")
fi
add_file rootfs "$rootfs" read-only=on
add_file payload "$dir/payload.tar" read-only=on
[ -z "$modules" ] || add_file modules "$modules" read-only=on
nr=0
for disk in ${disks[@]+"${disks[@]}"}; do
	case $disk in
	file:*) add_file "disk$nr" "${disk#*:}" discard=unmap ;;
	nbd:*) add_nbd "disk$nr" "${disk#*:}" ;;
	esac
	nr=$((nr + 1))
done
! $net || qemu+=(-netdev "user,id=net" -device "virtio-net-pci,netdev=net,romfile=")
add_port 1 control /dev/fd/1
add_port 2 out "$dir/out"
open_out

# QEMU's standard output is the control port.
start_guest() { exec setpriv --pdeathsig KILL "${qemu[@]}" 2>>"$dir/log"; }
run_guest
