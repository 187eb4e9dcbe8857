/* SPDX-License-Identifier: MIT */
/*
 * test-robust.c - LOCKSHM_ROBUST: which ends leave a damage mark, which acquires are told, and how marks go
 *
 * Agents request robust holds unless AGENT_PLAIN is given.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/agent.h"
#include "support/fixture.h"
#include "sys/hash.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static int plain(struct agent *a, const char *key, int mode)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .flags = AGENT_PLAIN };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_begin(a, c);
}

static int leased(struct agent *a, const char *key, int mode, int64_t ttl_ns, unsigned flags)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .flags = flags, .ns = ttl_ns };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_begin(a, c);
}

/* The status of a robust try; the mark is left as it is. */
static int robust_status(const char *key, int mode)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int status = take_robust(&hold, key, mode);

	if (status >= 0)
		ck_code(lockshm_release(&hold, 0), 0);
	return status;
}

/* A robust hold of @key in this process, now and before: it makes the key robust. */
static void make_robust(const char *key)
{
	ck_code(robust_status(key, X), 0);
}

/* ---------------------------------------------------------------- which ends leave a mark */

START_TEST(a_robust_holder_that_dies_leaves_a_mark)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", X), 0);
	agent_kill(h);
	ck_code(robust_status("k", X), LOCKSHM_OWNER_DIED);
	ck_code(robust_status("k", S), LOCKSHM_OWNER_DIED);
}
END_TEST

START_TEST(a_plain_holder_of_a_robust_key_leaves_a_mark_too)
{
	struct agent *h = agent_start();

	make_robust("k");
	ck_code(plain(h, "k", X), 0);
	agent_kill(h);
	ck_code(robust_status("k", X), LOCKSHM_OWNER_DIED);
}
END_TEST

START_TEST(a_holder_of_a_plain_key_leaves_no_mark)
{
	struct agent *h = agent_start();

	ck_code(plain(h, "k", X), 0);
	agent_kill(h);
	ck_code(robust_status("k", X), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	ck_assert_uint_eq(stat_now().recovered, 1);
}
END_TEST

/* The key becomes robust by the waiter, while the holder is inside. */
START_TEST(a_key_is_robust_from_the_first_robust_request_on)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(plain(h, "k", X), 0);
	ck_code(agent_acquire(w, "k", X), AGENT_BLOCKED);
	agent_kill(h);
	ck_code(agent_end(w), LOCKSHM_OWNER_DIED);
}
END_TEST

START_TEST(an_overrun_holder_leaves_a_mark_when_it_is_taken_over)
{
	struct agent *h = agent_start();

	ck_code(leased(h, "k", X, LOCKSHM_MS(1), 0), 0);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(robust_status("k", S), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(h), LOCKSHM_LOST);
}
END_TEST

START_TEST(a_late_release_leaves_none)
{
	struct agent *h = agent_start();

	ck_code(leased(h, "k", X, LOCKSHM_MS(1), 0), 0);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(agent_release(h), LOCKSHM_LATE);
	ck_code(robust_status("k", X), 0);
}
END_TEST

START_TEST(a_hold_that_an_operator_ends_leaves_a_mark)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", X), 0);
	ck_code(lockshm_end_hold(seg, "k", 1, h->answer.token), 0);
	ck_code(robust_status("k", X), LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

START_TEST(shared_holders_leave_none_however_they_end)
{
	struct agent *dies = agent_start(), *overruns = agent_start(), *ended = agent_start(), *behind = agent_start();

	make_robust("k");
	ck_code(agent_acquire(dies, "k", S), 0);
	ck_code(leased(overruns, "k", S, LOCKSHM_MS(1), 0), 0);
	ck_code(agent_acquire(ended, "k", S), 0);
	ck_code(lockshm_end_hold(seg, "k", 1, ended->answer.token), 0);
	agent_kill(dies);
	pass(now_ns() + LOCKSHM_MS(20));
	/* T11: behind a reader that died before another was granted. */
	ck_code(agent_try(behind, "k", S), 0);
	ck_code(agent_release(behind), 0);
	ck_code(robust_status("k", X), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
}
END_TEST

START_TEST(a_downgraded_holder_leaves_none)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", X), 0);
	ck_code(agent_call(h, AGENT_DOWNGRADE), 0);
	agent_kill(h);
	ck_code(robust_status("k", X), 0);
}
END_TEST

START_TEST(an_upgraded_holder_leaves_a_mark)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", S), 0);
	ck_code(agent_call(h, AGENT_UPGRADE), 0);
	agent_kill(h);
	ck_code(robust_status("k", X), LOCKSHM_OWNER_DIED);
}
END_TEST

