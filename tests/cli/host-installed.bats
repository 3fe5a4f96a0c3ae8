#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# What is installed for an administrator: the hook for libvirt, with a virsh that is not one;
# what tells of a unit that failed; the module for each kernel; alerts.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; lib.bash
load lib

setup() {
	cli_setup
	top=$BATS_TEST_DIRNAME/../..
	export REVDEDUP_CONFIG=$PWD/etc REVDEDUP_RUN=$PWD/run PATH=$PWD/bin:$PATH
	unset REVDEDUP_POOL
	mkdir bin run
	touch disk-a disk-b
	ln -s disk-a device
	fake_virsh
}

# fake_virsh: a guest for each file in guests/, with its disk; what it is told is in log. A
# file NAME.COMMAND is what happens instead.
fake_virsh() {
	mkdir guests
	cat >bin/virsh <<-'END'
		#!/bin/bash
		cd "${0%/bin/virsh}" || exit
		[ ! -e hangs ] || exec sleep 600
		command=$2 guest=$4
		case $command in
		list) ls guests; echo ;;
		domblklist) echo " vda   $PWD/$(<"guests/$guest")" ;;
		*)
			echo "$command $guest" >>log
			[ ! -e "$guest.$command" ] || . "./$guest.$command"
			case $command in
			qemu-agent-command)
				[ -e "$guest.frozen" ] && state=frozen || state=thawed
				echo "{\"return\":\"$state\"}"
				;;
			domfsfreeze) [ ! -e "$guest.frozen" ] && touch "$guest.frozen" ;;
			domfsthaw) rm "$guest.frozen" ;;
			domstate) echo running ;;
			esac
			;;
		esac
	END
	chmod +x bin/virsh
}

# hook WHEN: the hook for $volume on $device, where $hanging (answer, freeze) is given up soon.
hook() {
	sed -e 's/_within=[0-9]*/_within=60/' -e "s/^\(${hanging:-none}_within\)=60/\1=2/" \
		"$top/systemd/hooks/libvirt" >bin/hook
	run bash bin/hook "$1" "${volume:-vg/vm1}" "$PWD/${device:-device}"
}

log_is() { diff - log; }

@test "libvirt hook: the guest that has the device is frozen, and thawed" {
	echo disk-a >"guests/my guest"
	echo disk-b >guests/other
	hook pre
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ -e "my guest.frozen" ]
	[ ! -e other.frozen ]
	hook post
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ ! -e "my guest.frozen" ]
	log_is <<-END
		qemu-agent-command my guest
		domfsfreeze my guest
		domfsthaw my guest
	END
	# "post" alone thaws nothing: another program may have frozen it.
	hook post
	[ "$status" -eq 0 ]
	[ "$(wc -l <log)" -eq 3 ]
}

@test "libvirt hook: without an agent, libvirt or a guest a version is made nevertheless" {
	hook pre
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	echo disk-a >guests/vm
	echo exit 1 >vm.qemu-agent-command
	hook pre
	[ "$status" -eq 0 ]
	[[ $output == *"no guest agent answers in 'vm'; it is not frozen"* ]]
	hook post
	[ "$status" -eq 0 ]
	log_is <<<"qemu-agent-command vm"

	touch hangs
	hanging=answer hook pre
	[ "$status" -eq 0 ]
	[[ $output == *"libvirt does not answer"* ]]
	rm hangs
	rm bin/virsh
	PATH=$PWD/bin:/nowhere run /bin/bash "$top/systemd/hooks/libvirt" pre vg/vm1 "$PWD/device"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "libvirt hook: another program has frozen the guest" {
	echo disk-a >guests/vm
	touch vm.frozen
	hook pre
	[ "$status" -eq 0 ]
	[[ $output == *"'vm' is frozen already"* ]]
	hook post
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ -e vm.frozen ]
}

@test "libvirt hook: a guest that cannot be frozen is not thawed" {
	echo disk-a >guests/vm
	echo exit 1 >vm.domfsfreeze
	hook pre
	[ "$status" -eq 0 ]
	[[ $output == *"'vm' cannot be frozen"* ]]
	hook post
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ "$(grep -c domfsthaw log)" -eq 0 ]
}

@test "libvirt hook: a guest is thawed though the answer to its freeze was lost" {
	echo disk-a >guests/vm
	echo 'touch vm.frozen; echo "error: the agent went away" >&2; exit 1' >vm.domfsfreeze
	hook pre
	[ "$status" -eq 0 ]
	[[ $output == *"'vm' cannot be frozen"* ]]
	[ -e vm.frozen ]
	hook post
	[ "$status" -eq 0 ]
	[ ! -e vm.frozen ]
}

@test "libvirt hook: volumes whose names differ in a dash have a list each" {
	echo disk-a >guests/a
	echo disk-b >guests/b
	volume=vg/a-b hook pre
	[ -e a.frozen ]
	volume=vg-a/b device=disk-b hook pre
	[ -e b.frozen ]
	volume=vg/a-b hook post
	[ ! -e a.frozen ]
	[ -e b.frozen ]
	volume=vg-a/b hook post
	[ ! -e b.frozen ]
}

@test "libvirt hook: an agent that hangs in the freeze is thawed" {
	echo disk-a >guests/vm
	echo 'touch vm.frozen; exec sleep 600' >vm.domfsfreeze
	hanging=freeze hook pre
	[ "$status" -eq 0 ]
	[[ $output == *"'vm' did not freeze within 2 s"* ]]
	hook post
	[ "$status" -eq 0 ]
	[ ! -e vm.frozen ]
}

