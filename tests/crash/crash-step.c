/* SPDX-License-Identifier: MIT */
/*
 * crash-step.c - killed at every step: each operation in a victim that is killed at its n-th point
 *
 * After each death the others go on: a waiting writer, a waiting reader and a newcomer are granted within a bound,
 * alone or together as their modes say, with rising tokens; the segment verifies clean; and after a sweep no record,
 * slot or chunk is missing.  All rounds of an operation use the same segment, so a leak adds up.
 *
 * A report says that the victim died inside if and only if its exclusive request was entered when it was caught and its
 * key robust.  Each operation is played three times: all requests robust, all but the victim's, none.
 *
 * Points between which nothing changes that remains of a killed process are alike (step-touch.c), and one of them is
 * enough; `all` takes the first and the last of them, so that a change which is overlooked still lies between two.
 *
 *   crash-step               a sample of the points that are not alike, the same in every run
 *   crash-step all [OP]      all that are not alike, of all operations or of one
 *   crash-step every [OP]    every point
 *   crash-step sample OP
 *   crash-step pairs [OP]    two victims: one is stopped, for longer than its lease, at each point after which others see
 *                            something new; another one, next to it or behind it, is killed at each such point of its
 *                            own
 *   crash-step races [OP]    the same while both put the same key into the table, and the one is stopped at each point
 *                            that is not alike for a stop
 *
 * PART=i/n in the environment: only each n-th operation, from the i-th on (0 to n-1), for several processes at once.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "step.h"

/* Others wait for a dead victim this long at most; a lease would have been for ever. */
#define BOUND LOCKSHM_SECONDS(15)
#define SAMPLE 4

#define THROUGH (every ? 16 : all ? 2 : 1)

static bool every, all, pairs, races;
static const char *only;

/* Takes an answer if there is one, and releases. */
static bool served(struct scene *s, struct agent *a, pid_t victim)
{
	if (!a->busy)
		return true;
	if (!scene_granted(s, a, victim))
		return false;
	scene_let_go(s, a);
	return true;
}

static void others_go_on(struct scene *s, pid_t victim, int64_t *slowest_ns)
{
	int64_t start = now_ns(), took = 0;
	bool writer, reader;

	scene_ask(s);
	do {
		ck_assert_msg(took < BOUND, "writer %s, reader %s after %lld ms", s->writer->busy ? "waits" : "served",
			      s->reader->busy ? "waits" : "served", (long long)(took / 1000000));
		writer = served(s, s->writer, victim);
		reader = served(s, s->reader, victim);
		took = now_ns() - start;
	} while (!writer || !reader);
	scene_newcomer(s, victim);
	if (took > *slowest_ns)
		*slowest_ns = took;
}

static unsigned kills_granted, kills_entered; /* of an operation that another process grants */

static void check_reports(const struct step_op *op, const struct scene *s, pid_t victim,
			  const struct scene_request *request)
{
	kills_granted += request->granted;
	kills_entered += request->entered;
	scene_check_reports(s, victim, request->leaves_mark || (op->like_a_death && s->dead_reported == victim));
	ck_assert_msg(!op->clears_marks || s->death_reported == request->marked, "point %u: %s", s->point,
		      request->marked ? "the mark was cleared" : "the mark is still there");
}

/* One round; returns how many points it went through. */
static unsigned kill_at(const struct step_op *op, struct scene *s, unsigned point, int64_t *slowest_ns)
{
	struct scene_request request;
	struct caught c;
	int64_t died_ns;

	scene_begin(s, op);
	c = step_to(op, s, point);
	request = scene_request_of(s, c.pid);
	died_ns = now_ns();
	step_kill(&c);
	ck_assert_msg(!c.ran_through || s->result->code == op->outcome || (op->outcome == 0 && s->result->code > 0),
		      "%s: undisturbed, it returns %s", op->name, outcome_name(s->result->code));
	others_go_on(s, c.pid, slowest_ns);
	scene_check_spans(s, died_ns);
	if (!c.ran_through)
		check_reports(op, s, c.pid, &request);
	if (op->after)
		op->after(s, false);
	scene_check_leaks(s);
	return c.points;
}

/* Paths differ a little from round to round: go on until several in a row have run through. */
static unsigned kill_in_turn(const struct step_op *op, struct scene *s, unsigned stride, int64_t *slowest_ns)
{
	unsigned n, kills = 0, through = 0;

	for (n = 0; through < THROUGH; n += step_missed() ? 0 : stride) {
		bool reached = kill_at(op, s, n, slowest_ns) > n;

		if (step_missed())
			continue;
		through = reached ? 0 : through + 1;
		kills += reached;
	}
	return kills;
}

