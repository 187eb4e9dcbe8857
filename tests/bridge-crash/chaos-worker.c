/* SPDX-License-Identifier: MIT */
/* chaos-worker.c - a process that acquires global keys, and records all results; see bridge-crash/chaos.c */
#define _GNU_SOURCE
#include "chaos.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS LOCKSHM_SECONDS(20)
#define STEP_US 1500 /* between two looks at a hold */
#define CHANGES 6 /* one of so many looks changes the mode, or checks the hold */
#define HURRY 200 /* acquires of the hot key in a row */

const char *const chaos_keys[KEYS] = { "written", "read", "hot" };

static struct history_writer me;
static uint32_t process;
static uint64_t state;

static unsigned chance(unsigned below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % below;
}

static void nap_us(unsigned us)
{
	struct timespec ts = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&ts, NULL);
}

static struct history_record *on(const struct history_record *acquire, enum history_op op)
{
	struct history_record *r = history_new(&me);

	r->realm = acquire->realm;
	r->key = acquire->key;
	r->subject = history_number(&history, acquire);
	history_enter(r, op);
	return r;
}

/* False = it is not good any more. */
static bool still_good(const lockshm_hold_t *hold, const struct history_record *acquire)
{
	struct history_record *r = on(acquire, HISTORY_CHECK);
	int64_t left = 0;
	int code = lockshm_check(hold, &left);

	r->ns = left;
	history_leave(r, history_now(), code);
	return code == LOCKSHM_OK || code == LOCKSHM_LATE;
}

/* Most holds are short.  Long ones see leases end, and are lost. */
static unsigned steps(void)
{
	unsigned dice = chance(100);

	return dice < 80 ? 1 + chance(3) : dice < 97 ? 1 + chance(15) : 100 + chance(700);
}

static void change_mode(lockshm_hold_t *hold, const struct history_record *acquire, enum history_op op)
{
	struct history_record *r = on(acquire, op);
	int code = op == HISTORY_UPGRADE ? lockshm_upgrade(hold) : lockshm_downgrade(hold);

	r->token = lockshm_token(hold);
	history_leave(r, history_now(), code);
}

/* One of them, or so many in a row that the leader is always late. */
static void change_modes(lockshm_hold_t *hold, const struct history_record *acquire)
{
	unsigned n = chance(2) ? 1 : 2 + chance(20);

	while (n-- > 0) {
		change_mode(hold, acquire, chance(2) ? HISTORY_UPGRADE : HISTORY_DOWNGRADE);
		nap_us(chance(2) ? 0 : chance(500));
	}
}

static bool must_hold_on(unsigned host)
{
	return __atomic_load_n(hold_on, __ATOMIC_RELAXED) >> host & 1;
}

static void hold_it(lockshm_hold_t *hold, const struct history_record *acquire)
{
	unsigned n = acquire->key == KEY_HOT ? 0 : steps();
	struct history_record *r;

	if (acquire->key == KEY_WRITTEN)
		__atomic_store_n(inside, process, __ATOMIC_RELAXED);
	while (n > 0 && still_good(hold, acquire)) {
		if (chance(CHANGES) == 0)
			change_modes(hold, acquire);
		nap_us(STEP_US);
		n -= !must_hold_on(acquire->realm);
	}
	r = on(acquire, HISTORY_RELEASE);
	history_leave(r, history_now(), lockshm_release(hold, 0));
}

/* All that take the first key, half of those that take the second. */
static unsigned robustness(struct history_record *r, unsigned key)
{
	bool ack = chance(8) == 0;

	if (key == KEY_HOT || (key == KEY_READ && chance(2)))
		return 0;
	r->flags |= HISTORY_ROBUST | (ack ? HISTORY_ACK_AT_ONCE : 0);
	return LOCKSHM_ROBUST;
}

static void one_acquire(lockshm_t *s, unsigned host, unsigned key)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct history_record *r = history_new(&me);
	int code;

	r->realm = (uint16_t)host;
	r->key = key;
	r->mode = key != KEY_WRITTEN && chance(key == KEY_HOT ? 2 : 5) ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
	q.key = chaos_keys[key];
	q.key_len = strlen(q.key);
	q.mode = r->mode;
	q.flags = LOCKSHM_GLOBAL | robustness(r, key);
	q.ttl_ns = LOCKSHM_FOREVER;
	q.timeout_ns = WAIT_NS;
	if (chance(10) == 0) {
		r->flags |= HISTORY_TRY;
		q.timeout_ns = 0;
	}
	r->ns = LOCKSHM_FOREVER;
	r->deadline = history_now() + WAIT_NS;
	history_enter(r, HISTORY_ACQUIRE);
	code = lockshm_acquire(s, &q, &hold);
	if (r->flags & HISTORY_ACK_AT_ONCE)
		(void)acknowledge_told(code, &hold);
	r->token = lockshm_token(&hold);
	history_leave(r, history_now(), code);
	if (code >= 0)
		hold_it(&hold, r);
	else
		nap_us(2000);
}

static bool running(void)
{
	return !__atomic_load_n(&history.header->stop, __ATOMIC_ACQUIRE) && !history_is_full(&history);
}

void worker_main(unsigned host, uint32_t number, unsigned seed)
{
	lockshm_t *s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	process = number;
	state = seed * UINT64_C(2654435761) + process;
	history_track_begin(&me, &history, process, 0, HISTORY_NO_TRACK);
	if (lockshm_open(&s, hosts[host].name, 0, NULL) != 0)
		_exit(3);
	while (running()) {
		unsigned n = chance(20) ? 0 : HURRY;

		while (n-- > 0 && running())
			one_acquire(s, host, KEY_HOT);
		one_acquire(s, host, chance(4) ? KEY_WRITTEN : KEY_READ);
		nap_us(chance(3) ? chance(3000) : 0);
	}
	lockshm_close(s);
	_exit(0);
}
