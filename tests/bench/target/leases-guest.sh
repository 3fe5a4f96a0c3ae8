#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: leases-guest.sh DEVICES GIB ROUNDS
#
# The guest's part of leases.sh: time a command that frees 8 MiB of a pool, in ROUNDS rounds
# without and with DEVICES devices of GIB that read the pool. Prints a line for each:
#
#   time none|leases ROUND MICROSECONDS
#   devices NUMBER GIB
#
# Each device maps a version that is zeros but for 64 MiB of places in the pool, all over it.
here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tests/guest/lib/guest.bash
. "$here/../../guest/lib/guest.bash"

devices=$1 gib=$2 rounds=$3
PATH=/revdedup/ctl:$PATH
export REVDEDUP_CONFIG=/tmp/rdt-etc REVDEDUP_POOL=/tmp/rdt-pool/pool

now_us() { echo $((10#${EPOCHREALTIME/./})); }

# rounds_of NAME: each frees a version that has nothing in common with the one behind it.
rounds_of() {
	local round from to nr
	for ((round = 0; round < rounds; round++)); do
		dd if=/dev/urandom of=/tmp/rdt-pool/img bs=1M count=8 status=none
		revdedupctl -q snapshot img --from /tmp/rdt-pool/img
		nr=$(revdedupctl list img --json |
			sed -n 's/.*"number": \([0-9]*\).*/\1/p' | head -n 1)
		dd if=/dev/urandom of=/tmp/rdt-pool/img bs=1M count=8 status=none
		revdedupctl -q snapshot img --from /tmp/rdt-pool/img
		from=$(now_us)
		revdedupctl -q delete "img@$nr"
		to=$(now_us)
		echo "time $1 $round $((to - from))"
		revdedupctl stats --json | grep -q '"bytes_queued": 0,'
	done
}

# shellcheck disable=SC2119 # without parameters
load_module
ramdisk 3072 1
mkdir -p /tmp/rdt-pool "$REVDEDUP_CONFIG"
mkfs.ext4 -q -m 0 /dev/ram0
mount /dev/ram0 /tmp/rdt-pool
revdedupctl -q init --compression none --pieces 1 --size 2G "$REVDEDUP_POOL"
truncate -s "${gib}G" /tmp/rdt-pool/big
for ((i = 0; i < 64; i++)); do
	dd if=/dev/urandom of=/tmp/rdt-pool/big bs=1M count=1 seek=$((i * gib * 16)) \
		conv=notrunc status=none
done
revdedupctl -q snapshot big --from /tmp/rdt-pool/big

rounds_of none
for ((i = 0; i < devices; i++)); do
	revdedupctl -q map big@1 "rdt-big$i"
done
echo "devices $devices $gib"
rounds_of leases
