/* SPDX-License-Identifier: MIT */
/*
 * resp.c - the formatter and the parser of hiredis; see redis/resp.h
 *
 * The parser gets one whole reply at a time, which is within bounds.
 */
#define _GNU_SOURCE
#include "redis/resp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "redis/reply-bounds.h"

#define KEPT_BYTES 65536 /* of an empty buffer; a larger one is given back */

struct resp {
	redisReader *reader;
	char *out;
	size_t out_at, out_end, out_size;
	/* Received: the first reply begins at in_at and was read up to in_read. */
	char *in;
	size_t in_at, in_read, in_end, in_size;
	bool whole; /* the first reply ends at in_read */
	bool no_memory;
	struct reply_bounds bounds;
};

struct resp *resp_new(void)
{
	struct resp *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->reader = redisReaderCreate();
	if (!w->reader) {
		free(w);
		return NULL;
	}
	return w;
}

/* The bytes sent may contain a password. */
static void wipe(struct resp *w)
{
	if (w->out_end)
		explicit_bzero(w->out, w->out_end);
}

void resp_free(struct resp *w)
{
	if (!w)
		return;
	redisReaderFree(w->reader);
	wipe(w);
	free(w->out);
	free(w->in);
	free(w);
}

/* Makes room for @more bytes after out_end. */
static bool make_room(struct resp *w, size_t more)
{
	size_t left = w->out_end - w->out_at, size = w->out_size ? w->out_size : 1024;
	char *out;

	while (size < left + more)
		size *= 2;
	if (size == w->out_size) {
		if (w->out_end + more > size) {
			memmove(w->out, w->out + w->out_at, left);
			w->out_at = 0;
			w->out_end = left;
		}
		return true;
	}
	out = malloc(size);
	if (!out)
		return false;
	if (left)
		memcpy(out, w->out + w->out_at, left);
	wipe(w);
	free(w->out);
	w->out = out;
	w->out_at = 0;
	w->out_end = left;
	w->out_size = size;
	return true;
}

bool resp_put(struct resp *w, int argc, const char *const *argv, const size_t *lens)
{
	char *bytes = NULL;
	int len = (int)redisFormatCommandArgv(&bytes, argc, (const char **)argv, lens);
	bool ok = len > 0 && make_room(w, (size_t)len);

	if (ok) {
		memcpy(w->out + w->out_end, bytes, (size_t)len);
		w->out_end += (size_t)len;
	}
	if (len > 0) {
		explicit_bzero(bytes, (size_t)len);
		redisFreeCommand(bytes);
	}
	return ok;
}

const char *resp_out(const struct resp *w, size_t *len)
{
	*len = w->out_end - w->out_at;
	return w->out + w->out_at;
}

void resp_sent(struct resp *w, size_t len)
{
	w->out_at += len;
	if (w->out_at == w->out_end) {
		wipe(w);
		w->out_at = w->out_end = 0;
	}
}

/* Makes room for @more bytes after in_end. */
static bool make_room_in(struct resp *w, size_t more)
{
	size_t size = w->in_size ? w->in_size : 1024;
	char *in;

	if (w->in_at) {
		memmove(w->in, w->in + w->in_at, w->in_end - w->in_at);
		w->in_read -= w->in_at;
		w->in_end -= w->in_at;
		w->in_at = 0;
	}
	while (size < w->in_end + more)
		size *= 2;
	if (size == w->in_size)
		return true;
	in = realloc(w->in, size);
	if (!in)
		return false;
	w->in = in;
	w->in_size = size;
	return true;
}

/* Reads on to the end of the first reply. */
static bool read_on(struct resp *w)
{
	if (!w->whole)
		w->in_read += reply_bounds_read(&w->bounds, w->in + w->in_read, w->in_end - w->in_read, &w->whole);
	return !w->bounds.why[0];
}

