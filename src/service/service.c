/* SPDX-License-Identifier: MIT */
/*
 * service.c - the service thread: its start, its loop, its end
 *
 * Its owner slot stands for the process: a hold that was moved to the process depends on the service thread's life
 * word.  All signals are blocked in it, except those of faults.  It sleeps on its doorbell, which calls on holds ring,
 * and on the words of the holds it watches (notify.c).
 */
#define _GNU_SOURCE
#include "service/service.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/participant.h"
#include "service/waits.h"
#include "sys/error.h"
#include "sys/thread.h"

struct service {
	struct renewals renewals; /* first: the handle points to it */
	struct lockshm *s;
	pthread_t thread;
	pthread_cond_t changed; /* started */
	int started; /* 0 = not yet, 1 = runs, negative = why not */
	struct lockshm_error error; /* why not, in words */
	struct participant *self;
	uint64_t uid, ref; /* of its participant */
	bool stop;
};

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static struct service *service_of(struct renewals *all)
{
	return (struct service *)(void *)all;
}

struct participant *service_participant(struct lockshm *s)
{
	return service_of(s->renewals)->self;
}

/* The process has loops: this thread sleeps at its doorbell, too. */
static struct waits *waits_of(const struct service *sv)
{
	struct waits *all = __atomic_load_n(&sv->s->waits, __ATOMIC_ACQUIRE);

	return all && waits_are_of(all, sv->self) ? all : NULL;
}

static void sleep_at_doorbell(struct service *sv, struct futex_watch *watches, unsigned n, int64_t until)
{
	/* Only the first word is watched then, and the doorbell rings more often than the doorbell of the renewals. */
	if (!futex_has_waitv()) {
		watches[0] = watches[1];
		until = earlier(until, segment_now(sv->s) + LOCKSHM_MS(10));
	}
	if (doorbell_fall_asleep(sv->s, sv->self->slot))
		futex_wait_any(watches, n, until - sv->s->clock_offset);
	doorbell_wake_up(sv->s, sv->self->slot);
}

/* One turn.  False = it is to stop. */
static bool serve(struct service *sv)
{
	struct futex_watch watches[FUTEX_WATCH_MOST];
	int64_t next = INT64_MAX;
	struct waits *all;
	unsigned n = 1;
	bool stop;

	/* Read the doorbell before everything it may be about: the first loop, too. */
	watches[0] = (struct futex_watch){ &sv->renewals.doorbell, load_acquire32(&sv->renewals.doorbell) };
	all = waits_of(sv);
	if (all)
		next = waits_attend(all, watches, &n);
	pthread_mutex_lock(&sv->renewals.lock);
	stop = sv->stop;
	next = earlier(next, service_renew(sv->s, &sv->renewals, watches, &n));
	sv->renewals.sleeps_until = next;
	pthread_mutex_unlock(&sv->renewals.lock);
	if (stop)
		return false;
	if (all)
		sleep_at_doorbell(sv, watches, n, next);
	else
		futex_wait_any(watches, n, next - sv->s->clock_offset);
	return true;
}

static void *service_main(void *arg)
{
	struct service *sv = arg;
	struct participant *self = NULL;
	int err;

#ifdef SYS_membarrier
	/* Other processes can then make sure that no sibling of a dead service thread runs on, see lock/owner.c. */
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
#endif
	err = participant_join(sv->s, &self, OWNER_PROCESS, &sv->error);
	pthread_mutex_lock(&sv->renewals.lock);
	sv->self = self;
	sv->ref = err ? 0 : self->ref;
	sv->uid = err ? 0 : self->uid;
	sv->started = err ? err : 1;
	pthread_cond_broadcast(&sv->changed);
	pthread_mutex_unlock(&sv->renewals.lock);
	while (!err && serve(sv))
		;
	waits_end(sv->s);
	participant_leave(sv->s);
	return NULL;
}

static void init_sync(struct service *sv)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&sv->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void destroy(struct service *sv)
{
	pthread_cond_destroy(&sv->changed);
	pthread_mutex_destroy(&sv->renewals.lock);
	free(sv);
}

static int start_new(struct lockshm *s, struct service **out, struct lockshm_error *error)
{
	struct service *sv = calloc(1, sizeof(*sv));
	int err;

	if (!sv)
		return error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for the service thread");
	sv->s = s;
	renewals_init(&sv->renewals);
	init_sync(sv);
	err = thread_start(&sv->thread, service_main, sv);
	if (err) {
		destroy(sv);
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot start the service thread");
	}
	*out = sv;
	return 0;
}

/* Wait until the thread has its slot, which it takes without the renewals' lock. */
static int await_start(struct service *sv)
{
	int started;

	pthread_mutex_lock(&sv->renewals.lock);
	while (sv->started == 0)
		pthread_cond_wait(&sv->changed, &sv->renewals.lock);
	started = sv->started;
	pthread_mutex_unlock(&sv->renewals.lock);
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

static void set_running(struct lockshm *s, struct service *sv)
{
	pthread_mutex_lock(&s->lock);
	segment_set_service(s, &sv->renewals, sv->uid, sv->ref);
	pthread_mutex_unlock(&s->lock);
}

/* s->starting held, so that no other thread sees a service thread that failed to start. */
static int start_one(struct lockshm *s, struct lockshm_error *error)
{
	struct service *sv = NULL;
	int err;

	if (runs(s))
		return 0;
	err = start_new(s, &sv, error);
	if (err)
		return err;
	err = await_start(sv);
	if (!err) {
		set_running(s, sv);
		return 0;
	}
	pthread_join(sv->thread, NULL);
	if (error)
		*error = sv->error;
	destroy(sv);
	return err;
}

/* The caller has taken it out of the handle, so no other call finds it. */
static void end(struct renewals *all)
{
	struct service *sv = service_of(all);

	pthread_mutex_lock(&all->lock);
	sv->stop = true;
	renewals_ring(all);
	pthread_mutex_unlock(&all->lock);
	pthread_join(sv->thread, NULL);
	renewals_drop(all);
	destroy(sv);
}

/* Holds of the process end with its last thread that takes part; if only the library's own threads are left that is
 * now. */
void service_end_if_alone(struct lockshm *s)
{
	struct renewals *all;

	/* Checked and taken out under one lock, so that no thread joins in between. */
	pthread_mutex_lock(&s->lock);
	all = s->refs - s->own_refs <= 1 ? segment_take_service(s) : NULL;
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

/* The thread does not exist in a child, and the child has nothing to renew. */
static void forget(struct lockshm *s, bool consistent)
{
	struct renewals *all = segment_take_service(s);

	waits_forget(s, consistent);
	if (!all || !consistent)
		return;
	/* The descriptors are the child's copies: closed and not written to, as the holds are the parent's. */
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

	(void)process_epoch(); /* in a forked child: forget the parent's first */
	if (likely(load_acquire(&s->process_uid) != 0))
		return 0;
	process_add_hooks(&hooks);
	/* Before `starting`: a fork() waits for that with the process-lock, which adding a table takes. */
	participant_add_hooks();
	/* The wait for the new thread is a cancellation point, and would leave `starting` locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->starting);
	err = start_one(s, error);
	pthread_mutex_unlock(&s->starting);
	pthread_setcancelstate(cancel, NULL);
	return err;
}
