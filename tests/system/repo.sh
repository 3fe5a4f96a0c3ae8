#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: repo.sh
#
# Test the apt repository: make it, serve it on loopback, and install from it by stock apt in a
# Debian 12 that has no compiler: with the prebuilt module, which a guest loads. What another key
# has signed, and what was changed, is refused.
# shellcheck source=tests/system/packages.bash
. "${BASH_SOURCE[0]%/*}/packages.bash"
[ "$(id -u)" -eq 0 ] || die "this makes a chroot: run it as root"

scripts/setup.sh build deb vm
build=$PWD/build/repo-test
root=$build/root
release=$(<"$(scripts/kernels.sh 6.12)/release")
module=revdedup-modules-$release

# --- a machine: all that the packages need, but for DKMS

packages=(dmsetup gawk init-system-helpers kmod libdevmapper1.02.1 libnbd0 libsqlite3-0 libssl3
	liburing2 libxxhash0 lvm2 mount systemd systemd-sysv udev util-linux
	"linux-image-$release")

base=$(cached "repo/$release-$(declare -p packages | sha256sum | head -c 8)" make_base)

server=
clean_up() {
	[ -z "$server" ] || kill "$server"
	! mountpoint -q "$root/proc" || umount "$root/proc"
}
trap clean_up EXIT

inside() {
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
		DEBIAN_FRONTEND=noninteractive "$@"
}

# refused WORDS COMMAND...: it ends with an error, and says this.
refused() {
	local words=$1
	shift
	fails "$@" >"$build/error" 2>&1 || return 1
	cat "$build/error"
	grep -q -- "$words" "$build/error"
}

# chosen WANTED NOT PACKAGE...: to install these, apt takes WANTED, and not NOT.
chosen() {
	inside apt-get -s install "${@:3}" >"$build/chosen"
	cat "$build/chosen"
	grep -q "^Inst $1 " "$build/chosen" && ! grep -q "^Inst $2 " "$build/chosen"
}

update() { inside apt-get update --error-on=any; }

# sign KEYRING: what is served, with the key there.
sign() {
	rm -f "$build/served/dists/stable/"{InRelease,Release.gpg}
	GNUPGHOME=$1 gpg --batch --quiet --clearsign \
		--output "$build/served/dists/stable/InRelease" "$build/served/dists/stable/Release"
}

rm -rf "$build"
mkdir -p "$root" "$build"
ok "the repository is made, and lintian finds no fault with the modules" make repo
cp -r build/repo "$build/served"
tar -x -C "$root" -f "$base/root.tar"
mount -t proc proc "$root/proc"

# As python prints it once it listens.
python3 -u -m http.server --bind 127.0.0.1 --directory "$build/served" 0 \
	>"$build/server" 2>/dev/null &
server=$!
until port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$build/server") && [ -n "$port" ]; do
	kill -0 "$server" || die "no server on loopback: see $build/server"
	sleep 0.1
done
url=http://127.0.0.1:$port

# No other source, so that no package of Debian's can stand in; and a DKMS, which there is not.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/*
mkdir -p "$build/dkms/DEBIAN" "$root/local"
printf '%s\n' 'Package: dkms' 'Version: 3.0' 'Architecture: all' \
	'Maintainer: none <none@localhost>' 'Description: stands for it' \
	>"$build/dkms/DEBIAN/control"
dpkg-deb --root-owner-group -b "$build/dkms" "$root/local/dkms.deb" >/dev/null
(cd "$root/local" && dpkg-scanpackages . 2>/dev/null >Packages)
echo 'deb [trusted=yes] file:/local ./' >"$root/etc/apt/sources.list.d/local.list"
# As the README of the repository says.
sed -n '/^  Types: /,/^  Signed-By: /s/^  //p' "$build/served/README" | sed "s|URL|$url|" \
	>"$root/etc/apt/sources.list.d/revdedup.sources"

# --- on it

ok "without its key the repository is refused" refused 'not signed\|NO_PUBKEY' update
cp "$build/served/revdedup.gpg" "$root/usr/share/keyrings"
ok "with it apt takes it" update
ok "DKMS is what the programs recommend" chosen revdedup-dkms "$module" revdedup
ok "where the module is prebuilt it is not" chosen "$module" revdedup-dkms revdedup "$module"
ok "they are installed" inside apt-get -y -q install revdedup "$module"
ok "from the repository" inside sh -c "apt-cache policy revdedup | grep -F '$url'"
ok "the module is there for its kernel" inside modinfo -k "$release" dm-revdedup
ok "with no compiler" inside sh -c '! command -v gcc && ! command -v make && ! dpkg -s dkms'
# lacks_nothing: apt would add no package that an installed one recommends.
lacks_nothing() {
	inside apt-get -s --fix-policy install >"$build/lacking" || return 1
	cat "$build/lacking"
	! grep -q '^Inst ' "$build/lacking"
}
ok "all that the programs recommend is there" lacks_nothing
ok "programs run" inside revdedupctl version
mkdir "$build/module"
cp "$root/lib/modules/$release/extra/revdedup/dm-revdedup.ko" "$build/module"
ok "a guest of that kernel loads it" loads_in_guest "$build/module"
ok "it goes" inside apt-get -y -q remove "$module"
ok "and its kernel has none" fails inside modinfo -k "$release" dm-revdedup

# --- what is not ours

debs=("$build"/served/pool/revdedup-dkms_*.deb)
printf x >>"${debs[0]}"
ok "a package that was changed is refused" refused 'Hash Sum mismatch\|unexpected size' \
	inside sh -c 'cd /tmp && apt-get -q download revdedup-dkms'
echo >>"$build/served/dists/stable/main/binary-$(dpkg --print-architecture)/Packages"
gzip -9 -n -f -k "$build"/served/dists/stable/main/binary-*/Packages
rm -rf "$root"/var/lib/apt/lists/*
ok "an index that was changed is refused" refused 'Hash Sum mismatch\|unexpected size' update
rm -rf "$build/served"
cp -r build/repo "$build/served"
mkdir -m 700 "$build/other"
GNUPGHOME=$build/other gpg --batch --quiet --no-tty --passphrase '' \
	--quick-generate-key other ed25519 sign never 2>/dev/null
sign "$build/other"
GNUPGHOME=$build/other gpgconf --kill all
rm -rf "$root"/var/lib/apt/lists/*
ok "what another key has signed is refused" refused 'NO_PUBKEY\|not signed' update
ok "and nothing of it can be installed" fails inside apt-get -s install "$module"
echo "# $number passed"
