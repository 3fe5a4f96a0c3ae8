#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl tune, and --pieces and --dedup of init and snapshot: rules of pools and volumes.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool
load old-catalog
bats_require_minimum_version 1.5.0

# super: incompatible features, dedup and pieces, of both superblocks.
super() {
	python3 -c 'import struct
with open("pool/data", "rb") as data:
    for at in 0, 1 << 20:
        data.seek(at)
        block = data.read(4096)
        print(*struct.unpack_from("<Q", block, 80), *struct.unpack_from("<BxH", block, 90),
              end=";")'
}

@test "tune: the pool's rule" {
	make_pool 128M
	ctl tune
	expect 0 <<<"pool: pieces 1, dedup reverse"
	[ "$(super)" = "0 0 1;0 0 1;" ]
	cp pool/data data
	ctl tune --pieces 1 --dedup reverse
	expect 0 <<<"pool: pieces 1, dedup reverse"
	ctl tune --json
	expect 0 <<<'{"type": "tune", "volume": null, "pieces": 1, "dedup": "reverse", "own": true}'
	# Other programs may use it as before.
	[[ $(super) == "0 "* ]]
	ctl tune --pieces 64
	expect 0 <<<"pool: pieces 64, dedup reverse"
	[ "$(super)" = "2 0 64;2 0 64;" ]
	# What is not named stays.
	ctl tune --dedup inline
	expect 0 <<<"pool: pieces 64, dedup inline"
	[ "$(super)" = "2 1 64;2 1 64;" ]
	must tune -q --pieces 512
	[ -z "$output" ]
	must grow --size 2G
	[ "$(super)" = "2 1 512;2 1 512;" ]
	must repair --rebuild-catalog
	must check
	# The feature stays, as versions may need it.
	must tune --pieces 1 --dedup reverse
	[[ $(super) == "2 0 "* ]]
}

@test "tune: init says it, too" {
	must init --compression none pool --size 64M --pieces 8 --dedup inline
	[ "$(super)" = "2 1 8;2 1 8;" ]
	must -p pool check
	ctl -p pool tune --json
	expect 0 <<<'{"type": "tune", "volume": null, "pieces": 8, "dedup": "inline", "own": true}'
	rm -r pool
	must init --compression none pool --size 64M --pieces 1 --dedup reverse
	[[ $(super) == "0 0 "* ]]
	rm -r pool
	must init --compression none pool --size 64M --dedup inline
	[[ $(super) == "2 1 "* ]]
	ctl -p pool tune
	expect 0 <<<"pool: pieces 1, dedup inline"
}

# bats test_tags=slow
@test "tune: what it does not take" {
	local value verb
	make_pool 64M
	truncate -s 4M 1.img
	must snapshot vm1 --from 1.img
	cp pool/data data
	for value in 0 -1 513 99999999999999999999 1x 01 "" " 1" +1 1.5 AUTO; do
		for verb in "init other" tune "tune vm1" "snapshot vm1 --from 1.img"; do
			# shellcheck disable=SC2086 # words
			ctl $verb --pieces "$value"
			expect 2 <<<"revdedupctl: --pieces is auto, or a number from 1 to 512, not '$value' (try 'revdedupctl help ${verb%% *}')"
		done
		[ ! -e other ]
	done
	for value in none Inline "" "inline "; do
		for verb in "init other" tune "snapshot vm1 --from 1.img"; do
			# shellcheck disable=SC2086 # words
			ctl $verb --dedup "$value"
			expect 2 <<<"revdedupctl: --dedup is reverse or inline, not '$value' (try 'revdedupctl help ${verb%% *}')"
		done
		[ ! -e other ]
	done
	ctl snapshot vm1 --from 1.img --pieces auto
	expect 2 <<<"revdedupctl: --pieces auto is for init and tune (try 'revdedupctl help snapshot')"
	for value in "--reset" "vm1 --reset --pieces 8" "vm1 --reset --dedup inline"; do
		# shellcheck disable=SC2086 # words
		ctl tune $value
		expect 2 <<<"revdedupctl: --reset is for a volume, without --pieces and --dedup (try 'revdedupctl help tune')"
	done
	for value in "" "--pieces 8" "--reset"; do
		# shellcheck disable=SC2086 # words
		ctl tune vm2 $value
		[ "$status" -eq 1 ]
		[[ $output == "revdedupctl: there is no volume 'vm2' in the pool"* ]]
	done
	ctl tune vm1 vm2
	[ "$status" -eq 2 ]
	for verb in list check "restore vm1@1 --to x"; do
		# shellcheck disable=SC2086 # words
		ctl $verb --pieces 8
		[ "$status" -eq 2 ]
	done
	cmp pool/data data
}

