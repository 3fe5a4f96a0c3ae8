#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The first release, built from its tag: it refuses pools, streams and metadata devices of later
# programs by a sentence, and changes nothing. And the tarball of this tree builds by itself.
#
# Before there is the tag, this tree is that release, as its Makefile says.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by bats

first=0.9.0
top=$BATS_TEST_DIRNAME/../..
cli=$top/tests/cli

# version_here: which release is this tree, as committed?
version_here() { git -C "$top" show HEAD:Makefile | sed -n 's/^VERSION := //p'; }

# first_tree: print the tree of the first release.
first_tree() {
	if git -C "$top" rev-parse -q --verify "v$first^{commit}" >/dev/null; then
		git -C "$top" archive "v$first"
	elif [ "$(version_here)" = "$first" ]; then
		echo "# there is no tag v$first yet, and this tree is that release" >&3
		git -C "$top" ls-files -z | tar -C "$top" -c --null --ignore-failed-read -T -
	else
		echo "there is no tag v$first, from which the first release is built: git fetch --tags" >&2
		return 1
	fi
}

setup_file() {
	first_tree >"$BATS_FILE_TMPDIR/first.tar"
	mkdir "$BATS_FILE_TMPDIR/first"
	tar -x -C "$BATS_FILE_TMPDIR/first" -f "$BATS_FILE_TMPDIR/first.tar"
	make -s -j2 -C "$BATS_FILE_TMPDIR/first/userspace"
}

setup() {
	bin=$BATS_FILE_TMPDIR/first/build/bin
	cd "$BATS_TEST_TMPDIR" || return
	export REVDEDUP_CONFIG=$PWD/etc REVDEDUP_POOL=$PWD/pool
	unpack raw
	"$bin/revdedupctl" dump vm1@4 >image
}

teardown() {
	[ ! -e elsewhere ] || rm -rf "$(cat elsewhere)"
}

# unpack NAME: a pool of the first release.
unpack() {
	rm -rf pool
	tar -xzf "$BATS_TEST_DIRNAME/$first/$1.tar.gz"
	[ ! -e copies.img ] || ln -sfn "$PWD/copies.img" pool/copies
}

# all_of: a hash of all files here, without what their holes take. The index of the log is memory.
all_of() {
	find . -type f ! -name '*-shm' ! -empty -print0 | sort -z |
		tar -c -S --mtime=@0 --null -T - | sha256sum
}

# refuses TEXT HINT COMMAND...: the first release does, and leaves pool and images alone.
refuses() {
	local text=$1 hint=$2 before
	shift 2
	before=$(all_of)
	run "$@" </dev/null
	[[ $status -eq 1 && $output == *"$text"* && $output == *"nothing was changed; $hint"* ]] || {
		echo "status $status of '$*', wanted: $text"
		echo "$output"
		return 1
	}
	[ "$(all_of)" = "$before" ] || {
		echo "'$*' has changed something"
		return 1
	}
}

reading=("list" "show vm1@3" "check" "stats" "scrub" "restore vm1@1 --to image --yes"
	"diff vm1@1 vm1@3" "send vm1 --to there")
writing=("snapshot vm1 --from image" "delete vm1@3" "prune --keep-last 1" "protect vm1@3"
	"tag vm1@3 +a" "tune --pieces 8" "dedup" "recompress zstd" "grow --size 1G"
	"receive --as vm8")
repairing=("repair" "repair --force" "repair --rebuild-catalog" "repair --rebuild-catalog --force")

# all_refuse TEXT COMMAND...: each command, as one word.
all_refuse() {
	local text=$1 command
	shift
	for command; do
		# shellcheck disable=SC2086 # words
		refuses "$text" "install a newer revdedup" "$bin/revdedupctl" $command
	done
}

@test "the first release: a pool with the next number of its superblock" {
	"$cli/edit-super.py" pool/data 3
	all_refuse "'$PWD/pool/data' has format 3, and this program knows only 2" \
		"${reading[@]}" "${writing[@]}" "${repairing[@]}"
}

@test "the first release: a pool with an incompatible feature" {
	"$cli/edit-super.py" pool/data 2 0 0 8
	all_refuse "'$PWD/pool/data' has features that this program does not know (incompatible: 0x8)" \
		"${reading[@]}" "${writing[@]}" "${repairing[@]}"
}

@test "the first release: a pool with a feature that allows reading" {
	"$cli/edit-super.py" pool/data 2 0 1 0
	all_refuse "'$PWD/pool/data' has features that this program does not know (compatible for reading: 0x1)" \
		"${writing[@]}" "${repairing[@]}"
	"$bin/revdedupctl" list
	"$bin/revdedupctl" dump vm1@4 | cmp - image
}

@test "the first release: a catalog with the next number" {
	"$cli/edit-catalog.py" pool/catalog.db "PRAGMA user_version = 7"
	all_refuse "'$PWD/pool/catalog.db' has format 7, and this program knows only 6" \
		"${reading[@]}" "${writing[@]}" "${repairing[@]}"
}

@test "the first release: a catalog whose log has the next number" {
	unpack killed
	"$cli/later.py" catalog-log pool/catalog.db 7
	all_refuse "'$PWD/pool/catalog.db' has format 7, and this program knows only 6" \
		"${reading[@]}" "${writing[@]}" "${repairing[@]}"
}

