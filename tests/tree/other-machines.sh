#!/bin/sh
# SPDX-License-Identifier: MIT
#
# other-machines.sh - a machine that cannot share a segment's bytes cannot build the library, and the error names the
# reason
#
# 32 bits, 32-bit pointers on 64 bits, and big-endian: the compiler only parses src/segment/layout.h, so neither
# libraries nor headers of that machine are needed.  That the header of a foreign segment is refused at run time is in
# tests/lock/test-segment-open.c.
set -u

CC=${CC:-cc}
srcdir=${srcdir:-.}
message="needs a little-endian 64-bit machine"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
refused=0 failed=0

cat >"$work/control.c" <<END
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
uint64_t word;
END
echo '#include "segment/layout.h"' >"$work/layout.c"

# reads FILE COMPILER...
reads()
{
	file=$1
	shift
	"$@" -ffreestanding -fsyntax-only -iquote "$srcdir/src" "$work/$file" >"$work/log" 2>&1
}

# try COMPILER...: on the machine it makes programs for
try()
{
	if ! reads control.c "$@"; then
		echo "left out: $* does not know this machine"
	elif reads layout.c "$@"; then
		echo "FAILED: $* would build the library"
		failed=$((failed + 1))
	elif ! grep -q "$message" "$work/log"; then
		echo "FAILED: $* does not say why:"
		cat "$work/log"
		failed=$((failed + 1))
	else
		echo "refused: $*"
		refused=$((refused + 1))
	fi
}

# shellcheck disable=SC2086 # it may have options
reads layout.c $CC || { cat "$work/log"; echo "FAILED: not even this machine"; exit 1; }
# shellcheck disable=SC2086
{
	try $CC -m32
	try $CC -mx32
}
# configure: the first error, and not one of make.  Nothing is linked with a library, which need not be installed.
# shellcheck disable=SC2086
if [ -x "$srcdir/configure" ] && reads control.c $CC -m32; then
	configure=$(cd "$srcdir" && pwd)/configure
	if (cd "$work" && "$configure" --host=i386-linux-gnu CC="$CC -m32 -nostdlib -static -Wl,-e,0") >"$work/log" 2>&1; then
		echo "FAILED: configure accepts $CC -m32"
		failed=$((failed + 1))
	elif ! grep -q "^configure: error: lockshm needs Linux on a little-endian 64-bit machine" "$work/log"; then
		echo "FAILED: configure does not say why:"
		cat "$work/log"
		failed=$((failed + 1))
	else
		echo "refused: configure CC='$CC -m32'"
	fi
fi
for target in i386-linux-gnu arm-linux-gnueabihf mips64-linux-gnu s390x-linux-gnu; do
	try clang --target=$target
done
[ $failed = 0 ] || exit 1
[ $refused -gt 0 ] || { echo "skipped: no compiler for another machine"; exit 77; }
