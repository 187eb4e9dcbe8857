/* SPDX-License-Identifier: MIT */
/*
 * bridge-lease.c - one host lease, seen by the bridge: what to ask; see bridge-lease.h and remote.h
 *
 * Killed or stopped after any line here: the segment says which state the lease is in, the next bridge goes on from it, and
 * what this one does later either has the token of an epoch that is over, or fails its CAS.
 */
#define _GNU_SOURCE
#include "bridge-lease.h"

#include <string.h>

#include "bridge-interest.h"
#include "owner.h"
#include "queue.h"
#include "table.h"

#define WAITER_TTL_MS 2000
#define END_AGAIN_NS LOCKSHM_MS(10) /* after holds of a lost lease that could not be ended */
#define COMES_NS LOCKSHM_MS(10)
#define UPGRADE_MAX_NS LOCKSHM_MS(2000) /* longer than anybody asks for one, see global_upgrade() */
#define UNSURE_NS LOCKSHM_MS(50) /* after a look in which the queue did not hold still */
#define TRANSITIONS_MAX 16

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---------------------------------------------------------------- lost */

/* The lease is lost: end what was held under it, so that nobody waits for those who cannot know yet. */
static void end_holds(struct bridge *b, uint32_t i, uint64_t epoch)
{
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	size_t len = remote_key(&b->s->remotes[i], key);
	uint32_t entry = table_lookup(b->s, &b->leases[i].id), k;

	if (!len || entry == ENTRY_NONE || !snapshot_take(b->s, &b->s->entries[entry], &b->snap))
		return;
	for (k = 0; k < b->snap.n; k++) {
		const struct snapshot_request *seen = &b->snap.requests[k];
		const struct shm_request *r = &b->s->requests[seen->index];

		if ((word_is(seen->word, REQUEST_GRANTED) || word_is(seen->word, REQUEST_COOLING)) &&
		    (load_acquire32(&r->flags) & REQUEST_GLOBAL) && load_relaxed32(&r->home) == i + 1 &&
		    under_is(load_acquire(&r->under), epoch))
			(void)lockshm_end_hold(b->s, key, len, b->s->token_base + seen->ticket);
	}
}

/* ---------------------------------------------------------------- names */

void lease_forget(struct lease *l)
{
	if (l->named)
		bridge_keys_free(&l->keys);
	memset(l, 0, sizeof(*l));
}

static void use_epoch(const struct bridge *b, uint32_t i, uint64_t epoch)
{
	struct lease *l = &b->leases[i];

	if (l->epoch == epoch)
		return;
	l->epoch = epoch;
	l->asked = 0;
	l->sent = l->made != epoch;
	l->in_the_way = 0;
	l->raise = false;
	l->next_try = l->not_before;
	l->not_before = 0;
	l->backoff_ns = 0;
	l->renew_at = 0;
	l->unseen = 0;
	l->mode_at = 0;
	l->idle_since = 0;
	remote_value(b->s, i, epoch, l->value);
}

enum naming { NAMED, BEING_MADE, NAMELESS };

/* The names are those of the record as it is now, or it is being made, or has a key that cannot be named there. */
static enum naming name(const struct bridge *b, uint32_t i)
{
	struct shm_remote *r = &b->s->remotes[i];
	struct lease *l = &b->leases[i];
	int mode = b->net ? bridge_net_keys_mode(b->net) : BRIDGE_KEYS_SINGLE;
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	struct bridge_error error = { 0 };
	int64_t asked;
	size_t len;

	if (l->named && l->keys.mode == mode && remote_is(r, &l->id))
		return NAMED;
	if (l->named)
		bridge_keys_free(&l->keys);
	l->named = false;
	/* Before the key is read: stopped here, this says it of a key that was here before those who wait for another. */
	asked = host_now(b->s);
	len = remote_key(r, key);
	if (len == 0)
		return BEING_MADE;
	hash_key(&l->id, b->s->hash_secret, key, len);
	l->epoch = l->made = 0;
	l->named = bridge_keys_make(&l->keys, mode, b->s->redis.prefix, key, len, &error) == 0;
	if (!l->named) {
		bridge_keys_free(&l->keys);
		remote_judge(b->s, r, VERDICT_LASTS, asked, 0, error.text);
	}
	return l->named ? NAMED : NAMELESS;
}

