/* SPDX-License-Identifier: MIT */
/* check.h - can a bridge of this segment work?  For an operator: one line for each server and subject */
#ifndef LOCKSHM_BRIDGE_CHECK_H
#define LOCKSHM_BRIDGE_CHECK_H

#include "segment/segment.h"

enum check_result {
	CHECK_OK,
	CHECK_NOTE, /* works, and something is to be known */
	CHECK_FAIL /* does not work until it is mended */
};

/* @subject: the server as in messages, or another word.  @text: what was found, and what to do. */
typedef void (*check_fn)(enum check_result result, const char *subject, const char *text, void *arg);

/* The files in the directory of credentials, for each server. */
void bridge_check_credentials(struct lockshm *s, check_fn report, void *arg);

/* Each server: reached as by the bridge, its version and settings, the rights of the login, and a lease of a name of the
 * check's own: nothing is left.  Takes @timeout_ns for connecting, to all at once, and then as long for each server at
 * most. */
void bridge_check_servers(struct lockshm *s, int64_t timeout_ns, check_fn report, void *arg);

#endif
