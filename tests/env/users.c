/* SPDX-License-Identifier: MIT */
/*
 * users.c - several users, one segment: rights, and deaths across users
 *
 * Users and groups are numbers that need not exist.  Needs root to become them.
 */
#define _GNU_SOURCE
#include "env.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUP 54300
#define ALICE 54321
#define BOB 54322
#define MALLORY 54323 /* of no group */

static struct environment as(uid_t uid, gid_t group)
{
	struct environment where = { .change_user = true, .uid = uid, .gid = uid, .group = group, .dont_open = true };

	return where;
}

static struct subject *subject_of(uid_t uid, gid_t group)
{
	struct environment where = as(uid, group);

	return subject_start(&where);
}

static int strict(struct subject *p, int hold, const char *key)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, 0, ACKNOWLEDGES);
}

static void of_root_for_a_group(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct subject *alice, *bob, *mallory;

	options.keys = options.requests = 64;
	options.owners = 16;
	options.permissions = 0660;
	options.group = GROUP;
	env_create(&options);
	alice = subject_of(ALICE, GROUP);
	bob = subject_of(BOB, GROUP);
	mallory = subject_of(MALLORY, 0);
	CHECK_CODE(subject_open(alice, 0), 0);
	CHECK_CODE(subject_open(bob, 0), 0);
	CHECK_CODE(subject_open(mallory, 0), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_open(mallory, LOCKSHM_OPEN_READ_ONLY), LOCKSHM_PERMISSION);

	/* The death of one user's process hands over to a process of another user without the right to signal it. */
	CHECK_CODE(strict(alice, 0, "key"), 0);
	CHECK_CODE(strict(bob, 1, "key"), LOCKSHM_BUSY);
	subject_begin(bob, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	subject_kill(alice);
	CHECK_CODE(subject_end(bob), LOCKSHM_OWNER_DIED);
	CHECK(bob->answer.report.damage.pid == alice->answer.pid);
	CHECK_CODE(subject_check(bob, 0), 0);
	subject_kill(bob);
	subject_kill(mallory);
	env_nothing_left(1);
}

/* Write permission does not permit removal: /dev/shm is sticky.  A refused attempt changes nothing. */
static void removal_by_the_group(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct subject *alice, *bob;

	options.keys = options.requests = 64;
	options.owners = 16;
	options.permissions = 0660;
	options.group = GROUP;
	env_create(&options);
	alice = subject_of(ALICE, GROUP);
	bob = subject_of(BOB, GROUP);
	CHECK_CODE(subject_open(alice, 0), 0);
	CHECK_CODE(strict(alice, 0, "key"), 0);
	CHECK_CODE(subject_destroy(bob), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_release(alice, 0), 0);
	CHECK_CODE(subject_current(alice), 0);
	CHECK_CODE(strict(alice, 0, "key"), 0);
	CHECK_CODE(subject_open(bob, 0), 0);
	CHECK_CODE(strict(bob, 0, "key"), LOCKSHM_BUSY);
	CHECK_CODE(subject_release(alice, 0), 0);
	subject_kill(alice);
	subject_kill(bob);
	env_nothing_left(1);
}

/* All may read it, only its owner's group may take locks. */
static void readable_by_all(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct subject *mallory;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	options.keys = options.requests = 64;
	options.owners = 16;
	options.permissions = 0644;
	env_create(&options);
	request.key = "key";
	request.key_len = 3;
	CHECK_CODE(lockshm_acquire(env_segment, &request, &hold), 0);
	mallory = subject_of(MALLORY, 0);
	CHECK_CODE(subject_open(mallory, 0), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_open(mallory, LOCKSHM_OPEN_READ_ONLY), 0);
	CHECK_CODE(subject_look(mallory, "key"), 0);
	CHECK(mallory->answer.token == lockshm_token(&hold));
	CHECK_CODE(strict(mallory, 0, "other"), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_destroy(mallory), LOCKSHM_PERMISSION);
	CHECK_CODE(lockshm_current(env_segment), 0);
	CHECK_CODE(lockshm_release(&hold, 0), 0);
	subject_kill(mallory);
	env_nothing_left(1);
}

/* A segment of another user than the caller or root is not trusted, not even by root, unless a flag asks for that. */
static void of_another_user(void)
{
	struct subject *alice = subject_of(ALICE, 0), *bob, *root = subject_of(0, 0);
	struct stat st;

	lockshm_close(env_segment);
	CHECK(unlink(env_path()) == 0);
	env_segment = NULL;
	CHECK_CODE(subject_create(alice, 0666), 0);
	CHECK(stat(env_path(), &st) == 0 && st.st_uid == ALICE && (st.st_mode & 07777) == 0666);
	bob = subject_of(BOB, 0);
	CHECK_CODE(subject_open(bob, 0), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_open(root, 0), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_open(bob, LOCKSHM_OPEN_ANY_OWNER), 0);
	CHECK_CODE(subject_open(root, LOCKSHM_OPEN_ANY_OWNER), 0);
	CHECK_CODE(strict(bob, 0, "key"), 0);
	CHECK_CODE(strict(alice, 0, "key"), LOCKSHM_BUSY);
	subject_kill(bob);
	CHECK_CODE(strict(alice, 0, "key"), LOCKSHM_OWNER_DIED);
	CHECK_CODE(subject_release(alice, 0), 0);
	CHECK_CODE(subject_destroy(alice), 0);
	subject_kill(alice);
	subject_kill(root);
}

/* A name that another user has taken. */
static void name_is_taken(void)
{
	struct subject *alice, *mallory = subject_of(MALLORY, 0);

	CHECK_CODE(subject_create(mallory, 0666), 0);
	alice = subject_of(ALICE, 0);
	CHECK_CODE(subject_create(alice, 0600), LOCKSHM_EXISTS);
	CHECK_CODE(subject_open(alice, 0), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_destroy(alice), LOCKSHM_PERMISSION);
	CHECK_CODE(subject_current(mallory), 0);
	CHECK_CODE(strict(mallory, 0, "key"), 0);
	CHECK_CODE(subject_destroy(mallory), 0);
	subject_kill(alice);
	subject_kill(mallory);
}

/* Options ask for a group that is not the caller's to give. */
static int create_for_group(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	options.group = GROUP;
	return lockshm_create(NULL, env_name, &options, NULL);
}

static void foreign_group(void)
{
	struct subject *mallory = subject_of(MALLORY, 0), *alice = subject_of(ALICE, GROUP);

	CHECK_CODE(subject_call(mallory, create_for_group), LOCKSHM_PERMISSION);
	CHECK(access(env_path(), F_OK) != 0);
	CHECK_CODE(subject_call(alice, create_for_group), 0);
	CHECK_CODE(subject_destroy(alice), 0);
	subject_kill(alice);
	subject_kill(mallory);
}

int main(void)
{
	env_need_root();
	of_root_for_a_group();
	removal_by_the_group();
	readable_by_all();
	of_another_user();
	name_is_taken();
	foreign_group();
	return 0;
}
