/* SPDX-License-Identifier: MIT */
/* test-conn.c - commands to real servers: deadlines, network faults */
#define _GNU_SOURCE
#include "support/asan.h"
#include "redis-support/redis.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A deadline that passes without a reply. */
#define SHORT REDIS_MS(100)

static struct redis_reply *reply;

static const char *why(struct redis_conn *c)
{
	return redis_conn_error(c)->text;
}

/* Sends one command without waiting for its reply. */
static void send_line(struct redis_conn *c, const char *line)
{
	char copy[256], *save = NULL, *word;
	const char *argv[16];
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	ck_code(redis_conn_send(c, soon(), argc, argv, NULL), 0);
}

static struct redis_reply *wait_reply(struct redis_conn *c)
{
	struct redis_reply *r;

	while (!(r = redis_conn_take(c))) {
		ck_assert_msg(!redis_conn_closed(c), "%s", why(c));
		redis_conns_poll(&c, 1, soon());
	}
	return r;
}

/* ---------------------------------------------------------------- commands */

START_TEST(binary_and_large)
{
	static char big[1000000];
	struct redis_conn *c = conn_to(redis->uri, NULL);
	const char *set[] = { "SET", "k\0k", big }, *get[] = { "GET", "k\0k" };
	size_t lens[] = { 3, 3, sizeof(big) }, len;
	const char *got;

	memset(big, 'x', sizeof(big));
	big[12345] = '\0';
	ck_code(redis_conn_call(c, soon(), &reply, 3, set, lens), 0);
	redis_reply_free(reply);
	ck_code(redis_conn_call(c, soon(), &reply, 2, get, lens), 0);
	got = redis_reply_text(reply, &len);
	ck_assert_uint_eq(len, sizeof(big));
	ck_assert(memcmp(got, big, len) == 0);
	redis_reply_free(reply);
	redis_conn_free(c);
}
END_TEST

START_TEST(pipeline_keeps_the_order)
{
	struct redis_conn *c = conn_to(redis->tcp_uri, NULL);
	char line[64];
	int i;

	call(c, "PING");
	for (i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "ECHO %d", i);
		send_line(c, line);
	}
	for (i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "%d", i);
		reply = wait_reply(c);
		ck_assert(redis_reply_equals(reply, line));
		redis_reply_free(reply);
	}
	redis_conn_free(c);
}
END_TEST

START_TEST(error_replies_keep_the_connection)
{
	struct redis_conn *c = conn_to(redis->uri, NULL);

	call(c, "HSET h f v");
	ck_contains(call(c, "GET h"), "WRONGTYPE");
	ck_code(redis_conn_error(c)->code, REDIS_NOT_A_LOCK);
	ck_contains(call(c, "NONSENSE"), "unknown command");
	ck_assert_str_eq(call(c, "PING"), "PONG");
	ck_assert_uint_eq(redis_conn_generation(c), 1);
	redis_conn_free(c);
}
END_TEST

START_TEST(shapes_of_replies)
{
	struct redis_conn *c = conn_to(redis->uri, NULL);

	ck_assert_str_eq(call(c, "GET none"), "(nil)");
	ck_assert_str_eq(call(c, "RPUSH l a b"), "2");
	ck_assert_str_eq(call(c, "LRANGE l 0 -1"), "[a b]");
	ck_assert_str_eq(call(c, "LRANGE l 5 6"), "[]");
	ck_assert_str_eq(call(c, "EVAL return{1,{2,{'x'}}} 0"), "[1 [2 [x]]]");
	redis_conn_free(c);
}
END_TEST

START_TEST(many_at_once)
{
	struct redis_conn *conns[5];
	int i, left = 5;

	for (i = 0; i < 5; i++) {
		conns[i] = conn_to(i % 2 ? redis->uri : redis->tcp_uri, NULL);
		ck_code(redis_conn_open(conns[i], soon()), 0);
	}
	while (left) {
		redis_conns_poll(conns, 5, soon());
		for (i = left = 0; i < 5; i++) {
			ck_assert_msg(!redis_conn_closed(conns[i]), "%s", why(conns[i]));
			left += !redis_conn_ready(conns[i]);
		}
	}
	for (i = 0; i < 5; i++)
		send_line(conns[i], "INCR n");
	for (i = 0; i < 5; i++) {
		reply = wait_reply(conns[i]);
		redis_reply_free(reply);
		redis_conn_free(conns[i]);
	}
	ck_redis("5", redis, "GET n");
}
END_TEST

#ifndef OTHERS_MALLOC
static bool no_memory;

void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
	return no_memory ? NULL : __libc_malloc(size);
}

