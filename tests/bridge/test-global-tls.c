/* SPDX-License-Identifier: MIT */
/* test-global-tls.c - keys across hosts over TLS: invalidations, cut and sliced connections, refusals; forks and
 * ends */
#define _GNU_SOURCE
#include "support/asan.h"
#include "redis-support/hosts.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOMENT LOCKSHM_SECONDS(5)

static struct agent *a, *b, *c;

/* hosts[0] .. hosts[n-1] with that URI. */
static void hosts_at(unsigned n, const char *uri)
{
	struct lockshm_create_options options = host_options();
	unsigned i;

	options.redis = uri;
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
	/* Renewed meanwhile. */
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(c, AGENT_CHECK), 0);
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
	int64_t done;

	hosts_at(1, redis->tls_uri);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert(await(is_tracked, NULL));
	ck_redis("1", redis, "DEL lk:" K);
	done = now_ns();
	lost_is_reported(a);
	ck_assert_int_lt(now_ns() - done, LOCKSHM_MS(250)); /* the next renewal would be due after 333 ms */
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

static int keep_name(const struct lockshm_remote_info *info, void *arg)
{
	snprintf(arg, 300, "%s %zu %s", info->server, info->holders, info->reason);
	return info->code;
}

static int inspect(char out[300])
{
	struct lockshm_error error = { 0 };
	int err = lockshm_remote_inspect(hosts[0].s, K, strlen(K), MOMENT, keep_name, out, &error);

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
	ck_code(lockshm_remote_end(hosts[0].s, K, strlen(K), value, strlen(value), MOMENT, NULL), 0);
	lost_is_reported(a);
}
END_TEST

/* ---------------------------------------------------------------- faults */

START_TEST(cut_again_and_again)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, true);
	char value[64];
	int i;

	options.redis = p->uri;
	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
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
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, true);

	proxy_set(p, PROXY_SLICE);
	options.redis = p->uri;
	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
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
	struct lockshm_create_options options = host_options();
	int64_t begun;

	tls_presents("expired.crt", "server.key");
	options.redis = redis->tls_uri;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "rediss://127.0.0.1:");
	ck_contains(a->answer.report.error.message, "expired");
	ck_redis("0", redis, "EXISTS lk:" K);
	tls_presents("server.crt", "server.key");
	begun = now_ns();
	while (global_wait(a, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(5));
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
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
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
	options.redis = uris;
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
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_stop(two);
	redis_stop(three);
}
END_TEST

/* ---------------------------------------------------------------- forks, and the end */

static bool is_another_leader(void *arg)
{
	int32_t pid = bridge_of(0).pid;

	return pid != 0 && pid != *(int32_t *)arg;
}

/* A process that cannot use OpenSSL does not lead, and keeps no other from leading. */
START_TEST(a_process_without_openssl)
{
	struct lockshm_create_options options = host_options();
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s", tls_file("bad.cnf"));
	f = fopen(path, "w");
	ck_assert(f && fputs("config_diagnostics = 1\nopenssl_conf = nowhere\n", f) > 0 && fclose(f) == 0);
	options.redis = redis->tls_uri;
	options.redis_policy = segment_policy(LOCKSHM_REDIS_LOCAL_ONLY);
	host_make(0, &options);
	setenv("OPENSSL_CONF", path, 1);
	a = on_host(0);
	unsetenv("OPENSSL_CONF");
	b = on_host(0);
	/* Not for local use either: Redis is well. */
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "OpenSSL cannot be used in this process");
	ck_assert_int_eq(bridge_of(0).pid, 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
}
END_TEST

static void bridge_whose_openssl_ends(int ready, int go)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_GLOBAL);
	lockshm_hold_t hold;
	void (*end)(void);
	char byte;

	*(void **)&end = dlsym(library, "OPENSSL_cleanup");
	q.key = "its own";
	q.key_len = 7;
	q.flags = LOCKSHM_GLOBAL;
	if (!end || lockshm_acquire(hosts[0].s, &q, &hold) < 0 || write(ready, "", 1) != 1 || read(go, &byte, 1) != 1)
		_exit(8);
	end();
	(void)(write(ready, "", 1) == 1 && read(go, &byte, 1));
	_exit(0);
}

static bool is_bridge(void *arg)
{
	return bridge_of(0).pid == *(int32_t *)arg;
}

