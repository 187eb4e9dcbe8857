/* SPDX-License-Identifier: MIT */
/*
 * resp.h - commands to bytes and bytes to replies
 *
 * Whatever hiredis defines stays in redis/resp.c.  Of it only the formatter and the parser are used, which are the
 * same in 0.14 and all later versions; its connections are not (redis/conn.h).
 */
#ifndef LOCKSHM_BRIDGE_WIRE_H
#define LOCKSHM_BRIDGE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A reply longer than this is a fault of somebody. */
#define BRIDGE_REPLY_MAX (16u << 20)

struct bridge_wire;
struct bridge_reply;

/* Loads hiredis at the first call; NULL, or why it cannot be loaded. */
const char *bridge_wire_load(void);

/* NULL without memory or hiredis. */
struct bridge_wire *bridge_wire_new(void);
void bridge_wire_free(struct bridge_wire *w);

/* Adds a command to what is to be sent; false without memory. */
bool bridge_wire_put(struct bridge_wire *w, int argc, const char *const *argv, const size_t *lens);
/* What is to be sent; *@len 0 = nothing. */
const char *bridge_wire_out(const struct bridge_wire *w, size_t *len);
void bridge_wire_sent(struct bridge_wire *w, size_t len);

/* Received bytes in, replies out.  false = these bytes are not the protocol. */
bool bridge_wire_feed(struct bridge_wire *w, const char *bytes, size_t len);
/* *@reply NULL = none is complete. */
bool bridge_wire_get(struct bridge_wire *w, struct bridge_reply **reply);
/* Was there no memory for it, when one of these was false? */
bool bridge_wire_short(const struct bridge_wire *w);
void bridge_reply_free(struct bridge_reply *reply);

/* What a reply is; NULL, 0 or a default if it is something else.  Text is terminated and may hold zeroes. */
bool bridge_reply_is_nil(const struct bridge_reply *r);
const char *bridge_reply_error(const struct bridge_reply *r, size_t *len);
const char *bridge_reply_text(const struct bridge_reply *r, size_t *len);
int64_t bridge_reply_integer(const struct bridge_reply *r, int64_t otherwise);
bool bridge_reply_is_array(const struct bridge_reply *r);
size_t bridge_reply_count(const struct bridge_reply *r);
const struct bridge_reply *bridge_reply_at(const struct bridge_reply *r, size_t i);
/* Is it this text, or status? */
bool bridge_reply_says(const struct bridge_reply *r, const char *text);

#endif
