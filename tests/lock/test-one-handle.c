/* SPDX-License-Identifier: MIT */
/*
 * test-one-handle.c - a process has one handle of a segment, which counts its opens
 *
 * "User" is a part of the program that opens and closes for itself and knows nothing of the others.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE

static lockshm_t *another_open(const char *name, unsigned flags)
{
	struct lockshm_error error;
	lockshm_t *s = NULL;
	int code = lockshm_open(&s, name, flags, &error);

	ck_assert_msg(code == 0, "%s: %s", lockshm_code_name(code), error.message);
	return s;
}

/* ---------------------------------------------------------------- the same handle, counted */

/* Any pointer but an open handle: dead ones, wrong ones, its own memory. */
static void only_open_ones_close(void)
{
	static uint64_t zeros[512], ones[512];

	memset(ones, 0xff, sizeof(ones));
	ck_code(lockshm_close((lockshm_t *)(void *)zeros), LOCKSHM_INVALID);
	ck_code(lockshm_close((lockshm_t *)(void *)ones), LOCKSHM_INVALID);
	ck_code(lockshm_close((lockshm_t *)(uintptr_t)16), LOCKSHM_INVALID);
	ck_code(lockshm_close((lockshm_t *)UINTPTR_MAX), LOCKSHM_INVALID);
	ck_code(lockshm_close(NULL), 0);
}

START_TEST(second_open_gives_the_same_handle)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	lockshm_t *s;

	ck_assert_ptr_eq(another_open(seg_name, 0), seg);
	ck_assert_ptr_eq(another_open(seg_name + 1, 0), seg); /* without its slash */
	options.flags = LOCKSHM_CREATE_OR_OPEN;
	ck_code(lockshm_create(&s, seg_name, &options, NULL), 0);
	ck_assert_ptr_eq(s, seg);
	ck_code(lockshm_create(NULL, seg_name, &options, NULL), 0);
	ck_code(lockshm_create(&s, seg_name, NULL, NULL), LOCKSHM_EXISTS);
	only_open_ones_close();
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_current(seg), 0);
	ck_code(lockshm_close(seg), 0); /* the creator's own */
	ck_code(lockshm_close(seg), LOCKSHM_INVALID);
	ck_code(lockshm_close(seg), LOCKSHM_INVALID);
	seg = another_open(seg_name, 0);
	ck_code(lockshm_current(seg), 0);
}
END_TEST

/* Through a hard link, or from the place where it was renamed to. */
START_TEST(another_name_of_the_file_is_the_same_segment)
{
	const char *name = other_name("link");
	char old[300], new[300];
	lockshm_t *s;

	snprintf(old, sizeof(old), "%s", path_of(seg_name));
	snprintf(new, sizeof(new), "%s", path_of(name));
	ck_assert_int_eq(link(old, new), 0);
	s = another_open(name, 0);
	ck_assert_ptr_eq(s, seg);
	ck_assert_int_eq(unlink(old), 0);
	ck_code(lockshm_current(s), 0); /* it has a name */
	ck_assert_ptr_eq(another_open(name, 0), seg);
	ck_assert_int_eq(rename(new, old), 0);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_current(seg), 0);
}
END_TEST

