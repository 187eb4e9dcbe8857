/* SPDX-License-Identifier: MIT */
/* test-run.c - R5: a run of readers is granted by one thread and woken by its readers */
#define _GNU_SOURCE
#include <stdlib.h>

#include "crowd.h"
#include "hold/hold.h"
#include "lock/chunks.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define MOST 1000

static unsigned in_state(enum request_state state)
{
	unsigned n = 0;
	uint32_t i;

	for (i = 1; i <= seg->n_requests; i++)
		n += word_is(load_acquire(&seg->requests[i].word), state);
	return n;
}

/* ---------------------------------------------------------------- requests whose steps the test makes */

static struct qpos queue[MOST]; /* with the generation in place of the word */

static struct shm_entry *entry_of(const lockshm_hold_t *hold)
{
	return &seg->entries[((const struct hold *)(const void *)hold)->entry];
}

/* @n readers behind the hold that look as if they slept; @writer among them, unless it is @n. */
static void line_up(const lockshm_hold_t *hold, unsigned n, unsigned writer)
{
	struct shm_entry *e = entry_of(hold);
	struct participant *self = participant_find(seg);
	struct grant grant;
	unsigned i;

	for (i = 0; i < n; i++) {
		struct acquire a = { .owner = self->ref, .entry = (uint32_t)(e - seg->entries), .ttl_ns = INT64_MAX,
				     .exclusive = i == writer };
		uint64_t tail = load_acquire(&e->tail);
		uint32_t index = request_take_fast(self);

		ck_assert_uint_ne(index, 0);
		queue_fill_owned(&seg->requests[index], &a);
		ck_assert(queue_append_owned(seg, e, tail, index, &a, REQUEST_WAITING, &grant));
		self->free_request = 0;
		queue_hint(seg, tail_index(tail), index, grant.gen);
		store_relaxed32(&seg->requests[index].sleeping, SLEEPS + (i + 1) * SLEEP_NUMBER);
		queue[i] = (struct qpos){ index, grant.gen };
	}
}

/* A waker clears the flag; the first of a run is woken by queue_wake(), which does not. */
static bool is_awake(unsigned i)
{
	return i == 0 || load_acquire32(&seg->requests[queue[i].index].sleeping) == 0;
}

static unsigned awake(unsigned n)
{
	unsigned i, found = 0;

	for (i = 0; i < n; i++)
		found += is_awake(i);
	return found;
}

static void clear(const lockshm_hold_t *hold, unsigned n)
{
	struct shm_entry *e = entry_of(hold);
	unsigned i;

	for (i = 0; i < n; i++) {
		uint64_t *word = &seg->requests[queue[i].index].word;

		store_release(word, word_with_state(load_acquire(word), REQUEST_ABANDONED));
	}
	ck_assert_int_eq(queue_advance_tail(seg, e), WALK_DONE);
	verify_clean();
}

static void begin(lockshm_hold_t *hold, unsigned n, unsigned writer)
{
	segment_with(64, 8192, 8);
	ck_code(take(hold, "k", X), 0);
	line_up(hold, n, writer);
	ck_code(lockshm_release(hold, 0), 0);
}

#define DIRECT 33 /* the first, and those that the granter wakes one by one */

START_TEST(releaser_grants_all_and_wakes_few)
{
	lockshm_hold_t hold;

	begin(&hold, MOST, MOST);
	ck_assert_uint_eq(in_state(REQUEST_GRANTED), MOST);
	ck_assert_uint_le(awake(MOST), DIRECT + 2 * (MOST / 64 + 1) + 1);
	clear(&hold, MOST);
}
END_TEST

START_TEST(releaser_wakes_a_short_run)
{
	lockshm_hold_t hold;

	begin(&hold, DIRECT, DIRECT);
	ck_assert_uint_eq(awake(DIRECT), DIRECT);
	clear(&hold, DIRECT);
}
END_TEST

/* No reader behind a writer is granted or woken. */
START_TEST(wakes_end_at_a_writer)
{
	lockshm_hold_t hold;
	unsigned i;

	begin(&hold, 100, 50);
	ck_assert_uint_eq(in_state(REQUEST_GRANTED), 50);
	for (i = 0; i < 50; i++)
		queue_wake_run(seg, entry_of(&hold), queue[i].index, queue[i].word);
	ck_assert_uint_eq(awake(100), 50);
	clear(&hold, 100);
}
END_TEST

