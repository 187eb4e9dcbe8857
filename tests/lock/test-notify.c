/* SPDX-License-Identifier: MIT */
/*
 * test-notify.c - a descriptor that is written to when a hold is lost
 *
 * Each loss is notified once, to its holder only.  The delay is printed; the test only asserts that it is not a poll
 * interval.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/agent.h"
#include "support/fixture.h"

#define SHORT LOCKSHM_MS(20)
#define SOON LOCKSHM_MS(800) /* the service thread would look by itself after a second */

static struct agent *a, *b;

static int leased(struct agent *agent, int64_t ttl, unsigned flags)
{
	return agent_do(agent, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .ns = ttl,
						      .flags = flags });
}

static void await_notice(struct agent *agent)
{
	agent_send(agent, (struct agent_command){ .op = AGENT_NOTICE });
}

/* How many notices are there by now? */
static int notices(struct agent *agent)
{
	int n = agent_do(agent, (struct agent_command){ .op = AGENT_NOTICE, .timeout_ns = AGENT_TRY });

	return n == LOCKSHM_TIMEOUT ? 0 : n;
}

/* One notice, which came in time. */
static void was_notified(struct agent *agent, int64_t since, const char *what)
{
	ck_assert_int_eq(agent_end(agent), 1);
	printf("%s: notified after %.3f ms\n", what, (double)(agent->answer.at_ns - since) / 1e6);
	ck_assert_int_lt(agent->answer.at_ns - since, SOON);
	ck_code(agent_call(agent, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_int_eq(notices(agent), 0);
}

static void cast(void)
{
	a = agent_start();
	b = agent_start();
}

static void watched(int64_t ttl, unsigned flags)
{
	cast();
	ck_code(leased(a, ttl, flags), 0);
	ck_assert_int_ge(agent_call(a, AGENT_NOTIFY), 0);
	await_notice(a);
}

/* ---------------------------------------------------------------- lost */

START_TEST(an_overrun_lease)
{
	watched(SHORT, 0);
	ck_code(leased(b, 0, 0), LOCKSHM_TOOK_OVER_EXPIRED);
	was_notified(a, b->answer.at_ns, "overrun");
	ck_code(agent_release(a), LOCKSHM_LOST);
	verify_clean();
}
END_TEST

START_TEST(ended_by_an_operator)
{
	int64_t ended;

	watched(0, 0);
	ended = now_ns();
	ck_code(lockshm_end_hold(seg, "k", 1, a->answer.token), 0);
	was_notified(a, ended, "operator");
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

/* Renewed by the service thread as well; stopped for too long. */
START_TEST(stopped_beyond_a_renewed_lease)
{
	int64_t woken;

	watched(LOCKSHM_AUTO_RENEW_TTL_MIN, LOCKSHM_AUTO_RENEW);
	agent_stop(a);
	ck_code(leased(b, 0, 0), LOCKSHM_TOOK_OVER_EXPIRED);
	woken = now_ns();
	agent_cont(a);
	was_notified(a, woken, "stopped");
	ck_code(agent_release(a), LOCKSHM_LOST);
	verify_clean();
}
END_TEST

/* The expirer was killed before it could kick the service thread. */
START_TEST(killed_before_it_could_kick)
{
	uint32_t i;

	watched(0, 0);
	for (i = 1; i <= seg->n_requests; i++) {
		uint64_t w = load_acquire(&seg->requests[i].word);

		if (word_is(w, REQUEST_ENTERED))
			ck_assert(cas_from(&seg->requests[i].word, w, word_with_state(w, REQUEST_EXPIRED)));
	}
	ck_assert_int_eq(agent_end(a), 1);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
}
END_TEST

START_TEST(lost_before_it_was_asked_for)
{
	cast();
	ck_code(leased(a, SHORT, 0), 0);
	ck_code(leased(b, 0, 0), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_call(a, AGENT_NOTIFY), LOCKSHM_LOST);
	ck_assert_int_eq(notices(a), 0);
	ck_code(agent_release(a), LOCKSHM_LOST);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- not lost */

START_TEST(late_is_not_lost)
{
	watched(SHORT, 0);
	pass(a->answer.at_ns + 3 * SHORT);
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	ck_code(leased(b, 0, 0), LOCKSHM_TOOK_OVER_EXPIRED);
	was_notified(a, b->answer.at_ns, "late, then lost");
}
END_TEST

static int take_again(int64_t ttl)
{
	return leased(a, ttl, 0);
}

START_TEST(a_release_notifies_no_one)
{
	cast();
	ck_code(take_again(0), 0);
	ck_code(agent_call(a, AGENT_NOTIFY), 0);
	ck_code(agent_release(a), 0);
	/* The same record, no longer watched: its loss is not notified. */
	ck_code(take_again(SHORT), 0);
	ck_code(leased(b, 0, 0), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(agent_release(b), 0);
	/* The service thread notifies in the order of events. */
	ck_assert_int_ge(take_again(SHORT), 0);
	ck_assert_int_ge(agent_call(a, AGENT_NOTIFY), 0);
	await_notice(a);
	ck_assert_int_ge(leased(b, 0, 0), 0);
	ck_assert_int_eq(agent_end(a), 1);
}
END_TEST

static int renew(struct agent *agent, int64_t ns)
{
	return agent_do(agent, (struct agent_command){ .op = AGENT_RENEW, .ns = ns });
}

static int extend(struct agent *agent, int64_t ns)
{
	return agent_do(agent, (struct agent_command){ .op = AGENT_EXTEND, .ns = ns });
}

START_TEST(renewed_moved_changed)
{
	struct agent *t;

	cast();
	ck_code(leased(a, LOCKSHM_SECONDS(10), 0), 0);
	ck_code(agent_call(a, AGENT_NOTIFY), 0);
	ck_code(renew(a, LOCKSHM_SECONDS(30)), 0);
	ck_code(extend(a, LOCKSHM_SECONDS(1)), 0);
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	ck_code(agent_call(a, AGENT_UPGRADE), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_PROCESS }), 0);
	t = agent_thread(a);
	ck_code(agent_do(t, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_CALLER }), 0);
	/* Still watched, and not renewed by another thread. */
	ck_code(renew(t, SHORT), 0);
	ck_assert_int_eq(notices(t), 0);
	await_notice(t);
	ck_code(leased(b, 0, 0), LOCKSHM_TOOK_OVER_EXPIRED);
	was_notified(t, b->answer.at_ns, "after a move");
	ck_code(agent_release(t), LOCKSHM_LOST);
	ck_code(agent_release(b), 0);
	verify_clean();
}
END_TEST

START_TEST(not_any_more)
{
	cast();
	ck_code(leased(a, LOCKSHM_SECONDS(10), LOCKSHM_AUTO_RENEW), 0);
	ck_code(agent_call(a, AGENT_NOTIFY), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_NOTIFY, .how = -1 }), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_NOTIFY, .how = -1 }), 0);
	ck_code(lockshm_end_hold(seg, "k", 1, a->answer.token), 0);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	/* In this order: a notice of the first would have come before that of the second. */
	ck_assert_int_ge(leased(a, 0, 0), 0);
	ck_assert_int_ge(agent_call(a, AGENT_NOTIFY), 0);
	await_notice(a);
	ck_code(lockshm_end_hold(seg, "k", 1, a->answer.token), 0);
	ck_assert_int_eq(agent_end(a), 1);
}
END_TEST

