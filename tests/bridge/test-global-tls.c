/* SPDX-License-Identifier: MIT */
/* test-global-tls.c - keys across hosts over TLS: invalidations, cut and sliced connections, refusals */
#define _GNU_SOURCE
#include "bridge/admin.h"
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#define MOMENT LOCKSHM_SECONDS(5)

static struct agent *a, *b, *c;

/* A connect has a quarter of a second, which a slow machine needs, and its requests wait for the next one. */
static struct lockshm_create_options tls_options(const char *uri)
{
	struct lockshm_create_options options = host_options();

	strcpy(options.redis, uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	return options;
}

/* hosts[0] .. hosts[n-1] with that URI. */
static void hosts_at(unsigned n, const char *uri)
{
	struct lockshm_create_options options = tls_options(uri);
	unsigned i;

	for (i = 0; i < n; i++)
		host_make(i, &options);
}

static bool is_over_tls(void *arg)
{
	const char *list = redis_say(redis, "CLIENT LIST");
	char port[32];
	int n = 0;

	(void)arg;
	snprintf(port, sizeof(port), "laddr=127.0.0.1:%d ", redis->tls_port);
	while ((list = strstr(list, port)))
		n++, list++;
	return n == 2;
}

struct renewals {
	unsigned host;
	uint64_t enough;
};

static bool are_enough(void *arg)
{
	const struct renewals *r = arg;

	return bridge_of(r->host).renewed >= r->enough;
}

static void is_renewed(struct agent *agent, unsigned host)
{
	struct renewals r = { host, bridge_of(host).renewed + 2 };

	ck_assert(await(are_enough, &r));
	ck_code(agent_call(agent, AGENT_CHECK), 0);
}

/* ---------------------------------------------------------------- what all keys do */

START_TEST(acquired_and_handed_over)
{
	uint64_t token;

	hosts_at(2, redis->tls_uri);
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	/* The leader's two connections. */
	ck_assert(await(is_over_tls, NULL));
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	token = a->answer.token;
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(agent_release(a), 0);
	ck_code(agent_end(c), 0);
	ck_assert_uint_gt(c->answer.token, token);
	is_renewed(c, 1);
	ck_code(agent_release(c), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
}
END_TEST

static bool is_tracked(void *arg)
{
	(void)arg;
	return strstr(redis_say(redis, "CLIENT LIST"), "flags=t") != NULL;
}

/* Invalidations come over TLS, too. */
START_TEST(invalidated_by_the_server)
{
	struct lockshm_create_options options = tls_options(redis->tls_uri);

	/* The next renewal would be due when the test has lost its patience. */
	options.redis_ttl_ns = 6 * PATIENCE;
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert(await(is_tracked, NULL));
	ck_redis("1", redis, "DEL lk:" K);
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

static int keep_name(const struct remote_info *info, void *arg)
{
	snprintf(arg, 300, "%s %zu %s", info->server, info->holders, info->reason);
	return info->code;
}

static int inspect(char out[300])
{
	struct lockshm_error error = { 0 };
	int err = remote_inspect(hosts[0].s, K, strlen(K), MOMENT, keep_name, out, &error);

	if (err && error.message[0])
		snprintf(out, 300, "%s", error.message);
	return err;
}

START_TEST(an_operator)
{
	char seen[300], want[64], value[64];

	hosts_at(1, redis->tls_uri);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(inspect(seen), 0);
	snprintf(want, sizeof(want), "rediss://127.0.0.1:%d 1 ", redis->tls_port);
	ck_assert_str_eq(seen, want);
	snprintf(value, sizeof(value), "%s", lease_of(0, K).value);
	ck_code(remote_end(hosts[0].s, K, strlen(K), value, strlen(value), MOMENT, NULL), 0);
	lost_is_reported(a);
}
END_TEST

/* ---------------------------------------------------------------- faults */

START_TEST(cut_again_and_again)
{
	struct proxy *p = proxy_start(redis, true);
	struct lockshm_create_options options = tls_options(p->uri);
	char value[64];
	int i;

	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	snprintf(value, sizeof(value), "%s", lease_of(0, K).value);
	for (i = 0; i < 30; i++) {
		proxy_set(p, i % 3 ? PROXY_RESET : PROXY_HALF_OPEN);
		pass(now_ns() + LOCKSHM_MS(150));
	}
	/* Longer than the lease: it was renewed all the time. */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_redis(value, redis, "GET lk:" K);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
}
END_TEST

START_TEST(in_slices)
{
	struct proxy *p = proxy_start(redis, true);
	struct lockshm_create_options options = tls_options(p->uri);

	proxy_set(p, PROXY_SLICE);
	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
}
END_TEST

/* Under any policy: until an operator changes something, and then without a restart. */
START_TEST(a_certificate_that_is_not_trusted)
{
	struct lockshm_create_options options = tls_options(redis->tls_uri);
	int64_t begun;

	tls_presents("expired.crt", "server.key");
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "rediss://127.0.0.1:");
	ck_contains(a->answer.report.error.message, "expired");
	ck_redis("0", redis, "EXISTS lk:" K);
	tls_presents("server.crt", "server.key");
	begun = ran_ns();
	while (global_wait(a, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(ran_ns() - begun, PATIENCE);
	ck_code(a->answer.code, 0);
}
END_TEST

/* A certificate that expires while in use ends nothing: it is checked when a connection is made. */
START_TEST(expired_while_held)
{
	hosts_at(1, redis->tls_uri);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	tls_presents("expired.crt", "server.key");
	is_renewed(a, 0);
	tls_presents("server.crt", "server.key");
	ck_code(agent_release(a), 0);
}
END_TEST

START_TEST(other_servers_never_notice)
{
	struct lockshm_create_options options = host_options();
	struct redis *two = redis_start(NULL, true), *three = redis_start(NULL, false);
	char uris[600];

	/* The first over TLS, the second, too, though it does not speak it, the third plainly: a majority. */
	snprintf(uris, sizeof(uris), "%s,rediss://127.0.0.1:%d,%s", redis->tls_uri, two->port, three->uri);
	strcpy(options.redis, uris);
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	/* Waiting for the second, twice in each round, and a handshake must not use up the leadership. */
	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_redis(lease_of(0, K).value, three, "GET lk:" K);
	ck_redis("0", two, "EXISTS lk:" K);
	is_renewed(a, 0);
	redis_stop(two);
	redis_stop(three);
}
END_TEST

/* ---------------------------------------------------------------- an OpenSSL that cannot be used */

/* A bridge that cannot use OpenSSL leads and refuses: the message has the reason, and the policy does not apply. */
START_TEST(a_bridge_without_openssl)
{
	struct lockshm_create_options options = host_options();
	char path[128];
	int64_t begun;
	FILE *f;

	snprintf(path, sizeof(path), "%s", tls_file("bad.cnf"));
	f = fopen(path, "w");
	ck_assert(f && fputs("config_diagnostics = 1\nopenssl_conf = nowhere\n", f) > 0 && fclose(f) == 0);
	strcpy(options.redis, redis->tls_uri);
	options.redis_policy = segment_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	setenv("OPENSSL_CONF", path, 1);
	host_make(0, &options);
	unsetenv("OPENSSL_CONF");
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "OpenSSL");
	ck_redis("0", redis, "EXISTS lk:" K);
	/* Another bridge, with its environment in order. */
	bridge_kill(0);
	bridge_start(0);
	begun = ran_ns();
	/* A connect may take longer than the policy waits. */
	while (global_wait(a, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_LOCAL_ONLY && ran_ns() - begun < PATIENCE)
		ck_code(agent_release(a), 0);
	ck_code(a->answer.code, 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
}
END_TEST

/* The connections of the dead are closed, those of its successor are made anew, and the lease goes on. */
START_TEST(the_bridge_is_killed)
{
	hosts_at(1, redis->tls_uri);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert(await(is_over_tls, NULL));
	bridge_kill(0);
	bridge_start(0);
	ck_assert(await(is_over_tls, NULL));
	is_renewed(a, 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_unchecked_fixture(tc, tls_setup, NULL);
	tcase_add_test(tc, acquired_and_handed_over);
	tcase_add_test(tc, invalidated_by_the_server);
	tcase_add_test(tc, an_operator);
	tcase_add_test(tc, cut_again_and_again);
	tcase_add_test(tc, in_slices);
	tcase_add_test(tc, a_certificate_that_is_not_trusted);
	tcase_add_test(tc, expired_while_held);
	tcase_add_test(tc, other_servers_never_notice);
	tcase_add_test(tc, a_bridge_without_openssl);
	tcase_add_test(tc, the_bridge_is_killed);
}

int main(void)
{
	const char *missing = tls_missing();

	if (missing) {
		printf("skipped: %s\n", missing);
		return 77;
	}
	return hosts_main("global-tls", add);
}
