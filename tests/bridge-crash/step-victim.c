/* SPDX-License-Identifier: MIT */
/*
 * step-victim.c - a leader that catches itself; see bridge-crash/step.h
 *
 * All of this runs in the victim, in handlers of its own faults, so that a point costs microseconds and nothing is
 * traced.  Life words stay writable: the kernel marks them at a death, by the mapping of the dead.  Both threads of the
 * leader are watched; one works at a time, but the listener may ring meanwhile: what is written in that moment is let
 * through, and the next round may find a point that was missed.
 */
#define _GNU_SOURCE
#include "step.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "bridge/serve.h"
#include "segment/segment.h"

#define TRAP_FLAG 0x100 /* of x86: a trap after the next instruction */

enum armed { IDLE = 0, ARMED, CAUGHT };

enum step_point { BEFORE_WRITE = 1, BEHIND_WRITE, BEFORE_SEND, BEHIND_SEND };

/* Between victim and test. */
struct shared {
	int state; /* cas: enum armed */
	enum how how;
	unsigned target, passed;
	enum step_point place;
	uintptr_t pc;
	long at; /* offset in the segment, or how many bytes are sent */
};

static struct shared *shared;
static pid_t victim;
static bool dead, stopped, retired;
static lockshm_canceller_t retirement;
static char *from, *lives, *lives_end, *to; /* the segment */
static bool watches;
static __thread bool stepping;
static __thread long written; /* where, the last time */

ssize_t __real_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);

/* ---------------------------------------------------------------- in the victim */

static void point(enum step_point place, uintptr_t pc, long at)
{
	int armed = ARMED;

	if (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) != ARMED)
		return;
	if (place == (shared->how == HOW_KILL ? BEFORE_WRITE : BEHIND_WRITE) || shared->passed++ != shared->target)
		return;
	shared->place = place;
	shared->pc = pc;
	shared->at = at;
	if (__atomic_compare_exchange_n(&shared->state, &armed, CAUGHT, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		kill(getpid(), shared->how == HOW_KILL ? SIGKILL : SIGSTOP);
}

/* System calls, as nothing else is safe here. */
static void protect(int how)
{
	if (mprotect(from, (size_t)(lives - from), how) != 0 || mprotect(lives_end, (size_t)(to - lives_end), how) != 0)
		_exit(101);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags)
{
	ssize_t sent;

	if (!watches)
		return __real_send(fd, bytes, n, flags);
	point(BEFORE_SEND, (uintptr_t)__builtin_return_address(0), (long)n);
	sent = __real_send(fd, bytes, n, flags);
	if (sent > 0) {
		int err = errno;

		point(BEHIND_SEND, (uintptr_t)__builtin_return_address(0), (long)n);
		errno = err;
	}
	return sent;
}

#if defined(__x86_64__)
static void on_fault(int signal_number, siginfo_t *info, void *arg)
{
	ucontext_t *u = arg;
	char *at = info->si_addr;

	if (at < from || at >= to) {
		signal(signal_number, SIG_DFL); /* not a fault of ours: it dies of it */
		return;
	}
	/* Again, as another thread was here in between. */
	if (!stepping)
		point(BEFORE_WRITE, (uintptr_t)u->uc_mcontext.gregs[REG_RIP], at - from);
	stepping = true;
	written = at - from;
	protect(PROT_READ | PROT_WRITE);
	u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_trap(int signal_number, siginfo_t *info, void *arg)
{
	ucontext_t *u = arg;

	(void)info;
	if (!stepping) {
		signal(signal_number, SIG_DFL);
		return;
	}
	u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	protect(PROT_READ);
	stepping = false;
	point(BEHIND_WRITE, (uintptr_t)u->uc_mcontext.gregs[REG_RIP], written);
}

static void catch_writes(const lockshm_t *s)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	from = (char *)s->header;
	lives = (char *)s->lives;
	lives_end = lives + (size_t)s->n_owners * LIFE_BYTES;
	to = from + s->size;
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGTRAP, &trap, NULL);
	watches = true;
	protect(PROT_READ);
}
#else
static void catch_writes(const lockshm_t *s)
{
	(void)s;
	(void)protect;
	(void)stepping;
	(void)written;
	_exit(101);
}
#endif

static void on_term(int signal_number)
{
	(void)signal_number;
	lockshm_cancel(&retirement);
}

