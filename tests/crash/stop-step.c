/* SPDX-License-Identifier: MIT */
/*
 * stop-step.c - stopped at every step: the same victims as in crash-step.c, with short leases, caught by SIGSTOP
 *
 * While the victim stands still, for longer than its lease if it has a request at all, the others must get on.  Then
 * SIGCONT lets it run on from exactly there: in every other round while the writer holds the key, else when all is
 * over.  It must learn the truth and damage nothing:
 *   - its hold counts as held only if no larger token was granted exclusively, and never together with the writer's
 *   - a call that ends a hold returns LOST if and only if a grant reported that this hold overran its
 *     lease, or reported something worse instead
 *   - the writer's hold is untouched, the segment verifies clean, nothing leaks
 *
 *   stop-step               a sample of the points, the same in every run
 *   stop-step all [OP]      every point of all operations, or of one
 *   stop-step sample OP
 *
 * PART as for crash-step.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "step.h"

#define LEASE LOCKSHM_MS(40)
#define BOUND LOCKSHM_SECONDS(15)
#define SAMPLE 4

#define THROUGH (every ? 64 : 1)

static bool every;
static const char *only;

struct act {
	const struct step_op *op;
	struct scene *s;
	struct caught c;
	bool stopped; /* and not run through before it came to that */
	bool writer_holds;
};

/* The reader is served whenever its turn comes; true once the writer holds. */
static bool writer_has_it(struct act *a)
{
	if (a->s->reader->busy && scene_granted(a->s, a->s->reader, a->c.pid))
		scene_let_go(a->s, a->s->reader);
	return !a->s->writer->busy || scene_granted(a->s, a->s->writer, a->c.pid);
}

static void let_the_writer_in(struct act *a)
{
	int64_t start = now_ns();

	scene_ask(a->s);
	while (!writer_has_it(a))
		ck_assert_msg(now_ns() - start < BOUND, "%s: point %u: the writer waits behind a stopped process",
			      a->op->name, a->s->point);
	a->writer_holds = true;
}

static void let_the_writer_go(struct act *a)
{
	ck_code(agent_call(a->s->writer, AGENT_CHECK), 0);
	scene_let_go(a->s, a->s->writer);
	a->writer_holds = false;
}

static void serve_the_reader(struct act *a)
{
	int64_t start = now_ns();

	while (a->s->reader->busy) {
		ck_assert_msg(now_ns() - start < BOUND, "%s: the reader waits behind a stopped process", a->op->name);
		if (scene_granted(a->s, a->s->reader, a->c.pid))
			scene_let_go(a->s, a->s->reader);
	}
}

static bool waits(const struct act *a)
{
	static struct seen seen;
	size_t i;

	look(a->s->key, &seen);
	for (i = seen.holders; i < seen.holders + seen.waiters; i++)
		if (seen.requests[i].pid == a->c.pid)
			return true;
	return false;
}

static bool ended_or_waits(void *arg)
{
	struct act *a = arg;

	return step_ended(&a->c) || waits(a);
}

/* The reader may be queued before it. */
static bool ended(void *arg)
{
	struct act *a = arg;

	if (a->s->reader->busy && scene_granted(a->s, a->s->reader, a->c.pid))
		scene_let_go(a->s, a->s->reader);
	return step_ended(&a->c);
}

/* A call that keeps its hold finds it lost if and only if a grant reported an overrun. */
static void check_reports_agree(const struct act *a)
{
	const struct victim_result *r = a->s->result;

	ck_assert_msg(r->check == LOCKSHM_LOST || !a->s->overrun_reported, "%s: finds %s, others got a report of an overrun",
		      a->op->name, outcome_name(r->check));
	/* A death outranks an overrun in reports. */
	ck_assert_msg((r->check != LOCKSHM_LOST && r->code != LOCKSHM_LOST) || a->s->overrun_reported || a->s->death_reported,
		      "%s: says %s and finds %s, others got no report", a->op->name, outcome_name(r->code),
		      outcome_name(r->check));
	/* What is lost is not found again. */
	ck_assert_msg(r->code != LOCKSHM_LOST || r->check == LOCKSHM_LOST, "%s: says LOST and finds %s", a->op->name,
		      outcome_name(r->check));
}

