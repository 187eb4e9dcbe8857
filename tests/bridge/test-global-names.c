/* SPDX-License-Identifier: MIT */
/* test-global-names.c - servers given by name, and a resolver that is slow or does not know them */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <sys/mman.h>

static struct agent *a, *b;
static struct bridge_service bridge; /* a thread of the test, as its look-ups come here */
static int *blocked; /* of all processes: while set, look-ups of slow.test block */
static int *port_now; /* of all processes: where moves.test is, whatever port was given */
static int *known; /* of all processes: while 0, there is no late.test */
static int *refused; /* refused look-ups */

/* The leader's calls come here. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	char port[16];

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (strcmp(node, "unknown.test") == 0)
		return EAI_NONAME;
	if (!strstr(node, ".test"))
		return real(node, service, hints, out);
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	if (strcmp(node, "late.test") == 0 && !__atomic_load_n(known, __ATOMIC_ACQUIRE)) {
		__atomic_add_fetch(refused, 1, __ATOMIC_ACQ_REL);
		return EAI_NONAME;
	}
	if (strcmp(node, "late.test") == 0)
		return real("127.0.0.1", service, hints, out);
	if (strcmp(node, "moves.test") == 0) {
		snprintf(port, sizeof(port), "%d", __atomic_load_n(port_now, __ATOMIC_ACQUIRE));
		return real("127.0.0.1", port, hints, out);
	}
	while (__atomic_load_n(blocked, __ATOMIC_ACQUIRE))
		pass(now_ns() + LOCKSHM_MS(1));
	return real("127.0.0.1", service, hints, out);
}

static void resolver(void)
{
	blocked = mmap(NULL, 4 * sizeof(*blocked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(blocked, MAP_FAILED);
	port_now = blocked + 1;
	known = blocked + 2;
	refused = blocked + 3;
	__atomic_store_n(blocked, 1, __ATOMIC_RELEASE);
}

/* With its processes, which are made before there is a leader's connection that they could share. */
static void host_led_here(const struct lockshm_create_options *options)
{
	host_make_bare(0, options);
	a = on_host(0);
	b = on_host(0);
	bridge_service_start(&bridge, 0);
}

