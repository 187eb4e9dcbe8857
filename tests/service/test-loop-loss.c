/* SPDX-License-Identifier: MIT */
/*
 * test-loop-loss.c - tended holds of loops: a loss is an outcome, told once, and not after the release; renewals
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "hold/renewal.h"
#include "lock/tend.h"
#include "segment/segment.h"
#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define MANY 40

static struct agent *a;
static lockshm_loop_t *loop;
static struct task t[4];

static void cast(void)
{
	a = agent_start();
	loop = loop_new();
}

static void held(struct task *task, const char *key, int64_t ttl_ns, unsigned flags)
{
	task_init(task, key, X);
	task->request.ttl_ns = ttl_ns;
	task->request.flags = flags;
	ck_code(task_acquire(loop, task), 0);
}

static void end(struct task *task)
{
	ck_code(lockshm_end_hold(seg, task->key, strlen(task->key), lockshm_token(&task->hold)), 0);
}

/* By an operator, with a lease, with none, in each combination. */
START_TEST(told_once)
{
	static const int64_t ttls[] = { LOCKSHM_SECONDS(30), LOCKSHM_FOREVER, LOCKSHM_SECONDS(30) };
	static const unsigned flags[] = { LOCKSHM_TELL_LOSS, LOCKSHM_TELL_LOSS, LOCKSHM_TELL_LOSS | LOCKSHM_AUTO_RENEW };
	int i;

	cast();
	for (i = 0; i < 20; i++) {
		held(&t[0], "k", ttls[_i], flags[_i]);
		loop_idle(loop);
		end(&t[0]);
		ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
		loop_idle(loop);
		ck_code(lockshm_check(&t[0].hold, NULL), LOCKSHM_LOST);
		ck_code(task_release(&t[0]), LOCKSHM_LOST);
		loop_idle(loop);
	}
}
END_TEST

/* Its lease ends, and another request takes the lock. */
START_TEST(told_when_it_is_taken)
{
	int64_t begun = now_ns();

	cast();
	held(&t[0], "k", LOCKSHM_MS(300), LOCKSHM_TELL_LOSS);
	ck_code(agent_acquire(a, "k", X), AGENT_BLOCKED);
	ck_code(agent_end(a), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_int_ge(now_ns() - begun, LOCKSHM_MS(300));
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	ck_assert_uint_gt(lockshm_lost_to(&t[0].hold), 0);
	loop_idle(loop);
}
END_TEST

/* After a wait, too, and of a shared hold. */
START_TEST(told_after_a_wait)
{
	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", _i ? S : X);
	t[0].request.flags = LOCKSHM_TELL_LOSS | (_i & 2 ? LOCKSHM_AUTO_RENEW : 0);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0);
	loop_idle(loop);
	end(&t[0]);
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	loop_idle(loop);
}
END_TEST

