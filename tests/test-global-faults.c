/* SPDX-License-Identifier: MIT */
/* test-global-faults.c - Redis that is away, slow, emptied, robbed or refuses; several servers; bad settings */
#define _GNU_SOURCE
#include "hosts.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../src/remote.h"

static struct agent *a, *b, *c;
static uint64_t token; /* of a hold that was taken away */

/* ---------------------------------------------------------------- the lease is taken away */

static void one_holder(void)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}

/* Told at once, and for good; the next here goes through Redis again. */
static void is_robbed(const char *command)
{
	int64_t done;

	one_holder();
	token = a->answer.token;
	redis_say(redis, "%s", command);
	done = now_ns();
	lost_is_told(a);
	ck_assert_int_lt(now_ns() - done, LOCKSHM_MS(250)); /* the next renewal would be due after 333 ms */
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_assert_uint_eq(bridge_of(0).lost, 1);
}

START_TEST(flushed)
{
	is_robbed("FLUSHALL");
	ck_assert_int_ge(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0); /* marked, if the bridge was faster than a */
	ck_assert_uint_gt(b->answer.token, token);
}
END_TEST

START_TEST(deleted)
{
	is_robbed("DEL lk:" K);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(stolen)
{
	is_robbed("SET lk:" K " thief");
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_contains(c->answer.report.error.message, "another program");
	ck_redis("thief", redis, "GET lk:" K);
	/* What came in its way is not touched, and when it goes the next is told at once. */
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_redis("1", redis, "DEL lk:" K);
	ck_assert_int_ge(agent_end(b), 0);
}
END_TEST

START_TEST(a_waiter_here_is_not_left_behind_a_lost_hold)
{
	one_holder();
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	ck_redis("OK", redis, "FLUSHALL");
	ck_code(agent_end(b), LOCKSHM_TOOK_OVER_EXPIRED); /* although a has 30 s by its own lease */
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
}
END_TEST

/* ---- the bridge short of memory, at the worst moment */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OTHERS_MALLOC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define OTHERS_MALLOC
#endif
#endif
#ifndef OTHERS_MALLOC
static struct service service;
static bool short_of_memory;
static unsigned refused;

void *__libc_malloc(size_t size);
void *malloc(size_t size);

/* For the thread that is the bridge of hosts[0] there is none while a test says so. */
void *malloc(size_t size)
{
	if (__atomic_load_n(&short_of_memory, __ATOMIC_ACQUIRE) && pthread_equal(pthread_self(), service.thread)) {
		__atomic_add_fetch(&refused, 1, __ATOMIC_RELEASE);
		return NULL;
	}
	return __libc_malloc(size);
}

static bool was_refused(void *arg)
{
	(void)arg;
	return __atomic_load_n(&refused, __ATOMIC_ACQUIRE) > 2;
}

/* What cannot be ended now is ended later: the lease is not forgotten before. */
START_TEST(a_hold_that_could_not_be_ended_is_ended_later)
{
	struct agent_command strict = global_command(K, LOCKSHM_EXCLUSIVE);

	hosts_make(1);
	service_start(&service, 0);
	a = on_host(0);
	b = on_host(0);
	strict.ns = 0;
	ck_code(agent_do(a, strict), 0);
	agent_send(b, strict);
	waits_on_host(b, 0, K);
	/* The lease is over as for any process that looks. */
	__atomic_store_n(&short_of_memory, true, __ATOMIC_RELEASE);
	store_release(&hosts[0].s->remotes[record_of(0, K)].valid_until, 1);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert(await(was_refused, NULL));
	__atomic_store_n(&short_of_memory, false, __ATOMIC_RELEASE);
	ck_code(agent_end(b), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(a), LOCKSHM_LOST);
	service_stop(&service);
}
END_TEST
#define add_without_memory(tc) tcase_add_test(tc, a_hold_that_could_not_be_ended_is_ended_later)
#else
#define add_without_memory(tc) (void)(tc)
#endif

START_TEST(readers_are_robbed_together)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	ck_redis("1", redis, "SREM lk:" K " %s", lease_of(0, K).value);
	lost_is_told(a);
	lost_is_told(b);
	ck_code(agent_call(c, AGENT_CHECK), 0);
}
END_TEST

