#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Pools, streams and metadata devices that releases have written, in tests/golden: this program
# reads, restores, continues and converts them. formats.rst has the promise.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

golden=$BATS_TEST_DIRNAME/../golden

# each COMMAND: in a folder of its own for each release, whose files are in $release.
each() {
	local nr=0 number
	for release in "$golden"/*.*.*; do
		number=${release##*/}
		mkdir "$number" && cd "$number" || return
		echo "files of $number"
		"$1"
		cd ..
		nr=$((nr + 1))
	done
	[ "$nr" -gt 0 ]
}

# unpack NAME: a pool, and what belongs to it.
unpack() {
	local link
	rm -rf pool
	tar -xzf "$release/$1.tar.gz"
	export REVDEDUP_POOL=$PWD/pool
	for link in data:store.img copies:copies.img; do
		[ ! -e "${link#*:}" ] || [ ! -L "pool/${link%:*}" ] ||
			ln -sfn "$PWD/${link#*:}" "pool/${link%:*}"
	done
}

# has NAME: these versions are there, and no others, with the content that they had.
has() {
	local version sum
	[ "$("$build/bin/revdedupctl" list --json | grep -o '"version": "[^"]*"' | sort)" = \
		"$(sed -n "s/^$1 \(.*\) .*/\"version\": \"\1\"/p" "$release/versions" | sort)" ]
	while read -r version sum; do
		echo "$1 $version"
		[ "$("$build/bin/revdedupctl" dump "$version" | sha256sum)" = "$sum  -" ]
	done < <(sed -n "s/^$1 //p" "$release/versions")
}

# is_sound NAME: no damage, and all versions.
is_sound() {
	has "$1"
	must scrub
	[[ $output == "scrub OK: "*"no version damaged"* ]]
}

# goes_on NAME RECOMPRESS: it is sound after a new version, with another rule, and stored in that
# other form.
goes_on() {
	must check
	"$build/bin/revdedupctl" dump vm1@latest >next.img
	blocks next.img 100 3
	must snapshot vm1 --from next.img --tag next
	"$build/bin/revdedupctl" dump vm1@next | cmp - next.img
	must tune --pieces 8 --dedup inline
	must recompress "$2"
	must delete @next
	is_sound "$1"
}

raw() {
	unpack raw
	must show vm1@1
	[[ $output == *"comment:        the first"* && $output == *"nightly-1"* ]]
	ctl delete vm1@1
	[[ $status -eq 1 && $output == *"protected"* ]]
	goes_on raw zstd
}

inline() {
	unpack inline
	must tune vm2
	[[ $output == *"pieces 8, dedup reverse"* ]]
	must stats
	[[ $output == *"copies:   900.0 KiB"* ]]
	goes_on inline none
}

file() {
	unpack file
	must snapshot vm2 --from "$golden/image.py" --tag next
	must delete @next
	is_sound file
}

@test "golden pools that are not compressed" { each raw; }

@test "golden pools that are compressed, with an index, copies and rules" { each inline; }

@test "golden pools whose data are in a file elsewhere" { each file; }

# The version is in the log of the catalog, and its journal lacks it.
killed() {
	unpack killed
	[ -s pool/catalog.db-wal ]
	has killed
	must snapshot vm2 --from "$golden/image.py" --tag next
	must delete @next
	is_sound killed
}

@test "golden pools in which a command died" { each killed; }

# The next command that writes ends the hold, and then the version.
held() {
	unpack held
	must stats
	[[ $output == *"in use:   1 deleted version still read"* ]]
	has held
	must snapshot vm2 --from "$golden/image.py" --tag next
	must delete @next
	must stats
	[[ $output != *"in use:"* ]]
	is_sound held
}

@test "golden pools of which a process that died held a version" { each held; }

# The catalog itself has the number from before. The index of the log is memory.
later() {
	local command before
	unpack killed
	"$BATS_TEST_DIRNAME/later.py" catalog-log pool/catalog.db 7
	before=$(sha256sum pool/catalog.db pool/catalog.db-pages pool/catalog.db-wal pool/data)
	for command in list "delete vm1@1" "snapshot vm1 --from $golden/image.py" repair \
		"repair --rebuild-catalog --force"; do
		# shellcheck disable=SC2086 # words
		ctl $command
		echo "$command: $output"
		[ "$status" -eq 1 ]
		[[ $output == *"catalog.db' has format 7, and this program knows only 6"* ]]
		[ "$(sha256sum pool/catalog.db pool/catalog.db-pages pool/catalog.db-wal \
			pool/data)" = "$before" ]
	done
}

@test "golden pools whose log of the catalog is a later program's stay as they are" { each later; }

# The journal has all of the catalog. What only the log of the catalog has is added before.
rebuilt() {
	unpack raw
	rm pool/catalog.db*
	must repair --rebuild-catalog
	is_sound raw
	unpack killed
	must repair --rebuild-catalog
	has killed
}

@test "golden pools whose catalog is lost" { each rebuilt; }

# A version has arrived in part: it is listed as that, and can be undone.
partial() {
	unpack partial
	must list
	[[ $output == *"vm9@1 is arriving: 8"*" % of 64.0 MiB is there"* ]]
	must delete vm9@1
	is_sound partial
}

@test "golden pools in which a version arrives" { each partial; }

streams() {
	must init pool --size 256M
	export REVDEDUP_POOL=$PWD/pool
	gzip -dc "$release/full.stream.gz" >full.stream
	gzip -dc "$release/delta.stream.gz" >delta.stream
	must receive <full.stream
	has full.stream
	must delete vm1@4
	must receive <delta.stream
	[ "$("$build/bin/revdedupctl" dump vm1@latest | sha256sum)" = \
		"$(sed -n 's/^delta.stream vm1@4 //p' "$release/versions")  -" ]
	# It was written by the page alone.
	mkdir images
	"$BATS_TEST_DIRNAME/stream.py" images <full.stream
	[ "$(sha256sum <images/vm1@3)" = \
		"$(sed -n 's/^full.stream vm1@3 //p' "$release/versions")  -" ]
	# And a pool of then is a sender.
	unpack raw
	must init there --size 256M
	must send --all --to there
	[[ $output == *"vm2@2"* ]]
	must scrub --pool there
	[[ $output == "scrub OK: 5 versions, "* ]]
}

@test "golden streams, and pools that send" { each streams; }

# Of all its lines, "status" shows some.
attachment() {
	local part
	install -D "$release/attachment" etc/volumes/revdedup-vg-vm1
	REVDEDUP_CONFIG=$PWD/etc ctl status --json
	for part in '"volume": "vg/vm1"' '"base": "/dev/vg/vm1"' '"state": "down"' \
		'"version_pool": "/backup/pool"' '"dedup_mode": "pool"' '"dedup_cold": 48' \
		'"dedup_time": 1764000000' '"dedup_lost_marks": 2' \
		'"problem": "is an unfinished clone'; do
		echo "$part in $output"
		[[ $output == *"$part"* ]]
	done
}

@test "golden attachments" { each attachment; }

metadata() {
	local name what wanted
	tar -xf "$release/metadata.tar"
	while read -r name what wanted; do
		case $what in
		dirty) run "$build/bin/revdedup-meta" dirty "$name.img" ;;
		frozen) run "$build/bin/revdedup-meta" --frozen dirty "$name.img" ;;
		places) run "$build/bin/revdedup-meta" table "$name.img" ;;
		esac
		echo "$name, $what: '$output', wanted '$wanted'"
		[ "$status" -eq 0 ]
		[ "${output//$'\n'/;}" = "$wanted" ]
	done <"$release/metadata"
	for name in *.img; do
		"$build/bin/revdedup-meta" check "$name"
	done
}

@test "golden metadata devices" { each metadata; }
