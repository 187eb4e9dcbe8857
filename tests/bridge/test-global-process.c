/* SPDX-License-Identifier: MIT */
/* test-global-process.c - processes and the bridge of their host: none runs, or it comes late; what a process takes
 * part in, and what it leaves when it ends */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <dirent.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"

static struct agent *a, *b;

/* ---------------------------------------------------------------- no bridge */

static void host_without_bridge(int policy)
{
	struct lockshm_create_options options = host_options();

	options.redis_policy = segment_policy(policy);
	host_make_bare(0, &options);
	a = on_host(0);
	b = on_host(0);
}

static void names_the_command(const struct agent *agent)
{
	char want[200];

	snprintf(want, sizeof(want), "no bridge to Redis runs: start one with \"lockshm-bridge %s%s\"",
		 hosts[0].name[0] == '/' ? "" : "/", hosts[0].name);
	ck_assert_str_eq(agent->answer.report.error.message, want);
}

/* After two seconds, a try after one: a bridge may be starting again. */
START_TEST(none_and_policy_fail)
{
	int64_t begun = now_ns();

	host_without_bridge(LOCKSHM_REDIS_FAIL);
	/* A time in the future is damage, and no time without a bridge. */
	store_release(&hosts[0].s->bridge->missing_since, UINT64_MAX);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_assert_int_ge(a->answer.at_ns - begun, LOCKSHM_MS(2000));
	names_the_command(a);
	ck_assert_uint_eq(a->answer.token, 0);
	ck_code(global_try(a, K, LOCKSHM_SHARED), LOCKSHM_BRIDGE);
	names_the_command(a);
	/* Local keys never notice. */
	ck_code(agent_try(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	ck_redis("0", redis, "DBSIZE");
	/* It is no result for a later request. */
	bridge_start(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* A queue behind the first: each gets the result in its turn. */
START_TEST(none_for_several)
{
	uint64_t since;

	host_without_bridge(LOCKSHM_REDIS_FAIL);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	wanted_by(1);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	ck_code(agent_end(a), LOCKSHM_BRIDGE);
	names_the_command(a);
	since = load_relaxed(&hosts[0].s->bridge->missing_since);
	ck_assert_uint_ne(since, 0);
	ck_code(agent_end(b), LOCKSHM_BRIDGE);
	names_the_command(b);
	/* Both had been without a bridge since the same time; from the first leader on there is none. */
	ck_assert_uint_eq(load_relaxed(&hosts[0].s->bridge->missing_since), since);
	bridge_start(0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(load_relaxed(&hosts[0].s->bridge->missing_since), 0);
}
END_TEST

START_TEST(none_and_policy_wait)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	host_without_bridge(LOCKSHM_REDIS_WAIT);
	args.timeout_ns = LOCKSHM_MS(2500);
	ck_code(agent_do(a, args), LOCKSHM_TIMEOUT);
	ck_contains(a->answer.report.error.message, "not granted in time: no bridge to Redis runs");
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	names_the_command(a);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	wanted_by(1);
	pass(now_ns() + LOCKSHM_MS(2500));
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	bridge_start(0);
	ck_code(agent_end(a), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
}
END_TEST

START_TEST(none_and_policy_local_only)
{
	host_without_bridge(LOCKSHM_REDIS_LOCAL_ONLY);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_LOCAL_ONLY);
	ck_assert_uint_eq(a->answer.token, 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY); /* it is held on this host */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_release(b), 0);
	bridge_start(0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, 0);
}
END_TEST

static int local_only_in_a_loop(const struct lockshm_request *q, const struct lockshm_key *keys, size_t n,
				lockshm_hold_t *holds)
{
	struct lockshm_outcome end = LOCKSHM_OUTCOME_INIT;
	lockshm_loop_t *loop = loop_new();

	if (n == 1)
		ck_code(lockshm_loop_acquire(loop, q, holds, NULL), LOCKSHM_PENDING);
	else
		ck_code(lockshm_loop_acquire_many(loop, q, keys, n, holds, NULL), LOCKSHM_PENDING);
	while (lockshm_loop_next(loop, &end) == 0)
		loop_await(loop);
	return end.status;
}

/* By the way of that number. */
static int local_only_by(int way, lockshm_hold_t *holds)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY(K, 0), LOCKSHM_MANY_KEY("whole", 0) };
	struct lockshm_request q = LOCKSHM_REQUEST(K), common = LOCKSHM_REQUEST_INIT;
	static lockshm_lock_t lock;

	q.flags = common.flags = LOCKSHM_GLOBAL | LOCKSHM_ROBUST;
	q.redis_policy = common.redis_policy = LOCKSHM_REDIS_LOCAL_ONLY;
	if (way == 0)
		return lockshm_acquire(hosts[0].s, &q, holds);
	if (way == 1)
		return lockshm_acquire_many(hosts[0].s, &common, keys, 2, holds);
	if (way == 2 || way == 3)
		return local_only_in_a_loop(way == 2 ? &q : &common, keys, (size_t)way - 1, holds);
	ck_code(lockshm_lock_init(&lock, hosts[0].s, &q), 0);
	return lockshm_lock(&lock, hosts[0].s);
}

/* Its status is that it has the key on this host only: it is not told of a mark, and leaves it there. */
START_TEST(local_only_beside_a_mark)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	size_t cleared;

	host_without_bridge(LOCKSHM_REDIS_LOCAL_ONLY);
	seg = hosts[0].s;
	/* For long. */
	store_release(&seg->bridge->missing_since, 1);
	args.flags |= LOCKSHM_ROBUST;
	args.policy = LOCKSHM_REDIS_LOCAL_ONLY;
	ck_code(agent_do(a, args), LOCKSHM_LOCAL_ONLY);
	agent_kill(a);
	ck_code(local_only_by(_i, holds), LOCKSHM_LOCAL_ONLY);
	ck_code(clear_all_marks(seg, &cleared), 0);
	ck_assert_uint_eq(cleared, 1);
}
END_TEST

