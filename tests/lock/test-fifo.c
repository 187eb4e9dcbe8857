/* SPDX-License-Identifier: MIT */
/*
 * test-fifo.c - requests are granted in arrival order, neighbouring readers together
 *
 * Each row of the first test is a string of arrivals, w or r; every agent is seen waiting in the segment before the
 * next one starts, so the arrival order is exact.  The expected order is computed from the string alone.
 */
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"

#define KEY "row"
#define ROW_MAX 16

struct row {
	const char *modes;
	size_t n;
	struct agent *agents[ROW_MAX];
};

static int mode_of(char c)
{
	return c == 'w' ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
}

/* How many of modes[from..] are granted together once everything before is gone. */
static size_t run_length(const char *modes, size_t from)
{
	size_t n = 0;

	if (modes[from] == 'w')
		return 1;
	while (modes[from + n] == 'r')
		n++;
	return n;
}

static void line_up(struct row *row, const char *modes)
{
	size_t i, first;

	row->modes = modes;
	row->n = strlen(modes);
	first = run_length(modes, 0);
	for (i = 0; i < row->n; i++) {
		row->agents[i] = agent_start();
		ck_code(agent_acquire(row->agents[i], KEY, mode_of(modes[i])), i < first ? 0 : AGENT_BLOCKED);
	}
}

/* The queue must show exactly agents from.. in order, of which the first @holding hold. */
static void check_queue(const struct row *row, size_t from, size_t holding)
{
	struct seen seen;
	size_t i;

	look(KEY, &seen);
	ck_assert_uint_eq(seen.holders, holding);
	ck_assert_uint_eq(seen.holders + seen.waiters, row->n - from);
	for (i = from; i < row->n; i++) {
		const struct lockshm_blocker *r = &seen.requests[i - from];

		ck_assert_int_eq(r->pid, row->agents[i]->pid);
		ck_assert_int_eq(r->mode, mode_of(row->modes[i]));
		ck_assert_int_eq(r->state, i - from < holding ? LOCKSHM_HOLDING : LOCKSHM_WAITING);
		ck_assert_int_eq(seen.alive[i - from], 1);
	}
}

/* Releases run after run; the release of a whole run grants exactly the next run. */
static void play(struct row *row)
{
	size_t from = 0, holding, i;
	uint64_t last_token = 0;

	while (from < row->n) {
		holding = run_length(row->modes, from);
		for (i = from; i < from + holding; i++) {
			if (row->agents[i]->busy)
				ck_code(agent_end(row->agents[i]), 0);
			ck_assert_uint_gt(row->agents[i]->answer.token, last_token);
			last_token = row->agents[i]->answer.token;
		}
		check_queue(row, from, holding);
		for (i = from + holding; i < row->n; i++)
			ck_code(agent_poll(row->agents[i]), AGENT_BLOCKED);
		for (i = from; i < from + holding; i++)
			ck_code(agent_release(row->agents[i]), 0);
		from += holding;
	}
}

static const char *const rows[] = {
	"wwwwwwwwwwww", "rrrrrrrrrrrr", "wrrwrwwrrrwr", "rrwrrwwrwrrr", "wrwrwrwrwrwr", "rwwwrrrrrrww",
};

START_TEST(mixed_row_of_twelve_is_granted_in_exact_order)
{
	struct row row;

	line_up(&row, rows[_i]);
	play(&row);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

START_TEST(reader_does_not_overtake_a_waiting_writer)
{
	struct agent *r1 = agent_start(), *w = agent_start(), *r2 = agent_start();

	ck_code(agent_acquire(r1, KEY, LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, KEY, LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_acquire(r2, KEY, LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_release(r1), 0);
	ck_code(agent_end(w), 0);
	ck_assert(agent_waits(r2, KEY));
	ck_code(agent_release(w), 0);
	ck_code(agent_end(r2), 0);
	ck_assert_uint_gt(r2->answer.token, w->answer.token);
}
END_TEST

START_TEST(try_never_overtakes_the_queue)
{
	struct agent *r1 = agent_start(), *w = agent_start(), *t = agent_start();

	ck_code(agent_acquire(r1, KEY, LOCKSHM_SHARED), 0);
	ck_code(agent_try(t, KEY, LOCKSHM_SHARED), 0);
	ck_code(agent_release(t), 0);
	ck_code(agent_acquire(w, KEY, LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_try(t, KEY, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_release(r1), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

static int timed(struct agent *a, int mode, int64_t timeout)
{
	return agent_begin(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = KEY, .how = mode,
						      .timeout_ns = timeout });
}

START_TEST(writer_that_gives_up_lets_the_readers_behind_it_in)
{
	struct agent *r1 = agent_start(), *w = agent_start(), *r2 = agent_start(), *r3 = agent_start();

	ck_code(agent_acquire(r1, KEY, LOCKSHM_SHARED), 0);
	ck_code(timed(w, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(300)), AGENT_BLOCKED);
	ck_code(agent_acquire(r2, KEY, LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_acquire(r3, KEY, LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_end(w), LOCKSHM_TIMEOUT);
	ck_code(agent_end(r2), 0);
	ck_code(agent_end(r3), 0);
	verify_clean();
}
END_TEST

START_TEST(middle_of_the_row_gives_up_and_the_rest_keeps_its_order)
{
	struct agent *h = agent_start(), *a = agent_start(), *b = agent_start(), *c = agent_start();

	ck_code(agent_acquire(h, KEY, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(a, KEY, LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(timed(b, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(100)), AGENT_BLOCKED);
	ck_code(agent_acquire(c, KEY, LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_end(b), LOCKSHM_TIMEOUT);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(a), 0);
	ck_assert(agent_waits(c, KEY));
	ck_code(agent_release(a), 0);
	ck_code(agent_end(c), 0);
}
END_TEST

START_TEST(stopped_middle_waiter_does_not_shield_a_dead_holder)
{
	struct agent *h = agent_start(), *m = agent_start(), *last = agent_start();

	ck_code(agent_acquire(h, KEY, LOCKSHM_EXCLUSIVE), 0);
	ck_code(timed(m, LOCKSHM_SHARED, 0), AGENT_BLOCKED);
	ck_code(agent_acquire(last, KEY, LOCKSHM_SHARED), AGENT_BLOCKED);
	agent_stop(m);
	agent_kill(h);
	ck_code(agent_end(last), LOCKSHM_OWNER_DIED);
	agent_cont(m);
	ck_code(agent_end(m), LOCKSHM_OWNER_DIED);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, mixed_row_of_twelve_is_granted_in_exact_order, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(tc, reader_does_not_overtake_a_waiting_writer);
	tcase_add_test(tc, try_never_overtakes_the_queue);
	tcase_add_test(tc, writer_that_gives_up_lets_the_readers_behind_it_in);
	tcase_add_test(tc, middle_of_the_row_gives_up_and_the_rest_keeps_its_order);
	tcase_add_test(tc, stopped_middle_waiter_does_not_shield_a_dead_holder);
}

int main(void)
{
	return fixture_main("fifo", add);
}