/* T3: a waiter whose call has not returned is not inside: stopped, granted, taken over, then gone on. */
START_TEST(a_request_that_was_never_inside_leaves_none)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = X, .ns = LOCKSHM_MS(20) };

	ck_code(agent_acquire(h, "k", X), 0);
	ck_code(agent_begin(w, c), AGENT_BLOCKED);
	agent_stop(w);
	ck_code(agent_release(h), 0);
	pass(now_ns() + LOCKSHM_MS(60));
	ck_code(agent_try(h, "k", X), 0);
	ck_code(h->answer.report.damage.status, 0);
	agent_cont(w);
	ck_code(agent_poll(w), AGENT_BLOCKED); /* it requests again */
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	ck_code(robust_status("k", X), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	verify_clean();
}
END_TEST

START_TEST(a_granted_waiter_that_dies_before_it_runs_leaves_none)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_acquire(h, "k", X), 0);
	ck_code(agent_acquire(w, "k", X), AGENT_BLOCKED);
	agent_stop(w);
	ck_code(agent_release(h), 0);
	agent_kill(w);
	ck_code(robust_status("k", X), 0);
	ck_assert_uint_eq(stat_now().recovered, 0);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- several keys */

static int many(lockshm_hold_t *holds, const char *a, const char *b, struct lockshm_request *q)
{
	struct lockshm_key keys[2] = { LOCKSHM_MANY_KEY(a, 0), LOCKSHM_MANY_KEY(b, 0) };

	return lockshm_acquire_many(seg, q, keys, 2, holds);
}

static bool has_waiter(void *key)
{
	struct seen seen;

	look(key, &seen);
	return seen.waiters == 1;
}

/* By a child that holds @held of two keys and waits for the other, until it is killed. */
static void wait_for_one_of_two(const char *held)
{
	struct lockshm_request q = request_for("", X);
	struct agent *h = agent_start();
	lockshm_hold_t holds[2];
	pid_t pid;

	q.flags = LOCKSHM_ROBUST;
	q.timeout_ns = LOCKSHM_FOREVER;
	ck_code(agent_acquire(h, held, X), 0);
	pid = fork();
	if (pid == 0)
		_exit(many(holds, "one", "two", &q) < 0);
	ck_assert(await(has_waiter, (void *)(uintptr_t)held));
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_code(agent_release(h), 0);
}

