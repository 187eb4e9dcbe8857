#!/bin/sh
# SPDX-License-Identifier: MIT
#
# fences.sh - no fence without its sentence
#
# Every fence in src/ has a comment on its own line or on the lines right above it, and that comment names the fence's
# partner ("Pairs with ...").  src/sys/atomic.h, where the fences are made, only needs the comment.
#
# Usage: fences.sh [FILE...]
set -u

srcdir=${srcdir:-.}
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
[ $# -gt 0 ] || set -- "$srcdir"/src/*/*.[ch]

awk '
	# Splits a line into what is code and what is comment.
	function split_line(line,    at) {
		code = note = ""
		if (inside)
			sub(/^[ \t]*\*([ \t]|$)/, "", line)
		while (line != "") {
			at = index(line, inside ? "*/" : "/*")
			if (inside)
				note = note (at ? substr(line, 1, at - 1) : line) " "
			else
				code = code (at ? substr(line, 1, at - 1) : line)
			if (!at)
				return
			inside = !inside
			line = substr(line, at + 2)
		}
	}
	FNR == 1 { above = ""; inside = 0 }
	{ split_line($0) }
	code ~ /fence_[a-z_]+\(\)|__atomic_thread_fence\(|__sync_synchronize\(|cmm_smp_[a-z_]+\(\)/ {
		fences++
		said = above note
		if (said !~ /[a-z]/)
			print FILENAME ":" FNR ": a fence without a comment"
		else if (FILENAME !~ /atomic\.h$/ && said !~ /[Pp]airs +with/)
			print FILENAME ":" FNR ": the comment does not say what the fence pairs with"
		sub(/.*[Pp]airs +with/, "", said)
		while (match(said, /[a-z][a-z_0-9]+\(\)/)) {
			print "partner " substr(said, RSTART, RLENGTH - 2) " " FILENAME ":" FNR
			said = substr(said, RSTART + RLENGTH)
		}
	}
	{ above = code ~ /^[ \t]*$/ ? above note : "" }
	END { print fences + 0 " fences" }
' "$@" >"$out"

# A partner that was renamed or removed is no partner.
partners=$(sed -n 's/^partner //p' "$out")
sed -i '/^partner /d' "$out"
echo "$partners" | while read -r name where; do
	grep -qE "^[A-Za-z].*[ *]$name\(" "$srcdir"/src/*/*.[ch] || echo "$where: there is no $name() to pair with"
done >>"$out"
cat "$out"
# Finding fewer than there must be means that this script looks for the wrong names.
[ "$(sed -n 's/ fences$//p' "$out")" -ge 8 ] || { echo "too few: what are they called now?"; exit 99; }
[ "$(wc -l <"$out")" = 1 ]
