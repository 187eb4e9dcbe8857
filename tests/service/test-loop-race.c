/* SPDX-License-Identifier: MIT */
/*
 * test-loop-race.c - several loops in several threads of several processes, on few keys, with everything at once: each
 * wait that was pending has exactly one end
 *
 *   LOOP_RACE=N SEED=N test-loop-race       N times as many steps (1), another seed (1)
 *
 * In each process two threads have a loop and one blocks.  A loop's thread requests, polls, collects, cancels, before the
 * grant, at it and after it, closes its loop with waits under way, opens another one, forks.  Holds are released by its
 * own thread or by any other one of the process.  Ends are counted; what a cancelled wait pointed to must stay as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/asan.h"
#include "support/fixture.h"
#include "support/loops.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

enum {
	PROCESSES = 3,
	RACERS = 2, /* threads with a loop, in each process */
	SLOTS = 5,
	KEYS = 3,
	MOST = 2, /* keys of one request */
	MAIL = 4,
	STEPS = 20000,
	UNTOUCHED = 0x5a,
};

enum { FREE, WAITING, HELD, LENT, ENDED }; /* ENDED: by a cancel or close, its memory is UNTOUCHED */

struct slot {
	int state; /* atomic: a LENT one becomes FREE in another thread */
	size_t n;
	unsigned keys[MOST];
	int mode;
	bool strict;
	lockshm_hold_t holds[MOST];
	struct lockshm_report report;
	bool has_report;
	pthread_mutex_t cancel_lock;
	lockshm_canceller_t canceller;
};

struct racer {
	struct slot slots[SLOTS];
	lockshm_loop_t *loop;
	uint64_t random;
};

enum { AT_ONCE, FAILED, PENDING, GRANTED, TIMEOUTS, CANCELLED, CANCEL_0, CANCEL_1, CLOSED, FORKS, BLOCKED, COUNTS };
static const char *const count_names[COUNTS] = { "at once", "failed at once", "pending", "granted",	    "timed out", "cancelled",
						 "cancel 0", "cancel 1",       "closed",  "forks", "blocked threads' grants" };

/* Of strict holds, which nothing but a release ends: so at most one is inside. */
struct inside {
	uint32_t holders; /* 1 for a reader, 0x10000 for a writer */
	uint64_t token; /* of the last writer */
};

struct common {
	uint64_t counts[COUNTS];
	struct inside inside[KEYS];
};

static struct common *common;
static struct racer racers[RACERS];
static struct slot *mail[MAIL];
static uint64_t seed;
static unsigned steps;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "process %d, seed %" PRIu64 ": ", (int)getpid(), seed);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