/* ---------------------------------------------------------------- states */

/* What a transition leads to: look again at the new state, or wait, or ask. */
enum next { NEXT_AGAIN, NEXT_WAIT, NEXT_ASK };

static enum next move(const struct bridge *b, uint32_t i, uint64_t from, uint64_t to)
{
	(void)cas_from(&b->s->remotes[i].word, from, to);
	return NEXT_AGAIN;
}

static enum next wait_until(struct lease *l, int64_t when)
{
	l->due = when;
	return NEXT_WAIT;
}

/* Those who only try were told, and have not gone: their threads do not run.  Whoever has come since has rung. */
static bool was_told(const struct bridge *b, const struct lease *l, const struct interest *in)
{
	return !in->patient && !l->rung && !l->hinted && host_now(b->s) < l->told_until;
}

static enum next at_none(struct bridge *b, uint32_t i, uint64_t word)
{
	struct lease *l = &b->leases[i];
	struct interest in = interest_look(b, i, remote_epoch(word));

	if (in.wants && was_told(b, l, &in))
		return wait_until(l, l->told_until);
	if (in.wants) {
		uint64_t epoch = remote_epoch(word) + 1;

		/* A majority that refused is asked again under a new epoch each time: there it is still in the way. */
		if (!bridge_is_quorum(b))
			store_relaxed(&b->s->remotes[i].obstacle, 0);
		if (cas_from(&b->s->remotes[i].word, word,
			     remote_make(epoch, in.exclusive ? REMOTE_EXCLUSIVE : 0, REMOTE_ACQUIRING)))
			l->made = epoch;
		return NEXT_AGAIN;
	}
	l->active = in.unsure;
	return wait_until(l, host_now(b->s) + (in.unsure ? UNSURE_NS : LOCKSHM_MS(1)));
}

void lease_ask(const struct bridge *b, const struct lease *l, struct bridge_ask *ask, enum bridge_script script,
	       uint64_t word)
{
	memset(ask, 0, sizeof(*ask));
	ask->script = script;
	ask->exclusive = word & REMOTE_EXCLUSIVE;
	ask->word = word;
	ask->keys = &l->keys;
	ask->asked = bridge_now();
	ask->wish.host = b->host;
	ask->wish.token = l->value;
	ask->wish.ttl_ms = (int64_t)b->s->redis.ttl_ms;
	ask->wish.stride = STRIDE_FIRST;
	ask->wish.waiter_ttl_ms = WAITER_TTL_MS;
	ask->wish.turn = remote_turn(word);
	ask->wish.flags = "";
}

size_t lease_ask_back(const struct bridge *b, const struct lease *l, struct bridge_ask asks[ASKS_PER_LEASE], uint64_t word,
		      const char *places)
{
	size_t n = 0;

	if (places) {
		lease_ask(b, l, &asks[n], BRIDGE_LEAVE, word);
		asks[n++].wish.flags = places;
	}
	lease_ask(b, l, &asks[n++], BRIDGE_RELEASE, word);
	return n;
}

void lease_give_up(struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_remote *r = &b->s->remotes[i];
	struct lease *l = &b->leases[i];

	if (l->sent || !lease_is_own(l, word)) {
		(void)cas_from(&r->word, word, remote_with_state(word | REMOTE_QUEUED, REMOTE_RELEASING));
		return;
	}
	/* Who does not answer is not asked sooner in the next one. */
	l->not_before = l->next_try;
	(void)cas_from(&r->word, word, remote_make(remote_epoch(word), 0, REMOTE_NONE));
}

/* @seen: when who wants it was looked up.  Who begins to wait after that is told nothing of this question. */
static void ask_acquire(const struct bridge *b, uint32_t i, struct bridge_ask *ask, uint64_t word,
			const struct interest *in, int64_t seen)
{
	struct lease *l = &b->leases[i];

	lease_ask(b, l, ask, word & REMOTE_EXCLUSIVE ? BRIDGE_ACQUIRE_X : BRIDGE_ACQUIRE_S, word);
	ask->asked = seen;
	/* Who was not seen may write, and may be patient: then a try would give the place in line away. */
	ask->for_reader = in->wants && !in->exclusive && (!in->unsure || l->asked == 0);
	ask->unsure = in->unsure;
	ask->wish.flags = in->patient || in->unsure ? "" : "t";
	/* Before it is sent: from then on the token may be there. */
	remote_note_asked(b->s, &b->s->remotes[i]);
	l->asked++;
}

