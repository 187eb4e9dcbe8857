/* SPDX-License-Identifier: MIT */
/* refusals.c - see redis/refusals.h */
#include "redis/refusals.h"

#include <stdio.h>
#include <string.h>

#include "redis/boot-clock.h"

#define LASTS_NS REDIS_MS(500)
#define CALM_NS REDIS_MS(1000) /* longer than any pause between two attempts */
#define SHOWN 250 /* bytes of a text, as of the error of a command */

static bool are_over(const struct redis_refusals *r, int64_t now)
{
	return r->executed > r->last && now - r->last >= CALM_NS;
}

void redis_refusals_add(struct redis_refusals *r, int64_t now, const struct redis_error *why)
{
	if (!r->first || are_over(r, now))
		r->first = now;
	r->last = now;
	r->full = strstr(why->text, "OOM") != NULL;
	r->why.code = why->code;
	snprintf(r->why.text, sizeof(r->why.text), "%.*s", SHOWN, why->text);
}

void redis_refusals_contradict(struct redis_refusals *r, int64_t now, bool grows)
{
	if (!r->full || grows)
		r->executed = now;
}

const struct redis_error *redis_refusals_now(const struct redis_refusals *r, int64_t now)
{
	return r->last - r->first >= LASTS_NS && !are_over(r, now) ? &r->why : NULL;
}