static void count(int what)
{
	__atomic_fetch_add(&common->counts[what], 1, __ATOMIC_RELAXED);
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static unsigned below(uint64_t *random, unsigned n)
{
	return (unsigned)(next_random(random) >> 11) % n;
}

static int state_of(struct slot *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct slot *s, int state)
{
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
}

static const char *key_name(unsigned key)
{
	static const char *const names[KEYS] = { "a", "b", "c" };

	return names[key];
}

/* ---------------------------------------------------------------- inside */

static void go_in(const struct slot *s, size_t i)
{
	struct inside *in = &common->inside[s->keys[i]];
	uint32_t mine = s->mode == LOCKSHM_EXCLUSIVE ? 0x10000 : 1, others;
	uint64_t token = lockshm_token(&s->holds[i]);

	if (!s->strict)
		return;
	others = __atomic_fetch_add(&in->holders, mine, __ATOMIC_ACQ_REL);
	if (mine == 1 ? others >= 0x10000 : others != 0)
		die("key %s: %x others are inside", key_name(s->keys[i]), others);
	if (token <= __atomic_load_n(&in->token, __ATOMIC_RELAXED))
		die("key %s: token %" PRIu64 " after %" PRIu64, key_name(s->keys[i]), token, in->token);
	if (mine != 1)
		__atomic_store_n(&in->token, token, __ATOMIC_RELAXED);
}

static void release_one(struct slot *s, size_t i)
{
	int code;

	if (s->strict)
		__atomic_fetch_sub(&common->inside[s->keys[i]].holders, s->mode == LOCKSHM_EXCLUSIVE ? 0x10000u : 1u,
				   __ATOMIC_ACQ_REL);
	code = lockshm_release(&s->holds[i], 0);
	if (code != 0 && (s->strict || (code != LOCKSHM_LATE && code != LOCKSHM_LOST)))
		die("release: %s", outcome_name(code));
}

static void release(struct slot *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		release_one(s, i);
	set_state(s, FREE);
}

static void hold(struct slot *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		go_in(s, i);
	set_state(s, HELD);
}

/* Some thread of the process releases it. */
static void lend(struct racer *r, struct slot *s)
{
	struct slot *other;

	set_state(s, LENT);
	other = __atomic_exchange_n(&mail[below(&r->random, MAIL)], s, __ATOMIC_ACQ_REL);
	if (other)
		release(other);
}

static void take_mail(unsigned place)
{
	struct slot *s = __atomic_exchange_n(&mail[place], NULL, __ATOMIC_ACQ_REL);

	if (s)
		release(s);
}

/* ---------------------------------------------------------------- ends */

static void leave_untouched(struct slot *s)
{
	memset(s->holds, UNTOUCHED, sizeof(s->holds));
	memset(&s->report, UNTOUCHED, sizeof(s->report));
	set_state(s, ENDED);
}

static bool is_untouched(const void *memory, size_t size)
{
	const unsigned char *p = memory;

	while (size-- > 0)
		if (*p++ != UNTOUCHED)
			return false;
	return true;
}

static void check_untouched(struct slot *s)
{
	if (!is_untouched(s->holds, sizeof(s->holds)) || !is_untouched(&s->report, sizeof(s->report)))
		die("memory of a wait that was ended has been written to");
	set_state(s, FREE);
}

static void ended(struct slot *s, int status)
{
	if (status >= 0) {
		count(GRANTED);
		hold(s);
		return;
	}
	count(status == LOCKSHM_CANCELLED ? CANCELLED : TIMEOUTS);
	if (status != LOCKSHM_TIMEOUT && status != LOCKSHM_CANCELLED)
		die("outcome %s", outcome_name(status));
	set_state(s, FREE);
}

/* False = there is none. */
static bool collect(struct racer *r)
{
	struct lockshm_outcome out = LOCKSHM_OUTCOME_INIT;
	int n = lockshm_loop_next(r->loop, &out);
	struct slot *s = out.user;

	if (n == 0)
		return false;
	if (n != 1)
		die("next: %s", outcome_name(n));
	if (s < r->slots || s >= r->slots + SLOTS || out.hold != s->holds)
		die("an outcome of no slot");
	if (state_of(s) != WAITING)
		die("an outcome, %s, of a slot in state %d", outcome_name(out.status), state_of(s));
	if (out.report != (s->has_report ? &s->report : NULL))
		die("another report");
	ended(s, out.status);
	return true;
}

static void await_outcome(struct racer *r, int ms)
{
	struct pollfd p = { .fd = lockshm_loop_fd(r->loop), .events = POLLIN };

	(void)poll(&p, 1, ms);
}

static void cancel(struct racer *r, struct slot *s)
{
	int state = state_of(s), code;

	/* The memory of a LENT one is in use. */
	if (state != WAITING && state != FREE)
		return;
	code = lockshm_loop_cancel(r->loop, s->holds);
	if (state == FREE && code != LOCKSHM_NOT_HELD)
		die("cancel of no wait: %d", code);
	if (state == FREE)
		return;
	if (code != 0 && code != 1)
		die("cancel: %s", outcome_name(code));
	count(code ? CANCEL_1 : CANCEL_0);
	leave_untouched(s);
}

/* ---------------------------------------------------------------- requests */

static int64_t any_ttl(struct racer *r)
{
	static const int64_t some[] = { LOCKSHM_MS(1), LOCKSHM_MS(5), LOCKSHM_MS(50), LOCKSHM_SECONDS(30) };
	unsigned dice = below(&r->random, 8);

	return dice < 4 ? some[dice] : LOCKSHM_FOREVER;
}

static int64_t any_timeout(struct racer *r)
{
	static const int64_t some[] = { 0, 1, LOCKSHM_MS(1), LOCKSHM_MS(10) };
	unsigned dice = below(&r->random, 8);

	return dice < 4 ? some[dice] : LOCKSHM_SECONDS(60);
}

static void fill(struct racer *r, struct slot *s, struct lockshm_request *q)
{
	*q = (struct lockshm_request)LOCKSHM_REQUEST_INIT;
	q->mode = s->mode = below(&r->random, 3) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	q->ttl_ns = any_ttl(r);
	q->timeout_ns = any_timeout(r);
	if (q->ttl_ns != LOCKSHM_FOREVER && q->ttl_ns >= LOCKSHM_AUTO_RENEW_TTL_MIN && below(&r->random, 2))
		q->flags |= LOCKSHM_AUTO_RENEW;
	s->strict = q->ttl_ns == LOCKSHM_FOREVER;
	s->has_report = below(&r->random, 2);
	s->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	if (s->has_report)
		q->report = &s->report;
	if (below(&r->random, 3))
		return;
	pthread_mutex_lock(&s->cancel_lock);
	s->canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	pthread_mutex_unlock(&s->cancel_lock);
	q->canceller = &s->canceller;
}

static int submit(struct racer *r, struct slot *s)
{
	struct lockshm_key keys[MOST] = { { 0 } };
	struct lockshm_request q;
	size_t i;

	fill(r, s, &q);
	s->keys[0] = below(&r->random, KEYS);
	s->keys[1] = (s->keys[0] + 1) % KEYS;
	s->n = below(&r->random, 5) ? 1 : 2;
	q.key = key_name(s->keys[0]);
	q.key_len = 1;
	if (s->n == 1)
		return lockshm_loop_acquire(r->loop, &q, s->holds, s);
	for (i = 0; i < s->n; i++)
		keys[i] = (struct lockshm_key){ .data = key_name(s->keys[i]), .len = 1, .mode = s->mode };
	q.key = NULL;
	q.key_len = 0;
	return lockshm_loop_acquire_many(r->loop, &q, keys, s->n, s->holds, s);
}

static void request(struct racer *r, struct slot *s)
{
	int code;

	if (state_of(s) == ENDED)
		check_untouched(s);
	if (state_of(s) != FREE)
		return;
	code = submit(r, s);
	if (code >= 0) {
		count(AT_ONCE);
		hold(s);
	} else if (code == LOCKSHM_PENDING) {
		count(PENDING);
		set_state(s, WAITING);
	} else {
		count(FAILED);
		if (code != LOCKSHM_BUSY && code != LOCKSHM_TIMEOUT && code != LOCKSHM_CANCELLED)
			die("acquire: %s %s", outcome_name(code), s->has_report ? s->report.error.message : "");
	}
}

/* ---------------------------------------------------------------- the loop */

static void open_loop(struct racer *r)
{
	struct lockshm_error error = { 0 };
	int code = lockshm_loop_open(&r->loop, seg, -1, &error);

	if (code)
		die("loop_open: %s", error.message);
}

static void close_loop(struct racer *r)
{
	unsigned i;
	int code = lockshm_loop_close(r->loop);

	if (code)
		die("loop_close: %s", outcome_name(code));
	for (i = 0; i < SLOTS; i++)
		if (state_of(&r->slots[i]) == WAITING) {
			count(CLOSED);
			leave_untouched(&r->slots[i]);
		}
}

static void must_not(const char *call, int code)
{
	if (code != LOCKSHM_NOT_HELD)
		die("%s in a child: %s", call, outcome_name(code));
}

/* The parent's loop is none of its; a loop of its own is. */
static _Noreturn void child_main(struct racer *r)
{
	struct lockshm_outcome out = LOCKSHM_OUTCOME_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST("a");
	lockshm_hold_t own = LOCKSHM_HOLD_INIT;
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	q.timeout_ns = LOCKSHM_MS(5);
	must_not("fd", lockshm_loop_fd(r->loop));
	must_not("next", lockshm_loop_next(r->loop, &out));
	must_not("cancel", lockshm_loop_cancel(r->loop, r->slots[0].holds));
	must_not("acquire", lockshm_loop_acquire(r->loop, &q, &own, NULL));
	must_not("close", lockshm_loop_close(r->loop));
	/* Their allocators and threads do not survive a fork beside other threads. */
	if (UNDER_ASAN || UNDER_TSAN)
		_exit(EXIT_SUCCESS);
	open_loop(r);
	code = lockshm_loop_acquire(r->loop, &q, &own, &own);
	if (code == LOCKSHM_PENDING && below(&r->random, 2)) {
		await_outcome(r, 20000);
		if (lockshm_loop_next(r->loop, &out) == 1 && out.user != &own)
			die("a child got an outcome of its parent");
	}
	if (below(&r->random, 2) && lockshm_loop_close(r->loop) != 0)
		die("loop_close in a child");
	_exit(EXIT_SUCCESS);
}

static void fork_child(struct racer *r)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		child_main(r);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		die("a forked child ended with status %d", status);
	count(FORKS);
}

