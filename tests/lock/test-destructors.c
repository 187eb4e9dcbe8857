/* SPDX-License-Identifier: MIT */
/*
 * test-destructors.c - a thread's holds end after the destructors of its data
 *
 * The order of these destructors is that of their keys, in rounds.  An older key is made before the library's, which is
 * made when the first thread of the process takes part.  All holds are strict, and requests robust: a hold that ended
 * by itself would show.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/inside.h"

#define ROUNDS PTHREAD_DESTRUCTOR_ITERATIONS

static struct lockshm_request robust(const char *key)
{
	struct lockshm_request q = request_for(key, LOCKSHM_EXCLUSIVE);

	q.flags = LOCKSHM_ROBUST;
	return q;
}

/* What a thread's data is: its destructor acts, in each of the rounds that it asks for. */
struct data {
	void (*at_end)(struct data *data);
	pthread_key_t key;
	int rounds; /* in which the destructor runs */
	int round;
	int codes[ROUNDS];
	lockshm_hold_t hold;
	lockshm_lock_t lock;
};

static void destroy(void *value)
{
	struct data *d = value;

	d->at_end(d);
	if (++d->round < d->rounds)
		ck_assert_int_eq(pthread_setspecific(d->key, d), 0);
}

/* Sets it, and takes part, in the order that is tested. */
static bool key_is_younger;

static void set_data(struct data *d)
{
	ck_assert_int_eq(pthread_key_create(&d->key, destroy), 0);
	ck_assert_int_eq(pthread_setspecific(d->key, d), 0);
}

static void *acquire_and_end(void *data)
{
	struct data *d = data;
	struct lockshm_request q = robust("k");

	if (!key_is_younger)
		set_data(d);
	ck_code(lockshm_acquire(seg, &q, &d->hold), 0);
	if (key_is_younger)
		set_data(d);
	return NULL;
}

static void in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static bool is_free(void *unused)
{
	struct lockshm_request q = robust("k");
	lockshm_hold_t hold;
	int code = lockshm_acquire(seg, &q, &hold);

	(void)unused;
	ck_assert(code == LOCKSHM_BUSY || code == 0);
	return code == 0 && lockshm_release(&hold, 0) == 0;
}

static void release(struct data *d)
{
	d->codes[d->round] = d->round + 1 < d->rounds ? lockshm_check(&d->hold, NULL) : lockshm_release(&d->hold, 0);
}

/* In the first, the second or the third round; of an older key also in the last. */
START_TEST(destructor_releases)
{
	struct data d = { .at_end = release, .rounds = _i / 2 + 1 };
	int i;

	key_is_younger = _i & 1;
	in_thread(acquire_and_end, &d);
	ck_assert_int_eq(d.round, d.rounds);
	for (i = 0; i < d.rounds; i++)
		ck_code(d.codes[i], 0);
	ck_assert(await(is_free, NULL));
	verify_clean();
}
END_TEST

static struct agent *other;

