#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: check.sh [fast|all|soak] [JOB...]
#
# Run the tests, after installing the Debian packages they need:
#
#   fast  lint, unit tests, the tools: no guest, under 3 minutes
#   all   these, and the guest tests: on one kernel, on another and on a debug kernel
#         what could be otherwise there (the default; 30 to 60 minutes)
#   soak  like all, with many times the rounds, with all on each kernel, and with
#         what takes too long for each time: some hours
#
# Two jobs run at a time, with their output in build/check/JOB.log. Naming jobs
# runs only these: "check.sh all guest-6.12". The last line counts tests.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")
cd "$scripts/.."

case ${1:-all} in
-h | --help) show_help; exit ;;
fast | all | soak) tier=${1:-all} ;;
*) usage_error "no such tier: '$1'" ;;
esac
wanted=("${@:2}")

logs=build/check
mkdir -p "$logs"
passed=0 failed=0 started=$SECONDS
declare -A job_of=() start_of=()

series_list=(6.12 6.1)

# Rounds of the random tests, for each kernel.
case $tier in
soak) rounds=(CRASH_CYCLES=10000 POWER_CUTS=300 FUZZ_ROUNDS=1000000
	TABLE_OPS=20000000 TABLE_CYCLES=10000 LIVE_ROUNDS=2000 E2E_CUTS=200) ;;
*) rounds=(POWER_CUTS=6 CRASH_CYCLES=180 TABLE_CYCLES=60 TABLE_OPS=250000
	LIVE_ROUNDS=40 E2E_CUTS=2 E2E_SNAPSHOTS=0 FUZZ_SEED=1) ;;
esac
# What is landed is not to depend on chance where that can be had; soak takes chances.
[ "$tier" = soak ] || export SEED=1
guest_timeout=2400
[ "$tier" != soak ] || guest_timeout=36000

# --- jobs

job_lint() { "$scripts/lint.sh"; }

# The tools as they are installed, which jobs that run at the same time want.
tools() {
	mkdir -p build
	flock build/bin.lock make -s -C userspace
}

job_unit() {
	make -s -C tests/unit check
	tools
	bats --tap tests/cli
}

# What several of these jobs need, which run at the same time.
pool_programs() {
	mkdir -p build
	flock build/pool.lock make -s -C tests/pool programs "$@"
}

job_pool() {
	local rounds=()
	case $tier in
	fast) rounds=(STEPS=80 FAILURES=100 COVER=0 DAMAGES=1) ;;
	all) rounds=(STEPS=150 FAILURES=250 COVER=1 DAMAGES=2) ;;
	soak) rounds=(STEPS=20000 FAILURES=50000 COVER=100 DAMAGES=200
		CTL_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all") ;;
	esac
	pool_programs "${rounds[@]}"
	make -s -C tests/pool check "${rounds[@]}"
}

# The model until all that is hard came up often, and with power cuts.
job_pool_power() {
	local much=(LONG_COVER=25 CUTS=300)
	[ "$tier" != soak ] || much=(LONG_STEPS=100000 CUTS=20000)
	make -s -C tests/pool check-power check-long "${much[@]}"
}

# Commands that are stopped, killed, and run side by side.
job_pool_live() {
	local much=()
	pool_programs
	case $tier in
	fast)
		make -s -C tests/pool live-fast
		return
		;;
	soak) much=(EVERY=1 KILLS=5000 ROUNDS=1000) ;;
	*) much=(EVERY=24 KILLS=80) ;;
	esac
	make -s -C tests/pool live "${much[@]}"
}

job_pool_sanitized() {
	pool_programs
	make -s -C tests/pool sanitized
}

job_fuzz_tools() {
	local seconds=4
	[ "$tier" != soak ] || seconds=1800
	make -s -j2 -C tests/fuzz all
	make -s -C tests/fuzz check SECS=$seconds
}

# What a guest gets: the module, the judge, its broken sibling, the programs.
job_modules() {
	local series kdir
	for series in "${series_list[@]}"; do
		kdir=$("$scripts/headers.sh" "$series")
		"$scripts/module-build.sh" --out "build/modules/$series" \
			--kdir "$kdir" JUDGE=1
	done
	# The tests that must find a fault need no second kernel.
	kdir=$("$scripts/headers.sh" 6.12)
	"$scripts/module-build.sh" --kdir "$kdir" --out build/modules/6.12/broken BREAKS=1
	make -s -C tests/guest OUT="$PWD/build/guest-bin"
	tools
	# With named steps (see userspace/base/failpoint.h).
	make -s -C userspace O="$PWD/build/ctl" CPPFLAGS=-DRD_TEST "$PWD/build/ctl/revdedupctl"
	install -D build/ctl/revdedupctl build/guest-ctl/revdedupctl
}

