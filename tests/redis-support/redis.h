/* SPDX-License-Identifier: MIT */
/*
 * redis.h - common parts of the tests with Redis: real servers, a proxy that injects faults, and a main()
 *
 * A suite has one server of its own, `redis`, emptied before each test; a test that kills, stops or configures a server
 * starts another.  Servers and proxies die with the process that started them; the runner removes their directories.
 * redis_say() sends commands over a plain socket, without the code under test.
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
#include "segment/redis-uri.h"

/*
 * No wait in a test takes longer on a slow, loaded machine.  Suites with segments include fixture.h first, which
 * defines the same names.
 */
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
	int tls_port; /* 0 = no TLS */
	char tls_uri[160]; /* with the authority that signed its certificate */
	FILE *say;
	int64_t *clock_us; /* offset of its wall clock; NULL = the machine's clock */
	char clock_file[96], shim[300];
};

extern struct redis *redis;

/* Runs the cases that @add adds; returns the exit status of the program. */
int suite_main(const char *name, void (*add)(TCase *tc));
/* The same with a server.  Status 77 with the reason if there is no redis-server. */
int redis_main(const char *name, void (*add)(TCase *tc));

/* @config: lines of redis.conf in addition to "save ''"; NULL = none.  @tcp: also listen on a port of 127.0.0.1. */
struct redis *redis_start(const char *config, bool tcp);
/* With a wall clock that redis_step() can set, see clock-shift.c. */
struct redis *redis_start_with_clock(const char *config);
void redis_step(struct redis *r, int64_t ms);
/* With TLS on a port, see below. */
struct redis *redis_start_tls(const char *config);
void redis_stop(struct redis *r); /* and frees it */
void redis_kill(struct redis *r); /* kill -9 */
void redis_freeze(struct redis *r);
void redis_thaw(struct redis *r);
/* Removes the data on disk of a killed server. */
void redis_lose(struct redis *r);
/* Starts a killed server at the same address, with its data on disk only. */
void redis_restart(struct redis *r);

/* One command, words separated by blanks; the reply as text: "OK", "5", "(nil)", "ERR ...", arrays as "[a b [c]]". */
const char *redis_say(struct redis *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define ck_redis(want, r, ...)                                                                                         \
	do {                                                                                                           \
		const char *got_ = redis_say(r, __VA_ARGS__);                                                          \
		ck_assert_msg(strcmp(got_, want) == 0, "redis says '%s', not '%s'", got_, want);                       \
	} while (0)

/* ---------------------------------------------------------------- proxy */

enum proxy_fault {
	PROXY_PASS = 1, /* ends the connections of which bytes were discarded */
	PROXY_SLICE, /* byte by byte, long texts in pieces of 61 */
	PROXY_HOLD_REPLIES, /* replies wait for PROXY_PASS */
	PROXY_DROP_REPLIES, /* replies are discarded */
	PROXY_DROP_REQUESTS, /* commands are discarded */
	/* only SUBSCRIBE is discarded, as a proxy might that expects one reply for each command */
	PROXY_DROP_SUBSCRIBE,
	PROXY_BLACKHOLE, /* replies and commands are discarded */
	PROXY_RESET, /* ends all connections, with RST where there is one; new ones pass */
	PROXY_HALF_OPEN, /* closes the server's side of all connections and keeps the client's; new ones pass */
	PROXY_REFUSE, /* PROXY_RESET, also of new connections */
	/* no change: */
	PROXY_COUNT, /* returns how many bytes the server has sent so far */
	PROXY_WAITING, /* returns 1 if a connection waits for proxy_admit() */
};

struct proxy {
	pid_t pid;
	int control;
	char socket[96];
	char uri[160];
};

/* Between clients and @r, to its TLS port if it has one; listens on a unix socket, or on a port of 127.0.0.1. */
struct proxy *proxy_start(struct redis *r, bool tcp);
/* Returns when the fault is in force; for PROXY_COUNT the number. */
long proxy_set(struct proxy *p, enum proxy_fault fault);
/* PROXY_PASS, but after @n new connections the next ones wait until another fault, or PROXY_PASS, is set. */
void proxy_admit(struct proxy *p, int n);
/* New connections go to another server; existing ones stay. */
void proxy_target(struct proxy *p, struct redis *r);

/* ---------------------------------------------------------------- TLS */

/* Why a suite that needs TLS cannot run: no TLS in this build or server, no openssl command; NULL = it can. */
const char *tls_missing(void);
/* An unchecked fixture, after the server's: replaces the suite's server by one with TLS. */
void tls_setup(void);
/*
 * Path of a file, in a static buffer.  Authorities: ca.crt, which signed all but the strange- ones; strange-ca.crt.
 * Certificates with their keys: server (127.0.0.1, redis.test), client, strange-server, strange-client; expired.crt,
 * revoked.crt, which ca.crl lists (strange-ca.crl is empty), elsewhere.crt (other.test) and many.crt (re*.part.test, *.whole.test) with the key of server; locked.key, client's
 * key with a pass phrase.
 */
const char *tls_file(const char *name);
/* The certificate of the suite's server for new connections. */
void tls_presents(const char *cert, const char *key);
/* The same address with these options, in a static buffer. */
const char *tls_with(const char *uri, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---------------------------------------------------------------- shortcuts */

/* What the smallest ACL of the documents allows; each server of a test has the user web with these rights. */
const char *smallest_rights(void);
/* A directory with the credentials of that user. */
const char *smallest_login(void);
/* A new directory, removed by the runner. */
void redis_dir(char out[64]);
/*
 * Tests write a server with its login and TLS files as scheme://[user[:password]@]address[?tls-ca=PATH&...].  Returns the
 * directory with these credentials, NULL = there are none, and in @out the URIs that are left.
 */
const char *login_split(const char *uris, char *out, size_t size);
/* One of the files there, of the server with that URI. */
void credential_write(const char *dir, const char *name, const char *uri, const char *text);
/* As above. */
struct redis_server server_of(const char *uri);
struct redis_conn *conn_to(const char *uri, const struct redis_conn_options *options);
int64_t soon(void); /* a deadline that no test reaches */
/* One command through the code under test; text as from redis_say(). */
const char *call(struct redis_conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One word, with @ns for the reply, which is dropped; returns the code. */
int try_call(struct redis_conn *c, int64_t ns, const char *word);
/* All commands of one step, until they are over; returns how long that took. */
struct redis_client;
struct redis_command;
int64_t client_run(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns);
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
