/* SPDX-License-Identifier: MIT */
/*
 * test-handover.c - the next waiter is woken, and does not depend on its self-check
 *
 * The self-check of every sleeper, after at most 100 ms, hides lost wake-ups from the other tests.  Here each kind of
 * hand-over is repeated, and the fastest one must be far below 100 ms: on a busy machine any single one may take long.
 */
#include <signal.h>
#include <stdio.h>

#include "support/agent.h"
#include "support/fixture.h"

#define ROUNDS 12
#define AT_ONCE LOCKSHM_MS(25)

static void wants(struct agent *a, int mode, int64_t ttl, int outcome)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = mode, .ns = ttl, .flags = ACKNOWLEDGES };

	ck_code(agent_begin(a, c), outcome);
}

/* When the last of @n was granted, after @since; all let go again. */
static int64_t granted_after(struct agent *const *a, int n, int64_t since)
{
	int64_t last = 0;
	int i;

	for (i = 0; i < n; i++) {
		ck_assert_int_ge(agent_end(a[i]), 0);
		if (a[i]->answer.at_ns - since > last)
			last = a[i]->answer.at_ns - since;
	}
	for (i = 0; i < n; i++)
		ck_code(agent_release(a[i]), 0);
	return last;
}

struct fastest {
	int64_t ns;
};

static void take_time(struct fastest *f, int64_t ns)
{
	if (f->ns == 0 || ns < f->ns)
		f->ns = ns;
}

static void at_once(const struct fastest *f)
{
	ck_assert_msg(f->ns < AT_ONCE, "the fastest of %d took %.1f ms", ROUNDS, (double)f->ns / 1e6);
}

START_TEST(release_wakes_the_next)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct fastest f = { 0 };
	int64_t start;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wants(h, _i ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE, 0, 0);
		wants(w, LOCKSHM_EXCLUSIVE, 0, AGENT_BLOCKED);
		start = now_ns();
		ck_code(agent_release(h), 0);
		take_time(&f, granted_after(&w, 1, start));
	}
	at_once(&f);
}
END_TEST

#define READERS 6

/* @end ends the writer's hold. */
static void wakes_all_readers(int (*end)(struct agent *))
{
	struct agent *h = agent_start(), *r[READERS];
	struct fastest f = { 0 };
	int64_t start;
	int i, k;

	for (k = 0; k < READERS; k++)
		r[k] = agent_start();
	for (i = 0; i < ROUNDS; i++) {
		wants(h, LOCKSHM_EXCLUSIVE, 0, 0);
		for (k = 0; k < READERS; k++)
			wants(r[k], LOCKSHM_SHARED, 0, AGENT_BLOCKED);
		start = now_ns();
		ck_code(end(h), 0);
		take_time(&f, granted_after(r, READERS, start));
		ck_assert_int_ge(agent_release(h), LOCKSHM_NOT_HELD);
	}
	at_once(&f);
}

START_TEST(release_wakes_all_readers_in_a_row)
{
	wakes_all_readers(agent_release);
}
END_TEST

static int downgrade(struct agent *a)
{
	return agent_call(a, AGENT_DOWNGRADE);
}

START_TEST(downgrade_wakes_all_readers_in_a_row)
{
	wakes_all_readers(downgrade);
}
END_TEST

START_TEST(death_wakes_the_next)
{
	struct agent *w = agent_start(), *h;
	struct fastest f = { 0 };
	int64_t start;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		h = agent_start();
		wants(h, _i ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE, 0, 0);
		wants(w, LOCKSHM_EXCLUSIVE, 0, AGENT_BLOCKED);
		start = now_ns();
		kill(h->pid, SIGKILL);
		take_time(&f, granted_after(&w, 1, start));
		agent_gone(h);
	}
	at_once(&f);
}
END_TEST

/* The kernel wakes one watcher of a life word, which must wake the next one. */
START_TEST(death_of_the_holder_of_many_keys_wakes_every_queue)
{
	struct agent *h, *w[READERS];
	struct fastest f = { 0 };
	int64_t start;
	int i, k;

	for (k = 0; k < READERS; k++)
		w[k] = agent_start();
	for (i = 0; i < ROUNDS; i++) {
		h = agent_start();
		for (k = 0; k < READERS; k++) {
			struct agent_command c = { .op = AGENT_ACQUIRE, .key = { 'k', (char)('0' + k) }, .hold = k,
						   .how = LOCKSHM_EXCLUSIVE };

			ck_assert_int_ge(agent_do(h, c), 0);
			c.hold = 0;
			ck_code(agent_begin(w[k], c), AGENT_BLOCKED);
		}
		start = now_ns();
		kill(h->pid, SIGKILL);
		take_time(&f, granted_after(w, READERS, start));
		agent_gone(h);
	}
	at_once(&f);
}
END_TEST

