/* SPDX-License-Identifier: MIT */
/*
 * blocker.c - what a request waits for, in one phrase
 *
 * A message that a lock was not obtained is often read when its holder has gone: so the message names it, from the report
 * of the call, in the words of the library.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "lockctl/lockctl.h"

/** A request without a token, which waits or is of this host only, has a ticket. */
static uint64_t number_of(const struct lockshm_blocker *blocker)
{
	return blocker->token ? blocker->token : blocker->ticket;
}

/** What an operator needs in addition, to end it or to wait for its end. */
static char *format_terms(const struct lockshm_blocker *blocker)
{
	char *left, *text;

	if (blocker->state != LOCKSHM_HOLDING)
		return format_text("%s", "");
	left = format_duration(blocker->expires_in_ns);
	text = blocker->expires_in_ns == LOCKSHM_FOREVER ?
		       format_text("; token %" PRIu64 ", no lease ends it", number_of(blocker)) :
		       format_text("; token %" PRIu64 ", unless renewed its lease ends in %s", number_of(blocker), left);
	free(left);
	return text;
}

char *format_report(const struct lockshm_report *report, int64_t timeout_ns)
{
	char sentence[LOCKSHM_EXPLAIN_MAX] = "", *terms = format_terms(&report->blocker), *text;

	(void)lockshm_explain(report, timeout_ns, sentence, sizeof(sentence));
	text = format_text("%s%s", sentence, report->blocker.state ? terms : "");
	free(terms);
	return text;
}

char *format_blocker(const struct lockshm_report *report)
{
	struct lockshm_report alone = LOCKSHM_REPORT_INIT;

	alone.blocker = report->blocker;
	return report->blocker.state ? format_report(&alone, 0) : format_report(report, 0);
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
