/* SPDX-License-Identifier: MIT */
/* test-global-policy.c - results of requests while Redis is out of reach; which results apply to which request */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/trample.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hostlease/host-lease.h"

static struct agent *a, *b;
static int64_t connects_take;

/* For the leader of a_slow_leader_reports_it(), too, which is a thread of the test. */
int connect(int fd, const struct sockaddr *at, socklen_t len)
{
	if (connects_take)
		pass(now_ns() + connects_take);
	return (int)syscall(SYS_connect, fd, at, len);
}

static void with_policy(int policy)
{
	struct lockshm_create_options options;

	own_server();
	options = host_options();
	options.redis_policy = segment_policy(policy);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
}

START_TEST(policy_fail)
{
	int64_t begun;

	with_policy(LOCKSHM_REDIS_FAIL);
	redis_kill(redis);
	begun = ran_ns();
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "cannot connect");
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_assert_int_lt(ran_ns() - begun, LOCKSHM_SECONDS(4));
	ck_assert_uint_eq(a->answer.token, 0);
	/* Local keys never notice. */
	ck_code(agent_try(a, "local", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	redis_restart(redis);
	ck_code(agent_release(a), 0);
	/* An outage before the request began is no result for it. */
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(policy_wait)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	with_policy(LOCKSHM_REDIS_WAIT);
	redis_kill(redis);
	args.timeout_ns = LOCKSHM_MS(1200);
	ck_code(agent_do(a, args), LOCKSHM_TIMEOUT);
	ck_contains(a->answer.report.error.message, "cannot connect");
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_ACQUIRING);
	redis_restart(redis);
	ck_code(agent_end(a), 0);
}
END_TEST

static void ends_with(const char *part)
{
	ck_code(a->answer.code, LOCKSHM_TIMEOUT);
	ck_contains(a->answer.report.error.message, part);
	ck_assert_ptr_null(strstr(a->answer.report.error.message, "other hosts"));
}

/* Shorter than any outage that counts.  Other hosts are in the way only if Redis has said so. */
START_TEST(a_short_wait_names_what_is_in_the_way)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	with_policy(LOCKSHM_REDIS_WAIT);
	args.timeout_ns = LOCKSHM_MS(100);
	redis_kill(redis);
	agent_do(a, args);
	ends_with("cannot connect");
	redis_restart(redis);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	redis_has("EXISTS lk:" K, "0");
	/* What was in the way is not any more. */
	ck_redis("OK", redis, "CONFIG SET min-replicas-to-write 1");
	agent_do(a, args);
	ends_with("NOREPLICAS");
	ck_redis("OK", redis, "CONFIG SET min-replicas-to-write 0");
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	redis_has("EXISTS lk:" K, "0");
	/* Within the time in which a bridge counts as running. */
	bridge_freeze(0);
	agent_do(a, args);
	ends_with("has no lease from Redis yet");
	args.timeout_ns = LOCKSHM_MS(1200);
	bridge_kill(0);
	agent_do(a, args);
	ends_with("start one with \"lockshm-bridge ");
}
END_TEST

/* Also to a request that comes after the reply, and ends before the next command. */
START_TEST(a_short_wait_names_the_host)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	int i;

	own_server();
	cast("01", &a, &b);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 1000; i++) {
		args.timeout_ns = LOCKSHM_MS(1 + i % 30);
		ck_code(agent_do(a, args), LOCKSHM_TIMEOUT);
		if (strstr(a->answer.report.error.message, "not granted in time, other hosts; 0.") &&
		    strstr(a->answer.report.error.message, " s ago: another host holds it: "))
			return;
	}
	ck_abort_msg("%s", a->answer.report.error.message);
}
END_TEST

START_TEST(policy_local_only)
{
	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	redis_kill(redis);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_LOCAL_ONLY);
	ck_assert_uint_eq(a->answer.token, 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY); /* it is held on this host */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	redis_restart(redis);
	while (global_wait(b, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_LOCAL_ONLY)
		ck_code(agent_release(b), 0);
	ck_code(b->answer.code, 0);
	ck_assert_uint_gt(b->answer.token, 0);
}
END_TEST

