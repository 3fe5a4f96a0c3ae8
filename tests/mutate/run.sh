#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: run.sh [OPTION]... [NAME...]
#
# Show that the tests can fail: break the code by each patch of kernel/, pool/ and host/ beside
# this file, in a copy of the tree, and run the test that must catch it. A NAME is a patch
# (fua-no-commit), or a folder (pool); without one all are run. Options:
#
#   --list      print the patches and their tests, and run nothing
#   --no-tree   do not run the tests on the tree as it is first
#
# A patch begins with a sentence on what is broken, and what would be lost. Lines before its
# diff:
#
#   Caught-by: TEST        the test that must fail, see below
#   Prints: REGEX          what its output must match as well, where it could also fail for
#                          another reason (kernel: a line "not ok", or the end of the guest)
#   With: NAME=VALUE...    the environment of the test, where more rounds are needed
#
# TEST is one of
#
#   guest FILE [FILTER]    tests/guest/FILE.bats on 6.12, the tests whose names match FILTER
#   host FILE [FILTER]     tests/guest/host/FILE.bats, the same, with a revdedupctl of the copy
#   model OPTION...        the pool's model, with the seeds 1 to 8 if it has no --seed
#   cli FILE [FILTER]      tests/cli/FILE.bats
#   bats FILE [FILTER]     tests/pool/FILE.bats
#   nbd FILE [FILTER]      tests/nbd/FILE.bats
#   ceph FILE [FILTER]     tests/ceph/FILE.bats, on a small cluster
#   report FILE [FILTER]   tests/report/FILE.bats, in a browser
#   files FILE [FILTER]    tests/files/FILE.bats
#   unit NAME              a program of tests/unit
#
# The verdict on a patch is "caught", or one of SURVIVED, "does not apply", "does not build"
# and "timeout", which are failures. Guests need `scripts/check.sh all modules`. The output of
# each test is in build/mutate/log/.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
cd "${BASH_SOURCE[0]%/*}/../.."

tree=$PWD
here=tests/mutate
work=$tree/build/mutate
log=$work/log
limit=1800

list=false with_tree=true
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--list) list=true ;;
	--no-tree) with_tree=false ;;
	-*) usage_error "no such option: '$1'" ;;
	*) break ;;
	esac
	shift
done

# --- patches

# header PATCH FIELD: print the rest of that line, or nothing.
header() { sed -n "/^--- /q; s/^$2: //p" "$1"; }

# chosen NAME...: print the patches that these name.
chosen() {
	local name found
	[ $# -gt 0 ] || {
		compgen -G "$here/*/*.patch"
		return
	}
	for name; do
		found=$(compgen -G "$here/$name/*.patch" || compgen -G "$here/$name.patch" ||
			compgen -G "$here/*/$name.patch") ||
			usage_error "no such patch: '$name'"
		printf '%s\n' "$found"
	done
}

# files_of PATCH: print what it changes.
files_of() { sed -n 's:^+++ b/::p' "$1"; }

kind_of() { basename "$(dirname "$1")"; }

# --- a copy of the tree for each folder of patches

# sync_file FILE: only what differs is copied, and is new to make.
sync_file() {
	if [ ! -e "$tree/$1" ]; then
		rm -f "$copy/$1"
	elif ! cmp -s "$tree/$1" "$copy/$1"; then
		mkdir -p "$copy/$(dirname "$1")"
		rm -f "$copy/$1"
		cp -P "$tree/$1" "$copy/$1"
		touch -h "$copy/$1"
	fi
}

files_in() {
	(cd "$1" && find . \( -path ./build -o -path ./.git -o -name __pycache__ \) -prune -o \
		! -type d -print)
}

sync_tree() {
	local file
	mkdir -p "$copy"
	while read -r file; do
		sync_file "$file"
	done < <({ files_in "$copy"; files_in "$tree"; } | sort -u)
}

# --- building and running a test, in $copy

build_test() {
	local kdir
	case $1 in
	guest)
		kdir=$("$tree/scripts/headers.sh" 6.12) || return
		"$copy/scripts/module-build.sh" --kdir "$kdir" --out "$work/module" JUDGE=1
		;;
	host)
		make -s -j2 -C "$copy/userspace" O="$copy/build/ctl" CPPFLAGS=-DRD_TEST \
			"$copy/build/ctl/revdedupctl"
		;;
	model) make -s -j2 -C "$copy/tests/pool" ../../build/pool/plain/model ;;
	bats) make -s -j2 -C "$copy/tests/pool" programs ../../build/pool/plain/model ;;
	nbd | ceph | files) make -s -j2 -C "$copy/tests/nbd" programs ;;
	cli | report) make -s -j2 -C "$copy/tests/unit" all ;;
	unit) make -s -j2 -C "$copy/tests/unit" "../../build/unit/$2" ;;
	*) die "no such kind of test: '$1'" ;;
	esac
}

