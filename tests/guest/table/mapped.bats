#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# fio with verify, and file systems, on volumes with blocks in a pool:
#
#   live       a volume of which parts lie on the base and parts in the pool
#   version    a writable clone of a version: nothing lies on its base
#   roll-back  the same, while hydration copies everything to the base
#
# The test puts the content of a volume on a device of its own first, and takes it apart
# from there. Base and pool hold something else wherever no entry leads.

# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by the files loaded
load ../lib/guest
load ../lib/volume
load ../lib/writers

seconds=${MAPPED_SECONDS:-$seconds}
mib=${MAPPED_MIB:-48}	# of the volume: a multiple of 16
vol_sectors=$((mib * 2048))
fio_mib=$((mib / 2))	# from its beginning on

pool=/dev/ram2
source=/dev/mapper/rdt-source	# as large as the volume
kinds=(live version roll-back)

f_left=9 f_hydrate=12	# more words of the status line

setup() {
	# The source lies on the fourth.
	[ -b /dev/ram3 ] || ramdisk $((2 * mib)) 4
	volume_setup
	make rdt-source "0 $vol_sectors linear /dev/ram3 0"
}

teardown() {
	local dir
	for dir in "$BATS_TEST_TMPDIR"/{volume,twin}; do
		! mountpoint -q "$dir" || umount "$dir"
	done
	volume_teardown
}

# --- the volume

line() { table="0 $vol_sectors revdedup $1 $2 $pool"; }

start_volume() { line $base $meta && make rdt-v "$table"; }

# show KIND: rdt-v shows what the source holds.
show() {
	local places=version
	[ "$1" != live ] || places=live
	/revdedup/bin/pattern fill $base
	/revdedup/bin/pattern fill $pool
	/revdedup/bin/scatter $source $base $pool $places >"$BATS_TEST_TMPDIR/ranges"
	start_volume
	/revdedup/bin/settable rdt-v <"$BATS_TEST_TMPDIR/ranges"
	same_content $vol
	status
	run ! is_linear
	[ "${field[7]}" -gt 0 ]
	[ "${field[8]}" -gt 0 ]
	if [ "$1" = live ]; then
		[ "${field[6]}" -gt 0 ]
	else
		is "base blocks" "${field[6]}" 0
	fi
}

# same_content DEVICE: as the source.
same_content() {
	local want
	dm hash $source $((vol_sectors * 512))
	want=$reply
	dm hash $1 $((vol_sectors * 512))
	is "content of $1" "$reply" "$want"
}

# The device goes and comes back, as in a reboot.
restart() {
	vol_remove
	meta_is_fine
	start_volume
}

# view VERSION: rdt-view shows it read-only, from metadata of its own, which a base
# is only needed for to make them.
view() {
	make rdt-view-m "0 $meta_sectors linear $meta_ground 8192"
	line $base /dev/mapper/rdt-view-m
	make rdt-view "$table"
	/revdedup/bin/settable rdt-view <"$1"
	dm remove rdt-view
	line - /dev/mapper/rdt-view-m
	make rdt-view "$table" ro
}

# --- hydration

hydrate_is() { status && is "hydration" "${field[f_hydrate]}" "$1"; }

# Whatever it does at the moment, the other thing.
toggle_hydration() {
	status
	case ${field[f_hydrate]} in
	off) msg hydrate start $((RANDOM % 4 + 1)) ;;
	*) msg hydrate stop ;;
	esac
}

# hydrate_half: some of what is not at home comes there, and then it stops. In the
# background, for as long as that takes.
hydrate_half() {
	local left
	status
	left=$(((field[7] + field[8]) / 2))
	msg hydrate start 1
	{
		until dmsetup status rdt-v |
			awk -v left=$left '{ exit $10 + $11 > left }'; do
			sleep 0.1
		done
		dmsetup message rdt-v 0 hydrate stop
	} 3>&- &
	half=$!
}

# All of it comes home, and then the base alone is the volume.
finish_hydration() {
	status
	# While a checkpoint waits it would not begin.
	[ "${field[f_epoch + 1]}" = - ] || msg commit "${field[f_epoch + 1]}" 1
	msg hydrate start
	within 300 hydrate_is off
	status
	is "left" "${field[f_left]}" 0
	is "not at home" "$((field[7] + field[8]))" 0
	dm hash $vol $((vol_sectors * 512))
	want=$reply
	dm hash $base $((vol_sectors * 512))
	is "the base" "$reply" "$want"
	vol_remove
	is_linear
}

