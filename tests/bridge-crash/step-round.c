/* SPDX-License-Identifier: MIT */
/*
 * step-round.c - the subjects of a round, and its properties; see bridge-crash/step.h
 *
 * In each round, wherever its victim was caught: no two hosts hold at once; tokens rise; a lease is lost only where the
 * operation deletes it; in the end all subjects are served, on both hosts, by the then leaders; the next robust
 * holder is told of a bad end, and of no other; both segments are sound; and nothing is left in Redis.
 */
#define _GNU_SOURCE
#include "step.h"

#include <string.h>
#include <time.h>

#include "hostlease/host-lease.h"

#define TTL LOCKSHM_MS(1500)
#define BOUND LOCKSHM_SECONDS(10) /* for a step, with a leader that dies in it */

const char *round_name(const struct round *s)
{
	static const char *const resumes[] = { "concurrent", "late", "too late", "last" };
	static char text[300];

	snprintf(text, sizeof(text), "%s, round %u, %s %s (point %u) %s", s->op->name, s->number,
		 !s->caught ? "not caught" : s->how == HOW_KILL ? "killed" : "stopped", victim_place(),
		 victim_points() - 1, s->how == HOW_STOP ? resumes[s->resume] : "");
	return text;
}

/* ---------------------------------------------------------------- subjects */

void requests_with(struct subject *p, struct agent_command c, int mode)
{
	p->wanted = mode;
	agent_send(p->agent, c);
}

void requests(struct round *s, struct subject *p, int mode)
{
	struct agent_command c = global_command(s->key, mode);

	c.flags |= s->op->robust ? LOCKSHM_ROBUST : 0;
	requests_with(p, c, mode);
}

/* Of a hold in @mode; a hold by policy has no token. */
static void token_rises(struct round *s, int mode, uint64_t token)
{
	bool rises = token > (mode == LOCKSHM_EXCLUSIVE ? s->last : s->last_exclusive);

	ck_round(s, rises, "token %llu after %llu, exclusive %llu", (unsigned long long)token,
		 (unsigned long long)s->last, (unsigned long long)s->last_exclusive);
	if (token > s->last)
		s->last = token;
	if (mode == LOCKSHM_EXCLUSIVE)
		s->last_exclusive = token;
}

static void has_it(struct round *s, struct subject *p)
{
	p->mode = p->wanted;
	if (p->code == LOCKSHM_LOCAL_ONLY)
		return;
	p->token = p->agent->answer.token;
	token_rises(s, p->mode, p->token);
}

bool has_result(struct round *s, struct subject *p)
{
	int op = p->agent->command.op;

	if (!p->agent->busy)
		return true;
	if (agent_poll(p->agent) == AGENT_BLOCKED)
		return false;
	p->code = p->agent->answer.code;
	ck_round(s, p->code != AGENT_DIED, "a subject died");
	if (p->code >= 0 && op == AGENT_ACQUIRE)
		has_it(s, p);
	else if (op == AGENT_RELEASE)
		p->mode = 0;
	return true;
}

bool holds(struct subject *p)
{
	int code;

	if (!p->mode || p->agent->busy)
		return false;
	code = agent_call(p->agent, AGENT_CHECK);
	return code == 0 || code == LOCKSHM_LATE;
}

bool reports_lost(struct subject *p)
{
	return !p->agent->busy && agent_call(p->agent, AGENT_CHECK) == LOCKSHM_LOST;
}

void releases(struct subject *p)
{
	if (p->mode)
		(void)agent_release(p->agent);
	p->mode = 0;
}

struct expected {
	struct round *s;
	struct subject *p;
};

static bool has_result_now(void *arg)
{
	struct expected *e = arg;

	return has_result(e->s, e->p);
}

void await_result(struct round *s, struct subject *p)
{
	struct expected e = { s, p };

	ck_round(s, await(has_result_now, &e), "no result of %d", p->agent->command.op);
}

void takes(struct round *s, struct subject *p, int mode)
{
	requests(s, p, mode);
	await_result(s, p);
	ck_round(s, p->code >= 0, "%s", outcome_name(p->code));
}

/* ---------------------------------------------------------------- Redis */

/* A majority keeps no queue. */
bool queue_has(const struct round *s, unsigned n)
{
	char want[16];

	snprintf(want, sizeof(want), "%u", n);
	return strcmp(redis_say(redis, "ZCARD {lk:%s}:q", s->key), want) == 0;
}

/* Otherwise there is no queue: the holder has lost the lease, as on a machine that is too slow for its leases. */
static bool any_waits(struct round *s)
{
	bool first = has_result(s, &s->first), second = has_result(s, &s->second), rival = has_result(s, &s->rival);

	return !first || !second || !rival;
}

