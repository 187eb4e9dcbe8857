/* SPDX-License-Identifier: MIT */
/*
 * chaos-stopped.c - a holder is stopped with a lease; all requests behind it are granted soon after the lease
 *
 *   chaos-stopped [SECONDS [SEED [BOUND_MS]]]       3 seconds, a seed from the clock and 10000 ms if not given
 *
 * Some tables at one time, each with a key, a process that holds and others that wait, while other processes keep all
 * processors busy.  Half of the requests are made by threads, half by event loops.  In a round the holder takes the key with a short lease and is stopped: while it does nothing, or in
 * the middle of renewing, releasing, changing its mode, checking.  One to five others ask for the key, before the stop
 * or after it, shared or exclusive.  Some of them time out or are cancelled, one may be stopped itself and one may be
 * killed.  The others must all be granted by the time at which all leases before them are over, with BOUND_MS to spare:
 * many times what a lost wake-up costs, so that only a queue that stands still fails; 2000 where the machine is not
 * full.  Time in which the test itself was not let run does not count.
 *
 * A seed gives the same rounds again; at which instruction a stop hits is up to the kernel.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chaos-stopped.h"
#include "support/rows.h"

enum {
	TABLES = 3,
	ACTORS = 6, /* the first one holds */
	KEYS = 4,
	LEASE_MIN_MS = 2,
	LEASE_MAX_MS = 40,
	BOUND_MS = 10000, /* for a machine that has other things to do */
	LONG_WAIT_MS = 60000, /* never reached */
	TICK_MS = 5,
	STARVED_MS = 20, /* a tick that took this long was not the locks' fault */
	LATE_MS = 150, /* a self-check and some: worth counting */
};

static const char *const habit_names[HABITS] = {
	"sits", "renews", "releases", "changes mode", "checks", "auto-renews"
};

struct totals {
	uint64_t rounds, grants, loop_grants, timeouts, cancels, kills, stopped_waiters, late;
	int64_t worst_ns;
};

static char name[64];
static struct totals *totals; /* shared; one for each table */
static uint64_t seed, state;
static int64_t bound = LOCKSHM_MS(BOUND_MS);

static void nap(int64_t ns)
{
	nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(mix(state += UINT64_C(0x9e3779b97f4a7c15)) % n);
}

/* ---------------------------------------------------------------- a table */

static struct actor actors[ACTORS];
static struct totals *mine;

static void tell_request(const struct lockshm_row *row)
{
	const struct lockshm_blocker *r = &row->request;

	printf("    %s %s pid %d %s ticket %" PRIu64 " since %.1f ms, %.1f ms left\n",
	       r->state == LOCKSHM_WAITING ? "waits" : "holds", r->mode == LOCKSHM_EXCLUSIVE ? "exclusive" : "shared",
	       (int)r->pid, row->alive ? "alive" : "dead", r->ticket, (double)r->age_ns / 1e6,
	       (double)r->expires_in_ns / 1e6);
}

/* The queue as it stands, and a copy of the segment. */
static void fail(const char *what, const char *key, int64_t late_ns)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	char command[256];
	unsigned i;
	int code;

	printf("FAIL: seed %" PRIu64 ", table %d, round %" PRIu64 ": %s; %.1f ms past all leases; the queue of %s:\n",
	       seed, (int)(mine - totals), mine->rounds, what, (double)late_ns / 1e6, key);
	EACH_ROW(row, code, chaos_locks, LOCKSHM_LIST_KEY, key, strlen(key))
		if (row.request.state)
			tell_request(&row);
	for (i = 0; i < ACTORS; i++)
		printf("    actor %u: pid %d%s%s%s%s, holder %s\n", i, (int)actors[i].pid,
		       actors[i].busy ? ", waits" : "", actors[i].stopped ? ", stopped" : "",
		       actors[i].hurried ? ", hurried" : "", actors[i].cancelled ? ", cancelled" : "",
		       actors[i].order.habit < HABITS ? habit_names[actors[i].order.habit] : "no");
	fflush(stdout);
	snprintf(command, sizeof(command), "cp /dev/shm%s chaos-stopped-%" PRIu64 ".segment", name, seed);
	if (system(command) == 0)
		printf("the segment is in chaos-stopped-%" PRIu64 ".segment\n", seed);
	exit(EXIT_FAILURE);
}

static int64_t any_lease(void)
{
	return LOCKSHM_MS(LEASE_MIN_MS + below(LEASE_MAX_MS - LEASE_MIN_MS));
}

static int any_mode(void)
{
	return below(5) < 2 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
}

