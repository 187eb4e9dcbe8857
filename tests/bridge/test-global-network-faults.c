/* SPDX-License-Identifier: MIT */
/* test-global-network-faults.c - network faults: replies lost or late, connections that break, partitions */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct agent *a, *b, *c;

START_TEST(lost_replies)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, false);
	int i;

	strcpy(options.redis, p->uri);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	for (i = 0; i < 6; i++) {
		struct agent *agent = i % 2 ? a : b;

		proxy_set(p, PROXY_DROP_REPLIES);
		global_send(agent, K, LOCKSHM_EXCLUSIVE);
		lease_becomes(agent == b, K, LOCKSHM_HOST_LEASE_ACQUIRING);
		proxy_set(p, PROXY_RESET);
		proxy_set(p, PROXY_PASS);
		ck_code(agent_end(agent), 0);
		ck_redis(lease_of(agent == b, K).value, redis, "GET lk:" K);
		proxy_set(p, PROXY_RESET);
		ck_code(agent_call(agent, AGENT_CHECK), 0);
		ck_code(agent_release(agent), 0);
		lease_becomes(agent == b, K, LOCKSHM_HOST_LEASE_NONE);
		ck_redis("0", redis, "EXISTS lk:" K);
	}
}
END_TEST

static struct proxy *proxy;

/* Host 0 connects through a proxy, host 1 directly. */
static void hosts_by_their_paths(int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();

	proxy = proxy_start(redis, true);
	options.redis_ttl_ns = ttl_ns;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(1, &options);
	strcpy(options.redis, proxy->uri);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
}

static void stays_held(struct agent *agent, int64_t ns)
{
	int64_t end = now_ns() + ns;

	while (now_ns() < end) {
		ck_code(agent_call(agent, AGENT_CHECK), 0);
		pass(now_ns() + LOCKSHM_MS(10));
	}
}

/* Has the command reached the server?  Not if a renewal of the other key went first: then the connection was ended. */
static bool has_come(void)
{
	int64_t end = now_ns() + LOCKSHM_MS(300);

	while (now_ns() < end)
		if (strcmp(redis_say(redis, "EXISTS lk:" K), "1") == 0)
			return true;
	proxy_set(proxy, PROXY_PASS);
	ck_code(agent_end(a), 0);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
	return false;
}

/* Replies after the end of their command must not be taken for another's. */
START_TEST(late_replies)
{
	int i, tries = 0;

	hosts_by_their_paths(LOCKSHM_SECONDS(2));
	ck_code(global_wait(b, "kept", LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 4; i++) {
		int64_t end;

		ck_assert_int_lt(tries++, 20);
		proxy_set(proxy, PROXY_HOLD_REPLIES);
		global_send(a, K, LOCKSHM_EXCLUSIVE);
		if (!has_come()) {
			i--;
			continue;
		}
		/* Past the deadline of the command, before the end of the lease it acquires. */
		end = now_ns() + LOCKSHM_MS(400);
		while (now_ns() < end)
			ck_code(agent_call(b, AGENT_CHECK), 0);
		proxy_set(proxy, PROXY_PASS);
		ck_code(agent_end(a), 0);
		ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
		ck_redis(lease_of(0, "kept").value, redis, "GET lk:kept");
		ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
		ck_code(agent_release(a), 0);
		redis_has("EXISTS lk:" K, "0");
		ck_code(agent_call(b, AGENT_CHECK), 0);
	}
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* A path that drops both connections silently, as a router that forgot them. */
START_TEST(half_open)
{
	int i;

	hosts_by_their_paths(LOCKSHM_SECONDS(2));
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 3; i++) {
		proxy_set(proxy, PROXY_HALF_OPEN);
		stays_held(a, LOCKSHM_MS(1500));
	}
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* A new connection may take a tenth of a lease.  A tenth of a second is too little on a busy machine: so leases are
 * longer, and there are as many resets as two renewals take. */
START_TEST(reset_again_and_again)
{
	int64_t renewed;
	int i;

	hosts_by_their_paths(LOCKSHM_SECONDS(3));
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	renewed = (int64_t)bridge_of(0).renewed;
	for (i = 0; i < 20 || (int64_t)bridge_of(0).renewed - renewed < 2; i++) {
		proxy_set(proxy, PROXY_RESET);
		stays_held(a, LOCKSHM_MS(100));
		ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(b), 0);
	}
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* A byte at a time. */
START_TEST(in_slices)
{
	int i;

	hosts_by_their_paths(LOCKSHM_SECONDS(2));
	proxy_set(proxy, PROXY_SLICE);
	for (i = 0; i < 10; i++) {
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
		ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
		ck_code(agent_release(a), 0);
		ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(c), 0);
	}
}
END_TEST

/* This side finds its loss by its own clock before the other side may acquire. */
static void parted_by(enum proxy_fault fault)
{
	uint64_t token;

	hosts_by_their_paths(LOCKSHM_SECONDS(1));
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	proxy_set(proxy, fault);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	while (agent_call(a, AGENT_CHECK) == 0)
		ck_assert_int_eq(agent_poll(c), AGENT_BLOCKED);
	ck_code(a->answer.code, LOCKSHM_LOST);
	ck_code(agent_end(c), 0);
	ck_assert_uint_gt(c->answer.token, token);
	ck_code(agent_release(a), LOCKSHM_LOST);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	ck_code(agent_call(c, AGENT_CHECK), 0);
	proxy_set(proxy, PROXY_RESET);
	proxy_set(proxy, PROXY_PASS);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(agent_call(c, AGENT_CHECK), 0);
	ck_code(agent_release(c), 0);
	ck_assert_int_ge(agent_end(b), 0);
}

START_TEST(parted)
{
	parted_by(PROXY_BLACKHOLE);
}
END_TEST

START_TEST(parted_one_way)
{
	parted_by(PROXY_DROP_REQUESTS);
}
END_TEST

START_TEST(refused_on_the_path)
{
	parted_by(PROXY_REFUSE);
}
END_TEST

/* ---------------------------------------------------------------- no descriptor left */

/* The leader's process cannot connect again; once it can, all continues. */
START_TEST(no_descriptor_left)
{
	struct lockshm_create_options options = host_options();
	struct bridge_service bridge;
	struct rlimit limit, none;
	int fd;

	proxy = proxy_start(redis, false);
	strcpy(options.redis, proxy->uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(6);
	host_make_bare(0, &options);
	a = on_host(0);
	b = on_host(0);
	bridge_service_start(&bridge, 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("PONG", redis, "PING");
	getrlimit(RLIMIT_NOFILE, &limit);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	none = limit;
	none.rlim_cur = 4; /* open ones stay */
	ck_assert_int_gt(fd, 4);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	proxy_set(proxy, PROXY_RESET);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(b->answer.report.error.message, "Too many open files");
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (global_wait(b, "other", LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(b->answer.code, 0);
	stays_held(a, LOCKSHM_MS(500));
	ck_assert_uint_eq(bridge_of(0).acquired, 2);
	close(fd);
	bridge_service_stop(&bridge);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, lost_replies);
	tcase_add_test(tc, late_replies);
	tcase_add_test(tc, half_open);
	tcase_add_test(tc, reset_again_and_again);
	tcase_add_test(tc, in_slices);
	tcase_add_test(tc, parted);
	tcase_add_test(tc, parted_one_way);
	tcase_add_test(tc, refused_on_the_path);
	tcase_add_test(tc, no_descriptor_left);
}

int main(void)
{
	return hosts_main("global-way", add);
}
