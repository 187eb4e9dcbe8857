/* SPDX-License-Identifier: MIT */
/*
 * serve.c - being the bridge: the lock that elects it, and its loop
 *
 *   look at the bell | renew the role | collect what is due: rung for, hinted at, by time | decide, ask, take answers
 *   | see to the hints | sleep on the bell
 *
 * The loop sleeps on a futex, so that processes wake it directly.  A second thread, the ear, waits for what the servers
 * say unasked and rings the same bell.  Nothing here must be finished: see hostlease/host-lease.h for what a successor finds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bridge/demand.h"
#include "bridge/fork.h"
#include "bridge/lease.h"
#include "hold/acquire.h"
#include "hostlease/leader.h"
#include "redis/tls.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "lock/participant.h"
#include "sys/thread.h"
#include "lock/wait.h"

#define SCAN_NS LOCKSHM_MS(500) /* for leases whose bell was lost with a killed process */
#define NET_AGAIN_NS LOCKSHM_MS(200)
#define END_NS LOCKSHM_MS(250)
#define IO_MAX_NS LOCKSHM_MS(250)
#define ROLE_TTL_MAX_NS LOCKSHM_SECONDS(5)
#define ROLE_FIRST_MIN_NS LOCKSHM_MS(20)
#define ROUNDS_MAX 8 /* before the bell is looked at again */
#define COMMANDS_MAX 256
#define RENEW_WITH 24 /* an eighth of the time after which leases are renewed */
#define HINTS_MAX 1000 /* in one pass */

struct listener {
	struct lockshm *s;
	pthread_t thread;
	int epoll, stop;
	bool runs;
};

struct serve {
	struct bridge b;
	struct lockshm *s;
	lockshm_canceller_t *canceller;
	lockshm_hold_t role;
	int64_t role_ttl, role_renewed;
	int64_t role_first; /* what the role is asked for with */
	int64_t scan_at, net_at;
	int64_t net_tried; /* when the settings were last read, this process' time */
	struct listener listener;
	struct redis_command cmds[COMMANDS_MAX], late[COMMANDS_MAX * COMMANDS_PER_LEASE];
	uint32_t asked_for[COMMANDS_MAX];
	size_t n;
};

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---------------------------------------------------------------- ear */

static void *listener_main(void *arg)
{
	struct listener *listener = arg;
	struct epoll_event event;
	int n;

	for (;;) {
		n = epoll_wait(listener->epoll, &event, 1, -1);
		if ((n < 0 && errno != EINTR) || (n > 0 && event.data.fd == listener->stop))
			return NULL;
		(void)fetch_add32(&listener->s->bridge->doorbell, 1);
		futex_wake(&listener->s->bridge->doorbell, INT_MAX); /* see host_lease_ring() */
	}
}

/* For the child of a fork, which has no use for them; before they are closed here, so that it closes no others. */
static void listener_ring(const struct listener *listener, int epoll, int stop)
{
	__atomic_store_n(&listener->s->listener[0], epoll + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&listener->s->listener[1], stop + 1, __ATOMIC_SEQ_CST);
}

static void listener_close(struct listener *listener)
{
	listener_ring(listener, -1, -1);
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->stop >= 0)
		close(listener->stop);
}

/* Without it hints are seen when the loop wakes for something else. */
static void listener_start(struct listener *listener, struct lockshm *s)
{
	struct epoll_event event = { .events = EPOLLIN };

	listener->s = s;
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	listener->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	listener_ring(listener, listener->epoll, listener->stop);
	event.data.fd = listener->stop;
	listener->runs = listener->epoll >= 0 && listener->stop >= 0 &&
		    epoll_ctl(listener->epoll, EPOLL_CTL_ADD, listener->stop, &event) == 0 &&
		    thread_start(&listener->thread, listener_main, listener) == 0;
	if (!listener->runs)
		listener_close(listener);
}

