#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build-sanitize.sh [build] - the tests under ASan and UBSan; no finding is allowed.  For TSan see build-tsan.sh.
#
# With the argument it only builds: with clang where there is one, and with warnings as errors, so this also is the proof
# that clang has none.
# shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/build-common.sh"

if command -v clang >/dev/null 2>&1; then
	cc=clang
else
	cc=gcc
	need gcc gcc
fi

# probe FLAGS: does a program built with them run here?
probe()
{
	printf '#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n' >probe.c
	$cc "$@" -o probe probe.c >probe.log 2>&1 && ./probe >>probe.log 2>&1
}

work=$builddir/check-address
mkdir -p "$work" && cd "$work" || exit 1
probe -fsanitize=address,undefined || {
	# The leak checker stops its own process with ptrace, which a container may forbid.
	ASAN_OPTIONS=detect_leaks=0
	export ASAN_OPTIONS
	probe -fsanitize=address,undefined || { cat probe.log; skip "$cc has no working sanitizers"; }
}

configure_in "$work" CC=$cc CFLAGS="-O1 -g" --disable-static --enable-werror --enable-asan --enable-ubsan
"$MAKE" -j"$jobs" all || die "$cc with sanitizers"
if [ "${1:-}" = build ]; then
	exec "$MAKE" -j"$jobs" check TESTS=
fi
CK_TIMEOUT_MULTIPLIER=4
export CK_TIMEOUT_MULTIPLIER
# shellcheck disable=SC2016 # make expands it
# Without those that count system calls, instructions, steps or places, or go from one instruction to the next, and those
# that gain nothing from a sanitizer.  Stopped and killed at random, the same code runs in chaos-counter and soak.
run_tests -j$((2 * jobs)) 'TESTS=$(filter-out tests/crash/crash-step tests/crash/stop-% tests/lock/test-capacity tests/lock/test-growth%,$(tests_of_units)) $(tests_of_environments) $(tests_of_cli) tests/crash/chaos-counter tests/hostile/scribble tests/soak/soak tests/soak/threads-as-processes'
