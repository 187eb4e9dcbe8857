/* SPDX-License-Identifier: MIT */
/*
 * test-global-stale-bridge.c - two bridges are at one lease, because one of them was stopped and goes on
 *
 * The test itself is both, one step at a time, with a real server; whoever wants the lease is another process.  It has
 * the role, so that nobody else does anything.
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
#include "bridge/lease.h"
#include "sys/hash.h"

#define RIVAL "SADD lk:" K " rival" /* who reads without us; a writer of ours waits, and leaves its mark */
#define MARK "EXISTS lk:" K ":lock-intent"
#define LINE "ZCARD {lk:" K "}:q"

struct bridge_sim {
	struct bridge b;
	struct redis_command cmds[COMMANDS_PER_LEASE];
	size_t n;
	bool blind;
};

static struct bridge_sim one, two;
static struct agent *a, *beside_a, *b;
static void (*meanwhile)(void); /* happens when the clock is read next */

/* For the library, too. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	void (*now)(void) = meanwhile;

	meanwhile = NULL;
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

static struct lease *lease(struct bridge_sim *h)
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
	h->n = lease_decide(&h->b, record_of(0, K), h->cmds);
	short_of_memory = false;
	return h->n;
}

static void asks_for(struct bridge_sim *h, enum redis_script script)
{
	ck_assert_uint_ge(decides(h), 1);
	ck_assert_int_eq(h->cmds[h->n - 1].script, script);
}

static void sends(struct bridge_sim *h)
{
	redis_client_begin(h->b.net);
	redis_client_run(h->b.net, h->cmds, h->n, h->b.io_ns);
}

/* What it has to take back is sent. */
static void hears(struct bridge_sim *h)
{
	struct redis_command late[COMMANDS_PER_LEASE * COMMANDS_PER_LEASE];
	size_t k, n = h->n;

	for (h->n = 0, k = 0; k < n; k++)
		h->n += lease_apply_reply(&h->b, record_of(0, K), &h->cmds[k], late + h->n);
	memcpy(h->cmds, late, h->n * sizeof(*late));
	if (h->n)
		sends(h);
}

static void hears_an_error(struct bridge_sim *h, int code)
{
	h->cmds[h->n - 1].code = code;
	h->cmds[h->n - 1].unsent = code == REDIS_INVALID;
	hears(h);
}

/* It asks and hears until nothing is left to be done. */
static void gives_back(struct bridge_sim *h)
{
	lease(h)->next_try = 0;
	asks_for(h, REDIS_RELEASE);
	sends(h);
	hears(h);
	is_in_state(HOST_LEASE_NONE);
	ck_redis("0", redis, "EXISTS lk:" K);
	ck_redis("0", redis, LINE);
	ck_redis("0", redis, MARK);
}

/* A bridge that knows the lease, which nobody wants yet. */
static void hand_make(struct bridge_sim *h)
{
	struct redis_error error = { 0 };

	h->b.s = hosts[0].s;
	h->b.leases = calloc(hosts[0].s->n_host_leases, sizeof(*h->b.leases));
	ck_assert_ptr_ne(h->b.leases, NULL);
	memcpy(h->b.host, hosts[0].s->redis.host, REDIS_HOST_BYTES);
	h->b.io_ns = LOCKSHM_SECONDS(5);
	ck_assert(snapshot_init(&h->b.snap));
	ck_assert_int_eq(redis_client_new(&h->b.net, &hosts[0].s->redis, &error), 0);
	ck_assert_uint_eq(decides(h), 0);
}

static void hand_free(struct bridge_sim *h)
{
	lease_forget(lease(h));
	free(h->b.leases);
	snapshot_free(&h->b.snap);
	redis_client_free(h->b.net);
	memset(h, 0, sizeof(*h));
}

static void ends(void)
{
	agents_end();
	hand_free(&one);
	hand_free(&two);
}

