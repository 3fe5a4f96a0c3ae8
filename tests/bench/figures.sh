#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: figures.sh [--list] [--small] [NAME]...
#
# Run each benchmark that has no result for the code as it is, or those named, one after the
# other, and write what they printed to Documentation/figures-printed.rst, and the curves of
# forward and pieces to SVGs beside it, in full size. All of them take a day. What was interrupted
# begins anew with the benchmark that ran; results lie in build/figures until the code changes:
# kernel/, userspace/ or the folders of tests/bench, as committed.
#
#   --list   only say which there are, and which have a result
#   --small  those that have none on less content and in fewer rounds, in some hours: ratios, but
#            not of caches that are full, nor of pools that are old
#
# Without KVM guests are slow, and it says so. Needs root, and 60 GiB on /var/tmp.
tree=$(realpath "${BASH_SOURCE[0]%/*}/../..")
# shellcheck source=scripts/lib.sh
. "$tree/scripts/lib.sh"

# A benchmark a line: its name, what it is about, its command in tests/bench, and what makes that
# small.
benchmarks='
storage | space: a series of real disks | pool/run.sh storage |
speed | snapshot and restore beside a raw copy | pool/run.sh speed | --rounds 2
peers | the series in borg and restic | pool/run.sh peers | --size demo
forward | paper 000: conventional deduplication | pool/run.sh forward | --size demo
aged | the newest of 1, 10, 100, 300 versions | pool/run.sh aged | --size demo
churn | 300 versions, of which 20 are kept | pool/run.sh churn | --rounds 1
delete | paper 003: deletion | pool/run.sh delete | --rounds 2
streams | 1, 2, 4, 8 snapshots and restores side by side | pool/run.sh streams | --size demo
memory | memory of each command at 1 TiB | pool/run.sh memory | --size demo --sparse 8
packs | compression, alone, with pieces, with inline | pool/run.sh packs | --size demo
pieces | pieces of a segment | pool/run.sh pieces | --size demo
index | paper 004: what the index avoids | pool/run.sh index | --size demo
dedup | papers 001, 003: the pass over the pool | pool/run.sh dedup | --size demo
seek | restores from a disk that seeks | pool/run.sh seek | --size demo
send | what is sent to another pool | pool/run.sh send | --size demo
served | disks over NBD | pool/run.sh served | --size demo
rbd | disks on RBD | pool/run.sh rbd | --size demo
shards | pools in RADOS | pool/run.sh shards | --size demo
scale | the cost of commands for n and 4 n | pool/run.sh scale | --sparse 8
live | a volume in use: snapshot, map, roll-back | target/live.sh | --segments 1024
steady | beside dm-linear and dm-era | target/run.sh --table steady | --only counted --rounds 1
mapped | blocks in a pool, beside dm-thin | target/run.sh --table mapped | --only counted --rounds 1
target-packs | versions read from packs | target/packs.sh | --mib 64 --nights 2 --rounds 3
live-dedup | paper 002: volumes in use | target/dedup.sh | --only counted --rounds 1
space | paper 002: what it gives back | target/space.sh | --volumes 8
leases | what devices that read a pool cost | target/leases.sh | --rounds 3
nbd | versions over NBD, beside an image | nbd/run.sh |
'

# What results depend on.
code() {
	local path
	for path in kernel userspace tests/bench/{nbd,pool,target}; do
		git -C "$tree" rev-parse "HEAD:$path"
	done | sha256sum | cut -c 1-12
}

# names: one a line. of NAME COLUMN: what stands there.
names() { awk -F ' *[|] *' 'NF == 4 { print $1 }' <<<"$benchmarks"; }
of() { awk -F ' *[|] *' -v name="$1" -v n="$2" '$1 == name { print $n }' <<<"$benchmarks"; }

# whole_command NAME
whole_command() {
	local words
	words=$(of "$1" 3)
	! $small || words+=" $(of "$1" 4)"
	echo "tests/bench/${words% }"
}

# is_measured NAME: has it a result that is not too small?
is_measured() {
	[ -e "$results/$1" ] || return
	$small || [ "$(<"$results/$1.command")" = "$(whole_command "$1")" ]
}

# measure NAME: a result that is there is whole.
measure() {
	local command
	command=$(whole_command "$1")
	note "$1: $command"
	# shellcheck disable=SC2086 # words
	"$tree/"$command >"$results/$1.part" 2>"$results/$1.errors" || {
		tail -n 20 "$results/$1.errors" >&2
		die "$1 has failed: $results/$1.errors"
	}
	date +%Y-%m-%d >"$results/$1.date"
	echo "$command" >"$results/$1.command"
	mv "$results/$1.part" "$results/$1"
}

# pictures: of those whose results are curves.
pictures() {
	local name
	for name in forward pieces; do
		[ -e "$results/$name" ] || continue
		awk -v name="$name" -f "$tree/tests/bench/figures.awk" "$results/$name" \
			>"$results/$name.svg"
		cp "$results/$name.svg" "$tree/Documentation"
	done
}

# page: all results that are there.
page() {
	local name model missing
	model=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)
	cat <<-END
		.. SPDX-License-Identifier: GPL-2.0

		===============
		Printed figures
		===============

		Written by \`\`make figures\`\`: what each benchmark printed, on a state of the code
		whose kernel/, userspace/ and tests/bench/*/ have the sum $code. figures.rst is in
		words.

		Machine: $(nproc) processors ($model), Linux $(uname -r). Guests:
		QEMU with $("$tree/scripts/vm-probe.sh").
	END
	while read -r name; do
		[ -e "$results/$name" ] || continue
		printf '\n%s\n%s\n\n' "$name" "$(tr '[:print:]' = <<<"$name")"
		# shellcheck disable=SC2016 # no commands, but marks of code
		printf '%s, by\n``%s``, %s::\n\n' "$(of "$name" 2)" "$(<"$results/$name.command")" \
			"$(<"$results/$name.date")"
		sed 's/[[:space:]]*$//; s/^./    &/' "$results/$name"
	done < <(names)
	missing=$(names | while read -r name; do [ -e "$results/$name" ] || echo "- $name"; done)
	[ -z "$missing" ] ||
		printf '\nNot measured on this state\n==========================\n\n%s\n' "$missing"
}

list=false small=false chosen=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--list) list=true ;;
	--small) small=true ;;
	-*) usage_error "no such option: $1" ;;
	*)
		[ -n "$(of "$1" 3)" ] || usage_error "no such benchmark: '$1' (see --list)"
		chosen+=("$1")
		;;
	esac
	shift
done
code=$(code)
results=$tree/build/figures/$code
mkdir -p "$results"
if $list; then
	while read -r name; do
		printf '%-13s %-10s %s\n' "$name" \
			"$(cat "$results/$name.date" 2>/dev/null || echo -)" "$(of "$name" 2)"
	done < <(names)
	exit
fi
[ -z "$(git -C "$tree" status --porcelain kernel userspace tests/bench)" ] ||
	die "kernel, userspace or tests/bench has changes that are not committed"
[ ${#chosen[@]} -gt 0 ] || mapfile -t chosen < <(names)
for name in "${chosen[@]}"; do
	is_measured "$name" || measure "$name"
	page >"$results/page"
	cp "$results/page" "$tree/Documentation/figures-printed.rst"
done
$small || pictures
