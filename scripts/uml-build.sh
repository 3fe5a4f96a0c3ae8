#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: uml-build.sh [--source]
#
# Build the debug kernel (user-mode Linux from Debian's linux-source-6.12, as
# tests/guest/uml.config says) into the cache, and print the directory. It holds:
#
#   linux         the kernel, a program that runs as it is
#   release       the kernel's release, as uname -r prints it
#   modules.ext4  what belongs at /lib/modules, as a file system for the guest
#
# and is at the same time what KDIR= takes to build a module (with ARCH=um).
#
#   --source      print the directory of the kernel's source, and build nothing
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

config=$(realpath "${BASH_SOURCE[0]%/*}/../tests/guest/uml.config")
package=linux-source-6.12

# Of the largest drivers, which are most of the source, Kconfig is enough. UML has
# a constant for the size of a processor's vector registers, and dies at its first
# process where they are larger, as with AMX. For each allocation, lock and object that
# is to have its stack kept, it looks at each word of that, which takes half of all time;
# without frame pointers it keeps nothing of what it finds.
extract() {
	local tarball=/usr/src/$package.tar.xz
	local sizes=$1/arch/x86/um/user-offsets.c stacks=$1/arch/um/kernel/stacktrace.c
	[ -f "$tarball" ] || die "no '$tarball': reinstall $package"
	note "unpacking $package into the cache"
	tar -x -C "$1" -I 'xz -T0' -f "$tarball" --strip-components=1 \
		--exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/*.[ch]' \
		--exclude='*/drivers/media/*.[ch]' --exclude='*/sound/*.[ch]' \
		--exclude='*/Documentation/*/*'
	sed -i 's/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 12288/' "$sizes"
	grep -q 'HOST_FP_SIZE, 12288' "$sizes" ||
		die "'$sizes' does not have the size that is to be replaced"
	sed -i 's/^\tdump_trace(tsk, &dump_ops, trace);/\t(void)dump_ops;/' "$stacks"
	grep -q '(void)dump_ops' "$stacks" ||
		die "'$stacks' does not have the search that is to be left out"
}

# The kernel drops a line that it cannot have without a word.
check_config() {
	local line bad=()
	while read -r line; do
		case $line in
		*=n) ! grep -q "^${line%=n}=" "$1" || bad+=("$line") ;;
		CONFIG_*) grep -qxF "$line" "$1" || bad+=("$line") ;;
		esac
	done <"$config"
	[ "${#bad[@]}" -eq 0 ] ||
		die "the kernel does not take these lines of '$config': ${bad[*]}"
}

# What an outer make was told is not for this one.
kernel_make() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u KBUILD_OUTPUT \
		make -s -C "$source" O="$build" ARCH=um "$@"
}

# -O1, as most of the time goes into the compiler, and -O2 takes a quarter more.
make_kernel() {
	build=$1
	note "building the debug kernel into the cache (5 minutes on two cores)"
	kernel_make KCONFIG_ALLCONFIG="$config" allnoconfig
	check_config "$build/.config"
	kernel_make -j "$(nproc)" KCFLAGS=-O1 all >"$build/build.log" 2>&1 || {
		tail -n 40 "$build/build.log"
		die "the build failed: the whole log is '$build/build.log'"
	}

	kernel_make kernelrelease >"$build/release"
	kernel_make INSTALL_MOD_PATH="$build/modules" modules_install >/dev/null
	rm -f "$build/modules/lib/modules"/*/{build,source}
	truncate -s 16M "$build/modules.ext4"
	mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$build/modules/lib/modules" \
		"$build/modules.ext4"
	# Nobody looks at these again, and they are most of it.
	rm -rf "$build/modules" "$build"/vmlinux* "$build"/.tmp_vmlinux*
	find "$build" -path "$build/scripts" -prune -o -name '*.[ao]' -exec rm {} +
}

want=kernel
case ${1:-} in
-h | --help)
	show_help
	exit
	;;
--source) want=source ;;
'') ;;
*) usage_error "no such argument: '$1'" ;;
esac

[ "$(uname -m)" = x86_64 ] ||
	die "user-mode Linux with KASAN needs x86_64, and this is $(uname -m)"
"${BASH_SOURCE[0]%/*}/setup.sh" kunit build

version=$(dpkg-query -W -f '${Version}' "$package")
source=$(cached "linux/$version-$(declare -f extract | sha256sum | head -c 8)" extract)
if [ "$want" = source ]; then
	printf '%s\n' "$source"
	exit
fi
key=$(cat "$0" "$config" <(gcc -dumpfullversion) | sha256sum | head -c 16)
cached "uml/$version-$key" make_kernel
