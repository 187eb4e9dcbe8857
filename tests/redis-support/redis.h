/* SPDX-License-Identifier: MIT */
/*
 * redis.h - what the tests of the bridge share: real Redis servers, a proxy that spoils connections, and a main()
 *
 * A suite has one server of its own, `redis`, emptied before each test; a test that kills, stops or configures a server
 * starts another.  Servers and proxies die with the process that started them, and their directories go with the
 * runner. redis_say() speaks to a server over a plain socket, without the code under test.
 */
#ifndef LOCKSHM_TEST_REDIS_H
#define LOCKSHM_TEST_REDIS_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "redis/boot-clock.h"
#include "redis/conn.h"
#include "redis/redis-error.h"
#include "redis/uri.h"

/* Nothing a test waits for takes longer on a slow, loaded machine.  Suites that have segments, too, include fixture.h
 * first, whose words for this are the same. */
#ifndef PATIENCE
#define PATIENCE REDIS_MS(20000)
#endif

struct redis {
	pid_t pid;
	int port; /* 0 = only the unix socket */
	char dir[64];
	char socket[96];
	char uri[128]; /* of the unix socket */
	char tcp_uri[64]; /* "" without a port */
	int tls_port; /* 0 = it has none */
	char tls_uri[160]; /* with the authority that vouches for it */
	FILE *say;
	int64_t *clock_us; /* how far its wall clock is off; NULL = it has that of the machine */
	char clock_file[96], shim[256];
};

extern struct redis *redis;

/* Runs the cases that @add puts into the test case; the exit status of the program. */
int suite_main(const char *name, void (*add)(TCase *tc));
/* The same with a server.  Status 77 with the reason if there is no redis-server. */
int redis_main(const char *name, void (*add)(TCase *tc));

/* @config: lines of redis.conf beside "save ''"; NULL = none.  @tcp: also listen on a port of 127.0.0.1. */
struct redis *redis_start(const char *config, bool tcp);
/* One whose wall clock can be stepped, see clock-shift.c. */
struct redis *redis_start_with_clock(const char *config);
void redis_step(struct redis *r, int64_t ms);
/* One that speaks TLS on a port, see below. */
struct redis *redis_start_tls(const char *config);
void redis_stop(struct redis *r); /* and forget it */
void redis_kill(struct redis *r); /* kill -9 */
void redis_freeze(struct redis *r);
void redis_thaw(struct redis *r);
/* Takes away from a killed one what it wrote to disk. */
void redis_lose(struct redis *r);
/* Starts a killed one at the same place; what it did not write to disk is gone. */
void redis_restart(struct redis *r);

/* One command, words divided by blanks; the reply as text: "OK", "5", "(nil)", "ERR ...", arrays as "[a b [c]]". */
const char *redis_say(struct redis *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define ck_redis(want, r, ...)                                                                                         \
	do {                                                                                                           \
		const char *got_ = redis_say(r, __VA_ARGS__);                                                          \
		ck_assert_msg(strcmp(got_, want) == 0, "redis says '%s', not '%s'", got_, want);                       \
	} while (0)

/* ---------------------------------------------------------------- proxy */

enum proxy_fault {
	PROXY_PASS = 1,
	PROXY_SLICE, /* byte by byte, long texts in pieces of 61 */
	PROXY_HOLD_REPLIES, /* what the server says waits for PROXY_PASS */
	PROXY_DROP_REPLIES, /* what the server says is thrown away */
	PROXY_DROP_REQUESTS, /* what the client says is thrown away */
	PROXY_DROP_SUBSCRIBE, /* only that, as whoever knows only commands with one answer might */
	PROXY_BLACKHOLE, /* both */
	PROXY_RESET, /* ends all connections, with RST where there is one; then as before */
	PROXY_HALF_OPEN, /* closes the server's side of all connections and keeps the client's; then as before */
	PROXY_REFUSE, /* PROXY_RESET, also for whoever connects from now on */
	PROXY_COUNT, /* no change: how many bytes the server has sent so far */
};

struct proxy {
	pid_t pid;
	int control;
	char socket[96];
	char uri[160];
};

/* Between clients and @r, to its port for TLS if it has one; listens on a unix socket, or on a port of 127.0.0.1. */
struct proxy *proxy_start(struct redis *r, bool tcp);
/* Returns when the fault is in force; for PROXY_COUNT the number. */
long proxy_set(struct proxy *p, enum proxy_fault fault);
/* Points it to another server; connections that exist stay. */
void proxy_target(struct proxy *p, struct redis *r);

/* ---------------------------------------------------------------- TLS */

/* Why a suite that needs it cannot run here: no TLS in this build or server, no openssl command; NULL = it can. */
const char *tls_missing(void);
/* In a case's unchecked fixtures, which come after the server's: the suite's server is from now on one with TLS. */
void tls_setup(void);
/*
 * A file, in a static buffer.  Authorities: ca.crt, which all is signed by but what is strange-; strange-ca.crt.
 * Certificates with their keys: server (127.0.0.1, redis.test), client, strange-server, strange-client; expired.crt and
 * elsewhere.crt (other.test) and many.crt (re*.part.test, *.whole.test) with the key of server; locked.key, that of
 * client with a pass phrase.
 */
const char *tls_file(const char *name);
/* The suite's server shows this certificate to whoever connects from now on. */
void tls_presents(const char *cert, const char *key);
/* The same address with these options, in a static buffer. */
const char *tls_with(const char *uri, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---------------------------------------------------------------- short ways */

/* A new directory that goes with the runner. */
void redis_dir(char out[64]);
struct redis_server server_of(const char *uri);
struct redis_conn *conn_to(const char *uri, const struct redis_conn_options *options);
int64_t soon(void); /* a deadline that is never meant to be met */
/* One command through the code under test; text as from redis_say(). */
const char *call(struct redis_conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One word, with so much time; its code.  The reply is dropped. */
int try_call(struct redis_conn *c, int64_t ns, const char *word);
#ifndef LOCKSHM_TEST_FIXTURE_H
bool await(bool (*done)(void *arg), void *arg);
#endif

#ifndef ck_code
#define ck_code(got, want)                                                                                             \
	do {                                                                                                           \
		int got_ = (got), want_ = (want);                                                                      \
		ck_assert_msg(got_ == want_, "%s is '%s', not '%s'", #got, redis_code_name(got_),                     \
			      redis_code_name(want_));                                                                \
	} while (0)
#endif
#define ck_contains(all, part) ck_assert_msg(strstr(all, part) != NULL, "'%s' does not contain '%s'", all, part)

#endif
