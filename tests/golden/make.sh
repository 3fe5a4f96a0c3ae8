#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: make.sh [--force]
#
# Make the golden files of a release, in a folder beside this file that is named after the VERSION
# of Makefile:
# pools, streams and metadata devices as this tree writes them, which each later program must
# read. It is run once for each release that changes a format, before the release: files that
# are there already stay, unless --force makes them anew.
#
#   raw.tar.gz       a pool that is not compressed, each newest segment in one piece
#   inline.tar.gz    compressed, with 64 pieces and inline deduplication: index, copies, a rule of
#                    a volume, copies on another disk, a pass over the pool
#   file.tar.gz      the data area in a file outside of the directory
#   killed.tar.gz    a command died in it: what it did is partly in the catalog's log alone
#   held.tar.gz      a process that was killed holds a version, which is deleted
#   partial.tar.gz   it has received versions, and a part of one
#   full.stream.gz, delta.stream.gz
#                    streams in files, of the pool raw
#   metadata.tar     metadata devices: tracking alone, with a remap table, with packs; not
#                    compressed, as guests have no gzip
#   attachment       a file of /etc/revdedup/volumes with all lines that there are; written by
#                    hand here, as a host without the target attaches nothing
#   versions         what has which version, and the SHA-256 of its content
#   metadata         what is dirty and where blocks are, as revdedup-meta prints it
#
# tests/cli/golden.bats and tests/guest/table/golden.bats read them.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
cd "${BASH_SOURCE[0]%/*}/../.."

force=false
case ${1:-} in
-h | --help) show_help; exit ;;
--force) force=true ;;
?*) usage_error "no such option: '$1'" ;;
esac

tree=$PWD
version=$(sed -n 's/^VERSION := //p' Makefile)
out=$tree/tests/golden/$version
$force || [ ! -e "$out" ] ||
	die "'$out' is there: what is released stays as it is (--force before the release)"

make -s -j2 -C userspace
make -s -j2 -C tests/pool live-programs
ctl=$tree/build/bin/revdedupctl
# With named steps.
dying=$tree/build/pool/ctl/revdedupctl

# The user's settings have no part in it.
export TZ=UTC LC_ALL=C REVDEDUP_CONFIG=/nonexistent
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir out

image() { "$tree/tests/golden/image.py" "$@"; }

# Three segments, of which the last ends within a block. What changes: some blocks; more, with
# one block moved; the size. Others share content with these, at other offsets.
bytes=5243880
image 1.img $bytes a:0:40 a:520:60 Q:600:3 a:1100:20
image 2.img $bytes a:0:40 b:10:2 a:520:60 b:530:4 Q:600:3 a:1100:20
image 3.img $bytes a:0:40 b:10:2 c:20:8 a:520:60 b:530:4 b:530:1:590 Q:600:3 a:1100:20
image 4.img 6291456 a:0:40 c:20:8 a:520:60 d:700:40 Q:600:3 a:1100:20 d:1300:9
image 5.img $bytes a:520:60:64 e:200:30 a:0:40:520 e:1200:2
image 6.img $bytes a:520:60:64 e:200:30 f:201:1 a:0:40:520 e:1200:2

# took ARCHIVE VERSION IMAGE: the version is there, and has that content.
took() { echo "$1 $2 $(sha256sum <"$3" | cut -d ' ' -f 1)" >>out/versions; }

# snapshot ARCHIVE VERSION IMAGE [OPTION...]: of the pool in $REVDEDUP_POOL.
snapshot() {
	"$ctl" -q snapshot "${2%@*}" --from "$3" "${@:4}"
	took "$1" "$2" "$3"
}

# archive FILE...: print an archive that keeps holes.
archive() { tar -c -S --sort=name --owner=0 --group=0 --numeric-owner "$@"; }

# pack ARCHIVE FILE...: and remove them.
pack() {
	archive "${@:2}" | gzip -9n >"out/$1.tar.gz"
	rm -rf "${@:2}"
}

new_pool() {
	export REVDEDUP_POOL=$PWD/pool
	"$ctl" -q init pool --size 256M --reserve 1M "$@" >/dev/null
}

# --- pools

new_pool --compression none --pieces 1 --dedup reverse
snapshot raw vm1@1 1.img --comment "the first" --tag nightly-1
"$ctl" -q snapshot vm1 --from 2.img
snapshot raw vm1@3 3.img
snapshot raw vm1@4 4.img --tag nightly-2
"$ctl" -q delete vm1@2
"$ctl" -q protect vm1@1
snapshot raw vm2@1 5.img
snapshot raw vm2@2 6.img
"$ctl" -q scrub
"$ctl" -q send --all >full.stream
"$ctl" -q send vm1@4 --since 3 >delta.stream
cp -a pool sender
pack raw pool

