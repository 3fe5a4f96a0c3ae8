#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedup.conf: what it sets, what comes before it, and that a mistake in it does nothing.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

# config LINE...: these are the file.
config() {
	mkdir -p etc
	printf '%s\n' "$@" >etc/revdedup.conf
}

# setting KEY VALUE FROM: 'config' shows so.
setting() {
	must config --json
	python3 -c 'import json, sys
found = [(s["value"], s["from"]) for s in map(json.loads, sys.stdin) if s["key"] == sys.argv[1]]
wanted = (sys.argv[2] or None, sys.argv[3])
assert wanted in found, f"{sys.argv[1]}: {found}, and not {wanted}"' "$@" <<<"$output"
}

# refused LINE TEXT: the file has that line, and no command does anything.
refused() {
	config "[general]" "pool = $PWD/pool" "" "$1"
	must --config /dev/null --pool pool list
	before=$output
	for words in "list --pool pool" "delete --pool pool vm1@1" config metrics; do
		# shellcheck disable=SC2086 # words
		ctl $words
		expect 2 <<-END
			revdedupctl: '$PWD/etc/revdedup.conf', line 4: $2
			revdedupctl: nothing was done; revdedup.conf(5) lists the settings
		END
	done
	must --config /dev/null --pool pool list
	[ "$output" = "$before" ]
}

@test "config: option, environment, file, default" {
	make_pool 64M
	must init other --size 64M
	must init third --size 64M
	unset REVDEDUP_POOL
	truncate -s 1M a.img
	for pool in pool other third; do
		must -p $pool snapshot $pool --from a.img
	done
	setting pool "" default
	config "[general]" "pool = $PWD/pool"
	must list
	[[ $output == *pool@1* ]]
	setting pool "$PWD/pool" "$PWD/etc/revdedup.conf"
	REVDEDUP_POOL=other must list
	[[ $output == *other@1* ]]
	REVDEDUP_POOL=$PWD/other setting pool "$PWD/other" REVDEDUP_POOL
	REVDEDUP_POOL=other must list --pool third
	[[ $output == *third@1* ]]
	# A variable that lost its value was to name some other pool.
	REVDEDUP_POOL="" ctl list
	[ "$status" -eq 2 ]
	[[ $output == *"no pool given"* ]]
	# Another file, which must be there.
	printf '[general]\npool = %s/other' "$PWD" >mine.conf
	must list --config mine.conf
	[[ $output == *other@1* ]]
	ctl list --config none.conf
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "revdedupctl: cannot read the settings in 'none.conf': No such file or directory" ]
	ctl list --config .
	[ "$status" -eq 1 ]
	must config
	[[ ${lines[1]} =~ ^general\ +pool\ +$PWD/pool\ +$PWD/etc/revdedup.conf,\ line\ 2$ ]]
}

@test "config: limits are those of the options" {
	make_pool 64M
	config "[general]" " lock-wait=0 " "; a comment" "[snapshot]" "hook-timeout	=	7" "cow-size = 8G"
	setting lock-wait 0 "$PWD/etc/revdedup.conf"
	setting hook-timeout 7 "$PWD/etc/revdedup.conf"
	setting cow-size 8G "$PWD/etc/revdedup.conf"
	setting keep-daily "" default
	# A command that waits for a lock shows which time counts.
	config "[general]" "lock-wait = 1"
	truncate -s 1M a.img
	must snapshot vm1 --from a.img
	hold 5 1
	begun=$SECONDS
	ctl delete vm1@1
	[ "$status" -eq 11 ]
	[ $((SECONDS - begun)) -ge 1 ]
	# Or it would wait for longer than the lock is held.
	config "[general]" "lock-wait = 1000"
	ctl delete vm1@1 --lock-wait 0
	[ "$status" -eq 11 ]
	# An option that went says for one release what it is now.
	ctl delete vm1@1 --retry-lock 0
	[ "$status" -eq 2 ]
	[[ $output == *"'--retry-lock' is '--lock-wait' now"* ]]
}