START_TEST(end_of_a_lease_wakes_the_next)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct fastest f = { 0 };
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wants(h, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(20), 0);
		ck_assert_int_ge(agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k",
								     .how = LOCKSHM_EXCLUSIVE,
								     .flags = ACKNOWLEDGES }),
				 0);
		take_time(&f, w->answer.at_ns - (h->answer.at_ns + LOCKSHM_MS(20)));
		ck_code(agent_release(w), 0);
		ck_code(agent_release(h), LOCKSHM_LOST);
	}
	at_once(&f);
}
END_TEST

/* A lease is made shorter while a waiter sleeps until its old end. */
START_TEST(shorter_lease_wakes_the_next)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct fastest f = { 0 };
	int64_t start;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wants(h, LOCKSHM_EXCLUSIVE, 0, 0);
		wants(w, LOCKSHM_EXCLUSIVE, 0, AGENT_BLOCKED);
		start = now_ns();
		ck_code(agent_do(h, (struct agent_command){ .op = AGENT_RENEW, .ns = LOCKSHM_MS(1) }),
			0);
		take_time(&f, granted_after(&w, 1, start));
		ck_code(agent_release(h), LOCKSHM_LOST);
	}
	at_once(&f);
}
END_TEST

START_TEST(cooldown_wakes_the_next_at_its_end)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct fastest f = { 0 };
	int64_t start;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wants(h, LOCKSHM_EXCLUSIVE, 0, 0);
		wants(w, LOCKSHM_EXCLUSIVE, 0, AGENT_BLOCKED);
		start = now_ns();
		ck_code(agent_do(h, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_MS(1) }), 0);
		take_time(&f, granted_after(&w, 1, start));
	}
	at_once(&f);
}
END_TEST

/* A writer in the middle gives up or dies: the reader behind it joins the ones before it. */
START_TEST(end_of_a_waiter_wakes_the_one_behind)
{
	struct agent *r1 = agent_start(), *r2 = agent_start(), *w = agent_start();
	struct fastest f = { 0 };
	int64_t start;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE };

		wants(r1, LOCKSHM_SHARED, 0, 0);
		c.timeout_ns = _i ? 0 : LOCKSHM_MS(20);
		ck_code(agent_begin(w, c), AGENT_BLOCKED);
		wants(r2, LOCKSHM_SHARED, 0, AGENT_BLOCKED);
		start = now_ns();
		if (_i)
			agent_kill(w);
		else
			ck_code(agent_end(w), LOCKSHM_TIMEOUT);
		take_time(&f, granted_after(&r2, 1, _i ? start : w->answer.at_ns));
		ck_code(agent_release(r1), 0);
		if (_i)
			w = agent_start();
	}
	at_once(&f);
}
END_TEST

START_TEST(removal_of_the_segment_wakes_the_waiters)
{
	struct agent *h = agent_start(), *w = agent_start();
	int64_t start;

	wants(h, LOCKSHM_EXCLUSIVE, 0, 0);
	wants(w, LOCKSHM_EXCLUSIVE, 0, AGENT_BLOCKED);
	start = now_ns();
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_code(agent_end(w), LOCKSHM_NO_SEGMENT);
	ck_assert_int_lt(w->answer.at_ns - start, LOCKSHM_SECONDS(2)); /* no wake-up: its self-check */
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, release_wakes_the_next, 0, 2);
	tcase_add_test(tc, release_wakes_all_readers_in_a_row);
	tcase_add_test(tc, downgrade_wakes_all_readers_in_a_row);
	tcase_add_loop_test(tc, death_wakes_the_next, 0, 2);
	tcase_add_test(tc, death_of_the_holder_of_many_keys_wakes_every_queue);
	tcase_add_test(tc, end_of_a_lease_wakes_the_next);
	tcase_add_test(tc, shorter_lease_wakes_the_next);
	tcase_add_test(tc, cooldown_wakes_the_next_at_its_end);
	tcase_add_loop_test(tc, end_of_a_waiter_wakes_the_one_behind, 0, 2);
	tcase_add_test(tc, removal_of_the_segment_wakes_the_waiters);
}

int main(void)
{
	if (emulated()) {
		puts("too slow under an emulator to tell a wake-up from a look");
		return 77;
	}
	return fixture_main("handover", add);
}
