/* SPDX-License-Identifier: MIT */
/*
 * fuzz-guard.c - replacements of C library calls under the fuzzer
 *
 * Linked with --wrap: mmap(), so that segments lie between inaccessible pages and an index that leads out of one is a
 * crash; and nanosleep(), so that lockshm_verify() does not wait for others to finish.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define GUARD (UINT64_C(1) << 32) /* on each side */
#define GUARDED_MAX 16

static struct {
	unsigned char *room, *map;
	size_t size;
} guarded[GUARDED_MAX];

void *__real_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off);
int __real_munmap(void *addr, size_t size);
int __wrap_munmap(void *addr, size_t size);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off)
{
	unsigned char *room, *map;
	unsigned i;

	for (i = 0; i < GUARDED_MAX && guarded[i].room; i++)
		;
	if (addr || !(flags & MAP_SHARED) || fd < 0 || i == GUARDED_MAX)
		return __real_mmap(addr, size, prot, flags, fd, off);
	size = (size + 4095) & ~(size_t)4095;
	room = __real_mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return MAP_FAILED;
	map = __real_mmap(room + GUARD, size, prot, flags | MAP_FIXED, fd, off);
	if (map == MAP_FAILED) {
		__real_munmap(room, size + 2 * GUARD);
		return MAP_FAILED;
	}
	guarded[i].room = room;
	guarded[i].map = map;
	guarded[i].size = size + 2 * GUARD;
	return map;
}

int __wrap_munmap(void *addr, size_t size)
{
	unsigned i;

	for (i = 0; i < GUARDED_MAX; i++)
		if (guarded[i].room && guarded[i].map == addr) {
			unsigned char *room = guarded[i].room;

			guarded[i].room = NULL;
			return __real_munmap(room, guarded[i].size);
		}
	return __real_munmap(addr, size);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)time;
	(void)left;
	return 0;
}
