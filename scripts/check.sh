#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: check.sh [fast|all|soak] [JOB...]
#        check.sh mutate [NAME...]
#        check.sh list
#
# Run the tests, after installing the Debian packages that they need:
#
#   fast  lint, unit tests, the programs: no guest, under 3 minutes
#   all   the same, and the tests in guests: in full on one kernel, and on a second
#         kernel and on a debug kernel the part that may differ there (the default;
#         30 to 60 minutes)
#   soak  like all, with many times the rounds, in full on each kernel, and with the
#         jobs that take too long for every change: some hours
#   list  run nothing; print a line for each job: its name, its tiers, what it tests
#
#   mutate  break the code by each patch of tests/mutate, or these, and run the test that
#           must catch it: the job "mutate" of soak, by hand (see tests/mutate/run.sh)
#
# Two jobs run at a time, with their output in build/check/JOB.log. With JOBs only these
# run: "check.sh all guest-6.12". The last line counts tests.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")
cd "$scripts/.."

case ${1:-all} in
-h | --help) show_help; exit ;;
fast | all | soak | list) tier=${1:-all} ;;
mutate) exec tests/mutate/run.sh "${@:2}" ;;
*) usage_error "no such tier: '$1'" ;;
esac
wanted=("${@:2}")

logs=build/check
passed=0 failed=0 started=$SECONDS
declare -A job_of=() start_of=()
failed_jobs=()

series_list=(6.12 6.1)

# How many rounds the random tests run, on each kernel.
case $tier in
soak) rounds=(CRASH_CYCLES=10000 POWER_CUTS=300 FUZZ_ROUNDS=1000000
	TABLE_OPS=20000000 TABLE_CYCLES=10000 LIVE_ROUNDS=2000 E2E_CUTS=200 UNPLUGGED=30
	SHARED_ROUNDS=1000) ;;
*) rounds=(POWER_CUTS=6 CRASH_CYCLES=180 TABLE_CYCLES=60 TABLE_OPS=250000
	LIVE_ROUNDS=40 E2E_CUTS=2 E2E_SNAPSHOTS=0 FUZZ_SEED=1) ;;
esac
# The gate must not depend on chance where a test can do without; soak takes new seeds.
if [ "$tier" != soak ]; then
	export SEED=1
	rounds+=(CRASH_SEED=1 TABLE_SEED=1)
fi
guest_timeout=2400
[ "$tier" != soak ] || guest_timeout=36000

# --- jobs

