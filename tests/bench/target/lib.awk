# SPDX-License-Identifier: GPL-2.0
#
# What the tables share: medians of the lines "time", and the targets that were missed. A
# target counts as missed only by more than the greatest difference of two dm-linear devices
# in any round of the same workload: a better measurement is not to be had.
#
#   awk -v check=0|1 -f lib.awk -f TABLE.awk FILE
#
# With check=1 a missed target makes the exit code 1. print_all() prints a table.

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

# Say which they were; the exit code.
function misses_end(   i) {
	if (nr_missed) {
		print "\nMissed (*):"
		for (i = 1; i <= nr_missed; i++)
			print "  " misses[i]
	}
	return check && nr_missed
}

BEGIN { nr_engines = split("libaio io_uring", engines) }

$1 == "time" { time[$2, $3, $4, $5] = $6; rounds = max(rounds, $5 + 1) }

END {
	if (!rounds) {
		print "no measurements" >"/dev/stderr"
		exit 2
	}
	print_all()
	exit misses_end()
}
