# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest's part of deb.sh, in the Debian on which deb.sh has installed the packages. A
# volume is attached, and used while dpkg upgrades the packages and refuses to remove them;
# udev and LVM treat its devices as they should; at last dpkg removes the packages.
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
property() { udevadm info --query=property --name="$1"; }

# --- a host

# The first process is not in here, and so udevadm would do nothing.
export SYSTEMD_IGNORE_CHROOT=1
mount -t tmpfs tmpfs /run
mkdir -p /run/udev /run/lock
/lib/systemd/systemd-udevd --daemon 2>/tmp/udev.log
udevadm trigger --action=add
udevadm settle
mark=$(dmesg_mark "deb $RANDOM$RANDOM")
modprobe brd rd_size=$((160 * 1024)) rd_nr=2 max_part=0
mkdir -p /srv/pool /mnt
mkfs.ext4 -q /dev/ram1
mount /dev/ram1 /srv/pool
vgcreate -qq vg /dev/ram0
lvcreate -qq --yes -L 32M -n vm1 vg
lvcreate -qq --yes -L 32M -n vm2 vg
sed -i 's|^#*pool = .*|pool = /srv/pool/pool|' /etc/revdedup/revdedup.conf
revdedupctl -q init --size 256M /srv/pool/pool

# What the units run.
unit() {
	sed -n 's/^ExecStart=//p' "/lib/systemd/system/revdedup-$1.service"
}

ok "the package's module is loaded" modprobe dm-revdedup
ok "volumes are attached" eval 'revdedupctl attach vg/vm1 && revdedupctl attach vg/vm2'
vol=/dev/mapper/revdedup-vg-vm1
mkfs.ext4 -q $vol
ok "mounted" mount $vol /mnt
date >/mnt/one
ok "the unit takes versions of all" bash -c "$(unit snapshot)"
ok "the unit attaches what is attached" bash -c "$(unit attach)"
ok "a version is a device" revdedupctl map vg/vm1@1

# --- udev

udevadm settle
# shellcheck disable=SC2034 # in what is evaluated
fs=$(blkid -p -o value -s UUID $vol)
ok "no rule is wrong" fails grep -i revdedup /tmp/udev.log
is_left_alone() {
	property "$1" | tee /tmp/property
	grep -qx SYSTEMD_READY=0 /tmp/property &&
		grep -qx DM_UDEV_DISABLE_OTHER_RULES_FLAG=1 /tmp/property &&
		! grep ID_FS_ /tmp/property
}
ok "a mapped version is not looked into" is_left_alone "$vol@1"
ok "nor the metadata's device" is_left_alone "$vol:meta"
is_ready() {
	property $vol | tee /tmp/property
	grep -qx SYSTEMD_READY=1 /tmp/property &&
		grep -qx DM_UDEV_DISABLE_OTHER_RULES_FLAG=1 /tmp/property &&
		[ "$(readlink -f "/dev/disk/by-uuid/$fs")" = "$(readlink -f $vol)" ]
}
ok "links by UUID lead to the volume" is_ready
# Somebody who knows nothing of us: no flags, and all events again.
dmsetup suspend "${vol##*/}@1"
dmsetup resume "${vol##*/}@1"
udevadm trigger --action=change
udevadm settle
ok "so it is after a resume by hand" is_left_alone "$vol@1"
ok "and after all events again" is_ready

# --- LVM

pvcreate -qq /dev/mapper/revdedup-vg-vm2
vgcreate -qq guest /dev/mapper/revdedup-vg-vm2
ok "a guest's volume group is seen" eval 'vgs guest'
filter=$(sed -n 's/^ *\(devices { global_filter.*\)/\1/p' /revdedup/host.rst)
is_filtered() {
	[ -n "$filter" ] && ! vgs --config "$filter" guest && vgs --config "$filter" vg
}
ok "and with the documented filter it is not" is_filtered
vgremove -qq --yes guest
pvremove -qq /dev/mapper/revdedup-vg-vm2

# --- upgrade, and removal

writer() {
	touch /tmp/go
	while [ -e /tmp/go ]; do
		dd if=/dev/urandom of=/mnt/two bs=64k count=4 conv=fsync status=none
		sleep 0.5
	done
}
writer &
writer=$!
# There is neither compiler nor header here, so there will be no module for the next
# boot: the worst case.
ok "they are upgraded while volumes are in use" eval 'dpkg -i /later/*.deb'
ok "the module is still there" [ "$(</sys/module/dm_revdedup/refcnt)" -gt 0 ]
ok "changes are tracked" eval 'revdedupctl status --json | grep -q "\"state\": \"tracked\""'
ok "who writes was not stopped" kill -0 "$writer"
ok "versions are taken" revdedupctl snapshot --all
ok "the programs do not go while volumes are attached, and say what to do" \
	refused "revdedupctl detach" dpkg -r revdedup-nbdkit revdedup
ok "nor does the module" refused "revdedupctl detach" dpkg -r revdedup-dkms
rm /tmp/go
wait "$writer"
ok "the pool is sound" revdedupctl check
revdedupctl unmap "$vol@1"
umount /mnt
revdedupctl detach vg/vm1
revdedupctl detach vg/vm2
ok "they go when nothing is attached" dpkg -P revdedup-nbdkit revdedup revdedup-dkms
nothing_left() {
	! find /etc /usr /lib /var/lib/dkms -name "*revdedup*" | grep . &&
		! dm_devices | grep revdedup
}
ok "nothing is left, and no device" nothing_left
ok "the module is unloaded" retry 20 0.2 rmmod dm_revdedup
dmesg >/tmp/log
is_quiet() { grep -qF "$mark" /tmp/log && ! dmesg_since "$mark" </tmp/log | dmesg_bad; }
ok "the kernel said nothing that it should not" is_quiet
echo "$passed passed, 0 failed"
