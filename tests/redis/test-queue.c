/* SPDX-License-Identifier: MIT */
/* test-queue.c - order among hosts, intent keys of waiting writers, and notifications */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <stdlib.h>
#include <string.h>

static struct peer *a, *b, *c, *d;

#define ck_position(peer, want) ck_assert_int_eq((peer)->op.reply.position, want)

/* ---------------------------------------------------------------- writers */

START_TEST(first_come_first_served)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_position(b, 1);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_position(c, 2);
	/* A repeated call neither loses nor gains a position. */
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_position(b, 1);
	ck_status(release(a), REDIS_DONE);
	ck_assert_int_eq(a->op.reply.queued, 2);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_kind(c, REDIS_KIND_QUEUE);
	ck_assert_str_eq(c->op.reply.holder, b->host.id);
	/* The former holder queues after the waiters. */
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_position(a, 3);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert_int_eq(b->op.reply.queued, 2);
	ck_status(release(b), REDIS_DONE);
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_status(acquire_x(c), REDIS_GRANTED);
}
END_TEST

START_TEST(a_try_does_not_pass_the_queue)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(release(a), REDIS_DONE);
	ck_status(try_x(c), REDIS_BUSY);
	ck_kind(c, REDIS_KIND_QUEUE);
	ck_assert_int_eq(c->op.reply.queued, 1);
	ck_status(try_s(c), REDIS_BUSY);
	/* The first waiter may try. */
	ck_status(try_x(b), REDIS_GRANTED);
	ck_redis("0", redis, "EXISTS {lock}:q {lock}:qx");
}
END_TEST

START_TEST(barging_passes_it)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	c->args.flags = "b";
	ck_status(peer_do(c, REDIS_ACQUIRE_X), REDIS_QUEUED);
	ck_status(release(a), REDIS_DONE);
	ck_status(peer_do(c, REDIS_ACQUIRE_X), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_position(b, 1);
}
END_TEST

START_TEST(a_dead_head_is_left_out)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_status(acquire_x(d), REDIS_QUEUED);
	ck_position(d, 3);
	/* Their deadlines have passed. */
	ck_redis("0", redis, "ZADD {lock}:qx 1 X:%s 2 S:%s", b->host.id, c->host.id);
	/* All dead waiters at once. */
	ck_status(acquire_x(d), REDIS_QUEUED);
	ck_position(d, 1);
	ck_assert_int_eq(d->op.reply.queued, 1);
	ck_redis("1", redis, "ZCARD {lock}:qx");
}
END_TEST

START_TEST(a_waiter_without_calls_is_dead)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	b->args.waiter_ttl_ms = 5;
	ck_status(acquire_x(b), REDIS_QUEUED);
	let_pass(5);
	ck_status(release(a), REDIS_DONE);
	ck_assert_int_eq(a->op.reply.queued, 0);
	ck_status(try_x(c), REDIS_GRANTED);
}
END_TEST

START_TEST(repeated_calls_keep_a_waiter_alive)
{
	long long first;

	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	first = atoll(redis_say(redis, "ZSCORE {lock}:qx X:%s", b->host.id));
	ck_assert_int_eq(first, reply_ms(b) + LONG_MS);
	let_pass(2);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_int_gt(atoll(redis_say(redis, "ZSCORE {lock}:qx X:%s", b->host.id)), first);
}
END_TEST

START_TEST(leaving_makes_room)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(acquire_s(b), REDIS_QUEUED);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_position(c, 3);
	ck_status(leave(b, "s"), REDIS_DONE);
	ck_assert_int_eq(b->op.reply.queued, 2);
	ck_status(leave(b, "xs"), REDIS_DONE);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_position(c, 1);
	/* A host that is not in the queue. */
	ck_status(leave(d, "xs"), REDIS_DONE);
}
END_TEST

/* A waiter with nothing but a ticket cannot be told from a dead one. */
START_TEST(lost_deadlines_do_not_block)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_redis("1", redis, "DEL {lock}:qx");
	ck_status(release(a), REDIS_DONE);
	ck_status(try_x(c), REDIS_GRANTED);
}
END_TEST

START_TEST(a_lost_queue_loses_order_only)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_redis("2", redis, "DEL {lock}:q {lock}:qx");
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_position(c, 1);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_position(b, 2);
}
END_TEST

/* The server's clock went back: tickets still rise. */
START_TEST(tickets_rise_without_the_clock)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_redis("0", redis, "ZADD {lock}:q 4000000000000000 X:%s", b->host.id);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_position(c, 2);
	ck_redis("4000000000000001", redis, "ZSCORE {lock}:q X:%s", c->host.id);
}
END_TEST

START_TEST(the_queue_itself_ends)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	b->args.waiter_ttl_ms = 100;
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL {lock}:q")), 40000);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL {lock}:qx")), 40000);
}
END_TEST

/* ---------------------------------------------------------------- readers in the queue */

