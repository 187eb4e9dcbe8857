/* SPDX-License-Identifier: MIT */
/* quorum-fence.c - tokens of a quorum; see redis/quorum-fence.h */
#include "redis/quorum-fence.h"

/*
 * Of clocks that are kept by NTP, and of the way to a server.  So far tokens of a quorum are ahead of the clock, from
 * which they continue where a majority has forgotten them: below the time that the same host needs to acquire anew, and
 * others have the same lead.
 */
#define LEAD_US 4000

/* Of half of the servers, rounded up, the clocks are not above it: a minority cannot raise it. */
int64_t quorum_fence_clock(const struct redis_quorum *q)
{
	int64_t now = redis_now(), clock[REDIS_SERVERS_MAX], us;
	unsigned n = 0, k;
	size_t i;

	for (i = 0; i < q->n; i++) {
		us = redis_conn_clock_us(q->nodes[i].conn, now);
		if (!us)
			continue;
		for (k = n++; k > 0 && clock[k - 1] > us; k--)
			clock[k] = clock[k - 1];
		clock[k] = us;
	}
	return n < q->majority ? 0 : clock[q->majority - 1] + LEAD_US;
}

int64_t quorum_fence_taken(const struct round *granted, size_t i)
{
	const struct redis_op *op = &granted->ops[i];

	return granted->sent[i] && op->done && !op->code && op->reply.status == REDIS_GRANTED ? op->reply.fence : 0;
}

int64_t quorum_fence_agreed(const struct redis_quorum *q, const struct round *granted)
{
	unsigned same; /* groups */
	size_t i, k;

	for (i = 0; i < q->n; i++) {
		for (k = 0, same = 0; k < q->n; k++)
			if (quorum_fence_taken(granted, k) == quorum_fence_taken(granted, i))
				same |= 1U << q->nodes[k].group;
		if (quorum_fence_taken(granted, i) && (unsigned)__builtin_popcount(same) >= q->majority)
			return quorum_fence_taken(granted, i);
	}
	return 0;
}

int64_t quorum_fence_highest(const struct redis_quorum *q, const struct round *granted)
{
	int64_t highest = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		if (quorum_fence_taken(granted, i) > highest)
			highest = quorum_fence_taken(granted, i);
	return highest;
}
