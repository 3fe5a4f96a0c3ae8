#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl as a program: usage, output, progress, signals, help.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool
bats_require_minimum_version 1.5.0

@test "what is printed goes nowhere else" {
	make_versions
	local program=$build/bin/revdedupctl
	# The next file that it opens would be one of these.
	for closed in 1 2 "0 1" "0 2" "1 2" "0 1 2"; do
		for command in "tag vm1@1 +gold" "snapshot vm1 --from no-such-file" list; do
			(
				for fd in $closed; do
					exec {fd}>&-
				done
				# shellcheck disable=SC2086
				exec "$program" $command
			) || status=$?
			# Who wanted to know does not.
			[[ $command != list || $closed != *1* ]] || [ "$status" -eq 1 ]
			must check
		done
	done
	must scrub
}

@test "who reads what is said is gone, and all is done" {
	make_versions
	"$build/bin/revdedupctl" delete vm1@1 vm1@2 vm1@3 | head -n 0
	must list
	[[ $output != *vm1@[123]* ]]
}

@test "names that are too long for a device are not attached" {
	make_pool 64M
	truncate -s 1M a.img
	name=$(printf 'a%.0s' {1..128})
	must snapshot "$name" --from a.img
	must show "$name"
	ctl snapshot "$name"a --from a.img
	[ "$status" -eq 2 ]
}

@test "mount, umount, clone: what they want" {
	make_versions
	ctl mount vm1@1 no-such-directory
	expect 1 <<-'END'
		revdedupctl: 'no-such-directory' is not a directory
		revdedupctl: nothing was mounted; 'mkdir no-such-directory' makes one
	END
	for number in 0 x -1; do
		ctl mount vm1@1 . --partition "$number"
		[ "$status" -eq 2 ]
		[[ $output == *"--partition needs a number"* ]]
	done
	ctl umount .
	expect 1 <<-'END'
		revdedupctl: no version is mounted at '.'
		revdedupctl: nothing was changed; /proc/mounts lists what is mounted where
	END
	ctl clone vm1@1 new
	[ "$status" -eq 2 ]
	[[ $output == *"'new' is not a logical volume: name it as GROUP/NAME"* ]]
	ctl clone vm1@1 vg/new@3
	[ "$status" -eq 2 ]
	for words in "mount vm1@1" "clone vm1@1" umount "clone vm1 vg/new --writable"; do
		# shellcheck disable=SC2086 # words
		ctl $words
		[ "$status" -eq 2 ]
	done
}

@test "a pool that one cannot write to" {
	make_versions
	chmod -R a-w pool
	# Nothing is forbidden to root, but for what it gives up.
	weak=()
	[ ! -w pool/catalog.db ] ||
		weak=(setpriv "--bounding-set=-dac_override,-dac_read_search" --)
	weakly() {
		run "${weak[@]}" "$build/bin/revdedupctl" "$@"
	}
	weakly restore vm1@1 --to r.img
	[ "$status" -eq 0 ]
	cmp 1.img r.img
	for command in list "show vm1" stats check scrub "diff vm1@1 vm1@2"; do
		# shellcheck disable=SC2086 # words
		weakly $command
		[ "$status" -eq 0 ]
	done
	weakly snapshot vm1 --from 1.img
	[ "$status" -eq 1 ]
	[[ ${lines[0]} == *"Permission denied"* ]]
	# SQLite needs both: it makes files beside the catalog.
	chmod -R u+w pool
	for part in pool pool/catalog.db; do
		chmod a-w "$part"
		weakly snapshot vm1 --from 1.img
		expect 1 <<-END
			revdedupctl: cannot write to '$PWD/$part': Permission denied
			revdedupctl: run this command as root, or give this user the permission
		END
		chmod u+w "$part"
	done
	must check
}

