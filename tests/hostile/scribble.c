/* SPDX-License-Identifier: MIT */
/*
 * scribble.c - four workers use a segment while another process writes nonsense into it
 *
 *   scribble [SECONDS [SEED]]       3 seconds and a seed from the clock if not given
 *
 * Rounds of a quarter of a second, each with a new segment and new workers.  The scribbler changes a word every few
 * microseconds: to another index, state, or generation, to the word next to it, to anything.  Results of the workers do
 * not matter; they must neither crash nor hang, and neither must lockctl, which runs at the same time if LOCKCTL names
 * it.  Waits in event loops end in time, each once.  A round begins with the same numbers if SEED is given, but the
 * order between processes is up to the kernel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scribble-loop.h"
#include "support/rows.h"
#include "segment/words.h"
#include "lockshm.h"

enum {
	WORKERS = 4,
	HOLDS = 4,
	KEYS = 10,
	ROUND_MS = 250,
	PATIENCE_MS = 20000, /* for a worker to stop on request */
};

static char name[64], path[96];
static uint64_t state;

struct shared {
	_Atomic int stop;
	_Atomic uint64_t calls, held, errors, opened;
};
static struct shared *shared;
static uint64_t scribbles, commands;

static uint64_t next(void)
{
	uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint32_t below(uint32_t n)
{
	return (uint32_t)(next() % n);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void nap(long us)
{
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

/* ---------------------------------------------------------------- a worker */

static lockshm_t *segment;
static lockshm_hold_t holds[HOLDS];

static void list(int what)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	volatile unsigned sum = 0;
	size_t i;
	int code;

	EACH_ROW(row, code, segment, what, NULL, 0)
	{
		for (i = 0; i < row.key_shown; i++)
			sum += row.key[i];
		sum += (unsigned)strlen(row.request.tag) + (unsigned)row.request.pid;
	}
	(void)sum;
}

/* One look: what others scribble over may never end. */
static int clear_some_marks(void)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	EACH_ROW(row, code, segment, LOCKSHM_LIST_BUSY, NULL, 0)
		if (row.damage.status)
			(void)lockshm_acknowledge_of(segment, row.id, row.damage.token);
	return code;
}

static void look(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	list(LOCKSHM_LIST_BUSY);
	list(LOCKSHM_LIST_OWNERS);
	lockshm_stat(segment, &stat);
}

void fill_request(struct lockshm_request *request, char key[16])
{
	*request = (struct lockshm_request)LOCKSHM_REQUEST_INIT;
	snprintf(key, 16, "key-%u", below(KEYS));
	request->key = key;
	request->key_len = strlen(key);
	request->mode = below(3) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	request->ttl_ns = below(4) ? LOCKSHM_MS(1 + below(8)) : LOCKSHM_FOREVER;
	request->timeout_ns = below(2) ? 0 : below(2000000);
	request->tag = below(2) ? "worker" : NULL;
	if (below(16) == 0 && request->ttl_ns != LOCKSHM_FOREVER) {
		request->ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN;
		request->flags = LOCKSHM_AUTO_RENEW;
	}
	if (below(2))
		request->flags |= LOCKSHM_ROBUST;
}

static int acquire(lockshm_hold_t *hold)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_request request;
	char key[16];

	fill_request(&request, key);
	request.report = &report;
	return lockshm_acquire(segment, &request, hold);
}

int use(lockshm_hold_t *hold)
{
	struct lockshm_damage mark;
	int64_t left;

	switch (below(18)) {
	case 0:
		return lockshm_check(hold, &left);
	case 1:
		return (below(2) ? lockshm_extend : lockshm_renew)(hold, LOCKSHM_MS(2));
	case 2:
		return lockshm_upgrade(hold);
	case 3:
		return lockshm_downgrade(hold);
	case 4:
		return lockshm_acknowledge(hold);
	case 5:
		return lockshm_move(hold, below(2) ? LOCKSHM_TO_PROCESS : LOCKSHM_TO_CALLER);
	case 6:
		return lockshm_release(hold, LOCKSHM_MS(1));
	case 7:
		return lockshm_sweep(segment, NULL);
	case 8:
		look();
		return 0;
	case 9:
		return lockshm_damage(hold, &mark);
	case 10:
		return clear_some_marks();
	default:
		return lockshm_release(hold, 0);
	}
}

