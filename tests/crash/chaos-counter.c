/* SPDX-License-Identifier: MIT */
/*
 * chaos-counter.c - eight workers count under exclusive locks while they are killed and stopped at random
 *
 *   chaos-counter [SECONDS [SEED]]       5 seconds and a seed from the clock if not given
 *
 * One request of three is made by the worker's event loop, which it polls.  Two counters, one for each kind of hold:
 *
 *  strict  A plain load, a pause, a plain store.  Only exclusion keeps updates from being lost.  Three of four barge:
 *          a token may come again, but not after another thread's.  A worker notes when it is inside: the next one,
 *          robust or not, is shown the mark of one that was killed there.
 *  lease   A short lease, often overrun by workers that are stopped.  The counter is one word [token | value] that
 *          refuses writers with a smaller token than the last one it has seen: what any resource behind a lease
 *          has to do.  An update refused although the hold was never lost is a violation.
 *
 * After each update, still inside the hold, the worker marks the new value in a bitmap that survives it.  A value
 * marked twice is a lost update.  At the end the values not marked must be no more than the workers killed: each
 * may have died between its update and its mark.
 *
 * Also checked: tokens rise; OWNER_DIED names a killed process; no strict hold is ever lost; no acquire waits for long;
 * lockshm_verify() finds nothing, at any time; at the end nothing is left in use.
 */
#include <lockshm.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	WORKERS = 8,
	VALUES = 1 << 28,  /* highest value of a counter */
	PIDS = 1 << 22,    /* kernel's upper limit of pid_max */
	STOP_MAX_MS = 5,
	LONG_STOP_MAX_MS = 80, /* longer than any lease, one stop in eight */
	LEASE_MIN_MS = 2,
	LEASE_MAX_MS = 30,
	STUCK_S = 30,      /* an acquire that takes longer is a violation */
};

/* One counter's marks; pages are only used where touched. */
struct marks {
	_Atomic uint64_t acknowledged;
	_Atomic uint64_t bits[VALUES / 64];
};

struct shared {
	_Atomic int stop;
	_Atomic uint64_t strict_value, strict_token; /* loaded and stored only: as good as plain */
	_Atomic int strict_pid;                      /* the last owner */
	_Atomic int strict_robust, strict_inside;    /* the key is; the pid of the owner, from then on */
	_Atomic uint64_t lease_word;                 /* [token - token_base : 32 | value : 32] */
	_Atomic uint64_t acquires, by_loop, again, owner_died, took_over, refused, late, lost;
	struct marks strict, lease;
	_Atomic uint64_t killed[PIDS / 64]; /* set before the signal is sent */
	_Atomic int violated;
	char violation[256]; /* the message of the first worker that found one */
};

static lockshm_t *locks;
static lockshm_loop_t *loop; /* of a worker */
static struct shared *shared;
static uint64_t token_base;
static uint64_t random_state;

/* ---- tools ---- */

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/* A worker fails: the monitor sees the exit status and prints the text. */
static _Noreturn void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void violation(const char *format, ...)
{
	va_list args;

	if (!atomic_exchange(&shared->violated, 1)) {
		va_start(args, format);
		vsnprintf(shared->violation, sizeof(shared->violation), format, args);
		va_end(args);
	}
	_exit(EXIT_FAILURE);
}

static int test_and_set(_Atomic uint64_t *bits, uint64_t n)
{
	uint64_t bit = UINT64_C(1) << n % 64;

	return (atomic_fetch_or(&bits[n / 64], bit) & bit) != 0;
}

static int test_bit(const _Atomic uint64_t *bits, uint64_t n)
{
	return bits[n / 64] >> n % 64 & 1;
}

/* ---- worker ---- */

/* The update of @value is in; the caller still holds the lock. */
static void mark(struct marks *marks, uint64_t value, const char *name)
{
	if (value >= VALUES)
		violation("%s: too many updates for this test", name);
	if (test_and_set(marks->bits, value))
		violation("%s: value %" PRIu64 " was stored twice: an update was lost", name, value);
	marks->acknowledged++;
}

