/* SPDX-License-Identifier: MIT */
/* test-tokens.c - tokens of one key only ever rise, whatever happens to the key */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

/* JSON and Lua numbers are exact below this. */
#define EXACT (UINT64_C(1) << 53)

static uint64_t token_of(const char *key, int mode)
{
	lockshm_hold_t hold;
	uint64_t token;
	int code = take(&hold, key, mode);

	ck_assert_msg(code >= 0, "%s", outcome_name(code));
	token = lockshm_token(&hold);
	ck_assert_int_ge(lockshm_release(&hold, 0), 0);
	return token;
}

START_TEST(tokens_rise_from_hold_to_hold)
{
	uint64_t last = 0, token;
	int i;

	for (i = 0; i < 1000; i++) {
		token = token_of("k", i % 3 ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED);
		ck_assert_uint_gt(token, last);
		last = token;
	}
	ck_assert_uint_lt(last, EXACT);
	ck_assert_uint_gt(token_of("k", LOCKSHM_EXCLUSIVE), stat_now().token_base);
}
END_TEST

START_TEST(tokens_rise_across_processes)
{
	struct agent *a = agent_start(), *b = agent_start();
	uint64_t last = 0;
	int i;

	for (i = 0; i < 50; i++) {
		struct agent *x = i & 1 ? a : b;

		ck_code(agent_acquire(x, "k", LOCKSHM_EXCLUSIVE), 0);
		ck_assert_uint_gt(x->answer.token, last);
		last = x->answer.token;
		ck_code(agent_release(x), 0);
	}
}
END_TEST

START_TEST(tokens_rise_when_the_key_is_forgotten_and_comes_back)
{
	uint64_t last = 0, token;
	char key[16];
	int round, i;

	segment_with(42, 64, 4); /* 64 places */
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 500; i++) { /* far ahead of all other entries of the table */
			token = token_of("precious", LOCKSHM_EXCLUSIVE);
			ck_assert_uint_gt(token, last);
			last = token;
		}
		for (i = 0; i < 300; i++) { /* crowd it out of a table of 64 */
			snprintf(key, sizeof(key), "crowd-%d", i);
			token_of(key, LOCKSHM_EXCLUSIVE);
		}
	}
	ck_assert_uint_le(stat_now().keys_known, 64);
	verify_clean();
}
END_TEST

/* Every key's own last token, while all of them are forgotten again and again by several processes at once. */
#define CROWD 200

static void crowd_worker(int worker)
{
	static uint64_t last[CROWD];
	unsigned seed = (unsigned)worker;
	char key[24];
	int i;

	for (i = 0; i < 4000; i++) {
		unsigned n = (seed = seed * 1103515245 + 12345) / 65536 % CROWD;
		struct lockshm_request request = request_for(key, LOCKSHM_EXCLUSIVE);
		lockshm_hold_t hold;
		int code;

		snprintf(key, sizeof(key), "crowd-%u", n);
		request.key_len = strlen(key);
		request.timeout_ns = PATIENCE;
		code = lockshm_acquire(seg, &request, &hold);
		if (code == LOCKSHM_FULL)
			continue; /* a moment in which this window was all claims */
		if (code != 0 || lockshm_token(&hold) <= last[n])
			_exit(1);
		last[n] = lockshm_token(&hold);
		if (lockshm_release(&hold, 0) != 0)
			_exit(2);
	}
	_exit(0);
}

