/* SPDX-License-Identifier: MIT */
/* test-global-record.c - records of host leases: claims, deaths within them, damage, how many there are */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/hash.h"
#include "lock/participant.h"
#include "hostlease/host-lease.h"
#include "lock/table.h"

static struct agent *a, *b;

static void host_with_leases(unsigned leases)
{
	struct lockshm_create_options options = host_options();

	options.host_leases = leases;
	host_make(0, &options);
}

static struct shm_host_lease *record(unsigned i)
{
	return &hosts[0].s->host_leases[i];
}

static uint64_t own_ref(void)
{
	struct participant *self;

	ck_code(participant_get(hosts[0].s, &self, NULL), 0);
	return self->ref;
}

/* The owner slot of an agent that has acquired a lock on host 0. */
static uint64_t ref_of(const struct agent *agent)
{
	const struct lockshm *s = hosts[0].s;
	uint32_t i;

	for (i = 0; i < s->n_owners; i++)
		if (control_state(s->owners[i].control) == OWNER_ACTIVE && (pid_t)s->owners[i].tid == agent->tid)
			return owner_ref(control_gen(s->owners[i].control), i);
	ck_abort_msg("the agent has no slot");
	return 0;
}

static struct identity identity_of(const char *key)
{
	struct identity id;

	hash_key(&id, hosts[0].s->hash_secret, key, strlen(key));
	return id;
}

static int find(const char *key, uint32_t *out)
{
	struct identity id = identity_of(key);

	return host_lease_find(hosts[0].s, own_ref(), &id, key, out, NULL);
}

static void living_agent(void)
{
	a = on_host(0);
	ck_code(agent_try(a, "other", LOCKSHM_EXCLUSIVE), 0);
}

/* ---------------------------------------------------------------- claimers */

/* Between its CAS of the claimer and all later steps it may be stopped for any time. */
START_TEST(a_claimer_excludes_others)
{
	uint32_t i;

	host_with_leases(1);
	living_agent();
	store_release(&record(0)->claimer, ref_of(a));
	ck_code(find(K, &i), LOCKSHM_FULL);
	ck_assert_uint_eq(load_relaxed(&record(0)->key_len), 0);
	agent_kill(a);
	ck_code(find(K, &i), 0);
	ck_assert_uint_eq(load_relaxed(&record(0)->claimer), 0);
}
END_TEST