static void try_and_release(struct data *d)
{
	ck_code(agent_try(other, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	release(d);
}

/* What it does there is under the lock. */
START_TEST(lock_is_held_meanwhile)
{
	struct data d = { .at_end = try_and_release, .rounds = 2 };

	other = agent_start();
	key_is_younger = true;
	in_thread(acquire_and_end, &d);
	ck_code(d.codes[0], 0);
	ck_code(d.codes[1], 0);
	ck_code(agent_try(other, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

static void try_only(struct data *d)
{
	d->codes[d->round] = agent_try(other, "k", LOCKSHM_EXCLUSIVE);
}

START_TEST(hold_that_is_left_ends_after_them)
{
	struct data d = { .at_end = try_only, .rounds = 3 };

	other = agent_start();
	key_is_younger = true;
	in_thread(acquire_and_end, &d);
	ck_code(d.codes[0], LOCKSHM_BUSY);
	ck_code(d.codes[2], LOCKSHM_BUSY);
	ck_code(agent_try(other, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
}
END_TEST

/* ---------------------------------------------------------------- other data, other threads */

static struct data *data_of_c11;

static void destroy_c11(void *value)
{
	data_of_c11 = value;
	data_of_c11->codes[0] = lockshm_release(&data_of_c11->hold, 0);
}

static int use_tss(void *data)
{
	struct data *d = data;
	struct lockshm_request q = robust("k");
	tss_t key;

	ck_code(lockshm_acquire(seg, &q, &d->hold), 0);
	ck_assert_int_eq(tss_create(&key, destroy_c11), thrd_success);
	ck_assert_int_eq(tss_set(key, d), thrd_success);
	return 0;
}

START_TEST(c11_data)
{
	struct data d = { .rounds = 1 };
	thrd_t thread;

	ck_assert_int_eq(thrd_create(&thread, use_tss, &d), thrd_success);
	ck_assert_int_eq(thrd_join(thread, NULL), thrd_success);
	ck_assert_ptr_eq(data_of_c11, &d);
	ck_code(d.codes[0], 0);
	ck_assert(is_free(NULL));
}
END_TEST

/* What a C++ compiler makes of "thread_local". */
int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso) __attribute__((weak));

static void *use_thread_local(void *data)
{
	struct data *d = data;
	struct lockshm_request q = robust("k");

	ck_assert_int_eq(__cxa_thread_atexit_impl(destroy, d, &data_of_c11), 0);
	ck_code(lockshm_acquire(seg, &q, &d->hold), 0);
	return NULL;
}

START_TEST(thread_local_objects)
{
	struct data d = { .at_end = release, .rounds = 1 };

	if (!__cxa_thread_atexit_impl) {
		printf("left out: this C library has no such destructors\n");
		return;
	}
	in_thread(use_thread_local, &d);
	ck_code(d.codes[0], 0);
	ck_assert_int_eq(d.round, 1);
	ck_assert(is_free(NULL));
}
END_TEST

static void unlock(struct data *d)
{
	d->codes[d->round] = d->round + 1 < d->rounds ? lockshm_check(lockshm_lock_hold(&d->lock), NULL) :
						       lockshm_unlock(&d->lock);
}

static void *lock_and_end(void *data)
{
	struct data *d = data;

	object_for(&d->lock, "k");
	ck_code(lockshm_lock(&d->lock, seg), 0);
	set_data(d);
	return NULL;
}

START_TEST(lock_object_in_a_destructor)
{
	struct data d = { .at_end = unlock, .rounds = 3 };

	in_thread(lock_and_end, &d);
	ck_code(d.codes[1], 0);
	ck_code(d.codes[2], 0);
	ck_assert(is_free(NULL));
}
END_TEST

static void end_main_thread(void)
{
	static struct data d = { .at_end = try_and_release, .rounds = 2 };

	key_is_younger = true;
	(void)acquire_and_end(&d);
	pthread_exit(NULL);
}

static void *see_main_thread_end(void *of)
{
	(void)of;
	while (!is_free(NULL)) /* asserts that no hold has died */
		usleep(1000);
	_exit(0);
}

START_TEST(main_thread_exits_before_others)
{
	pthread_t thread;
	int status;
	pid_t child;

	other = agent_start();
	child = fork();
	if (child == 0) {
		if (pthread_create(&thread, NULL, see_main_thread_end, NULL) == 0)
			end_main_thread();
		_exit(1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* ---------------------------------------------------------------- destructors that acquire */

static void acquire_again(struct data *d)
{
	struct lockshm_request q = robust("k");

	if (d->round == 0)
		d->codes[0] = lockshm_release(&d->hold, 0);
	else
		d->codes[d->round] = lockshm_acquire(seg, &q, &d->hold);
}

START_TEST(destructor_acquires_and_leaves_it)
{
	struct data d = { .at_end = acquire_again, .rounds = 2 };

	other = agent_start();
	key_is_younger = true;
	in_thread(acquire_and_end, &d);
	ck_code(d.codes[0], 0);
	ck_code(d.codes[1], 0);
	ck_code(agent_try(other, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
}
END_TEST

static void in_last_round(struct data *d)
{
	struct lockshm_request q = robust("k");

	if (d->round + 1 < d->rounds)
		return;
	ck_code(lockshm_acquire(seg, &q, &d->hold), 0);
	ck_code(lockshm_release(&d->hold, 0), 0);
}

static void *only_set_data(void *data)
{
	set_data(data);
	return NULL;
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int c, n = 0;

	ck_assert_ptr_nonnull(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* Threads take no part before their destructors, which run after the library's. */
static void library_has_its_key(void)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "mine", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}

/* In qemu a thread that was joined has its entry in /proc for a moment yet. */
static bool only_this_thread_is_left(void *unused)
{
	(void)unused;
	ck_code(lockshm_sweep(seg, NULL), 0);
	return stat_now().owners_used <= 1;
}

/* The thread's first call is in a destructor, of the first or of the last round: its memory is given back as well. */
START_TEST(threads_that_join_in_a_destructor)
{
	int i, before = 0, threads = 200;
	unsigned refs = 0;

	segment_with(64, 64, 8);
	library_has_its_key();
	for (i = 0; i < threads; i++) {
		struct data d = { .at_end = in_last_round, .rounds = _i ? ROUNDS : 1 };

		in_thread(only_set_data, &d);
		ck_assert_int_eq(d.round, d.rounds);
		ck_assert_int_eq(pthread_key_delete(d.key), 0);
		if (i == 10) {
			before = mappings();
			refs = seg->refs;
		}
	}
	ck_assert_int_le(mappings(), before + 20);
	ck_assert_uint_le(seg->refs, refs + 10);
	verify_clean();
	ck_assert(await(only_this_thread_is_left, NULL));
}
END_TEST

static lockshm_hold_t of_process;

static void use_hold_of_process(struct data *d)
{
	d->codes[d->round] = lockshm_check(&of_process, NULL);
}

/* The same with a hold of the process: they take no slot, but keep the segment. */
START_TEST(guests_that_come_in_a_destructor)
{
	int i, threads = 200;

	ck_code(take(&of_process, "p", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_move(&of_process, LOCKSHM_TO_PROCESS), 0);
	for (i = 0; i < threads; i++) {
		struct data d = { .at_end = use_hold_of_process, .rounds = 1 };

		in_thread(only_set_data, &d);
		ck_code(d.codes[0], 0);
		ck_assert_int_eq(pthread_key_delete(d.key), 0);
	}
	ck_assert_uint_le(seg->refs, 20);
	ck_code(lockshm_release(&of_process, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, destructor_releases, 0, 2 * ROUNDS - 1);
	tcase_add_test(tc, lock_is_held_meanwhile);
	tcase_add_test(tc, hold_that_is_left_ends_after_them);
	tcase_add_test(tc, c11_data);
	tcase_add_test(tc, thread_local_objects);
	tcase_add_test(tc, lock_object_in_a_destructor);
	tcase_add_native(tc, main_thread_exits_before_others);
	tcase_add_test(tc, destructor_acquires_and_leaves_it);
	tcase_add_loop_test(tc, threads_that_join_in_a_destructor, 0, 2);
	tcase_add_test(tc, guests_that_come_in_a_destructor);
}

int main(void)
{
	return fixture_main("destructors", add);
}
