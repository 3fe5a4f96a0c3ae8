#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: selftest.sh
#
# Load the module, and run the kernel's selftest of it, which upstream.sh has made and which
# is in /revdedup/selftest. Fails also if that skips all.
set -euo pipefail
# shellcheck source=tests/guest/lib/guest.bash
. "${BASH_SOURCE[0]%/*}/lib/guest.bash"

# shellcheck disable=SC2119 # no parameters of the module
load_module
status=0
for program in /revdedup/selftest/*.sh; do
	[ -x "$program" ] || continue
	echo "# ${program##*/}"
	"$program" || status=1
done
clean_up_devices
exit "$status"