job_debug_kernel() {
	"$scripts/module-build.sh" --out build/modules/uml \
		--kdir "$("$scripts/uml-build.sh")" --arch um JUDGE=1
}

job_kunit() { "$scripts/kunit-run.sh"; }

# payload SERIES: prints the options that vm-run.sh and uml-run.sh take.
payload() {
	printf '%s\n' --payload "build/modules/$1:modules" \
		--payload build/guest-bin:bin --payload build/bin:tools \
		--payload build/guest-ctl:ctl \
		--payload tests/guest:tests/guest --payload Documentation:doc
}

# guest SERIES FILE... [-- OPTION...]: in one boot, with these options of vm-run.sh.
guest() {
	local series=$1 options files=() run=("$scripts/vm-run.sh" --kernel "$1")
	shift
	[ "$series" != uml ] || run=("$scripts/uml-run.sh")
	mapfile -t options < <(payload "$series")
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		files+=("/revdedup/tests/guest/$1.bats")
		shift
	done
	"${run[@]}" "${options[@]}" --timeout "$guest_timeout" "${@:2}" \
		-- env "${rounds[@]}" /revdedup/tests/guest/run.sh "${files[@]}"
}

guest_files=(00-bench ctor target resize outage cost nowait survive mapped fuzz
	examples)
# What an older kernel could do otherwise.
older_files=(00-bench ctor target nowait)
[ "$tier" != soak ] || older_files=("${guest_files[@]}")

job_guest_6.12() { guest 6.12 "${guest_files[@]}"; }
job_guest_6.1() { guest 6.1 "${older_files[@]}"; }
# The controller on LVM.
job_live_6.12() { guest 6.12 live; }
job_live_6.1() { guest 6.1 live; }
job_host_6.12() { guest 6.12 mount overwrite hold clone mixups; }
job_host_6.1() { guest 6.1 mount overwrite hold clone mixups; }
# Loop devices and limits are the kernel's affair.
job_blocksize_6.12() { guest 6.12 blocksize; }
job_blocksize_6.1() { guest 6.1 blocksize; }
job_liverandom_6.12() { guest 6.12 liverandom; }
job_liverandom_6.1() { guest 6.1 liverandom; }
job_table_6.12() { guest 6.12 table model; }
job_table_6.1() { guest 6.1 table; }
job_model_6.1() { guest 6.1 model; }
job_crash_6.12() { guest 6.12 crash logwrites; }
job_crash_6.1() { guest 6.1 crash logwrites; }
job_tablecrash_6.12() { guest 6.12 tablecrash; }
job_tablecrash_6.1() { guest 6.1 tablecrash; }
job_breaks() { guest 6.12 breaks; }
job_modelbreaks() { guest 6.12 modelbreaks; }

# Little memory, and disks to swap to.
memory() {
	local dir=build/memory-$1 nr disks=()
	rm -rf "$dir"
	mkdir "$dir"
	for nr in 0 1 2 3; do
		# Base and metadata in turn.
		truncate -s $((nr % 2 ? 1 : 512))M "$dir/disk$nr"
		disks+=(--disk "$dir/disk$nr")
	done
	guest "$1" memory -- --mem 256 "${disks[@]}"
	rm -r "$dir"
}
job_memory_6.12() { memory 6.12; }
job_memory_6.1() { memory 6.1; }

# Metadata of 1 TiB and a base of as much, which take 2 GiB here; little memory.
bounds() {
	local dir=build/bounds-$1 kind
	rm -rf "$dir"
	mkdir "$dir"
	for kind in whole pages; do
		truncate -s 2100M "$dir/$kind"
		build/guest-bin/pattern print "$kind" $((1 << 28)) $((16 << 8)) |
			build/bin/revdedup-meta --sectors $((1 << 31)) make "$dir/$kind" -
	done
	truncate -s 1T "$dir/base"
	guest "$1" bounds -- --mem 512 --disk "$dir/whole" --disk "$dir/pages" \
		--disk "$dir/base"
	# It would take ten minutes in there.
	build/bin/revdedup-meta check "$dir/pages"
	rm -r "$dir"
}
job_bounds_6.12() { bounds 6.12; }
job_bounds_6.1() { bounds 6.1; }