/* ---------------------------------------------------------------- the server is away */

START_TEST(killed_while_held)
{
	int64_t killed;

	own_server();
	one_holder();
	killed = now_ns();
	redis_kill(redis);
	/* Good until its end, which is known; no longer. */
	while (agent_call(a, AGENT_CHECK) == 0)
		ck_assert_int_lt(now_ns() - killed, LOCKSHM_MS(1100));
	ck_code(a->answer.code, LOCKSHM_LOST);
	ck_assert_int_gt(now_ns() - killed, LOCKSHM_MS(400)); /* it had been renewed when 1/3 was over */
	ck_code(agent_release(a), LOCKSHM_LOST);
	redis_restart(redis);
	while (global_wait(a, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(now_ns() - killed, LOCKSHM_SECONDS(15));
	ck_assert_int_ge(a->answer.code, 0);
}
END_TEST

START_TEST(back_in_time_with_what_it_knew)
{
	own_server();
	one_holder();
	redis_freeze(redis);
	pass(now_ns() + LOCKSHM_MS(300));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_thaw(redis);
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
}
END_TEST

START_TEST(restarted_without_memory)
{
	own_server();
	one_holder();
	redis_kill(redis);
	redis_restart(redis);
	lost_is_told(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, a->answer.token);
}
END_TEST

static void with_policy(int policy)
{
	struct lockshm_create_options options;

	own_server();
	options = host_options();
	options.redis_policy = policy;
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
}

START_TEST(policy_fail)
{
	int64_t begun;

	with_policy(LOCKSHM_REDIS_FAIL);
	redis_kill(redis);
	begun = now_ns();
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "cannot connect");
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(4));
	ck_assert_uint_eq(a->answer.token, 0);
	/* Local keys never notice. */
	ck_code(agent_try(a, "local", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	redis_restart(redis);
	ck_code(agent_release(a), 0);
	while (global_wait(a, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(15));
	ck_code(a->answer.code, 0);
}
END_TEST

START_TEST(policy_wait)
{
	struct agent_command wish = global_command(K, LOCKSHM_EXCLUSIVE);

	with_policy(LOCKSHM_REDIS_WAIT);
	redis_kill(redis);
	wish.timeout_ns = LOCKSHM_MS(1200);
	ck_code(agent_do(a, wish), LOCKSHM_TIMEOUT);
	ck_contains(a->answer.report.error.message, "cannot connect");
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	lease_becomes(0, K, LOCKSHM_LEASE_ACQUIRING);
	redis_restart(redis);
	ck_code(agent_end(a), 0);
}
END_TEST

START_TEST(policy_local_only)
{
	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	redis_kill(redis);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_LOCAL_ONLY);
	ck_assert_uint_eq(a->answer.token, 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY); /* on this host it is held */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	redis_restart(redis);
	while (global_wait(b, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_LOCAL_ONLY)
		ck_code(agent_release(b), 0);
	ck_code(b->answer.code, 0);
	ck_assert_uint_gt(b->answer.token, 0);
}
END_TEST

static int with_own_policy(struct agent *who, int policy, int64_t timeout_ns)
{
	struct agent_command wish = global_command(K, LOCKSHM_EXCLUSIVE);

	wish.policy = policy;
	wish.timeout_ns = timeout_ns;
	return agent_do(who, wish);
}

/* Of the request, whatever the segment's is. */
START_TEST(a_policy_of_its_own)
{
	static const int policies[] = { LOCKSHM_REDIS_FAIL, LOCKSHM_REDIS_WAIT, LOCKSHM_REDIS_LOCAL_ONLY };
	struct agent_command wish = global_command(K, LOCKSHM_EXCLUSIVE);
	uint64_t errors;

	with_policy(policies[_i]);
	redis_kill(redis);
	ck_code(with_own_policy(a, LOCKSHM_REDIS_FAIL, 0), LOCKSHM_BRIDGE);
	errors = bridge_of(0).errors;
	ck_code(with_own_policy(a, LOCKSHM_REDIS_WAIT, LOCKSHM_MS(1200)), LOCKSHM_TIMEOUT);
	/* Not asked again and again while nobody is there. */
	ck_assert_uint_lt(bridge_of(0).errors - errors, 100);
	ck_code(with_own_policy(a, LOCKSHM_REDIS_WAIT, AGENT_TRY), LOCKSHM_BRIDGE);
	ck_code(with_own_policy(a, LOCKSHM_REDIS_LOCAL_ONLY, 0), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_release(a), 0);
	ck_code(with_own_policy(a, 1, 0), LOCKSHM_INVALID);
	ck_code(with_own_policy(a, 5, 0), LOCKSHM_INVALID);
	wish.policy = LOCKSHM_REDIS_WAIT;
	agent_send(a, wish);
	lease_becomes(0, K, LOCKSHM_LEASE_ACQUIRING);
	redis_restart(redis);
	ck_code(agent_end(a), 0);
	ck_assert_uint_gt(a->answer.token, 0);
}
END_TEST

/* Of several keys: one under a lease that goes on, with a dead holder behind it, the other of this host alone. */
START_TEST(local_only_is_worse_than_a_mark)
{
	struct lockshm_create_options options;
	struct lockshm_key keys[] = { { "k1", 2, 0 }, { "k2", 2, 0 } };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report;
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };

	own_server();
	options = host_options();
	options.redis_policy = LOCKSHM_REDIS_LOCAL_ONLY;
	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	options.redis_linger_ns = LOCKSHM_SECONDS(5);
	host_make(0, &options);
	q.flags = LOCKSHM_GLOBAL;
	q.timeout_ns = PATIENCE;
	q.report = &report;
	/* This process is the bridge. */
	ck_code(lockshm_acquire_many(hosts[0].s, &q, keys, 1, holds), 0);
	ck_code(lockshm_release_many(holds, 1), 0);
	a = on_host(0);
	ck_code(global_wait(a, "k1", LOCKSHM_EXCLUSIVE), 0);
	redis_kill(redis);
	agent_kill(a);
	ck_code(lockshm_acquire_many(hosts[0].s, &q, keys, 2, holds), LOCKSHM_LOCAL_ONLY);
	ck_assert_int_eq(report.previous.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(report.previous.pid, a->pid);
	ck_code(lockshm_release_many(holds, 2), 0);
}
END_TEST

/* A number of this host alone would look like one of all hosts. */
START_TEST(local_only_has_no_token)
{
	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
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
	/* Its death is told with the ticket it has now. */
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	agent_kill(a);
	ck_code(agent_end(b), LOCKSHM_LOCAL_ONLY);
	ck_assert_int_eq(b->answer.report.previous.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(b->answer.report.previous.pid, a->pid);
}
END_TEST

START_TEST(local_only_that_is_lost)
{
	struct agent_command wish = global_command(K, LOCKSHM_EXCLUSIVE);

	with_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	redis_kill(redis);
	wish.ns = LOCKSHM_MS(50);
	ck_code(agent_do(a, wish), LOCKSHM_LOCAL_ONLY);
	ck_assert_int_ge(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_uint_eq(a->answer.lost_to, 0); /* the other has no token either */
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

/* How long the token may be in Redis is counted from the last renewal, too. */
START_TEST(a_release_waits_for_its_server)
{
	struct lockshm_create_options options;
	int64_t end;

	own_server();
	options = host_options();
	options.redis_ttl_ns = LOCKSHM_SECONDS(2);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	pass(now_ns() + LOCKSHM_MS(3500)); /* longer than a token stays that was asked for once */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_freeze(redis);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_LEASE_RELEASING);
	end = now_ns() + LOCKSHM_MS(900);
	while (now_ns() < end)
		ck_assert_int_eq(lease_of(0, K).state, LOCKSHM_LEASE_RELEASING);
	redis_thaw(redis);
	lease_becomes(0, K, LOCKSHM_LEASE_NONE);
	ck_redis("0", redis, "EXISTS lk:" K);
}
END_TEST

/* A server that does not answer is as one that is away; nothing of the attempt stays. */
START_TEST(frozen_at_an_acquire)
{
	with_policy(LOCKSHM_REDIS_FAIL);
	ck_code(global_wait(a, "other", LOCKSHM_EXCLUSIVE), 0);
	redis_freeze(redis);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	redis_thaw(redis);
	redis_has("EXISTS lk:" K, "0");
	redis_has("ZCARD {lk:" K "}:q", "0");
}
END_TEST

START_TEST(lost_replies)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, false);
	int i;

	options.redis = p->uri;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	for (i = 0; i < 6; i++) {
		struct agent *who = i % 2 ? a : b;

		proxy_set(p, PROXY_DROP_REPLIES);
		global_send(who, K, LOCKSHM_EXCLUSIVE);
		lease_becomes(who == b, K, LOCKSHM_LEASE_ACQUIRING);
		proxy_set(p, PROXY_RESET);
		proxy_set(p, PROXY_PASS);
		ck_code(agent_end(who), 0);
		ck_redis(lease_of(who == b, K).value, redis, "GET lk:" K);
		proxy_set(p, PROXY_RESET);
		ck_code(agent_call(who, AGENT_CHECK), 0);
		ck_code(agent_release(who), 0);
		lease_becomes(who == b, K, LOCKSHM_LEASE_NONE);
		ck_redis("0", redis, "EXISTS lk:" K);
	}
}
END_TEST

/* ---------------------------------------------------------------- it refuses */

START_TEST(data_of_others)
{
	cast("0", &a);
	ck_redis("1", redis, "HSET lk:" K " user data");
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "not a lock");
	ck_redis("data", redis, "HGET lk:" K " user");
	ck_code(global_wait(a, "other", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(no_rights)
{
	struct lockshm_create_options options = host_options();
	char uri[200];

	snprintf(uri, sizeof(uri), "unix://nobody@%s?password-env=NO_SUCH_VARIABLE", redis->socket);
	options.redis = uri;
	options.redis_policy = LOCKSHM_REDIS_LOCAL_ONLY; /* which is no excuse for this */
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "NO_SUCH_VARIABLE");
}
END_TEST

START_TEST(no_such_database)
{
	struct lockshm_create_options options = host_options();
	char uri[200];

	snprintf(uri, sizeof(uri), "%s?db=99", redis->uri);
	options.redis = uri;
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "DB index");
}
END_TEST

static int create_with(void (*change)(struct lockshm_create_options *o), struct lockshm_error *error)
{
	struct lockshm_create_options options = host_options();

	change(&options);
	return lockshm_create(NULL, "lockshm-hosts-none", &options, error);
}

static void password(struct lockshm_create_options *o)
{
	o->redis = "redis://user:secret@localhost";
}

static void tls(struct lockshm_create_options *o)
{
	o->redis = "rediss://localhost";
}

static void twice(struct lockshm_create_options *o)
{
	o->redis = "redis://localhost,redis://localhost/3";
}

static void two(struct lockshm_create_options *o)
{
	o->redis = "redis://one,redis://two";
	o->flags = LOCKSHM_CREATE_REDIS_QUORUM;
}

static void nonsense(struct lockshm_create_options *o)
{
	o->redis = "localhost:6379";
}

static void short_ttl(struct lockshm_create_options *o)
{
	o->redis_ttl_ns = LOCKSHM_MS(999);
}

static void long_linger(struct lockshm_create_options *o)
{
	o->redis_linger_ns = o->redis_ttl_ns;
}

static void many_leases(struct lockshm_create_options *o)
{
	o->redis_leases = 4097;
}

static void no_policy(struct lockshm_create_options *o)
{
	o->redis_policy = 1;
}

static void no_server(struct lockshm_create_options *o)
{
	o->redis = NULL;
	o->redis_prefix = "p";
}

START_TEST(bad_settings)
{
	static const struct {
		void (*change)(struct lockshm_create_options *o);
		const char *says;
	} cases[] = {
		{ password, "password" }, { tls, "TLS" },	     { twice, "same" },		 { two, "quorum" },
		{ nonsense, "URI" },	  { short_ttl, "one second" }, { long_linger, "linger" }, { many_leases, "1..4096" },
		{ no_policy, "policy" },  { no_server, "no Redis server" },
	};
	struct lockshm_error error;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_code(create_with(cases[i].change, &error), LOCKSHM_INVALID);
		ck_contains(error.message, cases[i].says);
		ck_assert_ptr_null(strstr(error.message, "secret"));
	}
	ck_code(lockshm_open(&seg, "lockshm-hosts-none", 0, NULL), LOCKSHM_NO_SEGMENT);
}
END_TEST

START_TEST(bad_requests)
{
	struct lockshm_create_options plain = LOCKSHM_CREATE_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char key[LOCKSHM_GLOBAL_KEY_MAX + 1];
	lockshm_prepared_t prepared;

	memset(key, 'k', sizeof(key));
	hosts_make(1);
	q.flags = LOCKSHM_GLOBAL;
	q.report = &report;
	q.key = key;
	q.key_len = sizeof(key);
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), LOCKSHM_KEY_TOO_LONG);
	q.key_len--;
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_prepare(hosts[0].s, &prepared, K, sizeof(K) - 1), 0);
	q.prepared = &prepared;
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), LOCKSHM_INVALID);
	ck_contains(report.error.message, "prepared");
	q.prepared = NULL;
	host_make(1, &plain);
	ck_code(lockshm_acquire(hosts[1].s, &q, &hold), LOCKSHM_INVALID);
	ck_contains(report.error.message, "--redis");
	q.key = "\0lockshm bridge";
	q.key_len = 15;
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), LOCKSHM_INVALID);
}
END_TEST

