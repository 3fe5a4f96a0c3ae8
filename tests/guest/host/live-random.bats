#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# All commands of revdedupctl in random order, killed at random steps, on three volumes on
# LVM, two of them thin, and sometimes a clone. Every version, every device and every volume
# must hold what it did.
#
#   LIVE_ROUNDS   how many commands (default 40), and then as many more as it takes until each
#                 case of dedup has come up
#   LIVE_TALK     not empty: say each command as it begins
#   LIVE_SEED     to repeat a run (default: a new one each time)

# Each test is a subshell; no name here has blanks.
# shellcheck disable=SC2030,SC2031,SC2046,SC2086,SC2154,SC2206
load ../lib/guest
load ../lib/lvm
load live-random

rounds=${LIVE_ROUNDS:-40}
other=/tmp/rdt-pool/other
want=/tmp/rdt-pool/want
mib=16

setup() { lvm_setup 400; }
teardown() { lvm_teardown; }

# --- what is where

# Versions of the volume $1 (all), of which there is a copy each.
versions() { (cd $want && shopt -s nullglob && echo ${1:-*}@*); }

same() {
	cmp "$1" "$want/$2" || {
		echo "$1 is not $2"
		return 1
	}
}

# version_is NAME
version_is() {
	revdedupctl -q restore $vg/$1 --yes --to /tmp/rdt-pool/out 3>&- &&
		same /tmp/rdt-pool/out $1
}

volume_is() {
	cmp "$(device_of $1)" $want/$1 || {
		echo "$1 has changed"
		return 1
	}
}

# put VOL OFFSET: write the file piece there, and note it.
put() {
	dd if=/tmp/piece of="$(device_of $1)" bs=2M seek=$2 oflag=direct,seek_bytes conv=notrunc \
		status=none
	dd if=/tmp/piece of=$want/$1 bs=2M seek=$2 oflag=seek_bytes conv=notrunc status=none
}

# put_random VOL KIB: write so much, anywhere.
put_random() {
	head -c $(($2 << 10)) /dev/urandom >/tmp/piece
	put $1 $((RANDOM * RANDOM % (mib * 2048 - $2 * 2) * 512))
}

# put_segments VOL: give it two that another volume has as well.
put_segments() {
	dd if="$(device_of "$(any_of "${vols[@]}")")" of=/tmp/piece bs=2M count=2 \
		skip=$((RANDOM % (mib / 2 - 1))) iflag=direct status=none
	put $1 $((RANDOM % (mib / 2 - 1) << 21))
}

# Discard a range: a thin volume may keep what is no whole chunk of it.
trim() {
	local at=$((RANDOM % (mib * 256 - 64) << 12)) len=$(((RANDOM % 64 + 1) << 12))
	blkdiscard -o $at -l $len "$(device_of $1)"
	dd if="$(device_of $1)" of=/tmp/piece bs=4k skip=$((at >> 12)) count=$((len >> 12)) \
		iflag=direct status=none
	cmp -l -i 0:$at -n $len /tmp/piece $want/$1 | awk '$2 != 0 { exit 1 }' || {
		echo "$1 has something else where it was discarded"
		return 1
	}
	dd if=/tmp/piece of=$want/$1 bs=1M seek=$at oflag=seek_bytes conv=notrunc status=none
}

scribble() {
	local i
	for ((i = 0; i < RANDOM % 6 + 1; i++)); do
		put_random $1 $((RANDOM % 300 + 1))
	done
	[ $((RANDOM % 4)) -ne 0 ] || {
		head -c 576K /dev/zero >/tmp/piece
		put $1 $((RANDOM % 200 << 16))
	}
	[ $((RANDOM % 4)) -ne 0 ] || put_segments $1
	[ $((RANDOM % 2)) -ne 0 ] || trim $1
	volume_is $1
}

