/* SPDX-License-Identifier: MIT */
/* test-history-global.c - the checker of histories of global keys finds what is wrong, and nothing else */
#include "builder.h"

#include <string.h>

#include "global.h"

#define TTL 1000 /* ms, of a lease */

static char names[256];

static void note(const char *property, const char *text, void *arg)
{
	(void)text;
	(void)arg;
	if (strstr(names, property))
		return;
	if (*names)
		strcat(names, " ");
	strcat(names, property);
}

static struct global_summary global_finds(const char *properties)
{
	const struct global_terms terms = {
		.ttl_ns = LOCKSHM_MS(TTL), .wait_ns = LOCKSHM_SECONDS(5), .closed_ns = LOCKSHM_SECONDS(4), .hosts = 2
	};
	struct global_summary sum;

	names[0] = '\0';
	(void)history_check_global(&h, &terms, note, NULL, &sum);
	ck_assert_str_eq(names, properties);
	history_close(&h);
	return sum;
}

/* A hold of a new process of @host, with the times of its request and its grant; of a robust key. */
static struct history_record *robust(unsigned host, int mode, double enter, double leave, unsigned ticket)
{
	struct history_record *r = acquire(track(), 1, mode, STRICT, enter, leave, ticket);

	r->realm = (uint16_t)host;
	return r;
}

static struct history_record *hold(unsigned host, int mode, double enter, double leave, unsigned ticket)
{
	return plain(robust(host, mode, enter, leave, ticket));
}

/* lockshm_check() returned that @left ms remain. */
static struct history_record *good(const struct history_record *of, double when, double left)
{
	struct history_record *r = on(of, HISTORY_CHECK, when, when + 0.1, LOCKSHM_OK);

	r->ns = (int64_t)(left * 1e6);
	return r;
}

static struct history_record *fault(enum history_fault kind, unsigned mask, double enter, double leave)
{
	struct history_record *r = add(track(), HISTORY_FAULT, enter, leave, 0);

	r->mode = (uint8_t)kind;
	r->key = mask;
	r->deadline = r->enter;
	r->ns = r->leave;
	return r;
}

START_TEST(hosts_take_turns)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, 1, 1);
	good(a, 2, 900);
	release(a, 3, 4);
	release(hold(1, X, 1, 5, 2), 6, 7);
	release(hold(1, S, 6, 8, 3), 10, 11);
	release(hold(0, S, 6, 9, 4), 10, 11);
	global_finds("");
}
END_TEST

START_TEST(both_were_granted)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, 1, 1);
	good(a, 2, 500);
	good(a, 400, 102);
	release(hold(1, X, 1, 450, 2), 460, 461);
	global_finds("exclusion");
}
END_TEST

START_TEST(reader_beside_a_writer)
{
	struct history_record *a;

	begin();
	a = hold(0, S, 0, 1, 1);
	good(a, 2, 500);
	release(hold(1, X, 1, 300, 2), 301, 302);
	release(a, 350, 351);
	global_finds("exclusion");
}
END_TEST

START_TEST(its_time_is_over)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, 1, 1);
	good(a, 2, 500);
	good(a, 400, 40);
	release(hold(1, X, 1, 450, 2), 460, 461);
	global_finds("");
}
END_TEST

/* Earlier results do not count any more. */
START_TEST(killed_holder_is_followed)
{
	struct history_record *a;
	uint32_t d;

	begin();
	d = track();
	a = hold(0, X, 0, 1, 1);
	good(a, 2, 900);
	killed(d, a->track, 10);
	release(hold(0, X, 1, 12, 2), 20, 21);
	global_finds("");
}
END_TEST

START_TEST(redis_forgot)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, 1, 5);
	good(a, 2, 900);
	fault(FAULT_FORGETS, 3, 100, 101);
	release(hold(1, X, 1, 150, 2), 160, 161);
	on(a, HISTORY_RELEASE, 200, 201, LOCKSHM_LOST);
	ck_assert_uint_eq(global_finds("").unsure, 1);
}
END_TEST

START_TEST(redis_forgot_long_ago)
{
	struct history_record *a;

	begin();
	fault(FAULT_FORGETS, 3, 100, 101);
	a = hold(0, X, 1200, 1201, 1);
	good(a, 1202, 900);
	release(hold(1, X, 1200, 1300, 2), 1400, 1401);
	global_finds("exclusion");
}
END_TEST

START_TEST(smaller_token_on_the_other_host)
{
	begin();
	release(hold(0, X, 0, 1, 7), 2, 3);
	release(hold(1, X, 4, 5, 6), 6, 7);
	global_finds("tokens");
}
END_TEST

