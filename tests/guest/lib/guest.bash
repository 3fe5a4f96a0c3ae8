# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests in the guest share: devices to put targets on, our module, the kernel's log, a
# power cut. A bats file has `load ../lib/guest`. Then each test begins with a line in the
# kernel's log, and after each test everything that it made is removed.
#
# Every dm device and volume group that a test makes has a name that begins with "rdt-", by
# which its remains are found.

module_file=/revdedup/modules/dm-revdedup.ko

# The runner sources this, too, without bats.
! declare -F bats_require_minimum_version >/dev/null || {
	bats_require_minimum_version 1.5.0
	load ../lib/trace
}

# --- waiting and skipping

# In seconds.
patience=120

# retry TIMES DELAY COMMAND...: run it until it succeeds. Use it instead of a bare sleep. How long
# a thing takes depends on what else the host does, so that it fails only after two minutes,
# too.
retry() {
	local times=$1 delay=$2 end=$((SECONDS + patience))
	shift 2
	until "$@"; do
		times=$((times - 1))
		[ "$times" -gt 0 ] || [ "$SECONDS" -lt "$end" ] || return 1
		sleep "$delay"
	done
}

# requires WORD...: skip the test if one is missing. (The runner counts a skipped test
# as failed, except with --allow-skip.)
requires() {
	local word
	for word; do
		case $word in
		smp) [ "$(nproc)" -gt 1 ] || skip "one CPU only" ;;
		target:*) has_target "${word#*:}" || skip "no target ${word#*:}" ;;
		*)
			echo "BUG: requires: no such word: '$word'" >&2
			return 1
			;;
		esac
	done
}

# --- the kernel's log

# The lines that a healthy kernel never prints.
dmesg_bad_pattern='WARNING:|BUG[: ]|Oops|Kernel panic|general protection'
dmesg_bad_pattern+='|Call Trace|refcount_t:|list_(add|del) corruption'
dmesg_bad_pattern+='|possible (circular|recursive|irq lock|deadlock)'
dmesg_bad_pattern+='|inconsistent lock state|suspicious RCU|lock held|held lock'
dmesg_bad_pattern+='|bad unlock|INFO: (task|rcu)|rcu: INFO|blocked for more than'
dmesg_bad_pattern+='|(detected|self-detected) stall|soft lockup|hard LOCKUP'
dmesg_bad_pattern+='|UBSAN|K[AFMC]*SAN:|KFENCE|unreferenced object|suspected memory leak'
dmesg_bad_pattern+='|ODEBUG|Slab corruption|Redzone|sleeping function called'
dmesg_bad_pattern+='|scheduling while atomic|Unknown symbol|Invalid module format'

# Print those lines of stdin that a healthy kernel would not have printed; fail if there
# are none.
dmesg_bad() { grep -E "$dmesg_bad_pattern"; }

# dmesg_mark TEXT: put a line into the kernel's log, and print it.
dmesg_mark() {
	echo "rdt: $1" >/dev/kmsg
	echo "rdt: $1"
}

# dmesg_since MARK: print the lines of stdin after the line with MARK.
dmesg_since() {
	MARK=$1 awk 'found { print } index($0, ENVIRON["MARK"]) { found = 1 }'
}

# --- our module

has_target() {
	dmsetup targets | grep -q "^$1 "
}

need_judge() { has_target judge || insmod /revdedup/modules/dm-judge.ko; }