/* Killed under a hold: the hold ends with its lease, and is no result for others before. */
START_TEST(none_under_a_hold)
{
	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	bridge_kill(0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(agent_end(b), LOCKSHM_BRIDGE);
	names_the_command(b);
}
END_TEST

/* False = this machine was too slow to start it in time. */
static bool comes_in_time(int64_t after_ns, int64_t timeout_ns, int64_t limit_ns)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	int64_t begun = now_ns();

	args.timeout_ns = timeout_ns;
	agent_send(a, args);
	wanted_by(1);
	pass(begun + after_ns);
	bridge_start(0);
	if (agent_end(a) == LOCKSHM_BRIDGE && now_ns() - begun > limit_ns) {
		bridge_kill(0);
		return false;
	}
	ck_code(a->answer.code, 0);
	return true;
}

/* A second after the request, or half of one after a try: as if it had been there. */
START_TEST(it_comes_after_the_request)
{
	int tries = 0;

	host_without_bridge(LOCKSHM_REDIS_FAIL);
	while (!(_i ? comes_in_time(LOCKSHM_MS(400), AGENT_TRY, LOCKSHM_MS(900))
		    : comes_in_time(LOCKSHM_MS(1000), 0, LOCKSHM_MS(1900))))
		ck_assert_int_lt(tries++, 20);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
}
END_TEST

