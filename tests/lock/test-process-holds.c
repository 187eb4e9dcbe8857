/* SPDX-License-Identifier: MIT */
/* test-process-holds.c - calls on holds of the process in threads that take no part */
#include <sys/eventfd.h>
#include <unistd.h>

#include "hold/hold.h"
#include "hold/renewal.h"
#include "other-thread.h"
#include "segment/registry.h"
#include "support/asan.h"

static int downgrade(lockshm_hold_t *h)
{
	return lockshm_downgrade(h);
}

static int upgrade(lockshm_hold_t *h)
{
	return lockshm_upgrade(h);
}

static int acknowledge(lockshm_hold_t *h)
{
	return lockshm_acknowledge(h);
}

static int notify_no_more(lockshm_hold_t *h)
{
	return lockshm_notify(h, -1);
}

/* ---------------------------------------------------------------- calls */

START_TEST(thread_without_a_part_releases)
{
	struct other o;
	lockshm_hold_t hold, again;
	int i;

	other_start(&o);
	for (i = 0; i < 3; i++) {
		ck_code(take_for_process(&hold, "k"), 0);
		ck_code(other_does(&o, release, &hold), 0);
		ck_code(other_does(&o, release, &hold), LOCKSHM_NOT_HELD);
		ck_code(check(&hold), LOCKSHM_NOT_HELD);
		ck_code(take(&again, "k", X), 0);
		ck_code(release(&again), 0);
	}
	ck_assert_uint_eq(stat_now().owners_used, 2); /* this thread and the service thread */
	other_ends(&o);
	verify_clean();
}
END_TEST

START_TEST(thread_without_a_part_makes_every_call)
{
	struct other o;
	lockshm_hold_t hold;

	other_start(&o);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(other_does(&o, renew, &hold), 0);
	ck_code(other_does(&o, downgrade, &hold), 0);
	ck_code(other_does(&o, upgrade, &hold), 0);
	ck_code(other_does(&o, acknowledge, &hold), 0);
	ck_code(other_does(&o, notify_no_more, &hold), 0);
	ck_code(other_does(&o, to_process, &hold), 0);
	ck_code(check(&hold), 0);
	ck_assert_uint_eq(stat_now().owners_used, 2);
	ck_code(other_does(&o, to_caller, &hold), 0);
	ck_code(check(&hold), LOCKSHM_NOT_HELD);
	ck_code(other_does(&o, release, &hold), 0);
	other_ends(&o);
	verify_clean();
}
END_TEST

static int watch(lockshm_hold_t *h)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), code = lockshm_notify(h, fd);

	close(fd);
	return code;
}

/* Its renewal is the service thread's as well. */
START_TEST(renewed_and_watched_holds_are_for_every_thread)
{
	struct lockshm_request request = request_for("k", X);
	struct other o;
	lockshm_hold_t hold;
	int i;

	other_start(&o);
	for (i = 0; i < 4; i++) {
		request.ttl_ns = LOCKSHM_SECONDS(60);
		request.flags = i & 1 ? LOCKSHM_AUTO_RENEW : 0;
		ck_code(lockshm_acquire(seg, &request, &hold), 0);
		ck_code(lockshm_move(&hold, LOCKSHM_TO_PROCESS), 0);
		if (i & 2)
			ck_code(other_does(&o, watch, &hold), 0);
		ck_code(other_does(&o, check, &hold), 0);
		ck_code(other_does(&o, renew, &hold), 0);
		ck_code(other_does(&o, release, &hold), 0);
		ck_code(check(&hold), LOCKSHM_NOT_HELD);
	}
	other_ends(&o);
	verify_clean();
}
END_TEST

/* With other requests in the queue, late, and lost: off the straight line. */
START_TEST(every_way_to_release)
{
	struct lockshm_request shared = request_for("k", LOCKSHM_SHARED);
	struct other o;
	lockshm_hold_t first, second, third;

	other_start(&o);
	ck_code(lockshm_acquire(seg, &shared, &first), 0);
	ck_code(lockshm_acquire(seg, &shared, &second), 0);
	ck_code(to_process(&first), 0);
	ck_code(to_process(&second), 0);
	ck_code(other_does(&o, release, &first), 0);
	ck_code(take(&third, "k", X), LOCKSHM_BUSY);
	ck_code(other_does(&o, release, &second), 0);
	ck_code(take_for(&first, "k", X, LOCKSHM_MS(5)), 0);
	ck_code(to_process(&first), 0);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(other_does(&o, release, &first), LOCKSHM_LATE);
	ck_code(take_for(&first, "k", X, LOCKSHM_MS(5)), 0);
	ck_code(to_process(&first), 0);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(take(&second, "k", X), 0);
	ck_code(other_does(&o, release, &first), LOCKSHM_LOST);
	ck_code(check(&second), 0);
	ck_code(release(&second), 0);
	other_ends(&o);
	verify_clean();
}
END_TEST