static void begins(void)
{
	static lockshm_hold_t role;
	struct lockshm_create_options options = host_options();
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_error error = { 0 };
	struct identity id;
	uint32_t found;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make(0, &options);
	q.key = LEADER_KEY;
	q.key_len = LEADER_KEY_LEN;
	ck_code(lockshm_acquire(hosts[0].s, &q, &role), 0);
	hash_key(&id, hosts[0].s->hash_secret, K, strlen(K));
	ck_code(host_lease_find(hosts[0].s, 1, &id, K, &found, &error), 0);
	hand_make(&one);
	hand_make(&two);
	a = on_host(0);
	beside_a = agent_thread(a);
	b = on_host(0);
}

static void waits(struct agent *who, int mode)
{
	struct agent_command c = global_command(K, mode);

	c.cancellable = true;
	agent_send(who, c);
	wanted_by(1);
}

static void a_leaves(void)
{
	ck_code(agent_call(beside_a, AGENT_CANCEL), 0);
	ck_code(agent_end(a), LOCKSHM_CANCELLED);
}

/* And does not run any more. */
static void tries(struct agent *who, int mode)
{
	struct agent_command c = global_command(K, mode);

	c.timeout_ns = AGENT_TRY;
	agent_send(who, c);
	wanted_by(1);
	agent_stop(who);
}

/* The lease is @h's to ask for, and it is stopped before it does. */
static void takes_the_word(struct bridge_sim *h)
{
	lease(h)->not_before = INT64_MAX;
	ck_assert_uint_eq(decides(h), 0);
	is_in_state(HOST_LEASE_ACQUIRING);
	lease(h)->next_try = 0;
}

static void a_has_it(int mode)
{
	begins();
	waits(a, mode);
	asks_for(&one, mode == LOCKSHM_SHARED ? REDIS_ACQUIRE_S : REDIS_ACQUIRE_X);
	sends(&one);
	hears(&one);
	ck_code(agent_end(a), 0);
}

static void one_gives_up(void)
{
	lease_give_up(&one.b, record_of(0, K), word_now());
}

/* ---------------------------------------------------------------- asked by two */

/* The second has it, and dies.  The first asks, too late for its own question to get anywhere: it
 * knows that there was another. */
START_TEST(another_has_asked_since)
{
	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	takes_the_word(&one);
	asks_for(&two, REDIS_ACQUIRE_X);
	sends(&two);
	ck_redis("1", redis, "EXISTS lk:" K);
	asks_for(&one, REDIS_ACQUIRE_X);
	hears_an_error(&one, REDIS_INVALID);
	ck_code(agent_end(a), LOCKSHM_BRIDGE);
	gives_back(&one);
	ends();
}
END_TEST

/* The same where what the first asks is refused to who only tries. */
START_TEST(another_has_queued_since)
{
	begins();
	redis_say(redis, RIVAL);
	waits(a, LOCKSHM_EXCLUSIVE);
	takes_the_word(&one);
	asks_for(&two, REDIS_ACQUIRE_X);
	sends(&two);
	ck_redis("1", redis, LINE);
	a_leaves();
	tries(b, LOCKSHM_EXCLUSIVE);
	asks_for(&one, REDIS_ACQUIRE_X);
	sends(&one);
	hears(&one);
	is_in_state(HOST_LEASE_RELEASING);
	redis_say(redis, "DEL lk:" K);
	gives_back(&one);
	ends();
}
END_TEST

/* It was given up between the look at the word and the note: nothing is asked but for the next epoch. */
START_TEST(given_up_meanwhile)
{
	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	takes_the_word(&one);
	meanwhile = one_gives_up;
	asks_for(&two, REDIS_ACQUIRE_X);
	ck_assert_ptr_null(meanwhile);
	ck_assert_uint_eq(two.cmds[0].word, word_now());
	ends();
}
END_TEST

/* A bridge that was stopped does not make that earlier which its successor noted: by that is told
 * how long a token may last. */
START_TEST(the_time_of_asking_only_rises)
{
	uint64_t later;

	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	takes_the_word(&one);
	later = (uint64_t)host_now(hosts[0].s) + LOCKSHM_MS(500);
	store_release(&record()->sent, later);
	asks_for(&one, REDIS_ACQUIRE_X);
	ck_assert_uint_eq(load_acquire(&record()->sent), later);
	/* Unless it is damage. */
	store_release(&record()->sent, UINT64_MAX / 2);
	asks_for(&two, REDIS_ACQUIRE_X);
	ck_assert_uint_lt(load_acquire(&record()->sent), later + LOCKSHM_SECONDS(100));
	ends();
}
END_TEST

