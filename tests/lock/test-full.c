/* SPDX-License-Identifier: MIT */
/* test-full.c - a full table refuses, names itself, and evicts no lock in use */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/segment.h"
#include "support/agent.h"
#include "support/fixture.h"

#define KEYS_MAX 512

static lockshm_hold_t holds[KEYS_MAX];

static int take_number(unsigned n, lockshm_hold_t *hold, struct lockshm_report *report)
{
	struct lockshm_request request = request_for("", LOCKSHM_EXCLUSIVE);
	char key[16];

	snprintf(key, sizeof(key), "key-%u", n);
	request.key = key;
	request.key_len = strlen(key);
	request.report = report;
	return lockshm_acquire(seg, &request, hold);
}

/* Takes different keys until one is refused; returns how many there were. */
static unsigned fill(struct lockshm_report *report)
{
	unsigned n;

	for (n = 0; n < KEYS_MAX; n++) {
		int code = take_number(n, &holds[n], report);

		if (code == LOCKSHM_FULL)
			return n;
		ck_code(code, 0);
	}
	ck_abort_msg("%u keys and nothing is full", n);
	return n;
}

static void check_report(const struct lockshm_report *report, int table, const char *word)
{
	ck_code(report->error.code, LOCKSHM_FULL);
	ck_assert_int_eq(report->error.table, table);
	ck_assert_msg(strstr(report->error.message, word), "no '%s' in: %s", word, report->error.message);
	ck_assert_uint_eq(report->token, 0);
}

/* How many refusals are counted of each table, and of others none. */
static void check_refused(int table, uint64_t n)
{
	struct lockshm_stat stat = stat_now();
	uint64_t refused[] = { stat.refused_keys, stat.refused_requests, stat.refused_owners, stat.refused_tickets,
			       stat.refused_host_leases };
	int i;

	for (i = 0; i < 5; i++)
		ck_assert_uint_eq(refused[i], i + 1 == table ? n : 0);
}

START_TEST(lock_table_full_refuses_and_evicts_nothing)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	unsigned n, i;

	segment_with(64, 2048, 4);
	n = fill(&report);
	check_report(&report, LOCKSHM_TABLE_KEYS, "key");
	check_refused(LOCKSHM_TABLE_KEYS, 1);
	ck_assert_ptr_nonnull(strstr(report.error.message, "place"));
	ck_assert_uint_le(n, seg->n_locks);
	ck_assert_uint_ge(n, 64);
	for (i = 0; i < n; i++)
		ck_code(lockshm_check(&holds[i], NULL), 0);
	ck_assert_uint_eq(stat_now().requests_used, n);
	verify_clean();
	/* One released key makes room for exactly one other. */
	for (i = 0; i < n; i++)
		ck_code(lockshm_release(&holds[i], 0), 0);
	ck_code(take_number(1000, &holds[0], NULL), 0);
	ck_code(lockshm_release(&holds[0], 0), 0);
	verify_clean();
}
END_TEST

