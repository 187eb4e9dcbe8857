/* SPDX-License-Identifier: MIT */
/*
 * test-loop-crowd.c - ten thousand waits without a thread, and what the service thread does meanwhile
 *
 * Board 0: processes that are ready; 1: start; 2: waits that were served; 3: a process may end.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"
#include "sys/futex.h"

#define X LOCKSHM_EXCLUSIVE
#define CROWD 10000
#define PROCESSES 8

enum { READY, START, SERVED, MAY_END };

static struct agent *a;
static lockshm_loop_t *loop;
static struct task *crowd;
static int n_keys; /* the i-th task waits for key i % n_keys */
static int next_of_key[CROWD];

static void prepare(int keys)
{
	segment_with(16384, 65536, 64);
	board_new();
	n_keys = keys;
	crowd = calloc(CROWD, sizeof(*crowd));
	ck_assert_ptr_nonnull(crowd);
}

static const char *key_of(int i)
{
	static char key[16];

	snprintf(key, sizeof(key), "k%d", i % n_keys);
	return key;
}

static void patient(struct task *task, const char *key)
{
	task_init(task, key, X);
	task->request.timeout_ns = 2 * PATIENCE;
}

/* Holds all keys until START, and releases them, or goes on until it is killed. */
static int hold_all(void)
{
	lockshm_hold_t *holds = calloc((size_t)n_keys, sizeof(*holds));
	int i;

	for (i = 0; i < n_keys; i++)
		ck_code(take(&holds[i], key_of(i), X), 0);
	board_add(READY, 1);
	board_await(START, 1);
	for (i = 0; i < n_keys; i++)
		ck_code(lockshm_release(&holds[i], 0), 0);
	return 0;
}

static pid_t holder(void)
{
	pid_t pid = process_start(hold_all);

	board_await(READY, 1);
	return pid;
}

static void all_wait(void)
{
	int i;

	loop = loop_new();
	for (i = 0; i < CROWD; i++) {
		patient(&crowd[i], key_of(i));
		ck_code(task_acquire(loop, &crowd[i]), LOCKSHM_PENDING);
	}
	loop_idle(loop);
}

