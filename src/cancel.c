/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - ending a wait from elsewhere in the process
 *
 * A canceller is a flag and, while a wait uses it, a reference to that wait's request.  Cancelling sets the flag and
 * then ends the request as a time-out would (R3); the waiter publishes the reference and then looks at the flag.  One
 * of the two always sees the other.
 *
 *   opaque[0] flag   opaque[1] [gen | index] of the request, 0 = none   opaque[2] its segment
 */
#include "futex.h"
#include "wait.h"

enum { CANCELLER_FLAG, CANCELLER_REQUEST, CANCELLER_SEGMENT };

bool canceller_used(const lockshm_canceller_t *c)
{
	return load_acquire(&c->opaque[CANCELLER_FLAG]) != 0;
}

void canceller_begin(lockshm_canceller_t *c, struct lockshm *s, uint32_t index, uint64_t gen)
{
	/* Release: not before the end of the last wait, for the two looks in lockshm_cancel(). */
	store_release(&c->opaque[CANCELLER_SEGMENT], (uint64_t)(uintptr_t)s);
	store_release(&c->opaque[CANCELLER_REQUEST], ref_pack(index, gen));
	/* My reference before my look at the flag, in reason_to_stop().  Pairs with the fence in lockshm_cancel(). */
	fence_full();
}

void canceller_end(lockshm_canceller_t *c)
{
	store_release(&c->opaque[CANCELLER_REQUEST], 0);
}

LOCKSHM_EXPORT int lockshm_cancel(lockshm_canceller_t *canceller)
{
	const struct lockshm *s;
	struct request_ref ref;
	struct shm_request *r;
	uint64_t packed, w;

	if (!canceller)
		return LOCKSHM_INVALID;
	store_release(&canceller->opaque[CANCELLER_FLAG], 1);
	/* My flag before my look at the reference.  Pairs with the fence in canceller_begin(). */
	fence_full();
	packed = load_acquire(&canceller->opaque[CANCELLER_REQUEST]);
	s = (const struct lockshm *)(uintptr_t)load_acquire(&canceller->opaque[CANCELLER_SEGMENT]);
	/* Both of one wait?  If the waiter has gone on to another one since, it looks at the flag itself. */
	if (packed == 0 || load_relaxed(&canceller->opaque[CANCELLER_REQUEST]) != packed)
		return 0;
	ref = ref_unpack(packed);
	r = request_at(s, ref.index);
	w = r ? load_acquire(&r->word) : 0;
	while (word_gen(w) == ref.gen && word_is(w, REQUEST_WAITING))
		if (cas(&r->word, &w, word_with_state(w, REQUEST_ABANDONED)))
			futex_wake((const uint32_t *)(const void *)&r->word, 1);
	return 0;
}

LOCKSHM_EXPORT void lockshm_canceller_reset(lockshm_canceller_t *canceller)
{
	static const lockshm_canceller_t fresh = LOCKSHM_CANCELLER_INIT;

	if (canceller)
		*canceller = fresh;
}
