#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: uml-run.sh [OPTION]... -- COMMAND [ARG]...
#
# Boot the debug kernel (uml-build.sh) as a guest, run COMMAND in its directory
# /revdedup as root, print what it prints, and exit with its exit code. What the
# guest sees is what it sees under vm-run.sh. Options:
#
#   --payload SRC[:PATH]    put the file or directory SRC at /revdedup/PATH
#   --disk FILE             a raw disk; the guest sees /dev/disk/disk0, disk1, ...
#   --power-cut             COMMAND ends by asking for a power cut (power_cut in
#                           tests/guest/lib/guest.bash)
#   --cut-after SEC         cut the power SEC seconds after COMMAND has started
#   --mem MIB               memory of the guest (default 1024)
#   --append WORDS          for the kernel command line
#   --timeout SEC           kill the guest after this time (default 600)
#   --console FILE          keep the console's log there
#   --verbose               say how long the boot took
#
# There is one CPU, and no disk that loses what was not flushed: for these two
# there is vm-run.sh.
#
# Exit code: 0 also after a power cut that was asked for; 124 when the time is
# over, 125 when the guest ended without a verdict (a panic, for one), else that
# of COMMAND.
# The verdict comes on a line of its own to a pipe of its own, and begins with a
# random word, so nothing that the guest prints, and no hang or panic, can pass
# for it.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=${BASH_SOURCE[0]%/*}

mem=1024 timeout=600 append='' console=''
power_cut=false cut_after='' verbose=false
payloads=() disks=()

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--power-cut) power_cut=true; shift; continue ;;
	--verbose) verbose=true; shift; continue ;;
	--) shift; break ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--payload) payloads+=("$2") ;;
	--disk) disks+=("$2") ;;
	--cut-after) cut_after=$2 ;;
	--mem) mem=$2 ;;
	--append) append=$2 ;;
	--timeout) timeout=$2 ;;
	--console) console=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[ $# -gt 0 ] || usage_error "no command for the guest"

kernel_dir=$("$scripts/uml-build.sh")
rootfs=$("$scripts/rootfs.sh")
initramfs=$("$scripts/vm-initramfs.sh")

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-uml.XXXXXX")
console=$(realpath -m "${console:-$dir/console}")
# shellcheck source=scripts/guest-lib.sh
. "$scripts/guest-lib.sh"

# The guest leads a session, in which each of its processes is a process too.
# They must all be killed at once: one that outlived the kernel would do its
# next system call on the host. (The session is not there before UML's main().)
cut_power() {
	[ -z "$guest_pid" ] || kill -KILL -- "-$guest_pid" 2>/dev/null ||
		kill -KILL "$guest_pid" 2>/dev/null || :
	guest_pid=''
}

clean_up() {
	cut_power
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# Where the guest's memory can be: a file that can be executed from, and that is
# written back to no disk if that can be had. It takes only what the guest uses.
memory_dir() {
	local try
	for try in /dev/shm "${TMPDIR:-/tmp}"; do
		[ -w "$try" ] || continue
		[[ ,$(findmnt -n -o OPTIONS --target "$try"), != *,noexec,* ]] || continue
		[ "$(df --output=avail -B 1M "$try" | tail -n 1)" -gt "$mem" ] || continue
		echo "$try"
		return
	done
	die "no directory can hold the guest's memory ($mem MiB, not mounted noexec): set TMPDIR"
}

# add_disk LETTER FLAGS NAME FILE: the name is also the serial number. UML splits
# its command line at blanks and colons, so it gets no path, but a link. Flag r
# is for read-only, c for no lock: with UML's lock on it, QEMU opens no image.
add_disk() {
	ln -s "$(realpath "$4")" "$dir/$3"
	cmdline+=("ubd$1$2=$3,,$3")
}

start_guest() {
	cd "$dir"
	ulimit -c 0
	TMPDIR=$memory exec setpriv --pdeathsig KILL "$kernel_dir/linux" \
		"${cmdline[@]}" </dev/null 2>>"$console"
}

# Its output goes to a terminal, which must not add carriage returns.
pack_payload $'cd /revdedup\nstty -onlcr <&1' "$@"
memory=$(memory_dir)
: >"$console"
ln -s "$initramfs" "$dir/initramfs"
open_out
cmdline=("mem=${mem}M" "uml_dir=$dir/" umid=uml "hostfs=$dir" initrd=initramfs
	quiet loglevel=5 log_buf_len=4M panic=-1 oops=panic kasan_multi_shot
	rcupdate.rcu_expedited=1 stderr=1 "con0=null,fd:2" "ssl0=null,fd:1" "ssl1=null,fd:$out")
add_disk a rc rootfs "$rootfs"
add_disk b rc modules "$kernel_dir/modules.ext4"
add_disk c rc payload "$dir/payload.tar"
[ "${#disks[@]}" -le 13 ] || usage_error "more than 13 disks"
letters=defghijklmnop
for nr in "${!disks[@]}"; do
	[ -e "${disks[nr]}" ] || die "no such disk: '${disks[nr]}'"
	add_disk "${letters:nr:1}" '' "disk$nr" "${disks[nr]}"
done
cmdline+=(revdedup.root=/dev/ubda revdedup.modules=/dev/ubdb revdedup.payload=/dev/ubdc
	revdedup.control=/dev/ttyS0 revdedup.out=/dev/ttyS1 "revdedup.token=$token" "$append")

# UML's standard output is the control line, and all processes of the guest
# have it open, so its end is their end.
run_guest