START_TEST(tokens_rise_while_processes_crowd_each_other_out)
{
	int i, status;

	segment_with(64, 64, 8);
	for (i = 0; i < 4; i++)
		if (fork() == 0)
			crowd_worker(i);
	for (i = 0; i < 4; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	verify_clean();
}
END_TEST

START_TEST(tokens_rise_across_upgrade_death_expiry_and_operator)
{
	struct agent *a = agent_start(), *b = agent_start();
	uint64_t last;

	ck_code(agent_acquire(a, "k", LOCKSHM_SHARED), 0);
	last = a->answer.token;
	ck_code(agent_call(a, AGENT_UPGRADE), 0);
	ck_assert_uint_gt(a->answer.token, last);
	last = a->answer.token;
	agent_kill(a);
	ck_code(agent_try(b, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
	ck_assert_uint_gt(b->answer.token, last);
	last = b->answer.token;
	ck_code(agent_call(b, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_RENEW, .ns = LOCKSHM_MS(1) }),
		0);
	pass(b->answer.at_ns + LOCKSHM_MS(20));
	a = agent_start();
	ck_code(agent_try(a, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_uint_gt(a->answer.token, last);
	last = a->answer.token;
	ck_code(lockshm_end_hold(seg, "k", 1, last), 0);
	ck_code(agent_release(b), LOCKSHM_LOST);
	ck_assert_int_ge(agent_try(b, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, last);
}
END_TEST

START_TEST(renewal_and_downgrade_keep_the_token)
{
	lockshm_hold_t hold;
	uint64_t token;

	ck_code(take_for(&hold, "k", LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(5)), 0);
	token = lockshm_token(&hold);
	ck_code(lockshm_renew(&hold, LOCKSHM_SECONDS(9)), 0);
	ck_assert_uint_eq(lockshm_token(&hold), token);
	ck_code(lockshm_downgrade(&hold), 0);
	ck_assert_uint_eq(lockshm_token(&hold), token);
}
END_TEST

START_TEST(tokens_rise_when_the_segment_is_made_anew)
{
	uint64_t last = 0, token;
	int i;

	for (i = 0; i < 10; i++) {
		token = token_of("k", LOCKSHM_EXCLUSIVE);
		ck_assert_uint_gt(token, last);
		last = token;
		ck_code(lockshm_close(seg), 0);
		ck_code(lockshm_destroy(seg_name, NULL), 0);
		ck_code(lockshm_create(&seg, seg_name, NULL, NULL), 0);
	}
}
END_TEST

/* What happens to the name just before a new segment is linked to it. */
static void (*before_link)(void);

/* Replaces the C library's, also in the library under test. */
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	void (*hook)(void) = before_link;

	before_link = NULL;
	if (hook)
		hook();
	return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static uint64_t token_of_the_faster;

static void another_segment_lives_and_dies(void)
{
	lockshm_t *mine = seg;

	ck_code(lockshm_create(&seg, seg_name, NULL, NULL), 0);
	token_of_the_faster = token_of("k", LOCKSHM_EXCLUSIVE);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	seg = mine;
}

START_TEST(tokens_rise_though_the_creator_was_stopped)
{
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	before_link = another_segment_lives_and_dies;
	ck_code(lockshm_create(&seg, seg_name, NULL, NULL), 0);
	ck_assert_uint_gt(token_of_the_faster, 0);
	ck_assert_uint_gt(token_of("k", LOCKSHM_EXCLUSIVE), token_of_the_faster);
}
END_TEST

START_TEST(token_floor_is_exceeded)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	options.token_floor = EXACT - 1000;
	ck_code(lockshm_create(&seg, seg_name, &options, NULL), 0);
	ck_assert_uint_gt(token_of("k", LOCKSHM_EXCLUSIVE), EXACT - 1000);
	ck_assert_uint_lt(token_of("k", LOCKSHM_EXCLUSIVE), EXACT);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	options.token_floor = 1; /* below the wall clock: no effect */
	ck_code(lockshm_create(&seg, seg_name, &options, NULL), 0);
	ck_assert_uint_gt(token_of("k", LOCKSHM_EXCLUSIVE), 1000000);
}
END_TEST

START_TEST(waiters_ticket_is_the_token_it_gets)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct seen seen;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	look("k", &seen);
	ck_assert_uint_eq(seen.requests[0].token, h->answer.token);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
	ck_assert_uint_eq(seen.requests[1].ticket, w->answer.token);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, tokens_rise_from_hold_to_hold);
	tcase_add_test(tc, tokens_rise_across_processes);
	tcase_add_test(tc, tokens_rise_when_the_key_is_forgotten_and_comes_back);
	tcase_add_test(tc, tokens_rise_while_processes_crowd_each_other_out);
	tcase_add_test(tc, tokens_rise_across_upgrade_death_expiry_and_operator);
	tcase_add_test(tc, renewal_and_downgrade_keep_the_token);
	tcase_add_test(tc, tokens_rise_when_the_segment_is_made_anew);
	tcase_add_test(tc, tokens_rise_though_the_creator_was_stopped);
	tcase_add_test(tc, token_floor_is_exceeded);
	tcase_add_test(tc, waiters_ticket_is_the_token_it_gets);
}

int main(void)
{
	return fixture_main("tokens", add);
}
