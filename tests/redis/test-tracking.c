/* SPDX-License-Identifier: MIT */
/* test-tracking.c - hints: changes of keys read, messages of other hosts, and connections that break */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <stdlib.h>
#include <string.h>

#include "redis/tracking.h"

static struct peer *a, *b;
static struct tracking *tracking;
static const char *key;
static size_t len;

static struct tracking *tracking_at(const char *uri, const struct peer *p)
{
	struct redis_server server = server_of(uri);
	struct tracking *w;

	ck_code(tracking_new(&w, &server, &p->host, NULL), 0);
	return w;
}

/* The next hint, which must come. */
static enum redis_hint wait_hint(struct tracking *w)
{
	enum redis_hint hint;
	struct redis_conn *c = tracking_conn(w);
	int64_t end = soon();

	while ((hint = tracking_next(w, &key, &len)) == REDIS_HINT_NONE) {
		ck_assert_msg(redis_now() < end, "no hint came");
		redis_conns_poll(&c, 1, end);
	}
	return hint;
}

#define ck_hint(want, want_key)                                                                                        \
	do {                                                                                                           \
		const char *k_ = want_key;                                                                             \
		ck_assert_int_eq(wait_hint(tracking), want);                                                               \
		if (k_)                                                                                                \
			ck_assert_msg(len == strlen(k_) && memcmp(key, k_, len) == 0, "hint is about '%.*s'",          \
				      (int)len, key);                                                                  \
	} while (0)

/* All hints so far, as "key:K notified:K all "; one sent now is the last. */
static const char *hints(struct redis *r, const struct peer *p)
{
	static char all[512];
	enum redis_hint hint;

	all[0] = '\0';
	ck_redis("1", r, "PUBLISH lockshm:%s marker", p->host.id);
	while ((hint = wait_hint(tracking)) != REDIS_HINT_NOTIFIED || len != 6 || memcmp(key, "marker", 6) != 0) {
		size_t at = strlen(all);

		if (hint == REDIS_HINT_ALL)
			snprintf(all + at, sizeof(all) - at, "all ");
		else
			snprintf(all + at, sizeof(all) - at, "%s:%.*s ", hint == REDIS_HINT_KEY ? "key" : "notified",
				 (int)len, key);
	}
	return all;
}

static int armed(const struct peer *p)
{
	struct redis_conn *conns[] = { tracking_conn(tracking), p->conn };
	struct redis_arming arming;
	int code;

	tracking_arm(&arming, tracking, p->conn, PATIENCE);
	while ((code = tracking_step(&arming)) == REDIS_AGAIN)
		redis_conns_poll(conns, 2, arming.deadline);
	return code;
}

static void arm(void)
{
	ck_code(armed(a), 0);
	/* Keys read before were not tracked. */
	ck_hint(REDIS_HINT_ALL, NULL);
}

START_TEST(a_foreign_unlock_is_a_hint)
{
	arm();
	ck_redis("OK", redis, "SET lock theirs");
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_redis("1", redis, "DEL lock");
	ck_hint(REDIS_HINT_KEY, "lock");
	ck_status(acquire_x(a), REDIS_GRANTED);
}
END_TEST

START_TEST(theft_and_deletion_are_hints)
{
	arm();
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("OK", redis, "SET lock thief");
	ck_hint(REDIS_HINT_KEY, "lock");
	ck_status(renew(a), REDIS_LOST);
	ck_redis("1", redis, "DEL lock");
	ck_hint(REDIS_HINT_KEY, "lock");
	ck_status(renew(a), REDIS_ABSENT);
}
END_TEST

START_TEST(a_reader_gets_hints)
{
	arm();
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("1", redis, "DEL lock");
	ck_hint(REDIS_HINT_KEY, "lock");
	ck_status(renew(a), REDIS_ABSENT);
}
END_TEST

START_TEST(flushall_is_everything)
{
	arm();
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("OK", redis, "FLUSHALL");
	ck_hint(REDIS_HINT_ALL, NULL);
}
END_TEST

static bool is_empty(void *r)
{
	return strcmp(redis_say(r, "DBSIZE"), "0") == 0;
}

START_TEST(eviction)
{
	struct redis *r = redis_start("maxmemory-policy allkeys-random", false);
	struct peer *p = peer_at(r->uri);

	tracking_free(tracking);
	tracking = tracking_at(r->uri, p);
	ck_code(armed(p), 0);
	ck_hint(REDIS_HINT_ALL, NULL);
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_redis("OK", r, "CONFIG SET maxmemory 1");
	redis_say(r, "SET other x");
	ck_assert(await(is_empty, r));
	ck_contains(hints(r, p), "key:lock ");
	redis_stop(r);
}
END_TEST

