#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions that are booted for trial: when that passes, what a guest can do, and what is left.
# The guests are boot sectors (boot-sector.py), emulated, so that each is there at once.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; by pool.bash
load nbd

setup_file() {
	# QEMU runs as nobody, who must get there.
	FAKE=$(mktemp -d /tmp/revdedup-qemu-XXXXXX)
	export FAKE
	chmod 777 "$FAKE"
	cp "$BATS_TEST_DIRNAME/boot-qemu.py" "$FAKE/qemu-system-x86_64"
}

teardown_file() { rm -rf "$FAKE"; }

# broken DOES VOL [OPTION...]: boot it with such a QEMU, see boot-qemu.py.
broken() {
	rm -f "$FAKE"/{starts,runs}
	BOOT_QEMU=$1 PATH=$FAKE:$PATH ctl verify "$2" --boot "${@:3}"
}

# guest KIND [VOL]: a version of such a disk.
guest() {
	[ -n "${REVDEDUP_POOL:-}" ] || make_pool 128M
	"$BATS_TEST_DIRNAME/boot-sector.py" "$1" "$1.img"
	must snapshot "${2:-$1}" --from "$1.img"
}

# boot VOL [OPTION...]
boot() { ctl verify "$1" --boot --accel tcg "${@:2}"; }

# file_of VOL SUFFIX: of its last version, beside the catalog.
file_of() {
	must show "$1" --json
	echo "pool/boot/$(field 0 '["uid"]').$2"
}

# start_boot VOL [OPTION...]: in the background, until QEMU runs; sets command and qemu.
start_boot() {
	"$build/bin/revdedupctl" verify "$1" --boot --accel tcg "${@:2}" >boot.log 2>&1 3>&- &
	command=$!
	clients+=("$command")
	until qemu=$(pgrep -P "$command" -f driver=nbd); do
		kill -0 "$command" || { cat boot.log; return 1; }
		sleep 0.05
	done
	clients+=("$qemu")
}

# until_gone PID
until_gone() {
	local state end=$((SECONDS + 120))
	while ((SECONDS < end)); do
		# A child is there until it is waited for.
		state=$(ps -o stat= -p "$1") || return 0
		[[ $state != Z* ]] || return 0
		sleep 0.05
	done
	echo "process $1 is still there"
	return 1
}

@test "a guest that says login: boots, and list, show, status and metrics say so" {
	guest login vm1
	boot vm1
	[ "$status" -eq 0 ]
	[[ $output == "vm1@1 boots: the serial console says 'login:' (0:"*")" ]]
	[[ $(<"$(file_of vm1 log)") == hello$'\r\n'"vm login:"* ]]
	[ "$(head -c 4 "$(file_of vm1 png)" | tail -c 3)" = PNG ]
	must list vm1
	[[ ${lines[1]} == *" boots"* ]]
	must list vm1 --json
	[ "$(field 0 '["boot_test"]["passed"]')" = True ]
	[ "$(field 0 '["boot_test"]["why"]')" = "the serial console says 'login:'" ]
	must show vm1
	[[ $output == *"boot:           yes, 20"*": the serial console says 'login:'"* ]]
	must status
	[[ $output == *"last boot:   20"*", 1 volume boots"* ]]
	must metrics
	[[ $output == *'revdedup_volume_boot_test_passed{volume="vm1"} 1'* ]]
	[[ $output == *'revdedup_volume_boot_test_timestamp_seconds{volume="vm1"} '* ]]
	[ -z "$(ls run)" ]
	is_clean
}

@test "a guest that does not say what the rule wants does not boot" {
	guest none
	boot none --time 1s --rule serial:ready --rule agent
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == "revdedupctl: none@1 does not boot: 1 s: no 'ready' on the serial console, no agent" ]]
	guest escape vm1
	boot vm1 --rule serial:ready
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == "revdedupctl: vm1@1 does not boot: the guest powered off" ]]
	# What it wrote is shown, and harmless.
	[ "${lines[1]}" = "  ?]0;gone??[2J??31m" ]
	[ "${lines[2]}" = "  fine" ]
	[[ ${lines[3]} == *"the version is as it was; '$PWD/pool/boot/"*".log' has what the guest wrote, and '"*".png' its screen" ]]
	must list vm1
	[[ ${lines[1]} == *" does not boot"* ]]
	must status
	[[ $output == *"2 of 2 volumes do not boot: "* ]]
	must metrics
	[[ $output == *'revdedup_volume_boot_test_passed{volume="vm1"} 0'* ]]
	# The last test counts.
	boot vm1 --rule serial:fine --json
	[ "$status" -eq 0 ]
	[ "$(field 0 '["type"]')" = boot_test ]
	[ "$(field 0 '["passed"]')" = True ]
	must show vm1 --json
	[ "$(field 0 '["boot_test"]["passed"]')" = True ]
	is_clean
}

