/* SPDX-License-Identifier: MIT */
/* test-process-holds.c - holds of the process in threads that take no part, and what keeps the segment mapped for them */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold/hold.h"
#include "hold/renewal.h"
#include "segment/registry.h"
#include "support/asan.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE

static int take_for_process(lockshm_hold_t *h, const char *key)
{
	int code = take(h, key, X);

	return code ? code : lockshm_move(h, LOCKSHM_TO_PROCESS);
}

/* ---------------------------------------------------------------- a thread that does one step after the other */

/* It never acquires, so it takes no part. */
struct other {
	pthread_t thread;
	pthread_barrier_t turn;
	int (*step)(lockshm_hold_t *h); /* NULL = exit */
	lockshm_hold_t *hold;
	int code;
};

static void *other_main(void *arg)
{
	struct other *o = arg;

	for (;;) {
		pthread_barrier_wait(&o->turn);
		if (!o->step)
			return NULL;
		o->code = o->step(o->hold);
		pthread_barrier_wait(&o->turn);
	}
}

static void other_start(struct other *o)
{
	pthread_barrier_init(&o->turn, NULL, 2);
	ck_assert_int_eq(pthread_create(&o->thread, NULL, other_main, o), 0);
}

static int other_does(struct other *o, int (*step)(lockshm_hold_t *h), lockshm_hold_t *h)
{
	o->step = step;
	o->hold = h;
	pthread_barrier_wait(&o->turn);
	pthread_barrier_wait(&o->turn);
	return o->code;
}

static void other_ends(struct other *o)
{
	o->step = NULL;
	pthread_barrier_wait(&o->turn);
	pthread_join(o->thread, NULL);
	pthread_barrier_destroy(&o->turn);
}

static int release(lockshm_hold_t *h)
{
	return lockshm_release(h, 0);
}

static int check(lockshm_hold_t *h)
{
	return lockshm_check(h, NULL);
}

static int renew(lockshm_hold_t *h)
{
	return lockshm_renew(h, LOCKSHM_SECONDS(60), LOCKSHM_RENEW_RESET);
}

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

static int to_caller(lockshm_hold_t *h)
{
	return lockshm_move(h, LOCKSHM_TO_CALLER);
}

static int to_process(lockshm_hold_t *h)
{
	return lockshm_move(h, LOCKSHM_TO_PROCESS);
}

static int notify_no_more(lockshm_hold_t *h)
{
	return lockshm_notify(h, -1);
}

static int close_it(lockshm_hold_t *h)
{
	return lockshm_close(hold_of(h)->segment);
}

/* Mappings of the test's segment. */
static int count_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, seg_name) != NULL;
	fclose(maps);
	return n;
}

static int count_alive(const struct lockshm_owner_info *info, void *arg)
{
	*(int *)arg += info->alive != 0;
	return 0;
}

/* Owners that are alive, in a new handle. */
static int count_owners(void)
{
	lockshm_t *s;
	int n = 0;

	ck_code(lockshm_open(&s, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	ck_code(lockshm_each_owner(s, count_alive, &n), 0);
	ck_code(lockshm_close(s), 0);
	return n;
}

static lockshm_t *opened_anew(void)
{
	lockshm_t *s;

	ck_code(lockshm_open(&s, seg_name, 0, NULL), 0);
	return s;
}

/* The mapping that its creator has made is not shown under its name. */
static void open_by_name(void)
{
	ck_code(lockshm_close(seg), 0);
	seg = opened_anew();
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

/* ---------------------------------------------------------------- the mapping, and the service thread */

START_TEST(mapping_goes_with_the_last_thread_that_used_a_hold)
{
	lockshm_hold_t hold, stale;
	struct other o;

	open_by_name();
	other_start(&o);
	ck_code(take_for_process(&stale, "stale"), 0);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&o, release, &hold), 0);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_gt(count_mapped(), 0);
	/* Only that thread is left: the service thread has ended, and with it the process' holds and its slot. */
	ck_assert_int_eq(count_owners(), 0);
	ck_code(other_does(&o, release, &stale), LOCKSHM_NOT_HELD);
	ck_code(release(&stale), LOCKSHM_NOT_HELD);
	other_ends(&o);
	ck_assert_int_eq(count_mapped(), 0);
	seg = opened_anew();
	ck_code(take(&hold, "stale", X), 0);
	verify_clean();
}
END_TEST

/* A thread that takes part keeps the service thread after the close; the last such thread ends it. */
START_TEST(service_thread_stays_for_a_thread_that_takes_part)
{
	lockshm_hold_t hold, own;
	struct other user, member;
	lockshm_t *closed;

	open_by_name();
	closed = seg;
	other_start(&user);
	other_start(&member);
	ck_code(take_for_process(&own, "own"), 0);
	ck_code(other_does(&member, to_caller, &own), 0); /* it takes part from now on */
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&user, check, &hold), 0);
	ck_code(lockshm_close(closed), 0);
	ck_code(other_does(&user, check, &hold), 0);
	ck_code(other_does(&user, renew, &hold), 0);
	ck_assert_int_eq(count_owners(), 2);
	other_ends(&member);
	ck_assert_int_eq(count_owners(), 0);
	ck_code(other_does(&user, check, &hold), LOCKSHM_NOT_HELD);
	ck_assert_int_gt(count_mapped(), 0);
	other_ends(&user);
	ck_assert_int_eq(count_mapped(), 0);
	seg = opened_anew();
	ck_code(take(&hold, "k", X), 0);
}
END_TEST

