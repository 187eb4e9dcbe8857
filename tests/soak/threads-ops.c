/* SPDX-License-Identifier: MIT */
/*
 * threads-ops.c - what a worker of threads-as-processes does
 */
#include "threads-as-processes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/acknowledge.h"

struct guarded guarded[KEYS];
_Atomic uint64_t updates[KEYS];
struct mailbox mailbox = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct guarded pair[2], many_sum;

uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

struct lockshm_request request_for(const char *key, int mode)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;

	q.key = key;
	q.key_len = strlen(key);
	q.mode = mode;
	q.ttl_ns = LOCKSHM_FOREVER;
	q.timeout_ns = PATIENCE;
	return q;
}

static void key_name(char out[16], const char *group, unsigned i)
{
	snprintf(out, 16, "%s%u", group, i);
}

/* ---------------------------------------------------------------- strict keys with plain data behind them */

static void write_guarded(struct guarded *g)
{
	if (g->value != g->twin)
		fail("a half-made update is seen inside an exclusive hold");
	g->value++;
	g->twin++;
}

static void read_guarded(const struct guarded *g)
{
	if (g->value != g->twin)
		fail("a half-made update is seen inside a shared hold");
}

static void count_update(unsigned i)
{
	write_guarded(&guarded[i]);
	atomic_fetch_add_explicit(&updates[i], 1, memory_order_relaxed);
}

/* Now and then long enough for others to wait, to run out of time and to be cancelled. */
static void hold_on(struct worker *w)
{
	if (next_random(w) % 32 == 0)
		nap(300000);
}

static void hold_exclusive(struct worker *w)
{
	unsigned i = (unsigned)(next_random(w) % KEYS);
	lockshm_hold_t hold;
	char key[16];
	struct lockshm_request q;

	key_name(key, "strict", i);
	q = request_for(key, LOCKSHM_EXCLUSIVE);
	EXPECT("exclusive", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK);
	count_update(i);
	hold_on(w);
	if (next_random(w) % 4 == 0) {
		EXPECT("downgrade", lockshm_downgrade(&hold), LOCKSHM_OK);
		read_guarded(&guarded[i]);
		did(DOWNGRADED);
	}
	EXPECT("release", lockshm_release(&hold, 0), LOCKSHM_OK);
	did(EXCLUSIVE);
}

static void hold_shared(struct worker *w)
{
	unsigned i = (unsigned)(next_random(w) % KEYS);
	lockshm_hold_t hold;
	char key[16];
	struct lockshm_request q;
	int status;

	key_name(key, "strict", i);
	q = request_for(key, LOCKSHM_SHARED);
	EXPECT("shared", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK);
	read_guarded(&guarded[i]);
	if (next_random(w) % 4 == 0) {
		status = lockshm_upgrade(&hold);
		EXPECT("upgrade", status, LOCKSHM_OK, LOCKSHM_BUSY);
		if (status == LOCKSHM_OK) {
			count_update(i);
			did(UPGRADED);
		}
	}
	EXPECT("release", lockshm_release(&hold, 0), LOCKSHM_OK);
	did(SHARED);
}

/* Impatient: once, or for a fraction of a millisecond. */
static void hold_if_quick(struct worker *w)
{
	unsigned i = (unsigned)(next_random(w) % KEYS);
	lockshm_hold_t hold;
	char key[16];
	struct lockshm_request q;
	int status;

	key_name(key, "strict", i);
	q = request_for(key, LOCKSHM_EXCLUSIVE);
	q.timeout_ns = next_random(w) % 2 ? 0 : 1 + (int64_t)(next_random(w) % 100000);
	status = lockshm_acquire(locks, &q, &hold);
	EXPECT("impatient", status, LOCKSHM_OK, LOCKSHM_BUSY, LOCKSHM_TIMEOUT);
	did(status == LOCKSHM_TIMEOUT ? TIMED_OUT : TRIED);
	if (status != LOCKSHM_OK)
		return;
	count_update(i);
	EXPECT("release", lockshm_release(&hold, 0), LOCKSHM_OK);
}

/*
 * A thread that is kept from running in the middle of such a release for longer than the cooldown is expired by it: the
 * release is good, but the next grant may report it.
 */
