#!/bin/sh
# SPDX-License-Identifier: MIT
#
# exports.sh - the libraries export what src/liblockshm.sym lists, which is what include/lockshm.h declares
#
# And they depend on no more than they must: the shared library has no allocator or urcu library among its dependencies.
set -u
LC_ALL=C
export LC_ALL

srcdir=${srcdir:-.}
libs=${builddir:-.}/.libs
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

# same WHAT WANTED GOT: two sorted lists
same()
{
	diff "$2" "$3" >"$work/diff" && return
	problems=$((problems + 1))
	echo "$1 ('<' is missing, '>' is too much):"
	grep '^[<>]' "$work/diff"
}

sed -n 's/^\t\([a-z_][a-z_0-9]*\);.*/\1/p' "$srcdir/src/liblockshm.sym" >"$work/listed"
sort -u "$work/listed" >"$work/wanted"
same "src/liblockshm.sym is not sorted" "$work/wanted" "$work/listed"

# Declarations begin at the left margin and end, maybe lines later, with a semicolon; typedefs and comments do not.
sed -n '/^typedef/!s/^[a-z].*[ *]\(lockshm_[a-z_]*\)(.*/\1/p' "$srcdir/include/lockshm.h" | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -ge 30 ] || { echo "found too few functions in the header"; exit 99; }
same "functions of the header in src/liblockshm.sym" "$work/declared" "$work/wanted"

if [ -f "$libs/liblockshm.so" ]; then
	${NM:-nm} -D --defined-only "$libs/liblockshm.so" >"$work/nm" || exit 99
	awk '$2 ~ /^[TtWiBDRVu]$/ { sub(/@@.*/, "", $3); print $3 }' "$work/nm" | sort -u >"$work/shared"
	same "exports of the shared library" "$work/wanted" "$work/shared"
	awk '$2 == "T" && $3 !~ /@@LOCKSHM_[0-9.]+$/ { print $3 }' "$work/nm" >"$work/unversioned"
	: >"$work/none"
	same "exports without a version" "$work/none" "$work/unversioned"
	readelf -d "$libs/liblockshm.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -Ev '^(libc|libpthread|ld-linux[a-z0-9-]*|libgcc_s|lib[atu]*san|libubsan)\.' >"$work/needed"
	same "libraries that the shared library needs" "$work/none" "$work/needed"
fi
if [ -f "$libs/liblockshm.a" ] && [ -f "${builddir:-.}/static-library.stamp" ]; then
	${NM:-nm} -g --defined-only "$libs/liblockshm.a" | awk 'NF == 3 { print $3 }' | sort -u >"$work/static"
	same "global names of the static library" "$work/wanted" "$work/static"
fi
[ $problems = 0 ] || exit 1
echo "$(wc -l <"$work/wanted") functions"
