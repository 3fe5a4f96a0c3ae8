# SPDX-License-Identifier: GPL-2.0
#
# A table from the lines that mapped-guest.sh prints: the cost of the target where blocks
# lie in a pool, and the cost of copying them home. See lib.awk. With timed=1 the numbers
# are of a clock, and the targets are lower.

# row(e, w, dev, wanted, peer, words): wanted is 0 where nothing is, "peer" where it
# is to be as fast as its peer.
function row(e, w, dev, wanted, peer, words,   is, theirs, mark) {
	if (!((e, w, dev, 0) in time))
		return
	is = speed(e, w, dev)
	theirs = peer ? speed(e, w, peer) : 0
	mark = " "
	if (wanted == "peer")
		mark = at_least(e " " w, is / theirs, 1, 2 * noise(e, w),
				"speed / that of " peer)
	else if (wanted)
		mark = at_least(e " " w, is, wanted, noise(e, w), "speed / dm-linear's")
	printf "%-9s %-42s %8.3f%s %9s", e, words, is, mark,
		wanted == "peer" ? ">= peer" : wanted ? ">= " wanted : "-"
	if (peer)
		printf "  %6.3f %-12s", theirs, names[peer]
	else
		printf "  %6s %-12s", "", ""
	printf " %7.3f\n", noise(e, w)
}

function read_rows(e) {
	row(e, "read-1m", "whole", 0.99, "", "1 MiB reads, segments mapped whole")
	row(e, "randread-4k", "random", timed ? 0.85 : 0.95, "thin",
	    "4 KiB random reads, no two blocks in a row")
	if (timed)
		row(e, "randread-x2", "random", 0.85, "thin", "the same, two readers")
	row(e, "randread-large", "large", 0, "", "the same, table 4 times the cache")
}

function write_rows(e) {
	row(e, "overwrite-4k", "home", 0.8, "origin",
	    "first 4 KiB write to each block, one fsync")
	row(e, "later-4k", "home", 0.98, "", "later 4 KiB writes")
	row(e, "fsync-16", "home", "peer", "thin-new",
	    "first 4 KiB writes, fsync after 16")
}

# Of all rounds of engine e.
function hit_rate(e,   r, ios, pages) {
	for (r = 0; r < rounds; r++) {
		ios += io_count[e, r]
		pages += page_reads[e, r]
	}
	return 1 - pages / ios
}

BEGIN {
	# Half as many as the cache has pages, which is 64 MiB where nobody says more.
	limit = 64 * 256 / 2
	names["thin"] = "dm-thin"
	names["thin-new"] = "dm-thin, new"
	names["origin"] = "dm-snapshot"
}

$1 == "reads" { io_count[$2, $5] = $6; page_reads[$2, $5] = $7 }
$1 == "waiting" { most[$3] = max(most[$3], $6); most_of_all = max(most_of_all, $6) }

function print_all(   i) {
	print "dm-linear = 1; A/A: the most that two dm-linears differed in a round"
	printf "%-9s %-42s %8s  %9s  %-19s %7s\n", "engine", "workload", "revdedup",
		"wanted", "its peer", "A/A"
	for (i = 1; i <= nr_engines; i++)
		read_rows(engines[i])
	for (i = 1; i <= nr_engines; i++)
		write_rows(engines[i])
	print ""
	for (i = 1; i <= nr_engines; i++)
		if ((engines[i], 0) in io_count)
			printf "%s: with a table four times the cache %.1f %% of the reads found their page there\n",
				engines[i], 100 * hit_rate(engines[i])
	if (most_of_all)
		printf "segments with changes that waited for a commit, at most: %d%s(in first writes %d, with fsyncs %d; the limit is %d)\n",
		most_of_all, at_most("waiting", most_of_all, limit, "segments"),
		most["overwrite-4k"], most["fsync-16"], limit
}
