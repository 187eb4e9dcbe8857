/* SPDX-License-Identifier: MIT */
/* test-global-barging.c - LOCKSHM_BARGE with LOCKSHM_GLOBAL: a streak of holds of one thread under its host's lease */
#include "redis-support/hosts.h"

#include <string.h>

#include "sys/futex.h"

static struct agent *h, *w, *b;

static int barge(struct agent *a, int64_t timeout_ns)
{
	struct agent_command c = global_command(K, LOCKSHM_EXCLUSIVE);

	c.flags |= LOCKSHM_BARGE;
	c.timeout_ns = timeout_ns;
	return agent_do(a, c);
}

static void barge_send(struct agent *a)
{
	struct agent_command c = global_command(K, LOCKSHM_EXCLUSIVE);

	c.flags |= LOCKSHM_BARGE;
	agent_send(a, c);
}

static int first_state(void)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int state = 0, code;

	EACH_ROW(row, code, hosts[0].s, LOCKSHM_LIST_KEY, K, strlen(K))
		if (!state)
			state = row.request.state;
	ck_code(code, 0);
	return state;
}

/* h holds; w of the same host waits, and is stopped: it is the next to be granted and does not run. */
static void hold_before_a_stopped_one(const char *where)
{
	cast(where, &h, &w, &b);
	ck_code(barge(h, 0), 0);
	global_send(w, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(w, 0, K);
	agent_stop(w);
}

/* Without futex_waitv() no hold is bargeable before a sleeping waiter, which sleeps on its own word only. */
static bool is_bargeable(void)
{
	return futex_has_waitv();
}

static void end_of_test(void)
{
	redis_has("EXISTS lk:" K " {lk:" K "}:q", "0");
}

START_TEST(under_the_same_lease_with_the_same_token)
{
	char value[sizeof(lease_of(0, K).value)];
	uint64_t token;
	int i;

	if (!is_bargeable())
		return;
	hold_before_a_stopped_one("00");
	memcpy(value, lease_of(0, K).value, sizeof(value));
	for (i = 0; i < 5; i++) {
		token = h->answer.token;
		ck_code(agent_release(h), 0);
		if (first_state() != LOCKSHM_BARGEABLE)
			break; /* the barge window of half a millisecond was over */
		if (barge(h, AGENT_TRY) != 0)
			break;
		ck_assert_uint_eq(h->answer.token, token);
		ck_code(agent_call(h, AGENT_CHECK), 0);
		ck_assert_str_eq(lease_of(0, K).value, value);
		ck_redis(value, redis, "GET lk:" K);
	}
	ck_assert_int_gt(i, 0);
	if (i == 5)
		ck_code(agent_release(h), 0);
	token = h->answer.token;
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_assert_uint_gt(w->answer.token, token);
	ck_assert_str_eq(lease_of(0, K).value, value);
	ck_code(agent_release(w), 0);
	end_of_test();
}
END_TEST

/* A bargeable lease has no holder: another host need not wait for a thread that does not return, or is stopped. */
START_TEST(another_host_waits)
{
	uint64_t token;

	hold_before_a_stopped_one("001");
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	token = h->answer.token;
	ck_code(agent_release(h), 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_gt(b->answer.token, token);
	ck_code(barge(h, AGENT_TRY), LOCKSHM_BUSY);
	/* The streak is over: h is queued after w again. */
	barge_send(h);
	waits_on_host(h, 0, K);
	ck_code(agent_release(b), 0);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	token = w->answer.token;
	ck_code(agent_release(w), 0);
	ck_code(agent_end(h), 0);
	ck_assert_uint_gt(h->answer.token, token);
	ck_code(agent_release(h), 0);
	end_of_test();
}
END_TEST

/* A hold that is bargeable under a lease is not resumed for this host alone, nor the other way round. */
START_TEST(a_streak_is_of_one_kind)
{
	struct agent_command local = global_command(K, LOCKSHM_EXCLUSIVE);
	int i;

	for (i = 0; i < 2; i++) {
		bool global_first = i == 0;

		cast("00", &h, &w);
		local.flags = LOCKSHM_BARGE;
		local.timeout_ns = 0;
		ck_code(global_first ? barge(h, 0) : agent_do(h, local), 0);
		global_send(w, K, LOCKSHM_EXCLUSIVE);
		waits_on_host(w, 0, K);
		agent_stop(w);
		ck_code(agent_release(h), 0);
		local.timeout_ns = AGENT_TRY;
		ck_code(global_first ? agent_do(h, local) : barge(h, AGENT_TRY), LOCKSHM_BUSY);
		agent_cont(w);
		ck_code(agent_end(w), 0);
		ck_code(agent_release(w), 0);
		end_of_test();
	}
}
END_TEST

/* A streak lasts no longer than other local holds for which another host waits. */
START_TEST(another_host_gets_its_turn)
{
	int n, err = 0;

	cast("001", &h, &w, &b);
	ck_code(barge(h, 0), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	for (n = 0; n < 100000 && err == 0; n++) {
		ck_code(agent_release(h), 0);
		err = barge(h, AGENT_TRY);
	}
	ck_code(err, LOCKSHM_BUSY);
	ck_code(agent_end(b), 0);
	ck_code(agent_release(b), 0);
	end_of_test();
}
END_TEST

START_TEST(the_lease_is_lost_while_bargeable)
{
	char value[sizeof(lease_of(0, K).value)];
	uint64_t token;

	hold_before_a_stopped_one("00");
	memcpy(value, lease_of(0, K).value, sizeof(value));
	token = h->answer.token;
	ck_code(agent_release(h), 0);
	ck_redis("1", redis, "DEL lk:" K);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_assert_uint_gt(w->answer.token, token);
	ck_assert_str_ne(lease_of(0, K).value, value);
	ck_code(agent_call(w, AGENT_CHECK), 0);
	ck_code(agent_release(w), 0);
	end_of_test();
}
END_TEST

/* Without a ring: the leader's scan finds it. */
START_TEST(the_next_waiter_is_killed)
{
	hold_before_a_stopped_one("00");
	ck_code(agent_release(h), 0);
	agent_kill(w);
	redis_has("EXISTS lk:" K, "0");
	ck_code(barge(h, 0), 0);
	ck_code(agent_release(h), 0);
	end_of_test();
}
END_TEST

START_TEST(its_thread_is_killed)
{
	hold_before_a_stopped_one("00");
	ck_code(agent_release(h), 0);
	agent_kill(h);
	agent_cont(w);
	ck_code(agent_end(w), 0); /* no holder died */
	ck_code(agent_release(w), 0);
	end_of_test();
}
END_TEST

/* On this host only, by policy: granted in order. */
START_TEST(without_redis)
{
	struct lockshm_create_options options;

	own_server();
	options = host_options();
	options.redis_policy = segment_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	host_make(0, &options);
	redis_kill(redis);
	h = on_host(0);
	w = on_host(0);
	ck_code(barge(h, 0), LOCKSHM_LOCAL_ONLY);
	global_send(w, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(w, 0, K);
	agent_stop(w);
	ck_code(agent_release(h), 0);
	ck_assert_int_ne(first_state(), LOCKSHM_BARGEABLE);
	agent_cont(w);
	ck_code(agent_end(w), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_release(w), 0);
}
END_TEST

/* A request that got no lease never held, and must not barge. */
START_TEST(a_refused_request_does_not_barge)
{
	own_server();
	hosts_make(1);
	h = on_host(0);
	w = on_host(0);
	redis_kill(redis);
	ck_code(barge(h, 0), LOCKSHM_BRIDGE);
	ck_code(global_wait(w, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_assert_int_eq(first_state(), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, under_the_same_lease_with_the_same_token);
	tcase_add_test(tc, another_host_waits);
	tcase_add_test(tc, a_streak_is_of_one_kind);
	tcase_add_test(tc, another_host_gets_its_turn);
	tcase_add_test(tc, the_lease_is_lost_while_bargeable);
	tcase_add_test(tc, the_next_waiter_is_killed);
	tcase_add_test(tc, its_thread_is_killed);
	tcase_add_test(tc, without_redis);
	tcase_add_test(tc, a_refused_request_does_not_barge);
}

int main(void)
{
	return hosts_main("global-barging", add);
}
