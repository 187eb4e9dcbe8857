/* SPDX-License-Identifier: MIT */
/*
 * peer.h - hosts that use the lock "lock" on the suite's server, each over a connection of its own
 *
 * A peer's functions return the status of the reply (enum redis_status) or a negative code; the reply is in
 * peer.op.reply.
 */
#ifndef LOCKSHM_TEST_REDIS_PEER_H
#define LOCKSHM_TEST_REDIS_PEER_H

#include "redis/script.h"
#include "redis.h"

/* Longer than any test takes. */
#define LONG_MS 60000

struct peer {
	struct redis_host host;
	char value[REDIS_VALUE_LEN + 1];
	struct redis_conn *conn;
	struct redis_keys *keys; /* of the lock "lock" */
	struct script_args args; /* a case changes what it needs */
	struct redis_op op;
};

/* With a new id, as a new segment has. */
void random_host(struct redis_host *out);

/* At most 8 in a test; they need not be freed. */
struct peer *peer_at(const char *uri);
struct peer *peer_new(void);
void peers_end(void);

int peer_do(struct peer *p, enum redis_script script);
int acquire_x(struct peer *p); /* queues if it is not free */
int acquire_s(struct peer *p);
int try_x(struct peer *p);
int try_s(struct peer *p);
int renew(struct peer *p);
int release(struct peer *p);
int leave(struct peer *p, const char *modes);
/* The server's time at @p's last reply, which must have one. */
int64_t reply_ms(const struct peer *p);
/* By the server's clock, from now on: what was set for as long before has expired. */
void let_pass(int64_t ms);
/* A new value, for another acquisition. */
void new_value(struct peer *p);

const char *status_name(int status);
#define ck_status(got, want)                                                                                           \
	do {                                                                                                           \
		int got_ = (got), want_ = (want);                                                                      \
		ck_assert_msg(got_ == want_, "%s is %s, not %s", #got, status_name(got_), status_name(want_));         \
	} while (0)
#define ck_kind(peer, want) ck_assert_int_eq((peer)->op.reply.kind, want)

#define ck_ttl(key, low, high)                                                                                         \
	do {                                                                                                           \
		int ttl_ = atoi(redis_say(redis, "PTTL %s", key));                                                     \
		ck_assert_msg(ttl_ > (low) && ttl_ <= (high), "PTTL of %s is %d", key, ttl_);                          \
	} while (0)

#endif
