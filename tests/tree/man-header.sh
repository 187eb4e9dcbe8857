#!/bin/sh
# SPDX-License-Identifier: MIT
#
# man-header.sh - the manual pages agree with include/lockshm.h
#
#   1. every function of the header has a page, or an alias page whose target lists the function under NAME
#   2. SYNOPSIS of each page has exactly the header's prototypes
#   3. every struct and function type shown in a page is the header's, without its comments
#   4. every LOCKSHM_ name in a page exists, and every code the header's comment gives for a function is explained in
#      RETURN VALUE or ERRORS of its page
#   5. every page has the fixed sections in the fixed order
#   6. every block in EXAMPLES compiles on its own, with all warnings as errors
#   7. mandoc (or man) has nothing to complain about, where one of them is installed
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

# One declaration on one line, single spaces, none around punctuation: so that layout does not count.
squeeze()
{
	tr '\n\t' '  ' | sed -e 's/;/;\n/g' | sed -e 's/  */ /g' -e 's/^ //' -e 's/ \([*,();]\)/\1/g' -e 's/\([*(]\) /\1/g'
}

strip_comments()
{
	# Comments may span lines; the header has no strings with comment marks in them.
	tr '\n' '\001' | sed -e 's,/\*\([^*]\|\*\**[^*/]\)*\*\**/,,g' | tr '\001' '\n'
}

# roff of a code block to plain text.
plain()
{
	sed -e 's/\\-/-/g' -e 's/\\e/\\/g' -e 's/\\(dq/"/g' -e 's/\\(aq/'\''/g' -e 's/^\\&//'
}

# ---------------------------------------------------------------- the header

# A page shows a prototype without its attribute, also that of an inline function.
strip_comments <"$header" | sed -e 's/) LOCKSHM_MUST_CHECK;/);/' \
	-e 's/^LOCKSHM_MUST_CHECK static inline //' >"$work/bare"
