#!/bin/sh
# SPDX-License-Identifier: MIT
#
# layout.sh - the compiler checks the place of every shared byte
#
#   1. every struct in src/segment/layout.h has an ASSERT_SIZE, every field of it an ASSERT_OFFSET
#   2. every field is a row of the struct's table in doc/internals/shm-format.md; doc-links.sh compares the numbers
#   3. structs and fields only: packing and unpacking of words is in src/segment/words.h
set -u
LC_ALL=C
export LC_ALL

top=${1:-${srcdir:-.}}
layout=$top/src/segment/layout.h
format=$top/doc/internals/shm-format.md
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	problems=$((problems + 1))
	echo "layout: $*"
}

# "struct" for each struct, "struct field" for each field.
sed 's|/\*.*\*/||' "$layout" | awk '
	/^struct [a-z_]+ \{/ { type = $2; print type; next }
	/^\}/ { type = "" }
	type != "" && /;/ {
		sub(/;.*/, "")
		sub(/\[.*/, "")
		n = split($0, word, /[ \t*]+/)
		print type, word[n]
	}' >"$work/fields"
sed -n 's/^ASSERT_SIZE(struct \([a-z_]*\), .*/\1/p; s/^ASSERT_OFFSET(struct \([a-z_]*\), \([a-z_0-9]*\), .*/\1 \2/p' \
	"$layout" | sort >"$work/asserted"
awk '
	/^### struct / { type = $3; print type; next }
	/^##/ { type = "" }
	type && /^\| [0-9]+ \| [0-9]+ \| [a-z_0-9]+ \|/ { print type, $6 }' "$format" | sort >"$work/documented"

[ "$(wc -l <"$work/fields")" -ge 100 ] || problem "found only $(wc -l <"$work/fields") structs and fields"
sort "$work/fields" | comm -23 - "$work/asserted" >"$work/bare"
while read -r type field; do
	problem "struct $type${field:+.$field} has no assertion"
done <"$work/bare"
sort "$work/fields" | comm -23 - "$work/documented" >"$work/unknown"
while read -r type field; do
	problem "struct $type${field:+.$field} is not in doc/internals/shm-format.md"
done <"$work/unknown"
grep -n 'static inline' "$layout" >"$work/inlines" && problem "functions: $(cat "$work/inlines")"

[ $problems = 0 ] || exit 1
echo "layout: $(wc -l <"$work/fields") structs and fields"