bool resp_feed(struct resp *w, const char *bytes, size_t len)
{
	if (w->in_end + len > w->in_size && !make_room_in(w, len)) {
		w->no_memory = true;
		return false;
	}
	memcpy(w->in + w->in_end, bytes, len);
	w->in_end += len;
	return read_on(w);
}

static void drop_first(struct resp *w)
{
	w->in_at = w->in_read;
	w->whole = false;
	if (w->in_at < w->in_end)
		return;
	w->in_at = w->in_read = w->in_end = 0;
	if (w->in_size > KEPT_BYTES) {
		free(w->in);
		w->in = NULL;
		w->in_size = 0;
	}
}

bool resp_get(struct resp *w, struct redis_reply **reply)
{
	void *got = NULL;

	*reply = NULL;
	if (!w->whole)
		return !w->bounds.why[0];
	if (redisReaderFeed(w->reader, w->in + w->in_at, w->in_read - w->in_at) != REDIS_OK ||
	    redisReaderGetReply(w->reader, &got) != REDIS_OK || !got)
		return false;
	drop_first(w);
	*reply = got;
	/* What is wrong with the next one is found when it is taken. */
	(void)read_on(w);
	return true;
}

size_t resp_received(const struct resp *w)
{
	return w->in_end - w->in_at;
}

bool resp_is_full(const struct resp *w)
{
	return resp_received(w) >= REPLY_MAX;
}

const char *resp_refusal(const struct resp *w)
{
	return w->bounds.why;
}

bool resp_short(const struct resp *w)
{
	return w->no_memory || ((const redisReader *)w->reader)->err == REDIS_ERR_OOM;
}

void redis_reply_free(struct redis_reply *reply)
{
	if (reply)
		freeReplyObject(reply);
}

/* ---------------------------------------------------------------- the content of a reply */

static const redisReply *inside(const struct redis_reply *r)
{
	return (const redisReply *)(const void *)r;
}

static bool is(const struct redis_reply *r, int type)
{
	return r && inside(r)->type == type;
}

bool redis_reply_is_nil(const struct redis_reply *r)
{
	return is(r, REDIS_REPLY_NIL);
}

const char *redis_reply_error(const struct redis_reply *r, size_t *len)
{
	if (!is(r, REDIS_REPLY_ERROR))
		return NULL;
	*len = (size_t)inside(r)->len;
	return inside(r)->str;
}

const char *redis_reply_text(const struct redis_reply *r, size_t *len)
{
	if (!is(r, REDIS_REPLY_STRING) && !is(r, REDIS_REPLY_STATUS))
		return NULL;
	*len = (size_t)inside(r)->len;
	return inside(r)->str;
}

int64_t redis_reply_integer(const struct redis_reply *r, int64_t otherwise)
{
	return is(r, REDIS_REPLY_INTEGER) ? inside(r)->integer : otherwise;
}

int64_t redis_reply_ms(const struct redis_reply *r)
{
	size_t len;
	const char *text = redis_reply_text(r, &len);
	double ms = text ? strtod(text, NULL) : (double)redis_reply_integer(r, 0);

	if (ms >= (double)REDIS_REPLY_MS_MAX)
		return REDIS_REPLY_MS_MAX;
	if (ms <= -(double)REDIS_REPLY_MS_MAX)
		return -REDIS_REPLY_MS_MAX;
	return ms == ms ? (int64_t)ms : 0;
}

bool redis_reply_is_array(const struct redis_reply *r)
{
	return is(r, REDIS_REPLY_ARRAY);
}

size_t redis_reply_count(const struct redis_reply *r)
{
	return redis_reply_is_array(r) ? inside(r)->elements : 0;
}

const struct redis_reply *redis_reply_at(const struct redis_reply *r, size_t i)
{
	return i < redis_reply_count(r) ? (const struct redis_reply *)(void *)inside(r)->element[i] : NULL;
}

bool redis_reply_equals(const struct redis_reply *r, const char *text)
{
	size_t len;
	const char *got = redis_reply_text(r, &len);

	return got && len == strlen(text) && memcmp(got, text, len) == 0;
}
