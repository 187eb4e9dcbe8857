/* SPDX-License-Identifier: MIT */
/*
 * test-jump.c - a signal handler leaves a wait by a jump: the request that is left is in no request's way, nor in its own thread's
 *
 * The test's own thread waits; another one sends it the signal when the segment shows the wait.  Holds are strict.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE

static sigjmp_buf outside;
static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
static bool cancels;
static pthread_t waiting_thread;
static struct agent *a, *b;

static void on_signal(int number)
{
	(void)number;
	if (cancels)
		(void)lockshm_cancel(&canceller);
	else
		siglongjmp(outside, 1);
}

static char key_of_wait[] = "k";

static bool waits(void *key)
{
	static struct seen seen;

	look(key, &seen);
	return seen.waiters > 0;
}

static bool has_canceller; /* the wait */

/* In the wait itself, with its canceller: its second word is CANCELLER_REQUEST of lock/cancel.c. */
static bool is_inside(void *key)
{
	return waits(key) && (!has_canceller || __atomic_load_n(&canceller.opaque[1], __ATOMIC_ACQUIRE) != 0);
}

static void *signal_when_it_waits(void *key)
{
	if (await(is_inside, key))
		(void)pthread_kill(waiting_thread, SIGUSR1);
	return NULL;
}

static struct lockshm_request patient(const char *key)
{
	struct lockshm_request q = request_for(key, X);

	q.timeout_ns = PATIENCE;
	return q;
}

/* What waits, until the signal. */
static int acquire(void)
{
	static lockshm_hold_t hold;
	struct lockshm_request q = patient("k");

	return lockshm_acquire(seg, &q, &hold);
}

static int acquire_with_canceller(void)
{
	static lockshm_hold_t hold;
	struct lockshm_request q = patient("k");

	has_canceller = true;
	q.canceller = &canceller;
	return lockshm_acquire(seg, &q, &hold);
}

static lockshm_lock_t object;

static int lock(void)
{
	object_for(&object, "k");
	return lockshm_timedlock(&object, seg, PATIENCE);
}

static lockshm_hold_t many[3];

static int acquire_many(void)
{
	struct lockshm_request q = patient("unused");
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("f", X), LOCKSHM_MANY_KEY("k", X), LOCKSHM_MANY_KEY("z", X) };

	return lockshm_acquire_many(seg, &q, keys, 3, many);
}

/* The code that @wait returned, or 1000: left by a jump. */
static int interrupted(int (*wait)(void))
{
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;
	volatile int code = 1000;

	waiting_thread = pthread_self();
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, signal_when_it_waits, key_of_wait), 0);
	if (sigsetjmp(outside, 1) == 0)
		code = wait();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return code;
}

static void leave(int (*wait)(void))
{
	a = agent_start();
	b = agent_start();
	held_by(a, "k", X);
	ck_code(interrupted(wait), 1000);
}

static void check_nothing_left(void)
{
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}

/* Granted meanwhile to the request that was left, or not. */
static void acquire_after(int (*wait)(void), bool granted)
{
	lockshm_hold_t hold;
	struct lockshm_request q = patient("k");

	leave(wait);
	if (granted) {
		ck_code(agent_release(a), 0);
		ck_code(lockshm_acquire(seg, &q, &hold), 0);
	} else {
		ck_code(take(&hold, "k", X), LOCKSHM_BUSY);
		ck_assert(!waits(key_of_wait));
		ck_code(agent_release(a), 0);
		ck_code(take(&hold, "k", X), 0);
	}
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(agent_try(b, "k", X), 0);
	ck_code(agent_release(b), 0);
	check_nothing_left();
}

START_TEST(acquire_drops_what_a_jump_left)
{
	acquire_after(_i / 2 ? acquire_with_canceller : acquire, _i & 1);
}
END_TEST

START_TEST(lock_object_after_a_jump)
{
	leave(lock);
	if (_i)
		ck_code(agent_release(a), 0);
	else
		ck_code(lockshm_trylock(&object, seg), LOCKSHM_BUSY);
	if (!_i)
		ck_code(agent_release(a), 0);
	ck_code(lockshm_lock(&object, seg), 0);
	ck_code(lockshm_unlock(&object), 0);
	check_nothing_left();
}
END_TEST

/* A request for another key does it, too: the waiters of this one are not kept. */
START_TEST(busy_key_drops_what_a_jump_left_at_another)
{
	lockshm_hold_t hold;

	leave(acquire);
	held_by(b, "other", X);
	ck_code(agent_release(a), 0); /* granted to the request that was left */
	ck_code(agent_try(a, "k", X), LOCKSHM_BUSY);
	ck_code(take(&hold, "other", X), LOCKSHM_BUSY);
	ck_code(agent_try(a, "k", X), 0);
}
END_TEST

/* What the call had by then is in its holds. */
START_TEST(several_keys_after_a_jump)
{
	lockshm_hold_t hold;

	leave(acquire_many);
	ck_code(agent_release(a), 0);
	(void)lockshm_release_many(many, 3);
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(acquire_many(), 0);
	ck_code(lockshm_release_many(many, 3), 0);
	check_nothing_left();
}
END_TEST

