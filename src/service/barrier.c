/* SPDX-License-Identifier: MIT */
/*
 * barrier.c - the registration of this process for the membarriers of others
 *
 * When a service thread dies, another process makes sure by a membarrier that no sibling of it runs on (lock/owner.c).
 * The expedited one, of some microseconds, reaches registered processes only.  To register a process with one thread is
 * a store; where there are several the kernel waits for a grace period: 10 ms, and a second on a busy machine.  No call
 * waits for that:
 *
 *   one thread       registered before the service thread is started
 *   several threads  the slot has OWNER_UNREGISTERED, and a death is followed by a grace period instead.  A thread of
 *                    its own registers the process and clears the flag in all slots
 *
 * That thread starts a little later, from the service thread: the end of a process waits for its threads, also for one
 * in a grace period, and many a process has ended by then.
 *
 * Crash points: killed before the flag is cleared, the next holder waits for a grace period; it is cleared after the
 * kernel has registered the process.  A forked child has one thread, and registers anew.
 */
#define _GNU_SOURCE
#include "service/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment/process.h"
#include "sys/proc-fs.h"
#include "sys/thread.h"

/* Epochs, so that a forked child has done neither: */
static uint64_t registered; /* the process is */
static uint64_t asked;	    /* barrier_register_later() was called */

static bool is_registered(void)
{
	return __atomic_load_n(&registered, __ATOMIC_ACQUIRE) == process_epoch();
}

static void register_now(void)
{
#ifdef SYS_membarrier
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0)
		__atomic_store_n(&registered, process_epoch(), __ATOMIC_RELEASE);
#endif
}

void barrier_register_at_once(void)
{
	if (!is_registered() && procfs_is_single_thread())
		register_now();
}

uint32_t barrier_owner_flag(void)
{
	return is_registered() ? 0 : OWNER_UNREGISTERED;
}

void barrier_update_flag(struct lockshm *s)
{
	/* The slot is the service thread's while there is a uid. */
	if (load_relaxed(&s->process_uid) != 0 && is_registered())
		(void)fetch_and32(&s->owners[owner_ref_slot(s->process_ref)].flags, ~OWNER_UNREGISTERED);
}

static void *register_main(void *unused)
{
	struct lockshm *s;

	register_now();
	process_lock();
	/* A service thread that joins now has its flag cleared here or by its starter, which looks with the lock held. */
	cds_list_for_each_entry(s, &process_segments, all) {
		pthread_mutex_lock(&s->lock);
		barrier_update_flag(s);
		pthread_mutex_unlock(&s->lock);
	}
	process_unlock();
	return unused;
}

void barrier_register_later(void)
{
	uint64_t epoch = process_epoch();
	pthread_t thread;

	if (__atomic_exchange_n(&asked, epoch, __ATOMIC_RELAXED) == epoch)
		return;
	/* Without it the flags stay: correct, and slower. */
	if (thread_start(&thread, register_main, NULL) == 0)
		pthread_detach(thread);
}
