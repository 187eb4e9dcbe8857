/* SPDX-License-Identifier: MIT */
/* test-global-bridge.c - who speaks with Redis: election, death and stop of the bridge, of holders, of everybody */
#define _GNU_SOURCE
#include "hosts.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct agent *a, *b, *c;

static bool somebody_else(void *arg)
{
	int32_t pid = bridge_of(0).pid;

	return pid != 0 && pid != *(int32_t *)arg;
}

static void takes_over(const struct agent *from)
{
	int32_t pid = from->pid;

	ck_assert_msg(await(somebody_else, &pid), "nobody took over from %d", (int)pid);
}

/* a is the bridge and holds nothing; b holds K. */
static void bridge_and_holder(void)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, "first", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
}

/* For longer than a lease lasts without renewal. */
static void stays_held(const char *value)
{
	int64_t end = now_ns() + LOCKSHM_MS(2500);

	while (now_ns() < end) {
		ck_code(agent_call(b, AGENT_CHECK), 0);
		ck_redis(value, redis, "GET lk:" K);
		pass(now_ns() + LOCKSHM_MS(20));
	}
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}

START_TEST(killed_loses_no_lease)
{
	char value[40];

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	agent_kill(a);
	takes_over(a);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(stopped_loses_no_lease)
{
	char value[40];

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	agent_stop(a);
	takes_over(a);
	stays_held(value);
	/* It goes on, and finds that it is not the bridge any more. */
	agent_cont(a);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}
END_TEST

START_TEST(killed_again_and_again)
{
	int i;

	bridge_and_holder();
	for (i = 0; i < 10; i++) {
		struct agent *next = on_host(0);

		ck_code(global_wait(next, "other", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(next), 0);
		agent_kill(a);
		ck_code(agent_call(b, AGENT_CHECK), 0);
		a = next;
	}
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* While others wait for it in Redis: the next bridge goes on waiting in the same place. */
START_TEST(killed_while_it_waits)
{
	bridge_and_holder();
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	struct agent *second = on_host(1);

	global_send(second, K, LOCKSHM_EXCLUSIVE);
	/* c's own process is the bridge of its host, and the first in the queue. */
	ck_assert_int_eq(bridge_of(1).pid, c->pid);
	agent_kill(c);
	ck_assert_int_eq(agent_poll(second), AGENT_BLOCKED);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(second), 0);
}
END_TEST

/* ---------------------------------------------------------------- holders */

START_TEST(a_dead_holder_is_followed_at_once)
{
	uint64_t token;

	bridge_and_holder();
	struct agent *next = on_host(0);

	token = b->answer.token;
	global_send(next, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(next, 0, K);
	agent_kill(b);
	ck_code(agent_end(next), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(next->answer.report.previous.pid, b->pid);
	ck_assert_uint_gt(next->answer.token, token);
	/* Under the same lease. */
	ck_assert_uint_eq(lease_of(0, K).passes, 2);
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}
END_TEST

START_TEST(the_lease_of_a_dead_holder_is_given_back)
{
	bridge_and_holder();
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	agent_kill(b);
	ck_code(agent_end(c), 0);
	lease_becomes(0, K, LOCKSHM_LEASE_NONE);
}
END_TEST

START_TEST(a_host_that_dies_is_followed)
{
	int64_t killed;

	bridge_and_holder();
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	killed = now_ns();
	agent_kill(a);
	agent_kill(b);
	ck_code(agent_end(c), 0);
	ck_assert_int_le(c->answer.at_ns - killed, LOCKSHM_MS(1600)); /* one second, and a slow machine */
}
END_TEST

/* All of a host stops for longer than its lease: the first thing it learns is that it lost. */
START_TEST(a_host_that_stops_has_lost)
{
	uint64_t token;
	int code;

	bridge_and_holder();
	token = b->answer.token;
	agent_stop(a);
	agent_stop(b);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
	agent_cont(b);
	ck_code(agent_call(b, AGENT_CHECK), LOCKSHM_LOST);
	agent_cont(a);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_RENEW, .ns = LOCKSHM_SECONDS(5), .how = LOCKSHM_RENEW_RESET }),
		LOCKSHM_LOST);
	ck_code(agent_release(b), LOCKSHM_LOST);
	ck_code(agent_call(c, AGENT_CHECK), 0);
	/* Nothing stays closed here. */
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	ck_code(agent_release(c), 0);
	code = agent_end(b);
	ck_assert_msg(code == 0 || code == LOCKSHM_TOOK_OVER_EXPIRED, "%s", outcome_name(code)); /* its own mark, if there is one */
}
END_TEST

/* A waiter that stops has the others of its host wait for its patience, not for its time-out. */
START_TEST(a_stopped_waiter_is_passed)
{
	bridge_and_holder();
	struct agent *stopped = on_host(1), *other = on_host(1);

	/* The bridge of host 1 is another process. */
	ck_code(global_wait(c, "other", LOCKSHM_EXCLUSIVE), 0);
	global_send(stopped, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	agent_stop(stopped);
	global_send(other, K, LOCKSHM_EXCLUSIVE);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(other), 0); /* it was never inside */
	agent_cont(stopped);
	ck_code(agent_release(other), 0);
	ck_code(agent_end(stopped), 0);
}
END_TEST

/* ---------------------------------------------------------------- service */

START_TEST(a_service_is_the_bridge_of_all)
{
	struct lockshm_create_options options = host_options();
	struct service v;
	pid_t me = getpid();

	options.redis_linger_ns = LOCKSHM_MS(900);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	service_start(&v, 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, "idle", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	ck_assert_int_eq(bridge_of(0).pid, me);
	/* At its end it gives back what nobody holds, and somebody else goes on with the rest. */
	service_stop(&v);
	ck_redis("0", redis, "EXISTS lk:idle");
	takes_over(&(struct agent){ .pid = me });
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
}
END_TEST

START_TEST(closing_gives_back_what_nobody_holds)
{
	struct lockshm_create_options options = host_options();

	options.redis_linger_ns = LOCKSHM_MS(900);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_redis("1", redis, "EXISTS lk:" K);
	ck_code(agent_call(a, AGENT_CLOSE), 0);
	ck_redis("0", redis, "EXISTS lk:" K);
	ck_assert_int_eq(bridge_of(0).pid, 0);
}
END_TEST

/* Also what the closing thread itself held, and nobody else is there to give back. */
START_TEST(closing_gives_back_what_it_held)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = LOCKSHM_SECONDS(40);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("1", redis, "EXISTS lk:" K);
	ck_code(agent_call(a, AGENT_CLOSE), 0);
	redis_has("EXISTS lk:" K, "0");
	ck_assert_int_eq(bridge_of(0).pid, 0);
}
END_TEST

static bool two_connections(void *arg)
{
	const char *list = redis_say(redis, "CLIENT LIST");
	int n = 0;

	(void)arg;
	while ((list = strstr(list, "name=lockshm")))
		n++, list++;
	return n == 2;
}

/* The child of a process that is the bridge leaves its connections alone, and closes its copies. */
START_TEST(a_fork_of_the_bridge_harms_nothing)
{
	struct agent *children[8];
	int i;

	bridge_and_holder();
	for (i = 0; i < 8; i++) {
		children[i] = agent_child(a);
		ck_code(global_wait(children[i], "child", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(children[i]), 0);
	}
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	agent_kill(a);
	takes_over(a);
	/* Two of the new bridge: the dead one's are not kept open by its children. */
	ck_assert(await(two_connections, NULL));
	stays_held(lease_of(0, K).value);
}
END_TEST

static int load_slowly; /* 1 = hiredis is to be loaded slowly, 2 = it is being loaded, 3 = fork() is back */

/* The library's calls come here.  Nothing is loaded until somebody has forked, or waits for the load to end. */
void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int);
	int one = 1;

	*(void **)&real = dlsym(RTLD_NEXT, "dlopen");
	if (name && strstr(name, "hiredis") &&
	    __atomic_compare_exchange_n(&load_slowly, &one, 2, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		int64_t end = now_ns() + LOCKSHM_MS(300);

		while (__atomic_load_n(&load_slowly, __ATOMIC_SEQ_CST) != 3 && now_ns() < end)
			pass(now_ns() + LOCKSHM_MS(1));
	}
	return real(name, flags);
}

static int take_a_global_key(const char *key)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int code;

	q.key = key;
	q.key_len = strlen(key);
	q.flags = LOCKSHM_GLOBAL;
	code = lockshm_acquire(hosts[0].s, &q, &hold);
	return code ? code : lockshm_release(&hold, 0);
}

