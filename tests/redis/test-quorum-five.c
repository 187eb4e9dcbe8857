/* SPDX-License-Identifier: MIT */
/*
 * test-quorum-five.c - one lock on five servers, the last of which reports the run_id of the one before it
 *
 * The two have one vote together.  So there are four votes, of which three decide.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "redis-support/liar.h"
#include "redis-support/majority.h"
#include "redis-support/peer.h"
#include "redis/quorum.h"

#define N SERVERS_MAX
#define NAMED 3 /* whose run_id the last one reports */
#define LIAR 4

static struct redis_quorum *q;
static struct redis_keys keys;
static char value[REDIS_VALUE_LEN + 1];
static struct redis_vote v;

static void begin(enum redis_script script)
{
	static struct redis_host host;

	if (!host.id[0])
		random_host(&host);
	ck_assert(value[0] || redis_value(value, &host));
	v = (struct redis_vote){ .script = script,
				 .acquired_by = REDIS_ACQUIRE_X,
				 .keys = &keys,
				 .deadline = soon(),
				 .args = { .host = host.id, .value = value, .ttl_ms = LONG_MS, .stride = 128,
					   .waiter_ttl_ms = LONG_MS } };
	vote_begin(q, &v);
}

static int end(void)
{
	int code = vote_end(q, &v);

	return code ? code : (int)v.lease.status;
}

static int vote(enum redis_script script)
{
	begin(script);
	return end();
}

static void refuse(int i)
{
	proxy_set(proxies[i], PROXY_REFUSE);
}

static void taken_by_another(int i)
{
	ck_redis("OK", servers[i], "SET lock other PX 50000");
}

START_TEST(four_votes_of_five_servers)
{
	ck_assert_uint_eq(redis_quorum_voters(q), N - 1);
	ck_contains(redis_quorum_same(q)->text, "one vote together");
	ck_status(vote(REDIS_ACQUIRE_X), REDIS_GRANTED);
	ck_status(vote(REDIS_RENEW), REDIS_DONE);
	ck_code(vote(REDIS_RELEASE), 0);
	ck_assert_uint_eq(v.lease.servers, N);
}
END_TEST

/* With the liar there would be three. */
START_TEST(two_with_the_liar_are_no_majority)
{
	refuse(0);
	refuse(1);
	ck_code(vote(REDIS_ACQUIRE_X), REDIS_UNREACHABLE);
	ck_redis("0", servers[2], "EXISTS lock");
}
END_TEST

/* Both refuse, or one of them: that is one vote less, and a majority of the others decides. */
START_TEST(the_others_decide)
{
	taken_by_another(LIAR);
	if (_i)
		taken_by_another(NAMED);
	ck_status(vote(REDIS_ACQUIRE_X), REDIS_GRANTED);
	ck_status(vote(REDIS_RENEW), REDIS_DONE);
	ck_code(vote(REDIS_RELEASE), 0);
	ck_redis("other", servers[LIAR], "GET lock");
}
END_TEST

/* The lock of another host is on the others: the two have no second vote with which it could be taken. */
START_TEST(a_lock_of_another_host_stays)
{
	taken_by_another(0);
	taken_by_another(1);
	ck_status(vote(REDIS_ACQUIRE_X), REDIS_BUSY);
	taken_by_another(2);
	ck_status(vote(REDIS_ACQUIRE_X), REDIS_BUSY);
	ck_redis("0", servers[NAMED], "EXISTS lock");
	ck_redis("0", servers[LIAR], "EXISTS lock");
}
END_TEST

START_TEST(one_of_the_two_is_out_of_reach)
{
	refuse(0);
	refuse(NAMED);
	ck_status(vote(REDIS_ACQUIRE_X), REDIS_GRANTED);
	ck_status(vote(REDIS_RENEW), REDIS_DONE);
	refuse(1);
	ck_assert_int_lt(vote(REDIS_RENEW), 0);
}
END_TEST

static bool have_replied(void *unused)
{
	int i, n = 0;

	(void)unused;
	redis_quorum_step(q);
	for (i = 1; i < N; i++)
		n += !redis_quorum_awaits(q, (size_t)i);
	return n == N - 1;
}

/* The tokens of three servers are alike, two of which have one vote: they are levelled with those of the fourth. */
START_TEST(tokens_of_two_votes_are_no_majoritys)
{
	int64_t ahead;

	ck_status(vote(REDIS_ACQUIRE_X), REDIS_GRANTED);
	ahead = v.lease.fence + (1LL << 40);
	ck_code(vote(REDIS_RELEASE), 0);
	refuse(2);
	ck_redis("0", servers[0], "HSET {lock}:f end %lld", (long long)ahead);
	proxy_set(proxies[0], PROXY_HOLD_REPLIES);
	begin(REDIS_ACQUIRE_X);
	ck_assert(await(have_replied, NULL));
	ck_assert(!v.over);
	proxy_set(proxies[0], PROXY_PASS);
	ck_status(end(), REDIS_GRANTED);
	ck_assert_int_ge(v.lease.fence, ahead);
}
END_TEST

static void start(void)
{
	servers_start(N);
}

static void stop(void)
{
	servers_stop(N);
}

static void meet(void)
{
	static struct lie lie = { .name = "of another", .place = ABOUT_ITS_RUN_ID };
	struct redis_quorum_options options = { 0 };
	struct redis_server list[N];
	int i;

	ck_code(redis_keys_make(&keys, REDIS_KEYS_SINGLE, "", "lock", 4, NULL), 0);
	servers_empty(N);
	proxies_start(N);
	for (i = 0; i < N; i++)
		list[i] = server_of(proxies[i]->uri);
	lie.bytes = run_id_of(servers[NAMED]);
	list[LIAR] = server_of(liar_start(servers[LIAR], &lie)->uri);
	ck_code(redis_quorum_new(&q, list, N, &options, NULL), 0);
	ck_code(redis_quorum_open(q, soon()), 0);
}

static void part(void)
{
	redis_quorum_free(q);
	redis_keys_free(&keys);
}

static void add(TCase *tc)
{
	tcase_add_unchecked_fixture(tc, start, stop);
	tcase_add_checked_fixture(tc, meet, part);
	tcase_add_test(tc, four_votes_of_five_servers);
	tcase_add_test(tc, two_with_the_liar_are_no_majority);
	tcase_add_loop_test(tc, the_others_decide, 0, 2);
	tcase_add_test(tc, a_lock_of_another_host_stays);
	tcase_add_test(tc, one_of_the_two_is_out_of_reach);
	tcase_add_test(tc, tokens_of_two_votes_are_no_majoritys);
}

int main(void)
{
	return redis_main("quorum-five", add);
}
