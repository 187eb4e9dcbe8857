/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

/* Long work in steps, with a renewal before each one and the token on every write. */
int store(uint64_t token, int step);

int long_work(lockshm_hold_t *hold)
{
	int step, status;

	for (step = 0; step < 10; step++) {
		status = lockshm_renew(hold, LOCKSHM_SECONDS(10));
		if (status < 0)
			return status;
		if (store(lockshm_token(hold), step) != 0)
			break;
	}
	return lockshm_release(hold, 0);
}

/* A job that must not start again within a minute of its end. */
void finish(lockshm_hold_t *hold)
{
	int status = lockshm_release(hold, LOCKSHM_SECONDS(60));

	if (status == LOCKSHM_LATE)
		fprintf(stderr, "dangerous: booked for less than it took\n");
	else if (status == LOCKSHM_LOST)
		fprintf(stderr, "bad: lost to token %llu\n",
			(unsigned long long)lockshm_lost_to(hold));
}
