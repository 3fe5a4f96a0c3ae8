#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl on pools with packs: --compression, older programs, the format as pool.rst says.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

doc=$BATS_TEST_DIRNAME/../../Documentation/pool.rst

# text FILE FIRST NR: fill these blocks of 4 KiB with different text.
text() {
	python3 -c 'import random, sys
path, first, nr = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
words = [b"alpha ", b"beta ", b"gamma\n", b"delta=", b"0x12 "]
with open(path, "r+b") as image:
    image.seek(first * 4096)
    for _ in range(nr):
        block = random.randbytes(16) + b"".join(random.choices(words, k=816))
        image.write(block[:4096])' "$@"
}

# 1.img and 2.img of 24 MiB and a bit: segments of text, one of noise, one of both, holes.
make_images() {
	truncate -s $(((24 << 20) + 4608)) 1.img
	text 1.img 0 1500
	blocks 1.img 2048 512
	text 1.img 2600 300
	blocks 1.img 2900 100
	text 1.img 4000 700
	text 1.img 6144 1
	cp --sparse=always 1.img 2.img
	text 2.img 20 400
	blocks 2.img 1000 40
	text 2.img 4700 300
}

make_packs() {
	must init pool --size 128M --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	make_images
	must snapshot vm1 --from 1.img
	must snapshot vm1 --from 2.img
}

# super: features and compression, of both superblocks.
super() {
	python3 -c 'import struct
with open("pool/data", "rb") as data:
    for at in 0, 1 << 20:
        data.seek(at)
        print(*struct.unpack_from("<3QBb", data.read(4096), 64), end=";")'
}

# on_disk: what the pool takes, without the reserve and what says how commands ended.
on_disk() {
	local kib
	sync pool/data
	kib=$(du -kc pool/data pool/catalog.db pool/catalog.db-[pw]* | tail -n 1 | cut -f 1)
	echo $((kib * 1024))
}

# restores NR...: these versions of vm1 are these images.
restores() {
	local nr
	for nr in "$@"; do
		rm -f back
		must restore "vm1@$nr" --to back
		cmp "$nr.img" back
	done
}

@test "packs: what --compression takes" {
	local value
	for value in zstd:0 zstd:10 zstd:-6 zstd: zstd:1x zstd:+1 "zstd: 1" zstd:4294967297 lz4 ZSTD ""; do
		ctl init pool --size 64M --compression "$value"
		expect 2 <<<"revdedupctl: a compression is none, zstd, or zstd:LEVEL with a level from -5 to 9, not '$value' (try 'revdedupctl help init')"
		[ ! -e pool ]
	done
	while read -r value wanted; do
		must init pool --size 64M --compression "$value"
		[ "$(super)" = "0 0 $wanted;0 0 $wanted;" ]
		must -p pool stats --json
		[ "$(field 0 '["compression"]')" = "${value/%zstd/zstd:1}" ]
		rm -r pool
	done <<-'END'
		none 0 0 0
		zstd 1 1 1
		zstd:3 1 1 3
		zstd:-5 1 1 -5
		zstd:9 1 1 9
	END
	make_pool 64M
	[ "$(super)" = "0 0 0 0 0;0 0 0 0 0;" ]
	truncate -s 6M 1.img
	text 1.img 0 10
	cp pool/data data
	ctl snapshot vm1 --from 1.img --compression zstd:77
	[ "$status" -eq 2 ]
	[[ $output == *"a level from -5 to 9, not 'zstd:77' (try 'revdedupctl help snapshot')" ]]
	cmp pool/data data
	must list
	[ -z "$output" ]
	for value in "list" "restore vm1@1 --to x"; do
		# shellcheck disable=SC2086 # words
		ctl $value --compression zstd
		[ "$status" -eq 2 ]
	done
}

# bats test_tags=slow
@test "packs: a snapshot can have another compression than the pool" {
	make_pool 128M
	make_images
	must snapshot vm1 --from 1.img --compression none
	[ "$(super)" = "0 0 0 0 0;0 0 0 0 0;" ]
	must stats --json
	[ "$(field -1 '["bytes_packed"]')" = 0 ]
	[ "$(field -1 '["bytes_unique"]')" = "$(field -1 '["bytes_data"]')" ]
	must stats
	[[ $output != *"packed:"* ]]
	must snapshot vm1 --from 2.img --compression zstd:3
	# Only the feature.
	[ "$(super)" = "0 0 1 0 0;0 0 1 0 0;" ]
	must stats --json
	[ "$(field -1 '["bytes_packed"]')" -gt 0 ]
	[ "$(field -1 '["bytes_unique"]')" -gt "$(field -1 '["bytes_data"]')" ]
	[ "$(field -1 '["compression"]')" = none ]
	must stats
	[[ $output == *$'\npacked:   '*" of it dead; new content: none"$'\n'* ]]
	must check
	restores 1 2
	# And the other way.
	must init other --size 128M --compression zstd:-1
	REVDEDUP_POOL=$PWD/other
	must snapshot vm1 --from 1.img --compression none
	must stats --json
	[ "$(field -1 '["bytes_packed"]')" = 0 ]
	[ "$(field -1 '["compression"]')" = zstd:-1 ]
	must snapshot vm1 --from 2.img
	must stats --json
	[ "$(field -1 '["bytes_packed"]')" -gt 0 ]
	must check
	restores 1 2
}