START_TEST(a_bridge_whose_openssl_ends)
{
	int32_t pid, status;
	int ready[2], go[2];
	char byte;

	if (!dlopen("libcrypto.so.3", RTLD_NOW))
		return;
	hosts_at(1, redis->tls_uri);
	ck_assert(pipe(ready) == 0 && pipe(go) == 0);
	pid = fork();
	if (pid == 0)
		bridge_whose_openssl_ends(ready[1], go[0]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert(await(is_bridge, &pid));
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(bridge_of(0).pid, pid);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert(await(is_bridge, &a->pid));
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* What OpenSSL would have to free when this thread ends, under its locks: no fork waits for that. */
static void *count_leftovers(void *arg)
{
	struct host *h = arg;
	uintptr_t n = 1;
	char seen[300];
	unsigned key;

	if (lockshm_remote_inspect(h->s, K, strlen(K), MOMENT, keep_name, seen, NULL) != 0)
		return NULL;
	for (key = 0; key < PTHREAD_KEYS_MAX; key++)
		n += pthread_getspecific((pthread_key_t)key) != NULL;
	return (void *)n;
}

static uintptr_t left_by(struct host *h)
{
	pthread_t thread;
	void *n;

	ck_assert_int_eq(pthread_create(&thread, NULL, count_leftovers, h), 0);
	pthread_join(thread, &n);
	return (uintptr_t)n;
}

START_TEST(nothing_is_left_in_a_thread)
{
	struct lockshm_create_options options = host_options();
	uintptr_t plain;
	char seen[300];

	host_make(0, &options);
	options.redis = redis->tls_uri;
	host_make(1, &options);
	/* What is made only once belongs to the first thread. */
	ck_assert_int_eq(lockshm_remote_inspect(hosts[1].s, K, strlen(K), MOMENT, keep_name, seen, NULL), 0);
	plain = left_by(&hosts[0]);
	ck_assert_uint_ge(plain, 1);
	ck_assert_uint_eq(left_by(&hosts[1]), plain);
}
END_TEST

/* A byte sent by a child in its parent's stream would end the connection. */
START_TEST(a_fork_of_the_bridge)
{
	struct agent *children[8];
	int32_t pid;
	int i;

	hosts_at(1, redis->tls_uri);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, "first", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	for (i = 0; i < 8; i++) {
		children[i] = agent_child(a);
		ck_code(global_wait(children[i], "child", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(children[i]), 0);
	}
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	ck_assert(await(is_over_tls, NULL));
	pid = a->pid;
	agent_kill(a);
	ck_assert(await(is_another_leader, &pid));
	ck_assert(await(is_over_tls, NULL));
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

static int stop_looking;
static uint64_t looks;
static char last_look[300];

/* Connections all the time, so a thread is inside OpenSSL most of the time. */
static void *inspect_all_the_time(void *arg)
{
	char seen[300];

	(void)arg;
	while (!__atomic_load_n(&stop_looking, __ATOMIC_SEQ_CST)) {
		(void)inspect(seen);
		memcpy(last_look, seen, sizeof(seen));
		__atomic_add_fetch(&looks, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static bool has_looked(void *arg)
{
	return __atomic_load_n(&looks, __ATOMIC_SEQ_CST) > *(uint64_t *)arg;
}

static void inspects_once_more(void)
{
	uint64_t so_far = __atomic_load_n(&looks, __ATOMIC_SEQ_CST) + 1;

	ck_assert(await(has_looked, &so_far));
}

START_TEST(forks_during_handshakes)
{
	int64_t end = now_ns() + LOCKSHM_SECONDS(15);
	pthread_t thread;
	int i, status;
	char seen[300];
	pid_t pid;

	hosts_at(1, redis->tls_uri);
	ck_assert_int_eq(pthread_create(&thread, NULL, inspect_all_the_time, NULL), 0);
	inspects_once_more();
	/* That many take two seconds, or much longer on a busy machine. */
	for (i = 0; i < 200 && (i < 20 || now_ns() < end); i++) {
		pid = fork();
		if (pid == 0) {
			alarm(PATIENCE / LOCKSHM_SECONDS(1));
			_exit(inspect(seen) == 0 ? 0 : 1);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(status == 0, "child %d: status %x", i, (unsigned)status);
	}
	__atomic_store_n(&stop_looking, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
}
END_TEST

/* After OpenSSL's own handler: the library's threads run until the process has really ended. */
static void at_exit(void)
{
	int i;

	for (i = 0; i < 3; i++)
		inspects_once_more();
	/* Only a sanitizer's work is left, which would miss what that thread has. */
	_exit(strstr(last_look, "cannot be used in this process") ? 0 : 9);
}

static void program_that_uses_openssl_too(void)
{
	void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_GLOBAL);
	int (*init)(uint64_t, const void *);
	pthread_t thread;

	*(void **)&init = dlsym(library, "OPENSSL_init_ssl");
	atexit(at_exit);
	if (!init || init(0, NULL) != 1 || pthread_create(&thread, NULL, inspect_all_the_time, NULL) != 0)
		_exit(8);
	inspects_once_more();
	exit(0);
}

START_TEST(the_program_ends_openssl)
{
	int i, status;
	pid_t pid;

	if (!dlopen("libssl.so.3", RTLD_NOW))
		return;
	hosts_at(1, redis->tls_uri);
	for (i = 0; i < 20; i++) {
		pid = fork();
		if (pid == 0)
			program_that_uses_openssl_too();
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(status == 0, "program %d: status %x", i, (unsigned)status);
	}
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
	tcase_add_test(tc, a_process_without_openssl);
	tcase_add_test(tc, a_bridge_whose_openssl_ends);
	tcase_add_test(tc, nothing_is_left_in_a_thread);
	tcase_add_test(tc, a_fork_of_the_bridge);
	/* Its allocator has locks of its own, which a child finds locked. */
	if (!UNDER_ASAN)
		tcase_add_test(tc, forks_during_handshakes);
	tcase_add_test(tc, the_program_ends_openssl);
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
