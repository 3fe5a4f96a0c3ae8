#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In a guest: have the target write metadata devices on its first three disks, of a volume of
# 64 MiB. make.sh runs it; tests/guest/table/golden.bats knows what is written here.
set -euo pipefail
# shellcheck source=tests/guest/lib/guest.bash
. /revdedup/tests/guest/lib/guest.bash

uuid=11111111-2222-3333-4444-555555555555
sectors=131072

# shellcheck disable=SC2119 # without parameters
load_module
ramdisk 64 2

# volume DISK POOL: on that disk of metadata.
volume() {
	dmsetup create rdt-v --table "0 $sectors revdedup /dev/ram0 /dev/disk/disk$1 $2 \
		4 volume_uuid $uuid pool_uuid $uuid"
	mknodes rdt-v
}
msg() { dmsetup message rdt-v 0 "$@" >/dev/null; }
# checkpoint NR
checkpoint() { dmsetup suspend rdt-v && msg checkpoint "$1" && dmsetup resume rdt-v; }
# write MIB: a block there.
write() { dd if=/dev/zero of=/dev/mapper/rdt-v bs=1M seek="$1" count=1 oflag=direct status=none; }
# batch RANGES
batch() { dmsetup suspend rdt-v && msg begin && msg set "$1" && msg end && dmsetup resume rdt-v; }

# Tracking alone: version 1 is taken, and version 2 is about to be.
volume 0 -
checkpoint 1
msg commit 1 1
write 2
write 33
write 34
checkpoint 2
write 11
dmsetup remove rdt-v

# With a table: a segment in the pool, zeros, and single blocks, of which one has come home.
volume 1 /dev/ram1
checkpoint 1
msg commit 1 7
batch "0,200,p100;200,10,z;300,1,p7;301,1,p9;302,1,p3;1000,1000,z"
dd if=/dev/zero of=/dev/mapper/rdt-v bs=4096 seek=$((0x301)) count=1 oflag=direct status=none
dmsetup remove rdt-v

# With packs: a segment that is one, and blocks of two.
volume 2 /dev/ram1
batch "0,200,k100.0;200,10,k100.30;210,1,k12c.4;211,1,k12c.6;212,2,p0;400,200,z"
dmsetup remove rdt-v
sync
