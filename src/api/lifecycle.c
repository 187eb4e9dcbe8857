/* SPDX-License-Identifier: MIT */
/*
 * lifecycle.c - create, open, close: the order of the steps in the folders below
 *
 * The file itself is made in segment/create.c, mapped in segment/map.c and removed in segment/remove.c.
 */
#include <stdio.h>

#include "lock/participant.h"
#include "lock/sweep.h"
#include "segment/options.h"
#include "segment/process.h"
#include "segment/redis-options.h"
#include "service/service.h"
#include "sys/error.h"
#include "sys/sized.h"

/* ---------------------------------------------------------------- open */

static int open_segment(struct lockshm **out, const char *name, unsigned flags, struct lockshm_error *error)
{
	int err = segment_open(out, name, flags, error);

	if (!err && !(*out)->read_only)
		(void)sweep_some(*out, UINT32_MAX);
	return err;
}

LOCKSHM_EXPORT int lockshm_open(lockshm_t **out, const char *name, unsigned flags, struct lockshm_error *error)
{
	char full[LOCKSHM_NAME_MAX + 2];

	error_set(error, 0, "%s", "");
	if (!out)
		return error_set(error, LOCKSHM_INVALID, "out is NULL");
	*out = NULL;
	if (!segment_name(full, name))
		return segment_bad_name(error);
	if (flags & ~(LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER))
		return error_set(error, LOCKSHM_INVALID, "unknown flags 0x%x", flags);
	return open_segment(out, full, flags, error);
}

LOCKSHM_EXPORT int lockshm_current(lockshm_t *segment)
{
	if (!segment_valid(segment))
		return LOCKSHM_INVALID;
	return segment_retired(segment) || !segment_has_name(segment) ? LOCKSHM_NO_SEGMENT : 0;
}

/* ---------------------------------------------------------------- close */

LOCKSHM_EXPORT int lockshm_close(lockshm_t *segment)
{
	enum process_close of;

	if (!segment)
		return 0;
	of = process_close_segment(segment);
	if (of != CLOSE_OF_LAST)
		return of == CLOSE_OF_ONE ? 0 : LOCKSHM_INVALID;
	participant_leave(segment);
	service_end_if_alone(segment);
	segment_abandon(segment);
	return 0;
}

/* ---------------------------------------------------------------- create */

/* @o: copy of the program's @options, or the defaults. */
static int read_options(struct lockshm_create_options *o, const struct lockshm_create_options *options,
			struct lockshm_error *error)
{
	static const struct lockshm_create_options defaults = LOCKSHM_CREATE_INIT;
	int err = 0;

	if (options)
		err = sized_in(o, sizeof(*o), options, CREATE_OPTIONS_SIZE_0_1, "options", error);
	else
		*o = defaults;
	return err ? err : options_check(o, error);
}

static int make_segment(struct lockshm **out, const char *name, const struct lockshm_create_options *o,
			struct lockshm_error *error)
{
	struct shm_redis redis;
	int err = redis_options_store(&redis, o, error);

	return err ? err : segment_create(out, name, o, &redis, error);
}

/* A removal was cut short, and its name cannot be removed. */
static int blocked(int e, const char *name, unsigned flags, struct lockshm_error *error)
{
	char what[LOCKSHM_NAME_MAX + 64];

	snprintf(what, sizeof(what), "being removed, but its name is still there: %s", name);
	return error_system(error, flags & LOCKSHM_CREATE_OR_OPEN ? LOCKSHM_NO_SEGMENT : LOCKSHM_EXISTS, e, what);
}

/* Another process removed it meanwhile, or, for create-or-open, made it or took the memory for its own. */
static bool is_worth_another_try(int err, unsigned flags, int tries)
{
	if (err == LOCKSHM_NO_SEGMENT)
		return true;
	return flags & LOCKSHM_CREATE_OR_OPEN && (err == LOCKSHM_EXISTS || (err == LOCKSHM_NO_MEMORY && tries == 0));
}

LOCKSHM_EXPORT int lockshm_create(lockshm_t **out, const char *name, const struct lockshm_create_options *options,
				  struct lockshm_error *error)
{
	struct lockshm_create_options o;
	struct lockshm *s = NULL;
	char full[LOCKSHM_NAME_MAX + 2];
	int err, tries, e;

	error_set(error, 0, "%s", "");
	if (out)
		*out = NULL;
	if (!segment_name(full, name))
		return segment_bad_name(error);
	err = read_options(&o, options, error);
	if (err)
		return err;
	for (tries = 0; tries < 100; tries++) {
		/* First, so that a worker that would only open reserves nothing. */
		if (o.flags & LOCKSHM_CREATE_OR_OPEN) {
			err = open_segment(&s, full, 0, error);
			if (err != LOCKSHM_NO_SEGMENT)
				goto opened;
		}
		e = segment_clear_retired(full);
		if (e)
			return blocked(e, full, o.flags, error);
		error_set(error, 0, "%s", "");
		err = make_segment(&s, full, &o, error);
		if (!is_worth_another_try(err, o.flags, tries))
			break;
	}
opened:
	if (err)
		return err;
	if (out)
		*out = s;
	else
		lockshm_close(s);
	return 0;
}
