#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Deduplication of volumes in use: chunks of zeros are given back, cold blocks are read from
# the pool and given back, and copied home again; beside a writer, killed at each step, after
# a boot.

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2154
load ../lib/guest
load ../lib/lvm
load dedup

setup() {
	lvm_setup 400
	lvcreate -qq --yes --type thin-pool --size 160M --chunksize 64k --name thin "$vg"
}
teardown() { lvm_teardown; }

# no_table: has the device no table for blocks that are not home?
no_table() {
	local line
	line=$(dmsetup table "${vol##*/}")
	[[ $line != *zeros* && $line == *" - "* ]] || {
		echo "there is a table: $line"
		return 1
	}
}

# runs: is the device not suspended?
runs() {
	[ "$(dmsetup info -c --noheadings -o suspended "${vol##*/}")" = Active ] || {
		dmsetup info "${vol##*/}"
		return 1
	}
}

tags() { lvs --noheadings -o lv_tags "$vg/vm1" | xargs; }

# writer_start OFFSET_MIB SIZE_MIB SECONDS: write there, and verify.
writer_start() {
	fio --name=writer --ioengine=libaio --filename="$vol" --offset="$1m" --size="$2m" \
		--rw=randwrite --bsrange=512-64k --blockalign=512 --iodepth=4 --direct=1 \
		--verify=crc32c --verify_fatal=1 --verify_backlog=64 --serialize_overlap=1 \
		--time_based --runtime="$3" >"$BATS_TEST_TMPDIR/writer" 2>&1 3>&- &
	writer=$!
}

writer_is_content() {
	wait "$writer" || {
		cat "$BATS_TEST_TMPDIR/writer"
		return 1
	}
}

# --- trim

# zero_volume [MIB]: 64 MiB, with 12 MiB of random content and 36 MiB of zeros that take up space;
# or less of all.
zero_volume() {
	local part=${1:-64}
	thin_volume "$part"
	random 0 $((part * 3))
	zeros $((part * 3)) $((part * 6))
	random $((part * 9)) 16
	zeros $((part * 9 + 14)) 2
	zeros $((part * 10)) $((part * 3))
	note
	mapped_is $((part * 768)) $((part * 768 + 1024))
}

@test "dedup: chunks of zeros are given back, and no table is left" {
	zero_volume
	revdedupctl trim "$vg/vm1" -n
	mapped_is 49152 50176
	revdedupctl trim "$vg/vm1" --json | tee /tmp/said
	grep -q '"type": "trim"' /tmp/said
	[ "$(json bytes_found </tmp/said)" -ge $((36 << 20)) ]
	[ "$(json bytes_mapped </tmp/said)" -le $((14 << 20)) ]
	mapped_is 13000 14336
	same
	no_table
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	run grep zeros= "$REVDEDUP_CONFIG"/volumes/*
	[ "$status" -eq 1 ]
	# Nothing is found where nothing takes up space.
	revdedupctl trim --all --json | tee /tmp/said
	[ "$(json bytes_mapped </tmp/said)" = "$(json bytes_mapped_before </tmp/said)" ]
	no_table
	# The first write there takes up space again, and all is tracked as before.
	revdedupctl -q snapshot "$vg/vm1"
	random 300 3
	note
	mapped_is 13000 14600
	revdedupctl snapshot "$vg/vm1" --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	is_version "$vg/vm1@2" /tmp/rdt-pool/is
	revdedupctl detach "$vg/vm1"
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
}

# bats test_tags=soak
@test "dedup: a writer goes on while zeros are given back" {
	zero_volume
	writer_start 14 20 20
	while kill -0 "$writer" 2>/dev/null; do
		revdedupctl trim "$vg/vm1"
	done
	writer_is_content
	revdedupctl trim "$vg/vm1"
	no_table
	cmp -n $((14 << 20)) "$vol" /tmp/rdt-pool/is
	cmp -i $((34 << 20)) "$vol" /tmp/rdt-pool/is
	cmp "$vol" "/dev/$vg/vm1"
}

# bats test_tags=soak
@test "dedup: zeros, killed at each step, then a snapshot, a boot or another run" {
	local name next
	zero_volume 16
	for name in dedup-table dedup-marked dedup-aliased dedup-shed; do
		for next in snapshot boot trim; do
			echo "then $next"
			zeros 48 96
			killed "$name" trim "$vg/vm1"
			runs
			same
			case $next in
			snapshot)
				revdedupctl -q snapshot "$vg/vm1"
				is_version "$vg/vm1@latest" /tmp/rdt-pool/is
				;;
			boot)
				down "$vol"
				revdedupctl -q attach "$vg/vm1"
				;;
			esac
			same
			revdedupctl -q trim "$vg/vm1"
			same
			no_table
			mapped_is 3900 4352
			cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
		done
	done
	revdedupctl -q check
}

@test "dedup: what gives nothing back, or would not be safe, is refused" {
	make_lv vm2 16
	revdedupctl -q attach "$vg/vm2"
	run revdedupctl trim "$vg/vm2"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no thin volume"*"nothing was changed"* ]]
	lvchange -qq --zero n "$vg/thin"
	thin_volume 16
	zeros 0 64
	run revdedupctl trim "$vg/vm1"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"does not zero new chunks"*"lvchange -Zy"* ]]
	mapped_is 4096 4160
	# With --all, one that is not thin is nobody's mistake.
	lvchange -qq --zero y "$vg/thin"
	run revdedupctl trim --all
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output != *vm2* ]]
	mapped_is 0 64
	# None is offloaded.
	run revdedupctl offload --all
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

# --- offload

# pool_volume [MIB]: 64 MiB, of which 40 are random, with a version; or less of all.
pool_volume() {
	local part=${1:-64}
	thin_volume "$part"
	random 0 $((part * 5))
	random $((part * 8)) $((part * 5))
	revdedupctl -q snapshot "$vg/vm1"
	note
	mapped_is $((part * 640)) $((part * 656))
}

@test "dedup: a volume reads its cold blocks from the pool, and gives their space back" {
	pool_volume
	run revdedupctl offload "$vg/vm1" --cold 0 </dev/null
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"--force"* ]]
	run revdedupctl offload "$vg/vm1" --cold 0 --force </dev/null
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"no backup of it any more"*"--yes"* ]]
	mapped_is 40960 41984
	# A dry run says so beforehand, and asks nothing.
	revdedupctl offload "$vg/vm1" --cold 0 -n </dev/null | tee /tmp/said
	grep -q "would be refused without --force: .*not worth" /tmp/said
	revdedupctl offload "$vg/vm1" --cold 0 -n --json </dev/null | tee /tmp/said
	[ "$(json bytes_estimate </tmp/said)" = 41943040 ]
	grep -q '"refusal": "[^"]*not worth' /tmp/said
	revdedupctl offload "$vg/vm1" --cold 0 -n --force --json </dev/null | tee /tmp/said
	grep -q '"refusal": null' /tmp/said
	revdedupctl offload "$vg/vm1" --cold 0 --force --yes --json | tee /tmp/said
	[ "$(json bytes_found </tmp/said)" = 41943040 ]
	[ "$(json bytes_in_pool </tmp/said)" = 41943040 ]
	mapped_is 0 1024
	[ "$(tags)" = revdedup_partial ]
	same
	# Again: nothing is left to do, and nothing is asked.
	revdedupctl offload "$vg/vm1" --cold 0 --json | tee /tmp/said
	grep -q '"type": "offload"' /tmp/said
	[ "$(json bytes_found </tmp/said)" = 0 ]
	# What is written comes home.
	random 100 33
	dd if=/dev/urandom of="$vol" bs=1k seek=40001 count=3 conv=notrunc,fsync status=none
	note
	mapped_is 2048 4096
	down "$vol"
	revdedupctl -q attach "$vg/vm1"
	same
	# The next version is whole, and holds what the volume reads; the first one can go.
	revdedupctl -q snapshot "$vg/vm1"
	is_version "$vg/vm1@2" /tmp/rdt-pool/is
	revdedupctl -q delete "$vg/vm1@1"
	nothing_held
	same
	revdedupctl -q check
	revdedupctl offload "$vg/vm1" --cold 0 --json | tee /tmp/said
	mapped_is 0 1024
	same
	# Back.
	revdedupctl recall "$vg/vm1"
	same
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	[ -z "$(tags)" ]
	mapped_is 40960 45056
	# The table line has the pool's name still; zeros come and go beside it.
	zeros 100 33
	note
	revdedupctl -q trim "$vg/vm1"
	same
	no_table
	revdedupctl -q delete "$vg/vm1@2"
	nothing_held
	revdedupctl -q detach "$vg/vm1"
	revdedupctl -q check
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
}

@test "dedup: blank metadata of a volume that lacks blocks are not taken for new ones" {
	pool_volume 16
	revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
	down "$vol"
	dd if="/dev/$vg/vm1_rdmeta" of=/tmp/rdt-pool/meta bs=64k iflag=direct status=none
	blkdiscard -z "/dev/$vg/vm1_rdmeta"
	for verb in attach detach; do
		run revdedupctl $verb "$vg/vm1"
		echo "$output"
		[ "$status" -ne 0 ]
		[[ $output == *"metadata of '$vg/vm1' are lost"*"nothing was changed"* ]]
		cmp -n 4096 "/dev/$vg/vm1_rdmeta" /dev/zero
		[ "$(tags)" = revdedup_partial ]
	done
	dd if=/tmp/rdt-pool/meta of="/dev/$vg/vm1_rdmeta" bs=64k oflag=direct status=none
	revdedupctl -q attach "$vg/vm1"
	same
	# Given up, it can be detached.
	down "$vol"
	blkdiscard -z "/dev/$vg/vm1_rdmeta"
	revdedupctl -q detach "$vg/vm1" --force --yes
}

@test "dedup: a writer goes on while its blocks change their place" {
	pool_volume
	writer_start 10 8 25
	while kill -0 "$writer" 2>/dev/null; do
		revdedupctl -q snapshot "$vg/vm1"
		revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
		revdedupctl -q prune "$vg/vm1" --keep-last 1
	done
	writer_is_content
	cmp -n $((10 << 20)) "$vol" /tmp/rdt-pool/is
	cmp -i $((18 << 20)) "$vol" /tmp/rdt-pool/is
	note
	revdedupctl -q snapshot "$vg/vm1"
	revdedupctl -q offload "$vg/vm1" --cold 0
	same
	mapped_is 0 1024
	revdedupctl -q check
	is_version "$vg/vm1@latest" /tmp/rdt-pool/is
	revdedupctl -q recall "$vg/vm1"
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
}

# bats test_tags=soak
@test "dedup: killed while a table takes the place of another, the volume goes on" {
	zero_volume
	killed dm-swap trim "$vg/vm1"
	runs
	same
	revdedupctl -q snapshot "$vg/vm1"
	killed dm-swap offload "$vg/vm1" --cold 0 --force --yes
	runs
	same
	revdedupctl -q trim "$vg/vm1"
	no_table
	same
}

@test "dedup: offload and its way back, killed at each step" {
	local name
	pool_volume 16
	for name in dedup-table dedup-leased lease-add dedup-marked dedup-aliased dedup-shed; do
		killed $name offload "$vg/vm1" --cold 0 --force --yes
		runs
		same
		if [ $((RANDOM % 2)) -eq 0 ]; then
			down "$vol"
			revdedupctl -q attach "$vg/vm1"
			same
		fi
		revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
		same
		mapped_is 0 64
		# A snapshot that is killed before the lease has moved on.
		killed lease-moved snapshot "$vg/vm1"
		revdedupctl -q offload "$vg/vm1" --cold 0
		revdedupctl -q prune "$vg/vm1" --keep-last 1
		nothing_held
		same
		killed undo-started recall "$vg/vm1"
		same
		killed undo-home recall "$vg/vm1"
		revdedupctl -q recall "$vg/vm1"
		same
		[ -z "$(tags)" ]
		cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
		revdedupctl -q check
	done
}

# bats test_tags=soak
@test "dedup: it does not leave a volume without room to come back" {
	pool_volume
	revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
	lvcreate -qq --yes --type thin --virtualsize 140M --thinpool thin --name full "$vg"
	dd if=/dev/urandom of="/dev/$vg/full" bs=1M count=130 oflag=direct status=none
	run revdedupctl recall "$vg/vm1"
	echo "$output"
	[ "$status" -eq 12 ]
	[[ $output == *"nothing was copied"* ]]
	same
	lvremove -qq --yes "$vg/full"
	revdedupctl recall "$vg/vm1"
	same
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
}

@test "dedup: what the volume reads stays, whatever versions are deleted" {
	pool_volume
	revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
	revdedupctl -q delete "$vg/vm1@1"
	same
	# Something else takes the space of what was freed.
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=24 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	same
	# The lease moves on, and the command dies when one of the two is gone. (That of the view
	# goes before.)
	random 20 2
	note
	killed lease-drop:2 snapshot "$vg/vm1"
	revdedupctl -q delete "$vg/vm1@latest"
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=24 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	same
	# A roll-back needs all at home.
	revdedupctl -q snapshot "$vg/vm1"
	run revdedupctl rollback "$vg/vm1@latest" --yes
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"recall"* ]]
	same
	# A pool that is damaged would be the end of it: said before, and by status.
	revdedupctl status "$vg/vm1" | tee /tmp/said
	grep -q "from the pool '.*' only, could need as much" /tmp/said
	revdedupctl -q recall "$vg/vm1"
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	revdedupctl -q check
}

@test "dedup: only what is cold, clean, and the same is given to the pool" {
	pool_volume
	# By default nothing is cold that has been there for one version.
	revdedupctl offload "$vg/vm1" -n --json | tee /tmp/said
	[ "$(json bytes_estimate </tmp/said)" = 0 ]
	revdedupctl offload "$vg/vm1" --cold 0 -n --json | tee /tmp/said
	[ "$(json bytes_estimate </tmp/said)" = $((40 << 20)) ]
	random 3 1
	note
	# Behind the target's back: that segment is clean.
	dd if=/dev/urandom of="/dev/$vg/vm1" bs=4k seek=8500 count=1 oflag=direct conv=notrunc status=none
	note
	run revdedupctl offload "$vg/vm1" --cold 0 --force --yes
	echo "$output"
	[ "$status" -eq 4 ]
	[[ $output == *"differ at offset $((8500 * 4096)), and nothing was written there"*scrub* ]]
	same
	revdedupctl -q recall "$vg/vm1"
	same
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	# Where the last snapshot went to another pool, this one's version says nothing.
	revdedupctl -q init --compression none --size 512M /tmp/rdt-pool/two
	revdedupctl -q snapshot "$vg/vm1" --pool /tmp/rdt-pool/two
	run revdedupctl offload "$vg/vm1" --cold 0 --force --yes
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"the last snapshot is not in this pool"* ]]
}

# found COLD CHUNKS: does a run find these cold, and nothing else?
found() {
	revdedupctl offload "$vg/vm1" --cold "$1" --force --yes --json | tee /tmp/said
	echo "wanted: $2 chunks"
	[ "$(json bytes_found </tmp/said)" = $(($2 << 16)) ]
	same
}

# estimated COLD CHUNKS
estimated() {
	revdedupctl offload "$vg/vm1" --cold "$1" -n --json | tee /tmp/said
	echo "wanted: $2 chunks"
	[ "$(json bytes_estimate </tmp/said)" = $(($2 << 16)) ]
}

# bats test_tags=soak
@test "dedup: in a segment that is written, blocks that are not are given to the pool" {
	pool_volume
	# One chunk of a segment, and one block of another.
	random 3 1
	dd if=/dev/urandom of="$vol" bs=4k seek=650 count=1 oflag=direct conv=notrunc status=none
	revdedupctl -q snapshot "$vg/vm1"
	estimated 1 638
	# There is no version so old, and no segment.
	estimated 2 0
	# What was written since the snapshot shows when it is read.
	random 70 1
	note
	estimated 1 638
	found 1 637
	mapped_is 192 256
	found 1 0
	# The next version has seen them.
	revdedupctl -q snapshot "$vg/vm1"
	is_version "$vg/vm1@3" /tmp/rdt-pool/is
	estimated 1 2
	# For a version that was deleted the one before it counts: where a segment is written now,
	# nothing says any more that chunk 3 has not changed since version 2.
	revdedupctl -q delete "$vg/vm1@2"
	random 9 1
	note
	found 1 1
	random 100 1
	note
	revdedupctl -q snapshot "$vg/vm1"
	found 2 0
	found 1 2
	mapped_is 128 192
	revdedupctl -q check
	revdedupctl -q recall "$vg/vm1"
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
}

# returned CHUNKS COLD: do so many chunks come home before this run, and how cold is it then?
returned() {
	revdedupctl -q snapshot "$vg/vm1"
	revdedupctl offload "$vg/vm1" --cold 1 --json | tee /tmp/said
	echo "wanted: $1 chunks, cold $2"
	[ "$(json bytes_came_home </tmp/said)" = $(($1 << 16)) ]
	[ "$(json cold </tmp/said)" = "$2" ]
	revdedupctl status "$vg/vm1" --json | tee /tmp/status
	[ "$2" = 1 ] || [ "$(json dedup_cold </tmp/status)" = "$2" ]
}

# bats test_tags=soak
@test "dedup: where much comes home again, blocks must be colder" {
	pool_volume
	revdedupctl -q snapshot "$vg/vm1"
	found 1 640
	# 50 of 640: they must stay for twice as many versions.
	random 0 50
	returned 50 2
	[ "$(json bytes_found </tmp/said)" = 0 ]
	revdedupctl -v status "$vg/vm1" | tee /tmp/said
	grep -q "leaves blocks that were written within 2 versions" /tmp/said
	# 12 of 590, neither much nor little; a dry run changes nothing.
	random 50 12
	revdedupctl offload "$vg/vm1" --cold 1 -n
	returned 12 2
	# 3 of 578
	random 62 3
	returned 3 1
	[ "$(json bytes_found </tmp/said)" = $((62 << 16)) ]
	run grep dedup_cold "$REVDEDUP_CONFIG"/volumes/*
	[ "$status" -eq 1 ]
	# What is copied home by recall has not come home by itself.
	random 0 100
	returned 97 2
	revdedupctl -q recall "$vg/vm1"
	run grep -e dedup_cold -e dedup_in_pool "$REVDEDUP_CONFIG"/volumes/*
	[ "$status" -eq 1 ]
	note
	revdedupctl offload "$vg/vm1" --cold 1 --force --yes --json | tee /tmp/said
	[ "$(json bytes_came_home </tmp/said)" = 0 ]
	[ "$(json cold </tmp/said)" = 1 ]
	same
}

# bats test_tags=soak
@test "dedup: a run of zeros does not finish an offload, nor hide it" {
	# All is in the second window.
	thin_volume 128
	random 1100 160
	revdedupctl -q snapshot "$vg/vm1"
	note
	killed dedup-aliased offload "$vg/vm1" --cold 0 --force --yes
	mapped_is 10240 11264
	revdedupctl -q trim "$vg/vm1"
	mapped_is 10240 11264
	revdedupctl -q offload "$vg/vm1" --cold 0
	mapped_is 0 64
	same
}

# disturbed COMMAND OPTION...: suspend the volume while the first window is read.
disturbed() {
	local pid
	stopped dedup-marked -q "$1" "$vg/vm1" "${@:2}"
	dmsetup suspend "${vol##*/}"
	dmsetup resume "${vol##*/}"
	kill -CONT "$pid"
	wait "$pid"
}

