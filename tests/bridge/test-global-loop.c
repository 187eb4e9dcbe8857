/* SPDX-License-Identifier: MIT */
/* test-global-loop.c - global keys by way of an event loop: the queue of the host, then the host's lease */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <string.h>
#include <unistd.h>

#define X LOCKSHM_EXCLUSIVE
#define KEYS 90 /* more than words that one thread can sleep on */

static struct agent *a, *b;
static lockshm_loop_t *loop;
static struct task t[KEYS];

/* A loop of hosts[0] in this process. */
static void open_loop(void)
{
	seg = hosts[0].s;
	loop = loop_new();
}

/* One agent on each of two hosts, and the loop on the first. */
static void two_hosts(void)
{
	cast("01", &a, &b);
	open_loop();
}

static void bare(int policy)
{
	struct lockshm_create_options options = host_options();

	options.redis_policy = segment_policy(policy);
	host_make_bare(0, &options);
	open_loop();
}

static int begin(struct task *task, const char *key, int mode)
{
	task_init(task, key, mode);
	task->request.flags = LOCKSHM_GLOBAL;
	task->request.redis_policy = global_policy;
	return task_acquire(loop, task);
}

static void pending(struct task *task, const char *key, int mode)
{
	ck_code(begin(task, key, mode), LOCKSHM_PENDING);
}

/* ---------------------------------------------------------------- granted */

START_TEST(granted)
{
	hosts_make(1);
	open_loop();
	pending(&t[0], K, X);
	ck_outcome(loop, &t[0], 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_assert_uint_gt(lockshm_token(&t[0].hold), 0);
	ck_assert_uint_eq(t[0].report.token, lockshm_token(&t[0].hold));
	ck_code(task_release(&t[0]), 0);
	redis_has("EXISTS lk:" K, "0");
	loop_idle(loop);
}
END_TEST

/* An outcome follows: the bridge finds another value in Redis, long before the lease ends; or the lease ends without a
 * bridge. */
START_TEST(told_of_its_loss)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = _i ? LOCKSHM_SECONDS(2) : LOCKSHM_SECONDS(60);
	host_make(0, &options);
	host_make(1, &options);
	b = on_host(1);
	open_loop();
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL | LOCKSHM_TELL_LOSS | LOCKSHM_AUTO_RENEW;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], 0);
	loop_idle(loop);
	if (_i)
		bridge_kill(0);
	else
		redis_say(redis, "DEL lk:" K);
	ck_code(task_end(loop, &t[0]), LOCKSHM_LOST);
	ck_code(lockshm_check(&t[0].hold, NULL), LOCKSHM_LOST);
	ck_code(global_wait(b, K, X), 0);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	loop_idle(loop);
	ck_queue(K, 0, 0);
}
END_TEST

/* The lease is here: no command, and the outcome is there already. */
START_TEST(granted_under_a_lease_of_this_host)
{
	uint64_t acquired;

	two_hosts();
	ck_code(global_wait(a, K, X), 0);
	acquired = bridge_of(0).acquired;
	pending(&t[0], K, X);
	pending(&t[1], K, X);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0);
	ck_assert_uint_gt(t[0].report.token, a->answer.report.token);
	ck_code(task_release(&t[0]), 0);
	ck_outcome(loop, &t[1], 0);
	ck_assert_uint_gt(t[1].report.token, t[0].report.token);
	ck_assert_uint_eq(bridge_of(0).acquired, acquired);
	ck_code(task_release(&t[1]), 0);
}
END_TEST

