/* SPDX-License-Identifier: MIT */
/*
 * step-life.c - the life of a segment, step by step: made, opened, removed
 *
 * The victim makes or removes another segment than that of the scene.  Wherever it is caught, the next open of the name
 * gets a sound segment, with larger tokens than all before it; and a segment that has lost its name returns NO_SEGMENT.
 * One exception: while a remover is stopped between RETIRED and the end of the name, others get NO_SEGMENT.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "segment/segment.h"
#include "support/fixture.h"
#include "step-arrange.h"

static lockshm_t *earlier;  /* the test's own, made before the victim removed it */
static uint64_t last_token; /* granted under the name, by any segment that had it */

static const char *name(void)
{
	return other_name("life");
}

static struct lockshm_create_options small(unsigned flags)
{
	struct lockshm_create_options o = LOCKSHM_CREATE_INIT;

	o.keys = 64;
	o.requests = 16;
	o.owners = 4;
	o.flags = flags;
	return o;
}

static void use(const struct scene *s, lockshm_t *other)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;

	ck_code(lockshm_acquire(other, &request, &hold), 0);
	ck_assert_msg(lockshm_token(&hold) > last_token, "point %u: token %llu after %llu", s->point,
		      (unsigned long long)lockshm_token(&hold), (unsigned long long)last_token);
	last_token = lockshm_token(&hold);
	ck_code(lockshm_release(&hold, 0), 0);
	verify_clean_of(other);
}

/* NULL = a stopped remover keeps the name. */
static lockshm_t *make_or_open(const struct scene *s, bool stopped)
{
	struct lockshm_create_options o = small(LOCKSHM_CREATE_OR_OPEN);
	struct lockshm_error error;
	lockshm_t *other = NULL;
	int code = lockshm_create(&other, name(), &o, &error);

	if (stopped && code == LOCKSHM_NO_SEGMENT && earlier && segment_retired(earlier))
		return NULL;
	ck_assert_msg(code == 0, "point %u: %s: %s", s->point, outcome_name(code), error.message);
	return other;
}

/* Before the victim, which will remove it. */
void another_segment(struct scene *s)
{
	earlier = make_or_open(s, false);
	use(s, earlier);
}

static int make(unsigned flags)
{
	struct lockshm_create_options o = small(flags);

	return lockshm_create(NULL, name(), &o, NULL);
}

int create(const struct scene *s)
{
	(void)s;
	return make(0);
}

int create_or_open(const struct scene *s)
{
	(void)s;
	return make(LOCKSHM_CREATE_OR_OPEN);
}

int destroy(const struct scene *s)
{
	(void)s;
	return lockshm_destroy(name(), NULL);
}

static bool same_segment(lockshm_t *a, lockshm_t *b)
{
	return memcmp(a->header->id, b->header->id, sizeof(a->header->id)) == 0;
}

/* The earlier segment either still has the name, or is known to have lost it. */
static void check_earlier_one(const struct scene *s, lockshm_t *other)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;

	if (other && same_segment(earlier, other)) {
		use(s, earlier);
		return;
	}
	ck_assert_msg(segment_is_gone(earlier), "point %u: a segment without its name does not notice", s->point);
	ck_code(lockshm_acquire(earlier, &request, &hold), LOCKSHM_NO_SEGMENT);
}

void others_use_the_name(struct scene *s, bool stopped)
{
	lockshm_t *other = make_or_open(s, stopped);

	/* Of two concurrent creators one finds that it exists. */
	ck_assert_msg(stopped || !s->result->finished || s->result->code == 0 || s->result->code == LOCKSHM_EXISTS,
		      "point %u: %s", s->point, outcome_name(s->result->code));
	if (other)
		use(s, other);
	if (earlier)
		check_earlier_one(s, other);
	ck_code(lockshm_close(other), 0);
	if (stopped)
		return;
	ck_code(lockshm_destroy(name(), NULL), 0);
	if (earlier)
		ck_code(lockshm_close(earlier), 0);
	earlier = NULL;
}