/* Without that it deadlocks with itself, and is told. */
START_TEST(several_keys_again_after_a_jump)
{
	static const char *const keys[] = { "f", "z" };
	lockshm_hold_t holds[2];
	int i, code;

	leave(acquire_many);
	for (i = 0; i < 2; i++) {
		struct lockshm_request q = patient(keys[i]);

		code = lockshm_acquire(seg, &q, &holds[i]);
		ck_assert(code == 0 || code == LOCKSHM_DEADLOCK);
	}
}
END_TEST

/* The way that is meant. */
START_TEST(canceller_of_a_handler_ends_the_wait)
{
	lockshm_hold_t hold;

	a = agent_start();
	held_by(a, "k", X);
	cancels = true;
	ck_code(interrupted(acquire_with_canceller), LOCKSHM_CANCELLED);
	ck_code(agent_release(a), 0);
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	check_nothing_left();
}
END_TEST

START_TEST(canceller_is_reset_after_a_jump)
{
	lockshm_hold_t hold;
	struct lockshm_request q = patient("k");

	leave(acquire_with_canceller);
	q.canceller = &canceller;
	ck_code(lockshm_acquire(seg, &q, &hold), LOCKSHM_INVALID);
	canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	ck_code(agent_release(a), 0);
	ck_code(lockshm_acquire(seg, &q, &hold), 0);
}
END_TEST

/* It waits for Redis, and its request on this host is granted: what the call had by then. */
static lockshm_hold_t global_hold;

static int acquire_global(void)
{
	struct lockshm_request q = patient("k");

	q.flags = LOCKSHM_GLOBAL;
	q.redis_policy = LOCKSHM_REDIS_WAIT;
	return lockshm_acquire(seg, &q, &global_hold);
}

static bool waits_for_redis(void *unused)
{
	static struct seen seen;

	(void)unused;
	look("k", &seen);
	return seen.holders + seen.waiters > 0 && seen.global[0] == 1;
}

static void *signal_when_it_waits_for_redis(void *unused)
{
	if (await(waits_for_redis, NULL))
		(void)pthread_kill(waiting_thread, SIGUSR1);
	return unused;
}

START_TEST(global_request_after_a_jump)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_request q = patient("k");
	lockshm_hold_t hold;
	pthread_t thread;

	strcpy(options.redis, "redis://127.0.0.1:1");
	ck_code(lockshm_create(&seg, other_name("redis"), &options, NULL), 0);
	waiting_thread = pthread_self();
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, signal_when_it_waits_for_redis, NULL), 0);
	if (sigsetjmp(outside, 1) == 0)
		ck_abort_msg("returned %d", acquire_global());
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	if (_i)
		ck_assert_int_ge(lockshm_release(&global_hold, 0), LOCKSHM_NOT_HELD);
	switch (lockshm_acquire(seg, &q, &hold)) {
	case 0:
		break;
	case LOCKSHM_DEADLOCK:
		ck_assert_int_eq(_i, 0);
		break;
	default:
		ck_abort_msg("neither held nor DEADLOCK");
	}
}
END_TEST

/* ---------------------------------------------------------------- at each instruction */

#ifdef __x86_64__
#define FEW 8 /* requests whose append was left between its two stores */

static volatile sig_atomic_t steps;

static void on_step(int number)
{
	(void)number;
	if (steps-- == 0)
		siglongjmp(outside, 1);
}

/* The processor traps after each instruction from here on; in the handler, and after its jump, it does not. */
static void trap_each_instruction(void)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::: "cc",
			 "memory");
}

/* Leaves a wait at its @n-th instruction.  Was the request in the queue by then? */
static bool left_in_the_queue(int n)
{
	lockshm_hold_t hold;
	bool queued;

	held_by(a, "k", X);
	steps = n;
	if (sigsetjmp(outside, 1) == 0) {
		trap_each_instruction();
		ck_abort_msg("returned %d", acquire());
	}
	queued = waits(key_of_wait);
	ck_code(agent_release(a), 0);
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	return queued;
}

/* A trap takes a microsecond or two: the append is found first, and then gone through. */
START_TEST(left_at_each_instruction)
{
	struct sigaction action = { .sa_handler = on_step };
	lockshm_hold_t hold;
	int n = 0, last;

	a = agent_start();
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_assert_int_eq(sigaction(SIGTRAP, &action, NULL), 0);
	while (!left_in_the_queue(n))
		n += 50;
	for (last = n + 50, n = n > 100 ? n - 100 : 0; n < last; n++)
		(void)left_in_the_queue(n);
	ck_assert_uint_le(stat_now().requests_used, FEW);
}
END_TEST
#endif

static void add(TCase *tc)
{
#ifdef __x86_64__
	if (!emulated())
		tcase_add_test(tc, left_at_each_instruction);
#endif
	tcase_add_loop_test(tc, acquire_drops_what_a_jump_left, 0, 4);
	tcase_add_loop_test(tc, lock_object_after_a_jump, 0, 2);
	tcase_add_test(tc, busy_key_drops_what_a_jump_left_at_another);
	tcase_add_test(tc, several_keys_after_a_jump);
	tcase_add_test(tc, several_keys_again_after_a_jump);
	tcase_add_loop_test(tc, global_request_after_a_jump, 0, 2);
	tcase_add_test(tc, canceller_of_a_handler_ends_the_wait);
	tcase_add_test(tc, canceller_is_reset_after_a_jump);
}

int main(void)
{
	return fixture_main("jump", add);
}
