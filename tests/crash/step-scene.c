/* SPDX-License-Identifier: MIT */
/* step-scene.c - the other processes while a victim is stepped through an operation, and their grants; see step.h */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lock/damage.h"
#include "lock/owner.h"
#include "lock/participant.h"
#include "lock/table.h"
#include "support/fixture.h"
#include "step.h"

#define LOCKS 64 /* slots of the table */
#define REQUESTS 256
#define OWNERS 12

static struct agent *subject(void)
{
	struct agent *a = agent_inherit();

	ck_code(agent_try(a, "warm", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	return a;
}

/* The test takes part, with @n records for what it takes over and arranges. */
static void join_with_records(unsigned n)
{
	static lockshm_hold_t own[LOCKS];
	unsigned i;

	for (i = 0; i < n; i++)
		ck_code(take(&own[i], "warm", LOCKSHM_SHARED), 0);
	while (i-- > 0)
		ck_code(lockshm_release(&own[i], 0), 0);
}

const char *scene_kind_name(enum scene_kind kind)
{
	static const char *const names[] = { "robust", "mixed", "plain" };

	return names[kind];
}

void scene_open(struct scene *s, const struct step_op *op, int64_t victim_ttl, enum scene_kind kind)
{
	memset(s, 0, sizeof(*s));
	s->kind = kind;
	segment_with(locks_capacity(LOCKS), op->requests ? op->requests : REQUESTS, op->owners ? op->owners : OWNERS);
	s->holder = subject();
	s->writer = subject();
	s->reader = subject();
	s->newcomer = subject();
	s->victim_ttl = victim_ttl;
	s->result = mmap(NULL, 2 * sizeof(*s->result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(s->result != MAP_FAILED);
	ck_code(lockshm_sweep(seg, NULL), 0);
	join_with_records(op->requests && !op->owners ? 1 : LOCKS);
}

bool step_op_is_mine(const struct step_op *op, unsigned i, const char *only)
{
	const char *part = getenv("PART");
	unsigned mine, parts;

	if (only)
		return strcmp(op->name, only) == 0;
	if (!part || sscanf(part, "%u/%u", &mine, &parts) != 2 || parts == 0)
		return true;
	return i % parts == mine;
}

void scene_begin(struct scene *s, const struct step_op *op)
{
	s->round++;
	snprintf(s->key, sizeof(s->key), op->fresh_key ? "key-%u" : "key", s->round);
	s->holder_holds = false;
	s->n_dead = s->n_spans = 0;
	s->overrun_reported = s->death_reported = s->holder_died = false;
	s->dead_reported = 0;
	if (op->fresh_key)
		s->last_exclusive = 0;
	s->before = stat_now();
	if (op->arrange)
		op->arrange(s);
	if (op->ends_anothers)
		s->n_spans = 0; /* the time of that end is unknown */
}

static struct agent_command wants(const struct scene *s, int mode)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode,
				    .flags = s->kind == SCENE_PLAIN ? AGENT_PLAIN : ACKNOWLEDGES };

	snprintf(c.key, sizeof(c.key), "%s", s->key);
	return c;
}

void scene_writer_runs(struct scene *s)
{
	if (s->writer_stopped)
		agent_cont(s->writer);
	s->writer_stopped = false;
}

void scene_ask(struct scene *s)
{
	scene_writer_runs(s);
	if (s->holder_holds) {
		scene_goes_out(s, s->holder);
		ck_assert_int_ge(agent_release(s->holder), LOCKSHM_LOST);
	}
	s->holder_holds = false;
	if (!s->writer->busy)
		agent_send(s->writer, wants(s, LOCKSHM_EXCLUSIVE));
	if (!s->reader->busy)
		agent_send(s->reader, wants(s, LOCKSHM_SHARED));
}

void scene_goes_in(struct scene *s, const struct agent *a)
{
	ck_assert_uint_lt(s->n_spans, SPANS_MAX);
	s->spans[s->n_spans++] = (struct span){ .pid = a->pid,
						.mode = a->command.how,
						.token = a->answer.token,
						.from = a->answer.at_ns,
						.until = INT64_MAX };
}

void scene_goes_out(struct scene *s, const struct agent *a)
{
	unsigned i;

	for (i = 0; i < s->n_spans; i++)
		if (s->spans[i].pid == a->pid && s->spans[i].until == INT64_MAX)
			s->spans[i].until = now_ns();
}

void scene_let_go(struct scene *s, struct agent *a)
{
	scene_goes_out(s, a);
	ck_code(agent_release(a), 0);
}

static void check_pair(const struct scene *s, const struct span *a, const struct span *b)
{
	if (a->pid == b->pid || a->from >= a->until || b->from >= b->until ||
	    (a->mode == LOCKSHM_SHARED && b->mode == LOCKSHM_SHARED))
		return;
	ck_assert_msg(a->until <= b->from || b->until <= a->from,
		      "point %u: %d and %d were inside at once, tokens %llu and %llu", s->point, (int)a->pid,
		      (int)b->pid, (unsigned long long)a->token, (unsigned long long)b->token);
	ck_assert_msg((a->token < b->token) == (a->from < b->from), "point %u: token %llu after %llu", s->point,
		      (unsigned long long)(a->from < b->from ? b : a)->token,
		      (unsigned long long)(a->from < b->from ? a : b)->token);
}

void scene_check_spans(const struct scene *s, int64_t until)
{
	unsigned i, j;

	for (i = 0; i < s->n_spans; i++) {
		for (j = 0; j < i; j++)
			check_pair(s, &s->spans[i], &s->spans[j]);
		for (j = 0; j < s->result->n_spans; j++) {
			struct span victim = s->result->spans[j];

			if (victim.until > until)
				victim.until = until;
			check_pair(s, &victim, &s->spans[i]);
		}
	}
}

static void note_request(struct scene_request *out, uint64_t word, bool robust)
{
	if (!word_exclusive(word))
		return;
	out->granted |= word_is(word, REQUEST_GRANTED);
	out->entered |= word_is(word, REQUEST_ENTERED);
	out->leaves_mark |= robust && word_is(word, REQUEST_ENTERED);
}

struct scene_request scene_request_of(const struct scene *s, pid_t pid)
{
	struct scene_request out = { false };
	struct lockshm_damage mark;
	const struct shm_entry *e;
	struct identity id;
	uint32_t i;

	hash_key(&id, seg->hash_secret, s->key, strlen(s->key));
	i = table_lookup(seg, &id);
	if (i == ENTRY_NONE)
		return out;
	e = entry_at(seg, i);
	for (i = tail_index(load_acquire(&e->tail)); i != 0; i = word_prev(load_acquire(&seg->requests[i].word)))
		if (owner_identity(seg, load_acquire(&seg->requests[i].owner)).pid == pid)
			note_request(&out, load_acquire(&seg->requests[i].word), damage_is_robust(e));
	(void)damage_read(seg, e, &mark);
	out.marked = mark.status != 0;
	out.leaves_mark |= mark.status != 0 && mark.pid == pid;
	return out;
}

void scene_check_reports(const struct scene *s, pid_t victim, bool leaves_mark)
{
	ck_assert_msg((s->dead_reported == victim) == leaves_mark, "point %u: %s", s->point,
		      leaves_mark ? "no report says that the victim died inside" :
				    "a report says that the victim died inside");
	ck_assert_msg(s->death_reported || !s->holder_died, "point %u: no report says that a writer died inside", s->point);
}

bool scene_has_request(const struct scene *s, pid_t pid)
{
	static struct seen seen;
	size_t i;

	look(s->key, &seen);
	for (i = 0; i < seen.holders + seen.waiters; i++)
		if (seen.requests[i].pid == pid)
			return true;
	return false;
}

static bool is_about(const struct scene *s, pid_t pid, pid_t victim)
{
	unsigned i;

	for (i = 0; i < s->n_dead; i++)
		if (s->dead[i] == pid)
			return true;
	return pid == victim || pid == s->holder->pid;
}

static void check_grant(struct scene *s, const struct agent *a, pid_t victim)
{
	const struct lockshm_damage *p = &a->answer.report.damage;
	struct seen seen;

	ck_assert_msg(a->answer.code >= 0, "point %u: %s: %s", s->point, outcome_name(a->answer.code),
		      a->answer.report.error.message);
	ck_assert_msg(p->status == 0 || is_about(s, p->pid, victim), "point %u: report about pid %d", s->point, p->pid);
	ck_assert_msg(s->kind != SCENE_PLAIN || p->status == 0, "point %u: a mark of a plain key", s->point);
	ck_assert_int_eq(a->answer.code, p->status);
	if (p->status == LOCKSHM_TOOK_OVER_EXPIRED && p->pid == victim)
		s->overrun_reported = true;
	if (p->status == LOCKSHM_OWNER_DIED) {
		s->death_reported = true;
		s->dead_reported = p->pid;
	}
	ck_assert_uint_gt(a->answer.token, s->last_exclusive);
	scene_goes_in(s, a);
	if (a->command.how == LOCKSHM_SHARED)
		return;
	s->last_exclusive = a->answer.token;
	look(s->key, &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.requests[0].pid, a->pid);
}

bool scene_granted(struct scene *s, struct agent *a, pid_t victim)
{
	if (agent_poll(a) == AGENT_BLOCKED)
		return false;
	check_grant(s, a, victim);
	return true;
}

void scene_newcomer(struct scene *s, pid_t victim)
{
	ck_assert_int_ge(agent_do(s->newcomer, wants(s, LOCKSHM_EXCLUSIVE)), LOCKSHM_SYSTEM);
	check_grant(s, s->newcomer, victim);
	scene_let_go(s, s->newcomer);
}

/*
 * Records in use that no process will free.  A record of a living owner that a killed helper has unlinked and not freed
 * does not count: its owner finds it when it runs short of records (R4), which scene_end() brings about.
 */
static unsigned lost_records(void)
{
	unsigned lost = 0;
	uint32_t i;

	for (i = 1; i <= seg->n_requests; i++) {
		uint64_t w = load_acquire(&seg->requests[i].word), ref = *chunk_word(seg, (i - 1) / seg->chunk_size);

		if (!word_is(w, REQUEST_FREE) && (!word_dead(w) || ref == 0 || owner_is_dead(seg, ref)))
			lost++;
	}
	return lost;
}

void scene_check_leaks(const struct scene *s)
{
	struct lockshm_stat now = LOCKSHM_STAT_INIT;

	ck_code(lockshm_sweep(seg, NULL), 0);
	now = stat_now();
	ck_assert_msg(lost_records() == 0, "point %u: %u requests are used", s->point, now.requests_used);
	ck_assert_msg(now.requests_reserved == s->before.requests_reserved, "point %u: %u records are reserved, not %u",
		      s->point, now.requests_reserved, s->before.requests_reserved);
	ck_assert_msg(now.owners_used == s->before.owners_used, "point %u: %u owner slots are used, not %u", s->point,
		      now.owners_used, s->before.owners_used);
	ck_assert_msg(now.owners_dead == 0, "point %u: %u owners are dead", s->point, now.owners_dead);
	ck_assert_msg(s->kind != SCENE_PLAIN || now.keys_damaged == 0, "point %u: marks of plain keys", s->point);
	ck_assert_msg(now.keys_busy + now.keys_left == 0, "point %u: %u locks are busy, %u left", s->point,
		      now.keys_busy, (unsigned)now.keys_left);
	verify_clean();
}

/* As many holds as its chunk has records, then none. */
static void use_up_records(struct agent *a)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE, .timeout_ns = AGENT_TRY };
	uint32_t i;

	for (i = 0; i < seg->chunk_size; i++) {
		c.hold = (int)i;
		snprintf(c.key, sizeof(c.key), "spare-%u", i);
		ck_code(agent_do(a, c), 0);
	}
	for (i = 0; i < seg->chunk_size; i++)
		ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = (int)i }), 0);
}

void scene_end(struct scene *s)
{
	use_up_records(s->holder);
	use_up_records(s->writer);
	use_up_records(s->reader);
	use_up_records(s->newcomer);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	ck_assert_uint_eq(stat_now().requests_reserved, s->before.requests_reserved);
}
