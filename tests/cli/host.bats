#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The parts of the host's side that need no device: metrics of a pool, and installed files.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a subshell; lib.bash
load lib

setup() {
	cli_setup
	top=$BATS_TEST_DIRNAME/../..
	export REVDEDUP_CONFIG=$PWD/etc
	unset REVDEDUP_POOL
}

teardown() { cli_teardown ""; }

ctl() { run "$build/bin/revdedupctl" "$@"; }

# number METRIC{LABELS} NUMBER: so it is in the output.
number() { grep -xF "revdedup_$1 $2" <<<"$output"; }

is_good() { awk -f "$top/tests/guest/host/prometheus.awk" <<<"$output"; }

@test "metrics: numbers of a pool, as Prometheus reads them" {
	ctl metrics
	[ "$status" -eq 0 ]
	is_good
	[[ $output != *pool* ]]

	export REVDEDUP_POOL=$PWD/'a "pool"'
	ctl init --compression none "$REVDEDUP_POOL" --size 1G
	dd if=/dev/urandom of=image bs=1M count=3 status=none
	ctl snapshot vm1 --from image
	ctl snapshot vm1 --from image
	ctl snapshot vg/vm-2 --from image
	now=$(date +%s)
	ctl metrics
	echo "$output"
	[ "$status" -eq 0 ]
	is_good
	label="{pool=\"$PWD/a \\\"pool\\\"\"}"
	number "pool_up$label" 1
	number "pool_data_bytes$label" $((3 << 20))
	number "pool_logical_bytes$label" $((9 << 20))
	number "pool_held_versions$label" 0
	number 'volume_versions{volume="vm1"}' 2
	number 'volume_versions{volume="vg/vm-2"}' 1
	number 'volume_latest_bytes{volume="vm1"}' $((3 << 20))
	number 'volume_latest_stored_bytes{volume="vm1"}' 0
	at=$(sed -n 's/^revdedup_volume_latest_timestamp_seconds{volume="vm1"} //p' <<<"$output")
	[ $((now - at)) -ge 0 ]
	[ $((now - at)) -lt 60 ]
}

# bats test_tags=slow
@test "metrics: what the last scrub found" {
	local label
	export REVDEDUP_POOL=$PWD/pool
	label="{pool=\"$REVDEDUP_POOL\"}"
	ctl init --compression none "$REVDEDUP_POOL" --size 1G
	dd if=/dev/urandom of=image bs=1M count=3 status=none
	ctl snapshot vm1 --from image
	ctl metrics
	[[ $output != *scrub* ]]
	ctl scrub
	[ "$status" -eq 0 ]
	touch -d @1700000000 pool/last-scrub
	ctl metrics
	is_good
	number "pool_scrub_timestamp_seconds$label" 1700000000
	number "pool_scrub_damaged_versions$label" 0
	number "pool_scrub_damaged_fingerprints$label" 0

	# Of a volume alone it is not said.
	damage image 0
	ctl scrub vm1
	[ "$status" -eq 4 ]
	ctl repair --dry-run
	ctl metrics
	number "pool_scrub_timestamp_seconds$label" 1700000000
	ctl scrub
	[ "$status" -eq 4 ]
	ctl metrics
	is_good
	number "pool_scrub_damaged_versions$label" 1
	[ "$(stat -c %Y pool/last-scrub)" -gt 1700000000 ]

	ctl repair --from image
	[ "$status" -eq 0 ]
	ctl metrics
	number "pool_scrub_damaged_versions$label" 0
	# Without a scrub that can be noted all else is as it is.
	mkdir not && mv pool/last-scrub not && mkdir pool/last-scrub
	ctl scrub
	[ "$status" -eq 0 ]
	[[ $output == *"cannot write '"*"last-scrub': 'status' and 'metrics' will not show this run"* ]]
	ctl metrics
	[ "$status" -eq 0 ]
	[[ $output == *"last-scrub' is a directory, and not a file"* ]]
	output=$("$build/bin/revdedupctl" metrics 2>/dev/null)
	is_good
	[[ $output != *scrub* ]]
}