void await_queue(struct round *s, unsigned n)
{
	int64_t end = now_ns() + PATIENCE;

	while (!s->op->quorum && !queue_has(s, n) && any_waits(s))
		ck_round(s, now_ns() < end, "not %u queued", n);
}

static bool lock_is_left(struct redis *server, const char *k)
{
	return strcmp(redis_say(server, "EXISTS lk:%s {lk:%s}:rx lk:%s:lock-intent", k, k, k), "0") != 0;
}

/* The queue position that a stopped leader took without demand is left; it does not count for long. */
static bool nothing_is_left(void *arg)
{
	const struct round *s = arg;
	unsigned i;

	for (i = 1; s->op->quorum && i < SERVERS; i++)
		if (lock_is_left(servers[i], s->key))
			return false;
	return !lock_is_left(redis, s->key) && ((s->caught && s->how == HOW_STOP) || queue_has(s, 0));
}

/* ---------------------------------------------------------------- invariants */

/* Both were valid while the one was checked between two checks of the other. */
static void exclude_each_other(struct round *s, struct subject *here)
{
	if (here->mode == LOCKSHM_SHARED && s->rival.mode == LOCKSHM_SHARED)
		return;
	if (here->code == LOCKSHM_LOCAL_ONLY)
		return;
	ck_round(s, !(holds(&s->rival) && holds(here) && holds(&s->rival)),
		 "two hosts have the key: tokens %llu and %llu", (unsigned long long)here->token,
		 (unsigned long long)s->rival.token);
}

static void check_exclusion(struct round *s)
{
	(void)has_result(s, &s->rival);
	/* A forced release takes the key from a holder that cannot know yet. */
	if (!s->rival.mode || s->op->lost)
		return;
	exclude_each_other(s, &s->first);
	exclude_each_other(s, &s->second);
}

static bool taken_over(void)
{
	int32_t pid = bridge_of(0).pid;

	return pid != 0 && pid != victim_pid();
}

static void nap(void)
{
	static const struct timespec ts = { .tv_nsec = 200000 };

	nanosleep(&ts, NULL);
}

/* ---------------------------------------------------------------- round */

/* A worker that has used a global key before. */
static struct subject worker(void)
{
	struct subject p = { .agent = on_host(0) };

	ck_code(global_wait(p.agent, "warm", LOCKSHM_SHARED), 0);
	ck_code(agent_release(p.agent), 0);
	return p;
}

static void make_hosts(const struct step *op)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = TTL;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.redis_retain_ns = op->retains ? LOCKSHM_MS(200) : options.redis_retain_ns;
	/* So that most rounds have a record without a key; and lost keys are kept. */
	options.host_leases = 64;
	options.keys = 2048;
	host_make(1, &options);
	if (op->proxy) {
		proxies[0] = proxy_start(redis, false);
		strcpy(options.redis, proxies[0]->uri);
	}
	host_make_bare(0, &options);
}

void round_open(struct round *s, const struct step *op)
{
	memset(s, 0, sizeof(*s));
	s->op = op;
	if (!op->quorum) {
		make_hosts(op);
	} else {
		hosts_on_three(2, TTL);
		bridge_kill(0);
	}
	s->rival.agent = on_host(1);
	ck_code(global_wait(s->rival.agent, "warm", LOCKSHM_SHARED), 0);
	ck_code(agent_release(s->rival.agent), 0);
}

/* All earlier work is done. */
static bool is_at_rest(void *arg)
{
	(void)arg;
	return victim_rests() && load_acquire(&hosts[0].s->bridge->pending[0]) == 0 && victim_rests();
}

static void begin(struct round *s, enum how how, enum resume resume)
{
	s->number++;
	snprintf(s->key, sizeof(s->key), "key-%u", s->number);
	s->stage = 0;
	s->caught = s->took_over = s->resumed = s->slow = false;
	s->how = how;
	s->resume = resume;
	s->last = s->last_exclusive = 0;
	victim_start();
	s->first = worker();
	s->second = worker();
	hosts[0].bridge = bridge_standby(0);
	s->lost = bridge_of(0).lost;
	if (s->op->arrange)
		s->op->arrange(s);
	ck_round(s, await(is_at_rest, NULL), "the bridge does not come to rest");
	s->renewed = bridge_of(0).renewed;
}

static bool it_rests(void *arg)
{
	(void)arg;
	return victim_rests() || victim_retired();
}

static void let_it_go_on(struct round *s)
{
	if (s->caught && s->how == HOW_STOP && !s->resumed)
		victim_continue();
	s->resumed = true;
}

/* ... and it has finished its work, and stands by. */
static void let_it_come_to_rest(struct round *s)
{
	let_it_go_on(s);
	if (s->caught && s->how == HOW_STOP)
		ck_round(s, await(it_rests, NULL), "the victim does not come to rest");
}

