/* SPDX-License-Identifier: MIT */
/*
 * step-loops.c - event loops, step by step: their calls, the release to a wait of another process, the service thread
 *
 * The victim's loop has one wait, for the round's key, in hold 0.  Where the service thread is stepped, the thread that
 * called the library waits meanwhile for the test's permission, and collects then.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fixture.h"
#include "step-arrange.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static lockshm_loop_t *loop;
static unsigned also; /* flags of its requests */

/* ---------------------------------------------------------------- the victim */

static struct lockshm_request wanted(const struct scene *s)
{
	struct lockshm_request request = request_for(s->key, X);

	request.ttl_ns = s->victim_ttl;
	request.timeout_ns = PATIENCE;
	request.tag = "victim";
	request.flags = (s->kind == SCENE_ROBUST ? LOCKSHM_ROBUST : 0) | also;
	return request;
}

/* Is it in?  Since @begun at the earliest. */
static int goes_in(const struct scene *s, int code, int64_t begun)
{
	if (code > 0 && s->kind != SCENE_ROBUST)
		return LOCKSHM_SYSTEM; /* not its request */
	if (code >= 0)
		victim_inside(s, X, s->victim_ttl == LOCKSHM_FOREVER ? INT64_MAX : begun + s->victim_ttl);
	return code;
}

int loop_acquire(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	int64_t begun = now_ns();

	return goes_in(s, lockshm_loop_acquire(loop, &request, &victim_holds[0], NULL), begun);
}

int has_loop(const struct scene *s)
{
	(void)s;
	return lockshm_loop_open(&loop, seg, -1, NULL);
}

/* And holds the key by it. */
int holds_by_loop(const struct scene *s)
{
	int code = has_loop(s);

	return code ? code : loop_acquire(s);
}

int loop_knows_the_key(const struct scene *s)
{
	int code = holds_by_loop(s);

	victim_inside(s, 0, 0);
	return code < 0 ? code : lockshm_release(&victim_holds[0], 0);
}

/* The same with holds that the service thread tends. */
int holds_tended(const struct scene *s)
{
	also = LOCKSHM_TELL_LOSS;
	return holds_by_loop(s);
}

int tended_knows_the_key(const struct scene *s)
{
	also = LOCKSHM_TELL_LOSS;
	return loop_knows_the_key(s);
}

int waits_to_be_tended(const struct scene *s)
{
	also = LOCKSHM_TELL_LOSS;
	return waits_in_loop(s);
}

/* The key is held, unless a short lease is over already on a slow machine: then the victim has been inside. */
static int begins_to_wait(const struct scene *s, const struct lockshm_request *request, unsigned hold)
{
	int64_t begun = now_ns();
	int code = lockshm_loop_acquire(loop, request, &victim_holds[hold], NULL);

	if (code == LOCKSHM_PENDING)
		return 0;
	if (code >= 0 && hold == 0)
		victim_inside(s, X, request->ttl_ns == LOCKSHM_FOREVER ? INT64_MAX : begun + request->ttl_ns);
	return code >= 0 ? 0 : code;
}

int waits_in_loop(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	int code = has_loop(s);

	return code ? code : begins_to_wait(s, &request, 0);
}

int waits_twice_in_loop(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	int code = waits_in_loop(s);

	return code ? code : begins_to_wait(s, &request, 1);
}

/* Its successor is a wait of the same loop. */
int holds_before_its_loop(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	int code = holds_by_loop(s);

	return code < 0 ? code : begins_to_wait(s, &request, 1);
}

#define BRIEFLY LOCKSHM_MS(10)

/* A grant that is not collected ends soon. */
int waits_for_short_lease(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	int code = has_loop(s);

	request.ttl_ns = BRIEFLY;
	return code ? code : begins_to_wait(s, &request, 0);
}

int waits_briefly_in_loop(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	int code = has_loop(s);

	request.timeout_ns = BRIEFLY;
	return code ? code : begins_to_wait(s, &request, 0);
}

int loop_release(const struct scene *s)
{
	victim_inside(s, 0, 0);
	return lockshm_release(&victim_holds[0], 0);
}

int loop_next(const struct scene *s)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct pollfd p = { .fd = lockshm_loop_fd(loop), .events = POLLIN };
	int64_t begun = now_ns();
	int n;

	if (lockshm_token(&victim_holds[0]))
		return goes_in(s, 0, begun);
	do {
		(void)poll(&p, 1, -1);
		begun = now_ns();
		n = lockshm_loop_next(loop, &outcome);
	} while (n == 0);
	return n < 0 ? n : goes_in(s, outcome.status, begun);
}

/* With an outcome in any case, and without the service thread. */
int loop_acquire_to_the_end(const struct scene *s)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	int64_t end;
	int code = loop_acquire(s);

	for (end = now_ns() + PATIENCE / 2; code == LOCKSHM_PENDING && now_ns() < end; usleep(100))
		if (lockshm_loop_next(loop, &outcome) == 1)
			code = goes_in(s, outcome.status, now_ns());
	return code;
}

/* Puts the wait at the end of the queue again. */
int loop_next_of_lost_grant(const struct scene *s)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	(void)s;
	return lockshm_loop_next(loop, &outcome);
}

