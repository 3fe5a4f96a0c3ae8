#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl on logical volumes with the target over them: attach, snapshot during writes,
# detach, and obstacles to each.

# Each test is a subshell; no name here has blanks; who sleeps holds a device open.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154,SC2217
load ../lib/guest
load ../lib/lvm

setup() { lvm_setup; }
teardown() {
	# If a test renamed it.
	vgrename -qq rdt-renamed $vg 2>/dev/null || :
	lvm_teardown
}

@test "live: a volume is attached, its versions are what it was, it is detached" {
	make_lv vm1 64
	revdedupctl attach /dev/$vg/vm1
	vol=$(device_of vm1)
	mkfs.ext4 -q "$vol"
	mkdir -p /tmp/rdt-mnt
	mount "$vol" /tmp/rdt-mnt
	dd if=/dev/urandom of=/tmp/rdt-mnt/one bs=1M count=9 status=none
	sync
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = full ]
	umount /tmp/rdt-mnt
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	is_version $vg/vm1@2 "$vol"
	dd if=/dev/urandom of="$vol" bs=4k seek=5000 count=1 conv=fsync status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json blocks_changed </tmp/said)" = 1 ]
	is_version $vg/vm1@3 "$vol"
	[ "$(revdedupctl diff $vg/vm1@2)" = "$((5000 * 4096)) 4096" ]
	[ -z "$(revdedupctl diff $vg/vm1@3)" ]
	revdedupctl check
	revdedupctl status
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
	# shellcheck disable=SC2012
	[ "$(lvs --noheadings -o lv_name $vg | xargs)" = "vm1 vm1_rdmeta" ]
	cp "$vol" /tmp/rdt-pool/was
	revdedupctl detach $vg/vm1
	cmp /dev/$vg/vm1 /tmp/rdt-pool/was
	[ "$(lvs --noheadings -o lv_name $vg | xargs)" = "vm1" ]
}

# Write to it until the file /tmp/go is gone.
writer() {
	local nr=$(($(sectors "$vol") / 8 - 50))	# places of 4k for up to 200k
	touch /tmp/go
	while [ -e /tmp/go ]; do
		dd if=/dev/urandom of="$vol" bs=$((RANDOM % 200 + 1))k count=1 iflag=fullblock \
			oflag=direct,seek_bytes conv=notrunc seek=$((RANDOM % nr * 4096)) \
			status=none || exit
	done 3>&- &
	writer=$!
}

is_frozen() { dmsetup status | grep -q ':snap.*snapshot [0-9]*/'; }

end_writer() {
	rm -f /tmp/go
	wait "$writer"
}

overwrite() { dd if=/dev/urandom of="$vol" bs=3M count=10 oflag=direct conv=notrunc status=none; }

# The command stops while the volume is suspended, so that it can be copied: what is
# in the version must be that, whatever is written afterwards.
@test "live: a version is what the volume was when it was suspended" {
	some_volume vm1
	writer
	for nr in 2 3; do
		stopped freeze-checkpoint -q snapshot $vg/vm1
		dd if=/dev/$vg/vm1 of=/tmp/rdt-pool/was bs=1M iflag=direct status=none
		kill -CONT $pid
		retry 100 0.1 is_frozen
		overwrite
		wait $pid
		is_version "$vg/vm1@$nr" /tmp/rdt-pool/was
	done
	end_writer
	# Most of it is overwritten before any of it is copied.
	cp "$vol" /tmp/rdt-pool/was
	stopped freeze-resumed -q snapshot $vg/vm1
	overwrite
	kill -CONT $pid
	wait $pid
	is_version $vg/vm1@4 /tmp/rdt-pool/was
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@5 "$vol"
	revdedupctl -q check
}

