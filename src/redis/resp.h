/* SPDX-License-Identifier: MIT */
/*
 * resp.h - commands to bytes and bytes to replies
 *
 * Whatever hiredis defines stays in redis/resp.c.  Of it only the formatter and the parser are used, which are the
 * same in 0.14 and all later versions; its connections are not (redis/conn.h).
 */
#ifndef LOCKSHM_REDIS_RESP_H
#define LOCKSHM_REDIS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A reply longer than this is a fault of somebody. */
#define REDIS_REPLY_MAX (16u << 20)

struct resp;
struct redis_reply;

/* Loads hiredis at the first call; NULL, or why it cannot be loaded. */
const char *resp_load(void);

/* NULL without memory or hiredis. */
struct resp *resp_new(void);
void resp_free(struct resp *w);

/* Adds a command to what is to be sent; false without memory. */
bool resp_put(struct resp *w, int argc, const char *const *argv, const size_t *lens);
/* What is to be sent; *@len 0 = nothing. */
const char *resp_out(const struct resp *w, size_t *len);
void resp_sent(struct resp *w, size_t len);

/* Received bytes in, replies out.  false = these bytes are not the protocol. */
bool resp_feed(struct resp *w, const char *bytes, size_t len);
/* *@reply NULL = none is complete. */
bool resp_get(struct resp *w, struct redis_reply **reply);
/* Was there no memory for it, when one of these was false? */
bool resp_short(const struct resp *w);
void redis_reply_free(struct redis_reply *reply);

/* What a reply is; NULL, 0 or a default if it is something else.  Text is terminated and may hold zeroes. */
bool redis_reply_is_nil(const struct redis_reply *r);
const char *redis_reply_error(const struct redis_reply *r, size_t *len);
const char *redis_reply_text(const struct redis_reply *r, size_t *len);
int64_t redis_reply_integer(const struct redis_reply *r, int64_t otherwise);
bool redis_reply_is_array(const struct redis_reply *r);
size_t redis_reply_count(const struct redis_reply *r);
const struct redis_reply *redis_reply_at(const struct redis_reply *r, size_t i);
/* Is it this text, or status? */
bool redis_reply_equals(const struct redis_reply *r, const char *text);

#endif
