#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: end-to-end-guest.sh first|again|last
#
# The guest's part of end-to-end.sh. Check what the last power cut left (except the first
# time); then write files on three volumes, and use all commands of revdedupctl until the
# next power cut, or the last time until each volume has had E2E_SNAPSHOTS. Two volumes are
# thin: their blocks are given to the pool and come home again.
#
# A disk that loses nothing keeps what must be there:
#
#   versions/VOL@N/image   the volume when it was suspended
#   versions/VOL@N/acked   the files that were stable then
#   pending/VOL/           the same, of a version that may come to be
#   before/VOL             the volume before a roll-back, or a kill
#   acked/VOL              a line a file: "+ NAME SUM" when it is stable, "- NAME"
#                          before it is removed
#   clone                  the volume "new": a clone, to which the test writes nothing
#   intent                 the command under way: delete VOL@N..., rollback VOL VOL@N,
#                          clone, unclone
#   done                   a word for each command that ended
#
# No name here has blanks.
# shellcheck disable=SC2015,SC2046,SC2086,SC2206
# shellcheck source=tests/guest/lib/guest.bash
. "${BASH_SOURCE[0]%/*}/../guest/lib/guest.bash"
set -euo pipefail
shopt -s nullglob
# shellcheck source=tests/guest/lib/lvm.bash
. "${BASH_SOURCE[0]%/*}/../guest/lib/lvm.bash"

vols=(vm1 vm2 vm3)
copies=/tmp/rdt-copies
export REVDEDUP_CONFIG=/tmp/rdt-pool/etc
mapped=()
declare -A churn_pid=() fio_pid=()
RANDOM=${E2E_SEED:=$RANDOM}

die() {
	echo "FAILED: $*" >&2
	exit 1
}

# All that the disk of copies was given is on it.
stable() { sync -f $copies; }

# Versions of the volume $1 (all) that must be there.
versions() { (cd $copies/versions && echo ${1:-*}@*); }

same() { cmp "$1" "$2" || die "$1 is not $2"; }

count() { echo "$1" >>$copies/done; }

# --- file systems

# These words make mkfs.xfs take a device this small.
make_fs() {
	case $1 in
	vm2) TEST_DIR=/ TEST_DEV=/ QA_CHECK_FS=1 mkfs.xfs -q -f "$(device_of $1)" ;;
	*) mkfs.ext4 -q "$(device_of $1)" ;;
	esac
}

# All files that were stable are what they were.
check_files() {
	local sign name sum
	local -A want=()
	while read -r sign name sum; do
		case $sign in
		+) want[$name]=$sum ;;
		-) unset "want[$name]" ;;
		esac
	done <$copies/acked/$1
	for name in "${!want[@]}"; do
		sum=$(md5sum <"/tmp/rdt-mnt/$1/$name") || die "$1: $name is lost"
		[ "${sum%% *}" = "${want[$name]}" ] || die "$1: $name is damaged"
	done
	echo "  $1: ${#want[@]} files are what they were"
}