@test "live: killed at each step, the volume goes on and the next version is right" {
	some_volume vm1 16
	writer
	touch /tmp/log
	REVDEDUP_FAIL_LOG=/tmp/log revdedupctl -q snapshot $vg/vm1
	grep -n . /tmp/log | tr : ' ' | awk '!seen[$2]++' >/tmp/steps
	cat /tmp/steps
	grep -q freeze-suspended /tmp/steps
	while read -r nr name <&4; do
		case $name in
		freeze-* | live-* | snapshot-* | reverse-*) ;;
		*) continue ;;
		esac
		echo "# $name"
		status=0
		REVDEDUP_FAIL=$name=kill revdedupctl -q snapshot $vg/vm1 3>&- || status=$?
		[ "$status" -eq 137 ]
		# Nobody is held up for good.
		timeout 30 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct status=none
		kill -0 "$writer"
		revdedupctl status
		end_writer
		revdedupctl -q snapshot $vg/vm1
		is_version $vg/vm1@latest "$vol"
		[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
		writer
	done 4</tmp/steps
	end_writer
	revdedupctl -q check
	[ "$(lvs --noheadings -o lv_name $vg | xargs)" = "vm1 vm1_rdmeta" ]
}

# index_steps: when parts of the index were written: before the freeze, in it, and behind it.
index_steps() {
	awk '/^freeze-suspended/ { at = 1 } /^live-committed/ { at = 2 } /^index-begin/ { nr[at + 0]++ }
		END { print !!nr[0], !!nr[1], !!nr[2] }' /tmp/log
}

# bats test_tags=soak
@test "live: the index is made before the freeze, and written after it" {
	some_volume vm1 32
	revdedupctl -q tune $vg/vm1 --pieces 64 --dedup inline
	for nr in 2 3; do
		dd if=/dev/urandom of="$vol" bs=1M seek=$nr count=3 oflag=direct conv=notrunc \
			status=none
		: >/tmp/log
		REVDEDUP_FAIL_LOG=/tmp/log revdedupctl -q snapshot $vg/vm1
		cat /tmp/log
		[ "$(index_steps)" = "$((nr == 2)) 0 1" ]
		is_version "$vg/vm1@$nr" "$vol"
	done
	revdedupctl -q check
}

# A step that fails, not one that is killed: it cleans up itself.
@test "live: a snapshot that fails leaves the bits and the pool as they were" {
	some_volume vm1 16
	dd if=/dev/urandom of="$vol" bs=4k seek=3000 count=1 oflag=direct status=none
	for name in ${STEPS:-freeze-prepared freeze-suspended freeze-checkpoint freeze-resumed \
		snapshot-finish live-commit}; do
		run revdedupctl -q snapshot $vg/vm1
		[ "$status" -eq 0 ]
		dd if=/dev/urandom of="$vol" bs=4k seek=3500 count=1 oflag=direct status=none
		REVDEDUP_FAIL=$name=EIO run revdedupctl snapshot $vg/vm1
		echo "$name: $status: $output"
		[ "$status" -eq 1 ]
		[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
		revdedupctl status $vg/vm1 --json | tee /tmp/said
		[ "$name" = live-commit ] || [ "$(json segments_dirty </tmp/said)" = 1 ]
		run revdedupctl snapshot $vg/vm1 --json
		echo "$output"
		[[ $output == *'"mode": "changed"'* ]]
		is_version $vg/vm1@latest "$vol"
	done
	# What is overwritten has no room, before it is read and when all is.
	for name in freeze-resumed live-read; do
		dd if=/dev/urandom of="$vol" bs=1M count=10 oflag=direct status=none
		stopped $name snapshot $vg/vm1 --cow-size 1M >/tmp/said 2>&1
		dd if=/dev/urandom of="$vol" bs=1M count=10 oflag=direct status=none
		kill -CONT $pid
		status=0
		wait $pid || status=$?
		cat /tmp/said
		[ "$status" -eq 1 ]
		[ "$(grep -c "cow-size" /tmp/said)" -eq 1 ]
	done
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@latest "$vol"
	revdedupctl -q check
}

@test "live: what is in the way is said, and nothing was changed" {
	make_lv vm1 32
	mkfs.ext4 -q /dev/$vg/vm1
	mkdir -p /tmp/rdt-mnt
	mount /dev/$vg/vm1 /tmp/rdt-mnt
	run revdedupctl attach $vg/vm1
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *mounted* ]]
	umount /tmp/rdt-mnt
	[ "$(lvs --noheadings -o lv_name $vg | xargs)" = "vm1" ]
	run revdedupctl attach nothing
	[ "$status" -eq 1 ]
	run revdedupctl attach other --from /dev/ram1
	[ "$status" -eq 11 ]
	run revdedupctl detach $vg/vm1
	[ "$status" -eq 1 ]
	[[ $output == *"not attached"* ]]
	run revdedupctl snapshot $vg/vm1
	[ "$status" -eq 2 ]
	# A device of that name that is not ours.
	dm_create rdt-x "0 8 zero"
	dmsetup rename rdt-x "revdedup-rdt--vg-vm1"
	run revdedupctl attach $vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"another device"* ]]
	dmsetup remove revdedup-rdt--vg-vm1
	[ "$(lvs --noheadings -o lv_name $vg | xargs)" = "vm1" ]
	# Twice does no harm.
	revdedupctl attach $vg/vm1
	revdedupctl attach $vg/vm1
	# A pool that would copy itself.
	vol=$(device_of vm1)
	mkfs.ext4 -q "$vol"
	mount "$vol" /tmp/rdt-mnt
	revdedupctl -q init --compression none --size 100M --reserve 1M /tmp/rdt-mnt/pool
	run revdedupctl -p /tmp/rdt-mnt/pool snapshot $vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"lies on"* ]]
	umount /tmp/rdt-mnt
}