# A version that is there and of which there is no copy is what the volume is.
take_new() {
	local name
	revdedupctl list $vg/$1 >/tmp/list 2>/tmp/err || grep -q "no volume" /tmp/err
	while read -r name _; do
		name=${name#"$vg/"}
		[[ $name == $1@* ]] || continue
		! [ -e $want/$name ] || continue
		cp --sparse=always $want/$1 $want/$name
		echo "  there is $name"
	done </tmp/list
}

# --- what is done

do_snapshot() {
	scribble $1
	revdedupctl -q snapshot $vg/$1 3>&-
	take_new $1
}

do_killed() {
	local status=0 step=$((RANDOM % 70 + 1))
	scribble $1
	REVDEDUP_FAIL=any:$step=kill revdedupctl -q snapshot $vg/$1 3>&- || status=$?
	echo "  step $step: $status"
	[ "$status" -eq 137 ] || [ "$status" -eq 0 ]
	volume_is $1
	take_new $1
}

# A version in another pool, whichever the volume reads; killed at times, and then taken again.
do_other() {
	local status=0 fail=()
	[ $((RANDOM % 3)) -ne 0 ] || fail=("REVDEDUP_FAIL=any:$((RANDOM % 70 + 1))=kill")
	scribble $1
	env "${fail[@]}" revdedupctl -p $other -q snapshot $vg/$1 3>&- || status=$?
	echo "  ${fail[*]} $status"
	[ "$status" -eq 0 ] || {
		[ "$status" -eq 137 ]
		revdedupctl -p $other -q snapshot $vg/$1 3>&-
	}
	volume_is $1
	revdedupctl -p $other -q restore $vg/$1@latest --yes --to /tmp/rdt-pool/out 3>&-
	same /tmp/rdt-pool/out $1
	revdedupctl -p $other -q prune --keep-last 1 3>&-
}

do_map() {
	local version
	version=$(any_of $(versions))
	nr_mapped=$((nr_mapped + 1))
	echo "  $version is rdt-map$nr_mapped"
	revdedupctl -q map $vg/$version rdt-map$nr_mapped 3>&-
	cp --sparse=always $want/$version $want/=rdt-map$nr_mapped
	mapped+=(rdt-map$nr_mapped)
}

do_unmap() {
	local name
	[ ${#mapped[@]} -gt 0 ] || return 0
	name=${mapped[0]}
	mapped=("${mapped[@]:1}")
	same /dev/mapper/$name =$name
	revdedupctl -q unmap $name 3>&-
	rm $want/=$name
}

do_delete() {
	local version
	version=$(any_of $(versions))
	echo "  $version"
	revdedupctl -q delete $vg/$version 3>&-
	rm $want/$version
}

do_prune() {
	local left version
	revdedupctl -q prune $vg/$1 --keep-last 2 3>&- || return 0
	left=$(revdedupctl list $vg/$1)
	for version in $(versions $1); do
		[[ $left == *"$vg/$version "* ]] || rm $want/$version
	done
}

do_rollback() {
	local version status=0
	version=$(any_of $(versions $1))
	[ -n "$version" ] || return 0
	echo "  to $version"
	revdedupctl -q rollback $vg/$version --yes 3>&- >/tmp/said 2>&1 || status=$?
	cat /tmp/said
	# The one before is not home.
	[ "$status" -ne 11 ] || {
		take_new $1
		return 0
	}
	[ "$status" -eq 0 ]
	take_new $1
	cp --sparse=always $want/$version $want/$1
	volume_is $1
}

# One at a time; half home or not, it goes as it came.
drop_clone() {
	local name=${vols[3]}
	echo "  drop $name"
	volume_is $name
	revdedupctl -q detach $vg/$name --force --yes 3>&-
	lvremove -qq --yes $vg/$name
	rm $want/$name
	vols=(vm1 vm2 vm3)
	thin=(vm2 vm3)
}

do_clone() {
	local version name how=() fail=() status=0
	[ ${#vols[@]} -eq 3 ] || {
		drop_clone
		return
	}
	version=$(any_of $(versions))
	name=cl$((nr_clones += 1))
	[ $((RANDOM % 2)) -eq 0 ] || how=(--thinpool thin)
	[ $((RANDOM % 3)) -ne 0 ] || how+=(--no-hydrate)
	[ $((RANDOM % 3)) -ne 0 ] || fail=("REVDEDUP_FAIL=any:$((RANDOM % 20 + 1))=kill")
	echo "  $version is $name ${how[*]} ${fail[*]}"
	env "${fail[@]}" revdedupctl -q clone $vg/$version $vg/$name "${how[@]}" 3>&- || status=$?
	[ "$status" -eq 0 ] || {
		[ "$status" -eq 137 ]
		revdedupctl attach --all 3>&-
		[ -b "$(device_of $name)" ] || {
			echo "  it is gone"
			! lvs $vg/$name 2>/dev/null
			return
		}
	}
	cp --sparse=always $want/$version $want/$name
	vols+=($name)
	[[ ${how[*]} != *thin* ]] || thin+=($name)
	volume_is $name
}

one_round() {
	local vol what
	vol=$(any_of "${vols[@]}")
	what=$(any_of snapshot snapshot snapshot killed killed other other map map unmap delete prune \
		rollback clone clone dedup dedup dedup dedup dedup dedup)
	[ $round -le $rounds ] || what=dedup
	[ -n "$(versions)" ] || what=snapshot
	[ $what != map ] || [ ${#mapped[@]} -lt 4 ] || what=unmap
	[ "$(versions | wc -w)" -lt 12 ] || what=prune
	echo "round $round: $what $vol"
	[ -z "${LIVE_TALK:-}" ] ||
		echo "# $SECONDS s, round $round: $what $vol, $(missing | wc -l) to come" >&3
	do_$what $vol
	count[$what]=$((${count[$what]:-0} + 1))
}

all_is_well() {
	local name
	for name in "${mapped[@]}"; do
		same /dev/mapper/$name =$name
	done
	for name in "${vols[@]}"; do
		volume_is $name
	done
	for name in $(versions); do
		version_is $name
	done
	revdedupctl -q check
	revdedupctl -p $other -q check
}

@test "live: whatever is done, everything is what it was" {
	local round mapped=() nr_mapped=0 vols=(vm1 vm2 vm3) thin=(vm2 vm3) nr_clones=0
	local -A count=()
	local order
	RANDOM=${LIVE_SEED:=$RANDOM}
	echo "# LIVE_SEED=$LIVE_SEED" >&3
	mkdir $want
	# shellcheck disable=SC2034 # missing uses it
	mapfile -t order < <(dedup_cases | tr ' ' '\n' | shuf --random-source=<(yes $RANDOM))
	revdedupctl -q init --compression none --size 1G $other
	make_lv vm1 $mib
	lvcreate -qq --yes --type thin-pool --size 80M --chunksize 64k --name thin $vg
	lvcreate -qq --yes --thin --virtualsize ${mib}M --name vm2 $vg/thin
	lvcreate -qq --yes --thin --virtualsize ${mib}M --name vm3 $vg/thin
	for vol in vm1 vm2 vm3; do
		revdedupctl -q attach $vg/$vol
		cp --sparse=always "$(device_of $vol)" $want/$vol
	done
	for ((round = 1; round <= rounds || $(missing | wc -l) > 0; round++)); do
		[ $round -le $((rounds * 5)) ] || {
			echo "never came up:" $(missing)
			return 1
		}
		one_round
		[ $((round % 8)) -ne 0 ] || all_is_well
	done
	all_is_well
	for name in "${mapped[@]}"; do
		revdedupctl -q unmap $name
	done
	[ ${#vols[@]} -eq 3 ] || drop_clone
	revdedupctl -q check
	for what in "${!count[@]}"; do
		echo "# ${count[$what]} times: $what" >&3
	done
}