# churn VOL: write files and remove old ones.
churn() {
	local dir=/tmp/rdt-mnt/$1 log=$copies/acked/$1 files file sum
	while [ -e /run/churn.$1 ]; do
		file=$dir/f-$EPOCHREALTIME
		head -c $((RANDOM * 6 + 1)) /dev/urandom >$file
		sum=$(md5sum <$file)
		sync $file $dir
		echo "+ ${file##*/} ${sum%% *}" >>$log
		sync $log
		sleep 0.5
		files=($dir/f-*)
		[ ${#files[@]} -gt 24 ] || continue
		echo "- ${files[0]##*/}" >>$log
		sync $log
		rm "${files[0]}"
	done
}

begin_load() {
	mkdir -p /tmp/rdt-mnt/$1
	mount "$(device_of $1)" /tmp/rdt-mnt/$1
	touch /run/churn.$1
	churn $1 &
	churn_pid[$1]=$!
	fio --name=load --filename=/tmp/rdt-mnt/$1/load --size=4m --rw=randwrite --bs=4k \
		--rate_iops=10 --time_based --runtime=1d >/dev/null 2>&1 &
	fio_pid[$1]=$!
}

end_load() {
	rm /run/churn.$1
	wait ${churn_pid[$1]}
	# Until it has a handler of its own it ignores SIGINT, as all in the background do.
	kill -TERM ${fio_pid[$1]}
	wait ${fio_pid[$1]} || :
	umount /tmp/rdt-mnt/$1
}

# --- what must be there

# This is what a version has that may come to be: $2 is read.
keep_pending() {
	rm -rf $copies/new
	mkdir $copies/new
	dd if="$2" of=$copies/new/image bs=1M iflag=direct conv=fsync status=none
	cp $copies/acked/$1 $copies/new/acked
	stable
	rm -rf $copies/pending/$1
	mv $copies/new $copies/pending/$1
	stable
}

# A version that is there and was not is the pending one.
settle() {
	local name found=0
	revdedupctl list >/tmp/list
	while read -r name _; do
		name=${name#"$vg/"}
		[[ $name == $1@* ]] && [ ! -e $copies/versions/$name ] || continue
		found=$((found + 1))
		[ $found -eq 1 ] || die "$name has come from nowhere"
		[ -e $copies/pending/$1 ] || die "$name is there, and was not made"
		mv $copies/pending/$1 $copies/versions/$name
		count "snapshot of $1"
		stable
		echo "  there is $name"
	done </tmp/list
}

intend() {
	echo "$*" >$copies/intent
	stable
}

# Copies of versions that were deleted.
forget_deleted() {
	local name
	revdedupctl list >/tmp/list
	for name in "$@"; do
		! grep -q "^$vg/$name " /tmp/list || continue
		rm -r $copies/versions/$name
	done
	rm -f $copies/intent
	stable
}

is_whole() {
	revdedupctl -q restore $vg/$1 --yes --to /tmp/rdt-pool/out
	same /tmp/rdt-pool/out $copies/versions/$1/image
}

# --- what is done

do_busy() {
	local pid
	REVDEDUP_FAIL=freeze-checkpoint=stop revdedupctl -q snapshot $vg/$1 &
	pid=$!
	retry 300 0.1 grep -q '^State:.*stopped' /proc/$pid/status || die "it does not stop"
	keep_pending $1 /dev/$vg/$1
	kill -CONT $pid
	wait $pid
	settle $1
}

# The same where the volume cannot be read past the target.
do_still() {
	end_load $1
	keep_pending $1 "$(device_of $1)"
	revdedupctl -q snapshot $vg/$1
	settle $1
	begin_load $1
}

do_killed() {
	local status=0
	end_load $1
	keep_pending $1 "$(device_of $1)"
	ln -f $copies/pending/$1/image $copies/before/$1
	REVDEDUP_FAIL=any:$((RANDOM % 70 + 1))=kill revdedupctl -q snapshot $vg/$1 || status=$?
	[ $status -eq 137 ] || [ $status -eq 0 ] || die "the exit code is $status"
	settle $1
	same "$(device_of $1)" $copies/before/$1
	begin_load $1
}

do_rollback() {
	local version status=0
	version=$(any_of $(versions $1))
	[ -n "$version" ] || return 0
	end_load $1
	keep_pending $1 "$(device_of $1)"
	ln -f $copies/pending/$1/image $copies/before/$1
	intend rollback $1 $version
	revdedupctl -q rollback $vg/$version --yes || status=$?
	settle $1
	if [ $status -eq 0 ]; then
		same "$(device_of $1)" $copies/versions/$version/image
		cp $copies/versions/$version/acked $copies/acked/$1
	else
		# The one before is not home.
		[ $status -eq 11 ] || die "the exit code is $status"
		same "$(device_of $1)" $copies/before/$1
	fi
	rm $copies/intent
	stable
	begin_load $1
}

do_map() {
	local version name=rdt-map$RANDOM
	version=$(any_of $(versions))
	[ -n "$version" ] && [ ${#mapped[@]} -lt 3 ] || return 0
	revdedupctl -q map $vg/$version $name
	ln -f $copies/versions/$version/image $copies/mapped-$name
	mapped+=($name)
	touch /run/reads.$name
}

do_unmap() {
	local name=${mapped[0]:-}
	[ -n "$name" ] || return 0
	mapped=("${mapped[@]:1}")
	rm /run/reads.$name
	retry 300 0.1 revdedupctl -q unmap $name
	rm $copies/mapped-$name
}

do_restore() {
	local version
	version=$(any_of $(versions))
	[ -z "$version" ] || is_whole $version
}

do_delete() {
	local version
	version=$(any_of $(versions))
	[ -n "$version" ] || return 0
	intend delete $version
	revdedupctl -q delete $vg/$version
	forget_deleted $version
}

do_prune() {
	local list
	list=$(versions $1)
	[ -n "$list" ] || return 0
	intend delete $list
	revdedupctl -q prune $vg/$1 --keep-last 3
	forget_deleted $list
}

is_clone() { same "$(device_of new)" $copies/clone; }

# Make one, or take it away.
do_clone() {
	local version
	if [ -e $copies/clone ]; then
		is_clone
		intend unclone
		revdedupctl -q detach $vg/new --force --yes
		lvremove -qq --yes $vg/new
		rm $copies/clone
	else
		version=$(any_of $(versions))
		[ -n "$version" ] || return 0
		intend clone
		ln $copies/versions/$version/image $copies/clone
		stable
		revdedupctl -q clone $vg/$version $vg/new
		is_clone
	fi
	rm $copies/intent
	stable
}

# --- what changes where a volume has its blocks, and not what they are

# dedup_is VOL COMMAND OPTION...: done, or refused for what another command has left.
dedup_is() {
	local vol=$1 status=0
	revdedupctl "$2" $vg/$vol "${@:3}" >/tmp/dedup 2>&1 || status=$?
	sed 's/^/  /' /tmp/dedup
	case $status in
	0) count "$2" ;;
	1) grep -q 'can stand for its present content\|an older version than its newest' /tmp/dedup ;;
	11) grep -q 'was interrupted\|is being copied back' /tmp/dedup ;;
	12) grep -q 'MiB are needed' /tmp/dedup ;;
	*) die "the exit code of $2 is $status" ;;
	esac || die "$2 was refused for no reason"
}

