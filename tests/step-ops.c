/* SPDX-License-Identifier: MIT */
/*
 * step-ops.c - the operations that are stepped through, each with the scene it needs
 *
 * "dead" people are new processes that are killed; the other persons stay through all rounds.  A victim's hold is 0, on the
 * round's key.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/queue.h"
#include "fixture.h"
#include "step.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

/* ---------------------------------------------------------------- arranging, by the test */

static struct agent_command wants(const struct scene *s, int mode, int64_t ttl)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .ns = ttl, .flags = LOCKSHM_ACKNOWLEDGE };

	snprintf(c.key, sizeof(c.key), "%s", s->key);
	return c;
}

static void holder_takes(struct scene *s, int mode, int64_t ttl)
{
	ck_code(agent_begin(s->holder, wants(s, mode, ttl)), 0);
	if (ttl == 0)
		scene_goes_in(s, s->holder);
	s->holder_holds = true;
}

static void somebody_holds(struct scene *s)
{
	holder_takes(s, X, 0);
}

static void somebody_reads(struct scene *s)
{
	holder_takes(s, S, 0);
}

static void lease_is_over(struct scene *s)
{
	holder_takes(s, X, LOCKSHM_MS(1));
	pass(s->holder->answer.at_ns + LOCKSHM_MS(12)); /* a lease, and a tick of the coarse clock */
}

/* A new process that takes or waits for the key; killed later by bury(). */
static struct agent *mortal(struct scene *s, int mode)
{
	struct agent *a = agent_inherit();
	int code = agent_begin(a, wants(s, mode, 0));

	ck_assert_int_ge(code, 0); /* or waits */
	return a;
}

static void bury(struct scene *s, struct agent *a)
{
	s->dead[s->n_dead++] = a->pid;
	s->holder_died |= a->command.op == AGENT_ACQUIRE && !a->busy && a->answer.code >= 0;
	agent_kill(a);
	agent_forget(a);
}

static void owner_is_dead_already(struct scene *s)
{
	bury(s, mortal(s, X));
}

static void reader_is_dead_already(struct scene *s)
{
	bury(s, mortal(s, S));
}

/* Holder alive; behind it a dead reader and a dead writer. */
static void dead_wait_behind_the_holder(struct scene *s)
{
	struct agent *r, *w;

	somebody_holds(s);
	r = mortal(s, S);
	w = mortal(s, X);
	bury(s, r);
	bury(s, w);
}

/* Two dead owners of other keys, and of the round's. */
static void much_to_sweep(struct scene *s)
{
	struct agent *h = mortal(s, X), *w = mortal(s, X);

	bury(s, h);
	bury(s, w);
}

/* A dead holder, a dead reader and a dead writer behind it, each of another process. */
static void all_are_dead(struct scene *s)
{
	struct agent *h = mortal(s, X), *r = mortal(s, S), *w = mortal(s, X);

	bury(s, w);
	bury(s, r);
	bury(s, h);
}

static void it_has_cooled_down(struct scene *s)
{
	somebody_holds(s);
	scene_goes_out(s, s->holder);
	ck_code(agent_do(s->holder, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_MS(1) }), 0);
	s->holder_holds = false;
	pass(now_ns() + LOCKSHM_MS(1));
}

