/* SPDX-License-Identifier: MIT */
/*
 * prefork.h - shared by the parts of the example server
 *
 *   prefork.c          the master: segment, listening socket, workers and their restart
 *   prefork-http.c     one request in, one reply out
 *   prefork-routes.c   the handler of each path
 *   prefork-cache.c    pages fetched once for any number of requests  <- how to use leases
 *   prefork-counter.c  a counter that survives a killed worker        <- how to use strict holds
 *
 * Which kind of hold for what:
 *  - A *strict* hold ends by release or by the death of its owner, never by time.  It is the right one for
 *    data in shared memory: memory cannot refuse the late write of a worker that was stopped too long.
 *  - A *lease* also ends by time.  It is the right one for work that may hang and may be done twice without
 *    harm, such as fetching a page from a slow backend.
 *
 * Lock names:  counter | slot/N | page/KEY | hold/KEY.  A thread that takes two takes page/KEY first, then slot/N.
 */
#ifndef PREFORK_H
#define PREFORK_H

#include <lockshm.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	KEY_MAX = 40,      /* longest KEY of a path */
	PAGE_MAX = 1000,   /* longest page */
	SLOTS = 1024,      /* pages in the cache */
	WORKERS_MAX = 64,
};

/* ---- the server's own data: MAP_SHARED memory made by the master, guarded by locks ---- */

/** One place of the cache; slot N is guarded by the lock "slot/N". */
struct slot {
	_Atomic int state; /* enum slot_state, in prefork-cache.c */
	char key[KEY_MAX + 1];
	size_t len; /* 0 = the backend has no such page: this is remembered too */
	char body[PAGE_MAX];
};

/** Requests answered, in all and by each worker; guarded by the lock "counter". */
struct counter {
	uint64_t total; /* outside a hold always the sum of by_worker[] */
	uint64_t by_worker[WORKERS_MAX];
	uint64_t repairs;
	/* The update in progress.  Written in full before .open is set; .open is cleared after the update. */
	struct {
		_Atomic int open;
		int worker;
		uint64_t token;
		uint64_t new_total, new_by_worker;
	} journal;
};

struct shared {
	struct counter counter;
	struct slot slots[SLOTS];
	_Atomic unsigned long hits, waited, fetched; /* how /page requests were answered */
	_Atomic unsigned long restarts;
	_Atomic pid_t workers[WORKERS_MAX]; /* written by the master */
};

/** What a worker knows. */
struct app {
	lockshm_t *locks;
	struct shared *shared;
	int worker; /* my number, 0 ... */
};

/* ---- locks ---- */

/** How one acquire went. */
struct grant {
	int code;           /* LOCKSHM_OK, LOCKSHM_OWNER_DIED ... or negative: not held */
	int64_t granted_ns; /* CLOCK_MONOTONIC, right after it */
	struct lockshm_report report;
};

/** Take the lock @key; also returns grant->code.  @tag may be NULL. */
int app_lock(struct app *app, const char *key, int mode, int64_t ttl_ns, const char *tag, lockshm_hold_t *hold,
	     struct grant *grant);
/** The same for what a dead holder may leave torn: until it is acknowledged the code is LOCKSHM_OWNER_DIED then. */
int app_lock_robust(struct app *app, const char *key, int mode, int64_t ttl_ns, const char *tag, lockshm_hold_t *hold,
		    struct grant *grant);

/**
 * crash_step - keep the compiler from moving stores across this point
 * A killed process stops between two instructions, and whatever it had stored until then is visible to the next
 * holder of the lock: the library's promise.  So the order of stores in the program is all that a repair relies
 * on, and only the compiler could change it.
 */
static inline void crash_step(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

/* ---- cache and counter ---- */

enum page_source { PAGE_HIT = 2, PAGE_WAITED, PAGE_FETCHED };

struct page {
	enum page_source source;
	size_t len; /* 0 = there is no such page */
	char body[PAGE_MAX];
};

/** Return: 0; a negative lockshm code; CACHE_BACKEND_FAILED. */
int cache_get(struct app *app, const char *key, struct page *page, struct grant *grant);
enum { CACHE_BACKEND_FAILED = -1000 };

struct count {
	uint64_t total;
	uint64_t repairs;
	int sound; /* total is the sum of the parts */
};

/** Add one.  With @die the worker kills itself half-way.  Return: grant->code. */
int counter_add(struct app *app, int die, struct count *count, struct grant *grant);
int counter_read(struct app *app, struct count *count, struct grant *grant);

/* ---- HTTP ---- */

struct request {
	char path[160];
	char query[64]; /* what follows '?', or "" */
};

struct reply {
	int status;
	const char *note;   /* one word about how it went, or NULL */
	struct grant grant; /* of the lock that mattered; code and times go into the header */
	size_t len;
	char body[4096];
};

/** Read one request from @fd.  Return: 0, or the HTTP status to refuse it with; -1 = no client. */
int http_read(int fd, struct request *request);
void http_write(int fd, const struct reply *reply);
/** Append to the body; what does not fit is cut off. */
void reply_printf(struct reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));

void route(struct app *app, const struct request *request, struct reply *reply);

#endif /* PREFORK_H */