# A linear table over the base would be the same device, says the disk.
is_linear() {
	/revdedup/tools/revdedup-meta dump $meta >"$BATS_TEST_TMPDIR/dump"
	grep -q 'flags .*linear_ok' "$BATS_TEST_TMPDIR/dump"
}

# --- fio

# Something that can happen, by chance.
something() {
	status
	case $((RANDOM % 6)) in
	0) dm suspend rdt-v && dm resume rdt-v ;;
	1) dm suspend rdt-v noflush && dm resume rdt-v ;;
	2) line $base $meta && reload rdt-v "$table" ;;
	3) snapshot ;;
	4) checkpoint ;;
	5)
		if [ "${field[3]}" != - ]; then
			msg abort "${field[3]}"
		fi
		;;
	esac
}

# The half of the volume that nobody wrote to.
rest_is_unchanged() {
	cmp <(dd if=$vol bs=1M skip=$fio_mib iflag=direct status=none) \
		<(dd if=$source bs=1M skip=$fio_mib iflag=direct status=none)
}

# once OPTION...: fio writes each of these blocks once, or looks at what it wrote.
# Those of 512 bytes are parts of a block, the rest of which has to be copied.
once() {
	local size offset=0
	for size in 512 4k 64k; do
		fio --name=once-$size --filename=$vol --ioengine=libaio --direct=1 \
			--rw=randwrite --bs=$size --iodepth=16 \
			--offset=${offset}m --size=$((mib / 16))m \
			--verify=crc32c --verify_fatal=1 "$@" \
			>"$BATS_TEST_TMPDIR/once" || {
			cat "$BATS_TEST_TMPDIR/once"
			return 1
		}
		offset=$((offset + mib / 16))
	done
}

fio_on() {
	local kind=$1 rounds=0 part
	dd if=/dev/urandom of=$source bs=1M count=$mib oflag=direct status=none
	for part in $((mib / 4)) $((3 * mib / 4)); do
		dd if=/dev/zero of=$source bs=1M count=$((mib / 8)) seek=$part \
			oflag=direct status=none
	done
	show $kind
	while more_writers $rounds; do
		writers_start
		while writers_run; do
			something
			if [ $kind = roll-back ]; then
				toggle_hydration
			fi
			rounds=$((rounds + 1))
		done
		writers_are_content
	done
	rest_is_unchanged
	[ $rounds -ge 5 ]
	# What was written with a flush behind it is there after a restart.
	once --do_verify=0 --end_fsync=1
	restart
	once --verify_only
	rest_is_unchanged
	status
	echo "# $kind: $rounds things happened, blocks on base, zero, in pool:" \
		"${field[*]:6:3}" >&3
	if [ $kind = roll-back ]; then
		finish_hydration
	else
		vol_remove
	fi
	meta_is_fine
}

@test "fio verifies on a live volume with blocks in a pool" { fio_on live; }
# bats test_tags=soak
@test "fio verifies on a writable clone of a version" { fio_on version; }
@test "fio verifies during a roll-back" { fio_on roll-back; }

# --- file systems

# Not the debug kernel.
has_xfs() { ! grep -q 'User Mode Linux' /proc/cpuinfo; }

# These words make mkfs.xfs take a device this small.
make_fs() {
	case $1 in
	ext4) mkfs.ext4 -q -F $source ;;
	xfs) TEST_DIR=/ TEST_DEV=/ QA_CHECK_FS=1 mkfs.xfs -q -f $source ;;
	esac
}

mount_fs() {
	local options=()
	[ $1 != xfs ] || options=(-o nouuid)
	mkdir -p "$3"
	mount -t $1 "${options[@]}" $2 "$3"
}

check_fs() {
	case $1 in
	ext4) e2fsck -fn $2 ;;
	xfs) xfs_repair -n -o force_geometry $2 ;;
	esac >"$BATS_TEST_TMPDIR/fsck" 2>&1 && return
	cat "$BATS_TEST_TMPDIR/fsck"
	return 1
}

