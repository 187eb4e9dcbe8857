/* SPDX-License-Identifier: MIT */
/*
 * service.c - the service thread: its start, its loop, its end
 *
 * A call that needs a renewal or a notice starts it and does not wait for it: it finds its work in the list.  For a move
 * to the process, or a loop, it joins: its owner slot stands for the process, and a hold of the process depends on its
 * life word.  All signals are blocked in it, except those of faults.  It sleeps on its doorbell, which calls on holds
 * ring, and on the words of the holds it watches (notify.c).
 */
#define _GNU_SOURCE
#include "service/service.h"

#include <errno.h>
#include <stdlib.h>

#include "lock/participant.h"
#include "service/barrier.h"
#include "service/tend.h"
#include "service/waits.h"
#include "sys/error.h"
#include "sys/min.h"
#include "sys/thread.h"

#define REGISTER_AFTER LOCKSHM_MS(100)

enum { JOIN_NOT_ASKED, JOIN_ASKED, JOINED };

struct service {
	struct renewals renewals; /* first: the handle points to it */
	struct lockshm *s;
	pthread_t thread;
	pthread_cond_t changed; /* joined */
	int joined; /* JOIN_..., or negative: why not */
	struct lockshm_error error; /* why not, in words */
	struct participant *self;
	int64_t register_at; /* the process, see barrier.c; INT64_MAX = that is done */
	bool stop;
};

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

	return all && sv->self && waits_are_of(all, sv->self) ? all : NULL;
}

static void sleep_at_doorbell(struct service *sv, struct futex_watch *watches, unsigned n, int64_t until)
{
	/* Only the first word is watched then, and the doorbell rings more often than the doorbell of the renewals. */
	if (!futex_has_waitv()) {
		watches[0] = watches[1];
		until = min64(until, segment_now(sv->s) + LOCKSHM_MS(10));
	}
	if (doorbell_fall_asleep(sv->s, sv->self->slot))
		futex_wait_any(watches, n, until - sv->s->clock_offset);
	doorbell_wake_up(sv->s, sv->self->slot);
}

/* The renewals' lock held: a call waits for this.  It is given back meanwhile, as /proc is read. */
static void join(struct service *sv)
{
	struct participant *self = NULL;
	uint32_t flags = OWNER_PROCESS | barrier_owner_flag();
	int err;

	pthread_mutex_unlock(&sv->renewals.lock);
	err = participant_join(sv->s, &self, flags, &sv->error);
	pthread_mutex_lock(&sv->renewals.lock);
	sv->self = self;
	sv->joined = err ? err : JOINED;
	if (flags & OWNER_UNREGISTERED)
		sv->register_at = segment_now(sv->s) + REGISTER_AFTER;
	pthread_cond_broadcast(&sv->changed);
}

static void register_in_time(struct service *sv)
{
	if (segment_now(sv->s) < sv->register_at)
		return;
	sv->register_at = INT64_MAX;
	barrier_register_later();
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
	register_in_time(sv);
	all = waits_of(sv);
	if (all)
		next = waits_attend(all, watches, &n);
	pthread_mutex_lock(&sv->renewals.lock);
	if (sv->joined == JOIN_ASKED)
		join(sv);
	stop = sv->stop;
	next = min64(next, sv->register_at);
	next = min64(next, service_tend(sv->s));
	service_watch_leases(sv->s, watches, &n);
	next = min64(next, service_renew(sv->s, &sv->renewals, watches, &n));
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
	struct lockshm *s = sv->s;

	while (serve(sv))
		;
	waits_end(s);
	participant_leave(s);
	segment_unref_own(s);
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
	sv->register_at = INT64_MAX;
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

/* s->starting held. */
static int start_one(struct lockshm *s, struct lockshm_error *error)
{
	struct service *sv = NULL;
	int err;

	if (__atomic_load_n(&s->renewals, __ATOMIC_ACQUIRE))
		return 0;
	barrier_register_at_once();
	err = start_new(s, &sv, error);
	if (err)
		return err;
	pthread_mutex_lock(&s->lock);
	s->refs++;
	s->own_refs++;
	__atomic_store_n(&s->renewals, &sv->renewals, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* s->starting held, so that no other call asks meanwhile; and a reference to @s, so that the thread stays. */
static int join_one(struct lockshm *s, struct lockshm_error *error)
{
	struct service *sv = service_of(s->renewals);
	int joined;

	pthread_mutex_lock(&sv->renewals.lock);
	sv->joined = JOIN_ASKED;
	renewals_ring(&sv->renewals);
	while (sv->joined == JOIN_ASKED)
		pthread_cond_wait(&sv->changed, &sv->renewals.lock);
	joined = sv->joined;
	pthread_mutex_unlock(&sv->renewals.lock);
	if (joined < 0) {
		if (error)
			*error = sv->error;
		return joined;
	}
	pthread_mutex_lock(&s->lock);
	segment_set_process(s, sv->self->uid, sv->self->ref);
	barrier_update_flag(s);
	pthread_mutex_unlock(&s->lock);
	return 0;
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

static int start(struct lockshm *s, bool join, struct lockshm_error *error)
{
	int err, cancel;

	process_add_hooks(&hooks);
	/* Before `starting`: a fork() waits for that with the process-lock, which adding a table takes. */
	participant_add_hooks();
	/* The wait for the new thread is a cancellation point, and would leave `starting` locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->starting);
	err = start_one(s, error);
	if (!err && join && load_relaxed(&s->process_uid) == 0)
		err = join_one(s, error);
	pthread_mutex_unlock(&s->starting);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

int service_start(struct lockshm *s, struct lockshm_error *error)
{
	(void)process_epoch(); /* in a forked child: forget the parent's first */
	return likely(__atomic_load_n(&s->renewals, __ATOMIC_ACQUIRE) != NULL) ? 0 : start(s, false, error);
}

int service_join(struct lockshm *s, struct lockshm_error *error)
{
	(void)process_epoch();
	return likely(load_acquire(&s->process_uid) != 0) ? 0 : start(s, true, error);
}