/* The victim may have been caught since the last look; then another process takes over. */
static void look_after_the_victim(struct round *s)
{
	if (!s->caught && victim_caught()) {
		s->caught = true;
		s->caught_ns = now_ns();
	}
	if (!s->caught || s->took_over || !taken_over())
		return;
	s->took_over = true;
	/* Half of it was left at least, as renewals are due with two thirds. */
	s->slow = now_ns() - s->caught_ns > TTL / 2;
	if (s->resume == RESUME_CONCURRENT)
		let_it_go_on(s);
}

/* There is a leader, and no victim is caught any more. */
static bool at_rest(const struct round *s)
{
	if (s->caught)
		return s->took_over;
	if (s->op->retires)
		return victim_retired() && taken_over();
	return victim_rests() && !victim_disarm();
}

static void run_step(struct round *s)
{
	bool over = false;

	s->begun_ns = now_ns();
	while (!over || !at_rest(s)) {
		look_after_the_victim(s);
		check_exclusion(s);
		over = s->op->proceed(s);
		ck_round(s, now_ns() - s->begun_ns < BOUND, "%s after %lld ms, lease is %d: %s",
			 over ? "over" : "not over", (long long)((now_ns() - s->begun_ns) / 1000000),
			 lease_of(0, s->key).state, lease_of(0, s->key).why);
		nap();
	}
	s->took_ns = now_ns() - s->begun_ns;
	if (s->took_ns > s->slowest_ns)
		s->slowest_ns = s->took_ns;
}

/* The rival takes it after the local holders; then a local one. */
static void all_are_served(struct round *s)
{
	if (s->rival.mode == LOCKSHM_SHARED)
		releases(&s->rival);
	if (!s->rival.mode && !s->rival.agent->busy)
		requests(s, &s->rival, LOCKSHM_EXCLUSIVE);
	if (!s->rival.mode && (s->first.mode || s->second.mode) && !s->op->lost)
		await_queue(s, 1);
	check_exclusion(s);
	releases(&s->first);
	releases(&s->second);
	await_result(s, &s->rival);
	ck_round(s, s->rival.code >= 0, "the rival: %s", outcome_name(s->rival.code));
	if (s->resume == RESUME_TOO_LATE)
		let_it_come_to_rest(s);
}

static void newcomer_is_served(struct round *s)
{
	requests(s, &s->second, LOCKSHM_EXCLUSIVE);
	await_queue(s, 1);
	ck_round(s, holds(&s->rival), "the rival lost it: %s", outcome_name(s->rival.agent->answer.code));
	releases(&s->rival);
	await_result(s, &s->second);
	ck_round(s, s->second.code >= 0, "the newcomer: %s", outcome_name(s->second.code));
	if (s->resume == RESUME_LAST)
		let_it_come_to_rest(s);
	ck_round(s, holds(&s->second), "the newcomer lost it: %s", outcome_name(s->second.agent->answer.code));
	if (!s->op->quorum)
		ck_redis(lease_of(0, s->key).value, redis, "GET lk:%s", s->key);
	releases(&s->second);
}

/* A process killed between loss and count has not counted it. */
static void check_losses(struct round *s)
{
	unsigned long long lost = bridge_of(0).lost - s->lost;

	ck_round(s, s->slow || lost == s->op->lost || (s->caught && lost < s->op->lost),
		 "%llu leases were lost, not %u", lost, s->op->lost);
}

/* No record is open: the leader of each host has released all without demand. */
static bool all_is_released(void *arg)
{
	unsigned h;
	uint32_t i;

	(void)arg;
	for (h = 0; h < 2; h++)
		for (i = 0; i < hosts[h].s->n_host_leases; i++)
			if (host_lease_state(load_acquire(&hosts[h].s->host_leases[i].word)) != HOST_LEASE_NONE)
				return false;
	return true;
}

static void end(struct round *s)
{
	let_it_come_to_rest(s);
	ck_round(s, await(nothing_is_left, s), "something is left in Redis");
	ck_round(s, await(all_is_released, NULL), "a lease is in state %d, of the rival's host %d",
		 lease_of(0, s->key).state, lease_of(1, s->key).state);
	check_losses(s);
	verify_clean_of(hosts[0].s);
	verify_clean_of(hosts[1].s);
	(void)victim_end();
	bridge_kill(0);
	agent_kill(s->first.agent);
	agent_kill(s->second.agent);
	agent_forget(s->first.agent);
	agent_forget(s->second.agent);
}

bool round_play(struct round *s, enum how how, unsigned point, enum resume resume)
{
	begin(s, how, resume);
	victim_arm(how, point);
	s->op->begin(s);
	run_step(s);
	s->op->check(s);
	if (s->resume == RESUME_LATE)
		let_it_come_to_rest(s);
	all_are_served(s);
	newcomer_is_served(s);
	end(s);
	return s->caught;
}