/* ---------------------------------------------------------------- racers */

/* As its canceller: that wait ends with an outcome, if it does not end otherwise. */
static void use_canceller(uint64_t *random)
{
	struct slot *s = &racers[below(random, RACERS)].slots[below(random, SLOTS)];

	pthread_mutex_lock(&s->cancel_lock);
	(void)lockshm_cancel(&s->canceller);
	pthread_mutex_unlock(&s->cancel_lock);
}

static void end_hold(struct racer *r, struct slot *s)
{
	if (state_of(s) != HELD)
		return;
	if (below(&r->random, 3))
		release(s);
	else
		lend(r, s);
}

static void rarely(struct racer *r)
{
	switch (below(&r->random, 5)) {
	case 0:
		close_loop(r);
		open_loop(r);
		break;
	case 1:
		if (below(&r->random, 8) == 0 && !emulated())
			fork_child(r);
		break;
	case 2:
		/* Beyond the leases of what was granted meanwhile. */
		nanosleep(&(struct timespec){ .tv_nsec = (long)below(&r->random, 8) * 1000000 }, NULL);
		break;
	default:
		sched_yield();
	}
}

static void step(struct racer *r)
{
	struct slot *s = &r->slots[below(&r->random, SLOTS)];
	unsigned dice = below(&r->random, 100);

	if (dice < 30)
		request(r, s);
	else if (dice < 64)
		end_hold(r, s);
	else if (dice < 74)
		(void)collect(r);
	else if (dice < 75)
		cancel(r, s);
	else if (dice < 77)
		await_outcome(r, 1), cancel(r, s);
	else if (dice < 78)
		request(r, s), cancel(r, s);
	else if (dice < 93)
		await_outcome(r, 1), (void)collect(r);
	else if (dice < 95)
		use_canceller(&r->random);
	else if (dice < 99)
		take_mail(below(&r->random, MAIL));
	else
		rarely(r);
}

