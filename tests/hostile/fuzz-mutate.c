/* SPDX-License-Identifier: MIT */
/*
 * fuzz-mutate.c - from one program to another that is likely to find something
 *
 * A fuzzer that knows nothing of the format would take long to make a request its own predecessor.  So most new
 * commands change one field of one record to a value that means something there.
 */
#include "fuzz.h"

#include <string.h>

static uint64_t state;

static uint64_t next(void)
{
	uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(next() % n);
}

/* A field that has a meaning; op is the kind of value. */
static const struct field {
	uint8_t area, word, shift, len, op;
} fields[] = {
	{ AREA_REQUEST, 0, 0, 18, OP_REQUEST },	 /* prev */
	{ AREA_REQUEST, 0, 18, 4, OP_SET },	 /* state */
	{ AREA_REQUEST, 0, 18, 4, OP_SET },	 /* it matters most */
	{ AREA_REQUEST, 0, 22, 1, OP_XOR },	 /* mode */
	{ AREA_REQUEST, 0, 23, 41, OP_ADD },	 /* generation */
	{ AREA_REQUEST, 0, 0, 64, OP_COPY },	 /* another one's word */
	{ AREA_REQUEST, 1, 0, 64, OP_TIME },	 /* deadline */
	{ AREA_REQUEST, 1, 0, 64, OP_SET },
	{ AREA_REQUEST, 2, 0, 18, OP_REQUEST },	 /* hint */
	{ AREA_REQUEST, 2, 18, 46, OP_ADD },
	{ AREA_REQUEST, 3, 0, 64, OP_ADD },	 /* ticket */
	{ AREA_REQUEST, 4, 0, 24, OP_OWNER },	 /* owner */
	{ AREA_REQUEST, 4, 0, 64, OP_COPY },
	{ AREA_REQUEST, 5, 0, 64, OP_SET },	 /* ttl */
	{ AREA_REQUEST, 6, 0, 64, OP_SET },	 /* since */
	{ AREA_REQUEST, 7, 0, 32, OP_ENTRY },	 /* entry */
	{ AREA_REQUEST, 7, 32, 32, OP_SET },	 /* sleeping */
	{ AREA_REQUEST, 12, 0, 64, OP_SET },	 /* granted */
	{ AREA_REQUEST, 13, 0, 32, OP_SET },	 /* bucket */
	{ AREA_REQUEST, 13, 32, 32, OP_SET },	 /* flags */
	{ AREA_REQUEST, 14, 0, 64, OP_COPY },	 /* chunk */
	{ AREA_REQUEST, 14, 0, 24, OP_OWNER },
	{ AREA_REQUEST, 14, 0, 64, OP_SET },
	{ AREA_OWN_REQUEST, 0, 18, 4, OP_SET },
	{ AREA_OWN_REQUEST, 0, 0, 18, OP_REQUEST },
	{ AREA_OWN_REQUEST, 0, 23, 41, OP_ADD },
	{ AREA_OWN_REQUEST, 1, 0, 64, OP_SET },
	{ AREA_OWN_REQUEST, 4, 0, 64, OP_COPY },
	{ AREA_ENTRY, 0, 0, 18, OP_REQUEST },	 /* tail */
	{ AREA_ENTRY, 0, 0, 18, OP_REQUEST },
	{ AREA_ENTRY, 0, 18, 46, OP_ADD },
	{ AREA_ENTRY, 0, 0, 64, OP_COPY },
	{ AREA_ENTRY, 1, 0, 64, OP_COPY },	 /* identity */
	{ AREA_ENTRY, 2, 0, 64, OP_COPY },
	{ AREA_ENTRY, 3, 0, 64, OP_SET },	 /* length */
	{ AREA_ENTRY, 4, 0, 64, OP_SET },	 /* first ticket */
	{ AREA_ENTRY, 5, 0, 64, OP_SET },	 /* damage */
	{ AREA_ENTRY, 5, 0, 3, OP_XOR },	 /* acknowledged, died, robust */
	{ AREA_ENTRY, 5, 3, 15, OP_SET },
	{ AREA_ENTRY, 5, 18, 46, OP_ADD },
	{ AREA_ENTRY, 5, 0, 64, OP_COPY },
	{ AREA_ENTRY, 6, 0, 44, OP_SET },	 /* its time */
	{ AREA_ENTRY, 6, 44, 20, OP_ADD },
	{ AREA_DETAIL, 0, 0, 64, OP_SET },	 /* shown key */
	{ AREA_DETAIL, 7, 0, 64, OP_SET },
	{ AREA_DAMAGE, 0, 0, 39, OP_ADD },	 /* whose: ticket, entry */
	{ AREA_DAMAGE, 0, 39, 25, OP_ENTRY },
	{ AREA_DAMAGE, 0, 39, 25, OP_SET },
	{ AREA_DAMAGE, 0, 0, 64, OP_COPY },
	{ AREA_DAMAGE, 1, 0, 64, OP_SET },	 /* holder */
	{ AREA_DAMAGE, 2, 0, 64, OP_COPY },	 /* label */
	{ AREA_DAMAGE, 6, 0, 64, OP_SET },
	{ AREA_TAG, 0, 0, 16, OP_SET },
	{ AREA_BUCKET, 0, 0, 20, OP_ADD },	 /* claim */
	{ AREA_BUCKET, 0, 20, 24, OP_ENTRY },
	{ AREA_BUCKET, 1, 0, 64, OP_SET },	 /* high-water mark */
	{ AREA_OWNER, 0, 0, 2, OP_SET },	 /* state */
	{ AREA_OWNER, 0, 2, 8, OP_SET },
	{ AREA_OWNER, 0, 10, 22, OP_SET },	 /* pid */
	{ AREA_OWNER, 0, 32, 32, OP_ADD },	 /* generation */
	{ AREA_OWNER, 2, 0, 64, OP_SET },	 /* namespace */
	{ AREA_OWNER, 3, 0, 18, OP_REQUEST },	 /* waiting */
	{ AREA_OWNER, 3, 0, 64, OP_COPY },
	{ AREA_OWNER, 4, 0, 32, OP_SET },	 /* tid */
	{ AREA_OWNER, 4, 32, 32, OP_SET },	 /* offset of the life word */
	{ AREA_OWNER, 5, 0, 32, OP_SET },	 /* flags */
	{ AREA_OWNER, 5, 32, 32, OP_ADD },	 /* doorbell */
	{ AREA_OWN, 0, 0, 64, OP_SET },
	{ AREA_OWN, 3, 0, 18, OP_REQUEST },
	{ AREA_OWN, 4, 32, 32, OP_SET },
	{ AREA_OWN, 5, 0, 32, OP_SET },
	{ AREA_LIFE, 0, 0, 32, OP_SET },
	{ AREA_LIFE, 0, 30, 2, OP_SET },
	{ AREA_OWN_LIFE, 0, 0, 64, OP_SET },
	{ AREA_OWN_LIFE, 0, 30, 2, OP_SET },
	{ AREA_DOORBELL, 0, 0, 64, OP_SET },	 /* rung */
	{ AREA_OWN_DOORBELL, 0, 0, 64, OP_SET },
	{ AREA_OWN_DOORBELL, 64, 0, 64, OP_SET }, /* rung_words */
	{ AREA_OWN_DOORBELL, 65, 0, 32, OP_SET }, /* asleep */
	{ AREA_HEADER, 32, 0, 64, OP_SET },	 /* state */
	{ AREA_HEADER, 13, 0, 32, OP_ADD },	 /* capacities */
	{ AREA_HEADER, 15, 0, 32, OP_SET },
	{ AREA_HEADER, 8, 32, 32, OP_SET },	 /* pool of marks */
	{ AREA_HEADER, 22, 0, 64, OP_ADD },
	{ AREA_HEADER, 25, 0, 64, OP_SET },	 /* token base */
	{ AREA_HEADER, 9, 0, 64, OP_SET },	 /* boot */
	{ AREA_HEADER, 0, 0, 64, OP_SET },
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static int64_t interesting(const struct field *f)
{
	static const int64_t values[] = {
		0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 15, 63, 64, 65, 255, 256, 4095, 4096, 0x3ffff, 0x3fffff, INT32_MAX,
		INT32_MIN, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, -1, -2, LOCKSHM_SECONDS(1), LOCKSHM_MS(1),
		(int64_t)TICKET_MAX, (int64_t)TICKET_MAX - 1, (int64_t)1 << 62, 0x40000000, 0x80000001,
	};
	static const int64_t states[] = { REQUEST_FREE, REQUEST_WAITING, REQUEST_GRANTED, REQUEST_ENTERED, REQUEST_COOLING,
					  REQUEST_BARGEABLE, REQUEST_CLAIM, 7, REQUEST_RELEASED, REQUEST_ABANDONED, REQUEST_EXPIRED, REQUEST_DEAD, 12, 15 };

	if (f->len == 4 && f->op == OP_SET)
		return states[below(sizeof(states) / sizeof(states[0]))];
	switch (f->op) {
	case OP_ADD:
		return (int64_t)below(7) - 3;
	case OP_REQUEST:
	case OP_OWNER:
	case OP_ENTRY:
	case OP_COPY:
		return below(4) ? below(24) : below(256);
	case OP_TIME:
		return ((int64_t)below(2001) - 1000) * 1000 * (below(3) ? 1 : 1000000);
	default:
		return below(5) ? values[below(sizeof(values) / sizeof(values[0]))] : (int64_t)next();
	}
}

static struct fuzz_command new_change(void)
{
	const struct field *f = &fields[below(FIELDS)];
	struct fuzz_command c = { .op = f->op, .area = f->area, .word = f->word, .shift = f->shift, .len = f->len };

	c.index = (uint16_t)(below(4) ? below(24) : below(256));
	c.value = interesting(f);
	return c;
}

static struct fuzz_command new_call(void)
{
	static const int64_t times[] = { 0, 0, 1, LOCKSHM_MS(1), LOCKSHM_MS(3), LOCKSHM_SECONDS(60), LOCKSHM_TIME_MAX, -1 };
	struct fuzz_command c = { .op = (uint8_t)(OP_ACQUIRE + below(OPS - OP_ACQUIRE)) };

	if (below(3) == 0)
		c.op = OP_ACQUIRE;
	c.index = (uint16_t)below(SCENE_KEYS);
	c.arg = (uint8_t)below(5);
	c.word = (uint8_t)((below(3) ? below(2) : below(16)) | (below(3) ? 16 : 0));
	c.len = (uint8_t)below(4);
	c.value = c.op == OP_END_HOLD ? below(12) : times[below(sizeof(times) / sizeof(times[0]))];
	return c;
}

static struct fuzz_command new_command(void)
{
	struct fuzz_command c = { 0 };

	switch (below(32)) {
	case 0:
		c.op = OP_UNLINK;
		return c;
	case 1: /* any word at all */
		c.op = (uint8_t)below(OP_TIME);
		c.index = (uint16_t)next();
		c.word = (uint8_t)below(2);
		c.len = 64;
		c.value = (int64_t)next();
		return c;
	default:
		return below(3) ? new_change() : new_call();
	}
}

/* One field of one command. */
static void tweak(struct fuzz_command *c)
{
	switch (below(5)) {
	case 0:
		c->index = (uint16_t)below(24);
		break;
	case 1:
		c->value = (int64_t)((uint64_t)c->value + below(7) - 3);
		break;
	case 2:
		c->arg = (uint8_t)below(5);
		c->word = (uint8_t)(c->op < OP_TRUNCATE ? c->word : below(32));
		break;
	case 3:
		c->value = (int64_t)(UINT64_C(1) << below(64));
		break;
	default:
		*c = new_command();
	}
}

/* One step: remove, insert, exchange or tweak. */
static size_t step(struct fuzz_command *commands, size_t n, size_t max)
{
	size_t at = n ? below((uint32_t)n) : 0;
	uint32_t what = below(8);

	if (what == 0 && n > 1) {
		memmove(commands + at, commands + at + 1, (n - at - 1) * sizeof(*commands));
		return n - 1;
	}
	if (what == 1 && n > 1) {
		struct fuzz_command c = commands[at];

		commands[at] = commands[n - 1];
		commands[n - 1] = c;
		return n;
	}
	if (what <= 3 && n > 0) {
		tweak(&commands[at]);
		return n;
	}
	if (n == max)
		return n;
	at = below(2) ? n : at;
	memmove(commands + at + 1, commands + at, (n - at) * sizeof(*commands));
	commands[at] = new_command();
	return n + 1;
}

size_t fuzz_mutate(unsigned char *data, size_t size, size_t max, uint64_t seed)
{
	struct fuzz_command commands[FUZZ_COMMANDS_MAX];
	size_t n, room = max > 0 ? (max - 1) / sizeof(*commands) : 0;
	uint32_t steps;

	if (max < 1)
		return 0;
	if (size < 1)
		data[0] = START_SCENE;
	state = seed;
	if (room > FUZZ_COMMANDS_MAX)
		room = FUZZ_COMMANDS_MAX;
	n = size > 1 ? (size - 1) / sizeof(*commands) : 0;
	if (n > room)
		n = room;
	memcpy(commands, data + 1, n * sizeof(*commands));
	if (below(40) == 0 || (data[0] & START_MASK) == START_RAW)
		data[0] = (unsigned char)(below(4) ? START_SCENE : below(16) & ~START_RAW);
	for (steps = 1 + below(4); steps > 0; steps--)
		n = step(commands, n, room);
	memcpy(data + 1, commands, n * sizeof(*commands));
	return 1 + n * sizeof(*commands);
}
