#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: rpm.sh
#
# Test the packages for Fedora and RHEL as far as a Debian can: build them, have rpmlint look at
# them, and install them by rpm into an empty tree, where each file is in its place, the programs
# run, and the module is one of its kernel, which a guest loads. What their scripts refuse.
# shellcheck source=tests/system/packages.bash
. "${BASH_SOURCE[0]%/*}/packages.bash"
[ "$(id -u)" -eq 0 ] || die "rpm installs as root: run it as root"

scripts/setup.sh build rpm vm
build=$PWD/build/rpm-test
root=$build/root
release=$(<"$(scripts/kernels.sh 6.12)/release")
version=$(sed -n 's/^VERSION := //p' Makefile)

# requires PACKAGE WORDS...: it names each.
requires() {
	local word
	rpm -qp --requires --recommends --provides "$build/rpms/$1"-[0-9]*.rpm >"$build/names"
	cat "$build/names"
	for word in "${@:2}"; do
		grep -q "^$word" "$build/names" || { echo "it lacks '$word'"; return 1; }
	done
}

# preun PACKAGE ARGUMENT: run what rpm runs before that goes, with the configuration of the tree,
# and a systemctl that only notes what it is told, in $build/told.
preun() {
	rm -f "$build/told"
	rpm -qp --scripts "$build/rpms/$1"-[0-9]*.rpm |
		sed -n '/^preuninstall scriptlet/,/^[a-z]* scriptlet/{/scriptlet/d; p}' |
		sed "s|/etc/revdedup|$root&|" >"$build/preun"
	[ -s "$build/preun" ] && PATH=$build/bin:$PATH sh "$build/preun" "$2"
}

# stops_all: the last one stops and disables the unit for volumes, and each timer that there is.
stops_all() {
	local unit
	cat "$build/told"
	for unit in revdedup-attach.service systemd/*.timer; do
		unit=${unit##*/}
		grep -qw "disable --now.* $unit" "$build/told" || { echo "not $unit"; return 1; }
	done
}

stops_none() { [ ! -e "$build/told" ]; }

has_files() {
	local file
	for file in usr/sbin/revdedup{ctl,-meta} usr/share/man/man8/revdedup{ctl,-meta}.8.gz \
		usr/share/man/man5/revdedup.conf.5.gz \
		usr/lib/systemd/system/revdedup-attach.service \
		usr/lib/systemd/system-preset/80-revdedup.preset \
		usr/lib/udev/rules.d/{12,63}-revdedup.rules \
		etc/revdedup/{revdedup.conf,hooks.d/libvirt} \
		usr/libexec/revdedup/tell-failure \
		usr/share/bash-completion/completions/revdedupctl \
		"usr/share/licenses/revdedup-$version/COPYING" usr/share/doc/revdedup/README.md \
		"usr/src/revdedup-$version/"{dkms.conf,kernel/target.c} \
		usr/lib64/nbdkit/plugins/nbdkit-revdedup-plugin.so \
		usr/lib/sysusers.d/revdedup-nbdkit.conf \
		"lib/modules/$release/extra/revdedup/dm-revdedup.ko"; do
		[ -f "$root/$file" ] || { echo "there is no '$file'"; return 1; }
	done
}

# All that it has is there, and nothing beside it.
owns_all() {
	rpm --root "$root" -ql revdedup{,-nbdkit,-dkms} kmod-revdedup | sort -u >"$build/owned"
	(cd "$root" && find etc usr lib -type f -printf '/%p\n') | sort -u >"$build/there"
	comm -13 "$build/owned" "$build/there" | tee "$build/more"
	[ ! -s "$build/more" ]
}

starts() {
	unit=$root/usr/lib/systemd/system/revdedup-attach.service
	grep '^ExecStart=/usr/sbin/revdedupctl attach --all$' "$unit" &&
		! grep -r '@[A-Z]*@\|BUILD' "$root/usr/lib/systemd/system"
}

run_programs() {
	"$root/usr/sbin/revdedupctl" version | grep -F "$version" &&
		"$root/usr/sbin/revdedup-meta" --version | grep -F "$version"
}

modules=$root/lib/modules/$release/extra/revdedup
is_of_kernel() { modinfo -F vermagic "$modules/dm-revdedup.ko" | grep "^$release "; }

rm -rf "$build"
mkdir -p "$root" "$build"/{bin,rpms}
# shellcheck disable=SC2016 # for sh
printf '#!/bin/sh\necho "$@" >>"%s"\n' "$build/told" >"$build/bin/systemctl"
chmod 755 "$build/bin/systemctl"
ok "they are built, and rpmlint finds no fault" make rpm
cp build/rpm/RPMS/*/*.rpm "$build/rpms"
ok "there are four" [ "$(find "$build/rpms" -name '*.rpm' | wc -l)" = 4 ]
ok "the programs need their libraries" requires revdedup 'libcrypto\.so' 'libsqlite3\.so' \
	'liburing\.so' 'libdevmapper\.so' 'revdedup-kmod >='
ok "the module is had from DKMS" requires revdedup-dkms dkms 'revdedup-kmod = '
ok "or prebuilt" requires kmod-revdedup 'revdedup-kmod = '
ok "they are installed" rpm --root "$root" -i --nodeps --noscripts "$build"/rpms/*.rpm
ok "each file is in its place" has_files
ok "each belongs to one of them" owns_all
ok "they are as they were packed" rpm --root "$root" -V --nodeps --noscripts \
	revdedup{,-nbdkit,-dkms} kmod-revdedup
ok "units start what is there" starts
ok "the programs run" run_programs
ok "nbdkit loads the plugin" nbdkit \
	"$root/usr/lib64/nbdkit/plugins/nbdkit-revdedup-plugin.so" --dump-plugin
ok "the module is its kernel's" is_of_kernel
ok "a guest of that kernel loads it" loads_in_guest "$modules"
# What dkms.conf has DKMS do, in the source that it gets.
dkms_builds() {
	local tree=$root/usr/src/revdedup-$version
	grep -F "PACKAGE_VERSION=\"$version\"" "$tree/dkms.conf" &&
		cp -r "$tree" "$build/dkms" &&
		make -s -j 2 -C "$(scripts/headers.sh 6.12)" "M=$build/dkms" modules &&
		[ -f "$build/dkms/kernel/dm-revdedup.ko" ]
}
ok "the source for DKMS builds" dkms_builds
ok "with nothing attached the programs may go" preun revdedup 0
ok "and stop what they would leave behind" stops_all
touch "$root/etc/revdedup/volumes/revdedup-vg-vm1"
refuses() {
	! preun "$1" 0 2>"$build/error" && grep -F 'revdedupctl detach VOL' "$build/error"
}
ok "with a volume attached they may not, and say what to do" refuses revdedup
ok "nor may DKMS's module" refuses revdedup-dkms
ok "nor that for one kernel" refuses kmod-revdedup
ok "but be upgraded" preun revdedup 1
ok "and that stops nothing" stops_none
echo "# $number passed"
