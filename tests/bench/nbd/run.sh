#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: run.sh [speed|packs|exports]...
#
# Measure versions over NBD, as tables:
#
#   speed    reads through the plugin, beside nbdkit's own plugin "file" on a raw image with
#            the same content: 1 MiB in sequence and 4 KiB at random, 16 at a time on one
#            connection, from cold caches, in turns; and how much memory nbdkit took
#   packs    the same version in a pool made with --compression zstd beside one of a pool
#            without: also 4 KiB in sequence
#   exports  how long it takes to list 500 exports, and to open a small, a large, a new and
#            an old one
#
# There is one client, which nbdkit before 1.34 serves in parallel as a later one serves several.
#
# SIZE (in MiB, 2048) is that of the image, ROUNDS (5) how often each is measured, DIR
# (build/bench-nbd) where. The caches are dropped by root alone.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../../scripts/lib.sh"
here=$(realpath "${BASH_SOURCE[0]%/*}")
cd "$here/../../.."

case ${1:-} in
-h | --help) show_help; exit ;;
esac
scripts/setup.sh build bench
make -s -C userspace
size=${SIZE:-2048} rounds=${ROUNDS:-5}
bin=$PWD/build/bin
dir=${DIR:-build/bench-nbd}
rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"
gcc -O2 -Wall -o read "$here/read.c" -lnbd
# Debian's Python has libnbd, and nbdsh runs the first one.
export REVDEDUP_POOL=$PWD/pool PATH=/usr/bin:$PATH
ctl() { "$bin/revdedupctl" -q "$@"; }
plugin=$bin/nbdkit-revdedup-plugin.so

drop_caches() {
	sync
	echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || note "caches stay warm: this is not root"
}

# serve ARG...: nbdkit, in the background, at the socket s.
serve() {
	rm -f s pid
	nbdkit --foreground --unix s --pidfile pid "$@" 2>>log &
	server=$!
	until [ -e pid ] && nbdinfo --size "nbd+unix:///?socket=$PWD/s" >/dev/null 2>&1 ||
		nbdinfo --list "nbd+unix:///?socket=$PWD/s" >/dev/null 2>&1; do
		sleep 0.05
	done
}