static void listener_stop(struct listener *listener)
{
	uint64_t one = 1;

	if (!listener->runs)
		return;
	if (write(listener->stop, &one, sizeof(one)) != sizeof(one))
		pthread_cancel(listener->thread);
	pthread_join(listener->thread, NULL);
	listener_close(listener);
}

/* ---------------------------------------------------------------- what is due */

static void activate(struct serve *v, uint32_t i)
{
	lease_set_active(&v->b, i, true);
	v->b.leases[i].rung = true;
}

static void take_pending(struct serve *v)
{
	uint32_t w;

	for (w = 0; w * 64 < v->s->n_host_leases; w++) {
		uint64_t bits = load_relaxed(&v->s->bridge->pending[w]) ? exchange_zero(&v->s->bridge->pending[w]) : 0;

		for (; bits; bits &= bits - 1)
			if (w * 64 + (uint32_t)__builtin_ctzll(bits) < v->s->n_host_leases)
				activate(v, w * 64 + (uint32_t)__builtin_ctzll(bits));
	}
}

/* At the beginning also for what nobody has asked for yet: the one before may have been killed with the bits that it
 * took out.  Whoever waits would ring again only after half a second. */
static void scan(struct serve *v, int64_t now)
{
	bool first = v->scan_at == 0 && !v->b.ending;
	uint32_t i;

	if (now < v->scan_at)
		return;
	v->scan_at = now + SCAN_NS;
	for (i = 0; i < v->s->n_host_leases; i++) {
		enum host_lease_state state = host_lease_state(load_acquire(&v->s->host_leases[i].word));

		if (state == HOST_LEASE_NONE ? first && demand_possible(v->s, i) : state != HOST_LEASE_CLAIM)
			lease_set_active(&v->b, i, true);
	}
}

static bool is_key(const struct lease *l, size_t k, const char *key, size_t len)
{
	return l->keys.len[k] == len && memcmp(l->keys.key[k], key, len) == 0;
}

static bool names(struct serve *v, uint32_t i, const char *key, size_t len)
{
	struct lease *l = &v->b.leases[i];
	uint64_t word;
	size_t k;

	for (k = 0; l->named && k < REDIS_KEYS_WATCHED; k++)
		if (is_key(l, k, key, len))
			return true;
	if (!l->named || !is_key(l, REDIS_KEY_FENCE, key, len))
		return false;
	/* It says so once: if not now, the next renewal looks into it. */
	l->unverified = 0;
	word = load_acquire(&v->s->host_leases[i].word);
	return host_lease_state(word) == HOST_LEASE_HELD && (word & HOST_LEASE_EXCLUSIVE);
}

static bool take_hints(struct serve *v)
{
	enum redis_hint hint;
	const char *key = "";
	size_t len = 0;
	bool any = false;
	uint32_t i;
	int k = 0;

	while (k++ < HINTS_MAX && (hint = redis_client_hint(v->b.net, &key, &len)) != REDIS_HINT_NONE)
		for (i = lease_next_active(&v->b, 0); i < v->s->n_host_leases; i = lease_next_active(&v->b, i + 1)) {
			if (hint != REDIS_HINT_ALL && !names(v, i, key, len))
				continue;
			v->b.leases[i].invalidated = v->b.leases[i].rung = true;
			any = true;
		}
	/* There may be more: leases come first. */
	return any || k > HINTS_MAX;
}

/* ---------------------------------------------------------------- rounds */

static void flush(struct serve *v)
{
	size_t k, late = 0;

	redis_client_run(v->b.net, v->cmds, v->n, v->b.io_ns);
	/* Late is not overtaken: nobody else was the bridge, and a round may take as long. */
	v->b.overtaken = lockshm_check(&v->role, NULL) < 0;
	for (k = 0; k < v->n; k++)
		late += lease_apply_reply(&v->b, v->asked_for[k], &v->cmds[k], v->late + late);
	/* Names and tokens are still those of the asks.  What becomes of it does not matter: it ends by itself. */
	if (late)
		redis_client_run(v->b.net, v->late, late, v->b.io_ns);
	v->n = 0;
}

