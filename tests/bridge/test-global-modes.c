/* SPDX-License-Identifier: MIT */
/* test-global-modes.c - readers and writers of several hosts, and holds that change their mode on one */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostlease/host-lease.h"

static struct agent *a, *b, *c, *d;

static int downgrade(struct agent *agent)
{
	return agent_call(agent, AGENT_DOWNGRADE);
}

static int upgrade(struct agent *agent)
{
	return agent_call(agent, AGENT_UPGRADE);
}

static bool upgrades(void *agent)
{
	return upgrade(agent) == 0;
}

/* In the word and in Redis, whatever the mode of the hold. */
static void lease_is_exclusive(struct agent *agent, unsigned host)
{
	ck_code(agent_call(agent, AGENT_CHECK), 0);
	ck_redis(lease_of(host, K).value, redis, "GET lk:" K);
	ck_assert_int_eq(lease_of(host, K).mode, LOCKSHM_EXCLUSIVE);
}

static void lease_is_shared(struct agent *agent, unsigned host)
{
	ck_code(agent_call(agent, AGENT_CHECK), 0);
	ck_redis("1", redis, "SISMEMBER lk:" K " %s", lease_of(host, K).value);
	ck_assert_int_eq(lease_of(host, K).mode, LOCKSHM_SHARED);
}

static void leaves_nothing(struct agent *agent)
{
	ck_code(agent_release(agent), 0);
	redis_has("EXISTS lk:" K " {lk:" K "}:q {lk:" K "}:rx", "0");
}

/* ---------------------------------------------------------------- downgrade */

