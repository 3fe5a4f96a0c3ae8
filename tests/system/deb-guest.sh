# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest's part of deb.sh, in the Debian on which deb.sh has installed the packages. It boots
# with systemd, four times: see "boots" below. In the first boot a volume is attached, and the
# units run; udev and LVM treat the devices as they should. In the second the volumes are there
# again, in the third as far as they can be without the module, and then again; at last dpkg
# upgrades the packages, and takes that back, while volumes are in use; refuses to remove them,
# and removes them.
set -euo pipefail
# shellcheck source=tests/guest/lib/guest.bash
. "${BASH_SOURCE[0]%/*}/../guest/lib/guest.bash"

# ok WHAT COMMAND... (In a function set -e has no effect then.)
passed=0
ok() {
	local what=$1
	shift
	if "$@" >/tmp/output 2>&1; then
		passed=$((passed + 1))
		echo "ok - $what"
	else
		echo "not ok - $what"
		sed 's/^/# /' /tmp/output
		echo "$passed passed, 1 failed"
		exit 1
	fi
}

fails() { ! "$@"; }

# refused WORDS COMMAND...: it ends with an error, and says this. The output of a test
# is not for the next one to read: that begins anew with each.
refused() {
	local words=$1
	shift
	fails "$@" >/tmp/error 2>&1 || return 1
	cat /tmp/error
	grep -qF -- "$words" /tmp/error
}

# property DEVICE: what udev knows of it.
property() { udevadm info --query=property --name="$1" | tee /tmp/property; }

# --- units

# of UNIT PROPERTY: what systemd knows of it.
of() { systemctl show --value --property "$2" "revdedup-$1.service"; }

# has UNIT PROPERTY VALUE; or print what an administrator would look at, and fail.
has() {
	[ "$(of "$1" "$2")" = "$3" ] && return
	echo "$2 is not '$3'"
	systemctl status --no-pager --full --lines=40 "revdedup-$1.service"
	return 1
}

# runs UNIT: it does its work, and has not failed.
runs() {
	systemctl start "revdedup-$1.service"
	has "$1" Result success && has "$1" ExecMainStatus 0 && [ "$(of "$1" ExecMainPID)" -gt 0 ]
}

# is_skipped UNIT: it has nothing to do, and has not failed.
is_skipped() {
	systemctl start "revdedup-$1.service"
	has "$1" ActiveState inactive && has "$1" ExecMainPID 0
}

# says UNIT WORDS: its last run did.
says() {
	journalctl --output=cat "_SYSTEMD_INVOCATION_ID=$(of "$1" InvocationID)" | tee /tmp/log
	grep -qF -- "$2" /tmp/log
}

# tells UNIT REASON: it fails, and root gets a mail with the reason.
tells() {
	rm -f /var/mail/root
	fails systemctl start "revdedup-$1.service" || return
	retry 100 0.2 grep -sqF -- "$2" /var/mail/root &&
		grep "^Subject: revdedup-$1.service failed on " /var/mail/root
}

# is_at_work UNIT: it is, and has been for a moment.
is_at_work() { [ "$(of "$1" ActiveState)" = activating ] && sleep 2; }

# stops UNIT: it does, and has not failed.
stops() {
	touch /etc/slow
	systemctl start --no-block "revdedup-$1.service"
	retry 20 0.1 is_at_work "$1"
	systemctl stop "revdedup-$1.service"
	rm /etc/slow
	has "$1" Result success
}

no_unit_failed() {
	systemctl --no-pager --failed | tee /tmp/failed
	grep -q "^0 loaded" /tmp/failed
}

# is_closed UNIT: what systemd thinks of its sandbox is 4 or better.
is_closed() { systemd-analyze security --no-pager --threshold=40 "revdedup-$1.service"; }

# --- the first boot: a host is set up

conf=/etc/revdedup/revdedup.conf
metrics=/var/lib/prometheus/node-exporter
broken=/etc/revdedup/volumes/revdedup-vg-none
vol=/dev/mapper/revdedup-vg-vm1
vm2=/dev/mapper/revdedup-vg-vm2
pool=/srv/pool/pool