@test "libvirt hook: a thaw is tried again, and a guest that stays frozen is told of" {
	echo disk-a >guests/vm
	hook pre
	# shellcheck disable=SC2016 # not for this shell
	echo '[ "$(grep -c thaw log)" -gt 2 ] || exit 1' >vm.domfsthaw
	hook post
	[ "$status" -eq 0 ]
	[ ! -e vm.frozen ]
	hook pre
	echo 'exit 1' >vm.domfsthaw
	hook post
	[ "$status" -eq 1 ]
	[[ $output == *"'vm' is still frozen: 'virsh domfsthaw vm' thaws it"* ]]
	# A guest that has ended needs no thaw.
	rm vm.frozen vm.domfsthaw
	hook pre
	echo 'exit 1' >vm.domfsthaw
	echo 'echo shut off; exit' >vm.domstate
	hook post
	[ "$status" -eq 0 ]
}

@test "libvirt hook: what a post that was killed has left frozen is thawed" {
	echo disk-a >guests/vm
	hook pre
	[ -e vm.frozen ]
	hook pre
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	hook post
	[ "$status" -eq 0 ]
	[ ! -e vm.frozen ]
}

@test "a unit that fails is told of: by mail, or in the journal" {
	printf '#!/bin/sh\ncat >mail; echo "$@" >>mail\n' >bin/mailer
	printf '#!/bin/sh\necho "status of $*"; exit 3\n' >bin/systemctl
	printf '#!/bin/sh\necho "$@" >journal\n' >bin/logger
	chmod +x bin/*
	SENDMAIL=$PWD/bin/mailer run "$top/systemd/tell-failure" revdedup-prune.service
	[ "$status" -eq 0 ]
	grep -x "To: root" mail
	grep -x "Subject: revdedup-prune.service failed on $(uname -n)" mail
	grep "^status of .* revdedup-prune.service" mail
	[ ! -e journal ]
	SENDMAIL=$PWD/none run "$top/systemd/tell-failure" revdedup-prune.service
	[ "$status" -eq 0 ]
	grep "daemon.alert revdedup-prune.service failed" journal
	# Each unit that has work to do, and none of them that is run every five minutes.
	for unit in attach snapshot prune scrub dedup send boot; do
		grep -x 'OnFailure=revdedup-failure@%n.service' "$top/systemd/revdedup-$unit.service"
	done
	run grep '^OnFailure' "$top"/systemd/revdedup-{metrics,failure@}.service
	[ "$status" -eq 1 ]
}

# install_modules [RELEASE...]: by a DKMS that builds for 6.1 or later, and notes it in built; the
# kernels have headers, but for those in $bare.
install_modules() {
	local release
	mkdir -p built modules
	for release; do
		mkdir -p "modules/$release/build"
		touch "modules/$release/build/Makefile"
	done
	for release in ${bare:-}; do
		mkdir -p "modules/$release/kernel"
	done
	dkms() {
		case $1 in
		remove) rm -f built/* ;;
		install)
			[[ $4 == 6.* ]] || {
				echo "Error! A BUILD_EXCLUSIVE directive does not match this kernel" >&2
				return 77
			}
			touch "built/$4"
			;;
		status) ls built ;;
		esac
	}
	export -f dkms
	run "$top/scripts/dkms-install.sh" 1.0 "$PWD/modules"
	echo "$output"
}

@test "install: a kernel for which there can be no module keeps no other from its one" {
	bare=6.9-bare install_modules 5.10-old 6.1-new 6.12-newer
	[ "$status" -eq 0 ]
	[ "$(echo built/*)" = "built/6.1-new built/6.12-newer" ]
	[[ $output == *"no module for kernel 5.10-old"* ]]
	[[ $output == *"no headers of kernel 6.9-bare"* ]]
	# Again, with modules that are removed first.
	install_modules
	[ "$status" -eq 0 ]
	[ "$(echo built/*)" = "built/6.1-new built/6.12-newer" ]
	rm -r modules/6.1*
	install_modules
	[ "$status" -eq 1 ]
	[[ ${lines[-1]} == *"no kernel here has a module: mend what DKMS said, "* ]]
	rm -r modules/5.10-old
	install_modules
	[ "$status" -eq 1 ]
	[[ ${lines[-1]} == *"no kernel headers here: "* ]]
}

@test "alerts and dashboard: each metric is one that revdedupctl prints" {
	local metric metrics
	# Those of an attached volume are only there with the target: by their names.
	metrics=$(sed -n 's/^\t{ "\(device_[a-z_]*\)".*/revdedup_\1/p' "$top/userspace/cli/cmd_metrics.c")
	[ -n "$metrics" ]
	export REVDEDUP_POOL=$PWD/pool
	"$build/bin/revdedupctl" init pool --size 64M
	truncate -s 3M image
	"$build/bin/revdedupctl" snapshot vm1 --from image
	"$build/bin/revdedupctl" scrub
	"$build/bin/revdedupctl" dedup
	"$build/bin/revdedupctl" init there --size 64M
	"$build/bin/revdedupctl" send vm1 --to there
	mkdir -m 700 pool/boot
	printf 'time 1700000000\npassed 1\nwhy the agent answers\n' \
		>"pool/boot/$("$build/bin/revdedupctl" show vm1 | awk '$1 == "uid:" { print $2 }').result"
	metrics+=$'\n'$("$build/bin/revdedupctl" metrics | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p')
	cat "$top"/systemd/examples/* | grep -o 'revdedup_[a-z_]*' | sort -u >named
	[ "$(wc -l <named)" -gt 10 ]
	while read -r metric; do
		grep -xF "$metric" <<<"$metrics" || {
			echo "no command prints $metric"
			false
		}
	done <named
}
