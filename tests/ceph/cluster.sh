#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: cluster.sh start [OSDS]
#        cluster.sh stop|wipe
#        cluster.sh pool NAME [SIZE]
#        cluster.sh fs NAME [SIZE]
#        cluster.sh mount NAME DIRECTORY
#        cluster.sh keyring NAME CAPS...
#        cluster.sh kill|pause|resume|revive DAEMON
#
# A small Ceph cluster on this machine, for tests: a monitor and OSDs on sparse files, with
# cephx, on the loopback address. It needs root and neither a kernel module nor systemd, and
# leaves the Ceph of the machine alone. "setup.sh ceph" installs what it needs, and
# "setup.sh cephfs" what CephFS needs besides.
#
#   start    make it, or start those of its daemons that do not run, and print its settings:
#            eval "$(cluster.sh start 3)" exports CEPH_CONF. 1 OSD, if the number is not said
#   stop     stop it; what it stores stays
#   wipe     stop and remove it
#   pool     make a pool with SIZE copies (1), of which a majority must be there
#   fs       make the CephFS NAME, of pools with SIZE copies (1). Its server is mds.NAME, and it
#            has a manager, without which no program finds free space there
#   mount    mount it by FUSE, for root, in one place at a time; umount unmounts it
#   keyring  make the user client.NAME with these caps, for "--id NAME"
#   kill     with SIGKILL; pause and resume with SIGSTOP and SIGCONT. mon.a, osd.0, osd.1 ...
#   revive   start a daemon that was killed; or mgr.x, a manager: only quotas of pools, CephFS and
#            what "ceph df" prints need one
#
# Each OSD is a host of its own for CRUSH, so three copies are on three hosts, as in earnest.
#
# In the environment: CLUSTER, its directory (/tmp/revdedup-ceph). Clusters in several
# directories run side by side, each on ports that were free. OSD_GIB, the size of an OSD (10).
# ADDRESS, where it listens (127.0.0.1).
set -eu -o pipefail

dir=${CLUSTER:-/tmp/revdedup-ceph} address=${ADDRESS:-127.0.0.1}
conf=$dir/ceph.conf
export CEPH_CONF=$conf CEPH_ARGS=
# bats waits until all that have it are gone, and daemons stay.
exec 3>&-

die() {
	echo "cluster.sh: $*" >&2
	exit 1
}

# Print the process of a daemon. The number in the file may be that of another by now.
pid_of() {
	local file=$dir/run/$1.pid pid
	[ -s "$file" ] || return 1
	pid=$(<"$file")
	[[ $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") == *"$conf "* ]] && echo "$pid"
}

# --- making it

free_port() {
	local port
	while port=$((20000 + RANDOM % 10000)); do
		(: <"/dev/tcp/$address/$port") 2>/dev/null || break
	done
	echo "$port"
}

# Most of this is for speed: the monitor collects changes for 50 ms, not for a second, closing a
# file does not wait for 250 ms until a thread looks up. An OSD that is slow is not called down, and
# one that was often down not left out, as machines that run tests are busy.
write_conf() {
	local nr
	cat <<END
[global]
fsid = $(</proc/sys/kernel/random/uuid)
mon host = [v2:$address:$(free_port)]
public addr = $address
run dir = $dir/run
admin socket = $dir/run/\$name.asok
pid file = $dir/run/\$name.pid
log file = $dir/log/\$name.log
log to stderr = false
err to stderr = false
keyring = $dir/keyring
auth allow insecure global id reclaim = false
osd pool default pg autoscale mode = off
mon allow pool delete = true
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail warn = 2
mon data avail crit = 1
mon osd min down reporters = 1
mon warn on pool no redundancy = false
paxos propose interval = 0.05
paxos min wait = 0.01
osd heartbeat interval = 1
osd heartbeat grace = 20
osd max markdown count = 1000
mds beacon grace = 300
osd client watch timeout = 6
objecter tick interval = 1
osd class load list = *
osd class default list = *
bdev aio poll ms = 20
bluestore fsck on mkfs = false
bluestore block size = $((${OSD_GIB:-10} << 30))
bluestore cache autotune = false
bluestore cache size = 128M
osd memory target = 900M
osd op num shards = 2
osd op num threads per shard = 2

[client]
log file = /dev/null
admin socket =
pid file =

[mon.a]
mon data = $dir/mon.a

[mgr]
mgr data = $dir/mgr.\$id

[mds]
mds data = $dir/mds.\$id

[osd]
osd data = $dir/osd.\$id
END
	for ((nr = 0; nr < $1; nr++)); do
		printf '\n[osd.%d]\ncrush location = root=default host=host%d\n' "$nr" "$nr"
	done
}

# user NAME SUBSYSTEM CAPS...: a user with a key, as a keyring has it.
user() {
	printf '[%s]\n\tkey = %s\n' "$1" "$(ceph-authtool --gen-print-key)"
	shift
	while [ $# -gt 0 ]; do
		printf '\tcaps %s = "%s"\n' "$1" "$2"
		shift 2
	done
}

# A monitor that is made with users and with a map of OSDs need not be told of them one by one.
make_mon() {
	local nr
	{
		user mon. mon 'allow *'
		user client.admin mon 'allow *' osd 'allow *' mgr 'allow *' mds 'allow *'
		user mgr.x mon 'allow profile mgr' osd 'allow *'
		for ((nr = 0; nr < $1; nr++)); do
			user "osd.$nr" mon 'allow profile osd' osd 'allow *'
		done
	} >"$dir/keyring"
	monmaptool --create --fsid "$(sed -n 's/^fsid = //p' "$conf")" \
		--addv a "$(sed -n 's/^mon host = //p' "$conf")" "$dir/monmap" >/dev/null
	ceph-mon -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring"
}

make_osd() {
	local uuid
	mkdir "$dir/osd.$1"
	uuid=$(</proc/sys/kernel/random/uuid)
	ceph osd new "$uuid" "$1" >/dev/null
	ceph-osd -i "$1" --mkfs --osd-uuid "$uuid" >/dev/null
}

run_daemon() {
	! pid_of "$1" >/dev/null || return 0
	case $1 in
	mon.* | osd.*) "ceph-${1%%.*}" -c "$conf" -i "${1#*.}" >/dev/null ;;
	mgr.*)
		mkdir -p "$dir/$1"
		ceph-mgr -c "$conf" -i "${1#*.}"
		;;
	mds.*)
		mkdir -p "$dir/$1"
		ceph-mds -c "$conf" -i "${1#*.}" >/dev/null
		;;
	*) die "there is no daemon '$1'" ;;
	esac
}

