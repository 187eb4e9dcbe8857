/* SPDX-License-Identifier: MIT */
/*
 * test-no-memory.c - every operation of local locks, where each malloc() returns NULL: once, and from then on
 *
 * As in test-calls.c.  In addition no memory stays allocated: each round is made three times in a process, the third
 * time with as many blocks at the end as the second.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/asan.h"
#include "support/calls.h"
#include "support/operations.h"

#ifndef OTHERS_MALLOC

/* ---------------------------------------------------------------- malloc() */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);

static bool armed;    /* only while the operation runs */
static bool for_ever; /* not the n-th alone */
static unsigned at;   /* the n-th */
static unsigned made;
static int blocks;

static bool refused(void)
{
	unsigned i;

	if (!__atomic_load_n(&armed, __ATOMIC_RELAXED) || operations_bystander)
		return false;
	i = __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	if (i != at && !(for_ever && i > at))
		return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *block)
{
	if (block)
		__atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
	return block;
}

void *malloc(size_t size)
{
	return refused() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return refused() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
	if (refused())
		return NULL;
	return old ? __libc_realloc(old, size) : counted(__libc_realloc(NULL, size));
}

void free(void *old)
{
	if (old)
		__atomic_fetch_sub(&blocks, 1, __ATOMIC_RELAXED);
	__libc_free(old);
}

/* ---------------------------------------------------------------- a round */

#define TRIES 3

static const struct operation *op;
static struct outcome {
	int code;
	struct lockshm_error error;
} *outcomes; /* shared with the child */

/* Descriptors and mappings are the matter of test-calls.c. */
static void one_try(unsigned n, struct outcome *outcome)
{
	int code = op->prepare ? op->prepare() : 0;

	CALLS_EXPECT(code == 0, code);
	at = n;
	made = 0;
	__atomic_store_n(&armed, true, __ATOMIC_SEQ_CST);
	calls_now->code = outcome->code = op->act(&outcome->error);
	__atomic_store_n(&armed, false, __ATOMIC_SEQ_CST);
	if (made > n)
		calls_now->nr = 0;
	operation_end(op, outcome->code);
}

static void three_tries(unsigned n)
{
	int before;

	/* The first fills what the C library keeps, the second what a failure does. */
	one_try(n, &outcomes[0]);
	one_try(n, &outcomes[1]);
	before = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
	one_try(n, &outcomes[2]);
	calls_now->leaked = __atomic_load_n(&blocks, __ATOMIC_RELAXED) - before;
	_exit(0);
}

/* False = it was over before its n-th allocation. */
static bool fails_at(unsigned n, bool ever)
{
	int status, i;
	pid_t pid;

	memset(outcomes, 0, TRIES * sizeof(*outcomes));
	memset(calls_now, 0, sizeof(*calls_now));
	calls_now->n = n;
	calls_now->nr = -1;
	calls_now->failed_with = ENOMEM;
	for_ever = ever;
	pid = fork();
	if (pid == 0)
		three_tries(n);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "%s: allocation %u: the process ended with status 0x%x", op->name, n,
		      (unsigned)status);
	ck_assert_msg(!calls_now->trouble[0], "%s: allocation %u: it returned %s: %s; %s", op->name, n,
		      lockshm_code_name(calls_now->code), outcomes[0].error.message, calls_now->trouble);
	ck_assert_msg(calls_now->leaked <= 0, "%s: allocation %u: %d blocks leaked", op->name, n, calls_now->leaked);
	for (i = 0; i < TRIES; i++)
		operation_check(op, outcomes[i].code, &outcomes[i].error);
	return calls_now->nr >= 0;
}

START_TEST(fails_at_each_allocation)
{
	unsigned n, most;

	op = &operations[_i];
	most = op->flags & FIRST_CALLS ? OPERATION_CALLS : UINT_MAX;
	for (n = 0; n < most && fails_at(n, false); n++)
		if (!(op->flags & OF_CHILDREN))
			(void)fails_at(n, true);
	printf("%s: %u allocations\n", op->name, n);
}
END_TEST

#endif

static void prepare(void)
{
	calls_prepare();
	/* Each process of a round opens the segment itself. */
	ck_code(lockshm_close(seg), 0);
	seg = NULL;
#ifndef OTHERS_MALLOC
	outcomes = mmap(NULL, TRIES * sizeof(*outcomes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(outcomes != MAP_FAILED);
#endif
}

static void remove_segment(void)
{
	ck_code(lockshm_destroy(seg_name, NULL), 0);
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, prepare, remove_segment);
#ifdef OTHERS_MALLOC
	printf("left out: malloc() is not to be replaced here\n");
#else
	if (emulated())
		printf("left out under emulation\n");
	else
		tcase_add_loop_test(tc, fails_at_each_allocation, 0, (int)operations_n);
#endif
}

int main(void)
{
	return fixture_main("no-memory", add);
}
