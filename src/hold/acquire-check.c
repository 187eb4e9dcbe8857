/* SPDX-License-Identifier: MIT */
/* acquire-check.c - is a request as the manual wants it?  Every check that needs no lock and no segment */
#include <string.h>

#include "hold/acquire.h"
#include "lock/wait.h"
#include "sys/clock.h"
#include "sys/error.h"

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

static int check_times(const struct lockshm_request *q, struct lockshm_error *error)
{
	if (q->ttl_ns != LOCKSHM_FOREVER && (q->ttl_ns < LOCKSHM_TTL_MIN || q->ttl_ns > LOCKSHM_TIME_MAX))
		return error_field(error, LOCKSHM_FIELD_TTL, LOCKSHM_INVALID,
				   "ttl_ns is %g s, must be 1 ms to ten years, or LOCKSHM_FOREVER", seconds(q->ttl_ns));
	if (q->timeout_ns < 0 || (q->timeout_ns > LOCKSHM_TIME_MAX && q->timeout_ns != LOCKSHM_FOREVER))
		return error_field(error, LOCKSHM_FIELD_TIMEOUT, LOCKSHM_INVALID,
				   "timeout_ns is %g s, must be 0 to ten years, or LOCKSHM_FOREVER", seconds(q->timeout_ns));
	if ((q->flags & LOCKSHM_AUTO_RENEW) && q->ttl_ns == LOCKSHM_FOREVER)
		return error_field(error, LOCKSHM_FIELD_TTL, LOCKSHM_INVALID,
				   "ttl_ns is LOCKSHM_FOREVER, and LOCKSHM_AUTO_RENEW needs a lease");
	if ((q->flags & LOCKSHM_AUTO_RENEW) && q->ttl_ns < LOCKSHM_AUTO_RENEW_TTL_MIN)
		return error_field(error, LOCKSHM_FIELD_TTL, LOCKSHM_INVALID,
				   "ttl_ns is %g s, must be at least 200 ms with LOCKSHM_AUTO_RENEW: a busy machine delays "
				   "the renewal", seconds(q->ttl_ns));
	if (q->max_hold_ns != 0 && (q->max_hold_ns < LOCKSHM_TTL_MIN || q->max_hold_ns > LOCKSHM_TIME_MAX))
		return error_field(error, LOCKSHM_FIELD_MAX_HOLD, LOCKSHM_INVALID,
				   "max_hold_ns is %g s, must be 1 ms to ten years, or 0 for no bound", seconds(q->max_hold_ns));
	return 0;
}

static int check_key(const void *key, size_t len, struct lockshm_error *error)
{
	if (unlikely(!key))
		return error_field(error, LOCKSHM_FIELD_KEY, LOCKSHM_INVALID, "key is NULL");
	if (unlikely(len == 0))
		return error_field(error, LOCKSHM_FIELD_KEY, LOCKSHM_INVALID,
				   "key is empty: it has at least one byte");
	if (unlikely(len > LOCKSHM_KEY_MAX))
		return error_field(error, LOCKSHM_FIELD_KEY, LOCKSHM_KEY_TOO_LONG,
				   "key has %zu bytes, at most %d are allowed", len, LOCKSHM_KEY_MAX);
	return 0;
}

int acquire_check(const struct lockshm_request *q, const lockshm_hold_t *hold, struct lockshm_error *error)
{
	char text[HOLD_USE_BYTES];
	int err;

	err = check_key(q->key, q->key_len, error);
	if (err)
		return err;
	if (q->mode != LOCKSHM_SHARED && q->mode != LOCKSHM_EXCLUSIVE)
		return error_field(error, LOCKSHM_FIELD_MODE, LOCKSHM_INVALID,
				   "mode is %d, must be LOCKSHM_SHARED or LOCKSHM_EXCLUSIVE", q->mode);
	if (q->flags & ~(LOCKSHM_TELL_LOSS | LOCKSHM_AUTO_RENEW | LOCKSHM_ONLY_IF_FREE_IN_TIME |
			 LOCKSHM_GLOBAL | LOCKSHM_BARGE | LOCKSHM_ROBUST))
		return error_field(error, LOCKSHM_FIELD_FLAGS, LOCKSHM_INVALID, "flags has unknown ones: 0x%x", q->flags);
	if (q->flags & LOCKSHM_TELL_LOSS)
		return error_field(error, LOCKSHM_FIELD_FLAGS, LOCKSHM_INVALID,
				   "flags: LOCKSHM_TELL_LOSS is for event loops, which have outcomes");
	if (q->flags & LOCKSHM_BARGE && (q->mode != LOCKSHM_EXCLUSIVE || q->flags & LOCKSHM_AUTO_RENEW))
		return error_field(error, LOCKSHM_FIELD_FLAGS, LOCKSHM_INVALID,
				   "flags: LOCKSHM_BARGE is for exclusive holds without LOCKSHM_AUTO_RENEW");
	if (q->tag && strnlen(q->tag, LOCKSHM_TAG_MAX + 1) > LOCKSHM_TAG_MAX)
		return error_field(error, LOCKSHM_FIELD_TAG, LOCKSHM_INVALID,
				   "tag is longer than %d bytes", LOCKSHM_TAG_MAX);
	if (hold_in_use(hold_of(hold), text))
		return error_set(error, LOCKSHM_INVALID, "this hold is %s: release it first, or use another one", text);
	if (q->canceller && !canceller_is_idle(q->canceller))
		return error_field(error, LOCKSHM_FIELD_CANCELLER, LOCKSHM_INVALID,
				   "canceller is in use by another wait, or written over: start from LOCKSHM_CANCELLER_INIT");
	return check_times(q, error);
}