/* Every entry is used: knows a key, and is idle. */
static void table_is_full_of_idle(struct scene *s)
{
	lockshm_hold_t hold;
	char key[32];
	unsigned i;

	(void)s;
	for (i = 0; stat_now().locks_known < stat_now().locks; i++) {
		snprintf(key, sizeof(key), "idle-%u", i);
		ck_code(take(&hold, key, X), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
}

/* Every entry has a queue of what is over and was not cleared away. */
static void table_is_full_of_cooled_down(struct scene *s)
{
	static lockshm_hold_t holds[64];
	char key[32];
	unsigned i, n = 0;

	for (i = 0; i < 1000 && stat_now().locks_busy < stat_now().locks; i++) {
		snprintf(key, sizeof(key), "cooled-%u-%u", s->round, i);
		n += take(&holds[n], key, X) == 0;
	}
	ck_assert_uint_eq(n, stat_now().locks);
	while (n-- > 0)
		ck_code(lockshm_release(&holds[n], LOCKSHM_MS(1)), 0);
	pass(now_ns() + LOCKSHM_MS(1));
}

static void clear_table(struct scene *s, bool stopped)
{
	uint32_t i;

	(void)s;
	for (i = 0; !stopped && i < seg->n_locks; i++)
		(void)queue_advance_tail(seg, &seg->entries[i]);
}

/* A process that takes part and has at least @n records. */
static struct agent *mortal_with_records(unsigned n)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = S, .timeout_ns = AGENT_TRY };
	struct agent *a = agent_inherit();
	unsigned i;

	for (i = 0; i < n; i++) {
		c.hold = (int)i;
		snprintf(c.key, sizeof(c.key), "spare-%u", i);
		ck_code(agent_do(a, c), 0);
	}
	for (i = 0; i < n; i++)
		ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = (int)i }), 0);
	return a;
}

/* All at once: whoever joins gives back what the dead left. */
static void slots_are_full_of_dead(struct scene *s)
{
	struct lockshm_stat now = stat_now();
	struct agent *a[8];
	uint32_t i, n = now.owners - now.owners_used;

	ck_assert_uint_le(n, 8);
	for (i = 0; i < n; i++)
		a[i] = mortal_with_records(1);
	for (i = 0; i < n; i++)
		bury(s, a[i]);
}

static void records_are_full_of_dead(struct scene *s)
{
	struct lockshm_stat now = stat_now();
	struct agent *a[8];
	unsigned i, n;

	for (n = 0; now.requests_reserved < now.requests; n++) {
		uint32_t left = now.requests - now.requests_reserved;

		ck_assert_uint_lt(n, 8);
		a[n] = mortal_with_records(left < AGENT_HOLDS ? left : AGENT_HOLDS);
		now = stat_now();
	}
	for (i = 0; i < n; i++)
		bury(s, a[i]);
}

/* Behind the victim, unless its short lease is over already on a slow machine: then not at all. */
static void lines_up(struct scene *s, struct agent *a, int mode)
{
	int code = agent_begin(a, wants(s, mode, 0));

	if (code == AGENT_BLOCKED)
		return;
	ck_assert_int_ge(code, 0);
	ck_assert_int_ne(s->victim_ttl, LOCKSHM_FOREVER);
	s->told_of_overrun |= code == LOCKSHM_TOOK_OVER_EXPIRED;
	s->told_of_death |= code == LOCKSHM_OWNER_DIED;
	if (mode == X)
		s->last_exclusive = a->answer.token;
	scene_goes_in(s, a);
	scene_let_go(s, a);
}

static void others_wait(struct scene *s)
{
	lines_up(s, s->writer, X);
	lines_up(s, s->reader, S);
}

static void readers_wait(struct scene *s)
{
	lines_up(s, s->reader, S);
	lines_up(s, s->writer, X);
}

static void mortal_reads(struct scene *s)
{
	s->mortal = mortal(s, S);
}

/* After the others have queued up, so that none of them clears the dead one away before the victim can. */
static void others_wait_and_mortal_dies(struct scene *s)
{
	others_wait(s);
	bury(s, s->mortal);
}

static void dead_and_living_wait(struct scene *s)
{
	struct agent *first = mortal(s, S), *second = mortal(s, X);

	others_wait(s);
	bury(s, first);
	bury(s, second);
}

/* Beside the victim; its short lease may be over already on a slow machine. */
static void mortal_dies(struct scene *s)
{
	bury(s, s->mortal);
}

static void another_reads(struct scene *s)
{
	int code = agent_begin(s->holder, wants(s, S, 0));

	ck_assert_msg(code == 0 || (code == LOCKSHM_TOOK_OVER_EXPIRED && s->victim_ttl != LOCKSHM_FOREVER), "%s",
		      outcome_name(code));
	s->told_of_overrun |= code == LOCKSHM_TOOK_OVER_EXPIRED;
	s->holder_holds = true;
}