# run_guest MODULES CTL FILE FILTER: with the modules in that folder, and that revdedupctl.
run_guest() {
	local file=$3 filter=$4 around=() net=() plugin=nbdkit-revdedup-plugin.so
	[[ $file != host/krbd ]] || {
		around=("$copy/tests/ceph/network.sh" "$work/ceph")
		net=(--net --payload "$work/ceph:ceph")
	}
	"${around[@]}" "$tree/scripts/vm-run.sh" --kernel 6.12 --timeout "$limit" "${net[@]}" \
		--payload "$1/dm-revdedup.ko:modules/dm-revdedup.ko" \
		--payload "$1/dm-judge.ko:modules/dm-judge.ko" \
		--payload build/guest-bin:bin --payload build/bin:tools \
		--payload "$2:ctl/revdedupctl" \
		--payload "build/guest-ctl/$plugin:ctl/$plugin" --payload tests/guest:tests/guest \
		--payload tests/golden:tests/golden --payload Documentation:doc -- \
		env SOAK=1 "${rounds[@]}" ${filter:+"FILTER=$filter"} \
		/revdedup/tests/guest/run.sh "/revdedup/tests/guest/$file.bats"
}

# run_bats FILE FILTER: a filter that matches no test is a mistake of the patch.
run_bats() {
	local filter=()
	[ -z "$2" ] || filter=(-f "$2")
	# As scripts/bats.sh has it: what init chooses would be another thing on another disk.
	REVDEDUP_MEASURED=4000,4000,4000,5000,10000 \
		timeout "$limit" env "${rounds[@]}" bats --tap "$1" "${filter[@]}"
}

# run_model OPTION...: succeed if all seeds do.
run_model() {
	local seed seeds=("${model_seeds[@]}") dir status=0
	[[ " $* " != *' --seed '* ]] || seeds=('')
	for seed in "${seeds[@]}"; do
		dir=$(mktemp -d "$shm/revdedup-mutate-XXXXXX")
		timeout "$limit" env "${rounds[@]}" "$copy/build/pool/plain/model" \
			${seed:+--seed "$seed"} "$@" "$dir" || status=$?
		rm -rf "$dir"
		[ "$status" -eq 0 ] || return "$status"
	done
	echo "ok model"
}

# run_test KIND ARG...
run_test() {
	local test=$1 pool=$copy/build/pool ctl
	shift
	case $test in
	guest) run_guest "$work/module" build/guest-ctl/revdedupctl "$1" "${*:2}" ;;
	host) run_guest build/modules/6.12 "$copy/build/ctl/revdedupctl" "host/$1" "${*:2}" ;;
	model) run_model "$@" ;;
	cli) run_bats "$copy/tests/cli/$1.bats" "${*:2}" ;;
	bats)
		# What stops at steps needs a program that has them.
		ctl=$pool/bin/revdedupctl
		! grep -q '^load live' "$copy/tests/pool/$1.bats" || ctl=$pool/ctl/revdedupctl
		SEED=1 O=$pool BUILD=$pool CTL=$ctl TMPDIR=$shm \
			run_bats "$copy/tests/pool/$1.bats" "${*:2}"
		;;
	nbd)
		BUILD=$copy/build/nbd CHURNS=30 CONVERTED=20 TMPDIR=$shm \
			run_bats "$copy/tests/nbd/$1.bats" "${*:2}"
		;;
	ceph | files)
		BUILD=$copy/build/nbd TMPDIR=$shm run_bats "$copy/tests/$test/$1.bats" "${*:2}"
		;;
	report) TMPDIR=$shm run_bats "$copy/tests/report/$1.bats" "${*:2}" ;;
	unit)
		timeout "$limit" "$copy/build/unit/$1" && echo "ok $1"
		;;
	esac
}

shm=$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)
export SEED=1
# Of the tree as it is, as many as the gate has. A patch gets more: the first miss ends a test.
few=(CRASH_CYCLES=180 TABLE_CYCLES=60 TABLE_OPS=250000 CRASH_SEED=1 TABLE_SEED=1
	ROUNDS=1 KILLS=20 EVERY=24)