do_zeros() { dedup_is $1 trim; }
do_pool() { dedup_is $1 offload --cold 0 --force --yes; }
do_undo() { dedup_is $1 recall; }

is_thin() { [ -n "$(lvs --noheadings -o pool_lv $vg/$1 | xargs)" ]; }

# Mapped versions stay what they are, whatever is done beside.
reader() {
	local name file
	while :; do
		for file in /run/reads.*; do
			name=${file#*.}
			cmp /dev/mapper/$name $copies/mapped-$name 2>/tmp/cmp && continue
			# It has been unmapped meanwhile.
			[ -e $file ] || continue
			cat /tmp/cmp
			echo "mapped $name is not what it was" >/run/failed
			return
		done
		sleep 0.2
	done
}

is_home() { dmsetup status revdedup-rdt--vg-$1 | awk '{ exit $10 || $11 }'; }

# one_thing VOLUME...: with one of these.
one_thing() {
	local vol what
	vol=$(any_of "$@")
	what=$(any_of busy busy busy busy killed map map unmap restore delete rollback clone \
		$(! is_thin $vol || echo zeros pool pool undo undo))
	[ "$(versions $vol | wc -w)" -lt 5 ] || what=prune
	# What lies in the pool cannot be read past the target.
	[ $what != busy ] || is_home $vol || what=still
	echo "$SECONDS s: $what $vol"
	do_$what $vol
	count $what
	[ ! -e /run/failed ] || die "$(</run/failed)"
}

# --- phases

make_all() {
	mkfs.ext4 -q /dev/disk/disk2
	mkdir -p $copies /tmp/rdt-pool
	mount /dev/disk/disk2 $copies
	mkdir $copies/{versions,pending,before,acked}
	: >$copies/done
	vgcreate -qq $vg /dev/disk/disk0
	mkfs.ext4 -q /dev/disk/disk1
	mount /dev/disk/disk1 /tmp/rdt-pool
	mkdir "$REVDEDUP_CONFIG"
	# As init chooses on a disk that seeks, or on another.
	revdedupctl -q init --size 1G --pieces $((RANDOM % 2 ? 64 : 1)) "$REVDEDUP_POOL"
	make_lv vm1 32
	lvcreate -qq --yes --type thin-pool --size 80M --chunksize 64k --name thin $vg
	lvcreate -qq --yes --thin --virtualsize 32M --name vm2 $vg/thin
	lvcreate -qq --yes --thin --virtualsize 24M --name vm3 $vg/thin
	for vol in "${vols[@]}"; do
		revdedupctl -q attach $vg/$vol
		make_fs $vol
		: >$copies/acked/$vol
	done
	sync
}

# As a host does at boot.
start_all() {
	mkdir -p $copies /tmp/rdt-pool
	mount /dev/disk/disk2 $copies
	mount /dev/disk/disk1 /tmp/rdt-pool
	vgchange -qq -ay $vg
	revdedupctl attach --all
}

# A roll-back that power was lost in has happened or not.
check_rollback() {
	local what vol version
	read -r what vol version <$copies/intent
	[ "$what" = rollback ] || return 0
	if cmp -s "$(device_of $vol)" $copies/versions/$version/image; then
		echo "  $vol was rolled back to $version"
		cp $copies/versions/$version/acked $copies/acked/$vol
	elif cmp -s "$(device_of $vol)" $copies/before/$vol; then
		echo "  $vol was not rolled back"
	else
		die "$vol is neither what it was nor $version"
	fi
	rm $copies/intent
	stable
}

clone_lvs() { lvs --noheadings -o lv_name -S 'lv_name=~^new' $vg; }

remove_clone_lvs() {
	local lv
	for lv in $(clone_lvs); do
		lvremove -qq --yes $vg/$lv
	done
}

# A clone that power was lost in is there as a whole or not at all. One that was taken
# away may have left its logical volumes.
check_clone() {
	local what=
	[ ! -e $copies/intent ] || read -r what _ <$copies/intent
	if dmsetup info "$(device_of new)" >/dev/null 2>&1; then
		is_clone
		echo "  the clone is what it was"
	else
		[[ $what == *clone || ! -e $copies/clone ]] || die "the clone is gone"
		[ "$what" != unclone ] || remove_clone_lvs
		[ -z "$(clone_lvs)" ] || die "a part of a clone is there"
		rm -f $copies/clone
	fi
	[[ $what != *clone ]] || rm $copies/intent
	stable
}

check_all() {
	local vol name list
	echo "after the cut:"
	revdedupctl status || die "somebody is needed"
	revdedupctl -q check
	[ ! -e $copies/intent ] || check_rollback
	check_clone
	for vol in "${vols[@]}"; do
		settle $vol
	done
	if [ -e $copies/intent ]; then
		read -r _ list <$copies/intent
		forget_deleted $list
	fi
	for name in $(versions); do
		is_whole $name
	done
	echo "  $(versions | wc -w) versions are what they were"
	rm -f $copies/mapped-*
	for vol in "${vols[@]}"; do
		mkdir -p /tmp/rdt-mnt/$vol
		mount "$(device_of $vol)" /tmp/rdt-mnt/$vol
		check_files $vol
		umount /tmp/rdt-mnt/$vol
	done
}

begin_work() {
	local vol
	for vol in "${vols[@]}"; do
		begin_load $vol
	done
	reader &
	reader_pid=$!
}

end_work() {
	local vol
	while [ ${#mapped[@]} -gt 0 ]; do
		do_unmap
	done
	kill $reader_pid || :
	[ ! -e /run/failed ] || die "$(</run/failed)"
	for vol in "${vols[@]}"; do
		end_load $vol
	done
}

# cut_within SECONDS: the power goes at any moment of the next few.
cut_within() {
	local after=$((RANDOM % $1)).$((RANDOM % 10))
	(sleep "$after"; power_cut) &
}

# The power goes while a volume changes its place, there or back, or at a step of that.
dedup_until_cut() {
	local vol list step what words
	vol=$(any_of vm2 vm3)
	do_still $vol
	do_pool $vol
	what=$(any_of zeros pool undo moment moment)
	case $what in
	zeros) list=(dedup-table dedup-marked dedup-aliased dedup-shed) ;;
	pool) list=(dedup-table lease-add dedup-leased dedup-marked dedup-aliased dedup-shed) ;;
	undo) list=(undo-started undo-home) ;;
	*)
		cut_within 20
		while :; do
			do_undo $vol
			do_zeros $vol
			do_still $vol
			do_pool $vol
		done
		;;
	esac
	[ $what = undo ] || do_undo $vol
	[ $what != pool ] || do_still $vol
	step=$(any_of "${list[@]}")
	echo "  the power goes at $step of $what"
	words=(trim)
	[ $what != pool ] || words=(offload --cold 0 --force --yes)
	[ $what != undo ] || words=(recall)
	REVDEDUP_FAIL=$step=stop revdedupctl "${words[@]}" $vg/$vol &
	sleep "$((RANDOM % 8)).$((RANDOM % 10))"
	power_cut
}