@test "live: without the module, resized, renamed, with other metadata: noticed" {
	some_volume vm1 16
	# Gone, as after a boot, and no module for this kernel.
	dmsetup remove "${vol##*/}"
	dmsetup remove "${vol##*/}:meta"
	rmmod dm_revdedup
	run revdedupctl attach --all
	echo "$output"
	[ "$status" -eq 3 ]
	[[ $output == *"not tracked"* ]]
	dd if=/dev/urandom of="$vol" bs=4k seek=100 count=1 oflag=direct status=none
	run revdedupctl status
	[ "$status" -eq 1 ]
	[[ $output == *"is not tracked"*"once there is the module dm-revdedup"* ]]
	for which in $vg/vm1 --all; do
		run revdedupctl snapshot $which
		echo "$output"
		[ "$status" -eq 13 ]
		[[ $output == *"'$vg/vm1' is not tracked"*"no module dm-revdedup for this kernel"* ]]
	done
	load_module
	# While it is in use, and after an attach that was killed.
	sleep 1000 <"$vol" 3>&- &
	killed dm-swap attach $vg/vm1
	revdedupctl attach $vg/vm1
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json reason </tmp/said)" = "tracking was lost" ]
	is_version $vg/vm1@latest "$vol"
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	# Larger.
	lvextend -qq --size 24M $vg/vm1
	dd if=/dev/urandom of=/dev/$vg/vm1 bs=1M seek=17 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json size </tmp/said)" = $((24 << 20)) ]
	is_version $vg/vm1@latest "$vol"
	kill %%
	wait || :
	# Under another name.
	dmsetup remove "${vol##*/}"
	dmsetup remove "${vol##*/}:meta"
	lvrename -qq $vg vm1 vm7
	revdedupctl attach --all
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	# With metadata that know nothing.
	dmsetup remove "${vol##*/}"
	dmsetup remove "${vol##*/}:meta"
	blkdiscard -z /dev/$vg/vm1_rdmeta
	revdedupctl attach --all
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json reason </tmp/said)" = "tracking does not continue from the newest version" ]
	is_version $vg/vm1@latest "$vol"
	revdedupctl -q check
}

