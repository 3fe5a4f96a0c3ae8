#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Volumes with blocks in a pool, of which versions are taken to that pool and to another: what is
# said of both, what is freed meanwhile, killed at each step, and written anywhere.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

other=/tmp/rdt-pool/other
new=$(device_of new)
pid=

setup() {
	lvm_setup 400
	revdedupctl -q init --compression none --size 1G $other
}

teardown() {
	[ -z "$pid" ] || kill -KILL $pid 2>/dev/null || :
	lvm_teardown
}

# to_other COMMAND...: with the other pool.
to_other() { revdedupctl -p $other "$@"; }

# is_in_other VERSION FILE
is_in_other() {
	to_other -q restore "$1" --yes --to /tmp/rdt-pool/out
	cmp "$2" /tmp/rdt-pool/out
}

# stat KEY [OPTION...]: of the pool, from stats.
stat_of() {
	local key=$1
	shift
	revdedupctl "$@" stats --json | json "$key"
}

# away [MIB]: vm1 with a version, and new, a clone of it whose blocks stay in the pool. Two of
# its blocks were written.
away() {
	some_volume vm1 "${1:-16}"
	revdedupctl -q clone --no-hydrate $vg/vm1@1 $vg/new
	dd if=/dev/urandom of="$new" bs=4k seek=700 count=2 oflag=direct conv=notrunc status=none
}

# frozen OPTION...: take a version of new, and stop before it is copied; sets pid.
frozen() {
	stopped live-frozen "$@" -q snapshot $vg/new
}

@test "two-pools: a volume reads one pool, and has its versions in another" {
	away 32
	revdedupctl status $vg/new --json | tee /tmp/said
	[ "$(json blocks_pool </tmp/said)" = $REVDEDUP_POOL ]
	grep -q '"version_pool": null' /tmp/said
	to_other snapshot $vg/new --json | tee /tmp/said
	[ "$(json reason </tmp/said)" = "it is the first version" ]
	is_in_other $vg/new@1 "$new"
	# Neither pool is taken for the other one.
	cat "$REVDEDUP_CONFIG/volumes/${new##*/}"
	grep -qx "pool=$REVDEDUP_POOL" "$REVDEDUP_CONFIG/volumes/${new##*/}"
	revdedupctl status $vg/new --json | tee /tmp/said
	[ "$(json blocks_pool </tmp/said)" = $REVDEDUP_POOL ]
	[ "$(json version_pool </tmp/said)" = $other ]
	run revdedupctl -v status $vg/new
	echo "$output"
	[[ $output == *"from the pool '$REVDEDUP_POOL' only"* ]]
	[[ $output == *"reads blocks from the pool $REVDEDUP_POOL"* ]]
	[[ $output == *"last version in the pool $other"* ]]
	# The next one has what was written since, also after a boot.
	down "$new"
	revdedupctl attach --all
	dd if=/dev/urandom of="$new" bs=4k seek=5000 count=1 oflag=direct conv=notrunc status=none
	to_other snapshot $vg/new --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	[ "$(json blocks_changed </tmp/said)" = 1 ]
	is_in_other $vg/new@2 "$new"
	# A version in the first pool, and again in the other one.
	revdedupctl -q snapshot $vg/new
	is_version $vg/new@1 "$new"
	to_other snapshot $vg/new --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = full ]
	is_in_other $vg/new@3 "$new"
	# Blocks of two pools cannot be in one table.
	run to_other rollback $vg/new@1 --yes
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"blocks of '$vg/new' lie in the pool '$REVDEDUP_POOL'"*"recall"* ]]
	[ "$(to_other list $vg/new | grep -c "$vg/new@")" -eq 3 ]
	# The first pool is lost; what the other one has is whole.
	cp "$new" /tmp/rdt-pool/was
	revdedupctl -q detach $vg/new --force --yes
	rm -r "$REVDEDUP_POOL"
	is_in_other $vg/new@3 /tmp/rdt-pool/was
	lvremove -qq --yes $vg/new
	to_other -q clone $vg/new@3 $vg/new
	cmp "$new" /tmp/rdt-pool/was
	retry 300 0.3 is_home new
	cmp /dev/$vg/new /tmp/rdt-pool/was
	to_other -q check
}

