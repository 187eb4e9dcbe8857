/* SPDX-License-Identifier: MIT */
/*
 * adapter-apr-global.c - the global mutex of the Apache Portable Runtime, with its default mechanism
 */
#include "bench-loop.h"

#include <errno.h>
#include <stdlib.h>

#include <apr_general.h>
#include <apr_global_mutex.h>

static apr_pool_t *pool;
static apr_global_mutex_t *mutex;

static void __attribute__((noreturn)) fail(const char *what, apr_status_t rc)
{
	errno = rc;
	bench_fail(what);
}

static int apr_create(const struct bench_need *need)
{
	apr_status_t rc;

	(void)need;
	if (!pool && (apr_initialize() || apr_pool_create(&pool, NULL)))
		return -1;
	rc = apr_global_mutex_create(&mutex, NULL, APR_LOCK_DEFAULT, pool);
	errno = rc;
	return rc ? -1 : 0;
}

static void apr_attach(void)
{
	apr_status_t rc = apr_global_mutex_child_init(&mutex, NULL, pool);

	if (rc)
		fail("apr_global_mutex_child_init", rc);
}

static void apr_lock(uint32_t key, enum bench_mode mode)
{
	apr_status_t rc = apr_global_mutex_lock(mutex);

	(void)key;
	(void)mode;
	if (rc)
		fail("apr_global_mutex_lock", rc);
}

static void apr_unlock(uint32_t key, enum bench_mode mode)
{
	apr_status_t rc = apr_global_mutex_unlock(mutex);

	(void)key;
	(void)mode;
	if (rc)
		fail("apr_global_mutex_unlock", rc);
}

static void apr_nothing(void)
{
}

static void apr_destroy(void)
{
	apr_global_mutex_destroy(mutex);
	apr_pool_clear(pool);
}

BENCH_PAIRS(apr_pairs, bench_nothing_to_make, apr_lock, apr_unlock)

const struct lock_adapter adapter_apr_global = {
	.name = "apr-global",
	.create = apr_create,
	.attach = apr_attach,
	.lock = apr_lock,
	.unlock = apr_unlock,
	.detach = apr_nothing,
	.destroy = apr_destroy,
	.pairs = apr_pairs,
};
