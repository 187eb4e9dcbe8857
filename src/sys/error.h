/* SPDX-License-Identifier: MIT */
/* error.h - filling a struct lockshm_error, which is always optional */
#ifndef LOCKSHM_SYS_ERROR_H
#define LOCKSHM_SYS_ERROR_H

#include "lockshm.h"

/* Store code and message; returns @code, so that a failing function ends with one statement. */
int error_set(struct lockshm_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a wrong field of a request, with whose name the message begins. */
int error_field(struct lockshm_error *error, enum lockshm_field field, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* error_set() with the errno of a system call; "message: strerror". */
int error_system(struct lockshm_error *error, int code, int sys_errno, const char *what);

/* Words of a server or of another process, for a message: every byte that is not printable ASCII becomes '?', so that
 * none of them drives a terminal, or begins another line of a log. */
void error_clean(char *text);

/* LOCKSHM_FULL for one table, with advice. */
int error_full(struct lockshm_error *error, int table);

#endif
