#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# A pool in RADOS where the cluster is not as it should be.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
export OSDS=3
load ceph
bats_require_minimum_version 1.5.0

ctl() { timeout -k 10 120 "$build/bin/revdedupctl" "$@"; }

# make NAME [USER]: a pool in the directory of that name.
make() { ctl init "$PWD/$1" --data "ceph:p/$1${2:+:id=$2}" --size 2G --pieces 1 --compression none --quiet; }

setup() {
	build=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build/nbd}")
	cd "$BATS_TEST_TMPDIR" || return
	unset REVDEDUP_POOL
	cluster pool p 3 2>/dev/null || true
	dd if=/dev/urandom of=disk bs=1M count=12 status=none
}

@test "the least caps suffice, and reach no other shard" {
	cluster keyring one mon 'profile rbd' osd 'profile rbd pool=p namespace=mine'
	make mine one
	ctl snapshot vm --from disk --pool mine
	mkdir -m 700 other
	ln -s ceph:p/mine:id=one other/data
	ctl take-over --pool other
	ctl restore vm@1 --to out --pool other
	cmp out disk
	ctl delete vm@1 --yes --pool other
	run make yours one
	[ "$status" -ne 0 ]
	[[ $output == *"client.one may not use 'ceph:p/yours:id=one'"* ]]
	[[ $output == *"osd 'profile rbd pool=p namespace=yours'"* ]]
}

@test "no user, no pool, no shard, no settings, no monitor" {
	run make s nobody
	[ "$status" -ne 0 ]
	[[ $output == *"client.nobody"*"no pool was made"* ]]
	run ctl init "$PWD/s" --data ceph:none/s --pieces 1
	[ "$status" -ne 0 ]
	[[ $output == *"the cluster has no pool 'none'"* ]]
	mkdir -m 700 none
	ln -s ceph:p/none none/data
	run ctl list --pool none
	[ "$status" -ne 0 ]
	[[ $output == *"there is no shard 'none' in the pool 'p'"* ]]
	run env CEPH_CONF=/nonexistent "$build/bin/revdedupctl" list --pool none
	[ "$status" -ne 0 ]
	[[ $output == *"cannot read the settings of the cluster"* ]]
	for name in ceph: ceph:p ceph:/s ceph:p/ ceph:p/a/b ceph:p/s:what=1; do
		run ctl init "$PWD/s" --data "$name"
		[ "$status" -ne 0 ]
		[[ $output == *"a pool in RADOS is ceph:POOL/SHARD"* ]]
	done
	make s
	sed 's/127.0.0.1:[0-9]*/127.0.0.1:1/' "$CEPH_CONF" >gone.conf
	run env CEPH_CONF="$PWD/gone.conf" REVDEDUP_CEPH_SECONDS=2 timeout 60 \
		"$build/bin/revdedupctl" list --pool s
	[ "$status" -ne 0 ]
	[[ $output == *"no monitor of the cluster of 'ceph:p/s' has answered for 2 seconds"* ]]
}

@test "objects of other programs" {
	rados -p p -N foreign put head disk
	run make foreign
	[ "$status" -ne 0 ]
	[[ $output == *"the object 'head' there is another program's"* ]]
	rados -p p -N full put something disk
	run make full
	[ "$status" -ne 0 ]
	[[ $output == *"it has the object 'something'"* ]]
	make taken
	run ctl init "$PWD/again" --data ceph:p/taken --pieces 1
	[ "$status" -ne 0 ]
	[[ $output == *"is the data area of a pool already"* ]]
	rados -p p -N taken put something disk
	ctl snapshot vm --from disk --pool taken
	ctl check --pool taken
	ctl scrub --pool taken
	rados -p p -N taken stat something
	run ctl init "$PWD/again" --data ceph:p/taken --pieces 1 --force
	[ "$status" -ne 0 ]
	[[ $output == *"is a pool already, which"* ]]
	ctl scrub --pool taken
}