static int with_own_policy(struct agent *agent, int policy, int64_t timeout_ns)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	args.policy = policy;
	args.timeout_ns = timeout_ns;
	return agent_do(agent, args);
}

/* The request's, whatever the segment's is. */
START_TEST(a_policy_of_its_own)
{
	static const int policies[] = { LOCKSHM_REDIS_FAIL, LOCKSHM_REDIS_WAIT };
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	uint64_t errors;

	with_policy(policies[_i]);
	redis_kill(redis);
	ck_code(with_own_policy(a, LOCKSHM_REDIS_FAIL, 0), LOCKSHM_BRIDGE);
	errors = bridge_of(0).errors;
	ck_code(with_own_policy(a, LOCKSHM_REDIS_WAIT, LOCKSHM_MS(1200)), LOCKSHM_TIMEOUT);
	/* Not retried without a pause while there is no server. */
	ck_assert_uint_lt(bridge_of(0).errors - errors, 100);
	ck_code(with_own_policy(a, LOCKSHM_REDIS_WAIT, AGENT_TRY), LOCKSHM_BRIDGE);
	ck_code(with_own_policy(a, LOCKSHM_REDIS_LOCAL_ONLY, 0), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_release(a), 0);
	ck_code(with_own_policy(a, 1, 0), LOCKSHM_INVALID);
	ck_code(with_own_policy(a, 5, 0), LOCKSHM_INVALID);
	args.policy = LOCKSHM_REDIS_WAIT;
	agent_send(a, args);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_ACQUIRING);
	redis_restart(redis);
	ck_code(agent_end(a), 0);
	ck_assert_uint_gt(a->answer.token, 0);
}
END_TEST

static void *acquires_one(void *key)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	q.key = key;
	q.key_len = strlen(key);
	q.flags = LOCKSHM_GLOBAL;
	q.timeout_ns = LOCKSHM_SECONDS(8);
	return lockshm_acquire(hosts[0].s, &q, &hold) == LOCKSHM_BRIDGE ? key : NULL;
}

#define MANY 200

/* For each 64 of them the leader waits for replicas in vain, which takes longer than its leadership lasts, and there is
 * a standby. */
START_TEST(many_get_the_result)
{
	struct lockshm_create_options options = host_options();
	static char keys[MANY][8];
	pthread_t threads[MANY];
	void *result;
	int i;

	options.redis_wait = 1;
	/* More than enough: a key does not fit in every record, and a thread keeps some requests of its own. */
	options.host_leases = options.keys = 4096;
	options.owners = 512;
	options.requests = 65536;
	host_make(0, &options);
	(void)bridge_standby(0);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	for (i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, acquires_one, keys[i]), 0);
	}
	for (i = 0; i < MANY; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert_ptr_eq(result, keys[i]);
	}
}
END_TEST

/* Each round outlasts the leadership, which no standby takes: it still leads. */
START_TEST(a_slow_leader_reports_it)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct bridge_service bridge;

	own_server();
	hosts_make(1);
	redis_kill(redis);
	a = on_host(0);
	connects_take = LOCKSHM_MS(350);
	bridge_service_start(&bridge, 0);
	args.timeout_ns = LOCKSHM_SECONDS(8);
	ck_code(agent_do(a, args), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "cannot connect");
	bridge_service_stop(&bridge);
}
END_TEST

/* Of several keys: one under a held lease, after a dead holder, the other on this host only.  The key is robust by requests
 * of this host alone. */