START_TEST(smaller_token_of_another_reader)
{
	begin();
	release(hold(0, S, 0, 1, 7), 2, 3);
	release(hold(1, S, 4, 5, 6), 6, 7);
	global_finds("");
}
END_TEST

START_TEST(token_given_twice)
{
	begin();
	release(hold(0, S, 0, 1, 7), 2, 3);
	release(hold(1, S, 0, 5, 7), 6, 7);
	global_finds("tokens");
}
END_TEST

START_TEST(granted_long_after_redis_went_away)
{
	begin();
	fault(FAULT_AWAY, 1, 10, 3000);
	release(hold(0, X, 5, 1100, 1), 1101, 1102);
	global_finds("away");
}
END_TEST

START_TEST(good_long_after_redis_went_away)
{
	struct history_record *a;

	begin();
	fault(FAULT_AWAY, 2, 10, 3000);
	a = hold(1, X, 0, 1, 1);
	good(a, 1050, 100);
	on(a, HISTORY_RELEASE, 1200, 1201, LOCKSHM_LOST);
	global_finds("away");
}
END_TEST

START_TEST(the_other_host_still_has_redis)
{
	begin();
	fault(FAULT_AWAY, 1, 10, 3000);
	release(hold(1, X, 5, 1100, 1), 1101, 1102);
	global_finds("");
}
END_TEST

START_TEST(lost_for_no_reason)
{
	begin();
	on(hold(0, X, 0, 1, 1), HISTORY_RELEASE, 10, 11, LOCKSHM_LOST);
	global_finds("lost");
}
END_TEST

START_TEST(lost_to_an_outage)
{
	begin();
	fault(FAULT_AWAY, 1, 10, 2000);
	on(hold(0, X, 0, 1, 1), HISTORY_RELEASE, 1100, 1101, LOCKSHM_LOST);
	global_finds("");
}
END_TEST

START_TEST(good_again)
{
	struct history_record *a;

	begin();
	fault(FAULT_AWAY, 1, 10, 20);
	a = hold(0, X, 0, 1, 1);
	on(a, HISTORY_CHECK, 30, 31, LOCKSHM_LOST);
	good(a, 40, 500);
	on(a, HISTORY_RELEASE, 50, 51, LOCKSHM_LOST);
	global_finds("regained");
}
END_TEST

START_TEST(waited_while_all_was_well)
{
	begin();
	release(hold(0, X, 0, 6000, 1), 6001, 6002);
	global_finds("overdue");
}
END_TEST

START_TEST(never_came_back)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, OPEN, 0);
	(void)a;
	release(hold(1, X, 0, 1, 1), 2, 3);
	global_finds("overdue");
}
END_TEST

START_TEST(host_is_never_served_again)
{
	begin();
	fault(FAULT_AWAY, 3, 10, 20);
	release(hold(0, X, 30, 31, 1), 32, 33);
	release(hold(0, X, 5000, 5001, 2), 5002, 5003);
	global_finds("closed");
}
END_TEST

START_TEST(outcome_that_may_not_be)
{
	begin();
	failed(hold(0, X, 0, 1, 0), LOCKSHM_DEADLOCK, 100);
	global_finds("code");
}
END_TEST

/* To a reader or a writer, with that ticket from then on. */
static struct history_record *change(const struct history_record *of, enum history_op op, double enter, double leave,
				     unsigned ticket)
{
	struct history_record *r = on(of, op, enter, leave, LOCKSHM_OK);

	r->token = ticket ? BASE + ticket : of->token;
	return r;
}

START_TEST(readers_beside_one_that_wrote)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, 1, 1);
	good(a, 2, 900);
	change(a, HISTORY_DOWNGRADE, 100, 101, 0);
	release(hold(1, S, 1, 110, 2), 120, 121);
	good(a, 130, 500);
	release(a, 150, 151);
	ck_assert_uint_eq(global_finds("").changes, 1);
}
END_TEST

START_TEST(writer_beside_one_that_wrote)
{
	struct history_record *a;

	begin();
	a = hold(0, X, 0, 1, 1);
	good(a, 2, 900);
	change(a, HISTORY_DOWNGRADE, 100, 101, 0);
	good(a, 130, 500);
	release(hold(1, X, 1, 110, 2), 120, 121);
	release(a, 150, 151);
	global_finds("exclusion");
}
END_TEST

START_TEST(readers_before_it_wrote)
{
	struct history_record *a;

	begin();
	a = hold(0, S, 0, 1, 1);
	release(hold(1, S, 1, 10, 2), 20, 21);
	good(a, 30, 900);
	change(a, HISTORY_UPGRADE, 100, 101, 3);
	release(a, 150, 151);
	global_finds("");
}
END_TEST

