#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: headers.sh 6.1|6.12
#
# Print the directory of the installed headers of Debian's cloud kernel of that
# series: what KDIR= takes.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

case ${1:-} in
-h | --help) show_help; exit ;;
6.1) package=linux-headers-cloud-amd64 ;;
6.12) package=linux-headers-6.12-cloud-amd64 ;;
*) usage_error "which kernel, 6.1 or 6.12?" ;;
esac

"${BASH_SOURCE[0]%/*}/setup.sh" build
depends=$(dpkg-query -W -f '${Depends}\n' "$package")
dir=/usr/src/${depends%% *}
[ -f "$dir/Makefile" ] ||
	die "no headers in '$dir': reinstall ${depends%% *}"
printf '%s\n' "$dir"
