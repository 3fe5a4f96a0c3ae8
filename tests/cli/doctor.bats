#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl doctor: on a host whose programs, modules and units are not real. A guest has real
# ones: tests/system/deb-guest.sh.
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a subshell; host= is for doctor
# shellcheck disable=SC2154 # by lib.bash
load pool

setup() {
	cli_setup
	unset REVDEDUP_POOL
	export REVDEDUP_CONFIG=$PWD/etc HOST=$PWD/host
	release=$(uname -r)
	mkdir -p etc/volumes host/{bin,sbin,block,modules,sysmodule} host/usr/rules.d
	echo 0 >host/sysctl
	# A host on which all is well, as far as programs say.
	touch host/usr/rules.d/56-revdedup.rules
	says lvm '  LVM version:     2.03.16(2) (2022-05-18)'
	says timedatectl yes
	says systemctl ''
	says dkms ''
	says pvs ''
	says modinfo '' 1
	for program in modprobe nbdkit qemu-img qemu-system-x86_64 virsh bsdtar; do
		says $program ''
	done
	# Libraries that do not load, which also takes no time.
	mkdir host/libs
	touch host/libs/{libguestfs.so.0,libnbd.so.0,librados.so.2}
	# Nothing else of the machine is found.
	ln -s "$(command -v sh)" host/bin/
	# What is wrong all the time on this machine.
	always=''
	[ "$(printf '%s\n' 6.1 "$release" | sort -V | head -n 1)" = 6.1 ] || always=kernel
}

# says PROGRAM TEXT [STATUS]: the host's PROGRAM does.
says() {
	printf '#!/bin/sh\necho %q\nexit %d\n' "$2" "${3:-0}" >"host/bin/$1"
	chmod +x "host/bin/$1"
}

