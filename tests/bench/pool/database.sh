#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: database.sh
#
# Make a series of images of a disk that has a PostgreSQL database which pgbench writes to,
# and print the directory that holds it: as series.sh does, with one volume "db", a disk of
# 2 GiB, and 8 versions. Between two versions pgbench runs for 20 seconds; each version is
# what the disk has after a checkpoint.
#
# A series is made once and kept in the cache. Needs root and loop devices. Installs
# the Debian packages that it lacks.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../../scripts/lib.sh"
scripts=${BASH_SOURCE[0]%/*}/../../../scripts
versions=8
# The postgres user must be able to get there, so it is none of ours.
root=/mnt

postgres() { (cd / && runuser -u postgres -- "$@"); }

start() {
	postgres "$programs/pg_ctl" -D $root/data -l $root/log -w -o "-k $root -h ''" \
		start >/dev/null
}

# make_images DIR
make_images() {
	local number
	programs=$(echo /usr/lib/postgresql/*/bin)
	cd "$1"
	truncate -s 2G disk
	mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 disk
	mount -o loop disk $root
	chown postgres $root
	postgres "$programs/initdb" -D $root/data -A trust >/dev/null
	start
	postgres "$programs/createdb" -h $root bench
	postgres "$programs/pgbench" -h $root -q -i -s 50 bench 2>/dev/null
	for ((number = 1; number <= versions; number++)); do
		note "database, version $number"
		[ "$number" -eq 1 ] ||
			postgres "$programs/pgbench" -h $root -c 4 -j 2 -T 20 bench &>/dev/null
		postgres "$programs/psql" -h $root -q -c CHECKPOINT bench
		postgres "$programs/pg_ctl" -D $root/data -m fast -w stop >/dev/null
		umount $root
		cp --sparse=always disk "db-$number.img"
		echo "db db-$number.img" >>order
		mount -o loop disk $root
		start
	done
	postgres "$programs/pg_ctl" -D $root/data -m fast -w stop >/dev/null
	umount $root
	rm disk
}

# All mounts and processes below are in namespaces of their own, and vanish with
# this process, whichever way it ends.
make_series() {
	unfinished=$1
	as_root setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
		--mount-proc "$0" --inside "$unfinished"
	unfinished=
}

case ${1:-} in
-h | --help) show_help; exit ;;
--inside) make_images "$2"; exit ;;
?*) usage_error "no such argument: '$1'" ;;
esac

"$scripts/setup.sh" bench
unfinished=
trap '[ -z "$unfinished" ] || rm -rf "$unfinished"' EXIT
cached "series/database-$(sha256sum <"$0" | head -c 16)" make_series
