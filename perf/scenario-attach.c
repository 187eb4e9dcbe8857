/* SPDX-License-Identifier: MIT */
/*
 * scenario-attach.c - the cost of a new process until its first release; and that of inspecting all locks
 *
 * From the first call of the lock's library to the end of the first release: open, map, register.  A lock in memory
 * that children inherit needs no open.  "attach-calls" is a floor: the bare system calls of a process that maps an
 * existing segment, and reads its own identity from the kernel, so that its death can be told from that of a process
 * with the same pid.  "attach-life" is that and what an exact death costs: a robust mutex half in a page of the segment,
 * half in a private one, that page cleared, the thread's own stat and name, a word that fork wipes, and a page each of the
 * tables where a first request looks.  "first-renewed" is from the open to a lock with automatic renewal, "first-loop" to
 * an event loop, with "-9" in a process of nine threads.  "lockctl-ls" is the time of `lockctl ls` with 100,000 locks
 * held, from its start to its end.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockshm.h"

#define PAGE 4096 /* as the library has them */
#define LS_KEYS 100000u
#define TAKE_MS 120000
#define OTHER_THREADS 8

static const int attaches[BENCH_EFFORTS] = { 2, 40, 200 };

struct scene {
	const struct lock_adapter *lock;
	uint64_t ticks;
	uint32_t taken;
};

static void attach(void *arg)
{
	struct scene *s = arg;
	uint64_t from = bench_ticks();

	s->lock->attach();
	s->lock->lock(0, BENCH_EXCLUSIVE);
	s->lock->unlock(0, BENCH_EXCLUSIVE);
	s->ticks = bench_ticks() - from;
	s->lock->detach();
}

static volatile char *map_bare(struct stat *st)
{
	char path[128];
	void *map;
	int fd;

	snprintf(path, sizeof(path), "/dev/shm%s", lockshm_bench_segment());
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, st) != 0)
		bench_fail(path);
	map = mmap(NULL, (size_t)st->st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		bench_fail("mmap");
	return map;
}

/* One page of every @n-th part of the segment: the header, the table, requests, owners. */
static void touch_bare(volatile char *map, const struct stat *st, int n)
{
	for (int i = 0; i < n; i++)
		(void)map[st->st_size / n * i];
}

static void read_bare(const char *path)
{
	char text[1024];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
		bench_fail(path);
	close(fd);
}

static void stat_bare(void)
{
	struct stat st;

	if (stat("/proc/self/ns/time", &st) != 0 || stat("/proc/self/ns/pid", &st) != 0)
		errno = 0; /* an old kernel */
}

/* Maps the segment and touches a page each of its header, table, requests and owners; reads the process' start time;
 * checks the clock. */
static void bare_calls(void *arg)
{
	struct scene *s = arg;
	uint64_t from = bench_ticks();
	struct stat st;
	char path[128];

	touch_bare(map_bare(&st), &st, 4);
	stat_bare();
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)getpid());
	read_bare(path);
	s->ticks = bench_ticks() - from;
}

/* The page of the segment once more, with a private one behind it. */
static unsigned char *alias_bare(volatile char *page)
{
	void *room = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED || mremap((void *)(uintptr_t)page, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room)
		bench_fail("mremap");
	return room;
}

static void live_bare(volatile char *page)
{
	unsigned char *view = alias_bare(page);
	pthread_mutex_t *life = (pthread_mutex_t *)(void *)(view + PAGE - 8);
	pthread_mutexattr_t attr;
	size_t len;
	void *head;

	memset((void *)(uintptr_t)page, 0, PAGE);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (pthread_mutex_init(life, &attr) != 0 || pthread_mutex_trylock(life) != 0)
		bench_fail("a robust mutex");
	syscall(SYS_get_robust_list, 0, &head, &len);
}

static void life_calls(void *arg)
{
	struct scene *s = arg;
	uint64_t from = bench_ticks();
	volatile char *map;
	struct stat st;
	char path[128];
	uint64_t *epoch;

	map = map_bare(&st);
	touch_bare(map, &st, 8);
	stat_bare();
	epoch = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (epoch == MAP_FAILED || madvise(epoch, PAGE, MADV_WIPEONFORK) != 0)
		bench_fail("a word that fork wipes");
	*epoch = 1;
	if (readlink("/proc/self", path, sizeof(path)) < 0 || prctl(PR_GET_NAME, path) != 0)
		bench_fail("/proc/self");
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)getpid(), (int)getpid());
	read_bare(path);
	live_bare(map + st.st_size / PAGE / 2 * PAGE);
	s->ticks = bench_ticks() - from;
}

