/* SPDX-License-Identifier: MIT */
/* test-blocker.c - a request that is not granted is told what was in the way */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct lockshm_report report = LOCKSHM_REPORT_INIT;

/* A process whose thread has that name. */
static struct agent *named(const char *name)
{
	struct agent *a;

	ck_assert_int_eq(prctl(PR_SET_NAME, name), 0);
	a = agent_start();
	ck_assert_int_eq(prctl(PR_SET_NAME, "the test"), 0);
	return a;
}

static int takes(struct agent *a, int mode, int64_t ttl_ns, const char *tag)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = mode, .ns = ttl_ns };

	strcpy(c.tag, tag);
	return agent_begin(a, c);
}

static int ask_for(const char *key, int mode, int64_t timeout_ns, unsigned flags)
{
	struct lockshm_request request = request_for(key, mode);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int code;

	memset((char *)&report + sizeof(report.size), 0x55, sizeof(report) - sizeof(report.size));
	request.timeout_ns = timeout_ns;
	request.flags = flags;
	request.report = &report;
	code = lockshm_acquire(seg, &request, &hold);
	if (code >= 0)
		(void)lockshm_release(&hold, 0);
	return code;
}

static int ask(int mode, int64_t timeout_ns)
{
	return ask_for("k", mode, timeout_ns, 0);
}

static void names(const struct agent *a, int state, int mode, const char *name, const char *tag)
{
	const struct lockshm_blocker *b = &report.blocker;

	ck_assert_int_eq(b->state, state);
	ck_assert_int_eq(b->mode, mode);
	ck_assert_int_eq(b->pid, a->pid);
	ck_assert_int_eq(b->tid, a->tid);
	ck_assert_str_eq(b->name, name);
	ck_assert_str_eq(b->tag, tag);
}

static void names_nothing(void)
{
	ck_assert_int_eq(report.blocker.state, 0);
}

START_TEST(try_names_the_holder)
{
	struct agent *a = named("import");
	int64_t begun = now_ns();

	ck_code(takes(a, X, LOCKSHM_SECONDS(30), "nightly"), 0);
	ck_code(ask(S, 0), LOCKSHM_BUSY);
	names(a, LOCKSHM_HOLDING, X, "import", "nightly");
	ck_assert_uint_eq(report.blocker.token, a->answer.token);
	ck_assert_int_le(report.blocker.age_ns, now_ns() - begun);
	ck_assert_int_gt(report.blocker.expires_in_ns, 0);
	ck_assert_int_le(report.blocker.expires_in_ns, LOCKSHM_SECONDS(30) + LOCKSHM_MS(20));
}
END_TEST

START_TEST(timeout_names_the_holder)
{
	struct agent *a = named("fifteen letters"), *b = named("a waiter");

	ck_code(takes(a, S, 0, ""), 0);
	ck_code(ask(X, LOCKSHM_MS(20)), LOCKSHM_TIMEOUT);
	names(a, LOCKSHM_HOLDING, S, "fifteen letters", "");
	ck_assert_int_eq(report.blocker.expires_in_ns, LOCKSHM_FOREVER);
	ck_assert_int_ge(report.blocker.age_ns, LOCKSHM_MS(5)); /* the grant counts from a coarse clock */
	/* Behind a waiter: the holder that both wait for. */
	ck_code(takes(b, X, 0, "waits"), AGENT_BLOCKED);
	ck_code(ask(S, LOCKSHM_MS(20)), LOCKSHM_TIMEOUT);
	names(a, LOCKSHM_HOLDING, S, "fifteen letters", "");
	ck_code(ask(S, 0), LOCKSHM_BUSY);
	names(a, LOCKSHM_HOLDING, S, "fifteen letters", "");
	verify_clean();
}
END_TEST

