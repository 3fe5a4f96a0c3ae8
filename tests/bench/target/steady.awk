# SPDX-License-Identifier: GPL-2.0
#
# Tables from the lines that steady-guest.sh prints: the cost of the target where every
# block lies on the base. See lib.awk.

# kind is 1 for metadata writes, 2 for flushes: of 8 first writes, the most in
# any round.
function per_8(e, w, dev, kind,   r, most) {
	for (r = 0; r < rounds; r++)
		most = max(most, 8 * count[e, w, dev, r, kind] / count[e, w, dev, r, 0])
	return most
}

function steady_table(   i, j, e, w, d, is, mark) {
	print "dm-linear = 1; A/A: the most that two dm-linears differed in a round"
	print "all-base: revdedup with a pool, and a table in which all words are BASE"
	printf "%-9s %-13s", "engine", "workload"
	for (j = 1; j <= nr_steady_devs; j++)
		printf " %11s", steady_devs[j]
	printf " %8s\n", "A/A"
	for (i = 1; i <= nr_engines; i++)
		for (j = 1; j <= nr_steady; j++) {
			e = engines[i]; w = steady[j]
			printf "%-9s %-13s", e, w
			for (d = 1; d <= nr_steady_devs; d++) {
				is = speed(e, w, steady_devs[d])
				mark = " "
				if (steady_devs[d] == "revdedup")
					mark = at_least(e " " w, is, 0.99, noise(e, w),
							"speed / dm-linear's")
				printf " %10.3f%s", is, mark
			}
			printf " %7.3f\n", noise(e, w)
		}
}

# metadata: where it is. On a ramdisk nobody counts.
function first_row(e, w, metadata, era, ours,   is, what) {
	printf "%-9s %-14s", e, metadata
	# With slow flushes a dm-linear is no measure.
	if (w == "first-4k")
		printf " %8.3f %8.3f", speed(e, w, era), speed(e, w, ours)
	else
		printf " %8s %8s", "", ""
	what = e " " w " (metadata on " metadata ")"
	is = speed(e, w, ours, era)
	printf " %8.2f%s", is,
		at_least(what, is, 2, 2 * noise(e, "first-4k"), "speed / dm-era's")
	if (era ~ /flush/)
		printf " %8.2f %8.2f %8.2f%s %8.2f%s",
			per_8(e, w, era, 1), per_8(e, w, era, 2), per_8(e, w, ours, 1),
			at_most(what, per_8(e, w, ours, 1), 1,
				"metadata writes for 8 first writes"),
			per_8(e, w, ours, 2),
			at_most(what, per_8(e, w, ours, 2), 1,
				"flushes for 8 first writes")
	print ""
}

function first_table(   i, e) {
	print "\nFirst writes to clean segments, 16 deep; for 8 of them, the most in any round"
	printf "%-24s %17s %9s %18s %18s\n", "", "dm-linear = 1:", "revdedup",
		"era, for 8:", "revdedup, for 8:"
	printf "%-9s %-14s %8s %8s %8s  %8s %8s %8s  %8s\n", "engine", "metadata on",
		"era", "revdedup", "/ era", "writes", "flushes", "writes", "flushes"
	for (i = 1; i <= nr_engines; i++) {
		e = engines[i]
		first_row(e, "first-4k", "ramdisk", "era", "revdedup")
		first_row(e, "first-4k", "judge", "era-flush", "revdedup-flush")
		first_row(e, "first-4k-1ms", "judge, 1 ms", "era-flush", "revdedup-flush")
	}
}

BEGIN {
	nr_steady = split("randread-4k randwrite-4k read-1m write-1m", steady)
	nr_steady_devs = split("raw era origin origin-snap revdedup all-base", steady_devs)
}

$1 == "count" { for (k = 0; k < 3; k++) count[$2, $3, $4, $5, k] = $(6 + k) }

function print_all() {
	steady_table()
	first_table()
}
