/* SPDX-License-Identifier: MIT */
/*
 * test-hostile.c - any 8-byte word of a segment may hold anything: every call gives a result or
 * an error, in bounded time
 *
 * A real segment with holders, waiters, a dead owner, damage, a cooling key and shared holds is copied as a file image.
 * Job = (word, value): the image with that word replaced is opened and used by a worker process.  In the second test
 * the word is replaced in the live mapping of a thread that holds locks.  A worker that crashes or is
 * ended by its alarm is a failure; the next worker goes on with the next job.
 *
 *   test-hostile       the words in use, and a sample of the rest
 *   test-hostile all   every word of the file
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/inside.h"

#define WORKERS 16
#define VALUES 6
#define JOB_SECONDS 20

static bool every;

static unsigned char *image;
static size_t image_size;
static uint32_t *jobs; /* word * VALUES + value */
static uint32_t n_jobs;
/* Shared with the workers: the number of the job each is at. */
static volatile uint32_t *at_job;

/* ---------------------------------------------------------------- the real segment */

static void acquire_as(struct agent *a, int hold, const char *key, int mode, int64_t ttl)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .hold = hold, .ns = ttl, .tag = "hostile" };

	snprintf(c.key, sizeof(c.key), "%s", key);
	(void)agent_begin(a, c);
}

static void populate(void)
{
	struct agent *a = agent_start(), *b = agent_start(), *dies = agent_start(), *c = agent_start();

	acquire_as(a, 0, "held", LOCKSHM_EXCLUSIVE, 0);
	acquire_as(a, 1, "shared", LOCKSHM_SHARED, LOCKSHM_SECONDS(60));
	acquire_as(b, 1, "shared", LOCKSHM_SHARED, LOCKSHM_SECONDS(60));
	acquire_as(a, 2, "cooling", LOCKSHM_EXCLUSIVE, 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = 2, .ns = LOCKSHM_SECONDS(60) }), 0);
	acquire_as(dies, 0, "damaged", LOCKSHM_EXCLUSIVE, 0);
	acquire_as(dies, 1, "dead", LOCKSHM_EXCLUSIVE, 0);
	agent_kill(dies);
	acquire_as(c, 0, "damaged", LOCKSHM_EXCLUSIVE, 0);
	ck_code(agent_release(c), 0);
	acquire_as(b, 0, "held", LOCKSHM_SHARED, 0);
	acquire_as(c, 0, "held", LOCKSHM_EXCLUSIVE, 0);
	agent_stop(a);
	agent_stop(b);
	agent_stop(c);
}

static void take_image(void)
{
	struct stat st;
	int fd = open(path_of(seg_name), O_RDONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	image_size = (size_t)st.st_size;
	image = malloc(image_size);
	ck_assert_ptr_nonnull(image);
	ck_assert_int_eq(read(fd, image, image_size), (ssize_t)image_size);
	close(fd);
}

/* Used words, the words next to them, and some of the rest. */
static bool worth_it(size_t word)
{
	const uint64_t *words = (const uint64_t *)(const void *)image;
	size_t n = image_size / 8, k;

	if (every || word < offsetof(struct shm_header, hash_secret) / 8 || word % 61 == 0)
		return true;
	for (k = word > 2 ? word - 2 : 0; k <= word + 2 && k < n; k++)
		if (words[k] != 0)
			return true;
	return false;
}

static void plan_jobs(void)
{
	uint32_t word, value;

	jobs = malloc(image_size / 8 * VALUES * sizeof(*jobs));
	ck_assert_ptr_nonnull(jobs);
	for (word = 0; word < image_size / 8; word++)
		for (value = 0; value < VALUES && worth_it(word); value++)
			jobs[n_jobs++] = word * VALUES + value;
}

static uint64_t hostile_value(uint32_t job, uint64_t old)
{
	switch (job % VALUES) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return old | INDEX_MAX; /* the largest index */
	case 3:
		return old ^ (UINT64_C(1) << 18 << job % 4); /* another state */
	case 4:
		return old + 1; /* a neighbour: the wrong index, generation, offset, or pid */
	default:
		return (job + 1) * UINT64_C(0x9e3779b97f4a7c15); /* random, and the same in every run */
	}
}

/* ---------------------------------------------------------------- what is done with it */

static const char *const keys[] = { "held", "shared", "cooling", "damaged", "dead", "new-1", "new-2", "new-3" };
#define N_KEYS 8

