# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# The size of the series in the pool, against what the rule of reverse deduplication leaves
# and against each distinct block once. The reserve is left out: it is a constant.

part_storage() {
	local data all rule distinct
	take_for_rule
	rule=$(sed -n 's/^rule //p' "$dir/rules")
	distinct=$(sed -n 's/^distinct //p' "$dir/rules")
	data=$(revdedupctl stats --json | field bytes_data)
	all=$(bytes_of "$REVDEDUP_POOL/data" "$REVDEDUP_POOL"/catalog.db*)
	title "storage: $(wc -l <"$series/order") versions of three VMs"
	header
	row "allocated in the images, MiB" "$(($(bytes_of "$series"/*.img) / mib))"
	row "data in the pool, MiB" "$((data / mib))"
	row "data / what the rule leaves" "$(calc "$data / $rule" %.5f)" "1 to 1.005" \
		"$data >= $rule && $data / $rule <= 1.005"
	row "all else (fingerprints, catalog, its copy) / data" \
		"$(calc "100 * ($all - $data) / $data" "%.2f %%")" "<= 1.5 %" \
		"($all - $data) / $data <= 0.015"
	row "  of this the catalog" \
		"$(calc "100 * $(bytes_of "$REVDEDUP_POOL"/catalog.db*) / $data" "%.2f %%")"
	row "data / each distinct block of 4 KiB once" "$(calc "$data / $distinct")"
}
