/* SPDX-License-Identifier: MIT */
/* registry.c - the table of open segments and the count of opens of each handle; see registry.h */
#include "segment/registry.h"

#include <stdlib.h>

#include "segment/process.h"

/* Written with the process-lock held, and never freed: a caller that must not lock can walk the list. */
struct seen_segment {
	const struct lockshm *s; /* NULL = of none now */
	struct seen_segment *next;
	bool taken;
};

static pthread_mutex_t lock_of_process = PTHREAD_MUTEX_INITIALIZER;
static struct seen_segment *seen_segments;
CDS_LIST_HEAD(process_segments);

void process_lock(void)
{
	pthread_mutex_lock(&lock_of_process);
}

void process_unlock(void)
{
	pthread_mutex_unlock(&lock_of_process);
}

/* ---------------------------------------------------------------- opens and closes */

/* A free entry of the list, perhaps a new one.  Process-lock held. */
static struct seen_segment *free_seen(void)
{
	struct seen_segment *p;

	for (p = seen_segments; p; p = p->next)
		if (!p->taken)
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->next = seen_segments;
	__atomic_store_n(&seen_segments, p, __ATOMIC_RELEASE);
	return p;
}

struct seen_segment *process_reserve(void)
{
	struct seen_segment *p;

	process_lock();
	p = free_seen();
	if (p)
		p->taken = true;
	process_unlock();
	return p;
}

/* Has a process of time namespace @ns another clock than @s?  0 = unknown. */
static bool has_other_clock(const struct lockshm *s, uint64_t ns)
{
	return s->clock_lost || (s->clock_ns && ns && s->clock_ns != ns);
}

/* The segment's own number as well: where inode numbers are short, they come again.  Process-lock held. */
static struct lockshm *find_open(dev_t dev, ino_t ino, uint64_t number, bool read_only, uint64_t ns)
{
	struct lockshm *s;

	cds_list_for_each_entry(s, &process_segments, all)
		if (s->opens > 0 && s->file.ino == ino && s->file.dev == dev && s->number == number &&
		    s->read_only == read_only && !has_other_clock(s, ns))
			return s;
	return NULL;
}

struct lockshm *process_open_again(const struct stat *st, uint64_t number, bool read_only, uint64_t ns)
{
	struct lockshm *s;

	/* After a fork past the C library: the handles are set up anew before one of them is returned. */
	(void)process_epoch();
	process_lock();
	s = find_open(st->st_dev, st->st_ino, number, read_only, ns);
	if (s)
		s->opens++;
	process_unlock();
	return s;
}

struct lockshm *process_add_segment(struct lockshm *s)
{
	struct lockshm *other;

	(void)process_epoch();
	process_lock();
	other = find_open(s->file.dev, s->file.ino, s->number, s->read_only, s->clock_ns);
	if (other) {
		other->opens++;
	} else {
		s->opens = 1;
		cds_list_add(&s->all, &process_segments);
		__atomic_store_n(&s->seen->s, s, __ATOMIC_RELEASE);
	}
	process_unlock();
	return other ? other : s;
}

enum process_close process_close_segment(const struct lockshm *wanted)
{
	enum process_close result = CLOSE_OF_NONE;
	struct lockshm *s;

	(void)process_epoch();
	process_lock();
	cds_list_for_each_entry(s, &process_segments, all)
		if (s == wanted && s->opens > 0)
			result = --s->opens > 0 ? CLOSE_OF_ONE : CLOSE_OF_LAST;
	process_unlock();
	return result;
}

void process_remove_segment(struct lockshm *s)
{
	process_lock();
	__atomic_store_n(&s->seen->s, NULL, __ATOMIC_RELEASE);
	s->seen->taken = false;
	cds_list_del(&s->all);
	process_unlock();
}

/* ---------------------------------------------------------------- is this pointer a handle? */

bool process_sees_segment(const struct lockshm *wanted)
{
	const struct seen_segment *p = __atomic_load_n(&seen_segments, __ATOMIC_ACQUIRE);

	while (p && __atomic_load_n(&p->s, __ATOMIC_ACQUIRE) != wanted)
		p = p->next;
	return p && wanted;
}

bool process_knows_segment(const struct lockshm *wanted)
{
	struct lockshm *s;
	bool found = false;

	process_lock();
	cds_list_for_each_entry(s, &process_segments, all)
		if (s == wanted)
			found = true;
	process_unlock();
	return found;
}

bool process_visit(struct lockshm *wanted, bool (*visit)(struct lockshm *s, void *arg), void *arg)
{
	struct lockshm *s;
	bool result = false;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	process_lock();
	cds_list_for_each_entry(s, &process_segments, all) {
		if (s != wanted)
			continue;
		pthread_mutex_lock(&s->lock);
		result = s->refs > 0 && visit(s, arg);
		pthread_mutex_unlock(&s->lock);
	}
	process_unlock();
	pthread_setcancelstate(cancel, NULL);
	return result;
}

bool process_ref_segment(struct lockshm *wanted)
{
	struct lockshm *s;
	bool found = false;

	process_lock();
	cds_list_for_each_entry(s, &process_segments, all) {
		if (s != wanted)
			continue;
		pthread_mutex_lock(&s->lock);
		found = s->refs > 0;
		s->refs += found;
		pthread_mutex_unlock(&s->lock);
	}
	process_unlock();
	return found;
}
