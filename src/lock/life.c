/* SPDX-License-Identifier: MIT */
/*
 * life.c - life words
 *
 * LIFE WORD.  A thread that takes locks holds, for as long as it takes part, a robust process-shared mutex.  Only this
 * thread ever treats it as a mutex.  All other threads see one 32-bit word of it, the futex word, in the slot's life
 * page, at the offset the thread published; the word carries FUTEX_WAITERS from the start, so that the kernel flags
 * FUTEX_OWNER_DIED and wakes a watcher when this very thread ends: killed, exited, or replaced by exec.  A thread the
 * kernel has flagged cannot run user code any more, which makes death exact.  One word per thread, never one per lock:
 * the word is not re-used while it is registered, which keeps clear of the kernel's race after a robust unlock.
 *
 * Only the futex word may be shared: the rest of the mutex holds pointers of the C library's list, which a damaged
 * segment must not be able to change.  So the thread maps its life page a second time, followed by a private page, and
 * puts the mutex across the border: the first eight bytes, the futex word among them, are shared, the rest is private.
 *
 *      life page in the segment   ...................[word]
 *      the thread's second view   ...................[mutex.............]......
 *                                 <---- shared ----------->|<--- private ------
 *
 * Where pages are not of 4096 bytes the whole mutex lies in the life page.
 *
 * Two deaths the kernel does not report in time.  exec() by a thread that is not the first of its process: the kernel
 * gives it the first one's number before it walks the list, finds another number in the word, and leaves it.  And a
 * core dump: the list is walked when the dump is written, seconds later.  So a waiter's self-check, a try that would
 * fail and a sweep for want of room also look in /proc whether the thread is gone or on its way out, and store GONE in
 * the slot if so.
 *
 * When is the slot used again?  The kernel flags the word if it has the number of the thread that ends; and in another
 * pid namespace the next owner may have the same number.  So the slot stays until the kernel is done with the word: it
 * has flagged the word, or the thread has unlocked it and stored OWNER_ENDED, or has ended.  Holds need not wait for
 * that.
 *
 * Where robust futexes do not exist (user-mode emulators, filters) the slot lacks OWNER_EXACT, and each self-check
 * looks for the death in /proc: slower, as exact.
 */
#define _GNU_SOURCE
#include "lock/life.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/participant.h"

#define SHARED_PART 8 /* bytes of the mutex in the shared page; it is 8-aligned */

static unsigned char *life_page(const struct lockshm *s, uint32_t slot)
{
	return s->lives + (size_t)slot * LIFE_BYTES;
}

uint32_t *life_word(const struct lockshm *s, uint32_t slot)
{
	uint32_t off = load_relaxed32(&s->owners[slot].life_off);

	if (off > LIFE_BYTES - 4 || off % 4)
		return NULL;
	return (uint32_t *)(void *)(life_page(s, slot) + off);
}

/* The robust list of the calling thread as the kernel knows it. */
static struct robust_list_head *robust_list(void)
{
	struct robust_list_head *head = NULL;
	size_t len = 0;

	return syscall(SYS_get_robust_list, 0, &head, &len) == 0 ? head : NULL;
}

/* Map the life page again, followed by a private page.  NULL = pages have another size, or no room. */
static unsigned char *map_alias(unsigned char *page)
{
	unsigned char *room;

	if (sysconf(_SC_PAGESIZE) != LIFE_BYTES)
		return NULL;
	room = mmap(NULL, 2 * LIFE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	/* An old size of 0 makes a second mapping of shared pages. */
	if (mremap(page, 0, LIFE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room)
		return room;
	munmap(room, 2 * LIFE_BYTES);
	return NULL;
}

static int init_mutex(pthread_mutex_t *m)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (!err)
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (!err)
		err = pthread_mutex_init(m, &attr);
	pthread_mutexattr_destroy(&attr);
	return err;
}

static bool take_mutex(pthread_mutex_t *m)
{
	int err = pthread_mutex_trylock(m);

	return err == 0 || (err == EOWNERDEAD && pthread_mutex_consistent(m) == 0);
}

/* The word the kernel will flag: the newest node of the list plus the list's offset.  NULL = not in that mutex. */
static uint32_t *find_life_word(const pthread_mutex_t *m, const struct robust_list_head *head, uint32_t tid)
{
	uintptr_t node, word, base = (uintptr_t)m;

	if (!head)
		return NULL;
	/* Bit 0 of a node marks priority inheritance. */
	node = (uintptr_t)head->list.next & ~(uintptr_t)1;
	word = node + (uintptr_t)head->futex_offset;
	if (node == (uintptr_t)&head->list || word < base || word > base + SHARED_PART - 4)
		return NULL;
	return (load_acquire32((const uint32_t *)word) & FUTEX_TID_MASK) == tid ? (uint32_t *)word : NULL;
}

/* Lock the mutex of a life and find its futex word.  False where robust mutexes do not work. */
bool life_begin(struct participant *p, uint32_t tid)
{
	unsigned char *page = life_page(p->segment, p->slot), *view;
	uint32_t *word;
	size_t i;

	p->alias = map_alias(page);
	view = p->alias ? p->alias : page;
	for (i = 0; i < LIFE_BYTES; i += sizeof(uint64_t))
		store_relaxed((uint64_t *)(void *)(page + i), 0);
	p->life = (pthread_mutex_t *)(void *)(p->alias ? view + LIFE_BYTES - SHARED_PART : view);
	/* Never wait for it: if the word is overwritten at this moment, the wait would not end. */
	if (init_mutex(p->life) != 0 || !take_mutex(p->life)) {
		p->life = NULL;
		return false;
	}
	p->robust_head = robust_list();
	word = find_life_word(p->life, p->robust_head, tid);
	if (!word) {
		/* If the word was overwritten just now the node stays on the list, and so must its memory: for the
		 * thread's life. */
		if (pthread_mutex_unlock(p->life) != 0)
			p->alias = NULL;
		p->life = NULL;
		return false;
	}
	store_relaxed32(&p->shared->life_off, (uint32_t)((unsigned char *)word - view));
	/* Set in advance: the kernel wakes a watcher that did not set it. */
	(void)fetch_or32(word, FUTEX_WAITERS);
	return true;
}

/* The C library takes the mutex off its list only if the word still has this thread's number.  If a damaged segment has
 * another the node stays on the list, and so must its memory: false. */
bool life_end(struct participant *p)
{
	if (p->life && pthread_mutex_unlock(p->life) != 0)
		return false;
	life_unmap(p);
	return true;
}

void life_unmap(const struct participant *p)
{
	if (p->alias)
		munmap(p->alias, 2 * LIFE_BYTES);
}

/* Some C libraries (musl) leave the parent's nodes on the robust list of a forked child, and would write to them when
 * the child locks a mutex.  The node of this library is the newest one then. */
void life_forget(const struct participant *p)
{
	struct robust_list_head *head = p->robust_head;
	uintptr_t node, mutex = (uintptr_t)p->life;

	if (!head || !mutex)
		return;
	node = (uintptr_t)head->list.next;
	if (node >= mutex && node < mutex + sizeof(pthread_mutex_t))
		head->list.next = &head->list;
	if (head->list.next == &head->list)
		life_unmap(p);
}
