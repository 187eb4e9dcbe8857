/* SPDX-License-Identifier: MIT */
/*
 * test-global-stale-bridge.c - two leaders work on one lease: the stale one was stopped, and continues
 *
 * The test plays both leaders step by step against a real server.  It holds leadership, so no other leader interferes;
 * the requester is another process.
 */
#define _GNU_SOURCE
#include "support/asan.h"
#include "redis-support/hosts.h"
#include "hostlease/leader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "redis/boot-clock.h"
#include "bridge/client-settings.h"
#include "bridge/lease.h"
#include "sys/hash.h"

#define RIVAL "SADD lk:" K " rival" /* another host's reader; a writer of ours then waits, and sets its intent key */
#define INTENT "EXISTS lk:" K ":lock-intent"
#define QUEUE "ZCARD {lk:" K "}:q"

struct bridge_sim {
	struct bridge b;
	struct redis_command cmds[COMMANDS_PER_LEASE];
	size_t n;
	bool blind;
};

static struct bridge_sim one, two;
static struct agent *a, *a_thread, *b;
static void (*at_next_clock_read)(void); /* called before the next read of the clock */

/* For the library, too. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	void (*now)(void) = at_next_clock_read;

	at_next_clock_read = NULL;
	if (now)
		now();
	return (int)syscall(SYS_clock_gettime, clock, ts);
}

static bool short_of_memory;

#ifndef OTHERS_MALLOC

void *__libc_realloc(void *p, size_t size);

void *realloc(void *p, size_t size)
{
	return short_of_memory ? NULL : __libc_realloc(p, size);
}
#endif

static struct shm_host_lease *record(void)
{
	return &hosts[0].s->host_leases[record_of(0, K)];
}

static uint64_t word_now(void)
{
	return load_acquire(&record()->word);
}

static struct bridge_lease *lease(struct bridge_sim *h)
{
	return &h->b.leases[record_of(0, K)];
}

static void is_in_state(enum host_lease_state state)
{
	ck_assert_int_eq(host_lease_state(word_now()), state);
}

static size_t decides(struct bridge_sim *h)
{
	lease(h)->due = 0;
	short_of_memory = h->blind;
	h->n = bridge_lease_decide(&h->b, record_of(0, K), h->cmds);
	short_of_memory = false;
	return h->n;
}

static void decides_on(struct bridge_sim *h, enum redis_script script)
{
	ck_assert_uint_ge(decides(h), 1);
	ck_assert_int_eq(h->cmds[h->n - 1].script, script);
}

static void sends(struct bridge_sim *h)
{
	client_run(h->b.client, h->cmds, h->n, h->b.io_ns);
}

/* Sends what it has to remove. */
static void applies(struct bridge_sim *h)
{
	struct redis_command late[COMMANDS_PER_LEASE * COMMANDS_PER_LEASE];
	size_t k, n = h->n;

	for (h->n = 0, k = 0; k < n; k++)
		h->n += bridge_lease_apply_reply(&h->b, record_of(0, K), &h->cmds[k], late + h->n);
	memcpy(h->cmds, late, h->n * sizeof(*late));
	if (h->n)
		sends(h);
}

static void applies_error(struct bridge_sim *h, int code)
{
	h->cmds[h->n - 1].code = code;
	h->cmds[h->n - 1].unsent = code == REDIS_INVALID;
	applies(h);
}

/* Sends the release, and checks that nothing is left. */
static void releases(struct bridge_sim *h)
{
	lease(h)->next_try = 0;
	decides_on(h, REDIS_RELEASE);
	sends(h);
	applies(h);
	is_in_state(HOST_LEASE_NONE);
	ck_redis("0", redis, "EXISTS lk:" K);
	ck_redis("0", redis, QUEUE);
	ck_redis("0", redis, INTENT);
}

/* A leader that knows the lease; there is no demand yet. */
static void sim_make(struct bridge_sim *h)
{
	struct redis_settings settings;
	struct redis_error error = { 0 };

	h->b.s = hosts[0].s;
	h->b.leases = calloc(hosts[0].s->n_host_leases, sizeof(*h->b.leases));
	ck_assert_ptr_ne(h->b.leases, NULL);
	memcpy(h->b.host, hosts[0].s->redis.host, REDIS_HOST_BYTES);
	h->b.io_ns = LOCKSHM_SECONDS(5);
	ck_assert(snapshot_init(&h->b.snap));
	bridge_client_settings(&settings, &hosts[0].s->redis);
	ck_assert_int_eq(redis_client_new(&h->b.client, &settings, &error), 0);
	ck_assert_uint_eq(decides(h), 0);
}

