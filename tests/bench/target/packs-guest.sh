#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs-guest.sh ROUNDS MIB
#
# The guest's part of packs.sh. Prints a line for each measurement:
#
#   time WORKLOAD WHAT ROUND SECONDS
#
# SECONDS are for a GiB. Disk 0 has the pools and the image of squashfs.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"

rounds=$1 mib=$2
what=(none zstd 8 64 512 squash nbd)
export PATH=/revdedup/ctl:$PATH NBDKIT_PLUGINDIR=/revdedup/ctl REVDEDUP_RUN=/tmp/run

modprobe -a squashfs nbd loop ext4
ramdisk $((mib * 8 + 72)) 1
dd if=/dev/disk/disk0 of=/dev/ram0 bs=1M oflag=direct status=none
mkdir -p /tmp/files /tmp/squash
mount /dev/ram0 /tmp/files
# Without the module it is served over NBD.
nbd=$(revdedupctl --pool /tmp/files/zstd map vm1 rdt-nbd)
nbd=${nbd##* }
# shellcheck disable=SC2119 # no parameters
load_module
for form in none zstd 8 64 512; do
	revdedupctl -q --pool /tmp/files/$form map vm1 rdt-$form
done
mount -o loop /tmp/files/squash /tmp/squash

# They all are the same.
cmp /dev/mapper/rdt-none /tmp/squash/content
for form in zstd 8 64 512; do
	cmp /dev/mapper/rdt-$form /tmp/squash/content
done
cmp "$nbd" /tmp/squash/content

path_of() {
	case $1 in
	squash) echo /tmp/squash/content ;;
	nbd) echo "$nbd" ;;
	*) echo /dev/mapper/rdt-"$1" ;;
	esac
}

# run WORKLOAD ROUND WHAT WORD...: fio's.
run() {
	local workload=$1 round=$2 name=$3 direct=1
	# It has no other way than through the page cache.
	[ "$name" != squash ] || direct=0
	sync
	echo 3 >/proc/sys/vm/drop_caches
	fio --name=r --filename="$(path_of "$name")" --ioengine=psync --direct=$direct --readonly \
		--thread --randseed="$round" --output-format=terse --terse-version=3 "${@:4}" \
		>/tmp/out
	awk -F ';' -v what="$workload $name $round" '
		$5 { print "fio: error " $5 >"/dev/stderr"; exit 1 }
		{ print "time", what, $9 / 1000 * 1048576 / $6 }' /tmp/out
}

for ((round = 0; round < rounds; round++)); do
	for ((i = 0; i < ${#what[@]}; i++)); do
		name=${what[(i + round) % ${#what[@]}]}
		run sequence "$round" "$name" --rw=read --bs=1m --size="${mib}m"
		# A sixteenth of the groups, so most of them are cold.
		run random "$round" "$name" --rw=randread --bs=4k --size="${mib}m" \
			--number_ios=$((mib * 2))
		[ "$name" = squash ] ||
			run hot "$round" "$name" --rw=randread --bs=4k --size=4m --loops=8
	done
done