@test "a pool that is erasure coded has to allow overwrites" {
	ceph osd erasure-code-profile set two k=2 m=1 crush-failure-domain=osd
	ceph osd pool create coded 8 8 erasure two
	ceph osd pool application enable coded revdedup
	run ctl init "$PWD/s" --data ceph:coded/s --size 2G --pieces 1
	[ "$status" -ne 0 ]
	[[ $output == *"'ceph osd pool set coded allow_ec_overwrites true'"*"no pool was made"* ]]
	ceph osd pool set coded allow_ec_overwrites true
	ctl init "$PWD/s" --data ceph:coded/s --size 2G --pieces 1 --quiet
	ctl snapshot vm --from disk --pool s
	dd if=/dev/urandom of=disk bs=4k count=3 seek=700 conv=notrunc status=none
	ctl snapshot vm --from disk --pool s
	ctl restore vm@2 --to out --pool s
	cmp out disk
	ctl delete vm@1 --yes --pool s
	ctl scrub --pool s
}

# until_full POOL: new content goes there until there is no room, which is noticed after a while.
until_full() {
	local i
	for ((i = 0; i < 600; i++)); do
		dd if=/dev/urandom of=other bs=1M count=12 status=none
		run ctl snapshot other --from other --pool "$1"
		[ "$status" -eq 0 ] || break
		sleep 0.2
	done
	[[ $output == *"No space left"* ]]
}

# until_room POOL
until_room() {
	local i
	for ((i = 0; i < 600; i++)); do
		! ctl snapshot vm --from disk --pool "$1" || return 0
		sleep 0.2
	done
	return 1
}

# fill RATIO: OSDs are full from there on.
fill() {
	ceph osd set-full-ratio "$1"
	ceph osd set-backfillfull-ratio "$1"
	ceph osd set-nearfull-ratio "$1"
}

@test "at the quota, or on OSDs that are full, commands end, and deleting makes room" {
	local nr
	cluster pool quota 3
	ctl init "$PWD/few" --data ceph:quota/few --size 2G --pieces 1 --compression none --quiet
	ctl snapshot vm --from disk --pool few
	cluster revive mgr.x
	ceph osd pool set-quota quota max_bytes "$((20 << 20))"
	until_full few
	ctl scrub --pool few
	mkdir -m 700 taken
	ln -s ceph:quota/few taken/data
	ctl take-over --pool taken
	nr=$(rados -p quota -N few ls | wc -l)
	ctl delete other@1 vm@1 --yes --pool taken
	[ "$(rados -p quota -N few ls | wc -l)" -le "$((nr - 10))" ]
	ctl check --pool taken
	ceph osd pool set-quota quota max_bytes 0
	until_room taken
	# The host that has lost it takes it back.
	fill 0.001
	until_full taken
	ctl take-over --pool few
	ctl restore vm@latest --to out --pool few
	cmp out disk
	ctl delete vm@latest --yes --pool few
	ctl check --pool few
	fill 0.95
	until_room few
	cluster kill mgr.x
	ctl scrub --pool few
}

@test "a command that a cluster holds up says so, and goes on with it" {
	local pid nr
	make held
	for nr in 0 1 2; do
		cluster pause "osd.$nr"
	done
	ctl snapshot vm --from disk --pool held >said 2>&1 3>&- &
	pid=$!
	for ((nr = 0; nr < 1200; nr++)); do
		! grep -q "has not answered for 10 seconds" said || break
		sleep 0.1
	done
	for nr in 0 1 2; do
		cluster resume "osd.$nr"
	done
	wait "$pid"
	grep -q "a second Ctrl-C ends the command" said
	ctl check --pool held
}

@test "OSDs are stopped and killed while a version is made" {
	local pid
	make slow
	cluster pause osd.1
	ctl snapshot vm --from disk --pool slow 3>&- &
	pid=$!
	sleep 2
	cluster resume osd.1
	wait "$pid"
	cluster kill osd.2
	ctl snapshot vm --from disk --pool slow
	cluster revive osd.2
	ctl scrub --pool slow
	ctl check --pool slow
}

@test "each daemon is restarted in turn, as an upgrade does it, while versions are made" {
	local daemon nr=0
	make upgraded
	for daemon in mon.a osd.0 osd.1 osd.2; do
		dd if=/dev/urandom of=disk bs=4k count=50 seek="$((nr * 300))" conv=notrunc status=none
		cluster kill "$daemon"
		ctl snapshot vm --from disk --pool upgraded 3>&- &
		cluster revive "$daemon"
		wait "$!"
		cp disk "was.$((++nr))"
	done
	for nr in 1 2 3 4; do
		ctl dump "vm@$nr" --pool upgraded | cmp - "was.$nr"
	done
	ctl check --pool upgraded
}