# An interrupted command had made a version in the other pool, and not said so on this host.
@test "two-pools: a version that the volume's file does not name is not what clean segments are of" {
	local how status
	some_volume vm1 16
	for how in EIO kill; do
		dd if=/dev/urandom of="$vol" bs=4k seek=700 count=1 oflag=direct conv=notrunc \
			status=none
		status=0
		REVDEDUP_FAIL=attachment-rename=$how to_other -q snapshot $vg/vm1 3>&- || status=$?
		[ "$status" -ne 0 ]
		# It cleans up, and makes none.
		REVDEDUP_FAIL=freeze-prepared=EIO run to_other snapshot $vg/vm1
		[ "$status" -eq 1 ]
		# Both pools have as many of it.
		[ "$(to_other list $vg/vm1 --json | grep -o "$vg/vm1@[0-9]*" | sort -u)" = \
			"$(revdedupctl list $vg/vm1 --json | grep -o "$vg/vm1@[0-9]*" | sort -u)" ]
		revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
		is_version $vg/vm1@latest "$vol"
		[ "$(json mode </tmp/said)" = changed ]
		[ "$(json blocks_changed </tmp/said)" = 1 ]
	done
	revdedupctl -q check
	to_other -q check
}

@test "two-pools: without the pool of its blocks a volume is not copied" {
	away
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/mine
	run to_other snapshot $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"in the pool '$REVDEDUP_POOL' while they are copied to '$other'"* ]]
	[[ $output == *"no version was made"* ]]
	# Nor is another pool at its place the one that the device reads.
	revdedupctl -q init --compression none --size 256M "$REVDEDUP_POOL"
	run to_other snapshot $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"in another pool than '$other' and '$REVDEDUP_POOL'"*"no version was made"* ]]
	run revdedupctl snapshot $vg/new
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"in another pool than"*"no version was made"* ]]
	[ "$(dm_devices | grep -c '^revdedup')" -eq 4 ]
	rm -r "$REVDEDUP_POOL"
	mv /tmp/rdt-pool/mine "$REVDEDUP_POOL"
	to_other -q snapshot $vg/new
	is_in_other $vg/new@1 "$new"
}

# freed_meanwhile OPTION...: what is freed in the pool that the volume reads while it is copied.
freed_meanwhile() {
	local i queued held status=0
	away
	dd if=/dev/urandom of=/tmp/rdt-pool/img bs=1M count=16 status=none
	revdedupctl -q snapshot img --from /tmp/rdt-pool/img
	cp "$new" /tmp/rdt-pool/was
	frozen "$@"
	# What the view does not read goes at once.
	revdedupctl -q delete img@1
	[ "$(stat_of bytes_queued)" = 0 ]
	[ "$(stat_of bytes_unique)" -lt $((18 << 20)) ]
	# A newer version of its origin has nearly all that the origin has, in other places. The
	# volume follows, and the view does not.
	for i in {0..7}; do
		dd if=/dev/urandom of="$vol" bs=4k seek=$((i * 512 + 9)) count=1 oflag=direct \
			conv=notrunc status=none
	done
	revdedupctl -v snapshot $vg/vm1 >/tmp/said 2>&1
	queued=$(stat_of bytes_queued)
	cmp "$new" /tmp/rdt-pool/was
	# Of the origin only the view is left.
	dd if=/dev/urandom of="$new" bs=1M count=16 oflag=direct conv=notrunc status=none
	is_home new
	revdedupctl -q delete $vg/vm1@1
	held=$(stat_of versions_held)
	# It takes what is free.
	revdedupctl -q snapshot img --from /tmp/rdt-pool/img
	echo 3 >/proc/sys/vm/drop_caches
	kill -CONT $pid
	wait $pid || status=$?
	[ "$status" -eq 0 ]
	revdedupctl "$@" -q restore $vg/new@1 --yes --to /tmp/rdt-pool/out
	cmp /tmp/rdt-pool/was /tmp/rdt-pool/out
	# That was kept until then, and now it goes.
	cat /tmp/said
	grep -q "blocks that it reads are freed later" /tmp/said
	[ "$(grep -c "cannot be reached" /tmp/said)" -eq 0 ]
	[ "$queued" -gt $((8 << 20)) ]
	[ "$held" = 1 ]
	[ "$(stat_of versions_held)" = 0 ]
	[ "$(stat_of bytes_queued)" = 0 ]
	revdedupctl -q check
	revdedupctl -q scrub
}

@test "two-pools: what is copied to another pool stays where it is, and the rest is freed" {
	freed_meanwhile -p $other
	to_other -q check
	to_other -q scrub
}

# bats test_tags=soak
@test "two-pools: what is copied within a pool stays where it is, and the rest is freed" {
	freed_meanwhile -p "$REVDEDUP_POOL"
}