static int list(lockshm_t *s, int what, const char *key, bool acknowledge)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	volatile unsigned sum = 0;
	size_t i;
	int code;

	EACH_ROW(row, code, s, what, key, key ? strlen(key) : 0)
	{
		for (i = 0; i < row.key_shown; i++)
			sum += row.key[i];
		sum += (unsigned)strlen(row.request.tag) + (unsigned)row.request.pid;
		if (acknowledge)
			lockshm_acknowledge_of(s, row.id, row.damage.token);
	}
	(void)sum;
	return code;
}

static void look_around(lockshm_t *s)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	unsigned i;

	for (i = 0; i < N_KEYS; i++)
		list(s, LOCKSHM_LIST_KEY, keys[i], false);
	list(s, LOCKSHM_LIST_BUSY, NULL, false);
	list(s, LOCKSHM_LIST_OWNERS, NULL, false);
	lockshm_stat(s, &stat);
}

static void use_locks(lockshm_t *s)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_damage mark;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int64_t left;
	unsigned i;

	request.report = &report;
	request.flags = LOCKSHM_ROBUST;
	for (i = 0; i < N_KEYS; i++) {
		request.key = keys[i];
		request.key_len = strlen(keys[i]);
		request.mode = i & 1 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
		request.timeout_ns = i < 2 ? LOCKSHM_MS(1) : 0;
		if (lockshm_acquire(s, &request, &hold) < 0)
			continue;
		lockshm_check(&hold, &left);
		lockshm_renew(&hold, LOCKSHM_SECONDS(1));
		(void)!lockshm_upgrade(&hold);
		lockshm_downgrade(&hold);
		lockshm_damage(&hold, &mark);
		lockshm_acknowledge(&hold);
		lockshm_release(&hold, 0);
	}
	lockshm_end_hold(s, "shared", 6, s->token_base + 1);
	list(s, LOCKSHM_LIST_BUSY, NULL, true);
}