START_TEST(read_only_handles_are_counted_apart)
{
	lockshm_t *ro = another_open(seg_name, LOCKSHM_OPEN_READ_ONLY);
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold;

	ck_assert_ptr_ne(ro, seg);
	ck_assert_ptr_eq(another_open(seg_name, LOCKSHM_OPEN_READ_ONLY), ro);
	ck_assert_ptr_eq(another_open(seg_name, 0), seg);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_close(ro), 0);
	ck_code(lockshm_acquire(ro, &request, &hold), LOCKSHM_PERMISSION);
	ck_code(lockshm_close(ro), 0);
	ck_code(lockshm_close(ro), LOCKSHM_INVALID);
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(segment_made_anew_is_another_handle)
{
	lockshm_t *old = seg, *fresh;
	lockshm_hold_t mine, hold;

	ck_assert_ptr_eq(another_open(seg_name, 0), old);
	ck_code(take(&mine, "k", X), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_code(lockshm_open(&fresh, seg_name, 0, NULL), LOCKSHM_NO_SEGMENT); /* although it is open */
	ck_code(lockshm_create(&fresh, seg_name, NULL, NULL), 0);
	ck_assert_ptr_ne(fresh, old);
	ck_assert_ptr_eq(another_open(seg_name, 0), fresh);
	ck_code(take(&hold, "other", X), LOCKSHM_NO_SEGMENT);
	seg = fresh;
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_close(old), 0);
	ck_code(lockshm_check(&mine, NULL), 0);
	ck_code(lockshm_release(&mine, 0), 0);
	ck_code(lockshm_close(old), 0);
	ck_code(lockshm_check(&hold, NULL), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_close(fresh), 0);
	ck_code(lockshm_current(fresh), 0);
}
END_TEST

/* ---------------------------------------------------------------- each open checks anew */

static int refused_although_open(void)
{
	lockshm_t *s;

	if (lockshm_open(&s, seg_name, 0, NULL) != LOCKSHM_PERMISSION || s)
		return 1;
	if (lockshm_open(&s, seg_name, LOCKSHM_OPEN_ANY_OWNER, NULL) != LOCKSHM_PERMISSION)
		return 2;
	return lockshm_current(seg) == 0 ? 0 : 3; /* the parent's goes on */
}

START_TEST(owner_and_mode_are_checked_anew)
{
	lockshm_t *s;

	if (not_root())
		return;
	ck_assert_int_eq(as_user(65534, refused_although_open), 0); /* mode 0600 */
	ck_assert_int_eq(chown(path_of(seg_name), 65534, 65534), 0);
	ck_code(lockshm_open(&s, seg_name, 0, NULL), LOCKSHM_PERMISSION);
	ck_assert_ptr_eq(another_open(seg_name, LOCKSHM_OPEN_ANY_OWNER), seg);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_current(seg), 0);
}
END_TEST

START_TEST(file_and_arguments_are_checked_anew)
{
	struct shm_header *h = seg->header;
	lockshm_t *s;

	ck_code(lockshm_open(&s, seg_name, 0x80, NULL), LOCKSHM_INVALID);
	h->n_owners++;
	ck_code(lockshm_open(&s, seg_name, 0, NULL), LOCKSHM_BAD_SEGMENT);
	ck_assert_ptr_null(s);
	h->n_owners--;
	h->format++;
	ck_code(lockshm_open(&s, seg_name, 0, NULL), LOCKSHM_VERSION);
	h->format--;
	ck_code(lockshm_close(seg), 0); /* none of them was counted */
	ck_code(lockshm_close(seg), LOCKSHM_INVALID);
	seg = another_open(seg_name, 0);
}
END_TEST

/* ---------------------------------------------------------------- two users */

/* Of the thread, renewed, and of the process. */
START_TEST(close_that_is_not_the_last_ends_nothing)
{
	struct lockshm_request request = request_for("renewed", X);
	lockshm_hold_t plain, renewed, of_process, hold;
	lockshm_t *second = another_open(seg_name, 0);
	uint32_t owners;

	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = LOCKSHM_AUTO_RENEW;
	ck_code(take(&plain, "plain", X), 0);
	ck_code(lockshm_acquire(second, &request, &renewed), 0);
	ck_code(take(&of_process, "of-process", X), 0);
	ck_code(lockshm_move(&of_process, LOCKSHM_TO_PROCESS), 0);
	owners = stat_now().owners_used;
	ck_code(lockshm_close(second), 0);
	ck_assert_uint_eq(stat_now().owners_used, owners); /* the service thread, too */
	ck_code(lockshm_check(&plain, NULL), 0);
	ck_code(lockshm_check(&renewed, NULL), 0);
	ck_code(lockshm_check(&of_process, NULL), 0);
	ck_code(lockshm_release(&plain, 0), 0);
	ck_code(lockshm_release(&renewed, 0), 0);
	ck_code(take(&hold, "of-process", X), LOCKSHM_BUSY);
	ck_code(lockshm_close(seg), 0); /* the last one ends what is left */
	seg = another_open(seg_name, 0);
	ck_code(take(&hold, "of-process", X), 0);
	verify_clean();
}
END_TEST