@test "the first release: a page map with the next number" {
	"$cli/later.py" pages pool/catalog.db-pages 2
	all_refuse "'$PWD/pool/catalog.db-pages' has format 2, and this program knows only 1" \
		"${reading[@]}" "${writing[@]}" "${repairing[@]}"
	rm pool/catalog.db
	all_refuse "'$PWD/pool/catalog.db-pages' has format 2, and this program knows only 1" \
		"repair --rebuild-catalog" "repair --rebuild-catalog --force"
}

# It does without, and they are there for the next program.
@test "the first release: copies with the next number" {
	local command elsewhere
	unpack inline
	# Without one on another disk, "copies" ends before it looks at them.
	elsewhere=$(mktemp -d /dev/shm/golden.XXXXXX)
	echo "$elsewhere" >elsewhere
	mv copies.img "$elsewhere"
	ln -sfn "$elsewhere/copies.img" pool/copies
	"$cli/later.py" copies "$elsewhere/copies.img" 2
	sha256sum "$elsewhere/copies.img" >before
	for command in scrub repair "copies 1%" "restore vm1@1 --to back"; do
		# shellcheck disable=SC2086 # words
		run "$bin/revdedupctl" $command
		echo "$command: $output"
		[[ $command == restore* || $output == \
			*"has copies in a format that this program does not know"* ]]
		[[ $status -eq 0 || $command == copies* ]]
		sha256sum --status -c before
		[ -L pool/copies ]
	done
}

# That is a hint, which it makes anew.
@test "the first release: an index with the next number" {
	local run
	unpack inline
	for run in pool/index/[0-9]*; do
		"$cli/later.py" run "$run" 2
	done
	run "$bin/revdedupctl" snapshot vm1 --from image
	[[ $status -eq 0 && $output == *"part "*" of the index "*"it is dropped"* ]]
	"$bin/revdedupctl" snapshot vm1 --from image --pieces 64 --dedup inline
	[ -e pool/index/whole ]
	"$bin/revdedupctl" scrub
}

@test "the first release: streams" {
	gzip -dc "$BATS_TEST_DIRNAME/$first/full.stream.gz" >stream
	"$cli/later.py" stream stream 2
	run "$bin/revdedupctl" receive <stream
	[[ $status -eq 1 && $output == *"the stream uses a format that this program does not know"* ]]
	"$cli/later.py" stream stream 1
	"$cli/later.py" stream-features stream 1
	sha256sum pool/data >before
	run "$bin/revdedupctl" receive <stream
	[[ $status -eq 1 && $output == *"the stream uses features that this program does not know"* ]]
	[[ $output == *"nothing was changed; a newer revdedup reads it"* ]]
	sha256sum --status -c before
}

# meta_refuses KIND NUMBER TEXT COMMAND...: with each metadata device like that.
meta_refuses() {
	local kind=$1 number=$2 text=$3 name before
	shift 3
	tar -xf "$BATS_TEST_DIRNAME/$first/metadata.tar"
	for name in track table packs; do
		"$cli/later.py" "$kind" $name.img "$number"
		before=$(all_of)
		for command; do
			# shellcheck disable=SC2086 # words
			run "$bin/revdedup-meta" ${command//IMAGE/$name.img}
			[[ $status -ne 0 && $output == *"$text"* ]] || {
				echo "status $status of '$command', wanted: $text"
				echo "$output"
				return 1
			}
		done
		[ "$(all_of)" = "$before" ]
	done
}

@test "the first release: metadata devices" {
	truncate -s 64M base
	cp base pool.img
	meta_refuses meta 2 "the metadata's format version is not supported" \
		"dump IMAGE" "check IMAGE" "dirty IMAGE" "table IMAGE" \
		"--yes finish IMAGE base pool.img"
	meta_refuses meta-incompat 34 "the metadata uses a feature that is not supported (incompat)" \
		"dump IMAGE" "check IMAGE" "dirty IMAGE" "table IMAGE" \
		"--yes finish IMAGE base pool.img"
	meta_refuses meta-ro 2 "allow reading only (compat_ro 0x2)" "--yes finish IMAGE base pool.img"
}

# version_says DIR NUMBER: its programs do.
version_says() {
	local program
	for program in revdedupctl revdedup-meta; do
		run "$1/build/bin/$program" --version
		[[ $output == "$program $2, "* ]] || {
			echo "$output"
			return 1
		}
	done
}

@test "the first release says which one it is" { version_says "$BATS_FILE_TMPDIR/first" "$first"; }

# Of what is committed, outside of git.
@test "the tarball builds the programs and the module" {
	local version kdir
	version=$(version_here)
	make -s -C "$top" dist
	tar -xzf "$top/build/revdedup-$version.tar.gz"
	kdir=$("$top/scripts/headers.sh" 6.12)
	# Inside of a repository of others, as a tarball may be.
	git init -q .
	(cd "revdedup-$version" && scripts/deb.sh --list | tr '\0' '\n') >listed
	(cd "revdedup-$version" && find . ! -type d -printf '%P\n') >there
	diff <(sort listed) <(sort there)
	mkdir "revdedup-$version/build"
	touch "revdedup-$version/build/made"
	(cd "revdedup-$version" && scripts/deb.sh --list | tr '\0' '\n' | sort) | diff <(sort there) -
	export GIT_DIR=/nonexistent
	make -s -j2 -C "revdedup-$version" KDIR="$kdir"
	version_says "revdedup-$version" "$version"
	[ -s "revdedup-$version/build/module/dm-revdedup.ko" ]
	make -s -C "revdedup-$version" install-programs install-docs install-host install-module \
		DESTDIR="$PWD/installed"
	grep -x "PACKAGE_VERSION=\"$version\"" "installed/usr/src/revdedup-$version/dkms.conf"
}
