/* SPDX-License-Identifier: MIT */
/* step-crowd.c - readers of one process, more than a granter wakes one by one; see step-arrange.h */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "step-arrange.h"
#include "support/fixture.h"

#define READERS 50u /* 33 are woken one by one */

static struct {
	const struct scene *scene;
	unsigned *served; /* of all readers of the round, in memory shared with the crowds */
	unsigned begun;	  /* how many there are */
} crowd;

/* Takes the key once.  It acknowledges no mark: the scene's other processes report them. */
static void *reads_once(void *unused)
{
	struct lockshm_request request = request_for(crowd.scene->key, LOCKSHM_SHARED);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	(void)unused;
	request.flags = crowd.scene->kind == SCENE_PLAIN ? 0 : LOCKSHM_ROBUST;
	request.timeout_ns = LOCKSHM_FOREVER;
	request.ttl_ns = LOCKSHM_FOREVER;
	if (lockshm_acquire(seg, &request, &hold) >= 0 && lockshm_release(&hold, 0) == 0)
		__atomic_fetch_add(crowd.served, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

static void be_the_crowd(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (i = 0; i < READERS; i++)
		if (pthread_create(&thread, &attr, reads_once, NULL) != 0)
			_exit(1);
	for (;;)
		pause();
}

static unsigned served(void)
{
	return __atomic_load_n(crowd.served, __ATOMIC_SEQ_CST);
}

/* Some may have been served: the victim's short lease is over on a slow machine. */
static bool all_wait_or_had_it(void *unused)
{
	unsigned n = served();
	uint32_t i;

	(void)unused;
	for (i = 1; i <= seg->n_requests; i++)
		n += word_is(load_acquire(&seg->requests[i].word), REQUEST_WAITING);
	return n >= crowd.begun;
}

static bool all_had_it(void *unused)
{
	(void)unused;
	return served() == crowd.begun;
}

void many_readers_wait(struct scene *s)
{
	if (!crowd.served)
		crowd.served = mmap(NULL, sizeof(*crowd.served), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(crowd.served, MAP_FAILED);
	*crowd.served = 0;
	crowd.scene = s;
	crowd.begun = READERS;
	s->crowd = fork();
	ck_assert_int_ge(s->crowd, 0);
	if (s->crowd == 0)
		be_the_crowd();
	ck_assert(await(all_wait_or_had_it, NULL));
}

void key_is_held_before_many(struct scene *s)
{
	key_is_held(s);
	many_readers_wait(s);
}

void many_were_served(struct scene *s, bool stopped)
{
	if (stopped || !s->crowd)
		return;
	ck_assert_msg(await(all_had_it, NULL), "point %u: %u of %u readers had the key", s->point, served(), crowd.begun);
	kill(s->crowd, SIGKILL);
	ck_assert_int_eq(waitpid(s->crowd, NULL, 0), s->crowd);
	s->crowd = 0;
}