/* The loss is listed, and not collected: a release, also one before which the record got another hold. */
START_TEST(none_after_the_release)
{
	cast();
	held(&t[0], "k", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	end(&t[0]);
	loop_await(loop);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	held(&t[1], "l", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	loop_idle(loop);
	ck_code(lockshm_check(&t[1].hold, NULL), 0);
	ck_code(task_release(&t[1]), 0);
	loop_idle(loop);
}
END_TEST

/* While its loss is not collected no hold gets the record. */
START_TEST(not_for_a_new_hold_by_the_record)
{
	int i;

	cast();
	held(&t[0], "k", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	end(&t[0]);
	for (i = 0; i < 300; i++) {
		held(&t[1], i % 2 ? "k" : "l", LOCKSHM_SECONDS(30), i % 3 ? LOCKSHM_TELL_LOSS : 0);
		ck_code(task_release(&t[1]), 0);
	}
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
	loop_idle(loop);
}
END_TEST

/* The taker was killed before its ring: a bit that no thread has set. */
START_TEST(found_by_the_scan)
{
	struct shm_request *r;
	uint64_t w;

	cast();
	held(&t[0], "k", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	r = &seg->requests[hold_of(&t[0].hold)->index];
	w = load_acquire(&r->word);
	ck_assert(cas_from(&r->word, w, word_with_state(w, REQUEST_EXPIRED)));
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
}
END_TEST

START_TEST(many_are_told)
{
	static struct task all[MANY];
	char key[16];
	int i, n = 0;

	cast();
	for (i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		held(&all[i], key, LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	}
	for (i = 0; i < MANY; i += 3)
		end(&all[i]);
	for (i = 0; i < MANY; i += 3, n++)
		ck_code(loop_collect(loop)->status, LOCKSHM_LOST);
	loop_idle(loop);
	for (i = 0; i < MANY; i++) {
		ck_assert_int_eq(all[i].outcomes, i % 3 ? 0 : 1);
		ck_code(task_release(&all[i]), i % 3 ? 0 : LOCKSHM_LOST);
	}
	loop_idle(loop);
}
END_TEST

/* Of several keys for one outcome each is told. */
START_TEST(each_of_several)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("a", 0), LOCKSHM_MANY_KEY("b", 0) };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	int i;

	cast();
	q.flags = LOCKSHM_TELL_LOSS | LOCKSHM_AUTO_RENEW;
	ck_code(lockshm_loop_acquire_many(loop, &q, keys, 2, holds, holds), 0);
	for (i = 0; i < 2; i++) {
		ck_code(lockshm_end_hold(seg, keys[i].data, 1, lockshm_token(&holds[i])), 0);
		loop_await(loop);
		ck_code(lockshm_loop_next(loop, &outcome), 1);
		ck_code(outcome.status, LOCKSHM_LOST);
		ck_assert_ptr_eq(outcome.hold, &holds[i]);
		ck_assert_ptr_eq(outcome.user, holds);
		ck_code(lockshm_release(&holds[i], 0), LOCKSHM_LOST);
	}
	loop_idle(loop);
}
END_TEST

START_TEST(a_closed_loop_is_not_told)
{
	lockshm_loop_t *other;

	cast();
	other = loop_new();
	held(&t[0], "k", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	held(&t[1], "l", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	end(&t[1]);
	loop_await(loop);
	ck_code(lockshm_loop_close(loop), 0);
	loop = other;
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	end(&t[0]);
	held(&t[2], "m", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	end(&t[2]);
	ck_code(task_end(loop, &t[2]), LOCKSHM_LOST);
	loop_idle(loop);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	ck_code(task_release(&t[1]), LOCKSHM_LOST);
}
END_TEST

static int child_owns_nothing(void)
{
	ck_code(lockshm_check(&t[0].hold, NULL), LOCKSHM_NOT_HELD);
	loop = loop_new();
	held(&t[1], "child", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	end(&t[1]);
	ck_code(task_end(loop, &t[1]), LOCKSHM_LOST);
	return 0;
}

START_TEST(a_fork)
{
	pid_t pid;

	cast();
	held(&t[0], "k", LOCKSHM_SECONDS(30), LOCKSHM_TELL_LOSS);
	pid = process_start(child_owns_nothing);
	ck_assert_int_eq(process_end(pid), 0);
	end(&t[0]);
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
}
END_TEST

/* ---------------------------------------------------------------- renewals */

static int64_t deadline_of(const struct task *task)
{
	return deadline_ns(load_acquire(&seg->requests[hold_of(&task->hold)->index].deadline));
}

static bool is_renewed(void *arg)
{
	return deadline_of(&t[0]) > *(int64_t *)arg;
}

/* Several times, each of two that begin one after the other, while other threads use the holds. */
START_TEST(renewed)
{
	int64_t end, left;
	int i;

	cast();
	held(&t[1], "long", LOCKSHM_SECONDS(30), LOCKSHM_AUTO_RENEW);
	held(&t[0], "k", LOCKSHM_MS(400), LOCKSHM_AUTO_RENEW | (_i ? LOCKSHM_TELL_LOSS : 0));
	for (i = 0; i < 4; i++) {
		end = deadline_of(&t[0]);
		ck_assert(await(is_renewed, &end));
		ck_assert_int_ge(lockshm_check(&t[0].hold, &left), 0);
		ck_assert_int_le(left, LOCKSHM_MS(450));
	}
	ck_assert_int_ge(lockshm_renew(&t[0].hold, LOCKSHM_SECONDS(1)), 0);
	end = deadline_of(&t[0]);
	ck_assert(await(is_renewed, &end));
	ck_assert_int_ge(lockshm_check(&t[0].hold, &left), 0);
	ck_assert_int_gt(left, LOCKSHM_MS(400));
	/* Strict from now on, also for the next scans. */
	ck_assert_int_ge(lockshm_renew(&t[0].hold, LOCKSHM_FOREVER), 0);
	pass(now_ns() + LOCKSHM_MS(600));
	ck_assert_int_eq(deadline_of(&t[0]), INT64_MAX);
	ck_code(lockshm_downgrade(&t[0].hold), 0);
	ck_code(lockshm_upgrade(&t[0].hold), 0);
	ck_code(task_release(&t[0]), 0);
	ck_code(lockshm_release(&t[0].hold, 0), LOCKSHM_NOT_HELD);
	ck_code(task_release(&t[1]), 0);
	ck_code(agent_try(a, "k", X), 0);
	loop_idle(loop);
}
END_TEST

static bool is_lost(void *unused)
{
	(void)unused;
	return agent_try(a, "k", X) == 0;
}

/* Not beyond max_hold_ns. */
START_TEST(renewed_for_so_long)
{
	int64_t begun = now_ns();

	cast();
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_AUTO_RENEW | LOCKSHM_TELL_LOSS;
	t[0].request.ttl_ns = LOCKSHM_MS(300);
	t[0].request.max_hold_ns = LOCKSHM_MS(900);
	ck_code(task_acquire(loop, &t[0]), 0);
	ck_assert(await(is_lost, NULL));
	ck_assert_int_ge(now_ns() - begun, LOCKSHM_MS(890));
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
}
END_TEST

/* By several threads, while the service thread renews: each release frees its record. */
static lockshm_hold_t shared_holds[4];
static uint32_t given[4];

static void *releaser(void *arg)
{
	uint32_t i = (uint32_t)(uintptr_t)arg, n;

	for (n = 1; n <= 20000; n++) {
		while (load_acquire32(&given[i]) != n)
			;
		if (lockshm_release(&shared_holds[i], 0) != 0)
			return arg;
		store_release32(&given[i], 0);
	}
	return NULL;
}

START_TEST(released_by_other_threads)
{
	struct lockshm_request q = LOCKSHM_REQUEST("k");
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	pthread_t thread;
	void *failed;
	uint32_t n;

	cast();
	q.flags = LOCKSHM_AUTO_RENEW | LOCKSHM_TELL_LOSS;
	ck_assert_int_eq(pthread_create(&thread, NULL, releaser, NULL), 0);
	for (n = 1; n <= 20000; n++) {
		ck_code(lockshm_loop_acquire(loop, &q, &shared_holds[0], NULL), 0);
		/* As if half of its lease were over, and it were time for a scan. */
		store_relaxed(&seg->requests[hold_of(&shared_holds[0])->index].deadline,
			      (uint64_t)(segment_now(seg) + LOCKSHM_SECONDS(14)));
		store_relaxed((uint64_t *)&seg->tends->at, 0);
		renewals_lock(seg);
		renewals_ring(seg->renewals);
		renewals_unlock(seg);
		store_release32(&given[0], n);
		while (load_acquire32(&given[0]) != 0)
			;
	}
	pthread_join(thread, &failed);
	ck_assert_ptr_null(failed);
	loop_idle(loop);
	ck_code(lockshm_stat(seg, &stat), 0);
	ck_assert_uint_eq(stat.requests_used, 0);
}
END_TEST

START_TEST(refused)
{
	struct lockshm_request q = LOCKSHM_REQUEST("k");
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	cast();
	q.flags = LOCKSHM_TELL_LOSS;
	ck_code(lockshm_acquire(seg, &q, &hold), LOCKSHM_INVALID);
	q.flags |= LOCKSHM_BARGE;
	ck_code(lockshm_loop_acquire(loop, &q, &hold, NULL), LOCKSHM_INVALID);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, told_once, 0, 3);
	tcase_add_test(tc, told_when_it_is_taken);
	tcase_add_loop_test(tc, told_after_a_wait, 0, 4);
	tcase_add_test(tc, none_after_the_release);
	tcase_add_test(tc, not_for_a_new_hold_by_the_record);
	tcase_add_test(tc, found_by_the_scan);
	tcase_add_test(tc, many_are_told);
	tcase_add_test(tc, each_of_several);
	tcase_add_test(tc, a_closed_loop_is_not_told);
	tcase_add_native(tc, a_fork);
	tcase_add_loop_test(tc, renewed, 0, 2);
	tcase_add_test(tc, renewed_for_so_long);
	tcase_add_test(tc, released_by_other_threads);
	tcase_add_test(tc, refused);
}

int main(void)
{
	return fixture_main("loop-loss", add);
}
