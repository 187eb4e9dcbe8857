/* SPDX-License-Identifier: MIT */
/*
 * service.c - the service thread: renews leases, tells of holds that are lost, and lives as long as the process
 *
 * Started only where LOCKSHM_AUTO_RENEW, lockshm_notify() or lockshm_move() asks for it.  Signals are blocked in it,
 * but for those of faults.  Its own owner slot stands for the process: a hold that was moved to the process depends on
 * the service thread's life word.
 *
 * A lease is renewed when half of it has passed.  A renewal is a CAS on shared memory and cannot fail for a passing
 * reason: it fails when the hold is gone, and then the service thread leaves it alone for good.  So it does when the longest
 * time of the hold is used up: the last renewal ends just there, and what follows is what follows any lease that ends.
 *
 * It sleeps on its bell, which the threads of this process ring, and on the words of the holds it watches: the
 * request's, and for LOCKSHM_GLOBAL the signal of the host lease.  Whoever takes a hold away wakes the sleepers of that
 * word.
 */
#define _GNU_SOURCE
#include "service/service.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/error.h"
#include "sys/futex.h"
#include "lock/deadline.h"
#include "hostlease/host-lease.h"
#include "sys/thread.h"

#define LOOK_NS LOCKSHM_SECONDS(1)   /* at what is watched: whoever took it may have been killed before the call */
#define LOOK_BLIND_NS LOCKSHM_MS(10) /* where the kernel cannot watch it */
#define SLEEP_MAX_NS LOCKSHM_SECONDS(3600)
#define NEAR 256 /* lists of renewals, by their index */

struct service {
	struct lockshm *s;
	pthread_t thread;
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t changed; /* started */
	uint32_t doorbell;		/* futex; changes with everything the loop has to look at */
	struct cds_list_head renewals;
	struct cds_list_head near[NEAR]; /* the same ones */
	uint64_t uid;
	uint64_t ref;
	int cancel; /* whether who locked it from outside may be cancelled */
	int started; /* 0 = not yet, 1 = runs, negative = why not */
	bool stop;
};

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Lock held.  Have the loop look again. */
static void ring(struct service *k)
{
	(void)fetch_add32(&k->doorbell, 1);
	futex_wake(&k->doorbell, 1);
}

static void renew(const struct service *k, struct renewal *r, int64_t now)
{
	int64_t end = earlier(now + r->ttl_ns, r->until);

	r->due = end == r->until ? INT64_MAX : now + r->ttl_ns / 2;
	if (end <= r->deadline)
		return;
	if (deadline_renew(k->s, r->index, &r->gen, end))
		r->deadline = end;
	else
		r->lost = true;
}

/* Is it still held?  If so, it is added to what to sleep on; returns when to look in any case. */
static int64_t watch(const struct service *k, struct renewal *r, struct futex_watch *watches, unsigned *n, int64_t now)
{
	const uint64_t *word = &k->s->requests[r->index].word;
	const struct shm_host_lease *l = r->host_lease ? host_lease_at(k->s, r->host_lease - 1) : NULL;
	/* The sequence before what it is about. */
	uint32_t seq = l ? load_acquire32(&l->waiters_seq) : 0;
	uint64_t w = load_acquire(word);

	if (word_gen(w) != r->gen || !word_is(w, REQUEST_GRANTED) ||
	    (l && !host_lease_holds(k->s, r->host_lease - 1, r->host_lease_word))) {
		r->lost = true;
		return INT64_MAX;
	}
	if (*n + 2 > FUTEX_WATCH_MOST || !futex_has_waitv())
		return now + LOOK_BLIND_NS;
	watches[(*n)++] = (struct futex_watch){ (const uint32_t *)(const void *)word, (uint32_t)w };
	if (!l)
		return now + LOOK_NS;
	watches[(*n)++] = (struct futex_watch){ &l->waiters_seq, seq };
	return now + earlier(LOOK_NS, host_lease_left(k->s, r->host_lease - 1, r->host_lease_word));
}

/* Once.  The descriptor does not block, and who is not told because it is full has something to read already. */
static void tell(const struct renewal *r)
{
	static const uint64_t one = 1;

	if (r->fd >= 0 && write(r->fd, &one, sizeof(one)) < 0)
		return;
}