@test "interrupted: at once, and nothing is lost" {
	make_versions
	mkfifo fifo
	code=0
	"$build/bin/revdedupctl" dump vm1@1 >fifo 2>err 3>&- &
	exec 4<fifo
	# It has begun, and has to wait for us.
	head -c 1 <&4 >/dev/null
	kill -INT $!
	cat <&4 >/dev/null
	exec 4<&-
	wait $! || code=$?
	[ "$code" -eq 130 ]
	[ "$(cat err)" = "revdedupctl: interrupted" ]
	must check
	# It waits for the pool.
	hold 0 0
	code=0
	"$build/bin/revdedupctl" list --lock-wait 60 2>err 3>&- &
	until grep -q waiting err; do sleep 0.01; done
	kill -INT $!
	wait $! || code=$?
	[ "$code" -eq 130 ]
	[ "$(tail -n 1 err)" = "revdedupctl: interrupted" ]
	drop
	# It waits for its rate: the reads that are begun would take half a minute.
	head -c 40M /dev/urandom >5.img
	code=0
	"$build/bin/revdedupctl" snapshot vm2 --from 5.img --rate 1M 2>err 3>&- &
	until [[ $(readlink /proc/$!/fd/*) == */5.img* ]]; do
		kill -0 $!
		sleep 0.05
	done
	sleep 1
	SECONDS=0
	kill -INT $!
	wait $! || code=$?
	[ "$code" -eq 130 ]
	[ "$SECONDS" -lt 20 ]
	must check
}

@test "progress" {
	make_versions
	must restore vm1@1 --to r.img --json --progress=always
	[ "$(field 0 '["type"]')" = progress ]
	[ "$(field 0 '["version"]')" = vm1@1 ]
	[ "$(field 0 '["done"]')" = $((6 << 20)) ]
	[ "$(field 0 '["total"]')" = $((6 << 20)) ]
	[ "$(field 1 '["type"]')" = restore ]
	must snapshot vm1 --from 1.img --progress=always
	[[ $output == *"snapshot vm1: 6.0 MiB of 6.0 MiB, 100 %"* ]]
	# All versions of a volume are one work.
	must scrub vm1 --progress=always
	[[ $output == *"vm1@4: 24.0 MiB of 24.0 MiB, 100 %"* ]]
	[[ $output != *"6.0 MiB of 6.0 MiB"* ]]
	must snapshot vm1 --from 2.img
	[[ $output != *%* ]]
	must snapshot vm1 --from 2.img --json --progress never
	[ "${#lines[@]}" -eq 1 ]
	ctl scrub --progress=sometimes
	[ "$status" -eq 2 ]
	ctl list --progress=always
	[ "$status" -eq 2 ]
}

@test "output that does not arrive is a failure" {
	[ -w /dev/full ] || skip "no /dev/full"
	make_versions
	for command in list "show vm1" stats check scrub "diff vm1@1 vm1@2" help; do
		run sh -c "'$build/bin/revdedupctl' $command >/dev/full"
		expect 1 <<<"revdedupctl: cannot write to stdout: the output is incomplete"
	done
	run sh -c "'$build/bin/revdedupctl' dump vm1@1 >/dev/full"
	[ "$status" -eq 12 ]
}

@test "wrong usage" {
	ctl
	expect 2 <<<"revdedupctl: no command given (try 'revdedupctl help')"
	ctl frobnicate
	expect 2 <<<"revdedupctl: there is no command 'frobnicate' (try 'revdedupctl help')"
	ctl list --frobnicate
	expect 2 <<<"revdedupctl: there is no option '--frobnicate' (try 'revdedupctl help list')"
	# Many letters are many options.
	ctl list -vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvz
	expect 2 <<<"revdedupctl: there is no option '-z' (try 'revdedupctl help list')"
	ctl list -qz
	expect 2 <<<"revdedupctl: there is no option '-z' (try 'revdedupctl help list')"
	ctl list -p
	expect 2 <<<"revdedupctl: '-p' needs a value (try 'revdedupctl help list')"
	ctl list --pool
	expect 2 <<<"revdedupctl: '--pool' needs a value (try 'revdedupctl help list')"
	ctl list --dry-run
	expect 2 <<<"revdedupctl: 'list' does not take --dry-run (try 'revdedupctl help list')"
	ctl ls -n
	expect 2 <<<"revdedupctl: 'list' does not take --dry-run (try 'revdedupctl help list')"
	ctl list a b
	expect 2 <<<"revdedupctl: unexpected argument 'b' (try 'revdedupctl help list')"
	ctl diff
	expect 2 <<<"revdedupctl: 'diff' needs VOL@A [VOL@B|--from PATH] (try 'revdedupctl help diff')"
	ctl list -p x --lock-wait forever
	expect 2 <<<"revdedupctl: --lock-wait needs a number from 0 to 2592000, not 'forever' (try 'revdedupctl help list')"
	ctl list --quiet=yes
	expect 2 <<<"revdedupctl: --quiet takes no value (try 'revdedupctl help list')"
}

# bats test_tags=slow
@test "help and version" {
	for help in --help -h help "help list" "list --help" "list -h" "-h list" "-p x help" \
		"ls --help --nothing-else"; do
		# shellcheck disable=SC2086 # words
		ctl $help
		case $help in
		*else*) [ "$status" -eq 2 ] ;;
		*) [ "$status" -eq 0 ] && [[ ${lines[0]} == "Usage: revdedupctl "* ]] ;;
		esac
	done
	ctl help frobnicate
	expect 2 <<<"revdedupctl: there is no command 'frobnicate' (try 'revdedupctl help')"
	for version in --version -V version "list -V" "-V list" "-p x version"; do
		# shellcheck disable=SC2086 # words
		must $version
		[[ $output =~ ^revdedupctl\ [0-9.]+,\ pool\ format\ 2$ ]]
	done
	# Each command that there is has help, the same in each way to ask for it.
	must help
	for verb in init grow tune dedup copies recompress trim offload recall snapshot list show stats diff restore dump delete prune protect \
		unprotect tag check scrub repair config help version attach detach status \
		metrics map unmap mount umount export unexport clone rollback; do
		must help
		[[ $output == *"  $verb "* ]]
		must help $verb
		wanted=$output
		for words in "$verb --help" "$verb -h" "-h $verb"; do
			# shellcheck disable=SC2086 # words
			must $words
			[ "$output" = "$wanted" ] || { diff <(echo "$output") <(echo "$wanted"); false; }
		done
	done
	[ "$(revdedupctl_commands | wc -l)" -eq 47 ]
	must help
	# On a terminal as most are.
	[ "$(awk 'length > 80' <<<"$output")" = "" ]
	[ "$(grep -c '^[A-Z].*:$' <<<"$output")" -eq 3 ]
	for other in backup ls rm; do
		must help "$other"
	done
	must help dedup
	[[ $output == *"--rate SIZE"* && $output != *"--older"* ]]
	[ "${lines[-1]}" = "It has more options, which few need: revdedup-expert(8)." ]
	must help copies
	[[ $output != *"--copies"* && $output != *expert* ]]
	ctl fsck
	expect 2 <<<"revdedupctl: 'fsck' is 'check' now (try 'revdedupctl help')"
	ctl help remove
	expect 2 <<<"revdedupctl: 'remove' is 'delete' now (try 'revdedupctl help')"
}