START_TEST(own_changes_are_no_news)
{
	arm();
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(renew(a), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(release(a), REDIS_DONE);
	ck_assert_str_eq(hints(redis, a), "");
}
END_TEST

START_TEST(the_queue_is_watched_as_well)
{
	arm();
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_contains(hints(redis, a), "key:{lock}:q ");
	ck_status(renew(a), REDIS_DONE);
	ck_status(leave(b, "x"), REDIS_DONE);
	ck_contains(hints(redis, a), "key:{lock}:q ");
	/* Sent once: the next operation arms it again. */
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_str_eq(hints(redis, a), "notified:lock ");
}
END_TEST

START_TEST(a_message_of_another_host)
{
	arm();
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_status(release(b), REDIS_DONE);
	ck_contains(hints(redis, a), "notified:lock ");
	ck_status(acquire_x(a), REDIS_GRANTED);
}
END_TEST

START_TEST(the_second_connection_is_killed)
{
	arm();
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("1", redis, "CLIENT KILL TYPE pubsub");
	ck_hint(REDIS_HINT_ALL, NULL);
	ck_assert_int_eq(tracking_next(tracking, &key, &len), REDIS_HINT_NONE);
	arm();
	ck_status(renew(a), REDIS_DONE);
	ck_redis("1", redis, "DEL lock");
	ck_hint(REDIS_HINT_KEY, "lock");
}
END_TEST

START_TEST(the_first_connection_is_new)
{
	arm();
	redis_conn_close(a->conn);
	ck_status(acquire_x(a), REDIS_GRANTED);
	arm();
	/* Armed already: costs nothing, and no hint was missed. */
	ck_code(armed(a), 0);
	ck_assert_str_eq(hints(redis, a), "");
	ck_status(renew(a), REDIS_DONE);
	ck_redis("1", redis, "DEL lock");
	ck_hint(REDIS_HINT_KEY, "lock");
}
END_TEST

/* After silence a PING is sent; without a reply the connection is closed. */
START_TEST(a_silent_death)
{
	struct proxy *p = proxy_start(redis, false);
	int64_t now, silence = REDIS_MS(1000);
	struct redis_conn *c;

	tracking_free(tracking);
	tracking = tracking_at(p->uri, a);
	c = tracking_conn(tracking);
	arm();
	now = redis_now() + silence;
	ck_assert_int_gt(tracking_check(tracking, redis_now(), 1000 * silence), now);
	/* PING and its reply. */
	ck_assert_int_eq(tracking_check(tracking, now, silence), now + silence);
	ck_assert_str_eq(hints(redis, a), "");
	ck_assert_int_gt(tracking_check(tracking, redis_now(), 1000 * silence), now + silence);
	ck_assert(redis_conn_ready(c));

	proxy_set(p, PROXY_BLACKHOLE);
	now = redis_now() + silence;
	ck_assert_int_eq(tracking_check(tracking, now, silence), now + silence);
	ck_assert(redis_conn_ready(c));
	tracking_check(tracking, now + silence, silence);
	ck_assert(redis_conn_closed(c));
	ck_hint(REDIS_HINT_ALL, NULL);
	proxy_set(p, PROXY_PASS);
	arm();
}
END_TEST

START_TEST(no_right_to_tracking)
{
	char uri[200];

	ck_redis("OK", redis, "ACL SETUSER deaf reset on >pw ~* resetchannels +@all");
	snprintf(uri, sizeof(uri), "unix://deaf:pw@%s", redis->socket);
	tracking_free(tracking);
	tracking = tracking_at(uri, a);
	ck_code(armed(a), REDIS_REFUSED);
	/* The host's own channel only. */
	ck_redis("OK", redis, "ACL SETUSER deaf &lockshm:*");
	redis_conn_close(tracking_conn(tracking));
	ck_code(armed(a), REDIS_REFUSED);
	ck_hint(REDIS_HINT_ALL, NULL);
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_hint(REDIS_HINT_NOTIFIED, "lock");
	ck_redis("1", redis, "ACL DELUSER deaf");
}
END_TEST

static void peers(void)
{
	a = peer_new();
	b = peer_new();
	tracking = tracking_at(redis->uri, a);
}

static void end(void)
{
	tracking_free(tracking);
	peers_end();
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, peers, end);
	tcase_add_test(tc, a_foreign_unlock_is_a_hint);
	tcase_add_test(tc, theft_and_deletion_are_hints);
	tcase_add_test(tc, a_reader_gets_hints);
	tcase_add_test(tc, flushall_is_everything);
	tcase_add_test(tc, eviction);
	tcase_add_test(tc, own_changes_are_no_news);
	tcase_add_test(tc, the_queue_is_watched_as_well);
	tcase_add_test(tc, a_message_of_another_host);
	tcase_add_test(tc, the_second_connection_is_killed);
	tcase_add_test(tc, the_first_connection_is_new);
	tcase_add_test(tc, a_silent_death);
	tcase_add_test(tc, no_right_to_tracking);
}

int main(void)
{
	return redis_main("bridge-wake", add);
}
