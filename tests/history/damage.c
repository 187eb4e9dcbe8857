/* SPDX-License-Identifier: MIT */
/*
 * damage.c - are the bad ends of exclusive holds of robust keys reported, and no others?  See history/check.h
 *
 * A look is a report of a grant, or a result of lockshm_previous().  A look of B must show the bad end of H if H
 * certainly ended badly while it was exclusive and its key robust, B's token is larger (so H was unlinked before B was
 * granted), and no acknowledge of this key can have come between.
 *
 * A key is certainly robust at the end of H if H was robust, or found a mark, or a robust request certainly came behind
 * it: the entry lives as long as H does.  A segment with room for all forgets no key.
 */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

/* An acknowledge, which clears any mark.  @token: that of a mark that it certainly cleared, if there was one; 0 = not
 * known.  @all: it certainly cleared any that was there when it began. */
struct ack {
	const struct history_record *r;
	int64_t enter, leave;
	uint64_t token;
	bool all;
};

/* What a holder was shown. */
struct look {
	const struct history_record *r; /* acquire or lockshm_previous() */
	const struct hold *by;
	int status; /* 0 = no mark */
	bool details;
};

/* The grants of a key by token, its looks by the token of the holder, its acknowledgements. */
struct book {
	const struct key *key;
	const struct hold **grants;
	int64_t *granted; /* the earliest grant among this and all with larger tokens was over by then */
	uint32_t n_grants;
	struct look *looks;
	uint32_t n_looks;
	struct ack *acks;
	uint32_t n_acks, cap_acks;
	int64_t robust_from; /* no robust request before; NEVER = none */
	bool keeps_keys; /* a key that became robust stays so */
};

static void add_ack(struct book *b, const struct ack *a)
{
	if (b->n_acks == b->cap_acks) {
		b->cap_acks = b->cap_acks ? b->cap_acks * 2 : 16;
		b->acks = model_must(realloc(b->acks, b->cap_acks * sizeof(*b->acks)));
	}
	b->acks[b->n_acks++] = *a;
}

static bool has_details(const struct history_record *r)
{
	return !(r->flags & (HISTORY_MANY | HISTORY_NO_REPORT));
}

static void add_acks(const struct check *c, struct book *b, const struct attempt *a)
{
	const struct history_record *r = a->acquire;
	const struct hold *hold = a->hold == NO_HOLD ? NULL : &c->m.holds[a->hold];
	struct ack ack = { .r = r, .enter = r->enter, .leave = r->leave ? r->leave : NEVER,
			   .token = has_details(r) ? r->previous_token : 0 };
	uint32_t i;

	/* Of an acquire that failed, only one for many keys can have cleared anything. */
	if (r->flags & HISTORY_ACK_AT_ONCE && (!r->leave || hold || r->flags & HISTORY_MANY))
		add_ack(b, &ack);
	for (i = 0; hold && i < hold->n_ops; i++) {
		const struct history_record *op = hold->ops[i];

		ack = (struct ack){ op, op->enter, op->leave ? op->leave : NEVER, ack.token, false };
		if (op->op == HISTORY_ACKNOWLEDGE && (!op->leave || op->outcome == LOCKSHM_OK))
			add_ack(b, &ack);
	}
}

/* Those of operators. */
static void add_operators(const struct check *c, struct book *b)
{
	uint32_t i;

	for (i = 0; i < c->m.ack_marks.n; i++) {
		const struct history_record *r = c->m.ack_marks.list[i];
		struct ack ack = { r, r->enter, r->leave ? r->leave : NEVER, r->token, !r->token };

		if (r->flags & HISTORY_SOME_MARKS)
			ack.token = 0, ack.all = false;
		if (r->realm == b->key->realm && (r->key == b->key->key || r->key == HISTORY_ANY_KEY))
			add_ack(b, &ack);
	}
}

static int by_token(const void *x, const void *y)
{
	const struct hold *a = *(const struct hold *const *)x, *b = *(const struct hold *const *)y;

	return (a->acquire->token > b->acquire->token) - (a->acquire->token < b->acquire->token);
}