START_TEST(granted_after_the_other_host)
{
	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	pending(&t[0], K, X);
	wanted_by(1);
	loop_idle(loop);
	ck_code(agent_release(b), 0);
	ck_outcome(loop, &t[0], 0);
	ck_assert_uint_gt(t[0].report.token, b->answer.token);
	ck_assert_int_gt(t[0].report.waited_ns, 0);
	ck_code(global_try(b, K, X), LOCKSHM_BUSY);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

START_TEST(readers_wait_for_one_lease)
{
	int i;

	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	for (i = 0; i < 3; i++)
		pending(&t[i], K, LOCKSHM_SHARED);
	wanted_by(3);
	ck_code(agent_release(b), 0);
	for (i = 0; i < 3; i++)
		ck_assert_ptr_nonnull(loop_collect(loop));
	for (i = 0; i < 3; i++) {
		ck_code(t[i].status, 0);
		ck_code(lockshm_upgrade(&t[i].hold), LOCKSHM_INVALID);
		ck_code(task_release(&t[i]), 0);
	}
}
END_TEST

/* More leases than the service thread can sleep on. */
START_TEST(many_keys_at_once)
{
	struct lockshm_create_options options = host_options();
	struct agent_command command = global_command("", X);
	int i;

	options.host_leases = 128;
	options.keys = 512;
	host_make(0, &options);
	host_make(1, &options);
	b = on_host(1);
	open_loop();
	for (i = 0; i < AGENT_HOLDS; i++) {
		command.hold = i;
		snprintf(command.key, sizeof(command.key), "key %d", i);
		ck_code(agent_do(b, command), 0);
	}
	for (i = 0; i < KEYS; i++) {
		char key[32];

		snprintf(key, sizeof(key), "key %d", i);
		pending(&t[i], key, X);
	}
	for (i = AGENT_HOLDS; i < KEYS; i++)
		ck_assert_ptr_nonnull(loop_collect(loop));
	for (i = 0; i < KEYS; i++)
		ck_assert_int_eq(t[i].outcomes, i >= AGENT_HOLDS);
	for (i = 0; i < AGENT_HOLDS; i++) {
		command = (struct agent_command){ .op = AGENT_RELEASE, .hold = i };
		ck_code(agent_do(b, command), 0);
	}
	for (i = 0; i < AGENT_HOLDS; i++)
		ck_assert_ptr_nonnull(loop_collect(loop));
	for (i = 0; i < KEYS; i++) {
		ck_code(t[i].status, 0);
		ck_code(task_release(&t[i]), 0);
	}
}
END_TEST

START_TEST(renewed_by_the_service_thread)
{
	hosts_make(1);
	open_loop();
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL | LOCKSHM_AUTO_RENEW;
	t[0].request.ttl_ns = LOCKSHM_MS(500);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], 0);
	pass(now_ns() + LOCKSHM_SECONDS(2));
	time_was_passed();
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

/* Its barge window would be another thread's by the time of the next outcome: there is none. */
START_TEST(barging_has_no_effect)
{
	hosts_make(1);
	open_loop();
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL | LOCKSHM_BARGE;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], 0);
	pending(&t[1], K, X);
	ck_code(task_release(&t[0]), 0);
	ck_outcome(loop, &t[1], 0);
	ck_assert_uint_gt(t[1].report.token, t[0].report.token);
}
END_TEST

/* ---------------------------------------------------------------- several keys */

START_TEST(several_keys)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("one", 0), LOCKSHM_MANY_KEY(K, 0), LOCKSHM_MANY_KEY("two", 0) };
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	lockshm_hold_t holds[3] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	int i;

	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	task_init(&t[0], "", X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	ck_code(lockshm_loop_acquire_many(loop, &t[0].request, keys, 3, holds, &t[0]), LOCKSHM_PENDING);
	/* K is the first in the order of the keys. */
	wanted_by(1);
	ck_code(agent_release(b), 0);
	while (lockshm_loop_next(loop, &outcome) == 0)
		loop_await(loop);
	ck_code(outcome.status, 0);
	for (i = 0; i < 3; i++)
		ck_code(lockshm_check(&holds[i], NULL), 0);
	ck_redis("1", redis, "EXISTS lk:two");
	ck_code(lockshm_release_many(holds, 3), 0);
	redis_has("EXISTS lk:one lk:two lk:" K, "0");
}
END_TEST

/* ---------------------------------------------------------------- not granted */

START_TEST(out_of_time)
{
	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	t[0].request.timeout_ns = LOCKSHM_MS(600);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], LOCKSHM_TIMEOUT);
	ck_contains(t[0].report.error.message, "other hosts");
	ck_assert_int_eq(t[0].report.blocker.state, 0);
	wanted_by(0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(a, K, X), 0);
}
END_TEST

static int try_it(struct task *task)
{
	task_init(task, K, X);
	task->request.flags = LOCKSHM_GLOBAL;
	task->request.timeout_ns = 0;
	return task_acquire(loop, task);
}

/* It waits for the reply of Redis, and for nothing else. */
START_TEST(tries)
{
	two_hosts();
	ck_code(try_it(&t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], 0);
	ck_code(try_it(&t[1]), LOCKSHM_BUSY);
	ck_code(task_release(&t[0]), 0);
	ck_code(global_wait(b, K, X), 0);
	ck_code(try_it(&t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], LOCKSHM_BUSY);
	ck_contains(t[0].report.error.message, "not free");
	ck_code(agent_release(b), 0);
}
END_TEST

