#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: upstream.sh [--linux DIR] [--author 'NAME <MAIL>'] [--check] OUT
#
# Make of kernel/ a series of patches for the kernel, and put it into the directory OUT as
# OUT/patches/*.patch. Nothing of it is written by hand but what scripts/upstream/ has: the
# messages, the cover letter, Kconfig, and what runs the selftest.
#
#   --linux DIR    the source of the kernel that it is for. Otherwise the newest linux-source
#                  of the archive (scripts/archive.sh), unpacked into the cache
#   --author       of the patches, and the maintainer; otherwise git's user
#   --check        apply the patches, one after the other, and for each: checkpatch --strict;
#                  build it by Kconfig with W=1 and sparse; build the module for the newest
#                  headers as OUT/NUMBER/dm-revdedup.ko. In the end: htmldocs, and the
#                  selftest as OUT/selftest/. Any warning fails
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")
# shellcheck source=scripts/archive.sh
. "$scripts/archive.sh"

linux='' author='' check=false out=''
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=true; shift; continue ;;
	--linux | --author)
		[ $# -ge 2 ] || usage_error "'$1' lacks its value"
		declare "${1#--}=$2"
		shift 2
		continue
		;;
	-*) usage_error "no such option: '$1'" ;;
	esac
	[ -z "$out" ] || usage_error "unexpected argument '$1'"
	out=$1
	shift
done
[ -n "$out" ] || usage_error "no directory for the series given"
"$scripts/setup.sh" upstream build