static void __attribute__((noreturn)) be_victim(pid_t parent)
{
	lockshm_t *s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || lockshm_open(&s, hosts[0].name, 0, NULL) != 0)
		_exit(100);
	signal(SIGTERM, on_term);
	catch_writes(s);
	_exit(bridge_serve(s, &retirement, NULL, NULL) == LOCKSHM_CANCELLED ? 0 : 102);
}

/* ---------------------------------------------------------------- in the test */

bool victim_possible(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
	return false;
#else
	return !emulated();
#endif
}

static bool is_bridge(void *arg)
{
	(void)arg;
	return bridge_of(0).pid == victim;
}

pid_t victim_pid(void)
{
	return victim;
}

void victim_start(void)
{
	pid_t parent = getpid();

	if (!shared) {
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		ck_assert_ptr_ne(shared, MAP_FAILED);
	}
	memset(shared, 0, sizeof(*shared));
	dead = stopped = retired = false;
	victim = fork();
	ck_assert_int_ge(victim, 0);
	if (victim == 0)
		be_victim(parent);
	ck_assert_msg(await(is_bridge, NULL), "the victim does not become the bridge");
}

void victim_arm(enum how how, unsigned points)
{
	shared->how = how;
	shared->target = points;
	shared->passed = 0;
	__atomic_store_n(&shared->state, ARMED, __ATOMIC_RELEASE);
}

/* It has ended: only by its own hand, or by command. */
static void reap(int status)
{
	dead = true;
	retired = retired && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (retired)
		return;
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
			      __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == CAUGHT && shared->how == HOW_KILL,
		      "the victim ended by itself: %#x", (unsigned)status);
}

bool victim_caught(void)
{
	int status;
	pid_t got;

	if (dead)
		return !retired;
	got = waitpid(victim, &status, WNOHANG | WUNTRACED);
	ck_assert_int_ge(got, 0);
	/* Reported once. */
	stopped = stopped || (got == victim && WIFSTOPPED(status));
	if (got == victim && !WIFSTOPPED(status))
		reap(status);
	return dead ? !retired : stopped;
}

static bool is_caught(void *arg)
{
	(void)arg;
	return victim_caught();
}

bool victim_disarm(void)
{
	int armed = ARMED;

	if (__atomic_compare_exchange_n(&shared->state, &armed, IDLE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return false;
	ck_assert(await(is_caught, NULL));
	return true;
}

unsigned victim_points(void)
{
	return shared->passed;
}

const char *victim_place(void)
{
	static const char *const names[] = { "nowhere", "before the write", "behind the write", "before the send",
					     "behind the send" };
	static char text[128];

	snprintf(text, sizeof(text), "%s of %ld at %#lx", names[shared->place], shared->at, (unsigned long)shared->pc);
	return text;
}

bool victim_wrote(const void *word)
{
	return shared->place == BEHIND_WRITE && shared->at == (const char *)word - (const char *)hosts[0].s->header;
}

/* One sleeps on the doorbell, the other one on the connections. */
static bool thread_rests(const char *tid)
{
	char path[80];
	long call = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/syscall", (int)victim, tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%ld", &call) != 1)
		call = -1;
	fclose(file);
	return call == SYS_futex || call == 449 /* futex_waitv */ || call == SYS_epoll_wait || call == SYS_epoll_pwait;
}

bool victim_rests(void)
{
	const struct dirent *thread;
	char path[48];
	bool rests = true;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)victim);
	threads = dead ? NULL : opendir(path);
	if (!threads)
		return false;
	while ((thread = readdir(threads)))
		rests = rests && (thread->d_name[0] == '.' || thread_rests(thread->d_name));
	closedir(threads);
	return rests;
}

void victim_continue(void)
{
	kill(victim, SIGCONT);
}

void victim_retire(void)
{
	retired = true;
	kill(victim, SIGTERM);
}

bool victim_retired(void)
{
	int status;

	if (!dead && waitpid(victim, &status, WNOHANG) == victim)
		reap(status);
	return dead && retired;
}

bool victim_end(void)
{
	int status;

	if (dead || victim_retired())
		return false;
	kill(victim, SIGKILL);
	ck_assert_int_eq(waitpid(victim, &status, 0), victim);
	ck_assert_msg((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (retired && status == 0),
		      "the victim ended by itself: %#x", (unsigned)status);
	dead = true;
	return true;
}