static void sim_free(struct bridge_sim *h)
{
	bridge_lease_forget(lease(h));
	free(h->b.leases);
	snapshot_free(&h->b.snap);
	redis_client_free(h->b.client);
	memset(h, 0, sizeof(*h));
}

static void teardown(void)
{
	agents_end();
	sim_free(&one);
	sim_free(&two);
}

static void setup(void)
{
	static lockshm_hold_t leadership;
	struct lockshm_create_options options = host_options();
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_error error = { 0 };
	struct identity id;
	uint32_t found;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make_bare(0, &options);
	q.key = LEADER_KEY;
	q.key_len = LEADER_KEY_LEN;
	ck_code(lockshm_acquire(hosts[0].s, &q, &leadership), 0);
	hash_key(&id, hosts[0].s->hash_secret, K, strlen(K));
	ck_code(host_lease_find(hosts[0].s, 1, &id, K, &found, &error), 0);
	sim_make(&one);
	sim_make(&two);
	a = on_host(0);
	a_thread = agent_thread(a);
	b = on_host(0);
}

static void waits(struct agent *agent, int mode)
{
	struct agent_command c = global_command(K, mode);

	c.cancellable = true;
	agent_send(agent, c);
	wanted_by(1);
}

static void a_leaves(void)
{
	ck_code(agent_call(a_thread, AGENT_CANCEL), 0);
	ck_code(agent_end(a), LOCKSHM_CANCELLED);
}

/* And is stopped. */
static void tries(struct agent *agent, int mode)
{
	struct agent_command c = global_command(K, mode);

	c.timeout_ns = AGENT_TRY;
	agent_send(agent, c);
	wanted_by(1);
	agent_stop(agent);
}

/* @h begins the epoch, and is stopped before its first command. */
static void begins_epoch(struct bridge_sim *h)
{
	lease(h)->not_before = INT64_MAX;
	ck_assert_uint_eq(decides(h), 0);
	is_in_state(HOST_LEASE_ACQUIRING);
	lease(h)->next_try = 0;
}

static void a_has_it(int mode)
{
	setup();
	waits(a, mode);
	decides_on(&one, mode == LOCKSHM_SHARED ? REDIS_ACQUIRE_S : REDIS_ACQUIRE_X);
	sends(&one);
	applies(&one);
	ck_code(agent_end(a), 0);
}

static void one_gives_up(void)
{
	bridge_lease_give_up(&one.b, record_of(0, K), word_now());
}

/* ---------------------------------------------------------------- commands of two leaders */

/* The second leader acquires, and dies.  The first one sends too late to get a lease: it knows that another leader has
 * sent. */
START_TEST(another_leader_has_sent)
{
	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	begins_epoch(&one);
	decides_on(&two, REDIS_ACQUIRE_X);
	sends(&two);
	ck_redis("1", redis, "EXISTS lk:" K);
	decides_on(&one, REDIS_ACQUIRE_X);
	applies_error(&one, REDIS_INVALID);
	ck_code(agent_end(a), LOCKSHM_BRIDGE);
	releases(&one);
	teardown();
}
END_TEST

