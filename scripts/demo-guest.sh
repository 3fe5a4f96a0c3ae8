#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: demo-guest.sh before|after
#
# The guest's part of demo-target.sh: what happens before the power is cut, and after.
# shellcheck source=tests/guest/lib.bash
. /rdd/tests/guest/lib.bash
set -euo pipefail
modprobe dm-mod
mkdir -p /mnt

disk=/dev/disk/disk0
segs=64
log=/run/demo.log

say() { printf '\n%s\n' "$*"; }

# Print a command as a user would type it, and run it.
show() {
	printf '  #'
	printf ' %s' "${@@Q}" | sed "s/'\([^' ]*\)'/\1/g"
	echo
	"$@" 2>&1 | sed 's/^/  /'
}

attach() {
	local table
	# shellcheck disable=SC2119 # no parameters
	load_module
	table="0 $(sectors /dev/vg/vm1) revdedup /dev/vg/vm1 /dev/vg/vm1-meta -"
	show dmsetup create vm1 --table "$table"
	mknodes vm1
}

# Wait until what is written is really there.
put_file() {
	head -c "$2" /dev/urandom >"/mnt/$1"
	sync "/mnt/$1"
}

take_snapshot() {
	show dmsetup suspend vm1
	show dmsetup message vm1 0 checkpoint 1
	# A real one would copy the dirty segments of an LVM snapshot, later.
	dd if=/dev/vg/vm1 of=/dev/vg/copy bs=1M iflag=direct oflag=direct \
		conv=fsync status=none
	show dmsetup resume vm1
	show dmsetup message vm1 0 commit 1 1
}

before() {
	say "A volume group with a volume of 128 MiB and a little one for our metadata:"
	{
		vgcreate vg "$disk"
		lvcreate -y -n vm1 -L 128M vg
		lvcreate -y -n copy -L 128M vg
		lvcreate -y -n vm1-meta -L 4M --zero y vg
	} >/dev/null 2>"$log" || { cat "$log"; exit 1; }
	show lvs --noheadings -o lv_name,lv_size vg

	say "The target goes over it, and a file system goes onto the target:"
	attach
	mkfs.ext4 -q /dev/mapper/vm1
	mount /dev/mapper/vm1 /mnt
	put_file first 20M

	say "A snapshot. All 64 segments were dirty, as nothing was known; now none is:"
	take_snapshot
	show dmsetup status vm1

	say "The guest writes a file of 6 MB. These segments are dirty now" \
		"(first,length in hex):"
	put_file second 6M
	show dmsetup message vm1 0 dirty current 0 "$segs"

	say "The power is cut now, with more being written."
	cp /mnt/first /mnt/third &
	retry 50 0.02 test -s /mnt/third
	power_cut
}

# The segments in which the volume and its copy differ, one a line. The journal
# is replayed only when the file system is mounted, so this is what the crash left.
changed_segments() {
	local seg
	for ((seg = 0; seg < segs; seg++)); do
		cmp -s -n $((2 << 20)) -i $((seg << 21)) /dev/vg/vm1 /dev/vg/copy ||
			echo "$seg"
	done
}

dirty_segments() {
	local ranges range
	ranges=$(dmsetup message vm1 0 dirty current 0 "$segs")
	for range in ${ranges//;/ }; do
		[[ $range == *,* ]] || continue
		seq $((16#${range%,*})) $((16#${range%,*} + 16#${range#*,} - 1))
	done
}

after() {
	local missed
	vgchange -qq -ay vg >/dev/null 2>&1
	say "The same volume after the power cut:"
	attach
	show dmsetup status vm1
	show dmsetup message vm1 0 dirty current 0 "$segs"

	say "Compared byte by byte with the copy that was made at the snapshot:"
	missed=$(comm -23 <(changed_segments | sort) <(dirty_segments | sort))
	echo "  $(changed_segments | wc -l) segments differ," \
		"$(dirty_segments | wc -l) are known as dirty," \
		"$(printf '%s' "$missed" | wc -w) were missed."

	say "And the file system:"
	mount /dev/mapper/vm1 /mnt
	show ls -l /mnt
	umount /mnt
	show dmsetup remove vm1
	vgchange -qq -an vg
	[ -z "$missed" ]
}

"$1"