/* ---------------------------------------------------------------- whoever asks for it is stopped */

/* Who only tried has its answer, and does not run: it is not asked for again and again.  Whoever comes is. */
START_TEST(told_and_still_there)
{
	begins();
	ck_redis("OK", redis, "SET lk:" K " thief");
	tries(a, LOCKSHM_EXCLUSIVE);
	asks_for(&one, REDIS_ACQUIRE_X);
	sends(&one);
	hears(&one);
	is_in_state(HOST_LEASE_NONE);
	ck_assert_uint_eq(decides(&one), 0);
	is_in_state(HOST_LEASE_NONE);
	ck_assert_int_ge(lease(&one)->due - host_now(hosts[0].s), LOCKSHM_MS(1));
	lease(&one)->rung = true;
	asks_for(&one, REDIS_ACQUIRE_X);
	ends();
}
END_TEST

static void upgrade_is_wished(void)
{
	(void)fetch_or(&record()->word, HOST_LEASE_UPGRADE);
}

/* One upgrade was refused when it had been asked for for two seconds.  The next wish is new: it is
 * not taken back for that. */
START_TEST(each_upgrade_has_its_time)
{
	a_has_it(LOCKSHM_SHARED);
	redis_say(redis, RIVAL);
	upgrade_is_wished();
	asks_for(&one, REDIS_UPGRADE);
	lease(&one)->upgrade_since = 1;
	sends(&one);
	hears(&one);
	ck_assert_uint_eq(word_now() & HOST_LEASE_UPGRADE, 0);
	upgrade_is_wished();
	asks_for(&one, REDIS_UPGRADE);
	ends();
}
END_TEST

/* ---------------------------------------------------------------- a queue that never holds still */

#ifndef OTHERS_MALLOC
/* From now on no look is sure: it has no room. */
static void sees_nothing(struct bridge_sim *h)
{
	h->b.snap.cap = 0;
	h->blind = true;
}

/* Other hosts wait, and nobody may come in any more here: it is given back, though somebody may always be about to. */
START_TEST(exhausted_unseen)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	sees_nothing(&one);
	store_relaxed(&record()->other_hosts_waiting, 1);
	store_relaxed(&record()->local_grants, HOST_LEASE_LOCAL_GRANTS);
	(void)decides(&one);
	is_in_state(HOST_LEASE_CLOSING);
	ck_code(agent_release(a), 0);
	gives_back(&one);
	ends();
}
END_TEST

