/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <signal.h>
#include <stddef.h>

/* A worker that stops waiting at SIGTERM. */
static lockshm_canceller_t stop = LOCKSHM_CANCELLER_INIT;

static void on_term(int signal)
{
	(void)signal;
	lockshm_cancel(&stop);
}

int acquire_until_term(lockshm_t *segment, struct lockshm_request *request, lockshm_hold_t *hold)
{
	struct sigaction action = { .sa_handler = on_term };

	sigaction(SIGTERM, &action, NULL);
	request->canceller = &stop;
	request->timeout_ns = LOCKSHM_FOREVER;
	return lockshm_acquire(segment, request, hold);
}
