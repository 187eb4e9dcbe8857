/* SPDX-License-Identifier: MIT */
/*
 * test-growth-keys.c - what an acquire and a release cost does not grow with the number of keys
 *
 * As in test-growth.c, looks at shared words are counted: records and chunks of a thread that holds many keys, places of
 * the table, whichever of n keys is taken.  A figure is the mean of PAIRS pairs, as a search for a record that finds none
 * nearby is paid for by the next ones.
 */
#include "crowd.h"
#include "growth.h"
#include "other-thread.h"
#include "segment/segment.h"
#include "support/fixture.h"

#define S LOCKSHM_SHARED
#define MOST 1000u /* keys */
#define PAIRS 200u
#define LOCKS 4096 /* also with few keys, so that the table is the same */
#define REQUESTS 16384

unsigned long shared_looks;

static lockshm_hold_t holds[MOST], spare[PAIRS];
static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % n;
}

static void begin(void)
{
	segment_with(LOCKS, REQUESTS, 64);
	random_state = 1;
}

static const char *name_of(uint32_t key)
{
	static char name[32];

	snprintf(name, sizeof(name), "key %u", key);
	return name;
}

static void take_key(lockshm_hold_t *hold, uint32_t key)
{
	ck_code(take(hold, name_of(key), X), 0);
}

static void give_back(lockshm_hold_t *hold)
{
	ck_code(lockshm_release(hold, 0), 0);
}

static void hold_keys(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		take_key(&holds[i], i);
}

/* ---------------------------------------------------------------- pairs of some keys */

static uint32_t one_of(unsigned n)
{
	return MOST + n;
}

static uint32_t any_of(unsigned n)
{
	return random_below(n);
}

static uint32_t never_before(unsigned n)
{
	static uint32_t last;

	(void)n;
	return 10 * MOST + last++;
}

static void pair(uint32_t key)
{
	lockshm_hold_t hold;

	take_key(&hold, key);
	give_back(&hold);
}

/* Of one pair. */
static double looks_of_pairs(uint32_t (*key)(unsigned), unsigned n)
{
	unsigned long before;
	unsigned i;

	pair(key(n));
	before = shared_looks;
	for (i = 0; i < PAIRS; i++)
		pair(key(n));
	return (double)(shared_looks - before) / PAIRS;
}

START_TEST(a_pair_does_not_depend_on_the_keys_that_its_thread_holds)
{
	double of_one[SIZES], of_new[SIZES];
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		begin();
		hold_keys(sizes[i]);
		of_one[i] = looks_of_pairs(one_of, sizes[i]);
		of_new[i] = looks_of_pairs(never_before, sizes[i]);
	}
	grows_by("a pair beside own keys", of_one, 0, 0);
	grows_by("a pair of a new key beside own keys", of_new, 0, 0);
}
END_TEST

START_TEST(a_pair_does_not_depend_on_the_keys_that_others_hold)
{
	double of_one[SIZES], of_new[SIZES];
	struct crowd others;
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		segment_with(LOCKS, REQUESTS, MOST + 100);
		others = crowd_of(sizes[i], NULL, X, false);
		of_one[i] = looks_of_pairs(one_of, sizes[i]);
		of_new[i] = looks_of_pairs(never_before, sizes[i]);
		die(others);
	}
	grows_by("a pair beside others' keys", of_one, 0, 0);
	grows_by("a pair of a new key beside others' keys", of_new, 0, 0);
}
END_TEST

START_TEST(a_pair_does_not_depend_on_the_number_of_keys)
{
	double counts[SIZES];
	unsigned i, key;

	for (i = 0; i < SIZES; i++) {
		begin();
		for (key = 0; key < sizes[i]; key++)
			pair(key);
		counts[i] = looks_of_pairs(any_of, sizes[i]);
	}
	grows_by("a pair of any key", counts, 0, 0);
}
END_TEST

/* ---------------------------------------------------------------- many holds come and go */

START_TEST(many_keys_are_taken_and_given_back_at_the_same_price_each)
{
	double taken[SIZES], given[SIZES];
	unsigned i, key;

	for (i = 0; i < SIZES; i++) {
		begin();
		pair(MOST);
		shared_looks = 0;
		hold_keys(sizes[i]);
		taken[i] = (double)shared_looks / sizes[i];
		shared_looks = 0;
		for (key = 0; key < sizes[i]; key++)
			give_back(&holds[key]);
		given[i] = (double)shared_looks / sizes[i];
		verify_clean();
	}
	grows_by("taking n keys, each", taken, 0, 0);
	grows_by("giving them back, each", given, 0, 0);
}
END_TEST

/* The place of a free record is anywhere. */
START_TEST(any_of_many_holds_is_given_back_and_taken_again)
{
	double counts[SIZES];
	unsigned i, n, key;

	for (i = 0; i < SIZES; i++) {
		begin();
		hold_keys(sizes[i]);
		shared_looks = 0;
		for (n = 0; n < PAIRS; n++) {
			key = random_below(sizes[i]);
			give_back(&holds[key]);
			take_key(&holds[key], key);
		}
		counts[i] = (double)shared_looks / PAIRS;
	}
	grows_by("any of n holds, given back and taken again", counts, 0, 0);
}
END_TEST

/* Holds that come and go in a burst, beside those that stay. */
START_TEST(a_burst_of_holds_beside_many_that_stay)
{
	double counts[SIZES];
	unsigned i, n, round;

	for (i = 0; i < SIZES; i++) {
		begin();
		hold_keys(sizes[i]);
		shared_looks = 0;
		for (round = 0; round < 5; round++) {
			for (n = 0; n < PAIRS; n++)
				take_key(&spare[n], MOST + n);
			for (n = 0; n < PAIRS; n++)
				give_back(&spare[n]);
		}
		counts[i] = (double)shared_looks / PAIRS / 5;
	}
	grows_by("bursts beside n holds, each", counts, 0, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_pair_does_not_depend_on_the_keys_that_its_thread_holds);
	tcase_add_native(tc, a_pair_does_not_depend_on_the_keys_that_others_hold);
	tcase_add_test(tc, a_pair_does_not_depend_on_the_number_of_keys);
	tcase_add_test(tc, many_keys_are_taken_and_given_back_at_the_same_price_each);
	tcase_add_test(tc, any_of_many_holds_is_given_back_and_taken_again);
	tcase_add_test(tc, a_burst_of_holds_beside_many_that_stay);
}

int main(void)
{
	return fixture_main("growth-keys", add);
}
