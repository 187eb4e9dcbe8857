/* SPDX-License-Identifier: MIT */
/*
 * grown.c - uses every struct of the interface; grown.sh runs it with a library that sees the structs differently
 *
 * GROWN: compiled with a header in which each struct that may grow has one more field at its end, `grown`.  The argument
 * is "longer", "same" or "shorter": what the library's structs are, compared with this program's.
 */
#include <lockshm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANARY 0x5a
#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "grown.c:%d: not so: %s\n", __LINE__, #what);                                  \
			lockshm_destroy(name, NULL);                                                                   \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static char name[64];
static int sign; /* of the difference between the library's size of a struct and the program's */
static struct lockshm_report report = LOCKSHM_REPORT_INIT;

/* Room behind a struct, which the library must not touch. */
#define ROOM 64
#define PADDED(type)                                                                                                   \
	union {                                                                                                        \
		struct type s;                                                                                         \
		unsigned char bytes[sizeof(struct type) + ROOM];                                                       \
	}
#define PREPARE(p, ...)                                                                                                \
	do {                                                                                                           \
		memset(&(p), CANARY, sizeof(p));                                                                       \
		(p).s = __VA_ARGS__;                                                                                   \
	} while (0)
#define CHECK_ROOM(p) CHECK(untouched((p).bytes + sizeof((p).s), ROOM))

static int untouched(const unsigned char *at, size_t n)
{
	while (n > 0 && at[n - 1] == CANARY)
		n--;
	return n == 0;
}

static int is_size(size_t theirs, size_t own)
{
	return sign > 0 ? theirs > own : sign < 0 ? theirs < own : theirs == own;
}

static int refused(int code, const char *word)
{
	if (code != LOCKSHM_INVALID || report.error.code != code || !strstr(report.error.message, word))
		fprintf(stderr, "%s: %s\n", lockshm_code_name(code), report.error.message);
	return code == LOCKSHM_INVALID && report.error.code == code && strstr(report.error.message, word);
}

/* ---------------------------------------------------------------- input */

static void create_with(lockshm_t **segment)
{
	PADDED(lockshm_create_options) o;
	struct lockshm_error error;

	PREPARE(o, (struct lockshm_create_options)LOCKSHM_CREATE_INIT);
	o.s.keys = o.s.requests = o.s.owners = 64;
	strcpy(o.s.redis, "redis://127.0.0.1:1");
	o.s.size = 8;
	CHECK(lockshm_create(segment, name, &o.s, &error) == LOCKSHM_INVALID && strstr(error.message, "options.size"));
	o.s.size = 4097;
	CHECK(lockshm_create(segment, name, &o.s, &error) == LOCKSHM_INVALID && strstr(error.message, "options.size"));
	o.s.size = sizeof(o); /* the surplus is not 0 */
	CHECK(lockshm_create(segment, name, &o.s, &error) == LOCKSHM_INVALID && strstr(error.message, "newer library"));
	o.s.size = sizeof(o.s);
#ifdef GROWN
	o.s.grown = 1;
	CHECK(sign >= 0 || (lockshm_create(segment, name, &o.s, &error) == LOCKSHM_INVALID &&
			    strstr(error.message, "newer library")));
	o.s.grown = 0;
#endif
	CHECK(lockshm_create(segment, name, &o.s, &error) == 0);
	CHECK_ROOM(o);
}

static int many(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold)
{
	struct lockshm_key key = LOCKSHM_MANY_KEY("job", 0);

	return lockshm_acquire_many(segment, request, &key, 1, hold);
}

static void request_with(lockshm_t *segment,
			 int (*acquire)(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold))
{
	PADDED(lockshm_request) q;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	PREPARE(q, (struct lockshm_request)LOCKSHM_REQUEST("job"));
	CHECK(acquire(segment, &q.s, &hold) == 0 && lockshm_release(&hold, 0) == 0);
	q.s.report = &report;
	CHECK(acquire(segment, &q.s, &hold) == 0 && lockshm_release(&hold, 0) == 0);
	q.s.size = sizeof(q);
	CHECK(refused(acquire(segment, &q.s, &hold), "newer library"));
	memset(q.bytes + sizeof(q.s), 0, ROOM);
	CHECK(acquire(segment, &q.s, &hold) == 0 && lockshm_release(&hold, 0) == 0);
	memset(q.bytes + sizeof(q.s), CANARY, ROOM);
	q.s.size = sizeof(q.s);
#ifdef GROWN
	q.s.grown = 1;
	CHECK(sign >= 0 || refused(acquire(segment, &q.s, &hold), "newer library"));
	q.s.grown = 0;
#endif
	q.s.size = 8;
	CHECK(acquire(segment, &q.s, &hold) == LOCKSHM_INVALID);
	q.s.size = 4097;
	CHECK(acquire(segment, &q.s, &hold) == LOCKSHM_INVALID);
	CHECK(lockshm_check(&hold, NULL) == LOCKSHM_NOT_HELD);
	CHECK_ROOM(q);
}

/* ---------------------------------------------------------------- output */

static void report_with(lockshm_t *segment)
{
	PADDED(lockshm_report) r;
	struct lockshm_request q = LOCKSHM_REQUEST("job");
	lockshm_hold_t hold, second;

	PREPARE(r, (struct lockshm_report)LOCKSHM_REPORT_INIT);
	q.report = &r.s;
#ifdef GROWN
	memset(&r.s.grown, CANARY, sizeof(r.s.grown));
#endif
	CHECK(lockshm_acquire(segment, &q, &hold) == 0);
	CHECK(r.s.size == sizeof(r.s) && r.s.token == lockshm_token(&hold) && r.s.error.code == 0);
#ifdef GROWN
	/* A library that has the field sets it where it has a meaning. */
	CHECK(sign >= 0 || r.s.grown == 0);
#endif
	CHECK(lockshm_acquire(segment, &q, &second) == LOCKSHM_DEADLOCK);
	CHECK(r.s.token == 0 && r.s.error.code == LOCKSHM_DEADLOCK && r.s.error.message[0]);
	CHECK(lockshm_acquire(NULL, &q, &second) == LOCKSHM_INVALID && r.s.error.code == LOCKSHM_INVALID);
	CHECK(lockshm_release(&hold, 0) == 0);
	CHECK_ROOM(r);
}

