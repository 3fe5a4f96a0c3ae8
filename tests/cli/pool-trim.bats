#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl dedup --dry-run: what fstrim in the guests would save. Images are full of noise
# before they get their file systems, so that all that is free is stored.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# Where mke2fs and the like are, which a user may not have.
PATH=$PATH:/usr/sbin:/sbin

# noise NAME MIB: NAME.img, of noise; of what is larger than 64 MiB, 9 in 60.
noise() {
	local at
	truncate -s "$2M" "$1.img"
	for ((at = 0; at < $2; at += $2 > 64 ? 60 : 9)); do
		head -c 9M /dev/urandom | dd of="$1.img" bs=1M seek="$at" iflag=fullblock \
			conv=notrunc status=none
	done
	truncate -s "$2M" "$1.img"
}

# ext4 NAME MIB OPTION...: noise with a file system.
ext4() {
	noise "$1" "$2"
	mke2fs -q -F -t ext4 -E nodiscard "${@:3}" "$1.img"
}

# xfs NAME SIZE OPTION...: the same.
xfs() {
	noise "$1" "$2"
	mkfs.xfs -q -f -K "${@:3}" "$1.img" 2>xfs.err || {
		cat xfs.err
		return 1
	}
}

snap() { must snapshot "$1" --from "$1.img"; }

# space VOLUME: what the dry run says of its partitions, a line for each: number, kind, state,
# free, leftover, alone; or "unreadable" or "damaged".
space() {
	ctl dedup -n --json
	python3 -c 'import json, sys
for line in (json.loads(line) for line in sys.stdin if line.startswith("{")):
    if line["type"] == "free_space" and line["volume"] == sys.argv[1]:
        for part in line["partitions"]:
            print(*(part[name] for name in ("partition", "kind", "state", "bytes_free",
                                            "bytes_leftover", "bytes_alone")))
        if not line["readable"] or line["table_damaged"]:
            print("damaged" if line["readable"] else "unreadable")' "$1" <<<"$output"
}

# says VOLUME LINE...: they are what space prints.
says() {
	local found wanted
	found=$(space "$1")
	wanted=$(printf '%s\n' "${@:2}")
	[ "$found" = "$wanted" ] || {
		echo "$1: < is wanted, > is what came"
		diff <(echo "$wanted") <(echo "$found")
		return 1
	}
}

# real ext4|xfs FILE [IMAGE OFFSET]: what other programs say is free in the file, and what of it
# is not zeros: "FREE LEFTOVER LEFTOVER".
real() {
	local found
	found=$("$BATS_TEST_DIRNAME/free-space.py" "$1" "$2" "${3:-$2}" "${4:-0}")
	echo "$found ${found#* }"
}

# alike NAME: the volume and its image, which is one file system of ext4, agree.
alike() { says "$1" "0 ext4 read $(real ext4 "$1.img")"; }

# bats test_tags=slow
@test "free space: ext4, as mke2fs makes it" {
	local name number=0 options
	make_pool 4G
	while read -r options; do
		number=$((number + 1))
		name=e$number
		# shellcheck disable=SC2086 # options
		ext4 "$name" 30 $options
		snap "$name"
		alike "$name" || {
			echo "mke2fs $options"
			return 1
		}
	done <<-END
		-b 4096
		-b 2048
		-b 1024
		-b 1024 -O ^flex_bg
		-b 1024 -O ^64bit,^metadata_csum
		-b 1024 -O meta_bg,^resize_inode
		-b 1024 -O meta_bg,^resize_inode,^flex_bg,^64bit
		-b 1024 -O uninit_bg,^metadata_csum
		-b 1024 -O sparse_super2
		-b 1024 -O ^sparse_super,^resize_inode
		-b 1024 -g 256 -O ^resize_inode
		-b 1024 -O none
		-b 1024 -O none,has_journal
		-b 1024 -G 4 -N 9000
	END
}

@test "free space: ext4 with clusters" {
	local blocks
	make_pool 1G
	for blocks in 4096 1024; do
		ext4 "c$blocks" 64 -b "$blocks" -O bigalloc -C $((16 * blocks))
		snap "c$blocks"
		# dumpe2fs lists the first blocks of clusters, and counts all of them.
		run dumpe2fs -h "c$blocks.img"
		[[ $output =~ "Free blocks:"\ *([0-9]+) ]]
		[[ $(space "c$blocks") == "0 ext4 read $((BASH_REMATCH[1] * blocks)) "* ]]
	done
}

# bats test_tags=slow
@test "free space: XFS" {
	make_pool 4G
	xfs x4 320
	xfs x1 310 -b size=1024 -d agcount=3
	xfs old 300 -m crc=0
	for name in x4 x1 old; do
		snap "$name"
		says "$name" "0 XFS read $(real xfs "$name.img")"
	done
}

