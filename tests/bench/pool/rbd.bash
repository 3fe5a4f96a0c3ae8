# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Disks on RBD, on a small cluster of three OSDs with one copy: a first version beside
# "rbd export" of the same, and a version after 1 % has changed beside one that reads all. Then
# what librados itself reads and writes there, which a store on it is compared with.

declare -A rbd_mib=([full]=4096 [demo]=512)

rbd_disk() { revdedupctl -q snapshot disk --from rbd:bench/disk; }
rbd_full() { revdedupctl -q snapshot disk --full-scan --from rbd:bench/disk; }
rbd_export() {
	rbd export --no-progress bench/disk "$dir/rbd.out"
	sync "$dir/rbd.out"
}
rbd_prepare() {
	new_pool
	rm -f "$dir/rbd.out"
}

# rbd_row WHAT SIZE [WANTED]: 1 % changes, in writes of this size.
rbd_row() {
	local ratio i changed=() full=()
	for ((i = 0; i < rounds; i++)); do
		rbd bench --io-type write --io-pattern rand --io-size "$2" \
			--io-total $((mib * rbd_mib[$size] / 100)) bench/disk >/dev/null
		turn rbd_disk
		changed+=("$usec")
		turn rbd_full
		full+=("$usec")
	done
	ratio=$(calc "$(median "${changed[@]}") / $(median "${full[@]}")")
	row "$1" "$ratio" ${3:+"<= $3" "$ratio <= $3"}
}

# rados_rows SIZE: what librados writes and reads, 16 requests in flight.
rados_rows() {
	local kind
	for kind in write rand; do
		local options=()
		[ "$kind" != write ] || options=(-b "$1" --no-cleanup)
		row "librados, $1 bytes, $kind, MB/s" "$(rados -p bench bench 5 "$kind" -t 16 \
			"${options[@]}" | sed -n 's/^Bandwidth (MB\/sec): *//p')"
	done
	rados -p bench cleanup >/dev/null
}

part_rbd() {
	local cluster=$tree/tests/ceph/cluster.sh bytes
	"$tree/scripts/setup.sh" ceph
	export CLUSTER=$dir/ceph
	# shellcheck disable=SC2064 # of this function, and not of the end
	trap "'$cluster' wipe; clean_up" EXIT
	eval "$("$cluster" start 3)"
	"$cluster" pool bench
	title "disks on RBD (${rbd_mib[$size]} MiB)"
	header
	image random "$dir/rbd.raw" $((mib * rbd_mib[$size])) 1
	rbd import --no-progress "$dir/rbd.raw" bench/disk
	compare rbd_prepare rbd_disk rbd_export
	ratio_row "first version / rbd export, speed" 0.8
	rbd_row "1 % changed in runs of 4 MiB / all read, time" 4M 0.04
	rbd_row "1 % changed in 64 KiB anywhere / all read, time" 64K
	# To list what has changed takes a request an object, also of those that are not there.
	rbd resize --no-progress --size 64G bench/disk
	rbd_disk
	rbd_row "the same in 64 GiB, sparse: in runs of 4 MiB" 4M
	for bytes in 2097152 65536 4096; do
		rados_rows "$bytes"
	done
	"$cluster" wipe
	trap clean_up EXIT
	unset CEPH_CONF CLUSTER
	rm -f "$dir"/rbd.*
}
