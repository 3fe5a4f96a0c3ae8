# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the tests of the remap table share.
#
# Each sector of base and pool holds its own address, so a read from the volume shows where
# its data comes from: "p800,8" is block 100 of the pool.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # by volume.bash, without blanks
load ../lib/guest
load ../lib/volume

pool=/dev/mapper/rdt-p
pool_sectors=16384	# 0x800 blocks
filled=16384		# sectors of the base that say where they are

setup_file() { need_targets delay flakey zero snapshot-origin; }

setup() {
	volume_setup
	dm fill $base 0 $filled b
	dm fill /dev/ram2 0 $pool_sectors p
	make rdt-p "0 $pool_sectors linear /dev/ram2 0"
}

teardown() {
	volume_teardown
	! compgen -G '/sys/block/loop*/loop' >/dev/null || losetup -D
}

# As in volume.bash, and with a pool.
table() {
	local sectors=${1:-$vol_sectors}
	[ $# -eq 0 ] || shift
	table="0 $sectors revdedup $base $meta $pool${1:+ $# $*}"
}

# batch RANGES...: set these.
batch() {
	local ranges
	dm suspend rdt-v && msg begin || return
	for ranges; do
		msg set "$ranges" || return
	done
	msg end && dm resume rdt-v
}

# places FIRST COUNT: of these blocks, in $reply.
places() {
	local first=$1 end=$(($1 + $2)) all=''
	while [ "$first" -lt "$end" ]; do
		msg table "$first" $((end - first)) || return
		[[ $reply == -* ]] || all+=${all:+;}${reply% *}
		first=${reply##* }
	done
	reply=${all:--}
}

places_are() { places $1 $2 && is "places of blocks $1 to $(($1 + $2))" "$reply" "$3"; }

# reads FIRST SECTORS WHAT: from the volume.
reads() { dm read $vol $1 $2 && is "sectors $1 to $(($1 + $2))" "$reply" "$3"; }

# writes FIRST SECTORS [LETTER]: to the volume.
writes() { dm fill $vol $1 $2 ${3:-w}; }

# counts BASE ZERO POOL, of the status line.
counts() { status && is "base zero pool" "${field[*]:6:3}" "$*"; }

# Words of the status line.
mode_is() { status && is "mode" "${field[11]}" "$1"; }

hydrate_is() { status && is "hydrate" "${field[12]}" "$1"; }

left_is() { status && is "hydration left" "${field[9]}" "$1"; }

# disk_places FIRST COUNT: what a crash now would leave: a copy of the metadata
# makes a version.
disk_places() {
	local copy=$BATS_TEST_TMPDIR/copy loop
	dd if=$meta of="$copy" iflag=direct bs=256K status=none
	loop=$(loopdev "$copy")
	make rdt-w "0 $vol_sectors revdedup - $loop $pool" ro || return
	dm message rdt-w "table $1 $2" || return
	copy=${reply% *}
	dm remove rdt-w
	losetup -d "$loop"
	reply=$copy
}

disk_places_are() { disk_places $1 $2 && is "on disk" "$reply" "$3"; }

# Sectors of the metadata device: the block of words, the page of a segment.
words_at=24
page_at() { page_at=$(((66 + $1) * 8)); }

# many_segs COUNT: a base of zeros with room for them, and metadata.
many_segs() {
	make rdt-base "0 $(($1 * seg_sectors)) zero"
	base=/dev/mapper/rdt-base
	meta_resize $(((66 + $1 + 1) * 8))
	dm zero $meta 0 $((meta_sectors * 512))
}

# on_loop_pool: the pool is in a file.
on_loop_pool() {
	pool_ground=$(loop_of $pool_sectors pool)
	dm fill $pool_ground 0 $pool_sectors p
	reload rdt-p "0 $pool_sectors linear $pool_ground 0"
}

# fua BLOCK: write it. What sync I/O of a block device calls FUA ends with a FLUSH, which
# would wait by itself.
fua() {
	fio --name=fua --filename=$vol --rw=write --bs=4k --offset=$(($1 * 4))k --size=4k \
		--direct=1 --ioengine=libaio --sync=dsync >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&-
}

# many_ranges COUNT STEP POOL: of a block each, STEP apart, in $ranges, to so many blocks
# of the pool in turn; in $moves the same, with TO ("z") as new place. (Not in a test
# itself, as bats looks at each line of that.)
many_ranges() {
	local i range to=${4:-z}
	ranges='' moves=''
	for ((i = 0; i < $1; i++)); do
		printf -v range '%x,1,p%x' $((i * $2)) $((i % $3))
		ranges+=\;$range moves+=\;$range,$to
	done
	ranges=${ranges#;} moves=${moves#;}
}

# all_pages SIZE: of the table, asked for with a buffer of that size: in $found, and
# their number in $pages.
all_pages() {
	local next=0
	found='' pages=0
	while [ "$next" -lt 16384 ]; do
		dm message rdt-v "table $next $((16384 - next))" $1
		[ "${reply##* }" -gt "$next" ] || return
		next=${reply##* }
		found+=${found:+;}${reply% *}
		pages=$((pages + 1))
	done
}

# every_read FIRST BY WHAT: the first two blocks of these segments.
every_read() {
	local i want
	for ((i = $1; i < segs; i += $2)); do
		# shellcheck disable=SC2059 # it is one
		printf -v want "$3" $((i * 8))
		reads $((i * 4096)) 16 "$want" || return
	done
}

# The messages of the table, all right but for that.
all_messages_are_unsupported() {
	local message
	for message in "remap 0,1,p100,p200" "watch 1 20,1" "watch -" "alias 1 20,1,z" "shed 0,1" \
		"hydrate start" "hydrate stop" "table 0 1" begin \
		"set 0,1,z" end; do
		refused "Operation not supported" "there is no remap table" msg "$message"
	done
}

# in_flight DEVICE [NUMBER]: so many I/Os have come to it, and have not ended.
in_flight() {
	local reads writes
	read -r reads writes <"/sys/dev/block/$(stat -Lc %Hr:%Lr "$1")/inflight"
	[ $((reads + writes)) -ge ${2:-1} ]
}

# With no pool in the table line.
env_pool_none() {
	local pool=-
	"$@"
}

# limit NAME: of the volume, in $reply; as /sys/block/dm-N/queue has it.
limit() { reply=$(<"/sys/dev/block/$(stat -c %Hr:%Lr $vol)/queue/$1"); }

# is_told: of a flush that failed, to two who flush, once the base can again.
is_told() {
	within 10 mode_is rw
	run ! sync $vol
	run ! sync $vol
	within 10 sync $vol
}

# away_are "ZEROS POOL": numbers of blocks.
away_are() { status && is "blocks that are zeros and in the pool" "${field[7]} ${field[8]}" "$1"; }

# base_table [TARGET]: of a base with something behind the volume, to which flushes go, too.
base_table() {
	printf '%s\n' "0 $vol_sectors linear $ground 0" \
		"$vol_sectors 8 ${1:-linear /dev/ram0 0}"
}

# lose_cache: the base, a judge, fails a flush, forgets some of what was not flushed, and
# goes on.
lose_cache() {
	dm message rdt-b "fail-writes on"
	! sync $vol 2>/dev/null || is "a flush" "has succeeded" "fails"
	dm message rdt-b "fail-writes off"
	within 10 mode_is rw
}

# parts FIRST LETTER: 3 sectors of every other block, of 32 from sector FIRST on.
parts() {
	local at
	for ((at = $1; at < $1 + 512; at += 16)); do
		writes $((at + 2)) 3 $2 || return
	done
}

# nothing_of_base FIRST: what they leave is not what the base held before.
nothing_of_base() {
	dm read $vol $1 512
	[[ \;$reply != *\;b* ]] || is "sectors from $1 on" "$reply" "none of the base's own"
}

# hold_rcu MS: in the background, as $holder, on the second CPU. It has begun when this returns.
hold_rcu() {
	has_target judge || insmod /revdedup/modules/dm-judge.ko
	make rdt-j "0 8 judge /dev/ram2 rcu"
	log_begin
	taskset -c 1 dmsetup message rdt-j 0 "hold-rcu $1" 3>&- &
	holder=$!
	within 30 said "holds RCU"
}

left_is_less() {
	status
	[ "${field[9]}" -lt $1 ] && return
	is "hydration left" "${field[9]}" "< $1"
}