/* Time for errors of others, or for a signal. */
static void dawdle(void)
{
	uint64_t r = next_random();

	if (r % 16 == 0)
		pause_ns(50 * 1000);
	else if (r % 16 < 4)
		sched_yield();
	else
		for (volatile uint64_t i = r % 1024; i > 0; i--)
			;
}

static int take_by_loop(const struct lockshm_request *request, lockshm_hold_t *hold)
{
	struct lockshm_outcome out = LOCKSHM_OUTCOME_INIT;
	struct pollfd p = { lockshm_loop_fd(loop), POLLIN, 0 };
	int n, code = lockshm_loop_acquire(loop, request, hold, hold);

	if (code != LOCKSHM_PENDING)
		return code;
	while ((n = lockshm_loop_next(loop, &out)) == 0)
		poll(&p, 1, -1);
	if (n != 1 || out.hold != hold || out.user != hold || out.report != request->report)
		violation("an outcome that is not the wait's");
	shared->by_loop++;
	return out.status;
}

/* Return: the status.  A time-out is far longer than any hold. */
static int take(const char *key, unsigned flags, int64_t ttl_ns, lockshm_hold_t *hold, struct lockshm_report *report)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	int status;

	request.key = key;
	request.key_len = strlen(key);
	request.flags = flags;
	request.ttl_ns = ttl_ns;
	request.timeout_ns = LOCKSHM_SECONDS(STUCK_S);
	request.tag = key;
	request.report = report;
	status = next_random() % 3 ? lockshm_acquire(locks, &request, hold) : take_by_loop(&request, hold);
	if (status < 0)
		violation("%s: acquire: %s (%s)", key, lockshm_code_name(status), report->error.message);
	shared->acquires++;
	return status;
}

/* Robust three times of four. */
static unsigned any_flags(void)
{
	return next_random() % 4 ? LOCKSHM_ROBUST : 0;
}

/* The report about the previous holder must be true; acknowledge it.  Only robust requests get it as a status. */
static void look_back(const char *key, unsigned flags, int status, const struct lockshm_report *report,
		      lockshm_hold_t *hold)
{
	int pid = report->damage.pid;

	if (status != (flags & LOCKSHM_ROBUST ? report->damage.status : 0))
		violation("%s: %s %s, and %s in the report", key, flags & LOCKSHM_ROBUST ? "robust" : "plain",
			  lockshm_code_name(status), lockshm_code_name(report->damage.status));
	status = report->damage.status;
	if (status == LOCKSHM_OK)
		return;
	if (report->damage.token >= report->token)
		violation("%s: predecessor's token %" PRIu64 " is not below %" PRIu64, key, report->damage.token,
			  report->token);
	if (status == LOCKSHM_OWNER_DIED) {
		shared->owner_died++;
		if (pid <= 0 || pid >= PIDS || !test_bit(shared->killed, (uint64_t)pid))
			violation("%s: OWNER_DIED names pid %d, which was not killed", key, pid);
	} else {
		shared->took_over++;
	}
	status = lockshm_acknowledge(hold);
	if (status != LOCKSHM_OK && status != LOCKSHM_LOST)
		violation("%s: acknowledge: %s", key, lockshm_code_name(status));
}

/* The first thing inside, and the last. */
static void come_in(unsigned flags, const struct lockshm_report *report)
{
	if (shared->strict_inside && report->damage.status != LOCKSHM_OWNER_DIED)
		violation("strict: pid %d was killed inside, and there is no mark", shared->strict_inside);
	if (flags & LOCKSHM_ROBUST)
		shared->strict_robust = 1;
	shared->strict_inside = shared->strict_robust ? getpid() : 0;
}

