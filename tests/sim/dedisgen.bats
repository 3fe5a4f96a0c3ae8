#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The generator of writes for the benchmark of deduplication: what it writes, where, and how
# fast, by what is in the file afterwards.

bats_require_minimum_version 1.5.0
load ../pool/images

bench=$BATS_TEST_DIRNAME/../bench/target

setup_file() {
	build_sanitized "$BATS_FILE_TMPDIR/dedisgen" -I"$BATS_TEST_DIRNAME/../guest" \
		"$BATS_TEST_DIRNAME/../bench/target/dedisgen.c" \
		"$BATS_TEST_DIRNAME/../guest/lib/random.c"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	truncate -s 16M disk
}

dedisgen() { "$BATS_FILE_TMPDIR/dedisgen" "$@" disk; }

# blocks: print the sum of each block of the disk that was written to.
blocks() {
	python3 - <<-'END'
	import hashlib
	with open("disk", "rb") as disk:
	    while block := disk.read(4096):
	        if any(block):
	            print(hashlib.md5(block).hexdigest())
	END
}

# about IS WANTED PERCENT
about() {
	echo "it is $1; wanted: $2, give or take $3 percent"
	[ $(($1 * 100)) -ge $(($2 * (100 - $3))) ] && [ $(($1 * 100)) -le $(($2 * (100 + $3))) ]
}

@test "dedisgen: the same seed writes the same, another one or another writer does not" {
	dedisgen --dist "$bench/dist" --seed 5 >/dev/null
	cp disk one
	truncate -s 0 disk
	truncate -s 16M disk
	dedisgen --dist "$bench/dist" --seed 5 --verify >said
	cmp disk one
	grep -E '^writes 4096 seconds [0-9.]+ iops [0-9]+ p50 [0-9.]+ p99 [0-9.]+ worst' said
	# In two parts.
	truncate -s 0 disk
	truncate -s 16M disk
	dedisgen --dist "$bench/dist" --seed 5 --count 1000 >/dev/null
	run ! cmp disk one
	dedisgen --dist "$bench/dist" --seed 5 --skip 1000 --count 3096 >/dev/null
	cmp disk one
	dedisgen --dist "$bench/dist" --seed 6 >/dev/null
	run ! cmp disk one
	cp one disk
	dedisgen --dist "$bench/dist" --seed 5 --writer 1 >/dev/null
	run ! cmp disk one
}

@test "dedisgen: contents have as many duplicates as the distribution says" {
	# One write in four is of one content, the others are of one each.
	printf '%s\n' "0 3000" "999 1" >dist
	dedisgen --dist dist --pattern sequential >said
	about "$(blocks | sort | uniq -u | wc -l)" 3072 3
	[ "$(blocks | sort | uniq -d | wc -l)" -eq 1 ]
	[ "$(awk '{ print $NF }' said)" -eq "$(blocks | sort | uniq -u | wc -l)" ]
	# Without one there are none.
	dedisgen --pattern sequential >/dev/null
	[ "$(blocks | sort -u | wc -l)" -eq 4096 ]
}

@test "dedisgen: contents do not compress, and differ anywhere" {
	dedisgen --pattern sequential --blocks 64 >/dev/null
	head -c 4096 disk >one
	[ "$(gzip -c one | wc -c)" -gt 4096 ]
	for i in $(seq 1 63); do
		run cmp -n 4096 -i "0:$((i * 4096))" one disk
		[ "$status" -eq 1 ]
		echo "$output" | grep -o 'byte [0-9]*' | cut -d ' ' -f 2
	done >differ
	# The first difference of two is in the first half three times in four.
	about "$(awk '$1 <= 2048' differ | wc -l)" 47 40
	[ "$(sort -u differ | wc -l)" -gt 20 ]
}

@test "dedisgen: nurand has hot spots, and stays in its part of the device" {
	local hot cold
	dedisgen --first 1024 --blocks 2048 --count 2048 --pattern uniform >/dev/null
	cold=$(blocks | wc -l)
	# What N draws out of N leave out is 1/e of them.
	about "$cold" 1294 5
	truncate -s 0 disk
	truncate -s 16M disk
	dedisgen --first 1024 --blocks 2048 --count 2048 >/dev/null
	hot=$(blocks | wc -l)
	echo "uniform: $cold blocks; nurand: $hot"
	[ "$hot" -lt $((cold * 9 / 10)) ]
	cmp -n 4194304 disk /dev/zero
	cmp -n 4194304 -i 12582912:0 disk /dev/zero
}

@test "dedisgen: it keeps to a rate, and to a time" {
	dedisgen --rate 400 --count 200 >said
	cat said
	awk '{ exit !($2 == 200 && $4 >= 0.49) }' said
	dedisgen --rate 100 --seconds 3 >said
	cat said
	awk '{ exit !($2 >= 20 && $2 <= 301) }' said
}

@test "dedisgen: --verify finds what is not there" {
	local pid status=0
	dedisgen --pattern sequential --rate 10 --count 50 --verify >said 2>err 3>&- &
	pid=$!
	until [ "$(head -c 4096 disk | tr -d '\0' | wc -c)" -gt 0 ]; do
		sleep 0.05
	done
	dd if=/dev/zero of=disk bs=4k count=1 conv=notrunc status=none
	wait $pid || status=$?
	cat err
	[ "$status" -eq 1 ]
	grep "does not hold at offset 0 what was written there" err
}

@test "dedisgen: what makes no sense is refused" {
	run -2 dedisgen --pattern none
	run -2 dedisgen --count x
	run -1 dedisgen --blocks 5000
	echo "x 1" >dist
	run -1 dedisgen --dist dist
	[[ $output == *"not two numbers"* ]]
}
