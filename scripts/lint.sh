#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: lint.sh
#
# Everything that a reader of the code should never have to say: checkpatch
# --strict and sparse and W=1 on kernel code, checkpatch on the other C code,
# shellcheck on the scripts, mandoc on the man pages. Exits 1 if any of them has
# a word to say.
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

# Not asked for, with the reason: no message of ours is cut in two for its
# length (LONG_LINE_STRING); one header compares kernel versions, so that no
# other file has to (LINUX_VERSION_CODE, CONSTANT_COMPARISON).
checkpatch() {
	local dir ignore=LONG_LINE_STRING
	dir=$(cached "lint/checkpatch-$(dpkg-query -W -f '${Version}' \
		linux-source-6.12)" fetch_checkpatch)
	[ "$1" != compat ] || ignore+=,LINUX_VERSION_CODE,CONSTANT_COMPARISON
	shift
	# Outside git it cannot write its cache of names into the tree.
	GIT_DIR=/nonexistent perl "$dir/checkpatch.pl" --no-tree --strict \
		--terse --no-summary --quiet --max-line-length=100 \
		--ignore "$ignore" --file "$@"
}

# User-space C follows the same style, but for what only the kernel has: its
# types, its macros, its ways of parsing and printing.
user_ignore=PREFER_KERNEL_TYPES,SSCANF_TO_KSTRTO,LONG_LINE_STRING,NEW_TYPEDEFS
user_ignore+=,CAMELCASE,VOLATILE,CONST_STRUCT,PREFER_DEFINED_ATTRIBUTE_MACRO
user_ignore+=,AVOID_EXTERNS,MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE,USLEEP_RANGE

checkpatch_user() {
	local dir
	dir=$(cached "lint/checkpatch-$(dpkg-query -W -f '${Version}' \
		linux-source-6.12)" fetch_checkpatch)
	GIT_DIR=/nonexistent perl "$dir/checkpatch.pl" --no-tree --strict \
		--terse --no-summary --quiet --max-line-length=100 \
		--ignore "$user_ignore" --file "$@"
}

sparse_modules() {
	local series
	for series in 6.1 6.12; do
		"$scripts/module-build.sh" --kdir "$("$scripts/headers.sh" "$series")" \
			--out "build/lint/$series" JUDGE=1 C=2 CHECK="sparse -Wsparse-error"
	done
}

mapfile -t kernel_c < <(git ls-files 'kernel/*.[ch]' 'tests/judge/*.[ch]' |
	grep -v '/compat.h$')
mapfile -t compat_h < <(git ls-files '*/compat.h')
mapfile -t user_c < <(git ls-files '*.[ch]' | grep -v '^kernel/\|^tests/judge/\|/shim/')
mapfile -t shell < <(git ls-files '*.sh' '*.bash' '*.bats' .ci/run |
	xargs -r grep -lE '^#!.*(ba)?sh|shellcheck shell|^#!.*bats')
mapfile -t man < <(git ls-files 'Documentation/*.[1-8]')

check "checkpatch, kernel" checkpatch kernel "${kernel_c[@]}"
check "checkpatch, compat.h" checkpatch compat "${compat_h[@]}"
check "checkpatch, user space" checkpatch_user "${user_c[@]}"
check "W=1 and sparse, 6.1 and 6.12" sparse_modules
check "shellcheck" shellcheck -x "${shell[@]}"
[ "${#man[@]}" -eq 0 ] || check "mandoc" mandoc -T lint -W warning "${man[@]}"
exit "$bad"
