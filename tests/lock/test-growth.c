/* SPDX-License-Identifier: MIT */
/*
 * test-growth.c - what a call costs does not grow faster than is stated, with the owners, holders and dead
 *
 * Looks at shared words are counted, not time: this suite has copies of the files of the library that walk, compiled with
 * support/looks.h.  A call that looks at each of n requests, chunks or owners where it should not has a larger exponent.
 * test-growth-keys.c does the same with keys, test-growth-processes.c with waiters, processes and system calls.
 */
#include <pthread.h>

#include "crowd.h"
#include "growth.h"
#include "other-thread.h"
#include "segment/segment.h"
#include "support/fixture.h"

#define S LOCKSHM_SHARED
#define OWNERS 1100

/* ---------------------------------------------------------------- counting */

unsigned long shared_looks;

/* The looks at shared words of @act, in the files of the library that this suite has its own copy of. */
static double looks_of(void (*act)(void))
{
	unsigned long before = shared_looks;

	act();
	return (double)(shared_looks - before);
}

/* ---------------------------------------------------------------- the calls */

/* This thread has a slot and a record. */
static void take_part(void)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "a key of its own", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}

static void act_open(void)
{
	lockshm_t *again;

	ck_code(lockshm_open(&again, seg_name, 0, NULL), 0);
	ck_code(lockshm_close(again), 0);
}

static void act_acquire(void)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", X), 0);
}

static void *newcomer(void *unused)
{
	take_part();
	return unused;
}

/* A thread's first acquire, and its end. */
static void act_join(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, newcomer, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* As an owner leaves its slot that has looked for chunks everywhere. */
static void forget_reaches(void)
{
	uint32_t i;

	for (i = 0; i < seg->n_owners; i++)
		seg->owners[i].flags &= 0xff;
}

static double open_after(unsigned deaths, uint32_t requests, bool reaches)
{
	double n;

	segment_with(2048, requests, OWNERS);
	if (deaths)
		die(crowd_of(deaths, NULL, X, false));
	if (!reaches)
		forget_reaches();
	n = looks_of(act_open);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
	return n;
}

/* One look at what each of the dead had. */
START_TEST(open_after_deaths_looks_once_at_each)
{
	double counts[SIZES], base = open_after(0, 16384, true);
	unsigned i;

	for (i = 0; i < SIZES; i++)
		counts[i] = open_after(sizes[i], 16384, true);
	grows_by("open after deaths", counts, base, 1);
}
END_TEST

START_TEST(open_after_deaths_does_not_look_at_every_chunk)
{
	double counts[SIZES];
	unsigned i;

	for (i = 0; i < SIZES; i++)
		counts[i] = open_after(100, 200 * sizes[i], true);
	grows_by("open after 100 deaths, by chunks", counts, 0, 0);
}
END_TEST

/* Many owners that may have any chunk: each chunk is looked at once for all of them. */
START_TEST(open_after_deaths_looks_at_every_chunk_once)
{
	double more = open_after(100, 160000, false) - open_after(100, 160000, true), chunks = seg->n_chunks;

	ck_assert_msg(more <= chunks, "%.0f more looks for %.0f chunks", more, chunks);
}
END_TEST

/* Beside n threads: each holds a key of its own (NULL), or all of them read @key. */
static void beside_holders(const char *what, const char *key, void (*act)(void))
{
	double counts[SIZES];
	struct crowd c;
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		segment_with(2048, 16384, OWNERS);
		take_part();
		c = crowd_of(sizes[i], key, key ? S : X, false);
		counts[i] = looks_of(act);
		die(c);
	}
	grows_by(what, counts, 0, 0);
}

START_TEST(open_does_not_look_at_every_owner_that_lives)
{
	beside_holders("open beside owners", NULL, act_open);
}
END_TEST

START_TEST(join_and_leave_do_not_look_at_every_owner_that_lives)
{
	beside_holders("join and leave beside owners", NULL, act_join);
}
END_TEST

