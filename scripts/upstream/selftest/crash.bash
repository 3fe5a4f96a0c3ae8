# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # by volume.bash, which this becomes a part of

# --- what a crash now would leave: a target over a copy of the metadata says it

# disk_dirty [--frozen]: the segments that are dirty on disk, in $reply.
disk_dirty() {
	local copy=$BATS_TEST_TMPDIR/crash loop size found which=current status=0
	[ "${1:-}" != --frozen ] || which=frozen
	dd if="${disk:-$meta}" of="$copy" iflag=direct,count_bytes bs=256K \
		count=$((meta_sectors * 512)) status=none || return
	# Where the superblock has the sectors of the volume.
	read -r size < <(od -A n -t u8 -j 96 -N 8 "$copy")
	loop=$(loopdev "$copy") || return
	make rdt-crash "0 $size revdedup $base $loop ${pool:--}" ro || status=1
	if [ "$status" -eq 0 ]; then
		dm message rdt-crash "dirty $which 0 4294967296" || status=1
	fi
	found=${reply% *}
	dm remove rdt-crash >/dev/null || :
	losetup -d "$loop"
	reply=$found
	return "$status"
}

disk_dirty_is() { disk_dirty && is "dirty on disk" "$reply" "$1"; }
disk_frozen_is() { disk_dirty --frozen && is "frozen on disk" "$reply" "$1"; }

# meta_is_fine: a target can be made of it.
meta_is_fine() { disk_dirty >/dev/null; }