@test "a guest that reboots again and again, or powers off, fails at once" {
	guest reboot
	boot reboot
	[ "$status" -eq 1 ]
	# On a machine that is busy it has done so once more by then.
	[[ ${lines[0]} =~ "reboot@1 does not boot: the guest rebooted "[3-9]" times"$ ]]
	guest off
	boot off
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == *"off@1 does not boot: the guest powered off" ]]
	is_clean
}

@test "a still screen counts if it is asked for, and is no text of the BIOS" {
	guest screen
	guest none
	boot screen --rule screen:1
	[ "$status" -eq 0 ]
	[[ $output == "screen@1 boots: the screen has been the same for 1 s"* ]]
	boot screen --time 2s
	[ "$status" -eq 1 ]
	boot none --rule screen:1 --time 3s
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == *": 3 s: no screen that stays the same" ]]
}

@test "a guest that writes to its disk reads that, and the version stays as it is" {
	guest write vm1
	# It is no multiple of sectors.
	truncate -s 1048077 write.img
	must snapshot vm1 --from write.img
	boot vm1
	echo "$output"
	[ "$status" -eq 0 ]
	must restore vm1@2 --to after.img
	cmp write.img after.img
	must scrub
	is_clean
}

@test "QEMU has no network, no rights, and nothing of the host" {
	guest none vm1
	exec 7>private
	start_boot vm1
	exec 7>&-
	run readlink "/proc/$qemu/fd/"*
	echo "$output"
	[[ $output == *socket:* && $output != *private* && $output != *boot.log* ]]
	tr '\0' '\n' <"/proc/$qemu/cmdline" >args
	grep -A 1 -x -e -nic args | grep -x none
	run grep -E 'netdev|,user|tap' args
	[ "$status" -eq 1 ]
	grep -x -e 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny' args
	# Nothing of it is in the file system but the firmware.
	run grep -E '(file|path)=/[^d]' args
	[ "$status" -eq 1 ]
	if [ "$(id -u)" -eq 0 ]; then
		run sed -nE 's/^(Uid|Gid|CapPrm|CapEff|Groups):[[:space:]]*//p' "/proc/$qemu/status"
		echo "$output"
		[[ $output != *$'\t0'* && $output != 0$'\t'* ]]
		[[ ${lines[-1]} =~ ^0+$ ]]
		for kind in net ipc pid; do
			[ "$(readlink "/proc/$qemu/ns/$kind")" != "$(readlink "/proc/self/ns/$kind")" ] ||
				! unshare --net --ipc --pid --fork true
		done
	fi
	must status
	[[ $output == *"in use:      vm1@1, read by process "* ]]
	[[ $output != *"exported "* ]]
	# It is not the user's to end.
	ctl unexport vm1@1
	[ "$status" -eq 1 ]
	boot vm1
	[ "$status" -eq 1 ]
	[[ $output == *"vm1@1:boot is exported already"*"another command uses it, and ends it"* ]]
	kill "$command"
	status=0
	wait "$command" || status=$?
	[ "$status" -eq 130 ]
	until_gone "$qemu"
	[ -z "$(ls run)" ]
	must show vm1
	[[ $output != *"boot: "* ]]
	is_clean
}

@test "a command that is killed leaves no QEMU, no server and no file" {
	guest none vm1
	start_boot vm1
	server=$(cat run/vm1@1:boot.pid)
	kill -9 "$command"
	until_gone "$qemu"
	flock --timeout 120 run/vm1@1:boot.export true
	until_gone "$server"
	guest login vm1
	boot vm1
	[ "$status" -eq 0 ]
	[ -z "$(ls run)" ]
	is_clean
}