@test "tune: a volume's rule" {
	make_versions
	ctl tune vm1
	expect 0 <<<"vm1: pieces 1, dedup reverse (as the pool)"
	ctl tune vm1 --json
	expect 0 <<<'{"type": "tune", "volume": "vm1", "pieces": 1, "dedup": "reverse", "own": false}'
	ctl tune vm1 --pieces 8
	expect 0 <<<"vm1: pieces 8, dedup reverse"
	[[ $(super) == "2 0 "* ]]
	must snapshot vm2 --from 1.img
	must tune --pieces 64 --dedup inline
	ctl tune
	expect 0 <<-'OUT'
		pool: pieces 64, dedup inline
		vm1: pieces 8, dedup reverse
	OUT
	ctl tune --json
	expect 0 <<-'OUT'
		{"type": "tune", "volume": null, "pieces": 64, "dedup": "inline", "own": true}
		{"type": "tune", "volume": "vm1", "pieces": 8, "dedup": "reverse", "own": true}
	OUT
	ctl tune vm2
	expect 0 <<<"vm2: pieces 64, dedup inline (as the pool)"
	# It is in the pool's copy of the catalog.
	must repair --rebuild-catalog
	must check
	ctl tune vm1
	expect 0 <<<"vm1: pieces 8, dedup reverse"
	# What is not named stays as it was for the volume.
	must tune vm2 --dedup reverse
	ctl tune vm2
	expect 0 <<<"vm2: pieces 64, dedup reverse"
	ctl tune vm1 --reset
	expect 0 <<<"vm1: pieces 64, dedup inline (as the pool)"
	must repair --rebuild-catalog
	ctl tune
	expect 0 <<-'OUT'
		pool: pieces 64, dedup inline
		vm2: pieces 64, dedup reverse
	OUT
	must check
}

@test "tune: a volume's rule that is the usual one" {
	make_versions
	# It is in the journal, which programs without rules cannot read then.
	must tune vm1 --pieces 1
	[[ $(super) == "2 0 1;2 0 1;" ]]
	ctl tune
	expect 0 <<-'OUT'
		pool: pieces 1, dedup reverse
		vm1: pieces 1, dedup reverse
	OUT
	must repair --rebuild-catalog
	must check
	ctl tune vm1
	expect 0 <<<"vm1: pieces 1, dedup reverse"
}

@test "tune: inline in 1 piece has no effect, and that is said" {
	local hint="revdedupctl: dedup inline has no effect in 1 piece; --pieces allows more"
	make_versions
	ctl tune vm1 --dedup inline
	expect 0 <<-OUT
		$hint
		vm1: pieces 1, dedup inline
	OUT
	run --separate-stderr "$build/bin/revdedupctl" tune --dedup inline
	expect 0 <<-'OUT'
		pool: pieces 1, dedup inline
		vm1: pieces 1, dedup inline
	OUT
	# shellcheck disable=SC2154 # by run
	[ "$stderr" = "$hint" ]
	ctl tune vm1 --dedup inline -q
	expect 0 </dev/null
	# Only who chooses it is told.
	ctl tune
	expect 0 <<-'OUT'
		pool: pieces 1, dedup inline
		vm1: pieces 1, dedup inline
	OUT
	ctl tune vm1 --pieces 2
	expect 0 <<<"vm1: pieces 2, dedup inline"
}

@test "tune: a snapshot can have another rule than its volume" {
	make_versions
	must tune vm1 --pieces 8
	cp --sparse=always 3.img 4.img
	blocks 4.img 100 1
	must snapshot vm1 --from 4.img --pieces 1 --json
	[ "$(field 0 '["bytes_stored"]')" = $((2 << 20)) ]
	[ "$(field 0 '["segments_in_part"]')" = 0 ]
	cp --sparse=always 4.img 5.img
	blocks 5.img 100 1
	must snapshot vm1 --from 5.img --json
	[ "$(field 0 '["bytes_stored"]')" = 4096 ]
	[ "$(field 0 '["segments_in_part"]')" = 1 ]
	ctl tune vm1
	expect 0 <<<"vm1: pieces 8, dedup reverse"
	must check
}

@test "tune: a rule of a volume that makes no sense" {
	make_versions
	must tune vm1 --pieces 8
	edit "UPDATE rule SET pieces = 513"
	for verb in "tune vm1" "snapshot vm1 --from 1.img"; do
		# shellcheck disable=SC2086 # words
		ctl $verb
		[ "$status" -ne 0 ]
		[[ $output == *"the rule of a volume is damaged in the catalog"* ]]
	done
	must restore vm1@1 --to back
	cmp 1.img back
	must tune vm1 --reset
	must snapshot vm1 --from 1.img
	must check
}

