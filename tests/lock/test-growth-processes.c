/* SPDX-License-Identifier: MIT */
/*
 * test-growth-processes.c - looks and system calls beside n processes that hold a key each, share one, wait, or have died
 *
 * A child of the test acts under ptrace, which stops it at each system call; its looks at shared words are counted as in
 * test-growth.c.  Calls of other threads and processes are not counted.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crowd.h"
#include "growth.h"
#include "other-thread.h"
#include "segment/segment.h"
#include "support/fixture.h"

#define S LOCKSHM_SHARED
#define OWNERS 1100

unsigned long shared_looks;

/* ---------------------------------------------------------------- n processes */

static pid_t processes[1000];
static unsigned n_processes;

static void start_processes(unsigned n, const char *key, int mode, bool waits)
{
	unsigned *there = mmap(NULL, sizeof(*there), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(there, MAP_FAILED);
	plan.there = there;
	plan.key = key;
	plan.mode = mode;
	plan.waits = waits;
	for (n_processes = 0; n_processes < n; n_processes++) {
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			member((void *)(uintptr_t)n_processes);
		}
		processes[n_processes] = pid;
	}
	ck_assert_msg(await(all_there, &n), "%u of %u processes", *there, n);
	ck_assert(!waits || await(all_wait, &n));
	munmap(there, sizeof(*there));
}

static void stop_processes(void)
{
	unsigned i;
	int status;

	for (i = 0; i < n_processes; i++)
		kill(processes[i], SIGSTOP);
	for (i = 0; i < n_processes; i++)
		ck_assert_int_eq(waitpid(processes[i], &status, WUNTRACED), processes[i]);
}

/* They are stopped. */
static void kill_processes(void)
{
	unsigned i;
	int status;

	for (i = 0; i < n_processes; i++)
		kill(processes[i], SIGKILL);
	for (i = 0; i < n_processes; i++)
		ck_assert_int_eq(waitpid(processes[i], &status, 0), processes[i]);
	n_processes = 0;
}

/* ---------------------------------------------------------------- one that acts */

struct actor {
	void (*prepare)(void); /* may be NULL */
	void (*act)(void);
	pid_t pid;
	unsigned long *looks;
	bool traced;
};

/* To the first SIGSTOP, and after that to each system call. */
static void run_actor(struct actor *a)
{
	unsigned long before;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(77);
	if (a->prepare)
		a->prepare();
	before = shared_looks;
	syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGSTOP);
	a->act();
	*a->looks = shared_looks - before;
	_exit(0);
}