static void one_call(void)
{
	lockshm_hold_t *hold = &holds[below(HOLDS)];
	int code = below(2) ? loop_call(segment) : lockshm_token(hold) ? use(hold) : acquire(hold);

	shared->calls++;
	shared->held += code >= 0;
	shared->errors += code < 0;
	/* Like a program: open it again.  Other errors may be gone with the next call. */
	if (code == LOCKSHM_NO_SEGMENT || below(500) == 0) {
		loop_end();
		lockshm_close(segment);
		segment = NULL;
	}
}

static _Noreturn void work(uint64_t seed)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	state = seed;
	while (!shared->stop) {
		if (segment) {
			one_call();
		} else if (lockshm_open(&segment, name, 0, NULL) == 0) {
			shared->opened++;
		} else {
			segment = NULL;
			nap(500);
		}
	}
	loop_finish();
	/* The end of the process ends its part; half of the workers leave in good order. */
	if (segment && below(2)) {
		loop_end();
		lockshm_close(segment);
	}
	exit(0);
}

/* ---------------------------------------------------------------- the scribbler */

struct part {
	uint64_t at, size;
	unsigned weight;
};

#define LIVES_WEIGHT 10

static void parts_of(const struct shm_header *h, struct part parts[9])
{
	const struct part all[9] = {
		{ h->requests_off, (h->n_requests + 1) * sizeof(struct shm_request), 40 },
		{ h->entries_off, h->n_locks * sizeof(struct shm_entry), 20 },
		{ h->owners_off, h->n_owners * sizeof(struct shm_owner), 12 },
		{ h->lives_off, h->n_owners * (uint64_t)LIFE_BYTES, LIVES_WEIGHT },
		{ h->buckets_off, h->n_buckets * sizeof(struct shm_bucket), 6 },
		{ h->tags_off, h->n_locks * sizeof(uint16_t), 3 },
		{ h->details_off, h->n_locks * sizeof(struct shm_detail), 3 },
		{ h->damages_off, h->n_damages * sizeof(struct shm_damage), 2 },
		{ 0, sizeof(struct shm_header), 4 },
	};

	memcpy(parts, all, sizeof(all));
}

static uint64_t qpos(const struct part parts[9])
{
	uint32_t w = below(100);
	uint64_t page;
	unsigned i;

	for (i = 0; w >= parts[i].weight; i++)
		w -= parts[i].weight;
	/* The life words are at the ends of their pages, the doorbells near the begin. */
	if (parts[i].weight == LIVES_WEIGHT && below(8)) {
		page = parts[i].at + below((uint32_t)(parts[i].size / LIFE_BYTES)) * (uint64_t)LIFE_BYTES;
		return below(2) ? page + LIFE_BYTES - 8 :
				  page + DOORBELL_OFFSET + below(sizeof(struct shm_doorbell) / 8) * 8;
	}
	return parts[i].at + below((uint32_t)(parts[i].size / 8)) * 8;
}

static uint64_t nonsense(const uint64_t *word)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	switch (below(10)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return old + below(5) - 2;
	case 3:
		return old ^ UINT64_C(1) << below(64);
	case 4:
		return (old & ~INDEX_MAX) | below(70);
	case 5:
		return (old & ~(UINT64_C(15) << 18)) | (uint64_t)below(16) << 18;
	case 6:
		return old + (UINT64_C(1) << 23);
	case 7:
		return __atomic_load_n(word + 1, __ATOMIC_RELAXED);
	case 8:
		return (old & UINT64_C(0xffffffff00000000)) | (uint32_t)next();
	default:
		return next();
	}
}

static void scribble(unsigned char *map, const struct shm_header *good, const struct part parts[9], int64_t until)
{
	struct shm_header *h = (void *)map;

	while (now_ms() < until) {
		unsigned i, n = 1 + below(20);

		for (i = 0; i < n; i++) {
			uint64_t *word = (uint64_t *)(void *)(map + qpos(parts));

			__atomic_store_n(word, nonsense(word), __ATOMIC_RELAXED);
			scribbles++;
		}
		/* Without a header every open fails, and the rest is not tested. */
		if (below(8) == 0)
			memcpy(h, good, sizeof(*h));
		nap(below(200));
	}
}

/* ---------------------------------------------------------------- lockctl at the same time */