/* The same with a try, which the first leader's reply refuses. */
START_TEST(another_leader_has_queued)
{
	setup();
	redis_say(redis, RIVAL);
	waits(a, LOCKSHM_EXCLUSIVE);
	begins_epoch(&one);
	decides_on(&two, REDIS_ACQUIRE_X);
	sends(&two);
	ck_redis("1", redis, QUEUE);
	a_leaves();
	tries(b, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	sends(&one);
	applies(&one);
	is_in_state(HOST_LEASE_RELEASING);
	redis_say(redis, "DEL lk:" K);
	releases(&one);
	teardown();
}
END_TEST

/* The epoch ends between the load of the word and QUEUED: commands are for the next epoch only. */
START_TEST(given_up_in_between)
{
	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	begins_epoch(&one);
	at_next_clock_read = one_gives_up;
	decides_on(&two, REDIS_ACQUIRE_X);
	ck_assert_ptr_null(at_next_clock_read);
	ck_assert_uint_eq(two.cmds[0].word, word_now());
	teardown();
}
END_TEST

/* A stopped leader must not reduce the time of the last command, which says how long a value may last. */
START_TEST(the_time_of_commands_only_rises)
{
	uint64_t later;

	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	begins_epoch(&one);
	later = (uint64_t)host_now(hosts[0].s) + LOCKSHM_MS(500);
	store_release(&record()->sent, later);
	decides_on(&one, REDIS_ACQUIRE_X);
	ck_assert_uint_eq(load_acquire(&record()->sent), later);
	/* Unless it is damage. */
	store_release(&record()->sent, UINT64_MAX / 2);
	decides_on(&two, REDIS_ACQUIRE_X);
	ck_assert_uint_lt(load_acquire(&record()->sent), later + LOCKSHM_SECONDS(100));
	teardown();
}
END_TEST

/* ---------------------------------------------------------------- a stopped requester */

/* A try that has its result, and does not run, is not sent again and again.  A new request is. */
START_TEST(a_stopped_try_is_not_repeated)
{
	setup();
	ck_redis("OK", redis, "SET lk:" K " thief");
	tries(a, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	sends(&one);
	applies(&one);
	is_in_state(HOST_LEASE_NONE);
	ck_assert_uint_eq(decides(&one), 0);
	is_in_state(HOST_LEASE_NONE);
	ck_assert_int_ge(lease(&one)->due - host_now(hosts[0].s), LOCKSHM_MS(1));
	lease(&one)->pending = true;
	decides_on(&one, REDIS_ACQUIRE_X);
	teardown();
}
END_TEST

/* ---------------------------------------------------------------- a queue that never holds still */

#ifndef OTHERS_MALLOC
/* From now on no snapshot is whole: it has no room. */
static void sees_no_queue(struct bridge_sim *h)
{
	h->b.snap.cap = 0;
	h->blind = true;
}

/* Other hosts wait, and no new hold is possible: the lease is released, although an unseen request may always exist. */
START_TEST(exhausted_unseen)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	sees_no_queue(&one);
	store_relaxed(&record()->other_hosts_waiting, 1);
	store_relaxed(&record()->local_grants, HOST_LEASE_GRANTS_MAX);
	(void)decides(&one);
	is_in_state(HOST_LEASE_CLOSING);
	ck_code(agent_release(a), 0);
	releases(&one);
	teardown();
}
END_TEST

/* Lost: no record holds under it. */
START_TEST(lost_unseen)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	store_release(&record()->valid_until, 1);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	is_in_state(HOST_LEASE_LOST);
	sees_no_queue(&one);
	ck_assert_uint_eq(decides(&one), 0);
	is_in_state(HOST_LEASE_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	wanted_by(1);
	releases(&one);
	teardown();
}
END_TEST

static void add_unseen(TCase *tc)
{
	tcase_add_test(tc, exhausted_unseen);
	tcase_add_test(tc, lost_unseen);
}
#else
#define add_unseen(tc) (void)(tc)
#endif

/* ---------------------------------------------------------------- silence */

static int result_now(void)
{
	return result_code(load_acquire(&record()->last_result));
}

/* A server that missed one reply, and another one much later, is not away. */
START_TEST(two_short_silences)
{
	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	applies_error(&one, REDIS_UNKNOWN);
	pass(now_ns() + LOCKSHM_MS(2200));
	decides_on(&one, REDIS_ACQUIRE_X);
	applies_error(&one, REDIS_UNKNOWN);
	ck_assert_int_eq(result_now(), 0);
	pass(now_ns() + LOCKSHM_MS(1000));
	decides_on(&one, REDIS_ACQUIRE_X);
	applies_error(&one, REDIS_UNKNOWN);
	ck_assert_int_eq(result_now(), RESULT_PASSES);
	teardown();
}
END_TEST

/* ---------------------------------------------------------------- invalidations */

/* An invalidation counts until a renewal is answered: also if a failure delays the renewal, or the renewal fails. */
START_TEST(invalidated_while_backing_off)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	lease(&one)->invalidated = true;
	if (_i == 0) {
		lease(&one)->next_try = INT64_MAX;
		ck_assert_uint_eq(decides(&one), 0);
	} else {
		decides_on(&one, REDIS_RENEW);
		applies_error(&one, REDIS_RETRY);
		ck_assert_uint_eq(decides(&one), 0);
	}
	lease(&one)->next_try = 0;
	decides_on(&one, REDIS_RENEW);
	ck_assert(!one.cmds[one.n - 1].plain);
	sends(&one);
	applies(&one);
	ck_assert_uint_eq(decides(&one), 0);
	teardown();
}
END_TEST

