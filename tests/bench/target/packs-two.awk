# SPDX-License-Identifier: GPL-2.0
#
# A table from the lines of packs-two-guest.sh, whose engines are numbers of processors; see
# lib.awk. What a second one adds to packs counts beside what it adds to programs that only
# compute: the machine has no more to give.

# How fast two processors are, with one as 1: the median of the rounds.
function gain(workload, dev,   r, v, nr) {
	for (r = 0; r < rounds; r++)
		v[++nr] = time[1, workload, dev, r] / time[2, workload, dev, r]
	return median(v, nr)
}

function spread(workload, dev,   r, is, least, most) {
	for (r = 0; r < rounds; r++) {
		is = time[1, workload, dev, r] / time[2, workload, dev, r]
		least = r ? min(least, is) : is
		most = max(most, is)
	}
	return sprintf("%.2f to %.2f", least, most)
}

function row(workload, words,   is) {
	is = gain(workload, "zstd")
	printf "%-36s %8.2f%s %13s %8.2f %8s %8.2f\n", words, is,
		at_least(words, is / control, 0.85, 0, "gain / that of programs that compute"),
		spread(workload, "zstd"), is / control,
		workload == "ahead" ? "" : sprintf("%.2f", gain(workload, "squash")),
		gain(workload, "none")
}

function print_all() {
	control = gain("control", "sum")
	printf "programs that only compute: %.2f (%s); where that is 2, 1.7 is wanted\n\n", control,
		spread("control", "sum")
	printf "%-36s %9s %13s %8s %8s %8s\n", "1 MiB in sequence", "packs", "rounds",
		"/ that", "squashfs", "raw"
	row("one", "one reader")
	row("ahead", "one reader, four requests at a time")
	row("two", "two readers")
	print "\nTwo readers of all of it, by the kernel's tracing:"
	print "  found a lock taken, in:" (seen["waits"] ? seen["waits"] : " none")
	print "  works that ran:" seen["works"]
}

$1 == "waits" || $1 == "works" { seen[$1] = seen[$1] " " $2 " " $3 }