# The commands that help lists.
revdedupctl_commands() {
	"$build/bin/revdedupctl" help | sed -n 's/^  \([a-z]*\) .*/\1/p'
}

# bats test_tags=slow
@test "-y is taken by every command" {
	make_pool 64M
	for verb in $(revdedupctl_commands); do
		for words in "$verb -y" "-y $verb" "$verb --yes"; do
			# shellcheck disable=SC2086 # words
			ctl $words </dev/null
			[[ $output != *"there is no option"* && $output != *"does not take"* ]] || {
				echo "$words: $output"
				false
			}
		done
	done
}

@test "commands in short, and mistyped" {
	make_versions
	must sho vm1@2
	[[ $output == *vm1@2* ]]
	must snap vm1 --from 1.img
	must help prot
	[[ ${lines[0]} == "Usage: revdedupctl protect "* ]]
	ctl st
	expect 2 <<<"revdedupctl: 'st' is short for more than one command: status, stats (try 'revdedupctl help')"
	ctl help st
	expect 2 <<<"revdedupctl: 'st' is short for more than one command: status, stats (try 'revdedupctl help')"
	# What removes or replaces data has its whole name.
	must list
	before=$output
	for words in "del vm1@1" "pru --keep-last 1" "rol vm1@1" "rest vm1@1 --to r.img -y" \
		"det vm1 -y" "unma x -y" "repa"; do
		# shellcheck disable=SC2086 # words
		ctl $words
		[ "$status" -eq 2 ]
		[[ $output == *"which removes or replaces data: write it in full"* ]]
	done
	must list
	[ "$output" = "$before" ]
	[ ! -e r.img ]
	must rm vm1@1

	while read -r typed meant; do
		ctl "$typed"
		[ "$status" -eq 2 ]
		[[ $output == *"there is no command '$typed'; did you mean '$meant'? "* ]] || {
			echo "$typed, not $meant: $output"
			false
		}
	done <<-'END'
		snapshto snapshot
		snapshoot snapshot
		lsit list
		reestore restore
		delte delete
		umoutn umount
	END
	for typed in x frobnicate __complet "" -; do
		ctl "$typed"
		[ "$status" -eq 2 ]
		[[ $output != *"did you mean"* ]]
	done
	ctl list --jsn
	expect 2 <<<"revdedupctl: there is no option '--jsn'; did you mean '--json'? (try 'revdedupctl help list')"
	ctl prune --keep 3
	[ "$status" -eq 2 ]
	[[ $output == *"'--keep' is short for more than one option: --keep-last, "*"--keep-tag (try"* ]]
	# Only one of the options in question is one of this command.
	ctl restore vm1@2 --f
	[ "$status" -eq 2 ]
	[[ $output == *"--force, --from, --full (try"* ]]
}