/* The server lost the fence, and its clock went back: tell it what was used already. */
static void ask_raise(const struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	const struct lease *l = &b->leases[i];

	if (!l->raise)
		return;
	lease_ask(b, l, &asks[*n], BRIDGE_FENCE, word);
	asks[(*n)++].wish.fence = (int64_t)remote_fence_next(&b->s->remotes[i]);
}

/*
 * Is something else wanted than what is asked for?  For a writer there is another question.  A reader goes on with a writer's
 * that was given up, which keeps the host's place in line, but where only others who read are in its way: it can join
 * them, and the mark of the writer would keep new ones out.
 */
static bool wants_another(const struct bridge *b, uint32_t i, uint64_t word, const struct interest *in)
{
	const struct lease *l = &b->leases[i];

	if (in->exclusive == !!(word & REMOTE_EXCLUSIVE))
		return false;
	return in->exclusive || l->in_the_way == BRIDGE_KIND_READERS || (!l->sent && lease_is_own(l, word));
}

/* Nobody wants it, but somebody of this host may be about to: granted here, and not yet awake.  The host's place in line is
 * kept for a moment. */
static bool somebody_comes(struct lease *l, const struct interest *in, int64_t now)
{
	if (!in->live || in->elsewhere)
		return false;
	if (!l->idle_since)
		l->idle_since = now;
	return now - l->idle_since < COMES_NS;
}

static enum next at_acquiring(struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	struct lease *l = &b->leases[i];
	int64_t seen = bridge_now(), now = host_now(b->s);
	struct interest in = interest_look(b, i, remote_epoch(word));

	if (in.wants)
		l->idle_since = 0;
	/* Of a damaged queue those who are seen are served; nobody holds yet. */
	if (!in.unsure || in.damaged) {
		if (!in.wants && !b->ending && somebody_comes(l, &in, now)) {
			/* A hint is for whoever comes. */
			l->next_try = l->hinted ? 0 : l->next_try;
			return wait_until(l, l->idle_since + COMES_NS);
		}
		if (!in.wants || wants_another(b, i, word, &in)) {
			lease_give_up(b, i, word);
			return NEXT_AGAIN;
		}
	}
	if (now < l->next_try && !l->hinted)
		return wait_until(l, l->next_try);
	/* An epoch that another bridge began.  It may be about to give up what nobody had asked for when it looked: by this its CAS
	 * fails, and whoever gives it up from now on leaves the queue, too.  Killed here: that is done for nothing. */
	if (l->made != l->epoch && !(word & REMOTE_QUEUED))
		return move(b, i, word, word | REMOTE_QUEUED);
	ask_raise(b, i, word, asks, n);
	ask_acquire(b, i, &asks[(*n)++], word, &in, seen);
	return NEXT_ASK;
}

static uint64_t fence_left(const struct shm_remote *r)
{
	return load_relaxed(&r->fence) & FENCE_LEFT_MASK;
}

/* Asked for by who holds under it.  An answer takes the bit back; without one it is asked again, and renewals go on. */
static enum next upgrade(const struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	l->mode_at = now + MODE_AGAIN_NS;
	ask_raise(b, i, word, asks, n);
	/* Before it is sent: from then on the token may be there for another ttl. */
	remote_note_asked(b->s, &b->s->remotes[i]);
	lease_ask(b, l, &asks[(*n)++], BRIDGE_UPGRADE, word);
	return NEXT_ASK;
}

/* After a takeover: by what the segment says. */
static int64_t renew_at(const struct bridge *b, uint32_t i)
{
	struct lease *l = &b->leases[i];
	int64_t third = LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) / 3;

	if (!l->renew_at)
		l->renew_at = (int64_t)load_acquire(&b->s->remotes[i].valid_until) - 2 * third;
	return l->renew_at;
}

/* Is it to be asked for now?  Never instead of a renewal that is due: it may be asked in vain for long.  Beside a downgrade it
 * does not stand, but by damage: there somebody may write, of whom the word after an upgrade would know nothing. */