make_host() {
	udevadm settle
	vgcreate -qq vg /dev/disk/by-id/virtio-disk0
	lvcreate -qq --yes -L 32M -n vm1 vg
	lvcreate -qq --yes -L 32M -n vm2 vg
	lvcreate -qq --yes -L 96M -n thin --type thin-pool vg
	lvcreate -qq --yes -V 64M -n vm3 --thinpool thin vg
	mkfs.ext4 -q -L pool /dev/disk/by-id/virtio-disk1
	mkdir -p /srv/pool /data
	echo 'LABEL=pool /srv/pool ext4 defaults 0 2' >>/etc/fstab
	# What the page shows, for another volume.
	sed -n 's|^  \(/dev/mapper/revdedup-vg-\)data \(/data .*\)|\1vm1 \2|p' \
		/revdedup/host.rst >>/etc/fstab
	systemctl daemon-reload
	systemctl start srv-pool.mount
}

# Some hooks need what a sandbox would forbid.
make_hook() {
	cat >/etc/revdedup/hooks.d/test <<-'END'
		#!/bin/sh
		[ ! -e /etc/slow ] || sleep 10
		mount -t tmpfs none /mnt && umount /mnt && echo "$*" >>/etc/hooks.log
	END
	chmod 755 /etc/revdedup/hooks.d/test
}

each_volume() { printf '%s\n' vg/vm{1,2,3} | xargs -n 1 revdedupctl "$1"; }

versions() { revdedupctl list "$1" | grep -c "^$1@"; }

# Print how many percent of its size a thin volume takes up.
thin_use() { lvs --noheadings -o data_percent vg/vm3 | awk '{ print int($1) }'; }

write_zeros() {
	dd if=/dev/urandom of=/dev/mapper/revdedup-vg-vm3 bs=1M count=16 oflag=direct &&
		dd if=/dev/zero of=/dev/mapper/revdedup-vg-vm3 bs=1M count=16 oflag=direct &&
		[ "$(thin_use)" -ge 25 ]
}

# Run in the sandbox of the unit what it does with a volume of that mode after some versions.
moves_blocks() {
	local dir=/run/systemd/system/revdedup-dedup.service.d
	dd if=/dev/urandom of=/dev/mapper/revdedup-vg-vm3 bs=1M count=16 oflag=direct &&
		revdedupctl snapshot vg/vm3 && mkdir -p $dir || return
	printf '%s\n' '[Service]' 'ExecStart=' \
		'ExecStart=/usr/sbin/revdedupctl offload --force --yes --cold 0 vg/vm3' \
		>$dir/test.conf
	systemctl daemon-reload
	runs dedup || return
	rm -r $dir
	systemctl daemon-reload
}