# bats test_tags=slow
@test "tune: --pieces auto measures the disk" {
	local before pieces
	make_versions
	unset REVDEDUP_MEASURED
	must stats --json
	before=$(field -1 '["bytes_data"]')
	ctl tune --pieces auto
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "pieces "*": reads of "*" KiB anywhere reach "*" of a sequential read here"* ]]
	pieces=${lines[0]#pieces }
	pieces=${pieces%%:*}
	[ "${lines[1]}" = "pool: pieces $pieces, dedup reverse" ]
	[[ " 1 2 4 8 16 32 64 128 256 512 " == *" $pieces "* ]]
	[[ ${lines[0]} == "pieces $pieces: reads of $((2048 / pieces)) KiB "* ]]
	# The room is given back.
	must stats --json
	[ "$(field -1 '["bytes_data"]')" = "$before" ]
	[ "$(field -1 '["bytes_queued"]')" = 0 ]
	[ $(($(stat -c '%b' pool/data) * 512)) -lt $((40 << 20)) ]
	must check
	must tune vm1 --pieces auto --json
	[ "$(field -1 '["volume"]')" = vm1 ]
	[ "$(field -1 '["own"]')" = True ]
	must init other --size 128M --pieces auto
	[ "${lines[0]}" = "made pool 'other'" ]
	[[ $output == *"reads of "*" KiB anywhere reach "*"(--pieces "* ]]
	must -p other check
	must init third --size 128M
	[[ $output == *"reads of 32 KiB anywhere reach "*"(--pieces "* ]]
	must -p third check
	must -p third stats --json
	[ "$(field -1 '["bytes_data"]')" = 0 ]
	ctl -p pool init other2 --size 64M --pieces auto --pieces 1
	[ "$status" -eq 2 ]
}

# rule POOL: what tune says of it.
rule() {
	must -p "$1" tune
	echo "${output#pool: }"
}

# What a read of 4, 16, 64 and 256 KiB takes, and of 2 MiB in sequence.
flash=5,10,30,100,700
seeks=4000,4000,4200,5000,14000

@test "init: the disk decides on the rule" {
	export REVDEDUP_MEASURED=$flash
	ctl init a --size 64M
	expect 0 <<-END
		made pool 'a'
		reads of 32 KiB anywhere reach 0.66 of a sequential read here: a segment of the newest version
		may be in 64 pieces, and snapshots share blocks of the whole pool (--pieces 64 --dedup inline)
	END
	[ "$(rule a)" = "pieces 64, dedup inline" ]
	must -p a check
	ctl init b --size 64M --json
	expect 0 <<<'{"type": "init", "pool": "b", "pieces": 64, "dedup": "inline", "measured": true, "reads_kib": 32, "reads_percent": 66}'
	must init c --size 64M --quiet
	[ -z "$output" ]
	[ "$(rule c)" = "pieces 64, dedup inline" ]
	# By another rule if that is asked for.
	ctl init d --size 64M --pieces auto --dedup reverse
	expect 0 <<-END
		made pool 'd'
		reads of 512 KiB anywhere reach 0.93 of a sequential read here: a segment of the newest version
		may be in 4 pieces (--pieces 4 --dedup reverse)
	END

	export REVDEDUP_MEASURED=$seeks
	ctl init e --size 64M --compression none
	expect 0 <<-END
		made pool 'e'
		this disk seeks: reads of 32 KiB anywhere reach 0.05 of a sequential read,
		so the newest version lies in one piece (--pieces 1 --dedup reverse)
	END
	# No other program refuses such a pool.
	ln -s e pool
	[ "$(super)" = "0 0 1;0 0 1;" ]
	ctl init f --size 64M --pieces auto --json
	expect 0 <<<'{"type": "init", "pool": "f", "pieces": 1, "dedup": "reverse", "measured": true, "reads_kib": 1024, "reads_percent": 68}'
}

