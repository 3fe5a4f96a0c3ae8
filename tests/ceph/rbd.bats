#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Disks on RBD: snapshots of them, by snapshots of RBD, and restores to them.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; rbd and build are by ceph.bash
load ceph

teardown() {
	[ -z "${writer:-}" ] || kill -KILL "$writer" 2>/dev/null || :
}

@test "versions of a disk that is written meanwhile are what RBD has in its snapshots" {
	image disk 100M
	make_pool 1G
	take disk full
	"$BATS_TEST_DIRNAME/change.py" "$rbd/disk" 5 --hold held 3>&- &
	writer=$!
	until [ -e held ]; do sleep 0.05; done
	while [ "$number" -lt 6 ]; do
		change disk
		take disk changed
	done
	rm held
	wait $writer
	writer=
	while [ "$number" -lt 12 ]; do
		rbd bench --io-type write --io-size 16K --io-total 16M --io-pattern rand \
			"$rbd/disk" >/dev/null 3>&- &
		writer=$!
		# What is written by a client that opens the image while a snapshot is made was once
		# in that snapshot, and not in RBD's list.
		until rbd lock ls "$rbd/disk" | grep -q auto || ! kill -0 $writer 2>/dev/null; do
			:
		done
		take disk changed
		wait $writer
		writer=
	done
	# Nothing has changed.
	take disk changed
	take disk changed
	[ "$(field 0 '["blocks_changed"]')" -eq 0 ]
	for ((nr = 1; nr <= number; nr++)); do
		"$build/bin/revdedupctl" dump "vm@$nr" | cmp - "$nr"
	done
	must check
	must scrub
}

