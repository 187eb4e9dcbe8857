/* SPDX-License-Identifier: MIT */
/* explain.c - a report in one sentence, the same in every language and tool */
#include <inttypes.h>
#include <stdio.h>

#include "sys/compiler.h"
#include "sys/error.h"
#include "sys/sized.h"

#define PART 256

/* "12.3 s", "4 min": by the unit that people would choose. */
static void put_age(char out[32], int64_t ns)
{
	double s = ns > 0 ? (double)ns / 1e9 : 0;

	if (s < 120)
		snprintf(out, 32, "%.1f s", s);
	else if (s < 2 * 3600)
		snprintf(out, 32, "%.0f min", s / 60);
	else if (s < 48 * 3600)
		snprintf(out, 32, "%.0f h", s / 3600);
	else
		snprintf(out, 32, "%.0f days", s / 86400);
}

/* "pid 4711 (job) 'nightly'". */
static void put_owner(char out[PART], int32_t pid, const char *thread, const char *tag)
{
	char who[24] = "an unknown process";

	if (pid)
		snprintf(who, sizeof(who), "pid %" PRId32, pid);
	snprintf(out, PART, "%s%s%.*s%s%s%.*s%s", who, *thread ? " (" : "", LOCKSHM_THREAD_NAME_MAX, thread,
		 *thread ? ")" : "", *tag ? " '" : "", LOCKSHM_TAG_MAX, tag, *tag ? "'" : "");
}

static void put_blocker(char out[PART], const struct lockshm_blocker *b)
{
	const char *verb = b->state == LOCKSHM_WAITING ? "awaited" : "held";
	const char *mode = b->mode == LOCKSHM_SHARED ? "shared" : "exclusive";
	char owner[PART], age[32], left[32];

	put_owner(owner, b->pid, b->name, b->tag);
	put_age(age, b->age_ns);
	put_age(left, b->expires_in_ns);
	/* The owner of a cooldown is not kept, but its tag is. */
	if (b->state == LOCKSHM_COOLING)
		snprintf(out, PART, "cooling down for another %s, taken %s ago%s%.*s%s", left, age, *b->tag ? " by '" : "",
			 LOCKSHM_TAG_MAX, b->tag, *b->tag ? "'" : "");
	else if (b->state == LOCKSHM_BARGEABLE)
		snprintf(out, PART, "released, and kept for its thread until the next one runs");
	else
		snprintf(out, PART, "%s %s by %.160s for %s", verb, mode, owner, age);
}

static void put_damage(char *text, size_t size, const struct lockshm_damage *p)
{
	bool died = p->status == LOCKSHM_OWNER_DIED;
	char owner[PART], age[32], ago[48] = "";

	/* One of another host is known by its tag alone, "PID@HOST". */
	if (p->pid || !strchr(p->tag, '@'))
		put_owner(owner, p->pid, "", p->tag);
	else
		snprintf(owner, sizeof(owner), "%.*s", LOCKSHM_TAG_MAX, p->tag);
	put_age(age, p->age_ns);
	if (p->age_ns > 0)
		snprintf(ago, sizeof(ago), ", %s ago", age);
	snprintf(text, size, "%s: %s%s, token %" PRIu64 "; %s",
		 died ? "an earlier holder died inside" : "an earlier holder overran its lease or was ended by an operator",
		 owner, ago, p->token, died ? "what the lock protects may be torn" : "it may still be working");
}

/* Does the message say no more than the code? */
static bool is_bare(const struct lockshm_error *error)
{
	return !*error->message || strcmp(error->message, lockshm_strerror(error->code)) == 0;
}

static void put_timeout(char *text, size_t size, const struct lockshm_error *error, const char *way, int64_t timeout_ns)
{
	if (!*way && !is_bare(error))
		snprintf(text, size, "%s", error->message);
	else if (timeout_ns == LOCKSHM_FOREVER)
		snprintf(text, size, "not granted in time%s%s", *way ? ": " : "", way);
	else
		snprintf(text, size, "not granted in %g s%s%s", (double)timeout_ns / 1e9, *way ? ": " : "", way);
}

LOCKSHM_EXPORT int lockshm_explain(const struct lockshm_report *report, int64_t timeout_ns, char *text, size_t size)
{
	const struct lockshm_error *error;
	char way[PART] = "";

	if (!report || !sized_good(report, REPORT_SIZE_0_1) || !text || !size)
		return LOCKSHM_INVALID;
	error = &report->error;
	if (report->blocker.state)
		put_blocker(way, &report->blocker);
	if (error->code == LOCKSHM_TIMEOUT)
		put_timeout(text, size, error, way, timeout_ns);
	else if (error->code < 0)
		snprintf(text, size, "%s%s%s", *error->message ? error->message : lockshm_strerror(error->code),
			 *way ? ": " : "", way);
	else if (report->damage.status)
		put_damage(text, size, &report->damage);
	else
		snprintf(text, size, "%s", way);
	/* Names and tags are of other processes. */
	error_clean(text);
	return 0;
}