/* Around the step that makes a granted request a hold. */
static unsigned kill_around_enter(const struct step_op *op, struct scene *s, int64_t *slowest_ns)
{
	unsigned back, kills = kills_granted + kills_entered;

	s->watched = true;
	s->catch_after = STEP_NEVER;
	(void)kill_at(op, s, UINT32_MAX, slowest_ns);
	for (back = 1; back < STEP_BEFORE_ENTER && back <= s->enters_after; back++) {
		s->catch_after = s->enters_after - back;
		(void)kill_at(op, s, UINT32_MAX, slowest_ns);
	}
	s->catch_after = STEP_GRANTED;
	(void)kill_at(op, s, UINT32_MAX, slowest_ns);
	s->catch_after = STEP_ENTERED;
	(void)kill_at(op, s, UINT32_MAX, slowest_ns);
	s->watched = false;
	return kills_granted + kills_entered - kills;
}

static void kill_in_scene(const struct step_op *op, enum scene_kind kind)
{
	int64_t slowest_ns = 0;
	struct scene scene;
	unsigned points, kills = 0;

	kills_granted = kills_entered = 0;
	scene_open(&scene, op, LOCKSHM_FOREVER, kind);
	step_new_path(0);
	if (all)
		(void)kill_at(op, &scene, UINT32_MAX, &slowest_ns); /* the keys are known from here on */
	points = kill_at(op, &scene, UINT32_MAX, &slowest_ns);
	if (op->enters && kind == SCENE_ROBUST)
		kills = kill_around_enter(op, &scene, &slowest_ns);
	kills += kill_in_turn(op, &scene, all || points < SAMPLE ? 1 : points / SAMPLE, &slowest_ns);
	scene.deep = all && step_points != STEP_EVERY;
	if (scene.deep)
		kills += kill_in_turn(op, &scene, 1, &slowest_ns);
	scene_end(&scene);
	printf("%-28s %-7s %6u points, %5u kills, slowest hand-over %6.1f ms\n", op->name, scene_kind_name(kind), points,
	       kills, (double)slowest_ns / 1e6);
	fflush(stdout);
	/* Both sides of the step that makes a granted request a hold. */
	ck_assert_msg(!op->enters || kind != SCENE_ROBUST || (kills_granted > 0 && kills_entered > 0),
		      "%s: killed %u times granted, %u times inside", op->name, kills_granted, kills_entered);
}

START_TEST(others_go_on_wherever_a_victim_is_killed)
{
	const struct step_op *op = &step_ops[_i];
	int kind;

	if (!step_op_is_mine(op, (unsigned)_i, only))
		return;
	/* Of a sample, the last two by turns. */
	for (kind = 0; kind < SCENE_KINDS; kind++)
		if (all || kind == SCENE_ROBUST || (kind != SCENE_MIXED + _i % 2 && !op->of_loop))
			kill_in_scene(op, kind);
}
END_TEST

/* ---------------------------------------------------------------- two victims */

#define PAIR_LEASE LOCKSHM_MS(40)
#define PAIR_THROUGH 2

struct pair {
	const struct step_op *op; /* of the one that is stopped */
	struct step_op behind; /* of the one that is killed */
	struct scene *s;
	struct victim_result *results[2];
	int64_t slowest_ns;
	unsigned stops, kills, missed;
};

static bool has_ended(void *arg)
{
	return step_ended(arg);
}

/* The next victim: 0 = the one that is stopped. */
static void play(unsigned which)
{
	step_use_path(which);
	if (step_knows_touches())
		step_points = races && which == 0 ? STEP_TOUCHES : STEP_CHANGES;
}

static void stopped_one_runs_on(struct pair *p, struct caught *c)
{
	const struct victim_result *r = p->results[0];

	/* The result of a run without a stop was true at its time. */
	if (c->ran_through)
		return;
	step_continue(c);
	ck_assert_msg(await(has_ended, c), "%s: does not end", p->op->name);
	ck_assert_msg((r->check != 0 && r->check != LOCKSHM_LATE) || r->token > p->s->last_exclusive,
		      "%s: claims token %llu, %llu was granted", p->op->name, (unsigned long long)r->token,
		      (unsigned long long)p->s->last_exclusive);
}