@test "config: settings for attached volumes do not refuse images" {
	make_pool 64M
	truncate -s 1M a.img
	config "[snapshot]" "cow-size = 8G" "hook-timeout = 7"
	must snapshot vm1 --from a.img
	ctl snapshot vm1 --from a.img --cow-size 8G
	[ "$status" -eq 2 ]
	[[ $output == *"--cow-size and --hook-timeout are for a volume that is attached"* ]]
}

# --rate of a scrub, which is meant for every night, made a restore as slow.
@test "config: what a section sets is for its command only" {
	local before
	make_pool 64M
	head -c 12M /dev/urandom >1.img
	must snapshot vm1 --from 1.img
	config "[scrub]" "rate = 1M" "[dedup]" "rate = 1M"
	before=$(date +%s%N)
	plainly must restore vm1@1 --to back
	plainly must snapshot vm2 --from 1.img
	# With that rate the restore alone takes twelve.
	[ $((($(date +%s%N) - before) / 1000000)) -lt 10000 ]
	must dedup
	must scrub
	[ $((($(date +%s%N) - before) / 1000000)) -ge 6000 ]
}

@test "config: prune keeps what the file says, and says so" {
	make_versions
	ctl prune
	[ "$status" -eq 2 ]
	[[ $output == *"no rule says what to keep"*"'$PWD/etc/revdedup.conf'"* ]]
	config "[retention]" "keep-last = 1" "keep-tag = gold" "keep-tag = silver"
	must tag vm1@1 +silver
	must prune --dry-run
	[ "${lines[0]}" = "rules of '$PWD/etc/revdedup.conf': keep-last 1, keep-tag gold, keep-tag silver" ]
	grep -q "^would delete *vm1@2 " <<<"$output"
	[ "$(grep -c "^would delete *vm1@" <<<"$output")" -eq 1 ]
	must prune --dry-run --json
	[ "$(field 0 '["rule"]') $(field 0 '["value"]')" = "keep-last 1" ]
	# One rule replaces all of them.
	must prune --dry-run --keep-last 2
	[[ $output != *rules* ]]
	grep -q "^would delete *vm1@1 " <<<"$output"
	[ "$(grep -c "^would delete *vm1@" <<<"$output")" -eq 1 ]
	# They hold even then.
	must prune vm1 --unsafe-allow-remove-all -q
	must list
	[[ $output == *vm1@1* && $output != *vm1@2* && $output == *vm1@3* ]]
}

@test "config: a mistake is an error with a line, and nothing is done" {
	make_versions
	unset REVDEDUP_POOL
	refused "poool = /x" "section 'general' has no key 'poool'; did you mean 'pool'?"
	refused "keep-daily = 7" "'keep-daily' belongs to the section 'retention'"
	refused "keep-dialy = 7" "section 'general' has no key 'keep-dialy'"
	config "[general]" "[retentoin]" "keep-last = 1"
	ctl prune
	[ "$status" -eq 2 ]
	[[ $output == *"line 3: there is no section 'retentoin'; did you mean 'retention'?"* ]]
}

@test "config: lines that are not understood" {
	make_versions
	unset REVDEDUP_POOL
	refused "nonsense" "it is not 'KEY = VALUE', '[SECTION]' or '# comment'"
	refused "[general" "a section is '[NAME]'"
	refused "[General]" "the name of a section has letters a-z, digits and -"
	refused "lock-wait =" "the key has no value"
	refused "lock wait = 1" "a key has letters a-z, digits and -"
	refused "pool = /x" "'pool' is there twice"
	refused "lock-wait = soon" "'lock-wait' needs a number from 0 to 2592000, not 'soon'"
	refused "lock-wait = 1 # second" "'lock-wait' needs a number from 0 to 2592000, not '1 # second'"
	refused $'lock-wait = 1\tx' "'lock-wait' needs a number from 0 to 2592000, not '1	x'"
	config "pool = /x"
	ctl list
	[[ $output == *"line 1: the key stands before the first '[SECTION]'"* ]]
	for line in "keep-within = soon" "keep-within = 0d" "keep-last = 0" "keep-tag = 7" "keep-daily = -1"; do
		config "[retention]" "$line"
		ctl prune
		[ "$status" -eq 2 ]
		[[ $output == *"line 2: '${line%% *}' needs "* ]]
	done
	config "[general]" "pool = pool"
	ctl list
	[[ $output == *"line 2: 'pool' needs a path that begins with '/', not 'pool'"* ]]
	printf '[general]\npool = /x\0y\n' >etc/revdedup.conf
	ctl list
	[[ $output == *"line 2: it contains a zero byte"* ]]
}