START_TEST(damaged_locks_are_not_evicted_either)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct agent *dies;
	unsigned i;

	segment_with(64, 2048, 8);
	dies = agent_inherit();
	ck_code(agent_acquire(dies, "damaged", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(dies);
	ck_code(lockshm_sweep(seg, NULL), 0);
	for (i = 0; i < 3 * KEYS_MAX; i++) { /* many more keys than there is room for, one after the other */
		ck_code(take_number(i, &holds[0], &report), 0);
		ck_code(lockshm_release(&holds[0], 0), 0);
	}
	ck_code(take_robust(&holds[0], "damaged", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_acknowledge(&holds[0]), 0);
	ck_code(lockshm_release(&holds[0], 0), 0);
	verify_clean();
}
END_TEST

START_TEST(request_table_full_refuses_and_nothing_is_lost)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	unsigned n, i;

	segment_with(256, 16, 2);
	n = fill(&report);
	check_report(&report, LOCKSHM_TABLE_REQUESTS, "request");
	ck_assert_ptr_nonnull(strstr(report.error.message, "record"));
	ck_assert_uint_le(n, stat_now().requests);
	ck_assert_uint_ge(n, 15); /* one record is needed to add a key */
	for (i = 0; i < n; i++)
		ck_code(lockshm_check(&holds[i], NULL), 0);
	verify_clean();
	for (i = 0; i < n; i++)
		ck_code(lockshm_release(&holds[i], 0), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	for (i = 0; i < n; i++)
		ck_code(take_number(i, &holds[i], NULL), 0);
	verify_clean();
}
END_TEST

static unsigned shuffled[KEYS_MAX];

/* The same order each time. */
static void shuffle(unsigned n)
{
	uint32_t random = 1;
	unsigned i;

	for (i = 0; i < n; i++) {
		unsigned other;

		random = random * 1664525u + 1013904223u;
		other = (random >> 8) % (i + 1);
		shuffled[i] = shuffled[other];
		shuffled[other] = i;
	}
}

/* Each record is found again whatever the order of releases, even if all are needed. */
START_TEST(every_record_is_found_again)
{
	unsigned n, i, round;

	segment_with(512, 256, 2);
	n = fill(NULL);
	ck_assert_uint_ge(n, stat_now().requests - 1); /* one may be needed to add a key */
	for (round = 0; round < 20; round++) {
		unsigned some = 1 + round * n / 20;

		shuffle(n);
		for (i = 0; i < some; i++)
			ck_code(lockshm_release(&holds[shuffled[i]], 0), 0);
		ck_assert_uint_eq(stat_now().requests_used, n - some);
		for (i = 0; i < some; i++)
			ck_code(take_number(shuffled[i], &holds[shuffled[i]], NULL), 0);
		ck_assert_uint_eq(stat_now().requests_used, n);
	}
	verify_clean();
}
END_TEST

/* The number of records in chunks that have an owner. */
static unsigned records_taken(void)
{
	unsigned chunk, n = 0;

	for (chunk = 0; chunk < seg->n_chunks; chunk++)
		n += *chunk_word(seg, chunk) ? seg->chunk_size : 0;
	return n;
}

/* Most holds stay, the newest come and go: a search for a record in each acquire must not make one thread take all
 * chunks. */
START_TEST(thread_takes_few_records_more_than_it_uses)
{
	unsigned i, round;

	segment_with(1024, 4096, 2);
	for (i = 0; i < 400; i++)
		ck_code(take_number(i, &holds[i], NULL), 0);
	for (round = 0; round < 200; round++) {
		for (i = 400; i < 464; i++)
			ck_code(take_number(i, &holds[i], NULL), 0);
		for (i = 400; i < 464; i++)
			ck_code(lockshm_release(&holds[i], 0), 0);
	}
	ck_assert_uint_le(records_taken(), 464 + 464 / 3 + 16);
	verify_clean();
}
END_TEST

/* A record that has cooled down is reused although its lock gets no more requests. */
START_TEST(cooled_records_are_used_before_more_are_taken)
{
	unsigned n, i, round;

	segment_with(1024, 4096, 2);
	for (round = 0, n = 0; round < 100; round++) {
		for (i = 0; i < 16; i++, n++) {
			ck_code(take_number(n, &holds[0], NULL), 0);
			ck_code(lockshm_release(&holds[0], 1), 0);
		}
		pass(now_ns() + 1);
	}
	ck_assert_uint_le(records_taken(), 64);
	verify_clean();
}
END_TEST

/* A waiter that finds no record leaves the queue as it was. */
START_TEST(request_table_full_for_a_waiter)
{
	struct agent *a, *b;

	segment_with(64, 2, 2);
	a = agent_inherit();
	b = agent_inherit();
	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k2", .how = LOCKSHM_EXCLUSIVE, .hold = 1 }),
		0);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE }),
		LOCKSHM_FULL);
	ck_assert_int_eq(b->answer.report.error.table, LOCKSHM_TABLE_REQUESTS);
	check_refused(LOCKSHM_TABLE_REQUESTS, 1);
	ck_code(agent_release(a), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = 1 }), 0);
	verify_clean();
}
END_TEST