START_TEST(newest_living_reader_is_named)
{
	struct agent *a = named("oldest"), *b = named("middle"), *c = named("newest"), *w = named("a waiter");

	ck_code(takes(a, S, 0, ""), 0);
	ck_code(takes(b, S, 0, ""), 0);
	ck_code(takes(c, S, LOCKSHM_SECONDS(30), ""), 0);
	ck_code(ask(X, 0), LOCKSHM_BUSY);
	names(c, LOCKSHM_HOLDING, S, "newest", "");
	agent_kill(c);
	ck_code(ask(X, 0), LOCKSHM_BUSY);
	names(b, LOCKSHM_HOLDING, S, "middle", "");
	ck_code(ask(X, LOCKSHM_MS(20)), LOCKSHM_TIMEOUT);
	names(b, LOCKSHM_HOLDING, S, "middle", "");
	/* A waiter that conflicts keeps readers out, too. */
	ck_code(takes(w, X, 0, ""), AGENT_BLOCKED);
	ck_code(ask(S, 0), LOCKSHM_BUSY);
	names(b, LOCKSHM_HOLDING, S, "middle", "");
	/* Without it they join. */
	agent_kill(w);
	ck_code(ask(S, 0), 0);
	agent_kill(b);
	agent_kill(a);
	ck_code(ask(X, 0), 0);
	verify_clean();
}
END_TEST

/* The waiter that would clear it away is stopped. */
START_TEST(timeout_names_no_dead_reader)
{
	struct agent *a = named("oldest"), *b = named("newest"), *w = named("a waiter");

	ck_code(takes(a, S, 0, ""), 0);
	ck_code(takes(b, S, 0, ""), 0);
	ck_code(takes(w, X, 0, ""), AGENT_BLOCKED);
	ck_code(ask(X, 0), LOCKSHM_BUSY); /* a join would clear it away, too */
	agent_stop(w);
	agent_kill(b);
	ck_code(ask(X, LOCKSHM_MS(20)), LOCKSHM_TIMEOUT);
	names(a, LOCKSHM_HOLDING, S, "oldest", "");
	agent_kill(w);
	agent_kill(a);
	ck_code(ask(X, 0), 0);
	verify_clean();
}
END_TEST

START_TEST(time_out_of_no_time_names_the_holder)
{
	struct agent *a = named("import");
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	ck_code(takes(a, X, 0, ""), 0);
	request.timeout_ns = 1;
	request.report = &report;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_TIMEOUT);
	names(a, LOCKSHM_HOLDING, X, "import", "");
}
END_TEST

/* Nor does a dead one keep the lock. */
START_TEST(time_out_of_no_time_names_no_dead_reader)
{
	struct agent *a = named("oldest"), *b = named("newest");
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	ck_code(takes(a, S, 0, ""), 0);
	ck_code(takes(b, S, 0, ""), 0);
	agent_kill(b);
	request.timeout_ns = 1;
	request.report = &report;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_TIMEOUT);
	names(a, LOCKSHM_HOLDING, S, "oldest", "");
	ck_code(takes(b = named("another"), S, 0, ""), 0);
	agent_kill(b);
	agent_kill(a);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	verify_clean();
}
END_TEST

START_TEST(booked_beyond_its_time_names_that_holder)
{
	struct agent *a = named("short"), *b = named("long"), *c = named("short too");

	ck_code(takes(a, S, LOCKSHM_SECONDS(50), ""), 0);
	ck_code(takes(b, S, LOCKSHM_SECONDS(500), ""), 0);
	ck_code(takes(c, S, LOCKSHM_SECONDS(50), ""), 0);
	ck_code(ask_for("k", X, LOCKSHM_SECONDS(100), LOCKSHM_ONLY_IF_FREE_IN_TIME), LOCKSHM_BUSY);
	names(b, LOCKSHM_HOLDING, S, "long", "");
}
END_TEST

START_TEST(cooldown_is_named)
{
	struct agent *a = named("import");

	ck_code(takes(a, X, 0, "cools"), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_SECONDS(100) }), 0);
	ck_code(ask(X, 0), LOCKSHM_BUSY);
	ck_assert_int_eq(report.blocker.state, LOCKSHM_COOLING);
	ck_assert_int_gt(report.blocker.expires_in_ns, LOCKSHM_SECONDS(1));
	ck_code(ask(X, LOCKSHM_MS(5)), LOCKSHM_TIMEOUT);
	ck_assert_int_eq(report.blocker.state, LOCKSHM_COOLING);
}
END_TEST

START_TEST(nothing_is_named_otherwise)
{
	lockshm_hold_t mine;

	ck_code(ask(X, 0), 0);
	names_nothing();
	ck_code(take(&mine, "mine", X), 0);
	ck_code(ask_for("mine", X, LOCKSHM_SECONDS(1), 0), LOCKSHM_DEADLOCK);
	names_nothing();
	ck_code(ask_for("", X, 0, 0), LOCKSHM_INVALID);
	names_nothing();
}
END_TEST

