/* SPDX-License-Identifier: MIT */
/*
 * test-unreported-death.c - deaths that the kernel does not report in time are found by short waits, too
 *
 * The holder is a thread other than the first of its process that calls exec: the kernel never flags its life word.  All
 * holds are strict.  What is counted is calls, which may each end without the lock for the time that the header
 * promises, 100 ms: so no result depends on the speed of the machine.
 */
#include <pthread.h>

#include "support/agent.h"
#include "support/fixture.h"

#define FOUND_WITHIN LOCKSHM_MS(100)

/* "k" is held by a thread that is gone. */
static void leave_held(int mode)
{
	struct agent *h = agent_thread(agent_start());

	held_by(h, "k", mode);
	ck_code(agent_call(h, AGENT_EXEC), AGENT_DIED);
}

static int wait_for(const char *key, int mode, int64_t timeout_ns, lockshm_hold_t *hold)
{
	struct lockshm_request q = request_for(key, mode);

	q.timeout_ns = timeout_ns;
	q.ttl_ns = LOCKSHM_FOREVER;
	return lockshm_acquire(seg, &q, hold);
}

static int lock_for(const char *key, int mode, int64_t timeout_ns, lockshm_hold_t *unused)
{
	static lockshm_lock_t lock;

	(void)mode;
	(void)unused;
	object_for(&lock, key);
	return lockshm_timedlock(&lock, seg, timeout_ns);
}

static int wait_for_many(const char *key, int mode, int64_t timeout_ns, lockshm_hold_t *unused)
{
	static lockshm_hold_t holds[3];
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("a", mode), LOCKSHM_MANY_KEY("k", mode),
				      LOCKSHM_MANY_KEY("z", mode) };

	(void)key;
	(void)unused;
	q.timeout_ns = timeout_ns;
	return lockshm_acquire_many(seg, &q, keys, 3, holds);
}

/* @acquire again and again, each wait of @timeout_ns. */
static void found_by(int (*acquire)(const char *, int, int64_t, lockshm_hold_t *), int mode, int64_t timeout_ns)
{
	int64_t calls = FOUND_WITHIN / timeout_ns;
	lockshm_hold_t hold;
	int code = LOCKSHM_TIMEOUT;

	for (; calls > 0 && code == LOCKSHM_TIMEOUT; calls--)
		code = acquire("k", mode, timeout_ns, &hold);
	ck_code(code, 0);
}

START_TEST(by_waits_of_one_thread)
{
	static const int64_t times[] = { LOCKSHM_MS(50), LOCKSHM_MS(20), LOCKSHM_MS(1), 200000 };

	leave_held(_i & 1 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE);
	found_by(wait_for, LOCKSHM_EXCLUSIVE, times[_i / 2]);
}
END_TEST

START_TEST(by_waits_of_a_reader)
{
	leave_held(LOCKSHM_EXCLUSIVE);
	found_by(wait_for, LOCKSHM_SHARED, LOCKSHM_MS(20));
}
END_TEST

START_TEST(by_waits_of_a_lock_object)
{
	leave_held(LOCKSHM_EXCLUSIVE);
	found_by(lock_for, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(20));
}
END_TEST

START_TEST(by_waits_for_several_keys_at_once)
{
	leave_held(LOCKSHM_EXCLUSIVE);
	found_by(wait_for_many, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(20));
}
END_TEST

/* No thread waits twice. */
static void *wait_once(void *code)
{
	lockshm_hold_t hold;

	*(int *)code = wait_for("k", LOCKSHM_EXCLUSIVE, LOCKSHM_MS(20), &hold);
	return NULL;
}

