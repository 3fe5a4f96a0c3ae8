#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl stats --lookups: what inline snapshots looked up, and what they read for it.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

make_inline() {
	must init pool --size 512M --pieces 64 --dedup inline
	export REVDEDUP_POOL=$PWD/pool
}

# image FILE MIB: of what is nowhere else.
image() {
	truncate -s "$2M" "$1"
	blocks "$1" 0 $(($2 * 256))
}

# shift_image FROM TO BLOCKS: the same, as many blocks behind, and what is new before it.
shift_image() {
	blocks "$2" 0 "$3"
	dd if="$1" of="$2" bs=4096 seek="$3" conv=notrunc status=none
	truncate -s %2M "$2"
}

# snap VOL FILE: take a version, and keep its numbers in snapshots.json.
snap() {
	must snapshot "$1" --from "$2" --json
	echo "$output" >>snapshots.json
}

# agrees [VOL]: does stats say what the snapshots in snapshots.json said, added up?
agrees() {
	must stats --lookups --json "$@"
	python3 -c 'import json, sys
def add(to, counts):
    for key, value in counts.items():
        if isinstance(value, dict):
            add(to.setdefault(key, {}), value)
        else:
            to[key] = to.get(key, 0) + value
wanted = {}
for line in open("snapshots.json"):
    snapshot = json.loads(line)
    for name in {snapshot["volume"], None} if "lookups" in snapshot else {}:
        one = wanted.setdefault(name, {"snapshots": 0, "since": snapshot["time"], "lookups": {}})
        one["snapshots"] += 1
        one["since"] = min(one["since"], snapshot["time"])
        add(one["lookups"], snapshot["lookups"])
if len(sys.argv) > 1:
    wanted = {sys.argv[1]: wanted[sys.argv[1]]}
lines = [json.loads(line) for line in sys.stdin]
assert [line["type"] for line in lines if not "volume" in line] == ["lookups_total"] * (None in wanted)
assert all(line["type"] == "lookups" for line in lines if "volume" in line)
got = {line.pop("volume", None): line for line in lines}
for line in lines:
    del line["type"]
assert got == wanted, "%s\nis not what the snapshots said:\n%s" % (got, wanted)
for line in lines:
    c = line["lookups"]
    assert c["asked"] == c["cache"] + c["unsampled"] + c["vector_no"] + c["index_asked"], c
    sampled = c["cache_sampled"] + c["vector_no"] + c["index_asked"]
    assert c["index_reads"] == {"neither": sampled, "vector": sampled - c["vector_no"],
        "cache": sampled - c["cache_sampled"], "both": c["index_asked"]}, c
' "$@" <<<"$output"
}

nothing() {
	must stats --lookups
	[ "$output" = "no lookups are recorded: inline snapshots record them" ]
	must stats --lookups --json
	[ "$(field 0 '["type"]')" = lookups_total ]
	[ "$(field 0 '["snapshots"]')" = 0 ]
	[ "${#lines[@]}" = 1 ]
}

@test "lookups: 99 of 100 blocks cost no read" {
	local line asked read
	make_inline
	nothing
	image 1.img 64
	shift_image 1.img 2.img 77
	snap vm1 1.img
	snap vm2 2.img
	agrees
	# New content, and content that is there, each: a read for at most 1 block of 100.
	for line in 0 1 2; do
		asked=$(field $line '["lookups"]["asked"]')
		read=$(($(field $line '["lookups"]["index_asked"]') + $(field $line '["lookups"]["pages_read"]')))
		echo "line $line: read $read times for $asked blocks"
		[ "$asked" -ge 16384 ]
		[ $((read * 100)) -le "$asked" ]
	done
	[ "$(field 1 '["lookups"]["found"]')" -ge 16000 ]
	# The vector is of use for what is new, the cache for what is not: 1 block of 16 is sampled.
	[ "$(field 0 '["lookups"]["index_reads"]["vector"]')" -le 10 ]
	[ "$(field 0 '["lookups"]["index_reads"]["cache"]')" -ge 900 ]
	[ "$(field 1 '["lookups"]["index_reads"]["vector"]')" -ge 900 ]
	[ "$(field 1 '["lookups"]["index_reads"]["cache"]')" -le 100 ]
	[ "$(field 2 '["lookups"]["index_reads"]["neither"]')" -ge 1900 ]
	[ "$(field 2 '["lookups"]["index_reads"]["neither"]')" -le 2250 ]
	[ "$(field 2 '["lookups"]["index_reads"]["both"]')" -le 100 ]
}