static bool upgrade_due(const struct bridge *b, uint32_t i, uint64_t word)
{
	int64_t now = host_now(b->s);

	return (word & (REMOTE_UPGRADE | REMOTE_DOWNGRADE)) == REMOTE_UPGRADE && remote_state(word) == REMOTE_HELD &&
	       now >= b->leases[i].mode_at && now < renew_at(b, i);
}

/* Exclusive, and has been held by readers alone for some time, while others wait, or may, who might read as well: whoever
 * upgraded, or wanted to, was killed before the next line, or somebody came in beside. */
static bool unused(struct bridge *b, uint32_t i, uint64_t word, const struct interest *in)
{
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	/* Who comes and goes meanwhile makes looks unsure, and says nothing about those who are not seen. */
	if (in->unsure && !in->writers)
		return false;
	/* A majority would have to be asked again, which may be in vain, for a writer who waits here. */
	if (!(word & REMOTE_EXCLUSIVE) || !in->holders || in->writers || (bridge_is_quorum(b) && in->writer_waits)) {
		l->unused_since = 0;
		return false;
	}
	if (!l->unused_since)
		l->unused_since = now;
	if (remote_turn(word) == REMOTE_TURN_MAX)
		return false;
	/* A majority has no queue, so nobody here knows who waits. */
	if (bridge_is_quorum(b))
		return now - l->unused_since >= UPGRADE_MAX_NS;
	return now - l->unused_since >= LOOK_NS && remote_exhausted(b->s, &b->s->remotes[i], now);
}

/* The same for the opposite.  Whoever writes under it comes first: the wish is of somebody before, or waits for the end. */
static bool downgrade_due(struct bridge *b, uint32_t i, uint64_t word, const struct interest *in)
{
	int64_t now = host_now(b->s);

	if ((!unused(b, i, word, in) && !(word & REMOTE_DOWNGRADE)) || now < b->leases[i].mode_at || now >= renew_at(b, i))
		return false;
	if (word & REMOTE_EXCLUSIVE)
		return in->holders && !in->writers;
	return (word & REMOTE_LOOKED) || interest_nobody_writes(b, i, remote_epoch(word), in);
}

/* First nobody comes in any more who writes, which cannot be taken back but by an upgrade; then whoever was faster is seen,
 * and that nobody was is noted.  Who is stopped behind that look may send it late: then it is refused by its turn. */
static enum next downgrade(const struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	if (remote_turn(word) == REMOTE_TURN_MAX && (word & REMOTE_EXCLUSIVE))
		return move(b, i, word, word & ~REMOTE_DOWNGRADE);
	if (word & REMOTE_EXCLUSIVE)
		return move(b, i, word, ((word & ~REMOTE_EXCLUSIVE) | REMOTE_DOWNGRADE) +
						(UINT64_C(1) << REMOTE_TURN_SHIFT));
	if (!(word & REMOTE_LOOKED))
		return move(b, i, word, word | REMOTE_LOOKED);
	l->mode_at = now + MODE_AGAIN_NS;
	/* Before it is sent: from then on the token may be there for another ttl. */
	remote_note_asked(b->s, &b->s->remotes[i]);
	lease_ask(b, l, &asks[(*n)++], BRIDGE_DOWNGRADE, word);
	return NEXT_ASK;
}

/* Renew when a third of the time is over, or soon and others are renewed now, or when told that something changed there. */
static enum next renew(struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	struct shm_remote *r = &b->s->remotes[i];
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);
	bool due;

	/* That counts until it is answered, whatever comes before. */
	if (l->hinted) {
		l->renew_at = min64(renew_at(b, i), now);
		l->unseen = 0;
	}
	due = now >= renew_at(b, i) || b->renew_until >= l->renew_at;
	if (now < l->next_try || (!due && (!fence_low(fence_left(r)) || bridge_is_quorum(b))))
		return wait_until(l, min64(now + LOOK_NS, now < l->next_try ? l->next_try : l->renew_at));
	ask_raise(b, i, word, asks, n);
	/* Before it is sent: from then on the token may be there for another ttl. */
	remote_note_asked(b->s, &b->s->remotes[i]);
	lease_ask(b, l, &asks[*n], BRIDGE_RENEW, word);
	/* Nobody has sent a downgrade yet, and somebody may write.  Servers that are told of the writer again are told the turn
	 * in which it was one, or they would refuse the downgrade that begins this one. */
	if (remote_unlooked(word)) {
		asks[*n].exclusive = true;
		asks[*n].wish.turn--;
	}
	asks[*n].wish.stride = fence_low(fence_left(r)) ? STRIDE_MORE : 0;
	asks[*n].plain = asks[*n].exclusive && !(word & REMOTE_DOWNGRADE) && asks[*n].wish.stride == 0 &&
			 load_relaxed(&r->demand) == 0 && l->unseen > 0;
	(*n)++;
	return NEXT_ASK;
}