static pid_t run_command(void)
{
	static const char *const forms[][8] = {
		{ "lockctl", "ls", name, NULL },
		{ "lockctl", "ls", name, "--json", NULL },
		{ "lockctl", "show", name, "key-1", NULL },
		{ "lockctl", "stat", name, NULL },
		{ "lockctl", "sweep", name, NULL },
		{ "lockctl", "verify", name, NULL },
		{ "lockctl", "release", name, "key-2", "--token", "5", NULL },
		{ "lockctl", "ack", name, "key-3", "-w", "5ms", NULL },
		{ "lockctl", "run", name, "key-4", "-w", "5ms", "true" },
	};
	const char *lockctl = getenv("LOCKCTL");
	const char *argv[9] = { NULL };
	int null;
	pid_t pid;

	if (!lockctl || !*lockctl)
		return 0;
	memcpy(argv, forms[below(sizeof(forms) / sizeof(forms[0]))], 8 * sizeof(argv[0]));
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	null = open("/dev/null", O_RDWR);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	execv(lockctl, (char *const *)argv);
	_exit(98);
}

/* ---------------------------------------------------------------- rounds */

static uint64_t seed;
static unsigned rounds;

static void remove_name(void)
{
	lockshm_destroy(name, NULL);
}

static void fail(const char *what, int number)
{
	fprintf(stderr, "scribble: seed %llu, round %u: %s %d\n", (unsigned long long)seed, rounds, what, number);
	exit(1);
}

/* @pid ends by itself; 0 = there is none. */
static void await(pid_t pid, const char *program)
{
	int64_t until = now_ms() + PATIENCE_MS;
	int status = 0;
	pid_t ended = 0;

	while (pid && !ended) {
		ended = waitpid(pid, &status, WNOHANG);
		if (!ended && now_ms() > until) {
			/* A core file or a debugger shows where. */
			kill(pid, SIGABRT);
			fail("hangs: a", program[0]);
		}
		if (!ended)
			nap(500);
	}
	if (pid && WIFSIGNALED(status)) {
		fprintf(stderr, "scribble: a %s was ended by %s\n", program, strsignal(WTERMSIG(status)));
		fail("signal", WTERMSIG(status));
	}
	/* 99: a sanitizer's report.  98: no lockctl.  97: an outcome is wrong. */
	if (pid && WEXITSTATUS(status) >= SCRIBBLE_LOST && WEXITSTATUS(status) <= 99)
		fail(program, WEXITSTATUS(status));
}

static unsigned char *make_segment(size_t *size)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	struct shm_header h;
	unsigned char *map;
	int fd;

	options.keys = 64;
	options.requests = 64;
	options.owners = 16;
	if (lockshm_create(NULL, name, &options, &error) != 0) {
		fprintf(stderr, "scribble: %s\n", error.message);
		exit(99);
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || read(fd, &h, sizeof(h)) != (ssize_t)sizeof(h))
		exit(99);
	*size = h.total_size;
	map = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		exit(99);
	return map;
}

static void play_round(void)
{
	struct part parts[9];
	struct shm_header good;
	pid_t workers[WORKERS], command;
	size_t size;
	unsigned char *map = make_segment(&size);
	unsigned i;

	memcpy(&good, map, sizeof(good));
	parts_of(&good, parts);
	shared->stop = 0;
	for (i = 0; i < WORKERS; i++) {
		uint64_t s = next();

		workers[i] = fork();
		if (workers[i] < 0)
			exit(99);
		if (workers[i] == 0)
			work(s);
	}
	scribble(map, &good, parts, now_ms() + ROUND_MS / 3);
	command = run_command();
	commands += command != 0;
	scribble(map, &good, parts, now_ms() + ROUND_MS * 2 / 3);
	shared->stop = 1;
	for (i = 0; i < WORKERS; i++)
		await(workers[i], "worker");
	await(command, "lockctl");
	munmap(map, size);
	unlink(path);
}

int main(int argc, char **argv)
{
	int64_t seconds = argc > 1 ? atoll(argv[1]) : 3, until = now_ms() + seconds * 1000;

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) % 1000000;
	snprintf(name, sizeof(name), "/lockshm-scribble-%d", (int)getpid());
	snprintf(path, sizeof(path), "/dev/shm%s", name);
	printf("scribble: seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 99;
	atexit(remove_name);
	for (rounds = 0; now_ms() < until; rounds++) {
		state = seed + rounds * UINT64_C(1000003);
		play_round();
	}
	printf("%u rounds: %llu words changed under %llu calls, of which %llu failed; %llu times opened, %llu times lockctl\n",
	       rounds, (unsigned long long)scribbles, (unsigned long long)shared->calls, (unsigned long long)shared->errors,
	       (unsigned long long)shared->opened, (unsigned long long)commands);
	/* A segment that no worker can use would prove nothing. */
	return shared->held > 0 ? 0 : 1;
}
