/* SPDX-License-Identifier: MIT */
/*
 * stop-step.c - stopped at every step: the same victims as in crash-step.c, with short leases, caught by SIGSTOP
 *
 * While the victim stands still, for longer than its lease if it has a request at all, the others must get on.  Then
 * SIGCONT lets it run on from exactly there: in every other round while the writer holds the key, else when all is
 * over.  It must learn the truth and damage nothing:
 *   - its hold counts as held only if no larger token was granted exclusively, and never together with the writer's
 *   - a grant reports that it overran its lease if and only if its exclusive request was entered when it was stopped, and
 *     its key robust; then a call that ends the hold returns LOST
 *   - the writer's hold is untouched, the segment verifies clean, nothing leaks
 *
 * Points between which the victim neither makes a system call nor touches what others can change are alike
 * (step-touch.c), and one of them is enough.
 *
 *   stop-step               a sample of the points that are not alike, the same in every run
 *   stop-step all [OP]      all that are not alike, of all operations or of one
 *   stop-step every [OP]    every point
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
#define SAMPLE 2

#define THROUGH (every ? 64 : all ? 4 : 1)

static bool every, all;
static const char *only;

struct act {
	const struct step_op *op;
	struct scene *s;
	struct caught c;
	bool stopped; /* and not run through before it came to that */
	bool leaves_mark; /* as it was stopped */
	bool must_not; /* it was not inside, now or before */
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
	ck_assert_msg(!a->leaves_mark || (r->check != LOCKSHM_LOST && r->code != LOCKSHM_LOST) || a->s->overrun_reported ||
			      a->s->death_reported,
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
	ck_assert_msg(!a->leaves_mark || r->code != LOCKSHM_LOST || a->s->overrun_reported || a->s->death_reported,
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

/* Where it had a hold beforehand, that may have been taken over before the stop. */
static void look_at_request(struct act *a)
{
	struct scene_request request = scene_request_of(a->s, a->c.pid);

	a->leaves_mark = a->stopped && request.leaves_mark;
	a->must_not = a->stopped && !request.leaves_mark && a->s->result->n_spans == 0 && !a->s->overrun_reported;
}

/* The writer is inside, so the victim's request is over, and the victim has not run on. */
static void check_mark(const struct act *a)
{
	ck_assert_msg(!a->leaves_mark || a->s->overrun_reported || a->s->death_reported,
		      "%s: point %u: no report of the overrun", a->op->name, a->s->point);
	ck_assert_msg(!a->must_not || !a->s->overrun_reported, "%s: point %u: a report of an overrun, but it was not inside",
		      a->op->name, a->s->point);
}

/* One round; returns how many points it went through. */
static unsigned stop_at(const struct step_op *op, struct scene *s, unsigned point, bool beside)
{
	struct act a = { .op = op, .s = s };

	scene_begin(s, op);
	a.c = step_to(op, s, point);
	a.stopped = !a.c.ran_through;
	step_stop(&a.c);
	look_at_request(&a);
	/* Without a request the victim delays no waiter: then no lease has to end first. */
	if (scene_has_request(s, a.c.pid))
		pass(now_ns() + s->victim_ttl + LOCKSHM_MS(5));
	let_the_writer_in(&a);
	check_mark(&a);
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

/* Around the step that makes a granted request a hold. */
static void stop_around_enter(const struct step_op *op, struct scene *s)
{
	unsigned back;

	s->watched = true;
	s->catch_after = STEP_NEVER;
	(void)stop_at(op, s, UINT32_MAX, false);
	for (back = 1; back < STEP_BEFORE_ENTER && back <= s->enters_after; back++) {
		s->catch_after = s->enters_after - back;
		(void)stop_at(op, s, UINT32_MAX, back % 2 == 0);
	}
	s->catch_after = STEP_ENTERED;
	(void)stop_at(op, s, UINT32_MAX, true);
	s->watched = false;
}

static void stop_in_scene(const struct step_op *op, enum scene_kind kind)
{
	struct scene scene;
	unsigned points, n, stride, stops = 0, through = 0;

	scene_open(&scene, op, op->renews ? LOCKSHM_AUTO_RENEW_TTL_MIN : LEASE, kind);
	step_new_path(0);
	if (all)
		(void)stop_at(op, &scene, UINT32_MAX, false); /* the keys are known from here on */
	points = stop_at(op, &scene, UINT32_MAX, false);
	if (op->enters && kind == SCENE_ROBUST)
		stop_around_enter(op, &scene);
	stride = all || points < SAMPLE ? 1 : points / SAMPLE;
	/* Paths differ a little from round to round: go on until several in a row have run through. */
	for (n = 0; through < THROUGH; n += step_missed() ? 0 : stride) {
		bool reached = stop_at(op, &scene, n, stops % 2 == 0) > n;

		if (step_missed())
			continue;
		through = reached ? 0 : through + 1;
		stops += reached;
	}
	scene_end(&scene);
	printf("%-28s %-7s %6u points, %5u stops\n", op->name, scene_kind_name(kind), points, stops);
	fflush(stdout);
}

START_TEST(others_go_on_and_the_victim_learns_the_truth)
{
	const struct step_op *op = &step_ops[_i];
	int kind;

	if (!step_op_is_mine(op, (unsigned)_i, only))
		return;
	/* Of a sample, the last two by turns. */
	for (kind = 0; kind < SCENE_KINDS; kind++)
		if (all || kind == SCENE_ROBUST || (kind != SCENE_MIXED + _i % 2 && !op->of_loop))
			stop_in_scene(op, kind);
}
END_TEST

/* Granted while it is stopped, overrun and taken over; then it goes on, requests again, and is cancelled. */
START_TEST(wait_that_fails_leaves_no_mark)
{
	struct agent_command wait = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .ns = LOCKSHM_MS(20),
				      .cancellable = true };
	struct agent *holder = agent_start(), *waiter = agent_start(), *canceller = agent_thread(waiter);

	ck_code(agent_acquire(holder, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_begin(waiter, wait), AGENT_BLOCKED);
	agent_stop(waiter);
	ck_code(agent_release(holder), 0);
	pass(now_ns() + LOCKSHM_MS(60));
	ck_code(agent_acquire(holder, "k", LOCKSHM_EXCLUSIVE), 0);
	agent_cont(waiter);
	ck_code(agent_call(canceller, AGENT_CANCEL), 0);
	ck_code(agent_end(waiter), LOCKSHM_CANCELLED);
	ck_code(agent_release(holder), 0);
	ck_code(agent_try(waiter, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, all ? 7200 : 600);
	tcase_add_test(tc, wait_that_fails_leaves_no_mark);
	tcase_add_loop_test(tc, others_go_on_and_the_victim_learns_the_truth, 0, (int)n_step_ops);
}

int main(int argc, char **argv)
{
	every = argc > 1 && strcmp(argv[1], "every") == 0;
	all = every || (argc > 1 && strcmp(argv[1], "all") == 0);
	only = argc > 2 ? argv[2] : NULL;
	if (!step_possible()) {
		puts("cannot single-step here");
		return 77;
	}
	step_points = every || !step_knows_touches() ? STEP_EVERY : STEP_TOUCHES;
	return fixture_main("stop-step", add);
}
