/* SPDX-License-Identifier: MIT */
/*
 * service.h - the service thread of a process and segment: renewals, notices, process-wide holds, loops
 *
 * Started at the first LOCKSHM_AUTO_RENEW, lockshm_notify(), lockshm_move() to the process or lockshm_loop_open(); ends
 * with the last other thread that takes part once the handle is closed.
 */
#ifndef LOCKSHM_SERVICE_SERVICE_H
#define LOCKSHM_SERVICE_SERVICE_H

#include "hold/renewal.h"
#include "sys/futex.h"

/* Start it unless it runs: enough for a renewal or a notice, as it needs no slot for these.  NO_MEMORY, SYSTEM. */
MUST_CHECK int service_start(struct lockshm *s, struct lockshm_error *error);

/* The same, and wait until it has its slot: for holds of the process.  FULL too. */
MUST_CHECK int service_join(struct lockshm *s, struct lockshm_error *error);

/* End it, if no other thread of the program takes part: so the holds of the process end now. */
void service_end_if_alone(struct lockshm *s);

/* Its participant; it has joined. */
struct participant *service_participant(struct lockshm *s);

/* The renewals' lock held.  Renew what is due, notify of what is lost.  Adds what to sleep on, and returns when to look
 * again, segment time. */
int64_t service_renew(struct lockshm *s, struct renewals *all, struct futex_watch *watches, unsigned *n);

/* The renewals' lock held.  If the hold of @r is still held, add its words to what to sleep on; else set @r->lost.
 * Returns when to look in any case. */
int64_t service_watch(struct lockshm *s, struct renewal *r, struct futex_watch *watches, unsigned *n, int64_t now);

/* Write to the descriptor of @r: its hold is lost. */
void service_notify(const struct renewal *r);

#endif
