/* SPDX-License-Identifier: MIT */
/*
 * adapter-postgres.c - advisory locks of PostgreSQL, held by the session, in prepared statements
 *
 * A cluster is made for the run, with one socket and without durability.
 */
#include "bench-loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#define START_MS 30000

#ifndef PG_BINDIR
#define PG_BINDIR NULL
#endif

static char conninfo[128];
static bool started;
static PGconn *session;

static void __attribute__((noreturn)) fail(const char *what, PGconn *c)
{
	fprintf(stderr, "lockshm-bench: postgres: %s", c ? PQerrorMessage(c) : "no memory\n");
	errno = 0;
	bench_fail(what);
}

static int make_cluster(const char *data)
{
	const char *program = server_find("initdb", PG_BINDIR);
	const char *argv[] = { NULL, "-D", data, "-U", "bench", "--auth=trust", "--no-sync", "--no-locale", NULL };

	if (!program)
		return -1;
	argv[0] = strdup(program);
	return argv[0] ? server_run(argv) : -1;
}

/* It opens its socket before it takes requests. */
static int wait_until_ready(void)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(START_MS * 1e6);
	bool ready;

	do {
		PGconn *c = PQconnectdb(conninfo);

		ready = PQstatus(c) == CONNECTION_OK;
		PQfinish(c);
		if (!ready)
			usleep(20000);
	} while (!ready && bench_ticks() - from < limit);
	if (!ready)
		bench_why("postgres does not answer");
	return ready ? 0 : -1;
}

static int start_server(void)
{
	const char *program = server_find("postgres", PG_BINDIR);
	char data[96], directory[80], socket_path[96];
	const char *argv[] = { NULL,
			       "-D",
			       data,
			       "-k",
			       directory,
			       "-c",
			       "listen_addresses=",
			       "-c",
			       "fsync=off",
			       "-c",
			       "shared_buffers=16MB",
			       "-c",
			       "max_connections=100",
			       "-c",
			       "max_locks_per_transaction=512",
			       "-c",
			       "autovacuum=off",
			       NULL };

	if (!program || !server_dir())
		return -1;
	argv[0] = strdup(program);
	snprintf(directory, sizeof(directory), "%s", server_dir());
	snprintf(data, sizeof(data), "%s/postgres", directory);
	snprintf(socket_path, sizeof(socket_path), "%s/.s.PGSQL.5432", directory);
	snprintf(conninfo, sizeof(conninfo), "host=%s user=bench dbname=postgres", directory);
	if (!argv[0] || make_cluster(data) || server_start(argv, socket_path))
		return -1;
	return wait_until_ready();
}

static int postgres_create(const struct bench_need *need)
{
	(void)need;
	if (!started && start_server())
		return -1;
	started = true;
	return 0;
}

static void prepare(const char *name, const char *query)
{
	PGresult *r = PQprepare(session, name, query, 1, NULL);

	if (PQresultStatus(r) != PGRES_COMMAND_OK)
		fail(name, session);
	PQclear(r);
}

static void postgres_attach(void)
{
	session = PQconnectdb(conninfo);
	if (PQstatus(session) != CONNECTION_OK)
		fail("PQconnectdb", session);
	prepare("lock", "SELECT pg_advisory_lock($1::bigint)");
	prepare("lock shared", "SELECT pg_advisory_lock_shared($1::bigint)");
	prepare("unlock", "SELECT pg_advisory_unlock($1::bigint)");
	prepare("unlock shared", "SELECT pg_advisory_unlock_shared($1::bigint)");
}

static void execute(const char *name, uint32_t key)
{
	uint32_t big_endian[2] = { 0, htonl(key) };
	const char *value = (const char *)big_endian;
	const int length = sizeof(big_endian), binary = 1;
	PGresult *r = PQexecPrepared(session, name, 1, &value, &length, &binary, 1);

	if (PQresultStatus(r) != PGRES_TUPLES_OK)
		fail(name, session);
	PQclear(r);
}

static void postgres_lock(uint32_t key, enum bench_mode mode)
{
	execute(mode == BENCH_SHARED ? "lock shared" : "lock", key);
}

static void postgres_unlock(uint32_t key, enum bench_mode mode)
{
	execute(mode == BENCH_SHARED ? "unlock shared" : "unlock", key);
}

static void postgres_detach(void)
{
	PQfinish(session);
}

static void postgres_destroy(void)
{
}

BENCH_PAIRS(postgres_pairs, bench_nothing_to_make, postgres_lock, postgres_unlock)

const struct lock_adapter adapter_postgres_advisory = {
	.name = "postgres-advisory",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_SERVER,
	.create = postgres_create,
	.attach = postgres_attach,
	.lock = postgres_lock,
	.unlock = postgres_unlock,
	.detach = postgres_detach,
	.destroy = postgres_destroy,
	.pairs = postgres_pairs,
};