static void *load_it(void *arg)
{
	*(int *)arg = take_a_global_key("parent");
	return NULL;
}

/* The child of a process of which another thread was loading hiredis loads it itself. */
START_TEST(a_fork_while_hiredis_is_loaded)
{
	pthread_t thread;
	int status, code = -1;
	pid_t pid;

	hosts_make(1);
	__atomic_store_n(&load_slowly, 1, __ATOMIC_SEQ_CST);
	ck_assert_int_eq(pthread_create(&thread, NULL, load_it, &code), 0);
	while (__atomic_load_n(&load_slowly, __ATOMIC_SEQ_CST) != 2)
		ck_assert_msg(code == -1, "hiredis was there before");
	pid = fork();
	if (pid == 0) {
		alarm(PATIENCE / LOCKSHM_SECONDS(1));
		_exit(take_a_global_key("child") == 0 ? 0 : 1);
	}
	__atomic_store_n(&load_slowly, 3, __ATOMIC_SEQ_CST);
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: status %x", (unsigned)status);
	pthread_join(thread, NULL);
	ck_code(code, 0);
}
END_TEST

static void connections(char *out, size_t size)
{
	const char *at = redis_say(redis, "CLIENT LIST");
	size_t n = 0;

	out[0] = '\0';
	while ((at = strstr(at, "id=")) && n < size - 20) {
		const char *end = strchr(at, ' ');

		n += (size_t)snprintf(out + n, size - n, "%.*s ", (int)(end - at), at);
		at = end;
	}
}