/* The last close in a thread that used a hold and takes no part. */
START_TEST(close_in_such_a_thread)
{
	lockshm_hold_t hold;
	struct other o;

	other_start(&o);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(lockshm_close(opened_anew()), 0); /* not the last one */
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(other_does(&o, close_it, &hold), 0);
	/* This thread takes part still. */
	ck_code(check(&hold), 0);
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(other_does(&o, release, &hold), 0);
	other_ends(&o);
	seg = opened_anew();
	verify_clean();
}
END_TEST

static void *take_and_move(void *arg)
{
	ck_code(take_for_process(arg, "k"), 0);
	return NULL;
}

/* No thread takes part but the service thread. */
START_TEST(close_by_the_only_user_unmaps)
{
	lockshm_hold_t hold;
	pthread_t thread;

	open_by_name();
	ck_assert_int_eq(pthread_create(&thread, NULL, take_and_move, &hold), 0);
	pthread_join(thread, NULL);
	ck_code(check(&hold), 0);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_eq(count_mapped(), 0);
	ck_code(check(&hold), LOCKSHM_NOT_HELD);
	ck_code(release(&hold), LOCKSHM_NOT_HELD);
	ck_code(to_caller(&hold), LOCKSHM_NOT_HELD);
	seg = opened_anew();
	ck_code(check(&hold), LOCKSHM_NOT_HELD);
	ck_code(take(&hold, "k", X), 0);
}
END_TEST

/* A thread that goes from segment to segment keeps the last closed one only. */
START_TEST(thread_does_not_collect_closed_segments)
{
	lockshm_hold_t hold;
	struct other o;
	int i, of_one;

	open_by_name();
	of_one = count_mapped();
	ck_assert_int_gt(of_one, 0);
	other_start(&o);
	for (i = 0; i < 10; i++) {
		ck_code(take_for_process(&hold, "k"), 0);
		ck_code(other_does(&o, release, &hold), 0);
		ck_code(lockshm_close(seg), 0);
		ck_assert_int_le(count_mapped(), of_one);
		seg = opened_anew();
	}
	other_ends(&o);
	ck_assert_int_eq(count_mapped(), of_one);
}
END_TEST

/* ---------------------------------------------------------------- while another thread closes */

#define CLOSES 300

struct meeting {
	pthread_barrier_t turn;
	lockshm_hold_t hold;
	int rounds;
	int code;
};

/* In every second round the thread has used the segment before. */
static void *release_at_once(void *arg)
{
	struct meeting *m = arg;
	int i;

	for (i = 0; i < m->rounds; i++) {
		pthread_barrier_wait(&m->turn);
		if (i & 1)
			ck_code(check(&m->hold), 0);
		pthread_barrier_wait(&m->turn);
		m->code = release(&m->hold);
		pthread_barrier_wait(&m->turn);
	}
	return NULL;
}

START_TEST(release_while_another_thread_closes)
{
	struct meeting m = { .rounds = CLOSES };
	pthread_t thread;
	int i;

	pthread_barrier_init(&m.turn, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, release_at_once, &m), 0);
	for (i = 0; i < CLOSES; i++) {
		ck_code(take_for_process(&m.hold, "k"), 0);
		pthread_barrier_wait(&m.turn);
		pthread_barrier_wait(&m.turn);
		ck_code(lockshm_close(seg), 0);
		pthread_barrier_wait(&m.turn);
		/* LOST: swept at this moment, as a hold of the dead. */
		ck_assert(m.code == 0 || m.code == LOCKSHM_NOT_HELD || m.code == LOCKSHM_LOST);
		seg = opened_anew();
		ck_code(take(&m.hold, "k", X), 0);
		ck_code(release(&m.hold), 0);
	}
	pthread_join(thread, NULL);
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

