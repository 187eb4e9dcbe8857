/* SPDX-License-Identifier: MIT */
/* asan.h - is this a build with AddressSanitizer?  gcc and clang say it in different ways */
#ifndef LOCKSHM_TEST_ASAN_H
#define LOCKSHM_TEST_ASAN_H

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

#endif