/* ---------------------------------------------------------------- descriptors */

static lockshm_hold_t holds[100];

static struct lockshm_request key_number(int i, char key[16])
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;

	snprintf(key, 16, "key%d", i);
	q.key = key;
	q.key_len = strlen(key);
	q.ttl_ns = LOCKSHM_FOREVER;
	q.timeout_ns = 0;
	return q;
}

static int new_eventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static bool readable(int fd, int64_t timeout_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, (int)(timeout_ns / LOCKSHM_MS(1))) == 1;
}

static uint64_t count_of(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static int wanted;
static uint64_t counted;

static bool all_counted(void *arg)
{
	counted += count_of(*(int *)arg);
	return counted == (uint64_t)wanted;
}

/* More than the kernel can watch at a time, one descriptor for all. */
START_TEST(many_holds)
{
	int i, fd = new_eventfd();
	char key[16];

	for (i = 0; i < 100; i++) {
		struct lockshm_request q = key_number(i, key);

		ck_code(lockshm_acquire(seg, &q, &holds[i]), 0);
		ck_code(lockshm_notify(&holds[i], fd), 0);
	}
	for (i = 99; i >= 0; i -= 11) {
		(void)key_number(i, key);
		ck_code(lockshm_end_hold(seg, key, strlen(key), lockshm_token(&holds[i])), 0);
		wanted++;
		ck_assert(await(all_counted, &fd));
		ck_code(lockshm_check(&holds[i], NULL), LOCKSHM_LOST);
	}
	for (i = 0; i < 100; i++)
		ck_code(lockshm_release(&holds[i], 0), i % 11 == 0 ? LOCKSHM_LOST : 0);
	ck_assert_uint_eq(count_of(fd), 0);
	verify_clean();
	close(fd);
}
END_TEST

/* The number may name another file by then. */
START_TEST(a_descriptor_that_was_closed)
{
	int fd = new_eventfd(), kept = fcntl(fd, F_DUPFD_CLOEXEC, 0), other;

	ck_code(take(&holds[0], "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_notify(&holds[0], fd), 0);
	close(fd);
	other = new_eventfd();
	ck_assert_int_eq(other, fd);
	ck_code(lockshm_end_hold(seg, "k", 1, lockshm_token(&holds[0])), 0);
	ck_assert(readable(kept, PATIENCE));
	ck_assert_uint_eq(count_of(other), 0);
	ck_code(lockshm_release(&holds[0], 0), LOCKSHM_LOST);
}
END_TEST

static int open_descriptors(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

START_TEST(nothing_is_leaked)
{
	int before, i, fd = new_eventfd(), other = new_eventfd();

	ck_code(take(&holds[0], "k", LOCKSHM_EXCLUSIVE), 0);
	before = open_descriptors();
	ck_code(lockshm_notify(&holds[0], fd), 0);
	ck_code(lockshm_notify(&holds[0], other), 0);
	ck_assert_int_eq(open_descriptors(), before + 2);
	ck_code(lockshm_notify(&holds[0], -1), 0);
	ck_assert_int_eq(open_descriptors(), before);
	ck_code(lockshm_release(&holds[0], 0), 0);
	for (i = 0; i < 3; i++) {
		ck_assert_int_ge(take(&holds[0], "k", LOCKSHM_EXCLUSIVE), 0);
		ck_assert_int_ge(lockshm_notify(&holds[0], fd), 0);
		if (i == 1)
			ck_code(lockshm_end_hold(seg, "k", 1, lockshm_token(&holds[0])), 0);
		ck_code(lockshm_release(&holds[0], 0), i == 1 ? LOCKSHM_LOST : 0);
		ck_assert_int_eq(open_descriptors(), before);
	}
	ck_assert_int_ge(take(&holds[0], "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(lockshm_notify(&holds[0], fd), 0);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_lt(open_descriptors(), before); /* its file is closed, too */
	seg = NULL;
}
END_TEST

/* A pipe without a reader, or full: no signal and no delay. */
START_TEST(descriptor_without_a_reader)
{
	int fds[2], fd = new_eventfd();
	char page[4096] = { 0 };

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(fds[1], page, sizeof(page)) > 0)
		;
	ck_assert_int_eq(errno, EAGAIN);
	ck_code(take(&holds[0], "full", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_notify(&holds[0], fds[1]), 0);
	ck_code(lockshm_end_hold(seg, "full", 4, lockshm_token(&holds[0])), 0);
	ck_code(take(&holds[1], "gone", LOCKSHM_EXCLUSIVE), 0);
	close(fds[0]);
	ck_code(lockshm_notify(&holds[1], fds[1]), 0);
	ck_code(lockshm_end_hold(seg, "gone", 4, lockshm_token(&holds[1])), 0);
	ck_code(take(&holds[2], "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_notify(&holds[2], fd), 0);
	ck_code(lockshm_end_hold(seg, "k", 1, lockshm_token(&holds[2])), 0);
	ck_assert(readable(fd, PATIENCE));
}
END_TEST

START_TEST(wrong_calls)
{
	int fds[2], fd = new_eventfd();
	lockshm_hold_t copy;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_code(lockshm_notify(NULL, fd), LOCKSHM_INVALID);
	ck_code(lockshm_notify(&holds[0], fd), LOCKSHM_NOT_HELD);
	ck_code(take(&holds[0], "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_notify(&holds[0], -2), LOCKSHM_INVALID);
	ck_code(lockshm_notify(&holds[0], 199), LOCKSHM_INVALID);
	ck_code(lockshm_notify(&holds[0], fds[1]), LOCKSHM_INVALID); /* may block */
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_code(lockshm_notify(&holds[0], fds[0]), LOCKSHM_INVALID); /* to read from */
	copy = holds[0];
	ck_code(lockshm_notify(&copy, fd), LOCKSHM_NOT_HELD);
	ck_code(lockshm_notify(&holds[0], -1), 0);
	ck_code(lockshm_release(&holds[0], 0), 0);
	ck_code(lockshm_notify(&holds[0], fd), LOCKSHM_NOT_HELD);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(another_thread_and_a_child)
{
	struct agent *t, *child;

	cast();
	ck_code(leased(a, 0, 0), 0);
	t = agent_thread(a);
	ck_code(agent_call(t, AGENT_NOTIFY), LOCKSHM_NOT_HELD);
	ck_code(agent_call(a, AGENT_NOTIFY), 0);
	child = agent_child(a);
	ck_code(agent_call(child, AGENT_NOTIFY), LOCKSHM_NOT_HELD);
	/* The child has holds of its own, which its own service thread notifies. */
	ck_code(agent_try(child, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(child, AGENT_NOTIFY), 0);
	await_notice(child);
	ck_code(lockshm_end_hold(seg, "other", 5, child->answer.token), 0);
	ck_assert_int_eq(agent_end(child), 1);
	ck_code(agent_call(child, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	await_notice(a);
	ck_code(lockshm_end_hold(seg, "k", 1, a->answer.token), 0);
	ck_assert_int_eq(agent_end(a), 1);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, an_overrun_lease);
	tcase_add_test(tc, ended_by_an_operator);
	tcase_add_test(tc, stopped_beyond_a_renewed_lease);
	tcase_add_test(tc, killed_before_it_could_kick);
	tcase_add_test(tc, lost_before_it_was_asked_for);
	tcase_add_test(tc, late_is_not_lost);
	tcase_add_test(tc, a_release_notifies_no_one);
	tcase_add_test(tc, renewed_moved_changed);
	tcase_add_test(tc, not_any_more);
	tcase_add_test(tc, many_holds);
	tcase_add_test(tc, a_descriptor_that_was_closed);
	tcase_add_test(tc, nothing_is_leaked);
	tcase_add_test(tc, descriptor_without_a_reader);
	tcase_add_test(tc, wrong_calls);
	tcase_add_native(tc, another_thread_and_a_child);
}

int main(void)
{
	return fixture_main("notify", add);
}