# Of the largest drivers Kconfig is enough.
unpack_linux() {
	local package=$1 dir=$2
	note "unpacking $package into the cache"
	archive_unpack "$dir" "$package"
	tar -x -C "$dir" -I 'xz -T0' -f "$dir"/usr/src/linux-source-*.tar.xz --strip-components=1 \
		--exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/*.[ch]' \
		--exclude='*/drivers/media/*.[ch]' --exclude='*/sound/*.[ch]'
	rm -r "$dir"/usr/src
}

newest_linux() {
	local package version
	archive_refresh 1440
	package=$(archive_names '^linux-source-[0-9.]+$' | tail -n 1)
	[ -n "$package" ] || die "no linux-source in $archive_suite-backports of $archive_mirror"
	version=$(apt-cache "${archive_apt[@]}" show --no-all-versions "$package" |
		sed -n 's/^Version: //p')
	cached "linux/$version-$(declare -f unpack_linux | sha256sum | head -c 8)" \
		unpack_linux "$package=$version"
}

[ -n "$linux" ] || linux=$(newest_linux)
linux=$(realpath "$linux")
[ -f "$linux/drivers/md/Kconfig" ] || die "no source of a kernel in '$linux'"
[ -n "$author" ] || author=$(git -C "$scripts" var GIT_AUTHOR_IDENT | sed 's/>.*/>/')
[[ $author == ?*\ \<*@*\> ]] || usage_error "an author is 'NAME <MAIL>', not '$author'"

# All that is in OUT is made anew, so it is only taken where this script has made it.
mkdir -p "$out"
out=$(realpath "$out")
[ -e "$out/.made-by-upstream.sh" ] || [ -z "$(ls -A "$out")" ] ||
	die "'$out' has files of others: name a directory that is empty, or not there"
[[ $linux/ != "$out"/* ]] || die "'$linux' lies in '$out', which is made anew"
find "$out" -mindepth 1 -delete
touch "$out/.made-by-upstream.sh"
tree=$out/tree
mapfile -t parts < <(sed -n 's/^\([a-z]*\) := .*\.o.*/\1/p' "$scripts/../kernel/Kbuild")

# Neither the repository from which this was called nor the user's settings have a say.
# shellcheck disable=SC2046 # names
unset $(git rev-parse --local-env-vars)
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
mail=${author##*<}
export GIT_AUTHOR_NAME=${author% <*} GIT_AUTHOR_EMAIL=${mail%>}
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
in_tree() { git -C "$tree" "$@"; }

# --- the series, in a repository that has of the kernel what the patches change

page=Documentation/admin-guide/device-mapper
driver=drivers/md/dm-revdedup
selftest=tools/testing/selftests/dm-revdedup

begin() {
	local file
	git init -q -b main "$tree"
	for file in MAINTAINERS drivers/md/{Kconfig,Makefile} "$page/index.rst" \
		tools/testing/selftests/Makefile; do
		install -D -m 644 "$linux/$file" "$tree/$file"
	done
	in_tree add -A
	in_tree commit -q -m base
}

# commit MESSAGE: with the file of that name as its text.
commit() {
	in_tree add -A
	{ cat "$scripts/upstream/messages/$1"; echo; echo "Signed-off-by: $author"; } |
		in_tree commit -q -F -
}

# after FILE WORDS TEXT: put TEXT behind the last line that begins with WORDS.
after() {
	local line
	line=$(grep -nF "$2" "$tree/$1" | tail -n 1 | cut -d : -f 1) || :
	[ -n "$line" ] || die "'$1' of '$linux' has no line '$2' any more"
	sed -i "${line}r /dev/stdin" "$tree/$1" <<<"$3"
}

enter() {
	after drivers/md/Kconfig 'source "drivers/md/dm-vdo/Kconfig"' "
source \"$driver/Kconfig\""
	# shellcheck disable=SC2016 # make's
	after drivers/md/Makefile 'obj-$(CONFIG_DM_RAID)' \
		$'obj-$(CONFIG_DM_REVDEDUP)\t+= dm-revdedup/'
	after MAINTAINERS $'F:\tdrivers/md/dm-vdo/' "
DEVICE-MAPPER REVDEDUP TARGET
M:	$author
L:	dm-devel@lists.linux.dev
S:	Maintained
F:	$page/dm-revdedup.rst
F:	$driver/
F:	$selftest/"
}

# What the page says of this tree, in words for the kernel's.
write_page() {
	# shellcheck disable=SC2016 # of the page
	sed -e "s:\`\`kernel/\([a-z_]*\.h\):\`\`$driver/\1:g" \
		-e 's/``make bench-target``/``make bench-target`` of the revdedup project/' \
		"$scripts/../Documentation/dm-revdedup.rst" >"$tree/$page/dm-revdedup.rst"
	after "$page/index.rst" '    dm-raid' '    dm-revdedup'
}

write_selftest() {
	mkdir -p "$tree/$selftest"
	"$scripts/upstream/selftest.py" "$tree/$selftest" >&2
	after tools/testing/selftests/Makefile 'TARGETS += dmabuf-heaps' 'TARGETS += dm-revdedup'
}

make_series() {
	local i
	begin
	for i in "${!parts[@]}"; do
		rm -rf "${tree:?}/$driver"
		"$scripts/upstream/sources.py" --linux "$linux" --parts "${parts[@]::i+1}" \
			--to "$tree/$driver"
		[ "$i" -ne 0 ] || enter
		commit "${parts[i]}"
	done
	write_page
	commit page
	write_selftest
	commit selftest
	in_tree format-patch -q -o "$out/patches" --cover-letter --no-signature \
		HEAD~$((${#parts[@]} + 2))
	# git leaves a place for the subject and the text, and has the rest.
	python3 - "$out/patches/0000-cover-letter.patch" "$scripts/upstream/messages/cover" <<-'EOF'
		import sys
		path, cover = sys.argv[1:]
		subject, text = open(cover, encoding="utf-8").read().split("\n\n", 1)
		letter = open(path, encoding="utf-8").read()
		letter = letter.replace("*** SUBJECT HERE ***", subject)
		letter = letter.replace("*** BLURB HERE ***", text.rstrip("\n"))
		open(path, "w", encoding="utf-8").write(letter)
	EOF
}

# --- checks

# What an outer make was told is not for this one.
kernel_make() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u KBUILD_OUTPUT make -s -j "$(nproc)" "$@"
}

# The same in the source with the patches.
tree_make() { kernel_make -C "$src" O="$out/obj" ARCH=x86_64 "$@"; }

# log NAME COMMAND...: run it, and fail if it fails, or says anything but what a kernel's
# build says of the machine.
log() {
	local name=$1 r=0
	shift
	"$@" >"$out/check.log" 2>&1 || r=$?
	sed -i '/^Skipping BTF generation/d; /^warning: the compiler differs/d
		/^warning: pahole version differs/d; /^  The kernel was built [bw]/d
		/^  You are using:/d' "$out/check.log"
	if [ "$r" -ne 0 ] || [ -s "$out/check.log" ]; then
		tail -n 60 "$out/check.log" >&2
		die "$name: not clean, see above"
	fi
	note "$name: clean"
}

# No message is cut in two for its length. What a later patch adds is in a directory that
# MAINTAINERS has from the first one on.
checkpatch() {
	perl "$src/scripts/checkpatch.pl" --no-tree --strict --terse --no-summary --quiet \
		--max-line-length=100 --ignore LONG_LINE_STRING,FILE_PATH_CHANGES "$1"
}

make_config() {
	printf 'CONFIG_%s=y\n' 64BIT MODULES BLOCK MD PRINTK SYSFS >"$out/allconfig"
	printf 'CONFIG_BLK_DEV_DM=m\nCONFIG_DM_REVDEDUP=m\n' >>"$out/allconfig"
	tree_make KCONFIG_ALLCONFIG="$out/allconfig" allnoconfig >/dev/null
	grep -qx 'CONFIG_DM_REVDEDUP=m' "$out/obj/.config" || die "Kconfig does not have the target"
	tree_make prepare >"$out/prepare.log" 2>&1 ||
		{ tail "$out/prepare.log" >&2; die "the kernel cannot be built: see above"; }
}

# Debian 12's sparse lacks an operator of newer kernels, which it would take for an error, and
# cannot evaluate what they check of the text in MODULE_*().
build_in_tree() {
	local line place
	tree_make W=1 C=1 CHECK=sparse CF=-D__typeof_unqual__=__typeof__ KCFLAGS=-Werror \
		"$driver/" 2>"$out/build.log" ||
		{ cat "$out/build.log"; return 1; }
	while read -r line; do
		if [[ $line =~ ^([^:]*):([0-9]+):1:\ error:\ bad\ constant\ expression ]]; then
			place=$(sed -n "${BASH_REMATCH[2]}p" "${BASH_REMATCH[1]}")
			[[ $place != MODULE_* ]] || continue
		fi
		printf '%s\n' "$line"
	done <"$out/build.log"
}

build_for_guest() {
	rm -rf "$out/module"
	cp -r "$src/$driver" "$out/module"
	kernel_make -C "$kdir" M="$out/module" CONFIG_DM_REVDEDUP=m W=1 KCFLAGS=-Werror modules
}

html() {
	tree_make SPHINXDIRS=admin-guide/device-mapper htmldocs >"$out/sphinx.log" 2>&1 ||
		{ cat "$out/sphinx.log"; return 1; }
	# Other pages have faults of their own.
	grep 'dm-revdedup' "$out/sphinx.log" || :
	find "$out/obj/Documentation/output" -name dm-revdedup.html | grep -q . ||
		{ cat "$out/sphinx.log"; echo "there is no page"; }
}

selftests() {
	kernel_make -C "$src/$selftest" OUTPUT="$out/selftest" CC=gcc
	cp -r "$src/$selftest"/*.{bats,bash,sh} "$out/selftest"
}

check_series() {
	local patch number kdir src
	src=$out/src
	rm -rf "$src"
	# Here, as it tells what it does, which is no warning of a check.
	kdir=$("$scripts/headers.sh" newest)
	note "checking the series for $(kernel_make -C "$linux" kernelversion)"
	# Of the same files: patch replaces a file that it changes.
	cp -al "$linux" "$src"
	for patch in "$out"/patches/*.patch; do
		number=${patch##*/}
		number=${number%%-*}
		[ "$number" != 0000 ] || continue
		log "$number checkpatch" checkpatch "$patch"
		patch -d "$src" -p1 -s --no-backup-if-mismatch <"$patch" ||
			die "'$patch' does not apply"
		[ "$((10#$number))" -le "${#parts[@]}" ] || continue
		make_config
		log "$number W=1, sparse" build_in_tree
		log "$number for the guest" build_for_guest
		mkdir "$out/$((10#$number))"
		cp "$out/module/dm-revdedup.ko" "$out/$((10#$number))"
	done
	log "htmldocs" html
	mkdir "$out/selftest"
	log "selftest" selftests
	rm -rf "$src"
}

make_series
note "the series is in $out/patches"
! $check || check_series
