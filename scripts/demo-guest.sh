#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: demo-guest.sh before|after
#
# The guest's part of demo-host.sh: what happens before the power is cut, and after.
# shellcheck source=tests/guest/lib/guest.bash
. /revdedup/tests/guest/lib/guest.bash
set -euo pipefail
modprobe dm-mod
export PATH=/revdedup/tools:$PATH LVM_SUPPRESS_FD_WARNINGS=1
# The guest's own disk forgets; on a host this is /etc/revdedup.
export REVDEDUP_CONFIG=/backup/etc REVDEDUP_POOL=/backup/pool
vol=/dev/mapper/revdedup-vg-vm1
mkdir -p /mnt/vm1 /mnt/old /backup

say() { printf '\n%s\n' "$*"; }

# Print a command as a user would type it, and run it. LVM says each time that it cannot
# write to the guest's /etc.
show() {
	printf '  #'
	printf ' %s' "${@@Q}" | sed "s/'\([^' ]*\)'/\1/g"
	echo
	"$@" 2>&1 | sed '/NOT backed up/d; s/^/  /'
}

# put_file NAME SIZE: and wait until it is really there.
put_file() {
	head -c "$2" /dev/urandom >"/mnt/vm1/$1"
	sync "/mnt/vm1/$1"
}

# What goes on in the volume meanwhile.
writer() {
	local nr
	for ((nr = 1; ; nr++)); do
		put_file "log-$((nr % 8))" 300K || return 0
		sleep 0.1
	done
}

end_writer() {
	kill "$writer"
	wait "$writer" 2>/dev/null || :
}

begin() {
	vgcreate -qq vg /dev/disk/disk0 2>/dev/null
	lvcreate -qq -y -n vm1 -L 128M vg 2>/dev/null
	mkfs.ext4 -q /dev/disk/disk1
	mount /dev/disk/disk1 /backup
	mkdir $REVDEDUP_CONFIG
	# shellcheck disable=SC2119 # no parameters
	load_module
}

before() {
	local writer
	begin
	say "A volume of 128 MiB, a pool on another disk, and the target over the volume:"
	show revdedupctl init $REVDEDUP_POOL
	show revdedupctl attach vg/vm1
	mkfs.ext4 -q $vol
	mount $vol /mnt/vm1
	put_file report 20M
	md5sum </mnt/vm1/report >/backup/report.md5
	writer &
	writer=$!

	say "The first version reads all, while the file system is written to:"
	show revdedupctl snapshot vg/vm1
	say "A user removes the report. The next version reads what has changed:"
	show rm /mnt/vm1/report
	sync
	show revdedupctl snapshot vg/vm1
	show revdedupctl list

	say "The version before is mounted at once, and there it is:"
	show revdedupctl mount vg/vm1@1 /mnt/old
	show ls -l /mnt/old/report
	md5sum </mnt/old/report | cmp - /backup/report.md5
	show revdedupctl umount /mnt/old

	say "The volume is rolled back. It can be used at once; what lies in the pool is" \
		$'\ncopied back in the background:'
	end_writer
	umount /mnt/vm1
	show revdedupctl rollback vg/vm1@1 --yes
	mount $vol /mnt/vm1
	md5sum </mnt/vm1/report | cmp - /backup/report.md5
	show ls -l /mnt/vm1/report
	show revdedupctl status
	put_file precious 5M
	md5sum </mnt/vm1/precious >/backup/precious.md5
	sync -f /backup

	say "The power is cut now, with more being written."
	writer &
	sleep 1
	power_cut
}

after() {
	mount /dev/disk/disk1 /backup
	vgchange -qq -ay vg >/dev/null 2>&1
	# shellcheck disable=SC2119 # no parameters
	load_module
	say "The host boots. All that was attached is so again, and knows what has changed:"
	show revdedupctl attach --all
	show revdedupctl status
	mount $vol /mnt/vm1
	show ls -l /mnt/vm1/report /mnt/vm1/precious
	md5sum </mnt/vm1/report | cmp - /backup/report.md5
	md5sum </mnt/vm1/precious | cmp - /backup/precious.md5
	echo "  Both are what they were."
	say "And on it goes:"
	show revdedupctl snapshot vg/vm1
	show revdedupctl list
	show revdedupctl check
	show revdedupctl scrub
	umount /mnt/vm1
}

"$1"