START_TEST(by_waits_of_a_thread_each)
{
	int i, code = LOCKSHM_TIMEOUT;
	pthread_t thread;

	leave_held(LOCKSHM_EXCLUSIVE);
	for (i = 0; i < 5 && code == LOCKSHM_TIMEOUT; i++) {
		ck_assert_int_eq(pthread_create(&thread, NULL, wait_once, &code), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	}
	ck_code(code, 0);
}
END_TEST

static bool granted_between_others(void *unused)
{
	lockshm_hold_t hold;

	(void)unused;
	ck_code(wait_for("a", LOCKSHM_EXCLUSIVE, LOCKSHM_MS(4), &hold), LOCKSHM_TIMEOUT);
	if (wait_for("k", LOCKSHM_EXCLUSIVE, LOCKSHM_MS(4), &hold) == 0)
		return true;
	ck_code(wait_for("z", LOCKSHM_EXCLUSIVE, LOCKSHM_MS(4), &hold), LOCKSHM_TIMEOUT);
	return false;
}

/* Probes are few, and leave out no key for ever. */
START_TEST(by_waits_for_several_keys_in_turn)
{
	struct agent *lives = agent_start();

	ck_code(agent_try(lives, "a", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(lives, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "z", .hold = 1,
							.how = LOCKSHM_EXCLUSIVE, .timeout_ns = AGENT_TRY }),
		0);
	leave_held(LOCKSHM_EXCLUSIVE);
	ck_assert(await(granted_between_others, NULL));
}
END_TEST

/* As the time-outs of languages are made. */
START_TEST(by_waits_that_are_cancelled)
{
	struct agent *w = agent_start(), *canceller = agent_thread(w);
	int i, code = LOCKSHM_CANCELLED;

	leave_held(LOCKSHM_EXCLUSIVE);
	for (i = 0; i < 3 && code == LOCKSHM_CANCELLED; i++) {
		code = agent_begin(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .cancellable = true,
							      .how = LOCKSHM_EXCLUSIVE, .flags = AGENT_PLAIN });
		if (code != AGENT_BLOCKED)
			break;
		ck_code(agent_call(canceller, AGENT_CANCEL), 0);
		code = agent_end(w);
		ck_code(agent_call(canceller, AGENT_UNCANCEL), 0);
	}
	ck_code(code, 0);
}
END_TEST

/* The waiter before it is granted, whose process does not run: it may have its lease, and no more. */
static struct agent *behind_a_stopped_waiter(void)
{
	struct agent *stopped = agent_start();

	leave_held(LOCKSHM_EXCLUSIVE);
	ck_code(agent_begin(stopped, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .ns = LOCKSHM_MS(50),
							     .how = LOCKSHM_EXCLUSIVE, .flags = AGENT_PLAIN }),
		AGENT_BLOCKED);
	agent_stop(stopped);
	return stopped;
}

START_TEST(by_a_wait_behind_a_stopped_one)
{
	struct agent *stopped = behind_a_stopped_waiter();
	lockshm_hold_t hold;

	ck_code(wait_for("k", LOCKSHM_EXCLUSIVE, PATIENCE, &hold), 0);
	agent_cont(stopped);
}
END_TEST

static bool granted(void *timeout_ns)
{
	lockshm_hold_t hold;

	return wait_for("k", LOCKSHM_EXCLUSIVE, *(int64_t *)timeout_ns, &hold) == 0;
}

START_TEST(by_short_waits_behind_a_stopped_one)
{
	struct agent *stopped = behind_a_stopped_waiter();
	int64_t timeout = LOCKSHM_MS(20);

	ck_assert(await(granted, &timeout));
	agent_cont(stopped);
}
END_TEST

static bool not_refused(void *unused)
{
	struct lockshm_request q = request_for("k", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;

	(void)unused;
	q.timeout_ns = LOCKSHM_SECONDS(1);
	q.flags = LOCKSHM_ONLY_IF_FREE_IN_TIME;
	return lockshm_acquire(seg, &q, &hold) != LOCKSHM_BUSY;
}

/* It looks at all holders, and the dead one is behind a live request. */
START_TEST(by_only_if_free_in_time_behind_a_stopped_one)
{
	struct agent *stopped = behind_a_stopped_waiter();

	ck_assert(await(not_refused, NULL));
	agent_cont(stopped);
}
END_TEST

static void add(TCase *tc)
{
	if (emulated()) {
		printf("left out under emulation: exec by a thread\n");
		return;
	}
	tcase_add_loop_test(tc, by_waits_of_one_thread, 0, 8);
	tcase_add_test(tc, by_waits_of_a_reader);
	tcase_add_test(tc, by_waits_of_a_lock_object);
	tcase_add_test(tc, by_waits_for_several_keys_at_once);
	tcase_add_test(tc, by_waits_of_a_thread_each);
	tcase_add_test(tc, by_waits_for_several_keys_in_turn);
	tcase_add_test(tc, by_waits_that_are_cancelled);
	tcase_add_test(tc, by_a_wait_behind_a_stopped_one);
	tcase_add_test(tc, by_short_waits_behind_a_stopped_one);
	tcase_add_test(tc, by_only_if_free_in_time_behind_a_stopped_one);
}

int main(void)
{
	return fixture_main("unreported-death", add);
}
