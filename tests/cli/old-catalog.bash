# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# For tests of pools that an older program has made.

# old_catalog [POOL]: make the catalog one of the format 5.
old_catalog() {
	local statement
	for statement in "DROP INDEX uses_pieces" \
		"ALTER TABLE uses RENAME COLUMN pieces TO whole" \
		"UPDATE uses SET whole = whole = 1" \
		"CREATE INDEX uses_pieces ON uses(recipe) WHERE latest_refs > 0 AND whole = 0" \
		"DROP TABLE rule" \
		"DROP TABLE fresh" \
		"DROP TABLE pass" \
		"PRAGMA user_version = 5"; do
		"${BASH_SOURCE[0]%/*}/edit-catalog.py" "${1:-pool}/catalog.db" "$statement"
	done
}
