# SPDX-License-Identifier: GPL-2.0
#
# A table from the lines of packs-before-guest.sh, whose engines are builds; see lib.awk.

# Speed of the build, with that without packs as 1.
function beside(build, workload, dev,   r, v, nr) {
	for (r = 0; r < rounds; r++)
		v[++nr] = time["without", workload, dev, r] / time[build, workload, dev, r]
	return median(v, nr)
}

# How much the same build differed, at most.
function differs(workload, dev,   r, ratio, most) {
	for (r = 0; r < rounds; r++) {
		ratio = time["with", workload, dev, r] / time["again", workload, dev, r]
		most = max(most, max(ratio, 1 / ratio) - 1)
	}
	return most
}

function row(workload, dev,   is, again, same) {
	is = beside("with", workload, dev)
	again = beside("again", workload, dev)
	same = differs(workload, dev)
	printf "%-13s %-8s %9.4f%s %9.4f %9.4f\n", workload, dev, is,
		at_least(workload " " dev, max(is, again), 1, max(same, 0.005),
			 "speed / without packs"), again, same
}

function print_all(   i, j, n, m, workloads, devices) {
	n = split("randread-4k read-1m randwrite-4k write-1m", workloads)
	m = split("tracked home whole random", devices)
	print "Speed of the module as it is, twice; built without packs it is 1. A/A: the most that"
	print "the two differed in a round. Counted instructions"
	printf "%-13s %-8s %9s  %9s %9s\n", "workload", "device", "is", "again", "A/A"
	for (i = 1; i <= n; i++)
		for (j = 1; j <= m; j++)
			row(workloads[i], devices[j])
}