# place FROM TO SECTOR: copy a file into another one.
place() { dd if="$1" of="$2" bs=512 seek="$3" conv=notrunc status=none; }

# bats test_tags=slow
@test "free space: partitions" {
	make_pool 4G
	ext4 small 10 -b 1024
	xfs large 300
	noise logical 700
	sfdisk -q --no-reread --no-tell-kernel logical.img <<-END
		label: dos
		63 20480 83
		21000 900000 5
		21063 614400 83
		700063 2048 83
		950000 2048 82
	END
	place small.img logical.img 63
	place large.img logical.img 21063
	printf SWAPSPACE2 | dd of=logical.img bs=1 seek=$((950000 * 512 + 4086)) \
		conv=notrunc status=none
	snap logical
	says logical "1 ext4 read $(real ext4 small.img logical.img $((63 * 512)))" \
		"3 swap other 0 0 0" \
		"5 XFS read $(real xfs large.img logical.img $((21063 * 512)))" \
		"6 None unknown 0 0 0"
	noise gpt 320
	sfdisk -q --no-reread --no-tell-kernel gpt.img <<-END
		label: gpt
		7: start=2048 size=20480
		2: start=30000 size=614400
	END
	place small.img gpt.img 2048
	place large.img gpt.img 30000
	snap gpt
	says gpt "2 XFS read $(real xfs large.img gpt.img $((30000 * 512)))" \
		"7 ext4 read $(real ext4 small.img gpt.img $((2048 * 512)))"
}

@test "free space: what is trimmed, and in a new version, is not stored" {
	local before
	make_pool 128M
	mkdir files
	head -c 8M /dev/urandom >files/gone
	head -c 3M /dev/urandom >files/kept
	truncate -s 64M vm.img
	mke2fs -q -F -t ext4 -b 4096 -d files vm.img
	snap vm
	[[ $(space vm) == "0 ext4 read "*" 0 0" ]]
	debugfs -w -R "rm gone" vm.img 2>/dev/null
	snap vm
	alike vm
	[[ $(space vm) == *" $((8 << 20)) $((8 << 20))" ]]
	must dedup -n
	[[ $output == *"vm@2, ext4: "*" 8.0 MiB"* ]]
	[[ $output == *"fstrim in the guests would free, at least: "*" 8.0 MiB"* ]]
	# As a guest does with a disk that passes discards on to the image.
	e2fsck -fy -E discard vm.img >fsck.log || [ $? -eq 1 ]
	snap vm
	[[ $(space vm) == "0 ext4 read "*" 0 0" ]]
	must dedup -n
	[[ $output == *"fstrim in the guests would free, at least: "*" 0 B"* ]]
	# It is given back with the old versions.
	must stats --json
	before=$(field -1 '["bytes_unique"]')
	must delete vm@1 vm@2
	must stats --json
	[ $((before - $(field -1 '["bytes_unique"]'))) -ge $((8 << 20)) ]
}

@test "free space: fstrim itself" {
	[ "$(id -u)" -eq 0 ] || skip "needs root to mount"
	make_pool 128M
	truncate -s 64M vm.img
	mke2fs -q -F -t ext4 -b 4096 vm.img
	mkdir mnt
	mount -o loop vm.img mnt || skip "cannot mount"
	head -c 8M /dev/urandom >mnt/gone
	sync mnt/gone
	rm mnt/gone
	umount mnt
	snap vm
	alike vm
	[[ $(space vm) == *" $((8 << 20)) $((8 << 20))" ]]
	mount -o loop vm.img mnt
	fstrim mnt || skip "no discards"
	umount mnt
	snap vm
	[[ $(space vm) == "0 ext4 read "*" 0 0" ]]
}

