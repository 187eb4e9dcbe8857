/* SPDX-License-Identifier: MIT */
/*
 * scenario-loop-crowd.c - many waits on event loops: 10,000 requests for one key wait in some processes, which asked in
 * turn; from the release ("lockshm"), or from the SIGKILL of the holder ("killed"), until all were served, for each
 */
#include "bench-side.h"

#include <string.h>

#define WAITS_MAX 10000

static const uint32_t waits[BENCH_EFFORTS] = { 200, WAITS_MAX, WAITS_MAX };

struct crowd {
	enum bench_mode mode;
	uint32_t waits;  /* of each process */
	uint32_t wanted; /* of all */
	uint32_t procs, turn;
	uint32_t started;
	uint32_t held, go, asking, over;
	uint32_t served __attribute__((aligned(64)));
	uint64_t released_at, last_at;
};

static void crowd_hold(void *arg)
{
	struct crowd *c = arg;
	struct lockshm_request q = request_for(BENCH_EXCLUSIVE);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct side me;

	attach(&me);
	must(lockshm_acquire(me.segment, &q, &hold), "lockshm_acquire");
	bench_set(&c->held, 1);
	if (!bench_wait(&c->go, 1, WAIT_MS))
		bench_fail("the others do not come to wait");
	c->released_at = bench_ticks();
	must(lockshm_release(&hold, 0), "lockshm_release");
	(void)bench_wait(&c->over, 1, WAIT_MS); /* ending now would disturb the others */
	detach(&me);
}

/* In turn: each hand-over of an exclusive hold is one to another process, and neighbouring readers are of different ones. */
static void crowd_ask(struct crowd *c, const struct side *me, const struct lockshm_request *q, lockshm_hold_t *holds)
{
	uint32_t number = __atomic_fetch_add(&c->started, 1, __ATOMIC_SEQ_CST);

	for (uint32_t i = 0; i < c->waits; i++) {
		if (!bench_wait(&c->turn, i * c->procs + number, WAIT_MS))
			bench_fail("another process does not take its turn");
		if (lockshm_loop_acquire(me->loop, q, &holds[i], NULL) != LOCKSHM_PENDING)
			bench_fail("a held lock was granted");
		bench_add(&c->turn);
	}
}

/* Each wait releases as soon as it is collected. */
static void crowd_want(void *arg)
{
	static lockshm_hold_t holds[WAITS_MAX];
	struct crowd *c = arg;
	struct lockshm_request q = request_for(c->mode);
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct side me;

	attach(&me);
	crowd_ask(c, &me, &q, holds);
	bench_add(&c->asking);
	for (uint32_t i = 0; i < c->waits; i++) {
		collect(&me, &outcome);
		if (__atomic_add_fetch(&c->served, 1, __ATOMIC_SEQ_CST) == c->wanted)
			c->last_at = bench_ticks();
		must(lockshm_release(outcome.hold, 0), "lockshm_release");
	}
	if (__atomic_load_n(&c->served, __ATOMIC_SEQ_CST) == c->wanted)
		bench_set(&c->over, 1);
	(void)bench_wait(&c->over, 1, WAIT_MS); /* ending now would disturb the others */
	detach(&me);
}

static void crowd_measure(struct crowd *c, const struct point *p, bool kill)
{
	pid_t holder = bench_spawn(bench_cpu(0), crowd_hold, c), pid[64];

	if (!bench_wait(&c->held, 1, WAIT_MS))
		bench_fail("the holder does not get the lock");
	for (int i = 0; i < p->procs; i++)
		pid[i] = bench_spawn(bench_cpu(i), crowd_want, c);
	if (!bench_wait(&c->asking, (uint32_t)p->procs, WAIT_MS))
		bench_fail("a process does not come to wait");
	usleep(20000); /* until their threads sleep */
	if (kill) {
		c->released_at = bench_ticks();
		bench_kill(holder);
	} else {
		bench_set(&c->go, 1);
	}
	if (!bench_wait(&c->over, 1, WAIT_MS))
		bench_fail("not all waits were served");
	if (!kill)
		bench_reap(holder, "loop-crowd");
	for (int i = 0; i < p->procs; i++)
		bench_reap(pid[i], "loop-crowd");
	result_add(p, kill ? "killed" : "lockshm", NS,
		   (double)(c->last_at - c->released_at) * bench_ns_per_tick / c->wanted, 0);
}

static void run_crowd(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 2 * WAITS_MAX, .procs = (uint32_t)p->procs + 1 };
	static struct crowd *c;

	if (!c)
		c = bench_share(sizeof(*c));
	for (int kill = 0; kill < 2; kill++) {
		memset(c, 0, sizeof(*c));
		c->mode = p->mode;
		c->procs = (uint32_t)p->procs;
		c->waits = waits[bench_effort] / (uint32_t)p->procs;
		c->wanted = c->waits * (uint32_t)p->procs;
		if (bench_create(lock, &need))
			return;
		crowd_measure(c, p, kill);
		bench_destroy(lock);
	}
}

const struct scenario scenario_loop_crowd = {
	.name = "loop-crowd",
	.what = "10,000 waits for one key on event loops: from release or kill until all are served, for each",
	.first = NS,
	.fits = fits_loops,
	.run = run_crowd,
	.procs = { { 2 }, { 1, 8 }, { 1, 8 } },
	.shared = true,
};
