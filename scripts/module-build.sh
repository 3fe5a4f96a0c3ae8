#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: module-build.sh --kdir DIR --out DIR [--arch ARCH] [VAR=VALUE]...
#
# Build dm-revdedup.ko for the kernel whose headers (or build) are in --kdir,
# into the directory --out. Any warning fails the build. The variables go to
# make; those that our Kbuild files know:
#
#   JUDGE=1   dm-judge.ko as well, the test-only judge of crashes
#   KUNIT=1   with the KUnit suites in it, which run when it is loaded
#   WITHOUT_PACKS=1   without packs; tests/bench/target/packs.sh compares both
#
# What is compiled is a copy in --out, as kbuild writes beside its sources: each
# kernel and each set of variables can have a directory of its own, and all of
# them can be built at the same time.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

kdir='' out='' make_args=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	[A-Z]*=*) make_args+=("$1"); shift; continue ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--kdir) kdir=$2 ;;
	--out) out=$2 ;;
	--arch) make_args+=("ARCH=$2") ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
if [ -z "$kdir" ] || [ -z "$out" ]; then
	usage_error "--kdir and --out are needed"
fi
[ -f "$kdir/Makefile" ] ||
	die "no kernel to build for in '$kdir': install its headers, or give another --kdir"

tree=$(realpath "${BASH_SOURCE[0]%/*}/..")
mkdir -p "$out"
out=$(realpath "$out")

sources() {
	(cd "$1" && find Kbuild kernel tests/judge \
		\( -name Kbuild -o -name '*.[ch]' \) ! -name '*.mod.c' 2>/dev/null)
}

# Only what differs is copied, and gets the time of now: to make, a file is new
# when its content is.
copy_sources() {
	local file
	while read -r file; do
		[ -e "$tree/$file" ] || rm "$out/src/$file"
	done < <(sources "$out/src")
	while read -r file; do
		cmp -s "$tree/$file" "$out/src/$file" ||
			install -D -m 644 "$tree/$file" "$out/src/$file"
	done < <(sources "$tree")
}

mkdir -p "$out/src"
exec {lock}>"$out/lock"
flock "$lock"
copy_sources
rm -f "$out"/*.ko

# What an outer make was told is not for this one. modpost only warns, and BTF
# is missing wherever there is no vmlinux.
r=0
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -j "$(nproc)" -C "$kdir" \
	M="$out/src" W=1 KCFLAGS=-Werror "${make_args[@]}" modules \
	>"$out/build.log" 2>&1 || r=$?
sed -i '/^Skipping BTF generation/d' "$out/build.log"
cat "$out/build.log" >&2
[ "$r" -eq 0 ] || die "the module does not build for '$kdir': see above"
! grep -q '^WARNING:' "$out/build.log" || die "the build warns: see above"
cp "$out"/src/kernel/*.ko "$out"
case " ${make_args[*]} " in
*' JUDGE='[!\ ]*) cp "$out"/src/tests/judge/*.ko "$out" ;;
esac
