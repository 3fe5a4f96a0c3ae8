#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: lint.sh
#
# Check everything that a review should not have to mention, and exit with 1 if anything is
# reported. Kernel code: checkpatch --strict, sparse, W=1. Other C code: checkpatch.
# Scripts: shellcheck. Man pages: mandoc. Units: systemd-analyze. The tree: the programs in
# tools/ check that includes go down, that comments and pages name functions and files that
# exist, and that no word is back that was given up. No line is wider than 100 columns.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=${BASH_SOURCE[0]%/*}

case ${1:-} in
-h | --help) show_help; exit ;;
?*) usage_error "no such argument: '$1'" ;;
esac

"$scripts/setup.sh" lint build
cd "$scripts/.."
bad=0

# check NAME COMMAND...: says nothing where COMMAND says nothing and succeeds.
check() {
	local name=$1 output
	shift
	if output=$("$@" 2>&1) && [ -z "$output" ]; then
		note "$name: clean"
	else
		printf '%s\n' "$output"
		note "$name: see above"
		bad=1
	fi
}

# checkpatch and the two scripts that it needs, from Debian's kernel source.
fetch_checkpatch() {
	tar -xJf /usr/src/linux-source-6.12.tar.xz -C "$1" --strip-components=2 \
		linux-source-6.12/scripts/checkpatch.pl \
		linux-source-6.12/scripts/const_structs.checkpatch \
		linux-source-6.12/scripts/spelling.txt
}

# checkpatch TYPES FILE...: ask for all but TYPES.
checkpatch() {
	local dir ignore=$1
	shift
	dir=$(cached "lint/checkpatch-$(dpkg-query -W -f '${Version}' \
		linux-source-6.12)" fetch_checkpatch)
	perl "$dir/checkpatch.pl" --no-tree --strict --terse --no-summary \
		--quiet --max-line-length=100 --ignore "$ignore" --file "$@"
	rm -f .checkpatch-camelcase.*
}

# Not asked for: no message of ours is cut in two for its length.
kernel_ignore=LONG_LINE_STRING
# One header compares kernel versions, so that no other file has to.
compat_ignore=$kernel_ignore,LINUX_VERSION_CODE,CONSTANT_COMPARISON
# User space has not the kernel's macros, types and parsers.
user_ignore=$kernel_ignore,PREFER_KERNEL_TYPES,SSCANF_TO_KSTRTO,NAKED_SSCANF
user_ignore+=,BIT_MACRO,MACRO_ARG_REUSE,ARRAY_SIZE,EMBEDDED_FUNCTION_NAME
user_ignore+=,NEW_TYPEDEFS,VOLATILE,CAMELCASE
user_ignore+=,PREFER_DEFINED_ATTRIBUTE_MACRO,AVOID_EXTERNS,USLEEP_RANGE
# SQL is not a message that somebody looks for in one piece.
user_ignore+=,SPLIT_STRING

sparse_modules() {
	local series kdir
	for series in 6.1 6.12; do
		kdir=$("$scripts/headers.sh" "$series")
		"$scripts/module-build.sh" --kdir "$kdir" --out "build/lint/$series" \
			JUDGE=1 C=2 CHECK="sparse -Wsparse-error"
	done
}

# What units name need not be installed here.
verify_units() {
	local unit dir=build/lint/units
	rm -rf "$dir"
	mkdir -p "$dir"
	for unit in systemd/*.service systemd/*.timer; do
		sed 's#/usr/sbin/revdedupctl\|/usr/lib/revdedup/[a-z-]*#/bin/true#' "$unit" >"$dir/${unit##*/}"
	done
	systemd-analyze verify --man=no "$dir"/*
}

# Lines that are wider than 100 columns, with tabs of 8: but for links, transcripts,
# rows of tables in markdown, and messages, which are not cut in two.
too_wide() {
	local file
	for file; do
		expand "$file" | awk -v file="$file" -v message="[\"'][^\"']*[\"']" '
			length > 100 && !/https?:\/\// && !/^\||^  (#|\/|revdedupctl:)|^\.It / {
				if (!match($0, message) || RLENGTH < 50)
					print file ":" NR ": " length " columns"
			}'
	done
}

mapfile -t kernel_c < <(git ls-files 'kernel/*.[ch]' 'tests/judge/*.[ch]' |
	grep -v '/compat.h$')
mapfile -t compat_h < <(git ls-files '*/compat.h')
mapfile -t user_c < <(git ls-files '*.[ch]' | grep -v '^kernel/\|^tests/judge/\|/shim/')
mapfile -t shell < <(git ls-files '*.sh' '*.bash' '*.bats' .ci/run 'debian/*.p*rm' 'systemd/*' |
	xargs -r grep -lE '^#!.*(ba)?sh|shellcheck shell|^#!.*bats')
mapfile -t text < <(git ls-files '*.md' '*.rst' '*.sh' 'Documentation/*.[1-8]' \
	'tools/*' 'systemd/*' Makefile 'userspace/Makefile')
mapfile -t man < <(git ls-files 'Documentation/*.[1-8]')

check "checkpatch, kernel" checkpatch "$kernel_ignore" "${kernel_c[@]}"
check "checkpatch, compat.h" checkpatch "$compat_ignore" "${compat_h[@]}"
check "checkpatch, user space" checkpatch "$user_ignore" "${user_c[@]}"
check "W=1 and sparse, 6.1 and 6.12" sparse_modules
# Functions that only check() calls are not unreachable.
check "shellcheck" shellcheck -x -P SCRIPTDIR -e SC2317 "${shell[@]}"
[ "${#man[@]}" -eq 0 ] || check "mandoc" mandoc -T lint -W warning "${man[@]}"
check "systemd-analyze" verify_units
check "columns" too_wide "${text[@]}"
check "arrows between layers" tools/arrows
check "dangling names" tools/dangling
check "dangling paths" tools/paths
check "old words" tools/words
exit "$bad"