first_boot() {
	local unit
	# What deb.sh has set.
	sed -i 's|^pool = /mine|#&|' $conf
	ok "no unit fails at boot" no_unit_failed
	for unit in attach snapshot prune scrub dedup metrics; do
		ok "with nothing to do a unit is skipped: $unit" is_skipped $unit
	done
	make_host
	sed -i "s|^#pool = .*|pool = $pool|" $conf
	revdedupctl -q init --size 256M $pool
	ok "the package's module is loaded" modprobe dm-revdedup
	ok "volumes are attached" each_volume attach
	mkfs.ext4 -q $vol
	ok "one is mounted" systemctl start data.mount
	date >/data/one

	make_hook
	ok "the unit takes versions of all" runs snapshot
	ok "one of the volume in use" [ "$(versions vg/vm1)" = 1 ]
	ok "and runs hooks" grep -x "post vg/vm1 $vol" /etc/hooks.log
	ok "again" runs snapshot
	ok "a unit that is stopped has not failed" stops snapshot
	ok "a version is a device" revdedupctl map vg/vm1@1
	test_udev
	ok "without a rule no version is deleted" is_skipped prune
	sed -i 's|^#keep-daily = .*|keep-last = 1|' $conf
	ok "with one they are, also one that is a device" runs prune
	ok "all but the last" [ "$(versions vg/vm1)" = 1 ]
	revdedupctl unmap "vg/vm1@1"
	ok "the guest of a thin volume writes zeros" write_zeros
	ok "the unit gives space back" runs dedup
	ok "of the thin volume" says dedup "vg/vm3: found 16.0 MiB of zeros"
	ok "to its thin pool" [ "$(thin_use)" = 0 ]
	ok "and does the pass" test -e $pool/last-dedup
	ok "it may move blocks of it to the pool" moves_blocks
	ok "where they are read now" says dedup "vg/vm3: reads 16.0 MiB from the pool only"
	ok "the pool is verified" runs scrub
	ok "without a directory there are no metrics" is_skipped metrics
	mkdir -p $metrics
	ok "with one there are" runs metrics
	ok "of the pool" grep 'revdedup_pool_scrub_damaged_versions{.*} 0' $metrics/revdedup.prom
	ok "and of volumes" grep 'revdedup_device_tracked{volume="vg/vm3"} 1' $metrics/revdedup.prom
	# The rules for Prometheus compare both.
	ok "by one name" grep 'revdedup_volume_latest_timestamp_seconds{volume="vg/vm3"}' \
		$metrics/revdedup.prom
	ok "without a file there is no report" is_skipped report
	sed -i 's|^#html = .*|html = /srv/report.html|' $conf
	# systemd forgets at once what ran, as nothing refers to the unit yet.
	ok "with one there is" systemctl start revdedup-report.service
	ok "for all users" [ "$(stat -c %a /srv/report.html)" = 644 ]
	ok "without a volume none is booted" is_skipped boot
	test_failures
	test_timers
	for unit in prune scrub dedup metrics report failure@one; do
		ok "the sandbox is closed: $unit" is_closed $unit
	done
	test_lvm
}

is_left_alone() {
	property "$1" && grep -qx SYSTEMD_READY=0 /tmp/property &&
		grep -qx DM_UDEV_DISABLE_OTHER_RULES_FLAG=1 /tmp/property &&
		! grep ID_FS_ /tmp/property
}

is_ready() {
	property $vol && grep -qx SYSTEMD_READY=1 /tmp/property &&
		grep -qx DM_UDEV_DISABLE_OTHER_RULES_FLAG=1 /tmp/property &&
		[ "$(readlink -f "/dev/disk/by-uuid/$fs")" = "$(readlink -f $vol)" ]
}

test_udev() {
	local fs
	udevadm settle
	fs=$(blkid -p -o value -s UUID $vol)
	ok "no rule is wrong" eval '! journalctl -u systemd-udevd | grep -i revdedup'
	ok "a mapped version is not looked into" is_left_alone "$vol@1"
	ok "nor the metadata's device" is_left_alone "$vol:meta"
	ok "links by UUID lead to the volume" is_ready
	# Somebody who knows nothing of us: no flags, and all events again.
	dmsetup suspend "${vol##*/}@1"
	dmsetup resume "${vol##*/}@1"
	udevadm trigger --action=change
	udevadm settle
	ok "so it is after a resume by hand" is_left_alone "$vol@1"
	ok "and after all events again" is_ready
	test_mdadm
}

# all_events: once more, as a boot or the update of a package has them.
all_events() { udevadm trigger --subsystem-match=block --action=change && udevadm settle; }

is_member() { property "$vm2" && grep -qx ID_FS_TYPE=linux_raid_member /tmp/property; }

has_array() { tee /tmp/arrays </proc/mdstat | grep "dm-"; }

# A guest that makes an array of a whole disk, and a host that has mdadm.
test_mdadm() {
	local mask=/etc/udev/rules.d/63-revdedup.rules
	ok "a disk of a guest's array" mdadm --create /dev/md9 --run --force --metadata=1.2 \
		--level=1 --raid-devices=1 "$vm2"
	ok "which the guest has" mdadm --stop /dev/md9
	all_events
	ok "udev sees it" is_member
	ok "and does not start the array" fails has_array
	ln -s /dev/null $mask
	udevadm control --reload
	all_events
	ok "but would without our rule" retry 20 0.2 has_array
	rm $mask
	udevadm control --reload
	mdadm --stop --scan
	mdadm --zero-superblock "$vm2"
	udevadm settle
}

