/* SPDX-License-Identifier: MIT */
/* test-global-downgrade.c - an exclusive holder becomes a reader, and admits readers of all hosts */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostlease/host-lease.h"

static struct agent *a, *b, *c;

static int downgrade(struct agent *agent)
{
	return agent_call(agent, AGENT_DOWNGRADE);
}

static int upgrade(struct agent *agent)
{
	return agent_call(agent, AGENT_UPGRADE);
}

static uint64_t word_now(void)
{
	return load_acquire(&hosts[0].s->host_leases[record_of(0, K)].word);
}

static bool is_reader(void *arg)
{
	return lease_of(*(unsigned *)arg, K).mode == LOCKSHM_SHARED;
}

/* Shared in the word, and in Redis. */
static void becomes_shared(struct agent *agent, unsigned host)
{
	redis_has("TYPE lk:" K, "set");
	ck_redis("1", redis, "SISMEMBER lk:" K " %s", lease_of(host, K).value);
	ck_assert(await(is_reader, &host));
	ck_code(agent_call(agent, AGENT_CHECK), 0);
}

static void is_exclusive(struct agent *agent, unsigned host)
{
	ck_code(agent_call(agent, AGENT_CHECK), 0);
	ck_redis(lease_of(host, K).value, redis, "GET lk:" K);
	ck_assert_int_eq(lease_of(host, K).mode, LOCKSHM_EXCLUSIVE);
}

static void leaves_nothing(struct agent *agent)
{
	ck_code(agent_release(agent), 0);
	redis_has("EXISTS lk:" K " {lk:" K "}:q {lk:" K "}:rx", "0");
}

/* ---------------------------------------------------------------- new readers */

START_TEST(waiters_on_another_host)
{
	cast("011", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_SHARED);
	global_send(c, K, LOCKSHM_SHARED);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(downgrade(a), 0);
	ck_code(agent_end(b), 0);
	ck_code(agent_end(c), 0);
	becomes_shared(a, 0);
	pass(now_ns() + LOCKSHM_MS(1500)); /* renewed as shared */
	becomes_shared(a, 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_release(b), 0);
	ck_code(agent_release(c), 0);
	leaves_nothing(a);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
}
END_TEST

START_TEST(a_try_on_another_host)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(downgrade(a), 0);
	becomes_shared(a, 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(global_try(b, K, LOCKSHM_SHARED), 0);
	ck_code(downgrade(a), 0); /* nothing to do */
	ck_code(agent_release(b), 0);
	leaves_nothing(a);
}
END_TEST

/* Local waiters are granted at once, without Redis. */
START_TEST(local_readers_while_redis_is_frozen)
{
	struct lockshm_create_options options = host_options();
	int64_t begun;

	own_server();
	options.redis = redis->uri;
	options.redis_ttl_ns = LOCKSHM_SECONDS(6);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_SHARED);
	waits_on_host(b, 0, K);
	redis_freeze(redis);
	begun = now_ns();
	ck_code(downgrade(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(1));
	redis_thaw(redis);
	becomes_shared(a, 0);
	ck_code(agent_release(b), 0);
	leaves_nothing(a);
}
END_TEST