# What each job tests, for "list". A job of a kernel series has the text of its name
# without the series.
declare -A about=(
	[lint]="checkpatch, sparse, W=1, shellcheck, man pages, units"
	[unit]="the pure code in user space with sanitizers; both programs by their options; simulators"
	[pool]="the pool's engine against a model; damaged pools; what commands cost"
	[pool_live]="revdedupctl beside itself, stopped and killed at its steps, in full file systems"
	[pool_power]="the model at length; power cuts"
	[pool_sanitized]="part of pool-live with TSan, ASan, UBSan and valgrind"
	[nbd]="versions over NBD: what clients read while the pool changes, and in spite of faults"
	[nbd_boot]="a guest that boots from an old version over NBD while the pool changes"
	[fuzz_tools]="libFuzzer at each parser of input from a disk or a user"
	[modules]="no test: builds the modules and programs that guests get"
	[kernels]="that the module builds for each kernel that has headers in the archive"
	[newest]="table lines and dirty bits on the newest kernel of the archive"
	[debug_kernel]="no test: builds the debug kernel and the module for it"
	[kunit]="the KUnit suites, in the debug kernel"
	[guest]="the target: table lines, dirty bits, messages, outages, sizes, costs"
	[guest_6.1]="the part of guest-6.12 that may differ on an older kernel"
	[table]="the remap table: each message, and random operations against a model"
	[table_6.1]="the part of table-6.12 that may differ on an older kernel"
	[model]="the remap table: random operations against a model"
	[crash]="crashes of a volume: no write is forgotten"
	[tablecrash]="crashes of a volume with a remap table: no block is lost or leaked"
	[mutate]="that the tests find each fault of tests/mutate (in all: some of them)"
	[live]="revdedupctl with volumes on LVM in use: each command, killed and failing"
	[liverandom]="revdedupctl with volumes on LVM in use: all commands in random order"
	[dedup]="volumes in use give space back, to the thin pool and from the pool; killed, refused"
	[dedup_faults]="the same when something else goes wrong (in all: with what is read)"
	[shared]="volumes in use that read blocks which they share (in all: that they take up once)"
	[host]="mounts, clones, versions in pieces, hooks, status, metrics, wrong devices, overwrites"
	[blocksize]="disks of 512 and of 4096 bytes a block, in each combination"
	[end_to_end]="file systems on three volumes with all commands, kills and power cuts"
	[power_cuts]="QEMU killed together with the write caches of its disks"
	[memory]="a guest of 256 MiB that swaps to a volume"
	[bounds]="tables of 1 TiB in a guest of 512 MiB"
	[debug]="outages, sizes and first writes under KASAN, lockdep and kmemleak"
	[debug_table]="the remap table under KASAN, lockdep and kmemleak"
	[debug_crash]="crashes under KASAN, lockdep and kmemleak"
	[debug_faults]="each allocation and each metadata I/O of the target fails once"
	[packages]="that the Debian packages build and have each file in its place"
	[deb]="the Debian packages installed, upgraded, removed, and booted with udev"
	[harness]="that a guest which hangs, panics or lies fails its test"
)

job_lint() { "$scripts/lint.sh"; }

# Build the programs as they are installed. Jobs that run at the same time share them.
tools() {
	mkdir -p build
	flock build/bin.lock make -s -C userspace
}

job_unit() {
	make -s -C tests/unit check
	tools
	bats --tap tests/cli tests/sim
}

# Build what several jobs that run at the same time share.
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

job_pool_power() {
	local much=(LONG_COVER=25 CUTS=300)
	[ "$tier" != soak ] || much=(LONG_STEPS=100000 CUTS=20000)
	make -s -C tests/pool check-power check-long "${much[@]}"
}

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

job_nbd() {
	local goal=check
	[ "$tier" != soak ] || goal=soak
	make -s -C tests/nbd "$goal"
}

job_nbd_boot() {
	make -s -C tests/nbd programs
	tests/nbd/boot.sh
}

job_fuzz_tools() {
	local seconds=4
	[ "$tier" != soak ] || seconds=1800
	make -s -j2 -C tests/fuzz all
	make -s -C tests/fuzz check SECS=$seconds
}

# Build what a guest gets: the module, the judge, the programs.
job_modules() {
	local series kdir
	for series in "${series_list[@]}"; do
		kdir=$("$scripts/headers.sh" "$series")
		"$scripts/module-build.sh" --out "build/modules/$series" \
			--kdir "$kdir" JUDGE=1
	done
	make -s -C tests/guest OUT="$PWD/build/guest-bin"
	tools
	# With named steps (see userspace/base/inject.h).
	make -s -C userspace O="$PWD/build/ctl" CPPFLAGS=-DRD_TEST \
		"$PWD/build/ctl/revdedupctl" "$PWD/build/ctl/nbdkit-revdedup-plugin.so"
	install -D -t build/guest-ctl build/ctl/revdedupctl build/ctl/nbdkit-revdedup-plugin.so
}

# What is newest changes without us, so it is not for the gate.
newest_files=(target/{ctor,target,nowait} table/{io,messages,errors} host/{mount,blocksize,live})
job_newest() {
	local kdir kernel
	kdir=$("$scripts/headers.sh" newest)
	"$scripts/module-build.sh" --out build/modules/newest --kdir "$kdir" JUDGE=1
	kernel=$("$scripts/kernels.sh" newest)
	note "the newest kernel is $(<"$kernel/release")"
	guest newest "${newest_files[@]}"
}

