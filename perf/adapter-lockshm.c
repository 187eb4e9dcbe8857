/* SPDX-License-Identifier: MIT */
/*
 * adapter-lockshm.c - lockshm, through the public interface: with a lease of 30 s, strict, by a lock object, and barging
 *
 * Every process opens the segment by its name, as unrelated ones would: the creator keeps no handle, which its children
 * would have, too.
 */
#include "bench-loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockshm.h"

#define LOCKS_MIN 8192u
#define REQUESTS_MIN 8192u
#define REQUESTS_MAX 262143u
#define OWNERS_MIN 1024u

static char name[64];
static lockshm_t *segment;
static struct lockshm_request request = LOCKSHM_REQUEST_INIT;
static lockshm_hold_t hold = LOCKSHM_HOLD_INIT, holds[BENCH_SLOTS_MAX];
static struct keyed_object {
	lockshm_lock_t lock;
	bool made;
} *objects[BENCH_MODES], *object; /* by mode and key; the one in use */
static struct keyed_object slot_objects[BENCH_SLOTS_MAX]; /* shared ones of key 0 */
static char key_bytes[BENCH_KEY_LEN];

static void __attribute__((noreturn)) fail(const char *what, int code, const struct lockshm_error *error)
{
	fprintf(stderr, "lockshm-bench: lockshm: %s\n", error ? error->message : lockshm_strerror(code));
	errno = 0;
	bench_fail(what);
}

static uint32_t at_least(uint64_t n, uint32_t min)
{
	return n > min ? (uint32_t)n : min;
}

static int create(const struct bench_need *need, int64_t ttl_ns)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;

	options.keys = at_least(need->keys, LOCKS_MIN);
	options.requests = at_least(need->keys + 64 * (uint64_t)need->procs, REQUESTS_MIN);
	if (options.requests > REQUESTS_MAX)
		options.requests = REQUESTS_MAX; /* a process with more keys does not hold them all */
	options.owners = at_least(need->procs + 32, OWNERS_MIN);
	snprintf(name, sizeof(name), "/bench-lockshm-%d", (int)getpid());
	if (lockshm_create(NULL, name, &options, &error)) {
		bench_why("%s", error.message);
		return -1;
	}
	request.key = key_bytes;
	request.key_len = sizeof(key_bytes);
	request.timeout_ns = LOCKSHM_SECONDS(600); /* longer than any queue takes */
	request.ttl_ns = ttl_ns;
	return 0;
}

static int lockshm_leased_create(const struct bench_need *need)
{
	return create(need, need->lease_ns ? need->lease_ns : LOCKSHM_SECONDS(30));
}

static int lockshm_strict_create(const struct bench_need *need)
{
	return create(need, LOCKSHM_FOREVER);
}

const char *lockshm_bench_segment(void)
{
	return name;
}

static void lockshm_attach(void)
{
	struct lockshm_error error;
	int rc = lockshm_open(&segment, name, 0, &error);

	if (rc)
		fail("open", rc, &error);
}

static void make_ready(uint32_t key, enum bench_mode mode)
{
	bench_key(key, key_bytes);
	request.mode = mode == BENCH_SHARED ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
}

static void acquire_take(uint32_t key, enum bench_mode mode)
{
	int rc = lockshm_acquire(segment, &request, &hold);

	(void)key;
	(void)mode;
	if (rc < 0)
		fail("acquire", rc, NULL);
}

static void acquire_lock(uint32_t key, enum bench_mode mode)
{
	make_ready(key, mode);
	acquire_take(key, mode);
}

static void barging_attach(void)
{
	lockshm_attach();
	request.flags = LOCKSHM_BARGE;
}

static int object_create(const struct bench_need *need)
{
	for (int mode = 0; mode < BENCH_MODES; mode++) {
		free(objects[mode]);
		objects[mode] = calloc(need->keys, sizeof(*objects[mode]));
		if (!objects[mode])
			bench_fail("calloc");
	}
	return lockshm_leased_create(need);
}

/* Made once, at the first use of the key, and kept. */
static void object_make_at(struct keyed_object *at, uint32_t key, enum bench_mode mode)
{
	int rc;

	if (at->made)
		return;
	make_ready(key, mode);
	rc = lockshm_lock_init(&at->lock, segment, &request);
	if (rc)
		fail("lock_init", rc, NULL);
	at->made = true;
}

static void object_make_ready(uint32_t key, enum bench_mode mode)
{
	object = &objects[mode][key];
	object_make_at(object, key, mode);
}

static void object_take(uint32_t key, enum bench_mode mode)
{
	int rc = lockshm_lock(&object->lock, segment);

	(void)key;
	(void)mode;
	if (rc < 0)
		fail("lock", rc, NULL);
}

static void object_lock(uint32_t key, enum bench_mode mode)
{
	object_make_ready(key, mode);
	object_take(key, mode);
}

static void object_unlock(uint32_t key, enum bench_mode mode)
{
	int rc = lockshm_unlock(&object->lock);

	(void)key;
	(void)mode;
	if (rc < 0)
		fail("unlock", rc, NULL);
}