START_TEST(many_keys_name_what_was_in_the_way_of_one)
{
	struct agent *a = named("import");
	struct lockshm_request common = request_for("", X);
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("a", 0), LOCKSHM_MANY_KEY("k", 0), LOCKSHM_MANY_KEY("z", 0) };
	lockshm_hold_t holds[3];

	ck_code(takes(a, X, 0, "one of three"), 0);
	common.report = &report;
	ck_code(lockshm_acquire_many(seg, &common, keys, 3, holds), LOCKSHM_BUSY);
	names(a, LOCKSHM_HOLDING, X, "import", "one of three");
	ck_code(agent_release(a), 0);
	ck_code(lockshm_acquire_many(seg, &common, keys, 3, holds), 0);
	names_nothing();
}
END_TEST

/* Takes the key in turn in two ways that differ in each field, until it is killed. */
static void alternate(void)
{
	struct lockshm_request ways[] = { request_for("k", X), request_for("k", S) };
	lockshm_hold_t hold;
	unsigned i;

	ways[0].tag = "exclusive";
	ways[1].tag = "shared, with a long tag";
	ways[1].ttl_ns = LOCKSHM_SECONDS(30);
	for (i = 0;; i++)
		if (lockshm_acquire(seg, &ways[i & 1], &hold) >= 0)
			(void)lockshm_release(&hold, 0);
}

static void check_whole(pid_t pid)
{
	const struct lockshm_blocker *b = &report.blocker;
	bool exclusive = b->mode == X;

	ck_assert_int_eq(b->state, LOCKSHM_HOLDING);
	ck_assert_int_eq(b->pid, pid);
	ck_assert_str_eq(b->tag, exclusive ? "exclusive" : "shared, with a long tag");
	ck_assert_msg(exclusive == (b->expires_in_ns == LOCKSHM_FOREVER), "mode %d with a lease of %lld ns", b->mode,
		      (long long)b->expires_in_ns);
}

/* No fact of one hold with those of another. */
START_TEST(what_is_named_is_of_one_hold)
{
	unsigned i, seen = 0;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		alternate();
	for (i = 0; i < 2000000 && seen < 20000; i++)
		if (ask(X, 0) == LOCKSHM_BUSY && report.blocker.state) {
			check_whole(pid);
			seen++;
		}
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_uint_gt(seen, 0);
}
END_TEST

/* ---------------------------------------------------------------- in words */

static void says(const struct lockshm_report *r, int64_t timeout_ns, const char *want)
{
	char text[LOCKSHM_EXPLAIN_MAX];

	memset(text, 'x', sizeof(text));
	ck_code(lockshm_explain(r, timeout_ns, text, sizeof(text)), 0);
	ck_assert_str_eq(text, want);
}

static struct lockshm_report of_code(int code, const char *message)
{
	struct lockshm_report r = LOCKSHM_REPORT_INIT;

	r.error.code = code;
	strcpy(r.error.message, message);
	return r;
}

static struct lockshm_blocker holder(void)
{
	struct lockshm_blocker b = { .state = LOCKSHM_HOLDING, .mode = X, .pid = 4711, .tid = 4712, .age_ns = LOCKSHM_MS(12340),
				     .expires_in_ns = LOCKSHM_SECONDS(3), .name = "job", .tag = "nightly" };

	return b;
}

START_TEST(explains_what_was_in_the_way)
{
	struct lockshm_report r = of_code(LOCKSHM_TIMEOUT, "not granted in time");

	says(&r, LOCKSHM_SECONDS(5), "not granted in 5 s");
	r.blocker = holder();
	says(&r, LOCKSHM_SECONDS(5), "not granted in 5 s: held exclusive by pid 4711 (job) 'nightly' for 12.3 s");
	says(&r, LOCKSHM_FOREVER, "not granted in time: held exclusive by pid 4711 (job) 'nightly' for 12.3 s");
	r.error = of_code(LOCKSHM_BUSY, "not free").error;
	r.blocker.mode = S;
	r.blocker.tag[0] = '\0';
	says(&r, 0, "not free: held shared by pid 4711 (job) for 12.3 s");
	r.error.code = 0; /* a blocker alone */
	r.blocker.state = LOCKSHM_WAITING;
	r.blocker.pid = 0;
	r.blocker.name[0] = '\0';
	r.blocker.age_ns = LOCKSHM_SECONDS(600);
	says(&r, 0, "awaited shared by an unknown process for 10 min");
	r.blocker = holder();
	r.blocker.state = LOCKSHM_COOLING;
	says(&r, 0, "cooling down for another 3.0 s, taken 12.3 s ago by 'nightly'");
	r.blocker.state = LOCKSHM_BARGEABLE;
	says(&r, 0, "released, and kept for its thread until the next one runs");
	r = of_code(LOCKSHM_TIMEOUT, "not granted in time, other hosts; last: another host holds it: web-2");
	says(&r, LOCKSHM_SECONDS(5), r.error.message);
	r = of_code(LOCKSHM_DEADLOCK, "deadlock: pid 1/1 waits");
	says(&r, 0, "deadlock: pid 1/1 waits");
	r = of_code(LOCKSHM_NO_SEGMENT, "");
	says(&r, 0, lockshm_strerror(LOCKSHM_NO_SEGMENT));
	r = of_code(0, "");
	says(&r, 0, "");
}
END_TEST

