/* SPDX-License-Identifier: MIT */
/* step-arrange.c - the other holders, waiters and dead processes of a scene; see step-arrange.h */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>

#include "lock/queue.h"
#include "support/fixture.h"
#include "step-arrange.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct agent_command wants(const struct scene *s, int mode, int64_t ttl)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .ns = ttl,
				    .flags = s->kind == SCENE_PLAIN ? AGENT_PLAIN : ACKNOWLEDGES };

	snprintf(c.key, sizeof(c.key), "%s", s->key);
	return c;
}

static void holder_takes(struct scene *s, int mode, int64_t ttl)
{
	ck_code(agent_begin(s->holder, wants(s, mode, ttl)), 0);
	if (ttl == 0)
		scene_goes_in(s, s->holder);
	s->holder_holds = true;
}

void key_is_held(struct scene *s)
{
	holder_takes(s, X, 0);
}

void key_is_read(struct scene *s)
{
	holder_takes(s, S, 0);
}

void lease_is_over(struct scene *s)
{
	holder_takes(s, X, LOCKSHM_MS(1));
	pass(s->holder->answer.at_ns + LOCKSHM_MS(12)); /* a lease, and a tick of the coarse clock */
}

void lease_ends_soon(struct scene *s)
{
	holder_takes(s, X, LOCKSHM_MS(100));
}

/* A new process that takes or waits for the key; killed later by bury(). */
static struct agent *mortal(struct scene *s, int mode)
{
	struct agent *a = agent_inherit();
	int code = agent_begin(a, wants(s, mode, 0));

	ck_assert_int_ge(code, 0); /* or waits */
	return a;
}

static void bury(struct scene *s, struct agent *a)
{
	s->dead[s->n_dead++] = a->pid;
	s->holder_died |= a->command.op == AGENT_ACQUIRE && a->command.how == X && s->kind != SCENE_PLAIN && !a->busy &&
			  a->answer.code >= 0;
	agent_kill(a);
	agent_forget(a);
}

void owner_is_dead_already(struct scene *s)
{
	bury(s, mortal(s, X));
}

/* And the key is free. */
void a_mark_is_left(struct scene *s)
{
	lockshm_hold_t hold;

	owner_is_dead_already(s);
	s->holder_died = false; /* the victim decides */
	ck_code(take(&hold, s->key, X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}

void reader_is_dead_already(struct scene *s)
{
	bury(s, mortal(s, S));
}

/* Holder alive; behind it a dead reader and a dead writer. */
void dead_wait_behind_the_holder(struct scene *s)
{
	struct agent *r, *w;

	key_is_held(s);
	r = mortal(s, S);
	w = mortal(s, X);
	bury(s, r);
	bury(s, w);
}

/* Two dead owners of other keys, and of the round's. */
void much_to_sweep(struct scene *s)
{
	struct agent *h = mortal(s, X), *w = mortal(s, X);

	bury(s, h);
	bury(s, w);
}

/* A dead holder, a dead reader and a dead writer behind it, each of another process. */
void all_are_dead(struct scene *s)
{
	struct agent *h = mortal(s, X), *r = mortal(s, S), *w = mortal(s, X);

	bury(s, w);
	bury(s, r);
	bury(s, h);
}

void it_has_cooled_down(struct scene *s)
{
	key_is_held(s);
	scene_goes_out(s, s->holder);
	ck_code(agent_do(s->holder, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_MS(1) }), 0);
	s->holder_holds = false;
	pass(now_ns() + LOCKSHM_MS(1));
}

/* Every entry is used: knows a key, and is idle. */
void table_is_full_of_idle(struct scene *s)
{
	lockshm_hold_t hold;
	char key[32];
	unsigned i;

	(void)s;
	for (i = 0; stat_now().keys_known < seg->n_locks; i++) {
		snprintf(key, sizeof(key), "idle-%u", i);
		ck_code(take(&hold, key, X), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
}

/* Every entry has a queue of what is over and was not cleared away. */
void table_is_full_of_cooled_down(struct scene *s)
{
	static lockshm_hold_t holds[64];
	char key[32];
	unsigned i, n = 0;

	for (i = 0; i < 1000 && stat_now().keys_busy < seg->n_locks; i++) {
		snprintf(key, sizeof(key), "cooled-%u-%u", s->round, i);
		n += take(&holds[n], key, X) == 0;
	}
	ck_assert_uint_eq(n, seg->n_locks);
	while (n-- > 0)
		ck_code(lockshm_release(&holds[n], LOCKSHM_MS(1)), 0);
	pass(now_ns() + LOCKSHM_MS(1));
}

void clear_table(struct scene *s, bool stopped)
{
	uint32_t i;

	(void)s;
	for (i = 0; !stopped && i < seg->n_locks; i++)
		(void)queue_advance_tail(seg, &seg->entries[i]);
}

/* A process that takes part and has at least @n records. */
static struct agent *mortal_with_records(unsigned n)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = S, .timeout_ns = AGENT_TRY, .flags = AGENT_PLAIN };
	struct agent *a = agent_inherit();
	unsigned i;

	for (i = 0; i < n; i++) {
		c.hold = (int)i;
		snprintf(c.key, sizeof(c.key), "spare-%u", i);
		ck_code(agent_do(a, c), 0);
	}
	for (i = 0; i < n; i++)
		ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = (int)i }), 0);
	return a;
}

