/* SPDX-License-Identifier: MIT */
/* step-ops.c - what the bridge is at when it is killed or stopped; see bridge-crash/step.h */
#define _GNU_SOURCE
#include "step.h"

#include <string.h>

#include "hostlease/host-lease.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static void first_has_it(struct round *s)
{
	ck_round(s, holds(&s->first), "the first has not: answered %s, now %s", outcome_name(s->first.code),
		 outcome_name(s->first.agent->answer.code));
}

static void rival_has_it(struct round *s)
{
	ck_round(s, holds(&s->rival), "the rival has not: answered %s, now %s", outcome_name(s->rival.code),
		 outcome_name(s->rival.agent->answer.code));
}

static void first_takes(struct round *s)
{
	takes(s, &s->first, X);
}

static void first_reads(struct round *s)
{
	takes(s, &s->first, S);
}

static void rival_takes(struct round *s)
{
	takes(s, &s->rival, X);
}

static void rival_reads(struct round *s)
{
	takes(s, &s->rival, S);
}

static void first_asks(struct round *s)
{
	cmds(s, &s->first, X);
}

static bool first_is_answered(struct round *s)
{
	return answered(s, &s->first);
}

static bool both_are_answered(struct round *s)
{
	bool one = answered(s, &s->first), other = answered(s, &s->rival);

	return one && other;
}

static void first_releases(struct round *s)
{
	asks_with(&s->first, (struct agent_command){ .op = AGENT_RELEASE }, 0);
}

/* ---------------------------------------------------------------- taken */

static void two_ask_to_read(struct round *s)
{
	cmds(s, &s->first, S);
	cmds(s, &s->second, S);
}

static bool two_are_answered(struct round *s)
{
	bool one = answered(s, &s->first), other = answered(s, &s->second);

	return one && other;
}

static void all_read(struct round *s)
{
	first_has_it(s);
	rival_has_it(s);
	ck_round(s, holds(&s->second), "the second: %s", outcome_name(s->second.agent->answer.code));
}

/* Once the host stands in line the rival lets go. */
static bool granted_in_line(struct round *s)
{
	if (s->stage == 0 && in_line(s, 1)) {
		lets_go(&s->rival);
		s->stage = 1;
	}
	return answered(s, &s->first) && s->stage == 1;
}

/* A reader's lease is there, and a writer wants it. */
static void reader_and_writer(struct round *s)
{
	first_reads(s);
	cmds(s, &s->second, X);
	waits_on_host(s->second.agent, 0, s->key);
}

static void second_has_it(struct round *s)
{
	ck_round(s, holds(&s->second), "the second has not: answered %s, now %s: %.100s", outcome_name(s->second.code),
		 outcome_name(s->second.agent->answer.code), s->second.agent->answer.report.error.message);
}

static void first_tries(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	c.timeout_ns = AGENT_TRY;
	asks_with(&s->first, c, X);
}

static void first_is_busy(struct round *s)
{
	ck_round(s, s->first.code == LOCKSHM_BUSY, "a try is answered %s: %s", outcome_name(s->first.code),
		 s->first.agent->answer.report.error.message);
	rival_has_it(s);
}

static void first_asks_briefly(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	c.timeout_ns = LOCKSHM_MS(60);
	asks_with(&s->first, c, X);
}

/*
 * What it had asked for is taken back.  A bridge that was stopped may ask for a place in line when nobody wants it any
 * more: that counts for two seconds, and is the host's own.
 */
static bool gave_up(struct round *s)
{
	int state = lease_of(0, s->key).state;

	return answered(s, &s->first) && (state == 0 || state == LOCKSHM_HOST_LEASE_NONE) &&
	       (in_line(s, 0) || (s->caught && s->how == HOW_STOP && s->resumed));
}

static void first_is_late(struct round *s)
{
	ck_round(s, s->first.code == LOCKSHM_TIMEOUT, "%s", outcome_name(s->first.code));
	rival_has_it(s);
}

/* ---------------------------------------------------------------- kept */