# Some things are done, and then the power goes during dedup, or at any moment of the next few
# things, however slow this machine is.
work_until_cut() {
	local first=$SECONDS nr=$((RANDOM % 6 + 1)) i
	begin_work
	for ((i = 0; i < nr; i++)); do
		one_thing "${vols[@]}"
	done
	[ $((RANDOM % 2)) -ne 0 ] || dedup_until_cut
	cut_within $((2 * (SECONDS - first) / nr + 4))
	while :; do one_thing "${vols[@]}"; done
}

work_to_the_end() {
	local wanting
	wanting=$(vols_wanting)
	[ -n "$wanting" ] || return 0
	begin_work
	while [ -n "$wanting" ]; do
		one_thing $wanting
		wanting=$(vols_wanting)
	done
	end_work
}

# Volumes that have not had that many snapshots.
vols_wanting() {
	local vol
	for vol in "${vols[@]}"; do
		[ "$(grep -c "^snapshot of $vol\$" $copies/done)" -ge "$E2E_SNAPSHOTS" ] ||
			echo $vol
	done
}

take_down() {
	local vol
	[ ! -e $copies/clone ] || do_clone
	for vol in "${vols[@]}"; do
		! is_thin $vol || revdedupctl -q recall $vg/$vol
		retry 300 0.2 is_home $vol || die "$vol does not come home"
		cp "$(device_of $vol)" /tmp/rdt-pool/out
		revdedupctl -q detach $vg/$vol
		same /dev/$vg/$vol /tmp/rdt-pool/out
	done
	tr -d '\000' <$copies/done | sort | uniq -c | sed 's/^ *\([0-9]*\) /  done \1 times: /'
}

echo "E2E_SEED=$E2E_SEED"
# shellcheck disable=SC2119 # no parameters
load_module
if [ "$1" = first ]; then make_all; else start_all; check_all; fi
if [ "$1" = last ]; then
	work_to_the_end
	take_down
else
	work_until_cut
fi
