/* SPDX-License-Identifier: MIT */
/* soak-look.c - the driver's own calls on the segment while others are at work, see soak-driver.h */
#include "soak-driver.h"
#include "support/rows.h"
#include "support/acknowledge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(struct soak_driver *d, const char *call, int code, bool fine)
{
	if (!fine)
		soak_problem(d, "code", "driver: %s answered %s", call, lockshm_code_name(code));
}

void driver_open(struct soak_driver *d)
{
	struct lockshm_create_options options;
	struct lockshm_error error = { 0 };
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	int code;

	soak_options(&options, &d->config);
	code = lockshm_create(&d->segment, d->name, &options, &error);
	if (code < 0 || lockshm_stat(d->segment, &stat) < 0) {
		fprintf(stderr, "soak: %s: %s\n", d->name, error.message);
		exit(99);
	}
	d->realm = history_realm(&d->history, stat.token_base);
}

/* The driver holds nothing, so its part ends without a record. */
void driver_close(struct soak_driver *d)
{
	int code = lockshm_close(d->segment);

	expect(d, "close", code, code == 0);
	d->segment = NULL;
}

void driver_remove(struct soak_driver *d)
{
	struct history_record *r = history_new(&d->writer);
	int code;

	r->realm = d->realm;
	history_enter(r, HISTORY_DESTROY);
	code = lockshm_destroy(d->name, NULL);
	history_leave(r, history_now(), code);
	expect(d, "destroy", code, code == 0);
	code = lockshm_current(d->segment);
	expect(d, "current", code, code == LOCKSHM_NO_SEGMENT);
	d->removals++;
	driver_close(d);
	driver_open(d);
}

static void tell_broken(const char *invariant, const char *text, void *arg)
{
	soak_problem(arg, "verify", "%s: %s", invariant, text);
}

void driver_verify(struct soak_driver *d)
{
	int code = lockshm_verify(d->segment, tell_broken, d, NULL);

	expect(d, "verify", code, code == 0 || code == LOCKSHM_BAD_SEGMENT);
	d->verifies++;
}

void driver_sweep(struct soak_driver *d)
{
	int code = lockshm_sweep(d->segment, NULL);

	expect(d, "sweep", code, code == 0 || (code == LOCKSHM_FULL && !d->config.roomy));
	d->sweeps++;
}

/* ---------------------------------------------------------------- plausible? */

static void look_at(struct soak_driver *d, const struct lockshm_row *row)
{
	const struct lockshm_blocker *r = &row->request;

	if (row->key_shown > LOCKSHM_KEY_SHOWN_MAX || row->key_shown > row->key_len || row->key_len > SOAK_KEY_MAX)
		soak_problem(d, "inspect", "key of %zu bytes, %zu shown", row->key_len, row->key_shown);
	if (r->state && (r->state < LOCKSHM_WAITING || r->state > LOCKSHM_COOLING || r->age_ns < 0 ||
			 (r->mode != LOCKSHM_SHARED && r->mode != LOCKSHM_EXCLUSIVE)))
		soak_problem(d, "inspect", "request: state %d mode %d age %" PRId64, r->state, r->mode, r->age_ns);
}

static void look_at_all(struct soak_driver *d, lockshm_t *segment)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	uint32_t left = 0; /* rows of the last key's requests */
	int code;

	EACH_ROW(row, code, segment, LOCKSHM_LIST_BUSY, NULL, 0)
	{
		look_at(d, &row);
		if ((row.request.state == 0) != (left == 0))
			soak_problem(d, "inspect", "%" PRIu32 " requests are missing", left);
		left = row.request.state ? left - 1 : row.holders + row.waiters;
	}
	expect(d, "list", code, code == 0);
}

/* As an onlooker without the right to write. */
static void look_from_outside(struct soak_driver *d)
{
	lockshm_t *onlooker;
	int code = lockshm_open(&onlooker, d->name, LOCKSHM_OPEN_READ_ONLY, NULL);

	expect(d, "open", code, code == 0);
	if (code < 0)
		return;
	look_at_all(d, onlooker);
	code = lockshm_verify(onlooker, NULL, NULL, NULL);
	expect(d, "verify", code, code == 0);
	code = lockshm_sweep(onlooker, NULL);
	expect(d, "sweep", code, code == LOCKSHM_PERMISSION);
	code = lockshm_close(onlooker);
	expect(d, "close", code, code == 0);
}

static bool is_listed(struct soak_driver *d)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	bool found = false;
	int code;

	EACH_ROW(row, code, NULL, LOCKSHM_LIST_SEGMENTS, NULL, 0)
		found = found || strcmp(row.segment, d->name) == 0;
	return code == 0 && found;
}

void driver_look(struct soak_driver *d)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	int code;

	look_at_all(d, d->segment);
	code = lockshm_stat(d->segment, &stat);
	expect(d, "stat", code, code == 0);
	if (soak_one_in(&d->random, 4)) {
		look_from_outside(d);
		expect(d, "list of segments", 0, is_listed(d));
	}
	if (stat.owners_used > stat.owners || stat.requests_used > stat.requests || stat.keys_busy > stat.keys_known)
		soak_problem(d, "inspect", "more in use than there is");
	code = lockshm_current(d->segment);
	expect(d, "current", code, code == 0);
	d->looks++;
}