/* Each has its outcome and releases, and of each key they come in the order of their calls. */
static void all_are_served(void)
{
	int i, which;

	for (i = 0; i < CROWD; i++) {
		struct task *one = loop_collect(loop);

		which = (int)(one - crowd);
		ck_code(one->status, 0);
		if (next_of_key[which % n_keys] != which / n_keys && machine_stalled())
			return;
		ck_assert_msg(next_of_key[which % n_keys] == which / n_keys, "key %d: wait %d comes before wait %d",
			      which % n_keys, which / n_keys, next_of_key[which % n_keys]);
		next_of_key[which % n_keys]++;
		ck_code(task_release(one), 0);
	}
	loop_idle(loop);
	ck_code(lockshm_loop_close(loop), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}

static const int key_counts[] = { 1, 100, CROWD };

START_TEST(served_when_the_holder_releases)
{
	int64_t begin;
	pid_t pid;

	prepare(key_counts[_i]);
	pid = holder();
	begin = now_ns();
	all_wait();
	printf("%d keys: %.1f ms to wait, ", n_keys, (double)(now_ns() - begin) / 1e6);
	begin = now_ns();
	board_add(START, 1);
	all_are_served();
	printf("%.1f ms until all were served\n", (double)(now_ns() - begin) / 1e6);
	ck_assert_int_eq(process_end(pid), 0);
}
END_TEST

START_TEST(served_when_the_holder_is_killed)
{
	int64_t begin;
	pid_t pid;

	prepare(key_counts[_i]);
	pid = holder();
	all_wait();
	begin = now_ns();
	process_kill(pid);
	all_are_served();
	printf("%d keys, killed holder: %.1f ms until all were served\n", n_keys, (double)(now_ns() - begin) / 1e6);
}
END_TEST

/* Half of them are cancelled, in between and at the end of what is left. */
START_TEST(half_of_them_are_cancelled)
{
	pid_t pid;
	int i, served = 0;

	prepare(key_counts[_i]);
	pid = holder();
	all_wait();
	for (i = 0; i < CROWD; i += 2)
		ck_code(lockshm_loop_cancel(loop, &crowd[i].hold), 0);
	board_add(START, 1);
	for (i = 0; i < CROWD / 2; i++) {
		struct task *one = loop_collect(loop);

		ck_code(one->status, 0);
		ck_assert_int_eq((one - crowd) % 2, 1);
		served++;
		ck_code(task_release(one), 0);
	}
	loop_idle(loop);
	ck_assert_int_eq(process_end(pid), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

/* All at once, and once each. */
START_TEST(all_time_out)
{
	pid_t pid;
	int i, refused = 0;

	prepare(key_counts[_i]);
	pid = holder();
	loop = loop_new();
	for (i = 0; i < CROWD; i++) {
		int code;

		patient(&crowd[i], key_of(i));
		crowd[i].request.timeout_ns = LOCKSHM_MS(300);
		code = task_acquire(loop, &crowd[i]);
		ck_assert(code == LOCKSHM_PENDING || code == LOCKSHM_TIMEOUT);
		refused += code == LOCKSHM_TIMEOUT;
	}
	for (i = refused; i < CROWD; i++)
		ck_code(loop_collect(loop)->status, LOCKSHM_TIMEOUT);
	loop_idle(loop);
	ck_assert_uint_eq(stat_now().requests_used, n_keys);
	board_add(START, 1);
	ck_assert_int_eq(process_end(pid), 0);
	verify_clean();
}
END_TEST

/* Its part of the crowd, all for one key; in the order of its calls, whatever the others do. */
static int a_part_of_it(void)
{
	int i, n = CROWD / PROCESSES;

	loop = loop_new();
	for (i = 0; i < n; i++) {
		patient(&crowd[i], "k0");
		ck_code(task_acquire(loop, &crowd[i]), LOCKSHM_PENDING);
	}
	board_add(READY, 1);
	for (i = 0; i < n; i++) {
		struct task *one = loop_collect(loop);

		ck_code(one->status, 0);
		if (one != &crowd[i] && machine_stalled())
			return 0;
		ck_assert_int_eq(one - crowd, i);
		board_add(SERVED, 1);
		ck_code(task_release(one), 0);
	}
	loop_idle(loop);
	ck_code(lockshm_loop_close(loop), 0);
	return 0;
}

START_TEST(eight_processes_and_one_key)
{
	pid_t pid, parts[PROCESSES];
	int64_t begin;
	int i;

	prepare(1);
	pid = holder();
	for (i = 0; i < PROCESSES; i++)
		parts[i] = process_start(a_part_of_it);
	board_await(READY, 1 + PROCESSES);
	ck_assert_uint_eq(stat_now().requests_used, 1 + CROWD);
	begin = now_ns();
	if (_i)
		process_kill(pid);
	else
		board_add(START, 1);
	for (i = 0; i < PROCESSES; i++)
		ck_assert_int_eq(process_end(parts[i]), 0);
	printf("eight processes: %.1f ms until all were served\n", (double)(now_ns() - begin) / 1e6);
	if (!_i)
		ck_assert_int_eq(process_end(pid), 0);
	ck_code(lockshm_sweep(seg, NULL), 0);
	if (!machine_stalled())
		ck_assert_uint_eq(board_get(SERVED), CROWD);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- no busy turn */

static pid_t service_tid;

/* The one thread of this process that is not its first. */
static void find_service(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != getpid()) {
			ck_assert_int_eq(service_tid, 0);
			service_tid = atoi(entry->d_name);
		}
	closedir(dir);
	ck_assert_int_ne(service_tid, 0);
}

/* How often it went to sleep; a thread that is pushed off its processor does not. */
static long sleeps(void)
{
	char path[64], line[128];
	long n, sum = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)service_tid);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
			sum = n;
	fclose(file);
	ck_assert_int_ge(sum, 0);
	return sum;
}

static bool has_come_to_rest(void *arg)
{
	long before = sleeps();

	(void)arg;
	pass(now_ns() + LOCKSHM_MS(250));
	return sleeps() == before;
}

/* In that time.  It need not be exact: the bounds are rates. */
static long sleeps_in(int64_t ns, int64_t *took)
{
	int64_t begin = now_ns();
	long before = sleeps();

	pass(begin + ns);
	before = sleeps() - before;
	*took = now_ns() - begin;
	time_was_passed();
	return before;
}

/* Never after a loop was opened, nor after waits that are over. */
START_TEST(without_waits_it_sleeps)
{
	int64_t took;

	prepare(1);
	a = agent_start();
	loop = loop_new();
	find_service();
	if (_i) {
		ck_code(agent_acquire(a, "k", X), 0);
		task_wait(loop, &crowd[0], "k", X);
		task_wait(loop, &crowd[1], "k", X);
		ck_code(agent_release(a), 0);
		ck_outcome(loop, &crowd[0], 0);
		ck_code(lockshm_loop_cancel(loop, &crowd[1].hold), 0);
	}
	ck_assert(await(has_come_to_rest, NULL));
	ck_assert_int_eq(sleeps_in(LOCKSHM_SECONDS(2), &took), 0);
}
END_TEST

/* Ten times a second is promised; twice that, and some, leaves room for what the kernel counts. */
static void at_the_promised_rate(const char *what, double *rate)
{
	int64_t took;
	long n = sleeps_in(LOCKSHM_SECONDS(1), &took);

	*rate = (double)n * 1e9 / (double)took;
	printf("%s: %.1f wake-ups a second\n", what, *rate);
	ck_assert_msg((double)n <= 20.0 * (double)took / 1e9 + 10, "%s: %ld wake-ups in %.1f s", what, n,
		      (double)took / 1e9);
}

START_TEST(waits_cost_what_one_costs)
{
	double one, all;
	pid_t pid;

	if (!futex_has_waitv()) {
		printf("no futex_waitv: left out\n");
		return;
	}
	prepare(key_counts[_i]);
	pid = holder();
	loop = loop_new();
	find_service();
	patient(&crowd[0], key_of(0));
	ck_code(task_acquire(loop, &crowd[0]), LOCKSHM_PENDING);
	at_the_promised_rate("one wait", &one);
	ck_code(lockshm_loop_cancel(loop, &crowd[0].hold), 0);
	ck_code(lockshm_loop_close(loop), 0);
	all_wait();
	at_the_promised_rate("ten thousand", &all);
	board_add(START, 1);
	all_are_served();
	ck_assert_int_eq(process_end(pid), 0);
}
END_TEST

static void add(TCase *tc)
{
	if (emulated()) {
		printf("left out under emulation: crowds\n");
		return;
	}
	tcase_add_loop_test(tc, served_when_the_holder_releases, 0, 3);
	tcase_add_loop_test(tc, served_when_the_holder_is_killed, 0, 3);
	tcase_add_loop_test(tc, half_of_them_are_cancelled, 0, 3);
	tcase_add_loop_test(tc, all_time_out, 0, 3);
	tcase_add_loop_test(tc, eight_processes_and_one_key, 0, 2);
	tcase_add_loop_test(tc, without_waits_it_sleeps, 0, 2);
	tcase_add_loop_test(tc, waits_cost_what_one_costs, 0, 3);
}

int main(void)
{
	return fixture_main("loop-crowd", add);
}