# definition BUS ORDER...: of a domain with these disks, vda first, on that bus.
definition() {
	local bus=$1 target=a order
	shift
	echo "<?xml version='1.0'?><!-- <disk> --><domain type='kvm'><name>dom &amp; co</name>"
	echo "<memory unit='MiB'>64</memory><vcpu placement='static'>2</vcpu>"
	echo "<os><type arch='x86_64' machine='${machine:-pc-q35-99.0}'>hvm</type></os><devices>"
	echo "<disk type='file' device='cdrom'><target dev='sdz' bus='sata'/></disk>"
	for order; do
		echo "<disk type='file' device='disk'><source file='/nowhere'/>"
		echo "<target dev='vd$target' bus='$bus'/><boot order=\"$order\"/></disk>"
		target=$(tr a-y b-z <<<"$target")
	done
	echo "</devices></domain>"
}

# moment: all that is there was taken at once.
moment() {
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"UPDATE version SET time = 1700000000"
}

@test "a disk of a domain boots with the others of its moment, in the machine of its definition" {
	guest none dom/vda
	guest login dom/vdb
	definition virtio 2 1 >xml
	must snapshot dom/xml --from xml
	# There is no moment yet: the disk is alone.
	boot dom/vda --time 1s
	[ "$status" -eq 1 ]
	boot dom/vdb
	[ -e "$(file_of dom/vdb log)" ]
	for volume in vda vdb xml; do
		must tag dom/$volume@1 +now
	done
	moment
	must show dom/vda
	[[ $output == *"definition:     dom/xml@1"* ]]
	boot dom/vda
	[ "$status" -eq 0 ]
	# Both are tested, and log and screen are of the one that was named.
	[ -e "$(file_of dom/vda log)" ]
	[ ! -e "$(file_of dom/vdb log)" ]
	[ ! -e "$(file_of dom/vdb png)" ]
	must list dom/vdb --json
	[ "$(field 0 '["boot_test"]["passed"]')" = True ]
	definition virtio 1 2 >xml
	start_boot dom/vda --memory 32M
	tr '\0' '\n' <"/proc/$qemu/cmdline" >args
	grep -x 'q35,accel=tcg' args
	grep -A 1 -x -e -m args | grep -x 32M
	grep -A 1 -x -e -smp args | grep -x 1
	[ "$(grep -c '^driver=nbd' args)" -eq 2 ]
	kill "$command"
	wait "$command" || :
	# A tag that has moved on is of another moment.
	guest none dom/vdb
	must tag dom/vdb@2 +now
	boot dom/vda --time 1s
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == *"dom/vda@1 is booted without the disk 'vdb', of which there is no version of the same moment" ]]
	boot dom/xml
	[ "$status" -eq 2 ]
	[[ $output == *"'dom/xml' is the definition of a domain: name one of its disks"* ]]
}

@test "disks on each bus boot" {
	machines=(pc-i440fx-2.1 pc-i440fx-2.1 pc-q35-7.2 pc-i440fx-2.1 pc-q35-7.2 pc-q35-7.2)
	buses=(ide sata sata scsi scsi usb)
	for i in "${!buses[@]}"; do
		guest login "dom$i/vda"
		machine=${machines[i]} definition "${buses[i]}" 1 >xml
		must snapshot "dom$i/xml" --from xml
		must tag "dom$i/vda@1" +now
		must tag "dom$i/xml@1" +now
	done
	moment
	for i in "${!buses[@]}"; do
		boot "dom$i/vda"
		echo "${machines[i]}, ${buses[i]}: $output"
		[ "$status" -eq 0 ]
	done
}

@test "what is no definition of a guest that boots here is refused" {
	guest login dom/vda
	definition virtio 1 >good
	nr=0
	for text in "s/x86_64/aarch64/" "s/<domain/<kingdom/" "s/'vda'/'vdc'/" "s/<devices>//" \
		"s/>hvm</>hvm<!--</" "s,</devices>,<disk><target dev='x\x1b[2J'/></disk>&," \
		"s/domain/$(printf 'x%.0s' {1..300})/"; do
		nr=$((nr + 1))
		sed "$text" good >bad
		must snapshot dom/xml --from bad
		must tag dom/vda@1 +now
		must tag "dom/xml@$nr" +now
		moment
		boot dom/vda
		echo "$text: $output"
		[ "$status" -eq 1 ]
		[[ $output == *"definition"* && $output != *"boots:"* && $output != *$'\e'* ]]
	done
	[ ! -e pool/boot ]
}

