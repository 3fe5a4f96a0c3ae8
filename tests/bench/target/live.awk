# SPDX-License-Identifier: GPL-2.0
#
# Tables from the lines that live-guest.sh prints.

function seconds(usec) { return usec / 1000000 }

function median(values, nr,   i, j, tmp) {
	for (i = 2; i <= nr; i++) {
		tmp = values[i]
		for (j = i - 1; j > 0 && values[j] > tmp; j--)
			values[j + 1] = values[j]
		values[j + 1] = tmp
	}
	return nr % 2 ? values[(nr + 1) / 2] : (values[nr / 2] + values[nr / 2 + 1]) / 2
}

function times(words, values, nr,   middle) {
	if (!nr)
		return
	middle = median(values, nr)
	printf "%-36s %3d times: median %7.1f ms, worst %7.1f ms\n", words, nr,
	       middle / 1000, values[nr] / 1000
}

# The same of the command, whose times are taken[command, 1..].
function command_times(command,   i, values) {
	for (i = 1; i <= nr_taken[command]; i++)
		values[i] = taken[command, i]
	times(command, values, nr_taken[command])
}

# The same of groups of so many volumes.
function group_times(volumes,   i, values) {
	for (i = 1; i <= nr_grouped[volumes]; i++)
		values[i] = grouped[volumes, i]
	times(volumes " of four volumes at one moment", values, nr_grouped[volumes])
}

$1 == "snapshot" {
	nr_snapshots++
	what[nr_snapshots] = $2
	segments[nr_snapshots] = $3
	audited[nr_snapshots] = $4
	bytes[nr_snapshots] = $5
	steps[nr_snapshots] = $6 + $7 + $8
	all[nr_snapshots] = $9
}

$1 == "pause" { busy[++nr_busy] = $2 }
$1 == "quiet-pause" { quiet[++nr_quiet] = $2 }

$1 == "group-pause" { grouped[$2, ++nr_grouped[$2]] = $3 }

$1 == "fio" {
	order[++nr_fio] = $2
	ios[$2] = $3
	mean[$2] = $4
	p99[$2] = $5
	worst[$2] = $6
}

$1 == "command" { taken[$2, ++nr_taken[$2]] = $3 }

END {
	print "snapshots of one volume: what was read, and how long copy, reverse deduplication"
	print "and freeing took; the rest is the same for all\n"
	printf "%-10s %9s %9s %12s %9s %9s %9s  %s\n", "changed", "dirty", "audited", "MiB read",
	       "steps", "the rest", "all", "steps / first"
	for (i = 1; i <= nr_snapshots; i++) {
		printf "%-10s %9d %9d %12.1f %7.2f s %7.2f s %7.2f s", what[i],
		       segments[i] - audited[i], audited[i], bytes[i] / 1048576, seconds(steps[i]), seconds(all[i] - steps[i]),
		       seconds(all[i])
		if (i > 1)
			printf "  %.4f%s", steps[i] / steps[1],
			       what[i] == "changed" ? (steps[i] <= 0.03 * steps[1] ? "  <= 0.03" : "  MISSED 0.03") : ""
		print ""
	}
	print "\nfrom suspend to resume"
	times("while a program writes", busy, nr_busy)
	times("while nobody does", quiet, nr_quiet)
	group_times(1)
	group_times(4)
	print "\na program that writes 4 KiB 200 times a second within 64 MiB, beside"
	printf "%-20s %8s %10s %10s %10s\n", "", "writes", "mean ms", "99 % ms", "worst ms"
	for (i = 1; i <= nr_fio; i++) {
		w = order[i]
		printf "%-20s %8d %10.2f %10.2f %10.2f\n", w == "lvm" ? "LVM's own snapshot" : w,
		       ios[w], mean[w] / 1000, p99[w] / 1000, worst[w] / 1000
	}
	print "\nwhole commands, with what a shell takes to start them"
	command_times("map")
	command_times("unmap")
	command_times("mount")
	command_times("umount")
	command_times("rollback")
}
