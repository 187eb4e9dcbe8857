/* SPDX-License-Identifier: MIT */
/*
 * uses.c - the commonest uses of a lock between processes, each in a few lines; README.md shows them
 *
 *   uses SEGMENT    runs each once, in several processes at the same time, and checks what they did
 */
#include <lockshm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the processes share beside the locks: here it is only counted what they did. */
struct config {
	int version, copy_of_version;
};
static struct shared {
	int reports, renderings;
	char cached[16];
	struct config config;
} *shared;

static void make_report(void)
{
	shared->reports++;
}

static const char *cache_get(const char *key)
{
	(void)key;
	return shared->cached[0] ? shared->cached : NULL;
}

static const char *cache_put(const char *key, const char *text)
{
	(void)key;
	return strcpy(shared->cached, text);
}

static const char *render(const char *key)
{
	shared->renderings++;
	usleep(20000);
	return key;
}

/* BEGIN: shown in README.md */
/* Cron guard: one process does the job, the others skip it.  Strict: only its end ends the lock. */
static int nightly(lockshm_t *locks)
{
	struct lockshm_request job = LOCKSHM_REQUEST("nightly");
	lockshm_hold_t hold;

	job.timeout_ns = 0;
	job.ttl_ns = LOCKSHM_FOREVER;
	if (lockshm_acquire(locks, &job, &hold) != 0)
		return 0;
	make_report();
	return lockshm_release(&hold, 0);
}

/* Single flight: of many requests for one page one renders it, the others wait and find it. */
static const char *page(lockshm_t *locks, const char *key)
{
	struct lockshm_request flight = LOCKSHM_REQUEST(key);
	const char *text = cache_get(key);
	lockshm_hold_t hold;

	if (text || lockshm_acquire(locks, &flight, &hold) != 0)
		return text;
	if (!(text = cache_get(key)))
		text = cache_put(key, render(key));
	lockshm_release(&hold, 0);
	return text;
}

/* A configuration that is read by all and seldom written: readers do not exclude each other. */
static int read_config(lockshm_t *locks, struct config *copy)
{
	struct lockshm_request read = LOCKSHM_REQUEST("config");
	lockshm_hold_t hold;

	read.mode = LOCKSHM_SHARED;
	if (lockshm_acquire(locks, &read, &hold) != 0)
		return -1;
	*copy = shared->config;
	return lockshm_release(&hold, 0);
}
/* END */

static int use_all(lockshm_t *locks, int writes)
{
	struct lockshm_request write = LOCKSHM_REQUEST("config");
	struct config copy = { 0, 0 };
	const char *text = page(locks, "/index");
	lockshm_hold_t hold;
	int i;

	for (i = 0; i < 1000; i++) {
		if (writes && lockshm_acquire(locks, &write, &hold) == 0) {
			shared->config.version++;
			shared->config.copy_of_version++;
			lockshm_release(&hold, 0);
		}
		if (read_config(locks, &copy) != 0 || copy.version != copy.copy_of_version)
			return 1;
	}
	return nightly(locks) != 0 || !text || strcmp(text, "/index") != 0;
}

int main(int argc, char **argv)
{
	struct lockshm_error error;
	lockshm_t *locks;
	int i, status, bad = 0;

	if (argc != 2)
		return fputs("usage: uses SEGMENT\n", stderr), 2;
	if (lockshm_create_or_open(&locks, argv[1], &error) != 0)
		return fprintf(stderr, "%s\n", error.message), 1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	for (i = 0; i < 4; i++)
		if (fork() == 0)
			_exit(use_all(locks, i == 0));
	for (i = 0; i < 4; i++)
		bad |= wait(&status) < 0 || status != 0;
	printf("%d processes, %d rendering, %d to %d reports\n", i, shared->renderings, 1, 4);
	return bad || shared->renderings != 1 || shared->reports < 1 || shared->reports > 4;
}
