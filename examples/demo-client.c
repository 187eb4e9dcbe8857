/* SPDX-License-Identifier: MIT */
/*
 * demo-client.c - drives the prefork example: requests, kills, measurements and checks
 *
 * Links nothing but the library and libc, so that the demo needs no tool to be installed.  Every command ends
 * with status 0, or 1 and a line "FAILED: ...".
 */
#include "demo.h"

#include <lockshm.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- looking into the segment ---- */

struct queue {
	size_t holders, waiters;
	pid_t holder, last_waiter;
};

static struct queue queue_of(lockshm_t *segment, const char *key)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	struct queue q = { 0 };
	lockshm_list_t *list;

	if (lockshm_list_open(&list, segment, LOCKSHM_LIST_KEY, LOCKSHM_KEY(key)) < 0)
		fail("cannot look at %s", key);
	while (lockshm_list_next(list, &row) == 1) {
		q.holders = row.holders;
		q.waiters = row.waiters;
		if (row.request.state == LOCKSHM_WAITING)
			q.last_waiter = row.request.pid;
		else if (row.request.state && !q.holder)
			q.holder = row.request.pid;
	}
	lockshm_list_close(list);
	return q;
}

static lockshm_t *open_segment(const char *name)
{
	struct lockshm_error error = { 0 };
	lockshm_t *segment = NULL;

	if (lockshm_open(&segment, name, LOCKSHM_OPEN_READ_ONLY, &error) < 0)
		fail("%s: %s", name, error.message);
	return segment;
}

/* Until @key has so many holders and waiters, and the last waiter is asleep. */
static struct queue await_queue(lockshm_t *segment, const char *key, size_t holders, size_t waiters)
{
	int64_t deadline = now_ns() + LOCKSHM_SECONDS(10);
	struct queue q = { 0 };
	pid_t parent;

	while (now_ns() < deadline) {
		q = queue_of(segment, key);
		if (q.holders == holders && q.waiters == waiters &&
		    (waiters == 0 || process_state(q.last_waiter, &parent) == 'S'))
			return q;
		nanosleep(&(struct timespec){ .tv_nsec = 200 * 1000 }, NULL);
	}
	fail("%s: %zu holders and %zu waiters after 10 s, not %zu and %zu", key, q.holders, q.waiters, holders,
	     waiters);
}

static int cmd_await(char **args)
{
	lockshm_t *segment = open_segment(args[0]);

	await_queue(segment, args[1], strtoul(args[2], NULL, 10), strtoul(args[3], NULL, 10));
	lockshm_close(segment);
	return 0;
}

/* ---- get ---- */

/* One line: the time of the grant, and the reply. */
static int cmd_get(char **args)
{
	struct response r;

	if (http_get(atoi(args[0]), args[1], &r) < 0)
		fail("GET %s: no answer, the worker is gone", args[1]);
	printf("   %10.4f  GET %-25s %d", (double)r.granted_ns / 1e9, args[1], r.status);
	if (r.lock[0])
		printf("  worker %d  token %" PRIu64 "  waited %5.1f ms", r.worker, r.token, (double)r.waited_us / 1e3);
	if (r.previous_pid)
		printf("  %s pid %d", r.lock, r.previous_pid);
	printf("%s%s\n", r.note[0] ? "  " : "", r.note);
	return 0;
}

/* The worker that serves it is expected to die over it. */
static int cmd_die(char **args)
{
	struct response r;

	if (http_get(atoi(args[0]), args[1], &r) == 0)
		fail("GET %s: answered with status %d, but the worker should be dead", args[1], r.status);
	printf("   %10.4f  GET %-25s no answer, the worker is dead\n", (double)now_ns() / 1e9, args[1]);
	return 0;
}

/* ---- herd ---- */

struct runner {
	pthread_t thread;
	pthread_barrier_t *start;
	int port;
	const char *path;
	int rc;
	struct response response;
};

static void *run(void *arg)
{
	struct runner *r = arg;

	if (r->start)
		pthread_barrier_wait(r->start);
	r->rc = http_get(r->port, r->path, &r->response);
	return NULL;
}

static void start(struct runner *r, pthread_barrier_t *barrier, int port, const char *path)
{
	r->start = barrier;
	r->port = port;
	r->path = path;
	if (pthread_create(&r->thread, NULL, run, r) != 0)
		fail("no thread could be started");
}

static int count_notes(const struct runner *runners, int n, const char *note)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += strcmp(runners[i].response.note, note) == 0;
	return sum;
}

/* All at once.  Return: ns of the slowest. */
static int64_t run_all(struct runner *runners, int n, int port, const char *path)
{
	pthread_barrier_t barrier;
	int64_t slowest = 0;

	if (pthread_barrier_init(&barrier, NULL, (unsigned)n) != 0)
		fail("no memory");
	for (int i = 0; i < n; i++)
		start(&runners[i], &barrier, port, path);
	for (int i = 0; i < n; i++) {
		pthread_join(runners[i].thread, NULL);
		if (runners[i].response.took_ns > slowest)
			slowest = runners[i].response.took_ns;
	}
	pthread_barrier_destroy(&barrier);
	return slowest;
}

