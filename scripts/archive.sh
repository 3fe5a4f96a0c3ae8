# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Kernels that this Debian does not have, from the backports of the next one. Sourced, not
# run, after lib.sh. They come by an apt configuration of our own, with lists in the cache;
# the sources of the machine stay what they are, and nothing is installed, only unpacked.
# apt checks signatures with the keys of debian-archive-keyring, whatever the machine allows.
#
# No version is named anywhere, as the archive deletes old ones: "newest" is the newest cloud
# kernel for which the archive has headers and image now.

archive_suite=trixie
# shellcheck disable=SC2154 # of lib.sh
archive_dir=$cache/archive
# The mirror that the machine uses.
# shellcheck disable=SC2016 # apt's format
archive_mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' \
	'Created-By: Packages' 2>/dev/null | head -n 1) || :
archive_mirror=${archive_mirror:-http://deb.debian.org/debian}

archive_apt=(-qq -o "Dir::Etc::sourcelist=$archive_dir/sources.list"
	-o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
	-o "Dir::State=$archive_dir" -o "Dir::State::lists=$archive_dir/lists"
	-o "Dir::State::status=$archive_dir/status" -o "Dir::Cache=$archive_dir/cache"
	-o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin
	-o APT::Sandbox::User=root -o Acquire::Languages=none
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
	-o APT::Update::Error-Mode=any
	-o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false
	-o Acquire::AllowWeakRepositories=false
	-o Acquire::AllowDowngradeToInsecureRepositories=false)

update_archive() {
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg suite
	note "reading what $archive_suite and its backports have"
	mkdir -p "$archive_dir"/{lists,cache/archives}/partial
	: >"$archive_dir/status"
	for suite in "$archive_suite" "$archive_suite-backports"; do
		echo "deb [signed-by=$keyring] $archive_mirror $suite main"
	done >"$archive_dir/sources.list"
	# The machine's hooks would remove its own cache, and tell others that its lists changed.
	printf '#clear APT::Update::%s;\n' Pre-Invoke Post-Invoke Post-Invoke-Success \
		>"$archive_dir/apt.conf"
	apt-get -c "$archive_dir/apt.conf" "${archive_apt[@]}" update >&2 ||
		die "cannot read the lists of $archive_suite-backports: see apt's message above"
	touch "$archive_dir/updated"
}

# archive_refresh AGE: have lists that are at most so many minutes old.
archive_refresh() {
	local lock
	mkdir -p "$archive_dir"
	exec {lock}>"$archive_dir/lock"
	flock "$lock"
	if [ -z "$(find "$archive_dir" -name updated -mmin "-$1")" ]; then
		update_archive
	fi
	exec {lock}>&-
}

# Print the names of packages that match the regular expression; there may be none.
archive_names() {
	apt-cache "${archive_apt[@]}" pkgnames | { grep -E "$1" || :; } | sort -V
}

# Print the releases that have all of their headers and, what can be days later, their
# image: one a series, the oldest first.
archive_releases() {
	local names release series arch
	local -A newest=()
	arch=$(dpkg --print-architecture)
	names=$(archive_names '^linux-(headers|image)-[0-9.]+\+deb[0-9]+-')
	while read -r release; do
		release+=cloud-$arch
		grep -qxF "linux-headers-$release" <<<"$names" || continue
		grep -qxF "linux-image-$release" <<<"$names" || continue
		[[ $release =~ ^[0-9]+\.[0-9]+ ]]
		series=${BASH_REMATCH[0]}
		newest[$series]=$release
	done < <(sed -n 's/^linux-headers-\(.*-\)common$/\1/p' <<<"$names")
	[ "${#newest[@]}" -gt 0 ] ||
		die "no kernel with headers and image in $archive_suite-backports of $archive_mirror"
	printf '%s\n' "${newest[@]}" | sort -V
}

# archive_release SERIES: print the release of "newest", or of a series like 7.2.
archive_release() {
	local release
	release=$(archive_releases |
		{ if [ "$1" = newest ]; then cat; else grep "^${1//./\\.}[.+]" || :; fi; } |
		tail -n 1)
	[ -n "$release" ] ||
		die "no kernel '$1' in $archive_suite-backports of $archive_mirror"
	printf '%s\n' "$release"
}

# Print the version of the package of the headers of this release.
archive_version() {
	apt-cache "${archive_apt[@]}" show --no-all-versions "linux-headers-$1" |
		sed -n 's/^Version: //p'
}

# archive_unpack DIR PACKAGE...: a package is NAME, NAME=VERSION or NAME/SUITE.
archive_unpack() {
	local dir=$1 deb
	shift
	mkdir "$dir/debs"
	(cd "$dir/debs" && apt-get "${archive_apt[@]}" download "$@" >&2) ||
		die "cannot get '$*': if the archive has moved on, remove" \
			"'$archive_dir/updated' and try again"
	for deb in "$dir"/debs/*.deb; do
		dpkg -x "$deb" "$dir"
	done
	rm -r "$dir/debs"
}
