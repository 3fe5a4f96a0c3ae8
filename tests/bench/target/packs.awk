# SPDX-License-Identifier: GPL-2.0
#
# A table from the lines of packs.sh, whose engines are its guests; see lib.awk. There is no
# pair of dm-linear devices here, so nothing is known of the noise, and nothing taken off.

function is_there(guest, workload, dev) { return (guest, workload, dev, 0) in time }

# Speed of dev, with raw as 1; or nothing, where it was not measured.
function beside_raw(guest, workload, dev) {
	if (!is_there(guest, workload, dev))
		return ""
	return sprintf("%.2f", speed(guest, workload, dev, "none"))
}

function row(guest, workload, words, peer, wanted,   is) {
	is = speed(guest, workload, "zstd", peer)
	printf "%-8s %-32s %8.2f%s %9s  %8s %8s %8s %8s\n", guest, words, is,
		at_least(guest " " workload, is, wanted, 0, "speed / that of " peer), ">= " wanted,
		beside_raw(guest, workload, "zstd"), beside_raw(guest, workload, "squash"),
		beside_raw(guest, workload, "vdo"), beside_raw(guest, workload, "nbd")
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

function print_reads(   i) {
	print "Speed; on the right that of packs and its peers, with the same blocks raw as 1"
	printf "%-8s %-32s %9s %9s  %8s %8s %8s %8s\n", "guest", "read, beside", "is", "wanted",
		"packs", "squashfs", "dm-vdo", "NBD"
	for (i = 1; i <= nr_guests; i++) {
		row(guests[i], "sequence", "1 MiB in sequence, squashfs", "squash", 0.9)
		row(guests[i], "random", "4 KiB at random, squashfs", "squash", 1)
		row(guests[i], "hot", "4 KiB, groups in memory, raw", "none", 0.9)
	}
	print "\nWhat the content takes up, its size as 1: " takes
	if (!is_there(guests[1], "sequence", 8))
		return
	print "\nIn packs, after nights in which 2 % were written anywhere; one piece is 1"
	printf "%-8s %-32s %8s %8s %8s\n", "guest", "read, pieces", 8, 64, 512
	for (i = 1; i <= nr_guests; i++) {
		pieces_row(guests[i], "sequence", "1 MiB in sequence")
		pieces_row(guests[i], "random", "4 KiB at random")
		pieces_row(guests[i], "hot", "4 KiB, groups in memory")
	}
}

function print_volumes(   i) {
	print "A volume made of a version in packs, raw is 1"
	printf "%-8s %9s %9s %9s\n", "guest", "hydrated", "cloned", "back"
	for (i = 1; i <= nr_guests; i++)
		volume_row(guests[i])
}

$1 == "time" && !seen[$2]++ { guests[++nr_guests] = $2 }
$1 == "takes" && !seen[$1, $2]++ { takes = takes (takes ? ", " : "") $2 " " $3 + 0 }

function print_all() {
	if (is_there(guests[1], "sequence", "zstd")) {
		print_reads()
		print ""
	}
	if (is_there(guests[1], "clone", "zstd"))
		print_volumes()
}