static void holder_lets_go(struct scene *s, pid_t victim)
{
	(void)victim;
	if (s->holder_holds) {
		scene_goes_out(s, s->holder);
		ck_assert_int_ge(agent_release(s->holder), LOCKSHM_LOST); /* an operator may have ended it */
	}
	s->holder_holds = false;
}

/* Those who wait before a second victim, until nobody does. */
static void others_are_served(struct scene *s, pid_t victim)
{
	struct agent *const all[] = { s->writer, s->reader };
	int64_t end = now_ns() + PATIENCE;
	unsigned i;

	holder_lets_go(s, victim);
	while ((s->writer->busy || s->reader->busy) && now_ns() < end)
		for (i = 0; i < 2; i++)
			if (all[i]->busy && scene_granted(s, all[i], victim))
				scene_let_go(s, all[i]);
}

static void signal_arrives(struct scene *s, pid_t victim)
{
	(void)s;
	kill(victim, SIGUSR1);
}

/* ---------------------------------------------------------------- acting, by the victim */

static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;

void victim_inside(const struct scene *s, int mode, int64_t until)
{
	struct victim_result *r = s->result;
	int64_t now = now_ns();
	struct span *last = r->n_spans ? &r->spans[r->n_spans - 1] : NULL;

	if (last && last->until > now)
		last->until = now;
	if (mode)
		r->spans[r->n_spans++] = (struct span){ .who = getpid(),
							.mode = mode,
							.token = lockshm_token(&victim_holds[0]),
							.from = now,
							.until = until };
}

static int64_t lease_end(int64_t begun, int64_t ttl)
{
	return ttl == LOCKSHM_FOREVER ? INT64_MAX : begun + ttl;
}

static int go_in(const struct scene *s, lockshm_t *segment, struct lockshm_request *request)
{
	int64_t begun = now_ns();
	int code;

	request->ttl_ns = s->victim_ttl;
	code = lockshm_acquire(segment, request, &victim_holds[0]);
	if (code >= 0)
		victim_inside(s, request->mode, lease_end(begun, s->victim_ttl));
	return code;
}

static int victim_takes(const struct scene *s, int mode, int64_t timeout)
{
	struct lockshm_request request = wish(s->key, mode);

	request.timeout_ns = timeout;
	request.tag = "victim";
	return go_in(s, seg, &request);
}

/* Takes part already, knows the key, and holds nothing. */
static int joined(const struct scene *s)
{
	lockshm_hold_t hold;
	struct lockshm_request request = wish("warm", S);
	int code;

	(void)s;
	code = lockshm_acquire(seg, &request, &hold);
	return code < 0 ? code : lockshm_release(&hold, 0);
}

static int release(const struct scene *s)
{
	victim_inside(s, 0, 0);
	return lockshm_release(&victim_holds[0], 0);
}

static int knows_the_key(const struct scene *s)
{
	int code = victim_takes(s, X, 0);

	return code < 0 ? code : release(s);
}

static int holds_exclusive(const struct scene *s)
{
	return victim_takes(s, X, 0);
}

static int holds_shared(const struct scene *s)
{
	return victim_takes(s, S, 0);
}

static int try_exclusive(const struct scene *s)
{
	return victim_takes(s, X, 0);
}

static int try_shared(const struct scene *s)
{
	return victim_takes(s, S, 0);
}

static int acquire_exclusive(const struct scene *s)
{
	return victim_takes(s, X, PATIENCE);
}

static int acquire_shared(const struct scene *s)
{
	return victim_takes(s, S, PATIENCE);
}

static int acquire_briefly(const struct scene *s)
{
	return victim_takes(s, X, LOCKSHM_MS(2));
}

static void cancel_myself(int number)
{
	(void)number;
	lockshm_cancel(&canceller);
}

static int ready_to_cancel(const struct scene *s)
{
	signal(SIGUSR1, cancel_myself);
	return joined(s);
}