@test "scrub in parts: each goes on, together they read all, and what one found stays said" {
	local nr found=0 ended=0
	export REVDEDUP_POOL=$PWD/pool
	ctl init --compression none "$REVDEDUP_POOL" --size 1G
	dd if=/dev/urandom of=image bs=1M count=40 status=none
	ctl snapshot vm1 --from image
	ctl scrub --sample 30%
	[ "$status" -eq 0 ]
	[[ $output == "scrub OK: "*" read, "[34]?" % of the pool so far, no version damaged" ]]
	ctl status
	[[ $output == *"  last scrub:  never"*"  next scrub:  goes on at "[34]?" %, begun 20"* ]]
	ctl status --json
	[[ $output == *'"scrub_part": {"percent": '[34]?', "since": '* ]]
	# One that reads all needs no rest.
	ctl scrub --sample 0
	[[ $output == "scrub OK: 1 version, "* ]]
	ctl status
	[[ $output != *"next scrub"* ]]
	damage image 5000
	for ((nr = 1; nr <= 4; nr++)); do
		ctl scrub --sample 30%
		echo "$output"
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ]
		found=$((found + (status == 4)))
		[[ $output != *"the last part of the pool"* ]] || { ended=$nr; break; }
	done
	[ "$found" -eq 1 ]
	[ "$ended" -ge 3 ]
	ctl status
	[[ $output == *"  last scrub:  "*", 1 damaged versions"* ]]
	[[ $output != *"next scrub"* ]]
	ctl repair --from image
	ctl status
	[[ $output == *"  last scrub:  "*", no damage"* ]]
	ctl scrub --sample 20M --json
	[[ $output == *'"bytes_read": 33554432, "percent_so_far": 80}' ]]
	ctl scrub --time 1h
	[[ $output == *"the last part of the pool, no version damaged" ]]
	for wrong in "vm1 --sample 5%" "--sample 200%" "--sample x" "vm1 --time 1h"; do
		# shellcheck disable=SC2086 # two words
		ctl scrub $wrong
		[ "$status" -eq 2 ]
	done
	echo next rubbish >pool/scrub-part
	ctl scrub --sample 30%
	[[ $output == *" % of the pool so far"* ]]
}

@test "status, metrics: when a pass last came to its end" {
	local label
	export REVDEDUP_POOL=$PWD/pool
	label="{pool=\"$REVDEDUP_POOL\"}"
	ctl init --compression none "$REVDEDUP_POOL" --size 1G
	dd if=/dev/urandom of=image bs=1M count=3 status=none
	ctl snapshot vm1 --from image
	ctl metrics
	[[ $output != *pool_dedup* ]]
	ctl dedup -n
	ctl status
	[[ $output == *"  last dedup:  never"* ]]
	ctl dedup
	[ "$status" -eq 0 ]
	touch -d @1700000000 pool/last-dedup
	ctl metrics
	is_good
	number "pool_dedup_timestamp_seconds$label" 1700000000
	ctl status
	[[ $output == *"  last dedup:  2023-11-"* ]]
	ctl status --json
	[[ $output == *'"last_dedup": 1700000000,'* ]]
	ctl dedup
	[ "$(stat -c %Y pool/last-dedup)" -gt 1700000000 ]
}

@test "install: no unit activates volume groups, and none runs where nothing is configured" {
	local unit line conf
	fails() { ! "$@"; }
	fails grep -r vgchange "$top/systemd"
	# What the conditions read.
	conf=$PWD/revdedup.conf
	conditions() {
		sed -n 's/^ExecCondition=//p' "$top/systemd/revdedup-$1.service" |
			sed "s|/etc/revdedup/revdedup.conf|$conf|"
	}
	may_run() {
		while IFS= read -r line; do
			bash -c "$line" || return
		done < <(conditions "$1")
	}
	for unit in prune scrub dedup metrics; do
		[ -n "$(conditions $unit)" ]
		fails may_run $unit
	done
	cp "$top/systemd/revdedup.conf" "$conf"
	for unit in prune scrub dedup metrics; do
		fails may_run $unit
	done
	sed -i 's|^#pool =|pool =|; s|^#output =|output =|' "$conf"
	may_run scrub
	may_run dedup
	may_run metrics
	fails may_run prune
	sed -i 's|^#keep-daily =|keep-daily =|' "$conf"
	may_run prune
	# The settings that it comes with are understood.
	ctl config --config "$conf"
	[ "$status" -eq 0 ]
	[[ $output == *"dedup      rate           100M "*"dedup      time           4h "* ]]
}

