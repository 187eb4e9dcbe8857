/* SPDX-License-Identifier: MIT */
/*
 * test-process-holds-close.c - what keeps a segment mapped for threads that use holds of the process and take no part,
 * and what ends: the mapping, the service thread, and all of it in a child
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold/hold.h"
#include "hold/renewal.h"
#include "other-thread.h"

static int close_it(lockshm_hold_t *h)
{
	return lockshm_close(hold_of(h)->segment);
}

/* Mappings of the test's segment. */
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

/* Owners that are alive, in a new handle. */
static int count_owners(void)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_t *s;
	int n = 0, code;

	ck_code(lockshm_open(&s, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	EACH_ROW(row, code, s, LOCKSHM_LIST_OWNERS, NULL, 0)
		n += row.alive;
	ck_code(code, 0);
	ck_code(lockshm_close(s), 0);
	return n;
}

static lockshm_t *opened_anew(void)
{
	lockshm_t *s;

	ck_code(lockshm_open(&s, seg_name, 0, NULL), 0);
	return s;
}

/* The mapping that its creator has made is not shown under its name. */
static void open_by_name(void)
{
	ck_code(lockshm_close(seg), 0);
	seg = opened_anew();
}

/* ---------------------------------------------------------------- the mapping, and the service thread */

START_TEST(mapping_goes_with_the_last_thread_that_used_a_hold)
{
	lockshm_hold_t hold, stale;
	struct other o;

	open_by_name();
	other_start(&o);
	ck_code(take_for_process(&stale, "stale"), 0);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&o, release, &hold), 0);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_gt(count_mapped(), 0);
	/* Only that thread is left: the service thread has ended, and with it the process' holds and its slot. */
	ck_assert_int_eq(count_owners(), 0);
	ck_code(other_does(&o, release, &stale), LOCKSHM_NOT_HELD);
	ck_code(release(&stale), LOCKSHM_NOT_HELD);
	other_ends(&o);
	ck_assert_int_eq(count_mapped(), 0);
	seg = opened_anew();
	ck_code(take(&hold, "stale", X), 0);
	verify_clean();
}
END_TEST

/* A thread that takes part keeps the service thread after the close; the last such thread ends it. */
START_TEST(service_thread_stays_for_a_thread_that_takes_part)
{
	lockshm_hold_t hold, own;
	struct other user, member;
	lockshm_t *closed;

	open_by_name();
	closed = seg;
	other_start(&user);
	other_start(&member);
	ck_code(take_for_process(&own, "own"), 0);
	ck_code(other_does(&member, to_caller, &own), 0); /* it takes part from now on */
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&user, check, &hold), 0);
	ck_code(lockshm_close(closed), 0);
	ck_code(other_does(&user, check, &hold), 0);
	ck_code(other_does(&user, renew, &hold), 0);
	ck_assert_int_eq(count_owners(), 2);
	other_ends(&member);
	ck_assert_int_eq(count_owners(), 0);
	ck_code(other_does(&user, check, &hold), LOCKSHM_NOT_HELD);
	ck_assert_int_gt(count_mapped(), 0);
	other_ends(&user);
	ck_assert_int_eq(count_mapped(), 0);
	seg = opened_anew();
	ck_code(take(&hold, "k", X), 0);
}
END_TEST

/* The last close in a thread that used a hold and takes no part. */
START_TEST(close_in_such_a_thread)
{
	lockshm_hold_t hold;
	struct other o;

	other_start(&o);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(lockshm_close(opened_anew()), 0); /* not the last one */
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(other_does(&o, close_it, &hold), 0);
	/* This thread takes part still. */
	ck_code(check(&hold), 0);
	ck_code(other_does(&o, check, &hold), 0);
	ck_code(other_does(&o, release, &hold), 0);
	other_ends(&o);
	seg = opened_anew();
	verify_clean();
}
END_TEST

static void *take_and_move(void *arg)
{
	ck_code(take_for_process(arg, "k"), 0);
	return NULL;
}

/* No thread takes part but the service thread. */
START_TEST(close_by_the_only_user_unmaps)
{
	lockshm_hold_t hold;
	pthread_t thread;

	open_by_name();
	ck_assert_int_eq(pthread_create(&thread, NULL, take_and_move, &hold), 0);
	pthread_join(thread, NULL);
	ck_code(check(&hold), 0);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_eq(count_mapped(), 0);
	ck_code(check(&hold), LOCKSHM_NOT_HELD);
	ck_code(release(&hold), LOCKSHM_NOT_HELD);
	ck_code(to_caller(&hold), LOCKSHM_NOT_HELD);
	seg = opened_anew();
	ck_code(check(&hold), LOCKSHM_NOT_HELD);
	ck_code(take(&hold, "k", X), 0);
}
END_TEST

static unsigned foreign_refs(void)
{
	unsigned n;

	pthread_mutex_lock(&seg->lock);
	n = seg->refs - seg->own_refs;
	pthread_mutex_unlock(&seg->lock);
	return n;
}

static bool one_more(void *arg)
{
	return foreign_refs() == *(unsigned *)arg + 1;
}

/* A call that waits for the renewals, which are the service thread's. */
START_TEST(call_on_a_renewed_hold_keeps_the_service_thread)
{
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold;
	struct other o;
	unsigned refs;

	other_start(&o);
	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = LOCKSHM_AUTO_RENEW;
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	ck_code(to_process(&hold), 0);
	ck_code(other_does(&o, check, &hold), 0);
	refs = foreign_refs();
	renewals_lock(seg);
	other_begins(&o, release, &hold);
	ck_assert(await(one_more, &refs));
	renewals_unlock(seg);
	ck_code(other_did(&o), 0);
	ck_assert_uint_eq(foreign_refs(), refs);
	other_ends(&o);
	verify_clean();
}
END_TEST