# add DIR NAME: files of many sizes, the same for the same name.
add() {
	local data=$BATS_TEST_TMPDIR/$2
	[ -e "$data" ] || head -c $((mib * 128))K /dev/urandom >"$data"
	mkdir "$1/$2"
	head -c $((mib * 96))K "$data" | split -b $((mib * 11111)) - "$1/$2/large-"
	tail -c $((mib * 32))K "$data" | split -b $((mib * 666)) - "$1/$2/small-"
	truncate -s 3M "$1/$2/hole"
	sync -f "$1"
}

# change DIR NAME: some of what add made, in each way that there is.
change() {
	local dir=$1/$2 data=$BATS_TEST_TMPDIR/$2 file
	rm "$dir"/small-a[a-m]
	for file in "$dir"/small-b[a-c]; do
		head -c 5000 "$data" >>"$file"
	done
	for file in "$dir"/large-a[ab]; do
		dd if="$data" of="$file" bs=4096 seek=7 count=9 conv=notrunc status=none
		dd if="$data" of="$file" bs=1111 seek=300 count=1 conv=notrunc status=none
	done
	dd if="$data" of="$dir/hole" bs=8192 seek=100 count=5 conv=notrunc status=none
	truncate -s 100000 "$dir/large-ae"
	mv "$dir/large-af" "$dir/moved"
	sync -f "$1"
	fstrim "$1" || :
}

sums() { (cd "$1" && find . -type f -exec md5sum {} + | sort -k 2); }

# The volume and its twin, which all was done to as well, hold the same files.
same_files() {
	echo 3 >/proc/sys/vm/drop_caches
	sums "$twin" >"$BATS_TEST_TMPDIR/sums-twin"
	sums "$mnt" >"$BATS_TEST_TMPDIR/sums-volume"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/sums-twin")" -ge 20 ]
	diff "$BATS_TEST_TMPDIR"/sums-{twin,volume}
}

both() {
	"$1" "$mnt" "${@:2}"
	"$1" "$twin" "${@:2}"
}

fs_on() {
	local kind=$1 fs=$2 mnt=$BATS_TEST_TMPDIR/volume twin=$BATS_TEST_TMPDIR/twin
	local view='' half=''
	make_fs $fs
	mount_fs $fs $source "$twin"
	add "$twin" first
	add "$twin" second
	umount "$twin"
	show $kind
	check_fs $fs $vol
	if [ $kind = version ]; then
		view "$BATS_TEST_TMPDIR/ranges"
		dm hash $source $((vol_sectors * 512))
		view=$reply
	fi

	mount_fs $fs $source "$twin"
	mount_fs $fs $vol "$mnt"
	[ $kind != roll-back ] || hydrate_half
	same_files
	both change first
	both add third
	same_files
	[ -z "$half" ] || wait $half
	snapshot
	both change second

	# A remount over a volume that was away.
	umount "$mnt"
	status
	[ "$((field[7] + field[8]))" -gt 0 ]
	[ $kind != roll-back ] || msg hydrate start 1
	restart
	[ $kind != roll-back ] || hydrate_is on
	check_fs $fs $vol
	mount_fs $fs $vol "$mnt"
	same_files
	both change third
	same_files
	umount "$mnt"
	check_fs $fs $vol

	if [ -n "$view" ]; then
		dm hash /dev/mapper/rdt-view $((vol_sectors * 512))
		is "the version that was cloned" "$reply" "$view"
	fi
	if [ $kind = roll-back ]; then
		finish_hydration
		check_fs $fs $base
		# The volume is the first half of that device.
		mount_fs $fs $base "$mnt"
		same_files
		umount "$mnt"
	else
		vol_remove
	fi
	umount "$twin"
	meta_is_fine
}

# bats test_tags=soak
@test "ext4 on a live volume with blocks in a pool" { fs_on live ext4; }
# bats test_tags=soak
@test "ext4 on a writable clone of a version" { fs_on version ext4; }
@test "ext4 during a roll-back" { fs_on roll-back ext4; }

# bats test_tags=soak
@test "XFS on all of these" {
	local kind
	has_xfs || return 0
	for kind in "${kinds[@]}"; do
		fs_on $kind xfs
		volume_teardown
		setup
	done
}