@test "config: what a host needs at boot does not read it" {
	config "nonsense"
	must attach --all
	must help
	must init pool --size 64M
	ctl list --pool pool
	[ "$status" -eq 2 ]
}

@test "config: a mistake hides no volume from status" {
	make_pool 64M
	config "nonsense"
	ctl status
	[ "$status" -eq 2 ]
	[[ $output == *"line 1: it is not 'KEY = VALUE'"*"no setting counts; revdedup.conf(5)"* ]]
	[[ $output == *"pool '$PWD/pool'"*"no volume is attached on this host"* ]]
	unset REVDEDUP_POOL
	ctl status
	[ "$status" -eq 2 ]
	[[ $output == *"no volume is attached on this host"* && $output != *"no pool named"* ]]
	ctl status vg/vm1
	[ "$status" -eq 2 ]
	[[ $output == *"'vg/vm1' is not attached"* ]]
	ctl status --config none.conf
	[ "$status" -eq 1 ]
	[[ $output == *"cannot read the settings in 'none.conf'"*"no volume is attached"* ]]
}

@test "config: metrics go to the file only for those who ask" {
	make_pool 64M
	config "[metrics]" "output = $PWD/x.prom"
	must metrics
	[[ $output == *revdedup_pool_up* ]]
	[ ! -e x.prom ]
	must metrics --textfile
	[ -z "$output" ]
	grep -q revdedup_pool_up x.prom
	must metrics --textfile --output y.prom
	[ -s y.prom ]
}

@test "config: the file that is installed is right, and sets only limits of dedup" {
	make_versions
	mkdir etc
	cp "$BATS_TEST_DIRNAME/../../systemd/revdedup.conf" etc
	must config
	[ "$(grep "revdedup.conf, line" <<<"$output" | awk '{ printf "%s %s,", $2, $3 }')" = \
		"rate 100M,time 4h," ]
	# Limits of the settings are no reason to fail, and wrong ones are told of.
	must dedup
	config "[dedup]" "rate = fast"
	ctl config
	[ "$status" -eq 2 ]
	[[ $output == *"'rate' needs a size such as 500M or 10G, not 'fast'"* ]]
	config "[dedup]" "rate = 1000K"
	ctl config
	[ "$status" -eq 2 ]
	[[ $output == *"'rate' needs at least 1M, not '1000K'"* ]]
	config "[boot]" "memory = 1M"
	ctl config
	[ "$status" -eq 2 ]
	[[ $output == *"'memory' needs at least 16M, not '1M'"* ]]
	config "[dedup]" "time = 1d"
	ctl config
	[[ $output == *"'time' needs a time such as 90s, 30m or 2h, not '1d'"* ]]
	cp "$BATS_TEST_DIRNAME/../../systemd/revdedup.conf" etc
	ctl prune
	[ "$status" -eq 2 ]
	# What it shows as comments is right as well.
	sed -i 's/^#\([a-z]\)/\1/' etc/revdedup.conf
	must config
	[ "$(grep -c "revdedup.conf, line" <<<"$output")" -eq 21 ]
	must prune --dry-run
	[[ $output == *"keep-monthly 12"* ]]
}