static void add_looks(struct book *b, const struct hold *hold)
{
	const struct history_record *r = hold->acquire;
	bool robust = r->flags & HISTORY_ROBUST;
	uint32_t i;

	/* A status of one for many keys is the worst of them; 0 is that of each. */
	if (has_details(r))
		b->looks[b->n_looks++] = (struct look){ r, hold, r->previous_status, true };
	else if (robust)
		b->looks[b->n_looks++] = (struct look){ r, hold, r->outcome, false };
	for (i = 0; i < hold->n_ops; i++) {
		const struct history_record *op = hold->ops[i];

		if (op->op == HISTORY_PREVIOUS && op->leave && op->outcome == LOCKSHM_OK)
			b->looks[b->n_looks++] = (struct look){ op, hold, op->previous_status, true };
	}
}

static void open_grants(const struct check *c, struct book *b)
{
	uint32_t i, n = 0;

	for (i = 0; i < b->key->n_attempts; i++)
		if (b->key->attempts[i].hold != NO_HOLD)
			b->grants[b->n_grants++] = &c->m.holds[b->key->attempts[i].hold];
	qsort(b->grants, b->n_grants, sizeof(*b->grants), by_token);
	for (i = b->n_grants; i-- > 0; n += 1 + b->grants[i]->n_ops) {
		b->granted[i] = b->grants[i]->acquire->leave;
		if (i + 1 < b->n_grants && b->granted[i + 1] < b->granted[i])
			b->granted[i] = b->granted[i + 1];
	}
	b->looks = model_room(n, sizeof(*b->looks));
	for (i = 0; i < b->n_grants; i++)
		add_looks(b, b->grants[i]);
}

static void open_book(const struct check *c, struct book *b, const struct key *key)
{
	uint32_t i;

	*b = (struct book){ .key = key, .robust_from = NEVER };
	b->keeps_keys = c->m.h->header->realms[key->realm].roomy;
	b->grants = model_room(key->n_attempts, sizeof(*b->grants));
	b->granted = model_room(key->n_attempts, sizeof(*b->granted));
	for (i = 0; i < key->n_attempts; i++) {
		const struct history_record *r = key->attempts[i].acquire;

		if (r->flags & HISTORY_ROBUST && r->enter < b->robust_from)
			b->robust_from = r->enter;
		add_acks(c, b, &key->attempts[i]);
	}
	add_operators(c, b);
	open_grants(c, b);
}

static void close_book(struct book *b)
{
	free(b->grants);
	free(b->granted);
	free(b->looks);
	free(b->acks);
}

/* ---------------------------------------------------------------- reported, and true? */

/* Until when a dead request with that token may have been linked: to the first grant behind it. */
static int64_t unlinked_by(const struct book *book, uint64_t token)
{
	uint32_t lo = 0, hi = book->n_grants;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (book->grants[mid]->acquire->token > token)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo < book->n_grants ? book->granted[lo] : NEVER;
}

static int64_t ended_not_before(const struct hold *hold)
{
	int64_t t = hold->deadline.lo < hold->ended.lo ? hold->deadline.lo : hold->ended.lo;

	return hold->death.lo < t ? hold->death.lo : t;
}

/* Why the look @b at @hold is wrong; NULL = it can be right. */
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
	if (!hold->maybe_exclusive)
		return "a shared hold leaves no mark";
	/* Its clock counts in milliseconds. */
	if (b->op == HISTORY_PREVIOUS && b->ns > b->leave - ended_not_before(hold) + LOCKSHM_MS(2))
		return "it was left before that can have ended";
	return NULL;
}

static bool ended_by_operator(const struct check *c, uint32_t key, const struct history_record *b)
{
	uint32_t i;

	for (i = 0; i < c->m.end_holds.n; i++) {
		const struct history_record *e = c->m.end_holds.list[i];

		if (e->key == key && e->realm == b->realm && e->token == b->previous_token &&
		    (!e->leave || e->outcome == LOCKSHM_OK) && e->enter <= b->leave)
			return true;
	}
	return false;
}

/* A process may die between the record of the call that collects the outcome and the end of the acquire's. */
static bool is_of_another(const struct check *c, const struct history_record *next, const struct history_record *r)
{
	return next->leave && (next->subject != history_number(c->m.h, r) || next->outcome < 0 ||
			       next->flags & HISTORY_EMPTY);
}

/* Of a request that has not ended: a call that enters it was under way.  A grant that no loop collects is not entered. */
static bool may_have_entered(const struct check *c, const struct history_record *r)
{
	const struct history_track *tracks = c->m.h->header->tracks, *mine = &tracks[r->track];
	uint32_t i;

	if (!is_loop_wait(r))
		return true;
	for (i = 0; i < c->m.nexts.n; i++) {
		const struct history_record *next = c->m.nexts.list[i];

		if (is_of_another(c, next, r))
			continue;
		if (tracks[next->track].process == mine->process && tracks[next->track].image == mine->image &&
		    next->enter >= r->enter)
			return true;
	}
	return false;
}

