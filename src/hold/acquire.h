/* SPDX-License-Identifier: MIT */
/* acquire.h - acquiring on this host, for checked requests */
#ifndef LOCKSHM_HOLD_ACQUIRE_H
#define LOCKSHM_HOLD_ACQUIRE_H

#include "hold/hold.h"
#include "lock/damage.h"

#define NOT_TAKEN (-1000) /* not a public code: nothing has changed */

/* Not a public flag: the request is granted but not entered.  The caller needs more than this lock, and enters it with
 * hold_go_inside() or hold_begin_lease(), or releases it. */
#define ACQUIRE_OUTSIDE 0x80000000u
/* Not a public flag, of a global request: a try, though it has a deadline, that of its wait for the reply of Redis. */
#define ACQUIRE_TRY 0x40000000u

/* Is @q a request as the manual wants it, of this library's size, and @hold free?  0, or the code to return. */
int acquire_check(const struct lockshm_request *q, const lockshm_hold_t *hold, struct lockshm_error *error);

/*
 * The whole local acquire: join, make the entry, wait.  With LOCKSHM_AUTO_RENEW the service thread must run already.
 * @given: of a lock object: the key's identity and last known entry; then q->key has the bytes to be shown only.  NULL
 * of any other request, in the following ones, too.
 */
int acquire_local(struct lockshm *s, const struct lockshm_request *q, const struct known_key *given,
		  lockshm_hold_t *hold, struct lockshm_error *error);

/* The fast path for requests that are not plain: one CAS, if the key is known and free.  Else NOT_TAKEN. */
int acquire_if_free(struct participant *self, const struct lockshm_request *q, const struct known_key *given,
		    struct hold *h);

/* Off the straight line of the fast path: @q has a tag or a report.  Is that a report of the library's size and nothing
 * else? */
MUST_CHECK bool report_is_plain(const struct lockshm_request *q);

/* Is @newest, which a tail named, a reader in time at @now, whose owner lives?  Only too strict: the clock was read
 * before, and a CAS on that tail shows that the record was the newest all the time. */
MUST_CHECK bool acquire_can_join(const struct participant *self, uint32_t newest, int64_t now);

/*
 * R1 for a shared request whose key is held by a reader in time, or free: one CAS.  @key is as in take_free(), with an
 * entry of the table; @now from deadline_clock(), for its ttl_ns.  Else NOT_TAKEN.
 */
int acquire_join(struct participant *self, const struct lockshm_request *q, const struct known_key *key,
		 struct hold *h, int64_t now);

/* The state of a request that is granted at once. */
static inline enum request_state acquire_state(const struct lockshm_request *q)
{
	return unlikely(q->flags & ACQUIRE_OUTSIDE) ? REQUEST_GRANTED : REQUEST_ENTERED;
}

/* R13: @hold, acquired with ACQUIRE_OUTSIDE, becomes a hold.  LOCKSHM_LOST: it has ended, and is still to be released. */
MUST_CHECK int hold_go_inside(const lockshm_hold_t *hold);

/* Its lease ends @ttl_ns from now; after that, if @inside, the same.  A request that had a short lease until it could be
 * a hold. */
MUST_CHECK int hold_begin_lease(const lockshm_hold_t *hold, int64_t ttl_ns, bool inside);

/* Resume the hold that this thread left bargeable, local or @global, if the request is for its key.  Else NOT_TAKEN. */
int acquire_resume(struct participant *self, const struct lockshm_request *q, const struct known_key *given,
		   struct hold *h, bool global);

/* @h was granted on a lock with a damage mark: report it, and acknowledge it if asked to.  Returns the status. */
int acquire_report_damage(struct lockshm *s, const struct lockshm_request *q, const struct hold *h);

/* What each call begins with, if it has a report: no time, token, mark, error or blocker.  Few words, so that a report
 * costs next to nothing where a key is free; what they leave of an earlier call has no meaning beside them. */
static ALWAYS_INLINE void report_clear(struct lockshm_report *report)
{
	_Static_assert(offsetof(struct lockshm_report, damage.status) - offsetof(struct lockshm_report, waited_ns) == 24 &&
			       offsetof(struct lockshm_error, table) == 8,
		       "cleared as one");
	memset(&report->waited_ns, 0, 24 + 8);
	memset(&report->error.code, 0, 16);
	report->error.message[0] = '\0';
	report->blocker.state = 0;
}

/* The status of a request that was granted as @h: a mark is reported to robust requests and in reports. */
static inline int acquire_status(struct lockshm *s, const struct lockshm_request *q, const struct hold *h)
{
	if (likely(!(q->flags & LOCKSHM_ROBUST)) && likely(!q->report))
		return 0;
	if (q->report)
		q->report->token = h->token;
	return unlikely(damage_pending(&s->entries[h->entry])) ? acquire_report_damage(s, q, h) : 0;
}

/* The same of one that was granted at once, whose report may not be cleared yet. */
static inline int acquire_status_at_once(struct lockshm *s, const struct lockshm_request *q, const struct hold *h)
{
	if (q->report)
		report_clear(q->report);
	return acquire_status(s, q, h);
}

/* ---------------------------------------------------------------- the parts of the slow path, for loops too */

#define ACQUIRE_PENDING (-1001) /* not a public code: the request is in the queue; see a->later */

void acquire_begin(struct acquire *a, struct participant *self, const struct lockshm_request *q,
		   const struct known_key *given, struct lockshm_error *error);

/* Try until the request is granted, or fails, or with a->later waits at the doorbell.  0, ACQUIRE_PENDING, or a code. */
MUST_CHECK int acquire_try(struct acquire *a);

/* @h is filled: count it.  Returns the status. */
int acquire_granted(struct participant *self, const struct lockshm_request *q, struct hold *h);

/* R14: the lease of a request of a loop until its outcome is collected. */
static inline int64_t acquire_uncollected_ttl(const struct lockshm_request *q)
{
	return q->ttl_ns < LOCKSHM_SECONDS(1) ? q->ttl_ns : LOCKSHM_SECONDS(1);
}

/* Have the service thread renew @h from now on.  @r: from malloc(), taken over. */
void acquire_renew(struct lockshm *s, const struct lockshm_request *q, struct hold *h, struct renewal *r);

/* Count a request that ended with @err in the slot of its thread, if it was not granted in time. */
void acquire_count_failure(const struct participant *self, int err);

/* The first lease of a hold: at most max_hold_ns. */
static inline int64_t request_first_ttl(const struct lockshm_request *q)
{
	bool bounded = (q->flags & LOCKSHM_AUTO_RENEW) && q->max_hold_ns != 0;

	return bounded && q->max_hold_ns < q->ttl_ns ? q->max_hold_ns : q->ttl_ns;
}

#endif
