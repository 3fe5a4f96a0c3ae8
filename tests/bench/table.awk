# SPDX-License-Identifier: GPL-2.0
#
# Tables from the lines that target.sh prints, and the targets that were missed.
#
#   awk -v check=0|1 -f table.awk FILE
#
# With check=1 a missed target makes the exit code 1. A target is missed when it
# is by more than two dm-linear devices differed, in any round of the same
# workload: a better measurement than that we do not have.

function min(a, b) { return a < b ? a : b }
function max(a, b) { return a > b ? a : b }

# The median of nr numbers: v[1], v[2], ...
function median(v, nr,   i, j, t) {
	for (i = 2; i <= nr; i++)
		for (j = i; j > 1 && v[j - 1] > v[j]; j--) {
			t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
		}
	return nr % 2 ? v[(nr + 1) / 2] : (v[nr / 2] + v[nr / 2 + 1]) / 2
}

function linear(e, w, r) {
	return (time[e, w, "linear-a", r] + time[e, w, "linear-b", r]) / 2
}

# How fast dev is, with dm-linear or with other as 1: the median of the rounds.
function speed(e, w, dev, other,   r, v, nr) {
	for (r = 0; r < rounds; r++)
		v[++nr] = (other ? time[e, w, other, r] : linear(e, w, r)) / \
			time[e, w, dev, r]
	return median(v, nr)
}

# The most that the pair of dm-linear devices differed.
function noise(e, w,   r, most, ratio) {
	for (r = 0; r < rounds; r++) {
		ratio = time[e, w, "linear-a", r] / time[e, w, "linear-b", r]
		most = max(most, max(ratio, 1 / ratio) - 1)
	}
	return most
}

# kind is 1 for metadata writes, 2 for flushes: of 8 first writes, the most in
# any round.
function per_8(e, w, dev, kind,   r, most) {
	for (r = 0; r < rounds; r++)
		most = max(most, 8 * count[e, w, dev, r, kind] / count[e, w, dev, r, 0])
	return most
}

function missed(text) {
	misses[++nr_missed] = text
	return "*"
}

function at_least(where, is, wanted, tolerance, what) {
	if (is >= wanted - tolerance)
		return " "
	return missed(sprintf("%s: %s is %.3f, not %.2f (noise %.3f)",
			      where, what, is, wanted, tolerance))
}

function at_most(where, is, wanted, what) {
	if (is <= wanted)
		return " "
	return missed(sprintf("%s: %s is %.2f, not %g", where, what, is, wanted))
}

function steady_table(   i, j, e, w, d, is, mark) {
	print "dm-linear = 1; A/A: the most that two dm-linears differed in a round"
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
	nr_engines = split("libaio io_uring", engines)
	nr_steady = split("randread-4k randwrite-4k read-1m write-1m", steady)
	nr_steady_devs = split("raw era origin origin-snap revdedup", steady_devs)
}

$1 == "time" { time[$2, $3, $4, $5] = $6; rounds = max(rounds, $5 + 1) }
$1 == "count" { for (k = 0; k < 3; k++) count[$2, $3, $4, $5, k] = $(6 + k) }

END {
	if (!rounds) {
		print "no measurements" >"/dev/stderr"
		exit 2
	}
	steady_table()
	first_table()
	if (nr_missed) {
		print "\nMissed (*):"
		for (i = 1; i <= nr_missed; i++)
			print "  " misses[i]
	}
	exit check && nr_missed
}
