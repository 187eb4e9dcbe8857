/* SPDX-License-Identifier: MIT */
/*
 * test-trampled.c - holds and cancellers that were overwritten, left over, or copied: none of their words is trusted
 *
 * trample.c replaces one word of a live hold of each kind by every plausible value.  Those of LOCKSHM_GLOBAL are in
 * test-global.c and test-global-policy.c.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/trample.h"
#include "sys/futex.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct agent *behind; /* stopped; next waiter after a bargeable hold */

/* ---------------------------------------------------------------- one word, of each kind of hold */

static int take_flags(lockshm_hold_t *h, const char *key, int mode, unsigned flags)
{
	struct lockshm_request request = request_for(key, mode);

	request.flags = flags;
	request.ttl_ns = LOCKSHM_SECONDS(60);
	return lockshm_acquire(seg, &request, h);
}

static void exclusive(lockshm_hold_t *h)
{
	ck_code(take_flags(h, "k", X, 0), 0);
}

static void shared(lockshm_hold_t *h)
{
	ck_code(take_flags(h, "k", S, 0), 0);
}

static void strict(lockshm_hold_t *h)
{
	ck_code(take(h, "k", X), 0);
}

static void renewed_by_its_owner(lockshm_hold_t *h)
{
	exclusive(h);
	ck_code(lockshm_renew(h, LOCKSHM_SECONDS(90)), 0);
}

static void renewed_by_the_service_thread(lockshm_hold_t *h)
{
	struct lockshm_request request = request_for("k", X);
	int64_t end;

	request.flags = LOCKSHM_AUTO_RENEW;
	request.ttl_ns = LOCKSHM_SECONDS(1);
	ck_code(lockshm_acquire(seg, &request, h), 0);
	/* Once at least: its generation is then newer than the one in the hold. */
	end = now_ns() + LOCKSHM_MS(700);
	pass(end);
	ck_code(lockshm_check(h, NULL), 0);
}

static void moved_to_the_process(lockshm_hold_t *h)
{
	exclusive(h);
	ck_code(lockshm_move(h, LOCKSHM_TO_PROCESS), 0);
}

static void moved_there_and_back(lockshm_hold_t *h)
{
	moved_to_the_process(h);
	ck_code(lockshm_move(h, LOCKSHM_TO_CALLER), 0);
}

static void renewed_and_moved(lockshm_hold_t *h)
{
	ck_code(take_flags(h, "k", X, LOCKSHM_AUTO_RENEW), 0);
	ck_code(lockshm_move(h, LOCKSHM_TO_PROCESS), 0);
}

static void watched(lockshm_hold_t *h)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	exclusive(h);
	ck_code(lockshm_notify(h, fd), 0);
	close(fd);
}

static void barging(lockshm_hold_t *h)
{
	ck_code(take_flags(h, "k", X, LOCKSHM_BARGE), 0);
}

/* Resumed while the next waiter, which is woken, cannot run.  Without futex_waitv() no hold is bargeable. */
static void resumed(lockshm_hold_t *h)
{
	if (!futex_has_waitv()) {
		barging(h);
		return;
	}
	behind = agent_start();
	barging(h);
	ck_code(agent_acquire(behind, "k", X), AGENT_BLOCKED);
	agent_stop(behind);
	ck_code(lockshm_release(h, 0), 0);
	barging(h);
}

static void upgraded(lockshm_hold_t *h)
{
	shared(h);
	ck_code(lockshm_upgrade(h), 0);
}

static void downgraded(lockshm_hold_t *h)
{
	exclusive(h);
	ck_code(lockshm_downgrade(h), 0);
}

static void reporting_a_death(lockshm_hold_t *h)
{
	struct agent *dead = agent_start();

	ck_code(agent_acquire(dead, "k", X), 0);
	agent_kill(dead);
	ck_code(take_flags(h, "k", X, LOCKSHM_ROBUST), LOCKSHM_OWNER_DIED);
}