@test "a file of an attachment that is about another volume is for nobody" {
	local command
	mkdir -p etc/volumes
	cat >etc/volumes/revdedup-vg-vm2 <<-'END'
		volume=vg/vm1
		uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427
		base=/dev/vg/vm1
		meta=/dev/vg/vm1_rdmeta
	END
	for command in status "attach vg/vm2" "detach vg/vm2" "snapshot vg/vm2"; do
		# shellcheck disable=SC2086 # words
		ctl $command
		echo "$output"
		[ "$status" -eq 1 ]
		[[ $output == *"revdedup-vg-vm2' describes 'vg/vm1'"* ]]
	done
	ctl attach --all
	[ "$status" -eq 3 ]
	ctl metrics
	number attachments_up 0
	rm etc/volumes/*
	ctl metrics
	number attachments_up 1
}

@test "detach: an unfinished clone whose pool is gone is not detached" {
	mkdir -p etc/volumes
	cat >etc/volumes/revdedup-vg-vm1 <<-END
		volume=vg/vm1
		uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427
		base=/dev/vg/vm1
		meta=/dev/vg/vm1_rdmeta
		pool=$PWD/gone
		unfinished=yes
	END
	ctl detach vg/vm1
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"nothing was changed"*"'revdedupctl detach --force vg/vm1'"* ]]
	[[ $output != *detached* ]]
	[ -e etc/volumes/revdedup-vg-vm1 ]
}

@test "metrics: a file is there as a whole, or as it was" {
	mkdir out
	ctl metrics --output out/x.prom
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ "$(ls -A out)" = x.prom ]
	[ "$(stat -c %a out/x.prom)" = 644 ]
	# Without the pool it says so, and fails.
	ctl metrics --pool nowhere --output out/x.prom
	[ "$status" -eq 10 ]
	output=$(<out/x.prom)
	is_good
	number 'pool_up{pool="nowhere"}' 0
	[[ $output != *pool_data* ]]
	# What is no file is not replaced by one, and a link stays.
	mkfifo out/pipe
	ln -s x.prom out/link
	cat out/pipe >text &
	ctl metrics --output out/pipe
	wait $!
	[ -p out/pipe ]
	grep -q revdedup_build_info text
	ctl metrics --output out/link
	[ -L out/link ]
	[ "$(stat -c %h-%a out/x.prom)" = 1-644 ]
	rm out/pipe out/link
	# Nowhere to write.
	ctl metrics --output none/x.prom
	[ "$status" -eq 1 ]
	[[ $output == *"cannot write 'none/x.prom'"* ]]
	mkdir out/y.prom
	ctl metrics --output out/y.prom
	[ "$status" -eq 1 ]
	[ "$(find out -mindepth 1 | sort)" = "out/x.prom
out/y.prom" ]
	ctl metrics --json
	[ "$status" -eq 2 ]
	run bash -c "'$build/bin/revdedupctl' metrics >/dev/full"
	[ "$status" -eq 1 ]
}

@test "snapshot --all: with nothing attached, and what it does not take" {
	ctl snapshot --all
	[ "$status" -eq 0 ]
	[[ $output == *"no volume is attached"* ]]
	ctl snapshot
	[ "$status" -eq 2 ]
	ctl snapshot --all vm1
	[ "$status" -eq 2 ]
	ctl snapshot --all --changed list
	[ "$status" -eq 2 ]
	ctl snapshot --all --tag 7
	[ "$status" -eq 2 ]
	ctl status
	[ "$status" -eq 0 ]
	# What was attached once, and nobody can read: others would be shown.
	mkdir -p etc/volumes
	echo nonsense >etc/volumes/revdedup-vm1
	ctl status
	[ "$status" -eq 1 ]
	[[ $output == *"cannot understand the line 'nonsense'"* ]]
}

@test "status: without volumes it says what there is" {
	local pid
	ctl status
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "no pool named: --pool, REVDEDUP_POOL or '"*"revdedup.conf' names one" ]]
	[ "${lines[1]}" = "no volume is attached on this host" ]
	ctl status --pool nowhere
	[ "$status" -eq 10 ]
	[[ $output == *"'nowhere' is not a pool"* ]]
	[[ $output == *"no volume is attached on this host"* ]]

	export REVDEDUP_POOL=$PWD/pool
	ctl init --compression none "$REVDEDUP_POOL" --size 1G
	ctl status
	[ "$status" -eq 0 ]
	[[ $output == *"versions:    0 of 0 volumes"*"last check:  never"*"last scrub:  never"* ]]
	dd if=/dev/urandom of=image bs=1M count=3 status=none
	ctl snapshot vm1 --from image
	ctl check
	damage image 0
	ctl scrub
	"$BATS_TEST_DIRNAME/edit-catalog.py" pool/catalog.db \
		"INSERT INTO lease VALUES(1, 'REVDEDUP-a', 1, 1, 0)"
	# A command that only reads: it waits for us.
	mkfifo fifo
	"$build/bin/revdedupctl" dump vm1@1 >fifo 2>/dev/null 3>&- &
	pid=$!
	exec 4<fifo
	head -c 1 <&4 >/dev/null
	ctl status
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "pool '$PWD/pool'" ]
	[ "${lines[1]}" = "  versions:    1 of 1 volume" ]
	[[ ${lines[2]} == "  newest:      vm1@1, 20"* ]]
	[ "${lines[3]}" = "  stored:      3.0 MiB" ]
	[[ ${lines[4]} == "  free:        "* ]]
	[[ ${lines[5]} == "  last check:  20"*", catalog OK" ]]
	[[ ${lines[6]} == "  last scrub:  20"*", 1 damaged versions, "* ]]
	[ "${lines[7]}" = "  last dedup:  never" ]
	[ "${lines[8]}" = "  in use:      vm1@1, read by REVDEDUP-a" ]
	[ "${lines[9]}" = "  running:     $build/bin/revdedupctl dump vm1@1 (pid $pid)" ]
	[ "${lines[10]}" = "no volume is attached on this host" ]
	ctl status --json
	[ "$status" -eq 0 ]
	python3 -c 'import json, sys
said = json.loads(sys.argv[1])
assert said["type"] == "pool_status" and said["newest"] == "vm1@1"
assert said["bytes_free"] == min(said["bytes_free_limit"], said["bytes_free_filesystem"])
assert said["last_check"]["catalog_errors"] == 0 and said["last_scrub"]["versions_damaged"] == 1
assert said["in_use"] == [{"version": "vm1@1", "deleted": False, "reader": "REVDEDUP-a",
                           "mounted": None}]
assert [one["pid"] for one in said["running"]] == [int(sys.argv[2])]' "$output" "$pid"
	cat <&4 >/dev/null
	exec 4<&-
	wait "$pid" || :
	ctl status
	[[ $output != *running:* ]]
	ctl status -q
	[ -z "$output" ]
}

@test "stats, metrics: the space that there is, not that of a sparse file" {
	local left
	[ "$(id -u)" -eq 0 ] || skip "needs root to mount"
	mkdir mnt
	mount -t tmpfs -o size=100M none mnt || skip "cannot mount"
	export REVDEDUP_POOL=$PWD/mnt/pool
	ctl init --compression none "$REVDEDUP_POOL" --size 10G
	ctl stats --json
	left=$(stat -f -c '%a * %S' mnt)
	python3 -c 'import json, sys
said = json.loads(sys.argv[1].splitlines()[-1])
assert said["bytes_free"] == said["bytes_free_filesystem"] < 100 << 20 < said["bytes_free_limit"]
assert abs(said["bytes_free"] - int(sys.argv[2])) < 1 << 20' "$output" "$((left))"
	ctl stats
	[[ $output == *"free:     "*" MiB on the file system (pool limit: "*" GiB more)"* ]]
	ctl metrics
	[ "$(sed -n 's/^revdedup_pool_free_bytes.* //p' <<<"$output")" -lt $((100 << 20)) ]
	# And the other way round.
	umount mnt
	REVDEDUP_POOL=$PWD/small
	ctl init --compression none small --size 64M
	ctl stats
	[[ $output == *"free:     "*" MiB until the pool's limit ("*" on the file system)"* ]]
}

@test "install: programs, units and rules are where they are looked for" {
	cp -a "$top"/{Makefile,userspace,kernel,systemd,Documentation,scripts,Kbuild} .
	mkdir build
	cp -a "$top/build/bin" build
	run make -s install-programs install-host install-module DESTDIR="$PWD/root"
	echo "$output"
	[ "$status" -eq 0 ]
	cd root || return
	[ -x usr/local/sbin/revdedupctl ]
	for page in man8/{revdedupctl,revdedup-meta,revdedup-expert}.8 man5/revdedup.conf.5; do
		[ -s "usr/local/share/man/$page" ]
	done
	grep -q '^ExecStart=/usr/local/sbin/revdedupctl attach --all' \
		usr/local/lib/systemd/system/revdedup-attach.service
	[ -s usr/local/lib/udev/rules.d/56-revdedup.rules ]
	[ -s usr/local/lib/udev/rules.d/63-revdedup.rules ]
	bash -c '. usr/local/share/bash-completion/completions/revdedupctl; complete -p revdedupctl'
	head -n 1 usr/local/share/zsh/site-functions/_revdedupctl | grep -qx '#compdef revdedupctl'
	[ -s usr/local/share/fish/vendor_completions.d/revdedupctl.fish ]
	echo mine >etc/revdedup/revdedup.conf
	cd ..
	make -s install-host DESTDIR="$PWD/root"
	[ "$(<root/etc/revdedup/revdedup.conf)" = mine ]
	make -s uninstall DESTDIR="$PWD/root"
	[ "$(find root -type f)" = root/etc/revdedup/revdedup.conf ]
	# Where device mapper's rules are 10-dm.rules and 13-dm-disk.rules.
	make -s install-host UDEVFIRST=12 DESTDIR="$PWD/root"
	[ "$(cd root/usr/local/lib/udev/rules.d && echo *)" = "12-revdedup.rules 63-revdedup.rules" ]
	# The two numbers that are kept by hand.
	grep -q "^revdedup ($(sed -n 's/^VERSION := //p' Makefile)) " "$top/debian/changelog"
}

@test "install: units say what revdedupctl understands" {
	for unit in "$top"/systemd/*.service; do
		# That one runs a program of its own, see host-installed.bats.
		[[ $unit != *failure@* ]] || continue
		grep -o '/usr/sbin/revdedupctl [^;&]*' "$unit" >lines
		while read -r -a line; do
			echo "${line[*]}"
			ctl help "${line[1]}"
			[ "$status" -eq 0 ]
			for word in "${line[@]:2}"; do
				[[ $word != --* || $output == *" $word "* ]]
			done
		done <lines
	done
}

# systemd sends the signal to all, and once more where the shell ends before the others.
@test "install: a stop ends what the unit of the pass is at, and begins nothing else" {
	local code=0 pid
	cat >stub <<-END
		#!/bin/sh
		trap 'sleep 0.5; echo ended >>"$PWD/log"; exit 130' TERM
		echo "\$1" >>'$PWD/log'
		sleep 30 &
		wait
	END
	chmod +x stub
	sed -n '/^ExecStart=/,/[^\]$/ {
		s/^ExecStart=/exec /
		s/\$\$/$/g
		s|/usr/sbin/revdedupctl|'"$PWD/stub"'|
		p
	}' "$top/systemd/revdedup-dedup.service" >script
	setsid sh script 3>&- &
	pid=$!
	for _ in {1..100}; do
		[ ! -s log ] || break
		sleep 0.1
	done
	kill -- "-$pid"
	wait "$pid" || code=$?
	cat log
	[ "$code" -eq 130 ]
	[ "$(paste -sd " " log)" = "trim ended" ]
}
