# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# The same series in borg and restic: time, space, and the last version back. Each image is
# a file to them. Without encryption where they can (restic cannot).

export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes RESTIC_PASSWORD=bench
export RESTIC_PROGRESS_FPS=0.01

# Each peer: PEER_init, PEER_save NAME FILE, PEER_back NAME to $dir/back. Its
# repository is $repo, its options $options.

borg_init() {
	export BORG_BASE_DIR=$dir/borg
	borg init --encryption none "$repo"
}
borg_save() {
	# shellcheck disable=SC2086 # it is a list of words
	borg create $options "$repo::$1" "$2"
}
borg_back() { (cd "$dir/back" && borg extract --sparse "$repo::$1"); }

restic_() { restic --quiet --repo "$repo" --cache-dir "$dir/restic" "$@"; }
restic_init() { restic_ init; }
restic_save() { restic_ backup --tag "$1" "$2"; }
restic_back() { restic_ restore latest --tag "$1" --target "$dir/back"; }

# back_and_sync COMMAND...: with what it wrote to $dir/back on the disk.
back_and_sync() {
	"$@"
	find "$dir/back" -type f -exec sync {} +
}

# time_back COMMAND...: sets usec.
time_back() {
	rm -rf "$dir/back"
	mkdir "$dir/back"
	turn back_and_sync "$@"
}

# print_peer NAME USEC BYTES RESTORE-USEC
print_peer() {
	printf '%-38s %10s %12s %12s\n' "$1" "$(calc "$2 / 1e6" %.1f)" $(($3 / mib)) \
		"$(calc "$4 / 1e6" %.2f)"
}

measure_ours() {
	take_series
	time_back revdedupctl -q restore vm1@latest --to "$dir/back/out"
	print_peer revdedupctl "$series_usec" \
		"$(bytes_of "$REVDEDUP_POOL/data" "$REVDEDUP_POOL"/catalog.db*)" "$usec"
}

# measure_peer PEER OPTIONS: sets total.
measure_peer() {
	local file name
	repo=$dir/repo options=$2 total=0
	"$1_init" >/dev/null
	while read -r _ file; do
		name=${file%.img}
		cold
		timed "$1_save" "$name" "$series/$file"
		total=$((total + usec))
	done <"$series/order"
	time_back "$1_back" "$name"
	print_peer "$1 $2" "$total" "$(bytes_of "$repo")" "$usec"
	rm -rf "$repo" "$dir/back"
}

part_peers() {
	local borg
	find_series
	title "peers: the same series"
	printf '\n%-38s %10s %12s %12s\n' "" "backup, s" "MiB" "last back, s"
	measure_ours
	measure_peer borg ""
	borg=$total
	measure_peer borg "--compression none"
	[ "$total" -gt "$borg" ] || borg=$total
	# What its documentation has for disks: it skips holes, and moves nothing.
	measure_peer borg "--sparse --chunker-params fixed,4194304"
	measure_peer restic ""
	header
	row "backup of the series / the faster of borg's first two" \
		"$(calc "$series_usec / $borg")" "<= 0.35" "$series_usec / $borg <= 0.35"
}
