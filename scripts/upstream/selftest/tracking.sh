#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dm-revdedup: which segments become dirty, messages, outages of the metadata device, sizes.
cd "${0%/*}" || exit 1
# shellcheck source=scripts/upstream/selftest/runner.sh
. ./runner.sh
run target.bats outage.bats resize.bats