start() {
	local nr osds
	[ -n "$(command -v ceph-osd)" ] || die "there is no Ceph here: run scripts/setup.sh ceph"
	if [ ! -e "$dir/made" ]; then
		rm -rf "$dir"
		mkdir -p "$dir"/{run,log}
		write_conf "$1" >"$conf"
		make_mon "$1"
		run_daemon mon.a
		for ((nr = 0; nr < $1; nr++)); do
			make_osd "$nr" &
		done
		wait
		touch "$dir/made"
	fi
	run_daemon mon.a
	for osds in "$dir"/osd.*; do
		run_daemon "${osds##*/}" &
	done
	wait
	echo "export CEPH_CONF=$conf"
}

# --- using it

pool() {
	local out
	out=$(ceph osd pool create "$1" 8 8 replicated --size "${2:-1}" 2>&1) || die "$out"
}

fs() {
	local out
	[ -n "$(command -v ceph-mds)" ] || die "no CephFS here: run scripts/setup.sh cephfs"
	pool "$1-meta" "${2:-1}"
	pool "$1-data" "${2:-1}"
	out=$(ceph fs new "$1" "$1-meta" "$1-data" 2>&1) || die "$out"
	ceph auth get-or-create "mds.$1" mon 'profile mds' osd 'allow rwx' mds 'allow *' \
		mgr 'profile mds' >>"$dir/keyring"
	run_daemon mgr.x
	run_daemon "mds.$1"
}

# A client gives up at once where the server is not up yet, so it is tried again. The space is known
# when the manager has heard of the OSDs.
mount_fs() {
	local out i
	[ -c /dev/fuse ] || die "this machine has no FUSE"
	# Before it is mounted, as this may be interrupted.
	realpath "$2" >>"$dir/mounts"
	for ((i = 0; ; i++)); do
		! out=$(ceph-fuse -c "$conf" --client_fs "$1" --pid_file "$dir/run/fuse.$1.pid" \
			"$2" 2>&1) || break
		[ "$i" -lt 100 ] || die "$out"
		sleep 0.2
	done
	for ((i = 0; i < 600; i++)); do
		[ "$(stat -f -c %a "$2")" -eq 0 ] || return 0
		sleep 0.2
	done
	die "'$2' has no room"
}

# Print the daemons that have run, but for the monitor, which others tell that they go.
daemons() {
	local file
	for file in "$dir"/run/{osd,mgr,mds}.*.pid; do
		file=${file##*/}
		echo "${file%.pid}"
	done
}

# signal SIGNAL DAEMON
signal() {
	local pid
	pid=$(pid_of "$2") || die "'$2' does not run"
	kill "-$1" "$pid"
}

# end SIGNAL DAEMON...: with this signal, all at once.
end() {
	local name pid pids=()
	for name in "${@:2}"; do
		pid=$(pid_of "$name") || continue
		# It may end, or have ended, by itself, as ceph-fuse does after umount.
		kill "-$1" "$pid" 2>/dev/null || :
		kill -CONT "$pid" 2>/dev/null || :
		pids+=("$pid")
	done
	for pid in "${pids[@]}"; do
		tail --pid "$pid" -s 0.02 -f /dev/null
	done
}

# A mount whose cluster has gone waits for it for ever.
leave_mounts() {
	local file directory
	for file in "$dir"/run/fuse.*.pid; do
		file=${file##*/}
		end KILL "${file%.pid}"
	done
	[ -e "$dir/mounts" ] || return 0
	while read -r directory; do
		umount --lazy "$directory" 2>/dev/null || :
	done <"$dir/mounts"
	rm "$dir/mounts"
}

stop() {
	local names
	leave_mounts
	mapfile -t names < <(daemons)
	end "$1" "${names[@]}"
	end "$1" mon.a
}

case ${1-} in
start) start "${2:-1}" ;;
stop) stop TERM ;;
wipe)
	stop KILL
	rm -rf "$dir"
	;;
pool) pool "${@:2}" ;;
fs) fs "${@:2}" ;;
mount) mount_fs "${2:?}" "${3:?}" ;;
keyring) ceph auth get-or-create "client.${2:?}" "${@:3}" >>"$dir/keyring" ;;
kill) end KILL "${2:?}" ;;
pause) signal STOP "${2:?}" ;;
resume) signal CONT "${2:?}" ;;
revive) run_daemon "${2:?}" ;;
*)
	sed -n '3,/^[^#]/{/^#/s/^# \?//p}' "$0" >&2
	exit 2
	;;
esac