/* ---------------------------------------------------------------- fork */

static int as_child(lockshm_hold_t *h)
{
	lockshm_hold_t mine;
	lockshm_t *s = seg;

	if (lockshm_check(h, NULL) != LOCKSHM_NOT_HELD || lockshm_release(h, 0) != LOCKSHM_NOT_HELD)
		return 1;
	if (take(&mine, "of-child", X) || lockshm_move(&mine, LOCKSHM_TO_PROCESS) || lockshm_release(&mine, 0))
		return 2;
	if (take(&mine, "of-child", X) || lockshm_move(&mine, LOCKSHM_TO_PROCESS) || lockshm_close(s))
		return 3;
	return lockshm_release(&mine, 0) == LOCKSHM_NOT_HELD ? 0 : 4;
}

/* Its first call needs the service thread, which is the parent's. */
static int as_renewing_child(lockshm_hold_t *h)
{
	struct lockshm_request request = request_for("renewed", X);
	lockshm_hold_t mine;

	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = LOCKSHM_AUTO_RENEW;
	if (lockshm_acquire(seg, &request, &mine) || lockshm_check(&mine, NULL) || lockshm_release(&mine, 0))
		return 1;
	return lockshm_release(h, 0) == LOCKSHM_NOT_HELD ? 0 : 2;
}

static int status_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int in_child(lockshm_hold_t *h)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(as_child(h));
	return status_of(pid);
}

/* Past the C library. */
static int in_clone(lockshm_hold_t *h)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		syscall(SYS_exit_group, as_child(h));
	return status_of(pid);
}

static int in_renewing_clone(lockshm_hold_t *h)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		syscall(SYS_exit_group, as_renewing_child(h));
	return status_of(pid);
}

START_TEST(child_of_a_thread_that_used_a_hold)
{
	static int (*const ways[])(lockshm_hold_t *h) = { in_child, in_clone, in_renewing_clone };
	lockshm_hold_t hold, other;
	struct other o;

	open_by_name();
	other_start(&o);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(take_for_process(&other, "other"), 0);
	ck_code(other_does(&o, release, &other), 0);
	ck_assert_int_eq(other_does(&o, ways[_i], &hold), 0);
	ck_code(check(&hold), 0);
	ck_code(other_does(&o, release, &hold), 0);
	other_ends(&o);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_eq(count_mapped(), 0);
	seg = opened_anew();
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
	struct parcel *l = arg;

	pthread_mutex_lock(&l->lock);
	while (!l->over || l->full) {
		if (l->full) {
			counters[l->key]++;
			ck_code(release(&l->hold), 0);
			l->full = false;
			pthread_cond_broadcast(&l->changed);
		} else {
			pthread_cond_wait(&l->changed, &l->lock);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* The lock of a parcel whose hold is on its way is free, so that it can arrive. */
static void take_move_and_pass(struct parcel *l, unsigned key, bool pass_on)
{
	char name[2] = { (char)('0' + key), '\0' };
	struct lockshm_request request = request_for(name, X);

	request.timeout_ns = PATIENCE;
	pthread_mutex_lock(&l->lock);
	while (l->full)
		pthread_cond_wait(&l->changed, &l->lock);
	ck_code(lockshm_acquire(seg, &request, &l->hold), 0);
	counters[key]++;
	ck_code(to_process(&l->hold), 0);
	l->key = key;
	l->full = pass_on;
	if (pass_on)
		pthread_cond_broadcast(&l->changed);
	else
		ck_code(release(&l->hold), 0);
	pthread_mutex_unlock(&l->lock);
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
	tcase_add_test(tc, mapping_goes_with_the_last_thread_that_used_a_hold);
	tcase_add_test(tc, service_thread_stays_for_a_thread_that_takes_part);
	tcase_add_test(tc, close_in_such_a_thread);
	tcase_add_test(tc, close_by_the_only_user_unmaps);
	tcase_add_test(tc, thread_does_not_collect_closed_segments);
	tcase_add_native(tc, release_while_another_thread_closes);
	tcase_add_test(tc, released_by_two_threads_at_once);
	if (!emulated())
		tcase_add_loop_test(tc, child_of_a_thread_that_used_a_hold, 0, 3);
	tcase_add_native(tc, moves_and_releases_of_many_threads);
}

int main(void)
{
	return fixture_main("process holds", add);
}
