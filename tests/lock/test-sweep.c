/* SPDX-License-Identifier: MIT */
/*
 * test-sweep.c - what the dead leave is cleared away in ordinary running, by the opens and joins of those that replace them
 *
 * Each open and join looks at few living owners.  Together they look at all slots in turn, so few of the dead are left at any
 * time, wherever the living are.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/prctl.h>

#include "crowd.h"
#include "other-thread.h"
#include "support/fixture.h"

/* ---------------------------------------------------------------- workers, one after the other */

/* The page in which a worker stores that it holds. */
static int *worker_code;

/* Opens the segment, takes a lock and stays. */
static void work(unsigned number)
{
	lockshm_t *own;
	char key[32];
	lockshm_hold_t hold;
	int code = lockshm_open(&own, seg_name, 0, NULL);

	snprintf(key, sizeof(key), "worker %u", number);
	code = code ? code : take(&hold, key, X);
	__atomic_store_n(worker_code, code, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}

/* In a pid namespace of its own: its number is 1, so its slot is looked for from the same place on as each other's. */
static void work_alone(unsigned number)
{
	pid_t pid;

	if (unshare(CLONE_NEWPID) != 0)
		_exit(1);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(number);
	}
	for (;;)
		pause();
}

#define NOT_YET 1

static bool works(void *unused)
{
	(void)unused;
	return __atomic_load_n(worker_code, __ATOMIC_SEQ_CST) != NOT_YET;
}

static pid_t start(void (*how)(unsigned), unsigned number)
{
	pid_t pid;

	*worker_code = NOT_YET;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		how(number);
	}
	ck_assert(await(works, NULL));
	ck_code(*worker_code, 0);
	return pid;
}

static bool all_flagged(void *dead)
{
	return stat_now().owners_dead >= *(size_t *)dead;
}

/* Killed, its slot is a dead one, in addition to @dead others. */
static void killed(pid_t pid, size_t dead)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	dead++;
	ck_assert(await(all_flagged, &dead));
}

/* The largest number of dead slots while @deaths workers are replaced, one at a time. */
static size_t most_dead(void (*how)(unsigned), unsigned deaths)
{
	size_t most = 0, dead;
	unsigned i;

	for (i = 0; i < deaths; i++) {
		pid_t pid = start(how, i);

		dead = stat_now().owners_dead;
		if (dead > most)
			most = dead;
		killed(pid, dead);
	}
	return most;
}

/*
 * A round over all slots takes one join for each 32 of the living and one for each four of the dead, at most.  So no more
 * are left than one for each 24 of the living, and the last few.
 */
static size_t may_be_left(unsigned living)
{
	return living / 24 + 4;
}

static void setup(void)
{
	worker_code = mmap(NULL, sizeof(*worker_code), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(worker_code, MAP_FAILED);
}

START_TEST(few_dead_are_left_beside_many_threads)
{
	const unsigned living = 64;
	struct crowd c;
	size_t most;

	setup();
	segment_with(2048, 16384, 1024);
	c = crowd_of(living, NULL, X, false);
	most = most_dead(work, 300);
	ck_assert_msg(most <= may_be_left(living), "%zu dead slots beside %u that live", most, living);
	die(c);
	verify_clean();
}
END_TEST

static bool may_unshare(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWPID) != 0);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

START_TEST(few_dead_are_left_of_equal_numbers)
{
	enum { LIVING = 40 };
	pid_t living[LIVING];
	size_t most;
	int i;

	if (!may_unshare()) {
		printf("left out: no right to make pid namespaces\n");
		return;
	}
	setup();
	segment_with(256, 2048, 128);
	for (i = 0; i < LIVING; i++)
		living[i] = start(work_alone, 1000 + (unsigned)i);
	most = most_dead(work_alone, 200);
	ck_assert_msg(most <= may_be_left(LIVING), "%zu dead slots", most);
	for (i = 0; i < LIVING; i++)
		killed(living[i], stat_now().owners_dead);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- a segment full of the dead */

#define SLOTS 64
#define JOINERS 4

static pthread_barrier_t at_once;

static void *joiner(void *code)
{
	lockshm_hold_t hold;
	char key[32];

	snprintf(key, sizeof(key), "joiner %p", code);
	pthread_barrier_wait(&at_once);
	*(int *)code = take(&hold, key, X);
	pthread_barrier_wait(&at_once); /* none leaves before all have joined */
	return NULL;
}

START_TEST(joins_find_room_where_all_are_dead)
{
	pthread_t threads[JOINERS];
	int codes[JOINERS], round, i;

	pthread_barrier_init(&at_once, NULL, JOINERS);
	for (round = 0; round < 40; round++) {
		segment_with(256, 2048, SLOTS);
		die(crowd_of(SLOTS, NULL, X, false));
		for (i = 0; i < JOINERS; i++)
			ck_assert_int_eq(pthread_create(&threads[i], NULL, joiner, &codes[i]), 0);
		for (i = 0; i < JOINERS; i++)
			ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		for (i = 0; i < JOINERS; i++)
			ck_code(codes[i], 0);
		verify_clean();
	}
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_native(tc, joins_find_room_where_all_are_dead);
	tcase_add_native(tc, few_dead_are_left_of_equal_numbers);
	tcase_add_native(tc, few_dead_are_left_beside_many_threads);
}

int main(void)
{
	return fixture_main("sweep", add);
}