/* The settings cannot be read, or memory is short: whoever waits is told. */
static void no_net(struct serve *v)
{
	size_t k;

	v->b.overtaken = false;
	for (k = 0; k < v->n; k++) {
		v->cmds[k].code = v->b.net_error.code;
		v->cmds[k].unsent = true;
		v->cmds[k].asked = v->net_tried;
		memcpy(v->cmds[k].why, v->b.net_error.text, sizeof(v->cmds[k].why) - 1);
		(void)lease_apply_reply(&v->b, v->asked_for[k], &v->cmds[k], v->late);
	}
	v->n = 0;
}

static void run(struct serve *v)
{
	if (v->n && v->b.net)
		flush(v);
	else if (v->n)
		no_net(v);
}

/*
 * Once a lease is to be renewed those that would be next are, too: one script renews many, and from then on they are
 * due at the same time.  A majority is asked for one after the other in any case.
 */
static int64_t renew_until(const struct serve *v, int64_t now)
{
	uint32_t i;

	if (bridge_is_quorum(&v->b))
		return now;
	for (i = lease_next_active(&v->b, 0); i < v->s->n_host_leases; i = lease_next_active(&v->b, i + 1))
		if (v->b.leases[i].renew_at && v->b.leases[i].renew_at <= now)
			return now + LOCKSHM_MS((int64_t)v->s->redis.ttl_ms) / RENEW_WITH;
	return now;
}

/* Everything that is due now; returns when something is next. */
static int64_t round_once(struct serve *v, bool *asked)
{
	int64_t now = host_now(v->s), next = INT64_MAX;
	uint32_t i;

	*asked = false;
	if (v->b.net)
		redis_client_begin(v->b.net);
	v->b.renew_until = renew_until(v, now);
	for (i = lease_next_active(&v->b, 0); i < v->s->n_host_leases; i = lease_next_active(&v->b, i + 1)) {
		struct lease *l = &v->b.leases[i];
		size_t got, k;

		if (l->rung || l->invalidated || now >= lease_due(l) || (l->renew_at > now && l->renew_at <= v->b.renew_until)) {
			got = lease_decide(&v->b, i, v->cmds + v->n);
			for (k = 0; k < got; k++)
				v->asked_for[v->n++] = i;
			*asked = *asked || got > 0;
		}
		if (v->n + COMMANDS_PER_LEASE > COMMANDS_MAX)
			run(v);
		if (lease_active(&v->b, i))
			next = min64(next, lease_due(l));
	}
	run(v);
	return next;
}

static bool keep_role(struct serve *v)
{
	int64_t now = clock_precise();

	if (now - v->role_renewed < v->role_ttl / 4)
		return true;
	if (lockshm_renew(&v->role, v->role_ttl, LOCKSHM_RENEW_RESET) < 0)
		return false;
	v->role_renewed = now;
	return true;
}

/* A round may wait for longer than the role lasts, and is not overtaken for that: its successor would be no faster.
 * Lost all the same, the round ends as it does for whoever was stopped. */
static void keep_role_meanwhile(void *v)
{
	(void)keep_role(v);
}

static void make_net(struct serve *v, int64_t now)
{
	if (v->b.net || now < v->net_at)
		return;
	v->net_at = now + NET_AGAIN_NS;
	v->net_tried = redis_now();
	if (redis_client_new(&v->b.net, &v->s->redis, &v->b.net_error) != 0)
		return;
	redis_client_between(v->b.net, keep_role_meanwhile, v);
	__atomic_store_n(&v->s->net, v->b.net, __ATOMIC_RELEASE);
}

