/* SPDX-License-Identifier: MIT */
/*
 * test-other-locks.c - the known defects of the five systems this library replaces, none of which we have
 *
 * One case per Trap row of tests/lock/traceability.md.  Rows about Redis are tested as the local property they stand for.
 * Not here, since there is no local counterpart: S2-T6 (key names and cluster slots), the clocks of several
 * hosts in S4-T2 and S5-T1.
 */
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static int leased(struct agent *a, int mode, int64_t ttl)
{
	return agent_begin(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = mode, .ns = ttl });
}

static int renew(struct agent *a, int64_t ns)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_RENEW, .ns = ns });
}

static struct agent *overdue_holder(void)
{
	struct agent *h = agent_start();

	ck_code(leased(h, X, LOCKSHM_MS(5)), 0);
	pass(h->answer.at_ns + LOCKSHM_MS(30));
	return h;
}

/* A lock without an owner: a late unlock or renewal acts on the hold of another. */
START_TEST(trap_s1_t1)
{
	struct agent *late = overdue_holder(), *now = agent_start();
	int64_t left;

	ck_code(agent_try(now, "k", X), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(renew(now, LOCKSHM_SECONDS(60)), 0);
	ck_code(renew(late, LOCKSHM_MS(1)), LOCKSHM_LOST);
	ck_code(agent_release(late), LOCKSHM_LOST);
	ck_code(agent_call(now, AGENT_CHECK), 0);
	left = now->answer.remaining_ns;
	ck_assert_int_gt(left, LOCKSHM_SECONDS(50));
	ck_code(agent_try(late, "k", S), LOCKSHM_BUSY);
	ck_code(agent_release(now), 0);
}
END_TEST

/* With back-off the oldest waiter polls least, and newcomers win.  Here the oldest wins although each newcomer keeps
 * requesting. */
START_TEST(trap_s1_t2)
{
	struct agent *h = agent_start(), *oldest = agent_start(), *eager = agent_start();
	int i;

	ck_code(agent_acquire(h, "k", X), 0);
	ck_code(agent_acquire(oldest, "k", X), AGENT_BLOCKED);
	pass(now_ns() + LOCKSHM_MS(250));
	for (i = 0; i < 50; i++)
		ck_code(agent_try(eager, "k", X), LOCKSHM_BUSY);
	agent_send(eager, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X });
	ck_code(agent_release(h), 0);
	ck_code(agent_end(oldest), 0);
	ck_code(agent_poll(eager), AGENT_BLOCKED);
	ck_code(agent_release(oldest), 0);
	ck_code(agent_end(eager), 0);
	ck_assert_uint_gt(eager->answer.token, oldest->answer.token);
}
END_TEST

