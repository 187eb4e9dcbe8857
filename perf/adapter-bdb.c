/* SPDX-License-Identifier: MIT */
/*
 * adapter-bdb.c - the lock manager of Berkeley DB, alone: keyed, shared, first in first out, in shared memory
 *
 * The nearest relative of lockshm.  Its environment is in /dev/shm; every process joins it.
 */
#include "bench-loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <db.h>

static char home[64];
static DB_ENV *parent, *env;
static u_int32_t locker, lockers[BENCH_SLOTS_MAX];
static DB_LOCK held, holds[BENCH_SLOTS_MAX];
static char name[BENCH_KEY_LEN];
static DBT object = { .data = name, .size = BENCH_KEY_LEN };

static void __attribute__((noreturn)) fail(const char *what, int rc)
{
	errno = 0;
	fprintf(stderr, "lockshm-bench: bdb: %s\n", db_strerror(rc));
	bench_fail(what);
}

static DB_ENV *open_env(u_int32_t flags, const struct bench_need *need)
{
	DB_ENV *e;

	errno = db_env_create(&e, 0);
	if (errno)
		return NULL;
	if (need) {
		e->set_lk_max_locks(e, need->keys + 4096);
		e->set_lk_max_objects(e, need->keys + 4096);
		e->set_lk_max_lockers(e, 4096);
	}
	errno = e->open(e, home, flags, 0600);
	return errno ? NULL : e;
}

static int bdb_create(const struct bench_need *need)
{
	snprintf(home, sizeof(home), "/dev/shm/lockshm-bench-bdb-%d", (int)getpid());
	if (mkdir(home, 0700))
		return -1;
	parent = open_env(DB_CREATE | DB_INIT_LOCK, need);
	return parent ? 0 : -1;
}

static void bdb_attach(void)
{
	int rc;

	env = open_env(DB_JOINENV, NULL);
	if (!env)
		bench_fail("DB_ENV->open");
	rc = env->lock_id(env, &locker);
	if (rc)
		fail("DB_ENV->lock_id", rc);
}

static void get(u_int32_t who, u_int32_t flags, db_lockmode_t mode, DB_LOCK *lock)
{
	int rc = env->lock_get(env, who, flags, &object, mode, lock);

	if (rc)
		fail("DB_ENV->lock_get", rc);
}

static void bdb_make_ready(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	bench_key(key, name);
}

static void bdb_take(uint32_t key, enum bench_mode mode)
{
	(void)key;
	get(locker, 0, mode == BENCH_SHARED ? DB_LOCK_READ : DB_LOCK_WRITE, &held);
}

static void bdb_lock(uint32_t key, enum bench_mode mode)
{
	bdb_make_ready(key, mode);
	bdb_take(key, mode);
}

static void bdb_keep(uint32_t key)
{
	DB_LOCK kept; /* the library has a list of the locker's locks */

	bench_key(key, name);
	get(locker, 0, DB_LOCK_WRITE, &kept);
}

static void bdb_unlock(uint32_t key, enum bench_mode mode)
{
	int rc = env->lock_put(env, &held);

	(void)key;
	(void)mode;
	if (rc)
		fail("DB_ENV->lock_put", rc);
}

static double bdb_bytes(void)
{
	DB_LOCK_STAT *stat;
	double bytes;

	if (parent->lock_stat(parent, &stat, 0))
		return -1;
	bytes = (double)stat->st_regsize;
	free(stat);
	return bytes;
}

static void bdb_detach(void)
{
	env->lock_id_free(env, locker);
	env->close(env, 0);
}

static void bdb_destroy(void)
{
	DB_ENV *e;

	parent->close(parent, 0);
	if (!db_env_create(&e, 0))
		e->remove(e, home, DB_FORCE);
	rmdir(home);
}

BENCH_PAIRS(bdb_pairs, bdb_make_ready, bdb_take, bdb_unlock)

/* Each is one of a locker of its own: those of one locker are one lock with a count. */
static void bdb_hold(uint32_t slot)
{
	int rc = lockers[slot] ? 0 : env->lock_id(env, &lockers[slot]);

	if (rc)
		fail("DB_ENV->lock_id", rc);
	get(lockers[slot], 0, DB_LOCK_READ, &holds[slot]);
}

static void bdb_drop(uint32_t slot)
{
	int rc = env->lock_put(env, &holds[slot]);

	if (rc)
		fail("DB_ENV->lock_put", rc);
}

static bool bdb_try(void)
{
	int rc = env->lock_get(env, locker, DB_LOCK_NOWAIT, &object, DB_LOCK_WRITE, &held);

	if (rc && rc != DB_LOCK_NOTGRANTED)
		fail("DB_ENV->lock_get", rc);
	return rc == 0;
}

BENCH_SWAPS(bdb_swaps, bdb_make_ready, bdb_hold, bdb_drop)
BENCH_TRIES(bdb_tries, bdb_make_ready, bdb_try)

const struct lock_adapter adapter_bdb = {
	.name = "bdb",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_STALLS,
	.create = bdb_create,
	.attach = bdb_attach,
	.lock = bdb_lock,
	.unlock = bdb_unlock,
	.detach = bdb_detach,
	.destroy = bdb_destroy,
	.keep = bdb_keep,
	.bytes = bdb_bytes,
	.pairs = bdb_pairs,
	.hold = bdb_swaps_hold,
	.swaps = bdb_swaps,
	.tries = bdb_tries,
};