/* Lock held.  Renew what is due, tell of what is lost; returns when to look again. */
static int64_t look(const struct service *k, struct futex_watch *watches, unsigned *n)
{
	int64_t now = segment_now(k->s), next = now + SLEEP_MAX_NS;
	struct renewal *r;

	cds_list_for_each_entry(r, &k->renewals, node) {
		if (r->lost)
			continue;
		if (r->due <= now)
			renew(k, r, now);
		if (!r->lost && r->fd >= 0)
			next = earlier(next, watch(k, r, watches, n, now));
		if (r->lost)
			tell(r);
		else
			next = earlier(next, r->due);
	}
	return next;
}

static void service_loop(struct service *k)
{
	struct futex_watch watches[FUTEX_WATCH_MOST];

	pthread_mutex_lock(&k->lock);
	while (!k->stop) {
		unsigned n = 1;
		int64_t next;

		/* The bell before everything it may be about. */
		watches[0] = (struct futex_watch){ &k->doorbell, load_acquire32(&k->doorbell) };
		next = look(k, watches, &n);
		pthread_mutex_unlock(&k->lock);
		futex_wait_any(watches, n, next - k->s->clock_offset);
		pthread_mutex_lock(&k->lock);
	}
	pthread_mutex_unlock(&k->lock);
}

static void *service_main(void *arg)
{
	struct service *k = arg;
	struct participant *self = NULL;
	int err;

#ifdef SYS_membarrier
	/* So that others can make sure that no sibling of a dead service thread runs on, see owner.c. */
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
		service_loop(k);
	participant_leave(k->s);
	return NULL;
}

static void init_sync(struct service *k)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&k->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void drop(struct renewal *r)
{
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

static void destroy(struct service *k)
{
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static int start_new(struct lockshm *s, struct service **out, struct lockshm_error *error)
{
	struct service *k = calloc(1, sizeof(*k));
	unsigned i;
	int err;

	if (!k)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the service thread");
	k->s = s;
	CDS_INIT_LIST_HEAD(&k->renewals);
	for (i = 0; i < NEAR; i++)
		CDS_INIT_LIST_HEAD(&k->near[i]);
	init_sync(k);
	err = thread_start(&k->thread, service_main, k);
	if (err) {
		destroy(k);
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot start the service thread");
	}
	*out = k;
	return 0;
}

/* Wait until it has its slot.  The slot is taken under no lock of ours, so this cannot block for long. */
static int await_start(struct service *k)
{
	int started;

	pthread_mutex_lock(&k->lock);
	while (k->started == 0)
		pthread_cond_wait(&k->changed, &k->lock);
	started = k->started;
	pthread_mutex_unlock(&k->lock);
	return started < 0 ? started : 0;
}

static struct service *running(struct lockshm *s)
{
	struct service *k;

	pthread_mutex_lock(&s->lock);
	k = s->service;
	pthread_mutex_unlock(&s->lock);
	return k;
}

static void set_running(struct lockshm *s, struct service *k)
{
	pthread_mutex_lock(&s->lock);
	s->service = k;
	pthread_mutex_unlock(&s->lock);
}

/* One at a time, so that nobody else knows a service thread that failed to start. */
static int start_one(struct lockshm *s, struct lockshm_error *error)
{
	struct service *k = NULL;
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
	return error_set(error, err, "the service thread could not take part");
}

int service_start(struct lockshm *s, struct lockshm_error *error)
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

void service_stop(struct service *k)
{
	struct renewal *r, *next;

	pthread_mutex_lock(&k->lock);
	k->stop = true;
	ring(k);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	cds_list_for_each_entry_safe(r, next, &k->renewals, node)
		drop(r);
	destroy(k);
}

void service_before_fork(struct lockshm *s)
{
	pthread_mutex_lock(&s->starting);
	pthread_mutex_lock(&s->lock);
	if (s->service)
		pthread_mutex_lock(&s->service->lock);
}

void service_after_fork(struct lockshm *s)
{
	if (s->service)
		pthread_mutex_unlock(&s->service->lock);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->starting);
}

void service_forget(struct lockshm *s, bool consistent)
{
	struct service *k = s->service;
	struct renewal *r, *next;

	s->service = NULL;
	if (!consistent) {
		pthread_mutex_init(&s->lock, NULL);
		pthread_mutex_init(&s->starting, NULL);
		return;
	}
	/* Locked by this thread, in service_before_fork(). */
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->starting);
	if (!k)
		return;
	/* The descriptors are the child's copies: nobody here is told of what the parent holds. */
	cds_list_for_each_entry_safe(r, next, &k->renewals, node)
		drop(r);
	free(k);
}

