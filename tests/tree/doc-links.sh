#!/bin/sh
# SPDX-License-Identifier: MIT
#
# doc-links.sh - what the documentation points at is there
#
#   1. every relative link in a *.md file leads to an existing file, and its #anchor to a heading there
#   2. every path in backquotes that looks like a file of this tree (bindings/..., doc/..., src/..., tests/...,
#      perf/..., examples/..., include/..., model/...) exists
#   3. every test case that tests/*/traceability.md names as evidence is in the test file it names
#   4. the program in README.md is examples/minimal.c; it and the uses in examples/uses.c have at most six statements each;
#      the lines of those in Lua, Python and PHP are, in this order, in bindings/*/README.md, whose tests run them; at
#      most 90 lines
#   5. every function that doc/ names as `name()` exists
#   6. offsets and sizes in doc/internals/shm-format.md are those of src/segment/layout.h; so are the number of the format,
#      there and in CHANGELOG, and the bytes of a lock, there and in the header
#
# Usage: doc-links.sh [source directory]
set -u
LC_ALL=C
export LC_ALL

top=${1:-${srcdir:-.}}
[ -f "$top/include/lockshm.h" ] || top=$(dirname "$0")/../..
cd "$top" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	echo "doc-links: $*" >&2
	problems=$((problems + 1))
}

# Lines of a markdown file outside code blocks.
prose()
{
	awk '/^```/ { code = !code; next } !code' "$1"
}

# A heading as its anchor: lower case, no punctuation, hyphens for spaces.
anchors()
{
	prose "$1" | sed -n 's/^#\{1,6\} *//p' | tr '[:upper:]' '[:lower:]' | sed -e 's/[^a-z0-9 _-]//g' -e 's/ /-/g'
}

check_link()
{
	file=$1
	link=$2
	case $link in
	http:* | https:* | mailto:*) return ;;
	'#'*) target=$file ;;
	*) target=$(dirname "$file")/${link%%#*} ;;
	esac
	if [ ! -e "$target" ]; then
		problem "$file: no $link"
		return
	fi
	case $link in
	*'#'*) anchors "$target" | grep -qx -- "${link#*#}" || problem "$file: no heading for $link" ;;
	esac
}

find . -name '*.md' -not -path './.git/*' -not -path '*/build*/*' -not -path './lockshm-*' | sort >"$work/files"
[ "$(wc -l <"$work/files")" -ge 5 ] || problem "found only $(wc -l <"$work/files") *.md files"

links=0
while read -r file; do
	prose "$file" | grep -o '\[[^]]*\]([^) ]*)' | sed 's/.*](\(.*\))/\1/' | sort -u >"$work/links"
	while read -r link; do
		links=$((links + 1))
		check_link "$file" "$link"
	done <"$work/links"
	# shellcheck disable=SC2016
	prose "$file" | grep -oE '`(bindings|doc|src|tests|perf|examples|include|model)/[A-Za-z0-9_./-]+`' | tr -d '`' | sort -u >"$work/paths"
	while read -r path; do
		links=$((links + 1))
		# Programs are named without their suffix; logs are made by the tests.
		[ -e "$path" ] || [ -e "$path.c" ] || [ -e "${path%.log}.c" ] || problem "$file: no $path"
	done <"$work/paths"
done <"$work/files"

# file:case pairs, as in tests/lock/test-other-locks.c:trap_s1_t1
cases=0
grep -ohE 'tests/[a-z-]+/[a-z0-9-]+\.c:[a-z0-9_]+' tests/*/traceability.md | sort -u >"$work/cases"
while IFS=: read -r file case; do
	cases=$((cases + 1))
	grep -qw -- "$case" "$file" 2>/dev/null || problem "traceability.md: no case $case in $file"
done <"$work/cases"
[ $cases -ge 100 ] || problem "tests/*/traceability.md name only $cases test cases"

awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md >"$work/readme.c"
sed '/^\/\* SPDX/d' examples/minimal.c >"$work/minimal.c"
diff -u "$work/minimal.c" "$work/readme.c" >"$work/diff" ||
	{ cat "$work/diff" >&2; problem "the program in README.md (+) is not examples/minimal.c (-)"; }