static int acquire_until_cancelled(const struct scene *s)
{
	struct lockshm_request request = wish(s->key, X);

	request.timeout_ns = PATIENCE;
	request.canceller = &canceller;
	return go_in(s, seg, &request);
}

static int acquire_three(const struct scene *s)
{
	struct lockshm_request request = wish(s->key, X);
	struct lockshm_key keys[3] = { { s->key, strlen(s->key), X }, { "second", 6, S }, { "third", 5, X } };
	int64_t begun = now_ns();
	int code;

	request.ttl_ns = s->victim_ttl;
	request.timeout_ns = PATIENCE;
	request.flags = LOCKSHM_ACKNOWLEDGE; /* the others' keys, too */
	code = lockshm_acquire_many(seg, &request, keys, 3, victim_holds);
	if (code >= 0)
		victim_inside(s, X, lease_end(begun, s->victim_ttl));
	return code;
}

static int release_three(const struct scene *s)
{
	victim_inside(s, 0, 0);
	return lockshm_release_many(victim_holds, 3);
}

/* Starts the thread that renews. */
static int acquire_renewed(const struct scene *s)
{
	struct lockshm_request request = wish(s->key, X);

	request.flags = LOCKSHM_AUTO_RENEW;
	request.ttl_ns = s->victim_ttl == LOCKSHM_FOREVER ? LOCKSHM_SECONDS(60) : s->victim_ttl;
	return lockshm_acquire(seg, &request, &victim_holds[0]);
}

static int release_to_cool(const struct scene *s)
{
	victim_inside(s, 0, 0);
	return lockshm_release(&victim_holds[0], LOCKSHM_MS(1));
}

static int renew(const struct scene *s)
{
	int64_t begun = now_ns();
	int code = lockshm_renew(&victim_holds[0], s->victim_ttl, LOCKSHM_RENEW_RESET);

	if (code >= 0)
		victim_inside(s, X, lease_end(begun, s->victim_ttl));
	return code;
}

static int renew_shorter(const struct scene *s)
{
	int64_t until = s->result->spans[0].until, soon = now_ns() + LOCKSHM_MS(1);

	victim_inside(s, X, soon < until ? soon : until);
	return lockshm_renew(&victim_holds[0], LOCKSHM_MS(1), LOCKSHM_RENEW_RESET);
}

static int upgrade(const struct scene *s)
{
	int64_t until = s->result->spans[0].until;
	int code = lockshm_upgrade(&victim_holds[0]);

	if (code >= 0)
		victim_inside(s, X, until);
	return code;
}

static int downgrade(const struct scene *s)
{
	victim_inside(s, S, s->result->spans[0].until);
	return lockshm_downgrade(&victim_holds[0]);
}

static int acknowledge(const struct scene *s)
{
	(void)s;
	return lockshm_acknowledge(&victim_holds[0]);
}

static int move_to_process(const struct scene *s)
{
	(void)s;
	return lockshm_move(&victim_holds[0], LOCKSHM_TO_PROCESS);
}

static int attach(const struct scene *s)
{
	struct lockshm_request request = wish(s->key, X);
	lockshm_t *own;
	int code = lockshm_open(&own, seg_name, 0, NULL);

	request.timeout_ns = PATIENCE;
	return code ? code : go_in(s, own, &request);
}

static int detach(const struct scene *s)
{
	victim_inside(s, 0, 0);
	return lockshm_close(seg);
}

static int holds_for_the_process(const struct scene *s)
{
	int code = victim_takes(s, X, 0);

	return code < 0 ? code : lockshm_move(&victim_holds[0], LOCKSHM_TO_PROCESS);
}

static int move_to_caller(const struct scene *s)
{
	(void)s;
	return lockshm_move(&victim_holds[0], LOCKSHM_TO_CALLER);
}

/* Also those of the chunk, so that one more needs another chunk. */
static int used_up_its_records(const struct scene *s)
{
	static lockshm_hold_t more[8];
	char key[32];
	uint32_t i;
	int code = 0;

	(void)s;
	for (i = 0; code == 0 && i < seg->chunk_size; i++) {
		snprintf(key, sizeof(key), "more-%u", i);
		code = take(&more[i], key, S);
	}
	return code;
}

