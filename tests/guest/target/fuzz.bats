#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Garbage: thousands of table lines and messages, most of them wrong, must do exactly what
# a model says (fuzz.c).
#
# FUZZ_ROUNDS and FUZZ_SEED are the program's; the seed is printed.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

rounds=${FUZZ_ROUNDS:-9000}
seed=${FUZZ_SEED:-$RANDOM$RANDOM}

setup() {
	volume_setup
	dm zero /dev/ram2 0 $((4 << 20))
	make rdt-m2 "0 2048 linear /dev/ram2 0"
	# Each refusal is a line in the log: not on the console, too.
	dmesg -n 1
}

teardown() {
	dmesg -n 8
	volume_teardown
}

# The runner looks at the log from its last mark on, and wants to find that. A
# million refusals are more than the log holds: look at it in between, and put
# the mark there again.
check_log() {
	local mark
	mark=$(dmesg | grep -o 'rdt: begin .*' | tail -n 1)
	run ! dmesg_bad < <(dmesg)
	[ -z "$mark" ] || echo "$mark" >/dev/kmsg
}

@test "garbage does nothing" {
	local done=0 chunk=$((rounds < 16000 ? rounds : 16000)) final
	echo "FUZZ_ROUNDS=$rounds FUZZ_SEED=$seed" | tee /dev/kmsg
	vol_create "$vol_sectors" volume_uuid $some_uuid
	vol_remove
	# A formatted one for the table lines, with that uuid.
	meta=/dev/mapper/rdt-m2 vol_create "$vol_sectors" volume_uuid $some_uuid
	vol_remove
	dm create rdt-t
	while [ "$done" -lt "$rounds" ]; do
		dm zero $meta 0 $((1 << 20))
		vol_create
		/revdedup/bin/fuzz $chunk $((seed + done)) >"$BATS_TEST_TMPDIR/out" || {
			cat "$BATS_TEST_TMPDIR/out"
			return 1
		}
		sed "s/^/# /" "$BATS_TEST_TMPDIR/out" >&3
		# It is all on the metadata device, and nothing else is.
		vol_remove
		vol_create
		read -ra final < <(sed -n 's/^final: //p' "$BATS_TEST_TMPDIR/out")
		status
		is "epoch" "${field[f_epoch]}" "${final[0]}"
		is "dirty" "${field[f_dirty]}" "${final[1]}/32"
		meta_is_fine
		vol_remove
		done=$((done + chunk))
		check_log
	done
}
