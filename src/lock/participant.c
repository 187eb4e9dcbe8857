/* SPDX-License-Identifier: MIT */
/*
 * participant.c - a thread takes part: its slot, from the first acquire to its end
 *
 * SLOT CONTROL: FREE -> CLAIMED -> ACTIVE (-> GONE) -> FREE with the next generation.  Crash points of joining:
 *   (1) CLAIMED: the control word has the thread id; a thread that needs a slot proves the death by /proc and frees it
 *   (2) ACTIVE: the life word shows the death
 * An owner_ref names (slot, generation); a reference to an earlier generation is to a dead owner.
 */
#define _GNU_SOURCE
#include "lock/participant.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/chunks.h"
#include "lock/guest.h"
#include "lock/life.h"
#include "lock/sweep.h"
#include "segment/process.h"
#include "sys/error.h"
#include "sys/proc-fs.h"

#define SWEEP_AT_JOIN 4

/* ---------------------------------------------------------------- joining */

/* The joining thread, determined once: /proc is slow. */
struct newcomer {
	uint32_t pid;
	uint32_t tid;
	uint64_t pid_ns;
};

static void fill_name(struct shm_owner *o)
{
	uint64_t words[2] = { 0 };
	char name[sizeof(words)] = "";

	(void)prctl(PR_GET_NAME, name);
	memcpy(words, name, strnlen(name, sizeof(name)));
	store_relaxed(&o->name[0], words[0]);
	store_relaxed(&o->name[1], words[1]);
}

static void fill_slot(struct participant *p, const struct newcomer *me, uint32_t flags)
{
	struct shm_owner *o = p->shared;
	int i;

	/* The claim before the fields.  Pairs with fence_acquire() in owner_identity(). */
	fence_release();
	store_relaxed(&o->start_time, procfs_start_time((int32_t)me->pid, (int32_t)me->tid,
							clock_is_initial(p->segment->clock_ns)));
	store_relaxed(&o->pid_ns, me->pid_ns);
	store_relaxed(&o->waiting, 0);
	store_relaxed32(&o->tid, me->tid);
	fill_name(o);
	for (i = 0; i < OWNER_COUNTERS; i++)
		store_relaxed(&o->counts[i], 0);
	if (life_begin(p, me->tid))
		flags |= OWNER_EXACT;
	store_release32(&o->flags, owner_with_reach(flags, 0));
}

/* Claim any free slot, starting at one that differs between threads. */
static bool claim_slot(struct participant *p, const struct newcomer *me)
{
	struct lockshm *s = p->segment;
	uint32_t i, start = me->tid % s->n_owners, ns = owner_namespace_hash(me->pid_ns);

	for (i = 0; i < s->n_owners; i++) {
		uint32_t slot = (start + i) % s->n_owners;
		uint64_t c = load_acquire(&s->owners[slot].control);
		uint64_t claimed = control_make(control_gen(c), me->tid, ns, OWNER_CLAIMED);

		if (control_state(c) != OWNER_FREE || !cas_from(&s->owners[slot].control, c, claimed))
			continue;
		p->slot = p->next_chunk = slot;
		p->shared = &s->owners[slot];
		p->ref = owner_ref(control_gen(c), slot);
		/* Where a record is used again by another thread, their sleeps should differ. */
		p->sleeps = (uint32_t)hash_plain(&p->ref, sizeof(p->ref)) * SLEEP_NUMBER;
		return true;
	}
	return false;
}

/* What the sweep freed does not matter: another thread's sweep may have freed the slots meanwhile.  Two sweeps of one dead
 * owner may each leave its slot to the other: so two of them, the second with a look at /proc for each living owner. */
