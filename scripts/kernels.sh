#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: kernels.sh 6.1|6.12
#
# Put Debian's cloud kernel of that series, the one that the installed headers
# belong to, into the cache, and print the directory. It holds:
#
#   release       the kernel's release, as uname -r prints it
#   vmlinux       the kernel, unpacked, so that the guest need not do it
#   modules       lib/modules/RELEASE with what a block device test can want
#   modules.ext4  the same as a file system for the guest
#
# The package is only unpacked, never installed: installing a kernel changes
# the boot loader of the machine that builds this.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# The modules that the guest gets; the others (network cards and such) are
# most of the package.
module_dirs=(arch block crypto drivers/block drivers/char drivers/md
	drivers/scsi drivers/virtio fs lib)

# Get the package, with an apt-get update where apt's lists are missing or old.
download() {
	apt-get -qq download "$1=$2" 2>/dev/null && return
	note "updating the lists of apt"
	as_root apt-get update -qq
	apt-get -qq download "$1=$2" ||
		die "no package $1=$2: upgrade linux-headers-*-cloud-amd64 and try again"
}

# A bzImage carries the kernel compressed. Find it by the magic of zstd (6.12) or
# lz4 (6.1).
unpack_kernel() {
	local image=$1 out=$2 try magic offset
	for try in 'zstd:\x28\xb5\x2f\xfd' 'lz4:\x02\x21\x4c\x18'; do
		magic=${try#*:}
		while read -r offset; do
			tail -c +$((offset + 1)) "$image" |
				"${try%%:*}" -dc >"$out" 2>/dev/null || :
			readelf -h "$out" >/dev/null 2>&1 && return
		done < <(LC_ALL=C grep -aobP "$magic" "$image" | LC_ALL=C cut -d: -f1)
	done
	die "found no kernel in '$image'"
}

make_kernel() {
	local package=$1 version=$2 release=$3 dir=$4
	local deb=$dir/deb modules=$dir/modules/lib/modules/$release d
	note "unpacking $package $version into the cache"
	mkdir "$deb"
	(cd "$deb" && download "$package" "$version" && dpkg -x ./*.deb .)

	echo "$release" >"$dir/release"
	unpack_kernel "$deb/boot/vmlinuz-$release" "$dir/vmlinux"

	mkdir -p "$modules/kernel"
	for d in "${module_dirs[@]}"; do
		[ -d "$deb/lib/modules/$release/kernel/$d" ] || continue
		mkdir -p "$modules/kernel/${d%/*}"
		mv "$deb/lib/modules/$release/kernel/$d" "$modules/kernel/$d"
	done
	mv "$deb/lib/modules/$release"/modules.{builtin*,order} "$modules"
	find "$modules" -name '*.ko.xz' -exec xz -d {} +
	# Relative to modules.dep, so that one tree serves any place.
	depmod -b "$dir/modules" "$release"
	rm -rf "$deb"

	truncate -s "$(du -s --apparent-size -m "$dir/modules" |
		awk '{ print int($1 * 1.3) + 4 "M" }')" "$dir/modules.ext4"
	mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$dir/modules/lib/modules" \
		"$dir/modules.ext4"
}

case ${1:-} in
-h | --help)
	show_help
	exit
	;;
6.1) headers=linux-headers-cloud-amd64 ;;
6.12) headers=linux-headers-6.12-cloud-amd64 ;;
*) usage_error "which kernel, 6.1 or 6.12?" ;;
esac

"${BASH_SOURCE[0]%/*}/setup.sh" vm

# The headers of the series depend on those of one exact kernel.
depends=$(dpkg-query -W -f '${Depends}\n' "$headers" | sed 's/,.*//')
[[ $depends =~ ^linux-headers-([^ ]+)\ \(=\ ([^\)]+)\) ]] ||
	die "cannot read the kernel's version from '$headers' ('$depends')"
release=${BASH_REMATCH[1]}
version=${BASH_REMATCH[2]}

cached "kernel/$release-$version-$(sha256sum <"$0" | head -c 8)" \
	make_kernel "linux-image-$release" "$version" "$release"
