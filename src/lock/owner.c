/* SPDX-License-Identifier: MIT */
/*
 * owner.c - owner slots and life words
 *
 * LIFE WORD.  A thread that takes locks holds, for as long as it takes part, a robust process-shared mutex.  Only this
 * thread ever treats it as a mutex.  Everybody else sees one 32-bit word of it, the futex word, in the slot's life
 * page, at the place the thread published; the word carries FUTEX_WAITERS from the start, so that the kernel flags
 * FUTEX_OWNER_DIED and wakes a watcher when this very thread ends: killed, exited, or replaced by exec.  A thread the
 * kernel has flagged cannot run user code any more, which makes death exact.  One word per thread, never one per lock:
 * the word is not re-used while it is registered, which keeps clear of the kernel's race after a robust unlock.
 *
 * Only the futex word may be shared: the rest of the mutex holds pointers of the C library's list, which a
 * damaged segment must not be able to change.  So the thread maps its life page a second time, with a private
 * page behind it, and puts the mutex across the border: the first eight bytes, the futex word among them, are
 * shared, the rest is private.
 *
 *      life page in the segment   ...................[word]
 *      the thread's second view   ...................[mutex.............]......
 *                                 <---- shared ----------->|<--- private ------
 *
 * Where pages are not of 4096 bytes the whole mutex lies in the life page.
 *
 * Two deaths the kernel does not report in time.  exec() by a thread that is not the first of its process: the kernel
 * gives it the first one's number before it walks the list, finds another number in the word, and leaves it.  And a
 * core dump: the list is walked when it is written, seconds later.  So a waiter's self-check, a try that would fail and
 * a sweep also ask whether the thread is still there and not on its way out, and mark the slot GONE if it is.
 *
 * When is the slot used again?  The kernel flags the word if it has the number of the thread that ends; and in
 * another pid namespace the next owner may have the same number.  So not before the kernel is through with the
 * word: it has flagged it, or the thread has unlocked it and said so (OWNER_ENDED), or has ended.  Only the
 * holds need not wait for that.
 *
 * Where robust futexes do not exist (user-mode emulators, filters) the slot says so and death is found by looking at
 * /proc at each self-check: slower, as exact.
 *
 * SLOT CONTROL: FREE -> CLAIMED -> ACTIVE (-> GONE) -> FREE with the next generation.  Crash points of joining:
 *   (1) CLAIMED: the control word has the thread id; whoever needs slots proves the death by /proc and frees it
 *   (2) ACTIVE: the life word tells
 * An owner_ref names (slot, generation); a reference to an earlier generation is to a dead owner.
 */
#define _GNU_SOURCE
#include "lock/owner.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/error.h"
#include "sys/procfs.h"
#include "lock/sweep.h"

#define SWEEP_AT_JOIN 4
#define SHARED_PART 8 /* bytes of the mutex in the shared page; it is 8-aligned */

__thread struct participant *participants_of_thread FAST_TLS;

static pthread_key_t exit_key;
static int exit_key_error; /* of making it */
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* Of a pid namespace as procfs_pid_namespace() tells it; 0 = cannot tell. */
static uint32_t namespace_hash(uint64_t ns)
{
	return ns ? (uint32_t)(ns * UINT64_C(0x9e3779b97f4a7c15) >> 48) | 1 : 0;
}

static unsigned char *life_page(const struct lockshm *s, uint32_t slot)
{
	return s->lives + (size_t)slot * LIFE_BYTES;
}

static uint32_t *life_word(const struct lockshm *s, uint32_t slot)
{
	uint32_t off = load_relaxed32(&s->owners[slot].life_off);

	if (off > LIFE_BYTES - 4 || off % 4)
		return NULL;
	return (uint32_t *)(void *)(life_page(s, slot) + off);
}

/* ---------------------------------------------------------------- joining */

/* The robust list of the calling thread as the kernel knows it. */
static struct robust_list_head *robust_list(void)
{
	struct robust_list_head *head = NULL;
	size_t len = 0;

