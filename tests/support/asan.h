/* SPDX-License-Identifier: MIT */
/* asan.h - is this a build with AddressSanitizer, or with a malloc() that is not to be replaced?  gcc and clang define
 * different macros */
#ifndef LOCKSHM_TEST_ASAN_H
#define LOCKSHM_TEST_ASAN_H

#include <stdlib.h> /* __GLIBC__ */

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OTHERS_MALLOC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define OTHERS_MALLOC
#endif
#endif

#endif
