# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # its users use them; bats and guest.bash set them
#
# Volumes on LVM that revdedupctl attaches, for bats files that `load ../lib/guest` and
# `load ../lib/lvm`: group rdt-vg on /dev/ram0, and a pool on an ext4 on /dev/ram1.

export REVDEDUP_CONFIG=/tmp/rdt-etc
export REVDEDUP_POOL=/tmp/rdt-pool/pool
export LVM_SUPPRESS_FD_WARNINGS=1
PATH=/revdedup/ctl:$PATH
vg=rdt-vg

lvm_setup() {
	dmr_setup
	load_module
	ramdisk "${1:-320}" 2
	vgcreate -qq $vg /dev/ram0
	mkdir -p /tmp/rdt-pool "$REVDEDUP_CONFIG"
	mkfs.ext4 -q /dev/ram1
	mount /dev/ram1 /tmp/rdt-pool
	revdedupctl -q init --compression none --size 1G "$REVDEDUP_POOL"
}

# reads_from PID DEVICE: has it come to open it?
reads_from() { [ "$(readlink "/proc/$1/fd/0")" = "$(realpath "$2")" ]; }

# is_stopped PID: has the command stopped where REVDEDUP_FAIL tells it to?
is_stopped() { grep -q '^State:.*stopped' "/proc/$1/status"; }

# Remove what a failed test leaves: it would be in the way of the next.
lvm_teardown() {
	local name retry
	pkill -x sleep || :
	rm -f /tmp/go
	for name in $(dm_devices | grep '^revdedup-' | sort -r); do
		dmsetup resume "$name" 2>/dev/null || :
	done
	grep -o ' /tmp/rdt-mnt[^ ]*' /proc/mounts | xargs -r umount || :
	# What lies on others first; only what is left then is worth a wait of seconds.
	for retry in '' '' --retry; do
		for name in $(dm_devices | grep '^revdedup-\|^rdt-[a-z]' | sort -r); do
			dmsetup remove ${retry:+"$retry"} "$name" 2>/dev/null || :
		done
	done
	umount /tmp/rdt-pool 2>/dev/null || :
	vgremove -qq --force --yes $vg 2>/dev/null || :
	rm -rf "$REVDEDUP_CONFIG"
	dmr_teardown
}

# make_lv NAME MIB
make_lv() { lvcreate -qq --yes -Wy -Zy --size "$2M" --name "$1" $vg; }

# device_of LV: print the device to use instead of it.
device_of() { echo "/dev/mapper/revdedup-${vg//-/--}-$1"; }

# down DEVICE...: leave volumes as after a boot.
down() {
	local device
	for device in "$@"; do
		dmsetup remove "${device##*/}"
		dmsetup remove "${device##*/}:meta"
	done
}

# is_version VERSION FILE|DEVICE: does the version hold the same?
is_version() {
	revdedupctl -q restore "$1" --yes --to /tmp/rdt-pool/out &&
		cmp "$2" /tmp/rdt-pool/out
}

# json KEY: print the value of KEY in the one object on stdin.
json() { sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p"; }

# any_of WORD...: print one of them at random, if there is one.
any_of() { [ $# -eq 0 ] || echo "${@:RANDOM % $# + 1:1}"; }

# some_volume LV [MIB]: attach a volume with a version of random content; set $vol to its
# device.
some_volume() {
	make_lv "$1" "${2:-48}"
	revdedupctl -q attach "$vg/$1"
	vol=$(device_of "$1")
	dd if=/dev/urandom of="$vol" bs=1M count="${2:-48}" oflag=direct status=none
	revdedupctl -q snapshot "$vg/$1"
}

# killed STEP COMMAND...: let revdedupctl kill itself at this step.
killed() {
	local status=0
	echo "killed at $1: ${*:2}"
	REVDEDUP_FAIL=$1=kill revdedupctl -q "${@:2}" 3>&- || status=$?
	[ "$status" -eq 137 ] || {
		echo "it ended with $status"
		return 1
	}
}

# stopped STEP[,NAME=...] COMMAND...: start revdedupctl as $pid, and wait until it has stopped at this
# step. What follows a comma acts after that.
stopped() {
	local step=${1%%,*}
	REVDEDUP_FAIL=$step=stop${1#"$step"} revdedupctl "${@:2}" 3>&- &
	pid=$!
	retry 300 0.1 is_stopped "$pid"
}

# is_home [LV]: have all blocks been copied?
is_home() { revdedupctl status "$vg/${1:-vm1}" --json | grep -q '"blocks_away": 0,'; }

# lvs_are NAME...: are these LVs, and no others, in the group?
lvs_are() {
	local have
	have=$(lvs --noheadings -o lv_name $vg | xargs)
	[ "$have" = "$*" ] || {
		echo "there are: $have; wanted: $*"
		return 1
	}
}

# nothing_held: is no deleted version kept for a device?
nothing_held() {
	revdedupctl -v prune --keep-last 1 >/tmp/held 2>&1 || :
	cat /tmp/held
	! grep -q reached /tmp/held
}
