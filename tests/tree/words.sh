#!/bin/sh
# SPDX-License-Identifier: MIT
#
# words.sh - one word for one thing: the words of words.txt do not come back
#
# Looks at code, comments, messages, documents and file names.  CHANGELOG is about the past and left out; of a patch
# in tests/mutations the head and the added lines count.
#
# Usage: words.sh [FILE...]
set -u
LC_ALL=C
export LC_ALL

srcdir=$(cd "${srcdir:-.}" && pwd)
list=$srcdir/tests/tree/words.txt
[ -f "$list" ] || { echo "no $list"; exit 99; }
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
cd "$srcdir" || exit 99

files()
{
	find src include tests perf model doc examples bindings -type f \
		\( -name '*.[chl1-8]' -o -name '*.cc' -o -name '*.pml' -o -name '*.lua' -o -name '*.sh' -o -name '*.awk' \
		-o -name '*.py' -o -name '*.pyi' -o -name '*.php' -o -name '*.js' -o -name '*.md' -o -name '*.mk' -o -name '*.txt' -o -name '*.patch' \
		-o -name '*.sym' -o -path perf/plot -o -path perf/tables \) ! -path tests/tree/words.txt | sort
	ls README.md CONTRIBUTING.md quickstart configure.ac Makefile.am completions/* 2>/dev/null
}

[ $# -gt 0 ] || {
	# No name in this tree has a blank.
	# shellcheck disable=SC2046
	set -- $(files)
}

awk -v list="$list" '
	function add(kind, expression, instead) {
		n++
		kinds[n] = kind
		expressions[n] = "^(" expression ")$"
		words[n] = instead
		all[kind] = all[kind] (all[kind] == "" ? "" : "|") expression
	}
	function read_list(line, at, kind) {
		while ((getline line <list) > 0) {
			if (line !~ /^[a-z]+ .* -> /)
				continue
			kind = substr(line, 1, index(line, " ") - 1)
			line = substr(line, length(kind) + 2)
			at = index(line, " -> ")
			if (kind == "except") {
				paths[++exceptions] = "^" substr(line, 1, at - 1)
				excepted[exceptions] = "^(" substr(line, at + 4) ")$"
			} else
				add(kind, substr(line, 1, at - 1), substr(line, at + 4))
		}
		word = "[^a-z0-9-](" all["word"] ")[^a-z0-9-]"
		name = "[^A-Za-z0-9_](" all["name"] ")[^A-Za-z0-9_]"
		file = "[^A-Za-z0-9_-](" all["file"] ")[^A-Za-z0-9_-]"
	}
	function is_excepted(found, i) {
		for (i = 1; i <= exceptions; i++)
			if (FILENAME ~ paths[i] && found ~ excepted[i])
				return 1
		return 0
	}
	function report(where, kind, found, i) {
		if (is_excepted(found))
			return
		for (i = 1; i <= n; i++)
			if (kinds[i] == kind && found ~ expressions[i]) {
				print where ": \"" found "\": " words[i]
				return
			}
	}
	# Everything in @text that fits, but what ends within the first @known characters, which were looked at before.
	function look(where, kind, all, text, known, at, found) {
		at = 0
		while (match(text, all)) {
			found = substr(text, RSTART + 1, RLENGTH - 2)
			if (at + RSTART + RLENGTH - 2 > known)
				report(where, kind, found)
			at += RSTART + RLENGTH - 2
			text = substr(text, RSTART + RLENGTH - 1)
		}
	}
	function plain(text) {
		text = tolower(text)
		gsub(/[_ \t`*]+/, " ", text)
		return text
	}
	BEGIN { read_list() }
	FNR == 1 {
		files++
		tail = " "
		head = 1
		is_patch = FILENAME ~ /\.patch$/
		base = FILENAME
		sub(/.*\//, "", base)
		look(FILENAME ": its name", "file", file, " " base " ", 0)
		gsub(/[-.]/, " ", base)
		look(FILENAME ": its name", "word", word, " " plain(base) " ", 0)
	}
	is_patch && /^--- / { head = 0 }
	is_patch && !head && !/^\+[^+]/ { next }
	{
		line = $0
		sub(/^\+?[ \t]*(\*|#+|--|dnl|\.[A-Z]+|\/\*)?[ \t]+/, "", line)
		spaced = " " line " "
		if (spaced ~ name)
			look(FILENAME ":" FNR, "name", name, spaced, 0)
		if (spaced ~ file)
			look(FILENAME ":" FNR, "file", file, spaced, 0)
		joined = tail plain(line) " "
		if (joined ~ word)
			look(FILENAME ":" FNR, "word", word, joined, length(tail))
		tail = substr(joined, length(joined) > 60 ? length(joined) - 59 : 1)
	}
	END { print n " words, " files " files" }
' "$@" >"$out" || { echo "awk failed"; exit 99; }
cat "$out"
# Looking at fewer than there must be means that this script looks in the wrong place.
[ "$(sed -n 's/ words, [0-9]* files$//p' "$out")" -ge 50 ] || { echo "too few words: what has become of $list?"; exit 99; }
[ "$(wc -l <"$out")" = 1 ]
