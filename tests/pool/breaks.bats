# SPDX-License-Identifier: GPL-2.0
#
# Engines that are broken on purpose (userspace/base/inject.h): the model must find each
# fault. O is the directory of its build.

setup() {
	tmp=$(mktemp -d "${BATS_TEST_TMPDIR}/broken-XXXXXX")
}

# found_out BREAK WHAT OPTION...: within a few seeds it says WHAT.
found_out() {
	local seed
	for seed in 1 2 3 4 5 6 7 8; do
		rm -rf "$tmp/run"
		mkdir "$tmp/run"
		if ! "$O/plain/model" --break "$1" --seed "$seed" "${@:3}" "$tmp/run" \
			>"$tmp/log" 2>&1; then
			grep -E "$2" "$tmp/log" && return
			cat "$tmp/log"
			return 1
		fi
	done
	echo "nobody noticed that the engine is broken: $1"
	return 1
}

power=(--steps 40 --power 200)

@test "a catalog that does not flush its transactions" {
	found_out normal 'is lost|has other versions|check found|is older than' "${power[@]}"
}

@test "data not flushed before the catalog names it" {
	found_out sync 'is damaged|are holes of the data area' "${power[@]}"
}

# Little is moved in a few steps.
@test "moved data not flushed before the catalog names it" {
	found_out move-sync 'is damaged|are holes of the data area' --steps 100 --power 300
}

@test "places given back before the copy of the catalog knows" {
	found_out punch 'is damaged|are holes of the data area' "${power[@]}"
}

@test "content that the pool had not looked up again before it is named" {
	found_out hit 'does not have the segments that it was made with' --steps 200
}

@test "places given back before the devices that read them have left" {
	found_out vacate 'reads what it must not' --steps 200
}

@test "what a device reads deleted as all else" {
	found_out hold 'that .* reads is gone|check found|reads what it must not' --steps 200
}

@test "a page map that is not flushed before the catalog and its log" {
	found_out pages 'page .* of the catalog|is the log of another' "${power[@]}"
}