START_TEST(one_user_waits_for_the_others_hold)
{
	struct lockshm_request request = request_for("k", X);
	lockshm_t *second = another_open(seg_name, 0);
	lockshm_hold_t one, two;

	request.timeout_ns = LOCKSHM_FOREVER;
	ck_code(take(&one, "k", X), 0);
	ck_code(lockshm_acquire(second, &request, &two), LOCKSHM_DEADLOCK);
	ck_code(lockshm_release(&one, 0), 0);
	ck_code(lockshm_acquire(second, &request, &two), 0);
	ck_code(lockshm_release(&two, 0), 0);
	ck_code(lockshm_close(second), 0);
}
END_TEST

/* A thread of its own for each user, and keys in opposite order: one of the two is refused. */
struct crossing {
	lockshm_t *s;
	const char *first, *then;
	pthread_barrier_t *both_hold;
	int code;
};

static void *cross(void *arg)
{
	struct crossing *c = arg;
	struct lockshm_request request = request_for(c->first, X);
	lockshm_hold_t first, then;

	c->code = lockshm_acquire(c->s, &request, &first);
	pthread_barrier_wait(c->both_hold);
	if (c->code)
		return NULL;
	request.key = c->then;
	request.timeout_ns = PATIENCE;
	c->code = lockshm_acquire(c->s, &request, &then);
	if (c->code == 0)
		lockshm_release(&then, 0);
	lockshm_release(&first, 0);
	return NULL;
}

START_TEST(deadlock_between_two_users_is_noticed)
{
	struct crossing one = { .s = seg, .first = "a", .then = "b" }, two = { .first = "b", .then = "a" };
	pthread_barrier_t both_hold;
	pthread_t thread;

	pthread_barrier_init(&both_hold, NULL, 2);
	one.both_hold = two.both_hold = &both_hold;
	two.s = another_open(seg_name, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, cross, &one), 0);
	cross(&two);
	pthread_join(thread, NULL);
	/* Of two that close a circle at once both may notice it. */
	ck_assert_msg(one.code == LOCKSHM_DEADLOCK || two.code == LOCKSHM_DEADLOCK, "%s and %s", outcome_name(one.code),
		      outcome_name(two.code));
	ck_assert(one.code == 0 || one.code == LOCKSHM_DEADLOCK);
	ck_assert(two.code == 0 || two.code == LOCKSHM_DEADLOCK);
	ck_code(lockshm_close(two.s), 0);
}
END_TEST

struct waiter {
	lockshm_t *s;
	int code, released;
};

static void *wait_for_k(void *arg)
{
	struct waiter *w = arg;
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t hold;

	request.timeout_ns = PATIENCE;
	w->code = lockshm_acquire(w->s, &request, &hold);
	w->released = w->code ? w->code : lockshm_release(&hold, 0);
	return NULL;
}

static bool one_waits(void *unused)
{
	struct seen seen;

	(void)unused;
	look("k", &seen);
	return seen.waiters == 1;
}

START_TEST(close_with_another_thread_inside)
{
	struct waiter w = { .s = another_open(seg_name, 0) };
	lockshm_hold_t hold;
	pthread_t thread;

	ck_code(take(&hold, "k", X), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_k, &w), 0);
	ck_assert(await(one_waits, NULL));
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	pthread_join(thread, NULL);
	ck_code(w.code, 0);
	ck_code(w.released, 0);
}
END_TEST

/* ---------------------------------------------------------------- the last close */

