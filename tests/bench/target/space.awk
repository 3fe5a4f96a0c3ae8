# SPDX-License-Identifier: GPL-2.0
#
# Print a table of what space-guest.sh measured, in MiB. Exit with 1 if -v check=1, and a target
# is missed.

$1 == "space" { kib[$2, $3] = $4; kinds[$2] }
$1 == "said" { kind = $2; sub(/^said [^ ]* /, ""); said[kind] = $0 }

function row(text, what,    kind, i) {
	printf "%-42s", text
	for (i = 1; i <= nr; i++)
		if ((order[i], what) in kib)
			printf(" %9.1f", kib[order[i], what] / 1024)
		else
			printf " %9s", "-"
	print ""
}

# All that is in use with us, at that point.
function sum(kind, at,    parts, nr_parts, i, all) {
	nr_parts = split("thin thin-meta data data-meta rest reserve tables", parts, " ")
	for (i = 1; i <= nr_parts; i++)
		all += kib[kind, at "-" parts[i]]
	return all
}

function ratios(text, what, of, of_meta,    i, kind) {
	printf "%-42s", text
	for (i = 1; i <= nr; i++) {
		kind = order[i]
		if ((kind, what "-thin") in kib && (kind, of) in kib)
			printf " %9.2f", sum(kind, what) / (kib[kind, of] + kib[kind, of_meta])
		else
			printf " %9s", "-"
	}
	print ""
}

function block(at, text) {
	row(text ": thin chunks", at "-thin")
	row("  metadata of dm-thin", at "-thin-meta")
	row("  data of the pool", at "-data")
	row("  catalog, journal and index of the pool", at "-rest")
	row("  its reserve, for deleting when it is full", at "-reserve")
	row("  tables of the target", at "-tables")
}

END {
	nr = split("clone install nurand", order, " ")
	printf "\n%-42s %9s %9s %9s\n", "MiB", "clones", "installs", "nurand"
	row("blocks that are not zeros", "content")
	row("  different ones", "once")
	row("dm-thin alone", "alone")
	row("  its metadata", "alone-meta")
	row("dm-thin, snapshots of the image", "lazy")
	row("  its metadata", "lazy-meta")
	block("after", "given to the pool")
	for (i in kinds)
		kib[i, "least-thin"] = kib[i, "once"]
	ratios("all of it / dm-thin alone", "after", "alone", "alone-meta")
	ratios("all of it / snapshots of the image", "after", "lazy", "lazy-meta")
	ratios("each block once / dm-thin alone", "least", "alone", "alone-meta")
	if (("nurand", "twin") in kib) {
		row("as much written again: dm-thin alone", "twin")
		block("written", "with a pool, and no version yet")
		block("again", "a version later")
		ratios("before that version / dm-thin alone", "written", "twin", "twin-meta")
		ratios("after it / dm-thin alone", "again", "twin", "twin-meta")
	}
	for (i = 1; i <= nr; i++)
		if (order[i] in said)
			print order[i] ", without --force: " said[order[i]]
	target["clone"] = 0.35
	target["install"] = 0.55
	target["nurand"] = 1
	for (kind in kinds) {
		ratio = sum(kind, "after") / (kib[kind, "alone"] + kib[kind, "alone-meta"])
		is_missed = (ratio > target[kind])
		missed += is_missed
		printf("target of %s: %.2f, measured: %.3f%s\n", kind, target[kind], ratio,
			is_missed ? "  MISSED" : "")
	}
	exit(check && missed ? 1 : 0)
}
