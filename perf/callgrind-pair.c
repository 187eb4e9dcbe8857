/* SPDX-License-Identifier: MIT */
/*
 * callgrind-pair.c - takes and releases N times, after a warm-up: callgrind.sh counts its instructions
 *
 * One hot key, or random ones of many; or the hot key by a lock object, on a loop, with a report.  callgrind counts only
 * inside the functions below.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockshm.h"

#define WARM 100

/* Not inlined and with something after the call, so that callgrind sees enter and leave. */
int measured_acquire(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold);
int measured_loop_acquire(lockshm_loop_t *loop, const struct lockshm_request *request, lockshm_hold_t *hold);
int measured_release(lockshm_hold_t *hold);
int measured_lock(lockshm_lock_t *lock, lockshm_t *segment);
int measured_unlock(lockshm_lock_t *lock);

__attribute__((noinline)) int measured_acquire(lockshm_t *segment, const struct lockshm_request *request,
					       lockshm_hold_t *hold)
{
	int rc = lockshm_acquire(segment, request, hold);

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

__attribute__((noinline)) int measured_loop_acquire(lockshm_loop_t *loop, const struct lockshm_request *request,
						    lockshm_hold_t *hold)
{
	int rc = lockshm_loop_acquire(loop, request, hold, NULL);

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

__attribute__((noinline)) int measured_release(lockshm_hold_t *hold)
{
	int rc = lockshm_release(hold, 0);

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

__attribute__((noinline)) int measured_lock(lockshm_lock_t *lock, lockshm_t *segment)
{
	int rc = lockshm_lock(lock, segment);

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

__attribute__((noinline)) int measured_unlock(lockshm_lock_t *lock)
{
	int rc = lockshm_unlock(lock);

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

static char key[16];
static lockshm_lock_t object;
static lockshm_loop_t *loop;
static struct lockshm_report report = LOCKSHM_REPORT_INIT;
static bool by_object;

/* Sixteen bytes that contain @n. */
static void name_key(unsigned n)
{
	memcpy(key, "key:0000hotsixte", sizeof(key));
	memcpy(key + 4, &n, sizeof(n));
}

/* Does *how begin with @word?  Passes it by. */
static bool begins(const char **how, const char *word)
{
	bool yes = !strncmp(*how, word, strlen(word));

	*how += yes ? strlen(word) : 0;
	return yes;
}

/* By the first argument: MODE, after object-, or loop- and report-. */
static int shape(lockshm_t *segment, struct lockshm_request *request, const char *how)
{
	by_object = begins(&how, "object-");
	if (begins(&how, "loop-")) {
		int rc = lockshm_loop_open(&loop, segment, -1, NULL);

		if (rc)
			return rc;
	}
	if (begins(&how, "report-"))
		request->report = &report;
	if (!strcmp(how, "sh"))
		request->mode = LOCKSHM_SHARED;
	if (!strcmp(how, "strict"))
		request->ttl_ns = LOCKSHM_FOREVER;
	return by_object ? lockshm_lock_init(&object, segment, request) : 0;
}

static int take(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold)
{
	if (by_object)
		return measured_lock(&object, segment);
	return loop ? measured_loop_acquire(loop, request, hold) : measured_acquire(segment, request, hold);
}

static int warm_up(lockshm_t *segment, const struct lockshm_request *request, unsigned keys)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int rc = 0;

	for (unsigned i = 0; i < (keys < WARM ? WARM : keys) && !rc; i++) {
		name_key(i % keys);
		rc = by_object ? lockshm_lock(&object, segment) :
		     loop      ? lockshm_loop_acquire(loop, request, &hold, NULL) :
				 lockshm_acquire(segment, request, &hold);
		if (!rc)
			rc = by_object ? lockshm_unlock(&object) : lockshm_release(&hold, 0);
	}
	return rc;
}

static int measure(lockshm_t *segment, const struct lockshm_request *request, unsigned keys, long n)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	unsigned random = 1;
	int rc = 0;

	while (n-- && !rc) {
		random = random * 1664525u + 1013904223u;
		name_key((unsigned)((unsigned long long)random * keys >> 32));
		rc = take(segment, request, &hold);
		if (!rc)
			rc = by_object ? measured_unlock(&object) : measured_release(&hold);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error = { .message = "" };
	lockshm_t *segment;
	unsigned keys = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
	char name[64];
	int rc;

	if (!keys) {
		fprintf(stderr, "usage: %s [object-|loop-][report-]ex|sh|strict KEYS N\n", argv[0]);
		return 2;
	}
	request.key = key;
	request.key_len = sizeof(key);
	options.keys = keys < 1024 ? 2048 : 2 * keys;
	snprintf(name, sizeof(name), "/callgrind-pair-%d", (int)getpid());
	rc = lockshm_create(&segment, name, &options, &error);
	if (!rc) {
		rc = shape(segment, &request, argv[1]);
		if (!rc)
			rc = warm_up(segment, &request, keys);
		if (!rc)
			rc = measure(segment, &request, keys, atol(argv[3]));
		if (loop)
			lockshm_loop_close(loop);
		lockshm_close(segment);
		lockshm_destroy(name, NULL);
	}
	if (rc)
		fprintf(stderr, "callgrind-pair: %s %s\n", lockshm_strerror(rc), error.message);
	return rc ? 1 : 0;
}
