/* SPDX-License-Identifier: MIT */
/* trample.c - see trample.h */
#define _GNU_SOURCE
#include "trample.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hold/hold.h"

#define WORDS (sizeof(lockshm_hold_t) / sizeof(uint64_t))
#define ANSWER (offsetof(struct hold, lost_to) / sizeof(uint64_t)) /* read by lockshm_lost_to() only */

const char *trample_kind = "";

static int notice_fd = -1; /* an eventfd */

static int release(lockshm_hold_t *h)
{
	return lockshm_release(h, 0);
}

static int release_closed(lockshm_hold_t *h)
{
	return lockshm_release(h, LOCKSHM_MS(1));
}

/* That skips what is not held. */
static int release_many(lockshm_hold_t *h)
{
	int code = lockshm_release_many(h, 1);

	return code == 0 ? LOCKSHM_NOT_HELD : code;
}

static int renew(lockshm_hold_t *h)
{
	return lockshm_renew(h, LOCKSHM_SECONDS(3));
}

static int add(lockshm_hold_t *h)
{
	return lockshm_extend(h, LOCKSHM_SECONDS(3));
}

static int check(lockshm_hold_t *h)
{
	int64_t left = 99;
	int code = lockshm_check(h, &left);

	ck_assert(code == 0 || left == 0);
	return code;
}

static int to_process(lockshm_hold_t *h)
{
	return lockshm_move(h, LOCKSHM_TO_PROCESS);
}

static int to_caller(lockshm_hold_t *h)
{
	return lockshm_move(h, LOCKSHM_TO_CALLER);
}

static int notify(lockshm_hold_t *h)
{
	if (notice_fd < 0)
		notice_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return lockshm_notify(h, notice_fd);
}

static int notify_no_more(lockshm_hold_t *h)
{
	return lockshm_notify(h, -1);
}

static int token(lockshm_hold_t *h)
{
	return lockshm_token(h) == 0 ? LOCKSHM_NOT_HELD : 0;
}

static int lost_to(lockshm_hold_t *h)
{
	return lockshm_lost_to(h) == 0 ? LOCKSHM_NOT_HELD : 0;
}

static const struct {
	const char *name;
	int (*call)(lockshm_hold_t *h);
} calls[] = {
	{ "check", check },
	{ "token", token },
	{ "lost_to", lost_to },
	{ "renew", renew },
	{ "renew add", add },
	{ "acknowledge", lockshm_acknowledge },
	{ "upgrade", lockshm_upgrade },
	{ "downgrade", lockshm_downgrade },
	{ "notify", notify },
	{ "notify -1", notify_no_more },
	{ "move to the process", to_process },
	{ "move to the caller", to_caller },
	{ "release", release },
	{ "release with a cooldown", release_closed },
	{ "release_many", release_many },
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

void trample_says_not_held(lockshm_hold_t *hold, bool or_lost)
{
	lockshm_hold_t saved;
	size_t i;
	int code;

	memcpy(&saved, hold, sizeof(saved));
	for (i = 0; i < N_CALLS; i++) {
		if (calls[i].call == token || calls[i].call == lost_to)
			continue;
		code = calls[i].call(hold);
		ck_assert_msg(code == LOCKSHM_NOT_HELD || code == LOCKSHM_INVALID || (or_lost && code == LOCKSHM_LOST),
			      "%s: %s is %s", trample_kind, calls[i].name, outcome_name(code));
		memcpy(hold, &saved, sizeof(saved));
	}
}

/* Memory that nothing may be read from. */
static uint64_t no_memory(void)
{
	static void *page;

	if (!page)
		page = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return (uint64_t)(uintptr_t)page + 4096;
}

unsigned trample_values(uint64_t out[TRAMPLE_VALUES], const void *words, unsigned n_words, unsigned word)
{
	static const uint64_t fixed[] = { 0, 1, 2, 64, 65536, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX };
	static uint64_t random = UINT64_C(88172645463325252), heap[64];
	const uint64_t *w = words;
	uint64_t here = w[word];
	unsigned n = sizeof(fixed) / sizeof(fixed[0]), i;

	memcpy(out, fixed, sizeof(fixed));
	out[n++] = here + 1;
	out[n++] = here - 1;
	out[n++] = here + 8;
	out[n++] = here - 8;
	out[n++] = ~here;
	out[n++] = here << 32 | here >> 32;
	out[n++] = w[(word + 1) % n_words];
	out[n++] = w[(word + n_words - 1) % n_words];
	out[n++] = no_memory();
	out[n++] = (uint64_t)(uintptr_t)&here;
	out[n++] = (uint64_t)(uintptr_t)heap;
	out[n++] = (uint64_t)(uintptr_t)words;
	for (i = 0; i < 6; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		out[n++] = random;
	}
	return n;
}

/* The overwritten memory counts as free or as a hold in use: the acquire works or is refused; nothing else changes. */
static void acquire_over(lockshm_hold_t *hold, const lockshm_hold_t *saved, bool many)
{
	struct lockshm_request request = request_for("spare", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("spares", 0);
	int code = many ? lockshm_acquire_many(seg, &request, &key, 1, hold) : lockshm_acquire(seg, &request, hold);

	ck_assert_msg(code == 0 || code == LOCKSHM_INVALID, "%s: acquire is %s", trample_kind, outcome_name(code));
	if (code == 0)
		ck_code(lockshm_release(hold, 0), 0);
	memcpy(hold, saved, sizeof(*saved));
	ck_code(lockshm_check(hold, NULL), 0);
}

static void one_value(lockshm_hold_t *hold, const lockshm_hold_t *saved, unsigned word, uint64_t value)
{
	size_t i;
	int code;

	for (i = 0; i < N_CALLS; i++) {
		hold->opaque[word] = value;
		code = calls[i].call(hold);
		ck_assert_msg(code == LOCKSHM_NOT_HELD || code == LOCKSHM_INVALID, "%s: %s with word %u = %llx is %s",
			      trample_kind, calls[i].name, word, (unsigned long long)value, outcome_name(code));
		hold->opaque[word] = saved->opaque[word];
		ck_assert_msg(memcmp(hold, saved, sizeof(*hold)) == 0, "%s: %s with word %u = %llx writes to it",
			      trample_kind, calls[i].name, word, (unsigned long long)value);
		ck_code(lockshm_check(hold, NULL), 0);
	}
	for (i = 0; i < 2; i++) {
		hold->opaque[word] = value;
		acquire_over(hold, saved, i == 1);
	}
}

void trample(lockshm_hold_t *hold, const lockshm_hold_t *other, const lockshm_hold_t *earlier)
{
	uint64_t values[TRAMPLE_VALUES];
	lockshm_hold_t saved;
	unsigned word, i, n;

	memcpy(&saved, hold, sizeof(saved));
	for (word = 0; word < WORDS; word++) {
		n = trample_values(values, &saved, WORDS, word);
		values[n++] = other->opaque[word];
		values[n++] = earlier->opaque[word];
		for (i = 0; i < n; i++) {
			if (values[i] == saved.opaque[word])
				continue;
			if (word != ANSWER) {
				one_value(hold, &saved, word, values[i]);
				continue;
			}
			hold->opaque[word] = values[i];
			ck_code(lockshm_check(hold, NULL), 0);
			hold->opaque[word] = saved.opaque[word];
		}
		ck_code(lockshm_check(other, NULL), 0);
	}
	ck_assert_uint_eq(lockshm_token(hold), ((const struct hold *)&saved)->token);
}