/* ---------------------------------------------------------------- tickets of waiters */

#define SIGHTS 16

struct sight {
	int32_t pid, tid;
	uint64_t ticket;
	uint32_t track, waits; /* the wait of that track, read before the snapshot */
	bool again; /* seen a second time */
};

struct sights {
	struct soak_driver *d;
	struct sight list[SIGHTS];
	unsigned n;
};

/* The newest track of that thread. */
static uint32_t track_of(const struct history *h, int32_t pid, int32_t tid)
{
	uint32_t i = __atomic_load_n(&h->header->next_track, __ATOMIC_ACQUIRE);

	while (i-- > 0) {
		const struct history_track *track = &h->header->tracks[i];

		if (__atomic_load_n(&track->used, __ATOMIC_ACQUIRE) && track->pid == pid && track->tid == tid)
			return i;
	}
	return HISTORY_NO_TRACK;
}

static uint32_t waits_of(const struct history *h, uint32_t track)
{
	return __atomic_load_n(&h->header->tracks[track].waits, __ATOMIC_ACQUIRE);
}

static void see_first(struct sights *s, const struct lockshm_blocker *owner)
{
	uint32_t track;

	if (!owner->ticket || s->n == SIGHTS)
		return;
	track = track_of(&s->d->history, owner->pid, owner->tid);
	if (track != HISTORY_NO_TRACK)
		s->list[s->n++] = (struct sight){
			owner->pid, owner->tid, owner->ticket, track, waits_of(&s->d->history, track), false
		};
}

/* The same ticket twice, with the track in the same call both times: it is the ticket of that call. */
static void see_again(struct sights *s, const struct lockshm_blocker *owner)
{
	unsigned i;

	for (i = 0; i < s->n; i++)
		if (s->list[i].tid == owner->tid && s->list[i].pid == owner->pid && s->list[i].ticket == owner->ticket)
			s->list[i].again = true;
}

static void see_owners(struct sights *s, void (*see)(struct sights *s, const struct lockshm_blocker *owner))
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	EACH_ROW(row, code, s->d->segment, LOCKSHM_LIST_OWNERS, NULL, 0)
		see(s, &row.request);
	expect(s->d, "list of owners", code, code == 0);
}

static void note_sight(struct soak_driver *d, const struct sight *sight, int64_t from, int64_t to)
{
	const struct history_record *w;
	struct history_record *r;

	if (!sight->again || !sight->waits || waits_of(&d->history, sight->track) != sight->waits)
		return;
	w = &d->history.records[sight->waits - 1];
	if (w->realm != d->realm || __atomic_load_n(&w->op, __ATOMIC_ACQUIRE) != HISTORY_ACQUIRE)
		return;
	r = history_new(&d->writer);
	r->subject = sight->waits - 1;
	r->token = sight->ticket;
	r->realm = d->realm;
	r->key = w->key;
	history_enter(r, HISTORY_SEEN);
	r->enter = from;
	history_leave(r, to, 0);
}

void driver_see_waiters(struct soak_driver *d)
{
	struct sights s = { .d = d };
	int64_t from = history_now(), to;
	unsigned i;

	see_owners(&s, see_first);
	see_owners(&s, see_again);
	to = history_now();
	for (i = 0; i < s.n; i++)
		note_sight(d, &s.list[i], from, to);
}

/* ---------------------------------------------------------------- operator */

/* The token of one of the holders; 0 = none. */
static uint64_t choose_victim(struct soak_driver *d, const unsigned char *key, size_t len)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	uint32_t chosen = 0;
	uint64_t token = 0;
	int code;

	EACH_ROW(row, code, d->segment, LOCKSHM_LIST_KEY, key, len)
	{
		if (!row.request.state)
			chosen = row.holders ? soak_below(&d->random, row.holders) : 0;
		else if (row.request.state != LOCKSHM_WAITING && chosen-- == 0)
			token = row.request.token;
	}
	expect(d, "list", code, code == 0);
	return token;
}

void driver_end_hold(struct soak_driver *d)
{
	uint32_t n = soak_below(&d->random, soak_one_in(&d->random, 2) ? d->config.hot : d->config.keys);
	unsigned char key[SOAK_KEY_MAX];
	size_t len = soak_key(key, n);
	uint64_t token = choose_victim(d, key, len);
	struct history_record *r;
	int code;

	if (!token)
		return;
	r = history_new(&d->writer);
	r->realm = d->realm;
	r->key = n;
	r->token = token;
	history_enter(r, HISTORY_END_HOLD);
	code = lockshm_end_hold(d->segment, key, len, token);
	history_leave(r, history_now(), code);
	d->operated++;
}