/* Everything that can be done now.  Returns when to come again, host time. */
static int64_t work(struct serve *v)
{
	int64_t next = 0, end = host_now(v->s) + v->role_ttl / 4;
	bool asked = true;
	int k;

	make_net(v, host_now(v->s));
	scan(v, host_now(v->s));
	/* Servers that do not answer may make one round so long that the role is due. */
	for (k = 0; k < ROUNDS_MAX && asked && (k == 0 || host_now(v->s) < end); k++) {
		take_pending(v);
		next = round_once(v, &asked);
	}
	if (v->b.net) {
		keep_role_meanwhile(v);
		v->b.tracked = redis_client_arm(v->b.net, v->b.io_ns);
		if (take_hints(v) || asked)
			return 0;
		if (v->listener.runs)
			redis_client_watch(v->b.net, v->listener.epoll);
		if (redis_client_due(v->b.net) != INT64_MAX)
			next = min64(next, redis_client_due(v->b.net) + v->s->boot_offset);
	}
	return min64(next, v->scan_at);
}

/* ---------------------------------------------------------------- the role */

/*
 * Whoever stands by may be stopped, as the bridge was: all that were stopped with it come before one that runs, and
 * each has the role for what it asked for.  So that is little, and the first thing to do with the role is to make it
 * more.  One that runs, and was not fast enough for that, asks for more the next time.
 */
static int64_t role_first(const struct serve *v)
{
	int64_t ns = LOCKSHM_MS((int64_t)v->s->redis.ttl_ms) / 50;

	return min64(ns > ROLE_FIRST_MIN_NS ? ns : ROLE_FIRST_MIN_NS, v->role_ttl);
}

static bool begin_role(struct serve *v)
{
	v->role_renewed = clock_precise();
	if (lockshm_renew(&v->role, v->role_ttl, LOCKSHM_RENEW_RESET) < 0) {
		v->role_first = min64(2 * v->role_first, v->role_ttl);
		return false;
	}
	v->role_first = role_first(v);
	return true;
}

/* Is there nothing any more that has to be renewed or given back? */
static bool all_done(const struct serve *v)
{
	uint32_t i;

	for (i = 0; i < v->s->n_host_leases; i++) {
		enum host_lease_state state = host_lease_state(load_acquire(&v->s->host_leases[i].word));

		if (state != HOST_LEASE_NONE && state != HOST_LEASE_CLAIM)
			return false;
	}
	return true;
}

/*
 * Until cancelled (true), or all is done in a segment that was removed (true), or somebody else has the role, or should
 * have it, because OpenSSL has ended in this process.
 */
static bool serve_loop(struct serve *v)
{
	while (keep_role(v) && !redis_conn_load(v->s->redis.servers)) {
		struct futex_watch watch = { &v->s->bridge->doorbell, load_acquire32(&v->s->bridge->doorbell) };
		int64_t left = work(v) - host_now(v->s);

		if (canceller_used(v->canceller))
			return true;
		/* Nobody can ask any more; those who hold are served until they release. */
		v->b.ending = segment_is_gone(v->s);
		if (v->b.ending && all_done(v))
			return true;
		left = min64(left, v->role_ttl / 4);
		if (left > 0)
			futex_wait_any(&watch, 1, clock_precise() + left);
	}
	return false;
}

/* Give back what nobody here wants, so that other hosts need not wait for its end. */
static void finish(struct serve *v)
{
	int64_t end = clock_precise() + END_NS;
	uint32_t i;
	bool asked = true;

	v->b.ending = true;
	v->scan_at = 0;
	scan(v, host_now(v->s));
	for (i = 0; i < v->s->n_host_leases; i++)
		v->b.leases[i].rung = lease_active(&v->b, i);
	while (asked && clock_precise() < end)
		(void)round_once(v, &asked);
}