static void hold_and_cool(struct worker *w)
{
	static struct guarded cooled;
	struct lockshm_request q = request_for("cool", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;

	q.flags = LOCKSHM_ROBUST;
	EXPECT("cool", acknowledge_told(lockshm_acquire(locks, &q, &hold), &hold), LOCKSHM_OK, LOCKSHM_TOOK_OVER_EXPIRED);
	write_guarded(&cooled);
	EXPECT("cool down", lockshm_release(&hold, (int64_t)(next_random(w) % 200000) + 1), LOCKSHM_OK);
	did(COOLED);
}

/* A wait that another thread may cancel. */
static void hold_cancellable(struct worker *w)
{
	unsigned i = (unsigned)(next_random(w) % KEYS);
	lockshm_hold_t hold;
	char key[16];
	struct lockshm_request q;
	int status;

	key_name(key, "strict", i);
	q = request_for(key, LOCKSHM_EXCLUSIVE);
	q.canceller = &w->canceller;
	pthread_mutex_lock(&w->lock);
	w->cancellable = 1;
	pthread_mutex_unlock(&w->lock);
	status = lockshm_acquire(locks, &q, &hold);
	EXPECT("cancellable", status, LOCKSHM_OK, LOCKSHM_CANCELLED);
	if (status == LOCKSHM_OK) {
		count_update(i);
		EXPECT("release", lockshm_release(&hold, 0), LOCKSHM_OK);
	} else {
		did(CANCELLED);
	}
	pthread_mutex_lock(&w->lock);
	w->cancellable = 0;
	w->canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	pthread_mutex_unlock(&w->lock);
}

static void hold_many(struct worker *w)
{
	struct lockshm_key keys[3] = { LOCKSHM_MANY_KEY("many0", 0), LOCKSHM_MANY_KEY("many1", LOCKSHM_SHARED),
				       LOCKSHM_MANY_KEY("many2", 0) };
	struct lockshm_request q = request_for("", LOCKSHM_EXCLUSIVE);
	unsigned n = 1 + (unsigned)(next_random(w) % 3);
	lockshm_hold_t holds[3];

	EXPECT("many", lockshm_acquire_many(locks, &q, keys, n, holds), LOCKSHM_OK);
	write_guarded(&many_sum); /* all of them hold many0 */
	EXPECT("release many", lockshm_release_many(holds, n), LOCKSHM_OK);
	did(MANY);
}

/* Two keys in either order. */
static void hold_two(struct worker *w)
{
	unsigned first = (unsigned)(next_random(w) % 2);
	struct lockshm_request q;
	lockshm_hold_t a, b;
	char key[16];
	int status;

	key_name(key, "pair", first);
	q = request_for(key, LOCKSHM_EXCLUSIVE);
	EXPECT("pair", lockshm_acquire(locks, &q, &a), LOCKSHM_OK);
	write_guarded(&pair[first]);
	if (next_random(w) % 4 == 0)
		nap(20000); /* long enough for a thread with the other order */
	key_name(key, "pair", !first);
	status = lockshm_acquire(locks, &q, &b);
	EXPECT("second of a pair", status, LOCKSHM_OK, LOCKSHM_DEADLOCK);
	if (status == LOCKSHM_OK) {
		write_guarded(&pair[!first]);
		EXPECT("release", lockshm_release(&b, 0), LOCKSHM_OK);
	} else {
		did(DEADLOCKED);
	}
	EXPECT("release", lockshm_release(&a, 0), LOCKSHM_OK);
}

/* One worker leaves its hold to the process, the next one takes it over and releases it. */
static void pass_on(struct worker *w)
{
	static struct guarded moved;
	struct lockshm_request q = request_for("moved", LOCKSHM_EXCLUSIVE);

	(void)w;
	pthread_mutex_lock(&mailbox.lock);
	if (mailbox.full) {
		EXPECT("move to me", lockshm_move(&mailbox.hold, LOCKSHM_TO_CALLER), LOCKSHM_OK);
		write_guarded(&moved);
		EXPECT("release moved", lockshm_release(&mailbox.hold, 0), LOCKSHM_OK);
		did(MOVED);
	} else {
		EXPECT("to be moved", lockshm_acquire(locks, &q, &mailbox.hold), LOCKSHM_OK);
		write_guarded(&moved);
		EXPECT("move to all", lockshm_move(&mailbox.hold, LOCKSHM_TO_PROCESS), LOCKSHM_OK);
	}
	mailbox.full = !mailbox.full;
	pthread_mutex_unlock(&mailbox.lock);
}

/* ---------------------------------------------------------------- leases, and threads that die */

static void hold_lease(struct worker *w)
{
	struct lockshm_request q = request_for("lease", next_random(w) % 4 ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED);
	lockshm_hold_t hold;
	int status;

	q.ttl_ns = LOCKSHM_MS(1);
	q.flags = LOCKSHM_ROBUST;
	q.timeout_ns = PATIENCE;
	EXPECT("lease", acknowledge_told(lockshm_acquire(locks, &q, &hold), &hold), LOCKSHM_OK, LOCKSHM_TOOK_OVER_EXPIRED);
	if (next_random(w) % 8 == 0)
		nap(2000000);
	if (next_random(w) % 2) {
		status = lockshm_renew(&hold, LOCKSHM_MS(1));
		EXPECT("renew", status, LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST);
		did(RENEWED);
	}
	EXPECT("check", lockshm_check(&hold, NULL), LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST);
	status = lockshm_release(&hold, 0);
	EXPECT("release lease", status, LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST);
	if (status == LOCKSHM_LOST)
		did(LEASE_LOST);
}

/* The service thread renews while the owner renews and releases. */
static void hold_renewed(struct worker *w)
{
	struct lockshm_request q = request_for("renewed", LOCKSHM_SHARED);
	lockshm_hold_t hold;

	q.ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN;
	/* Readers leave no mark. */
	q.flags = LOCKSHM_AUTO_RENEW | LOCKSHM_ROBUST;
	EXPECT("auto-renewed", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK);
	if (next_random(w) % 2)
		nap(3000000);
	EXPECT("renew", lockshm_renew(&hold, LOCKSHM_MS(2)), LOCKSHM_OK, LOCKSHM_LATE,
	       LOCKSHM_LOST);
	EXPECT("release", lockshm_release(&hold, 0), LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST);
	did(AUTO_RENEWED);
}

static _Atomic uint64_t mortal_value;

/* Takes a lock and ends without giving it back. */
static void *die_holding(void *arg)
{
	struct lockshm_request q = request_for("mortal", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;

	(void)arg;
	q.tag = "mortal";
	q.flags = LOCKSHM_ROBUST;
	EXPECT("mortal", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK, LOCKSHM_OWNER_DIED);
	atomic_fetch_add_explicit(&mortal_value, 1, memory_order_relaxed);
	did(DIED);
	return NULL;
}

static void outlive(struct worker *w)
{
	struct lockshm_request q = request_for("mortal", next_random(w) % 2 ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;
	pthread_t thread;
	int status;

	if (pthread_create(&thread, NULL, die_holding, NULL) != 0)
		fail("pthread_create");
	q.flags = LOCKSHM_ROBUST;
	q.report = &report;
	status = lockshm_acquire(locks, &q, &hold);
	EXPECT("survivor", status, LOCKSHM_OK, LOCKSHM_OWNER_DIED);
	if (status == LOCKSHM_OWNER_DIED) {
		if (report.damage.pid && report.damage.pid != getpid())
			fail("OWNER_DIED names pid %d", (int)report.damage.pid);
		EXPECT("acknowledge", lockshm_acknowledge(&hold), LOCKSHM_OK);
		did(TAKEN_OVER);
	}
	EXPECT("release", lockshm_release(&hold, 0), LOCKSHM_OK);
	pthread_join(thread, NULL);
}

/* One object for some holds in turn: it keeps its record, and a reader joins the readers. */
static void hold_by_object(struct worker *w)
{
	unsigned i = (unsigned)(next_random(w) % KEYS), times;
	int mode = next_random(w) % 4 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
	lockshm_lock_t object;
	struct lockshm_request q;
	char key[16];

	key_name(key, "strict", i);
	q = request_for(key, mode);
	EXPECT("object", lockshm_lock_init(&object, locks, &q), LOCKSHM_OK);
	for (times = 0; times < 4; times++) {
		EXPECT("lock", lockshm_lock(&object, locks), LOCKSHM_OK);
		if (mode == LOCKSHM_EXCLUSIVE)
			count_update(i);
		else
			read_guarded(&guarded[i]);
		hold_on(w);
		EXPECT("unlock", lockshm_unlock(&object), LOCKSHM_OK);
	}
	did(OBJECTS);
}

operation_fn *const operations[] = {
	hold_exclusive, hold_shared, hold_if_quick, hold_and_cool, hold_cancellable, hold_many,
	hold_two,	pass_on,     hold_lease,    hold_renewed,  outlive,	      hold_by_object,
};
const unsigned n_operations = sizeof(operations) / sizeof(operations[0]);