/* True = nothing waits, nothing is held, nothing is left with others. */
static bool is_at_end(struct racer *r)
{
	bool end = true;
	unsigned i;

	for (i = 0; i < SLOTS; i++) {
		if (state_of(&r->slots[i]) == HELD)
			release(&r->slots[i]);
		end = end && (state_of(&r->slots[i]) == FREE || state_of(&r->slots[i]) == ENDED);
	}
	for (i = 0; i < MAIL; i++)
		take_mail(i);
	return end;
}

static void come_to_an_end(struct racer *r)
{
	if (below(&r->random, 2))
		close_loop(r), open_loop(r);
	while (!is_at_end(r)) {
		await_outcome(r, 10);
		while (collect(r))
			;
	}
}

static void *racer_main(void *arg)
{
	struct racer *r = arg;
	unsigned i;

	open_loop(r);
	for (i = 0; i < steps; i++)
		step(r);
	come_to_an_end(r);
	/* With the last grant of a key, in some runs. */
	if (!emulated())
		fork_child(r);
	if (collect(r))
		die("one outcome more");
	close_loop(r);
	return NULL;
}

/* A thread that waits in the same queues. */
static void *blocker_main(void *arg)
{
	uint64_t random = *(uint64_t *)arg;
	unsigned i;

	for (i = 0; i < steps / 4; i++) {
		struct lockshm_request q = LOCKSHM_REQUEST_INIT;
		lockshm_hold_t h = LOCKSHM_HOLD_INIT;
		int code;

		q.key = key_name(below(&random, KEYS));
		q.key_len = 1;
		q.mode = below(&random, 2) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
		q.timeout_ns = LOCKSHM_MS(2);
		code = lockshm_acquire(seg, &q, &h);
		if (code >= 0) {
			count(BLOCKED);
			code = lockshm_release(&h, 0);
		}
		if (code < 0 && code != LOCKSHM_TIMEOUT && code != LOCKSHM_LOST)
			die("blocked thread: %s", outcome_name(code));
		take_mail(below(&random, MAIL));
		use_canceller(&random);
	}
	return NULL;
}

