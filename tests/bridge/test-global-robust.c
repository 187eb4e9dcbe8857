/* SPDX-License-Identifier: MIT */
/* test-global-robust.c - robust keys across hosts: who is told that a holder, its host, or its lease ended badly */
#define _GNU_SOURCE
#include "bridge/admin.h"
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define ROBUST (LOCKSHM_GLOBAL | LOCKSHM_ROBUST)

static struct agent *a, *b, *c;

static struct agent_command with(int mode, unsigned flags)
{
	struct agent_command args = global_command(K, mode);

	args.flags = flags;
	return args;
}

static int robust(struct agent *agent, int mode)
{
	return agent_do(agent, with(mode, ROBUST));
}

static void whole(struct agent *agent)
{
	ck_code(robust(agent, X), 0);
	ck_assert_int_eq(agent->answer.report.damage.status, 0);
	ck_code(agent_release(agent), 0);
}

/* Told, as often as it asks; a plain request is not. */
static void damaged(struct agent *agent, int status)
{
	int i;

	for (i = 0; i < 2; i++) {
		ck_code(robust(agent, X), status);
		ck_assert_int_eq(agent->answer.report.damage.status, status);
		/* Whose it was may be lost with a server's data. */
		ck_assert(strchr(agent->answer.report.damage.tag, '@') ||
			  (status == LOCKSHM_TOOK_OVER_EXPIRED && !*agent->answer.report.damage.tag));
		ck_code(agent_release(agent), 0);
	}
	ck_code(agent_do(agent, with(X, LOCKSHM_GLOBAL | AGENT_PLAIN)), 0);
	ck_code(agent_release(agent), 0);
	ck_code(robust(agent, S), status);
	ck_code(agent_release(agent), 0);
}

static void acknowledged(struct agent *agent, int status)
{
	ck_code(agent_do(agent, with(X, ROBUST | ACKNOWLEDGES)), status);
	ck_code(agent_release(agent), 0);
}

static void is_free(unsigned i)
{
	lease_becomes(i, K, LOCKSHM_HOST_LEASE_NONE);
}

/* Inside, on host 0, which gives the key back. */
static void a_dies(void)
{
	ck_code(robust(a, X), 0);
	agent_kill(a);
	is_free(0);
}

/* Until it acknowledges. */
static void b_is_told(int status)
{
	damaged(b, status);
	acknowledged(b, status);
	whole(b);
}

/* Of no consequence where nothing ends badly: releases, downgrades, readers, tries, hand-overs between hosts. */
START_TEST(given_back)
{
	int i;

	cast("01", &a, &b);
	for (i = 0; i < 3; i++) {
		whole(a);
		whole(b);
		ck_code(robust(a, X), 0);
		ck_code(agent_do(b, (struct agent_command){ .op = AGENT_ACQUIRE, .how = X, .flags = ROBUST, .key = K,
							    .timeout_ns = AGENT_TRY }), LOCKSHM_BUSY);
		ck_code(agent_release(a), 0);
		ck_code(robust(b, S), 0);
		ck_code(agent_release(b), 0);
	}
}
END_TEST

START_TEST(a_holder_dies)
{
	cast("001", &a, &c, &b);
	a_dies();
	damaged(b, LOCKSHM_OWNER_DIED);
	damaged(c, LOCKSHM_OWNER_DIED);
	acknowledged(b, LOCKSHM_OWNER_DIED);
	whole(b);
	whole(c);
	whole(b);
}
END_TEST

START_TEST(acknowledged_by_the_next_of_its_host)
{
	cast("001", &a, &c, &b);
	a_dies();
	acknowledged(c, LOCKSHM_OWNER_DIED);
	is_free(0);
	whole(b);
	whole(c);
}
END_TEST

/* The lease goes on: the next of the host is told at once, by the mark of this host. */
START_TEST(a_holder_dies_before_a_waiter)
{
	cast("001", &a, &c, &b);
	ck_code(robust(a, X), 0);
	agent_send(c, with(X, ROBUST));
	waits_on_host(c, 0, K);
	agent_kill(a);
	ck_code(agent_end(c), LOCKSHM_OWNER_DIED);
	ck_code(agent_release(c), 0);
	is_free(0);
	damaged(b, LOCKSHM_OWNER_DIED);
	acknowledged(b, LOCKSHM_OWNER_DIED);
	whole(c);
}
END_TEST

