# SPDX-License-Identifier: GPL-2.0
#
# A table from the lines of packs.sh, whose engines are its guests; see lib.awk. There is no
# pair of dm-linear devices here, so nothing is known of the noise, and nothing taken off.

function row(guest, workload, words, peer, wanted,   is) {
	is = speed(guest, workload, "zstd", peer)
	printf "%-8s %-32s %8.2f%s %9s  %8.2f %8.2f %8.2f\n", guest, words, is,
		at_least(guest " " workload, is, wanted, 0, "speed / that of " peer), ">= " wanted,
		speed(guest, workload, "zstd", "none"),
		workload == "hot" ? 0 : speed(guest, workload, "squash", "none"),
		speed(guest, workload, "nbd", "none")
}

# That of a version in many pieces, with one piece as 1.
function pieces_row(guest, workload, words) {
	printf "%-8s %-32s %8.2f %8.2f %8.2f\n", guest, words, speed(guest, workload, 8, "zstd"),
		speed(guest, workload, 64, "zstd"), speed(guest, workload, 512, "zstd")
}

function median_of(guest, workload, dev,   r, v, nr) {
	for (r = 0; r < rounds; r++)
		v[++nr] = time[guest, workload, dev, r]
	return median(v, nr)
}

# Speed of hydration; the time until a clone and a roll-back can be used, by the medians.
function volume_row(guest,   is, clone, rollback) {
	is = speed(guest, "hydrate", "zstd", "none")
	clone = median_of(guest, "clone", "zstd") / median_of(guest, "clone", "none")
	rollback = median_of(guest, "rollback", "zstd") / median_of(guest, "rollback", "none")
	printf "%-8s %8.2f%s %8.2f%s %8.2f%s\n", guest, is,
		at_least(guest " hydration", is, 0.8, 0, "speed / that of raw"), clone,
		at_most(guest " clone", clone, 1.2, "time / that of raw"), rollback,
		at_most(guest " roll-back", rollback, 1.2, "time / that of raw")
}

function print_all(   i, n, guests, is) {
	print "Speed; on the right that of packs, squashfs and NBD with the same blocks raw as 1"
	printf "%-8s %-32s %9s %9s  %8s %8s %8s\n", "guest", "read, beside", "is", "wanted",
		"packs", "squashfs", "NBD"
	n = split("counted one two", guests)
	for (i = 1; i <= n; i++) {
		row(guests[i], "sequence", "1 MiB in sequence, squashfs", "squash", 0.9)
		row(guests[i], "random", "4 KiB at random, squashfs", "squash", 1)
		row(guests[i], "hot", "4 KiB, groups in memory, raw", "none", 0.9)
	}
	is = median_of("one", "sequence", "zstd") / median_of("two", "sequence", "zstd")
	printf "two processors / one, 1 MiB in sequence: %.2f%s (wanted >= 1.7)\n", is,
		at_least("two", is, 1.7, 0, "speed / one processor's")
	print "\nA volume made of a version in packs, raw is 1"
	printf "%-8s %9s %9s %9s\n", "guest", "hydrated", "cloned", "back"
	for (i = 1; i <= n; i++)
		volume_row(guests[i])
	print "\nIn packs, after nights in which 2 % were written anywhere; one piece is 1"
	printf "%-8s %-32s %8s %8s %8s\n", "guest", "read, pieces", 8, 64, 512
	for (i = 1; i <= n; i++) {
		pieces_row(guests[i], "sequence", "1 MiB in sequence")
		pieces_row(guests[i], "random", "4 KiB at random")
		pieces_row(guests[i], "hot", "4 KiB, groups in memory")
	}
}