/* ---------------------------------------------------------------- processes */

static void init_racer(struct racer *r, uint64_t random)
{
	unsigned i;

	memset(r, 0, sizeof(*r));
	r->random = random;
	for (i = 0; i < SLOTS; i++)
		pthread_mutex_init(&r->slots[i].cancel_lock, NULL);
}

static unsigned descriptors(void)
{
	unsigned n = 0;
	int fd;

	for (fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static bool are_closed(void *before)
{
	return descriptors() == *(unsigned *)before;
}

static void race(unsigned process)
{
	uint64_t random = seed * 1000 + process, of_blocker;
	unsigned before = descriptors();
	pthread_t threads[RACERS + 1];
	unsigned i;

	for (i = 0; i < RACERS; i++)
		init_racer(&racers[i], next_random(&random));
	of_blocker = next_random(&random);
	for (i = 0; i < RACERS; i++)
		if (pthread_create(&threads[i], NULL, racer_main, &racers[i]) != 0)
			die("no thread");
	if (pthread_create(&threads[i], NULL, blocker_main, &of_blocker) != 0)
		die("no thread");
	for (i = 0; i <= RACERS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < MAIL; i++)
		if (mail[i])
			die("mail is left");
	/* A thread that was about to write to one closes it. */
	if (!await(are_closed, &before))
		die("%u descriptors, %u before", descriptors(), before);
}

static void print_counts(void)
{
	int i;

	printf("seed %" PRIu64 ":", seed);
	for (i = 0; i < COUNTS; i++)
		printf("%s %s %" PRIu64, i ? "," : "", count_names[i], common->counts[i]);
	putchar('\n');
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void prepare(void)
{
	steps = STEPS / (UNDER_TSAN || UNDER_ASAN || emulated() ? 3 : 1) * (unsigned)number("LOOP_RACE", 1);
	seed = number("SEED", 1);
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(common != MAP_FAILED);
}

static unsigned started; /* number of the process */

static int other_main(void)
{
	race(started);
	return 0;
}

START_TEST(each_wait_has_one_end)
{
	pid_t others[PROCESSES];
	const uint64_t *n;
	unsigned i;

	prepare();
	n = common->counts;
	for (started = 1; started < PROCESSES; started++)
		others[started] = process_start(other_main);
	race(0);
	for (i = 1; i < PROCESSES; i++)
		ck_assert_int_eq(process_end(others[i]), 0);
	print_counts();
	/* A forked child exits with its hold; without a later request of that key nothing else ends it. */
	ck_assert_int_eq(lockshm_sweep(seg, NULL), 0);
	ck_assert_uint_eq(n[PENDING],
			  n[GRANTED] + n[TIMEOUTS] + n[CANCELLED] + n[CANCEL_0] + n[CANCEL_1] + n[CLOSED]);
	ck_assert(n[GRANTED] > 0 && n[CANCEL_0] > 0 && n[CANCEL_1] > 0 && n[CLOSED] > 0);
	for (i = 0; i < KEYS; i++) {
		ck_assert_uint_eq(common->inside[i].holders, 0);
		ck_queue(key_name(i), 0, 0);
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, each_wait_has_one_end);
}

int main(void)
{
	return fixture_main("loop-race", add);
}