# The module for each series that has headers, and a table of what came of it.
job_kernels() {
	local list series kdir failed=0
	list=$("$scripts/headers.sh" list)
	# The headers of 6.12 are installed.
	for series in 6.1 6.12 $(grep -vxF 6.12 <<<"$list" || :); do
		kdir=$("$scripts/headers.sh" "$series")
		if "$scripts/module-build.sh" --kdir "$kdir" --out "build/kernels/$series"; then
			echo "ok ${kdir##*linux-headers-} builds"
		else
			echo "not ok ${kdir##*linux-headers-} builds"
			failed=1
		fi
	done
	return "$failed"
}

job_debug_kernel() {
	local kdir
	kdir=$("$scripts/uml-build.sh")
	"$scripts/module-build.sh" --out build/modules/uml --kdir "$kdir" --arch um JUDGE=1
}

job_kunit() { "$scripts/kunit-run.sh"; }

# payload SERIES: print the options that vm-run.sh and uml-run.sh take.
payload() {
	printf '%s\n' --payload "build/modules/$1:modules" \
		--payload build/guest-bin:bin --payload build/bin:tools \
		--payload build/guest-ctl:ctl \
		--payload tests/guest:tests/guest --payload Documentation:doc
}

# guest SERIES FILE... [-- OPTION...]: run tests/guest/FILE.bats in one boot, with these
# options of vm-run.sh.
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

guest_files=(lib/harness target/{ctor,target,resize,outage,cost,nowait,survive}
	table/mapped target/{fuzz,examples})
# The part that may differ on an older kernel.
older_files=(lib/harness target/{ctor,target,nowait})
[ "$tier" != soak ] || older_files=("${guest_files[@]}")

job_guest_6.12() { guest 6.12 "${guest_files[@]}"; }
job_guest_6.1() { guest 6.1 "${older_files[@]}"; }
job_live_6.12() { guest 6.12 host/live; }
# In "all" this is the part of host that the older kernel gets.
job_live_6.1() { guest 6.1 host/live; }
host_files=(host/{mount,nbd,packed,pieces,overwrite,quiesce,clone,down,wrong-device}
	host/two-pools)
job_host_6.12() { guest 6.12 "${host_files[@]}"; }
job_host_6.1() { guest 6.1 "${host_files[@]}"; }
# On both kernels: loop devices and limits are the kernel's.
job_blocksize_6.12() { guest 6.12 host/blocksize; }
job_blocksize_6.1() { guest 6.1 host/blocksize; }
job_liverandom_6.12() { guest 6.12 host/live-random; }
job_liverandom_6.1() { guest 6.1 host/live-random; }
job_dedup_6.12() { guest 6.12 host/dedup-live; }
job_dedup_6.1() { guest 6.1 host/dedup-live; }
# dedup_faults SERIES: all of them, or those that are about what is read.
dedup_faults() {
	local files=(host/dedup-faults)
	if [ "$tier" = soak ]; then
		files+=(host/dedup-long)
	else
		rounds+=("FILTER=full|cannot be read|unplugged|wrong bytes|module|within a block")
	fi
	guest "$1" "${files[@]}"
}
job_dedup_faults_6.12() { dedup_faults 6.12; }
job_dedup_faults_6.1() { dedup_faults 6.1; }
job_shared_6.12() {
	[ "$tier" = soak ] || rounds+=("FILTER=take up once")
	guest 6.12 host/dedup-shared
}
job_table_6.12() { guest 6.12 table/{io,messages,errors,lost-cache,hydration,model}; }
# In "all" the part that may differ on an older kernel.
older_table=(io messages hydration)
[ "$tier" != soak ] || older_table+=(errors lost-cache)
job_table_6.1() { guest 6.1 "${older_table[@]/#/table/}"; }
job_model_6.1() { guest 6.1 table/model; }
job_crash_6.12() { guest 6.12 crash/{crash,logwrites}; }
job_crash_6.1() { guest 6.1 crash/{crash,logwrites}; }
job_tablecrash_6.12() { guest 6.12 crash/tablecrash; }
job_tablecrash_6.1() { guest 6.1 crash/tablecrash; }
job_mutate() {
	local what=()
	[ "$tier" = soak ] || what=(--gate)
	tests/mutate/run.sh "${what[@]}"
}

