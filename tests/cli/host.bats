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
	ctl init "$REVDEDUP_POOL" --size 1G
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

@test "metrics: what the last scrub found" {
	local label
	export REVDEDUP_POOL=$PWD/pool
	label="{pool=\"$REVDEDUP_POOL\"}"
	ctl init "$REVDEDUP_POOL" --size 1G
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
	[[ $output == *"cannot write '"*"last-scrub': 'metrics' will not show this run"* ]]
	ctl metrics
	[ "$status" -eq 0 ]
	is_good
	[[ $output != *scrub* ]]
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

@test "install: programs, units and rules are where they are looked for" {
	cp -r "$top"/{Makefile,userspace,kernel,systemd,Documentation,scripts,Kbuild} .
	mkdir build
	cp -r "$top/build/bin" build
	run make -s install-programs install-host install-module DESTDIR="$PWD/root"
	echo "$output"
	[ "$status" -eq 0 ]
	cd root || return
	[ -x usr/local/sbin/revdedupctl ]
	for page in man8/revdedupctl.8 man8/revdedup-meta.8 man5/revdedup.conf.5; do
		[ -s usr/local/share/man/$page ]
	done
	grep -q '^ExecStart=/usr/local/sbin/revdedupctl attach --all' \
		usr/local/lib/systemd/system/revdedup-attach.service
	[ -s usr/local/lib/udev/rules.d/56-revdedup.rules ]
	bash -c '. usr/local/share/bash-completion/completions/revdedupctl; complete -p revdedupctl'
	head -n 1 usr/local/share/zsh/site-functions/_revdedupctl | grep -qx '#compdef revdedupctl'
	[ -s usr/local/share/fish/vendor_completions.d/revdedupctl.fish ]
	echo mine >etc/revdedup/revdedup.conf
	cd ..
	make -s install-host DESTDIR="$PWD/root"
	[ "$(<root/etc/revdedup/revdedup.conf)" = mine ]
	make -s uninstall DESTDIR="$PWD/root"
	[ "$(find root -type f)" = root/etc/revdedup/revdedup.conf ]
	# The two numbers that are kept by hand.
	grep -q "^revdedup ($(sed -n 's/^VERSION := //p' Makefile)) " "$top/debian/changelog"
}

@test "install: units say what revdedupctl understands" {
	for unit in "$top"/systemd/*.service; do
		# shellcheck disable=SC2016 # not for this shell
		read -r -a line < <(sed -n 's/^ExecStart=//p' "$unit")
		# That one runs a program of its own, see host-installed.bats.
		[[ $unit != *failure@* ]] || continue
		echo "${line[*]}"
		[ "${line[0]}" = /usr/sbin/revdedupctl ]
		ctl help "${line[1]}"
		[ "$status" -eq 0 ]
		for word in "${line[@]:2}"; do
			[[ $word != --* || $output == *" $word "* ]]
		done
	done
}
