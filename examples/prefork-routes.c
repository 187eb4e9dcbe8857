/* SPDX-License-Identifier: MIT */
/*
 * prefork-routes.c - the handler of each path
 *
 *   GET /page/KEY           a page from the cache, fetched from the slow backend if it is not there
 *   GET /count              add one to the counter          (?die: the worker kills itself half-way)
 *   GET /read               read the counter
 *   GET /hold/KEY/MS[?TAG]  hold the lock hold/KEY for MS milliseconds, to be watched
 *   GET /stats              figures, and the pids of the workers
 *
 * Every reply names its worker; after a lock it has the status and report of the acquire.
 */
#include "prefork.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int lock_with(unsigned flags, struct app *app, const char *key, int mode, int64_t ttl_ns, const char *tag,
		     lockshm_hold_t *hold, struct grant *grant)
{
	struct lockshm_request request = LOCKSHM_REQUEST(key);

	request.mode = mode;
	request.flags = flags;
	request.ttl_ns = ttl_ns;
	request.timeout_ns = LOCKSHM_SECONDS(20);
	request.tag = tag;
	grant->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	request.report = &grant->report;
	grant->code = lockshm_acquire(app->locks, &request, hold);
	grant->granted_ns = now_ns();
	return grant->code;
}

int app_lock(struct app *app, const char *key, int mode, int64_t ttl_ns, const char *tag, lockshm_hold_t *hold,
	     struct grant *grant)
{
	return lock_with(0, app, key, mode, ttl_ns, tag, hold, grant);
}

int app_lock_robust(struct app *app, const char *key, int mode, int64_t ttl_ns, const char *tag, lockshm_hold_t *hold,
		    struct grant *grant)
{
	return lock_with(LOCKSHM_ROBUST, app, key, mode, ttl_ns, tag, hold, grant);
}

/* Too busy is the client's to retry; anything else is ours to look into. */
static void refuse(struct reply *reply, int code)
{
	reply->status = code == LOCKSHM_TIMEOUT || code == LOCKSHM_BUSY ? 503 : 500;
	reply->note = lockshm_code_name(code);
	reply_printf(reply, "%s\n", lockshm_strerror(code));
}

/* Return: length of the KEY at the start of @s, 0 if it is none. */
static size_t key_len(const char *s)
{
	size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return len <= KEY_MAX ? len : 0;
}

static void get_page(struct app *app, const char *key, const char *query, struct reply *reply)
{
	static const char *const sources[] = {
		[PAGE_HIT] = "hit", [PAGE_WAITED] = "waited", [PAGE_FETCHED] = "fetched"
	};
	struct page page;
	int code;

	(void)query;
	if (key_len(key) == 0 || key[key_len(key)] != '\0') {
		reply->status = 400;
		return;
	}
	code = cache_get(app, key, &page, &reply->grant);
	if (code == CACHE_BACKEND_FAILED) {
		reply->status = 502;
		reply_printf(reply, "the backend failed\n");
	} else if (code < 0) {
		refuse(reply, code);
	} else {
		reply->status = page.len ? 200 : 404;
		reply->note = sources[page.source];
		reply_printf(reply, "%.*s", (int)page.len, page.body);
	}
}

static void tell_count(struct reply *reply, int code, const struct count *count)
{
	if (code < 0) {
		refuse(reply, code);
		return;
	}
	reply->status = count->sound ? 200 : 500;
	reply->note = count->sound ? "sound" : "torn";
	reply_printf(reply, "%llu\n", (unsigned long long)count->total);
}

static void get_count(struct app *app, const char *rest, const char *query, struct reply *reply)
{
	struct count count;
	int code;

	(void)rest;
	code = counter_add(app, strcmp(query, "die") == 0, &count, &reply->grant);
	tell_count(reply, code, &count);
}

static void get_read(struct app *app, const char *rest, const char *query, struct reply *reply)
{
	struct count count;
	int code;

	(void)rest;
	(void)query;
	code = counter_read(app, &count, &reply->grant);
	tell_count(reply, code, &count);
}

/* Return: 0 and @ms, or -1. */
static int parse_ms(const char *s, long *ms)
{
	char *end;

	errno = 0;
	*ms = strtol(s, &end, 10);
	return *s < '0' || *s > '9' || *end || errno || *ms > 20000 ? -1 : 0;
}

static void get_hold(struct app *app, const char *rest, const char *query, struct reply *reply)
{
	char lock_name[8 + KEY_MAX];
	size_t len = key_len(rest);
	lockshm_hold_t hold;
	struct timespec pause;
	long ms;
	int code;

	if (len == 0 || rest[len] != '/' || parse_ms(rest + len + 1, &ms) < 0 || strlen(query) > LOCKSHM_TAG_MAX) {
		reply->status = 400;
		return;
	}
	snprintf(lock_name, sizeof(lock_name), "hold/%.*s", (int)len, rest);
	code = app_lock_robust(app, lock_name, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(30), query, &hold, &reply->grant);
	if (code < 0) {
		refuse(reply, code);
		return;
	}
	if (code > 0)
		lockshm_acknowledge(&hold); /* it protects nothing that could be torn */
	pause = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	nanosleep(&pause, NULL);
	code = lockshm_release(&hold, 0);
	reply->status = code == LOCKSHM_OK ? 200 : 409; /* not mine all the time: `lockctl release` can do that */
	reply->note = code == LOCKSHM_OK ? NULL : lockshm_code_name(code);
	reply_printf(reply, "held %s for %ld ms: %s\n", lock_name, ms, lockshm_strerror(code));
}

static void get_stats(struct app *app, const char *rest, const char *query, struct reply *reply)
{
	struct shared *shared = app->shared;
	struct count count;

	(void)rest;
	(void)query;
	if (counter_read(app, &count, &reply->grant) < 0) {
		refuse(reply, reply->grant.code);
		return;
	}
	reply->status = 200;
	reply_printf(reply, "count %llu\nrepairs %llu\n", (unsigned long long)count.total,
		     (unsigned long long)count.repairs);
	reply_printf(reply, "hits %lu\nwaited %lu\nfetched %lu\nrestarts %lu\nworkers", shared->hits, shared->waited,
		     shared->fetched, shared->restarts);
	for (int i = 0; i < WORKERS_MAX; i++)
		if (shared->workers[i])
			reply_printf(reply, " %d", (int)shared->workers[i]);
	reply_printf(reply, "\n");
}

static const struct route {
	const char *prefix;
	void (*get)(struct app *app, const char *rest, const char *query, struct reply *reply);
} routes[] = {
	{ "/count", get_count },
	{ "/hold/", get_hold },
	{ "/page/", get_page },
	{ "/read", get_read },
	{ "/stats", get_stats },
};

void route(struct app *app, const struct request *request, struct reply *reply)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
		const char *prefix = routes[i].prefix;
		size_t len = strlen(prefix);
		const char *rest = request->path + len;

		if (strncmp(request->path, prefix, len) == 0 && (prefix[len - 1] == '/' || *rest == '\0')) {
			routes[i].get(app, rest, request->query, reply);
			return;
		}
	}
	reply->status = 404;
}
