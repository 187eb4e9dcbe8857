/* SPDX-License-Identifier: MIT */
/* test-quorum.c - one lock on three servers, some of which are unreachable, slow, without their data, or the same */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "redis/quorum.h"
#include "redis-support/majority.h"
#include "redis-support/peer.h"
#include "support/stalls.h"

#define N SERVERS

static struct redis_keys keys;

/* A host and its connections to the servers. */
struct party {
	struct redis_quorum *q;
	struct redis_host host;
	char value[REDIS_VALUE_LEN + 1];
	struct script_args args;
	struct redis_lock lease;
};
static struct party a, b;

static int new_quorum(struct redis_quorum **q, const char *const *uris, size_t n,
		      const struct redis_quorum_options *options)
{
	struct redis_server list[N];
	size_t i;

	for (i = 0; i < n; i++)
		list[i] = server_of(uris[i]);
	return redis_quorum_new(q, list, n, options, NULL);
}

static void join(struct party *p, const struct redis_quorum_options *options)
{
	const char *uris[N] = { proxies[0]->uri, proxies[1]->uri, proxies[2]->uri };

	redis_quorum_free(p->q);
	random_host(&p->host);
	ck_assert(redis_value(p->value, &p->host));
	ck_code(new_quorum(&p->q, uris, N, options), 0);
	p->args = (struct script_args){
		.host = p->host.id, .value = p->value, .ttl_ms = LONG_MS, .stride = 1024, .waiter_ttl_ms = LONG_MS
	};
}

/* Waits for the end. */
static int vote(struct redis_quorum *q, struct redis_vote *v, struct redis_lock *lease)
{
	vote_begin(q, v);
	(void)vote_end(q, v);
	/* Without a result the lease is as it was. */
	if (lease && (!v->code || v->script != REDIS_RENEW))
		*lease = v->lease;
	return v->code;
}

static int quorum_acquire(struct redis_quorum *q, enum redis_script script, const struct redis_keys *lock,
			  const struct script_args *args, int64_t deadline, struct redis_lock *lease)
{
	struct redis_vote v = { .script = script, .keys = lock, .args = *args, .deadline = deadline };

	return vote(q, &v, lease);
}

static int quorum_renew(struct redis_quorum *q, enum redis_script acquired_by, const struct redis_keys *lock,
			const struct script_args *args, int64_t deadline, struct redis_lock *lease)
{
	struct redis_vote v = { .script = REDIS_RENEW, .acquired_by = acquired_by, .keys = lock, .args = *args,
				.deadline = deadline };

	return vote(q, &v, lease);
}

static unsigned quorum_release(struct redis_quorum *q, const struct redis_keys *lock, const struct script_args *args,
			       int64_t deadline)
{
	struct redis_vote v = { .script = REDIS_RELEASE, .keys = lock, .args = *args, .deadline = deadline };

	ck_code(vote(q, &v, NULL), 0);
	return v.lease.servers;
}

static int acquire(struct party *p)
{
	int code = quorum_acquire(p->q, REDIS_ACQUIRE_X, &keys, &p->args, soon(), &p->lease);

	return code ? code : (int)p->lease.status;
}

static int renew_it(struct party *p)
{
	int code = quorum_renew(p->q, REDIS_ACQUIRE_X, &keys, &p->args, soon(), &p->lease);

	return code ? code : (int)p->lease.status;
}

static unsigned release_it(struct party *p)
{
	return quorum_release(p->q, &keys, &p->args, soon());
}

/* Has this party the lock on server @i? */
static bool is_on(int i, const struct party *p)
{
	return strcmp(redis_say(servers[i], "GET lock"), p->value) == 0;
}

static bool on_all(void *p)
{
	return is_on(0, p) && is_on(1, p) && is_on(2, p);
}

static bool on_first(void *p)
{
	return is_on(0, p);
}

static void ck_nowhere(void)
{
	int i;

	for (i = 0; i < N; i++)
		ck_redis("0", servers[i], "EXISTS lock");
}

START_TEST(all_are_there)
{
	int64_t before = redis_now();

	ck_assert_uint_eq(redis_quorum_voters(a.q), 3);
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert_uint_ge(a.lease.servers, 2);
	ck_assert_int_ge(a.lease.began, before);
	ck_assert_int_ge(a.lease.decided, a.lease.began);
	ck_assert_int_eq(a.lease.valid_until, redis_valid_until(a.lease.began, LONG_MS));
	ck_assert(await(on_all, &a));
	ck_assert_uint_eq(release_it(&a), 3);
	ck_nowhere();
}
END_TEST