/* The holder dies last. */
static double first_after(unsigned deaths)
{
	struct crowd holder;

	segment_with(2048, 16384, OWNERS);
	take_part(); /* or the sweep of a join would clear the queue */
	holder = crowd_of(1, "k", X, false);
	if (deaths)
		die(crowd_of(deaths, "k", X, true));
	die(holder);
	return looks_of(act_acquire);
}

START_TEST(acquire_after_dead_waiters_looks_once_at_each)
{
	double counts[SIZES], base = first_after(0);
	unsigned i;

	for (i = 0; i < SIZES; i++)
		counts[i] = first_after(sizes[i]);
	grows_by("acquire after dead waiters", counts, base, 1);
}
END_TEST

static void act_try(void)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", X), LOCKSHM_BUSY);
}

static void act_try_with_report(void)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	request.report = &report;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_BUSY);
	ck_assert_int_eq(report.blocker.state, LOCKSHM_HOLDING);
}

START_TEST(try_looks_at_one_reader)
{
	beside_holders("try among readers", "k", act_try);
	beside_holders("try with a report among readers", "k", act_try_with_report);
}
END_TEST

/* ---------------------------------------------------------------- readers of this thread */

static lockshm_hold_t readers[1001], *leaving;

static void act_release(void)
{
	ck_code(lockshm_release(leaving, 0), 0);
}

static void act_join_readers(void)
{
	ck_code(take_for(&readers[1000], "k", S, LOCKSHM_SECONDS(1000)), 0);
}

static void act_move(void)
{
	ck_code(lockshm_move(leaving, LOCKSHM_TO_PROCESS), 0);
}

static void crowd_of_readers(unsigned n)
{
	unsigned i;

	segment_with(64, 16384, 4);
	take_part();
	for (i = 0; i < n; i++)
		ck_code(take_for(&readers[i], "k", S, LOCKSHM_SECONDS(1000)), 0);
}

static void renew_all(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		ck_code(lockshm_renew(&readers[i], LOCKSHM_SECONDS(2000)), 0);
}

static void among_readers(const char *what, bool renewed, void (*act)(void))
{
	static const char *const where[] = { "oldest", "middle", "newest" };
	double counts[SIZES];
	char text[80];
	unsigned at, i;

	for (at = 0; at < 3; at++) {
		for (i = 0; i < SIZES; i++) {
			crowd_of_readers(sizes[i]);
			if (renewed)
				renew_all(sizes[i]);
			leaving = &readers[at * (sizes[i] - 1) / 2];
			counts[i] = looks_of(act);
		}
		snprintf(text, sizeof(text), "%s, the %s", what, where[at]);
		grows_by(text, counts, 0, 0);
	}
}

START_TEST(a_reader_leaves_without_a_walk)
{
	among_readers("release among readers", false, act_release);
	among_readers("release among readers that renewed", true, act_release);
	among_readers("move among readers", false, act_move);
}
END_TEST

START_TEST(a_reader_joins_without_a_walk)
{
	double counts[SIZES];
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		crowd_of_readers(sizes[i]);
		/* A free record is at hand, and the key known, from a first time. */
		act_join_readers();
		ck_code(lockshm_release(&readers[1000], 0), 0);
		counts[i] = looks_of(act_join_readers);
	}
	grows_by("join readers", counts, 0, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_native(tc, a_reader_leaves_without_a_walk);
	tcase_add_native(tc, a_reader_joins_without_a_walk);
	tcase_add_native(tc, open_after_deaths_looks_once_at_each);
	tcase_add_native(tc, open_after_deaths_does_not_look_at_every_chunk);
	tcase_add_native(tc, open_after_deaths_looks_at_every_chunk_once);
	tcase_add_native(tc, open_does_not_look_at_every_owner_that_lives);
	tcase_add_native(tc, join_and_leave_do_not_look_at_every_owner_that_lives);
	tcase_add_native(tc, try_looks_at_one_reader);
	tcase_add_native(tc, acquire_after_dead_waiters_looks_once_at_each);
}

int main(void)
{
	return fixture_main("growth", add);
}
