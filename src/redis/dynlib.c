/* SPDX-License-Identifier: MIT */
/* dynlib.c - loading libraries, and forks meanwhile; see redis/dynlib.h */
#define _GNU_SOURCE
#include "redis/dynlib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define END_MS 1000 /* longest wait at the end of the process */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner_pid; /* that has the lock, 0 = none */
static pthread_t owner_thread;
static bool inside; /* lock held, between enter and leave */
static bool broken; /* the parent of this process was inside when it was cloned: the library stays locked */

static void got_lock(void)
{
	__atomic_store_n(&owner_thread, pthread_self(), __ATOMIC_RELAXED);
	/* Pairs with the acquire in dynlib_wait_at_end(). */
	__atomic_store_n(&owner_pid, getpid(), __ATOMIC_RELEASE);
}

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
	got_lock();
}

static void drop_lock(void)
{
	__atomic_store_n(&owner_pid, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
}

static void *find(const struct dynlib *l, void *handle, const char *name, char why[DYNLIB_ERROR_SIZE])
{
	void *found = handle ? dlsym(handle, name) : NULL;

	if (!found && !why[0])
		snprintf(why, DYNLIB_ERROR_SIZE, "cannot load %.40s, which %.40s needs: %.100s", l->file, l->needs_it,
			 dlerror());
	return found;
}

/* With the lock held. */
static bool load(struct dynlib *l)
{
	/* Never unloaded: its objects may live as long as the process. */
	void *handle = dlopen(l->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	char why[DYNLIB_ERROR_SIZE] = "";
	size_t i;

	for (i = 0; i < l->n_symbols; i++)
		*(void **)l->symbols[i].to = find(l, handle, l->symbols[i].name, why);
	/* Other threads may be reading the earlier text: not overwritten while it is the same. */
	if (why[0] && strcmp(l->error, why) != 0)
		memcpy(l->error, why, sizeof(why));
	/* Pairs with the acquire in dynlib_load(): a thread that loads true loads the addresses. */
	__atomic_store_n(&l->loaded, !why[0], __ATOMIC_RELEASE);
	return !why[0];
}

const char *dynlib_load(struct dynlib *l)
{
	bool loaded = __atomic_load_n(&l->loaded, __ATOMIC_ACQUIRE);

	if (loaded)
		return NULL;
	/* A failure may have been a lack of descriptors: tried again each time. */
	take_lock();
	loaded = l->loaded || load(l);
	drop_lock();
	return loaded ? NULL : l->error;
}

bool dynlib_enter(int *cancel)
{
	/* The library may read files, which are cancellation points: none with the lock held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
	take_lock();
	if (!broken) {
		inside = true;
		return true;
	}
	drop_lock();
	pthread_setcancelstate(*cancel, NULL);
	return false;
}

void dynlib_leave(int cancel)
{
	inside = false;
	drop_lock();
	pthread_setcancelstate(cancel, NULL);
}

void dynlib_wait_at_end(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	int k;

	for (k = 0; pthread_mutex_trylock(&lock) != 0; k++) {
		pid_t pid = __atomic_load_n(&owner_pid, __ATOMIC_ACQUIRE);
		bool never = pid && (pid != getpid() || pthread_equal(__atomic_load_n(&owner_thread, __ATOMIC_RELAXED),
								      pthread_self()));

		if (never || k == END_MS)
			return;
		nanosleep(&ms, NULL);
	}
	pthread_mutex_unlock(&lock);
}

void dynlib_before_fork(void)
{
	take_lock();
}

void dynlib_after_fork(void)
{
	drop_lock();
}

void dynlib_forget(void)
{
	broken = broken || inside;
	inside = false;
	owner_pid = 0;
	pthread_mutex_init(&lock, NULL);
}