/* a reads and releases; b writes; all before the stopped leader looks. */
START_TEST(a_writer_here_was_faster)
{
	struct lockshm_create_options options = host_options();
	const uint64_t wished = HOST_LEASE_EXCLUSIVE | HOST_LEASE_DOWNGRADE;
	int64_t end;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20); /* a stopped leader keeps leadership for a quarter of that */
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	c = on_host(0);
	ck_code(global_wait(c, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(bridge_of(0).pid, c->pid);
	agent_stop(c);
	ck_code(downgrade(a), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(word_now() & wished, wished);
	agent_cont(c);
	for (end = now_ns() + LOCKSHM_MS(700); now_ns() < end;)
		is_exclusive(b, 0);
	leaves_nothing(b);
}
END_TEST

START_TEST(a_local_writer_is_after_all_readers)
{
	uint64_t token;

	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	ck_code(downgrade(a), 0);
	becomes_shared(a, 0);
	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K ":lock-intent", "1");
	ck_assert_int_eq(agent_poll(b), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_gt(b->answer.token, token);
	is_exclusive(b, 0);
}
END_TEST

/* ---------------------------------------------------------------- there and back */

START_TEST(again_and_again)
{
	uint64_t token;
	int i;

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 20; i++) {
		token = a->answer.token;
		ck_code(downgrade(a), 0);
		ck_assert_uint_eq(a->answer.token, token);
		if (i % 2) {
			becomes_shared(a, 0);
			ck_code(global_try(b, K, LOCKSHM_SHARED), 0);
			ck_code(upgrade(a), LOCKSHM_BUSY);
			ck_code(agent_release(b), 0);
			redis_has("SCARD lk:" K, "1");
		}
		ck_code(upgrade(a), 0);
		ck_assert_uint_gt(a->answer.token, token);
		is_exclusive(a, 0);
		ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	}
	leaves_nothing(a);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

struct room {
	int writers, readers;
	int seen; /* holders that should not be inside */
	int turns, guests;
};

static void write_in(struct room *room)
{
	if (__atomic_fetch_add(&room->writers, 1, __ATOMIC_SEQ_CST) != 0 ||
	    __atomic_load_n(&room->readers, __ATOMIC_SEQ_CST) != 0)
		__atomic_store_n(&room->seen, 1, __ATOMIC_SEQ_CST);
}

/* Counted without a gap: a reader before it stops being a writer. */
static void read_in(struct room *room, bool was_writer)
{
	__atomic_fetch_add(&room->readers, 1, __ATOMIC_SEQ_CST);
	if (__atomic_fetch_sub(&room->writers, was_writer, __ATOMIC_SEQ_CST) != was_writer)
		__atomic_store_n(&room->seen, 1, __ATOMIC_SEQ_CST);
}

static void leave_room(struct room *room, bool writer)
{
	__atomic_fetch_sub(writer ? &room->writers : &room->readers, 1, __ATOMIC_SEQ_CST);
}

/* Write, read, and write again at once where that is possible. */
static void come_and_go(lockshm_t *s, struct room *room)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	bool writes = true;
	int i;

	q.key = K;
	q.key_len = strlen(K);
	q.flags = LOCKSHM_GLOBAL;
	if (lockshm_acquire(s, &q, &hold) < 0)
		_exit(1);
	write_in(room);
	for (i = 0; i < 20; i++) {
		if (writes) {
			read_in(room, true);
			if (lockshm_downgrade(&hold) != 0)
				_exit(2);
		}
		usleep((unsigned)(i * 37) % 400); /* not a wait for an event: varies when the others enter */
		leave_room(room, false);
		writes = lockshm_upgrade(&hold) == 0;
		if (writes)
			write_in(room);
		else
			read_in(room, false);
		__atomic_fetch_add(&room->turns, writes, __ATOMIC_SEQ_CST);
	}
	leave_room(room, writes);
	if (lockshm_release(&hold, 0) != 0)
		_exit(3);
}

static void look_around(lockshm_t *s, struct room *room)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	q.key = K;
	q.key_len = strlen(K);
	q.mode = LOCKSHM_SHARED;
	q.flags = LOCKSHM_GLOBAL;
	if (lockshm_acquire(s, &q, &hold) < 0)
		_exit(4);
	read_in(room, false);
	usleep(200); /* time for a wrong holder to enter; nothing depends on it */
	leave_room(room, false);
	__atomic_fetch_add(&room->guests, 1, __ATOMIC_SEQ_CST);
	if (lockshm_release(&hold, 0) != 0)
		_exit(5);
}

static pid_t child(unsigned host, void (*visit)(lockshm_t *, struct room *), struct room *room)
{
	int64_t end = now_ns() + LOCKSHM_SECONDS(3);
	lockshm_t *s;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	if (lockshm_open(&s, hosts[host].name, 0, NULL) != 0)
		_exit(6);
	while (now_ns() < end)
		visit(s, room);
	lockshm_close(s);
	_exit(0);
}