static int end_hold(const struct scene *s)
{
	return lockshm_end_hold(seg, s->key, strlen(s->key), s->holder->answer.token);
}

/* ---- cancel, from another thread of the victim */

static void *wait_for_the_key(void *arg)
{
	static lockshm_hold_t hold;
	const struct scene *s = arg;
	struct lockshm_request request = wish(s->key, X);

	request.ttl_ns = s->victim_ttl;
	request.timeout_ns = PATIENCE;
	request.canceller = &canceller;
	(void)lockshm_acquire(seg, &request, &hold);
	return NULL;
}

static int has_waiters(const struct lockshm_lock_info *lock, void *arg)
{
	(void)arg;
	return lock->waiters > 0;
}

static int thread_waits(const struct scene *s)
{
	pthread_t thread;

	if (joined(s) != 0 || pthread_create(&thread, NULL, wait_for_the_key, (void *)(uintptr_t)s) != 0)
		return -1;
	while (lockshm_show_lock(seg, s->key, strlen(s->key), has_waiters, NULL) != 1)
		sched_yield();
	return 0;
}

static int cancel_the_thread(const struct scene *s)
{
	(void)s;
	return lockshm_cancel(&canceller);
}

static int sweep(const struct scene *s)
{
	(void)s;
	return lockshm_sweep(seg);
}

/* The dead die after the victim has joined, which would clear them away. */
const struct step_op step_behind = { .name = "acquire-behind", .prepare = joined, .act = acquire_exclusive,
				     .unblock = others_are_served };