/* A leader that was stopped while sending was away, not Redis.  Otherwise the waiters get the result. */
START_TEST(no_reply_while_it_was_stopped)
{
	bool stopped = _i == 0;

	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	lease(&one)->failed_at = host_now(hosts[0].s);
	lease(&one)->failing_since = lease(&one)->failed_at - LOCKSHM_SECONDS(1);
	one.b.superseded = stopped;
	applies_error(&one, REDIS_RETRY);
	ck_assert_int_eq(result_now(), stopped ? 0 : RESULT_PASSES);
	teardown();
}
END_TEST

/* Doorbell suppression of the last lease does not apply to this one. */
START_TEST(not_suppressed_at_first)
{
	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	store_release(&record()->suppress_until, (uint64_t)host_now(hosts[0].s));
	sends(&one);
	applies(&one);
	is_in_state(HOST_LEASE_HELD);
	ck_assert_uint_eq(load_acquire(&record()->suppress_until), 0);
	teardown();
}
END_TEST

/* ---------------------------------------------------------------- late replies */

/* @one has decided; then @a leaves, and @two releases the lease without demand. */
static void demand_has_gone(int mode)
{
	setup();
	waits(a, mode);
	decides_on(&one, mode == LOCKSHM_SHARED ? REDIS_ACQUIRE_S : REDIS_ACQUIRE_X);
	a_leaves();
	decides(&two);
	releases(&two);
}

/* Its host is queued without demand, and keeps readers out: it leaves the queue.  Also with an unknown outcome. */
START_TEST(queued_without_demand)
{
	demand_has_gone(LOCKSHM_EXCLUSIVE);
	redis_say(redis, RIVAL);
	sends(&one);
	ck_redis("1", redis, QUEUE);
	ck_redis("1", redis, INTENT);
	if (_i == 0)
		applies(&one);
	else
		applies_error(&one, REDIS_UNKNOWN);
	ck_redis("0", redis, QUEUE);
	ck_redis("0", redis, INTENT);
	ck_redis("rival", redis, "SPOP lk:" K);
	teardown();
}
END_TEST

/* What it obtained without demand it releases. */
START_TEST(granted_without_demand)
{
	int mode = _i ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;

	demand_has_gone(mode);
	sends(&one);
	ck_redis("1", redis, "EXISTS lk:" K);
	applies(&one);
	ck_redis("0", redis, "EXISTS lk:" K);
	teardown();
}
END_TEST

/* @one is queued as a writer without demand, while @b requests the key in that mode, and applies the reply. */
static void queued_while(void (*demand_of_b)(struct agent *agent, int mode), int mode)
{
	demand_has_gone(LOCKSHM_EXCLUSIVE);
	redis_say(redis, RIVAL);
	demand_of_b(b, mode);
	decides_on(&two, mode == LOCKSHM_SHARED ? REDIS_ACQUIRE_S : REDIS_ACQUIRE_X);
	sends(&one);
	ck_redis("1", redis, QUEUE);
	applies(&one);
}

/* A try gives up the queue position that was taken late for its epoch. */
START_TEST(queued_for_a_try)
{
	queued_while(tries, LOCKSHM_EXCLUSIVE);
	sends(&two);
	applies(&two);
	is_in_state(HOST_LEASE_RELEASING);
	redis_say(redis, "DEL lk:" K);
	releases(&two);
	teardown();
}
END_TEST

/* A writer's queue position is not for readers, which its intent key would block. */
START_TEST(queued_before_a_reader)
{
	queued_while(waits, LOCKSHM_SHARED);
	ck_redis("0", redis, QUEUE);
	ck_redis("0", redis, INTENT);
	teardown();
}
END_TEST

/* Its successor is queued again, at the same position of the host: it stays. */
START_TEST(queued_for_the_next)
{
	demand_has_gone(LOCKSHM_EXCLUSIVE);
	redis_say(redis, RIVAL);
	waits(b, LOCKSHM_EXCLUSIVE);
	decides_on(&two, REDIS_ACQUIRE_X);
	sends(&two);
	sends(&one);
	applies(&one);
	ck_redis("1", redis, QUEUE);
	ck_redis("1", redis, INTENT);
	teardown();
}
END_TEST

