#!/bin/sh
# SPDX-License-Identifier: MIT
#
# callgrind.sh - an uncontended acquire and release takes no more instructions and cache lines than it did
#
# The bounds are in perf/callgrind.sh and hold for gcc -O2 on x86_64; elsewhere this is skipped.
set -u

build=${builddir:-.}

setting()
{
	sed -n "s/^$1='\(.*\)'\$/\1/p" "$build/config.log" | tail -n 1
}

skip()
{
	echo "skipped: $*"
	exit 77
}

[ "$(uname -m)" = x86_64 ] || skip "the bounds are those of x86_64"
case $(${CC:-gcc} --version 2>/dev/null) in
*clang* | '') skip "the bounds are those of gcc" ;;
esac
case " $(setting CFLAGS) " in
*" -O2 "*) ;;
*) skip "the bounds are those of -O2" ;;
esac
[ -z "$(setting SANITIZE_CFLAGS)" ] || skip "a sanitizer adds instructions of its own"

"${srcdir:-.}/perf/callgrind.sh" --check "$build/perf/callgrind-pair"
status=$?
[ $status != 1 ] || echo "what is ABOVE became dearer than its bound: see perf/callgrind.sh"
exit $status
