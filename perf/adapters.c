/* SPDX-License-Identifier: MIT */
/*
 * adapters.c - the locks of a run, in the order of its rows: lockshm, peers, floors
 *
 * A peer is built in where its development files are installed, which configure finds.  Peers that need a server look
 * for it when the run starts.
 */
#include "bench.h"

#ifdef HAVE_APR
#define APR(a) &a
#else
#define APR(a) NULL
#endif
#ifdef HAVE_BDB
#define BDB(a) &a
#else
#define BDB(a) NULL
#endif
#ifdef HAVE_BOOST
#define BOOST(a) &a
#else
#define BOOST(a) NULL
#endif
#ifdef HAVE_CK
#define CK(a) &a
#else
#define CK(a) NULL
#endif
#ifdef HAVE_HIREDIS
#define HIREDIS(a) &a
#else
#define HIREDIS(a) NULL
#endif
#ifdef HAVE_LIBPQ
#define LIBPQ(a) &a
#else
#define LIBPQ(a) NULL
#endif
#ifdef HAVE_TDB
#define TDB(a) &a
#else
#define TDB(a) NULL
#endif

const struct lock_entry bench_locks[] = {
	{ "lockshm", &adapter_lockshm, NULL },
	{ "lockshm-strict", &adapter_lockshm_strict, NULL },
	{ "lockshm-object", &adapter_lockshm_object, NULL },
	{ "lockshm-barging", &adapter_lockshm_barging, NULL },
	{ "pthread-mutex", &adapter_pthread_mutex, NULL },
	{ "pthread-robust", &adapter_pthread_robust, NULL },
	{ "pthread-rwlock", &adapter_pthread_rwlock, NULL },
	{ "pthread-rwlock-writer", &adapter_pthread_rwlock_writer, NULL },
	{ "sysv-sem", &adapter_sysv_sem, NULL },
	{ "posix-sem", &adapter_posix_sem, NULL },
	{ "fcntl", &adapter_fcntl, NULL },
	{ "ofd", &adapter_ofd, NULL },
	{ "flock", &adapter_flock, NULL },
	{ "ck-tflock", CK(adapter_ck_tflock), "libck-dev" },
	{ "ck-pflock", CK(adapter_ck_pflock), "libck-dev" },
	{ "tdb-mutex", TDB(adapter_tdb_mutex), "libtdb-dev" },
	{ "bdb", BDB(adapter_bdb), "libdb-dev" },
	{ "boost-sharable", BOOST(adapter_boost_sharable), "libboost-dev and g++" },
	{ "apr-global", APR(adapter_apr_global), "libapr1-dev" },
	{ "redis", HIREDIS(adapter_redis), "libhiredis-dev" },
	{ "postgres-advisory", LIBPQ(adapter_postgres_advisory), "libpq-dev" },
	{ "resty-lock", &adapter_resty_lock, NULL },
	{ "cas", &adapter_cas, NULL },
	{ "cas-lease", &adapter_cas_lease, NULL },
	{ "fifo-park", &adapter_fifo_park, NULL },
	{ "fifo-barge", &adapter_fifo_barge, NULL },
	{ "fifo-rw-park", &adapter_fifo_rw_park, NULL },
	{ "fifo-rw-watch", &adapter_fifo_rw_watch, NULL },
	{ "list-watch", &adapter_list_watch, NULL },
	{ "futex-wake", &adapter_futex_wake, NULL },
	{ "none", &adapter_none, NULL },
	{ NULL, NULL, NULL },
};
