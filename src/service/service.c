/* SPDX-License-Identifier: MIT */
/*
 * service.c - the service thread: its start, its loop, its end
 *
 * Its owner slot stands for the process: a hold that was moved to the process depends on the service thread's life word.
 * Signals are blocked in it, but for those of faults.  It sleeps on its doorbell, which calls on holds ring, and on the
 * words of the holds it watches (notify.c).
 */
#define _GNU_SOURCE
#include "service/service.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/participant.h"
#include "sys/error.h"
#include "sys/thread.h"

struct service {
	struct renewals renewals; /* the first: what the handle points to */
	struct lockshm *s;
	pthread_t thread;
	pthread_cond_t changed; /* started */
	int started; /* 0 = not yet, 1 = runs, negative = why not */
	bool stop;
};

static struct service *service_of(struct renewals *all)
{
	return (struct service *)(void *)all;
}

static void service_loop(struct service *k)
{
	struct futex_watch watches[FUTEX_WATCH_MOST];

	pthread_mutex_lock(&k->renewals.lock);
	while (!k->stop) {
		unsigned n = 1;
		int64_t next;

		/* The doorbell before everything it may be about. */
		watches[0] = (struct futex_watch){ &k->renewals.doorbell, load_acquire32(&k->renewals.doorbell) };
		next = service_renew(k->s, &k->renewals, watches, &n);
		pthread_mutex_unlock(&k->renewals.lock);
		futex_wait_any(watches, n, next - k->s->clock_offset);
		pthread_mutex_lock(&k->renewals.lock);
	}
	pthread_mutex_unlock(&k->renewals.lock);
}

static void *service_main(void *arg)
{
	struct service *k = arg;
	struct participant *self = NULL;
	int err;

#ifdef SYS_membarrier
	/* So that other processes can make sure that no sibling of a dead service thread runs on, see lock/owner.c. */
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
#endif
	err = participant_join(k->s, &self, OWNER_PROCESS, NULL);
	pthread_mutex_lock(&k->renewals.lock);
	k->renewals.ref = err ? 0 : self->ref;
	k->renewals.uid = err ? 0 : self->uid;
	k->started = err ? err : 1;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->renewals.lock);
	if (!err)
		service_loop(k);
	participant_leave(k->s);
	return NULL;
}

static void init_sync(struct service *k)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void destroy(struct service *k)
{
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->renewals.lock);
	free(k);
}

static int start_new(struct lockshm *s, struct service **out, struct lockshm_error *error)
{
	struct service *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the service thread");
	k->s = s;
	renewals_init(&k->renewals);
	init_sync(k);
	err = thread_start(&k->thread, service_main, k);
	if (err) {
		destroy(k);
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot start the service thread");
	}
	*out = k;
	return 0;
}

/* Wait until it has its slot, which it takes under no lock of ours. */
static int await_start(struct service *k)
{
	int started;

	pthread_mutex_lock(&k->renewals.lock);
	while (k->started == 0)
		pthread_cond_wait(&k->changed, &k->renewals.lock);
	started = k->started;
	pthread_mutex_unlock(&k->renewals.lock);
	return started < 0 ? started : 0;
}

static bool runs(struct lockshm *s)
{
	bool it;

	pthread_mutex_lock(&s->lock);
	it = s->renewals != NULL;
	pthread_mutex_unlock(&s->lock);
	return it;
}

static void set_running(struct lockshm *s, struct service *k)
{
	pthread_mutex_lock(&s->lock);
	s->renewals = &k->renewals;
	pthread_mutex_unlock(&s->lock);
}

/* s->starting held, so that no other thread sees one that failed to start. */
static int start_one(struct lockshm *s, struct lockshm_error *error)
{
	struct service *k = NULL;
	int err;

	if (runs(s))
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
	return error_set(error, err, "the service thread could not take part");
}

/* Taken out of the handle by the caller, so that no other call knows it any more. */
static void end(struct renewals *all)
{
	struct service *k = service_of(all);

	pthread_mutex_lock(&all->lock);
	k->stop = true;
	renewals_ring(all);
	pthread_mutex_unlock(&all->lock);
	pthread_join(k->thread, NULL);
	renewals_drop(all);
	destroy(k);
}

/* What was moved to the process ends with its last thread that takes part.  If only the library's own threads are left,
 * that is now, while the standby is there to give the host leases back. */
void service_end_if_alone(struct lockshm *s)
{
	struct renewals *all;

	/* Looked at and taken out under one lock, so that no thread joins in between. */
	pthread_mutex_lock(&s->lock);
	all = s->refs - s->own_refs <= 1 ? s->renewals : NULL;
	if (all)
		s->renewals = NULL;
	pthread_mutex_unlock(&s->lock);
	if (all)
		end(all);
}

/* ---------------------------------------------------------------- fork */

static void fork_lock(struct lockshm *s)
{
	if (s->renewals)
		pthread_mutex_lock(&s->renewals->lock);
}

static void fork_unlock(struct lockshm *s)
{
	if (s->renewals)
		pthread_mutex_unlock(&s->renewals->lock);
}

/* The thread does not exist in a child, and there is nothing to renew. */
static void forget(struct lockshm *s, bool consistent)
{
	struct renewals *all = s->renewals;

	s->renewals = NULL;
	if (!all || !consistent)
		return;
	/* The descriptors are the child's copies: they are not written to for what the parent holds. */
	renewals_drop(all);
	free(service_of(all));
}

static const struct process_hooks hooks = {
	.fork_lock = fork_lock,
	.fork_unlock = fork_unlock,
	.forget = forget,
	.end_service = end,
};

/* ---------------------------------------------------------------- start */

int service_start(struct lockshm *s, struct lockshm_error *error)
{
	int err, cancel;

	process_add_hooks(&hooks);
	/* Waiting for the new thread is a place where this one could be cancelled, and would leave the lock locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->starting);
	err = start_one(s, error);
	pthread_mutex_unlock(&s->starting);
	pthread_setcancelstate(cancel, NULL);
	return err;
}