static void count_strict(void)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;
	uint64_t value;
	unsigned flags = any_flags() | (next_random() % 4 ? LOCKSHM_BARGE : 0);
	int status = take("strict", flags, LOCKSHM_FOREVER, &hold, &report);
	bool again = (flags & LOCKSHM_BARGE) && shared->strict_pid == getpid() && report.token == shared->strict_token;

	come_in(flags, &report);
	if (report.damage.status == LOCKSHM_TOOK_OVER_EXPIRED)
		violation("strict: a hold without a lease has run out");
	look_back("strict", flags, status, &report, &hold);
	if (report.token <= shared->strict_token && !again)
		violation("strict: token %" PRIu64 " after %" PRIu64, report.token, shared->strict_token);
	shared->strict_token = report.token;
	shared->strict_pid = getpid();
	shared->again += again;
	value = atomic_load_explicit(&shared->strict_value, memory_order_relaxed);
	dawdle();
	atomic_store_explicit(&shared->strict_value, value + 1, memory_order_relaxed);
	dawdle();
	mark(&shared->strict, value + 1, "strict");
	shared->strict_inside = 0;
	status = lockshm_release(&hold, 0);
	if (status != LOCKSHM_OK)
		violation("strict: release: %s", lockshm_code_name(status));
}

/*
 * The resource behind the lease: accept @token unless a larger one was here, and return the value.
 * Return: 0, or -1 = refused.
 */
static int fence(uint64_t token, uint64_t *word)
{
	*word = shared->lease_word;
	do {
		if (*word >> 32 >= token)
			return -1;
	} while (!atomic_compare_exchange_weak(&shared->lease_word, word, token << 32 | (uint32_t)*word));
	*word = token << 32 | (uint32_t)*word;
	return 0;
}

/* Return: 0 = counted, -1 = refused in favour of a larger token. */
static int update_fenced(uint64_t token, lockshm_hold_t *hold)
{
	uint64_t word;

	if (fence(token, &word) < 0)
		return -1;
	dawdle();
	if (next_random() % 4 == 0)
		lockshm_renew(hold, LOCKSHM_MS(LEASE_MAX_MS));
	if (!atomic_compare_exchange_strong(&shared->lease_word, &word, word + 1))
		return -1;
	dawdle();
	mark(&shared->lease, (uint32_t)word + 1, "lease");
	return 0;
}

static void count_lease(void)
{
	int64_t ttl = LOCKSHM_MS(LEASE_MIN_MS + (int64_t)(next_random() % (LEASE_MAX_MS - LEASE_MIN_MS)));
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;
	uint64_t token, lost_to;
	int refused, overtaken;
	unsigned flags = any_flags();
	int status = take("lease", flags, ttl, &hold, &report);

	look_back("lease", flags, status, &report, &hold);
	token = report.token - token_base;
	if (token >> 32)
		violation("lease: token too large for this test");
	refused = update_fenced(token, &hold) < 0;
	overtaken = shared->lease_word >> 32 > token;
	status = lockshm_release(&hold, 0);
	if (status != LOCKSHM_OK && status != LOCKSHM_LATE && status != LOCKSHM_LOST)
		violation("lease: release: %s", lockshm_code_name(status));
	if ((refused || overtaken) && status != LOCKSHM_LOST)
		violation("lease: token %" PRIu64 " was overtaken, yet release says %s", token,
			  lockshm_code_name(status));
	shared->refused += (uint64_t)refused;
	shared->late += status == LOCKSHM_LATE;
	shared->lost += status == LOCKSHM_LOST;
	lost_to = status == LOCKSHM_LOST ? lockshm_lost_to(&hold) : 0;
	if (lost_to && lost_to - token_base <= token)
		violation("lease: lost to token %" PRIu64 ", which is not above %" PRIu64, lost_to - token_base, token);
}

static _Noreturn void worker_main(pid_t monitor)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != monitor)
		_exit(EXIT_SUCCESS);
	if (lockshm_loop_open(&loop, locks, -1, NULL) != 0)
		violation("no loop");
	while (!shared->stop)
		if (next_random() % 2)
			count_strict();
		else
			count_lease();
	_exit(EXIT_SUCCESS);
}