sed '1,/BEGIN/d; /^\/\* END/,$d' examples/uses.c >"$work/uses.c"
[ -s "$work/uses.c" ] || problem "examples/uses.c shows nothing"
# block LANGUAGE FILE: the first example there
block()
{
	awk -v begin="\`\`\`$1" '$0 == begin { on = 1; next } /^```/ { if (on) exit } on' "$2"
}
for example in lua:lua python:python php:php; do
	block "${example#*:}" README.md >"$work/here"
	block "${example#*:}" "bindings/${example%:*}/README.md" >"$work/there"
	awk 'NR == FNR { wanted[++n] = $0; next } i < n && $0 == wanted[i + 1] { i++ } END { exit !n || i < n }' \
		"$work/here" "$work/there" ||
		problem "the example in ${example#*:} of README.md is not from the first in bindings/${example%:*}/README.md"
done
[ "$(wc -l <README.md)" -le 90 ] || problem "README.md has more than 90 lines"
# Statements: lines that end with a semicolon after the declarations, which an empty line ends.
for shown in "$work/uses.c" "$work/minimal.c"; do
	awk '/^{/ { n = 0; body = 0 } /^$/ { body = 1 } body && /;$/ { n++ } /^}/ && n > 6 { print "more than six statements: " n; bad = 1 } END { exit bad }' \
		"$shown" >&2 || problem "$shown has a function of more than six statements"
done

# shellcheck disable=SC2016
cat doc/internals/local-locks.md doc/internals/shm-format.md doc/decisions/*.md README.md | grep -oE '`[a-z_0-9]+\(\)`' | tr -d '`()' | sort -u >"$work/called"
while read -r name; do
	# Calls of the system that the pages mention.
	case $name in
	fork) continue ;;
	esac
	grep -qE -- "(^|[^a-z0-9_])$name\(" src/*/*.[ch] include/lockshm.h || problem "doc: no function $name()"
done <"$work/called"

# "### struct x (N bytes)" and the rows below it "| offset | bytes | field |" become assertions.
{
	echo '#include "segment/layout.h"'
	echo '#define BYTES(type, field) sizeof(((type *)0)->field)'
	awk '
		/^### struct / { type = $2 " " $3; gsub(/[(]/, "", $4); print "ASSERT_SIZE(" type ", " $4 ");"; next }
		/^##/ { type = "" }
		type && /^\| [0-9]+ \| [0-9]+ \| [a-z_0-9]+ \|/ {
			print "ASSERT_OFFSET(" type ", " $6 ", " $2 ");"
			print "_Static_assert(BYTES(" type ", " $6 ") == " $4 ", \"" type "." $6 " has not " $4 " bytes\");"
		}' doc/internals/shm-format.md
	# number FILE EXPRESSION VALUE: what FILE gives by "..\(NUMBER\).." at its only such place is VALUE.
	number()
	{
		echo "_Static_assert($(sed -n "s/.*$2.*/\\1/p" "$1" | head -2 | tr '\n' ' ') == $3, \"$1: $2\");"
	}
	number doc/internals/shm-format.md 'Format \([0-9]*\)\. The source' SHM_FORMAT
	number doc/internals/shm-format.md 'format | create | \([0-9]*\); another number' SHM_FORMAT
	number CHANGELOG 'segment format \([0-9]*\)\.' SHM_FORMAT
	echo '#define LOCK (sizeof(struct shm_entry) + sizeof(struct shm_detail) + 2 + sizeof(struct shm_bucket) / 8 + \
		sizeof(struct shm_damage) / 32)'
	number doc/internals/shm-format.md 'An entry costs \([0-9]*\) bytes' LOCK
	number include/lockshm.h '1\.\.11184810, \([0-9]*\) bytes each' 'LOCK * 3 / 2'
} >"$work/format.c"
facts=$(grep -c '^ASSERT_OFFSET' "$work/format.c")
[ "$facts" -ge 60 ] || problem "doc/internals/shm-format.md: only $facts fields found"
${CC:-cc} -std=gnu11 -Isrc -fsyntax-only "$work/format.c" 2>"$work/cc" ||
	{ grep error "$work/cc" >&2; problem "doc/internals/shm-format.md differs from src/segment/layout.h"; }

[ $problems -eq 0 ] || { echo "doc-links: $problems problems" >&2; exit 1; }
echo "doc-links: $links links and paths, $cases test cases, $facts fields of the format"
