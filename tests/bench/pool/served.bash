# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# Disks over NBD: a first version beside one of the same file, from cold caches, both past the page
# cache, as guests have their disks; and, of a sparse disk in qcow2, a version by a bitmap beside one
# that reads all: 1 % of what it has changed, in runs of 4 MiB, or in 64 KiB anywhere.

declare -A served_mib=([full]=8192 [demo]=256)

served_file() { revdedupctl -q snapshot file --from "$dir/served.copy"; }
served_nbd() { revdedupctl -q snapshot nbd --from "nbd+unix:///?socket=$dir/served.sock"; }
served_pool() { new_pool; }

# change_served BYTES RUN: so much of the disk, in runs of RUN bytes.
change_served() {
	local i nr=$(($1 < $2 ? 1 : $1 / $2)) step
	step=$((mib * served_mib[$size] / nr))
	local -a commands=()
	for ((i = 0; i < nr; i++)); do
		commands+=(-c "write -q -P $((RANDOM % 255 + 1)) $((i * step)) $2")
	done
	qemu-io -f qcow2 "${commands[@]}" "$dir/served.qcow2"
}

served_bitmap() { revdedupctl -q snapshot disk --from "qcow2:$dir/served.qcow2"; }
served_full() { revdedupctl -q snapshot disk --full-scan --from "qcow2:$dir/served.qcow2"; }

# served_row WHAT WANTED RUN
served_row() {
	local ratio i times=() full=()
	for ((i = 0; i < rounds; i++)); do
		change_served $((mib * served_mib[$size] / 100)) "$3"
		turn served_bitmap
		times+=("$usec")
		turn served_full
		full+=("$usec")
	done
	ratio=$(calc "$(median "${times[@]}") / $(median "${full[@]}")")
	row "$1" "$ratio" "<= $2" "$ratio <= $2"
}

part_served() {
	local server ratio
	title "disks over NBD (${served_mib[$size]} MiB)"
	header
	image random "$dir/served.raw" $((mib * served_mib[$size])) 1
	# The server has a lock on its file.
	cp "$dir/served.raw" "$dir/served.copy"
	qemu-nbd --read-only --persistent --format=raw --cache=none --aio=native \
		--socket="$dir/served.sock" "$dir/served.raw" >/dev/null 2>&1 &
	server=$!
	until [ -e "$dir/served.sock" ]; do sleep 0.05; done
	compare served_pool served_nbd served_file
	ratio=$(median "${ratios[@]}")
	row "first version over NBD / of the file, speed" "$(spread)" ">= 0.8" "$ratio >= 0.8"
	kill "$server"
	wait "$server" || :

	new_pool
	qemu-img convert -O qcow2 "$dir/served.raw" "$dir/served.qcow2"
	qemu-img resize -q "$dir/served.qcow2" 64G
	qemu-img bitmap --add "$dir/served.qcow2" changes
	revdedupctl -q snapshot disk --from "qcow2:$dir/served.qcow2" --bitmap changes
	served_row "by a bitmap, 1 % in runs of 4 MiB / all, time" 0.04 $((4 * mib))
	served_row "by a bitmap, 1 % in 64 KiB anywhere / all, time" 1 65536
	rm -f "$dir"/served.*
}