static bool claim_after_sweep(struct participant *p, const struct newcomer *me)
{
	(void)sweep_all(p->segment);
	if (claim_slot(p, me))
		return true;
	(void)sweep_probing(p->segment);
	return claim_slot(p, me);
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

void participant_forget_inherited(uint64_t epoch)
{
	struct participant **at = &participants_of_thread, *p;

	while ((p = *at) != NULL) {
		if (p->epoch == epoch) {
			at = &p->next;
			continue;
		}
		life_forget(p);
		*at = p->next;
		free_private(p);
	}
	guest_forget_inherited(epoch);
}

static void unref(struct lockshm *s, bool own_thread)
{
	if (own_thread)
		segment_unref_own(s);
	else
		segment_unref(s);
}

/* Its thread is gone, and the kernel has reported its death. */
static void give_back(struct thread_part *part)
{
	struct participant *p = caa_container_of(part, struct participant, part);
	struct lockshm *s = p->segment;
	bool own_thread = p->own_thread;

	life_unmap(p);
	sweep_left(s, p->slot, p->ref, p->chunks, p->n_chunks);
	free_private(p);
	unref(s, own_thread);
}

static const struct process_hooks hooks = { .forget_thread = participant_forget_inherited };

void participant_add_hooks(void)
{
	process_add_hooks(&hooks);
}

int participant_join(struct lockshm *s, struct participant **out, uint32_t flags, struct lockshm_error *error)
{
	uint64_t epoch = process_epoch();
	struct newcomer me;
	struct participant *p;
	uint64_t c;
	int err = thread_expect_end();

	if (err)
		return error_system(error, LOCKSHM_SYSTEM, err, "cannot register for this thread's exit");
	if (s->clock_lost)
		return error_set(error, LOCKSHM_SYSTEM,
				 "cannot tell this process' time namespace: open the segment again");
	process_add_hooks(&hooks);
	participant_forget_inherited(epoch);
	p = calloc(1, sizeof(*p));
	if (p)
		p->search_room = malloc(SEARCH_ROOM_BYTES(s->n_owners)); /* no page of it is touched before a search */
	if (!p || !p->search_room) {
		free(p);
		return error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for the thread's part in the segment");
	}
	p->segment = s;
	p->epoch = epoch;
	p->uid = process_unique();
	p->spin_ns = 20000;
	me = (struct newcomer){ (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid), procfs_pid_namespace() };
	if (!claim_slot(p, &me) && !claim_after_sweep(p, &me)) {
		free_private(p);
		return segment_full(s, LOCKSHM_TABLE_OWNERS, error);
	}
	fill_slot(p, &me, flags & ~JOIN_OWN_THREAD);
	/* Publishes the slot with its life word; pairs with the acquire in owner_is_dead().  From exactly this claim:
	 * if another thread took this one for dead the slot is not its own any more. */
	c = control_make(owner_ref_gen(p->ref), me.tid, owner_namespace_hash(me.pid_ns), OWNER_CLAIMED);
	if (!cas_from(&p->shared->control, c,
		      control_make(owner_ref_gen(p->ref), me.pid, owner_namespace_hash(me.pid_ns), OWNER_ACTIVE))) {
		(void)life_end(p);
		free_private(p);
		return error_set(error, LOCKSHM_SYSTEM, "this thread's owner slot was taken away while it joined");
	}
	p->own_thread = flags & (OWNER_PROCESS | JOIN_OWN_THREAD);
	p->of_process = flags & OWNER_PROCESS;
	p->acquires = &p->shared->counts[COUNT_ACQUIRES];
	pthread_mutex_lock(&s->lock);
	s->refs++;
	s->own_refs += p->own_thread;
	thread_part_begin(s, &p->part, give_back);
	pthread_mutex_unlock(&s->lock);
	link_to_thread(p);
	thread_parts_give_back(s, false);
	/* A worker that replaces a killed one clears away after it, and a little more where many were killed. */
	(void)sweep_some(s, SWEEP_AT_JOIN);
	*out = p;
	return 0;
}

/* ---------------------------------------------------------------- sharing a slot */

void participant_begin_share(struct participant *process, struct participant *p, uint32_t place)
{
	p->segment = process->segment;
	p->epoch = process->epoch;
	p->uid = process->uid;
	p->ref = process->ref;
	p->shared = process->shared;
	p->slot = process->slot;
	p->of_process = true;
	p->acquires = place < LOOP_COUNTS ? &life_loop_count(p->segment, p->slot, place)->acquires : &p->uncounted;
	p->next_chunk = process->slot;
	p->chunks = process->chunks;
	p->n_chunks = process->n_chunks;
	p->chunk_cap = process->chunk_cap;
	process->chunks = NULL;
	process->n_chunks = process->chunk_cap = 0;
}

void participant_end_share(struct participant *p, struct participant *process)
{
	(void)fetch_add_relaxed(&p->shared->counts[COUNT_ACQUIRES], p->uncounted);
	chunks_leave(p, process);
	free(p->chunks);
	free(p);
}

/* ---------------------------------------------------------------- leaving */

/* End the life first: from then on this thread counts as dead, and one path clears away after both. */
static void end_part(struct participant *p)
{
	struct lockshm *s = p->segment;
	uint32_t *word = p->life ? life_word(s, p->slot) : NULL;
	bool own_thread = p->own_thread;

	pthread_mutex_lock(&s->lock);
	thread_part_end(&p->part);
	pthread_mutex_unlock(&s->lock);
	/* From the unlock on other threads see this one as dead, but the slot stays its own until OWNER_ENDED is
	 * stored: it uses the word no more. */
	if (life_end(p))
		(void)fetch_or32(&p->shared->flags, OWNER_ENDED);
	if (word)
		futex_wake(word, INT_MAX);
	/* The chunks of loops are in no list of this participant. */
	if (p->of_process)
		(void)sweep_slot(s, p->slot);
	else
		sweep_left(s, p->slot, p->ref, p->chunks, p->n_chunks);
	free_private(p);
	thread_parts_give_back(s, false);
	unref(s, own_thread);
}

void participant_leave_all(void)
{
	struct participant *p;

	participant_forget_inherited(process_epoch());
	while ((p = participants_of_thread) != NULL) {
		participants_of_thread = p->next;
		end_part(p);
	}
}

void participant_leave(struct lockshm *s)
{
	struct participant **at = &participants_of_thread, *p;

	participant_forget_inherited(process_epoch());
	guest_leave(s);
	thread_parts_give_back(s, true);
	while ((p = *at) != NULL && p->segment != s)
		at = &p->next;
	if (!p)
		return;
	*at = p->next;
	end_part(p);
}