static void run_all(const lockshm_hold_t *hold, unsigned from, unsigned n)
{
	unsigned i;

	for (i = from; i < n; i++)
		if (is_awake(i))
			queue_wake_run(seg, entry_of(hold), queue[i].index, queue[i].word);
}

/* Many run before the others are granted, and some of them leave: the granter wakes in each segment what sleeps there. */
START_TEST(early_readers_lose_none)
{
	lockshm_hold_t hold;
	unsigned i, n = 400, early = 200;

	segment_with(64, 8192, 8);
	ck_code(take(&hold, "k", X), 0);
	line_up(&hold, n, n);
	for (i = 0; i < early; i++)
		store_relaxed32(&seg->requests[queue[i].index].sleeping, 0);
	run_all(&hold, 0, early);
	ck_assert_uint_eq(awake(n), early);
	ck_code(lockshm_release(&hold, 0), 0);
	/* They have run already, and do not again. */
	run_all(&hold, early, n);
	ck_assert_uint_eq(awake(n), n);
	clear(&hold, n);
}
END_TEST

/* Nothing but the granter's wakes is left for the last segment, and one of those stops: two at its begin, one at its end. */
START_TEST(early_readers_and_one_that_stops)
{
	lockshm_hold_t hold;
	unsigned i, n = DIRECT + 64 + 20, early = n - 15;

	segment_with(64, 8192, 8);
	ck_code(take(&hold, "k", X), 0);
	line_up(&hold, n, n);
	for (i = 0; i < early; i++)
		store_relaxed32(&seg->requests[queue[i].index].sleeping, 0);
	run_all(&hold, 0, early);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_assert_uint_eq(awake(n), early + 3);
	run_all(&hold, early, early + (_i != 0));
	run_all(&hold, early + 1, early + 1 + (_i != 1));
	run_all(&hold, early + 2, n - (_i == 2));
	ck_assert_uint_eq(awake(n), n);
	clear(&hold, n);
}
END_TEST

/* The last segment's first two, which the granter wakes, are stopped, and all before them have run: it is reached from its
 * end.  So two threads of one process that is stopped delay none of another. */
START_TEST(early_readers_and_two_that_stop)
{
	lockshm_hold_t hold;
	unsigned i, n = DIRECT + 64 + 20, early = n - 15;

	segment_with(64, 8192, 8);
	ck_code(take(&hold, "k", X), 0);
	line_up(&hold, n, n);
	for (i = 0; i < early; i++)
		store_relaxed32(&seg->requests[queue[i].index].sleeping, 0);
	ck_code(lockshm_release(&hold, 0), 0);
	for (i = n - 1; i >= early + 2; i--)
		if (is_awake(i))
			queue_wake_run(seg, entry_of(&hold), queue[i].index, queue[i].word);
	ck_assert_uint_eq(awake(n), n);
	clear(&hold, n);
}
END_TEST

/* Those that are awake run in some order, until none is left: oldest first, newest first, or at random. */
static unsigned next_of(const bool *ran, unsigned n, int order)
{
	unsigned i, k, from = order == 2 ? (unsigned)rand() % n : 0;

	for (k = 0; k < n; k++) {
		i = order == 1 ? n - 1 - k : (from + k) % n;
		if (is_awake(i) && !ran[i])
			return i;
	}
	return n;
}

/* Any one of them is stopped, or killed, after it was woken. */
START_TEST(one_that_stops_delays_no_other)
{
	unsigned n = 150, stopped, i;
	lockshm_hold_t hold;

	for (stopped = 0; stopped < n; stopped += 1 + (stopped > 20) * 7) {
		bool ran[MOST] = { false };

		begin(&hold, n, n);
		ran[stopped] = true;
		while ((i = next_of(ran, n, _i)) < n) {
			ran[i] = true;
			queue_wake_run(seg, entry_of(&hold), queue[i].index, queue[i].word);
		}
		ck_assert_msg(awake(n) == n, "without %u: %u of %u woken", stopped, awake(n), n);
		clear(&hold, n);
		lockshm_close(seg);
		ck_code(lockshm_destroy(seg_name, NULL), 0);
		seg = NULL;
	}
	segment_with(64, 64, 8);
}
END_TEST