START_TEST(local_only_outranks_damage)
{
	struct lockshm_create_options options;
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("k1", 0), LOCKSHM_MANY_KEY("k2", 0) };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };

	own_server();
	options = host_options();
	options.redis_policy = segment_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	options.redis_retain_ns = LOCKSHM_SECONDS(5);
	host_make(0, &options);
	q.flags = LOCKSHM_GLOBAL;
	q.timeout_ns = PATIENCE;
	q.report = &report;
	a = on_host(0);
	ck_code(agent_try(a, "k1", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(a, "k1", LOCKSHM_EXCLUSIVE), 0);
	redis_kill(redis);
	agent_kill(a);
	q.redis_policy = LOCKSHM_REDIS_LOCAL_ONLY;
	ck_code(lockshm_acquire_many(hosts[0].s, &q, keys, 2, holds), LOCKSHM_LOCAL_ONLY);
	ck_assert_int_eq(report.damage.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(report.damage.pid, a->pid);
	ck_code(lockshm_release_many(holds, 2), 0);
}
END_TEST

/* A token of this host only would look like one of all hosts. */
START_TEST(local_only_has_no_token)
{
	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	ck_code(agent_try(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	redis_kill(redis);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_call(a, AGENT_UPGRADE), 0);
	ck_assert_uint_eq(a->answer.token, 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(a->answer.token, 0);
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_call(a, AGENT_UPGRADE), LOCKSHM_BUSY);
	ck_code(agent_release(b), 0);
	ck_code(agent_call(a, AGENT_UPGRADE), 0);
	ck_assert_uint_eq(a->answer.token, 0);
	/* Its loss is recorded with its present ticket, as a request of this host made the key robust. */
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	agent_kill(a);
	ck_code(agent_end(b), LOCKSHM_LOCAL_ONLY);
	ck_assert_int_eq(b->answer.report.damage.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(b->answer.report.damage.pid, a->pid);
}
END_TEST

START_TEST(local_only_that_is_lost)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	redis_kill(redis);
	args.ns = LOCKSHM_MS(50);
	args.policy = LOCKSHM_REDIS_LOCAL_ONLY;
	ck_code(agent_do(a, args), LOCKSHM_LOCAL_ONLY);
	ck_assert_int_ge(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_uint_eq(a->answer.lost_to, 0); /* the other has no token either */
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

/* ---------------------------------------------------------------- replies on their way */

/*
 * a's command meets foreign data, which is deleted while the reply is on its way; then b begins.  False = something
 * else came between: the reply was too late for a, or the server's reply was another.
 */
static bool got_old_result(struct proxy *p)
{
	long count;
	bool old;

	ck_redis("1", redis, "HSET lk:" K " user data");
	count = proxy_set(p, PROXY_COUNT);
	proxy_set(p, PROXY_HOLD_REPLIES);
	global_send(a, K, LOCKSHM_SHARED);
	while (proxy_set(p, PROXY_COUNT) == count)
		;
	ck_redis("1", redis, "DEL lk:" K);
	global_send(b, K, LOCKSHM_SHARED);
	wanted_by(2);
	proxy_set(p, PROXY_PASS);
	old = agent_end(a) == LOCKSHM_BRIDGE && strstr(a->answer.report.error.message, "not a lock");
	(void)agent_end(b);
	return old;
}

START_TEST(no_result_of_an_earlier_command)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, false);
	int tries = 0;

	strcpy(options.redis, p->uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0); /* connected by now */
	ck_code(agent_release(b), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	while (!got_old_result(p)) {
		ck_assert_int_lt(tries++, 20);
		(void)agent_release(a);
		(void)agent_release(b);
		lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	}
	ck_code(b->answer.code, 0);
}
END_TEST

/* A leader that was stopped with a reply in hand stores its result after later requests began. */
START_TEST(no_result_of_a_stopped_leader)
{
	struct lockshm_create_options options = host_options();
	struct shm_host_lease *r;
	int64_t before;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make(0, &options);
	b = on_host(0);
	ck_redis("OK", redis, "SET lk:" K " thief");
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	bridge_freeze(0);
	r = &hosts[0].s->host_leases[record_of(0, K)];
	store_release(&r->last_result, UINT64_MAX); /* damage must not hide results */
	before = host_now(hosts[0].s);
	a = on_host(0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	wanted_by(1);
	host_lease_store_result(hosts[0].s, r, RESULT_LASTS, before, 0, "asked before");
	host_lease_store_result(hosts[0].s, r, RESULT_LASTS, host_now(hosts[0].s), 0, "asked since");
	host_lease_store_result(hosts[0].s, r, RESULT_LASTS, before, 0, "asked before");
	ck_code(agent_end(a), LOCKSHM_BRIDGE);
	ck_assert_str_eq(a->answer.report.error.message, "asked since");
}
END_TEST

/* What a leader has written that is stopped before its last store: blocker and text, and perhaps their seal. */
static void store_result_partly(struct shm_host_lease *r, int code, int64_t asked, int64_t until, const char *why,
				bool sealed)
{
	static struct shm_host_lease all;
	size_t i;

	memset(&all, 0, sizeof(all));
	host_lease_store_result(hosts[0].s, &all, code, asked, until, why);
	store_release(&r->blocked, all.blocked);
	for (i = 0; i < HOST_LEASE_REASON_WORDS; i++)
		store_release(&r->reason[i], all.reason[i]);
	if (sealed)
		store_release(&r->reason_seal, all.reason_seal);
}

static bool is_foreign(void *arg)
{
	(void)arg;
	return strstr(lease_of(0, K).why, "another program") != NULL;
}

/* A leader that was stopped while storing "blocked for ever" writes over its successor's result. */
START_TEST(not_blocked_by_a_stopped_leader)
{
	struct lockshm_create_options options = host_options();
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	int64_t before, end;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make(0, &options);
	a = on_host(0);
	before = host_now(hosts[0].s);
	ck_redis("OK", redis, "SET lk:" K " thief PX 3000");
	args.flags |= LOCKSHM_ONLY_IF_FREE_IN_TIME;
	args.timeout_ns = LOCKSHM_SECONDS(15);
	agent_send(a, args);
	ck_assert(await(is_foreign, NULL));
	bridge_freeze(0);
	store_result_partly(&hosts[0].s->host_leases[record_of(0, K)], RESULT_BUSY, before, INT64_MAX, "asked before",
			    _i);
	/* It looks every 50 ms. */
	for (end = now_ns() + LOCKSHM_MS(200); now_ns() < end; pass(now_ns() + LOCKSHM_MS(5)))
		ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	bridge_thaw(0);
	ck_code(agent_end(a), 0);
}
END_TEST

/* Nor is its text quoted, even of another key. */
START_TEST(no_text_of_a_stopped_leader)
{
	struct lockshm_create_options options = host_options();
	struct shm_host_lease *r, successor;
	int64_t before;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make(0, &options);
	b = on_host(0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	bridge_freeze(0);
	r = &hosts[0].s->host_leases[record_of(0, K)];
	before = host_now(hosts[0].s);
	a = on_host(0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	wanted_by(1);
	/* The successor's text, the stopped leader's, and then the successor's last store. */
	memset(&successor, 0, sizeof(successor));
	host_lease_store_result(hosts[0].s, &successor, RESULT_LASTS, host_now(hosts[0].s), 0, "asked since");
	store_result_partly(r, RESULT_LASTS, result_asked(successor.last_result), 0, "asked since", true);
	store_result_partly(r, RESULT_LASTS, before, 0, "asked before", _i);
	store_release(&r->last_result, successor.last_result);
	host_lease_signal(r);
	ck_code(agent_end(a), LOCKSHM_BRIDGE);
	ck_assert_str_eq(a->answer.report.error.message, "Redis refuses it");
}
END_TEST

/* Host 0 with room for one key, and a server whose replies can be held back. */
static struct proxy *host_of_one_key(void)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, false);

	strcpy(options.redis, p->uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	options.host_leases = 1;
	host_make(0, &options);
	a = on_host(0);
	return p;
}

/* A blocker of an earlier request. */
START_TEST(not_blocked_by_what_is_over)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct proxy *p = host_of_one_key();
	int64_t end;

	args.flags |= LOCKSHM_ONLY_IF_FREE_IN_TIME;
	args.timeout_ns = LOCKSHM_SECONDS(5);
	ck_redis("OK", redis, "SET lk:" K " thief");
	ck_code(agent_do(a, args), LOCKSHM_BUSY);
	ck_contains(a->answer.report.error.message, "another program holds it in Redis");
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_redis("1", redis, "DEL lk:" K);
	proxy_set(p, PROXY_HOLD_REPLIES);
	agent_send(a, args);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_ACQUIRING);
	/* It looks every 50 ms; a leader waits five times as long for a reply. */
	for (end = now_ns() + LOCKSHM_MS(120); now_ns() < end; pass(now_ns() + LOCKSHM_MS(5)))
		ck_assert_int_ne(lease_of(0, K).state, LOCKSHM_HOST_LEASE_NONE);
	proxy_set(p, PROXY_PASS);
	ck_code(agent_end(a), 0);
}
END_TEST

/* Nor is it the reason of a time-out. */
START_TEST(no_reason_of_another_command)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct proxy *p = host_of_one_key();

	ck_redis("1", redis, "HSET lk:" K " user data");
	ck_code(agent_do(a, args), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "not a lock");
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_contains(lease_of(0, K).why, "not a lock");
	ck_redis("1", redis, "DEL lk:" K);
	proxy_set(p, PROXY_HOLD_REPLIES);
	if (_i)
		args = global_command("other", LOCKSHM_EXCLUSIVE);
	args.timeout_ns = LOCKSHM_MS(100);
	ck_code(agent_do(a, args), LOCKSHM_TIMEOUT);
	ck_assert_ptr_null(strstr(a->answer.report.error.message, "not a lock"));
	if (_i)
		ck_assert_str_eq(lease_of(0, "other").why, "");
	proxy_set(p, PROXY_PASS);
}
END_TEST

START_TEST(one_word_of_a_hold_written_over)
{
	lockshm_hold_t hold, other, earlier = LOCKSHM_HOLD_INIT;
	struct lockshm_request request;

	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	redis_kill(redis);
	seg = hosts[0].s;
	request = request_for(K, LOCKSHM_EXCLUSIVE);
	request.flags = LOCKSHM_GLOBAL;
	request.redis_policy = LOCKSHM_REDIS_LOCAL_ONLY;
	request.timeout_ns = PATIENCE;
	request.ttl_ns = LOCKSHM_SECONDS(60);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_LOCAL_ONLY);
	ck_code(take(&other, "other", LOCKSHM_EXCLUSIVE), 0);
	trample_kind = "local only";
	trample(&hold, &other, &earlier);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_release(&other, 0), 0);
	seg = NULL;
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, policy_fail);
	tcase_add_test(tc, policy_wait);
	tcase_add_test(tc, many_get_the_result);
	tcase_add_test(tc, a_slow_leader_reports_it);
	tcase_add_test(tc, a_short_wait_names_what_is_in_the_way);
	tcase_add_test(tc, a_short_wait_names_the_host);
	tcase_add_test(tc, policy_local_only);
	tcase_add_loop_test(tc, a_policy_of_its_own, 0, 2);
	tcase_add_test(tc, local_only_outranks_damage);
	tcase_add_test(tc, local_only_has_no_token);
	tcase_add_test(tc, local_only_that_is_lost);
	tcase_add_test(tc, no_result_of_an_earlier_command);
	tcase_add_test(tc, no_result_of_a_stopped_leader);
	tcase_add_loop_test(tc, not_blocked_by_a_stopped_leader, 0, 2);
	tcase_add_loop_test(tc, no_text_of_a_stopped_leader, 0, 2);
	tcase_add_test(tc, not_blocked_by_what_is_over);
	tcase_add_loop_test(tc, no_reason_of_another_command, 0, 2);
	tcase_add_test(tc, one_word_of_a_hold_written_over);
}

int main(void)
{
	return hosts_main("global-policy", add);
}
