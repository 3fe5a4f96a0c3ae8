#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: packs-guest.sh NAME ROUNDS MIB PART...
#
# The guest's part of packs.sh for the parts reads and volumes. NAME is the guest's. Prints a line
# for each measurement:
#
#   time NAME WORKLOAD WHAT ROUND SECONDS
#   takes WHAT SHARE
#
# SECONDS are for a GiB, but of commands: clone, rollback. SHARE is what compressed content takes
# up, its size as 1. Disk 0 has the pools and the image of squashfs.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/guest/lib/lvm.bash
. "$here/../../guest/lib/lvm.bash"
# shellcheck source=tests/bench/target/packs.bash
. "$here/packs.bash"

guest=$1 rounds=$2 mib=$3 parts=("${@:4}")
vdo_mib=$((mib * 2 + 320))

# make_vdo DISK: compress the content with dm-vdo, which looks for no duplicates here.
make_vdo() {
	local before
	dd if=/tmp/files/vdo of="$1" oflag=direct bs=4k status=none
	dm_create rdt-vdo "0 $((mib * 2048)) vdo V4 $1 $((vdo_mib * 256)) 4096 32768 16380 \
deduplication off compression on"
	before=$(vdo_used)
	dd if="$content" of=/dev/mapper/rdt-vdo bs=1M oflag=direct conv=fsync status=none
	cmp /dev/mapper/rdt-vdo "$content"
	share vdo $((($(vdo_used) - before) * 4))
}

# share WHAT KIB
share() { echo "takes $1 $(($2 * 100 / (mib * 1024)))e-2"; }

# Blocks that it uses.
vdo_used() { dmsetup status rdt-vdo | awk '{ print $(NF - 1) }'; }

# --- reads

reads() {
	local what=("${forms[@]}" squash nbd) round i name
	share packs "$(du -sk /tmp/files/zstd/data | cut -f 1)"
	share squashfs "$(du -sk /tmp/files/squash | cut -f 1)"
	[ ! -b /dev/mapper/rdt-vdo ] || what+=(vdo)
	for ((round = 0; round < rounds; round++)); do
		for ((i = 0; i < ${#what[@]}; i++)); do
			name=${what[(i + round) % ${#what[@]}]}
			read_some "$guest" sequence "$round" "$name" --rw=read --bs=1m \
				--size="${mib}m"
			# A sixteenth of the groups, so most of them are cold.
			read_some "$guest" random "$round" "$name" --rw=randread --bs=4k \
				--size="${mib}m" --number_ios=$((mib * 2))
			[[ $name =~ ^(squash|vdo)$ ]] ||
				read_some "$guest" hot "$round" "$name" --rw=randread --bs=4k \
					--size=4m --loops=8
		done
	done
}

# --- volumes

# timed WHAT ROUND COMMAND ARGUMENT...: until the volume can be used.
timed() {
	local from
	from=$(now_us)
	revdedupctl -q --pool "/tmp/files/$1" "${@:3}" >/dev/null
	echo "time $guest $3 $1 $2 $(($(now_us) - from))e-6"
}

# hydrate WHAT ROUND: bring all of a clone home.
hydrate() {
	local volume from events
	volume=$(device_of "$1")
	events=$(dmsetup info -c --noheadings -o events "$volume")
	from=$(now_us)
	dmsetup message "$volume" 0 hydrate start
	dmsetup wait "$volume" "$events"
	echo "time $guest hydrate $1 $2 $((($(now_us) - from) * 1024 / mib))e-6"
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

volumes() {
	local round form
	mkdir -p "$REVDEDUP_CONFIG"
	vgcreate -qq "$vg" /dev/ram1
	for ((round = 0; round < rounds; round++)); do
		for form in none zstd; do
			volume $form "$round"
		done
	done
}

# --- main

# For volumes, and for dm-vdo.
mount_files 2 "$((vdo_mib + 1))"
# Without the module it is served over NBD.
nbd=$(revdedupctl --pool /tmp/files/zstd map vm1 rdt-nbd)
nbd=${nbd##* }
map_forms
cmp "$nbd" "$content"
# Kernels before 6.9 have none.
if [[ " ${parts[*]} " == *' reads '* ]] && modprobe dm-vdo 2>/dev/null; then
	make_vdo /dev/ram2
fi
for part in "${parts[@]}"; do
	"$part"
done
