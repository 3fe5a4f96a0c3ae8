# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of exports, which `load nbd`. BUILD is where the Makefile built the programs. With
# PACKED=yes the pools have packs, and the images what can be compressed.
# shellcheck disable=SC2034,SC2154 # its users have some of the variables; by pool.bash
load "${BASH_SOURCE[0]%/*}/../cli/pool"

setup() {
	build=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build/nbd}")
	cd "$BATS_TEST_TMPDIR" || return
	# Debian's Python has libnbd, and nbdsh runs the first one.
	export PATH=/usr/bin:$PATH TZ=UTC REVDEDUP_RUN=$PWD/run
	unset REVDEDUP_POOL
	clients=()
}

teardown() {
	local pid
	# What has a lock goes first.
	[ -z "${holder:-}" ] || kill "$holder" 2>/dev/null || :
	"$build/bin/revdedupctl" unexport --all -q || :
	for pid in "${clients[@]}"; do
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || :
	done
	umount mnt 2>/dev/null || :
}

if [ "${PACKED:-}" = yes ]; then
	make_pool() {
		must init pool --size "$1" --compression zstd
		export REVDEDUP_POOL=$PWD/pool
	}

	# Blocks that can be compressed by 1, 3 and 100.
	blocks() {
		python3 -c 'import os, random, sys
with open(sys.argv[1], "r+b") as image:
    image.seek(int(sys.argv[2]) * 4096)
    for _ in range(int(sys.argv[3])):
        part = os.urandom(random.choice((4096, 1365, 40)))
        image.write((part * (4096 // len(part) + 1))[:4096])' "$@"
	}
fi

# uri VOL@N: of its export, or of the export of all.
uri() {
	local socket=run/${1//\//-}.sock
	[ -e "$socket" ] || socket=run/all.sock
	echo "nbd+unix:///$1?socket=$PWD/$socket"
}

# serve ARG...: an export in the background.
serve() { must export --background "$@"; }

# client VOL@N IMAGE [OPTION...]: compare the export with the image.
client() {
	run "$BATS_TEST_DIRNAME/client.py" "$(uri "$1")" "${@:2}"
}

# same VOL@N IMAGE [OPTION...]
same() {
	client "$@"
	[ "$status" -eq 0 ] || {
		echo "$1 is not $2 over NBD:"
		echo "$output"
		return 1
	}
}

# start_client VOL@N IMAGE FILE [OPTION...]: one that has read all, and waits to read it again.
start_client() {
	"$BATS_TEST_DIRNAME/client.py" "$(uri "$1")" "$2" --again "$3" "${@:4}" \
		>"$3.log" 2>&1 3>&- &
	clients+=($!)
	wait_for "$3"
}

# end_client FILE: let it read again, and return how that went.
end_client() {
	local status=0
	touch "$1.go"
	wait "${clients[-1]}" || status=$?
	unset 'clients[-1]'
	cat "$1.log"
	return "$status"
}

wait_for() {
	local i
	for ((i = 0; i < 2400; i++)); do
		[ ! -e "$1" ] || return 0
		sleep 0.05
	done
	echo "there is no $1"
	return 1
}

# serve_logged ARG...: nbdkit in the foreground, as the server of all.sock, its messages in
# the file log.
serve_logged() {
	mkdir -p run
	"$@" nbdkit --foreground --unix "$PWD/run/all.sock" --pidfile "$PWD/run/nbdkit.pid" \
		"$build/bin/nbdkit-revdedup-plugin.so" pool="$REVDEDUP_POOL" \
		>log 2>&1 3>&- &
	clients+=($!)
	server=$!
	wait_for run/nbdkit.pid
	# It listens before it has opened the pool, and greets after that.
	nbdinfo --list "$(uri "")" >/dev/null 2>&1 || :
}

# held: how many versions are deleted and kept.
held() { ask "SELECT count(*) FROM version WHERE state = 4"; }

# is_clean: nothing of an export is left.
is_clean() {
	[ "$(ask "SELECT count(*) FROM lease")" -eq 0 ]
	[ "$(ask "SELECT count(*) FROM session")" -eq 0 ]
	[ "$(held)" -eq 0 ]
	must check
}