static void check_all(const struct runner *runners, int n, int status)
{
	for (int i = 0; i < n; i++) {
		const struct response *r = &runners[i].response;

		if (runners[i].rc < 0 || r->status != status)
			fail("request %d of %d: status %d instead of %d", i + 1, n, r->status, status);
		if (strcmp(r->body, runners[0].response.body) != 0)
			fail("two requests got different pages");
	}
}

/* PORT PATH REQUESTS STATUS CALLS: all at once, each with this status, the backend asked so often */
static int cmd_herd(char **args)
{
	int port = atoi(args[0]), n = atoi(args[2]), status = atoi(args[3]), expected = atoi(args[4]);
	struct runner *runners = calloc((size_t)n, sizeof(*runners));
	int64_t slowest, before = stat_number(port, "fetched ");
	int calls;

	if (!runners)
		fail("no memory");
	slowest = run_all(runners, n, port, args[1]);
	calls = (int)(stat_number(port, "fetched ") - before);
	check_all(runners, n, status);
	printf("   %2d requests, status %d: backend asked %d time%s", n, status, calls, calls == 1 ? "" : "s");
	printf(" (%d fetched, %d waited, %d found it), slowest %.0f ms\n", count_notes(runners, n, "fetched"),
	       count_notes(runners, n, "waited"), count_notes(runners, n, "hit"), (double)slowest / 1e6);
	if (calls != expected)
		fail("the backend was asked %d times instead of %d", calls, expected);
	free(runners);
	return 0;
}

/* ---- handover ---- */

struct handover {
	int port;
	pid_t master;
	lockshm_t *segment;
	const char *key;
	const char *hold_path, *next_path;
};

/* One worker holds, the next waits asleep, the first is killed.  Return: ns from the kill to the grant. */
static int64_t handover_once(const struct handover *h, struct response *next)
{
	struct runner victim = { 0 }, heir = { 0 };
	int64_t killed;
	pid_t holder;

	start(&victim, NULL, h->port, h->hold_path);
	holder = await_queue(h->segment, h->key, 1, 0).holder;
	start(&heir, NULL, h->port, h->next_path);
	await_queue(h->segment, h->key, 1, 1);
	killed = kill_worker(holder, h->master);
	pthread_join(victim.thread, NULL);
	pthread_join(heir.thread, NULL);
	*next = heir.response;
	if (killed == 0 || victim.rc == 0)
		fail("the holder %d could not be killed", (int)holder);
	if (heir.rc < 0 || next->status != 200)
		fail("the next one was not served: status %d", next->status);
	if (strcmp(next->lock, "OWNER_DIED") != 0 || next->previous_pid != holder)
		fail("the next one got %s for pid %d, not OWNER_DIED for pid %d", next->lock,
		     next->previous_pid, (int)holder);
	if (next->token <= next->previous_token)
		fail("token %" PRIu64 " after token %" PRIu64, next->token, next->previous_token);
	return next->granted_ns - killed;
}

/* PORT SEGMENT MASTER ROUNDS */
static int cmd_handover(char **args)
{
	struct handover h = {
		.port = atoi(args[0]),
		.master = atoi(args[2]),
		.segment = open_segment(args[1]),
		.key = "hold/till",
		.hold_path = "/hold/till/20000?victim",
		.next_path = "/hold/till/0?next",
	};
	int rounds = atoi(args[3]);
	int64_t *ns = calloc((size_t)rounds, sizeof(*ns));
	struct response next;

	if (!ns)
		fail("no memory");
	for (int i = 0; i < rounds; i++) {
		ns[i] = handover_once(&h, &next);
		if (i == 0)
			printf("   the next holder got: %s, pid %d, token %" PRIu64 "; its own is %" PRIu64 "\n",
			       next.lock, next.previous_pid, next.previous_token, next.token);
	}
	qsort(ns, (size_t)rounds, sizeof(*ns), compare_i64);
	printf("   from SIGKILL to the next grant, %d kills: best %.3f ms, median %.3f ms, worst %.3f ms\n", rounds,
	       (double)ns[0] / 1e6, (double)ns[rounds / 2] / 1e6, (double)ns[rounds - 1] / 1e6);
	if (ns[rounds / 2] > LOCKSHM_MS(20))
		fail("that is not at once");
	lockshm_close(h.segment);
	free(ns);
	return 0;
}

static const struct command {
	const char *name;
	int args;
	int (*run)(char **args);
	const char *usage;
} commands[] = {
	{ "await", 4, cmd_await, "SEGMENT KEY HOLDERS WAITERS" },
	{ "die", 2, cmd_die, "PORT PATH" },
	{ "get", 2, cmd_get, "PORT PATH" },
	{ "handover", 4, cmd_handover, "PORT SEGMENT MASTER ROUNDS" },
	{ "herd", 5, cmd_herd, "PORT PATH REQUESTS STATUS BACKEND-CALLS" },
	{ "load", 5, cmd_load, "PORT MASTER MILLISECONDS CLIENTS SEED" },
};

int main(int argc, char **argv)
{
	size_t n = sizeof(commands) / sizeof(*commands);

	for (size_t i = 0; i < n && argc > 1; i++)
		if (strcmp(argv[1], commands[i].name) == 0 && argc == 2 + commands[i].args)
			return commands[i].run(argv + 2);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "usage: demo-client %s %s\n", commands[i].name, commands[i].usage);
	return 2;
}