START_TEST(reader_beside_one_that_writes_now)
{
	struct history_record *a, *b;

	begin();
	a = hold(0, S, 0, 1, 1);
	b = hold(1, S, 1, 10, 2);
	good(b, 11, 300);
	good(a, 30, 900);
	change(a, HISTORY_UPGRADE, 100, 101, 3);
	good(b, 200, 100);
	release(b, 250, 251);
	release(a, 350, 351);
	global_finds("exclusion");
}
END_TEST

/* A token from before the upgrade does not rank after the grants of others. */
START_TEST(old_token_of_one_that_writes_now)
{
	struct history_record *a;

	begin();
	a = hold(0, S, 0, 1, 1);
	release(hold(1, S, 1, 10, 2), 20, 21);
	good(a, 30, 900);
	change(a, HISTORY_UPGRADE, 100, 101, 0);
	release(a, 150, 151);
	global_finds("tokens");
}
END_TEST

START_TEST(refused_upgrade_is_no_violation)
{
	struct history_record *a;

	begin();
	a = hold(0, S, 0, 1, 1);
	on(a, HISTORY_UPGRADE, 2, 3, LOCKSHM_BUSY);
	on(a, HISTORY_UPGRADE, 4, 5, LOCKSHM_INVALID);
	release(hold(1, S, 1, 10, 2), 20, 21);
	release(a, 30, 31);
	ck_assert_uint_eq(global_finds("").changes, 0);
}
END_TEST

START_TEST(upgrade_that_takes_too_long)
{
	struct history_record *a;

	begin();
	a = hold(0, S, 0, 1, 1);
	on(a, HISTORY_UPGRADE, 2, 9000, LOCKSHM_BUSY);
	release(a, 9001, 9002);
	global_finds("overdue");
}
END_TEST

/* A writer of host 0 dies inside. */
static struct history_record *one_that_died(void)
{
	struct history_record *a = robust(0, X, 0, 1, 1);

	good(a, 2, 900);
	killed(track(), a->track, 10);
	return a;
}

START_TEST(told_on_the_other_host)
{
	struct history_record *a, *b;

	begin();
	a = one_that_died();
	b = reporting(robust(1, X, 1, 12, 2), LOCKSHM_OWNER_DIED, a);
	release(b, 20, 21);
	release(reporting(robust(0, S, 1, 22, 3), LOCKSHM_OWNER_DIED, a), 30, 31);
	ck_assert_uint_eq(global_finds("").told, 2);
}
END_TEST

START_TEST(not_told_on_the_other_host)
{
	begin();
	one_that_died();
	release(robust(1, X, 1, 12, 2), 20, 21);
	global_finds("untold");
}
END_TEST

START_TEST(not_told_any_more)
{
	struct history_record *a;

	begin();
	a = one_that_died();
	release(reporting(robust(1, X, 1, 12, 2), LOCKSHM_OWNER_DIED, a), 20, 21);
	release(robust(0, S, 1, 22, 3), 30, 31);
	global_finds("untold");
}
END_TEST

START_TEST(not_told_once_acknowledged)
{
	struct history_record *a, *b;

	begin();
	a = one_that_died();
	b = reporting(robust(1, X, 1, 12, 2), LOCKSHM_OWNER_DIED, a);
	b->flags |= HISTORY_ACK_AT_ONCE;
	release(b, 20, 21);
	release(robust(0, S, 1, 22, 3), 30, 31);
	global_finds("");
}
END_TEST

START_TEST(told_once_acknowledged)
{
	struct history_record *a, *b;

	begin();
	a = one_that_died();
	b = reporting(robust(1, X, 1, 12, 2), LOCKSHM_OWNER_DIED, a);
	b->flags |= HISTORY_ACK_AT_ONCE;
	release(b, 20, 21);
	release(reporting(robust(0, S, 1, 22, 3), LOCKSHM_OWNER_DIED, a), 30, 31);
	global_finds("false alarm");
}
END_TEST

/* Its downgrade may have been done; and one that is killed in its acquire may have been inside. */
START_TEST(told_or_not_where_it_is_not_known)
{
	struct history_record *a;
	uint32_t d;

	begin();
	d = track();
	a = robust(0, X, 0, 1, 1);
	good(a, 2, 900);
	on(a, HISTORY_DOWNGRADE, 9, OPEN, 0);
	killed(d, a->track, 10);
	release(robust(1, X, 1, 12, 2), 20, 21);
	release(reporting(robust(1, X, 15, 22, 3), LOCKSHM_OWNER_DIED, a), 30, 31);
	global_finds("");
	begin();
	d = track();
	a = robust(0, X, 0, OPEN, 0);
	killed(d, a->track, 10);
	release(reporting(robust(1, X, 1, 12, 2), LOCKSHM_OWNER_DIED, a), 20, 21);
	global_finds("");
}
END_TEST

