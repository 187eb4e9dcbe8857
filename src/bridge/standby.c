/* SPDX-License-Identifier: MIT */
/*
 * standby.c - the standby thread
 *
 * It waits for the lock that elects the leader, as the standbys of all other processes and any `lockctl bridge` do, and
 * leads once it holds that.  Started at the first acquire of a global key, so that a successor can renew if the leader
 * dies.
 */
#include "bridge/standby.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridge/fork.h"
#include "hostlease/leader.h"
#include "lock/participant.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "sys/thread.h"

#define AGAIN_NS LOCKSHM_SECONDS(1) /* after a failure that may be transient */

struct standby {
	struct lockshm *s;
	pthread_t thread;
	lockshm_canceller_t canceller;
	uint32_t stop; /* futex */
	pthread_mutex_t lock; /* guards the rest */
	struct lockshm_error trouble; /* why it could not lead; code 0 = it could, or has not tried yet */
	int code;
};

static void set_trouble(struct standby *sb, int code, const struct lockshm_error *why)
{
	pthread_mutex_lock(&sb->lock);
	sb->code = code;
	sb->trouble = *why;
	pthread_mutex_unlock(&sb->lock);
}

int standby_trouble(struct lockshm *s, struct lockshm_error *error)
{
	struct standby *sb = __atomic_load_n(&s->standby, __ATOMIC_ACQUIRE);
	int32_t pid, tid;
	struct lockshm_error why;
	int code;

	if (!sb)
		return 0;
	pthread_mutex_lock(&sb->lock);
	code = sb->code;
	why = sb->trouble;
	pthread_mutex_unlock(&sb->lock);
	if (code == 0 || (leader_find(s, &pid, &tid) == 0 && pid != 0))
		return 0;
	error_set(error, code, "no process of this host leads the bridge; the standby of this one: %.150s",
		  why.message);
	if (error)
		error->table = why.table;
	return code;
}

static void rest(struct standby *sb)
{
	struct futex_watch watch = { &sb->stop, 0 };

	futex_wait_any(&watch, 1, clock_precise() + AGAIN_NS);
}

/* Join as one of the library's own threads, which close() does not wait for. */
static int join(struct standby *sb, struct lockshm_error *why)
{
	struct participant *self = participant_find(sb->s);

	return self ? 0 : participant_join(sb->s, &self, JOIN_OWN_THREAD, why);
}

static void *standby_main(void *arg)
{
	struct lockshm_error why = { 0 };
	struct standby *sb = arg;
	int err = 0;

	/* A removed segment has no demand for its keys any more. */
	while (load_acquire32(&sb->stop) == 0 && err != LOCKSHM_NO_SEGMENT) {
		err = join(sb, &why);
		if (!err)
			err = lockshm_bridge_serve(sb->s, &sb->canceller, &why);
		if (err == LOCKSHM_CANCELLED || err == LOCKSHM_NO_SEGMENT)
			continue;
		set_trouble(sb, err, &why);
		rest(sb);
		/* The failure may have been transient. */
		set_trouble(sb, 0, &(struct lockshm_error){ 0 });
	}
	participant_leave(sb->s);
	return NULL;
}

/* s->starting held. */
static int start_new(struct lockshm *s, struct lockshm_error *error)
{
	struct standby *sb = calloc(1, sizeof(*sb));
	int err;

	if (!sb)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the standby thread");
	sb->s = s;
	pthread_mutex_init(&sb->lock, NULL);
	err = thread_start(&sb->thread, standby_main, sb);
	if (err) {
		pthread_mutex_destroy(&sb->lock);
		free(sb);
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot start the standby thread");
	}
	__atomic_store_n(&s->standby, sb, __ATOMIC_RELEASE);
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
	struct standby *sb;

	pthread_mutex_lock(&s->starting);
	sb = s->standby;
	__atomic_store_n(&s->standby, NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&s->starting);
	if (!sb)
		return;
	store_release32(&sb->stop, 1);
	(void)lockshm_cancel(&sb->canceller);
	futex_wake(&sb->stop, 1);
	(void)fetch_add32(&s->bridge->doorbell, 1);
	futex_wake(&s->bridge->doorbell, INT32_MAX);
	pthread_join(sb->thread, NULL);
	pthread_mutex_destroy(&sb->lock);
	free(sb);
}