START_TEST(of_several_keys_none_is_entered_before_the_last_is_granted)
{
	wait_for_one_of_two("one");
	wait_for_one_of_two("two");
	ck_code(robust_status("one", X), 0);
	ck_code(robust_status("two", X), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	verify_clean();
}
END_TEST

struct both {
	lockshm_hold_t holds[2];
	bool in_time; /* no lease ended between the return of the call and the check */
};

static void *take_both(void *arg)
{
	struct both *both = arg;
	struct lockshm_request q = request_for("", X);
	int64_t left[2];
	int i;

	q.ttl_ns = LOCKSHM_MS(20);
	q.timeout_ns = LOCKSHM_FOREVER;
	ck_code(many(both->holds, "one", "two", &q), 0);
	both->in_time = true;
	for (i = 0; i < 2; i++)
		if (lockshm_check(&both->holds[i], &left[i]) != 0)
			both->in_time = false;
	(void)lockshm_release_many(both->holds, 2);
	return NULL;
}

/* One round: leases of 150 and 250 ms in the way, two thieves behind; true if both holds were there at the end. */
static bool none_is_lost(void)
{
	static const char *const names[] = { "one", "two" };
	struct agent *h[2], *thief[2];
	struct both both;
	pthread_t thread;
	int i;

	for (i = 0; i < 2; i++) {
		h[i] = agent_start();
		thief[i] = agent_start();
		ck_code(leased(h[i], names[i], X, LOCKSHM_MS(150 + 100 * i), AGENT_PLAIN), 0);
	}
	ck_assert_int_eq(pthread_create(&thread, NULL, take_both, &both), 0);
	for (i = 0; i < 2; i++) {
		struct agent_command c = { .op = AGENT_ACQUIRE, .how = X, .flags = AGENT_PLAIN, .ns = LOCKSHM_MS(50) };

		snprintf(c.key, sizeof(c.key), "%s", names[i]);
		agent_send(thief[i], c);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	for (i = 0; i < 2; i++) {
		(void)agent_end(thief[i]);
		agent_kill(h[i]);
	}
	return both.in_time;
}

/*
 * While the second key is awaited the lease of the first ends, and another request takes it: all or none, so again.  On a
 * stalled machine a lease may also end behind the call, which is no error; a call that returns lost holds does it in
 * every round.
 */
START_TEST(of_several_keys_none_is_lost_when_the_call_returns)
{
	int round;

	for (round = 0; round < 20 && !none_is_lost(); round++)
		;
	ck_assert_int_lt(round, 20);
	verify_clean();
}
END_TEST

START_TEST(each_hold_of_several_tells_its_own_mark)
{
	struct lockshm_request q = request_for("", X);
	struct agent *h = agent_start();
	struct lockshm_damage damage;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t holds[2];

	ck_code(agent_acquire(h, "two", X), 0);
	agent_kill(h);
	q.flags = LOCKSHM_ROBUST;
	q.report = &report;
	ck_code(many(holds, "one", "two", &q), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(report.damage.pid, h->pid);
	ck_code(lockshm_damage(&holds[0], &damage), 0);
	ck_code(damage.status, 0);
	ck_code(lockshm_damage(&holds[1], &damage), 0);
	ck_code(damage.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(damage.pid, h->pid);
	ck_assert_uint_eq(damage.token, h->answer.token);
	ck_code(lockshm_acknowledge(&holds[1]), 0);
	ck_code(lockshm_damage(&holds[1], &damage), 0);
	ck_code(damage.status, 0);
	ck_code(lockshm_release_many(holds, 2), 0);
	ck_code(lockshm_damage(&holds[1], &damage), LOCKSHM_NOT_HELD);
}
END_TEST

/* Of two keys the one that lockshm_acquire_many() takes first. */
static int first_of(const char *const names[2])
{
	struct identity id[2];
	int i;

	for (i = 0; i < 2; i++)
		hash_key(&id[i], seg->hash_secret, names[i], strlen(names[i]));
	return memcmp(&id[0], &id[1], sizeof(id[0])) > 0;
}

struct second_try {
	lockshm_hold_t holds[2];
	struct lockshm_report report;
	int code;
};

static void *take_robust_twice(void *arg)
{
	struct second_try *t = arg;
	struct lockshm_request q = request_for("", X);

	q.flags = LOCKSHM_ROBUST;
	q.ttl_ns = LOCKSHM_MS(1);
	q.timeout_ns = LOCKSHM_FOREVER;
	q.report = &t->report;
	t->code = many(t->holds, "one", "two", &q);
	ck_assert_uint_eq(t->report.token, lockshm_token(&t->holds[first_of((const char *const[]){ "one", "two" })]));
	ck_assert_int_ge(lockshm_release_many(t->holds, 2), 0);
	return NULL;
}

/* While the second key is awaited another takes the first and acknowledges: all starts anew, the report too. */
START_TEST(the_report_of_several_is_that_of_the_last_try)
{
	static const char *const names[] = { "one", "two" };
	const char *first = names[first_of(names)], *second = names[!first_of(names)];
	struct agent *h = agent_start(), *thief = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = X, .flags = ACKNOWLEDGES };
	struct second_try t = { .report = LOCKSHM_REPORT_INIT };
	struct agent *dead = agent_start();
	pthread_t thread;

	ck_code(agent_acquire(dead, first, X), 0);
	agent_kill(dead);
	ck_code(agent_acquire(h, second, X), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, take_robust_twice, &t), 0);
	ck_assert(await(has_waiter, (void *)(uintptr_t)second));
	snprintf(c.key, sizeof(c.key), "%s", first);
	agent_send(thief, c);
	ck_code(agent_end(thief), LOCKSHM_OWNER_DIED);
	ck_code(agent_release(thief), 0);
	ck_code(agent_release(h), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_code(t.code, 0);
	ck_code(t.report.damage.status, 0);
	verify_clean();
}
END_TEST

START_TEST(a_plain_acquire_of_several_has_the_mark_in_its_report)
{
	struct lockshm_request q = request_for("", X);
	struct agent *h = agent_start();
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t holds[2];

	ck_code(agent_acquire(h, "two", X), 0);
	agent_kill(h);
	q.report = &report;
	ck_code(many(holds, "one", "two", &q), 0);
	ck_code(report.damage.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(report.damage.pid, h->pid);
	ck_code(lockshm_release_many(holds, 2), 0);
}
END_TEST

/* ---------------------------------------------------------------- which acquires are told */

static void leave_mark(const char *key)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, key, X), 0);
	agent_kill(h);
	ck_code(lockshm_sweep(seg, NULL), 0);
}

/* The idiom of C: if (lockshm_acquire(...)) return; */
START_TEST(a_plain_acquire_gets_0_and_its_report_tells)
{
	struct lockshm_request q = request_for("k", X);
	struct lockshm_damage damage;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	leave_mark("k");
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_damage(&hold, &damage), 0);
	ck_code(damage.status, LOCKSHM_OWNER_DIED);
	ck_code(lockshm_release(&hold, 0), 0);
	q.report = &report;
	ck_code(lockshm_acquire(seg, &q, &hold), 0);
	ck_code(report.damage.status, LOCKSHM_OWNER_DIED);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(robust_status("k", X), LOCKSHM_OWNER_DIED); /* not cleared by that */
}
END_TEST

