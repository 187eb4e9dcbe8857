/* SPDX-License-Identifier: MIT */
/* thread-end.c - see thread-end.h */
#define _GNU_SOURCE
#include "lock/thread-end.h"

#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/guest.h"
#include "lock/participant.h"
#include "sys/proc-fs.h"

#define SOME 4

static pthread_key_t exit_key;
static int exit_key_error; /* error of its creation */
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* The value of the key: the place of the next round. */
static char rounds[PTHREAD_DESTRUCTOR_ITERATIONS];

static void at_round(void *place)
{
	char *next = (char *)place + 1;

	if (next < rounds + PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(exit_key, next) == 0)
		return;
	participant_leave_all();
	guest_leave_all();
}

static void make_exit_key(void)
{
	exit_key_error = pthread_key_create(&exit_key, at_round);
}

int thread_expect_end(void)
{
	pthread_once(&exit_once, make_exit_key);
	if (exit_key_error)
		return exit_key_error;
	/* In a destructor some rounds may be over. */
	return pthread_getspecific(exit_key) ? 0 : pthread_setspecific(exit_key, rounds);
}

void thread_part_begin(struct lockshm *s, struct thread_part *part, void (*give_back)(struct thread_part *part))
{
	part->tid = (int32_t)syscall(SYS_gettid);
	part->give_back = give_back;
	cds_list_add_tail(&part->of_segment, &s->parts);
}

/* Of the process' own knowledge, and not by what the segment says, which may be damaged.  When the kernel has the thread no
 * more, it is done with the thread's robust list.  If another one has the number, that one has to end first. */
static struct thread_part *take_left(struct lockshm *s, bool each)
{
	struct thread_part *part, *found = NULL;
	int32_t pid = (int32_t)getpid();
	unsigned looks;

	pthread_mutex_lock(&s->lock);
	/* In turn: each part has a reference. */
	for (looks = each ? s->refs : SOME; looks > 0 && !found && !cds_list_empty(&s->parts); looks--) {
		part = cds_list_first_entry(&s->parts, struct thread_part, of_segment);
		cds_list_del(&part->of_segment);
		if (procfs_thread_is_gone(pid, part->tid))
			found = part;
		else
			cds_list_add_tail(&part->of_segment, &s->parts);
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

void thread_parts_give_back(struct lockshm *s, bool each)
{
	struct thread_part *part;

	while ((part = take_left(s, each)) != NULL)
		part->give_back(part);
}
