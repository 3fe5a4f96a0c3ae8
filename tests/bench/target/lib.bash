# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the measuring scripts in the guest share: fio over several devices, a line for each
# measurement. Sourced, not run, after tests/guest/lib/guest.bash.
#
# What makes the numbers comparable:
#
# - Devices that are compared share a ramdisk and the same part of it, all of which is
#   allocated before the first round.
# - In a round, a workload goes over all devices in one fio, and each round begins with
#   another device.
# - The number of I/Os is fixed. In a guest that counts instructions, time is then a
#   number of instructions.
# - fio's buffers are huge pages. Otherwise the number of pieces of 1 MiB would depend on
#   where the guest's memory is free. (See huge_pages.)

# shellcheck disable=SC2034 # its users use them
engines=(libaio io_uring)
ios_4k=20480
ios_1m=512

tmp=$(mktemp -d)
trap 'cd /; clean_up_devices; rm -rf "$tmp"' EXIT

# What stands for device NAME now, where that is another one: at[NAME], a name or a path.
declare -A at=()

# device NAME: its path.
device() {
	local name=${at[$1]:-$1}
	case $name in
	raw) echo /dev/ram0 ;;
	/*) echo "$name" ;;
	*) echo "/dev/mapper/rdt-$name" ;;
	esac
}

# For the buffers of so many jobs at once.
huge_pages() { echo $((8 + 8 * $1)) >/proc/sys/vm/nr_hugepages; }

# What fio does on one of the devices only, in its words: extra[NAME].
declare -A extra=()

# run ENGINE WORKLOAD ROUND DEVICE...: measure. The I/O is described on stdin, in
# fio's words. Prints, with the seconds that a GiB takes,
#
#   time ENGINE WORKLOAD DEVICE ROUND SECONDS
run() {
	local engine=$1 workload=$2 round=$3 io name i
	io=$(cat)
	shift 3
	[ -z "${only:-}" ] || [ "$only" = "$workload" ] || return 0
	{
		printf '%s\n' '[global]' direct=1 iodepth=16 thread iomem=mmaphuge \
			group_reporting stonewall "ioengine=$engine"
		for ((i = 0; i < $#; i++)); do
			name=${*:1 + (i + round) % $#:1}
			printf '%s\n' "[$name]" "filename=$(device "$name")" \
				"$io" "${extra[$name]:-}"
		done
		# fio takes some ms longer to see that its last job has ended.
		printf '%s\n' '[last]' filename=/dev/ram0 rw=read size=4k
	} >"$tmp/job"
	fio --output-format=terse --terse-version=3 --output="$tmp/out" "$tmp/job"
	# Of the two directions one has KiB and a run time, in ms.
	awk -F ';' -v what="$engine $workload" -v round="$round" '
		$5 { print "fio: error " $5 " on " $3 >"/dev/stderr"; exit 1 }
		$3 != "last" {
			print "time", what, $3, round,
				($9 + $50) / 1000 * 1048576 / ($6 + $47)
		}' "$tmp/out"
}

# fill MIB NAME...: write so much to each from its beginning on.
fill() {
	local mib=$1 name
	shift
	for name; do
		dd if=/dev/zero of="$(device "$name")" bs=1M count="$mib" \
			oflag=direct status=none
	done
}

# make_log NR BYTES: to $tmp/log, fio's words for one write of 4 KiB to each of so many parts of
# a device, somewhere in it, in a random order that is always the same.
make_log() {
	{
		echo "fio version 2 iolog"
		echo "volume add"
		echo "volume open"
		awk -v nr="$1" -v bytes="$2" 'BEGIN {
			srand(1)
			for (i = 0; i < nr; i++)
				part[i] = i
			for (i = nr - 1; i > 0; i--) {
				j = int(rand() * (i + 1))
				t = part[i]; part[i] = part[j]; part[j] = t
			}
			for (i = 0; i < nr; i++)
				print "volume write", part[i] * bytes + \
					4096 * int(rand() * bytes / 4096), 4096
		}'
		echo "volume close"
	} >"$tmp/log"
}

# replay ENGINE WORKLOAD ROUND DEVICE: measure the writes of make_log.
replay() {
	run "$@" <<-END
	rw=write
	read_iolog=$tmp/log
	replay_redirect=$(device "$4")
	replay_no_stall=1
	END
}
