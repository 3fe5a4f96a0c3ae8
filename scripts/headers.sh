#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: headers.sh 6.1|6.12|newest|SERIES
#        headers.sh list
#
# Print the directory of the headers of Debian's cloud kernel of that series: what KDIR=
# takes. Those of 6.1 and 6.12 are installed. Those of "newest", and of a SERIES (like 7.2)
# that the backports of the next Debian have, are unpacked into the cache; "list" prints
# these series, the newest last.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source=scripts/archive.sh
. "${BASH_SOURCE[0]%/*}/archive.sh"

# A day: the module and its guest shall be of one release.
max_age=1440

installed() {
	local package=$1 depends dir
	depends=$(dpkg-query -W -f '${Depends}\n' "$package")
	dir=/usr/src/${depends%% *}
	[ -f "$dir/Makefile" ] ||
		die "no headers in '$dir': reinstall ${depends%% *}"
	printf '%s\n' "$dir"
}

# The programs of the kernel's build were linked with a newer libc than this machine has.
# wrap_programs DIR PLACE: have them run with that libc, which is in DIR as well; PLACE is
# where DIR will be.
wrap_programs() {
	local dir=$1 place=$2 file name
	while read -r file; do
		[ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
		name=${file#"$dir"}
		mv "$file" "$file.elf"
		cat >"$file" <<-EOF
			#!/bin/sh
			exec "$place/usr/lib64/ld-linux-x86-64.so.2" --argv0 "\$0" \\
				--library-path "$place/usr/lib/x86_64-linux-gnu" \\
				"$place$name.elf" "\$@"
		EOF
		chmod 755 "$file"
	done < <(find "$dir"/usr/lib/linux-kbuild-* -type f -perm -100)
}

# The kernel's own answer for a compiler that lacks an option of the one that built it.
adapt_config() {
	local headers=$1 option=CC_HAS_MIN_FUNCTION_ALIGNMENT
	if ! gcc -Werror -fmin-function-alignment=16 -x c -c /dev/null -o /dev/null 2>/dev/null
	then
		sed -i "/^CONFIG_$option=/d" "$headers/include/config/auto.conf" "$headers/.config"
		sed -i "/define CONFIG_$option /d" "$headers/include/generated/autoconf.h"
	fi
	# Without it no BTF is made, for which the installed pahole is too old.
	rm -f "$headers/vmlinux"
}

make_headers() {
	local release=$1 version=$2 place=$3 dir=$4
	local base=${release%-cloud-*} headers
	note "unpacking the headers of $release into the cache"
	archive_unpack "$dir" "linux-headers-$release=$version" \
		"linux-headers-$base-common=$version" "linux-kbuild-$base=$version" \
		{libc6,libelf1t64,libssl3t64,libzstd1,zlib1g}"/$archive_suite"
	headers=$dir/usr/src/linux-headers-$release
	wrap_programs "$dir" "$place"
	adapt_config "$headers"
	# The compiler that built it is not here; and the headers are in another place.
	sed -i '/^CC *=/d; /CROSS_COMPILE/d' "$headers/.kernelvariables"
	printf '%s\n' "KBUILD_OUTPUT=$place/usr/src/linux-headers-$release" \
		"include $place/usr/src/linux-headers-$base-common/Makefile" >"$headers/Makefile"
}

from_archive() {
	local release version name dir
	archive_refresh "$max_age"
	release=$(archive_release "$1")
	version=$(archive_version "$release")
	name=headers/$release-$version-$(cat "$0" "${0%/*}/archive.sh" | sha256sum | head -c 8)
	dir=$(cached "$name" make_headers "$release" "$version" "$cache/$name")
	printf '%s\n' "$dir/usr/src/linux-headers-$release"
}

case ${1:-} in
-h | --help) show_help; exit ;;
'') usage_error "which kernel, 6.1, 6.12 or newest?" ;;
esac
"${BASH_SOURCE[0]%/*}/setup.sh" build
case $1 in
6.1) installed linux-headers-cloud-amd64 ;;
6.12) installed linux-headers-6.12-cloud-amd64 ;;
list)
	archive_refresh "$max_age"
	archive_releases | sed 's/^\([0-9]*\.[0-9]*\).*/\1/'
	;;
newest | [0-9]*.[0-9]*) from_archive "$1" ;;
*) usage_error "no such kernel: '$1'" ;;
esac
