#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl dedup for attached volumes: what needs no device, wrong usage above all.
# shellcheck disable=SC2154 # lib.bash
load lib

setup() {
	cli_setup
	export REVDEDUP_CONFIG=$PWD/etc
	unset REVDEDUP_POOL
}

teardown() { cli_teardown ""; }

ctl() { run "$build/bin/revdedupctl" "$@"; }

# wrong TEXT ARGUMENT...: the command refuses these arguments, and says TEXT.
wrong() {
	ctl dedup "${@:2}"
	echo "dedup ${*:2}: status $status: $output"
	[ "$status" -eq 2 ] && [[ $output == *"$1"* ]]
}

@test "dedup: options of a volume need a volume, and those of a pass none" {
	wrong "name one, or use --all" --mode zeros
	wrong "name one, or use --all" --cold 3
	wrong "name one, or use --all" --undo
	wrong "--older is for the pass" vg/vm1 --older 3
	wrong "--least-run is for the pass" --all --least-run 3
	wrong "--temp is for the pass" vg/vm1 --temp /tmp
	wrong "--to is for the pass" vg/vm1 --to /tmp/x
	wrong "--copies is for the pass" vg/vm1 --copies 0
	wrong "name volumes, or use --all" vg/vm1 --all
	wrong "zeros or pool, not 'both'" vg/vm1 --mode both
	wrong "--cold needs a number" vg/vm1 --mode pool --cold x
	wrong "--rate must be at least 1M" vg/vm1 --rate 100K
	wrong "--time needs a time" vg/vm1 --time 3
	wrong "--undo copies everything back" --undo vg/vm1 --mode zeros
	wrong "--undo copies everything back" --undo vg/vm1 -n
	wrong "--undo copies everything back" --undo --all --cold 2
	wrong "" vg/vm1@3
}

@test "dedup: a volume that is not attached, and a host without any" {
	ctl dedup vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"'vg/vm1' is not attached"*"nothing was changed"* ]]
	ctl dedup --undo vg/vm1 --json
	[ "$status" -eq 1 ]
	[[ $output == *'"exit": 1'* ]]
	ctl dedup --all
	[ "$status" -eq 0 ]
	[[ $output == *"no volume is attached"* ]]
	# A file that cannot be read is no volume less to worry about.
	mkdir -p etc/volumes
	echo nonsense >etc/volumes/revdedup-vm1
	ctl dedup --all
	echo "$output"
	[ "$status" -eq 1 ]
}

@test "dedup: lines of an attachment that it keeps" {
	mkdir -p etc/volumes
	cat >etc/volumes/revdedup-vg-vm1 <<-END
		volume=vg/vm1
		uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427
		base=/dev/vg/none
		meta=/dev/vg/none_rdmeta
		pool=$PWD/none
		dedup=pool
		partial=yes
		zeros=yes
		zeros_cursor=81920
		pool_cursor=163840
		dedup_in_pool=40960
		dedup_cold=48
		dedup_time=1764000000
		dedup_lost_marks=2
	END
	ctl dedup vg/vm1
	echo "$output"
	[ "$status" -eq 10 ]
	[[ $output == *"'$PWD/none' is not a pool"* ]]
	# Another mode needs no pool.
	ctl dedup vg/vm1 --mode zeros
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"'/dev/vg/none' does not exist"* ]]
	# It has no device, and still numbers of what was.
	ctl metrics
	echo "$output"
	[[ $output == *'revdedup_device_dedup_last_success_timestamp_seconds{volume="vg/vm1"} 1764000000'* ]]
	[[ $output == *'# TYPE revdedup_device_dedup_lost_marks_total counter'* ]]
	[[ $output == *'revdedup_device_dedup_lost_marks_total{volume="vg/vm1"} 2'* ]]
	sed -i 's/^pool_cursor=.*/pool_cursor=many/' etc/volumes/revdedup-vg-vm1
	ctl dedup vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"cannot understand the line 'pool_cursor=many'"* ]]
}
