/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - ending a wait from another thread of the process
 *
 * A canceller is a flag and, while a wait uses it, a reference to that wait's request.  The canceller's thread sets the
 * flag and then ends the request as a time-out would (R3); the waiter publishes the reference and then loads the flag.
 * At least one of the two sees the other's store.
 *
 *   opaque[0] flag   opaque[1] [gen | index] of the request, 0 = none   opaque[2] its segment   opaque[3] seal
 *
 * The caller's memory is not trusted.  The flag is 0 or one value, and the seal mixes the rest with the address, the
 * process and the segment's number.  The segment is searched among the open ones before that.  While no wait uses the
 * canceller, the last two words are unused.
 */
#include "lock/doorbell.h"
#include "lock/wait.h"
#include "sys/futex.h"

enum { CANCELLER_FLAG, CANCELLER_REQUEST, CANCELLER_SEGMENT, CANCELLER_SEAL };

#define CANCELLER_USED UINT64_C(0x64657375206c6e63)
#define CANCELLER_MAGIC UINT64_C(0x74696177206c6e63)

static uint64_t flag_of(const lockshm_canceller_t *c)
{
	return CANCELLER_USED ^ (uint64_t)(uintptr_t)c;
}

/* Alternating sums and XORs, as in hold_seal(). */
static uint64_t seal_of(const lockshm_canceller_t *c, const struct lockshm *s, uint64_t request)
{
	const uint64_t *epoch = __atomic_load_n(&process_epoch_word, __ATOMIC_ACQUIRE);
	uint64_t x = CANCELLER_MAGIC ^ (uint64_t)(uintptr_t)c;

	/* Not process_epoch(), which may lock: in a forked child its epoch is 0 until the first call. */
	x = (x + (epoch ? load_relaxed(epoch) : 0)) ^ s->number;
	return (x + request) ^ (uint64_t)(uintptr_t)s;
}

static bool flag_is_good(const lockshm_canceller_t *c)
{
	uint64_t flag = load_acquire(&c->opaque[CANCELLER_FLAG]);

	return flag == 0 || flag == flag_of(c);
}

bool canceller_is_idle(const lockshm_canceller_t *c)
{
	return flag_is_good(c) && load_acquire(&c->opaque[CANCELLER_REQUEST]) == 0;
}

bool canceller_used(const lockshm_canceller_t *c)
{
	return load_acquire(&c->opaque[CANCELLER_FLAG]) == flag_of(c);
}

void canceller_begin(lockshm_canceller_t *c, struct lockshm *s, uint32_t index, uint64_t gen)
{
	uint64_t request = ref_pack(index, gen);

	/* Release: after the end of the last wait, for the two loads in wait_of(). */
	store_release(&c->opaque[CANCELLER_SEGMENT], (uint64_t)(uintptr_t)s);
	store_release(&c->opaque[CANCELLER_SEAL], seal_of(c, s, request));
	store_release(&c->opaque[CANCELLER_REQUEST], request);
	/* Waiter: store the reference, then load the flag, in reason_to_stop().  Pairs with the fence in
	 * lockshm_cancel(). */
	fence_full();
}

void canceller_end(lockshm_canceller_t *c)
{
	store_release(&c->opaque[CANCELLER_REQUEST], 0);
	/* The same reference must not be valid again. */
	store_release(&c->opaque[CANCELLER_SEAL], 0);
}

/* As wait_of(), once.  A mixture of two waits with equal references looks overwritten, too. */
static uint64_t read_wait(const lockshm_canceller_t *c, const struct lockshm **s, bool *good)
{
	uint64_t request = load_acquire(&c->opaque[CANCELLER_REQUEST]), seal;

	*good = true;
	*s = (const struct lockshm *)(uintptr_t)load_acquire(&c->opaque[CANCELLER_SEGMENT]);
	seal = load_acquire(&c->opaque[CANCELLER_SEAL]);
	/* All of one wait?  A waiter that has begun another wait since loads the flag itself. */
	if (request == 0 || load_relaxed(&c->opaque[CANCELLER_REQUEST]) != request)
		return 0;
	*good = process_sees_segment(*s) && seal == seal_of(c, *s, request);
	return *good ? request : 0;
}

/* The wait that uses it: its request, and its segment in *@s.  0 = none; *@good = false: it was overwritten. */
static uint64_t wait_of(const lockshm_canceller_t *c, const struct lockshm **s, bool *good)
{
	uint64_t request = read_wait(c, s, good);

	return *good ? request : read_wait(c, s, good);
}

struct futex_watch canceller_watch(const lockshm_canceller_t *c)
{
	return (struct futex_watch){ (const uint32_t *)(const void *)&c->opaque[CANCELLER_FLAG], 0 };
}

/* False = it waits no more, or for a host lease: its thread sleeps on the flag. */
static bool end_wait(const struct lockshm *s, struct request_ref ref)
{
	struct shm_request *r = request_at(s, ref.index);
	uint64_t w = r ? load_acquire(&r->word) : 0;

	while (word_gen(w) == ref.gen && word_is(w, REQUEST_WAITING))
		if (cas(&r->word, &w, word_with_state(w, REQUEST_ABANDONED))) {
			if (load_relaxed32(&r->sleeping) & SLEEPS_AT_DOORBELL)
				doorbell_ring_service(s, ref.index);
			else
				futex_wake((const uint32_t *)(const void *)&r->word, 1);
			return true;
		}
	return false;
}

LOCKSHM_EXPORT int lockshm_cancel(lockshm_canceller_t *canceller)
{
	const struct lockshm *s;
	uint64_t request;
	bool good;

	if (!canceller || !flag_is_good(canceller))
		return LOCKSHM_INVALID;
	/* Validate before the first store. */
	(void)wait_of(canceller, &s, &good);
	if (!good)
		return LOCKSHM_INVALID;
	store_release(&canceller->opaque[CANCELLER_FLAG], flag_of(canceller));
	/* Canceller: store the flag, then load the reference.  Pairs with the fence in canceller_begin(). */
	fence_full();
	request = wait_of(canceller, &s, &good);
	if (request != 0 && !end_wait(s, ref_unpack(request)))
		futex_wake(canceller_watch(canceller).word, 1);
	return good ? 0 : LOCKSHM_INVALID;
}