# kernel RELEASE [headers]: the host has it.
kernel() {
	mkdir -p "host/modules/$1/build"
	touch "host/modules/$1/modules.order"
	[ $# -eq 1 ] || touch "host/modules/$1/build/Makefile"
}

# doctor [ARGUMENT...]: on that host, with $with before it. Its output is there.
doctor() {
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(--map-root-user)
	# shellcheck disable=SC2016,SC2086 # the inner shell expands; $with has words
	run unshare --mount "${root[@]}" bash -c '
		set -e
		[ -d /lib/modules ] || {
			echo "this needs a directory /lib/modules to put the host'"'"'s over it"
			exit 99
		}
		mount --bind "$HOST/modules" /lib/modules
		mount --bind "$HOST/block" /sys/block
		mount --bind "$HOST/sysmodule" /sys/module
		# No module that this machine has loaded.
		[ ! -e /dev/mapper/control ] || mount --bind /dev/null /dev/mapper/control
		for dir in /usr/sbin /usr/local/sbin /sbin; do
			[ ! -d $dir ] || [ -L $dir ] || mount --bind "$HOST/sbin" $dir
		done
		for dir in /etc/udev /run/udev /usr/local/lib/udev /usr/lib/udev; do
			[ ! -d $dir ] || mount --bind "$HOST/usr" $dir
		done
		sysctl=/proc/sys/kernel/io_uring_disabled
		[ ! -e $sysctl ] || mount --bind "$HOST/sysctl" $sysctl
		[ ! -e "$HOST/full" ] || {
			mount -t tmpfs none pool
			cp -a --sparse=always "$HOST/full/." pool
			size=$(df -k --output=used pool | tail -n 1)
			mount -o "remount,size=$((size + 2048))k" pool
		}
		exec "$@"' - ${with:-} env "PATH=$HOST/bin" \
		"LD_LIBRARY_PATH=$HOST/libs" "$build/bin/revdedupctl" doctor "$@"
}

# finds NAME STATE TEXT [MEND]: it does, each a pattern. $wrong: the names of all that is wrong
# there, for which it exits with 1.
finds() {
	doctor --json
	echo "$output"
	found "$@"
}

# found NAME STATE TEXT [MEND]: it has.
found() {
	local found all expected
	found=$(grep "\"name\": \"$1\"" <<<"$output")
	all=$(sed -n 's/.*"name": "\([^"]*\)", "state": "wrong".*/\1/p' <<<"$output" | xargs)
	expected=$(xargs <<<"$always ${wrong:-}")
	[ "$all" = "$expected" ] || {
		echo "wrong: '$all', not '$expected'"
		return 1
	}
	# shellcheck disable=SC2053 # patterns
	[[ $found == *'"state": "'$2'", "text": "'$3'", "mend": '${4:-null}'}' ]] &&
		[ "$status" -eq "$([ -z "$all" ]; echo $?)" ]
}

# attached: as if a volume were.
attached() { echo none >etc/volumes/revdedup-vg-vm1; }

@test "doctor: a host on which all is well" {
	finds udev ok '*'
	[ -n "$always" ] || { [ "$status" -eq 0 ] && [[ $output != *'"state": "wrong"'* ]]; }
}

@test "doctor: programs of which the path lacks the directory" {
	mv host/bin/{lvm,pvs,modinfo} host/sbin/
	finds lvm ok 'LVM 2.03.16*'
	found lvm-filter ok '*'
	rm host/sbin/{lvm,modinfo}
	finds lvm note 'LVM is not installed*' '*'
	finds module unknown "cannot run 'modinfo': *"
}

@test "doctor: a kernel that is too old" {
	[ -n "$always" ] || finds kernel ok "Linux $release"
	with='setarch --uname-2.6' always='' wrong=kernel
	finds kernel wrong 'Linux 2.6.* is too old: *6.1 or later' '"apt install linux-image-*"'
	says dnf ''
	finds kernel wrong '*' '"dnf install kernel, and restart"'
}

@test "doctor: no module, which matters once a volume is attached" {
	finds module note "there is no module dm-revdedup for this kernel, $release*" \
		"\"apt install revdedup-dkms linux-headers-$release\""
	attached
	wrong='module volumes'
	finds module wrong '*' "\"apt install revdedup-dkms linux-headers-$release\""
	rm etc/volumes/*
	wrong=module
	# It was to be built.
	says dkms "revdedup/1.2: added"
	finds module wrong '*' "\"apt install linux-headers-$release\""
	kernel "$release" headers
	finds module wrong '*' "\"dkms install revdedup/1.2 -k $release; *make.log says why\""
}

@test "doctor: a module that does not load" {
	wrong=module
	says modinfo ''
	says modprobe "modprobe: ERROR: could not insert 'dm_revdedup': Key was rejected by service" 1
	finds module wrong '*does not load: *Key was rejected by service' \
		'"apt install revdedup-dkms, which signs it; mokutil --import *"'
	says dkms "revdedup/1.2, $release, x86_64: installed"
	finds module wrong '*' '"mokutil --import *"'
	says dkms ''
	says modprobe "modprobe: ERROR: could not insert 'dm_revdedup': Exec format error" 1
	finds module wrong '*does not load: *Exec format error' \
		"\"apt install --reinstall revdedup-modules-$release; *\""
	says dkms "revdedup/1.2, $release, x86_64: installed"
	finds module wrong '*' "\"dkms install --force revdedup/1.2 -k $release\""
	says modprobe 'install /bin/false '
	finds module wrong "a line in /etc/modprobe.d keeps *: 'install /bin/false'" \
		'"*grep -r revdedup /etc/modprobe.d"'
}

@test "doctor: a kernel that the next boot may take has no module" {
	finds kernels ok 'each other kernel has the module'
	kernel 99.1-new
	finds kernels note '99.1-new, *no change is tracked' \
		'"apt install revdedup-dkms linux-headers-99.1-new"'
	attached
	wrong='module kernels volumes'
	finds kernels wrong '*' '"apt install revdedup-dkms linux-headers-99.1-new"'
}

@test "doctor: a kernel before the running one has no module" {
	kernel "$release"
	kernel 5.10-old headers
	says dkms "revdedup/1.2, $release, x86_64: installed"
	attached
	wrong='module volumes'
	finds kernels note '5.10-old, *older*' '"apt purge linux-image-5.10-old"'
	rm -r host/modules/5.10-old
	kernel 6.1-old
	# Older than the running one is what counts.
	[ -n "$always" ] ||
		finds kernels note '6.1-old, *' '"apt purge linux-image-6.1-old, or install its headers"'
}

@test "doctor: LVM that is not there, or too old" {
	finds lvm ok 'LVM 2.03.16*'
	says lvm '  LVM version:     2.02.187(2) (2020-03-24)'
	wrong=lvm finds lvm wrong 'LVM 2.02.187*too old*' '"apt install lvm2"'
	rm host/bin/lvm
	finds lvm note 'LVM is not installed*' '"apt install lvm2"'
	attached
	wrong='module lvm volumes' finds lvm wrong '*' '"apt install lvm2"'
}

@test "doctor: LVM that does not answer, or would not" {
	finds lvm-filter ok 'LVM looks into no disk of a guest'
	says pvs '' 5
	finds lvm-filter unknown "'pvs' fails" '"pvs says why"'
	mkdir -p host/block/dm-7/dm
	echo 1 >host/block/dm-7/dm/suspended
	finds lvm-filter unknown 'a device is suspended, *' '*'
}

@test "doctor: no rule for udev" {
	finds udev ok '*56-revdedup.rules*'
	# As Fedora and RHEL have it.
	mv host/usr/rules.d/{56,12}-revdedup.rules
	finds udev ok '*12-revdedup.rules*'
	rm host/usr/rules.d/*
	finds udev note '*may bypass tracking' '"apt install --reinstall revdedup"'
	attached
	wrong='module udev volumes' finds udev wrong '*' '"apt install --reinstall revdedup"'
}

@test "doctor: units that are not enabled, or have failed" {
	finds boot ok 'volumes are attached at boot'
	found timers ok '*'
	found units ok '*'
	# shellcheck disable=SC2016 # for sh
	printf '%s\n' '#!/bin/sh' '[ "$1" != is-enabled ] || [ "$2" = revdedup-prune.timer ] || exit 1' \
		'[ "$1" != --plain ] || echo "revdedup-scrub.service loaded failed failed Read"' \
		>host/bin/systemctl
	wrong=units
	finds boot note 'revdedup-attach.service is not enabled: *' \
		'"systemctl enable revdedup-attach.service"'
	found timers note 'not enabled: revdedup-snapshot.timer revdedup-scrub.timer revdedup-dedup.timer' \
		'"systemctl enable --now revdedup-snapshot.timer revdedup-scrub.timer revdedup-dedup.timer"'
	found units wrong "'revdedup-scrub.service' has failed" \
		'"journalctl -u revdedup-scrub.service *"'
	attached
	wrong='module boot units volumes'
	finds boot wrong '*' '"systemctl enable revdedup-attach.service"'
	rm host/bin/systemctl
	wrong='module volumes'
	finds boot unknown "*'revdedupctl attach --all' must run at boot"
}

@test "doctor: a clock that is not set" {
	finds clock ok synchronized
	says timedatectl no
	finds clock note 'not synchronized*' '"timedatectl set-ntp true"'
	rm host/bin/timedatectl
	finds clock unknown '*'
}

@test "doctor: what the kernel does not allow" {
	with='env REVDEDUP_NO_URING=1'
	finds io_uring note 'not allowed*' '"unset REVDEDUP_NO_URING"'
	if [ -e /proc/sys/kernel/io_uring_disabled ]; then
		echo 2 >host/sysctl
		finds io_uring note 'not allowed*' \
			'"unset REVDEDUP_NO_URING; sysctl kernel.io_uring_disabled=1"'
	fi
	with="setpriv --bounding-set=-ipc_lock prlimit --memlock=65536"
	finds memory note 'processes may not lock it: *' '"ulimit -l unlimited*"'
}

@test "doctor: what some commands need" {
	finds nbdkit ok nbdkit
	for name in qemu-utils qemu libvirt bsdtar; do
		found $name ok '*'
	done
	rm host/bin/{nbdkit,qemu-img,qemu-system-x86_64,virsh,bsdtar}
	finds nbdkit note 'nbdkit is not installed, which *export*' '"apt install nbdkit"'
	found qemu-utils note '*qcow2*' '"apt install qemu-utils"'
	found qemu note '*verify --boot*' '"apt install qemu-system-x86"'
	found libvirt note '*' '"apt install libvirt-clients"'
	found bsdtar note '*' '"apt install libarchive-tools"'
	# shellcheck disable=SC2016 # for sh
	printf '#!/bin/sh\n[ "$1" != revdedup ]\n' >host/bin/nbdkit
	chmod +x host/bin/nbdkit
	finds nbdkit note "nbdkit's plugin revdedup is not*" '"apt install revdedup-nbdkit"'
	found libguestfs note 'libguestfs is not*' '"apt install libguestfs0"'
	found libnbd note 'libnbd is not*' '"apt install libnbd0"'
	found ceph note 'librados or librbd is not*' '"apt install librados2 librbd1"'
}

@test "doctor: settings and the pool" {
	finds settings ok "there is no '$PWD/etc/revdedup.conf'*"
	finds pool note 'none is named*' "\"set 'pool =' in $PWD/etc/revdedup.conf; *\""
	echo 'pool = none' >etc/revdedup.conf
	wrong=settings finds settings wrong "no setting of '$PWD/etc/revdedup.conf' counts*" "\"edit $PWD/*\""
	[[ $output == *"revdedupctl: "*"line 1"* ]]
	printf '[general]\npool = %s/none\n' "$PWD" >etc/revdedup.conf
	wrong=pool finds settings ok "'$PWD/etc/revdedup.conf'"
	wrong=pool found pool wrong "'$PWD/none' is not a pool*" '"*"'
	must init --compression none pool --size 1G --reserve 1M
	export REVDEDUP_POOL=$PWD/pool
	finds pool ok "'$PWD/pool', free: *"
	blocks image 0 9216
	must snapshot vm1 --from image
	# On a file system that has hardly more room than for that.
	mv pool host/full
	mkdir pool
	wrong=pool finds pool wrong "'$PWD/pool' is nearly full, free: *" '"revdedupctl prune *"'
}

@test "doctor: a pool in which a scrub or a check has found damage" {
	local damage
	must init --compression none pool --size 64M --reserve 1M
	export REVDEDUP_POOL=$PWD/pool
	damage="'$PWD/pool': the last scrub or check found damage"
	blocks image 0 100
	must snapshot vm1 --from image
	damage image 50
	ctl scrub
	[ "$status" -eq 4 ]
	wrong=pool finds pool wrong "$damage" '"revdedupctl repair"'
	must repair --from image
	finds pool ok "'$PWD/pool', free: *"
	# A check is right until a scrub, or a repair, has counted the catalog again.
	printf 'versions 0\nfingerprints 0\ncatalog 1\n' >pool/last-check
	wrong=pool finds pool wrong "$damage" '"revdedupctl repair"'
	touch -d "1 hour ago" pool/last-check
	finds pool ok "'$PWD/pool', free: *"
	rm pool/last-scrub
	wrong=pool finds pool wrong "$damage" '"revdedupctl repair"'
}

@test "doctor: a pool that another command has" {
	must init pool --size 64M
	export REVDEDUP_POOL=$PWD/pool
	hold 0 0
	finds pool unknown 'another command is using *' '"try again later*"'
}

@test "doctor: a pool to which nothing can be written" {
	must init pool --size 64M --reserve 1M
	export REVDEDUP_POOL=$PWD/pool
	blocks image 0 8
	must snapshot vm1 --from image
	cp --sparse=always pool/data older
	for first in 8 16 24; do
		blocks image $first 8
		must snapshot vm1 --from image
	done
	finds pool ok '*'
	cp --sparse=always older pool/data
	wrong=pool finds pool wrong "'$PWD/pool': *; nothing can be written" \
		"\"bring back the newer data area if you can; *'revdedupctl repair --force'*\""
}

@test "doctor: volumes and hooks" {
	finds volumes ok 'none is attached'
	attached
	wrong='module volumes'
	finds volumes wrong '*revdedup-vg-vm1*' '*'
	finds hooks ok '0 run *'
	mkdir etc/hooks.d
	touch etc/hooks.d/freeze
	finds hooks note "'$PWD/etc/hooks.d/freeze' is not executable*" \
		"\"chmod +x $PWD/etc/hooks.d/freeze\""
	chmod 777 etc/hooks.d/freeze
	wrong='module volumes hooks'
	finds hooks wrong "'$PWD/etc/hooks.d/freeze' can be written to by other users*" '"*chmod go-w*"'
}

@test "doctor: as text" {
	doctor
	[ -n "$always" ] || [ "$status" -eq 0 ]
	[ -n "$always" ] || grep -x "kernel       ok     Linux $release" <<<"$output"
	grep -x -A 1 'module       note   there is no module dm-revdedup.*' <<<"$output" |
		grep -x "                    mend: apt install revdedup-dkms linux-headers-$release"
	attached
	doctor --quiet
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	doctor vm1
	[ "$status" -eq 2 ]
}
