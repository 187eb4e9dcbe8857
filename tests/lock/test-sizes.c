/* SPDX-License-Identifier: MIT */
/*
 * test-sizes.c - structs of a wrong size are refused, and nothing of them but the size is read or written
 *
 * Structs that have grown are in tests/tree/grown.c.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "sys/sized.h"

static const size_t wrong_sizes[] = { 0, 1, 7, 8, SIZED_MAX + 1, SIZE_MAX };
#define N_SIZES (int)(sizeof(wrong_sizes) / sizeof(wrong_sizes[0]))

START_TEST(request_of_a_wrong_size)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_report report, before;

	memset(&report, 0x55, sizeof(report));
	before = report;
	request.report = &report;
	request.size = _i < N_SIZES ? wrong_sizes[_i] : (size_t)REQUEST_SIZE_0_1 - 1;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, &request, &key, 1, &hold), LOCKSHM_INVALID);
	ck_assert_mem_eq(&report, &before, sizeof(report));
	ck_assert_uint_eq(stat_now().keys_known, 0);
}
END_TEST

START_TEST(output_of_a_wrong_size)
{
	size_t size = _i < N_SIZES ? wrong_sizes[_i] : (size_t)REPORT_SIZE_0_1 - 1;
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_report report, report_before;
	struct lockshm_bridge_stat bridge, bridge_before;
	struct lockshm_stat stat, stat_before;

	memset(&report, 0x55, sizeof(report));
	memset(&stat, 0x55, sizeof(stat));
	memset(&bridge, 0x55, sizeof(bridge));
	report.size = size;
	stat.size = _i < N_SIZES ? size : (size_t)STAT_SIZE_0_1 - 1;
	bridge.size = _i < N_SIZES ? size : (size_t)BRIDGE_STAT_SIZE_0_1 - 1;
	report_before = report;
	stat_before = stat;
	bridge_before = bridge;
	request.report = &report;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, &request, &key, 1, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_stat(seg, &stat), LOCKSHM_INVALID);
	ck_code(lockshm_bridge_stat(seg, &bridge), LOCKSHM_INVALID);
	ck_assert_mem_eq(&report, &report_before, sizeof(report));
	ck_assert_mem_eq(&stat, &stat_before, sizeof(stat));
	ck_assert_mem_eq(&bridge, &bridge_before, sizeof(bridge));
	ck_assert_uint_eq(stat_now().keys_known, 0);
}
END_TEST

/* A size at the end of a page, after which there is nothing. */
static size_t *size_alone(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(mprotect(memory + page, page, PROT_NONE), 0);
	return (size_t *)(void *)(memory + page - sizeof(size_t));
}

/* Each call with a struct of which there is only a wrong size. */
static void all_are_refused(const size_t *size, lockshm_loop_t *loop)
{
	void *at = (void *)(uintptr_t)size;
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_list_t *list;
	lockshm_lock_t object;

	ck_code(lockshm_acquire(seg, at, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, at, &key, 1, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire(loop, at, &hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, at, &key, 1, &hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_next(loop, at), LOCKSHM_INVALID);
	ck_code(lockshm_lock_init(&object, seg, at), LOCKSHM_INVALID);
	ck_code(lockshm_create(NULL, seg_name, at, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_list_open(&list, seg, LOCKSHM_LIST_OWNERS, NULL, 0), 0);
	ck_code(lockshm_list_next(list, at), LOCKSHM_INVALID);
	lockshm_list_close(list);
	ck_code(lockshm_stat(seg, at), LOCKSHM_INVALID);
	ck_code(lockshm_bridge_stat(seg, at), LOCKSHM_INVALID);
	request.report = at;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, &request, &key, 1, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire(loop, &request, &hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, &request, &key, 1, &hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_check(&hold, NULL), LOCKSHM_NOT_HELD);
}

/* By a thread that has taken no lock yet, by one that has, and by one with a barge window: each has its own fast path. */
START_TEST(nothing_but_the_size_is_read)
{
	struct lockshm_request request = request_for("hot", LOCKSHM_EXCLUSIVE);
	struct agent *behind = agent_start();
	size_t *size = size_alone();
	lockshm_loop_t *loop;
	lockshm_hold_t hold;

	*size = wrong_sizes[_i];
	ck_code(lockshm_loop_open(&loop, seg, -1, NULL), 0);
	all_are_refused(size, loop);
	ck_code(take(&hold, "other", LOCKSHM_EXCLUSIVE), 0);
	all_are_refused(size, loop);
	request.flags = LOCKSHM_BARGE;
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	ck_code(agent_acquire(behind, "hot", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(behind);
	ck_code(lockshm_release(&hold, 0), 0);
	all_are_refused(size, loop);
	ck_code(lockshm_loop_close(loop), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, request_of_a_wrong_size, 0, N_SIZES + 1);
	tcase_add_loop_test(tc, output_of_a_wrong_size, 0, N_SIZES + 1);
	tcase_add_loop_test(tc, nothing_but_the_size_is_read, 0, N_SIZES);
}

int main(void)
{
	return fixture_main("sizes", add);
}
