#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# fio with verify, while everything happens to a volume that can.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume
load ../lib/writers

seconds=${SURVIVE_SECONDS:-$seconds}
fio_mib=40		# of the volume, from its beginning on

setup() { volume_setup; }
teardown() { volume_teardown; }

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
	local rounds=0 seed=$RANDOM
	RANDOM=$seed
	echo "seed $seed" | tee /dev/kmsg
	vol_create
	while more_writers "$rounds"; do
		writers_start
		while writers_run; do
			something
			rounds=$((rounds + 1))
		done
		writers_are_content
	done
	echo "# $rounds things happened" >&3
	[ "$rounds" -ge 5 ]
	tracking_is ok
	vol_remove
	meta_is_fine
}
