# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the guest's parts of packs.sh share: the pools and the image of squashfs, which come on
# disk 0, in memory, and reads of them. Sourced, not run, after tests/guest/lib/guest.bash.

export PATH=/revdedup/ctl:$PATH NBDKIT_PLUGINDIR=/revdedup/ctl
export REVDEDUP_RUN=/tmp/run REVDEDUP_CONFIG=/tmp/rdt-etc

now_us() { echo $((10#${EPOCHREALTIME/./})); }

# mount_files [NR [MIB]]: with that many ramdisks more, and each of them with at least that many
# MiB.
mount_files() {
	local more=${1:-0} least=${2:-0} size
	size=$(($(sectors /dev/disk/disk0) / 2048))
	modprobe -a squashfs nbd loop ext4
	ramdisk $((size > least ? size : least)) $((1 + more))
	dd if=/dev/disk/disk0 of=/dev/ram0 bs=1M count="$size" oflag=direct status=none
	mkdir -p /tmp/files /tmp/squash
	mount /dev/ram0 /tmp/files
	mount -o loop /tmp/files/squash /tmp/squash
	content=/tmp/squash/content
}

# map_forms: each pool's version as rdt-FORM, and see that they all have the same content.
map_forms() {
	local form
	# shellcheck disable=SC2119 # no parameters
	load_module
	forms=()
	for form in none zstd 8 64 512; do
		[ -d /tmp/files/$form ] || continue
		forms+=("$form")
		revdedupctl -q --pool /tmp/files/$form map vm1 rdt-$form
		cmp /dev/mapper/rdt-$form "$content"
	done
}

# path_of NAME
path_of() {
	case $1 in
	squash) echo "$content" ;;
	nbd) echo "${nbd:?}" ;;
	*) echo /dev/mapper/rdt-"$1" ;;
	esac
}

# read_some GUEST WORKLOAD ROUND NAME WORD...: fio's. From cold caches.
read_some() {
	local words="$1 $2 $4 $3" round=$3 name=$4 direct=1
	# It has no other way than through the page cache.
	[ "$name" != squash ] || direct=0
	sync
	echo 3 >/proc/sys/vm/drop_caches
	fio --name=r --filename="$(path_of "$name")" --ioengine=psync --direct=$direct --readonly \
		--thread --randseed="$round" --group_reporting --output-format=terse \
		--terse-version=3 "${@:5}" >/tmp/out
	awk -F ';' -v what="$words" '
		$5 { print "fio: error " $5 >"/dev/stderr"; exit 1 }
		{ print "time", what, $9 / 1000 * 1048576 / $6 }' /tmp/out
}