# end: end the server, and set peak to the most memory that it had, in MiB.
end() {
	peak=$(awk '/VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$server/status")
	kill "$server"
	wait "$server"
}

# measure NAME HOW ARG...: add "bytes-per-second" of a server to the file NAME-HOW. HOW is
# seq, seq4k or random.
measure() {
	local name=$1 how=$2 length=1048576 peak
	[ "$how" = seq ] || length=4096
	serve "${@:3}"
	drop_caches
	./read "nbd+unix:///?socket=$PWD/s" $length 16 6 "${how%4k}" >>"$name-$how"
	end
	echo "$peak" >>"$name-memory"
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

make_series() {
	local nr
	ctl init --compression none --pieces 1 pool --size $((size * 12))M
	dd if=/dev/urandom of=oldest.img bs=1M count="$size" status=none
	cp oldest.img newest.img
	ctl snapshot vm1 --from oldest.img
	# A twentieth changes each time, in pieces of 64 KiB.
	for nr in 2 3 4 5 6 7 8; do
		python3 - newest.img "$nr" <<-'END'
			import os, random, sys
			rng = random.Random(int(sys.argv[2]))
			size = os.path.getsize(sys.argv[1])
			with open(sys.argv[1], "r+b") as file:
			    for _ in range(size // 20 // 65536):
			        file.seek(rng.randrange(size // 65536) * 65536)
			        file.write(rng.randbytes(65536))
		END
		ctl snapshot vm1 --from newest.img
	done
}

bench_speed() {
	local round how name
	make_series
	for ((round = 0; round < rounds; round++)); do
		for how in seq random; do
			measure file-newest $how file newest.img
			measure newest $how "$plugin" pool=pool version=vm1@8 clients=1
			measure file-oldest $how file oldest.img
			measure oldest $how "$plugin" pool=pool version=vm1@1 clients=1
		done
	done
	printf '%-8s %-8s %12s %12s %8s %10s\n' VERSION READS PLUGIN FILE RATIO MEMORY
	for name in newest oldest; do
		for how in seq random; do
			awk -v a="$(median $name-$how)" -v b="$(median file-$name-$how)" \
				-v memory="$(sort -n $name-memory | tail -n 1)" \
				-v name=$name -v how=$how 'BEGIN {
				printf "%-8s %-8s %7.1f MB/s %7.1f MB/s %8.2f %6d MiB\n",
					name, how, a / 1e6, b / 1e6, a / b, memory }'
		done
	done
	rm -rf pool ./*.img
}

bench_packs() {
	local round how name
	# Each block can be compressed by 2: noise, 16 letters at random, zeros.
	python3 - image "$size" <<-'END'
		import os, sys
		letters = bytes(97 + i % 16 for i in range(256))
		with open(sys.argv[1], "wb") as file:
		    for _ in range(int(sys.argv[2]) * 256):
		        text = os.urandom(2048).translate(letters)
		        file.write(os.urandom(1024) + text + bytes(1024))
	END
	for name in raw packed; do
		[ $name = raw ] || set -- --compression zstd
		ctl init --compression none --pieces 1 $name --size $((size * 2))M "$@"
		ctl snapshot vm1 --from image --pool $name
	done
	for ((round = 0; round < rounds; round++)); do
		for how in seq seq4k random; do
			for name in raw packed; do
				measure $name $how "$plugin" pool=$name version=vm1@1 clients=1
			done
		done
	done
	printf '%-8s %12s %12s %8s %11s %11s\n' READS PACKED RAW RATIO "PACKED HAS" "RAW HAS"
	for how in seq seq4k random; do
		awk -v a="$(median packed-$how)" -v b="$(median raw-$how)" -v how=$how \
			-v c="$(sort -n packed-memory | tail -n 1)" \
			-v d="$(sort -n raw-memory | tail -n 1)" 'BEGIN {
			printf "%-8s %7.1f MB/s %7.1f MB/s %8.2f %7d MiB %7d MiB\n",
				how, a / 1e6, b / 1e6, a / b, c, d }'
	done
	rm -rf raw packed image
}

# seconds COMMAND...: how long it takes, the least of three.
seconds() {
	for _ in 1 2 3; do
		python3 -c 'import subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print("%.3f" % (time.monotonic() - start))' "$@"
	done | sort -n | head -n 1
}

bench_exports() {
	local nr name
	ctl init --compression none --pieces 1 pool --size 20G
	truncate -s 4M small.img
	for ((nr = 0; nr < 498; nr++)); do
		dd if=/dev/urandom of=small.img bs=4096 count=1 conv=notrunc status=none
		ctl snapshot small --from small.img
	done
	truncate -s 1T large.img
	dd if=/dev/urandom of=large.img bs=1M count=64 seek=500000 conv=notrunc status=none
	ctl snapshot large --from large.img
	serve "$plugin" pool=pool
	echo "list 500 exports: $(seconds nbdsh -c 'h.set_opt_mode(True)' \
		-c "h.connect_uri('nbd+unix:///?socket=$PWD/s')" \
		-c 'n = []; h.opt_list(lambda name, about: n.append(name) and 0 or 0); print(len(n))') s"
	echo "list them, and open each (nbdinfo --list): $(seconds nbdinfo --list \
		"nbd+unix:///?socket=$PWD/s") s"
	for name in small@1 small@498 large@1; do
		echo "open $name: $(seconds nbdinfo --size "nbd+unix:///$name?socket=$PWD/s") s"
	done
	end
	echo "nbdkit: $peak MiB"
	rm -rf pool ./*.img
}

[ $# -gt 0 ] || set -- speed packs exports
for what; do
	"bench_$what"
done
