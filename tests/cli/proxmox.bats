#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The plugin for Proxmox VE, with a stand-in for what it is a part of.

# shellcheck disable=SC2154 # by lib.bash
load pool

@test "proxmox: what the plugin makes of a guest's disks and their snapshots" {
	tree=$(realpath "$BATS_TEST_DIRNAME/../..")
	perl -T -I "$tree/tests/proxmox/stand-in" -I "$tree/tools/proxmox" -I "$tree/tests/proxmox" \
		"$tree/tests/proxmox/plugin.t" "$(realpath "$build/bin/revdedupctl")"
}