/* ---- monitor ---- */

struct worker {
	pid_t pid;
	int64_t resume_at; /* 0 = runs */
};

struct monitor {
	const char *name;
	uint64_t seed;
	struct worker workers[WORKERS];
	uint64_t kills, kills_stopped, stops, verifies;
	uint64_t last_acquires;
	int64_t last_progress;
};

/* For atexit(): no segment and no worker is left, whatever happened (the workers die with us). */
static char segment_name[64];
static void remove_segment(void)
{
	lockshm_destroy(segment_name, NULL);
}

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
{
	va_list args;

	fputs("chaos-counter: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

static void start_worker(struct worker *w)
{
	pid_t monitor = getpid();
	uint64_t seed = next_random();

	w->resume_at = 0;
	w->pid = fork();
	if (w->pid < 0)
		fail("fork: %s", strerror(errno));
	if (w->pid == 0) {
		random_state = seed;
		worker_main(monitor);
	}
}

/* Return: 0 if the worker was ended by SIGKILL or left in good order. */
static void reap(struct worker *w)
{
	int status;

	if (waitpid(w->pid, &status, 0) != w->pid)
		fail("waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) != EXIT_SUCCESS)
		fail("worker %d: %s", (int)w->pid, shared->violation);
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		fail("worker %d: ended by signal %d", (int)w->pid, WTERMSIG(status));
}

static void kill_worker(struct monitor *m, struct worker *w)
{
	test_and_set(shared->killed, (uint64_t)w->pid);
	kill(w->pid, SIGKILL);
	m->kills++;
	m->kills_stopped += w->resume_at != 0;
	reap(w);
	start_worker(w);
}

static void stop_worker(struct monitor *m, struct worker *w)
{
	unsigned max_ms;

	if (w->resume_at)
		return;
	max_ms = next_random() % 8 ? STOP_MAX_MS : LONG_STOP_MAX_MS;
	kill(w->pid, SIGSTOP);
	w->resume_at = now_ns() + LOCKSHM_MS(1 + (int64_t)(next_random() % max_ms));
	m->stops++;
}

static void resume_due(struct monitor *m, int64_t now)
{
	for (int i = 0; i < WORKERS; i++) {
		struct worker *w = &m->workers[i];

		if (w->resume_at && w->resume_at <= now) {
			kill(w->pid, SIGCONT);
			w->resume_at = 0;
		}
	}
}

static void print_problem(const char *invariant, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "chaos-counter: %s: %s\n", invariant, text);
}

static void verify(struct monitor *m)
{
	int code = lockshm_verify(locks, print_problem, NULL, NULL);

	m->verifies++;
	if (code)
		fail("lockshm_verify() returns %s", lockshm_code_name(code));
}

static void see_progress(struct monitor *m, int64_t now)
{
	if (m->last_acquires != shared->acquires) {
		m->last_acquires = shared->acquires;
		m->last_progress = now;
	} else if (now - m->last_progress > LOCKSHM_SECONDS(STUCK_S)) {
		fail("no lock was granted for %d s", STUCK_S);
	}
}

/* A worker that found a violation has exited by itself. */
static void see_violation(struct monitor *m)
{
	for (int i = 0; i < WORKERS; i++) {
		siginfo_t info = { 0 };

		if (waitid(P_PID, (id_t)m->workers[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
			reap(&m->workers[i]);
	}
}

static void rage(struct monitor *m, int64_t seconds)
{
	int64_t now = now_ns(), end = now + LOCKSHM_SECONDS(seconds);

	m->last_progress = now;
	for (unsigned turn = 0; now < end; turn++, now = now_ns()) {
		struct worker *w = &m->workers[next_random() % WORKERS];

		if (next_random() % 2)
			kill_worker(m, w);
		else
			stop_worker(m, w);
		if (turn % 4 == 0)
			verify(m);
		see_violation(m);
		see_progress(m, now);
		pause_ns((long)(next_random() % 8) * 1000000);
		resume_due(m, now_ns());
	}
}

static void finish(struct monitor *m)
{
	shared->stop = 1;
	resume_due(m, INT64_MAX);
	for (int i = 0; i < WORKERS; i++)
		reap(&m->workers[i]);
	verify(m);
}

/* ---- the books ---- */

static void check_marks(const struct monitor *m, const char *name, const struct marks *marks, uint64_t value)
{
	uint64_t marked = 0;

	for (uint64_t i = 1; i <= value; i++)
		marked += (uint64_t)test_bit(marks->bits, i);
	if (marked < marks->acknowledged) /* more by one if killed between the mark and the count */
		fail("%s: %" PRIu64 " updates acknowledged, but only %" PRIu64 " values up to %" PRIu64 " are marked",
		     name, marks->acknowledged, marked, value);
	if (value - marked > m->kills)
		fail("%s: %" PRIu64 " values not marked, more than the %" PRIu64 " kills", name, value - marked,
		     m->kills);
	if (marked == 0)
		fail("%s: nothing was counted", name);
	printf("%-7s value %" PRIu64 " = %" PRIu64 " acknowledged + %" PRIu64 " cut off by a kill\n", name, value,
	       marked, value - marked);
}

/* All workers are gone: after a sweep, in which we take part ourselves, nothing of theirs may be left. */
static void check_leaks(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	lockshm_sweep(locks, NULL);
	if (lockshm_stat(locks, &stat) < 0)
		fail("stat failed");
	if (stat.keys_busy || stat.keys_left || stat.requests_used || stat.owners_used > 1)
		fail("left in use: %" PRIu32 " locks, %" PRIu32 " requests, %" PRIu32 " owners",
		     stat.keys_busy + (uint32_t)stat.keys_left, stat.requests_used, stat.owners_used);
}

static void report(const struct monitor *m)
{
	check_marks(m, "strict", &shared->strict, shared->strict_value);
	check_marks(m, "lease", &shared->lease, (uint32_t)shared->lease_word);
	check_leaks();
	printf("kills   %" PRIu64 " (%" PRIu64 " of stopped workers), stops %" PRIu64 ", verified %" PRIu64 " times\n",
	       m->kills, m->kills_stopped, m->stops, m->verifies);
	printf("reports OWNER_DIED %" PRIu64 ", TOOK_OVER_EXPIRED %" PRIu64 ", LATE %" PRIu64 ", LOST %" PRIu64
	       "; updates refused %" PRIu64 "; resumed %" PRIu64 "\n", shared->owner_died, shared->took_over, shared->late, shared->lost,
	       shared->refused, shared->again);
	printf("chaos-counter: no update was lost in %" PRIu64 " holds, %" PRIu64 " of them after a wait of a loop\n",
	       shared->acquires, shared->by_loop);
}

static void set_up(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error = { 0 };
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	snprintf(segment_name, sizeof(segment_name), "/chaos-counter.%d", (int)getpid());
	options.keys = 64;
	options.requests = 4096;
	options.owners = 256;
	if (lockshm_create(&locks, segment_name, &options, &error) < 0)
		fail("%s", error.message);
	if (lockshm_stat(locks, &stat) < 0)
		fail("stat failed");
	token_base = stat.token_base;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct monitor m = { 0 };
	int64_t seconds = argc > 1 ? atoll(argv[1]) : 5;

	m.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)now_ns() % 1000000 + 1;
	random_state = (m.seed + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
	set_up();
	atexit(remove_segment);
	printf("chaos-counter: %d workers, %" PRId64 " s, seed %" PRIu64 "\n", WORKERS, seconds, m.seed);
	fflush(stdout);
	for (int i = 0; i < WORKERS; i++)
		start_worker(&m.workers[i]);
	rage(&m, seconds);
	finish(&m);
	report(&m);
	lockshm_close(locks);
	return EXIT_SUCCESS;
}