/* A thread that goes from segment to segment keeps the last closed one only. */
START_TEST(thread_does_not_collect_closed_segments)
{
	lockshm_hold_t hold;
	struct other o;
	int i, of_one;

	open_by_name();
	of_one = count_mapped();
	ck_assert_int_gt(of_one, 0);
	other_start(&o);
	for (i = 0; i < 10; i++) {
		ck_code(take_for_process(&hold, "k"), 0);
		ck_code(other_does(&o, release, &hold), 0);
		ck_code(lockshm_close(seg), 0);
		ck_assert_int_le(count_mapped(), of_one);
		seg = opened_anew();
	}
	other_ends(&o);
	ck_assert_int_eq(count_mapped(), of_one);
}
END_TEST

/* ---------------------------------------------------------------- while another thread closes */

#define CLOSES 300

START_TEST(release_while_another_thread_closes)
{
	struct lockshm_request request = request_for("k", X);
	struct meeting m = { .rounds = CLOSES };
	pthread_t thread;
	int i;

	pthread_barrier_init(&m.turn, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, release_at_once, &m), 0);
	request.ttl_ns = LOCKSHM_SECONDS(60);
	for (i = 0; i < CLOSES; i++) {
		request.flags = i & 2 ? LOCKSHM_AUTO_RENEW : 0;
		ck_code(lockshm_acquire(seg, &request, &m.hold), 0);
		ck_code(to_process(&m.hold), 0);
		pthread_barrier_wait(&m.turn);
		pthread_barrier_wait(&m.turn);
		ck_code(lockshm_close(seg), 0);
		pthread_barrier_wait(&m.turn);
		/* LOST: swept at this moment, as a hold of the dead. */
		ck_assert(m.code == 0 || m.code == LOCKSHM_NOT_HELD || m.code == LOCKSHM_LOST);
		seg = opened_anew();
		ck_code(take(&m.hold, "k", X), 0);
		ck_code(release(&m.hold), 0);
	}
	pthread_join(thread, NULL);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- fork */

static int as_child(lockshm_hold_t *h)
{
	lockshm_hold_t mine;
	lockshm_t *s = seg;

	if (lockshm_release(h, 0) != LOCKSHM_NOT_HELD || lockshm_check(h, NULL) != LOCKSHM_NOT_HELD)
		return 1;
	if (take(&mine, "of-child", X) || lockshm_move(&mine, LOCKSHM_TO_PROCESS) || lockshm_release(&mine, 0))
		return 2;
	if (take(&mine, "of-child", X) || lockshm_move(&mine, LOCKSHM_TO_PROCESS) || lockshm_close(s))
		return 3;
	return lockshm_release(&mine, 0) == LOCKSHM_NOT_HELD ? 0 : 4;
}

/* Its first call needs the service thread, which is the parent's. */
static int as_renewing_child(lockshm_hold_t *h)
{
	struct lockshm_request request = request_for("renewed", X);
	lockshm_hold_t mine;

	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = LOCKSHM_AUTO_RENEW;
	if (lockshm_acquire(seg, &request, &mine) || lockshm_check(&mine, NULL) || lockshm_release(&mine, 0))
		return 1;
	return lockshm_release(h, 0) == LOCKSHM_NOT_HELD ? 0 : 2;
}

static int status_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int in_child(lockshm_hold_t *h)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(as_child(h));
	return status_of(pid);
}

/* Past the C library. */
static int in_clone(lockshm_hold_t *h)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		syscall(SYS_exit_group, as_child(h));
	return status_of(pid);
}

static int in_renewing_clone(lockshm_hold_t *h)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		syscall(SYS_exit_group, as_renewing_child(h));
	return status_of(pid);
}

START_TEST(child_of_a_thread_that_used_a_hold)
{
	static int (*const ways[])(lockshm_hold_t *h) = { in_child, in_clone, in_renewing_clone };
	lockshm_hold_t hold, other;
	struct other o;

	open_by_name();
	other_start(&o);
	ck_code(take_for_process(&hold, "k"), 0);
	ck_code(take_for_process(&other, "other"), 0);
	ck_code(other_does(&o, release, &other), 0);
	ck_assert_int_eq(other_does(&o, ways[_i], &hold), 0);
	ck_code(check(&hold), 0);
	ck_code(other_does(&o, release, &hold), 0);
	other_ends(&o);
	ck_code(lockshm_close(seg), 0);
	ck_assert_int_eq(count_mapped(), 0);
	seg = opened_anew();
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, mapping_goes_with_the_last_thread_that_used_a_hold);
	tcase_add_test(tc, service_thread_stays_for_a_thread_that_takes_part);
	tcase_add_test(tc, close_in_such_a_thread);
	tcase_add_test(tc, close_by_the_only_user_unmaps);
	tcase_add_test(tc, call_on_a_renewed_hold_keeps_the_service_thread);
	tcase_add_test(tc, thread_does_not_collect_closed_segments);
	tcase_add_native(tc, release_while_another_thread_closes);
	if (!UNDER_TSAN && !emulated())
		tcase_add_loop_test(tc, child_of_a_thread_that_used_a_hold, 0, 3);
}

int main(void)
{
	return fixture_main("process holds, close", add);
}
