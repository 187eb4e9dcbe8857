/* SPDX-License-Identifier: MIT */
/* resp.c - the formatter and the parser of hiredis; see redis/resp.h */
#define _GNU_SOURCE
#include "redis/resp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

struct resp {
	redisReader *reader;
	size_t fed; /* bytes since the last complete reply */
	char *out;
	size_t out_at, out_end, out_size;
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

bool resp_feed(struct resp *w, const char *bytes, size_t len)
{
	w->fed += len;
	return w->fed <= REDIS_REPLY_MAX && redisReaderFeed(w->reader, bytes, len) == REDIS_OK;
}

bool resp_get(struct resp *w, struct redis_reply **reply)
{
	void *got = NULL;

	*reply = NULL;
	if (redisReaderGetReply(w->reader, &got) != REDIS_OK)
		return false;
	if (got)
		w->fed = 0;
	*reply = got;
	return true;
}

bool resp_short(const struct resp *w)
{
	return ((const redisReader *)w->reader)->err == REDIS_ERR_OOM;
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
