#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Volumes in use that read blocks which they share: clones that have drifted, and separate
# installations with the same content at other offsets, over a pool with pieces and inline
# deduplication. Whatever becomes of the blocks' owners, each volume reads what was written to it.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154
load ../lib/guest
load ../lib/lvm

fleet=/revdedup/bin/fleet
keep=/tmp/rdt-pool
mib=8

setup() {
	lvm_setup 400
	lvcreate -qq --yes --type thin-pool --size 240M --chunksize 64k --name thin $vg
	rm -r "$REVDEDUP_POOL"
	revdedupctl -q init --compression none --size 1G --pieces 64 --dedup inline "$REVDEDUP_POOL"
}
teardown() { lvm_teardown; }

# thin LV KIND NUMBER PERCENT: attach a thin volume of that content (see fleet.c), with a copy of
# it in a file.
thin() {
	lvcreate -qq --yes --type thin --virtualsize ${mib}M --thinpool thin --name "$1" $vg
	revdedupctl -q attach "$vg/$1"
	$fleet write "$2" "$3" $mib "$4" "$(device_of "$1")"
	truncate -s ${mib}M "$keep/$1"
	$fleet write "$2" "$3" $mib "$4" "$keep/$1"
}

give() { revdedupctl -q offload "$vg/$1" --cold 0 --force --yes; }

# shared LV...: take a version of each, and let it read from the pool.
shared() {
	local lv
	for lv; do
		revdedupctl -q snapshot "$vg/$lv"
		give "$lv"
	done
}

# are LV...: does each read what was written to it?
are() {
	local lv
	echo 3 >/proc/sys/vm/drop_caches
	for lv; do
		cmp "$(device_of "$lv")" "$keep/$lv" || {
			echo "$lv reads something else"
			return 1
		}
	done
}

# put LV FILE FIRST SEEK BLOCKS: write these blocks of the file there.
put() {
	local to
	for to in "$(device_of "$1")" "$keep/$1"; do
		dd if="$2" of="$to" bs=4k skip="$3" seek="$4" count="$5" oflag=direct \
			conv=notrunc status=none
	done
}

# random LV FIRST BLOCKS: write new content.
random() {
	dd if=/dev/urandom of=/tmp/new bs=4k count="$3" iflag=fullblock status=none
	put "$1" /tmp/new 0 "$2" "$3"
}

# scatter LV EVERY: give each so manieth block of it new content.
scatter() {
	local to seed=$RANDOM
	for to in "$(device_of "$1")" "$keep/$1"; do
		fio --name=scatter --filename="$to" --ioengine=psync --direct=1 --bs=4k \
			--rw="write:$((($2 - 1) * 4))k" --randseed=$seed --refill_buffers \
			--size=${mib}m --io_size=$((mib * 1024 / $2))k >/tmp/fio || {
			cat /tmp/fio
			return 1
		}
	done
}

# use_free: what is free in the pool gets other content.
use_free() {
	dd if=/dev/urandom of=$keep/other bs=1M count=12 status=none
	revdedupctl -q snapshot other --from $keep/other
}