@test "by settings each volume has its rule, and the timer's command boots those that have one" {
	guest login web1
	guest escape db1
	guest off other
	# A volume may have no version any more.
	guest none web0
	must delete web0@1
	cat >conf <<-'END'
		[boot]
		volumes = web*
		volumes = db* serial:fine
		time = 30m
		accel = tcg
		[scrub]
		time = 1h
	END
	must verify --config conf --boot --all
	[[ ${lines[0]} == "db1@1 boots: the serial console says 'fine' ("* ]]
	[[ ${lines[1]} == "web1@1 boots: the serial console says 'login:' ("* ]]
	[ "${#lines[@]}" -eq 2 ]
	must verify --config conf --boot db1
	# One that fails keeps none from its test.
	ctl verify --config conf --boot --all --volumes '*' --rule serial:hello
	[ "$status" -eq 1 ]
	[[ $output == *"db1@1 does not boot"*"other@1 does not boot"*"web1@1 boots"* ]]
	must status
	[[ $output == *"2 of 3 volumes do not boot: db1@1 and others"* ]]
	must config --config conf
	[[ $output == *"boot       volumes        db* serial:fine "* ]]
	for line in "rule = serial:" "volumes = x screen:0" "accel = xen" "cpus = 0" "memory = 1M"; do
		printf '[boot]\n%s\n' "$line" >conf
		ctl config --config conf
		[ "$status" -eq 2 ]
		[[ $output == *"line 2: '${line%% *}' needs "* ]]
	done
}

@test "a QEMU that a guest has taken over or broken keeps the command from nothing" {
	guest none vm1
	broken flood vm1 --accel tcg --time 1s
	[ "$status" -eq 1 ]
	[[ $output == *"vm1@1 does not boot: 1 s: no 'login:' on the serial console, no agent"* ]]
	broken ends vm1 --accel tcg
	[ "$status" -eq 1 ]
	[[ $output == *"vm1@1 does not boot: QEMU ended"* ]]
	broken stops vm1 --accel tcg
	[ "$status" -eq 1 ]
	[[ $output == *"QEMU cannot go on with this guest"* ]]
	[ "$(wc -l <"$FAKE/starts")" -eq 1 ]
	if [ -w /dev/kvm ]; then
		# KVM is tried alone, and with the guest; it is emulated once then.
		broken stops vm1
		[ "$status" -eq 1 ]
		[[ $output == *"QEMU cannot go on with this guest"* ]]
		[ "$(wc -l <"$FAKE/starts")" -eq 3 ]
	fi
	rm "$FAKE/runs"
	BOOT_QEMU=drip PATH=$FAKE:$PATH "$build/bin/revdedupctl" verify vm1 --boot --accel tcg 3>&- &
	command=$!
	clients+=("$command")
	wait_for "$FAKE/runs"
	kill "$command"
	until_gone "$command"
	status=0
	wait "$command" || status=$?
	[ "$status" -eq 130 ]
	[ -z "$(ls run)" ]
	is_clean
}

@test "a still screen is one that was seen, and none of a firmware that has nothing to boot" {
	guest none vm1
	options=(--accel tcg --firmware uefi --rule screen:1)
	broken picture vm1 "${options[@]}"
	[ "$status" -eq 0 ]
	[[ $output == *"vm1@1 boots: the screen has been the same for 1 s"* ]]
	# What is kept of a screen is a picture.
	[ ! -e "$(file_of vm1 png)" ]
	for does in shell blind; do
		broken "$does" vm1 "${options[@]}" --time 3s
		echo "$does: $output"
		[ "$status" -eq 1 ]
		[[ $output == *": 3 s: no screen that stays the same"* ]]
	done
}

