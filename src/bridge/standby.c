/* SPDX-License-Identifier: MIT */
/*
 * standby.c - the standby thread
 *
 * It waits for the lock that elects the bridge, like the helpers of all other processes and any service, and is
 * the bridge once it has that.  Started at the first acquire of a global key, so that somebody is there who
 * renews should the bridge die.
 */
#include "bridge/standby.h"

#ifdef HAVE_BRIDGE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "redis/conn.h"
#include "redis/dynlib.h"
#include "redis/client.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "lock/owner.h"
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
	bool joined; /* the thread takes part */
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
	struct lockshm_bridge_stat stat;
	struct lockshm_error why;
	int code;

	if (!h)
		return 0;
	pthread_mutex_lock(&h->lock);
	code = h->code;
	why = h->trouble;
	pthread_mutex_unlock(&h->lock);
	if (code == 0 || (lockshm_bridge_stat(s, &stat) == 0 && stat.pid != 0))
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

/* Both under the lock, so that whoever counts those who take part sees both or nothing, see standby_lock(). */
static int join(struct standby *h, struct lockshm_error *why)
{
	struct participant *self;
	int err;

	pthread_mutex_lock(&h->lock);
	err = participant_get(h->s, &self, why);
	h->joined = err == 0;
	pthread_mutex_unlock(&h->lock);
	return err;
}

static void leave(struct standby *h)
{
	pthread_mutex_lock(&h->lock);
	participant_leave(h->s);
	h->joined = false;
	pthread_mutex_unlock(&h->lock);
}

/* One that another thread starts just now may take part and not be known yet: counted as
 * somebody else, as it may be. */
struct standby *standby_lock(struct lockshm *s, uint32_t *refs)
{
	struct standby *h = __atomic_load_n(&s->standby, __ATOMIC_ACQUIRE);

	if (h)
		pthread_mutex_lock(&h->lock);
	*refs = h && h->joined;
	return h;
}

void standby_unlock(struct standby *h)
{
	if (h)
		pthread_mutex_unlock(&h->lock);
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
	leave(h);
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
	const char *why;
	int err = 0;

	(void)process_epoch(); /* in a forked child: forget the parent's first */
	if (likely(__atomic_load_n(&s->standby, __ATOMIC_ACQUIRE) != NULL))
		return 0;
	why = redis_conn_load(s->redis.servers);
	if (why)
		return error_set(error, LOCKSHM_BRIDGE, "%s", why);
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

void standby_before_fork(void)
{
	dynlib_before_fork();
}

void standby_after_fork(void)
{
	dynlib_after_fork();
}

void standby_forget_loading(void)
{
	dynlib_forget();
}

void standby_forget(struct lockshm *s, bool own_descriptors)
{
	int i;

	/* What the thread was doing is not known: its memory stays as it is. */
	s->standby = NULL;
	if (s->net && own_descriptors)
		redis_client_abandon(s->net);
	s->net = NULL;
	for (i = 0; i < 2; i++) {
		if (s->listener[i] && own_descriptors)
			close(s->listener[i] - 1);
		s->listener[i] = 0;
	}
}
#else
#include "sys/error.h"

int standby_trouble(struct lockshm *s, struct lockshm_error *error)
{
	(void)s;
	(void)error;
	return 0;
}

int standby_start(struct lockshm *s, struct lockshm_error *error)
{
	(void)s;
	return error_set(error, LOCKSHM_BRIDGE, "this library was built without the bridge to Redis");
}

struct standby *standby_lock(struct lockshm *s, uint32_t *refs)
{
	(void)s;
	*refs = 0;
	return NULL;
}

void standby_unlock(struct standby *h)
{
	(void)h;
}

void standby_stop(struct lockshm *s)
{
	(void)s;
}

void standby_before_fork(void)
{
}

void standby_after_fork(void)
{
}

void standby_forget_loading(void)
{
}

void standby_forget(struct lockshm *s, bool own_descriptors)
{
	(void)s;
	(void)own_descriptors;
}

LOCKSHM_EXPORT int lockshm_bridge_serve(lockshm_t *segment, lockshm_canceller_t *canceller, struct lockshm_error *error)
{
	if (!segment_valid(segment) || !canceller)
		return LOCKSHM_INVALID;
	return standby_start(segment, error);
}

LOCKSHM_EXPORT int lockshm_remote_inspect(lockshm_t *segment, const void *key, size_t key_len, int64_t timeout_ns,
					  lockshm_remote_fn fn, void *arg, struct lockshm_error *error)
{
	(void)timeout_ns;
	(void)arg;
	if (!segment_valid(segment) || !segment->n_host_leases || !key || key_len == 0 || !fn)
		return LOCKSHM_INVALID;
	return standby_start(segment, error);
}

LOCKSHM_EXPORT int lockshm_remote_end(lockshm_t *segment, const void *key, size_t key_len, const void *value,
				      size_t value_len, int64_t timeout_ns, struct lockshm_error *error)
{
	(void)timeout_ns;
	if (!segment_valid(segment) || !segment->n_host_leases || !key || key_len == 0 || !value || value_len == 0)
		return LOCKSHM_INVALID;
	return standby_start(segment, error);
}
#endif
