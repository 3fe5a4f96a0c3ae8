# SPDX-License-Identifier: GPL-2.0
#
# Is stdin what Prometheus reads? Each metric: HELP, TYPE, then all its samples, each
# series once. Prints what is wrong, and fails.

function wrong(what) {
	print "line " NR ": " what ": " $0
	bad = 1
}

function is_name(name) { return name ~ /^[a-zA-Z_:][a-zA-Z0-9_:]*$/ }

/^# HELP / {
	if (!is_name($3) || NF < 4)
		wrong("no name and text")
	if (helped[$3]++)
		wrong("a second HELP")
	next
}

/^# TYPE / {
	if (!helped[$3] || typed[$3]++ || NF != 4)
		wrong("a TYPE without a HELP, or a second one")
	if ($4 != "gauge" && $4 != "counter")
		wrong("no such type")
	if (($4 == "counter") != ($3 ~ /_total$/))
		wrong("only counters are called so, and all are")
	now = $3
	next
}

/^#/ || /^$/ { wrong("neither HELP nor TYPE"); next }

{
	series = $0
	sub(/ [^ ]*$/, "", series)
	name = series
	sub(/\{.*/, "", name)
	if (name != now)
		wrong("not behind its TYPE")
	if (seen[series]++)
		wrong("a series that was there")
	if (series ~ /\{/ && series !~ /\{[a-z_]+="([^"\\]|\\["\\n])*"\}$/)
		wrong("labels")
	if ($NF !~ /^-?[0-9]+(\.[0-9]+)?$/)
		wrong("no number")
	samples++
}

END {
	for (name in helped)
		if (!typed[name]) {
			print "no TYPE: " name
			bad = 1
		}
	exit bad || !samples
}
