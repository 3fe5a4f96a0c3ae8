#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: series.sh [--size full|layouts|small]
#
# Make a series of disk images as a backup tool would see them, and print the directory
# that holds it: the images, sparse, and "order", which has a line "VOLUME FILE" for each
# snapshot, oldest first.
#
#   full     three VMs with disks of 4 GiB, 23 versions: some minutes, under 25 GiB
#   layouts  four VMs with disks of 2 GiB, 11 versions: some minutes, under 9 GiB. Two are
#            clones of one image, and two are installed one by one, so that the same files
#            lie elsewhere on each
#   small    one VM with a disk of 1 GiB, 4 versions: half a minute, under 2 GiB
#
# Each other VM begins as the same Debian 12. All go their own way: packages come and go between
# snapshots, and the file system frees blocks without clearing them. Two runs would differ
# in the times of files, and in Debian's updates meanwhile, so a series is made once and
# kept in the cache. Needs root and loop devices. Installs the Debian packages that it
# lacks.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../../scripts/lib.sh"
scripts=${BASH_SOURCE[0]%/*}/../../../scripts

# Each line is a snapshot: the VM, and what was done to it since the last, in the
# words of apt-get install, where "vim-" purges vim. These come before all that:
#
#   clean   apt-get clean: until then, packages stay where they were downloaded
#   trim    fstrim: what the file system does not use reads as zeros
#   back=N  the disk is what it was at version N
#   own=N   the first version is no copy of the base: it is installed into a file system
#           of its own, with a UUID that ends with N (that of the base ends with 4)
declare -A snapshots=(
	[full]="
		vm1
		vm1  vim less curl
		vm2
		vm2  gcc libc6-dev make
		vm1  nginx-light openssh-server
		vm3
		vm1  git
		vm3  emacs-nox imagemagick
		vm2  postgresql-client sqlite3
		vm1  python3 python3-requests
		vm1  clean vim-
		vm2  gcc- git
		vm3  clean trim
		vm1  gcc libc6-dev make
		vm1  postgresql-client sqlite3
		vm3  emacs-nox- vim
		vm2  back=3
		vm1  perl perl-doc
		vm1  clean gcc- make-
		vm3  trim nginx-light
		vm1  nginx-light- apache2
		vm1  python3-numpy
		vm1  build-essential"
	[layouts]="
		vm1
		vm2
		vm3  own=3 less git vim curl
		vm1  vim less curl git
		vm4  own=5 python3 gcc libc6-dev
		vm2  gcc libc6-dev make
		vm3  clean trim nginx-light
		vm4  make vim git trim
		vm1  clean trim nginx-light
		vm2  python3 vim
		vm3  python3 vim-"
	[small]="
		vm1
		vm1  vim
		vm1  git less
		vm1  clean vim-"
)
declare -A mib=([full]=4096 [layouts]=2048 [small]=1024)

# Fixed, as it decides where ext4 puts things; a digit more makes one.
uuid=7ed00b05-0000-4000-8000-00000000000

# install_debian FILE MIB DIGIT
install_debian() {
	truncate -s "$2M" "$1"
	mke2fs -q -t ext4 -U "$uuid$3" \
		-E "hash_seed=$uuid$3,lazy_itable_init=0,lazy_journal_init=0" "$1"
	mount -o loop "$1" root
	# The lists of packages stay, so that no VM has to fetch them.
	mmdebstrap --quiet --variant=apt --skip=cleanup/apt/lists bookworm root
	cp /etc/hosts /etc/resolv.conf root/etc
	# No questions are asked, so none need be prepared.
	rm root/etc/apt/apt.conf.d/70debconf
	# Nothing may start in what is only a directory.
	printf '#!/bin/sh\nexit 101\n' >root/usr/sbin/policy-rc.d
	chmod +x root/usr/sbin/policy-rc.d
	umount root
}

# change VM [WORD...]
change() {
	local vm=$1 word packages=()
	shift
	mount -o loop "$vm" root
	mount -t proc proc root/proc
	for word; do
		case $word in
		clean) chroot root apt-get clean ;;
		# What is freed and not yet committed would be left out.
		trim) sync -f root; fstrim root ;;
		*) packages+=("$word") ;;
		esac
	done
	if [ "${#packages[@]}" -gt 0 ]; then
		chroot root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
			apt-get -qq install -y --no-install-recommends --purge \
			--auto-remove -o Dpkg::Use-Pty=0 \
			-o Dpkg::Options::=--force-unsafe-io "${packages[@]}" \
			>log 2>&1 || {
			tail -n 20 log >&2
			die "apt-get failed on ${packages[*]}: see above"
		}
	fi
	umount --recursive root
}

copy() { cp --sparse=always "$@"; }

# make_images SIZE DIR
make_images() {
	local vm words image
	local -A last=()
	cd "$2"
	mkdir root
	note "making Debian 12"
	install_debian base "${mib[$1]}" 4
	while read -r vm words; do
		last[$vm]=$((${last[$vm]:-0} + 1))
		image=$vm-${last[$vm]}.img
		note "$vm, version ${last[$vm]}${words:+: $words}"
		if [[ $words =~ ^own=([0-9])\ (.*)$ ]]; then
			install_debian "$vm" "${mib[$1]}" "${BASH_REMATCH[1]}"
			words=${BASH_REMATCH[2]}
		fi
		[ -f "$vm" ] || copy base "$vm"
		if [[ $words =~ ^back=([0-9]+)$ ]]; then
			copy "$vm-${BASH_REMATCH[1]}.img" "$vm"
		elif [ -n "$words" ]; then
			# shellcheck disable=SC2086 # it is a list of words
			change "$vm" $words
		fi
		copy "$vm" "$image"
		echo "$vm $image" >>order
	done < <(sed '/^$/d' <<<"${snapshots[$1]}")
	rm -f base log "${!last[@]}"
	rmdir root
}

# All mounts and processes below are in namespaces of their own, and vanish with
# this process, whichever way it ends.
make_series() {
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
[ -n "${snapshots[$size]:-}" ] || usage_error "no such size: '$size'"

"$scripts/setup.sh" pool
# Half a series is of no use, and gigabytes.
unfinished=
trap '[ -z "$unfinished" ] || rm -rf "$unfinished"' EXIT
cached "series/$size-$(sha256sum <"$0" | head -c 16)" make_series
