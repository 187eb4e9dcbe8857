/* SPDX-License-Identifier: MIT */
/*
 * damage.c - are all bad ends reported, and no others?  See history/check.h
 *
 * Grant B must report the bad end of H if H certainly ended badly, B's token is larger, the two conflict (so H was
 * reaped or expired before B was granted), and no acknowledge of this key can have come between.
 */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

/* An acknowledge, which clears the damage that its holder got a report of: @token, 0 = not known. */
struct ack {
	const struct history_record *r;
	int64_t enter, leave;
	uint64_t token;
};

/* The grants of a key by token, and its acknowledgements. */
struct book {
	const struct key *key;
	const struct hold **grants;
	uint32_t n_grants;
	struct ack *acks;
	uint32_t n_acks, cap_acks;
};

static void add_ack(struct book *b, const struct history_record *r, uint64_t token)
{
	if (b->n_acks == b->cap_acks) {
		b->cap_acks = b->cap_acks ? b->cap_acks * 2 : 16;
		b->acks = model_must(realloc(b->acks, b->cap_acks * sizeof(*b->acks)));
	}
	b->acks[b->n_acks++] = (struct ack){ r, r->enter, r->leave ? r->leave : NEVER, token };
}

static void add_acks(const struct check *c, struct book *b, const struct attempt *a)
{
	const struct history_record *r = a->acquire;
	const struct hold *hold = a->hold == NO_HOLD ? NULL : &c->m.holds[a->hold];
	uint64_t reported = r->flags & HISTORY_MANY ? 0 : r->previous_token;
	uint32_t i;

	/* Of an acquire that failed, only one for many keys can have cleared anything. */
	if (r->flags & HISTORY_ACK_AT_ONCE && (!r->leave || hold || r->flags & HISTORY_MANY))
		add_ack(b, r, reported);
	for (i = 0; hold && i < hold->n_ops; i++) {
		const struct history_record *op = hold->ops[i];

		if (op->op == HISTORY_ACKNOWLEDGE && (!op->leave || op->outcome == LOCKSHM_OK))
			add_ack(b, op, reported);
	}
}

static int by_token(const void *x, const void *y)
{
	const struct hold *a = *(const struct hold *const *)x, *b = *(const struct hold *const *)y;

	return (a->acquire->token > b->acquire->token) - (a->acquire->token < b->acquire->token);
}

static void open_book(const struct check *c, struct book *b, const struct key *key)
{
	uint32_t i;

	*b = (struct book){ .key = key };
	b->grants = model_must(calloc(key->n_attempts, sizeof(*b->grants)));
	for (i = 0; i < key->n_attempts; i++) {
		if (key->attempts[i].hold != NO_HOLD)
			b->grants[b->n_grants++] = &c->m.holds[key->attempts[i].hold];
		add_acks(c, b, &key->attempts[i]);
	}
	qsort(b->grants, b->n_grants, sizeof(*b->grants), by_token);
}

static void close_book(struct book *b)
{
	free(b->grants);
	free(b->acks);
}

/* ---------------------------------------------------------------- reported, and true? */

/* Why the report of @b about @hold is wrong; NULL = it can be right. */
static const char *wrong_about(const struct check *c, const struct hold *hold, const struct history_record *b)
{
	const struct history_track *track = &c->m.h->header->tracks[hold->acquire->track];
	bool by_death = b->previous_status == LOCKSHM_OWNER_DIED;
	int64_t when = by_death				    ? hold->death.lo
		       : hold->deadline.lo < hold->ended.lo ? hold->deadline.lo
							    : hold->ended.lo;

	if (hold->released)
		return "it was released in good order";
	if (when > b->leave)
		return by_death ? "its owner cannot have died by then" : "its lease cannot have ended by then";
	if (b->previous_pid && b->previous_pid != track->pid)
		return "it names another process";
	if (b->previous_pid && !hold->moved && !hold->unsure_life && b->previous_tid != track->tid)
		return "it names another thread";
	if (b->previous_track != HISTORY_NO_TRACK && b->previous_track != hold->acquire->track)
		return "it shows another one's tag";
	if (b->previous_mode == LOCKSHM_EXCLUSIVE ? !hold->ever_exclusive : hold->exclusive)
		return "it tells another mode";
	return NULL;
}

/* A token that no call has returned: of a thread killed inside acquire or upgrade, of a hold overrun before the return,
 * or undone. */
static bool may_be_unknown(const struct check *c, const struct attempt *a, const struct history_record *b)
{
	const struct history_record *r = a->acquire;
	const struct hold *hold = a->hold == NO_HOLD ? NULL : &c->m.holds[a->hold];
	bool last_open = hold && hold->n_ops && !hold->ops[hold->n_ops - 1]->leave;

	if (b->previous_track != HISTORY_NO_TRACK && b->previous_track != r->track)
		return false;
	if (b->previous_pid && c->m.h->header->tracks[r->track].pid != b->previous_pid)
		return false;
	if (b->previous_status == LOCKSHM_OWNER_DIED)
		return (!r->leave || last_open) && c->m.track_death[r->track].lo <= b->leave;
	return (!r->leave || last_open || !(r->flags & HISTORY_TRY) || r->flags & HISTORY_MANY) &&
	       r->ns != LOCKSHM_FOREVER && r->enter + r->ns <= b->leave;
}

static bool ended_by_operator(const struct check *c, uint32_t key, const struct history_record *b)
{
	uint32_t i;

	for (i = 0; i < c->m.end_holds.n; i++) {
		const struct history_record *e = c->m.end_holds.list[i];

		if (e->key == key && e->realm == b->realm && e->token == b->previous_token &&
		    e->outcome == LOCKSHM_OK && e->enter <= b->leave)
			return true;
	}
	return false;
}