START_TEST(owner_table_full_refuses_newcomers_only)
{
	struct agent *a, *b, *c;

	segment_with(64, 64, 2);
	a = agent_inherit();
	b = agent_inherit();
	c = agent_inherit();
	ck_code(agent_acquire(a, "a", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(b, "b", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(c, "c", LOCKSHM_EXCLUSIVE), LOCKSHM_FULL);
	ck_assert_int_eq(c->answer.report.error.table, LOCKSHM_TABLE_OWNERS);
	check_refused(LOCKSHM_TABLE_OWNERS, 1);
	ck_code(agent_try(c, "c", LOCKSHM_EXCLUSIVE), LOCKSHM_FULL);
	check_refused(LOCKSHM_TABLE_OWNERS, 2);
	ck_assert_ptr_nonnull(strstr(c->answer.report.error.message, "owner"));
	ck_code(agent_release(a), 0);
	ck_code(agent_acquire(a, "other", LOCKSHM_EXCLUSIVE), 0); /* participants continue */
	agent_kill(b); /* the slots of the dead are free at once */
	ck_code(agent_try(c, "b", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
	verify_clean();
}
END_TEST

START_TEST(move_needs_an_owner_slot_and_keeps_the_hold_without)
{
	struct agent *a;

	segment_with(64, 64, 1);
	a = agent_inherit();
	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_PROCESS }), LOCKSHM_FULL);
	check_refused(LOCKSHM_TABLE_OWNERS, 1);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	verify_clean();
}
END_TEST

START_TEST(many_keys_are_all_given_back_when_one_finds_no_room)
{
	struct lockshm_request request = request_for("", LOCKSHM_EXCLUSIVE);
	struct lockshm_key keys[40];
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	char names[40][8];
	unsigned i;

	segment_with(64, 16, 2);
	for (i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "m%u", i);
		keys[i] = (struct lockshm_key)LOCKSHM_MANY_KEY(names[i], 0);
	}
	request.report = &report;
	ck_code(lockshm_acquire_many(seg, &request, keys, 40, holds), LOCKSHM_FULL);
	ck_assert_int_eq(report.error.table, LOCKSHM_TABLE_REQUESTS);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	ck_code(lockshm_acquire_many(seg, &request, keys, 8, holds), 0);
	ck_code(lockshm_release_many(holds, 8), 0);
}
END_TEST

/* A table of the smallest size there is works. */
START_TEST(smallest_segment_works)
{
	struct agent *a;

	segment_with(1, 1, 1);
	a = agent_inherit();
	ck_code(agent_try(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_code(agent_try(a, "other", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(a);
	ck_code(take_robust(&holds[0], "other", LOCKSHM_SHARED), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_release(&holds[0], 0), 0);
	verify_clean();
}
END_TEST

static void wear_out_tickets(void)
{
	uint32_t i;

	for (i = 0; i < seg->n_locks; i++)
		if (seg->entries[i].key_len != 0)
			seg->entries[i].tail = tail_make(TICKET_MAX - 1, 0);
}

START_TEST(key_that_is_out_of_tickets_says_so)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	unsigned n = 0;

	/* Only a damaged or very old segment gets there: put the key's ticket near its end. */
	ck_code(take_number(n, &holds[0], &report), 0);
	ck_code(lockshm_release(&holds[0], 0), 0);
	wear_out_tickets();
	ck_code(take_number(n, &holds[0], &report), LOCKSHM_FULL);
	check_report(&report, LOCKSHM_TABLE_TICKETS, "ticket");
	check_refused(LOCKSHM_TABLE_TICKETS, 1);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, lock_table_full_refuses_and_evicts_nothing);
	tcase_add_test(tc, damaged_locks_are_not_evicted_either);
	tcase_add_test(tc, request_table_full_refuses_and_nothing_is_lost);
	tcase_add_test(tc, every_record_is_found_again);
	tcase_add_test(tc, thread_takes_few_records_more_than_it_uses);
	tcase_add_test(tc, cooled_records_are_used_before_more_are_taken);
	tcase_add_test(tc, request_table_full_for_a_waiter);
	tcase_add_test(tc, owner_table_full_refuses_newcomers_only);
	tcase_add_test(tc, move_needs_an_owner_slot_and_keeps_the_hold_without);
	tcase_add_test(tc, many_keys_are_all_given_back_when_one_finds_no_room);
	tcase_add_test(tc, smallest_segment_works);
	tcase_add_test(tc, key_that_is_out_of_tickets_says_so);
}

int main(void)
{
	return fixture_main("full", add);
}