/* Hints, so that it is renewed at once. */
static void touched(struct round *s)
{
	ck_redis("1", redis, "PEXPIRE lk:%s 1400", s->key);
}

static bool is_renewed(struct round *s)
{
	return bridge_of(0).renewed > s->renewed + s->stage;
}

/* By whoever is the bridge now, for longer than a lease. */
static void may_resume(struct round *s)
{
	int64_t end = now_ns() + LOCKSHM_MS(1600);

	first_has_it(s);
	while (s->every && s->resume == RESUME_BESIDE && now_ns() < end) {
		first_has_it(s);
		pass(now_ns() + LOCKSHM_MS(10));
	}
}

#define MANY 3

static void other_key(const struct round *s, unsigned i, char out[96])
{
	snprintf(out, 96, "%s%s%.0u", s->key, i ? "-" : "", i);
}

static void first_takes_many(struct round *s)
{
	struct agent_command c = { .op = 0 };
	unsigned i;

	first_takes(s);
	for (i = 1; i < MANY; i++) {
		c = global_command(s->key, X);
		c.hold = (int)i;
		other_key(s, i, c.key);
		ck_code(agent_do(s->first.agent, c), 0);
	}
	s->stage = MANY - 1;
}

static void all_touched(struct round *s)
{
	char key[96];
	unsigned i;

	for (i = 0; i < MANY; i++) {
		other_key(s, i, key);
		ck_redis("1", redis, "PEXPIRE lk:%s 1400", key);
	}
}

static void all_are_kept(struct round *s)
{
	unsigned i;

	may_resume(s);
	for (i = 1; i < MANY; i++) {
		ck_code(agent_do(s->first.agent, (struct agent_command){ .op = AGENT_CHECK, .hold = (int)i }), 0);
		ck_code(agent_do(s->first.agent, (struct agent_command){ .op = AGENT_RELEASE, .hold = (int)i }), 0);
	}
}

static uint64_t numbers_left(const struct round *s)
{
	return load_acquire(&hosts[0].s->host_leases[record_of(0, s->key)].fence) & FENCE_LEFT_MASK;
}

static void second_comes_and_goes(struct round *s)
{
	ck_code(global_wait(s->second.agent, s->key, S), 0);
	ck_code(agent_release(s->second.agent), 0);
}

/* Half of them is used up by the next one. */
static void many_came_and_went(struct round *s)
{
	first_reads(s);
	while (numbers_left(s) > STRIDE_FIRST / 2)
		second_comes_and_goes(s);
}

static bool has_more_numbers(struct round *s)
{
	return numbers_left(s) > STRIDE_FIRST;
}

/* ---------------------------------------------------------------- given back */

static bool is_given_back(struct round *s)
{
	return answered(s, &s->first) && lease_of(0, s->key).state == LOCKSHM_HOST_LEASE_NONE &&
	       strcmp(redis_say(redis, "EXISTS lk:%s", s->key), "0") == 0;
}

static void is_released(struct round *s)
{
	ck_round(s, s->first.code == 0, "release says %s", outcome_name(s->first.code));
}

static void rival_waits_for_first(struct round *s)
{
	first_takes(s);
	cmds(s, &s->rival, X);
	until_in_line(s, 1);
}

static void rival_got_it(struct round *s)
{
	is_released(s);
	rival_has_it(s);
}

/* Nobody holds it, and it is kept for some time. */
static void first_takes_and_lets_go(struct round *s)
{
	first_takes(s);
	lets_go(&s->first);
}

static void retires(struct round *s)
{
	(void)s;
	victim_retire();
}

/* ---------------------------------------------------------------- modes */

static void first_upgrades(struct round *s)
{
	asks_with(&s->first, (struct agent_command){ .op = AGENT_UPGRADE }, X);
}