START_TEST(a_reader_waits_behind_an_earlier_writer)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_position(c, 2);
	ck_status(try_s(d), REDIS_BUSY);
	ck_status(release(a), REDIS_DONE);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_kind(c, REDIS_KIND_INTENT);
	/* Without the intent key the ticket decides. */
	ck_redis("1", redis, "DEL lock:lock-intent");
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_kind(c, REDIS_KIND_QUEUE);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_status(release(b), REDIS_DONE);
	ck_status(acquire_s(c), REDIS_GRANTED);
}
END_TEST

START_TEST(an_earlier_reader_goes_before_the_writer)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_QUEUED);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_status(acquire_s(d), REDIS_QUEUED);
	ck_status(release(a), REDIS_DONE);
	ck_status(acquire_s(d), REDIS_QUEUED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(acquire_s(d), REDIS_QUEUED);
	ck_status(release(b), REDIS_DONE);
	ck_status(acquire_x(c), REDIS_GRANTED);
}
END_TEST

/* ---------------------------------------------------------------- the intent key of a waiting writer */

START_TEST(the_first_writer_marks)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_redis(b->host.id, redis, "GET lock:lock-intent");
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock:lock-intent")), LONG_MS - 20000);
	ck_status(renew(a), REDIS_DONE);
	ck_assert(a->op.reply.intent);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_redis(b->host.id, redis, "GET lock:lock-intent");
	/* A foreign writer that succeeds deletes any intent key: the next call writes it again. */
	ck_redis("1", redis, "DEL lock:lock-intent");
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_redis("0", redis, "EXISTS lock:lock-intent");
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_redis(b->host.id, redis, "GET lock:lock-intent");
	ck_status(release(a), REDIS_DONE);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_redis("0", redis, "EXISTS lock:lock-intent");
}
END_TEST

START_TEST(no_mark_against_a_writer_or_by_a_try)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_redis("0", redis, "EXISTS lock:lock-intent");
	ck_status(release(a), REDIS_DONE);
	ck_status(leave(b, "x"), REDIS_DONE);
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(try_x(b), REDIS_BUSY);
	ck_redis("0", redis, "EXISTS lock:lock-intent");
}
END_TEST

START_TEST(marks_of_others_are_honoured_and_kept)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("OK", redis, "SET lock:lock-intent 1 PX 50000");
	ck_status(try_s(b), REDIS_BUSY);
	ck_kind(b, REDIS_KIND_INTENT);
	ck_assert_int_gt(b->op.reply.left_ms, 0);
	ck_assert_str_eq(b->op.reply.holder, "1");
	ck_status(acquire_s(b), REDIS_QUEUED);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_redis("1", redis, "GET lock:lock-intent");
	ck_status(leave(c, "x"), REDIS_DONE);
	ck_redis("1", redis, "GET lock:lock-intent");
	ck_status(leave(b, "s"), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
	/* The intent key stops readers, not writers. */
	ck_status(try_x(c), REDIS_GRANTED);
	ck_redis("1", redis, "GET lock:lock-intent");
}
END_TEST

START_TEST(leaving_takes_the_own_mark_along)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(leave(b, "s"), REDIS_DONE);
	ck_redis("1", redis, "EXISTS lock:lock-intent");
	ck_status(leave(b, "x"), REDIS_DONE);
	ck_redis("0", redis, "EXISTS lock:lock-intent");
	ck_status(acquire_s(c), REDIS_GRANTED);
}
END_TEST

/* ---------------------------------------------------------------- a server whose clock went back */

START_TEST(a_lock_never_lasts_longer_than_its_ttl)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("1", redis, "PEXPIRE lock 7200000");
	ck_status(try_x(b), REDIS_BUSY);
	ck_assert_int_eq(b->op.reply.left_ms, LONG_MS);
	ck_assert_int_le(atoi(redis_say(redis, "PTTL lock")), LONG_MS);
	ck_redis("1", redis, "PERSIST lock");
	ck_status(try_s(b), REDIS_BUSY);
	ck_assert_int_le(atoi(redis_say(redis, "PTTL lock")), LONG_MS);
	/* A longer lease is left alone. */
	a->args.ttl_ms = 2 * LONG_MS;
	ck_status(renew(a), REDIS_DONE);
	ck_status(try_x(b), REDIS_BUSY);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), LONG_MS);
}
END_TEST

START_TEST(locks_of_others_are_not_cut)
{
	ck_redis("OK", redis, "SET lock theirs PX 7200000");
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_kind(b, REDIS_KIND_FOREIGN);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), 7000000);
	ck_redis("1", redis, "PERSIST lock");
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_int_eq(b->op.reply.left_ms, -1);
	ck_redis("-1", redis, "PTTL lock");
}
END_TEST

/* The record of the readers' ttl may be evicted: then at least what they have counts. */
START_TEST(a_lost_record_cuts_no_reader)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("1", redis, "DEL {lock}:f");
	b->args.ttl_ms = 1000;
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(renew(b), REDIS_DONE);
	ck_status(try_x(c), REDIS_BUSY);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), LONG_MS / 2);
	ck_redis("1", redis, "PEXPIRE lock 1000");
	ck_status(renew(a), REDIS_DONE);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), LONG_MS / 2);
}
END_TEST

/* ---------------------------------------------------------------- notifications */

static struct redis_conn *listener;

static struct redis_reply *heard(void)
{
	struct redis_reply *r;

