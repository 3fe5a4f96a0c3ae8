#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: deb.sh
#
# Test the Debian packages: build them, install them in a Debian 12 with DKMS, a compiler
# and kernel headers, where DKMS builds the module, and upgrade them. Then boot that Debian
# with systemd, run the units, and upgrade and remove the packages there: see deb-guest.sh.
# shellcheck source=tests/system/packages.bash
. "${BASH_SOURCE[0]%/*}/packages.bash"
[ "$(id -u)" -eq 0 ] || die "this makes a chroot: run it as root"

scripts/setup.sh build deb vm
build=$PWD/build/deb-test
root=$build/root

# --- a machine

packages=(bash-completion dkms dmsetup e2fsprogs gawk gcc init-system-helpers kmod
	libdevmapper1.02.1 libsqlite3-0 libssl3 liburing2 libxxhash0
	linux-headers-6.12-cloud-amd64 lvm2 make mdadm mount nbdkit procps systemd
	thin-provisioning-tools udev util-linux xxd)

release=$(<"$(scripts/kernels.sh 6.12)/release")
base=$(cached "deb/$release-$(declare -p packages | sha256sum | head -c 8)" make_base)

clean_up() { ! mountpoint -q "$root/proc" || umount "$root/proc"; }
trap clean_up EXIT

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }

# later NAME: the same package, called newer. (Nothing in here ends it by failing.)
later() {
	local dir=$build/later
	rm -rf "$dir"
	dpkg-deb -R "$build"/debs/"$1"_*.deb "$dir" &&
	sed -i 's/^Version: .*/&+later/; s/(= [^)]*/&+later/' "$dir/DEBIAN/control" &&
	dpkg-deb --root-owner-group -b "$dir" "$build/later-debs/$1.deb"
}

# has_pages: in the package, as no documentation is installed on the base.
has_pages() {
	local page
	dpkg-deb -c "$build"/debs/revdedup_*.deb >"$build/contents"
	for page in README.md CHANGELOG.md guests.rst under-a-pool.rst \
		examples/prometheus-rules.yml examples/grafana-dashboard.json \
		proxmox.rst examples/RevdedupPlugin.pm; do
		grep "/usr/share/doc/revdedup/$page\$" "$build/contents" || return
	done
}

rm -rf "$build"
mkdir -p "$root" "$build"/{debs,later-debs}
ok "packages are made, and lintian finds no fault" make deb
cp build/deb/*.deb "$build/debs"
newer() { later revdedup && later revdedup-nbdkit && later revdedup-dkms; }
ok "a newer one of each" newer
tar -x -C "$root" -f "$base/root.tar"
[ -d "$root/lib/modules/$release" ] ||
	die "the headers here are of another kernel than $release: upgrade them"
mount -t proc proc "$root/proc"
mkdir "$root/debs" "$root/revdedup"
cp "$build"/debs/*.deb "$root/debs"
cp -r "$build/later-debs" "$root/later"

# --- on it

ok "they install, and DKMS builds the module" inside sh -c 'dpkg -i /debs/*.deb'
ok "the module is there" inside modinfo -k "$release" dm-revdedup
ok "programs, pages and completion" inside bash -euc '
	revdedupctl version && revdedup-meta --version
	ls /usr/share/man/man8/revdedupctl.8.gz /usr/share/man/man8/revdedup-{meta,expert}.8.gz \
		/usr/share/man/man5/revdedup.conf.5.gz \
		/usr/share/zsh/vendor-completions/_revdedupctl \
		/usr/share/fish/vendor_completions.d/revdedupctl.fish
	. /usr/share/bash-completion/completions/revdedupctl
	complete -p revdedupctl'
ok "what administrators read, and copy" has_pages
ok "a hook that finds no libvirt lets all go on" \
	inside /etc/revdedup/hooks.d/libvirt pre vg/vm1 /dev/null
ok "units are right" inside bash -c 'systemd-analyze verify --man=no /lib/systemd/system/revdedup-*'
ok "volumes are attached at boot" inside systemctl is-enabled revdedup-attach.service
for timer in snapshot prune scrub metrics; do
	ok "nothing is begun that nobody asked for: $timer" \
		fails inside systemctl is-enabled "revdedup-$timer.timer"
done
inside sed -i 's|^#pool = .*|pool = /mine|' /etc/revdedup/revdedup.conf
ok "they are upgraded" inside sh -c 'dpkg -i /later/*.deb'
ok "what the user wrote is kept" inside sh -c "revdedupctl config | grep -q /mine"
ok "the module was built again" inside modinfo -k "$release" dm-revdedup

# --- booted: what it was built with it needs no more

umount "$root/proc"
rm -rf "$root"/usr/lib/gcc "$root"/usr/src/linux-* "$root/lib/modules/$release/build" \
	"$root/lib/modules/$release/source" "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
cp -r "$(scripts/kernels.sh 6.12)/modules/lib/modules/$release/." "$root/lib/modules/$release"
depmod -b "$root" "$release"
truncate -s "$(du -s --apparent-size -m "$root" | awk '{ print int($1 * 1.2) + 64 "M" }')" \
	"$build/root.ext4"
ok "an image of it" mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$root" "$build/root.ext4"
rm -rf "$root"
truncate -s 384M "$build/group"
truncate -s 512M "$build/pool"
scripts/vm-run.sh --kernel 6.12 --rootfs "$build/root.ext4" --mem 1536 --timeout 1800 \
	--disk "$build/group" --disk "$build/pool" \
	--payload tests/guest/lib:tests/guest/lib --payload tests/system:tests/system \
	--payload Documentation/host.rst:host.rst \
	-- /usr/bin/bash /revdedup/tests/system/deb-guest.sh
