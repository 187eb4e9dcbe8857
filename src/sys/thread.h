/* SPDX-License-Identifier: MIT */
/* thread.h - starting the library's own threads */
#ifndef LOCKSHM_SYS_THREAD_H
#define LOCKSHM_SYS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * 0 or an errno.  Blocks all signals, since they belong to the program's threads, except those of faults: these must
 * reach the program's handler from any thread, as SIGBUS of a truncated segment.  The stack has the program's default
 * size: some C libraries put the program's thread-local data, of any size, there as well.
 */
static inline int thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
	static const int faults[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
	sigset_t all, old;
	size_t i;
	int err;

	sigfillset(&all);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(out, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

#endif
