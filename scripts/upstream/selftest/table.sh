#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dm-revdedup: the remap table, its messages, copies home, and what damage does.
cd "${0%/*}" || exit 1
# shellcheck source=scripts/upstream/selftest/runner.sh
. ./runner.sh
run io.bats messages.bats hydration.bats errors.bats
