#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs-guest.sh ROUNDS MIB
#
# The guest's part of packs.sh. Prints a line for each measurement:
#
#   time WORKLOAD WHAT ROUND SECONDS
#
# SECONDS are for a GiB, but of commands: clone, rollback. Disk 0 has the pools and the image of
# squashfs.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/guest/lib/lvm.bash
. "$here/../../guest/lib/lvm.bash"

rounds=$1 mib=$2
what=(none zstd 8 64 512 squash nbd)
export PATH=/revdedup/ctl:$PATH NBDKIT_PLUGINDIR=/revdedup/ctl REVDEDUP_RUN=/tmp/run

modprobe -a squashfs nbd loop ext4
ramdisk $((mib * 8 + 72)) 2
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

# --- volumes

now_us() { echo $((10#${EPOCHREALTIME/./})); }

# timed WHAT ROUND COMMAND ARGUMENT...: until the volume can be used.
timed() {
	local from
	from=$(now_us)
	revdedupctl -q --pool "/tmp/files/$1" "${@:3}" >/dev/null
	echo "time $3 $1 $2 $(($(now_us) - from))e-6"
}

# hydrate WHAT ROUND: bring all of a clone home.
hydrate() {
	local volume from events
	volume=$(device_of "$1")
	events=$(dmsetup info -c --noheadings -o events "$volume")
	from=$(now_us)
	dmsetup message "$volume" 0 hydrate start
	dmsetup wait "$volume" "$events"
	echo "time hydrate $1 $2 $((($(now_us) - from) * 1024 / mib))e-6"
	[[ $(dmsetup status "$volume") == *' off '* ]]
}

# volume WHAT ROUND: a clone, and back to what it was; the same content, raw and in packs.
volume() {
	timed "$1" "$2" clone vm1 "$vg/$1" --no-hydrate
	hydrate "$1" "$2"
	revdedupctl -q --pool "/tmp/files/$1" snapshot "$vg/$1"
	dd if=/dev/zero of="$(device_of "$1")" bs=1M count=$((mib / 2)) oflag=direct status=none
	timed "$1" "$2" rollback "$vg/$1@latest" --yes --no-snapshot
	retry 600 0.1 is_home "$1"
	revdedupctl -q detach "$vg/$1"
	lvremove -qq --yes "$vg/$1"
	revdedupctl -q --pool "/tmp/files/$1" delete "$vg/$1@latest" --yes
}

mkdir -p "$REVDEDUP_CONFIG"
vgcreate -qq "$vg" /dev/ram1
for ((round = 0; round < rounds; round++)); do
	for form in none zstd; do
		volume $form "$round"
	done
done