@test "an error is the last line of JSON, and text as well" {
	make_versions
	run --separate-stderr "$build/bin/revdedupctl" show vm1@9 --json
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 1 ]
	[ "${stderr_lines[0]}" = "revdedupctl: there is no version 9 of 'vm1'" ]
	[ "$(field -1 '["type"]')" = error ]
	[ "revdedupctl: $(field -1 '["error"]')" = "${stderr_lines[0]}" ]
	[ "revdedupctl: $(field -1 '["hint"]')" = "${stderr_lines[1]}" ]
	[ "$(field -1 '["exit"]')" = 1 ]
	[ "$(field -1 '["missing"]')" = True ]
	# Wrong usage, before and behind --json.
	for words in "--json frob" "frob --json" "list --json --frob" "list --frob --json" "list a b --json"; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr "$build/bin/revdedupctl" $words
		[ "$status" -eq 2 ]
		[ "$(field -1 '["exit"]')" = 2 ]
		[ "$(field -1 '["hint"]')" = None ]
	done
	# Each error in its order; the first is the one that counts.
	run --separate-stderr "$build/bin/revdedupctl" -p nowhere list --json
	[ "$status" -eq 10 ]
	[ "$(field -1 '["error"]')" = "'nowhere' is not a pool" ]
	[ "$(field -1 '["exit"]')" = 10 ]
	[ "$(field -1 '["missing"]')" = False ]
	# Nothing where nothing failed.
	run --separate-stderr "$build/bin/revdedupctl" list --json
	[[ $output != *'"error"'* ]]
	# And nothing where a version would be.
	run --separate-stderr "$build/bin/revdedupctl" dump vm1@1 --json
	[ "$status" -eq 2 ]
	[ -z "$output" ]
}

@test "progress: a line fits into the terminal, whatever the volume is called" {
	local name size line
	make_pool 128M
	truncate -s 6M 1.img
	blocks 1.img 0 1536
	name=$(printf 'customers/%.0s' 1 2 3 4 5 6 7)vm1
	for size in 80 20; do
		script -qec "stty cols $size; '$build/bin/revdedupctl' snapshot $name --from 1.img --progress=always -q" \
			/dev/null >typescript </dev/null
		tr '\r' '\n' <typescript | grep ' MiB of ' | sed 's/\x1b\[K//' >lines
		[ -s lines ]
		while IFS= read -r line; do
			[ "${#line}" -lt 80 ]
			[ "$size" -eq 20 ] || [[ $line == ...*vm1:* ]]
		done <lines
	done
}

@test "init: REVDEDUP_POOL names the pool, and no command offers to make one where none is mounted" {
	ctl list --pool gone
	[ "$status" -eq 10 ]
	[[ $output == *"'gone' is not a pool"*"may not be mounted"* ]]
	[[ $output != *init* ]]
	unset REVDEDUP_POOL
	ctl init --compression none
	[ "$status" -eq 2 ]
	[[ $output == *"name the directory of the pool, or set REVDEDUP_POOL"* ]]
	export REVDEDUP_POOL=$PWD/made
	ctl init --compression none --pieces 1 --size 64M
	[ "$status" -eq 0 ]
	[ "$output" = "made pool '$PWD/made'" ]
}

@test "snapshot: each --tag is kept, and stats is in columns with a long name" {
	local name
	make_pool 128M
	truncate -s 6M 1.img
	blocks 1.img 0 10
	name=$(printf 'customers/%.0s' 1 2 3 4)vm1
	must snapshot "$name" --from 1.img --tag one --tag two
	must show "$name"
	[[ $output == *"tags:           one,two"* ]]
	ctl snapshot "$name" --from 1.img --tag three --tag 7
	[ "$status" -eq 2 ]
	must snapshot vm2 --from 1.img
	must stats
	[ "$(awk 'NR <= 3 { print length }' <<<"$output" | sort -u | wc -l)" -eq 1 ]
	must copies 100% --force --to copies
	must stats
	[[ $output == *"copies:   "*"on a disk of the pool itself"* ]]
	must status
	[[ $output == *"copies:      "*"on a disk of the pool itself"* ]]
}
