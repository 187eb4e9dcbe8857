#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build-tsan.sh [SECONDS] - many threads on one mapping under ThreadSanitizer, built with clang and with gcc
#
# Suites with many threads, and threads-as-processes for SECONDS (5); no report is allowed but those that
# tests/support/tsan.supp explains.  Then the library with an acquire turned into a relaxed load: that must be reported,
# so silence before means something.
# shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/build-common.sh"

seconds=${1:-5}
work=$builddir/check-thread
suites="tests/lock/test-threads tests/lock/test-one-handle tests/lock/test-one-handle-threads tests/lock/test-run"
suites="$suites tests/service/test-loop tests/service/test-loop-cancel tests/service/test-loop-race"
programs="$suites tests/soak/threads-as-processes"
TSAN_OPTIONS=suppressions=$srcdir/tests/support/tsan.supp
CK_TIMEOUT_MULTIPLIER=4
export TSAN_OPTIONS CK_TIMEOUT_MULTIPLIER

# probe CC: does a program built with its thread sanitizer run here?
probe()
{
	command -v "$1" >/dev/null 2>&1 || return 1
	printf '#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n' >probe.c
	"$1" -fsanitize=thread -o probe probe.c >probe.log 2>&1 && ./probe >>probe.log 2>&1
}

# What a program reports decides, not only its status: the reports of an agent process do not end its test.
run()
{
	echo "$*"
	"$@" >log 2>&1
	status=$?
	grep -q 'WARNING: ThreadSanitizer' log && status=66
	tail -n 3 log
	return $status
}

run_suites()
{
	for suite in $suites; do
		run "$suite" || return 1
	done
}

build_and_run()
{
	configure_in "$work/$1" CC="$1" CFLAGS="-O1 -g" --disable-static --enable-werror --enable-tsan
	# shellcheck disable=SC2086
	"$MAKE" -j"$jobs" $programs >make.log 2>&1 || { tail make.log; die "$1 with --enable-tsan"; }
	if run_suites && run tests/soak/threads-as-processes "$seconds"; then
		passed=$((passed + 1))
	else
		grep -A 12 -m 3 'WARNING: ThreadSanitizer' log
		echo "FAILED: $1"
		failed=$((failed + 1))
	fi
}

# The mutation check: without acquire a waiter does not see what the last holder wrote.  Built from a release's files.
build_mutant()
{
	cd "$work/$1" || exit 1
	"$MAKE" distdir=../mutant distdir >distdir.log 2>&1 || { tail distdir.log; die "make distdir"; }
	srcdir=$work/mutant
	header=$srcdir/src/sys/atomic.h
	chmod -R u+w "$srcdir"
	sed '/^static inline uint64_t load_acquire(/,/^}/s/__ATOMIC_ACQUIRE/__ATOMIC_RELAXED/' "$header" >atomic.h
	cmp -s atomic.h "$header" && die "load_acquire() was not found in src/sys/atomic.h"
	cp atomic.h "$header"
	configure_in "$work/mutant/build" CC="$1" CFLAGS="-O1 -g" --disable-static --enable-tsan
	"$MAKE" -j"$jobs" tests/soak/threads-as-processes >make.log 2>&1 || { tail make.log; die "$1 cannot build the mutant"; }
	if run tests/soak/threads-as-processes 3; then
		echo "FAILED: $1 does not see a missing acquire"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

passed=0 failed=0 skipped=0 last=
mkdir -p "$work" && cd "$work" || exit 1
for cc in gcc clang; do
	cd "$work" || exit 1
	if probe $cc; then
		build_and_run $cc
		last=$cc
	else
		echo "$cc has no working thread sanitizer"
		skipped=$((skipped + 1))
	fi
done
[ -n "$last" ] || skip "no compiler has a working thread sanitizer"
build_mutant "$last"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
