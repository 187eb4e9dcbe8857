/* SPDX-License-Identifier: MIT */
/* growth.h - counts of something at three sizes, and the exponent by which they may grow */
#ifndef LOCKSHM_TEST_GROWTH_H
#define LOCKSHM_TEST_GROWTH_H

#include <math.h>

#include "support/fixture.h"

#define SIZES 3

static const unsigned sizes[SIZES] = { 10, 100, 1000 };

/* @counts, of the sizes, beyond those of @base, which do not depend on them. */
static inline void grows_by(const char *what, const double counts[SIZES], double base, double exponent)
{
	double least = counts[0] - base > 1 ? counts[0] - base : 1, most = counts[SIZES - 1] - base;
	double found = log10(most > 1 ? most / least : 1) / log10(sizes[SIZES - 1] / sizes[0]);

	printf("%s: %.1f, %.1f, %.1f beyond %.0f: exponent %.2f\n", what, counts[0], counts[1], counts[2], base, found);
	ck_assert_msg(found <= exponent + 0.1, "%s: %.1f, %.1f, %.1f beyond %.0f: exponent %.2f, not %.0f", what,
		      counts[0], counts[1], counts[2], base, found, exponent);
}

#endif
