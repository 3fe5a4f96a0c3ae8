#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: kunit-run.sh [--verbose]
#
# Run the KUnit suites of the module under the debug kernel. They are linked
# into the module (KUNIT=1) and run when it is loaded; the kernel's own kunit.py
# reads what they say. Passes when at least one test ran, all passed, none was
# skipped, and the kernel did not complain. The last line is the count.
#
#   --verbose   print what the kernel said, too
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")
out=$scripts/../build/modules/kunit

verbose=false
case ${1:-} in
-h | --help)
	show_help
	exit
	;;
--verbose) verbose=true ;;
'') ;;
*) usage_error "no such argument: '$1'" ;;
esac

kernel_dir=$("$scripts/uml-build.sh")
source_dir=$("$scripts/uml-build.sh" --source)
"$scripts/module-build.sh" --kdir "$kernel_dir" --arch um --out "$out" KUNIT=1

# In the guest. The suites run while the module loads, and the kernel's log has
# what they said.
# shellcheck disable=SC2016 # the guest expands these
guest='
. /revdedup/tests/guest/lib/guest.bash
mark=$(dmesg_mark "kunit $RANDOM")
load_module
dmesg | dmesg_since "$mark"
rmmod dm_revdedup
'
r=0
"$scripts/uml-run.sh" --payload "$out/dm-revdedup.ko:modules/dm-revdedup.ko" \
	--payload "$scripts/../tests/guest:tests/guest" --timeout 300 \
	-- tests/guest/run.sh -- bash -euc "$guest" >"$out/log" || r=$?
if $verbose || [ "$r" -ne 0 ]; then
	cat "$out/log"
fi

parsed=0
python3 "$source_dir/tools/testing/kunit/kunit.py" parse "$out/log" \
	>"$out/summary" || parsed=$?
cat "$out/summary"

# count WORD: the number behind it in the summary, "Ran 5 tests: passed: 5".
count() {
	local number
	number=$(sed -n "s/.*Ran [0-9]* tests:.* $1: \([0-9]*\).*/\1/p" "$out/summary")
	echo "${number:-0}"
}
passed=$(count passed)
failed=$(($(count failed) + $(count crashed) + $(count errors) + $(count skipped)))
# What has no number in the summary: no test at all, a suite that failed with no
# test of its own, or a kernel that complained.
if [ "$failed" -eq 0 ]; then
	if [ "$passed" -eq 0 ] || [ "$parsed" -ne 0 ] || [ "$r" -ne 0 ] ||
		grep -qF '[FAILED]' "$out/summary"; then
		failed=1
	fi
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