# bats test_tags=slow
@test "packs: stats say what du says" {
	make_packs
	must stats --json
	data=$(field -1 '["bytes_data"]')
	packed=$(field -1 '["bytes_packed"]')
	unique=$(field -1 '["bytes_unique"]')
	dead=$(field -1 '["bytes_dead"]')
	sum=$(field -1 '["bytes_catalog"]')
	for name in data queued fingerprints journal; do
		sum=$((sum + $(field -1 "[\"bytes_$name\"]")))
	done
	disk=$(on_disk)
	echo "unique $unique, data $data, packed $packed, dead $dead, sum $sum, on disk $disk"
	[ $((sum * 100)) -ge $((disk * 99)) ]
	[ $((sum * 100)) -le $((disk * 101)) ]
	[ "$packed" -gt 0 ] && [ "$packed" -lt "$data" ]
	# Noise is not packed, and text takes a third at most.
	[ "$data" -lt "$unique" ]
	# The first version gave up what the second one has.
	[ "$dead" -lt "$packed" ]
	must check --json
	[ "$(field -1 '["bytes_packed"]')" = "$packed" ]
	[ "$(field -1 '["bytes_live"]')" = "$unique" ]
	must metrics
	for name in unique data packed dead fingerprints journal; do
		grep -q "^revdedup_pool_${name}_bytes{" <<<"$output"
	done
	grep -q "^revdedup_pool_packed_bytes{.*} $packed\$" <<<"$output"
}

