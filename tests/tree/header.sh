#!/bin/sh
# SPDX-License-Identifier: MIT
#
# header.sh - the public header compiles by itself, without a warning, as strict C11 and as C++
#
#   1. first, twice, and with every macro in use
#   2. a call whose result has to be checked warns if it is not
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
	struct lockshm_option option;
	struct lockshm_report report;
	struct lockshm_outcome outcome;
	struct lockshm_stat stat;
	struct lockshm_bridge_stat bridge;
	struct lockshm_key key;
	struct lockshm_row row;
	lockshm_hold_t hold;
	lockshm_canceller_t canceller;
};
static struct lockshm_request at_file_level = LOCKSHM_REQUEST("job");
static const int64_t times[] = { LOCKSHM_MS(1), LOCKSHM_SECONDS(1), LOCKSHM_TTL_MIN, LOCKSHM_TIME_MAX, LOCKSHM_FOREVER,
				 LOCKSHM_AUTO_RENEW_TTL_MIN };
static const int numbers[] = { LOCKSHM_VERSION_MAJOR, LOCKSHM_VERSION_MINOR, LOCKSHM_VERSION_PATCH, LOCKSHM_KEY_MAX,
			       LOCKSHM_KEY_SHOWN_MAX, LOCKSHM_GLOBAL_KEY_MAX, LOCKSHM_TAG_MAX, LOCKSHM_MANY_MAX,
			       LOCKSHM_NAME_MAX, LOCKSHM_THREAD_NAME_MAX, LOCKSHM_REDIS_HOST_MAX, LOCKSHM_REDIS_VALUE_MAX, LOCKSHM_MESSAGE_MAX,
			       LOCKSHM_EXPLAIN_MAX, LOCKSHM_REDIS_MAX, LOCKSHM_REDIS_PREFIX_MAX, LOCKSHM_GLOBAL_KEYS_MAX };
static const unsigned flags[] = { LOCKSHM_AUTO_RENEW | LOCKSHM_ONLY_IF_FREE_IN_TIME |
					  LOCKSHM_GLOBAL | LOCKSHM_BARGE | LOCKSHM_ROBUST | LOCKSHM_TELL_LOSS,
				  LOCKSHM_CREATE_OR_OPEN | LOCKSHM_CREATE_REDIS_QUORUM,
				  LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER };
int use(lockshm_t *segment, struct all *out, const char *name, lockshm_list_t *list);
int use(lockshm_t *segment, struct all *out, const char *name, lockshm_list_t *list)
{
	struct lockshm_request empty = LOCKSHM_REQUEST_INIT, request = LOCKSHM_REQUEST(name);
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct lockshm_option option = LOCKSHM_OPTION_INIT;
	struct lockshm_bridge_stat bridge = LOCKSHM_BRIDGE_STAT_INIT;
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("job", 0), LOCKSHM_MANY_KEY(name, LOCKSHM_SHARED) };
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;

	out->request = list ? request : empty;
	out->options = options;
	out->option = option;
	out->report = report;
	out->outcome = outcome;
	out->stat = stat;
	out->bridge = bridge;
	out->key = keys[1];
	out->row = row;
	out->hold = hold;
	out->canceller = canceller;
	if (lockshm_list_open(&list, segment, LOCKSHM_LIST_KEY, LOCKSHM_KEY("job")) || lockshm_end_hold(segment, LOCKSHM_KEY(name), 1))
		return numbers[0];
	return times[0] < times[1] && flags[0] != flags[1] && at_file_level.key_len == 3;
}
END
# Every macro of the header is in use above; those that end with _ are parts of others.
sed -n 's/^#define \(LOCKSHM_[A-Z_]*[A-Z]\)\>.*/\1/p' "$srcdir/include/lockshm.h" | sort -u | grep -vx LOCKSHM_H |
	grep -vx LOCKSHM_MUST_CHECK >"$work/macros"
[ "$(wc -l <"$work/macros")" -ge 30 ] || { echo "found too few macros in the header"; exit 99; }
while read -r macro; do
	grep -qw "$macro" "$work/alone.c" && continue
	problems=$((problems + 1))
	echo "not in the program of this test: $macro"
done <"$work/macros"

# The calls that have to be checked, each ignored.
{
	echo '#include <lockshm.h>'
	echo 'void ignore(lockshm_t *s, struct lockshm_request *q, lockshm_hold_t *h, lockshm_lock_t *l, lockshm_loop_t *p);'
	echo 'void ignore(lockshm_t *s, struct lockshm_request *q, lockshm_hold_t *h, lockshm_lock_t *l, lockshm_loop_t *p)'
	echo '{'
	echo 'lockshm_create(&s, "/n", NULL, NULL);'
	echo 'lockshm_create_option(NULL, "", "", NULL);'
	echo 'lockshm_create_option_at(0, NULL);'
	echo 'lockshm_create_or_open(&s, "/n", NULL);'
	echo 'lockshm_open(&s, "/n", 0, NULL);'
	echo 'lockshm_acquire(s, q, h);'
	echo 'lockshm_acquire_many(s, q, NULL, 1, h);'
	echo 'lockshm_upgrade(h);'
	echo 'lockshm_lock_init(l, s, q);'
	echo 'lockshm_lock(l, s);'
	echo 'lockshm_trylock(l, s);'
	echo 'lockshm_timedlock(l, s, 0);'
	echo 'lockshm_loop_open(&p, s, -1, NULL);'
	echo 'lockshm_loop_acquire(p, q, h, NULL);'
	echo 'lockshm_loop_acquire_many(p, q, NULL, 1, h, NULL);'
	echo 'lockshm_loop_next(p, NULL);'
	echo 'lockshm_list_open(NULL, s, 0, NULL, 0);'
	echo 'lockshm_list_next(NULL, NULL);'
	echo '}'
} >"$work/ignored.c"
cp "$work/alone.c" "$work/alone.cc"
cp "$work/ignored.c" "$work/ignored.cc"

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

# warns COMPILER FILE: once for each ignored call
warns()
{
	command -v "${1%% *}" >/dev/null 2>&1 || return 0
	# shellcheck disable=SC2086
	n=$($1 -I"$srcdir/include" -c -o /dev/null "$work/$2" 2>&1 | grep -c 'warning:.*unused')
	ignored=$(grep -c '^lockshm_' "$work/ignored.c")
	declared=$(grep -c -e ') LOCKSHM_MUST_CHECK;$' -e '^LOCKSHM_MUST_CHECK static inline' "$srcdir/include/lockshm.h")
	[ "$n" = "$ignored" ] && [ "$declared" = "$ignored" ] && return 0
	problems=$((problems + 1))
	echo "$1: $n warnings for $ignored ignored calls; the header marks $declared"
}

for cc in "${CC:-cc}" gcc clang; do
	for std in c11 c17; do
		try "$cc" alone.c -std=$std -pedantic-errors -Wshadow -Wconversion -Wcast-qual -Wstrict-prototypes \
			-Wmissing-prototypes
	done
	warns "$cc" ignored.c
done
[ $compiled -ge 2 ] || { echo "no C compiler"; exit 99; }
c_compiled=$compiled
for cxx in "${CXX:-g++}" clang++; do
	for std in c++11 c++17 c++20; do
		try "$cxx" alone.cc -std=$std -pedantic-errors -Wshadow -Wconversion -Wold-style-cast -Wcast-qual
	done
	warns "$cxx" ignored.cc
done
[ $problems = 0 ] || exit 1
[ $compiled -gt $c_compiled ] || { echo "fine as C; no C++ compiler to try"; exit 77; }
echo "$compiled compilations without a word"
