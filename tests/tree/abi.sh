#!/bin/sh
# SPDX-License-Identifier: MIT
#
# abi.sh - the interface is the one in abi.txt: symbols and their nodes, prototypes, structs, constants
#
# What a compiled program depends on: once a version is released, lines may be added, at the end of a struct for its
# fields, and none may change or go; the sizes of growing structs excepted.  exports.sh compares src/liblockshm.sym with
# the libraries.
#
# Usage: abi.sh              compare
#        abi.sh --update     write abi.txt anew
set -u
LC_ALL=C
export LC_ALL

top=${srcdir:-$(dirname "$0")/../..}
header=$top/include/lockshm.h
file=$top/tests/tree/abi.txt
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

# The header without comments and attributes; then each declaration on a line of its own.
tr '\n' '\001' <"$header" | sed -e 's,/\*\([^*]\|\*\**[^*/]\)*\*\**/,,g' | tr '\001' '\n' |
	sed -e 's/ LOCKSHM_MUST_CHECK;/;/' >"$work/bare"
sed -e '/^#ifdef __cplusplus/,/^#endif/d' -e '/^ *#/d' "$work/bare" | tr '\n\t' '  ' |
	sed -e 's/\([;{}]\)/\1\n/g' | sed -e 's/  */ /g' -e 's/^ //' -e 's/ $//' >"$work/lines"

# What to print, as a program: a struct's size and fields, an enumerator's or a macro's value.
{
	cat <<'END'
#include <lockshm.h>
#include <stdio.h>
#define NUMBER(n) printf("constant %s %lld\n", #n, (long long)(n))
#define SIZE(s) printf("struct %s size %zu\n", #s, sizeof(struct s))
#define FIELD(s, f, text) \
	printf("struct %s at %zu size %zu: %s\n", #s, offsetof(struct s, f), sizeof(((struct s *)0)->f), text)
int main(void)
{
	if (sizeof(void *) != 8)
		return 77;
END
	awk '
		/^(typedef )?struct [a-z_]+ \{$/ { type = $(NF - 1); print "SIZE(" type ");"; next }
		/^enum [a-z_]+ \{$/ { values = 1; next }
		/^\}/ { type = ""; values = 0 }
		type != "" && /;$/ {
			text = $0; list = $0
			sub(/;$/, "", list)
			n = split(list, one, ",")
			for (i = 1; i <= n; i++) {
				name = one[i]
				sub(/\[.*/, "", name); sub(/.*[ *]/, "", name)
				print "FIELD(" type ", " name ", \"" text "\");"
			}
		}
		values && /}$/ {
			sub(/ ?}$/, "")
			n = split($0, one, ",")
			for (i = 1; i <= n; i++) { sub(/=.*/, "", one[i]); gsub(/ /, "", one[i]); if (one[i] != "") print "NUMBER(" one[i] ");" }
			values = 0
		}
	' "$work/lines"
	sed -n 's/^#define \(LOCKSHM_[A-Z_]*[A-Z]\) [^{]*$/\1/p' "$work/bare" |
		grep -v -e '_INIT$' -e '_MUST_CHECK$' -e '_VERSION_' | sed 's/.*/NUMBER(&);/'
	echo 'return 0; }'
} >"$work/print.c"
${CC:-cc} -I"$top/include" -o "$work/print" "$work/print.c" || exit 99
"$work/print" >"$work/layout"
status=$?
[ $status = 0 ] || { echo "this machine has another layout, or cannot run what it compiles"; exit 77; }

{
	echo "# The interface as compiled programs see it; tests/tree/abi.sh --update writes this file."
	awk '/^LOCKSHM_/ { node = $1 } /^\t[a-z_0-9]+;/ { sub(/;/, "", $1); print "symbol", $1, node }' \
		"$top/src/liblockshm.sym"
	# Outside of braces.
	awk '!depth && /^[a-z].*\(.*\);$/ { print "declaration", $0 } { depth += /\{$/ - /^\}|[^{]\}$/ }' "$work/lines" | sort
	cat "$work/layout"
} >"$work/now"
for kind in 'symbol .*' 'declaration .*' 'struct [a-z_]* size .*' 'struct [a-z_]* at .*' 'constant .*'; do
	[ "$(grep -cx "$kind" "$work/now")" -ge 12 ] || { echo "found too few: $kind"; exit 99; }
done

if [ "${1:-}" = --update ]; then
	cp "$work/now" "$file"
	exit
fi
if ! diff -u "$file" "$work/now" >"$work/diff"; then
	sed -n '3,$p' "$work/diff"
	echo "the interface has changed: before the first release, and for what is only added, tests/tree/abi.sh --update"
	exit 1
fi
echo "$(grep -c . "$work/now") lines"