/* Does the mark of one key, left by that holder, go? */
static int acknowledge_token(struct soak_driver *d, const unsigned char *key, size_t len, struct history_record *r)
{
	struct lockshm_row row;
	int code = key_row(d->segment, key, len, &row);

	if (code || !row.damage.token)
		return code;
	r->token = row.damage.token;
	code = lockshm_acknowledge_of(d->segment, row.id, row.damage.token);
	r->other = code == 0;
	return code == LOCKSHM_NOT_HELD ? 0 : code;
}

/* Marks of one key or of all; some of them by the token of their holder, by age, or by the key's beginning. */
void driver_acknowledge(struct soak_driver *d)
{
	uint32_t n = soak_below(&d->random, d->config.keys), dice = soak_below(&d->random, 10);
	struct history_record *r = history_new(&d->writer);
	unsigned char key[SOAK_KEY_MAX];
	size_t len = soak_key(key, n), cleared = 0;
	int code;

	r->realm = d->realm;
	r->key = dice < 6 ? n : HISTORY_ANY_KEY;
	if (dice == 7 || dice == 8)
		r->flags |= HISTORY_SOME_MARKS;
	history_enter(r, HISTORY_ACK_MARKS);
	if (dice < 2)
		code = acknowledge_token(d, key, len, r);
	else if (dice < 6)
		code = clear_marks(d->segment, LOCKSHM_LIST_KEY, key, len, 0, &cleared);
	else if (dice == 7)
		code = clear_marks(d->segment, LOCKSHM_LIST_BUSY, NULL, 0, soak_between(&d->random, 1, LOCKSHM_MS(200)),
				   &cleared);
	else
		code = clear_marks(d->segment, LOCKSHM_LIST_BUSY, dice == 8 ? "key-1" : NULL, dice == 8 ? 5 : 0, 0,
				   &cleared);
	r->other += cleared;
	history_leave(r, history_now(), code);
	d->cleared += r->other;
}

/* All of them: afterwards no key has one, if no more are left. */
static void acknowledge_all(struct soak_driver *d)
{
	struct history_record *r = history_new(&d->writer);
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	size_t cleared;
	int code;

	r->realm = d->realm;
	r->key = HISTORY_ANY_KEY;
	history_enter(r, HISTORY_ACK_MARKS);
	code = clear_all_marks(d->segment, &cleared);
	r->other = cleared;
	history_leave(r, history_now(), code);
	d->cleared += cleared;
	code = lockshm_stat(d->segment, &stat);
	expect(d, "stat", code, code == 0);
	if (stat.keys_damaged)
		soak_problem(d, "leak", "%" PRIu32 " locks have a mark though all were acknowledged", stat.keys_damaged);
}

/* ---------------------------------------------------------------- leaks */

static void give_back(struct soak_driver *d, lockshm_hold_t *hold, const struct history_record *acquire)
{
	struct history_record *r = history_new(&d->writer);
	int code;

	r->realm = acquire->realm;
	r->key = acquire->key;
	r->subject = history_number(&d->history, acquire);
	history_enter(r, HISTORY_RELEASE);
	code = lockshm_release(hold, 0);
	history_leave(r, history_now(), code);
}

static void take_key(struct soak_driver *d, uint32_t n)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct history_record *r = history_new(&d->writer);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	unsigned char key[SOAK_KEY_MAX];
	int code;

	q.key = key;
	q.key_len = soak_key(key, n);
	q.flags = LOCKSHM_ROBUST;
	q.timeout_ns = LOCKSHM_SECONDS(1); /* some may cool down */
	q.report = &report;
	r->realm = d->realm;
	r->key = n;
	r->mode = LOCKSHM_EXCLUSIVE;
	r->ns = q.ttl_ns;
	r->flags = HISTORY_ROBUST | HISTORY_ACK_AT_ONCE;
	r->deadline = history_now() + q.timeout_ns;
	history_enter(r, HISTORY_ACQUIRE);
	code = acknowledge_told(lockshm_acquire(d->segment, &q, &hold), &hold);
	r->token = report.token;
	soak_note_previous(r, &report.damage);
	history_leave(r, history_now(), code);
	if (code < 0)
		soak_problem(d, "leak", "key %u cannot be had though no worker is left: %s", n, lockshm_code_name(code));
	else
		give_back(d, &hold, r);
}

void driver_look_for_leaks(struct soak_driver *d)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	uint32_t n;
	int code = lockshm_sweep(d->segment, NULL);

	expect(d, "sweep", code, code == 0);
	/* With more damaged keys than entries some can only be acquired once others are acknowledged. */
	if (soak_one_in(&d->random, 3))
		acknowledge_all(d);
	for (n = 0; n < d->config.keys; n++)
		take_key(d, n);
	code = lockshm_stat(d->segment, &stat);
	expect(d, "stat", code, code == 0);
	if (stat.keys_busy || stat.keys_left || stat.keys_damaged || stat.requests_used || stat.owners_used > 1 || stat.owners_dead)
		soak_problem(d, "leak",
			     "left: %" PRIu32 " locks in use, %" PRIu32 " marked, %" PRIu32 " requests, %" PRIu32
			     " owners",
			     stat.keys_busy + (uint32_t)stat.keys_left, stat.keys_damaged, stat.requests_used, stat.owners_used);
	driver_verify(d);
}