@test "lookups: the table" {
	make_inline
	# 3 + 0 of 500, 10 + 5 of 1000, and 1 of 51 are 0.60, 1.50 and 1.96 %.
	image 1.img 2
	snap vm1 1.img
	log 1700000000 7 1000 20 300 30 640 50 10 9 1 2 5 310 0 vg/a-long-name.of-a-volume
	log 1700000100 8 0 0 0 0 0 0 0 0 0 0 0 0 0 vm1
	log 1700000200 9 500 0 0 0 497 0 3 3 0 0 0 48 0 vm1
	must stats --lookups vm1
	[[ ${lines[1]} == "VOLUME                  SAME       ASKED       FOUND    NEITHER     VECTOR      CACHE      BOTH  FP READS   AVOIDED    FALSE" ]]
	[[ ${lines[2]} == "vm1 "*" 0        1012          48  "*" 99.70 %   0.00 %" ]] || {
		echo "$output"
		false
	}
	[[ $output != *TOTAL* ]]
	rm pool/index/lookups
	log 1700000000 7 1000 20 300 30 640 50 10 9 1 2 5 310 0 vg/a-long-name.of-a-volume
	log 1700000100 8 0 0 0 0 0 0 0 0 0 0 0 0 0 none
	log 1700000200 9 500 0 0 0 497 0 3 3 0 0 0 48 0 vm1
	must stats --lookups
	expect 0 <<-'END'
		                                                      ----------- INDEX READS WITH ----------
		VOLUME                  SAME       ASKED       FOUND    NEITHER     VECTOR      CACHE      BOTH  FP READS   AVOIDED    FALSE
		none                       0           0           0          0          0          0         0         0         -        -
		vg/a-long-name.of-a-volume          20        1000         310         90         40         60        10         5   98.50 %   1.96 %
		vm1                        0         500          48          3          3          3         3         0   99.40 %        -
		TOTAL                     20        1500         358         93         43         63        13         5   98.80 %   1.96 %

		These are blocks of segments that the pool did not have, in 3 inline snapshots since
		2023-11-14 22:13:20, but for zeros. SAME: not looked up, the version before has them at
		the same offset. The index has 1 of 16 blocks, by their fingerprints, and the others are
		found beside these or not at all: NEITHER is less than ASKED by that.
		AVOIDED is 1 - (BOTH + FP READS) / ASKED. FALSE is the share of blocks that the index
		does not have for which it was read.
	END
}

# log TIME NUMBER COUNT... VOLUME: add a line to the file of the index.
log() {
	python3 -c 'import sys
sys.path.insert(0, sys.argv.pop(1))
from crc32c import crc32c
text = " ".join(["1"] + sys.argv[1:])
open("pool/index/lookups", "a").write("%08x %s\n" % (crc32c(text.encode()), text))' \
		"$BATS_TEST_DIRNAME" "$@"
}