START_TEST(readers_leave_none)
{
	cast("01", &a, &b);
	ck_code(robust(a, S), 0);
	agent_kill(a);
	is_free(0);
	whole(b);
}
END_TEST

START_TEST(a_whole_host_dies)
{
	cast("01", &a, &b);
	ck_code(robust(a, X), 0);
	bridge_kill(0);
	agent_kill(a);
	b_is_told(LOCKSHM_TOOK_OVER_EXPIRED);
	bridge_start(0);
	is_free(0);
	whole(b);
}
END_TEST

START_TEST(the_bridge_dies_after_the_holder)
{
	cast("001", &a, &c, &b);
	ck_code(robust(a, X), 0);
	bridge_freeze(0);
	agent_kill(a);
	bridge_kill(0);
	bridge_start(0);
	is_free(0);
	b_is_told(LOCKSHM_OWNER_DIED);
	whole(c);
}
END_TEST

START_TEST(the_lease_is_lost)
{
	cast("01", &a, &b);
	ck_code(robust(a, X), 0);
	ck_redis("1", redis, "DEL lk:" K);
	lost_is_reported(a);
	b_is_told(LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

/* Before its bridge ends the hold. */
START_TEST(a_holder_releases_what_is_lost)
{
	cast("01", &a, &b);
	ck_code(robust(a, X), 0);
	bridge_freeze(0);
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	bridge_thaw(0);
	is_free(0);
	b_is_told(LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

START_TEST(an_operator_takes_it_away)
{
	struct lockshm_error error = { 0 };
	const char *value;

	cast("01", &a, &b);
	ck_code(robust(a, X), 0);
	value = lease_of(0, K).value;
	ck_code(remote_end(hosts[1].s, K, strlen(K), value, strlen(value), LOCKSHM_SECONDS(5), &error), 0);
	lost_is_reported(a);
	b_is_told(LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

/* A lease that plain requests of this host use becomes that of a robust key. */
START_TEST(under_a_lease_that_is_held)
{
	cast("001", &a, &c, &b);
	ck_code(agent_do(c, with(X, LOCKSHM_GLOBAL | AGENT_PLAIN)), 0);
	agent_send(a, with(X, ROBUST));
	waits_on_host(a, 0, K);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(a), 0);
	bridge_kill(0);
	agent_kill(a);
	damaged(b, LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

/* Acknowledged on a host that dies before it gives the lease back: told again. */
START_TEST(an_acknowledgement_is_lost)
{
	cast("001", &a, &c, &b);
	a_dies();
	ck_code(agent_do(b, with(X, ROBUST | ACKNOWLEDGES)), LOCKSHM_OWNER_DIED);
	bridge_kill(1);
	agent_kill(b);
	damaged(c, LOCKSHM_OWNER_DIED);
	acknowledged(c, LOCKSHM_OWNER_DIED);
	whole(c);
}
END_TEST

/* Hosts that give the key back without an acknowledgement keep the note. */
START_TEST(plain_requests_keep_it)
{
	cast("001", &a, &c, &b);
	a_dies();
	ck_code(agent_do(b, with(X, LOCKSHM_GLOBAL | AGENT_PLAIN)), 0);
	ck_code(agent_release(b), 0);
	is_free(1);
	ck_redis("0", redis, "EXISTS lk:" K);
	damaged(c, LOCKSHM_OWNER_DIED);
}
END_TEST

/* Of three servers a majority has the note, and each majority has one of those. */
START_TEST(by_a_majority)
{
	hosts_on_three(2, LOCKSHM_SECONDS(2));
	a = on_host(0);
	b = on_host(1);
	c = on_host(0);
	whole(a);
	whole(b);
	a_dies();
	proxy_set(proxies[0], PROXY_REFUSE);
	damaged(b, LOCKSHM_OWNER_DIED);
	proxy_set(proxies[0], PROXY_PASS);
	acknowledged(b, LOCKSHM_OWNER_DIED);
	whole(b);
	ck_code(robust(c, X), 0);
	bridge_kill(0);
	agent_kill(c);
	b_is_told(LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

/* The kind may be lost with the data. */
static void damaged_anyhow(struct agent *agent)
{
	int i;

	for (i = 0; i < 3; i++) {
		ck_assert_int_gt(robust(agent, i < 2 ? X : S), 0);
		ck_code(agent_release(agent), 0);
	}
}

/* Servers that do not vote yet, or have lost it, get the note with a renewal. */
static bool all_have_it(void *arg)
{
	unsigned i;

	for (i = 0; i < SERVERS; i++)
		if (strcmp(redis_say(servers[i], "HEXISTS {lk:" K "}:f open"), "1") != 0)
			return false;
	return agent_call(arg, AGENT_CHECK) == 0;
}

/* A member of the majority has forgotten all. */
START_TEST(a_server_loses_its_data)
{
	hosts_on_three(2, LOCKSHM_SECONDS(2));
	a = on_host(0);
	b = on_host(1);
	ck_code(robust(a, X), 0);
	ck_assert(await(all_have_it, a));
	agent_kill(a);
	is_free(0);
	redis_say(servers[1], "FLUSHALL");
	damaged_anyhow(b);
	ck_assert_int_gt(agent_do(b, with(X, ROBUST | ACKNOWLEDGES)), 0);
	ck_code(agent_release(b), 0);
	whole(b);
}
END_TEST

/* While a lease goes on: its renewals bring the note back. */
START_TEST(a_server_loses_the_note_of_a_held_lease)
{
	hosts_on_three(2, LOCKSHM_SECONDS(2));
	a = on_host(0);
	b = on_host(1);
	ck_code(robust(a, X), 0);
	redis_say(servers[1], "FLUSHALL");
	ck_assert(await(all_have_it, a));
	redis_say(servers[0], "FLUSHALL");
	bridge_kill(0);
	agent_kill(a);
	proxy_set(proxies[2], PROXY_REFUSE);
	damaged(b, LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

/* All of it: what this host knows it brings; what was only there is lost. */
START_TEST(redis_loses_its_data)
{
	own_server();
	cast("01", &a, &b);
	ck_code(robust(a, X), 0);
	redis_say(redis, "FLUSHALL");
	lost_is_reported(a);
	is_free(0);
	damaged(b, LOCKSHM_TOOK_OVER_EXPIRED);
	is_free(1);
	redis_say(redis, "FLUSHALL");
	whole(b);
	agent_kill(a);
	is_free(0);
	whole(b);
}
END_TEST

static void is_plain(void)
{
	ck_redis("[(nil) (nil) (nil) (nil)]", redis, "HMGET {lk:" K "}:f open bad good why");
}

START_TEST(plain_keys_have_no_note)
{
	cast("01", &a, &b);
	ck_code(agent_do(a, with(X, LOCKSHM_GLOBAL | AGENT_PLAIN)), 0);
	ck_code(agent_release(a), 0);
	is_free(0);
	is_plain();
	ck_code(agent_do(b, with(X, LOCKSHM_GLOBAL | AGENT_PLAIN)), 0);
	agent_kill(b);
	is_free(1);
	is_plain();
	whole(a);
}
END_TEST

/* ---------------------------------------------------------------- the ways in */

/* On host 1, in this process. */
static lockshm_hold_t holds[2];

static int many(void)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY(K, 0), LOCKSHM_MANY_KEY("whole", 0) };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_damage damage;
	int status;

	q.flags = ROBUST;
	status = lockshm_acquire_many(hosts[1].s, &q, keys, 2, holds);
	if (status > 0) {
		ck_code(lockshm_damage(&holds[0], &damage), 0);
		ck_assert_int_eq(damage.status, status);
	}
	ck_code(lockshm_damage(&holds[1], &damage), 0);
	ck_assert_int_eq(damage.status, 0);
	ck_code(lockshm_release(&holds[0], 0), 0);
	ck_code(lockshm_release(&holds[1], 0), 0);
	return status;
}

static int by_object(void)
{
	struct lockshm_request q = LOCKSHM_REQUEST(K);
	static lockshm_lock_t lock;
	int status;

	q.flags = ROBUST;
	memset(&lock, 0, sizeof(lock));
	ck_code(lockshm_lock_init(&lock, hosts[1].s, &q), 0);
	status = lockshm_lock(&lock, hosts[1].s);
	ck_code(lockshm_unlock(&lock), 0);
	return status;
}

static int by_loop(lockshm_loop_t *loop)
{
	struct task t;
	int status;

	task_init(&t, K, X);
	t.request.flags = ROBUST;
	ck_code(task_acquire(loop, &t), LOCKSHM_PENDING);
	status = task_end(loop, &t);
	ck_assert_int_eq(t.report.damage.status, status);
	ck_code(task_release(&t), 0);
	return status;
}

static int by_acknowledge(void)
{
	int status = robust(c, X);

	ck_code(agent_call(c, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(c), 0);
	return status;
}

static void another_dies(void)
{
	a = on_host(0);
	a_dies();
}

/* Its keys are granted one by one, and it is inside only with both: on the way its host lease was lost. */
START_TEST(never_inside)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY(K, 0), LOCKSHM_MANY_KEY("whole", 0) };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct agent_command other = with(X, ROBUST);
	struct lockshm_outcome end = LOCKSHM_OUTCOME_INIT;
	lockshm_loop_t *loop;
	int i;

	cast("01", &a, &b);
	seg = hosts[1].s;
	loop = loop_new();
	/* One of both is the first that is granted. */
	for (i = 0; i < 2; i++) {
		q.flags = ROBUST;
		q.timeout_ns = LOCKSHM_SECONDS(5);
		snprintf(other.key, sizeof(other.key), "%s", (const char *)keys[i].data);
		ck_code(agent_do(a, other), 0);
		ck_code(lockshm_loop_acquire_many(loop, &q, keys, 2, holds, NULL), LOCKSHM_PENDING);
		while (lease_of(1, keys[i].data).state != LOCKSHM_HOST_LEASE_ACQUIRING) {
			ck_assert_int_eq(lockshm_loop_next(loop, &end), 0);
			(void)poll(&(struct pollfd){ lockshm_loop_fd(loop), POLLIN, 0 }, 1, 20);
		}
		bridge_freeze(1);
		while (lockshm_loop_next(loop, &end) == 0)
			(void)poll(&(struct pollfd){ lockshm_loop_fd(loop), POLLIN, 0 }, 1, 1000);
		ck_assert_int_lt(end.status, 0);
		ck_code(agent_release(a), 0);
		bridge_thaw(1);
	}
	for (i = 0; i < 2; i++) {
		snprintf(other.key, sizeof(other.key), "%s", (const char *)keys[i].data);
		ck_code(agent_do(b, other), 0);
		ck_code(agent_release(b), 0);
		ck_code(agent_do(a, other), 0);
		ck_code(agent_release(a), 0);
	}
}
END_TEST

/* Each is told. */
START_TEST(by_all_ways)
{
	lockshm_loop_t *loop;

	hosts_make(2);
	c = on_host(1);
	seg = hosts[1].s;
	loop = loop_new();
	another_dies();
	ck_code(many(), LOCKSHM_OWNER_DIED);
	ck_code(by_object(), LOCKSHM_OWNER_DIED);
	ck_code(by_loop(loop), LOCKSHM_OWNER_DIED);
	ck_code(by_acknowledge(), LOCKSHM_OWNER_DIED);
	ck_code(many(), 0);
	whole(c);
}
END_TEST

/* No request has LOCKSHM_GLOBAL. */
START_TEST(global_by_the_segment)
{
	struct lockshm_create_options options = host_options();
	struct agent_command args = with(X, LOCKSHM_ROBUST);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST(K);
	static lockshm_lock_t lock;

	strcpy(options.global_keys, "*");
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	ck_code(agent_do(a, args), 0);
	agent_kill(a);
	is_free(0);
	q.flags = LOCKSHM_ROBUST;
	ck_code(lockshm_acquire(hosts[1].s, &q, &hold), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_lock_init(&lock, hosts[1].s, &q), 0);
	ck_code(lockshm_lock(&lock, hosts[1].s), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_unlock(&lock), 0);
	ck_code(lockshm_acquire(hosts[1].s, &q, &hold), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_acknowledge(&hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_acquire(hosts[1].s, &q, &hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* ---------------------------------------------------------------- operators */

static struct remote_damage seen;

static int keep(const struct remote_info *info, void *arg)
{
	(void)arg;
	seen = info->damage;
	return info->code;
}

static int sees(void)
{
	ck_code(remote_inspect(hosts[1].s, K, strlen(K), LOCKSHM_SECONDS(5), keep, NULL, NULL), 0);
	return seen.status;
}

static void operator_acknowledges(void)
{
	ck_code(remote_acknowledge(hosts[1].s, K, strlen(K), seen.last, LOCKSHM_SECONDS(5), NULL), 0);
}

START_TEST(an_operator_acknowledges)
{
	pid_t pid;

	cast("01", &a, &b);
	ck_assert_int_eq(sees(), 0);
	ck_code(robust(a, X), 0);
	ck_assert_int_eq(sees(), 0);
	pid = a->pid;
	agent_kill(a);
	is_free(0);
	ck_assert_int_eq(sees(), LOCKSHM_OWNER_DIED);
	ck_assert_uint_eq(seen.pid, (unsigned)pid);
	operator_acknowledges();
	ck_assert_int_eq(sees(), 0);
	whole(b);
}
END_TEST

/* The present holder, who was told, goes on; then it is whole.  What ends badly after the look stays. */
START_TEST(an_operator_acknowledges_while_it_is_held)
{
	cast("01", &a, &b);
	a_dies();
	ck_code(robust(b, X), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(sees(), LOCKSHM_OWNER_DIED);
	operator_acknowledges();
	ck_assert_int_eq(sees(), 0);
	ck_code(agent_release(b), 0);
	is_free(1);
	another_dies();
	ck_assert_int_eq(sees(), LOCKSHM_OWNER_DIED);
	ck_code(robust(b, X), LOCKSHM_OWNER_DIED);
	agent_kill(b);
	is_free(1);
	operator_acknowledges();
	ck_assert_int_eq(sees(), LOCKSHM_OWNER_DIED);
	b = on_host(1);
	damaged(b, LOCKSHM_OWNER_DIED);
}
END_TEST

/* One server of the majority has lost the note, and does not take that for an acknowledgement. */
START_TEST(a_server_without_the_note_keeps_it)
{
	hosts_on_three(2, LOCKSHM_SECONDS(2));
	a = on_host(0);
	b = on_host(1);
	ck_code(robust(a, X), 0);
	ck_assert(await(all_have_it, a));
	agent_kill(a);
	is_free(0);
	redis_say(servers[1], "FLUSHALL");
	ck_assert_int_gt(robust(b, X), 0);
	ck_code(agent_release(b), 0);
	is_free(1);
	proxy_set(proxies[0], PROXY_REFUSE);
	ck_assert_int_gt(robust(b, X), 0);
}
END_TEST

/* A holder leaves after another host has the key, with its bridge stopped: the other's damage stays. */
START_TEST(a_holder_leaves_too_late)
{
	cast("01", &a, &b);
	ck_code(robust(a, X), 0);
	bridge_freeze(0);
	ck_code(robust(b, X), LOCKSHM_TOOK_OVER_EXPIRED);
	(void)agent_release(a);
	bridge_thaw(0);
	is_free(0);
	ck_code(agent_release(b), 0);
	is_free(1);
	ck_code(robust(b, X), LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, given_back);
	tcase_add_test(tc, a_holder_dies);
	tcase_add_test(tc, acknowledged_by_the_next_of_its_host);
	tcase_add_test(tc, a_holder_dies_before_a_waiter);
	tcase_add_test(tc, readers_leave_none);
	tcase_add_test(tc, a_whole_host_dies);
	tcase_add_test(tc, the_bridge_dies_after_the_holder);
	tcase_add_test(tc, the_lease_is_lost);
	tcase_add_test(tc, a_holder_releases_what_is_lost);
	tcase_add_test(tc, an_operator_takes_it_away);
	tcase_add_test(tc, under_a_lease_that_is_held);
	tcase_add_test(tc, an_acknowledgement_is_lost);
	tcase_add_test(tc, plain_requests_keep_it);
	tcase_add_test(tc, by_a_majority);
	tcase_add_test(tc, a_server_loses_its_data);
	tcase_add_test(tc, a_server_loses_the_note_of_a_held_lease);
	tcase_add_test(tc, redis_loses_its_data);
	tcase_add_test(tc, plain_keys_have_no_note);
	tcase_add_test(tc, never_inside);
	tcase_add_test(tc, by_all_ways);
	tcase_add_test(tc, global_by_the_segment);
	tcase_add_test(tc, an_operator_acknowledges);
	tcase_add_test(tc, an_operator_acknowledges_while_it_is_held);
	tcase_add_test(tc, a_server_without_the_note_keeps_it);
	tcase_add_test(tc, a_holder_leaves_too_late);
}

int main(void)
{
	return hosts_main("global-robust", add);
}
