# SPDX-License-Identifier: GPL-2.0
#
# A table from the lines that dedup-guest.sh prints: what deduplication of volumes in use
# costs, and what it gains. See lib.awk.


# row(words, is, wanted, aa): at least so much is wanted; "": nothing is. aa is the noise.
function row(words, is, wanted, aa,   mark) {
	mark = wanted == "" ? " " : at_least(words, is, wanted, aa, "ratio")
	printf "%-58s %8.3f%s %9s", words, is, mark, wanted == "" ? "-" : ">= " wanted
	if (aa != "")
		printf " %7.3f", aa
	print ""
}

# --- writes to hot spots

# The median over the rounds of the 99th percentile of dev, with that of other as 1.
function p99_ratio(w, dev, other,   r, v, nr) {
	for (r = 0; r < rounds; r++)
		v[++nr] = p99[w, dev, r] / p99[w, other, r]
	return median(v, nr)
}

function differ(ratio) { return max(ratio, 1 / ratio) - 1 }

# The most that the volume differed from itself while nothing went on beside it.
function idle_noise(w,   r, most) {
	for (r = 0; r < rounds; r++)
		most = max(most, differ(time["dedis", w, "idle", r] / time["dedis", w, "again", r]))
	return most
}

function p99_row(w, words,   is, aa, mark) {
	is = p99_ratio(w, "busy", "idle")
	aa = differ(p99_ratio(w, "again", "idle"))
	mark = is <= 1.10 + aa ? " " : \
		missed(sprintf("%s: 99th percentile is %.2f times that of idle, not 1.10",
			       words, is))
	printf "%-58s %8.3f%s %9s %7.3f\n", words ", 99 % latency / idle", is, mark, "<= 1.1", aa
}

function hot_rows(w, words,   aa) {
	if (!(("dedis", w, "idle", 0) in time))
		return
	aa = idle_noise(w)
	row(words ", deduplication beside / idle", speed("dedis", w, "busy", "idle"), 0.97, aa)
	p99_row(w, words)
	row(words ", deduplication beside / dm-thin", speed("dedis", w, "busy", "thin"), 0.95, aa)
	row(words ", idle / dm-thin", speed("dedis", w, "idle", "thin"), "", aa)
	row(words ", idle / dm-linear", speed("dedis", w, "idle"), "", noise("dedis", w))
	if (("dedis", w, "vdo", 0) in time)
		row(words ", dm-vdo / dm-linear", speed("dedis", w, "vdo"), "", noise("dedis", w))
}

# --- eight volumes

# The median over the rounds of volume v's writes, with those when idle as 1.
function eight_ratio(v, how,   r, values, nr) {
	for (r = 0; r < eight_rounds; r++)
		values[++nr] = eight[v, how, r] / eight[v, "idle", r]
	return median(values, nr)
}

function eight_row(   v, worst, aa) {
	if (!eight_rounds)
		return
	worst = 1000
	for (v = 1; v <= 8; v++) {
		worst = min(worst, eight_ratio(v, "busy"))
		aa = max(aa, differ(eight_ratio(v, "again")))
	}
	row("8 volumes at once, deduplication beside / idle, the worst", worst, 0.95, aa)
}

# --- reads and first writes

function read_rows(   i, e) {
	for (i = 1; i <= nr_engines; i++) {
		e = engines[i]
		if (!((e, "randread-4k", "thin", 0) in time))
			continue
		row("random 4 KiB reads, words / dm-linear, " e,
		    speed(e, "randread-4k", "pool-words"), 0.98, noise(e, "randread-4k"))
		row("random 4 KiB reads, words / dm-thin, " e,
		    speed(e, "randread-4k", "pool-words", "thin"), 1.4, noise(e, "randread-4k"))
		row("random 4 KiB reads at home / dm-thin, " e,
		    speed(e, "randread-4k", "home", "thin"), "", noise(e, "randread-4k"))
		row("random 4 KiB writes at home / dm-thin, " e,
		    speed(e, "randwrite-4k", "home", "thin"), "", "")
		if ((e, "randread-4k", "vdo", 0) in time)
			row("random 4 KiB reads, words / dm-vdo, " e,
			    speed(e, "randread-4k", "pool-words", "vdo"), "",
			    noise(e, "randread-4k"))
		row("1 MiB reads, words / dm-linear, " e, speed(e, "read-1m", "pool-words"), 0.95,
		    noise(e, "read-1m"))
	}
}

