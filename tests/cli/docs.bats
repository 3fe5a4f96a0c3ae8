#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# README and the tutorial show what the programs print.
# shellcheck disable=SC2154 # lib.bash
load lib

setup() {
	cli_setup
	top=$BATS_TEST_DIRNAME/../..
	export PROGRAMS=$build/bin
}

# bats test_tags=slow
@test "transcripts: README prints what it says" {
	"$top/tools/transcript" --check "$top/README.md"
}

# bats test_tags=slow
@test "transcripts: the tutorial's part without a kernel prints what it says" {
	"$top/tools/transcript" --check "$top/Documentation/tutorial.rst"
}

@test "the version of Makefile is that of the packages, the changes and the programs" {
	local version
	version=$(sed -n 's/^VERSION := //p' "$top/Makefile")
	[[ $(head -n 1 "$top/debian/changelog") == "revdedup ($version) "* ]]
	[ -n "$(sed -n "3{/^## $version\\b/p}" "$top/CHANGELOG.md")" ]
	[[ $("$build/bin/revdedupctl" version) == "revdedupctl $version, "* ]]
	[[ $("$build/bin/revdedup-meta" --version) == "revdedup-meta $version, "* ]]
}

@test "numbers: those of README are those of figures.rst" {
	"$top/tools/numbers" --check
}

@test "pages: each option of revdedupctl is in one, or is only a setting" {
	local name
	while read -r name; do
		grep -q -- "\\\\-$name\b" "$top"/Documentation/revdedup{ctl,-expert}.8 ||
			[ "$name" = copies ] || {
			echo "--$name is in no page"
			return 1
		}
	done < <(sed -n 's/^\t\[CTL_OPT_.*\] = { "\([a-z-]*\)".*/\1/p' "$top/userspace/cli/options.c")
}
