#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Where a snapshot of a domain fails: libvirt does not answer while the guest is frozen, or another
# command has a volume. libvirt is a program in the place of virsh; libvirt.py tests a real one.
# shellcheck disable=SC2154,SC2016 # build is by nbd.bash; scripts in quotes are for sh
load nbd

# make_virsh SCRIPT: a program in its place with a domain 'vm', for which SCRIPT begins the backup.
#
# While 'down' exists and a line of it says a later second than now, libvirt does not answer; while
# 'off' exists the domain is shut off. An agent has the file 'frozen' for as long as the guest is.
make_virsh() {
	mkdir bin
	cat >bin/virsh <<-EOF
		#!/bin/bash
		# virsh -q VERB DOMAIN ...
		cd '$PWD' || exit
		begin() { $1; }
	EOF
	cat >>bin/virsh <<-'EOF'
		disk="<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='x'/>"
		disk+="<target dev='vda' bus='virtio'/></disk>"
		if [ -e down ] && [ "$(date +%s)" -lt "$(<down)" ]; then
			echo 'error: failed to connect to the hypervisor' >&2
			exit 1
		fi
		case $2 in
		list) [ -e off ] || echo vm ;;
		domid) if [ -e off ]; then echo -; else echo 1; fi ;;
		domuuid) echo 8f2e4a6c-0000-4000-8000-000000000001 ;;
		domname) echo vm ;;
		domstate) if [ -e off ]; then echo 'shut off'; else echo running; fi ;;
		dumpxml) echo "<domain>$disk</domain>" ;;
		domblkinfo) echo 'Capacity:       16777216' ;;
		checkpoint-list) ;;
		qemu-agent-command)
			[ ! -e off ] || exit 1
			if [ -e frozen ]; then echo '{"return":"frozen"}'; else echo '{"return":"thawed"}'; fi
			;;
		domfsfreeze) touch frozen ;;
		domfsthaw)
			[ ! -e off ] || exit 1
			rm -f frozen
			;;
		backup-begin) begin ;;
		*) exit 1 ;;
		esac
	EOF
	chmod +x bin/virsh
	PATH=$PWD/bin:$PATH
}

# take: a snapshot of the domain, where libvirt seems to have its directory; nothing else sees it.
take() {
	[ -e pool ] || make_pool 256M
	run timeout 300 unshare --mount sh -c 'mount -t tmpfs tmpfs /var/lib &&
		mkdir -p /var/lib/libvirt/qemu/domain-1-vm && exec "$@"' - \
		"$build/bin/revdedupctl" snapshot vm --libvirt --temp .
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *'no version was made'* ]]
}

@test "a guest is thawed once a libvirt that went away answers again" {
	make_virsh 'echo $(($(date +%s) + 4)) >down; exit 1'
	take
	[ ! -e frozen ]
	[[ $output != *'may still be frozen'* ]]
}

@test "a guest that cannot be thawed is told of, after a backup that failed as well" {
	make_virsh 'echo $(($(date +%s) + 100)) >down; exit 1'
	REVDEDUP_PATIENCE=2000 take
	[[ $output == *"the guest 'vm' may still be frozen"*"virsh domfsthaw vm"* ]]
}

@test "a guest that was shut off meanwhile is not waited for" {
	make_virsh 'touch off; exit 1'
	take
	[[ $output != *'may still be frozen'* ]]
}

@test "nothing is begun while another command has one of the volumes" {
	make_virsh 'touch begun; exit 1'
	make_pool 256M
	truncate -s 1M image
	for volume in vm/vda vm/xml; do
		REVDEDUP_FAIL=snapshot-finish=stop "$build/bin/revdedupctl" snapshot "$volume" \
			--from image 3>&- &
		holder=$!
		until grep -q '^State:.T' "/proc/$holder/status"; do sleep 0.05; done
		take
		[[ $output == *'another command is using the volume'* ]]
		[ ! -e begun ]
		kill -CONT "$holder"
		wait "$holder"
		holder=
	done
	take
	[ -e begun ]
}
