/* SPDX-License-Identifier: MIT */
/* test-global-settings.c - invalid settings and requests, too many keys; several servers */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct agent *a, *b;

static int create_with(void (*change)(struct lockshm_create_options *o), struct lockshm_error *error)
{
	struct lockshm_create_options options = host_options();

	change(&options);
	return lockshm_create(NULL, "lockshm-hosts-none", &options, error);
}

static void password(struct lockshm_create_options *o)
{
	strcpy(o->redis, "redis://user:secret@localhost");
}

static void tls(struct lockshm_create_options *o)
{
	strcpy(o->redis, "rediss://localhost?tls-cert=/client.crt");
}

static void twice(struct lockshm_create_options *o)
{
	strcpy(o->redis, "redis://localhost,redis://localhost/3");
}

static void two(struct lockshm_create_options *o)
{
	strcpy(o->redis, "redis://one,redis://two");
	o->flags = LOCKSHM_CREATE_REDIS_QUORUM;
}

static void nonsense(struct lockshm_create_options *o)
{
	strcpy(o->redis, "localhost:6379");
}

static void short_ttl(struct lockshm_create_options *o)
{
	o->redis_ttl_ns = LOCKSHM_MS(999);
}

static void long_retain(struct lockshm_create_options *o)
{
	o->redis_retain_ns = o->redis_ttl_ns;
}

static void long_gap(struct lockshm_create_options *o)
{
	o->redis_gap_ns = LOCKSHM_SECONDS(10) + LOCKSHM_MS(1);
}

static void gap_beyond_half(struct lockshm_create_options *o)
{
	o->redis_gap_ns = o->redis_ttl_ns / 2 + 1;
}

static void many_leases(struct lockshm_create_options *o)
{
	o->host_leases = 4097;
}

static void no_policy(struct lockshm_create_options *o)
{
	o->redis_policy = 1;
}

static void local_only(struct lockshm_create_options *o)
{
	o->redis_policy = LOCKSHM_REDIS_LOCAL_ONLY;
}

static void no_server(struct lockshm_create_options *o)
{
	o->redis[0] = '\0';
	strcpy(o->redis_prefix, "p");
}

START_TEST(bad_settings)
{
	static const struct {
		void (*change)(struct lockshm_create_options *o);
		const char *text;
	} cases[] = {
		{ password, "password" },
		{ tls, "URI 1" },
		{ twice, "same" },
		{ two, "quorum" },
		{ nonsense, "URI" },
		{ short_ttl, "redis_ttl is 999ms, must be 1s..1h" },
		{ long_retain, "redis_retain must be less" },
		{ long_gap, "redis_gap is 10001ms, must be 0..10s" },
		{ gap_beyond_half, "redis_gap must be half" },
		{ many_leases, "host_leases is 4097, must be 1..4096" },
		{ no_policy, "redis_policy is 1, must be fail or wait" },
		{ local_only, "redis_policy is local-only, must be fail or wait" },
		{ no_server, "is for Redis, but redis names no server" },
	};
	struct lockshm_error error;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_code(create_with(cases[i].change, &error), LOCKSHM_INVALID);
		ck_contains(error.message, cases[i].text);
		ck_assert_ptr_null(strstr(error.message, "secret"));
	}
	ck_code(lockshm_open(&seg, "lockshm-hosts-none", 0, NULL), LOCKSHM_NO_SEGMENT);
}
END_TEST

START_TEST(bad_requests)
{
	struct lockshm_create_options plain = LOCKSHM_CREATE_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char key[LOCKSHM_GLOBAL_KEY_MAX + 1];

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
	host_make_bare(1, &plain);
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
	struct agent_command args = global_command("", LOCKSHM_EXCLUSIVE);
	int i;

	options.host_leases = 2;
	host_make(0, &options);
	a = on_host(0);
	for (i = 0; i < 3; i++) {
		snprintf(args.key, sizeof(args.key), "k%d", i);
		args.hold = i;
		ck_code(agent_do(a, args), i < 2 ? 0 : LOCKSHM_FULL);
	}
	ck_contains(a->answer.report.error.message, "host_leases");
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = 0 }), 0);
	lease_becomes(0, "k0", LOCKSHM_HOST_LEASE_NONE);
	ck_code(agent_do(a, args), 0);
	redis_has("EXISTS lk:k0 lk:k1 lk:k2", "2");
}
END_TEST

START_TEST(each_key_has_its_server)
{
	struct lockshm_create_options options = host_options();
	struct redis *second = redis_start(NULL, false);
	char uris[300], key[16];
	int i, n = 0;

	snprintf(uris, sizeof(uris), "%s,%s", redis->uri, second->uri);
	strcpy(options.redis, uris);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	for (i = 0; i < 12; i++) {
		struct agent_command args;

		snprintf(key, sizeof(key), "key%d", i);
		args = global_command(key, LOCKSHM_EXCLUSIVE);
		args.hold = i;
		ck_code(agent_do(a, args), 0);
		ck_code(global_try(b, key, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
		n += strcmp(redis_say(second, "EXISTS lk:%s", key), "1") == 0;
	}
	ck_assert_int_gt(n, 0);
	ck_assert_int_lt(n, 12);
	redis_stop(second);
}
END_TEST

/* By two sockets and a port: only the server itself can tell. */
START_TEST(three_servers_are_one)
{
	struct lockshm_create_options options = host_options();
	char uris[600];

	snprintf(uris, sizeof(uris), "%s,%s,%s", redis->uri, redis->tcp_uri, proxy_start(redis, false)->uri);
	strcpy(options.redis, uris);
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT; /* does not apply to this error */
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "are the same server");
	ck_redis("0", redis, "DBSIZE");
}
END_TEST

static int no_server_listens(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	return fd;
}

/* Another program answers on that port, with random bytes. */
START_TEST(not_a_redis_server)
{
	struct lockshm_create_options options = host_options();
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	int fd = no_server_listens(), client;
	char uri[64];

	getsockname(fd, (struct sockaddr *)&in, &len);
	snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", ntohs(in.sin_port));
	strcpy(options.redis, uri);
	host_make(0, &options);
	a = on_host(0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	client = accept(fd, NULL, NULL);
	ck_assert_int_ge(client, 0);
	ck_assert_int_eq(send(client, "HTTP/1.1 400 no\r\n\r\n", 19, MSG_NOSIGNAL), 19);
	ck_code(agent_end(a), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, uri);
	ck_contains(a->answer.report.error.message, "not that of a Redis server");
	close(client);
	close(fd);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, bad_settings);
	tcase_add_test(tc, bad_requests);
	tcase_add_test(tc, more_keys_than_leases);
	tcase_add_test(tc, each_key_has_its_server);
	tcase_add_test(tc, three_servers_are_one);
	tcase_add_test(tc, not_a_redis_server);
}

int main(void)
{
	return hosts_main("global-settings", add);
}