static void start_actor(struct actor *a)
{
	int status;

	a->looks = mmap(NULL, sizeof(*a->looks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(a->looks, MAP_FAILED);
	a->pid = fork();
	ck_assert_int_ge(a->pid, 0);
	if (a->pid == 0)
		run_actor(a);
	ck_assert_int_eq(waitpid(a->pid, &status, 0), a->pid);
	a->traced = WIFSTOPPED(status);
	ck_assert(a->traced || (WIFEXITED(status) && WEXITSTATUS(status) == 77));
	if (a->traced)
		ck_assert_int_eq(ptrace(PTRACE_SETOPTIONS, a->pid, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
}

/* How many calls it makes; that which ends it does not count. */
static double calls_of(struct actor *a)
{
	unsigned stops = 0;
	int status;

	for (;;) {
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, a->pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(a->pid, &status, 0), a->pid);
		if (!WIFSTOPPED(status))
			break;
		ck_assert_msg(WSTOPSIG(status) == (SIGTRAP | 0x80), "signal %d", WSTOPSIG(status));
		stops++;
	}
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the actor ends with %#x", (unsigned)status);
	return stops / 2;
}

/* ---------------------------------------------------------------- what it does */

static lockshm_hold_t hold;

/* The assertions of libcheck make system calls. */
static void expect(int code, int want)
{
	if (code != want)
		_exit(1);
}

static void take_part(void)
{
	expect(take(&hold, "a key of its own", X), 0);
	expect(lockshm_release(&hold, 0), 0);
}

static void act_acquire(void)
{
	expect(take(&hold, "k", X), 0);
}

static void act_release(void)
{
	expect(lockshm_release(&hold, 0), 0);
}

static void read_first(void)
{
	expect(take(&hold, "k", S), 0);
}

/* It was the oldest, and is the newest then. */
static void act_rejoin(void)
{
	act_release();
	read_first();
}

static void act_again(void)
{
	act_release();
	act_acquire();
}

static void act_read(void)
{
	expect(take(&hold, "k", S), 0);
	expect(lockshm_release(&hold, 0), 0);
}

static void act_try(void)
{
	expect(take(&hold, "k", X), LOCKSHM_BUSY);
}

static void act_time_out(void)
{
	struct lockshm_request request = request_for("k", X);

	request.timeout_ns = LOCKSHM_MS(1);
	expect(lockshm_acquire(seg, &request, &hold), LOCKSHM_TIMEOUT);
}

/* Its own handle from here on. */
static void close_inherited(void)
{
	expect(lockshm_close(seg), 0);
}

static void act_open(void)
{
	expect(lockshm_open(&seg, seg_name, 0, NULL), 0);
	expect(lockshm_close(seg), 0);
}

static void act_attach(void)
{
	expect(lockshm_open(&seg, seg_name, 0, NULL), 0);
	take_part();
}

/* ---------------------------------------------------------------- scenes */

enum scene { THEY_HOLD, THEY_READ, THEY_JOIN, THEY_WAIT, THEY_WAIT_TO_READ, THEY_DIED, WAITERS_DIED };

/* Is every one asleep that waits? */
static bool all_asleep(void *unused)
{
	uint32_t i;

	(void)unused;
	for (i = 1; i <= seg->n_requests; i++)
		if (word_is(load_acquire(&seg->requests[i].word), REQUEST_WAITING) &&
		    !load_relaxed32(&seg->requests[i].sleeping))
			return false;
	return true;
}

/* Up to the actor's stop.  Where others wait it holds the key.  They are stopped in their sleep: or those that are woken
 * would take their part in what is counted, and so would self-checks. */
static void set_scene(enum scene scene, unsigned n, struct actor *a)
{
	segment_with(2048, 16384, OWNERS);
	if (scene == THEY_HOLD || scene == THEY_DIED)
		start_processes(n, NULL, X, false);
	if (scene == THEY_READ)
		start_processes(n, "k", S, false);
	if (scene == THEY_DIED) {
		stop_processes();
		kill_processes();
	}
	start_actor(a);
	if (scene == THEY_JOIN)
		start_processes(n, "k", S, false);
	if (scene == THEY_WAIT || scene == WAITERS_DIED)
		start_processes(n, "k", X, true);
	if (scene == THEY_WAIT_TO_READ)
		start_processes(n, "k", S, true);
	ck_assert(await(all_asleep, NULL));
	stop_processes();
	if (scene == WAITERS_DIED)
		kill_processes();
}

struct figures {
	double looks[SIZES], calls[SIZES];
};

/* False = no process may trace another here. */
static bool measure(enum scene scene, void (*prepare)(void), void (*act)(void), struct figures *f)
{
	struct actor a = { .prepare = prepare, .act = act };
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		set_scene(scene, sizes[i], &a);
		if (a.traced)
			f->calls[i] = calls_of(&a);
		f->looks[i] = (double)*a.looks;
		munmap(a.looks, sizeof(*a.looks));
		kill_processes();
	}
	if (!a.traced)
		printf("left out: no process may trace another here\n");
	return a.traced;
}

#define AS_BESIDE_TEN (-1)

/* @calls: so many at most, whatever n is; @exponent: of the looks. */
static void costs(const char *what, enum scene scene, void (*prepare)(void), void (*act)(void), double calls,
		  double exponent)
{
	struct figures f;
	unsigned i;

	if (!measure(scene, prepare, act, &f))
		return;
	printf("%s, calls: %.0f, %.0f, %.0f\n", what, f.calls[0], f.calls[1], f.calls[2]);
	if (calls == AS_BESIDE_TEN)
		calls = f.calls[0];
	for (i = 0; i < SIZES; i++)
		ck_assert_msg(f.calls[i] <= calls, "%s: %.0f system calls beside %u processes, not %.0f", what,
			      f.calls[i], sizes[i], calls);
	grows_by(what, f.looks, 0, exponent);
}

START_TEST(a_free_key_takes_no_call)
{
	costs("a pair beside holders", THEY_HOLD, take_part, take_part, 0, 0);
}
END_TEST

START_TEST(a_reader_takes_no_call)
{
	costs("a reader's pair beside readers", THEY_READ, act_read, act_read, 0, 0);
	costs("the oldest reader's release and join", THEY_JOIN, read_first, act_rejoin, 0, 0);
}
END_TEST

START_TEST(a_try_among_readers)
{
	costs("a try among readers", THEY_READ, take_part, act_try, AS_BESIDE_TEN, 0);
}
END_TEST

START_TEST(a_time_out_among_readers)
{
	costs("a time-out among readers", THEY_READ, take_part, act_time_out, AS_BESIDE_TEN, 0);
}
END_TEST

/* The wake-up of the successor as its predecessor is unlinked, and that of the grant. */
START_TEST(a_pass_to_a_waiter)
{
	costs("a release to the first of the waiters", THEY_WAIT, act_acquire, act_release, 2, 0);
}
END_TEST

START_TEST(open_close_and_first_lock)
{
	costs("open and close beside holders", THEY_HOLD, close_inherited, act_open, AS_BESIDE_TEN, 0);
	costs("open and first lock beside holders", THEY_HOLD, close_inherited, act_attach, AS_BESIDE_TEN, 0);
}
END_TEST

START_TEST(open_after_deaths)
{
	costs("open after deaths", THEY_DIED, close_inherited, act_open, AS_BESIDE_TEN, 1);
}
END_TEST

START_TEST(acquire_after_dead_waiters)
{
	costs("release and acquire after dead waiters", WAITERS_DIED, act_acquire, act_again, AS_BESIDE_TEN, 1);
}
END_TEST

/* As above, then 32, then two of each 64, and the last. */
START_TEST(a_writers_release_to_readers)
{
	struct figures f;
	unsigned i;

	if (!measure(THEY_WAIT_TO_READ, act_acquire, act_release, &f))
		return;
	printf("a writer's release to readers, calls: %.0f, %.0f, %.0f\n", f.calls[0], f.calls[1], f.calls[2]);
	for (i = 0; i < SIZES; i++)
		ck_assert_msg(f.calls[i] <= 35 + 2 * (sizes[i] / 64 + 1), "%.0f system calls for %u readers", f.calls[i],
			      sizes[i]);
	grows_by("a writer's release to readers", f.looks, 0, 1);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_native(tc, a_free_key_takes_no_call);
	tcase_add_native(tc, a_reader_takes_no_call);
	tcase_add_native(tc, a_try_among_readers);
	tcase_add_native(tc, a_time_out_among_readers);
	tcase_add_native(tc, a_pass_to_a_waiter);
	tcase_add_native(tc, open_close_and_first_lock);
	tcase_add_native(tc, open_after_deaths);
	tcase_add_native(tc, acquire_after_dead_waiters);
	tcase_add_native(tc, a_writers_release_to_readers);
}

int main(void)
{
	return fixture_main("growth-processes", add);
}
