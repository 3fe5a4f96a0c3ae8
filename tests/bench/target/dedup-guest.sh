#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: dedup-guest.sh ROUNDS RATE [PART]
#
# The guest's part of dedup.sh: measure in ROUNDS rounds what deduplication of volumes in use
# costs, at RATE beside writers. Prints lines for dedup.awk. SECONDS are for a GiB, where fio
# or dedisgen did the I/O:
#
#   time ENGINE WORKLOAD DEVICE ROUND SECONDS
#   p99 WORKLOAD DEVICE ROUND MICROSECONDS
#   beside WORKLOAD ROUND MIB MICROSECONDS CPU	what deduplication compared, beside writers, and
#						the microseconds of a processor that it took,
#						with its begin and its end
#   eight VOLUME idle|again|busy ROUND IOPS
#   find DISKS ROUND raw|dedup|nothing MICROSECONDS MIB
#   cold VERSIONS WRITES COLD GIVEN-BACK CAME-HOME	blocks; --cold 0 finds all cold
#   memory SEGMENTS KIB
#
# lib.bash says what makes the numbers comparable; and here
#
# - volumes are thin LVs of one thin pool, attached or not; dm-linear is an LV beside it; all
#   on one ramdisk. The pool is a ramdisk of its own, not a file: no file system is measured
# - hot spots are in the first part of a volume. What deduplication reads meanwhile is the
#   cold rest of it: by default a segment that was written since the last snapshot is left
#   alone, so it has nothing else to do
# - what was given back is copied home again after each round
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"
# shellcheck source=tests/guest/lib/lvm.bash
. "$here/../../guest/lib/lvm.bash"
# shellcheck source=tests/bench/target/lib.bash
. "$here/lib.bash"

rounds=$1 rate=$2 part=${3:-}
bin=/revdedup/bin
dist=$here/dist
mib_blocks=256		# blocks of 4 KiB

hot_mib=64		# that is written to, of a volume
hot_writes=65536	# peak load; dm-vdo gets a part of them, as it is much slower
vdo_writes=4096
nominal=1000		# writes a second of nominal load, and how many of them
nominal_writes=3000
eight_seconds=8
read_mib=128
first_mib=64		# of which each chunk of the thin pool is written to once
chunk_bytes=65536
find_mib=128
slow_ms=20		# that a disk takes for a read

# --- volumes

now_us() { echo $((10#${EPOCHREALTIME/./})); }

# write_all DEVICE MIB SEED: each block of it once, with contents of DEDISbench.
write_all() {
	"$bin/dedisgen" --dist "$dist" --pattern sequential --blocks $(($2 * mib_blocks)) \
		--seed "$3" "$1" >/dev/null
}

# thin_lv NAME MIB
thin_lv() { lvcreate -qq --yes --type thin --virtualsize "$2M" --thinpool thin --name "$1" "$vg"; }

# volume NAME MIB: attached and full, with a version.
volume() {
	thin_lv "$1" "$2"
	revdedupctl -q attach "$vg/$1"
	write_all "$(device_of "$1")" "$2" "$((10#$(cksum <<<"$1" | cut -d ' ' -f 1) % 1000))"
	revdedupctl -q snapshot "$vg/$1"
}

# peers NAME MIB: LVs that are not attached: NAME-thin, NAME-a and NAME-b.
peers() {
	thin_lv "$1-thin" "$2"
	write_all "/dev/$vg/$1-thin" "$2" 1
	local name
	for name in a b; do
		lvcreate -qq --yes -Wn -Zn --size "$2M" --name "$1-$name" $vg
		write_all "/dev/$vg/$1-$name" "$2" 1
	done
}

# dedup VOLUME...: as far as there is anything to do.
dedup() { revdedupctl -q offload "$@" --cold 0 --force --yes; }

# warm_up VOLUME...: from here on they have a table, as each volume has that was deduplicated.
warm_up() {
	local name
	dedup "$@"
	for name; do
		revdedupctl -q recall "$name"
	done
}

# --- deduplication beside writers

# pool_sectors: print how many were read from the pool so far. Nothing but deduplication reads
# there in the parts that ask.
pool_sectors() { awk '{ print $3 }' "/sys/dev/block/$(dmsetup info -c --noheadings \
	--separator : -o major,minor rdt-pool)/stat"; }

# children_us: of the processor, of all processes that this shell has waited for, and theirs. A tick
# has 10 ms.
children_us() { awk '{ print ($16 + $17) * 10000 }' "/proc/$BASHPID/stat"; }

has_read() { [ "$(pool_sectors)" -gt "$1" ]; }

# Until a file goes: a run that comes to the end of the last volume is followed by another one.
# As nice as the unit that is shipped.
dedup_on() {
	while [ -e "$tmp/go" ]; do
		nice -n 10 revdedupctl -q offload "$@" --cold 0 --force --yes \
			--rate "$rate" &
		echo $! >"$tmp/go"
		wait $! || :
	done
}

# dedup_start VOLUME...: until dedup_stop.
dedup_start() {
	local sectors
	sectors=$(pool_sectors)
	touch "$tmp/go"
	dedup_on "$@" &
	beside=$!
	retry 600 0.1 has_read $((sectors + 4096))
	beside_sectors=$(pool_sectors) beside_us=$(now_us)
}

# dedup_stop WORKLOAD ROUND VOLUME...: and have all home again, as if it had not been.
dedup_stop() {
	local name pid said cpu
	said="$1 $2 $((($(pool_sectors) - beside_sectors) / 2048)) $(($(now_us) - beside_us))"
	pid=$(<"$tmp/go")
	rm "$tmp/go"
	kill -TERM "$pid" || :
	children_us >"$tmp/cpu"
	cpu=$(<"$tmp/cpu")
	wait "$beside" || :
	children_us >"$tmp/cpu"
	echo "beside $said $(($(<"$tmp/cpu") - cpu))"
	for name in "${@:3}"; do
		revdedupctl -q recall "$name"
	done
}

# generate WORKLOAD DEVICE ROUND PATH OPTION...: measure writes to hot spots.
generate() {
	"$bin/dedisgen" --dist "$dist" --blocks $((hot_mib * mib_blocks)) --seed $((7 + $3)) \
		"${@:5}" "$4" | awk -v workload="$1" -v device="$2" -v round="$3" '{
			for (i = 1; i < NF; i += 2)
				is[$i] = $(i + 1)
			print "time dedis", workload, device, round,
				is["seconds"] / is["writes"] * 262144
			print "p99", workload, device, round, is["p99"]
		}'
}

# --- writes to hot spots

# hot_one WORKLOAD DEVICE ROUND OPTION...
hot_one() {
	local path
	path=$(device_of hot)
	case $2 in
	linear-a | linear-b) path=/dev/$vg/hot-${2#linear-} ;;
	thin) path=/dev/$vg/hot-thin ;;
	vdo) path=/dev/mapper/rdt-vdo ;;
	busy) dedup_start $vg/hot ;;
	esac
	generate "$1" "$2" "$3" "$path" "${@:4}"
	[ "$2" != busy ] || dedup_stop "$1" "$3" $vg/hot
}

