#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# LVM of the host: what lies on guests' disks stays theirs, and a volume is activated with its
# device. A volume in use is detached only if that is forced, and attached again while it is.

# Each test is a subshell; no name here has blanks; who sleeps holds a device open.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154,SC2217
load ../lib/guest
load ../lib/lvm

setup() {
	lvm_setup
	export LVM_SYSTEM_DIR=/tmp/rdt-lvm
	cp -r /etc/lvm $LVM_SYSTEM_DIR
}

teardown() {
	rm -rf $LVM_SYSTEM_DIR
	unset LVM_SYSTEM_DIR
	lvm_teardown
	rm -rf /dev/${vg:?} /dev/rdt-aside
}

# booted LV...: all is inactive, as it is after a boot where LVM activates nothing.
booted() {
	local lv
	for lv; do
		down "$(device_of $lv)"
	done
	vgchange -qq -an $vg
}

# conf TEXT: the host's settings of LVM, besides those that all guests need.
conf() {
	cat /etc/lvm/lvm.conf - >$LVM_SYSTEM_DIR/lvm.conf <<<"$1"
}

# in_guest COMMAND...: LVM as the guest runs it, which has only this disk.
in_guest() { "$@" --config "devices{filter=[\"a|^$vol\$|\",\"r|.*|\"]}"; }

is_active() { dm_devices | grep -qx "$1"; }

fails() { ! "$@"; }

# documented FILE: print the filter that it shows.
documented() { sed -n 's/^ *\(devices { global_filter.*\)/\1/p' /revdedup/doc/$1; }

@test "lvm: a guest's volume group is not activated, not looked at, and told of" {
	local filter
	make_lv vm1 32
	make_lv vm2 16
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	# The name of the host's group, to make it worse.
	mv /dev/$vg /dev/rdt-aside
	in_guest vgcreate -qq $vg "$vol"
	mv /dev/rdt-aside /dev/$vg
	booted vm1
	run revdedupctl attach --all
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"LVM of this host finds a physical volume on '$vol'"*guests.rst* ]]
	revdedupctl -q snapshot $vg/vm1
	lvchange -qq -ay --config 'devices{filter=["a|^/dev/ram0$|","r|.*|"]}' $vg/vm2
	revdedupctl -q attach $vg/vm2
	revdedupctl -q detach $vg/vm2
	# With one of its own.
	mv /dev/$vg /dev/rdt-aside
	in_guest vgrename -qq $vg rdt-guest
	mv /dev/rdt-aside /dev/$vg
	lvcreate -qq --yes -an -Zn -Wn -L 4M -n root rdt-guest
	booted vm1
	revdedupctl attach --all
	is_active "${vol##*/}"
	fails is_active rdt--guest-root

	# A host whose filter accepts all that it does not know.
	conf 'devices { filter = [ "a|.*|" ] }'
	revdedupctl -q snapshot $vg/vm1
	# With what the pages say it is not seen.
	filter=$(documented guests.rst)
	[ -n "$filter" ]
	[ "$filter" = "$(documented host.rst)" ]
	conf "$filter"
	vgs $vg
	fails vgs rdt-guest
	run revdedupctl attach $vg/vm1
	[ "$status" -eq 0 ]
	[[ $output != *"physical volume"* ]]
	conf 'devices { use_devicesfile = 1 }'
	lvm lvmdevices --yes --adddev /dev/ram0
	fails vgs rdt-guest
	booted vm1
	run revdedupctl attach --all
	[ "$status" -eq 0 ]
	[[ $output != *"physical volume"* ]]
	is_active "${vol##*/}"
}

@test "lvm: a volume is activated with its device, whatever LVM does at boot, and no other" {
	make_lv vm1 16
	make_lv other 16
	make_lv data 16
	revdedupctl -q attach $vg/vm1
	vol=$(device_of vm1)
	dd if=/dev/urandom of="$vol" bs=1M count=16 oflag=direct status=none
	cp "$vol" /tmp/rdt-pool/was
	# A pool on a device, in which blocks of the volume once lay.
	mkdir /tmp/rdt-pool/two
	ln -s /dev/$vg/data /tmp/rdt-pool/two/data
	echo pool=/tmp/rdt-pool/two >>"$REVDEDUP_CONFIG/volumes/${vol##*/}"
	lvchange -qq --setautoactivation n $vg/vm1
	lvchange -qq --setactivationskip y $vg/vm1
	lvrename -qq $vg vm1 vm9
	booted vm1
	revdedupctl -q attach --all
	cmp "$vol" /tmp/rdt-pool/was
	is_active rdt--vg-data
	fails is_active rdt--vg-other
}

