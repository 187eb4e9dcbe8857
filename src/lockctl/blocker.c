/* SPDX-License-Identifier: MIT */
/*
 * blocker.c - what a request waits for, in one phrase
 *
 * A message that a lock was not obtained is often read when its holder has gone: so the message names it.  A key of
 * other hosts has no holder here; then the message of the library has to do.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

static char *describe_cooldown(const struct lockshm_request_info *holder)
{
	char *age = format_duration(holder->age_ns), *left = format_duration(holder->expires_in_ns);
	char *text = format_text("cooling down: taken %s ago, free in %s", age, left);

	free(age);
	free(left);
	return text;
}

static char *describe_holder(const struct lockshm_lock_info *lock)
{
	const struct lockshm_request_info *holder = lock->requests[0];
	char *owner = format_owner(holder->pid, holder->tid, holder->tag, holder->alive);
	char *age = format_duration(holder->age_ns), *left = format_duration(holder->expires_in_ns);
	char *others = lock->holders > 1 ? format_text(" and %zu others", lock->holders - 1) : format_text("%s", "");
	bool strict = holder->expires_in_ns == LOCKSHM_FOREVER;
	char *text = format_text("held by pid %s%s, token %" PRIu64 ", for %s; %s%s", owner, others, holder->token, age,
				 strict ? "no lease ends it" : "unless renewed its lease ends in ", strict ? "" : left);

	free(owner);
	free(age);
	free(left);
	free(others);
	return text;
}

static char *describe_blocker(const struct lockshm_lock_info *lock)
{
	if (!lock->holders)
		return NULL;
	if (lock->requests[0]->state == LOCKSHM_COOLING)
		return describe_cooldown(lock->requests[0]);
	if (lock->requests[0]->state == LOCKSHM_BARGEABLE)
		return format_text("released, bargeable");
	return describe_holder(lock);
}

static int blocker_of(const struct lockshm_lock_info *shown, void *arg)
{
	struct lockshm_lock_info lock = lock_now(shown);

	*(char **)arg = describe_blocker(&lock);
	return 0;
}

char *format_blocker(lockshm_t *segment, struct key key)
{
	char *text = NULL;

	lockshm_show_lock(segment, key.bytes, key.len, blocker_of, &text);
	return text;
}