/* The bridge may be there before the segment. */
START_TEST(it_waits_for_the_segment)
{
	struct lockshm_create_options options = host_options();
	struct lockshm_error error = { 0 };
	pid_t pid;

	host_make_bare(0, &options);
	lockshm_close(hosts[0].s);
	ck_code(lockshm_destroy(hosts[0].name, NULL), 0);
	pid = bridge_spawn(0);
	ck_code(lockshm_create(&hosts[0].s, hosts[0].name, &options, &error), 0);
	leads(0, pid);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* ---------------------------------------------------------------- what a process leaves */

enum ends { RELEASED_AND_EXITED, KILLED, CLOSED, PROCESS_CLOSED, ENDS };

/* Other hosts wait for nothing: the lease lasts longer than the test waits. */
START_TEST(its_end_leaves_nothing)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = 2 * PATIENCE;
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("1", redis, "EXISTS lk:" K);
	if (_i == PROCESS_CLOSED)
		ck_code(agent_do(a, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_PROCESS }), 0);
	if (_i == RELEASED_AND_EXITED) {
		ck_code(agent_release(a), 0);
		ck_code(agent_call(a, AGENT_EXIT), AGENT_DIED);
		agent_gone(a);
	} else if (_i == KILLED) {
		agent_kill(a);
	} else {
		ck_code(agent_call(a, AGENT_CLOSE), 0);
	}
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	verify_clean_of(hosts[0].s);
}
END_TEST

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
	begun = ran_ns();
	ck_code(agent_release(a), 0);
	ck_assert_int_ge(agent_end(next), 0);
	ck_assert_int_lt(ran_ns() - begun, LOCKSHM_SECONDS(20)); /* its ttl: 30 */
	agent_cont(b);
	ck_code(agent_release(next), 0);
	ck_assert_int_ge(agent_end(b), 0);
}
END_TEST

/* ---------------------------------------------------------------- what a process takes part in */

/* Entries of /proc/PID/@what. */
static int count(pid_t pid, const char *what)
{
	char path[64];
	struct dirent *d;
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* No thread and no descriptor, also while it holds or waits. */
START_TEST(no_thread_and_no_descriptor)
{
	int threads, descriptors;

	cast("01", &a, &b);
	ck_code(agent_try(a, "local", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	threads = count(a->pid, "task");
	descriptors = count(a->pid, "fd");
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(count(a->pid, "task"), threads);
	ck_assert_int_eq(count(a->pid, "fd"), descriptors);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert_int_eq(count(a->pid, "task"), threads);
	ck_assert_int_eq(count(a->pid, "fd"), descriptors);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(a), 0);
}
END_TEST

/* The ids of the bridge's connections. */
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

static bool two_connections(void *arg)
{
	const char *list = redis_say(redis, "CLIENT LIST");
	int n = 0;

	while ((list = strstr(list, "name=lockshm")))
		n++, list++;
	if (n == 2)
		connections(arg, 400);
	return n == 2;
}

/* Nor does fork, exec, close or an end: the bridge's connections stay those two. */
START_TEST(none_of_its_acts_touches_redis)
{
	char before[400], after[400];
	struct agent *child;
	int i;

	cast("00", &a, &b);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert(await(two_connections, before));
	for (i = 0; i < 8; i++) {
		ck_code(global_wait(a, "parent", LOCKSHM_EXCLUSIVE), 0);
		child = agent_child(a);
		ck_code(agent_call(child, AGENT_CHECK), LOCKSHM_NOT_HELD);
		ck_code(global_wait(child, "child", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_code(agent_call(child, i % 2 ? AGENT_EXEC : AGENT_EXIT), AGENT_DIED);
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_code(agent_release(a), 0);
	}
	ck_code(agent_call(a, AGENT_CLOSE), 0);
	redis_has("EXISTS lk:parent lk:child", "0");
	ck_code(agent_call(b, AGENT_CHECK), 0);
	connections(after, sizeof(after));
	ck_assert_str_eq(before, after);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, none_and_policy_fail);
	tcase_add_test(tc, none_for_several);
	tcase_add_test(tc, none_and_policy_wait);
	tcase_add_test(tc, none_and_policy_local_only);
	tcase_add_loop_test(tc, local_only_beside_a_mark, 0, 5);
	tcase_add_test(tc, none_under_a_hold);
	tcase_add_loop_test(tc, it_comes_after_the_request, 0, 2);
	tcase_add_test(tc, it_waits_for_the_segment);
	tcase_add_loop_test(tc, its_end_leaves_nothing, 0, ENDS);
	tcase_add_test(tc, a_stopped_waiter_blocks_no_other);
	tcase_add_test(tc, no_thread_and_no_descriptor);
	tcase_add_test(tc, none_of_its_acts_touches_redis);
}

int main(void)
{
	return hosts_main("global-process", add);
}