static void release_unlock(uint32_t key, enum bench_mode mode)
{
	int rc = lockshm_release(&hold, 0);

	(void)key;
	(void)mode;
	if (rc < 0)
		fail("release", rc, NULL);
}

/* Strict, because inspecting a hundred thousand of them may take longer than a lease. */
static void lockshm_keep(uint32_t key)
{
	lockshm_hold_t *kept = calloc(1, sizeof(*kept));
	int rc;

	if (!kept)
		bench_fail("calloc");
	bench_key(key, key_bytes);
	request.ttl_ns = LOCKSHM_FOREVER;
	rc = lockshm_acquire(segment, &request, kept);
	if (rc < 0)
		fail("acquire", rc, NULL);
}

static double lockshm_bytes(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_t *reader;
	int rc = lockshm_open(&reader, name, LOCKSHM_OPEN_READ_ONLY, NULL);

	if (rc)
		return -1;
	rc = lockshm_stat(reader, &stat);
	lockshm_close(reader);
	return rc ? -1 : (double)stat.bytes;
}

static void lockshm_detach(void)
{
	lockshm_close(segment);
}

static void lockshm_adapter_destroy(void)
{
	lockshm_destroy(name, NULL);
}

BENCH_PAIRS(acquire_pairs, make_ready, acquire_take, release_unlock)
BENCH_PAIRS(object_pairs, object_make_ready, object_take, object_unlock)

static void acquire_hold(uint32_t slot)
{
	int rc = lockshm_acquire(segment, &request, &holds[slot]);

	if (rc < 0)
		fail("acquire", rc, NULL);
}

static void acquire_drop(uint32_t slot)
{
	int rc = lockshm_release(&holds[slot], 0);

	if (rc < 0)
		fail("release", rc, NULL);
}

static void object_hold(uint32_t slot)
{
	int rc = lockshm_lock(&slot_objects[slot].lock, segment);

	if (rc < 0)
		fail("lock", rc, NULL);
}

static void object_drop(uint32_t slot)
{
	int rc = lockshm_unlock(&slot_objects[slot].lock);

	if (rc < 0)
		fail("unlock", rc, NULL);
}

/* An object has one hold: as many as the process has holds. */
static void objects_make_ready(uint32_t key, enum bench_mode mode)
{
	for (uint32_t i = 0; i < BENCH_SLOTS_MAX && !slot_objects[i].made; i++)
		object_make_at(&slot_objects[i], key, mode);
}

static void try_make_ready(uint32_t key, enum bench_mode mode)
{
	request.timeout_ns = 0;
	make_ready(key, mode);
}

static bool tried(int rc)
{
	if (rc < 0 && rc != LOCKSHM_BUSY)
		fail("try", rc, NULL);
	return rc >= 0;
}

static bool acquire_try(void)
{
	return tried(lockshm_acquire(segment, &request, &hold));
}

static bool object_try(void)
{
	return tried(lockshm_trylock(&object->lock, segment));
}

BENCH_SWAPS(acquire_swaps, make_ready, acquire_hold, acquire_drop)
BENCH_TRIES(acquire_tries, try_make_ready, acquire_try)
BENCH_SWAPS(object_swaps, objects_make_ready, object_hold, object_drop)
BENCH_TRIES(object_tries, object_make_ready, object_try)

const struct lock_adapter adapter_lockshm = {
	.name = "lockshm",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_LEASE,
	.create = lockshm_leased_create,
	.attach = lockshm_attach,
	.lock = acquire_lock,
	.unlock = release_unlock,
	.detach = lockshm_detach,
	.destroy = lockshm_adapter_destroy,
	.keep = lockshm_keep,
	.bytes = lockshm_bytes,
	.pairs = acquire_pairs,
	.hold = acquire_swaps_hold,
	.swaps = acquire_swaps,
	.tries = acquire_tries,
};

const struct lock_adapter adapter_lockshm_strict = {
	.name = "lockshm-strict",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_SOLO,
	.create = lockshm_strict_create,
	.attach = lockshm_attach,
	.lock = acquire_lock,
	.unlock = release_unlock,
	.detach = lockshm_detach,
	.destroy = lockshm_adapter_destroy,
	.keep = lockshm_keep,
	.pairs = acquire_pairs,
};

const struct lock_adapter adapter_lockshm_barging = {
	.name = "lockshm-barging",
	.create = lockshm_leased_create,
	.attach = barging_attach,
	.lock = acquire_lock,
	.unlock = release_unlock,
	.detach = lockshm_detach,
	.destroy = lockshm_adapter_destroy,
	.pairs = acquire_pairs,
};

const struct lock_adapter adapter_lockshm_object = {
	.name = "lockshm-object",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_LEASE,
	.create = object_create,
	.attach = lockshm_attach,
	.lock = object_lock,
	.unlock = object_unlock,
	.detach = lockshm_detach,
	.destroy = lockshm_adapter_destroy,
	.keep = lockshm_keep,
	.pairs = object_pairs,
	.hold = object_swaps_hold,
	.swaps = object_swaps,
	.tries = object_tries,
};
