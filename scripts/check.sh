#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: check.sh [fast|all|soak] [JOB...]
#        check.sh changed [BASE]
#        check.sh mutate [NAME...]
#        check.sh list
#
# Run the tests, after installing the Debian packages that they need:
#
#   fast     lint, unit tests, the programs without sanitizers and without their slowest tests,
#            the pool's model: no guest, 3 minutes on two processors
#   all      all tests of programs and pool, and the tests in guests: in full on one kernel, and
#            on a second kernel and on a debug kernel the part that may differ there (the
#            default; 35 to 60 minutes)
#   soak     like all, with many times the rounds, in full on each kernel, and with the
#            jobs that take too long for every change: some hours. If it is interrupted,
#            the next soak of the same tree goes on with the jobs that had not passed
#   changed  those jobs of all that the files can break which differ from BASE (origin/main,
#            or else HEAD) or are not committed
#   list     run nothing; print a line for each job: its name, its tiers, what it tests; and
#            for each path the jobs that it can break
#
#   mutate   break the code by each patch of tests/mutate, or these, and run the test that
#            must catch it: the job "mutate" of soak, by hand (see tests/mutate/run.sh)
#
# As many jobs run at a time as the machine has room for, with their output in
# build/check/JOB.log. With JOBs only these run, and those that they need: "check.sh all
# guest-6.12". With FILTER in the environment, only the tests of bats whose names match. The
# seeds are fixed but for soak; SEED takes another. In the end there is a table of the jobs, and
# behind it each test that failed. The last line counts tests.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=$(realpath "${BASH_SOURCE[0]%/*}")
cd "$scripts/.."

case ${1:-all} in
-h | --help) show_help; exit ;;
fast | all | soak | list | changed | lint-jobs) tier=${1:-all} ;;
mutate) exec tests/mutate/run.sh "${@:2}" ;;
*) usage_error "no such tier: '$1'" ;;
esac
wanted=("${@:2}")
base=${2:-}
[ "$tier" != changed ] || wanted=()

logs=build/check
started=$SECONDS

series_list=(6.12 6.1)

# How many rounds the random tests run, on each kernel.
case $tier in
soak) rounds=(CRASH_CYCLES=10000 TABLE_LOG_WRITES=5000 POWER_CUTS=300 FUZZ_ROUNDS=1000000
	TABLE_OPS=20000000 TABLE_CYCLES=10000 LIVE_ROUNDS=2000 E2E_CUTS=200 UNPLUGGED=30
	SHARED_ROUNDS=1000 SURVIVE_SECONDS=20 MAPPED_SECONDS=20 MAPPED_MIB=64) ;;
*) rounds=(POWER_CUTS=6 CRASH_CYCLES=180 TABLE_CYCLES=60 TABLE_OPS=250000
	LIVE_ROUNDS=40 E2E_CUTS=2 E2E_SNAPSHOTS=0 "FUZZ_SEED=${SEED:-1}") ;;
esac
# The gate must not depend on chance where a test can do without; soak takes new seeds.
[ "$tier" != soak ] || : "${SEED:=$RANDOM}"
export SEED=${SEED:-1}
rounds+=("SEED=$SEED" "CRASH_SEED=$SEED" "TABLE_SEED=$SEED" "E2E_SEED=$SEED")
# A test with the tag "soak" is a variation of one without it, and only soak runs it.
export SOAK='' FAST=''
[ "$tier" != soak ] || SOAK=1
# One with the tag "slow" takes as long as ten others.
[ "$tier" != fast ] || FAST=1
# Only for a guest that hangs: how long one takes depends on what else the machine does.
guest_timeout=4800
[ "$tier" != soak ] || guest_timeout=36000

# --- jobs

# What each job tests, for "list". A job of a kernel series has the text of its name
# without the series.
declare -A about=(
	[lint]="checkpatch, sparse, W=1, shellcheck, man pages, units"
	[unit]="the pure code in user space, with sanitizers"
	[cli]="both programs by their options, with sanitizers; simulators"
	[pool]="the pool's engine against a model; damaged pools; what commands cost"
	[pool_live]="revdedupctl beside itself, stopped and killed at its steps, in full file systems"
	[pool_power]="the model at length; power cuts"
	[pool_sanitized]="part of pool-live with TSan, ASan, UBSan and valgrind"
	[nbd]="versions over NBD: what clients read while the pool changes, and in spite of faults"
	[libvirt]="disks of a domain of a real libvirtd: written, powered off, killed, replaced"
	[prometheus]="the alerts and the dashboard, in a real Prometheus"
	[report]="the page of a report, in a browser, beside what other commands say"
	[ceph]="pools in RADOS and disks on RBD, on a small cluster: written, killed, taken over"
	[files]="files in versions, of real guests by libguestfs, and of hostile ones"
	[nbd_boot]="guests that boot over NBD: while the pool changes; for trial, with an agent"
	[fuzz_tools]="libFuzzer at each parser of input from a disk or a user"
	[modules]="no test: builds the modules and programs that guests get"
	[kernels]="that the module builds for each kernel that has headers in the archive"
	[newest]="table lines and dirty bits on the newest kernel of the archive"
	[debug_kernel]="no test: builds the debug kernel and the module for it"
	[upstream]="the series of patches for the kernel: each clean, builds, and passes its tests"
	[kunit]="the KUnit suites, in the debug kernel"
	[guest]="the target: table lines, dirty bits, messages, outages, sizes, costs"
	[guest_6.1]="the part of guest-6.12 that may differ on an older kernel"
	[table]="the remap table: each message, and random operations against a model"
	[model]="the remap table: random operations against a model"
	[crash]="crashes of a volume: no write is forgotten"
	[tablecrash]="crashes of a volume with a remap table: no block is lost or leaked"
	[mutate]="that the tests find each fault of tests/mutate"
	[live]="revdedupctl with volumes on LVM in use: each command, killed and failing"
	[liverandom]="revdedupctl with volumes on LVM in use: all commands in random order"
	[dedup]="volumes in use give space back, to the thin pool and from the pool; killed, refused"
	[dedup_faults]="the same when something else goes wrong"
	[shared]="volumes in use that read blocks which they share"
	[krbd]="a pool in RADOS that the kernel reads: versions, volumes, kills, another host"
	[host]="mounts, versions over NBD and in packs, volumes that go down, two pools"
	[host_clone]="clones of versions; wrong devices; what LVM sees and activates"
	[host_pieces]="versions in pieces of volumes in use; overwrites"
	[host_quiesce]="hooks, status, metrics; groups of volumes"
	[blocksize]="disks of 512 and of 4096 bytes a block, in each combination"
	[end_to_end]="file systems on three volumes with all commands, kills and power cuts"
	[power_cuts]="QEMU killed together with the write caches of its disks"
	[memory]="a guest of 256 MiB that swaps to a volume"
	[bounds]="tables of 1 TiB in a guest of 512 MiB"
	[debug]="outages, sizes and first writes under KASAN, lockdep and kmemleak"
	[debug_table]="the remap table under KASAN, lockdep and kmemleak"
	[debug_crash]="crashes under KASAN, lockdep and kmemleak"
	[debug_faults]="each allocation and each metadata I/O of the target fails once"
	[release]="that the first release refuses what it does not know; that the tarball builds"
	[packages]="that the Debian packages build and have each file in its place"
	[deb]="the Debian packages installed, booted with systemd, upgraded and removed"
	[proxmox]="the plugin for Proxmox VE: a guest's disk in use, with snapshots and roll-backs"
	[repo]="the apt repository: stock apt installs from it, with a prebuilt module"
	[rpm]="the packages for Fedora and RHEL: built, looked at by rpmlint, and unpacked"
	[sbom]="what the programs consist of and need, beside the schema of CycloneDX"
	[harness]="that a guest which hangs, panics or lies fails its test"
)

