/* SPDX-License-Identifier: MIT */
/*
 * adapter-tdb-mutex.c - chain locks of Samba's trivial database, with its robust mutexes
 *
 * Keys of one hash chain share a lock; "shared" excludes too.  Every process opens the file anew; the parent keeps it
 * open.
 */
#include "bench-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tdb.h>

static char path[64];
static struct tdb_context *db;
static uint32_t chains;
static char asked_name[BENCH_KEY_LEN];
static TDB_DATA asked;

static int tdb_adapter_create(const struct bench_need *need)
{
	chains = need->keys > 1024 ? need->keys : 1024;
	if (!tdb_runtime_check_for_robust_mutexes()) {
		bench_why("no robust mutexes");
		return -1;
	}
	snprintf(path, sizeof(path), "/dev/shm/lockshm-bench-tdb-%d", (int)getpid());
	db = tdb_open(path, (int)chains, TDB_CLEAR_IF_FIRST | TDB_MUTEX_LOCKING | TDB_INCOMPATIBLE_HASH | TDB_NOSYNC,
		      O_RDWR | O_CREAT, 0600);
	return db ? 0 : -1;
}

static void tdb_attach(void)
{
	if (tdb_reopen_all(1)) /* the parent stays: no child may open it as the first */
		bench_fail("tdb_reopen_all");
}

static TDB_DATA tdb_key(uint32_t key, char name[BENCH_KEY_LEN])
{
	TDB_DATA data = { .dptr = (unsigned char *)name, .dsize = BENCH_KEY_LEN };

	bench_key(key, name);
	return data;
}

static void tdb_make_ready(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	asked = tdb_key(key, asked_name);
}

static void tdb_take(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	if (tdb_chainlock(db, asked)) {
		errno = 0;
		bench_fail(tdb_errorstr(db));
	}
}

static void tdb_give(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	tdb_chainunlock(db, asked);
}

static void tdb_lock(uint32_t key, enum bench_mode mode)
{
	tdb_make_ready(key, mode);
	tdb_take(key, mode);
}

static void tdb_unlock(uint32_t key, enum bench_mode mode)
{
	tdb_make_ready(key, mode);
	tdb_give(key, mode);
}

static uint32_t chain_of(uint32_t key)
{
	char name[BENCH_KEY_LEN];
	TDB_DATA data = tdb_key(key, name);

	return tdb_jenkins_hash(&data) % chains;
}

/* Not those in the chain of key 0, which another process takes meanwhile. */
static void tdb_keep(uint32_t key)
{
	if (!key || chain_of(key) != chain_of(0))
		tdb_lock(key, BENCH_EXCLUSIVE);
}

static double tdb_bytes(void)
{
	struct stat st;

	return fstat(tdb_fd(db), &st) ? -1 : (double)st.st_size;
}

static void tdb_detach(void)
{
	tdb_close(db);
}

static void tdb_destroy(void)
{
	tdb_close(db);
	unlink(path);
}

BENCH_PAIRS(tdb_pairs, tdb_make_ready, tdb_take, tdb_give)

const struct lock_adapter adapter_tdb_mutex = {
	.name = "tdb-mutex",
	.can = LOCK_MANY | LOCK_FEW,
	.create = tdb_adapter_create,
	.attach = tdb_attach,
	.lock = tdb_lock,
	.unlock = tdb_unlock,
	.detach = tdb_detach,
	.destroy = tdb_destroy,
	.keep = tdb_keep,
	.bytes = tdb_bytes,
	.pairs = tdb_pairs,
};
