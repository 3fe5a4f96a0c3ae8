# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # its users use them; guest.bash sets some
#
# A volume to test, for bats files that `load ../lib/guest` and `load ../lib/volume`: rdt-v,
# whose metadata is on rdt-m, a dm device of 1 MiB that can be made to fail.
#
#   /dev/ram0   the base: 64 MiB, so 32 segments
#   /dev/ram1   the disk below rdt-m ($meta_ground)
#   /dev/ram2   to spare
#
# The tests call device-mapper through dmserve, which is much quicker than dmsetup on an
# emulated machine. Its answers are in $reply and $dm_error rather than on standard output,
# because a subshell is slow there, too.

base=/dev/ram0
meta=/dev/mapper/rdt-m
meta_ground=/dev/ram1
meta_sectors=2048
vol=/dev/mapper/rdt-v
vol_sectors=131072
seg_sectors=4096
some_uuid=11111111-2222-3333-4444-555555555555
other_uuid=99999999-8888-7777-6666-555555555555
all='0,20'	# 32 segments, as ranges have them

reply='' dm_error=''

# --- dmserve

dm_begin() {
	# bats waits for whoever has file 3.
	coproc dmserve { exec /revdedup/bin/dmserve 3>&-; }
	# Subshells have no coproc, but they have these.
	exec {dm_to}>&"${dmserve[1]}" {dm_from}<&"${dmserve[0]}"
	# shellcheck disable=SC1083 # shellcheck knows no such array
	exec {dmserve[1]}>&- {dmserve[0]}<&-
}

# dm COMMAND [WORD...]: see dmserve.c. What it prints is in $reply; when it
# fails, the error's text is in $dm_error.
dm() {
	local IFS=$'\t' line
	reply='' dm_error='dmserve has died'
	printf '%s\n' "$*" >&"$dm_to"
	while IFS='' read -r -u "$dm_from" line; do
		if [[ $line == .* ]]; then
			dm_error=${line#.}
			break
		fi
		reply+=${reply:+$'\n'}${line# }
	done
	[ -z "$dm_error" ] && return
	echo "dm $*: $dm_error"
	return 1
}

# --- assertions: each says what it found

# is WHAT FOUND EXPECTED
is() {
	[ "$2" = "$3" ] && return
	printf '%s\n  found:    %s\n  expected: %s\n' "$@"
	return 1
}

# within SECONDS COMMAND...: COMMAND succeeds before they are over, and more where the host is
# busy.
within() {
	local end=$((SECONDS + ($1 > patience ? $1 : patience)))
	shift
	until "$@" >"$BATS_TEST_TMPDIR/within" 2>&1; do
		[ "$SECONDS" -lt "$end" ] || {
			printf 'waited in vain for: %s\n' "$*"
			cat "$BATS_TEST_TMPDIR/within"
			return 1
		}
		sleep 0.05
	done
}

# now_ms: milliseconds, in $now.
now_ms() { now=$((${EPOCHREALTIME/[.,]/} / 1000)); }

# log_begin: forget what the kernel said until now. The log goes to $said.
log_begin() {
	dm log
	said=''
}

# said TEXT: the kernel said it since log_begin.
said() {
	dm log
	said+=$reply$'\n'
	[[ $said == *"$1"* ]] && return
	printf "the kernel did not say '%s', but\n%s" "$1" "$said"
	return 1
}

# refused ERROR TEXT COMMAND...: COMMAND is a request to device-mapper that fails
# with ERROR, as strerror() has it, and the kernel's log says TEXT.
refused() {
	local error=$1 text=$2
	shift 2
	log_begin
	if "$@" >/dev/null; then
		echo "was not refused: $*"
		return 1
	fi
	is "error of '$*'" "$dm_error" "$error" && said "$text" && return
	echo "for: $*"
	return 1
}

# --- devices

# Before each command bats notes where it is, which takes far longer than most
# commands here. For messages, that of the test itself is enough.
trace_test_only() {
	set +T
	declare -ft "$BATS_TEST_NAME"
}

# For setup(): rdt-m, all zeros, and nothing else.
volume_setup() {
	trace_test_only
	dmr_setup
	[ -b /dev/ram2 ] || ramdisk 64 3
	[ -d /sys/module/dm_revdedup ] || load_module
	dm_begin
	dm zero $meta_ground 0 $((4 << 20))
	make rdt-m "0 $meta_sectors linear $meta_ground 0"
}

# For teardown(): the ram disks stay for the next test.
volume_teardown() {
	local name tries
	for tries in 1 2 3 4; do
		: "$tries"
		dm names >/dev/null
		[ -n "$reply" ] || break
		# First those that hold others: a busy one would be waited for.
		for name in rdt-v $reply; do
			dm resume "$name" >/dev/null || :
			dm remove "$name" >/dev/null || :
		done
	done
	exec {dm_to}>&- {dm_from}<&-
	[ -z "$reply" ] || dmr_teardown
}

# load_table NAME rw|ro TABLE, which may have several lines.
load_table() { dm load "$1" "$2" "${3//$'\n'/|}"; }

# make NAME TABLE [rw|ro]: a device. It does not stay where it cannot be.
make() {
	local error
	dm create "$1" || return
	load_table "$1" "${3:-rw}" "$2" && dm resume "$1" && return
	error=$dm_error
	dm remove "$1"
	dm_error=$error
	return 1
}

# judge_base: the base is a judge, which sees what comes to it.
judge_base() {
	need_judge
	make rdt-b "0 $vol_sectors judge /dev/ram0 base"
	base=/dev/mapper/rdt-b
}

# reload NAME TABLE [rw|ro]
reload() { load_table "$1" "${3:-rw}" "$2" && dm resume "$1"; }

# meta_line FIRST SECTORS ok|nowrite|dead: a line of rdt-m's table.
meta_line() {
	case $3 in
	ok) line="$1 $2 linear $meta_ground $1" ;;
	nowrite) line="$1 $2 flakey $meta_ground $1 0 3600 1 error_writes" ;;
	dead) line="$1 $2 error" ;;
	esac
}