	return syscall(SYS_get_robust_list, 0, &head, &len) == 0 ? head : NULL;
}

/* Map the life page again, with a private page behind it.  NULL = pages are of another size, or no room. */
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

/* Where the kernel will look: the newest node of the list plus the list's offset.  NULL = not in that mutex. */
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
static bool begin_life(struct participant *p, uint32_t tid)
{
	unsigned char *page = life_page(p->segment, p->slot), *view;
	uint32_t *word;
	size_t i;

	p->alias = map_alias(page);
	view = p->alias ? p->alias : page;
	for (i = 0; i < LIFE_BYTES; i += sizeof(uint64_t))
		store_relaxed((uint64_t *)(void *)(page + i), 0);
	p->life = (pthread_mutex_t *)(void *)(p->alias ? view + LIFE_BYTES - SHARED_PART : view);
	/* Never wait for it: if somebody scribbles on the word in this moment, there would be no end. */
	if (init_mutex(p->life) != 0 || !take_mutex(p->life)) {
		p->life = NULL;
		return false;
	}
	p->robust_head = robust_list();
	word = find_life_word(p->life, p->robust_head, tid);
	if (!word) {
		/* If it was written over just now the node stays on the list, and so must its
		 * memory: for the thread's life. */
		if (pthread_mutex_unlock(p->life) != 0)
			p->alias = NULL;
		p->life = NULL;
		return false;
	}
	store_relaxed32(&p->shared->life_off, (uint32_t)((unsigned char *)word - view));
	/* From now on the kernel wakes a watcher without being asked by one. */
	(void)fetch_or32(word, FUTEX_WAITERS);
	return true;
}

/* The C library takes the mutex off its list only if the word still says that I hold it.  If a damaged segment says
 * otherwise the node stays on the list, and so must its memory: false. */
static bool end_life(struct participant *p)
{
	if (p->life && pthread_mutex_unlock(p->life) != 0)
		return false;
	if (p->alias)
		munmap(p->alias, 2 * LIFE_BYTES);
	return true;
}

/* Who joins, asked once: /proc is slow. */
struct newcomer {
	uint32_t pid;
	uint32_t tid;
	uint64_t pid_ns;
};

static void fill_slot(struct participant *p, const struct newcomer *me, uint32_t flags)
{
	struct shm_owner *o = p->shared;
	int i;

	/* My claim before my fields.  Pairs with fence_acquire() in owner_identity(). */
	fence_release();
	store_relaxed(&o->start_time, procfs_start_time((int32_t)me->pid, (int32_t)me->tid,
							clock_is_initial(p->segment->clock_ns)));
	store_relaxed(&o->pid_ns, me->pid_ns);
	store_relaxed(&o->waiting, 0);
	store_relaxed32(&o->tid, me->tid);
	for (i = 0; i < OWNER_COUNTERS; i++)
		store_relaxed(&o->counts[i], 0);
	if (begin_life(p, me->tid))
		flags |= OWNER_EXACT;
	store_release32(&o->flags, flags);
}

/* Claim any free slot, from a place that differs between threads. */
static bool claim_slot(struct participant *p, const struct newcomer *me)
{
	struct lockshm *s = p->segment;
	uint32_t i, start = me->tid % s->n_owners, ns = namespace_hash(me->pid_ns);

	for (i = 0; i < s->n_owners; i++) {
		uint32_t slot = (start + i) % s->n_owners;
		uint64_t c = load_acquire(&s->owners[slot].control);
		uint64_t claimed = control_make(control_gen(c), me->tid, ns, OWNER_CLAIMED);

		if (control_state(c) != OWNER_FREE || !cas_from(&s->owners[slot].control, c, claimed))
			continue;
		p->slot = p->next_chunk = slot;
		p->shared = &s->owners[slot];
		p->ref = owner_ref(control_gen(c), slot);
		return true;
	}
	return false;
}