START_TEST(a_second_host_is_refused)
{
	ck_status(acquire(&a), REDIS_GRANTED);
	/* Two decide: else the other host may be the first at the third server. */
	ck_assert(await(on_all, &a));
	ck_status(acquire(&b), REDIS_BUSY);
	ck_assert_int_gt(b.lease.left_ms, 0);
	ck_assert(on_all(&a));
	ck_assert_uint_eq(release_it(&a), 3);
	ck_status(acquire(&b), REDIS_GRANTED);
}
END_TEST

START_TEST(a_minority_may_be_unreachable)
{
	proxy_set(proxies[1], PROXY_REFUSE);
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert_uint_eq(a.lease.servers, 2);
	ck_status(acquire(&b), REDIS_BUSY);
	ck_assert_uint_eq(release_it(&a), 2);
	proxy_set(proxies[2], PROXY_REFUSE);
	ck_assert_int_lt(acquire(&a), 0);
	ck_assert(redis_quorum_error(a.q)->text[0] != '\0');
	ck_nowhere();
}
END_TEST

/* What a minority granted is released. */
START_TEST(a_majority_refuses)
{
	ck_redis("OK", servers[0], "SET lock other PX 50000");
	ck_redis("OK", servers[2], "SET lock other PX 50000");
	ck_status(acquire(&a), REDIS_BUSY);
	ck_redis("0", servers[1], "EXISTS lock");
	ck_redis("other", servers[0], "GET lock");
	ck_redis("1", servers[0], "DEL lock");
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_redis("other", servers[2], "GET lock");
	/* The release does not touch it either. */
	ck_assert_uint_eq(release_it(&a), 3);
	ck_redis("other", servers[2], "GET lock");
}
END_TEST

/* Two addresses of one server are one vote: with one other server that is a majority of three, alone it is none. */
START_TEST(one_server_under_two_addresses)
{
	const char *uris[N] = { servers[0]->uri, servers[1]->uri, proxies[0]->uri };
	struct redis_quorum_options options = { 0 };

	redis_quorum_free(a.q);
	ck_code(new_quorum(&a.q, uris, N, &options), 0);
	ck_code(redis_quorum_open(a.q, soon()), 0);
	ck_assert_uint_eq(redis_quorum_voters(a.q), 2);
	ck_contains(redis_quorum_same(a.q)->text, "are the same server");
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert_uint_eq(a.lease.servers, 2);
	ck_status(renew_it(&a), REDIS_DONE);
	release_it(&a);
	ck_nowhere();
	ck_redis("OK", servers[1], "SET lock other");
	ck_status(acquire(&a), REDIS_BUSY);
	ck_redis("0", servers[0], "EXISTS lock");
	redis_freeze(servers[1]);
	ck_code(quorum_acquire(a.q, REDIS_ACQUIRE_X, &keys, &a.args, redis_now() + REDIS_MS(200), &a.lease), REDIS_UNKNOWN);
	redis_thaw(servers[1]);
}
END_TEST

START_TEST(one_server_under_three_addresses)
{
	const char *uris[N] = { servers[0]->uri, proxies[1]->uri, proxies[0]->uri };
	struct redis_quorum_options options = { 0 };
	struct redis_quorum *q;

	proxy_target(proxies[1], servers[0]);
	ck_code(new_quorum(&q, uris, N, &options), 0);
	ck_code(redis_quorum_open(q, soon()), REDIS_INVALID);
	ck_contains(redis_quorum_error(q)->text, "are the same server");
	ck_code(quorum_acquire(q, REDIS_ACQUIRE_X, &keys, &a.args, soon(), &a.lease), REDIS_INVALID);
	ck_nowhere();
	redis_quorum_free(q);
}
END_TEST

/* Decided without the server that does not reply; the command is sent to it all the same. */
START_TEST(a_slow_one_is_not_waited_for)
{
	int64_t began = ran_ns();

	redis_freeze(servers[2]);
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_status(renew_it(&a), REDIS_DONE);
	ck_assert_int_lt(ran_ns() - began, REDIS_MS(10000));
	redis_thaw(servers[2]);
	ck_assert(await(on_all, &a));
	/* The release queues after all that is still under way there. */
	ck_assert_uint_eq(release_it(&a), 3);
	ck_nowhere();
}
END_TEST

/* Granted, but the reply was lost: the release reaches it. */
START_TEST(released_where_the_reply_was_lost)
{
	proxy_set(proxies[0], PROXY_DROP_REPLIES);
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert(await(on_all, &a));
	proxy_set(proxies[0], PROXY_RESET);
	proxy_set(proxies[0], PROXY_PASS);
	ck_assert_uint_eq(release_it(&a), 3);
	ck_nowhere();
}
END_TEST

