# SPDX-License-Identifier: GPL-2.0
#
# Usage: awk -v name=forward|pieces -f figures.awk FILE
#
# Draw what the benchmark of that name has printed, as SVG: lines in panels side by side.
#
#   forward  how fast each version is read, beside a raw copy, by its number: where reverse
#            deduplication and the conventional one cross
#   pieces   what is written for what has changed, by the number of pieces, both logarithmic

# --- points: x and y are from 0 to 1

# A point of a line of a panel; both are numbered as they come.
function point(panel, line, x, y,   p, l) {
	if (!(panel in panels)) {
		panels[panel] = nr_panels++
		titles[panels[panel]] = panel
	}
	p = panels[panel]
	if (!(line in lines)) {
		lines[line] = nr_lines++
		names[lines[line]] = line
	}
	l = lines[line]
	path[p, l] = path[p, l] sprintf(" %.1f,%.1f", left(p) + x * width, top + (1 - y) * height)
}

function left(p) { return 60 + p * (width + 60) }

# A mark on an axis of a panel.
function mark_x(p, x, text) { marks_x[p, ++nr_x[p]] = x; text_x[p, nr_x[p]] = text }
function mark_y(y, text) { marks_y[++nr_y] = y; text_y[nr_y] = text }

function log2(x) { return log(x) / log(2) }

BEGIN {
	width = 260; height = 200; top = 40
	split("#1b6ca8 #c8553d #588157 #8f5db7 #b08900 #4a4a4a", colours)
	if (name == "forward") {
		for (i = 0; i <= 4; i++)
			mark_y(i / 4, i / 4)
		axes = "read, speed beside a raw copy, by version (the oldest: 1)"
	} else {
		for (i = 0; i <= 8; i += 2)
			mark_y((i + 1) / 9, 2 ^ i)
		axes = "bytes written / bytes changed, by pieces of a segment"
	}
}

# --- what the benchmarks print

name == "forward" && /^=== / {
	panel = /Debian/ ? "a Debian VM" : "0.1 % of the blocks each night"
}
name == "forward" && /^version [0-9]+ of / {
	sub(/:/, "", $4)
	x = ($2 - 1) / ($4 - 1)
	point(panel, "reverse", x, within($(NF - 1) + 0))
	point(panel, "conventional, 128 KiB", x, within($NF))
	mark_x(panels[panel], x, $2)
}
name == "pieces" && NF == 10 && $2 ~ /^[0-9]+$/ && $3 ~ /^(reverse|inline)$/ && $4 > 0 {
	x = log2($2) / 9
	point($3, $1, x, within((log2($4) + 1) / 9))
	if (!(($3, $2) in seen))
		mark_x(panels[$3], x, $2)
	seen[$3, $2]
}

function within(y) { return y < 0 ? 0 : y > 1 ? 1 : y }

# --- SVG

function text(x, y, anchor, words) {
	gsub(/&/, "\\&amp;", words)
	printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words
}

function line(x, y, to_x, to_y, colour) {
	printf "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x, y, to_x, to_y, colour
}

function draw_panel(p,   i, x, y) {
	text(left(p) + width / 2, top - 12, "middle", titles[p])
	for (i = 1; i <= nr_y; i++) {
		y = top + (1 - marks_y[i]) * height
		line(left(p), y, left(p) + width, y, "#ddd")
		text(left(p) - 6, y + 4, "end", text_y[i])
	}
	for (i = 1; i <= nr_x[p]; i++) {
		x = left(p) + marks_x[p, i] * width
		line(x, top + height, x, top + height + 4, "#666")
		text(x, top + height + 18, "middle", text_x[p, i])
	}
	for (i = 0; i < nr_lines; i++)
		if ((p, i) in path)
			printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
				substr(path[p, i], 2), colours[i + 1]
}

END {
	if (!nr_panels)
		exit 1
	all = left(nr_panels) - 40
	print "<!-- SPDX-License-Identifier: GPL-2.0 -->"
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", all,
		top + height + 70
	print "font-family=\"sans-serif\" font-size=\"12\">"
	print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
	for (i = 0; i < nr_panels; i++)
		draw_panel(i)
	text(all / 2, top + height + 40, "middle", axes)
	for (i = 0; i < nr_lines; i++) {
		x = 60 + i * (all - 80) / nr_lines
		line(x, top + height + 56, x + 20, top + height + 56, colours[i + 1])
		text(x + 26, top + height + 60, "start", names[i])
	}
	print "</svg>"
}