/* Is it to be given back, as soon as nobody holds under it? */
static bool must_close(const struct bridge *b, const struct shm_remote *r, uint64_t word, struct lease *l,
		       const struct interest *in)
{
	int64_t now = host_now(b->s), linger = LOCKSHM_MS((int64_t)b->s->redis.linger_ms);

	if (in->wants && in->exclusive && !(word & REMOTE_EXCLUSIVE))
		return !in->holders;
	if (in->elsewhere && !in->wants)
		return !in->holders && !in->unsure;
	if (in->live || in->unsure) {
		l->idle_since = 0;
		/* Where nobody comes in any more who is not in.  Whoever holds and was not seen holds on when it is closed. */
		return !in->holders && (remote_exhausted(b->s, r, now) || (bridge_is_quorum(b) && fence_left(r) == 0));
	}
	if (!l->idle_since)
		l->idle_since = now;
	return b->ending || load_relaxed(&r->demand) != 0 || now - l->idle_since >= linger;
}

/* No more holds under it; then whoever was faster is seen. */
static enum next lease_close(struct bridge *b, uint32_t i, uint64_t word)
{
	if (!cas_from(&b->s->remotes[i].word, word, remote_with_state(word, REMOTE_CLOSING)))
		return NEXT_AGAIN;
	/* The word before the look at the requests.  Pairs with the fences in enter() and forget_lingering(). */
	fence_after_rmw();
	return NEXT_AGAIN;
}

static void use_turn(struct lease *l, uint64_t word)
{
	if (l->turn == remote_full_turn(word))
		return;
	l->turn = remote_full_turn(word);
	l->unused_since = l->upgrade_since = l->take_back_at = 0;
}

/* Whoever asks for an upgrade takes that back himself in time.  The dead do not, nor who is stopped. */
static bool nobody_asks(const struct bridge *b, struct lease *l, uint64_t word)
{
	int64_t now = host_now(b->s);

	if ((word & (REMOTE_UPGRADE | REMOTE_EXCLUSIVE | REMOTE_DOWNGRADE)) != REMOTE_UPGRADE) {
		l->upgrade_since = 0;
		return false;
	}
	if (!l->upgrade_since)
		l->upgrade_since = now;
	return now - l->upgrade_since >= UPGRADE_MAX_NS;
}

static enum next at_held(struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	struct shm_remote *r = &b->s->remotes[i];
	struct lease *l = &b->leases[i];
	struct interest in;

	if (!remote_holds(b->s, i, word))
		return NEXT_AGAIN;
	if (remote_state(word) == REMOTE_CLOSING || (word & REMOTE_DOWNGRADE)) {
		/* The word before the look at the requests, also where another bridge, or an earlier round, wrote it.
		 * Pairs with the fences in enter(), forget_lingering() and lease_is_exclusive(). */
		fence_full();
	}
	in = interest_look(b, i, remote_epoch(word));
	if (remote_state(word) == REMOTE_HELD && must_close(b, r, word, l, &in))
		return lease_close(b, i, word);
	if (remote_state(word) == REMOTE_CLOSING && interest_nobody_holds(b, i, remote_epoch(word), &in))
		return move(b, i, word, remote_with_state(word, REMOTE_RELEASING));
	/* Nobody can tell any more when it is over: it ends with its time. */
	if (in.damaged)
		return wait_until(l, min64(host_now(b->s) + LOOK_NS, (int64_t)load_acquire(&r->valid_until)));
	use_turn(l, word);
	if (nobody_asks(b, l, word))
		return move(b, i, word, remote_taken_back(word));
	if (upgrade_due(b, i, word))
		return upgrade(b, i, word, asks, n);
	if (downgrade_due(b, i, word, &in))
		return downgrade(b, i, word, asks, n);
	return renew(b, i, word, asks, n);
}

