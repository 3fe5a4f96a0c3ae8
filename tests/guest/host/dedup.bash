# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats, guest.bash and lvm.bash set them
#
# A volume on the thin pool "thin", for bats files of dedup that `load ../lib/lvm`.

thin_name=${vg//-/--}-vm1

# thin_volume MIB [LV]: attach a thin volume; set $vol to its device.
thin_volume() {
	lvcreate -qq --yes --type thin --virtualsize "$1M" --thinpool thin --name "${2:-vm1}" "$vg"
	revdedupctl -q attach "$vg/${2:-vm1}"
	vol=$(device_of "${2:-vm1}")
}

# mapped: print how many KiB of the thin pool the volume has.
mapped() { dmsetup status "$thin_name" | awk '{ print $4 / 2 }'; }

# mapped_is MIN MAX
mapped_is() {
	local kib
	kib=$(mapped)
	echo "mapped: $kib KiB; wanted: $1 to $2"
	[ "$kib" -ge "$1" ] && [ "$kib" -le "$2" ]
}

random() { dd if=/dev/urandom of="$vol" bs=64k seek="$1" count="$2" oflag=direct conv=notrunc status=none; }
zeros() { dd if=/dev/zero of="$vol" bs=64k seek="$1" count="$2" oflag=direct conv=notrunc status=none; }

# same: is the volume what /tmp/rdt-pool/is says?
same() { cmp "$vol" /tmp/rdt-pool/is; }
note() { cp --sparse=always "$vol" /tmp/rdt-pool/is; }