# bats test_tags=slow
@test "packs: the estimate of a deletion, and an empty pool" {
	local version said before after
	make_pool 128M
	empty=$(on_disk)
	rm -r pool
	make_packs
	text 2.img 3000 800
	cp 2.img 3.img
	must snapshot vm1 --from 3.img
	text 3.img 0 1500
	cp 3.img 4.img
	must snapshot vm1 --from 4.img
	for version in vm1@{1..4}; do
		must delete -n "$version" --json
		said=$(field 1 '["bytes"]')
		must show "$version" --json
		[ "$(field 0 '["bytes_unique"]')" = "$said" ]
		must list --json
		[ "$(grep "\"$version\"" <<<"$output" | sed 's/.*"bytes_unique": \([0-9]*\),.*/\1/')" = "$said" ]
		rm -rf was && cp -r --sparse=always pool was
		must stats --json
		before=$(field -1 '["bytes_data"]')
		must delete "$version"
		must check
		must stats --json
		after=$(field -1 '["bytes_data"]')
		echo "$version: said $said, freed $((before - after))"
		[ $((before - after)) -ge $((said * 3 / 4)) ]
		# Where the newest goes, older ones may give up more.
		[ $((before - after)) -le $((said * 5 / 4)) ] || [ "$version" = vm1@4 ]
		rm -rf pool && mv was pool
	done
	must delete -n vm1@{1..4} --json
	said=$(field -1 '["bytes"]')
	must stats --json
	[ "$(field -1 '["bytes_data"]')" = "$said" ]
	must delete vm1@{1..4}
	must check
	must stats --json
	for name in data packed dead queued unique fingerprints; do
		[ "$(field -1 "[\"bytes_$name\"]")" = 0 ]
	done
	after=$(on_disk)
	echo "empty: $empty bytes, after deletion of everything $after"
	# The journal may be longer than that of a new pool.
	[ $((after - empty)) -lt 300000 ]
}

@test "packs: a copy of a pool has holes where a pack has zeros" {
	must init pool --size 128M --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	# Two groups: the second half of the fingerprints is zeros. And zeros within noise.
	truncate -s 2M 1.img
	text 1.img 0 16
	blocks 1.img 16 16
	dd if=/dev/zero of=1.img bs=512 seek=$((20 * 8 + 7)) count=8 conv=notrunc status=none
	must snapshot vm1 --from 1.img
	must stats --json
	[ "$(field -1 '["bytes_packed"]')" -gt 0 ]
	cp -r --sparse=always pool copy
	[ "$(du -k copy/data | cut -f 1)" -lt "$(du -k pool/data | cut -f 1)" ]
	rm -r pool && mv copy pool
	must check
	must scrub
	restores 1
	# A pack that is not there at all is found.
	place=$(ask "SELECT place FROM pack")
	offset=$(((2 << 20) * (2 + place / 512) + place % 512 * 4096))
	fallocate --punch-hole --offset "$offset" --length 4096 pool/data
	ctl check
	[ "$status" -eq 4 ]
	[[ $output == *": 1 blocks that are in use are holes of the data area"* ]]
}

# bats test_tags=slow
@test "packs: what a pack frees that loses some of its blocks" {
	local said before after lost
	must init pool --size 128M --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	# vm1@1 gives up to vm1@2 all but what that replaces, and vm1@3 has nothing of them.
	for lost in 100 128 200; do
		truncate -s 2M 1.img
		text 1.img 0 512
		must snapshot "v$lost" --from 1.img
		text 1.img 0 "$lost"
		must snapshot "v$lost" --from 1.img
		text 1.img 0 512
		must snapshot "v$lost" --from 1.img
		recipe=$(ask "SELECT recipe FROM segment, volume WHERE volume = volume.id AND name = 'v$lost' AND born = 2")
		blocks=$(ask "SELECT blocks FROM pack, recipe USING (frame) WHERE recipe.id = $recipe")
		must delete -n "v$lost@2" --json
		said=$(field 1 '["bytes"]')
		must stats --json
		before=$(field -1 '["bytes_data"]')
		must delete "v$lost@2"
		must check
		must stats --json
		after=$(field -1 '["bytes_data"]')
		echo "$blocks blocks, lost $lost of 512: said $said, freed $((before - after))"
		if [ "$lost" = 100 ]; then
			# Less than a quarter: it stays.
			[ "$said" = 0 ] && [ "$before" = "$after" ]
		else
			blocks=$((blocks * lost / 512))
			[ "$said" = $((blocks * 4096)) ]
			[ $((before - after)) -le $((said * 5 / 4)) ]
			[ "$before" -gt "$after" ]
		fi
	done
}

# make_holes: of 20 packs of vm1@1, which lie in one frame of a device, vm1@2 has each second one,
# and 10 others.
make_holes() {
	[ "$(id -u)" -eq 0 ] || skip "needs root, for loop devices"
	truncate -s 512M disk.bin
	loop=$(losetup --find --show disk.bin) || skip "no loop devices"
	must init pool --data "$loop" --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	python3 -c 'import random
rnd = random.Random(1)
for name, step in ("1.img", 1), ("2.img", 2):
    with open(name, "wb") as image:
        if step == 2:
            image.write(open("1.img", "rb").read())
        for segment in range(0, 20, step):
            # The last blocks of each segment: a pack of one block.
            image.seek((segment * 512 + 504) * 4096)
            for _ in range(8):
                image.write(rnd.randbytes(16).hex().encode() * 128)'
	must snapshot vm1 --from 1.img
	must snapshot vm1 --from 2.img
	holes=$(ask "SELECT max(place) / 512 FROM pack")
	[ "$(ask "SELECT count(*) FROM pack WHERE place / 512 = $holes AND blocks = 1")" = 30 ]
}

@test "packs: what lives leaves a frame with many holes" {
	make_holes
	must delete vm1@1
	[ "$(ask "SELECT count(*) FROM pack")" = 20 ]
	[ "$(ask "SELECT count(*) FROM pack WHERE place / 512 = $holes")" = 0 ]
	[ "$(ask "SELECT count(*) FROM slot_owner WHERE frame = $holes")" = 0 ]
	must check
	restores 2
	must scrub
}

@test "packs: one that is damaged does not move" {
	local place
	make_holes
	place=$(ask "SELECT place FROM pack JOIN slot_owner USING(frame) JOIN segment USING(recipe)
		WHERE segment = 7")
	printf damaged | dd of="$loop" bs=1 seek=$(((2 << 21) + place * 4096 + 600)) \
		conv=notrunc,fsync status=none
	must delete vm1@1
	[[ $output == *"the pack of frame "*" is damaged and stays where it is"* ]]
	[ "$(ask "SELECT count(*) FROM pack WHERE place = $place")" = 1 ]
	[ "$(ask "SELECT count(*) FROM pack WHERE place / 512 = $holes")" = 1 ]
	must repair --from 2.img
	must check
	restores 2
}

# bats test_tags=slow
@test "packs: none lies over the end of a group of frames" {
	must init pool --size 2G
	export REVDEDUP_POOL=$PWD/pool
	block_in_each filler.img 250
	must snapshot filler --from filler.img
	python3 -c 'import random
rnd = random.Random(1)
with open("1.img", "wb") as image:
    for _ in range(6144):
        image.write(rnd.randbytes(2048).hex().encode())'
	must snapshot vm1 --from 1.img --compression zstd
	[ "$(ask "SELECT min(place) < 256 * 512 AND max(place) >= 256 * 512 FROM pack")" = 1 ]
	must check
	# The fingerprints of the next group come to where such a pack would have its end.
	blocks filler.img 0 $((8 * 512))
	must snapshot filler --from filler.img
	must check
	must scrub
	restores 1
}

@test "packs: one that lies in two frames gives both back" {
	must init pool --size 128M --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	python3 -c 'import random
rnd = random.Random(1)
with open("1.img", "wb") as image:
    for _ in range(1024):
        image.write(rnd.randbytes(2048).hex().encode())'
	must snapshot vm1 --from 1.img
	[ "$(ask "SELECT max((place + blocks - 1) / 512 - place / 512) FROM pack")" = 1 ]
	must delete vm1@1
	must check
	[ "$(ask "SELECT count(*) FROM slot_owner")" = 0 ]
}

# bats test_tags=slow
@test "packs: pool.rst says how to read them" {
	local nr
	make_packs
	# The page: what is indented behind the last heading of the section.
	sed -n '/^How to read a version without revdedup$/,/^Crashes$/s/^\t//p' "$doc" >page.py
	[ "$(wc -l <page.py)" -gt 50 ]
	for nr in 1 2; do
		python3 page.py pool vm1 "$nr" >out
		cmp "$nr.img" out
	done
	must stats --json
	[ "$(field -1 '["bytes_packed"]')" -gt 0 ]
	# It looks at what it reads.
	"$BATS_TEST_DIRNAME/edit-catalog.py" pool/catalog.db "UPDATE pack SET place = place + 1"
	run python3 page.py pool vm1 2
	[ "$status" -ne 0 ]
}

# bats test_tags=slow
@test "packs: a pool of a program that does not know them" {
	make_pool 128M
	make_images
	must snapshot vm1 --from 1.img
	edit "DROP TABLE pack"
	edit "DROP TABLE tail"
	tables="SELECT count(*) FROM sqlite_master WHERE name IN ('pack', 'tail')"
	for verb in list "show vm1@1" "stats --json" check scrub; do
		# shellcheck disable=SC2086 # words
		must $verb
	done
	restores 1
	must metrics
	grep -q '^revdedup_pool_packed_bytes{.*} 0$' <<<"$output"
	[ "$(ask "$tables")" = 0 ]
	must tag vm1@1 +a
	[ "$(ask "$tables")" = 2 ]
	[ "$(super)" = "0 0 0 0 0;0 0 0 0 0;" ]
	must snapshot vm1 --from 2.img --compression zstd
	must check
	restores 1 2
	must repair --rebuild-catalog
	must check
	restores 1 2
	must scrub
}

# bats test_tags=slow
@test "packs: a feature that other programs refuse" {
	make_pool 128M
	make_images
	must snapshot vm1 --from 1.img
	must delete vm1@1
	[ "$(super)" = "0 0 0 0 0;0 0 0 0 0;" ]
	must snapshot vm1 --from 1.img --compression zstd
	[ "$(super)" = "0 0 1 0 0;0 0 1 0 0;" ]
	# It stays, whatever is written to the superblock, and when nothing is packed any more.
	must grow --size 2G
	must delete vm1@2
	must repair --rebuild-catalog
	[ "$(super)" = "0 0 1 0 0;0 0 1 0 0;" ]
	must init other --size 64M --compression zstd:-2
	must -p other grow --size 128M
	rm -r pool && mv other pool
	[ "$(super)" = "0 0 1 1 -2;0 0 1 1 -2;" ]
}

@test "packs: a new pool compresses unless it is told not to" {
	make_images
	must init pool --size 128M
	must -p pool snapshot vm1 --from 1.img
	must -p pool stats --json
	[ "$(field -1 '["compression"]')" = zstd:1 ]
	[ "$(field -1 '["bytes_packed"]')" -gt 0 ]
	must init raw --size 128M --compression none
	must -p raw snapshot vm1 --from 1.img
	must -p raw stats --json
	[ "$(field -1 '["compression"]')" = none ]
	[ "$(field -1 '["bytes_packed"]')" = 0 ]
}

@test "packs: a small pool has room for packs beside what does not compress" {
	local size
	truncate -s 6M 1.img
	blocks 1.img 0 600
	text 1.img 1100 400
	for size in 64M 100M 128M 150M 200M; do
		rm -rf pool
		must init pool --size $size
		must -p pool snapshot vm1 --from 1.img
		must -p pool restore vm1@1 --to back --yes
		cmp 1.img back
	done
}