@test "init: what is given wins, and the rest follows" {
	local disk given wanted
	while read -r disk given wanted; do
		# shellcheck disable=SC2086 # words
		REVDEDUP_MEASURED=${!disk} must init pool --size 64M ${given//,/ }
		[ "$(rule pool)" = "pieces $wanted" ] || fail "$disk, $given: $output"
		rm -r pool
	done <<-'END'
		seeks --pieces,8 8, dedup inline
		seeks --pieces,64,--dedup,reverse 64, dedup reverse
		seeks --dedup,reverse 1, dedup reverse
		flash --pieces,1 1, dedup reverse
		flash --dedup,reverse 64, dedup reverse
		flash --dedup,inline 64, dedup inline
	END
	# The disk is not asked then.
	REVDEDUP_MEASURED=$flash ctl init pool --size 64M --pieces 8
	expect 0 <<<"made pool 'pool'"
	REVDEDUP_MEASURED=$flash ctl init json --size 64M --pieces 8 --json
	expect 0 <<<'{"type": "init", "pool": "json", "pieces": 8, "dedup": "inline", "measured": false}'
	REVDEDUP_MEASURED=$seeks must init odd --size 64M --dedup inline
	[[ $output == *"dedup inline has no effect in 1 piece; --pieces allows more"* ]]
	[ "$(rule odd)" = "pieces 1, dedup inline" ]
}

@test "init: there is no room to measure the disk" {
	unset REVDEDUP_MEASURED
	truncate -s 30M disk
	mkfs.ext4 -q -O ^has_journal disk
	loop=$(losetup --find --show disk)
	mkdir mnt
	mount "$loop" mnt
	ctl init mnt/pool --size 64M --reserve 1M
	expect 0 <<-END
		made pool 'mnt/pool'
		there is no room to measure the disk,
		so the newest version lies in one piece (--pieces 1 --dedup reverse)
	END
	[ "$(rule mnt/pool)" = "pieces 1, dedup reverse" ]
	must -p mnt/pool check
	truncate -s 1M 1.img
	must -p mnt/pool snapshot vm1 --from 1.img
	rm -r mnt/pool
	must init mnt/pool --size 64M --reserve 1M --json
	[ "$output" = '{"type": "init", "pool": "mnt/pool", "pieces": 1, "dedup": "reverse", "measured": false}' ]
}

@test "tune: there is no room to measure the disk" {
	unset REVDEDUP_MEASURED
	must init --compression none --pieces 1 pool --size 64M --reserve 1M
	export REVDEDUP_POOL=$PWD/pool
	truncate -s 40M 1.img
	blocks 1.img 0 $((40 * 256))
	must snapshot vm1 --from 1.img
	ctl tune --pieces auto
	[ "$status" -eq 12 ]
	[[ $output == "revdedupctl: there is no room to measure the disk: 16 MiB in a row are not free"* ]]
	ctl tune
	expect 0 <<<"pool: pieces 1, dedup reverse"
	must check
	must restore vm1@1 --to back
	cmp 1.img back
	must tune --pieces 32
}

# bats test_tags=slow
@test "tune: a pool of a program that counts no pieces" {
	local nr query
	mkdir new
	must init new/pool --size 64M
	make_versions
	old_catalog
	cp -r --sparse=always pool old
	# Who only reads changes nothing.
	for verb in list "list --json" "show vm1@1" "stats --json" check tune "tune vm1" metrics; do
		# shellcheck disable=SC2086 # words
		must $verb
	done
	for nr in 1 2 3; do
		must restore "vm1@$nr" --to back --yes
		cmp "$nr.img" back
	done
	[ "$(ask "PRAGMA user_version")" = 5 ]
	rm -r pool && cp -r --sparse=always old pool
	must tag vm1@1 +a
	[ "$(ask "PRAGMA user_version")" = 6 ]
	[[ $(super) == "0 "* ]]
	# It has what a catalog has that is made now.
	for query in "SELECT group_concat(name) FROM pragma_table_info('uses')" \
		"SELECT sql FROM sqlite_master WHERE name = 'uses_pieces'"; do
		[ "$(ask "$query")" = "$(cd new && ask "$query")" ]
	done
	must check
	must repair --rebuild-catalog
	must check
	# What is in pieces already goes on with the new rule.
	rm -r pool && cp -r --sparse=always old pool
	cp --sparse=always 3.img 4.img
	blocks 4.img 7 3
	must snapshot vm1 --from 4.img --pieces 8 --json
	[ "$(field 0 '["bytes_stored"]')" = $((3 * 4096)) ]
	[ "$(ask "PRAGMA user_version")" = 6 ]
	must check
	for nr in 1 2 3 4; do
		must restore "vm1@$nr" --to back --yes
		cmp "$nr.img" back
	done
	must delete vm1@4
	must check
	must restore vm1@3 --to back --yes
	cmp 3.img back
}

# bats test_tags=slow
@test "tune: a pool of such a program that has packs" {
	local nr verb
	must init pool --size 128M --compression zstd
	export REVDEDUP_POOL=$PWD/pool
	for nr in 1 2; do
		basenc --base16 /dev/urandom | head -c 4M >"$nr.img"
		must snapshot vm1 --from "$nr.img"
	done
	[ "$(ask "SELECT count(*) > 0 FROM pack")" = 1 ]
	old_catalog
	# None of these makes it a new one for the next.
	must restore vm1@1 --to back
	cmp 1.img back
	"$build/bin/revdedupctl" dump vm1@2 | cmp - 2.img
	for verb in scrub "scrub vm1@1" check stats "diff vm1@1 vm1@2"; do
		# shellcheck disable=SC2086 # words
		must $verb
	done
	[ "$(ask "PRAGMA user_version")" = 5 ]
	must delete vm1@1
	[ "$(ask "PRAGMA user_version")" = 6 ]
	must restore vm1@2 --to back --yes
	cmp 2.img back
	must check
	must scrub
}
