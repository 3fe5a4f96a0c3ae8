#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: kernels.sh 6.1|6.12|newest|SERIES
#
# Put Debian's cloud kernel of that series, the one that the headers of headers.sh
# belong to, into the cache, and print the directory. It holds:
#
#   release       the kernel's release, as uname -r prints it
#   vmlinux       the kernel, unpacked, so that the guest need not do it
#   vmlinuz       the same as a boot loader wants it
#   modules       lib/modules/RELEASE with what a block device test can want
#   modules.ext4  the same as a file system for the guest
#
# The package is only unpacked, never installed: installing a kernel changes
# the boot loader of the machine that builds this.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source=scripts/archive.sh
. "${BASH_SOURCE[0]%/*}/archive.sh"

# The modules that the guest gets; the others (network cards and such) are
# most of the package. With those of the net a guest reaches a Ceph cluster.
module_dirs=(arch block crypto drivers/block drivers/char drivers/md
	drivers/scsi drivers/virtio fs lib net/ceph net/core net/dns_resolver)
module_files=(drivers/net/{virtio_net,net_failover})

# Get and unpack the package, with an apt-get update where apt's lists are missing or old.
unpack_own() {
	local dir=$1 package=linux-image-$2=$3
	mkdir "$dir/debs"
	cd "$dir/debs"
	if ! apt-get -qq download "$package" 2>/dev/null; then
		note "updating the lists of apt"
		as_root apt-get update -qq
		apt-get -qq download "$package" ||
			die "no package $package: upgrade linux-headers-*-cloud-amd64 and try again"
	fi
	dpkg -x ./*.deb "$dir"
}

# Later kernels are in several packages, and below /usr.
unpack_archive() {
	local dir=$1 release=$2 version=$3 names packages=() kind
	names=$(archive_names "^linux-(image|binary|modules|base)-${release//+/\\+}\$")
	for kind in image binary modules base; do
		! grep -q "^linux-$kind-" <<<"$names" ||
			packages+=("linux-$kind-$release=$version")
	done
	[ "${#packages[@]}" -gt 0 ] ||
		die "no package linux-image-$release in $archive_suite-backports: remove" \
			"'$archive_dir/updated' and build the module anew"
	archive_unpack "$dir" "${packages[@]}"
	if [ -d "$dir/usr/lib/modules" ]; then
		mkdir -p "$dir/lib" "$dir/boot"
		mv "$dir/usr/lib/modules" "$dir/lib"
		mv "$dir/lib/modules/$release/vmlinuz" "$dir/boot/vmlinuz-$release"
	fi
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
	local unpack=$1 version=$2 release=$3 dir=$4
	local deb=$dir/deb modules=$dir/modules/lib/modules/$release d
	note "unpacking kernel $release into the cache"
	mkdir "$deb"
	("$unpack" "$deb" "$release" "$version")

	echo "$release" >"$dir/release"
	unpack_kernel "$deb/boot/vmlinuz-$release" "$dir/vmlinux"
	# For a boot loader.
	mv "$deb/boot/vmlinuz-$release" "$dir/vmlinuz"

	mkdir -p "$modules/kernel"
	for d in "${module_dirs[@]}"; do
		[ -d "$deb/lib/modules/$release/kernel/$d" ] || continue
		mkdir -p "$modules/kernel/${d%/*}"
		mv "$deb/lib/modules/$release/kernel/$d" "$modules/kernel/$d"
	done
	for d in "${module_files[@]}"; do
		mkdir -p "$modules/kernel/${d%/*}"
		mv "$deb/lib/modules/$release/kernel/$d".ko* "$modules/kernel/${d%/*}"
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
newest | [0-9]*.[0-9]*) headers='' ;;
*) usage_error "which kernel, 6.1, 6.12 or newest?" ;;
esac

"${BASH_SOURCE[0]%/*}/setup.sh" vm

key=$(cat "$0" "${0%/*}/archive.sh" | sha256sum | head -c 8)
if [ -z "$headers" ]; then
	# Lists of any age, as headers.sh renews them: a guest gets the kernel that its
	# module was built for.
	archive_refresh 1000000
	release=$(archive_release "$1")
	version=$(archive_version "$release")
	cached "kernel/$release-$version-$key" make_kernel unpack_archive "$version" "$release"
	exit
fi

# The headers of the series depend on those of one exact kernel.
depends=$(dpkg-query -W -f '${Depends}\n' "$headers" | sed 's/,.*//')
[[ $depends =~ ^linux-headers-([^ ]+)\ \(=\ ([^\)]+)\) ]] ||
	die "cannot read the kernel's version from '$headers' ('$depends')"
release=${BASH_REMATCH[1]}
version=${BASH_REMATCH[2]}

cached "kernel/$release-$version-$key" make_kernel unpack_own "$version" "$release"