part_hot() {
	local devices=(linear-a idle thin busy again linear-b) round i name
	peers hot $hot_mib
	volume hot 160
	if has_vdo; then
		devices+=(vdo)
		write_all /dev/mapper/rdt-vdo $hot_mib 1
	fi
	warm_up $vg/hot
	# All segments that are written to are dirty from here on.
	generate warm-up idle 0 "$(device_of hot)" >/dev/null
	for ((round = 0; round < rounds; round++)); do
		for ((i = 0; i < ${#devices[@]}; i++)); do
			name=${devices[(i + round) % ${#devices[@]}]}
			[ "$name" = vdo ] || hot_one hot "$name" $round --count $hot_writes
		done
		! has_vdo || hot_one hot vdo $round --count $vdo_writes
		for ((i = 0; i < ${#devices[@]}; i++)); do
			name=${devices[(i + round) % ${#devices[@]}]}
			hot_one nominal "$name" $round --rate $nominal --count $nominal_writes
		done
	done
}

# --- eight volumes at once

# eight_writers ROUND HOW
eight_writers() {
	local i pids=()
	for i in 1 2 3 4 5 6 7 8; do
		"$bin/dedisgen" --dist "$dist" --blocks $((4 * mib_blocks)) --writer "$i" \
			--seconds $eight_seconds "$(device_of "eight$i")" >"$tmp/writer$i" &
		pids+=($!)
	done
	wait "${pids[@]}"
	for i in 1 2 3 4 5 6 7 8; do
		awk -v what="$i $2 $1" '{ print "eight", what, $6 }' "$tmp/writer$i"
	done
}

part_eight() {
	local i round how volumes=()
	for i in 1 2 3 4 5 6 7 8; do
		volume "eight$i" 40
		volumes+=("$vg/eight$i")
	done
	warm_up "${volumes[@]}"
	eight_writers 0 warm-up >/dev/null
	for ((round = 0; round < rounds; round++)); do
		for how in idle busy again; do
			[ $how != busy ] || dedup_start "${volumes[@]}"
			eight_writers $round $how
			[ $how != busy ] || dedup_stop eight $round "${volumes[@]}"
		done
	done
}

# --- reads, and what is beside them on the same volume

part_reads() {
	local engine round devices=(linear-a linear-b pool-words home thin)
	volume reads $read_mib
	dedup $vg/reads
	volume home $read_mib
	warm_up $vg/home
	thin_lv reads-thin $read_mib
	write_all /dev/$vg/reads-thin $read_mib 1
	dm_create rdt-pool-a "0 $((read_mib * 2048)) linear /dev/mapper/rdt-pool 0"
	dm_create rdt-pool-b "0 $((read_mib * 2048)) linear /dev/mapper/rdt-pool 0"
	at=([linear-a]=pool-a [linear-b]=pool-b [pool-words]=$(device_of reads)
		[home]=$(device_of home) [thin]=/dev/$vg/reads-thin)
	if has_vdo; then
		devices+=(vdo)
		write_all /dev/mapper/rdt-vdo $read_mib 1
	fi
	for ((round = 0; round < rounds; round++)); do
		for engine in "${engines[@]}"; do
			run "$engine" randread-4k $round "${devices[@]}" <<-END
			rw=randread
			bs=4k
			norandommap
			size=${read_mib}m
			io_size=$((ios_4k * 4))k
			END
			run "$engine" read-1m $round "${devices[@]}" <<-END
			rw=read
			bs=1m
			iodepth=4
			size=${read_mib}m
			io_size=${ios_1m}m
			END
			run "$engine" randwrite-4k $round home thin <<-END
			rw=randwrite
			bs=4k
			norandommap
			size=${read_mib}m
			io_size=$((ios_4k * 4))k
			END
		done
	done
}

# --- the first write to a chunk

# has_nothing NAME: was all that the thin pool had of a volume given back?
has_nothing() {
	local sectors
	sectors=$(dmsetup status "${vg//-/--}-$1" | awk '{ print $4 }')
	[ "$sectors" -eq 0 ] || {
		echo "the thin pool still has $sectors sectors of '$1'" >&2
		return 1
	}
}

part_first() {
	local engine round name
	lvcreate -qq --yes -Wn -Zn --size ${first_mib}M --name first-a $vg
	lvcreate -qq --yes -Wn -Zn --size ${first_mib}M --name first-b $vg
	write_all /dev/$vg/first-a $first_mib 1
	write_all /dev/$vg/first-b $first_mib 1
	volume first $first_mib
	at=([linear-a]=/dev/$vg/first-a [linear-b]=/dev/$vg/first-b
		[given-back]=$(device_of first) [thin-new]=/dev/$vg/first-thin)
	make_log $((first_mib * 1048576 / chunk_bytes)) $chunk_bytes
	for ((round = 0; round < rounds; round++)); do
		for engine in "${engines[@]}"; do
			revdedupctl -q snapshot $vg/first
			dedup $vg/first
			has_nothing first
			thin_lv first-thin $first_mib
			for name in linear-a given-back thin-new linear-b; do
				replay "$engine" first-4k $round $name
			done
			lvremove -qq --yes $vg/first-thin
		done
	done
}

# --- finding and comparing

# find_one DISKS ROUND: reads side by side, deduplication, and one that finds nothing to do.
find_one() {
	local from to what
	from=$(now_us)
	dd if="$(device_of find)" of=/dev/null bs=1M count=$find_mib iflag=direct status=none &
	dd if=/dev/mapper/rdt-slow-pool of=/dev/null bs=1M count=$find_mib iflag=direct status=none
	wait $!
	to=$(now_us)
	echo "find $1 $2 raw $((to - from)) $find_mib"
	for what in dedup nothing; do
		from=$(now_us)
		dedup slow/find
		to=$(now_us)
		echo "find $1 $2 $what $((to - from)) $find_mib"
	done
	revdedupctl -q recall slow/find
}

# disks MS: reads take so long.
disks() {
	local name disk
	for name in slow-pv slow-pool; do
		dmsetup suspend "rdt-$name"
		disk=${disk_of[$name]}
		dmsetup load "rdt-$name" \
			--table "0 $disk_sectors delay $disk 2048 $1 $disk 2048 0"
		dmsetup resume "rdt-$name"
	done
}

part_find() {
	local vg=slow round disk_sectors
	local -A disk_of=([slow-pv]=/dev/ram3 [slow-pool]=/dev/ram4)
	modprobe dm-delay
	disk slow-pv /dev/ram3 1
	disk slow-pool /dev/ram4 1
	disk_sectors=$(sectors /dev/mapper/rdt-slow-pv)
	vgcreate -qq $vg /dev/mapper/rdt-slow-pv
	lvcreate -qq --yes --type thin-pool --size 512M --chunksize 64k --name thin $vg
	export REVDEDUP_POOL=/tmp/rdt-pool/slow
	revdedupctl -q init --compression none --pieces 1 \
		--data /dev/mapper/rdt-slow-pool $REVDEDUP_POOL
	volume find $find_mib
	for ((round = 0; round < rounds; round++)); do
		find_one "at-once" $round
		disks $slow_ms
		find_one "${slow_ms}-ms" $round
		disks 0
	done
	export REVDEDUP_POOL=/tmp/rdt-pool/pool
}

# --- what is cold

# nr_pool NAME: how many blocks of a volume lie in the pool.
nr_pool() { revdedupctl status "$vg/$1" --json | json blocks_away; }

# cold_one VERSIONS WRITES: a volume that gets so many versions, with so many writes before each,
# most of them to its hot spots. Then deduplication, as many writes again of the same stream, and
# both again, but without a look at what is cold.
cold_one() {
	local i mib=128 name=cold_$1_$2 cold before
	local stream=("$bin/dedisgen" --dist "$dist" --blocks $((mib * mib_blocks)) --seed 3)
	volume "$name" $mib
	for ((i = 0; i < $1; i++)); do
		"${stream[@]}" --skip $((i * $2)) --count "$2" "$(device_of "$name")" >/dev/null
		revdedupctl -q snapshot "$vg/$name"
	done
	for cold in "$1" 0; do
		revdedupctl -q offload "$vg/$name" --cold "$cold" --force --yes
		before=$(nr_pool "$name")
		"${stream[@]}" --skip $(($1 * $2)) --count $(($1 * $2)) "$(device_of "$name")" \
			>/dev/null
		echo "cold $1 $2 $cold $before $((before - $(nr_pool "$name")))"
		revdedupctl -q snapshot "$vg/$name"
	done
}

# The default of --cold is 24.
part_cold() {
	cold_one 4 32
	cold_one 24 32
	cold_one 24 128
}

# --- memory

# A device of 16 TiB without a disk, of which the first part reads the pool by words; then a
# write to each segment of that part takes a page each, more than there is room for.
part_memory() {
	local nr_segs=$((1 << 23)) with_pages=20480 before after
	modprobe dm-zero
	dm_create rdt-nothing "0 $((nr_segs * 4096)) zero"
	dm_create rdt-big "0 $((nr_segs * 4096)) revdedup /dev/mapper/rdt-nothing /dev/ram6 \
/dev/mapper/rdt-pool"
	"$bin/pattern" print whole $((with_pages * 512)) $((128 * mib_blocks)) |
		"$bin/settable" rdt-big
	make_log $with_pages 2097152
	fio --name=big --rw=write --read_iolog="$tmp/log" --replay_redirect=/dev/mapper/rdt-big \
		--replay_no_stall=1 --direct=1 --ioengine=libaio --iodepth=16 --thread >/dev/null
	before=$(memory_free)
	dm_remove rdt-big
	after=$(memory_free)
	echo "memory $nr_segs $((after - before))"
}

# --- main

has_vdo() { [ -b /dev/mapper/rdt-vdo ]; }

# disk NAME RAMDISK GIB: a part of it, as all ramdisks are as large. LVM must not find the same
# label on both, so it does not begin where the ramdisk does.
disk() { dm_create "rdt-$1" "0 $(($3 << 21)) linear $2 2048"; }

# dm-vdo without compression: what it saves is by deduplication then.
make_vdo() {
	[ -x $bin/vdoformat ] && modprobe dm-vdo 2>/dev/null || return 0
	disk vdo-disk /dev/ram5 6
	$bin/vdoformat --force --logical-size=1G --slab-bits=13 --uds-memory-size=0.25 \
		/dev/mapper/rdt-vdo-disk >/dev/null
	dm_create rdt-vdo "0 $((1 << 21)) vdo V4 /dev/mapper/rdt-vdo-disk $((6 << 18)) 4096 32768 \
16380 deduplication on compression off"
}

# PV, pool, the pool's directory; the first two of part find; dm-vdo; metadata of part memory.
make_all() {
	ramdisk $((48 << 10)) 7
	modprobe -a dm-thin-pool crc32c-intel
	# shellcheck disable=SC2119 # no parameters
	load_module
	disk pv /dev/ram0 3
	disk pool /dev/ram1 2
	disk catalog /dev/ram2 1
	vgcreate -qq $vg /dev/mapper/rdt-pv
	lvcreate -qq --yes --type thin-pool --size 2G --chunksize 64k --name thin $vg
	mkdir -p /tmp/rdt-pool "$REVDEDUP_CONFIG"
	mkfs.ext4 -q /dev/mapper/rdt-catalog
	mount /dev/mapper/rdt-catalog /tmp/rdt-pool
	revdedupctl -q init --compression none --pieces 1 \
		--data /dev/mapper/rdt-pool "$REVDEDUP_POOL"
	[[ ! $part =~ ^(|hot|reads)$ ]] || make_vdo
}

# The guest ends with this; LVM's devices are nothing that lib.bash could remove.
trap - EXIT
huge_pages 2
make_all
for name in find hot eight reads first cold memory; do
	if [ -z "$part" ] || [ "$part" = $name ]; then
		"part_$name"
	fi
done