has_alert() { journalctl -t revdedup -p alert | grep -F "revdedup-scrub.service failed: "; }

test_failures() {
	local unit
	rm $pool/last-dedup
	umount /srv/pool
	ok "without its pool a unit fails" fails systemctl start revdedup-scrub.service
	ok "and the journal has an alert" retry 100 0.2 has_alert
	# It queues the mail, and delivers it when the unit has ended.
	ok "that of metrics, too" fails systemctl start revdedup-metrics.service
	ok "which say so" grep 'revdedup_pool_up{.*} 0' $metrics/revdedup.prom
	printf '#!/bin/sh\ncat >/var/mail/new\n(sleep 1; mv /var/mail/new /var/mail/root) &\n' \
		>/usr/sbin/sendmail
	chmod 755 /usr/sbin/sendmail
	for unit in snapshot prune scrub dedup; do
		ok "root gets the reason by mail: $unit" tells $unit "'$pool' is not a pool"
	done
	mount /srv/pool
	echo none >$broken
	ok "so it is if a volume cannot be looked at" tells dedup "$broken"
	ok "and the pass is done" test -e $pool/last-dedup
	rm $broken
	systemctl reset-failed
}

# is_due TIMER MINUTES: it is, within that time.
is_due() {
	local next
	next=$(systemctl show --value --property NextElapseUSecRealtime "revdedup-$1.timer")
	echo "$next"
	next=$(($(date --date="$next" +%s) - $(date +%s)))
	[ "$next" -ge 0 ] && [ "$next" -le $(($2 * 60)) ]
}

test_timers() {
	local timer
	while read -r timer minutes; do
		systemctl -q enable --now "revdedup-$timer.timer"
		ok "a timer is due: $timer" is_due "$timer" "$minutes"
	done <<-END
		metrics 6
		snapshot 62
		prune 1500
		dedup 1500
		scrub 45000
		report 72
		boot 11000
	END
	systemctl -q disable --now revdedup-{metrics,snapshot,dedup,prune,report,boot}.timer
}

test_lvm() {
	local filter
	filter=$(sed -n 's/^ *\(devices { global_filter.*\)/\1/p' /revdedup/host.rst)
	pvcreate -qq /dev/mapper/revdedup-vg-vm2
	vgcreate -qq guest /dev/mapper/revdedup-vg-vm2
	lvcreate -qq --yes -L 8M -n root guest
	vgchange -qq -an guest
	ok "a guest's volume group is seen" vgs guest
	ok "with the documented filter it is not" refused guest vgs --config "$filter" guest
	ok "but the host's" vgs --config "$filter" vg
	ok "doctor says so" doctor_says lvm-filter "which is a guest's"
}

# --- the second boot: LVM as Debian sets it up

are_tracked() { [ "$(revdedupctl status --json | grep -c '"state": "tracked"')" = 3 ]; }

# What each boot with attached volumes finds.
test_boot() {
	ok "no unit fails at boot" no_unit_failed
	ok "systemd has not left out one" eval '! journalctl -b | grep "ordering cycle"'
	ok "the unit has attached volumes" has attach ActiveState active
	ok "changes are tracked" are_tracked
	ok "one is mounted" retry 100 0.2 grep . /data/one
	ok "the guest's group is not active" eval '! dm_devices | grep ^guest'
}