/* It has the lock, the word is CLAIM, and half is written; or all is written, and the lock is still its own. */
static void dead_claimer(uint64_t word)
{
	struct identity id;
	uint32_t i;

	host_with_leases(1);
	id = identity_of(K);
	living_agent();
	store_release(&record(0)->claimer, ref_of(a));
	store_release(&record(0)->word, word);
	store_relaxed(&record(0)->id[0], ~id.id[0]);
	store_relaxed(&record(0)->key_len, 3);
	ck_code(find(K, &i), LOCKSHM_FULL);
	agent_kill(a);
	ck_code(find(K, &i), 0);
	ck_assert(host_lease_is(record(0), &id));
	ck_assert_int_eq(host_lease_state(record(0)->word), HOST_LEASE_NONE);
	ck_assert_uint_gt(host_lease_epoch(record(0)->word), host_lease_epoch(word));
	ck_assert_uint_eq(load_relaxed(&record(0)->claimer), 0);
	/* And it works. */
	b = on_host(0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
}

START_TEST(a_death_while_it_writes)
{
	dead_claimer(host_lease_make(7, 0, HOST_LEASE_CLAIM));
}
END_TEST

START_TEST(a_death_after_it)
{
	dead_claimer(host_lease_make(7, 0, HOST_LEASE_NONE));
}
END_TEST

#define CLAIMERS 3
#define CLAIMS 20
#define GENERATIONS 150 /* a dead claimer may be followed at once */

/* Key and identity at one instant: do they belong together? */
static bool torn(const struct shm_host_lease *r)
{
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	uint64_t word = load_acquire(&r->word);
	struct identity id;
	size_t len = host_lease_key(r, key);

	if (len == 0 || host_lease_state(word) != HOST_LEASE_NONE)
		return false;
	hash_key(&id, hosts[0].s->hash_secret, key, len);
	return !host_lease_is(r, &id) && load_acquire(&r->word) == word;
}

static int claim_again_and_again(unsigned process)
{
	char key[8];
	struct identity id;
	uint32_t i;
	int n, err;

	for (n = 0; n < CLAIMS; n++) {
		snprintf(key, sizeof(key), "%u-%d", process, n % 7);
		id = identity_of(key);
		err = host_lease_find(hosts[0].s, own_ref(), &id, key, &i, NULL);
		if ((err && err != LOCKSHM_FULL) || torn(record(0)))
			return 1;
	}
	return 0;
}

/* One after the other, so that there is always a dead one. */
static int claim_and_die(unsigned process)
{
	int n, status = 0;

	for (n = 0; n < GENERATIONS && status == 0; n++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(claim_again_and_again(process));
		if (waitpid(pid, &status, 0) != pid)
			return 3;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

START_TEST(claimers_do_not_mix_their_keys)
{
	pid_t pids[CLAIMERS];
	unsigned i;
	int status;

	host_with_leases(1);
	for (i = 0; i < CLAIMERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(claim_and_die(i));
	}
	for (i = 0; i < CLAIMERS; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_msg(status == 0, "claimer %u: status %x", i, (unsigned)status);
	}
}
END_TEST

/* ---------------------------------------------------------------- two records of one key */

/* Waiters with the one record are not blocked by the other, even without invalidations. */
START_TEST(the_second_record_of_a_key)
{
	struct lockshm_create_options options = host_options();
	struct shm_host_lease *first, *second;
	struct identity id;

	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
	host_make(0, &options);
	id = identity_of(K);
	a = on_host(0);
	b = on_host(0);
	/* It goes to the second record of its window, because the first is being claimed. */
	first = record((uint32_t)(id.id[0] % hosts[0].s->n_host_leases));
	store_release(&first->claimer, own_ref());
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	second = record(record_of(0, K));
	ck_assert_ptr_ne(first, second);
	memcpy(first->id, second->id, sizeof(first->id));
	memcpy(first->key, second->key, sizeof(first->key));
	first->key_len = second->key_len;
	store_release(&first->claimer, 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_eq(host_lease_state(first->word), HOST_LEASE_HELD);
}
END_TEST

/* ---------------------------------------------------------------- damage */

/* A lease never has more time left than a new one. */
START_TEST(an_end_too_far_away_is_damage)
{
	struct lockshm_host_lease lease;

	host_with_leases(4);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	/* A renewal would mend it. */
	bridge_freeze(0);
	store_release(&record(record_of(0, K))->valid_until, UINT64_MAX >> 2);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	bridge_thaw(0);
	ck_code(agent_release(a), LOCKSHM_LOST);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	/* And the next one is as good as any. */
	ck_assert_int_ge(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	lease = lease_of(0, K);
	ck_assert_int_gt(lease.remaining_ns, 0);
	ck_assert_int_le(lease.remaining_ns, LOCKSHM_SECONDS(1));
}
END_TEST

/* A holder that cannot be seen may still hold: the lease is neither released nor renewed. */
START_TEST(a_torn_queue_keeps_its_lease_to_its_end)
{
	struct lockshm_create_options options = host_options();
	struct shm_entry *e;
	struct identity id;
	uint64_t tail;
	int64_t end;

	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	id = identity_of(K);
	e = &hosts[0].s->entries[table_lookup(hosts[0].s, &id)];
	tail = load_acquire(&e->tail);
	/* A record that was never used. */
	store_release(&e->tail, tail_make(tail_ticket(tail), hosts[0].s->n_requests));
	end = now_ns() + LOCKSHM_SECONDS(1);
	while (now_ns() < end) {
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
		pass(now_ns() + LOCKSHM_MS(20));
	}
	lost_is_reported(a);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
}
END_TEST

/* ---------------------------------------------------------------- reports of a lost hold */

static void record_is_over(void)
{
	store_release(&record(record_of(0, K))->valid_until, 1);
}

/* By every call, with the token of the successor. */
START_TEST(each_call_reports_the_loss)
{
	struct lockshm_create_options options = host_options();
	struct agent *newest;

	/* Its leader is stopped for longer than this takes, or ends the holds: the results are the same. */
	options.redis_ttl_ns = LOCKSHM_SECONDS(40);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	newest = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(newest, K, LOCKSHM_SHARED), 0);
	bridge_freeze(0);
	record_is_over();
	ck_code(agent_call(newest, AGENT_ACKNOWLEDGE), LOCKSHM_LOST);
	ck_assert_uint_eq(newest->answer.lost_to, 0); /* no successor yet */
	ck_code(agent_call(a, AGENT_DOWNGRADE), LOCKSHM_LOST);
	ck_assert_uint_eq(a->answer.lost_to, newest->answer.token);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_CALLER }), LOCKSHM_LOST);
	ck_assert_uint_eq(b->answer.lost_to, newest->answer.token);
	bridge_thaw(0);
}
END_TEST

/* The record goes to another key, whose tokens say nothing about this one. */
START_TEST(no_other_key_is_reported)
{
	host_with_leases(1);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	bridge_freeze(0);
	record_is_over();
	lost_is_reported(a);
	bridge_thaw(0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	pass(now_ns() + LOCKSHM_MS(3)); /* tokens are milliseconds */
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, a->answer.token);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_uint_eq(a->answer.lost_to, 0);
}
END_TEST

/* ---------------------------------------------------------------- all of them */

static bool wanted_all(void *n)
{
	return bridge_of(0).host_leases_known >= *(uint64_t *)n;
}

static bool renewed_all(void *n)
{
	return bridge_of(0).renewed >= *(uint64_t *)n;
}

static uint64_t refused_host_leases(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	ck_code(lockshm_stat(hosts[0].s, &stat), 0);
	return stat.refused_host_leases;
}

static void ck_no_lease_is_left(lockshm_loop_t *loop, struct task *one_more)
{
	uint64_t refused = refused_host_leases();

	task_init(one_more, "one more", LOCKSHM_EXCLUSIVE);
	one_more->request.flags = LOCKSHM_GLOBAL;
	ck_code(task_acquire(loop, one_more), LOCKSHM_FULL);
	ck_contains(one_more->report.error.message, "more host_leases");
	ck_assert_uint_eq(refused_host_leases(), refused + 1);
}

/* All wanted while Redis is silent, all held, and all renewed; one more is refused until one is given back. */
START_TEST(as_many_keys_as_leases)
{
	static struct task t[4096], one_more;
	uint64_t n = _i ? 4096 : 1024, i;
	struct lockshm_create_options options = host_options();
	lockshm_loop_t *loop;

	own_server();
	strcpy(options.redis, redis->uri);
	options.host_leases = (uint32_t)n;
	options.requests = options.keys = 2 * (uint32_t)n;
	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	seg = hosts[0].s;
	loop = loop_new();
	redis_freeze(redis);
	for (i = 0; i < n; i++) {
		char key[16];

		snprintf(key, sizeof(key), "key%d", (int)i);
		task_init(&t[i], key, LOCKSHM_EXCLUSIVE);
		t[i].request.flags = LOCKSHM_GLOBAL;
		ck_code(task_acquire(loop, &t[i]), LOCKSHM_PENDING);
	}
	ck_assert(await(wanted_all, &n));
	ck_no_lease_is_left(loop, &one_more);
	redis_thaw(redis);
	for (i = 0; i < n; i++)
		ck_code(loop_collect(loop)->status, 0);
	ck_no_lease_is_left(loop, &one_more);
	ck_assert_uint_eq(bridge_of(0).host_leases_held, n);
	ck_assert(await(renewed_all, &n));
	for (i = 0; i < n; i++)
		ck_code(lockshm_check(&t[i].hold, NULL), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(task_release(&t[n / 2]), 0);
	lease_becomes(0, t[n / 2].key, LOCKSHM_HOST_LEASE_NONE);
	ck_code(task_acquire(loop, &one_more), LOCKSHM_PENDING);
	ck_code(task_end(loop, &one_more), 0);
	for (i = 0; i < n; i++)
		ck_code(i == n / 2 ? task_release(&one_more) : task_release(&t[i]), 0);
	redis_has("KEYS lk:*", "[]");
}
END_TEST

/* ---------------------------------------------------------------- owner slots */

/* The bridge needs one to lead.  As long as it finds none there is no bridge; it leads once there is one. */
START_TEST(no_slot_for_the_bridge)
{
	struct lockshm_create_options options = host_options();
	pid_t pid;

	options.owners = 1;
	host_make_bare(0, &options);
	a = on_host(0);
	ck_code(agent_try(a, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	pid = bridge_spawn(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "no bridge");
	ck_assert_int_eq(bridge_of(0).pid, 0);
	ck_code(agent_call(a, AGENT_CLOSE), 0);
	leads(0, pid);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_claimer_excludes_others);
	tcase_add_test(tc, a_death_while_it_writes);
	tcase_add_test(tc, a_death_after_it);
	tcase_add_test(tc, claimers_do_not_mix_their_keys);
	tcase_add_test(tc, the_second_record_of_a_key);
	tcase_add_test(tc, an_end_too_far_away_is_damage);
	tcase_add_test(tc, a_torn_queue_keeps_its_lease_to_its_end);
	tcase_add_test(tc, each_call_reports_the_loss);
	tcase_add_test(tc, no_other_key_is_reported);
	tcase_add_loop_test(tc, as_many_keys_as_leases, 0, 2);
	tcase_add_test(tc, no_slot_for_the_bridge);
}

int main(void)
{
	return hosts_main("global-record", add);
}