many=("${few[@]}" CRASH_CYCLES=1000 TABLE_CYCLES=1000)

# attempt NAME TEST: build and run; sets verdict to passed, failed or what went wrong. What a test
# leaves behind that failed has no part in the lock.
attempt() {
	local out=$log/${1//\//-} status=0 words
	read -ra words <<<"$2"
	(build_test "${words[@]}") >"$out" 2>&1 </dev/null {lock}>&- || {
		verdict='does not build'
		return 0
	}
	(run_test "${words[@]}") >"$out" 2>&1 </dev/null {lock}>&- || status=$?
	case $status in
	0) verdict=passed ;;
	124) verdict=timeout ;;
	*) verdict=failed ;;
	esac
	# No test has run where there is no such file, or the filter matches none.
	! grep -q '^Error: Test file .* does not exist' "$out" || verdict='no test'
	[ "$verdict" != passed ] || grep -q '^ok ' "$out" || verdict='no test'
	[ "$status" -ne 125 ] || echo 'not ok the guest has ended without a verdict' >>"$out"
}

# --- verdicts

nr=0 failed=0

# report OK NAME TEST VERDICT SECONDS
report() {
	nr=$((nr + 1))
	"$1" || failed=$((failed + 1))
	printf '%s %-28s %-52s %-14s %4d s\n' "$("$1" && echo ok || echo not ok)" \
		"$2" "$3" "$4" "$5"
	"$1" || tail -n 25 "$log/${2//\//-}" 2>/dev/null | sed 's/^/    # /'
}

# The copy has no patch. Each test is run once.
check_tree() {
	local patch test start nr_base=0
	local -A seen=()
	for patch; do
		test=$(header "$patch" Caught-by)
		[ -z "${seen[$test]:-}" ] || continue
		seen[$test]=1 nr_base=$((nr_base + 1)) start=$SECONDS
		rounds=("${few[@]}") model_seeds=(1)
		attempt "tree-$nr_base" "$test"
		report "$([ "$verdict" = passed ] && echo true || echo false)" "tree-$nr_base" \
			"$test" "$verdict" $((SECONDS - start))
	done
}

try_patch() {
	local patch=$1 name=${1#"$here"/} test start=$SECONDS prints file more ok=false
	name=${name%.patch}
	test=$(header "$patch" Caught-by)
	prints=$(header "$patch" Prints)
	[[ $test != guest\ * && $test != host\ * ]] || prints=${prints:-^not ok}
	read -ra more < <(header "$patch" With) || :
	rounds=("${many[@]}" "${more[@]}") model_seeds=(1 2 3 4 5 6 7 8)
	if ! patch -d "$copy" -p1 -s -F0 --no-backup-if-mismatch <"$patch" \
		>"$log/${name//\//-}" 2>&1; then
		verdict='does not apply'
	else
		attempt "$name" "$test"
	fi
	case $verdict in
	failed)
		verdict=caught ok=true
		[ -z "$prints" ] || grep -qE "$prints" "$log/${name//\//-}" || {
			verdict="not '$prints'" ok=false
		}
		;;
	passed) verdict=SURVIVED ;;
	esac
	report $ok "$name" "$test" "$verdict" $((SECONDS - start))
	while read -r file; do
		sync_file "./$file"
		rm -f "$copy/$file".{orig,rej}
	done < <(files_of "$patch")
}

mapfile -t patches < <(chosen "$@")
[ "${#patches[@]}" -gt 0 ] || die "no patch to try"

if $list; then
	for patch in "${patches[@]}"; do
		name=${patch#"$here"/}
		printf '%-28s %-52s %s\n' "${name%.patch}" "$(header "$patch" Caught-by)" \
			"$(header "$patch" Tier)"
	done
	exit
fi

mkdir -p "$log"
exec {lock}>"$work/lock"
flock "$lock"
for kind in kernel pool host; do
	of_kind=()
	for patch in "${patches[@]}"; do
		[ "$(kind_of "$patch")" != "$kind" ] || of_kind+=("$patch")
	done
	[ "${#of_kind[@]}" -gt 0 ] || continue
	[ "$kind" = pool ] || [ -d build/guest-bin ] ||
		die "the guest's programs are missing: run 'scripts/check.sh all modules'"
	copy=$work/$kind
	sync_tree
	! $with_tree || check_tree "${of_kind[@]}"
	for patch in "${of_kind[@]}"; do
		try_patch "$patch"
	done
done
echo "$((nr - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