static void check_both_spans(struct pair *p, int64_t died_ns)
{
	p->s->result = p->results[0];
	scene_check_spans(p->s, INT64_MAX);
	p->s->result = p->results[1];
	scene_check_spans(p->s, died_ns);
}

/* True = both were caught. */
static bool pair_round(struct pair *p, unsigned stop, unsigned kill)
{
	struct scene *s = p->s;
	struct caught stopped, killed;
	int64_t died_ns;
	bool both;

	scene_begin(s, p->op);
	s->victim_ttl = PAIR_LEASE;
	s->result = p->results[0];
	play(0);
	stopped = step_to(p->op, s, stop);
	step_stop(&stopped);
	scene_writer_runs(s);
	s->dead[s->n_dead++] = stopped.pid;
	s->victim_ttl = LOCKSHM_FOREVER;
	s->result = p->results[1];
	play(1);
	killed = step_to(&p->behind, s, kill);
	died_ns = now_ns();
	both = !stopped.ran_through && !killed.ran_through;
	step_kill(&killed);
	others_go_on(s, killed.pid, &p->slowest_ns);
	stopped_one_runs_on(p, &stopped);
	scene_newcomer(s, killed.pid); /* the exit of the stopped victim releases what it took */
	check_both_spans(p, died_ns);
	if (p->op->after)
		p->op->after(s, false);
	scene_check_leaks(s);
	return both;
}

/* Until several in a row have run through. */
static void kill_beside_one_stopped_at(struct pair *p, unsigned stop)
{
	unsigned n, through = 0, before = p->kills;

	step_new_path(1);
	for (n = 0; through < PAIR_THROUGH; n++) {
		/* Again where one of them missed its point. */
		bool both = pair_round(p, stop, n) || pair_round(p, stop, n) || pair_round(p, stop, n);

		p->kills += both;
		through = both ? 0 : through + 1;
	}
	p->stops++;
	/* The path of an operation that searches differs each time, and may be shorter; on a slow machine a lease is over. */
	p->missed += p->kills == before;
}

START_TEST(others_go_on_beside_one_stopped_and_one_killed)
{
	struct scene scene;
	struct pair p = { .op = &step_ops[_i], .s = &scene };
	unsigned n, i;

	if (!step_op_is_mine(p.op, (unsigned)_i, only) || (races && !p.op->fresh_key))
		return;
	p.behind = p.op->free_handed ? *p.op : step_behind;
	p.behind.surround = NULL;
	scene_open(&scene, p.op, LOCKSHM_FOREVER, SCENE_ROBUST);
	p.results[0] = scene.result;
	p.results[1] = scene.result + 1;
	step_new_path(0);
	play(0);
	(void)kill_at(p.op, &scene, UINT32_MAX, &p.slowest_ns);
	n = kill_at(p.op, &scene, UINT32_MAX, &p.slowest_ns);
	for (i = 0; i < n; i++)
		kill_beside_one_stopped_at(&p, i);
	scene_end(&scene);
	ck_assert_msg(!races || p.missed * 4 <= p.stops, "%s: next to %u of %u that are stopped no victim is killed", p.op->name, p.missed,
		      p.stops);
	printf("%-28s %6u stops, %5u kills beside them, slowest hand-over %6.1f ms\n", p.op->name, p.stops - p.missed,
	       p.kills, (double)p.slowest_ns / 1e6);
	fflush(stdout);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, all || pairs || races ? 7200 : 600);
	if (pairs || races)
		tcase_add_loop_test(tc, others_go_on_beside_one_stopped_and_one_killed, 0, (int)n_step_ops);
	else
		tcase_add_loop_test(tc, others_go_on_wherever_a_victim_is_killed, 0, (int)n_step_ops);
}

int main(int argc, char **argv)
{
	every = argc > 1 && strcmp(argv[1], "every") == 0;
	all = every || (argc > 1 && strcmp(argv[1], "all") == 0);
	pairs = argc > 1 && strcmp(argv[1], "pairs") == 0;
	races = argc > 1 && strcmp(argv[1], "races") == 0;
	only = argc > 2 ? argv[2] : NULL;
	if (!step_possible()) {
		puts("cannot single-step here");
		return 77;
	}
	step_points = every || !step_knows_touches() ? STEP_EVERY : STEP_CHANGES;
	return fixture_main("crash-step", add);
}