static void use_image(uint32_t job, const char *name)
{
	uint64_t *word = (uint64_t *)(void *)image + job / VALUES, old = *word;
	unsigned flags = job & 1 ? LOCKSHM_OPEN_READ_ONLY : 0;
	struct lockshm_error error;
	lockshm_t *s;
	int fd = open(path_of(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	*word = hostile_value(job, old);
	/* Half of the headers get a check word that fits, so that their fields are used. */
	if (job / VALUES < offsetof(struct shm_header, check) / 8 && job % 4 < 2)
		((struct shm_header *)(void *)image)->check = segment_check((struct shm_header *)(void *)image);
	if (fd < 0 || write(fd, image, image_size) != (ssize_t)image_size)
		_exit(1);
	close(fd);
	if (lockshm_open(&s, name, flags, &error) == 0) {
		look_around(s);
		use_locks(s);
		lockshm_sweep(s, NULL);
		if (job % 8 == 0 || every)
			lockshm_verify(s, NULL, NULL, NULL);
		lockshm_close(s);
	}
	*word = old;
	((struct shm_header *)(void *)image)->check = segment_check((struct shm_header *)(void *)image);
}

/* ---------------------------------------------------------------- live */

static int hold_key(lockshm_t *s, lockshm_hold_t *hold, const char *key, int mode)
{
	struct lockshm_request request = request_for(key, mode);

	request.ttl_ns = LOCKSHM_SECONDS(5);
	return lockshm_acquire(s, &request, hold);
}

/* Everything a holder may call, after the word has changed under it. */
static void use_live(uint32_t job, const char *name)
{
	uint64_t *word;
	lockshm_hold_t one = LOCKSHM_HOLD_INIT, two = LOCKSHM_HOLD_INIT;
	struct lockshm_damage mark;
	int64_t left;
	lockshm_t *s;
	int fd = open(path_of(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, image, image_size) != (ssize_t)image_size)
		_exit(1);
	close(fd);
	if (lockshm_open(&s, name, 0, NULL) != 0)
		_exit(2);
	hold_key(s, &one, "mine", LOCKSHM_EXCLUSIVE);
	hold_key(s, &two, "shared", LOCKSHM_SHARED);
	word = (uint64_t *)(void *)s->header + job / VALUES;
	*word = hostile_value(job, *word);
	lockshm_check(&one, &left);
	lockshm_extend(&one, LOCKSHM_SECONDS(1));
	lockshm_renew(&two, LOCKSHM_SECONDS(1));
	lockshm_downgrade(&one);
	(void)!lockshm_upgrade(&two);
	lockshm_damage(&two, &mark);
	lockshm_acknowledge(&two);
	lockshm_current(s);
	look_around(s);
	lockshm_release(&two, 0);
	lockshm_release(&one, LOCKSHM_SECONDS(1));
	use_locks(s);
	lockshm_close(s);
}

/* ---------------------------------------------------------------- workers */

static void work(int worker, uint32_t from, void (*use)(uint32_t job, const char *name), const char *name)
{
	uint32_t i;

	for (i = from; i < n_jobs; i += WORKERS) {
		at_job[worker] = i;
		alarm(JOB_SECONDS);
		use(jobs[i], name);
	}
	at_job[worker] = n_jobs;
	_exit(0);
}

static pid_t start_worker(int worker, uint32_t from, void (*use)(uint32_t job, const char *name))
{
	char suffix[16];
	const char *name;
	pid_t pid;

	snprintf(suffix, sizeof(suffix), "w%d", worker);
	name = other_name(suffix);
	pid = fork();
	if (pid == 0) {
		signal(SIGALRM, SIG_DFL);
		work(worker, from, use, name);
	}
	ck_assert_int_gt(pid, 0);
	return pid;
}

/* The job, in a form that can be repeated. */
static void tell_failure(uint32_t i, int status)
{
	uint32_t job = jobs[i];

	fprintf(stderr, "byte %u, value %u: %s %d\n", job / VALUES * 8, job % VALUES,
		WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static unsigned run_jobs(void (*use)(uint32_t job, const char *name))
{
	pid_t pids[WORKERS];
	unsigned failures = 0;
	int i, status, left = WORKERS;

	for (i = 0; i < WORKERS; i++)
		pids[i] = start_worker(i, (uint32_t)i, use);
	while (left > 0) {
		pid_t pid = wait(&status);

		ck_assert_int_gt(pid, 0);
		for (i = 0; i < WORKERS && pids[i] != pid; i++)
			;
		if (i == WORKERS)
			continue; /* an agent */
		if (status == 0 && at_job[i] == n_jobs) {
			left--;
			continue;
		}
		tell_failure(at_job[i], status);
		if (++failures > 100)
			break;
		pids[i] = start_worker(i, at_job[i] + WORKERS, use);
	}
	return failures;
}

static void prepare(void)
{
	segment_with(64, 64, 8);
	populate();
	take_image();
	plan_jobs();
	at_job = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(at_job != MAP_FAILED);
	printf("%u words of %zu, %u jobs\n", n_jobs / VALUES, image_size / 8, n_jobs);
}

START_TEST(any_word_of_a_file_may_be_anything)
{
	prepare();
	ck_assert_uint_eq(run_jobs(use_image), 0);
}
END_TEST

START_TEST(any_word_may_change_under_a_holder)
{
	prepare();
	ck_assert_uint_eq(run_jobs(use_live), 0);
}
END_TEST

/* All live, so that nothing but a bound ends a walk; the caller holds something, so that it
 * looks for deadlocks, too. */
START_TEST(queue_that_is_a_ring_traps_no_caller)
{
	struct lockshm_request request = request_for("held", LOCKSHM_EXCLUSIVE);
	struct shm_request *oldest;
	struct shm_entry *e;
	lockshm_hold_t mine, hold;

	segment_with(64, 64, 8);
	populate();
	ck_code(take(&mine, "mine", LOCKSHM_EXCLUSIVE), 0);
	e = entry_of("held");
	oldest = &seg->requests[nth_from_tail(e, 2)];
	oldest->word = word_with_prev(oldest->word, tail_index(e->tail));
	alarm(JOB_SECONDS);
	request.timeout_ns = LOCKSHM_MS(20);
	ck_assert_int_lt(lockshm_acquire(seg, &request, &hold), 0);
	request.timeout_ns = 0;
	ck_assert_int_lt(lockshm_acquire(seg, &request, &hold), 0);
	ck_assert_int_ge(list(seg, LOCKSHM_LIST_KEY, "held", false), LOCKSHM_BAD_SEGMENT);
	ck_code(lockshm_verify(seg, NULL, NULL, NULL), LOCKSHM_BAD_SEGMENT);
	ck_code(lockshm_release(&mine, 0), 0);
	alarm(0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, every ? 7200 : 120);
	tcase_add_test(tc, queue_that_is_a_ring_traps_no_caller);
	tcase_add_test(tc, any_word_of_a_file_may_be_anything);
	tcase_add_test(tc, any_word_may_change_under_a_holder);
}

int main(int argc, char **argv)
{
	every = argc > 1 && strcmp(argv[1], "all") == 0;
	return fixture_main("hostile", add);
}
