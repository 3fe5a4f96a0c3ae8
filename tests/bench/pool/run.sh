#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: run.sh [OPTION]... [PART]...
#
# Measure the pool on this machine, and print tables: what was measured, the target for
# it, and whether the target is met. All parts, or these:
#
#   storage  the size of a series of real disks in the pool
#   speed    snapshot and restore beside a raw copy, along the series
#   peers    the series in borg and restic
#   delete   deleting beside plain holes in files, and beside a mark-and-sweep
#   churn    300 versions of a disk of which the last 20 are kept, and what they leave of the
#            data's file
#   memory   the greatest memory of each command
#   packs    what compression gains and costs, alone and with pieces and inline: five
#            series, here and in others
#   pieces   what the number of pieces of a segment, inline deduplication and its index
#            gain and cost: five series
#   index    size, time and mistakes of the index of inline deduplication
#   dedup    what a pass over the whole pool gains and costs
#   forward  reads of the newest and the oldest beside conventional deduplication
#   aged     restore of the newest version after 1, 10, 100 and 300 versions
#   streams  snapshots and restores of 1, 2, 4 and 8 volumes side by side
#   seek     in a guest, restore from a disk with seeks, in the pieces that init chooses
#   send     what a series sends to another pool, beside other programs, and how fast
#   served   disks over NBD, and by bitmaps of QEMU
#   rbd      disks on RBD, beside "rbd export"; what librados itself does
#   shards   pools in RADOS, beside librados, a local pool, "rbd import" and "rbd export", and borg
#            in a CephFS, where there is FUSE
#   rules    the cost of commands in one piece, and in 512 and inline
#   scale    the cost of commands for n and for 4 n: segments, versions, volumes, ...
#
# Speed is a ratio to a raw copy of the same bytes (io_uring, past the page cache,
# ending in fsync). Both take turns in each round, from cold caches. A ratio is the
# median of the rounds; the least and the greatest stand behind it.
#
#   --rounds N   default 5
#   --dir DIR    where to work: on the disk to be measured (default /var/tmp); up to
#                60 GiB are needed there
#   --sparse N   GiB of the sparse disk of memory, rules and scale (default 1024, which
#                takes hours on a slow machine)
#   --compression CODEC
#                how pools store content (default none; of packs: zstd:1)
#   --default    pools as init makes them on a disk that does not seek: zstd:1, 64 pieces, inline
#                (without it: one piece)
#   --pieces P   of pools of aged and streams, beside 1 (default auto)
#   --series S   of packs, pieces, index, dedup and scale: only these, such as "nights layouts"
#                (default all of them; those of packs are "demo disk disks layouts database", of
#                index "disks layouts database large sqlite", of dedup "disks layouts fleet
#                trimmed find", of scale "versions volumes fan_in pieces aged volume")
#   --size demo  packs, pieces, index, forward, aged, streams, seek, served, rbd, shards and
#                memory on small disks, in minutes (with --sparse 8): to try the programs, not to
#                measure
#   --check      exit with 1 if a target is missed
#
# Takes more than an hour, most of it for borg, restic and the sparse disk. Needs
# root. Installs the Debian packages that it lacks.
tree=$(realpath "${BASH_SOURCE[0]%/*}/../../..")
here=$tree/tests/bench/pool
# shellcheck source=scripts/lib.sh
. "$tree/scripts/lib.sh"

all=(storage speed peers delete churn memory packs pieces index dedup forward aged streams seek send
	served rbd shards rules scale)
pool_options=(--pieces 1 --dedup reverse)
rounds=5 compression=none where=/var/tmp sparse_gib=1024 check=false parts=()
pieces=auto size=full only_series=''
while [ $# -gt 0 ]; do
	# shellcheck disable=SC2034 # parts use "pieces"
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=true ;;
	--rounds) rounds=${2:?how many rounds?}; shift ;;
	--dir) where=${2:?which directory?}; shift ;;
	--default) compression=zstd:1 pool_options=(--pieces 64 --dedup inline) ;;
	--compression) compression=${2:?none or zstd?}; shift ;;
	--pieces) pieces=${2:?how many pieces?}; shift ;;
	--series) only_series=${2:?which series?}; shift ;;
	--size) size=${2:?full or demo?}; shift ;;
	--sparse) sparse_gib=${2:?how many GiB?}; shift ;;
	-*) usage_error "no such option: '$1'" ;;
	*)
		[[ " ${all[*]} " == *" $1 "* ]] || usage_error "no such part: '$1'"
		parts+=("$1")
		;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of rounds: '$rounds'"
[[ $size =~ ^(full|demo)$ ]] || usage_error "no such size: '$size'"
[[ $sparse_gib =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of GiB: '$sparse_gib'"
[ "$(id -u)" -eq 0 ] || die "it drops caches and mounts file systems: run it as root"
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")

"$tree/scripts/setup.sh" build pool bench
dir=$(mktemp -d "$where/revdedup-bench.XXXXXX")
# The other file systems and devices that something is measured on.
mounts=() loops=() shm=''
clean_up() {
	local mount
	[ ${#loops[@]} -eq 0 ] || losetup -d "${loops[@]}" || :
	for mount in "${mounts[@]}"; do
		# What was interrupted may still have a file open.
		umount "$mount" || umount --lazy "$mount" || :
	done
	rm -rf "$dir" ${shm:+"$shm"}
}
trap clean_up EXIT
trap 'exit 130' INT TERM

note "building"
make -s -C "$tree/userspace" O="$dir/bin"
PATH=$dir/bin:$PATH
for program in rawcopy image neighbour punch room held; do
	gcc -std=gnu11 -O2 -o "$dir/bin/$program" "$here/$program.c" -luring
done
gcc -std=gnu11 -O2 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I"$tree/userspace" -I"$tree" \
	-I"$tree/userspace/shim" -o "$dir/bin/limit" "$here/limit.c" "$dir"/bin/pool/data/*.o \
	"$dir"/bin/{base,kernel}/*.o -lcrypto -lxxhash -lzstd -luring -luuid -lpthread
gcc -std=gnu11 -O2 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I"$tree/userspace" -I"$tree" \
	-I"$tree/userspace/shim" -o "$dir/bin/hints" "$here/hints.c" \
	"$dir"/bin/pool/{index,catalog,data}/*.o "$dir"/bin/{base,kernel}/*.o \
	-lcrypto -lxxhash -lzstd -luring -luuid -lsqlite3 -lpthread
gcc -std=gnu11 -O2 -o "$dir/bin/rule" "$tree/tests/pool/rule.c" -lcrypto -lzstd
gcc -std=gnu11 -O2 -o "$dir/bin/vmcentric" "$tree/tests/sim/vmcentric.c" -lcrypto
export REVDEDUP_POOL=$dir/pool
# How much is not as it should be; row() counts.
short=0

# shellcheck source=tests/bench/pool/measure.bash
. "$here/measure.bash"
for part in "${all[@]}"; do
	[[ " ${parts[*]} " == *" $part "* ]] || continue
	note "$part"
	# shellcheck source=/dev/null
	. "$here/$part.bash"
	"part_$part"
	rm -rf "$REVDEDUP_POOL"
done
[ "$short" -eq 0 ] || note "$short short of what is wanted"
! $check || [ "$short" -eq 0 ]
