#!/bin/sh
# SPDX-License-Identifier: MIT
#
# header.sh - the public header compiles by itself: as strict C11 and as C++, first, twice, and with every initialiser
#
# With CC and CXX of the build, and with the other compilers that are installed.
set -u

srcdir=${srcdir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0
compiled=0

cat >"$work/alone.c" <<'END'
#include <lockshm.h>
#include <lockshm.h>
struct all {
	struct lockshm_request request;
	struct lockshm_create_options options;
	lockshm_hold_t hold;
	lockshm_canceller_t canceller;
	lockshm_prepared_t prepared;
};
int use(struct all *out);
int use(struct all *out)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
	lockshm_prepared_t prepared = LOCKSHM_PREPARED_INIT;

	out->request = request;
	out->options = options;
	out->hold = hold;
	out->canceller = canceller;
	out->prepared = prepared;
	return LOCKSHM_MS(1) < LOCKSHM_SECONDS(1) && LOCKSHM_TTL_MIN < LOCKSHM_TIME_MAX;
}
END
cp "$work/alone.c" "$work/alone.cc"

# try COMPILER FILE FLAGS: silence is success
try()
{
	compiler=$1
	file=$2
	shift 2
	command -v "${compiler%% *}" >/dev/null 2>&1 || return 0
	compiled=$((compiled + 1))
	# The compiler may be several words.
	# shellcheck disable=SC2086
	$compiler "$@" -Wall -Wextra -Wundef -Werror -I"$srcdir/include" -fsyntax-only "$work/$file" \
		>"$work/messages" 2>&1 && return 0
	problems=$((problems + 1))
	echo "$compiler $*:"
	cat "$work/messages"
}

for cc in "${CC:-cc}" gcc clang; do
	for std in c11 c17; do
		try "$cc" alone.c -std=$std -pedantic-errors -Wshadow -Wstrict-prototypes -Wmissing-prototypes
	done
done
[ $compiled -ge 2 ] || { echo "no C compiler"; exit 99; }
c_compiled=$compiled
for cxx in "${CXX:-g++}" clang++; do
	for std in c++11 c++17 c++20; do
		try "$cxx" alone.cc -std=$std -pedantic-errors
	done
done
[ $problems = 0 ] || exit 1
[ $compiled -gt $c_compiled ] || { echo "fine as C; no C++ compiler to try"; exit 77; }
echo "$compiled compilations without a word"
