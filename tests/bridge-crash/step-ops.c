/* SPDX-License-Identifier: MIT */
/* step-ops.c - operations during which the leader is killed or stopped; see bridge-crash/step.h */
#define _GNU_SOURCE
#include "step.h"

#include <string.h>

#include "bridge/admin.h"
#include "hostlease/host-lease.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static void first_has_it(struct round *s)
{
	ck_round(s, holds(&s->first), "the first has not: has_result %s, now %s", outcome_name(s->first.code),
		 outcome_name(s->first.agent->answer.code));
}

static void rival_has_it(struct round *s)
{
	ck_round(s, holds(&s->rival), "the rival has not: has_result %s, now %s", outcome_name(s->rival.code),
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

static void first_requests(struct round *s)
{
	requests(s, &s->first, X);
}

static bool first_has_result(struct round *s)
{
	return has_result(s, &s->first);
}

static bool both_have_results(struct round *s)
{
	bool one = has_result(s, &s->first), other = has_result(s, &s->rival);

	return one && other;
}

static void first_releases(struct round *s)
{
	requests_with(&s->first, (struct agent_command){ .op = AGENT_RELEASE }, 0);
}

/* ---------------------------------------------------------------- acquire */

static void two_request_to_read(struct round *s)
{
	requests(s, &s->first, S);
	requests(s, &s->second, S);
}

static bool two_have_results(struct round *s)
{
	bool one = has_result(s, &s->first), other = has_result(s, &s->second);

	return one && other;
}

static void all_read(struct round *s)
{
	first_has_it(s);
	rival_has_it(s);
	ck_round(s, holds(&s->second), "the second: %s", outcome_name(s->second.agent->answer.code));
}

/* Once the host is queued the rival releases. */
static bool granted_after_queueing(struct round *s)
{
	if (s->stage == 0 && queue_has(s, 1)) {
		releases(&s->rival);
		s->stage = 1;
	}
	return has_result(s, &s->first) && s->stage == 1;
}

/* A reader's lease is there, and a writer wants it. */
static void reader_and_writer(struct round *s)
{
	first_reads(s);
	requests(s, &s->second, X);
	waits_on_host(s->second.agent, 0, s->key);
}

static void second_has_it(struct round *s)
{
	ck_round(s, holds(&s->second), "the second has not: has_result %s, now %s: %.100s",
		 outcome_name(s->second.code), outcome_name(s->second.agent->answer.code),
		 s->second.agent->answer.report.error.message);
}

static void first_tries(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	c.timeout_ns = AGENT_TRY;
	requests_with(&s->first, c, X);
}

static void first_is_busy(struct round *s)
{
	ck_round(s, s->first.code == LOCKSHM_BUSY, "a try is has_result %s: %s", outcome_name(s->first.code),
		 s->first.agent->answer.report.error.message);
	rival_has_it(s);
}

static void first_requests_briefly(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	c.timeout_ns = LOCKSHM_MS(60);
	requests_with(&s->first, c, X);
}

/*
 * What it acquired is removed.  A stopped leader may queue its host late, without demand: that position counts for two
 * seconds, and is the host's own.
 */
static bool gave_up(struct round *s)
{
	int state = lease_of(0, s->key).state;

	return has_result(s, &s->first) && (state == 0 || state == LOCKSHM_HOST_LEASE_NONE) &&
	       (queue_has(s, 0) || (s->caught && s->how == HOW_STOP && s->resumed));
}

static void first_is_late(struct round *s)
{
	ck_round(s, s->first.code == LOCKSHM_TIMEOUT, "%s", outcome_name(s->first.code));
	rival_has_it(s);
}

/* ---------------------------------------------------------------- keep */

/* Invalidations, so that it is renewed at once. */
static void touched(struct round *s)
{
	ck_redis("1", redis, "PEXPIRE lk:%s 1400", s->key);
}

static bool is_renewed(struct round *s)
{
	return bridge_of(0).renewed > s->renewed + s->stage;
}

/* By the present leader, for longer than a lease. */
static void stays_held(struct round *s)
{
	int64_t end = now_ns() + LOCKSHM_MS(1600);

	first_has_it(s);
	while (s->every && s->resume == RESUME_CONCURRENT && now_ns() < end) {
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

	stays_held(s);
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

/* The next one uses up half of them. */
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

/* ---------------------------------------------------------------- release */

static bool is_back_in_none(struct round *s)
{
	return has_result(s, &s->first) && lease_of(0, s->key).state == LOCKSHM_HOST_LEASE_NONE &&
	       strcmp(redis_say(redis, "EXISTS lk:%s", s->key), "0") == 0;
}

static void is_released(struct round *s)
{
	ck_round(s, s->first.code == 0, "release says %s", outcome_name(s->first.code));
}

static void rival_waits_for_first(struct round *s)
{
	first_takes(s);
	requests(s, &s->rival, X);
	await_queue(s, 1);
}

/* It has become a reader, which readers of other hosts do not join. */
static void rival_waits_for_a_downgraded(struct round *s)
{
	first_takes(s);
	ck_code(agent_call(s->first.agent, AGENT_DOWNGRADE), 0);
	requests(s, &s->rival, S);
	await_queue(s, 1);
}

static void rival_got_it(struct round *s)
{
	is_released(s);
	rival_has_it(s);
}

/* It has no holder, and is retained for some time. */
static void first_takes_and_releases(struct round *s)
{
	first_takes(s);
	releases(&s->first);
}

static void retires(struct round *s)
{
	(void)s;
	victim_retire();
}

/* ---------------------------------------------------------------- losses */

static void second_waits_for_first(struct round *s)
{
	first_takes(s);
	requests(s, &s->second, X);
	waits_on_host(s->second.agent, 0, s->key);
}

static void deleted(struct round *s)
{
	ck_redis("1", redis, "DEL lk:%s", s->key);
}

static bool lost_and_taken_anew(struct round *s)
{
	bool one = reports_lost(&s->first), other = has_result(s, &s->second);

	return one && other;
}

static void ended_by_an_operator(struct round *s)
{
	const char *value = redis_say(redis, "GET lk:%s", s->key);
	struct lockshm_error error = { 0 };
	int code;

	code = remote_end(hosts[1].s, s->key, strlen(s->key), value, strlen(value), LOCKSHM_SECONDS(5), &error);
	ck_round(s, code == 0, "operator: %s", error.message);
}

static bool lost_to_the_rival(struct round *s)
{
	bool one = reports_lost(&s->first), other = has_result(s, &s->rival);

	return one && other;
}

/* ---------------------------------------------------------------- outages */

static void requests_local_only(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	proxy_set(proxies[0], PROXY_REFUSE);
	c.policy = LOCKSHM_REDIS_LOCAL_ONLY;
	requests_with(&s->first, c, X);
}

/* Redis is back for the next requests. */
static void has_it_local_only(struct round *s)
{
	ck_round(s, s->first.code == LOCKSHM_LOCAL_ONLY, "%s", outcome_name(s->first.code));
	first_has_it(s);
	proxy_set(proxies[0], PROXY_PASS);
	releases(&s->first);
}

static void was_away(struct round *s)
{
	requests_local_only(s);
	await_result(s, &s->first);
	has_it_local_only(s);
}

/* It does not wait for an outage to end. */
static void second_requests(struct round *s)
{
	struct agent_command c = global_command(s->key, X);

	c.policy = LOCKSHM_REDIS_FAIL;
	requests_with(&s->second, c, X);
}

static bool second_has_result(struct round *s)
{
	return has_result(s, &s->second);
}

/* ---------------------------------------------------------------- robust keys */

static bool rival_is_back_in_none(void *arg)
{
	const struct round *s = arg;

	return lease_of(1, s->key).state == LOCKSHM_HOST_LEASE_NONE;
}

/* Redis has a damage. */
static void rival_loses_it(struct round *s)
{
	rival_takes(s);
	deleted(s);
	while (!reports_lost(&s->rival))
		;
	releases(&s->rival);
	ck_round(s, await(rival_is_back_in_none, s), "the rival's lease is not given back");
}

static void first_is_told(struct round *s)
{
	first_has_it(s);
	ck_round(s, s->first.code == LOCKSHM_TOOK_OVER_EXPIRED, "told %s", outcome_name(s->first.code));
}

static void first_dies(struct round *s)
{
	s->first.mode = 0;
	agent_kill(s->first.agent);
}

static void next_is_told(struct round *s)
{
	agent_forget(s->first.agent);
	s->first.agent = on_host(0);
	rival_takes(s);
	ck_round(s, s->rival.code == LOCKSHM_OWNER_DIED || (s->slow && s->rival.code > 0), "the rival is told %s",
		 outcome_name(s->rival.code));
}

static void next_finds_it_whole(struct round *s)
{
	is_released(s);
	rival_takes(s);
	ck_round(s, s->rival.code == 0 || s->slow, "the rival is told %s", outcome_name(s->rival.code));
}

static void first_acknowledges(struct round *s)
{
	rival_loses_it(s);
	first_takes(s);
	ck_code(agent_call(s->first.agent, AGENT_ACKNOWLEDGE), 0);
}

const struct step bridge_steps[] = {
	{ .name = "take", .begin = first_requests, .proceed = first_has_result, .check = first_has_it },
	{ .name = "read with another host", .arrange = rival_reads, .begin = two_request_to_read,
	  .proceed = two_have_results, .check = all_read },
	{ .name = "queue", .arrange = rival_takes, .begin = first_requests,
	  .proceed = granted_after_queueing, .check = first_has_it },
	{ .name = "a writer behind readers", .arrange = reader_and_writer, .begin = first_releases,
	  .proceed = two_have_results, .check = second_has_it },
	{ .name = "refuse a try", .arrange = rival_takes, .begin = first_tries,
	  .proceed = first_has_result, .check = first_is_busy },
	{ .name = "leave the queue", .arrange = rival_takes, .begin = first_requests_briefly,
	  .proceed = gave_up, .check = first_is_late },
	{ .name = "renew", .arrange = first_takes, .begin = touched, .proceed = is_renewed, .check = stays_held },
	{ .name = "renew many", .arrange = first_takes_many, .begin = all_touched,
	  .proceed = is_renewed, .check = all_are_kept, .in_full = true },
	{ .name = "get more tokens", .arrange = many_came_and_went, .begin = second_comes_and_goes,
	  .proceed = has_more_numbers, .check = first_has_it, .in_full = true },
	{ .name = "release", .arrange = first_takes, .begin = first_releases,
	  .proceed = is_back_in_none, .check = is_released },
	{ .name = "retire", .arrange = first_takes_and_releases, .begin = retires, .proceed = is_back_in_none,
	  .check = is_released, .retains = true, .retires = true, .in_full = true },
	{ .name = "hand over", .arrange = rival_waits_for_first, .begin = first_releases,
	  .proceed = both_have_results, .check = rival_got_it },
	{ .name = "hand over after a downgrade", .arrange = rival_waits_for_a_downgraded, .begin = first_releases,
	  .proceed = both_have_results, .check = rival_got_it, .in_full = true },
	{ .name = "deleted by another program", .arrange = second_waits_for_first, .begin = deleted,
	  .proceed = lost_and_taken_anew, .check = second_has_it, .lost = 1 },
	{ .name = "ended by an operator", .arrange = rival_waits_for_first, .begin = ended_by_an_operator,
	  .proceed = lost_to_the_rival, .check = rival_has_it, .lost = 1 },
	{ .name = "local only", .begin = requests_local_only, .proceed = first_has_result,
	  .check = has_it_local_only, .proxy = true },
	{ .name = "take after an outage", .arrange = was_away, .begin = second_requests,
	  .proceed = second_has_result, .check = second_has_it, .proxy = true, .in_full = true },
	{ .name = "take a damaged key", .arrange = rival_loses_it, .begin = first_requests,
	  .proceed = first_has_result, .check = first_is_told, .robust = true, .in_full = true },
	{ .name = "a holder dies", .arrange = first_takes, .begin = first_dies, .proceed = is_back_in_none,
	  .check = next_is_told, .robust = true },
	{ .name = "give back a whole key", .arrange = first_takes, .begin = first_releases,
	  .proceed = is_back_in_none, .check = next_finds_it_whole, .robust = true, .in_full = true },
	{ .name = "acknowledge", .arrange = first_acknowledges, .begin = first_releases,
	  .proceed = is_back_in_none, .check = next_finds_it_whole, .robust = true, .in_full = true },
	{ .name = "majority: a holder dies", .arrange = first_takes, .begin = first_dies, .proceed = is_back_in_none,
	  .check = next_is_told, .robust = true, .quorum = true, .in_full = true },
	{ .name = "majority: take", .begin = first_requests, .proceed = first_has_result, .check = first_has_it,
	  .quorum = true, .in_full = true },
	{ .name = "majority: refuse a try", .arrange = rival_takes, .begin = first_tries,
	  .proceed = first_has_result, .check = first_is_busy, .quorum = true, .in_full = true },
	{ .name = "majority: hand over", .arrange = rival_waits_for_first, .begin = first_releases,
	  .proceed = both_have_results, .check = rival_got_it, .quorum = true, .in_full = true },
	{ .name = "majority: renew", .arrange = first_takes, .begin = touched, .proceed = is_renewed,
	  .check = stays_held, .quorum = true, .in_full = true },
	{ .name = "majority: release", .arrange = first_takes, .begin = first_releases,
	  .proceed = is_back_in_none, .check = is_released, .quorum = true, .in_full = true },
};
const unsigned n_bridge_steps = sizeof(bridge_steps) / sizeof(bridge_steps[0]);