/*
 * A token that no call has returned: of a thread killed inside acquire after it had entered, or inside upgrade; of an
 * upgrade that found the hold lost; of one of many keys, entered before the lease of the next one was seen to be over.
 * A call that failed otherwise never held.
 */
static bool may_be_unknown(const struct check *c, const struct attempt *a, const struct history_record *b)
{
	const struct history_record *r = a->acquire;
	const struct hold *hold = a->hold == NO_HOLD ? NULL : &c->m.holds[a->hold];
	const struct history_record *last = hold && hold->n_ops ? hold->ops[hold->n_ops - 1] : NULL;
	bool cut_off = (!r->leave && may_have_entered(c, r)) || (last && last->op == HISTORY_UPGRADE && !last->leave);
	bool refused = (hold && hold->lost && hold->lost->op == HISTORY_UPGRADE) || r->flags & HISTORY_MANY;

	if (b->previous_track != HISTORY_NO_TRACK && b->previous_track != r->track)
		return false;
	if (b->previous_pid && c->m.h->header->tracks[r->track].pid != b->previous_pid)
		return false;
	if (!hold && r->mode != LOCKSHM_EXCLUSIVE)
		return false;
	if (b->previous_status == LOCKSHM_OWNER_DIED)
		return cut_off && (r->flags & HISTORY_LOOP ? c->m.image_death : c->m.track_death)[r->track].lo <= b->leave;
	return (cut_off || refused) && ((r->ns != LOCKSHM_FOREVER && r->enter + r->ns <= b->leave) ||
					(hold && hold->deadline.lo <= b->leave) || ended_by_operator(c, r->key, b));
}

/* Can the look @b be at a bad end of that key?  NULL = yes, else why not. */
static const char *wrong_for_key(const struct check *c, const struct book *book, const struct history_record *b)
{
	const struct key *key = book->key;
	const struct hold *hold = model_find_token(&c->m, key->realm, key->key, b->previous_token);
	uint32_t i;

	if (book->robust_from > b->leave || book->robust_from - SKEW > unlinked_by(book, b->previous_token))
		return "its key was not robust";
	if (hold)
		return wrong_about(c, hold, b);
	for (i = 0; i < key->n_attempts && key->attempts[i].lo <= b->leave; i++)
		if (may_be_unknown(c, &key->attempts[i], b))
			return NULL;
	return "no hold had that token";
}

/* The mark was read while the hold certainly lasted: then no other can have left a newer one. */
static bool lasted(const struct look *l)
{
	if (l->r->op == HISTORY_PREVIOUS)
		return true;
	return l->by->ended.lo > l->r->leave && (l->r->ns == LOCKSHM_FOREVER || l->r->enter + l->r->ns > l->r->leave);
}

static void check_look(struct check *c, const struct book *book, const struct look *l)
{
	const struct history_record *b = l->r, *first = l->by->acquire;
	const struct hold *hold = model_find_token(&c->m, book->key->realm, book->key->key, b->previous_token);
	const char *why = wrong_for_key(c, book, b);

	if (b->previous_status == LOCKSHM_OWNER_DIED)
		c->summary->deaths_reported++;
	else
		c->summary->expiries_reported++;
	c->summary->details_unknown += b->previous_pid == 0 || b->previous_track == HISTORY_NO_TRACK;
	if (why)
		problem(c, "damage-false", hold ? hold->acquire : NULL, b, "key %u: report of token %" PRIu64 ", but %s",
			book->key->key, b->previous_token, why);
	else if (b->previous_token >= first->token && lasted(l))
		problem(c, "damage-false", first, b, "key %u: report of a token above its own", book->key->key);
	else if (b != first && has_details(first) && lasted(&(struct look){ .r = first, .by = l->by }) &&
		 b->previous_token != first->previous_token)
		problem(c, "damage-false", first, b, "key %u: the mark has changed under a hold", book->key->key);
}