START_TEST(a_robust_acquire_is_told_until_it_is_acknowledged)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request q = request_for("k", S);
	int i;

	leave_mark("k");
	for (i = 0; i < 3; i++)
		ck_code(robust_status("k", i ? X : S), LOCKSHM_OWNER_DIED);
	q.flags = LOCKSHM_ROBUST;
	ck_code(lockshm_acquire(seg, &q, &hold), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_acknowledge(&hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(robust_status("k", X), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
}
END_TEST

/* Also a plain hold may acknowledge: its holder knows best. */
START_TEST(any_hold_may_acknowledge)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	leave_mark("k");
	ck_code(take(&hold, "k", S), 0);
	ck_code(lockshm_acknowledge(&hold), 0);
	ck_code(lockshm_acknowledge(&hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_acknowledge(&hold), LOCKSHM_NOT_HELD);
	ck_code(robust_status("k", X), 0);
}
END_TEST

START_TEST(a_death_outranks_an_overrun_and_a_later_one_an_acknowledged)
{
	struct agent *late = agent_start(), *dead = agent_start(), *again = agent_start();
	struct lockshm_damage damage;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	ck_code(agent_acquire(dead, "k", X), 0);
	agent_kill(dead);
	ck_code(leased(late, "k", X, LOCKSHM_MS(1), 0), LOCKSHM_OWNER_DIED);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(take_robust(&hold, "k", X), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_damage(&hold, &damage), 0);
	ck_assert_int_eq(damage.pid, dead->pid);
	ck_code(lockshm_acknowledge(&hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(leased(again, "k", X, LOCKSHM_MS(1), 0), 0);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(robust_status("k", X), LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

/* ---------------------------------------------------------------- many marks */

static unsigned leave_marks(unsigned most)
{
	unsigned n;

	for (n = 0; n < most; n++) {
		struct agent *h = agent_inherit();
		char key[32];
		int code;

		snprintf(key, sizeof(key), "job/%u", n);
		code = agent_try(h, key, X);
		agent_kill(h);
		if (code == LOCKSHM_FULL)
			return n;
		ck_code(code, 0);
		ck_code(lockshm_sweep(seg, NULL), 0);
	}
	return n;
}

START_TEST(killed_workers_on_plain_keys_leave_the_table_empty)
{
	unsigned n;

	segment_with(64, 64, 8);
	for (n = 0; n < 300; n++) {
		struct agent *h = agent_inherit();
		char key[32];

		snprintf(key, sizeof(key), "job/%u", n);
		ck_code(plain(h, key, X), 0);
		agent_kill(h);
	}
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void count_marks(unsigned counts[2])
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	EACH_ROW(row, code, seg, LOCKSHM_LIST_BUSY, NULL, 0)
	{
		counts[0] += row.damage.status != 0;
		counts[1] += row.damage.pid != 0;
	}
	ck_code(code, 0);
}

/* A mark is never lost; what it says about the holder is, where the pool is full. */
START_TEST(a_table_full_of_marks_says_so_and_is_emptied)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_request q = request_for("another", X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	unsigned n, counts[2] = { 0, 0 };
	size_t cleared = 77;

	segment_with(42, 256, 8); /* 64 places */
	n = leave_marks(200);
	ck_assert_uint_lt(n, 200);
	ck_assert_uint_eq(stat_now().keys_damaged, n);
	count_marks(counts);
	ck_assert_uint_eq(counts[0], n);
	ck_assert_uint_gt(counts[1], 32);
	q.report = &report;
	while (lockshm_acquire(seg, &q, &hold) == 0) { /* there may be a place left for other keys */
		static char key[32];

		ck_code(lockshm_release(&hold, 0), 0);
		snprintf(key, sizeof(key), "another/%u", n++);
		q.key = key;
		q.key_len = strlen(key);
		if (n > 2000)
			break;
	}
	if (n <= 2000) {
		ck_code(report.error.code, LOCKSHM_FULL);
		ck_assert_int_eq(report.error.table, LOCKSHM_TABLE_KEYS);
		ck_assert_ptr_nonnull(strstr(report.error.message, "lockctl ack"));
	}
	ck_code(clear_marks(seg, LOCKSHM_LIST_BUSY, "job/1", 5, 0, &cleared), 0);
	ck_assert_uint_eq(cleared, 11); /* job/1, job/10 to job/19 */
	ck_code(clear_marks(seg, LOCKSHM_LIST_KEY, "job/2", 5, 0, &cleared), 0);
	ck_assert_uint_eq(cleared, 1);
	ck_code(clear_all_marks(seg, &cleared), 0);
	ck_assert_uint_eq(cleared, counts[0] - 12);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	ck_code(take(&hold, "another", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	verify_clean();
}
END_TEST

/* Marks by age: the older is cleared, the younger stays. */
START_TEST(marks_have_an_age)
{
	struct lockshm_damage damage;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int64_t middle;
	size_t cleared;

	leave_mark("old");
	pass(now_ns() + LOCKSHM_MS(20));
	middle = now_ns();
	pass(now_ns() + LOCKSHM_MS(20));
	leave_mark("young");
	ck_code(clear_marks(seg, LOCKSHM_LIST_BUSY, NULL, 0, now_ns() - middle, &cleared), 0);
	ck_assert_uint_eq(cleared, 1);
	ck_code(robust_status("old", X), 0);
	ck_code(take_robust(&hold, "young", X), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_damage(&hold, &damage), 0);
	ck_assert_int_ge(damage.age_ns, 0);
	ck_assert_int_le(damage.age_ns, now_ns() - middle);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

static int64_t age_of(const char *key)
{
	struct seen seen;

	look(key, &seen);
	ck_code(seen.damage.status, LOCKSHM_OWNER_DIED);
	return seen.damage.age_ns;
}

/* A larger one would let an operator clear marks that are younger than asked for. */
START_TEST(an_age_that_is_not_known_is_0)
{
	struct shm_entry *e = seg->entries;
	uint64_t time;

	leave_mark("k");
	while (!damage_is_mark(e->damage_word))
		e++;
	time = e->damage_time;
	e->damage_time |= damage_time_make(0, UINT64_MAX);
	ck_assert_int_eq(age_of("k"), 0);
	e->damage_time = time;
	pass(now_ns() + LOCKSHM_MS(5));
	ck_assert_int_gt(age_of("k"), 0);
	seg->clock_lost = true;
	ck_assert_int_eq(age_of("k"), 0);
}
END_TEST

START_TEST(a_mark_is_acknowledged_by_its_token)
{
	struct lockshm_row row;
	lockshm_t *reader;

	leave_mark("k");
	ck_code(robust_status("k", X), LOCKSHM_OWNER_DIED);
	ck_code(key_row(seg, "k", 1, &row), 0);
	ck_code(lockshm_acknowledge_of(NULL, row.id, row.damage.token), LOCKSHM_INVALID);
	ck_code(lockshm_acknowledge_of(seg, 0, row.damage.token), LOCKSHM_INVALID);
	ck_code(lockshm_acknowledge_of(seg, row.id, 0), LOCKSHM_INVALID);
	ck_code(lockshm_acknowledge_of(seg, row.id, row.damage.token + 1), LOCKSHM_NOT_HELD);
	ck_code(lockshm_open(&reader, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	ck_code(lockshm_acknowledge_of(reader, row.id, row.damage.token), LOCKSHM_PERMISSION);
	ck_code(lockshm_close(reader), 0);
	ck_code(robust_status("k", X), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_acknowledge_of(seg, row.id, row.damage.token), 0);
	ck_code(lockshm_acknowledge_of(seg, row.id, row.damage.token), LOCKSHM_NOT_HELD);
	ck_code(robust_status("k", X), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_robust_holder_that_dies_leaves_a_mark);
	tcase_add_test(tc, a_plain_holder_of_a_robust_key_leaves_a_mark_too);
	tcase_add_test(tc, a_holder_of_a_plain_key_leaves_no_mark);
	tcase_add_test(tc, a_key_is_robust_from_the_first_robust_request_on);
	tcase_add_test(tc, an_overrun_holder_leaves_a_mark_when_it_is_taken_over);
	tcase_add_test(tc, a_late_release_leaves_none);
	tcase_add_test(tc, a_hold_that_an_operator_ends_leaves_a_mark);
	tcase_add_test(tc, shared_holders_leave_none_however_they_end);
	tcase_add_test(tc, a_downgraded_holder_leaves_none);
	tcase_add_test(tc, an_upgraded_holder_leaves_a_mark);
	tcase_add_test(tc, a_request_that_was_never_inside_leaves_none);
	tcase_add_test(tc, a_granted_waiter_that_dies_before_it_runs_leaves_none);
	tcase_add_test(tc, of_several_keys_none_is_entered_before_the_last_is_granted);
	tcase_add_test(tc, of_several_keys_none_is_lost_when_the_call_returns);
	tcase_add_test(tc, each_hold_of_several_tells_its_own_mark);
	tcase_add_test(tc, the_report_of_several_is_that_of_the_last_try);
	tcase_add_test(tc, a_plain_acquire_of_several_has_the_mark_in_its_report);
	tcase_add_test(tc, a_plain_acquire_gets_0_and_its_report_tells);
	tcase_add_test(tc, a_robust_acquire_is_told_until_it_is_acknowledged);
	tcase_add_test(tc, any_hold_may_acknowledge);
	tcase_add_test(tc, a_death_outranks_an_overrun_and_a_later_one_an_acknowledged);
	tcase_add_test(tc, killed_workers_on_plain_keys_leave_the_table_empty);
	tcase_add_test(tc, a_table_full_of_marks_says_so_and_is_emptied);
	tcase_add_test(tc, marks_have_an_age);
	tcase_add_test(tc, an_age_that_is_not_known_is_0);
	tcase_add_test(tc, a_mark_is_acknowledged_by_its_token);
}

int main(void)
{
	return fixture_main("robust", add);
}
