#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: fleet.sh [--size full|demo]
#
# Make a fleet of VMs that get the same upgrades, not all at once, and print the name of a file
# that has it: a btrfs, to be mounted, in which versions of a VM share what was not written. In it
# are two series, as series.sh makes them: "plain", and "trimmed", whose images are those of
# "plain" after fstrim.
#
#   full   six VMs with disks of 1 GiB, 10 versions of each: some 10 minutes, under 9 GiB
#   demo   three VMs, 4 versions of each: some minutes, under 3 GiB
#
# One half are clones of one image, and each other VM is installed into a file system of its own,
# so that the same files lie elsewhere. All are Debian 12 as it was released last, and get its
# security updates, some packages each round; a VM lags some rounds behind. Each has packages of
# its own as well, which come and go. As with apt, no package stays where it was downloaded.
#
# Two runs would differ in the times of files, and in Debian's updates meanwhile, so a fleet is
# made once and kept in the cache. Needs root, loop devices, and a kernel with btrfs. Installs the
# Debian packages that it lacks.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../../scripts/lib.sh"
scripts=${BASH_SOURCE[0]%/*}/../../../scripts

common=(openssl perl python3 git less ruby nodejs postgresql-client nginx-light rsync)

# What is upgraded in each round.
rounds=(
	"perl perl-base perl-modules-5.36 libperl5.36"
	"python3.11 python3.11-minimal libpython3.11-stdlib libpython3.11-minimal"
	"libssl3 openssl libarchive13 libexpat1 libpcre2-8-0"
	"nodejs libnode108"
	"ruby3.1 libruby3.1"
	"postgresql-client-15 libpq5"
	"nginx-light nginx-common rsync xz-utils liblzma5"
	"apt libapt-pkg6.0 tzdata libbrotli1"
	""
)

# VM, its layout (0: a clone), how many rounds it lags behind, and what is installed for each
# version after the first, where "vim-" purges vim and "=" is nothing.
declare -A fleets=(
	[full]="
		vm1 0 0 vim = curl = gcc = = gcc- sqlite3
		vm2 0 1 = apache2 = php-cli = apache2- = = vim
		vm3 0 2 imagemagick = = imagemagick- = emacs-nox = = emacs-nox-
		vm4 5 0 vim = curl = gcc = = gcc- sqlite3
		vm5 6 1 = postgresql = = python3-numpy = = perl-doc =
		vm6 7 3 make = g++ = = vim- = = redis-server"
	[demo]="
		vm1 0 0 vim = curl
		vm2 0 1 = apache2 =
		vm3 5 1 imagemagick = imagemagick-"
)

# Fixed, as it decides where ext4 puts things; a digit more makes one.
uuid=7ed00b05-0000-4000-8000-00000000000

apt_install() {
	chroot root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
		apt-get -qq install -y --no-install-recommends --purge --auto-remove \
		-o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io "$@" >log 2>&1 || {
		tail -n 20 log >&2
		die "apt-get failed on $*: see above"
	}
}

# enter DISK: packages are downloaded once for all.
enter() {
	mount -o loop "$1" root
	mount -t proc proc root/proc
	mount --bind debs root/var/cache/apt/archives
}

# install_debian DISK DIGIT
install_debian() {
	local mirror=http://deb.debian.org/debian
	truncate -s 1G "$1"
	mke2fs -q -t ext4 -U "$uuid$2" \
		-E "hash_seed=$uuid$2,lazy_itable_init=0,lazy_journal_init=0" "$1"
	mount -o loop "$1" root
	# The security updates are there, and wait for their round.
	# shellcheck disable=SC2016 # mmdebstrap's shell expands it
	mmdebstrap --quiet --variant=apt --skip=cleanup/apt/lists bookworm root \
		--setup-hook='cp later "$1/etc/apt/preferences.d"' \
		"deb $mirror bookworm main" "deb $mirror-security bookworm-security main"
	cp /etc/hosts /etc/resolv.conf root/etc
	# No questions are asked, so none need be prepared.
	rm root/etc/apt/apt.conf.d/70debconf
	# Nothing may start in what is only a directory.
	printf '#!/bin/sh\nexit 101\n' >root/usr/sbin/policy-rc.d
	chmod +x root/usr/sbin/policy-rc.d
	umount root
	enter "$1"
	apt_install "${common[@]}"
	umount --recursive root
}

# upgrade NAME...: what the VM has of them.
upgrade() {
	local installed
	# shellcheck disable=SC2016 # dpkg-query expands it
	mapfile -t installed < <(chroot root dpkg-query -W -f '${db:Status-Status} ${Package}\n' \
		"$@" 2>/dev/null | sed -n 's/^installed //p')
	[ ${#installed[@]} -eq 0 ] || apt_install -t bookworm-security "${installed[@]}"
}

# next_version VM ROUND PACKAGE: what is done to it.
next_version() {
	enter "$1"
	if [ "$2" -ge 0 ] && [ -n "${rounds[$2]}" ]; then
		# shellcheck disable=SC2086 # it is a list of words
		upgrade ${rounds[$2]}
	fi
	[ "$3" = "=" ] || apt_install "$3"
	umount --recursive root
}

# keep VM NUMBER: the version, as it is and trimmed.
keep() {
	local image=$1-$2.img
	cp --reflink=always "$1" "plain/$image"
	cp --reflink=always "$1" "trimmed/$image"
	mount -o loop "trimmed/$image" root
	fstrim root
	umount root
	echo "$1 $image" | tee -a plain/order >>trimmed/order
}

# make_images SIZE DIR
make_images() {
	local vm layout lag packages number versions
	local -A packages_of=() lag_of=()
	local -a vms=()
	cd "$2"
	truncate -s 40G fleet.btrfs
	mkfs.btrfs -q -m single fleet.btrfs >/dev/null
	mkdir fleet
	mount -o loop,discard fleet.btrfs fleet
	cd fleet
	mkdir root debs plain trimmed
	printf '%s\n' 'Package: *' 'Pin: release n=bookworm-security' 'Pin-Priority: 50' >later
	note "making Debian 12"
	install_debian base 4
	while read -r vm layout lag packages; do
		[ -n "$vm" ] || continue
		vms+=("$vm")
		lag_of[$vm]=$lag
		packages_of[$vm]=$packages
		if [ "$layout" -eq 0 ]; then
			cp --reflink=always base "$vm"
		else
			note "making Debian 12 for $vm"
			install_debian "$vm" "$layout"
		fi
		keep "$vm" 1
		versions=$(wc -w <<<"$packages")
	done <<<"${fleets[$1]}"
	for ((number = 2; number <= versions + 1; number++)); do
		note "version $number"
		for vm in "${vms[@]}"; do
			read -ra packages <<<"${packages_of[$vm]}"
			next_version "$vm" $((number - 2 - lag_of[$vm])) "${packages[number - 2]}"
			keep "$vm" "$number"
		done
	done
	rm -r base debs later log "${vms[@]}"
	rmdir root
	cd ..
	umount fleet
	rmdir fleet
}

# All mounts and processes below are in namespaces of their own, and vanish with
# this process, whichever way it ends.
make_fleet() {
	unfinished=$1
	as_root setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
		--mount-proc "$0" --inside "$size" "$unfinished"
	unfinished=
}

size=full
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--size) size=${2:?which size?}; shift 2 ;;
	--inside) make_images "$2" "$3"; exit ;;
	*) usage_error "no such argument: '$1'" ;;
	esac
done
[ -n "${fleets[$size]:-}" ] || usage_error "no such size: '$size'"

"$scripts/setup.sh" pool bench
# Half a fleet is of no use, and gigabytes.
unfinished=
trap '[ -z "$unfinished" ] || rm -rf "$unfinished"' EXIT
dir=$(cached "series/fleet-$size-$(sha256sum <"$0" | head -c 16)" make_fleet)
echo "$dir/fleet.btrfs"