# bats test_tags=soak
@test "live: another pool, names exchanged, a renamed group: noticed" {
	some_volume vm2 16
	other=$vol
	some_volume vm1 16
	# Where the pool was there is one of another host.
	mv "$REVDEDUP_POOL" /tmp/rdt-pool/mine
	revdedupctl -q init --compression none "$REVDEDUP_POOL"
	dd if=/dev/urandom of="$vol" bs=1M seek=3 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = full ]
	is_version $vg/vm1@latest "$vol"
	# And the one that was there first, which knows nothing of that.
	rm -r "$REVDEDUP_POOL"
	mv /tmp/rdt-pool/mine "$REVDEDUP_POOL"
	dd if=/dev/urandom of="$vol" bs=1M seek=5 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = full ]
	is_version $vg/vm1@latest "$vol"
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	# A volume is what it is, whatever LVM calls it.
	down "$vol" "$other"
	lvrename -qq $vg vm1 vm0
	lvrename -qq $vg vm2 vm1
	lvrename -qq $vg vm0 vm2
	cp /dev/$vg/vm2 /tmp/rdt-pool/one
	revdedupctl attach --all
	cmp "$vol" /tmp/rdt-pool/one
	dd if=/dev/urandom of="$vol" bs=1M seek=7 count=1 oflag=direct conv=notrunc status=none
	dd if=/dev/urandom of="$other" bs=1M seek=9 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot --all
	is_version $vg/vm1@latest "$vol"
	is_version $vg/vm2@latest "$other"
	# And its group.
	down "$vol" "$other"
	vgrename -qq $vg rdt-renamed
	revdedupctl attach --all
	dd if=/dev/urandom of="$vol" bs=1M seek=11 count=1 oflag=direct conv=notrunc status=none
	revdedupctl snapshot $vg/vm1 --json | tee /tmp/said
	[ "$(json mode </tmp/said)" = changed ]
	is_version $vg/vm1@latest "$vol"
	revdedupctl -q check
}

@test "live: versions are devices, at once, and stay right while the pool changes" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	revdedupctl map $vg/vm1@1
	revdedupctl map $vg/vm1@1 rdt-one --writable
	one=$vol@1
	cmp "$one" /tmp/rdt-pool/one
	run revdedupctl unmap "${vol##*/}"
	[ "$status" -eq 1 ]
	for nr in 2 3 4; do
		dd if=/dev/urandom of="$vol" bs=64k seek=$((RANDOM % 200)) count=50 oflag=direct \
			conv=notrunc status=none
		revdedupctl -q snapshot $vg/vm1
		cmp "$one" /tmp/rdt-pool/one
	done
	# What is written to one device is on no other.
	dd if=/dev/zero of=/dev/mapper/rdt-one bs=1M count=3 oflag=direct status=none
	cmp -n 3145728 /dev/mapper/rdt-one /dev/zero
	cmp -i 3145728 /dev/mapper/rdt-one /tmp/rdt-pool/one
	cmp "$one" /tmp/rdt-pool/one
	run revdedupctl delete $vg/vm1@1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"no longer"* ]]
	run revdedupctl list
	[[ $output != *vm1@1* ]]
	revdedupctl -q prune $vg/vm1 --keep-last 1
	cmp "$one" /tmp/rdt-pool/one
	# In use.
	sleep 1000 <"$one" 3>&- &
	retry 300 0.1 reads_from $! "$one"
	run revdedupctl unmap "$one"
	echo "$output"
	[ "$status" -eq 11 ]
	kill %%
	wait || :
	revdedupctl stats --json >/tmp/before
	revdedupctl unmap "$one"
	revdedupctl unmap rdt-one
	revdedupctl stats --json >/tmp/after
	cat /tmp/before /tmp/after
	revdedupctl check
	is_version $vg/vm1@latest "$vol"
	[ "$(dm_devices | grep -c '^revdedup')" -eq 2 ]
	[ -z "$(losetup -a)" ]
}

@test "live: rolled back at once, with a writer, and home after a while" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	dd if=/dev/urandom of="$vol" bs=1M seek=3 count=10 oflag=direct conv=notrunc status=none
	revdedupctl -q snapshot $vg/vm1
	dd if=/dev/urandom of="$vol" bs=64k seek=37 count=7 oflag=direct conv=notrunc status=none
	cp "$vol" /tmp/rdt-pool/now
	# It is in use, as by a guest.
	sleep 1000 <"$vol" 3>&- &
	run revdedupctl rollback $vg/vm1@1
	[ "$status" -eq 1 ]
	[[ $output == *--yes* ]]
	revdedupctl rollback $vg/vm1@1 --yes
	cmp "$vol" /tmp/rdt-pool/one
	is_version $vg/vm1@3 /tmp/rdt-pool/now
	# The next version, home or not; the origin of what is on its way is deleted.
	revdedupctl delete $vg/vm1@1
	revdedupctl -q snapshot $vg/vm1
	is_version $vg/vm1@4 /tmp/rdt-pool/one
	retry 100 0.3 is_home
	cmp "$vol" /tmp/rdt-pool/one
	cmp /dev/$vg/vm1 /tmp/rdt-pool/one
	revdedupctl -q prune $vg/vm1 --keep-last 2
	revdedupctl -q check
	kill %%
	wait || :
	revdedupctl detach $vg/vm1
	cmp /dev/$vg/vm1 /tmp/rdt-pool/one
	# Nothing is held for it any more.
	run revdedupctl -v prune $vg/vm1 --keep-last 1
	echo "$output"
	[[ $output != *reached* ]]
	revdedupctl -q check
}