static bool hear(struct actor *a)
{
	int code;

	if (!actor_hear(a))
		return false;
	code = a->answer.code;
	mine->grants += code >= 0;
	mine->loop_grants += code >= 0 && a->order.by_loop;
	mine->timeouts += code == LOCKSHM_TIMEOUT;
	mine->cancels += code == LOCKSHM_CANCELLED;
	if (code < 0 && !(code == LOCKSHM_TIMEOUT && a->hurried) && !(code == LOCKSHM_CANCELLED && a->cancelled))
		fail(lockshm_code_name(code), a->order.key, 0);
	return true;
}

/* How long actors of this round were kept from running: each delay may have delayed the others. */
static int64_t excused(void)
{
	int64_t sum = 0;
	unsigned i;

	for (i = 0; i < ACTORS; i++)
		sum += actor_run_delay(&actors[i]) - actors[i].delay;
	return sum;
}

/* How late the last grant of the round was. */
static void check_round(const char *key, int64_t due)
{
	int64_t last = 0, late;
	unsigned i;

	for (i = 0; i < ACTORS; i++)
		if (!actors[i].hurried && actors[i].answer.at > last)
			last = actors[i].answer.at;
	late = last - due;
	if (late > LOCKSHM_MS(TICK_MS))
		late -= excused();
	if (late > mine->worst_ns)
		mine->worst_ns = late;
	mine->late += late > LOCKSHM_MS(LATE_MS);
	if (late > bound)
		fail("a waiter was granted late", key, late);
}

/* Every actor that is not stopped must have replied soon after @due.  Returns how long this process was kept from
 * running. */
static int64_t hear_all(const char *key, int64_t due)
{
	int64_t now, last = chaos_now(), starved = 0;
	struct pollfd fds[ACTORS];
	unsigned i, n;

	for (;; last = now) {
		for (i = n = 0; i < ACTORS; i++)
			if (actors[i].busy && !actors[i].stopped && !hear(&actors[i]))
				fds[n++] = (struct pollfd){ actors[i].fd, POLLIN, 0 };
		now = chaos_now();
		if (now - last > LOCKSHM_MS(STARVED_MS))
			starved += now - last;
		if (n == 0)
			return starved;
		if (now - due > bound && now - due - starved - excused() > bound)
			fail("a waiter is not granted", key, now - due);
		poll(fds, n, TICK_MS);
	}
}

static void ask(struct actor *a, const char *key)
{
	struct order o = { .mode = any_mode(), .habit = HABITS, .timeout_ns = LOCKSHM_MS(LONG_WAIT_MS) };

	snprintf(o.key, sizeof(o.key), "%s", key);
	/* A waiter with a short lease has more frequent self-checks. */
	o.ttl_ns = below(3) ? LOCKSHM_SECONDS(1000) : any_lease();
	o.by_loop = below(2);
	if (below(4) == 0)
		o.timeout_ns = LOCKSHM_MS(1 + below(LEASE_MAX_MS * 2));
	actor_give(a, &o);
	a->hurried = o.timeout_ns < LOCKSHM_MS(LONG_WAIT_MS);
	if (below(3) == 0)
		nap(below(3000000));
}

/* One waiter is stopped, with a lease that ends if it is granted, and one is killed or cancelled. */
static int64_t disturb(unsigned waiters)
{
	struct actor *a = &actors[1 + below(waiters)], *b = &actors[1 + below(waiters)];
	int64_t lease = 0;

	if (below(3) == 0 && a->busy && !a->hurried && a->order.ttl_ns < LOCKSHM_SECONDS(1)) {
		actor_stop(a);
		lease = a->order.ttl_ns;
		mine->stopped_waiters++;
	}
	if (a == b || !b->busy || below(3))
		return lease;
	if (below(2)) {
		actor_dismiss(b);
		mine->kills++;
		return lease;
	}
	actor_cancel(b);
	return lease;
}