/* Was the mark that @b saw there before @a began? */
static bool seen_before(const struct book *book, const struct ack *a, const struct history_record *b)
{
	uint32_t i;

	for (i = 0; i < book->n_looks; i++) {
		const struct look *l = &book->looks[i];

		if (l->details && l->status && l->r->previous_token == b->previous_token && l->r->leave + SKEW < a->enter)
			return true;
	}
	return false;
}

static void check_again(struct check *c, const struct book *book, const struct history_record *b)
{
	uint32_t i;

	for (i = 0; i < book->n_acks; i++) {
		const struct ack *a = &book->acks[i];

		if (a->leave == NEVER || a->leave + SKEW >= b->enter || !(a->all || a->token == b->previous_token))
			continue;
		/* An operator may have come before the mark. */
		if (a->r->op == HISTORY_ACK_MARKS && !seen_before(book, a, b))
			continue;
		problem(c, "damage-again", a->r, b, "key %u: token %" PRIu64 " was acknowledged before", book->key->key,
			b->previous_token);
		return;
	}
}

/* ---------------------------------------------------------------- happened, and reported? */

static bool certainly_robust(const struct book *book, const struct hold *hold)
{
	const struct history_record *r = hold->acquire;
	int64_t end = ended_not_before(hold);
	uint32_t i;

	if (r->flags & HISTORY_ROBUST || (has_details(r) && r->previous_status))
		return true;
	for (i = 0; i < book->key->n_attempts; i++) {
		const struct attempt *a = &book->key->attempts[i];

		if (a->acquire->flags & HISTORY_ROBUST && a->token && (a->token > r->token || book->keeps_keys) &&
		    a->queued != NEVER && a->queued + SKEW < end)
			return true;
	}
	return false;
}

/* The status that the bad end of @hold certainly leaves: 0 = none for sure. */
static int certain_status(const struct hold *hold)
{
	if (!hold->exclusive)
		return 0;
	if (hold->lost)
		return LOCKSHM_TOOK_OVER_EXPIRED;
	if (hold->released || hold->given_up != NEVER || hold->ended.lo != NEVER || hold->unsure_life ||
	    hold->death.hi == NEVER)
		return 0;
	return hold->deadline.lo > hold->death.hi ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
}

/* The two acknowledgements that may have cleared the mark of @hold first, begun by different calls. */
struct clearing {
	const struct history_record *by[2];
	int64_t from[2];
};

static struct clearing first_clearing(const struct book *book, const struct hold *hold)
{
	struct clearing f = { { NULL }, { NEVER, NEVER } };
	int64_t from = ended_not_before(hold);
	uint32_t i;

	for (i = 0; i < book->n_acks; i++) {
		const struct ack *a = &book->acks[i];

		if (a->leave < from || a->enter >= f.from[1])
			continue;
		f.by[1] = a->r, f.from[1] = a->enter;
		if (f.from[1] < f.from[0])
			f = (struct clearing){ { f.by[1], f.by[0] }, { f.from[1], f.from[0] } };
	}
	return f;
}

/* Each look of a later holder, before one that may have been spared by an acknowledgement. */
static void check_not_missing(struct check *c, const struct book *book, const struct hold *hold, int status)
{
	struct clearing f = first_clearing(book, hold);
	uint32_t i;

	for (i = 0; i < book->n_looks; i++) {
		const struct look *l = &book->looks[i];

		if (l->by->acquire->token <= hold->token || f.from[f.by[0] == l->r] <= l->r->leave)
			continue;
		if (l->status == LOCKSHM_OWNER_DIED || (l->status != 0 && status != LOCKSHM_OWNER_DIED))
			continue;
		problem(c, "damage-missing", hold->acquire, l->r,
			"key %u: the bad end of token %" PRIu64 " (%s%s) was not reported", book->key->key, hold->token,
			hold->lost ? "LOST" : "died", status == LOCKSHM_OWNER_DIED ? ", in its lease" : "");
		return;
	}
}

static void check_book(struct check *c, const struct book *book)
{
	uint32_t i;

	for (i = 0; i < book->n_looks; i++) {
		const struct look *l = &book->looks[i];

		if (!l->status || !l->details)
			continue;
		check_look(c, book, l);
		check_again(c, book, l->r);
	}
	for (i = 0; i < book->n_grants; i++) {
		int status = certain_status(book->grants[i]);

		if (!status || !certainly_robust(book, book->grants[i]))
			continue;
		c->summary->deaths_certain += status == LOCKSHM_OWNER_DIED;
		check_not_missing(c, book, book->grants[i], status);
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