/* After its own host, which was granted just before: a position without demand, which would block others. */
START_TEST(queued_after_the_grant)
{
	demand_has_gone(LOCKSHM_EXCLUSIVE);
	waits(b, LOCKSHM_EXCLUSIVE);
	decides_on(&two, REDIS_ACQUIRE_X);
	sends(&two);
	sends(&one);
	ck_redis("1", redis, QUEUE);
	applies(&one);
	applies(&two);
	if (decides(&two) && two.cmds[two.n - 1].script == REDIS_ACQUIRE_X) {
		sends(&two);
		applies(&two);
	}
	is_in_state(HOST_LEASE_HELD);
	ck_redis("0", redis, QUEUE);
	ck_code(agent_end(b), 0);
	teardown();
}
END_TEST

static void queued_is_set(void)
{
	(void)fetch_or(&record()->word, HOST_LEASE_QUEUED);
}

/* The same at the last moment; it repeats the command at once. */
START_TEST(queued_while_it_is_granted)
{
	setup();
	waits(a, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	sends(&one);
	at_next_clock_read = queued_is_set;
	applies(&one);
	ck_assert_ptr_null(at_next_clock_read);
	is_in_state(HOST_LEASE_ACQUIRING);
	ck_assert_int_le(lease(&one)->due, host_now(hosts[0].s));
	decides_on(&one, REDIS_ACQUIRE_X);
	sends(&one);
	applies(&one);
	is_in_state(HOST_LEASE_HELD);
	ck_code(agent_end(a), 0);
	teardown();
}
END_TEST

/* ---------------------------------------------------------------- the gap after a lease */

#define GAP_MS 500
#define GAP "HEXISTS {lk:" K "}:f gap"

/* A part of a majority has granted, and is given back: no other program had to wait for a lease. */
START_TEST(no_gap_after_an_epoch_that_was_not_held)
{
	setup();
	hosts[0].s->redis.gap_ms = GAP_MS;
	waits(a, LOCKSHM_EXCLUSIVE);
	decides_on(&one, REDIS_ACQUIRE_X);
	sends(&one);
	/* Of the lease before. */
	store_relaxed(&record()->local_grants, 5);
	store_relaxed(&record()->other_hosts_waiting, 1);
	store_release(&record()->word, host_lease_with_state(word_now(), HOST_LEASE_RELEASING));
	a_leaves();
	releases(&one);
	ck_redis("0", redis, GAP);
	teardown();
}
END_TEST

START_TEST(a_gap_after_a_lease_that_was_passed_on)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	hosts[0].s->redis.gap_ms = GAP_MS;
	store_relaxed(&record()->local_grants, lease(&one)->local_grants = 2);
	ck_code(agent_release(a), 0);
	releases(&one);
	ck_redis("1", redis, GAP);
	teardown();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, another_leader_has_sent);
	tcase_add_test(tc, another_leader_has_queued);
	tcase_add_test(tc, given_up_in_between);
	tcase_add_test(tc, the_time_of_commands_only_rises);
	tcase_add_test(tc, a_stopped_try_is_not_repeated);
	add_unseen(tc);
	tcase_add_test(tc, two_short_silences);
	tcase_add_loop_test(tc, invalidated_while_backing_off, 0, 2);
	tcase_add_loop_test(tc, no_reply_while_it_was_stopped, 0, 2);
	tcase_add_test(tc, not_suppressed_at_first);
	tcase_add_loop_test(tc, queued_without_demand, 0, 2);
	tcase_add_loop_test(tc, granted_without_demand, 0, 2);
	tcase_add_test(tc, queued_for_the_next);
	tcase_add_test(tc, queued_for_a_try);
	tcase_add_test(tc, queued_before_a_reader);
	tcase_add_test(tc, queued_after_the_grant);
	tcase_add_test(tc, queued_while_it_is_granted);
	tcase_add_test(tc, no_gap_after_an_epoch_that_was_not_held);
	tcase_add_test(tc, a_gap_after_a_lease_that_was_passed_on);
}

int main(void)
{
	return hosts_main("global-stale-bridge", add);
}