/* Until a look finds nobody left: the queue may be too busy to be seen whole, a hold may change its ticket or its generation
 * while it is ended, memory may be short.  Who is behind the place where a queue is torn cannot be ended, but is told. */
static enum next at_lost(struct bridge *b, uint32_t i, uint64_t word)
{
	struct interest in;

	end_holds(b, i, remote_epoch(word));
	/* The word before the look at the requests, whoever wrote it.  Pairs with the fence in enter(). */
	fence_full();
	in = interest_look(b, i, remote_epoch(word));
	if (in.damaged ? in.holders : !interest_nobody_holds(b, i, remote_epoch(word), &in))
		return wait_until(&b->leases[i], host_now(b->s) + END_AGAIN_NS);
	return move(b, i, word, remote_with_state(word, REMOTE_RELEASING));
}

static enum next at_releasing(struct bridge *b, uint32_t i, uint64_t word, struct bridge_ask *asks, size_t *n)
{
	struct shm_remote *r = &b->s->remotes[i];
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s), asked = (int64_t)load_acquire(&r->asked);

	/* Out of reach for longer than the token can be there. */
	if (l->backoff_ns && now - asked > LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) + LOCKSHM_SECONDS(1))
		return move(b, i, word, remote_make(remote_epoch(word), 0, REMOTE_NONE));
	if (now < l->next_try && !l->rung)
		return wait_until(l, l->next_try);
	*n += lease_ask_back(b, l, asks + *n, word, word & REMOTE_QUEUED ? "xs" : NULL);
	return NEXT_ASK;
}

/*
 * Nothing can be asked about it.  Whoever waits was told, and the record is free for other keys.  A lease that was taken under
 * names of another kind, before the server became one of a cluster, ends with its time.
 */
static enum next nameless(struct bridge *b, uint32_t i, uint64_t word)
{
	struct lease *l = &b->leases[i];

	switch (remote_state(word)) {
	case REMOTE_ACQUIRING:
	case REMOTE_RELEASING:
		return move(b, i, word, remote_make(remote_epoch(word), 0, REMOTE_NONE));
	case REMOTE_HELD:
	case REMOTE_CLOSING:
		return remote_holds(b->s, i, word) ? wait_until(l, host_now(b->s) + LOOK_NS) : NEXT_AGAIN;
	case REMOTE_LOST:
		return at_lost(b, i, word);
	default:
		l->active = false;
		return NEXT_WAIT;
	}
}

static enum next step(struct bridge *b, uint32_t i, struct bridge_ask *asks, size_t *n)
{
	uint64_t word = load_acquire(&b->s->remotes[i].word);
	enum naming named = remote_state(word) == REMOTE_CLAIM ? BEING_MADE : name(b, i);

	if (named == BEING_MADE) {
		b->leases[i].active = false;
		return NEXT_WAIT;
	}
	if (named == NAMELESS)
		return nameless(b, i, word);
	use_epoch(b, i, remote_epoch(word));
	switch (remote_state(word)) {
	case REMOTE_NONE:
		return at_none(b, i, word);
	case REMOTE_ACQUIRING:
		return at_acquiring(b, i, word, asks, n);
	case REMOTE_HELD:
	case REMOTE_CLOSING:
		return at_held(b, i, word, asks, n);
	case REMOTE_LOST:
		return at_lost(b, i, word);
	case REMOTE_RELEASING:
		return at_releasing(b, i, word, asks, n);
	default:
		/* Damaged: as if it had never been. */
		return move(b, i, word, remote_make(remote_epoch(word) + 1, 0, REMOTE_NONE));
	}
}

size_t lease_decide(struct bridge *b, uint32_t i, struct bridge_ask *asks)
{
	struct lease *l = &b->leases[i];
	enum next next = NEXT_AGAIN;
	size_t n = 0;
	int k;

	for (k = 0; next == NEXT_AGAIN && k < TRANSITIONS_MAX; k++)
		next = step(b, i, asks, &n);
	if (next == NEXT_AGAIN)
		l->due = host_now(b->s);
	if (next != NEXT_AGAIN)
		l->rung = l->hinted = false;
	return n;
}
