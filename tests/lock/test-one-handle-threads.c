/* SPDX-License-Identifier: MIT */
/* test-one-handle-threads.c - opens, last closes and forks of many threads at once */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/asan.h"
#include "support/fixture.h"

#define THREADS 8
#define MINE_MAX 4

static int rounds;

/* ---------------------------------------------------------------- the faster one */

/* What another thread does between the steps of an open or a creation. */
static void (*mapped_it)(void), (*named_it)(void);
static lockshm_t *of_the_faster;

static void run_once(void (**hook)(void))
{
	void (*it)(void) = *hook;

	if (!it)
		return;
	*hook = NULL;
	it();
}

/* These two replace the C library's, also in the library under test. */
int madvise(void *at, size_t len, int advice)
{
	if (advice == MADV_HUGEPAGE)
		run_once(&mapped_it);
	return (int)syscall(SYS_madvise, at, len, advice);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	int result = (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);

	run_once(&named_it);
	return result;
}

static void open_it(void)
{
	ck_code(lockshm_open(&of_the_faster, seg_name, 0, NULL), 0);
}

static void closed_by_both(lockshm_t *s)
{
	ck_assert_ptr_nonnull(of_the_faster);
	ck_assert_ptr_eq(s, of_the_faster);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_current(s), 0);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_close(s), LOCKSHM_INVALID);
}

START_TEST(another_thread_opens_it_faster)
{
	lockshm_t *s;

	ck_code(lockshm_close(seg), 0);
	mapped_it = open_it;
	ck_code(lockshm_open(&s, seg_name, 0, NULL), 0);
	closed_by_both(s);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

/* Opened as soon as it has its name. */
START_TEST(another_thread_opens_what_is_being_made)
{
	lockshm_t *s;

	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	named_it = open_it;
	ck_code(lockshm_create(&s, seg_name, NULL, NULL), 0);
	closed_by_both(s);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

/* ---------------------------------------------------------------- all at once */

static pthread_barrier_t all;
static lockshm_t *got[THREADS];

static void *open_at_once(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	int i;

	for (i = 0; i < rounds; i++) {
		pthread_barrier_wait(&all);
		ck_code(lockshm_open(&got[me], seg_name, 0, NULL), 0);
		pthread_barrier_wait(&all);
		ck_assert_ptr_eq(got[me], got[(me + 1) % THREADS]);
		pthread_barrier_wait(&all);
		ck_code(lockshm_close(got[me]), 0);
		pthread_barrier_wait(&all);
		ck_code(lockshm_close(got[me]), LOCKSHM_INVALID);
	}
	return NULL;
}

static void run(void *(*main_of_thread)(void *))
{
	pthread_t threads[THREADS];
	uintptr_t i;

	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, main_of_thread, (void *)i), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

START_TEST(threads_that_open_at_once_get_one_handle)
{
	ck_code(lockshm_close(seg), 0);
	rounds = 200;
	pthread_barrier_init(&all, NULL, THREADS);
	run(open_at_once);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

/* ---------------------------------------------------------------- at random */

struct user {
	unsigned number;
	uint64_t random;
	lockshm_t *handles[MINE_MAX];
	unsigned n;
	bool may_fork;
};

static unsigned pick(struct user *u, unsigned n)
{
	u->random = u->random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(u->random >> 33) % n;
}

static void open_one(struct user *u)
{
	if (u->n == MINE_MAX)
		return;
	ck_code(lockshm_open(&u->handles[u->n], seg_name, 0, NULL), 0);
	if (u->n)
		ck_assert_ptr_eq(u->handles[u->n], u->handles[0]); /* open all the time */
	u->n++;
}

static void close_one(struct user *u)
{
	if (u->n == 0)
		return;
	ck_code(lockshm_close(u->handles[--u->n]), 0);
}

static int use(lockshm_t *s, unsigned number)
{
	char key[16];
	struct lockshm_request request;
	lockshm_hold_t hold;
	int code;

	snprintf(key, sizeof(key), "of-%u", number);
	request = request_for(key, LOCKSHM_EXCLUSIVE);
	request.timeout_ns = PATIENCE; /* the last child of this thread may be about to end */
	code = lockshm_acquire(s, &request, &hold);
	if (code)
		return code;
	return lockshm_check(&hold, NULL) || lockshm_release(&hold, 0);
}

/* Closes what it finds open, more often than its parent's thread had opened it, and then opens for itself.  Nothing of
 * libcheck is called here: another thread may have had its lock at the fork. */
static void be_child(struct user *u)
{
	lockshm_t *s;

	if (u->n && use(u->handles[0], u->number) != 0)
		_exit(1);
	while (u->n && lockshm_close(u->handles[0]) == 0)
		;
	if (lockshm_open(&s, seg_name, 0, NULL) != 0)
		_exit(2);
	if (use(s, u->number) != 0)
		_exit(3);
	_exit(lockshm_close(s) == 0 ? 0 : 4);
}

static void fork_one(struct user *u)
{
	int status;
	pid_t pid;

	/* AddressSanitizer's allocator takes no care of forks: see soak-worker.c. */
	if (!u->may_fork || UNDER_ASAN)
		return;
	pid = fork();
	if (pid == 0)
		be_child(u);
	ck_assert_int_ge(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "child: %#x", (unsigned)status);
}

static void *open_and_close(void *arg)
{
	struct user u = { .number = (unsigned)(uintptr_t)arg, .random = (uintptr_t)arg * 77 + 1 };
	int i;

	u.may_fork = u.number < 2;
	for (i = 0; i < rounds; i++) {
		unsigned what = pick(&u, 16);

		if (what < 6)
			open_one(&u);
		else if (what < 13)
			close_one(&u);
		else if (what < 15)
			ck_code(u.n ? use(u.handles[0], u.number) : 0, 0);
		else
			fork_one(&u);
	}
	while (u.n)
		close_one(&u);
	return NULL;
}

/* Mappings of the segment. */
static int count_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, seg_name) != NULL;
	fclose(maps);
	return n;
}

START_TEST(opens_closes_and_forks_at_random)
{
	lockshm_t *none = seg;

	ck_code(lockshm_close(seg), 0);
	ck_assert_int_eq(count_mapped(), 0);
	rounds = 600;
	run(open_and_close);
	ck_assert_int_eq(count_mapped(), 0); /* each open was closed, and each handle freed */
	ck_code(lockshm_close(none), LOCKSHM_INVALID);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, another_thread_opens_it_faster);
	tcase_add_test(tc, another_thread_opens_what_is_being_made);
	tcase_add_test(tc, threads_that_open_at_once_get_one_handle);
	tcase_add_native(tc, opens_closes_and_forks_at_random);
}

int main(void)
{
	return fixture_main("one handle, threads", add);
}
