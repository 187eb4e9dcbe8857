/* SPDX-License-Identifier: MIT */
/*
 * key-order.h - what acquiring several locks at once has in common, for threads and for loops
 *
 * All callers take keys in the same order, so that two such calls never wait for each other in a circle.  In a segment
 * of one host that is the order of the identities.  These depend on the segment's secret, so with Redis it is the order
 * of the keys themselves, for local calls too, because local calls meet global ones.
 */
#ifndef LOCKSHM_HOLD_KEY_ORDER_H
#define LOCKSHM_HOLD_KEY_ORDER_H

#include "hold/acquire.h"
#include "sys/hash.h"

#define MANY_TRIES 1000 /* of all keys, if the lease of one ends before the last key is granted */

struct wanted {
	struct identity id;
	const struct lockshm_key *by; /* the key itself, if that is the order; else NULL */
	uint32_t qpos; /* in the caller's arrays */
	int mode;
};

/* Check everything that is not one key's. */
MUST_CHECK int many_check(const struct lockshm_request *common, const struct lockshm_key *keys, size_t n,
			  const lockshm_hold_t *holds, struct lockshm_error *error);

/* Fill @w, of LOCKSHM_MANY_MAX, in the order; equal keys once, with the stronger mode: *@kept are left. */
MUST_CHECK int many_order(const struct lockshm *s, struct wanted *w, const struct lockshm_request *common,
			  const struct lockshm_key *keys, size_t n, size_t *kept, struct lockshm_error *error);

/* LOCAL_ONLY, other hosts are not excluded, outranks all damage, which report.damage has in any case. */
int many_worse(int a, int b);

void many_add_report(struct lockshm_report *all, const struct lockshm_report *one);

/* None is held: what was said of the keys so far is not about the next try, nor about a failed call. */
void many_forget_holds(struct lockshm_report *all);

#endif