START_TEST(more_keys_than_leases)
{
	struct lockshm_create_options options = host_options();
	struct agent_command wish = global_command("", LOCKSHM_EXCLUSIVE);
	int i;

	options.redis_leases = 2;
	host_make(0, &options);
	a = on_host(0);
	for (i = 0; i < 3; i++) {
		snprintf(wish.key, sizeof(wish.key), "k%d", i);
		wish.hold = i;
		ck_code(agent_do(a, wish), i < 2 ? 0 : LOCKSHM_FULL);
	}
	ck_contains(a->answer.report.error.message, "redis_leases");
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = 0 }), 0);
	lease_becomes(0, "k0", LOCKSHM_LEASE_NONE);
	ck_code(agent_do(a, wish), 0);
	redis_has("EXISTS lk:k0 lk:k1 lk:k2", "2");
}
END_TEST

/* ---------------------------------------------------------------- several servers */

START_TEST(each_key_has_its_server)
{
	struct lockshm_create_options options = host_options();
	struct redis *second = redis_start(NULL, false);
	char uris[300], key[16];
	int i, n = 0;

	snprintf(uris, sizeof(uris), "%s,%s", redis->uri, second->uri);
	options.redis = uris;
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	for (i = 0; i < 12; i++) {
		struct agent_command wish;

		snprintf(key, sizeof(key), "key%d", i);
		wish = global_command(key, LOCKSHM_EXCLUSIVE);
		wish.hold = i;
		ck_code(agent_do(a, wish), 0);
		ck_code(global_try(b, key, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
		n += strcmp(redis_say(second, "EXISTS lk:%s", key), "1") == 0;
	}
	ck_assert_int_gt(n, 0);
	ck_assert_int_lt(n, 12);
	redis_stop(second);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, flushed);
	tcase_add_test(tc, deleted);
	tcase_add_test(tc, stolen);
	tcase_add_test(tc, a_waiter_here_is_not_left_behind_a_lost_hold);
	add_without_memory(tc);
	tcase_add_test(tc, readers_are_robbed_together);
	tcase_add_test(tc, killed_while_held);
	tcase_add_test(tc, back_in_time_with_what_it_knew);
	tcase_add_test(tc, restarted_without_memory);
	tcase_add_test(tc, policy_fail);
	tcase_add_test(tc, policy_wait);
	tcase_add_test(tc, policy_local_only);
	tcase_add_loop_test(tc, a_policy_of_its_own, 0, 3);
	tcase_add_test(tc, local_only_is_worse_than_a_mark);
	tcase_add_test(tc, local_only_has_no_token);
	tcase_add_test(tc, local_only_that_is_lost);
	tcase_add_test(tc, a_release_waits_for_its_server);
	tcase_add_test(tc, frozen_at_an_acquire);
	tcase_add_test(tc, lost_replies);
	tcase_add_test(tc, data_of_others);
	tcase_add_test(tc, no_rights);
	tcase_add_test(tc, no_such_database);
	tcase_add_test(tc, bad_settings);
	tcase_add_test(tc, bad_requests);
	tcase_add_test(tc, more_keys_than_leases);
	tcase_add_test(tc, each_key_has_its_server);
}

int main(void)
{
	return hosts_main("global-faults", add);
}