static void leave_all(void *unused);

static void make_exit_key(void)
{
	exit_key_error = pthread_key_create(&exit_key, leave_all);
}

/* See to it that leave_all() runs when this thread exits.  0 or an errno: a process has a
 * limited number of such keys. */
static int expect_exit(void)
{
	pthread_once(&exit_once, make_exit_key);
	return exit_key_error ? exit_key_error : pthread_setspecific(exit_key, &exit_key);
}

static void link_to_thread(struct participant *p)
{
	p->next = participants_of_thread;
	participants_of_thread = p;
}

static void free_private(struct participant *p)
{
	free(p->search_room);
	free(p->chunks);
	free(p);
}

/* Some C libraries (musl) leave the parent's nodes on the robust list of a forked child, and would write to them when
 * the child locks a mutex.  Ours is the newest one then. */
static void drop_inherited(const struct participant *p)
{
	struct robust_list_head *head = p->robust_head;
	uintptr_t node, mutex = (uintptr_t)p->life;

	if (!head || !mutex)
		return;
	node = (uintptr_t)head->list.next;
	if (node >= mutex && node < mutex + sizeof(pthread_mutex_t))
		head->list.next = &head->list;
	if (p->alias && head->list.next == &head->list)
		munmap(p->alias, 2 * LIFE_BYTES);
}

void participant_forget_inherited(uint64_t epoch)
{
	struct participant **at = &participants_of_thread, *p;

	while ((p = *at) != NULL) {
		if (p->epoch == epoch) {
			at = &p->next;
			continue;
		}
		drop_inherited(p);
		*at = p->next;
		free_private(p);
	}
}

int participant_join(struct lockshm *s, struct participant **out, uint32_t flags, struct lockshm_error *error)
{
	uint64_t epoch = process_epoch();
	struct newcomer me;
	struct participant *p;
	uint64_t c;
	int err = expect_exit();

	if (err)
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot be told of this thread's exit");
	if (s->clock_lost)
		return error_set(error, LOCKSHM_SYSTEM, "cannot tell this process' time namespace: open the segment again");
	participant_forget_inherited(epoch);
	p = calloc(1, sizeof(*p));
	if (p)
		p->search_room = malloc(SEARCH_ROOM_BYTES(s->n_owners)); /* no page of it is touched before a search */
	if (!p || !p->search_room) {
		free(p);
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the thread's part in the segment");
	}
	p->segment = s;
	p->epoch = epoch;
	p->uid = process_unique();
	p->spin_ns = 20000;
	me = (struct newcomer){ (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid), procfs_pid_namespace() };
	if (!claim_slot(p, &me) && (sweep_probing(s) == 0 || !claim_slot(p, &me))) {
		free_private(p);
		return error_full(error, LOCKSHM_TABLE_OWNERS);
	}
	fill_slot(p, &me, flags);
	/* Publishes the slot with its life word; pairs with the acquire in owner_is_dead().  From exactly my claim: if
	 * somebody took me for dead it is not my slot any more. */
	c = control_make(owner_ref_gen(p->ref), me.tid, namespace_hash(me.pid_ns), OWNER_CLAIMED);
	if (!cas_from(&p->shared->control, c,
		      control_make(owner_ref_gen(p->ref), me.pid, namespace_hash(me.pid_ns), OWNER_ACTIVE))) {
		(void)end_life(p);
		free_private(p);
		return error_set(error, LOCKSHM_SYSTEM, "this thread's owner slot was taken away while it joined");
	}
	pthread_mutex_lock(&s->lock);
	s->refs++;
	pthread_mutex_unlock(&s->lock);
	link_to_thread(p);
	/* The worker that replaces a killed one clears away behind it, and a little more where many were killed. */
	(void)sweep_some(s, SWEEP_AT_JOIN);
	*out = p;
	return 0;
}

/* ---------------------------------------------------------------- leaving */