static void stat_with(lockshm_t *segment)
{
	PADDED(lockshm_stat) stat;
	PADDED(lockshm_bridge_stat) bridge;

	PREPARE(stat, (struct lockshm_stat)LOCKSHM_STAT_INIT);
	PREPARE(bridge, (struct lockshm_bridge_stat)LOCKSHM_BRIDGE_STAT_INIT);
#ifdef GROWN
	memset(&stat.s.grown, CANARY, sizeof(stat.s.grown));
	memset(&bridge.s.grown, CANARY, sizeof(bridge.s.grown));
#endif
	CHECK(lockshm_stat(segment, &stat.s) == 0 && stat.s.size == sizeof(stat.s) && stat.s.keys >= 64);
	CHECK(lockshm_bridge_stat(segment, &bridge.s) == 0 && bridge.s.size == sizeof(bridge.s) && bridge.s.pid == 0);
#ifdef GROWN
	CHECK(stat.s.grown == 0 && bridge.s.grown == 0);
#endif
	CHECK_ROOM(stat);
	CHECK_ROOM(bridge);
	stat.s.size = bridge.s.size = 8;
	CHECK(lockshm_stat(segment, &stat.s) == LOCKSHM_INVALID);
	CHECK(lockshm_bridge_stat(segment, &bridge.s) == LOCKSHM_INVALID);
	stat.s.size = bridge.s.size = 4097;
	CHECK(lockshm_stat(segment, &stat.s) == LOCKSHM_INVALID);
	CHECK(lockshm_bridge_stat(segment, &bridge.s) == LOCKSHM_INVALID);
}

static void outcome_with(lockshm_t *segment)
{
	PADDED(lockshm_outcome) o;
	struct lockshm_request q = LOCKSHM_REQUEST("job");
	lockshm_hold_t held, awaited = LOCKSHM_HOLD_INIT;
	lockshm_loop_t *loop;
	struct pollfd readable = { .events = POLLIN };

	PREPARE(o, (struct lockshm_outcome)LOCKSHM_OUTCOME_INIT);
#ifdef GROWN
	memset(&o.s.grown, CANARY, sizeof(o.s.grown));
#endif
	CHECK(lockshm_loop_open(&loop, segment, -1, NULL) == 0);
	CHECK(lockshm_acquire(segment, &q, &held) == 0);
	CHECK(lockshm_loop_acquire(loop, &q, &awaited, &q) == LOCKSHM_PENDING);
	CHECK(lockshm_release(&held, 0) == 0);
	readable.fd = lockshm_loop_fd(loop);
	CHECK(poll(&readable, 1, 60000) == 1);
	o.s.size = 8;
	CHECK(lockshm_loop_next(loop, &o.s) == LOCKSHM_INVALID);
	o.s.size = 4097;
	CHECK(lockshm_loop_next(loop, &o.s) == LOCKSHM_INVALID);
	o.s.size = sizeof(o.s);
	/* Collected late its grant may have ended, and the wait goes on. */
	while (lockshm_loop_next(loop, &o.s) == 0)
		CHECK(poll(&readable, 1, 60000) == 1);
	CHECK(o.s.size == sizeof(o.s) && o.s.status == 0 && o.s.hold == &awaited && o.s.user == &q);
#ifdef GROWN
	CHECK(o.s.grown == 0);
#endif
	CHECK_ROOM(o);
	CHECK(lockshm_release(&awaited, 0) == 0 && lockshm_loop_close(loop) == 0);
}

static void row_with(lockshm_t *segment)
{
	PADDED(lockshm_row) row;
	lockshm_list_t *list;

	PREPARE(row, (struct lockshm_row)LOCKSHM_ROW_INIT);
#ifdef GROWN
	memset(&row.s.grown, CANARY, sizeof(row.s.grown));
#endif
	CHECK(lockshm_list_open(&list, segment, LOCKSHM_LIST_OWNERS, NULL, 0) == 0);
	row.s.size = 8;
	CHECK(lockshm_list_next(list, &row.s) == LOCKSHM_INVALID);
	row.s.size = 4097;
	CHECK(lockshm_list_next(list, &row.s) == LOCKSHM_INVALID);
	row.s.size = sizeof(row.s);
	CHECK(lockshm_list_next(list, &row.s) == 1);
	CHECK(row.s.size == sizeof(row.s) && row.s.request.pid == (int)getpid() && row.s.alive);
#ifdef GROWN
	CHECK(row.s.grown == 0);
#endif
	CHECK_ROOM(row);
	lockshm_list_close(list);
}

int main(int argc, char **argv)
{
	lockshm_t *segment;

	if (argc < 2)
		return 99;
	sign = strcmp(argv[1], "longer") == 0 ? 1 : strcmp(argv[1], "shorter") == 0 ? -1 : 0;
	snprintf(name, sizeof(name), "/lockshm-grown-%d", (int)getpid());
	create_with(&segment);
	request_with(segment, lockshm_acquire);
	request_with(segment, many);
	report_with(segment);
	stat_with(segment);
	outcome_with(segment);
	row_with(segment);
	CHECK(lockshm_close(segment) == 0);
	CHECK(lockshm_destroy(name, NULL) == 0);
	return 0;
}