/* The second lock, whose acquires and releases are under way beside those of the first. */
static struct redis_keys beside;

static void acquire_beside(void)
{
	struct redis_lock lease;

	ck_code(redis_keys_make(&beside, REDIS_KEYS_SINGLE, "", "beside", 6, NULL), 0);
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_code(quorum_acquire(a.q, REDIS_ACQUIRE_X, &beside, &a.args, soon(), &lease), 0);
	ck_status((int)lease.status, REDIS_GRANTED);
	ck_assert(await(on_all, &a));
}

static void begin_release(struct redis_vote *v, const struct redis_keys *lock, int64_t deadline)
{
	*v = (struct redis_vote){ .script = REDIS_RELEASE, .keys = lock, .args = a.args, .deadline = deadline };
	vote_begin(a.q, v);
}

/* One server loses two releases with its connection: both are repeated. */
START_TEST(two_releases_are_lost_together)
{
	struct redis_vote one, other;

	acquire_beside();
	proxy_set(proxies[0], PROXY_DROP_REQUESTS);
	begin_release(&one, &keys, soon());
	begin_release(&other, &beside, soon());
	proxy_set(proxies[0], PROXY_RESET);
	proxy_set(proxies[0], PROXY_PASS);
	ck_code(vote_end(a.q, &one), 0);
	ck_code(vote_end(a.q, &other), 0);
	ck_assert_uint_eq(one.lease.servers, 3);
	ck_assert_uint_eq(other.lease.servers, 3);
	ck_nowhere();
	ck_redis("0", servers[0], "EXISTS beside");
}
END_TEST

/* A release that is out of time closes the connections on which the other one awaits its replies. */
START_TEST(another_release_is_out_of_time)
{
	struct redis_vote one, other;

	acquire_beside();
	proxy_set(proxies[0], PROXY_DROP_REQUESTS);
	begin_release(&one, &keys, soon());
	proxy_set(proxies[0], PROXY_PASS);
	begin_release(&other, &beside, redis_now());
	ck_code(vote_end(a.q, &other), 0);
	ck_code(vote_end(a.q, &one), 0);
	ck_assert_uint_eq(one.lease.servers, 3);
	ck_nowhere();
}
END_TEST

START_TEST(granted_too_late)
{
	struct redis_quorum_options options = { .min_validity_ms = LONG_MS };

	join(&a, &options);
	ck_code(acquire(&a), REDIS_UNKNOWN);
	ck_contains(redis_quorum_error(a.q)->text, "too late");
	ck_nowhere();
}
END_TEST

/* Whether a release is needed does not depend on the other replies. */
START_TEST(what_may_be_there)
{
	struct redis_quorum_options options = { .value_is_shared = true };
	int i;

	join(&a, &options);
	ck_code(redis_quorum_open(a.q, soon()), 0);
	for (i = 1; i < N; i++)
		ck_redis("OK", servers[i], "CONFIG SET maxmemory 1");
	ck_code(acquire(&a), REDIS_UNKNOWN);
	ck_contains(redis_quorum_error(a.q)->text, "OOM");
	ck_assert(a.lease.sent);
	/* Decided without its reply. */
	ck_assert(await(on_first, &a));
	for (i = 1; i < N; i++)
		ck_redis("OK", servers[i], "CONFIG SET maxmemory 0");
	release_it(&a);
	ck_nowhere();
	for (i = 0; i < N; i++)
		proxy_set(proxies[i], PROXY_REFUSE);
	join(&a, &options);
	ck_code(acquire(&a), REDIS_UNREACHABLE);
	ck_assert(!a.lease.sent);
}
END_TEST

/* ---------------------------------------------------------------- renewal */

START_TEST(a_forgetful_one_gets_it_again)
{
	int64_t before;

	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert(await(on_all, &a));
	before = a.lease.valid_until;
	ck_redis("OK", servers[1], "FLUSHALL");
	/* Two replies may decide before the third is read; then the next renewal restores it. */
	while (!is_on(1, &a))
		ck_status(renew_it(&a), REDIS_DONE);
	ck_assert_int_gt(a.lease.valid_until, before);
	ck_assert(await(on_all, &a));
}
END_TEST

START_TEST(forgotten_by_a_majority)
{
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert(await(on_all, &a));
	ck_redis("OK", servers[1], "FLUSHALL");
	ck_redis("OK", servers[2], "FLUSHALL");
	ck_status(renew_it(&a), REDIS_LOST);
	/* A minority does not restore a lease. */
	ck_redis("0", servers[1], "EXISTS lock");
	ck_redis("0", servers[2], "EXISTS lock");
}
END_TEST

