/* SPDX-License-Identifier: MIT */
/* quorum-fence.c - tokens of a quorum; see redis/quorum-fence.h */
#include "redis/quorum-fence.h"

/*
 * Of clocks that are kept by NTP, and of the way to a server.  So far tokens of a quorum are ahead of the clock, from
 * which they continue where a majority has forgotten them: below the time that the same host needs to acquire anew, and
 * others have the same lead.
 */
#define LEAD_US 4000

/* As reserve() in scripts/common.lua counts. */
#define TOKENS_SINCE_US INT64_C(1735689600000000)
#define TOKENS_PER_US 16
#define YEAR_US INT64_C(31557600000000)

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

/* Beyond it one server alone does not raise the others, which would never have lower tokens again, and in the end none
 * that can be counted.  With a year to spare: its clock may have been ahead once. */
static int64_t plausible(const struct redis_quorum *q, const struct round *granted)
{
	int64_t us = quorum_fence_clock(q), limit = (us - TOKENS_SINCE_US + YEAR_US) * TOKENS_PER_US;
	unsigned above = 0; /* groups */
	size_t i;

	for (i = 0; i < q->n; i++)
		if (quorum_fence_taken(granted, i) > limit)
			above |= 1U << q->nodes[i].group;
	return !us || (unsigned)__builtin_popcount(above) >= q->majority ? INT64_MAX : limit;
}

int64_t quorum_fence_highest(const struct redis_quorum *q, const struct round *granted)
{
	int64_t highest = 0, limit = plausible(q, granted);
	size_t i;

	for (i = 0; i < q->n; i++)
		if (quorum_fence_taken(granted, i) > highest && quorum_fence_taken(granted, i) <= limit)
			highest = quorum_fence_taken(granted, i);
	return highest;
}
