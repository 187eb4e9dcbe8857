/* SPDX-License-Identifier: MIT */
/*
 * scenario-attach.c - the cost of a new process until its first release; and that of inspecting all locks
 *
 * From the first call of the lock's library to the end of the first release: open, map, register.  A lock in memory
 * that children inherit needs no open.  "attach-calls" is a floor: the bare system calls of a process that maps an
 * existing segment, and reads its own identity from the kernel, so that its death can be told from that of a process
 * with the same pid. "lockctl-ls" is the time of `lockctl ls` with 100,000 locks held, from its start to its end.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LS_KEYS 100000u
#define TAKE_MS 120000

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

/*
 * Maps the segment and touches a page each of its header, table, requests and owners; reads the process' start time;
 * checks the clock.
 */
static void bare_calls(void *arg)
{
	char path[128], text[1024];
	struct scene *s = arg;
	uint64_t from = bench_ticks();
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/dev/shm%s", lockshm_bench_segment());
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		volatile char *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		for (int i = 0; map != MAP_FAILED && i < 4; i++)
			(void)map[st.st_size / 4 * i];
	}
	if (stat("/proc/self/ns/time", &st) != 0 || stat("/proc/self/ns/pid", &st) != 0)
		errno = 0; /* an old kernel */
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
		bench_fail(path);
	close(fd);
	s->ticks = bench_ticks() - from;
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

static void run_calls(const struct point *p, struct scene *s)
{
	static struct hist hist;

	memset(&hist, 0, sizeof(hist));
	for (int i = 0; i < attaches[bench_effort]; i++) {
		bench_reap(bench_spawn(bench_cpu(1), bare_calls, s), "attach-calls");
		hist_add(&hist, s->ticks);
	}
	result_add_hist(p, "attach-calls", &hist, 0);
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
	if (lock == &adapter_lockshm)
		run_calls(p, s);
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