job_lint() { "$scripts/lint.sh"; }

# build DIRECTORY [GOAL...]: build what several jobs that run at the same time share.
build() {
	mkdir -p build
	flock "build/${1//\//-}.lock" make -s -j "$(nproc)" -C "$@"
}

# Build the programs as they are installed.
tools() { build userspace; }

job_unit() {
	build tests/unit all
	make -s -C tests/unit check FUZZ="$SEED"
}

# The largest first, so that none is left alone in the end.
job_cli() {
	local build=$PWD/build/unit plain
	build tests/unit all
	tools
	plain=$(unsanitized)
	[ "$tier" != fast ] || build=$plain
	mapfile -t files < <(ls -S tests/cli/*.bats tests/sim/*.bats)
	BUILD=$build PLAIN=$plain TMPDIR=$memory "$scripts/bats.sh" "${files[@]}"
}

# What tests/cli needs, with the programs that are installed: they start in a quarter of the time.
unsanitized() {
	local dir=$PWD/build/plain
	mkdir -p "$dir"
	ln -sfn ../bin "$dir/bin"
	ln -sf ../unit/mkmeta "$dir/mkmeta"
	echo "$dir"
}
# What flushes, waits for no disk there.
memory=$([ -d /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")

pool_programs() { build tests/pool programs "$@"; }

job_pool() {
	local rounds=() goals=(check)
	case $tier in
	# That each case comes up is seen without sanitizers, by pool-power.
	fast)
		rounds=(STEPS=30 FAILURES=25 ON_DISK=10 COVER=0 HOSTILE=15)
		goals=(check-model check-fail check-disk check-hostile)
		;;
	all) rounds=(STEPS=60 FAILURES=50 ON_DISK=15 COVER=0 DAMAGES=1 HOSTILE=30) ;;
	soak) rounds=(STEPS=20000 FAILURES=50000 COVER=100 DAMAGES=200 HOSTILE=20000
		CTL_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all") ;;
	esac
	pool_programs "${rounds[@]}"
	make -s -j "$(nproc)" --output-sync=target -C tests/pool "${goals[@]}" "${rounds[@]}"
}

job_pool_power() {
	local much=(LONG_STEPS=200 LONG_FAILURES=80 LONG_COVER=1 CUTS=60)
	[ "$tier" != soak ] || much=(LONG_STEPS=100000 LONG_FAILURES=50000 CUTS=20000)
	build tests/pool ../../build/pool/plain/model
	make -s -j2 --output-sync=target -C tests/pool check-power check-long check-long-fail \
		"${much[@]}"
}

job_pool_live() {
	local much=(EVERY=48 KILLS=30 ROUNDS=6 MIXES=4 SENDS=30 BESIDE=4)
	[ "$tier" != soak ] || much=(EVERY=1 KILLS=5000 ROUNDS=1000 MIXES=1000 SENDS=5000)
	pool_programs
	make -s -C tests/pool live "${much[@]}"
}

job_pool_sanitized() {
	local much=(SANE_BESIDE=2 SANE_ROUNDS=4)
	[ "$tier" != soak ] || much=(SANE_BESIDE=20 SANE_ROUNDS=200 SANE_SENDS=500)
	pool_programs
	make -s -C tests/pool sanitized "${much[@]}"
}

job_nbd() {
	local goal=(check CHURNS=12 CONVERTED=6)
	[ "$tier" != soak ] || goal=(soak)
	build tests/nbd programs
	make -s -C tests/nbd "${goal[@]}"
	# What QEMU answers, with sanitizers.
	build tests/unit all
	BUILD=$PWD/build/unit TMPDIR=$memory QEMU_ROUNDS=3 \
		"$scripts/bats.sh" -f "a disk of a running QEMU" tests/nbd/served.bats
}

job_libvirt() {
	local dir tree=$PWD
	build tests/nbd programs
	dir=$(mktemp -d "$memory/libvirt.XXXXXX")
	cd "$dir" || return
	"$tree/tests/nbd/libvirt.py" --ctl "$tree/build/nbd/bin/revdedupctl" --seed "$SEED" \
		--rounds 200
	cd "$tree" && rm -rf "$dir"
}

job_prometheus() {
	build tests/unit O="$PWD/build/unit" all
	TMPDIR=$memory tests/cli/prometheus.py
}

job_report() {
	"$scripts/setup.sh" browser
	build tests/unit O="$PWD/build/unit" all
	tools
	BUILD=$PWD/build/unit PLAIN=$(unsanitized) TMPDIR=$memory \
		"$scripts/bats.sh" tests/report/report.bats
}

job_ceph() {
	"$scripts/setup.sh" ceph
	build tests/nbd programs
	if [ "$tier" = soak ]; then
		"$scripts/setup.sh" cephfs
		export EVERY=1
	fi
	BUILD=$PWD/build/nbd TMPDIR=$memory "$scripts/bats.sh" tests/ceph/*.bats
	[ "$tier" != soak ] || ceph_sanitized
}

# Some of it with sanitizers: without exports, as nbdkit loads no plugin that is sanitized.
ceph_sanitized() {
	local dir=$PWD/build/ceph-address
	local some='another host reads what|of two commands|object of the journal|fingerprints'
	build userspace O="$dir/bin" CPPFLAGS=-DRD_TEST \
		CFLAGS="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
	EVERY=75 BUILD=$dir TMPDIR=$memory "$scripts/bats.sh" \
		-f "$some|least caps|each step: one|a restore writes|a clone:" \
		tests/ceph/{shard,shard-faults,rbd,rbd-faults}.bats
}

job_files() {
	"$scripts/setup.sh" guestfs
	build tests/nbd programs
	BUILD=$PWD/build/nbd TMPDIR=$memory "$scripts/bats.sh" tests/files/*.bats
}

job_nbd_boot() {
	build tests/nbd programs
	tests/nbd/boot.sh
	tests/nbd/boot-agent.sh
}

job_fuzz_tools() {
	local seconds=3
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
	make -s -j "$(nproc)" -C tests/guest OUT="$PWD/build/guest-bin"
	tools
	# With named steps (see userspace/base/inject.h).
	build userspace O="$PWD/build/ctl" CPPFLAGS=-DRD_TEST \
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

# Each patch of the series with the tests of what it adds, and the selftest at its end.
job_upstream() {
	local kdir i options files=(
		"target/target target/resize target/outage target/nowait"
		"table/io table/hydration table/mapped"
		"table/messages table/shed table/errors table/lost-cache"
		"table/packs target/ctor"
	)
	"$scripts/upstream.sh" --check build/upstream
	kdir=$("$scripts/headers.sh" newest)
	"$scripts/module-build.sh" --out build/upstream/judge --kdir "$kdir" JUDGE=1
	mkdir -p build/modules/upstream
	cp build/upstream/judge/dm-judge.ko build/modules/upstream
	for i in "${!files[@]}"; do
		note "patch $((i + 1))"
		cp "build/upstream/$((i + 1))/dm-revdedup.ko" build/modules/upstream
		# shellcheck disable=SC2086 # words
		module=upstream guest newest ${files[i]}
	done
	note "the selftest"
	mapfile -t options < <(module=upstream payload newest)
	"$scripts/vm-run.sh" --kernel newest "${options[@]}" --timeout "$guest_timeout" \
		--payload build/upstream/selftest:selftest -- \
		/revdedup/tests/guest/run.sh -- /revdedup/tests/guest/selftest.sh
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

# payload SERIES: print the options that vm-run.sh and uml-run.sh take. With `module` set, the
# guest gets the module of build/modules/$module.
payload() {
	printf '%s\n' --payload "build/modules/${module:-$1}:modules" \
		--payload build/guest-bin:bin --payload build/bin:tools \
		--payload build/guest-ctl:ctl \
		--payload tests/guest:tests/guest --payload tests/golden:tests/golden \
		--payload Documentation:doc
}

# guest SERIES FILE... [-- OPTION...]: run tests/guest/FILE.bats in one boot, with these
# options of vm-run.sh; with `around` set, by that command.
around=()
guest() {
	local series=$1 options files=() run=("${around[@]}" "$scripts/vm-run.sh" --kernel "$1")
	shift
	[ "$series" != uml ] || run=("$scripts/uml-run.sh")
	mapfile -t options < <(payload "$series")
	# Commands one after the other have no use for a second processor, which costs a sixth.
	[[ $1 != host/* ]] || options+=(--smp 1)
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		files+=("/revdedup/tests/guest/$1.bats")
		shift
	done
	"${run[@]}" "${options[@]}" --timeout "$guest_timeout" "${@:2}" \
		-- env "${rounds[@]}" ${SOAK:+SOAK=1} ${FILTER:+"FILTER=$FILTER"} \
		/revdedup/tests/guest/run.sh "${files[@]}"
}

guest_files=(lib/harness target/{ctor,target,resize,outage,cost,nowait,survive}
	table/mapped target/{fuzz,examples})
# The part that may differ on an older kernel: compat.h is about I/O, limits and modes, not about
# table lines and what the metadata say.
older_files=(target/target table/{io,packs})
[ "$tier" != soak ] || older_files=("${guest_files[@]}")

job_guest_6.12() { guest 6.12 "${guest_files[@]}"; }
job_guest_6.1() { guest 6.1 "${older_files[@]}"; }
job_live_6.12() { guest 6.12 host/live; }
# In "all" this is the part of host that the older kernel gets.
job_live_6.1() { guest 6.1 host/live; }
# In parts of about the same length, which can run at the same time.
host_files=(host/{mount,nbd,packed,down,two-pools})
clone_files=(host/{clone,wrong-device,lvm})
pieces_files=(host/{pieces,overwrite})
job_host_6.12() { guest 6.12 "${host_files[@]}"; }
job_host_clone_6.12() { guest 6.12 "${clone_files[@]}"; }
job_host_pieces_6.12() { guest 6.12 "${pieces_files[@]}"; }
job_host_quiesce_6.12() { guest 6.12 host/{quiesce,group}; }
job_host_6.1() {
	guest 6.1 "${host_files[@]}" "${clone_files[@]}" "${pieces_files[@]}" host/{quiesce,group}
}
# On both kernels: loop devices and limits are the kernel's.
job_blocksize_6.12() { guest 6.12 host/blocksize; }
job_blocksize_6.1() { guest 6.1 host/blocksize; }
job_liverandom_6.12() { guest 6.12 host/live-random; }
job_liverandom_6.1() { guest 6.1 host/live-random; }
job_dedup_6.12() { guest 6.12 host/dedup-live; }
job_dedup_6.1() { guest 6.1 host/dedup-live; }
dedup_faults() {
	local files=(host/dedup-faults)
	[ "$tier" != soak ] || files+=(host/dedup-long)
	guest "$1" "${files[@]}"
}
job_dedup_faults_6.12() { dedup_faults 6.12; }
job_dedup_faults_6.1() { dedup_faults 6.1; }
# With Proxmox VE's own modules instead of a stand-in: tests/proxmox/upstream.sh
job_proxmox_6.12() {
	# shellcheck disable=SC2086 # words
	tests/proxmox/payload.sh build/guest-perl ${PROXMOX_STORAGE:-}
	guest 6.12 host/proxmox -- --payload build/guest-perl:perl
}
# A pool in RADOS, by the kernel's rbd. What a guest is made of comes by the network of this
# machine, which the guest then has not.
krbd() {
	"$scripts/setup.sh" ceph
	"$scripts/kernels.sh" "$1" >/dev/null
	"$scripts/rootfs.sh" >/dev/null
	local around=(tests/ceph/network.sh "build/ceph-$1")
	guest "$1" host/krbd -- --net --payload "build/ceph-$1:ceph"
}
job_krbd_6.12() { krbd 6.12; }
job_krbd_6.1() { krbd 6.1; }
job_shared_6.12() { guest 6.12 host/dedup-shared; }
job_table_6.12() {
	guest 6.12 table/{io,packs,golden,messages,errors,shed,lost-cache,hydration,model}
}
job_table_6.1() { guest 6.1 table/{io,packs,messages,errors,shed,lost-cache,hydration}; }
job_model_6.1() { guest 6.1 table/model; }
job_crash_6.12() { guest 6.12 crash/{crash,logwrites}; }
job_crash_6.1() { guest 6.1 crash/{crash,logwrites}; }
job_tablecrash_6.12() { guest 6.12 crash/tablecrash; }
job_tablecrash_6.1() { guest 6.1 crash/tablecrash; }
job_mutate() { tests/mutate/run.sh; }

# memory SERIES: with little memory, and with disks to swap to.
memory() {
	local dir=build/memory-$1 nr disks=()
	rm -rf "$dir"
	mkdir "$dir"
	for nr in 0 1 2 3 4; do
		# Base and metadata take turns; the last is a pool.
		truncate -s $((nr == 4 ? 64 : nr % 2 ? 2 : 512))M "$dir/disk$nr"
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
	local files=(table/{io,messages,errors,lost-cache,hydration,model})
	[ "$tier" != soak ] || files+=(table/shed)
	[ "$tier" = soak ] || rounds+=(TABLE_OPS=20000)
	guest uml "${files[@]}"
}
job_debug_faults() { guest uml target/faults; }
job_debug_crash() {
	[ "$tier" = soak ] || rounds+=(CRASH_CYCLES=60 LOG_EPOCHS=6)
	guest uml crash/{crash,logwrites}
}
job_end_to_end_6.12() { env "${rounds[@]}" tests/system/end-to-end.sh --kernel 6.12; }
job_end_to_end_6.1() { env "${rounds[@]}" tests/system/end-to-end.sh --kernel 6.1; }
job_deb() { tests/system/deb.sh; }
job_release() {
	"$scripts/setup.sh" build test
	TMPDIR=$memory "$scripts/bats.sh" tests/golden/release.bats
}
job_repo() { tests/system/repo.sh; }
job_rpm() { tests/system/rpm.sh; }
job_sbom() { tests/system/sbom.sh; }
# package_has PACKAGE PATTERN...: a file of each of these names.
package_has() {
	local file list
	list=$(dpkg-deb -c "build/deb/$1"_*.deb)
	for file in "${@:2}"; do
		grep -q " \\./$file$" <<<"$list" || {
			echo "not ok the package $1 has no $file"
			return 1
		}
	done
}

# Runs the command that README names; job_deb tests its packages.
job_packages() {
	local unit
	make deb
	package_has revdedup usr/sbin/revdedup{ctl,-meta} usr/share/man/man8/revdedupctl.8.gz \
		lib/udev/rules.d/{56,63}-revdedup.rules \
		lib/systemd/system/revdedup-attach.service || return
	package_has revdedup-nbdkit 'usr/lib/.*/nbdkit/plugins/nbdkit-revdedup-plugin\.so' \
		'usr/lib/sysusers\.d/revdedup-nbdkit\.conf' || return
	unit=$(dpkg-deb --fsys-tarfile build/deb/revdedup_*.deb |
		tar -x -O ./lib/systemd/system/revdedup-attach.service)
	grep '^ExecStart=/usr/sbin/' <<<"$unit"
	echo "ok packages are built and complete"
}
job_power_cuts_6.12() { env "${rounds[@]}" tests/system/power-cuts.sh --kernel 6.12; }
job_power_cuts_6.1() { env "${rounds[@]}" tests/system/power-cuts.sh --kernel 6.1; }
job_harness() { tests/system/vm-selftest.sh; }

# --- tiers

fast_jobs=(lint unit cli pool)
# Those that need nothing of another job, and those that build for the guests.
first_jobs=(unit cli modules lint pool pool_live pool_power pool_sanitized fuzz_tools
	nbd debug_kernel)
all_jobs=(debug debug_faults host_6.12 host_clone_6.12 host_pieces_6.12 host_quiesce_6.12
	guest_6.12 guest_6.1 table_6.12
	dedup_6.12 dedup_faults_6.12 shared_6.12 live_6.1 blocksize_6.12
	end_to_end_6.12 crash_6.12 tablecrash_6.12 power_cuts_6.12 harness
	kunit packages nbd_boot ceph report files)
# They take long, or are about our code more than about the kernel. (deb includes
# packages.)
soak_jobs=("${all_jobs[@]/packages/deb}" table_6.1 model_6.1 crash_6.1 tablecrash_6.1
	power_cuts_6.1 debug_crash debug_table memory_6.12 memory_6.1 bounds_6.12 bounds_6.1
	newest upstream kernels live_6.12 host_6.1 dedup_6.1 dedup_faults_6.1 blocksize_6.1 mutate
	liverandom_6.12 liverandom_6.1 end_to_end_6.1 libvirt prometheus release
	proxmox_6.12 repo rpm sbom krbd_6.12 krbd_6.1)

# --- what jobs cost and need, and what breaks them

# A line a job: how much of the machine it takes, in halves of a processor (a guest mostly
# waits); its budget in seconds, in fast and in all, while the machine is shared with other
# jobs, on two processors; and the jobs that must have ended before it. Who takes long begins
# first. A job that only soak has needs no budget.
costs='
lint               2   60   60
unit               2   60   60
cli                2  150  350
pool               2  100  200
pool_live          2    -  300
pool_power         2    -  200
pool_sanitized     2    -  200
fuzz_tools         2    -  120
nbd                2    -  160
modules            2    -   90
debug_kernel       2    -   60
debug              1    -  400  modules debug_kernel
debug_faults       1    -  300  modules debug_kernel
debug_table        1    -    -  modules debug_kernel
debug_crash        1    -    -  modules debug_kernel
kunit              1    -   90  debug_kernel
host_6.12          1    -  900  modules
host_clone_6.12    1    -  700  modules
host_pieces_6.12   1    -  500  modules
host_quiesce_6.12  1    -  400  modules
host_6.1           1    -    -  modules
guest_6.12         1    -  900  modules
guest_6.1          1    -  300  modules
table_6.12         1    -  700  modules
table_6.1          1    -    -  modules
model_6.1          1    -    -  modules
dedup_6.12         1    -  500  modules
dedup_6.1          1    -    -  modules
dedup_faults_6.12  1    -  250  modules
dedup_faults_6.1   1    -    -  modules
shared_6.12        1    -  200  modules
krbd_6.12          1    -    -  modules
krbd_6.1           1    -    -  modules
live_6.12          1    -    -  modules
live_6.1           1    -  700  modules
liverandom_6.12    1    -    -  modules
liverandom_6.1     1    -    -  modules
blocksize_6.12     1    -  300  modules
blocksize_6.1      1    -    -  modules
crash_6.12         1    -  400  modules
crash_6.1          1    -    -  modules
tablecrash_6.12    1    -  200  modules
tablecrash_6.1     1    -    -  modules
end_to_end_6.12    1    -  300  modules
end_to_end_6.1     1    -    -  modules
power_cuts_6.12    1    -  200  modules
power_cuts_6.1     1    -    -  modules
proxmox_6.12       1    -    -  modules
memory_6.12        1    -    -  modules
memory_6.1         1    -    -  modules
bounds_6.12        1    -    -  modules
bounds_6.1         1    -    -  modules
mutate             2    -    -  modules
harness            2    -  150
packages           2    -  200
deb                2    -    -
repo               2    -    -  deb
rpm                2    -    -
sbom               2    -    -
libvirt            2    -    -
release            2    -    -
prometheus         1    -    -
nbd_boot           1    -  180
files              2    -  150
ceph               2    -  300
report             2    -   60
newest             1    -    -  modules
upstream           2    -    -  modules
kernels            2    -    -
'

# Paths, as patterns, and below them the jobs that a change there can break, as patterns too. All
# that match count; a path that none matches can break all.
breaks='
kernel/* tests/judge/* Kbuild
	lint unit modules guest* table* model* crash* tablecrash* memory* bounds* debug*
	live* dedup* shared* host* blocksize* end_to_end* power_cuts* mutate kernels newest
	upstream packages deb
kernel/tests/*
	kunit
kernel/format.* kernel/ranges.*
	cli pool* nbd* fuzz_tools
userspace/*
	lint unit cli pool* nbd* ceph report files fuzz_tools modules host* live* dedup* shared*
	blocksize* krbd* end_to_end* mutate prometheus proxmox* packages deb
userspace/meta/* userspace/metatool/* userspace/base/*
	table* bounds* guest*
tests/unit/*
	lint unit cli fuzz_tools
tests/fuzz/*
	lint fuzz_tools
tests/cli/* tests/sim/*
	lint cli pool_live prometheus
tests/pool/*
	lint pool* mutate
tests/nbd/*
	lint nbd* libvirt files
tests/ceph/*
	lint ceph krbd*
tests/report/*
	lint report
tests/files/*
	lint files
tests/guest/host/*
	lint host* live* dedup* shared* blocksize* krbd* proxmox*
tests/proxmox/* tools/proxmox/*
	lint cli proxmox*
tests/guest/table/*
	lint guest* table* model* bounds* debug_table upstream
tests/guest/target/*
	lint guest* memory* debug debug_faults newest upstream
tests/guest/crash/*
	lint crash* tablecrash* debug_crash
tests/guest/lib/* tests/guest/run.sh tests/guest/init tests/guest/Makefile scripts/vm-*.sh
scripts/guest-lib.sh scripts/kernels.sh scripts/rootfs.sh
	lint harness modules guest* table* model* crash* tablecrash* memory* bounds* debug*
	live* dedup* shared* host* blocksize* end_to_end* power_cuts* nbd_boot newest upstream
tests/guest/lib/trace.bash
	cli pool* nbd ceph report files
tests/guest/uml.config scripts/uml-*.sh scripts/kunit-run.sh
	lint debug* kunit
tests/system/end-to-end*
	lint end_to_end*
tests/system/power-cuts*
	lint power_cuts*
tests/system/vm-selftest.sh
	lint harness
tests/system/deb* debian/* systemd/* Makefile scripts/deb.sh scripts/dkms*
scripts/headers.sh
	lint packages deb kernels prometheus release
	lint packages deb repo rpm sbom kernels prometheus
tests/system/repo.sh scripts/repo.sh
	lint repo
tests/system/rpm.sh scripts/rpm.sh tools/rpm/*
	lint rpm
tests/system/sbom.sh scripts/sbom.py
	lint sbom
tests/system/packages.bash
	lint deb repo rpm sbom
tests/mutate/*
	lint mutate
Documentation/* README.md
	lint cli packages
Documentation/dm-revdedup.rst
	guest* upstream
tests/golden/*
	lint cli table* release
scripts/upstream.sh scripts/upstream/* scripts/archive.sh
	lint upstream
tests/bench/* tools/* scripts/lint.sh scripts/demo*.sh CHANGELOG.md COPYING .gitignore
	lint
'

# all_of TIER: print its jobs, a line each.
all_of() {
	case $1 in
	fast) printf '%s\n' "${fast_jobs[@]}" ;;
	all) printf '%s\n' "${first_jobs[@]}" "${all_jobs[@]}" ;;
	soak) printf '%s\n' "${first_jobs[@]}" "${soak_jobs[@]}" ;;
	esac
}

# every_job: print the jobs of all tiers.
every_job() { { all_of all; all_of soak; } | awk '!seen[$0]++'; }

declare -A weight=() budget=() needs=()
while read -r job halves in_fast in_all before; do
	[ -n "$job" ] || continue
	weight[$job]=$halves needs[$job]=$before
	budget[$job]=$in_all
	[ "$tier" != fast ] || budget[$job]=$in_fast
	[ "$tier" != soak ] || budget[$job]=-
done <<<"$costs"

# rules: print breaks with a line for each rule, "PATH... : JOB...".
rules() {
	awk '/^[^\t]/ && jobs { print paths " : " jobs; paths = jobs = "" }
		/^[^\t]/ { paths = paths " " $0 }
		/^\t/ { jobs = jobs " " $0 }
		END { print paths " : " jobs }' <<<"$breaks"
}

# split_line: read a line of rules, and set paths and jobs to its patterns.
split_line() {
	local line
	read -r line || return
	read -r -a paths <<<"${line%% : *}"
	read -r -a jobs <<<"${line#* : }"
}

# broken_by PATH...: print the jobs that a change of these can break, in any tier.
broken_by() {
	local path pattern known paths jobs
	for path; do
		known=false
		while split_line; do
			for pattern in "${paths[@]}"; do
				# shellcheck disable=SC2053 # it is a pattern
				[[ $path == $pattern ]] || continue
				known=true
				jobs_like "${jobs[@]}"
			done
		done < <(rules)
		$known || every_job
	done | sort -u
}

# jobs_like PATTERN...: print the jobs that these match.
jobs_like() {
	local job pattern
	while read -r job; do
		for pattern; do
			# shellcheck disable=SC2053 # it is a pattern
			[[ $job != $pattern ]] || echo "$job"
		done
	done < <(every_job)
}

list_jobs() {
	local job tiers name text series in_tier paths jobs
	while read -r job; do
		tiers=''
		for in_tier in fast all soak; do
			! all_of "$in_tier" | grep -xF "$job" >/dev/null || tiers+=" $in_tier"
		done
		series=${job##*_}
		[[ $series == 6.* ]] || series=''
		text=${about[$job]:-${about[${job%"${series:+_$series}"}]}}
		name=${job//_/-}
		printf '%-18s %-13s  %s\n' "$name" "${tiers# }" "$text${series:+ (Linux $series)}"
	done < <(every_job)
	printf '\n%s\n' "A change of these paths can break these jobs:"
	while split_line; do
		printf '\n%s\n' "${paths[*]}" | fold -s -w 96
		printf '%s\n' "${jobs[*]//_/-}" | fold -s -w 88 | sed 's/^/        /'
	done < <(rules)
}

# --- that all tests are in a job (for lint)

# mentioned: print the files of tests/guest that jobs name.
mentioned() {
	local word words
	mapfile -t words < <(sed -n '/^# --- jobs/,/^# --- tiers/{/^ *#/d; p}' scripts/check.sh |
		grep -oE '\b(lib|target|table|crash|host)/[][a-z0-9{},-]+')
	for word in "${words[@]}"; do
		[[ $word != */\{*,*\} ]] || word=$(eval "printf '%s\n' $word")
		printf '%s\n' "$word"
	done
}

