#!/bin/sh
# SPDX-License-Identifier: MIT
#
# memory-model.sh - doc/internals/memory-model.md and the fences in src/ say the same
#
#   1. each fence_*() and membarrier call in src/ has its line in the table "Every fence", and each line its call
#   2. a function that a fence's comment names as its partner is in that line's list of partners
#   3. of two fences that both have a line each names the other
#   4. every function the document names is one of src/, every tests/ file is there
#   5. the shapes of tests/memory/shapes.c and the shapes in the document are the same
#   6. no use of a request record begins elsewhere than behind the fence of request_begin_use()
set -u
LC_ALL=C
export LC_ALL

top=${srcdir:-.}
doc=$top/doc/internals/memory-model.md
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	problems=$((problems + 1))
	echo "$*"
}

# names: the words `like_this()` of the text, one per line
names()
{
	# shellcheck disable=SC2016
	grep -o '`[a-z_0-9]*()`' | tr -d '`()' | sort -u
}

# ---------------------------------------------------------------- the source

# "FENCE FUNCTION" for each call, with the comment at it behind a tab.
awk '
	FNR == 1 { name = "?"; inside = 0; note = ""; code = "" }
	{
		line = $0
		code = said = ""
		while (line != "") {
			at = index(line, inside ? "*/" : "/*")
			piece = at ? substr(line, 1, at - 1) : line
			if (inside)
				said = said piece " "
			else
				code = code piece
			if (!at)
				break
			inside = !inside
			line = substr(line, at + 2)
		}
	}
	# A definition starts in the first column; its name is the word before the first bracket.
	code ~ /^[A-Za-z].*\(/ && code !~ /;[ \t]*$/ {
		name = code
		sub(/\(.*/, "", name)
		sub(/.*[ *]/, "", name)
		print name > functions
	}
	FILENAME !~ /atomic\.h$/ && code ~ /fence_[a-z_]+\(\)|SYS_membarrier,/ {
		fence = "membarrier"
		if (match(code, /fence_[a-z_]+/))
			fence = substr(code, RSTART, RLENGTH)
		print fence " " name "\t" note said
	}
	{ note = code ~ /^[ \t]*$/ ? note said : "" }
' functions="$work/functions" "$top"/src/*/*.[ch] >"$work/calls"
sort -u -o "$work/functions" "$work/functions"

# ---------------------------------------------------------------- the document

# "FENCE FUNCTION" for each line of the table, with its partners behind a tab.
# shellcheck disable=SC2016
sed -n '/^## 3\. Every fence/,/^## 4/p' "$doc" |
	sed -n 's/^| `*\([a-z_]*\)\(()\)*`* | `\([a-z_0-9]*\)()`[^|]* | \(.*\) | [^|]* |$/\1 \3	\4/p' >"$work/lines"
[ "$(wc -l <"$work/lines")" -ge 15 ] || { echo "doc/internals/memory-model.md: no table of fences"; exit 99; }

# ---------------------------------------------------------------- 1. the same calls

cut -f 1 "$work/calls" | sort >"$work/in-source"
cut -f 1 "$work/lines" | sort >"$work/in-document"
[ "$(wc -l <"$work/in-source")" -ge 15 ] || { echo "src/: too few fences found; what are they called now?"; exit 99; }
comm -23 "$work/in-source" "$work/in-document" >"$work/missing"
comm -13 "$work/in-source" "$work/in-document" >"$work/stale"
while read -r fence function; do
	problem "$fence in $function(): not in the table of doc/internals/memory-model.md"
done <"$work/missing"
while read -r fence function; do
	problem "doc/internals/memory-model.md: $function() has no such $fence"
done <"$work/stale"

# ---------------------------------------------------------------- 2. partners named at the fence

while IFS='	' read -r call note; do
	echo "$note" | sed -n 's/.*[Pp]airs with//p' | sed 's/\.  .*//' | grep -o '[a-z_]*()' | tr -d '()' | sort -u >"$work/wanted"
	grep "^$call	" "$work/lines" | names >"$work/listed"
	# A comment may name the partner's fence as well; that is no function of its own.
	for partner in $(comm -23 "$work/wanted" "$work/listed" | grep -v '^fence_'); do
		problem "$call: its comment pairs it with $partner(), the document does not"
	done
done <"$work/calls"

# ---------------------------------------------------------------- 3. both ways

while IFS='	' read -r call partners; do
	function=${call#* }
	for partner in $(echo "$partners" | names); do
		grep "^[a-z_]* $partner	" "$work/lines" >"$work/back" || continue
		grep -q "\`$function()\`" "$work/back" ||
			problem "doc/internals/memory-model.md: $function() names $partner(), but not the other way round"
	done
done <"$work/lines"

# ---------------------------------------------------------------- 4. names

# fence_*, load_* and store_* are found as definitions of src/sys/atomic.h.
names <"$doc" | comm -23 - "$work/functions" >"$work/unknown"
while read -r name; do
	problem "doc/internals/memory-model.md: there is no $name()"
done <"$work/unknown"
grep -o '`tests/[a-z.-]*' "$doc" | tr -d '`' | sort -u >"$work/tests"
while read -r name; do
	[ -e "$top/$name" ] || [ -e "$top/$name.c" ] || problem "doc/internals/memory-model.md: there is no $name"
done <"$work/tests"

# ---------------------------------------------------------------- 5. shapes

sed -n 's/^	{ "\([A-Za-z0-9]*\)", ".*/\1/p' "$top/tests/memory/shapes.c" | sort -u >"$work/shapes"
[ "$(wc -l <"$work/shapes")" -ge 20 ] || { echo "tests/memory/shapes.c: too few shapes found"; exit 99; }
while read -r shape; do
	grep -qw "$shape" "$doc" || problem "tests/memory/shapes.c: $shape is not in doc/internals/memory-model.md"
done <"$work/shapes"
grep -ow '[MK][0-9][0-9]*[a-z]\{0,1\}' "$doc" | sort -u | comm -23 - "$work/shapes" >"$work/unknown"
while read -r shape; do
	problem "doc/internals/memory-model.md: tests/memory/shapes.c has no shape $shape"
done <"$work/unknown"

# ---------------------------------------------------------------- 6. records

grep -n 'store_[a-z]*(&r->owner\|store_[a-z]*(&.*requests\[.*->owner' "$top"/src/*/*.[ch] >"$work/owners"
[ -s "$work/owners" ] || { echo "src/: who stores the owner of a request now?"; exit 99; }
while IFS=: read -r file line _; do
	[ "$(basename "$file")" = request.h ] || problem "$file:$line: fills a record without request_begin_use()"
done <"$work/owners"

echo "$(wc -l <"$work/in-source") fences, $(wc -l <"$work/shapes") shapes, $problems problems"
[ $problems = 0 ]