const struct step_op step_ops[] = {
	{ .name = "acquire-free", .prepare = knows_the_key, .act = try_exclusive },
	{ .name = "acquire-shared", .arrange = somebody_reads, .prepare = joined, .act = try_shared, .free_handed = true },
	{ .name = "acquire-new-key", .prepare = joined, .act = try_exclusive, .fresh_key = true },
	{ .name = "acquire-reclaim-idle-entry", .arrange = table_is_full_of_idle, .prepare = joined, .act = try_exclusive,
	  .fresh_key = true },
	{ .name = "acquire-reclaim-used-entry", .arrange = table_is_full_of_cooled_down, .prepare = joined,
	  .act = try_exclusive, .after = clear_table, .fresh_key = true },
	{ .name = "acquire-reclaim-slot", .arrange = slots_are_full_of_dead, .act = try_exclusive },
	{ .name = "acquire-reclaim-records", .prepare = used_up_its_records, .surround = records_are_full_of_dead,
	  .act = try_exclusive, .requests = 64 },
	{ .name = "attach", .act = attach, .free_handed = true },
	{ .name = "acquire-contended", .arrange = somebody_holds, .prepare = joined, .act = acquire_exclusive,
	  .unblock = holder_lets_go, .free_handed = true },
	{ .name = "acquire-shared-contended", .arrange = somebody_holds, .prepare = joined, .act = acquire_shared,
	  .unblock = holder_lets_go, .free_handed = true },
	{ .name = "acquire-behind-expired", .arrange = lease_is_over, .prepare = joined, .act = acquire_exclusive,
	  .free_handed = true },
	{ .name = "acquire-behind-dead", .prepare = joined, .surround = owner_is_dead_already, .act = acquire_exclusive,
	  .free_handed = true },
	{ .name = "acquire-shared-behind-dead", .prepare = joined, .surround = reader_is_dead_already, .act = try_shared,
	  .free_handed = true },
	{ .name = "acquire-behind-dead-waiters", .prepare = joined, .surround = dead_wait_behind_the_holder,
	  .act = acquire_exclusive, .unblock = holder_lets_go, .free_handed = true },
	{ .name = "acquire-behind-many-dead", .prepare = joined, .surround = all_are_dead, .act = acquire_exclusive,
	  .free_handed = true },
	{ .name = "acquire-after-cool-down", .arrange = it_has_cooled_down, .prepare = joined, .act = try_exclusive,
	  .free_handed = true },
	{ .name = "acquire-many", .arrange = somebody_holds, .prepare = joined, .act = acquire_three,
	  .unblock = holder_lets_go },
	{ .name = "acquire-renewed", .prepare = joined, .act = acquire_renewed, .threads = true },
	{ .name = "time-out", .arrange = somebody_holds, .prepare = joined, .act = acquire_briefly, .outcome = LOCKSHM_TIMEOUT, .free_handed = true },
	{ .name = "cancel", .arrange = somebody_holds, .prepare = ready_to_cancel, .act = acquire_until_cancelled,
	  .unblock = signal_arrives, .outcome = LOCKSHM_CANCELLED },
	{ .name = "cancel-a-thread", .arrange = somebody_holds, .prepare = thread_waits, .act = cancel_the_thread,
	  .threads = true },
	{ .name = "release", .prepare = holds_exclusive, .act = release, .ends_hold = true },
	{ .name = "release-with-successors", .prepare = holds_exclusive, .surround = others_wait, .act = release,
	  .ends_hold = true },
	{ .name = "release-to-readers", .prepare = holds_exclusive, .surround = readers_wait, .act = release,
	  .ends_hold = true },
	{ .name = "release-with-dead-predecessor", .arrange = mortal_reads, .prepare = holds_shared,
	  .surround = others_wait_and_mortal_dies, .act = release, .ends_hold = true },
	{ .name = "release-with-dead-successors", .prepare = holds_exclusive, .surround = dead_and_living_wait,
	  .act = release, .ends_hold = true },
	{ .name = "release-shared-first", .prepare = holds_shared, .surround = another_reads, .act = release,
	  .ends_hold = true },
	{ .name = "release-many", .prepare = acquire_three, .surround = others_wait, .act = release_three },
	{ .name = "cool-down", .prepare = holds_exclusive, .act = release_to_cool, .ends_hold = true },
	{ .name = "cool-down-with-successors", .prepare = holds_exclusive, .surround = others_wait, .act = release_to_cool,
	  .ends_hold = true },
	{ .name = "renew", .prepare = holds_exclusive, .surround = others_wait, .act = renew },
	{ .name = "renew-shorter", .prepare = holds_exclusive, .surround = others_wait, .act = renew_shorter },
	{ .name = "upgrade", .prepare = holds_shared, .act = upgrade },
	{ .name = "upgrade-refused", .prepare = holds_shared, .surround = another_reads, .act = upgrade,
	  .outcome = LOCKSHM_BUSY },
	{ .name = "upgrade-before-waiters", .prepare = holds_shared, .surround = others_wait, .act = upgrade,
	  .outcome = LOCKSHM_BUSY },
	{ .name = "upgrade-with-dead-reader", .arrange = mortal_reads, .prepare = holds_shared, .surround = mortal_dies,
	  .act = upgrade },
	{ .name = "downgrade", .prepare = holds_exclusive, .surround = readers_wait, .act = downgrade },
	{ .name = "acknowledge", .arrange = owner_is_dead_already, .prepare = holds_exclusive, .act = acknowledge },
	{ .name = "move-to-process", .prepare = holds_exclusive, .surround = others_wait, .act = move_to_process,
	  .threads = true },
	{ .name = "move-to-caller", .prepare = holds_for_the_process, .surround = others_wait, .act = move_to_caller,
	  .threads = true },
	{ .name = "end-hold", .arrange = somebody_holds, .prepare = joined, .surround = others_wait, .act = end_hold,
	  .ends_anothers = true },
	{ .name = "detach", .prepare = holds_exclusive, .surround = others_wait, .act = detach },
	{ .name = "detach-idle", .prepare = joined, .act = detach, .free_handed = true },
	{ .name = "sweep", .prepare = joined, .surround = much_to_sweep, .act = sweep, .free_handed = true },
};
const unsigned n_step_ops = sizeof(step_ops) / sizeof(step_ops[0]);