/* @h is the second of three. */
static void one_of_many(lockshm_hold_t *h)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("one", 0), LOCKSHM_MANY_KEY("k", 0), LOCKSHM_MANY_KEY("three", 0) };
	struct lockshm_request request = request_for("", X);

	ck_code(lockshm_acquire_many(seg, &request, keys, 3, h - 1), 0);
}

static const struct {
	const char *name;
	void (*take)(lockshm_hold_t *h);
} kinds[] = {
	{ "exclusive", exclusive },
	{ "shared", shared },
	{ "strict", strict },
	{ "renewed by its owner", renewed_by_its_owner },
	{ "renewed by the service thread", renewed_by_the_service_thread },
	{ "moved to the process", moved_to_the_process },
	{ "moved there and back", moved_there_and_back },
	{ "renewed and moved", renewed_and_moved },
	{ "watched", watched },
	{ "barging", barging },
	{ "resumed", resumed },
	{ "upgraded", upgraded },
	{ "downgraded", downgraded },
	{ "reporting a death", reporting_a_death },
	{ "one of many", one_of_many },
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

START_TEST(one_word_written_over)
{
	lockshm_hold_t room[3], other, earlier = LOCKSHM_HOLD_INIT, *h = &room[1];

	trample_kind = kinds[_i].name;
	ck_code(take_flags(h, "earlier", X, LOCKSHM_AUTO_RENEW), 0);
	memcpy(&earlier, h, sizeof(earlier));
	ck_code(lockshm_release(h, 0), 0);
	ck_code(take_flags(&other, "other", S, LOCKSHM_AUTO_RENEW), 0);
	kinds[_i].take(h);
	trample(h, &other, &earlier);
	ck_code(lockshm_release(h, 0), 0);
	ck_code(lockshm_release(&other, 0), 0);
	ck_code(lockshm_check(h, NULL), LOCKSHM_NOT_HELD);
	if (behind)
		agent_kill(behind);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- what is left over */

/* The bytes of a released hold are put back, with its record in use by another hold: the renewal it names is freed, or
 * the other hold's. */
START_TEST(put_back_after_its_release)
{
	lockshm_hold_t room[3], other, saved, *h = &room[1];
	int i;

	trample_kind = kinds[_i].name;
	kinds[_i].take(h);
	memcpy(&saved, h, sizeof(saved));
	ck_code(lockshm_release(h, 0), 0);
	if (behind)
		agent_kill(behind);
	for (i = 0; i < 2; i++) {
		trample_says_not_held(memcpy(h, &saved, sizeof(saved)), true);
		ck_code(take_flags(&other, i ? "k" : "another", X, LOCKSHM_AUTO_RENEW), 0);
		trample_says_not_held(memcpy(h, &saved, sizeof(saved)), true);
		ck_code(lockshm_check(&other, NULL), 0);
		ck_code(take_flags(memcpy(h, &saved, sizeof(saved)), "third", X, LOCKSHM_AUTO_RENEW), 0);
		ck_code(lockshm_release(h, 0), 0);
		ck_code(lockshm_release(&other, 0), 0);
	}
}
END_TEST

/* Acquired again in the same memory, and then overwritten by the bytes of the first hold. */
START_TEST(put_back_over_the_next_hold)
{
	lockshm_hold_t room[3], saved, now, *h = &room[1];

	trample_kind = kinds[_i].name;
	kinds[_i].take(h);
	memcpy(&saved, h, sizeof(saved));
	ck_code(lockshm_release(h, 0), 0);
	if (behind)
		agent_kill(behind);
	ck_code(take_flags(h, "other", X, LOCKSHM_AUTO_RENEW), 0);
	memcpy(&now, h, sizeof(now));
	trample_says_not_held(memcpy(h, &saved, sizeof(saved)), true);
	memcpy(h, &now, sizeof(now));
	ck_code(lockshm_check(h, NULL), 0);
	ck_code(lockshm_release(h, 0), 0);
}
END_TEST

START_TEST(copied_to_another_place)
{
	lockshm_hold_t room[3], *h = &room[1], *copy;
	uint64_t words[64];
	unsigned at;

	trample_kind = kinds[_i].name;
	kinds[_i].take(h);
	for (at = 0; at < 48; at += 5) {
		copy = (void *)&words[at];
		memcpy(copy, h, sizeof(*h));
		trample_says_not_held(copy, false);
		ck_assert_uint_eq(lockshm_token(copy), 0);
		ck_code(lockshm_check(h, NULL), 0);
		ck_code(take(copy, "third", X), 0);
		ck_code(lockshm_release(copy, 0), 0);
	}
	ck_code(lockshm_release(h, 0), 0);
	if (behind)
		agent_kill(behind);
}
END_TEST

/* Its handle is closed; with @_i odd another one is open, perhaps at the same address. */
START_TEST(left_over_from_a_closed_segment)
{
	int kind = _i / 2;
	lockshm_hold_t room[3], *h = &room[1];
	struct lockshm_request request = request_for("fresh", X);

	trample_kind = kinds[kind].name;
	kinds[kind].take(h);
	ck_code(lockshm_close(seg), 0);
	if (!(_i & 1))
		trample_says_not_held(h, false);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	trample_says_not_held(h, false);
	request.flags = LOCKSHM_AUTO_RENEW;
	request.ttl_ns = LOCKSHM_SECONDS(60);
	ck_code(lockshm_acquire(seg, &request, h), 0);
	ck_code(lockshm_release(h, 0), 0);
	if (behind)
		agent_kill(behind);
}
END_TEST

/* Never released, on the stack of a function that has returned: the next acquire into this memory returns INVALID, or
 * succeeds once a word has changed. */
static void __attribute__((noinline)) leak(lockshm_hold_t *at, int kind)
{
	memset(at, 0x5a, sizeof(*at));
	kinds[kind].take(at);
}

START_TEST(leaked_and_acquired_over)
{
	lockshm_hold_t room[3], *h = &room[1];
	struct lockshm_request request = request_for("next", X);

	trample_kind = kinds[_i].name;
	leak(h, _i);
	ck_code(lockshm_acquire(seg, &request, h), LOCKSHM_INVALID);
	h->opaque[12] = ~h->opaque[12];
	ck_code(lockshm_acquire(seg, &request, h), 0);
	ck_code(lockshm_release(h, 0), 0);
	if (behind)
		agent_kill(behind);
}
END_TEST

START_TEST(any_memory_is_free_memory)
{
	struct lockshm_request request = request_for("k", X);
	uint64_t values[TRAMPLE_VALUES], words[16];
	lockshm_hold_t hold;
	unsigned i, j, n;

	for (i = 0; i < 200; i++) {
		memset(words, (int)i, sizeof(words));
		n = trample_values(values, words, 16, i % 16);
		for (j = 0; j < 16; j++)
			hold.opaque[j] = values[(i * 7 + j * 11) % n];
		request.flags = i & 1 ? LOCKSHM_AUTO_RENEW : 0;
		request.ttl_ns = LOCKSHM_SECONDS(60);
		ck_code(lockshm_acquire(seg, &request, &hold), 0);
		ck_code(lockshm_check(&hold, NULL), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
}
END_TEST

static lockshm_hold_t of_thread[3];

static void *take_and_end(void *kind)
{
	kinds[*(int *)kind].take(&of_thread[1]);
	return NULL;
}

START_TEST(left_over_from_a_thread_that_ended)
{
	bool to_process = kinds[_i].take == moved_to_the_process || kinds[_i].take == renewed_and_moved;
	pthread_t thread;

	trample_kind = kinds[_i].name;
	ck_assert_int_eq(pthread_create(&thread, NULL, take_and_end, &_i), 0);
	pthread_join(thread, NULL);
	if (!to_process)
		trample_says_not_held(&of_thread[1], false);
	ck_code(take(&of_thread[1], "third", X), to_process ? LOCKSHM_INVALID : 0);
	ck_code(lockshm_release(&of_thread[1], 0), 0);
	if (behind)
		agent_kill(behind);
}
END_TEST

/* Its entry has been given to another key since. */
START_TEST(its_entry_is_another_keys)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_hold_t h, saved, other;
	char key[24];
	int i;

	segment_with(64, 64, 64);
	stat = stat_now();
	ck_code(take_for(&h, "k", X, LOCKSHM_SECONDS(60)), 0);
	memcpy(&saved, &h, sizeof(h));
	ck_code(lockshm_release(&h, 0), 0);
	for (i = 0; i < 4 * (int)stat.keys; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		ck_code(take_for(&other, key, X, LOCKSHM_SECONDS(60)), 0);
		trample_says_not_held(memcpy(&h, &saved, sizeof(h)), true);
		ck_code(lockshm_check(&other, NULL), 0);
		ck_code(lockshm_release(&other, 0), 0);
	}
}
END_TEST

/* Two children of one process have equal counters: the hold of one, in shared memory, is not held by the other. */
START_TEST(hold_of_a_sibling_in_shared_memory)
{
	struct board {
		lockshm_hold_t room[3];
		int code;
	} *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, taken[2], done[2];
	char byte = 0;
	pid_t holder, sibling;

	ck_assert_ptr_ne(board, MAP_FAILED);
	ck_assert_int_eq(pipe2(taken, O_CLOEXEC) | pipe2(done, O_CLOEXEC), 0);
	trample_kind = kinds[_i].name;
	holder = fork();
	if (holder == 0) {
		kinds[_i].take(&board->room[1]);
		if (write(taken[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
			_exit(2);
		_exit(lockshm_check(&board->room[1], NULL) == 0 && lockshm_release(&board->room[1], 0) == 0 ? 0 : 1);
	}
	ck_assert_int_eq(read(taken[0], &byte, 1), 1);
	sibling = fork();
	if (sibling == 0) {
		lockshm_hold_t own;

		ck_code(take_flags(&own, "other", X, LOCKSHM_AUTO_RENEW), 0);
		trample_says_not_held(&board->room[1], false);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(sibling, &status, 0), sibling);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(write(done[1], &byte, 1), 1);
	ck_assert_int_eq(waitpid(holder, &status, 0), holder);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* An upgrade gives another ticket: the bytes of before it are no hold. */
START_TEST(put_back_after_an_upgrade)
{
	lockshm_hold_t h, before, after;

	ck_code(take(&h, "k", S), 0);
	memcpy(&before, &h, sizeof(h));
	ck_code(lockshm_upgrade(&h), 0);
	memcpy(&after, &h, sizeof(h));
	memcpy(&h, &before, sizeof(h));
	ck_code(lockshm_check(&h, NULL), LOCKSHM_NOT_HELD);
	ck_code(lockshm_release(&h, 0), LOCKSHM_NOT_HELD);
	memcpy(&h, &after, sizeof(h));
	ck_code(lockshm_check(&h, NULL), 0);
	ck_code(lockshm_release(&h, 0), 0);
}
END_TEST

/* lockshm_lost_to() works until the memory is reused, and only on the lost hold itself. */
START_TEST(lost_to_needs_the_lost_hold)
{
	lockshm_hold_t h, copy, next;

	memset(&h, 0x77, sizeof(h));
	ck_assert_uint_eq(lockshm_lost_to(&h), 0);
	ck_code(take_for(&h, "k", X, LOCKSHM_MS(1)), 0);
	pass(now_ns() + LOCKSHM_MS(20));
	ck_code(take(&next, "k", X), 0);
	ck_code(lockshm_check(&h, NULL), LOCKSHM_LOST);
	ck_assert_uint_eq(lockshm_lost_to(&h), lockshm_token(&next));
	ck_code(lockshm_release(&h, 0), LOCKSHM_LOST);
	ck_assert_uint_eq(lockshm_lost_to(&h), lockshm_token(&next));
	ck_code(lockshm_check(&h, NULL), LOCKSHM_NOT_HELD);
	copy = h;
	ck_assert_uint_eq(lockshm_lost_to(&copy), 0);
	ck_code(lockshm_release(&next, 0), 0);
}
END_TEST

/* ---------------------------------------------------------------- cancellers */

#define CANCELLER_WORDS 4

static lockshm_canceller_t canceller;
static int waited; /* outcome of the wait; 1 = still waiting */

static void *wait_for_k(void *unused)
{
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold;

	(void)unused;
	request.timeout_ns = PATIENCE;
	request.canceller = &canceller;
	__atomic_store_n(&waited, lockshm_acquire(seg, &request, &hold), __ATOMIC_RELEASE);
	return NULL;
}

static bool one_waits(void *unused)
{
	struct seen seen;

	(void)unused;
	look("k", &seen);
	return seen.waiters == 1 && __atomic_load_n(&canceller.opaque[1], __ATOMIC_ACQUIRE) != 0;
}

static void start_wait(pthread_t *thread)
{
	waited = 1;
	ck_assert_int_eq(pthread_create(thread, NULL, wait_for_k, NULL), 0);
	ck_assert(await(one_waits, NULL));
}

/* While a wait uses it.  Zero looks as if the wait had not begun: then it ends at its self-check. */
START_TEST(canceller_of_a_wait_written_over)
{
	uint64_t values[TRAMPLE_VALUES];
	lockshm_canceller_t saved;
	lockshm_hold_t hold;
	pthread_t thread;
	unsigned word, i, n;

	ck_code(take(&hold, "k", X), 0);
	start_wait(&thread);
	saved = canceller;
	for (word = 0; word < CANCELLER_WORDS; word++) {
		n = trample_values(values, &saved, CANCELLER_WORDS, word);
		for (i = 0; i < n; i++) {
			if (values[i] == saved.opaque[word] || (word == 1 && values[i] == 0))
				continue;
			__atomic_store_n(&canceller.opaque[word], values[i], __ATOMIC_RELEASE);
			ck_code(lockshm_cancel(&canceller), LOCKSHM_INVALID);
			__atomic_store_n(&canceller.opaque[word], saved.opaque[word], __ATOMIC_RELEASE);
			ck_assert_int_eq(memcmp(&canceller, &saved, sizeof(saved)), 0);
		}
	}
	ck_assert_int_eq(__atomic_load_n(&waited, __ATOMIC_ACQUIRE), 1);
	ck_code(lockshm_cancel(&canceller), 0);
	pthread_join(thread, NULL);
	ck_code(waited, LOCKSHM_CANCELLED);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(canceller_whose_wait_is_forgotten_ends_it_a_little_later)
{
	lockshm_hold_t hold;
	pthread_t thread;

	ck_code(take(&hold, "k", X), 0);
	start_wait(&thread);
	__atomic_store_n(&canceller.opaque[1], 0, __ATOMIC_RELEASE);
	ck_code(lockshm_cancel(&canceller), 0);
	pthread_join(thread, NULL);
	ck_code(waited, LOCKSHM_CANCELLED);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* While none uses it, fresh, used before, or cancelled.  The last two words carry nothing then. */
START_TEST(idle_canceller_written_over)
{
	struct lockshm_request request = request_for("k", X);
	uint64_t values[TRAMPLE_VALUES];
	lockshm_canceller_t saved;
	lockshm_hold_t none;
	struct agent *holder = agent_start();
	unsigned word, i, n;

	canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	request.canceller = &canceller;
	request.timeout_ns = LOCKSHM_MS(1);
	ck_code(agent_acquire(holder, "k", X), 0);
	if (_i >= 1)
		ck_code(lockshm_acquire(seg, &request, &none), LOCKSHM_TIMEOUT);
	if (_i >= 2)
		ck_code(lockshm_cancel(&canceller), 0);
	saved = canceller;
	for (word = 0; word < 2; word++) {
		n = trample_values(values, &saved, CANCELLER_WORDS, word);
		for (i = 0; i < n; i++) {
			/* A flag of zero is that of a fresh one. */
			if (values[i] == saved.opaque[word] || (word == 0 && values[i] == 0))
				continue;
			canceller.opaque[word] = values[i];
			ck_code(lockshm_cancel(&canceller), LOCKSHM_INVALID);
			ck_code(lockshm_acquire(seg, &request, &none), LOCKSHM_INVALID);
			canceller.opaque[word] = saved.opaque[word];
			ck_assert_int_eq(memcmp(&canceller, &saved, sizeof(saved)), 0);
		}
	}
	ck_code(lockshm_acquire(seg, &request, &none), _i >= 2 ? LOCKSHM_CANCELLED : LOCKSHM_TIMEOUT);
	canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	ck_code(lockshm_acquire(seg, &request, &none), LOCKSHM_TIMEOUT);
	ck_code(agent_release(holder), 0);
}
END_TEST

/* A copy made while a wait used the original, one in a child, and one whose segment is gone: they end no wait. */
START_TEST(copied_canceller_ends_nothing)
{
	lockshm_canceller_t copy, saved;
	lockshm_hold_t hold;
	pthread_t thread;
	int status;
	pid_t pid;

	ck_code(take(&hold, "k", X), 0);
	start_wait(&thread);
	saved = copy = canceller;
	ck_code(lockshm_cancel(&copy), LOCKSHM_INVALID);
	pid = fork();
	if (pid == 0)
		_exit(lockshm_cancel(&canceller) == LOCKSHM_INVALID ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(__atomic_load_n(&waited, __ATOMIC_ACQUIRE), 1);
	ck_code(lockshm_cancel(&canceller), 0);
	pthread_join(thread, NULL);
	ck_code(waited, LOCKSHM_CANCELLED);
	canceller = saved; /* as a thread leaves it that is cancelled or jumps out of the wait */
	ck_code(lockshm_cancel(&canceller), 0);
	ck_code(lockshm_close(seg), 0);
	canceller = saved;
	ck_code(lockshm_cancel(&canceller), LOCKSHM_INVALID);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, one_word_written_over, 0, N_KINDS);
	tcase_add_loop_test(tc, put_back_after_its_release, 0, N_KINDS);
	tcase_add_loop_test(tc, put_back_over_the_next_hold, 0, N_KINDS);
	tcase_add_loop_test(tc, copied_to_another_place, 0, N_KINDS);
	tcase_add_loop_test(tc, left_over_from_a_closed_segment, 0, 2 * N_KINDS);
	tcase_add_loop_test(tc, leaked_and_acquired_over, 0, N_KINDS);
	tcase_add_test(tc, any_memory_is_free_memory);
	tcase_add_loop_test(tc, left_over_from_a_thread_that_ended, 0, N_KINDS);
	tcase_add_test(tc, its_entry_is_another_keys);
	if (!emulated())
		tcase_add_loop_test(tc, hold_of_a_sibling_in_shared_memory, 0, 3);
	tcase_add_test(tc, put_back_after_an_upgrade);
	tcase_add_test(tc, lost_to_needs_the_lost_hold);
	tcase_add_test(tc, canceller_of_a_wait_written_over);
	tcase_add_test(tc, canceller_whose_wait_is_forgotten_ends_it_a_little_later);
	tcase_add_loop_test(tc, idle_canceller_written_over, 0, 3);
	tcase_add_native(tc, copied_canceller_ends_nothing);
}

int main(void)
{
	return fixture_main("trampled", add);
}
