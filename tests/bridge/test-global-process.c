/* SPDX-License-Identifier: MIT */
/* test-global-process.c - processes that lead: services; close, fork and clone in them */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct agent *a, *b;

static bool is_another_leader(void *arg)
{
	int32_t pid = bridge_of(0).pid;

	return pid != 0 && pid != *(int32_t *)arg;
}

static void takes_over(pid_t from)
{
	ck_assert_msg(await(is_another_leader, &from), "no process took over from %d", (int)from);
}

/* ---------------------------------------------------------------- services, and the end */

START_TEST(a_service_leads_for_all)
{
	struct lockshm_create_options options = host_options();
	struct bridge_service v;
	pid_t me = getpid();

	options.redis_retain_ns = LOCKSHM_MS(900);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	bridge_service_start(&v, 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, "idle", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	ck_assert_int_eq(bridge_of(0).pid, me);
	/* At its end it releases the leases without holders, and another process takes over the rest. */
	bridge_service_stop(&v);
	ck_redis("0", redis, "EXISTS lk:idle");
	takes_over(me);
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
}
END_TEST

START_TEST(closing_releases_idle_leases)
{
	struct lockshm_create_options options = host_options();

	options.redis_retain_ns = LOCKSHM_MS(900);
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

/* Also the closing thread's own holds, with no other process left to release them. */
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

/* A hold that was moved to the process ends with it; no process is left to release its lease, which would stay until it
 * expires. */
START_TEST(closing_gives_back_what_its_process_held)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = LOCKSHM_SECONDS(40);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_PROCESS }), 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_call(a, AGENT_CLOSE), 0);
	ck_redis("0", redis, "EXISTS lk:" K);
	ck_assert_int_eq(bridge_of(0).pid, 0);
	verify_clean_of(hosts[0].s);
}
END_TEST

/* A thread that holds a key while another one closes; the standby was started for another key. */
struct stayer {
	lockshm_t *s;
	pthread_t thread;
	pthread_barrier_t barrier;
	int held, checked, released;
};

static void *stay(void *arg)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct stayer *t = arg;

	q.key = K;
	q.key_len = strlen(K);
	q.flags = LOCKSHM_GLOBAL;
	t->held = lockshm_acquire(t->s, &q, &hold);
	if (!t->held)
		t->held = lockshm_release(&hold, 0);
	/* Under a global one the standby would stay. */
	q.flags = LOCKSHM_AUTO_RENEW;
	q.ttl_ns = LOCKSHM_SECONDS(30);
	if (!t->held)
		t->held = lockshm_acquire(t->s, &q, &hold);
	pthread_barrier_wait(&t->barrier);
	pthread_barrier_wait(&t->barrier);
	t->checked = lockshm_check(&hold, NULL);
	t->released = lockshm_release(&hold, 0);
	return NULL;
}

static bool two_take_part(void *arg)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	return lockshm_stat(arg, &stat) == 0 && stat.owners_used == 2;
}

/* The standby of a removed segment leaves by itself, and must not be counted any more: the service thread continues for
 * the remaining thread. */
START_TEST(closing_after_the_standby_left)
{
	struct stayer t = { 0 };

	hosts_make(1);
	t.s = hosts[0].s;
	pthread_barrier_init(&t.barrier, NULL, 2);
	ck_assert_int_eq(pthread_create(&t.thread, NULL, stay, &t), 0);
	pthread_barrier_wait(&t.barrier);
	ck_code(t.held, 0);
	ck_code(lockshm_destroy(hosts[0].name, NULL), 0);
	/* The thread and the service thread. */
	ck_assert(await(two_take_part, t.s));
	lockshm_close(t.s);
	hosts[0].s = NULL;
	pthread_barrier_wait(&t.barrier);
	pthread_join(t.thread, NULL);
	ck_code(t.checked, 0);
	ck_code(t.released, 0);
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

/* ---------------------------------------------------------------- stopped */

/* A stopped waiter that is granted holds for three seconds, whatever its ttl. */
START_TEST(a_stopped_waiter_blocks_no_other)
{
	struct agent *next;
	int64_t begun;

	cast("000", &a, &b, &next);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	global_send(next, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(next, 0, K);
	agent_stop(b);
	begun = now_ns();
	ck_code(agent_release(a), 0);
	ck_assert_int_ge(agent_end(next), 0);
	ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(20)); /* its ttl: 30 */
	agent_cont(b);
	ck_code(agent_release(next), 0);
	ck_assert_int_ge(agent_end(b), 0);
}
END_TEST

/* ---------------------------------------------------------------- children */

/* The child of a leader's process leaves its connections alone, and closes its copies. */
START_TEST(a_fork_of_the_bridge_harms_nothing)
{
	struct agent *children[8];
	int i;

	cast("00", &a, &b);
	ck_code(global_wait(a, "first", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 8; i++) {
		children[i] = agent_child(a);
		ck_code(global_wait(children[i], "child", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(children[i]), 0);
	}
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	agent_kill(a);
	takes_over(a->pid);
	/* Two of the new leader: no child keeps the dead one's open. */
	ck_assert(await(two_connections, NULL));
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
}
END_TEST

static int load_slowly; /* 1 = load hiredis slowly, 2 = it is being loaded, 3 = fork() has returned */

/* The library's calls come here.  Loading waits until a thread has forked, or waits for the load to end. */
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

/* If another thread was loading hiredis at the fork, the child loads it itself. */
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

/* Our descriptors without a file: those of the listener. */
static int nameless_descriptors(void)
{
	char path[64], to[64];
	int fd, n = 0;
	ssize_t len;

	for (fd = 3; fd < 200; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, to, sizeof(to) - 1);
		to[len > 0 ? len : 0] = '\0';
		n += strstr(to, "[eventpoll]") || strstr(to, "[eventfd]");
	}
	return n;
}

/* The child keeps no descriptor of its parent as a leader, and becomes a standby like any other when needed. */
START_TEST(a_child_closes_what_it_got)
{
	int before, status;
	pid_t pid;

	before = nameless_descriptors();
	hosts_make(1);
	ck_code(take_a_global_key(K), 0);
	ck_assert(await(two_connections, NULL));
	ck_assert_int_eq(nameless_descriptors(), before + 2);
	pid = fork();
	if (pid == 0) {
		alarm(PATIENCE / LOCKSHM_SECONDS(1));
		if (nameless_descriptors() != before)
			_exit(2);
		_exit(take_a_global_key("child") == 0 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: status %x", (unsigned)status);
	ck_assert_int_eq(nameless_descriptors(), before + 2);
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

/* A child made past the C library may share the table of descriptors: what it closes is closed here, too. */
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

static void add(TCase *tc)
{
	tcase_add_test(tc, a_service_leads_for_all);
	tcase_add_test(tc, closing_releases_idle_leases);
	tcase_add_test(tc, closing_gives_back_what_it_held);
	tcase_add_test(tc, closing_gives_back_what_its_process_held);
	tcase_add_test(tc, closing_after_the_standby_left);
	tcase_add_test(tc, a_stopped_waiter_blocks_no_other);
	tcase_add_test(tc, a_fork_of_the_bridge_harms_nothing);
	tcase_add_test(tc, a_child_closes_what_it_got);
	tcase_add_test(tc, a_fork_while_hiredis_is_loaded);
	tcase_add_test(tc, a_raw_clone_of_the_bridge_harms_nothing);
}

int main(void)
{
	return hosts_main("global-process", add);
}