int loop_acquire_three(const struct scene *s)
{
	struct lockshm_request request = wanted(s);
	struct lockshm_key keys[3] = { LOCKSHM_MANY_KEY(s->key, X), LOCKSHM_MANY_KEY("second", S),
				       LOCKSHM_MANY_KEY("third", X) };
	int64_t begun = now_ns();
	int code;

	code = lockshm_loop_acquire_many(loop, &request, keys, 3, victim_holds, NULL);
	return code == LOCKSHM_PENDING ? loop_next(s) : goes_in(s, code, begun);
}

int loop_cancel(const struct scene *s)
{
	(void)s;
	return lockshm_loop_cancel(loop, &victim_holds[0]);
}

int loop_close(const struct scene *s)
{
	(void)s;
	return lockshm_loop_close(loop);
}

/* While the service thread is stepped. */
static void await_permission(const struct scene *s)
{
	while (!__atomic_load_n(&s->result->may_go, __ATOMIC_ACQUIRE))
		usleep(100);
}

/* Not for long: a grant that took too long may have gone to the writer, which holds until the victim has ended. */
int loop_next_when_permitted(const struct scene *s)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	int64_t begun;
	int n;

	await_permission(s);
	begun = now_ns();
	n = lockshm_loop_next(loop, &outcome);
	return n == 1 ? goes_in(s, outcome.status, begun) : n;
}

/* ---------------------------------------------------------------- a wait of another process */

/* Shared with the process, of which each round has a new one. */
static struct other_wait {
	int waits;
	int served; /* has held the lock, and released it */
	int code;
	int alone;
	uint64_t token;
} *other;
static pid_t other_pid;

static bool is_mine_alone(const char *key)
{
	static struct seen seen;

	look(key, &seen);
	return seen.holders == 1 && seen.requests[0].pid == getpid();
}

static void take_and_release(const char *key, lockshm_hold_t *hold, int code)
{
	other->code = code;
	if (code < 0)
		return;
	other->token = lockshm_token(hold);
	other->alone = is_mine_alone(key);
	other->code = lockshm_release(hold, 0);
}

static void other_process(const char *key)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct lockshm_request request = request_for(key, X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct pollfd p = { .events = POLLIN };
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	request.timeout_ns = PATIENCE;
	code = lockshm_loop_open(&loop, seg, -1, NULL);
	if (!code)
		code = lockshm_loop_acquire(loop, &request, &hold, NULL);
	__atomic_store_n(&other->waits, 1, __ATOMIC_RELEASE);
	if (code == LOCKSHM_PENDING) {
		p.fd = lockshm_loop_fd(loop);
		while (lockshm_loop_next(loop, &outcome) == 0)
			(void)poll(&p, 1, -1);
		code = outcome.status;
	}
	take_and_release(key, &hold, code);
	__atomic_store_n(&other->served, 1, __ATOMIC_RELEASE);
	_exit(0);
}

static bool is_set(void *flag)
{
	return __atomic_load_n((int *)flag, __ATOMIC_ACQUIRE) != 0;
}

static void another_loop_waits(struct scene *s)
{
	if (!other)
		other = mmap(NULL, sizeof(*other), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(other != MAP_FAILED);
	memset(other, 0, sizeof(*other));
	other_pid = fork();
	ck_assert_int_ge(other_pid, 0);
	if (other_pid == 0)
		other_process(s->key);
	ck_assert(await(is_set, &other->waits));
}

void a_loop_and_others_wait(struct scene *s)
{
	another_loop_waits(s);
	others_wait(s);
}

/* By now a writer behind it has been. */
void the_loop_is_served(struct scene *s, bool stopped)
{
	int status;

	ck_assert_msg(await(is_set, &other->served), "point %u: the wait of a loop gets no outcome", s->point);
	ck_assert_msg(other->code == 0 && other->alone, "point %u: the wait of a loop: %s, %s", s->point,
		      outcome_name(other->code), other->alone ? "alone" : "not alone");
	ck_assert_msg(other->token < s->last_exclusive, "point %u: the wait of a loop was passed", s->point);
	if (stopped)
		return;
	ck_assert_int_eq(waitpid(other_pid, &status, 0), other_pid);
	ck_assert_int_eq(status, 0);
}

/* ---------------------------------------------------------------- the others */

/* Granted, and not collected. */
void holder_leaves_it_to_the_loop(struct scene *s)
{
	others_wait(s);
	holder_lets_go(s, 0);
}

/* The victim's grant ends before it is collected: the holder has the lock again. */
void holder_comes_back(struct scene *s)
{
	struct agent_command again = s->holder->command;

	holder_lets_go(s, 0);
	again.op = AGENT_ACQUIRE;
	again.how = X;
	again.ns = 0;
	again.flags = s->kind == SCENE_PLAIN ? AGENT_PLAIN : ACKNOWLEDGES;
	snprintf(again.key, sizeof(again.key), "%s", s->key);
	ck_code(agent_do(s->holder, again), 0);
	scene_goes_in(s, s->holder);
	s->holder_holds = true;
}

void its_time_is_over(struct scene *s)
{
	others_wait(s);
	pass(now_ns() + 11 * BRIEFLY);
}
