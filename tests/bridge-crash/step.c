/* SPDX-License-Identifier: MIT */
/*
 * step.c - a leader is killed, or stopped, at every write to the segment and at everything it sends
 *
 * The next leader of the host, a bridge that stood by, continues with what it finds.  The properties are in
 * bridge-crash/step-round.c, and with each step in bridge-crash/step-ops.c.  A leader that was stopped continues while
 * its successor works, or when that is done, or when another host has the key, or this one again: with a write, or a
 * command to Redis, that was decided long ago.
 *
 *   step                  some points of each step
 *   step all [STEP]       every point of all steps, or of one
 *   step kills [STEP]     only killed
 *   step stops [STEP]     only stopped
 *   step some STEP        some points of that step
 *   step points STEP N    that point alone
 *
 * PART=i/n in the environment takes every n-th step only.
 */
#define _GNU_SOURCE
#include "step.h"

#include <stdlib.h>
#include <string.h>

#include "segment/segment.h"

#define SAMPLE_KILLS 2
#define THROUGH 3 /* rounds in a row that are not caught: there are no more points */
#define POINTS_MAX 1000

static bool kills, stops; /* at every point */
static const char *only;
static unsigned single = UINT_MAX;

static bool is_mine(unsigned i)
{
	const char *part = getenv("PART");
	unsigned mine, all;

	if (bridge_steps[i].in_full && !only && !kills && !stops)
		return false;
	if (only && strcmp(only, bridge_steps[i].name) != 0)
		return false;
	return !part || sscanf(part, "%u/%u", &mine, &all) != 2 || i % all == mine % all;
}

struct tally {
	unsigned points, kills, stops;
};

/* Until several in a row are through. */
static unsigned every_point(struct round *s, enum how how, enum resume resume)
{
	unsigned n, caught = 0, through = 0;

	for (n = 0; through < THROUGH; n++) {
		bool one = round_play(s, how, n, resume);

		ck_assert_uint_lt(n, POINTS_MAX);
		caught += one;
		through = one ? 0 : through + 1;
	}
	return caught;
}

static void all_points(struct round *s, struct tally *t)
{
	enum resume resume;

	s->every = true;
	(void)round_play(s, HOW_KILL, UINT_MAX, RESUME_CONCURRENT);
	t->points = victim_points();
	t->kills = kills ? every_point(s, HOW_KILL, RESUME_CONCURRENT) : 0;
	for (resume = RESUME_CONCURRENT; stops && resume < RESUMES; resume++)
		t->stops += every_point(s, HOW_STOP, resume);
}

/* From the first to the last, and one stop among them, elsewhere for each step. */
static void some_points(struct round *s, unsigned which, struct tally *t)
{
	unsigned i, n;

	(void)round_play(s, HOW_KILL, UINT_MAX, RESUME_CONCURRENT);
	t->points = n = victim_points();
	ck_assert_uint_gt(n, 0);
	for (i = 0; i < SAMPLE_KILLS; i++)
		t->kills += round_play(s, HOW_KILL, (2 * i + 1) * n / (2 * SAMPLE_KILLS), RESUME_CONCURRENT);
	t->stops += round_play(s, HOW_STOP, (which % 4 * 2 + 1) * n / 8, (enum resume)(which % RESUMES));
}

static void single_point(struct round *s, struct tally *t)
{
	enum resume resume;

	t->kills = round_play(s, HOW_KILL, single, RESUME_CONCURRENT);
	for (resume = RESUME_CONCURRENT; resume < RESUMES; resume++)
		t->stops += round_play(s, HOW_STOP, single, resume);
}

START_TEST(the_next_bridge_goes_on)
{
	const struct step *op = &bridge_steps[_i];
	struct tally t = { 0 };
	struct round round;

	if (!is_mine((unsigned)_i))
		return;
	round_open(&round, op);
	if (single != UINT_MAX)
		single_point(&round, &t);
	else if (kills || stops)
		all_points(&round, &t);
	else
		some_points(&round, (unsigned)_i, &t);
	/* A point may be missed, not all of them. */
	ck_assert_msg(t.kills + t.stops > 0 || single != UINT_MAX, "%s: nothing is caught", op->name);
	printf("%-27s %4u points, %4u kills, %4u stops, slowest %6.1f ms\n", op->name, t.points, t.kills, t.stops,
	       (double)round.slowest_ns / 1e6);
	fflush(stdout);
}
END_TEST

/* Waiters ring again after half a second; the next leader does not wait for that. */
START_TEST(pending_bits_of_the_dead)
{
	int64_t least = INT64_MAX;
	struct round round;
	unsigned i, n = 0;

	round_open(&round, &bridge_steps[0]);
	for (i = 0; i < 30 && n < 5; i++) {
		(void)round_play(&round, HOW_KILL, i % 3, RESUME_CONCURRENT);
		if (!victim_wrote(&hosts[0].s->bridge->pending[0]))
			continue;
		n++;
		if (round.took_ns < least)
			least = round.took_ns;
	}
	ck_assert_uint_gt(n, 0);
	ck_assert_msg(least < LOCKSHM_MS(400), "a waiter noted by a dead leader waits for %lld ms",
		      (long long)least / 1000000);
}
END_TEST

static void add(TCase *tc)
{
	if (!kills && !stops && single == UINT_MAX)
		tcase_add_test(tc, pending_bits_of_the_dead);
	tcase_set_timeout(tc, kills || stops ? 7200 : 240);
	tcase_add_loop_test(tc, the_next_bridge_goes_on, 0, (int)n_bridge_steps);
}

int main(int argc, char **argv)
{
	kills = argc > 1 && (strcmp(argv[1], "all") == 0 || strcmp(argv[1], "kills") == 0);
	stops = argc > 1 && (strcmp(argv[1], "all") == 0 || strcmp(argv[1], "stops") == 0);
	only = argc > 2 ? argv[2] : NULL;
	if (argc > 3)
		single = (unsigned)strtoul(argv[3], NULL, 10);
	if (!victim_possible()) {
		puts("cannot catch a process at its writes here");
		return 77;
	}
	return hosts_main("bridge-step", add);
}
