# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Series of images small enough to count by hand. A segment is written as the contents of its
# first blocks: a letter each, or "." for zeros. Its other blocks are a hole.

# build_sanitized PROGRAM SOURCE LIBRARY...
build_sanitized() {
	gcc -std=gnu11 -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined \
		-fno-sanitize-recover=all -o "$@"
}

# block LETTER [LENGTH]
block() {
	head -c "${2:-4096}" /dev/zero | tr '\0' "${1/./\\0}"
}

# image FILE SEGMENT...
image() {
	local file=$1 segment nr=0 i
	shift
	truncate -s $(($# * 2))M "$file"
	for segment; do
		for ((i = 0; i < ${#segment}; i++)); do
			block "${segment:i:1}"
		done | dd of="$file" bs=4096 seek=$((nr * 512)) conv=notrunc \
			iflag=fullblock status=none
		nr=$((nr + 1))
	done
}

# snapshot VOLUME FILE [SEGMENT...]: the next one, of a new image or of an old one.
snapshot() {
	echo "$1 $2" >>order
	[ $# -eq 2 ] || image "${@:2}"
}