# meta_set MODE [FIRST SECTORS]...: from now on rdt-m is like that, or those
# parts of it are, in ascending order, and the rest is ok. Where a part is nowrite,
# all flushes fail, too; where one is dead, only its own reads and writes do.
meta_set() {
	local mode=$1 line table='' at=0
	shift
	[ "$mode" != nowrite ] || [ -d /sys/module/dm_flakey ] || modprobe dm-flakey
	[ $# -gt 0 ] || set -- 0 "$meta_sectors"
	while [ $# -gt 0 ]; do
		if [ "$1" -gt "$at" ]; then
			meta_line "$at" $(($1 - at)) ok
			table+=$line$'\n'
		fi
		meta_line "$1" "$2" "$mode"
		table+=$line$'\n'
		at=$(($1 + $2))
		shift 2
	done
	if [ "$at" -lt "$meta_sectors" ]; then
		meta_line "$at" $((meta_sectors - at)) ok
		table+=$line
	fi
	reload rdt-m "${table%$'\n'}"
}

# meta_resize SECTORS
meta_resize() {
	meta_sectors=$1
	meta_set ok
}

# The sectors of rdt-m where the bitmap blocks are, while there is one group.
bitmap_sectors='8 16'

meta_hash() { dm hash $meta $((meta_sectors * 512)); }

# meta_is WHAT: the same as HASH.
meta_is() { meta_hash && is "content of the metadata device" "$reply" "$1"; }

meta_is_zero() { cmp -n $((meta_sectors * 512)) $meta /dev/zero; }

# meta_block BLOCK: write stdin there.
meta_block() {
	dd of=$meta oflag=direct bs=4096 seek="$1" conv=sync status=none
}

# --- the volume

# table [SECTORS [OPTION...]], with the number of option words in front: $table.
table() {
	local sectors=${1:-$vol_sectors}
	[ $# -eq 0 ] || shift
	table="0 $sectors revdedup $base $meta -${1:+ $# $*}"
}

# shellcheck disable=SC2120 # they are optional
vol_create() { table "$@" && make rdt-v "$table"; }
vol_create_ro() { table "$@" && make rdt-v "$table" ro; }
vol_load() { table "$@" && load_table rdt-v rw "$table"; }
vol_reload() { table "$@" && reload rdt-v "$table"; }
vol_reload_ro() { table "$@" && reload rdt-v "$table" ro; }
vol_remove() { dm remove rdt-v; }

msg() { dm message rdt-v "$*"; }

# status: the line is in $reply, its words in $field.
status() {
	dm status rdt-v
	read -ra field <<<"- $reply"
}

# Number of the word of the status line, as in Documentation/dm-revdedup.rst.
f_epoch=2 f_version=4 f_dirty=5 f_tracking=10 f_page_reads=14

# page_reads: how many pages of the table were read, in $reply. reads_more NR: more than that.
page_reads() { status && reply=${field[f_page_reads]}; }
reads_more() { page_reads && [ "$reply" -gt "$1" ]; }

events() { dm events rdt-v; }

# dirty [current|frozen]: all ranges, in $reply.
dirty() {
	msg dirty "${1:-current}" 0 4294967296 || return
	reply=${reply% *}
}

# checkpoint: the next one.
checkpoint() {
	status && dm suspend rdt-v && msg checkpoint $((field[f_epoch] + 1)) &&
		dm resume rdt-v
}

# snapshot: with a commit. After it no segment is dirty.
snapshot() {
	checkpoint && status &&
		msg commit "${field[f_epoch]}" $((field[f_version] + 1))
}

# status_is LINE: where nothing is remapped, without its last five fields.
status_is() {
	local want=${1% off 0 0 0 0}
	status && is "status" "${reply% off 0 0 0 0}" "${want% off 0 0}"
}
dirty_is() { dirty && is "dirty current" "$reply" "$1"; }
frozen_is() { dirty frozen && is "dirty frozen" "$reply" "$1"; }
tracking_is() { status && is "tracking" "${field[f_tracking]}" "$1"; }

# What a crash now would leave, as the offline tool reads it: in $reply.
disk_dirty() {
	reply=$(/revdedup/tools/revdedup-meta ${1:+"$1"} dirty "${disk:-$meta}" 2>/dev/null)
	reply=${reply//$'\n'/;}
	reply=${reply:--}
}

disk_dirty_is() { disk_dirty && is "dirty on disk" "$reply" "$1"; }
disk_frozen_is() { disk_dirty --frozen && is "frozen on disk" "$reply" "$1"; }

# meta_is_fine: says the offline tool.
meta_is_fine() { /revdedup/tools/revdedup-meta check $meta; }

# All that a message could change, in $state.
state() {
	status
	state=$reply
	dirty
	state+=" / $reply"
	if [[ ${field[3]} != - ]]; then
		dirty frozen
		state+=" / $reply"
	fi
	meta_hash
	state+=" / $reply"
}

# unchanged COMMAND...: it changes nothing of the state.
unchanged() {
	local before
	state
	before=$state
	"$@" || return
	state
	is "state after '$*'" "$state" "$before"
}

# poke SEGMENT [BYTES]: write into it, past the page cache.
poke() { dm poke $vol $(($1 * seg_sectors * 512)) "${2:-4096}"; }

# slow_poke SEGMENT: the same, by a program that can wait in the background.
slow_poke() {
	exec dd if=/dev/zero of=$vol bs=4096 count=1 oflag=direct,seek_bytes \
		seek=$(($1 * seg_sectors * 512)) status=none
}

# --- around the tests

# need_targets NAME...: for setup_file().
need_targets() {
	local name module
	modprobe dm-mod
	for name; do
		case $name in
		snapshot*) module=dm-snapshot ;;
		*) module=dm-$name ;;
		esac
		has_target "$name" || modprobe "$module" || has_target "$name"
	done
}

# save_meta, restore_meta: the content of rdt-m.
save_meta() { dd if=$meta of="$BATS_TEST_TMPDIR/meta" iflag=direct bs=256K status=none; }
restore_meta() { dd if="$BATS_TEST_TMPDIR/meta" of=$meta oflag=direct bs=256K status=none; }

# edit a|b FIELD=VALUE...|damage: see metaedit.c.
edit() { /revdedup/bin/metaedit $meta "$@"; }

# make_some_volume: it was removed again, and has all that a volume can have:
# epoch 2 is not committed, its frozen set is 7, segment 9 is dirty.
make_some_volume() {
	vol_create
	snapshot
	poke 7
	checkpoint
	poke 9
	status_is "1 2 2 1 1/32 16384 0 0 0 ok rw"
	vol_remove
}
