/* SPDX-License-Identifier: MIT */
/*
 * test-life-word.c - a life word is overwritten while its thread joins
 *
 * The time between the lock of the mutex and the check of its word is a few instructions long, so this program has a
 * pthread_mutex_trylock() of its own that writes over the word before it comes back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/fixture.h"

#define PAGE 4096

static bool scribble;
static int scribbled;

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *);
	int err;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	err = real(mutex);
	/* The mutex of a life word: its first eight bytes, with the futex word first, are the shared end of a page. */
	if (scribble && !err && (uintptr_t)mutex % PAGE == PAGE - 8) {
		__atomic_store_n((uint32_t *)(void *)mutex, 12345, __ATOMIC_RELAXED);
		scribbled++;
	}
	return err;
}

static void use_and_close(void)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	lockshm_t *handle;

	ck_code(lockshm_open(&handle, seg_name, 0, NULL), 0);
	ck_code(lockshm_acquire(handle, &request, &hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_close(handle), 0);
}

/* The C library does not take such a mutex off the thread's list, and writes to it when it puts the next one there. */
START_TEST(life_that_cannot_be_unlocked_keeps_its_memory)
{
	int i;

	ck_code(lockshm_close(seg), 0); /* so that each close is the last one */
	for (i = 0; i < 3; i++) {
		scribble = true;
		use_and_close();
		scribble = false;
		/* Another mapping, read-only, in the place of the unmapped page. */
		ck_assert_ptr_ne(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
		use_and_close();
	}
	ck_assert_int_eq(scribbled, 3);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

static void add(TCase *tc)
{
	/* On others the mutex lies in the segment as a whole. */
	if (sysconf(_SC_PAGESIZE) != PAGE)
		printf("left out: pages are not of %d bytes\n", PAGE);
	else
		tcase_add_native(tc, life_that_cannot_be_unlocked_keeps_its_memory);
}

int main(void)
{
	return fixture_main("life", add);
}