static const unsigned gaps[] = { 1, 2, 3, 8, 9, 40 };

/* Any two of them. */
START_TEST(two_that_stop_delay_no_other)
{
	unsigned n = 150, first, gap, i;
	lockshm_hold_t hold;

	for (first = 0; first < n; first += 1 + (first % 33 > 2) * 6) {
		for (gap = 0; gap < sizeof(gaps) / sizeof(gaps[0]); gap++) {
			bool ran[MOST] = { false };

			begin(&hold, n, n);
			ran[first] = true;
			ran[(first + gaps[gap]) % n] = true;
			while ((i = next_of(ran, n, _i)) < n) {
				ran[i] = true;
				queue_wake_run(seg, entry_of(&hold), queue[i].index, queue[i].word);
			}
			ck_assert_msg(awake(n) == n, "without %u and %u: %u of %u woken", first, first + gaps[gap],
				      awake(n), n);
			clear(&hold, n);
		}
	}
}
END_TEST

/* A segment's first readers, all that were woken in it, are stopped: it is reached from behind. */
START_TEST(several_that_stop)
{
	unsigned n = 300, from = DIRECT, to = DIRECT + 40, i;
	bool ran[MOST] = { false };
	lockshm_hold_t hold;

	begin(&hold, n, n);
	for (i = from; i < to; i++)
		ran[i] = true;
	/* Those before pass on the little that they can. */
	for (i = 0; i < from; i++)
		ran[i] = true;
	while ((i = next_of(ran, n, _i)) < n) {
		ran[i] = true;
		queue_wake_run(seg, entry_of(&hold), queue[i].index, queue[i].word);
	}
	for (i = to; i < n; i++)
		ck_assert_msg(is_awake(i), "%u of %u sleeps", i, n);
	clear(&hold, n);
}
END_TEST

/* ---------------------------------------------------------------- processes */

/* @n more threads that wait for "k", in a process of their own. */
static pid_t sleepers(unsigned n, unsigned before)
{
	unsigned in_all = before + n;
	pid_t pid;

	plan.key = "k";
	plan.mode = S;
	plan.waits = false;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_members(n);
	}
	ck_assert(await(all_wait, &in_all));
	return pid;
}

static void end(pid_t pid, int signal)
{
	kill(pid, signal);
	ck_assert_int_eq(waitpid(pid, NULL, signal == SIGSTOP ? WUNTRACED : 0), pid);
}

/* A process in the middle of the run is stopped, or killed, before its readers can wake others. */
START_TEST(processes_run_on)
{
	pid_t pid[3];
	lockshm_hold_t hold;
	unsigned n = 100;

	segment_with(64, 8192, 400);
	plan.there = mmap(NULL, sizeof(*plan.there), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_code(take(&hold, "k", X), 0);
	pid[0] = sleepers(40, 0);
	pid[1] = sleepers(20, 40);
	pid[2] = sleepers(60, 60);
	end(pid[1], SIGSTOP);
	ck_code(lockshm_release(&hold, 0), 0);
	if (_i)
		end(pid[1], SIGKILL);
	ck_assert_msg(await(all_there, &n), "%u of %u", *plan.there, n);
	if (!_i) {
		n = 120;
		kill(pid[1], SIGCONT);
		ck_assert(await(all_there, &n));
		end(pid[1], SIGKILL);
	}
	end(pid[0], SIGKILL);
	end(pid[2], SIGKILL);
	ck_assert_int_ge(lockshm_sweep(seg, NULL), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, releaser_grants_all_and_wakes_few);
	tcase_add_test(tc, releaser_wakes_a_short_run);
	tcase_add_test(tc, wakes_end_at_a_writer);
	tcase_add_test(tc, early_readers_lose_none);
	tcase_add_loop_test(tc, early_readers_and_one_that_stops, 0, 3);
	tcase_add_test(tc, early_readers_and_two_that_stop);
	tcase_add_loop_test(tc, one_that_stops_delays_no_other, 0, 3);
	tcase_add_loop_test(tc, two_that_stop_delay_no_other, 0, 3);
	tcase_add_loop_test(tc, several_that_stop, 0, 3);
	tcase_add_loop_test(tc, processes_run_on, 0, 2);
}

int main(void)
{
	return fixture_main("run", add);
}
