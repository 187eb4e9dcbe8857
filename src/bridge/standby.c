/* SPDX-License-Identifier: MIT */
/*
 * standby.c - the standby thread
 *
 * It waits for the lock that elects the leader, as the standbys of all other processes and any `lockctl bridge` do, and
 * leads once it has that.  Started at the first acquire of a global key, so that a successor is there to renew should
 * the leader die.
 */
#include "bridge/standby.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridge/fork.h"
#include "hostlease/leader.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "lock/participant.h"
#include "sys/thread.h"

#define AGAIN_NS LOCKSHM_SECONDS(1) /* after a failure that may pass */

struct standby {
	struct lockshm *s;
	pthread_t thread;
	lockshm_canceller_t canceller;
	uint32_t stop; /* futex */
	pthread_mutex_t lock; /* guards the rest */
	struct lockshm_error trouble; /* why it could not be the bridge; code 0 = it could, or has not tried yet */
	int code;
};

static void set_trouble(struct standby *h, int code, const struct lockshm_error *why)
{
	pthread_mutex_lock(&h->lock);
	h->code = code;
	h->trouble = *why;
	pthread_mutex_unlock(&h->lock);
}

int standby_trouble(struct lockshm *s, struct lockshm_error *error)
{
	struct standby *h = __atomic_load_n(&s->standby, __ATOMIC_ACQUIRE);
	int32_t pid, tid;
	struct lockshm_error why;
	int code;

	if (!h)
		return 0;
	pthread_mutex_lock(&h->lock);
	code = h->code;
	why = h->trouble;
	pthread_mutex_unlock(&h->lock);
	if (code == 0 || (leader_find(s, &pid, &tid) == 0 && pid != 0))
		return 0;
	error_set(error, code, "no process of this host is the bridge; the standby thread of this one: %.150s", why.message);
	if (error)
		error->table = why.table;
	return code;
}

static void rest(struct standby *h)
{
	struct futex_watch watch = { &h->stop, 0 };

	futex_wait_any(&watch, 1, clock_precise() + AGAIN_NS);
}

/* As one of the library's own threads, which close() does not wait for. */
static int join(struct standby *h, struct lockshm_error *why)
{
	struct participant *self = participant_find(h->s);

	return self ? 0 : participant_join(h->s, &self, JOIN_OWN_THREAD, why);
}

static void *standby_main(void *arg)
{
	struct lockshm_error why = { 0 };
	struct standby *h = arg;
	int err = 0;

	/* A segment that was removed has no keys any more that somebody could ask for. */
	while (load_acquire32(&h->stop) == 0 && err != LOCKSHM_NO_SEGMENT) {
		err = join(h, &why);
		if (!err)
			err = lockshm_bridge_serve(h->s, &h->canceller, &why);
		if (err == LOCKSHM_CANCELLED || err == LOCKSHM_NO_SEGMENT)
			continue;
		set_trouble(h, err, &why);
		rest(h);
		/* What it was may be over. */
		set_trouble(h, 0, &(struct lockshm_error){ 0 });
	}
	participant_leave(h->s);
	return NULL;
}

/* s->starting held. */
static int start_new(struct lockshm *s, struct lockshm_error *error)
{
	struct standby *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the standby thread");
	h->s = s;
	pthread_mutex_init(&h->lock, NULL);
	err = thread_start(&h->thread, standby_main, h);
	if (err) {
		pthread_mutex_destroy(&h->lock);
		free(h);
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot start the standby thread");
	}
	__atomic_store_n(&s->standby, h, __ATOMIC_RELEASE);
	return 0;
}

int standby_start(struct lockshm *s, struct lockshm_error *error)
{
	int err;

	(void)process_epoch(); /* in a forked child: forget the parent's first */
	if (likely(__atomic_load_n(&s->standby, __ATOMIC_ACQUIRE) != NULL))
		return 0;
	err = bridge_load(s, error);
	if (err)
		return err;
	pthread_mutex_lock(&s->starting);
	if (!s->standby)
		err = start_new(s, error);
	pthread_mutex_unlock(&s->starting);
	return err;
}

void standby_stop(struct lockshm *s)
{
	struct standby *h;

	pthread_mutex_lock(&s->starting);
	h = s->standby;
	__atomic_store_n(&s->standby, NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&s->starting);
	if (!h)
		return;
	store_release32(&h->stop, 1);
	(void)lockshm_cancel(&h->canceller);
	futex_wake(&h->stop, 1);
	(void)fetch_add32(&s->bridge->doorbell, 1);
	futex_wake(&s->bridge->doorbell, INT32_MAX);
	pthread_join(h->thread, NULL);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