/* One of the two servers cannot be found yet: keys of the other are acquired, and kept. */
START_TEST(a_slow_name_delays_no_other)
{
	struct lockshm_create_options options = host_options();
	struct redis *named = redis_start(NULL, true);
	char uris[300], good[16], bad[16];
	int64_t end;
	int i;

	resolver();
	snprintf(uris, sizeof(uris), "%s,redis://slow.test:%d", redis->uri, named->port);
	strcpy(options.redis, uris);
	options.redis_ttl_ns = LOCKSHM_SECONDS(2);
	host_led_here(&options);
	for (i = 0, good[0] = bad[0] = '\0'; !good[0] || !bad[0]; i++) {
		char key[16];
		int code;

		ck_assert_int_lt(i, 30);
		snprintf(key, sizeof(key), "key%d", i);
		code = global_wait(a, key, LOCKSHM_EXCLUSIVE);
		ck_assert_msg(code == 0 || code == LOCKSHM_BRIDGE, "%s", outcome_name(code));
		strcpy(code ? bad : good, key);
		if (code == 0)
			ck_code(agent_release(a), 0);
		else
			ck_contains(a->answer.report.error.message, "looked up");
	}
	ck_code(global_wait(a, good, LOCKSHM_EXCLUSIVE), 0);
	end = now_ns() + LOCKSHM_MS(3500);
	while (now_ns() < end) {
		ck_code(global_wait(b, bad, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
		ck_code(agent_call(a, AGENT_CHECK), 0);
	}
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	__atomic_store_n(blocked, 0, __ATOMIC_RELEASE);
	end = ran_ns() + PATIENCE;
	while (global_wait(b, bad, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(ran_ns(), end);
	ck_code(b->answer.code, 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	bridge_service_stop(&bridge);
	redis_stop(named);
}
END_TEST

/* A majority does not need it. */
START_TEST(an_unknown_name_in_a_majority)
{
	struct lockshm_create_options options = host_options();
	struct redis *second = redis_start(NULL, false);
	char uris[300];

	snprintf(uris, sizeof(uris), "redis://unknown.test,%s,%s", redis->uri, second->uri);
	strcpy(options.redis, uris);
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_led_here(&options);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, second, "GET lk:" K);
	bridge_service_stop(&bridge);
	redis_stop(second);
}
END_TEST

START_TEST(an_unknown_name_alone)
{
	struct lockshm_create_options options = host_options();

	strcpy(options.redis, "redis://unknown.test");
	host_led_here(&options);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "no address");
	/* Its end does not wait for it. */
	bridge_service_stop(&bridge);
}
END_TEST

static bool refused_so_often(void *n)
{
	return __atomic_load_n(refused, __ATOMIC_ACQUIRE) >= *(const int *)n;
}

/* It was not found when the leader began; it is found by the time of the first request. */
START_TEST(no_result_of_an_earlier_look_up)
{
	struct lockshm_create_options options = host_options();
	struct redis *named = redis_start(NULL, true);
	char uri[64];
	int connections = 2;

	resolver();
	snprintf(uri, sizeof(uri), "redis://late.test:%d", named->port);
	strcpy(options.redis, uri);
	host_led_here(&options);
	ck_assert(await(refused_so_often, &connections));
	__atomic_store_n(known, 1, __ATOMIC_RELEASE);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	bridge_service_stop(&bridge);
	redis_stop(named);
}
END_TEST

/* A connection error for want of an address is as old as the look-up: false = that was too long ago to count. */
static bool is_dated_by_the_look_up(void)
{
	int64_t begun = redis_now(), opened;
	struct redis_server server = server_of("redis://late.test");
	struct redis_conn *c;
	int once = 1;
	bool counts;

	__atomic_store_n(refused, 0, __ATOMIC_RELEASE);
	ck_code(redis_conn_new(&c, &server, NULL, NULL), 0);
	ck_assert(await(refused_so_often, &once));
	opened = redis_now();
	ck_assert_int_eq(redis_conn_wait_ready(c, soon()), REDIS_UNREACHABLE);
	ck_contains(redis_conn_error(c)->text, "no address: ");
	ck_assert_int_ge(redis_conn_tried(c), begun);
	counts = __atomic_load_n(refused, __ATOMIC_ACQUIRE) == 1;
	ck_assert(redis_conn_tried(c) < opened || !counts);
	redis_conn_free(c);
	return counts;
}

START_TEST(dated_by_the_look_up)
{
	int tries = 0;

	resolver();
	while (!is_dated_by_the_look_up())
		ck_assert_int_lt(tries++, 20);
}
END_TEST

static bool tracks(void *arg)
{
	return strstr(redis_say(arg, "CLIENT LIST"), "name=lockshm-wake") != NULL;
}

/* A failover behind a name: the old master stays as a replica, and so do the connections to it. */
START_TEST(a_demoted_master_is_left)
{
	struct lockshm_create_options options = host_options();
	struct redis *old = redis_start(NULL, true), *new = redis_start(NULL, true);

	resolver();
	__atomic_store_n(port_now, old->port, __ATOMIC_RELEASE);
	strcpy(options.redis, "redis://moves.test:1");
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_led_here(&options);
	ck_code(global_wait(a, "before", LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, "before").value, old, "GET lk:before");
	ck_redis("OK", old, "REPLICAOF 127.0.0.1 %d", new->port);
	__atomic_store_n(port_now, new->port, __ATOMIC_RELEASE);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, new, "GET lk:" K);
	/* Client-side tracking follows. */
	ck_assert(await(tracks, new));
	bridge_service_stop(&bridge);
	redis_stop(old);
	redis_stop(new);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_demoted_master_is_left);
	tcase_add_test(tc, a_slow_name_delays_no_other);
	tcase_add_test(tc, no_result_of_an_earlier_look_up);
	tcase_add_test(tc, dated_by_the_look_up);
	tcase_add_test(tc, an_unknown_name_in_a_majority);
	tcase_add_test(tc, an_unknown_name_alone);
}

int main(void)
{
	return hosts_main("global-names", add);
}