new_pool --compression zstd --pieces 64 --dedup inline
snapshot inline vm1@1 1.img
snapshot inline vm1@2 2.img
snapshot inline vm2@1 5.img
"$ctl" -q tune vm2 --pieces 8 --dedup reverse >/dev/null
snapshot inline vm2@2 6.img --compression none
snapshot inline vm1@3 3.img
snapshot inline vm1@4 4.img
snapshot inline vm3@1 1.img
snapshot inline vm3@2 5.img
snapshot inline vm3@3 4.img
"$ctl" -q dedup --older 0 --least-run 1
# They must be on another disk.
elsewhere=$(mktemp -d /dev/shm/golden.XXXXXX)
trap 'rm -rf "$work" "$elsewhere"' EXIT
"$ctl" -q copies 64M --to "$elsewhere/copies.img"
"$ctl" -q scrub
cp --sparse=always "$elsewhere/copies.img" .
pack inline pool copies.img

: >store.img
new_pool --data "$PWD/store.img" --compression zstd --pieces 64 --dedup inline
snapshot file vm1@1 1.img
snapshot file vm1@2 4.img
pack file pool store.img

new_pool --compression zstd --pieces 64 --dedup inline
snapshot killed vm1@1 1.img
snapshot killed vm2@1 5.img
status=0
REVDEDUP_FAIL=reverse-change=kill "$dying" -q snapshot vm1 --from 2.img || status=$?
[[ $status -eq 137 && -s pool/catalog.db-wal ]] || die "the command did not die in time"
took killed vm1@2 2.img
pack killed pool

new_pool --compression zstd --pieces 64 --dedup inline
"$ctl" -q snapshot vm1 --from 1.img
snapshot held vm1@2 2.img
snapshot held vm2@1 5.img
REVDEDUP_RUN=$PWD/run "$ctl" -q export vm1@1 --background
"$ctl" -q delete vm1@1
pid=$(cat run/vm1@1.pid)
kill -9 "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
pack held pool

new_pool --compression none --pieces 1 --dedup reverse
"$ctl" -q receive <full.stream >/dev/null
grep '^raw ' out/versions | sed 's/^raw /partial /' >received
cat received >>out/versions
image 7.img 67108864 g:0:500 g:5000:500 g:10000:500 g:14000:500
REVDEDUP_POOL=$PWD/sender "$ctl" -q snapshot vm9 --from 7.img --compression none
# Each 16 MiB that arrive are kept, and content comes last.
REVDEDUP_POOL=$PWD/sender "$ctl" -q send vm9 --compression none >whole.stream
head -c "$(($(stat -c %s whole.stream) - 4096))" whole.stream |
	"$ctl" -q receive >/dev/null 2>&1 && die "a stream that was cut was received"
pack partial pool

# --- streams

sed -n 's/^raw /full.stream /p' out/versions >streams
sed -n 's/^raw vm1@4/delta.stream vm1@4/p' out/versions >>streams
cat streams >>out/versions
gzip -9n <full.stream >out/full.stream.gz
gzip -9n <delta.stream >out/delta.stream.gz

# --- an attachment

cat >out/attachment <<-'END'
	volume=vg/vm1
	uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427
	device_uuid=2c5f39cb-30b2-42e3-994a-1127e4ddb538
	base=/dev/vg/vm1
	base_uuid=LVM-0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ012345
	meta=/dev/vg/vm1_rdmeta
	meta_uuid=LVM-0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ543210
	pool=/srv/pool
	version_uid=5103
	version_pool=/backup/pool
	zeros=yes
	dedup=pool
	partial=yes
	zeros_cursor=81920
	pool_cursor=163840
	dedup_in_pool=40960
	dedup_cold=48
	dedup_time=1764000000
	dedup_lost_marks=2
	unfinished=yes
END

# --- metadata devices

(cd "$tree" && scripts/check.sh all modules >/dev/null)
for name in track table packs; do
	truncate -s 1M "$name.img"
	disks+=(--disk "$PWD/$name.img")
done
(cd "$tree" && scripts/vm-run.sh --payload build/modules/6.12:modules \
	--payload build/guest-bin:bin --payload tests/guest:tests/guest \
	--payload tests/golden:tests/golden "${disks[@]}" \
	-- tests/guest/run.sh -- /revdedup/tests/golden/metadata-guest.sh)
meta() { "$tree/build/bin/revdedup-meta" "$@" | paste -sd ';'; }
for name in track table packs; do
	echo "$name dirty $(meta dirty $name.img)"
	echo "$name places $(meta table $name.img)"
done >out/metadata
echo "track frozen $(meta --frozen dirty track.img)" >>out/metadata
archive track.img table.img packs.img >out/metadata.tar

rm -rf "$out"
mkdir "$out"
chmod 755 "$out"
install -m 644 out/* "$out"
ls -l "$out"
