#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: space-guest.sh KIND VOLUMES MIB PERCENT file|thin PIECES
#
# The guest's part of space.sh, for one kind of volumes (see tests/guest/host/fleet.c). Prints
#
#   space KIND WHAT KIB
#   said KIND TEXT
#
# Disk 0 is for volumes, disk 1 for the pool. What each volume reads is compared with what was
# written, block by block, after each step.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/guest/lib/lvm.bash
. "$here/../../guest/lib/lvm.bash"

kind=$1 volumes=$2 mib=$3 percent=$4 place=$5 pieces=$6
fleet=/revdedup/bin/fleet
copy=/tmp/rdt-pool/copy
all=$((volumes * mib))

space() { echo "space $kind $1 $2"; }

# thin_pool NAME MIB: of chunks of 64 KiB.
thin_pool() {
	lvcreate -qq --yes --type thin-pool --size "$2M" --chunksize 64k --poolmetadatasize 8M \
		--name "$1" $vg 2>/dev/null
}

thin() {
	lvcreate -qq --yes --type thin --virtualsize "${mib}M" --thinpool "$1" --name "$2" $vg \
		2>/dev/null
}

# used WHAT POOL: print what the thin pool has for volumes, and of its metadata.
used() {
	local data meta
	read -r meta data < <(dmsetup status ${vg//-/--}-"$2"-tpool | awk '{ print $5, $6 }')
	space "$1" $((${data%/*} * 64))
	space "$1-meta" $((${meta%/*} * 4))
}

# of_disk DIRECTORY|FILE: print its KiB, without holes.
of_disk() { du -sk "$1" | cut -f1; }

make_pool() {
	local data=()
	mkdir -p /tmp/rdt-pool "$REVDEDUP_CONFIG"
	mkfs.ext4 -q -m 0 /dev/disk/disk1
	mount /dev/disk/disk1 /tmp/rdt-pool
	if [ "$place" = thin ]; then
		thin_pool below $((all + 512))
		lvcreate -qq --yes --type thin --virtualsize $((all * 2 + 512))M --thinpool below \
			--name data $vg 2>/dev/null
		data=(--data "/dev/$vg/data")
	fi
	revdedupctl -q init --compression none "${data[@]}" --pieces "$pieces" --dedup inline \
		"$REVDEDUP_POOL"
}

# same: does each volume read what was written to it?
same() {
	local i
	echo 3 >/proc/sys/vm/drop_caches
	for ((i = 1; i <= volumes; i++)); do
		$fleet compare "$kind" $i "$mib" "$percent" "$(device_of "vm$i")"
	done
}

# measure WHAT: what is in use now.
measure() {
	local in_files tables
	used "$1-thin" thin
	sync
	space "$1-reserve" "$(of_disk "$REVDEDUP_POOL/reserve")"
	in_files=$(($(of_disk "$REVDEDUP_POOL") - $(of_disk "$REVDEDUP_POOL/reserve")))
	if [ "$place" = thin ]; then
		used "$1-data" below
		space "$1-rest" "$in_files"
	else
		space "$1-data" "$(of_disk "$REVDEDUP_POOL/data")"
		space "$1-rest" $((in_files - $(of_disk "$REVDEDUP_POOL/data")))
	fi
	tables=$(lvs --noheadings --nosuffix --units k -o lv_size -S 'lv_name=~_rdmeta' $vg |
		awk '{ all += $1 } END { print int(all) }')
	space "$1-tables" "$tables"
}

give() { revdedupctl -q offload "$vg/$1" --cold 0 --force --yes; }

# What dm-thin has if all volumes are snapshots of the image.
lazy() {
	local i
	thin_pool lazy $((all + 256))
	thin lazy image
	$fleet write "$kind" 0 "$mib" "$percent" /dev/$vg/image
	for ((i = 1; i <= volumes; i++)); do
		lvcreate -qq --yes -kn -s --name "lazy$i" $vg/image
		$fleet write "$kind" $i "$mib" "$percent" "/dev/$vg/lazy$i" 0
	done
	used lazy lazy
	lvremove -qq --yes $vg/lazy 2>/dev/null
}

# Random writes go on in vm1, and in a volume of dm-thin alone.
go_on() {
	local to
	thin_pool alone $((all + 256))
	thin alone twin
	cp --sparse=always "$(device_of vm1)" $copy
	$fleet write "$kind" 1 "$mib" "$percent" /dev/$vg/twin
	for to in /dev/$vg/twin $copy "$(device_of vm1)"; do
		$fleet write "$kind" 2 "$mib" "$percent" "$to"
	done
	used twin alone
	cmp $copy "$(device_of vm1)"
	measure written
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q prune --keep-last 1
	give vm1
	measure again
	cmp $copy "$(device_of vm1)"
}

# shellcheck disable=SC2119 # without parameters
load_module
vgcreate -qq --physicalextentsize 64k $vg /dev/disk/disk0
[ "$kind" != clone ] || lazy
thin_pool thin $((all + 256))
for ((i = 1; i <= volumes; i++)); do
	thin thin vm$i
	$fleet write "$kind" $i "$mib" "$percent" /dev/$vg/vm$i
done
$fleet count "$kind" "$volumes" "$mib" "$percent" |
	awk -v kind="$kind" '{ print "space", kind, "content", $1 * 4
		print "space", kind, "once", $2 * 4 }'
used alone thin
make_pool
for ((i = 1; i <= volumes; i++)); do
	revdedupctl -q attach $vg/vm$i
	revdedupctl -q snapshot $vg/vm$i
	[ $i -ne 1 ] || ! revdedupctl offload $vg/vm1 --cold 0 --yes >/tmp/said 2>&1 ||
		echo "not refused" >/tmp/said
	[ $i -ne 1 ] || echo "said $kind $(head -n 1 /tmp/said)"
	give vm$i
done
same
measure after
[ "$kind" != nurand ] || go_on
revdedupctl -q check
