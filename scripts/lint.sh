#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: lint.sh
#
# Check everything that a review should not have to mention, and exit with 1 if anything is
# reported. Kernel code: checkpatch --strict, sparse, W=1. Other C code: checkpatch.
# Scripts: shellcheck. Man pages: mandoc. Units: systemd-analyze. The tree: the programs in
# tools/ check that includes go down, that comments and pages name functions and files that
# exist, and that no word is back that was given up. No line is wider than 100 columns, and each
# file says its licence.
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

# --- checks, as many at a time as there are processors

dir=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-lint.XXXXXX")
trap 'rm -rf "$dir"' EXIT
nr=0 running=0 names=()

# check NAME COMMAND...: begin it; it says nothing and succeeds where nothing is wrong. Two
# with the same name are reported as one.
check() {
	local name=$1
	shift
	if [ "$running" -ge "$(nproc)" ]; then
		wait -n || :
		running=$((running - 1))
	fi
	{ "$@" >"$dir/$nr" 2>&1 || echo "exit status $?" >>"$dir/$nr"; } &
	names+=("$name")
	nr=$((nr + 1)) running=$((running + 1))
}

# Wait for all, and print what was wrong.
report() {
	local i j name
	wait
	for i in "${!names[@]}"; do
		name=${names[i]}
		[ -z "${reported[$name]:-}" ] || continue
		reported[$name]=1
		for j in "${!names[@]}"; do
			[ "${names[j]}" != "$name" ] || cat "$dir/$j"
		done >"$dir/all"
		if [ -s "$dir/all" ]; then
			cat "$dir/all"
			note "$name: see above"
			bad=1
		else
			note "$name: clean"
		fi
	done
}
declare -A reported=()

# What a check had nothing to say of is not looked at again, as long as it is the same. Of
# files that were not seen for a month their stamps go.
clean=$cache/lint/clean
mkdir -p "$clean"
find "$clean" -mtime +30 -delete

# stamps KEY FILE...: print for each file "STAMP FILE", by its content and that key.
stamps() {
	local key hash file
	key=$(sha256sum <<<"$1" | head -c 16)
	shift
	sha256sum "$@" | while read -r hash file; do
		echo "$clean/$key-${hash:0:32}-${file//\//+} $file"
	done
}

# batch STAMPS COMMAND...: run it with the files in STAMPS, and set the stamps if it has
# nothing to say.
batch() {
	local list=$1 output status=0 paths files
	shift
	mapfile -t paths < <(cut -d ' ' -f 1 <<<"$list")
	mapfile -t files < <(cut -d ' ' -f 2- <<<"$list")
	output=$("$@" "${files[@]}" 2>&1) || status=$?
	if [ "$status" -eq 0 ] && [ -z "$output" ]; then
		touch "${paths[@]}"
	else
		printf '%s\n' "$output"
		return "$status"
	fi
}

# check_files NAME KEY COMMAND... -- FILE...: check what is not known to be clean, some files
# at a time. The key is all that COMMAND looks at besides.
check_files() {
	local name=$1 key=$2 command=() stamp file list='' count=0
	shift 2
	while [ "$1" != -- ]; do
		command+=("$1")
		shift
	done
	shift
	while read -r stamp file; do
		[ ! -e "$stamp" ] || continue
		list+="$stamp $file"$'\n'
		count=$((count + 1))
		if [ "$count" -eq 12 ]; then
			check "$name" batch "${list%$'\n'}" "${command[@]}"
			list='' count=0
		fi
	done < <(stamps "$key ${command[*]}" "$@")
	[ "$count" -eq 0 ] || check "$name" batch "${list%$'\n'}" "${command[@]}"
	check "$name" true
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
	local ignore=$1
	shift
	perl "$checkpatch/checkpatch.pl" --no-tree --strict --terse --no-summary \
		--quiet --max-line-length=100 --ignore "$ignore" --file "$@"
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

# sparse_module SERIES KDIR: it looks at all files. (They are arguments for the stamps.)
sparse_module() {
	"$scripts/module-build.sh" --kdir "$2" --out "build/lint/$1" \
		JUDGE=1 C=2 CHECK="sparse -Wsparse-error"
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

# A unit that forbids little says why, in a comment that begins with these words.
exposed_units() {
	local unit
	for unit in systemd/*.service; do
		grep -q '^# Nothing is forbidden here: ' "$unit" ||
			systemd-analyze security --offline=yes --threshold=40 "$unit" >/dev/null ||
			echo "$unit: systemd-analyze security rates it above 4"
	done
}

# Lines that are wider than 100 columns, with tabs of 8: but for links, transcripts, what
# benchmarks have printed, rows of tables in markdown, and messages, which are not cut in two.
too_wide() {
	local file
	for file; do
		[ "$file" != Documentation/figures-printed.rst ] || continue
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
	'tools/*' 'systemd/*' Makefile 'userspace/Makefile' ':!*.json')
mapfile -t man < <(git ls-files 'Documentation/*.[1-8]')

# The version of a package is that of what it lints with.
version_of() { dpkg-query -W -f '${Version} ' "$@"; }

version=$(version_of linux-source-6.12)
checkpatch=$(cached "lint/checkpatch-${version% }" fetch_checkpatch)
for series in 6.1 6.12; do
	kdir=$("$scripts/headers.sh" "$series")
	# A module is checked as a whole: the key has all its files.
	key="$(version_of sparse gcc) $kdir $(cat Kbuild kernel/Kbuild "${kernel_c[@]}" \
		"${compat_h[@]}" "$scripts/module-build.sh" | sha256sum)"
	check_files "W=1 and sparse, 6.1 and 6.12" "$key" sparse_module "$series" "$kdir" -- Kbuild
done
check_files "checkpatch, kernel" "$version" checkpatch "$kernel_ignore" -- "${kernel_c[@]}"
check_files "checkpatch, compat.h" "$version" checkpatch "$compat_ignore" -- "${compat_h[@]}"
check_files "checkpatch, user space" "$version" checkpatch "$user_ignore" -- "${user_c[@]}"
# What others source has no first line of a program. Functions that are called by name only
# are not unreachable.
mapfile -t sourced < <(grep -L '^#!' "${shell[@]}")
check_files "shellcheck" "$(version_of shellcheck) $(cat "${sourced[@]}" | sha256sum)" \
	shellcheck -x -P SCRIPTDIR -e SC2317 -- "${shell[@]}"
[ "${#man[@]}" -eq 0 ] || check "mandoc" mandoc -T lint -W warning "${man[@]}"
check "systemd-analyze" verify_units
check "systemd-analyze security" exposed_units
# Formats without comments, pages in Markdown and patches have none.
unlicensed() {
	{ git grep -L 'SPDX-License-Identifier: GPL-2\.0' -- . ':!*.md' ':!*.json' ':!*.patch' \
		':!.gitignore' ':!COPYING' ':!debian/changelog' ':!debian/copyright' \
		':!debian/source/format' ':!tests/bench/target/dist' \
		':!scripts/upstream/messages/*' ':!scripts/upstream/selftest/settings' \
		':!tests/golden/[0-9]*/*' || :; } |
		sed 's/$/: no SPDX line/'
}
check "licences" unlicensed
check "columns" too_wide "${text[@]}"
check "arrows between layers" tools/arrows
check "dangling names" tools/dangling
check "dangling paths" tools/paths
check "old words" tools/words
check "jobs" "$scripts/check.sh" lint-jobs
report
rm -f .checkpatch-camelcase.*
exit "$bad"
