#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: rpm.sh [--kdir DIR]
#
# Make the packages for Fedora and RHEL of what git knows of this tree, in build/rpm, with
# kmod-revdedup for the kernel whose headers are in DIR (default: Debian's 6.12 cloud kernel), and
# have rpmlint look at them. Prints their names. What Debian's packages are called is not in the
# RPM database of a Debian, so what the spec needs for the build is not looked for there.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")

kdir=''
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--kdir) [ $# -ge 2 ] || usage_error "'$1' lacks its value"; kdir=$(realpath "$2") ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done

"$scripts/setup.sh" build rpm
cd "$scripts/.."
[ -n "$kdir" ] || kdir=$(scripts/headers.sh 6.12)
[ -f "$kdir/include/config/kernel.release" ] || die "'$kdir' has no headers of a kernel"
version=$(sed -n 's/^VERSION := //p' Makefile)
top=$PWD/build/rpm

rm -rf "$top"
mkdir -p "$top"/{SOURCES,SPECS}
git ls-files -z | tar -c --null -T - --transform "s|^|revdedup-$version/|S" |
	gzip -n >"$top/SOURCES/revdedup-$version.tar.gz"
entry="* $(date -d "$(dpkg-parsechangelog -S Date)" '+%a %b %d %Y')"
entry+=" $(dpkg-parsechangelog -S Maintainer) - $version-1"
sed -e "s/@VERSION@/$version/" -e "s/^@CHANGELOG@/$entry\n- CHANGELOG.md says what is new/" \
	tools/rpm/revdedup.spec.in >"$top/SPECS/revdedup.spec"
defines=(--define "_topdir $top" --define "kdir $kdir"
	--define "kernel_release $(<"$kdir/include/config/kernel.release")")
[ ! -e /etc/debian_version ] || defines+=(--nodeps --define 'debug_package %{nil}'
	# What macros of Fedora do, and Debian's do not.
	--define "__os_install_post $(printf '%s; ' 'bash /usr/lib/rpm/brp-compress' \
		'strip %{buildroot}%{_sbindir}/revdedup* %{buildroot}%{_libdir}/nbdkit/plugins/*.so' \
		'strip --strip-debug %{buildroot}/lib/modules/*/extra/revdedup/*.ko')"
	--define 'optflags -O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2')
rpmbuild -bb "${defines[@]}" "$top/SPECS/revdedup.spec" >"$top/log" 2>&1 || {
	tail -n 30 "$top/log" >&2
	die "no packages were made; all of the log is in build/rpm/log"
}
rpmlint --strict --config tools/rpm/rpmlint.toml "$top"/SPECS/*.spec "$top"/RPMS/*/*.rpm \
	>"$top/lint" 2>&1 || {
	cat "$top/lint" >&2
	die "rpmlint finds fault with the packages"
}
ls build/rpm/RPMS/*/*.rpm
