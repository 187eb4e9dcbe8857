/* SPDX-License-Identifier: MIT */
/*
 * resp.h - commands to bytes and bytes to replies
 *
 * The definitions of hiredis stay in redis/resp.c.  Only its formatter and its parser are used, which are the same in
 * 0.14 and all later versions; not its connections (redis/conn.h).
 */
#ifndef LOCKSHM_REDIS_RESP_H
#define LOCKSHM_REDIS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp;
struct redis_reply;

/* NULL without memory. */
struct resp *resp_new(void);
void resp_free(struct resp *w);

/* Queues a command; false without memory. */
bool resp_put(struct resp *w, int argc, const char *const *argv, const size_t *lens);
/* The queued bytes; *@len 0 = none. */
const char *resp_out(const struct resp *w, size_t *len);
void resp_sent(struct resp *w, size_t len);

/* Received bytes in, replies out.  False = the bytes are not the protocol, or a reply is beyond its bounds. */
bool resp_feed(struct resp *w, const char *bytes, size_t len);
/* *@reply NULL = none is complete. */
bool resp_get(struct resp *w, struct redis_reply **reply);
/* Bytes that were not taken yet; are there so many that no more may be fed? */
size_t resp_received(const struct resp *w);
bool resp_is_full(const struct resp *w);
/* What is wrong with a reply, see redis/reply-bounds.h; "" = nothing, or nothing is known. */
const char *resp_refusal(const struct resp *w);
/* Did one of these fail for lack of memory? */
bool resp_short(const struct resp *w);
void redis_reply_free(struct redis_reply *reply);

/* The content of a reply; NULL, 0 or a default if it has another type.  Text is terminated and may contain zeroes. */
bool redis_reply_is_nil(const struct redis_reply *r);
const char *redis_reply_error(const struct redis_reply *r, size_t *len);
const char *redis_reply_text(const struct redis_reply *r, size_t *len);
int64_t redis_reply_integer(const struct redis_reply *r, int64_t otherwise);
/* A time or duration in ms: an integer, or a text as scores have it.  Within +-REDIS_REPLY_MS_MAX, whatever the server
 * says, so that two of them can be subtracted and are a number of nanoseconds; 0 if it is none. */
#define REDIS_REPLY_MS_MAX (INT64_C(1) << 42) /* 139 years */
int64_t redis_reply_ms(const struct redis_reply *r);
bool redis_reply_is_array(const struct redis_reply *r);
size_t redis_reply_count(const struct redis_reply *r);
const struct redis_reply *redis_reply_at(const struct redis_reply *r, size_t i);
/* Is it this text, or status? */
bool redis_reply_equals(const struct redis_reply *r, const char *text);

#endif