static void play_round(int table)
{
	struct order o = { .mode = any_mode(), .ttl_ns = any_lease(), .timeout_ns = LOCKSHM_MS(LONG_WAIT_MS) };
	unsigned i, waiters = 1 + below(ACTORS - 1), before = below(waiters + 1);
	int64_t leases, lease, starved;

	for (i = 0; i < ACTORS; i++)
		actors[i].delay = actor_run_delay(&actors[i]);
	snprintf(o.key, sizeof(o.key), "table-%d-%u", table, below(KEYS));
	o.habit = (int)below(HABITS);
	o.by_loop = below(2);
	if (o.habit == AUTO_RENEWS)
		o.ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN;
	actor_give(&actors[0], &o);
	hear_all(o.key, chaos_now());
	for (i = 1; i <= before; i++)
		ask(&actors[i], o.key);
	if (below(2))
		nap(below(2000000));
	actor_stop(&actors[0]);
	leases = chaos_now() + o.ttl_ns;
	for (; i <= waiters; i++)
		ask(&actors[i], o.key);
	lease = disturb(waiters);
	/* Only now: on a loaded machine the order and the stop take long. */
	if (leases < chaos_now())
		leases = chaos_now();
	leases += lease;
	starved = hear_all(o.key, leases);
	check_round(o.key, leases + starved);
	actor_give(&actors[0], &(struct order){ .key = "" });
	for (i = 0; i < ACTORS; i++)
		actor_let_run(&actors[i]);
	hear_all(o.key, chaos_now() + LOCKSHM_MS(LEASE_MAX_MS));
	mine->rounds++;
}

static _Noreturn void table_main(int table, int64_t end)
{
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mine = &totals[table];
	state = mix(seed + (uint64_t)table);
	for (i = 0; i < ACTORS; i++)
		actor_hire(&actors[i]);
	while (chaos_now() < end)
		play_round(table);
	for (i = 0; i < ACTORS; i++)
		kill(actors[i].pid, SIGKILL);
	exit(EXIT_SUCCESS);
}

/* ---------------------------------------------------------------- all */

static pid_t start_load(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)below(2);
}

static int report(int64_t seconds, int status)
{
	struct totals sum = { 0 };
	size_t problems;
	int i, code = lockshm_verify(chaos_locks, NULL, NULL, &problems);

	for (i = 0; i < TABLES; i++) {
		sum.rounds += totals[i].rounds;
		sum.grants += totals[i].grants;
		sum.loop_grants += totals[i].loop_grants;
		sum.timeouts += totals[i].timeouts;
		sum.cancels += totals[i].cancels;
		sum.kills += totals[i].kills;
		sum.stopped_waiters += totals[i].stopped_waiters;
		sum.late += totals[i].late;
		if (totals[i].worst_ns > sum.worst_ns)
			sum.worst_ns = totals[i].worst_ns;
	}
	printf("chaos-stopped: %" PRId64 " s, seed %" PRIu64 ": %" PRIu64 " stopped holders, %" PRIu64
	       " grants (%" PRIu64 " of loops), %" PRIu64 " time-outs, %" PRIu64 " cancelled, %" PRIu64 " waiters killed, %" PRIu64
	       " stopped; latest %.1f ms past all leases, %" PRIu64 " later than %d ms; verify %zu\n",
	       seconds, seed, sum.rounds, sum.grants, sum.loop_grants, sum.timeouts, sum.cancels, sum.kills, sum.stopped_waiters,
	       (double)sum.worst_ns / 1e6, sum.late, LATE_MS, problems);
	if (problems == 0 && sum.rounds == 0) {
		puts("FAIL: no round was finished");
		return EXIT_FAILURE;
	}
	return code ? EXIT_FAILURE : status;
}

static void remove_segment(void)
{
	if (getpid() == atoi(strrchr(name, '-') + 1))
		lockshm_destroy(name, NULL);
}

int main(int argc, char **argv)
{
	int64_t seconds = argc > 1 ? strtoll(argv[1], NULL, 10) : 3, end;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int i, status, result = EXIT_SUCCESS;
	pid_t tables[TABLES];

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	if (seed == 0)
		seed = (uint64_t)chaos_now() % 1000000000;
	if (argc > 3)
		bound = LOCKSHM_MS(strtoll(argv[3], NULL, 10));
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("chaos-stopped: %" PRId64 " s, seed %" PRIu64 "\n", seconds, seed);
	snprintf(name, sizeof(name), "/lockshm-chaos-stopped-%d", (int)getpid());
	totals = mmap(NULL, sizeof(*totals) * TABLES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (totals == MAP_FAILED || lockshm_create(&chaos_locks, name, NULL, NULL) != 0)
		chaos_broken("chaos-stopped: no segment");
	atexit(remove_segment);
	end = chaos_now() + LOCKSHM_SECONDS(seconds);
	for (i = 0; i < cpus && i < 8; i++)
		start_load();
	for (i = 0; i < TABLES; i++) {
		tables[i] = fork();
		if (tables[i] == 0)
			table_main(i, end);
	}
	for (i = 0; i < TABLES; i++)
		if (waitpid(tables[i], &status, 0) != tables[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			result = EXIT_FAILURE;
	result = report(seconds, result);
	/* The actors of the tables ended with them, the load ends with us. */
	return result;
}