/* Of a majority one that was half way through may be refused, and is a reader's again. */
static void is_a_writer(struct round *s)
{
	first_has_it(s);
	if (s->op->quorum && s->caught && s->first.code == LOCKSHM_BUSY)
		return;
	ck_round(s, s->first.code == 0, "upgrade says %s", outcome_name(s->first.code));
	ck_round(s, s->op->quorum || strcmp(redis_say(redis, "TYPE lk:%s", s->key), "string") == 0,
		 "no writer's in Redis");
}

static void two_hosts_read(struct round *s)
{
	first_reads(s);
	rival_reads(s);
}

static void is_a_reader(struct round *s)
{
	first_has_it(s);
	rival_has_it(s);
	ck_round(s, s->first.code == LOCKSHM_BUSY, "upgrade says %s", outcome_name(s->first.code));
}

static void rival_waits_to_read(struct round *s)
{
	first_takes(s);
	cmds(s, &s->rival, S);
	until_in_line(s, 1);
}

static void first_downgrades(struct round *s)
{
	asks_with(&s->first, (struct agent_command){ .op = AGENT_DOWNGRADE }, S);
}

static void both_read(struct round *s)
{
	ck_round(s, s->first.code == 0, "downgrade says %s", outcome_name(s->first.code));
	first_has_it(s);
	rival_has_it(s);
}

/* ---------------------------------------------------------------- taken away */

static void second_waits_for_first(struct round *s)
{
	first_takes(s);
	cmds(s, &s->second, X);
	waits_on_host(s->second.agent, 0, s->key);
}

static void deleted(struct round *s)
{
	ck_redis("1", redis, "DEL lk:%s", s->key);
}

static bool lost_and_taken_anew(struct round *s)
{
	bool one = was_told_lost(&s->first), other = answered(s, &s->second);

	return one && other;
}

static void ended_by_an_operator(struct round *s)
{
	const char *value = redis_say(redis, "GET lk:%s", s->key);
	struct lockshm_error error = { 0 };
	int code;

	code = lockshm_remote_end(hosts[1].s, s->key, strlen(s->key), value, strlen(value), LOCKSHM_SECONDS(5), &error);
	ck_round(s, code == 0, "operator: %s", error.message);
}

static bool lost_to_the_rival(struct round *s)
{
	bool one = was_told_lost(&s->first), other = answered(s, &s->rival);

	return one && other;
}

/* ---------------------------------------------------------------- away */

static void asks_for_this_host(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	proxy_set(proxies[0], PROXY_REFUSE);
	c.policy = LOCKSHM_REDIS_LOCAL_ONLY;
	asks_with(&s->first, c, X);
}

/* Redis is back for those who come next. */
static void has_it_here(struct round *s)
{
	ck_round(s, s->first.code == LOCKSHM_LOCAL_ONLY, "%s", outcome_name(s->first.code));
	first_has_it(s);
	proxy_set(proxies[0], PROXY_PASS);
	lets_go(&s->first);
}

static void was_away(struct round *s)
{
	asks_for_this_host(s);
	must_answer(s, &s->first);
	has_it_here(s);
}

/* It does not put up with an outage. */
static void second_asks(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	c.policy = LOCKSHM_REDIS_FAIL;
	asks_with(&s->second, c, X);
}

static bool second_is_answered(struct round *s)
{
	return answered(s, &s->second);
}