/* A cooldown keeps the lock closed. */
START_TEST(cooldown_of_a_hold_of_the_process)
{
	lockshm_hold_t hold;

	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(lockshm_release(&hold, LOCKSHM_SECONDS(60)), 0);
	ck_code(take(&hold, "k", X), LOCKSHM_BUSY);
}
END_TEST

/* All the locks that there are, held by this thread. */
static void lock_all(void)
{
	process_lock();
	pthread_mutex_lock(&seg->starting);
	pthread_mutex_lock(&seg->lock);
	renewals_lock(seg);
}

static void unlock_all(void)
{
	renewals_unlock(seg);
	pthread_mutex_unlock(&seg->lock);
	pthread_mutex_unlock(&seg->starting);
	process_unlock();
}

/* But for the first one of its thread, which would wait for ever here. */
START_TEST(calls_on_a_plain_hold_take_no_lock)
{
	lockshm_hold_t one, two;
	struct other o;

	other_start(&o);
	ck_code(take_for_process(&one, "one"), 0);
	ck_code(take_for_process(&two, "two"), 0);
	ck_code(other_does(&o, check, &one), 0);
	lock_all();
	ck_code(other_does(&o, renew, &one), 0);
	ck_code(other_does(&o, check, &one), 0);
	ck_code(other_does(&o, release, &one), 0);
	ck_code(check(&two), 0);
	ck_code(release(&two), 0);
	unlock_all();
	ck_code(take(&one, "one", X), 0);
	ck_code(take(&two, "two", X), 0);
	other_ends(&o);
	verify_clean();
}
END_TEST

/* What hold_fill() makes for a participant of the process becomes a hold of the process by one more step. */
START_TEST(hold_filled_for_the_process)
{
	struct participant of_process;
	lockshm_hold_t hold;
	struct hold *h = hold_of(&hold);
	struct grant grant;
	struct other o;

	ck_code(take_for_process(&hold, "k"), 0);
	of_process = *participant_find(seg);
	of_process.uid = h->owner;
	grant = h->grant;
	hold_fill(h, &of_process, h->index, h->entry, &grant, h->key_check);
	ck_code(check(&hold), 0);
	hold_set_of_process(h);
	ck_assert(hold_sealed(h));
	ck_assert_uint_eq(h->moved, 1);
	ck_code(check(&hold), 0);
	other_start(&o);
	ck_code(other_does(&o, release, &hold), 0);
	other_ends(&o);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- the same hold twice */

/* An error of the caller, which does no harm to other holds. */
START_TEST(released_by_two_threads_at_once)
{
	struct meeting m = { .rounds = 2000 };
	lockshm_hold_t next;
	pthread_t thread;
	int i, code;

	pthread_barrier_init(&m.turn, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, release_at_once, &m), 0);
	for (i = 0; i < m.rounds; i++) {
		ck_code(take_for_process(&m.hold, "k"), 0);
		pthread_barrier_wait(&m.turn);
		pthread_barrier_wait(&m.turn);
		code = release(&m.hold);
		ck_code(take(&next, "k", X), 0);
		pthread_barrier_wait(&m.turn);
		ck_assert(code == 0 || m.code == 0);
		ck_code(check(&next), 0);
		ck_code(release(&next), 0);
	}
	pthread_join(thread, NULL);
	verify_clean();
}
END_TEST

static bool four_more(void *arg)
{
	unsigned n;

	pthread_mutex_lock(&seg->lock);
	n = seg->refs;
	pthread_mutex_unlock(&seg->lock);
	return n >= *(unsigned *)arg + 4;
}