sed -e '/^#ifdef __cplusplus/,/^#endif/d' -e '/^ *#/d' "$work/bare" >"$work/code"
# Prototypes: declarations at file level that have an open parenthesis and are neither types nor bodies.
awk '
	/^typedef/ { skip = 1 }
	{ line = $0 }
	!skip && depth == 0 && /^[a-z].*lockshm_[a-z_]+\(/ { proto = 1 }
	proto && /^{/ { print ";"; proto = 0 }
	proto { print line }
	{ depth += gsub(/{/, "{", line) - gsub(/}/, "}", line) }
	/;/ { proto = 0; if (depth == 0) skip = 0 }
' "$work/code" | squeeze | grep 'lockshm_' >"$work/prototypes"
sed -e 's/(.*//' -e 's/.*[ *]//' "$work/prototypes" | sort >"$work/functions"
# Codes and every other public name.
grep -o 'LOCKSHM_[A-Z_]*' "$work/bare" | sort -u >"$work/names"
# Structs and function types, one per line.
awk '
	/^(typedef )?(struct|enum) [a-z_]+ {/ { on = 1; text = "" }
	/^typedef (int|void) \(/ { on = 1; text = "" }
	on { text = text " " $0 }
	on && (/^}/ || (/;$/ && text !~ /{/)) { print text; on = 0 }
' "$work/code" | while IFS= read -r line; do
	printf '%s\n' "$line" | squeeze | tr -d '\n'
	echo
done >"$work/types"
# function<TAB>code for each code in the "Return:" part of the comment above a function.
awk '
	/^\/\*\*/ { text = ""; comment = 1 }
	comment { text = text "\n" $0 }
	/\*\// { if (comment) { comment = 0; last = text } }
	!comment && /^[a-z].*lockshm_[a-z_]+\(/ && !/^typedef/ {
		name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
		if (!sub(/.*Return:/, "", last)) last = ""
		while (match(last, /LOCKSHM_[A-Z_]+/)) {
			print name "\t" substr(last, RSTART, RLENGTH)
			last = substr(last, RSTART + RLENGTH)
		}
		last = ""
	}
' "$header" | sort -u >"$work/said"
awk '/^enum lockshm_code {/,/^};/' "$work/code" | grep -o 'LOCKSHM_[A-Z_]*' | sort -u >"$work/codes"

[ "$(wc -l <"$work/functions")" -ge 29 ] || problem "found only $(wc -l <"$work/functions") functions in $header"
[ "$(wc -l <"$work/types")" -ge 10 ] || problem "found only $(wc -l <"$work/types") types in $header"
[ "$(wc -l <"$work/codes")" -ge 20 ] || problem "found only $(wc -l <"$work/codes") codes in $header"

# ---------------------------------------------------------------- the pages

section()
{
	awk -v want="$2" '/^\.SH / { on = ($0 == ".SH " want); next } on' "$1"
}

# The page a name leads to, through its alias.
page_of()
{
	file=$man/$1.3
	[ -f "$file" ] || return 1
	target=$(sed -n 's,^\.so man3/,,p' "$file")
	[ -z "$target" ] || file=$man/$target
	[ -f "$file" ] && echo "$file"
}

while read -r name; do
	page=$(page_of "$name")
	if [ -z "$page" ]; then
		problem "$name has no page"
		continue
	fi
	section "$page" NAME | tr -s ' ,' '\n' | grep -qx "$name" || problem "$page does not list $name under NAME"
	awk -F '\t' -v f="$name" '$1 == f { print $2 }' "$work/said" | grep -xF -f "$work/codes" |
		while read -r code; do
			{ section "$page" "RETURN VALUE"; section "$page" ERRORS; } | grep -qw "$code" ||
				echo "$page: $name may return $code, which is not explained"
		done >"$work/unexplained"
	while read -r line; do
		problem "$line"
	done <"$work/unexplained"
done <"$work/functions"

# The prototypes in a SYNOPSIS: .BI joins its arguments without spaces, quotes group; .B keeps its line.
synopsis()
{
	section "$1" SYNOPSIS | awk '
		/^\.B #include/ { next }
		/^\.B / { sub(/^\.B /, ""); print }
		/^\.BI / {
			sub(/^\.BI /, ""); text = ""; quoted = 0; n = length($0)
			for (i = 1; i <= n; i++) {
				c = substr($0, i, 1)
				if (c == "\"") quoted = !quoted
				else if (c != " " || quoted) text = text c
			}
			print text
		}'
}

for page in "$man"/lockshm*.3; do
	grep -q '^\.so ' "$page" || synopsis "$page" | squeeze
done >"$work/shown"
grep 'lockshm_' "$work/shown" | sort >"$work/shown.sorted"
sort "$work/prototypes" >"$work/prototypes.sorted"
diff -u "$work/prototypes.sorted" "$work/shown.sorted" >"$work/diff" ||
	{ sed -n '3,$p' "$work/diff" >&2; problem "prototypes of the header (-) and of the pages (+) differ"; }

for page in "$man"/lockshm*.3 "$man"/lockshm*.7; do
	grep -q '^\.so ' "$page" && continue
	# 4. names
	grep -v '^\.TH ' "$page" | plain | grep -o 'LOCKSHM_[A-Z_]*[A-Z]' | sort -u | grep -vxF -f "$work/names" >"$work/unknown"
	while read -r name; do
		problem "$page: the header has no $name"
	done <"$work/unknown"
	# 5. sections; a page may add FILES
	want="NAME SYNOPSIS DESCRIPTION RETURN VALUE ERRORS NOTES EXAMPLES SEE ALSO"
	have=$(sed -n 's/^\.SH //p' "$page" | grep -v '^FILES$' | tr '\n' ' ' | sed 's/ $//')
	[ "$have" = "$want" ] || problem "$page: sections are '$have'"
	# 3. and 6.: blocks
	rm -f "$work"/block.*
	awk -v base="$work/block." '
		/^\.SH / { where = $0 }
		/^\.EX/ { n++; kind = where == ".SH EXAMPLES" ? "example" : "type"; file = base kind "." n; next }
		/^\.EE/ { close(file); file = ""; next }
		file { print > file }
	' "$page"
	for block in "$work"/block.type.*; do
		[ -f "$block" ] || continue
		plain <"$block" | squeeze | tr -d '\n' | sed 's/$/\n/' >"$work/one"
		grep -qxF -f "$work/one" "$work/types" || problem "$page: not as in the header: $(head -1 "$block")"
	done
	[ -n "$(ls "$work"/block.example.* 2>/dev/null)" ] || problem "$page: EXAMPLES has no code"
	for block in "$work"/block.example.*; do
		[ -f "$block" ] || continue
		plain <"$block" >"$work/example.c"
		${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -I"$top/include" -fsyntax-only "$work/example.c" 2>"$work/cc" ||
			{ cat "$work/cc" >&2; problem "$page: an example does not compile"; }
	done
	# 7. the formatter
	if command -v mandoc >/dev/null 2>&1; then
		mandoc -T lint -W warning "$page" >"$work/lint" 2>&1 || { cat "$work/lint" >&2; problem "$page: mandoc complains"; }
	elif command -v groff >/dev/null 2>&1; then
		groff -man -ww -z "$page" 2>"$work/lint"
		[ ! -s "$work/lint" ] || { cat "$work/lint" >&2; problem "$page: groff complains"; }
	fi
done

# Alias pages lead somewhere, and to a function.
for page in "$man"/lockshm_*.3; do
	name=$(basename "$page" .3)
	grep -q '^\.so ' "$page" || continue
	grep -qx "$name" "$work/functions" || problem "$page: the header has no function $name"
	page_of "$name" >/dev/null || problem "$page: leads nowhere"
done

[ $problems -eq 0 ] || { echo "man-header: $problems problems" >&2; exit 1; }
echo "man-header: $(wc -l <"$work/functions") functions agree with their pages"
