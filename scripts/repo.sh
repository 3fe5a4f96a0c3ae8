#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: repo.sh [--key ID] [--kdir DIR]...
#
# Make a signed apt repository of the packages in build/repo, with the module prebuilt for each
# kernel whose headers are in a DIR (default: Debian's 6.12 cloud kernel). What serves it is any
# web server, or a file system; build/repo/README says what a host is told.
#
#   --key ID    sign with this key of the user's; else one is made, in build/repo-key, which is
#               good for a try, and signs the next repository as well
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")

key='' kdirs=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--key) key=$2 ;;
	--kdir) kdirs+=("$(realpath "$2")") ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done

"$scripts/setup.sh" build deb
cd "$scripts/.."
[ "${#kdirs[@]}" -gt 0 ] || kdirs=("$(scripts/headers.sh 6.12)")
arch=$(dpkg --print-architecture)
version=$(dpkg-parsechangelog -S Version)
repo=$PWD/build/repo.new

# Without a key that the user has there is none to ask for a passphrase, and no agent is left.
gpg=(gpg --batch --quiet --no-tty)
if [ -z "$key" ]; then
	export GNUPGHOME=$PWD/build/repo-key
	mkdir -p "$GNUPGHOME"
	chmod 700 "$GNUPGHOME"
	trap 'gpgconf --kill all' EXIT
	key="revdedup repository (a key for a try)"
	# A host that trusts it goes on to do so.
	"${gpg[@]}" --list-secret-keys "$key" >/dev/null 2>&1 ||
		"${gpg[@]}" --passphrase '' --quick-generate-key "$key" ed25519 sign never \
			2>/dev/null
fi
"${gpg[@]}" --list-secret-keys "$key" >/dev/null || die "there is no secret key '$key' to sign with"

# kernel_release KDIR: for which kernel these headers are.
kernel_release() {
	local file=$1/include/config/kernel.release
	[ -f "$file" ] ||
		die "'$1' has no headers of a kernel: it lacks include/config/kernel.release"
	cat "$file"
}

# make_modules KDIR: a package with the module for that kernel, in the repository. It lies where
# depmod prefers one that DKMS has built.
make_modules() {
	local kdir=$1 release name tree
	release=$(kernel_release "$kdir")
	name=revdedup-modules-$release tree=build/modules-deb/$release
	scripts/module-build.sh --kdir "$kdir" --out "build/modules-deb/out-$release"
	rm -rf "$tree"
	mkdir -p "$tree/debian/source"
	cp debian/copyright "$tree/debian"
	sed '1s/^revdedup /revdedup-modules /' debian/changelog >"$tree/debian/changelog"
	echo '3.0 (native)' >"$tree/debian/source/format"
	cat >"$tree/debian/control" <<-END
		Source: revdedup-modules
		Section: kernel
		Priority: optional
		$(grep '^Maintainer: ' debian/control)
		Build-Depends: debhelper-compat (= 13)
		$(grep '^Standards-Version: ' debian/control)
		Rules-Requires-Root: no

		Package: $name
		Architecture: $arch
		Depends: \${misc:Depends}, kmod,
		 linux-image-$release | linux-image-$release-unsigned
		Recommends: revdedup
		Provides: revdedup-modules (= $version)
		Description: module of revdedup for $release
		 The device-mapper target that remembers which parts of a volume were written
		 since its last snapshot, built for this kernel: nothing is compiled where it is
		 installed. For other kernels there is revdedup-dkms; where both have built it
		 for one, that of DKMS is loaded.
	END
	cat >"$tree/debian/rules" <<-END
		#!/usr/bin/make -f
		file := debian/$name/lib/modules/$release/extra/revdedup/dm-revdedup.ko
		%: ; dh \$@
		override_dh_auto_install: ; install -D -m 644 dm-revdedup.ko \$(file)
		override_dh_strip: ; strip -g \$(file)
		override_dh_installmodules override_dh_usrlocal: ;
	END
	chmod 755 "$tree/debian/rules"
	cp "build/modules-deb/out-$release/dm-revdedup.ko" "$tree"
	# shellcheck disable=SC2016 # for sh
	printf '#!/bin/sh\nset -e\n[ "$1" != configure ] || depmod %s\n#DEBHELPER#\n' "$release" \
		>"$tree/debian/postinst"
	printf '#!/bin/sh\nset -e\n[ ! -d /lib/modules/%s ] || depmod %s || :\n#DEBHELPER#\n' \
		"$release" "$release" >"$tree/debian/postrm"
	# As that of DKMS, where it is the running kernel's.
	sed "s/ = remove ]/& \&\& [ \"\$(uname -r)\" = $release ]/" \
		debian/revdedup-dkms.prerm >"$tree/debian/prerm"
	(cd "$tree" && dpkg-buildpackage --build=binary --no-sign) >"$tree.log" 2>&1 || {
		tail -n 30 "$tree.log" >&2
		die "no package of the module for '$release' was made"
	}
	lintian --fail-on error,warning --tag-display-limit 0 --allow-root \
		--suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
		"build/modules-deb/${name}"_*.deb >&2 || die "lintian finds fault with '$name'"
	mv "build/modules-deb/${name}"_*.deb "$repo/pool"
}

rm -rf "$repo" build/modules-deb
mkdir -p "$repo/pool" "$repo/dists/stable/main/binary-$arch"
scripts/deb.sh >&2
cp build/deb/*.deb "$repo/pool"
for kdir in "${kdirs[@]}"; do
	make_modules "$kdir"
done

cd "$repo"
index=dists/stable/main/binary-$arch/Packages
dpkg-scanpackages --multiversion pool >"$index" 2>/dev/null
gzip -9 -n -k "$index"
apt-ftparchive -o APT::FTPArchive::Release::Origin=revdedup \
	-o APT::FTPArchive::Release::Label=revdedup -o APT::FTPArchive::Release::Suite=stable \
	-o APT::FTPArchive::Release::Codename=stable \
	-o APT::FTPArchive::Release::Components=main \
	-o "APT::FTPArchive::Release::Architectures=$arch" release dists/stable >Release.new
mv Release.new dists/stable/Release
"${gpg[@]}" --local-user "$key" --clearsign --output dists/stable/InRelease dists/stable/Release
"${gpg[@]}" --local-user "$key" --armor --detach-sign --output dists/stable/Release.gpg \
	dists/stable/Release
"${gpg[@]}" --export "$key" >revdedup.gpg
cat >README <<-END
	An apt repository of revdedup. On a host, with URL for where this directory is:

	  # curl -o /usr/share/keyrings/revdedup.gpg URL/revdedup.gpg
	  # cat >/etc/apt/sources.list.d/revdedup.sources
	  Types: deb
	  URIs: URL
	  Suites: stable
	  Components: main
	  Signed-By: /usr/share/keyrings/revdedup.gpg
	  # apt update
	  # apt install revdedup revdedup-dkms linux-headers-\$(uname -r)

	The last line may name a module that is built already, if there is one for your kernel,
	instead of DKMS, a compiler and headers:

	$(sed -n 's/^Package: \(revdedup-modules-.*\)/  # apt install revdedup \1/p' "$index")
END
# What is served stays whole until there is another.
cd ../..
rm -rf build/repo
mv "$repo" build/repo
note "the repository is in build/repo: README there says how a host uses it"