/* Can the report of @b be about @key?  NULL = yes, else why not. */
static const char *wrong_for_key(const struct check *c, const struct key *key, const struct history_record *b)
{
	const struct hold *hold = model_find_token(&c->m, key->realm, key->key, b->previous_token);
	uint32_t i;

	if (hold)
		return wrong_about(c, hold, b);
	for (i = 0; i < key->n_attempts && key->attempts[i].lo <= b->leave; i++)
		if (may_be_unknown(c, &key->attempts[i], b))
			return NULL;
	if (b->previous_status == LOCKSHM_TOOK_OVER_EXPIRED && ended_by_operator(c, key->key, b))
		return NULL;
	return "no hold had that token";
}

/* It held alone when it read the damage.  (Next to a shared hold, later holders may already have come and died.) */
static bool no_later_acquire(const struct check *c, const struct history_record *b)
{
	const struct hold *hold = model_hold(&c->m, history_number(c->m.h, b));

	return hold && hold->ended.lo > b->leave && b->mode == LOCKSHM_EXCLUSIVE &&
	       (b->ns == LOCKSHM_FOREVER || b->enter + b->ns > b->leave);
}

static void check_report(struct check *c, const struct key *key, const struct history_record *b)
{
	const struct hold *hold = model_find_token(&c->m, key->realm, key->key, b->previous_token);
	const char *why = wrong_for_key(c, key, b);

	if (b->previous_status == LOCKSHM_OWNER_DIED)
		c->summary->deaths_reported++;
	else
		c->summary->expiries_reported++;
	c->summary->details_unknown += b->previous_pid == 0 || b->previous_track == HISTORY_NO_TRACK;
	if (why)
		problem(c, "damage-false", hold ? hold->acquire : NULL, b, "key %u: report of token %" PRIu64 ", but %s",
			key->key, b->previous_token, why);
	else if (b->previous_token >= b->token && no_later_acquire(c, b))
		problem(c, "damage-false", b, NULL, "key %u: report of a token above its own", key->key);
}

static void check_again(struct check *c, const struct book *book, const struct history_record *b)
{
	uint32_t i;

	for (i = 0; i < book->n_acks; i++) {
		const struct ack *a = &book->acks[i];

		if (a->token && a->token == b->previous_token && a->leave != NEVER && a->leave + SKEW < b->enter) {
			problem(c, "damage-again", a->r, b, "key %u: token %" PRIu64 " was acknowledged before",
				book->key->key, a->token);
			return;
		}
	}
}

/* ---------------------------------------------------------------- happened, and reported? */

/* The status that the bad end of @hold certainly leaves: 0 = none for sure. */
static int certain_status(const struct hold *hold)
{
	if (hold->lost)
		return LOCKSHM_TOOK_OVER_EXPIRED;
	if (hold->released || hold->given_up != NEVER || hold->ended.lo != NEVER || hold->unsure_life ||
	    hold->death.hi == NEVER)
		return 0;
	return hold->deadline.lo > hold->death.hi ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
}

static int64_t ended_not_before(const struct hold *hold)
{
	int64_t t = hold->deadline.lo < hold->ended.lo ? hold->deadline.lo : hold->ended.lo;

	return hold->death.lo < t ? hold->death.lo : t;
}

static bool may_be_cleared(const struct book *book, const struct hold *hold, const struct history_record *b)
{
	int64_t from = ended_not_before(hold);
	uint32_t i;

	for (i = 0; i < book->n_acks; i++) {
		const struct ack *a = &book->acks[i];

		if (a->r != b && a->leave >= from && a->enter <= b->leave)
			return true;
	}
	return false;
}

/* The next grants that conflict with it, until one may have been spared by an acknowledgement. */
static void check_not_missing(struct check *c, const struct book *book, const struct hold *hold, uint32_t from,
			      int status)
{
	uint32_t i;

	for (i = from; i < book->n_grants; i++) {
		const struct history_record *b = book->grants[i]->acquire;

		if (b->token <= hold->token || (b->mode != LOCKSHM_EXCLUSIVE && !hold->exclusive))
			continue;
		if (may_be_cleared(book, hold, b))
			return;
		if (b->outcome == LOCKSHM_OWNER_DIED || (b->outcome != LOCKSHM_OK && status != LOCKSHM_OWNER_DIED))
			continue;
		problem(c, "damage-missing", hold->acquire, b,
			"key %u: the bad end of token %" PRIu64 " (%s%s) was not reported", book->key->key, hold->token,
			hold->lost ? "LOST" : "died", status == LOCKSHM_OWNER_DIED ? ", in its lease" : "");
		return;
	}
}

static void check_book(struct check *c, const struct book *book)
{
	uint32_t i;

	for (i = 0; i < book->n_grants; i++) {
		const struct hold *hold = book->grants[i];
		int status = certain_status(hold);

		if (hold->acquire->previous_status) {
			if (!(hold->acquire->flags & HISTORY_MANY))
				check_report(c, book->key, hold->acquire);
			check_again(c, book, hold->acquire);
		}
		c->summary->deaths_certain += status == LOCKSHM_OWNER_DIED;
		if (status)
			check_not_missing(c, book, hold, i + 1, status);
	}
}

void check_damage(struct check *c)
{
	struct book book;
	uint32_t i;

	for (i = 0; i < c->m.n_keys; i++) {
		open_book(c, &book, &c->m.keys[i]);
		check_book(c, &book);
		close_book(&book);
	}
}