@test "lookups: volumes, options, deleted versions" {
	make_inline
	image 1.img 4
	shift_image 1.img 2.img 100
	cp 2.img 3.img
	blocks 3.img 30 5
	snap vm1 1.img
	# A shared image: the pool has its segments, so nothing is looked up, and nothing recorded.
	snap twin 1.img
	[[ $output != *lookups* ]]
	snap vm2 2.img
	snap vm2 3.img
	[ "$(field 0 '["lookups"]["same_offset"]')" = 507 ]
	agrees
	[ "$(field 1 '["snapshots"]')" = 2 ]
	agrees vm2
	must stats --lookups twin
	[ "$output" = "no lookups are recorded of 'twin': inline snapshots record them" ]
	ctl stats --lookups vm3
	[ "$status" = 1 ]
	[ "${lines[0]}" = "revdedupctl: there is no volume 'vm3' in the pool" ]
	ctl stats --lookups vm2@1
	[ "$status" = 2 ]
	ctl stats vm2
	expect 2 <<<"revdedupctl: 'stats' takes a volume only with --lookups (try 'revdedupctl help stats')"
	# Snapshots that look nothing up record nothing; a failed one neither.
	blocks 3.img 600 5
	must snapshot vm2 --from 3.img --dedup reverse
	ctl snapshot vm2 --from none.img
	[ "$status" = 1 ]
	agrees
	# What was recorded stays when versions go, and the volume with them.
	must delete vm2@{1,2,3}
	agrees
	agrees vm2
	# It goes with the index.
	must check
	rm -r pool/index
	nothing
	rm snapshots.json
	shift_image 2.img 4.img 3
	snap vm4 4.img
	agrees
}

@test "lookups: a file that is damaged, absent, or cannot be written" {
	make_inline
	image 1.img 2
	snap vm1 1.img
	shift_image 1.img 2.img 50
	cp pool/index/lookups kept
	# Half a line, zeros, and noise: what is whole counts.
	truncate -s -3 pool/index/lookups
	nothing
	truncate -s 5000 pool/index/lookups
	head -c 10000 /dev/urandom >>pool/index/lookups
	nothing
	cat kept >>pool/index/lookups
	rm snapshots.json
	snap vm2 2.img
	must stats --lookups --json vm2
	[ "$(field 0 '["snapshots"]')" = 1 ]
	agrees vm2
	rm pool/index/lookups
	nothing
	# A file that cannot be written fails no snapshot, and the version is whole.
	ln -s /dev/full pool/index/lookups
	shift_image 2.img 3.img 9
	must snapshot vm3 --from 3.img
	[[ $output == *"warning: cannot write '"*"pool/index/lookups': Operation not permitted; what this snapshot looked up is not recorded"* ]]
	must restore vm3@1 --to back
	cmp back 3.img
	must check
	rm pool/index/lookups
	mkdir pool/index/lookups
	ctl stats --lookups
	[ "$status" = 1 ]
	[[ ${lines[0]} == "revdedupctl: '"*"pool/index/lookups' is a directory, and not a file" ]]
	[[ $output == *"revdedupctl: cannot read what was looked up, in the index of '"*"pool': Operation not permitted" ]]
	rmdir pool/index/lookups
	# An index that is damaged is made anew, and the file stays.
	cp kept pool/index/lookups
	: >pool/index/1
	shift_image 3.img 4.img 11
	must snapshot vm4 --from 4.img
	[[ $output == *"part 1 of the index"*"is dropped"* ]]
	must stats --lookups --json
	[ "$(field 0 '["volume"]')" = vm1 ]
	[ "$(field 1 '["volume"]')" = vm4 ]
}

@test "lookups: several snapshots at once" {
	local nr pids=() pid
	make_inline
	image 1.img 4
	must snapshot base --from 1.img
	rm pool/index/lookups
	for nr in {1..10}; do
		shift_image 1.img "$nr.raw" $((nr * 10))
	done
	for nr in {1..5}; do
		{
			for image in "$nr" $((nr + 5)); do
				"$build/bin/revdedupctl" snapshot "vm$nr" --from "$image.raw" \
					--json --progress=never || exit
			done
		} >"$nr.json" 3>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	cat ./*.json >snapshots.json
	agrees
	[ "$(field -1 '["snapshots"]')" = 10 ]
	must check
}