/* End the life first: from then on this thread is as dead as any, and one path clears away after both. */
static void end_part(struct participant *p)
{
	struct lockshm *s = p->segment;
	uint32_t *word = p->life ? life_word(s, p->slot) : NULL;

	/* From the unlock on I am dead to others, but the slot is mine until I say that I am through with the word. */
	if (end_life(p))
		store_release32(&p->shared->flags, load_relaxed32(&p->shared->flags) | OWNER_ENDED);
	if (word)
		futex_wake(word, INT_MAX);
	sweep_left(s, p->slot, p->ref, p->chunks, p->n_chunks);
	free_private(p);
	segment_unref(s);
}

static void leave_all(void *unused)
{
	uint64_t epoch = process_epoch();
	struct participant *p;

	(void)unused;
	participant_forget_inherited(epoch);
	while ((p = participants_of_thread) != NULL) {
		participants_of_thread = p->next;
		end_part(p);
	}
}

void participant_leave(struct lockshm *s)
{
	struct participant **at = &participants_of_thread, *p;

	participant_forget_inherited(process_epoch());
	while ((p = *at) != NULL && p->segment != s)
		at = &p->next;
	if (!p)
		return;
	*at = p->next;
	pthread_setspecific(exit_key, participants_of_thread ? &exit_key : NULL);
	end_part(p);
}

/* ---------------------------------------------------------------- looking at others */

/* A service thread stands for its process: its own end proves that every sibling has a kill pending; make each processor that
 * runs one take it before we believe the process dead. */
static void flush_siblings(void)
{
#ifdef SYS_membarrier
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
#endif
}

/* Do its thread numbers mean anything here?  Without /proc nobody can tell. */
static bool same_namespace(const struct shm_owner *o)
{
	uint64_t mine = procfs_pid_namespace();

	return mine != 0 && load_acquire(&o->pid_ns) == mine;
}

/* Proof from /proc, where that can give one. */
static bool thread_is_gone(const struct shm_owner *o, int32_t pid)
{
	return same_namespace(o) &&
	       procfs_thread_is_dead(pid, (int32_t)load_relaxed32(&o->tid), load_relaxed(&o->start_time));
}

static bool active_is_dead(const struct lockshm *s, uint32_t slot, int32_t pid)
{
	const struct shm_owner *o = &s->owners[slot];
	uint32_t flags = load_acquire32(&o->flags);
	const uint32_t *word = life_word(s, slot);
	uint32_t life;

	if (flags & OWNER_ENDED)
		return true;

	if (!(flags & OWNER_EXACT))
		return thread_is_gone(o, pid);
	if (!word)
		return false;
	life = load_acquire32(word);
	if (!(life & FUTEX_OWNER_DIED) && (life & FUTEX_TID_MASK) != 0)
		return false;
	if (flags & OWNER_PROCESS)
		flush_siblings();
	return true;
}

bool owner_slot_is_dead(const struct lockshm *s, uint32_t slot, uint64_t control)
{
	switch (control_state(control)) {
	case OWNER_GONE:
		return true;
	case OWNER_ACTIVE:
		return active_is_dead(s, slot, control_pid(control));
	case OWNER_CLAIMED:
		/* Died while joining: no life word yet, only a pid to look up, in our own namespace. */
		return control_ns_hash(control) != 0 && control_ns_hash(control) == namespace_hash(procfs_pid_namespace()) &&
		       procfs_thread_is_gone(0, control_pid(control));
	default:
		return false;
	}
}

bool owner_slot_is_retired(const struct lockshm *s, uint32_t slot, uint64_t control)
{
	const struct shm_owner *o = &s->owners[slot];
	uint32_t flags = load_acquire32(&o->flags);
	const uint32_t *word = life_word(s, slot);

	if (control_state(control) == OWNER_CLAIMED || !(flags & OWNER_EXACT) || (flags & OWNER_ENDED) || !word)
		return true;
	if (load_acquire32(word) & FUTEX_OWNER_DIED)
		return true;
	return same_namespace(o) && procfs_thread_has_ended(control_pid(control), (int32_t)load_relaxed32(&o->tid),
							  load_relaxed(&o->start_time));
}