/* A reply for which there is no memory is not a protocol error. */
START_TEST(no_memory_for_an_answer)
{
	struct redis_conn *c = conn_to(redis->uri, NULL);

	ck_assert_str_eq(call(c, "PING"), "PONG");
	send_line(c, "ECHO hello");
	no_memory = true;
	for (reply = NULL; !reply && !redis_conn_closed(c); reply = redis_conn_take(c))
		redis_conns_poll(&c, 1, soon());
	no_memory = false;
	ck_assert_ptr_null(reply);
	ck_code(redis_conn_error(c)->code, REDIS_NO_MEMORY);
	ck_assert_str_eq(call(c, "ECHO again"), "again");
	redis_conn_free(c);
}
END_TEST
#define add_without_memory(tc) tcase_add_test(tc, no_memory_for_an_answer)
#else
#define add_without_memory(tc) (void)(tc)
#endif

/* ---------------------------------------------------------------- network faults */

START_TEST(bytes_one_by_one)
{
	struct proxy *p = proxy_start(redis, true);
	struct redis_conn *c = conn_to(p->uri, NULL);

	proxy_set(p, PROXY_SLICE);
	ck_assert_str_eq(call(c, "SET a hello"), "OK");
	ck_assert_str_eq(call(c, "GET a"), "hello");
	redis_conn_free(c);
}
END_TEST

/* Executed, but the reply was lost: the outcome is unknown, and the connection is closed. */
START_TEST(a_lost_reply)
{
	struct proxy *p = proxy_start(redis, false);
	struct redis_conn *c = conn_to(p->uri, NULL);

	call(c, "PING");
	proxy_set(p, PROXY_DROP_REPLIES);
	ck_code(try_call(c, SHORT, "FLUSHALL"), REDIS_UNKNOWN);
	ck_contains(why(c), "no reply in time");
	ck_assert(redis_conn_closed(c));
	ck_assert_int_eq(redis_conn_fd(c), -1);
	proxy_set(p, PROXY_PASS);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}
END_TEST

/* A reply after the deadline is never taken for that of a later command. */
START_TEST(a_late_reply_meets_nobody)
{
	struct proxy *p = proxy_start(redis, false);
	struct redis_conn *c = conn_to(p->uri, NULL);
	const char *argv[] = { "ECHO", "old" };
	uint64_t generation;

	call(c, "PING");
	generation = redis_conn_generation(c);
	proxy_set(p, PROXY_HOLD_REPLIES);
	ck_code(redis_conn_call(c, redis_now() + SHORT, &reply, 2, argv, NULL), REDIS_UNKNOWN);
	proxy_set(p, PROXY_PASS);
	ck_assert_str_eq(call(c, "ECHO new"), "new");
	ck_assert_uint_eq(redis_conn_generation(c), generation + 1);
	redis_conn_free(c);
}
END_TEST

START_TEST(a_blackhole)
{
	struct proxy *p = proxy_start(redis, true);
	struct redis_conn *c = conn_to(p->uri, NULL);
	int64_t began;

	proxy_set(p, PROXY_BLACKHOLE);
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNREACHABLE);
	proxy_set(p, PROXY_PASS);
	call(c, "PING");
	proxy_set(p, PROXY_BLACKHOLE);
	began = redis_now();
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNKNOWN);
	ck_assert_int_ge(redis_now() - began, SHORT);
	redis_conn_free(c);
}
END_TEST

/* The command never arrives. */
START_TEST(commands_are_lost)
{
	struct proxy *p = proxy_start(redis, false);
	struct redis_conn *c = conn_to(p->uri, NULL);

	redis_say(redis, "SET a 1");
	call(c, "PING");
	proxy_set(p, PROXY_DROP_REQUESTS);
	ck_code(try_call(c, SHORT, "FLUSHALL"), REDIS_UNKNOWN);
	ck_redis("1", redis, "GET a");
	redis_conn_free(c);
}
END_TEST

/* Of the proxy: after lost bytes the stream does not go on, or a later reply would be taken for this one. */
START_TEST(a_stream_has_no_gap)
{
	struct proxy *p = proxy_start(redis, false);
	struct redis_conn *c = conn_to(p->uri, NULL);

	call(c, "PING");
	proxy_set(p, PROXY_DROP_REQUESTS);
	send_line(c, "ECHO lost");
	(void)redis_conn_pump(c);
	proxy_set(p, PROXY_PASS);
	while (!redis_conn_closed(c)) {
		ck_assert_ptr_null(redis_conn_take(c));
		redis_conns_poll(&c, 1, soon());
	}
	ck_assert_msg(!strstr(why(c), "no reply in time"), "%s", why(c));
	ck_assert_str_eq(call(c, "ECHO new"), "new");
	redis_conn_free(c);
}
END_TEST

START_TEST(a_reset_between_commands)
{
	struct proxy *p = proxy_start(redis, true);
	struct redis_conn *c = conn_to(p->uri, NULL);

	call(c, "PING");
	proxy_set(p, PROXY_RESET);
	/* Noticed before the command was sent: it was not executed. */
	redis_conns_poll(&c, 1, soon());
	ck_assert(redis_conn_closed(c));
	ck_code(redis_conn_error(c)->code, REDIS_UNREACHABLE);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}
