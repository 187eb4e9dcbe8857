/* SPDX-License-Identifier: MIT */
/* lock-list.c - the rows of a listing, put together as locks with their queues */
#include <stdlib.h>

#include "lockctl/lockctl.h"

/** The table keeps it until the next request. */
static bool is_over(const struct lock *lock, const struct lockshm_blocker *request)
{
	return lock->row.holders == 1 && request->state == LOCKSHM_COOLING && request->expires_in_ns <= 0;
}

static void add_request(struct lock *lock, const struct lockshm_row *row)
{
	if (is_over(lock, &row->request)) {
		lock->mode = 0;
		return;
	}
	lock->requests[lock->holders + lock->waiters] = (struct request){ row->request, row->global, row->alive };
	if (row->request.state == LOCKSHM_WAITING)
		lock->waiters++;
	else
		lock->holders++;
}

int lock_next(lockshm_list_t *list, struct lock *lock)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code = lockshm_list_next(list, &lock->row);
	size_t n;

	if (code != 1)
		return code;
	n = (size_t)lock->row.holders + lock->row.waiters;
	if (n > lock->room) {
		lock->requests = checked(reallocarray(lock->requests, n, sizeof(*lock->requests)));
		lock->room = n;
	}
	lock->holders = lock->waiters = 0;
	lock->mode = lock->row.mode;
	for (; n > 0 && code == 1; n--) {
		code = lockshm_list_next(list, &row);
		if (code == 1)
			add_request(lock, &row);
	}
	return code;
}

void lock_free(struct lock *lock)
{
	free(lock->requests);
}
