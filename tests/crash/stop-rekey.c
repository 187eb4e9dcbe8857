/* SPDX-License-Identifier: MIT */
/*
 * stop-rekey.c - stopped at every step of a call for one key, while its entry is given to another key
 *
 * The victim's key is idle and without a mark, so its entry may be taken for another key at any time.  Wherever the
 * victim is stopped, what it does afterwards must not reach that other key: it neither makes it robust nor acknowledges
 * its mark, and shows it for no other key's.
 *
 *   stop-rekey          at all points that are not alike
 *   stop-rekey every    at every point
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lock/damage.h"
#include "lock/table.h"
#include "step.h"
#include "support/fixture.h"
#include "sys/hash.h"

#define X LOCKSHM_EXCLUSIVE

static unsigned serial;

static uint32_t entry_of(const char *key)
{
	struct identity id;

	hash_key(&id, seg->hash_secret, key, strlen(key));
	return table_lookup(seg, &id);
}

/* ---------------------------------------------------------------- the victim's calls */

static int takes_part(const struct scene *s)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int code = take(&hold, s->key, X);

	return code ? code : lockshm_release(&hold, 0);
}

static int robust_try(const struct scene *s)
{
	int code = take_robust(&victim_holds[0], s->key, X);

	return code < 0 ? code : lockshm_release(&victim_holds[0], 0);
}

static int acknowledge_mark(const struct scene *s)
{
	size_t cleared;

	return clear_marks(seg, LOCKSHM_LIST_KEY, s->key, strlen(s->key), 0, &cleared);
}

static int list_key(const struct scene *s)
{
	struct lockshm_row row;
	int code = key_row(seg, s->key, strlen(s->key), &row);

	return code ? code : row.damage.status != 0;
}

/* ---------------------------------------------------------------- the others */

/* Another key, plain and held, or with a mark.  False = no entry is left. */
static bool take_another_key(lockshm_hold_t *hold, bool marked)
{
	char key[32];
	int code;

	snprintf(key, sizeof(key), "other-%u", serial++);
	code = marked ? take_robust(hold, key, X) : take(hold, key, X);
	if (code == LOCKSHM_FULL)
		return false;
	ck_code(code, 0);
	if (marked)
		ck_code(lockshm_end_hold(seg, key, strlen(key), lockshm_token(hold)), 0);
	return true;
}

/* True = the entry of the victim's key has another one, which is held or has a mark, and so keeps it. */
static bool turn_over(lockshm_hold_t *hold, const char *key, bool marked)
{
	unsigned i;

	for (i = 0; i < 4 * seg->n_locks && entry_of(key) != ENTRY_NONE; i++) {
		(void)lockshm_release(hold, 0);
		if (!take_another_key(hold, marked))
			break;
	}
	return entry_of(key) == ENTRY_NONE;
}

static unsigned robust_keys(void)
{
	unsigned n = 0;
	uint32_t i;

	for (i = 0; i < seg->n_locks; i++)
		n += damage_is_robust(&seg->entries[i]);
	return n;
}

static bool victim_ended(void *c)
{
	return step_ended(c);
}

/* One round; returns its number of points. */
static unsigned stop_at(const struct step_op *op, struct scene *s, unsigned point, bool marked, unsigned *turned)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct caught c;
	unsigned marks, robust;
	size_t cleared;

	snprintf(s->key, sizeof(s->key), "victim-%u", point);
	s->round++;
	c = step_to(op, s, point);
	if (c.ran_through)
		return c.points;
	step_stop(&c);
	*turned += turn_over(&hold, s->key, marked);
	marks = (unsigned)stat_now().keys_damaged;
	robust = robust_keys();
	step_continue(&c);
	ck_assert_msg(await(victim_ended, &c), "%s: point %u: does not end", op->name, point);
	ck_assert_msg(s->result->code == 0, "%s: point %u: %s", op->name, point, outcome_name(s->result->code));
	if (marked)
		ck_assert_msg(stat_now().keys_damaged == marks, "%s: point %u: another key's mark is acknowledged",
			      op->name, point);
	else
		ck_assert_msg(robust_keys() <= robust + (entry_of(s->key) != ENTRY_NONE),
			      "%s: point %u: another key is robust", op->name, point);
	(void)lockshm_release(&hold, 0);
	ck_code(clear_all_marks(seg, &cleared), 0);
	ck_code(lockshm_sweep(seg, NULL), 0);
	return c.points;
}

static void stop_everywhere(const struct step_op *op, bool marked)
{
	struct scene s;
	unsigned n, points, turned = 0;

	scene_open(&s, op, LOCKSHM_FOREVER, SCENE_ROBUST);
	s.before = stat_now();
	step_new_path(0);
	points = stop_at(op, &s, UINT32_MAX, marked, &turned);
	for (n = 0; n < points; n++)
		(void)stop_at(op, &s, n, marked, &turned);
	printf("%-20s %u points, turned over at %u\n", op->name, points, turned);
	ck_assert_uint_gt(turned, 0);
	verify_clean();
}

START_TEST(robust_request_makes_no_other_key_robust)
{
	static const struct step_op op = { .name = "robust-try", .prepare = takes_part, .act = robust_try };

	stop_everywhere(&op, false);
}
END_TEST

START_TEST(operator_acknowledges_no_other_keys_mark)
{
	static const struct step_op op = { .name = "acknowledge-marks", .prepare = takes_part, .act = acknowledge_mark };

	stop_everywhere(&op, true);
}
END_TEST

START_TEST(no_key_is_shown_with_another_keys_mark)
{
	static const struct step_op op = { .name = "list-key", .prepare = takes_part, .act = list_key };

	stop_everywhere(&op, true);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, robust_request_makes_no_other_key_robust);
	tcase_add_test(tc, operator_acknowledges_no_other_keys_mark);
	tcase_add_test(tc, no_key_is_shown_with_another_keys_mark);
}

int main(int argc, char **argv)
{
	if (!step_possible()) {
		puts("cannot single-step here");
		return 77;
	}
	if (!(argc > 1 && strcmp(argv[1], "every") == 0) && step_knows_touches())
		step_points = STEP_TOUCHES;
	return fixture_main("stop-rekey", add);
}
