#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl trim, offload and recall: what needs no device, wrong usage above all.
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
	ctl "${@:2}"
	echo "${*:2}: status $status: $output"
	[ "$status" -eq 2 ] && [[ $output == *"$1"* ]]
}

@test "trim, offload, recall: wrong options" {
	local verb
	for verb in trim offload recall; do
		wrong "name volumes, or use --all" $verb
		wrong "name volumes, or use --all" $verb vg/vm1 --all
		wrong "'$verb' does not take --older" $verb vg/vm1 --older 3
		wrong "'$verb' does not take --to" $verb --all --to /tmp/x
		wrong "--rate must be at least 1M" $verb vg/vm1 --rate 100K
		wrong "" $verb vg/vm1@3
	done
	wrong "--cold needs a number" offload vg/vm1 --cold x
	wrong "'trim' does not take --cold" trim --all --cold 2
	wrong "'trim' does not take --force" trim --all --force
	wrong "--time needs a time" trim vg/vm1 --time 3
	wrong "'recall' does not take --time" recall vg/vm1 --time 3m
	wrong "'recall' does not take --dry-run" recall vg/vm1 -n
	wrong "is short for 'offload', which removes or replaces data" offl vg/vm1
}

@test "dedup had several jobs: each old spelling names the new one" {
	local mode="'dedup --mode zeros' is 'trim' now, and 'dedup --mode pool' is 'offload'"
	wrong "'dedup VOL' is 'trim VOL' or 'offload VOL' now" dedup vg/vm1
	wrong "'dedup --all' is 'trim --all' and 'offload --all' now" dedup --all --lock-wait 9
	wrong "$mode" dedup vg/vm1 --mode zeros
	wrong "$mode" dedup --mode pool --cold 0 vg/vm1
	wrong "'dedup --undo' is 'recall' now" dedup --undo vg/vm1
	wrong "'dedup --cold' is 'offload --cold' now" dedup vg/vm1 --cold 3
	wrong "'dedup --copies SHARE' is 'copies SHARE' now" dedup --copies 1%
	wrong "'dedup --copies SHARE' is 'copies SHARE' now" prune --copies 1% --keep-last 1
	wrong "'dedup --to' is 'copies --to' now" dedup --to x
	wrong "'prune --dedup' is 'prune', and then 'dedup', now" prune --dedup --rate 50M
	wrong "'prune --dedup' is 'prune', and then 'dedup', now" prune --keep-last 3 --dedup
	wrong "'compact' is 'recompress' now" compact --recompress zstd
	# They could be cut short.
	wrong "$mode" dedup --mod=pool vg/vm1
	wrong "'dedup --undo' is 'recall' now" dedup vg/vm1 --und
	wrong "'dedup --all' is 'trim --all' and 'offload --all' now" dedup --al
	wrong "'dedup --copies SHARE' is 'copies SHARE' now" dedup --cop 1%
	wrong "'comp' is 'recompress' now" comp --recompress zstd
	wrong "there is no option '--mo'" snapshot vm1 --mo
	wrong "there is no command 'cm'" cm
}

@test "trim, offload, recall: a volume that is not attached, and a host without any" {
	ctl trim vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"'vg/vm1' is not attached"*"nothing was changed"* ]]
	ctl recall vg/vm1 --json
	[ "$status" -eq 1 ]
	[[ $output == *'"exit": 1'* ]]
	ctl trim --all
	[ "$status" -eq 0 ]
	[[ $output == *"no volume is attached"* ]]
	# A file that cannot be read is no volume less to worry about.
	mkdir -p etc/volumes
	echo nonsense >etc/volumes/revdedup-vm1
	ctl trim --all
	echo "$output"
	[ "$status" -eq 1 ]
}

@test "trim, offload, recall: lines of an attachment that it keeps" {
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
	for which in vg/vm1 --all; do
		ctl offload "$which"
		echo "$output"
		[ "$status" -eq 10 ]
		[[ $output == *"'$PWD/none' is not a pool"* ]]
	done
	# This needs no pool, and leaves to the other command what is offloaded.
	ctl trim --all
	[ "$status" -eq 0 ]
	ctl trim vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"'/dev/vg/none' does not exist"* ]]
	# One that is left is no part of what was done.
	sed 's/vm1/vm2/; /^dedup=pool/d; s/^uuid=1/uuid=2/' etc/volumes/revdedup-vg-vm1 \
		>etc/volumes/revdedup-vg-vm2
	ctl trim --all
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"'vg/vm2' failed: see above"* && $output != *vg/vm1* ]]
	rm etc/volumes/revdedup-vg-vm2
	# It has no device, and still numbers of what was.
	ctl metrics
	echo "$output"
	[[ $output == *'revdedup_device_dedup_last_success_timestamp_seconds{volume="vg/vm1"} 1764000000'* ]]
	[[ $output == *'# TYPE revdedup_device_dedup_lost_marks_total counter'* ]]
	[[ $output == *'revdedup_device_dedup_lost_marks_total{volume="vg/vm1"} 2'* ]]
	sed -i 's/^pool_cursor=.*/pool_cursor=many/' etc/volumes/revdedup-vg-vm1
	ctl offload vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"cannot understand the line 'pool_cursor=many'"* ]]
}
