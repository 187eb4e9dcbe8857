/* SPDX-License-Identifier: MIT */
/*
 * keeper.c - the keeper thread: renews leases, and lives as long as the process
 *
 * Started only where LOCKSHM_AUTO_RENEW or lockshm_move() asks for it.  Signals are blocked in it, but for those of faults.  Its own owner slot
 * stands for the process: a hold that was moved to the process depends on the keeper's life word.
 *
 * A lease is renewed when half of it has passed.  A renewal is a CAS on shared memory and cannot fail for a passing reason:
 * it fails when the hold is gone, and then the keeper leaves it alone for good.
 */
#define _GNU_SOURCE
#include "keeper.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"
#include "lease.h"
#include "thread.h"

struct keeper {
	struct lockshm *s;
	pthread_t thread;
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t changed;
	struct cds_list_head renewals;
	uint64_t uid;
	uint64_t ref;
	int cancel; /* whether who locked it from outside may be cancelled */
	int started; /* 0 = not yet, 1 = runs, negative = why not */
	bool stop;
};

/* Lock held.  Renew what is due; returns when to look again. */
static int64_t renew_due(struct keeper *k)
{
	int64_t next = INT64_MAX, now = segment_now(k->s);
	struct renewal *r;

	cds_list_for_each_entry(r, &k->renewals, node) {
		if (r->lost)
			continue;
		if (r->due <= now) {
			int64_t end = now + r->ttl_ns;

			r->lost = !lease_renew(k->s, r->index, &r->gen, end);
			r->due = now + r->ttl_ns / 2;
			if (!r->lost)
				r->deadline = end;
		}
		if (!r->lost && r->due < next)
			next = r->due;
	}
	return next;
}

static void keeper_loop(struct keeper *k)
{
	pthread_mutex_lock(&k->lock);
	while (!k->stop) {
		int64_t next = renew_due(k);

		if (next == INT64_MAX) {
			pthread_cond_wait(&k->changed, &k->lock);
		} else {
			struct timespec ts = clock_timespec(next - k->s->clock_offset);

			pthread_cond_timedwait(&k->changed, &k->lock, &ts);
		}
	}
	pthread_mutex_unlock(&k->lock);
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;
	struct participant *self = NULL;
	int err;

#ifdef SYS_membarrier
	/* So that others can make sure that no sibling of a dead keeper runs on, see owner.c. */
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
#endif
	err = participant_join(k->s, &self, OWNER_PROCESS, NULL);
	pthread_mutex_lock(&k->lock);
	k->ref = err ? 0 : self->ref;
	k->uid = err ? 0 : self->uid;
	k->started = err ? err : 1;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
	if (!err)
		keeper_loop(k);
	participant_leave(k->s);
	return NULL;
}

static void init_sync(struct keeper *k)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&k->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void destroy(struct keeper *k)
{
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static int start_new(struct lockshm *s, struct keeper **out, struct lockshm_error *error)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the keeper thread");
	k->s = s;
	CDS_INIT_LIST_HEAD(&k->renewals);
	init_sync(k);
	err = thread_start(&k->thread, keeper_main, k);
	if (err) {
		destroy(k);
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot start the keeper thread");
	}
	*out = k;
	return 0;
}

/* Wait until it has its slot.  The slot is taken under no lock of ours, so this cannot block for long. */
static int await_start(struct keeper *k)
{
	int started;

	pthread_mutex_lock(&k->lock);
	while (k->started == 0)
		pthread_cond_wait(&k->changed, &k->lock);
	started = k->started;
	pthread_mutex_unlock(&k->lock);
	return started < 0 ? started : 0;
}

static struct keeper *running(struct lockshm *s)
{
	struct keeper *k;

	pthread_mutex_lock(&s->lock);
	k = s->keeper;
	pthread_mutex_unlock(&s->lock);
	return k;
}

static void set_running(struct lockshm *s, struct keeper *k)
{
	pthread_mutex_lock(&s->lock);
	s->keeper = k;
	pthread_mutex_unlock(&s->lock);
}

