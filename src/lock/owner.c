/* SPDX-License-Identifier: MIT */
/*
 * owner.c - is the owner of a request dead?
 *
 * Decided by its slot's control word, its life word (life.c) and, where these are not enough, by /proc.
 */
#define _GNU_SOURCE
#include "lock/owner.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/life.h"
#include "lock/participant.h"
#include "sys/proc-fs.h"

#define PROBE_NS 10000000

/* Maintained by participant.c.  Defined here, so that its readers do not depend on joining. */
__thread struct participant *participants_of_thread FAST_TLS;

/* The owner with that control word is dead.  A CAS with the generation: it cannot hit the slot's next owner. */
static bool set_gone(const struct lockshm *s, uint32_t slot, uint64_t c)
{
	return cas_from((uint64_t *)(uintptr_t)&s->owners[slot].control, c,
			control_make(control_gen(c), (uint32_t)control_pid(c), control_ns_hash(c), OWNER_GONE));
}

/* Are its thread numbers valid in this pid namespace?  Without /proc that is unknown. */
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

/* The kernel reports the end of a process when all its threads have ended. */
static bool process_is_gone(const struct shm_owner *o, int32_t pid)
{
	return same_namespace(o) && procfs_thread_is_gone(0, pid);
}

/* The end of a service thread proves that a kill is pending for each thread of its process.  Make every processor that
 * runs one deliver it before the process counts as dead.  A process that is not registered yet (service/barrier.c) is
 * reached by a grace period of the kernel only. */
static void flush_siblings(const struct shm_owner *o, uint32_t flags, int32_t pid)
{
#ifdef SYS_membarrier
	bool slow = flags & OWNER_UNREGISTERED;

	if (!slow || !process_is_gone(o, pid))
		(void)syscall(SYS_membarrier, slow ? MEMBARRIER_CMD_GLOBAL : MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
#endif
}

static bool active_is_dead(const struct lockshm *s, uint32_t slot, uint64_t c)
{
	const struct shm_owner *o = &s->owners[slot];
	uint32_t flags = load_acquire32(&o->flags);
	const uint32_t *word = life_word(s, slot);
	uint32_t life;

	if (flags & OWNER_ENDED)
		return true;
	if (!(flags & OWNER_EXACT))
		return thread_is_gone(o, control_pid(c));
	if (!word)
		return false;
	life = load_acquire32(word);
	if (!(life & FUTEX_OWNER_DIED) && (life & FUTEX_TID_MASK) != 0)
		return false;
	/* A reader hands no hold on. */
	if (!(flags & OWNER_PROCESS) || s->read_only)
		return true;
	flush_siblings(o, flags, control_pid(c));
	/* Once for all that the process has left. */
	if (flags & OWNER_UNREGISTERED)
		(void)set_gone(s, slot, c);
	return true;
}

bool owner_slot_is_dead(const struct lockshm *s, uint32_t slot, uint64_t control)
{
	switch (control_state(control)) {
	case OWNER_GONE:
		return true;
	case OWNER_ACTIVE:
		return active_is_dead(s, slot, control);
	case OWNER_CLAIMED:
		/* Died while joining: no life word yet, only a thread id to look up, in the same namespace. */
		return control_ns_hash(control) != 0 &&
		       control_ns_hash(control) == owner_namespace_hash(procfs_pid_namespace()) &&
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
	return control_state(c) == OWNER_ACTIVE && active_is_dead(s, owner_ref_slot(ref), c);
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
	uint32_t *word = o ? life_word(s, owner_ref_slot(ref)) : NULL, flags;

	if (!word || s->read_only || control_gen(c) != owner_ref_gen(ref) || control_state(c) != OWNER_ACTIVE ||
	    !(load_acquire32(&o->flags) & OWNER_EXACT) || active_is_dead(s, owner_ref_slot(ref), c))
		return;
	/* Proof is one of: no such thread, or that very thread on its way out.  What /proc shows may be hidden, shifted
	 * or another namespace's, and a life that the kernel has not flagged must not be ended on weaker evidence. */
	if (!same_namespace(o) || !thread_is_over(o, control_pid(c)))
		return;
	/* As for a flagged life. */
	flags = load_acquire32(&o->flags);
	if (flags & OWNER_PROCESS)
		flush_siblings(o, flags, control_pid(c));
	if (set_gone(s, owner_ref_slot(ref), c))
		futex_wake(word, INT_MAX);
}

static bool found_dead(const struct lockshm *s, uint64_t ref)
{
	if (ref == 0)
		return false;
	owner_probe(s, ref);
	return owner_is_dead(s, ref);
}

/* Of the calls that are not to probe keep any one's owner, for the next probe: where a thread tries several keys in turn
 * the limit never leaves out the same. */
static void leave_out(struct participant *self, uint64_t ref)
{
	self->chance = self->chance * 1664525 + 1013904223;
	if (ref != 0 && (self->chance >> 8) % ++self->n_unprobed == 0)
		self->unprobed = ref;
}

bool owner_found_dead(struct participant *self, uint64_t one, uint64_t other)
{
	const struct lockshm *s = self->segment;
	int64_t now = clock_coarse();
	bool dead;

	if (now - self->probed_ns < PROBE_NS) {
		leave_out(self, one);
		return false;
	}
	self->probed_ns = now;
	/* The death of one that was left out is stored in its slot. */
	(void)found_dead(s, self->unprobed);
	self->unprobed = 0;
	self->n_unprobed = 0;
	dead = found_dead(s, one);
	return (other != one && found_dead(s, other)) || dead;
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

struct owner_identity owner_identity(const struct lockshm *s, uint64_t ref)
{
	static const struct owner_identity none;
	const struct shm_owner *o = owner_at(s, owner_ref_slot(ref));
	uint64_t c = o ? load_acquire(&o->control) : 0, name[2];
	struct owner_identity id;

	if (!o || control_gen(c) != owner_ref_gen(ref) || control_state(c) < OWNER_ACTIVE)
		return none;
	id.pid = control_pid(c);
	id.tid = (int32_t)load_relaxed32(&o->tid);
	name[0] = load_relaxed(&o->name[0]);
	name[1] = load_relaxed(&o->name[1]);
	memcpy(id.name, name, sizeof(name));
	id.name[LOCKSHM_THREAD_NAME_MAX] = '\0';
	fence_acquire(); /* the fields before the second look at the control word; pairs with the CAS in sweep_slot() */
	return load_relaxed(&o->control) == c ? id : none;
}

uint64_t owner_count(const struct lockshm *s, uint32_t slot, enum owner_count event)
{
	uint64_t sum = load_acquire(&s->owners[slot].counts[event]);
	uint32_t i;

	if (event == COUNT_ACQUIRES && (load_acquire32(&s->owners[slot].flags) & OWNER_PROCESS))
		for (i = 0; i < LOOP_COUNTS; i++)
			sum += load_relaxed(&life_loop_count(s, slot, i)->acquires);
	return sum;
}