second_boot() {
	test_boot
	ok "though this host sees it" vgs guest
	systemctl stop revdedup-attach.service
	echo none >$broken
	ok "root is told if a volume cannot be attached" tells attach "$broken"
	rm $broken
	# As an installation of Proxmox VE has it.
	lvchange -qq --setautoactivation n vg/vm1 vg/vm2 vg/vm3
	sed -i 's/^devices {/&\n\tuse_devicesfile = 1/' /etc/lvm/lvm.conf
	lvm lvmdevices --yes --adddev /dev/disk/by-id/virtio-disk0
	# As a disk that was full while it was built has it; boot_all unloads the module.
	cp "$(modinfo -n dm-revdedup)" /root/module
	truncate -s 4K "$(modinfo -n dm-revdedup)"
}

# --- a boot with a module that does not load

# state_is VOLUME STATE WORDS: status says so.
state_is() {
	revdedupctl status "$1" >/tmp/status
	cat /tmp/status
	grep -E "^$1 +$2 .*$3" /tmp/status
}

# doctor_says NAME WORDS [MEND]
doctor_says() {
	revdedupctl doctor >/tmp/doctor
	grep -A 1 "^$1 " /tmp/doctor | tee /tmp/found
	grep -F -- "$2" /tmp/found && { [ $# -eq 2 ] || grep -F -- "mend: $3" /tmp/found; }
}

boot_without_module() {
	local fs
	fs=$(blkid -p -o value -s UUID $vol)
	ok "without the module the host comes up" systemctl is-active multi-user.target
	ok "and no other unit fails" [ "$(failed_units)" = revdedup-attach.service ]
	ok "the unit says that a volume works, and is not tracked" says attach \
		"there is no module dm-revdedup for this kernel: 'vg/vm1' works, but is not tracked"
	ok "and of which one blocks lie in the pool" \
		says attach "and blocks of 'vg/vm3' lie in the pool"
	ok "what is on the volume is mounted" retry 100 0.2 grep . /data/one
	ok "links by UUID lead to it" is_ready
	ok "status says of it that it is not tracked" state_is vg/vm1 linear 'is not tracked'
	ok "and of the other one that it has no device" state_is vg/vm3 down 'has no device'
	ok "no version of it is taken, which would lack something" \
		refused "'vg/vm1' is not tracked" revdedupctl snapshot vg/vm1
	ok "root is told so by the timer's unit" tells snapshot "'vg/vm1' is not tracked"
	ok "a guest writes" dd if=/dev/urandom of=$vm2 bs=4k seek=5000 count=100 oflag=direct
	ok "doctor says why" doctor_says module "does not load: modprobe: ERROR: could not insert" \
		"dkms install --force revdedup/"
	cp /root/module "$(modinfo -n dm-revdedup)"
	echo 'install dm-revdedup /bin/false' >/etc/modprobe.d/test.conf
	ok "so it does of a line that forbids it" doctor_says module "'install /bin/false'" \
		"remove the line that this shows: grep -r revdedup /etc/modprobe.d"
	ok "which 'attach' obeys as well" state_is vg/vm1 linear 'is not tracked'
	rm /etc/modprobe.d/test.conf
}

failed_units() { systemctl --no-pager --plain --no-legend --failed | awk '{ print $1 }'; }

# is_whole VOLUME: its newest version is what its device has.
is_whole() { revdedupctl dump "$1@latest" | cmp - "$vm2"; }

# reads_changes VOLUME: a version of it, which is based on the one before.
reads_changes() {
	revdedupctl snapshot "$1" | tee /tmp/made
	grep " changed segments, " /tmp/made
}

# What the first boot after it finds.
test_after() {
	ok "tracking was lost, and status says so" \
		state_is vg/vm2 tracked 'has lost track of changes: the next snapshot reads everything'
	ok "the next version is read in full" eval \
		'revdedupctl snapshot vg/vm2 | grep -F "full read: "'
	ok "and has what was written without the module" is_whole vg/vm2
	ok "the one behind it is not" reads_changes vg/vm2
}

# --- the last: LVM as Proxmox VE sets it up; upgrade, and removal

writer() {
	touch /tmp/go
	while [ -e /tmp/go ]; do
		dd if=/dev/urandom of=/data/two bs=64k count=4 conv=fsync status=none
		sleep 0.5
	done
}

nothing_left() {
	! find /etc /usr /lib /var/lib/dkms -name "*revdedup*" | grep . &&
		! dm_devices | grep revdedup
}

# All that was at work before the packages were replaced.
goes_on() {
	ok "the module is still there" [ "$(</sys/module/dm_revdedup/refcnt)" -gt 0 ]
	ok "the unit was not stopped" has attach ActiveState active
	ok "a timer goes on" systemctl is-active revdedup-scrub.timer
	ok "no other one does" fails systemctl is-active revdedup-prune.timer
	ok "who writes was not stopped" kill -0 "$writer"
	ok "versions are taken" runs snapshot
	ok "the pool is sound" revdedupctl check
}

third_boot() {
	local writer
	test_boot
	ok "this host does not see it" refused guest vgs guest
	test_after
	ok "doctor finds nothing wrong" revdedupctl doctor
	writer &
	writer=$!
	# There is neither compiler nor header here, so there will be no module for the next
	# boot: the worst case.
	ok "they are upgraded while volumes are in use" eval 'dpkg -i /later/*.deb'
	goes_on
	ok "the ones before come back while volumes are in use" eval 'dpkg -i /debs/*.deb'
	goes_on
	ok "the programs do not go while volumes are attached, and say what to do" \
		refused "revdedupctl detach" dpkg -r revdedup-nbdkit revdedup
	ok "nor does the module" refused "revdedupctl detach" dpkg -r revdedup-dkms
	rm /tmp/go
	wait "$writer"
	systemctl stop data.mount
	ok "blocks are copied back" revdedupctl recall vg/vm3
	ok "volumes are detached" each_volume detach
	rm /etc/revdedup/hooks.d/test
	ok "they go when nothing is attached" dpkg -P revdedup-nbdkit revdedup revdedup-dkms
	ok "nothing is left, and no device" nothing_left
	ok "the module is unloaded" retry 20 0.2 rmmod dm_revdedup
}

# --- boots

# Boot four times, with systemd as the first process of a PID namespace. It ends each boot as it
# ends a machine: nothing is mounted then, and no device is left.
boot_all() {
	local part
	systemd-machine-id-setup
	# It begins when the boot has ended. systemd forgets how a unit ended to which no other
	# refers: this one does.
	cat >/etc/systemd/system/part.service <<-'END'
		[Unit]
		After=multi-user.target revdedup-attach.service revdedup-snapshot.service
		After=revdedup-prune.service revdedup-scrub.service revdedup-dedup.service
		After=revdedup-metrics.service
		SuccessAction=poweroff
		FailureAction=poweroff
		[Service]
		Type=oneshot
		Environment=HOME=/root LC_ALL=C
		ExecStart=/bin/bash /revdedup/part
	END
	systemctl -q add-wants graphical.target part.service
	systemctl -q mask getty.target
	mkfifo /revdedup/out
	for part in first_boot second_boot boot_without_module third_boot; do
		[ $part != boot_without_module ] || rmmod dm_revdedup
		# The end of the last one has made it read-only.
		mount -o remount,rw /
		echo "exec bash /revdedup/tests/system/deb-guest.sh $part >/revdedup/out 2>&1" \
			>/revdedup/part
		cat /revdedup/out &
		unshare --pid --fork --mount --mount-proc \
			/lib/systemd/systemd --log-target=kmsg || :
		wait $!
		passed=$(</revdedup/passed)
	done
	mount -o remount,rw /
	dmesg >/tmp/log
	ok "the kernel said nothing that it should not" is_quiet
	echo "$passed passed, 0 failed"
}

is_quiet() { grep -qF "$mark" /tmp/log && ! dmesg_since "$mark" </tmp/log | dmesg_bad; }

if [ $# -eq 0 ]; then
	mark=$(dmesg_mark "deb $RANDOM$RANDOM")
	echo 0 >/revdedup/passed
	boot_all
	exit
fi
passed=$(</revdedup/passed)
rm /revdedup/passed
"$1"
echo "$passed" >/revdedup/passed