@test "a guest cannot fill the file system that has what it writes" {
	[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
	guest none vm1
	mkdir mnt
	mount -t tmpfs -o size=16M none mnt
	fallocate -l 16000K mnt/full
	TMPDIR=$PWD/mnt boot vm1
	echo "$output"
	[ "$status" -eq 12 ]
	[[ $output == *"'$PWD/mnt' has no room for what the guest writes"* ]]
	must show vm1
	[[ $output != *"boot: "* ]]
	is_clean
}

@test "results go with their versions" {
	guest login vm1
	boot vm1
	first=$(file_of vm1 result)
	guest login vm1
	boot vm1
	must delete vm1@1
	[ -e "$first" ]
	must prune vm1 --keep-last 1
	[ ! -e "$first" ]
	[ -e "$(file_of vm1 result)" ]
	[ "$(tail -n 1 "$(file_of vm1 result)")" = "of vm1@2" ]
	# What a stranger has put there is none.
	printf 'time 1\npassed 1\nwhy \033[2Jgone\n' >pool/boot/0000000000000001.result
	echo kept >bait
	ln -s "$PWD/bait" "$(file_of vm1 result).new"
	mv "$(file_of vm1 result).new" "$(file_of vm1 result)"
	must list vm1
	[[ ${lines[1]} != *boots* ]]
	boot vm1
	[ "$status" -eq 0 ]
	[ ! -L "$(file_of vm1 result)" ]
	[ "$(<bait)" = kept ]
	[ ! -e pool/boot/0000000000000001.result ]
}

@test "that the last version does not boot which was tested outlives that version" {
	local first
	guest none vm1
	boot vm1 --time 1s --rule serial:ready
	[ "$status" -eq 1 ]
	first=$(file_of vm1 result)
	guest login vm1
	must prune vm1 --keep-last 1
	must metrics
	[[ $output == *'revdedup_volume_boot_test_passed{volume="vm1"} 0'* ]]
	boot vm1
	[ "$status" -eq 0 ]
	must metrics
	[[ $output == *'revdedup_volume_boot_test_passed{volume="vm1"} 1'* ]]
	must prune vm1 --keep-last 1
	[ ! -e "$first" ]
}

@test "results go into no directory that a link leads to" {
	guest login vm1
	mkdir -m 700 elsewhere
	ln -s ../elsewhere pool/boot
	boot vm1
	[ "$status" -eq 1 ]
	[[ $output == *"cannot use '"*"pool/boot'"*"will not show this test"* ]]
	[ -z "$(ls -A elsewhere)" ]
}

@test "a disk with a partition for UEFI boots by that, or as it is asked for" {
	make_pool 128M
	truncate -s 8M esp.img
	sfdisk -q esp.img <<<'label: gpt
type=uefi'
	must snapshot esp --from esp.img
	# Of the firmware, which finds no program there.
	boot esp --rule serial:BdsDxe
	[ "$status" -eq 0 ]
	boot esp --rule serial:BdsDxe --firmware bios --time 1s
	[ "$status" -eq 1 ]
}

@test "wrong options, and a host without QEMU, get a sentence" {
	guest login vm1
	wrong() {
		ctl verify "${@:2}"
		echo "$output"
		[ "$status" -eq 2 ]
		[[ $output == *"$1"* ]]
	}
	wrong "--boot says what to verify by" vm1
	wrong "name a volume or a version, or use --all" --boot
	wrong "name a volume or a version, or use --all" --boot --all vm1
	wrong "--volumes is for --all" --boot vm1 --volumes 'x*'
	wrong "nothing says which volumes boot" --boot --all
	wrong "--rule needs serial:TEXT" --boot vm1 --rule login
	wrong "--rule needs serial:TEXT" --boot vm1 --rule screen:x
	wrong "--memory needs 16M or more" --boot vm1 --memory 1M
	wrong "--cpus needs a number from 1 to 64" --boot vm1 --cpus 0
	wrong "--time needs a time such as" --boot vm1 --time 0s
	wrong "--accel is auto, kvm or tcg" --boot vm1 --accel xen
	wrong "--firmware is bios or uefi" --boot vm1 --firmware none
	boot none
	[ "$status" -eq 1 ]
	[[ $output == *"there is no volume 'none' in the pool"* ]]
	boot '' --all --volumes 'none*'
	[ "$status" -ne 0 ]
	mkdir bin
	PATH=$PWD/bin boot vm1
	[ "$status" -eq 1 ]
	[[ $output == *"cannot run 'qemu-system-x86_64'"*"the Debian package qemu-system-x86 has it"* ]]
	[ ! -e pool/boot ]
}
