# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # bats sets output and status
#
# A pool with five versions of two volumes, to be damaged through its files, for bats files
# that `load damage`. With COMPRESSION=zstd, most of it can be compressed.
#
# SEED repeats a run; ROUNDS is how often the random tests run; CTL is the program.

: "${ROUNDS:=5}"

load "${BASH_SOURCE[0]%/*}/../guest/lib/trace"

setup_file() {
	export SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
	echo "# seed $SEED" >&3
	CTL=${CTL:-$BATS_TEST_DIRNAME/../../build/pool/bin/revdedupctl}
	export CTL
	cd "$BATS_FILE_TMPDIR" || return
	"$BATS_TEST_DIRNAME/damage.py" images "$SEED"
	make_pool pool
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export REVDEDUP_POOL=$PWD/pool
	cp "$BATS_FILE_TMPDIR"/{*.img,order} .
	fresh
}

teardown() {
	if [ -n "${disk:-}" ]; then
		losetup --detach "$disk"
	fi
}

# make_pool DIR: with all of the images.
make_pool() {
	local volume image
	"$CTL" init "$1" --size 100M --reserve 4K --compression "${COMPRESSION:-none}" -q
	while read -r volume image; do
		"$CTL" -p "$1" snapshot "$volume" --from "$image" -q
	done <order
}

# fresh: the pool as it was made.
fresh() {
	rm -rf pool wanted.json
	cp -r --sparse=always "$BATS_FILE_TMPDIR/pool" pool
}

damage() {
	"$BATS_TEST_DIRNAME/damage.py" "$@"
}

# is STATUS COMMAND...: revdedupctl ends with that.
is() {
	local wanted=$1
	shift
	run "$CTL" "$@"
	[ "$status" -eq "$wanted" ] || {
		echo "status $status, wanted $wanted: revdedupctl $*"
		echo "$output"
		return 1
	}
}

# scrub_finds: exactly what was damaged.
scrub_finds() {
	local status=0
	"$CTL" scrub --json >scrub.json 2>errors || status=$?
	[ "$status" -eq 4 ] || { cat errors; return 1; }
	damage found scrub.json
}

# restore_all [NR]: what scrub.json lists is left out, all else is right, and NR
# versions have damage.
restore_all() {
	local nr found=()
	[ ! -e scrub.json ] || found=(scrub.json)
	nr=$(damage restore "$CTL" "${found[@]}")
	[ "$nr" -eq "${1:-$nr}" ]
}

# is_whole: nothing is wrong, and every version is there.
is_whole() {
	rm -f scrub.json
	is 0 check
	[[ $output == *"5 versions"* ]]
	is 0 scrub
	restore_all 0
}

from_all() {
	local image
	for image in *.?.img; do
		echo "--from $image"
	done
}

# refused_or_whole: what is there is all, or it is said that it is not, and a catalog
# made anew brings it back.
refused_or_whole() {
	local status=0
	"$CTL" check >/dev/null 2>errors || status=$?
	if [ "$status" -ne 0 ]; then
		is 0 repair --rebuild-catalog
	fi
	is_whole
	return "$((status != 0))"
}

# each_of N WORD...: print each Nth of these, and in soak all.
each_of() {
	local nr every=$1
	shift
	[ -z "${SOAK:-}" ] || every=1
	for ((nr = 1; nr <= $#; nr += every)); do
		printf '%s\n' "${!nr}"
	done
}

# keep_catalog: as it is now, with what belongs to it, in kept/.
keep_catalog() {
	rm -rf kept
	mkdir kept
	cp pool/catalog.db{,-pages} kept
}

# put_kept: that catalog, as an older one that a user has put back.
put_kept() {
	rm pool/catalog.db*
	cp kept/* pool
}

# take_other_state: the one that repair has kept as catalog.old.
take_other_state() {
	local part
	rm pool/catalog.db*
	for part in "" -pages; do
		mv "pool/catalog.old$part" "pool/catalog.db$part"
	done
}

# leave_log: a version more, which the catalog has in its log only.
leave_log() {
	# A reader that ends without closing leaves it; it waits for its pipe.
	mkfifo pipe
	"$CTL" dump vm1@1 >pipe 2>/dev/null 3>&- &
	reader=$!
	exec 4<pipe
	until head -c 1 <&4 | grep -q .; do :; done
	cp vm1.3.img vm2.3.img
	dd if=/dev/urandom of=vm2.3.img bs=4096 seek=99 count=9 conv=notrunc status=none
	is 0 snapshot vm2 --from vm2.3.img
	rm vm2.2.img
	is 0 delete vm2@2
	kill -9 $reader
	wait $reader || :
	exec 4<&-
	rm pipe
	[ -s pool/catalog.db-wal ]
	rm -rf whole
	cp -r --sparse=always pool whole
}