@test "lvm: a volume in use is detached only by force, and attached again while it is" {
	local pid step to
	some_volume vm1 16
	sleep 1000 <"$vol" 3>&- &
	pid=$!
	retry 300 0.1 reads_from $pid "$vol"
	run revdedupctl detach $vg/vm1
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"'$vol' is in use"*"nothing was changed"*"'revdedupctl detach --force $vg/vm1'"* ]]
	revdedupctl status $vg/vm1 --json | grep '"state": "tracked"'
	lvs_are vm1 vm1_rdmeta

	run revdedupctl detach --force $vg/vm1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"no longer tracked"*"'revdedupctl attach $vg/vm1'"* ]]
	dd if=/dev/urandom of="$vol" bs=4k seek=700 count=1 oflag=direct conv=notrunc status=none
	revdedupctl attach $vg/vm1
	kill -0 $pid
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = full ]
	# Twice, and killed after the file was written.
	revdedupctl -q detach --force $vg/vm1
	killed dm-swap attach $vg/vm1
	revdedupctl -q attach $vg/vm1
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = full ]
	kill $pid
	wait $pid || :
	# A boot, and a detach that is killed: what has no target over it is written without.
	booted vm1
	revdedupctl -q attach --all
	for step in detach-off attachment-rename; do
		killed $step detach $vg/vm1
		[ -e "$vol" ] && to=$vol || to=/dev/$vg/vm1
		dd if=/dev/urandom of="$to" bs=4k seek=800 count=1 oflag=direct conv=notrunc status=none
		revdedupctl -q attach $vg/vm1
		revdedupctl snapshot $vg/vm1 --json | tee /tmp/said-$step
		is_version $vg/vm1@latest "$vol"
	done
	[ "$(json reason </tmp/said-detach-off)" = "writes may have bypassed the target" ]
	[ "$(json mode </tmp/said-attachment-rename)" = changed ]
	# A boot, and the end.
	booted vm1
	revdedupctl -q attach --all
	dd if=/dev/urandom of="$vol" bs=4k seek=900 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	is_version $vg/vm1@latest "$vol"
	revdedupctl -q detach $vg/vm1
	fails is_active "${vol##*/}"
	lvs_are vm1
}

@test "lvm: a detach that cannot remove the metadata says so, and is repeated" {
	make_lv vm1 16
	vol=$(device_of vm1)
	revdedupctl -q attach $vg/vm1
	exec 7<"$vol:meta"
	run revdedupctl detach $vg/vm1
	exec 7<&-
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"cannot remove the device '${vol##*/}:meta'"* ]]
	revdedupctl -q detach $vg/vm1
	fails is_active "${vol##*/}:meta"
	lvs_are vm1
	# The device that they are on: the volume is detached.
	revdedupctl -q attach $vg/vm1
	exec 7<"/dev/$vg/vm1_rdmeta"
	run revdedupctl detach $vg/vm1
	exec 7<&-
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"if '/dev/$vg/vm1_rdmeta' still exists, 'lvremove' removes it"* ]]
	lvs_are vm1 vm1_rdmeta
}

# attach_fails OPTION...: and leaves the devices and volumes that there were.
attach_fails() {
	local before
	before=$(dm_devices)
	run revdedupctl attach $vg/vm1 "$@"
	echo "$output"
	[ "$status" -eq 1 ]
	dm_devices
	[ "$(dm_devices)" = "$before" ]
	[ ! -e "$REVDEDUP_CONFIG/volumes/${vol##*/}" ]
	lvs_are meta vm1
}

reads() { timeout 30 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct status=none; }

@test "lvm: an attach that fails leaves nothing, and a device that is in use goes on" {
	make_lv vm1 16
	make_lv meta 4
	vol=$(device_of vm1)
	modprobe dm-flakey
	# It can be read: the target refuses to go on only when it is resumed.
	dm_create rdt-bad "0 $(sectors /dev/$vg/meta) flakey /dev/$vg/meta 0 0 3600 1 error_writes"
	attach_fails --meta /dev/mapper/rdt-bad
	revdedupctl -q attach $vg/vm1
	sleep 1000 <"$vol" 3>&- &
	retry 300 0.1 reads_from $! "$vol"
	revdedupctl -q detach --force $vg/vm1
	attach_fails --meta /dev/mapper/rdt-bad
	reads
	REVDEDUP_FAIL=dm-swap=EIO attach_fails
	reads
	dmsetup table "$vol" | grep linear
	revdedupctl attach $vg/vm1
	reads
	kill %%
	wait || :
}
