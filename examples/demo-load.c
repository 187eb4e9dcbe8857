/* SPDX-License-Identifier: MIT */
/*
 * demo-load.c - many clients count while workers are killed at random; then the books must balance
 *
 * Every GET /count that was answered with 200 gave its client a number.  If no update was lost then
 *  - no two clients got the same number, and a larger number came with a larger token;
 *  - the counter has risen by at least the answered requests, and by at most these plus the cut off ones (a
 *    worker may be killed after counting and before answering);
 *  - no request was refused: no lock stayed closed because its holder was dead.
 */
#include "demo.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct receipt {
	int64_t number; /* first: compare_i64() sorts by it */
	uint64_t token;
};

struct client {
	pthread_t thread;
	int port;
	struct receipt *receipts;
	size_t n, room;
	unsigned long cut_off, refused, reads;
	int64_t slowest_ns;
};

static atomic_bool stop;

static void keep(struct client *c, const struct response *r)
{
	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 256;
		c->receipts = realloc(c->receipts, c->room * sizeof(*c->receipts));
		if (!c->receipts)
			fail("no memory");
	}
	c->receipts[c->n++] = (struct receipt){ strtoll(r->body, NULL, 10), r->token };
}

static void count_once(struct client *c)
{
	struct response r;

	if (http_get(c->port, "/count", &r) < 0)
		c->cut_off++;
	else if (r.status != 200)
		c->refused++;
	else
		keep(c, &r);
	c->slowest_ns = r.took_ns > c->slowest_ns ? r.took_ns : c->slowest_ns;
}

/* Readers share the lock, and are killed too. */
static void read_once(struct client *c)
{
	struct response r;

	if (http_get(c->port, "/read", &r) == 0) {
		c->reads++;
		c->refused += r.status != 200;
	}
	c->slowest_ns = r.took_ns > c->slowest_ns ? r.took_ns : c->slowest_ns;
}

static void *client_main(void *arg)
{
	struct client *c = arg;

	for (unsigned i = 0; !stop; i++)
		if (i % 4 == 3)
			read_once(c);
		else
			count_once(c);
	return NULL;
}

/* ---- killing ---- */

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Some time later, at a moment that has nothing to do with theirs.  Return: 1 if a worker was killed. */
static int kill_any(int port, pid_t master, uint32_t *random)
{
	pid_t pids[64];
	struct response r;
	size_t n = 0;
	char *s = get_stat(port, "workers ", &r);

	while (n < 64 && *s >= '0' && *s <= '9') {
		pids[n++] = (pid_t)strtol(s, &s, 10);
		s += *s == ' ';
	}
	nanosleep(&(struct timespec){ .tv_nsec = (long)(10000 + next_random(random) % 40000) * 1000 }, NULL);
	return n > 0 && kill_worker(pids[next_random(random) % n], master) != 0;
}

/* Return: number of kills. */
static unsigned long kill_for(int port, pid_t master, int64_t ms, uint32_t seed)
{
	int64_t end = now_ns() + ms * 1000000;
	unsigned long kills = 0;
	uint32_t random = seed ? seed : 1;

	while (now_ns() < end)
		kills += (unsigned long)kill_any(port, master, &random);
	return kills;
}

/* ---- checking ---- */

struct books {
	int64_t before, after;
	size_t acknowledged;
	unsigned long cut_off, refused, reads;
	int64_t slowest_ns;
	struct receipt *receipts;
};

static void collect(struct books *b, struct client *clients, int n)
{
	for (int i = 0; i < n; i++)
		b->acknowledged += clients[i].n;
	b->receipts = calloc(b->acknowledged + 1, sizeof(*b->receipts));
	if (!b->receipts)
		fail("no memory");
	b->acknowledged = 0;
	for (int i = 0; i < n; i++) {
		struct client *c = &clients[i];

		if (c->n)
			memcpy(b->receipts + b->acknowledged, c->receipts, c->n * sizeof(*c->receipts));
		b->acknowledged += c->n;
		b->cut_off += c->cut_off;
		b->refused += c->refused;
		b->reads += c->reads;
		b->slowest_ns = c->slowest_ns > b->slowest_ns ? c->slowest_ns : b->slowest_ns;
		free(c->receipts);
	}
	qsort(b->receipts, b->acknowledged, sizeof(*b->receipts), compare_i64);
}

static void check(const struct books *b)
{
	int64_t risen = b->after - b->before;
	struct receipt last = { b->before, 0 };

	for (size_t i = 0; i < b->acknowledged; i++) {
		const struct receipt *r = &b->receipts[i];

		if (r->number <= last.number)
			fail("number %" PRId64 " was given twice: an update was lost", r->number);
		if (r->token <= last.token)
			fail("number %" PRId64 " came with an older token than the one before", r->number);
		last = *r;
	}
	if (last.number > b->after)
		fail("number %" PRId64 " was given, but the counter is at %" PRId64, last.number, b->after);
	if (risen < (int64_t)b->acknowledged || risen > (int64_t)(b->acknowledged + b->cut_off))
		fail("the counter rose by %" PRId64 ": %zu acknowledged, %lu cut off", risen, b->acknowledged,
		     b->cut_off);
	if (b->refused)
		fail("%lu requests were refused", b->refused);
	if (b->acknowledged == 0)
		fail("nothing was counted");
}

static void start_clients(struct client *clients, int n, int port)
{
	for (int i = 0; i < n; i++) {
		clients[i].port = port;
		if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
			fail("no thread could be started");
	}
}

static void stop_clients(struct client *clients, int n)
{
	stop = 1;
	for (int i = 0; i < n; i++)
		pthread_join(clients[i].thread, NULL);
}

/* PORT MASTER MILLISECONDS CLIENTS SEED */
int cmd_load(char **args)
{
	int port = atoi(args[0]), n = atoi(args[3]);
	int64_t ms = strtoll(args[2], NULL, 10);
	struct client *clients = calloc((size_t)n, sizeof(*clients));
	struct books b = { .before = stat_number(port, "count ") };
	int64_t repairs = stat_number(port, "repairs ");
	unsigned long kills;

	if (!clients)
		fail("no memory");
	start_clients(clients, n, port);
	kills = kill_for(port, atoi(args[1]), ms, (uint32_t)strtoul(args[4], NULL, 10));
	stop_clients(clients, n);
	collect(&b, clients, n);
	b.after = stat_number(port, "count ");
	repairs = stat_number(port, "repairs ") - repairs;
	printf("   %zu increments acknowledged and %lu reads in %.1f s, %lu workers killed (seed %s)\n", b.acknowledged,
	       b.reads, (double)ms / 1000, kills, args[4]);
	printf("   %lu increments cut off by a kill, %" PRId64 " torn updates repaired; slowest answer %.0f ms\n",
	       b.cut_off, repairs, (double)b.slowest_ns / 1e6);
	check(&b);
	printf("   counter rose by %" PRId64 ": every acknowledged increment is there, no number was given twice\n",
	       b.after - b.before);
	free(b.receipts);
	free(clients);
	return 0;
}
