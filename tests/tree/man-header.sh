#!/bin/sh
# SPDX-License-Identifier: MIT
#
# man-header.sh - the comments of include/lockshm.h make the manual pages of section 3, and lockshm(7) agrees with it
#
#   1. every function's comment has its slots: "name - summary", each argument, Return, safety, Since
#   2. every function and every type has a page; mandoc has nothing to complain about
#   3. every LOCKSHM_ name in pages exists
#   4. every example compiles on its own, with all warnings as errors, and belongs to a function
#
# Usage: man-header.sh [source directory].  CC chooses the compiler.
set -u
LC_ALL=C
export LC_ALL

top=${1:-${srcdir:-.}}
[ -f "$top/include/lockshm.h" ] || top=$(dirname "$0")/../..
header=$top/include/lockshm.h
man=$top/doc/man
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	echo "man-header: $*" >&2
	problems=$((problems + 1))
}

# ---------------------------------------------------------------- the header

awk '
	function complain(what) { print name ": " what }
	/^\/\*\*/ { text = ""; comment = 1 }
	comment { text = text $0 "\n"; if (/\*\//) comment = 0; next }
	/^(typedef|struct|enum|#)/ { text = "" }
	text != "" && /^[A-Za-z].*lockshm_[a-z_]+\(/ { code = ""; reading = 1 }
	!reading { next }
	{ code = code " " $0 }
	!/[;{]/ { next }
	{
		reading = 0
		match(code, /lockshm_[a-z_]+\(/)
		name = substr(code, RSTART, RLENGTH - 1)
		if (text !~ ("\n \\* " name " - ")) complain("the comment does not begin with its name")
		if (text !~ /\n \* Since: [0-9.]+\n/) complain("no Since")
		if (text !~ /Thread-safe/) complain("no word on threads")
		if (code !~ /^ void / && text !~ /\n \* Return: /) complain("no Return")
		sub(/^[^(]*\(/, "", code)
		sub(/\)[^)]*$/, "", code)
		n = code == "void" ? 0 : split(code, argument, ",")
		for (i = 1; i <= n; i++) {
			sub(/.*[ *]/, "", argument[i])
			if (text !~ ("\n \\* @" argument[i] ":")) complain("no @" argument[i])
		}
		text = ""
	}
' "$header" >"$work/missing"
while read -r line; do
	problem "$line"
done <"$work/missing"

# ---------------------------------------------------------------- the pages

mkdir "$work/man3"
awk -v out="$work/man3" -v examples="$man/examples" -f "$top/doc/header-to-man.awk" "$man/lockshm.7" "$header" ||
	problem "header-to-man.awk fails"
{
	sed -n 's/^\t\(lockshm_[a-z_]*\);/\1/p' "$top/src/liblockshm.sym"
	sed -n 's/^.*static inline .*\(lockshm_[a-z_]*\)(.*/\1/p' "$header"
} >"$work/functions"
[ "$(wc -l <"$work/functions")" -ge 29 ] || problem "found only $(wc -l <"$work/functions") functions"
while read -r name; do
	[ -s "$work/man3/$name.3" ] || problem "$name has no page"
done <"$work/functions"

sed -n -e 's/^\(struct\|enum\) \(lockshm_[a-z_]*\) {.*/\1 \2/p' -e 's/^.*[ *(]\(lockshm_[a-z_]*_fn\)).*/\1/p' \
	-e 's/^.*[} ]\(lockshm_[a-z_]*t\);$/\1/p' "$header" >"$work/types"
[ "$(wc -l <"$work/types")" -ge 20 ] || problem "found only $(wc -l <"$work/types") types"
while read -r type; do
	cat "$work/man3/"*.3 | grep -qE "^\.SS $type\$|^typedef .*\*$type\)" || problem "no page shows $type"
done <"$work/types"

grep -o 'LOCKSHM_[A-Z_]*' "$header" | sort -u >"$work/names"
for page in "$work"/man3/*.3 "$man"/lockshm.7; do
	grep -v '^\.TH ' "$page" | grep -o 'LOCKSHM_[A-Z_]*[A-Z]' | sort -u | grep -vxF -f "$work/names" >"$work/unknown"
	while read -r name; do
		problem "$page: the header has no $name"
	done <"$work/unknown"
	if command -v mandoc >/dev/null 2>&1; then
		mandoc -T lint "$page" >"$work/lint" 2>&1 || { cat "$work/lint" >&2; problem "$page: mandoc complains"; }
	fi
done

# ---------------------------------------------------------------- the examples

compiles()
{
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -I"$top/include" -fsyntax-only "$1" 2>"$work/cc" ||
		{ cat "$work/cc" >&2; problem "$2 does not compile"; }
}

for example in "$man"/examples/*.c; do
	grep -qx "$(basename "$example" .c)" "$work/functions" || problem "$example: no such function"
	compiles "$example" "$example"
done
awk -v base="$work/block." '
	/^\.SH / { on = $0 == ".SH EXAMPLES" }
	on && /^\.EX/ { file = base (++n) ".c"; next }
	/^\.EE/ { file = ""; next }
	file { gsub(/\\-/, "-"); gsub(/\\e/, "\\"); print > file }
' "$man/lockshm.7"
for block in "$work"/block.*.c; do
	compiles "$block" "an example of lockshm.7"
done

[ $problems -eq 0 ] || { echo "man-header: $problems problems" >&2; exit 1; }
echo "man-header: $(wc -l <"$work/functions") functions have their slots and pages"
