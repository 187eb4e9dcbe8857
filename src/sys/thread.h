/* SPDX-License-Identifier: MIT */
/* thread.h - threads of the library's own */
#ifndef LOCKSHM_SYS_THREAD_H
#define LOCKSHM_SYS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * 0 or an errno.  Signals belong to the program's threads, but for those of faults: they must reach the program's own
 * handler, also here, as a truncated segment is SIGBUS.  With the program's own size of stack: some C libraries put its
 * thread-local data there too, however much that is.
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
