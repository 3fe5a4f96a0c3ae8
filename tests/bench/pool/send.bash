# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# What goes over the wire for a series, beside what other programs send; how fast; and what it
# costs to find out that there is nothing to send.

# shellcheck source=tests/bench/pool/peers.bash
. "$here/peers.bash"

# start_sshd: on loopback, with keys of its own. Sets sshd_port.
start_sshd() {
	local key=$dir/sshd/key
	mkdir -p "$dir/sshd" /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$key"
	for ((sshd_port = 22022; sshd_port < 22122; sshd_port++)); do
		/usr/sbin/sshd -f /dev/null -h "$key" -p "$sshd_port" -o ListenAddress=127.0.0.1 \
			-o AuthorizedKeysFile="$key.pub" -o StrictModes=no -o PidFile="$dir/sshd/pid" \
			2>/dev/null
		sleep 0.3
		[ ! -s "$dir/sshd/pid" ] || break
	done
}

# The other end: by ssh, or behind a line of "line": its rate and its delay.
write_rsh() {
	cat >"$dir/rsh" <<-END
		#!/bin/sh
		# HOST is "RATE-DELAY", "ssh", or "near".
		host=\$1
		shift
		case \$host in
		near) exec sh -c "\$1" ;;
		ssh) exec ssh -q -F /dev/null -p $sshd_port -i "$dir/sshd/key" \
			-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no \
			127.0.0.1 "export PATH=$PATH; \$1" ;;
		*) exec line "\${host%-*}" "\${host#*-}" sh -c "\$1" ;;
		esac
	END
	chmod +x "$dir/rsh"
}

# push HOST VOLUME [OPTION...]: to the pool $there. Appends the last line to $dir/sent.
push() {
	revdedupctl --json send "$2" "${@:3}" --rsh "$dir/rsh" --to "$1:$there" | tail -n 1 >>"$dir/sent"
}

# sum FIELD: of all of $dir/sent.
sum() { field "$1" <"$dir/sent" | awk '{ n += $1 } END { print n + 0 }'; }

new_pools() {
	there=$dir/there
	rm -rf "$there"
	new_pool
	revdedupctl init --compression "$compression" --pieces 1 "$there" >/dev/null
	: >"$dir/sent"
}

stored_of() { bytes_of "$1/data" "$1"/catalog.db*; }

# --- bytes

# send_series FROM: each version is taken here and sent.
send_series() {
	local volume file
	while read -r volume file; do
		revdedupctl -q snapshot "$volume" --from "$1/$file"
		push near "$volume"
	done <"$1/order"
}


# Between each version and the one before, as a file: rdiff, and zstd.
rdiff_bytes() {
	local volume file total=0
	declare -A last
	while read -r volume file; do
		if [ -n "${last[$volume]:-}" ]; then
			rdiff signature "$1/${last[$volume]}" "$dir/sig" 2>/dev/null
			rdiff delta "$dir/sig" "$1/$file" "$dir/delta"
			total=$((total + $(stat -c %s "$dir/sig") + $(zstd -qc1 "$dir/delta" | wc -c)))
			rm -f "$dir/sig" "$dir/delta"
		else
			total=$((total + $(zstd -qc1 "$1/$file" | wc -c)))
		fi
		last[$volume]=$file
	done <"$1/order"
	echo "$total"
}

# What restic copy or borg would have to send is what their repositories have in the end.
peer_bytes() {
	local volume file
	# shellcheck disable=SC2034 # borg_save has them
	repo=$dir/repo options=''
	"$1_init" >/dev/null
	while read -r volume file; do
		"$1_save" "${file%.img}" "$2/$file" >/dev/null
	done <"$2/order"
	bytes_of "$repo"
	rm -rf "$repo"
}

