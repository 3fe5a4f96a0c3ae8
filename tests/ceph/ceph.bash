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