START_TEST(explains_a_damage_mark)
{
	struct lockshm_report r = LOCKSHM_REPORT_INIT;

	r.damage = (struct lockshm_damage){ .status = LOCKSHM_OWNER_DIED, .pid = 4711, .tid = 4711, .token = 7,
						.age_ns = LOCKSHM_MS(2500), .tag = "nightly" };
	says(&r, 0, "an earlier holder died inside: pid 4711 'nightly', 2.5 s ago, token 7; what the lock protects may be torn");
	r.damage = (struct lockshm_damage){ .status = LOCKSHM_TOOK_OVER_EXPIRED, .token = 8, .tag = "12@web-2" };
	says(&r, 0, "an earlier holder overran its lease or was ended by an operator: 12@web-2, token 8; it may still be working");
	r.damage.tag[0] = '\0';
	says(&r, 0, "an earlier holder overran its lease or was ended by an operator: an unknown process, token 8; "
		    "it may still be working");
}
END_TEST

/* Of other processes come names and tags: none of their bytes drives a terminal, and none is read behind its field. */
START_TEST(explains_in_printable_bytes)
{
	struct lockshm_report r = LOCKSHM_REPORT_INIT;
	char text[LOCKSHM_EXPLAIN_MAX], small[12];

	r.blocker = holder();
	strcpy(r.blocker.tag, "a\33[2J\n\303\244");
	says(&r, 0, "held exclusive by pid 4711 (job) 'a?[2J\?\?\?' for 12.3 s");
	memset(r.blocker.tag, 't', sizeof(r.blocker.tag));
	memset(r.blocker.name, 'n', sizeof(r.blocker.name));
	ck_code(lockshm_explain(&r, 0, text, sizeof(text)), 0);
	ck_assert_str_eq(strrchr(text, ' '), " s");
	ck_code(lockshm_explain(&r, 0, small, sizeof(small)), 0);
	ck_assert_str_eq(small, "held exclus");
	ck_code(lockshm_explain(&r, 0, small, 0), LOCKSHM_INVALID);
	ck_code(lockshm_explain(&r, 0, NULL, 9), LOCKSHM_INVALID);
	ck_code(lockshm_explain(NULL, 0, small, sizeof(small)), LOCKSHM_INVALID);
	r.size = 8;
	ck_code(lockshm_explain(&r, 0, small, sizeof(small)), LOCKSHM_INVALID);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, explains_what_was_in_the_way);
	tcase_add_test(tc, explains_a_damage_mark);
	tcase_add_test(tc, explains_in_printable_bytes);
	tcase_add_test(tc, try_names_the_holder);
	tcase_add_test(tc, timeout_names_the_holder);
	tcase_add_test(tc, newest_living_reader_is_named);
	tcase_add_test(tc, timeout_names_no_dead_reader);
	tcase_add_test(tc, time_out_of_no_time_names_the_holder);
	tcase_add_test(tc, time_out_of_no_time_names_no_dead_reader);
	tcase_add_test(tc, booked_beyond_its_time_names_that_holder);
	tcase_add_test(tc, cooldown_is_named);
	tcase_add_test(tc, nothing_is_named_otherwise);
	tcase_add_test(tc, many_keys_name_what_was_in_the_way_of_one);
	tcase_add_test(tc, what_is_named_is_of_one_hold);
}

int main(void)
{
	return fixture_main("blocker", add);
}
