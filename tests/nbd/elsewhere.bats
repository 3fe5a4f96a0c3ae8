#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions of another host's pool as disks: 'export --from', through 'serve' there.
# shellcheck disable=SC2030,SC2031,SC2154,SC2016 # each test is a subshell; by pool.bash
load nbd

# make_far [OPTION...]: 1.img and 2.img are vm1@1 and vm1@2 of a pool that only the other end
# knows, as $far; it starts serve with these options.
make_far() {
	make_pool 256M
	truncate -s 9437377 1.img
	blocks 1.img 0 600
	blocks 1.img 1100 1000
	cp --sparse=always 1.img 2.img
	blocks 2.img 50 30
	must snapshot vm1 --from 1.img
	must snapshot vm1 --from 2.img
	far=far:$PWD/pool
	unset REVDEDUP_POOL
	PATH=$build/bin:$PATH
	make_rsh "$@"
}

make_rsh() {
	printf '#!/bin/sh\nshift\necho >>%s/began\nexec sh -c "exec $1 %s"\n' "$PWD" "$*" >rsh
	chmod +x rsh
}

# from VERSION [OPTION...]: export it in the background.
from() { ctl export "$1" --from "$far" --rsh "$PWD/rsh" --background "${@:2}"; }

# is_over: nothing runs any more.
is_over() {
	for ((i = 0; i < 2000; i++)); do
		! pgrep -f "$PWD" >/dev/null || { sleep 0.02; continue; }
		return
	done
	pgrep -fa "$PWD"
	return 1
}

# bats test_tags=packs
@test "a version elsewhere is a disk here, without a pool here" {
	make_far
	from vm1@1
	[ "$status" -eq 0 ]
	[[ $output == "exported vm1@1 as nbd+unix:"* ]]
	same vm1@1 1.img --random 100
	# One connection for all clients; the first was to ask.
	same vm1@1 1.img
	[ "$(wc -l <began)" -eq 2 ]
	must status --pool pool
	[[ $output == *"exported vm1@1 of '$far': "* ]]
	# The newest has the name that it has there, and can be written to.
	from vm1 --writable
	[ "$status" -eq 0 ]
	[[ $output == "exported vm1@2 as "* ]]
	same vm1@2 2.img
	nbdsh -u "$(uri vm1@2)" -c 'h.pwrite(b"x" * 4096, 8192)
assert h.pread(4096, 8192) == b"x" * 4096'
	must unexport vm1@1
	must unexport vm1
	is_over
	must dump vm1@2 --pool pool >/dev/null
	must check --pool pool
}

@test "it holds the version there, and ends with what connects it" {
	make_far
	from vm1@1
	same vm1@1 1.img
	must delete vm1@1 --yes --pool pool
	same vm1@1 1.img
	# The line breaks.
	pkill -f -- "--single.*$PWD"
	! nbdcopy "$(uri vm1@1)" null: || return
	must unexport vm1@1
	is_over
	must check --pool pool
	must list --pool pool
	[[ $output != *vm1@1* ]]
}

@test "any client that starts its server can have it" {
	make_far
	# By its stdin and stdout.
	nbdsh -c "h.connect_command(['$build/bin/revdedupctl', 'serve', 'vm1@1', '--from', '$far',
                   '--rsh', '$PWD/rsh'])
assert h.get_size() == 9437377
assert h.pread(4096, 0) == open('1.img', 'rb').read(4096)"
	# As systemd does.
	nbdcopy -- [ "$build/bin/revdedupctl" serve vm1@2 --from "$far" --rsh "$PWD/rsh" ] out
	cmp -n 9437377 2.img out
	is_over
}

# refused TEXT...: an export of vm1@1 is, with these sentences.
refused() {
	local text
	from vm1@1
	[ "$status" -ne 0 ] || return
	for text; do
		[[ $output == *"$text"* ]] || return
	done
	is_over
}

@test "what the other end does not show, or does not have, is refused with its sentence" {
	make_far --read-only --volumes "'vm*'"
	from vm1@1
	[ "$status" -eq 0 ]
	must unexport --all
	make_rsh --append-only
	refused "far: this end may only be added to"
	make_rsh --volumes "'web*'"
	refused "there is no volume 'vm1' in the pool"
	make_rsh
	far=far:$PWD/none
	refused "none"
	far=far:$PWD/pool
	from vm1@7
	[ "$status" -ne 0 ]
	[[ $output == *"there is no version 7 of 'vm1'"* ]]
	printf '#!/bin/sh\nexec false\n' >rsh
	refused "far ended early"
	# What cannot be meant.
	ctl export vm1@1 --from "$PWD/pool"
	expect 2 <<-END
		revdedupctl: --from is a pool of another host: use --pool for '$PWD/pool' (try 'revdedupctl help export')
	END
	ctl export --all --from "$far"
	[ "$status" -eq 2 ]
	ctl serve vm1@1
	[ "$status" -eq 2 ]
	[[ $output == *"a version and --from go together"* ]]
	ctl serve vm1@1 --from "$far" --read-only
	[ "$status" -eq 2 ]
	ctl export vm1@1 --from "far:$(printf 'a\nsocket=/etc/passwd')"
	[ "$status" -eq 2 ]
	[[ $output == *"is no name of a pool"* ]]
}

@test "who asks for a disk in another way is answered by an error" {
	make_far
	for texts in 'vm1@1\0vm1@2\0' '' 'vm1@1'; do
		"$BATS_TEST_DIRNAME/ask-disk.py" "$texts" >ask
		run "$build/bin/revdedupctl" --pool pool serve <ask
		[ "$status" -ne 0 ]
	done
	"$BATS_TEST_DIRNAME/ask-disk.py" 'vm1@1\0' >ask
	"$build/bin/revdedupctl" --pool pool serve <ask >answer || :
	grep -aq NBDMAGIC answer
	is_over
}