/* Lost: no record says that it holds. */
START_TEST(lost_unseen)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	store_release(&record()->valid_until, 1);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	is_in_state(HOST_LEASE_LOST);
	sees_nothing(&one);
	ck_assert_uint_eq(decides(&one), 0);
	is_in_state(HOST_LEASE_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	wanted_by(1);
	gives_back(&one);
	ends();
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

/* A server that did not answer once, and once more when all that is long over, is not away. */
START_TEST(two_moments_of_silence)
{
	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	asks_for(&one, REDIS_ACQUIRE_X);
	hears_an_error(&one, REDIS_UNKNOWN);
	pass(now_ns() + LOCKSHM_MS(2200));
	asks_for(&one, REDIS_ACQUIRE_X);
	hears_an_error(&one, REDIS_UNKNOWN);
	ck_assert_int_eq(result_now(), 0);
	pass(now_ns() + LOCKSHM_MS(1000));
	asks_for(&one, REDIS_ACQUIRE_X);
	hears_an_error(&one, REDIS_UNKNOWN);
	ck_assert_int_eq(result_now(), RESULT_PASSES);
	ends();
}
END_TEST

/* ---------------------------------------------------------------- told by the server */

/* What it told counts until it is looked into: also where no answer came before that, and it has
 * to wait; or none to that. */
START_TEST(told_while_it_cannot_be_asked)
{
	a_has_it(LOCKSHM_EXCLUSIVE);
	lease(&one)->invalidated = true;
	if (_i == 0) {
		lease(&one)->next_try = INT64_MAX;
		ck_assert_uint_eq(decides(&one), 0);
	} else {
		asks_for(&one, REDIS_RENEW);
		hears_an_error(&one, REDIS_RETRY);
		ck_assert_uint_eq(decides(&one), 0);
	}
	lease(&one)->next_try = 0;
	asks_for(&one, REDIS_RENEW);
	ck_assert(!one.cmds[one.n - 1].plain);
	sends(&one);
	hears(&one);
	ck_assert_uint_eq(decides(&one), 0);
	ends();
}
END_TEST

/* Nor beside an upgrade that is due in the same look, which goes first. */
START_TEST(told_beside_an_upgrade)
{
	a_has_it(LOCKSHM_SHARED);
	upgrade_is_wished();
	lease(&one)->invalidated = true;
	asks_for(&one, REDIS_UPGRADE);
	sends(&one);
	hears(&one);
	asks_for(&one, REDIS_RENEW);
	ends();
}
END_TEST

/* Silence of a bridge that was stopped while it asked: it was away, not Redis.  Else those who wait are told. */
START_TEST(silent_while_it_was_stopped)
{
	bool stopped = _i == 0;

	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	asks_for(&one, REDIS_ACQUIRE_X);
	lease(&one)->failed_at = host_now(hosts[0].s);
	lease(&one)->failing_since = lease(&one)->failed_at - LOCKSHM_SECONDS(1);
	one.b.overtaken = stopped;
	hears_an_error(&one, REDIS_RETRY);
	ck_assert_int_eq(result_now(), stopped ? 0 : RESULT_PASSES);
	ends();
}
END_TEST

/* What was told to releases under the last lease is not said of this one. */
START_TEST(loud_at_first)
{
	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	asks_for(&one, REDIS_ACQUIRE_X);
	store_release(&record()->suppress_until, (uint64_t)host_now(hosts[0].s));
	sends(&one);
	hears(&one);
	is_in_state(HOST_LEASE_HELD);
	ck_assert_uint_eq(load_acquire(&record()->suppress_until), 0);
	ends();
}
END_TEST

/* ---------------------------------------------------------------- heard too late */

/* @one has decided; then @a leaves, and @two gives back what nobody wants. */
static void nobody_wants_it_any_more(int mode)
{
	begins();
	waits(a, mode);
	asks_for(&one, mode == LOCKSHM_SHARED ? REDIS_ACQUIRE_S : REDIS_ACQUIRE_X);
	a_leaves();
	decides(&two);
	gives_back(&two);
}

/* Its host stands in line, for nobody, and keeps others from reading: it leaves.  Also where it does
 * not know whether it does. */
START_TEST(queued_for_nobody)
{
	nobody_wants_it_any_more(LOCKSHM_EXCLUSIVE);
	redis_say(redis, RIVAL);
	sends(&one);
	ck_redis("1", redis, LINE);
	ck_redis("1", redis, MARK);
	if (_i == 0)
		hears(&one);
	else
		hears_an_error(&one, REDIS_UNKNOWN);
	ck_redis("0", redis, LINE);
	ck_redis("0", redis, MARK);
	ck_redis("rival", redis, "SPOP lk:" K);
	ends();
}
END_TEST

/* What it obtained for nobody it gives back. */
START_TEST(granted_for_nobody)
{
	int mode = _i ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;

	nobody_wants_it_any_more(mode);
	sends(&one);
	ck_redis("1", redis, "EXISTS lk:" K);
	hears(&one);
	ck_redis("0", redis, "EXISTS lk:" K);
	ends();
}
END_TEST

/* @one takes a writer's place for nobody, while @b wants the key in that mode, and hears of it. */
static void queued_while(void (*b_wants)(struct agent *who, int mode), int mode)
{
	nobody_wants_it_any_more(LOCKSHM_EXCLUSIVE);
	redis_say(redis, RIVAL);
	b_wants(b, mode);
	asks_for(&two, mode == LOCKSHM_SHARED ? REDIS_ACQUIRE_S : REDIS_ACQUIRE_X);
	sends(&one);
	ck_redis("1", redis, LINE);
	hears(&one);
}

/* Who only tries gives the place up that was taken late for its epoch. */
START_TEST(queued_for_a_try)
{
	queued_while(tries, LOCKSHM_EXCLUSIVE);
	sends(&two);
	hears(&two);
	is_in_state(HOST_LEASE_RELEASING);
	redis_say(redis, "DEL lk:" K);
	gives_back(&two);
	ends();
}
END_TEST

/* A writer's place is not for readers, whom its mark would keep out. */
START_TEST(queued_before_a_reader)
{
	queued_while(waits, LOCKSHM_SHARED);
	ck_redis("0", redis, LINE);
	ck_redis("0", redis, MARK);
	ends();
}
END_TEST

/* Its successor stands in line again, at the place that is the host's: that stays. */
START_TEST(queued_for_the_next)
{
	nobody_wants_it_any_more(LOCKSHM_EXCLUSIVE);
	redis_say(redis, RIVAL);
	waits(b, LOCKSHM_EXCLUSIVE);
	asks_for(&two, REDIS_ACQUIRE_X);
	sends(&two);
	sends(&one);
	hears(&one);
	ck_redis("1", redis, LINE);
	ck_redis("1", redis, MARK);
	ends();
}
END_TEST

/* Behind its own host, which was granted it just before: a place of nobody's, in the way of others. */
START_TEST(queued_behind_the_grant)
{
	nobody_wants_it_any_more(LOCKSHM_EXCLUSIVE);
	waits(b, LOCKSHM_EXCLUSIVE);
	asks_for(&two, REDIS_ACQUIRE_X);
	sends(&two);
	sends(&one);
	ck_redis("1", redis, LINE);
	hears(&one);
	hears(&two);
	if (decides(&two) && two.cmds[two.n - 1].script == REDIS_ACQUIRE_X) {
		sends(&two);
		hears(&two);
	}
	is_in_state(HOST_LEASE_HELD);
	ck_redis("0", redis, LINE);
	ck_code(agent_end(b), 0);
	ends();
}
END_TEST

static void place_is_noted(void)
{
	(void)fetch_or(&record()->word, HOST_LEASE_QUEUED);
}

/* The same at the last moment; it does not wait before it asks again. */
START_TEST(queued_while_it_is_granted)
{
	begins();
	waits(a, LOCKSHM_EXCLUSIVE);
	asks_for(&one, REDIS_ACQUIRE_X);
	sends(&one);
	meanwhile = place_is_noted;
	hears(&one);
	ck_assert_ptr_null(meanwhile);
	is_in_state(HOST_LEASE_ACQUIRING);
	ck_assert_int_le(lease(&one)->due, host_now(hosts[0].s));
	asks_for(&one, REDIS_ACQUIRE_X);
	sends(&one);
	hears(&one);
	is_in_state(HOST_LEASE_HELD);
	ck_code(agent_end(a), 0);
	ends();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, another_has_asked_since);
	tcase_add_test(tc, another_has_queued_since);
	tcase_add_test(tc, given_up_meanwhile);
	tcase_add_test(tc, the_time_of_asking_only_rises);
	tcase_add_test(tc, told_and_still_there);
	tcase_add_test(tc, each_upgrade_has_its_time);
	add_unseen(tc);
	tcase_add_test(tc, two_moments_of_silence);
	tcase_add_loop_test(tc, told_while_it_cannot_be_asked, 0, 2);
	tcase_add_test(tc, told_beside_an_upgrade);
	tcase_add_loop_test(tc, silent_while_it_was_stopped, 0, 2);
	tcase_add_test(tc, loud_at_first);
	tcase_add_loop_test(tc, queued_for_nobody, 0, 2);
	tcase_add_loop_test(tc, granted_for_nobody, 0, 2);
	tcase_add_test(tc, queued_for_the_next);
	tcase_add_test(tc, queued_for_a_try);
	tcase_add_test(tc, queued_before_a_reader);
	tcase_add_test(tc, queued_behind_the_grant);
	tcase_add_test(tc, queued_while_it_is_granted);
}

int main(void)
{
	return hosts_main("global-overtaken", add);
}