/* One at a time, so that nobody else knows a keeper that failed to start. */
static int start_one(struct lockshm *s, struct lockshm_error *error)
{
	struct keeper *k = NULL;
	int err;

	if (running(s))
		return 0;
	err = start_new(s, &k, error);
	if (err)
		return err;
	err = await_start(k);
	if (!err) {
		set_running(s, k);
		return 0;
	}
	pthread_join(k->thread, NULL);
	destroy(k);
	if (err == LOCKSHM_FULL)
		return error_full(error, LOCKSHM_TABLE_OWNERS);
	return error_set(error, err, "the keeper thread could not take part");
}

int keeper_start(struct lockshm *s, struct lockshm_error *error)
{
	int err, cancel;

	/* Waiting for the new thread is a place where this one could be cancelled, and would leave the lock locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->starting);
	err = start_one(s, error);
	pthread_mutex_unlock(&s->starting);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

void keeper_stop(struct keeper *k)
{
	struct renewal *r, *next;

	pthread_mutex_lock(&k->lock);
	k->stop = true;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	cds_list_for_each_entry_safe(r, next, &k->renewals, node)
		free(r);
	destroy(k);
}

void keeper_before_fork(struct lockshm *s)
{
	pthread_mutex_lock(&s->starting);
	pthread_mutex_lock(&s->lock);
	if (s->keeper)
		pthread_mutex_lock(&s->keeper->lock);
}

void keeper_after_fork(struct lockshm *s)
{
	if (s->keeper)
		pthread_mutex_unlock(&s->keeper->lock);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->starting);
}

void keeper_forget(struct lockshm *s, bool consistent)
{
	struct keeper *k = s->keeper;
	struct renewal *r, *next;

	s->keeper = NULL;
	if (!consistent) {
		pthread_mutex_init(&s->lock, NULL);
		pthread_mutex_init(&s->starting, NULL);
		return;
	}
	/* Locked by this thread, in keeper_before_fork(). */
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->starting);
	if (!k)
		return;
	cds_list_for_each_entry_safe(r, next, &k->renewals, node)
		free(r);
	free(k);
}

bool keeper_identity(struct lockshm *s, uint64_t *uid, uint64_t *ref)
{
	struct keeper *k;

	pthread_mutex_lock(&s->lock);
	k = s->keeper;
	if (k) {
		pthread_mutex_lock(&k->lock);
		*uid = k->uid;
		*ref = k->ref;
		pthread_mutex_unlock(&k->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return k && *ref;
}

void keeper_add(struct lockshm *s, struct renewal *r)
{
	struct keeper *k = s->keeper;

	pthread_mutex_lock(&k->lock);
	r->lost = false;
	r->due = segment_now(s) + r->ttl_ns / 2;
	if (r->deadline - r->ttl_ns / 2 < r->due)
		r->due = r->deadline - r->ttl_ns / 2;
	cds_list_add(&r->node, &k->renewals);
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

void keeper_retime(struct lockshm *s, struct renewal *r, uint64_t gen, int64_t ttl_ns, int64_t deadline)
{
	r->gen = gen;
	r->ttl_ns = ttl_ns;
	r->deadline = deadline;
	r->lost = deadline == INT64_MAX; /* strict: nothing left to renew */
	r->due = r->lost ? INT64_MAX : deadline - ttl_ns / 2;
	pthread_cond_signal(&s->keeper->changed);
}

void keeper_remove(struct renewal *r)
{
	cds_list_del(&r->node);
	free(r);
}

/* Under it /proc may be read: no place to be cancelled at, or it stays locked. */
void keeper_lock(struct lockshm *s)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->keeper->lock);
	s->keeper->cancel = cancel;
}

void keeper_unlock(struct lockshm *s)
{
	int cancel = s->keeper->cancel;

	pthread_mutex_unlock(&s->keeper->lock);
	pthread_setcancelstate(cancel, NULL);
}