/* Modes that change as quickly as they can on the host of the lease, while others try to enter. */
START_TEST(no_reader_with_a_writer)
{
	struct room *room = mmap(NULL, sizeof(*room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[5];
	size_t i;
	int status;

	ck_assert_ptr_ne(room, MAP_FAILED);
	hosts_make(2);
	pids[0] = child(0, come_and_go, room);
	pids[1] = child(0, come_and_go, room);
	pids[2] = child(0, look_around, room);
	pids[3] = child(1, look_around, room);
	pids[4] = child(1, come_and_go, room);
	for (i = 0; i < 5; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_msg(status == 0, "process %zu ended with %x", i, status);
	}
	ck_assert_int_eq(room->seen, 0);
	ck_assert_int_gt(room->turns, 0);
	ck_assert_int_gt(room->guests, 0);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
	munmap(room, sizeof(*room));
}
END_TEST

#define TURNS 127

/* After the last mode_gen the lease stays exclusive until it is released. */
START_TEST(until_mode_gens_are_used_up)
{
	unsigned host = 0;
	int i;

	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < TURNS; i++) {
		ck_code(downgrade(a), 0);
		ck_assert(await(is_reader, &host));
		ck_code(upgrade(a), 0);
	}
	ck_code(downgrade(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	pass(now_ns() + LOCKSHM_MS(500));
	is_exclusive(a, 0);
	ck_code(agent_release(b), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(downgrade(a), 0);
	becomes_shared(a, 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* ---------------------------------------------------------------- faults of Redis */

static bool is_writer(void *arg)
{
	return lease_of(*(unsigned *)arg, K).mode == LOCKSHM_EXCLUSIVE;
}

/* As a replica that had not received it: exclusive.  Readers elsewhere lose their holds, and may return. */
START_TEST(a_downgrade_the_server_forgot)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(downgrade(a), 0);
	becomes_shared(a, 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_redis("OK", redis, "SET before %s PX 60000", lease_of(0, K).value);
	ck_redis("OK", redis, "RENAME before lk:" K);
	lost_is_reported(b);
	becomes_shared(a, 0);
	ck_code(agent_release(b), LOCKSHM_LOST);
	ck_assert_int_ge(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(agent_release(b), 0);
	leaves_nothing(a);
}
END_TEST

/* Without the record that tells late commands apart nothing is downgraded, and nothing is lost. */
START_TEST(a_record_that_was_deleted)
{
	unsigned host = 0;

	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("1", redis, "DEL {lk:" K "}:f");
	ck_code(downgrade(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_assert(await(is_writer, &host));
	redis_has("HGET {lk:" K "}:f token", lease_of(0, K).value);
	is_exclusive(a, 0);
	ck_code(agent_release(b), 0);
	leaves_nothing(a);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* ---------------------------------------------------------------- deaths and stops */

/* b leads a's host; replies of Redis are dropped from now on, after it has done the command. */
static struct proxy *deaf_bridge(void)
{
	struct proxy *p = hosts_by_proxy(LOCKSHM_SECONDS(4));

	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
	proxy_set(p, PROXY_DROP_REPLIES);
	ck_code(downgrade(a), 0);
	redis_has("TYPE lk:" K, "set");
	return p;
}

START_TEST(the_bridge_is_killed_in_between)
{
	struct proxy *p = deaf_bridge();

	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	agent_kill(b);
	proxy_set(p, PROXY_RESET);
	proxy_set(p, PROXY_PASS);
	/* Not before its successor has had the reply. */
	ck_code(upgrade(a), LOCKSHM_BUSY);
	becomes_shared(a, 0);
	ck_code(agent_release(c), 0);
	redis_has("SCARD lk:" K, "1");
	ck_code(upgrade(a), 0);
	is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* Its late command makes no reader of a writer. */
START_TEST(the_bridge_is_stopped_in_between)
{
	struct proxy *p = deaf_bridge();
	int64_t end = now_ns() + LOCKSHM_SECONDS(8);

	agent_stop(b);
	proxy_set(p, PROXY_RESET);
	proxy_set(p, PROXY_PASS);
	while (upgrade(a) == LOCKSHM_BUSY)
		ck_assert_int_lt(now_ns(), end);
	ck_code(a->answer.code, 0);
	agent_cont(b);
	for (end = now_ns() + LOCKSHM_SECONDS(1); now_ns() < end;)
		is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* Its requester is gone: the lease is released like any other. */
START_TEST(the_requester_is_killed)
{
	struct proxy *p = deaf_bridge();

	agent_kill(a);
	proxy_set(p, PROXY_RESET);
	proxy_set(p, PROXY_PASS);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, waiters_on_another_host);
	tcase_add_test(tc, a_try_on_another_host);
	tcase_add_test(tc, local_readers_while_redis_is_frozen);
	tcase_add_test(tc, a_writer_here_was_faster);
	tcase_add_test(tc, a_local_writer_is_after_all_readers);
	tcase_add_test(tc, again_and_again);
	tcase_add_test(tc, no_reader_with_a_writer);
	tcase_add_test(tc, until_mode_gens_are_used_up);
	tcase_add_test(tc, a_downgrade_the_server_forgot);
	tcase_add_test(tc, a_record_that_was_deleted);
	tcase_add_test(tc, the_bridge_is_killed_in_between);
	tcase_add_test(tc, the_bridge_is_stopped_in_between);
	tcase_add_test(tc, the_requester_is_killed);
}

int main(void)
{
	return hosts_main("global-downgrade", add);
}