END_TEST

/* Also shows that writing raises no signal: SIGPIPE is deadly in this suite. */
START_TEST(a_reset_with_a_command_sent)
{
	struct proxy *p = proxy_start(redis, true);
	struct redis_conn *c = conn_to(p->uri, NULL);
	const char *argv[] = { "PING" };

	call(c, "PING");
	proxy_set(p, PROXY_HOLD_REPLIES);
	ck_code(redis_conn_send(c, soon(), 1, argv, NULL), 0);
	redis_conn_pump(c);
	proxy_set(p, PROXY_RESET);
	ck_code(redis_conn_send(c, soon(), 1, argv, NULL), 0);
	while (!redis_conn_closed(c)) {
		redis_conn_pump(c);
		ck_assert_ptr_null(redis_conn_take(c));
	}
	ck_code(redis_conn_error(c)->code, REDIS_UNKNOWN);
	redis_conn_free(c);
}
END_TEST

START_TEST(half_open)
{
	struct proxy *p = proxy_start(redis, true);
	struct redis_conn *c = conn_to(p->uri, NULL);

	call(c, "PING");
	proxy_set(p, PROXY_HALF_OPEN);
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNKNOWN);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}
END_TEST

START_TEST(refused_for_a_while)
{
	struct proxy *p = proxy_start(redis, true);
	struct redis_conn *c = conn_to(p->uri, NULL);

	proxy_set(p, PROXY_REFUSE);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_UNREACHABLE);
	proxy_set(p, PROXY_PASS);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}
END_TEST

/* A signal does not restart the timeout. */
static void on_alarm(int sig)
{
	(void)sig;
}

START_TEST(signals_do_not_prolong_a_deadline)
{
	struct proxy *p = proxy_start(redis, false);
	struct redis_conn *c = conn_to(p->uri, NULL);
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };
	int code;

	call(c, "PING");
	proxy_set(p, PROXY_BLACKHOLE);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	code = try_call(c, 2 * SHORT, "PING");
	setitimer(ITIMER_REAL, &never, NULL);
	ck_code(code, REDIS_UNKNOWN);
	redis_conn_free(c);
}
END_TEST

/* ---------------------------------------------------------------- the server dies, restarts, is busy */

START_TEST(killed_and_started_again)
{
	struct redis *r = redis_start(NULL, true);
	struct redis_conn *c = conn_to(r->tcp_uri, NULL);
	char run_id[41];

	call(c, "SET a 1");
	strcpy(run_id, redis_conn_info(c)->run_id);
	redis_kill(r);
	redis_conns_poll(&c, 1, soon());
	ck_code(redis_conn_error(c)->code, REDIS_UNREACHABLE);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_UNREACHABLE);
	redis_restart(r);
	ck_assert_str_eq(call(c, "GET a"), "(nil)");
	ck_assert_str_ne(redis_conn_info(c)->run_id, run_id);
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

START_TEST(busy_with_an_endless_script)
{
	struct redis *r = redis_start("busy-reply-threshold 1", true);
	struct redis_conn *c = conn_to(r->uri, NULL), *d = conn_to(r->uri, NULL);
	const char *argv[] = { "EVAL", "while true do end", "0" };
	int code;

	call(c, "PING");
	call(d, "PING");
	ck_code(redis_conn_send(d, soon(), 3, argv, NULL), 0);
	ck_code(redis_conn_pump(d), 0);
	/* The server may take a moment to begin. */
	do
		code = try_call(c, PATIENCE, "PING");
	while (code == 0);
	ck_code(code, REDIS_RETRY);
	ck_contains(why(c), "BUSY");
	ck_assert_str_eq(call(c, "SCRIPT KILL"), "OK");
	redis_conn_free(c);
	redis_conn_free(d);
	redis_stop(r);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, binary_and_large);
	tcase_add_test(tc, pipeline_keeps_the_order);
	tcase_add_test(tc, error_replies_keep_the_connection);
	tcase_add_test(tc, shapes_of_replies);
	tcase_add_test(tc, many_at_once);
	add_without_memory(tc);
	tcase_add_test(tc, bytes_one_by_one);
	tcase_add_test(tc, a_lost_reply);
	tcase_add_test(tc, a_late_reply_meets_nobody);
	tcase_add_test(tc, a_blackhole);
	tcase_add_test(tc, commands_are_lost);
	tcase_add_test(tc, a_stream_has_no_gap);
	tcase_add_test(tc, a_reset_between_commands);
	tcase_add_test(tc, a_reset_with_a_command_sent);
	tcase_add_test(tc, half_open);
	tcase_add_test(tc, refused_for_a_while);
	tcase_add_test(tc, signals_do_not_prolong_a_deadline);
	tcase_add_test(tc, killed_and_started_again);
	tcase_add_test(tc, busy_with_an_endless_script);
}

int main(void)
{
	return redis_main("bridge-conn", add);
}
