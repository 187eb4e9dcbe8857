/* SPDX-License-Identifier: MIT */
/* compiler.h - function attributes and branch hints; only functions with LOCKSHM_EXPORT are visible outside */
#ifndef LOCKSHM_SYS_COMPILER_H
#define LOCKSHM_SYS_COMPILER_H

#define LOCKSHM_EXPORT __attribute__((visibility("default")))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define MUST_CHECK __attribute__((warn_unused_result))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
