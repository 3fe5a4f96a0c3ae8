#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# fio with verify, while all that can happen to a volume happens to it.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load lib
load volume

seconds=${SURVIVE_SECONDS:-20}
fio_mib=40		# of the volume, from its beginning on

setup() { volume_setup; }
teardown() { volume_teardown; }

# writer NAME ENGINE OFFSET_MIB OPTION...: verifies what it wrote, for a while. (At
# the end of a pass over its part fio begins another while writes are in flight;
# two of them to one block would be its own fault.)
writer() {
	local name=$1 engine=$2 offset=$3
	shift 3
	fio --name="$name" --ioengine="$engine" --filename=$vol --offset="${offset}m" \
		--size=$((fio_mib / 4))m --rw=randwrite --iodepth=8 \
		--verify=crc32c --verify_fatal=1 --verify_backlog=128 \
		--serialize_overlap=1 \
		--time_based --runtime="$seconds" "$@" \
		>"$BATS_TEST_TMPDIR/$name" 2>&1 3>&- &
	pids[$name]=$!
}

writers_run() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# Something that can happen, by chance.
something() {
	local sizes=("$vol_sectors" $((vol_sectors - 4096)) $((fio_mib * 2048)) 100001)
	status
	case $((RANDOM % 8)) in
	0) dm suspend rdt-v && dm resume rdt-v ;;
	1) dm suspend rdt-v noflush && dm resume rdt-v ;;
	2) vol_reload ;;
	3) vol_reload ${sizes[RANDOM % 4]} ;;
	4) msg mark "$((RANDOM % 10)),2;12,1" ;;
	5)
		if [ "${field[3]}" != - ]; then
			msg abort "${field[3]}"
		fi
		;;
	6) checkpoint ;;
	7) snapshot ;;
	esac
}

@test "fio verifies while snapshots, reloads and new sizes come and go" {
	local -A pids=()
	local name rounds=0 seed=$RANDOM good=true
	RANDOM=$seed
	echo "seed $seed" | tee /dev/kmsg
	vol_create
	writer direct libaio 0 --bsrange=512-64k --blockalign=512 --direct=1
	writer uring io_uring $((fio_mib / 4)) --bs=4k --direct=1
	writer large libaio $((fio_mib / 2)) --bs=1m --direct=1
	writer cached psync $((3 * fio_mib / 4)) --bs=4k --fdatasync=32
	while writers_run; do
		something
		rounds=$((rounds + 1))
	done
	for name in "${!pids[@]}"; do
		wait "${pids[$name]}" || {
			echo "fio '$name' failed:"
			cat "$BATS_TEST_TMPDIR/$name"
			good=false
		}
	done
	$good
	echo "# $rounds things happened" >&3
	[ "$rounds" -ge 20 ]
	tracking_is ok
	vol_remove
	meta_is_fine
}