# memory SERIES: with little memory, and with disks to swap to.
memory() {
	local dir=build/memory-$1 nr disks=()
	rm -rf "$dir"
	mkdir "$dir"
	for nr in 0 1 2 3; do
		# Base and metadata take turns.
		truncate -s $((nr % 2 ? 1 : 512))M "$dir/disk$nr"
		disks+=(--disk "$dir/disk$nr")
	done
	guest "$1" target/memory -- --mem 256 "${disks[@]}"
	rm -r "$dir"
}
job_memory_6.12() { memory 6.12; }
job_memory_6.1() { memory 6.1; }

# bounds SERIES: with metadata for 1 TiB and a sparse base of 1 TiB, which take 2 GiB of
# this machine's disk, and with little memory.
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
	guest "$1" table/bounds -- --mem 512 --disk "$dir/whole" --disk "$dir/pages" \
		--disk "$dir/base"
	# In the guest it would take ten minutes.
	build/bin/revdedup-meta check "$dir/pages"
	rm -r "$dir"
}
job_bounds_6.12() { bounds 6.12; }
job_bounds_6.1() { bounds 6.1; }

# The part that is about locks, memory and errors rather than about timing.
debug_files=(target/{resize,outage,nowait})
[ "$tier" != soak ] || debug_files=("${guest_files[@]}")
job_debug() {
	[ "$tier" != soak ] || rounds+=(MAPPED_MIB=16)
	guest uml "${debug_files[@]}"
}
job_debug_table() {
	[ "$tier" = soak ] || rounds+=(TABLE_OPS=20000)
	guest uml table/{io,messages,errors,lost-cache,hydration,model}
}
job_debug_faults() { guest uml target/faults; }
job_debug_crash() {
	[ "$tier" = soak ] || rounds+=(CRASH_CYCLES=60 LOG_EPOCHS=6)
	guest uml crash/{crash,logwrites}
}
job_end_to_end_6.12() { env "${rounds[@]}" tests/system/end-to-end.sh --kernel 6.12; }
job_end_to_end_6.1() { env "${rounds[@]}" tests/system/end-to-end.sh --kernel 6.1; }
job_deb() { tests/system/deb.sh; }
# Runs the command that README names; job_deb tests its packages.
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
	dpkg-deb -c build/deb/revdedup-nbdkit_*.deb |
		grep '/nbdkit/plugins/nbdkit-revdedup-plugin\.so$'
	unit=$(dpkg-deb --fsys-tarfile build/deb/revdedup_*.deb |
		tar -x -O ./lib/systemd/system/revdedup-attach.service)
	grep '^ExecStart=/usr/sbin/' <<<"$unit"
	echo "ok packages are built and complete"
}
job_power_cuts_6.12() { env "${rounds[@]}" tests/system/power-cuts.sh --kernel 6.12; }
job_power_cuts_6.1() { env "${rounds[@]}" tests/system/power-cuts.sh --kernel 6.1; }
job_harness() { tests/system/vm-selftest.sh; }

# --- running them

is_wanted() {
	[ "${#wanted[@]}" -eq 0 ] || printf '%s\n' "${wanted[@]}" | grep -qxF "$1"
}

# Wait for one job and print how it ended.
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
	[ "$status" -eq 0 ] || failed_jobs+=("$job")
	printf '%-6s %-16s %4d s  %s\n' "$([ "$status" -eq 0 ] && echo ok || echo FAILED)" \
		"$job" $((SECONDS - start_of[$pid])) "$counts"
	[ "$status" -eq 0 ] || sed 's/^/    /' < <(
		# The output of a failed test stands below its line.
		grep -E -A 15 '^not ok|^# .*(failed|FAILED|missed|error)' "$log" |
			cut -c 1-300 | head -n 80
		echo "..."
		tail -n 40 "$log"
	)
}

