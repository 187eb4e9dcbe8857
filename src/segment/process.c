/* SPDX-License-Identifier: MIT */
/*
 * process.c - the epoch of this process, and what a forked child must forget
 *
 * The child of fork() starts with a copy of the parent's private memory: the handles are valid, but the participants
 * and the service thread in it belong to threads that do not exist here.  process_begin() makes the child forget them.
 * It runs from the atfork handler or, after a fork that bypassed libc, at the first call.
 */
#define _GNU_SOURCE
#include "segment/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t *process_epoch_word;

static uint64_t last_epoch; /* in ordinary memory: a child has its parent's and counts on */
static uint64_t fallback_word;

#define HOOKS_MAX 4
static const struct process_hooks *all_hooks[HOOKS_MAX]; /* added with the process-lock held, read without it */

/* For each table that has @hook. */
#define RUN_HOOKS(hook, ...)                                                                                           \
	do {                                                                                                           \
		for (int i_ = 0; i_ < HOOKS_MAX; i_++) {                                                               \
			const struct process_hooks *h_ = __atomic_load_n(&all_hooks[i_], __ATOMIC_ACQUIRE);            \
                                                                                                                       \
			if (h_ && h_->hook)                                                                            \
				h_->hook(__VA_ARGS__);                                                                 \
		}                                                                                                      \
	} while (0)

static bool has_hooks(const struct process_hooks *hooks)
{
	int i;

	for (i = 0; i < HOOKS_MAX; i++)
		if (__atomic_load_n(&all_hooks[i], __ATOMIC_ACQUIRE) == hooks)
			return true;
	return false;
}

void process_add_hooks(const struct process_hooks *hooks)
{
	int i;

	/* Without the lock, which a fork() may hold that waits for the caller. */
	if (has_hooks(hooks))
		return;
	process_lock();
	for (i = 0; i < HOOKS_MAX && all_hooks[i] && all_hooks[i] != hooks; i++)
		;
	if (i < HOOKS_MAX)
		__atomic_store_n(&all_hooks[i], hooks, __ATOMIC_RELEASE);
	process_unlock();
}

void process_end_service(struct renewals *renewals)
{
	RUN_HOOKS(end_service, renewals);
}

/* The child of a process that unshared its children's time namespace has another clock than its parent. */
static void take_own_clock(struct lockshm *s, uint64_t ns)
{
	int64_t offset;

	if (ns == 0 || s->clock_ns == 0 || ns == s->clock_ns)
		return;
	s->clock_lost = !clock_namespace_offset(&offset, NULL);
	segment_set_clock(s, offset);
	s->boot_lost = s->n_host_leases && !clock_boottime_offset(&s->boot_offset);
	s->clock_ns = ns;
}

/* @consistent: this thread has locked both in before_fork(). */
static void unlock_inherited(struct lockshm *s, bool consistent)
{
	if (consistent) {
		pthread_mutex_unlock(&s->lock);
		pthread_mutex_unlock(&s->starting);
	} else {
		pthread_mutex_init(&s->lock, NULL);
		pthread_mutex_init(&s->starting, NULL);
	}
}

static void forget_parent(struct lockshm *s, bool consistent)
{
	RUN_HOOKS(forget, s, consistent);
	unlock_inherited(s, consistent);
	s->refs = 1;
	s->own_refs = 0;
	CDS_INIT_LIST_HEAD(&s->parts);
}

static void before_fork(void)
{
	struct lockshm *s;

	process_lock();
	cds_list_for_each_entry(s, &process_segments, all) {
		pthread_mutex_lock(&s->starting);
		pthread_mutex_lock(&s->lock);
		RUN_HOOKS(fork_lock, s);
	}
}

static void after_fork_parent(void)
{
	struct lockshm *s;

	cds_list_for_each_entry(s, &process_segments, all) {
		RUN_HOOKS(fork_unlock, s);
		pthread_mutex_unlock(&s->lock);
		pthread_mutex_unlock(&s->starting);
	}
	process_unlock();
}

/* Process-lock held, and the epoch word is 0. */
static uint64_t begin(bool consistent)
{
	struct lockshm *s;
	uint64_t epoch = ++last_epoch, ns = cds_list_empty(&process_segments) ? 0 : clock_namespace();

	cds_list_for_each_entry(s, &process_segments, all) {
		forget_parent(s, consistent);
		take_own_clock(s, ns);
	}
	store_release(process_epoch_word, epoch);
	return epoch;
}

static void after_fork_child(void)
{
	uint64_t epoch;

	/* Process-lock held, since before_fork(). */
	store_relaxed(process_epoch_word, 0);
	epoch = begin(true);
	process_unlock();
	RUN_HOOKS(forget_thread, epoch);
}

/* Process-lock held. */
static void make_epoch_word(void)
{
	long page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	if (p == MAP_FAILED) {
		__atomic_store_n(&process_epoch_word, &fallback_word, __ATOMIC_RELEASE);
		return;
	}
#ifdef MADV_WIPEONFORK
	/* Without it (before Linux 4.14) the atfork handler does the same for every fork() of libc. */
	(void)madvise(p, (size_t)page, MADV_WIPEONFORK);
#endif
	__atomic_store_n(&process_epoch_word, p, __ATOMIC_RELEASE);
}

uint64_t process_begin(void)
{
	uint64_t epoch;
	int cancel;

	/* /proc may be read: with the lock held this must not be a cancellation point. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	process_lock();
	if (!process_epoch_word)
		make_epoch_word();
	epoch = load_relaxed(process_epoch_word);
	if (epoch == 0)
		epoch = begin(false);
	process_unlock();
	pthread_setcancelstate(cancel, NULL);
	return epoch;
}

uint64_t process_unique(void)
{
	/* In ordinary memory: a child counts on from its parent's number. */
	static uint64_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

bool process_is_parallel(void)
{
	static int parallel; /* 0 = not asked yet */
	int known = __atomic_load_n(&parallel, __ATOMIC_RELAXED);

	/* Of the machine, not of this thread: workers pinned to one processor each do run at the same time. */
	if (known == 0) {
		known = sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 1 : 2;
		__atomic_store_n(&parallel, known, __ATOMIC_RELAXED);
	}
	return known == 2;
}