static void *sit(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* The first call of a new process that needs the thread of the library: a renewed lock, or a loop. */
static void first_call(struct scene *s, int threads, bool renewed)
{
	struct lockshm_request q = LOCKSHM_REQUEST("first");
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_loop_t *loop;
	pthread_t thread;
	uint64_t from;
	lockshm_t *l;
	int status;

	while (threads-- > 0)
		if (pthread_create(&thread, NULL, sit, NULL) != 0)
			bench_fail("a thread");
	q.flags = LOCKSHM_AUTO_RENEW;
	from = bench_ticks();
	status = lockshm_open(&l, lockshm_bench_segment(), 0, NULL);
	if (status == 0)
		status = renewed ? lockshm_acquire(l, &q, &hold) : lockshm_loop_open(&loop, l, -1, NULL);
	s->ticks = bench_ticks() - from;
	if (status != 0)
		bench_fail("the first call");
}

static void first_renewed(void *arg)
{
	first_call(arg, 0, true);
}

static void first_renewed_threads(void *arg)
{
	first_call(arg, OTHER_THREADS, true);
}

static void first_loop(void *arg)
{
	first_call(arg, 0, false);
}

static void first_loop_threads(void *arg)
{
	first_call(arg, OTHER_THREADS, false);
}

static void take_all(void *arg)
{
	struct scene *s = arg;

	s->lock->attach();
	for (uint32_t key = 0; key < LS_KEYS; key++)
		s->lock->keep(key);
	bench_set(&s->taken, 1);
	for (;;)
		pause();
}

/* In the benchmark's own directory, where make puts it. */
static void become_ls(void *arg)
{
	char path[512];
	const char *slash = strrchr(bench_program, '/');
	int null = open("/dev/null", O_WRONLY);

	(void)arg;
	snprintf(path, sizeof(path), "%.*s/../lockctl", slash ? (int)(slash - bench_program) : 1,
		 slash ? bench_program : ".");
	if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
		bench_fail("/dev/null");
	execl(path, "lockctl", "ls", lockshm_bench_segment(), (char *)NULL);
	bench_fail(path);
}

static void run_ls(const struct point *p, struct scene *s)
{
	const struct bench_need need = { .keys = LS_KEYS, .procs = 2 };
	uint64_t from;
	pid_t service;

	memset(s, 0, sizeof(*s));
	s->lock = &adapter_lockshm;
	if (bench_create(s->lock, &need))
		return;
	service = bench_spawn(bench_cpu(0), take_all, s);
	if (!bench_wait(&s->taken, 1, TAKE_MS))
		bench_fail("the keys are not taken");
	from = bench_ticks();
	bench_reap(bench_spawn(bench_cpu(1), become_ls, s), "lockctl ls");
	result_add(p, "lockctl-ls", US_P50, (double)(bench_ticks() - from) * bench_ns_per_tick / 1000, 0);
	bench_kill(service);
	bench_destroy(s->lock);
}

static void run_floor(const struct point *p, struct scene *s, const char *name, void (*calls)(void *))
{
	static struct hist hist;

	memset(&hist, 0, sizeof(hist));
	for (int i = 0; i < attaches[bench_effort]; i++) {
		bench_reap(bench_spawn(bench_cpu(1), calls, s), name);
		hist_add(&hist, s->ticks);
	}
	result_add_hist(p, name, &hist, 0);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = 2 };
	static struct hist hist;
	static struct scene *s;

	if (!s)
		s = bench_share(sizeof(*s));
	if (bench_create(lock, &need))
		return;
	memset(&hist, 0, sizeof(hist));
	for (int i = 0; i < attaches[bench_effort]; i++) {
		memset(s, 0, sizeof(*s));
		s->lock = lock;
		bench_reap(bench_spawn(bench_cpu(1), attach, s), lock->name);
		hist_add(&hist, s->ticks);
	}
	if (lock == &adapter_lockshm) {
		run_floor(p, s, "attach-calls", bare_calls);
		run_floor(p, s, "attach-life", life_calls);
		run_floor(p, s, "first-renewed", first_renewed);
		run_floor(p, s, "first-renewed-9", first_renewed_threads);
		run_floor(p, s, "first-loop", first_loop);
		run_floor(p, s, "first-loop-9", first_loop_threads);
	}
	bench_destroy(lock);
	result_add_hist(p, lock->name, &hist, 0);
	if (lock == &adapter_lockshm && bench_effort != BENCH_QUICK)
		run_ls(p, s);
}

static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	(void)p;
	return !(lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO));
}

const struct scenario scenario_attach = {
	.name = "attach",
	.what = "a new process: from opening the lock to the end of its first acquire and release",
	.first = US_P50,
	.fits = fits,
	.run = run,
	.procs = { { 1 }, { 1 }, { 1 } },
};