/* Also an error: one of them gets it.  Each call has a reference and has made its thread take part, and then waits. */
START_TEST(moved_by_two_threads_at_once)
{
	struct other one, two;
	lockshm_hold_t hold;
	unsigned refs;
	int first, second;

	other_start(&one);
	other_start(&two);
	ck_code(take_for_process(&hold, "k"), 0);
	refs = seg->refs;
	renewals_lock(seg);
	other_begins(&one, to_caller, &hold);
	other_begins(&two, to_caller, &hold);
	ck_assert(await(four_more, &refs));
	renewals_unlock(seg);
	first = other_did(&one);
	second = other_did(&two);
	ck_assert(first == 0 || second == 0);
	ck_code(first ? first : second, LOCKSHM_NOT_HELD);
	ck_code(other_does(first ? &two : &one, release, &hold), 0);
	other_ends(&one);
	other_ends(&two);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- many at once */

#define TAKERS 4
#define USERS 4
#define KEYS 8
#define ROUNDS (UNDER_ASAN ? 500 : 3000)

/* A hold on its way from a thread that takes and moves it to one that takes no part. */
static struct parcel {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	lockshm_hold_t hold;
	unsigned key;
	bool full, over;
} parcels[USERS];
static long counters[KEYS]; /* each guarded by its key */

static void *use_and_release(void *arg)
{
	struct parcel *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->over || p->full) {
		if (p->full) {
			counters[p->key]++;
			ck_code(release(&p->hold), 0);
			p->full = false;
			pthread_cond_broadcast(&p->changed);
		} else {
			pthread_cond_wait(&p->changed, &p->lock);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* The lock of a parcel whose hold is on its way is free, so that it can arrive. */
static void take_move_and_pass(struct parcel *p, unsigned key, bool pass_on)
{
	char name[2] = { (char)('0' + key), '\0' };
	struct lockshm_request request = request_for(name, X);

	request.timeout_ns = PATIENCE;
	pthread_mutex_lock(&p->lock);
	while (p->full)
		pthread_cond_wait(&p->changed, &p->lock);
	ck_code(lockshm_acquire(seg, &request, &p->hold), 0);
	counters[key]++;
	ck_code(to_process(&p->hold), 0);
	p->key = key;
	p->full = pass_on;
	if (pass_on)
		pthread_cond_broadcast(&p->changed);
	else
		ck_code(release(&p->hold), 0);
	pthread_mutex_unlock(&p->lock);
}

static void *taker_main(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, i;

	for (i = 0; i < ROUNDS; i++)
		take_move_and_pass(&parcels[(me + i) % USERS], (me * 7 + i * 13) % KEYS, i % 4 != 0);
	return NULL;
}

START_TEST(moves_and_releases_of_many_threads)
{
	pthread_t takers[TAKERS], users[USERS];
	long sum = 0;
	uintptr_t i;

	for (i = 0; i < USERS; i++) {
		pthread_mutex_init(&parcels[i].lock, NULL);
		pthread_cond_init(&parcels[i].changed, NULL);
		ck_assert_int_eq(pthread_create(&users[i], NULL, use_and_release, &parcels[i]), 0);
	}
	for (i = 0; i < TAKERS; i++)
		ck_assert_int_eq(pthread_create(&takers[i], NULL, taker_main, (void *)i), 0);
	for (i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	for (i = 0; i < USERS; i++) {
		pthread_mutex_lock(&parcels[i].lock);
		parcels[i].over = true;
		pthread_cond_broadcast(&parcels[i].changed);
		pthread_mutex_unlock(&parcels[i].lock);
		pthread_join(users[i], NULL);
	}
	for (i = 0; i < KEYS; i++)
		sum += counters[i];
	ck_assert_int_eq(sum, TAKERS * (ROUNDS + ROUNDS / 4 * 3));
	ck_assert_uint_eq(stat_now().acquires, TAKERS * ROUNDS);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, thread_without_a_part_releases);
	tcase_add_test(tc, thread_without_a_part_makes_every_call);
	tcase_add_test(tc, renewed_and_watched_holds_are_for_every_thread);
	tcase_add_test(tc, every_way_to_release);
	tcase_add_test(tc, cooldown_of_a_hold_of_the_process);
	tcase_add_test(tc, calls_on_a_plain_hold_take_no_lock);
	tcase_add_test(tc, hold_filled_for_the_process);
	if (!UNDER_TSAN) {
		tcase_add_test(tc, released_by_two_threads_at_once);
		tcase_add_test(tc, moved_by_two_threads_at_once);
	}
	tcase_add_native(tc, moves_and_releases_of_many_threads);
}

int main(void)
{
	return fixture_main("process holds", add);
}
