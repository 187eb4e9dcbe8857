/* SPDX-License-Identifier: MIT */
/*
 * bench-process.c - pinned processes, the words that synchronize them, and the clean-up at the end of a run
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_US 50
#define NAP_NS 100000000
#define CHILDREN_MAX 1100

const char *bench_program = "lockshm-bench";
static volatile sig_atomic_t stopped;
static pid_t main_process;
static const struct lock_adapter *created;
static char reason[256];
static pid_t children[CHILDREN_MAX];
static size_t n_children;

void bench_fail(const char *what)
{
	if (errno)
		fprintf(stderr, "lockshm-bench: %s: %s\n", what, strerror(errno));
	else
		fprintf(stderr, "lockshm-bench: %s\n", what);
	exit(1);
}

void bench_why(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
}

const char *bench_reason(void)
{
	return reason[0] ? reason : "not possible here";
}

static void on_stop(int sig)
{
	stopped = sig;
}

/* Outside of the terminal's session ^C does not arrive: the end of make, or of the shell, must. */
static void watch_for_stop(void)
{
	struct sigaction act = { .sa_handler = on_stop }; /* no SA_RESTART: it must end waits */

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	signal(SIGPIPE, SIG_IGN); /* a server that ended is an error of the adapter */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
}

/* Before what they use is destroyed. */
static void kill_children(void)
{
	while (n_children)
		bench_kill(children[n_children - 1]);
}

static void clear_away(void)
{
	if (getpid() != main_process)
		return;
	kill_children();
	if (created)
		created->destroy();
	server_stop_all();
}

static void __attribute__((noreturn)) stop(void)
{
	if (getpid() == main_process)
		fprintf(stderr, "lockshm-bench: stopped by signal %d\n", (int)stopped);
	exit(1);
}

void bench_process_init(void)
{
	main_process = getpid();
	atexit(clear_away);
	watch_for_stop();
}

int bench_create(const struct lock_adapter *lock, const struct bench_need *need)
{
	int rc;

	reason[0] = 0;
	errno = 0;
	rc = lock->create(need);
	if (!rc)
		created = lock;
	else if (!reason[0] && errno)
		bench_why("%s", strerror(errno));
	return rc;
}

void bench_destroy(const struct lock_adapter *lock)
{
	created = NULL;
	lock->destroy();
}

void bench_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_fail("sched_setaffinity");
}

void *bench_share(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		bench_fail("mmap");
	return p;
}

void bench_unshare(void *p, size_t size)
{
	munmap(p, size);
}

pid_t bench_spawn(int cpu, void (*body)(void *), void *arg)
{
	pid_t parent = getpid();
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		bench_fail("fork");
	if (pid) {
		if (n_children < CHILDREN_MAX)
			children[n_children++] = pid;
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* an aborted run leaves no spinning process */
	if (getppid() != parent)
		_exit(1);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	bench_pin(cpu);
	errno = 0;
	body(arg);
	fflush(NULL);
	_exit(0);
}

static void forget_child(pid_t pid)
{
	for (size_t i = n_children; i--;) {
		if (children[i] != pid)
			continue;
		children[i] = children[--n_children];
		return;
	}
}

void bench_reap(pid_t pid, const char *who)
{
	int status;

	while (waitpid(pid, &status, 0) != pid) {
		if (stopped)
			stop();
		if (errno != EINTR)
			bench_fail("waitpid");
	}
	forget_child(pid);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	fprintf(stderr, "lockshm-bench: a process of %s ended with status 0x%x\n", who, (unsigned)status);
	exit(1);
}

void bench_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) != pid && errno == EINTR)
		;
	forget_child(pid);
}

static void wake_all(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void bench_set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	wake_all(word);
}

void bench_add(uint32_t *word)
{
	__atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
	wake_all(word);
}

/* Sleeps, so that an observer takes no processor from the measured processes; wakes now and then for signals. */
bool bench_wait(uint32_t *word, uint32_t value, int ms)
{
	uint64_t from = bench_ticks();
	uint64_t limit = bench_ticks_of_ns(ms * 1e6);
	uint32_t seen;

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < value) {
		struct timespec nap = { 0, NAP_NS };

		if (stopped)
			stop();
		if (bench_ticks() - from > limit)
			return false;
		syscall(SYS_futex, word, FUTEX_WAIT, seen, &nap, NULL, 0);
	}
	return true;
}

static char state_of(pid_t pid)
{
	char path[64], text[512];
	const char *paren;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	paren = strrchr(text, ')');
	return paren && paren[1] ? paren[2] : 0;
}

bool bench_wait_asleep(pid_t pid, int ms)
{
	uint64_t from = bench_ticks();
	uint64_t limit = bench_ticks_of_ns(ms * 1e6);

	while (state_of(pid) != 'S') {
		if (stopped)
			stop();
		if (bench_ticks() - from > limit)
			return false;
		usleep(POLL_US);
	}
	return true;
}
