# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Pools in RADOS, on a small cluster of three OSDs with three copies: a first version and the
# newest one beside what librados does with as many bytes, beside a pool on the disk that the OSDs
# are on, and beside "rbd import" and "rbd export"; three shards at a time; a take-over; the same
# series of disks in a shard, in a local pool, in RBD, and by borg in a CephFS of the same cluster.

# shellcheck source=tests/bench/pool/peers.bash
. "$here/peers.bash"

declare -A shards_mib=([full]=2048 [demo]=256)
# Segments of the disk whose catalog is made of the journal.
declare -A shards_segments=([full]=64000 [demo]=2000)

# The series, of which RBD has each version as a whole, three times.
declare -A shards_series=([full]=layouts [demo]=small)

# Remove the pool, and what it has in RADOS, if it is a shard.
shard_clear() {
	local name
	name=$(readlink "$REVDEDUP_POOL/data") || return 0
	name=${name##*/}
	rados -p bench -N "$name" ls | xargs -r rados -p bench -N "$name" rm
	rm -rf "$REVDEDUP_POOL"
}

# shard_new [NAME]: in the directory of this name, which is the pool then. The OSDs have no room for
# the shards of all rounds.
shard_new() {
	export REVDEDUP_POOL=$dir/${1:-shard}
	shard_clear
	shard_nr=$((shard_nr + 1))
	revdedupctl init --quiet --compression "$compression" "${pool_options[@]}" --size 2T \
		--data "ceph:bench/s$shard_nr" "$REVDEDUP_POOL"
}

shard_take() { revdedupctl -q snapshot vm --from "$dir/shard.img"; }
shard_read() { revdedupctl dump vm@latest; }

# What librados does with the same content. ("rados bench" ends at a full second.)
rados_write() { rawrados write bench raw "$dir/shard.img"; }
rados_read() { rawrados read bench raw "$dir/shard.img"; }
rados_clear() { rados -p bench -N raw ls | xargs -r rados -p bench -N raw rm; }

rbd_in() { rbd import --no-progress "$dir/shard.img" bench/disk; }
rbd_out() { rbd export --no-progress bench/disk - | cat; }
rbd_clear() { ! rbd info bench/disk >/dev/null 2>&1 || rbd rm --no-progress bench/disk; }

shard_and_raw() { shard_new; rados_clear; }
shard_and_rbd() { shard_new; rbd_clear; }

# In the order of compare(): how fast a shard is as a share of the local pool.
in_shard() { REVDEDUP_POOL=$dir/shard "$@"; }
in_local() { REVDEDUP_POOL=$dir/pool "$@"; }
shard_take_here() { in_shard shard_take; }
local_take() { in_local shard_take; }
shard_read_here() { in_shard shard_read; }
local_read() { in_local shard_read; }
both_new() { shard_new; REVDEDUP_POOL=$dir/pool; new_pool; }
both_changed() {
	seed=$((seed + 1))
	image some "$dir/shard.img" $((shards_mib[$size] * 256 / 100)) "$seed" >/dev/null
}

beside_others() {
	compare shard_and_raw shard_take rados_write
	ratio_row "first version / librados, as many bytes, speed" 0.85
	shard_new
	shard_take
	compare true shard_read rados_read
	ratio_row "newest version / librados, as many bytes, speed" 0.85
	compare shard_and_rbd shard_take rbd_in
	row "first version / rbd import, speed" "$(spread)"
	rbd_clear
	rbd_in
	shard_take
	compare true shard_read rbd_out
	row "newest version / rbd export, speed" "$(spread)"
	rados_clear
	rbd_clear
}

beside_local() {
	compare both_new shard_take_here local_take
	row "first version / the same in a local pool, speed" "$(spread)"
	# One of them is empty: it was made anew for the last turn, which was the other's.
	shard_take_here
	local_take
	compare both_changed shard_take_here local_take
	row "1 % changed / the same in a local pool, speed" "$(spread)"
	compare true shard_read_here local_read
	row "newest version / the same of a local pool, speed" "$(spread)"
}

three_at_once() {
	local i pids=()
	for i in 1 2 3; do
		REVDEDUP_POOL=$dir/shard$i shard_take &
		pids+=("$!")
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
}

three_in_turn() {
	local i
	for i in 1 2 3; do
		REVDEDUP_POOL=$dir/shard$i shard_take
	done
}

three_new() {
	local i
	for i in 1 2 3; do
		shard_new "shard$i"
	done
}

three_shards() {
	compare three_new three_in_turn three_at_once
	row "three shards: at a time / one after the other, time" "$(spread)"
}

# A host that has nothing of the shard takes it over.
take_over() {
	rm -rf "$dir/other"
	mkdir -m 700 "$dir/other"
	ln -s "ceph:bench/s$shard_nr" "$dir/other/data"
	turn revdedupctl -q take-over --pool "$dir/other"
}

take_overs() {
	local i few=() many=() segments=${shards_segments[$size]} rate
	for ((i = 0; i < rounds; i++)); do
		shard_new
		truncate -s 2M "$dir/few.img"
		revdedupctl -q snapshot few --from "$dir/few.img"
		take_over
		few+=("$usec")
	done
	rate=$(median "${few[@]}")
	row "take-over of a shard with next to nothing, s" "$(calc "$rate / 1e6")" "<= 2" \
		"$rate <= 2e6"
	image sparse "$dir/many.img" $((segments * 2 * mib)) 1
	shard_new
	revdedupctl -q snapshot many --from "$dir/many.img"
	rm -f "$dir/many.img"
	for ((i = 0; i < rounds; i++)); do
		take_over
		many+=("$usec")
	done
	rate=$(calc "$segments * 1e6 / ($(median "${many[@]}") - $(median "${few[@]}"))" %d)
	row "  segments that it makes the catalog of, a second" "$rate" ">= 20000" "$rate >= 20000"
}

# --- the same series, in all of them

# Each KIND has KIND_new, KIND_save VOLUME FILE, KIND_back FILE, which writes the last one to
# $dir/back, and KIND_clear, after which there is room for the next.
declare -A series_titles=(
	[in_rados]="revdedupctl, in RADOS"
	[on_disk]="revdedupctl, on the disk of the OSDs"
	[in_rbd]="rbd import, an image for each version"
	[in_cephfs]="borg on CephFS"
	[in_cephfs_raw]="borg on CephFS, --compression none"
)

in_rados_new() { shard_new series; }
in_rados_save() { revdedupctl -q snapshot "$1" --from "$series/$2"; }
in_rados_back() { revdedupctl -q restore "${1%-*}@latest" --to "$dir/back/out"; }
in_rados_clear() { shard_clear; }

on_disk_new() { REVDEDUP_POOL=$dir/pool; new_pool; }
on_disk_save() { in_rados_save "$@"; }
on_disk_back() { in_rados_back "$@"; }
on_disk_clear() { rm -rf "$REVDEDUP_POOL"; }

in_rbd_new() { :; }
in_rbd_save() { rbd import --no-progress "$series/$2" "bench/$2"; }
in_rbd_back() { rbd export --no-progress "bench/$1" "$dir/back/out"; }
in_rbd_clear() {
	local name
	for name in $(rbd ls bench); do
		rbd rm --no-progress "bench/$name"
	done
}

in_cephfs_new() { borg_init; }
in_cephfs_save() { options='' borg_save "${2%.img}" "$series/$2"; }
in_cephfs_back() { borg_back "${1%.img}"; }
# Its server removes the objects of files some seconds later, and the OSDs may rest meanwhile.
in_cephfs_clear() {
	rm -rf "$repo"
	until [ -z "$(rados -p files-data ls)" ]; do
		sleep 1
	done
}
in_cephfs_raw_new() { in_cephfs_new; }
in_cephfs_raw_save() { options='--compression none' borg_save "${2%.img}" "$series/$2"; }
in_cephfs_raw_back() { in_cephfs_back "$@"; }
in_cephfs_raw_clear() { in_cephfs_clear; }

# Print how many bytes the OSDs have taken, once they have given back what was removed.
on_osds() {
	local osd bytes last=-1
	while :; do
		bytes=0
		for osd in 0 1 2; do
			bytes=$((bytes + $(ceph daemon "osd.$osd" perf dump bluestore |
				field bluestore_allocated)))
		done
		[ "$bytes" != "$last" ] || break
		last=$bytes
		sleep 3
	done
	echo "$bytes"
}

mount_cephfs() { "$cluster" mount files "$dir/cephfs"; }

# What FUSE has in memory goes with the mount.
mount_anew() {
	! mountpoint -q "$dir/cephfs" || {
		umount "$dir/cephfs"
		mount_cephfs
	}
}

# Set no_cephfs to the reason, if there can be none.
make_cephfs() {
	mkdir "$dir/cephfs"
	if ! "$tree/scripts/setup.sh" cephfs; then
		no_cephfs="ceph-mds and ceph-fuse cannot be installed"
	elif ! no_cephfs=$({ "$cluster" fs files 3 && mount_cephfs; } 2>&1); then
		no_cephfs=${no_cephfs:-it cannot be mounted}
	else
		no_cephfs=''
	fi
}

# take_all KIND: the series. Appends to times and backs, and sets bytes.
take_all() {
	local volume file last before took=0
	before=$(on_osds)
	"$1_new" >/dev/null
	while read -r volume file; do
		turn "$1_save" "$volume" "$file"
		took=$((took + usec))
		last=$file
	done <"$series/order"
	times[$1]+=" $took"
	if [ "$1" = on_disk ]; then
		bytes[$1]=$(pool_bytes)
	else
		bytes[$1]=$((($(on_osds) - before) / 3))
	fi
	mount_anew
	time_back "$1_back" "$last"
	backs[$1]+=" $usec"
	cmp "$series/$last" "$(find "$dir/back" -type f)" || die "$1: '$last' has changed"
	rm -rf "$dir/back"
	"$1_clear"
}

# In each round all take turns.
same_series() {
	local series no_cephfs i kind repo=$dir/cephfs/repo
	local -A times=() bytes=() backs=()
	local kinds=(in_rados on_disk in_rbd)
	series=$("$here/series.sh" --size "${shards_series[$size]}")
	make_cephfs
	[ -n "$no_cephfs" ] || kinds+=(in_cephfs_raw in_cephfs)
	for ((i = 0; i < rounds; i++)); do
		for kind in "${kinds[@]}"; do
			take_all "$kind"
		done
	done
	printf '\n%-38s %10s %12s %12s\n' "$(wc -l <"$series/order") versions" "backup, s" \
		"MiB a copy" "last back, s"
	for kind in "${kinds[@]}"; do
		# shellcheck disable=SC2086 # they are lists of numbers
		print_peer "${series_titles[$kind]}" "$(median ${times[$kind]})" \
			"${bytes[$kind]}" "$(median ${backs[$kind]})"
	done
	[ -z "$no_cephfs" ] || echo "borg on CephFS was not measured: $no_cephfs"
	! mountpoint -q "$dir/cephfs" || umount "$dir/cephfs"
	rmdir "$dir/cephfs"
}

part_shards() {
	local cluster=$tree/tests/ceph/cluster.sh shard_nr=0 seed=1 pool=$REVDEDUP_POOL
	"$tree/scripts/setup.sh" ceph
	gcc -std=gnu11 -O2 -o "$dir/bin/rawrados" "$here/rawrados.c" -lrados
	export CLUSTER=$dir/ceph OSD_GIB=40
	# shellcheck disable=SC2064 # of this function, and not of the end
	trap "'$cluster' wipe || :; clean_up" EXIT
	eval "$("$cluster" start 3)"
	"$cluster" pool bench 3
	title "pools in RADOS, three copies (${shards_mib[$size]} MiB, $compression)"
	header
	image halves "$dir/shard.img" $((mib * shards_mib[$size])) 1
	beside_others
	beside_local
	three_shards
	take_overs
	same_series
	export REVDEDUP_POOL=$pool
	"$cluster" wipe
	trap clean_up EXIT
	unset CEPH_CONF CLUSTER OSD_GIB
	rm -rf "$dir"/shard* "$dir/other" "$dir/few.img" "$dir/borg"
}
