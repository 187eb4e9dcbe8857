/* SPDX-License-Identifier: MIT */
/* doorbell.c - the two sides of a doorbell; see doorbell.h, and model/doorbell.pml */
#include "lock/doorbell.h"

#include "sys/atomic.h"

static struct shm_doorbell *doorbell_of(const struct lockshm *s, uint32_t slot)
{
	return (struct shm_doorbell *)(void *)(s->lives + (size_t)slot * LIFE_BYTES + DOORBELL_OFFSET);
}

/* ---------------------------------------------------------------- ringers */

static void ring(const struct lockshm *s, uint64_t owner, uint32_t index)
{
	uint32_t class = index % DOORBELL_CLASSES, word = class / 64, slot = owner_ref_slot(owner);
	struct shm_owner *o = (struct shm_owner *)(uintptr_t)owner_at(s, slot);
	struct shm_doorbell *b;

	if (!o)
		return;
	b = doorbell_of(s, slot);
	/* The slot may have another owner by now: then a bit is set for nothing. */
	(void)fetch_or(&b->rung[word], UINT64_C(1) << class % 64);
	(void)fetch_or(&b->rung_words, UINT64_C(1) << word);
	/* Ringer: set the bits, then load the flag.  Service thread: store the flag, then load the bits.  Pairs with the
	 * fence in doorbell_fall_asleep(). */
	fence_after_rmw();
	if (!load_relaxed32(&b->asleep))
		return;
	/* From the load of the bits to the sleep: the kernel compares the word. */
	(void)fetch_add32(&o->doorbell, 1);
	futex_wake(&o->doorbell, 1);
}

void doorbell_ring(struct lockshm *s, uint32_t index)
{
	uint64_t owner = load_acquire(&s->requests[index].owner);

	void (*look)(struct lockshm *, uint32_t) = __atomic_load_n(&s->look_at_wait, __ATOMIC_ACQUIRE);

	if (look && owner == load_relaxed(&s->process_ref))
		look(s, index);
	else
		ring(s, owner, index);
}

void doorbell_ring_service(const struct lockshm *s, uint32_t index)
{
	ring(s, load_acquire(&s->requests[index].owner), index);
}

/* ---------------------------------------------------------------- the service thread */

void doorbell_answer(const struct lockshm *s, uint32_t slot, void (*look)(void *arg, uint32_t class), void *arg)
{
	struct shm_doorbell *b = doorbell_of(s, slot);
	uint64_t words, bits;

	/* Cleared before they are looked at: a bit that is set from here on is seen by the next call. */
	for (words = load_relaxed(&b->rung_words) ? exchange_zero(&b->rung_words) : 0; words; words &= words - 1) {
		uint32_t word = (uint32_t)__builtin_ctzll(words);

		for (bits = exchange_zero(&b->rung[word]); bits; bits &= bits - 1)
			look(arg, word * 64 + (uint32_t)__builtin_ctzll(bits));
	}
}

struct futex_watch doorbell_watch(const struct lockshm *s, uint32_t slot)
{
	const uint32_t *word = &s->owners[slot].doorbell;

	return (struct futex_watch){ word, load_acquire32(word) };
}

bool doorbell_fall_asleep(const struct lockshm *s, uint32_t slot)
{
	struct shm_doorbell *b = doorbell_of(s, slot);

	store_relaxed32(&b->asleep, 1);
	/* The flag, then the bits.  Pairs with the fence in ring(). */
	fence_full();
	return load_relaxed(&b->rung_words) == 0;
}

void doorbell_wake_up(const struct lockshm *s, uint32_t slot)
{
	store_relaxed32(&doorbell_of(s, slot)->asleep, 0);
}