static bool both_are_there(void *arg)
{
	if (!two_connections(NULL))
		return false;
	connections(arg, 400);
	return true;
}

/* A child that was made past the C library may share the table of descriptors: what it closes is closed here, too. */
START_TEST(a_raw_clone_of_the_bridge_harms_nothing)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char before[400], after[400];
	int status;
	pid_t pid;

	hosts_make(1);
	q.key = K;
	q.key_len = strlen(K);
	q.flags = LOCKSHM_GLOBAL;
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), 0);
	ck_assert(await(both_are_there, before));
	pid = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_FILES, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(lockshm_check(&hold, NULL) == LOCKSHM_NOT_HELD ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(lockshm_check(&hold, NULL), 0);
	connections(after, sizeof(after));
	ck_assert_str_eq(before, after);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* Whoever holds goes on until it releases, and then nothing stays in Redis. */
START_TEST(a_removed_segment_serves_its_holders)
{
	bridge_and_holder();
	ck_code(lockshm_destroy(hosts[0].name, NULL), 0);
	stays_held(lease_of(0, K).value);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_NO_SEGMENT);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, killed_loses_no_lease);
	tcase_add_test(tc, stopped_loses_no_lease);
	tcase_add_test(tc, killed_again_and_again);
	tcase_add_test(tc, killed_while_it_waits);
	tcase_add_test(tc, a_dead_holder_is_followed_at_once);
	tcase_add_test(tc, the_lease_of_a_dead_holder_is_given_back);
	tcase_add_test(tc, a_host_that_dies_is_followed);
	tcase_add_test(tc, a_host_that_stops_has_lost);
	tcase_add_test(tc, a_stopped_waiter_is_passed);
	tcase_add_test(tc, a_service_is_the_bridge_of_all);
	tcase_add_test(tc, closing_gives_back_what_nobody_holds);
	tcase_add_test(tc, closing_gives_back_what_it_held);
	tcase_add_test(tc, a_fork_of_the_bridge_harms_nothing);
	tcase_add_test(tc, a_fork_while_hiredis_is_loaded);
	tcase_add_test(tc, a_raw_clone_of_the_bridge_harms_nothing);
	tcase_add_test(tc, a_removed_segment_serves_its_holders);
}

int main(void)
{
	return hosts_main("global-bridge", add);
}
