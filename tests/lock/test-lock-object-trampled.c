/* SPDX-License-Identifier: MIT */
/*
 * test-lock-object-trampled.c - lock objects that were overwritten, left over, or copied: none of their words is trusted
 *
 * The object and another one, with records side by side, are held or idle; each word of the first is replaced alone by
 * every plausible value, and by those of the other object and of an earlier use; then each call is made with it.  A
 * call may refuse, or work as if nothing had happened; the other object's hold stays, and the bytes put back are good.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold/lock-object.h"
#include "support/fixture.h"
#include "support/trample.h"

#define X LOCKSHM_EXCLUSIVE
#define WORDS (sizeof(lockshm_lock_t) / sizeof(uint64_t))

static lockshm_lock_t room[3], other;
static lockshm_lock_t *const l = &room[1];

static void make(lockshm_lock_t *lock, const char *key, unsigned flags)
{
	struct lockshm_request request = request_for(key, X);

	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = flags;
	request.tag = flags ? NULL : "a tag";
	ck_code(lockshm_lock_init(lock, seg, &request), 0);
}

static void unused(void)
{
	make(l, "k", 0);
}

static void idle(void)
{
	unused();
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
}

/* Another request has had its record since. */
static void overtaken(void)
{
	lockshm_hold_t hold;
	int i;

	idle();
	for (i = 0; i < 3; i++) {
		ck_code(take(&hold, "another", X), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
}

static void held(void)
{
	idle();
	ck_code(lockshm_lock(l, seg), 0);
}

static void held_with_its_hold(void)
{
	held();
	ck_code(lockshm_check(lockshm_lock_hold(l), NULL), 0);
}

static void renewed(void)
{
	make(l, "k", LOCKSHM_AUTO_RENEW);
	ck_code(lockshm_lock(l, seg), 0);
}

static void moved(void)
{
	held();
	ck_code(lockshm_move(lockshm_lock_hold(l), LOCKSHM_TO_PROCESS), 0);
}

static const struct {
	const char *name;
	void (*make)(void);
	bool held;
} kinds[] = {
	{ "unused", unused, false },
	{ "idle", idle, false },
	{ "overtaken", overtaken, false },
	{ "held", held, true },
	{ "held, with its hold", held_with_its_hold, true },
	{ "renewed", renewed, true },
	{ "moved to the process", moved, true },
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

static void wrong(const char *what, unsigned word, uint64_t value, int code)
{
	ck_abort_msg("%s: %s with word %u = %llx is %s", trample_kind, what, word, (unsigned long long)value,
		     outcome_name(code));
}

/* It is locked, if it was idle, or refused; the key is the object's.  While it is held any try is refused, since the
 * thread would wait for itself. */
static void lock_it(bool is_held, unsigned word, uint64_t value)
{
	struct seen seen;
	int code = lockshm_trylock(l, seg);

	if (code == LOCKSHM_INVALID || (is_held && code == LOCKSHM_BUSY))
		return;
	if (code != 0 || is_held)
		wrong("trylock", word, value, code);
	look("k", &seen);
	ck_assert_msg(seen.holders == 1, "%s: word %u = %llx: another key was locked", trample_kind, word,
		      (unsigned long long)value);
	ck_code(lockshm_unlock(l), 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 0);
}

/* True = it was unlocked. */
static bool unlock_it(bool is_held, unsigned word, uint64_t value)
{
	int code = lockshm_unlock(l);

	if (code == 0 && is_held)
		return true;
	if (code != LOCKSHM_NOT_HELD)
		wrong("unlock", word, value, code);
	return false;
}

static void use_its_hold(bool is_held, unsigned word, uint64_t value)
{
	int code = lockshm_check(lockshm_lock_hold(l), NULL);

	if (code != LOCKSHM_NOT_HELD && code != LOCKSHM_INVALID && !(code == 0 && is_held))
		wrong("check of its hold", word, value, code);
}

/* As it was made, and the other one held as before. */
static void restore(const lockshm_lock_t *saved, bool is_held)
{
	struct seen seen;

	memcpy(l, saved, sizeof(*l));
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, is_held);
	look("other", &seen);
	ck_assert_uint_eq(seen.holders, 1);
}

static void one_value(int kind, unsigned word, uint64_t value)
{
	bool is_held = kinds[kind].held;
	lockshm_lock_t saved;

	memcpy(&saved, l, sizeof(saved));
	memcpy((char *)l + word * 8, &value, sizeof(value));
	lock_it(is_held, word, value);
	restore(&saved, is_held);
	if (!is_held) {
		kinds[kind].make(); /* what was locked in between has used the record */
		return;
	}
	memcpy((char *)l + word * 8, &value, sizeof(value));
	use_its_hold(is_held, word, value);
	restore(&saved, is_held);
	memcpy((char *)l + word * 8, &value, sizeof(value));
	if (!unlock_it(is_held, word, value)) {
		restore(&saved, is_held);
		return;
	}
	kinds[kind].make();
}

START_TEST(one_word_written_over)
{
	uint64_t values[TRAMPLE_VALUES], words[WORDS], of_other[WORDS], earlier[WORDS];
	unsigned word, i, n;

	trample_kind = kinds[_i].name;
	make(&other, "other", 0);
	ck_code(lockshm_lock(&other, seg), 0);
	held();
	memcpy(earlier, l, sizeof(earlier));
	ck_code(lockshm_unlock(l), 0);
	kinds[_i].make();
	memcpy(of_other, &other, sizeof(of_other));
	for (word = 0; word < WORDS; word++) {
		memcpy(words, l, sizeof(words));
		n = trample_values(values, words, WORDS, word);
		values[n++] = of_other[word];
		values[n++] = earlier[word];
		for (i = 0; i < n; i++) {
			memcpy(words, l, sizeof(words));
			if (values[i] != words[word])
				one_value(_i, word, values[i]);
		}
		verify_clean();
	}
	ck_code(lockshm_unlock(l), kinds[_i].held ? 0 : LOCKSHM_NOT_HELD);
	ck_code(lockshm_unlock(&other), 0);
	verify_clean();
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(any_memory_is_no_lock_object)
{
	uint64_t values[TRAMPLE_VALUES], words[WORDS];
	struct lockshm_request request = request_for("k", X);
	unsigned i, j, n;

	for (i = 0; i < 300; i++) {
		memset(words, (int)i, sizeof(words));
		n = trample_values(values, words, WORDS, i % WORDS);
		for (j = 0; j < WORDS; j++)
			words[j] = values[(i * 7 + j * 11) % n];
		memcpy(l, words, sizeof(*l));
		ck_code(lockshm_lock(l, seg), LOCKSHM_INVALID);
		ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
		ck_assert_ptr_null(lockshm_lock_hold(l));
		ck_code(lockshm_lock_init(l, seg, &request), 0);
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(lockshm_unlock(l), 0);
	}
}
END_TEST

START_TEST(copied_to_another_place)
{
	lockshm_lock_t copy;
	struct seen seen;

	trample_kind = kinds[_i].name;
	kinds[_i].make();
	memcpy(&copy, l, sizeof(copy));
	ck_code(lockshm_lock(&copy, seg), LOCKSHM_INVALID);
	ck_code(lockshm_unlock(&copy), LOCKSHM_NOT_HELD);
	ck_assert_ptr_null(lockshm_lock_hold(&copy));
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, kinds[_i].held);
	ck_code(lockshm_unlock(l), kinds[_i].held ? 0 : LOCKSHM_NOT_HELD);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
}
END_TEST

/* The bytes of an earlier use are put back, with its record in use by another request, or used since. */
START_TEST(put_back_after_its_use)
{
	lockshm_hold_t hold;
	lockshm_lock_t saved;
	int i, code;

	trample_kind = kinds[_i].name;
	kinds[_i].make();
	memcpy(&saved, l, sizeof(saved));
	if (kinds[_i].held)
		ck_code(lockshm_unlock(l), 0);
	for (i = 0; i < 4; i++) {
		ck_code(take_for(&hold, i & 1 ? "k" : "another", X, LOCKSHM_SECONDS(60)), 0);
		memcpy(l, &saved, sizeof(saved));
		code = lockshm_unlock(l);
		ck_assert_msg(code == LOCKSHM_NOT_HELD || (code == LOCKSHM_LOST && kinds[_i].held), "%s: unlock is %s",
			      trample_kind, outcome_name(code));
		ck_code(lockshm_check(&hold, NULL), 0);
		memcpy(l, &saved, sizeof(saved));
		if (i & 1) {
			ck_code(lockshm_trylock(l, seg), LOCKSHM_BUSY);
		} else {
			ck_code(lockshm_trylock(l, seg), 0);
			ck_code(lockshm_check(&hold, NULL), 0);
			ck_code(lockshm_unlock(l), 0);
		}
		ck_code(lockshm_release(&hold, 0), 0);
		verify_clean();
	}
}
END_TEST

/* Two children of one process have equal counters: the record that one remembers, in shared memory, is not the other's
 * to take. */
START_TEST(object_of_a_sibling_in_shared_memory)
{
	struct board {
		lockshm_lock_t lock;
	} *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, taken[2], done[2];
	char byte = 0;
	pid_t first, second;

	ck_assert_ptr_ne(board, MAP_FAILED);
	ck_assert_int_eq(pipe2(taken, O_CLOEXEC) | pipe2(done, O_CLOEXEC), 0);
	make(&board->lock, "k", 0);
	first = fork();
	if (first == 0) {
		ck_code(lockshm_lock(&board->lock, seg), 0);
		if (_i == 0)
			ck_code(lockshm_unlock(&board->lock), 0);
		if (write(taken[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
			_exit(2);
		_exit(0);
	}
	ck_assert_int_eq(read(taken[0], &byte, 1), 1);
	second = fork();
	if (second == 0) {
		lockshm_hold_t own;

		ck_code(take(&own, "other", X), 0);
		ck_code(lockshm_release(&own, 0), 0);
		ck_code(lockshm_unlock(&board->lock), LOCKSHM_NOT_HELD);
		ck_code(lockshm_trylock(&board->lock, seg), _i == 0 ? 0 : LOCKSHM_BUSY);
		if (_i == 0)
			ck_code(lockshm_unlock(&board->lock), 0);
		verify_clean();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(second, &status, 0), second);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(write(done[1], &byte, 1), 1);
	ck_assert_int_eq(waitpid(first, &status, 0), first);
	ck_assert_int_eq(status, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, one_word_written_over, 0, N_KINDS);
	tcase_add_test(tc, any_memory_is_no_lock_object);
	tcase_add_loop_test(tc, copied_to_another_place, 0, N_KINDS);
	tcase_add_loop_test(tc, put_back_after_its_use, 0, N_KINDS);
	if (!emulated())
		tcase_add_loop_test(tc, object_of_a_sibling_in_shared_memory, 0, 2);
}

int main(void)
{
	return fixture_main("lock-object-trampled", add);
}