bytes_rows() {
	local name=$1 from=$2 wire lacked blocks own peer
	new_pools
	send_series "$from"
	wire=$(($(sum bytes_sent) + $(sum bytes_received)))
	blocks=$(sum blocks_sent)
	lacked=$(revdedupctl --pool "$there" stats --json | field bytes_data | head -n 1)
	own=$(calc "$(stored_of "$there") / $(stored_of "$REVDEDUP_POOL")")
	row "$name: on the wire, MiB" "$((wire / mib))"
	row "$name: blocks sent, MiB uncompressed" "$((blocks * 4096 / mib))"
	row "$name: on the wire / stored there" "$(calc "$wire / $lacked")"
	# A block that changed needs its fingerprint and a place in a recipe.
	row "$name: the same, but for 100 bytes a block" \
		"$(calc "($wire - 100 * $blocks) / $lacked")" "<= 1.02" \
		"($wire - 100 * $blocks) / $lacked <= 1.02"
	row "$name: receiver's pool / sender's pool" "$own" "<= 1.01" "$own <= 1.01"
	for peer in restic borg; do
		row "$name: $peer, its repository, MiB" $(($(peer_bytes $peer "$from") / mib))
	done
	row "$name: rdiff and zstd, MiB" $(($(rdiff_bytes "$from") / mib))
}

# --- a second disk of one image, and nothing new

second_rows() {
	local first second i
	new_pools
	revdedupctl -q snapshot one --from "$series/vm1-1.img"
	cp --sparse=always "$series/vm1-1.img" "$dir/two"
	# Its own name and keys: a block here and there.
	for ((i = 0; i < 20; i++)); do
		head -c 4096 /dev/urandom |
			dd of="$dir/two" bs=4096 seek=$((i * 20000 + 5000)) conv=notrunc status=none
	done
	revdedupctl -q snapshot two --from "$dir/two"
	push near one
	first=$(sum bytes_sent)
	push near two
	second=$(($(sum bytes_sent) - first))
	row "a second disk of one image / the first" "$(calc "$second / $first" %.5f)" "<= 0.02" \
		"$second / $first <= 0.02"
	rm -f "$dir/two"
}

nothing_rows() {
	local i bytes
	new_pools
	truncate -s 4M "$dir/tiny"
	for ((i = 0; i < 100; i++)); do
		echo "$i" | dd of="$dir/tiny" conv=notrunc status=none
		revdedupctl -q snapshot "v$i" --from "$dir/tiny"
	done
	push near --all
	: >"$dir/sent"
	timed push near --all
	bytes=$(($(sum bytes_sent) + $(sum bytes_received)))
	row "nothing new of 100 volumes, s" "$(calc "$usec / 1e6")" "<= 0.3" "$usec <= 300000"
	row "nothing new of 100 volumes, KiB" $((bytes / 1024)) "<= 100" "$bytes <= 102400"
	rm -f "$dir/tiny"
}

# --- speed

no_pool_there() {
	rm -rf "$there"
	revdedupctl init --compression "$compression" --pieces 1 "$there" >/dev/null
}
first_send() { push "$line" vm1 "${how[@]}"; }
cat_data() {
	# As many bytes as the pool has, past holes.
	"$dir/rsh" "$line" 'cat >/dev/null' <"$dir/bytes"
}

speed_rows() {
	local how=() line bytes wanted
	new_pools
	revdedupctl -q snapshot vm1 --from "$series/vm1-1.img"
	head -c "$(bytes_of "$REVDEDUP_POOL/data")" < <(cat "$series"/vm1-*.img | tr -d '\0') >"$dir/bytes"
	# What is compressed goes as it lies.
	line=ssh how=()
	[ "$compression" != none ] || how=(--compression none)
	compare no_pool_there first_send cat_data 3
	ratio_row "first send by ssh, beside cat of the pool's bytes by ssh" 0.8
	rm -f "$dir/bytes"
	for line in 125000000-1 12500000-40; do
		no_pool_there
		: >"$dir/sent"
		timed push "$line" vm1
		bytes=$(sum bytes_sent)
		# The fast one waits for the processor.
		wanted=()
		[ "$line" != 12500000-40 ] ||
			wanted=(">= 0.95" "$bytes / ($usec / 1e6) / ${line%-*} >= 0.95")
		row "first send over ${line%-*} bytes/s and ${line#*-} ms, of the line" \
			"$(calc "$bytes / ($usec / 1e6) / ${line%-*}")" "${wanted[@]}"
	done
}

part_send() {
	gcc -std=gnu11 -O2 -D_GNU_SOURCE -o "$dir/bin/line" "$here/line.c"
	start_sshd
	write_rsh
	find_series
	title "send: what goes over the wire"
	header
	bytes_rows apt "$series"
	bytes_rows database "$("$here/database.sh")"
	find_fleet
	bytes_rows fleet "$fleet/plain"
	second_rows
	nothing_rows
	speed_rows
	kill "$(<"$dir/sshd/pid")"
	rm -rf "$there"
}
