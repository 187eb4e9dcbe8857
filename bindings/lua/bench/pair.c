/* SPDX-License-Identifier: MIT */
/*
 * pair.c - pairs of acquire and release in a bare loop of C, and two calls that do nothing
 *
 * A worker loads it beside the library, and passes the addresses of the two functions: nothing of the library is linked.
 */
#include <stdint.h>

typedef int acquire_fn(void *loop, const void *request, void *hold, void *user);
typedef int release_fn(void *hold, int64_t cooldown_ns);

int bench_pairs(acquire_fn *acquire, release_fn *release, void *loop, const void *request, void *hold, int n)
{
	int bad = 0;

	for (int i = 0; i < n; i++) {
		bad |= acquire(loop, request, hold, 0);
		bad |= release(hold, 0);
	}
	return bad;
}

int bench_nothing_acquire(void *loop, const void *request, void *hold, void *user)
{
	return loop == hold && request == user;
}

int bench_nothing_release(void *hold, int64_t cooldown_ns)
{
	return hold == 0 && cooldown_ns == 1;
}
