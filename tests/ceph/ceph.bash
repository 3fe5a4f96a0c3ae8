# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests on a small cluster, which `load ceph`: each file has one of its own, see cluster.sh.
# OSDS, set before, is how many OSDs it has; BUILD is where the programs are, as for tests/nbd.
# shellcheck disable=SC2034,SC2154 # its users have some of the variables; by pool.bash
load "${BASH_SOURCE[0]%/*}/../cli/pool"

cluster() { "$BATS_TEST_DIRNAME/cluster.sh" "$@"; }

setup_file() {
	export CLUSTER=$BATS_FILE_TMPDIR/ceph TZ=UTC PATH=/usr/bin:$PATH
	eval "$("$BATS_TEST_DIRNAME/cluster.sh" start "${OSDS:-1}")"
}

teardown_file() { "$BATS_TEST_DIRNAME/cluster.sh" wipe; }

setup() {
	build=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build/nbd}")
	cd "$BATS_TEST_TMPDIR" || return
	unset REVDEDUP_POOL
}

# --- a pool in RADOS, on several hosts: each has a directory and a name of its own

# on HOST COMMAND...: what that host does. What it prints, and to where, is as of `run`.
on() {
	local host=$1
	shift
	# shellcheck disable=SC2016 # the other shell's
	REVDEDUP_POOL=$PWD/$host REVDEDUP_RUN=$PWD/run-$host timeout -k 10 120 \
		unshare -u sh -c 'hostname "$0"; exec "$@"' "$host" "$build/bin/revdedupctl" "$@"
}

# join HOST: it knows of the shard.
join() {
	mkdir -m 700 "$1"
	ln -s "ceph:$shard" "$1/data"
}

# in_shard ARGUMENT...: what rados does there.
in_shard() { rados -p "${shard%%/*}" -N "${shard#*/}" "$@"; }

# --- disks on RBD

# image NAME SIZE [OPTION...]: one with some content, in a pool of its own for each test.
image() {
	[ -n "${rbd:-}" ] || {
		rbd=p$BATS_TEST_NUMBER
		cluster pool "$rbd"
	}
	rbd create "$rbd/$1" --size "$2" "${@:3}"
	change "$1"
}

# change NAME: write to it at random.
change() {
	seed=$((${seed:-${SEED:-1}} * 7 + 1))
	"$BATS_TEST_DIRNAME/change.py" "$rbd/$1" "$seed"
}

# ours NAME: the snapshots that it has of us, a line each.
ours() { rbd snap ls --format json "$rbd/$1" | grep -o '"name":"rd-[^"]*"' | cut -d '"' -f 4; }

# is VOL@N NAME[@SNAPSHOT]: it has the content of this image.
is() {
	rbd export --no-progress "$rbd/$2" - | cmp - <("$build/bin/revdedupctl" dump "$1")
}

# take NAME MODE: a version of vm, made in that way, of what the snapshot of it has, which is the
# only one that is left. The content is kept in the file N.
take() {
	must snapshot vm --from "rbd:$rbd/$1" --json
	[ "$(field 0 '["mode"]')" = "$2" ] || {
		echo "$output"
		return 1
	}
	number=$(field 0 '["number"]')
	[ "$(ours "$1" | wc -l)" -eq 1 ]
	rbd export --no-progress "$rbd/$1@$(ours "$1")" "$number"
	"$build/bin/revdedupctl" dump "vm@$number" | cmp - "$number"
}

# begin NAME [STEP]: a version of vm, which stops there; else when the changes are listed.
begin() {
	REVDEDUP_FAIL=${2:-rbd-listed}=stop "$build/bin/revdedupctl" snapshot vm --from "rbd:$rbd/$1" \
		>out 2>&1 3>&- &
	until [[ $(ps -o stat= "$!") == T* ]]; do
		kill -0 "$!" || {
			cat out
			return 1
		}
		sleep 0.05
	done
}

# end: let it go on, and set status and output.
end() {
	kill -CONT "$!"
	status=0
	wait "$!" || status=$?
	output=$(<out)
}

# reason TEXT: it is why the last version was read in full.
reason() { [[ $(field 0 '["reason"]') == *"$1"* ]]; }