static void check_truth(const struct act *a)
{
	const struct victim_result *r = a->s->result;
	bool claims = r->check == 0 || r->check == LOCKSHM_LATE;

	if (!a->stopped)
		return;
	ck_assert_int_eq(r->finished, 1);
	ck_assert_msg(!claims || (!a->writer_holds && r->token > a->s->last_exclusive),
		      "%s: claims token %llu, %llu was granted%s", a->op->name, (unsigned long long)r->token,
		      (unsigned long long)a->s->last_exclusive, a->writer_holds ? " and is held" : "");
	if (a->op->keeps_hold)
		check_reports_agree(a);
	if (!a->op->ends_hold)
		return;
	ck_assert_msg(r->code == LOCKSHM_LOST || !a->s->overrun_reported, "%s: says %s, others got a report of an overrun",
		      a->op->name, outcome_name(r->code));
	/* A death outranks an overrun in reports. */
	ck_assert_msg(r->code != LOCKSHM_LOST || a->s->overrun_reported || a->s->death_reported,
		      "%s: says LOST, others got no report", a->op->name);
}

/* While the writer holds: it ends, or waits. */
static void wake_beside_the_writer(struct act *a)
{
	step_continue(&a->c);
	ck_assert_msg(await(ended_or_waits, a), "%s: neither ends nor waits", a->op->name);
	if (step_ended(&a->c))
		check_truth(a);
	verify_clean();
	let_the_writer_go(a);
}

static void wake_when_all_is_over(struct act *a)
{
	let_the_writer_go(a);
	serve_the_reader(a);
	scene_newcomer(a->s, a->c.pid);
	step_continue(&a->c);
}

/* One round; returns how many points it went through. */
static unsigned stop_at(const struct step_op *op, struct scene *s, unsigned point, bool beside)
{
	struct act a = { .op = op, .s = s };

	scene_begin(s, op);
	a.c = step_to(op, s, point);
	a.stopped = !a.c.ran_through;
	step_stop(&a.c);
	/* Without a request the victim delays no waiter: then no lease has to end first. */
	if (scene_has_request(s, a.c.pid))
		pass(now_ns() + LEASE + LOCKSHM_MS(5));
	let_the_writer_in(&a);
	if (op->after && a.stopped)
		op->after(s, true);
	if (beside && a.stopped)
		wake_beside_the_writer(&a);
	else
		wake_when_all_is_over(&a);
	ck_assert_msg(await(ended, &a), "%s: does not end", op->name);
	serve_the_reader(&a);
	check_truth(&a);
	scene_newcomer(s, a.c.pid);
	scene_check_spans(s, INT64_MAX);
	if (op->after)
		op->after(s, false);
	scene_check_leaks(s);
	return a.c.points;
}

START_TEST(others_go_on_and_the_victim_learns_the_truth)
{
	const struct step_op *op = &step_ops[_i];
	struct scene scene;
	unsigned points, n, stride, stops = 0, through = 0;

	if (!step_op_is_mine(op, (unsigned)_i, only))
		return;
	scene_open(&scene, op, LEASE);
	step_new_path(0);
	if (every)
		(void)stop_at(op, &scene, UINT32_MAX, false); /* the keys are known from here on */
	points = stop_at(op, &scene, UINT32_MAX, false);
	stride = every || points < SAMPLE ? 1 : points / SAMPLE;
	/* Paths differ a little from round to round: go on until several in a row have run through. */
	for (n = 0; through < THROUGH; n += step_missed() ? 0 : stride) {
		bool reached = stop_at(op, &scene, n, stops % 2 == 0) > n;

		if (step_missed())
			continue;
		through = reached ? 0 : through + 1;
		stops += reached;
	}
	scene_end(&scene);
	printf("%-28s %6u points, %5u stops\n", op->name, points, stops);
	fflush(stdout);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, every ? 7200 : 60);
	tcase_add_loop_test(tc, others_go_on_and_the_victim_learns_the_truth, 0, (int)n_step_ops);
}

int main(int argc, char **argv)
{
	every = argc > 1 && strcmp(argv[1], "all") == 0;
	only = argc > 2 ? argv[2] : NULL;
	if (!step_possible()) {
		puts("cannot single-step here");
		return 77;
	}
	return fixture_main("stop-step", add);
}
