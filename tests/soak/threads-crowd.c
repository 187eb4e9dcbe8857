/* SPDX-License-Identifier: MIT */
/*
 * threads-crowd.c - a writer releases before many readers, of which those that wake first wake the others
 *
 * What the writer stored plainly must be seen by each of them, by whichever thread it was woken.
 */
#include "threads-as-processes.h"
#include "support/rows.h"

#include <string.h>

#define ROUNDS 3
#define KEY "crowd"

static struct guarded crowded;

static void *read_once(void *round)
{
	struct lockshm_request q = request_for(KEY, LOCKSHM_SHARED);
	lockshm_hold_t hold;

	EXPECT("crowd reads", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK);
	if (crowded.value != *(const uint64_t *)round || crowded.twin != crowded.value)
		fail("one of a crowd reads what was before the release that woke it");
	EXPECT("crowd leaves", lockshm_release(&hold, 0), LOCKSHM_OK);
	did(CROWDED);
	return NULL;
}

static void await_waiters(int n)
{
	struct lockshm_row row;
	long tries;

	for (tries = 0; key_row(locks, KEY, strlen(KEY), &row) != 0 || (int)row.waiters < n; tries++) {
		if (tries > PATIENCE / 1000000)
			fail("a crowd does not gather");
		nap(1000000);
	}
}

static void wake_crowd(uint64_t round)
{
	struct lockshm_request q = request_for(KEY, LOCKSHM_EXCLUSIVE);
	pthread_t readers[CROWD];
	lockshm_hold_t hold;
	unsigned i;

	EXPECT("crowd", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK);
	for (i = 0; i < CROWD; i++)
		if (pthread_create(&readers[i], NULL, read_once, &round) != 0)
			fail("pthread_create");
	await_waiters(CROWD);
	crowded = (struct guarded){ round, round };
	EXPECT("crowd may read", lockshm_release(&hold, 0), LOCKSHM_OK);
	for (i = 0; i < CROWD; i++)
		pthread_join(readers[i], NULL);
}

void wake_crowds(void)
{
	uint64_t round;

	for (round = 1; round <= ROUNDS; round++)
		wake_crowd(round);
}
