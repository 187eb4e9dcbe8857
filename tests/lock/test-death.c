/* SPDX-License-Identifier: MIT */
/*
 * test-death.c - a dead owner: the reports of its death, their delay, and that it leaves nothing in use
 *
 * Holds are strict here, so only the death itself can hand a lock over.
 */
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/inside.h"

/* A lease would take 30 s.  A generous bound for a busy machine, not a measurement. */
#define SOON LOCKSHM_SECONDS(2)

static int tagged(struct agent *a, const char *key, int mode, const char *tag)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode };

	snprintf(c.key, sizeof(c.key), "%s", key);
	snprintf(c.tag, sizeof(c.tag), "%s", tag);
	return agent_begin(a, c);
}

static void check_previous(const struct lockshm_damage *p, const struct agent *dead, const char *tag)
{
	ck_code(p->status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(p->pid, dead->pid);
	ck_assert_int_eq(p->tid, dead->tid);
	ck_assert_uint_eq(p->token, dead->answer.token);
	ck_assert_str_eq(p->tag, tag);
}

/* A thread that leaves keeps its slot until it has left. */
static bool swept(void *owners)
{
	ck_code(lockshm_sweep(seg, NULL), 0);
	return stat_now().owners_used == *(uint32_t *)owners;
}

/* After all releases and a sweep, only the records and slots of @others live parties are in use. */
static void check_nothing_left(uint32_t others)
{
	uint32_t owners = others + 1; /* the sweeper takes part itself */
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	(void)await(swept, &owners);
	stat = stat_now();
	ck_assert_uint_eq(stat.requests_used, 0);
	ck_assert_uint_eq(stat.keys_busy + stat.keys_left, 0);
	ck_assert_uint_eq(stat.owners_dead, 0);
	ck_assert_uint_eq(stat.owners_used, owners);
	verify_clean();
}

static void kill_holder_of(int mode)
{
	struct agent *h = agent_start(), *w = agent_start();
	int64_t killed;

	ck_code(tagged(h, "k", mode, "the job"), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	killed = now_ns();
	kill(h->pid, SIGKILL);
	ck_code(agent_end(w), mode == LOCKSHM_EXCLUSIVE ? LOCKSHM_OWNER_DIED : 0);
	ck_assert_int_lt(w->answer.at_ns - killed, SOON);
	if (mode == LOCKSHM_EXCLUSIVE)
		check_previous(&w->answer.report.damage, h, "the job");
	else
		ck_code(w->answer.report.damage.status, 0); /* a reader tears nothing */
	ck_assert_uint_gt(w->answer.token, h->answer.token);
	ck_code(agent_call(w, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(w), 0);
	agent_gone(h);
	check_nothing_left(1);
	ck_assert_uint_eq(stat_now().recovered, 1);
}

START_TEST(killed_exclusive_holder_hands_over)
{
	kill_holder_of(LOCKSHM_EXCLUSIVE);
}
END_TEST

START_TEST(killed_shared_holder_hands_over)
{
	kill_holder_of(LOCKSHM_SHARED);
}
END_TEST

START_TEST(one_of_two_readers_dies_and_the_other_still_counts)
{
	struct agent *dies = agent_start(), *stays = agent_start(), *w = agent_start();

	ck_code(agent_acquire(dies, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(stays, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_kill(dies);
	pass(now_ns() + LOCKSHM_MS(150)); /* longer than the time between two self-checks */
	ck_code(agent_poll(w), AGENT_BLOCKED);
	ck_code(agent_call(stays, AGENT_CHECK), 0);
	ck_code(agent_release(stays), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(try_takes_over_from_the_dead_at_once)
{
	struct agent *h = agent_start(), *n = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(h);
	ck_code(agent_try(n, "k", LOCKSHM_SHARED), LOCKSHM_OWNER_DIED);
	check_previous(&n->answer.report.damage, h, "");
}
END_TEST

START_TEST(damage_stays_until_acknowledged)
{
	struct agent *h = agent_start(), *n = agent_start();
	struct seen seen;
	int i;

	ck_code(tagged(h, "k", LOCKSHM_EXCLUSIVE, "torn"), 0);
	agent_kill(h);
	for (i = 0; i < 3; i++) {
		ck_code(agent_try(n, "k", i ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED), LOCKSHM_OWNER_DIED);
		check_previous(&n->answer.report.damage, h, "torn");
		if (i < 2)
			ck_code(agent_release(n), 0);
	}
	look("k", &seen);
	ck_assert_int_eq(seen.damaged, 1);
	check_previous(&seen.damage, h, "torn");
	ck_code(agent_call(n, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(n), 0);
	ck_code(agent_try(n, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(n->answer.report.damage.status, 0);
	look("k", &seen);
	ck_assert_int_eq(seen.damaged, 0);
}
END_TEST

START_TEST(acknowledge_flag_reports_once)
{
	struct agent *h = agent_start(), *n = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(h);
	ck_code(agent_do(n, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .flags = ACKNOWLEDGES }),
		LOCKSHM_OWNER_DIED);
	ck_code(agent_release(n), 0);
	ck_code(agent_try(n, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(dead_writer_outranks_a_dead_reader)
{
	struct agent *writer = agent_start(), *reader = agent_start(), *n = agent_start();

	ck_code(tagged(writer, "k", LOCKSHM_EXCLUSIVE, "writer"), 0);
	agent_kill(writer);
	ck_code(tagged(reader, "k", LOCKSHM_SHARED, "reader"), LOCKSHM_OWNER_DIED);
	agent_kill(reader);
	ck_code(agent_try(n, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
	check_previous(&n->answer.report.damage, writer, "writer");
}
END_TEST

static bool w_is_gone(void *arg)
{
	return !agent_waits(arg, "k");
}

START_TEST(killed_waiter_lets_the_one_behind_it_through)
{
	struct agent *h = agent_start(), *w = agent_start(), *next = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_acquire(next, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_kill(w);
	/* The waiter behind it is woken and reaps it. */
	ck_assert(await(w_is_gone, w));
	ck_code(agent_release(h), 0);
	ck_code(agent_end(next), 0); /* a dead waiter was never inside: no damage */
	ck_code(agent_release(next), 0);
	check_nothing_left(2);
}
END_TEST

START_TEST(killed_writer_between_readers_joins_them)
{
	struct agent *r1 = agent_start(), *w = agent_start(), *r2 = agent_start();

	ck_code(agent_acquire(r1, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_acquire(r2, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	agent_kill(w);
	ck_code(agent_end(r2), 0);
	ck_code(agent_call(r1, AGENT_CHECK), 0);
}
END_TEST

#define CHAIN 10

START_TEST(whole_chain_of_waiters_is_killed)
{
	struct agent *h = agent_start(), *chain[CHAIN], *last;
	int i;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < CHAIN; i++) {
		chain[i] = agent_start();
		ck_code(agent_acquire(chain[i], "k", i % 3 ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED), AGENT_BLOCKED);
	}
	last = agent_start();
	ck_code(agent_acquire(last, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	for (i = 0; i < CHAIN; i++)
		kill(chain[i]->pid, SIGSTOP); /* so that none of them is granted by another's death */
	for (i = 0; i < CHAIN; i++)
		kill(chain[i]->pid, SIGKILL);
	agent_kill(h);
	ck_code(agent_end(last), LOCKSHM_OWNER_DIED);
	for (i = 0; i < CHAIN; i++)
		agent_gone(chain[i]);
	ck_code(agent_call(last, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(last), 0);
	check_nothing_left(1);
}
END_TEST

START_TEST(several_readers_die_at_once)
{
	struct agent *r[6], *w = agent_start();
	int i;

	for (i = 0; i < 6; i++) {
		r[i] = agent_start();
		ck_code(agent_acquire(r[i], "k", LOCKSHM_SHARED), 0);
	}
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	for (i = 0; i < 6; i++)
		kill(r[i]->pid, SIGKILL);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	for (i = 0; i < 6; i++)
		agent_gone(r[i]);
	check_nothing_left(1);
	ck_assert_uint_eq(stat_now().recovered, 6);
}
END_TEST

START_TEST(holder_of_many_keys_frees_them_all)
{
	struct agent *h = agent_start(), *w[8];
	char key[8];
	int i;

	for (i = 0; i < 8; i++) {
		struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE, .hold = i };

		snprintf(key, sizeof(key), "k%d", i);
		memcpy(c.key, key, sizeof(key));
		ck_code(agent_begin(h, c), 0);
		w[i] = agent_start();
		ck_code(agent_acquire(w[i], key, LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	}
	agent_kill(h);
	for (i = 0; i < 8; i++) {
		ck_code(agent_end(w[i]), LOCKSHM_OWNER_DIED);
		ck_code(agent_call(w[i], AGENT_ACKNOWLEDGE), 0);
		ck_code(agent_release(w[i]), 0);
	}
	check_nothing_left(8);
}
END_TEST

/* The hold of @h ends by @op; a waiter gets OWNER_DIED. */
static void ends_like_a_death(struct agent *h, enum agent_op op, int outcome)
{
	struct agent *w = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_call(h, op), outcome);
	ck_code(agent_end(w), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(w->answer.report.damage.pid, h->pid);
	ck_assert_int_eq(w->answer.report.damage.tid, h->tid);
	ck_code(agent_call(w, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(w), 0);
}

static bool taken_over(void *arg)
{
	return agent_try(arg, "k", LOCKSHM_EXCLUSIVE) >= 0;
}

static bool upgraded(void *arg)
{
	return agent_call(arg, AGENT_UPGRADE) == 0;
}

START_TEST(exit_without_release_is_a_death)
{
	struct agent *h = agent_start();

	ends_like_a_death(h, AGENT_EXIT, AGENT_DIED);
	agent_gone(h);
	check_nothing_left(1);
}
END_TEST

START_TEST(thread_exit_is_the_death_of_its_holds)
{
	struct agent *main_thread = agent_start();

	ends_like_a_death(agent_thread(main_thread), AGENT_EXIT_THREAD, AGENT_DIED);
	ck_code(agent_call(main_thread, AGENT_PING), 0);
	check_nothing_left(1);
}
END_TEST

START_TEST(exec_is_the_death_of_its_holds)
{
	ends_like_a_death(agent_start(), AGENT_EXEC, AGENT_DIED);
	check_nothing_left(1);
}
END_TEST

/* The kernel gives such a thread the tid of the main thread before it walks its robust list: that death is not
 * reported, a probe has to find it. */
START_TEST(exec_by_another_thread_is_the_death_of_its_holds)
{
	ends_like_a_death(agent_thread(agent_start()), AGENT_EXEC, AGENT_DIED);
	check_nothing_left(1);
}
END_TEST

START_TEST(exec_by_another_thread_is_found_by_a_try)
{
	struct agent *h = agent_thread(agent_start()), *n = agent_start();

	ck_code(tagged(h, "k", LOCKSHM_EXCLUSIVE, ""), 0);
	ck_code(agent_call(h, AGENT_EXEC), AGENT_DIED);
	ck_assert(await(taken_over, n));
	ck_code(n->answer.code, LOCKSHM_OWNER_DIED);
	check_previous(&n->answer.report.damage, h, "");
}
END_TEST

static bool taken_over_between_others(void *arg)
{
	ck_code(agent_try(arg, "a", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	if (taken_over(arg))
		return true;
	ck_code(agent_try(arg, "z", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	pass(now_ns() + LOCKSHM_MS(15));
	return false;
}

/* Probes are few: each round of tries has one, which is not always for the first key. */
START_TEST(exec_by_another_thread_is_found_by_tries_of_several_keys)
{
	struct agent *h = agent_thread(agent_start()), *others[] = { agent_start(), agent_start() }, *n = agent_start();

	ck_code(agent_try(others[0], "a", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(others[1], "z", LOCKSHM_EXCLUSIVE), 0);
	ck_code(tagged(h, "k", LOCKSHM_EXCLUSIVE, ""), 0);
	ck_code(agent_call(h, AGENT_EXEC), AGENT_DIED);
	ck_assert(await(taken_over_between_others, n));
	ck_code(n->answer.code, LOCKSHM_OWNER_DIED);
	check_previous(&n->answer.report.damage, h, "");
}
END_TEST

/* Also without a probe before the lease has expired. */
START_TEST(exec_by_another_thread_is_a_death_also_after_the_lease)
{
	struct agent *h = agent_thread(agent_start()), *n = agent_start();

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_MS(60) }),
		0);
	ck_code(agent_call(h, AGENT_EXEC), AGENT_DIED);
	pass(now_ns() + LOCKSHM_MS(80));
	ck_code(agent_try(n, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
}
END_TEST

START_TEST(exec_by_another_thread_is_no_reader_in_an_upgraders_way)
{
	struct agent *h = agent_thread(agent_start()), *u = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(u, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_call(h, AGENT_EXEC), AGENT_DIED);
	ck_assert(await(upgraded, u));
}
END_TEST

/*
 * The kernel reports a death late in the exit of the thread: after the core dump, which takes seconds, and after the
 * stop for a tracer.  The thread runs no user code in that time.  This test uses a tracer, which can wait.
 */
static bool stop_in_exit(struct agent *a, bool waits)
{
	int status;

	if (ptrace(PTRACE_SEIZE, a->tid, NULL, (void *)PTRACE_O_TRACEEXIT) != 0)
		return false;
	if (waits) {
		ck_assert_int_eq(kill(a->pid, SIGUSR2), 0);
		ck_assert_int_eq(waitpid(a->tid, &status, __WALL), a->tid);
		ck_assert_int_eq(WSTOPSIG(status), SIGUSR2);
		ck_assert_int_eq(ptrace(PTRACE_CONT, a->tid, NULL, (void *)SIGUSR2), 0);
	} else {
		agent_send(a, (struct agent_command){ .op = AGENT_EXIT });
	}
	ck_assert_int_eq(waitpid(a->tid, &status, __WALL), a->tid);
	ck_assert_int_eq(status >> 8, SIGTRAP | PTRACE_EVENT_EXIT << 8);
	return true;
}

/* PF_POSTCOREDUMP or PF_EXITING; kernels before 5.16 show neither at the tracer's stop. */
static bool shown_leaving(const struct agent *a)
{
	char path[64];
	unsigned flags = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)a->pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%*d %*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags), 1);
	fclose(f);
	return flags & 0xc;
}

START_TEST(holder_that_takes_long_to_exit_is_dead)
{
	struct agent *h = agent_start(), *w = agent_start(), *n = agent_start();
	size_t freed;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	if (!stop_in_exit(h, false) || !shown_leaving(h)) {
		printf("left out: no right to trace, or an old kernel\n");
		return;
	}
	ck_code(agent_end(w), LOCKSHM_OWNER_DIED);
	check_previous(&w->answer.report.damage, h, "");
	/* The kernel has yet to write to its life word: until then its slot is not reused. */
	ck_code(lockshm_sweep(seg, &freed), 0);
	ck_assert_uint_eq(freed, 0);
	ck_assert_uint_eq(stat_now().owners_dead, 1);
	ck_assert_int_eq(ptrace(PTRACE_CONT, h->tid, NULL, NULL), 0);
	agent_gone(h);
	ck_code(lockshm_sweep(seg, &freed), 0);
	ck_assert_uint_eq(freed, 1);
	ck_code(agent_call(w, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(w), 0);
	ck_code(agent_acquire(n, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(n, AGENT_CHECK), 0);
}
END_TEST

/* A granter that is killed between the grant and the wake-up leaves a granted sleeper.  This one is at the doorbell, where a
 * wake-up stays to be seen. */
START_TEST(try_wakes_a_granted_sleeper_again)
{
	struct agent *n = agent_start();
	lockshm_hold_t hold;
	struct shm_request *r;
	const struct shm_doorbell *doorbell;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	r = &seg->requests[nth_from_tail(entry_of("k"), 0)];
	doorbell = (const void *)(seg->lives + (size_t)owner_ref_slot(r->owner) * LIFE_BYTES + DOORBELL_OFFSET);
	ck_code(agent_try(n, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert_uint_eq(doorbell->rung_words, 0);
	r->word = word_with_state(r->word, REQUEST_GRANTED);
	r->sleeping = SLEEPS | SLEEPS_AT_DOORBELL;
	ck_code(agent_try(n, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert_uint_ne(doorbell->rung_words, 0);
	r->sleeping = 0;
	r->word = word_with_state(r->word, REQUEST_ENTERED);
	ck_code(lockshm_release(&hold, 0), 0);
	verify_clean();
}
END_TEST

static bool reads(void *unused)
{
	lockshm_hold_t hold;

	(void)unused;
	return take(&hold, "k", LOCKSHM_SHARED) == 0;
}

/* The holder lives and would let readers in; no request is behind the waiter, and finds its death. */
START_TEST(try_finds_a_waiter_that_takes_long_to_exit)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_assert(!reads(NULL));
	if (!stop_in_exit(w, true) || !shown_leaving(w)) {
		printf("left out: no right to trace, or an old kernel\n");
		return;
	}
	ck_assert(await(reads, NULL));
	ck_assert_int_eq(ptrace(PTRACE_CONT, w->tid, NULL, NULL), 0);
	verify_clean();
}
END_TEST

/* The dead thread holds b, and waited for a when it died: no circle. */
START_TEST(deadlock_with_a_thread_that_takes_long_to_exit_is_none)
{
	struct agent *h = agent_start();
	lockshm_hold_t a, b;
	struct lockshm_request q = request_for("b", LOCKSHM_EXCLUSIVE);

	q.timeout_ns = PATIENCE;
	ck_code(take(&a, "a", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "b", .how = LOCKSHM_EXCLUSIVE,
						    .hold = 1 }),
		0);
	ck_code(agent_acquire(h, "a", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	if (!stop_in_exit(h, true) || !shown_leaving(h)) {
		printf("left out: no right to trace, or an old kernel\n");
		return;
	}
	ck_code(lockshm_acquire(seg, &q, &b), 0);
	ck_assert_int_eq(ptrace(PTRACE_CONT, h->tid, NULL, NULL), 0);
	verify_clean();
}
END_TEST

START_TEST(close_is_the_end_of_its_holds)
{
	ends_like_a_death(agent_start(), AGENT_CLOSE, 0);
	check_nothing_left(1);
}
END_TEST

START_TEST(stopped_holder_of_a_strict_lock_is_not_dead)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	agent_stop(h);
	ck_code(agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .timeout_ns = LOCKSHM_MS(250) }),
		LOCKSHM_TIMEOUT);
	agent_cont(h);
	ck_code(agent_release(h), 0);
}
END_TEST

START_TEST(two_hundred_deaths_leak_nothing)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct agent *h;
	int i;

	segment_with(64, 64, 4); /* each table is far smaller than the number of deaths */
	for (i = 0; i < 200; i++) {
		h = agent_inherit();
		ck_assert_int_ge(agent_try(h, i & 1 ? "odd" : "even", LOCKSHM_EXCLUSIVE), 0);
		agent_kill(h);
		agents_end();
	}
	ck_code(lockshm_sweep(seg, NULL), 0);
	stat = stat_now();
	ck_assert_uint_eq(stat.requests_used, 0);
	ck_assert_uint_eq(stat.requests_reserved, 0);
	ck_assert_uint_eq(stat.owners_used, 1); /* the sweeper takes part itself */
	ck_assert_uint_eq(stat.keys_known, 2);
	ck_assert_uint_eq(stat.recovered, 200);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, killed_exclusive_holder_hands_over);
	tcase_add_test(tc, killed_shared_holder_hands_over);
	tcase_add_test(tc, one_of_two_readers_dies_and_the_other_still_counts);
	tcase_add_test(tc, try_takes_over_from_the_dead_at_once);
	tcase_add_test(tc, damage_stays_until_acknowledged);
	tcase_add_test(tc, acknowledge_flag_reports_once);
	tcase_add_test(tc, dead_writer_outranks_a_dead_reader);
	tcase_add_test(tc, killed_waiter_lets_the_one_behind_it_through);
	tcase_add_test(tc, killed_writer_between_readers_joins_them);
	tcase_add_test(tc, whole_chain_of_waiters_is_killed);
	tcase_add_test(tc, several_readers_die_at_once);
	tcase_add_test(tc, holder_of_many_keys_frees_them_all);
	tcase_add_test(tc, exit_without_release_is_a_death);
	tcase_add_test(tc, thread_exit_is_the_death_of_its_holds);
	tcase_add_native(tc, exec_is_the_death_of_its_holds);
	tcase_add_native(tc, holder_that_takes_long_to_exit_is_dead);
	tcase_add_test(tc, try_wakes_a_granted_sleeper_again);
	tcase_add_native(tc, try_finds_a_waiter_that_takes_long_to_exit);
	tcase_add_native(tc, deadlock_with_a_thread_that_takes_long_to_exit_is_none);
	tcase_add_native(tc, exec_by_another_thread_is_the_death_of_its_holds);
	tcase_add_native(tc, exec_by_another_thread_is_found_by_a_try);
	tcase_add_native(tc, exec_by_another_thread_is_found_by_tries_of_several_keys);
	tcase_add_native(tc, exec_by_another_thread_is_a_death_also_after_the_lease);
	tcase_add_native(tc, exec_by_another_thread_is_no_reader_in_an_upgraders_way);
	tcase_add_test(tc, close_is_the_end_of_its_holds);
	tcase_add_test(tc, stopped_holder_of_a_strict_lock_is_not_dead);
	tcase_add_test(tc, two_hundred_deaths_leak_nothing);
}

int main(void)
{
	return fixture_main("death", add);
}
