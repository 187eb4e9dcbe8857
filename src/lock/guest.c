/* SPDX-License-Identifier: MIT */
/* guest.c - a thread that uses holds of the process and takes no part; see guest.h */
#include "lock/guest.h"

#include <stdlib.h>

__thread struct guest *guests_of_thread FAST_TLS;

struct join {
	struct guest *guest;
	uint64_t process_uid;
};

/* Its thread takes it no more, or is gone. */
static void give_back(struct thread_part *part)
{
	struct guest *g = caa_container_of(part, struct guest, part);

	segment_unref_own(g->segment);
	free(g);
}

/* Process-lock and the segment's lock held. */
static bool count_in(struct lockshm *s, void *arg)
{
	const struct join *j = arg;

	if (load_relaxed(&s->process_uid) != j->process_uid)
		return false;
	s->refs++;
	s->own_refs++;
	thread_part_begin(s, &j->guest->part, give_back);
	return true;
}

static void drop(struct guest **at)
{
	struct guest *g = *at;

	*at = g->next;
	pthread_mutex_lock(&g->segment->lock);
	thread_part_end(&g->part);
	pthread_mutex_unlock(&g->segment->lock);
	give_back(&g->part);
}

/* No hold of the process is left there: a thread that goes from segment to segment keeps one closed one at most. */
static void leave_ended(void)
{
	struct guest **at = &guests_of_thread;

	while (*at) {
		if (load_relaxed(&(*at)->segment->process_uid) == 0)
			drop(at);
		else
			at = &(*at)->next;
	}
}

static bool join(struct lockshm *s, uint64_t process_uid)
{
	uint64_t epoch = process_epoch();
	struct guest *g;

	if (thread_expect_end() != 0)
		return false;
	participant_add_hooks();
	participant_forget_inherited(epoch);
	leave_ended();
	g = malloc(sizeof(*g));
	if (g)
		*g = (struct guest){ .segment = s, .epoch = epoch, .next = guests_of_thread };
	if (!g || !process_visit(s, count_in, &(struct join){ g, process_uid })) {
		free(g);
		return false;
	}
	guests_of_thread = g;
	thread_parts_give_back(s, false);
	return true;
}

bool guest_join(struct lockshm *s, uint64_t process_uid)
{
	int cancel;
	bool joined;

	/* Unmapping closes a descriptor, which is a cancellation point. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	joined = join(s, process_uid);
	pthread_setcancelstate(cancel, NULL);
	return joined;
}

void guest_leave(struct lockshm *s)
{
	struct guest **at = &guests_of_thread;

	while (*at && (*at)->segment != s)
		at = &(*at)->next;
	if (*at)
		drop(at);
}

void guest_leave_all(void)
{
	while (guests_of_thread)
		drop(&guests_of_thread);
}

void guest_forget_inherited(uint64_t epoch)
{
	struct guest **at = &guests_of_thread, *g;

	while ((g = *at) != NULL) {
		if (g->epoch == epoch) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		free(g);
	}
}