function first_rows(   i, e) {
	for (i = 1; i <= nr_engines; i++) {
		e = engines[i]
		if ((e, "first-4k", "thin-new", 0) in time)
			row("first write to a chunk given back / dm-thin's, " e,
			    speed(e, "first-4k", "given-back", "thin-new"), 0.9,
			    noise(e, "first-4k"))
	}
}

# --- finding and comparing

# The median over the rounds of two reads side by side / deduplication; without what a run
# takes that finds nothing, if net.
function find_ratio(disks, net,   r, v, nr) {
	for (r = 0; r < find_rounds; r++)
		v[++nr] = find[disks, r, "raw"] / \
			(find[disks, r, "dedup"] - (net ? find[disks, r, "nothing"] : 0))
	return median(v, nr)
}

function find_rows(   i, d, wanted) {
	for (i = 1; i <= nr_disks; i++) {
		d = disk_names[i]
		wanted = d == "at-once" ? "" : 0.8
		row("find and compare / two raw reads side by side, " d, find_ratio(d, 1), wanted)
		row("the same with what a run takes that finds nothing, " d, find_ratio(d, 0), "")
	}
}

# --- counts

# Nothing is wanted of what few writes can tell.
function cold_rows(   i, of) {
	for (i = 1; i <= nr_colds; i++) {
		split(colds[i], of)
		row("copies avoided, " of[1] " versions of " of[2] " writes to hot spots",
		    1 - came_home[colds[i], of[1]] / came_home[colds[i], 0],
		    of[1] * of[2] < 1024 ? "" : 0.8)
		printf "    given back %d of %d MiB with --cold, %d without; " \
			"of these %d and %d blocks came home in %d writes\n",
			given[colds[i], of[1]] / 256, 128, given[colds[i], 0] / 256,
			came_home[colds[i], of[1]], came_home[colds[i], 0], of[1] * of[2]
	}
}

function memory_row(   wanted) {
	if (!memory_segments)
		return
	wanted = 66 * 1024 + memory_segments * 8 / 1024
	printf "%-58s %8d%s %9s\n",
		"memory of a device of " memory_segments / 524288 " TiB, KiB", memory_kib,
		at_most("memory", memory_kib, wanted, "KiB"), "<= " wanted
}

function beside_row(   w) {
	for (w in beside_us)
		printf "deduplication beside '%s' compared %.1f MiB a second (%d MiB), " \
			"and took %.1f %% of a processor\n", w,
			beside_mib[w] / beside_us[w] * 1e6, beside_mib[w],
			100 * beside_cpu[w] / beside_us[w]
}

$1 == "p99" { p99[$2, $3, $4] = $5 }
$1 == "eight" { eight[$2, $3, $4] = $5; eight_rounds = max(eight_rounds, $4 + 1) }
$1 == "beside" { beside_mib[$2] += $4; beside_us[$2] += $5; beside_cpu[$2] += $6 }
$1 == "find" {
	if (!(($2, 0, "raw") in find))
		disk_names[++nr_disks] = $2
	find[$2, $3, $4] = $5
	find_rounds = max(find_rounds, $3 + 1)
}
$1 == "cold" {
	if ($4)
		colds[++nr_colds] = $2 " " $3
	given[$2 " " $3, $4] = $5
	came_home[$2 " " $3, $4] = $6
}
$1 == "memory" { memory_segments = $2; memory_kib = $3 }
$1 != "time" { rounds = max(rounds, 1) }

function print_all() {
	printf "%-58s %8s  %9s %7s\n", "(deduplication beside writers: " rate " a second)", "is",
		"wanted", "A/A"
	find_rows()
	hot_rows("hot", "writes to hot spots")
	hot_rows("nominal", "the same, nominal load")
	eight_row()
	read_rows()
	first_rows()
	cold_rows()
	memory_row()
	beside_row()
}