is_closed() { [ "$(dmsetup info -c --noheadings -o open "$vol")" -eq 0 ]; }

@test "live: a volume that is mounted is not rolled back" {
	some_volume vm1 16
	mkfs.ext4 -q "$vol"
	mkdir -p /tmp/rdt-mnt
	mount "$vol" /tmp/rdt-mnt
	run revdedupctl rollback $vg/vm1@1 --yes
	echo "$output"
	[ "$status" -eq 11 ]
	[[ $output == *"mounted at '/tmp/rdt-mnt'"* ]]
	umount /tmp/rdt-mnt
	# In a container it is not in the list of mounts that this host has.
	rm -f /tmp/rdt-there
	unshare -m --propagation unchanged bash -c \
		"mount '$vol' /tmp/rdt-mnt && : >/tmp/rdt-there && exec sleep 600" 3>&- &
	retry 300 0.1 test -e /tmp/rdt-there
	run revdedupctl rollback $vg/vm1@1 --yes
	echo "$output"
	kill %%
	wait || :
	[ "$status" -eq 11 ]
	[[ $output == *"'$vol' is mounted, or "* ]]
	# The kernel unmounts it soon after.
	retry 300 0.1 is_closed
	# Nor to what is not there, nor one that is not attached.
	run revdedupctl rollback $vg/vm1@7 --yes
	[ "$status" -eq 1 ]
	run revdedupctl rollback $vg/vm8@1 --yes
	[ "$status" -eq 1 ]
}

@test "live: a roll-back that is killed has happened or not, or is finished" {
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	for name in rollback-suspended rollback-begun rollback-set rollback-ended; do
		dd if=/dev/urandom of="$vol" bs=1M count=9 oflag=direct conv=notrunc status=none
		cp "$vol" /tmp/rdt-pool/now
		status=0
		REVDEDUP_FAIL=$name=kill revdedupctl -q rollback $vg/vm1@1 --yes 3>&- || status=$?
		[ "$status" -eq 137 ]
		# The guard has resumed it.
		retry 100 0.2 timeout 5 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct status=none
		case $name in
		rollback-suspended) cmp "$vol" /tmp/rdt-pool/now ;;
		*) cmp "$vol" /tmp/rdt-pool/one ;;
		esac
		revdedupctl attach $vg/vm1
		retry 100 0.3 is_home
		revdedupctl -q snapshot $vg/vm1
		is_version $vg/vm1@latest "$vol"
	done
	revdedupctl -q check
}

# bats test_tags=soak
@test "live: who read what is said of a roll-back is gone, and then the command" {
	local pid reader
	some_volume vm1 16
	cp "$vol" /tmp/rdt-pool/one
	dd if=/dev/urandom of="$vol" bs=1M count=9 oflag=direct conv=notrunc status=none
	mkfifo /tmp/said-to-nobody
	sleep 1000 </tmp/said-to-nobody 3>&- &
	reader=$!
	stopped rollback-set -q rollback $vg/vm1@1 --yes 2>/tmp/said-to-nobody
	kill $reader
	kill -KILL $pid
	wait || :
	rm /tmp/said-to-nobody
	# The guard has something to say before it resumes the volume.
	retry 100 0.2 timeout 5 dd if="$vol" of=/dev/null bs=4k count=1 iflag=direct status=none
	cmp "$vol" /tmp/rdt-pool/one
}