# mapped: print how many KiB of the thin pool are in use.
mapped() {
	local used
	used=$(dmsetup status ${vg//-/--}-thin-tpool | awk '{ print $6 }')
	echo $((${used%/*} * 64))
}

# stored: print how many KiB the data of the pool take up.
stored() { du -k "$REVDEDUP_POOL/data" | cut -f1; }

# blocks NUMBER KIND VOLUMES PERCENT: print how many KiB these take up, all, or each content once.
blocks() { $fleet count "$2" "$3" $mib "$4" | awk -v n="$1" '{ print $n * 4 }'; }

at_most() {
	echo "$1: $2 KiB, wanted: at most $3"
	[ "$2" -le "$3" ]
}

# home LV...: bring them home.
home() {
	local lv
	for lv; do
		revdedupctl -q recall "$vg/$lv"
		cmp "/dev/$vg/$lv" "$keep/$lv"
	done
}

@test "shared: clones and installations take up once what they share, and read it" {
	local before
	thin vm1 clone 1 10
	thin vm2 clone 2 10
	thin vm3 clone 3 10
	thin vm4 install 1 20
	thin vm5 install 2 20
	before=$(mapped)
	shared vm1 vm2 vm3 vm4 vm5
	are vm1 vm2 vm3 vm4 vm5
	at_most "thin" "$(mapped)" 1024
	# A fifth more than what is different, and the fingerprints and superblocks.
	at_most "pool" "$(stored)" \
		$((($(blocks 2 clone 3 10) + $(blocks 2 install 2 20)) * 6 / 5 + 4096))
	at_most "both" $(($(mapped) + $(stored))) $((before * 7 / 10))
	# Written again, which comes home, and becomes part of the pool again.
	random vm1 100 40
	random vm2 1000 33
	put vm3 $keep/vm4 200 900 64
	put vm5 $keep/vm1 300 1900 100
	are vm1 vm2 vm3 vm4 vm5
	shared vm1 vm2 vm3 vm5
	revdedupctl -q prune --keep-last 1
	nothing_held
	use_free
	are vm1 vm2 vm3 vm4 vm5
	at_most "thin" "$(mapped)" 1024
	# A pass over the pool leaves newest versions as they are.
	revdedupctl -q dedup
	use_free
	are vm1 vm2 vm3 vm4 vm5
	down "$(device_of vm1)" "$(device_of vm4)"
	revdedupctl -q attach --all
	are vm1 vm2 vm3 vm4 vm5
	revdedupctl -q check
	revdedupctl -q scrub
	home vm3 vm1 vm5
	are vm1 vm2 vm3 vm4 vm5
}

# bats test_tags=soak
@test "shared: the volume goes that had the blocks first, and others keep them" {
	thin vm1 clone 1 10
	thin vm2 clone 2 10
	thin vm3 clone 3 10
	shared vm1 vm2 vm3
	# Its blocks are new, its versions go, and all of it.
	dd if=/dev/urandom of=$keep/vm1 bs=1M count=$mib conv=notrunc status=none
	dd if=$keep/vm1 of="$(device_of vm1)" bs=1M oflag=direct status=none
	revdedupctl -q snapshot $vg/vm1
	revdedupctl -q delete $vg/vm1@1
	use_free
	are vm1 vm2 vm3
	give vm1
	# A deletion of what a volume reads waits for it.
	revdedupctl -q delete $vg/vm2@1
	use_free
	are vm1 vm2 vm3
	home vm1
	forget vm1
	revdedupctl -q detach $vg/vm1
	lvremove -qq --yes $vg/vm1
	use_free
	are vm2 vm3
	shared vm2
	home vm2
	revdedupctl -q detach $vg/vm2
	forget vm2
	use_free
	are vm3
	is_version $vg/vm3@latest $keep/vm3
	revdedupctl -q check
	home vm3
	nothing_held
}

# The recipes of vm2 and vm3 are the same, in pieces, and their blocks move. vm1 has the first lease.
# bats test_tags=soak
@test "shared: volumes that were not written to follow, too" {
	thin vm1 clone 1 10
	thin vm2 clone 2 10
	thin vm3 clone 2 10
	shared vm1 vm2 vm3
	revdedupctl -q tune --pieces 1
	revdedupctl -q snapshot $vg/vm2
	revdedupctl -q prune --keep-last 1
	use_free
	are vm1 vm2 vm3
	revdedupctl -q check
	home vm3
}

# bats test_tags=soak
@test "shared: volumes follow when blocks are written again in one piece" {
	local pieces
	thin vm1 clone 1 10
	thin vm2 clone 1 10
	thin vm3 clone 2 10
	thin vm4 install 1 20
	# The same content as vm1: the same recipes.
	cmp $keep/vm1 $keep/vm2
	shared vm1 vm2 vm3 vm4
	# More and more pieces, and then all that is more than so many at once.
	for pieces in 64 4 1; do
		echo "pieces: $pieces"
		revdedupctl -q tune --pieces $pieces
		scatter vm1 61
		scatter vm3 33
		shared vm1 vm3
		are vm1 vm2 vm3 vm4
		revdedupctl -q prune --keep-last 1
		use_free
		are vm1 vm2 vm3 vm4
		shared vm2 vm4
		use_free
		are vm1 vm2 vm3 vm4
	done
	revdedupctl -q check
	home vm1 vm2 vm3 vm4
	nothing_held
}

# forget LV: delete all of its versions.
forget() {
	local version
	for version in $(revdedupctl list "$vg/$1" | grep -o "^ *$vg/$1@[0-9]*"); do
		revdedupctl -q delete "$version"
	done
}

# bats test_tags=soak
@test "shared: killed while blocks change their owners or are given back" {
	local step
	thin vm1 clone 1 10
	thin vm2 clone 2 10
	shared vm1 vm2
	for step in swap lease-moved lease-drop free-vacate free-punch free-commit; do
		scatter vm1 61
		random vm2 700 64
		if [[ $step == free-* ]]; then
			shared vm1
			killed $step prune --keep-last 1
		else
			killed $step snapshot $vg/vm1
		fi
		are vm1 vm2
		use_free
		are vm1 vm2
		shared vm2 vm1
		revdedupctl -q prune --keep-last 1
		use_free
		are vm1 vm2
	done
	revdedupctl -q check
	home vm1 vm2
	nothing_held
}

# step LV: something that may happen to it.
step() {
	local lv=$1 at=$((RANDOM % 1900)) len=$((RANDOM % 100 + 1))
	local what=$((RANDOM % 16))
	case $what in
	0 | 1) random $lv $at $len ;;
	2 | 3) put $lv "$keep/$(any_of "${lvs[@]}")" $((RANDOM % 1900)) $at $len ;;
	4) put $lv /dev/zero 0 $at $len ;;
	5) scatter $lv $((RANDOM % 200 + 50)) ;;
	6 | 7 | 8) revdedupctl -q snapshot $vg/$lv ;;
	9 | 10) shared $lv ;;
	11) revdedupctl -q prune $vg/$lv --keep-last $((RANDOM % 2 + 1)) ;;
	12) revdedupctl -q tune --pieces "$(any_of 1 4 64 512)" ;;
	13) revdedupctl -q dedup --least-run "$(any_of 1 4)" ;;
	14)
		down "$(device_of $lv)"
		revdedupctl -q attach $vg/$lv
		;;
	15) home $lv ;;
	esac
	echo "step $what $lv $at $len"
}

# bats test_tags=soak
@test "shared: in random order" {
	local seed=${SEED:-$RANDOM} round lvs=(vm1 vm2 vm3)
	echo "SEED=$seed"
	RANDOM=$seed
	thin vm1 clone 1 10
	thin vm2 clone 2 10
	thin vm3 install 1 20
	shared "${lvs[@]}"
	for ((round = 0; round < ${SHARED_ROUNDS:-25}; round++)); do
		step "$(any_of "${lvs[@]}")"
		[ $((round % 4)) -ne 3 ] || use_free
		are "${lvs[@]}"
		[ $((round % 16)) -ne 15 ] || revdedupctl -q check
	done
	revdedupctl -q prune --keep-last 1
	use_free
	are "${lvs[@]}"
	revdedupctl -q check
	home "${lvs[@]}"
}