/* It waited meanwhile. */
START_TEST(told_of_one_that_entered_once_acknowledged)
{
	struct history_record *a, *b, *c;
	uint32_t d;

	begin();
	d = track();
	c = robust(0, X, 0.5, OPEN, 0);
	a = one_that_died();
	b = reporting(robust(1, X, 1, 12, 2), LOCKSHM_OWNER_DIED, a);
	b->flags |= HISTORY_ACK_AT_ONCE;
	release(b, 20, 21);
	killed(d, c->track, 22);
	release(reporting(robust(0, S, 1, 24, 4), LOCKSHM_OWNER_DIED, c), 30, 31);
	global_finds("");
}
END_TEST

START_TEST(told_for_no_reason)
{
	struct history_record *a;

	begin();
	a = robust(0, X, 0, 1, 1);
	release(a, 2, 3);
	release(reporting(robust(1, X, 1, 12, 2), LOCKSHM_TOOK_OVER_EXPIRED, a), 20, 21);
	global_finds("false alarm");
}
END_TEST

START_TEST(told_after_a_bridge_was_killed)
{
	struct history_record *a;

	begin();
	a = robust(0, X, 0, 1, 1);
	release(a, 2, 3);
	add(track(), HISTORY_STOP, 3, 4, 0)->subject = HISTORY_A_BRIDGE;
	release(reporting(robust(1, X, 1, 12, 2), LOCKSHM_TOOK_OVER_EXPIRED, a), 20, 21);
	global_finds("");
}
END_TEST

START_TEST(not_told_as_redis_forgot)
{
	begin();
	one_that_died();
	fault(FAULT_FORGETS, 3, 11, 11.5);
	release(robust(1, X, 1, 12, 2), 20, 21);
	global_finds("");
}
END_TEST

static void cases(TCase *tc)
{
	tcase_add_test(tc, told_on_the_other_host);
	tcase_add_test(tc, not_told_on_the_other_host);
	tcase_add_test(tc, not_told_any_more);
	tcase_add_test(tc, not_told_once_acknowledged);
	tcase_add_test(tc, told_once_acknowledged);
	tcase_add_test(tc, told_or_not_where_it_is_not_known);
	tcase_add_test(tc, told_of_one_that_entered_once_acknowledged);
	tcase_add_test(tc, told_for_no_reason);
	tcase_add_test(tc, told_after_a_bridge_was_killed);
	tcase_add_test(tc, not_told_as_redis_forgot);
	tcase_add_test(tc, readers_beside_one_that_wrote);
	tcase_add_test(tc, writer_beside_one_that_wrote);
	tcase_add_test(tc, readers_before_it_wrote);
	tcase_add_test(tc, reader_beside_one_that_writes_now);
	tcase_add_test(tc, old_token_of_one_that_writes_now);
	tcase_add_test(tc, refused_upgrade_is_no_violation);
	tcase_add_test(tc, upgrade_that_takes_too_long);
	tcase_add_test(tc, hosts_take_turns);
	tcase_add_test(tc, both_were_granted);
	tcase_add_test(tc, reader_beside_a_writer);
	tcase_add_test(tc, its_time_is_over);
	tcase_add_test(tc, killed_holder_is_followed);
	tcase_add_test(tc, redis_forgot);
	tcase_add_test(tc, redis_forgot_long_ago);
	tcase_add_test(tc, smaller_token_on_the_other_host);
	tcase_add_test(tc, smaller_token_of_another_reader);
	tcase_add_test(tc, token_given_twice);
	tcase_add_test(tc, granted_long_after_redis_went_away);
	tcase_add_test(tc, good_long_after_redis_went_away);
	tcase_add_test(tc, the_other_host_still_has_redis);
	tcase_add_test(tc, lost_for_no_reason);
	tcase_add_test(tc, lost_to_an_outage);
	tcase_add_test(tc, good_again);
	tcase_add_test(tc, waited_while_all_was_well);
	tcase_add_test(tc, never_came_back);
	tcase_add_test(tc, host_is_never_served_again);
	tcase_add_test(tc, outcome_that_may_not_be);
}

int main(void)
{
	return fixture_main("history-global", cases);
}