# What can go wrong with locks, memory and errors, more than with timing.
debug_files=(resize outage nowait)
[ "$tier" != soak ] || debug_files=("${guest_files[@]}")
job_debug() {
	[ "$tier" != soak ] || rounds+=(MAPPED_MIB=16)
	guest uml "${debug_files[@]}"
}
job_debug_table() {
	[ "$tier" = soak ] || rounds+=(TABLE_OPS=20000)
	guest uml table model
}
job_debug_faults() { guest uml faults; }
job_debug_crash() {
	[ "$tier" = soak ] || rounds+=(CRASH_CYCLES=60 LOG_EPOCHS=6)
	guest uml crash logwrites
}
job_end_to_end_6.12() { env "${rounds[@]}" tests/end-to-end.sh --kernel 6.12; }
job_end_to_end_6.1() { env "${rounds[@]}" tests/end-to-end.sh --kernel 6.1; }
job_deb() { tests/deb.sh; }
# The command that README names; what comes of it is tried out by job_deb.
job_packages() {
	local file list unit
	make deb
	list=$(dpkg-deb -c build/deb/revdedup_*.deb)
	for file in usr/sbin/revdedup{ctl,-meta} usr/share/man/man8/revdedupctl.8.gz \
		lib/udev/rules.d/56-revdedup.rules lib/systemd/system/revdedup-attach.service; do
		grep -q " \\./$file$" <<<"$list" || {
			echo "not ok the package has no $file"
			return 1
		}
	done
	unit=$(dpkg-deb --fsys-tarfile build/deb/revdedup_*.deb |
		tar -x -O ./lib/systemd/system/revdedup-attach.service)
	grep '^ExecStart=/usr/sbin/' <<<"$unit"
	echo "ok packages are made, and have what they are to have"
}
job_power_cuts_6.12() { env "${rounds[@]}" tests/power-cuts.sh --kernel 6.12; }
job_power_cuts_6.1() { env "${rounds[@]}" tests/power-cuts.sh --kernel 6.1; }
job_bench() { tests/vm-selftest.sh; }

# --- running them

is_wanted() {
	[ "${#wanted[@]}" -eq 0 ] || printf '%s\n' "${wanted[@]}" | grep -qxF "$1"
}

# Wait for one job and say how it went.
reap() {
	local pid status=0 job log counts line
	wait -n -p pid || status=$?
	job=${job_of[$pid]} log=$logs/$job.log
	unset "job_of[$pid]"
	counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1) || :
	if [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		[ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] ||
			failed=$((failed + 1))
	else
		line=$(grep -c '^ok ' "$log") || :
		passed=$((passed + line + (status == 0 && line == 0)))
		failed=$((failed + (status != 0)))
	fi
	printf '%-6s %-16s %4d s  %s\n' "$([ "$status" -eq 0 ] && echo ok || echo FAILED)" \
		"$job" $((SECONDS - start_of[$pid])) "$counts"
	[ "$status" -eq 0 ] || sed 's/^/    /' < <(
		# What a test that failed printed stands below its line.
		grep -E -A 15 '^not ok|^# .*(failed|FAILED|missed|error)' "$log" |
			cut -c 1-300 | head -n 80
		echo "..."
		tail -n 40 "$log"
	)
}

# run_jobs JOB...: two at a time, then wait for all.
run_jobs() {
	local job name
	for job; do
		name=${job//_/-}
		is_wanted "$name" || continue
		[ "${#job_of[@]}" -lt 2 ] || reap
		(set -e; "job_$job") </dev/null >"$logs/$name.log" 2>&1 &
		job_of[$!]=$name start_of[$!]=$SECONDS
	done
	while [ "${#job_of[@]}" -gt 0 ]; do
		reap
	done
}

if [ "$tier" = fast ]; then
	"$scripts/setup.sh" build lint test
	run_jobs lint unit pool pool_live
else
	"$scripts/setup.sh" build lint test fuzz vm kunit deb
	run_jobs unit modules lint pool pool_live pool_power pool_sanitized fuzz_tools \
		debug_kernel
	jobs=(debug debug_faults host_6.12 guest_6.12 guest_6.1 table_6.12 table_6.1
		live_6.1 blocksize_6.12 blocksize_6.1 end_to_end_6.12 crash_6.12 tablecrash_6.12 breaks
		power_cuts_6.12 memory_6.12 bench kunit)
	# In soak the job deb makes them.
	[ "$tier" = soak ] || jobs+=(packages)
	# They take long, or are about our code more than the kernel's.
	[ "$tier" != soak ] || jobs+=(model_6.1 crash_6.1 tablecrash_6.1 power_cuts_6.1
		debug_crash debug_table memory_6.1 bounds_6.12 bounds_6.1 modelbreaks
		live_6.12 host_6.1 liverandom_6.12 liverandom_6.1 end_to_end_6.1 deb)
	run_jobs "${jobs[@]}"
fi

note "took $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s," \
	"logs are in $logs/"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