/* No notice of loss, no fencing token, and a dead holder blocks until its time is up. */
START_TEST(trap_s1_t3)
{
	struct agent *late = overdue_holder(), *dies = agent_start(), *next = agent_start();
	uint64_t token = late->answer.token;
	int64_t killed;

	ck_code(leased(dies, X, LOCKSHM_SECONDS(600)), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_uint_gt(dies->answer.token, token);
	ck_code(agent_call(late, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_uint_eq(late->answer.lost_to, dies->answer.token);
	ck_code(agent_acquire(next, "k", X), AGENT_BLOCKED);
	killed = now_ns();
	agent_kill(dies);
	ck_code(agent_end(next), LOCKSHM_OWNER_DIED);
	ck_assert_int_lt(next->answer.at_ns - killed, LOCKSHM_SECONDS(2));
	ck_assert_uint_gt(next->answer.token, dies->answer.token);
}
END_TEST

/* One time to live for the whole set of readers: a dead one stays while others renew. */
START_TEST(trap_s2_t1)
{
	struct agent *dead = agent_start(), *gone = agent_start(), *alive = agent_start(), *w = agent_start();
	int i;

	ck_code(leased(dead, S, LOCKSHM_SECONDS(600)), 0);
	ck_code(leased(gone, S, LOCKSHM_MS(300)), 0); /* alive, but has stopped renewing */
	ck_code(leased(alive, S, LOCKSHM_SECONDS(5)), 0);
	agent_kill(dead);
	ck_code(agent_acquire(w, "k", X), AGENT_BLOCKED);
	for (i = 0; i < 10; i++) {
		ck_code(renew(alive, LOCKSHM_SECONDS(5)), 0);
		pass(now_ns() + LOCKSHM_MS(40));
	}
	ck_assert(agent_waits(w, "k"));
	ck_code(agent_release(alive), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(gone), LOCKSHM_LOST);
}
END_TEST

/* A reader that joins with a shorter time shortens the time of all. */
START_TEST(trap_s2_t2)
{
	struct agent *longer = agent_start(), *shorter = agent_start(), *w = agent_start();

	ck_code(leased(longer, S, LOCKSHM_SECONDS(60)), 0);
	ck_code(leased(shorter, S, LOCKSHM_MS(200)), 0);
	ck_code(agent_release(shorter), 0);
	ck_code(leased(shorter, S, LOCKSHM_MS(200)), 0);
	ck_code(agent_call(longer, AGENT_CHECK), 0);
	ck_assert_int_gt(longer->answer.remaining_ns, LOCKSHM_SECONDS(50));
	pass(shorter->answer.at_ns + LOCKSHM_MS(240));
	ck_code(agent_try(w, "k", X), LOCKSHM_BUSY);
	ck_code(agent_call(longer, AGENT_CHECK), 0);
}
END_TEST

/* Waiting for the time to live instead of for the release. */
START_TEST(trap_s2_t3)
{
	struct agent *h = agent_start(), *w = agent_start();
	int64_t released;

	ck_code(leased(h, X, LOCKSHM_SECONDS(600)), 0);
	ck_code(agent_acquire(w, "k", X), AGENT_BLOCKED);
	released = now_ns();
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
	ck_assert_int_lt(w->answer.at_ns - released, LOCKSHM_SECONDS(1));
}
END_TEST

/* A writer that succeeds clears the claim of the writers still waiting, and readers slip in. */
START_TEST(trap_s2_t4)
{
	struct agent *h = agent_start(), *w1 = agent_start(), *w2 = agent_start(), *r = agent_start();

	ck_code(agent_acquire(h, "k", S), 0);
	ck_code(agent_acquire(w1, "k", X), AGENT_BLOCKED);
	ck_code(agent_acquire(w2, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w1), 0);
	ck_code(agent_acquire(r, "k", S), AGENT_BLOCKED);
	ck_code(agent_release(w1), 0);
	ck_code(agent_end(w2), 0);
	ck_assert(agent_waits(r, "k"));
	ck_code(agent_try(h, "k", S), LOCKSHM_BUSY);
	ck_code(agent_release(w2), 0);
	ck_code(agent_end(r), 0);
}
END_TEST

/* The holder believes in a later end than the others.  Here no grant comes before the end that the holder was given. */
START_TEST(trap_s2_t5)
{
	struct lockshm_request request = request_for("k", X);
	struct agent *w = agent_start();
	lockshm_hold_t hold;
	int64_t left, asked, believed_end;

	request.ttl_ns = LOCKSHM_MS(_i);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	asked = now_ns();
	ck_assert_int_ge(lockshm_check(&hold, &left), 0);
	believed_end = asked + left;
	ck_assert_int_ge(agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X }), 0);
	ck_assert_int_ge(w->answer.at_ns, believed_end);
	ck_code(lockshm_check(&hold, &left), LOCKSHM_LOST);
}
END_TEST

/* Unlock cannot report "was not held". */
START_TEST(trap_s2_t7)
{
	struct agent *h = agent_start(), *other = agent_start();
	lockshm_hold_t never = LOCKSHM_HOLD_INIT;

	ck_code(agent_acquire(h, "k", X), 0);
	ck_code(agent_release(other), LOCKSHM_NOT_HELD);
	ck_code(lockshm_release(&never, 0), LOCKSHM_NOT_HELD);
	ck_code(agent_release(h), 0);
	ck_code(agent_release(h), LOCKSHM_NOT_HELD);
}
END_TEST

/* Sleeps longer than the lease, never renews, blocks on itself, checks its time-out only between sleeps. */
/* 0, or LOST: the machine has let it no time to renew. */
static int waits_for_a_renewed_one(struct agent *h, struct agent *w)
{
	int code;

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X, .ns = LOCKSHM_MS(300),
						    .flags = LOCKSHM_AUTO_RENEW }),
		0);
	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X, .hold = 1 }),
		LOCKSHM_DEADLOCK);
	code = agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X,
						   .timeout_ns = LOCKSHM_MS(800) });
	if (code >= 0) {
		ck_code(agent_release(w), 0);
		return agent_release(h);
	}
	ck_code(code, LOCKSHM_TIMEOUT);
	ck_assert_int_ge(w->answer.report.waited_ns, LOCKSHM_MS(800));
	ck_assert_int_lt(w->answer.report.waited_ns - stalled_ns(), LOCKSHM_MS(800) + LOCKSHM_SECONDS(1));
	code = agent_call(h, AGENT_CHECK); /* more than two leases later */
	(void)agent_release(h);
	return code;
}

