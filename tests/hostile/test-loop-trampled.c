/* SPDX-License-Identifier: MIT */
/*
 * test-loop-trampled.c - the memory of a hold that a loop awaits, overwritten: no word of it is trusted
 *
 * Each word is replaced alone by every plausible value, and by those of another wait, of an earlier wait and of an
 * earlier hold in the same place.  It is no hold then; the wait can be cancelled, and its outcome fills it; the other
 * wait goes on.
 */
#include <string.h>

#include "support/loops.h"
#include "support/trample.h"

#define X LOCKSHM_EXCLUSIVE
#define WORDS (sizeof(lockshm_hold_t) / sizeof(uint64_t))

static lockshm_loop_t *loop;
static lockshm_hold_t holder;
static struct task t, other;
static lockshm_hold_t earlier_hold, earlier_wait;

static void hold_key(void)
{
	ck_code(take(&holder, "k", X), 0);
}

static void let_key_go(void)
{
	ck_code(lockshm_release(&holder, 0), 0);
}

/* What was in its place before. */
static void begin(void)
{
	hold_key();
	loop = loop_new();
	ck_code(task_begin(loop, &t, "earlier", X), 0);
	earlier_hold = t.hold;
	ck_code(task_release(&t), 0);
	task_wait(loop, &t, "k", X);
	earlier_wait = t.hold;
	ck_code(lockshm_loop_cancel(loop, &t.hold), 0);
	task_wait(loop, &other, "k", X);
}

static void is_no_hold(unsigned word, uint64_t value)
{
	int check = lockshm_check(&t.hold, NULL), release = lockshm_release(&t.hold, 0);

	ck_assert_msg(check == LOCKSHM_NOT_HELD || check == LOCKSHM_INVALID, "word %u = %llx: check is %s", word,
		      (unsigned long long)value, outcome_name(check));
	ck_assert_msg(release == LOCKSHM_NOT_HELD || release == LOCKSHM_INVALID, "word %u = %llx: release is %s", word,
		      (unsigned long long)value, outcome_name(release));
	ck_assert_uint_eq(lockshm_token(&t.hold), 0);
}

/* @code: what lockshm_loop_cancel() returned. */
static void ck_cancelled(int code, unsigned word, uint64_t value)
{
	ck_assert_msg(code == 0, "word %u = %llx: cancel is %s", word, (unsigned long long)value, outcome_name(code));
}

static void cancel_it(unsigned word, uint64_t value)
{
	task_wait(loop, &t, "k", X);
	t.hold.opaque[word] = value;
	is_no_hold(word, value);
	ck_cancelled(lockshm_loop_cancel(loop, &t.hold), word, value);
	ck_code(lockshm_loop_cancel(loop, &t.hold), LOCKSHM_NOT_HELD);
	memset(&t.hold, 0, sizeof(t.hold));
}

/* After that of the other wait, which is before it. */
static void collect_it(unsigned word, uint64_t value)
{
	task_wait(loop, &t, "k", X);
	t.hold.opaque[word] = value;
	let_key_go();
	ck_outcome(loop, &other, 0);
	ck_code(task_release(&other), 0);
	ck_outcome(loop, &t, 0);
	ck_code(lockshm_check(&t.hold, NULL), 0);
	ck_code(task_release(&t), 0);
	hold_key();
	task_wait(loop, &other, "k", X);
}

static void each_value(void (*use)(unsigned word, uint64_t value))
{
	uint64_t values[TRAMPLE_VALUES + 3];
	unsigned word, i, n;

	begin();
	for (word = 0; word < WORDS; word++) {
		task_wait(loop, &t, "k", X);
		n = trample_values(values, t.hold.opaque, WORDS, word);
		ck_code(lockshm_loop_cancel(loop, &t.hold), 0);
		values[n++] = other.hold.opaque[word];
		values[n++] = earlier_wait.opaque[word];
		values[n++] = earlier_hold.opaque[word];
		for (i = 0; i < n && !machine_stalled(); i++)
			use(word, values[i]);
	}
	ck_code(lockshm_loop_cancel(loop, &other.hold), 0);
	let_key_go();
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}

START_TEST(a_wait_can_be_cancelled)
{
	each_value(cancel_it);
}
END_TEST

START_TEST(a_wait_has_its_outcome)
{
	each_value(collect_it);
}
END_TEST

/* A whole wait, hold or nothing at all in its place. */
START_TEST(a_copy_is_not_the_other_wait)
{
	static const lockshm_hold_t nothing;
	const lockshm_hold_t *copies[] = { &other.hold, &earlier_wait, &earlier_hold, &holder, &nothing };
	unsigned i;

	begin();
	for (i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		task_wait(loop, &t, "k", X);
		t.hold = *copies[i];
		/* The bytes of a hold in its own place are those of a former hold. */
		if (copies[i] == &earlier_hold)
			ck_code(lockshm_release(&t.hold, 0), LOCKSHM_LOST);
		else
			is_no_hold(WORDS, i);
		ck_cancelled(lockshm_loop_cancel(loop, &t.hold), WORDS, i);
		memset(&t.hold, 0, sizeof(t.hold));
		ck_queue("k", 1, 1);
	}
	let_key_go();
	ck_outcome(loop, &other, 0);
	ck_code(task_release(&other), 0);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_wait_can_be_cancelled);
	tcase_add_test(tc, a_wait_has_its_outcome);
	tcase_add_test(tc, a_copy_is_not_the_other_wait);
}

int main(void)
{
	return fixture_main("loop-trampled", add);
}