static bool is_renewed(void *p)
{
	int code = renew_it(p);

	ck_assert_int_ne(code, REDIS_LOST);
	return code == REDIS_DONE;
}

START_TEST(out_of_reach_is_not_lost)
{
	int64_t valid;

	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert(await(on_all, &a));
	valid = a.lease.valid_until;
	proxy_set(proxies[0], PROXY_REFUSE);
	proxy_set(proxies[1], PROXY_REFUSE);
	ck_assert_int_lt(renew_it(&a), 0);
	ck_assert_int_eq(a.lease.valid_until, valid);
	proxy_set(proxies[0], PROXY_PASS);
	ck_assert(await(is_renewed, &a)); /* a failed server backs off first */
	ck_assert_int_gt(a.lease.valid_until, valid);
}
END_TEST

/* ---------------------------------------------------------------- fence, restarts */

/* Two majorities share one server only, and each has another server unreachable. */
START_TEST(fence_rises_from_majority_to_majority)
{
	int64_t next = 0;
	int i;

	for (i = 0; i < 9; i++) {
		struct party *p = i % 2 ? &a : &b;

		proxy_set(proxies[i % N], PROXY_REFUSE);
		/* One of them is far ahead of the clock. */
		if (i == 4)
			ck_redis("0", servers[(i + 1) % N], "HSET {lock}:f end %lld", (long long)next + (1LL << 40));
		while (acquire(p) != REDIS_GRANTED)
			;
		ck_assert_int_ge(p->lease.fence, next);
		next = p->lease.fence + p->args.stride;
		release_it(p);
		proxy_set(proxies[i % N], PROXY_PASS);
	}
}
END_TEST

/* Commands that servers have executed for scripts. */
static long long executed(void)
{
	long long all = 0;
	const char *at;
	int i;

	for (i = 0; i < N; i++) {
		at = strstr(redis_say(servers[i], "INFO commandstats"), "cmdstat_evalsha:calls=");
		all += at ? atoll(at + strlen("cmdstat_evalsha:calls=")) : 0;
	}
	return all;
}

static bool is_nowhere(void *unused)
{
	int i, n = 0;

	(void)unused;
	for (i = 0; i < N; i++)
		n += atoi(redis_say(servers[i], "EXISTS lock"));
	return n == 0;
}

/* Acquire and release at each server, and no second round.  Slow servers may need one: so once of many times. */
START_TEST(mostly_one_round)
{
	long long before;
	int i, quick = 0;

	for (i = 0; i < 200 && !quick; i++) {
		before = executed();
		ck_status(acquire(&a), REDIS_GRANTED);
		ck_assert_uint_eq(release_it(&a), N);
		ck_assert(await(is_nowhere, NULL));
		quick += executed() - before == 2 * N;
	}
	ck_assert_int_gt(quick, 0);
}
END_TEST

/*
 * b has one server, while a has the others, whose numbers differ.  Then b gets a majority with one that a did not level
 * in its second round.
 */
START_TEST(levelled_where_it_holds)
{
	int64_t ahead;

	ck_status(acquire(&a), REDIS_GRANTED);
	release_it(&a);
	ahead = a.lease.fence + (1LL << 40);
	ck_redis("0", servers[2], "HSET {lock}:f end %lld", (long long)ahead);
	ck_redis("OK", servers[0], "SET lock %s PX %d", b.value, LONG_MS);
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert_int_ge(a.lease.fence, ahead);
	/* What b took at that server before is not above what a has. */
	ck_assert_int_lt(atoll(redis_say(servers[0], "HGET {lock}:f end")), ahead);
	ck_assert_int_ge(atoll(redis_say(servers[1], "HGET {lock}:f end")), a.lease.fence + a.args.stride);
	ck_assert_int_ge(atoll(redis_say(servers[2], "HGET {lock}:f end")), a.lease.fence + a.args.stride);
}
END_TEST

static bool all_vote(void *p)
{
	redis_quorum_open(((struct party *)p)->q, soon());
	return redis_quorum_voters(((struct party *)p)->q) == N;
}

