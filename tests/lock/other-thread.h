/* SPDX-License-Identifier: MIT */
/* other-thread.h - a thread of the test that makes calls on holds of the process, one at a time, and takes no part */
#ifndef LOCKSHM_TEST_OTHER_THREAD_H
#define LOCKSHM_TEST_OTHER_THREAD_H

#include <pthread.h>

#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE

/* ThreadSanitizer takes what the parent's threads did before a fork for races with the child, and an error of the caller
 * for one. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

static inline int release(lockshm_hold_t *h)
{
	return lockshm_release(h, 0);
}

static inline int check(lockshm_hold_t *h)
{
	return lockshm_check(h, NULL);
}

static inline int renew(lockshm_hold_t *h)
{
	return lockshm_renew(h, LOCKSHM_SECONDS(60));
}

static inline int to_caller(lockshm_hold_t *h)
{
	return lockshm_move(h, LOCKSHM_TO_CALLER);
}

static inline int to_process(lockshm_hold_t *h)
{
	return lockshm_move(h, LOCKSHM_TO_PROCESS);
}

static inline int take_for_process(lockshm_hold_t *h, const char *key)
{
	int code = take(h, key, X);

	return code ? code : lockshm_move(h, LOCKSHM_TO_PROCESS);
}

/* ---------------------------------------------------------------- the thread */

/* It never acquires, so it takes no part. */
struct other {
	pthread_t thread;
	pthread_barrier_t turn;
	int (*step)(lockshm_hold_t *h); /* NULL = exit */
	lockshm_hold_t *hold;
	int code;
};

static inline void *other_main(void *arg)
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

static inline void other_start(struct other *o)
{
	pthread_barrier_init(&o->turn, NULL, 2);
	ck_assert_int_eq(pthread_create(&o->thread, NULL, other_main, o), 0);
}

static inline void other_begins(struct other *o, int (*step)(lockshm_hold_t *h), lockshm_hold_t *h)
{
	o->step = step;
	o->hold = h;
	pthread_barrier_wait(&o->turn);
}

static inline int other_did(struct other *o)
{
	pthread_barrier_wait(&o->turn);
	return o->code;
}

static inline int other_does(struct other *o, int (*step)(lockshm_hold_t *h), lockshm_hold_t *h)
{
	other_begins(o, step, h);
	return other_did(o);
}

static inline void other_ends(struct other *o)
{
	o->step = NULL;
	pthread_barrier_wait(&o->turn);
	pthread_join(o->thread, NULL);
	pthread_barrier_destroy(&o->turn);
}

/* ---------------------------------------------------------------- two at once */

struct meeting {
	pthread_barrier_t turn;
	lockshm_hold_t hold;
	int rounds;
	int code;
};

/* In every second round the thread has used the segment before. */
static inline void *release_at_once(void *arg)
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

#endif
