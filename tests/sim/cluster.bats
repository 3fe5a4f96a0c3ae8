#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The simulator of a cluster: it gives what the paper says of its own scheme, dice agree with the
# formulas, and small cases are as counted by hand.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

cluster() { "$BATS_TEST_DIRNAME/cluster.py" "$@"; }

# whole SCHEME FAILED: the percent of VMs that lose nothing, by formula and by dice.
whole() {
	awk -v scheme="$1" -v failed="$2" 'index($0, scheme) == 1 && $(NF - 3) == failed {
		print $(NF - 2), $(NF - 1) }' output
}

# near WHAT WANTED MARGIN: fails, and says so, if it is further off.
near() {
	awk -v is="$1" -v wanted="$2" -v margin="$3" 'BEGIN {
		if (is != "" && (is - wanted) ^ 2 <= margin ^ 2) exit 0
		print "it is \"" is "\", and " wanted " is wanted"; exit 1 }'
}

# table7 NODES: what the paper has for that many is on standard input.
table7() {
	local scheme failed paper is
	# The two columns that dice would fill stay empty.
	cluster placement --nodes "$1" --draws 0 --failed 3 5 10 20 | sed '2,$s/$/ - -/' >output
	while read -r scheme failed paper; do
		read -r is _ < <(whole "$scheme" "$failed")
		near "$is" "$paper" 0.03
	done
}

@test "table 7 of the paper, 100 nodes" {
	table7 100 <<-'END'
		VM-oblivious 3 69.548605
		VM-oblivious 5 2.647527
		VM-oblivious 10 0
		VM-oblivious 20 0
		VM-centric 3 99.660194
		VM-centric 5 96.653343
		VM-centric 10 66.246404
		VM-centric 20 1.132713
	END
}

@test "table 7 of the paper, 1,000 nodes" {
	table7 1000 <<-'END'
		VM-oblivious 3 99.964668
		VM-oblivious 5 99.647243
		VM-oblivious 10 95.848082
		VM-oblivious 20 66.840855
		VM-centric 3 99.999669
		VM-centric 5 99.996688
		VM-centric 10 99.96026
		VM-centric 20 99.623054
	END
}

@test "dice agree with the formulas" {
	# With few nodes more is lost, and fewer draws say as much.
	cluster placement --nodes 40 --vms 50 --pgs 256 --commons 16 --draws 400 --failed 4 6 >output
	local scheme failed formula dice
	for scheme in VM-oblivious "VM-centric, PDS r=6" "8 keys a volume, refer" \
		"8 keys a volume, commons" "frames"; do
		for failed in 4 6; do
			read -r formula dice < <(whole "$scheme" "$failed")
			# All VMs fall together where frames are hashed: 400 draws say less.
			if [ "$scheme" = frames ]; then
				near "$dice" "$formula" 8
			else
				near "$dice" "$formula" 2
			fi
		done
	done
}

@test "the same seed gives the same, another one does not" {
	local some=(placement --nodes 20 --vms 20 --pgs 64 --draws 50 --failed 4)
	cluster "${some[@]}" >output
	cluster "${some[@]}" | diff - output
	run -1 diff output <(cluster "${some[@]}" --seed 2)
}

@test "no node that matters fails: nothing is lost" {
	cluster placement --nodes 20 --vms 20 --pgs 64 --draws 20 --failed 2 >output
	[ "$(grep -c ' 2  *100.0000  *100.000  *100.0$' output)" -eq 6 ]
}

@test "copies, counted by hand" {
	# Two images: 2 of 3 VMs are clones of one, 1 of the other. Frames: 10 of each image, 1 of
	# each VM. Cold: 5 of each VM, of which a pass leaves 5 for each image.
	#   before: 20 + 3 + 15 frames, (10 * 2 + 10 + 3 + 15) / 38
	#   after:  20 + 3 + 10 frames, (10 * 2 + 10 + 3 + 5 * 2 + 5) / 33
	local some=(copies --vms 3 --images 2 --image 10 --own 1 --old 5)
	cluster "${some[@]}" --copies 0 | tail -n 3 | tr -s ' ' >output
	diff - output <<-'END'
		before a pass 38 1.263 2
		after it 33 1.455 2
		after it, with copies 33 1.455 2
	END
	# All 15 frames that two VMs need, and none but these: 18 / 33 are left.
	cluster "${some[@]}" --copies 45.4546 | tail -n 1 | tr -s ' ' >output
	diff - output <<-'END'
		after it, with copies 33 0.545 1
	END
}

@test "copies of 1 % more than make up for the pass" {
	cluster copies | awk '/before/ { before = $(NF - 1) } /copies *[0-9]/ { copies = $(NF - 1) }
		END { print before, copies; exit !(copies > 0 && copies <= before) }'
}

@test "what a pass exchanges, counted by hand" {
	# 4.096 TB of which 1 % is stored: 10 million blocks. 160 MB of fingerprints, 240 MB of
	# entries; half of it to the other host; 24 MB of what was found. On the disk: 160 + 2 *
	# (240 + 24). Buffers: 2 hosts and 10 partitions.
	cluster exchange --hosts 2 --raw 4.096 --stored 1 --found 10 --disk 1 --network 1 >output
	diff - output <<-'END'
		blocks a host        10 million
		partitions a host    10
		fingerprints read    0.16 GB
		sent                 0.13 GB
		read and written     0.69 GB
		buffers              0.8 MiB
		memory               23.6 MiB
		time                 11.5 min
	END
}

@test "a wrong command line is an error" {
	run -2 cluster
	run -2 cluster nonsense
	run -2 cluster copies --vms x
}