struct stayer {
	lockshm_t *s;
	pthread_barrier_t turn;
	int held, released;
};

static void *stay(void *arg)
{
	struct stayer *t = arg;
	struct lockshm_request request = request_for("stays", X);
	lockshm_hold_t hold;

	t->held = lockshm_acquire(t->s, &request, &hold);
	pthread_barrier_wait(&t->turn);
	pthread_barrier_wait(&t->turn);
	t->released = lockshm_release(&hold, 0);
	return NULL;
}

/* Another thread keeps the mapping: a closed handle is not opened again. */
START_TEST(open_after_the_last_close_is_another_handle)
{
	struct stayer t = { .s = seg };
	lockshm_hold_t hold;
	lockshm_t *closed = seg;
	pthread_t thread;

	pthread_barrier_init(&t.turn, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, stay, &t), 0);
	pthread_barrier_wait(&t.turn);
	ck_code(t.held, 0);
	ck_code(lockshm_close(closed), 0);
	ck_code(lockshm_close(closed), LOCKSHM_INVALID);
	seg = another_open(seg_name, 0);
	ck_assert_ptr_ne(seg, closed);
	ck_assert_ptr_eq(another_open(seg_name, 0), seg);
	ck_code(take(&hold, "stays", X), LOCKSHM_BUSY);
	pthread_barrier_wait(&t.turn);
	pthread_join(thread, NULL);
	ck_code(t.released, 0);
	ck_code(take(&hold, "stays", X), 0);
	ck_code(lockshm_close(closed), LOCKSHM_INVALID);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_check(&hold, NULL), 0);
}
END_TEST

/* ---------------------------------------------------------------- fork */

/* The child of a process that has opened it three times. */
static int close_all_and_open(lockshm_t *inherited)
{
	lockshm_hold_t hold;

	if (another_open(seg_name, 0) != inherited || lockshm_close(inherited) != 0)
		return 1;
	if (take(&hold, "k", X) != 0)
		return 2;
	if (lockshm_close(inherited) != 0 || lockshm_close(inherited) != 0 || lockshm_check(&hold, NULL) != 0)
		return 3;
	if (lockshm_close(inherited) != 0 || lockshm_close(inherited) != LOCKSHM_INVALID)
		return 4;
	if (lockshm_check(&hold, NULL) != LOCKSHM_NOT_HELD)
		return 5;
	seg = another_open(seg_name, 0);
	return take(&hold, "k", X) == 0 && lockshm_release(&hold, 0) == 0 && lockshm_close(seg) == 0 ? 0 : 6;
}

START_TEST(child_counts_for_itself)
{
	lockshm_hold_t mine;
	int status;
	pid_t pid;

	another_open(seg_name, 0);
	another_open(seg_name, 0);
	ck_code(take(&mine, "mine", X), 0);
	pid = fork();
	if (pid == 0)
		_exit(close_all_and_open(seg));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "child: step %d", WEXITSTATUS(status));
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_check(&mine, NULL), 0);
	ck_code(lockshm_release(&mine, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, second_open_gives_the_same_handle);
	tcase_add_test(tc, another_name_of_the_file_is_the_same_segment);
	tcase_add_test(tc, read_only_handles_are_counted_apart);
	tcase_add_test(tc, segment_made_anew_is_another_handle);
	tcase_add_test(tc, owner_and_mode_are_checked_anew);
	tcase_add_test(tc, file_and_arguments_are_checked_anew);
	tcase_add_test(tc, close_that_is_not_the_last_ends_nothing);
	tcase_add_test(tc, one_user_waits_for_the_others_hold);
	tcase_add_test(tc, deadlock_between_two_users_is_noticed);
	tcase_add_test(tc, close_with_another_thread_inside);
	tcase_add_test(tc, open_after_the_last_close_is_another_handle);
	tcase_add_test(tc, child_counts_for_itself);
}

int main(void)
{
	return fixture_main("one handle", add);
}
