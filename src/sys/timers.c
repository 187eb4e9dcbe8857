/* SPDX-License-Identifier: MIT */
/* timers.c - a pairing heap; see timers.h */
#include "sys/timers.h"

#include <stdbool.h>
#include <stddef.h>

/* Two heaps into one.  Both roots are without siblings. */
static struct timer *meld(struct timer *a, struct timer *b)
{
	struct timer *first = a, *other = b;

	if (!a || !b)
		return a ? a : b;
	if (b->at < a->at) {
		first = b;
		other = a;
	}
	other->prev = first;
	other->next = first->child;
	if (other->next)
		other->next->prev = other;
	first->child = other;
	return first;
}

/* A list of siblings into one heap: pairs from left to right, then all from right to left. */
static struct timer *meld_all(struct timer *t)
{
	struct timer *pairs = NULL, *all = NULL;

	while (t) {
		struct timer *a = t, *b = t->next, *pair;

		t = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct timer *pair = pairs;

		pairs = pair->next;
		pair->next = NULL;
		all = meld(all, pair);
	}
	return all;
}

static bool is_set(const struct timers *all, const struct timer *t)
{
	return t->prev || all->first == t;
}

static void cut(struct timer *t)
{
	if (t->prev->child == t)
		t->prev->child = t->next;
	else
		t->prev->next = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->next = t->prev = NULL;
}

void timer_end(struct timers *all, struct timer *t)
{
	struct timer *rest;

	if (!is_set(all, t))
		return;
	rest = meld_all(t->child);
	t->child = NULL;
	if (all->first == t) {
		all->first = rest;
		return;
	}
	cut(t);
	all->first = meld(all->first, rest);
}

void timer_set(struct timers *all, struct timer *t, int64_t at)
{
	timer_end(all, t);
	t->at = at;
	if (at != INT64_MAX)
		all->first = meld(all->first, t);
}