# bats test_tags=soak
@test "dedup: marks that are lost are set again, and counted; the last success has a time" {
	local before
	pool_volume
	before=$(date +%s)
	revdedupctl metrics >/tmp/said
	run grep device_dedup /tmp/said
	[ "$status" -eq 1 ]
	zeros 900 20
	disturbed trim
	mapped_is 40960 41984
	disturbed offload --cold 0 --force --yes
	mapped_is 0 64
	same
	revdedupctl metrics | grep device_dedup | tee /tmp/said
	grep -q '^revdedup_device_dedup_lost_marks_total{volume="rdt-vg/vm1"} 2$' /tmp/said
	[ "$(sed -n 's/^revdedup_device_dedup_last_success[^ ]* //p' /tmp/said)" -ge "$before" ]
	# One that fails is none.
	sed -i 's/^dedup_time=.*/dedup_time=17/' "$REVDEDUP_CONFIG"/volumes/*
	zeros 900 20
	run env REVDEDUP_FAIL=dedup-aliased=EIO revdedupctl -q trim "$vg/vm1"
	[ "$status" -ne 0 ]
	revdedupctl metrics | grep 'last_success[^ ]* 17$'
}

# bats test_tags=soak
@test "dedup: what is compressed in the pool is read from there" {
	rm -rf "$REVDEDUP_POOL"
	revdedupctl -q init --size 512M --compression zstd "$REVDEDUP_POOL"
	thin_volume 16
	for _ in $(seq 4096); do
		echo "A text that is as easy to compress as this one is, and not zeros. $RANDOM"
	done >/tmp/text
	dd if=/tmp/text of="$vol" bs=64k oflag=direct conv=notrunc,sync status=none
	revdedupctl -q snapshot "$vg/vm1"
	note
	# What is damaged there does not become the only place.
	data=$REVDEDUP_POOL/data
	at=$(grep -abo RDPACK1 "$data" | head -n 1 | cut -d : -f 1)
	dd if="$data" of=/tmp/saved bs=1 skip=$((at + 600)) count=64 status=none
	dd if=/dev/zero of="$data" bs=1 seek=$((at + 600)) count=64 conv=notrunc status=none
	run revdedupctl offload "$vg/vm1" --cold 0 -f -y
	echo "$output"
	[[ $status -eq 4 && $output == *"is damaged in its group"* ]]
	mapped_is 256 512
	same
	dd if=/tmp/saved of="$data" bs=1 seek=$((at + 600)) conv=notrunc status=none
	revdedupctl offload "$vg/vm1" --cold 0 -f -y
	mapped_is 0 64
	same
}

# Its lease is of that version. With one of the newest, the pool would have the device read what
# the newest version has there.
# bats test_tags=soak
@test "dedup: a volume that reads an older version than its newest is not given to the pool" {
	pool_volume
	random 0 160
	revdedupctl -q snapshot "$vg/vm1"
	# Nothing copies it home.
	stopped rollback-ended rollback "$vg/vm1@1" --yes
	dmsetup message "${vol##*/}" 0 hydrate stop
	kill -CONT "$pid"
	wait "$pid"
	retry 100 0.2 timeout 5 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct status=none
	same
	run revdedupctl offload "$vg/vm1" --cold 0 --force --yes
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"reads blocks of an older version"*"revdedupctl snapshot"* ]]
	revdedupctl -q delete "$vg/vm1@1"
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=24 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	same
	# The next version is what the volume reads, and so it may go on.
	revdedupctl -q snapshot "$vg/vm1"
	revdedupctl -q offload "$vg/vm1" --cold 0 --force --yes
	same
	revdedupctl -q delete "$vg/vm1@2"
	dd if=/dev/urandom of=/tmp/rdt-pool/other bs=1M count=24 status=none
	revdedupctl -q snapshot other --from /tmp/rdt-pool/other
	same
	revdedupctl -q recall "$vg/vm1"
	cmp "/dev/$vg/vm1" /tmp/rdt-pool/is
	revdedupctl -q check
}
