/* SPDX-License-Identifier: MIT */
/* min.h - the smaller and the larger of two times */
#ifndef LOCKSHM_SYS_MIN_H
#define LOCKSHM_SYS_MIN_H

#include <stdint.h>

static inline int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

#endif
