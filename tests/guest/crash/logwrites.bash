# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Write a log with dm-log-writes and check each point of it, for bats files that
# `load ../lib/guest` first.

# shellcheck disable=SC2154 # by guest.bash and bats

epochs=${LOG_EPOCHS:-12}
table_writes=${TABLE_LOG_WRITES:-1500}
base_sectors=$((64 * 2048 - 24))
meta_sectors=2048
log_mib=400
cpu1=/sys/devices/system/cpu/cpu1/online
preempt=/sys/kernel/debug/sched/preempt
mnt=/tmp/mnt

log_setup() {
	dmr_setup
	ramdisk $log_mib 3
	modprobe dm-log-writes
	# dm-log-writes takes notice of a flush twice, when it comes and when it
	# ends. If another can begin and end in between, the log has them in the
	# wrong order, with the writes that they cover. One CPU and no preemption
	# prevent that, not even where something might sleep; where there is preemption,
	# only the target shall flush.
	mount_options=noatime sync=--fdatasync=4
	! [ -e $cpu1 ] || echo 0 >$cpu1
	! [ -e $preempt ] || echo none >$preempt
	if [[ $(uname -v) == *" PREEMPT "* ]]; then
		mount_options+=,barrier=0 sync=--fdatasync=0
	fi
}

log_teardown() {
	touch /tmp/stop
	wait
	dmr_teardown
	! [ -d /sys/module/dm_revdedup ] || retry 50 0.1 rmmod dm_revdedup
	! [ -d /sys/module/dm_judge ] || rmmod dm_judge
	! [ -e $cpu1 ] || echo 1 >$cpu1
	! [ -e $preempt ] || echo voluntary >$preempt
	dmesg -n 8
}

make_volume() {
	dm_create rdt-log \
		"0 $((base_sectors + meta_sectors)) log-writes /dev/ram0 /dev/ram1"
	dm_create rdt-base "0 $base_sectors linear /dev/mapper/rdt-log 0"
	dm_create rdt-meta "0 $meta_sectors linear /dev/mapper/rdt-log $base_sectors"
	dm_create rdt-vol \
		"0 $base_sectors revdedup /dev/mapper/rdt-base /dev/mapper/rdt-meta -"
	mkfs.ext4 -q -m 0 -J size=4 /dev/mapper/rdt-vol
	mkdir -p $mnt
	mount -o "$mount_options" /dev/mapper/rdt-vol $mnt
}

# Files written in place at random, and others that come and go.
workload() {
	rm -f /tmp/stop
	fio --directory=$mnt --rate=3m --time_based --runtime=600 --output=/tmp/fio.out \
		--name=small --size=12m --rw=randwrite --direct=1 --bsrange=4k-64k "$sync" \
		--name=large --size=12m --rw=randwrite --direct=0 --bsrange=512-1m &
	fio=$!
	while ! [ -e /tmp/stop ]; do
		dd if=/dev/urandom of=$mnt/file bs=64k count=$((RANDOM % 30 + 1)) status=none
		rm $mnt/file
		fstrim $mnt
		sleep 0.2
	done &
}

stop_workload() {
	touch /tmp/stop
	kill "$fio"
	wait
}

message() { dmsetup message "$1" 0 "$2"; }

# take EPOCH OPTION...: the mark comes before the first write of the epoch.
take() {
	local epoch=$1
	shift
	dmsetup suspend "$@" rdt-vol
	message rdt-vol "checkpoint $epoch"
	message rdt-log "mark checkpoint=$epoch"
	dmsetup resume rdt-vol
}

# Mostly committed; some are aborted, and some meet the next checkpoint.
finish() {
	case $(($1 % 5)) in
	3) message rdt-vol "abort $1" ;;
	4) ;;
	*)
		message rdt-vol "commit $1 $1"
		message rdt-log "mark committed=$1"
		;;
	esac
}

# On a slow machine an epoch takes long, and the workload goes on.
log_has_space() {
	local sector
	sector=$(dmsetup status rdt-log | cut -d' ' -f5)
	[ "$sector" -lt $((log_mib * 2048 * 3 / 4)) ]
}

# The checkpoints alone are not many, and on a busy machine little is written meanwhile.
log_entries() { dmsetup status rdt-log | cut -d' ' -f4; }

write_log() {
	local epoch options=('' --nolockfs --noflush)
	make_volume
	workload
	for ((epoch = 1; epoch <= epochs || epoch <= 10 * epochs && $(log_entries) < 2000; epoch++)); do
		log_has_space || break
		sleep 0.5
		# shellcheck disable=SC2086 # an option or nothing
		take $epoch ${options[epoch % 3]}
		sleep 0.5
		finish $epoch
	done
	sleep 0.5
	stop_workload
	umount $mnt
	run dmsetup status rdt-log
	echo "# $((epoch - 1)) checkpoints: $output" >&3
	[[ $output != *logging_disabled* ]]
	clean_up_dm
}

# The log's own end is written when the device goes.
clean_up_dm() {
	local name
	for name in rdt-vol rdt-base rdt-meta rdt-log; do
		dm_remove $name
	done
}

check_log() {
	run /revdedup/bin/logcheck ${CRASH_SEED:+--seed "$CRASH_SEED"} /dev/ram1 $base_sectors $meta_sectors
	# Shown also when the test passes.
	printf '# %s\n' "${lines[@]}" >&3
}

# The same with a remap table: tablecrash writes, and a journal of what it does. The
# pool is not in the log. For the log a discard leaves zeros, of each sector; so it
# must on the disk: a judge does that.
write_table_log() {
	# What is refused on purpose would fill a slow console.
	dmesg -n 3
	need_judge
	dm_create rdt-disk "0 65536 judge /dev/ram0 rdt-disk"
	dm_create rdt-log "0 65536 log-writes /dev/mapper/rdt-disk /dev/ram1"
	run timeout 600 /revdedup/bin/tablecrash --log rdt-log --journal /tmp/journal \
		--writes "$table_writes" ${CRASH_SEED:+--seed "$CRASH_SEED"} /dev/ram2
	printf '# %s\n' "${lines[@]}" >&3
	[ "$status" -eq 0 ]
	run dmsetup status rdt-log
	echo "# $output" >&3
	[[ $output != *logging_disabled* ]]
	dm_remove rdt-log
	dm_remove rdt-disk
}

check_table_log() {
	run /revdedup/bin/tablelog ${CRASH_SEED:+--seed "$CRASH_SEED"} /dev/ram1 /tmp/journal
	printf '# %s\n' "${lines[@]}" >&3
}