static int take_role(struct serve *v, struct lockshm_error *error)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	int err;

	q.key = LEADER_KEY;
	q.key_len = LEADER_KEY_LEN;
	q.flags = LOCKSHM_ACKNOWLEDGE;
	q.ttl_ns = v->role_first;
	q.timeout_ns = LOCKSHM_FOREVER;
	q.tag = "bridge";
	q.canceller = v->canceller;
	err = acquire_local(v->s, &q, &v->role, error);
	return err < 0 ? err : 0;
}

static void forget_all(struct serve *v)
{
	uint32_t i;

	for (i = 0; i < v->s->n_host_leases; i++)
		lease_forget(&v->b.leases[i]);
	memset(v->b.active, 0, sizeof(v->b.active));
	v->scan_at = 0;
	__atomic_store_n(&v->s->net, NULL, __ATOMIC_RELEASE);
	redis_client_free(v->b.net);
	v->b.net = NULL;
	v->net_at = 0;
}

/* As serve_loop(). */
static bool be_bridge(struct serve *v)
{
	bool ended;

	listener_start(&v->listener, v->s);
	ended = serve_loop(v);
	if (ended && canceller_used(v->canceller))
		finish(v);
	listener_stop(&v->listener);
	forget_all(v);
	return ended;
}

static int check(struct lockshm *s, struct lockshm_error *error)
{
	if (!s->n_host_leases)
		return error_set(error, LOCKSHM_INVALID, "a segment without Redis: create it with options.redis or --redis");
	if (s->read_only)
		return error_set(error, LOCKSHM_PERMISSION, "the segment is open read-only");
	if (s->boot_lost)
		return error_set(error, LOCKSHM_SYSTEM, "cannot tell this process' time namespace");
	return bridge_load(s, error);
}

static int serve(struct serve *v, struct lockshm_error *error)
{
	bool ended = false;
	int err = 0;

	while (!ended) {
		err = check(v->s, error);
		if (!err)
			err = take_role(v, error);
		if (err)
			break;
		if (begin_role(v))
			ended = be_bridge(v);
		(void)lockshm_release(&v->role, 0);
	}
	if (err)
		return err;
	return canceller_used(v->canceller) ? error_set(error, LOCKSHM_CANCELLED, "cancelled") :
					      error_set(error, LOCKSHM_NO_SEGMENT, "the segment was removed");
}

LOCKSHM_EXPORT int lockshm_bridge_serve(lockshm_t *segment, lockshm_canceller_t *canceller, struct lockshm_error *error)
{
	struct serve *v;
	int err;

	if (!segment_valid(segment) || !canceller)
		return error_set(error, LOCKSHM_INVALID, "no segment or no canceller");
	if (!canceller_is_idle(canceller))
		return error_set(error, LOCKSHM_INVALID,
				 "canceller is in use by a wait, or written over: start from LOCKSHM_CANCELLER_INIT");
	error_set(error, 0, "%s", "");
	err = check(segment, error);
	if (err)
		return err;
	v = calloc(1, sizeof(*v));
	if (!v)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the bridge");
	v->s = v->b.s = segment;
	v->canceller = canceller;
	memcpy(v->b.host, segment->redis.host, REDIS_HOST_BYTES);
	/* So that a successor has most of the time that the leases have left when this one is stopped. */
	v->role_ttl = min64(LOCKSHM_MS((int64_t)segment->redis.ttl_ms) / 4, ROLE_TTL_MAX_NS);
	v->role_first = role_first(v);
	v->b.io_ns = min64(LOCKSHM_MS((int64_t)segment->redis.ttl_ms) / 10, IO_MAX_NS);
	v->b.leases = calloc(segment->n_host_leases, sizeof(*v->b.leases));
	err = v->b.leases && snapshot_init(&v->b.snap) ? serve(v, error) :
							 error_set(error, LOCKSHM_NO_MEMORY, "no memory for the bridge");
	snapshot_free(&v->b.snap);
	free(v->b.leases);
	free(v);
	redis_tls_thread_ends();
	return err;
}
