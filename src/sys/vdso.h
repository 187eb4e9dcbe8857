/* SPDX-License-Identifier: MIT */
/* vdso.h - functions that the kernel maps into every process, called directly */
#ifndef LOCKSHM_SYS_VDSO_H
#define LOCKSHM_SYS_VDSO_H

#include <time.h>

typedef int vdso_clock_fn(clockid_t clock, struct timespec *out);

/* The kernel's clock_gettime() for user mode; NULL = none found. */
vdso_clock_fn *vdso_clock_gettime(void);

#endif