# run_jobs JOB...: run two at a time, and wait for all.
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

# --- tiers, in the order of running

fast_jobs=(lint unit pool pool_live)
# Those that need nothing of another job, and those that build for the guests.
first_jobs=(unit modules lint pool pool_live pool_power pool_sanitized fuzz_tools
	nbd debug_kernel)
all_jobs=(debug debug_faults host_6.12 guest_6.12 guest_6.1 table_6.12 table_6.1
	dedup_6.12 dedup_faults_6.12 shared_6.12 live_6.1 blocksize_6.12 blocksize_6.1
	end_to_end_6.12 crash_6.12 tablecrash_6.12 mutate power_cuts_6.12 memory_6.12 harness
	kunit packages nbd_boot)
# They take long, or are about our code more than about the kernel. (deb includes
# packages.)
soak_jobs=("${all_jobs[@]/packages/deb}" model_6.1 crash_6.1 tablecrash_6.1 power_cuts_6.1
	debug_crash debug_table memory_6.1 bounds_6.12 bounds_6.1
	newest kernels live_6.12 host_6.1 dedup_6.1 dedup_faults_6.1 liverandom_6.12 liverandom_6.1
	end_to_end_6.1)

# all_of TIER: print its jobs, a line each.
all_of() {
	case $1 in
	fast) printf '%s\n' "${fast_jobs[@]}" ;;
	all) printf '%s\n' "${first_jobs[@]}" "${all_jobs[@]}" ;;
	soak) printf '%s\n' "${first_jobs[@]}" "${soak_jobs[@]}" ;;
	esac
}

list_jobs() {
	local job tiers name text series
	local fast all soak
	fast=$(all_of fast) all=$(all_of all) soak=$(all_of soak)
	while read -r job; do
		tiers=''
		! grep -qxF "$job" <<<"$fast" || tiers+=' fast'
		! grep -qxF "$job" <<<"$all" || tiers+=' all'
		! grep -qxF "$job" <<<"$soak" || tiers+=' soak'
		series=${job##*_}
		[[ $series == 6.* ]] || series=''
		text=${about[$job]:-${about[${job%"${series:+_$series}"}]}}
		name=${job//_/-}
		printf '%-16s %-13s  %s\n' "$name" "${tiers# }" "$text${series:+ (Linux $series)}"
	done < <(printf '%s\n' "$all" "$soak" | awk '!seen[$0]++')
}

if [ "$tier" = list ]; then
	list_jobs
	exit
fi
for name in "${wanted[@]}"; do
	all_of "$tier" | grep -xF "${name//-/_}" >/dev/null ||
		usage_error "no such job in tier '$tier': '$name'; 'check.sh list' prints all"
done

mkdir -p "$logs"
if [ "$tier" = fast ]; then
	"$scripts/setup.sh" build lint test
	run_jobs "${fast_jobs[@]}"
else
	"$scripts/setup.sh" build lint test fuzz vm kunit deb
	run_jobs "${first_jobs[@]}"
	if [ "$tier" = soak ]; then
		run_jobs "${soak_jobs[@]}"
	else
		run_jobs "${all_jobs[@]}"
	fi
fi

# Once more where it is seen: jobs that ended later have printed theirs in between.
for name in "${failed_jobs[@]}"; do
	note "$name failed:"
	{
		# What a test has printed itself comes before its line.
		grep -E -B 3 -A 4 '^not ok|^model:.*(less than|step)' "$logs/$name.log" |
			tail -n 16
		tail -n 4 "$logs/$name.log"
	} | cut -c 1-200 | sed 's/^/    /'
done

note "took $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s," \
	"logs are in $logs/"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