@test "free space: what clones share is not alone" {
	local before after
	make_pool 128M
	ext4 a 30
	cp a.img b.img
	snap a
	snap b
	before=$(real ext4 a.img)
	says a "0 ext4 read ${before% *} 0"
	says b "0 ext4 read ${before% *} 0"
	must dedup -n --json
	[ "$(field -1 '["bytes_leftover_alone"]')" = 0 ]
	[ "$(field -1 '["bytes_leftover"]')" = $((2 * ${before##* })) ]
	[ "$(field -1 '["bytes_leftover_share"]')" = "${before##* }" ]
	# One of them is trimmed: all is the other one's now.
	e2fsck -fy -E discard a.img >fsck.log || [ $? -eq 1 ]
	snap a
	after=$(space a)
	[[ $after == "0 ext4 read "*" 0 0" ]]
	alike b
	# An old version that has it does not count as one that needs it.
	must dedup -n --json
	[ "$(field -1 '["bytes_leftover_alone"]')" = "${before##* }" ]
	[ "$(field -1 '["bytes_leftover_share"]')" = "${before##* }" ]
}

@test "free space: what other newest versions refer to is not alone" {
	local alone
	make_pool 128M
	# At another offset in each segment, so b has the blocks of a, and not its recipes.
	ext4 a 30 -b 4096
	truncate -s 32M b.img
	sfdisk -q --no-reread --no-tell-kernel b.img <<<"2048,,83"
	place a.img b.img 2048
	snap a
	alike a
	must snapshot b --from b.img --pieces 64 --dedup inline
	alone=$(space b)
	[[ $alone == "1 ext4 read $(real ext4 a.img b.img $((2048 * 512)) | cut -d' ' -f1,2) "* ]]
	[ "${alone##* }" -lt 1000000 ]
	alone=$(space a)
	[ "${alone##* }" -lt 1000000 ]
	# The last one that needs it.
	must delete b@1
	alike a
}

@test "free space: in packs, in pieces, and in a pool that one cannot write to" {
	make_pool 128M
	ext4 vm 30 -b 1024
	must snapshot vm --from vm.img --compression zstd
	alike vm
	# In pieces: the newest version has taken over what it refers to.
	blocks vm.img 7000 3
	must snapshot vm --from vm.img --pieces 8
	alike vm
	chmod -R a-w pool
	if [ -w pool/catalog.db ]; then
		run setpriv "--bounding-set=-dac_override,-dac_read_search" -- \
			"$build/bin/revdedupctl" dedup -n --temp .
	else
		ctl dedup -n --temp .
	fi
	chmod -R u+w pool
	[ "$status" -eq 0 ]
	[[ $output == *"vm@2, ext4: "* ]]
}

@test "free space: a journal that was not replayed" {
	make_pool 128M
	ext4 vm 30
	debugfs -w -R "feature needs_recovery" vm.img 2>/dev/null >/dev/null
	snap vm
	alike vm
	must dedup -n
	[[ $output == *"vm@1, ext4, in use, about: "* ]]
	must dedup -n --json
	[[ $output == *'"journal": true'* ]]
}

@test "free space: what is damaged, cut off, or not known" {
	local name
	make_pool 2G
	ext4 cut 30
	truncate -s 29M cut.img
	xfs xcut 320
	truncate -s 310M xcut.img
	ext4 descs 30 -b 4096
	printf '\377\377\377\177' | dd of=descs.img bs=4096 seek=1 conv=notrunc status=none
	xfs agf 310
	dd if=/dev/urandom of=agf.img bs=512 seek=1 count=1 conv=notrunc status=none
	for name in cut xcut descs agf; do
		snap "$name"
		[[ $(space "$name") == "0 "*" damaged 0 0 0" ]] || {
			space "$name"
			return 1
		}
	done
	must dedup -n
	[[ $output == *"cut@1, ext4: damaged, or cut off"* ]]
	truncate -s 10M table.img
	sfdisk -q --no-reread --no-tell-kernel table.img <<-END
		label: dos
		100 5000 5
		200 1000 83
	END
	# The logical partition is followed by itself.
	printf '\x05' | dd of=table.img bs=1 seek=$((100 * 512 + 466)) conv=notrunc status=none
	printf '\1' | dd of=table.img bs=1 seek=$((100 * 512 + 474)) conv=notrunc status=none
	snap table
	says table damaged
	must dedup -n
	[[ $output == *"table@1: its partition table is damaged"* ]]
	truncate -s 0 empty.img
	snap empty
	says empty "0 None unknown 0 0 0"
	must dedup -n
	[[ $output == *"empty@1: no file system that is known"* ]]
	truncate -s 64M lvm.img
	printf 'LVM2 001' | dd of=lvm.img bs=1 seek=536 conv=notrunc status=none
	snap lvm
	must dedup -n
	[[ $output == *"lvm@1, LVM: not looked into"* ]]
}

@test "free space: bitmaps that the pool cannot read" {
	make_pool 128M
	ext4 vm 30
	ext4 other 30
	snap vm
	snap other
	# The superblock.
	damage vm.img 0
	ctl dedup -n
	[ "$status" -eq 3 ]
	[[ $output == *"vm@1: cannot be read"* ]]
	says vm unreadable
	alike other
}

@test "free space: noise in all that describes it" {
	local seed image
	make_pool 128M
	ext4 e 10 -b 1024
	xfs x 300
	fallocate -d x.img
	for image in e x; do
		for seed in {1..6}; do
			cp --sparse=always "$image.img" "n$image.img"
			# Some bytes of the first blocks, which have all but magic numbers.
			python3 -c 'import random, sys
random.seed(int(sys.argv[2]))
with open(sys.argv[1], "r+b") as disk:
    for _ in range(60):
        disk.seek(random.randrange(4, 16384))
        disk.write(bytes([random.randrange(256)]))' "n$image.img" "$seed"
			must snapshot n --from "n$image.img"
			must dedup -n --json
		done
	done
}
