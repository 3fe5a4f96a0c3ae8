#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: table-write.sh [OPTION]...
#
# Measure how fast this machine writes remap tables, and print a table:
#
#   library  userspace/meta/table_write.c, every block a random block of the pool
#   text     the same by "revdedup-meta make", from a text
#   whole    the library, every segment whole in the pool: one word for 512 entries
#
# Entries a second are those of one core: of the CPU time, user and system. The time that
# passed, including writing to the disk and flushing it, stands beside it.
#
#   --entries N  default 16777216: a volume of 64 GiB, whose table has 128 MiB
#   --rounds N   default 5; the numbers are medians
#   --dir DIR    where to write (default /var/tmp)
#   --check      exit with 1 if a target is missed
tree=$(realpath "${BASH_SOURCE[0]%/*}/../../..")
# shellcheck source=scripts/lib.sh
. "$tree/scripts/lib.sh"

entries=16777216 rounds=5 where=/var/tmp check=0 wanted=5000000
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--check) check=1 ;;
	--entries) entries=${2:?how many entries?}; shift ;;
	--rounds) rounds=${2:?how many rounds?}; shift ;;
	--dir) where=${2:?which directory?}; shift ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift
done
[[ $entries =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of entries: '$entries'"
[[ $rounds =~ ^[1-9][0-9]?$ ]] || usage_error "not a number of rounds: '$rounds'"

"$tree/scripts/setup.sh" build
dir=$(mktemp -d "$where/revdedup-table.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

make -s -C "$tree/userspace" O="$dir/bin" "$dir/bin/revdedup-meta"
(
	cd "$tree/userspace"
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -I. -I.. -Ishim -D_GNU_SOURCE \
		-D_FILE_OFFSET_BITS=64 -o "$dir/bin/table-write" \
		../tests/bench/target/table-write.c meta/table_write.c base/direct.c base/crc32c.c \
		../kernel/format.c
)
"$dir/bin/table-write" "$dir/image" "$dir/text" "$dir/bin/revdedup-meta" \
	"$entries" "$rounds" >"$dir/lines"
awk -v wanted="$wanted" -v check="$check" '
	BEGIN {
		format = "%-10s %12s %12s %12s %16s %12s  %s\n"
		printf format, "way", "entries", "CPU s", "s", "entries/s/core",
			"wanted", ""
	}
	{
		short = $5 < wanted
		bad += short
		printf format, $1, $2, $3, $4, $5, wanted, short ? "SHORT" : "ok"
	}
	END { exit check && bad }
' "$dir/lines"
