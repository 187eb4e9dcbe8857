/* SPDX-License-Identifier: MIT */
/*
 * step-ops.c - the operations that are stepped through, each with the scene it needs
 *
 * The dead are new processes that are killed; the other subjects stay through all rounds.  A victim's hold is 0, on
 * the round's key.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hold/lock-object.h"
#include "lock/queue.h"
#include "support/fixture.h"
#include "step-arrange.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

/* ---------------------------------------------------------------- acting, by the victim */

static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
static lockshm_lock_t object;
static bool by_object;

lockshm_hold_t *victim_hold(void)
{
	return by_object ? lockshm_lock_hold(&object) : &victim_holds[0];
}

/* Without lockshm_lock_hold(), behind which an unlock takes another path. */
static uint64_t token_now(void)
{
	return by_object ? seg->token_base + object_of(&object)->hold.grant.ticket : lockshm_token(&victim_holds[0]);
}

void victim_inside(const struct scene *s, int mode, int64_t until)
{
	struct victim_result *r = s->result;
	int64_t now = now_ns();
	struct span *last = r->n_spans ? &r->spans[r->n_spans - 1] : NULL;

	if (last && last->until > now)
		last->until = now;
	if (mode)
		r->spans[r->n_spans++] = (struct span){ .pid = getpid(),
							.mode = mode,
							.token = token_now(),
							.from = now,
							.until = until };
}

static int64_t lease_end(int64_t begun, int64_t ttl)
{
	return ttl == LOCKSHM_FOREVER ? INT64_MAX : begun + ttl;
}

/* To be added to the flags of every request of the victim. */
static unsigned victim_flags(const struct scene *s)
{
	return s->kind == SCENE_ROBUST ? LOCKSHM_ROBUST : 0;
}

static int go_in(const struct scene *s, lockshm_t *segment, struct lockshm_request *request)
{
	int64_t begun = now_ns();
	int code;

	request->flags |= victim_flags(s);
	request->ttl_ns = s->victim_ttl;
	code = lockshm_acquire(segment, request, &victim_holds[0]);
	if (code > 0 && !(request->flags & LOCKSHM_ROBUST))
		return LOCKSHM_SYSTEM; /* not its request */
	if (code >= 0)
		victim_inside(s, request->mode, lease_end(begun, s->victim_ttl));
	return code;
}

static int victim_takes(const struct scene *s, int mode, int64_t timeout)
{
	struct lockshm_request request = request_for(s->key, mode);

	request.timeout_ns = timeout;
	request.tag = "victim";
	return go_in(s, seg, &request);
}