bool renewals_identity(struct lockshm *s, uint64_t *uid, uint64_t *ref)
{
	struct service *k;

	pthread_mutex_lock(&s->lock);
	k = s->service;
	if (k) {
		pthread_mutex_lock(&k->lock);
		*uid = k->uid;
		*ref = k->ref;
		pthread_mutex_unlock(&k->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return k && *ref;
}

void renewals_add_held(struct lockshm *s, struct renewal *r)
{
	r->lost = false;
	r->fd = -1;
	r->host_lease = 0;
	r->hold_gen = r->gen;
	r->due = r->ttl_ns ? earlier(segment_now(s), r->deadline - r->ttl_ns) + r->ttl_ns / 2 : INT64_MAX;
	r->until = r->max_ns ? r->deadline - r->ttl_ns + r->max_ns : INT64_MAX;
	cds_list_add(&r->node, &s->service->renewals);
	cds_list_add(&r->near, &s->service->near[r->index % NEAR]);
	ring(s->service);
}

void renewals_add(struct lockshm *s, struct renewal *r)
{
	pthread_mutex_lock(&s->service->lock);
	renewals_add_held(s, r);
	pthread_mutex_unlock(&s->service->lock);
}

void renewals_watch(struct lockshm *s, struct renewal *r, const struct hold *h, int fd)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = fd;
	r->host_lease = h->host_lease;
	r->host_lease_word = h->host_lease_word;
	ring(s->service);
}

void renewals_retime(struct lockshm *s, struct renewal *r, uint64_t gen, int64_t ttl_ns, int64_t deadline)
{
	service_set_gen(r, gen);
	r->deadline = deadline;
	r->lost = false;
	if (r->ttl_ns)
		r->ttl_ns = ttl_ns;
	/* Strict: there is nothing to renew. */
	r->due = deadline == INT64_MAX || !r->ttl_ns ? INT64_MAX : deadline - ttl_ns / 2;
	r->until = r->max_ns ? segment_now(s) + r->max_ns : INT64_MAX;
	ring(s->service);
}

void renewals_limit(struct lockshm *s, const struct hold *h, int64_t max_ns)
{
	struct renewal *r;

	if (!service_lock_if_any(s))
		return;
	r = service_find(s, h);
	if (r)
		r->max_ns = max_ns;
	renewals_unlock(s);
}

struct renewal *service_find(struct lockshm *s, const struct hold *h)
{
	struct renewal *r;

	cds_list_for_each_entry(r, &s->service->near[h->index % NEAR], near)
		if (r == h->renewal && r->index == h->index && r->hold_gen == h->gen)
			return r;
	return NULL;
}

void renewals_remove(struct lockshm *s, struct renewal *r)
{
	cds_list_del(&r->node);
	cds_list_del(&r->near);
	if (r->fd >= 0)
		ring(s->service);
	drop(r);
}

/* Under it /proc may be read: no place to be cancelled at, or it stays locked. */
void renewals_lock(struct lockshm *s)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->service->lock);
	s->service->cancel = cancel;
}

bool service_lock_if_any(struct lockshm *s)
{
	/* One that a hold depends on was started before that, and stays while this thread takes part or has a reference. */
	if (!__atomic_load_n(&s->service, __ATOMIC_ACQUIRE))
		return false;
	renewals_lock(s);
	return true;
}

void renewals_unlock(struct lockshm *s)
{
	int cancel = s->service->cancel;

	pthread_mutex_unlock(&s->service->lock);
	pthread_setcancelstate(cancel, NULL);
}