START_TEST(refused)
{
	static char long_key[LOCKSHM_GLOBAL_KEY_MAX + 2];
	struct lockshm_create_options options = host_options();

	hosts_make(1);
	open_loop();
	memset(long_key, 'k', sizeof(long_key) - 1);
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	t[0].request.key = long_key;
	t[0].request.key_len = LOCKSHM_GLOBAL_KEY_MAX + 1;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_KEY_TOO_LONG);
	t[0].request.key_len = LOCKSHM_GLOBAL_KEY_MAX;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], 0);
	ck_code(task_release(&t[0]), 0);
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	t[0].request.redis_policy = 1;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_INVALID);
	options = (struct lockshm_create_options)LOCKSHM_CREATE_INIT;
	host_make_bare(1, &options);
	seg = hosts[1].s;
	loop = loop_new();
	ck_code(begin(&t[0], K, X), LOCKSHM_INVALID);
	ck_contains(t[0].report.error.message, "without Redis");
}
END_TEST

/* ---------------------------------------------------------------- no lease to be had */

START_TEST(no_bridge)
{
	static const int policies[] = { LOCKSHM_REDIS_FAIL, LOCKSHM_REDIS_WAIT, LOCKSHM_REDIS_LOCAL_ONLY };
	static const int codes[] = { LOCKSHM_BRIDGE, LOCKSHM_TIMEOUT, LOCKSHM_LOCAL_ONLY };
	int64_t begun = now_ns();

	bare(policies[_i]);
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	t[0].request.redis_policy = global_policy;
	t[0].request.timeout_ns = LOCKSHM_SECONDS(4);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], codes[_i]);
	ck_assert_int_ge(now_ns() - begun, LOCKSHM_SECONDS(2));
	if (codes[_i] < 0) {
		ck_contains(t[0].report.error.message, "lockshm-bridge");
		return;
	}
	ck_assert_uint_eq(lockshm_token(&t[0].hold), 0);
	ck_assert_uint_eq(t[0].report.token, 0);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(try_it(&t[1]), LOCKSHM_BUSY);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

START_TEST(redis_is_gone)
{
	static const int policies[] = { LOCKSHM_REDIS_FAIL, LOCKSHM_REDIS_LOCAL_ONLY };
	static const int codes[] = { LOCKSHM_BRIDGE, LOCKSHM_LOCAL_ONLY };
	struct lockshm_create_options options;

	own_server();
	options = host_options();
	options.redis_policy = segment_policy(policies[_i]);
	host_make(0, &options);
	open_loop();
	redis_kill(redis);
	pending(&t[0], K, X);
	ck_outcome(loop, &t[0], codes[_i]);
	if (codes[_i] == LOCKSHM_BRIDGE)
		ck_contains(t[0].report.error.message, "cannot connect");
	else
		ck_code(task_release(&t[0]), 0);
	wanted_by(0);
}
END_TEST

START_TEST(redis_comes_back)
{
	struct lockshm_create_options options;

	own_server();
	options = host_options();
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	open_loop();
	redis_kill(redis);
	pending(&t[0], K, X);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_ACQUIRING);
	redis_restart(redis);
	ck_outcome(loop, &t[0], 0);
	ck_assert_uint_gt(t[0].report.token, 0);
}
END_TEST

START_TEST(removed_segment)
{
	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	pending(&t[0], K, X);
	wanted_by(1);
	ck_code(lockshm_destroy(hosts[0].name, NULL), 0);
	ck_outcome(loop, &t[0], LOCKSHM_NO_SEGMENT);
}
END_TEST

/* ---------------------------------------------------------------- ended */

/* In each phase: behind a hold of this host, behind another host, told and not collected. */
static void in_phase(int phase)
{
	two_hosts();
	if (phase == 0)
		ck_code(global_wait(a, K, X), 0);
	else
		ck_code(global_wait(b, K, X), 0);
	pending(&t[0], K, X);
	if (phase == 0)
		return;
	wanted_by(1);
	if (phase == 1)
		return;
	ck_code(agent_release(b), 0);
	loop_await(loop);
}

static void nothing_is_left(int phase)
{
	struct agent *other = phase == 0 ? b : a;

	wanted_by(0);
	if (phase < 2)
		ck_code(agent_release(phase == 0 ? a : b), 0);
	ck_code(global_wait(other, K, X), 0);
	ck_code(agent_release(other), 0);
	redis_has("EXISTS lk:" K, "0");
}

START_TEST(cancelled)
{
	in_phase(_i);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	loop_idle(loop);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), LOCKSHM_NOT_HELD);
	nothing_is_left(_i);
}
END_TEST

START_TEST(closed)
{
	in_phase(_i);
	ck_code(lockshm_loop_close(loop), 0);
	nothing_is_left(_i);
}
END_TEST