const struct step bridge_steps[] = {
	{ .name = "take", .begin = first_asks, .resume_streak = first_is_answered, .judge = first_has_it },
	{ .name = "read beside another host", .arrange = rival_reads, .begin = two_ask_to_read,
	  .resume_streak = two_are_answered, .judge = all_read },
	{ .name = "stand in line", .arrange = rival_takes, .begin = first_asks,
	  .resume_streak = granted_in_line, .judge = first_has_it },
	{ .name = "a writer behind readers", .arrange = reader_and_writer, .begin = first_releases,
	  .resume_streak = two_are_answered, .judge = second_has_it },
	{ .name = "refuse a try", .arrange = rival_takes, .begin = first_tries,
	  .resume_streak = first_is_answered, .judge = first_is_busy },
	{ .name = "leave the line", .arrange = rival_takes, .begin = first_asks_briefly,
	  .resume_streak = gave_up, .judge = first_is_late },
	{ .name = "renew", .arrange = first_takes, .begin = touched, .resume_streak = is_renewed, .judge = may_resume },
	{ .name = "renew many", .arrange = first_takes_many, .begin = all_touched,
	  .resume_streak = is_renewed, .judge = all_are_kept, .in_full = true },
	{ .name = "get more numbers", .arrange = many_came_and_went, .begin = second_comes_and_goes,
	  .resume_streak = has_more_numbers, .judge = first_has_it, .in_full = true },
	{ .name = "give back", .arrange = first_takes, .begin = first_releases,
	  .resume_streak = is_given_back, .judge = is_released },
	{ .name = "retire", .arrange = first_takes_and_lets_go, .begin = retires, .resume_streak = is_given_back,
	  .judge = is_released, .lingers = true, .retires = true, .in_full = true },
	{ .name = "hand over", .arrange = rival_waits_for_first, .begin = first_releases,
	  .resume_streak = both_are_answered, .judge = rival_got_it },
	{ .name = "upgrade", .arrange = first_reads, .begin = first_upgrades,
	  .resume_streak = first_is_answered, .judge = is_a_writer },
	{ .name = "refuse an upgrade", .arrange = two_hosts_read, .begin = first_upgrades,
	  .resume_streak = first_is_answered, .judge = is_a_reader },
	{ .name = "downgrade", .arrange = rival_waits_to_read, .begin = first_downgrades,
	  .resume_streak = both_are_answered, .judge = both_read },
	{ .name = "deleted by a stranger", .arrange = second_waits_for_first, .begin = deleted,
	  .resume_streak = lost_and_taken_anew, .judge = second_has_it, .lost = 1 },
	{ .name = "ended by an operator", .arrange = rival_waits_for_first, .begin = ended_by_an_operator,
	  .resume_streak = lost_to_the_rival, .judge = rival_has_it, .lost = 1 },
	{ .name = "local only", .begin = asks_for_this_host, .resume_streak = first_is_answered,
	  .judge = has_it_here, .proxy = true },
	{ .name = "take after an outage", .arrange = was_away, .begin = second_asks,
	  .resume_streak = second_is_answered, .judge = second_has_it, .proxy = true, .in_full = true },
	{ .name = "majority: take", .begin = first_asks, .resume_streak = first_is_answered, .judge = first_has_it,
	  .quorum = true, .in_full = true },
	{ .name = "majority: refuse a try", .arrange = rival_takes, .begin = first_tries,
	  .resume_streak = first_is_answered, .judge = first_is_busy, .quorum = true, .in_full = true },
	{ .name = "majority: hand over", .arrange = rival_waits_for_first, .begin = first_releases,
	  .resume_streak = both_are_answered, .judge = rival_got_it, .quorum = true, .in_full = true },
	{ .name = "majority: renew", .arrange = first_takes, .begin = touched, .resume_streak = is_renewed,
	  .judge = may_resume, .quorum = true, .in_full = true },
	{ .name = "majority: give back", .arrange = first_takes, .begin = first_releases,
	  .resume_streak = is_given_back, .judge = is_released, .quorum = true, .in_full = true },
	{ .name = "majority: upgrade", .arrange = first_reads, .begin = first_upgrades,
	  .resume_streak = first_is_answered, .judge = is_a_writer, .quorum = true },
	{ .name = "majority: refuse an upgrade", .arrange = two_hosts_read, .begin = first_upgrades,
	  .resume_streak = first_is_answered, .judge = is_a_reader, .quorum = true, .in_full = true },
	{ .name = "majority: downgrade", .arrange = rival_waits_to_read, .begin = first_downgrades,
	  .resume_streak = both_are_answered, .judge = both_read, .quorum = true, .in_full = true },
};
const unsigned n_bridge_steps = sizeof(bridge_steps) / sizeof(bridge_steps[0]);