# load_module [PARAMETER=VALUE...]
load_module() {
	local depends
	! has_target revdedup || return 0
	depends=$(modinfo -F depends "$module_file")
	# shellcheck disable=SC2086 # one word a module
	[ -z "$depends" ] || modprobe -a ${depends//,/ }
	insmod "$module_file" "$@"
}

# --- devices

# ramdisk SIZE_MIB [COUNT]: make /dev/ram0, /dev/ram1, ... new and all zeros.
ramdisk() {
	! [ -d /sys/module/brd ] || rmmod brd
	modprobe brd rd_size=$(($1 * 1024)) rd_nr="${2:-1}" max_part=0
}

# loopdev FILE: attach a loop device to FILE, and print its name.
loopdev() {
	modprobe loop
	losetup --show --find "$1"
}

# loop_of SECTORS NAME: do the same with a new file of that size, for this test.
loop_of() {
	truncate -s $(($1 * 512)) "$BATS_TEST_TMPDIR/$2"
	loopdev "$BATS_TEST_TMPDIR/$2"
}

# There is no udev here. A node that is missing must not become a file that
# the test then writes to.
mknodes() {
	dmsetup mknodes "$1"
	[ -b "/dev/mapper/$1" ] || {
		echo "'/dev/mapper/$1' is no block device" >&2
		return 1
	}
}

# dm_create NAME TABLE [OPTION...]
dm_create() {
	local name=$1 table=$2
	shift 2
	[[ $name == rdt-* ]] || {
		echo "BUG: dm_create: '$name' does not begin with 'rdt-'" >&2
		return 1
	}
	dmsetup create "$name" --table "$table" "$@"
	mknodes "$name"
}

# dm_remove NAME: retry, as another process may have the device open for a moment.
dm_remove() { dmsetup remove --retry "$1"; }

# sectors DEVICE: print its size in sectors of 512 bytes, as tables have it.
sectors() { blockdev --getsz "$1"; }

# dm_devices: print the names of all dm devices.
dm_devices() {
	local names
	names=$(dmsetup info -c --noheadings -o name 2>/dev/null)
	[[ -z $names || $names == 'No devices found' ]] || echo "$names"
}

# Remove everything that tests made: mounts, dm devices in any order that works, loop
# devices, ram disks. (This runs after every test, so it forks little.)
clean_up_devices() {
	local dev dir mounts=() left name tries=0 loops
	while read -r dev dir _; do
		case $dev in
		/dev/mapper/rdt-* | /dev/ram* | /dev/loop*)
			mounts=("$dir" "${mounts[@]}")
			;;
		esac
	done </proc/mounts
	[ "${#mounts[@]}" -eq 0 ] || umount "${mounts[@]}" || :

	while left=$(dm_devices) && [[ $left == *rdt-* && $tries -lt 10 ]]; do
		[ "$tries" -eq 0 ] || sleep 0.1
		for name in $left; do
			[[ $name != rdt-* ]] || dmsetup remove "$name" 2>/dev/null || :
		done
		tries=$((tries + 1))
	done

	loops=(/sys/block/loop*/loop/backing_file)
	! [ -e "${loops[0]}" ] || losetup -D
	! [ -d /sys/module/brd ] || rmmod brd
}

# --- memory

# memory_free: in KiB. What a device holds is what is there when it is gone, and was not before.
# The most of some looks, as others give theirs back when they come to it.
memory_free() {
	local free most=0
	sync
	for _ in 1 2 3 4 5 6; do
		echo 3 >/proc/sys/vm/drop_caches
		sleep 0.3
		free=$(awk '$1 == "MemFree:" { print $2 }' /proc/meminfo)
		[ "$free" -le "$most" ] || most=$free
	done
	echo "$most"
}

# --- power

# Ask the host to cut the power (vm-run.sh --power-cut). Nothing is synced.
power_cut() {
	echo "$DMR_TOKEN cut" >"$DMR_CONTROL"
	sleep 3600
}

# --- bats

# A bats file that needs more defines these itself, and calls dmr_setup and dmr_teardown.
dmr_setup() {
	[ -z "${SEED:-}" ] || RANDOM=$SEED
	dmesg_mark "test $BATS_TEST_DESCRIPTION" >/dev/null
}
dmr_teardown() { clean_up_devices; }
setup() { dmr_setup; }
teardown() { dmr_teardown; }