START_TEST(trap_s3_t1)
{
	struct agent *h = agent_start(), *w = agent_start();
	int code, tries;

	for (tries = 0; (code = waits_for_a_renewed_one(h, w)) == LOCKSHM_LOST && tries < 20; tries++)
		;
	ck_code(code, 0);
}
END_TEST

/* "Late but still held" and "lost" are one error, and its message is broken. */
START_TEST(trap_s4_t1)
{
	struct agent *late = overdue_holder(), *lost;

	ck_code(agent_release(late), LOCKSHM_LATE);
	lost = overdue_holder();
	ck_code(agent_try(late, "k", X), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(lost), LOCKSHM_LOST);
	ck_assert_str_ne(lockshm_strerror(LOCKSHM_LATE), lockshm_strerror(LOCKSHM_LOST));
	ck_assert_ptr_null(strchr(lockshm_strerror(LOCKSHM_LOST), '%'));
}
END_TEST

/* A process id as identity: threads are one, re-taking blocks on itself; seconds cut off; a
 * vanished key read as a hold. */
START_TEST(trap_s4_t2)
{
	struct agent *a = agent_start(), *b = agent_thread(a), *w = agent_start();
	struct agent_command second = { .op = AGENT_ACQUIRE, .key = "k", .how = X, .hold = 1, .timeout_ns = AGENT_TRY };

	ck_code(agent_acquire(a, "k", X), 0);
	ck_code(agent_do(b, second), LOCKSHM_BUSY); /* the same process, and not the same owner */
	second.timeout_ns = 0;
	ck_code(agent_do(a, second), LOCKSHM_DEADLOCK);
	ck_code(agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X,
						    .timeout_ns = LOCKSHM_MS(1) + 500000 }),
		LOCKSHM_TIMEOUT);
	ck_assert_int_ge(w->answer.report.waited_ns, LOCKSHM_MS(1) + 500000);
	ck_code(agent_release(a), 0);
	ck_code(renew(a, LOCKSHM_SECONDS(1)), LOCKSHM_NOT_HELD);
}
END_TEST

/* Two see the same expiry: both take over, or the loser moves the winner's end. */
START_TEST(trap_s5_t1)
{
	struct agent *late = overdue_holder(), *one = agent_start(), *two = agent_start(), *winner, *loser;
	struct agent_command grab = { .op = AGENT_ACQUIRE, .key = "k", .how = X, .ns = LOCKSHM_SECONDS(60),
				      .timeout_ns = AGENT_TRY };
	int first, second;

	agent_send(one, grab);
	agent_send(two, grab);
	first = agent_end(one);
	second = agent_end(two);
	ck_assert_int_eq((first == LOCKSHM_TOOK_OVER_EXPIRED) + (second == LOCKSHM_TOOK_OVER_EXPIRED), 1);
	ck_assert_int_eq((first == LOCKSHM_BUSY) + (second == LOCKSHM_BUSY), 1);
	winner = first == LOCKSHM_BUSY ? two : one;
	loser = first == LOCKSHM_BUSY ? one : two;
	grab.ns = LOCKSHM_MS(1);
	ck_code(agent_do(loser, grab), LOCKSHM_BUSY);
	ck_code(agent_release(late), LOCKSHM_LOST);
	ck_code(agent_call(winner, AGENT_CHECK), 0);
	ck_assert_int_gt(winner->answer.remaining_ns, LOCKSHM_SECONDS(50));
	ck_code(agent_release(winner), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, trap_s1_t1);
	tcase_add_test(tc, trap_s1_t2);
	tcase_add_test(tc, trap_s1_t3);
	tcase_add_test(tc, trap_s2_t1);
	tcase_add_test(tc, trap_s2_t2);
	tcase_add_test(tc, trap_s2_t3);
	tcase_add_test(tc, trap_s2_t4);
	tcase_add_loop_test(tc, trap_s2_t5, 1, 40);
	tcase_add_test(tc, trap_s2_t7);
	tcase_add_native(tc, trap_s3_t1);
	tcase_add_test(tc, trap_s4_t1);
	tcase_add_test(tc, trap_s4_t2);
	tcase_add_test(tc, trap_s5_t1);
}

int main(void)
{
	return fixture_main("traps", add);
}
