#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# That the small cluster is what tests take it for.
export OSDS=3
load ceph

# store NAME SECONDS: put an object into the pool p.
store() { timeout "$2" rados -p p put "$1" "$BATS_TEST_DIRNAME/cluster.sh"; }

@test "copies on three hosts outlive one OSD, and no object is lost when all are killed" {
	cluster pool p 3
	store one 300
	cluster kill osd.1
	store two 300
	cluster kill osd.0
	cluster kill osd.2
	cluster kill mon.a
	run cluster start
	[ "$status" -eq 0 ]
	for name in one two; do
		timeout 300 rados -p p get "$name" got
		cmp got "$BATS_TEST_DIRNAME/cluster.sh"
	done
	[ "$(rados -p p ls | sort | xargs)" = "one two" ]
}

@test "a user can do what its caps allow" {
	cluster pool mine
	cluster pool other
	cluster keyring guest mon 'profile rbd' osd 'profile rbd pool=mine'
	rbd --id guest create --size 1M mine/disk
	run rbd --id guest create --size 1M other/disk
	[ "$status" -ne 0 ]
	run rbd --id nobody ls mine
	[ "$status" -ne 0 ]
}

@test "a manager, which sees to quotas" {
	cluster pool few
	cluster revive mgr.x
	ceph osd pool set-quota few max_objects 1
	rados -p few put one "$BATS_TEST_DIRNAME/cluster.sh"
	for ((i = 0; i < 600; i++)); do
		! ceph health detail | grep -q "'few' is full" || break
		sleep 0.2
	done
	[ "$i" -lt 600 ]
	cluster kill mgr.x
}

# Only a benchmark has one.
# bats test_tags=soak
@test "a CephFS, which is there again for another mount" {
	[ -c /dev/fuse ] || skip "this machine has no FUSE"
	cluster fs files 3
	mkdir files
	cluster mount files files
	cp "$BATS_TEST_DIRNAME/cluster.sh" files/one
	umount files
	[ -z "$(ls files)" ]
	cluster kill mds.files
	cluster revive mds.files
	cluster mount files files
	cmp files/one "$BATS_TEST_DIRNAME/cluster.sh"
	umount files
	[ "$(rados -p files-data ls | wc -l)" -eq 1 ]
	cluster kill mgr.x
}

@test "two clusters side by side" {
	other=$PWD/other
	CLUSTER=$other cluster start >/dev/null
	[ "$(CEPH_CONF=$other/ceph.conf ceph fsid)" != "$(ceph fsid)" ]
	CLUSTER=$other cluster stop
	CLUSTER=$other cluster start >/dev/null
	CEPH_CONF=$other/ceph.conf timeout 300 ceph osd stat -f json | grep -q '"num_osds":1'
	CLUSTER=$other cluster wipe
	[ ! -e "$other" ]
	ceph fsid
}