bool owner_is_dead(const struct lockshm *s, uint64_t ref)
{
	const struct shm_owner *o = owner_at(s, owner_ref_slot(ref));
	uint64_t c;

	if (!o)
		return true;
	c = load_acquire(&o->control);
	if (control_gen(c) != owner_ref_gen(ref) || control_state(c) == OWNER_FREE || control_state(c) == OWNER_GONE)
		return true;
	return control_state(c) == OWNER_ACTIVE && active_is_dead(s, owner_ref_slot(ref), control_pid(c));
}

static bool thread_is_over(const struct shm_owner *o, int32_t pid)
{
	int32_t tid = (int32_t)load_relaxed32(&o->tid);

	return procfs_thread_is_gone(pid, tid) || procfs_thread_is_leaving(pid, tid, load_relaxed(&o->start_time));
}

void owner_probe(const struct lockshm *s, uint64_t ref)
{
	const struct shm_owner *o = owner_at(s, owner_ref_slot(ref));
	uint64_t c = o ? load_acquire(&o->control) : 0;
	uint32_t *word = o ? life_word(s, owner_ref_slot(ref)) : NULL;

	if (!word || s->read_only || control_gen(c) != owner_ref_gen(ref) || control_state(c) != OWNER_ACTIVE ||
	    !(load_acquire32(&o->flags) & OWNER_EXACT) || active_is_dead(s, owner_ref_slot(ref), control_pid(c)))
		return;
	/* Only this: no such thread, or that very thread on its way out.  What /proc shows may be hidden, shifted or
	 * another namespace's, and a life that the kernel has not flagged must not be ended on weaker evidence. */
	if (!same_namespace(o) || !thread_is_over(o, control_pid(c)))
		return;
	/* As for a flagged life. */
	if (load_acquire32(&o->flags) & OWNER_PROCESS)
		flush_siblings();
	/* In the word that has the generation: it cannot hit the slot's next owner. */
	if (cas_from((uint64_t *)(uintptr_t)&o->control, c,
		     control_make(control_gen(c), (uint32_t)control_pid(c), control_ns_hash(c), OWNER_GONE)))
		futex_wake(word, INT_MAX);
}

bool owner_watch(const struct lockshm *s, uint64_t ref, struct futex_watch *out)
{
	const struct shm_owner *o = owner_at(s, owner_ref_slot(ref));
	const uint32_t *word;

	if (!o || !(load_acquire32(&o->flags) & OWNER_EXACT) || owner_is_dead(s, ref))
		return false;
	word = life_word(s, owner_ref_slot(ref));
	if (!word)
		return false;
	out->word = word;
	out->value = load_acquire32(word);
	return !(out->value & FUTEX_OWNER_DIED) && (out->value & FUTEX_TID_MASK) != 0;
}

void owner_wake_watchers(const struct lockshm *s, uint64_t ref)
{
	const struct shm_owner *o = owner_at(s, owner_ref_slot(ref));
	const uint32_t *word = o ? life_word(s, owner_ref_slot(ref)) : NULL;

	if (word)
		futex_wake(word, INT_MAX);
}

void owner_identity(const struct lockshm *s, uint64_t ref, int32_t *pid, int32_t *tid)
{
	const struct shm_owner *o = owner_at(s, owner_ref_slot(ref));
	uint64_t c = o ? load_acquire(&o->control) : 0;

	*pid = *tid = 0;
	if (!o || control_gen(c) != owner_ref_gen(ref) || control_state(c) < OWNER_ACTIVE)
		return;
	*pid = control_pid(c);
	*tid = (int32_t)load_relaxed32(&o->tid);
	fence_acquire(); /* the fields before the second look at the control word; pairs with the CAS in sweep_slot() */
	if (load_relaxed(&o->control) != c)
		*pid = *tid = 0;
}