/* All at once: every join reclaims what the dead left. */
void slots_are_full_of_dead(struct scene *s)
{
	struct lockshm_stat now = stat_now();
	struct agent *a[8];
	uint32_t i, n = now.owners - now.owners_used;

	ck_assert_uint_le(n, 8);
	for (i = 0; i < n; i++)
		a[i] = mortal_with_records(1);
	for (i = 0; i < n; i++)
		bury(s, a[i]);
}

/* What the victim has given up is swept and taken by others, which die with it, before the victim runs on. */
void others_take_its_place(struct scene *s, bool stopped)
{
	if (!stopped)
		return;
	ck_code(lockshm_sweep(seg, NULL), 0);
	slots_are_full_of_dead(s);
}

void records_are_full_of_dead(struct scene *s)
{
	struct lockshm_stat now = stat_now();
	struct agent *a[8];
	unsigned i, n;

	for (n = 0; now.requests_reserved < now.requests; n++) {
		uint32_t left = now.requests - now.requests_reserved;

		ck_assert_uint_lt(n, 8);
		a[n] = mortal_with_records(left < AGENT_HOLDS ? left : AGENT_HOLDS);
		now = stat_now();
	}
	for (i = 0; i < n; i++)
		bury(s, a[i]);
}

/* Behind the victim, unless its short lease is over already on a slow machine: then not at all. */
static void lines_up(struct scene *s, struct agent *a, int mode)
{
	int code = agent_begin(a, wants(s, mode, 0));

	if (code == AGENT_BLOCKED)
		return;
	ck_assert_int_ge(code, 0);
	ck_assert_int_ne(s->victim_ttl, LOCKSHM_FOREVER);
	s->overrun_reported |= code == LOCKSHM_TOOK_OVER_EXPIRED;
	s->death_reported |= code == LOCKSHM_OWNER_DIED;
	if (mode == X)
		s->last_exclusive = a->answer.token;
	scene_goes_in(s, a);
	scene_let_go(s, a);
}

void others_wait(struct scene *s)
{
	lines_up(s, s->writer, X);
	lines_up(s, s->reader, S);
}

/* The writer is stopped until others ask for the key: so the victim has time to resume. */
void others_wait_stopped(struct scene *s)
{
	others_wait(s);
	agent_stop(s->writer);
	s->writer_stopped = true;
}

void readers_wait(struct scene *s)
{
	lines_up(s, s->reader, S);
	lines_up(s, s->writer, X);
}

void mortal_reads(struct scene *s)
{
	s->mortal = mortal(s, S);
}

/* After the others are queued, so that the victim is the first that can reap the dead request. */
void others_wait_and_mortal_dies(struct scene *s)
{
	others_wait(s);
	bury(s, s->mortal);
}

void dead_and_living_wait(struct scene *s)
{
	struct agent *first = mortal(s, S), *second = mortal(s, X);

	others_wait(s);
	bury(s, first);
	bury(s, second);
}

/* Beside the victim; its short lease may be over already on a slow machine. */
void mortal_dies(struct scene *s)
{
	bury(s, s->mortal);
}

void another_reads(struct scene *s)
{
	int code = agent_begin(s->holder, wants(s, S, 0));

	ck_code(code, 0); /* the victim, too, reads */
	s->holder_holds = true;
}

/* The victim between the two. */
void another_reads_and_mortal_dies(struct scene *s)
{
	another_reads(s);
	bury(s, s->mortal);
}

void holder_lets_go(struct scene *s, pid_t victim)
{
	(void)victim;
	if (s->holder_holds) {
		scene_goes_out(s, s->holder);
		ck_assert_int_ge(agent_release(s->holder), LOCKSHM_LOST); /* an operator may have ended it */
	}
	s->holder_holds = false;
}

/* Serves all waiters before a second victim. */
void others_are_served(struct scene *s, pid_t victim)
{
	struct agent *const all[] = { s->writer, s->reader };
	int64_t end = now_ns() + PATIENCE;
	unsigned i;

	holder_lets_go(s, victim);
	while ((s->writer->busy || s->reader->busy) && now_ns() < end)
		for (i = 0; i < 2; i++)
			if (all[i]->busy && scene_granted(s, all[i], victim))
				scene_let_go(s, all[i]);
}

void signal_arrives(struct scene *s, pid_t victim)
{
	(void)s;
	kill(victim, SIGUSR1);
}