@test "a disk of any layout: stripes, small objects, no features, a namespace, an odd size" {
	make_pool 1G
	image striped 100M --stripe-unit 64K --stripe-count 5
	image small 20M --object-size 64K
	image plain 20M --image-feature layering
	rbd namespace create "$rbd/space"
	rbd create "$rbd/space/named" --size 20M
	image odd 9000123B
	for name in striped small plain space/named odd; do
		rm -rf pool
		make_pool 1G
		# Here and there.
		rbd bench --io-type write --io-size 4K --io-total 160K --io-pattern rand \
			"$rbd/$name" >/dev/null
		must snapshot vm --from "rbd:$rbd/$name"
		is vm@1 "$name"
		[[ $name == space/* ]] || change "$name"
		rbd bench --io-type write --io-size 4K --io-total 64K --io-pattern rand \
			"$rbd/$name" >/dev/null
		must snapshot vm --from "rbd:$rbd/$name" --json
		[ "$(field 0 '["mode"]')" = changed ]
		is vm@2 "$name"
		# And back.
		must restore vm@1 --to "rbd:$rbd/$name" --yes
		is vm@1 "$name"
		must restore vm@2 --to "rbd:$rbd/new$BATS_TEST_NUMBER-${name#*/}"
		is vm@2 "new$BATS_TEST_NUMBER-${name#*/}"
	done
}

@test "no hole is read, of what has changed no more than its segments" {
	image disk 1M
	rbd resize --no-progress --size 4G "$rbd/disk"
	make_pool 1G
	take disk full
	[ "$(field 0 '["bytes_read"]')" -le 1048576 ]
	rbd bench --io-type write --io-size 4K --io-total 4K "$rbd/disk" >/dev/null
	must snapshot vm --from "rbd:$rbd/disk" --json
	[ "$(field 0 '["mode"]')" = changed ]
	read=$(field 0 '["segments_read"]')
	[ "$((read - $(field 0 '["segments_audited"]')))" -eq 1 ]
}

@test "a disk that grows or is cut off is read in full" {
	image disk 40M
	make_pool 1G
	take disk full
	reason "first version"
	rbd resize --no-progress --size 50M "$rbd/disk"
	change disk
	take disk full
	reason "size has changed"
	change disk
	take disk changed
	rbd resize --no-progress --allow-shrink --size 20M "$rbd/disk"
	take disk full
	# Cut off and as large again between two versions.
	rbd resize --no-progress --allow-shrink --size 7M "$rbd/disk"
	rbd resize --no-progress --size 20M "$rbd/disk"
	take disk changed
}

@test "a clone: what its parent has, also when less of that is left" {
	image base 40M
	rbd snap create --no-progress "$rbd/base@golden"
	rbd snap protect "$rbd/base@golden"
	rbd clone "$rbd/base@golden" "$rbd/disk"
	make_pool 1G
	take disk full
	cmp 1 <(rbd export --no-progress "$rbd/base@golden" -)
	change disk
	take disk changed
	rbd resize --no-progress --allow-shrink --size 10M "$rbd/disk"
	rbd resize --no-progress --size 40M "$rbd/disk"
	take disk full
	reason "its parent"
	change disk
	take disk changed
	# Its snapshots are flattened with it, and do not differ; without that feature they do.
	rbd flatten --no-progress "$rbd/disk"
	take disk changed
	rbd clone --image-feature layering "$rbd/base@golden" "$rbd/shallow"
	must snapshot other --from "rbd:$rbd/shallow"
	rbd flatten --no-progress "$rbd/shallow"
	must snapshot other --from "rbd:$rbd/shallow" --json
	[ "$(field 0 '["mode"]')" = full ]
	is other@2 shallow
}

@test "snapshots of others stay, and those of ours that are protected" {
	image disk 20M
	make_pool 1G
	rbd snap create --no-progress "$rbd/disk@rd-mine"
	rbd snap create --no-progress "$rbd/disk@weekly"
	rbd snap protect "$rbd/disk@weekly"
	must snapshot vm --from "rbd:$rbd/disk"
	must snapshot other --from "rbd:$rbd/disk"
	change disk
	must snapshot vm --from "rbd:$rbd/disk" --json
	[ "$(field 0 '["mode"]')" = changed ]
	must snapshot other --from "rbd:$rbd/disk" --json
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(rbd snap ls "$rbd/disk" | grep -c 'rd-mine\|weekly')" -eq 2 ]
	[ "$(ours disk | wc -l)" -eq 3 ]
	# Whoever protects one of ours gets to know that it stays.
	for name in $(ours disk | grep -v mine); do
		rbd snap protect "$rbd/disk@$name"
	done
	change disk
	ctl snapshot vm --from "rbd:$rbd/disk"
	[ "$status" -eq 3 ]
	[[ $output == *"still has the snapshot 'rd-"*": it is protected"*"vm@3 was made"* ]]
	is vm@3 disk
	for name in $(ours disk | grep -v mine); do
		rbd snap unprotect "$rbd/disk@$name" || :
	done
	change disk
	must snapshot vm --from "rbd:$rbd/disk" --json
	[ "$(field 0 '["mode"]')" = changed ]
	[ "$(ours disk | wc -l)" -eq 3 ]
}

@test "a restore writes what differs, and not to a disk in use or one that is too small" {
	image disk 40M
	make_pool 1G
	take disk full
	rbd bench --io-type write --io-size 4K --io-total 16K --io-pattern rand "$rbd/disk" >/dev/null
	ctl restore vm@1 --to "rbd:$rbd/disk" </dev/null
	[ "$status" -ne 0 ]
	must restore vm@1 --to "rbd:$rbd/disk" --yes --json
	[ "$(field 0 '["bytes_written"]')" -le 32768 ]
	is vm@1 disk
	"$BATS_TEST_DIRNAME/change.py" "$rbd/disk" 5 --hold held 3>&- &
	writer=$!
	until [ -e held ]; do sleep 0.05; done
	ctl restore vm@1 --to "rbd:$rbd/disk" --yes
	[ "$status" -eq 1 ]
	[[ $output == *"is in use: 1 other client has it open"*"--force"* ]]
	rm held
	wait $writer
	writer=
	rbd create "$rbd/small" --size 20M
	ctl restore vm@1 --to "rbd:$rbd/small" --yes
	[ "$status" -eq 1 ]
	[[ $output == *"nothing was changed; restore it to a larger device"* ]]
	# What is zeros takes no room.
	rbd create "$rbd/full" --size 40M
	rbd bench --io-type write --io-size 4M --io-total 40M "$rbd/full" >/dev/null
	must restore vm@1 --to "rbd:$rbd/full" --yes
	is vm@1 full
	# The version after it follows on.
	take disk changed
}

@test "the caps that the manual names suffice, and without them it says so" {
	image disk 20M
	rbd snap create --no-progress "$rbd/disk@golden"
	rbd snap protect "$rbd/disk@golden"
	cluster pool second
	rbd clone "$rbd/disk@golden" second/clone
	make_pool 1G
	cluster keyring saver mon 'profile rbd' osd "profile rbd pool=second, profile rbd-read-only pool=$rbd"
	cluster keyring reader mon 'profile rbd-read-only' osd "profile rbd-read-only pool=$rbd"
	cluster keyring stranger mon 'allow r'
	must snapshot vm --from rbd:second/clone:id=saver
	"$BATS_TEST_DIRNAME/change.py" second/clone 3
	must snapshot vm --from rbd:second/clone:id=saver --json
	[ "$(field 0 '["mode"]')" = changed ]
	cmp <("$build/bin/revdedupctl" dump vm@2) <(rbd export --no-progress second/clone -)
	must restore vm@1 --to rbd:second/back:id=saver
	cmp <("$build/bin/revdedupctl" dump vm@1) <(rbd export --no-progress second/back -)
	for user in reader stranger; do
		ctl snapshot vm --from "rbd:$rbd/disk:id=$user"
		[ "$status" -eq 1 ]
		[[ $output == *"client.$user lacks a right"*"no version was made"* ]]
	done
	CEPH_ARGS="--keyring /nowhere" ctl snapshot vm --from "rbd:$rbd/disk"
	[ "$status" -eq 1 ]
	[[ $output == *"refuses client.admin: it has no key"* ]]
	printf '[client.nobody]\n\tkey = %s\n' "$(ceph-authtool --gen-print-key)" >>"$CLUSTER/keyring"
	ctl snapshot vm --from "rbd:$rbd/disk:id=nobody"
	[ "$status" -eq 1 ]
	[[ $output == *"refuses client.nobody"*"not the right one"* ]]
}

@test "what is not there, and names that are none" {
	image disk 1M
	make_pool 256M
	ctl snapshot vm --from rbd:nowhere/disk
	[ "$status" -eq 1 ]
	[[ $output == *"the cluster has no pool 'nowhere'"* ]]
	ctl snapshot vm --from "rbd:$rbd/nothing"
	[ "$status" -eq 1 ]
	[[ $output == *"there is no image 'nothing' in the pool '$rbd'"* ]]
	CEPH_CONF=/nowhere ctl snapshot vm --from "rbd:$rbd/disk"
	[ "$status" -eq 1 ]
	[[ $output == *"cannot read the settings of the cluster"*CEPH_CONF* ]]
	conf=$CEPH_CONF
	CEPH_CONF=/nowhere must snapshot vm --from "rbd:$rbd/disk:conf=$conf"
	for name in disk "$rbd/" "$rbd/disk@now" /disk "$rbd/a/b/c" "$rbd/disk:user=x"; do
		ctl snapshot vm --from "rbd:$name"
		[ "$status" -eq 1 ]
		[[ $output == *"rbd:POOL/IMAGE"* ]]
	done
	ctl snapshot vm --from "rbd:$rbd/disk" --changed list
	[ "$status" -eq 2 ]
}
