#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: network.sh DIR COMMAND [ARG]...
#
# Run COMMAND in a network of its own, which nothing leaves, beside a small cluster that a guest
# with a network card (vm-run.sh --net) reaches: at an address that no guest has itself. Meanwhile
# DIR has what a guest needs to use it, at /revdedup/ceph: ceph.conf, and the keyring of
# client.guest, whose caps are those of Documentation/cluster.rst for the shards p/t*.
set -eu -o pipefail

here=$(dirname "$(realpath "$0")")
[ $# -gt 1 ] || {
	sed -n '4,/^[^#]/{/^#/s/^# \?//p}' "$0" >&2
	exit 2
}
if [ -z "${NETWORK_INSIDE:-}" ]; then
	NETWORK_INSIDE=1 exec unshare -n "$0" "$@"
fi
unset NETWORK_INSIDE

export CLUSTER ADDRESS=10.99.0.1
CLUSTER=$(mktemp -d "${TMPDIR:-/tmp}/revdedup-network.XXXXXX")
dir=$1
shift
trap '"$here/cluster.sh" wipe; rm -rf "$dir" "$CLUSTER"' EXIT
trap 'exit 130' INT TERM HUP
ip link set lo up
ip address add "$ADDRESS/32" dev lo
settings=$("$here/cluster.sh" start)
eval "$settings"
"$here/cluster.sh" pool p
"$here/cluster.sh" keyring guest mon 'profile rbd' osd 'profile rbd pool=p namespace=t*'
mkdir -p "$dir"
grep -e '^\[global' -e '^fsid' -e '^mon host' "$CEPH_CONF" >"$dir/ceph.conf"
echo 'keyring = /revdedup/ceph/keyring' >>"$dir/ceph.conf"
ceph auth get client.guest 2>/dev/null >"$dir/keyring"
status=0
"$@" || status=$?
exit "$status"