	while (!(r = redis_conn_take(listener))) {
		ck_assert_msg(!redis_conn_closed(listener), "%s", redis_conn_error(listener)->text);
		redis_conns_poll(&listener, 1, soon());
	}
	return r;
}

static void say(const char *command, const char *host)
{
	const char *argv[] = { command, NULL };
	char channel[64];

	snprintf(channel, sizeof(channel), "lockshm:%s", host);
	argv[1] = channel;
	ck_code(redis_conn_send(listener, soon(), 2, argv, NULL), 0);
}

/* Subscribes to this host's channel. */
static void listen_for(const struct peer *p)
{
	struct redis_conn_options options = { .subscriber = true };

	listener = conn_to(redis->uri, &options);
	ck_code(redis_conn_wait_ready(listener, soon()), 0);
	say("SUBSCRIBE", p->host.id);
	redis_reply_free(heard());
}

/* Messages received so far; each must be about the lock. */
static int notified(void)
{
	struct redis_reply *r;
	int n = 0;

	/* The reply to PING comes after them. */
	say("PING", "");
	while (redis_reply_equals(redis_reply_at(r = heard(), 0), "message")) {
		ck_assert(redis_reply_equals(redis_reply_at(r, 2), "lock"));
		redis_reply_free(r);
		n++;
	}
	redis_reply_free(r);
	return n;
}

START_TEST(the_holder_is_notified_of_a_waiter)
{
	listen_for(a);
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert_int_eq(notified(), 0);
	ck_status(try_x(b), REDIS_BUSY);
	ck_assert_int_eq(notified(), 0);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_int_eq(notified(), 1);
	/* Notified once: the renewals of the holder find the waiter, too. */
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_int_eq(notified(), 0);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_assert_int_eq(notified(), 1);
	redis_conn_free(listener);
}
END_TEST

START_TEST(readers_are_notified_of_a_writer)
{
	listen_for(b);
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_assert_int_eq(notified(), 1);
	redis_conn_free(listener);
}
END_TEST

START_TEST(the_next_is_notified_of_a_release)
{
	listen_for(b);
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_assert_int_eq(notified(), 0);
	ck_status(release(a), REDIS_DONE);
	ck_assert_int_eq(notified(), 1);
	/*
	 * Notified again by any host that finds the lock free and another host first: the message may have been lost.
	 */
	ck_status(acquire_x(c), REDIS_QUEUED);
	ck_assert_int_eq(notified(), 1);
	redis_conn_free(listener);
}
END_TEST

START_TEST(the_next_is_notified_of_a_leave)
{
	listen_for(c);
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_status(leave(b, "x"), REDIS_DONE);
	ck_assert_int_eq(notified(), 1);
	ck_status(acquire_s(c), REDIS_GRANTED);
	redis_conn_free(listener);
}
END_TEST

START_TEST(readers_notify_each_other)
{
	listen_for(c);
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_QUEUED);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_status(release(a), REDIS_DONE);
	ck_assert_int_eq(notified(), 0);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_assert_int_eq(notified(), 1);
	ck_status(acquire_s(c), REDIS_GRANTED);
	redis_conn_free(listener);
}
END_TEST

static void peers(void)
{
	a = peer_new();
	b = peer_new();
	c = peer_new();
	d = peer_new();
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, peers, peers_end);
	tcase_add_test(tc, first_come_first_served);
	tcase_add_test(tc, a_try_does_not_pass_the_queue);
	tcase_add_test(tc, barging_passes_it);
	tcase_add_test(tc, a_dead_head_is_left_out);
	tcase_add_test(tc, a_waiter_without_calls_is_dead);
	tcase_add_test(tc, repeated_calls_keep_a_waiter_alive);
	tcase_add_test(tc, leaving_makes_room);
	tcase_add_test(tc, lost_deadlines_do_not_block);
	tcase_add_test(tc, a_lost_queue_loses_order_only);
	tcase_add_test(tc, tickets_rise_without_the_clock);
	tcase_add_test(tc, the_queue_itself_ends);
	tcase_add_test(tc, a_reader_waits_behind_an_earlier_writer);
	tcase_add_test(tc, an_earlier_reader_goes_before_the_writer);
	tcase_add_test(tc, the_first_writer_marks);
	tcase_add_test(tc, no_mark_against_a_writer_or_by_a_try);
	tcase_add_test(tc, marks_of_others_are_honoured_and_kept);
	tcase_add_test(tc, leaving_takes_the_own_mark_along);
	tcase_add_test(tc, a_lock_never_lasts_longer_than_its_ttl);
	tcase_add_test(tc, locks_of_others_are_not_cut);
	tcase_add_test(tc, a_lost_record_cuts_no_reader);
	tcase_add_test(tc, the_holder_is_notified_of_a_waiter);
	tcase_add_test(tc, readers_are_notified_of_a_writer);
	tcase_add_test(tc, the_next_is_notified_of_a_release);
	tcase_add_test(tc, the_next_is_notified_of_a_leave);
	tcase_add_test(tc, readers_notify_each_other);
}

int main(void)
{
	return redis_main("bridge-queue", add);
}