lint_jobs() {
	local file name job pattern in_guest chosen paths jobs
	in_guest=$(mentioned)
	while read -r file; do
		name=${file##*/}
		case $file in
		# All of these are.
		tests/cli/*.bats | tests/sim/*.bats | tests/nbd/*.bats) ;;
		tests/ceph/*.bats | tests/report/*.bats | tests/files/*.bats) ;;
		tests/golden/release.bats) ;;
		tests/guest/*.bats)
			name=${file#tests/guest/}
			grep -qxF "${name%.bats}" <<<"$in_guest" || echo "no job runs $file"
			;;
		tests/pool/*.bats)
			grep -qw "$name" tests/pool/Makefile || echo "no job runs $file"
			;;
		tests/unit/test_*.c)
			grep -q "O)/${name%.c}\$" tests/unit/Makefile || echo "no job runs $file"
			;;
		tests/fuzz/fuzz.c) ;;
		tests/fuzz/*.c)
			grep -q "^targets := .*\\b${name%.c}\\b" tests/fuzz/Makefile ||
				echo "no job runs $file"
			;;
		*) echo "no job runs $file: tests of bats are in folders that check.sh knows" ;;
		esac
	done < <(git ls-files 'tests/*.bats' 'tests/unit/test_*.c' 'tests/fuzz/*.c')

	chosen=$(while split_line; do
		jobs_like "${jobs[@]}"
	done < <(rules))
	while read -r job; do
		grep -qxF "$job" <<<"$chosen" ||
			echo "no change of a path chooses the job '$job': see 'breaks' in check.sh"
		[ -n "${weight[$job]:-}" ] ||
			echo "the job '$job' has no line in 'costs' of check.sh"
		declare -F "job_$job" >/dev/null || echo "there is no function job_$job"
	done < <(every_job)
	while split_line; do
		for pattern in "${paths[@]}"; do
			[ -n "$(git ls-files "$pattern" | head -n 1)" ] ||
				echo "'$pattern' in 'breaks' of check.sh matches no file"
		done
		for pattern in "${jobs[@]}"; do
			[ -n "$(jobs_like "$pattern")" ] ||
				echo "'$pattern' in 'breaks' of check.sh matches no job"
		done
	done < <(rules)
}

# --- running them

# In halves of a processor. A guest takes 1 GiB and more.
capacity() {
	local halves=$((2 * $(nproc))) gib
	gib=$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)
	[ "$gib" -ge "$halves" ] || halves=$gib
	echo $((halves > 2 ? halves : 2))
}

# Where soak notes which jobs of this tree have passed.
soak_state() {
	local tree
	tree=$({ git rev-parse HEAD; git diff HEAD; } | sha256sum | head -c 16)
	echo "build/check/soak-$tree"
}

declare -A state=() job_of=() result=()
used=0

# rank JOB: print how long it takes until all that need it have ended, by the budgets.
rank() {
	local job most=0 mine=${budget[$1]//-/300} other
	for job in "${!state[@]}"; do
		[[ " ${needs[$job]} " == *" $1 "* ]] || continue
		other=$(rank "$job")
		[ "$other" -le "$most" ] || most=$other
	done
	echo $((mine + most))
}

# can_start JOB: all that it needs has passed, and there is room. One that needs a job that
# failed has failed as well.
can_start() {
	local need
	for need in ${needs[$1]}; do
		case ${state[$need]:-passed} in
		passed) ;;
		failed)
			echo "not ok '$1' was not run, as '$need' failed" >"$logs/${1//_/-}.log"
			end_job "$1" 1 0 0
			return 1
			;;
		*) return 1 ;;
		esac
	done
	[ "$used" -eq 0 ] || [ $((used + weight[$1])) -le "$room" ]
}

start_job() {
	local name=${1//_/-}
	rm -f "$logs/$name.times"
	(
		trap 'times >"$logs/$name.times"' EXIT
		set -e
		"job_$1"
	) </dev/null >"$logs/$name.log" 2>&1 &
	job_of[$!]=$1 start_of[$!]=$SECONDS state[$1]=runs
	used=$((used + weight[$1]))
}
declare -A start_of=()

# end_job JOB STATUS SECONDS CPU: count what it has printed, and print how it ended.
end_job() {
	local job=$1 status=$2 log=$logs/${1//_/-}.log counts ok=0 bad=0
	counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1) || :
	if [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
		ok=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]}
		[ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
	else
		ok=$(grep -c '^ok ' "$log") || :
		ok=$((ok + (status == 0 && ok == 0))) bad=$((status != 0))
	fi
	state[$job]=passed
	[ "$status" -eq 0 ] || state[$job]=failed
	result[$job]="$3 $4 $ok $bad"
	# With a filter it was a part of the job.
	[ "$status" -ne 0 ] || [ "$tier" != soak ] || [ -n "${FILTER:-}" ] ||
		echo "${result[$job]}" >"$soak/$job"
	printf '%-6s %-18s %4d s  %d passed, %d failed\n' \
		"$([ "$status" -eq 0 ] && echo ok || echo FAILED)" "${job//_/-}" "$3" "$ok" "$bad"
}

# Wait for one job.
reap() {
	local pid status=0 job cpu
	wait -n -p pid "${!job_of[@]}" || status=$?
	job=${job_of[$pid]}
	unset "job_of[$pid]"
	used=$((used - weight[$job]))
	cpu=$(awk -F '[ms ]+' '{ sum += $1 * 60 + $2 + $3 * 60 + $4 } END { printf "%d", sum }' \
		"$logs/${job//_/-}.times" 2>/dev/null) || cpu=0
	end_job "$job" "$status" $((SECONDS - start_of[$pid])) "${cpu:-0}"
}

# run_jobs JOB...: run each as soon as there is room, those first on which most waits.
run_jobs() {
	local job order
	for job; do
		state[$job]=waits
	done
	mapfile -t order < <(for job; do
		echo "$(rank "$job") $job"
	done | sort -k 1,1nr -s | cut -d ' ' -f 2)
	while :; do
		for job in "${order[@]}"; do
			[ "${state[$job]}" = waits ] || continue
			if [ "$tier" = soak ] && [ "${#wanted[@]}" -eq 0 ] &&
				[ -e "$soak/$job" ] && [ -z "${builds[$job]:-}" ]; then
				state[$job]=passed result[$job]=$(<"$soak/$job")
				note "$job has passed before"
				continue
			fi
			! can_start "$job" || start_job "$job"
		done
		[ "${#job_of[@]}" -gt 0 ] || break
		reap
	done
}
# What these have built is needed, whatever they said before.
declare -A builds=([modules]=1 [debug_kernel]=1)

# The table of what ran.
print_table() {
	local job secs cpu ok bad over
	printf '%-18s %8s %8s %8s %8s\n' job seconds cpu tests budget
	for job in "${!result[@]}"; do
		read -r secs cpu ok bad <<<"${result[$job]}"
		over=''
		[ "${budget[$job]}" = - ] || [ "$secs" -le "${budget[$job]}" ] ||
			over="  over by $((secs - budget[$job])) s"
		printf '%-18s %8d %8d %8d %8s%s\n' "${job//_/-}" "$secs" "$cpu" $((ok + bad)) \
			"${budget[$job]}" "$over"
	done | sort -k 2,2nr
}

# show_failures JOB: each test that failed, with what it printed, and how to run it alone.
show_failures() {
	local log=$logs/${1//_/-}.log name=${1//_/-}
	note "$name failed:"
	if ! grep -q '^not ok' "$log"; then
		tail -n 40 "$log" | cut -c 1-300 | sed 's/^/    /'
		echo "    SEED=$SEED scripts/check.sh $only $name"
		return
	fi
	# Behind a test of bats stand its file and what it printed, before others that.
	awk -v run="scripts/check.sh $only $name" -v seed="$SEED" -v quote="'" '
		function end_test() {
			if (!in_test)
				return
			if (by_bats) {
				sub(/^not ok [0-9]* /, "", title)
				sub(/ in [0-9]+ms$/, "", title)
				gsub(/[][\\.*^$?+(){}|]/, "\\\\&", title)
				gsub(quote, ".", title)
				print "    " with "FILTER=" quote title quote " " run
			} else {
				print "    SEED=" seed " " run
			}
			in_test = by_bats = 0
		}
		/^not ok/ {
			end_test()
			if (shown++ == 10)
				exit
			for (i = NR - 5; i < NR; i++)
				if (before[i % 5] !~ /^(ok|not ok|# \/|1\.\.|$)/)
					print "    " before[i % 5]
			in_test = 1; lines = 0; title = $0; with = "SEED=" seed " "
		}
		in_test && /^ok |^1\.\.|^[0-9]+ passed/ { end_test() }
		/^# \(in test file|^# .*in test file/ { by_bats = 1 }
		/^# SEED=[0-9]+ COMPRESSION/ { with = substr($0, 3) " " }
		in_test && lines++ < 40 { print "    " substr($0, 1, 300) }
		{ before[NR % 5] = in_test ? "" : substr($0, 1, 300) }
		END { end_test() }' "$log"
}

case $tier in
list)
	list_jobs
	exit
	;;
lint-jobs)
	[ -z "$(lint_jobs | tee /dev/stderr)" ]
	exit
	;;
changed)
	tier=all
	[ -n "$base" ] || base=$(git rev-parse -q --verify origin/main) || base=HEAD
	mapfile -t changed < <({
		git diff --name-only "$(git merge-base "$base" HEAD)"
		git ls-files --others --exclude-standard
	} | sort -u)
	mapfile -t wanted < <([ "${#changed[@]}" -eq 0 ] || broken_by "${changed[@]}" |
		grep -xF -f <(all_of all) | tr _ -)
	[ "${#wanted[@]}" -gt 0 ] || {
		note "nothing differs from '$base'"
		exit 0
	}
	note "${#changed[@]} files differ from '$base': ${wanted[*]}"
	;;
esac
only=$tier
for name in "${wanted[@]}"; do
	all_of "$tier" | grep -xF "${name//-/_}" >/dev/null ||
		usage_error "no such job in tier '$tier': '$name'; 'check.sh list' prints all"
done
if [ "${#wanted[@]}" -eq 0 ]; then
	mapfile -t jobs < <(all_of "$tier")
else
	mapfile -t jobs < <(for name in "${wanted[@]}"; do
		job=${name//-/_}
		tr ' ' '\n' <<<"${needs[$job]} $job"
	done | awk 'NF && !seen[$0]++')
fi

mkdir -p "$logs"
groups=(build lint test)
[ "$tier" = fast ] || groups+=(fuzz vm kunit deb)
[ "$tier" != soak ] || groups+=(libvirt prometheus)
"$scripts/setup.sh" "${groups[@]}"
room=$(capacity)
if [ "$tier" = soak ]; then
	soak=$(soak_state)
	# Of another tree nothing counts any more.
	find "$logs" -maxdepth 1 -name "soak-*" ! -path "$soak" -exec rm -r {} +
	mkdir -p "$soak"
fi
run_jobs "${jobs[@]}"

passed=0 failed=0
for job in "${jobs[@]}"; do
	read -r _ _ ok bad <<<"${result[$job]}"
	passed=$((passed + ok)) failed=$((failed + bad))
done
[ "$tier" != soak ] || [ "$failed" -gt 0 ] || [ "${#wanted[@]}" -gt 0 ] || rm -r "$soak"
print_table
note "took $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s, logs are in $logs/"
for job in "${jobs[@]}"; do
	[ "${state[$job]}" = passed ] || show_failures "$job"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