# bats test_tags=soak
@test "two-pools: killed at each step the next version is right, and nothing is kept" {
	local nr name status
	away
	touch /tmp/log
	REVDEDUP_FAIL_LOG=/tmp/log to_other -q snapshot $vg/new
	grep -n . /tmp/log | tr : ' ' | awk '!seen[$2]++' >/tmp/steps
	cat /tmp/steps
	grep -q live-frozen /tmp/steps
	grep -q lease-add /tmp/steps
	while read -r nr name <&4; do
		case $name in
		freeze-* | live-* | lease-* | snapshot-finish) ;;
		*) continue ;;
		esac
		echo "# $name"
		dd if=/dev/urandom of="$new" bs=4k seek=$((nr * 7)) count=3 oflag=direct conv=notrunc \
			status=none
		status=0
		REVDEDUP_FAIL=$name=kill to_other -q snapshot $vg/new 3>&- || status=$?
		[ "$status" -eq 137 ]
		timeout 30 dd if="$new" of=/dev/null bs=4k count=1 iflag=direct status=none
		to_other -q snapshot $vg/new
		is_in_other $vg/new@latest "$new"
		[ "$(dm_devices | grep -c '^revdedup')" -eq 4 ]
	done 4</tmp/steps
	# One that is killed last leaves a lease without a device.
	run env REVDEDUP_FAIL=lease-add=kill revdedupctl -p $other snapshot $vg/new
	revdedupctl -q detach $vg/new --force --yes
	revdedupctl -q delete $vg/vm1@1
	revdedupctl -q snapshot $vg/vm1
	[ "$(stat_of versions_held)" = 0 ]
	nothing_held
	revdedupctl -q check
	to_other -q check
}

# each_8_mib FILE KIB: write so much of random content at each 8 MiB.
each_8_mib() {
	fio --name=each --filename="$1" --size=9G --ioengine=psync --direct=1 --bs=$2k \
		--rw=write:$((8192 - $2))k --io_size=$((1152 * $2))k --refill_buffers \
		--randrepeat=0 >/tmp/fio || {
		cat /tmp/fio
		return 1
	}
}

# vg_free: print how many MiB the group has.
vg_free() { vgs --noheadings --units m --nosuffix -o vg_free $vg | awk '{ print int($1) }'; }

# room_is_asked_for: without room for 1,152 pages nothing is begun; they may go to the group.
room_is_asked_for() {
	local small=/tmp/rdt-mnt/pool free
	make_lv small 64
	mkfs.ext4 -q -m 0 /dev/$vg/small
	mkdir -p /tmp/rdt-mnt
	mount /dev/$vg/small /tmp/rdt-mnt
	revdedupctl -q init --compression none --size 64M --reserve 1M $small
	free=$(df --output=avail -k /tmp/rdt-mnt | tail -n 1)
	fallocate -l $((free - 3072))k /tmp/rdt-mnt/full
	# 4 MiB are for data, and 32 stay free.
	lvcreate -qq --yes --size $(($(vg_free) - 36))M --name fill $vg
	run revdedupctl -p $small snapshot $vg/new --cow-size 1M
	echo "$output"
	[ "$status" -eq 12 ]
	[[ $output == *"where blocks are that are not home: 5 MiB are needed"*"nothing was changed"* ]]
	[ ! -e /dev/$vg/new_rdcow ]
	lvremove -qq --yes $vg/fill
	frozen -p $small --cow-size 1M
	[ -e /dev/$vg/new_rdmcow ]
	kill -KILL $pid
	wait $pid || :
	umount /tmp/rdt-mnt
}

# A store for 1,024 chunks of metadata would be full, and the version lost.
# bats test_tags=soak
@test "two-pools: written anywhere while it is copied, the version is right" {
	local status
	export REVDEDUP_POOL=/tmp/rdt-pool/large
	revdedupctl -q init --compression none --size 16G $REVDEDUP_POOL
	lvcreate -qq --yes --type thin-pool --size 200M --chunksize 64k --name thin $vg
	truncate -s 9G /tmp/rdt-pool/img
	each_8_mib /tmp/rdt-pool/img 8
	revdedupctl -q snapshot img --from /tmp/rdt-pool/img
	revdedupctl -q clone img $vg/new --thinpool thin --no-hydrate
	room_is_asked_for
	frozen -p $REVDEDUP_POOL --cow-size 128M
	[ ! -e /dev/$vg/new_rdmcow ]
	# Each page still has a block that is not home, and so is written.
	each_8_mib "$new" 4
	sync "$new"
	dmsetup status "${new##*/}:metasnap" | tee /tmp/said
	[ "$(sed 's:.*snapshot \([0-9]*\)/.*:\1:' /tmp/said)" -gt $((1152 * 8)) ]
	kill -CONT $pid
	status=0
	wait $pid || status=$?
	[ "$status" -eq 0 ]
	# What differs would be written.
	revdedupctl restore $vg/new@1 --yes --to /tmp/rdt-pool/img --json | tee /tmp/said
	[ "$(json bytes_written </tmp/said)" = 0 ]
}
