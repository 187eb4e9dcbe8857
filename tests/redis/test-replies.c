/* SPDX-License-Identifier: MIT */
/*
 * test-replies.c - replies made at random, right and damaged: resp.c against the parser of hiredis alone
 *
 * What resp.c takes, hiredis alone takes too, with the same content and to the last byte; where the bytes are cut makes no
 * difference; what is right and within bounds is taken.  ROUNDS=N in the environment: how many streams; FIRST=N: the first.
 */
#define _GNU_SOURCE
#include "redis-support/redis.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "redis/reply-bounds.h"
#include "redis/resp.h"

#define STREAM_MAX 4096
#define REPLIES_MAX (STREAM_MAX / 2)

static uint64_t dice;

static unsigned roll(unsigned sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (unsigned)(dice >> 32) % sides;
}

static void reset(uint64_t round)
{
	dice = (round + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* ---------------------------------------------------------------- streams */

static char stream[STREAM_MAX];
static size_t stream_len;

static void put(const void *bytes, size_t len)
{
	ck_assert_uint_le(stream_len + len, sizeof(stream));
	memcpy(stream + stream_len, bytes, len);
	stream_len += len;
}

static void put_number(char type, long long n)
{
	char line[32];

	put(line, (size_t)snprintf(line, sizeof(line), "%c%lld\r\n", type, n));
}

static void put_text(void)
{
	size_t i, len = roll(4) ? roll(8) : roll(60);
	char text[60];

	for (i = 0; i < len; i++)
		text[i] = (char)roll(256);
	put_number('$', (long long)len);
	put(text, len);
	put("\r\n", 2);
}

static void put_reply(unsigned depth)
{
	static const char *const lines[] = { "+OK\r\n", "-ERR no\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "+\r\n", "-\r\n",
					     "+a\rb\nc\r\n" };
	unsigned n, kind = roll(depth < REPLY_DEPTH_MAX ? 4 : 3);
	const char *line = lines[roll(sizeof(lines) / sizeof(*lines))];

	if (kind == 0)
		put(line, strlen(line));
	else if (kind == 1)
		put_number(':', roll(2) ? (long long)roll(100) : -(long long)roll(1u << 30) * roll(1u << 30));
	else if (kind == 2)
		put_text();
	else
		for (put_number('*', n = 1 + roll(3)); n; n--)
			put_reply(depth + 1);
}

/* As many replies as fit; returns how many. */
static unsigned make_stream(void)
{
	unsigned n = 0, want = 1 + roll(3);

	for (stream_len = 0; n < want; n++)
		put_reply(0);
	return n;
}

static void put_at(size_t at, const char *bytes, size_t len)
{
	if (stream_len + len > sizeof(stream))
		return;
	memmove(stream + at + len, stream + at, stream_len - at);
	memcpy(stream + at, bytes, len);
	stream_len += len;
}

/* One damage: a byte, a lie about a number, a piece lost or doubled. */
static void damage(void)
{
	static const char *const lies[] = { "\r\n", "*1\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "*2147483647\r\n",
					    "*9223372036854775807\r\n", "*-2\r\n", "$1048577\r\n", "$4294967296\r\n", "$-2\r\n",
					    ":\r\n", ":9223372036854775808\r\n", ":+1\r\n", ":01\r\n", ":-\r\n", "*16385\r\n",
					    "9", "-", ">1\r\n", "%1\r\n", "_\r\n", "#t\r\n", ",inf\r\n", "$?\r\n" };
	char piece[64];
	size_t at = roll((unsigned)stream_len + 1), len = roll(sizeof(piece));
	const char *lie = lies[roll(sizeof(lies) / sizeof(*lies))];

	len = len < stream_len - at ? len : stream_len - at;
	memcpy(piece, stream + at, len);
	switch (roll(4)) {
	case 0:
		if (at < stream_len)
			stream[at] = (char)roll(256);
		break;
	case 1:
		put_at(at, lie, strlen(lie));
		break;
	case 2:
		memmove(stream + at, stream + at + len, stream_len - at - len);
		stream_len -= len;
		break;
	default:
		put_at(roll((unsigned)stream_len + 1), piece, len);
	}
}

/* ---------------------------------------------------------------- what becomes of them */

struct taken {
	redisReply *reply[REPLIES_MAX];
	unsigned n;
	size_t bytes;
	bool refused;
	char why[120];
};

static void take_all(struct resp *w, struct taken *t)
{
	struct redis_reply *reply;

	while (!t->refused) {
		t->refused = !resp_get(w, &reply);
		if (t->refused || !reply)
			return;
		ck_assert_uint_lt(t->n, REPLIES_MAX);
		t->reply[t->n++] = (redisReply *)(void *)reply;
	}
}

/* In pieces of 1 to @piece bytes. */
static void feed(struct taken *t, unsigned piece)
{
	struct resp *w = resp_new();
	size_t at = 0, len;

	ck_assert_ptr_nonnull(w);
	memset(t, 0, sizeof(*t));
	while (at < stream_len && !t->refused) {
		len = 1 + roll(piece);
		len = len < stream_len - at ? len : stream_len - at;
		t->refused = !resp_feed(w, stream + at, len);
		at += len;
		take_all(w, t);
	}
	ck_assert(!resp_short(w));
	snprintf(t->why, sizeof(t->why), "%s", resp_refusal(w));
	t->bytes = at - resp_received(w);
	resp_free(w);
}

static void forget(struct taken *t)
{
	while (t->n)
		freeReplyObject(t->reply[--t->n]);
}

static bool is_same(const redisReply *a, const redisReply *b)
{
	size_t i;

	if (a->type != b->type || a->integer != b->integer || a->len != b->len || a->elements != b->elements ||
	    !a->str != !b->str || (a->str && memcmp(a->str, b->str, a->len) != 0))
		return false;
	for (i = 0; i < a->elements; i++)
		if (!is_same(a->element[i], b->element[i]))
			return false;
	return true;
}

static const char *shown(uint64_t round)
{
	static char text[4 * STREAM_MAX + 40];
	size_t i, n = (size_t)snprintf(text, sizeof(text), "FIRST=%llu: ", (unsigned long long)round);

	for (i = 0; i < stream_len; i++)
		n += (size_t)snprintf(text + n, 5, stream[i] > ' ' && stream[i] <= '~' ? "%c" : "\\x%02x", (unsigned char)stream[i]);
	return text;
}

static void check_same(const struct taken *a, const struct taken *b, uint64_t round)
{
	unsigned i;

	ck_assert_msg(a->n == b->n && a->bytes == b->bytes && a->refused == b->refused && strcmp(a->why, b->why) == 0,
		      "bytewise: %u replies, %zu bytes, '%s'; in pieces: %u, %zu, '%s'; %s", a->n, a->bytes, a->why, b->n, b->bytes,
		      b->why, shown(round));
	for (i = 0; i < a->n; i++)
		ck_assert_msg(is_same(a->reply[i], b->reply[i]), "reply %u; %s", i, shown(round));
}

static void check_by_hiredis(const struct taken *t, uint64_t round)
{
	redisReader *reader = redisReaderCreate();
	void *reply;
	unsigned i;

	ck_assert_int_eq(redisReaderFeed(reader, stream, t->bytes), REDIS_OK);
	for (i = 0; i < t->n; i++) {
		ck_assert_msg(redisReaderGetReply(reader, &reply) == REDIS_OK && reply, "reply %u; %s", i, shown(round));
		ck_assert_msg(is_same(t->reply[i], reply), "reply %u; %s", i, shown(round));
		freeReplyObject(reply);
	}
	ck_assert_msg(redisReaderGetReply(reader, &reply) == REDIS_OK && !reply && reader->pos == reader->len,
		      "%zu bytes are left; %s", reader->len - reader->pos, shown(round));
	redisReaderFree(reader);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void each_stream(bool damaged)
{
	static struct taken bytewise, pieces;
	uint64_t round = setting("FIRST", 0), end = round + setting("ROUNDS", 20000), refused = 0;
	unsigned n, more;

	for (; round < end; round++) {
		reset(round);
		n = make_stream();
		for (more = damaged ? 1 + roll(3) : 0; more; more--)
			damage();
		feed(&bytewise, 1);
		feed(&pieces, STREAM_MAX);
		check_same(&bytewise, &pieces, round);
		check_by_hiredis(&bytewise, round);
		if (!damaged)
			ck_assert_msg(bytewise.n == n && bytewise.bytes == stream_len && !bytewise.refused, "'%s'; %s", bytewise.why, shown(round));
		refused += bytewise.refused;
		forget(&bytewise);
		forget(&pieces);
	}
	/* Else the damage is none. */
	ck_assert(!damaged || getenv("FIRST") || refused > (end / 4));
}

START_TEST(right_replies_are_taken)
{
	each_stream(false);
}
END_TEST

START_TEST(damaged_replies_are_refused_or_what_they_seem)
{
	each_stream(true);
}
END_TEST

static void add(TCase *tc)
{
	if (getenv("ROUNDS"))
		tcase_set_timeout(tc, 0);
	tcase_add_test(tc, right_replies_are_taken);
	tcase_add_test(tc, damaged_replies_are_refused_or_what_they_seem);
}

int main(void)
{
	return suite_main("replies", add);
}