START_TEST(a_downgrade_admits_readers_of_this_host)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_SHARED);
	waits_on_host(b, 0, K);
	ck_code(downgrade(a), 0);
	ck_code(agent_end(b), 0);
	ck_code(downgrade(a), 0); /* nothing to do */
	ck_code(global_try(c, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	pass(now_ns() + LOCKSHM_MS(1500)); /* renewed */
	lease_is_exclusive(a, 0);
	lease_is_exclusive(b, 0);
	ck_code(agent_release(b), 0);
	leaves_nothing(a);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

static bool is_refused(void *agent)
{
	if (global_try(agent, K, LOCKSHM_SHARED) == LOCKSHM_BUSY)
		return true;
	ck_code(agent_release(agent), 0);
	return false;
}

/* Another host waits: the readers of this host go on, new ones come after it, and all of it ends in order. */
START_TEST(other_hosts_wait_for_the_end_of_the_cohort)
{
	cast("0010", &a, &b, &c, &d);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(downgrade(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert(await(is_refused, d));
	global_send(d, K, LOCKSHM_SHARED);
	wanted_by(1);
	lease_is_exclusive(a, 0);
	ck_code(agent_release(a), 0);
	lease_is_exclusive(b, 0);
	ck_assert_int_eq(agent_poll(c), AGENT_BLOCKED);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(c), 0);
	ck_assert_int_eq(agent_poll(d), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(d), 0);
	lease_is_shared(d, 0);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
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
	ck_assert_int_eq(agent_poll(b), AGENT_BLOCKED);
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_gt(b->answer.token, token);
	lease_is_exclusive(b, 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
}
END_TEST

START_TEST(a_downgraded_reader_is_killed)
{
	cast("01", &a, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(downgrade(a), 0);
	global_send(c, K, LOCKSHM_SHARED);
	redis_has("ZCARD {lk:" K "}:q", "1");
	b = on_host(0);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(a);
	ck_code(agent_end(c), 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

/* ---------------------------------------------------------------- upgrade */

/* Redis is not asked. */
START_TEST(modes_change_while_redis_is_frozen)
{
	struct lockshm_create_options options = host_options();
	uint64_t token;

	own_server();
	strcpy(options.redis, redis->uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(60);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	global_send(b, K, LOCKSHM_SHARED);
	waits_on_host(b, 0, K);
	redis_freeze(redis);
	ck_code(downgrade(a), 0);
	ck_assert_uint_eq(a->answer.token, token);
	ck_code(agent_end(b), 0);
	token = b->answer.token;
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_code(agent_release(b), 0);
	ck_code(upgrade(a), 0);
	ck_assert_uint_gt(a->answer.token, token);
	ck_code(upgrade(a), 0); /* nothing to do */
	redis_thaw(redis);
	lease_is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* More often than tokens were reserved with the lease. */
START_TEST(again_and_again)
{
	uint64_t token;
	int i;

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 3 * STRIDE_FIRST; i++) {
		token = a->answer.token;
		ck_code(downgrade(a), 0);
		ck_assert(await(upgrades, a));
		ck_assert_uint_gt(a->answer.token, token);
	}
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	lease_is_exclusive(a, 0);
	leaves_nothing(a);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
}
END_TEST

/* The server lost the fence, and its clock went back. */
START_TEST(numbers_that_went_back)
{
	uint64_t others;

	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(downgrade(a), 0);
	others = a->answer.token + 1000000000;
	fence_becomes(0, K, others);
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_assert(await(upgrades, a));
	ck_assert_uint_ge(a->answer.token, others);
	lease_is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* Others may read: release, then acquire exclusive. */
START_TEST(no_upgrade_under_a_shared_lease)
{
	uint64_t token;

	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	token = a->answer.token;
	ck_code(upgrade(a), LOCKSHM_INVALID);
	ck_contains(lockshm_strerror(LOCKSHM_INVALID), "release, then acquire exclusive");
	ck_assert_uint_eq(a->answer.token, token);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(a), LOCKSHM_INVALID);
	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(a), LOCKSHM_INVALID);
	lease_is_shared(a, 0);
	lease_is_shared(c, 1);
	ck_code(agent_release(b), 0);
	ck_code(agent_release(c), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	lease_is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

START_TEST(no_upgrade_of_what_is_lost)
{
	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(downgrade(a), 0);
	ck_redis("OK", redis, "SET lk:" K " thief");
	lost_is_reported(a);
	ck_code(upgrade(a), LOCKSHM_LOST);
	ck_redis("thief", redis, "GET lk:" K);
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

/* ---------------------------------------------------------------- readers, then a writer */

/* The lease is given back and acquired anew. */
START_TEST(a_writer_after_the_readers_of_its_host)
{
	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	lease_is_exclusive(b, 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 2);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* @_i: the writer of the other host came first; or a reader of it holds. */
START_TEST(a_writer_after_the_readers_of_all_hosts)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	if (_i == 0) {
		global_send(c, K, LOCKSHM_EXCLUSIVE);
		redis_has("ZCARD {lk:" K "}:q", "1");
	} else {
		ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	}
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	ck_code(agent_release(a), 0);
	if (_i == 0)
		ck_code(agent_end(c), 0);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert_int_eq(agent_poll(b), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(b), 0);
	lease_is_exclusive(b, 0);
}
END_TEST

static void reads_once(lockshm_t *s)
{
	struct lockshm_request q = LOCKSHM_REQUEST(K);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	q.mode = LOCKSHM_SHARED;
	q.flags = LOCKSHM_GLOBAL;
	if (lockshm_acquire(s, &q, &hold) < 0 || lockshm_release(&hold, 0) != 0)
		_exit(1);
}

static pid_t reader(unsigned host, const int *over)
{
	lockshm_t *s;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	if (lockshm_open(&s, hosts[host].name, 0, NULL) != 0)
		_exit(2);
	while (!__atomic_load_n(over, __ATOMIC_SEQ_CST))
		reads_once(s);
	lockshm_close(s);
	_exit(0);
}

/* Readers come and go on both hosts without an end: a writer of one of them is granted. */
START_TEST(a_writer_among_readers_without_an_end)
{
	int *over = mmap(NULL, sizeof(*over), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[4];
	int i, status;

	ck_assert_ptr_ne(over, MAP_FAILED);
	hosts_make(2);
	a = on_host(0);
	for (i = 0; i < 4; i++)
		pids[i] = reader((unsigned)i % 2, over);
	for (i = 0; i < 5; i++) {
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(a), 0);
	}
	__atomic_store_n(over, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < 4; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_msg(status == 0, "reader %d ended with %x", i, status);
	}
	munmap(over, sizeof(*over));
}
END_TEST

/* ---------------------------------------------------------------- all at once */

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

/* Write, read, and write again where that is possible. */
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

/* ---------------------------------------------------------------- faults of Redis */

/* As a program that edits it: our value among the readers, so others may read. */
START_TEST(the_record_of_a_writer_becomes_a_readers)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("1", redis, "SADD before %s", lease_of(0, K).value);
	ck_redis("1", redis, "PEXPIRE before 60000");
	ck_redis("1", redis, "ZADD {lk:" K "}:rx 9999999999999 %s", lease_of(0, K).value);
	ck_redis("OK", redis, "RENAME before lk:" K);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	lost_is_reported(a);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

START_TEST(the_record_of_a_reader_becomes_a_writers)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_redis("OK", redis, "SET before %s PX 60000", lease_of(0, K).value);
	ck_redis("OK", redis, "RENAME before lk:" K);
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
}
END_TEST

/* ---------------------------------------------------------------- a majority */

static unsigned count(const char *type)
{
	unsigned i, n = 0;

	for (i = 0; i < SERVERS; i++)
		n += strcmp(redis_say(servers[i], "TYPE lk:" K), type) == 0;
	return n;
}

static bool all_have(void *type)
{
	return count(type) == SERVERS;
}

static void two_hosts_of_a_majority(int mode)
{
	hosts_on_three(2, LOCKSHM_SECONDS(3));
	a = on_host(0);
	b = on_host(1);
	ck_code(global_wait(a, K, mode), 0);
}

START_TEST(majority_up_and_down)
{
	static char string[] = "string";
	uint64_t token;
	int i;

	two_hosts_of_a_majority(LOCKSHM_EXCLUSIVE);
	ck_assert(await(all_have, string));
	for (i = 0; i < 5; i++) {
		token = a->answer.token;
		ck_code(downgrade(a), 0);
		ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
		ck_code(upgrade(a), 0);
		ck_assert_uint_gt(a->answer.token, token);
	}
	pass(now_ns() + LOCKSHM_MS(1500)); /* renewed */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(count(string), SERVERS);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(b), LOCKSHM_INVALID);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
}
END_TEST

/* A server that forgot the lease gets it again in its mode. */
START_TEST(majority_refills_one_server)
{
	static char types[2][8] = { "string", "set" };

	two_hosts_of_a_majority(_i == 0 ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED);
	ck_assert(await(all_have, types[_i]));
	ck_redis("1", servers[2], "DEL lk:" K);
	ck_assert(await(all_have, types[_i]));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

START_TEST(majority_with_the_record_of_a_reader)
{
	static char string[] = "string";
	unsigned i;

	two_hosts_of_a_majority(LOCKSHM_EXCLUSIVE);
	ck_assert(await(all_have, string));
	for (i = 0; i < 2; i++) {
		ck_redis("2", servers[i], "SADD before %s stranger", lease_of(0, K).value);
		ck_redis("1", servers[i], "PEXPIRE before 60000");
		ck_redis("1", servers[i], "ZADD {lk:" K "}:rx 9999999999999 %s", lease_of(0, K).value);
		ck_redis("OK", servers[i], "RENAME before lk:" K);
	}
	lost_is_reported(a);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_downgrade_admits_readers_of_this_host);
	tcase_add_test(tc, other_hosts_wait_for_the_end_of_the_cohort);
	tcase_add_test(tc, a_local_writer_is_after_all_readers);
	tcase_add_test(tc, a_downgraded_reader_is_killed);
	tcase_add_test(tc, modes_change_while_redis_is_frozen);
	tcase_add_test(tc, again_and_again);
	tcase_add_test(tc, numbers_that_went_back);
	tcase_add_test(tc, no_upgrade_under_a_shared_lease);
	tcase_add_test(tc, no_upgrade_of_what_is_lost);
	tcase_add_test(tc, a_writer_after_the_readers_of_its_host);
	tcase_add_loop_test(tc, a_writer_after_the_readers_of_all_hosts, 0, 2);
	tcase_add_test(tc, a_writer_among_readers_without_an_end);
	tcase_add_test(tc, no_reader_with_a_writer);
	tcase_add_test(tc, the_record_of_a_writer_becomes_a_readers);
	tcase_add_test(tc, the_record_of_a_reader_becomes_a_writers);
	tcase_add_test(tc, majority_up_and_down);
	tcase_add_loop_test(tc, majority_refills_one_server, 0, 2);
	tcase_add_test(tc, majority_with_the_record_of_a_reader);
}

int main(void)
{
	return hosts_main("global-modes", add);
}
