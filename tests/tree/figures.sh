#!/bin/sh
# SPDX-License-Identifier: MIT
#
# figures.sh - the figures can be read: no two bars of one stand on one spot, no two names of bars are on top of each other
#
# That is for the published ones, doc/performance/*.svg, and, where gnuplot is installed, for what perf/plot draws from a
# few invented results.  Looks at the shapes in the SVG files in the form in which gnuplot writes them:
#
#   1. boxes do not overlap, are inside the frame, and are at least 2 px wide and high
#   2. vertical strokes, from the smallest to the largest round, are at least 1 px apart
#   3. names below bars are at least 10 px apart
set -u

srcdir=${srcdir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0
figures=0

# shapes FILE: "frame LEFT RIGHT", "box LEFT RIGHT HEIGHT", "stroke X X", "name X X"; frame first
shapes()
{
	awk -v RS='<' -v q="'" '
		function points(text,    n, i) {
			n = split(text, point, /[ \t\n]+/)
			for (i = count = 0; i <= n; i++)
				if (split(point[i], xy, ",") == 2) { x[++count] = xy[1] + 0; y[count] = xy[2] + 0 }
		}
		# What stands between quotation marks behind the word.
		function attribute(word,    at, text) {
			at = match($0, word " ?= ?" q)
			if (!at) return ""
			text = substr($0, at + RLENGTH)
			return substr(text, 1, index(text, q) - 1)
		}
		/^g[ >]/ { depth++; if (/id="gnuplot_plot_/) inside = depth }
		/^\/g>/ { if (depth == inside) inside = 0; depth-- }
		/^g transform="translate\([^"]*rotate\(/ {
			text = $0; sub(/.*translate\(/, "", text)
			# The other rotated text is that of the y axis.
			if (text + 0 > left) print "name", text + 0, text + 0
		}
		/class="gridline"/ {
			text = attribute("d"); gsub(/[ML]/, " ", text); points(text)
			left = x[1]; if (x[count] > right) right = x[count]
			print "frame", left, right
		}
		inside && /^polygon / {
			points(attribute("points"))
			low = high = x[1]; top = foot = y[1]
			for (i = 2; i <= count; i++) {
				if (x[i] < low) low = x[i]; if (x[i] > high) high = x[i]
				if (y[i] < top) top = y[i]; if (y[i] > foot) foot = y[i]
			}
			print "box", low, high, foot - top
		}
		inside && /^path / {
			n = split(attribute("d"), part, "M")
			for (p = 2; p <= n; p++) {
				gsub(/L/, " ", part[p]); points(part[p])
				# The samples of the key are outside the frame.
				if (count == 2 && x[1] - x[2] < 0.02 && x[2] - x[1] < 0.02 && y[1] != y[2] && x[1] < right + 1)
					print "stroke", x[1], x[2]
			}
		}' "$1"
}

# readable FILE: what is wrong with it
readable()
{
	shapes "$1" >"$work/shapes"
	# From left to right, so that only neighbours can meet.
	{ grep '^frame' "$work/shapes"; grep -v '^frame' "$work/shapes" | sort -k 1,1 -k 2,2g; } | awk '
		$1 == "frame" { if (!frames++ || $2 < left) left = $2; if ($3 > right) right = $3; next }
		{ seen[$1]++ }
		$1 != kind { kind = $1; last = -1000 }
		$1 == "box" && $2 < last - 0.02 { overlaps++ }
		$1 == "box" && ($2 < left || $3 > right) { outside++ }
		$1 == "box" && ($3 - $2 < 2 || $4 < 2) { thin++ }
		$1 == "stroke" && $2 - last < 1 { strokes++ }
		$1 == "name" && $2 - last < 10 { names++ }
		{ last = $3 > last ? $3 : last }
		END {
			if (overlaps) print overlaps " of " seen["box"] " boxes overlap another"
			if (outside) print outside " of " seen["box"] " boxes are not inside the frame"
			if (thin) print thin " of " seen["box"] " boxes cannot be seen"
			if (strokes) print strokes " of " seen["stroke"] " vertical strokes are on another"
			if (names) print names " of " seen["name"] " names are on another"
			if (!frames || seen["box"] + seen["stroke"] < 2) print "no bars found; is it by gnuplot?"
			if (seen["box"] > seen["name"]) print seen["box"] " boxes, " seen["name"] + 0 " names"
		}'
}

# look FILE
look()
{
	figures=$((figures + 1))
	readable "$1" >"$work/found"
	[ ! -s "$work/found" ] || { problems=$((problems + 1)); sed "s|^|$2: |" "$work/found"; }
}

for file in "$srcdir"/doc/performance/*.svg; do
	look "$file" "${file#"$srcdir"/}"
done

# Values of all sizes, also two that are equal, one just above a power of ten, and rounds that do not differ.
invented()
{
	awk 'BEGIN {
		n = split("lockshm lockshm-object lockshm-barging pthread-robust sysv-sem fcntl bdb redis cas fifo-park", lock, " ")
		for (i = 1; i <= n; i++) {
			print "solo", lock[i], 1, "ns", i % 4 ? 10 ^ (i % 6) : 10, i % 3
			print "handoff", lock[i], 2, "us_p50", i == 1 ? 1.002 : i * 3, 0
			print "handoff", lock[i], 2, "us_p99", i * 7, 1
			print "recovery", lock[i], 2, "us_p50", 10 ^ (i % 7) / 3, 0.1
			for (procs = 2; procs <= 64; procs *= procs == 4 || procs == 16 ? 4 : 2) {
				print "contended", lock[i], procs, "ops_per_s", 10000 * (1 + i % 3), 100
				print "contended", lock[i], procs, "us_max", 100 * procs, 50
			}
			for (others = 1; others <= 1000; others *= 10) print "spread-newest", lock[i], others, "ns", 10 + others * i, 20
		}
	}' | awk '{
		printf "{\"scenario\":\"%s\",\"lock\":\"%s\",\"mode\":\"exclusive\",\"procs\":%s,\"metric\":\"%s\",\"unit\":\"-\",", $1, $2, $3, $4
		printf "\"min\":%g,\"median\":%g,\"max\":%g}\n", $5 - $6 / 4, $5, $5 + $6
	}'
}
if command -v gnuplot >/dev/null; then
	invented >"$work/invented.json"
	if sh "$srcdir/perf/plot" "$work/invented.json" "$work/drawn" >"$work/log" 2>&1 && [ ! -s "$work/log" ]; then
		for name in contended handoff readers recovery solo waits; do
			look "$work/drawn/$name.svg" "$name.svg by perf/plot"
		done
	else
		problems=$((problems + 1))
		echo "perf/plot:"
		cat "$work/log"
	fi
else
	echo "perf/plot is not run: gnuplot is not installed (package gnuplot-nox)"
fi

[ $problems = 0 ] || exit 1
echo "$figures figures can be read"
