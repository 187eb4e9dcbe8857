/* SPDX-License-Identifier: MIT */
/*
 * blocker.c - what a request waits for, in one phrase
 *
 * A message that a lock was not obtained is often read when its holder has gone: so the message names it, from the report
 * of the call.  A key of other hosts has no holder here; then the message of the library has to do.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

/** A request without a token, which waits or is of this host only, has a ticket. */
static uint64_t number_of(const struct lockshm_blocker *blocker)
{
	return blocker->token ? blocker->token : blocker->ticket;
}

/** Its owner is not kept, but the tag is. */
static char *describe_cooldown(const struct lockshm_blocker *blocker)
{
	char *age = format_duration(blocker->age_ns), *left = format_duration(blocker->expires_in_ns);
	char *tag = visible(blocker->tag, strnlen(blocker->tag, LOCKSHM_TAG_MAX));
	char *text = format_text("cooling down: taken %s ago%s%s%s, token %" PRIu64 ", free in %s", age, *tag ? " by (" : "", tag,
				 *tag ? ")" : "", number_of(blocker), left);

	free(age);
	free(left);
	free(tag);
	return text;
}

/** "by pid 12 (tag), token 7, thread worker, for 4.2 s". */
static char *describe_owner(const struct lockshm_blocker *blocker)
{
	char *owner = format_owner(blocker->pid, blocker->tid, blocker->tag, true);
	char *age = format_duration(blocker->age_ns);
	char *name = visible(blocker->name, strnlen(blocker->name, sizeof(blocker->name)));
	char *text = format_text("by pid %s, token %" PRIu64 "%s%s, for %s", owner, number_of(blocker),
				 *name ? ", thread " : "", name, age);

	free(owner);
	free(age);
	free(name);
	return text;
}

static char *describe_holder(const struct lockshm_blocker *blocker)
{
	const char *how = blocker->mode == LOCKSHM_EXCLUSIVE ? "exclusively" : "shared";
	bool strict = blocker->expires_in_ns == LOCKSHM_FOREVER;
	char *owner = describe_owner(blocker), *left = format_duration(blocker->expires_in_ns);
	char *text = format_text("held %s %s; %s%s", how, owner,
				 strict ? "no lease ends it" : "unless renewed its lease ends in ", strict ? "" : left);

	free(owner);
	free(left);
	return text;
}

static char *describe_waiter(const struct lockshm_blocker *blocker)
{
	char *owner = describe_owner(blocker);
	char *text = format_text("awaited %s", owner);

	free(owner);
	return text;
}

char *format_blocker(const struct lockshm_blocker *blocker)
{
	switch (blocker->state) {
	case LOCKSHM_HOLDING:
		return describe_holder(blocker);
	case LOCKSHM_WAITING:
		return describe_waiter(blocker);
	case LOCKSHM_COOLING:
		return describe_cooldown(blocker);
	case LOCKSHM_BARGEABLE:
		return format_text("released, bargeable");
	default:
		return NULL;
	}
}

/** The first exclusive request that waits; to be freed; NULL = none. */
static char *describe_writer(lockshm_list_t *list)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	char *text = NULL, *owner, *age;

	while (!text && lockshm_list_next(list, &row) == 1) {
		if (row.request.state != LOCKSHM_WAITING || row.request.mode != LOCKSHM_EXCLUSIVE || !row.alive)
			continue;
		owner = format_owner(row.request.pid, row.request.tid, row.request.tag, true);
		age = format_duration(row.request.age_ns);
		text = format_text("; before it an exclusive request waits: pid %s, for %s", owner, age);
		free(owner);
		free(age);
	}
	return text;
}

/* The report names a holder, for which a reader does not wait by itself. */
char *format_writer_ahead(lockshm_t *segment, const struct lockshm_request *request)
{
	const struct lockshm_blocker *blocker = &request->report->blocker;
	lockshm_list_t *list;
	char *text = NULL;

	if (request->mode != LOCKSHM_SHARED || blocker->state != LOCKSHM_HOLDING || blocker->mode != LOCKSHM_SHARED)
		return format_text("%s", "");
	if (lockshm_list_open(&list, segment, LOCKSHM_LIST_KEY, request->key, request->key_len) == 0)
		text = describe_writer(list);
	lockshm_list_close(list);
	return text ? text : format_text("; before it an exclusive request waited");
}