START_TEST(by_a_canceller)
{
	lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;

	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	task_init(&t[0], K, X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	t[0].request.canceller = &canceller;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	wanted_by(1);
	task_init(&t[1], "other", X);
	t[1].request.canceller = &canceller;
	ck_code(task_acquire(loop, &t[1]), LOCKSHM_INVALID);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	nothing_is_left(1);
}
END_TEST

/* The hold's memory is awaited, however often its local lease was renewed. */
START_TEST(an_awaited_hold_is_refused)
{
	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	pending(&t[0], K, X);
	wanted_by(1);
	pass(now_ns() + LOCKSHM_MS(800));
	time_was_passed();
	ck_code(lockshm_loop_acquire(loop, &t[0].request, &t[0].hold, &t[0]), LOCKSHM_INVALID);
	ck_contains(t[0].report.error.message, "awaited");
	ck_code(agent_release(b), 0);
	ck_outcome(loop, &t[0], 0);
}
END_TEST

/* R14: another request of the host goes on, and the wait too. */
START_TEST(told_and_not_collected)
{
	two_hosts();
	ck_code(global_wait(b, K, X), 0);
	pending(&t[0], K, X);
	wanted_by(1);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(a, K, X), 0);
	time_was_passed();
	loop_idle(loop);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
}
END_TEST

/* ---------------------------------------------------------------- processes */

/* A process with a loop that waits for K on hosts[0]. */
static int waits_in_a_loop(void)
{
	lockshm_t *s;

	ck_code(lockshm_open(&s, hosts[0].name, 0, NULL), 0);
	seg = s;
	loop = loop_new();
	pending(&t[0], K, X);
	board_add(0, 1);
	if (board_get(1) == 0)
		pause();
	ck_code(task_end(loop, &t[0]), 0);
	board_add(2, 1);
	pause();
	return 0;
}

START_TEST(killed)
{
	pid_t pid;

	cast("01", &a, &b);
	board_new();
	if (_i == 2)
		board_add(1, 1);
	else
		ck_code(global_wait(_i == 0 ? a : b, K, X), 0);
	pid = process_start(waits_in_a_loop);
	board_await(0, 1);
	if (_i == 1)
		wanted_by(1);
	if (_i == 2)
		board_await(2, 1);
	process_kill(pid);
	nothing_is_left(_i);
}
END_TEST

/* Stopped while it waits for the lease: its local lease ends, and the next request of the host goes on. */
START_TEST(stopped)
{
	pid_t pid;

	cast("01", &a, &b);
	board_new();
	ck_code(global_wait(b, K, X), 0);
	pid = process_start(waits_in_a_loop);
	board_await(0, 1);
	wanted_by(1);
	process_stop(pid);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(a, K, X), 0);
	process_kill(pid);
}
END_TEST

static int uses_the_parents(void)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	ck_code(lockshm_loop_next(loop, &outcome), LOCKSHM_NOT_HELD);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_loop_close(loop), LOCKSHM_NOT_HELD);
	loop = loop_new();
	pending(&t[1], "another", X);
	ck_code(task_end(loop, &t[1]), 0);
	return 0;
}

START_TEST(forked)
{
	two_hosts();
	board_new();
	ck_code(global_wait(b, K, X), 0);
	pending(&t[0], K, X);
	wanted_by(1);
	ck_assert_int_eq(process_end(process_start(uses_the_parents)), 0);
	time_was_passed();
	ck_code(agent_release(b), 0);
	ck_outcome(loop, &t[0], 0);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, granted);
	tcase_add_loop_test(tc, told_of_its_loss, 0, 2);
	tcase_add_test(tc, granted_under_a_lease_of_this_host);
	tcase_add_test(tc, granted_after_the_other_host);
	tcase_add_test(tc, readers_wait_for_one_lease);
	tcase_add_test(tc, many_keys_at_once);
	tcase_add_test(tc, renewed_by_the_service_thread);
	tcase_add_test(tc, barging_has_no_effect);
	tcase_add_test(tc, several_keys);
	tcase_add_test(tc, out_of_time);
	tcase_add_test(tc, tries);
	tcase_add_test(tc, refused);
	tcase_add_loop_test(tc, no_bridge, 0, 3);
	tcase_add_loop_test(tc, redis_is_gone, 0, 2);
	tcase_add_test(tc, redis_comes_back);
	tcase_add_test(tc, removed_segment);
	tcase_add_loop_test(tc, cancelled, 0, 3);
	tcase_add_loop_test(tc, closed, 0, 3);
	tcase_add_test(tc, by_a_canceller);
	tcase_add_test(tc, an_awaited_hold_is_refused);
	tcase_add_test(tc, told_and_not_collected);
	tcase_add_loop_test(tc, killed, 0, 3);
	tcase_add_test(tc, stopped);
	tcase_add_test(tc, forked);
}

int main(void)
{
	return hosts_main("global-loop", add_cases);
}