/* A restarted server may have forgotten a lease that is still valid. */
START_TEST(restarted_ones_do_not_vote_at_once)
{
	struct redis_quorum_options options = { .quarantine_ms = 1000 };
	struct redis *shared[N];
	int i;

	/* A server of this test: the others outlive it. */
	memcpy(shared, servers, sizeof(shared));
	for (i = 0; i < N; i++) {
		servers[i] = redis_start(NULL, false);
		proxies[i] = proxy_start(servers[i], false);
	}
	join(&a, &options);
	ck_assert(await(all_vote, &a));
	options.quarantine_ms = LONG_MS;
	join(&b, &options);
	ck_code(redis_quorum_open(b.q, soon()), 0);
	ck_assert_uint_eq(redis_quorum_voters(b.q), 0);
	ck_code(acquire(&b), REDIS_UNREACHABLE);
	ck_nowhere();
	ck_status(acquire(&a), REDIS_GRANTED);
	ck_assert(await(on_all, &a));
	redis_kill(servers[0]);
	redis_kill(servers[1]);
	redis_restart(servers[0]);
	redis_restart(servers[1]);
	b.args.ttl_ms = 1000;
	options.quarantine_ms = 0;
	join(&b, &options);
	ck_code(redis_quorum_open(b.q, soon()), 0);
	/* Without the quarantine there are two holders. */
	ck_status(acquire(&b), REDIS_GRANTED);
	ck_assert_int_gt(a.lease.valid_until, redis_now());
	for (i = 0; i < N; i++)
		redis_stop(servers[i]);
	memcpy(servers, shared, sizeof(shared));
}
END_TEST

START_TEST(no_servers)
{
	struct redis_quorum_options options = { 0 };
	struct redis_quorum *q;

	ck_code(redis_quorum_new(&q, NULL, 0, &options, NULL), REDIS_INVALID);
}
END_TEST

/* Readers: each server has the set of both. */
START_TEST(readers_together)
{
	ck_code(quorum_acquire(a.q, REDIS_ACQUIRE_S, &keys, &a.args, soon(), &a.lease), 0);
	ck_status((int)a.lease.status, REDIS_GRANTED);
	ck_code(quorum_acquire(b.q, REDIS_ACQUIRE_S, &keys, &b.args, soon(), &b.lease), 0);
	ck_status((int)b.lease.status, REDIS_GRANTED);
	ck_assert_int_gt(b.lease.fence, a.lease.fence);
	ck_status(quorum_renew(a.q, REDIS_ACQUIRE_S, &keys, &a.args, soon(), &a.lease), 0);
	ck_assert_uint_eq(release_it(&a), 3);
	ck_assert_uint_eq(release_it(&b), 3);
	ck_nowhere();
}
END_TEST

static void start(void)
{
	servers_start(N);
}

static void stop(void)
{
	servers_stop(N);
}

static void meet(void)
{
	struct redis_quorum_options options = { 0 };

	ck_code(redis_keys_make(&keys, REDIS_KEYS_SINGLE, "", "lock", 4, NULL), 0);
	servers_empty(N);
	proxies_start(N);
	join(&a, &options);
	join(&b, &options);
	/* Else a majority that is ready first decides, and the third comes with the first renewal. */
	ck_code(redis_quorum_open(a.q, soon()), 0);
	ck_code(redis_quorum_open(b.q, soon()), 0);
}

static void part(void)
{
	redis_quorum_free(a.q);
	redis_quorum_free(b.q);
	redis_keys_free(&keys);
	redis_keys_free(&beside);
	memset(&beside, 0, sizeof(beside));
}

static void add(TCase *tc)
{
	tcase_add_unchecked_fixture(tc, start, stop);
	tcase_add_checked_fixture(tc, meet, part);
	tcase_add_test(tc, all_are_there);
	tcase_add_test(tc, a_second_host_is_refused);
	tcase_add_test(tc, a_minority_may_be_unreachable);
	tcase_add_test(tc, a_majority_refuses);
	tcase_add_test(tc, one_server_under_two_addresses);
	tcase_add_test(tc, one_server_under_three_addresses);
	tcase_add_test(tc, a_slow_one_is_not_waited_for);
	tcase_add_test(tc, released_where_the_reply_was_lost);
	tcase_add_test(tc, two_releases_are_lost_together);
	tcase_add_test(tc, another_release_is_out_of_time);
	tcase_add_test(tc, granted_too_late);
	tcase_add_test(tc, what_may_be_there);
	tcase_add_test(tc, a_forgetful_one_gets_it_again);
	tcase_add_test(tc, forgotten_by_a_majority);
	tcase_add_test(tc, out_of_reach_is_not_lost);
	tcase_add_test(tc, fence_rises_from_majority_to_majority);
	tcase_add_test(tc, mostly_one_round);
	tcase_add_test(tc, levelled_where_it_holds);
	tcase_add_test(tc, restarted_ones_do_not_vote_at_once);
	tcase_add_test(tc, no_servers);
	tcase_add_test(tc, readers_together);
}

int main(void)
{
	return redis_main("bridge-quorum", add);
}