/* Takes part already, knows the key, and holds nothing. */
static int joined(const struct scene *s)
{
	lockshm_hold_t hold;
	struct lockshm_request request = request_for("warm", S);
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

static int barge(const struct scene *s)
{
	struct lockshm_request request = request_for(s->key, X);

	request.timeout_ns = 0;
	request.flags = LOCKSHM_BARGE;
	request.tag = "victim";
	return go_in(s, seg, &request);
}

/* Resumes its bargeable hold, unless the next waiter was faster. */
static int release_and_barge(const struct scene *s)
{
	int code = release(s);

	code = code < 0 ? code : barge(s);
	return code == LOCKSHM_BUSY ? 0 : code;
}

static int holds_shared(const struct scene *s)
{
	return victim_takes(s, S, 0);
}

static int knows_the_key_as_a_reader(const struct scene *s)
{
	int code = victim_takes(s, S, 0);

	return code < 0 ? code : release(s);
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
	struct lockshm_request request = request_for(s->key, X);

	request.timeout_ns = PATIENCE;
	request.canceller = &canceller;
	return go_in(s, seg, &request);
}

static int acquire_three(const struct scene *s)
{
	struct lockshm_request request = request_for(s->key, X);
	struct lockshm_key keys[3] = { LOCKSHM_MANY_KEY(s->key, X), LOCKSHM_MANY_KEY("second", S),
				       LOCKSHM_MANY_KEY("third", X) };
	int64_t begun = now_ns();
	int code;

	request.ttl_ns = s->victim_ttl;
	request.timeout_ns = PATIENCE;
	request.flags = s->kind == SCENE_ROBUST ? LOCKSHM_ROBUST : 0;
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
	struct lockshm_request request = request_for(s->key, X);

	request.flags = LOCKSHM_AUTO_RENEW | victim_flags(s);
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
	int code = lockshm_renew(&victim_holds[0], s->victim_ttl);

	if (code >= 0)
		victim_inside(s, X, lease_end(begun, s->victim_ttl));
	return code;
}

/* A victim that is killed must not seem to have overrun. */
static int renew_shorter(const struct scene *s)
{
	int64_t ttl = s->victim_ttl == LOCKSHM_FOREVER ? LOCKSHM_SECONDS(60) : LOCKSHM_MS(1);
	int64_t until = s->result->spans[0].until, soon = now_ns() + ttl;

	victim_inside(s, X, soon < until ? soon : until);
	return lockshm_renew(&victim_holds[0], ttl);
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

static int previous(const struct scene *s)
{
	struct lockshm_damage mark;

	(void)s;
	return lockshm_damage(&victim_holds[0], &mark);
}

/* An operator's, without the lock. */
static int acknowledge_marks(const struct scene *s)
{
	size_t cleared;

	return clear_marks(seg, LOCKSHM_LIST_KEY, s->key, strlen(s->key), 0, &cleared);
}

static int move_to_process(const struct scene *s)
{
	(void)s;
	return lockshm_move(&victim_holds[0], LOCKSHM_TO_PROCESS);
}

/* The handle that a victim has inherited, so that it makes one of its own. */
static int gave_it_back(const struct scene *s)
{
	(void)s;
	return lockshm_close(seg);
}

static int attach(const struct scene *s)
{
	struct lockshm_request request = request_for(s->key, X);
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
	for (i = 0; code >= 0 && i < seg->chunk_size; i++) {
		snprintf(key, sizeof(key), "more-%u", i);
		code = take(&more[i], key, S);
	}
	return code;
}

static int end_hold(const struct scene *s)
{
	return lockshm_end_hold(seg, s->key, strlen(s->key), s->holder->answer.token);
}

/* ---- lock objects */

static int object_of_the_key(const struct scene *s, int mode)
{
	struct lockshm_request request = request_for(s->key, mode);

	request.ttl_ns = s->victim_ttl;
	request.timeout_ns = PATIENCE;
	request.tag = "victim";
	request.flags = victim_flags(s);
	by_object = true;
	return lockshm_lock_init(&object, seg, &request);
}

static int lock_in_mode(const struct scene *s, int mode)
{
	int64_t begun = now_ns();
	int code = lockshm_lock(&object, seg);

	if (code > 0 && s->kind != SCENE_ROBUST)
		return LOCKSHM_SYSTEM;
	if (code >= 0)
		victim_inside(s, mode, lease_end(begun, s->victim_ttl));
	return code;
}

static int lock(const struct scene *s)
{
	return lock_in_mode(s, X);
}

static int unlock(const struct scene *s)
{
	victim_inside(s, 0, 0);
	return lockshm_unlock(&object);
}

static int has_object(const struct scene *s)
{
	int code = object_of_the_key(s, X);

	return code ? code : joined(s);
}

/* The object remembers its record and the entry. */
static int has_used_object(const struct scene *s)
{
	int code = object_of_the_key(s, X);

	code = code < 0 ? code : lock(s);
	return code < 0 ? code : unlock(s);
}

static int holds_by_object(const struct scene *s)
{
	int code = has_used_object(s);

	return code < 0 ? code : lock(s);
}

static int lock_shared(const struct scene *s)
{
	return lock_in_mode(s, S);
}

static int reads_by_object(const struct scene *s)
{
	int code = object_of_the_key(s, S);

	return code < 0 ? code : lock_shared(s);
}

static int has_read_by_object(const struct scene *s)
{
	int code = reads_by_object(s);

	return code < 0 ? code : unlock(s);
}

/* ---- cancel, from another thread of the victim */

static void *wait_for_the_key(void *arg)
{
	static lockshm_hold_t hold;
	const struct scene *s = arg;
	struct lockshm_request request = request_for(s->key, X);

	request.ttl_ns = s->victim_ttl;
	request.timeout_ns = PATIENCE;
	request.flags = victim_flags(s);
	request.canceller = &canceller;
	(void)!lockshm_acquire(seg, &request, &hold);
	return NULL;
}

static int thread_waits(const struct scene *s)
{
	struct lockshm_row row;
	pthread_t thread;

	if (joined(s) != 0 || pthread_create(&thread, NULL, wait_for_the_key, (void *)(uintptr_t)s) != 0)
		return -1;
	while (key_row(seg, s->key, strlen(s->key), &row) != 0 || row.waiters == 0)
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
	return lockshm_sweep(seg, NULL);
}

/* They die after the victim has joined, since its join would reap them. */
const struct step_op step_behind = { .name = "acquire-behind", .prepare = joined, .act = acquire_exclusive,
				     .unblock = others_are_served };

const struct step_op step_ops[] = {
	{ .name = "acquire-free", .prepare = knows_the_key, .act = try_exclusive },
	{ .name = "acquire-shared", .arrange = key_is_read, .prepare = joined, .act = try_shared, .free_handed = true },
	{ .name = "acquire-shared-known", .arrange = key_is_read, .prepare = knows_the_key_as_a_reader, .act = try_shared },
	{ .name = "acquire-new-key", .prepare = joined, .act = try_exclusive, .fresh_key = true },
	{ .name = "acquire-reclaim-idle-entry", .arrange = table_is_full_of_idle, .prepare = joined, .act = try_exclusive,
	  .fresh_key = true },
	{ .name = "acquire-reclaim-used-entry", .arrange = table_is_full_of_cooled_down, .prepare = joined,
	  .act = try_exclusive, .after = clear_table, .fresh_key = true },
	{ .name = "acquire-reclaim-slot", .arrange = slots_are_full_of_dead, .act = try_exclusive },
	{ .name = "acquire-reclaim-records", .prepare = used_up_its_records, .surround = records_are_full_of_dead,
	  .act = try_exclusive, .requests = 64 },
	{ .name = "lock-free", .prepare = has_used_object, .act = lock },
	{ .name = "lock-first", .prepare = has_object, .act = lock, .free_handed = true },
	{ .name = "lock-contended", .arrange = key_is_held, .prepare = has_object, .act = lock,
	  .unblock = holder_lets_go, .free_handed = true },
	{ .name = "lock-shared-beside", .arrange = key_is_read, .prepare = has_read_by_object, .act = lock_shared },
	{ .name = "unlock-shared-last", .arrange = key_is_read, .prepare = reads_by_object, .act = unlock,
	  .ends_hold = true },
	{ .name = "unlock", .prepare = holds_by_object, .act = unlock, .ends_hold = true },
	{ .name = "unlock-with-successors", .prepare = holds_by_object, .surround = others_wait, .act = unlock,
	  .ends_hold = true },
	{ .name = "unlock-shared-first", .prepare = reads_by_object, .surround = another_reads, .act = unlock,
	  .ends_hold = true },
	{ .name = "attach", .prepare = gave_it_back, .act = attach, .free_handed = true },
	{ .name = "attach-again", .act = attach, .free_handed = true },
	{ .name = "create", .act = create, .after = others_use_the_name, .free_handed = true,
	  .life = true },
	{ .name = "create-or-open", .act = create_or_open, .after = others_use_the_name, .free_handed = true,
	  .life = true },
	{ .name = "destroy", .arrange = another_segment, .act = destroy, .after = others_use_the_name },
	{ .name = "acquire-contended", .arrange = key_is_held, .prepare = joined, .act = acquire_exclusive,
	  .unblock = holder_lets_go, .free_handed = true, .enters = true },
	{ .name = "acquire-shared-contended", .arrange = key_is_held, .prepare = joined, .act = acquire_shared,
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
	{ .name = "try-refused", .arrange = key_is_read, .prepare = joined, .act = try_exclusive, .outcome = LOCKSHM_BUSY,
	  .free_handed = true },
	{ .name = "try-behind-dead-waiters", .prepare = joined, .surround = dead_wait_behind_the_holder, .act = try_exclusive,
	  .outcome = LOCKSHM_BUSY, .free_handed = true },
	{ .name = "acquire-many", .arrange = key_is_held, .prepare = joined, .act = acquire_three,
	  .unblock = holder_lets_go, .enters = true },
	{ .name = "acquire-many-free", .prepare = joined, .act = acquire_three, .enters = true },
	{ .name = "acquire-renewed", .prepare = joined, .act = acquire_renewed, .threads = true, .renews = true },
	{ .name = "time-out", .arrange = key_is_held, .prepare = joined, .act = acquire_briefly,
	  .outcome = LOCKSHM_TIMEOUT, .free_handed = true },
	{ .name = "cancel", .arrange = key_is_held, .prepare = ready_to_cancel, .act = acquire_until_cancelled,
	  .unblock = signal_arrives, .outcome = LOCKSHM_CANCELLED },
	{ .name = "cancel-a-thread", .arrange = key_is_held, .prepare = thread_waits, .act = cancel_the_thread,
	  .threads = true },
	{ .name = "release", .prepare = holds_exclusive, .act = release, .ends_hold = true },
	{ .name = "release-with-successors", .prepare = holds_exclusive, .surround = others_wait, .act = release,
	  .ends_hold = true },
	{ .name = "release-to-readers", .prepare = holds_exclusive, .surround = readers_wait, .act = release,
	  .ends_hold = true },
	{ .name = "release-to-many-readers", .prepare = holds_exclusive, .surround = many_readers_wait, .act = release,
	  .after = many_were_served, .ends_hold = true, .of_loop = true, .requests = 2048, .owners = 128 },
	{ .name = "reader-of-many", .arrange = key_is_held_before_many, .prepare = joined, .act = acquire_shared,
	  .unblock = holder_lets_go, .after = many_were_served, .of_loop = true, .requests = 2048, .owners = 128 },
	{ .name = "release-to-linger", .prepare = barge, .surround = others_wait, .act = release, .ends_hold = true },
	{ .name = "release-to-linger-before-dead", .prepare = barge, .surround = dead_and_living_wait, .act = release,
	  .ends_hold = true },
	{ .name = "linger-and-barge", .prepare = barge, .surround = others_wait, .act = release_and_barge },
	{ .name = "linger-and-resume", .prepare = barge, .surround = others_wait_stopped, .act = release_and_barge },
	{ .name = "release-with-dead-predecessor", .arrange = mortal_reads, .prepare = holds_shared,
	  .surround = others_wait_and_mortal_dies, .act = release, .ends_hold = true },
	{ .name = "release-with-dead-successors", .prepare = holds_exclusive, .surround = dead_and_living_wait,
	  .act = release, .ends_hold = true },
	{ .name = "release-shared-first", .prepare = holds_shared, .surround = another_reads, .act = release,
	  .ends_hold = true },
	{ .name = "release-shared-last", .arrange = key_is_read, .prepare = holds_shared, .act = release,
	  .ends_hold = true },
	{ .name = "release-shared-between", .arrange = mortal_reads, .prepare = holds_shared,
	  .surround = another_reads_and_mortal_dies, .act = release, .ends_hold = true },
	{ .name = "release-shared-before-waiters", .arrange = key_is_read, .prepare = holds_shared, .surround = others_wait,
	  .act = release, .ends_hold = true },
	{ .name = "release-many", .prepare = acquire_three, .surround = others_wait, .act = release_three },
	{ .name = "cool-down", .prepare = holds_exclusive, .act = release_to_cool, .ends_hold = true },
	{ .name = "cool-down-with-successors", .prepare = holds_exclusive, .surround = others_wait, .act = release_to_cool,
	  .ends_hold = true },
	{ .name = "renew", .prepare = holds_exclusive, .surround = others_wait, .act = renew, .keeps_hold = true },
	{ .name = "renew-shorter", .prepare = holds_exclusive, .surround = others_wait, .act = renew_shorter,
	  .keeps_hold = true },
	{ .name = "upgrade", .prepare = holds_shared, .act = upgrade, .keeps_hold = true },
	{ .name = "upgrade-refused", .prepare = holds_shared, .surround = another_reads, .act = upgrade,
	  .outcome = LOCKSHM_BUSY, .keeps_hold = true },
	{ .name = "upgrade-before-waiters", .prepare = holds_shared, .surround = others_wait, .act = upgrade,
	  .outcome = LOCKSHM_BUSY, .keeps_hold = true },
	{ .name = "upgrade-with-dead-reader", .arrange = mortal_reads, .prepare = holds_shared, .surround = mortal_dies,
	  .act = upgrade, .keeps_hold = true },
	{ .name = "downgrade", .prepare = holds_exclusive, .surround = readers_wait, .act = downgrade, .keeps_hold = true },
	{ .name = "acknowledge", .arrange = owner_is_dead_already, .prepare = holds_exclusive, .act = acknowledge,
	  .keeps_hold = true },
	{ .name = "damage", .arrange = owner_is_dead_already, .prepare = holds_exclusive, .act = previous,
	  .keeps_hold = true },
	{ .name = "acknowledge-marks", .arrange = a_mark_is_left, .prepare = joined, .act = acknowledge_marks,
	  .clears_marks = true },
	{ .name = "move-to-process", .prepare = holds_exclusive, .surround = others_wait, .act = move_to_process,
	  .threads = true, .keeps_hold = true },
	{ .name = "move-to-caller", .prepare = holds_for_the_process, .surround = others_wait, .act = move_to_caller,
	  .threads = true, .keeps_hold = true },
	{ .name = "end-hold", .arrange = key_is_held, .prepare = joined, .surround = others_wait, .act = end_hold,
	  .ends_anothers = true },
	{ .name = "detach", .prepare = holds_exclusive, .surround = others_wait, .act = detach, .like_a_death = true },
	{ .name = "detach-idle", .prepare = joined, .act = detach, .free_handed = true },
	{ .name = "detach-and-replaced", .prepare = joined, .act = detach, .after = others_take_its_place },
	{ .name = "sweep", .prepare = joined, .surround = much_to_sweep, .act = sweep },
	{ .name = "loop-acquire-free", .prepare = loop_knows_the_key, .act = loop_acquire, .of_loop = true,
	  .threads = true },
	{ .name = "loop-acquire-tended", .prepare = tended_knows_the_key, .act = loop_acquire, .of_loop = true,
	  .threads = true },
	{ .name = "loop-next-tended", .arrange = key_is_held, .prepare = waits_to_be_tended, .act = loop_next,
	  .unblock = holder_lets_go, .of_loop = true, .threads = true, .enters = true },
	{ .name = "loop-release-tended", .prepare = holds_tended, .surround = others_wait, .act = loop_release,
	  .of_loop = true, .threads = true, .ends_hold = true },
	{ .name = "loop-acquire-held", .arrange = key_is_held, .prepare = has_loop, .act = loop_acquire,
	  .outcome = LOCKSHM_PENDING, .of_loop = true, .threads = true, .free_handed = true },
	{ .name = "loop-acquire-many", .arrange = key_is_held, .prepare = has_loop, .act = loop_acquire_three,
	  .unblock = holder_lets_go, .of_loop = true, .threads = true, .enters = true },
	{ .name = "loop-next", .arrange = key_is_held, .prepare = waits_in_loop, .act = loop_next,
	  .unblock = holder_lets_go, .of_loop = true, .threads = true, .enters = true },
	{ .name = "loop-next-of-lost-grant", .arrange = key_is_held, .prepare = waits_for_short_lease,
	  .surround = holder_comes_back, .act = loop_next_of_lost_grant, .of_loop = true, .threads = true },
	{ .name = "loop-cancel", .arrange = key_is_held, .prepare = waits_in_loop, .surround = others_wait,
	  .act = loop_cancel, .of_loop = true, .threads = true },
	{ .name = "loop-cancel-granted", .arrange = key_is_held, .prepare = waits_in_loop,
	  .surround = holder_leaves_it_to_the_loop, .act = loop_cancel, .of_loop = true, .threads = true },
	{ .name = "loop-close", .arrange = key_is_held, .prepare = waits_twice_in_loop, .surround = others_wait,
	  .act = loop_close, .of_loop = true, .threads = true },
	{ .name = "loop-close-granted", .arrange = key_is_held, .prepare = waits_twice_in_loop,
	  .surround = holder_leaves_it_to_the_loop, .act = loop_close, .of_loop = true, .threads = true },
	{ .name = "loop-release", .prepare = holds_by_loop, .surround = others_wait, .act = loop_release,
	  .of_loop = true, .threads = true, .ends_hold = true },
	{ .name = "loop-release-to-itself", .prepare = holds_before_its_loop, .surround = others_wait,
	  .act = loop_release, .of_loop = true, .threads = true, .ends_hold = true },
	{ .name = "release-to-loop", .prepare = holds_exclusive, .surround = a_loop_and_others_wait, .act = release,
	  .after = the_loop_is_served, .of_loop = true, .ends_hold = true },
	{ .name = "release-to-linger-before-loop", .prepare = barge, .surround = a_loop_and_others_wait, .act = release,
	  .after = the_loop_is_served, .of_loop = true, .ends_hold = true },
	{ .name = "service-answers-doorbell", .arrange = key_is_held, .prepare = waits_in_loop,
	  .surround = holder_leaves_it_to_the_loop, .act = loop_next_when_permitted,
	  .of_loop = true, .threads = true, .by_service = true },
	{ .name = "service-notices-death", .arrange = mortal_reads, .prepare = waits_in_loop,
	  .surround = others_wait_and_mortal_dies, .act = loop_next_when_permitted,
	  .of_loop = true, .threads = true, .by_service = true },
	{ .name = "service-ends-lease", .arrange = lease_ends_soon, .prepare = waits_in_loop, .surround = its_time_is_over,
	  .act = loop_next_when_permitted,
	  .of_loop = true, .threads = true, .by_service = true },
	{ .name = "service-ends-wait", .arrange = key_is_held, .prepare = waits_briefly_in_loop,
	  .surround = its_time_is_over, .act = loop_next_when_permitted, .outcome = LOCKSHM_TIMEOUT,
	  .of_loop = true, .threads = true, .by_service = true },
};
const unsigned n_step_ops = sizeof(step_ops) / sizeof(step_ops[0]);
