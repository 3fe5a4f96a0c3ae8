#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl: versions of several volumes with one tag, a moment: what takes "@TAG", what
# refuses it, and which groups are refused before anything is done.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# A moment, a and b, of the volumes vm1 and vm2; vm3 has another tag.
make_moment() {
	local volume
	make_pool 128M
	for volume in vm1 vm2 vm3; do
		truncate -s 4M $volume.img
		blocks $volume.img 0 200
		must snapshot $volume --from $volume.img
		blocks $volume.img 9 1
		if [ $volume = vm3 ]; then
			must snapshot $volume --from $volume.img --tag other
		else
			must snapshot $volume --from $volume.img --tag gold
		fi
	done
}

@test "@TAG: list and show have each version with the tag, by volume" {
	make_moment
	must list @gold
	[ "${#lines[@]}" -eq 3 ]
	[[ ${lines[1]} == vm1@2\ *gold* ]]
	[[ ${lines[2]} == vm2@2\ *gold* ]]
	must list @gold --json
	[ "${#lines[@]}" -eq 2 ]
	[ "$(field 1 '["tags"]')" = '["gold"]' ]
	must show @gold
	[ "$(grep -c '^version:' <<<"$output")" -eq 2 ]
	[ "${lines[0]}" = "version:        vm1@2" ]
	must show @gold --json
	[ "$(field 1 '["version"]')" = vm2@2 ]
	for command in list show delete protect; do
		ctl $command @silver
		expect 1 <<-'END'
			revdedupctl: no version has the tag 'silver'
			revdedupctl: 'revdedupctl list' lists volumes, versions and their tags
		END
	done
	for word in @1 @latest @-1 @2026-11-20 @ '@a b'; do
		ctl show "$word"
		[ "$status" -eq 2 ]
	done
}

@test "show: a disk of a domain names the definition of the same moment" {
	make_pool 128M
	truncate -s 4M disk.img
	for nr in 1 2; do
		echo "<domain $nr/>" >xml
		must snapshot db/xml --from xml --tag "m$nr" --tag weekly
		blocks disk.img "$nr" 1
		must snapshot db/vda --from disk.img --tag "m$nr" --tag "also$nr"
	done
	must snapshot db/vda --from disk.img
	for nr in 1 2 3; do
		set_time "$nr" "2026-11-0$nr 02:00"
	done
	# This one has moved to another moment there.
	must tag db/vda@1 +weekly
	must show db/vda@1
	[[ $output == *"definition:     db/xml@1, which 'revdedupctl dump db/xml@1' prints"* ]]
	must show db/vda@2 --json
	[ "$(field 0 '["definition"]')" = db/xml@2 ]
	must dump db/xml@2
	[ "$output" = "<domain 2/>" ]
	must show db/vda@3
	[[ $output != *definition* ]]
	must show db/xml@1
	[[ $output != *definition* ]]
}

@test "@TAG: protect and delete take all of them, or none" {
	make_moment
	must protect vm2@gold
	ctl delete @gold
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"vm2@2 is protected"*"no version was deleted"* ]]
	must list @gold
	[ "${#lines[@]}" -eq 3 ]
	must protect @gold
	expect 0 <<-'END'
		vm1@2 is protected
		vm2@2 is protected
	END
	must unprotect @gold
	must delete @gold vm2@gold --dry-run
	[ "$(grep -c '^would delete' <<<"$output")" -eq 2 ]
	must delete @gold vm2@gold
	[[ $output == *"deleted vm1@2"*"deleted vm2@2"* ]]
	ctl list @gold
	[ "$status" -eq 1 ]
	must list
	[ "${#lines[@]}" -eq 5 ]
	must check
}

@test "@TAG: send takes each of them to the other pool" {
	make_moment
	must init --compression none other --size 128M
	must send @gold --to "$PWD/other"
	must -p other list @gold
	[ "${#lines[@]}" -eq 3 ]
	must -p other list
	[ "${#lines[@]}" -eq 3 ]
	ctl send @gold --to "$PWD/other" --as vm7
	[ "$status" -eq 2 ]
	ctl send @gold --to "$PWD/other" --since 1
	[ "$status" -eq 2 ]
	ctl send @silver --to "$PWD/other"
	[ "$status" -eq 1 ]
	# Which volumes that are is for the other end to say, which may say any.
	ctl receive @gold --from "$PWD/other"
	[ "$status" -eq 2 ]
}

@test "@TAG: what takes one version refuses it, and says what to do" {
	make_moment
	for line in "restore @gold --to out.img" "clone @gold vg/new" "dump @gold" \
		"diff @gold vm1@1" "tag @gold +silver" "export @gold" "map @gold"; do
		# shellcheck disable=SC2086 # words
		ctl $line
		echo "$line: $output"
		[ "$status" -eq 2 ]
		[[ $output == *"for each VOL@gold that 'list @gold' shows"* ]]
	done
	[ ! -e out.img ]
	for command in status prune tune recompress; do
		ctl $command @gold
		[ "$status" -eq 2 ]
	done
	ctl rollback @gold --yes
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"'vm1' is not attached"*'nothing was changed'* ]]
}

@test "snapshot --group: what is wrong is said before anything is done" {
	make_moment
	ctl snapshot vm1 vm2
	[ "$status" -eq 2 ]
	[[ $output == *"unexpected argument 'vm2'"*--group* ]]
	for name in latest 7 'a b' -x @gold ''; do
		ctl snapshot --group "$name" vm1 vm2
		[ "$status" -eq 2 ]
	done
	ctl snapshot --group new
	[ "$status" -eq 2 ]
	ctl snapshot --group new vm1
	[[ $status -eq 2 && $output == *"'vm1' is not attached"* ]]
	ctl snapshot --group new --all
	[[ $status -eq 2 && $output == *"two volumes or more"* ]]
	ctl snapshot --group new vm1@1 vm2
	[ "$status" -eq 2 ]
	for option in "--from vm1.img" "--changed x" --force; do
		# shellcheck disable=SC2086 # words
		ctl snapshot --group new vm1 vm2 $option
		[[ $status -eq 2 && $output == *"leave out --from, --changed and --force"* ]]
	done
	must list
	[ "${#lines[@]}" -eq 7 ]
}
