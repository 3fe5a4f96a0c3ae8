# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # what others here set
# What many pieces and inline deduplication add to the cost of commands on a large volume. It
# has a block in each segment (--sparse), as only the catalog and the fingerprints matter.

rule_limit=1.2
# What differs by less is lost in what any command takes.
rule_least=0.15

# Seconds, the processor's and all, and MiB, by rule and command.
declare -A rule_seconds rule_cpu rule_mib
rule_commands=()

# rule_cost WHAT ARGUMENT...: of revdedupctl, from cold caches.
rule_cost() {
	local what=$1 user system kib
	shift
	cold
	/usr/bin/time -q -o "$dir/peak" -f "%e %U %S %M" revdedupctl -q "$@" >/dev/null ||
		note "$what: exit status $?"
	read -r "rule_seconds[$rule,$what]" user system kib < <(tail -n 1 "$dir/peak")
	rule_cpu[$rule,$what]=$(calc "$user + $system" %.2f)
	rule_mib[$rule,$what]=$((kib / 1024))
	[ "$rule" = many ] || rule_commands+=("$what")
}

catalog_mib() { echo $(($(bytes_of "$REVDEDUP_POOL"/catalog.db*) / mib)); }

# rule_run OPTION...: with $rule. Sets catalog.
rule_run() {
	local image=$dir/rules.img
	new_pool --size 4T "$@"
	image sparse "$image" $((sparse_gib * gib)) 1
	rule_cost "first snapshot" snapshot v --from "$image"
	printf 'version 1\n' >"$dir/changed"
	rule_cost "snapshot, no changes" snapshot v --from "$image" --changed "$dir/changed"
	printf 'version 2\n' >"$dir/changed"
	image every "$image" $((sparse_gib * gib / 4096 / 64)) 2 >>"$dir/changed"
	rule_cost "snapshot, 64 segments" snapshot v --from "$image" --changed "$dir/changed"
	rule_cost "delete, 64 segments" delete v@2
	image sparse "$image" $((sparse_gib * gib)) 3
	rule_cost "snapshot, all segments" snapshot v --from "$image"
	catalog[$rule]=$(catalog_mib)
	rule_cost list list v
	rule_cost check check
	rule_cost "delete, all segments" delete v@1
	rule_cost prune prune v --keep-last 1
	rm "$image"
}

# is_worse ONE MANY LEAST: is that more than a fifth more, and more than so much more?
is_worse() {
	[ "$(calc "$2 > $rule_limit * $1 && $2 - $1 > $3 ? 1 : 0" %d)" = 1 ]
}

# rule_row WHAT
rule_row() {
	local one=one,$1 many=many,$1 verdict=ok
	if is_worse "${rule_seconds[$one]}" "${rule_seconds[$many]}" "$rule_least" ||
		is_worse "${rule_cpu[$one]}" "${rule_cpu[$many]}" "$rule_least" ||
		[ "${rule_mib[$many]}" -gt 128 ]; then
		verdict=short
		short=$((short + 1))
	fi
	printf '%-24s %9s %9s %6s %9s %9s %6s %7d %7d  %s\n' "$1" "${rule_seconds[$one]}" \
		"${rule_seconds[$many]}" \
		"$(calc "${rule_seconds[$many]} / (${rule_seconds[$one]} + 0.001)" %.2f)" \
		"${rule_cpu[$one]}" "${rule_cpu[$many]}" \
		"$(calc "${rule_cpu[$many]} / (${rule_cpu[$one]} + 0.001)" %.2f)" \
		"${rule_mib[$one]}" "${rule_mib[$many]}" "$verdict"
}

part_rules() {
	local rule what
	local -A catalog
	title "rules: $sparse_gib GiB, one piece beside 512 and inline, $compression" \
		"at most $rule_limit of the time and of the processor's, if that is more than $rule_least s; at most 128 MiB"
	rule=one
	rule_run --pieces 1
	rule=many
	rule_run --pieces 512 --dedup inline
	printf '\n%-24s %9s %9s %6s %9s %9s %6s %7s %7s\n' "" "s, one" many ratio "CPU, one" \
		many ratio "MiB" many
	for what in "${rule_commands[@]}"; do
		rule_row "$what"
	done
	header
	row "catalog of two versions, MiB" "${catalog[one]} ${catalog[many]}" \
		"<= $rule_limit" "${catalog[many]} <= $rule_limit * ${catalog[one]} + 1"
}
