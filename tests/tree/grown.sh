#!/bin/sh
# SPDX-License-Identifier: MIT
#
# grown.sh - structs may grow: programs and libraries of two headers work together
#
# The second header is include/lockshm.h with one more field at the end of each struct that begins with its size, and a
# library is built with it, without the bridge.  grown.c is compiled with both headers and runs with both libraries.
set -u
LC_ALL=C
export LC_ALL

top=$(cd "${srcdir:-.}" && pwd)
libs=${builddir:-$PWD}/.libs
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
problems=0

[ -z "${SANITIZE_CFLAGS:-}" ] || { echo "not with a sanitizer"; exit 77; }
[ -f "$libs/liblockshm.so" ] || { echo "no shared library"; exit 77; }

# ---------------------------------------------------------------- the grown header, and the library of it

mkdir -p "$work/grown/include" "$work/grown/lib" || exit 99
cp -R "$top/src" "$work/grown/src" && chmod -R u+w "$work/grown/src" || exit 99
awk '
	/^struct lockshm_[a-z_]+ \{$/ { first = 1; grows = 0; print; next }
	first { grows = /^\tsize_t size;/; first = 0 }
	/^\};/ && grows { print "\tuint64_t grown;"; grows = 0; n++ }
	{ print }
	END { print "/* " n " structs */" }
' "$top/include/lockshm.h" >"$work/grown/include/lockshm.h"
n=$(sed -n 's,^/\* \([0-9]*\) structs \*/$,\1,p' "$work/grown/include/lockshm.h")
# The last argument of each SIZED() is the last field.
sed 's/^\(SIZED(.*, \)[a-z_]*);$/\1grown);/' "$top/src/sys/sized.h" >"$work/grown/src/sys/sized.h"
sized=$(grep -c '^SIZED(.*, grown);$' "$work/grown/src/sys/sized.h")
[ "$n" -ge 7 ] && [ "$n" = "$sized" ] ||
	{ echo "$n structs of lockshm.h begin with their size, $sized are in src/sys/sized.h"; exit 1; }

cflags="-std=gnu11 -O0 -fPIC -pthread"
pc="pkg-config --cflags liburcu libxxhash"
# shellcheck disable=SC2046,SC2086
(
	cd "$work/grown/src" || exit 99
	for file in sys/*.c segment/*.c lock/*.c hostlease/*.c hold/*.c global/*.c service/*.c api/*.c; do
		echo "$file"
	done | xargs ${CC:-cc} $cflags -w $($pc 2>/dev/null) -I../include -iquote . -fvisibility=hidden -shared \
		-Wl,--version-script=liblockshm.sym -Wl,-soname,liblockshm.so.0 -o ../lib/liblockshm.so.0
) >"$work/log" 2>&1 || { cat "$work/log"; echo "the library with grown structs does not build"; exit 1; }
ln -s liblockshm.so.0 "$work/grown/lib/liblockshm.so"

# ---------------------------------------------------------------- the programs

# build OUTPUT INCLUDES FLAGS
build()
{
	out=$1
	includes=$2
	shift 2
	# shellcheck disable=SC2086
	${CC:-cc} -std=gnu11 -w "$@" -I"$includes" -o "$work/$out" "$top/tests/tree/grown.c" -L"$libs" -llockshm || exit 99
}
build plain "$top/include"
build grown-program "$work/grown/include" -DGROWN

# run PROGRAM LIBRARIES RELATION
run()
{
	LD_LIBRARY_PATH=$2 "$work/$1" "$3" 2>"$work/err" && return
	problems=$((problems + 1))
	echo "$1, structs of the library are $3:"
	cat "$work/err"
}
run plain "$libs" same
run plain "$work/grown/lib" longer
run grown-program "$libs" shorter
run grown-program "$work/grown/lib" same

[ $problems = 0 ] || exit 1
echo "$n structs have grown"
